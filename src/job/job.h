/* A job: rows in, results out. The main loop and what run, plan, render share. One thread.
 *
 *   job_open (model, where the rows lie, fingerprint)
 *       -> job_look (every row that has no result yet parsed, rendered, counted) -> job_plan ->
 * job_run
 */
#ifndef SLUICE_JOB_JOB_H
#define SLUICE_JOB_JOB_H

#include "engine/queue.h"
#include "job/output.h"
#include "job/parts.h"
#include "job/row.h"
#include "job/rows_file.h"
#include "model/model.h"
#include "plan/plan.h"

#include <stdio.h>

struct job_row {
    uint32_t prompt_tokens; /* of the longest part; 0: an error row, or it has its result already */
    uint32_t max_tokens;    /* cut to the context */
    uint32_t parts;         /* 1, or the choices of a row that is scored */
    uint32_t row_tokens;    /* prompt tokens of all parts */
    uint32_t common_tokens; /* of each part at its beginning; others may have computed them */
    uint32_t scored_tokens; /* of all parts */
    uint32_t mark;          /* of the line's text: tells when it reads differently later */
    /* Of the prompt, that earlier rows begin with too: an estimate. Earlier in the file, and once
     * there is an order, in that. */
    uint32_t shared_tokens;
    uint32_t shared_mark; /* of those tokens (alike_hash) */
    uint32_t prefix;      /* of its first tokens: rows with the same may share; 0: a short prompt */
    bool ignores_eos;
};

/* What a model has not and a row needs. */
enum lack { LACK_NONE, LACK_TOKENIZER, LACK_TEMPLATE, LACK_COUNT };

struct job {
    struct settings settings; /* as given, with the model's sampling where that was asked for */
    struct model *model;
    struct rows_file rows;
    struct job_row *looked; /* [rows.count] */
    struct plan_rows totals;
    size_t lacks[LACK_COUNT]; /* rows that are errors for want of it */
    struct queue order;       /* of the rows that can run; since job_plan */
    struct plan_fit fit;      /* tokens_max 0: no row is too long for the budget */
    size_t too_long;          /* rows that are */
    struct fingerprint fingerprint;
    char model_name[256]; /* the last part of its path, for the bodies of Batch lines */
    const struct output
        *output; /* of a job that goes on: rows that it has are passed over; NULL: none
                  */
    bool (*should_stop)(void);
};

/* SL_ERR_INPUT: no rows file. SL_ERR_ENV: no model. The fingerprint has the rows, the model and its
 * template; the caller adds the options. */
enum status job_open(const struct settings *settings, bool (*should_stop)(void), struct job *job,
                     struct error *err);
void job_close(struct job *job);
/* The rows of the settings' file, as --limit and --shard have them. SL_ERR_INPUT: no rows file. */
enum status job_open_rows(const struct settings *settings, struct rows_file *rows,
                          struct error *err);
/* The fingerprint as far as it is known before there is a model: the rows; of the model what the
 * job in the output has, if there is one. SL_ERR_INPUT: no rows file. */
enum status job_known_fingerprint(const struct settings *settings, const struct output *output,
                                  struct fingerprint *out, struct error *err);
/* Takes over from an earlier run: what it chose, which rows it has, and what it has of others.
 * SL_ERR_INPUT when the output is another job's. Nothing for a new output, and nothing but the
 * check for one that is complete. The output must outlive the job. */
enum status job_go_on(struct job *job, struct output *output, struct error *err);
/* The first look. SL_ERR_INPUT: duplicate ids (both lines named). Broken rows are no error here.
 * Warns once about unknown members, and about rows that the model has no tokenizer or template for;
 * when no row can run for that reason, SL_ERR_ENV with it. */
enum status job_look(struct job *job, struct error *err);

/* Makes the plan. Rows that the budget could not hold even alone become errors, with a warning
 * (job->too_long counts them); when that is every row the job is refused, as by plan_make. */
enum status job_plan(struct job *job, struct plan *plan, struct error *err);

/* A tokenizer that is there and cannot be used is SL_ERR_ENV: answers would silently have no text.
 * So is a model without any, except for those who want token ids; they are warned. */
enum status job_check_tokenizer(const struct model *model, bool wants_token_ids, struct error *err);

/* Makes job->order: the rows that can run as they are offered to the engine, and as the plan plays
 * them; of these first strict_count an earlier run has begun them. job_run takes rows from it. */
enum status job_order_make(struct job *job, struct error *err);
/* The rows of the order that are left; where rows are scored, their parts but for those that are in
 * already. */
struct row_lengths job_waiting(const struct job *job, size_t parts_in);

struct job_outcome {
    size_t rows_done, rows_failed; /* of the whole job, those of earlier runs too */
    bool is_complete;              /* every row has its line, in the order asked for */
};
/* Runs, once, by the plan (NULL when totals.count is 0: there are error lines to write, if
 * anything) into an output that is open, and loaded if it resumes. outcome is filled in any case.
 * SL_ERR_STOPPED: interrupted, finished rows are on disk; with an empty text: the reader of our
 * output has gone, which is no news. */
enum status job_run(struct job *job, const struct plan *plan, struct output *output,
                    struct job_outcome *outcome, struct error *err);

/* Room for one row at a time: its line, what was parsed, its prompt. */
struct job_slot {
    struct buf line;
    struct row row;
    struct ids ids;
    struct parts parts;
    struct job_row look;
    enum lack lack;
    uint64_t load_bytes; /* that reading it has taken, about */
    bool is_cut;         /* the answer, to the context */
};
void job_slot_init(struct job_slot *slot);
void job_slot_release(struct job_slot *slot);
/* Reads and prepares the index-th row. The slot's row is released by the next load or by
 * job_slot_release. SL_ERR_ROW: row.id_json, line and code are for its error line. */
enum status job_load(const struct job *job, size_t index, struct job_slot *slot,
                     struct buf *unknown, struct error *err);

/* SL_ERR_ROW with the reason when the model has no tokenizer or no template that the row needs. */
enum status job_check_means(const struct model *model, const struct row *row, enum lack *lack,
                            struct error *err);
/* Tokens of a row that each of its parts shares with the others: full pages. */
uint32_t job_shared_tokens(const struct job_row *looked);
/* Totals of the rows that can run, from what the first look kept of them. */
void job_count(struct job *job);

/* `render`: one line a row to out; *errors counts rows with an error. Refuses duplicate ids before
 * the first line and warns as job_open does. Needs a model opened with MODEL_TEXT. */
enum status job_render(const struct settings *settings, const struct model *model, FILE *out,
                       size_t *errors, struct error *err);

#endif
