/* GGUF files made by hand, good and bad, and the fixtures. The writer below follows ggml's
 * docs/gguf.md; what the fixtures hold was listed with gguf-py. */
#include "weights/files_for_test.h"

/* Value types of the format. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

static void put(struct buf *buf, const void *bytes, size_t len) {
    buf_add(buf, (struct str){bytes, len});
}

static void put_u32(struct buf *buf, uint32_t value) {
    put(buf, &value, sizeof value);
}

static void put_u64(struct buf *buf, uint64_t value) {
    put(buf, &value, sizeof value);
}

static void put_text(struct buf *buf, const char *text) {
    put_u64(buf, strlen(text));
    put(buf, text, strlen(text));
}

static void put_head(struct buf *buf, uint32_t version, uint64_t tensors, uint64_t keys) {
    put(buf, "GGUF", 4);
    put_u32(buf, version);
    put_u64(buf, tensors);
    put_u64(buf, keys);
}

/* A key whose value of len bytes follows. */
static void put_key(struct buf *buf, const char *name, uint32_t type, const void *value,
                    size_t len) {
    put_text(buf, name);
    put_u32(buf, type);
    put(buf, value, len);
}

static void put_number(struct buf *buf, const char *name, uint32_t type, uint64_t value) {
    static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    put_key(buf, name, type, &value, sizes[type]); /* little-endian: the low bytes come first */
}

static void put_array(struct buf *buf, const char *name, uint32_t type, uint64_t count) {
    put_key(buf, name, ARRAY, &type, sizeof type);
    put_u64(buf, count);
}

/* A tensor of two dimensions, innermost first as the file has it. */
static void put_tensor(struct buf *buf, const char *name, const uint64_t shape[2], uint32_t type,
                       uint64_t offset) {
    put_text(buf, name);
    put_u32(buf, 2);
    put_u64(buf, shape[0]);
    put_u64(buf, shape[1]);
    put_u32(buf, type);
    put_u64(buf, offset);
}

static void pad(struct buf *buf, size_t alignment, size_t data_len) {
    while (buf->len % alignment != 0)
        buf_add_char(buf, 0);
    for (size_t i = 0; i < data_len; i++)
        buf_add_char(buf, (char)i);
}

/* Writes what buf has to m.gguf, empties it, and opens that file. */
static void check(struct buf *buf, const char *says) {
    write_file("m.gguf", buf->data, buf->len);
    buf_clear(buf);
    check_open(test_path("m.gguf"), says);
    if (says)
        check_open(test_path("m.gguf"), "m.gguf: ");
}

/* Keys of every type, to m.gguf. */
static void write_every_type(void) {
    struct buf buf;
    float single = 0.5f;
    double pair[2] = {1e300, -2};
    buf_init(&buf);
    put_head(&buf, 3, 0, 17);
    put_number(&buf, "u8", U8, 200);
    put_number(&buf, "i8", I8, 0xFF);
    put_number(&buf, "u16", U16, 65535);
    put_number(&buf, "i16", I16, 0x8000);
    put_number(&buf, "u32", U32, 4294967295u);
    put_number(&buf, "i32", I32, 0xFFFFFFFEu);
    put_key(&buf, "f32", F32, &single, 4);
    put_number(&buf, "yes", BOOL, 1);
    put_number(&buf, "no", BOOL, 0);
    put_key(&buf, "text", STRING, "", 0);
    put_text(&buf, "gr\xC3\xBC\xC3\x9F");
    put_number(&buf, "u64", U64, INT64_MAX);
    put_number(&buf, "i64", I64, (uint64_t)INT64_MIN);
    put_key(&buf, "f64", F64, pair, 8);
    put_array(&buf, "texts", STRING, 3);
    put_text(&buf, "a");
    put_text(&buf, "");
    put_text(&buf, "bc");
    put_array(&buf, "shorts", I16, 2);
    put(&buf, "\x01\x00\xFF\xFF", 4);
    put_array(&buf, "reals", F64, 2);
    put(&buf, pair, sizeof pair);
    put_array(&buf, "truths", BOOL, 2);
    put(&buf, "\x01\x00", 2);
    write_file("m.gguf", buf.data, buf.len);
    buf_release(&buf);
}

