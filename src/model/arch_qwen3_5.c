/* Qwen3.5, dense and with experts: Qwen3-Next's layers with projections of their own for q, k and
 * v, z, b and a; the weights of a token's experts always sum to one. Published folders hold a
 * multimodal model around it; the positions of text are the same in all three of its kinds, so that
 * its rotation is the plain one. Published code: transformers' modeling_qwen3_5.py and
 * modeling_qwen3_5_moe.py. GGUF files have the value heads in another order (conversion/qwen.py).
 */
#include "model/arch_hybrid.h"

#define QWEN3_5_HEAD_DIM 256u
#define QWEN3_5_MOE_INNER 512u /* of a plain MLP, which no layer of those with experts has */

static enum status moe_configure(const struct json *config, const char *name, struct config *out,
                                 struct error *err) {
    static const struct mixture_names names = {"num_experts", "moe_intermediate_size", true};
    TRY(arch_mixture_json(config, &names, name, out, err));
    if (!out->mixture.sums_to_one)
        return error_set(err, SL_ERR_ENV,
                         "%s: norm_topk_prob is false, which family %s does not have", name,
                         out->family);
    TRY(config_size(config, "shared_expert_intermediate_size", 0, name, &out->mixture.shared_inner,
                    err));
    return arch_hybrid_json(config, name, out, err);
}

static enum status dense_configure_meta(struct meta_reader *reader, struct config *out,
                                        struct error *err) {
    return arch_hybrid_meta(reader, true, out, err);
}

static enum status moe_configure_meta(struct meta_reader *reader, struct config *out,
                                      struct error *err) {
    out->mixture.sums_to_one = true;
    TRY(arch_mixture_meta(reader, out, err));
    if (out->mixture.shared_inner == 0)
        out->mixture.shared_inner = out->mixture.inner; /* as llama.cpp */
    return arch_hybrid_meta(reader, true, out, err);
}

const struct arch arch_qwen3_5 = {
    .name = "qwen35",
    .hf_types = (const char *const[]){"qwen3_5_text", NULL},
    .gguf_names = (const char *const[]){"qwen35", NULL},
    .has_qk_norm = true,
    .has_partial_rope = true,
    .defaults = {.head_dim = QWEN3_5_HEAD_DIM},
    .configure_json = arch_hybrid_json,
    .configure_meta = dense_configure_meta,
    .settings = arch_hybrid_understood,
    .names = arch_hybrid_names,
    .name_count = ARCH_HYBRID_NAMES,
    .need = arch_hybrid_need,
    .math = &arch_hybrid_math,
};

const struct arch arch_qwen3_5_moe = {
    .name = "qwen35moe",
    .hf_types = (const char *const[]){"qwen3_5_moe_text", NULL},
    .gguf_names = (const char *const[]){"qwen35moe", NULL},
    .has_qk_norm = true,
    .has_partial_rope = true,
    .defaults = {.head_dim = QWEN3_5_HEAD_DIM, .inner = QWEN3_5_MOE_INNER},
    .configure_json = moe_configure,
    .configure_meta = moe_configure_meta,
    .settings = arch_hybrid_understood,
    .names = arch_hybrid_names,
    .name_count = ARCH_HYBRID_NAMES,
    .need = arch_hybrid_need,
    .math = &arch_hybrid_math,
};
