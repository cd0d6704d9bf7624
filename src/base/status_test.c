/* What an error says, and that hostile names in it cannot harm a terminal. */
#include "base/status.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void error_says_what_was_formatted(void **state) {
    (void)state;
    struct error err;
    assert_int_equal(error_set(&err, SL_ERR_INPUT, "row %d: %s", 7, "no prompt"), SL_ERR_INPUT);
    assert_int_equal(err.status, SL_ERR_INPUT);
    assert_string_equal(err.text, "row 7: no prompt");
}

static void error_without_a_place_keeps_its_status(void **state) {
    (void)state;
    assert_int_equal(error_set(NULL, SL_ERR_ROW, "x"), SL_ERR_ROW);
    assert_int_equal(error_memory(NULL, 5, "x"), SL_ERR_ENV);
}

static void error_hides_control_bytes_and_bad_utf8(void **state) {
    (void)state;
    struct error err;
    error_set(&err, SL_ERR_ENV, "a%sb", "\033[2J\n\t\x7f");
    assert_string_equal(err.text, "a?[2J???b");
    error_set(&err, SL_ERR_ENV, "%s", "gr\xc3\xbc\xc3\x9f\x65 \xff \xc2\x9b \xed\xa0\x80.");
    assert_string_equal(err.text, "gr\xc3\xbc\xc3\x9f\x65 ? ? ???.");
}

static void error_is_cut_between_characters(void **state) {
    (void)state;
    struct error err;
    char name[1001];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(name, 'a', shift);
        for (size_t i = shift; i + 3 < sizeof name; i += 3)
            memcpy(name + i, "\xe2\x82\xac", 3);
        name[sizeof name - 3] = '\0';
        error_set(&err, SL_ERR_ENV, "%s", name);
        /* 599 bytes have room: so many whole characters of 3 bytes after the shift. */
        assert_int_equal(strlen(err.text), shift + (599 - shift) / 3 * 3);
        assert_null(strchr(err.text, '?'));
    }
}

static void prefix_stands_before_the_text(void **state) {
    (void)state;
    struct error err;
    error_set(&err, SL_ERR_INPUT, "no value");
    assert_int_equal(error_prefix(&err, "line %d", 3), SL_ERR_INPUT);
    assert_int_equal(error_prefix(&err, "%s", "rows.jsonl"), SL_ERR_INPUT);
    assert_string_equal(err.text, "rows.jsonl: line 3: no value");
}

static void arguments_may_be_the_text_itself(void **state) {
    (void)state;
    struct error err;
    error_set(&err, SL_ERR_INPUT, "inner");
    error_set(&err, SL_ERR_ENV, "outer (%s)", err.text);
    assert_string_equal(err.text, "outer (inner)");
}

static void long_prefix_is_cut_safely(void **state) {
    (void)state;
    struct error err;
    char name[900];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    error_set(&err, SL_ERR_INPUT, "inner");
    error_prefix(&err, "%s", name);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void memory_error_names_size_and_purpose(void **state) {
    (void)state;
    struct error err;
    assert_int_equal(error_memory(&err, 4096, "a slab"), SL_ERR_ENV);
    assert_string_equal(err.text, "out of memory (needed 4096 bytes for a slab)");
}

static enum status tries(enum status inner, int *after) {
    TRY(inner);
    *after = 1;
    return SL_OK;
}

static void try_passes_failure_up(void **state) {
    (void)state;
    int after = 0;
    assert_int_equal(tries(SL_ERR_ROW, &after), SL_ERR_ROW);
    assert_int_equal(after, 0);
    assert_int_equal(tries(SL_OK, &after), SL_OK);
    assert_int_equal(after, 1);
}

static void must_aborts_when_it_does_not_hold(void **state) {
    (void)state;
    must(1 + 1 == 2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka's handler would long-jump */
        close(STDERR_FILENO);
        must(1 + 1 == 3);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_says_what_was_formatted),
        cmocka_unit_test(error_without_a_place_keeps_its_status),
        cmocka_unit_test(error_hides_control_bytes_and_bad_utf8),
        cmocka_unit_test(error_is_cut_between_characters),
        cmocka_unit_test(prefix_stands_before_the_text),
        cmocka_unit_test(arguments_may_be_the_text_itself),
        cmocka_unit_test(long_prefix_is_cut_safely),
        cmocka_unit_test(memory_error_names_size_and_purpose),
        cmocka_unit_test(try_passes_failure_up),
        cmocka_unit_test(must_aborts_when_it_does_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
