/* Products: cuts the rows of a matrix into items and shares them out. An item is whole outputs for
 * all tokens of the pass, so how rows are cut and who computes them cannot change a bit. */
#include "backend/cpu/kernels.h"

struct product_run {
    struct cpu_product task;
    const struct cpu_backend *cpu;
    size_t item_rows;
};

static void product_item(void *ctx, size_t item, size_t worker) {
    const struct product_run *run = ctx;
    size_t first = item * run->item_rows, rest = run->task.w->rows - first;
    run->cpu->kernels->product(&run->task, first, rest < run->item_rows ? rest : run->item_rows,
                               cpu_scratch(run->cpu, worker));
}

/* Rows of an item: a whole panel, which uses what it loads of x most often, unless that leaves
 * fewer than four items to a thread, so that nobody waits long for the last one. A multiple of 12,
 * the outputs that the widest inner kernel computes at once. */
static size_t rows_of_item(size_t rows, size_t threads) {
    size_t item_rows = CPU_ITEM_ROWS;
    while (item_rows > 12 && rows < item_rows * threads * 4)
        item_rows /= 2;
    return threads == 1 ? CPU_ITEM_ROWS : item_rows;
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
        .item_rows = rows_of_item(w->rows, cpu->threads),
    };
    run.task.rows_ahead = run.item_rows * cpu->threads;
    team_run(backend->team, product_item, &run, (w->rows + run.item_rows - 1) / run.item_rows);
}
