/* Writing JSON. What is expected of numbers is what Python's repr gives. */
#include "base/json.h"

#include "base/fault_for_test.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct number {
    double value;
    const char *text;
};

/* By Python 3's repr(float). */
static const struct number doubles[] = {
    {0x1p+0, "1.0"},
    {0.0, "0.0"},
    {-0x0p+0, "-0.0"},
    {0x1.999999999999ap-4, "0.1"},
    {0x1.5555555555555p-2, "0.3333333333333333"},
    {0x1.9p+6, "100.0"},
    {0x1.e240c9fbe76c9p+16, "123456.789"},
    {0x1.c6bf52634p+49, "1000000000000000.0"},
    {0x1.1c37937e08p+53, "1e+16"},
    {0x1.6345785d8ap+56, "1e+17"},
    {0x1.b69b4ba630f35p+56, "1.2345678901234568e+17"},
    {0x1p+53, "9007199254740992.0"},
    {0x1.0624dd2f1a9fcp-10, "0.001"},
    {0x1.a36e2eb1c432dp-14, "0.0001"},
    {0x1.8e757928e0c9ep-14, "9.5e-05"},
    {0x1.4f8b588e368f1p-17, "1e-05"},
    {0x1.ad7f29abcaf48p-24, "1e-07"},
    {0x1.421f5f40d8376p-23, "1.5e-07"},
    {0x1.0f0cf064dd592p+73, "1e+22"},
    {0x1.52d02c7e14af6p+76, "1e+23"},
    {0x1p-44, "5.684341886080802e-14"}, /* the nearest of 16 digits is ...801 and misses */
    {0x0.0000000000001p-1022, "5e-324"},
    {0x0.0000000000003p-1022, "1.5e-323"},
    {0x0.fffffffffffffp-1022, "2.225073858507201e-308"},
    {0x1p-1022, "2.2250738585072014e-308"},
    {0x1.8p-1021, "6.675221575521604e-308"},
    {0x1.fffffffffffffp+1023, "1.7976931348623157e+308"},
    {-0x1.4p+1, "-2.5"},
    {0x1.18b54f22aeb03p+50, "1234567890123456.8"},
    {0x1.249ad2594c37dp+332, "1e+100"},
    {0x1.0000000000001p+0, "1.0000000000000002"},
    {0x1.1666666666666p+2, "4.35"},
    {0x1.1de784ap+28, "299792458.0"},
};

static void doubles_are_written_as_python_writes_them(void **state) {
    (void)state;
    struct buf buf;
    buf_init(&buf);
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        buf_clear(&buf);
        json_add_double(&buf, doubles[i].value);
        assert_string_equal(buf.data, doubles[i].text);
    }
    buf_release(&buf);
}

/* Digits without the zeros at either end. */
static int significant_digits(const char *text) {
    int count = 0, zeros = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text == '0')
            zeros += count > 0;
        if (*text >= '1' && *text <= '9') {
            count += zeros + 1;
            zeros = 0;
        }
    }
    return count;
}

static void floats_are_written_as_short_as_they_read_back(void **state) {
    (void)state;
    struct buf buf;
    /* The shortest decimal that rounds to the float (NumPy prints the same digits). */
    static const struct number floats[] = {
        {(double)0.1f, "0.1"},
        {(double)16777216.0f, "16777216.0"},
        {(double)3.14159274f, "3.1415927"},
        {(double)1e-45f, "1e-45"},
        {(double)3.40282347e38f, "3.4028235e+38"},
        {(double)1.17549435e-38f, "1.1754944e-38"},
        {(double)-2.5f, "-2.5"},
        {(double)1e10f, "10000000000.0"},
        {(double)0.000012345f, "1.2345e-05"},
        {(double)1072039.75f, "1072039.8"},
    };
    buf_init(&buf);
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        buf_clear(&buf);
        json_add_float(&buf, (float)floats[i].value);
        assert_string_equal(buf.data, floats[i].text);
    }
    /* A sweep: each reads back, and has no more digits than the first printf that does. */
    for (uint32_t bits = 1; bits < 0x7F800000u; bits += 104729 * 8) {
        float value;
        char printed[40];
        int digits = 0;
        memcpy(&value, &bits, sizeof value);
        do
            snprintf(printed, sizeof printed, "%.*e", digits++, (double)value);
        while (strtof(printed, NULL) != value);
        buf_clear(&buf);
        json_add_float(&buf, value);
        assert_true(strtof(buf.data, NULL) == value);
        assert_true(significant_digits(buf.data) <= digits);
    }
    buf_release(&buf);
}

