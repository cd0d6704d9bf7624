/* Folders made by hand, good and bad. The verdicts are those of the format's published rules. */
#include "weights/files_for_test.h"

/* Writes NAME with a header and data_len bytes of data. */
static void write_shard(const char *name, struct str header, size_t data_len) {
    struct buf bytes;
    uint64_t len = header.len;
    buf_init(&bytes);
    buf_add(&bytes, (struct str){(const char *)&len, sizeof len});
    buf_add(&bytes, header);
    for (size_t i = 0; i < data_len; i++)
        buf_add_char(&bytes, (char)i);
    write_file(name, bytes.data, bytes.len);
    buf_release(&bytes);
}

struct verdict {
    const char *header;
    size_t data_len;
    const char *says; /* NULL: accepted */
};

static void check_verdicts(const struct verdict *verdicts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        write_shard("model.safetensors", str_from(verdicts[i].header), verdicts[i].data_len);
        check_open(test_folder, verdicts[i].says);
        if (verdicts[i].says) /* whatever is wrong, the file is named */
            check_open(test_folder, "model.safetensors: ");
    }
}

#define CHECK(verdicts) check_verdicts(verdicts, sizeof(verdicts) / sizeof(verdicts)[0])

#define F32_1 "\"dtype\":\"F32\",\"shape\":[1],"
#define F32_2 "\"dtype\":\"F32\",\"shape\":[2],"

static void offsets_that_lie_are_refused(void **state) {
    (void)state;
    const struct verdict verdicts[] = {
        {"{\"a\":{" F32_1 "\"data_offsets\":[4,0]}}", 4, "[4, 0], which are reversed"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[-4,0]}}", 4, "something else than whole numbers"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[0.0,4.0]}}", 4, "something else than whole numbers"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[0,4,8]}}", 4, "data_offsets that are two numbers"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[0]}}", 4, "data_offsets that are two numbers"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[0,18446744073709551616]}}", 4, "whole numbers"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[18446744073709551612,18446744073709551615]}}", 4,
         "has 3 bytes"},
        {"{\"a\":{" F32_2 "\"data_offsets\":[0,8]},\"b\":{" F32_2 "\"data_offsets\":[4,12]}}", 12,
         "\"b\" begins at 4 of the data, inside the one before it, which ends at 8"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[0,4]},\"b\":{" F32_1 "\"data_offsets\":[8,12]}}", 12,
         "\"b\" begins at 8 of the data, behind a hole, the one before it ends at 4"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[4,8]}}", 8, "behind a hole"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[0,4]}}", 5, "is 67 bytes, its header says 66"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[0,4]}}", 3, "is 65 bytes, its header says 66"},
        {"{}", 1, "is 11 bytes, its header says 10"},
    };
    CHECK(verdicts);
}

static void types_and_shapes_that_lie_are_refused(void **state) {
    (void)state;
    const struct verdict verdicts[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[8589934592,8589934592],\"data_offsets\":[0,4]}}", 4,
         "shape that overflows"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
         "shape that overflows"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", 4,
         "\"a\" has 4 bytes by its data_offsets, its type and shape ask for 4000000"},
        {"{\"a\":{\"dtype\":\"F128\",\"shape\":[1],\"data_offsets\":[0,16]}}", 16,
         "\"a\" has the type \"F128\", which is not known"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
         "3 values of type F4, which are no whole bytes"},
        {"{\"a\":{\"dtype\":4,\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4, "whole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no data_offsets"},
        {"{\"a\":[]}", 0, "is no object"},
        {"{\"__metadata__\":{\"format\":1}}", 0, "\"format\" that is no text"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is no object"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[0,4]},\"a\":{" F32_1 "\"data_offsets\":[4,8]}}", 8,
         "\"a\""},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
         "its header is damaged"},
    };
    CHECK(verdicts);
}

