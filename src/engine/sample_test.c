/* Sampling against a plain reference that sorts everything, against probabilities by hand, and the
 * generator against published answers. */
#include "engine/sample.h"

#include "base/num.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sampling plain = {.temperature = 1, .top_p = 1};

static struct sample_scratch new_scratch(size_t vocabulary) {
    struct sample_scratch scratch;
    struct error err;
    assert_int_equal(sample_scratch_init(&scratch, vocabulary, &err), SL_OK);
    return scratch;
}

/* Known answers of Philox4x32-10 in Random123's kat_vectors (Salmon, Moraes et al., SC 2011). */
static void generator_gives_the_published_answers(void **state) {
    (void)state;
    assert_true(sample_random(0, 0, 0) == 0xe169c58d6627e8d5u);
    assert_true(sample_random(UINT64_MAX, UINT64_MAX, UINT64_MAX) == 0x41c83b0e408f276du);
    /* counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0 */
    assert_true(sample_random(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u) ==
                0x94fdccebd16cfe09u);
}

static void greedy_takes_the_lowest_of_equals_and_never_nan(void **state) {
    (void)state;
    assert_int_equal(sample_greedy((float[]){1, 3, 3, 2}, 4), 1);
    assert_int_equal(sample_greedy((float[]){NAN, 1, NAN, 2, NAN}, 5), 3);
    assert_int_equal(sample_greedy((float[]){NAN, -INFINITY, -INFINITY}, 3), 1);
    assert_int_equal(sample_greedy((float[]){-INFINITY, -5, INFINITY, INFINITY}, 4), 2);
    assert_int_equal(sample_greedy((float[]){NAN, NAN}, 2), 0);
    assert_int_equal(sample_greedy((float[]){-0.0f, 0.0f}, 2), 0);
}

static void temperature_zero_is_greedy(void **state) {
    (void)state;
    struct sample_scratch scratch = new_scratch(4);
    struct sampling sampling = {.temperature = 0, .top_p = 1, .seed = 3};
    memcpy(scratch.logits, (float[]){1, 2, 2, 0}, 4 * sizeof(float));
    for (uint64_t position = 0; position < 50; position++)
        assert_int_equal(sample_pick(&scratch, &sampling, 1, position), 1);
    sample_scratch_release(&scratch);
    sample_scratch_release(&scratch);
}

/* Draws often; counts [vocabulary]. */
static void draw(struct sample_scratch *scratch, const struct sampling *sampling, size_t draws,
                 size_t *counts) {
    memset(counts, 0, scratch->vocabulary * sizeof *counts);
    for (size_t i = 0; i < draws; i++)
        counts[sample_pick(scratch, sampling, i % 7, i / 7)]++;
}

/* Pearson's statistic stays below 23 with chance 0.9999 for 4 degrees of freedom; the seed is
 * fixed, so this passes always or never. */
static void assert_shares(const size_t *counts, const double *shares, size_t vocabulary,
                          size_t draws) {
    double statistic = 0;
    for (size_t i = 0; i < vocabulary; i++) {
        double wanted = shares[i] * (double)draws, difference = (double)counts[i] - wanted;
        if (shares[i] == 0)
            assert_int_equal(counts[i], 0);
        else
            statistic += difference * difference / wanted;
    }
    assert_true(statistic < 23);
    assert_true(statistic > 0.001); /* too good is no chance either */
}

/* Probabilities 0.1, 0.4, 0.05, 0.25, 0.2. */
static void set_five(struct sample_scratch *scratch) {
    static const double shares[] = {0.1, 0.4, 0.05, 0.25, 0.2};
    for (size_t i = 0; i < 5; i++)
        scratch->logits[i] = (float)(log(shares[i]) + 3);
}

