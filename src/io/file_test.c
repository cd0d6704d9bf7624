/* Files in a folder of their own: what opens, what is refused, what a read gives. */
#include "io/file.h"

#include "base/fault_for_test.h"
#include "base/mem.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char shown_path[100];

static const char *path_of(const char *name) {
    snprintf(shown_path, sizeof shown_path, "%s/%s", folder, name);
    return shown_path;
}

static void write_file(const char *name, const void *data, size_t bytes) {
    FILE *to = fopen(path_of(name), "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(data, 1, bytes, to), bytes);
    assert_int_equal(fclose(to), 0);
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/sluice-file-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    const char *names[] = {"a", "empty", "fifo", "socket", "link", "sub"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(path_of(names[i]));
    return rmdir(folder);
}

static void file_reads_any_range(void **state) {
    (void)state;
    char data[10000], got[10000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 + i / 256);
    write_file("a", data, sizeof data);
    struct error err = {0};
    for (int wants_direct = 0; wants_direct < 2; wants_direct++) {
        struct file *file = NULL;
        assert_int_equal(file_open(path_of("a"), wants_direct, &file, &err), SL_OK);
        assert_int_equal(file->bytes, sizeof data);
        assert_string_equal(file->path, path_of("a"));
        assert_true(file->fd >= 0);
        assert_int_equal(file->is_direct_refused, wants_direct && file->direct_fd < 0);
        if (!wants_direct)
            assert_int_equal(file->direct_fd, -1);
        assert_int_equal(file_read_at(file, 0, got, sizeof got, &err), SL_OK);
        assert_memory_equal(got, data, sizeof data);
        assert_int_equal(file_read_at(file, 4095, got, 3, &err), SL_OK);
        assert_memory_equal(got, data + 4095, 3);
        assert_int_equal(file_read_at(file, sizeof data, got, 0, &err), SL_OK);
        file_close(file);
    }
}

static void file_read_past_the_end_names_place(void **state) {
    (void)state;
    char got[16];
    write_file("a", "0123456789", 10);
    struct error err = {0};
    struct file *file = NULL;
    assert_int_equal(file_open(path_of("a"), false, &file, &err), SL_OK);
    assert_int_equal(file_read_at(file, 4, got, 16, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, path_of("a")));
    assert_non_null(strstr(err.text, "wanted 16 bytes at offset 4, got 6"));
    assert_int_equal(file_read_at(file, UINT64_MAX - 3, got, 16, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "Invalid argument"));
    file_close(file);
}

static void refuse(const char *name, const char *reason) {
    struct error err = {0};
    struct file *file = NULL;
    assert_int_equal(file_open(path_of(name), true, &file, &err), SL_ERR_ENV);
    assert_null(file);
    assert_non_null(strstr(err.text, path_of(name)));
    if (strstr(err.text, reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, reason);
}

/* A FIFO without a writer would block an ordinary open for ever. */
static void file_open_refuses_what_is_no_file(void **state) {
    (void)state;
    assert_int_equal(mkdir(path_of("sub"), 0700), 0);
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path_of("socket"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    refuse("sub", "is a folder");
    refuse("fifo", "is a FIFO");
    refuse("socket", "is a socket");
    refuse("absent", "No such file or directory");
    close(fd);
    struct error err = {0};
    struct file *file = NULL;
    assert_int_equal(file_open("/dev/null", false, &file, &err), SL_ERR_ENV);
    assert_string_equal(err.text, "/dev/null: is a device, not a regular file");
    assert_true(file_is_folder(path_of("sub")));
    assert_false(file_is_folder(path_of("fifo")));
    assert_true(file_exists(path_of("fifo")));
    assert_false(file_exists(path_of("absent")));
}

static void file_open_follows_links(void **state) {
    (void)state;
    write_file("a", "abc", 3);
    assert_int_equal(symlink("a", path_of("link")), 0);
    struct buf buf;
    buf_init(&buf);
    struct error err = {0};
    assert_int_equal(file_read_all(path_of("link"), 100, &buf, &err), SL_OK);
    assert_true(str_is(buf_str(&buf), "abc"));
    buf_release(&buf);
}

static void file_read_all_keeps_its_limit(void **state) {
    (void)state;
    struct buf buf;
    buf_init(&buf);
    buf_add(&buf, STR("what was there before"));
    struct error err = {0};
    write_file("a", "0123456789", 10);
    assert_int_equal(file_read_all(path_of("a"), 10, &buf, &err), SL_OK);
    assert_int_equal(buf.len, 10);
    assert_string_equal(buf.data, "0123456789");
    buf_add(&buf, STR("0123456789 and more"));
    assert_int_equal(buf.len, 29);
    assert_int_equal(file_read_all(path_of("a"), 9, &buf, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "has 10 bytes, at most 9"));
    write_file("empty", "", 0);
    assert_int_equal(file_read_all(path_of("empty"), 0, &buf, &err), SL_OK);
    assert_int_equal(buf.len, 0);
    assert_string_equal(buf.data, "");
    buf_release(&buf);
}

static void file_survives_short_reads(void **state) {
    (void)state;
    write_file("a", "0123456789", 10);
    struct buf buf;
    buf_init(&buf);
    struct error err = {0};
    fault_arm(SL_FAULT_SHORT_READ, 1, false);
    assert_int_equal(file_read_all(path_of("a"), 10, &buf, &err), SL_OK);
    assert_string_equal(buf.data, "0123456789");
    assert_int_equal(fault_count(SL_FAULT_SHORT_READ), 2);
    buf_release(&buf);
}

/* Fails the first, second, ... call of each point until a run meets none. */
static void file_faults_are_clean_errors(void **state) {
    (void)state;
    write_file("a", "0123456789", 10);
    enum fault_point points[] = {SL_FAULT_ALLOC, SL_FAULT_OPEN, SL_FAULT_READ};
    for (size_t p = 0; p < 3; p++) {
        uint64_t nth = 1;
        for (;; nth++) {
            struct buf buf;
            buf_init(&buf);
            struct error err = {0};
            fault_arm(points[p], nth, false);
            enum status status = file_read_all(path_of("a"), 10, &buf, &err);
            bool was_met = fault_count(points[p]) >= nth;
            fault_arm(points[p], 0, false);
            if (was_met) {
                assert_int_equal(status, SL_ERR_ENV);
                assert_int_equal(err.status, SL_ERR_ENV);
                assert_true(strlen(err.text) > 10);
            } else {
                assert_int_equal(status, SL_OK);
            }
            buf_release(&buf);
            if (!was_met)
                break;
        }
        assert_true(nth > 1);
    }
}

/* The trial read of direct I/O fails: no error, only no direct I/O. */
static void file_open_does_without_direct_reads(void **state) {
    (void)state;
    write_file("a", "0123456789", 10);
    struct error err = {0};
    struct file *file = NULL;
    fault_arm(SL_FAULT_READ, 1, false);
    assert_int_equal(file_open(path_of("a"), true, &file, &err), SL_OK);
    assert_int_equal(file->direct_fd, -1);
    assert_true(file->is_direct_refused);
    file_close(file);
    file_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(file_reads_any_range, fault_disarm_all),
        cmocka_unit_test_teardown(file_read_past_the_end_names_place, fault_disarm_all),
        cmocka_unit_test_teardown(file_open_refuses_what_is_no_file, fault_disarm_all),
        cmocka_unit_test_teardown(file_open_follows_links, fault_disarm_all),
        cmocka_unit_test_teardown(file_read_all_keeps_its_limit, fault_disarm_all),
        cmocka_unit_test_teardown(file_survives_short_reads, fault_disarm_all),
        cmocka_unit_test_teardown(file_faults_are_clean_errors, fault_disarm_all),
        cmocka_unit_test_teardown(file_open_does_without_direct_reads, fault_disarm_all),
    };
    return cmocka_run_group_tests_name("file", tests, make_folder, remove_folder);
}
