/* What the configs of mixtures of experts have in common, from config.json and GGUF metadata.
 * Refuses scorings that no rule of route.h is. */
#include "model/arch_mixture.h"

#include <math.h>

const char *const arch_mixture_understood[] = {
    /* config.json */
    "num_experts", "num_local_experts", "n_routed_experts", "first_k_dense_replace",
    "n_shared_experts", "shared_expert_intermediate_size", "swiglu_limit", "use_qk_norm",
    "q_lora_rank", "kv_lora_rank", "rope_interleave",
    /* GGUF */
    "expert_count", "expert_used_count", "attention.sliding_window", "attention.value_length",
    "rope.scaling.yarn_log_multiplier", NULL};

static bool mixture_is_set(const struct json *value) {
    return value != NULL && !json_is(value, JSON_NULL);
}

static enum status mixture_layers(struct config *out, struct error *err) {
    if (out->mixture.is_dense == NULL)
        out->mixture.is_dense = arena_array(&out->arena, out->layers, sizeof(bool));
    if (out->mixture.is_dense == NULL)
        return error_memory(err, out->layers, "the kinds of the layers");
    return SL_OK;
}

enum status arch_mixture_leading(uint32_t layers, struct config *out, struct error *err) {
    TRY(mixture_layers(out, err));
    for (uint32_t layer = 0; layer < out->layers && layer < layers; layer++)
        out->mixture.is_dense[layer] = true;
    return SL_OK;
}