static void draws_follow_the_probabilities(void **state) {
    (void)state;
    struct sample_scratch scratch = new_scratch(5);
    size_t counts[5];
    struct sampling sampling = {.temperature = 1, .top_p = 1, .seed = 12345};
    set_five(&scratch);
    draw(&scratch, &sampling, 40000, counts);
    assert_shares(counts, (double[]){0.1, 0.4, 0.05, 0.25, 0.2}, 5, 40000);
    sampling.temperature = 0.5; /* squares: 0.01 0.16 0.0025 0.0625 0.04, sum 0.275 */
    draw(&scratch, &sampling, 40000, counts);
    assert_shares(
        counts,
        (double[]){0.01 / 0.275, 0.16 / 0.275, 0.0025 / 0.275, 0.0625 / 0.275, 0.04 / 0.275}, 5,
        40000);
    sample_scratch_release(&scratch);
}

static void filters_leave_what_transformers_leaves(void **state) {
    (void)state;
    struct sample_scratch scratch = new_scratch(5);
    size_t counts[5];
    set_five(&scratch);
    struct sampling sampling = {.temperature = 1, .top_p = 1, .top_k = 3, .seed = 1};
    draw(&scratch, &sampling, 20000, counts);
    assert_shares(counts, (double[]){0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85}, 5, 20000);
    /* top-p works on what top-k left: of 0.85, 0.4 and 0.25 are 0.76. */
    sampling.top_p = 0.75;
    draw(&scratch, &sampling, 20000, counts);
    assert_shares(counts, (double[]){0, 0.4 / 0.65, 0, 0.25 / 0.65, 0}, 5, 20000);
    sampling.top_k = 0; /* 0.4 + 0.25 < 0.75, so 0.2 stays too */
    draw(&scratch, &sampling, 20000, counts);
    assert_shares(counts, (double[]){0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85}, 5, 20000);
    sampling.top_p = 0; /* one stays always */
    draw(&scratch, &sampling, 100, counts);
    assert_int_equal(counts[1], 100);
    sampling.top_p = 1;
    sampling.min_p = 0.4; /* of 0.4: 0.16 */
    draw(&scratch, &sampling, 20000, counts);
    assert_shares(counts, (double[]){0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85}, 5, 20000);
    sampling.min_p = 1;
    draw(&scratch, &sampling, 100, counts);
    assert_int_equal(counts[1], 100);
    sample_scratch_release(&scratch);
}

static void ties_at_the_border_go_to_the_lowest_ids(void **state) {
    (void)state;
    struct sample_scratch scratch = new_scratch(6);
    size_t counts[6];
    struct sampling sampling = {.temperature = 1, .top_p = 1, .top_k = 2, .seed = 1};
    memcpy(scratch.logits, (float[]){0, 1, 1, 1, 1, 0}, 6 * sizeof(float));
    draw(&scratch, &sampling, 1000, counts);
    assert_int_equal(counts[1] + counts[2], 1000);
    assert_true(counts[1] > 400 && counts[2] > 400);
    sample_scratch_release(&scratch);
}

/* ---- a reference: sort all, then cut ---- */

static const float *sorted_by;