static void check_arrays(const struct meta *meta) {
    const struct meta_value *texts = meta_find(meta, "texts");
    assert_true(texts->kind == META_ARRAY && texts->item_kind == META_STRING);
    assert_int_equal(texts->array.count, 3);
    assert_true(str_is(texts->array.texts[0], "a") && texts->array.texts[1].len == 0);
    assert_true(str_is(texts->array.texts[2], "bc"));
    const struct meta_value *shorts = meta_find(meta, "shorts");
    assert_true(shorts->item_kind == META_INTEGER && shorts->array.count == 2);
    assert_true(shorts->array.integers[0] == 1 && shorts->array.integers[1] == -1);
    assert_true(meta_find(meta, "reals")->array.reals[1] == -2.0);
    const struct meta_value *truths = meta_find(meta, "truths");
    assert_true(truths->array.truths[0] && !truths->array.truths[1]);
}

static void every_type_of_value_is_read(void **state) {
    (void)state;
    write_every_type();
    struct opened opened;
    open_model(&opened, test_path("m.gguf"), false);
    if (opened.status != SL_OK)
        fail_msg("%s", opened.err.text);
    const struct meta *meta = &opened.meta;
    const struct {
        const char *key;
        int64_t value;
    } integers[] = {{"u8", 200},         {"i8", -1},  {"u16", 65535},     {"i16", -32768},
                    {"u32", 4294967295}, {"i32", -2}, {"u64", INT64_MAX}, {"i64", INT64_MIN}};
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        int64_t value;
        assert_true(meta_integer(meta, integers[i].key, &value));
        assert_true(value == integers[i].value);
    }
    double real;
    bool truth;
    struct str text;
    assert_true(meta_real(meta, "f32", &real) && real == 0.5);
    assert_true(meta_real(meta, "f64", &real) && real == 1e300);
    assert_true(meta_bool(meta, "yes", &truth) && truth);
    assert_true(meta_bool(meta, "no", &truth) && !truth);
    assert_true(meta_text(meta, "text", &text) && str_is(text, "gr\xC3\xBC\xC3\x9F"));
    check_arrays(meta);
    assert_int_equal(opened.index.file_count, 0);
    release_model(&opened);
}

/* Three tensors: f32 [2, 3], q4_0 [1, 64], and one of a type that is not read. */
static void put_model(struct buf *buf, uint32_t version) {
    put_head(buf, version, 3, 2);
    put_number(buf, "general.alignment", U32, 64);
    put_key(buf, "general.architecture", STRING, "", 0);
    put_text(buf, "llama");
    put_tensor(buf, "q", (uint64_t[]){64, 1}, 2, 64);
    put_tensor(buf, "f", (uint64_t[]){3, 2}, 0, 0);
    put_tensor(buf, "k", (uint64_t[]){256, 1}, 16, 128);
    pad(buf, 64, 128 + 66);
}

static void tensors_lie_behind_the_padded_header(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct buf buf;
        struct opened opened;
        buf_init(&buf);
        put_model(&buf, version);
        write_file("m.gguf", buf.data, buf.len);
        open_model(&opened, test_path("m.gguf"), true);
        if (opened.status != SL_OK)
            fail_msg("%s", opened.err.text);
        assert_ptr_equal(opened.container, &container_gguf);
        assert_int_equal(opened.index.count, 2);
        const struct tensor *f = index_find(&opened.index, STR("f"));
        const struct tensor *q = index_find(&opened.index, STR("q"));
        assert_true(f->dims == 2 && f->shape[0] == 2 && f->shape[1] == 3);
        assert_int_equal(f->offset, buf.len - 194);
        assert_int_equal(f->bytes, 24);
        assert_true(q->dtype == DTYPE_Q4_0 && q->shape[0] == 1 && q->shape[1] == 64);
        assert_int_equal(q->offset, buf.len - 194 + 64);
        assert_int_equal(q->bytes, 36);
        const struct tensor_unsupported *k = index_unsupported_find(&opened.index, STR("k"));
        assert_true(str_is(k->type, "iq2_xxs") && k->bytes == 66);
        release_model(&opened);
        buf_release(&buf);
    }
}

