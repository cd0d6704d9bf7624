/* What rows share, counted by hand. */
#include "job/alike.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint32_t hashes[SL_ALIKE_BLOCKS_MAX];

/* A prompt of `alike` tokens that others have, and of its own ones. */
static uint32_t add(struct alike *alike, size_t alike_count, size_t count, uint32_t own) {
    static uint32_t ids[20000];
    for (size_t i = 0; i < count; i++)
        ids[i] = i < alike_count ? (uint32_t)i : own * 7919 + (uint32_t)i;
    size_t blocks = alike_blocks(count);
    alike_hash(ids, blocks, hashes);
    return alike_add(alike, hashes, blocks);
}

static void blocks_are_full_and_leave_the_last_token(void **state) {
    (void)state;
    assert_int_equal(alike_blocks(0), 0);
    assert_int_equal(alike_blocks(16), 0);
    assert_int_equal(alike_blocks(17), 1);
    assert_int_equal(alike_blocks(33), 2);
    assert_int_equal(alike_blocks(SIZE_MAX), SL_ALIKE_BLOCKS_MAX);
}

static void rows_share_what_an_earlier_one_has(void **state) {
    struct alike alike;
    struct error err;
    (void)state;
    assert_int_equal(alike_init(&alike, &err), SL_OK);
    assert_int_equal(add(&alike, 100, 140, 1), 0);
    assert_int_equal(add(&alike, 100, 140, 2), 96);
    assert_int_equal(add(&alike, 100, 140, 2), 128); /* the same row: all but the last 12 */
    assert_int_equal(add(&alike, 0, 140, 3), 0);
    assert_int_equal(add(&alike, 40, 140, 4), 32);
    assert_int_equal(add(&alike, 16, 16, 5), 0);
    alike_release(&alike);
}

static void places_where_rows_part_count_once(void **state) {
    struct alike alike;
    struct error err;
    (void)state;
    assert_int_equal(alike_init(&alike, &err), SL_OK);
    add(&alike, 100, 140, 1);
    assert_int_equal(alike.forks, 0);
    for (uint32_t own = 2; own < 5; own++) {
        alike_fork(&alike, hashes, add(&alike, 100, 140, own) / 16);
        assert_int_equal(alike.forks, 1);
    }
    alike_fork(&alike, hashes, add(&alike, 80, 140, 6) / 16);
    assert_int_equal(alike.forks, 2);
    alike_release(&alike);
}

/* The same 16 tokens behind others are another block. */
static void blocks_stand_for_all_that_comes_before_them(void **state) {
    static uint32_t a[33], b[33];
    uint32_t other[2];
    (void)state;
    b[0] = 1;
    alike_hash(a, 2, hashes);
    alike_hash(b, 2, other);
    assert_int_not_equal(hashes[0], other[0]);
    assert_int_not_equal(hashes[1], other[1]);
}

/* 3,000 rows with a head of 1,000 tokens and 500 of their own each: more blocks than slots. */
static void many_rows_are_told_nearly_right(void **state) {
    struct alike alike;
    struct error err;
    uint64_t sum = 0;
    (void)state;
    assert_int_equal(alike_init(&alike, &err), SL_OK);
    for (uint32_t row = 0; row < 3000; row++)
        sum += add(&alike, 1000, 1500, row + 1);
    assert_in_range(sum, 2999u * 992u * 97 / 100, 2999u * 992u + 3000u);
    alike_release(&alike);
}

/* 64 heads of 1,000 tokens in turn, 20 rows each with 500 of their own: the heads' 3,968 blocks lie
 * far apart among 131,072 slots, and yet some dozens of them meet. */
static void heads_in_turn_do_not_push_each_other_out(void **state) {
    static uint32_t ids[1500];
    struct alike alike;
    struct error err;
    uint64_t sum = 0;
    (void)state;
    assert_int_equal(alike_init(&alike, &err), SL_OK);
    for (uint32_t row = 0; row < 64 * 20; row++) {
        for (uint32_t i = 0; i < 1500; i++)
            ids[i] = i < 1000 ? row % 64 * 100003 + i : row * 7919 + i;
        alike_hash(ids, alike_blocks(1500), hashes);
        sum += alike_add(&alike, hashes, alike_blocks(1500));
    }
    assert_in_range(sum, 64u * 19 * 992 - 992, 64u * 19 * 992);
    alike_release(&alike);
}

static void no_memory_is_an_error(void **state) {
    struct alike alike;
    struct error err;
    (void)state;
    for (uint64_t at = 1; at <= 2; at++) {
        fault_arm(SL_FAULT_ALLOC, at, false);
        assert_int_equal(alike_init(&alike, &err), SL_ERR_ENV);
    }
    fault_arm(SL_FAULT_ALLOC, 0, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_full_and_leave_the_last_token),
        cmocka_unit_test(rows_share_what_an_earlier_one_has),
        cmocka_unit_test(places_where_rows_part_count_once),
        cmocka_unit_test(blocks_stand_for_all_that_comes_before_them),
        cmocka_unit_test(many_rows_are_told_nearly_right),
        cmocka_unit_test(heads_in_turn_do_not_push_each_other_out),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
