/* Products for few tokens: how a matrix is walked over.
 *
 * Memory gives its full rate only to a reader that goes through addresses in order, and to prefetch
 * instructions only while the first-level cache is not busy with other misses. Chains of 256
 * columns side by side are far from that order, so each weight is asked for twice: from memory into
 * the second-level cache in the order of addresses, a few rows ahead of their use, and from there
 * into the first-level cache in the order of use, two cache lines ahead. Nothing is copied. Both
 * are done by the kernels, step by step with their arithmetic (few_step of each set).
 *
 * Formats with blocks are decoded, 16 rows by two blocks at a time, into scratch. */
#include "backend/cpu/few.h"

/* Bytes by which memory runs ahead beyond the rows in work. */
#define AHEAD_BYTES ((size_t)16 << 10)

/* Values of one block in `packed`: the place of a block is its number times this. */
static size_t width_index(size_t tokens) {
    return tokens <= 2 ? tokens - 1 : tokens <= 4 ? 2 : 3;
}

static size_t width_of(size_t tokens) {
    return (size_t)1 << width_index(tokens);
}

/* Columns that are computed as quads. */
static size_t quad_columns(enum dtype dtype, size_t columns) {
    size_t quad = FEW_STREAMS * SL_CHAIN;
    return dtype_get(dtype)->is_quantised ? 0 : columns / quad * quad;
}

size_t few_floats(size_t columns, size_t tokens) {
    return columns * width_of(tokens);
}

/* Columns first .. end of x, `streams` blocks beside each other; width and streams are constants.
 */
static inline __attribute__((always_inline)) float *
pack_columns(const struct act *x, size_t first, size_t streams, size_t width, float *packed) {
    const float *from = x->data + first * SL_LANES;
    for (size_t k = 0; k < SL_CHAIN && first + k < x->features; k++, from += SL_LANES)
        for (size_t t = 0; t < width; t++)
            for (size_t s = 0; s < streams; s++)
                *packed++ = from[s * SL_CHAIN * SL_LANES + t];
    return packed;
}

static inline __attribute__((always_inline)) void pack_all(const struct act *x, size_t quads_end,
                                                           size_t width, float *packed) {
    for (size_t column = 0; column < quads_end; column += FEW_STREAMS * SL_CHAIN)
        packed = pack_columns(x, column, FEW_STREAMS, width, packed);
    for (size_t column = quads_end; column < x->features; column += SL_CHAIN)
        packed = pack_columns(x, column, 1, width, packed);
}

/* Tokens past the last one are numbers that nobody uses, as everywhere in a tile. */
void few_pack(enum dtype dtype, const struct act *x, float *packed) {
    size_t quads_end = quad_columns(dtype, x->features);
    switch (width_of(x->tokens)) {
    case 1:
        pack_all(x, quads_end, 1, packed);
        break;
    case 2:
        pack_all(x, quads_end, 2, packed);
        break;
    case 4:
        pack_all(x, quads_end, 4, packed);
        break;
    default:
        pack_all(x, quads_end, 8, packed);
        break;
    }
}

/* Sixteen rows. */
struct few_rows {
    const struct few_set *set;
    const struct few_kernels *kernels;
    const struct cpu_product *task;
    size_t item_end;     /* rows from there on are another worker's, probably */
    size_t rows_skipped; /* so many of them */
    size_t width, index; /* tokens computed, and which kernel does */
    bool is_tall;        /* quads of eight rows, not four */
    size_t row;          /* the first */
    size_t ahead;        /* bytes from the first row to what memory brings next */
    float *staged;       /* decoded blocks */
    _Alignas(64) float sums[FEW_QUADS_MAX * FEW_TOKENS_MAX * FEW_ROWS];
    _Alignas(64) float total[FEW_ROWS * FEW_TOKENS_MAX]; /* [rows, width] */
};

/* The next `bytes` in the order of addresses that memory shall bring. After the rows of an item
 * come those of the item that the worker probably takes next; at the end of the matrix something
 * that is there already. */
static const uint8_t *ahead_of(struct few_rows *run, size_t bytes) {
    const struct view *w = run->task->w;
    size_t at = run->row * w->row_bytes + run->ahead, end = run->item_end * w->row_bytes;
    run->ahead += bytes;
    if (at >= end)
        at += run->rows_skipped * w->row_bytes;
    return w->data + (at + bytes <= w->rows * w->row_bytes ? at : 0);
}