static void unusual_headers_are_accepted(void **state) {
    (void)state;
    const struct verdict verdicts[] = {
        {"{}", 0, NULL},
        {"{\"__metadata__\":{\"format\":\"pt\"}}", 0, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, NULL},
        {"{\"a\":{\"data_offsets\":[0,4],\"shape\":[1],\"dtype\":\"F32\"}}      ", 4, NULL},
        {"{\"z\":{" F32_1 "\"data_offsets\":[0,4]},\"e\":{\"dtype\":\"F32\",\"shape\":[0,7],"
         "\"data_offsets\":[4,4]},\"a\":{" F32_1 "\"data_offsets\":[4,8]}}",
         8, NULL},
        {"{\"b\":{" F32_1 "\"data_offsets\":[4,8]},\"a\":{" F32_1 "\"data_offsets\":[0,4]}}", 8,
         NULL},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2, NULL},
    };
    CHECK(verdicts);
}

/* A header is never one tree: what a member may have is bounded, and names twice are still found.
 */
static void members_of_the_header_are_bounded(void **state) {
    (void)state;
    const struct verdict verdicts[] = {
        {"{\"a\":{" F32_1 "\"data_offsets\":[0,4]},\"a\":{" F32_1 "\"data_offsets\":[4,8]}}", 8,
         "tensor \"a\" appears twice"},
        {"{\"a\":{" F32_1 "\"data_offsets\":[0,4]},\"\\u0061\":{" F32_1 "\"data_offsets\":[4,8]}}",
         8, "tensor \"a\" appears twice"},
        {"{\"a\":{" F32_1 F32_1 "\"data_offsets\":[0,4]}}", 4, "JSON has \"dtype\" twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "has __metadata__ twice"},
        {"{\"\\u0061b\":{\"dtype\":\"\\u00463\\u0032\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"c\":{" F32_1 "\"data_offsets\":[4,8]}}",
         8, NULL},
        {"{}", 0, NULL},
    };
    CHECK(verdicts);
    struct buf header;
    buf_init(&header);
    buf_add(&header, STR("{\"a\":{\"dtype\":\"F32\",\"shape\":[1"));
    for (int i = 0; i < 70000; i++)
        buf_add(&header, STR(",1"));
    buf_add(&header, STR("],\"data_offsets\":[0,4]}}"));
    write_shard("model.safetensors", buf_str(&header), 4);
    check_open(test_folder, "more than 65536 values");
    buf_release(&header);
}

static void header_lengths_that_lie_are_refused(void **state) {
    (void)state;
    const struct {
        uint64_t len;
        const char *rest, *says;
    } cases[] = {
        {2, "", "is 8 bytes, its header alone needs 10"},
        {3, "{}", "is 10 bytes, its header alone needs 11"},
        {0, "", "does not begin with '{'"},
        {UINT64_MAX, "{}", "a header of 18446744073709551615 bytes"},
        {(uint64_t)1 << 63, "{}", "a header of 9223372036854775808 bytes"},
        {SL_SAFETENSORS_HEADER_MAX + 1, "{}", "more than 104857600"},
        {2, "[]", "does not begin with '{'"},
        {2, "{,", "its header is damaged: "},
        {3, " {}", "does not begin with '{'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char bytes[32];
        size_t len = strlen(cases[i].rest);
        memcpy(bytes, &cases[i].len, 8);
        memcpy(bytes + 8, cases[i].rest, len);
        write_file("model.safetensors", bytes, 8 + len);
        check_open(test_folder, cases[i].says);
    }
    write_file("model.safetensors", "abcd", 4);
    check_open(test_folder, "model.safetensors: is 4 bytes, too short");
}

static const char two_tensors[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"w\":{\"dtype\":\"BF16\",\"shape\":[3,2],\"data_offsets\":[0,12]},"
    "\"n\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[12,28]},"
    "\"s\":{\"dtype\":\"F32\",\"shape\":[5000],\"data_offsets\":[28,20028]}}";

static void shard_that_was_cut_is_refused(void **state) {
    (void)state;
    struct str header = STR(two_tensors);
    const size_t cuts[] = {1, 4096, 20028};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        char says[64];
        write_shard("model.safetensors", header, 20028 - cuts[i]);
        snprintf(says, sizeof says, "is %zu bytes, its header says %zu",
                 8 + header.len + 20028 - cuts[i], 8 + header.len + 20028);
        check_open(test_folder, says);
    }
}

static void tensors_are_found_where_they_lie(void **state) {
    (void)state;
    struct opened opened;
    write_shard("model.safetensors", STR(two_tensors), 20028);
    open_model(&opened, test_folder, true);
    assert_int_equal(opened.status, SL_OK);
    assert_ptr_equal(opened.container, &container_safetensors);
    assert_int_equal(opened.index.count, 2);
    const struct tensor *w = index_find(&opened.index, STR("w"));
    assert_non_null(w);
    assert_int_equal(w->dtype, DTYPE_BF16);
    assert_int_equal(w->dims, 2);
    assert_int_equal(w->shape[0], 3);
    assert_int_equal(w->shape[1], 2);
    assert_int_equal(w->offset, 8 + sizeof two_tensors - 1);
    assert_int_equal(w->bytes, 12);
    const struct tensor *s = index_find(&opened.index, STR("s"));
    assert_int_equal(s->offset, w->offset + 28);
    assert_null(index_find(&opened.index, STR("__metadata__")));
    release_model(&opened);
}

static void types_that_are_not_read_are_kept_by_name(void **state) {
    (void)state;
    struct opened opened;
    const char header[] =
        "{\"n\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"v\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1,2],\"data_offsets\":[16,20]}}";
    write_shard("model.safetensors", STR(header), 20);
    open_model(&opened, test_folder, true);
    assert_int_equal(opened.status, SL_OK);
    assert_int_equal(opened.index.count, 0);
    assert_int_equal(opened.index.unsupported_count, 2);
    assert_null(index_find(&opened.index, STR("n")));
    const struct tensor_unsupported *n = index_unsupported_find(&opened.index, STR("n"));
    assert_true(str_is(n->type, "I64"));
    assert_int_equal(n->bytes, 16);
    const struct tensor_unsupported *v = index_unsupported_find(&opened.index, STR("v"));
    assert_true(str_is(v->type, "F16 with 5 dimensions"));
    assert_null(index_unsupported_find(&opened.index, STR("w")));
    release_model(&opened);
}

#define ONE(name) "{\"" name "\":{" F32_1 "\"data_offsets\":[0,4]}}"
#define SHARD_1 "model-00001-of-00002.safetensors"
#define SHARD_2 "model-00002-of-00002.safetensors"
#define INDEX "model.safetensors.index.json"

static void write_index(const char *text) {
    write_file(INDEX, text, strlen(text));
}

static void set_of_shards_opens_as_one(void **state) {
    (void)state;
    struct opened opened;
    write_shard(SHARD_1, STR(ONE("a")), 4);
    write_shard(SHARD_2, STR(ONE("b")), 4);
    write_index("{\"metadata\":{\"total_size\":8},\"weight_map\":{\"b\":\"" SHARD_2
                "\",\"a\":\"" SHARD_1 "\"}}");
    open_model(&opened, test_folder, true);
    assert_int_equal(opened.status, SL_OK);
    assert_int_equal(opened.index.file_count, 2);
    const struct tensor *a = index_find(&opened.index, STR("a"));
    assert_non_null(strstr(opened.index.files[a->file]->path, SHARD_1));
    const struct tensor *b = index_find(&opened.index, STR("b"));
    assert_non_null(strstr(opened.index.files[b->file]->path, SHARD_2));
    release_model(&opened);
}

static void sets_that_are_not_whole_are_refused(void **state) {
    (void)state;
    write_shard(SHARD_1, STR(ONE("a")), 4);
    write_index("{\"weight_map\":{\"a\":\"" SHARD_1 "\",\"b\":\"" SHARD_2 "\"}}");
    check_open(test_folder, SHARD_2 ": not found, but " INDEX " names it");
    write_shard(SHARD_2, STR(ONE("a")), 4);
    check_open(test_folder, SHARD_2 ": tensor \"a\" is in ");
    write_shard(SHARD_2, STR(ONE("c")), 4);
    check_open(test_folder,
               INDEX ": says that tensor \"b\" is in " SHARD_2 ", which does not have");
    write_shard(SHARD_2, STR(ONE("b")), 3);
    check_open(test_folder, SHARD_2 ": is ");
    write_shard(SHARD_2, STR(ONE("b")), 4);
    check_open(test_folder, NULL);
    write_index("{\"weight_map\":{\"a\":\"" SHARD_2 "\",\"b\":\"" SHARD_1 "\"}}");
    check_open(test_folder, "says that tensor \"a\" is in " SHARD_2);
}

static void index_files_that_lie_are_refused(void **state) {
    (void)state;
    write_shard(SHARD_1, STR(ONE("a")), 4);
    const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"../" SHARD_1 "\"}}", "not the name of a file beside it"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "not the name of a file beside it"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "not the name of a file beside it"},
        {"{\"weight_map\":{\"a\":\".\"}}", "not the name of a file beside it"},
        {"{\"weight_map\":{\"a\":\"\"}}", "not the name of a file beside it"},
        {"{\"weight_map\":{\"a\":\"x\\u0000.safetensors\"}}", "not the name of a file beside it"},
        {"{\"weight_map\":{\"a\":1}}", "not the name of a file beside it"},
        {"{\"weight_map\":{\"a\":\"" SHARD_1 "\",\"a\":\"" SHARD_1 "\"}}", "is damaged"},
        {"{\"weight_map\":{}}", "its weight_map is empty"},
        {"{\"weight_map\":[]}", "has no weight_map"},
        {"{}", "has no weight_map"},
        {"[]", "has no weight_map"},
        {"{\"weight_map\":", "is damaged"},
        {"", "is damaged"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_index(cases[i].text);
        check_open(test_folder, cases[i].says);
        check_open(test_folder, INDEX ": ");
    }
}

