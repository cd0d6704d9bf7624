/* The layers of mixtures of experts. Owns the order of the operations: router, shared expert, then
 * each expert with tokens in rising order, all added to h; so a token's sums do not depend on the
 * others in the pass. Refuses loops over experts: pass.c has them. */
#include "model/arch_mixture.h"

#include "base/num.h"
#include "model/step.h"

const enum role arch_mixture_route_order[] = {
    ROLE_ROUTER, ROLE_SHARED_ROUTER, ROLE_SHARED_GATE, ROLE_SHARED_UP, ROLE_SHARED_DOWN, ROLE_COUNT,
};
const enum role arch_mixture_expert_order[] = {
    ROLE_EXPERT_GATE_UP,
    ROLE_EXPERT_GATE_UP_ROWS,
    ROLE_EXPERT_GATE_UP_BIAS,
    ROLE_EXPERT_GATE,
    ROLE_EXPERT_GATE_BIAS,
    ROLE_EXPERT_UP,
    ROLE_EXPERT_UP_BIAS,
    ROLE_EXPERT_DOWN_IN,
    ROLE_EXPERT_DOWN,
    ROLE_EXPERT_DOWN_BIAS,
    ROLE_COUNT,
};

enum arch_need arch_mixture_need(const struct config *config, enum role role) {
    switch (role) {
    case ROLE_ROUTER:
    case ROLE_EXPERT_GATE:
    case ROLE_EXPERT_UP:
    case ROLE_EXPERT_DOWN:
        return ARCH_REQUIRED;
    case ROLE_SHARED_GATE:
    case ROLE_SHARED_UP:
    case ROLE_SHARED_DOWN:
        return config->mixture.shared_inner > 0 ? ARCH_REQUIRED : ARCH_ABSENT;
    case ROLE_ROUTER_CORRECTION:
        return config->mixture.score == MIXTURE_SIGMOID ? ARCH_REQUIRED : ARCH_ABSENT;
    default:
        return arch_common_need(config, role);
    }
}

/* step->expert_gate and expert_up of all tokens, for the shared expert. */
static enum status mixture_shared(struct step *step, uint32_t layer, struct error *err) {
    struct backend *backend = step->backend;
    uint32_t inner = step->config->mixture.shared_inner;
    bool is_gated = model_matrix(step->model, layer, ROLE_SHARED_ROUTER) != NULL;
    if (is_gated) {
        act_shape(&step->expert_x, 1, step->tokens);
        TRY(step_product(step, layer, ROLE_SHARED_ROUTER, &step->x, &step->expert_x, err));
        for (size_t token = 0; token < step->tokens; token++) {
            step->gather_columns[token] = (uint32_t)token;
            step->gather_weights[token] = num_sigmoid(*act_at(&step->expert_x, 0, token));
        }
    }
    act_shape(&step->expert_gate, inner, step->tokens);
    act_shape(&step->expert_up, inner, step->tokens);
    act_shape(&step->expert_y, step->config->hidden, step->tokens);
    TRY(step_product(step, layer, ROLE_SHARED_GATE, &step->x, &step->expert_gate, err));
    TRY(step_product(step, layer, ROLE_SHARED_UP, &step->x, &step->expert_up, err));
    arch_common_activate(step, &step->expert_gate, &step->expert_up);
    TRY(step_product(step, layer, ROLE_SHARED_DOWN, &step->expert_up, &step->expert_y, err));
    if (is_gated)
        backend->ops->scatter_add(backend, &step->expert_y, step->gather_columns,
                                  step->gather_weights, &step->h);
    else
        backend->ops->add(backend, &step->expert_y, &step->h);
    return SL_OK;
}

enum status arch_mixture_route(struct step *step, uint32_t layer, struct error *err) {
    struct backend *backend = step->backend;
    const float *bias = step_vector(step, layer, ROLE_ROUTER_BIAS);
    backend->ops->rms_norm(backend, &step->h, step_vector(step, layer, ROLE_MLP_NORM),
                           step->config->hidden, step->config->norm_eps, &step->x);
    TRY(step_product(step, layer, ROLE_ROUTER, &step->x, &step->router, err));
    if (bias != NULL)
        backend->ops->add_bias(backend, bias, &step->router);
    step_route(step, layer);
    return step->config->mixture.shared_inner > 0 ? mixture_shared(step, layer, err) : SL_OK;
}

static bool mixture_has(const struct step *step, uint32_t layer, enum role role) {
    struct layout_item item;
    return model_item(step->model, layer, 0, role, &item);
}

/* An expert of a layer. */
struct mixture_expert {
    struct step *step;
    uint32_t layer, number;
};

