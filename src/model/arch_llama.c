/* Llama 2 to 3.3 and the many models with its layers (SmolLM2, TinyLlama, DeepSeek's distilled
 * ones). Published code: transformers' modeling_llama.py; llama.cpp writes Mistral models under
 * this name too, with the rows of q and k permuted.
 *
 * Refuses a sliding window: transformers' Llama has none and ignores the setting, other programs
 * apply it, so the answer would depend on whom one asks. */
#include "model/arch_common.h"

static enum status llama_configure(const struct json *config, const char *name, struct config *out,
                                   struct error *err) {
    const struct json *window = json_get(config, "sliding_window");
    uint64_t keys = 0;
    if (window != NULL && !json_is(window, JSON_NULL) &&
        (!json_u64(window, &keys) || keys < out->context))
        return error_set(err, SL_ERR_ENV,
                         "%s: sliding_window is set, which family llama does not have", name);
    json_bool(json_get(config, "attention_bias"), &out->declares_attention_bias);
    json_bool(json_get(config, "mlp_bias"), &out->declares_mlp_bias);
    return SL_OK;
}

const struct arch arch_llama = {
    .name = "llama",
    .hf_types = (const char *const[]){"llama", NULL},
    .gguf_names = (const char *const[]){"llama", NULL},
    .gguf_is_permuted = true,
    .ties_by_default = false,
    .configure_json = llama_configure,
    .need = arch_common_need,
    .math = &arch_common_math,
};
