/* The time that a plan takes: what its passes cost, and the schedule played with that. */
#ifndef SLUICE_PLAN_HOURS_H
#define SLUICE_PLAN_HOURS_H

#include "plan/choice.h"

/* What a token takes to compute; flops_per_second and fixed_seconds are rates.h's. */
void hours_of_tokens(const struct memory *memory, struct pass_cost *cost);
/* What a pass reads. */
void hours_of_reads(const struct memory *memory, const struct choice *choice,
                    struct pass_cost *cost);

#endif
