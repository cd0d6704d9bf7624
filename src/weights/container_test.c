/* What may lie at the path of a model. */
#include "weights/files_for_test.h"

#include <sys/stat.h>

static void what_is_not_a_model_is_told_so(void **state) {
    (void)state;
    check_open(test_path("absent"), "model not found: ");
    check_open(test_path("absent"), "/absent");
    write_file("empty", "", 0);
    check_open(test_path("empty"), "empty: is empty");
    write_file("text", "{\"rows\": 1}\n", 12);
    check_open(
        test_path("text"),
        "text: is neither a folder with a model nor a GGUF file: it begins with \"{\"rows\":\"");
    write_file("binary", "\x80\x02}q", 4);
    check_open(test_path("binary"), "binary: is neither a folder with a model nor a GGUF file");
    write_file("model.safetensors", "x", 1);
    check_open(test_path("model.safetensors"), "name the folder that it is in");
    check_open("/dev/null", "/dev/null: is a device");
}

static void gguf_files_are_known_by_their_first_bytes(void **state) {
    (void)state;
    static const char header[] = "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    struct opened opened;
    write_file("blob", header, 24);
    open_model(&opened, test_path("blob"), true);
    assert_int_equal(opened.status, SL_OK);
    assert_ptr_equal(opened.container, &container_gguf);
    release_model(&opened);
    write_file("short.gguf", "GGU", 3);
    check_open(test_path("short.gguf"), "short.gguf: the file is cut");
}

static void fifos_do_not_block(void **state) {
    (void)state;
    assert_int_equal(mkfifo(test_path("fifo"), 0600), 0);
    check_open(test_path("fifo"), "is a FIFO, not a regular file");
    assert_int_equal(mkfifo(test_path("fifo.gguf"), 0600), 0);
    check_open(test_path("fifo.gguf"), "is a FIFO, not a regular file");
}

static void files_stay_open_while_the_index_lives(void **state) {
    (void)state;
    static const char model[] = "\x3e\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F16\",\"shape\":[2],"
                                "\"data_offsets\":[0,4]}}        \1\2\3\4";
    struct opened opened;
    uint8_t bytes[4];
    struct error err;
    write_file("model.safetensors", model, sizeof model - 1);
    open_model(&opened, test_folder, true);
    if (opened.status != SL_OK)
        fail_msg("%s", opened.err.text);
    unlink(test_path("model.safetensors"));
    const struct tensor *a = index_find(&opened.index, STR("a"));
    assert_int_equal(
        file_read_at(opened.index.files[a->file], a->offset, bytes, sizeof bytes, &err), SL_OK);
    assert_memory_equal(bytes, "\1\2\3\4", 4);
    release_model(&opened);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_test_folder, remove_test_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_not_a_model_is_told_so),
        IN_FOLDER(gguf_files_are_known_by_their_first_bytes),
        IN_FOLDER(fifos_do_not_block),
        IN_FOLDER(files_stay_open_while_the_index_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
