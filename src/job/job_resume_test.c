/* Jobs that are stopped or fail anywhere, and the same command again: the bytes of an undisturbed
 * run, and no line that it has not in between. */
#include "job/job.h"

#include "base/fault.h"
#include "base/memcheck_for_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job/job_for_test.h"

static const char *const faulty[] = {
    [SL_FAULT_ALLOC] = "allocation",      [SL_FAULT_OPEN] = "open",     [SL_FAULT_READ] = "read",
    [SL_FAULT_SHORT_READ] = "short read", [SL_FAULT_WRITE] = "write",   [SL_FAULT_SYNC] = "sync",
    [SL_FAULT_THREAD] = "thread",         [SL_FAULT_SQL] = "statement",
};

/* Rows of every kind: errors, stop texts over the border of tokens, logprobs, sampled, Batch. */
static void write_mixed(void) {
    write_endings();
    struct buf rows;
    buf_init(&rows);
    assert_int_equal(file_read_all(rows_path, (size_t)1 << 20, &rows, NULL), SL_OK);
    buf_printf(&rows, "{\"id\": \"bad\"}\n"
                      "{\"id\": \"hot\", \"prompt_ids\": [0], \"temperature\": 2, "
                      "\"ignore_eos\": true, \"max_tokens\": 12, \"return_token_ids\": true}\n"
                      "{\"id\": \"lp\", \"prompt_ids\": [0, 1], \"max_tokens\": 9, "
                      "\"logprobs\": true, \"top_logprobs\": 3, \"temperature\": 1}\n"
                      "{\"custom_id\": \"b\", \"body\": {\"prompt\": \"d\", \"logprobs\": 2}}\n"
                      "{\"id\": \"stop\", \"prompt_ids\": [0], \"stop\": \"babababa\"}\n");
    assert_false(rows.has_failed);
    tiny_write_text(&tiny, "rows.jsonl", rows.data);
    buf_release(&rows);
}

static void read_output(struct buf *text) {
    buf_clear(text);
    assert_int_equal(file_read_all(out_path, (size_t)1 << 20, text, NULL), SL_OK);
}

/* Everything but the last LF's tail is whole lines that `all` has. */
static size_t assert_whole_lines_of(struct str all) {
    struct buf text;
    size_t lines = 0;
    buf_init(&text);
    if (file_exists(out_path))
        read_output(&text);
    for (size_t at = 0, end; at < text.len; at = end + 1, lines++) {
        end = str_find(buf_str(&text), STR("\n"), at);
        assert_true(end != SIZE_MAX);
        if (str_find(all, str_cut(buf_str(&text), at, end + 1), 0) == SIZE_MAX)
            fail_msg("a line that an undisturbed run has not: %.*s", (int)(end - at),
                     text.data + at);
    }
    buf_release(&text);
    return lines;
}

static void make_reference(struct settings *settings, struct buf *all) {
    buf_init(all);
    write_mixed();
    remove_output();
    settings->overwrites = false;
    settings->batch = 3;
    settings->pass_tokens = 4;
    settings->epoch = 1234567;
    must_run(settings);
    read_output(all);
    remove_output();
}

/* Each run is stopped after some passes, and the next one goes on; the answers have the same bytes,
 * and no run begins from the beginning again. */
static void a_job_that_is_stopped_again_and_again_comes_to_the_same_bytes(void **state) {
    (void)state;
    struct settings settings = defaults();
    struct buf all, text;
    make_reference(&settings, &all);
    buf_init(&text);
    for (size_t after = 40; after < 90; after += 5) {
        struct job_outcome outcome;
        groups_passes = after % 2 == 0; /* the commit at the end is then what keeps them */
        struct error err = {0};
        enum status status = SL_ERR_STOPPED;
        size_t runs = 0, lines = 0;
        for (; status == SL_ERR_STOPPED && runs < 200; runs++) {
            stops_after = after;
            settings.epoch = 1234567 + (int64_t)runs; /* the first run's counts */
            settings.batch = 1 + (int64_t)runs % 4;
            status = run_job(&settings, &outcome, &err);
            stops_after = 0;
            size_t now = assert_whole_lines_of(buf_str(&all));
            assert_true(now >= lines);
            lines = now;
        }
        if (status != SL_OK)
            fail_msg("after %zu: %s", after, err.text);
        assert_true(runs > 1);
        read_output(&text);
        assert_string_equal(text.data, all.data);
        remove_output();
    }
    groups_passes = false;
    buf_release(&text);
    buf_release(&all);
}

