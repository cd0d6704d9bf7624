/* Layers of gated delta networks beside attention. Published code: transformers'
 * modeling_qwen3_next.py and modeling_qwen3_5.py; the networks are those of Yang, Kautz and
 * Hatamizadeh 2024 ("Gated Delta Networks"). Metadata: llama.cpp's conversion/qwen.py.
 *
 * Owns the order of the operations; the arithmetic, and how the state of a row is kept, is the
 * backend's. Refuses settings that the published classes have no formula for. */
#include "model/arch_hybrid.h"

#include "model/step.h"

#define HYBRID_ROTATED 0.25    /* of a head, where the config leaves it out */
#define HYBRID_INTERVAL 4u     /* every fourth layer has attention, likewise */
#define HYBRID_KEY_HEADS 16u   /* likewise */
#define HYBRID_VALUE_HEADS 32u /* likewise */
#define HYBRID_DIM 128u        /* likewise */
#define HYBRID_KERNEL 4u       /* likewise */

static const enum role hybrid_attend_order[] = {
    ROLE_Q,       ROLE_K,        ROLE_V,       ROLE_O,       ROLE_DELTA_QKVZ, ROLE_DELTA_QKV,
    ROLE_DELTA_Z, ROLE_DELTA_BA, ROLE_DELTA_B, ROLE_DELTA_A, ROLE_DELTA_OUT,  ROLE_COUNT,
};

/* Experts as they are published: each by itself, in stacks of MLX, and gate and up of all in one
 * stack (Qwen3.5). */
const struct arch_name arch_hybrid_names[ARCH_HYBRID_NAMES] = {
    {ROLE_EXPERT_GATE,
     "model.layers.%u.mlp.experts.%u.gate_proj.weight|"
     "model.layers.%u.mlp.switch_mlp.gate_proj.weight|model.layers.%u.mlp.experts.gate_up_proj",
     "blk.%u.ffn_gate_exps.weight|blk.%u.ffn_gate_up_exps.weight"},
    {ROLE_EXPERT_UP,
     "model.layers.%u.mlp.experts.%u.up_proj.weight|"
     "model.layers.%u.mlp.switch_mlp.up_proj.weight|model.layers.%u.mlp.experts.gate_up_proj",
     "blk.%u.ffn_up_exps.weight|blk.%u.ffn_gate_up_exps.weight"},
    {ROLE_EXPERT_DOWN,
     "model.layers.%u.mlp.experts.%u.down_proj.weight|"
     "model.layers.%u.mlp.switch_mlp.down_proj.weight|model.layers.%u.mlp.experts.down_proj",
     "blk.%u.ffn_down_exps.weight"},
};

const char *const arch_hybrid_understood[] = {
    /* config.json */
    "num_experts", "num_local_experts", "shared_expert_intermediate_size", "mrope_section",
    "mrope_interleaved",
    /* GGUF */
    "expert_count", "expert_used_count", NULL};

enum arch_need arch_hybrid_need(const struct config *config, enum role role) {
    switch (role) {
    case ROLE_DELTA_QKVZ: /* one of two forms: model_bind.c */
    case ROLE_DELTA_QKV:
    case ROLE_DELTA_Z:
    case ROLE_DELTA_BA:
    case ROLE_DELTA_B:
    case ROLE_DELTA_A:
        return ARCH_OPTIONAL;
    case ROLE_DELTA_OUT:
    case ROLE_DELTA_TAPS:
    case ROLE_DELTA_RATE:
    case ROLE_DELTA_BIAS:
    case ROLE_DELTA_NORM:
        return ARCH_REQUIRED;
    case ROLE_SHARED_ROUTER:
        return config->mixture.count > 0 ? ARCH_REQUIRED : ARCH_ABSENT;
    default:
        return config->mixture.count > 0 ? arch_mixture_need(config, role)
                                         : arch_common_need(config, role);
    }
}

