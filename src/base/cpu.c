/* Owns what we know of the processor: instruction sets by CPUID and XCR0, caches and cores from
 * sysfs, the CPU quota from the cgroup. Whatever cannot be read is left out, never an error. */
#include "base/cpu.h"

#include "base/mem.h"
#include "base/str.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static struct cpu cpu_found;
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

/* The first bytes of a small file of /sys or /proc, terminated; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, size - 1);
    close(fd);
    if (got < 0)
        return false;
    text[got] = '\0';
    return true;
}

/* A decimal number at the start of a text; *rest gets what follows it. */
static bool read_number(const char *text, uint64_t *value, const char **rest) {
    size_t digits = strspn(text, "0123456789");
    if (!str_to_u64((struct str){text, digits}, value))
        return false;
    *rest = text + digits;
    return true;
}

#if defined(__x86_64__)
static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

/* Intel SDM volume 1, chapters 13.3 (XCR0) and 14.3; volume 2, CPUID leaves 1 and 7. */
static void find_features(struct cpu *cpu) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return;
    cpu->has_crc32c = (c & (uint32_t)bit_SSE4_2) != 0;
    if (!(c & (uint32_t)bit_OSXSAVE))
        return;
    uint32_t leaf1 = c;
    uint64_t saved = read_xcr0();
    bool saves_ymm = (saved & 0x6) == 0x6;           /* SSE and AVX state */
    bool saves_zmm = (saved & 0xE6) == 0xE6;         /* and opmask, both zmm parts */
    bool saves_tiles = (saved & 0x60000) == 0x60000; /* TILECFG, TILEDATA */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return;
    uint32_t leaf7_b = b, leaf7_d = d, leaf7_1a = 0;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
        leaf7_1a = a;
    uint32_t basic = (uint32_t)bit_AVX | (uint32_t)bit_FMA | (uint32_t)bit_F16C;
    uint32_t wide = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31); /* F, DQ, BW, VL */
    cpu->has_avx2_fma = saves_ymm && (leaf1 & basic) == basic && (leaf7_b & (uint32_t)bit_AVX2);
    cpu->has_avx512 = cpu->has_avx2_fma && saves_zmm && (leaf7_b & wide) == wide;
    cpu->has_avx512bf16 = cpu->has_avx512 && (leaf7_1a & (1u << 5));
    cpu->has_amx_bf16 =
        cpu->has_avx512 && saves_tiles && (leaf7_d & (1u << 22)) && (leaf7_d & (1u << 24));
}

/* The brand string: leaves 80000002 to 80000004, 16 bytes each. */
static void find_name(struct cpu *cpu) {
    uint32_t words[12];
    if ((uint32_t)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u)
        return;
    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                    &words[4 * i + 3]);
    memcpy(cpu->name, words, sizeof words);
}
#else
static void find_features(struct cpu *cpu) {
#if defined(__aarch64__)
    cpu->has_neon = true;
    cpu->has_crc32c = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
    (void)cpu;
#endif
}
static void find_name(struct cpu *cpu) {
    (void)cpu;
}
#endif

static void find_caches(struct cpu *cpu) {
    for (int index = 0; index < 8; index++) {
        char path[96], text[32];
        const char *base = "/sys/devices/system/cpu/cpu0/cache/index";
        uint64_t level, kib;
        const char *rest;
        snprintf(path, sizeof path, "%s%d/level", base, index);
        if (!read_text(path, text, sizeof text) || !read_number(text, &level, &rest))
            return;
        snprintf(path, sizeof path, "%s%d/type", base, index);
        if (!read_text(path, text, sizeof text) || text[0] == 'I') /* Data, Unified */
            continue;
        snprintf(path, sizeof path, "%s%d/size", base, index);
        if (!read_text(path, text, sizeof text) || !read_number(text, &kib, &rest) ||
            kib > UINT32_MAX)
            continue;
        size_t bytes = (size_t)kib << (*rest == 'M' ? 20 : *rest == 'K' ? 10 : 0);
        if (level == 1)
            cpu->l1d_bytes = bytes;
        else if (level == 2)
            cpu->l2_bytes = bytes;
        else if (level == 3)
            cpu->l3_bytes = bytes;
    }
}

