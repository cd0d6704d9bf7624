/* Reads through the page cache, where direct ones are refused, leave next to nothing in it: else
 * weights would fill memory that is not ours. Looked at from outside, with mincore. */
#include "base/fault_for_test.h"
#include "base/memcheck_for_test.h"
#include "io/ring_method.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA_BYTES ((size_t)8 << 20)
#define PAGES (DATA_BYTES / SL_IO_ALIGN)
#define TMPFS ((unsigned long)0x01021994) /* statfs(2) */

static char path[] = "/tmp/sluice-drop-XXXXXX";

static int make_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    char *bytes = calloc(1, DATA_BYTES);
    if (fd < 0 || bytes == NULL || write(fd, bytes, DATA_BYTES) != (ssize_t)DATA_BYTES)
        return -1;
    free(bytes);
    /* Pages that are not on the disk yet cannot be dropped. */
    if (fsync(fd) != 0 || close(fd) != 0)
        return -1;
    return 0;
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

/* Opened on a file system that refuses direct reads. */
static struct file *open_refused(void) {
    struct file *file = NULL;
    fault_arm(SL_FAULT_OPEN, 2, false);
    assert_int_equal(file_open(path, true, &file, NULL), SL_OK);
    fault_arm(SL_FAULT_OPEN, 0, false);
    assert_true(file->is_direct_refused);
    return file;
}

static size_t cached_pages(void) {
    static unsigned char pages[PAGES];
    size_t count = 0;
    int fd = open(path, O_RDONLY);
    void *map = mmap(NULL, DATA_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mincore(map, DATA_BYTES, pages), 0);
    munmap(map, DATA_BYTES);
    close(fd);
    for (size_t i = 0; i < PAGES; i++)
        count += pages[i] & 1;
    return count;
}

static void buffered_reads_leave_the_page_cache_as_good_as_empty(void **state) {
    (void)state;
    skip_under_memcheck("it looks into every file that is mapped");
    struct statfs info;
    const struct ring_method *methods[] = {&ring_method_sync, &ring_method_pool,
                                           &ring_method_uring};
    assert_int_equal(statfs(path, &info), 0);
    if ((unsigned long)info.f_type == TMPFS) {
        print_message("skipped: what lies in /tmp lies in memory\n");
        skip();
    }
    /* What writing has left: the kernel keeps large pieces that a drop covers in part. */
    file_close(open_refused());
    assert_int_equal(cached_pages(), 0);
    for (size_t m = 0; m < 3; m++) {
        struct ring_options options = {.method = methods[m],
                                       .slab_bytes = DATA_BYTES / 4 + SL_IO_ALIGN,
                                       .slab_count = 2,
                                       .chunk_bytes = 256 << 10,
                                       .depth = 3};
        struct ring *ring = NULL;
        if (ring_method_try(methods[m], NULL) != SL_OK)
            continue;
        struct file *file = open_refused();
        assert_int_equal(ring_new(&options, &ring, NULL), SL_OK);
        for (uint64_t part = 0; part < 4; part++) {
            /* borders within pages */
            size_t from = part * (DATA_BYTES / 4) + (part > 0 ? 100 : 0);
            size_t to = (part + 1) * (DATA_BYTES / 4) + (part < 3 ? 100 : 0);
            struct ring_read read = {file, from, to - from, from % SL_IO_ALIGN};
            uint8_t *slab = NULL;
            assert_true(ring_submit(ring, part, &read, 1, NULL));
            assert_int_equal(ring_wait(ring, part, NULL, &slab, NULL), SL_OK);
            ring_release(ring, part);
        }
        ring_free(ring);
        /* What the kernel reads ahead of one reader may come after another one has dropped it. */
        assert_true(cached_pages() <= PAGES / 50);
        file_close(file);
        assert_int_equal(cached_pages(), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffered_reads_leave_the_page_cache_as_good_as_empty),
    };
    return cmocka_run_group_tests_name("drop", tests, make_file, remove_file);
}
