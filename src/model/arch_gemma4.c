/* Gemma 4 (text): Gemma 3's layers whose norms hold their factors plainly, with values normalised
 * too and scores that are not scaled; layers that see everything have larger heads, may have fewer
 * of them for keys, and rotate a part of each in proportion; the last layers may read the keys and
 * values of earlier ones. A token brings a small vector into each layer, made of a row of a second
 * embedding and of a projection of the first; a layer's output has a factor of its own. Experts, in
 * models that have them, stand beside the MLP, with norms of their own.
 *
 * Published code: transformers' modeling_gemma4.py and configuration_gemma4.py, rope type
 * proportional in modeling_rope_utils.py; llama.cpp's keys as its converter writes them. There
 * rope_freqs says what is rotated, and layers without attn_v make values from keys.
 *
 * The second embedding is read by row and never held: it is half of the small models' bytes.
 *
 * Refuses attention in both directions (use_bidirectional_attention "all"), per_layer_config with
 * other members than sizes of heads, and a second embedding of another vocabulary. */
#include "model/arch_gemma4.h"

#include "model/step.h"

#include <math.h>

static const enum role gemma4_embed_order[] = {ROLE_INPUTS_PROJECT, ROLE_COUNT};
static const enum role gemma4_finish_order[] = {ROLE_INPUT_GATE, ROLE_INPUT_PROJECT, ROLE_COUNT};

static const struct arch_name gemma4_names[] = {
    {ROLE_MLP_NORM, "model.layers.%u.pre_feedforward_layernorm.weight", NULL},
    {ROLE_ROUTER, "model.layers.%u.router.proj.weight", NULL},
    {ROLE_SHARED_GATE, "model.layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight"},
    {ROLE_SHARED_UP, "model.layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight"},
    {ROLE_SHARED_DOWN, "model.layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight"},
    {ROLE_EXPERT_GATE_UP_ROWS, "model.layers.%u.experts.gate_up_proj",
     "blk.%u.ffn_gate_up_exps.weight"},
    {ROLE_EXPERT_GATE, "model.layers.%u.experts.switch_glu.gate_proj.weight", NULL},
    {ROLE_EXPERT_UP, "model.layers.%u.experts.switch_glu.up_proj.weight", NULL},
    {ROLE_EXPERT_DOWN,
     "model.layers.%u.experts.down_proj|model.layers.%u.experts.switch_glu.down_proj.weight", NULL},
};

static enum arch_need gemma4_need(const struct config *config, enum role role) {
    switch (role) {
    case ROLE_INPUTS_EMBED:
    case ROLE_INPUTS_PROJECT:
    case ROLE_INPUTS_NORM:
    case ROLE_INPUT_GATE:
    case ROLE_INPUT_PROJECT:
    case ROLE_INPUT_NORM:
        return config->layer_input > 0 ? ARCH_REQUIRED : ARCH_ABSENT;
    case ROLE_LAYER_SCALE:
    case ROLE_EXPERT_SCALES:
    case ROLE_EXPERT_GATE_UP_ROWS: /* or the next two: model_bind.c */
    case ROLE_EXPERT_GATE:
    case ROLE_EXPERT_UP:
        return ARCH_OPTIONAL;
    case ROLE_ROUTER:
    case ROLE_SHARED_GATE:
    case ROLE_SHARED_UP:
    case ROLE_SHARED_DOWN:
    case ROLE_EXPERT_DOWN:
    case ROLE_ROUTER_SCALE:
    case ROLE_SHARED_POST_NORM:
    case ROLE_EXPERTS_NORM:
    case ROLE_EXPERTS_POST_NORM:
        return ARCH_REQUIRED;
    default:
        return arch_common_post_norm_need(config, role);
    }
}

/* step->inputs = norm(projection of h), layer by layer: the part of the embedding. */
static enum status gemma4_embed(struct step *step, struct error *err) {
    const struct config *config = step->config;
    const struct backend_ops *ops = step->backend->ops;
    TRY(arch_common_embed(step, err));
    if (config->layer_input == 0)
        return SL_OK;
    TRY(step_read_inputs(step, err));
    TRY(step_product(step, 0, ROLE_INPUTS_PROJECT, &step->h, &step->inputs, err));
    ops->scale(step->backend, (float)(1.0 / sqrt((double)config->hidden)), 0.0f, &step->inputs);
    ops->rms_norm(step->backend, &step->inputs, step_vector(step, 0, ROLE_INPUTS_NORM),
                  config->layer_input, config->norm_eps, &step->inputs);
    return SL_OK;
}

