/* Rates: how fast weights come from the drive, from the best that is known, and the reader that
 * goes with it; what the processor does meanwhile (compute.h); how long answers are.
 *
 *   --rate  >  a rate of real runs of this model here  >  a probe of the drive  >  an assumption
 *
 * Reads and writes records (plan/record.h) in settings->home; without a home nothing is known and
 * nothing kept. One thread. */
#ifndef SLUICE_PLAN_RATES_H
#define SLUICE_PLAN_RATES_H

#include "plan/plan.h"

/* Fills reader, chunk_bytes, depth, read_bytes_per_second, rate_source of a plan that streams; what
 * the settings say stands. `precision`, `kernels` and weights_bytes must be set. */
void rates_decide(const struct model *model, const struct settings *settings, struct plan *plan);
/* Whether the drive should be probed before the job: nobody has, or long ago, the reader is not
 * fixed by the settings, the job reads enough for the seconds to pay, and memory for it is there.
 * passes and pass_bytes must be set. */
bool rates_want_probe(const struct model *model, const struct settings *settings,
                      const struct plan *plan);
/* Probes for so many seconds and keeps the record; afterwards rates_decide knows. A record that
 * cannot be kept is a warning. SL_ERR_STOPPED; SL_ERR_ENV for a read that fails. */
enum status rates_probe(const struct model *model, const struct settings *settings, double seconds,
                        bool (*should_stop)(void), struct error *err);
#define SL_RATES_PROBE_SECONDS 3.0 /* before a job */

/* A real run has streamed; keeps its rate if it tells of the drive: weights of at least
 * SL_RATE_BYTES_LEAST, direct reads, a median decode pass. */
void rates_learn(const struct model *model, const struct settings *settings,
                 const struct plan *plan, uint64_t bytes_per_second);

/* Fills answers and answers_source, from jobs of this model whose limits were about as high; none
 * for a job without ends (--ignore-eos). */
void rates_decide_answers(const struct model *model, const struct settings *settings,
                          struct plan *plan);
/* Rows of a job have ended; keeps how long their answers were. */
void rates_learn_answers(const struct model *model, const struct settings *settings,
                         const struct plan *plan, const struct answers *seen);

/* What the records of a model go by: its name and size, precision, kernels, threads. */
#define SL_MODEL_KEY_BYTES 400
void rates_model_key(const struct model *model, const struct plan *plan,
                     char key[SL_MODEL_KEY_BYTES]);
/* The memory model's record: the same for one engine. */
#define SL_MEMORY_KEY_BYTES (SL_MODEL_KEY_BYTES + 16)
void rates_memory_key(const struct model *model, const struct plan *plan,
                      char key[SL_MEMORY_KEY_BYTES]);

#endif
