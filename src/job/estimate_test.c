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
#include <stdio.h>
#include <stdlib.h>

#define PASSES_MOST 5000u

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
    size_t passes, first_end; /* passes before a row of the first generation ended */
    size_t steady_end;        /* passes after which no row waited any more */
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
    estimate_pass(estimate,
                  &(struct estimate_pass){tokens, logits, seconds, fmax(seconds - compute, 0)});
    waiting = (struct row_lengths){play, play->queue.count - play->queue.next, get_waiting};
    const struct estimate_job left = {&play->sched, &waiting};
    assert_int_equal(estimate_left(estimate, &left, &course->left[course->passes], NULL), SL_OK);
    course->passes++;
    if (play->ended == 0)
        course->first_end = course->passes;
    if (waiting.count > 0)
        course->steady_end = course->passes;
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

/* How far what was foretold after a pass is off, as a share of what came. */
static double error_after(const struct course *course, size_t pass) {
    double rest = 0;
    for (size_t i = pass; i < course->passes; i++)
        rest += course->took[i];
    return rest > 0 ? course->left[pass - 1] / rest - 1 : 0;
}

static void tell(const struct job *job, const struct course *course) {
    static const size_t marks[] = {1, 2, 3, 5, 10, 20, 50, 100, 200, 400, 800};
    printf("%s: %zu passes, first end %zu, none waits %zu:", job->what, course->passes,
           course->first_end, course->steady_end);
    for (size_t i = 0; i < sizeof marks / sizeof marks[0] && marks[i] < course->passes; i++)
        printf(" %zu: %+.1f%%", marks[i], 100 * error_after(course, marks[i]));
    printf("\n");
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

static void time_left_is_within_a_tenth_from_the_fifth_pass_on(void **state) {
    (void)state;
    static struct course course;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        seed = (i + 1) * 0x9E3779B97F4A7C15u;
        play_job(&jobs[i], &course);
        if (getenv("SLUICE_TELL") != NULL) {
            tell(&jobs[i], &course);
            continue;
        }
        for (size_t pass = 5; pass < course.steady_end; pass++)
            if (fabs(error_after(&course, pass)) > 0.10)
                fail_msg("%s: %+.1f %% after pass %zu of %zu", jobs[i].what,
                         100 * error_after(&course, pass), pass, course.passes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_left_is_within_a_tenth_from_the_fifth_pass_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
