/* Result lines: what a row answers, as one line of JSON. Both forms: plain and OpenAI Batch. Any
 * thread. */
#ifndef SLUICE_JOB_RESULT_H
#define SLUICE_JOB_RESULT_H

#include "engine/seq.h"
#include "job/row.h"
#include "text/tokenizer.h"

struct result_context {
    const struct tokenizer *tokenizer;
    const char *model_name; /* Batch bodies */
    uint64_t fingerprint;   /* made-up ids of Batch lines derive from it and the row */
    int64_t created;
};

struct result {
    const struct row *row;
    size_t prompt_tokens;
    const uint32_t *ids; /* the answer, no stop id, cut at a stop text */
    size_t count;
    struct str text; /* decoded, cut */
    enum finish finish;
    const struct token_logprobs *logprobs; /* count of them; NULL: not wanted */
    size_t top_logprobs;
};

/* What a text to be scored has. */
struct score {
    double sum;    /* of the log probabilities of its tokens */
    size_t tokens; /* how many */
    bool is_greedy;
};
/* Appends the line of a row that was scored, one score for each of its choices. */
void result_score_line(const struct row *row, const struct score *const *scores, struct buf *out);

/* Appends the line with its LF. */
void result_line(const struct result_context *context, const struct result *result,
                 struct buf *out);
void result_error_line(const struct result_context *context, const struct row *row,
                       const struct error *error, const char *code, struct buf *out);

#endif
