/* Products: cuts the rows of a matrix into items and shares them out. An item is whole outputs for
 * all tokens of the pass, so how rows are cut and who computes them cannot change a bit. */
#include "backend/cpu/kernels.h"

/* Rows of one call of the inner kernel, the most that it computes at once. */
#define PART_ROWS ((size_t)12)
/* Pairs of features that are packed at once, and how many such items one thread does alone. */
#define PACK_PAIRS ((size_t)128)
#define PACK_ITEMS_ALONE ((size_t)24)

/* The blocks of rows of a panel lie far apart and each is short, too short for the processor to
 * notice that it is read in order; asking for all of them at once would wait as long as not asking.
 */
struct cpu_prefetch cpu_prefetch_after(const struct cpu_product *task,
                                       const struct cpu_place *place) {
    const struct view *w = task->w;
    const struct dtype_info *format = dtype_get(w->dtype);
    size_t row = place->row, next = place->column + place->columns;
    if (next >= w->columns) {
        next = 0;
        row += task->rows_ahead;
    }
    size_t len = w->columns - next < place->columns ? w->columns - next : place->columns;
    size_t left = row >= w->rows ? 0 : w->rows - row;
    return (struct cpu_prefetch){
        .at = left == 0 ? NULL : cpu_weights(w, format, row, next),
        .row_bytes = w->row_bytes,
        .block_bytes = len / format->block_values * format->block_bytes,
        .rows = left < place->rows ? left : place->rows,
    };
}

/* The share of one multiplication. */
static void prefetch_step(struct cpu_prefetch *prefetch) {
    size_t from = prefetch->rows * prefetch->done / prefetch->steps;
    size_t to = prefetch->rows * ++prefetch->done / prefetch->steps;
    for (size_t row = from; row < to; row++)
        for (size_t i = 0; i < prefetch->block_bytes; i += CACHE_LINE)
            __builtin_prefetch(prefetch->at + row * prefetch->row_bytes + i, 0, 2);
}

/* A decoded panel times all tiles. */
static void multiply_tiles(const struct cpu_panel_set *set, const struct cpu_product *task,
                           size_t row, size_t column, const struct cpu_panel *whole) {
    const struct act *x = task->x;
    size_t tiles = act_tiles(x->tokens), parts = (whole->rows + PART_ROWS - 1) / PART_ROWS;
    struct cpu_place place = {
        .row = row, .rows = whole->rows, .column = column, .columns = SL_CHAIN};
    struct cpu_prefetch prefetch = cpu_prefetch_after(task, &place);
    prefetch.steps = tiles * parts;
    struct cpu_panel panel = *whole;
    for (size_t tile = 0; tile < tiles; tile++) {
        size_t rest = x->tokens - tile * SL_LANES;
        panel.x = act_tile(x, tile) + column * SL_LANES;
        panel.lanes = rest < SL_LANES ? rest : SL_LANES;
        for (size_t part = 0; part < whole->rows; part += PART_ROWS) {
            panel.w = whole->w + part * CPU_PANEL_STRIDE;
            panel.y = act_tile(task->y, tile) + (task->first_row + row + part) * SL_LANES;
            panel.rows = whole->rows - part < PART_ROWS ? whole->rows - part : PART_ROWS;
            prefetch_step(&prefetch);
            set->multiply(&panel);
        }
    }
}

void product_panels(const struct cpu_panel_set *set, const struct cpu_product *task, size_t first,
                    size_t count, float *scratch) {
    const struct view *w = task->w;
    for (size_t row = first; row < first + count; row += CPU_PANEL_ROWS) {
        size_t rest = first + count - row;
        struct cpu_panel panel = {.w = scratch,
                                  .rows = rest < CPU_PANEL_ROWS ? rest : CPU_PANEL_ROWS};
        for (size_t column = 0; column < w->columns; column += SL_CHAIN) {
            panel.is_first = column == 0;
            panel.count = w->columns - column < SL_CHAIN ? w->columns - column : SL_CHAIN;
            for (size_t r = 0; r < panel.rows; r++)
                cpu_decode(set->decoders, w, row + r, column, panel.count,
                           scratch + r * CPU_PANEL_STRIDE);
            multiply_tiles(set, task, row, column, &panel);
        }
    }
}

