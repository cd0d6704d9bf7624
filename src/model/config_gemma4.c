/* Gemma 4's config.json and GGUF metadata: which layers have a window, how large their heads are,
 * whose keys and values they read, how they rotate, experts, and what tokens bring into each layer.
 * Facts: transformers' configuration_gemma4.py, llama.cpp's converter and src/models/gemma4.cpp. */
#include "model/arch_gemma4.h"

#include <math.h>

#define GEMMA4_WINDOW 512u
#define GEMMA4_PATTERN 6u
#define GEMMA4_HEAD_DIM 512u /* of layers that see everything */
#define GEMMA4_WINDOW_THETA 10000.0
#define GEMMA4_THETA 1e6
#define GEMMA4_SHARE 0.25
#define GEMMA4_INPUT 256u
#define GEMMA4_VOCABULARY 262144u

static bool gemma4_is_set(const struct json *value) {
    return value != NULL && !json_is(value, JSON_NULL);
}

/* A size that may be 0 or left out. */
static enum status gemma4_count(const struct json *config, const char *member, uint32_t absent,
                                const char *name, uint32_t *out, struct error *err) {
    const struct json *value = json_get(config, member);
    uint64_t number = value == NULL ? absent : 0; /* null says none */
    if (gemma4_is_set(value) && (!json_u64(value, &number) || number > UINT32_MAX))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a whole number from 0 to 4294967295", name,
                         member);
    *out = (uint32_t)number;
    return SL_OK;
}

/* All layers as the config says, each with keys and values of its own. */
static enum status gemma4_sizes(struct config *out, struct error *err) {
    out->layer_sizes = arena_array(&out->arena, out->layers, sizeof *out->layer_sizes);
    if (out->layer_sizes == NULL)
        return error_memory(err, out->layers * sizeof *out->layer_sizes, "the sizes of the layers");
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->layer_sizes[layer] = (struct layer_sizes){.kv_heads = out->kv_heads,
                                                       .head_dim = out->head_dim,
                                                       .inner = out->inner,
                                                       .kv_layer = layer};
    return SL_OK;
}

/* The last `shared` layers read the keys and values of the last one before them of their type. */
static enum status gemma4_share(uint32_t shared, const char *name, struct config *out,
                                struct error *err) {
    if (shared >= out->layers)
        return error_set(err, SL_ERR_ENV,
                         "%s: %u layers read the keys of others, of %u layers in all", name, shared,
                         out->layers);
    uint32_t first = out->layers - shared;
    for (uint32_t layer = first; layer < out->layers; layer++) {
        uint32_t from = first;
        while (from > 0 && config_is_windowed(out, from - 1) != config_is_windowed(out, layer))
            from--;
        if (from == 0)
            return error_set(err, SL_ERR_ENV,
                             "%s: layer %u has no layer of its type whose keys it could read", name,
                             layer);
        out->layer_sizes[layer].kv_layer = from - 1;
    }
    return SL_OK;
}

