/* SQLite's files for tests: nothing waits for a disk, and every write, sync, truncation and read of
 * its own can be made to fail by the fault points of base/fault.h. A layer over the default files
 * (https://www.sqlite.org/vfs.html). One thread. */
#ifndef SLUICE_JOB_SQLITE_FOR_TEST_H
#define SLUICE_JOB_SQLITE_FOR_TEST_H

#include "base/fault.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>

struct test_file {
    sqlite3_file base;
    const sqlite3_io_methods *below; /* of the file behind this struct */
};

static sqlite3_vfs test_vfs, *test_vfs_below;
static sqlite3_io_methods test_methods;

static inline sqlite3_file *test_below(sqlite3_file *file) {
    return (sqlite3_file *)(void *)((struct test_file *)(void *)file + 1);
}

static inline const sqlite3_io_methods *test_table(sqlite3_file *file) {
    return test_below(file)->pMethods;
}

static inline int test_close(sqlite3_file *file) {
    return test_table(file)->xClose(test_below(file));
}

static inline int test_read(sqlite3_file *file, void *into, int bytes, sqlite3_int64 at) {
    if (fault_hit(SL_FAULT_READ)) {
        errno = EIO;
        return SQLITE_IOERR_READ;
    }
    return test_table(file)->xRead(test_below(file), into, bytes, at);
}

/* A write that fails leaves half of its bytes, as a full disk does. */
static inline int test_write(sqlite3_file *file, const void *from, int bytes, sqlite3_int64 at) {
    if (!fault_hit(SL_FAULT_WRITE))
        return test_table(file)->xWrite(test_below(file), from, bytes, at);
    test_table(file)->xWrite(test_below(file), from, bytes / 2, at);
    errno = ENOSPC;
    return SQLITE_FULL;
}

static inline int test_truncate(sqlite3_file *file, sqlite3_int64 bytes) {
    return test_table(file)->xTruncate(test_below(file), bytes);
}

static inline int test_sync(sqlite3_file *file, int flags) {
    (void)file;
    (void)flags;
    errno = fault_hit(SL_FAULT_SYNC) ? EIO : 0;
    return errno != 0 ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static inline int test_size(sqlite3_file *file, sqlite3_int64 *bytes) {
    return test_table(file)->xFileSize(test_below(file), bytes);
}

static inline int test_lock(sqlite3_file *file, int level) {
    return test_table(file)->xLock(test_below(file), level);
}

static inline int test_unlock(sqlite3_file *file, int level) {
    return test_table(file)->xUnlock(test_below(file), level);
}

static inline int test_check_lock(sqlite3_file *file, int *out) {
    return test_table(file)->xCheckReservedLock(test_below(file), out);
}

static inline int test_control(sqlite3_file *file, int what, void *value) {
    return test_table(file)->xFileControl(test_below(file), what, value);
}

static inline int test_sector(sqlite3_file *file) {
    return test_table(file)->xSectorSize(test_below(file));
}

static inline int test_device(sqlite3_file *file) {
    return test_table(file)->xDeviceCharacteristics(test_below(file));
}

static inline int test_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                            int *out_flags) {
    (void)vfs;
    file->pMethods = NULL;
    int code = test_vfs_below->xOpen(test_vfs_below, name, test_below(file), flags, out_flags);
    if (test_below(file)->pMethods != NULL)
        file->pMethods = &test_methods;
    return code;
}

/* From here on all journals of the process lie on such files. */
static inline void test_sqlite_begin(void) {
    test_methods = (sqlite3_io_methods){.iVersion = 1,
                                        .xClose = test_close,
                                        .xRead = test_read,
                                        .xWrite = test_write,
                                        .xTruncate = test_truncate,
                                        .xSync = test_sync,
                                        .xFileSize = test_size,
                                        .xLock = test_lock,
                                        .xUnlock = test_unlock,
                                        .xCheckReservedLock = test_check_lock,
                                        .xFileControl = test_control,
                                        .xSectorSize = test_sector,
                                        .xDeviceCharacteristics = test_device};
    test_vfs_below = sqlite3_vfs_find(NULL);
    test_vfs = *test_vfs_below;
    test_vfs.zName = "test";
    test_vfs.pNext = NULL;
    test_vfs.szOsFile = (int)sizeof(struct test_file) + test_vfs_below->szOsFile;
    test_vfs.xOpen = test_open;
    sqlite3_vfs_register(&test_vfs, 1);
}

#endif
