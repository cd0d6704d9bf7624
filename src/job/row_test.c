/* What a line means. Expected values follow from INTERFACE.md "Rows" and RFC 8259, by hand. */
#include "job/row.h"

#include "io/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct settings defaults = {.max_tokens = 512, .top_p = 1, .logprobs = -1};

/* Parses and keeps the row; the caller releases it. */
static enum status parse(const char *line, struct row *row, struct error *err) {
    *err = (struct error){0};
    return row_parse(str_from(line), 7, &defaults, row, NULL, err);
}

static void good(const char *line, struct row *row) {
    struct error err;
    if (parse(line, row, &err) != SL_OK)
        fail_msg("%s: %s", line, err.text);
}

static void assert_text(struct str text, const char *expected) {
    if (!str_is(text, expected))
        fail_msg("\"%.*s\", expected \"%s\"", STR_ARG(text), expected);
}

/* The row's error must hold `says`; its id in the error line is id_json. */
static void bad(const char *line, const char *says, const char *id_json) {
    struct row row;
    struct error err;
    assert_int_equal(parse(line, &row, &err), SL_ERR_ROW);
    if (strstr(err.text, says) == NULL)
        fail_msg("%s: \"%s\" does not hold \"%s\"", line, err.text, says);
    assert_text(row.id_json, id_json);
    assert_non_null(row.code);
    row_release(&row);
}

static void row_takes_every_form(void **state) {
    (void)state;
    struct row row;
    good("{\"id\": \"a\", \"prompt\": \"hi\"}", &row);
    assert_int_equal(row.form, ROW_PROMPT);
    assert_text(row.prompt, "hi");
    assert_text(row.id_json, "\"a\"");
    assert_false(row.is_batch);
    row_release(&row);

    good("{\"id\": 900001, \"prompt_ids\": [5, 4294967295]}", &row);
    assert_int_equal(row.form, ROW_PROMPT_IDS);
    assert_int_equal(row.prompt_id_count, 2);
    assert_int_equal(row.prompt_ids[1], 4294967295u);
    assert_text(row.id_json, "900001");
    row_release(&row);

    good("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": []}", &row);
    assert_int_equal(row.form, ROW_MESSAGES);
    assert_int_equal(row.messages->count, 1);
    assert_non_null(row.tools);
    assert_int_equal(row.tools->count, 0);
    assert_text(row.id_json, "7"); /* the line number */
    assert_false(row.has_id);
    assert_true(row.adds_generation_prompt);
    row_release(&row);
}

