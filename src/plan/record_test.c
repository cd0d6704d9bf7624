/* Records: written, read back, and never trusted. */
#include "plan/record.h"

#include "base/fault.h"
#include "plan/folder_for_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char home[64];

static int make_home(void **state) {
    (void)state;
    snprintf(home, sizeof home, "/tmp/sluice-record-XXXXXX");
    return mkdtemp(home) == NULL;
}

static int remove_home(void **state) {
    (void)state;
    return folder_remove(home);
}

static struct probe_record sample(void) {
    struct probe_record record = {
        .drive = "259:0 \"a\" drive",
        .method = &ring_method_uring,
        .chunk_bytes = 4u << 20,
        .depth = 8,
        .bytes_per_second = 2500000000u,
        .sustained_bytes_per_second = 2400000000u,
        .file_bytes = 1u << 30,
        .date = 1795000000,
        .is_quick = true,
    };
    return record;
}

/* The one file in HOME/probes. */
static void find_file(char path[200]) {
    char folder_path[100];
    snprintf(folder_path, sizeof folder_path, "%s/probes", home);
    DIR *folder = opendir(folder_path);
    size_t count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, 200, "%.60s/%.60s", folder_path, entry->d_name);
        count++;
    }
    closedir(folder);
    assert_int_equal(count, 1); /* nothing is left beside it */
}

static void a_probe_record_comes_back_as_it_was(void **state) {
    (void)state;
    struct probe_record record = sample(), back;
    struct error err = {0};
    assert_false(record_get_probe(home, record.drive, &back));
    for (uint64_t chunk = 1; chunk <= 2; chunk++) {
        record.chunk_bytes = (size_t)chunk << 20;
        assert_int_equal(record_put_probe(home, &record, &err), SL_OK);
        assert_true(record_get_probe(home, record.drive, &back));
        assert_string_equal(back.drive, record.drive);
        assert_ptr_equal(back.method, record.method);
        assert_int_equal(back.chunk_bytes, record.chunk_bytes);
        assert_int_equal(back.depth, record.depth);
        assert_int_equal(back.bytes_per_second, record.bytes_per_second);
        assert_int_equal(back.sustained_bytes_per_second, record.sustained_bytes_per_second);
        assert_int_equal(back.file_bytes, record.file_bytes);
        assert_int_equal(back.date, record.date);
        assert_true(back.is_quick);
    }
    assert_false(record_get_probe(home, "another", &back));
    assert_false(record_get_probe(NULL, record.drive, &back));
}

static void nonsense_in_a_record_is_no_record(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{\"drive\": \"other\"}",
        "{\"drive\": \"259:0 \\\"a\\\" drive\"}",
        "{\"drive\": \"259:0 \\\"a\\\" drive\", \"method\": \"pool\", \"chunk_bytes\": 0, "
        "\"depth\": 4, \"bytes_per_second\": 5, \"sustained_bytes_per_second\": 5, "
        "\"file_bytes\": 5, \"date\": 5}",
        "{\"drive\": \"259:0 \\\"a\\\" drive\", \"method\": \"floppy\", \"chunk_bytes\": 65536, "
        "\"depth\": 4, \"bytes_per_second\": 5, \"sustained_bytes_per_second\": 5, "
        "\"file_bytes\": 5, \"date\": 5}",
        "{\"drive\": \"259:0 \\\"a\\\" drive\", \"method\": \"pool\", \"chunk_bytes\": 65536, "
        "\"depth\": 65, \"bytes_per_second\": 5, \"sustained_bytes_per_second\": 5, "
        "\"file_bytes\": 5, \"date\": 5}",
    };
    struct probe_record record = sample(), back;
    struct error err = {0};
    char path[200];
    assert_int_equal(record_put_probe(home, &record, &err), SL_OK);
    find_file(path);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(texts[i], file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_false(record_get_probe(home, record.drive, &back));
    }
    assert_int_equal(record_put_probe(home, &record, &err), SL_OK); /* and it is mended */
    assert_true(record_get_probe(home, record.drive, &back));
}

static void a_record_that_cannot_be_written_leaves_the_old_one(void **state) {
    (void)state;
    struct probe_record record = sample(), back;
    struct error err = {0};
    char path[200];
    assert_int_equal(record_put_probe(home, &record, &err), SL_OK);
    static const enum fault_point points[] = {SL_FAULT_WRITE, SL_FAULT_SYNC};
    for (size_t i = 0; i < 2; i++) {
        record.depth = 9;
        fault_arm(points[i], 1, false);
        assert_int_equal(record_put_probe(home, &record, &err), SL_ERR_ENV);
        fault_arm(points[i], 0, false);
        assert_non_null(strstr(err.text, "cannot be written"));
        find_file(path);
        assert_true(record_get_probe(home, record.drive, &back));
        assert_int_equal(back.depth, 8);
    }
    assert_int_equal(record_put_probe("/dev/null/home", &record, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "/dev/null/home"));
}

static void a_rate_is_kept_for_its_key_alone(void **state) {
    (void)state;
    struct rate_record rate = {.bytes_per_second = 77, .date = 5, .runs = 3}, back;
    struct error err = {0};
    assert_int_equal(record_put_rate(home, "model a", &rate, &err), SL_OK);
    assert_true(record_get_rate(home, "model a", &back));
    assert_int_equal(back.bytes_per_second, 77);
    assert_int_equal(back.date, 5);
    assert_int_equal(back.runs, 3);
    assert_false(record_get_rate(home, "model b", &back));
}

/* Two files of one folder lie on one drive, and its numbers are those that stat gives. */
static void a_drive_has_one_name(void **state) {
    (void)state;
    struct error err = {0};
    char names[2][SL_DRIVE_NAME_BYTES], path[200], start[40];
    struct stat info;
    for (size_t i = 0; i < 2; i++) {
        struct file *file;
        snprintf(path, sizeof path, "%s/file%zu", home, i);
        FILE *made = fopen(path, "w");
        assert_non_null(made);
        assert_int_equal(fclose(made), 0);
        assert_int_equal(file_open(path, false, &file, &err), SL_OK);
        assert_int_equal(stat(path, &info), 0);
        record_drive(file, names[i]);
        file_close(file);
        assert_int_equal(unlink(path), 0);
    }
    assert_string_equal(names[0], names[1]);
    snprintf(start, sizeof start, "%u:%u", (unsigned)(info.st_dev >> 8 & 0xFFF),
             (unsigned)(info.st_dev & 0xFF));
    assert_memory_equal(names[0], start, strlen(start));
    /* Where the system tells the device's size, it is the last word (sysfs's `size`). */
    snprintf(path, sizeof path, "/sys/dev/block/%s/size", start);
    FILE *told = fopen(path, "r");
    unsigned long long sectors;
    if (told == NULL)
        return;
    assert_int_equal(fscanf(told, "%llu", &sectors), 1);
    fclose(told);
    snprintf(path, sizeof path, " %llu", sectors);
    assert_string_equal(names[0] + strlen(names[0]) - strlen(path), path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_probe_record_comes_back_as_it_was),
        cmocka_unit_test(nonsense_in_a_record_is_no_record),
        cmocka_unit_test(a_record_that_cannot_be_written_leaves_the_old_one),
        cmocka_unit_test(a_rate_is_kept_for_its_key_alone),
        cmocka_unit_test(a_drive_has_one_name),
    };
    return cmocka_run_group_tests_name("record", tests, make_home, remove_home);
}
