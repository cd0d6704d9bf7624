/* Mathematics shared by the families whose layers are two pre-norm halves. Owns the order of the
 * operations; the arithmetic is the backend's, the weights come through step.h. Takes no decision
 * from a family's name: biases and q/k norms are used where the model has them. */
#include "model/arch_common.h"

#include "model/config_meta.h"
#include "model/step.h"

const enum role arch_common_attend_order[] = {ROLE_Q, ROLE_K, ROLE_V, ROLE_O, ROLE_COUNT};
const enum role arch_common_mlp_order[] = {ROLE_GATE, ROLE_UP, ROLE_DOWN, ROLE_COUNT};

enum arch_need arch_common_need(const struct config *config, enum role role) {
    if (role_is_mixture(role) || role_is_delta(role))
        return ARCH_ABSENT;
    switch (role) {
    case ROLE_HEAD: /* absent: tied to the embedding */
    case ROLE_ROPE_FACTORS:
        return ARCH_OPTIONAL;
    case ROLE_ROPE_LONG:
    case ROLE_ROPE_SHORT:
        return config->rope.kind == ROPE_LONGROPE && config->rope.long_factors == NULL
                   ? ARCH_REQUIRED
                   : ARCH_ABSENT;
    case ROLE_ATTEND_POST_NORM:
    case ROLE_MLP_POST_NORM:
        return ARCH_ABSENT;
    case ROLE_Q_NORM:
    case ROLE_K_NORM:
        return config->has_qk_norm ? ARCH_REQUIRED : ARCH_ABSENT;
    case ROLE_Q_BIAS:
    case ROLE_K_BIAS:
    case ROLE_V_BIAS:
    case ROLE_O_BIAS:
        return config->declares_attention_bias ? ARCH_REQUIRED : ARCH_OPTIONAL;
    case ROLE_GATE_BIAS:
    case ROLE_UP_BIAS:
    case ROLE_DOWN_BIAS:
        return config->declares_mlp_bias ? ARCH_REQUIRED : ARCH_OPTIONAL;
    case ROLE_Q_A:
    case ROLE_Q_B:
    case ROLE_KV_A:
    case ROLE_KV_B:
    case ROLE_K_B:
    case ROLE_V_B:
    case ROLE_Q_A_NORM:
    case ROLE_KV_A_NORM:
    case ROLE_SINKS:
    case ROLE_INPUTS_EMBED:
    case ROLE_INPUTS_PROJECT:
    case ROLE_INPUTS_NORM:
    case ROLE_INPUT_GATE:
    case ROLE_INPUT_PROJECT:
    case ROLE_INPUT_NORM:
    case ROLE_LAYER_SCALE:
    case ROLE_COUNT:
        return ARCH_ABSENT;
    default:
        return ARCH_REQUIRED;
    }
}

enum arch_need arch_common_post_norm_need(const struct config *config, enum role role) {
    if (role == ROLE_ATTEND_POST_NORM || role == ROLE_MLP_POST_NORM)
        return ARCH_REQUIRED;
    return arch_common_need(config, role);
}

enum status arch_common_embed(struct step *step, struct error *err) {
    return step_embed(step, (float)step->config->embed_scale, err);
}

/* The bias that goes with each matrix. */
static const enum role common_biases[ROLE_COUNT] = {
    [ROLE_Q] = ROLE_Q_BIAS,       [ROLE_K] = ROLE_K_BIAS,       [ROLE_V] = ROLE_V_BIAS,
    [ROLE_O] = ROLE_O_BIAS,       [ROLE_GATE] = ROLE_GATE_BIAS, [ROLE_UP] = ROLE_UP_BIAS,
    [ROLE_DOWN] = ROLE_DOWN_BIAS,
};

enum status arch_common_project(struct step *step, uint32_t layer, enum role matrix,
                                const struct act *x, struct act *y, struct error *err) {
    TRY(step_product(step, layer, matrix, x, y, err));
    const float *bias = step_vector(step, layer, common_biases[matrix]);
    if (bias != NULL)
        step->backend->ops->add_bias(step->backend, bias, y);
    return SL_OK;
}

