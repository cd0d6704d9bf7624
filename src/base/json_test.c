/* Reading JSON: what RFC 8259 accepts and what it does not, and the tree that comes of it. */
#include "base/json.h"

#include "base/fault.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct arena arena;
static struct error err;

static int begin(void **state) {
    (void)state;
    arena_init(&arena);
    err = (struct error){0};
    return 0;
}

static int end(void **state) {
    (void)state;
    fault_arm(SL_FAULT_ALLOC, 0, false);
    arena_release(&arena);
    return 0;
}

/* The tree, or NULL. The text is copied to memory of its exact size, so that reading past its end
 * is found by ASan. */
static const struct json *parse_with(struct str text, const struct json_options *options) {
    const struct json *json = NULL;
    char *copy = arena_take(&arena, text.len);
    char *exact = malloc(text.len ? text.len : 1);
    assert_non_null(copy);
    assert_non_null(exact);
    memcpy(copy, text.data, text.len);
    memcpy(exact, text.data, text.len);
    enum status exact_status =
        json_parse(&arena, (struct str){exact, text.len}, options, &json, &err);
    free(exact);
    json = NULL;
    if (options && options->lone_surrogates)
        *options->lone_surrogates = 0;
    enum status status = json_parse(&arena, (struct str){copy, text.len}, options, &json, &err);
    assert_int_equal(status, exact_status);
    assert_true((status == SL_OK) == (json != NULL));
    return json;
}

static const struct json *parse(struct str text) {
    return parse_with(text, NULL);
}

static const struct str accepted[] = {
    STR("null"),
    STR(" \t\r\n true \n"),
    STR("0"),
    STR("-0"),
    STR("-0.0e-0"),
    STR("1E+2"),
    STR("123456789012345678901234567890"),
    STR("1e999"),
    STR("\"\""),
    STR("[]"),
    STR("{}"),
    STR("[[],{},[{}]]"),
    STR("{\"\":0}"),
    STR("{\"a\":{\"a\":[]}}"),
    STR("[ 1 , 2 ]"),
    STR("{ \"a\" : 1 , \"a\" : 2 }"),
    STR("\"\\u0000\""),
    STR("\"\x7f\""),
    STR("\"\xe2\x80\xa8\""),
    STR("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
    STR("\"\\ud83d\\ude00\""),
    STR("\"\xf0\x9f\x98\x80\""),
    STR("[1,2,3,4,5,6,7,8,9,10]"),
    STR("\"\\uD800\""),
    STR("[-1.5e-3]"),
};

static const struct str refused[] = {
    STR(""),
    STR(" "),
    STR("nul"),
    STR("nulll"),
    STR("True"),
    STR("NaN"),
    STR("Infinity"),
    STR("-"),
    STR("-a"),
    STR("+1"),
    STR("01"),
    STR("-01"),
    STR("1."),
    STR(".5"),
    STR("1.e1"),
    STR("1e"),
    STR("1e+"),
    STR("0x10"),
    STR("1 2"),
    STR("\""),
    STR("\"a"),
    STR("\"\\"),
    STR("\"\\\""),
    STR("\"\\x\""),
    STR("\"\\u12\""),
    STR("\"\\u12g4\""),
    STR("\"\\u"),
    STR("\"\\U0041\""),
    STR("\"\n\""),
    STR("\"\t\""),
    STR("\"a\0b\""),
    STR("'a'"),
    STR("["),
    STR("[1"),
    STR("[1,"),
    STR("[1,]"),
    STR("[,1]"),
    STR("[1 2]"),
    STR("[1}"),
    STR("]"),
    STR("}"),
    STR("{"),
    STR("{\"a\""),
    STR("{\"a\":"),
    STR("{\"a\":1"),
    STR("{\"a\":1,"),
    STR("{\"a\":1,}"),
    STR("{,}"),
    STR("{a:1}"),
    STR("{1:1}"),
    STR("{\"a\" 1}"),
    STR("{\"a\",1}"),
    STR("{\"a\":1]"),
    STR("{\"a\"::1}"),
    STR("[]]"),
    STR("{}{}"),
    STR("// c\n1"),
    STR("/**/1"),
    STR("\xef\xbb\xbf"
        "1"),
    STR("\"\xff\""),
    STR("\"\xc0\x80\""),
    STR("\"\xed\xa0\x80\""),
    STR("\xff"),
    STR("1\0"),
    STR("\"\\\xc3\xa4\""),
    STR("[\v1]"),
    STR("\"\\u004\xc3\xa4\""),
    STR("\"\\\0\""),
};

static void grammar_of_the_rfc_is_accepted(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        if (!parse(accepted[i]))
            fail_msg("%s: %s", accepted[i].data, err.text);
}

static void all_else_is_refused_in_one_sentence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        err = (struct error){0};
        if (parse(refused[i]))
            fail_msg("vector %zu: %s", i, refused[i].data);
        assert_int_equal(err.status, SL_ERR_INPUT);
        assert_non_null(strstr(err.text, "byte"));
    }
}

