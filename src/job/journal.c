/* Owns the journal's tables, its transactions, and when they are synced. Refuses to know what a job
 * is: rows are numbers here, lines are bytes. The file, its lock and its failures are database.c's.
 *
 *   fingerprint(name, value)   state(name, value)
 *   result(number, row, is_error, line)    pass(number, tokens)
 *
 * A record of tokens is a sequence of: row u32, id u32, mark u32 (0, or 1 + the count of best
 * tokens), and after a mark the log probability and `count` times id and log probability; all
 * little-endian, floats by their bits. */
#include "job/journal.h"

#include "base/clock.h"
#include "job/database.h"

#include <stdio.h>
#include <string.h>

#define APPLICATION_ID 0x736C7563 /* "sluc" */
#define VERSION 1
#define TOPS_MAX 20u
#define PASSES_MAX ((int64_t)1 << 62) /* of a journal that is opened: there is room for more */
#define LOG_PAGES 1000                /* of 4096 bytes: a longer log is put into the file */

enum statement { PUT_LINE, PUT_PASS, DROP_PASSES, BEGIN, COMMIT, STATEMENT_COUNT };

static const char *const statement_text[STATEMENT_COUNT] = {
    [PUT_LINE] = "INSERT INTO result VALUES (?, ?, ?, ?)",
    [PUT_PASS] = "INSERT INTO pass VALUES (?, ?)",
    [DROP_PASSES] = "DELETE FROM pass WHERE number < ?",
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
};

struct journal {
    struct database database;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    bool is_open;           /* a transaction */
    bool is_synced;         /* the transaction will be */
    uint64_t lines, passes; /* the last numbers */
    double synced, sync_seconds;
    double checkpointed, checkpoint_seconds;
    struct buf tokens; /* of the open transaction */
    struct journal_token token;
    struct logprob tops[TOPS_MAX]; /* of the token being read */
};

/* ---- opening and closing */

static enum status new_journal(struct journal **out, struct error *err) {
    struct journal *journal = mem_new(1, sizeof *journal);
    if (journal == NULL)
        return error_memory(err, sizeof *journal, "the journal");
    buf_init(&journal->tokens);
    *out = journal;
    return SL_OK;
}

static enum status prepare_all(struct journal *journal, struct error *err) {
    for (int i = 0; i < STATEMENT_COUNT; i++)
        TRY(database_prepare(&journal->database, statement_text[i], &journal->statements[i], err));
    return SL_OK;
}

static enum status look(struct journal *journal, bool *is_begun, struct error *err) {
    struct database *database = &journal->database;
    int64_t id = 0, version = 0, tables = 0, lines = 0, count = 0, passes = 0;
    /* the lock, at once */
    TRY(database_run(database, "BEGIN IMMEDIATE; ROLLBACK", "opened", err));
    TRY(database_ask(database, "SELECT count(*) FROM sqlite_schema", &tables, err));
    TRY(database_ask(database, "PRAGMA application_id", &id, err));
    TRY(database_ask(database, "PRAGMA user_version", &version, err));
    *is_begun = tables > 0;
    if (tables == 0 && id == 0)
        return SL_OK;
    if (id != APPLICATION_ID)
        return error_set(err, SL_ERR_ENV, "%s: is an SQLite file, but not a journal of a job",
                         database->path);
    if (version != VERSION)
        return error_set(err, SL_ERR_ENV,
                         "%s: has version %lld of the journal, this program has %d: --overwrite "
                         "starts again",
                         database->path, (long long)version, VERSION);
    TRY(database_ask(database, "SELECT coalesce(max(number), 0) FROM result", &lines, err));
    TRY(database_ask(database, "SELECT count(*) FROM result", &count, err));
    TRY(database_ask(database, "SELECT coalesce(max(number), 0) FROM pass", &passes, err));
    if (lines != count || passes < 0 || passes > PASSES_MAX)
        return database_damaged(database, "numbers of lines or records are none of ours", err);
    journal->lines = (uint64_t)lines;
    journal->passes = (uint64_t)passes;
    return prepare_all(journal, err);
}

enum status journal_open(const char *path, struct journal **out, bool *is_begun,
                         struct error *err) {
    struct journal *journal;
    TRY(database_check_path(path, err));
    TRY(new_journal(&journal, err));
    enum status status = database_open(path, false, &journal->database, err);
    if (status == SL_OK)
        status = look(journal, is_begun, err);
    if (status != SL_OK)
        journal_close(journal);
    else
        *out = journal;
    return status;
}

