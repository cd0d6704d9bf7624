/* OLMo 2: Llama's layers with norms after both halves and none before, and norms of q and k over
 * all heads together. Published code: transformers' modeling_olmo2.py and configuration_olmo2.py.
 * GGUF rows are not permuted. */
#include "model/arch_common.h"

static enum status olmo2_configure(const struct json *config, const char *name, struct config *out,
                                   struct error *err) {
    out->has_whole_qk_norm = true;
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    return arch_common_no_window(config, name, out, err);
}

static enum status olmo2_configure_meta(struct meta_reader *reader, struct config *out,
                                        struct error *err) {
    (void)reader;
    (void)err;
    out->has_whole_qk_norm = true;
    return SL_OK;
}

static enum arch_need olmo2_need(const struct config *config, enum role role) {
    if (role == ROLE_ATTEND_NORM || role == ROLE_MLP_NORM)
        return ARCH_ABSENT;
    return arch_common_post_norm_need(config, role);
}

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .hf_types = (const char *const[]){"olmo2", NULL},
    .gguf_names = (const char *const[]){"olmo2", NULL},
    .has_qk_norm = true,
    .defaults = {.norm_eps = 1e-5},
    .configure_json = olmo2_configure,
    .configure_meta = olmo2_configure_meta,
    .need = olmo2_need,
    .math = &arch_common_math,
};