static void headers_that_lie_are_refused(void **state) {
    (void)state;
    struct buf buf;
    buf_init(&buf);
    check(&buf, "is cut: its 0 bytes hold no GGUF header");
    put_head(&buf, 1, 0, 0);
    check(&buf, "has GGUF version 1; 2 and 3 are supported");
    put_head(&buf, 4, 0, 0);
    check(&buf, "has GGUF version 4");
    put_head(&buf, 0x03000000, 0, 0);
    check(&buf, "big-endian");
    put_head(&buf, 3, 0, 1000000);
    check(&buf, "says it has 1000000 keys, more than a file may have");
    put_head(&buf, 3, 0, 2);
    put_number(&buf, "a", U8, 0);
    check(&buf, "says it has 2 keys, more than the file has room for");
    put_head(&buf, 3, UINT64_MAX, 0);
    check(&buf, "says it has 18446744073709551615 tensors, more than a file may have");
    put_head(&buf, 3, 1000, 0);
    check(&buf, "says it has 1000 tensors, more than the file has room for");
    put(&buf, "PK\x03\x04zzzzzzzzzzzzzzzzzzzz", 24);
    check(&buf, "this is no GGUF file: it begins with \"PK");
    buf_release(&buf);
}

static void values_that_lie_are_refused(void **state) {
    (void)state;
    struct buf buf;
    buf_init(&buf);
    put_head(&buf, 3, 0, 1);
    put_number(&buf, "big", U64, (uint64_t)INT64_MAX + 1);
    check(&buf, "key \"big\" has the value 9223372036854775808, which is out of range");
    put_head(&buf, 3, 0, 1);
    put_number(&buf, "truth", BOOL, 2);
    check(&buf, "key \"truth\" has the bool value 2");
    put_head(&buf, 3, 0, 1);
    put_key(&buf, "odd", 13, "abcd", 4);
    check(&buf, "key \"odd\" has the unknown value type 13");
    put_head(&buf, 3, 0, 1);
    put_array(&buf, "nest", ARRAY, 1);
    pad(&buf, 8, 64);
    check(&buf, "key \"nest\" is an array of arrays");
    put_head(&buf, 3, 0, 1);
    put_array(&buf, "long", STRING, (uint64_t)1 << 61);
    pad(&buf, 8, 64);
    check(&buf, "key \"long\" has an array of 2305843009213693952 items, ");
    put_head(&buf, 3, 0, 1);
    put_array(&buf, "deep", 99, 1);
    pad(&buf, 8, 64);
    check(&buf, "key \"deep\" has the unknown value type 99");
    put_head(&buf, 3, 0, 1);
    put_key(&buf, "text", STRING, &(uint64_t){UINT64_MAX}, 8);
    check(&buf, "key \"text\" has a text of 18446744073709551615 bytes, only 0 are left");
    put_head(&buf, 3, 0, 1);
    put_u64(&buf, 70000);
    pad(&buf, 8, 70100);
    check(&buf, "key 1 has a text of 70000 bytes, more than 65535");
    put_head(&buf, 3, 0, 2);
    put_number(&buf, "twice", U32, 1);
    put_number(&buf, "twice", U32, 1);
    check(&buf, "key \"twice\" appears twice");
    for (uint64_t alignment = 0; alignment <= 48; alignment += 48) {
        put_head(&buf, 3, 0, 1);
        put_number(&buf, "general.alignment", U32, alignment);
        check(&buf, "which is no power of two");
    }
    put_head(&buf, 3, 0, 1);
    put_key(&buf, "general.alignment", STRING, "", 0);
    put_text(&buf, "32");
    check(&buf, "general.alignment is no integer");
    buf_release(&buf);
}

