/* Rows: one line of the input file, checked. A row that cannot be used is an error with its line,
 * and the job goes on. Forms (INTERFACE.md "Rows"): prompt, prompt_ids, messages, OpenAI Batch
 * lines; for `score` context and continuation, both as texts or as token ids, or prompt and
 * choices. Strings borrow from the line (where they have no escapes), from the settings and from
 * the row's arena: the line must outlive the row. */
#ifndef SLUICE_JOB_ROW_H
#define SLUICE_JOB_ROW_H

#include "base/json.h"
#include "engine/sample.h"
#include "plan/settings.h"

#define SL_LINE_MAX ((size_t)64 << 20)
#define SL_ROW_DEPTH_MAX 512u
/* JSON values of a line. What reading a row may take in memory is the budget's share, row_bytes: a
 * third of it is for the line in its forms, half for the values. */
#define SL_ROW_VALUES_MAX ((size_t)1 << 21)
#define SL_ROW_BYTES_LEAST ((uint64_t)4 << 20)
#define SL_ROW_BYTES_MOST ((uint64_t)1 << 30)
uint64_t row_budget_bytes(uint64_t budget_bytes); /* of a memory budget: an eighth */
uint64_t row_line_bytes_max(uint64_t row_bytes);  /* 0: SL_LINE_MAX */
size_t row_values_max(uint64_t row_bytes);        /* 0: SL_ROW_VALUES_MAX */

enum row_form {
    ROW_PROMPT,
    ROW_PROMPT_IDS,
    ROW_MESSAGES,
    ROW_CONTINUATION,
    ROW_CONTINUATION_IDS,
    ROW_CHOICES
};

struct row {
    struct arena arena;
    uint64_t line;      /* from 1 */
    const char *code;   /* of an error: "invalid_json", "invalid_row", ... */
    struct str id_json; /* the id as JSON text, as it goes into the result: "a" or 7 (the line
                           number when there is none) */
    bool has_id;
    bool is_batch; /* a custom_id: the result is a Batch output object */
    bool is_chat;  /* of a Batch line: /v1/chat/completions, else /v1/completions */
    enum row_form form;
    struct str prompt;         /* of rows to be scored, what stands before the choices */
    const struct str *choices; /* [choice_count]: those, or the one continuation; each has text */
    size_t choice_count;
    const uint32_t *prompt_ids; /* those of the continuation behind the others */
    size_t prompt_id_count, continuation_id_count;
    const struct json *messages, *tools, *kwargs;
    int64_t max_tokens; /* the setting's when absent */
    struct sampling sampling;
    struct str stops[SL_STOPS_MAX]; /* the row's own or the settings' */
    size_t stop_count;
    bool wants_logprobs;
    size_t top_logprobs;
    bool adds_generation_prompt, continues_final_message, skips_special, ignores_eos,
        wants_token_ids;
    bool has_lone_surrogates; /* became U+FFFD: warned once */
};

#define SL_TOP_LOGPROBS_MAX 20
#define SL_CHOICES_MAX 1024u

/* An empty row with its line number as id, for a line that cannot even be read. */
enum status row_init(struct row *row, uint64_t number, struct error *err);
/* Fills row from a line (no newline at its end). On SL_ERR_ROW id_json, line and is_batch are as
 * far as they could be read, for the error line. unknown (may be NULL) collects names of members
 * that nobody knows, for one warning. The row is initialised by the call and always released by
 * row_release. */
enum status row_parse(struct str line, uint64_t number, const struct settings *settings,
                      struct row *row, struct buf *unknown, struct error *err);
void row_release(struct row *row);
/* What reading the row has taken at its height, about: the line, its text in other forms, values
 * while they were read. */
uint64_t row_load_bytes(const struct row *row, uint64_t line_bytes);

/* Parameters that are the same in plain rows and in Batch bodies. row_params.c. */
enum status row_read_params(struct row *row, const struct json *object,
                            const struct settings *settings, struct error *err);
/* Appends a list of token ids to prompt_ids. */
enum status row_read_ids(struct row *row, const struct json *list, const char *name,
                         struct error *err);
/* Form and texts of a row to be scored. row_score.c. */
enum status row_read_score(struct row *row, const struct json *object, struct error *err);
/* Adds the names of members of object that are in no table to `unknown`, each once. */
void row_note_unknown(const struct json *object, bool is_envelope, struct buf *unknown);

#endif
