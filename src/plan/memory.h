/* The memory model: what a job will allocate, as sums over the ways to lay it out. Arithmetic only;
 * any thread.
 *
 *   total = base + weights (all, or slabs) + layout + scratch + work(tokens, rows) + KV pages
 *           + states of rows
 *
 * Nothing here depends on the budget, so a larger one accepts all that a smaller one does. */
#ifndef SLUICE_PLAN_MEMORY_H
#define SLUICE_PLAN_MEMORY_H

#include "plan/plan.h"

#define SL_MEMORY_WAYS_MAX 16

/* One way to hold the weights: a block size, with all blocks in memory or a few slabs for them. */
struct memory_way {
    size_t block_bytes_max;  /* for layout_init */
    uint64_t slab_bytes_max; /* of the largest block, as it lies in memory */
    uint64_t slab_bytes_sum; /* of all blocks */
    uint64_t layout_bytes;   /* arrays of the layout */
    uint64_t read_bytes;     /* of a pass */
    size_t block_count;
};

struct pins; /* plan/pins.h */

struct memory {
    const struct model *model;
    const struct plan_rows *rows;
    struct backend_choice choice; /* the kernel set */
    bool rounds_weights;          /* it multiplies with weights that are not bf16 */
    size_t product_features;      /* of the widest activations of a product */
    size_t threads;
    size_t logprobs; /* best tokens kept for each answer token; with has_logprobs */
    bool has_logprobs;
    bool scores; /* the rows */
    enum kv_dtype kv_dtype;
    uint64_t process_bytes; /* the process now, and what it takes besides the sums here */
    uint64_t base_bytes;    /* the same with what the rows take */
    uint64_t scratch_bytes;
    uint64_t unused_bytes;                  /* of all these, what a run usually leaves untouched */
    uint64_t page_bytes, window_page_bytes; /* of layers without and with a window; 0: none */
    uint64_t state_bytes;                   /* of a row in layers that keep a state; 0: none */
    uint32_t window;
    size_t longest_pages;    /* of the longest row */
    uint64_t expected_pages; /* of all rows, as long as they are on average while they are in */
    struct memory_way ways[SL_MEMORY_WAYS_MAX]; /* block sizes in rising order */
    size_t way_count;
    /* Of the matrices that a token is multiplied with, its multiply-adds: layers; the head. */
    uint64_t values, head_values;
    uint64_t expert_bytes; /* of weights that a pass reads only if tokens are routed to them */
};

/* Rows that are in together, tokens of a pass, pages. */
struct memory_load {
    size_t batch, pass_tokens;
    size_t page_count, window_page_count; /* of layers without and with a window */
    size_t state_count;                   /* of rows, and kept ones */
};

enum status memory_init(struct memory *memory, const struct model *model,
                        const struct settings *settings, const struct plan_rows *rows,
                        size_t threads, struct error *err);
/* Other rows for the same model and settings, each as long as its limit allows. */
void memory_set_rows(struct memory *memory, const struct plan_rows *rows);
/* Rows that are in have this share of their answers' limits on average, in (0, 1]. */
void memory_expect(struct memory *memory, double share);
/* slab_count 0: resident. */
uint64_t memory_weights(const struct memory_way *way, size_t slab_count);
/* Step, engine, and what the job keeps for each row that is in. */
uint64_t memory_work(const struct memory *memory, const struct memory_load *load);
/* States of the load that are no row's. */
size_t memory_kept_states(const struct memory_load *load);
/* Bytes of weights that a pass of so many tokens is expected to read, if its tokens were routed to
 * experts at random. */
uint64_t memory_pass_bytes(const struct memory *memory, const struct memory_way *way,
                           size_t tokens);
/* All of it. */
uint64_t memory_total(const struct memory *memory, const struct memory_way *way, size_t slab_count,
                      const struct memory_load *load);
/* What of it becomes resident, for memory counts once it is touched: first the part that no pass
 * changes (base, weights, layout, scratch; pins count where slab_count is not 0), then all of it
 * when the passes use so much of what was made. What is foretold of a run and what a run teaches
 * come from this one sum. */
uint64_t memory_still(const struct memory *memory, const struct memory_way *way, size_t slab_count,
                      const struct pins *pins);
uint64_t memory_touched(const struct memory *memory, uint64_t still_bytes,
                        const struct memory_load *made, const struct memory_load *used);
/* Sets the counts of pages and states for rows that have so many pages in all, and for the longest
 * row in any case. batch and pass_tokens are set already. */
void memory_set_pages(const struct memory *memory, uint64_t pages, struct memory_load *load);
/* Pages, likewise, of batch rows of this job as they are on average, and of the longest row in
 * any case. */
uint64_t memory_pages(const struct memory *memory, size_t batch);
/* What one page more of rows takes on average in all layers. */
uint64_t memory_page_cost(const struct memory *memory);

#endif
