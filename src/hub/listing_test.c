/* The hub's list of files: choices, refusals, and the fuzz target's corpus. */
#include "hub/listing_fuzz.c" /* the target, as it is */

#include "text/corpus_for_test.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

/* The names chosen of those given, with a space behind each; or the error. */
static enum status choose(const char *const *names, const char *text, char out[600]) {
    struct listing listing;
    struct hub_name name;
    struct error err = {0};
    struct buf answer;
    size_t count;
    buf_init(&answer);
    buf_add(&answer, STR("{\"sha\": \"" COMMIT "\", \"siblings\": ["));
    for (size_t i = 0; names[i] != NULL; i++)
        buf_printf(&answer, "%s{\"rfilename\": \"%s\", \"size\": 7, \"blobId\": \"" COMMIT "\"}",
                   i > 0 ? ", " : "", names[i]);
    buf_add(&answer, STR("]}"));
    assert_true(hub_name_parse(str_from(text), &name));
    assert_int_equal(listing_parse(&listing, name.repo, buf_str(&answer), &err), SL_OK);
    enum status status = listing_choose(&listing, &name, &count, &err);
    out[0] = '\0';
    for (size_t i = 0; status == SL_OK && i < count; i++) {
        size_t used = strlen(out);
        snprintf(out + used, 600 - used, "%.*s ", STR_ARG(listing.files[i].name));
    }
    if (status != SL_OK)
        snprintf(out, 600, "%s", err.text);
    listing_release(&listing);
    buf_release(&answer);
    return status;
}

static void folders_of_weights_come_without_their_second_forms(void **state) {
    (void)state;
    char out[600];
    static const char *const names[] = {".gitattributes",
                                        "README.md",
                                        "config.json",
                                        "consolidated.safetensors",
                                        "model-1.safetensors",
                                        "original/model.safetensors",
                                        "tokenizer.json",
                                        "x.gguf",
                                        "additional_chat_templates/tool_use.jinja",
                                        "pytorch_model.bin",
                                        NULL};
    assert_int_equal(choose(names, "o/m", out), SL_OK);
    assert_string_equal(out, "config.json model-1.safetensors tokenizer.json "
                             "additional_chat_templates/tool_use.jinja ");
    assert_int_equal(choose(names, "o/m:x.gguf", out), SL_OK);
    assert_string_equal(out, "x.gguf ");
}

static void one_gguf_file_or_split_set_is_meant_by_a_part_of_its_name(void **state) {
    (void)state;
    char out[600];
    static const char *const names[] = {"m-Q4_K_M.gguf",
                                        "m-Q4_K_S.gguf",
                                        "m-Q4.gguf",
                                        "b/m-BF16-00001-of-00002.gguf",
                                        "b/m-BF16-00002-of-00002.gguf",
                                        NULL};
    static const char *const one[] = {"m-Q4.gguf", NULL}, *const none[] = {"README.md", NULL};
    assert_int_equal(choose(names, "o/m:BF16", out), SL_OK);
    assert_string_equal(out, "b/m-BF16-00001-of-00002.gguf b/m-BF16-00002-of-00002.gguf ");
    assert_int_equal(choose(names, "o/m:m-Q4.gguf", out), SL_OK);
    assert_string_equal(out, "m-Q4.gguf ");
    assert_int_equal(choose(names, "o/m:Q4", out), SL_ERR_INPUT);
    assert_non_null(strstr(out, "m-Q4_K_S.gguf"));
    assert_int_equal(choose(names, "o/m", out), SL_ERR_INPUT);
    assert_non_null(strstr(out, "o/m:FILE"));
    assert_int_equal(choose(one, "o/m", out), SL_OK);
    assert_int_equal(choose(none, "o/m", out), SL_ERR_INPUT);
}

static void saved_answers_are_read_without_harm(void **state) {
    (void)state;
    if (!replay_corpus("listing", LLVMFuzzerTestOneInput)) {
        print_message("SLUICE_CORPUS (the folder test/corpus) is not set\n");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_of_weights_come_without_their_second_forms),
        cmocka_unit_test(one_gguf_file_or_split_set_is_meant_by_a_part_of_its_name),
        cmocka_unit_test(saved_answers_are_read_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
