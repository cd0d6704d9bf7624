/* The outlook against pages counted row by row, the pace against passes of a known cost, and the
 * queue by hand. */
#include "engine/outlook.h"

#include "engine/kv.h"
#include "engine/pace.h"
#include "engine/queue.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* ---- outlook */

static void pages_of_certain_rows_are_exact(void **state) {
    struct outlook outlook;
    struct expect expect;
    struct outlook_row rows[40];
    (void)state;
    expect_init(&expect, NULL);
    outlook_init(&outlook, 3);
    for (size_t i = 0; i < 40; i++) {
        rows[i] = (struct outlook_row){.tokens = 1 + i * 37 % 300,
                                       .answer = i % 7,
                                       .max_tokens = 8 + i * 53 % 400,
                                       .delay = i % 3,
                                       .is_certain = true};
        outlook_add(&outlook, &expect, &rows[i]);
    }
    assert_int_equal(outlook.passes[0], 0);
    assert_int_equal(outlook.passes[16], 16);
    assert_int_equal(outlook.passes[24], 32);
    for (size_t point = 0; point < outlook.points; point++) {
        size_t whole = 0, window = 0, pass = outlook.passes[point];
        for (size_t i = 0; i < 40; i++) {
            size_t grown = pass > rows[i].delay ? pass - rows[i].delay : 0;
            if (grown > 0 && rows[i].answer + grown >= rows[i].max_tokens)
                continue;
            size_t pages = (rows[i].tokens + grown + 15) / 16;
            whole += pages;
            window += pages < 3 ? pages : 3;
        }
        assert_true(fabs(outlook.whole[point].mean - (double)whole) < 1e-6);
        assert_true(fabs(outlook.window[point].mean - (double)window) < 1e-6);
        assert_true(outlook.whole[point].variance < 1e-6);
    }
    outlook_clear(&outlook);
    assert_true(outlook.whole[0].mean < 1e-9);
}

static void a_row_has_room_up_to_the_last_page(void **state) {
    struct outlook outlook;
    struct expect expect;
    struct outlook_row row = {.tokens = 10, .max_tokens = 6, .is_certain = true};
    struct outlook_room room = {.whole_pages = 1, .window_pages = INFINITY};
    (void)state;
    expect_init(&expect, NULL);
    outlook_init(&outlook, 0);
    assert_true(outlook_has_room(&outlook, &expect, &row, &room)); /* 10 + 5 are computed */
    row.max_tokens = 8;
    assert_false(outlook_has_room(&outlook, &expect, &row, &room));
    row.shared_pages = 1;
    assert_true(outlook_has_room(&outlook, &expect, &row, &room));
    room.window_pages = 0;
    assert_true(outlook_has_room(&outlook, &expect, &row, &room)); /* no layer has a window */
}

/* A hundred rows have a page each now; with half a chance two in the next pass: 100 pages then too,
 * give or take 10. */
static void chance_needs_room_in_standard_deviations(void **state) {
    struct outlook outlook;
    struct expect expect;
    struct outlook_row row = {.tokens = 16, .max_tokens = 2};
    struct outlook_room room = {.whole_pages = 110, .window_pages = INFINITY, .deviations = 0.99};
    (void)state;
    expect_init(&expect, NULL);
    for (size_t i = 0; i <= SL_EXPECT_BINS; i++)
        expect.survival[i] = i < SL_EXPECT_BINS / 2 ? 1 : 0.5;
    outlook_init(&outlook, 0);
    for (size_t i = 0; i < 99; i++)
        outlook_add(&outlook, &expect, &row);
    assert_int_equal(outlook.points, 2);
    assert_true(outlook_has_room(&outlook, &expect, &row, &room));
    room.deviations = 1.01;
    assert_false(outlook_has_room(&outlook, &expect, &row, &room));
    room.whole_pages = 99;
    room.deviations = 0;
    assert_false(outlook_has_room(&outlook, &expect, &row, &room));
}

/* ---- pace */

/* Passes of 10 s of reads and 0.5 s + 0.05 s a token: 190 tokens fill them. */
static void prompts_fill_what_the_disk_leaves(void **state) {
    struct pace pace = {0};
    size_t tokens = 100;
    (void)state;
    assert_int_equal(pace_tokens(&pace, 0, 512), 512);
    for (size_t pass = 0; pass < 60; pass++) {
        double compute = 0.5 + 0.05 * (double)tokens, seconds = compute > 10 ? compute : 10;
        pace_learn(&pace, tokens, seconds, seconds - compute);
        size_t most = pace_tokens(&pace, 0, 512);
        assert_in_range(most, 64, 512);
        tokens = pass % 4 == 0 ? most : 60 + pass % 7 * 15;
    }
    assert_in_range(pace_tokens(&pace, 0, 512), 176, 224);
    assert_int_equal(pace_tokens(&pace, 0, 128), 128);
}

