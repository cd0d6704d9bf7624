/* Gemma 3 (text): Gemma 2's layers with norms of each head of q and k instead of soft caps, a
 * window in five of six layers, and two ways to rotate: windowed layers with a base of their own
 * and no scaling.
 *
 * Published code: transformers' modeling_gemma3.py and configuration_gemma3.py; the text part of
 * the multimodal models leaves out most of its config, so the class defaults are here. Keys of
 * llama.cpp's files as its converter writes them; the 27B model, which it knows by its 62 layers,
 * divides scores by sqrt(hidden / heads).
 *
 * Refuses attn_logit_softcapping: its config class has it and its attention ignores it. */
#include "model/arch_common.h"
#include "model/config_meta.h"

#include <math.h>

#define GEMMA3_QUERY_SCALAR 256.0
#define GEMMA3_WINDOW 4096u
#define GEMMA3_PATTERN 6u
#define GEMMA3_WINDOW_THETA 10000.0
#define GEMMA3_LAYERS_27B 62u

static const struct arch_name gemma3_names[] = {
    {ROLE_MLP_NORM, "model.layers.%u.pre_feedforward_layernorm.weight", NULL},
};

/* How windowed layers rotate, in the older style: a base beside rope_theta. */
static enum status gemma3_window_rope(const struct json *config, const char *name,
                                      struct config *out, struct error *err) {
    const struct json *theta = json_get(config, "rope_local_base_freq");
    double base = GEMMA3_WINDOW_THETA;
    if (out->has_window_rope)
        return SL_OK;
    if (theta != NULL && !json_is(theta, JSON_NULL) && !json_double(theta, &base))
        return error_set(err, SL_ERR_ENV, "%s: rope_local_base_freq is not a number", name);
    out->has_window_rope = true;
    out->window_rope = (struct rope_config){.kind = ROPE_DEFAULT, .theta = base};
    return SL_OK;
}

static enum status gemma3_configure(const struct json *config, const char *name, struct config *out,
                                    struct error *err) {
    const struct json *scalar = json_get(config, "query_pre_attn_scalar");
    const struct json *pattern = json_get(config, "sliding_window_pattern");
    double divisor = GEMMA3_QUERY_SCALAR;
    uint64_t layers = GEMMA3_PATTERN;
    if (scalar != NULL && (!json_double(scalar, &divisor) || !(divisor > 0)))
        return error_set(err, SL_ERR_ENV, "%s: query_pre_attn_scalar is not a positive number",
                         name);
    if (pattern == NULL)
        pattern = json_get(config, "_sliding_window_pattern");
    if (pattern != NULL && (!json_u64(pattern, &layers) || layers == 0))
        return error_set(err, SL_ERR_ENV,
                         "%s: sliding_window_pattern is not a positive whole number", name);
    out->score_scale = 1.0 / sqrt(divisor);
    out->embed_scale = sqrt((double)out->hidden);
    out->norm_offset = 1.0f;
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(gemma3_window_rope(config, name, out, err));
    return arch_common_pattern_window(config, name, layers, GEMMA3_WINDOW, out, err);
}

static enum status gemma3_configure_meta(struct meta_reader *reader, struct config *out,
                                         struct error *err) {
    bool is_27b = out->layers == GEMMA3_LAYERS_27B;
    double divisor = is_27b ? (double)out->hidden / out->heads : (double)out->head_dim;
    double base = GEMMA3_WINDOW_THETA;
    if (out->score_scale == 0)
        out->score_scale = 1.0 / sqrt(divisor);
    out->embed_scale = sqrt((double)out->hidden);
    meta_real(reader->meta, "gemma3.rope.freq_base_swa", &base);
    out->has_window_rope = true;
    out->window_rope =
        (struct rope_config){.kind = ROPE_DEFAULT, .theta = base, .rotary = out->rope.rotary};
    return arch_common_meta_window(reader, GEMMA3_PATTERN, out, err);
}

const struct arch arch_gemma3 = {
    .name = "gemma3",
    .hf_types = (const char *const[]){"gemma3_text", NULL},
    .gguf_names = (const char *const[]){"gemma3", NULL},
    .has_qk_norm = true,
    .ties_by_default = true,
    .has_window_rope = true,
    .activation = ACTIVATION_GELU_TANH,
    .settings = (const char *const[]){"final_logit_softcapping", "query_pre_attn_scalar",
                                      "attention.sliding_window",
                                      "attention.sliding_window_pattern", "attention.scale",
                                      "rope.freq_base_swa", "rope_local_base_freq", NULL},
    .names = gemma3_names,
    .name_count = sizeof gemma3_names / sizeof gemma3_names[0],
    .defaults = {.rope_theta = 1e6,
                 .vocabulary = 262208,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .context = 131072},
    .configure_json = gemma3_configure,
    .configure_meta = gemma3_configure_meta,
    .need = arch_common_post_norm_need,
    .math = &arch_common_math,
};