/* One tensor, or two of the same kind at the given offsets. */
static void put_bad(struct buf *buf, uint32_t dims, const uint64_t *shape, uint32_t type,
                    uint64_t offset) {
    put_head(buf, 3, 1, 0);
    put_text(buf, "t");
    put_u32(buf, dims);
    for (uint32_t i = 0; i < dims && i < 8; i++)
        put_u64(buf, shape[i]);
    put_u32(buf, type);
    put_u64(buf, offset);
    pad(buf, 32, 64);
}

static void tensors_that_lie_are_refused(void **state) {
    (void)state;
    struct buf buf;
    const uint64_t four[] = {4, 1, 1, 1, 1}, huge[] = {(uint64_t)1 << 33, (uint64_t)1 << 33};
    const uint64_t odd[] = {33, 1}, large[] = {17};
    buf_init(&buf);
    put_bad(&buf, 0, four, 0, 0);
    check(&buf, "tensor \"t\" has 0 dimensions, not 1 to 4");
    put_bad(&buf, 5, four, 0, 0);
    check(&buf, "tensor \"t\" has 5 dimensions, not 1 to 4");
    put_bad(&buf, 4, four, 77, 0);
    check(&buf, "tensor \"t\" has the number format type 77, which is not known");
    put_bad(&buf, 1, four, 31, 0);
    check(&buf, "tensor \"t\" has the number format q4_0_4_4, which is not known");
    put_bad(&buf, 1, four, 0, 8);
    check(&buf, "tensor \"t\" has the offset 8, not a multiple of the alignment 32");
    put_bad(&buf, 1, four, 0, UINT64_MAX - 31);
    check(&buf, "tensor \"t\" has the offset 18446744073709551584, which is out of range");
    put_bad(&buf, 1, large, 0, 0);
    check(&buf, "is 128 bytes, but tensor \"t\" ends at 132: the file is cut");
    put_bad(&buf, 2, huge, 0, 0);
    check(&buf, "tensor \"t\" has a shape that overflows");
    put_bad(&buf, 1, odd, 2, 0);
    check(&buf, "tensor \"t\" has rows of 33 values, not whole blocks of 32 as q4_0 asks for");
    put_head(&buf, 3, 2, 0);
    put_tensor(&buf, "a", (uint64_t[]){9, 1}, 0, 0);
    put_tensor(&buf, "b", (uint64_t[]){1, 1}, 0, 32);
    pad(&buf, 32, 64);
    check(&buf, "tensors \"a\" and \"b\" overlap");
    put_head(&buf, 3, 2, 0);
    put_tensor(&buf, "a", (uint64_t[]){1, 1}, 0, 0);
    put_tensor(&buf, "a", (uint64_t[]){1, 1}, 0, 32);
    pad(&buf, 32, 64);
    check(&buf, "tensor \"a\" appears twice");
    buf_release(&buf);
}

/* Part of a set: one f32 tensor named by the part, counted from 0. */
static void write_part(const char *name, unsigned part, unsigned says_part, unsigned parts) {
    struct buf buf;
    char tensor[2] = {(char)('a' + part), 0};
    buf_init(&buf);
    put_head(&buf, 3, 1, 3);
    put_number(&buf, "split.no", U16, says_part);
    put_number(&buf, "split.count", U16, parts);
    put_number(&buf, "split.tensors.count", I32, 3);
    put_tensor(&buf, tensor, (uint64_t[]){1, 1}, 0, 0);
    pad(&buf, 32, 4);
    write_file(name, buf.data, buf.len);
    buf_release(&buf);
}

#define PART_1 "m-00001-of-00003.gguf"
#define PART_2 "m-00002-of-00003.gguf"
#define PART_3 "m-00003-of-00003.gguf"