/* The projections of a layer, and where in them the heads' parts lie. */
static enum status hybrid_project(struct step *step, uint32_t layer, struct delta_args *args,
                                  struct error *err) {
    const struct delta_shape *shape = &step->config->delta.shape;
    size_t group = shape->value_heads / shape->key_heads;
    size_t key = shape->key_dim, keys = shape->key_heads * key, value = group * shape->value_dim;
    bool has_all = model_matrix(step->model, layer, ROLE_DELTA_QKVZ) != NULL;
    size_t step_all = 2 * key + 2 * value;
    if (has_all) {
        TRY(step_product(step, layer, ROLE_DELTA_QKVZ, &step->x, &step->delta_in, err));
        args->q = (struct delta_place){&step->delta_in, 0, step_all};
        args->k = (struct delta_place){&step->delta_in, key, step_all};
        args->v = (struct delta_place){&step->delta_in, 2 * key, step_all};
        args->z = (struct delta_place){&step->delta_in, 2 * key + value, step_all};
    } else {
        TRY(step_product(step, layer, ROLE_DELTA_QKV, &step->x, &step->delta_in, err));
        TRY(step_product(step, layer, ROLE_DELTA_Z, &step->x, &step->delta_z, err));
        args->q = (struct delta_place){&step->delta_in, 0, key};
        args->k = (struct delta_place){&step->delta_in, keys, key};
        args->v = (struct delta_place){&step->delta_in, 2 * keys, value};
        args->z = (struct delta_place){&step->delta_z, 0, value};
    }
    if (model_matrix(step->model, layer, ROLE_DELTA_BA) != NULL) {
        TRY(step_product(step, layer, ROLE_DELTA_BA, &step->x, &step->delta_b, err));
        args->b = (struct delta_place){&step->delta_b, 0, 2 * group};
        args->a = (struct delta_place){&step->delta_b, group, 2 * group};
        return SL_OK;
    }
    TRY(step_product(step, layer, ROLE_DELTA_B, &step->x, &step->delta_b, err));
    TRY(step_product(step, layer, ROLE_DELTA_A, &step->x, &step->delta_a, err));
    args->b = (struct delta_place){&step->delta_b, 0, group};
    args->a = (struct delta_place){&step->delta_a, 0, group};
    return SL_OK;
}

static enum status hybrid_delta(struct step *step, uint32_t layer, struct error *err) {
    const struct config *config = step->config;
    struct backend *backend = step->backend;
    const struct kv_layer *state = &step->kv_layers[layer];
    struct delta_args args = {
        .shape = config->delta.shape,
        .states = state->base,
        .state_bytes = state->page_bytes,
        .tokens = step->kv_tokens,
        .runs = step->runs,
        .run_count = step->run_count,
        .taps = step_vector(step, layer, ROLE_DELTA_TAPS),
        .rate = step_vector(step, layer, ROLE_DELTA_RATE),
        .bias = step_vector(step, layer, ROLE_DELTA_BIAS),
        .norm = step_vector(step, layer, ROLE_DELTA_NORM),
        .eps = config->norm_eps,
    };
    backend->ops->rms_norm(backend, &step->h, step_vector(step, layer, ROLE_ATTEND_NORM),
                           config->hidden, config->norm_eps, &step->x);
    TRY(hybrid_project(step, layer, &args, err));
    backend->ops->delta(backend, &args, &step->delta_out);
    TRY(step_product(step, layer, ROLE_DELTA_OUT, &step->delta_out, &step->y, err));
    backend->ops->add(backend, &step->y, &step->h);
    return SL_OK;
}

static enum status hybrid_attend(struct step *step, uint32_t layer, struct error *err) {
    return config_is_delta(step->config, layer) ? hybrid_delta(step, layer, err)
                                                : arch_common_attend(step, layer, err);
}

const struct arch_math arch_hybrid_math = {
    .attend_order = hybrid_attend_order,
    .mlp_order = arch_common_mlp_order,
    .route_order = arch_mixture_route_order,
    .expert_order = arch_mixture_expert_order,
    .embed = arch_common_embed,
    .attend = hybrid_attend,
    .mlp = arch_common_mlp,
    .route = arch_mixture_route,
    .expert = arch_mixture_expert,
    .head = arch_common_head,
};

static bool hybrid_is_set(const struct json *value) {
    return value != NULL && !json_is(value, JSON_NULL);
}

