/* What a run teaches: how long answers are, what passes cost the processor and the drive, how true
 * the memory model was. Kept as records for later plans of the model. One thread. */
#ifndef SLUICE_PLAN_LEARN_H
#define SLUICE_PLAN_LEARN_H

#include "engine/engine.h"
#include "plan/plan.h"

struct lessons {
    struct answers answers;
    struct cost_observed cost;
    size_t rows_in_max, pass_tokens_max;
};

void lessons_row(struct lessons *lessons, size_t answer_tokens, size_t limit); /* has ended */
/* seconds: of the pass and all that belongs to it. */
void lessons_pass(struct lessons *lessons, const struct plan *plan,
                  const struct pass_report *report, size_t rows_in, double seconds);
/* At the end of a run. read_bytes_per_second as rates_learn wants it. */
void lessons_keep(const struct lessons *lessons, const struct model *model,
                  const struct settings *settings, const struct plan *plan,
                  uint64_t read_bytes_per_second, const struct kv *kv);

#endif
