/* Products of kernel set `avx512bf16`: a panel of weights in bf16 times the packed activations.
 *
 * Lanes run along tokens: vdpbf16ps takes a pair of weights that is broadcast and a cache line of
 * packed activations, one pair for each of 16 tokens. Twelve rows by two tiles make 24 chains,
 * enough for one instruction a cycle at a latency of 6, and 14 loads for 24 products. */
#include "backend/cpu/bf16.h"

#ifdef __x86_64__

#include "base/cpu.h"

#include <immintrin.h>
#include <string.h>

/* Rows of a panel are a cache line longer than their 512 bytes, as in kernels.h. */
#define ROW_BYTES (SL_CHAIN * 2 + CACHE_LINE)
#define ITEM_ROWS ((size_t)48) /* of a panel, which is an item */
#define PART_ROWS ((size_t)12)
#define DECODED_AT (ITEM_ROWS * ROW_BYTES) /* in scratch, behind the panel */

/* Some rows of a panel times one or two tiles. */
struct part {
    const uint8_t *w;
    const uint32_t *x[2]; /* [pairs, 16] */
    float *y[2];          /* [rows, 16] */
    size_t pairs, rows;
    bool is_first;
    struct cpu_ahead *ahead; /* asks for something with every pair */
};

/* rows and tiles are constants; rows past part->rows are computed and not stored. */
BF16_INLINE void multiply_rows(const struct part *part, size_t rows, size_t tiles) {
    struct cpu_ahead ahead = *part->ahead;
    __m512 chain[PART_ROWS][2];
    BF16_UNROLL
    for (size_t r = 0; r < rows; r++)
        BF16_UNROLL
    for (size_t t = 0; t < tiles; t++)
        chain[r][t] = _mm512_setzero_ps();
    const uint8_t *w = part->w;
    const uint32_t *x0 = part->x[0], *x1 = part->x[1];
    for (size_t p = 0; p < part->pairs; p++, w += 4, x0 += SL_LANES, x1 += SL_LANES) {
        __m512i lanes[2];
        cpu_ahead_step(&ahead);
        lanes[0] = _mm512_load_si512(x0);
        if (tiles == 2)
            lanes[1] = _mm512_load_si512(x1);
        BF16_UNROLL
        for (size_t r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, w + r * ROW_BYTES, sizeof pair);
            __m512bh weights = (__m512bh)_mm512_set1_epi32(pair);
            BF16_UNROLL
            for (size_t t = 0; t < tiles; t++)
                chain[r][t] = _mm512_dpbf16_ps(chain[r][t], weights, (__m512bh)lanes[t]);
        }
    }
    *part->ahead = ahead;
    BF16_UNROLL
    for (size_t r = 0; r < rows; r++)
        BF16_UNROLL
    for (size_t t = 0; t < tiles; t++) {
        float *to = part->y[t] + r * SL_LANES;
        if (r < part->rows)
            _mm512_store_ps(to, part->is_first ? chain[r][t]
                                               : _mm512_add_ps(_mm512_load_ps(to), chain[r][t]));
    }
}

BF16 static void multiply_two(const struct part *part) {
    if (part->rows > 8)
        multiply_rows(part, 12, 2);
    else if (part->rows > 4)
        multiply_rows(part, 8, 2);
    else
        multiply_rows(part, 4, 2);
}

BF16 static void multiply_one(const struct part *part) {
    if (part->rows > 8)
        multiply_rows(part, 12, 1);
    else
        multiply_rows(part, 8, 1);
}

/* A panel times all tiles. */
static void multiply_tiles(const struct cpu_product *task, const struct cpu_place *place,
                           const struct cpu_place *next, const uint8_t *panel) {
    size_t tiles = act_tiles(task->x->tokens), parts = size_divide_up(place->rows, PART_ROWS);
    size_t stride = cpu_pairs(task->x->features) * SL_LANES, pairs = (place->columns + 1) / 2;
    struct cpu_ahead ahead = cpu_ahead_of(task->w, next, (tiles + 1) / 2 * parts * pairs);
    struct part part = {.pairs = pairs, .is_first = place->column == 0, .ahead = &ahead};
    for (size_t tile = 0; tile < tiles; tile += 2) {
        size_t other = tile + 1 < tiles ? tile + 1 : tile;
        part.x[0] = task->pairs + tile * stride + place->column / 2 * SL_LANES;
        part.x[1] = task->pairs + other * stride + place->column / 2 * SL_LANES;
        for (size_t at = 0; at < place->rows; at += PART_ROWS) {
            size_t feature = (task->first_row + place->row + at) * SL_LANES;
            part.w = panel + at * ROW_BYTES;
            part.rows = place->rows - at < PART_ROWS ? place->rows - at : PART_ROWS;
            part.y[0] = act_tile(task->y, tile) + feature;
            part.y[1] = act_tile(task->y, other) + feature;
            if (other != tile)
                multiply_two(&part);
            else
                multiply_one(&part);
        }
    }
}

static void product(const struct cpu_product *task, size_t first, size_t count, float *scratch) {
    const struct view *w = task->w;
    uint8_t *panel = (uint8_t *)scratch;
    if (task->x->tokens <= BF16_FEW_MAX) {
        bf16_few(task, first, count, scratch);
        return;
    }
    struct bf16_row load = {
        .w = w, .decoded = (float *)(void *)(panel + DECODED_AT), .stride = CACHE_LINE};
    const struct cpu_walk walk = {task, first, count, ITEM_ROWS, SL_CHAIN};
    struct cpu_place place = cpu_first_block(&walk);
    for (size_t blocks = cpu_block_count(&walk); blocks > 0; blocks--) {
        struct cpu_place next = cpu_block_after(&walk, &place);
        load.column = place.column;
        load.count = place.columns;
        for (size_t r = 0; r < place.rows; r++) {
            load.row = place.row + r;
            load.out = panel + r * ROW_BYTES;
            bf16_load_row(&load);
        }
        multiply_tiles(task, &place, &next, panel);
        place = next;
    }
}

static void pack(const struct act *x, size_t tile, size_t first, size_t count, uint32_t *words) {
    if (x->tokens <= BF16_FEW_MAX)
        bf16_pack_few(x, first, count, words);
    else
        bf16_pack(x, tile, first, count, words);
}

static bool is_available(void) {
    return cpu_get()->has_avx512bf16;
}

const struct cpu_products cpu_products_avx512bf16 = {
    .kernels = "avx512bf16",
    .isa = "avx512bf16",
    .is_available = is_available,
    .pack = pack,
    .product = product,
    .item_rows = ITEM_ROWS,
    .step_rows = PART_ROWS,
    .few_tokens = BF16_FEW_MAX,
    .few_rows = 16,
};

#endif
