/* Mixtral: Mistral's attention, and in every layer a few of eight experts, weighted by the softmax
 * over those chosen. Published code: transformers' modeling_mixtral.py. Its GGUF files call
 * themselves "llama" and have an expert_count. */
#include "model/arch_mixture.h"

static enum status mixtral_configure(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    static const struct mixture_names names = {"num_local_experts", "intermediate_size", true};
    TRY(arch_mixture_json(config, &names, name, out, err));
    return arch_common_window(config, name, 0, out, err);
}

static enum status mixtral_configure_meta(struct meta_reader *reader, struct config *out,
                                          struct error *err) {
    out->mixture.sums_to_one = true;
    return arch_mixture_meta(reader, out, err);
}

const struct arch arch_mixtral = {
    .name = "mixtral",
    .hf_types = (const char *const[]){"mixtral", NULL},
    .gguf_names = (const char *const[]){NULL},
    .gguf_is_permuted = true,
    .configure_json = mixtral_configure,
    .configure_meta = mixtral_configure_meta,
    .settings =
        (const char *const[]){"num_local_experts", "expert_count", "expert_used_count", NULL},
    .need = arch_mixture_need,
    .math = &arch_mixture_math,
};
