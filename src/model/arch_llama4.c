/* Llama 4 (text): layers that attend within chunks of positions and rotate neighbours in pairs,
 * with q and k normalised without weights afterwards; each fourth one sees everything, does not
 * rotate, and has queries that grow with the position. Experts in all or in every other layer, a
 * shared one beside them; a token's input of an expert is multiplied by the sigmoid of the router's
 * output, the expert's own output is not. Published code: transformers' modeling_llama4.py and
 * configuration_llama4.py.
 *
 * Folders in bf16 have the experts' matrices the other way, [inputs, outputs], first all of gate
 * and then all of up; GGUF and MLX have them apart, as rows of outputs. llama.cpp's files do not
 * hold the chunk (8192), the growth of queries (0.1 each 8192 positions), nor the norms of q and k,
 * which the model of 128 experts lacks. */
#include "model/arch_mixture.h"

#define LLAMA4_CHUNK 8192u
#define LLAMA4_INTERVAL 4u
#define LLAMA4_INNER 16384u
#define LLAMA4_GROWTH 0.1
#define LLAMA4_EXPERTS_WITHOUT_NORM 128u

static const struct arch_name llama4_names[] = {
    {ROLE_GATE, "model.layers.%u.feed_forward.gate_proj.weight", NULL},
    {ROLE_UP, "model.layers.%u.feed_forward.up_proj.weight", NULL},
    {ROLE_DOWN, "model.layers.%u.feed_forward.down_proj.weight", NULL},
    {ROLE_ROUTER, "model.layers.%u.feed_forward.router.weight", NULL},
    {ROLE_SHARED_GATE, "model.layers.%u.feed_forward.shared_expert.gate_proj.weight", NULL},
    {ROLE_SHARED_UP, "model.layers.%u.feed_forward.shared_expert.up_proj.weight", NULL},
    {ROLE_SHARED_DOWN, "model.layers.%u.feed_forward.shared_expert.down_proj.weight", NULL},
    {ROLE_EXPERT_GATE_UP, "model.layers.%u.feed_forward.experts.gate_up_proj", NULL},
    {ROLE_EXPERT_DOWN_IN, "model.layers.%u.feed_forward.experts.down_proj", NULL},
    {ROLE_EXPERT_GATE,
     "model.layers.%u.feed_forward.experts.%u.gate_proj.weight|"
     "model.layers.%u.feed_forward.experts.gate_proj.weight",
     NULL},
    {ROLE_EXPERT_UP,
     "model.layers.%u.feed_forward.experts.%u.up_proj.weight|"
     "model.layers.%u.feed_forward.experts.up_proj.weight",
     NULL},
    {ROLE_EXPERT_DOWN,
     "model.layers.%u.feed_forward.experts.%u.down_proj.weight|"
     "model.layers.%u.feed_forward.experts.down_proj.weight",
     NULL},
};

static bool llama4_is_set(const struct json *value) {
    return value != NULL && !json_is(value, JSON_NULL);
}

/* moe_layers names the layers with experts; else each interleave_moe_layer_step-th one. */
static enum status llama4_mixtures(const struct json *config, const char *name, struct config *out,
                                   struct error *err) {
    const struct json *list = json_get(config, "moe_layers");
    uint32_t step = 1;
    TRY(config_size(config, "interleave_moe_layer_step", 1, name, &step, err));
    TRY(config_layer_flags(out, &out->mixture.is_dense, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->mixture.is_dense[layer] = llama4_is_set(list) || (layer + 1) % step != 0;
    if (!llama4_is_set(list))
        return SL_OK;
    if (!json_is(list, JSON_ARRAY))
        return error_set(err, SL_ERR_ENV, "%s: moe_layers is not a list", name);
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t layer;
        if (!json_u64(&list->items[i], &layer) || layer >= out->layers)
            return error_set(err, SL_ERR_ENV, "%s: moe_layers[%u] is not the number of a layer",
                             name, i);
        out->mixture.is_dense[layer] = false;
    }
    return SL_OK;
}

/* Chunks: layer_types says where, else the layers that rotate. */
static enum status llama4_chunks(const struct json *config, const char *name, struct config *out,
                                 struct error *err) {
    const struct json *types = json_get(config, "layer_types");
    const struct json *size = json_get(config, "attention_chunk_size");
    bool has_chunks = false;
    uint64_t chunk = LLAMA4_CHUNK;
    TRY(config_layer_flags(out, &out->is_windowed, err));
    if (llama4_is_set(types) && (!json_is(types, JSON_ARRAY) || types->count != out->layers))
        return error_set(err, SL_ERR_ENV, "%s: layer_types must be a list of %u words", name,
                         out->layers);
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        struct str word = out->skips_rope[layer] ? STR("full_attention") : STR("chunked_attention");
        if (llama4_is_set(types) && !json_string(&types->items[layer], &word))
            return error_set(err, SL_ERR_ENV, "%s: layer_types[%u] is not a text", name, layer);
        out->is_windowed[layer] = str_is(word, "chunked_attention");
        has_chunks |= out->is_windowed[layer];
        if (!out->is_windowed[layer] && !str_is(word, "full_attention"))
            return error_set(err, SL_ERR_ENV,
                             "%s: layer_types[%u] is \"%.*s\", which family %s does not have here",
                             name, layer, STR_ARG(word), out->family);
    }
    if (size != NULL && (!json_u64(size, &chunk) || chunk == 0 || chunk > UINT32_MAX) &&
        (has_chunks || !json_is(size, JSON_NULL)))
        return error_set(err, SL_ERR_ENV, "%s: attention_chunk_size is not a positive whole number",
                         name);
    out->is_chunked = true;
    out->window = has_chunks ? (uint32_t)chunk : 0;
    return SL_OK;
}

