/* GLM-4.5 and its kin: attention with biases, a part of each head rotated, norms of the heads where
 * the config says so; a few dense layers, then experts routed as DeepSeek-V3's are. Published code:
 * transformers' modeling_glm4_moe.py. GGUF files count the layers that predict further tokens among
 * the blocks. */
#include "model/arch_mixture.h"

#define GLM_ROTATED 0.5 /* of a head, where the config leaves it out */

static enum status glm_configure(const struct json *config, const char *name, struct config *out,
                                 struct error *err) {
    static const struct mixture_names names = {"n_routed_experts", "moe_intermediate_size", true};
    out->has_qk_norm = false;
    TRY(config_flag(config, "use_qk_norm", name, &out->has_qk_norm, err));
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(arch_common_no_window(config, name, out, err));
    if (out->rope.share == 0)
        out->rope.share = GLM_ROTATED;
    TRY(arch_mixture_json(config, &names, name, out, err));
    out->mixture.score = MIXTURE_SIGMOID;
    return arch_mixture_json_grouped(config, name, out, err);
}

static enum status glm_configure_meta(struct meta_reader *reader, struct config *out,
                                      struct error *err) {
    uint32_t more = 0;
    int64_t number = 0;
    if (meta_integer(reader->meta, meta_reader_key(reader, "nextn_predict_layers"), &number) &&
        number > 0 && number < out->layers)
        more = (uint32_t)number;
    out->layers -= more;
    out->predict_layers = more;
    out->has_qk_norm = false; /* the tensors tell: see glm_need */
    out->mixture.score = MIXTURE_SIGMOID;
    return arch_mixture_meta(reader, out, err);
}

/* Biases of q, k and v alone; GGUF does not declare the norms. */
static enum arch_need glm_need(const struct config *config, enum role role) {
    if (role == ROLE_O_BIAS)
        return ARCH_OPTIONAL;
    if (role == ROLE_Q_NORM || role == ROLE_K_NORM)
        return config->has_qk_norm ? ARCH_REQUIRED : ARCH_OPTIONAL;
    return arch_mixture_need(config, role);
}

const struct arch arch_glm4_moe = {
    .name = "glm4moe",
    .hf_types = (const char *const[]){"glm4_moe", NULL},
    .gguf_names = (const char *const[]){"glm4moe", NULL},
    .has_partial_rope = true,
    .configure_json = glm_configure,
    .configure_meta = glm_configure_meta,
    .settings = arch_mixture_understood,
    .need = glm_need,
    .math = &arch_mixture_math,
};
