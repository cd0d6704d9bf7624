/* The estimate against simulated jobs, whose end is known: rows of drawn lengths go through places
 * one token a pass, and a pass takes what it is said to take. */
#include "job/estimate.h"

#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#define PASSES_MOST 20000u
#define SEEDS 2u
#define LOOK_EVERY 25u /* passes */

enum shape { TO_THE_LIMIT, EVENLY, SHORT_AND_LONG, PEAKED, FADING };

struct sim {
    enum shape shape;
    size_t rows, places, limit, prompt, pass_tokens;
    double alone, token; /* seconds of a pass */
};

static uint64_t seed;

static double draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / (double)((uint64_t)1 << 53);
}

/* The answer's length; the limit or more: it runs to it. */
static size_t draw_length(const struct sim *sim) {
    double limit = (double)sim->limit;
    switch (sim->shape) {
    case TO_THE_LIMIT:
        return sim->limit;
    case EVENLY:
        return (size_t)(draw() * limit);
    case SHORT_AND_LONG: /* three of four are short */
        return (size_t)((draw() < 0.75 ? 0.1 : 0.9) * limit * (0.8 + 0.4 * draw()));
    case PEAKED:
        return (size_t)(limit * 0.125 * (draw() + draw() + draw() + draw()));
    default:
        return (size_t)(-log(1 - draw()) * limit / 3);
    }
}

struct place {
    size_t prompt_left, length, generated;
    bool is_taken, is_first;
};

struct run {
    struct estimate estimate;
    struct place *places;
    size_t waiting, live, first_left; /* of the rows that came first */
    bool is_later;
};

static void enter_rows(const struct sim *sim, struct run *run) {
    for (size_t i = 0; i < sim->places && run->waiting > 0; i++) {
        if (run->places[i].is_taken)
            continue;
        run->places[i] = (struct place){sim->prompt, draw_length(sim), 0, true, !run->is_later};
        estimate_unwait(&run->estimate, sim->prompt, sim->limit);
        estimate_enter(&run->estimate, i, 0, sim->limit);
        run->waiting--;
        run->live++;
    }
}

/* One pass: decode first, then prompts into what is left. Returns its tokens. */
static size_t one_pass(const struct sim *sim, struct run *run) {
    size_t tokens = 0;
    for (int decodes = 1; decodes >= 0; decodes--) {
        for (size_t i = 0; i < sim->places; i++) {
            struct place *place = &run->places[i];
            bool is_decode = place->generated > 0;
            if (!place->is_taken || is_decode != (decodes == 1) || tokens == sim->pass_tokens)
                continue;
            size_t room = sim->pass_tokens - tokens;
            size_t some = is_decode ? 1 : place->prompt_left < room ? place->prompt_left : room;
            tokens += some;
            place->prompt_left -= is_decode ? 0 : some;
            if (place->prompt_left > 0)
                continue;
            bool is_stop = place->generated == place->length;
            if (!is_stop) {
                estimate_token(&run->estimate, i);
                place->generated++;
            }
            if (is_stop || place->generated == sim->limit) {
                estimate_leave(&run->estimate, i, is_stop);
                place->is_taken = false;
                run->live--;
                run->first_left -= place->is_first;
            }
        }
    }
    return tokens;
}

/* Errors of the seconds left, as shares of them, while the job is steady. */
struct errors {
    double mean, worst;
};

static struct errors errors_of(const struct sim *sim) {
    static double left[PASSES_MOST], took[PASSES_MOST];
    static bool is_steady[PASSES_MOST], is_looked_at[PASSES_MOST];
    struct run run = {.waiting = sim->rows, .first_left = sim->places};
    size_t passes = 0, steady_since = 0;
    run.places = mem_new(sim->places, sizeof *run.places);
    assert_non_null(run.places);
    assert_int_equal(estimate_init(&run.estimate, sim->places, NULL), SL_OK);
    for (size_t i = 0; i < sim->rows; i++)
        estimate_wait(&run.estimate, sim->prompt, sim->limit);
    for (; run.waiting + run.live > 0; passes++) {
        struct estimate_left found;
        assert_true(passes < PASSES_MOST);
        enter_rows(sim, &run);
        run.is_later = true;
        run.is_later = true;
        size_t tokens = one_pass(sim, &run);
        took[passes] = sim->alone + sim->token * (double)tokens * (0.95 + 0.1 * draw());
        estimate_pass(&run.estimate, tokens, took[passes]);
        is_looked_at[passes] = passes % LOOK_EVERY == 0;
        if (is_looked_at[passes])
            assert_true(estimate_left(&run.estimate, sim->pass_tokens, &found));
        left[passes] = is_looked_at[passes] ? found.seconds : 0;
        /* Steady: those that came first have all ended, and more wait than are in. */
        steady_since += run.first_left == 0 ? 1 : 0;
        is_steady[passes] = steady_since > 5 && run.waiting > sim->places;
    }
    struct errors errors = {0};
    double rest = 0, count = 0;
    for (size_t i = passes; i-- > 0; rest += took[i]) {
        if (!is_steady[i] || !is_looked_at[i])
            continue;
        double off = fabs(left[i] / rest - 1);
        errors.worst = fmax(errors.worst, off);
        errors.mean += off;
        count++;
    }
    errors.mean /= fmax(count, 1);
    assert_true(count > 0);
    estimate_release(&run.estimate);
    mem_free(run.places);
    return errors;
}

static void seconds_left_are_within_a_tenth_once_the_job_is_steady(void **state) {
    (void)state;
    static const struct sim sims[] = {
        /* rows, places, limit, prompt, tokens of a pass; seconds of a pass and of a token */
        {TO_THE_LIMIT, 1000, 167, 128, 90, 512, 30, 0.001},
        {TO_THE_LIMIT, 250, 40, 64, 20, 512, 0.01, 0.0001},
        {EVENLY, 1000, 50, 256, 90, 512, 2, 0.0001},
        {EVENLY, 2000, 167, 128, 90, 1024, 30, 0.01},
        {SHORT_AND_LONG, 2000, 50, 200, 300, 512, 0.1, 0.002},
        {PEAKED, 900, 32, 400, 60, 256, 0.001, 0.001},
        {FADING, 800, 64, 512, 150, 512, 1, 0.002},
    };
    for (size_t i = 0; i < sizeof sims / sizeof sims[0]; i++) {
        for (uint64_t of = 1; of <= SEEDS; of++) {
            seed = of * 0x9E3779B97F4A7C15u;
            struct errors off = errors_of(&sims[i]);
            print_message("job %zu, seed %llu: %.1f %%, at worst %.1f %%\n", i,
                          (unsigned long long)of, 100 * off.mean, 100 * off.worst);
            /* Lengths are drawn: what some dozens of rows tell is off by chance too. */
            assert_true(off.mean <= 0.10 &&
                        off.worst <= (sims[i].shape == TO_THE_LIMIT ? 0.05 : 0.15));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_left_are_within_a_tenth_once_the_job_is_steady),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
