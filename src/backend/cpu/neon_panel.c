/* The inner kernel of products on NEON: a few rows of a panel times a tile of tokens.
 *
 * Lanes run along tokens; a weight is one lane of a register that holds four of its row. Four rows
 * by four vectors (16 tokens) make 16 accumulators, as many independent chains as the four multiply
 * units of a V1 (latency 4) need and twice what the two of an A76 do. Four columns take 4 + 16
 * loads for 64 multiply-adds, 0.31 a piece where such cores can have 0.75 to 1. Six rows would take
 * 0.23 and 31 of 32 registers, too many for gcc, which spills some. A tile with fewer tokens takes
 * as many vectors as they need: 12 chains and 0.33 loads for twelve tokens; by six rows 12 and 0.29
 * for eight, 6 and 0.42 for four. */
#include "backend/cpu/neon.h"

#ifdef __aarch64__

enum { ROWS_MAX = 6, VECTORS_MAX = 4, VECTOR = 4 };

/* One column: x[0 .. 16] times lane `lane` of the weights of each row. All but x are constants. */
NEON_INLINE void multiply_column(float32x4_t sum[ROWS_MAX][VECTORS_MAX],
                                 const float32x4_t weights[ROWS_MAX], const float *x, size_t lane,
                                 size_t rows, size_t vectors) {
    NEON_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        float32x4_t tokens = vld1q_f32(x + VECTOR * v);
        NEON_UNROLL
        for (size_t r = 0; r < rows; r++)
            sum[r][v] = neon_fma_lane(sum[r][v], tokens, weights[r], lane);
    }
    /* No instruction: all sums are in registers here. Left alone, gcc mixes the columns so that it
     * must copy some of them to and fro. */
    NEON_UNROLL
    for (size_t v = 0; v < vectors; v++)
        NEON_UNROLL
    for (size_t r = 0; r < rows; r++)
        __asm__ volatile("" : "+w"(sum[r][v]));
}

/* rows and vectors are constants: the accumulators stay in registers. */
NEON_INLINE void multiply_rows(const struct cpu_panel *panel, size_t row, size_t rows,
                               size_t vectors) {
    const float *w = panel->w + row * CPU_PANEL_STRIDE, *x = panel->x;
    float32x4_t sum[ROWS_MAX][VECTORS_MAX], weights[ROWS_MAX];
    NEON_UNROLL
    for (size_t r = 0; r < rows; r++)
        NEON_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sum[r][v] = vdupq_n_f32(0.0f);
    size_t k = 0;
    for (; k + 4 <= panel->count; k += 4, x += 4 * SL_LANES) {
        if (k % CPU_AHEAD_COLUMNS == 0)
            cpu_ahead_step(panel->ahead);
        NEON_UNROLL
        for (size_t r = 0; r < rows; r++)
            weights[r] = vld1q_f32(w + r * CPU_PANEL_STRIDE + k);
        multiply_column(sum, weights, x, 0, rows, vectors);
        multiply_column(sum, weights, x + SL_LANES, 1, rows, vectors);
        multiply_column(sum, weights, x + 2 * SL_LANES, 2, rows, vectors);
        multiply_column(sum, weights, x + 3 * SL_LANES, 3, rows, vectors);
    }
    for (; k < panel->count; k++, x += SL_LANES) {
        NEON_UNROLL
        for (size_t r = 0; r < rows; r++)
            weights[r] = vdupq_n_f32(w[r * CPU_PANEL_STRIDE + k]);
        multiply_column(sum, weights, x, 0, rows, vectors);
    }
    float *y = panel->y + row * SL_LANES;
    NEON_UNROLL
    for (size_t r = 0; r < rows; r++)
        NEON_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        float *to = y + r * SL_LANES + VECTOR * v;
        vst1q_f32(to, panel->is_first ? sum[r][v] : vaddq_f32(vld1q_f32(to), sum[r][v]));
    }
}

/* Rows at once, by vectors - 1. */
static const size_t rows_of[VECTORS_MAX] = {6, 6, 4, 4};

#define MULTIPLY(ROWS, VECTORS)                                                                    \
    static void multiply_##ROWS##_##VECTORS(const struct cpu_panel *panel, size_t row) {           \
        multiply_rows(panel, row, ROWS, VECTORS);                                                  \
    }
#define MULTIPLY_FOUR(VECTORS)                                                                     \
    MULTIPLY(1, VECTORS)                                                                           \
    MULTIPLY(2, VECTORS)                                                                           \
    MULTIPLY(3, VECTORS)                                                                           \
    MULTIPLY(4, VECTORS)
MULTIPLY_FOUR(1)
MULTIPLY(5, 1)
MULTIPLY(6, 1)
MULTIPLY_FOUR(2)
MULTIPLY(5, 2)
MULTIPLY(6, 2)
MULTIPLY_FOUR(3)
MULTIPLY_FOUR(4)

/* By vectors - 1 and rows - 1. */
static void (*const multiply_of[VECTORS_MAX][ROWS_MAX])(const struct cpu_panel *, size_t row) = {
    {multiply_1_1, multiply_2_1, multiply_3_1, multiply_4_1, multiply_5_1, multiply_6_1},
    {multiply_1_2, multiply_2_2, multiply_3_2, multiply_4_2, multiply_5_2, multiply_6_2},
    {multiply_1_3, multiply_2_3, multiply_3_3, multiply_4_3},
    {multiply_1_4, multiply_2_4, multiply_3_4, multiply_4_4},
};

void neon_multiply(const struct cpu_panel *panel) {
    size_t vectors = size_divide_up(panel->lanes, VECTOR), step = rows_of[vectors - 1];
    for (size_t row = 0; row < panel->rows; row += step) {
        size_t rows = panel->rows - row < step ? panel->rows - row : step;
        multiply_of[vectors - 1][rows - 1](panel, row);
    }
}

#endif
