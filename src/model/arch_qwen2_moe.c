/* Qwen1.5 and Qwen2 mixtures of experts: Qwen2's attention with biases, experts weighted by the
 * softmax over all of them, and a shared expert behind a sigmoid of its own. Published code:
 * transformers' modeling_qwen2_moe.py. */
#include "model/arch_mixture.h"

static enum status qwen2_moe_configure(const struct json *config, const char *name,
                                       struct config *out, struct error *err) {
    static const struct mixture_names names = {"num_experts", "moe_intermediate_size", false};
    TRY(arch_mixture_json(config, &names, name, out, err));
    TRY(config_size(config, "shared_expert_intermediate_size", 0, name, &out->mixture.shared_inner,
                    err));
    return arch_common_flagged_window(config, name, out, err);
}

static enum status qwen2_moe_configure_meta(struct meta_reader *reader, struct config *out,
                                            struct error *err) {
    TRY(arch_mixture_meta(reader, out, err));
    if (out->mixture.shared_inner == 0)
        out->mixture.shared_inner = out->inner; /* as llama.cpp: feed_forward_length */
    return SL_OK;
}

static enum arch_need qwen2_moe_need(const struct config *config, enum role role) {
    if (role == ROLE_SHARED_ROUTER)
        return ARCH_REQUIRED;
    return arch_mixture_need(config, role);
}

const struct arch arch_qwen2_moe = {
    .name = "qwen2moe",
    .hf_types = (const char *const[]){"qwen2_moe", NULL},
    .gguf_names = (const char *const[]){"qwen2moe", NULL},
    .configure_json = qwen2_moe_configure,
    .configure_meta = qwen2_moe_configure_meta,
    .settings = arch_mixture_understood,
    .need = qwen2_moe_need,
    .math = &arch_mixture_math,
};
