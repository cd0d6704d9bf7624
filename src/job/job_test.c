/* Whole jobs on the scripted model of job_for_test.h. */
#include "job/job.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "job/job_for_test.h"

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

/* The few shortest first, then as in the file, but rows that begin alike together; their first 64
 * tokens count. */
static void rows_are_offered_short_ones_first_and_alike_ones_together(void **state) {
    /* Kinds: s, prompts of one token; others of 66, whose first token is the kind's. */
    static const char kinds[] = "abssacsbssassscsb";
    static const uint32_t right[] = {2, 3, 6, 8, 9, 11, 12, 13, 0, 4, 10, 1, 7, 16, 5, 14, 15};
    struct settings settings = defaults();
    struct job job;
    struct error err;
    struct buf rows;
    (void)state;
    tiny_write_config(&tiny, "llama", ",\"eos_token_id\":2,\"max_position_embeddings\":128");
    buf_init(&rows);
    for (size_t i = 0; kinds[i] != '\0'; i++) {
        buf_printf(&rows, "{\"max_tokens\": 5, \"prompt_ids\": [%d",
                   kinds[i] == 's' ? 3 : kinds[i] - 'a');
        for (size_t token = 1; kinds[i] != 's' && token < 66; token++)
            buf_printf(&rows, ",%zu", token == 65 ? i % 7 : 3);
        buf_add(&rows, STR("]}\n"));
    }
    tiny_write_text(&tiny, "rows.jsonl", rows.data);
    assert_int_equal(job_open(&settings, NULL, &job, &err), SL_OK);
    assert_int_equal(job_look(&job, &err), SL_OK);
    assert_int_equal(job_order_make(&job, &err), SL_OK);
    assert_int_equal(job.order.count, sizeof right / sizeof right[0]);
    assert_int_equal(job.order.strict_count, 0);
    assert_memory_equal(job.order.rows, right, sizeof right);
    job_close(&job);
    buf_release(&rows);
    tiny_write_config(&tiny, "llama", ",\"eos_token_id\":2");
}

/* The last row is the shortest and goes first: it computes what the others share, whose first row
 * of the file has as much in common with it. */
static void who_is_offered_first_computes_what_rows_share(void **state) {
    static const unsigned max_tokens[] = {9, 7, 5}, shared[] = {64, 64, 0};
    struct settings settings = defaults();
    struct job job;
    struct error err;
    struct buf rows;
    (void)state;
    tiny_write_config(&tiny, "llama", ",\"eos_token_id\":2,\"max_position_embeddings\":128");
    buf_init(&rows);
    for (size_t i = 0; i < 3; i++) {
        buf_printf(&rows, "{\"max_tokens\": %u, \"prompt_ids\": [%zu", max_tokens[i], (size_t)3);
        for (size_t token = 1; token < 66; token++)
            buf_printf(&rows, ",%zu", token == 65 ? i : 3);
        buf_add(&rows, STR("]}\n"));
    }
    tiny_write_text(&tiny, "rows.jsonl", rows.data);
    assert_int_equal(job_open(&settings, NULL, &job, &err), SL_OK);
    assert_int_equal(job_look(&job, &err), SL_OK);
    assert_int_equal(job.looked[0].shared_tokens, 0);
    uint32_t mark = job.looked[2].shared_mark;
    for (size_t time = 0; time < 2; time++) { /* the second one finds it as it should be */
        assert_int_equal(job_order_make(&job, &err), SL_OK);
        assert_int_equal(job.order.rows[0], 2);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(job.looked[i].shared_tokens, shared[i]);
        assert_int_equal(job.looked[0].shared_mark, mark);
    }
    assert_int_equal(job.totals.shared_tokens, 128);
    job_close(&job);
    buf_release(&rows);
    tiny_write_config(&tiny, "llama", ",\"eos_token_id\":2");
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

/* What a look at many rows by several threads finds is what one thread finds. */
static void many_rows_look_the_same_to_any_number_of_threads(void **state) {
    (void)state;
    enum { ROWS = 9000 };
    struct settings settings = defaults();
    struct job jobs[2];
    struct buf rows;
    struct error err = {0};
    buf_init(&rows);
    for (int i = 0; i < ROWS; i++) {
        if (i % 97 == 5)
            buf_printf(&rows, "{\"id\": %d, \"x%d\": 1}\n", i, i % 3);
        else if (i == 7000)
            buf_printf(&rows, "{\"id\": %d, \"prompt\": \"%*s\"}\n", i, 1100000, "");
        else
            buf_printf(&rows, "{\"id\": %d, \"prompt_ids\": [3, %d], \"max_tokens\": %d}\n", i,
                       i % 8, 1 + i % 50);
    }
    assert_false(rows.has_failed);
    tiny_write_text(&tiny, "rows.jsonl", rows.data);
    for (int64_t i = 0; i < 2; i++) {
        settings.threads = 1 + 3 * i;
        assert_int_equal(job_open(&settings, NULL, &jobs[i], &err), SL_OK);
        assert_int_equal(job_look(&jobs[i], &err), SL_OK);
    }
    assert_int_equal(jobs[0].totals.count, ROWS - ROWS / 97 - 1 - 1);
    assert_memory_equal(&jobs[0].totals, &jobs[1].totals, sizeof jobs[0].totals);
    assert_memory_equal(jobs[0].looked, jobs[1].looked, ROWS * sizeof *jobs[0].looked);
    job_close(&jobs[0]);
    job_close(&jobs[1]);
    buf_printf(&rows, "{\"id\": 8000}\n{\"id\": 17}\n");
    tiny_write_text(&tiny, "rows.jsonl", rows.data);
    for (settings.threads = 1; settings.threads < 4; settings.threads += 2) {
        assert_int_equal(job_open(&settings, NULL, &jobs[0], &err), SL_OK);
        assert_int_equal(job_look(&jobs[0], &err), SL_ERR_INPUT);
        assert_non_null(strstr(err.text, "lines 8001 and 9001 have the same id 8000"));
        job_close(&jobs[0]);
    }
    buf_release(&rows);
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
        assert_int_equal(job_plan(&job, &plan, &err), SL_OK);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_end_as_they_should),
        cmocka_unit_test(results_do_not_depend_on_batch_pass_or_engine),
        cmocka_unit_test(bad_rows_have_error_lines_and_the_job_goes_on),
        cmocka_unit_test(jobs_without_a_row_that_runs_end_well),
        cmocka_unit_test(first_look_counts_tokens_and_cuts_to_the_context),
        cmocka_unit_test(rows_are_offered_short_ones_first_and_alike_ones_together),
        cmocka_unit_test(who_is_offered_first_computes_what_rows_share),
        cmocka_unit_test(the_same_id_twice_names_both_lines),
        cmocka_unit_test(many_rows_look_the_same_to_any_number_of_threads),
        cmocka_unit_test(a_stop_leaves_whole_lines),
        cmocka_unit_test(rows_that_change_while_the_job_runs_end_it),
        cmocka_unit_test(failed_allocations_are_clean_errors),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
