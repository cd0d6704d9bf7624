/* Files on several drives: each drive has its own depth, none waits for another one. The drives are
 * numbers that the test gives to copies of one file. */
#include "io/ring_method.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA_BYTES ((size_t)600000)
#define CHUNK ((size_t)65536)
#define DRIVES 10

static uint8_t data[DATA_BYTES];
static char path[] = "/tmp/sluice-drives-XXXXXX";
static struct file *file;
static struct file on[DRIVES]; /* the file as if on drive 100 + i */

static int make_file(void **state) {
    (void)state;
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (uint8_t)(i * i >> 6);
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, data, DATA_BYTES) != (ssize_t)DATA_BYTES || close(fd) != 0)
        return -1;
    if (file_open(path, true, &file, NULL) != SL_OK)
        return -1;
    for (size_t i = 0; i < DRIVES; i++) {
        on[i] = *file;
        on[i].drive = 100 + i;
    }
    return 0;
}

static int remove_file(void **state) {
    (void)state;
    file_close(file);
    return unlink(path);
}

/* A method whose reads the test ends: it takes chunks from outside. */
static size_t started_with;

static enum status hand_start(struct ring *ring, size_t depth, void **state, struct error *err) {
    (void)ring;
    (void)err;
    started_with = depth;
    *state = NULL;
    return SL_OK;
}

static void hand_stop(void *state) {
    (void)state;
}

static const struct ring_method hand = {.name = "hand", .start = hand_start, .stop = hand_stop};

static struct ring *make_ring(const struct ring_method *method, size_t slabs, size_t depth,
                              size_t drives) {
    struct ring_options options = {.method = method,
                                   .slab_bytes = 8 * CHUNK,
                                   .slab_count = slabs,
                                   .chunk_bytes = CHUNK,
                                   .depth = depth,
                                   .drives = drives};
    struct ring *ring = NULL;
    assert_int_equal(ring_new(&options, &ring, NULL), SL_OK);
    return ring;
}

static void submit(struct ring *ring, uint64_t ticket, size_t drive, size_t chunks) {
    struct ring_read read = {&on[drive], ticket * 4096, chunks * CHUNK, 0};
    assert_true(ring_submit(ring, ticket, &read, 1, NULL));
}

/* The next chunk must be of that drive and place in the file; -1: there must be none. */
static struct chunk take(struct ring *ring, int drive, uint64_t offset) {
    struct chunk chunk = {0};
    assert_int_equal(ring_take(ring, false, &chunk), drive >= 0);
    if (drive >= 0) {
        assert_int_equal(chunk.file->drive, 100 + drive);
        assert_int_equal(chunk.offset, offset);
    }
    return chunk;
}

static void a_drive_at_its_depth_keeps_no_other_waiting(void **state) {
    (void)state;
    struct ring *ring = make_ring(&hand, 4, 2, 2);
    uint8_t *slab = NULL;
    assert_int_equal(started_with, 4); /* two of each drive */
    submit(ring, 0, 0, 3);
    submit(ring, 1, 0, 1);
    submit(ring, 2, 1, 2);
    struct chunk first = take(ring, 0, 0), second = take(ring, 0, CHUNK);
    struct chunk third = take(ring, 1, 8192), fourth = take(ring, 1, 8192 + CHUNK);
    take(ring, -1, 0);
    ring_give(ring, &second, SL_OK, NULL);
    second = take(ring, 0, 2 * CHUNK); /* in order within the drive */
    take(ring, -1, 0);
    /* The later submission ends first. */
    ring_give(ring, &third, SL_OK, NULL);
    ring_give(ring, &fourth, SL_OK, NULL);
    assert_int_equal(ring_wait(ring, 2, NULL, &slab, NULL), SL_OK);
    ring_give(ring, &first, SL_OK, NULL);
    third = take(ring, 0, 4096);
    ring_give(ring, &third, SL_OK, NULL);
    ring_give(ring, &second, SL_OK, NULL);
    assert_int_equal(ring_wait(ring, 0, NULL, &slab, NULL), SL_OK);
    assert_int_equal(ring_wait(ring, 1, NULL, &slab, NULL), SL_OK);
    take(ring, -1, 0);
    ring_free(ring);
}

static void a_submission_that_fails_leaves_the_order_wherever_it_stands(void **state) {
    (void)state;
    struct ring *ring = make_ring(&hand, 4, 1, 2);
    struct error err = {.status = SL_ERR_ENV, .text = "the drive is gone"}, why = {0};
    uint8_t *slab = NULL;
    submit(ring, 0, 0, 2);
    submit(ring, 1, 1, 3);
    submit(ring, 2, 1, 1);
    struct chunk first = take(ring, 0, 0), second = take(ring, 1, 4096);
    ring_give(ring, &second, SL_ERR_ENV, &err); /* two more chunks of it were to come */
    assert_int_equal(ring_wait(ring, 1, NULL, &slab, &why), SL_ERR_ENV);
    assert_string_equal(why.text, err.text);
    submit(ring, 3, 1, 1); /* in its place */
    second = take(ring, 1, 8192);
    ring_give(ring, &second, SL_OK, NULL);
    second = take(ring, 1, 12288);
    ring_give(ring, &first, SL_OK, NULL);
    first = take(ring, 0, CHUNK);
    take(ring, -1, 0);
    ring_give(ring, &first, SL_OK, NULL);
    ring_give(ring, &second, SL_OK, NULL);
    for (uint64_t ticket = 0; ticket < 4; ticket += ticket == 0 ? 2 : 1)
        assert_int_equal(ring_wait(ring, ticket, NULL, &slab, NULL), SL_OK);
    ring_free(ring);
}

static void methods_read_from_many_drives(void **state) {
    (void)state;
    const struct ring_method *methods[] = {&ring_method_sync, &ring_method_pool,
                                           &ring_method_uring};
    for (size_t m = 0; m < 3; m++)
        for (size_t drives = 1; drives <= DRIVES; drives += 3) {
            if (ring_method_try(methods[m], NULL) != SL_OK)
                continue;
            struct ring *ring = make_ring(methods[m], 6, 2, drives);
            for (uint64_t ticket = 0; ticket < 90; ticket++) {
                uint8_t *slab = NULL;
                if (ticket < 84)
                    submit(ring, ticket, (size_t)(ticket * ticket) % drives, 1 + ticket % 3);
                if (ticket < 5)
                    continue;
                uint64_t old = ticket - 5;
                if (old >= 84)
                    break;
                assert_int_equal(ring_wait(ring, old, NULL, &slab, NULL), SL_OK);
                assert_memory_equal(slab, data + old * 4096, (1 + old % 3) * CHUNK);
                memset(slab, 0, CHUNK);
                ring_release(ring, old);
            }
            ring_free(ring);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drive_at_its_depth_keeps_no_other_waiting),
        cmocka_unit_test(a_submission_that_fails_leaves_the_order_wherever_it_stands),
        cmocka_unit_test(methods_read_from_many_drives),
    };
    return cmocka_run_group_tests_name("ring_drives", tests, make_file, remove_file);
}