struct product_run {
    struct cpu_product task;
    const struct cpu_backend *cpu;
    size_t item_rows;
    size_t pack_items; /* of a tile */
};

static void product_item(void *ctx, size_t item, size_t worker) {
    const struct product_run *run = ctx;
    size_t first = item * run->item_rows, rest = run->task.w->rows - first;
    run->cpu->products.product(&run->task, first, rest < run->item_rows ? rest : run->item_rows,
                               cpu_scratch(run->cpu, worker));
}

/* Rows of an item: a whole panel, which uses what it loads of x most often, unless that leaves
 * fewer than four items to a thread, so that nobody waits long for the last one. Halves of a panel
 * are multiples of what the widest inner kernel computes at once. */
static size_t rows_of_item(size_t rows, size_t most, size_t threads) {
    size_t item_rows = most;
    while (item_rows > 16 && rows < item_rows * threads * 4)
        item_rows /= 2;
    return threads == 1 ? most : item_rows;
}

static void pack_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct product_run *run = ctx;
    const struct act *x = run->task.x;
    size_t tile = item / run->pack_items, first = item % run->pack_items * PACK_PAIRS;
    size_t pairs = cpu_pairs(x->features), rest = pairs - first;
    run->cpu->products.pack(x, tile, first, rest < PACK_PAIRS ? rest : PACK_PAIRS,
                            run->cpu->packed + tile * pairs * SL_LANES);
}

/* Rounds x to bf16. What one thread does in a few microseconds is not worth waking others. */
static void pack(struct product_run *run, struct team *team) {
    const struct act *x = run->task.x;
    run->pack_items = (cpu_pairs(x->features) + PACK_PAIRS - 1) / PACK_PAIRS;
    size_t items = act_tiles(x->tokens) * run->pack_items;
    if (items > PACK_ITEMS_ALONE)
        team_run(team, pack_item, run, items);
    else
        for (size_t item = 0; item < items; item++)
            pack_item(run, item, 0);
    run->task.packed = run->cpu->packed;
}

static void run_product(struct cpu_backend *cpu, const struct cpu_product *task) {
    struct product_run run = {
        .task = *task,
        .cpu = cpu,
        .item_rows = rows_of_item(task->w->rows, cpu->products.item_rows, cpu->threads),
    };
    run.task.rows_ahead = run.item_rows * cpu->threads;
    if (cpu->packed)
        pack(&run, cpu->base.team);
    team_run(cpu->base.team, product_item, &run,
             (task->w->rows + run.item_rows - 1) / run.item_rows);
}

/* Tiles first .. of an act as an act of its own. */
static struct act slice_of(const struct act *act, size_t first, size_t tiles) {
    struct act slice = *act;
    size_t rest = act->tokens - first * SL_LANES;
    slice.data = act_tile(act, first);
    slice.tokens = rest < tiles * SL_LANES ? rest : tiles * SL_LANES;
    return slice;
}

void cpu_product(struct backend *backend, const struct view *w, const struct act *x, struct act *y,
                 size_t first_row) {
    struct cpu_backend *cpu = cpu_from(backend);
    must(x->features == w->columns);
    must(x->tokens == y->tokens);
    must(first_row <= y->features && w->rows <= y->features - first_row);
    must(w->columns % dtype_get(w->dtype)->block_values == 0);
    if (x->tokens == 0 || w->rows == 0)
        return;
    size_t tiles = act_tiles(x->tokens), step = tiles;
    if (cpu->packed && w->columns > 0)
        step = cpu->packed_words / (cpu_pairs(w->columns) * SL_LANES);
    must(step > 0);
    for (size_t tile = 0; tile < tiles; tile += step) {
        struct act x_slice = slice_of(x, tile, step), y_slice = slice_of(y, tile, step);
        struct cpu_product task = {.w = w, .x = &x_slice, .y = &y_slice, .first_row = first_row};
        run_product(cpu, &task);
    }
}
