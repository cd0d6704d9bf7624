/* What a pass costs in seconds: the processor's part and the drive's, whichever is longer, since
 * the one works while the other does. In parts of a pass it is the one, in parts the other: what
 * they have waited for each other comes on top, where runs have told. Arithmetic only; any thread.
 *
 *   compute = fixed + (tokens x token_flops + logits x logits_flops) / flops_per_second
 *   read    = bytes / read_bytes_per_second, where experts count as far as tokens reach them */
#ifndef SLUICE_PLAN_COST_H
#define SLUICE_PLAN_COST_H

#include "base/status.h"

struct pass_cost {
    double flops_per_second; /* of all threads; > 0 */
    double fixed_seconds;    /* of a pass, however few its tokens */
    double token_flops;      /* 2 x the values that each token is multiplied with */
    double logits_flops;     /* likewise of the head, for tokens that need logits */
    double read_bytes;       /* of a pass with many tokens; 0: weights stay in memory */
    double read_bytes_per_second;
    double expert_bytes; /* of read_bytes */
    double expert_share; /* of the experts, those that a token uses; 0: the model is dense */
    double idle_seconds; /* of a pass, beyond the longer part */
};

double cost_compute_seconds(const struct pass_cost *cost, double tokens, double logits);
double cost_read_seconds(const struct pass_cost *cost, double tokens);
double cost_seconds(const struct pass_cost *cost, double tokens, double logits);

/* What passes of a run have cost the processor: a straight line through them by least squares. */
struct cost_observed {
    double passes, work, work_squared, seconds, work_seconds;
};
void cost_observe(struct cost_observed *observed, const struct pass_cost *cost, double tokens,
                  double logits, double seconds);
/* False: too few passes to tell. fixed_seconds is 0 where the passes were too alike to tell what
 * does not grow with them. */
bool cost_learn(const struct cost_observed *observed, double *flops_per_second,
                double *fixed_seconds);

#endif