static void every_cut_of_a_text_is_refused(void **state) {
    (void)state;
    struct str text =
        STR("{\"a\":[1.5e3,\"\\u00e4\\ud83d\\ude00\",{\"b\":null}],\"c\":[true,false]}");
    assert_non_null(parse(text));
    for (size_t len = 0; len < text.len; len++)
        assert_null(parse(str_cut(text, 0, len)));
}

static void tree_has_members_in_their_order(void **state) {
    (void)state;
    const struct json *json = parse(STR("{\"b\":[1,\"x\",null,true],\"a\":{\"n\":-7},\"b\":2}"));
    assert_true(json_is(json, JSON_OBJECT));
    assert_int_equal(json->count, 3);
    assert_true(str_is(json->members[0].name, "b"));
    assert_true(str_is(json->members[1].name, "a"));
    const struct json *list = &json->members[0].value;
    assert_int_equal(list->kind, JSON_ARRAY);
    assert_int_equal(list->count, 4);
    assert_true(str_is(list->items[0].text, "1"));
    assert_true(str_is(list->items[1].text, "x"));
    assert_int_equal(list->items[2].kind, JSON_NULL);
    assert_int_equal(list->items[3].kind, JSON_TRUE);
    int64_t number = 0;
    assert_true(json_i64(json_get(json, "b"), &number)); /* the last of that name */
    assert_int_equal(number, 2);
    assert_true(json_i64(json_get(json_get(json, "a"), "n"), &number));
    assert_int_equal(number, -7);
    assert_null(json_get(json, "c"));
    assert_null(json_get(NULL, "c"));
    assert_null(json_get(list, "b"));
    assert_int_equal(sizeof(struct json), 24);
}

static void escapes_become_utf8(void **state) {
    (void)state;
    struct str text;
    const struct json *json =
        parse(STR("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e4\\u20AC\\uD83D\\uDE00z\\u0000\""));
    assert_true(json_string(json, &text));
    assert_true(str_equal(text, STR("a\"\\/\b\f\n\r\tA\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z\0")));
}

static void strings_without_escapes_borrow_from_the_text(void **state) {
    (void)state;
    const struct json *json = NULL;
    struct str text = STR("[\"plain \xc3\xa4\"]");
    assert_int_equal(json_parse(&arena, text, NULL, &json, &err), SL_OK);
    assert_ptr_equal(json->items[0].text.data, text.data + 2);
}

static void lone_surrogates_become_one_replacement_each(void **state) {
    (void)state;
    uint32_t lone = 0;
    struct json_options options = {.lone_surrogates = &lone};
    const struct json *json = parse_with(STR("[\"\\ud800\",\"x\\udc00y\",\"\\ud800\\ud83d\\ude00\","
                                             "\"\\ud800\\u0041\",\"\\ude00\\ud83d\"]"),
                                         &options);
    assert_non_null(json);
    assert_true(str_is(json->items[0].text, "\xef\xbf\xbd"));
    assert_true(str_is(json->items[1].text, "x\xef\xbf\xbdy"));
    assert_true(str_is(json->items[2].text, "\xef\xbf\xbd\xf0\x9f\x98\x80"));
    assert_true(str_is(json->items[3].text, "\xef\xbf\xbd"
                                            "A"));
    assert_true(str_is(json->items[4].text, "\xef\xbf\xbd\xef\xbf\xbd"));
    assert_int_equal(lone, 6);
}

