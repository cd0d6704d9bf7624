/* Qwen3-Next: gated delta networks in most layers, attention with gates in the others, experts
 * weighted by the softmax over all of them and a shared one behind a sigmoid of its own. Published
 * code: transformers' modeling_qwen3_next.py and configuration_qwen3_next.py; llama.cpp always has
 * the weights sum to one, as every published config does. */
#include "model/arch_hybrid.h"

#define NEXT_HEAD_DIM 256u

static enum status next_configure(const struct json *config, const char *name, struct config *out,
                                  struct error *err) {
    static const struct mixture_names names = {"num_experts", "moe_intermediate_size", true};
    TRY(arch_mixture_json(config, &names, name, out, err));
    TRY(config_size(config, "shared_expert_intermediate_size", 0, name, &out->mixture.shared_inner,
                    err));
    return arch_hybrid_json(config, name, out, err);
}

static enum status next_configure_meta(struct meta_reader *reader, struct config *out,
                                       struct error *err) {
    out->mixture.sums_to_one = true;
    TRY(arch_mixture_meta(reader, out, err));
    if (out->mixture.shared_inner == 0)
        out->mixture.shared_inner = out->inner; /* as llama.cpp: feed_forward_length */
    return arch_hybrid_meta(reader, false, out, err);
}

const struct arch arch_qwen3_next = {
    .name = "qwen3next",
    .hf_types = (const char *const[]){"qwen3_next", NULL},
    .gguf_names = (const char *const[]){"qwen3next", NULL},
    .has_qk_norm = true,
    .has_partial_rope = true,
    .defaults = {.head_dim = NEXT_HEAD_DIM},
    .configure_json = next_configure,
    .configure_meta = next_configure_meta,
    .settings = arch_hybrid_understood,
    .names = arch_hybrid_names,
    .name_count = ARCH_HYBRID_NAMES,
    .need = arch_hybrid_need,
    .math = &arch_hybrid_math,
};
