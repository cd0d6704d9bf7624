/* The ring: every method against memory and against each other, its promises about order, memory
 * and failure, and its end in any state. */
#include "io/ring.h"

#include "base/clock.h"
#include "base/fault_for_test.h"
#include "base/mem.h"
#include "io/ring_for_test.h"
#include "io/ring_method.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA_BYTES ((size_t)1500003) /* no multiple of anything */
#define SLAB_BYTES ((size_t)1 << 20)

static uint8_t *data; /* what the file holds */
static struct file *direct, *buffered;
static char path[64];

static const char *const method_names[] = {"sync", "pool", "uring"};
/* All but the last where the kernel refuses io_uring. */
static size_t method_count = sizeof method_names / sizeof *method_names;

static uint32_t random_next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static int write_data(const char *to_path) {
    int fd = open(to_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool is_good = fd >= 0 && write(fd, data, DATA_BYTES) == (ssize_t)DATA_BYTES;
    return fd >= 0 && close(fd) == 0 && is_good ? 0 : -1;
}

static int make_files(void **state) {
    (void)state;
    data = malloc(DATA_BYTES);
    if (data == NULL)
        return -1;
    uint64_t seed = 1;
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (uint8_t)random_next(&seed);
    snprintf(path, sizeof path, "/tmp/sluice-ring-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || write_data(path) != 0)
        return -1;
    struct error err = {0};
    if (ring_method_try(&ring_method_uring, &err) != SL_OK)
        method_count--;
    return file_open(path, true, &direct, &err) != SL_OK ||
           file_open(path, false, &buffered, &err) != SL_OK;
}

static int remove_files(void **state) {
    (void)state;
    file_close(direct);
    file_close(buffered);
    free(data);
    return unlink(path);
}

static struct ring *make_ring(const char *method, size_t slab_count, size_t chunk_bytes,
                              size_t depth) {
    struct ring_options options = {.method = ring_method_find(method),
                                   .slab_bytes = SLAB_BYTES,
                                   .slab_count = slab_count,
                                   .chunk_bytes = chunk_bytes,
                                   .depth = depth};
    struct ring *ring = NULL;
    struct error err = {0};
    assert_non_null(options.method);
    assert_int_equal(ring_new(&options, &ring, &err), SL_OK);
    return ring;
}

/* One read that lands as near to the slab's start as its offset allows. */
static struct ring_read read_of(const struct file *file, size_t offset, size_t bytes) {
    return (struct ring_read){file, offset, bytes, offset % SL_IO_ALIGN};
}

/* Some reads, windows one behind the other. */
static size_t random_reads(uint64_t *seed, const struct file *file, struct ring_read reads[8]) {
    size_t count = 1 + random_next(seed) % 8, at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t offset = random_next(seed) % DATA_BYTES;
        size_t most = DATA_BYTES - offset < 100000 ? DATA_BYTES - offset : 100000;
        size_t bytes = random_next(seed) % (most + 1);
        if (random_next(seed) % 4 == 0) { /* up to the last byte of the file */
            bytes = 1 + random_next(seed) % 9000;
            offset = DATA_BYTES - bytes;
        }
        reads[i] = (struct ring_read){file, offset, bytes, at + offset % SL_IO_ALIGN};
        at += (offset % SL_IO_ALIGN + bytes + SL_IO_ALIGN - 1) / SL_IO_ALIGN * SL_IO_ALIGN;
    }
    return count;
}

static void assert_reads(const uint8_t *slab, const struct ring_read *reads, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_int_equal(
            memcmp(slab + reads[i].slab_offset, data + reads[i].offset, reads[i].bytes), 0);
}

static void ring_methods_read_equal_bytes(void **state) {
    (void)state;
    const size_t chunks[] = {1, 4096, 12288, 65536, 0}, depths[] = {1, 4, 9};
    const struct file *files[] = {direct, buffered};
    if (direct->direct_fd < 0)
        print_message("no direct I/O in /tmp: tested buffered alone\n");
    for (size_t m = 0; m < method_count; m++)
        for (size_t c = 0; c < 5; c++)
            for (size_t d = 0; d < 3; d++) {
                struct ring *ring = make_ring(method_names[m], 3, chunks[c], depths[d]);
                uint64_t seed = 7, sum = 0, ticket = 0;
                for (size_t round = 0; round < 6; round++, ticket += 3) {
                    struct ring_read reads[3][8];
                    size_t counts[3];
                    struct error err = {0};
                    for (size_t i = 0; i < 3; i++) {
                        counts[i] = random_reads(&seed, files[round % 2], reads[i]);
                        assert_true(ring_submit(ring, ticket + i, reads[i], counts[i], NULL));
                        for (size_t r = 0; r < counts[i]; r++)
                            sum += reads[i][r].bytes;
                    }
                    for (size_t i = 0; i < 3; i++) {
                        uint8_t *slab = NULL;
                        assert_int_equal(ring_wait(ring, ticket + i, NULL, &slab, &err), SL_OK);
                        assert_reads(slab, reads[i], counts[i]);
                        ring_release(ring, ticket + i);
                    }
                }
                struct ring_counters counters;
                ring_counters_get(ring, &counters);
                assert_int_equal(counters.read_bytes, sum);
                assert_true(counters.read_seconds > 0);
                assert_true(counters.wait_seconds >= 0);
                ring_free(ring);
            }
}

static void ring_reads_files_in_memory(void **state) {
    (void)state;
    char there[64]; /* a file system whose direct I/O some kernels refuse */
    snprintf(there, sizeof there, "/dev/shm/sluice-ring-%ld", (long)getpid());
    if (write_data(there) != 0) {
        print_message("no /dev/shm\n");
        skip();
    }
    struct error err = {0};
    struct file *file = NULL;
    assert_int_equal(file_open(there, true, &file, &err), SL_OK);
    struct ring *ring = make_ring("pool", 2, 65536, 3);
    struct ring_read read = read_of(file, 5, 700000);
    uint8_t *slab = NULL;
    assert_true(ring_submit(ring, 1, &read, 1, NULL));
    assert_int_equal(ring_wait(ring, 1, NULL, &slab, &err), SL_OK);
    assert_reads(slab, &read, 1);
    ring_free(ring);
    file_close(file);
    assert_int_equal(unlink(there), 0);
}

static void ring_submit_waits_for_a_slab(void **state) {
    (void)state;
    for (size_t m = 0; m < method_count; m++) {
        struct ring *ring = make_ring(method_names[m], 2, 65536, 2);
        struct ring_read read = read_of(direct, 100000, 300000);
        uint8_t *slabs[3] = {0};
        struct error err = {0};
        assert_true(ring_submit(ring, 10, &read, 1, NULL));
        assert_true(ring_submit(ring, 11, &read, 1, NULL));
        assert_false(ring_submit(ring, 12, &read, 1, NULL));
        assert_int_equal(ring_wait(ring, 10, NULL, &slabs[0], &err), SL_OK);
        assert_false(ring_submit(ring, 12, &read, 1, NULL));
        ring_release(ring, 10);
        assert_true(ring_submit(ring, 12, &read, 1, NULL));
        assert_int_equal(ring_wait(ring, 11, NULL, &slabs[1], &err), SL_OK);
        assert_int_equal(ring_wait(ring, 12, NULL, &slabs[2], &err), SL_OK);
        assert_ptr_equal(slabs[2], slabs[0]);
        assert_ptr_not_equal(slabs[1], slabs[0]);
        assert_reads(slabs[1], &read, 1);
        assert_reads(slabs[2], &read, 1);
        ring_free(ring);
    }
}

/* Nothing waits, and yet all that was submitted is read: the disk does not idle while others
 * compute. */
static void ring_pool_reads_on_without_waiting(void **state) {
    (void)state;
    struct ring *ring = make_ring("pool", 4, 65536, 2);
    struct ring_read read = read_of(direct, 0, 500000);
    for (uint64_t ticket = 0; ticket < 4; ticket++)
        assert_true(ring_submit(ring, ticket, &read, 1, NULL));
    struct ring_counters counters = {0};
    for (int i = 0; i < 2000 && counters.read_bytes < 2000000; i++) {
        clock_sleep(0.001);
        ring_counters_get(ring, &counters);
    }
    assert_int_equal(counters.read_bytes, 2000000);
    assert_true(counters.wait_seconds == 0);
    ring_free(ring);
}

static void ring_survives_many_small_submissions(void **state) {
    (void)state;
    for (size_t m = 0; m < method_count; m++) {
        struct ring *ring = make_ring(method_names[m], 4, 4096, 8);
        uint64_t seed = 3, submitted = 0;
        struct ring_read reads[4][8];
        size_t counts[4];
        for (uint64_t done = 0; done < 400; done++) {
            while (submitted < done + 4) {
                size_t i = submitted % 4;
                counts[i] = random_reads(&seed, submitted % 3 ? direct : buffered, reads[i]);
                for (size_t r = 0; r < counts[i]; r++)
                    reads[i][r].bytes %= 5000;
                assert_true(ring_submit(ring, submitted, reads[i], counts[i], NULL));
                submitted++;
            }
            uint8_t *slab = NULL;
            struct error err = {0};
            assert_int_equal(ring_wait(ring, done, NULL, &slab, &err), SL_OK);
            assert_reads(slab, reads[done % 4], counts[done % 4]);
            ring_release(ring, done);
        }
        ring_free(ring);
    }
}

static void ring_reads_into_memory_of_the_callers(void **state) {
    (void)state;
    struct slab memory;
    struct error err = {0};
    assert_int_equal(slab_init(&memory, 65 * 8192, &err), SL_OK);
    struct ring_options options = {.method = &ring_method_pool, .chunk_bytes = 4096};
    struct ring *ring = NULL;
    assert_int_equal(ring_new(&options, &ring, &err), SL_OK);
    struct ring_read read = read_of(direct, 70000, 3000);
    for (uint64_t i = 0; i < 64; i++)
        assert_true(ring_submit(ring, i, &read, 1, memory.data + i * 8192));
    assert_false(ring_submit(ring, 64, &read, 1, memory.data + 64 * 8192));
    uint8_t *slab = NULL;
    for (uint64_t i = 0; i < 64; i++) {
        assert_int_equal(ring_wait(ring, i, NULL, &slab, &err), SL_OK);
        assert_ptr_equal(slab, memory.data + i * 8192);
        assert_reads(slab, &read, 1);
        ring_release(ring, i);
    }
    assert_true(ring_submit(ring, 64, &read, 1, memory.data + 64 * 8192));
    ring_free(ring);
    slab_release(&memory);
}

/* Of nothing, one at a time: each takes the slab behind the last one's, though the first is free.
 */
static void ring_takes_submissions_of_nothing_and_slabs_in_turn(void **state) {
    (void)state;
    for (size_t m = 0; m < method_count; m++) {
        struct ring *ring = make_ring(method_names[m], 3, 0, 0);
        struct ring_read nothing[2] = {read_of(direct, 5, 0), read_of(direct, 6, 0)};
        uint8_t *slabs[7] = {NULL};
        struct error err = {0};
        for (size_t i = 0; i < 7; i++) {
            assert_true(ring_submit(ring, i, nothing, i % 3, NULL));
            assert_int_equal(ring_wait(ring, i, NULL, &slabs[i], &err), SL_OK);
            ring_release(ring, i);
            assert_true(i == 0 || slabs[i] != slabs[i - 1]);
            assert_true(i < 3 || slabs[i] == slabs[i - 3]);
        }
        ring_free(ring);
    }
}

/* Every read fails from the nth on: the first ticket hit tells where, and all end. */
static void ring_tells_where_a_read_failed(void **state) {
    (void)state;
    for (size_t m = 0; m < method_count; m++)
        for (uint64_t nth = 1; nth <= 8; nth++) {
            struct ring *ring = make_ring(method_names[m], 3, 65536, 1);
            struct ring_read read = read_of(direct, 65536, 4 * 65536 - 1);
            struct error err = {0};
            uint8_t *slab = NULL;
            fault_arm(SL_FAULT_READ, nth, true);
            for (uint64_t ticket = 0; ticket < 3; ticket++)
                assert_true(ring_submit(ring, ticket, &read, 1, NULL));
            size_t failures = 0;
            for (uint64_t ticket = 0; ticket < 3; ticket++) {
                enum status status = ring_wait(ring, ticket, NULL, &slab, &err);
                failures += status == SL_ERR_ENV;
                if (status == SL_ERR_ENV &&
                    failures == 1) { /* reads 1 to 4 are those of ticket 0 */
                    char place[64];
                    snprintf(place, sizeof place,
                             "at offset %llu: ", (unsigned long long)(65536 * (1 + (nth - 1) % 4)));
                    assert_int_equal(ticket, (nth - 1) / 4);
                    assert_non_null(strstr(err.text, path));
                    assert_non_null(strstr(err.text, place));
                    assert_non_null(strstr(err.text, strerror(EIO)));
                }
            }
            assert_int_equal(failures, nth <= 4 ? 3 : 2);
            fault_arm(SL_FAULT_READ, 0, false);
            /* The slabs of the failed ones are free again. */
            assert_true(ring_submit(ring, 7, &read, 1, NULL));
            assert_int_equal(ring_wait(ring, 7, NULL, &slab, &err), SL_OK);
            assert_reads(slab, &read, 1);
            ring_free(ring);
        }
}

static void ring_retries_a_read_once(void **state) {
    (void)state;
    const enum fault_point points[] = {SL_FAULT_READ, SL_FAULT_SHORT_READ};
    const struct file *files[] = {direct, buffered};
    for (size_t m = 0; m < method_count; m++)
        for (size_t p = 0; p < 2; p++)
            for (size_t f = 0; f < 2; f++)
                for (uint64_t nth = 1; nth <= 5; nth++) {
                    struct ring *ring = make_ring(method_names[m], 1, 65536, 3);
                    struct ring_read read = read_of(files[f], DATA_BYTES - 200001, 200001);
                    struct error err = {0};
                    uint8_t *slab = NULL;
                    fault_arm(points[p], nth, false);
                    assert_true(ring_submit(ring, 0, &read, 1, NULL));
                    assert_int_equal(ring_wait(ring, 0, NULL, &slab, &err), SL_OK);
                    assert_reads(slab, &read, 1);
                    assert_true(fault_count(points[p]) >= 5 || nth == 5);
                    fault_arm(points[p], 0, false);
                    ring_free(ring);
                }
}

static void ring_tells_of_a_file_cut_short(void **state) {
    (void)state;
    char shorter[] = "/tmp/sluice-cut-XXXXXX";
    int fd = mkstemp(shorter);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    for (size_t m = 0; m < method_count; m++)
        for (int wants_direct = 0; wants_direct < 2; wants_direct++) {
            assert_int_equal(write_data(shorter), 0);
            struct file *file = NULL;
            struct error err = {0};
            assert_int_equal(file_open(shorter, wants_direct, &file, &err), SL_OK);
            struct ring *ring = make_ring(method_names[m], 2, 65536, 2);
            struct ring_read read = read_of(file, 900000, 300000);
            uint8_t *slab = NULL;
            assert_true(ring_submit(ring, 0, &read, 1, NULL));
            assert_int_equal(ring_wait(ring, 0, NULL, &slab, &err), SL_OK);
            assert_int_equal(truncate(shorter, 1000001), 0);
            assert_true(ring_submit(ring, 1, &read, 1, NULL));
            assert_int_equal(ring_wait(ring, 1, NULL, &slab, &err), SL_ERR_ENV);
            assert_non_null(strstr(err.text, shorter));
            assert_non_null(strstr(err.text, "ends early"));
            assert_non_null(strstr(err.text, "it had 1500003 bytes"));
            ring_free(ring);
            file_close(file);
        }
    assert_int_equal(unlink(shorter), 0);
}

/* How often ring_new failed before it did not, each time with that reason. */
static uint64_t count_failures(const char *method, enum fault_point point, const char *reason) {
    for (uint64_t nth = 1;; nth++) {
        struct ring_options options = {
            .method = ring_method_find(method), .slab_bytes = 8192, .slab_count = 3};
        struct ring *ring = NULL;
        struct error err = {0};
        fault_arm(point, nth, false);
        enum status status = ring_new(&options, &ring, &err);
        fault_arm(point, 0, false);
        if (status == SL_OK) {
            ring_free(ring);
            return nth - 1;
        }
        assert_int_equal(status, SL_ERR_ENV);
        assert_null(ring);
        assert_non_null(strstr(err.text, reason));
    }
}

static void ring_new_cleans_up_after_itself(void **state) {
    (void)state;
    /* ring, 3 slabs, 3 queues, pool; 4 threads */
    assert_int_equal(count_failures("pool", SL_FAULT_ALLOC, "out of memory"), 8);
    assert_int_equal(count_failures("pool", SL_FAULT_THREAD, "cannot start reader"), 4);
    if (method_count < 3)
        return;
    /* ring, 3 slabs, 3 queues, uring and its slots; 1 thread */
    assert_int_equal(count_failures("uring", SL_FAULT_ALLOC, "out of memory"), 9);
    assert_int_equal(count_failures("uring", SL_FAULT_THREAD, "cannot start the uring"), 1);
}

/* Submissions come while a read is under way, more than the queue of the kernel holds at once. */
static void ring_uring_takes_what_comes_while_it_reads(void **state) {
    (void)state;
    if (method_count < 3) {
        print_message("skipped: the kernel refuses io_uring\n");
        skip();
    }
    struct ring *ring = make_ring("uring", 8, 4096, 3);
    struct ring_read read = read_of(direct, 300, 50000);
    for (uint64_t i = 0; i < 1000; i++) {
        uint8_t *slab = NULL;
        struct error err = {0};
        assert_true(ring_submit(ring, i, &read, 1, NULL));
        if (i < 7)
            continue;
        assert_int_equal(ring_wait(ring, i - 7, NULL, &slab, &err), SL_OK);
        assert_reads(slab, &read, 1);
        memset(slab, 0, 60000);
        ring_release(ring, i - 7);
    }
    ring_free(ring);
}

static void ring_new_refuses_numbers_beyond_limits(void **state) {
    (void)state;
    struct ring *ring = NULL;
    struct error err = {0};
    assert_int_equal(ring_new(&(struct ring_options){.slab_count = 65}, &ring, &err), SL_ERR_USAGE);
    assert_int_equal(ring_new(&(struct ring_options){.depth = 65}, &ring, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "depth 65"));
    assert_int_equal(ring_new(&(struct ring_options){.chunk_bytes = (size_t)2 << 30}, &ring, &err),
                     SL_ERR_USAGE);
    assert_null(ring);
}

/* A submission with more reads than the queue has room for at first, and no memory for them. */
static void ring_fails_a_submission_without_memory(void **state) {
    (void)state;
    struct ring *ring = make_ring("pool", 1, 0, 2);
    struct ring_read reads[100];
    for (size_t i = 0; i < 100; i++)
        reads[i] = (struct ring_read){direct, 8192 * i + 9, 100, 4096 * i + 9};
    struct error err = {0};
    uint8_t *slab = NULL;
    fault_arm(SL_FAULT_ALLOC, 1, false);
    assert_true(ring_submit(ring, 1, reads, 100, NULL));
    assert_int_equal(ring_wait(ring, 1, NULL, &slab, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "out of memory"));
    assert_true(ring_submit(ring, 2, reads, 100, NULL));
    assert_int_equal(ring_wait(ring, 2, NULL, &slab, &err), SL_OK);
    assert_reads(slab, reads, 100);
    ring_free(ring);
}

static int times_asked;
static bool stop_at_third(void) {
    return ++times_asked == 3;
}

static void ring_wait_stops_when_told(void **state) {
    (void)state;
    struct ring_options options = {
        .method = &ring_method_stuck, .slab_bytes = SLAB_BYTES, .slab_count = 2};
    struct ring *ring = NULL;
    struct error err = {0};
    assert_int_equal(ring_new(&options, &ring, &err), SL_OK);
    struct ring_read read = read_of(direct, 0, 100);
    assert_true(ring_submit(ring, 1, &read, 1, NULL));
    assert_true(ring_submit(ring, 2, &read, 1, NULL));
    uint8_t *slab = NULL;
    double began = clock_seconds();
    times_asked = 0;
    assert_int_equal(ring_wait(ring, 1, stop_at_third, &slab, &err), SL_ERR_STOPPED);
    assert_int_equal(err.status, SL_ERR_STOPPED);
    assert_int_equal(times_asked, 3);
    assert_true(clock_seconds() - began >= 0.149);
    assert_null(slab);
    struct ring_counters counters;
    ring_counters_get(ring, &counters);
    assert_true(counters.wait_seconds >= 0.149);
    assert_false(ring_submit(ring, 3, &read, 1, NULL)); /* both are still queued */
    ring_free(ring);
}

static void ring_free_drops_what_is_queued(void **state) {
    (void)state;
    for (size_t m = 0; m < method_count; m++)
        for (size_t round = 0; round < 20; round++) {
            struct ring *ring = make_ring(method_names[m], 8, 4096, 1 + round % 5);
            struct ring_read read = read_of(direct, 4096 * round, SLAB_BYTES - 4096);
            for (uint64_t ticket = 0; ticket < 8; ticket++)
                assert_true(ring_submit(ring, ticket, &read, 1, NULL));
            if (round % 3 == 0) {
                struct error err = {0};
                uint8_t *slab = NULL;
                assert_int_equal(ring_wait(ring, 0, NULL, &slab, &err), SL_OK);
            }
            ring_free(ring);
        }
    ring_free(NULL);
}

static size_t times_in(const char *text, const char *what) {
    size_t count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

static void ring_warns_of_refused_direct_reads_once(void **state) {
    (void)state;
    struct file refused = *buffered;
    refused.is_direct_refused = true;
    FILE *messages = tmpfile();
    assert_non_null(messages);
    int saved = dup(STDERR_FILENO);
    assert_true(dup2(fileno(messages), STDERR_FILENO) >= 0);
    struct ring *ring = make_ring("pool", 3, 0, 0);
    struct ring_read reads[] = {read_of(&refused, 77, 1000), read_of(buffered, 77, 1000)};
    for (uint64_t ticket = 0; ticket < 3; ticket++)
        assert_true(ring_submit(ring, ticket, &reads[ticket == 0], 1, NULL));
    struct error err = {0};
    uint8_t *slab = NULL;
    enum status status = ring_wait(ring, 1, NULL, &slab, &err);
    ring_free(ring);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    assert_int_equal(status, SL_OK);
    char text[2000] = {0};
    rewind(messages);
    assert_true(fread(text, 1, sizeof text - 1, messages) > 0);
    fclose(messages);
    assert_int_equal(times_in(text, "direct I/O"), 1);
    assert_int_equal(times_in(text, path), 1);
}

static void ring_method_names_find_methods(void **state) {
    (void)state;
    assert_ptr_equal(ring_method_find("pool"), &ring_method_pool);
    assert_ptr_equal(ring_method_find("sync"), &ring_method_sync);
    assert_string_equal(ring_method_name(&ring_method_sync), "sync");
    assert_null(ring_method_find("poo"));
    assert_null(ring_method_find(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ring_methods_read_equal_bytes, fault_disarm_all),
        cmocka_unit_test_teardown(ring_reads_files_in_memory, fault_disarm_all),
        cmocka_unit_test_teardown(ring_submit_waits_for_a_slab, fault_disarm_all),
        cmocka_unit_test_teardown(ring_pool_reads_on_without_waiting, fault_disarm_all),
        cmocka_unit_test_teardown(ring_survives_many_small_submissions, fault_disarm_all),
        cmocka_unit_test_teardown(ring_reads_into_memory_of_the_callers, fault_disarm_all),
        cmocka_unit_test_teardown(ring_takes_submissions_of_nothing_and_slabs_in_turn,
                                  fault_disarm_all),
        cmocka_unit_test_teardown(ring_tells_where_a_read_failed, fault_disarm_all),
        cmocka_unit_test_teardown(ring_retries_a_read_once, fault_disarm_all),
        cmocka_unit_test_teardown(ring_tells_of_a_file_cut_short, fault_disarm_all),
        cmocka_unit_test_teardown(ring_new_cleans_up_after_itself, fault_disarm_all),
        cmocka_unit_test_teardown(ring_uring_takes_what_comes_while_it_reads, fault_disarm_all),
        cmocka_unit_test_teardown(ring_new_refuses_numbers_beyond_limits, fault_disarm_all),
        cmocka_unit_test_teardown(ring_fails_a_submission_without_memory, fault_disarm_all),
        cmocka_unit_test_teardown(ring_wait_stops_when_told, fault_disarm_all),
        cmocka_unit_test_teardown(ring_free_drops_what_is_queued, fault_disarm_all),
        cmocka_unit_test_teardown(ring_warns_of_refused_direct_reads_once, fault_disarm_all),
        cmocka_unit_test_teardown(ring_method_names_find_methods, fault_disarm_all),
    };
    return cmocka_run_group_tests_name("ring", tests, make_files, remove_files);
}
