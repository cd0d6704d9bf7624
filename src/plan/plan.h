/* The plan: everything decided before the first pass, with the sum behind it. Arithmetic only;
 * reads no weights.
 *
 *   budget = base (process so far) + weights or slabs + step + engine + backend scratch + KV pages
 */
#ifndef SLUICE_PLAN_PLAN_H
#define SLUICE_PLAN_PLAN_H

#include "backend/backend.h"
#include "model/model.h"
#include "plan/machine.h"
#include "plan/settings.h"
#include "plan/simulate.h"
#include "weights/provider.h"

/* What the rows need; from the job's first look at them. */
struct plan_rows {
    size_t count; /* that can run; where rows are scored, their texts */
    size_t lines; /* of the file, with those that are errors or have their result */
    uint64_t prompt_tokens;
    uint64_t shared_tokens;   /* of these, that need not be computed: earlier rows have them */
    uint64_t sequence_tokens; /* sum of prompt + max_tokens (cut to the context) */
    uint64_t pages;           /* sum over rows of the KV pages that prompt + max_tokens need */
    uint64_t window_pages;    /* likewise of windowed layers, for a row's window at most */
    size_t answered;          /* rows beside these, by an earlier run */
    size_t forks;             /* at which rows part whose states are worth keeping (fork.h) */
    size_t head_tokens;       /* that one row computes while all others wait; 0: they do not */
    size_t longest;           /* largest prompt + max_tokens */
    size_t longest_prompt;
    size_t longest_answer;      /* largest max_tokens */
    uint64_t answer_tokens;     /* sum of max_tokens */
    uint64_t scored_tokens;     /* of the prompts' tokens, those that need logits; 0: none */
    bool wants_logprobs;        /* of any row */
    size_t top_logprobs;        /* the most that a row asks for */
    uint64_t load_bytes;        /* that reading the largest row takes; 0: next to nothing */
    size_t special_rows;        /* with special tokens inside their messages' content */
    bool specials_are_text;     /* --content-specials text */
    size_t certain_rows;        /* that ignore EOS: they go on to their limits */
    size_t cut_rows;            /* whose max_tokens were cut to the context */
    struct row_lengths lengths; /* of each row; get NULL: all count as alike */
};

