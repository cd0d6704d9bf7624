/* What the processor does in a second, from the best that is known:
 *
 *   --flops  >  real runs of this model here  >  products measured for a moment  >  an assumption
 *
 * Records are in settings->home (plan/record.h). One thread. */
#ifndef SLUICE_PLAN_COMPUTE_H
#define SLUICE_PLAN_COMPUTE_H

#include "plan/plan.h"

/* Fills flops_per_second and fixed_seconds of plan->cost, and compute_source. The plan's precision,
 * kernels, threads and weights_bytes must be set, and the flops of tokens in its cost. */
void compute_decide(const struct model *model, const struct settings *settings, struct plan *plan);
/* Whether products should be measured first: nothing better than an assumption is known, and the
 * plan's job computes long enough for its time to matter. */
bool compute_wants_measure(const struct settings *settings, const struct plan *plan);
/* What measured products take of a pass; the rest is attention, norms, activations and waiting for
 * each other: 71 to 94 % in docs/measurements/profile.md. */
#define SL_PRODUCTS_SHARE 0.8
/* Measures products of the model's most used format for about SL_COMPUTE_SECONDS, into settings and
 * a record; SL_COMPUTE_BYTES of memory meanwhile. Afterwards compute_decide knows. SL_ERR_STOPPED;
 * SL_ERR_ENV when memory is out. */
#define SL_COMPUTE_SECONDS 0.2
#define SL_COMPUTE_BYTES ((uint64_t)32 << 20)
enum status compute_measure(const struct model *model, struct settings *settings,
                            const struct plan *plan, bool (*should_stop)(void), struct error *err);
/* A run has ended whose passes cost so much. */
void compute_learn(const struct model *model, const struct settings *settings,
                   const struct plan *plan, const struct cost_observed *observed);

#endif
