/* Owns the order in which results file and journal are written, and what an earlier run has left in
 * them. Refuses to go on with another job, and to touch what is not this job's.
 *
 * A pass: its lines and tokens in one transaction -> commit -> its lines into the file. The end:
 * the file in order and on the disk -> the journal complete. */
#include "job/output.h"

#include "base/clock.h"
#include "base/log.h"
#include "io/file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PENDING_BYTES_MAX ((size_t)1 << 20)
#define PENDING_LINES_MAX 4096u
#define FORGET_EVERY 64u /* records are dropped so many at a time */
#define REFUSAL_BYTES 360u

struct pending {
    size_t index, bytes;
};

struct output {
    struct sink *sink;
    struct journal *journal; /* NULL until there is one */
    char journal_path[SL_BESIDE_BYTES];
    bool overwrites, is_begun;
    struct fingerprint was, state; /* of the job that is there */
    struct buf refusals;           /* of what output_recall has found */
    struct output_counts counts;
    struct begun *begun; /* by row */
    size_t begun_cap;
    bool is_in_transaction;
    bool commits_every_pass;
    double committed; /* when, by clock_seconds */
    struct buf lines; /* of the transaction */
    struct pending *pending;
    size_t pending_count, pending_cap;
    uint64_t first_record, forgotten;
};

/* ---- opening */

