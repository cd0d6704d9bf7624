/* The time that a plan takes: what its passes cost, and the schedule played with that. */
#ifndef SLUICE_PLAN_HOURS_H
#define SLUICE_PLAN_HOURS_H

#include "plan/choice.h"

/* What a token takes to compute; flops_per_second and fixed_seconds are rates.h's. */
void hours_of_tokens(const struct memory *memory, struct pass_cost *cost);
/* What a pass reads. */
void hours_of_reads(const struct memory *memory, const struct choice *choice,
                    struct pass_cost *cost);
/* plan_time in two parts. The schedule as it is expected: opening, likely, passes, seconds. */
enum status hours_expect(struct plan *plan, struct error *err);
/* And the others, once that is known: at_limit, crowded. */
enum status hours_of_others(struct plan *plan, struct error *err);

#endif
