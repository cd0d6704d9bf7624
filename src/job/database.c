/* Owns the connection to an SQLite file, the lock on it, and how SQLite's failures read. Refuses to
 * know its tables, and to open what is no regular file. */
#include "job/database.h"

#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_BYTES 0x40000000 /* where SQLite's locks lie in its file: 512 bytes from there */

/* ---- the file */

/* The process that holds SQLite's lock; 0: none is seen. Our own locks on the file go with the
 * descriptor's end, so this is for a file that we did not get. */
static long holder_of(const char *path) {
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTES, .l_len = 512};
    int fd = open(path, O_RDWR | O_CLOEXEC);
    long pid = fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
    if (fd >= 0)
        close(fd);
    return pid;
}

static enum status in_use(const char *path, long pid, struct error *err) {
    return error_set(err, SL_ERR_ENV, "%s: another run (process %ld) is writing to it", path, pid);
}

enum status database_check_path(const char *path, struct error *err) {
    struct stat info;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? SL_OK
                               : error_set(err, SL_ERR_ENV, "%s: %s", path, strerror(errno));
    if (S_ISREG(info.st_mode))
        return SL_OK;
    return error_set(err, SL_ERR_ENV,
                     "%s is in the way: it is needed for the journal, and it is not a regular file",
                     path);
}

enum status database_check(const char *path, struct error *err) {
    TRY(database_check_path(path, err));
    long pid = holder_of(path);
    return pid == 0 ? SL_OK : in_use(path, pid, err);
}

/* First the log, so that no log of an old file is ever beside a new one. */
void database_remove(const char *path) {
    static const char *const ends[] = {"-wal", "-shm", "-journal", ""};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char name[PATH_MAX + 16];
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

/* SQLite tells how long the log is; with this it no longer shortens it by itself. */
static int note_log(void *ctx, sqlite3 *connection, const char *name, int pages) {
    struct database *database = ctx;
    (void)connection;
    (void)name;
    database->log_pages = pages;
    return SQLITE_OK;
}

enum status database_open(const char *path, bool makes, struct database *database,
                          struct error *err) {
    *database = (struct database){0};
    int length = snprintf(database->path, sizeof database->path, "%s", path);
    must(length > 0 && (size_t)length < sizeof database->path);
    errno = fault_hit(SL_FAULT_OPEN) ? EIO : 0;
    int code = errno != 0
                   ? SQLITE_CANTOPEN
                   : sqlite3_open_v2(database->path, &database->connection,
                                     (makes ? SQLITE_OPEN_CREATE : 0) | SQLITE_OPEN_READWRITE |
                                         SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW,
                                     NULL);
    if (code != SQLITE_OK)
        return database_fail(database, code, "opened", err);
    sqlite3_extended_result_codes(database->connection, 1);
    sqlite3_wal_hook(database->connection, note_log, database);
    sqlite3_db_config(database->connection, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(database->connection, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return database_run(database,
                        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-512; "
                        "PRAGMA temp_store=MEMORY; PRAGMA synchronous=FULL",
                        "opened", err);
}

void database_close(struct database *database) {
    sqlite3_close_v2(database->connection); /* rolls back; puts the log into the file if it can */
    database->connection = NULL;
}

/* ---- statements, which the tests can make fail */

enum status database_run(struct database *database, const char *text, const char *what,
                         struct error *err) {
    errno = fault_hit(SL_FAULT_SQL) ? EIO : 0;
    int code =
        errno != 0 ? SQLITE_IOERR : sqlite3_exec(database->connection, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? SL_OK : database_fail(database, code, what, err);
}

enum status database_prepare(struct database *database, const char *text, sqlite3_stmt **out,
                             struct error *err) {
    int code = fault_hit(SL_FAULT_SQL) ? SQLITE_IOERR
                                       : sqlite3_prepare_v3(database->connection, text, -1,
                                                            SQLITE_PREPARE_PERSISTENT, out, NULL);
    return code == SQLITE_OK ? SL_OK : database_fail(database, code, "read", err);
}

int database_step(sqlite3_stmt *statement) {
    errno = 0;
    if (!fault_hit(SL_FAULT_SQL))
        return sqlite3_step(statement);
    errno = EIO;
    return SQLITE_IOERR;
}

enum status database_ask(struct database *database, const char *text, int64_t *out,
                         struct error *err) {
    sqlite3_stmt *statement = NULL;
    enum status status = database_prepare(database, text, &statement, err);
    if (status == SL_OK) {
        int code = database_step(statement);
        if (code == SQLITE_ROW)
            *out = sqlite3_column_int64(statement, 0);
        else
            status = database_fail(database, code, "read", err);
    }
    sqlite3_finalize(statement);
    return status;
}

/* ---- failures */

enum status database_fail(struct database *database, int code, const char *what,
                          struct error *err) {
    int number = errno, kind = code & 0xFF; /* SQLite tells it itself, but not of a COMMIT */
    database->has_failed = true;
    if (sqlite3_system_errno(database->connection) != 0)
        number = sqlite3_system_errno(database->connection);
    if (kind == SQLITE_BUSY || kind == SQLITE_LOCKED) {
        sqlite3_close_v2(database->connection);
        database->connection = NULL;
        return in_use(database->path, holder_of(database->path), err);
    }
    if (kind == SQLITE_NOTADB || kind == SQLITE_CORRUPT)
        return error_set(err, SL_ERR_ENV,
                         "%s: is damaged or not a journal (%s): --overwrite starts again",
                         database->path, sqlite3_errmsg(database->connection));
    if (kind == SQLITE_FULL)
        number = ENOSPC;
    return error_set(
        err, SL_ERR_ENV, "%s: the journal cannot be %s: %s", database->path, what,
        number != 0 && (kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_FULL)
            ? strerror(number)
            : sqlite3_errmsg(database->connection));
}

enum status database_damaged(struct database *database, const char *what, struct error *err) {
    database->has_failed = true;
    return error_set(err, SL_ERR_ENV, "%s: the journal is damaged (%s): --overwrite starts again",
                     database->path, what);
}

enum status database_check_whole(const struct database *database, struct error *err) {
    if (database->has_failed)
        return error_set(err, SL_ERR_ENV, "%s: the journal takes nothing more after a failure",
                         database->path);
    return SL_OK;
}
