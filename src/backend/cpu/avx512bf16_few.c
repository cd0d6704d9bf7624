/* Products of kernel set `avx512bf16` for few tokens: lanes run along outputs, so that weights are
 * used as fast as memory gives them.
 *
 * A cache line of each of 16 rows is transposed in registers by pairs of columns; then each vector
 * holds one pair of 16 outputs and meets the broadcast pair of a token. bf16 rows are read where
 * they lie, a whole line at a time, so rows that fall into one set of the first-level cache do not
 * push each other out. Other formats are decoded to scratch first.
 *
 * Sixteen rows read side by side are more than a processor follows by itself. So while some rows
 * are computed, those that come next are asked for line by line in the order of memory. */
#include "backend/cpu/bf16.h"

#ifdef __x86_64__

#include <immintrin.h>

enum { GROUP_ROWS = 16 };
#define ROW_BYTES (SL_CHAIN * 2 + CACHE_LINE) /* of decoded rows */

/* 16 rows of a block of columns, times all tokens. */
struct block {
    const uint8_t *rows[GROUP_ROWS];
    const uint32_t *x; /* [pairs, tokens] */
    size_t columns;
    const uint8_t *ahead; /* asked for as weights are used, as many lines; NULL: nothing */
};

/* A line of 16 rows: row[r] has 16 pairs of row r; afterwards row[p] has pair p of 16 rows. */
BF16_INLINE void transpose(__m512i row[16]) {
    __m512i a[16], b[16];
    BF16_UNROLL
    for (size_t i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
    }
    BF16_UNROLL
    for (size_t i = 0; i < 16; i += 4)
        BF16_UNROLL
    for (size_t j = 0; j < 2; j++) {
        b[i + 2 * j] = _mm512_unpacklo_epi64(a[i + j], a[i + j + 2]);
        b[i + 2 * j + 1] = _mm512_unpackhi_epi64(a[i + j], a[i + j + 2]);
    }
    /* b[4q + c]: pairs c, 4 + c, 8 + c, 12 + c of rows 4q .. 4q + 3 */
    BF16_UNROLL
    for (size_t c = 0; c < 4; c++) {
        __m512i low_01 = _mm512_shuffle_i32x4(b[c], b[4 + c], 0x44);
        __m512i high_01 = _mm512_shuffle_i32x4(b[c], b[4 + c], 0xEE);
        __m512i low_23 = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0x44);
        __m512i high_23 = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0xEE);
        row[c] = _mm512_shuffle_i32x4(low_01, low_23, 0x88);
        row[4 + c] = _mm512_shuffle_i32x4(low_01, low_23, 0xDD);
        row[8 + c] = _mm512_shuffle_i32x4(high_01, high_23, 0x88);
        row[12 + c] = _mm512_shuffle_i32x4(high_01, high_23, 0xDD);
    }
}

/* pairs and tokens are constants, except pairs in the last line of a row. */
BF16_INLINE void multiply_line(const __m512i column[16], const uint32_t *x, size_t pairs,
                               size_t tokens, __m512 chain[BF16_FEW_MAX]) {
    BF16_UNROLL
    for (size_t p = 0; p < 16; p++)
        if (p < pairs) {
            BF16_UNROLL
            for (size_t t = 0; t < tokens; t++)
                chain[t] = _mm512_dpbf16_ps(chain[t], (__m512bh)column[p],
                                            (__m512bh)_mm512_set1_epi32((int)x[p * tokens + t]));
        }
}

/* The chains of a block. tokens is a constant. */
BF16_INLINE void multiply_block(const struct block *block, size_t tokens,
                                __m512 chain[BF16_FEW_MAX]) {
    __m512i line[16];
    size_t k = 0;
    BF16_UNROLL
    for (size_t t = 0; t < tokens; t++)
        chain[t] = _mm512_setzero_ps();
    for (; k + BF16_STEP <= block->columns; k += BF16_STEP) {
        const uint8_t *ahead = block->ahead;
        if (ahead)
            ahead += k / BF16_STEP * GROUP_ROWS * CACHE_LINE;
        BF16_UNROLL
        for (size_t r = 0; r < 16; r++) {
            line[r] = _mm512_loadu_si512(block->rows[r] + 2 * k);
            if (ahead)
                __builtin_prefetch(ahead + r * CACHE_LINE, 0, 2);
        }
        transpose(line);
        multiply_line(line, block->x + k / 2 * tokens, 16, tokens, chain);
    }
    size_t rest = block->columns - k;
    if (rest == 0)
        return;
    __mmask32 lanes = (1u << rest) - 1;
    for (size_t r = 0; r < 16; r++)
        line[r] = _mm512_maskz_loadu_epi16(lanes, block->rows[r] + 2 * k);
    transpose(line);
    multiply_line(line, block->x + k / 2 * tokens, (rest + 1) / 2, tokens, chain);
}

