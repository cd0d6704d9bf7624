/* The ring with somebody who looks at what was read: when, how often, and what a refusal does. */
#include "base/fault.h"
#include "io/ring_method.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA_BYTES ((size_t)400000)

static uint8_t data[DATA_BYTES];
static char path[] = "/tmp/sluice-check-XXXXXX";
static struct file *file;
static const struct ring_method *methods[] = {&ring_method_sync, &ring_method_pool,
                                              &ring_method_uring};
static size_t method_count = 3;

static int make_file(void **state) {
    (void)state;
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (uint8_t)(i * i >> 5);
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, data, DATA_BYTES) != (ssize_t)DATA_BYTES || close(fd) != 0)
        return -1;
    method_count = ring_method_try(&ring_method_uring, NULL) == SL_OK ? 3 : 2;
    return file_open(path, true, &file, NULL) != SL_OK;
}

static int remove_file(void **state) {
    (void)state;
    file_close(file);
    return unlink(path);
}

/* Refuses the first `refusals` looks at each ticket. Its counts are read once the ring has handed
 * the ticket out, or has ended. */
struct looks {
    struct ring_read read;
    size_t refusals, count[8];
    bool has_wrong_bytes;
};

static enum status look(void *ctx, uint64_t ticket, const uint8_t *memory, struct error *err) {
    struct looks *looks = ctx;
    const uint8_t *bytes = memory + looks->read.slab_offset;
    if (memcmp(bytes, data + looks->read.offset, looks->read.bytes) != 0)
        looks->has_wrong_bytes = true;
    if (looks->count[ticket]++ < looks->refusals)
        return error_set(err, SL_ERR_ENV, "ticket %d is refused", (int)ticket);
    return SL_OK;
}

static struct ring *make_ring(const struct ring_method *method, struct looks *looks) {
    struct ring_options options = {.method = method,
                                   .check = {look, looks},
                                   .slab_bytes = 262144,
                                   .slab_count = 3,
                                   .chunk_bytes = 65536,
                                   .depth = 2};
    struct ring *ring = NULL;
    looks->read = (struct ring_read){file, 4096 * 3 + 100, 200000, 100};
    assert_int_equal(ring_new(&options, &ring, NULL), SL_OK);
    return ring;
}

static void submit(struct ring *ring, const struct looks *looks, uint64_t ticket) {
    assert_true(ring_submit(ring, ticket, &looks->read, 1, NULL));
}

static void what_is_refused_once_is_read_again(void **state) {
    (void)state;
    for (size_t m = 0; m < method_count; m++)
        for (size_t refusals = 0; refusals < 2; refusals++) {
            struct looks looks = {.refusals = refusals};
            struct ring *ring = make_ring(methods[m], &looks);
            struct ring_counters counters;
            uint8_t *slab = NULL;
            for (uint64_t ticket = 0; ticket < 3; ticket++)
                submit(ring, &looks, ticket);
            for (uint64_t ticket = 0; ticket < 3; ticket++) {
                assert_int_equal(ring_wait(ring, ticket, NULL, &slab, NULL), SL_OK);
                assert_memory_equal(slab + 100, data + looks.read.offset, 200000);
                assert_int_equal(looks.count[ticket], refusals + 1);
                ring_release(ring, ticket);
            }
            ring_counters_get(ring, &counters);
            assert_int_equal(counters.read_bytes, 3 * 200000 * (refusals + 1));
            ring_free(ring);
            assert_false(looks.has_wrong_bytes);
        }
}

static void what_is_refused_twice_fails_with_what_the_check_says(void **state) {
    (void)state;
    for (size_t m = 0; m < method_count; m++) {
        struct looks looks = {.refusals = 2};
        struct ring *ring = make_ring(methods[m], &looks);
        uint8_t *slab = NULL;
        /* Slabs come back, and each submission has its two readings. */
        for (uint64_t ticket = 0; ticket < 5; ticket++) {
            struct error err = {0};
            char text[32];
            submit(ring, &looks, ticket);
            assert_int_equal(ring_wait(ring, ticket, NULL, &slab, &err), SL_ERR_ENV);
            snprintf(text, sizeof text, "ticket %d is refused", (int)ticket);
            assert_string_equal(err.text, text);
            assert_int_equal(looks.count[ticket], 2);
        }
        ring_free(ring);
        assert_false(looks.has_wrong_bytes);
    }
}

static void failed_reads_are_not_looked_at(void **state) {
    (void)state;
    for (size_t m = 0; m < method_count; m++) {
        struct looks looks = {0};
        struct ring *ring = make_ring(methods[m], &looks);
        struct error err = {0};
        uint8_t *slab = NULL;
        fault_arm(SL_FAULT_READ, 1, true);
        submit(ring, &looks, 0);
        assert_int_equal(ring_wait(ring, 0, NULL, &slab, &err), SL_ERR_ENV);
        fault_arm(SL_FAULT_READ, 0, false);
        assert_non_null(strstr(err.text, path));
        ring_free(ring);
        assert_int_equal(looks.count[0], 0);
    }
}

static bool always(void) {
    return true;
}

static enum status look_slowly(void *ctx, uint64_t ticket, const uint8_t *memory,
                               struct error *err) {
    usleep(120000);
    return look(ctx, ticket, memory, err);
}

static void a_wait_for_a_look_can_be_stopped(void **state) {
    (void)state;
    for (size_t m = 0; m < method_count; m++) {
        struct looks looks = {.read = {file, 4096, 8192, 0}};
        struct ring_options options = {.method = methods[m],
                                       .check = {look_slowly, &looks},
                                       .slab_bytes = 8192,
                                       .slab_count = 2};
        struct ring *ring = NULL;
        uint8_t *slab = NULL;
        assert_int_equal(ring_new(&options, &ring, NULL), SL_OK);
        submit(ring, &looks, 0);
        submit(ring, &looks, 1);
        assert_int_equal(ring_wait(ring, 0, always, &slab, NULL), SL_ERR_STOPPED);
        ring_free(ring); /* ends in the middle of it */
        assert_true(looks.count[0] <= 1 && looks.count[1] <= 1);
    }
}

static void no_thread_for_the_check_is_an_error(void **state) {
    (void)state;
    struct looks looks = {0};
    struct ring_options options = {.method = &ring_method_sync, .check = {look, &looks}};
    struct ring *ring = NULL;
    struct error err = {0};
    fault_arm(SL_FAULT_THREAD, 1, false);
    assert_int_equal(ring_new(&options, &ring, &err), SL_ERR_ENV);
    fault_arm(SL_FAULT_THREAD, 0, false);
    assert_non_null(strstr(err.text, "cannot start the thread"));
    assert_null(ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_refused_once_is_read_again),
        cmocka_unit_test(what_is_refused_twice_fails_with_what_the_check_says),
        cmocka_unit_test(failed_reads_are_not_looked_at),
        cmocka_unit_test(a_wait_for_a_look_can_be_stopped),
        cmocka_unit_test(no_thread_for_the_check_is_an_error),
    };
    return cmocka_run_group_tests_name("ring_check", tests, make_file, remove_file);
}
