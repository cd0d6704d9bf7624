/* Qwen2 and Qwen2.5: Llama's layers with biases of q, k and v, which its config does not mention,
 * and a sliding window that is off unless use_sliding_window says otherwise. Published code:
 * transformers' modeling_qwen2.py and configuration_qwen2.py. GGUF rows are not permuted. */
#include "model/arch_common.h"

static enum arch_need qwen2_need(const struct config *config, enum role role) {
    if (role == ROLE_Q_BIAS || role == ROLE_K_BIAS || role == ROLE_V_BIAS)
        return ARCH_REQUIRED;
    return arch_common_need(config, role);
}

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .hf_types = (const char *const[]){"qwen2", NULL},
    .gguf_names = (const char *const[]){"qwen2", NULL},
    .gguf_is_permuted = false,
    .ties_by_default = false,
    .defaults = {.part_layers = 32,
                 .part_hidden = 4096,
                 .part_inner = 22016,
                 .part_heads = 32,
                 .part_kv_heads = 32},
    .configure_json = arch_common_flagged_window,
    .need = qwen2_need,
    .math = &arch_common_math,
};
