/* The played schedule: sums by hand, and against the engine's own scheduler, which is played pass
 * by pass without a model (engine/sched_for_test.h). */
#include "plan/simulate.h"

#include "engine/sched_for_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

/* A pass reads for a second; a token takes a hundredth of one. */
static const struct pass_cost even_cost = {
    .flops_per_second = 1e9, .token_flops = 1e7, .read_bytes = 1e9, .read_bytes_per_second = 1e9};

static bool get_length(const void *ctx, size_t index, struct row_length *out) {
    const struct play_row *row = (const struct play_row *)ctx + index;
    *out = (struct row_length){(uint32_t)row->prompt, (uint32_t)row->max_tokens, row->is_certain};
    return row->prompt > 0;
}

static struct simulated simulated_of(const struct play_row *rows, size_t count, size_t running,
                                     struct simulate_options options) {
    struct row_lengths lengths = {rows, count, get_length};
    struct simulated out;
    struct error err;
    options.rows = &lengths;
    options.row_count = running;
    if (options.cost == NULL)
        options.cost = &even_cost;
    assert_int_equal(simulate(&options, &out, &err), SL_OK);
    return out;
}

static void fill_rows(struct play_row *rows, size_t count, size_t prompt, size_t answer) {
    for (size_t i = 0; i < count; i++)
        rows[i] = (struct play_row){.prompt = prompt, .max_tokens = answer, .length = answer};
}

/* The prompt of 40 tokens in passes of 16 takes three, the third gives the first token; four more
 * come one by one. Each pass is shorter than its read of a second. */
static void a_row_alone_takes_its_prompt_and_its_tokens(void **state) {
    (void)state;
    struct play_row row = {.prompt = 40, .max_tokens = 5, .length = 5};
    struct simulated out =
        simulated_of(&row, 1, 1, (struct simulate_options){.batch = 8, .pass_tokens = 16});
    assert_int_equal(out.passes, 7);
    assert_true(fabs(out.seconds - 7) < 1e-9);
    assert_true(fabs(out.first_row_seconds - 7) < 1e-9);
    assert_true(fabs(out.first_rows_seconds - 7) < 1e-9);
    assert_true(fabs(out.answer_tokens - 5) < 1e-9);
    assert_int_equal(out.pass_tokens_max, 16);
    /* 44 tokens are kept in the end: three pages. */
    assert_true(fabs(out.kv_pages_max - 3) < 1e-9);
    assert_true(fabs(out.kv_pages_out - 3) < 1e-9);
}

/* Three pages: beside a row of two there is room for none of two more, but for the short one that
 * waits behind it; so it goes twice, and not three times. */
static void a_row_that_fits_goes_by_one_that_does_not(void **state) {
    (void)state;
    static const uint32_t prompts[] = {20, 20, 5, 5};
    struct play_row rows[4];
    for (size_t i = 0; i < 4; i++)
        rows[i] = (struct play_row){.prompt = prompts[i], .max_tokens = 3, .length = 3};
    struct simulate_options options = {.batch = 4, .pass_tokens = 64, .page_count = 3};
    struct simulated out = simulated_of(rows, 4, 4, options);
    assert_int_equal(out.passes, 2 * 3);
    assert_int_equal(out.rows_in_max, 2);
    assert_int_equal(out.pass_tokens_max, 25);
}

/* Rows of 44 tokens one after the other: two full pages stay of each that has ended, beside three
 * of the last one. */
static void full_pages_stay_where_rows_end(void **state) {
    (void)state;
    struct play_row rows[3];
    for (size_t i = 0; i < 3; i++)
        rows[i] = (struct play_row){.prompt = 40, .max_tokens = 5, .length = 5};
    struct simulated out =
        simulated_of(rows, 3, 3, (struct simulate_options){.batch = 1, .pass_tokens = 16});
    assert_true(fabs(out.kv_pages_max - 3) < 1e-9);
    assert_true(fabs(out.kv_pages_out - (2 + 2 + 3)) < 1e-9);
}

/* 200 rows at once: a pass computes for 2 s, twice as long as it reads. The prompts of 2 tokens
 * come in with the first pass of 400 tokens, which takes 4 s. */