/* Each head of x normalised by itself, or all together, where the model has such norms. */
static void common_head_norm(struct step *step, uint32_t layer, enum role role, struct act *x) {
    const float *weight = step_vector(step, layer, role);
    size_t group = step->config->has_whole_qk_norm ? x->features : step->config->head_dim;
    if (weight != NULL)
        step->backend->ops->rms_norm(step->backend, x, weight, group, step->config->norm_eps, x);
}

/* to = norm(from): an RMS norm, or a layer norm without bias, which takes the mean out first. */
static void common_norm(struct step *step, const struct act *from, const float *weight,
                        struct act *to) {
    const struct config *config = step->config;
    const struct backend_ops *ops = step->backend->ops;
    if (config->has_layer_norm) {
        const struct feature_range all = {0, 1, 0, config->hidden};
        if (from != to)
            ops->copy(step->backend, from, &all, to);
        ops->centre(step->backend, to);
        from = to;
    }
    ops->rms_norm(step->backend, from, weight, config->hidden, config->norm_eps, to);
}

const struct act *arch_common_input(struct step *step, uint32_t layer, enum role norm) {
    const float *weight = step_vector(step, layer, norm);
    if (weight == NULL)
        return &step->h;
    common_norm(step, &step->h, weight, &step->x);
    return &step->x;
}

void arch_common_add(struct step *step, uint32_t layer, enum role norm) {
    struct backend *backend = step->backend;
    const float *weight = step_vector(step, layer, norm);
    if (weight != NULL)
        backend->ops->rms_norm(backend, &step->y, weight, step->config->hidden,
                               step->config->norm_eps, &step->y);
    if (step->config->residual_scale != 1.0)
        backend->ops->scale(backend, (float)step->config->residual_scale, 0.0f, &step->y);
    backend->ops->add(backend, &step->y, &step->h);
}

static void common_rotate(struct step *step, uint32_t layer) {
    const struct config *config = step->config;
    const struct rope_table *rope = step_rope(step, layer);
    if (rope == NULL)
        return;
    step->backend->ops->rope(step->backend, rope, config->heads, config->head_dim, &step->q);
    step->backend->ops->rope(step->backend, rope, config->kv_heads, config->head_dim, &step->k);
    if (!config->has_plain_head_norm)
        return;
    struct act *both[2] = {&step->q, &step->k};
    for (int i = 0; i < 2; i++)
        step->backend->ops->rms_norm(step->backend, both[i], NULL, config->head_dim,
                                     config->norm_eps, both[i]);
}

/* step->q; where each head's gate lies behind it, that into step->attend_gate. */
static enum status common_queries(struct step *step, uint32_t layer, const struct act *x,
                                  struct error *err) {
    const struct config *config = step->config;
    struct backend *backend = step->backend;
    size_t size = config->head_dim;
    if (!config->has_output_gate)
        return arch_common_project(step, layer, ROLE_Q, x, &step->q, err);
    TRY(arch_common_project(step, layer, ROLE_Q, x, &step->gated_q, err));
    for (size_t head = 0; head < config->heads; head++) {
        struct feature_range range = {2 * head * size, 1, head * size, size};
        backend->ops->copy(backend, &step->gated_q, &range, &step->q);
        range.from += size;
        backend->ops->copy(backend, &step->gated_q, &range, &step->attend_gate);
    }
    return SL_OK;
}

