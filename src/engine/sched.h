/* The scheduler: which rows are in, and which tokens the next pass computes. A state machine over
 * counts: no arithmetic of models, no files; one thread. docs/schedule.md draws it.
 *
 *   waiting outside -- sched_fits, sched_admit --> live -- ends: sched_remove --> gone
 *   live -- pages run out: the newest --> suspended -- fits again, before anyone new --> live
 *
 * Admission: a row enters when its prompt, and what it is expected to generate, fit beside what the
 * rows inside are expected to hold in every pass to come (outlook.h, expect.h), and when its prompt
 * has a place in the next pass. When pages run out all the same, the newest row gives up its pages
 * and keeps its tokens; they are computed again later. Picking: decode tokens first, rows taking
 * turns when pass_tokens does not hold them all; then prefill chunks, oldest row first, within what
 * the pace (pace.h) allows, and without what other rows have computed (prefix.h), or with recurrent
 * layers compute now (fork.h).
 *
 * Promises (sched.c says why; sched_test.c plays random jobs)
 *  1. A pass never needs a page that is not there, in either group.
 *  2. The first live row has a token in every round of turns, so a job comes to its end.
 *  3. A row is suspended SL_SUSPENSIONS_MAX times at most; then it is protected.
 *  4. Nobody enters from outside while a row is suspended.
 *
 * What batch_max should be: rows inside hold about
 *     pages_for(prompt + E[a^2] / (2 E[a]))   with a the length of an answer (its limit if unknown:
 *     then prompt + limit / 2)
 * pages each on average over their lives, which is less than at their ends. page_count divided by
 * that, and a tenth more for chance, keeps the pages full; fewer leave pages unused, more do no
 * harm but for the memory of their tokens and logits. */
#ifndef SLUICE_ENGINE_SCHED_H
#define SLUICE_ENGINE_SCHED_H

#include "engine/outlook.h"
#include "engine/pace.h"
#include "engine/prefix.h"

/* After so many a row enters only when its pages up to its limit are sure to be there for it. */
#define SL_SUSPENSIONS_MAX 3u

struct sched_limits {
    size_t batch_max;   /* rows at once, suspended ones included */
    size_t pass_tokens; /* tokens a pass, at most */
    size_t page_count;
    size_t window_page_count; /* of windowed layers */
    uint32_t window;          /* 0: no layer has one */
    bool is_all_windowed;     /* then page_count counts for nothing */
    size_t kept_states;       /* pages of states beyond one for each row: for forks */
    bool scores;              /* rows are scored: many of their tokens need logits */
    /* Until so many rows have ended, prompts make no pass longer than so many tokens, and the first
     * answers come early; 0: passes are as long as ever. */
    size_t opening_rows, opening_tokens;
    /* Rows of earlier jobs by the share of their limit that their answers had (expect.h), copied;
     * NULL: nothing is known, and the first rows are expected to reach their limits. */
    const double *prior;
};

/* A row that waits outside. */
struct sched_ask {
    size_t prompt_count, max_tokens;
    size_t answer_count;  /* of an answer that was begun before */
    size_t waiting_count; /* rows that wait, with this one */
    uint32_t prefix;      /* tells rows that may begin alike; 0: unknown */
    size_t shared_tokens; /* that rows with the same are said to have too */
    bool is_certain;      /* goes on to its limit: ignores EOS */
};

struct sched_pick {
    struct seq *seq;
    size_t first, count; /* tokens [first, first + count) of the seq */
    size_t logits;       /* of so many of them, the last ones */
};

struct sched {
    struct sched_limits limits;
    struct prefix *prefix; /* NULL: rows share nothing */
    /* [batch_max], in the order in which they are served: protected live rows, other live rows and
     * then suspended ones in order of admission. */
    struct seq **rows;
    size_t protected_count, live_count, inside_count;
    size_t turn;              /* where the next pass begins among decoding rows */
    struct sched_pick *picks; /* [batch_max] */
    size_t pick_count, pick_tokens;
    size_t chosen_tokens, chosen_logits, chosen_forks; /* while picks are made */
    struct expect expect;
    struct pace pace;
    struct outlook outlook;
    bool has_outlook;       /* it is of the rows as they are */
    size_t prefill_pending; /* tokens of prompts of live rows; with the outlook */
    size_t decoding_count;  /* likewise */
    double credit;          /* pages x passes that rows may take which go on to their limits */
    double again_lately, computed_lately; /* tokens, older passes fading */
    /* Since the start. */
    size_t ended_rows; /* not those that were dropped */
    size_t suspensions;
    uint64_t tokens_given_up; /* computed ones of suspended rows, to be computed again */
};

enum status sched_init(struct sched *sched, const struct sched_limits *limits, struct error *err);
void sched_release(struct sched *sched);                           /* the seqs are the engine's */
bool sched_fits(struct sched *sched, const struct sched_ask *ask); /* now */
/* Whether enough rows have come to the last part of their limits to tell whether most do. */
bool sched_knows_late(const struct sched *sched);
bool sched_can_ever_fit(const struct sched *sched, size_t prompt_count, size_t max_tokens);
/* Most tokens of a pass with logits: one a row, or of rows that are scored half of the pass. */
size_t sched_logits_max(const struct sched_limits *limits);
/* Pages of windowed layers that the tokens of a pass need beyond what rows are promised. */
size_t sched_pages_set_aside(size_t pass_tokens);
void sched_admit(struct sched *sched, struct seq *seq); /* it fits */
/* The row has a token more. */
void sched_grow(struct sched *sched, const struct seq *seq);
/* The row has ended: seq->finish says how, FINISH_NONE that it was dropped. */
void sched_remove(struct sched *sched, struct seq *seq);
/* Fills picks for the next pass; at least one token while any row is inside. Lets suspended rows in
 * that fit, and suspends the newest where pages lack. */
void sched_pick(struct sched *sched, struct kv *kv);
/* The pass is over; how long it took, and waited for blocks. */
void sched_learn(struct sched *sched, double seconds, double wait_seconds);

#endif
