/* Whole jobs on a scripted model: layers that add nothing, embeddings that are unit vectors, and a
 * head that makes token 3 follow 2... by construction, so that every answer is known by hand:
 *
 *   d e f g <end>      a b a b a b ...        (token n is the letter 'a' + n; c, token 2, ends)
 */
#include "job/job.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "job/sqlite_for_test.h"
#include "model/tiny_model.h"

#define FOLDED "\"normalizer\": null, \"post_processor\": null, "

static const char tokenizer_json[] =
    "{\"added_tokens\": [], " FOLDED "\"pre_tokenizer\": {\"type\": \"ByteLevel\", "
    "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, \"decoder\": "
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": "
    "true}, \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
    "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": false, "
    "\"byte_fallback\": false, \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3, \"e\": 4, "
    "\"f\": 5, \"g\": 6, \"h\": 7, \"i\": 8, \"j\": 9, \"k\": 10, \"l\": 11}, \"merges\": []}}";

static const uint32_t followers[TINY_HIDDEN] = {1, 0, 0, 4, 5, 6, 2, 0};

static struct tiny tiny;
static char rows_path[160], out_path[160], journal_path[160];
static size_t stops_after; /* should_stop says yes after so many questions; 0: never */

static bool should_stop(void) {
    return stops_after > 0 && --stops_after == 0 ? (stops_after = 1) : false;
}

static int make_model(void **state) {
    (void)state;
    test_sqlite_begin();
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 0);
    float *embed = tiny_find(&tiny, "model.embed_tokens.weight")->values;
    float *head = tiny_add(&tiny, "lm_head.weight", TINY_VOCABULARY, TINY_HIDDEN, 0, 0);
    memset(embed, 0, TINY_VOCABULARY * TINY_HIDDEN * sizeof *embed);
    for (size_t token = 0; token < TINY_HIDDEN; token++) {
        embed[token * TINY_HIDDEN + token] = 1;
        head[followers[token] * TINY_HIDDEN + token] = 1;
    }
    tiny_write_safetensors(&tiny);
    tiny_write_config(&tiny, "llama", ",\"eos_token_id\":2");
    tiny_write_text(&tiny, "tokenizer.json", tokenizer_json);
    tiny_path(&tiny, "rows.jsonl", rows_path, sizeof rows_path);
    tiny_path(&tiny, "out.jsonl", out_path, sizeof out_path);
    tiny_path(&tiny, "out.jsonl.sluice", journal_path, sizeof journal_path);
    return 0;
}

static void remove_output(void) {
    unlink(out_path);
    journal_remove(journal_path);
}

static int remove_model(void **state) {
    (void)state;
    unlink(rows_path);
    remove_output();
    tiny_end(&tiny);
    return 0;
}

static struct settings defaults(void) {
    return (struct settings){
        .model = tiny.folder,
        .rows = rows_path,
        .output = out_path,
        .overwrites = true,
        .max_tokens = 20,
        .top_p = 1,
        .engine = "auto",
        .precision = "auto",
        .kernels = "auto",
        .kv = "bf16",
        .reader = "auto",
        .content_specials = "allow",
        .order = "input",
        .progress = "none",
        .memory_bytes = (uint64_t)1 << 30,
        .threads = 1,
        .logprobs = -1,
    };
}

static enum status begin_job(struct job *job, struct output *output, struct error *err) {
    TRY(output_recall(output, &job->settings, err));
    TRY(output_check(output, &job->fingerprint, err));
    if (!output_resumes(output) || output_is_complete(output))
        return SL_OK;
    job->output = output;
    return output_load(output, job->rows.count, err);
}