/* layer_types: one word a layer; else each `interval`th layer has attention. */
static enum status hybrid_layers(const struct json *config, const char *name, struct config *out,
                                 struct error *err) {
    const struct json *types = json_get(config, "layer_types");
    uint32_t interval = HYBRID_INTERVAL;
    TRY(config_size(config, "full_attention_interval", HYBRID_INTERVAL, name, &interval, err));
    TRY(config_layer_flags(out, &out->delta.is_here, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->delta.is_here[layer] = ((uint64_t)layer + 1) % interval != 0;
    if (!hybrid_is_set(types))
        return SL_OK;
    if (!json_is(types, JSON_ARRAY) || types->count != out->layers)
        return error_set(err, SL_ERR_ENV, "%s: layer_types must be a list of %u words", name,
                         out->layers);
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        struct str word = STR("?");
        json_string(&types->items[layer], &word);
        if (!str_is(word, "linear_attention") && !str_is(word, "full_attention"))
            return error_set(err, SL_ERR_ENV,
                             "%s: layer_types[%u] is \"%.*s\", which family %s does not have", name,
                             layer, STR_ARG(word), out->family);
        out->delta.is_here[layer] = str_is(word, "linear_attention");
    }
    return SL_OK;
}

/* What the published classes always have. */
static enum status hybrid_check(const struct json *config, const char *name, struct config *out,
                                struct error *err) {
    const struct json *window = json_get(config, "sliding_window");
    bool has_gate = true, has_window = false;
    TRY(config_flag(config, "attn_output_gate", name, &has_gate, err));
    TRY(config_flag(config, "use_sliding_window", name, &has_window, err));
    if (!has_gate)
        return error_set(err, SL_ERR_ENV,
                         "%s: attn_output_gate is false, which is not supported for family %s",
                         name, out->family);
    if (has_window && hybrid_is_set(window))
        return error_set(err, SL_ERR_ENV,
                         "%s: sliding_window is set, which family %s does not have", name,
                         out->family);
    if (out->activation != ACTIVATION_SILU)
        return error_set(err, SL_ERR_ENV,
                         "%s: hidden_act is not silu, which is not supported for family %s", name,
                         out->family);
    return SL_OK;
}

enum status arch_hybrid_json(const struct json *config, const char *name, struct config *out,
                             struct error *err) {
    struct delta_shape *shape = &out->delta.shape;
    TRY(hybrid_check(config, name, out, err));
    TRY(config_size(config, "linear_num_key_heads", HYBRID_KEY_HEADS, name, &shape->key_heads,
                    err));
    TRY(config_size(config, "linear_num_value_heads", HYBRID_VALUE_HEADS, name, &shape->value_heads,
                    err));
    TRY(config_size(config, "linear_key_head_dim", HYBRID_DIM, name, &shape->key_dim, err));
    TRY(config_size(config, "linear_value_head_dim", HYBRID_DIM, name, &shape->value_dim, err));
    TRY(config_size(config, "linear_conv_kernel_dim", HYBRID_KERNEL, name, &shape->kernel, err));
    TRY(hybrid_layers(config, name, out, err));
    TRY(config_flag(config, "attention_bias", name, &out->declares_attention_bias, err));
    const struct json *more = json_get(config, "mtp_num_hidden_layers");
    uint64_t predict = 0;
    if (json_u64(more, &predict) && predict <= SL_LAYERS_MAX)
        out->predict_layers = (uint32_t)predict;
    out->delta.has_log_rate = true;
    out->has_output_gate = true;
    out->norm_offset = 1.0f;
    if (out->rope.share == 0)
        out->rope.share = HYBRID_ROTATED;
    return SL_OK;
}

/* attention.recurrent_layers: a flag a layer; else each full_attention_interval-th has attention.
 */
static enum status hybrid_meta_layers(struct meta_reader *reader, struct config *out,
                                      struct error *err) {
    uint32_t interval = HYBRID_INTERVAL;
    TRY(meta_reader_size(reader, "full_attention_interval", HYBRID_INTERVAL, &interval, err));
    TRY(config_layer_flags(out, &out->delta.is_here, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->delta.is_here[layer] = ((uint64_t)layer + 1) % interval != 0;
    const char *key = meta_reader_key(reader, "attention.recurrent_layers");
    const struct meta_value *flags = meta_find(reader->meta, key);
    if (flags == NULL)
        return SL_OK;
    if (flags->kind != META_ARRAY || flags->item_kind != META_INTEGER ||
        flags->array.count < out->layers)
        return error_set(err, SL_ERR_ENV, "%s: %s is not a list of one flag a layer", reader->name,
                         key);
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->delta.is_here[layer] = flags->array.integers[layer] != 0;
    return SL_OK;
}

enum status arch_hybrid_meta(struct meta_reader *reader, bool is_tiled, struct config *out,
                             struct error *err) {
    struct delta_shape *shape = &out->delta.shape;
    uint32_t inner = 0;
    int64_t number = 0;
    if (meta_integer(reader->meta, meta_reader_key(reader, "nextn_predict_layers"), &number) &&
        number > 0 && number < out->layers) {
        out->predict_layers = (uint32_t)number;
        out->layers -= out->predict_layers;
    }
    if (out->layers > SL_LAYERS_MAX)
        return error_set(err, SL_ERR_ENV, "%s: %u layers, at most %u", reader->name, out->layers,
                         SL_LAYERS_MAX);
    TRY(meta_reader_size(reader, "ssm.group_count", 0, &shape->key_heads, err));
    TRY(meta_reader_size(reader, "ssm.time_step_rank", 0, &shape->value_heads, err));
    TRY(meta_reader_size(reader, "ssm.state_size", 0, &shape->key_dim, err));
    TRY(meta_reader_size(reader, "ssm.inner_size", 0, &inner, err));
    TRY(meta_reader_size(reader, "ssm.conv_kernel", 0, &shape->kernel, err));
    shape->value_dim = inner / shape->value_heads;
    shape->is_tiled = is_tiled;
    if (inner % shape->value_heads != 0)
        return error_set(err, SL_ERR_ENV, "%s: %s.ssm.inner_size %u is not a multiple of %u heads",
                         reader->name, reader->prefix, inner, shape->value_heads);
    out->has_output_gate = true;
    return hybrid_meta_layers(reader, out, err);
}
