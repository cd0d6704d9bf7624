/* Whole jobs that score texts, on the scripted model of job_for_test.h. After each letter its
 * follower has the logit sqrt(8), by the last norm, and the eleven other tokens have 0: so the log
 * probabilities are known. */
#include "job/job.h"

#include "base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "job/job_for_test.h"

#define FOLLOWS (sqrt(8) - log(exp(sqrt(8)) + 11)) /* of the letter that follows */
#define OTHER (-log(exp(sqrt(8)) + 11))
#define TOLERANCE 1e-3 /* the norm has an epsilon */

static struct buf text; /* of the results */
static struct arena arena;

static struct settings scoring(const char *rows) {
    struct settings settings = defaults();
    settings.scores = true;
    tiny_write_text(&tiny, "rows.jsonl", rows);
    return settings;
}

/* The index-th line of the results. */
static const struct json *line(size_t index) {
    const struct json *object;
    struct json_options options = {.depth_max = 8};
    buf_clear(&text);
    assert_int_equal(file_read_all(out_path, (size_t)1 << 20, &text, NULL), SL_OK);
    struct str all = buf_str(&text);
    size_t at = 0;
    for (; index > 0; index--)
        at = str_find(all, STR("\n"), at) + 1;
    struct str one = str_cut(all, at, str_find(all, STR("\n"), at));
    assert_int_equal(json_parse(&arena, one, &options, &object, NULL), SL_OK);
    return object;
}

static void check_score(const struct json *object, double sum, uint64_t tokens, bool is_greedy) {
    double found;
    uint64_t count;
    bool truth;
    assert_true(json_double(json_get(object, "loglikelihood"), &found));
    assert_true(fabs(found - sum) < TOLERANCE * (double)tokens);
    assert_true(json_u64(json_get(object, "tokens"), &count) && count == tokens);
    assert_true(json_bool(json_get(object, "is_greedy"), &truth) && truth == is_greedy);
}

static const char rows[] =
    "{\"id\": 1, \"context\": \"d\", \"continuation\": \"efg\"}\n"
    "{\"id\": 2, \"context\": \"d\", \"continuation\": \"eff\"}\n"
    "{\"id\": 3, \"prompt\": \"ddddd\", \"choices\": [\"d\", \"efgc\", \"e\", \"aaa\"]}\n"
    "{\"id\": 4, \"context_ids\": [3, 4], \"continuation_ids\": [5]}\n"
    "{\"id\": 5, \"prompt\": \"ddddddddddddddddddddddddddddddddd\", \"choices\": [\"ef\", "
    "\"b\"]}\n";

static void sums_are_those_of_the_model(void **state) {
    (void)state;
    struct settings settings = scoring(rows);
    struct job_outcome outcome = must_run(&settings);
    assert_int_equal(outcome.rows_done, 5);
    check_score(line(0), 3 * FOLLOWS, 3, true);
    check_score(line(1), 2 * FOLLOWS + OTHER, 3, false);
    check_score(line(3), FOLLOWS, 1, true);
    const struct json *choices = json_get(line(2), "choices");
    assert_int_equal(choices->count, 4);
    check_score(&choices->items[0], OTHER, 1, false);
    check_score(&choices->items[1], 4 * FOLLOWS, 4, true);
    check_score(&choices->items[2], FOLLOWS, 1, true);
    check_score(&choices->items[3], 3 * OTHER, 3, false);
    uint64_t best, best_norm;
    assert_true(json_u64(json_get(line(2), "best"), &best));
    assert_true(json_u64(json_get(line(2), "best_norm"), &best_norm));
    assert_int_equal(best, 2);
    assert_true(best_norm == 1 || best_norm == 2); /* equal but for roundings */
}

static void run_and_keep(const struct settings *settings, char results[2048]) {
    must_run(settings);
    buf_clear(&text);
    assert_int_equal(file_read_all(out_path, (size_t)1 << 20, &text, NULL), SL_OK);
    assert_true(text.len < 2048);
    memcpy(results, text.data, text.len + 1);
}