/* y = W x + bias, whichever way W lies. */
static enum status mixture_product(const struct mixture_expert *expert, enum role matrix,
                                   enum role bias, const struct act *x, struct act *y,
                                   struct error *err) {
    struct step *step = expert->step;
    const float *values;
    if (role_get(matrix)->is_whole) { /* [inputs, outputs] */
        struct view view;
        TRY(step_whole(step, expert->layer, expert->number, matrix, &view, err));
        step_product_columns(step, &view, x, y, 0);
    } else {
        TRY(step_expert_product(step, expert->layer, expert->number, matrix, x, y, err));
    }
    TRY(step_expert_bias(step, expert->layer, expert->number, bias, &values, err));
    if (values != NULL)
        step->backend->ops->add_bias(step->backend, values, y);
    return SL_OK;
}

/* expert_gate and expert_up, from one matrix with both or from two. */
static enum status mixture_gate_up(const struct mixture_expert *expert, struct error *err) {
    struct step *step = expert->step;
    const struct mixture *mixture = &step->config->mixture;
    struct backend *backend = step->backend;
    bool is_turned = mixture_has(step, expert->layer, ROLE_EXPERT_GATE_UP);
    if (!is_turned && !mixture_has(step, expert->layer, ROLE_EXPERT_GATE_UP_ROWS)) {
        TRY(mixture_product(expert, ROLE_EXPERT_GATE, ROLE_EXPERT_GATE_BIAS, &step->expert_x,
                            &step->expert_gate, err));
        return mixture_product(expert, ROLE_EXPERT_UP, ROLE_EXPERT_UP_BIAS, &step->expert_x,
                               &step->expert_up, err);
    }
    TRY(mixture_product(expert, is_turned ? ROLE_EXPERT_GATE_UP : ROLE_EXPERT_GATE_UP_ROWS,
                        ROLE_EXPERT_GATE_UP_BIAS, &step->expert_x, &step->expert_both, err));
    size_t stride = mixture->alternates_gate_up ? 2 : 1;
    size_t up = mixture->alternates_gate_up ? 1 : mixture->inner;
    const struct feature_range gates = {0, stride, 0, mixture->inner};
    const struct feature_range ups = {up, stride, 0, mixture->inner};
    backend->ops->copy(backend, &step->expert_both, &gates, &step->expert_gate);
    backend->ops->copy(backend, &step->expert_both, &ups, &step->expert_up);
    return SL_OK;
}

/* expert_up = act(expert_gate) * expert_up. */
static void mixture_activate(struct step *step) {
    const struct mixture *mixture = &step->config->mixture;
    struct backend *backend = step->backend;
    if (mixture->swiglu_limit > 0)
        backend->ops->swiglu_clipped(backend, &step->expert_gate, mixture->swiglu_alpha,
                                     mixture->swiglu_limit, &step->expert_up);
    else
        arch_common_activate(step, &step->expert_gate, &step->expert_up);
}

enum status arch_mixture_expert_output(struct step *step, uint32_t layer, uint32_t number,
                                       struct error *err) {
    const struct mixture_expert expert = {step, layer, number};
    struct backend *backend = step->backend;
    bool is_turned = mixture_has(step, layer, ROLE_EXPERT_DOWN_IN);
    step_gather(step, number);
    if (step->config->mixture.scales_inputs) {
        backend->ops->scale_tokens(backend, step->gather_weights, &step->expert_x);
        for (size_t i = 0; i < step->expert_x.tokens; i++)
            step->gather_weights[i] = 1.0f;
    }
    act_shape(&step->expert_y, step->config->hidden, step->expert_x.tokens);
    TRY(mixture_gate_up(&expert, err));
    mixture_activate(step);
    return mixture_product(&expert, is_turned ? ROLE_EXPERT_DOWN_IN : ROLE_EXPERT_DOWN,
                           ROLE_EXPERT_DOWN_BIAS, &step->expert_up, &step->expert_y, err);
}

enum status arch_mixture_expert(struct step *step, uint32_t layer, uint32_t expert,
                                struct error *err) {
    TRY(arch_mixture_expert_output(step, layer, expert, err));
    step->backend->ops->scatter_add(step->backend, &step->expert_y, step->gather_columns,
                                    step->gather_weights, &step->h);
    return SL_OK;
}

const struct arch_math arch_mixture_math = {
    .attend_order = arch_common_attend_order,
    .mlp_order = arch_common_mlp_order,
    .route_order = arch_mixture_route_order,
    .expert_order = arch_mixture_expert_order,
    .embed = arch_common_embed,
    .attend = arch_common_attend,
    .mlp = arch_common_mlp,
    .route = arch_mixture_route,
    .expert = arch_mixture_expert,
    .head = arch_common_head,
};