/* Where 190 rows and more decode, the processor is behind the drive whatever the prompts do. */
static void prompts_are_not_held_back_where_decoding_takes_longer(void **state) {
    struct pace pace = {0};
    (void)state;
    for (size_t pass = 0; pass < 30; pass++) {
        size_t tokens = 60 + pass % 7 * 15;
        pace_learn(&pace, tokens, 10, 9.5 - 0.05 * (double)tokens);
    }
    assert_in_range(pace_tokens(&pace, 0, 512), 176, 208);
    assert_in_range(pace_tokens(&pace, 180, 512), 176, 208);
    assert_int_equal(pace_tokens(&pace, 200, 512), 512);
}

static void passes_that_never_wait_have_all_tokens(void **state) {
    struct pace pace = {0};
    (void)state;
    for (size_t pass = 0; pass < 20; pass++)
        pace_learn(&pace, 100 + pass, 3, 0.001);
    assert_int_equal(pace_tokens(&pace, 0, 512), 512);
}

static void odd_measurements_do_no_harm(void **state) {
    static const double values[] = {0, 1e-12, 1, 1e9};
    (void)state;
    for (size_t a = 0; a < 4; a++) {
        for (size_t b = 0; b < 4; b++) {
            struct pace pace = {0};
            for (size_t pass = 0; pass < 8; pass++) {
                pace_learn(&pace, 1 + pass * a, values[a], values[b]);
                assert_in_range(pace_tokens(&pace, 0, 100), 12, 100);
                assert_in_range(pace_tokens(&pace, 0, 1), 1, 1);
            }
        }
    }
}

/* ---- queue */

static bool fits_small(void *ctx, uint32_t row) {
    const uint32_t *most = ctx;
    return row % 100 <= *most;
}

/* A row's last two digits are its size. */
static void a_row_that_does_not_fit_is_passed_and_keeps_its_place(void **state) {
    uint32_t rows[] = {150, 210, 390, 420, 510}, row, most = 20;
    struct queue queue = {.rows = rows, .count = 5};
    (void)state;
    assert_true(queue_take(&queue, fits_small, &most, &row));
    assert_int_equal(row, 210);
    assert_true(queue_take(&queue, fits_small, &most, &row));
    assert_int_equal(row, 420);
    most = 60;
    assert_true(queue_take(&queue, fits_small, &most, &row));
    assert_int_equal(row, 150);
    assert_int_equal(queue.passed, 0);
    assert_true(queue_take(&queue, fits_small, &most, &row));
    assert_int_equal(row, 510);
    assert_false(queue_take(&queue, fits_small, &most, &row));
    most = 90;
    assert_true(queue_take(&queue, fits_small, &most, &row));
    assert_int_equal(row, 390);
    assert_false(queue_take(&queue, fits_small, &most, &row));
}

static void a_row_is_passed_a_bounded_number_of_times(void **state) {
    uint32_t rows[200], row, most = 20;
    struct queue queue = {.rows = rows, .count = 200, .strict_count = 1};
    (void)state;
    for (uint32_t i = 0; i < 200; i++)
        rows[i] = i == 1 ? 50 : i * 100 + 10;
    size_t taken = 0;
    while (queue_take(&queue, fits_small, &most, &row))
        taken++;
    assert_int_equal(taken, 1 + SL_QUEUE_PASSED_MAX);
    most = 50;
    assert_true(queue_take(&queue, fits_small, &most, &row));
    assert_int_equal(row, 50);
    most = 20;
    while (queue_take(&queue, fits_small, &most, &row)) {
        assert_int_equal(row, (taken + 1) * 100 + 10); /* in order again */
        taken++;
    }
    assert_int_equal(queue.next, 200);
}

static void nobody_passes_rows_that_have_begun(void **state) {
    uint32_t rows[] = {50, 10}, row, most = 20;
    struct queue queue = {.rows = rows, .count = 2, .strict_count = 1};
    (void)state;
    assert_false(queue_take(&queue, fits_small, &most, &row));
    queue.strict_count = 0;
    assert_true(queue_take(&queue, fits_small, &most, &row));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_certain_rows_are_exact),
        cmocka_unit_test(a_row_has_room_up_to_the_last_page),
        cmocka_unit_test(chance_needs_room_in_standard_deviations),
        cmocka_unit_test(prompts_fill_what_the_disk_leaves),
        cmocka_unit_test(prompts_are_not_held_back_where_decoding_takes_longer),
        cmocka_unit_test(passes_that_never_wait_have_all_tokens),
        cmocka_unit_test(odd_measurements_do_no_harm),
        cmocka_unit_test(a_row_that_does_not_fit_is_passed_and_keeps_its_place),
        cmocka_unit_test(a_row_is_passed_a_bounded_number_of_times),
        cmocka_unit_test(nobody_passes_rows_that_have_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