static enum status put_pairs(struct journal *journal, const char *text,
                             const struct fingerprint *pairs, struct error *err) {
    sqlite3_stmt *statement = NULL;
    enum status status = database_prepare(&journal->database, text, &statement, err);
    for (size_t i = 0; status == SL_OK && i < pairs->count; i++) {
        const struct fingerprint_pair *pair = &pairs->pairs[i];
        sqlite3_bind_text64(statement, 1, pair->name.data, pair->name.len, SQLITE_STATIC,
                            SQLITE_UTF8);
        sqlite3_bind_text64(statement, 2, pair->value.data, pair->value.len, SQLITE_STATIC,
                            SQLITE_UTF8);
        int code = database_step(statement);
        if (code != SQLITE_DONE)
            status = database_fail(&journal->database, code, "written", err);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return status;
}

#define PUT_STATE "INSERT OR REPLACE INTO state VALUES (?, ?)"

static enum status fill(struct journal *journal, const struct fingerprint *fingerprint,
                        const struct fingerprint *state, struct error *err) {
    char text[700];
    snprintf(text, sizeof text,
             "PRAGMA journal_mode=WAL; BEGIN IMMEDIATE; PRAGMA application_id=%d; "
             "PRAGMA user_version=%d; "
             "CREATE TABLE fingerprint(name TEXT NOT NULL, value TEXT NOT NULL); "
             "CREATE TABLE state(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID; "
             "CREATE TABLE result(number INTEGER PRIMARY KEY, row INTEGER NOT NULL, "
             "is_error INTEGER NOT NULL, line BLOB NOT NULL); "
             "CREATE TABLE pass(number INTEGER PRIMARY KEY, tokens BLOB NOT NULL)",
             APPLICATION_ID, VERSION);
    TRY(database_run(&journal->database, text, "made", err));
    TRY(put_pairs(journal, "INSERT INTO fingerprint VALUES (?, ?)", fingerprint, err));
    TRY(put_pairs(journal, PUT_STATE, state, err));
    double begin = clock_seconds();
    TRY(database_run(&journal->database, "COMMIT", "written", err));
    journal->synced = clock_seconds();
    journal->sync_seconds = journal->synced - begin;
    return prepare_all(journal, err);
}

enum status journal_make(const char *path, const struct fingerprint *fingerprint,
                         const struct fingerprint *state, struct journal **out, struct error *err) {
    struct journal *journal;
    TRY(database_check_path(path, err));
    TRY(new_journal(&journal, err));
    database_remove(path);
    enum status status = database_open(path, true, &journal->database, err);
    if (status == SL_OK)
        status = fill(journal, fingerprint, state, err);
    if (status != SL_OK) {
        bool is_ours =
            journal->database.connection != NULL; /* else another run's, made this instant */
        journal_close(journal);
        if (is_ours)
            database_remove(path);
    } else {
        *out = journal;
    }
    return status;
}

void journal_close(struct journal *journal) {
    if (journal == NULL)
        return;
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(journal->statements[i]);
    database_close(&journal->database);
    buf_release(&journal->tokens);
    mem_free(journal);
}

enum status journal_check(const char *path, struct error *err) {
    return database_check(path, err);
}

void journal_remove(const char *path) {
    database_remove(path);
}

/* ---- reading */

static struct str column(sqlite3_stmt *statement, int number) {
    const void *data = sqlite3_column_blob(statement, number);
    int bytes = sqlite3_column_bytes(statement, number);
    return (struct str){data != NULL ? data : "", data != NULL && bytes > 0 ? (size_t)bytes : 0};
}

static enum status read_pairs(struct journal *journal, const char *text, struct fingerprint *out,
                              struct error *err) {
    sqlite3_stmt *statement = NULL;
    enum status status = database_prepare(&journal->database, text, &statement, err);
    int code = SQLITE_DONE;
    while (status == SL_OK && (code = database_step(statement)) == SQLITE_ROW)
        status = fingerprint_add(out, column(statement, 0), column(statement, 1), err);
    if (status == SL_OK && code != SQLITE_DONE)
        status = database_fail(&journal->database, code, "read", err);
    sqlite3_finalize(statement);
    return status;
}

enum status journal_read_pairs(struct journal *journal, struct fingerprint *fingerprint,
                               struct fingerprint *state, struct error *err) {
    TRY(read_pairs(journal, "SELECT name, value FROM fingerprint ORDER BY rowid", fingerprint,
                   err));
    return read_pairs(journal, "SELECT name, value FROM state", state, err);
}

enum status journal_read_lines(struct journal *journal, uint64_t from, journal_line_fn *take,
                               void *ctx, struct error *err) {
    sqlite3_stmt *statement = NULL;
    enum status status = database_prepare(
        &journal->database,
        "SELECT number, row, is_error, line FROM result WHERE number >= ? ORDER BY number",
        &statement, err);
    int code = SQLITE_DONE;
    if (status == SL_OK)
        sqlite3_bind_int64(statement, 1, (sqlite3_int64)from);
    for (uint64_t number = from; status == SL_OK && (code = database_step(statement)) == SQLITE_ROW;
         number++) {
        int64_t row = sqlite3_column_int64(statement, 1);
        struct journal_line line = {.row = (uint64_t)row,
                                    .is_error = sqlite3_column_int(statement, 2) != 0,
                                    .line = column(statement, 3)};
        if (sqlite3_column_int64(statement, 0) != (int64_t)number || row < 0 ||
            line.line.len == 0 || line.line.data[line.line.len - 1] != '\n')
            status = database_damaged(&journal->database, "a line is none", err);
        else
            status = take(ctx, &line, err);
    }
    if (status == SL_OK && code != SQLITE_DONE)
        status = database_fail(&journal->database, code, "read", err);
    sqlite3_finalize(statement);
    return status;
}

static bool get_u32(struct str *record, uint32_t *out) {
    const unsigned char *data = (const unsigned char *)record->data;
    if (record->len < 4)
        return false;
    *out = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
           (uint32_t)data[3] << 24;
    *record = str_cut(*record, 4, record->len);
    return true;
}

static bool get_float(struct str *record, float *out) {
    uint32_t bits;
    if (!get_u32(record, &bits))
        return false;
    memcpy(out, &bits, sizeof *out);
    return true;
}

static bool get_token(struct journal *journal, struct str *record) {
    struct journal_token *token = &journal->token;
    uint32_t row, mark;
    *token = (struct journal_token){.entry.top = journal->tops};
    if (!get_u32(record, &row) || !get_u32(record, &token->entry.id) || !get_u32(record, &mark) ||
        mark > TOPS_MAX + 1)
        return false;
    token->row = row;
    token->has_logprobs = mark > 0;
    token->top_count = mark > 0 ? mark - 1 : 0;
    if (mark > 0 && !get_float(record, &token->entry.logprob))
        return false;
    for (size_t i = 0; i < token->top_count; i++) {
        if (!get_u32(record, &journal->tops[i].id) || !get_float(record, &journal->tops[i].logprob))
            return false;
    }
    return true;
}

enum status journal_read_tokens(struct journal *journal, journal_token_fn *take, void *ctx,
                                struct error *err) {
    sqlite3_stmt *statement = NULL;
    enum status status = database_prepare(
        &journal->database, "SELECT tokens FROM pass ORDER BY number", &statement, err);
    int code = SQLITE_DONE;
    while (status == SL_OK && (code = database_step(statement)) == SQLITE_ROW) {
        struct str record = column(statement, 0);
        while (status == SL_OK && record.len > 0) {
            if (!get_token(journal, &record))
                status = database_damaged(&journal->database, "a record of tokens is none", err);
            else
                status = take(ctx, &journal->token, err);
        }
    }
    if (status == SL_OK && code != SQLITE_DONE)
        status = database_fail(&journal->database, code, "read", err);
    sqlite3_finalize(statement);
    return status;
}

/* ---- writing */

/* A prepared statement to its end; its values stay bound. */
static enum status run_statement(struct journal *journal, enum statement which, struct error *err) {
    sqlite3_stmt *statement = journal->statements[which];
    int code = database_step(statement);
    enum status status =
        code == SQLITE_DONE ? SL_OK : database_fail(&journal->database, code, "written", err);
    sqlite3_reset(statement);
    return status;
}

/* Syncs this transaction when the last sync is long enough ago; takes hold before it begins. */
static enum status choose_sync(struct journal *journal, struct error *err) {
    double now = clock_seconds();
    bool is_due = now - journal->synced >= SL_JOURNAL_SYNC_SHARE * journal->sync_seconds;
    if (is_due == journal->is_synced)
        return SL_OK;
    TRY(database_run(&journal->database,
                     is_due ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", "written",
                     err));
    journal->is_synced = is_due;
    return SL_OK;
}

enum status journal_begin(struct journal *journal, struct error *err) {
    must(!journal->is_open);
    TRY(database_check_whole(&journal->database, err));
    TRY(choose_sync(journal, err));
    TRY(run_statement(journal, BEGIN, err));
    journal->is_open = true;
    buf_clear(&journal->tokens);
    return SL_OK;
}

enum status journal_put_line(struct journal *journal, const struct journal_line *line,
                             struct error *err) {
    sqlite3_stmt *statement = journal->statements[PUT_LINE];
    must(journal->is_open);
    TRY(database_check_whole(&journal->database, err));
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)(journal->lines + 1));
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)line->row);
    sqlite3_bind_int(statement, 3, line->is_error);
    sqlite3_bind_blob64(statement, 4, line->line.data, line->line.len, SQLITE_STATIC);
    TRY(run_statement(journal, PUT_LINE, err));
    journal->lines++;
    return SL_OK;
}

