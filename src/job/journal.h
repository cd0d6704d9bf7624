/* The journal of a job: an SQLite file beside the results, from which the same command goes on.
 *
 *   journal_open (what is there)  -> journal_read_*  \
 *   journal_make (a new one)      -> -----------------+-> [ journal_begin -> put_* -> commit ] ...
 *                                                              -> journal_complete -> journal_close
 *
 * Invariants
 *  1. A transaction is one pass, or the passes of some milliseconds where they are shorter
 *     (SL_OUTPUT_GROUP_SECONDS), or some thousands of rows that are errors: the lines of the rows
 *     that ended in it and the tokens of all others. It is there whole or not at all; rows that
 *     ended in it do not count as done before.
 *  2. `result` has the lines themselves, numbered from 1 without a gap in the order of completion;
 *     a row is done when, and only when, its line is there. A row has one line.
 *  3. A line goes into the results file after the transaction that holds it is committed. So the
 *     results file has, after a kill at any instant, a beginning of the lines of `result` joined in
 *     their order and nothing else (but perhaps a torn line at its end), and can be made from them.
 *  4. The tokens of a row that has begun and has no line are those in `pass`, by number, each of
 *     them once; records that only rows with a line stand in may be missing. They were picked by
 *     this job's fingerprint, and by promise 1 another run would pick the same: losing the last
 *     ones costs time alone. Nothing tells a token that is there twice from one that was picked
 *     twice: so what a run takes over is written and what it was read from is dropped in one
 *     transaction (output_begin), and numbers only ever grow while the job is unfinished.
 *  5. The results are put in order when `result` has a line for every row, and that is synced
 *     (journal_sync). Lines leave it in one transaction with the mark "complete", after the ordered
 *     file is in place and on the disk (output.c).
 *  6. After a write that failed the journal takes no further one: every call says so.
 *
 * What a crash leaves. Killed: all that was committed (SQLite's write-ahead log is in the page
 * cache then), and a transaction counts as soon as its last page is in the log, long before a sync
 * of it is over. So the pass under way is lost and those that wait for their common commit: they
 * are all that the open transaction has, and whole passes, so each row loses the last tokens it
 * has; by (2), (3) and (4) the journal is whole without them, no line of theirs has gone out, and
 * they are run again to the same bits. A run that is told to stop commits first. Power lost: the
 * commits up to the last one that was synced or later; SQLite's checksums cut off what is torn, and
 * by (2) and (4) any earlier commit is a whole journal. The results file may then have lines that
 * the journal has lost: they are cut off, and their rows run again, to the same bytes. A commit is
 * synced when the last sync is SL_JOURNAL_SYNC_SHARE times as long ago as it took, which bounds the
 * cost of syncing to 1 / SL_JOURNAL_SYNC_SHARE of the time and the loss to that time. The log is
 * put into the file by the same rule, once it has 4 MB: another 1 / SL_JOURNAL_SYNC_SHARE at most.
 * The first transaction, the last line's and the last one are always synced.
 *
 * One process at a time, by SQLite's own lock, which the kernel drops with the process; one thread.
 */
#ifndef SLUICE_JOB_JOURNAL_H
#define SLUICE_JOB_JOURNAL_H

#include "engine/seq.h"
#include "job/fingerprint.h"

#define SL_JOURNAL_SYNC_SHARE 400

struct journal;

/* Opens what lies at path and locks it; changes nothing. *is_begun false: it was made and the job
 * never entered it. SL_ERR_ENV: no file of ours, damaged, cannot be read, or in use by another run
 * (its pid named). */
enum status journal_open(const char *path, struct journal **out, bool *is_begun, struct error *err);
/* A new one in place of whatever regular file is at path, with the fingerprint and the state (other
 * names and values) in its first transaction. On failure nothing stays of it. */
enum status journal_make(const char *path, const struct fingerprint *fingerprint,
                         const struct fingerprint *state, struct journal **out, struct error *err);
void journal_close(struct journal *journal); /* accepts NULL; what is not committed is dropped */
/* Whether a journal could be made at path: nothing is there, or a regular file that no run has
 * locked; SL_ERR_ENV. For a journal that is to be replaced unread. */
enum status journal_check(const char *path, struct error *err);
/* Removes the files of a journal that nobody has open; what is not there is no error. */
void journal_remove(const char *path);

/* Appends what journal_make was given, and what journal_complete has added to the state. */
enum status journal_read_pairs(struct journal *journal, struct fingerprint *fingerprint,
                               struct fingerprint *state, struct error *err);

struct journal_line {
    uint64_t row;
    bool is_error;
    struct str line; /* borrowed for the call */
};
/* Every line from number `from` (1: all) in the order of completion. */
typedef enum status journal_line_fn(void *ctx, const struct journal_line *line, struct error *err);
enum status journal_read_lines(struct journal *journal, uint64_t from, journal_line_fn *take,
                               void *ctx, struct error *err);

struct journal_token {
    uint64_t row;
    bool has_logprobs;
    size_t top_count;
    struct token_logprobs entry; /* its id is the token; the rest only with has_logprobs */
};
/* Every token in the order in which they were picked. */
typedef enum status journal_token_fn(void *ctx, const struct journal_token *token,
                                     struct error *err);
enum status journal_read_tokens(struct journal *journal, journal_token_fn *take, void *ctx,
                                struct error *err);

/* A transaction. put_* may only be called inside one. */
enum status journal_begin(struct journal *journal, struct error *err);
enum status journal_put_line(struct journal *journal, const struct journal_line *line,
                             struct error *err);
/* Gathers; written by the commit as one record. False when memory is out. */
bool journal_put_token(struct journal *journal, const struct journal_token *token);
/* *number: of the record that the tokens went into; 0: there were none. */
enum status journal_commit(struct journal *journal, uint64_t *number, struct error *err);
/* Drops the records of tokens before `number`, or all that earlier transactions have written, as a
 * part of the transaction that is open. */
#define SL_JOURNAL_ALL INT64_MAX
enum status journal_drop_tokens(struct journal *journal, uint64_t number, struct error *err);
/* A synced commit: what was committed before it is on the disk too. */
enum status journal_sync(struct journal *journal, struct error *err);
/* The job has ended, and its results are in place: adds to the state, drops lines and tokens, and
 * gives their room back. */
enum status journal_complete(struct journal *journal, const struct fingerprint *state,
                             struct error *err);

#endif
