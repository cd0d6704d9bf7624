/* What a plan says of the drive: nothing known, a probe, real runs, the user's own word; and what a
 * run may teach. */
#include "plan/rates.h"

#include "base/clock.h"
#include "plan/folder_for_test.h"
#include "plan/record.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define GIB ((uint64_t)1 << 30)

static char home[64], drive[SL_DRIVE_NAME_BYTES];
static struct file *file;
static struct file direct_file;
static struct file *files[1];
static struct model model;

static int begin(void **state) {
    (void)state;
    char path[100];
    struct error err = {0};
    snprintf(home, sizeof home, "/tmp/sluice-rates-XXXXXX");
    if (mkdtemp(home) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/weights", home);
    FILE *made = fopen(path, "w");
    if (made == NULL || fputs("weights", made) < 0 || fclose(made) != 0 ||
        file_open(path, false, &file, &err) != SL_OK)
        return -1;
    direct_file = *file; /* as if the file system took direct reads */
    direct_file.direct_fd = file->fd;
    files[0] = &direct_file;
    model.path = "/models/large/";
    model.index.files = files;
    model.index.file_count = 1;
    record_drive(file, drive);
    return 0;
}

static int end(void **state) {
    (void)state;
    file_close(file);
    return folder_remove(home);
}

static struct settings settings_of(const char *reader) {
    struct settings settings = {.reader = reader, .home = home};
    return settings;
}

static struct plan plan_of(uint64_t weights) {
    struct plan plan = {
        .kernels = "portable",
        .precision = "bf16",
        .threads = 2,
        .weights_bytes = weights,
        .slab_count = 3,
        .pass_bytes = weights,
        .passes = 500,
        .budget_bytes = 8 * GIB,
    };
    return plan;
}

static void put_probe(int64_t date) {
    struct error err = {0};
    struct probe_record record = {.method = &ring_method_sync,
                                  .chunk_bytes = 8u << 20,
                                  .depth = 6,
                                  .bytes_per_second = 3000000000u,
                                  .sustained_bytes_per_second = 2000000000u,
                                  .date = date};
    snprintf(record.drive, sizeof record.drive, "%s", drive);
    assert_int_equal(record_put_probe(home, &record, &err), SL_OK);
}

static void an_unknown_drive_is_assumed_and_wants_a_probe(void **state) {
    (void)state;
    struct settings settings = settings_of("auto");
    struct plan plan = plan_of(20 * GIB);
    rates_decide(&model, &settings, &plan);
    assert_null(plan.reader);
    assert_int_equal(plan.depth, 0);
    assert_int_equal(plan.read_bytes_per_second, 1000000000);
    assert_non_null(strstr(plan.rate_source, "assumed"));
    assert_true(rates_want_probe(&model, &settings, &plan));
    plan.passes = 1; /* 20 GiB in all: seconds of probing would not pay */
    assert_false(rates_want_probe(&model, &settings, &plan));
    plan.passes = 500;
    plan.budget_bytes = GIB / 8;
    assert_false(rates_want_probe(&model, &settings, &plan));
    plan.budget_bytes = 8 * GIB;
    plan.slab_count = 0;
    assert_false(rates_want_probe(&model, &settings, &plan));
    plan.slab_count = 3;
    settings.depth = 4;
    assert_false(rates_want_probe(&model, &settings, &plan));
    settings = settings_of("pool");
    assert_false(rates_want_probe(&model, &settings, &plan));
    settings = settings_of("auto");
    settings.home = NULL;
    assert_false(rates_want_probe(&model, &settings, &plan));
}

static void a_probe_gives_reader_and_rate(void **state) {
    (void)state;
    struct settings settings = settings_of("auto");
    struct plan plan = plan_of(20 * GIB);
    put_probe(clock_wall_seconds() - 3 * 86400);
    rates_decide(&model, &settings, &plan);
    assert_ptr_equal(plan.reader, &ring_method_sync);
    assert_int_equal(plan.chunk_bytes, 8 << 20);
    assert_int_equal(plan.depth, 6);
    assert_int_equal(plan.read_bytes_per_second, 2000000000);
    assert_non_null(strstr(plan.rate_source, "probe of "));
    assert_non_null(strstr(plan.rate_source, "sync, 8 MiB x 6"));
    assert_false(rates_want_probe(&model, &settings, &plan));
    put_probe(clock_wall_seconds() - 31 * 86400);
    assert_true(rates_want_probe(&model, &settings, &plan));
    /* The user's own word stands; chunk and depth of another method mean nothing to this one. */
    settings = settings_of("pool");
    rates_decide(&model, &settings, &plan);
    assert_ptr_equal(plan.reader, &ring_method_pool);
    assert_int_equal(plan.depth, 0);
    settings = settings_of("auto");
    settings.chunk_bytes = 1u << 20;
    rates_decide(&model, &settings, &plan);
    assert_int_equal(plan.chunk_bytes, 1 << 20);
    assert_int_equal(plan.depth, 0);
}

static void large_direct_runs_teach_and_others_do_not(void **state) {
    (void)state;
    struct settings settings = settings_of("auto");
    struct plan large = plan_of(20 * GIB), small = plan_of(9 * GIB);
    put_probe(clock_wall_seconds());
    rates_learn(&model, &settings, &small, 1234567890);
    rates_decide(&model, &settings, &small);
    assert_int_equal(small.read_bytes_per_second, 2000000000);
    files[0] = file; /* served through the page cache */
    rates_learn(&model, &settings, &large, 1234567890);
    files[0] = &direct_file;
    rates_decide(&model, &settings, &large);
    assert_int_equal(large.read_bytes_per_second, 2000000000);
    rates_learn(&model, &settings, &large, 0); /* too few passes to tell */
    large.slab_count = 0;
    rates_learn(&model, &settings, &large, 1234567890);
    large.slab_count = 3;
    rates_decide(&model, &settings, &large);
    assert_int_equal(large.read_bytes_per_second, 2000000000);
    rates_learn(&model, &settings, &large, 1234567890);
    rates_learn(&model, &settings, &large, 1234567891);
    rates_decide(&model, &settings, &large);
    assert_int_equal(large.read_bytes_per_second, 1234567891);
    assert_string_equal(large.rate_source, "measured in 2 runs of this model");
    assert_ptr_equal(large.reader, &ring_method_sync); /* still the probe's */
    snprintf(large.precision, sizeof large.precision, "q4_k");
    rates_decide(&model, &settings, &large);
    assert_int_equal(large.read_bytes_per_second, 2000000000);
}

static void a_quick_probe_is_kept(void **state) {
    (void)state;
    struct error err = {0};
    struct probe_record record;
    struct settings settings = settings_of("auto");
    files[0] = file;
    assert_int_equal(rates_probe(&model, &settings, 0.05, NULL, &err), SL_OK);
    files[0] = &direct_file;
    assert_true(record_get_probe(home, drive, &record));
    assert_true(record.is_quick);
    assert_true(record.date >= clock_wall_seconds() - 60);
}

/* A second file as if on another drive, whose rate is not known, known, and the larger one. */
static void several_drives_take_the_sum_of_their_times(void **state) {
    (void)state;
    struct settings settings = settings_of("auto");
    struct plan plan = plan_of(30 * GIB);
    struct error err = {0};
    struct file large = direct_file, small = direct_file;
    struct file *both[] = {&small, &large};
    struct model spread = model;
    struct drive_share shares[SL_RING_DRIVES_MAX];
    large.bytes = 3000;
    small.bytes = 1000;
    spread.index.files = both;
    spread.index.file_count = 2;
    put_probe(clock_wall_seconds());
    assert_int_equal(record_drives(both, 2, shares), 1);
    assert_int_equal(shares[0].bytes, 4000);
    rates_decide(&spread, &settings, &plan);
    assert_int_equal(plan.read_bytes_per_second, 2000000000);

    /* /dev/zero lies on a file system without a drive that anybody has probed. */
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    small.drive = large.drive + 1;
    small.fd = fd;
    assert_int_equal(record_drives(both, 2, shares), 2);
    assert_string_equal(shares[0].name, drive); /* the one with the most */
    assert_int_equal(shares[1].bytes, 1000);
    rates_decide(&spread, &settings, &plan);
    /* 3000 bytes at 2 GB/s, 1000 at the assumed 1 GB/s */
    assert_int_equal(plan.read_bytes_per_second, 1600000000);
    assert_non_null(strstr(plan.rate_source, "1 of 2 drives are assumed"));
    assert_true(rates_want_probe(&spread, &settings, &plan));

    struct probe_record record = {.method = &ring_method_sync,
                                  .chunk_bytes = 1u << 20,
                                  .depth = 1,
                                  .bytes_per_second = 600000000u,
                                  .sustained_bytes_per_second = 500000000u,
                                  .date = clock_wall_seconds()};
    snprintf(record.drive, sizeof record.drive, "%s", shares[1].name);
    assert_int_equal(record_put_probe(home, &record, &err), SL_OK);
    rates_decide(&spread, &settings, &plan);
    assert_int_equal(plan.read_bytes_per_second, 1142857143); /* 4000 / (1.5 + 2) */
    assert_non_null(strstr(plan.rate_source, "and of 1 more drive"));
    assert_int_equal(plan.depth, 6); /* the large one's */
    assert_false(rates_want_probe(&spread, &settings, &plan));
    struct file *some[2];
    assert_int_equal(record_files_of(both, 2, shares, 2, 1, some), 1);
    assert_ptr_equal(some[0], &small);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_drive_is_assumed_and_wants_a_probe),
        cmocka_unit_test(a_probe_gives_reader_and_rate),
        cmocka_unit_test(large_direct_runs_teach_and_others_do_not),
        cmocka_unit_test(a_quick_probe_is_kept),
        cmocka_unit_test(several_drives_take_the_sum_of_their_times),
    };
    return cmocka_run_group_tests_name("rates", tests, begin, end);
}
