/* SmolLM3: Llama's layers, of which each fourth one does not rotate (no_rope_layers, where a 0
 * means that). Published code: transformers' modeling_smollm3.py and configuration_smollm3.py.
 * llama.cpp permutes its q and k rows as Llama's and knows only the interval of four. */
#include "model/arch_common.h"

#define SMOLLM3_INTERVAL 4u

/* With use_sliding_window the layers that do not rotate slide, unless layer_types says otherwise.
 */
static enum status smollm3_configure(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    const struct json *types = json_get(config, "layer_types");
    bool slides = false, has_types = types != NULL && !json_is(types, JSON_NULL);
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(config_flag(config, "mlp_bias", name, &out->declares_mlp_bias, err));
    TRY(config_flag(config, "use_sliding_window", name, &slides, err));
    TRY(arch_common_rope_layers(config, name, SMOLLM3_INTERVAL, out, err));
    if (!slides && !has_types)
        return SL_OK;
    TRY(arch_common_window(config, name, 0, out, err));
    for (uint32_t layer = 0; !has_types && out->is_windowed != NULL && layer < out->layers; layer++)
        out->is_windowed[layer] = out->skips_rope[layer];
    return SL_OK;
}

static enum status smollm3_configure_meta(struct meta_reader *reader, struct config *out,
                                          struct error *err) {
    (void)reader;
    return arch_common_rope_interval(SMOLLM3_INTERVAL, out, err);
}

const struct arch arch_smollm3 = {
    .name = "smollm3",
    .hf_types = (const char *const[]){"smollm3", NULL},
    .gguf_names = (const char *const[]){"smollm3", NULL},
    .gguf_is_permuted = true,
    .ties_by_default = true,
    .settings = (const char *const[]){"no_rope_layers", NULL},
    .defaults = {.rope_theta = 2e6},
    .configure_json = smollm3_configure,
    .configure_meta = smollm3_configure_meta,
    .need = arch_common_need,
    .math = &arch_common_math,
};
