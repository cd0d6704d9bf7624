/* Products by panels, the way of every vector set for more than a few tokens: a block of an item is
 * decoded into scratch and multiplied with all tiles before the next. And how items are walked. */
#include "backend/cpu/kernels.h"

#include "base/mem.h"

struct cpu_place cpu_first_block(const struct cpu_walk *walk) {
    return (struct cpu_place){
        .row = walk->first,
        .rows = size_min(walk->count, walk->rows),
        .columns = size_min(walk->task->w->columns, walk->columns),
    };
}

size_t cpu_block_count(const struct cpu_walk *walk) {
    return size_divide_up(walk->count, walk->rows) *
           size_divide_up(walk->task->w->columns, walk->columns);
}

struct cpu_place cpu_block_after(const struct cpu_walk *walk, const struct cpu_place *block) {
    const struct view *w = walk->task->w;
    size_t end = walk->first + walk->count, row = block->row + block->rows, column = block->column;
    if (row == end) {
        row = walk->first;
        column += walk->columns;
    }
    if (column >= w->columns) {
        row = walk->first + walk->task->rows_ahead;
        column = 0;
        end = row < w->rows ? w->rows : row;
    }
    return (struct cpu_place){
        .row = row,
        .rows = size_min(end - row, walk->rows),
        .column = column,
        .columns = size_min(w->columns - column, walk->columns),
    };
}

struct cpu_ahead cpu_ahead_of(const struct view *w, const struct cpu_place *next, size_t steps) {
    const struct dtype_info *format = dtype_get(w->dtype);
    struct cpu_ahead ahead = {.row_bytes = w->row_bytes};
    if (next->rows == 0)
        return ahead;
    ahead.row = cpu_weights(w, format, next->row, next->column);
    ahead.block_bytes = next->columns / format->block_values * format->block_bytes;
    ahead.lines = next->rows * size_divide_up(ahead.block_bytes, CACHE_LINE);
    ahead.lines_a_step = size_divide_up(ahead.lines, steps);
    return ahead;
}

/* A decoded block times all tiles; after them the first tile at next_column is met. */
static void multiply_tiles(const struct cpu_product *task, const struct cpu_place *block,
                           size_t next_column, struct cpu_panel *panel) {
    const struct cpu_panel_set *set = task->panels;
    const struct act *x = task->x;
    size_t tiles = act_tiles(x->tokens);
    for (size_t tile = 0, next; tile < tiles; tile = next) {
        panel->tiles = size_min(tiles - tile, set->tiles);
        next = tile + panel->tiles;
        panel->lanes = size_min(x->tokens - (next - 1) * SL_LANES, SL_LANES);
        panel->x = act_tile(x, tile) + block->column * SL_LANES;
        panel->y = act_tile(task->y, tile) + (task->first_row + block->row) * SL_LANES;
        panel->x_next_step = next + 1 < tiles || (next == tiles && tiles > 1) ? panel->x_step : 0;
        panel->x_next = next < tiles ? act_tile(x, next) + block->column * SL_LANES
                                     : act_tile(x, 0) + next_column * SL_LANES;
        set->multiply(panel);
    }
}

void product_panels(const struct cpu_product *task, size_t first, size_t count, float *scratch) {
    const struct cpu_panel_set *set = task->panels;
    const struct view *w = task->w;
    const struct cpu_walk walk = {task, first, count, set->rows, SL_CHAIN};
    size_t calls = size_divide_up(act_tiles(task->x->tokens), set->tiles);
    size_t blocks = cpu_block_count(&walk);
    struct cpu_place block = cpu_first_block(&walk);
    for (size_t i = 0; i < blocks; i++) {
        struct cpu_place next = cpu_block_after(&walk, &block);
        size_t steps = calls * size_divide_up(block.columns, CPU_AHEAD_COLUMNS);
        struct cpu_ahead ahead = cpu_ahead_of(w, &next, steps);
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
        multiply_tiles(task, &block, next.column, &panel);
        block = next;
    }
}
