/* A chunk read by itself: what the ring's tests cannot ask for. */
#include "io/ring_method.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Direct I/O at an offset and an address that it refuses: through the page cache then. */
static void chunk_read_falls_back_when_refused(void **state) {
    (void)state;
    static uint8_t data[8192], into[8192];
    char path[] = "/tmp/sluice-chunk-XXXXXX";
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, sizeof data), sizeof data);
    assert_int_equal(close(fd), 0);
    struct file *file = NULL;
    struct error err = {0};
    assert_int_equal(file_open(path, true, &file, &err), SL_OK);
    struct chunk chunk = {.file = file,
                          .offset = 1,
                          .bytes = 4096,
                          .bytes_needed = 4096,
                          .bytes_wanted = 4096,
                          .into = into + 1,
                          .is_direct = file->direct_fd >= 0};
    assert_int_equal(chunk_read(&chunk, &err), SL_OK);
    assert_memory_equal(into + 1, data + 1, 4096);
    chunk_drop_cache(&chunk);
    file_close(file);
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunk_read_falls_back_when_refused),
    };
    return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
