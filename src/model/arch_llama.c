/* Llama 2 to 3.3 and the many models with its layers (SmolLM2, TinyLlama, DeepSeek's distilled
 * ones). Published code: transformers' modeling_llama.py; llama.cpp writes Mistral models under
 * this name too, with the rows of q and k permuted.
 *
 * Refuses a sliding window: transformers' Llama has none and ignores the setting, other programs
 * apply it, so the answer would depend on whom one asks. Text parts of multimodal models (LLaVA's)
 * leave out sizes that are the class's. */
#include "model/arch_common.h"

static enum status llama_configure(const struct json *config, const char *name, struct config *out,
                                   struct error *err) {
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(config_flag(config, "mlp_bias", name, &out->declares_mlp_bias, err));
    return arch_common_no_window(config, name, out, err);
}

const struct arch arch_llama = {
    .name = "llama",
    .hf_types = (const char *const[]){"llama", NULL},
    .gguf_names = (const char *const[]){"llama", NULL},
    .gguf_is_permuted = true,
    .ties_by_default = false,
    .defaults = {.part_layers = 32, .part_hidden = 4096, .part_inner = 11008, .part_heads = 32},
    .configure_json = llama_configure,
    .need = arch_common_need,
    .math = &arch_common_math,
};
