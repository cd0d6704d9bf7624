/* Typed look-ups, and what they do with the wrong kind. */
#include "weights/meta.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void add(struct meta *meta, const char *key, struct meta_value value) {
    struct error err;
    assert_int_equal(meta_add(meta, str_from(key), &value, &err), SL_OK);
}

static void values_are_found_by_key_and_kind(void **state) {
    (void)state;
    struct meta meta;
    int64_t integer = 7;
    double real = 7;
    bool truth = false;
    struct str text = STR("seven");
    meta_init(&meta);
    add(&meta, "i", (struct meta_value){.kind = META_INTEGER, .integer = -3});
    add(&meta, "r", (struct meta_value){.kind = META_REAL, .real = 0.25});
    add(&meta, "b", (struct meta_value){.kind = META_BOOL, .truth = true});
    add(&meta, "t", (struct meta_value){.kind = META_STRING, .text = STR("word")});
    assert_false(meta_integer(&meta, "r", &integer));
    assert_false(meta_integer(&meta, "absent", &integer));
    assert_false(meta_integer(&meta, "b", &integer));
    assert_int_equal(integer, 7);
    assert_true(meta_integer(&meta, "i", &integer));
    assert_int_equal(integer, -3);
    assert_false(meta_real(&meta, "t", &real));
    assert_true(meta_real(&meta, "r", &real) && real == 0.25);
    assert_true(meta_real(&meta, "i", &real) && real == -3.0);
    assert_false(meta_bool(&meta, "i", &truth));
    assert_true(meta_bool(&meta, "b", &truth) && truth);
    assert_false(meta_text(&meta, "i", &text));
    assert_true(meta_text(&meta, "t", &text) && str_is(text, "word"));
    assert_null(meta_find(&meta, "absent"));
    meta_release(&meta);
}

static void many_keys_are_kept_and_none_twice(void **state) {
    (void)state;
    struct meta meta;
    struct error err = {0};
    char key[16];
    meta_init(&meta);
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "key.%d", i);
        add(&meta, key, (struct meta_value){.kind = META_INTEGER, .integer = i});
    }
    for (int64_t i = 0, value; i < 1000; i++) {
        snprintf(key, sizeof key, "key.%d", (int)i);
        assert_true(meta_integer(&meta, key, &value) && value == i);
        assert_true(str_is(meta.names[i], key));
    }
    struct meta_value value = {.kind = META_BOOL};
    assert_int_equal(meta_add(&meta, STR("key.500"), &value, &err), SL_ERR_ENV);
    assert_string_equal(err.text, "key \"key.500\" appears twice");
    assert_int_equal(meta.count, 1000);
    meta_release(&meta);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_key_and_kind),
        cmocka_unit_test(many_keys_are_kept_and_none_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
