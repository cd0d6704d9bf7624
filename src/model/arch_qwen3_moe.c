/* Qwen3 mixtures of experts: Qwen3's attention with norms of each head, and experts weighted by the
 * softmax over all of them. Published code: transformers' modeling_qwen3_moe.py; llama.cpp always
 * has the weights sum to one, as every published config does. */
#include "model/arch_mixture.h"

static enum status qwen3_moe_configure(const struct json *config, const char *name,
                                       struct config *out, struct error *err) {
    static const struct mixture_names names = {"num_experts", "moe_intermediate_size", false};
    TRY(arch_mixture_json(config, &names, name, out, err));
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    return arch_common_flagged_window(config, name, out, err);
}

static enum status qwen3_moe_configure_meta(struct meta_reader *reader, struct config *out,
                                            struct error *err) {
    out->mixture.sums_to_one = true;
    return arch_mixture_meta(reader, out, err);
}

const struct arch arch_qwen3_moe = {
    .name = "qwen3moe",
    .hf_types = (const char *const[]){"qwen3_moe", NULL},
    .gguf_names = (const char *const[]){"qwen3moe", NULL},
    .has_qk_norm = true,
    .configure_json = qwen3_moe_configure,
    .configure_meta = qwen3_moe_configure_meta,
    .settings = arch_mixture_understood,
    .need = arch_mixture_need,
    .math = &arch_mixture_math,
};