static void put_u32(struct buf *out, uint32_t value) {
    char bytes[4] = {(char)value, (char)(value >> 8), (char)(value >> 16), (char)(value >> 24)};
    buf_add(out, (struct str){bytes, sizeof bytes});
}

static void put_float(struct buf *out, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_u32(out, bits);
}

bool journal_put_token(struct journal *journal, const struct journal_token *token) {
    struct buf *out = &journal->tokens;
    must(token->row <= UINT32_MAX);
    must(token->top_count <= TOPS_MAX);
    put_u32(out, (uint32_t)token->row);
    put_u32(out, token->entry.id);
    put_u32(out, token->has_logprobs ? (uint32_t)token->top_count + 1 : 0);
    if (token->has_logprobs)
        put_float(out, token->entry.logprob);
    for (size_t i = 0; i < token->top_count; i++) {
        put_u32(out, token->entry.top[i].id);
        put_float(out, token->entry.top[i].logprob);
    }
    return !out->has_failed;
}

static enum status put_pass(struct journal *journal, uint64_t *number, struct error *err) {
    sqlite3_stmt *statement = journal->statements[PUT_PASS];
    *number = 0;
    TRY(buf_status(&journal->tokens, "the tokens of a pass", err));
    if (journal->tokens.len == 0)
        return SL_OK;
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)(journal->passes + 1));
    sqlite3_bind_blob64(statement, 2, journal->tokens.data, journal->tokens.len, SQLITE_STATIC);
    TRY(run_statement(journal, PUT_PASS, err));
    *number = ++journal->passes;
    return SL_OK;
}