static void folders_without_the_usual_names_are_told_so(void **state) {
    (void)state;
    check_open(test_folder, "has no weights: neither model.safetensors nor " INDEX " is there");
    write_file("pytorch_model.bin", "x", 1);
    check_open(test_folder, "PyTorch's own files are not read");
    write_file("m.gguf", "x", 1);
    check_open(test_folder, "to use m.gguf, name that file");
    write_shard(SHARD_1, STR(ONE("a")), 4);
    check_open(test_folder, "has " SHARD_1 ", but neither");
    unlink(test_path(SHARD_1));
    write_shard("weights.safetensors", STR(ONE("a")), 4);
    check_open(test_folder, NULL);
    write_shard("more.safetensors", STR(ONE("b")), 4);
    check_open(test_folder, " and others, but neither model.safetensors");
    write_shard("model.safetensors", STR(ONE("c")), 4);
    check_open(test_folder, NULL);
}

static void metadata_alone_needs_no_weights(void **state) {
    (void)state;
    struct opened opened;
    open_model(&opened, test_folder, false);
    assert_int_equal(opened.status, SL_OK);
    assert_ptr_equal(opened.container, &container_safetensors);
    assert_int_equal(opened.index.file_count, 0);
    release_model(&opened);
}

static void damaged_headers_never_crash(void **state) {
    (void)state;
    struct buf whole;
    struct error err;
    const char header[] = "{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                          "\"b\":{" F32_1 "\"data_offsets\":[12,16]}}";
    write_shard("model.safetensors", STR(header), 16);
    buf_init(&whole);
    assert_int_equal(file_read_all(test_path("model.safetensors"), 4096, &whole, &err), SL_OK);
    damage_everywhere("model.safetensors", test_folder, buf_str(&whole), whole.len);
    buf_release(&whole);
}

