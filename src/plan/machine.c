/* Memory of the machine and of this process, from /proc and the cgroup files.
 *
 * What is free is the least of MemAvailable and what each memory cgroup from ours up to the root
 * has left: its limit less its usage, where page cache that the kernel would drop counts as left.
 * Refuses nothing: a file that is missing or strange says nothing about a limit. */
#include "plan/machine.h"

#include "base/str.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)64 << 10) /* of a file under /proc or a cgroup: they are small */
#define BUDGET_SHARE_PERCENT 85u
#define UNLIMITED ((uint64_t)1 << 62)

/* Reads the beginning of a file into text (TEXT_MAX bytes) and terminates it; false when it cannot
 * be read. Files under /proc have no size, so plain reads until the end. */
static bool read_text(const char *root, const char *path, char *text) {
    char whole[PATH_MAX];
    int length = snprintf(whole, sizeof whole, "%s%s", root, path);
    if (length < 0 || (size_t)length >= sizeof whole)
        return false;
    int fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t filled = 0;
    for (;;) {
        ssize_t got = read(fd, text + filled, TEXT_MAX - 1 - filled);
        if (got <= 0)
            break;
        filled += (size_t)got;
    }
    close(fd);
    text[filled] = '\0';
    return filled > 0;
}

/* The number after `name` at the beginning of a line. */
static bool find_number(const char *text, const char *name, uint64_t *out) {
    size_t length = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, name, length) == 0) {
            unsigned long long value;
            if (sscanf(line + length, "%llu", &value) != 1)
                return false;
            *out = value;
            return true;
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return false;
}

/* A number alone in a file; false for "max" and everything else. */
static bool read_number(const char *root, const char *folder, const char *name, char *text,
                        uint64_t *out) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path || !read_text(root, path, text))
        return false;
    size_t digits = strspn(text, "0123456789");
    return str_to_u64((struct str){text, digits}, out);
}

/* The files of the two versions of cgroups. */
struct cgroup_files {
    const char *type; /* in mountinfo */
    const char *limit, *usage, *droppable;
};
static const struct cgroup_files cgroup_v1 = {"cgroup", "memory.limit_in_bytes",
                                              "memory.usage_in_bytes", "total_inactive_file "};
static const struct cgroup_files cgroup_v2 = {"cgroup2", "memory.max", "memory.current",
                                              "inactive_file "};

/* What one cgroup has left, into out where that is less than what stands there. */
static void look_at(const char *root, const struct cgroup_files *files, const char *folder,
                    char *text, struct machine *out) {
    uint64_t limit, usage, droppable = 0;
    if (!read_number(root, folder, files->limit, text, &limit) || limit >= UNLIMITED ||
        !read_number(root, folder, files->usage, text, &usage))
        return;
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (length > 0 && (size_t)length < sizeof path && read_text(root, path, text) &&
        !find_number(text, files->droppable, &droppable))
        droppable = 0;
    usage = usage > droppable ? usage - droppable : 0;
    uint64_t left = limit > usage ? limit - usage : 0;
    if (left >= out->free_bytes)
        return;
    out->free_bytes = left;
    snprintf(out->limit_source, sizeof out->limit_source, "the cgroup %.60s", folder);
}

/* From folder up to mount, which is its beginning. */
static void look_up_tree(const char *root, const struct cgroup_files *files, const char *mount,
                         const char *below, char *text, struct machine *out) {
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, strcmp(below, "/") ? below : "");
    if (length < 0 || (size_t)length >= sizeof folder)
        return;
    size_t least = strlen(mount);
    for (;;) {
        look_at(root, files, folder, text, out);
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < least)
            return;
        *slash = '\0';
    }
}

/* Our path in the hierarchy: the line "0::PATH" (v2) or the one that lists memory (v1). */
static bool find_path(const char *text, bool is_v2, char path[PATH_MAX]) {
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *names = memchr(line, ':', length);
        const char *rest =
            names == NULL ? NULL : memchr(names + 1, ':', length - (size_t)(names + 1 - line));
        if (rest != NULL) {
            struct str list = {names + 1, (size_t)(rest - names - 1)};
            bool is_ours = is_v2 ? list.len == 0 : str_is(list, "memory");
            size_t bytes = length - (size_t)(rest + 1 - line);
            if (is_ours && bytes > 0 && bytes < PATH_MAX) {
                memcpy(path, rest + 1, bytes);
                path[bytes] = '\0';
                return true;
            }
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

/* One line of /proc/self/mountinfo: "ID PARENT DEV ROOT MOUNT OPTIONS [TAGS] - TYPE SOURCE SUPER".
 * Of version 1 only the hierarchy with the memory controller counts. */
static void look_at_mount(const char *root, const char *line, char *text, struct machine *out) {
    char tree[512], mount[512], type[32], super[512];
    const char *dash = strstr(line, " - ");
    if (dash == NULL || sscanf(line, "%*s %*s %*s %511s %511s", tree, mount) != 2 ||
        sscanf(dash + 3, "%31s %*s %511s", type, super) != 2)
        return;
    bool is_v2 = strcmp(type, cgroup_v2.type) == 0;
    if (!is_v2 && (strcmp(type, cgroup_v1.type) != 0 || strstr(super, "memory") == NULL))
        return;
    char path[PATH_MAX];
    if (!read_text(root, "/proc/self/cgroup", text) || !find_path(text, is_v2, path))
        return;
    /* A container often sees only its own part of the tree, mounted from below the root. */
    size_t shared = strcmp(tree, "/") == 0 ? 0 : strlen(tree);
    const char *below = strncmp(path, tree, shared) == 0 ? path + shared : "/";
    look_up_tree(root, is_v2 ? &cgroup_v2 : &cgroup_v1, mount, below, text, out);
}

void machine_read(const char *root, struct machine *out) {
    static const char *const available = "MemAvailable:";
    char text[TEXT_MAX], mounts[TEXT_MAX];
    uint64_t value;
    *out = (struct machine){.free_bytes = UNLIMITED, .limit_source = "nothing that tells a limit"};
    if (read_text(root, "/proc/meminfo", text) && find_number(text, available, &value)) {
        out->free_bytes = value < UNLIMITED >> 10 ? value << 10 : UNLIMITED; /* it is in kB */
        snprintf(out->limit_source, sizeof out->limit_source, "MemAvailable");
    }
    if (!read_text(root, "/proc/self/mountinfo", mounts))
        return;
    for (char *line = mounts, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        look_at_mount(root, line, text, out);
    }
}

void machine_get(struct machine *out) {
    machine_read("", out);
}

void machine_get_budget(uint64_t asked_bytes, struct machine_budget *out) {
    if (asked_bytes > 0) {
        *out = (struct machine_budget){asked_bytes, "--memory"};
        return;
    }
    struct machine machine;
    machine_get(&machine);
    /* What this process has already is part of the budget, and not of what is free. */
    uint64_t all = machine.free_bytes + machine_rss_bytes();
    out->bytes = all / 100 * BUDGET_SHARE_PERCENT;
    snprintf(out->source, sizeof out->source, "%u %% of what is free by %s", BUDGET_SHARE_PERCENT,
             machine.limit_source);
}

static uint64_t own_number(const char *name) {
    char text[TEXT_MAX];
    uint64_t value = 0;
    if (!read_text("", "/proc/self/status", text) || !find_number(text, name, &value))
        return 0;
    return value << 10;
}

uint64_t machine_rss_bytes(void) {
    return own_number("VmRSS:");
}

uint64_t machine_peak_rss_bytes(void) {
    return own_number("VmHWM:");
}
