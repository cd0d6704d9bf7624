/* gpt-oss: attention with biases, a sink for each head and a window in every other layer; experts
 * chosen by the largest outputs of a router with a bias, their MLP a clipped SwiGLU with biases.
 * Published code: transformers' modeling_gpt_oss.py. Folders in bf16 have the experts' matrices the
 * other way, [inputs, outputs], gate and up alternating; in MXFP4 they are rows of outputs that
 * alternate. GGUF and MLX have them apart, as rows of outputs.
 */
#include "model/arch_mixture.h"

#define GPT_OSS_ALPHA 1.702
#define GPT_OSS_LIMIT 7.0

static void gpt_oss_common(struct config *out, double alpha, double limit) {
    out->declares_attention_bias = true;
    out->mixture.score = MIXTURE_SOFTMAX_CHOSEN;
    out->mixture.sums_to_one = false;
    out->mixture.swiglu_alpha = (float)alpha;
    out->mixture.swiglu_limit = (float)limit;
    out->mixture.fuses_gate_up = out->mixture.alternates_gate_up = true;
}

/* Every other layer slides, from the first on. */
static enum status gpt_oss_alternate(uint32_t window, struct config *out, struct error *err) {
    out->is_windowed = arena_array(&out->arena, out->layers, sizeof *out->is_windowed);
    if (out->is_windowed == NULL)
        return error_memory(err, out->layers, "the layers' windows");
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->is_windowed[layer] = layer % 2 == 0;
    out->window = window;
    return SL_OK;
}

static enum status gpt_oss_configure(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    static const struct mixture_names names = {"num_local_experts", "intermediate_size", false};
    const struct json *types = json_get(config, "layer_types");
    double alpha = GPT_OSS_ALPHA, limit = GPT_OSS_LIMIT;
    TRY(arch_mixture_json(config, &names, name, out, err));
    const struct json *given[2] = {json_get(config, "swiglu_alpha"),
                                   json_get(config, "swiglu_limit")};
    for (int i = 0; i < 2; i++)
        if (given[i] != NULL && !json_double(given[i], i == 0 ? &alpha : &limit))
            return error_set(err, SL_ERR_ENV, "%s: %s is not a number", name,
                             i == 0 ? "swiglu_alpha" : "swiglu_limit");
    if (!(limit > 0) || !(alpha > 0))
        return error_set(err, SL_ERR_ENV,
                         "%s: swiglu_limit is %g and swiglu_alpha %g, not positive", name, limit,
                         alpha);
    gpt_oss_common(out, alpha, limit);
    if (types != NULL && !json_is(types, JSON_NULL))
        return arch_common_window(config, name, 0, out, err);
    uint32_t window;
    TRY(config_size(config, "sliding_window", 128, name, &window, err));
    return gpt_oss_alternate(window, out, err);
}

static enum status gpt_oss_configure_meta(struct meta_reader *reader, struct config *out,
                                          struct error *err) {
    uint32_t window;
    TRY(arch_mixture_meta(reader, out, err));
    gpt_oss_common(out, GPT_OSS_ALPHA, GPT_OSS_LIMIT);
    out->rope.keeps_fractions = true; /* as published; GGUF does not say */
    TRY(meta_reader_size(reader, "attention.sliding_window", 128, &window, err));
    return out->layers <= SL_LAYERS_MAX ? gpt_oss_alternate(window, out, err) : SL_OK;
}

static enum arch_need gpt_oss_need(const struct config *config, enum role role) {
    if (role == ROLE_SINKS || role == ROLE_ROUTER_BIAS)
        return ARCH_REQUIRED;
    if (role_is_expert(role)) /* in one form or the other: model_bind.c */
        return ARCH_OPTIONAL;
    return arch_mixture_need(config, role);
}

const struct arch arch_gpt_oss = {
    .name = "gpt-oss",
    .hf_types = (const char *const[]){"gpt_oss", NULL},
    .gguf_names = (const char *const[]){"gpt-oss", NULL},
    .configure_json = gpt_oss_configure,
    .configure_meta = gpt_oss_configure_meta,
    .settings = arch_mixture_understood,
    .need = gpt_oss_need,
    .math = &arch_mixture_math,
};
