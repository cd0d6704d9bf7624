/* The time of a pass, and what is learned from measured ones: by hand. */
#include "plan/cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* 70B in bf16 at 5 GB/s and 2 TFLOP/s: 140 GB are read in 28 s; 100 tokens take 7 s, 800 take 56.
 */
static void a_pass_takes_the_longer_of_reading_and_computing(void **state) {
    (void)state;
    struct pass_cost cost = {.flops_per_second = 2e12,
                             .token_flops = 138e9,
                             .logits_flops = 2e9,
                             .read_bytes = 140e9,
                             .read_bytes_per_second = 5e9};
    assert_true(is_near(cost_compute_seconds(&cost, 100, 100), 7));
    assert_true(is_near(cost_read_seconds(&cost, 100), 28));
    assert_true(is_near(cost_seconds(&cost, 100, 100), 28));
    assert_true(is_near(cost_seconds(&cost, 800, 800), 56));
    assert_true(is_near(cost_seconds(&cost, 800, 0), 55.2));
    cost.fixed_seconds = 3;
    assert_true(is_near(cost_compute_seconds(&cost, 100, 100), 10));
    cost.read_bytes = 0; /* resident */
    assert_true(is_near(cost_seconds(&cost, 100, 100), 10));
}

/* Of 8 experts a token uses 2: one token leaves 3/4 of them unread, two leave 9/16. */
static void experts_are_read_as_far_as_tokens_reach_them(void **state) {
    (void)state;
    struct pass_cost cost = {.flops_per_second = 1e12,
                             .read_bytes = 100,
                             .read_bytes_per_second = 1,
                             .expert_bytes = 80,
                             .expert_share = 0.25};
    assert_true(is_near(cost_read_seconds(&cost, 1), 100 - 60));
    assert_true(is_near(cost_read_seconds(&cost, 2), 100 - 45));
    assert_true(is_near(cost_read_seconds(&cost, 1000), 100));
    cost.expert_bytes = 200; /* blocks that are kept may be experts: never below nothing */
    assert_true(cost_read_seconds(&cost, 1) == 0);
}

/* Seconds are 0.5 and 1e-9 for each operation, with noise that cancels. */
static void a_line_through_passes_tells_both_parts(void **state) {
    (void)state;
    struct pass_cost cost = {.token_flops = 1e6, .logits_flops = 1e6};
    struct cost_observed observed = {0};
    double flops = 0, fixed = 0;
    for (int i = 0; i < 40; i++) {
        double tokens = 100 + 50 * (i % 4), logits = 20, noise = i / 4 % 2 ? 0.01 : -0.01;
        cost_observe(&observed, &cost, tokens, logits,
                     0.5 + (tokens + logits) * 1e6 * 1e-9 + noise);
    }
    assert_true(cost_learn(&observed, &flops, &fixed));
    assert_true(fabs(flops / 1e9 - 1) < 1e-6);
    assert_true(fabs(fixed - 0.5) < 1e-6);
}

static void passes_that_are_alike_tell_a_rate_alone(void **state) {
    (void)state;
    struct pass_cost cost = {.token_flops = 1e6};
    struct cost_observed observed = {0};
    double flops = 0, fixed = 7;
    for (int i = 0; i < 7; i++)
        cost_observe(&observed, &cost, 100, 0, 0.2);
    assert_false(cost_learn(&observed, &flops, &fixed)); /* too few */
    for (int i = 0; i < 20; i++)
        cost_observe(&observed, &cost, 100, 0, 0.2);
    assert_true(cost_learn(&observed, &flops, &fixed));
    assert_true(is_near(flops, 5e8));
    assert_true(fixed == 0);
    /* Passes that get faster with more tokens are noise: the mean counts. */
    observed = (struct cost_observed){0};
    for (int i = 0; i < 20; i++)
        cost_observe(&observed, &cost, 100 + 100 * (i % 2), 0, i % 2 ? 0.1 : 0.2);
    assert_true(cost_learn(&observed, &flops, &fixed));
    assert_true(is_near(flops, 150e6 / 0.15));
    assert_true(fixed == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_takes_the_longer_of_reading_and_computing),
        cmocka_unit_test(experts_are_read_as_far_as_tokens_reach_them),
        cmocka_unit_test(a_line_through_passes_tells_both_parts),
        cmocka_unit_test(passes_that_are_alike_tell_a_rate_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
