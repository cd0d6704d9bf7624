/* Decoders over lists of strings, with values worked out by hand from the library's rules. */
#include "text/decode.h"

#include "text/fixtures_for_test.h"

static enum status load(struct decoder *decoder, const char *text, struct error *err) {
    struct arena arena;
    const struct json *json = NULL;
    struct json_options options = {0};
    arena_init(&arena);
    decoder_init(decoder);
    assert_int_equal(json_parse(&arena, str_from(text), &options, &json, err), SL_OK);
    enum status status = decoder_load(decoder, json, err);
    arena_release(&arena);
    return status;
}

/* tokens: strings, NULL behind the last. */
static void check(const char *json, const char *const *tokens, const char *wanted) {
    struct decoder decoder;
    struct decoder_strings strings = {0};
    struct error err = {0};
    struct buf out;
    buf_init(&out);
    buf_init(&strings.text);
    if (load(&decoder, json, &err) != SL_OK)
        fail_msg("%s", err.text);
    for (; *tokens; tokens++)
        assert_true(decoder_strings_add(&strings, str_from(*tokens)));
    assert_int_equal(decoder_run(&decoder, &strings, &out, &err), SL_OK);
    assert_string_equal(out.data ? out.data : "", wanted);
    buf_release(&out);
    decoder_strings_release(&strings);
    decoder_release(&decoder);
}

#define TOKENS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_bytes(const char *json, const char *token, bool is_first, const char *wanted) {
    struct decoder decoder;
    struct error err = {0};
    struct buf out;
    buf_init(&out);
    assert_int_equal(load(&decoder, json, &err), SL_OK);
    decoder_token_bytes(&decoder, str_from(token), is_first, &out);
    assert_string_equal(out.data ? out.data : "", wanted);
    buf_release(&out);
    decoder_release(&decoder);
}

static void refused(const char *json, const char *word) {
    struct decoder decoder;
    struct error err = {0};
    assert_int_equal(load(&decoder, json, &err), SL_ERR_ENV);
    if (!strstr(err.text, word))
        fail_msg("\"%s\" does not name %s", err.text, word);
    decoder_release(&decoder);
}

static void byte_level_reads_spelled_bytes(void **state) {
    (void)state;
    const char *json = "{\"type\":\"ByteLevel\"}";
    check(json, TOKENS("ĠHello", "Ġma", "Ã", "±"), " Hello mañ");
    check(json, TOKENS("a", "Ã", "b", "ðŁĺ"), "a�b�");
    check(json, TOKENS("<世>", "Ġ"), "<世> "); /* no spelling, so it stands for itself */
    check(json, TOKENS("Ã", "世"), "�世");
}

static void byte_fallback_reads_runs_of_bytes(void **state) {
    (void)state;
    const char *json = "{\"type\":\"ByteFallback\"}";
    check(json, TOKENS("a", "<0xC3>", "<0xa9>", "b"), "aéb");
    check(json, TOKENS("<0xC3>", "<0xA9>", "<0xC3>"), "���");
    check(json, TOKENS("<0xC3>", "a", "<0xA9>"), "�a�");
    check(json, TOKENS("<0xZZ>", "<0x0>", "<0x041>"), "<0xZZ><0x0><0x041>");
}

static void replace_and_fuse_change_strings(void **state) {
    (void)state;
    check("{\"type\":\"Replace\",\"pattern\":{\"String\":\"▁\"},\"content\":\" \"}",
          TOKENS("▁a", "b▁▁"), " ab  ");
    check("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"x\"}",
          TOKENS("aab", "a"), "xbx");
    check("{\"type\":\"Fuse\"}", TOKENS("a", "b"), "ab");
}

static void strip_works_string_by_string_unless_fused(void **state) {
    (void)state;
    check("{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}", TOKENS("  a", " b"),
          " ab");
    check("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\","
          "\"content\":\" \",\"start\":1,\"stop\":1}]}",
          TOKENS("  a", " b  "), " a b ");
    check("{\"type\":\"Strip\",\"content\":\"x\",\"start\":2,\"stop\":2}", TOKENS("xxx", "x"), "");
}

static void metaspace_drops_the_first_mark(void **state) {
    (void)state;
    check("{\"type\":\"Metaspace\",\"replacement\":\"▁\",\"prepend_scheme\":\"always\"}",
          TOKENS("▁Hey", "▁my", "▁▁x"), "Hey my  x");
    check("{\"type\":\"Metaspace\",\"replacement\":\"▁\",\"prepend_scheme\":\"never\"}",
          TOKENS("▁Hey", "▁my"), " Hey my");
    check("{\"type\":\"Metaspace\",\"replacement\":\"▁\",\"add_prefix_space\":false}",
          TOKENS("▁Hey"), " Hey");
}

static void bytes_of_a_token_may_be_part_of_a_character(void **state) {
    (void)state;
    const char *sentencepiece =
        "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"▁\"},"
        "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
        "\"content\":\" \",\"start\":1,\"stop\":0}]}";
    check_bytes("{\"type\":\"ByteLevel\"}", "ðŁ", false, "\xf0\x9f");
    check_bytes(sentencepiece, "<0xF0>", false, "\xf0");
    check_bytes(sentencepiece, "▁a", false, " a");
    check_bytes(sentencepiece, "▁a", true, "a");
    check_bytes("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":"
                "\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"}]}",
                "<0xF0>", false, "\xf0");
}

static void wrong_decoders_are_refused(void **state) {
    (void)state;
    refused("{\"type\":\"WordPiece\",\"prefix\":\"##\"}", "WordPiece");
    refused("{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}", "start");
    refused("{\"type\":\"Strip\",\"content\":\"\",\"start\":1,\"stop\":0}", "content");
    refused("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}", "content");
    refused("{\"type\":\"Sequence\",\"decoders\":{}}", "decoders");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_reads_spelled_bytes),
        cmocka_unit_test(byte_fallback_reads_runs_of_bytes),
        cmocka_unit_test(replace_and_fuse_change_strings),
        cmocka_unit_test(strip_works_string_by_string_unless_fused),
        cmocka_unit_test(metaspace_drops_the_first_mark),
        cmocka_unit_test(bytes_of_a_token_may_be_part_of_a_character),
        cmocka_unit_test(wrong_decoders_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