static void damaged_index_files_never_crash(void **state) {
    (void)state;
    const char text[] = "{\"metadata\":{\"total_size\":8},\"weight_map\":{\"b\":\"" SHARD_2
                        "\",\"a\":\"" SHARD_1 "\"}}";
    write_shard(SHARD_1, STR(ONE("a")), 4);
    write_shard(SHARD_2, STR(ONE("b")), 4);
    write_index(text);
    check_open(test_folder, NULL);
    damage_everywhere(INDEX, test_folder, STR(text), sizeof text - 1);
}

static void failures_of_the_machine_are_clean_refusals(void **state) {
    (void)state;
    write_shard(SHARD_1, STR(two_tensors), 20028);
    write_shard(SHARD_2, STR(ONE("b")), 4);
    write_index("{\"weight_map\":{\"w\":\"" SHARD_1 "\",\"b\":\"" SHARD_2 "\"}}");
    sweep_faults(test_folder, SL_FAULT_ALLOC);
    sweep_faults(test_folder, SL_FAULT_OPEN);
    sweep_faults(test_folder, SL_FAULT_READ);
}

static const char *place_in_folder(struct str bytes) {
    bool is_index = bytes.len > 0 && bytes.data[0] == '{';
    unlink(test_path("model.safetensors"));
    write_file(is_index ? INDEX : "model.safetensors", bytes.data, bytes.len);
    return test_folder;
}