struct plan {
    const char *engine; /* "resident" or "stream" */
    char engine_reason[200];
    char precision[64]; /* the formats as published: "q4_1 + q8_0" */
    char precision_reason[200];
    const char *kernels, *kernels_reason; /* "portable" ..; "--kernels" .. */
    const char *isa;                      /* of backend_options */
    size_t product_features;              /* for backend_cpu_new */
    size_t threads;
    struct plan_rows rows;
    uint64_t budget_bytes;
    char budget_source[120];
    uint64_t base_bytes;          /* the process as it is, text layer and all, with an allowance */
    uint64_t margin_bytes;        /* of the budget, left free: what no sum foresees */
    uint64_t weights_bytes;       /* of the model */
    uint64_t resident_bytes;      /* weights kept in memory */
    uint64_t ring_bytes;          /* slabs */
    uint64_t activation_bytes;    /* step, engine, scratch */
    uint64_t kv_bytes_per_token;  /* while all layers keep it */
    uint64_t kv_bytes_per_row;    /* of an average row */
    uint64_t state_bytes_per_row; /* part of that: of layers that keep a state */
    uint64_t kv_bytes;            /* pages, and states */
    size_t kept_states;           /* beyond one for each row */
    uint64_t life_pages;      /* of all rows, as long as they are on average while they are in */
    uint64_t pinned_bytes;    /* of blocks that stay in memory beside the ring; plan/pins.h */
    uint64_t pins_room_bytes; /* for pins_choose, which then chooses the same */
    size_t pinned_blocks, block_count;
    enum kv_dtype kv_dtype;
    size_t page_count, window_page_count; /* of layers without and with a window */
    size_t batch, pass_tokens, slab_count;
    size_t opening_rows, opening_tokens; /* see sched.h */
    uint64_t block_bytes_max;            /* for layout_init */
    uint64_t pass_bytes;                 /* read a pass; 0 resident */
    char batch_reason[80];               /* what bounds the batch */
    struct pass_cost cost;
    bool knows_compute;       /* more than an assumption */
    char compute_source[120]; /* of its rates: "--flops", "measured in 3 runs of this model", .. */
    struct answers answers;   /* expected; none: every row to its limit */
    char answers_source[100];
    size_t row_pages_max;              /* 0: no bound; else a window's */
    struct simulated crowded;          /* as likely, with as many rows at once as there can be */
    struct simulated at_limit, likely; /* if every row runs to its limit; as answers tell */
    uint64_t passes;                   /* likely */
    double pass_seconds, load_seconds; /* mean; reading resident weights */
    double seconds;                    /* likely, with load_seconds */
    uint64_t read_bytes_per_second;
    bool knows_rate;                  /* more than an assumption */
    char rate_source[100];            /* "not measured yet: assumed", ... */
    const struct ring_method *reader; /* NULL: the ring's own choice, as 0 for the next two */
    size_t chunk_bytes, depth;
    uint64_t still_bytes; /* of what becomes resident, the part that no pass changes */
    double
        memory_ratio; /* real peak over what its use sums up to in the latest run, 1 if unknown */
    uint64_t memory_runs; /* that told it */
    uint64_t predicted_peak_bytes;
    uint64_t needed_bytes; /* the least budget that would do */
    char advice[600];      /* what would end before the deadline; empty if nothing is to be said */
    char note[320];        /* sampling that the model's files suggest; empty if none */
};

/* Decides. SL_ERR_ENV when the budget is too small (amount needed named in the unit the user can
 * pass: "--memory 123M") or a setting asks for what this build or the model lacks, SL_ERR_USAGE for
 * settings that contradict the model. Without rows no budget is too small. The layout is made by
 * the caller with block_bytes_max. */
enum status plan_make(const struct model *model, const struct settings *settings,
                      const struct plan_rows *rows, struct plan *out, struct error *err);

/* Plays the schedule again, for another read_bytes_per_second. SL_ERR_ENV when memory is out. */
enum status plan_time(struct plan *plan, struct error *err);

/* Which rows a budget that is too small for the longest one can hold. */
struct plan_fit {
    size_t tokens_max;     /* most tokens, prompt and answer, that a row may have; 0: no row fits */
    size_t longest;        /* of the rows asked about */
    uint64_t needed_bytes; /* the least budget for that one */
    uint64_t page_bytes;
    uint64_t budget_bytes;
};
/* For a budget that plan_make refuses. Rows of at most tokens_max tokens are then accepted, however
 * many there are. */
enum status plan_fit_rows(const struct model *model, const struct settings *settings,
                          const struct plan_rows *rows, struct plan_fit *out, struct error *err);
/* The least budget for a row of so many tokens, give or take what its bookkeeping needs. */
uint64_t plan_fit_bytes(const struct plan_fit *fit, size_t tokens);
/* "--memory 123M", rounded up to what is surely enough: another process differs by some pages. */
#define SL_BUDGET_OPTION_BYTES 40
void plan_budget_option(uint64_t needed_bytes, char out[SL_BUDGET_OPTION_BYTES]);

/* One paragraph for people; one JSON object (members of INTERFACE.md) for programs. */
void plan_explain(const struct plan *plan, const struct model *model, struct buf *out);
void plan_explain_rate(const struct plan *plan, struct buf *out); /* of reads, and the time */
void plan_json(const struct plan *plan, const struct model *model, struct buf *out);
/* "3.4G", "512M": powers of 1024, as INTERFACE.md has amounts. */
void plan_amount(uint64_t bytes, struct buf *out);

#endif
