/* Lengths of answers as shares of their limits: by hand. */
#include "plan/answers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static void shares_fall_into_their_bins(void **state) {
    (void)state;
    struct answers answers = {0};
    answers_add(&answers, 0, 160);   /* nothing at all */
    answers_add(&answers, 10, 160);  /* the last of the first bin */
    answers_add(&answers, 11, 160);  /* the first of the second */
    answers_add(&answers, 159, 160); /* ended by itself just before the limit */
    answers_add(&answers, 160, 160);
    answers_add(&answers, 1, 1);
    assert_int_equal(answers.rows[0], 2);
    assert_int_equal(answers.rows[1], 1);
    assert_int_equal(answers.rows[SL_ANSWER_BINS - 1], 1);
    assert_int_equal(answers.rows[SL_ANSWER_BINS], 2);
    assert_int_equal(answers_count(&answers), 6);
}

static void nothing_known_is_the_limit(void **state) {
    (void)state;
    const struct answers none = {0};
    assert_true(answers_mean(&none) == 1);
    assert_true(answers_life(&none) == 0.5);
    assert_true(answers_share(&none, 0.3) == 1);
}

/* Three of four end at 10 % (in the second bin, whose middle is 3/32), one reaches its limit. The
 * mean is (3 x 3/32 + 1) / 4. A row that is in has E[s^2] / 2 E[s] of its limit on average. */
static void means_and_quantiles_are_those_of_the_rows(void **state) {
    (void)state;
    struct answers answers = {0};
    for (int i = 0; i < 3; i++)
        answers_add(&answers, 10, 100);
    answers_add(&answers, 100, 100);
    assert_true(fabs(answers_mean(&answers) - (9.0 / 32 + 1) / 4) < 1e-12);
    assert_true(fabs(answers_life(&answers) - (27.0 / 1024 + 1) / (2 * (9.0 / 32 + 1))) < 1e-12);
    assert_true(fabs(answers_share(&answers, 0) - 1.0 / 16) < 1e-12);
    assert_true(fabs(answers_share(&answers, 0.375) - 1.5 / 16) < 1e-12);
    assert_true(answers_share(&answers, 0.76) == 1);
    assert_true(answers_share(&answers, 0.999) == 1);
}

static void old_rows_fade_as_new_ones_come(void **state) {
    (void)state;
    struct answers known = {.rows = {[2] = 3000}}, seen = {.rows = {[10] = 2000}};
    answers_merge(&known, &seen);
    assert_in_range(answers_count(&known), 4090, 4096);
    assert_int_equal(known.rows[2], 3000 * 4096 / 5000);
    for (int i = 0; i < 20; i++)
        answers_merge(&known, &seen);
    assert_true(known.rows[2] < 10); /* each time two thirds are left */
    assert_true(answers_mean(&known) > 0.6);
}

/* One short answer of an earlier job is no news of a job of nine: eight of nine still reach their
 * limits. The doubt goes as rows come: 8 x (64 - n) / 64, rounded up. */
static void few_rows_do_not_overrule_the_limit(void **state) {
    (void)state;
    static const struct {
        uint64_t rows, doubted;
    } right[] = {{0, 0}, {1, 8}, {8, 7}, {32, 4}, {33, 4}, {56, 1}, {63, 1}, {64, 0}, {4000, 0}};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        struct answers answers = {.rows = {[0] = right[i].rows}};
        answers_doubt(&answers);
        assert_int_equal(answers.rows[0], right[i].rows);
        assert_int_equal(answers.rows[SL_ANSWER_BINS], right[i].doubted);
        assert_int_equal(answers_count(&answers), right[i].rows + right[i].doubted);
    }
    struct answers one = {.rows = {[0] = 1}};
    answers_doubt(&one);
    assert_true(answers_mean(&one) > 0.85);
    assert_true(answers_share(&one, 0.2) == 1);
}

/* Of any 100 rows that follow each other, 8 to 12 fall into each tenth. */
static void quantiles_lie_evenly_in_any_stretch(void **state) {
    (void)state;
    assert_true(answers_quantile(0) == 0.5);
    for (size_t first = 0; first < 3000; first += 37) {
        size_t counts[10] = {0};
        for (size_t i = first; i < first + 100; i++) {
            double quantile = answers_quantile(i);
            assert_true(quantile >= 0 && quantile < 1);
            counts[(size_t)(quantile * 10)]++;
        }
        for (size_t i = 0; i < 10; i++)
            assert_in_range(counts[i], 8, 12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_fall_into_their_bins),
        cmocka_unit_test(nothing_known_is_the_limit),
        cmocka_unit_test(means_and_quantiles_are_those_of_the_rows),
        cmocka_unit_test(old_rows_fade_as_new_ones_come),
        cmocka_unit_test(few_rows_do_not_overrule_the_limit),
        cmocka_unit_test(quantiles_lie_evenly_in_any_stretch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
