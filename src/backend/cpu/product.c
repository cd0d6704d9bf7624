/* Products: cuts the rows of a matrix into items and shares them out. An item is whole outputs for
 * all tokens of the pass, so how rows are cut and who computes them cannot change a bit. */
#include "backend/cpu/few.h"

/* Rows of one call of the inner kernel, the most that it computes at once. */
#define PART_ROWS ((size_t)12)

/* What will be decoded next, asked for while the panel before it is multiplied. The blocks of rows
 * lie far apart and each is short, too short for the processor to notice that it is read in order;
 * asking for all of them at once would wait as long as not asking. */
struct prefetch {
    const uint8_t *at; /* of the first row */
    size_t row_bytes, block_bytes, rows;
    size_t done, steps; /* multiplications, of how many */
};

static struct prefetch prefetch_of(const struct cpu_product *task, size_t row, size_t column,
                                   size_t rows) {
    const struct view *w = task->w;
    const struct dtype_info *format = dtype_get(w->dtype);
    size_t next = column + SL_CHAIN;
    if (next >= w->columns) {
        next = 0;
        row += task->rows_ahead;
    }
    size_t len = w->columns - next < SL_CHAIN ? w->columns - next : SL_CHAIN;
    rows = row >= w->rows ? 0 : w->rows - row < rows ? w->rows - row : rows;
    return (struct prefetch){
        .at = rows == 0 ? NULL : cpu_weights(w, format, row, next),
        .row_bytes = w->row_bytes,
        .block_bytes = len / format->block_values * format->block_bytes,
        .rows = rows,
    };
}

/* The share of one multiplication. */
static void prefetch_step(struct prefetch *prefetch) {
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
    struct prefetch prefetch = prefetch_of(task, row, column, whole->rows);
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
    void (*compute)(const struct cpu_product *task, size_t first, size_t count, float *scratch);
    size_t item_rows;
};

static void product_item(void *ctx, size_t item, size_t worker) {
    const struct product_run *run = ctx;
    size_t first = item * run->item_rows, rest = run->task.w->rows - first;
    run->compute(&run->task, first, rest < run->item_rows ? rest : run->item_rows,
                 cpu_scratch(run->cpu, worker));
}

/* Rows of an item: a whole panel, which uses what it loads of x most often, unless that leaves
 * fewer than four items to a thread, so that nobody waits long for the last one. A multiple of 12,
 * the outputs that the widest inner kernel computes at once. */
static size_t rows_of_item(size_t rows, size_t threads) {
    size_t item_rows = CPU_PANEL_ROWS;
    while (item_rows > 12 && rows < item_rows * threads * 4)
        item_rows /= 2;
    return threads == 1 ? CPU_PANEL_ROWS : item_rows;
}

/* For few tokens: eight items to a thread, so that memory is read in long runs, but not so long
 * that others wait. */
static size_t rows_of_few_item(size_t rows, size_t threads) {
    size_t item_rows = rows / (8 * threads) / FEW_ROWS * FEW_ROWS;
    return item_rows < FEW_ROWS ? FEW_ROWS : item_rows > 8 * FEW_ROWS ? 8 * FEW_ROWS : item_rows;
}

static bool is_few(const struct cpu_kernels *kernels, const struct view *w, const struct act *x) {
    bool is_decoded = dtype_get(w->dtype)->is_quantised;
    return x->tokens <= (is_decoded ? kernels->few_decoded_max : kernels->few_tokens_max) &&
           w->rows >= FEW_ROWS && w->columns <= CPU_PACKED_FLOATS &&
           few_floats(w->columns, x->tokens) <= CPU_PACKED_FLOATS;
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
    struct product_run run = {
        .task = {.w = w, .x = x, .y = y, .first_row = first_row},
        .cpu = cpu,
        .compute = cpu->kernels->product,
        .item_rows = rows_of_item(w->rows, cpu->threads),
    };
    if (is_few(cpu->kernels, w, x)) {
        few_pack(w->dtype, x, cpu->packed);
        run.task.packed = cpu->packed;
        run.compute = cpu->kernels->few;
        run.item_rows = rows_of_few_item(w->rows, cpu->threads);
    }
    run.task.rows_ahead = run.item_rows * cpu->threads;
    team_run(backend->team, product_item, &run, (w->rows + run.item_rows - 1) / run.item_rows);
}