enum status arch_common_attend(struct step *step, uint32_t layer, struct error *err) {
    const struct config *config = step->config;
    struct backend *backend = step->backend;
    const struct backend_ops *ops = backend->ops;
    const struct act *x = arch_common_input(step, layer, ROLE_ATTEND_NORM);
    TRY(common_queries(step, layer, x, err));
    TRY(arch_common_project(step, layer, ROLE_K, x, &step->k, err));
    TRY(arch_common_project(step, layer, ROLE_V, x, &step->v, err));
    common_head_norm(step, layer, ROLE_Q_NORM, &step->q);
    common_head_norm(step, layer, ROLE_K_NORM, &step->k);
    common_rotate(step, layer);
    step_scale_queries(step, layer);
    ops->kv_write(backend, &step->kv_layers[layer], step->kv_tokens, &step->k, &step->v);
    bool is_windowed = config->is_windowed != NULL && config->is_windowed[layer];
    struct attention_args args = {
        .kv = &step->kv_layers[layer],
        .tokens = step->kv_tokens,
        .heads = config->heads,
        .scale = (float)config->score_scale,
        .cap = (float)config->score_cap,
        .window = is_windowed ? config->window : 0,
        .is_chunked = config->is_chunked,
        .sinks = step_vector(step, layer, ROLE_SINKS),
    };
    ops->attention(backend, &args, &step->q, &step->a);
    if (config->has_output_gate)
        ops->sigmoid_mul(backend, &step->attend_gate, &step->a);
    TRY(arch_common_project(step, layer, ROLE_O, &step->a, &step->y, err));
    arch_common_add(step, layer, ROLE_ATTEND_POST_NORM);
    return SL_OK;
}

void arch_common_activate(struct step *step, const struct act *gate, struct act *up) {
    const struct backend_ops *ops = step->backend->ops;
    if (step->config->activation == ACTIVATION_GELU_TANH)
        ops->gelu_mul(step->backend, gate, up);
    else
        ops->silu_mul(step->backend, gate, up);
}

enum status arch_common_mlp(struct step *step, uint32_t layer, struct error *err) {
    bool is_parallel = step->config->is_parallel; /* then x is what attention read */
    const struct act *x = is_parallel ? &step->x : arch_common_input(step, layer, ROLE_MLP_NORM);
    TRY(arch_common_project(step, layer, ROLE_GATE, x, &step->gate, err));
    TRY(arch_common_project(step, layer, ROLE_UP, x, &step->up, err));
    arch_common_activate(step, &step->gate, &step->up);
    TRY(arch_common_project(step, layer, ROLE_DOWN, &step->up, &step->y, err));
    arch_common_add(step, layer, ROLE_MLP_POST_NORM);
    return SL_OK;
}

enum status arch_common_head(struct step *step, struct error *err) {
    struct backend *backend = step->backend;
    const struct config *config = step->config;
    if (step->logit_count == 0)
        return SL_OK; /* and the head is not read */
    backend->ops->select(backend, &step->h, step->logit_columns, step->logit_count, &step->picked);
    common_norm(step, &step->picked, step_vector(step, 0, ROLE_FINAL_NORM), &step->picked);
    TRY(step_product(step, 0, ROLE_HEAD, &step->picked, &step->logits, err));
    if (config->logit_scale != 1.0 || config->logit_cap != 0)
        backend->ops->scale(backend, (float)config->logit_scale, (float)config->logit_cap,
                            &step->logits);
    return SL_OK;
}

const struct arch_math arch_common_math = {
    .attend_order = arch_common_attend_order,
    .mlp_order = arch_common_mlp_order,
    .embed = arch_common_embed,
    .attend = arch_common_attend,
    .mlp = arch_common_mlp,
    .head = arch_common_head,
};

/* layer_types: one word a layer. */
static enum status common_layer_types(const struct json *types, const char *name,
                                      struct config *out, struct error *err) {
    if (!json_is(types, JSON_ARRAY) || types->count != out->layers)
        return error_set(err, SL_ERR_ENV, "%s: layer_types must be a list of %u words", name,
                         out->layers);
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        struct str word;
        if (!json_string(&types->items[layer], &word))
            return error_set(err, SL_ERR_ENV, "%s: layer_types[%u] is not a text", name, layer);
        if (str_is(word, "sliding_attention"))
            out->is_windowed[layer] = true;
        else if (!str_is(word, "full_attention"))
            return error_set(err, SL_ERR_ENV,
                             "%s: layer_types[%u] is \"%.*s\", which family %s does not have here",
                             name, layer, STR_ARG(word), out->family);
    }
    return SL_OK;
}

