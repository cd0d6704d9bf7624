/* Seed-OSS: Llama's layers with a head_dim of its own and biases that the config declares for q, k
 * and v, for the output and for the MLP apart. Published code: transformers' modeling_seed_oss.py
 * and configuration_seed_oss.py. GGUF rows are not permuted. */
#include "model/arch_common.h"

static enum status seed_oss_configure(const struct json *config, const char *name,
                                      struct config *out, struct error *err) {
    out->declares_attention_bias = true; /* as in the class */
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(config_flag(config, "attention_out_bias", name, &out->declares_output_bias, err));
    TRY(config_flag(config, "mlp_bias", name, &out->declares_mlp_bias, err));
    return arch_common_no_window(config, name, out, err);
}

static enum arch_need seed_oss_need(const struct config *config, enum role role) {
    if (role == ROLE_O_BIAS)
        return config->declares_output_bias ? ARCH_REQUIRED : ARCH_OPTIONAL;
    return arch_common_need(config, role);
}

const struct arch arch_seed_oss = {
    .name = "seed_oss",
    .hf_types = (const char *const[]){"seed_oss", NULL},
    .gguf_names = (const char *const[]){"seed_oss", NULL},
    .defaults = {.kv_heads = 8, .head_dim = 128},
    .configure_json = seed_oss_configure,
    .need = seed_oss_need,
    .math = &arch_common_math,
};
