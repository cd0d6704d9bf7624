/* Products for few tokens on NEON: lanes run along outputs, so that weights are used as fast as
 * memory gives them.
 *
 * Four rows by four words are transposed in registers; then each vector holds one column of four
 * outputs and meets one lane of the activations of all tokens, which one load brings. Each output
 * is the same chain as in neon_panel.c. Four groups of four rows make four chains a token, enough
 * for two multiply units that pass sums on to themselves. Four rows by eight columns of bf16 cost
 * 12 loads and 8 operations to transpose, 8 to widen and 8 a token to multiply: with one token 0.75
 * operations a weight, which is 16 GB of bf16 a second on an A76 of 3 GHz.
 *
 * Blocks of rows are staged in scratch first: rows of real models begin at multiples of a power of
 * two, where sixteen of them read side by side fall into one set of the first-level cache. bf16,
 * f16 and f32 are copied as they are, quantised formats are decoded. */
#include "backend/cpu/neon.h"

#ifdef __aarch64__

#include "base/num.h"

enum { GROUP_ROWS = 4, GROUPS_MAX = 4, ROWS_MAX = GROUP_ROWS * GROUPS_MAX, COLUMNS_MAX = 8 };
#define STAGED_BYTES (CPU_PANEL_STRIDE * sizeof(float))

/* A block of columns of some rows, for all tokens. */
struct few_block {
    const uint8_t *staged; /* row r begins at staged + r x STAGED_BYTES */
    const float *x;        /* [count, 16] */
    size_t count;          /* columns */
    bool is_first;
    float *total; /* [groups, tokens, 4] */
};

/* Four 32-bit columns of four rows, 16 bytes each from `at`: column[c] has row r in lane r. */
NEON_INLINE void transpose_words(const uint8_t *rows, size_t at, float32x4_t column[4]) {
    float32x4_t row[GROUP_ROWS];
    NEON_UNROLL
    for (size_t r = 0; r < GROUP_ROWS; r++)
        row[r] = neon_load_words(rows + r * STAGED_BYTES + at);
    neon_transpose(row, column);
}

/* Columns of four rows from column k on, as float32: eight of bf16 and f16, four of f32. dtype is a
 * constant. */
NEON_INLINE void load_columns(const uint8_t *rows, size_t k, enum dtype dtype,
                              float32x4_t column[COLUMNS_MAX]) {
    if (dtype == DTYPE_F32) {
        transpose_words(rows, 4 * k, column);
        return;
    }
    float32x4_t pair[4]; /* two 16-bit columns in each 32-bit lane */
    transpose_words(rows, 2 * k, pair);
    NEON_UNROLL
    for (size_t p = 0; p < 4; p++) {
        uint32x4_t words = vreinterpretq_u32_f32(pair[p]);
        if (dtype == DTYPE_BF16) {
            uint32x4_t odd = vandq_u32(words, vdupq_n_u32(0xFFFF0000u));
            column[2 * p] = vreinterpretq_f32_u32(vshlq_n_u32(words, 16));
            column[2 * p + 1] = vreinterpretq_f32_u32(odd);
        } else {
            column[2 * p] = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(words)));
            column[2 * p + 1] = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(words, 16)));
        }
    }
}

/* Column k of four rows, for the last columns of a row. */
NEON_INLINE float32x4_t load_column(const uint8_t *rows, size_t k, enum dtype dtype) {
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
    return vld1q_f32(column);
}

/* dtype, groups and tokens are constants. */
NEON_INLINE void multiply_block(const struct few_block *block, enum dtype dtype, size_t groups,
                                size_t tokens) {
    float32x4_t chain[GROUPS_MAX][NEON_FEW_MAX];
    NEON_UNROLL
    for (size_t g = 0; g < groups; g++)
        NEON_UNROLL
    for (size_t t = 0; t < tokens; t++)
        chain[g][t] = vdupq_n_f32(0.0f);
    size_t columns = dtype == DTYPE_F32 ? 4 : COLUMNS_MAX, count = block->count, k = 0;
    for (; k + columns <= count; k += columns) {
        const float *x = block->x + k * SL_LANES;
        NEON_UNROLL
        for (size_t g = 0; g < groups; g++) {
            float32x4_t column[COLUMNS_MAX];
            load_columns(block->staged + g * GROUP_ROWS * STAGED_BYTES, k, dtype, column);
            NEON_UNROLL
            for (size_t c = 0; c < columns; c++) {
                float32x4_t factors = vld1q_f32(x + c * SL_LANES);
                NEON_UNROLL
                for (size_t t = 0; t < tokens; t++)
                    chain[g][t] = neon_fma_lane(chain[g][t], column[c], factors, t);
            }
            /* No instruction: the next group begins here. All at once take too many registers. */
            NEON_UNROLL
            for (size_t t = 0; t < tokens; t++)
                __asm__ volatile("" : "+w"(chain[g][t])::"memory");
        }
    }
    for (; k < count; k++) {
        float32x4_t factors = vld1q_f32(block->x + k * SL_LANES);
        NEON_UNROLL
        for (size_t g = 0; g < groups; g++) {
            float32x4_t column =
                load_column(block->staged + g * GROUP_ROWS * STAGED_BYTES, k, dtype);
            NEON_UNROLL
            for (size_t t = 0; t < tokens; t++)
                chain[g][t] = neon_fma_lane(chain[g][t], column, factors, t);
        }
    }
    NEON_UNROLL
    for (size_t g = 0; g < groups; g++)
        NEON_UNROLL
    for (size_t t = 0; t < tokens; t++) {
        float *total = block->total + (g * tokens + t) * GROUP_ROWS;
        vst1q_f32(total, block->is_first ? chain[g][t] : vaddq_f32(vld1q_f32(total), chain[g][t]));
    }
}

