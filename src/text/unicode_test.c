/* Characters and normal forms. Values by hand from the Unicode standard (its chapter 3.11 and 3.12
 * on normalisation and Hangul), and all code points from the probe of the reference in the
 * fixtures. */
#include "text/charset.h"
#include "text/fixtures_for_test.h"

static void check_form(enum unicode_form form, struct str text, const char *wanted) {
    struct buf out;
    buf_init(&out);
    assert_true(unicode_normalize(form, text, &out));
    assert_string_equal(out.data ? out.data : "", wanted);
    buf_release(&out);
}

static void composition_takes_the_nearest_mark(void **state) {
    (void)state;
    check_form(UNICODE_NFC, STR("cafe\u0301"), "café");
    check_form(UNICODE_NFC, STR("\u212b\u2126"), "ÅΩ");
    check_form(UNICODE_NFC, STR("e\u0301\u0301"), "é\u0301");
    check_form(UNICODE_NFC, STR("a\u0323\u0302"), "ậ");
    check_form(UNICODE_NFC, STR("a\u0302\u0323"), "ậ");         /* the marks change places first */
    check_form(UNICODE_NFC, STR("a\u0301\u0338e"), "á\u0338e"); /* overlay 1 sorts before 230 */
    check_form(UNICODE_NFC, STR("\u0958"), "\u0915\u093c");     /* an exclusion */
    check_form(UNICODE_NFC, STR("plain text, nothing to do"), "plain text, nothing to do");
    check_form(UNICODE_NFC, STR(""), "");
    check_form(UNICODE_NFC, STR("\u0301a"), "\u0301a"); /* a mark with nothing before it */
    check_form(UNICODE_NFC, STR("世e\u0301世"), "世é世");
}

static void hangul_composes_by_arithmetic(void **state) {
    (void)state;
    check_form(UNICODE_NFC, STR("\u1100\u1161"), "가");
    check_form(UNICODE_NFC, STR("\u1100\u1161\u11a8"), "각");
    check_form(UNICODE_NFC, STR("가\u11a8"), "각");
    check_form(UNICODE_NFC, STR("각\u11a8"), "각\u11a8");
    check_form(UNICODE_NFD, STR("각"), "\u1100\u1161\u11a8");
    check_form(UNICODE_NFD, STR("힣"), "\u1112\u1175\u11c2");
}

static void decomposition_is_full(void **state) {
    (void)state;
    check_form(UNICODE_NFD, STR("ậ"), "a\u0323\u0302");
    check_form(UNICODE_NFKD, STR("ﬁ"), "fi");
    check_form(UNICODE_NFKC, STR("ﬁ²①"), "fi21");
    check_form(UNICODE_NFD, STR("ﬁ"), "ﬁ");
    check_form(UNICODE_NFKC, STR("\u1e9b\u0323"), "ṩ"); /* the standard's own example */
    check_form(UNICODE_NFC, STR("\u1e9b\u0323"), "\u1e9b\u0323");
    check_form(UNICODE_NFKD, STR("\u1e9b\u0323"), "s\u0323\u0307");
}

static void characters_since_unicode_9_keep_their_form(void **state) {
    (void)state;
    /* U+11938 is of Unicode 13, U+32FF of 12.1: later versions take them apart. */
    check_form(UNICODE_NFD, STR("\xf0\x91\xa4\xb8"), "\xf0\x91\xa4\xb8");
    check_form(UNICODE_NFC, STR("\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0"),
               "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0");
    check_form(UNICODE_NFKC, STR("\u32ff"), "\u32ff");
}

static void many_marks_are_sorted_by_class(void **state) {
    (void)state;
    struct buf text, wanted;
    buf_init(&text);
    buf_init(&wanted);
    buf_add_char(&text, 'x');
    buf_add_char(&wanted, 'x');
    for (int i = 0; i < 5000; i++)
        buf_add_utf8(&text, i % 2 ? 0x0316 : 0x0301); /* classes 220 and 230 */
    for (int i = 0; i < 5000; i++)
        buf_add_utf8(&wanted, i < 2500 ? 0x0316 : 0x0301);
    check_form(UNICODE_NFC, buf_str(&text), wanted.data);
    buf_release(&text);
    buf_release(&wanted);
}

static void lower_case_may_be_two_characters(void **state) {
    (void)state;
    uint32_t out[2];
    assert_int_equal(unicode_to_lower(0x130, out), 2);
    assert_true(out[0] == 'i' && out[1] == 0x307);
    static const uint32_t pairs[][2] = {{'A', 'a'},         {'a', 'a'},       {0xC9, 0xE9},
                                        {0x100, 0x101},     {0x101, 0x101},   {0x3A3, 0x3C3},
                                        {0x212B, 0xE5},     {0xDF, 0xDF},     {0x1E9E, 0xDF},
                                        {0x10D50, 0x10D70}, {0x4E00, 0x4E00}, {0x178, 0xFF}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_int_equal(unicode_to_lower(pairs[i][0], out), 1);
        assert_int_equal(out[0], pairs[i][1]);
    }
}

