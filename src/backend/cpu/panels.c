/* Products by panels, the way of every vector set for more than a few tokens. An item is walked
 * block by block: columns outside, so that its panels meet the same part of x while that is near;
 * rows inside. A block is decoded into scratch and multiplied with all tiles before the next. */
#include "backend/cpu/kernels.h"

/* Rows and columns of w that are decoded together. */
struct block {
    size_t row, rows, column, columns;
};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The block after this one in the item; at its end the first of the item that this worker probably
 * does next, without rows if there is none. */
static struct block block_after(const struct cpu_product *task, const struct block *block,
                                const struct block *item, size_t panel_rows) {
    const struct view *w = task->w;
    size_t row = block->row + block->rows, column = block->column, end = item->row + item->rows;
    if (row == end) {
        row = item->row;
        column += SL_CHAIN;
    }
    if (column >= w->columns) {
        row = item->row + task->rows_ahead;
        column = 0;
        end = row < w->rows ? w->rows : row;
    }
    return (struct block){
        .row = row,
        .rows = smaller(end - row, panel_rows),
        .column = column,
        .columns = smaller(w->columns - column, SL_CHAIN),
    };
}

/* `calls` multiplications ask for it. */
static struct cpu_ahead ahead_of(const struct view *w, const struct block *next, size_t calls) {
    const struct dtype_info *format = dtype_get(w->dtype);
    struct cpu_ahead ahead = {.row_bytes = w->row_bytes};
    if (next->rows == 0)
        return ahead;
    size_t steps = calls * (SL_CHAIN / CPU_AHEAD_COLUMNS);
    ahead.row = cpu_weights(w, format, next->row, next->column);
    ahead.block_bytes = next->columns / format->block_values * format->block_bytes;
    ahead.lines = next->rows * ((ahead.block_bytes + CACHE_LINE - 1) / CACHE_LINE);
    ahead.lines_a_step = (ahead.lines + steps - 1) / steps;
    return ahead;
}

/* A decoded block times all tiles. */
static void multiply_tiles(const struct cpu_panel_set *set, const struct cpu_product *task,
                           const struct block *block, struct cpu_panel *panel) {
    const struct act *x = task->x;
    size_t tiles = act_tiles(x->tokens);
    for (size_t tile = 0; tile < tiles; tile += panel->tiles) {
        panel->tiles = smaller(tiles - tile, set->tiles);
        panel->lanes = smaller(x->tokens - (tile + panel->tiles - 1) * SL_LANES, SL_LANES);
        panel->x = act_tile(x, tile) + block->column * SL_LANES;
        panel->y = act_tile(task->y, tile) + (task->first_row + block->row) * SL_LANES;
        set->multiply(panel);
    }
}

void product_panels(const struct cpu_panel_set *set, const struct cpu_product *task, size_t first,
                    size_t count, float *scratch) {
    const struct view *w = task->w;
    const struct block item = {.row = first, .rows = count};
    size_t calls = (act_tiles(task->x->tokens) + set->tiles - 1) / set->tiles;
    size_t blocks = (count + set->rows - 1) / set->rows;
    blocks *= (w->columns + SL_CHAIN - 1) / SL_CHAIN;
    struct block block = {first, smaller(count, set->rows), 0, smaller(w->columns, SL_CHAIN)};
    for (size_t i = 0; i < blocks; i++) {
        struct block next = block_after(task, &block, &item, set->rows);
        struct cpu_ahead ahead = ahead_of(w, &next, calls);
        struct cpu_panel panel = {
            .w = scratch,
            .rows = block.rows,
            .count = block.columns,
            .x_step = task->x->features * SL_LANES,
            .y_step = task->y->features * SL_LANES,
            .is_first = block.column == 0,
            .ahead = &ahead,
        };
        for (size_t r = 0; r < block.rows; r++)
            cpu_decode(set->decoders, w, block.row + r, block.column, block.columns,
                       scratch + r * CPU_PANEL_STRIDE);
        multiply_tiles(set, task, &block, &panel);
        block = next;
    }
}