/* Keys and values of a layer that has its own. */
static enum status gemma4_keys(struct step *step, uint32_t layer, const struct act *x,
                               struct error *err) {
    const struct layer_sizes sizes = config_layer(step->config, layer);
    struct backend *backend = step->backend;
    const struct backend_ops *ops = backend->ops;
    const struct rope_table *rope = step_rope(step, layer);
    size_t features = (size_t)sizes.kv_heads * sizes.head_dim;
    float eps = step->config->norm_eps;
    act_shape(&step->k, features, step->tokens);
    act_shape(&step->v, features, step->tokens);
    TRY(arch_common_project(step, layer, ROLE_K, x, &step->k, err));
    if (sizes.shares_values) {
        const struct feature_range all = {0, 1, 0, features};
        ops->copy(backend, &step->k, &all, &step->v);
    } else {
        TRY(arch_common_project(step, layer, ROLE_V, x, &step->v, err));
    }
    ops->rms_norm(backend, &step->k, step_vector(step, layer, ROLE_K_NORM), sizes.head_dim, eps,
                  &step->k);
    ops->rms_norm(backend, &step->v, NULL, sizes.head_dim, eps, &step->v);
    if (rope != NULL)
        ops->rope(backend, rope, sizes.kv_heads, sizes.head_dim, &step->k);
    ops->kv_write(backend, &step->kv_layers[layer], step->kv_tokens, &step->k, &step->v);
    return SL_OK;
}

static enum status gemma4_attend(struct step *step, uint32_t layer, struct error *err) {
    const struct config *config = step->config;
    const struct layer_sizes sizes = config_layer(config, layer);
    struct backend *backend = step->backend;
    const struct backend_ops *ops = backend->ops;
    const struct rope_table *rope = step_rope(step, layer);
    size_t features = (size_t)config->heads * sizes.head_dim;
    const struct act *x = arch_common_input(step, layer, ROLE_ATTEND_NORM);
    act_shape(&step->q, features, step->tokens);
    act_shape(&step->a, features, step->tokens);
    TRY(arch_common_project(step, layer, ROLE_Q, x, &step->q, err));
    ops->rms_norm(backend, &step->q, step_vector(step, layer, ROLE_Q_NORM), sizes.head_dim,
                  config->norm_eps, &step->q);
    if (rope != NULL)
        ops->rope(backend, rope, config->heads, sizes.head_dim, &step->q);
    if (sizes.kv_layer == layer)
        TRY(gemma4_keys(step, layer, x, err));
    struct attention_args args = {
        .kv = &step->kv_layers[layer],
        .tokens = step->kv_tokens,
        .heads = config->heads,
        .scale = (float)config->score_scale,
        .window = config_is_windowed(config, layer) ? config->window : 0,
    };
    ops->attention(backend, &args, &step->q, &step->a);
    TRY(arch_common_project(step, layer, ROLE_O, &step->a, &step->y, err));
    arch_common_add(step, layer, ROLE_ATTEND_POST_NORM);
    return SL_OK;
}

static enum status gemma4_mlp(struct step *step, uint32_t layer, struct error *err) {
    uint32_t inner = config_layer(step->config, layer).inner;
    act_shape(&step->gate, inner, step->tokens);
    act_shape(&step->up, inner, step->tokens);
    return arch_common_mlp(step, layer, err);
}

static void gemma4_norm(struct step *step, uint32_t layer, enum role role, const struct act *from,
                        struct act *to) {
    step->backend->ops->rms_norm(step->backend, from, step_vector(step, layer, role),
                                 step->config->hidden, step->config->norm_eps, to);
}

/* y = the MLP's output, normalised; then x is what the experts read, and their sum is empty. */
static enum status gemma4_beside(struct step *step, uint32_t layer, struct error *err) {
    uint32_t inner = step->config->mixture.shared_inner;
    gemma4_norm(step, layer, ROLE_MLP_NORM, &step->h, &step->x);
    act_shape(&step->expert_gate, inner, step->tokens);
    act_shape(&step->expert_up, inner, step->tokens);
    TRY(step_product(step, layer, ROLE_SHARED_GATE, &step->x, &step->expert_gate, err));
    TRY(step_product(step, layer, ROLE_SHARED_UP, &step->x, &step->expert_up, err));
    arch_common_activate(step, &step->expert_gate, &step->expert_up);
    TRY(step_product(step, layer, ROLE_SHARED_DOWN, &step->expert_up, &step->y, err));
    gemma4_norm(step, layer, ROLE_SHARED_POST_NORM, &step->y, &step->y);
    gemma4_norm(step, layer, ROLE_EXPERTS_NORM, &step->h, &step->x);
    size_t floats = act_floats(step->sum.features, step->sum.tokens);
    for (size_t i = 0; i < floats; i++)
        step->sum.data[i] = 0.0f;
    return SL_OK;
}