static void names_may_hold_nul_and_escapes(void **state) {
    (void)state;
    const struct json *json = parse(STR("{\"a\\u0000b\":1,\"a\":2}"));
    int64_t value = 0;
    assert_true(json_i64(json_get_str(json, STR("a\0b")), &value));
    assert_int_equal(value, 1);
    assert_true(json_i64(json_get(json, "a"), &value));
    assert_int_equal(value, 2);
}

static void depth_is_limited_without_recursion(void **state) {
    (void)state;
    struct json_options options = {.depth_max = 3};
    assert_non_null(parse_with(STR("[[[1]]]"), &options));
    assert_non_null(parse_with(STR("[{\"a\":[]},[[]]]"), &options));
    assert_null(parse_with(STR("[[[[]]]]"), &options));
    assert_non_null(strstr(err.text, "deeper than 3 levels at byte 3"));
    static char deep[200000];
    memset(deep, '[', sizeof deep / 2);
    memset(deep + sizeof deep / 2, ']', sizeof deep / 2);
    assert_null(parse((struct str){deep, sizeof deep}));
    assert_non_null(strstr(err.text, "512"));
    options.depth_max = UINT32_MAX;
    assert_non_null(parse_with((struct str){deep, sizeof deep}, &options));
}

static void duplicates_are_refused_when_asked(void **state) {
    (void)state;
    struct json_options options = {.refuses_duplicates = true};
    assert_non_null(parse_with(STR("{\"a\":{\"a\":1},\"b\":{\"a\":1}}"), &options));
    assert_null(parse_with(STR("{\"x\":1,\"a\":{\"k\":1,\"\\u006b\":2}}"), &options));
    assert_non_null(strstr(err.text, "\"k\" twice"));
    char many[4000];
    int len = 0;
    for (int i = 0; i < 200; i++)
        len += snprintf(many + len, sizeof many - (size_t)len, "%c\"n%d\":0", i ? ',' : '{', i);
    int whole = len + snprintf(many + len, sizeof many - (size_t)len, "}");
    assert_non_null(parse_with((struct str){many, (size_t)whole}, &options));
    whole = len + snprintf(many + len, sizeof many - (size_t)len, ",\"n17\":1}");
    assert_null(parse_with((struct str){many, (size_t)whole}, &options));
    assert_non_null(strstr(err.text, "\"n17\" twice"));
}

static void errors_name_the_byte(void **state) {
    (void)state;
    assert_null(parse(STR("[1, 2, x]")));
    assert_non_null(strstr(err.text, "at byte 7 ('x')"));
    assert_null(parse(STR("{\"a\": \"\xc3\"}")));
    assert_non_null(strstr(err.text, "at byte 7 (0xc3): not UTF-8"));
    assert_null(parse(STR("[1, 2")));
    assert_non_null(strstr(err.text, "ends too early at byte 5"));
    assert_null(parse(STR("[\"ab\\q\"]")));
    assert_non_null(strstr(err.text, "at byte 5 ('q')"));
}

static void integers_are_exact_or_refused(void **state) {
    (void)state;
    const struct json *json = parse(
        STR("[9223372036854775807,-9223372036854775808,9223372036854775808,-9223372036854775809,"
            "18446744073709551615,18446744073709551616,-1,-0,1.0,1e2,\"1\"]"));
    static const bool fits_i64[] = {1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0};
    static const bool fits_u64[] = {1, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0};
    static const bool is_integer[] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
    int64_t i64 = 0;
    uint64_t u64 = 0;
    assert_int_equal(json->count, 11);
    for (size_t i = 0; i < 11; i++) {
        assert_int_equal(json_i64(&json->items[i], &i64), fits_i64[i]);
        assert_int_equal(json_u64(&json->items[i], &u64), fits_u64[i]);
        assert_int_equal(json_is_integer(&json->items[i]), is_integer[i]);
    }
    assert_true(json_i64(&json->items[0], &i64) && i64 == INT64_MAX);
    assert_true(json_i64(&json->items[1], &i64) && i64 == INT64_MIN);
    assert_true(json_u64(&json->items[4], &u64) && u64 == UINT64_MAX);
    assert_true(json_u64(&json->items[7], &u64) && u64 == 0);
    assert_false(json_i64(NULL, &i64));
    assert_true(str_is(json->items[5].text, "18446744073709551616"));
}