static void kinds_of_single_characters_are_known(void **state) {
    (void)state;
    assert_int_equal(unicode_category('A'), UNICODE_LU);
    assert_int_equal(unicode_category(0x0301), UNICODE_MN);
    assert_int_equal(unicode_category(0x10FFFF), UNICODE_CN);
    assert_int_equal(unicode_category(0xD800), UNICODE_CS);
    assert_true(unicode_is_space(0x3000) && !unicode_is_space(0x200B));
    assert_true(unicode_is_word('_') && unicode_is_word(0x200D) && !unicode_is_word(0xB2));
    assert_true(unicode_is_punctuation('$') && unicode_is_punctuation(0xFF0C));
    assert_false(unicode_is_punctuation(0x20AC)); /* a symbol beyond ASCII */
    assert_true(unicode_is_mark(0x0301) && !unicode_is_mark('a'));
}

/* Hex ranges such as "41-5a 61 ...". */
static void parse_ranges(struct str text, struct charset *set) {
    char *copy = strndup(text.data, text.len), *at = copy;
    while (*at) {
        char *end;
        uint32_t from = (uint32_t)strtoul(at, &end, 16), to = from;
        if (*end == '-')
            to = (uint32_t)strtoul(end + 1, &end, 16);
        charset_add(set, from, to);
        at = *end ? end + 1 : end;
    }
    free(copy);
    charset_settle(set);
}

static void classes_are_those_of_the_reference(void **state) {
    (void)state;
    struct fixture probe;
    if (!fixture_open(&probe, "text/unicode-probe.json.gz"))
        skip();
    const struct json *classes = json_get(probe.json, "classes");
    assert_true(json_is(classes, JSON_OBJECT) && classes->count >= 12);
    for (uint32_t i = 0; i < classes->count; i++) {
        struct str name = classes->members[i].name, ranges;
        struct charset wanted = {0}, found = {0};
        assert_true(json_string(&classes->members[i].value, &ranges));
        parse_ranges(ranges, &wanted);
        if (str_is(name, "s")) {
            charset_add_space(&found);
        } else if (str_is(name, "digits_is_numeric")) {
            for (uint32_t c = 0; c < SL_UNICODE_END; c++) {
                if (unicode_is_numeric(c))
                    charset_add(&found, c, c);
            }
        } else {
            assert_true(charset_add_property(&found, name));
        }
        charset_settle(&found);
        if (!charset_equal(&found, &wanted))
            fail_msg("the class %.*s differs", STR_ARG(name));
        charset_release(&found);
        charset_release(&wanted);
    }
    fixture_close(&probe);
}

/* "c5 30a" as UTF-8. */
static void add_code_points(struct str text, struct buf *out) {
    char *copy = strndup(text.data, text.len), *at = copy;
    while (*at) {
        char *end;
        buf_add_utf8(out, (uint32_t)strtoul(at, &end, 16));
        at = *end ? end + 1 : end;
    }
    free(copy);
}

/* Each code point of the list has the form that stands there, each other one its own. */
static void check_list(const struct json *list, enum unicode_form form) {
    struct charset changed = {0};
    struct buf from, found, wanted;
    buf_init(&from);
    buf_init(&found);
    buf_init(&wanted);
    assert_true(json_is(list, JSON_OBJECT) && list->count > 1000);
    for (uint32_t i = 0; i < list->count; i++) {
        struct str name = list->members[i].name, parts;
        buf_clear(&from);
        buf_clear(&found);
        buf_clear(&wanted);
        add_code_points(name, &from);
        assert_true(json_string(&list->members[i].value, &parts));
        add_code_points(parts, &wanted);
        assert_true(unicode_normalize(form, buf_str(&from), &found));
        if (!str_equal(buf_str(&found), buf_str(&wanted)))
            fail_msg("U+%.*s has another form", STR_ARG(name));
        size_t at = 0;
        uint32_t c = utf8_next(buf_str(&from), &at);
        charset_add(&changed, c, c);
    }
    charset_add(&changed, 0xAC00, 0xDFFF); /* Hangul, by arithmetic, and surrogates */
    charset_settle(&changed);
    for (uint32_t c = 0x80; c < SL_UNICODE_END; c++) {
        char bytes[4];
        if (charset_has(&changed, c))
            continue;
        buf_clear(&found);
        struct str same = {bytes, utf8_put(c, bytes)};
        assert_true(unicode_normalize(form, same, &found));
        if (!str_equal(buf_str(&found), same))
            fail_msg("U+%X changes and should not", c);
    }
    charset_release(&changed);
    buf_release(&from);
    buf_release(&found);
    buf_release(&wanted);
}

static void normal_forms_are_those_of_the_reference(void **state) {
    (void)state;
    struct fixture probe;
    if (!fixture_open(&probe, "text/unicode-probe.json.gz"))
        skip();
    const struct json *nfc = json_get(probe.json, "nfc");
    check_list(json_get(nfc, "nfd"), UNICODE_NFD);
    check_list(json_get(nfc, "nfc_changes"), UNICODE_NFC);
    fixture_close(&probe);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composition_takes_the_nearest_mark),
        cmocka_unit_test(hangul_composes_by_arithmetic),
        cmocka_unit_test(decomposition_is_full),
        cmocka_unit_test(characters_since_unicode_9_keep_their_form),
        cmocka_unit_test(many_marks_are_sorted_by_class),
        cmocka_unit_test(lower_case_may_be_two_characters),
        cmocka_unit_test(kinds_of_single_characters_are_known),
        cmocka_unit_test(classes_are_those_of_the_reference),
        cmocka_unit_test(normal_forms_are_those_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