/* attn_temperature_tuning is true or false, in older configs a number. */
static enum status llama4_queries(const struct json *config, const char *name, struct config *out,
                                  struct error *err) {
    const struct json *value = json_get(config, "attn_temperature_tuning");
    const struct json *growth = json_get(config, "attn_scale");
    bool is_on = true;
    double number = 0, beta = LLAMA4_GROWTH;
    uint32_t length = LLAMA4_CHUNK;
    if (llama4_is_set(value) && !json_bool(value, &is_on)) {
        if (!json_double(value, &number))
            return error_set(err, SL_ERR_ENV, "%s: attn_temperature_tuning is not true or false",
                             name);
        is_on = number != 0;
    }
    if (llama4_is_set(growth) && (!json_double(growth, &beta) || beta < 0))
        return error_set(err, SL_ERR_ENV, "%s: attn_scale is not a number from 0 on", name);
    TRY(config_size(config, "floor_scale", LLAMA4_CHUNK, name, &length, err));
    if (is_on)
        out->query_scaling = (struct query_scaling){
            .beta = beta, .length = length, .offset = 1, .skips_rotated = true};
    return SL_OK;
}

static void llama4_common(struct config *out) {
    out->mixture.score = MIXTURE_SIGMOID_CHOSEN;
    out->mixture.sums_to_one = false;
    out->mixture.scales_inputs = out->mixture.fuses_gate_up = true;
    out->mixture.shared_inner = out->mixture.inner;
}

static enum status llama4_configure(const struct json *config, const char *name, struct config *out,
                                    struct error *err) {
    static const struct mixture_names names = {"num_local_experts", "intermediate_size", false};
    out->has_plain_head_norm = out->rope.is_interleaved = true;
    TRY(arch_mixture_json(config, &names, name, out, err));
    TRY(config_size(config, "intermediate_size_mlp", LLAMA4_INNER, name, &out->inner, err));
    TRY(config_flag(config, "use_qk_norm", name, &out->has_plain_head_norm, err));
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    TRY(llama4_mixtures(config, name, out, err));
    TRY(arch_common_rope_layers(config, name, LLAMA4_INTERVAL, out, err));
    TRY(llama4_chunks(config, name, out, err));
    TRY(llama4_queries(config, name, out, err));
    llama4_common(out);
    return SL_OK;
}

static enum status llama4_configure_meta(struct meta_reader *reader, struct config *out,
                                         struct error *err) {
    uint32_t step = 1;
    int64_t window = LLAMA4_CHUNK;
    TRY(arch_mixture_meta(reader, out, err));
    TRY(meta_reader_size(reader, "interleave_moe_layer_step", 1, &step, err));
    const char *key = meta_reader_key(reader, "attention.sliding_window");
    if (meta_find(reader->meta, key) != NULL && !meta_integer(reader->meta, key, &window))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a whole number", reader->name, key);
    out->has_plain_head_norm = out->mixture.count != LLAMA4_EXPERTS_WITHOUT_NORM;
    llama4_common(out);
    TRY(config_layer_flags(out, &out->mixture.is_dense, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->mixture.is_dense[layer] = (layer + 1) % step != 0;
    if (window == 0) /* all layers rotate and see everything */
        return SL_OK;
    TRY(config_layer_flags(out, &out->skips_rope, err));
    TRY(config_layer_flags(out, &out->is_windowed, err));
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        out->skips_rope[layer] = (layer + 1) % LLAMA4_INTERVAL == 0;
        out->is_windowed[layer] = !out->skips_rope[layer];
    }
    out->is_chunked = true;
    out->window = LLAMA4_CHUNK;
    out->query_scaling = (struct query_scaling){
        .beta = LLAMA4_GROWTH, .length = LLAMA4_CHUNK, .offset = 1, .skips_rotated = true};
    return SL_OK;
}

static enum arch_need llama4_need(const struct config *config, enum role role) {
    if (role_is_expert(role)) /* in one form or the other: model_bind.c */
        return ARCH_OPTIONAL;
    return arch_mixture_need(config, role);
}

const struct arch arch_llama4 = {
    .name = "llama4",
    .hf_types = (const char *const[]){"llama4_text", NULL},
    .gguf_names = (const char *const[]){"llama4", NULL},
    .gguf_is_permuted = true, /* pairs of neighbours, as published */
    .settings =
        (const char *const[]){"num_local_experts", "use_qk_norm", "no_rope_layers",
                              "attention_chunk_size", "attn_temperature_tuning", "expert_count",
                              "expert_used_count", "attention.sliding_window", NULL},
    .names = llama4_names,
    .name_count = sizeof llama4_names / sizeof llama4_names[0],
    .defaults = {.rope_theta = 5e5, .norm_eps = 1e-5, .kv_heads = 8, .head_dim = 128},
    .configure_json = llama4_configure,
    .configure_meta = llama4_configure_meta,
    .need = llama4_need,
    .math = &arch_mixture_math,
};