/* The sums of a tile's chains, [quads, tokens, lanes, streams], to those of blocks before it. Here
 * the streams are blocks of one row. */
static void add_quads(struct few_rows *run, size_t quads, size_t row, bool is_first) {
    const float *sum = run->sums;
    for (size_t q = 0; q < quads; q++)
        for (size_t t = 0; t < run->width; t++)
            for (size_t lane = 0; lane < FEW_LANES; lane++, sum += FEW_STREAMS) {
                size_t at = run->is_tall ? row + q * FEW_LANES + lane : row + lane;
                float *total = &run->total[at * run->width + t];
                bool is_start = is_first && (run->is_tall || q == 0);
                float before = is_start ? sum[0] : *total + sum[0];
                *total = ((before + sum[1]) + sum[2]) + sum[3];
            }
}

/* The same where every chain is another row. */
static void add_rows(struct few_rows *run, size_t blocks, bool is_first) {
    for (size_t b = 0; b < blocks; b++)
        for (size_t t = 0; t < run->width; t++)
            for (size_t row = 0; row < FEW_ROWS; row++) {
                float *total = &run->total[row * run->width + t];
                float sum = run->sums[(b * run->width + t) * FEW_ROWS + row];
                *total = is_first && b == 0 ? sum : *total + sum;
            }
}

/* Eight rows use each activation more often, but where rows lie at multiples of 4096 bytes, eight
 * at the same column would fill a set of the first-level cache. */
static bool is_tall(const struct few_kernels *kernels, const struct view *w, size_t index) {
    return kernels->by_tall[index] && (!kernels->by_quads[0][index] || w->row_bytes % 4096 != 0);
}

static size_t quads_of(few_multiply *const kernels[FEW_QUADS_MAX][FEW_WIDTHS], size_t index,
                       size_t left) {
    return left > 1 && kernels[1][index] ? 2 : 1;
}

/* Columns 0 .. end of a few of the sixteen rows, from `row` on. Returns how many rows. */
static size_t multiply_quads(struct few_rows *run, size_t row, size_t end) {
    const struct view *w = run->task->w;
    bool is_tall = run->is_tall;
    size_t stream = SL_CHAIN * dtype_get(w->dtype)->block_bytes, quad = FEW_STREAMS * stream;
    size_t rows = is_tall ? 2 * FEW_LANES : FEW_LANES;
    const uint8_t *data = w->data + (run->row + row) * w->row_bytes;
    struct few_tile tile = {.count = SL_CHAIN, .sums = run->sums};
    tile.here =
        (struct few_place){data, stream, w->row_bytes, is_tall ? FEW_LANES * w->row_bytes : quad};
    for (size_t column = 0; column < end;) {
        size_t left = (end - column) / (FEW_STREAMS * SL_CHAIN);
        size_t quads = is_tall ? 2 : quads_of(run->kernels->by_quads, run->index, left);
        size_t done = is_tall ? 1 : quads;
        tile.x = run->task->packed + column * run->width;
        tile.ahead = ahead_of(run, done * quad * rows);
        tile.next = tile.here;
        tile.next.w = left > done ? tile.here.w + done * quad : data + rows * w->row_bytes;
        if (is_tall)
            run->kernels->by_tall[run->index](&tile);
        else
            run->kernels->by_quads[quads - 1][run->index](&tile);
        add_quads(run, quads, row, column == 0);
        tile.here = tile.next;
        column += done * FEW_STREAMS * SL_CHAIN;
    }
    return rows;
}

/* Columns first .. the last of the sixteen rows. */
static void multiply_rows(struct few_rows *run, size_t first) {
    const struct view *w = run->task->w;
    size_t value = dtype_get(w->dtype)->block_bytes;
    for (size_t column = first; column < w->columns;) {
        size_t left = w->columns - column;
        size_t blocks = quads_of(run->kernels->by_rows, run->index, left / SL_CHAIN);
        size_t count = left < SL_CHAIN ? left : SL_CHAIN;
        const uint8_t *data = w->data + run->row * w->row_bytes + column * value;
        struct few_tile tile = {
            .here = {data, w->row_bytes, FEW_STREAMS * w->row_bytes, SL_CHAIN * value},
            .ahead = ahead_of(run, blocks * count * value * FEW_ROWS),
            .x = run->task->packed + column * run->width,
            .count = count,
            .sums = run->sums,
        };
        tile.next = tile.here;
        column += blocks * count;
        tile.next.w = column < w->columns ? data + blocks * count * value
                                          : data + FEW_ROWS * w->row_bytes - column * value;
        run->kernels->by_rows[blocks - 1][run->index](&tile);
        add_rows(run, blocks, column == blocks * count);
    }
}

