/* Precision: which form of a model a job runs with. The published one where its time allows, else a
 * form of 8 or 4 bits that somebody has fetched (sibling.h). Nothing is converted here. */
#ifndef SLUICE_PLAN_PRECISION_H
#define SLUICE_PLAN_PRECISION_H

#include "plan/plan.h"

/* The number format that most bytes of the weights have. */
enum dtype precision_main(const struct model *model);
/* Whether that is one of about so many bits a value: 16 (bf16 alone), 8 or 4. */
bool precision_has(const struct model *model, int bits);
/* Bits that --precision asks for; 0: auto. */
int precision_asked(const struct settings *settings);
/* Fills precision and precision_reason: the published formats, if the settings allow them.
 * SL_ERR_USAGE for a quantised model that would have to go upwards, SL_ERR_ENV where another form
 * is asked for. */
enum status precision_decide(const struct model *model, const struct settings *settings,
                             struct plan *plan, struct error *err);
/* Whether the plan takes longer than the deadline with weights that have forms of fewer bits. */
bool precision_is_late(const struct model *model, const struct settings *settings,
                       const struct plan *plan);
/* Says in plan->advice what to fetch and what it would gain, where none of it is here. */
enum status precision_advise(const struct model *model, const struct settings *settings,
                             struct plan *plan, struct error *err);

#endif
