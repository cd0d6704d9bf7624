/* What stands on stderr, read back through a pipe. */
#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int saved_stderr = -1, pipe_read = -1;

static void begin_capture(void) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    saved_stderr = dup(STDERR_FILENO);
    assert_true(saved_stderr >= 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    pipe_read = ends[0];
}

/* What was written since begin_capture, up to size - 1 bytes; stderr is as before. */
static void end_capture(char *text, size_t size) {
    size_t len = 0;
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    for (ssize_t got; len < size - 1 && (got = read(pipe_read, text + len, size - 1 - len)) > 0;)
        len += (size_t)got;
    close(pipe_read);
    text[len] = '\0';
}

static void errors_and_warnings_carry_the_name(void **state) {
    (void)state;
    char text[1000];
    begin_capture();
    log_error("no file %s", "a.jsonl");
    log_warning("slow");
    log_note("row %d done", 3);
    end_capture(text, sizeof text);
    assert_string_equal(text, "sluice: no file a.jsonl\nsluice: slow\nrow 3 done\n");
}

static void message_clears_the_progress_line(void **state) {
    (void)state;
    char text[1000];
    begin_capture();
    log_progress("rows 1/2");
    log_progress("rows 2/2");
    log_note("done");
    log_note("bye");
    log_progress("");
    log_progress("again");
    log_progress("");
    end_capture(text, sizeof text);
    assert_string_equal(text, "\r\033[Krows 1/2\r\033[Krows 2/2\r\033[Kdone\nbye\n"
                              "\r\033[Kagain\r\033[K");
}

static void hostile_names_do_not_reach_the_terminal(void **state) {
    (void)state;
    char text[1000];
    begin_capture();
    log_error("%s", "x\033[2J\n\xff");
    log_progress("a\nb");
    log_progress("");
    end_capture(text, sizeof text);
    assert_string_equal(text, "sluice: x?[2J??\n\r\033[Ka?b\r\033[K");
}

static void message_of_any_length_ends_its_line(void **state) {
    (void)state;
    char text[4000], name[3000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    begin_capture();
    log_error("%s", name);
    end_capture(text, sizeof text);
    assert_true(strlen(text) > 1000);
    assert_int_equal(text[strlen(text) - 1], '\n');
}

static void closed_stderr_is_ignored(void **state) {
    (void)state;
    char text[100];
    begin_capture();
    close(pipe_read); /* a broken pipe: EPIPE, and SIGPIPE unless blocked */
    log_error("nobody hears this");
    pipe_read = dup(saved_stderr);
    close(STDERR_FILENO);
    log_error("nor this");
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(pipe_read);
    begin_capture();
    log_error("heard");
    end_capture(text, sizeof text);
    assert_string_equal(text, "sluice: heard\n");
}

static void *say_often(void *argument) {
    for (int i = 0; i < 100; i++)
        log_note("%s", (const char *)argument);
    return NULL;
}

static void lines_of_threads_stay_whole(void **state) {
    (void)state;
    static char text[40000];
    pthread_t threads[3];
    const char *words[] = {"one one one one", "two two two two", "six six six six"};
    size_t lines = 0;
    begin_capture();
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, say_often, (void *)(uintptr_t)words[i]),
                         0);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    end_capture(text, sizeof text);
    for (char *line = text; *line; lines++) {
        char *stop = strchr(line, '\n');
        assert_non_null(stop);
        *stop = '\0';
        assert_true(!strcmp(line, words[0]) || !strcmp(line, words[1]) || !strcmp(line, words[2]));
        line = stop + 1;
    }
    assert_int_equal(lines, 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_and_warnings_carry_the_name),
        cmocka_unit_test(message_clears_the_progress_line),
        cmocka_unit_test(hostile_names_do_not_reach_the_terminal),
        cmocka_unit_test(message_of_any_length_ends_its_line),
        cmocka_unit_test(closed_stderr_is_ignored),
        cmocka_unit_test(lines_of_threads_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
