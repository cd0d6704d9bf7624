/* Mistral 7B, Nemo, Small: Llama's layers with a sliding window in every layer where the config has
 * one, and a head_dim of its own. Published code: transformers' modeling_mistral.py. Its GGUF files
 * call themselves "llama". */
#include "model/arch_common.h"

static enum status mistral_configure(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    return arch_common_window(config, name, 0, out, err);
}

const struct arch arch_mistral = {
    .name = "mistral",
    .hf_types = (const char *const[]){"mistral", NULL},
    .gguf_names = (const char *const[]){NULL},
    .gguf_is_permuted = true,
    .ties_by_default = false,
    .defaults = {.part_layers = 32,
                 .part_hidden = 4096,
                 .part_inner = 14336,
                 .part_heads = 32,
                 .part_kv_heads = 8},
    .configure_json = mistral_configure,
    .need = arch_common_need,
    .math = &arch_common_math,
};
