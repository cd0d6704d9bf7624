/* What is opened, who has it locked, and how failures read. */
#include "job/database.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/sqlite_for_test.h"

static char folder[] = "/tmp/sluice-database-XXXXXX", path[PATH_MAX];

static int make_folder(void **state) {
    (void)state;
    test_sqlite_begin();
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder); /* fails if a test left anything, a log for one */
}

static enum status open_here(struct database *database, bool makes, struct error *err) {
    enum status status = database_open(path, makes, database, err);
    if (status == SL_OK)
        status = database_run(database, "PRAGMA journal_mode=WAL; BEGIN IMMEDIATE; COMMIT",
                              "opened", err);
    return status;
}

static void is_in_the_way(void) {
    struct error err = {0};
    assert_int_equal(database_check_path(path, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "in the way"));
    err = (struct error){0};
    assert_int_equal(database_check(path, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "in the way"));
}

static void only_regular_files_can_be_opened(void **state) {
    (void)state;
    assert_int_equal(database_check(path, NULL), SL_OK);
    assert_int_equal(mkdir(path, 0700), 0);
    is_in_the_way();
    rmdir(path);
    assert_int_equal(symlink("elsewhere", path), 0);
    is_in_the_way();
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    is_in_the_way();
    unlink(path);
}

static void a_missing_file_is_made_when_asked_for_and_removed_with_its_log(void **state) {
    (void)state;
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    struct database database;
    struct error err = {0};
    char name[PATH_MAX + 16];
    assert_int_equal(open_here(&database, false, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "the journal cannot be opened: No such file or directory"));
    database_close(&database);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(open_here(&database, true, &err), SL_OK);
    database_close(&database);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        FILE *file = fopen(name, "a");
        assert_non_null(file);
        assert_int_equal(fclose(file), 0);
    }
    database_remove(path);
    database_remove(path);
}

static void the_process_that_has_the_lock_is_named(void **state) {
    (void)state;
    struct database database;
    struct error err = {0};
    char byte, says[64];
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool is_right = open_here(&database, true, NULL) == SL_OK && write(ready[1], "x", 1) == 1;
        pause();
        _exit(is_right ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    snprintf(says, sizeof says, "another run (process %ld)", (long)child);
    assert_int_equal(database_check(path, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, says));
    err = (struct error){0};
    assert_int_equal(open_here(&database, false, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, says));
    assert_null(database.connection);
    database_close(&database);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(database_check(path, &err), SL_OK);
    assert_int_equal(open_here(&database, false, &err), SL_OK);
    database_close(&database);
    database_remove(path);
}

static void a_question_has_one_number(void **state) {
    (void)state;
    struct database database;
    struct error err = {0};
    int64_t number = 0;
    assert_int_equal(open_here(&database, true, &err), SL_OK);
    assert_int_equal(database_ask(&database, "SELECT 12 + 30", &number, &err), SL_OK);
    assert_int_equal(number, 42);
    assert_int_equal(database_check_whole(&database, &err), SL_OK);
    assert_int_equal(database_ask(&database, "SELECT 1 WHERE 0", &number, &err), SL_ERR_ENV);
    assert_int_equal(number, 42);
    database_close(&database);
    database_remove(path);
}

static void after_a_failure_nothing_more_is_taken(void **state) {
    (void)state;
    static const struct {
        enum fault_point point;
        const char *says;
    } faults[] = {{SL_FAULT_WRITE, "the journal cannot be written: No space left on device"},
                  {SL_FAULT_SQL, "the journal cannot be written: Input/output error"}};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct database database;
        struct error err = {0};
        assert_int_equal(open_here(&database, true, &err), SL_OK);
        fault_arm(faults[i].point, 1, false);
        assert_int_equal(database_run(&database, "CREATE TABLE some(x)", "written", &err),
                         SL_ERR_ENV);
        fault_arm(faults[i].point, 0, false);
        assert_non_null(strstr(err.text, path));
        assert_non_null(strstr(err.text, faults[i].says));
        assert_int_equal(database_check_whole(&database, &err), SL_ERR_ENV);
        assert_non_null(strstr(err.text, "nothing more after a failure"));
        database_close(&database);
        database_remove(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_regular_files_can_be_opened),
        cmocka_unit_test(a_missing_file_is_made_when_asked_for_and_removed_with_its_log),
        cmocka_unit_test(the_process_that_has_the_lock_is_named),
        cmocka_unit_test(a_question_has_one_number),
        cmocka_unit_test(after_a_failure_nothing_more_is_taken),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
