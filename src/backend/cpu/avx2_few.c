/* Products for few tokens on AVX2: lanes run along outputs, so that weights are used as fast as
 * memory gives them.
 *
 * Eight rows by eight columns are transposed in registers; then each vector holds one column of
 * eight outputs and meets the broadcast activation of a token. Each output is the same chain as in
 * avx2_panel.c. Two groups of eight rows and several tokens make the independent chains that FMA
 * latency needs. Blocks of rows are staged in scratch first: rows of real models begin at multiples
 * of a power of two, where sixteen of them read side by side fall into one set of the first-level
 * cache. bf16, f16 and f32 are copied as they are, quantised formats are decoded. */
#include "backend/cpu/avx2.h"

#ifdef __x86_64__

#include "base/num.h"

#include <immintrin.h>

enum { GROUP_ROWS = 8, GROUPS_MAX = 2, ROWS_MAX = GROUP_ROWS * GROUPS_MAX };
#define STAGED_BYTES (CPU_PANEL_STRIDE * sizeof(float))

/* A block of columns of some rows, for all tokens. */
struct few_block {
    const uint8_t *staged; /* row r begins at staged + r x STAGED_BYTES */
    const float *x;        /* [count, 16] */
    size_t count;          /* columns */
    bool is_first;
    float *total; /* [groups, tokens, 8], aligned to 32 */
};

/* Four 32-bit columns of eight rows, 16 bytes each from `at`: column[c] has row r in lane r. */
AVX2_INLINE void transpose_words(const uint8_t *rows, size_t at, __m256 column[4]) {
    __m256 row[4];
    AVX2_UNROLL
    for (size_t r = 0; r < 4; r++) {
        __m256 low = _mm256_castps128_ps256(
            _mm_loadu_ps((const float *)(const void *)(rows + r * STAGED_BYTES + at)));
        row[r] = _mm256_insertf128_ps(
            low, _mm_loadu_ps((const float *)(const void *)(rows + (r + 4) * STAGED_BYTES + at)),
            1);
    }
    __m256 low_01 = _mm256_unpacklo_ps(row[0], row[1]),
           high_01 = _mm256_unpackhi_ps(row[0], row[1]);
    __m256 low_23 = _mm256_unpacklo_ps(row[2], row[3]),
           high_23 = _mm256_unpackhi_ps(row[2], row[3]);
    column[0] = _mm256_shuffle_ps(low_01, low_23, 0x44);
    column[1] = _mm256_shuffle_ps(low_01, low_23, 0xEE);
    column[2] = _mm256_shuffle_ps(high_01, high_23, 0x44);
    column[3] = _mm256_shuffle_ps(high_01, high_23, 0xEE);
}

/* Eight columns of eight rows from column k on, as float32. dtype is a constant. */
AVX2_INLINE void load_columns(const uint8_t *rows, size_t k, enum dtype dtype, __m256 column[8]) {
    if (dtype == DTYPE_F32) {
        transpose_words(rows, 4 * k, column);
        transpose_words(rows, 4 * k + 16, column + 4);
        return;
    }
    __m256 pair[4]; /* two 16-bit columns in each 32-bit lane */
    transpose_words(rows, 2 * k, pair);
    AVX2_UNROLL
    for (size_t p = 0; p < 4; p++) {
        __m256i words = _mm256_castps_si256(pair[p]);
        __m256i even = _mm256_slli_epi32(words, 16);
        if (dtype == DTYPE_BF16) {
            __m256i odd = _mm256_and_si256(words, _mm256_set1_epi32((int)0xFFFF0000u));
            column[2 * p] = _mm256_castsi256_ps(even);
            column[2 * p + 1] = _mm256_castsi256_ps(odd);
        } else {
            __m256i halves =
                _mm256_packus_epi32(_mm256_srli_epi32(even, 16), _mm256_srli_epi32(words, 16));
            halves = _mm256_permute4x64_epi64(halves, 0xD8); /* four even columns, then odd */
            column[2 * p] = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
            column[2 * p + 1] = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
        }
    }
}

