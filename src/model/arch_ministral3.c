/* Ministral 3: Mistral's layers whose queries grow with the position, by steps of the positions of
 * training (the rope setting llama_4_scaling_beta). Published code: transformers'
 * modeling_ministral3.py and configuration_ministral3.py. llama.cpp permutes its q and k rows as
 * Llama's, calls the factor attention.temperature_scale, and has cosines of plain size whatever
 * yarn says. */
#include "model/arch_common.h"
#include "model/config_meta.h"

static enum status ministral3_scaling(double beta, const char *name, struct config *out,
                                      struct error *err) {
    if (beta != 0 && out->rope.original_context == 0)
        return error_set(err, SL_ERR_ENV,
                         "%s: llama_4_scaling_beta needs original_max_position_embeddings", name);
    out->query_scaling = (struct query_scaling){.beta = beta, .length = out->rope.original_context};
    return SL_OK;
}

static enum status ministral3_configure(const struct json *config, const char *name,
                                        struct config *out, struct error *err) {
    const struct json *rope = json_get(config, "rope_parameters");
    if (!json_is(rope, JSON_OBJECT))
        rope = json_get(config, "rope_scaling");
    if (!json_is(rope, JSON_OBJECT)) /* the class has yarn for this case */
        return error_set(err, SL_ERR_ENV, "%s: rope_parameters is missing", name);
    const struct json *value = json_get(rope, "llama_4_scaling_beta");
    double beta = 0;
    if (value != NULL && !json_is(value, JSON_NULL) && (!json_double(value, &beta) || beta < 0))
        return error_set(err, SL_ERR_ENV, "%s: llama_4_scaling_beta is not a number from 0 on",
                         name);
    TRY(ministral3_scaling(beta, name, out, err));
    return arch_common_window(config, name, 0, out, err);
}

static enum status ministral3_configure_meta(struct meta_reader *reader, struct config *out,
                                             struct error *err) {
    double beta = 0;
    TRY(meta_reader_real(reader, "attention.temperature_scale", &beta, err));
    out->rope.attention_factor = 1;
    return ministral3_scaling(beta, reader->name, out, err);
}

const struct arch arch_ministral3 = {
    .name = "ministral3",
    .hf_types = (const char *const[]){"ministral3", NULL},
    .gguf_names = (const char *const[]){"mistral3", NULL},
    .gguf_is_permuted = true,
    .settings = (const char *const[]){"llama_4_scaling_beta", "attention.temperature_scale",
                                      "rope.scaling.yarn_log_multiplier", NULL},
    .defaults = {.norm_eps = 1e-5, .rope_theta = 1e6, .kv_heads = 8, .head_dim = 128},
    .configure_json = ministral3_configure,
    .configure_meta = ministral3_configure_meta,
    .need = arch_common_need,
    .math = &arch_common_math,
};