static void batch_lines_are_known_by_their_custom_id(void **state) {
    (void)state;
    struct row row;
    good("{\"custom_id\": \"c\", \"id\": 1, \"method\": \"POST\", \"url\": "
         "\"/v1/chat/completions\", "
         "\"body\": {\"model\": \"m\", \"messages\": [{}], \"max_completion_tokens\": 3}}",
         &row);
    assert_true(row.is_batch);
    assert_true(row.is_chat);
    assert_text(row.id_json, "\"c\"");
    assert_int_equal(row.max_tokens, 3);
    row_release(&row);

    good("{\"custom_id\": \"\", \"body\": {\"prompt\": \"p\", \"logprobs\": 2}}", &row);
    assert_false(row.is_chat);
    assert_text(row.id_json, "\"\"");
    assert_true(row.wants_logprobs);
    assert_int_equal(row.top_logprobs, 2);
    row_release(&row);

    good("{\"custom_id\": \"c\", \"body\": {\"prompt\": [1, 2]}}", &row);
    assert_int_equal(row.form, ROW_PROMPT_IDS);
    row_release(&row);

    good("{\"custom_id\": \"c\", \"url\": \"/v1/completions\", \"body\": {\"prompt_ids\": [3]}}",
         &row);
    assert_int_equal(row.form, ROW_PROMPT_IDS);
    assert_int_equal(row.prompt_ids[0], 3);
    assert_false(row.is_chat);
    row_release(&row);

    good("{\"custom_id\": \"c\", \"body\": {\"prompt_ids\": [3]}}", &row);
    assert_false(row.is_chat);
    row_release(&row);

    bad("{\"id\": \"c\", \"method\": \"POST\", \"body\": {\"prompt\": \"p\"}}",
        "a Batch line needs custom_id", "\"c\"");
    static const char *const prompts[] = {"[\"a\", \"b\"]", "[[1], [2]]", "[1, \"a\"]", "5"};
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++) {
        char line[100];
        snprintf(line, sizeof line, "{\"custom_id\": \"c\", \"body\": {\"prompt\": %s}}",
                 prompts[i]);
        bad(line, "prompt must be a text or one list of token ids", "\"c\"");
    }
    bad("{\"custom_id\": \"c\", \"body\": {\"prompt\": \"\", \"logprobs\": 21}}",
        "logprobs must be a whole number from 0 to 20", "\"c\"");
    bad("{\"custom_id\": \"c\"}", "no body", "\"c\"");
    bad("{\"custom_id\": \"c\", \"body\": \"text\"}", "body must be an object", "\"c\"");
    bad("{\"custom_id\": [1], \"body\": {}}", "custom_id must be a text or a number", "7");
    bad("{\"custom_id\": \"c\", \"url\": \"/v1/embeddings\", \"body\": {\"prompt\": \"\"}}",
        "url is /v1/embeddings", "\"c\"");
    bad("{\"custom_id\": \"c\", \"url\": \"/v1/completions\", \"body\": {\"messages\": [{}]}}",
        "body has no prompt", "\"c\"");
    bad("{\"custom_id\": \"c\", \"method\": \"GET\", \"body\": {\"prompt\": \"\"}}",
        "method must be POST", "\"c\"");
}

static void lines_that_are_no_rows_are_errors(void **state) {
    (void)state;
    bad("{\"id\": \"torn\", \"pro", "not valid JSON", "7");
    bad("[1, 2]", "not an object", "7");
    bad("\"x\"", "not an object", "7");
    bad("null", "not an object", "7");
    bad("", "not valid JSON", "7");
    bad("{\"id\": \"a\", \"prompt\": \"x\"} x", "not valid JSON", "7");
    bad("{\"id\": \"a\", \"prompt\": \"\xff\xfe\"}", "byte 24 of the line is not valid UTF-8", "7");
    bad("{\"id\": [1], \"prompt\": \"x\"}", "id must be a text or a number", "7");
    bad("{\"id\": true, \"prompt\": \"x\"}", "id must be a text or a number", "7");
    bad("{\"id\": \"a\"}", "no prompt, prompt_ids or messages", "\"a\"");
    bad("{\"id\": \"a\", \"prompt\": null}", "no prompt, prompt_ids or messages", "\"a\"");
    bad("{\"id\": \"a\", \"prompt\": \"x\", \"prompt_ids\": [1]}", "more than one", "\"a\"");
    bad("{\"id\": \"a\", \"prompt\": 5}", "prompt must be a text", "\"a\"");
    bad("{\"id\": \"a\", \"messages\": []}", "messages is empty", "\"a\"");
    bad("{\"id\": \"a\", \"messages\": \"x\"}", "messages must be a list", "\"a\"");
    bad("{\"id\": \"a\", \"prompt_ids\": []}", "prompt_ids is empty", "\"a\"");
    bad("{\"id\": \"a\", \"prompt_ids\": [5, -1]}", "the id -1 is out of range", "\"a\"");
    bad("{\"id\": \"a\", \"prompt_ids\": [4294967296]}", "is out of range", "\"a\"");
    bad("{\"id\": \"a\", \"prompt_ids\": [5, \"x\"]}", "must be integers: number 2", "\"a\"");
    bad("{\"id\": \"a\", \"prompt_ids\": [1.5]}", "must be integers", "\"a\"");
}

