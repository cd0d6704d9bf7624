/* A step: what an arch needs to compute a pass: activations, resident vectors, rope tables, and the
 * cursor that walks the pieces of the pass in order while their blocks come and go.
 *
 * pass.c calls step_begin, math.embed, for each layer math.attend and math.mlp, then math.head and
 * step_end. Those call step_product(ROLE_Q, x, q): for each piece of the matrix it releases the
 * last block and acquires that of the piece, if that is another one (hinting those ahead, over the
 * border of the pass), and multiplies into its rows of q.
 *
 * A layer with experts: math.route has step_route choose the experts of every token; then
 * math.expert for each of those that have tokens, in rising order, which gathers them, multiplies,
 * and adds the outputs to h. A token's experts are so added in the order of their numbers, whatever
 * else is in the pass. Blocks of experts that nobody was routed to are neither hinted nor acquired.
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
    const struct kv_run *runs; /* [run_count] all tokens, by row */
    size_t run_count;
    const uint32_t *logit_columns; /* ascending tokens that need logits */
    size_t logit_count;

    /* activations */
    struct act h;                      /* residual stream [hidden] */
    struct act x;                      /* normalised input of a half layer [hidden] */
    struct act q, k, v, a;             /* [heads x head_dim] and so on; a: attention's output */
    struct act gate, up;               /* [inner] */
    struct act y;                      /* what a half layer adds to h [hidden] */
    struct act picked;                 /* h of the tokens with logits, normalised [hidden] */
    struct act logits;                 /* [vocabulary, logit_count] */
    struct act router;                 /* [experts] */
    struct act expert_x;               /* of the tokens of one expert, as the next three [hidden] */
    struct act expert_y;               /* its outputs */
    struct act expert_gate, expert_up; /* [inner of an expert, or of the shared one] */
    struct act expert_both;            /* gate and up alternating [2 x inner]; gpt-oss */
    struct act low_q;                  /* compressed attention: [q_rank] */
    struct act low_kv, low_key;        /* [kv_rank], [rope] */
    struct act wide_q;      /* queries for the compressed keys [heads x (kv_rank + rope)] */
    struct act wide_a;      /* weighted compressed values [heads x kv_rank] */
    struct act gated_q;     /* [heads x 2 x head_dim]: of each head the query, then its gate */
    struct act attend_gate; /* [heads x head_dim] */
    struct act delta_in, delta_z; /* of a gated delta network: [channels], [values]; or in one */
    struct act delta_b, delta_a;  /* [value heads] each; or in one */
    struct act delta_out;         /* [values] */
    struct act part;              /* of one head, or the rotated parts of all */
    struct act
        inputs; /* what tokens bring into each layer: the embeddings' part [layers x input] */
    struct act input, input_gate; /* of one layer [layer_input] */
    struct act sum;               /* of the experts' outputs, where that is normalised [hidden] */
    float *query_factors;         /* [tokens]: config.query_scaling of each position */
    struct rope_table rope, window_rope; /* window_rope: of windowed layers, if it differs */
    float *inverse_frequencies; /* [rotary / 2] each: of rope, of its long rows, of window_rope */
    uint8_t *embed_rows;        /* raw rows of this pass's ids */
    uint8_t *input_rows;        /* likewise, of what they bring into each layer */
    struct view input_view;     /* of input_rows */

    const float *
        *vectors; /* [(layers + 1) x ROLE_COUNT] resident float32 norms and biases; NULL: absent */
    float *vector_values; /* their memory */
    size_t embed_row_bytes, input_row_bytes;

    uint8_t *place; /* memory of the next ones */
    float *columns; /* [256, inputs]: columns of a matrix as rows */
    float *bias;    /* of one expert, decoded */

    /* routing of the layer that was routed last */
    uint32_t routed_layer;    /* UINT32_MAX: none in this pass yet */
    uint32_t *token_experts;  /* [tokens x used] */
    float *token_weights;     /* [tokens x used] */
    uint32_t *expert_tokens;  /* [experts]: how many */
    uint32_t *gather_columns; /* [tokens]: those of one expert, rising */
    float *gather_weights;
    float *route_scratch; /* [3 x experts] */

    /* cursor */
    size_t piece; /* next piece of the layout */
    bool has_lease;
    struct lease lease;
    size_t hinted;       /* blocks hinted or skipped since the start, counted over passes */
    size_t acquired;     /* likewise; hinted >= acquired but inside an acquire */
    uint64_t used_bytes; /* of weights that were read for the blocks acquired, over passes */
    size_t passes;       /* begun */
    bool is_last_pass;   /* no hints over the border */
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
/* Most features of the activations that products read: for backend_cpu_new. */
size_t step_product_features(const struct model *model);

/* Sets shapes and rope tables for the tokens of a pass (members "of this pass" are set before). */
enum status step_begin(struct step *step, struct error *err);
/* h = the embeddings of this pass's ids, times scale. */
enum status step_embed(struct step *step, float scale, struct error *err);
/* Reads what this pass's ids bring into each layer (ROLE_INPUTS_EMBED), raw. */
enum status step_read_inputs(struct step *step, struct error *err);
/* step->input = those of a layer, times scale. */
void step_input(struct step *step, uint32_t layer, float scale);
/* y[rows of the matrix] = W x for the matrix of role in layer (0 for the head). Roles must come in
 * the layout's order. */
enum status step_product(struct step *step, uint32_t layer, enum role role, const struct act *x,
                         struct act *y, struct error *err);
/* q times query_scaling, if it holds for this layer. */
void step_scale_queries(struct step *step, uint32_t layer);
/* How the layer rotates; NULL: it does not. */
const struct rope_table *step_rope(const struct step *step, uint32_t layer);
/* The same for a matrix of an expert. */
enum status step_expert_product(struct step *step, uint32_t layer, uint32_t expert, enum role role,
                                const struct act *x, struct act *y, struct error *err);
/* A matrix that is never cut (role_info.is_whole, or one row), where it lies: until the next call
 * that moves on to another block. Comes in the layout's order, as products do. */
enum status step_whole(struct step *step, uint32_t layer, uint32_t expert, enum role role,
                       struct view *view, struct error *err);
/* y[first_row + c] = sum over k of w[k, c] x[k]: a matrix that lies the other way, for all its
 * columns. The bits of a product with its transpose. */
void step_product_columns(struct step *step, const struct view *w, const struct act *x,
                          struct act *y, size_t first_row);
/* The bias of an expert, decoded; NULL in *values when the model has none. Until the next call. */
enum status step_expert_bias(struct step *step, uint32_t layer, uint32_t expert, enum role role,
                             const float **values, struct error *err);
/* Chooses the experts of every token from step->router, which is changed. */
void step_route(struct step *step, uint32_t layer);
/* Shapes expert_x, expert_gate, expert_up and expert_both for the tokens of an expert and gathers
 * their step->x. */
void step_gather(struct step *step, uint32_t expert);
/* Values of all vectors; reads them into step->vector_values. */
size_t step_vector_values(const struct model *model);
enum status step_read_vectors(struct step *step, struct error *err);
const float *step_vector(const struct step *step, uint32_t layer,
                         enum role role); /* NULL when absent */
/* Tells the provider what comes next, as far as it has room and it is known. */
void step_hint(struct step *step);
/* Releases the last lease; must have used every piece. */
void step_end(struct step *step);
/* After a failure inside a pass: releases the lease; the step cannot go on. */
void step_abandon(struct step *step);

#endif
