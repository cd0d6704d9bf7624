/* Checksums: they do not depend on how blocks are cut, find every byte that changes, and their
 * record is believed whole or not at all. */
#include "weights/checks.h"

#include "base/crc.h"
#include "base/fault.h"
#include "weights/matrix_for_test.h"
#include "weights/provider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA_BYTES ((size_t)700000)
#define TENSORS 5

static uint8_t data[DATA_BYTES];
static char path[] = "/tmp/sluice-checks-XXXXXX", home[64], record[128];
static struct file *file;
static struct index model;
static struct tensor tensors[TENSORS];
static struct layout_item items[TENSORS];

static int write_data(void) {
    FILE *out = fopen(path, "r+b");
    return out == NULL || fwrite(data, 1, DATA_BYTES, out) != DATA_BYTES || fclose(out) != 0;
}

/* Changes a byte of the file, and back when called again, without changing its time. */
static void spoil(size_t offset) {
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    data[offset] ^= 0x10;
    assert_int_equal(write_data(), 0);
    const struct timespec times[] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(0, path, times, 0), 0);
}

static int make_model(void **state) {
    (void)state;
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (uint8_t)(i * i >> 7);
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || write_data() != 0)
        return -1;
    if (file_open(path, true, &file, NULL) != SL_OK)
        return -1;
    snprintf(home, sizeof home, "%s-home", path);
    model.files = &file;
    model.file_count = 1;
    for (size_t i = 0; i < TENSORS; i++) {
        uint64_t rows = 100 + 37 * i, row_bytes = 200 + 600 * (i % 2);
        uint64_t offset = i == 0 ? 1777 : tensors[i - 1].offset + tensors[i - 1].bytes + 13;
        tensors[i] = (struct tensor){.name = STR("some.weight"),
                                     .dtype = DTYPE_F16,
                                     .dims = 2,
                                     .shape = {rows, row_bytes / 2},
                                     .offset = offset,
                                     .bytes = rows * row_bytes};
        items[i] = (struct layout_item){
            .matrix = plain_matrix(&tensors[i]), .key = (uint32_t)i, .starts_block = i == 2};
    }
    layout_set_units(items, TENSORS);
    return tensors[TENSORS - 1].offset + tensors[TENSORS - 1].bytes > DATA_BYTES;
}

static void forget(void) {
    char folder[96];
    if (record[0] != '\0')
        unlink(record);
    record[0] = '\0';
    snprintf(folder, sizeof folder, "%s/checksums", home);
    rmdir(folder);
    rmdir(home);
}

static int remove_model(void **state) {
    (void)state;
    forget();
    file_close(file);
    return unlink(path);
}

/* One pass over blocks of at most block_bytes, every third of which is kept; what acquire says
 * first that is not SL_OK. */
static enum status walk(struct checks *checks, size_t block_bytes, struct error *err) {
    struct layout layout;
    struct provider *provider = NULL;
    struct provider_options options = {
        .slab_count = 2, .chunk_bytes = 8192, .depth = 2, .checks = checks};
    assert_int_equal(layout_init(&layout, &model, items, TENSORS, block_bytes, NULL), SL_OK);
    bool keeps[200] = {false};
    assert_true(layout.block_count <= 200);
    for (size_t block = 0; block < layout.block_count; block += 3)
        keeps[block] = true;
    options.keeps = keeps;
    assert_int_equal(provider_stream_new(&layout, &options, &provider, NULL), SL_OK);
    enum status status = SL_OK;
    for (size_t block = 0; block < layout.block_count && status == SL_OK; block++) {
        struct lease lease;
        status = provider->ops->acquire(provider, block, &lease, err);
        if (status == SL_OK)
            provider->ops->release(provider, &lease);
    }
    provider_free(provider);
    layout_release(&layout);
    return status;
}

static struct checks *open_checks(const char *where) {
    struct checks *checks = NULL;
    struct error err = {0};
    assert_int_equal(checks_open(&model, items, TENSORS, where, &checks, &err), SL_OK);
    return checks;
}

static size_t known(const struct checks *checks) {
    size_t count, some;
    checks_counts(checks, &count, &some);
    return some;
}

static void the_first_pass_records_and_all_others_verify(void **state) {
    (void)state;
    static const size_t blocks[] = {32768, 16384, 1u << 20, 65536};
    struct checks *checks = open_checks(NULL);
    struct error err = {0};
    assert_int_equal(known(checks), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(walk(checks, blocks[i], &err), SL_OK);
        /* units of 21 rows of 200 bytes, and of 6 of 800 */
        assert_int_equal(known(checks), 5 + 23 + 9 + 36 + 12);
    }
    checks_close(checks);
}

static void a_changed_byte_is_found_wherever_blocks_begin(void **state) {
    (void)state;
    static const size_t blocks[] = {16384, 50000, 1u << 20};
    struct checks *checks = open_checks(NULL);
    struct error err = {0};
    assert_int_equal(walk(checks, 32768, &err), SL_OK);
    for (size_t i = 0; i < TENSORS; i++) {
        const size_t places[] = {0, (size_t)tensors[i].bytes / 2, (size_t)tensors[i].bytes - 1};
        for (size_t p = 0; p < 3; p++) {
            size_t place = (size_t)tensors[i].offset + places[p];
            spoil(place);
            assert_int_equal(walk(checks, blocks[p], &err), SL_ERR_ENV);
            unsigned long long bytes, offset;
            assert_non_null(strstr(err.text, "tensor \"some.weight\""));
            assert_non_null(strstr(err.text, path));
            assert_int_equal(
                sscanf(strstr(err.text, ": ") + 2, "%llu bytes at offset %llu", &bytes, &offset),
                2);
            assert_true(offset <= place && place < offset + bytes);
            spoil(place);
        }
        if (i + 1 < TENSORS) { /* what lies between tensors is nobody's */
            spoil((size_t)(tensors[i].offset + tensors[i].bytes) + 5);
            assert_int_equal(walk(checks, 16384, &err), SL_OK);
            spoil((size_t)(tensors[i].offset + tensors[i].bytes) + 5);
        }
    }
    assert_int_equal(walk(checks, 16384, &err), SL_OK);
    checks_close(checks);
}

