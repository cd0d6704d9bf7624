/* Cohere 2 (Command R7B, Command A): attention and MLP both read one layer norm of h and are added
 * together; norms take the mean out and have no bias; three of four layers have a window, and the
 * others do not rotate; neighbours are rotated in pairs; logits times a factor. Published code:
 * transformers' modeling_cohere2.py and configuration_cohere2.py: heads have hidden / heads
 * features, whatever head_dim says. llama.cpp leaves the rows of q and k as they are. */
#include "model/arch_common.h"
#include "model/config_meta.h"

#define COHERE2_WINDOW 4096u
#define COHERE2_PATTERN 4u
#define COHERE2_LOGIT_SCALE 0.0625
#define COHERE2_EPS 1e-5

static enum status cohere2_common(struct config *out, struct error *err) {
    out->has_layer_norm = out->is_parallel = out->rope.is_interleaved = true;
    TRY(config_layer_flags(out, &out->skips_rope, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->skips_rope[layer] = out->is_windowed == NULL || !out->is_windowed[layer];
    return SL_OK;
}

static enum status cohere2_number(const struct json *config, const char *member, const char *name,
                                  double *out, struct error *err) {
    const struct json *value = json_get(config, member);
    if (value != NULL && !json_is(value, JSON_NULL) && (!json_double(value, out) || !(*out > 0)))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a positive number", name, member);
    return SL_OK;
}

static enum status cohere2_configure(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    const struct json *pattern = json_get(config, "sliding_window_pattern");
    uint64_t layers = COHERE2_PATTERN;
    double eps = COHERE2_EPS;
    if (pattern != NULL && !json_is(pattern, JSON_NULL) &&
        (!json_u64(pattern, &layers) || layers == 0))
        return error_set(err, SL_ERR_ENV,
                         "%s: sliding_window_pattern is not a positive whole number", name);
    out->logit_scale = COHERE2_LOGIT_SCALE;
    TRY(cohere2_number(config, "logit_scale", name, &out->logit_scale, err));
    TRY(cohere2_number(config, "layer_norm_eps", name, &eps, err));
    out->norm_eps = (float)eps;
    out->head_dim = 0; /* hidden / heads */
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(arch_common_pattern_window(config, name, layers, COHERE2_WINDOW, out, err));
    return cohere2_common(out, err);
}

static enum status cohere2_configure_meta(struct meta_reader *reader, struct config *out,
                                          struct error *err) {
    double eps = 0;
    TRY(meta_reader_real(reader, "attention.layer_norm_epsilon", &eps, err));
    out->norm_eps = (float)eps;
    TRY(arch_common_meta_window(reader, COHERE2_PATTERN, out, err));
    return cohere2_common(out, err);
}

/* One norm a layer; no biases in the MLP. */
static enum arch_need cohere2_need(const struct config *config, enum role role) {
    if (role == ROLE_MLP_NORM || (role >= ROLE_GATE_BIAS && role <= ROLE_DOWN_BIAS))
        return ARCH_ABSENT;
    return arch_common_need(config, role);
}

const struct arch arch_cohere2 = {
    .name = "cohere2",
    .hf_types = (const char *const[]){"cohere2", NULL},
    .gguf_names = (const char *const[]){"cohere2", NULL},
    .gguf_is_permuted = true, /* pairs of neighbours, as published */
    .ties_by_default = true,
    .settings = (const char *const[]){"logit_scale", "attention.sliding_window",
                                      "attention.sliding_window_pattern", NULL},
    .configure_json = cohere2_configure,
    .configure_meta = cohere2_configure_meta,
    .need = cohere2_need,
    .math = &arch_common_math,
};
