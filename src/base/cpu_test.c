/* The processor as this process sees it, against /proc/cpuinfo (x86-64) or what the kernel handed
 * it (aarch64), and its own affinity. */
#include "base/cpu.h"
#include "base/memcheck_for_test.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include <cmocka.h>

#if defined(__x86_64__)
/* Whether the kernel lists the flag. The kernel lists none whose registers it does not save. */
static bool kernel_lists(const char *flag) {
    static char line[8192];
    char padded[40];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");
    assert_non_null(file);
    snprintf(padded, sizeof padded, " %s ", flag);
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = ' ';
        found = strncmp(line, "flags", 5) == 0 && strstr(line, padded);
    }
    fclose(file);
    return found;
}
#endif

static void instruction_sets_are_those_the_kernel_lists(void **state) {
    (void)state;
    skip_under_memcheck("it shows a processor of its own");
    const struct cpu *cpu = cpu_get();
#if defined(__x86_64__)
    bool has_avx2 = kernel_lists("avx2") && kernel_lists("fma") && kernel_lists("f16c");
    assert_int_equal(cpu->has_avx2_fma, has_avx2);
    bool has_avx512 = has_avx2 && kernel_lists("avx512f") && kernel_lists("avx512bw") &&
                      kernel_lists("avx512dq") && kernel_lists("avx512vl");
    assert_int_equal(cpu->has_avx512, has_avx512);
    assert_int_equal(cpu->has_avx512bf16, has_avx512 && kernel_lists("avx512_bf16"));
    assert_int_equal(cpu->has_amx_bf16, has_avx512 && kernel_lists("amx_bf16"));
    assert_false(cpu->has_neon);
#else
    assert_false(cpu->has_avx2_fma || cpu->has_avx512 || cpu->has_amx_bf16);
#if defined(__aarch64__)
    assert_true(getauxval(AT_HWCAP) & HWCAP_ASIMD);
    assert_true(cpu->has_neon);
#else
    assert_false(cpu->has_neon);
#endif
#endif
}

static void threads_are_at_least_one_and_within_the_affinity(void **state) {
    (void)state;
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    assert_in_range(cpu_get()->threads_max, 1, CPU_COUNT(&allowed));
}

static void facts_are_constant_and_printable(void **state) {
    (void)state;
    const struct cpu *cpu = cpu_get();
    assert_ptr_equal(cpu, cpu_get());
    assert_true(strlen(cpu->name) < sizeof cpu->name);
    for (size_t i = 0; cpu->name[i]; i++)
        assert_in_range(cpu->name[i], 0x20, 0x7E);
    /* Not told, or of a size that such a cache can have. */
    if (cpu->l1d_bytes)
        assert_in_range(cpu->l1d_bytes, 4 << 10, 1 << 20);
    if (cpu->l2_bytes)
        assert_in_range(cpu->l2_bytes, 64 << 10, 256 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instruction_sets_are_those_the_kernel_lists),
        cmocka_unit_test(threads_are_at_least_one_and_within_the_affinity),
        cmocka_unit_test(facts_are_constant_and_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
