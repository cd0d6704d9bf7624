/* A step: what an arch needs to compute a pass: activations, resident vectors, rope tables, and the
 * cursor that walks the pieces of the pass in order while their blocks come and go.
 *
 *   pass.c: step_begin -> arch.embed -> for each layer: arch.attend, arch.mlp -> arch.head ->
 * step_end arch:   step_product(ROLE_Q, x, q): for each piece of the matrix: block there? else
 * release the last one and acquire this one (hinting those ahead, over the border of the pass);
 * product into its rows of q
 *
 * Everything is allocated in step_new, for at most tokens_max tokens and logits_max of them with
 * logits. One thread. */
#ifndef SLUICE_MODEL_STEP_H
#define SLUICE_MODEL_STEP_H

#include "backend/backend.h"
#include "model/model.h"
#include "weights/provider.h"

struct step {
    const struct model *model;
    const struct config *config;
    struct backend *backend;
    struct provider *provider;
    const struct kv_layer *kv_layers; /* [layers], set by the engine */

    /* of this pass; borrowed from the pass */
    size_t tokens;
    const uint32_t *ids;
    const struct kv_token *kv_tokens;
    const uint32_t *logit_columns; /* ascending tokens that need logits */
    size_t logit_count;

    /* activations */
    struct act h;                        /* residual stream [hidden] */
    struct act x;                        /* normalised input of a half layer [hidden] */
    struct act q, k, v, a;               /* [heads x head_dim] and so on; a: attention's output */
    struct act gate, up;                 /* [inner] */
    struct act y;                        /* what a half layer adds to h [hidden] */
    struct act picked;                   /* h of the tokens with logits, normalised [hidden] */
    struct act logits;                   /* [vocabulary, logit_count] */
    struct rope_table rope, window_rope; /* window_rope: of windowed layers, if it differs */
    float *inverse_frequencies; /* 3 x [rotary / 2]: of rope, of its long rows, of window_rope */
    uint8_t *embed_rows;        /* raw rows of this pass's ids */

    const float *
        *vectors; /* [(layers + 1) x ROLE_COUNT] resident float32 norms and biases; NULL: absent */
    float *vector_values; /* their memory */
    size_t embed_row_bytes;

    /* cursor */
    size_t piece; /* next piece of the layout */
    bool has_lease;
    struct lease lease;
    size_t hinted;     /* blocks hinted since the start, counted over passes */
    size_t acquired;   /* likewise; hinted >= acquired but inside an acquire */
    size_t passes;     /* begun */
    bool is_last_pass; /* no hints over the border */
};

struct step_options {
    const struct model *model;
    struct backend *backend;
    struct provider *provider;
    size_t tokens_max, logits_max;
};

/* Reads the vectors. */
enum status step_new(const struct step_options *options, struct step **out, struct error *err);
void step_free(struct step *step); /* accepts NULL; releases a lease that a failed pass left */
/* Memory that step_new takes (activations, tables, vectors): part of the plan. */
uint64_t step_bytes(const struct model *model, size_t tokens_max, size_t logits_max);

/* Sets shapes and rope tables for the tokens of a pass (members "of this pass" are set before). */
enum status step_begin(struct step *step, struct error *err);
/* h = the embeddings of this pass's ids, times scale. */
enum status step_embed(struct step *step, float scale, struct error *err);
/* y[rows of the matrix] = W x for the matrix of role in layer (0 for the head). Roles must come in
 * the layout's order. */
enum status step_product(struct step *step, uint32_t layer, enum role role, const struct act *x,
                         struct act *y, struct error *err);
/* How the layer rotates; NULL: it does not. */
const struct rope_table *step_rope(const struct step *step, uint32_t layer);
const float *step_vector(const struct step *step, uint32_t layer,
                         enum role role); /* NULL when absent */
/* Releases the last lease; must have used every piece. */
void step_end(struct step *step);
/* After a failure inside a pass: releases the lease; the step cannot go on. */
void step_abandon(struct step *step);

#endif
