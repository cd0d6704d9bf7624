/* Gemma 2: norms before and after both halves, whose safetensors hold w for a factor of 1 + w (GGUF
 * holds 1 + w), embeddings times sqrt(hidden), soft caps of scores and logits, a gelu gate, and a
 * sliding window in every other layer, the first one included.
 *
 * Published code: transformers' modeling_gemma2.py and configuration_gemma2.py. sqrt(hidden) is
 * taken as float32, as that code has it when it computes in float32. llama.cpp does not write
 * query_pre_attn_scalar into its files: the 27B model, which it knows by its 46 layers, divides by
 * hidden / heads, the others by head_dim. */
#include "model/arch_common.h"
#include "model/config_meta.h"

#include <math.h>

#define GEMMA2_SCORE_CAP 50.0
#define GEMMA2_LOGIT_CAP 30.0
#define GEMMA2_QUERY_SCALAR 256.0
#define GEMMA2_WINDOW 4096u
#define GEMMA2_LAYERS_27B 46u

static const struct arch_name gemma2_names[] = {
    {ROLE_MLP_NORM, "model.layers.%u.pre_feedforward_layernorm.weight", NULL},
};

static enum status gemma2_configure(const struct json *config, const char *name, struct config *out,
                                    struct error *err) {
    const struct json *scalar = json_get(config, "query_pre_attn_scalar");
    double divisor = GEMMA2_QUERY_SCALAR;
    if (scalar != NULL && (!json_double(scalar, &divisor) || !(divisor > 0)))
        return error_set(err, SL_ERR_ENV, "%s: query_pre_attn_scalar is not a positive number",
                         name);
    /* Null is no cap, and absent the class default. */
    if (json_get(config, "attn_logit_softcapping") == NULL)
        out->score_cap = GEMMA2_SCORE_CAP;
    if (json_get(config, "final_logit_softcapping") == NULL)
        out->logit_cap = GEMMA2_LOGIT_CAP;
    out->score_scale = 1.0 / sqrt(divisor);
    out->embed_scale = sqrt((double)out->hidden);
    out->norm_offset = 1.0f;
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    return arch_common_pattern_window(config, name, 2, GEMMA2_WINDOW, out, err);
}

static enum status gemma2_configure_meta(struct meta_reader *reader, struct config *out,
                                         struct error *err) {
    bool is_27b = out->layers == GEMMA2_LAYERS_27B;
    double divisor = is_27b ? (double)out->hidden / out->heads : (double)out->head_dim;
    if (meta_find(reader->meta, "gemma2.attn_logit_softcapping") == NULL)
        out->score_cap = GEMMA2_SCORE_CAP;
    if (meta_find(reader->meta, "gemma2.final_logit_softcapping") == NULL)
        out->logit_cap = GEMMA2_LOGIT_CAP;
    if (out->score_scale == 0)
        out->score_scale = 1.0 / sqrt(divisor);
    out->embed_scale = sqrt((double)out->hidden);
    out->window = GEMMA2_WINDOW; /* older files leave it out */
    return arch_common_meta_window(reader, 2, out, err);
}

const struct arch arch_gemma2 = {
    .name = "gemma2",
    .hf_types = (const char *const[]){"gemma2", NULL},
    .gguf_names = (const char *const[]){"gemma2", NULL},
    .ties_by_default = true,
    .activation = ACTIVATION_GELU_TANH,
    .settings = (const char *const[]){"attn_logit_softcapping", "final_logit_softcapping",
                                      "query_pre_attn_scalar", "attention.sliding_window",
                                      "attention.scale", NULL},
    .names = gemma2_names,
    .name_count = sizeof gemma2_names / sizeof gemma2_names[0],
    .defaults = {.head_dim = 256},
    .configure_json = gemma2_configure,
    .configure_meta = gemma2_configure_meta,
    .need = arch_common_post_norm_need,
    .math = &arch_common_math,
};
