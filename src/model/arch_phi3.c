/* Phi-3, Phi-3.5 and Phi-4 (dense): Llama's layers whose q, k and v lie in one tensor, and gate and
 * up in another; a sliding window in every layer where the config has one; longrope, and a partly
 * rotated head in Phi-4-mini. Published code: transformers' modeling_phi3.py and
 * configuration_phi3.py.
 *
 * longrope has two sets of factors. transformers changes the set when the row in its hands passes
 * the positions of training, and throws away the keys that it has; llama.cpp takes one set for its
 * whole context. Here a row has one set from its first token to its last: the long one when its
 * prompt and its limit of new tokens together pass the positions of training. So an answer depends
 * on its own row and limit alone.
 *
 * llama.cpp's files name no rope type: those with attn_factor have longrope. */
#include "model/arch_common.h"
#include "model/config_meta.h"

static const struct arch_name phi3_names[] = {
    {ROLE_Q, "model.layers.%u.self_attn.qkv_proj.weight", "blk.%u.attn_qkv.weight"},
    {ROLE_K, "model.layers.%u.self_attn.qkv_proj.weight", "blk.%u.attn_qkv.weight"},
    {ROLE_V, "model.layers.%u.self_attn.qkv_proj.weight", "blk.%u.attn_qkv.weight"},
    {ROLE_GATE, "model.layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight"},
    {ROLE_UP, "model.layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight"},
};

static enum status phi3_configure(const struct json *config, const char *name, struct config *out,
                                  struct error *err) {
    static const char *const biases[] = {"attention_bias", "mlp_bias", "lm_head_bias", NULL};
    for (const char *const *member = biases; *member != NULL; member++) {
        bool is_declared = false;
        TRY(config_flag(config, *member, name, &is_declared, err));
        if (is_declared)
            return error_set(err, SL_ERR_ENV, "%s: setting %s is not supported for this family",
                             name, *member);
    }
    return arch_common_window(config, name, 0, out, err);
}

static enum status phi3_configure_meta(struct meta_reader *reader, struct config *out,
                                       struct error *err) {
    if (meta_find(reader->meta, "phi3.rope.scaling.attn_factor") != NULL) {
        out->rope.kind = ROPE_LONGROPE;
        out->rope.factor = 1; /* not used */
    }
    return arch_common_meta_window(reader, 0, out, err);
}

/* The class has no biases, and the bias of a fused tensor has no name of its own here. */
static enum arch_need phi3_need(const struct config *config, enum role role) {
    if (role >= ROLE_Q_BIAS && role <= ROLE_DOWN_BIAS)
        return ARCH_ABSENT;
    return arch_common_need(config, role);
}

const struct arch arch_phi3 = {
    .name = "phi3",
    .hf_types = (const char *const[]){"phi3", NULL},
    .gguf_names = (const char *const[]){"phi3", NULL},
    .has_partial_rope = true,
    .settings = (const char *const[]){"attention.sliding_window", NULL},
    .names = phi3_names,
    .name_count = sizeof phi3_names / sizeof phi3_names[0],
    .defaults = {.norm_eps = 1e-5},
    .configure_json = phi3_configure,
    .configure_meta = phi3_configure_meta,
    .need = phi3_need,
    .math = &arch_common_math,
};
