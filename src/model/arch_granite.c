/* Granite 3 (dense): Llama's layers with four factors: of embeddings, of what each half adds, of
 * scores (in place of 1 / sqrt(head_dim)), and a divisor of logits. Published code: transformers'
 * modeling_granite.py and configuration_granite.py. llama.cpp permutes its q and k rows as Llama's
 * and calls the factors embedding_scale, residual_scale, attention.scale and logit_scale, the last
 * one still a divisor. */
#include "model/arch_common.h"
#include "model/config_meta.h"

static enum status granite_divisor(double divisor, const char *what, const char *name,
                                   struct config *out, struct error *err) {
    if (!(divisor >= 1e-6 && divisor <= 1e6))
        return error_set(err, SL_ERR_ENV, "%s: %s is %g, must be 1e-6 to 1e6", name, what, divisor);
    out->logit_scale = 1.0 / divisor;
    return SL_OK;
}

static enum status granite_configure(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    const struct json *value = json_get(config, "logits_scaling");
    double divisor = 1;
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(config_flag(config, "mlp_bias", name, &out->declares_mlp_bias, err));
    TRY(arch_common_no_window(config, name, out, err));
    if (out->score_scale == 0)
        out->score_scale = 1; /* the class default of attention_multiplier */
    if (value != NULL && !json_is(value, JSON_NULL) && !json_double(value, &divisor))
        return error_set(err, SL_ERR_ENV, "%s: logits_scaling is not a number", name);
    return granite_divisor(divisor, "logits_scaling", name, out, err);
}

static enum status granite_configure_meta(struct meta_reader *reader, struct config *out,
                                          struct error *err) {
    return granite_divisor(out->logit_scale == 0 ? 1 : out->logit_scale, "granite.logit_scale",
                           reader->name, out, err);
}

const struct arch arch_granite = {
    .name = "granite",
    .hf_types = (const char *const[]){"granite", NULL},
    .gguf_names = (const char *const[]){"granite", NULL},
    .gguf_is_permuted = true,
    .settings = (const char *const[]){"attention_multiplier", "embedding_multiplier",
                                      "residual_multiplier", "logits_scaling", "attention.scale",
                                      "embedding_scale", "residual_scale", "logit_scale", NULL},
    .configure_json = granite_configure,
    .configure_meta = granite_configure_meta,
    .need = arch_common_need,
    .math = &arch_common_math,
};
