/* The journal's file as SQLite has it: connected, locked, asked, and its failures put into words.
 * A database lies in one struct of its user's, for one process at a time, by SQLite's own lock,
 * which the kernel drops with the process; one thread.
 *
 *   database_open -> [ database_run / database_prepare .. database_step / database_ask ] ...
 *                 -> database_close
 *
 * After a failure database_check_whole says so for ever. */
#ifndef SLUICE_JOB_DATABASE_H
#define SLUICE_JOB_DATABASE_H

#include "base/status.h"

#include <limits.h>
#include <sqlite3.h>

struct database {
    char path[PATH_MAX];
    sqlite3 *connection; /* NULL: not ours */
    bool has_failed;
    int log_pages; /* of SQLite's write-ahead log, since the last commit */
};

/* Nothing is at path, or a regular file: SQLite would follow a link, and wait at a FIFO.
 * SL_ERR_ENV. */
enum status database_check_path(const char *path, struct error *err);
/* That, and no other process has it locked (its pid named). */
enum status database_check(const char *path, struct error *err);
/* Removes the files of a database that nobody has open; what is not there is no error. */
void database_remove(const char *path);

/* Connects, and makes the file where `makes`. The lock is taken with the first look, and kept. To
 * be closed whatever the status. The path was checked, and fits. */
enum status database_open(const char *path, bool makes, struct database *database,
                          struct error *err);
/* Rolls back what is not committed; statements have been finalized. */
void database_close(struct database *database);

/* Statements to their end; `what` is for a failure: "the journal cannot be WHAT". */
enum status database_run(struct database *database, const char *text, const char *what,
                         struct error *err);
enum status database_prepare(struct database *database, const char *text, sqlite3_stmt **out,
                             struct error *err);
/* SQLITE_ROW, SQLITE_DONE, or a code for database_fail. */
int database_step(sqlite3_stmt *statement);
/* The only number that a query gives; SL_ERR_ENV when it gives none. */
enum status database_ask(struct database *database, const char *text, int64_t *out,
                         struct error *err);

/* SL_ERR_ENV: what SQLite's code means. Another process has the lock: its pid is named, and the
 * connection given up. */
enum status database_fail(struct database *database, int code, const char *what, struct error *err);
/* SL_ERR_ENV: what it holds is none of ours. */
enum status database_damaged(struct database *database, const char *what, struct error *err);
enum status database_check_whole(const struct database *database, struct error *err);

#endif