static int by_logit(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sorted_by[x] != sorted_by[y])
        return sorted_by[x] > sorted_by[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

static uint32_t reference_pick(const float *logits, size_t vocabulary,
                               const struct sampling *sampling, uint64_t key, uint64_t position) {
    static uint32_t order[1000];
    static double weights[1000];
    size_t count = 0;
    double sum = 0, total = 0;
    for (size_t i = 0; i < vocabulary; i++)
        if (!isnan(logits[i]))
            order[count++] = (uint32_t)i;
    sorted_by = logits;
    qsort(order, count, sizeof *order, by_logit);
    double top = (double)logits[order[0]];
    for (size_t i = 0; i < vocabulary; i++)
        weights[i] = (double)num_exp((float)(((double)logits[i] - top) / sampling->temperature));
    for (size_t i = 0; i < vocabulary; i++)
        total += isnan(weights[i]) ? 0 : weights[i];
    if (sampling->top_k > 0 && (size_t)sampling->top_k < count) {
        count = (size_t)sampling->top_k;
        total = 0;
        for (size_t i = 0; i < count; i++)
            total += weights[order[i]];
    }
    if (sampling->top_p < 1) {
        size_t kept = 0;
        while (kept < count && (kept == 0 || sum < sampling->top_p * total))
            sum += weights[order[kept++]];
        count = kept;
        total = sum;
    }
    if (sampling->min_p > 0) {
        size_t kept = 0;
        for (sum = 0; kept < count && (kept == 0 || weights[order[kept]] >= sampling->min_p);)
            sum += weights[order[kept++]];
        count = kept;
        total = sum;
    }
    double target =
        (double)(sample_random(sampling->seed, key, position) >> 11) / 9007199254740992.0 * total;
    size_t at = 0;
    for (sum = weights[order[0]]; at + 1 < count && sum <= target;)
        sum += weights[order[++at]];
    return order[at];
}

static void lazy_ranking_picks_as_a_full_sort_does(void **state) {
    (void)state;
    struct sample_scratch scratch = new_scratch(1000);
    static const double temperatures[] = {0.05, 0.7, 1, 5, 1000}, top_ps[] = {1, 0.9, 0.3, 0.999};
    static const double min_ps[] = {0, 0.05, 0.5};
    static const int64_t top_ks[] = {0, 1, 5, 40, 999, 1000, 100000, INT64_MAX};
    for (uint64_t i = 0; i < 1500; i++) {
        uint64_t random = sample_random(99, 1, i);
        float width = random & 1 ? 10 : 0.5f;
        for (size_t id = 0; id < 1000; id++) {
            int level = (int)(sample_random(98, i, id) % (random & 2 ? 7u : 100000u));
            scratch.logits[id] = width * (float)level / (random & 2 ? 7.0f : 100000.0f) - 3;
            if (level == 5 && random & 4)
                scratch.logits[id] = id % 2 ? NAN : -INFINITY;
        }
        struct sampling sampling = {.temperature = temperatures[random / 8 % 5],
                                    .top_p = top_ps[random / 64 % 4],
                                    .min_p = min_ps[random / 256 % 3],
                                    .top_k = top_ks[random / 1024 % 8],
                                    .seed = i};
        uint32_t wanted = reference_pick(scratch.logits, 1000, &sampling, 77, i);
        assert_int_equal(sample_pick(&scratch, &sampling, 77, i), wanted);
    }
    sample_scratch_release(&scratch);
}

static void draw_depends_on_nothing_but_its_own_row(void **state) {
    (void)state;
    struct sample_scratch used = new_scratch(5);
    struct sampling sampling = {.temperature = 1, .top_p = 0.95, .seed = 7};
    uint32_t alone[20], same_as_key = 0, same_as_seed = 0;
    for (uint64_t position = 0; position < 20; position++) {
        struct sample_scratch fresh = new_scratch(5);
        set_five(&fresh);
        alone[position] = sample_pick(&fresh, &sampling, 3, position);
        sample_scratch_release(&fresh);
    }
    for (uint64_t position = 20; position-- > 0;) { /* other rows between, in another order */
        struct sampling other = plain;
        for (size_t i = 0; i < 5; i++)
            used.logits[i] = (float)i;
        sample_pick(&used, &other, 9, position);
        set_five(&used);
        assert_int_equal(sample_pick(&used, &sampling, 3, position), alone[position]);
        same_as_key += sample_pick(&used, &sampling, 4, position) == alone[position];
        other = sampling;
        other.seed = 8;
        same_as_seed += sample_pick(&used, &other, 3, position) == alone[position];
    }
    assert_true(same_as_key < 20);
    assert_true(same_as_seed < 20);
    sample_scratch_release(&used);
}

static void hostile_logits_still_give_an_id(void **state) {
    (void)state;
    struct sample_scratch scratch = new_scratch(3);
    struct sampling sampling = {.temperature = 1, .top_p = 0.5, .min_p = 0.1, .top_k = 2};
    static const float cases[][3] = {{NAN, NAN, NAN},
                                     {-INFINITY, -INFINITY, -INFINITY},
                                     {0, INFINITY, INFINITY},
                                     {NAN, -INFINITY, 3e38f}};
    static const uint32_t wanted[] = {0, 0, 1, 2};
    for (size_t i = 0; i < 4; i++) {
        memcpy(scratch.logits, cases[i], sizeof cases[i]);
        assert_int_equal(sample_pick(&scratch, &sampling, 0, 0), wanted[i]);
    }
    sampling.temperature = 1e-320;
    memcpy(scratch.logits, (float[]){1, 2, 1.9999f}, 3 * sizeof(float));
    assert_int_equal(sample_pick(&scratch, &sampling, 0, 0), 1);
    sample_scratch_release(&scratch);
}

static void logprobs_are_log_softmax(void **state) {
    (void)state;
    struct sample_scratch scratch = new_scratch(500);
    struct logprob top[20];
    float picked;
    long double sum = 0;
    for (size_t i = 0; i < 500; i++) {
        scratch.logits[i] = (float)((int)(i * 7919 % 1009) - 500) * 0.02f;
        sum += expl((long double)scratch.logits[i]);
    }
    sample_logprobs(&scratch, 123, &picked, top, 20);
    /* exp within 1 unit of float (1.2e-7 of the sum), then one rounding to a float below 16. */
    assert_true(fabsl((long double)picked - ((long double)scratch.logits[123] - logl(sum))) <
                1.2e-6L);
    uint32_t order[500];
    for (uint32_t i = 0; i < 500; i++)
        order[i] = i;
    sorted_by = scratch.logits;
    qsort(order, 500, sizeof *order, by_logit);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(top[i].id, order[i]);
        long double wanted = (long double)scratch.logits[order[i]] - logl(sum);
        assert_true(fabsl((long double)top[i].logprob - wanted) < 1.2e-6L);
    }
    sample_logprobs(&scratch, order[0], &picked, NULL, 0);
    assert_true(picked == top[0].logprob);
    sample_scratch_release(&scratch);
}