/* Short answers, which are learned from, and then long ones of rows of all kinds. */
static void write_growing(void) {
    struct buf rows;
    buf_init(&rows);
    for (unsigned i = 0; i < 24; i++)
        buf_printf(&rows, "{\"id\": %u, \"prompt_ids\": [3], \"max_tokens\": 70}\n", i);
    for (unsigned i = 24; i < 36; i++)
        buf_printf(&rows,
                   "{\"id\": %u, \"prompt_ids\": [0, 1, 0], \"max_tokens\": 70, "
                   "\"return_token_ids\": true%s}\n",
                   i,
                   i % 3 == 0   ? ", \"logprobs\": true, \"top_logprobs\": 2"
                   : i % 3 == 1 ? ", \"temperature\": 0.3, \"stop\": \"cc\""
                                : "");
    assert_false(rows.has_failed);
    tiny_write_text(&tiny, "rows.jsonl", rows.data);
    buf_release(&rows);
}

/* Tokens of prompts that were computed, by the metrics. */
static size_t prefill_tokens(const char *path) {
    struct buf text;
    size_t sum = 0;
    buf_init(&text);
    assert_int_equal(file_read_all(path, (size_t)1 << 20, &text, NULL), SL_OK);
    struct str name = STR("\"prefill_tokens\":");
    for (size_t at = 0; (at = str_find(buf_str(&text), name, at)) != SIZE_MAX; at += name.len)
        sum += strtoul(text.data + at + name.len, NULL, 10);
    buf_release(&text);
    return sum;
}

/* With ten pages for rows of five, the job gives pages up; stopped and gone on with, it comes to
 * the bytes of a job that had plenty. */
static void a_job_short_of_pages_comes_to_the_same_bytes_stopped_or_not(void **state) {
    (void)state;
    struct settings settings = defaults();
    struct buf all, text;
    char metrics[200];
    tiny_path(&tiny, "metrics.jsonl", metrics, sizeof metrics);
    buf_init(&all);
    buf_init(&text);
    write_growing();
    remove_output();
    settings.metrics = metrics;
    must_run(&settings);
    read_output(&all);
    size_t needed = prefill_tokens(metrics);
    static const size_t afters[] = {0, 60, 75, 100, 150}; /* the rows alone are 36 questions */
    for (size_t i = 0; i < sizeof afters / sizeof afters[0]; i++) {
        size_t after = afters[i];
        struct job_outcome outcome;
        struct error err = {0};
        enum status status = SL_ERR_STOPPED;
        remove_output();
        settings.overwrites = false;
        pages_given = 10;
        for (size_t runs = 0; status == SL_ERR_STOPPED && runs < 200; runs++) {
            stops_after = after;
            status = run_job(&settings, &outcome, &err);
        }
        stops_after = pages_given = 0;
        if (status != SL_OK)
            fail_msg("after %zu: %s", after, err.text);
        read_output(&text);
        assert_string_equal(text.data, all.data);
        if (after == 0) /* not stopped: what was computed again was given up */
            assert_true(prefill_tokens(metrics) > needed);
    }
    unlink(metrics);
    remove_output();
    buf_release(&text);
    buf_release(&all);
}

/* The passes of this model take microseconds: a job of some dozens is far from 10 ms. */
static void short_passes_share_a_transaction(void **state) {
    (void)state;
    skip_under_memcheck("passes are not short");
    struct settings settings = defaults();
    struct buf all, text;
    uint64_t statements[2] = {0};
    make_reference(&settings, &all);
    buf_init(&text);
    for (int i = 0; i < 2; i++) {
        groups_passes = i == 1;
        fault_arm(SL_FAULT_SQL, 0, false);
        must_run(&settings);
        statements[i] = fault_count(SL_FAULT_SQL);
        read_output(&text);
        assert_string_equal(text.data, all.data);
        remove_output();
    }
    groups_passes = false;
    /* BEGIN, the tokens and COMMIT of each pass; what is left are lines, the start and the end. */
    assert_true(statements[1] + 60 < statements[0]);
    buf_release(&text);
    buf_release(&all);
}

/* How a job of the sweep runs. */
struct manner {
    const char *engine;
    int64_t threads;
    bool groups_passes;
    bool goes_on; /* the run that fails is the second: the first was stopped in its middle */
};

/* A run that is stopped where some rows are done and some have begun. */
static void stop_in_the_middle(const struct settings *settings) {
    struct job_outcome outcome;
    stops_after = 60;
    assert_int_equal(run_job(settings, &outcome, NULL), SL_ERR_STOPPED);
    stops_after = 0;
    assert_true(outcome.rows_done > 0);
}

