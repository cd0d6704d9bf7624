/* Qwen3 (dense): Llama's layers with RMS norms of each head of q and k before the rotation, a
 * head_dim of 128 unless the config says otherwise, and Qwen2's rules for the sliding window.
 * Published code: transformers' modeling_qwen3.py and configuration_qwen3.py. GGUF rows are not
 * permuted. */
#include "model/arch_common.h"

#define QWEN3_HEAD_DIM 128u

static enum status qwen3_configure(const struct json *config, const char *name, struct config *out,
                                   struct error *err) {
    if (out->head_dim == 0)
        out->head_dim = QWEN3_HEAD_DIM;
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    return arch_common_flagged_window(config, name, out, err);
}

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .hf_types = (const char *const[]){"qwen3", NULL},
    .gguf_names = (const char *const[]){"qwen3", NULL},
    .gguf_is_permuted = false,
    .has_qk_norm = true,
    .ties_by_default = false,
    .configure_json = qwen3_configure,
    .need = arch_common_need,
    .math = &arch_common_math,
};