static void results_do_not_depend_on_batch_pass_or_engine(void **state) {
    (void)state;
    struct settings settings = scoring(rows);
    char wanted[2048];
    run_and_keep(&settings, wanted);
    for (int64_t batch = 1; batch <= 4; batch++) {
        settings.batch = batch;
        settings.pass_tokens = 5 - batch;
        settings.engine = batch % 2 == 0 ? "stream" : "resident";
        settings.threads = 1 + batch % 2;
        pages_given = (size_t)(batch == 3 ? 4 : 0); /* of the longest row alone */
        must_run(&settings);
        assert_results(wanted);
    }
    pages_given = 0;
}

static void a_job_that_stops_goes_on_to_the_same_bytes(void **state) {
    (void)state;
    struct settings settings = scoring(rows);
    char wanted[2048];
    run_and_keep(&settings, wanted);
    remove_output();
    settings.overwrites = false;
    settings.pass_tokens = 3;
    settings.batch = 2;
    size_t stops = 0;
    for (size_t questions = 4; questions < 200; questions += 3) {
        struct job_outcome outcome;
        struct error err = {0};
        stops_after = questions;
        enum status status = run_job(&settings, &outcome, &err);
        stops_after = 0;
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ERR_STOPPED);
        stops++;
    }
    assert_true(stops > 2);
    assert_true(must_run(&settings).is_complete);
    assert_results(wanted);
}

static void a_job_that_scores_is_not_one_that_answers(void **state) {
    (void)state;
    struct settings settings = scoring(rows);
    struct job_outcome outcome;
    struct error err = {0};
    must_run(&settings);
    settings.overwrites = settings.scores = false;
    assert_int_equal(run_job(&settings, &outcome, &err), SL_ERR_INPUT);
    assert_non_null(strstr(err.text, "command was score"));
}

static void texts_that_cannot_be_scored_are_errors(void **state) {
    (void)state;
    struct settings settings =
        scoring("{\"id\": 1, \"context\": \"\", \"continuation\": \"d\"}\n"
                "{\"id\": 2, \"context_ids\": [3], \"continuation_ids\": [12]}\n"
                "{\"id\": 3, \"context\": \"d\", \"continuation\": \"!\"}\n");
    struct job_outcome outcome = must_run(&settings);
    assert_int_equal(outcome.rows_failed, 3);
    static const char *const why[] = {"no token that begins or ends texts",
                                      "token 2 of the prompt is 12",
                                      "choice 1 adds no token to its context"};
    for (size_t i = 0; i < 3; i++) {
        struct str message;
        assert_true(json_string(json_get(json_get(line(i), "error"), "message"), &message));
        if (str_find(message, str_from(why[i]), 0) == SIZE_MAX)
            fail_msg("\"%.*s\", expected \"%s\"", STR_ARG(message), why[i]);
    }
}

static void the_look_counts_what_choices_share(void **state) {
    (void)state;
    struct settings settings = scoring(rows);
    struct job job;
    struct error err;
    assert_int_equal(job_open(&settings, NULL, &job, &err), SL_OK);
    assert_int_equal(job_look(&job, &err), SL_OK);
    assert_int_equal(job.totals.count, 9);
    assert_int_equal(job.totals.prompt_tokens, 3 + 3 + (5 + 8 + 5 + 7) + 2 + (34 + 33));
    assert_int_equal(job.totals.scored_tokens, 3 + 3 + 9 + 1 + 3);
    assert_int_equal(job.totals.shared_tokens, 32); /* of the last row's second choice */
    assert_int_equal(job.totals.longest, 35);
    job_close(&job);
}

static int make(void **state) {
    buf_init(&text);
    arena_init(&arena);
    return make_model(state);
}

static int clear(void **state) {
    buf_release(&text);
    arena_release(&arena);
    return remove_model(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_model),
        cmocka_unit_test(results_do_not_depend_on_batch_pass_or_engine),
        cmocka_unit_test(a_job_that_stops_goes_on_to_the_same_bytes),
        cmocka_unit_test(a_job_that_scores_is_not_one_that_answers),
        cmocka_unit_test(texts_that_cannot_be_scored_are_errors),
        cmocka_unit_test(the_look_counts_what_choices_share),
    };
    return cmocka_run_group_tests(tests, make, clear);
}
