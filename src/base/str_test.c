/* Strings, buffers and UTF-8. What is expected of invalid UTF-8 is what Python's
 * bytes.decode('utf-8', 'replace') gives. */
#include "base/str.h"

#include "base/fault_for_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void strings_compare_by_length_and_bytes(void **state) {
    (void)state;
    struct str none = {NULL, 0};
    assert_true(str_equal(STR("a\0b"), STR("a\0b")));
    assert_false(str_equal(STR("a\0b"), STR("a\0c")));
    assert_false(str_equal(STR("a"), STR("ab")));
    assert_true(str_equal(none, STR("")));
    assert_true(str_is(STR("name"), "name"));
    assert_false(str_is(STR("nam"), "name"));
    assert_true(str_is(none, ""));
    assert_int_equal(str_from(NULL).len, 0);
    assert_true(str_starts(STR("prefix.x"), STR("prefix.")));
    assert_false(str_starts(STR("pre"), STR("prefix.")));
    assert_true(str_ends(STR("x.weight"), STR(".weight")));
    assert_false(str_ends(STR("weight"), STR(".weight")));
    assert_true(str_starts(none, none) && str_ends(none, STR("")));
}

static void cut_stays_inside(void **state) {
    (void)state;
    struct str s = STR("0123456789");
    assert_true(str_is(str_cut(s, 2, 5), "234"));
    assert_true(str_is(str_cut(s, 8, 50), "89"));
    assert_true(str_is(str_cut(s, 7, 3), ""));
    assert_true(str_is(str_cut(s, 50, 60), ""));
    assert_true(str_is(str_cut((struct str){NULL, 0}, 0, 9), ""));
}

static void trim_takes_blanks_from_both_ends_alone(void **state) {
    (void)state;
    assert_true(str_is(str_trim(STR(" \t\r\na b\tc\r\n")), "a b\tc"));
    assert_true(str_is(str_trim(STR("a")), "a"));
    assert_true(str_equal(str_trim(STR(" \0 ")), STR("\0")));
    assert_true(str_is(str_trim(STR(" \r\n")), ""));
    assert_true(str_is(str_trim((struct str){NULL, 0}), ""));
}

static void find_gives_the_first_from_there(void **state) {
    (void)state;
    struct str s = STR("abcabc\0x");
    assert_int_equal(str_find(s, STR("bc"), 0), 1);
    assert_int_equal(str_find(s, STR("bc"), 2), 4);
    assert_int_equal(str_find(s, STR("\0x"), 0), 6);
    assert_true(str_find(s, STR("bc"), 5) == SIZE_MAX);
    assert_true(str_find(s, STR("abcabcabcabc"), 0) == SIZE_MAX);
    assert_true(str_find(s, STR("a"), 100) == SIZE_MAX);
    assert_int_equal(str_find(s, STR(""), 3), 3);
    assert_true(str_find((struct str){NULL, 0}, STR("a"), 0) == SIZE_MAX);
}