/* The lowest number in the list of processors that share a core with this one ("3,67" or "6-7"):
 * it stands for the core. Itself when not told. */
static size_t core_of(size_t processor) {
    static const char *const names[] = {"core_cpus_list", "thread_siblings_list"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[96], text[256];
        uint64_t lowest;
        const char *rest;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/%s", processor,
                 names[i]);
        if (read_text(path, text, sizeof text) && read_number(text, &lowest, &rest))
            return (size_t)lowest;
    }
    return processor;
}

static size_t count_cores(void) {
    cpu_set_t allowed, cores;
    CPU_ZERO(&allowed);
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        return online > 0 ? (size_t)online : 1;
    }
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        size_t core = CPU_ISSET(i, &allowed) ? core_of(i) : CPU_SETSIZE;
        if (core < CPU_SETSIZE)
            CPU_SET(core, &cores);
    }
    return (size_t)CPU_COUNT(&cores);
}

/* quota / period, rounded up; SIZE_MAX for none. */
static size_t quota_cores(uint64_t quota, uint64_t period) {
    if (period == 0 || quota == 0 || quota > UINT64_MAX - period)
        return SIZE_MAX;
    return size_divide_up(quota, period);
}

/* The quota that a group's folder states, in either version's files; SIZE_MAX for none. */
static size_t group_quota(const char *root, const char *group) {
    char path[700], text[64];
    uint64_t quota, period;
    const char *rest;
    snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
    if (read_text(path, text, sizeof text))
        return read_number(text, &quota, &rest) && *rest == ' ' &&
                       read_number(rest + 1, &period, &rest)
                   ? quota_cores(quota, period)
                   : SIZE_MAX; /* "max 100000" */
    snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", root, group);
    if (!read_text(path, text, sizeof text) || !read_number(text, &quota, &rest))
        return SIZE_MAX; /* -1 is no quota */
    snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", root, group);
    if (!read_text(path, text, sizeof text) || !read_number(text, &period, &rest))
        return SIZE_MAX;
    return quota_cores(quota, period);
}

/* The least quota of the group and of those above it. group is cut at its slashes on the way. */
static size_t least_quota(const char *root, char *group) {
    size_t least = SIZE_MAX;
    for (;;) {
        size_t quota = group_quota(root, group);
        least = quota < least ? quota : least;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* One line of /proc/self/cgroup: "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1).
 * Inside a container the path may not be visible; then the mount's root is our own group. */
static size_t line_quota(char *line) {
    char *names = strchr(line, ':');
    char *group = names ? strchr(names + 1, ':') : NULL;
    if (!group || strlen(group) > 512)
        return SIZE_MAX;
    *group++ = '\0';
    names++;
    if (*names == '\0')
        return least_quota("/sys/fs/cgroup", group);
    bool is_cpu = strcmp(names, "cpu") == 0 || strncmp(names, "cpu,", 4) == 0 ||
                  str_ends(str_from(names), STR(",cpu")) || strstr(names, ",cpu,");
    return is_cpu ? least_quota("/sys/fs/cgroup/cpu", group) : SIZE_MAX;
}

static size_t find_quota(void) {
    char text[4096];
    size_t least = SIZE_MAX;
    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return least;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        size_t quota = line_quota(line);
        least = quota < least ? quota : least;
    }
    return least;
}

static void find_all(void) {
    struct cpu *cpu = &cpu_found;
    find_features(cpu);
    find_name(cpu);
    str_clean(cpu->name);
    find_caches(cpu);
    size_t cores = count_cores(), quota = find_quota();
    cpu->threads_max = cores < quota ? cores : quota;
    if (cpu->threads_max < 1)
        cpu->threads_max = 1;
}

const struct cpu *cpu_get(void) {
    pthread_once(&cpu_once, find_all);
    return &cpu_found;
}
