/* The time left against jobs whose end is known: the engine's own scheduler plays them without a
 * model (engine/sched_for_test.h), rows have the lengths that they are given, and a pass takes what
 * it is said to take. */
#include "job/estimate.h"

#include "base/mem.h"
#include "engine/sched_for_test.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define PASSES_MOST 5000u
#define SEEDS 2u

enum shape { TO_THE_LIMIT, EVENLY, SHORT_AND_LONG, PEAKED, FADING };

struct job {
    const char *what;
    enum shape shape;
    size_t rows, prompt, prompt_spread, limit, pages, batch, pass_tokens;
    double read, token, fixed; /* seconds of a pass: reads; each token; whatever its tokens */
    double off;                /* the rates that the plan had, as shares of the true ones */
    bool is_known;             /* how long answers are, from earlier jobs */
};

static uint64_t seed;

static double draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / (double)((uint64_t)1 << 53);
}

/* The answer's length; the limit or more: it runs to it. */
static size_t draw_length(const struct job *job) {
    double limit = (double)job->limit;
    switch (job->shape) {
    case TO_THE_LIMIT:
        return job->limit;
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

static bool get_waiting(const void *ctx, size_t index, struct row_length *out) {
    const struct play *play = ctx;
    const struct play_row *row = &play->rows[play->queue.rows[play->queue.next + index]];
    *out = (struct row_length){(uint32_t)row->prompt, (uint32_t)row->max_tokens, row->is_certain};
    return true;
}

static void fill_rows(const struct job *job, struct play_row *rows, double *prior) {
    struct answers answers = {0};
    for (size_t i = 0; i < job->rows; i++) {
        double prompt = (double)job->prompt + (2 * draw() - 1) * (double)job->prompt_spread;
        rows[i] = (struct play_row){
            .prompt = (size_t)prompt, .max_tokens = job->limit, .length = draw_length(job)};
    }
    for (size_t i = 0; i < 500; i++) { /* another job's */
        size_t length = draw_length(job);
        answers_add(&answers, length < job->limit ? length : job->limit, job->limit);
    }
    for (size_t i = 0; i <= SL_ANSWER_BINS; i++)
        prior[i] = (double)answers.rows[i];
}

/* Seconds of each pass, and of those that were foretold to be left after it. */
struct course {
    double took[PASSES_MOST], left[PASSES_MOST];
    size_t passes;
};

static void one_pass(const struct job *job, struct play *play, struct estimate *estimate,
                     struct course *course) {
    struct row_lengths waiting;
    play_pass(play);
    double tokens = (double)play->sched.pick_tokens, logits = 0;
    for (size_t i = 0; i < play->sched.pick_count; i++)
        logits += (double)play->sched.picks[i].logits;
    double compute = job->fixed + job->token * tokens * (0.95 + 0.1 * draw());
    double seconds = fmax(compute, job->read);
    course->took[course->passes] = seconds;
    estimate_pass(estimate, &(struct estimate_pass){tokens, logits, seconds,
                                                    fmax(seconds - compute, 0), job->read});
    waiting = (struct row_lengths){play, play->queue.count - play->queue.next, get_waiting};
    const struct estimate_job left = {&play->sched, &waiting};
    assert_int_equal(estimate_left(estimate, &left, &course->left[course->passes], NULL), SL_OK);
    course->passes++;
}

static void play_job(const struct job *job, struct course *course) {
    double prior[SL_ANSWER_BINS + 1];
    struct play_row *rows = mem_new(job->rows, sizeof *rows);
    assert_non_null(rows);
    fill_rows(job, rows, prior);
    struct play play = {
        .rows = rows,
        .row_count = job->rows,
        .limits = {.batch_max = job->batch,
                   .pass_tokens = job->pass_tokens,
                   .page_count = job->pages,
                   .prior = job->is_known ? prior : NULL},
        .config = {.layers = 1, .kv_heads = 1, .head_dim = 1},
        .read_seconds = job->read,
        .token_seconds = job->token,
    };
    struct estimate estimate;
    const struct pass_cost plan = {.flops_per_second = job->off,
                                   .token_flops = job->token,
                                   .read_bytes = job->read,
                                   .read_bytes_per_second = job->off};
    *course = (struct course){0};
    estimate_init(&estimate, &plan);
    play_begin(&play);
    while (play.ended < play.row_count) {
        assert_true(course->passes < PASSES_MOST);
        one_pass(job, &play, &estimate, course);
    }
    play_end(&play);
    sched_release(&play.sched);
    mem_free(rows);
}

/* Of what was foretold from the fifth pass on, until a fifth of the job was left, as shares of what
 * came. */
struct errors {
    double worst, mean;
};

static struct errors errors_of(const struct course *course) {
    struct errors errors = {0};
    double rest = 0, all = 0, count = 0;
    for (size_t i = 0; i < course->passes; i++)
        all += course->took[i];
    for (size_t i = course->passes; i-- > 5;) {
        rest += course->took[i];
        if (rest < all / 5)
            continue;
        double off = fabs(course->left[i - 1] / rest - 1);
        errors.worst = fmax(errors.worst, off);
        errors.mean += off;
        count++;
    }
    errors.mean /= fmax(count, 1);
    return errors;
}

static const struct job jobs[] = {
    /* what, shape, rows, prompt, spread, limit, pages, batch, tokens, read, token, fixed, off */
    {"resident, one generation", TO_THE_LIMIT, 80, 90, 60, 32, 1000, 80, 512, 0, 0.0025, 0, 0.5, 0},
    {"resident, eight", TO_THE_LIMIT, 320, 90, 60, 32, 400, 40, 512, 0, 0.0025, 0.01, 2, 0},
    {"stream, the drive decides", TO_THE_LIMIT, 400, 60, 40, 64, 1200, 140, 512, 30, 0.06, 0, 1.3,
     0},
    {"stream, little memory", TO_THE_LIMIT, 200, 90, 60, 32, 220, 38, 512, 0.1, 0.003, 0, 0.4, 0},
    {"evenly spread answers", EVENLY, 800, 90, 40, 256, 900, 120, 512, 2, 0.002, 0.1, 1, 1},
    {"short and long", SHORT_AND_LONG, 800, 300, 100, 200, 1500, 120, 512, 0.1, 0.002, 0, 1, 1},
    {"peaked", PEAKED, 500, 60, 30, 400, 600, 64, 256, 0.001, 0.001, 0, 0.5, 1},
    {"fading", FADING, 500, 150, 50, 512, 900, 64, 512, 1, 0.002, 0, 1, 1},
};

static void time_left_is_about_what_comes_from_the_fifth_pass_on(void **state) {
    (void)state;
    static struct course course;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        for (uint64_t of = 1; of <= SEEDS; of++) {
            seed = (of + 10 * i) * 0x9E3779B97F4A7C15u;
            play_job(&jobs[i], &course);
            struct errors off = errors_of(&course);
            print_message("%s: %zu passes, off by %.1f %%, at worst %.1f %%\n", jobs[i].what,
                          course.passes, 100 * off.mean, 100 * off.worst);
            /* Lengths are drawn: what some dozens of rows tell is off by chance too, and most where
             * little is left. */
            bool is_drawn = jobs[i].shape != TO_THE_LIMIT;
            assert_true(off.mean < (is_drawn ? 0.10 : 0.02));
            assert_true(off.worst < (is_drawn ? 0.25 : 0.10));
        }
    }
}

static void learn(struct estimate *estimate, double tokens, double seconds) {
    estimate_pass(estimate, &(struct estimate_pass){.tokens = tokens, .seconds = seconds});
}

/* The plan has 1 s and 0.01 s a token: 6 s for 500. They take 12: a pass of 50 takes 3 s and not
 * 1.2, as a line through the origin would have it, nor 12. */
static void passes_that_are_alike_scale_the_plan(void **state) {
    (void)state;
    const struct pass_cost plan = {
        .flops_per_second = 100, .token_flops = 1, .logits_flops = 1, .fixed_seconds = 1};
    struct estimate estimate;
    struct pass_cost cost;
    estimate_init(&estimate, &plan);
    estimate_cost(&estimate, &cost);
    assert_true(fabs(cost_seconds(&cost, 50, 0) - 1.5) < 1e-9);
    for (int i = 0; i < 5; i++)
        learn(&estimate, 500, 12);
    estimate_cost(&estimate, &cost);
    assert_true(fabs(cost_seconds(&cost, 500, 0) - 12) < 1e-9);
    assert_true(fabs(cost_seconds(&cost, 50, 0) - 3) < 1e-9);
    assert_true(fabs(cost_seconds(&cost, 25, 25) - 3) < 1e-9);
}

/* Where the plan knows of nothing that a pass takes whatever its tokens, and each takes half a
 * second besides 0.01 s a token. */
static void passes_that_differ_tell_the_line(void **state) {
    (void)state;
    const struct pass_cost plan = {.flops_per_second = 1000, .token_flops = 1};
    struct estimate estimate;
    struct pass_cost cost;
    estimate_init(&estimate, &plan);
    for (int i = 0; i < 40; i++) {
        double tokens = i % 4 == 0 ? 300 : 20;
        learn(&estimate, tokens, 0.5 + 0.01 * tokens);
    }
    estimate_cost(&estimate, &cost);
    assert_true(fabs(cost_seconds(&cost, 100, 0) / 1.5 - 1) < 0.03);
    assert_true(fabs(cost_seconds(&cost, 20, 0) / 0.7 - 1) < 0.03);
}

/* A plan that knows nothing of the drive but that it is fast. */
static const struct pass_cost fast_drive = {
    .flops_per_second = 100, .token_flops = 1, .read_bytes = 1000, .read_bytes_per_second = 1e6};

/* 1000 bytes a pass, which the drive reads in 5 s while the processor waits for 4; or in 2 of the 5
 * in which the processor computes. */
static void reads_tell_the_drive(void **state) {
    (void)state;
    struct estimate estimate;
    struct pass_cost cost;
    estimate_init(&estimate, &fast_drive);
    estimate_pass(&estimate, &(struct estimate_pass){100, 0, 5, 4, 5});
    estimate_cost(&estimate, &cost);
    assert_true(fabs(cost_seconds(&cost, 100, 0) - 5) < 1e-9);
    assert_true(fabs(cost_compute_seconds(&cost, 100, 0) - 1) < 1e-9);
    estimate_init(&estimate, &fast_drive);
    estimate_pass(&estimate, &(struct estimate_pass){500, 0, 5, 0, 2});
    estimate_cost(&estimate, &cost);
    assert_true(fabs(cost_seconds(&cost, 500, 0) - 5) < 1e-9);
    assert_true(fabs(cost_seconds(&cost, 100, 0) - 2) < 1e-9);
    /* A slow pass, and then many whose reads are short beside their work. */
    estimate_init(&estimate, &fast_drive);
    estimate_pass(&estimate, &(struct estimate_pass){100, 0, 5, 4, 5});
    for (int i = 0; i < 30; i++)
        estimate_pass(&estimate, &(struct estimate_pass){500, 0, 5, 0, 2});
    estimate_cost(&estimate, &cost);
    assert_true(fabs(cost_read_seconds(&cost, 100) - 2) < 0.02);
    /* Reads that wait for the processor at last do not make the drive a slow one. */
    estimate_init(&estimate, &fast_drive);
    for (int i = 0; i < 20; i++)
        estimate_pass(&estimate, &(struct estimate_pass){100, 0, 2, 1, 2});
    for (int i = 0; i < 20; i++)
        estimate_pass(&estimate, &(struct estimate_pass){500, 0, 5, 0, 4});
    estimate_cost(&estimate, &cost);
    assert_true(fabs(cost_read_seconds(&cost, 100) - 2) < 0.2);
}

/* Reads of 3 s and 4 s of work (of 400 tokens) that take 5 s together, and longer reads. */
static void what_both_wait_for_each_other_is_added(void **state) {
    (void)state;
    struct estimate estimate;
    struct pass_cost cost;
    estimate_init(&estimate, &fast_drive);
    for (int i = 0; i < 3; i++)
        estimate_pass(&estimate, &(struct estimate_pass){400, 0, 5, 1, 3});
    estimate_cost(&estimate, &cost);
    assert_true(fabs(cost_seconds(&cost, 400, 0) - 5) < 1e-9);
    assert_true(fabs(cost_seconds(&cost, 800, 0) - 9) < 1e-9);
    assert_true(fabs(cost_seconds(&cost, 10, 0) - 4) < 1e-9);
    estimate_init(&estimate, &fast_drive);
    for (int i = 0; i < 3; i++)
        estimate_pass(&estimate, &(struct estimate_pass){400, 0, 11, 7, 10});
    estimate_cost(&estimate, &cost);
    assert_true(fabs(cost_seconds(&cost, 400, 0) - 11) < 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_left_is_about_what_comes_from_the_fifth_pass_on),
        cmocka_unit_test(passes_that_are_alike_scale_the_plan),
        cmocka_unit_test(passes_that_differ_tell_the_line),
        cmocka_unit_test(reads_tell_the_drive),
        cmocka_unit_test(what_both_wait_for_each_other_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
