/* How long answers are, as a share of the limit that their rows had: a histogram, from rows that
 * have ended. Arithmetic only; one thread at a time. */
#ifndef SLUICE_PLAN_ANSWERS_H
#define SLUICE_PLAN_ANSWERS_H

#include "base/status.h"

#define SL_ANSWER_BINS 16u

struct answers {
    /* rows[k]: more than k / SL_ANSWER_BINS of the limit, at most (k + 1) / SL_ANSWER_BINS; the
     * last one: the limit itself */
    uint64_t rows[SL_ANSWER_BINS + 1];
};

void answers_add(struct answers *answers, size_t tokens, size_t limit);
uint64_t answers_count(const struct answers *answers);
/* Mean share of the limit, in (0, 1]; 1 when nothing is known. */
double answers_mean(const struct answers *answers);
/* How much of its answer a row has on average over the passes in which it is in, as a share of the
 * limit: E[s^2] / (2 E[s]); a half when nothing is known. */
double answers_life(const struct answers *answers);
/* A quantile for the number-th of many rows: any stretch of them gets its share of long and short
 * answers (multiples of the golden ratio lie evenly; Weyl's equidistribution), and one alone is the
 * median. In [0, 1). */
double answers_quantile(size_t number);
/* The share at a quantile in [0, 1); 1 when nothing is known. */
double answers_share(const struct answers *answers, double quantile);
/* What a plan may take from them: as long as they are few, some rows more that reach their limits.
 * Nothing for none, and none more from SL_ANSWERS_ENOUGH on. */
#define SL_ANSWERS_ENOUGH 64u
void answers_doubt(struct answers *answers);
/* Adds what a run has seen to what was known; the old fades as the new comes in. */
void answers_merge(struct answers *known, const struct answers *seen);

#endif
