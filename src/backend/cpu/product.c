/* Products: cuts the rows of a matrix into items and shares them out. An item is whole outputs for
 * all tokens of the pass, so how rows are cut and who computes them cannot change a bit. */
#include "backend/cpu/few.h"
#include "base/cpu.h"
#include "base/mem.h"

#define ITEM_ROWS_LARGEST ((size_t)192)
#define CUT_STEP ((size_t)256) /* columns */
/* Pairs of features that are packed at once, and how many such items one thread does alone. */
#define PACK_PAIRS ((size_t)128)
#define PACK_ITEMS_ALONE ((size_t)24)
#define L2_BYTES_UNKNOWN ((size_t)512 << 10)

static size_t cache_bytes(void) {
    return cpu_get()->l2_bytes > 0 ? cpu_get()->l2_bytes : L2_BYTES_UNKNOWN;
}

struct product_run {
    struct cpu_product task;
    const struct cpu_backend *cpu;
    void (*compute)(const struct cpu_product *task, size_t first, size_t count, float *scratch);
    size_t item_rows;
    size_t pack_items; /* of a tile */
};

static void product_item(void *ctx, size_t item, size_t worker) {
    const struct product_run *run = ctx;
    size_t first = item * run->item_rows, rest = run->task.w->rows - first;
    run->compute(&run->task, first, rest < run->item_rows ? rest : run->item_rows,
                 cpu_scratch(run->cpu, worker));
}

/* A number of rows as a multiple of step that an item may have. */
static size_t whole_steps(size_t rows, size_t step) {
    return size_min(size_max(rows / step * step, step), ITEM_ROWS_LARGEST);
}

/* The most rows of an item: as many as leave room in the second-level cache for the part of x that
 * they share, part_bytes of each lane, and for what they write. */
static size_t rows_beside(size_t lanes, size_t part_bytes, size_t step) {
    size_t room = cache_bytes() / 4 * 3, part = lanes * part_bytes;
    return whole_steps(room > part ? (room - part) / (lanes * sizeof(float)) : 0, step);
}

/* Where x does not fit beside everything else in the second-level cache, an item's first panel
 * brings every part of x from further away, so that many panels should follow it. Else a few are
 * enough, and even out better. */
static size_t most_rows(const struct act *x) {
    size_t lanes = act_tiles(x->tokens) * SL_LANES;
    if (lanes * x->features * sizeof(float) <= cache_bytes() / 2)
        return CPU_ITEM_ROWS;
    return rows_beside(lanes, SL_CHAIN * sizeof(float), CPU_ITEM_ROWS);
}

/* Rows of an item, a multiple of step: every thread should get as many, with little to wait for at
 * the end and few items. In rows: what the busiest thread does if all are equally fast, a quarter
 * of an item because they are not, and two an item for beginning it. */
static size_t rows_of_item(size_t rows, size_t most, size_t step, size_t threads) {
    size_t best = most, least_cost = SIZE_MAX, first = size_divide_up(rows, most * threads);
    for (size_t rounds = first; threads > 1 && rounds < first + 16; rounds++) {
        size_t share = size_divide_up(rows, rounds * threads);
        size_t item = size_round_up(share, step);
        size_t items = size_divide_up(rows, item), cost = size_divide_up(items, threads);
        cost = cost * (item + 2) + item / 4;
        if (cost < least_cost && item <= most) {
            least_cost = cost;
            best = item;
        }
    }
    return best;
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

static void pack_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct product_run *run = ctx;
    const struct act *x = run->task.x;
    size_t tile = item / run->pack_items, first = item % run->pack_items * PACK_PAIRS;
    size_t pairs = cpu_pairs(x->features), rest = pairs - first;
    run->cpu->products.pack(x, tile, first, rest < PACK_PAIRS ? rest : PACK_PAIRS,
                            run->cpu->pairs + tile * pairs * SL_LANES);
}

/* Rounds x to bf16. What one thread does in a few microseconds is not worth waking others. */
static void pack(struct product_run *run, struct team *team) {
    const struct act *x = run->task.x;
    run->pack_items = size_divide_up(cpu_pairs(x->features), PACK_PAIRS);
    size_t items = act_tiles(x->tokens) * run->pack_items;
    if (items > PACK_ITEMS_ALONE)
        team_run(team, pack_item, run, items);
    else
        for (size_t item = 0; item < items; item++)
            pack_item(run, item, 0);
    run->task.pairs = run->cpu->pairs;
}