/* Column k of eight rows, for the last columns of a row. */
AVX2_INLINE __m256 load_column(const uint8_t *rows, size_t k, enum dtype dtype) {
    float column[GROUP_ROWS];
    for (size_t r = 0; r < GROUP_ROWS; r++) {
        uint16_t half = 0;
        if (dtype == DTYPE_F32)
            memcpy(&column[r], rows + r * STAGED_BYTES + 4 * k, sizeof *column);
        else
            memcpy(&half, rows + r * STAGED_BYTES + 2 * k, sizeof half);
        if (dtype == DTYPE_BF16)
            column[r] = num_from_bf16(half);
        else if (dtype == DTYPE_F16)
            column[r] = num_from_f16(half);
    }
    return _mm256_loadu_ps(column);
}

/* dtype, groups and tokens are constants. */
AVX2_INLINE void multiply_block(const struct few_block *block, enum dtype dtype, size_t groups,
                                size_t tokens) {
    __m256 chain[GROUPS_MAX][AVX2_FEW_MAX];
    AVX2_UNROLL
    for (size_t g = 0; g < groups; g++)
        AVX2_UNROLL
    for (size_t t = 0; t < tokens; t++)
        chain[g][t] = _mm256_setzero_ps();
    size_t count = block->count, k = 0;
    for (; k + 8 <= count; k += 8) {
        const float *x = block->x + k * SL_LANES;
        AVX2_UNROLL
        for (size_t g = 0; g < groups; g++) {
            __m256 column[8];
            load_columns(block->staged + g * GROUP_ROWS * STAGED_BYTES, k, dtype, column);
            AVX2_UNROLL
            for (size_t c = 0; c < 8; c++)
                AVX2_UNROLL
            for (size_t t = 0; t < tokens; t++)
                chain[g][t] = _mm256_fmadd_ps(column[c], _mm256_broadcast_ss(x + c * SL_LANES + t),
                                              chain[g][t]);
        }
    }
    for (; k < count; k++) {
        const float *x = block->x + k * SL_LANES;
        AVX2_UNROLL
        for (size_t g = 0; g < groups; g++) {
            __m256 column = load_column(block->staged + g * GROUP_ROWS * STAGED_BYTES, k, dtype);
            AVX2_UNROLL
            for (size_t t = 0; t < tokens; t++)
                chain[g][t] = _mm256_fmadd_ps(column, _mm256_broadcast_ss(x + t), chain[g][t]);
        }
    }
    AVX2_UNROLL
    for (size_t g = 0; g < groups; g++)
        AVX2_UNROLL
    for (size_t t = 0; t < tokens; t++) {
        float *total = block->total + (g * tokens + t) * GROUP_ROWS;
        __m256 sum =
            block->is_first ? chain[g][t] : _mm256_add_ps(_mm256_load_ps(total), chain[g][t]);
        _mm256_store_ps(total, sum);
    }
}

#define MULTIPLY(NAME, DTYPE, GROUPS, TOKENS)                                                      \
    AVX2 static void NAME##_##GROUPS##_##TOKENS(const struct few_block *block) {                   \
        multiply_block(block, DTYPE, GROUPS, TOKENS);                                              \
    }
#define MULTIPLY_ALL(NAME, DTYPE)                                                                  \
    MULTIPLY(NAME, DTYPE, 1, 1)                                                                    \
    MULTIPLY(NAME, DTYPE, 1, 2)                                                                    \
    MULTIPLY(NAME, DTYPE, 1, 3)                                                                    \
    MULTIPLY(NAME, DTYPE, 1, 4)                                                                    \
    MULTIPLY(NAME, DTYPE, 2, 1)                                                                    \
    MULTIPLY(NAME, DTYPE, 2, 2)                                                                    \
    MULTIPLY(NAME, DTYPE, 2, 3)                                                                    \
    MULTIPLY(NAME, DTYPE, 2, 4)
