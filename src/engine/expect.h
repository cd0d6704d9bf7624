/* How long answers are expected to be, learned from the rows of this job: the chance that an answer
 * of so many tokens goes on. Arithmetic only; nothing here touches a result. One thread.
 *
 * Lengths are taken as shares of the rows' limits, in SL_EXPECT_BINS parts. For each part it counts
 * the rows that came to it and those that ended in it by themselves, so that a row that still runs
 * tells something too (the estimate of survival by Kaplan and Meier). Parts that few rows have come
 * to take the rate at which rows end in all parts. Before the first row has ended an answer is
 * expected to reach its limit. */
#ifndef SLUICE_ENGINE_EXPECT_H
#define SLUICE_ENGINE_EXPECT_H

#include "base/status.h"

#define SL_EXPECT_BINS 16u

struct expect {
    double reached[SL_EXPECT_BINS], ended[SL_EXPECT_BINS]; /* rows */
    double survival[SL_EXPECT_BINS + 1];                   /* chance to come to the part's begin */
};

/* prior: rows of earlier jobs that ended in each part, and last those that reached their limit;
 * NULL: none. Many rows of them weigh like a few of this job. */
void expect_init(struct expect *expect, const double prior[SL_EXPECT_BINS + 1]);
/* An answer has grown from `before` tokens to `now`. Begin with expect_grow(expect, 0, 0, max)
 * meaning that a row has entered: see expect_enter. */
void expect_enter(struct expect *expect);
void expect_grow(struct expect *expect, size_t before, size_t now, size_t max_tokens);
/* A row has ended by itself after that many tokens. */
void expect_end(struct expect *expect, size_t tokens, size_t max_tokens);
/* Chance that an answer has more than that many tokens; in (0, 1], 0 from max_tokens on. */
double expect_survival(const struct expect *expect, size_t tokens, size_t max_tokens);
/* Mean length of an answer that has so many tokens already; at most max_tokens. */
double expect_length(const struct expect *expect, size_t tokens, size_t max_tokens);

#endif
