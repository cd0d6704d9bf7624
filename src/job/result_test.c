/* Result lines, byte for byte. The members and their order are those of INTERFACE.md "Results"; the
 * Batch form is that of OpenAI's documentation. */
#include "job/result.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Byte-level BPE without merges; "Ã" stands for the byte C3 and "©" for A9, which make an é. */
static const char tokenizer_json[] =
    "{\"added_tokens\": [{\"id\": 5, \"content\": \"<e>\", \"special\": true, \"normalized\": "
    "false, \"lstrip\": false, \"rstrip\": false, \"single_word\": false}], \"normalizer\": null, "
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
    "true, \"use_regex\": true}, \"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\", "
    "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, \"model\": "
    "{\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": "
    "null, \"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": false, "
    "\"vocab\": {\"a\": 0, \"b\": 1, \"\xC3\x83\": 2, \"\xC2\xA9\": 3, \"\xC4\x8A\": 4}, "
    "\"merges\": []}}";

static struct tokenizer *tokenizer;
static struct result_context context;
static struct row row;
static struct result result;
static struct buf out;

static int begin(void **state) {
    (void)state;
    struct error err = {0};
    if (tokenizer_from_json(STR(tokenizer_json), "test", &tokenizer, &err) != SL_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int end(void **state) {
    (void)state;
    tokenizer_free(tokenizer);
    return 0;
}

static int reset(void **state) {
    static const uint32_t ids[] = {0, 2};
    (void)state;
    context = (struct result_context){tokenizer, "m\"", 7, 1700000000};
    row = (struct row){.line = 3, .id_json = STR("\"a\"")};
    result = (struct result){.row = &row,
                             .prompt_tokens = 4,
                             .ids = ids,
                             .count = 2,
                             .text = STR("a\n\"\x01"),
                             .finish = FINISH_STOP};
    buf_init(&out);
    return 0;
}

static int release(void **state) {
    (void)state;
    buf_release(&out);
    return 0;
}

static void plain_lines_have_the_members_in_order(void **state) {
    (void)state;
    result_line(&context, &result, &out);
    assert_string_equal(out.data,
                        "{\"id\": \"a\", \"text\": \"a\\n\\\"\\u0001\", \"finish_reason\": "
                        "\"stop\", \"usage\": {\"prompt_tokens\": 4, \"completion_tokens\": 2}}\n");
    buf_clear(&out);
    row.id_json = STR("900001");
    row.wants_token_ids = true;
    result.finish = FINISH_LENGTH;
    result.text = (struct str){NULL, 0};
    result_line(&context, &result, &out);
    assert_string_equal(out.data, "{\"id\": 900001, \"text\": \"\", \"finish_reason\": \"length\", "
                                  "\"usage\": {\"prompt_tokens\": 4, \"completion_tokens\": 2}, "
                                  "\"token_ids\": [0, 2]}\n");
}

static void logprobs_hold_text_and_bytes_of_tokens(void **state) {
    (void)state;
    struct logprob top_a[] = {{0, -0.5f}, {5, -1.25f}}, top_b[] = {{2, -0.1f}, {4, -2.5f}};
    struct token_logprobs entries[] = {{0, -0.5f, top_a}, {2, -0.1f, top_b}};
    row.wants_logprobs = true;
    result.logprobs = entries;
    result.top_logprobs = 2;
    result.text = STR("");
    result_line(&context, &result, &out);
    /* Half a character has a token text of one U+FFFD and its byte, 0xC3 = 195; a float prints
     * with the fewest digits that give it back. */
    assert_string_equal(
        strstr(out.data, "\"logprobs\""),
        "\"logprobs\": {\"content\": [{\"token\": \"a\", \"id\": 0, \"logprob\": -0.5, \"bytes\": "
        "[97], \"top_logprobs\": [{\"token\": \"a\", \"id\": 0, \"logprob\": -0.5, \"bytes\": "
        "[97]}, {\"token\": \"<e>\", \"id\": 5, \"logprob\": -1.25, \"bytes\": [60, 101, 62]}]}, "
        "{\"token\": \"\xEF\xBF\xBD\", \"id\": 2, \"logprob\": -0.1, \"bytes\": [195], "
        "\"top_logprobs\": [{\"token\": \"\xEF\xBF\xBD\", \"id\": 2, \"logprob\": -0.1, \"bytes\": "
        "[195]}, {\"token\": \"\\n\", \"id\": 4, \"logprob\": -2.5, \"bytes\": [10]}]}]}}\n");
    buf_clear(&out);
    result.count = 0; /* an answer without tokens */
    result_line(&context, &result, &out);
    assert_non_null(strstr(out.data, "\"logprobs\": {\"content\": []}}\n"));
}

/* The member at a path of names and array positions, separated by dots. */
static const struct json *at(const struct json *json, const char *path) {
    struct str rest = str_from(path);
    while (rest.len > 0 && json != NULL) {
        size_t dot = str_find(rest, STR("."), 0);
        struct str name = str_cut(rest, 0, dot);
        uint64_t index;
        if (json_is(json, JSON_ARRAY) && str_to_u64(name, &index))
            json = index < json->count ? &json->items[index] : NULL;
        else
            json = json_get_str(json, name);
        rest = dot == SIZE_MAX ? STR("") : str_cut(rest, dot + 1, rest.len);
    }
    return json;
}

static void assert_at(const struct json *json, const char *path, const char *expected) {
    const struct json *value = at(json, path);
    assert_non_null(value);
    struct buf text;
    buf_init(&text);
    json_add(&text, value, true);
    assert_string_equal(text.data, expected);
    buf_release(&text);
}

static void batch_lines_have_openais_form(void **state) {
    (void)state;
    struct arena arena;
    const struct json *json;
    arena_init(&arena);
    row.is_batch = row.is_chat = true;
    result_line(&context, &result, &out);
    assert_true(str_ends(buf_str(&out), STR("}\n")));
    assert_int_equal(json_parse(&arena, buf_str(&out), NULL, &json, NULL), SL_OK);
    assert_at(json, "custom_id", "\"a\"");
    assert_at(json, "error", "null");
    assert_at(json, "response.status_code", "200");
    assert_at(json, "response.body.object", "\"chat.completion\"");
    assert_at(json, "response.body.created", "1700000000");
    assert_at(json, "response.body.model", "\"m\\\"\"");
    assert_at(json, "response.body.choices.0.message",
              "{\"role\": \"assistant\", \"content\": \"a\\n\\\"\\u0001\"}");
    assert_at(json, "response.body.choices.0.finish_reason", "\"stop\"");
    assert_at(json, "response.body.choices.0.logprobs", "null");
    assert_at(json, "response.body.usage",
              "{\"prompt_tokens\": 4, \"completion_tokens\": 2, \"total_tokens\": 6}");
    buf_clear(&out);
    row.is_chat = false;
    result_line(&context, &result, &out);
    assert_int_equal(json_parse(&arena, buf_str(&out), NULL, &json, NULL), SL_OK);
    assert_at(json, "response.body.object", "\"text_completion\"");
    assert_at(json, "response.body.choices.0.text", "\"a\\n\\\"\\u0001\"");
    arena_release(&arena);
}

/* Tokens "a", the two bytes of an é, and "b": the text is "aéb". */
static void completions_have_logprobs_in_four_lists(void **state) {
    (void)state;
    static const uint32_t ids[] = {0, 2, 3, 1};
    struct logprob tops[4][2] = {{{0, -0.5f}, {5, -1.25f}},
                                 {{2, -0.1f}, {4, -2.5f}},
                                 {{9, -1}, {10, -2}},
                                 {{0, -1}, {4, -2}}};
    struct token_logprobs entries[] = {
        {0, -0.5f, tops[0]}, {2, -0.1f, tops[1]}, {3, -3, tops[2]}, {1, -4, tops[3]}};
    struct arena arena;
    const struct json *json;
    arena_init(&arena);
    row.is_batch = true;
    row.wants_logprobs = true;
    result.ids = ids;
    result.count = 4;
    result.text = STR("a\xC3\xA9"
                      "b");
    result.logprobs = entries;
    result.top_logprobs = 2;
    result_line(&context, &result, &out);
    assert_int_equal(json_parse(&arena, buf_str(&out), NULL, &json, NULL), SL_OK);
    const struct json *lists = at(json, "response.body.choices.0.logprobs");
    assert_at(lists, "tokens", "[\"a\", \"bytes:\\\\xc3\", \"bytes:\\\\xa9\", \"b\"]");
    assert_at(lists, "token_logprobs", "[-0.5, -0.1, -3.0, -4.0]");
    /* Of the best tokens, and the answer's own; ids 9 and 10 have no token and one spelling. */
    assert_at(lists, "top_logprobs.0", "{\"a\": -0.5, \"<e>\": -1.25}");
    assert_at(lists, "top_logprobs.1", "{\"bytes:\\\\xc3\": -0.1, \"\\n\": -2.5}");
    assert_at(lists, "top_logprobs.2", "{\"\": -1.0, \"bytes:\\\\xa9\": -3.0}");
    assert_at(lists, "top_logprobs.3", "{\"a\": -1.0, \"\\n\": -2.0, \"b\": -4.0}");
    assert_at(lists, "text_offset", "[0, 1, 1, 2]");
    buf_clear(&out);
    result.count = 0;
    result.top_logprobs = 0;
    result_line(&context, &result, &out);
    assert_non_null(strstr(out.data, "\"logprobs\": {\"tokens\": [], \"token_logprobs\": [], "
                                     "\"top_logprobs\": null, \"text_offset\": []}"));
    arena_release(&arena);
}

static void made_up_ids_depend_on_job_and_row_alone(void **state) {
    (void)state;
    struct buf again;
    buf_init(&again);
    row.is_batch = true;
    result_line(&context, &result, &out);
    result_line(&context, &result, &again);
    assert_string_equal(out.data, again.data);
    buf_clear(&again);
    context.fingerprint++;
    result_line(&context, &result, &again);
    assert_string_not_equal(out.data, again.data);
    buf_release(&again);
}

static void errors_carry_message_line_and_code(void **state) {
    (void)state;
    struct error error = {SL_ERR_ROW, "no \"prompt\""};
    struct arena arena;
    const struct json *json;
    result_error_line(&context, &row, &error, "invalid_row", &out);
    assert_string_equal(out.data,
                        "{\"id\": \"a\", \"error\": {\"message\": \"no \\\"prompt\\\"\", \"line\": "
                        "3, \"code\": \"invalid_row\"}, \"finish_reason\": \"error\"}\n");
    buf_clear(&out);
    arena_init(&arena);
    row.is_batch = true;
    result_error_line(&context, &row, &error, "invalid_row", &out);
    assert_int_equal(json_parse(&arena, buf_str(&out), NULL, &json, NULL), SL_OK);
    assert_at(json, "custom_id", "\"a\"");
    assert_at(json, "error", "null");
    assert_at(json, "response.status_code", "400");
    assert_at(json, "response.body.error.message", "\"no \\\"prompt\\\"\"");
    assert_at(json, "response.body.error.type", "\"invalid_request_error\"");
    assert_at(json, "response.body.error.line", "3");
    arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_lines_have_the_members_in_order, reset, release),
        cmocka_unit_test_setup_teardown(logprobs_hold_text_and_bytes_of_tokens, reset, release),
        cmocka_unit_test_setup_teardown(batch_lines_have_openais_form, reset, release),
        cmocka_unit_test_setup_teardown(completions_have_logprobs_in_four_lists, reset, release),
        cmocka_unit_test_setup_teardown(made_up_ids_depend_on_job_and_row_alone, reset, release),
        cmocka_unit_test_setup_teardown(errors_carry_message_line_and_code, reset, release),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
