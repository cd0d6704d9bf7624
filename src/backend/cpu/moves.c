/* What experts and compressed attention need besides products: tokens added to their columns,
 * features moved between acts, and columns of a matrix as rows. Cuts them into items as ops.c does.
 * Each output is written by one item, in an order of its own inputs alone. */
#include "backend/cpu/kernels.h"

#include <string.h>

/* Rows of a matrix whose columns are taken out: a cache line of output. */
#define ITEM_ROWS ((size_t)16)

struct moves_run {
    const struct cpu_backend *cpu;
    const struct act *x, *y; /* y: what is written */
    const uint32_t *columns;
    const float *weights;
    const struct feature_range *range;
    const struct view *w;
    size_t first, count, parts;
    float *out;
};

/* One tile of x: its tokens' columns are written by nobody else. */
static void scatter_item(void *ctx, size_t item, size_t worker) {
    const struct moves_run *run = ctx;
    size_t first = item * SL_LANES, rest = run->x->tokens - first;
    (void)worker;
    for (size_t lane = 0; lane < (rest < SL_LANES ? rest : SL_LANES); lane++) {
        const float *from = act_at(run->x, 0, first + lane);
        float *to = act_at(run->y, 0, run->columns[first + lane]);
        float weight = run->weights[first + lane];
        for (size_t f = 0; f < run->y->features; f++)
            to[f * SL_LANES] += weight * from[f * SL_LANES];
    }
}

void cpu_scatter_add(struct backend *backend, const struct act *x, const uint32_t *columns,
                     const float *weights, struct act *y) {
    must(x->features == y->features);
    for (size_t i = 0; i < x->tokens; i++)
        must(columns[i] < y->tokens);
    struct moves_run run = {
        .cpu = cpu_from(backend), .x = x, .y = y, .columns = columns, .weights = weights};
    cpu_share_out(backend, scatter_item, &run, act_tiles(x->tokens), x->tokens * x->features);
}

/* One tile: each lane has its factor. */
static void scale_tokens_item(void *ctx, size_t item, size_t worker) {
    const struct moves_run *run = ctx;
    size_t first = item * SL_LANES, rest = run->y->tokens - first;
    float factors[SL_LANES] = {0}, *y = act_tile(run->y, item);
    (void)worker;
    memcpy(factors, run->weights + first, (rest < SL_LANES ? rest : SL_LANES) * sizeof *factors);
    for (size_t f = 0; f < run->y->features; f++)
        for (size_t lane = 0; lane < SL_LANES; lane++)
            y[f * SL_LANES + lane] *= factors[lane];
}

void cpu_scale_tokens(struct backend *backend, const float *factors, struct act *y) {
    struct moves_run run = {.cpu = cpu_from(backend), .y = y, .weights = factors};
    size_t tiles = act_tiles(y->tokens);
    cpu_share_out(backend, scale_tokens_item, &run, tiles, tiles * y->features * SL_LANES);
}

/* One tile. */
static void copy_item(void *ctx, size_t item, size_t worker) {
    const struct moves_run *run = ctx;
    const struct feature_range *range = run->range;
    const float *from = act_tile(run->x, item) + range->from * SL_LANES;
    float *to = act_tile(run->y, item) + range->to * SL_LANES;
    (void)worker;
    for (size_t i = 0; i < range->count; i++)
        memcpy(to + i * SL_LANES, from + i * range->step * SL_LANES, SL_LANES * sizeof(float));
}

void cpu_copy(struct backend *backend, const struct act *x, const struct feature_range *range,
              struct act *y) {
    must(x->tokens == y->tokens && x != y);
    must(range->count >= 1 && range->step >= 1);
    must(range->from + (range->count - 1) * range->step < x->features);
    must(range->to + range->count <= y->features);
    struct moves_run run = {.cpu = cpu_from(backend), .x = x, .y = y, .range = range};
    size_t tiles = act_tiles(x->tokens);
    cpu_share_out(backend, copy_item, &run, tiles, tiles * range->count * SL_LANES);
}

/* 16 rows x 256 columns. */
static void columns_item(void *ctx, size_t item, size_t worker) {
    const struct moves_run *run = ctx;
    const struct view *w = run->w;
    size_t row = item / run->parts * ITEM_ROWS, column = item % run->parts * SL_CHAIN;
    size_t rows = w->rows - row < ITEM_ROWS ? w->rows - row : ITEM_ROWS;
    size_t len = run->count - column < SL_CHAIN ? run->count - column : SL_CHAIN;
    float *values = cpu_scratch(run->cpu, worker);
    for (size_t r = 0; r < rows; r++)
        view_decode(w, row + r, run->first + column, len, values + r * SL_CHAIN);
    for (size_t c = 0; c < len; c++)
        for (size_t r = 0; r < rows; r++)
            run->out[(column + c) * w->rows + row + r] = values[r * SL_CHAIN + c];
}

_Static_assert(ITEM_ROWS *SL_CHAIN <= CPU_SCRATCH_FLOATS, "an item in scratch");

void cpu_columns(struct backend *backend, const struct view *w, size_t first, size_t count,
                 float *out) {
    must(first % SL_CHAIN == 0 && first <= w->columns && count <= w->columns - first);
    must(count % SL_CHAIN == 0 || first + count == w->columns);
    must(w->columns % dtype_get(w->dtype)->block_values == 0);
    struct moves_run run = {
        .cpu = cpu_from(backend), .w = w, .first = first, .count = count, .out = out};
    run.parts = size_divide_up(count, SL_CHAIN);
    cpu_share_out(backend, columns_item, &run, size_divide_up(w->rows, ITEM_ROWS) * run.parts,
                  w->rows * count);
}