static void passes_take_the_longer_of_reading_and_computing(void **state) {
    (void)state;
    struct play_row rows[200];
    fill_rows(rows, 200, 2, 11);
    struct simulated out =
        simulated_of(rows, 200, 200, (struct simulate_options){.batch = 200, .pass_tokens = 512});
    assert_int_equal(out.passes, 11);
    assert_true(fabs(out.seconds - (4 + 10 * 2)) < 1e-6);
    assert_int_equal(out.rows_in_max, 200);
}

/* The order is that of whoever tells the lengths: the short row that comes first ends after two
 * passes, the one at the end after all others. */
static void rows_go_in_the_order_in_which_they_come(void **state) {
    (void)state;
    struct play_row rows[100];
    fill_rows(rows, 100, 10, 50);
    rows[0].max_tokens = rows[99].max_tokens = 2;
    struct simulated out =
        simulated_of(rows, 100, 100, (struct simulate_options){.batch = 4, .pass_tokens = 64});
    assert_true(fabs(out.first_row_seconds - 2) < 1e-9);
    assert_true(out.first_rows_seconds > 90);
}

/* Passes of at most 20 tokens until 8 rows have ended, instead of 160: those end sooner, and the
 * job has more passes. */
static void an_opening_brings_the_first_rows_sooner(void **state) {
    (void)state;
    struct play_row rows[64];
    fill_rows(rows, 64, 10, 20);
    struct pass_cost computing = even_cost;
    computing.read_bytes = 0;
    struct simulate_options options = {.batch = 64, .pass_tokens = 160, .cost = &computing};
    struct simulated usual = simulated_of(rows, 64, 64, options);
    options.opening_rows = 8;
    options.opening_tokens = 20;
    struct simulated opened = simulated_of(rows, 64, 64, options);
    assert_true(usual.first_rows_seconds > 0);
    assert_true(opened.first_rows_seconds < usual.first_rows_seconds);
    assert_true(opened.passes > usual.passes);
    options.opening_rows = 0; /* it is over */
    opened = simulated_of(rows, 64, 64, options);
    assert_int_equal(opened.passes, usual.passes);
}

/* Twelve rows, of which the first computes 40 tokens that all begin with: nobody else is in those
 * passes, so none has more than 40 tokens, of 64. */
static void others_wait_for_the_state_behind_a_head(void **state) {
    (void)state;
    struct play_row rows[12];
    fill_rows(rows, 12, 2, 3);
    rows[0].prompt = 42;
    struct simulate_options options = {.batch = 12, .pass_tokens = 64};
    struct simulated usual = simulated_of(rows, 12, 12, options);
    options.head_tokens = 40;
    struct simulated out = simulated_of(rows, 12, 12, options);
    assert_int_equal(usual.pass_tokens_max, 64);
    assert_int_equal(out.pass_tokens_max, 40);
    assert_int_equal(out.passes, usual.passes + 1);
}

/* Two rows are in: one decodes and has 3 tokens to come, the other lacks 20 tokens of its prompt
 * and then has 2. In passes of 16 they take 1 + 15, 1 + 5, 1 + 1 tokens; a third enters with the
 * second one's end, and takes a pass for its prompt and two for its other tokens. */
static void a_job_goes_on_from_where_it_stands(void **state) {
    (void)state;
    struct play_row row = {.prompt = 4, .max_tokens = 3, .length = 3};
    static const struct simulate_row in[] = {
        {.prompt = 1, .kept = 30, .answer = 3, .pages = 2},
        {.prompt = 20, .kept = 12, .answer = 2, .pages = 3},
    };
    const struct simulate_start start = {.rows = in, .count = 2};
    struct simulate_options options = {.batch = 2, .pass_tokens = 16, .start = &start};
    struct simulated out = simulated_of(&row, 0, 0, options);
    assert_int_equal(out.passes, 3);
    assert_true(fabs(out.first_row_seconds - 3) < 1e-9);
    /* In the end 33 and 33 tokens are kept: two full pages each, and two of which one is used. */
    assert_true(fabs(out.kv_pages_max - 5.125) < 1e-9);
    assert_true(fabs(out.kv_pages_out - 5.125) < 1e-9);
    out = simulated_of(&row, 1, 1, options);
    assert_int_equal(out.passes, 6);
    assert_int_equal(out.pass_tokens_max, 16);
    assert_true(fabs(out.answer_tokens - 3) < 1e-9);
}