/* The path of the record, from the message of a mismatch. */
static void find_record(void) {
    struct error err = {0};
    struct checks *checks = open_checks(home);
    spoil((size_t)tensors[0].offset);
    assert_int_equal(walk(checks, 32768, &err), SL_ERR_ENV);
    spoil((size_t)tensors[0].offset);
    const char *at = strstr(err.text, home);
    assert_non_null(at);
    snprintf(record, sizeof record, "%s", at);
    checks_close(checks);
}

static void the_record_has_each_part_of_each_unit(void **state) {
    (void)state;
    struct checks *checks = open_checks(home);
    size_t count;
    assert_int_equal(walk(checks, 32768, NULL), SL_OK);
    checks_counts(checks, &count, &count);
    checks_close(checks);
    checks = open_checks(home);
    assert_int_equal(known(checks), count);
    checks_close(checks);
    find_record();
    FILE *in = fopen(record, "rb");
    assert_non_null(in);
    uint8_t text[4096];
    size_t bytes = fread(text, 1, sizeof text, in), at = 24 + (count + 7) / 8;
    fclose(in);
    assert_int_equal(bytes, at + 4 * count + 4);
    /* Units of rows, by hand: 4 KiB of rows rounded up. */
    for (size_t i = 0; i < TENSORS; i++) {
        size_t row = (size_t)tensors[i].bytes / tensors[i].shape[0], unit = (4096 + row - 1) / row;
        for (size_t done = 0; done < tensors[i].shape[0]; done += unit, at += 4) {
            size_t left = (size_t)tensors[i].shape[0] - done, rows = left < unit ? left : unit;
            uint32_t sum;
            memcpy(&sum, text + at, 4);
            assert_int_equal(sum,
                             crc32c_tables(0, data + tensors[i].offset + done * row, rows * row));
        }
    }
    assert_int_equal(at + 4, bytes);
    forget();
}

static void a_part_of_a_pass_is_a_part_of_the_record(void **state) {
    (void)state;
    struct layout layout;
    struct checks *checks = open_checks(home);
    assert_int_equal(layout_init(&layout, &model, items, TENSORS, 32768, NULL), SL_OK);
    assert_int_equal(layout.pieces[0].first_row, 0);
    const struct ring_read *read = &layout.reads[layout.blocks[0].first_read];
    uint8_t *memory = calloc(1, layout.blocks[0].slab_bytes);
    assert_non_null(memory);
    for (size_t i = 0; i < layout.blocks[0].read_count; i++, read++)
        memcpy(memory + read->slab_offset, data + read->offset, read->bytes);
    assert_int_equal(checks_block(checks, &layout, 0, memory, NULL), SL_OK);
    size_t some = known(checks), count;
    checks_counts(checks, &count, &some);
    assert_true(some > 0 && some < count);
    checks_close(checks);
    checks = open_checks(home);
    assert_int_equal(known(checks), some);
    memory[layout.pieces[0].slab_offset[0]] ^= 1;
    assert_int_equal(checks_block(checks, &layout, 0, memory, NULL), SL_ERR_ENV);
    checks_close(checks);
    free(memory);
    layout_release(&layout);
    checks = open_checks(home);
    assert_int_equal(walk(checks, 16384, NULL), SL_OK);
    assert_int_equal(known(checks), count);
    checks_close(checks);
    find_record();
    forget();
}

static void every_failure_of_memory_or_disk_is_survived(void **state) {
    (void)state;
    static const enum fault_point points[] = {SL_FAULT_ALLOC, SL_FAULT_WRITE, SL_FAULT_SYNC,
                                              SL_FAULT_OPEN, SL_FAULT_READ};
    for (size_t p = 0; p < sizeof points / sizeof *points; p++)
        for (uint64_t nth = 1; nth < 20; nth++) {
            struct checks *checks = NULL;
            struct error err = {0};
            fault_arm(points[p], nth, false);
            enum status status = checks_open(&model, items, TENSORS, home, &checks, &err);
            bool has_fired = fault_count(points[p]) >= nth;
            fault_arm(points[p], 0, false);
            if (status != SL_OK) {
                assert_int_equal(points[p], SL_FAULT_ALLOC);
                assert_non_null(strstr(err.text, "out of memory"));
                assert_true(has_fired);
                continue;
            }
            assert_int_equal(walk(checks, 32768, &err), SL_OK);
            fault_arm(points[p], nth, false);
            checks_close(checks);
            fault_arm(points[p], 0, false);
        }
    struct checks *checks = open_checks(home);
    assert_int_equal(walk(checks, 32768, NULL), SL_OK);
    checks_close(checks);
    find_record();
    forget();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_pass_records_and_all_others_verify),
        cmocka_unit_test(a_changed_byte_is_found_wherever_blocks_begin),
        cmocka_unit_test(the_record_has_each_part_of_each_unit),
        cmocka_unit_test(a_part_of_a_pass_is_a_part_of_the_record),
        cmocka_unit_test(every_failure_of_memory_or_disk_is_survived),
    };
    return cmocka_run_group_tests_name("checks", tests, make_model, remove_model);
}