static void split_sets_open_by_their_first_part(void **state) {
    (void)state;
    struct opened opened;
    write_part(PART_1, 0, 0, 3);
    check_open(test_path(PART_1), PART_2 ": not found: part 2 of the 3 of this model");
    write_part(PART_2, 1, 1, 3);
    write_part(PART_3, 2, 1, 3);
    check_open(test_path(PART_1), PART_3 ": says it is part 2 of 3, expected 3 of 3");
    write_part(PART_3, 2, 2, 4);
    check_open(test_path(PART_1), PART_3 ": says it is part 3 of 4, expected 3 of 3");
    write_part(PART_3, 0, 2, 3);
    check_open(test_path(PART_1), PART_3 ": tensor \"a\" is in ");
    write_part(PART_3, 2, 2, 3);
    open_model(&opened, test_path(PART_1), true);
    if (opened.status != SL_OK)
        fail_msg("%s", opened.err.text);
    assert_int_equal(opened.index.file_count, 3);
    const struct tensor *c = index_find(&opened.index, STR("c"));
    assert_non_null(strstr(opened.index.files[c->file]->path, PART_3));
    release_model(&opened);
    sweep_faults(test_path(PART_1), SL_FAULT_ALLOC);
    sweep_faults(test_path(PART_1), SL_FAULT_OPEN);
    sweep_faults(test_path(PART_1), SL_FAULT_READ);
}

static void other_parts_and_names_are_refused(void **state) {
    (void)state;
    write_part(PART_2, 1, 1, 3);
    check_open(test_path(PART_2),
               PART_2 ": is part 2 of 3; the model is its first part, which ends in "
                      "-00001-of-00003.gguf");
    write_part("renamed.gguf", 0, 0, 3);
    check_open(test_path("renamed.gguf"), "its name must end in -00001-of-00003.gguf");
    write_part("many.gguf", 0, 0, 65535);
    check_open(test_path("many.gguf"), "split.count is 65535, which is out of range");
    write_part("m-00001-of-00001.gguf", 0, 0, 1);
    check_open(test_path("m-00001-of-00001.gguf"), "its parts have 3 tensors, they have 1");
}

static void damaged_files_never_crash(void **state) {
    (void)state;
    struct buf buf;
    buf_init(&buf);
    put_model(&buf, 3);
    /* The last tensor ends the file, so every cut is a refusal. */
    damage_everywhere("m.gguf", test_path("m.gguf"), buf_str(&buf), buf.len);
    buf_release(&buf);
}

static void long_headers_are_read_in_pieces(void **state) {
    (void)state;
    struct buf buf;
    struct opened opened;
    buf_init(&buf);
    put_head(&buf, 3, 0, 2);
    put_array(&buf, "tokens", STRING, 100000);
    for (unsigned i = 0; i < 100000; i++) {
        char text[16];
        snprintf(text, sizeof text, "t%u", i);
        put_text(&buf, text);
    }
    put_key(&buf, "template", STRING, "", 0);
    put_u64(&buf, 600000);
    for (unsigned i = 0; i < 600000; i++)
        buf_add_char(&buf, (char)(i % 251));
    write_file("m.gguf", buf.data, buf.len);
    open_model(&opened, test_path("m.gguf"), false);
    if (opened.status != SL_OK)
        fail_msg("%s", opened.err.text);
    const struct meta_value *tokens = meta_find(&opened.meta, "tokens");
    for (unsigned i = 0; i < 100000; i++) {
        char text[16];
        snprintf(text, sizeof text, "t%u", i);
        assert_true(str_is(tokens->array.texts[i], text));
    }
    struct str text;
    assert_true(meta_text(&opened.meta, "template", &text));
    assert_int_equal(text.len, 600000);
    assert_memory_equal(text.data, buf.data + buf.len - 600000, 600000);
    release_model(&opened);
    buf_release(&buf);
}

static const char *place_as_file(struct str bytes) {
    static char path[400];
    write_file("m.gguf", bytes.data, bytes.len);
    snprintf(path, sizeof path, "%s", test_path("m.gguf"));
    return path;
}

static void saved_corpus_opens_as_its_names_say(void **state) {
    (void)state;
    replay_corpus(getenv("SLUICE_CORPUS"), "gguf", place_as_file);
}