/* What is not put into the file stays in the log, where it counts as much: no failure is one. */
static void shorten_log(struct journal *journal) {
    double begin = clock_seconds();
    if (journal->database.log_pages < LOG_PAGES ||
        begin - journal->checkpointed < SL_JOURNAL_SYNC_SHARE * journal->checkpoint_seconds)
        return;
    sqlite3_wal_checkpoint_v2(journal->database.connection, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
                              NULL);
    journal->database.log_pages = 0;
    journal->checkpointed = clock_seconds();
    journal->checkpoint_seconds = journal->checkpointed - begin;
}

enum status journal_commit(struct journal *journal, uint64_t *number, struct error *err) {
    must(journal->is_open);
    TRY(database_check_whole(&journal->database, err));
    TRY(put_pass(journal, number, err));
    double begin = clock_seconds();
    TRY(run_statement(journal, COMMIT, err));
    journal->is_open = false;
    if (journal->is_synced) {
        journal->synced = clock_seconds();
        journal->sync_seconds = journal->synced - begin;
    }
    shorten_log(journal);
    return SL_OK;
}

enum status journal_drop_tokens(struct journal *journal, uint64_t number, struct error *err) {
    must(journal->is_open);
    TRY(database_check_whole(&journal->database, err));
    sqlite3_bind_int64(journal->statements[DROP_PASSES], 1, (sqlite3_int64)number);
    return run_statement(journal, DROP_PASSES, err);
}

enum status journal_sync(struct journal *journal, struct error *err) {
    must(!journal->is_open);
    TRY(database_check_whole(&journal->database, err));
    journal->is_synced = true;
    return database_run(&journal->database,
                        "PRAGMA synchronous=FULL; BEGIN IMMEDIATE; "
                        "INSERT OR REPLACE INTO state VALUES ('has all lines', 'yes'); COMMIT",
                        "written", err);
}

enum status journal_complete(struct journal *journal, const struct fingerprint *state,
                             struct error *err) {
    must(!journal->is_open);
    TRY(database_check_whole(&journal->database, err));
    TRY(database_run(
        &journal->database,
        "PRAGMA synchronous=FULL; BEGIN IMMEDIATE; DELETE FROM result; DELETE FROM pass; "
        "DELETE FROM state WHERE name = 'has all lines'",
        "written", err));
    TRY(put_pairs(journal, PUT_STATE, state, err));
    TRY(database_run(&journal->database, "COMMIT", "written", err));
    journal->lines = journal->passes = 0;
    /* No room for a smaller copy: it stays as large as it is, which harms nothing. */
    sqlite3_exec(journal->database.connection, "VACUUM", NULL, NULL, NULL);
    return SL_OK;
}