/* One entry of per_layer_config: {"head_dim": 512}. */
static enum status gemma4_override(const struct json_member *entry, const char *name,
                                   struct config *out, struct error *err) {
    uint64_t layer;
    if (!str_to_u64(entry->name, &layer) || layer >= out->layers ||
        !json_is(&entry->value, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "%s: per_layer_config.%.*s is not settings of a layer",
                         name, STR_ARG(entry->name));
    struct layer_sizes *sizes = &out->layer_sizes[layer];
    for (uint32_t i = 0; i < entry->value.count; i++) {
        struct str member = entry->value.members[i].name;
        if (!str_is(member, "head_dim") && !str_is(member, "num_key_value_heads"))
            return error_set(err, SL_ERR_ENV, "%s: per_layer_config member %.*s is not supported",
                             name, STR_ARG(member));
    }
    TRY(config_size(&entry->value, "head_dim", sizes->head_dim, name, &sizes->head_dim, err));
    return config_size(&entry->value, "num_key_value_heads", sizes->kv_heads, name,
                       &sizes->kv_heads, err);
}

/* Heads of the layers that see everything: per_layer_config, or the older members. */
static enum status gemma4_heads(const struct json *config, const char *name, struct config *out,
                                struct error *err) {
    const struct json *own = json_get(config, "per_layer_config");
    bool shares_values = false;
    uint32_t head_dim = GEMMA4_HEAD_DIM, kv_heads = out->kv_heads;
    TRY(config_flag(config, "attention_k_eq_v", name, &shares_values, err));
    if (gemma4_is_set(own) && !json_is(own, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "%s: per_layer_config is not an object", name);
    TRY(config_size(config, "global_head_dim", GEMMA4_HEAD_DIM, name, &head_dim, err));
    if (shares_values)
        TRY(config_size(config, "num_global_key_value_heads", out->kv_heads, name, &kv_heads, err));
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        struct layer_sizes *sizes = &out->layer_sizes[layer];
        if (config_is_windowed(out, layer))
            continue;
        sizes->shares_values = shares_values;
        if (gemma4_is_set(own))
            continue;
        sizes->head_dim = head_dim;
        sizes->kv_heads = kv_heads;
    }
    for (uint32_t i = 0; gemma4_is_set(own) && i < own->count; i++)
        TRY(gemma4_override(&own->members[i], name, out, err));
    return SL_OK;
}

static enum status gemma4_ropes(const struct json *config, const char *name, struct config *out,
                                struct error *err) {
    if (!out->has_window_rope && (gemma4_is_set(json_get(config, "rope_parameters")) ||
                                  gemma4_is_set(json_get(config, "rope_scaling"))))
        return error_set(err, SL_ERR_ENV,
                         "%s: the rope settings are not of layer types (full_attention, "
                         "sliding_attention)",
                         name);
    if (!out->has_window_rope) {
        out->rope = (struct rope_config){
            .kind = ROPE_PROPORTIONAL, .theta = GEMMA4_THETA, .factor = 1, .share = GEMMA4_SHARE};
        out->window_rope = (struct rope_config){.kind = ROPE_DEFAULT, .theta = GEMMA4_WINDOW_THETA};
        out->has_window_rope = true;
    }
    const struct rope_config *ropes[2] = {&out->rope, &out->window_rope};
    for (int i = 0; i < 2; i++) /* the class passes it over */
        if (ropes[i]->kind == ROPE_DEFAULT && ropes[i]->share != 0 && ropes[i]->share != 1)
            return error_set(err, SL_ERR_ENV,
                             "%s: partial_rotary_factor %g of rope type default is not supported "
                             "for family %s",
                             name, ropes[i]->share, out->family);
    return SL_OK;
}

static enum status gemma4_experts(const struct json *config, const char *name, struct config *out,
                                  struct error *err) {
    bool is_on = false;
    TRY(config_flag(config, "enable_moe_block", name, &is_on, err));
    if (!is_on)
        return SL_OK;
    TRY(config_size(config, "num_experts", 0, name, &out->mixture.count, err));
    TRY(config_size(config, "top_k_experts", 0, name, &out->mixture.used, err));
    return config_size(config, "moe_intermediate_size", 0, name, &out->mixture.inner, err);
}

/* Both readers: what follows. */
static enum status gemma4_common(const char *name, struct config *out, struct error *err) {
    struct mixture *mixture = &out->mixture;
    out->score_scale = 1;
    out->embed_scale = sqrt((double)out->hidden);
    if (mixture->count == 0)
        return SL_OK;
    mixture->score = MIXTURE_SOFTMAX;
    mixture->sums_to_one = mixture->fuses_gate_up = mixture->is_normalised = true;
    mixture->scale = 1.0f;
    mixture->groups = mixture->groups_used = 1;
    mixture->shared_inner = out->inner;
    for (uint32_t layer = 0; layer < out->layers; layer++)
        if (out->layer_sizes[layer].inner != out->inner)
            return error_set(err, SL_ERR_ENV,
                             "%s: an MLP of %u features beside experts, and of %u in other layers, "
                             "is not supported",
                             name, out->layer_sizes[layer].inner, out->inner);
    return SL_OK;
}

/* use_double_wide_mlp: of the layers that read the keys of others. */
static enum status gemma4_widen(const struct json *config, const char *name, struct config *out,
                                struct error *err) {
    bool is_wide = false;
    TRY(config_flag(config, "use_double_wide_mlp", name, &is_wide, err));
    if (is_wide && out->inner > SL_FEATURES_MAX / 2)
        return error_set(err, SL_ERR_ENV, "%s: twice intermediate_size %u is too large", name,
                         out->inner);
    for (uint32_t layer = 0; is_wide && layer < out->layers; layer++)
        if (out->layer_sizes[layer].kv_layer != layer)
            out->layer_sizes[layer].inner = 2 * out->inner;
    return SL_OK;
}

/* What tokens bring into each layer. */
static enum status gemma4_inputs(const struct json *config, const char *name, struct config *out,
                                 struct error *err) {
    uint32_t rows = 0;
    TRY(gemma4_count(config, "hidden_size_per_layer_input", GEMMA4_INPUT, name, &out->layer_input,
                     err));
    TRY(gemma4_count(config, "vocab_size_per_layer_input", GEMMA4_VOCABULARY, name, &rows, err));
    if (out->layer_input > 0 && rows != out->vocabulary)
        return error_set(err, SL_ERR_ENV,
                         "%s: vocab_size_per_layer_input is %u, but vocab_size %u, which is not "
                         "supported",
                         name, rows, out->vocabulary);
    return SL_OK;
}

enum status gemma4_configure(const struct json *config, const char *name, struct config *out,
                             struct error *err) {
    const struct json *both_ways = json_get(config, "use_bidirectional_attention");
    struct str word = STR("?");
    uint32_t shared = 0;
    if (gemma4_is_set(both_ways) && !json_is(both_ways, JSON_FALSE) &&
        (!json_string(both_ways, &word) || !str_is(word, "vision")))
        return error_set(err, SL_ERR_ENV,
                         "%s: use_bidirectional_attention \"%.*s\" is not supported", name,
                         STR_ARG(word));
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(arch_common_pattern_window(config, name, GEMMA4_PATTERN, GEMMA4_WINDOW, out, err));
    if (out->is_windowed == NULL)
        return error_set(err, SL_ERR_ENV, "%s: sliding_window is null", name);
    out->is_windowed[out->layers - 1] = false; /* whatever layer_types says */
    TRY(gemma4_sizes(out, err));
    TRY(gemma4_heads(config, name, out, err));
    TRY(gemma4_count(config, "num_kv_shared_layers", 0, name, &shared, err));
    TRY(gemma4_share(shared, name, out, err));
    TRY(gemma4_widen(config, name, out, err));
    TRY(gemma4_ropes(config, name, out, err));
    TRY(gemma4_inputs(config, name, out, err));
    TRY(gemma4_experts(config, name, out, err));
    return gemma4_common(name, out, err);
}

static enum status gemma4_meta_count(struct meta_reader *reader, const char *member, uint32_t *out,
                                     struct error *err) {
    const char *key = meta_reader_key(reader, member);
    int64_t number = 0;
    if (meta_find(reader->meta, key) != NULL &&
        (!meta_integer(reader->meta, key, &number) || number < 0 || number > UINT32_MAX))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a whole number from 0 to 4294967295",
                         reader->name, key);
    *out = (uint32_t)number;
    return SL_OK;
}