/* Half of the rows go on to their limit whatever answers are expected. */
static void certain_rows_reach_their_limits(void **state) {
    (void)state;
    struct play_row rows[64];
    struct answers answers = {.rows = {[0] = 10}}; /* all others end within 10 of 160 tokens */
    fill_rows(rows, 64, 1, 160);
    for (size_t i = 0; i < 64; i += 2)
        rows[i].is_certain = true;
    struct simulate_options options = {.batch = 64, .pass_tokens = 64, .expected = &answers};
    struct simulated out = simulated_of(rows, 64, 64, options);
    assert_in_range(out.passes, 160, 161);
    assert_true(out.answer_tokens > 32 * 161 && out.answer_tokens < 32 * 170);
}

static void rows_that_do_not_run_are_passed_over(void **state) {
    (void)state;
    struct play_row rows[6] = {{0}};
    fill_rows(rows + 2, 2, 3, 4);
    struct simulated out =
        simulated_of(rows, 6, 2, (struct simulate_options){.batch = 4, .pass_tokens = 64});
    assert_int_equal(out.passes, 4);
    assert_int_equal(out.rows_in_max, 2);
}

/* Half of the answers end at a quarter of their limit, half reach it: 0.625 on average, give or
 * take half a bin; 64 rows at once of 640 are ten waves. */
static void expected_answers_shorten_the_job(void **state) {
    (void)state;
    struct play_row *rows = mem_new(640, sizeof *rows);
    struct answers answers = {0};
    assert_non_null(rows);
    fill_rows(rows, 640, 1, 160);
    for (int i = 0; i < 50; i++) {
        answers_add(&answers, 25, 100);
        answers_add(&answers, 100, 100);
    }
    struct simulate_options options = {.batch = 64, .pass_tokens = 64};
    struct simulated at_limit = simulated_of(rows, 640, 640, options);
    options.expected = &answers;
    struct simulated likely = simulated_of(rows, 640, 640, options);
    assert_in_range(at_limit.passes, 1600, 1640);
    assert_true(fabs(likely.answer_tokens / at_limit.answer_tokens - 0.625) < 0.04);
    assert_in_range(likely.passes, 960, 1130);
    mem_free(rows);
}

/* Of a row alone it is the answer in the middle, not the shortest: three of five are long. */
static void one_row_has_the_answer_in_the_middle(void **state) {
    (void)state;
    struct play_row row = {.prompt = 1, .max_tokens = 100, .length = 100};
    struct answers answers = {0};
    for (int i = 0; i < 5; i++)
        answers_add(&answers, i < 2 ? 5 : 100, 100);
    struct simulated out = simulated_of(
        &row, 1, 1, (struct simulate_options){.batch = 1, .pass_tokens = 8, .expected = &answers});
    assert_int_equal(out.passes, 100);
}

static bool get_alike(const void *ctx, size_t index, struct row_length *out) {
    (void)ctx;
    *out = (struct row_length){.prompt = 50 + (uint32_t)(index % 7), .answer = 100};
    return true;
}

/* 2,000,000 answers of 100 tokens, 500 at once: 4,000 waves. */
static void two_million_rows_take_a_moment(void **state) {
    (void)state;
    struct row_lengths lengths = {NULL, 2000000, get_alike};
    struct simulate_options options = {.rows = &lengths,
                                       .row_count = 2000000,
                                       .batch = 500,
                                       .pass_tokens = 2048,
                                       .cost = &even_cost};
    struct simulated out;
    double begin = clock_seconds();
    assert_int_equal(simulate(&options, &out, NULL), SL_OK);
    double seconds = clock_seconds() - begin;
    assert_true(seconds < 3); /* 0.1 s on a machine of its own; sanitizers take ten times that */
    assert_in_range(out.passes, 398000, 412000);
    assert_true(fabs(out.answer_tokens / 2e8 - 1) < 0.001);
}

/* ---- against the scheduler itself */

struct comparison {
    size_t count, prompt, prompt_spread, limit, length, length_spread, pages, batch, pass_tokens;
    double read_seconds, token_seconds;
};

static const struct comparison comparisons[] = {
    /* the drive decides; 100 rows at once, whose prompts find room */
    {400, 60, 40, 64, 64, 0, 4000, 100, 512, 30, 0.06},
    /* pages decide */
    {400, 100, 60, 100, 100, 0, 600, 400, 512, 30, 0.06},
    /* the processor decides */
    {300, 120, 80, 40, 40, 0, 2000, 200, 512, 5, 0.06},
    /* weights in memory: nothing is read */
    {300, 30, 20, 100, 100, 0, 2000, 64, 256, 0, 0.01},
    /* all at once */
    {40, 30, 20, 100, 100, 0, 2000, 64, 512, 10, 0.05},
    /* long prompts */
    {60, 1500, 900, 50, 50, 0, 1200, 60, 512, 30, 0.06},
    /* answers end by themselves, and it is known how */
    {500, 100, 60, 256, 90, 60, 800, 400, 512, 30, 0.06},
};

