/* How long a job will still take, from the passes and the answers that it has seen. Pure: no clock,
 * no file; one thread.
 *
 * Answers: each token of an answer was a chance to end; how often rows did end at which length is
 * kept, and gives the length that an answer is expected to have when it has come so far. Rows that
 * are still going count too, so that short answers, which end first, do not stand for all.
 *
 * Passes: their seconds are taken as a + b x tokens, fitted to the last passes. A row waits in its
 * place while the prompts before it and its own are computed: as long as the last ones did.
 *
 * Left: the waiting go through the places that are taken now. Where answers have lengths of their
 * own, places fall free one after another, and the last to enter take as long as the longest of
 * those that are in now will: the passes left are the expected tokens of the waiting and their
 * delays divided by the places, and the expected longest of the live. Where all run to one limit
 * they go in rounds, and the passes are those of the place that ends last. The truth lies between,
 * by how far the longest is expected to exceed its expectation. */
#ifndef SLUICE_JOB_ESTIMATE_H
#define SLUICE_JOB_ESTIMATE_H

#include "base/status.h"

#define SL_ESTIMATE_LENGTHS 128u /* classes of answer lengths, up to 2^32 */
#define SL_ESTIMATE_LIMITS 32u   /* classes of limits of waiting rows */

struct estimate_row {
    uint32_t generated, limit; /* limit 0: a free place */
    uint32_t passes;           /* since it entered */
};

struct estimate {
    uint64_t chances[SL_ESTIMATE_LENGTHS], ends[SL_ESTIMATE_LENGTHS]; /* at that length */
    struct {
        uint64_t rows, limits; /* limits: their sum */
    } waiting[SL_ESTIMATE_LIMITS];
    uint64_t waiting_rows, waiting_prompts; /* prompts: tokens */
    double lives, lived;       /* rows in, and passes, of those while rows wait; both fading */
    struct estimate_row *rows; /* [places] */
    double *expected;          /* [places], room for the sums */
    size_t places, live;
    size_t most, taken; /* live rows at most since the last pass, and in it */
    double weight, tokens, seconds, tokens_squared, tokens_seconds; /* of the passes, fading */
    double delays, delayed; /* passes from entering to the first token, and rows; fading */
    size_t passes;
};

struct estimate_left {
    double passes, seconds;
    double answer_tokens; /* expected of all rows that have no result */
};

enum status estimate_init(struct estimate *estimate, size_t places, struct error *err);
void estimate_release(struct estimate *estimate);
/* A row that waits, and one that waits no longer. */
void estimate_wait(struct estimate *estimate, size_t prompt_tokens, size_t limit);
void estimate_unwait(struct estimate *estimate, size_t prompt_tokens, size_t limit);
/* A row at a free place below `places`; a token of it; its end, by a stop or by its limit. */
void estimate_enter(struct estimate *estimate, size_t place, size_t generated, size_t limit);
void estimate_token(struct estimate *estimate, size_t place);
void estimate_leave(struct estimate *estimate, size_t place, bool is_stop);
/* A pass of so many tokens, prompts' and answers'. */
void estimate_pass(struct estimate *estimate, size_t tokens, double seconds);
/* False while no pass was seen. pass_tokens: the most of a pass. */
bool estimate_left(const struct estimate *estimate, size_t pass_tokens, struct estimate_left *out);
/* The share of their limits that answers are expected to have. 1 while nothing is known. */
double estimate_share(const struct estimate *estimate, size_t limit);

#endif
