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
    ROLE_COUNT,
};

struct role_info {
    const char *word;        /* for messages and show: "q_proj" */
    const char *safetensors; /* "model.layers.%u.self_attn.q_proj.weight"; NULL: has none */
    const char *gguf;        /* "blk.%u.attn_q.weight"; NULL: has none */
    bool is_per_layer;
    bool is_vector;
    bool is_norm; /* a vector of weights of a norm */
};
const struct role_info *role_get(enum role role);
/* Appends a name of the table with its layer number put in. */
void role_add_name(const char *pattern, uint32_t layer, struct buf *out);

#endif
