/* What is expected of answers: against the estimate of survival by hand, and lengths that are
 * known. */
#include "engine/expect.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void nothing_known_means_the_limit(void **state) {
    struct expect expect;
    (void)state;
    expect_init(&expect, NULL);
    assert_true(expect_survival(&expect, 0, 100) >= 1);
    assert_true(expect_survival(&expect, 99, 100) >= 1);
    assert_true(expect_survival(&expect, 100, 100) <= 0);
    assert_true(fabs(expect_length(&expect, 0, 100) - 100) < 1e-9);
    assert_true(fabs(expect_length(&expect, 100, 100) - 100) < 1e-9);
}

/* A row lives, another ends in the first half; the limit is 64, so a part has 4 tokens. */
static void rows_that_go_on_count_as_rows_at_risk(void **state) {
    struct expect expect;
    (void)state;
    expect_init(&expect, NULL);
    for (size_t row = 0; row < 1000; row++) {
        expect_enter(&expect);
        expect_grow(&expect, 0, 31, 64);
        if (row % 2 == 0)
            expect_end(&expect, 31, 64);
        else
            expect_grow(&expect, 31, 32, 64);
    }
    assert_true(fabs(expect_survival(&expect, 28, 64) - 1) < 0.01);
    assert_true(fabs(expect_survival(&expect, 32, 64) - 0.5) < 0.01);
    /* Nobody has ended beyond; the rate of all parts stands in for what is not known. */
    assert_true(expect_survival(&expect, 48, 64) < expect_survival(&expect, 36, 64));
    assert_true(expect_survival(&expect, 63, 64) > 0.2);
}

/* Lengths spread evenly over 1 .. limit: mean half of it, and of rows that have come halfway three
 * quarters. */
static void lengths_of_ended_rows_are_learned(void **state) {
    static const size_t limits[] = {5, 16, 100, 512, 4096};
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        size_t limit = limits[i];
        double most = (double)limit;
        struct expect expect;
        expect_init(&expect, NULL);
        for (size_t row = 0; row < 4000; row++) {
            size_t length = 1 + row * 7919 % limit;
            expect_enter(&expect);
            for (size_t token = 1; token <= length; token++)
                expect_grow(&expect, token - 1, token, limit);
            if (length < limit)
                expect_end(&expect, length, limit);
        }
        double slack = most * 0.04 + 1;
        assert_true(fabs(expect_length(&expect, 0, limit) - (most + 1) / 2) < slack);
        assert_true(fabs(expect_length(&expect, limit / 2, limit) - most * 0.75) < slack);
        assert_true(expect_length(&expect, limit - 1, limit) >= most - 1);
        assert_true(expect_length(&expect, limit - 1, limit) <= most);
    }
}

static void survival_never_rises_nor_leaves_its_range(void **state) {
    struct expect expect;
    uint64_t random = 5;
    (void)state;
    expect_init(&expect, NULL);
    for (size_t row = 0; row < 300; row++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t limit = 1 + (size_t)(random >> 40) % 70,
               length = (size_t)(random >> 20) % (limit + 1);
        expect_enter(&expect);
        expect_grow(&expect, 0, length, limit);
        if (length < limit)
            expect_end(&expect, length, limit);
        double before = 1;
        for (size_t token = 0; token < limit; token++) {
            double chance = expect_survival(&expect, token, limit);
            assert_true(chance > 0 && chance <= before);
            before = chance;
        }
        for (size_t token = 0; token <= limit; token++) {
            double mean = expect_length(&expect, token, limit);
            assert_true(mean >= (double)token && mean <= (double)limit);
        }
    }
}

/* A prior of many rows gives way to a few hundred of this job. */
static void a_prior_is_where_learning_begins(void **state) {
    static const double short_ones[SL_EXPECT_BINS + 1] = {[1] = 50000, [2] = 50000};
    struct expect expect;
    (void)state;
    expect_init(&expect, short_ones);
    double mean = expect_length(&expect, 0, 160); /* 10 to 30 tokens */
    assert_true(mean > 17 && mean < 24);
    for (size_t row = 0; row < 400; row++) {
        expect_enter(&expect);
        expect_grow(&expect, 0, 160, 160);
        expect_grow(&expect, 0, 159, 160);
    }
    assert_true(expect_length(&expect, 0, 160) > 140);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_known_means_the_limit),
        cmocka_unit_test(rows_that_go_on_count_as_rows_at_risk),
        cmocka_unit_test(lengths_of_ended_rows_are_learned),
        cmocka_unit_test(survival_never_rises_nor_leaves_its_range),
        cmocka_unit_test(a_prior_is_where_learning_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