static void no_number_is_null(void **state) {
    (void)state;
    struct buf buf;
    buf_init(&buf);
    json_add_double(&buf, NAN);
    json_add_double(&buf, INFINITY);
    json_add_float(&buf, -INFINITY);
    assert_string_equal(buf.data, "nullnullnull");
    buf_release(&buf);
}

static void strings_are_escaped_as_python_does(void **state) {
    (void)state;
    struct buf buf;
    buf_init(&buf);
    /* json.dumps(..., ensure_ascii=False) of the same string. */
    json_add_string(&buf,
                    STR("a\"\\/\b\f\n\r\t\x01\x1f\x7f\0z \xc3\xa4\xe2\x80\xa8\xf0\x9f\x98\x80"));
    assert_string_equal(buf.data, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\\u0000z "
                                  "\xc3\xa4\xe2\x80\xa8\xf0\x9f\x98\x80\"");
    buf_clear(&buf);
    json_add_string(&buf, STR("\xff"
                              "a\xe2\x82"));
    assert_string_equal(buf.data, "\"\xef\xbf\xbd"
                                  "a\xef\xbf\xbd\"");
    buf_clear(&buf);
    json_add_string(&buf, (struct str){NULL, 0});
    assert_string_equal(buf.data, "\"\"");
    buf_release(&buf);
}

static void tree_is_written_as_it_was_read(void **state) {
    (void)state;
    struct arena arena;
    struct buf buf;
    struct error err;
    const struct json *json;
    arena_init(&arena);
    buf_init(&buf);
    struct str text =
        STR(" {\"b\" :[1.50 ,-0, 1E5,\"\\u0041\\n\", [] ,{ }],\n\"a\":null,\"a\":[true,[false]]} ");
    assert_int_equal(json_parse(&arena, text, NULL, &json, &err), SL_OK);
    json_add(&buf, json, false);
    assert_string_equal(buf.data,
                        "{\"b\":[1.50,-0,1E5,\"A\\n\",[],{}],\"a\":null,\"a\":[true,[false]]}");
    buf_clear(&buf);
    json_add(&buf, json, true);
    assert_string_equal(
        buf.data,
        "{\"b\": [1.50, -0, 1E5, \"A\\n\", [], {}], \"a\": null, \"a\": [true, [false]]}");
    buf_release(&buf);
    arena_release(&arena);
}

static void deep_tree_is_written_without_recursion(void **state) {
    (void)state;
    enum { DEPTH = 300000 };
    struct arena arena;
    struct buf buf;
    struct error err;
    struct json_options options = {.depth_max = DEPTH};
    const struct json *json;
    static char text[2 * DEPTH];
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    arena_init(&arena);
    buf_init(&buf);
    assert_int_equal(json_parse(&arena, (struct str){text, sizeof text}, &options, &json, &err),
                     SL_OK);
    json_add(&buf, json, false);
    assert_true(str_equal(buf_str(&buf), (struct str){text, sizeof text}));
    fault_arm(SL_FAULT_ALLOC, 1, true);
    struct buf none;
    buf_init(&none);
    json_add(&none, json, false);
    assert_true(none.has_failed);
    buf_release(&none);
    buf_release(&buf);
    arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_are_written_as_python_writes_them),
        cmocka_unit_test(floats_are_written_as_short_as_they_read_back),
        cmocka_unit_test(no_number_is_null),
        cmocka_unit_test(strings_are_escaped_as_python_does),
        cmocka_unit_test(tree_is_written_as_it_was_read),
        cmocka_unit_test_teardown(deep_tree_is_written_without_recursion, fault_disarm_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