/* Asks memory for as many bytes as `count` columns of a row have. */
static void prefetch_ahead(struct few_rows *run, size_t bytes) {
    const uint8_t *ahead = ahead_of(run, bytes);
    for (size_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch(ahead + i, 0, 2);
}

/* All columns of the sixteen rows, decoded. */
static void multiply_decoded(struct few_rows *run) {
    const struct view *w = run->task->w;
    const struct dtype_info *format = dtype_get(w->dtype);
    size_t row_bytes = CPU_PANEL_STRIDE * sizeof(float);
    struct few_tile tile = {.sums = run->sums};
    tile.here = (struct few_place){(const uint8_t *)run->staged, row_bytes, FEW_STREAMS * row_bytes,
                                   FEW_ROWS * row_bytes};
    tile.next = tile.here;
    for (size_t column = 0; column < w->columns;) {
        size_t left = w->columns - column;
        size_t blocks = quads_of(run->kernels->by_rows, run->index, left / SL_CHAIN);
        tile.count = left < SL_CHAIN ? left : SL_CHAIN;
        for (size_t row = 0; row < FEW_ROWS; row++) {
            prefetch_ahead(run, blocks * tile.count / format->block_values * format->block_bytes);
            for (size_t b = 0; b < blocks; b++)
                cpu_decode(run->set->decoders, w, run->row + row, column + b * SL_CHAIN, tile.count,
                           run->staged + (b * FEW_ROWS + row) * CPU_PANEL_STRIDE);
        }
        tile.ahead = tile.here.w;
        tile.x = run->task->packed + column * run->width;
        run->kernels->by_rows[blocks - 1][run->index](&tile);
        add_rows(run, blocks, column == 0);
        column += blocks * tile.count;
    }
}

static void multiply_sixteen(struct few_rows *run) {
    const struct view *w = run->task->w;
    if (dtype_get(w->dtype)->is_quantised) {
        run->ahead = FEW_ROWS * w->row_bytes + AHEAD_BYTES;
        multiply_decoded(run);
        return;
    }
    size_t quads_end = quad_columns(w->dtype, w->columns);
    size_t rest_bytes = (w->columns - quads_end) * dtype_get(w->dtype)->block_bytes;
    run->ahead = 2 * FEW_LANES * w->row_bytes + FEW_ROWS * rest_bytes + AHEAD_BYTES;
    for (size_t row = 0; row < FEW_ROWS && quads_end > 0;)
        row += multiply_quads(run, row, quads_end);
    multiply_rows(run, quads_end);
}

void few_product(const struct few_set *set, const struct cpu_product *task, size_t first,
                 size_t count, float *scratch) {
    const struct view *w = task->w;
    size_t tokens = task->x->tokens;
    must(w->rows >= FEW_ROWS);
    must(task->packed);
    struct few_rows run = {
        .set = set,
        .kernels = w->dtype == DTYPE_F16    ? &set->f16
                   : w->dtype == DTYPE_BF16 ? &set->bf16
                                            : &set->f32,
        .task = task,
        .item_end = first + count,
        .rows_skipped = task->rows_ahead > count ? task->rows_ahead - count : 0,
        .width = width_of(tokens),
        .index = width_index(tokens),
        .staged = scratch,
    };
    run.is_tall = is_tall(run.kernels, w, run.index);
    for (size_t row = first; row < first + count; row += FEW_ROWS) {
        /* At the end of a matrix some rows are computed once more. */
        run.row = row + FEW_ROWS <= w->rows ? row : w->rows - FEW_ROWS;
        multiply_sixteen(&run);
        for (size_t r = row; r < run.row + FEW_ROWS && r < first + count; r++)
            for (size_t t = 0; t < tokens; t++)
                *act_at(task->y, task->first_row + r, t) = run.total[(r - run.row) * run.width + t];
    }
}
