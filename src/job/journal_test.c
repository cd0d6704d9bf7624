/* What the journal keeps, refuses, and leaves after failures and kills. */
#include "job/journal.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/sqlite_for_test.h"

static char folder[] = "/tmp/sluice-journal-XXXXXX", path[PATH_MAX];

static int make_folder(void **state) {
    (void)state;
    test_sqlite_begin();
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/out.sluice", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder); /* fails if a test left anything, a log for one */
}

static void add(struct fingerprint *pairs, const char *name, const char *value) {
    assert_int_equal(fingerprint_add(pairs, str_from(name), str_from(value), NULL), SL_OK);
}

static struct journal *must_make(void) {
    struct fingerprint pairs, state;
    struct journal *journal = NULL;
    struct error err = {0};
    fingerprint_init(&pairs);
    fingerprint_init(&state);
    add(&pairs, "--seed", "7");
    add(&pairs, "rows", "2 (00ff)");
    add(&state, "clock", "12");
    if (journal_make(path, &pairs, &state, &journal, &err) != SL_OK)
        fail_msg("%s", err.text);
    fingerprint_release(&pairs);
    fingerprint_release(&state);
    return journal;
}

static struct journal *must_open(void) {
    struct journal *journal = NULL;
    struct error err = {0};
    bool is_begun = false;
    if (journal_open(path, &journal, &is_begun, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_true(is_begun);
    return journal;
}

static void refuses(const char *says) {
    struct journal *journal = NULL;
    struct error err = {0};
    bool is_begun = false;
    assert_int_equal(journal_open(path, &journal, &is_begun, &err), SL_ERR_ENV);
    if (strstr(err.text, says) == NULL || strstr(err.text, path) == NULL)
        fail_msg("\"%s\" does not hold \"%s\" and the path", err.text, says);
}

static enum status put_line(struct journal *journal, uint64_t row, bool is_error, const char *line,
                            struct error *err) {
    struct journal_line entry = {row, is_error, str_from(line)};
    return journal_put_line(journal, &entry, err);
}

static void put_token(struct journal *journal, uint64_t row, uint32_t id) {
    struct journal_token token = {.row = row, .entry = {.id = id}};
    assert_true(journal_put_token(journal, &token));
}

/* Two passes: a line and two tokens, then another line and a token with log probabilities. */
static enum status fill(struct journal *journal, struct error *err) {
    struct logprob tops[2] = {{4, -0.25f}, {9, -3.5f}};
    struct journal_token token = {.row = 5,
                                  .has_logprobs = true,
                                  .top_count = 2,
                                  .entry = {.id = 4, .logprob = -0.25f, .top = tops}};
    uint64_t record;
    TRY(journal_begin(journal, err));
    TRY(put_line(journal, 3, false, "three\n", err));
    put_token(journal, 5, 11);
    put_token(journal, 4294967295u, 4294967295u);
    TRY(journal_commit(journal, &record, err));
    assert_int_equal(record, 1);
    TRY(journal_begin(journal, err));
    TRY(put_line(journal, 0, true, "zero\n", err));
    assert_true(journal_put_token(journal, &token));
    TRY(journal_commit(journal, &record, err));
    assert_int_equal(record, 2);
    return SL_OK;
}

static enum status note_line(void *ctx, const struct journal_line *line, struct error *err) {
    (void)err;
    buf_printf(ctx, "%llu%s %.*s", (unsigned long long)line->row, line->is_error ? "!" : "",
               STR_ARG(line->line));
    return SL_OK;
}

static enum status note_token(void *ctx, const struct journal_token *token, struct error *err) {
    (void)err;
    buf_printf(ctx, "%llu:%u", (unsigned long long)token->row, token->entry.id);
    if (token->has_logprobs)
        buf_printf(ctx, " %g", (double)token->entry.logprob);
    for (size_t i = 0; i < token->top_count; i++)
        buf_printf(ctx, " %u=%g", token->entry.top[i].id, (double)token->entry.top[i].logprob);
    buf_add_char(ctx, '\n');
    return SL_OK;
}

static void assert_kept(struct journal *journal, uint64_t from, const char *lines,
                        const char *tokens) {
    struct buf text;
    buf_init(&text);
    buf_add(&text, STR(""));
    assert_int_equal(journal_read_lines(journal, from, note_line, &text, NULL), SL_OK);
    assert_string_equal(text.len > 0 ? text.data : "", lines);
    buf_clear(&text);
    assert_int_equal(journal_read_tokens(journal, note_token, &text, NULL), SL_OK);
    assert_string_equal(text.len > 0 ? text.data : "", tokens);
    buf_release(&text);
}

#define ALL_LINES "3 three\n0! zero\n"
#define ALL_TOKENS "5:11\n4294967295:4294967295\n5:4 -0.25 4=-0.25 9=-3.5\n"

static void lines_and_tokens_come_back_in_order(void **state) {
    (void)state;
    struct journal *journal = must_make();
    assert_int_equal(fill(journal, NULL), SL_OK);
    assert_kept(journal, 1, ALL_LINES, ALL_TOKENS);
    journal_close(journal);
    journal = must_open();
    assert_kept(journal, 1, ALL_LINES, ALL_TOKENS);
    assert_kept(journal, 2, "0! zero\n", ALL_TOKENS);
    journal_close(journal);
    journal_remove(path);
}

static void names_and_values_come_back_and_the_end_is_small(void **state) {
    (void)state;
    struct fingerprint pairs, more;
    struct stat info;
    fingerprint_init(&pairs);
    fingerprint_init(&more);
    struct journal *journal = must_make();
    char *line = mem_new(1, 300001);
    assert_non_null(line);
    memset(line, 'x', 300000);
    line[299999] = '\n';
    uint64_t record;
    assert_int_equal(journal_begin(journal, NULL), SL_OK);
    assert_int_equal(put_line(journal, 1, false, line, NULL), SL_OK);
    assert_int_equal(journal_commit(journal, &record, NULL), SL_OK);
    assert_int_equal(record, 0);
    mem_free(line);
    add(&more, "code", "1");
    assert_int_equal(journal_complete(journal, &more, NULL), SL_OK);
    journal_close(journal);
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size <= 32768);
    fingerprint_release(&more);
    journal = must_open();
    assert_int_equal(journal_read_pairs(journal, &pairs, &more, NULL), SL_OK);
    assert_int_equal(pairs.count, 2);
    assert_true(str_is(*fingerprint_get(&pairs, STR("rows")), "2 (00ff)"));
    assert_true(str_is(*fingerprint_get(&more, STR("clock")), "12"));
    assert_true(str_is(*fingerprint_get(&more, STR("code")), "1"));
    assert_kept(journal, 1, "", "");
    fingerprint_release(&pairs);
    fingerprint_release(&more);
    journal_close(journal);
    journal_remove(path);
}

static void what_is_not_committed_is_not_there(void **state) {
    (void)state;
    struct journal *journal = must_make();
    assert_int_equal(fill(journal, NULL), SL_OK);
    assert_int_equal(journal_begin(journal, NULL), SL_OK);
    assert_int_equal(put_line(journal, 9, false, "nine\n", NULL), SL_OK);
    assert_int_equal(journal_drop_tokens(journal, 2, NULL), SL_OK);
    journal_close(journal);
    journal = must_open();
    assert_kept(journal, 1, ALL_LINES, ALL_TOKENS);
    uint64_t record;
    assert_int_equal(journal_begin(journal, NULL), SL_OK);
    assert_int_equal(journal_drop_tokens(journal, 2, NULL), SL_OK);
    assert_int_equal(journal_commit(journal, &record, NULL), SL_OK);
    assert_kept(journal, 1, ALL_LINES, "5:4 -0.25 4=-0.25 9=-3.5\n");
    journal_close(journal);
    journal_remove(path);
}

/* A process that ends without a word, inside a transaction, and one that holds the journal. */
static void a_killed_process_leaves_its_commits_and_no_lock(void **state) {
    (void)state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct journal *journal = must_make();
        bool is_right = fill(journal, NULL) == SL_OK && journal_begin(journal, NULL) == SL_OK &&
                        put_line(journal, 9, false, "nine\n", NULL) == SL_OK &&
                        write(ready[1], "x", 1) == 1;
        pause();
        _exit(is_right ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    char says[64];
    snprintf(says, sizeof says, "another run (process %ld)", (long)child);
    refuses(says);
    struct error err = {0};
    assert_int_equal(journal_check(path, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, says));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(journal_check(path, &err), SL_OK);
    struct journal *journal = must_open();
    assert_kept(journal, 1, ALL_LINES, ALL_TOKENS);
    journal_close(journal);
    journal_remove(path);
}

static void run_sql(const char *text) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "unix"),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void write_file(const void *data, size_t bytes) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void what_is_no_journal_is_refused_and_stays(void **state) {
    (void)state;
    struct journal *journal;
    struct error err = {0};
    char text[4096];
    bool is_begun = true;
    memset(text, 'x', sizeof text);
    write_file(text, sizeof text);
    refuses("not a journal");
    write_file("", 0); /* of a run that ended before it began */
    assert_int_equal(journal_open(path, &journal, &is_begun, &err), SL_OK);
    assert_false(is_begun);
    journal_close(journal);
    run_sql("CREATE TABLE precious(x)");
    refuses("not a journal of a job");
    journal_remove(path);
    journal_close(must_make());
    run_sql("PRAGMA user_version=99");
    refuses("version 99");
    journal_remove(path);
    assert_int_equal(mkdir(path, 0700), 0);
    refuses("in the way");
    assert_int_equal(journal_check(path, &err), SL_ERR_ENV);
    rmdir(path);
}

static enum status read_all(struct journal *journal, struct error *err) {
    struct buf text;
    buf_init(&text);
    enum status status = journal_read_lines(journal, 1, note_line, &text, err);
    if (status == SL_OK)
        status = journal_read_tokens(journal, note_token, &text, err);
    buf_release(&text);
    return status;
}

/* Contents that this program does not write: found, never believed. */
static void damaged_contents_are_refused(void **state) {
    (void)state;
    static const char *const damages[] = {
        "DELETE FROM result WHERE number = 1",
        "UPDATE result SET line = 'no end'",
        "UPDATE result SET line = ''",
        "UPDATE result SET row = -1",
        "UPDATE pass SET tokens = x'0102'",
        "UPDATE pass SET tokens = x'000000000000000016000000'",
        "UPDATE pass SET tokens = x'00000000000000000300000000000000'",
        "UPDATE pass SET number = number + 4611686018427387904",
        "DROP TABLE pass",
        "DROP TABLE result",
        "DROP TABLE result; CREATE VIEW result(number, row, is_error, line) AS SELECT 1, 1, 1, 1",
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct journal *journal = must_make();
        struct error err = {0};
        bool is_begun;
        assert_int_equal(fill(journal, NULL), SL_OK);
        journal_close(journal);
        run_sql(damages[i]);
        enum status status = journal_open(path, &journal, &is_begun, &err);
        if (status == SL_OK) {
            status = read_all(journal, &err);
            journal_close(journal);
        }
        if (status != SL_ERR_ENV || strstr(err.text, path) == NULL)
            fail_msg("%s: status %d, %s", damages[i], (int)status, err.text);
        journal_remove(path);
    }
}

/* Any byte of the file is another one: a clean refusal, or the right contents. */
static void flipped_bytes_are_no_crash(void **state) {
    (void)state;
    struct journal *journal = must_make();
    static unsigned char whole[1 << 16], other[1 << 16];
    assert_int_equal(fill(journal, NULL), SL_OK);
    journal_close(journal);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(whole, 1, sizeof whole, file);
    fclose(file);
    assert_true(bytes > 4096 && bytes < sizeof whole);
    size_t opened = 0, refused = 0;
    for (size_t at = 0; at < bytes; at += at < 100 ? 1 : 61) {
        struct error err = {0};
        bool is_begun;
        memcpy(other, whole, bytes);
        other[at] ^= 0xFF;
        write_file(other, bytes);
        enum status status = journal_open(path, &journal, &is_begun, &err);
        if (status == SL_OK) {
            status = is_begun ? read_all(journal, &err) : SL_OK;
            journal_close(journal);
        }
        assert_true(status == SL_OK || status == SL_ERR_ENV);
        opened += status == SL_OK;
        refused += status != SL_OK;
        journal_remove(path);
    }
    assert_true(opened > 0 && refused > 0);
}

static void after_a_failure_nothing_more_is_taken(void **state) {
    (void)state;
    struct journal *journal = must_make();
    struct error err = {0};
    uint64_t record;
    assert_int_equal(fill(journal, NULL), SL_OK);
    assert_int_equal(journal_begin(journal, NULL), SL_OK);
    assert_int_equal(put_line(journal, 9, false, "nine\n", NULL), SL_OK);
    fault_arm(SL_FAULT_WRITE, 1, false);
    assert_int_equal(journal_commit(journal, &record, &err), SL_ERR_ENV);
    fault_arm(SL_FAULT_WRITE, 0, false);
    assert_non_null(strstr(err.text, "No space left on device"));
    assert_int_equal(journal_commit(journal, &record, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "nothing more after a failure"));
    journal_close(journal);
    journal = must_open();
    assert_kept(journal, 1, ALL_LINES, ALL_TOKENS);
    journal_close(journal);
    journal_remove(path);
}

/* A journal that cannot be made leaves nothing, at whichever write or sync it fails. */
static void a_journal_that_cannot_be_made_leaves_nothing(void **state) {
    (void)state;
    static const enum fault_point points[] = {SL_FAULT_WRITE, SL_FAULT_SYNC, SL_FAULT_SQL,
                                              SL_FAULT_OPEN};
    for (size_t p = 0; p < sizeof points / sizeof points[0]; p++) {
        for (uint64_t nth = 1;; nth++) {
            struct fingerprint none;
            struct journal *journal = NULL;
            struct error err = {0};
            fingerprint_init(&none);
            fault_arm(points[p], nth, false);
            enum status status = journal_make(path, &none, &none, &journal, &err);
            bool has_met_one = fault_count(points[p]) >= nth;
            fault_arm(points[p], 0, false);
            if (status == SL_OK) {
                journal_close(journal);
                journal_remove(path);
            } else {
                assert_int_equal(status, SL_ERR_ENV);
                assert_int_equal(access(path, F_OK), -1);
            }
            if (!has_met_one) {
                assert_int_equal(status, SL_OK);
                assert_true(nth > 1);
                break;
            }
        }
    }
}

static void differences_are_named_one_by_one(void **state) {
    (void)state;
    struct fingerprint was, is;
    struct buf text;
    fingerprint_init(&was);
    fingerprint_init(&is);
    buf_init(&text);
    add(&was, "--seed", "0");
    add(&was, "rows", "3");
    add(&was, "model file a", "1 bytes");
    add(&is, "--seed", "7");
    add(&is, "rows", "3");
    add(&is, "--system", "");
    assert_int_equal(fingerprint_compare(&was, &was, &text), 0);
    assert_int_equal(text.len, 0);
    assert_int_equal(fingerprint_compare(&was, &is, &text), 3);
    assert_string_equal(text.data, "--seed was 0, is 7; model file a was 1 bytes, is not there; "
                                   "--system was not there, is not there");
    assert_true(fingerprint_hash(&was) != fingerprint_hash(&is));
    buf_release(&text);
    fingerprint_release(&was);
    fingerprint_release(&is);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_tokens_come_back_in_order),
        cmocka_unit_test(names_and_values_come_back_and_the_end_is_small),
        cmocka_unit_test(what_is_not_committed_is_not_there),
        cmocka_unit_test(a_killed_process_leaves_its_commits_and_no_lock),
        cmocka_unit_test(what_is_no_journal_is_refused_and_stays),
        cmocka_unit_test(damaged_contents_are_refused),
        cmocka_unit_test(flipped_bytes_are_no_crash),
        cmocka_unit_test(after_a_failure_nothing_more_is_taken),
        cmocka_unit_test(a_journal_that_cannot_be_made_leaves_nothing),
        cmocka_unit_test(differences_are_named_one_by_one),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
