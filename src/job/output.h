/* The output of a job: the results file and the journal as one. What goes in is on the disk, or at
 * least with the kernel, before it counts: the journal first, then the file (journal.h says why).
 *
 *   output_open -> output_recall -> output_check -> output_load -> output_begin
 *               -> [ output_add_line / output_add_token ... -> output_commit ] ... -> output_finish
 *
 * Streams and devices have no journal: lines go out as they come, and nothing can be resumed. One
 * thread. */
#ifndef SLUICE_JOB_OUTPUT_H
#define SLUICE_JOB_OUTPUT_H

#include "job/journal.h"
#include "job/sink.h"
#include "plan/settings.h"

#define SL_OUTPUT_GROUP_SECONDS 0.010

struct output;

/* Opens and locks results and journal, and changes nothing. Refuses as sink_open does, and a
 * journal that cannot be used. */
enum status output_open(const struct sink_options *options, struct output **out, struct error *err);
void output_close(struct output *output);             /* accepts NULL */
bool output_is_file(const struct output *output);     /* it can be resumed */
bool output_resumes(const struct output *output);     /* there is a job to go on with */
bool output_has_journal(const struct output *output); /* that, or output_begin has made one */
/* What the first run has chosen and a later one keeps: the clock of templates, the kernel set that
 * was `auto`. Nothing for a new job. Texts are the output's. */
enum status output_recall(struct output *output, struct settings *settings, struct error *err);
/* The path of the form that the job was begun with instead of the model `asked` (struct settings'
 * model_asked); NULL: none, or it was begun with another model. Borrowed. */
const char *output_recall_model(const struct output *output, const char *asked);
/* Of the job that is there; has no pairs for a new job. */
const struct fingerprint *output_fingerprint(const struct output *output);
/* What its model was called when it was begun: by a name of the hub (settings' hub_name), if
 * *is_name, else by the last part of a path. */
struct str output_recall_name(const struct output *output, bool *is_name);
/* SL_ERR_INPUT, with what differs, when the job that is there is another one. */
enum status output_check(struct output *output, const struct fingerprint *fingerprint,
                         struct error *err);
/* The job that is there has come to its end: the exit code it had. SL_ERR_INPUT when its results
 * are no longer there as they were. */
bool output_is_complete(const struct output *output);
enum status output_read_code(const struct output *output, int *code, struct error *err);

/* Learns which rows are done and which have begun; reads, and writes nothing. */
enum status output_load(struct output *output, size_t row_count, struct error *err);
bool output_has_line(const struct output *output, size_t index);
struct output_counts {
    size_t rows_done, rows_failed; /* with a line: answers, errors */
    size_t rows_begun;
    uint64_t tokens; /* of rows that have begun */
};
struct output_counts output_counts(const struct output *output);
/* The index-th row as far as an earlier run has come with it; NULL: it has not begun. */
struct begun {
    size_t row;
    uint32_t *ids;
    struct token_logprobs *logprobs; /* [count]; NULL: none were wanted */
    struct logprob *tops;            /* [count x top_count] */
    size_t count, cap, logprobs_cap, tops_cap, top_count;
};
const struct begun *output_find_begun(const struct output *output, size_t index);
const struct begun *output_begun_at(const struct output *output, size_t number); /* < rows_begun */

/* Before the first line: makes the journal, or repairs the results by it. state: further names and
 * values to keep with a new job. */
enum status output_begin(struct output *output, const struct fingerprint *fingerprint,
                         const struct fingerprint *state, size_t row_count, struct error *err);
enum status output_add_line(struct output *output, size_t index, bool is_error, struct str line,
                            struct error *err);
/* A token of a row that goes on. False when memory is out. */
enum status output_add_token(struct output *output, const struct journal_token *token,
                             struct error *err);
/* Everything added since the last commit is done with this. *record: what the tokens went into; 0:
 * there were none. */
enum status output_commit(struct output *output, uint64_t *record, struct error *err);
/* Lines and errors that wait for a commit are many: time for one. */
bool output_is_full(const struct output *output);
/* After a pass: whether it is time for a commit. Passes shorter than SL_OUTPUT_GROUP_SECONDS share
 * one, so that the journal costs them little; a longer pass has one of its own. */
bool output_is_due(const struct output *output);
/* For tests of what fails in which pass: each has a commit of its own, however short it is. */
void output_commit_every_pass(struct output *output);
/* Records before this one are of rows with lines alone. Of those that output_begin made for rows
 * begun earlier: output_first_record. */
enum status output_forget_before(struct output *output, uint64_t record, struct error *err);
uint64_t output_first_record(const struct output *output);
/* Every row has its line: the results into their order and on the disk, the journal complete. */
enum status output_finish(struct output *output, int code, struct error *err);

#endif