MULTIPLY_ALL(f32, DTYPE_F32)
MULTIPLY_ALL(f16, DTYPE_F16)
MULTIPLY_ALL(bf16, DTYPE_BF16)

#define ALL_TOKENS(NAME, GROUPS)                                                                   \
    { NAME##_##GROUPS##_1, NAME##_##GROUPS##_2, NAME##_##GROUPS##_3, NAME##_##GROUPS##_4 }
#define ALL_GROUPS(NAME)                                                                           \
    {                                                                                              \
        { ALL_TOKENS(NAME, 1), ALL_TOKENS(NAME, 2) }                                               \
    }

/* By groups - 1 and tokens - 1. */
struct few_kernels {
    void (*multiply[GROUPS_MAX][AVX2_FEW_MAX])(const struct few_block *);
};

/* By format; quantised ones are decoded first and have none. */
static const struct few_kernels kernels_of[DTYPE_COUNT] = {
    [DTYPE_F32] = ALL_GROUPS(f32),
    [DTYPE_F16] = ALL_GROUPS(f16),
    [DTYPE_BF16] = ALL_GROUPS(bf16),
};

struct few_run {
    const struct cpu_product *task;
    const struct dtype_info *format;
    const struct few_kernels *kernels;
    bool is_direct; /* rows are staged as they are */
    uint8_t *staged;
};

/* Brings a block of a row into scratch, decoded unless the kernel can take it as it is, and asks
 * for what will be staged in its place next: the same block of the row ROWS_MAX further. */
static void stage_row(const struct few_run *run, size_t row, size_t column, size_t count,
                      uint8_t *staged) {
    const struct view *w = run->task->w;
    const uint8_t *weights = cpu_weights(w, run->format, row, column);
    size_t bytes = count / run->format->block_values * run->format->block_bytes;
    if (run->is_direct)
        memcpy(staged, weights, bytes);
    else
        cpu_decode(&avx2_decoders, w, row, column, count, (float *)(void *)staged);
    if (row + ROWS_MAX < w->rows)
        for (size_t i = 0; i < bytes; i += CACHE_LINE)
            __builtin_prefetch(weights + ROWS_MAX * w->row_bytes + i, 0, 2);
}

/* All of rows row .. row + rows, 16 at most. Lanes of missing rows compute with what an earlier
 * block left in scratch, and are not stored. */
static void few_rows(const struct few_run *run, size_t row, size_t rows) {
    const struct cpu_product *task = run->task;
    size_t tokens = task->x->tokens, groups = (rows + GROUP_ROWS - 1) / GROUP_ROWS;
    _Alignas(32) float total[ROWS_MAX * AVX2_FEW_MAX];
    struct few_block block = {.staged = run->staged, .total = total};
    for (size_t column = 0; column < task->w->columns; column += SL_CHAIN) {
        size_t rest = task->w->columns - column;
        block.x = act_tile(task->x, 0) + column * SL_LANES;
        block.count = rest < SL_CHAIN ? rest : SL_CHAIN;
        block.is_first = column == 0;
        for (size_t r = 0; r < rows; r++)
            stage_row(run, row + r, column, block.count, run->staged + r * STAGED_BYTES);
        run->kernels->multiply[groups - 1][tokens - 1](&block);
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < tokens; t++)
            *act_at(task->y, task->first_row + row + r, t) =
                total[(r / GROUP_ROWS * tokens + t) * GROUP_ROWS + r % GROUP_ROWS];
}

void avx2_few(const struct cpu_product *task, size_t first, size_t count, float *scratch) {
    enum dtype dtype = task->w->dtype;
    struct few_run run = {
        .task = task,
        .format = dtype_get(dtype),
        .is_direct = !dtype_get(dtype)->is_quantised,
        .staged = (uint8_t *)scratch,
    };
    run.kernels = &kernels_of[run.is_direct ? dtype : DTYPE_F32];
    for (size_t row = first; row < first + count; row += ROWS_MAX)
        few_rows(&run, row, first + count - row < ROWS_MAX ? first + count - row : ROWS_MAX);
}

#endif