/* Tensors and keys as gguf-py lists them; without the rows that it counts for its own. */
static void published_files_have_all_their_tensors(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t tensors, keys;
    } files[] = {
        {"llama-f32", 21, 28},     {"llama-f16", 21, 28},   {"llama-bf16", 21, 28},
        {"llama-q8_0", 21, 28},    {"llama-q4_0", 21, 28},  {"llama-q4_1", 21, 28},
        {"llama-q6_k", 21, 28},    {"qwen2-bf16", 27, 24},  {"qwen2-q6_k", 27, 24},
        {"qwen3-bf16", 24, 26},    {"gemma3-bf16", 28, 28}, {"gemma3-q8_0", 28, 28},
        {"qwen3moe-bf16", 27, 29}, {"llama-q2_k", 21, 28},  {"llama-q5_0", 21, 28},
    };
    const char *root = fixtures(getenv("SLUICE_SHARED"), "gguf");
    if (!root)
        skip();
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct opened opened;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.gguf", root, files[i].name);
        open_model(&opened, path, true);
        if (opened.status != SL_OK)
            fail_msg("%s", opened.err.text);
        const struct index *index = &opened.index;
        uint64_t begin = UINT64_MAX, bytes = 0;
        for (size_t k = 0; k < index->count; k++) {
            begin = index->tensors[k].offset < begin ? index->tensors[k].offset : begin;
            bytes += (index->tensors[k].bytes + 31) & ~(uint64_t)31;
        }
        for (size_t k = 0; k < index->unsupported_count; k++)
            bytes += (index->unsupported[k].bytes + 31) & ~(uint64_t)31;
        assert_int_equal(index->count + index->unsupported_count, files[i].tensors);
        assert_int_equal(opened.meta.count, files[i].keys);
        if (index->unsupported_count == 0)
            assert_int_equal(begin + bytes, index->files[0]->bytes); /* gguf-py pads each one */
        release_model(&opened);
    }
}

static void check_vocabulary(const char *zipped) {
    char command[4200];
    struct buf bytes;
    struct opened opened;
    buf_init(&bytes);
    snprintf(command, sizeof command, "gzip -dc '%s'", zipped);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char piece[65536];
    for (size_t got; (got = fread(piece, 1, sizeof piece, pipe)) > 0;)
        put(&bytes, piece, got);
    assert_int_equal(pclose(pipe), 0);
    write_file("v.gguf", bytes.data, bytes.len);
    buf_release(&bytes);
    for (int wants_tensors = 0; wants_tensors <= 1; wants_tensors++) {
        struct str model;
        open_model(&opened, test_path("v.gguf"), wants_tensors == 1);
        if (opened.status != SL_OK)
            fail_msg("%s", opened.err.text);
        const struct meta_value *tokens = meta_find(&opened.meta, "tokenizer.ggml.tokens");
        const struct meta_value *types = meta_find(&opened.meta, "tokenizer.ggml.token_type");
        assert_true(meta_text(&opened.meta, "tokenizer.ggml.model", &model));
        assert_true(tokens->kind == META_ARRAY && tokens->item_kind == META_STRING);
        assert_int_equal(tokens->array.count, types->array.count);
        assert_int_equal(opened.index.count, 0);
        release_model(&opened);
    }
}

static void vocabularies_alone_are_read(void **state) {
    (void)state;
    static const char *const names[] = {"llama-spm", "qwen2", "gpt-2"};
    const char *root = fixtures(getenv("SLUICE_SHARED"), "gguf-vocab");
    if (!root)
        skip();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.gguf.gz", root, names[i]);
        check_vocabulary(path);
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_test_folder, remove_test_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(every_type_of_value_is_read),
        IN_FOLDER(tensors_lie_behind_the_padded_header),
        IN_FOLDER(headers_that_lie_are_refused),
        IN_FOLDER(values_that_lie_are_refused),
        IN_FOLDER(tensors_that_lie_are_refused),
        IN_FOLDER(split_sets_open_by_their_first_part),
        IN_FOLDER(other_parts_and_names_are_refused),
        IN_FOLDER(damaged_files_never_crash),
        IN_FOLDER(long_headers_are_read_in_pieces),
        IN_FOLDER(saved_corpus_opens_as_its_names_say),
        cmocka_unit_test(published_files_have_all_their_tensors),
        IN_FOLDER(vocabularies_alone_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