#define MULTIPLY(NAME, DTYPE, GROUPS, TOKENS)                                                      \
    static void NAME##_##GROUPS##_##TOKENS(const struct few_block *block) {                        \
        multiply_block(block, DTYPE, GROUPS, TOKENS);                                              \
    }
#define MULTIPLY_GROUPS(NAME, DTYPE, GROUPS)                                                       \
    MULTIPLY(NAME, DTYPE, GROUPS, 1)                                                               \
    MULTIPLY(NAME, DTYPE, GROUPS, 2)                                                               \
    MULTIPLY(NAME, DTYPE, GROUPS, 3)                                                               \
    MULTIPLY(NAME, DTYPE, GROUPS, 4)
#define MULTIPLY_ALL(NAME, DTYPE)                                                                  \
    MULTIPLY_GROUPS(NAME, DTYPE, 1)                                                                \
    MULTIPLY_GROUPS(NAME, DTYPE, 4)
MULTIPLY_ALL(f32, DTYPE_F32)
MULTIPLY_ALL(f16, DTYPE_F16)
MULTIPLY_ALL(bf16, DTYPE_BF16)

#define ALL_TOKENS(NAME, GROUPS)                                                                   \
    { NAME##_##GROUPS##_1, NAME##_##GROUPS##_2, NAME##_##GROUPS##_3, NAME##_##GROUPS##_4 }

/* By tokens - 1: four rows at once, and sixteen. */
struct few_kernels {
    void (*one_group[NEON_FEW_MAX])(const struct few_block *);
    void (*all_groups[NEON_FEW_MAX])(const struct few_block *);
};

/* By format; quantised ones are decoded first and have none. */
static const struct few_kernels kernels_of[DTYPE_COUNT] = {
    [DTYPE_F32] = {ALL_TOKENS(f32, 1), ALL_TOKENS(f32, 4)},
    [DTYPE_F16] = {ALL_TOKENS(f16, 1), ALL_TOKENS(f16, 4)},
    [DTYPE_BF16] = {ALL_TOKENS(bf16, 1), ALL_TOKENS(bf16, 4)},
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
        cpu_decode(&neon_decoders, w, row, column, count, (float *)(void *)staged);
    if (row + ROWS_MAX < w->rows)
        for (size_t i = 0; i < bytes; i += CACHE_LINE)
            __builtin_prefetch(weights + ROWS_MAX * w->row_bytes + i, 0, 2);
}

/* All of rows row .. row + rows, 16 at most. Lanes of missing rows compute with what an earlier
 * block left in scratch, and are not stored. */
static void few_rows(const struct few_run *run, size_t row, size_t rows) {
    const struct cpu_product *task = run->task;
    size_t tokens = task->x->tokens;
    float total[ROWS_MAX * NEON_FEW_MAX];
    struct few_block block = {.staged = run->staged, .total = total};
    for (size_t column = 0; column < task->w->columns; column += SL_CHAIN) {
        size_t rest = task->w->columns - column;
        block.x = act_tile(task->x, 0) + column * SL_LANES;
        block.count = rest < SL_CHAIN ? rest : SL_CHAIN;
        block.is_first = column == 0;
        for (size_t r = 0; r < rows; r++)
            stage_row(run, row + r, column, block.count, run->staged + r * STAGED_BYTES);
        if (rows <= GROUP_ROWS)
            run->kernels->one_group[tokens - 1](&block);
        else
            run->kernels->all_groups[tokens - 1](&block);
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < tokens; t++)
            *act_at(task->y, task->first_row + row + r, t) =
                total[(r / GROUP_ROWS * tokens + t) * GROUP_ROWS + r % GROUP_ROWS];
}

void neon_few(const struct cpu_product *task, size_t first, size_t count, float *scratch) {
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
