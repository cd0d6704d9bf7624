/* SmolLM3: Llama's layers, of which each fourth one does not rotate (no_rope_layers, where a 0
 * means that). Published code: transformers' modeling_smollm3.py and configuration_smollm3.py.
 * llama.cpp permutes its q and k rows as Llama's and knows only the interval of four. */
#include "model/arch_common.h"

#define SMOLLM3_INTERVAL 4u

static enum status smollm3_interval(uint64_t interval, struct config *out, struct error *err) {
    TRY(config_layer_flags(out, &out->skips_rope, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->skips_rope[layer] = ((uint64_t)layer + 1) % interval == 0;
    return SL_OK;
}

static enum status smollm3_ropes(const struct json *config, const char *name, struct config *out,
                                 struct error *err) {
    const struct json *list = json_get(config, "no_rope_layers");
    const struct json *value = json_get(config, "no_rope_layer_interval");
    uint64_t interval = SMOLLM3_INTERVAL, rotates = 0;
    if (value != NULL && !json_is(value, JSON_NULL) &&
        (!json_u64(value, &interval) || interval == 0))
        return error_set(err, SL_ERR_ENV,
                         "%s: no_rope_layer_interval is not a positive whole number", name);
    TRY(smollm3_interval(interval, out, err));
    if (list == NULL || json_is(list, JSON_NULL))
        return SL_OK;
    if (!json_is(list, JSON_ARRAY) || list->count != out->layers)
        return error_set(err, SL_ERR_ENV, "%s: no_rope_layers must be a list of %u numbers", name,
                         out->layers);
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        if (!json_u64(&list->items[layer], &rotates) || rotates > 1)
            return error_set(err, SL_ERR_ENV, "%s: no_rope_layers[%u] is neither 0 nor 1", name,
                             layer);
        out->skips_rope[layer] = rotates == 0;
    }
    return SL_OK;
}

/* With use_sliding_window the layers that do not rotate slide, unless layer_types says otherwise.
 */
static enum status smollm3_configure(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    const struct json *types = json_get(config, "layer_types");
    bool slides = false, has_types = types != NULL && !json_is(types, JSON_NULL);
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(config_flag(config, "mlp_bias", name, &out->declares_mlp_bias, err));
    TRY(config_flag(config, "use_sliding_window", name, &slides, err));
    TRY(smollm3_ropes(config, name, out, err));
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
    return smollm3_interval(SMOLLM3_INTERVAL, out, err);
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