static enum status run_job(const struct settings *settings, struct job_outcome *outcome,
                           struct error *err) {
    struct sink_options options = {settings->output, settings->overwrites, true, {NULL}};
    struct output *output;
    struct job job;
    struct plan plan;
    *outcome = (struct job_outcome){0};
    TRY(output_open(&options, &output, err));
    enum status status = job_open(settings, should_stop, &job, err);
    if (status == SL_OK) {
        status = begin_job(&job, output, err);
        if (status == SL_OK && output_is_complete(output)) {
            job_close(&job);
            output_close(output);
            outcome->is_complete = true;
            return SL_OK;
        }
        if (status == SL_OK)
            status = job_look(&job, err);
        bool has_work = job.totals.count > 0;
        if (status == SL_OK && has_work)
            status = job_plan(&job, &plan, err);
        if (status == SL_OK)
            status = job_run(&job, has_work ? &plan : NULL, output, outcome, err);
        job_close(&job);
    }
    output_close(output);
    return status;
}

static struct job_outcome must_run(const struct settings *settings) {
    struct job_outcome outcome;
    struct error err = {0};
    if (run_job(settings, &outcome, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_true(outcome.is_complete);
    return outcome;
}

static void assert_results(const char *expected) {
    struct buf text;
    buf_init(&text);
    assert_int_equal(file_read_all(out_path, (size_t)1 << 20, &text, NULL), SL_OK);
    assert_string_equal(text.len == 0 ? "" : text.data, expected);
    buf_release(&text);
}

struct ending {
    const char *row;                  /* members after the id */
    const char *text, *finish, *more; /* of the result */
    unsigned count;
};

/* In each the prompt is one token. */
static const struct ending endings[] = {
    {"\"prompt_ids\": [3]", "efg", "stop", "", 3},
    {"\"prompt_ids\": [0], \"max_tokens\": 5", "babab", "length", "", 5},
    {"\"prompt\": \"d\"", "efg", "stop", "", 3},
    {"\"prompt_ids\": [3], \"max_tokens\": 4", "efg", "stop", "", 3}, /* the end comes last */
    {"\"prompt_ids\": [3], \"max_tokens\": 3", "efg", "length", "", 3},
    {"\"prompt_ids\": [6], \"logprobs\": true", "", "stop", ", \"logprobs\": {\"content\": []}", 0},
    {"\"prompt_ids\": [3], \"stop\": [\"\", \"fg\"], \"return_token_ids\": true", "e", "stop",
     ", \"token_ids\": [4]", 1},
    {"\"prompt_ids\": [3], \"stop\": \"fg\", \"max_tokens\": 3", "e", "stop", "", 1},
    {"\"prompt_ids\": [4], \"ignore_eos\": true, \"max_tokens\": 4", "fgca", "length", "", 4},
};
#define ENDING_COUNT (sizeof endings / sizeof endings[0])

static void add_result(struct buf *out, unsigned id, const struct ending *ending) {
    buf_printf(out,
               "{\"id\": %u, \"text\": \"%s\", \"finish_reason\": \"%s\", \"usage\": "
               "{\"prompt_tokens\": 1, \"completion_tokens\": %u}%s}\n",
               id, ending->text, ending->finish, ending->count, ending->more);
}

/* Writes the rows of all endings; the results that they should have are in endings_results. */
static char endings_results[4096];

static void write_endings(void) {
    struct buf rows, results;
    buf_init(&rows);
    buf_init(&results);
    for (unsigned i = 0; i < ENDING_COUNT; i++) {
        buf_printf(&rows, "{\"id\": %u, %s}\n", 100 + i, endings[i].row);
        add_result(&results, 100 + i, &endings[i]);
    }
    assert_true(results.len < sizeof endings_results);
    snprintf(endings_results, sizeof endings_results, "%s", results.data);
    tiny_write_text(&tiny, "rows.jsonl", rows.data);
    buf_release(&rows);
    buf_release(&results);
}

static void rows_end_as_they_should(void **state) {
    (void)state;
    struct settings settings = defaults();
    write_endings();
    struct job_outcome outcome = must_run(&settings);
    assert_int_equal(outcome.rows_done, 9);
    assert_int_equal(outcome.rows_failed, 0);
    assert_results(endings_results);
}

static void results_do_not_depend_on_batch_pass_or_engine(void **state) {
    (void)state;
    write_endings();
    for (int64_t batch = 1; batch <= 4; batch++) {
        struct settings settings = defaults();
        settings.batch = batch;
        settings.pass_tokens = 5 - batch;
        settings.engine = batch % 2 == 0 ? "stream" : "resident";
        settings.threads = 1 + batch % 2;
        must_run(&settings);
        assert_results(endings_results);
    }
}

static void bad_rows_have_error_lines_and_the_job_goes_on(void **state) {
    (void)state;
    struct settings settings = defaults();
    tiny_write_text(&tiny, "rows.jsonl",
                    "{\"id\": \"a\", \"prompt_ids\": [99]}\n\n[1]\n"
                    "{\"id\": \"b\", \"prompt_ids\": [3]}\n"
                    "{\"id\": \"c\", \"messages\": [{\"role\": \"user\", \"content\": \"d\"}]}");
    struct job_outcome outcome = must_run(&settings);
    assert_int_equal(outcome.rows_done, 1);
    assert_int_equal(outcome.rows_failed, 3);
    assert_results(
        "{\"id\": \"a\", \"error\": {\"message\": \"token 1 of the prompt is 99, outside the "
        "vocabulary of 12\", \"line\": 1, \"code\": \"invalid_prompt\"}, \"finish_reason\": "
        "\"error\"}\n"
        "{\"id\": 3, \"error\": {\"message\": \"the line is JSON, but not an object\", \"line\": "
        "3, "
        "\"code\": \"invalid_row\"}, \"finish_reason\": \"error\"}\n"
        "{\"id\": \"b\", \"text\": \"efg\", \"finish_reason\": \"stop\", \"usage\": "
        "{\"prompt_tokens\": 1, \"completion_tokens\": 3}}\n"
        "{\"id\": \"c\", \"error\": {\"message\": \"the model has no chat template, which messages "
        "need\", \"line\": 5, \"code\": \"invalid_prompt\"}, \"finish_reason\": \"error\"}\n");
}

static void jobs_without_a_row_that_runs_end_well(void **state) {
    (void)state;
    struct settings settings = defaults();
    tiny_write_text(&tiny, "rows.jsonl", "");
    assert_int_equal(must_run(&settings).rows_failed, 0);
    assert_results("");
    tiny_write_text(&tiny, "rows.jsonl", "null\n");
    assert_int_equal(must_run(&settings).rows_failed, 1);
}

static void first_look_counts_tokens_and_cuts_to_the_context(void **state) {
    (void)state;
    struct settings settings = defaults();
    struct job job;
    struct error err;
    settings.max_tokens = 1000; /* the context has 64 positions */
    tiny_write_text(&tiny, "rows.jsonl",
                    "{\"prompt_ids\": [3, 3, 3]}\n{\"prompt\": \"dd\", \"max_tokens\": 30, "
                    "\"logprobs\": true, \"top_logprobs\": 4}\n{}\n");
    assert_int_equal(job_open(&settings, NULL, &job, &err), SL_OK);
    assert_int_equal(job_look(&job, &err), SL_OK);
    assert_int_equal(job.totals.count, 2);
    assert_int_equal(job.totals.prompt_tokens, 5);
    assert_int_equal(job.totals.answer_tokens, 61 + 30);
    assert_int_equal(job.totals.sequence_tokens, 64 + 32);
    assert_int_equal(job.totals.pages, 4 + 2);
    assert_int_equal(job.totals.longest, 64);
    assert_int_equal(job.totals.longest_prompt, 3);
    assert_int_equal(job.totals.longest_answer, 61);
    assert_int_equal(job.totals.top_logprobs, 4);
    assert_int_equal(job.looked[2].prompt_tokens, 0);
    job_close(&job);
}

static void the_same_id_twice_names_both_lines(void **state) {
    (void)state;
    struct settings settings = defaults();
    struct job job;
    struct error err;
    static const char *const files[] = {
        "{\"id\": \"a\", \"prompt_ids\": [3]}\n\n{\"id\": \"\\u0061\", \"prompt_ids\": [3]}\n",
        "{\"id\": 3, \"prompt_ids\": [3]}\n\n{\"prompt_ids\": [3]}\n", /* a line's number */
        "{\"id\": \"a\"}\n\n{\"custom_id\": \"a\"}\n",                 /* errors have ids too */
    };
    for (size_t i = 0; i < 3; i++) {
        tiny_write_text(&tiny, "rows.jsonl", files[i]);
        assert_int_equal(job_open(&settings, NULL, &job, &err), SL_OK);
        assert_int_equal(job_look(&job, &err), SL_ERR_INPUT);
        assert_non_null(strstr(err.text, "lines 1 and 3 have the same id"));
        job_close(&job);
    }
    tiny_write_text(&tiny, "rows.jsonl", "{\"id\": \"2\"}\n{\"id\": 2}\n{\"id\": 1}\n");
    assert_int_equal(job_open(&settings, NULL, &job, &err), SL_OK);
    assert_int_equal(job_look(&job, &err), SL_OK); /* texts are no numbers */
    job_close(&job);
}

/* Stopped at every question in turn: what is in the file are whole lines of the right results. */
static void a_stop_leaves_whole_lines(void **state) {
    (void)state;
    struct settings settings = defaults();
    settings.batch = 2;
    write_endings();
    size_t lines_most = 0;
    remove_output();
    for (size_t after = 1;; after++) {
        struct job_outcome outcome;
        struct error err = {0};
        stops_after = after;
        enum status status = run_job(&settings, &outcome, &err);
        stops_after = 0;
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ERR_STOPPED);
        assert_false(outcome.is_complete);
        struct buf text;
        buf_init(&text);
        size_t lines = 0;
        if (file_exists(out_path))
            assert_int_equal(file_read_all(out_path, (size_t)1 << 20, &text, NULL), SL_OK);
        for (size_t at = 0, end; at < text.len; at = end + 1, lines++) {
            end = str_find(buf_str(&text), STR("\n"), at);
            assert_true(end != SIZE_MAX);
            assert_true(str_find(str_from(endings_results), str_cut(buf_str(&text), at, end + 1),
                                 0) != SIZE_MAX);
        }
        assert_true(after < 20 || lines == outcome.rows_done); /* later than the first look */
        lines_most = lines > lines_most ? lines : lines_most;
        buf_release(&text);
        remove_output();
    }
    assert_true(lines_most > 4);
    assert_results(endings_results);
}

static void rows_that_change_while_the_job_runs_end_it(void **state) {
    (void)state;
    struct settings settings = defaults();
    struct sink_options options = {out_path, true, true, {NULL}};
    struct output *output;
    struct job job;
    struct plan plan;
    struct job_outcome outcome;
    struct error err = {0};
    static const char *const before[] = {"{\"id\": \"a\", \"prompt_ids\": [3]}\n",
                                         "{\"id\": \"e\"}\n{\"prompt_ids\": [3]}\n"};
    static const char *const after[] = {
        "{\"id\": \"a\", \"prompt\": \"  dddd\"}\n", "{\"id\": \"b\", \"prompt_ids\": [3]}\n",
        "{\"id\": \"a\", \"prompt_ids\": [4]}\n", "{\"id\": \"f\"}\n"};
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        tiny_write_text(&tiny, "rows.jsonl", before[i == 3]);
        assert_int_equal(output_open(&options, &output, &err), SL_OK);
        assert_int_equal(job_open(&settings, NULL, &job, &err), SL_OK);
        assert_int_equal(job_look(&job, &err), SL_OK);
        assert_int_equal(plan_make(job.model, &settings, &job.totals, &plan, &err), SL_OK);
        FILE *file = fopen(rows_path, "r+");
        assert_non_null(file);
        assert_true(fputs(after[i], file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(job_run(&job, &plan, output, &outcome, &err), SL_ERR_ENV);
        assert_non_null(strstr(err.text, "line 1 was changed"));
        job_close(&job);
        output_close(output);
    }
}

/* Allocation after allocation fails until a run meets none: always a clean error. */
static void failed_allocations_are_clean_errors(void **state) {
    (void)state;
    struct settings settings = defaults();
    write_endings();
    for (uint64_t nth = 1;; nth += 1 + nth / 4) {
        struct job_outcome outcome;
        struct error err = {0};
        fault_arm(SL_FAULT_ALLOC, nth, true);
        enum status status = run_job(&settings, &outcome, &err);
        bool has_met_one = fault_count(SL_FAULT_ALLOC) >= nth;
        fault_arm(SL_FAULT_ALLOC, 0, false);
        if (!has_met_one) {
            assert_int_equal(status, SL_OK);
            assert_true(nth > 100);
            break;
        }
        if (status != SL_ERR_ENV)
            fail_msg("allocation %llu: status %d, %s", (unsigned long long)nth, (int)status,
                     err.text);
        assert_true(err.text[0] != '\0');
    }
    assert_results(endings_results);
}

/* ---- going on */

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
    buf_release(&text);
    buf_release(&all);
}

/* At each of the first, second, .. calls of a fault point a run fails, until a run meets none:
 * always a clean error and whole lines, and the same command then comes to the same bytes. */
static void sweep(enum fault_point point, bool is_lasting) {
    struct settings settings = defaults();
    struct buf all, text;
    uint64_t nth = 1, met = 0;
    make_reference(&settings, &all);
    buf_init(&text);
    for (;; nth += 1 + nth / 40) {
        struct job_outcome outcome;
        struct error err = {0};
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
    print_message("%s%s: %llu places\n", faulty[point], is_lasting ? ", lasting" : "",
                  (unsigned long long)met);
    buf_release(&text);
    buf_release(&all);
}

static void failed_writes_and_syncs_lose_nothing(void **state) {
    (void)state;
    sweep(SL_FAULT_WRITE, false);
    sweep(SL_FAULT_WRITE, true);
    sweep(SL_FAULT_SYNC, false);
}

static void failed_statements_of_the_journal_lose_nothing(void **state) {
    (void)state;
    sweep(SL_FAULT_SQL, false);
    sweep(SL_FAULT_SQL, true);
}

static void failed_reads_and_opens_lose_nothing(void **state) {
    (void)state;
    sweep(SL_FAULT_OPEN, false);
    sweep(SL_FAULT_READ, true);
}

static void failed_allocations_lose_nothing(void **state) {
    (void)state;
    sweep(SL_FAULT_ALLOC, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_end_as_they_should),
        cmocka_unit_test(results_do_not_depend_on_batch_pass_or_engine),
        cmocka_unit_test(bad_rows_have_error_lines_and_the_job_goes_on),
        cmocka_unit_test(jobs_without_a_row_that_runs_end_well),
        cmocka_unit_test(first_look_counts_tokens_and_cuts_to_the_context),
        cmocka_unit_test(the_same_id_twice_names_both_lines),
        cmocka_unit_test(a_stop_leaves_whole_lines),
        cmocka_unit_test(rows_that_change_while_the_job_runs_end_it),
        cmocka_unit_test(failed_allocations_are_clean_errors),
        cmocka_unit_test(a_job_that_is_stopped_again_and_again_comes_to_the_same_bytes),
        cmocka_unit_test(failed_writes_and_syncs_lose_nothing),
        cmocka_unit_test(failed_statements_of_the_journal_lose_nothing),
        cmocka_unit_test(failed_reads_and_opens_lose_nothing),
        cmocka_unit_test(failed_allocations_lose_nothing),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