static void doubles_are_rounded_rightly(void **state) {
    (void)state;
    char longer[500];
    double value = 0;
    memset(longer, '0', sizeof longer);
    memcpy(longer, "[0.1,-0.", 8); /* then zeros, more than a small buffer holds */
    memcpy(longer + sizeof longer - 13, "125e483,7E0]\n", 13); /* 479 zeros before 125 */
    const struct json *json = parse((struct str){longer, sizeof longer});
    assert_non_null(json);
    assert_true(json_double(&json->items[0], &value) && value == 0.1);
    assert_true(json_double(&json->items[1], &value) && value == -1250);
    assert_true(json_double(&json->items[2], &value) && value == 7);
    json = parse(STR("[1e400,-1e400,1e-400,3]"));
    assert_true(json_double(&json->items[0], &value) && value > 1.7976931348623157e308);
    assert_true(json_double(&json->items[1], &value) && value < -1.7976931348623157e308);
    assert_true(json_double(&json->items[2], &value) && value == 0);
    assert_true(json_double(&json->items[3], &value) && value == 3);
    assert_false(json_double(parse(STR("\"1\"")), &value));
}

static void booleans_and_strings_are_told_apart(void **state) {
    (void)state;
    const struct json *json = parse(STR("[true,false,null,\"true\",1]"));
    bool value = false;
    struct str text;
    assert_true(json_bool(&json->items[0], &value) && value);
    assert_true(json_bool(&json->items[1], &value) && !value);
    for (size_t i = 2; i < 5; i++)
        assert_false(json_bool(&json->items[i], &value));
    assert_false(json_bool(NULL, &value));
    assert_true(json_string(&json->items[3], &text));
    assert_false(json_string(&json->items[4], &text));
    assert_false(json_is(NULL, JSON_NULL));
}

static void each_failed_allocation_is_an_error(void **state) {
    (void)state;
    struct str text = STR("{\"a\\n\":[1,{\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,"
                          "\"i\":9,\"j\":10}],\"k\":[[[[[[[[[[1]]]]]]]]]]}");
    struct json_options options = {.refuses_duplicates = true};
    size_t failed = 0;
    for (uint64_t nth = 1; nth < 100; nth++) {
        const struct json *json = NULL;
        arena_release(&arena);
        fault_arm(SL_FAULT_ALLOC, nth, true);
        enum status status = json_parse(&arena, text, &options, &json, &err);
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ERR_ENV);
        assert_null(json);
        failed++;
    }
    assert_in_range(failed, 4, 90);
}

/* What the fuzz target does too: what is read, written and read again is the same. */
static void check_round_trip(struct str text) {
    const struct json *json = NULL;
    struct buf once, twice;
    if (json_parse(&arena, text, NULL, &json, &err) != SL_OK)
        return;
    buf_init(&once);
    buf_init(&twice);
    json_add(&once, json, false);
    assert_int_equal(json_parse(&arena, buf_str(&once), NULL, &json, &err), SL_OK);
    json_add(&twice, json, false);
    assert_true(str_equal(buf_str(&once), buf_str(&twice)));
    buf_release(&once);
    buf_release(&twice);
}

static void corpus_is_read_without_harm(void **state) {
    (void)state;
    const char *corpus = getenv("SLUICE_CORPUS");
    if (!corpus) {
        print_message("SLUICE_CORPUS (the folder test/corpus) is not set\n");
        skip();
    }
    char path[1000];
    snprintf(path, sizeof path, "%s/json", corpus);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    size_t files = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        static char text[1 << 16];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/json/%s", corpus, entry->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t len = fread(text, 1, sizeof text, file);
        fclose(file);
        const struct json *json = parse((struct str){text, len});
        /* Names say what is right: ok-... is accepted, bad-... is not. */
        if (strncmp(entry->d_name, "ok-", 3) == 0)
            assert_non_null(json);
        if (strncmp(entry->d_name, "bad-", 4) == 0)
            assert_null(json);
        check_round_trip((struct str){text, len});
        files++;
    }
    closedir(folder);
    assert_true(files >= 12);
}

/* What json_parse_each gave: "a=1 b=2 ", objects as the number of their members. */
static enum status note_member(void *ctx, const struct json_member *member, struct error *error) {
    struct buf *notes = ctx;
    uint64_t number = member->value.count;
    json_u64(&member->value, &number);
    if (str_is(member->name, "stop"))
        return error_set(error, SL_ERR_ENV, "told to");
    buf_printf(notes, "%.*s=%llu ", STR_ARG(member->name), (unsigned long long)number);
    return SL_OK;
}

