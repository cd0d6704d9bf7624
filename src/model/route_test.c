/* Routing by values worked out by hand: softmax over all, over the chosen, sigmoids in groups with
 * a correction, ties, and what is not a number. */
#include "model/route.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 8

static uint32_t experts[COUNT];
static float weights[COUNT];

static void choose(const struct mixture *mixture, const float *outputs, const float *correction) {
    float x[COUNT], scratch[2 * COUNT];
    memcpy(x, outputs, sizeof x);
    route_choose(mixture, x, correction, scratch, experts, weights);
}

/* Two roundings of a share below 1. */
static void assert_near(float value, double expected) {
    if (fabs((double)value - expected) > 1e-6)
        fail_msg("%.8f, expected %.8f", (double)value, expected);
}

/* e^x = 1, 2, 3, ... for x = ln 1, ln 2, ln 3, ... so that shares are plain fractions. */
static const float logs[COUNT] = {0.0f,       0.6931472f, 1.0986123f, 1.3862944f,
                                  1.6094379f, 1.7917595f, 1.9459101f, 2.0794415f};

static void softmax_shares_are_of_all_experts(void **state) {
    (void)state;
    struct mixture mixture = {.count = 8, .used = 3, .scale = 1, .groups = 1, .groups_used = 1};
    choose(&mixture, logs, NULL); /* 1 .. 8 of 36 */
    assert_int_equal(experts[0], 7);
    assert_int_equal(experts[1], 6);
    assert_int_equal(experts[2], 5);
    assert_near(weights[0], 8.0 / 36);
    assert_near(weights[1], 7.0 / 36);
    assert_near(weights[2], 6.0 / 36);
    mixture.sums_to_one = true;
    choose(&mixture, logs, NULL);
    assert_near(weights[0], 8.0 / 21);
    assert_near(weights[2], 6.0 / 21);
}

static void softmax_of_the_chosen_ignores_the_others(void **state) {
    (void)state;
    struct mixture mixture = {.count = 8,
                              .used = 2,
                              .score = MIXTURE_SOFTMAX_CHOSEN,
                              .scale = 1,
                              .groups = 1,
                              .groups_used = 1};
    choose(&mixture, logs, NULL);
    assert_int_equal(experts[0], 7);
    assert_int_equal(experts[1], 6);
    assert_near(weights[0], 8.0 / 15);
    assert_near(weights[1], 7.0 / 15);
}

/* sigmoid(ln n) = n / (n + 1): 1/2, 2/3, 3/4, ... 8/9. */
static void sigmoids_choose_within_the_best_groups(void **state) {
    (void)state;
    struct mixture mixture = {.count = 8,
                              .used = 2,
                              .score = MIXTURE_SIGMOID,
                              .sums_to_one = true,
                              .scale = 2.5f,
                              .groups = 4,
                              .groups_used = 1};
    const float none[COUNT] = {0};
    choose(&mixture, logs, none); /* the last group: 7/8 and 8/9 */
    assert_int_equal(experts[0], 7);
    assert_int_equal(experts[1], 6);
    double sum = 7.0 / 8 + 8.0 / 9;
    assert_near(weights[0], 2.5 * 8.0 / 9 / sum);
    assert_near(weights[1], 2.5 * 7.0 / 8 / sum);
    /* Groups count the sum of two: 0.5 + 1.5 + 2/3 against 7/8 + 8/9. Weights stay uncorrected. */
    const float first[COUNT] = {1.5f};
    choose(&mixture, logs, first);
    assert_int_equal(experts[0], 0);
    assert_int_equal(experts[1], 1);
    sum = 1.0 / 2 + 2.0 / 3;
    assert_near(weights[0], 2.5 * 0.5 / sum);
    /* Two groups: the best of the other one comes second. */
    mixture.groups_used = 2;
    choose(&mixture, logs, first);
    assert_int_equal(experts[0], 0);
    assert_int_equal(experts[1], 7);
}

static void a_group_out_of_the_best_gives_none_whatever_its_scores(void **state) {
    (void)state;
    struct mixture mixture = {
        .count = 8, .used = 2, .score = MIXTURE_SIGMOID, .scale = 1, .groups = 2, .groups_used = 1};
    /* Group 1 has the best single expert; group 0 the best two. */
    const float x[COUNT] = {2, 2, -9, -9, 5, -9, -9, -9}, none[COUNT] = {0};
    choose(&mixture, x, none);
    assert_int_equal(experts[0], 0);
    assert_int_equal(experts[1], 1);
    /* Scores below zero, by the correction, still beat other groups' experts. */
    const float down[COUNT] = {-2, -2, -2, -2, -3, -3, -3, -3};
    choose(&mixture, x, down);
    assert_int_equal(experts[0], 0);
    assert_int_equal(experts[1], 1);
}

/* DeepSeek-V2: a group counts by its best expert; V3's sum of two would take the other group. */
static void a_softmax_takes_the_group_of_the_best_expert(void **state) {
    (void)state;
    struct mixture mixture = {.count = 8, .used = 2, .scale = 1, .groups = 2, .groups_used = 1};
    /* e^x: 3 3 1 1 and 4 1 1 1 of 15. */
    const float x[COUNT] = {1.0986123f, 1.0986123f, 0, 0, 1.3862944f, 0, 0, 0};
    choose(&mixture, x, NULL);
    assert_int_equal(experts[0], 4);
    assert_int_equal(experts[1], 5);
    assert_near(weights[0], 4.0 / 15);
    assert_near(weights[1], 1.0 / 15);
}

static void ties_go_to_the_lower_number_and_nan_comes_last(void **state) {
    (void)state;
    struct mixture mixture = {.count = 8, .used = 8, .scale = 1, .groups = 1, .groups_used = 1};
    const float same[COUNT] = {0};
    choose(&mixture, same, NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(experts[i], i);
        assert_near(weights[i], 1.0 / 8);
    }
    mixture.score = MIXTURE_SIGMOID;
    const float odd[COUNT] = {NAN, 1, -INFINITY, 2, NAN, INFINITY, 0, -1};
    const uint32_t order[COUNT] = {5, 3, 1, 6, 7, 2, 0, 4};
    choose(&mixture, odd, same);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(experts[i], order[i]);
    const float nothing[COUNT] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    mixture.groups = 4;
    mixture.groups_used = 2;
    mixture.used = 3;
    choose(&mixture, nothing, same); /* three different ones, whichever */
    assert_true(experts[0] != experts[1] && experts[1] != experts[2] && experts[0] != experts[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_shares_are_of_all_experts),
        cmocka_unit_test(softmax_of_the_chosen_ignores_the_others),
        cmocka_unit_test(sigmoids_choose_within_the_best_groups),
        cmocka_unit_test(a_group_out_of_the_best_gives_none_whatever_its_scores),
        cmocka_unit_test(a_softmax_takes_the_group_of_the_best_expert),
        cmocka_unit_test(ties_go_to_the_lower_number_and_nan_comes_last),
    };
    return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
