/* Hash maps against what was put in. */
#include "base/map.h"

#include "base/fault_for_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 20000u

static void map_gives_back_what_was_put(void **state) {
    (void)state;
    struct map map;
    static char names[MANY][12];
    map_init(&map);
    assert_false(map_get(&map, STR("x"), NULL));
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "name%u", i);
        bool was_there = true;
        assert_true(map_put(&map, str_from(names[i]), i * 7, NULL, &was_there));
        assert_false(was_there);
    }
    assert_int_equal(map.count, MANY);
    assert_true(map.cap >= MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t value;
        assert_true(map_get(&map, str_from(names[i]), &value));
        assert_int_equal(value, i * 7);
    }
    assert_false(map_get(&map, STR("name20000"), NULL));
    assert_false(map_get(&map, STR("name"), NULL));
    map_release(&map);
    map_release(&map);
}

static void map_tells_the_value_that_was_there(void **state) {
    (void)state;
    struct map map;
    uint32_t old = 99, value;
    bool was_there;
    map_init(&map);
    assert_true(map_put(&map, STR("k"), 1, &old, &was_there));
    assert_int_equal(old, 99);
    assert_true(map_put(&map, STR("k"), 2, &old, &was_there));
    assert_true(was_there);
    assert_int_equal(old, 1);
    assert_int_equal(map.count, 1);
    assert_true(map_get(&map, STR("k"), &value));
    assert_int_equal(value, 2);
    map_release(&map);
}

static void map_keys_may_be_empty_or_hold_nul(void **state) {
    (void)state;
    struct map map;
    uint32_t value;
    map_init(&map);
    assert_true(map_put(&map, (struct str){NULL, 0}, 1, NULL, NULL));
    assert_true(map_put(&map, STR("\0"), 2, NULL, NULL));
    assert_true(map_put(&map, STR("\0\0"), 3, NULL, NULL));
    assert_int_equal(map.count, 3);
    assert_true(map_get(&map, STR(""), &value) && value == 1);
    assert_true(map_get(&map, STR("\0"), &value) && value == 2);
    assert_true(map_get(&map, STR("\0\0"), &value) && value == 3);
    map_release(&map);
}

static void reserved_map_does_not_allocate_again(void **state) {
    (void)state;
    struct map map;
    char names[100][4];
    map_init(&map);
    assert_true(map_reserve(&map, 100));
    fault_arm(SL_FAULT_ALLOC, 1, true);
    for (size_t i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        assert_true(map_put(&map, str_from(names[i]), 0, NULL, NULL));
    }
    map_release(&map);
}

static void map_without_memory_keeps_what_it_has(void **state) {
    (void)state;
    struct map map;
    char names[100][4];
    size_t count = 0;
    map_init(&map);
    assert_true(map_reserve(&map, 1));
    fault_arm(SL_FAULT_ALLOC, 1, true);
    for (; count < 100; count++) {
        snprintf(names[count], sizeof names[count], "%zu", count);
        if (!map_put(&map, str_from(names[count]), (uint32_t)count, NULL, NULL))
            break;
    }
    assert_in_range(count, 1, 99);
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        assert_true(map_get(&map, str_from(names[i]), &value));
        assert_int_equal(value, i);
    }
    assert_false(map_reserve(&map, SIZE_MAX));
    map_release(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_gives_back_what_was_put),
        cmocka_unit_test(map_tells_the_value_that_was_there),
        cmocka_unit_test(map_keys_may_be_empty_or_hold_nul),
        cmocka_unit_test_teardown(reserved_map_does_not_allocate_again, fault_disarm_all),
        cmocka_unit_test_teardown(map_without_memory_keeps_what_it_has, fault_disarm_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
