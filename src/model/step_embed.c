/* Owns the way from token ids to activations: rows of embeddings, gathered raw by the team and then
 * widened, instead of whole matrices read. */
#include "model/step.h"

#include <stdatomic.h>

/* Gathering embeddings: items are tiles of 16 tokens; the first failure is kept. */
struct embed_work {
    const struct step *step;
    const struct matrix *matrix;
    uint8_t *rows; /* row_bytes each */
    size_t row_bytes;
    struct view first; /* of the first tile; the others lie behind it in the same way */
    atomic_flag has_failed;
    enum status status;
    struct error *err;
};

static void step_gather_tile(void *ctx, size_t item, size_t worker) {
    struct embed_work *work = ctx;
    const struct step *step = work->step;
    size_t first = item * SL_LANES, left = step->tokens - first;
    size_t count = left < SL_LANES ? left : SL_LANES;
    struct error why;
    struct view view;
    (void)worker;
    enum status status = matrix_gather(&step->model->index, work->matrix, step->ids + first, count,
                                       work->rows + first * work->row_bytes, &view, &why);
    if (status == SL_OK && item == 0)
        work->first = view;
    if (status == SL_OK || atomic_flag_test_and_set(&work->has_failed))
        return;
    work->status = status;
    if (work->err != NULL)
        *work->err = why;
}

/* The rows of work->matrix for this pass's ids, raw. */
static enum status step_gather_ids(struct step *step, struct embed_work *work, struct view *view) {
    team_run(step->backend->team, step_gather_tile, work, act_tiles(step->tokens));
    TRY(work->status);
    *view = work->first;
    view->rows = step->tokens;
    return SL_OK;
}

enum status step_embed(struct step *step, float scale, struct error *err) {
    struct embed_work work = {.step = step,
                              .matrix = model_matrix(step->model, 0, ROLE_EMBED),
                              .rows = step->embed_rows,
                              .row_bytes = step->embed_row_bytes,
                              .has_failed = ATOMIC_FLAG_INIT,
                              .err = err};
    struct view rows;
    TRY(step_gather_ids(step, &work, &rows));
    step->backend->ops->embed(step->backend, &rows, 0, scale, &step->h);
    return SL_OK;
}

enum status step_read_inputs(struct step *step, struct error *err) {
    struct embed_work work = {.step = step,
                              .matrix = model_matrix(step->model, 0, ROLE_INPUTS_EMBED),
                              .rows = step->input_rows,
                              .row_bytes = step->input_row_bytes,
                              .has_failed = ATOMIC_FLAG_INIT,
                              .err = err};
    return step_gather_ids(step, &work, &step->input_view);
}

void step_input(struct step *step, uint32_t layer, float scale) {
    size_t first = (size_t)layer * step->config->layer_input;
    step->backend->ops->embed(step->backend, &step->input_view, first, scale, &step->input);
}
