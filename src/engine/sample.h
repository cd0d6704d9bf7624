/* Picking the next token from logits: greedy, or seeded sampling.
 *
 * Order: temperature, top-k, top-p, min-p (as transformers' generate has it); ties go to the lowest
 * id. The draw comes from a counter-based generator keyed by (seed, row key, position): it does not
 * depend on what else is in the pass. Sums run in double in a fixed order: over the whole
 * vocabulary by id, over what is left of it by falling logit, then id. Any thread; scratch is the
 * caller's. */
#ifndef SLUICE_ENGINE_SAMPLE_H
#define SLUICE_ENGINE_SAMPLE_H

#include "base/mem.h"

struct sampling {
    double temperature; /* 0: greedy */
    double top_p;       /* 1: off */
    double min_p;       /* 0: off */
    int64_t top_k;      /* 0: off */
    uint64_t seed;
};

struct sample_scratch {
    float *logits;   /* [vocabulary], one token's column made contiguous */
    uint32_t *order; /* [vocabulary] */
    float *weights;  /* [vocabulary] */
    size_t vocabulary;
};
enum status sample_scratch_init(struct sample_scratch *scratch, size_t vocabulary,
                                struct error *err);
void sample_scratch_release(struct sample_scratch *scratch);

/* logits[vocabulary]. NaN never wins (nothing but NaN: 0). */
uint32_t sample_greedy(const float *logits, size_t vocabulary);
/* From scratch->logits; overwrites order and weights. */
uint32_t sample_pick(struct sample_scratch *scratch, const struct sampling *sampling,
                     uint64_t row_key, uint64_t position);

struct logprob {
    uint32_t id;
    float logprob;
};
/* log softmax of the raw logits in scratch: the picked id's value, and the `count` best in falling
 * order (ties by id) into top. Where the vocabulary has fewer (or NaN): id 0 with -infinity. */
void sample_logprobs(struct sample_scratch *scratch, uint32_t picked, float *picked_logprob,
                     struct logprob *top, size_t count);
/* The generator: 64 random bits of (seed, key, counter): Philox4x32-10 (Salmon et al. 2011). For
 * the tests. */
uint64_t sample_random(uint64_t seed, uint64_t key, uint64_t counter);

#endif
