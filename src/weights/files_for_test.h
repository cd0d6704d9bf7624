/* What the tests of this folder share: files in a temporary folder, and a writer of GGUF headers
 * that can also lie. Included by tests alone. */
#ifndef SLUICE_WEIGHTS_FILES_FOR_TEST_H
#define SLUICE_WEIGHTS_FILES_FOR_TEST_H

#include "base/fault.h"
#include "weights/container.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder of the test's own, made by its set-up and removed with its files by its tear-down. */
static char test_folder[64];

static inline int make_test_folder(void **state) {
    (void)state;
    /* In memory where that can be had: these tests write thousands of small files. */
    snprintf(test_folder, sizeof test_folder, "%s/sluice-test-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(test_folder) ? 0 : -1;
}

static inline const char *test_path(const char *name) {
    static char path[sizeof test_folder + 300];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    return path;
}

static inline int remove_test_folder(void **state) {
    (void)state;
    DIR *dir = opendir(test_folder);
    for (struct dirent *item; dir && (item = readdir(dir)) != NULL;)
        if (item->d_name[0] != '.')
            unlink(test_path(item->d_name));
    if (dir)
        closedir(dir);
    return rmdir(test_folder);
}

static inline void write_file(const char *name, const void *bytes, size_t len) {
    int fd = open(test_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    close(fd);
}

/* An opened model; the tests look into it. */
struct opened {
    const struct container *container;
    struct index index;
    struct meta meta;
    struct error err;
    enum status status;
};

static inline void open_model(struct opened *opened, const char *path, bool wants_tensors) {
    index_init(&opened->index);
    meta_init(&opened->meta);
    opened->container = NULL;
    opened->err = (struct error){0};
    opened->status = container_open(path, wants_tensors, &opened->container, &opened->index,
                                    &opened->meta, &opened->err);
    if (opened->status != SL_OK) {
        assert_int_equal(opened->status, SL_ERR_ENV);
        assert_int_equal(opened->err.status, SL_ERR_ENV);
        assert_true(opened->err.text[0] != '\0');
    }
}

static inline void release_model(struct opened *opened) {
    index_release(&opened->index);
    meta_release(&opened->meta);
}

/* Opens path; says (NULL: nothing, it must succeed) must stand in the message. */
static inline void check_open(const char *path, const char *says) {
    struct opened opened;
    open_model(&opened, path, true);
    if (says && opened.status == SL_OK)
        fail_msg("opened, expected a refusal that says: %s", says);
    if (says && !strstr(opened.err.text, says))
        fail_msg("refused with: %s\nexpected: %s", opened.err.text, says);
    if (!says && opened.status != SL_OK)
        fail_msg("refused with: %s", opened.err.text);
    release_model(&opened);
}

/* Makes the 1st, 2nd, ... call of a fault point fail until a run meets none: each failure must be a
 * refusal, and the sanitizers tell about leaks. */
static inline void sweep_faults(const char *path, enum fault_point point) {
    for (uint64_t nth = 1;; nth++) {
        struct opened opened;
        fault_arm(point, nth, false);
        open_model(&opened, path, true);
        bool was_hit = fault_count(point) >= nth;
        fault_arm(point, 0, false);
        enum status status = opened.status;
        release_model(&opened);
        if (!was_hit) {
            assert_int_equal(status, SL_OK);
            assert_true(nth > 1);
            return;
        }
        assert_true(nth < 2000);
    }
}

/* The file NAME with the bytes of whole, cut at every length and then with one to three bits
 * flipped (a generator with a fixed seed): opening model must not crash, and must be refused while
 * fewer than least bytes are there. */
static inline void damage_everywhere(const char *name, const char *model, struct str whole,
                                     size_t least) {
    uint64_t seed = 88172645463325252u; /* of Marsaglia's xorshift64 */
    char *copy = mem_new(whole.len, 1);
    struct opened opened;
    for (size_t len = 0; len < whole.len; len++) {
        write_file(name, whole.data, len);
        open_model(&opened, model, true);
        if ((opened.status == SL_OK) != (len >= least))
            fail_msg("%s when cut to %zu of %zu bytes: %s", opened.status ? "refused" : "opened",
                     len, whole.len, opened.err.text);
        release_model(&opened);
    }
    for (unsigned i = 0; i < 1000; i++) {
        memcpy(copy, whole.data, whole.len);
        for (unsigned k = 0; k <= i % 3; k++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            copy[(seed >> 8) % whole.len] ^= (char)(1u << (seed & 7u));
        }
        write_file(name, copy, whole.len);
        open_model(&opened, model, true);
        release_model(&opened);
    }
    mem_free(copy);
}

/* Each file of the saved corpus ROOT/KIND (root: what SLUICE_CORPUS says), copied into the test's
 * folder by place: names that begin with "good" must open, "bad" must not. */
static inline void replay_corpus(const char *root, const char *kind,
                                 const char *(*place)(struct str bytes)) {
    if (!root) {
        print_message("SLUICE_CORPUS is not set\n");
        skip();
        return;
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, kind);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *item; (item = readdir(dir)) != NULL;) {
        if (item->d_name[0] == '.')
            continue;
        struct buf bytes;
        struct error err;
        struct opened opened;
        buf_init(&bytes);
        snprintf(path, sizeof path, "%s/%s/%s", root, kind, item->d_name);
        assert_int_equal(file_read_all(path, 1 << 20, &bytes, &err), SL_OK);
        open_model(&opened, place(buf_str(&bytes)), true);
        if (strncmp(item->d_name, "good", 4) == 0 && opened.status != SL_OK)
            fail_msg("%s: %s", item->d_name, opened.err.text);
        if (strncmp(item->d_name, "bad", 3) == 0 && opened.status == SL_OK)
            fail_msg("%s: opened", item->d_name);
        release_model(&opened);
        buf_release(&bytes);
        count++;
    }
    closedir(dir);
    assert_true(count > 0);
}

/* The folder SHARED/fixtures/NAME (shared: what SLUICE_SHARED says), or NULL after saying that it
 * is not set. */
static inline const char *fixtures(const char *shared, const char *name) {
    static char path[2048];
    if (!shared) {
        print_message("SLUICE_SHARED is not set\n");
        return NULL;
    }
    snprintf(path, sizeof path, "%s/fixtures/%s", shared, name);
    return path;
}

#endif
