/* Published tokenizers against ids and texts that the Hugging Face library computed (the fixtures'
 * README says how). SLUICE_SHARED names the folder they lie in. */
#include "text/fixtures_for_test.h"
#include "text/tokenizer_for_test.h"

static struct tokenizer *load(const char *family) {
    struct fixture file;
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    char path[200];
    snprintf(path, sizeof path, "text/tokenizer-%s.json.gz", family);
    if (!fixture_read(&file, path))
        return NULL;
    if (tokenizer_from_json(buf_str(&file.text), path, &tokenizer, &err) != SL_OK)
        fail_msg("%s", err.text);
    fixture_close(&file);
    return tokenizer;
}

static void take_ids(const struct json *json, struct ids *ids) {
    ids->count = 0;
    assert_true(json_is(json, JSON_ARRAY));
    for (uint32_t i = 0; i < json->count; i++) {
        uint64_t id;
        assert_true(json_u64(&json->items[i], &id) && id <= UINT32_MAX);
        assert_true(ids_add(ids, (uint32_t)id));
    }
}

static void check_decoded(const struct tokenizer *tokenizer, const struct ids *ids,
                          bool skips_special, const struct json *wanted) {
    struct str text;
    assert_true(json_string(wanted, &text));
    char *copy = strndup(text.data, text.len);
    struct buf found;
    struct error err = {0};
    buf_init(&found);
    assert_int_equal(
        tokenizer_decode(tokenizer, ids->items, ids->count, skips_special, &found, &err), SL_OK);
    assert_true(utf8_valid_len(buf_str(&found)) == found.len);
    if (!str_equal(buf_str(&found), text))
        fail_msg("decodes to \"%s\", not \"%s\"", found.data ? found.data : "", copy);
    buf_release(&found);
    free(copy);
}

static void check_strings(const struct tokenizer *tokenizer, const char *family) {
    struct fixture tests, expected;
    struct ids ids = {0};
    char path[200];
    snprintf(path, sizeof path, "text/expected-%s.jsonl.gz", family);
    assert_true(fixture_open_lines(&tests, "text/tests.jsonl"));
    assert_true(fixture_open_lines(&expected, path));
    assert_int_equal(tests.line_count, expected.line_count);
    for (size_t i = 0; i < tests.line_count; i++) {
        struct str text;
        struct encode_options plain = {0}, special = {.adds_special = true};
        const struct json *line = expected.lines[i];
        assert_true(json_string(json_get(tests.lines[i], "text"), &text));
        take_ids(json_get(line, "ids_with_special"), &ids);
        check_ids_with(tokenizer, text, &special, ids.items, ids.count);
        check_decoded(tokenizer, &ids, true, json_get(line, "decoded_skip_special"));
        take_ids(json_get(line, "ids_no_special"), &ids);
        check_ids_with(tokenizer, text, &plain, ids.items, ids.count);
        check_decoded(tokenizer, &ids, false, json_get(line, "decoded"));
    }
    ids_release(&ids);
    fixture_close(&tests);
    fixture_close(&expected);
}

static void check_fuzz(const struct tokenizer *tokenizer, const char *family) {
    struct fixture texts, expected;
    struct ids ids = {0};
    char path[200];
    snprintf(path, sizeof path, "text/fuzz-expected-%s.jsonl.gz", family);
    assert_true(fixture_open_lines(&texts, "text/fuzz.jsonl"));
    assert_true(fixture_open_lines(&expected, path));
    assert_int_equal(texts.line_count, expected.line_count);
    for (size_t i = 0; i < texts.line_count; i++) {
        struct str text;
        struct encode_options plain = {0};
        assert_true(json_string(json_get(texts.lines[i], "text"), &text));
        take_ids(json_get(expected.lines[i], "ids"), &ids);
        check_ids_with(tokenizer, text, &plain, ids.items, ids.count);
    }
    ids_release(&ids);
    fixture_close(&texts);
    fixture_close(&expected);
}

static void check_decoding(const struct tokenizer *tokenizer, const char *family) {
    struct fixture lists;
    struct ids ids = {0};
    char path[200];
    snprintf(path, sizeof path, "text/decode-%s.jsonl.gz", family);
    assert_true(fixture_open_lines(&lists, path));
    for (size_t i = 0; i < lists.line_count; i++) {
        take_ids(json_get(lists.lines[i], "ids"), &ids);
        check_decoded(tokenizer, &ids, false, json_get(lists.lines[i], "decoded"));
        check_decoded(tokenizer, &ids, true, json_get(lists.lines[i], "decoded_skip_special"));
    }
    ids_release(&ids);
    fixture_close(&lists);
}

static void check_family(const char *family) {
    struct tokenizer *tokenizer = load(family);
    if (!tokenizer)
        skip();
    check_strings(tokenizer, family);
    check_fuzz(tokenizer, family);
    check_decoding(tokenizer, family);
    tokenizer_free(tokenizer);
}

#define FAMILY(name)                                                                               \
    static void family_of_##name##_agrees(void **state) {                                          \
        (void)state;                                                                               \
        check_family(#name);                                                                       \
    }
