/* Steps of normalizers, with values worked out by hand from the library's rules. */
#include "text/normalize.h"

#include "text/fixtures_for_test.h"

static enum status load(struct normalizer *normalizer, const char *text, struct error *err) {
    struct arena arena;
    const struct json *json = NULL;
    struct json_options options = {0};
    arena_init(&arena);
    normalizer_init(normalizer);
    assert_int_equal(json_parse(&arena, str_from(text), &options, &json, err), SL_OK);
    enum status status = normalizer_load(normalizer, json, err);
    arena_release(&arena);
    return status;
}

static void check(const char *json, const char *text, const char *wanted, bool lost_beginning) {
    struct normalizer normalizer;
    struct normalized out = {0};
    struct buf buffers[2];
    struct error err = {0};
    buf_init(&buffers[0]);
    buf_init(&buffers[1]);
    if (load(&normalizer, json, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(normalizer_run(&normalizer, str_from(text), buffers, &out, &err), SL_OK);
    if (!str_is(out.text, wanted))
        fail_msg("%s on \"%s\" gives \"%.*s\", not \"%s\"", json, text, STR_ARG(out.text), wanted);
    assert_int_equal(out.lost_beginning, lost_beginning);
    buf_release(&buffers[0]);
    buf_release(&buffers[1]);
    normalizer_release(&normalizer);
}

static void refused(const char *json, const char *word) {
    struct normalizer normalizer;
    struct error err = {0};
    assert_int_equal(load(&normalizer, json, &err), SL_ERR_ENV);
    if (!strstr(err.text, word))
        fail_msg("\"%s\" does not name %s", err.text, word);
    normalizer_release(&normalizer);
}

static void forms_are_applied(void **state) {
    (void)state;
    check("{\"type\":\"NFC\"}", "cafe\u0301", "café", false);
    check("{\"type\":\"NFD\"}", "café", "cafe\u0301", false);
    check("{\"type\":\"NFKC\"}", "ﬁ", "fi", false);
    check("{\"type\":\"NFKD\"}", "é①",
          "e\u0301"
          "1",
          false);
    check("{\"type\":\"Lowercase\"}", "ÀBC Σ İ", "àbc σ i\u0307", false);
    check("{\"type\":\"StripAccents\"}", "e\u0301a", "ea", false);
    check("null", "As It Is", "As It Is", false);
}

static void strip_takes_spaces_at_the_ends(void **state) {
    (void)state;
    check("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", "\u3000 a b\n", "a b",
          true);
    check("{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", " a ", " a", false);
    check("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}", " a ", "a ", true);
    check("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", "  ", "", false);
}

static void replace_takes_strings_and_regexes(void **state) {
    (void)state;
    check("{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}", " a  b",
          "▁a▁▁b", false);
    check("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}", "a   b c",
          "a b c", false);
    check("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"\"}", "abab", "bb",
          true);
    check("{\"type\":\"Replace\",\"pattern\":{\"String\":\"aa\"},\"content\":\"a\"}", "aaaa", "aa",
          false);
}

static void prepend_leaves_empty_text_alone(void **state) {
    (void)state;
    check("{\"type\":\"Prepend\",\"prepend\":\"▁\"}", "a", "▁a", false);
    check("{\"type\":\"Prepend\",\"prepend\":\"▁\"}", "", "", false);
}

static void sequence_goes_step_by_step(void **state) {
    (void)state;
    check("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\",\"strip_left\":true,"
          "\"strip_right\":true},{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},"
          "{\"type\":\"StripAccents\"}]},{\"type\":\"Lowercase\"},{\"type\":\"Strip\"},"
          "{\"type\":\"Prepend\",\"prepend\":\"x\"}]}",
          " ÉA ", "xea", true);
}

static void wrong_normalizers_are_refused(void **state) {
    (void)state;
    refused("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"\"}", "Precompiled");
    refused("{\"type\":\"BertNormalizer\"}", "BertNormalizer");
    refused("{\"type\":\"Prepend\"}", "prepend");
    refused("{\"type\":\"Replace\",\"pattern\":\"a\",\"content\":\"b\"}", "pattern");
    refused("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"b\"}", "regex");
    refused("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},7]}", "type");
    refused("7", "type");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_applied),
        cmocka_unit_test(strip_takes_spaces_at_the_ends),
        cmocka_unit_test(replace_takes_strings_and_regexes),
        cmocka_unit_test(prepend_leaves_empty_text_alone),
        cmocka_unit_test(sequence_goes_step_by_step),
        cmocka_unit_test(wrong_normalizers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