static size_t draw(uint64_t *random, size_t middle, size_t spread) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return spread == 0 ? middle : middle - spread + (size_t)(*random >> 33) % (2 * spread + 1);
}

static void make_rows(const struct comparison *job, struct play_row *rows) {
    uint64_t random = 7;
    for (size_t i = 0; i < job->count; i++)
        rows[i] = (struct play_row){
            .prompt = draw(&random, job->prompt, job->prompt_spread) + 1,
            .max_tokens = job->limit,
            .length = draw(&random, job->length, job->length_spread),
            .is_certain = job->length == job->limit,
        };
}

/* Both play the rows in the same order. */
static void compare(const struct comparison *job) {
    struct play_row *rows = mem_new(job->count, sizeof *rows);
    struct answers answers = {0};
    double prior[SL_ANSWER_BINS + 1];
    assert_non_null(rows);
    make_rows(job, rows);
    for (size_t i = 0; i < job->count; i++)
        answers_add(&answers, rows[i].length, rows[i].max_tokens);
    for (size_t i = 0; i <= SL_ANSWER_BINS; i++)
        prior[i] = (double)answers.rows[i];
    struct play real = {
        .rows = rows,
        .row_count = job->count,
        .limits = {.batch_max = job->batch,
                   .pass_tokens = job->pass_tokens,
                   .page_count = job->pages,
                   .prior = job->length == job->limit ? NULL : prior},
        .config = {.layers = 1, .kv_heads = 1, .head_dim = 1},
        .read_seconds = job->read_seconds,
        .token_seconds = job->token_seconds,
    };
    play_all(&real);
    struct pass_cost cost = {.flops_per_second = 1,
                             .token_flops = job->token_seconds,
                             .read_bytes = job->read_seconds,
                             .read_bytes_per_second = 1};
    struct simulated out = simulated_of(rows, job->count, job->count,
                                        (struct simulate_options){
                                            .expected = &answers,
                                            .batch = job->batch,
                                            .pass_tokens = job->pass_tokens,
                                            .page_count = job->pages,
                                            .is_certain = job->length == job->limit,
                                            .cost = &cost,
                                        });
    if (getenv("SLUICE_TELL") != NULL)
        print_message("passes %zu played %llu (%+.1f %%), seconds %.0f %.0f (%+.1f %%), fill %.3f "
                      "%.3f\n",
                      real.passes, (unsigned long long)out.passes,
                      100 * ((double)out.passes / (double)real.passes - 1), real.seconds,
                      out.seconds, 100 * (out.seconds / real.seconds - 1), real.fill, out.kv_fill);
    if (getenv("SLUICE_TELL") == NULL) {
        assert_true(fabs(out.seconds / real.seconds - 1) < 0.03);
        assert_true(fabs((double)out.passes / (double)real.passes - 1) < 0.04);
    }
    sched_release(&real.sched);
    mem_free(rows);
}

static void hours_are_those_of_the_scheduler_itself(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++)
        compare(&comparisons[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_alone_takes_its_prompt_and_its_tokens),
        cmocka_unit_test(a_row_that_fits_goes_by_one_that_does_not),
        cmocka_unit_test(full_pages_stay_where_rows_end),
        cmocka_unit_test(passes_take_the_longer_of_reading_and_computing),
        cmocka_unit_test(rows_go_in_the_order_in_which_they_come),
        cmocka_unit_test(an_opening_brings_the_first_rows_sooner),
        cmocka_unit_test(others_wait_for_the_state_behind_a_head),
        cmocka_unit_test(a_job_goes_on_from_where_it_stands),
        cmocka_unit_test(certain_rows_reach_their_limits),
        cmocka_unit_test(rows_that_do_not_run_are_passed_over),
        cmocka_unit_test(expected_answers_shorten_the_job),
        cmocka_unit_test(one_row_has_the_answer_in_the_middle),
        cmocka_unit_test(two_million_rows_take_a_moment),
        cmocka_unit_test(hours_are_those_of_the_scheduler_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