FAMILY(gpt2)
FAMILY(synth_smollm)
FAMILY(qwen2_5)
FAMILY(mistral_nemo)
FAMILY(deepseek_v3)
FAMILY(gemma3)
FAMILY(mistral_7b)
FAMILY(synth_metaspace)
FAMILY(synth_addedflags)

/* Case 10: BOS exactly once. Case 16: ignore_merges. Cases 17, 19, 20, 22 and 23. */
static void llama3_agrees_and_keeps_its_cases(void **state) {
    (void)state;
    struct tokenizer *tokenizer = load("llama3_2");
    if (!tokenizer)
        skip();
    check_strings(tokenizer, "llama3_2");
    check_fuzz(tokenizer, "llama3_2");
    check_decoding(tokenizer, "llama3_2");
    CHECK_IDS(tokenizer, "<|begin_of_text|>hi", 128000, 6151);
    CHECK_SPECIAL_IDS(tokenizer, "hi", 128000, 6151);
    CHECK_SPECIAL_IDS(tokenizer, "", 128000);
    CHECK_IDS(tokenizer, " Việt", 101798);
    CHECK_IDS(tokenizer, "Việt", 36644, 26298, 83);
    CHECK_IDS(tokenizer, "12345678", 4513, 10961, 2495);
    CHECK_IDS(tokenizer, "a\n\n\n b", 64, 1432, 293);
    CHECK_IDS(tokenizer, "   \n  x", 5996, 220, 865);
    CHECK_IDS(tokenizer, "a  \n\n  b   ", 64, 19124, 220, 293, 262);
    CHECK_IDS(tokenizer, "x!\n\ny", 87, 2268, 88);
    CHECK_IDS(tokenizer, "IT'S", 964, 13575);
    CHECK_IDS(tokenizer, "١٢٣٤", 109610, 110546, 117413, 124079);
    CHECK_IDS(tokenizer, "cafe\u0301", 936, 1897, 54939);
    CHECK_IDS(tokenizer, "café", 936, 59958);
    CHECK_IDS(tokenizer, "ab\0cd", 370, 188, 4484);
    CHECK_TEXT(tokenizer, false, "😀", 76460, 222);
    CHECK_TEXT(tokenizer, false, "🦙", 9468, 99, 247);
    CHECK_TEXT(tokenizer, false, "�", 76460);
    CHECK_TEXT(tokenizer, false, "a�b", 64, 222, 65);
    CHECK_TEXT(tokenizer, false, "x != y and a.b == c", 87, 976, 379, 323, 264, 960, 624, 272);
    CHECK_TEXT(tokenizer, false, "the word 'social'", 1820, 3492, 364, 23191, 6);
    CHECK_TEXT(tokenizer, false, "a , b . c ?", 64, 1174, 293, 662, 272, 949);
    tokenizer_free(tokenizer);
}

static void qwen3_agrees_and_keeps_its_cases(void **state) {
    (void)state;
    struct tokenizer *tokenizer = load("qwen3");
    if (!tokenizer)
        skip();
    check_strings(tokenizer, "qwen3");
    check_fuzz(tokenizer, "qwen3");
    check_decoding(tokenizer, "qwen3");
    CHECK_IDS(tokenizer, "12345678", 16, 17, 18, 19, 20, 21, 22, 23);
    CHECK_IDS(tokenizer, "a\n\n\n b", 64, 1406, 293);
    CHECK_IDS(tokenizer, "   \n  x", 5872, 220, 856);
    CHECK_IDS(tokenizer, "a  \n\n  b   ", 64, 18611, 220, 293, 262);
    CHECK_IDS(tokenizer, "cafe\u0301", 924, 58858);
    CHECK_IDS(tokenizer, "\u212b\u2126", 144044, 144572);
    CHECK_IDS(tokenizer, "e\u0301\u0301", 963, 53839);
    CHECK_IDS(tokenizer, "ab\0cd", 370, 188, 4385);
    CHECK_IDS(tokenizer, "<think>x</think>", 151667, 87, 151668);
    CHECK_TEXT(tokenizer, true, "<think>x</think>", 151667, 87, 151668);
    CHECK_TEXT(tokenizer, false, "똻", 124471, 119);
    tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(family_of_gpt2_agrees),
        cmocka_unit_test(family_of_synth_smollm_agrees),
        cmocka_unit_test(llama3_agrees_and_keeps_its_cases),
        cmocka_unit_test(family_of_qwen2_5_agrees),
        cmocka_unit_test(qwen3_agrees_and_keeps_its_cases),
        cmocka_unit_test(family_of_mistral_nemo_agrees),
        cmocka_unit_test(family_of_deepseek_v3_agrees),
        cmocka_unit_test(family_of_gemma3_agrees),
        cmocka_unit_test(family_of_mistral_7b_agrees),
        cmocka_unit_test(family_of_synth_metaspace_agrees),
        cmocka_unit_test(family_of_synth_addedflags_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
