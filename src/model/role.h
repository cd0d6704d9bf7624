/* Roles: what a tensor is for, and its names in published files. One row of the table a role. */
#ifndef SLUICE_MODEL_ROLE_H
#define SLUICE_MODEL_ROLE_H

#include "weights/index.h"

enum role {
    /* whole model */
    ROLE_EMBED,
    ROLE_FINAL_NORM,
    ROLE_HEAD,
    ROLE_ROPE_FACTORS, /* GGUF's rope_freqs: divisors of the rotary frequencies */
    ROLE_ROPE_LONG,
    ROLE_ROPE_SHORT, /* GGUF's longrope divisors */
    /* a layer's matrices, in the order of use */
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_O,
    ROLE_GATE,
    ROLE_UP,
    ROLE_DOWN,
    /* attention over a compressed cache (MLA) */
    ROLE_Q_A,  /* down to q_rank */
    ROLE_Q_B,  /* and up to the heads */
    ROLE_KV_A, /* down to kv_rank, and the rotated part of the keys */
    ROLE_KV_B, /* up to keys and values of each head; or in two stacks: */
    ROLE_K_B,  /* [heads, kv_rank, nope] */
    ROLE_V_B,  /* [heads, value, kv_rank] */
    /* a gated delta network */
    ROLE_DELTA_QKVZ, /* for each key head q, k, and v and z of its value heads; or instead: */
    ROLE_DELTA_QKV,  /* q of all key heads, then k, then v of all value heads */
    ROLE_DELTA_Z,
    ROLE_DELTA_BA, /* for each key head b, then a, of its value heads; or instead: */
    ROLE_DELTA_B,
    ROLE_DELTA_A,
    ROLE_DELTA_OUT,
    /* a mixture of experts */
    ROLE_ROUTER,
    ROLE_SHARED_ROUTER, /* one row: how much of the shared expert */
    ROLE_SHARED_GATE,
    ROLE_SHARED_UP,
    ROLE_SHARED_DOWN,
    /* of each expert: tensors of their own, or slices of a stack [experts, ...] */
    ROLE_EXPERT_GATE,
    ROLE_EXPERT_UP,
    ROLE_EXPERT_GATE_UP,      /* instead of the two: [inputs, outputs], gate and up alternating */
    ROLE_EXPERT_GATE_UP_ROWS, /* instead of the two: [outputs, inputs], alternating rows */
    ROLE_EXPERT_DOWN,
    ROLE_EXPERT_DOWN_IN, /* instead: [inputs, outputs] */
    ROLE_EXPERT_GATE_BIAS,
    ROLE_EXPERT_UP_BIAS,
    ROLE_EXPERT_GATE_UP_BIAS,
    ROLE_EXPERT_DOWN_BIAS,
    /* a layer's vectors */
    ROLE_ATTEND_NORM,
    ROLE_MLP_NORM,
    ROLE_ATTEND_POST_NORM, /* of what the half layer adds */
    ROLE_MLP_POST_NORM,
    ROLE_Q_NORM,
    ROLE_K_NORM,
    ROLE_Q_BIAS,
    ROLE_K_BIAS,
    ROLE_V_BIAS,
    ROLE_O_BIAS,
    ROLE_GATE_BIAS,
    ROLE_UP_BIAS,
    ROLE_DOWN_BIAS,
    ROLE_SINKS,
    ROLE_Q_A_NORM,
    ROLE_KV_A_NORM,
    ROLE_ROUTER_BIAS,
    ROLE_ROUTER_CORRECTION, /* added to the scores that choose, not to the weights */
    /* what a token brings into each layer (Gemma 4) */
    ROLE_INPUTS_EMBED,   /* rows of all layers' inputs, by token */
    ROLE_INPUTS_PROJECT, /* the embedding's part of them */
    ROLE_INPUTS_NORM,    /* of that part, layer by layer */
    ROLE_INPUT_GATE,
    ROLE_INPUT_PROJECT,
    ROLE_INPUT_NORM,  /* of what it adds */
    ROLE_LAYER_SCALE, /* one value: what a layer's output is multiplied by */
    /* experts beside an MLP with norms of their own (Gemma 4) */
    ROLE_ROUTER_SCALE,  /* factors of the router's input */
    ROLE_EXPERT_SCALES, /* factors of the experts' weights */
    ROLE_SHARED_POST_NORM,
    ROLE_EXPERTS_NORM,
    ROLE_EXPERTS_POST_NORM,
    ROLE_DELTA_TAPS, /* [channels, kernel] */
    ROLE_DELTA_RATE,
    ROLE_DELTA_BIAS,
    ROLE_DELTA_NORM,
    ROLE_COUNT,
};
#define ROLE_EXPERT_FIRST ROLE_EXPERT_GATE
#define ROLE_EXPERT_COUNT (ROLE_EXPERT_DOWN_BIAS - ROLE_EXPERT_GATE + 1)
#define SL_EXPERTS_MAX 4096u

struct role_info {
    const char *word; /* for messages and show: "q_proj" */
    /* "model.layers.%u.self_attn.q_proj.weight"; NULL: has none. Several names stand between bars;
     * the first that is there counts. A second %u is the expert's number. */
    const char *safetensors;
    const char *gguf; /* "blk.%u.attn_q.weight", likewise */
    bool is_per_layer;
    bool is_vector;
    bool is_norm;  /* a vector of weights of a norm */
    bool is_flat;  /* a vector that may come with several dimensions */
    bool is_whole; /* a matrix that is used in other ways than row by row: it is never cut */
};
const struct role_info *role_get(enum role role);
/* Whether an expert has it for itself. */
static inline bool role_is_expert(enum role role) {
    return role >= ROLE_EXPERT_FIRST && role < ROLE_EXPERT_FIRST + ROLE_EXPERT_COUNT;
}
/* Whether layers without a mixture of experts lack it. */
static inline bool role_is_mixture(enum role role) {
    return (role >= ROLE_ROUTER && role <= ROLE_EXPERT_DOWN_BIAS) || role == ROLE_ROUTER_BIAS ||
           role == ROLE_ROUTER_CORRECTION ||
           (role >= ROLE_ROUTER_SCALE && role <= ROLE_EXPERTS_POST_NORM);
}
/* Whether layers without a gated delta network lack it, and those with one. */
static inline bool role_is_delta(enum role role) {
    return (role >= ROLE_DELTA_QKVZ && role <= ROLE_DELTA_OUT) ||
           (role >= ROLE_DELTA_TAPS && role <= ROLE_DELTA_NORM);
}
static inline bool role_is_attention(enum role role) {
    return (role >= ROLE_Q && role <= ROLE_O) || (role >= ROLE_Q_NORM && role <= ROLE_O_BIAS);
}
/* The name of a matrix in the layout: experts, layers and roles have 14, 10 and 8 bits. */
static inline uint32_t role_key(uint32_t layer, uint32_t expert, enum role role) {
    return expert << 18 | layer << 8 | (uint32_t)role;
}
static inline uint32_t role_layer_of_key(uint32_t key) {
    return key >> 8 & 0x3FFu;
}
static inline uint32_t role_expert_of_key(uint32_t key) {
    return key >> 18;
}
static inline enum role role_of_key(uint32_t key) {
    return (enum role)(key & 0xFFu);
}
/* Appends a name of the table with its numbers put in, choice 0, 1, ... of several; false: no such
 * choice. */
bool role_add_name(const char *pattern, uint32_t choice, uint32_t layer, uint32_t expert,
                   struct buf *out);

#endif