/* decoder_sparse_step and mlp_only_layers: which layers have a plain MLP. */
static enum status mixture_sparse_layers(const struct json *config, const char *name,
                                         struct config *out, struct error *err) {
    const struct json *dense = json_get(config, "mlp_only_layers");
    uint32_t every = 1;
    TRY(config_size(config, "decoder_sparse_step", 1, name, &every, err));
    if (every == 1 && (!mixture_is_set(dense) || (json_is(dense, JSON_ARRAY) && dense->count == 0)))
        return SL_OK;
    TRY(mixture_layers(out, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->mixture.is_dense[layer] = (layer + 1) % every != 0;
    if (!mixture_is_set(dense))
        return SL_OK;
    for (uint32_t i = 0; json_is(dense, JSON_ARRAY) && i < dense->count; i++) {
        uint64_t layer;
        if (!json_u64(&dense->items[i], &layer))
            return error_set(err, SL_ERR_ENV, "%s: mlp_only_layers[%u] is not a whole number", name,
                             i);
        if (layer < out->layers)
            out->mixture.is_dense[layer] = true;
    }
    if (!json_is(dense, JSON_ARRAY))
        return error_set(err, SL_ERR_ENV, "%s: mlp_only_layers is not a list", name);
    return SL_OK;
}

enum status arch_mixture_json(const struct json *config, const struct mixture_names *names,
                              const char *name, struct config *out, struct error *err) {
    struct mixture *mixture = &out->mixture;
    const struct json *sums = json_get(config, "norm_topk_prob");
    const char *count =
        mixture_is_set(json_get(config, names->count)) ? names->count : "num_local_experts";
    TRY(config_size(config, count, 0, name, &mixture->count, err));
    TRY(config_size(config, "num_experts_per_tok", 0, name, &mixture->used, err));
    TRY(config_size(config, names->inner, 0, name, &mixture->inner, err));
    mixture->sums_to_one = names->sums;
    mixture->scale = 1.0f;
    mixture->groups = mixture->groups_used = 1;
    if (mixture_is_set(sums) && !json_bool(sums, &mixture->sums_to_one))
        return error_set(err, SL_ERR_ENV, "%s: norm_topk_prob is not true or false", name);
    return mixture_sparse_layers(config, name, out, err);
}

/* A setting that may only be what it always is, *word, or word[1] where there are two. */
static enum status mixture_only(const struct json *config, const char *member,
                                const char *const word[2], const char *name, struct error *err) {
    const struct json *value = json_get(config, member);
    struct str found = STR("");
    if (!mixture_is_set(value) ||
        (json_string(value, &found) &&
         (str_is(found, word[0]) || (word[1] != NULL && str_is(found, word[1])))))
        return SL_OK;
    return error_set(err, SL_ERR_ENV, "%s: %s is \"%.*s\"; only %s%s%s is supported", name, member,
                     STR_ARG(found), word[0], word[1] != NULL ? " or " : "",
                     word[1] != NULL ? word[1] : "");
}

/* How experts are scored and groups of them chosen, which goes together: DeepSeek-V2's names for it
 * and V3's. V2 takes the best group by its best expert, V3 by its best two (model/route.c). */
static enum status mixture_scoring(const struct json *config, const char *name, struct config *out,
                                   struct error *err) {
    static const char *const words[2][2][2] = {
        {{"sigmoid", NULL}, {"noaux_tc", NULL}},
        {{"softmax", NULL}, {"greedy", "group_limited_greedy"}},
    };
    bool is_softmax = out->mixture.score == MIXTURE_SOFTMAX;
    const struct json *method = json_get(config, "topk_method");
    struct str found = STR("greedy");
    TRY(mixture_only(config, "scoring_func", words[is_softmax][0], name, err));
    TRY(mixture_only(config, "topk_method", words[is_softmax][1], name, err));
    json_string(method, &found);
    if (is_softmax && str_is(found, "greedy")) /* without groups, whatever their number */
        return SL_OK;
    TRY(config_size(config, "n_group", 1, name, &out->mixture.groups, err));
    return config_size(config, "topk_group", 1, name, &out->mixture.groups_used, err);
}

enum status arch_mixture_json_grouped(const struct json *config, const char *name,
                                      struct config *out, struct error *err) {
    struct mixture *mixture = &out->mixture;
    const struct json *scale = json_get(config, "routed_scaling_factor");
    const struct json *first = json_get(config, "first_k_dense_replace");
    const struct json *shared = json_get(config, "n_shared_experts");
    uint64_t dense = 0, experts = 0;
    double factor = 1.0;
    TRY(mixture_scoring(config, name, out, err));
    if (mixture_is_set(scale) && !json_double(scale, &factor))
        return error_set(err, SL_ERR_ENV, "%s: routed_scaling_factor is not a number", name);
    mixture->scale = (float)factor;
    if (mixture_is_set(first) && !json_u64(first, &dense))
        return error_set(err, SL_ERR_ENV, "%s: first_k_dense_replace is not a whole number", name);
    if (mixture_is_set(shared) && (!json_u64(shared, &experts) || experts > SL_EXPERTS_MAX))
        return error_set(err, SL_ERR_ENV, "%s: n_shared_experts is not a whole number up to %u",
                         name, SL_EXPERTS_MAX);
    if (mixture->inner > SL_FEATURES_MAX || experts * mixture->inner > SL_FEATURES_MAX)
        return error_set(err, SL_ERR_ENV, "%s: %llu shared experts of %u features are too large",
                         name, (unsigned long long)experts, mixture->inner);
    mixture->shared_inner = (uint32_t)experts * mixture->inner;
    return arch_mixture_leading(dense < out->layers ? (uint32_t)dense : out->layers, out, err);
}

/* A count that may be left out or zero. */
static enum status mixture_count(struct meta_reader *reader, const char *member, uint32_t limit,
                                 uint32_t *out, struct error *err) {
    const char *key = meta_reader_key(reader, member);
    int64_t number = 0;
    if (meta_find(reader->meta, key) != NULL &&
        (!meta_integer(reader->meta, key, &number) || number < 0 || number > limit))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a whole number up to %u", reader->name,
                         key, limit);
    *out = (uint32_t)number;
    return SL_OK;
}

enum status arch_mixture_meta(struct meta_reader *reader, struct config *out, struct error *err) {
    struct mixture *mixture = &out->mixture;
    uint32_t gating = 0, shared = 0, dense = 0, groups = 0, groups_used = 0;
    double scale = 0;
    TRY(meta_reader_size(reader, "expert_count", 0, &mixture->count, err));
    TRY(meta_reader_size(reader, "expert_used_count", 0, &mixture->used, err));
    TRY(meta_reader_size(reader, "expert_feed_forward_length", out->inner, &mixture->inner, err));
    TRY(mixture_count(reader, "expert_gating_func", 3, &gating, err));
    TRY(mixture_count(reader, "expert_shared_count", SL_EXPERTS_MAX, &shared, err));
    TRY(mixture_count(reader, "leading_dense_block_count", SL_LAYERS_MAX, &dense, err));
    TRY(mixture_count(reader, "expert_group_count", SL_EXPERTS_MAX, &groups, err));
    TRY(mixture_count(reader, "expert_group_used_count", SL_EXPERTS_MAX, &groups_used, err));
    TRY(meta_reader_real(reader, "expert_weights_scale", &scale, err));
    if (gating == 2)
        mixture->score = MIXTURE_SIGMOID;
    else if (gating == 3)
        mixture->score = MIXTURE_SOFTMAX_CHOSEN;
    const char *key = meta_reader_key(reader, "expert_weights_norm");
    if (meta_find(reader->meta, key) != NULL &&
        !meta_bool(reader->meta, key, &mixture->sums_to_one))
        return error_set(err, SL_ERR_ENV, "%s: %s is not true or false", reader->name, key);
    mixture->scale = scale != 0 ? (float)scale : 1.0f; /* llama.cpp: 0 is none */
    mixture->groups = groups > 0 ? groups : 1;
    mixture->groups_used = groups > 0 ? groups_used : 1;
    if (mixture->inner > SL_FEATURES_MAX || (uint64_t)shared * mixture->inner > SL_FEATURES_MAX)
        return error_set(err, SL_ERR_ENV, "%s: %u shared experts of %u features are too large",
                         reader->name, shared, mixture->inner);
    mixture->shared_inner = shared * mixture->inner;
    TRY(mixture_count(reader, "expert_shared_feed_forward_length", SL_FEATURES_MAX, &shared, err));
    if (shared > 0)
        mixture->shared_inner = shared;
    return dense > 0 && out->layers <= SL_LAYERS_MAX ? arch_mixture_leading(dense, out, err)
                                                     : SL_OK;
}