static void codes_tell_no_json_from_no_row(void **state) {
    (void)state;
    static const char *const lines[][2] = {{"{\"id\": 1,", "invalid_json"},
                                           {"[1,2]", "invalid_row"},
                                           {"null", "invalid_row"},
                                           {"\"x\"", "invalid_row"},
                                           {"7", "invalid_row"},
                                           {"{}", "invalid_row"},
                                           {"{\"prompt\": \"\xff\"}", "invalid_utf8"}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct row row;
        struct error err;
        assert_int_equal(parse(lines[i][0], &row, &err), SL_ERR_ROW);
        assert_string_equal(row.code, lines[i][1]);
        row_release(&row);
    }
}

static void parameters_out_of_range_name_themselves(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"\"max_tokens\": 0", "max_tokens is 0"},
        {"\"max_tokens\": -1", "max_tokens is -1"},
        {"\"max_tokens\": -99999999999999999999", "max_tokens is -9999"},
        {"\"max_tokens\": 1.5", "max_tokens must be a whole number"},
        {"\"max_completion_tokens\": 0", "max_completion_tokens is 0"},
        {"\"temperature\": \"hot\"", "temperature must be a number"},
        {"\"temperature\": -0.1", "temperature is -0.1"},
        {"\"temperature\": 1e999", "temperature is 1e999"},
        {"\"top_p\": 1.1", "top_p is 1.1"},
        {"\"top_k\": -2", "top_k is -2"},
        {"\"min_p\": 2", "min_p is 2"},
        {"\"seed\": 0.5", "seed must be a whole number"},
        {"\"stop\": 5", "stop must be a text or a list of texts"},
        {"\"stop\": [\"a\", 5]", "stop must be a text or a list of texts"},
        {"\"logprobs\": 3", "logprobs must be true or false"},
        {"\"logprobs\": true, \"top_logprobs\": 21", "top_logprobs must be"},
        {"\"top_logprobs\": 2", "top_logprobs needs logprobs"},
        {"\"tools\": {}", "tools must be a list"},
        {"\"chat_template_kwargs\": []", "chat_template_kwargs must be an object"},
        {"\"ignore_eos\": 1", "ignore_eos must be true or false"},
        {"\"n\": 2", "n must be 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char line[200];
        snprintf(line, sizeof line, "{\"id\": \"a\", \"prompt\": \"x\", %s}", wrong[i][0]);
        bad(line, wrong[i][1], "\"a\"");
    }
}

static void parameters_of_a_row_win_over_settings(void **state) {
    (void)state;
    struct settings settings = defaults;
    settings.temperature = 0.5;
    settings.seed = 9;
    settings.stops[settings.stop_count++] = STR("END");
    settings.logprobs = 5;
    struct row row;
    struct error err;
    struct str line = STR("{\"prompt\": \"x\", \"temperature\": 0, \"top_k\": -1, \"seed\": "
                          "18446744073709551615, \"stop\": [\"\", \"b\"], \"logprobs\": true, "
                          "\"top_logprobs\": 1, \"max_tokens\": 1000000000000000000000000, "
                          "\"continue_final_message\": true, \"return_token_ids\": true}");
    assert_int_equal(row_parse(line, 1, &settings, &row, NULL, &err), SL_OK);
    assert_true(row.sampling.temperature == 0);
    assert_int_equal(row.sampling.top_k, 0);
    assert_true(row.sampling.seed == UINT64_MAX);
    assert_int_equal(row.stop_count, 1); /* the empty one is ignored */
    assert_text(row.stops[0], "b");
    assert_int_equal(row.top_logprobs, 1);
    assert_true(row.max_tokens == INT64_MAX); /* cut to the context later */
    assert_true(row.continues_final_message);
    assert_false(row.adds_generation_prompt);
    assert_true(row.wants_token_ids);
    row_release(&row);

    line = STR("{\"prompt\": \"x\", \"stop\": null, \"temperature\": null}");
    assert_int_equal(row_parse(line, 1, &settings, &row, NULL, &err), SL_OK);
    assert_true(row.sampling.temperature == 0.5);
    assert_true(row.sampling.seed == 9);
    assert_text(row.stops[0], "END");
    assert_true(row.wants_logprobs);
    assert_int_equal(row.top_logprobs, 5);
    row_release(&row);

    line = STR("{\"prompt\": \"x\", \"stop\": []}");
    assert_int_equal(row_parse(line, 1, &settings, &row, NULL, &err), SL_OK);
    assert_int_equal(row.stop_count, 0);
    row_release(&row);
}