static void saved_corpus_opens_as_its_names_say(void **state) {
    (void)state;
    write_shard(SHARD_1, STR(ONE("a")), 4);
    write_shard(SHARD_2, STR(ONE("b")), 4);
    replay_corpus(getenv("SLUICE_CORPUS"), "safetensors", place_in_folder);
}

/* Occurrences of "data_offsets" in the header of the file at path; *head_bytes is its length with
 * the eight bytes before it. */
static size_t count_in_header(const char *path, uint64_t *head_bytes) {
    struct file *file;
    struct error err;
    uint64_t len;
    size_t count = 0;
    assert_int_equal(file_open(path, false, &file, &err), SL_OK);
    assert_int_equal(file_read_at(file, 0, &len, sizeof len, &err), SL_OK);
    char *text = mem_new((size_t)len, 1);
    assert_int_equal(file_read_at(file, sizeof len, text, (size_t)len, &err), SL_OK);
    struct str header = {text, (size_t)len};
    for (size_t at = 0; (at = str_find(header, STR("\"data_offsets\""), at)) != SIZE_MAX; at++)
        count++;
    *head_bytes = len + sizeof len;
    mem_free(text);
    file_close(file);
    return count;
}

static void check_fixture(const char *path) {
    struct opened opened;
    open_model(&opened, path, true);
    if (opened.status != SL_OK)
        fail_msg("%s", opened.err.text);
    const struct index *index = &opened.index;
    uint64_t bytes = 0, wanted = 0;
    size_t count = 0;
    for (size_t i = 0; i < index->count; i++)
        bytes += index->tensors[i].bytes;
    for (size_t i = 0; i < index->unsupported_count; i++)
        bytes += index->unsupported[i].bytes;
    for (size_t i = 0; i < index->file_count; i++) {
        uint64_t head_bytes;
        count += count_in_header(index->files[i]->path, &head_bytes);
        wanted += index->files[i]->bytes - head_bytes;
    }
    assert_int_equal(index->count + index->unsupported_count, count);
    assert_int_equal(bytes, wanted);
    release_model(&opened);
}

static size_t check_fixtures(const char *root) {
    char path[4096];
    size_t count = 0;
    DIR *dir = opendir(root);
    assert_non_null(dir);
    for (struct dirent *item; (item = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", root, item->d_name);
        if (item->d_name[0] == '.' || !file_is_folder(path))
            continue;
        check_fixture(path);
        count++;
    }
    closedir(dir);
    return count;
}

static void published_folders_have_all_their_tensors(void **state) {
    (void)state;
    if (!fixtures(getenv("SLUICE_SHARED"), ""))
        skip();
    assert_true(check_fixtures(fixtures(getenv("SLUICE_SHARED"), "models")) > 30);
    assert_true(check_fixtures(fixtures(getenv("SLUICE_SHARED"), "models-recent")) > 5);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_test_folder, remove_test_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(offsets_that_lie_are_refused),
        IN_FOLDER(types_and_shapes_that_lie_are_refused),
        IN_FOLDER(unusual_headers_are_accepted),
        IN_FOLDER(members_of_the_header_are_bounded),
        IN_FOLDER(header_lengths_that_lie_are_refused),
        IN_FOLDER(shard_that_was_cut_is_refused),
        IN_FOLDER(tensors_are_found_where_they_lie),
        IN_FOLDER(types_that_are_not_read_are_kept_by_name),
        IN_FOLDER(set_of_shards_opens_as_one),
        IN_FOLDER(sets_that_are_not_whole_are_refused),
        IN_FOLDER(index_files_that_lie_are_refused),
        IN_FOLDER(folders_without_the_usual_names_are_told_so),
        IN_FOLDER(metadata_alone_needs_no_weights),
        IN_FOLDER(damaged_headers_never_crash),
        IN_FOLDER(damaged_index_files_never_crash),
        IN_FOLDER(failures_of_the_machine_are_clean_refusals),
        IN_FOLDER(saved_corpus_opens_as_its_names_say),
        cmocka_unit_test(published_folders_have_all_their_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
