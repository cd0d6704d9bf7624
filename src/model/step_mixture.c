/* Routing of a pass, and matrices that are used in other ways than row by row. Owns which tokens an
 * expert has and the order in which they are gathered (that of the pass). Refuses to know how
 * tokens are scored (route.c) and what an expert computes (arch_*.c). */
#include "model/route.h"
#include "model/step.h"

void step_route(struct step *step, uint32_t layer) {
    const struct mixture *mixture = &step->config->mixture;
    const float *correction = step_vector(step, layer, ROLE_ROUTER_CORRECTION);
    size_t count = mixture->count, used = mixture->used;
    float *x = step->route_scratch;
    must(step->router.features == count && step->router.tokens == step->tokens);
    for (size_t i = 0; i < count; i++)
        step->expert_tokens[i] = 0;
    for (size_t token = 0; token < step->tokens; token++) {
        uint32_t *experts = step->token_experts + token * used;
        const float *from = act_at(&step->router, 0, token);
        for (size_t i = 0; i < count; i++)
            x[i] = from[i * SL_LANES];
        route_choose(mixture, x, correction, x + count, experts,
                     step->token_weights + token * used);
        for (size_t i = 0; i < used; i++)
            step->expert_tokens[experts[i]]++;
    }
    step->routed_layer = layer;
    step_hint(step);
}

void step_gather(struct step *step, uint32_t expert) {
    const struct mixture *mixture = &step->config->mixture;
    size_t used = mixture->used, count = 0;
    must(expert < mixture->count);
    for (size_t i = 0; i < step->tokens * used; i++) {
        if (step->token_experts[i] != expert)
            continue;
        step->gather_columns[count] = (uint32_t)(i / used);
        step->gather_weights[count++] = step->token_weights[i];
    }
    must(count == step->expert_tokens[expert]);
    act_shape(&step->expert_x, step->config->hidden, count);
    act_shape(&step->expert_gate, mixture->inner, count);
    act_shape(&step->expert_up, mixture->inner, count);
    if (mixture->fuses_gate_up)
        act_shape(&step->expert_both, 2 * (size_t)mixture->inner, count);
    step->backend->ops->select(step->backend, &step->x, step->gather_columns, count,
                               &step->expert_x);
}

void step_product_columns(struct step *step, const struct view *w, const struct act *x,
                          struct act *y, size_t first_row) {
    const struct backend_ops *ops = step->backend->ops;
    for (size_t first = 0; first < w->columns; first += SL_CHAIN) {
        size_t count = w->columns - first < SL_CHAIN ? w->columns - first : SL_CHAIN;
        ops->columns(step->backend, w, first, count, step->columns);
        struct view rows = {
            .dtype = DTYPE_F32,
            .rows = count,
            .columns = w->rows,
            .row_bytes = w->rows * sizeof(float),
            .data = (const uint8_t *)step->columns,
        };
        ops->product(step->backend, &rows, x, y, first_row + first);
    }
}

enum status step_expert_bias(struct step *step, uint32_t layer, uint32_t expert, enum role role,
                             const float **values, struct error *err) {
    struct layout_item item;
    struct view view;
    *values = NULL;
    if (!model_item(step->model, layer, expert, role, &item))
        return SL_OK;
    TRY(step_whole(step, layer, expert, role, &view, err));
    must(view.rows == 1);
    view_decode(&view, 0, 0, view.columns, step->bias);
    *values = step->bias;
    return SL_OK;
}
