/* What the sink leaves on the disk, and what it refuses. */
#include "job/sink.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/sluice-sink-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder); /* fails if a test left anything, a temporary file for one */
}

static const char *in_folder(const char *name) {
    static char paths[4][PATH_MAX];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_holds(const char *path, const char *expected) {
    char text[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    fclose(file);
    assert_string_equal(text, expected);
}

static struct sink *must_open(const char *path, bool overwrites, bool keeps_input_order) {
    struct sink_options options = {path, overwrites, keeps_input_order, {NULL}};
    struct sink *sink;
    struct error err = {0};
    if (sink_open(&options, &sink, &err) != SL_OK)
        fail_msg("%s", err.text);
    return sink;
}

static void refuses(const char *path, enum status status, const char *says) {
    struct sink_options options = {path, false, true, {NULL}};
    struct sink *sink = NULL;
    struct error err = {0};
    assert_int_equal(sink_open(&options, &sink, &err), status);
    assert_null(sink);
    if (strstr(err.text, says) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", err.text, says);
}

static void put(struct sink *sink, size_t index, const char *line) {
    struct error err = {0};
    if (sink_write(sink, index, str_from(line), &err) != SL_OK)
        fail_msg("%s", err.text);
}

static void lines_end_in_input_order(void **state) {
    (void)state;
    const char *path = in_folder("out");
    struct sink *sink = must_open(path, false, true);
    assert_int_equal(sink_begin(sink, 3, NULL), SL_OK);
    put(sink, 2, "two\n");
    put(sink, 0, "zero\n");
    assert_holds(path, "two\nzero\n"); /* in order of completion while the job runs */
    put(sink, 1, "one\n");
    assert_int_equal(sink_finish(sink, NULL), SL_OK);
    sink_close(sink);
    assert_holds(path, "zero\none\ntwo\n");
    unlink(path);
}

static void order_of_completion_can_stay(void **state) {
    (void)state;
    const char *path = in_folder("out");
    struct sink *sink = must_open(path, false, false);
    assert_int_equal(sink_begin(sink, 2, NULL), SL_OK);
    put(sink, 1, "one\n");
    put(sink, 0, "zero\n");
    assert_int_equal(sink_finish(sink, NULL), SL_OK);
    sink_close(sink);
    assert_holds(path, "one\nzero\n");
    unlink(path);
}

static void a_file_that_gets_no_line_is_removed(void **state) {
    (void)state;
    const char *path = in_folder("out");
    sink_close(must_open(path, false, true));
    assert_int_equal(access(path, F_OK), -1);
    struct sink *sink = must_open(path, false, true); /* stopped before the first line */
    assert_int_equal(sink_begin(sink, 1, NULL), SL_OK);
    sink_close(sink);
    assert_int_equal(access(path, F_OK), -1);
    sink = must_open(path, false, true);
    assert_int_equal(sink_begin(sink, 1, NULL), SL_OK);
    put(sink, 0, "zero\n");
    sink_close(sink); /* stopped later */
    assert_holds(path, "zero\n");
    unlink(path);
    sink = must_open(path, false, true);
    assert_int_equal(sink_begin(sink, 0, NULL), SL_OK);
    assert_int_equal(sink_finish(sink, NULL), SL_OK); /* a job without rows has come to its end */
    sink_close(sink);
    assert_holds(path, "");
    unlink(path);
    write_text(path, "");
    sink_close(must_open(path, false, true)); /* it was there before: it stays */
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
}

static void old_content_is_kept_without_overwrite(void **state) {
    (void)state;
    const char *path = in_folder("out");
    write_text(path, "precious\n");
    refuses(path, SL_ERR_INPUT, "--overwrite");
    assert_holds(path, "precious\n");
    struct sink *sink = must_open(path, true, true);
    assert_holds(path, "precious\n"); /* until the first line is there to come */
    assert_int_equal(sink_begin(sink, 1, NULL), SL_OK);
    put(sink, 0, "new\n");
    assert_int_equal(sink_finish(sink, NULL), SL_OK);
    sink_close(sink);
    assert_holds(path, "new\n");
    unlink(path);
}

static void places_that_cannot_be_written_are_refused(void **state) {
    (void)state;
    refuses(folder, SL_ERR_USAGE, "is a folder");
    refuses(in_folder("none/out"), SL_ERR_ENV, "No such file");
    refuses("", SL_ERR_USAGE, "no name");
    if (geteuid() != 0) { /* root may write anywhere */
        assert_int_equal(chmod(folder, 0555), 0);
        refuses(in_folder("out"), SL_ERR_ENV, "Permission denied");
        assert_int_equal(chmod(folder, 0755), 0);
    }
}

static void other_files_of_the_job_are_no_output(void **state) {
    (void)state;
    const char *path = in_folder("rows");
    write_text(path, "{}\n");
    struct sink_options options = {path, true, true, {NULL, NULL, path}};
    struct sink *sink;
    struct error err = {0};
    assert_int_equal(sink_open(&options, &sink, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "for something else"));
    assert_holds(path, "{}\n");
    unlink(path);
}

static void a_second_run_is_refused_with_the_pid_of_the_first(void **state) {
    (void)state;
    const char *path = in_folder("out");
    struct sink *sink = must_open(path, false, true);
    pid_t parent = getpid(), child = fork(); /* locks are a process's own */
    assert_true(child >= 0);
    if (child == 0) {
        char expected[64];
        struct sink_options options = {path, true, true, {NULL}};
        struct sink *other;
        struct error err = {0};
        snprintf(expected, sizeof expected, "(process %ld)", (long)parent);
        enum status status = sink_open(&options, &other, &err);
        _exit(status == SL_ERR_ENV && strstr(err.text, expected) != NULL ? 0 : 1);
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
    assert_int_equal(access(path, F_OK), 0); /* the refused one has not removed it */
    sink_close(sink);
}

static void links_are_written_through(void **state) {
    (void)state;
    const char *link = in_folder("link"), *target = in_folder("target");
    struct stat info;
    assert_int_equal(symlink("target", link), 0); /* to nothing yet */
    struct sink *sink = must_open(link, false, true);
    assert_int_equal(sink_begin(sink, 2, NULL), SL_OK);
    put(sink, 1, "one\n");
    put(sink, 0, "zero\n");
    assert_int_equal(sink_finish(sink, NULL), SL_OK);
    sink_close(sink);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_holds(target, "zero\none\n");
    unlink(link);
    unlink(target);
}

static void devices_are_written_to_and_stay(void **state) {
    (void)state;
    const char *link = in_folder("link");
    struct error err = {0};
    struct stat info;
    struct sink *sink = must_open("/dev/null", false, true);
    assert_false(sink_is_file(sink));
    assert_int_equal(sink_begin(sink, 1, NULL), SL_OK);
    put(sink, 0, "zero\n");
    assert_int_equal(sink_finish(sink, NULL), SL_OK);
    sink_close(sink);

    assert_int_equal(symlink("/dev/full", link), 0);
    sink = must_open(link, false, true);
    assert_int_equal(sink_begin(sink, 1, NULL), SL_OK);
    assert_int_equal(sink_write(sink, 0, STR("zero\n"), &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "No space left"));
    assert_non_null(strstr(err.text, link)); /* the name that the user gave */
    sink_close(sink);
    assert_int_equal(stat(link, &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    unlink(link);
}

static void a_torn_line_is_cut_off_again(void **state) {
    (void)state;
    const char *path = in_folder("out");
    struct rlimit before, small;
    struct error err = {0};
    struct sink *sink = must_open(path, false, true);
    assert_int_equal(sink_begin(sink, 2, NULL), SL_OK);
    put(sink, 1, "0123456789\n");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){16, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum status status = sink_write(sink, 0, STR("0123456789\n"), &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, SL_ERR_ENV);
    assert_non_null(strstr(err.text, "too large"));
    assert_holds(path, "0123456789\n");
    put(sink, 0, "again\n"); /* room again */
    assert_int_equal(sink_finish(sink, NULL), SL_OK);
    sink_close(sink);
    assert_holds(path, "again\n0123456789\n");
    unlink(path);
}

/* Every write and sync of the ordering fails in turn: the lines stay as they were, and nothing
 * beside them. */
static void no_room_for_the_ordered_file_loses_nothing(void **state) {
    (void)state;
    const char *path = in_folder("out");
    static const enum fault_point points[] = {SL_FAULT_WRITE, SL_FAULT_SYNC};
    for (size_t p = 0; p < 2; p++) {
        struct sink *sink = must_open(path, true, true);
        struct error err = {0};
        assert_int_equal(sink_begin(sink, 2, NULL), SL_OK);
        put(sink, 1, "one\n");
        put(sink, 0, "zero\n");
        uint64_t nth = 1;
        for (;; nth++) {
            fault_arm(points[p], nth, false);
            enum status status = sink_finish(sink, &err);
            bool has_met_one = fault_count(points[p]) >= nth;
            fault_arm(points[p], 0, false);
            if (!has_met_one) {
                assert_int_equal(status, SL_OK);
                break;
            }
            assert_int_equal(status, SL_ERR_ENV);
            assert_non_null(strstr(err.text, "stay in order of completion"));
            assert_holds(path, "one\nzero\n");
        }
        assert_true(nth > 1);
        assert_holds(path, "zero\none\n");
        sink_close(sink);
        unlink(path);
    }
}

/* The file for the ordered lines: a stale one goes, anything else is refused at once and stays. */
static void what_lies_beside_the_output_is_not_touched(void **state) {
    (void)state;
    const char *path = in_folder("out"), *beside = in_folder("out.sluice.tmp");
    const char *target = in_folder("precious");
    write_text(target, "precious\n");
    assert_int_equal(symlink(target, beside), 0);
    refuses(path, SL_ERR_ENV, "out.sluice.tmp is in the way");
    struct sink *sink = must_open(path, false, false); /* needs none */
    sink_close(sink);
    unlink(beside);
    assert_int_equal(mkdir(beside, 0700), 0);
    refuses(path, SL_ERR_ENV, "out.sluice.tmp is in the way");
    rmdir(beside);

    struct error err = {0};
    sink = must_open(path, false, true);
    assert_int_equal(sink_begin(sink, 2, NULL), SL_OK);
    put(sink, 1, "one\n");
    put(sink, 0, "zero\n");
    assert_int_equal(symlink(target, beside), 0); /* comes later */
    assert_int_equal(sink_finish(sink, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "out.sluice.tmp is in the way"));
    assert_holds(path, "one\nzero\n");
    assert_holds(target, "precious\n");
    unlink(beside);
    write_text(beside, "half a line, of a run that was killed");
    assert_int_equal(sink_finish(sink, &err), SL_OK);
    assert_holds(path, "zero\none\n");
    sink_close(sink);
    unlink(path);
    unlink(target);
}

static void a_closed_pipe_is_a_quiet_end(void **state) {
    (void)state;
    const char *path = in_folder("pipe");
    struct error err = {.text = "x"};
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    struct sink *sink = must_open(path, false, true);
    assert_int_equal(sink_begin(sink, 1, NULL), SL_OK);
    close(reader);
    assert_int_equal(sink_write(sink, 0, STR("zero\n"), &err), SL_ERR_STOPPED);
    assert_string_equal(err.text, "");
    sink_close(sink);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_in_input_order),
        cmocka_unit_test(order_of_completion_can_stay),
        cmocka_unit_test(a_file_that_gets_no_line_is_removed),
        cmocka_unit_test(old_content_is_kept_without_overwrite),
        cmocka_unit_test(places_that_cannot_be_written_are_refused),
        cmocka_unit_test(other_files_of_the_job_are_no_output),
        cmocka_unit_test(a_second_run_is_refused_with_the_pid_of_the_first),
        cmocka_unit_test(links_are_written_through),
        cmocka_unit_test(devices_are_written_to_and_stay),
        cmocka_unit_test(a_torn_line_is_cut_off_again),
        cmocka_unit_test(no_room_for_the_ordered_file_loses_nothing),
        cmocka_unit_test(what_lies_beside_the_output_is_not_touched),
        cmocka_unit_test(a_closed_pipe_is_a_quiet_end),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
