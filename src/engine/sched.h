/* The scheduler: which rows are in, and which tokens the next pass computes. A pure state machine
 * over counts: no arithmetic, no files; one thread.
 *
 * Admission (first version): a row enters when the pages for prompt + max_tokens are free after
 * what the rows inside may still take, so that none ever runs out. Of windowed layers a row is
 * promised the pages of its window alone; what the tokens of a pass need besides is set aside once
 * for all rows (sched.c says why that is enough). Picking: decode tokens first,
 * rows taking turns when pass_tokens does not hold them all; then prefill chunks of newcomers,
 * oldest first. */
#ifndef SLUICE_ENGINE_SCHED_H
#define SLUICE_ENGINE_SCHED_H

#include "engine/prefix.h"

struct sched_limits {
    size_t batch_max;   /* rows at once */
    size_t pass_tokens; /* tokens a pass */
    size_t page_count;
    size_t window_page_count; /* of windowed layers */
    uint32_t window;          /* 0: no layer has one */
    bool is_all_windowed;     /* then page_count counts for nothing */
};

struct sched_pick {
    struct seq *seq;
    size_t first, count; /* tokens [first, first + count) of the seq */
    bool wants_logits;   /* of its last token */
};

struct sched {
    struct sched_limits limits;
    struct prefix *prefix; /* NULL: rows share nothing */
    struct seq **live;     /* [batch_max], in order of admission */
    size_t live_count;
    size_t pages_promised; /* to all live rows */
    /* Of windowed layers: pages of windows, and how many more the rows have in all. */
    size_t window_promised, window_excess;
    size_t turn;              /* where the next pass begins among decoding rows */
    struct sched_pick *picks; /* [batch_max] */
    size_t pick_count, pick_tokens;
};

enum status sched_init(struct sched *sched, const struct sched_limits *limits, struct error *err);
void sched_release(struct sched *sched); /* the seqs are the engine's */
bool sched_fits(const struct sched *sched, size_t prompt_count, size_t max_tokens); /* now */
bool sched_can_ever_fit(const struct sched *sched, size_t prompt_count, size_t max_tokens);
/* Pages of windowed layers that the tokens of a pass need beyond what rows are promised. */
size_t sched_pages_set_aside(size_t pass_tokens);
void sched_admit(struct sched *sched, struct seq *seq);
void sched_remove(struct sched *sched, struct seq *seq);
/* Fills picks for the next pass; at least one token while any row is live. */
void sched_pick(struct sched *sched);

#endif