enum status arch_common_window(const struct json *config, const char *name, uint64_t first_layer,
                               struct config *out, struct error *err) {
    const struct json *window = json_get(config, "sliding_window");
    const struct json *types = json_get(config, "layer_types");
    bool has_window = window != NULL && !json_is(window, JSON_NULL);
    bool has_types = types != NULL && !json_is(types, JSON_NULL);
    uint64_t keys = 0;
    if (has_window && (!json_u64(window, &keys) || keys == 0 || keys > UINT32_MAX))
        return error_set(err, SL_ERR_ENV, "%s: sliding_window is not a positive whole number",
                         name);
    if (!has_window && !has_types)
        return SL_OK;
    out->is_windowed = arena_array(&out->arena, out->layers, sizeof *out->is_windowed);
    if (out->is_windowed == NULL)
        return error_memory(err, out->layers, "the layers' windows");
    if (has_types)
        TRY(common_layer_types(types, name, out, err));
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        if (!has_types)
            out->is_windowed[layer] = layer >= first_layer;
        if (out->is_windowed[layer] && !has_window)
            return error_set(err, SL_ERR_ENV,
                             "%s: layer_types has sliding_attention but there is no sliding_window",
                             name);
    }
    out->window = (uint32_t)keys;
    return SL_OK;
}