static void hash_depends_on_every_byte_and_the_length(void **state) {
    (void)state;
    char text[40] = {0};
    uint64_t seen[41 * 2];
    size_t count = 0;
    for (size_t len = 0; len <= 40; len++) {
        struct str s = {text, len};
        seen[count++] = str_hash(s); /* zeros, of each length */
    }
    for (size_t at = 0; at < 40; at++) {
        text[at] = 1;
        seen[count++] = str_hash((struct str){text, 40});
        text[at] = 0;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
}

static void number_is_digits_alone(void **state) {
    (void)state;
    uint64_t value = 5;
    assert_true(str_to_u64(STR("0"), &value));
    assert_true(value == 0);
    assert_true(str_to_u64(STR("18446744073709551615"), &value));
    assert_true(value == UINT64_MAX);
    assert_true(str_to_u64(STR("007"), &value));
    assert_true(value == 7);
    const char *wrong[] = {
        "", "-1", "+1", " 1", "1 ", "1.0", "0x10", "18446744073709551616", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(str_to_u64(str_from(wrong[i]), &value));
    assert_true(value == 7);
}

static void buffer_grows_and_stays_terminated(void **state) {
    (void)state;
    struct buf buf;
    struct error err;
    buf_init(&buf);
    assert_true(str_is(buf_str(&buf), ""));
    for (int i = 0; i < 1000; i++) {
        buf_add_char(&buf, 'x');
        buf_printf(&buf, "%03d", i);
    }
    assert_int_equal(buf.len, 4000);
    assert_int_equal(strlen(buf.data), 4000);
    assert_memory_equal(buf.data + 3992, "x998x999", 8);
    buf_clear(&buf);
    assert_int_equal(buf.len, 0);
    buf_add(&buf, STR("a\0b"));
    assert_true(str_equal(buf_str(&buf), STR("a\0b")));
    assert_int_equal(buf_status(&buf, "x", &err), SL_OK);
    buf_release(&buf);
    buf_release(&buf);
}

static void buffer_formats_long_texts_whole(void **state) {
    (void)state;
    struct buf buf;
    char name[1000];
    memset(name, 'n', sizeof name);
    buf_init(&buf);
    for (int width = 250; width < 262; width++) { /* around the room of the first try */
        buf_clear(&buf);
        buf_printf(&buf, "<%.*s>", width, name);
        assert_int_equal(buf.len, width + 2);
        assert_int_equal(buf.data[width + 1], '>');
        assert_int_equal(strlen(buf.data), width + 2);
    }
    buf_release(&buf);
}

static void failed_buffer_stays_failed(void **state) {
    (void)state;
    struct buf buf;
    struct error err;
    buf_init(&buf);
    buf_add(&buf, STR("kept"));
    char big[1000] = {0};
    fault_arm(SL_FAULT_ALLOC, 1, false);
    buf_add(&buf, (struct str){big, sizeof big});
    buf_add(&buf, STR("x"));
    assert_true(str_is(buf_str(&buf), "kept"));
    assert_int_equal(buf_status(&buf, "a line", &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "a line"));
    buf_clear(&buf);
    buf_add(&buf, STR("again"));
    assert_int_equal(buf_status(&buf, "a line", &err), SL_OK);
    buf_release(&buf);
}

static void utf8_goes_both_ways_for_every_code_point(void **state) {
    (void)state;
    for (uint32_t code_point = 0; code_point <= 0x10FFFF; code_point++) {
        if (code_point >= 0xD800 && code_point <= 0xDFFF)
            continue;
        char bytes[4];
        size_t count = utf8_put(code_point, bytes), at = 0;
        size_t wanted = code_point < 0x80      ? 1
                        : code_point < 0x800   ? 2
                        : code_point < 0x10000 ? 3
                                               : 4;
        uint32_t got = utf8_next((struct str){bytes, count}, &at);
        if (count != wanted || at != count || got != code_point)
            fail_msg("U+%04X: %zu bytes, U+%04X", code_point, count, got);
    }
}

static void utf8_bytes_are_as_the_standard_has_them(void **state) {
    (void)state;
    struct buf buf;
    buf_init(&buf);
    buf_add_utf8(&buf, 'A');
    buf_add_utf8(&buf, 0xE4);
    buf_add_utf8(&buf, 0x20AC);
    buf_add_utf8(&buf, 0x1F600);
    assert_true(str_is(buf_str(&buf), "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"));
    buf_clear(&buf);
    buf_add_utf8(&buf, 0xD800);
    buf_add_utf8(&buf, 0x110000);
    assert_true(str_is(buf_str(&buf), "\xef\xbf\xbd\xef\xbf\xbd"));
    buf_release(&buf);
}

struct lossy {
    struct str given, wanted;
};

/* By Python 3's bytes.decode('utf-8', 'replace'). */
static const struct lossy lossy[] = {
    {STR("\x80"), STR("\xef\xbf\xbd")},
    {STR("\x61\xc3"), STR("\x61\xef\xbf\xbd")},
    {STR("\xc3\x28"), STR("\xef\xbf\xbd\x28")},
    {STR("\xc0\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xc1\xbf"), STR("\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xe2\x82"), STR("\xef\xbf\xbd")},
    {STR("\xe2\x82\x41"), STR("\xef\xbf\xbd\x41")},
    {STR("\xe2\x28\xa1"), STR("\xef\xbf\xbd\x28\xef\xbf\xbd")},
    {STR("\xe0\x80\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xe0\x9f\xbf"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xed\xa0\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xed\xbf\xbf"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xf0\x9f\x98"), STR("\xef\xbf\xbd")},
    {STR("\xf0\x9f\x98\x78"), STR("\xef\xbf\xbd\x78")},
    {STR("\xf0\x80\x80\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xf4\x90\x80\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xf5\x80\x80\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xff\xfe"), STR("\xef\xbf\xbd\xef\xbf\xbd")},
    {STR("\xf0\x9f\xf0\x9f\x98\x80"), STR("\xef\xbf\xbd\xf0\x9f\x98\x80")},
    {STR("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
     STR("\x61\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x62\xef\xbf\xbd\x63\xef\xbf\xbd\xef\xbf\xbd"
         "\x64")},
    {STR("\xe2\x82\xac\xe2\x82"), STR("\xe2\x82\xac\xef\xbf\xbd")},
    {STR("\xf1\x80\xc3\xa9"), STR("\xef\xbf\xbd\xc3\xa9")},
    {STR("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"),
     STR("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf")},
};

static void lossy_text_is_what_python_gives(void **state) {
    (void)state;
    struct buf buf;
    buf_init(&buf);
    for (size_t i = 0; i < sizeof lossy / sizeof *lossy; i++) {
        buf_clear(&buf);
        buf_add(&buf, STR("12345678"));
        utf8_add_lossy(&buf, lossy[i].given);
        if (!str_equal(str_cut(buf_str(&buf), 8, SIZE_MAX), lossy[i].wanted))
            fail_msg("vector %zu: %s", i, buf.data);
    }
    buf_release(&buf);
}

static void valid_length_stops_at_the_first_bad_byte(void **state) {
    (void)state;
    assert_int_equal(utf8_valid_len(STR("")), 0);
    assert_int_equal(utf8_valid_len(STR("all of this is plain, \xc3\xa4 too")), 25 + 3);
    assert_int_equal(utf8_valid_len(STR("0123456789abcdef\xe2\x82")), 16);
    assert_int_equal(utf8_valid_len(STR("0123\xff")), 4);
    for (size_t at = 0; at < 40; at++) {
        char text[40];
        memset(text, 'a', sizeof text);
        text[at] = (char)0x80;
        assert_int_equal(utf8_valid_len((struct str){text, sizeof text}), at);
    }
}

static void open_tail_is_what_more_bytes_could_complete(void **state) {
    (void)state;
    assert_int_equal(utf8_open_tail(STR("")), 0);
    assert_int_equal(utf8_open_tail(STR("abc")), 0);
    assert_int_equal(utf8_open_tail(STR("ab\xc3")), 1);
    assert_int_equal(utf8_open_tail(STR("ab\xe2\x82")), 2);
    assert_int_equal(utf8_open_tail(STR("ab\xf0\x9f\x98")), 3);
    assert_int_equal(utf8_open_tail(STR("\xf0\x9f\x98\x80")), 0);
    assert_int_equal(utf8_open_tail(STR("\xe2\x82\xac")), 0);
    assert_int_equal(utf8_open_tail(STR("ab\xed\xa0")), 0); /* a surrogate: hopeless */
    assert_int_equal(utf8_open_tail(STR("ab\xe0\x80")), 0); /* overlong: hopeless */
    assert_int_equal(utf8_open_tail(STR("ab\xf4\x90")), 0);
    assert_int_equal(utf8_open_tail(STR("ab\x80")), 0);
    assert_int_equal(utf8_open_tail(STR("ab\xc0")), 0);
    assert_int_equal(utf8_open_tail(STR("\xff\xf4")), 1);
}

static void cleaned_text_is_safe_on_a_terminal(void **state) {
    (void)state;
    char text[] = "a\x1b[31m\r\n\xc3\xa4\xc2\x85\xf0\x9f\x98\x80\xf0\x9f\x98";
    str_clean(text);
    assert_string_equal(text, "a?[31m??\xc3\xa4?\xf0\x9f\x98\x80?");
}

static void the_last_part_of_a_path_is_behind_its_last_slash(void **state) {
    (void)state;
    static const char *const paths[][2] = {{"a", "a"},  {"a/b", "b"}, {"/a/b//", "b"},
                                           {"a/", "a"}, {"/", ""},    {"", ""}};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_true(str_is(str_last_part(str_from(paths[i][0])), paths[i][1]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_compare_by_length_and_bytes),
        cmocka_unit_test(cut_stays_inside),
        cmocka_unit_test(trim_takes_blanks_from_both_ends_alone),
        cmocka_unit_test(find_gives_the_first_from_there),
        cmocka_unit_test(hash_depends_on_every_byte_and_the_length),
        cmocka_unit_test(number_is_digits_alone),
        cmocka_unit_test(buffer_grows_and_stays_terminated),
        cmocka_unit_test(buffer_formats_long_texts_whole),
        cmocka_unit_test_teardown(failed_buffer_stays_failed, fault_disarm_all),
        cmocka_unit_test(utf8_goes_both_ways_for_every_code_point),
        cmocka_unit_test(utf8_bytes_are_as_the_standard_has_them),
        cmocka_unit_test(lossy_text_is_what_python_gives),
        cmocka_unit_test(valid_length_stops_at_the_first_bad_byte),
        cmocka_unit_test(open_tail_is_what_more_bytes_could_complete),
        cmocka_unit_test(cleaned_text_is_safe_on_a_terminal),
        cmocka_unit_test(the_last_part_of_a_path_is_behind_its_last_slash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