/* At each of the first, second, .. calls of a fault point a run fails, until a run meets none:
 * always a clean error and whole lines, and the same command then comes to the same bytes. */
static void sweep(enum fault_point point, bool is_lasting, const struct manner *manner) {
    struct settings settings = defaults();
    bool is_thorough = getenv("SLUICE_SWEEP_ALL") != NULL; /* else thinning out */
    settings.engine = manner->engine;
    settings.threads = manner->threads;
    groups_passes = manner->groups_passes;
    struct buf all, text;
    uint64_t nth = 1, met = 0;
    make_reference(&settings, &all);
    buf_init(&text);
    for (;; nth += is_thorough ? 1 : 1 + nth / 5) {
        struct job_outcome outcome;
        struct error err = {0};
        if (manner->goes_on)
            stop_in_the_middle(&settings);
        fault_arm(point, nth, is_lasting);
        enum status status = run_job(&settings, &outcome, &err);
        bool has_met_one = fault_count(point) >= nth;
        fault_arm(point, 0, false);
        met += has_met_one;
        if (status != SL_OK && (status != SL_ERR_ENV || err.text[0] == '\0'))
            fail_msg("%s %llu: status %d, %s", faulty[point], (unsigned long long)nth, (int)status,
                     err.text);
        size_t lines = assert_whole_lines_of(buf_str(&all));
        assert_true(status == SL_OK || lines >= outcome.rows_done + outcome.rows_failed);
        if (run_job(&settings, &outcome, &err) != SL_OK)
            fail_msg("%s %llu, then again: %s", faulty[point], (unsigned long long)nth, err.text);
        read_output(&text);
        assert_string_equal(text.data, all.data);
        remove_output();
        if (!has_met_one)
            break;
    }
    assert_true(met > 0);
    print_message("%s%s, %s, %d thread%s%s%s: %llu places\n", faulty[point],
                  is_lasting ? ", lasting" : "", manner->engine, (int)manner->threads,
                  manner->threads > 1 ? "s" : "", manner->groups_passes ? ", grouped" : "",
                  manner->goes_on ? ", going on" : "", (unsigned long long)met);
    groups_passes = false;
    buf_release(&text);
    buf_release(&all);
}

static const struct manner plain = {"auto", 1, false, false}, grouped = {"auto", 1, true, false},
                           streamed = {"stream", 2, false, false}, second = {"auto", 1, true, true};

static void failed_writes_and_syncs_lose_nothing(void **state) {
    (void)state;
    sweep(SL_FAULT_WRITE, false, &plain);
    sweep(SL_FAULT_WRITE, true, &plain);
    sweep(SL_FAULT_WRITE, true, &grouped);
    sweep(SL_FAULT_WRITE, true, &second);
    sweep(SL_FAULT_SYNC, false, &plain);
}

static void failed_statements_of_the_journal_lose_nothing(void **state) {
    (void)state;
    sweep(SL_FAULT_SQL, false, &plain);
    sweep(SL_FAULT_SQL, true, &plain);
    sweep(SL_FAULT_SQL, true, &grouped);
    sweep(SL_FAULT_SQL, true, &second);
}

static void failed_reads_and_opens_lose_nothing(void **state) {
    (void)state;
    sweep(SL_FAULT_OPEN, false, &plain);
    sweep(SL_FAULT_READ, true, &plain);
    sweep(SL_FAULT_READ, true, &streamed);
    sweep(SL_FAULT_SHORT_READ, false, &streamed);
}

static void failed_allocations_and_threads_lose_nothing(void **state) {
    (void)state;
    sweep(SL_FAULT_ALLOC, false, &plain);
    sweep(SL_FAULT_ALLOC, true, &streamed);
    sweep(SL_FAULT_THREAD, false, &streamed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_short_of_pages_comes_to_the_same_bytes_stopped_or_not),
        cmocka_unit_test(a_job_that_is_stopped_again_and_again_comes_to_the_same_bytes),
        cmocka_unit_test(short_passes_share_a_transaction),
        cmocka_unit_test(failed_writes_and_syncs_lose_nothing),
        cmocka_unit_test(failed_statements_of_the_journal_lose_nothing),
        cmocka_unit_test(failed_reads_and_opens_lose_nothing),
        cmocka_unit_test(failed_allocations_and_threads_lose_nothing),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
