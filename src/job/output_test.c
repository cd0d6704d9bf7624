/* The results file and its journal together: what is repaired, what is refused, what is left. */
#include "job/output.h"

#include "base/fault.h"
#include "io/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/sqlite_for_test.h"

#define ROWS 4

static char folder[] = "/tmp/sluice-output-XXXXXX", path[PATH_MAX], journal_path[PATH_MAX];

static int make_folder(void **state) {
    (void)state;
    test_sqlite_begin();
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/out", folder);
    snprintf(journal_path, sizeof journal_path, "%s/out.sluice", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder); /* fails if a test left anything */
}

static void remove_all(void) {
    unlink(path);
    journal_remove(journal_path);
}

static void write_text(const char *text, size_t bytes) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void assert_holds(const char *expected) {
    struct buf text;
    buf_init(&text);
    assert_int_equal(file_read_all(path, 4096, &text, NULL), SL_OK);
    assert_string_equal(text.len > 0 ? text.data : "", expected);
    buf_release(&text);
}

static const char *const lines[ROWS] = {"zero\n", "one\n", "two\n", "three\n"};

static struct output *must_open(struct fingerprint *fingerprint, struct fingerprint *state) {
    struct sink_options options = {path, false, true, {NULL}};
    struct output *output = NULL;
    struct error err = {0};
    fingerprint_init(fingerprint);
    fingerprint_init(state);
    assert_int_equal(fingerprint_add(fingerprint, STR("--seed"), STR("1"), NULL), SL_OK);
    assert_int_equal(fingerprint_add(state, STR("clock"), STR("5"), NULL), SL_OK);
    assert_int_equal(fingerprint_add(state, STR("clock is UTC"), STR("no"), NULL), SL_OK);
    if (output_open(&options, &output, &err) != SL_OK)
        fail_msg("%s", err.text);
    return output;
}

static void close_all(struct output *output, struct fingerprint *fingerprint,
                      struct fingerprint *state) {
    output_close(output);
    fingerprint_release(fingerprint);
    fingerprint_release(state);
}

static void add_line(struct output *output, size_t row) {
    assert_int_equal(output_add_line(output, row, row == 2, str_from(lines[row]), NULL), SL_OK);
}

static void add_token(struct output *output, size_t row, uint32_t id) {
    struct journal_token token = {.row = row, .entry = {.id = id}};
    assert_int_equal(output_add_token(output, &token, NULL), SL_OK);
}

/* Rows 3 and 1 are done, in this order; row 0 has two tokens. */
static void begin_job(void) {
    struct fingerprint fingerprint, state;
    uint64_t record;
    remove_all();
    struct output *output = must_open(&fingerprint, &state);
    assert_false(output_resumes(output));
    assert_int_equal(output_begin(output, &fingerprint, &state, ROWS, NULL), SL_OK);
    add_token(output, 0, 7);
    add_token(output, 1, 8);
    add_line(output, 3);
    assert_int_equal(output_commit(output, &record, NULL), SL_OK);
    assert_int_equal(record, 1);
    add_token(output, 0, 9);
    add_line(output, 1);
    assert_int_equal(output_commit(output, &record, NULL), SL_OK);
    close_all(output, &fingerprint, &state);
    assert_holds("three\none\n");
}