/* With --logprobs 5 and --token-ids. */
static void rows_may_switch_off_what_an_option_adds(void **state) {
    (void)state;
    static const struct {
        const char *members;
        bool wants_logprobs;
        size_t top;
        bool wants_ids;
    } rows[] = {
        {"\"n\": 1", true, 5, true},
        {"\"logprobs\": false", false, 5, true},
        {"\"logprobs\": true", true, 5, true},
        {"\"top_logprobs\": 2", true, 2, true},
        {"\"top_logprobs\": 0, \"return_token_ids\": true", true, 0, true},
        {"\"return_token_ids\": false", true, 5, false},
        {"\"logprobs\": null, \"return_token_ids\": null", true, 5, true},
    };
    struct settings settings = defaults;
    settings.logprobs = 5;
    settings.wants_token_ids = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[100];
        struct row row;
        struct error err = {0};
        snprintf(line, sizeof line, "{\"prompt\": \"x\", %s}", rows[i].members);
        if (row_parse(str_from(line), 1, &settings, &row, NULL, &err) != SL_OK)
            fail_msg("%s: %s", line, err.text);
        assert_true(row.wants_logprobs == rows[i].wants_logprobs);
        assert_true(!row.wants_logprobs || row.top_logprobs == rows[i].top);
        assert_true(row.wants_token_ids == rows[i].wants_ids);
        row_release(&row);
    }
    struct row row;
    struct error err = {0};
    struct str line = STR("{\"prompt\": \"x\", \"logprobs\": false, \"top_logprobs\": 2}");
    assert_int_equal(row_parse(line, 1, &settings, &row, NULL, &err), SL_ERR_ROW);
    assert_non_null(strstr(err.text, "top_logprobs needs logprobs"));
    row_release(&row);
}

static void strange_but_valid_text_is_taken_as_it_is(void **state) {
    (void)state;
    struct row row;
    good("{\"id\": \"n\\u0000l\", \"prompt\": \"ab\\u0000cd\"}", &row);
    assert_text(row.id_json, "\"n\\u0000l\"");
    assert_int_equal(row.prompt.len, 5);
    assert_memory_equal(row.prompt.data, "ab\0cd", 5);
    row_release(&row);

    good("{\"prompt\": \"a\\ud800b\"}", &row);
    assert_text(row.prompt, "a\xEF\xBF\xBD"
                            "b");
    assert_true(row.has_lone_surrogates);
    row_release(&row);

    good("{\"id\": \"x\", \"prompt\": \"a\", \"prompt\": \"b\", \"id\": \"y\"}", &row);
    assert_text(row.prompt, "b"); /* the last one of a name wins */
    assert_text(row.id_json, "\"y\"");
    row_release(&row);

    good("{\"id\": \"\\u0061\", \"prompt\": \"\"}", &row);
    assert_text(row.id_json, "\"a\""); /* one spelling for one id */
    row_release(&row);
}

static void depth_beyond_the_limit_is_an_error(void **state) {
    (void)state;
    static char line[4096];
    struct row row;
    struct error err;
    for (int depth = 511; depth <= 512; depth++) { /* and the object around them */
        int length = snprintf(line, sizeof line, "{\"prompt\": \"x\", \"y\": ");
        for (int i = 0; i < depth; i++)
            line[length++] = '[';
        for (int i = 0; i < depth; i++)
            line[length++] = ']';
        line[length++] = '}';
        line[length] = '\0';
        assert_int_equal(parse(line, &row, &err), depth < 512 ? SL_OK : SL_ERR_ROW);
        row_release(&row);
    }
}