/* The last part of a path. */
static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool is_same_folder(const char *path, const char *other) {
    struct stat one, two;
    char folders[2][SL_BESIDE_BYTES];
    const char *const paths[2] = {path, other};
    for (size_t i = 0; i < 2; i++) {
        int length = (int)(last_part(paths[i]) - paths[i]);
        if (snprintf(folders[i], sizeof folders[i], "%.*s.", length, paths[i]) >=
            (int)sizeof folders[i])
            return false;
    }
    return stat(folders[0], &one) == 0 && stat(folders[1], &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

/* Another file of the job in the journal's place would be written over, by the one or the other. */
static enum status check_others(const struct output *output, const struct sink_options *options,
                                struct error *err) {
    const char *journal = output->journal_path;
    for (size_t i = 0; i < SL_SINK_OTHERS; i++) {
        struct stat one, two;
        const char *other = options->others[i];
        if (other == NULL)
            continue;
        bool is_one_file = stat(other, &one) == 0 && stat(journal, &two) == 0 &&
                           one.st_dev == two.st_dev && one.st_ino == two.st_ino;
        if (is_one_file ||
            (strcmp(last_part(other), last_part(journal)) == 0 && is_same_folder(other, journal)))
            return error_set(err, SL_ERR_USAGE,
                             "%s is used by this job for something else: it is needed for the "
                             "journal",
                             other);
    }
    return SL_OK;
}

static enum status open_journal(struct output *output, const struct sink_options *options,
                                struct error *err) {
    bool is_begun = false;
    sink_beside(output->sink, SL_JOURNAL_END, output->journal_path);
    TRY(check_others(output, options, err));
    if (strlen(output->journal_path) + sizeof "-journal" > PATH_MAX)
        return error_set(err, SL_ERR_USAGE, "%s: the name is too long for a journal beside it",
                         output->journal_path);
    if (output->overwrites || !file_exists(output->journal_path))
        return journal_check(output->journal_path, err);
    TRY(journal_open(output->journal_path, &output->journal, &is_begun, err));
    if (is_begun) {
        output->is_begun = true;
        return journal_read_pairs(output->journal, &output->was, &output->state, err);
    }
    /* Made by a run that ended before it had begun: as if there were none. */
    journal_close(output->journal);
    output->journal = NULL;
    if (sink_bytes(output->sink) == 0)
        return SL_OK;
    return error_set(err, SL_ERR_INPUT,
                     "%s: the job of this journal never began, but its results hold something: "
                     "--overwrite starts again over both",
                     output->journal_path);
}

enum status output_open(const struct sink_options *options, struct output **out,
                        struct error *err) {
    struct output *output = mem_new(1, sizeof *output);
    if (output == NULL)
        return error_memory(err, sizeof *output, "the output");
    output->overwrites = options->overwrites;
    fingerprint_init(&output->was);
    fingerprint_init(&output->state);
    buf_init(&output->refusals);
    buf_init(&output->lines);
    enum status status = sink_open(options, &output->sink, err);
    if (status == SL_OK && sink_is_file(output->sink))
        status = open_journal(output, options, err);
    if (status != SL_OK)
        output_close(output);
    else
        *out = output;
    return status;
}

void output_close(struct output *output) {
    if (output == NULL)
        return;
    journal_close(output->journal);
    sink_close(output->sink);
    fingerprint_release(&output->was);
    fingerprint_release(&output->state);
    buf_release(&output->refusals);
    buf_release(&output->lines);
    for (size_t i = 0; i < output->counts.rows_begun; i++) {
        mem_free(output->begun[i].ids);
        mem_free(output->begun[i].logprobs);
        mem_free(output->begun[i].tops);
    }
    mem_free(output->begun);
    mem_free(output->pending);
    mem_free(output);
}

bool output_is_file(const struct output *output) {
    return sink_is_file(output->sink);
}

bool output_resumes(const struct output *output) {
    return output->is_begun;
}

bool output_has_journal(const struct output *output) {
    return output->journal != NULL;
}

/* ---- whether it is the same job */

static bool state_number(const struct output *output, struct str name, uint64_t *out) {
    const struct str *value = fingerprint_get(&output->state, name);
    return value != NULL && str_to_u64(*value, out);
}

static void refuse(struct output *output, const char *name, struct str was, const char *is) {
    buf_printf(&output->refusals, "%s%s was %.*s, is %s", output->refusals.len > 0 ? "; " : "",
               name, STR_ARG(was), is);
}

enum status output_recall(struct output *output, struct settings *settings, struct error *err) {
    const struct str *clock = fingerprint_get(&output->state, STR("clock"));
    const struct str *kernels = fingerprint_get(&output->state, STR("kernels"));
    const struct str *zone = fingerprint_get(&output->state, STR("clock is UTC"));
    uint64_t seconds;
    if (!output->is_begun)
        return SL_OK;
    if (clock == NULL || zone == NULL || !str_to_u64(*clock, &seconds) || seconds > INT64_MAX)
        return error_set(err, SL_ERR_ENV,
                         "%s: the journal is damaged (no clock): --overwrite "
                         "starts again",
                         output->journal_path);
    if (settings->has_epoch && settings->epoch != (int64_t)seconds) {
        char now[32];
        snprintf(now, sizeof now, "%lld", (long long)settings->epoch);
        refuse(output, "SOURCE_DATE_EPOCH", *clock, now);
    }
    settings->epoch = (int64_t)seconds;
    settings->has_epoch = str_is(*zone, "yes");
    if (kernels != NULL && strcmp(settings->kernels, "auto") == 0)
        settings->kernels = kernels->data; /* terminated: fingerprint.c keeps a byte behind it */
    else if (kernels != NULL && !str_is(*kernels, settings->kernels))
        refuse(output, "--kernels", *kernels, settings->kernels);
    return SL_OK;
}

const char *output_recall_model(const struct output *output, const char *asked) {
    const struct str *model = fingerprint_get(&output->state, STR("model"));
    const struct str *instead_of = fingerprint_get(&output->state, STR("instead of"));
    if (!output->is_begun || model == NULL || instead_of == NULL)
        return NULL;
    struct str name = str_last_part(str_from(asked));
    return str_equal(*instead_of, name) ? model->data : NULL; /* terminated, as above */
}

const struct fingerprint *output_fingerprint(const struct output *output) {
    return &output->was;
}

struct str output_recall_name(const struct output *output, bool *is_name) {
    const struct str *name = fingerprint_get(&output->state, STR("hub name"));
    const struct str *part = fingerprint_get(&output->was, STR("model name"));
    *is_name = name != NULL;
    return name != NULL ? *name : part != NULL ? *part : STR("");
}

enum status output_check(struct output *output, const struct fingerprint *fingerprint,
                         struct error *err) {
    struct buf text;
    if (!output->is_begun)
        return SL_OK;
    buf_init(&text);
    buf_add(&text, buf_str(&output->refusals));
    fingerprint_compare(&output->was, fingerprint, &text);
    enum status status = buf_status(&text, "what differs", err);
    if (status == SL_OK && text.len > 0)
        status = error_set(
            err, SL_ERR_INPUT, "%s is of another job: %.*s%s: --overwrite starts again",
            output->journal_path, (int)(text.len > REFUSAL_BYTES ? REFUSAL_BYTES : text.len),
            text.data, text.len > REFUSAL_BYTES ? " .." : "");
    buf_release(&text);
    return status;
}

bool output_is_complete(const struct output *output) {
    return fingerprint_get(&output->state, STR("code")) != NULL;
}

enum status output_read_code(const struct output *output, int *code, struct error *err) {
    uint64_t number, bytes;
    if (!state_number(output, STR("code"), &number) || number > 1 ||
        !state_number(output, STR("bytes"), &bytes))
        return error_set(err, SL_ERR_ENV,
                         "%s: the journal is damaged (no exit code): --overwrite "
                         "starts again",
                         output->journal_path);
    if (bytes != sink_bytes(output->sink))
        return error_set(
            err, SL_ERR_INPUT,
            "%s: the job is complete, but its results, %llu bytes then, have %llu now: "
            "--overwrite starts again",
            output->journal_path, (unsigned long long)bytes,
            (unsigned long long)sink_bytes(output->sink));
    *code = (int)number;
    return SL_OK;
}

/* ---- what an earlier run has done */

/* Where the row is in the list, or would be. */
static size_t find_place(const struct output *output, size_t row) {
    size_t low = 0, high = output->counts.rows_begun;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (output->begun[middle].row < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct begun *output_find_begun(const struct output *output, size_t index) {
    size_t place = find_place(output, index);
    bool is_there = place < output->counts.rows_begun && output->begun[place].row == index;
    return is_there ? &output->begun[place] : NULL;
}

const struct begun *output_begun_at(const struct output *output, size_t number) {
    must(number < output->counts.rows_begun);
    return &output->begun[number];
}

static enum status damaged(const struct output *output, const char *what, struct error *err) {
    return error_set(err, SL_ERR_ENV, "%s: the journal is damaged (%s): --overwrite starts again",
                     output->journal_path, what);
}

static enum status take_line(void *ctx, const struct journal_line *line, struct error *err) {
    struct output *output = ctx;
    if (line->row >= sink_row_count(output->sink) || sink_has_line(output->sink, line->row))
        return damaged(output, "a line of no row, or of one that has another", err);
    output->counts.rows_done += !line->is_error;
    output->counts.rows_failed += line->is_error;
    return sink_recall(output->sink, line->row, line->line, err);
}

static enum status take_ordered_line(void *ctx, const struct journal_line *line,
                                     struct error *err) {
    struct output *output = ctx;
    return sink_recall_ordered(output->sink, line->row, line->line, err);
}

/* The row's entry, made if it is not there; NULL when memory is out. */
static struct begun *begun_of(struct output *output, const struct journal_token *token) {
    size_t place = find_place(output, token->row), count = output->counts.rows_begun;
    if (place < count && output->begun[place].row == token->row)
        return &output->begun[place];
    if (!mem_grow((void **)&output->begun, &output->begun_cap, count + 1, sizeof *output->begun))
        return NULL;
    for (size_t i = count; i > place; i--)
        output->begun[i] = output->begun[i - 1];
    output->begun[place] = (struct begun){.row = token->row, .top_count = token->top_count};
    output->counts.rows_begun++;
    return &output->begun[place];
}

static enum status take_token(void *ctx, const struct journal_token *token, struct error *err) {
    struct output *output = ctx;
    if (token->row >= sink_row_count(output->sink))
        return damaged(output, "a token of no row", err);
    if (sink_has_line(output->sink, token->row))
        return SL_OK;
    struct begun *begun = begun_of(output, token);
    if (begun == NULL)
        return error_memory(err, sizeof *begun, "a row that has begun");
    size_t tops = begun->count * begun->top_count;
    if (begun->top_count != token->top_count ||
        (begun->count > 0 && (begun->logprobs != NULL) != token->has_logprobs))
        return damaged(output, "a row with and without log probabilities", err);
    if (!mem_grow((void **)&begun->ids, &begun->cap, begun->count + 1, sizeof *begun->ids) ||
        (token->has_logprobs && !mem_grow((void **)&begun->logprobs, &begun->logprobs_cap,
                                          begun->count + 1, sizeof *begun->logprobs)) ||
        (token->top_count > 0 && !mem_grow((void **)&begun->tops, &begun->tops_cap,
                                           tops + token->top_count, sizeof *begun->tops)))
        return error_memory(err, begun->count, "a row that has begun");
    begun->ids[begun->count] = token->entry.id;
    if (token->has_logprobs)
        begun->logprobs[begun->count] = token->entry;
    for (size_t i = 0; i < token->top_count; i++)
        begun->tops[tops + i] = token->entry.top[i];
    begun->count++;
    output->counts.tokens++;
    return SL_OK;
}

/* The lists have stopped moving: entries find their best tokens. */
static void set_tops(struct output *output) {
    for (size_t i = 0; i < output->counts.rows_begun; i++) {
        struct begun *begun = &output->begun[i];
        for (size_t t = 0; begun->logprobs != NULL && t < begun->count; t++)
            begun->logprobs[t].top =
                begun->tops == NULL ? NULL : begun->tops + t * begun->top_count;
    }
}

enum status output_load(struct output *output, size_t row_count, struct error *err) {
    if (!output->is_begun)
        return SL_OK;
    TRY(sink_expect(output->sink, row_count, err));
    TRY(journal_read_lines(output->journal, 1, take_line, output, err));
    bool has_all = output->counts.rows_done + output->counts.rows_failed == row_count;
    if (has_all && !sink_is_as_recalled(output->sink))
        TRY(journal_read_lines(output->journal, 1, take_ordered_line, output, err));
    TRY(sink_check(output->sink, output->journal_path, err));
    TRY(journal_read_tokens(output->journal, take_token, output, err));
    set_tops(output);
    return SL_OK;
}

bool output_has_line(const struct output *output, size_t index) {
    return sink_has_line(output->sink, index);
}

struct output_counts output_counts(const struct output *output) {
    return output->counts;
}

/* ---- beginning */

/* A transaction, if none is open. */
static enum status begin(struct output *output, struct error *err) {
    if (output->is_in_transaction)
        return SL_OK;
    TRY(journal_begin(output->journal, err));
    output->is_in_transaction = true;
    buf_clear(&output->lines);
    output->pending_count = 0;
    return SL_OK;
}

static enum status restore_line(void *ctx, const struct journal_line *line, struct error *err) {
    struct output *output = ctx;
    return sink_restore(output->sink, line->line, err);
}

/* The tokens of rows that have begun, and of no others, as one record in place of all others: in
 * one transaction, for with both the tokens would be there twice. */
static enum status renew_tokens(struct output *output, struct error *err) {
    if (output->counts.rows_begun == 0)
        return SL_OK;
    TRY(begin(output, err));
    TRY(journal_drop_tokens(output->journal, SL_JOURNAL_ALL, err));
    for (size_t i = 0; i < output->counts.rows_begun; i++) {
        const struct begun *begun = &output->begun[i];
        for (size_t t = 0; t < begun->count; t++) {
            struct journal_token token = {.row = begun->row,
                                          .has_logprobs = begun->logprobs != NULL,
                                          .top_count = begun->top_count,
                                          .entry = {.id = begun->ids[t]}};
            if (token.has_logprobs)
                token.entry = begun->logprobs[t];
            TRY(output_add_token(output, &token, err));
        }
    }
    TRY(output_commit(output, &output->first_record, err));
    output->forgotten = output->first_record;
    return SL_OK;
}

enum status output_begin(struct output *output, const struct fingerprint *fingerprint,
                         const struct fingerprint *state, size_t row_count, struct error *err) {
    uint64_t lines;
    if (!output->is_begun) {
        bool is_file = sink_is_file(output->sink);
        if (is_file) /* what was there goes first: no old journal beside new results */
            journal_remove(output->journal_path);
        TRY(sink_begin(output->sink, row_count, err));
        return !is_file
                   ? SL_OK
                   : journal_make(output->journal_path, fingerprint, state, &output->journal, err);
    }
    TRY(sink_repair(output->sink, &lines, err));
    if (lines < UINT64_MAX)
        TRY(journal_read_lines(output->journal, lines + 1, restore_line, output, err));
    return renew_tokens(output, err);
}

/* ---- a pass */

enum status output_add_line(struct output *output, size_t index, bool is_error, struct str line,
                            struct error *err) {
    struct journal_line entry = {.row = index, .is_error = is_error, .line = line};
    if (output->journal == NULL)
        return sink_write(output->sink, index, line, err);
    TRY(begin(output, err));
    if (!mem_grow((void **)&output->pending, &output->pending_cap, output->pending_count + 1,
                  sizeof *output->pending))
        return error_memory(err, line.len, "a result line");
    TRY(journal_put_line(output->journal, &entry, err));
    buf_add(&output->lines, line);
    output->pending[output->pending_count++] = (struct pending){index, line.len};
    return buf_status(&output->lines, "result lines", err);
}

enum status output_add_token(struct output *output, const struct journal_token *token,
                             struct error *err) {
    if (output->journal == NULL)
        return SL_OK;
    TRY(begin(output, err));
    if (!journal_put_token(output->journal, token))
        return error_memory(err, sizeof *token, "the tokens of a pass");
    return SL_OK;
}

bool output_is_full(const struct output *output) {
    return output->lines.len >= PENDING_BYTES_MAX || output->pending_count >= PENDING_LINES_MAX;
}

bool output_is_due(const struct output *output) {
    return !output->is_in_transaction || output->commits_every_pass || output_is_full(output) ||
           clock_seconds() - output->committed >= SL_OUTPUT_GROUP_SECONDS;
}

void output_commit_every_pass(struct output *output) {
    output->commits_every_pass = true;
}

enum status output_commit(struct output *output, uint64_t *record, struct error *err) {
    size_t at = 0;
    *record = 0;
    if (!output->is_in_transaction)
        return SL_OK;
    TRY(journal_commit(output->journal, record, err));
    output->is_in_transaction = false;
    for (size_t i = 0; i < output->pending_count; at += output->pending[i++].bytes) {
        struct str line = str_cut(buf_str(&output->lines), at, at + output->pending[i].bytes);
        TRY(sink_write(output->sink, output->pending[i].index, line, err));
    }
    output->pending_count = 0;
    buf_clear(&output->lines);
    output->committed = clock_seconds();
    return SL_OK;
}

enum status output_forget_before(struct output *output, uint64_t record, struct error *err) {
    uint64_t none;
    if (output->journal == NULL || record < output->forgotten + FORGET_EVERY)
        return SL_OK;
    TRY(begin(output, err));
    TRY(journal_drop_tokens(output->journal, record, err));
    TRY(output_commit(output, &none, err));
    output->forgotten = record;
    return SL_OK;
}

uint64_t output_first_record(const struct output *output) {
    return output->first_record;
}

enum status output_finish(struct output *output, int code, struct error *err) {
    struct fingerprint state;
    char text[32];
    if (output->journal == NULL)
        return sink_finish(output->sink, err);
    TRY(journal_sync(output->journal, err));
    TRY(sink_finish(output->sink, err));
    fingerprint_init(&state);
    snprintf(text, sizeof text, "%d", code);
    enum status status = fingerprint_add(&state, STR("code"), str_from(text), err);
    snprintf(text, sizeof text, "%llu", (unsigned long long)sink_bytes(output->sink));
    if (status == SL_OK)
        status = fingerprint_add(&state, STR("bytes"), str_from(text), err);
    if (status == SL_OK)
        status = journal_complete(output->journal, &state, err);
    fingerprint_release(&state);
    return status;
}
