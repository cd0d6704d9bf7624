/* GLM-4 (0414, dense): Llama's layers with norms before and after both halves, biases of q, k and
 * v, gate and up in one tensor, and half of each head rotated, neighbours in pairs. Published code:
 * transformers' modeling_glm4.py and configuration_glm4.py. llama.cpp leaves the rows of q and k as
 * they are and fuses gate and up as well. */
#include "model/arch_common.h"

#define GLM4_ROTATED 0.5 /* of a head, where the config leaves it out */

static const struct arch_name glm4_names[] = {
    {ROLE_ATTEND_POST_NORM, "model.layers.%u.post_self_attn_layernorm.weight", NULL},
    {ROLE_MLP_POST_NORM, "model.layers.%u.post_mlp_layernorm.weight", NULL},
    {ROLE_GATE, "model.layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight"},
    {ROLE_UP, "model.layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight"},
};

static enum status glm4_configure(const struct json *config, const char *name, struct config *out,
                                  struct error *err) {
    out->declares_attention_bias = true; /* as in the class */
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    if (out->rope.share == 0)
        out->rope.share = GLM4_ROTATED;
    out->rope.is_interleaved = true;
    return arch_common_no_window(config, name, out, err);
}

/* Biases of q, k and v alone. */
static enum arch_need glm4_need(const struct config *config, enum role role) {
    if (role >= ROLE_O_BIAS && role <= ROLE_DOWN_BIAS)
        return ARCH_ABSENT;
    return arch_common_post_norm_need(config, role);
}

const struct arch arch_glm4 = {
    .name = "glm4",
    .hf_types = (const char *const[]){"glm4", NULL},
    .gguf_names = (const char *const[]){"glm4", NULL},
    .gguf_is_permuted = true, /* pairs of neighbours, as published */
    .has_partial_rope = true,
    .names = glm4_names,
    .name_count = sizeof glm4_names / sizeof glm4_names[0],
    .defaults = {.norm_eps = 1.5625e-7, .kv_heads = 2, .head_dim = 128},
    .configure_json = glm4_configure,
    .need = glm4_need,
    .math = &arch_common_math,
};