static void unknown_members_are_named_once(void **state) {
    (void)state;
    struct row row;
    struct error err;
    struct buf unknown;
    buf_init(&unknown);
    struct str lines[] = {STR("{\"prompt\": \"x\", \"note\": 1, \"no\": 2, \"note\": 3}"),
                          STR("{\"custom_id\": 1, \"extra\": 1, \"body\": {\"prompt\": \"x\", "
                              "\"no\": 2, \"model\": \"m\", \"logit_bias\": {}}}")};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(row_parse(lines[i], 1, &defaults, &row, &unknown, &err), SL_OK);
        row_release(&row);
    }
    assert_string_equal(unknown.data, "note, no, extra, logit_bias");
    buf_release(&unknown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#include "job/row_fuzz.c"

static void saved_corpus_is_replayed(void **state) {
    (void)state;
    const char *corpus = getenv("SLUICE_CORPUS");
    if (corpus == NULL)
        skip(); /* set by `make check` */
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/row", corpus);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[8192];
        struct buf text;
        if (entry->d_name[0] == '.')
            continue;
        buf_init(&text);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        assert_int_equal(file_read_all(path, SL_LINE_MAX, &text, NULL), SL_OK);
        assert_int_equal(LLVMFuzzerTestOneInput((const uint8_t *)text.data, text.len), 0);
        buf_release(&text);
        count++;
    }
    closedir(dir);
    assert_true(count > 10);
}

static void values_of_a_line_are_limited_by_the_share_of_the_budget(void **state) {
    (void)state;
    struct settings settings = defaults;
    struct error err = {0};
    struct row row;
    settings.row_bytes = 3000; /* ten values of 150 bytes are half of it */
    static const char within[] = "{\"prompt_ids\": [1, 2, 3, 4, 5, 6, 7, 8]}",
                      beyond[] = "{\"id\": 5, \"prompt_ids\": [1, 2, 3, 4, 5, 6, 7, 8]}";
    assert_int_equal(row_parse(str_from(within), 1, &settings, &row, NULL, &err), SL_OK);
    assert_true(row_load_bytes(&row, sizeof within) > sizeof within + 8 * sizeof(uint32_t));
    row_release(&row);
    assert_int_equal(row_parse(str_from(beyond), 1, &settings, &row, NULL, &err), SL_ERR_ROW);
    assert_string_equal(row.code, "line_too_long");
    assert_non_null(strstr(err.text, "more than 10 JSON values"));
    row_release(&row);
    /* An eighth, with bounds; and what a row may have when nothing is said. */
    assert_true(row_budget_bytes((uint64_t)96 << 20) == (uint64_t)12 << 20);
    assert_true(row_budget_bytes(1) == (uint64_t)4 << 20);
    assert_true(row_budget_bytes(UINT64_MAX) == (uint64_t)1 << 30);
    assert_true(row_line_bytes_max((uint64_t)1 << 30) == SL_LINE_MAX);
    assert_true(row_line_bytes_max(0) == SL_LINE_MAX && row_values_max(0) == SL_ROW_VALUES_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_takes_every_form),
        cmocka_unit_test(batch_lines_are_known_by_their_custom_id),
        cmocka_unit_test(lines_that_are_no_rows_are_errors),
        cmocka_unit_test(codes_tell_no_json_from_no_row),
        cmocka_unit_test(parameters_out_of_range_name_themselves),
        cmocka_unit_test(parameters_of_a_row_win_over_settings),
        cmocka_unit_test(rows_may_switch_off_what_an_option_adds),
        cmocka_unit_test(strange_but_valid_text_is_taken_as_it_is),
        cmocka_unit_test(depth_beyond_the_limit_is_an_error),
        cmocka_unit_test(unknown_members_are_named_once),
        cmocka_unit_test(saved_corpus_is_replayed),
        cmocka_unit_test(values_of_a_line_are_limited_by_the_share_of_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
