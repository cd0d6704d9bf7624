/* A row that is in the engine: what its result line will need, and where its stop texts stand. The
 * job owns it; one thread. */
#ifndef SLUICE_JOB_LIVE_H
#define SLUICE_JOB_LIVE_H

#include "job/job.h"
#include "job/result.h"
#include "text/stop.h"

/* A choice of a row that is scored, as the engine knows it. */
struct live_choice {
    struct live *live;
    struct score score;
};

struct live {
    struct row row; /* id, flags and stop texts alone; the rest is gone */
    size_t index, place;
    size_t prompt_tokens, max_tokens;
    struct stop stop;
    struct live_choice *choices; /* [row.choice_count] of a row that is scored; else NULL */
    size_t choices_left;         /* that have no score yet */
    bool is_recorded; /* tokens of it are in the journal, or will be with the next commit */
    uint64_t record;  /* the first one that they are in; 0: not committed yet */
};

/* Keeps of the loaded row what the result needs, in memory of its own; NULL when memory is out. */
struct live *live_new(const struct job_slot *slot, const struct tokenizer *tokenizer, size_t index);
void live_free(struct live *live); /* accepts NULL */
/* Sets result->text, which lies in `text` (empty before), and result->count to the tokens that
 * begin before a stop text. SL_ERR_ENV. */
enum status live_text(const struct live *live, const struct tokenizer *tokenizer,
                      struct result *result, struct buf *text, struct error *err);

#endif