static void logprobs_rank_ties_by_id_and_leave_nan_out(void **state) {
    (void)state;
    struct sample_scratch scratch = new_scratch(6);
    struct logprob top[8];
    float picked;
    memcpy(scratch.logits, (float[]){1, NAN, 2, 1, 2, 1}, 6 * sizeof(float));
    sample_logprobs(&scratch, 4, &picked, top, 3);
    assert_int_equal(top[0].id, 2);
    assert_int_equal(top[1].id, 4);
    assert_int_equal(top[2].id, 0);
    assert_true(picked == top[1].logprob);
    sample_logprobs(&scratch, 1, &picked, top, 8); /* more than there are */
    assert_true(picked == -INFINITY);
    assert_int_equal(top[4].id, 5);
    for (size_t i = 5; i < 8; i++)
        assert_true(top[i].id == 0 && top[i].logprob == -INFINITY);
    sample_scratch_release(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generator_gives_the_published_answers),
        cmocka_unit_test(greedy_takes_the_lowest_of_equals_and_never_nan),
        cmocka_unit_test(temperature_zero_is_greedy),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(filters_leave_what_transformers_leaves),
        cmocka_unit_test(ties_at_the_border_go_to_the_lowest_ids),
        cmocka_unit_test(lazy_ranking_picks_as_a_full_sort_does),
        cmocka_unit_test(draw_depends_on_nothing_but_its_own_row),
        cmocka_unit_test(hostile_logits_still_give_an_id),
        cmocka_unit_test(logprobs_are_log_softmax),
        cmocka_unit_test(logprobs_rank_ties_by_id_and_leave_nan_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