enum status arch_common_rope_interval(uint64_t interval, struct config *out, struct error *err) {
    TRY(config_layer_flags(out, &out->skips_rope, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->skips_rope[layer] = ((uint64_t)layer + 1) % interval == 0;
    return SL_OK;
}

enum status arch_common_rope_layers(const struct json *config, const char *name, uint64_t interval,
                                    struct config *out, struct error *err) {
    const struct json *list = json_get(config, "no_rope_layers");
    const struct json *value = json_get(config, "no_rope_layer_interval");
    uint64_t rotates = 0;
    if (value != NULL && !json_is(value, JSON_NULL) &&
        (!json_u64(value, &interval) || interval == 0))
        return error_set(err, SL_ERR_ENV,
                         "%s: no_rope_layer_interval is not a positive whole number", name);
    TRY(arch_common_rope_interval(interval, out, err));
    if (list == NULL || json_is(list, JSON_NULL) || (json_is(list, JSON_ARRAY) && list->count == 0))
        return SL_OK;
    if (!json_is(list, JSON_ARRAY) || list->count < out->layers)
        return error_set(err, SL_ERR_ENV, "%s: no_rope_layers must be a list of %u numbers", name,
                         out->layers);
    for (uint32_t layer = 0; layer < out->layers; layer++) {
        if (!json_u64(&list->items[layer], &rotates) || rotates > 1)
            return error_set(err, SL_ERR_ENV, "%s: no_rope_layers[%u] is neither 0 nor 1", name,
                             layer);
        out->skips_rope[layer] = rotates == 0;
    }
    return SL_OK;
}

enum status arch_common_no_window(const struct json *config, const char *name, struct config *out,
                                  struct error *err) {
    const struct json *window = json_get(config, "sliding_window");
    const struct json *types = json_get(config, "layer_types");
    uint64_t keys = 0;
    if (window != NULL && !json_is(window, JSON_NULL) &&
        (!json_u64(window, &keys) || keys < out->context))
        return error_set(err, SL_ERR_ENV,
                         "%s: sliding_window is set, which family %s does not have", name,
                         out->family);
    for (uint32_t layer = 0; json_is(types, JSON_ARRAY) && layer < types->count; layer++) {
        struct str word = STR("?");
        json_string(&types->items[layer], &word);
        if (!str_is(word, "full_attention"))
            return error_set(err, SL_ERR_ENV,
                             "%s: layer_types[%u] is \"%.*s\", which family %s does not have here",
                             name, layer, STR_ARG(word), out->family);
    }
    return SL_OK;
}

/* Slides in all layers but each `pattern`th one. */
static enum status common_pattern(uint64_t window, uint64_t pattern, struct config *out,
                                  struct error *err) {
    out->window = (uint32_t)window;
    TRY(config_layer_flags(out, &out->is_windowed, err));
    for (uint32_t layer = 0; layer < out->layers; layer++)
        out->is_windowed[layer] = pattern == 0 || ((uint64_t)layer + 1) % pattern != 0;
    return SL_OK;
}

enum status arch_common_pattern_window(const struct json *config, const char *name,
                                       uint64_t pattern, uint32_t window, struct config *out,
                                       struct error *err) {
    const struct json *types = json_get(config, "layer_types");
    const struct json *value = json_get(config, "sliding_window");
    uint64_t keys = window;
    if (types != NULL && !json_is(types, JSON_NULL))
        return arch_common_window(config, name, 0, out, err);
    if (json_is(value, JSON_NULL))
        return SL_OK;
    if (value != NULL && (!json_u64(value, &keys) || keys == 0 || keys > UINT32_MAX))
        return error_set(err, SL_ERR_ENV, "%s: sliding_window is not a positive whole number",
                         name);
    return common_pattern(keys, pattern, out, err);
}

enum status arch_common_meta_window(struct meta_reader *reader, uint64_t pattern,
                                    struct config *out, struct error *err) {
    const char *key = meta_reader_key(reader, "attention.sliding_window");
    int64_t keys = out->window, every = (int64_t)pattern;
    if (meta_find(reader->meta, key) != NULL &&
        (!meta_integer(reader->meta, key, &keys) || keys < 0 || keys > UINT32_MAX))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a whole number", reader->name, key);
    key = meta_reader_key(reader, "attention.sliding_window_pattern");
    const struct meta_value *value = meta_find(reader->meta, key);
    bool is_list = value != NULL && value->kind == META_ARRAY && value->item_kind == META_BOOL;
    if (is_list ? value->array.count < out->layers
                : value != NULL && (!meta_integer(reader->meta, key, &every) || every < 1))
        return error_set(err, SL_ERR_ENV,
                         "%s: %s is neither a positive whole number nor a list of one truth value "
                         "for each layer",
                         reader->name, key);
    if (keys == 0)
        return SL_OK;
    TRY(common_pattern((uint64_t)keys, (uint64_t)every, out, err));
    for (uint32_t layer = 0; is_list && layer < out->layers; layer++)
        out->is_windowed[layer] = value->array.truths[layer];
    return SL_OK;
}

#define COMMON_FIRST_WINDOWED 28u /* max_window_layers where the config leaves it out */

enum status arch_common_flagged_window(const struct json *config, const char *name,
                                       struct config *out, struct error *err) {
    const struct json *use = json_get(config, "use_sliding_window");
    const struct json *first = json_get(config, "max_window_layers");
    const struct json *types = json_get(config, "layer_types");
    bool has_types = types != NULL && !json_is(types, JSON_NULL);
    bool is_used = false, is_said = json_bool(use, &is_used);
    uint64_t first_layer = COMMON_FIRST_WINDOWED;
    if (use != NULL && !is_said && !json_is(use, JSON_NULL))
        return error_set(err, SL_ERR_ENV, "%s: use_sliding_window is not true or false", name);
    if (first != NULL && !json_is(first, JSON_NULL) && !json_u64(first, &first_layer))
        return error_set(err, SL_ERR_ENV, "%s: max_window_layers is not a whole number", name);
    /* Without the flag a list of layer types still decides; else the window is off. */
    if (!is_used && (is_said || !has_types))
        return SL_OK;
    return arch_common_window(config, name, first_layer, out, err);
}
