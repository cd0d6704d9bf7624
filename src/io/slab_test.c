/* Slabs: alignment, and that they count for what is touched and never for more than they hold. */
#include "io/slab.h"

#include "base/fault.h"
#include "io/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

/* Bytes of the slab that are in memory, as the kernel tells. */
static size_t resident_bytes(const struct slab *slab) {
    static unsigned char pages[8192];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), sum = 0;
    size_t count = (slab->bytes + page - 1) / page;
    assert_true(count <= sizeof pages);
    assert_int_equal(mincore(slab->data, slab->bytes, pages), 0);
    for (size_t i = 0; i < count; i++)
        sum += (pages[i] & 1) * page;
    return sum;
}

static void slab_is_aligned_and_zeroed(void **state) {
    (void)state;
    const size_t sizes[] = {1, 4096, 4097, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB};
    struct error err = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct slab slab;
        assert_int_equal(slab_init(&slab, sizes[i], &err), SL_OK);
        assert_int_equal((uintptr_t)slab.data % SL_SLAB_ALIGN, 0);
        assert_int_equal(slab.bytes, (sizes[i] + 4095) / 4096 * 4096);
        assert_int_equal(slab.data[0], 0);
        memset(slab.data, 1, slab.bytes);
        slab_release(&slab);
        assert_null(slab.data);
        slab_release(&slab);
    }
}

static void slab_counts_for_what_is_touched(void **state) {
    (void)state;
    struct slab slab;
    struct error err = {0};
    assert_int_equal(slab_init(&slab, 7 * MIB + 5, &err), SL_OK);
    assert_int_equal(resident_bytes(&slab), 0);
    slab.data[0] = 1;
    assert_true(resident_bytes(&slab) > 0);
    assert_true(resident_bytes(&slab) <= 2 * MIB);
    memset(slab.data, 1, slab.bytes);
    assert_int_equal(resident_bytes(&slab), slab.bytes);
    slab_release(&slab);
}

static void what_is_written_counts_for_what_was_foretold(void **state) {
    (void)state;
    const size_t sizes[] = {MIB, 2 * MIB, 5 * MIB + 4096, 7 * MIB + 5};
    struct error err = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t used = 0; used <= sizes[i]; used += MIB / 2) {
            struct slab slab;
            assert_int_equal(slab_init(&slab, sizes[i], &err), SL_OK);
            memset(slab.data, 1, used);
            assert_in_range(resident_bytes(&slab), used, slab_touched_bytes(sizes[i], used));
            slab_release(&slab);
        }
    }
    assert_int_equal(slab_touched_bytes(5 * MIB, MIB), 2 * MIB);
    assert_int_equal(slab_touched_bytes(5 * MIB, 3 * MIB), 4 * MIB);
    assert_int_equal(slab_touched_bytes(5 * MIB, 4 * MIB + 8192), 4 * MIB + 8192);
    assert_int_equal(slab_touched_bytes(MIB, 4096), 4096); /* too small for a huge page */
    assert_int_equal(slab_touched_bytes(0, 0), 0);
}

/* The last 1 MB of 3, and a slab of 1 MB, may not become a huge page of 2. */
static void slab_takes_no_huge_page_it_cannot_fill(void **state) {
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct slab small, large;
    struct error err = {0};
    assert_int_equal(slab_init(&small, MIB, &err), SL_OK);
    assert_int_equal(slab_init(&large, 3 * MIB, &err), SL_OK);
    small.data[0] = 1;
    assert_int_equal(resident_bytes(&small), page);
    large.data[2 * MIB] = 1;
    assert_int_equal(resident_bytes(&large), page);
    slab_release(&small);
    slab_release(&large);
}

static void slab_tells_what_it_could_not_get(void **state) {
    (void)state;
    struct slab slab = {0};
    struct error err = {0};
    assert_int_equal(slab_init(&slab, SIZE_MAX - 100, &err), SL_ERR_ENV);
    assert_int_equal(slab_init(&slab, (size_t)1 << 50, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "1125899906842624"));
    fault_arm(SL_FAULT_ALLOC, 1, false);
    assert_int_equal(slab_init(&slab, 4096, &err), SL_ERR_ENV);
    fault_arm(SL_FAULT_ALLOC, 0, false);
    assert_null(slab.data);
    assert_int_equal(slab_init(&slab, 0, &err), SL_OK);
    assert_int_equal(slab.bytes, 0);
    slab_release(&slab);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slab_is_aligned_and_zeroed),
        cmocka_unit_test(slab_counts_for_what_is_touched),
        cmocka_unit_test(what_is_written_counts_for_what_was_foretold),
        cmocka_unit_test(slab_takes_no_huge_page_it_cannot_fill),
        cmocka_unit_test(slab_tells_what_it_could_not_get),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
