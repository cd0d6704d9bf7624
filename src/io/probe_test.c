/* The probe on small files: that it measures what it says, and refuses what it cannot measure.
 * Rates themselves are the machine's. */
#include "io/probe.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct file *make_file(size_t bytes) {
    char path[] = "/tmp/sluice-probe-XXXXXX";
    int fd = mkstemp(path);
    struct file *file = NULL;
    struct error err = {0};
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(file_open(path, true, &file, &err), SL_OK);
    assert_int_equal(unlink(path), 0); /* the descriptors keep it */
    return file;
}

static void count_step(void *ctx, size_t done, size_t total) {
    size_t *steps = ctx;
    assert_int_equal(done, ++*steps);
    assert_true(done <= total);
}

static void probe_measures_every_method_chunk_and_depth(void **state) {
    (void)state;
    struct file *files[] = {make_file(((size_t)3 << 20) + 77), make_file(5000)};
    struct probe probe;
    struct error err = {0};
    size_t steps = 0, methods = 0;
    double began = clock_seconds();
    struct probe_options options = {
        .files = files, .file_count = 2, .seconds = 0.05, .progress = count_step, .ctx = &steps};
    assert_int_equal(probe_run(&options, &probe, &err), SL_OK);
    assert_true(clock_seconds() - began < 30);
    assert_int_equal(steps, probe.cell_count + 2);
    assert_true(probe.cell_count <= SL_PROBE_CELLS_MAX);
    assert_int_equal(probe.file_bytes, ((size_t)3 << 20) + 77 + 5000);
    assert_true(probe.sustained_bytes_per_second > 0);
    for (size_t i = 0; i < probe.cell_count; i++) {
        const struct probe_cell *cell = &probe.cells[i];
        assert_true(cell->bytes_per_second > 0);
        assert_true(cell->chunk_bytes * cell->depth <= SL_PROBE_BYTES_MAX);
        methods += i == 0 || cell->method != probe.cells[i - 1].method;
        for (size_t j = 0; j < i; j++)
            assert_false(cell->method == probe.cells[j].method &&
                         cell->chunk_bytes == probe.cells[j].chunk_bytes &&
                         cell->depth == probe.cells[j].depth);
    }
    assert_true(methods >= 1); /* pool, and uring where the kernel has it */
    assert_true(probe.best < probe.cell_count);
    for (size_t i = 0; i < 2; i++)
        file_close(files[i]);
}

static void probe_keeps_to_what_is_fixed(void **state) {
    (void)state;
    struct file *file = make_file((size_t)2 << 20);
    struct probe probe;
    struct error err = {0};
    struct probe_options options = {.files = &file,
                                    .file_count = 1,
                                    .seconds = 0.02,
                                    .method = &ring_method_pool,
                                    .chunk_bytes = (size_t)1 << 19,
                                    .depth = 3};
    assert_int_equal(probe_run(&options, &probe, &err), SL_OK);
    assert_int_equal(probe.cell_count, 1);
    assert_ptr_equal(probe.cells[0].method, &ring_method_pool);
    assert_int_equal(probe.cells[0].chunk_bytes, 1 << 19);
    assert_int_equal(probe.cells[0].depth, 3);
    options.chunk_bytes = (size_t)1 << 30;
    assert_int_equal(probe_run(&options, &probe, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "1073741824"));
    file_close(file);
}

static bool stop_now(void) {
    return true;
}

static void probe_refuses_nothing_and_stops_when_told(void **state) {
    (void)state;
    struct file *empty = make_file(0), *file = make_file((size_t)64 << 20);
    struct probe probe;
    struct error err = {0};
    struct probe_options options = {.files = &empty, .file_count = 1};
    assert_int_equal(probe_run(&options, &probe, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "no bytes"));
    options = (struct probe_options){.files = &file, .file_count = 1, .should_stop = stop_now};
    double began = clock_seconds();
    assert_int_equal(probe_run(&options, &probe, &err), SL_ERR_STOPPED);
    assert_true(clock_seconds() - began < 5);
    file_close(empty);
    file_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe_measures_every_method_chunk_and_depth),
        cmocka_unit_test(probe_keeps_to_what_is_fixed),
        cmocka_unit_test(probe_refuses_nothing_and_stops_when_told),
    };
    return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