/* Sizes of each layer; key_length is that of layers that see everything. */
static enum status gemma4_meta_sizes(struct meta_reader *reader, struct config *out,
                                     struct error *err) {
    uint32_t whole = out->head_dim, value = 0;
    TRY(meta_reader_size(reader, "attention.key_length_swa", whole, &out->head_dim, err));
    TRY(meta_reader_size(reader, "attention.value_length_swa", out->head_dim, &value, err));
    if (value != out->head_dim)
        return error_set(err, SL_ERR_ENV,
                         "%s: keys of %u and values of %u features are not supported for this "
                         "family",
                         reader->name, out->head_dim, value);
    TRY(gemma4_sizes(out, err));
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        struct layer_sizes *sizes = &out->layer_sizes[layer];
        if (!config_is_windowed(out, layer))
            sizes->head_dim = whole;
        TRY(meta_reader_layer_size(reader, "attention.head_count_kv", layer, &sizes->kv_heads,
                                   err));
        TRY(meta_reader_layer_size(reader, "feed_forward_length", layer, &sizes->inner, err));
    }
    return SL_OK;
}

enum status gemma4_configure_meta(struct meta_reader *reader, struct config *out,
                                  struct error *err) {
    double theta = GEMMA4_WINDOW_THETA;
    uint32_t shared = 0, rotary = 0, experts = 0;
    TRY(arch_common_meta_window(reader, GEMMA4_PATTERN, out, err));
    TRY(gemma4_meta_sizes(reader, out, err));
    TRY(gemma4_meta_count(reader, "attention.shared_kv_layers", &shared, err));
    TRY(gemma4_share(shared, reader->name, out, err));
    TRY(gemma4_meta_count(reader, "embedding_length_per_layer_input", &out->layer_input, err));
    TRY(meta_reader_real(reader, "rope.freq_base_swa", &theta, err));
    TRY(meta_reader_size(reader, "rope.dimension_count_swa", out->head_dim, &rotary, err));
    out->has_window_rope = true;
    out->window_rope = (struct rope_config){.kind = ROPE_DEFAULT, .theta = theta, .rotary = rotary};
    TRY(gemma4_meta_count(reader, "expert_count", &experts, err));
    if (experts > 0)
        TRY(arch_mixture_meta(reader, out, err));
    return gemma4_common(reader->name, out, err);
}