static enum status each_of(const char *text, size_t values_max, struct buf *notes) {
    const struct json_options options = {.values_max = values_max};
    const struct json_each each = {note_member, notes};
    buf_clear(notes);
    return json_parse_each(&arena, str_from(text), &options, &each, &err);
}

static void members_are_given_one_by_one(void **state) {
    (void)state;
    static const char *const bad[] = {"{\"a\":1",   "{\"a\":1,}",          "{,}",
                                      "{\"a\":1}}", "{\"a\" 1}",           "{\"a\":1 \"b\":2}",
                                      "{\"a\":[1}", "{\"stop\":1,\"b\":2}"};
    struct buf notes;
    buf_init(&notes);
    assert_int_equal(
        each_of("{\"a\":1,\"\\u0062\":{\"x\":{\"y\":2},\"z\":[]} ,\"a\":[1,2,3]}", 0, &notes),
        SL_OK);
    assert_string_equal(notes.data, "a=1 b=2 a=3 ");
    assert_int_equal(arena.used_bytes < 100, true); /* nothing of them is kept */
    assert_int_equal(each_of(" { } ", 0, &notes), SL_OK);
    assert_int_equal(notes.len, 0);
    assert_int_equal(each_of("[1,2]", 0, &notes), SL_OK); /* has no members */
    assert_int_equal(notes.len, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_not_equal(each_of(bad[i], 0, &notes), SL_OK);
    assert_string_equal(err.text, "told to");
    buf_release(&notes);
}

static void values_are_counted_where_there_is_a_limit(void **state) {
    (void)state;
    const struct json_options options = {.values_max = 4};
    struct buf notes;
    buf_init(&notes);
    assert_non_null(parse_with(STR("[1,2,3]"), &options));
    assert_null(parse_with(STR("[1,2,3,4]"), &options));
    assert_string_equal(err.text, "JSON has more than 4 values at byte 8");
    /* For one member where they are given one by one. */
    assert_int_equal(each_of("{\"a\":[1,2],\"b\":[3,4],\"c\":[5,6]}", 4, &notes), SL_OK);
    assert_string_equal(notes.data, "a=2 b=2 c=2 ");
    assert_int_equal(each_of("{\"a\":[1,2],\"b\":[3,4,5,6]}", 4, &notes), SL_ERR_INPUT);
    assert_string_equal(notes.data, "a=2 ");
    buf_release(&notes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(grammar_of_the_rfc_is_accepted, begin, end),
        cmocka_unit_test_setup_teardown(all_else_is_refused_in_one_sentence, begin, end),
        cmocka_unit_test_setup_teardown(every_cut_of_a_text_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(tree_has_members_in_their_order, begin, end),
        cmocka_unit_test_setup_teardown(escapes_become_utf8, begin, end),
        cmocka_unit_test_setup_teardown(strings_without_escapes_borrow_from_the_text, begin, end),
        cmocka_unit_test_setup_teardown(lone_surrogates_become_one_replacement_each, begin, end),
        cmocka_unit_test_setup_teardown(names_may_hold_nul_and_escapes, begin, end),
        cmocka_unit_test_setup_teardown(depth_is_limited_without_recursion, begin, end),
        cmocka_unit_test_setup_teardown(duplicates_are_refused_when_asked, begin, end),
        cmocka_unit_test_setup_teardown(members_are_given_one_by_one, begin, end),
        cmocka_unit_test_setup_teardown(values_are_counted_where_there_is_a_limit, begin, end),
        cmocka_unit_test_setup_teardown(errors_name_the_byte, begin, end),
        cmocka_unit_test_setup_teardown(integers_are_exact_or_refused, begin, end),
        cmocka_unit_test_setup_teardown(doubles_are_rounded_rightly, begin, end),
        cmocka_unit_test_setup_teardown(booleans_and_strings_are_told_apart, begin, end),
        cmocka_unit_test_setup_teardown(each_failed_allocation_is_an_error, begin, end),
        cmocka_unit_test_setup_teardown(corpus_is_read_without_harm, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
