/* EXAONE 4: OLMo 2's layers (norms after both halves and none before) with norms of each head of q
 * and k; where there is a window, three of four layers have it, and the others do not rotate.
 * Published code: transformers' modeling_exaone4.py and configuration_exaone4.py. llama.cpp leaves
 * the rows of q and k as they are.
 *
 * Refuses a sliding_window_pattern of letters without layer_types: the class computes with it as a
 * number. */
#include "model/arch_common.h"
#include "model/config_meta.h"

#define EXAONE4_WINDOW 4096u
#define EXAONE4_PATTERN 4u

/* Layers that see everything do not rotate, if there are others. */
static enum status exaone4_ropes(struct config *out, struct error *err) {
    if (out->window == 0)
        return SL_OK;
    TRY(config_layer_flags(out, &out->skips_rope, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->skips_rope[layer] = !out->is_windowed[layer];
    return SL_OK;
}

static enum status exaone4_configure(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    const struct json *pattern = json_get(config, "sliding_window_pattern");
    const struct json *types = json_get(config, "layer_types");
    bool has_types = types != NULL && !json_is(types, JSON_NULL);
    uint64_t layers = EXAONE4_PATTERN;
    if (!has_types && pattern != NULL && !json_is(pattern, JSON_NULL) &&
        (!json_u64(pattern, &layers) || layers == 0))
        return error_set(err, SL_ERR_ENV,
                         "%s: sliding_window_pattern is not a positive whole number, and there are "
                         "no layer_types",
                         name);
    TRY(arch_common_pattern_window(config, name, layers, EXAONE4_WINDOW, out, err));
    return exaone4_ropes(out, err);
}

static enum status exaone4_configure_meta(struct meta_reader *reader, struct config *out,
                                          struct error *err) {
    TRY(arch_common_meta_window(reader, EXAONE4_PATTERN, out, err));
    return exaone4_ropes(out, err);
}

static enum arch_need exaone4_need(const struct config *config, enum role role) {
    if (role == ROLE_ATTEND_NORM || role == ROLE_MLP_NORM)
        return ARCH_ABSENT;
    return arch_common_post_norm_need(config, role);
}

const struct arch arch_exaone4 = {
    .name = "exaone4",
    .hf_types = (const char *const[]){"exaone4", NULL},
    .gguf_names = (const char *const[]){"exaone4", NULL},
    .has_qk_norm = true,
    .settings =
        (const char *const[]){"attention.sliding_window", "attention.sliding_window_pattern", NULL},
    .defaults = {.norm_eps = 1e-5},
    .configure_json = exaone4_configure,
    .configure_meta = exaone4_configure_meta,
    .need = exaone4_need,
    .math = &arch_common_math,
};