struct few_run {
    const struct cpu_product *task;
    size_t row, rows;     /* of this group */
    uint8_t *panel;       /* decoded rows [16, ROW_BYTES], then one of them as float32 */
    const uint8_t *ahead; /* what comes after these rows and has not been asked for; may be NULL */
};

/* The next `bytes` of what comes after these rows. */
static const uint8_t *take_ahead(struct few_run *run, size_t bytes) {
    const uint8_t *ahead = run->ahead;
    if (ahead)
        run->ahead += bytes;
    return ahead;
}

/* Decodes the rows of a block. */
static void decode_rows(struct few_run *run, size_t column, struct block *block) {
    const struct view *w = run->task->w;
    const struct dtype_info *format = dtype_get(w->dtype);
    size_t bytes = block->columns / format->block_values * format->block_bytes;
    struct bf16_row load = {
        .w = w,
        .column = column,
        .count = block->columns,
        .decoded = (float *)(void *)(run->panel + GROUP_ROWS * ROW_BYTES),
        .stride = CACHE_LINE,
    };
    for (size_t r = 0; r < run->rows; r++) {
        const uint8_t *ahead = take_ahead(run, bytes);
        for (size_t i = 0; ahead && i < bytes; i += CACHE_LINE)
            __builtin_prefetch(ahead + i, 0, 2);
        load.row = run->row + r;
        load.out = run->panel + r * ROW_BYTES;
        bf16_load_row(&load);
        block->rows[r] = load.out;
    }
}

/* Where the rows of a block lie as bf16. Missing rows are the last one again. */
static void find_rows(struct few_run *run, size_t column, struct block *block) {
    const struct view *w = run->task->w;
    block->ahead = NULL;
    if (w->dtype != DTYPE_BF16) {
        decode_rows(run, column, block);
    } else {
        block->ahead = take_ahead(run, GROUP_ROWS * 2 * block->columns);
        for (size_t r = 0; r < run->rows; r++)
            block->rows[r] = cpu_weights(w, dtype_get(w->dtype), run->row + r, column);
    }
    for (size_t r = run->rows; r < GROUP_ROWS; r++)
        block->rows[r] = block->rows[r - 1];
}

/* 16 rows or fewer; tokens is a constant. */
BF16_INLINE void multiply_group(struct few_run *run, size_t tokens) {
    const struct cpu_product *task = run->task;
    __m512 sum[BF16_FEW_MAX], chain[BF16_FEW_MAX];
    BF16_UNROLL
    for (size_t t = 0; t < tokens; t++)
        sum[t] = _mm512_setzero_ps();
    for (size_t column = 0; column < task->w->columns; column += SL_CHAIN) {
        size_t rest = task->w->columns - column;
        struct block block = {.x = task->pairs + column / 2 * tokens,
                              .columns = rest < SL_CHAIN ? rest : SL_CHAIN};
        find_rows(run, column, &block);
        multiply_block(&block, tokens, chain);
        BF16_UNROLL
        for (size_t t = 0; t < tokens; t++)
            sum[t] = column == 0 ? chain[t] : _mm512_add_ps(sum[t], chain[t]);
    }
    _Alignas(64) float out[BF16_FEW_MAX][GROUP_ROWS];
    BF16_UNROLL
    for (size_t t = 0; t < tokens; t++)
        _mm512_store_ps(out[t], sum[t]);
    for (size_t r = 0; r < run->rows; r++)
        for (size_t t = 0; t < tokens; t++)
            *act_at(task->y, task->first_row + run->row + r, t) = out[t][r];
}

#define MULTIPLY(TOKENS)                                                                           \
    BF16 static void multiply_##TOKENS(struct few_run *run) {                                      \
        multiply_group(run, TOKENS);                                                               \
    }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)
MULTIPLY(7)
MULTIPLY(8)

/* By tokens - 1. */
static void (*const multiply[BF16_FEW_MAX])(struct few_run *) = {
    multiply_1, multiply_2, multiply_3, multiply_4, multiply_5, multiply_6, multiply_7, multiply_8,
};

void bf16_few(const struct cpu_product *task, size_t first, size_t count, float *scratch) {
    const struct view *w = task->w;
    struct few_run run = {.task = task, .panel = (uint8_t *)scratch};
    if (w->columns == 0)
        return;
    for (run.row = first; run.row < first + count; run.row += GROUP_ROWS) {
        size_t rest = first + count - run.row;
        size_t next = rest > GROUP_ROWS ? run.row + GROUP_ROWS : first + task->rows_ahead;
        run.rows = rest < GROUP_ROWS ? rest : GROUP_ROWS;
        run.ahead = next < w->rows ? cpu_weights(w, dtype_get(w->dtype), next, 0) : NULL;
        multiply[task->x->tokens - 1](&run);
    }
}

#endif
