/* What is free, read from made-up /proc and cgroup trees. The numbers of each follow from the
 * kernel's documentation of the files (admin-guide/cgroup-v1/memory, admin-guide/cgroup-v2). */
#include "plan/machine.h"

#include "plan/folder_for_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB ((uint64_t)1 << 10)

static char root[PATH_MAX];

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/sluice-machine-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_root(void **state) {
    (void)state;
    return folder_remove(root);
}

/* Makes the file and the folders that it lies in. */
static void put(const char *path, const char *text) {
    char whole[2 * PATH_MAX];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(whole, 0755);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_free(uint64_t bytes, const char *source) {
    struct machine machine;
    machine_read(root, &machine);
    assert_true(machine.free_bytes == bytes);
    if (strstr(machine.limit_source, source) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", machine.limit_source, source);
}

static void without_cgroups_it_is_what_the_machine_has(void **state) {
    (void)state;
    put("/proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:   900 kB\n");
    assert_free(900 * KIB, "MemAvailable");
    put("/proc/self/cgroup", "3:memory:/\n0::/\n");
    put("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    assert_free(900 * KIB, "MemAvailable");
}

static void the_least_of_all_groups_above_counts(void **state) {
    (void)state;
    put("/proc/meminfo", "MemAvailable: 900 kB\n");
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/proc/self/mountinfo",
        "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "4096\n");
    put("/sys/fs/cgroup/a/memory.max", "512000\n");
    put("/sys/fs/cgroup/a/memory.current", "102400\n");
    assert_free(512000 - 102400, "/sys/fs/cgroup/a");
    /* Page cache that the kernel would drop is as good as free. */
    put("/sys/fs/cgroup/a/memory.stat", "anon 92160\ninactive_file 10240\nactive_file 0\n");
    assert_free(512000 - 102400 + 10240, "/sys/fs/cgroup/a");
    put("/sys/fs/cgroup/a/b/memory.max", "5000\n");
    assert_free(5000 - 4096, "/sys/fs/cgroup/a/b");
    put("/sys/fs/cgroup/a/b/memory.max", "4000\n"); /* lowered below what is used */
    assert_free(0, "/sys/fs/cgroup/a/b");
}

static void version_1_has_its_own_hierarchy(void **state) {
    (void)state;
    put("/proc/meminfo", "MemAvailable: 900 kB\n");
    put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/m\n0::/\n");
    put("/proc/self/mountinfo",
        "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "700000\n");
    assert_free(900 * KIB, "MemAvailable");
    put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "300000\n");
    put("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "100000\n");
    put("/sys/fs/cgroup/memory/m/memory.stat", "inactive_file 1\ntotal_inactive_file 50000\n");
    assert_free(250000, "/sys/fs/cgroup/memory/m");
}

/* A container whose part of the tree is mounted as if it were the root. */
static void a_mount_below_the_root_is_understood(void **state) {
    (void)state;
    put("/proc/meminfo", "MemAvailable: 900 kB\n");
    put("/proc/self/cgroup", "4:memory:/box/7/inner\n");
    put("/proc/self/mountinfo",
        "32 30 0:28 /box/7 /sys/fs/cgroup/memory ro - cgroup cgroup ro,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
    put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "350000\n");
    put("/sys/fs/cgroup/memory/inner/memory.usage_in_bytes", "100\n");
    assert_free(300000, "/sys/fs/cgroup/memory");
}

static void strange_files_say_nothing(void **state) {
    (void)state;
    put("/proc/meminfo", "MemAvailable: 900 kB\n");
    put("/proc/self/cgroup", "nonsense\n\n:::\n0::\n4:memory:/m");
    put("/proc/self/mountinfo", "x\n\n- cgroup2 - cgroup2\n"
                                "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
    put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "-5\n");
    put("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "much\n");
    assert_free(900 * KIB, "MemAvailable");
}

static void this_process_has_some_memory(void **state) {
    (void)state;
    uint64_t now = machine_rss_bytes(), peak = machine_peak_rss_bytes();
    assert_true(now > 100 * KIB);
    assert_true(peak >= now / 2); /* the two are counted at different times */
    size_t bytes = (size_t)32 << 20;
    char *memory = malloc(bytes);
    assert_non_null(memory);
    memset(memory, 1, bytes);
    assert_true(machine_rss_bytes() >= now + bytes - bytes / 8);
    free(memory);
    struct machine machine;
    machine_get(&machine);
    assert_true(machine.free_bytes > 0);
}

/* What is free changes from one look to the next on a machine at work: an eighth either way. */
static void the_budget_is_what_is_said_or_most_of_what_is_free(void **state) {
    (void)state;
    struct machine machine;
    struct machine_budget budget;
    machine_get_budget(12345, &budget);
    assert_int_equal(budget.bytes, 12345);
    assert_string_equal(budget.source, "--memory");
    machine_get(&machine);
    machine_get_budget(0, &budget);
    assert_non_null(strstr(budget.source, "85 % of what is free"));
    assert_non_null(strstr(budget.source, machine.limit_source));
    uint64_t expected = (machine.free_bytes + machine_rss_bytes()) / 20 * 17;
    assert_in_range(budget.bytes, expected - expected / 8, expected + expected / 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_cgroups_it_is_what_the_machine_has, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(the_least_of_all_groups_above_counts, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(version_1_has_its_own_hierarchy, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_mount_below_the_root_is_understood, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(strange_files_say_nothing, make_root, remove_root),
        cmocka_unit_test(this_process_has_some_memory),
        cmocka_unit_test(the_budget_is_what_is_said_or_most_of_what_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