/* The router reads h normalised by itself, times factors and 1 / sqrt(hidden). */
static enum status gemma4_route(struct step *step, uint32_t layer, struct error *err) {
    struct backend *backend = step->backend;
    float root = (float)(1.0 / sqrt((double)step->config->hidden));
    gemma4_norm(step, layer, ROLE_ROUTER_SCALE, &step->h, &step->x);
    backend->ops->scale(backend, root, 0.0f, &step->x);
    TRY(step_product(step, layer, ROLE_ROUTER, &step->x, &step->router, err));
    step_route(step, layer);
    return gemma4_beside(step, layer, err);
}

static enum status gemma4_expert(struct step *step, uint32_t layer, uint32_t expert,
                                 struct error *err) {
    const float *scales = step_vector(step, layer, ROLE_EXPERT_SCALES);
    TRY(arch_mixture_expert_output(step, layer, expert, err));
    for (size_t i = 0; scales != NULL && i < step->expert_y.tokens; i++)
        step->gather_weights[i] *= scales[expert];
    step->backend->ops->scatter_add(step->backend, &step->expert_y, step->gather_columns,
                                    step->gather_weights, &step->sum);
    return SL_OK;
}

/* h += norm(Project (gelu(Gate h) * input)). */
static enum status gemma4_take_input(struct step *step, uint32_t layer, struct error *err) {
    struct backend *backend = step->backend;
    const struct backend_ops *ops = backend->ops;
    size_t input = step->config->layer_input;
    const struct feature_range own = {layer * input, 1, 0, input};
    ops->copy(backend, &step->inputs, &own, &step->input_gate);
    step_input(step, layer, (float)sqrt((double)input));
    ops->add(backend, &step->input_gate, &step->input);
    ops->scale(backend, (float)sqrt(0.5), 0.0f, &step->input);
    TRY(step_product(step, layer, ROLE_INPUT_GATE, &step->h, &step->input_gate, err));
    arch_common_activate(step, &step->input_gate, &step->input);
    TRY(step_product(step, layer, ROLE_INPUT_PROJECT, &step->input, &step->y, err));
    arch_common_add(step, layer, ROLE_INPUT_NORM);
    return SL_OK;
}

static enum status gemma4_finish(struct step *step, uint32_t layer, struct error *err) {
    struct backend *backend = step->backend;
    const float *scale = step_vector(step, layer, ROLE_LAYER_SCALE);
    if (config_is_mixture(step->config, layer)) {
        gemma4_norm(step, layer, ROLE_EXPERTS_POST_NORM, &step->sum, &step->sum);
        backend->ops->add(backend, &step->sum, &step->y);
        arch_common_add(step, layer, ROLE_MLP_POST_NORM);
    }
    if (step->config->layer_input > 0)
        TRY(gemma4_take_input(step, layer, err));
    if (scale != NULL)
        backend->ops->scale(backend, *scale, 0.0f, &step->h);
    return SL_OK;
}

static const struct arch_math gemma4_math = {
    .attend_order = arch_common_attend_order,
    .mlp_order = arch_common_mlp_order,
    .route_order = arch_mixture_route_order,
    .expert_order = arch_mixture_expert_order,
    .embed_order = gemma4_embed_order,
    .finish_order = gemma4_finish_order,
    .embed = gemma4_embed,
    .attend = gemma4_attend,
    .mlp = gemma4_mlp,
    .route = gemma4_route,
    .expert = gemma4_expert,
    .finish = gemma4_finish,
    .head = arch_common_head,
};

const struct arch arch_gemma4 = {
    .name = "gemma4",
    .hf_types = (const char *const[]){"gemma4_text", NULL},
    .gguf_names = (const char *const[]){"gemma4", NULL},
    .has_qk_norm = true,
    .ties_by_default = true,
    .has_window_rope = true,
    .has_partial_rope = true,
    .has_layer_sizes = true,
    .activation = ACTIVATION_GELU_TANH,
    .settings =
        (const char *const[]){"final_logit_softcapping", "num_experts",
                              "use_bidirectional_attention", "expert_count", "expert_used_count",
                              "attention.sliding_window", "attention.sliding_window_pattern",
                              "rope.freq_base_swa", NULL},
    .names = gemma4_names,
    .name_count = sizeof gemma4_names / sizeof gemma4_names[0],
    .defaults = {.rope_theta = 1e6, .kv_heads = 4, .head_dim = 256},
    .configure_json = gemma4_configure,
    .configure_meta = gemma4_configure_meta,
    .need = gemma4_need,
    .math = &gemma4_math,
};
