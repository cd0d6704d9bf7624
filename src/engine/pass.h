/* A pass: one walk over all layers for a flat list of tokens. Owns every loop over layers. One
 * thread. */
#ifndef SLUICE_ENGINE_PASS_H
#define SLUICE_ENGINE_PASS_H

#include "engine/sched.h"
#include "model/step.h"

struct pass {
    uint32_t *ids; /* [pass_tokens] */
    struct kv_token *kv_tokens;
    struct kv_run *runs; /* [pass_tokens], one for each pick */
    size_t run_count;
    uint32_t *logit_columns; /* [logits_max] */
    uint32_t *best;          /* argmax of each column of logits */
    float *scores;           /* of columns that score a token, its log probability */
    size_t tokens, logit_count;
    struct seq **logit_seqs; /* whose column it is */
    size_t tokens_max, logits_max;
    /* Told before each layer of a pass, on its thread; NULL: nobody asks. */
    void (*at_layer)(void *ctx, uint32_t layer, uint32_t layers, size_t tokens);
    void *at_layer_ctx;
};

enum status pass_init(struct pass *pass, size_t tokens_max, size_t logits_max, struct error *err);
void pass_release(struct pass *pass);
/* Memory that pass_init takes. */
uint64_t pass_bytes(size_t tokens_max, size_t logits_max);
/* Takes the pages that the picks need (they are free), lays the tokens out, walks the layers,
 * gives back what windows have passed; afterwards step->logits holds the columns of logit_seqs. On
 * failure the step is abandoned. */
enum status pass_run(struct pass *pass, const struct sched *sched, struct kv *kv, struct step *step,
                     struct error *err);

#endif