/* Looks at what begin_job has left; the job is then ready to begin again. */
static struct output *must_recall(struct fingerprint *fingerprint, struct fingerprint *state) {
    struct error err = {0};
    struct output *output = must_open(fingerprint, state);
    assert_true(output_resumes(output));
    assert_false(output_is_complete(output));
    assert_int_equal(output_check(output, fingerprint, NULL), SL_OK);
    if (output_load(output, ROWS, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(output_counts(output).rows_done, 2);
    assert_true(output_has_line(output, 3) && output_has_line(output, 1));
    assert_false(output_has_line(output, 0) || output_has_line(output, 2));
    const struct begun *begun = output_find_begun(output, 0);
    assert_non_null(begun);
    assert_int_equal(begun->count, 2);
    assert_int_equal(begun->ids[0], 7);
    assert_int_equal(begun->ids[1], 9);
    assert_null(output_find_begun(output, 1)); /* it is done */
    return output;
}

/* Goes on to the end, which has the lines in order. */
static void must_go_on(void) {
    struct fingerprint fingerprint, state;
    uint64_t record;
    struct output *output = must_recall(&fingerprint, &state);
    assert_int_equal(output_begin(output, &fingerprint, &state, ROWS, NULL), SL_OK);
    assert_holds("three\none\n");
    add_line(output, 2);
    add_line(output, 0);
    assert_int_equal(output_commit(output, &record, NULL), SL_OK);
    assert_int_equal(output_finish(output, 1, NULL), SL_OK);
    close_all(output, &fingerprint, &state);
    assert_holds("zero\none\ntwo\nthree\n");
}

static void a_job_goes_on_and_is_complete_then(void **state) {
    (void)state;
    struct fingerprint fingerprint, own;
    int code = -1;
    begin_job();
    must_go_on();
    struct output *output = must_open(&fingerprint, &own);
    assert_true(output_is_complete(output));
    assert_int_equal(output_read_code(output, &code, NULL), SL_OK);
    assert_int_equal(code, 1);
    close_all(output, &fingerprint, &own);
    write_text("zero\n", 5);
    output = must_open(&fingerprint, &own);
    assert_int_equal(output_read_code(output, &code, NULL), SL_ERR_INPUT);
    close_all(output, &fingerprint, &own);
    remove_all();
}

static void whatever_a_crash_leaves_of_the_results_is_repaired(void **state) {
    (void)state;
    static const char nul[600];
    static const struct str left[] = {
        {"", 0},
        {"three\none\n", 10},
        {"three\none", 9},
        {"three\n", 6},
        {"thr", 3},
        {"three\none\ntw", 12},
        {"three\none\ntwo\n", 14}, /* power was lost: the journal has it no more */
        {"three\none\n\0\0\0\0", 14},
        {"three\n\0\0\0\0\0\0\0\0\0", 15},
        {nul, sizeof nul},
    };
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        begin_job();
        write_text(left[i].data, left[i].len);
        must_go_on();
    }
    begin_job();
    unlink(path);
    must_go_on();
    remove_all();
}

static void results_of_something_else_are_refused_and_stay(void **state) {
    (void)state;
    static const char *const foreign[] = {"precious\n", "precious", "one\nthree\n", "thref", "\n"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        struct fingerprint fingerprint, own;
        struct error err = {0};
        begin_job();
        write_text(foreign[i], strlen(foreign[i]));
        struct output *output = must_open(&fingerprint, &own);
        assert_int_equal(output_load(output, ROWS, &err), SL_ERR_INPUT);
        assert_non_null(strstr(err.text, "something else"));
        close_all(output, &fingerprint, &own);
        assert_holds(foreign[i]);
    }
    remove_all();
}

static void another_job_is_refused_with_what_differs(void **state) {
    (void)state;
    struct fingerprint fingerprint, own;
    struct settings settings = {.kernels = "amx", .has_epoch = true, .epoch = 6};
    struct error err = {0};
    begin_job();
    struct output *output = must_open(&fingerprint, &own);
    assert_int_equal(fingerprint_add(&fingerprint, STR("rows"), STR("9"), NULL), SL_OK);
    assert_int_equal(output_recall(output, &settings, NULL), SL_OK);
    assert_int_equal(output_check(output, &fingerprint, &err), SL_ERR_INPUT);
    assert_non_null(strstr(err.text, "SOURCE_DATE_EPOCH was 5, is 6; rows was not there, is 9"));
    close_all(output, &fingerprint, &own);
    output = must_open(&fingerprint, &own);
    settings = (struct settings){.kernels = "auto", .epoch = 99};
    assert_int_equal(output_recall(output, &settings, NULL), SL_OK);
    assert_int_equal(settings.epoch, 5);
    assert_false(settings.has_epoch);
    assert_string_equal(settings.kernels, "auto"); /* none was kept */
    assert_int_equal(output_check(output, &fingerprint, &err), SL_OK);
    close_all(output, &fingerprint, &own);
    remove_all();
}

/* Records of rows that are all done go, sixty at a time; those of rows that go on stay. */
static void tokens_of_finished_rows_are_forgotten(void **state) {
    (void)state;
    struct fingerprint fingerprint, own;
    uint64_t record = 0;
    remove_all();
    struct output *output = must_open(&fingerprint, &own);
    assert_int_equal(output_begin(output, &fingerprint, &own, ROWS, NULL), SL_OK);
    for (uint32_t i = 0; i < 200; i++) {
        add_token(output, i < 150 ? 0 : 1, i);
        if (i == 149)
            add_line(output, 0);
        assert_int_equal(output_commit(output, &record, NULL), SL_OK);
        assert_int_equal(output_forget_before(output, i < 150 ? 1 : 151, NULL), SL_OK);
    }
    close_all(output, &fingerprint, &own);
    output = must_open(&fingerprint, &own);
    assert_int_equal(output_load(output, ROWS, NULL), SL_OK);
    assert_int_equal(output_counts(output).rows_begun, 1);
    assert_int_equal(output_counts(output).tokens, 50);
    assert_int_equal(output_find_begun(output, 1)->ids[0], 150);
    close_all(output, &fingerprint, &own);
    remove_all();
}

/* Whatever statement, write or sync of the journal is the last that a run has come to, when it goes
 * on with rows that have begun: their tokens are there once, as must_recall looks for them. */
static void a_run_that_ends_while_it_takes_over_tokens_leaves_them_once(void **state) {
    (void)state;
    static const enum fault_point points[] = {SL_FAULT_SQL, SL_FAULT_WRITE, SL_FAULT_SYNC};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        bool has_met = true;
        uint64_t nth = 1;
        begin_job();
        for (; has_met; nth++) {
            struct fingerprint fingerprint, own;
            struct output *output = must_recall(&fingerprint, &own);
            fault_arm(points[i], nth, true);
            enum status status = output_begin(output, &fingerprint, &own, ROWS, NULL);
            has_met = fault_count(points[i]) >= nth;
            close_all(output, &fingerprint, &own);
            fault_arm(points[i], 0, false);
            assert_int_equal(status, has_met ? SL_ERR_ENV : SL_OK);
        }
        assert_true(nth > 2);
        must_go_on();
    }
    remove_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_ends_while_it_takes_over_tokens_leaves_them_once),
        cmocka_unit_test(a_job_goes_on_and_is_complete_then),
        cmocka_unit_test(whatever_a_crash_leaves_of_the_results_is_repaired),
        cmocka_unit_test(results_of_something_else_are_refused_and_stay),
        cmocka_unit_test(another_job_is_refused_with_what_differs),
        cmocka_unit_test(tokens_of_finished_rows_are_forgotten),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
