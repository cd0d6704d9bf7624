/* Pins on made-up layouts: within their memory, spread over the pass, experts last. */
#include "plan/pins.h"

#include "model/role.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BLOCKS 40

static struct block blocks[BLOCKS];
static struct piece pieces[BLOCKS];
static struct layout layout;

/* The last `experts` blocks are of experts. */
static void make_layout(size_t experts, size_t odd_bytes) {
    layout = (struct layout){.blocks = blocks, .pieces = pieces, .block_count = BLOCKS};
    for (size_t i = 0; i < BLOCKS; i++) {
        enum role role = i >= BLOCKS - experts ? ROLE_EXPERT_UP : ROLE_Q;
        pieces[i] = (struct piece){.key = role_key(0, 0, role)};
        blocks[i] = (struct block){.first_piece = i,
                                   .piece_count = 1,
                                   .slab_bytes = 8192 + 4096 * (i % odd_bytes),
                                   .read_bytes = 8000};
    }
}

static uint64_t sum_of(const bool *keeps, size_t from, size_t to) {
    uint64_t sum = 0;
    for (size_t i = from; i < to; i++)
        sum += keeps[i] ? blocks[i].slab_bytes : 0;
    return sum;
}

static void pins_keep_to_their_memory_and_use_it(void **state) {
    (void)state;
    bool keeps[BLOCKS];
    struct pins pins;
    for (size_t odd = 1; odd <= 5; odd++)
        for (uint64_t bytes = 0; bytes < 1200000; bytes += 3001) {
            make_layout(0, odd);
            pins_choose(&layout, bytes, keeps, &pins);
            uint64_t all = 0, largest = 8192 + 4096 * (odd - 1);
            for (size_t i = 0; i < BLOCKS; i++)
                all += blocks[i].slab_bytes;
            assert_int_equal(pins.memory_bytes, sum_of(keeps, 0, BLOCKS));
            assert_int_equal(pins.read_bytes, 8000 * pins.count);
            assert_true(pins.memory_bytes <= bytes);
            if (bytes >= all)
                assert_int_equal(pins.count, BLOCKS);
            else
                assert_true(pins.memory_bytes + largest >= bytes);
        }
}

/* No quarter of the pass has much more than its part. */
static void pins_are_spread_over_the_pass(void **state) {
    (void)state;
    bool keeps[BLOCKS];
    struct pins pins;
    make_layout(0, 1);
    for (size_t count = 4; count <= 36; count++) {
        pins_choose(&layout, count * 8192, keeps, &pins);
        assert_in_range(pins.count, count - 1, count);
        for (size_t quarter = 0; quarter < 4; quarter++) {
            uint64_t kept = sum_of(keeps, quarter * 10, quarter * 10 + 10) / 8192;
            assert_in_range(kept, count / 4 - 1, count / 4 + 1);
        }
    }
}

/* What was foreseen is chosen again when the job begins. What the pins take is no room that would
 * do: most rooms are not filled to their end, and less room is less for each block. */
static void the_same_room_chooses_the_same(void **state) {
    (void)state;
    make_layout(BLOCKS, 1);
    for (uint64_t bytes = 0; bytes < 40 * 8192; bytes += 3001) {
        bool keeps[BLOCKS], again[BLOCKS];
        struct pins pins, others;
        pins_choose(&layout, bytes, keeps, &pins);
        pins_choose(&layout, pins.room_bytes, again, &others);
        assert_memory_equal(keeps, again, sizeof keeps);
        assert_int_equal(others.memory_bytes, pins.memory_bytes);
    }
}

/* Blocks of 8 and of 12 KiB in turn, into slabs in turn: 2 slabs have either kind each, 3 see both.
 * With every second block pinned only the small ones come. Passes leave experts out, so there any
 * slab may see any block. */
static void slabs_hold_what_comes_to_them(void **state) {
    (void)state;
    bool keeps[BLOCKS] = {false};
    make_layout(0, 2);
    layout.slab_bytes_max = 12288;
    assert_int_equal(pins_ring_bytes(&layout, keeps, 2), 8192 + 12288);
    assert_int_equal(pins_ring_bytes(&layout, keeps, 3), 3 * 12288);
    assert_int_equal(pins_ring_bytes(&layout, keeps, 4), 2 * 8192 + 2 * 12288);
    for (size_t i = 1; i < BLOCKS; i += 2)
        keeps[i] = true;
    assert_int_equal(pins_ring_bytes(&layout, keeps, 3), 3 * 8192);
    for (size_t i = 0; i < BLOCKS; i++)
        keeps[i] = true;
    assert_int_equal(pins_ring_bytes(&layout, keeps, 3), 0);
    keeps[0] = keeps[BLOCKS - 1] = false;
    assert_int_equal(pins_ring_bytes(&layout, keeps, 2), 8192 + 12288);
    make_layout(1, 2);
    layout.slab_bytes_max = 12288;
    assert_int_equal(pins_ring_bytes(&layout, keeps, 2), 2 * 12288);
}

static void experts_are_pinned_last(void **state) {
    (void)state;
    bool keeps[BLOCKS];
    struct pins pins;
    make_layout(30, 1);
    pins_choose(&layout, 9 * 8192, keeps, &pins);
    assert_int_equal(sum_of(keeps, 10, BLOCKS), 0);
    pins_choose(&layout, 25 * 8192, keeps, &pins);
    assert_int_equal(sum_of(keeps, 0, 10), 10 * 8192);
    assert_int_equal(pins.read_bytes, 10 * 8000); /* what a pass surely saves */
    assert_in_range(sum_of(keeps, 10, BLOCKS), 14 * 8192, 15 * 8192);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pins_keep_to_their_memory_and_use_it),
        cmocka_unit_test(pins_are_spread_over_the_pass),
        cmocka_unit_test(the_same_room_chooses_the_same),
        cmocka_unit_test(slabs_hold_what_comes_to_them),
        cmocka_unit_test(experts_are_pinned_last),
    };
    return cmocka_run_group_tests_name("pins", tests, NULL, NULL);
}