/* Tiles first .. of an act as an act of its own. */
static struct act slice_of(const struct act *act, size_t first, size_t tiles) {
    struct act slice = *act;
    size_t rest = act->tokens - first * SL_LANES;
    slice.data = act_tile(act, first);
    slice.tokens = rest < tiles * SL_LANES ? rest : tiles * SL_LANES;
    return slice;
}

/* The most rows of an item of a bf16 set, and how such an item is cut where x does not fit into the
 * second-level cache. Weights of bf16 are used where they lie: a slice of an item, some columns of
 * all its rows, stays in three eighths of the cache, and a quarter of it has the same columns of
 * the tiles that meet these rows; rows that are a little longer are not cut. Blocks of other
 * weights are brought into scratch again for each slice of the tiles, so that there are as few of
 * these as leave room for their part of x. Threads that have fewer than two of the largest items
 * are better off with small ones. */
static size_t cut_into_slices(struct product_run *run, size_t tiles) {
    const struct view *w = run->task.w;
    const struct cpu_products *products = &run->cpu->products;
    size_t cache = cache_bytes(), step = products->item_rows;
    size_t tile_bytes = cpu_pairs(run->task.x->features) * SL_LANES * sizeof(uint32_t);
    run->task.slice_columns = w->columns;
    run->task.slice_tiles = tiles;
    if (products->cut_columns == 0 || tiles * tile_bytes <= cache / 2 ||
        w->rows < 2 * ITEM_ROWS_LARGEST * run->cpu->threads)
        return step;
    if (w->dtype != DTYPE_BF16 || cpu_pairs(w->columns) * 2 != w->columns) {
        size_t block_bytes = products->cut_columns * sizeof(uint16_t);
        size_t slices = size_divide_up(tiles * SL_LANES * block_bytes, cache / 2);
        run->task.slice_tiles = size_round_up(size_divide_up(tiles, slices), 2);
        return rows_beside(run->task.slice_tiles * SL_LANES, block_bytes, step);
    }
    size_t width = cache / 8 * 3 / ITEM_ROWS_LARGEST / sizeof(uint16_t);
    width = size_max(width / CUT_STEP, 1) * CUT_STEP;
    if (w->columns <= width / 2 * 3)
        width = w->columns;
    size_t column_bytes = width * sizeof(uint16_t); /* of a row, and of a token */
    run->task.slice_columns = width;
    run->task.slice_tiles = size_max(cache / 4 / (column_bytes * SL_LANES) / 2 * 2, 2);
    return whole_steps(cache / 8 * 3 / column_bytes, step);
}

/* Of a bf16 set. Activations larger than what was said when the backend was made go in parts. */
static void run_bf16(struct cpu_backend *cpu, struct product_run *run) {
    const struct cpu_products *products = &cpu->products;
    const struct act x = *run->task.x, y = *run->task.y;
    size_t tiles = act_tiles(x.tokens), step = tiles, rows = run->task.w->rows;
    bool is_few = x.tokens <= products->few_tokens;
    run->compute = products->product;
    run->item_rows = rows_of_item(rows, cut_into_slices(run, tiles),
                                  is_few ? products->few_rows : products->step_rows, cpu->threads);
    run->task.rows_ahead = run->item_rows * cpu->threads;
    if (products->pack && x.features > 0)
        step = cpu->pair_words / (cpu_pairs(x.features) * SL_LANES);
    must(step > 0);
    for (size_t tile = 0; tile < tiles; tile += step) {
        struct act x_slice = slice_of(&x, tile, step), y_slice = slice_of(&y, tile, step);
        run->task.x = &x_slice;
        run->task.y = &y_slice;
        if (products->pack)
            pack(run, cpu->base.team);
        team_run(cpu->base.team, product_item, run, size_divide_up(rows, run->item_rows));
    }
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
        .task = {.w = w, .x = x, .y = y, .first_row = first_row, .panels = cpu->kernels->panels},
        .cpu = cpu,
        .compute = cpu->kernels->product,
        .item_rows = rows_of_item(w->rows, most_rows(x), 6, cpu->threads),
    };
    if (cpu->products.product) {
        run_bf16(cpu, &run);
        return;
    }
    if (is_few(cpu->kernels, w, x)) {
        few_pack(w->dtype, x, cpu->packed);
        run.task.packed = cpu->packed;
        run.compute = cpu->kernels->few;
        run.item_rows = rows_of_few_item(w->rows, cpu->threads);
    }
    run.task.rows_ahead = run.item_rows * cpu->threads;
    team_run(backend->team, product_item, &run, size_divide_up(w->rows, run.item_rows));
}
