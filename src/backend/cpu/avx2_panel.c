/* The inner kernel of products on AVX2: a few rows of a panel times a tile of tokens.
 *
 * Lanes run along tokens; a weight is broadcast to all of them. Six rows by two vectors (16 tokens)
 * make twelve accumulators, enough independent chains for two FMA units of latency 4 to 5, and
 * eight loads for twelve FMAs. When eight tokens or fewer are left, one vector by twelve rows. */
#include "backend/cpu/avx2.h"

#ifdef __x86_64__

#include <immintrin.h>

/* rows and vectors are constants: the accumulators stay in registers. */
AVX2_INLINE void multiply_rows(const struct cpu_panel *panel, size_t row, size_t rows,
                               size_t vectors) {
    const float *w = panel->w + row * CPU_PANEL_STRIDE, *x = panel->x;
    float *y = panel->y + row * SL_LANES;
    __m256 sum[12][2];
    AVX2_UNROLL
    for (size_t r = 0; r < rows; r++)
        AVX2_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sum[r][v] = _mm256_setzero_ps();
    for (size_t k = 0, stop; k < panel->count;) {
        stop = k + CPU_AHEAD_COLUMNS < panel->count ? k + CPU_AHEAD_COLUMNS : panel->count;
        cpu_ahead_step(panel->ahead);
        for (; k < stop; k++) {
            __m256 lanes[2];
            __builtin_prefetch(panel->x_next + k * SL_LANES, 0, 2);
            AVX2_UNROLL
            for (size_t v = 0; v < vectors; v++)
                lanes[v] = _mm256_load_ps(x + k * SL_LANES + 8 * v);
            AVX2_UNROLL
            for (size_t r = 0; r < rows; r++) {
                __m256 weight = _mm256_broadcast_ss(w + r * CPU_PANEL_STRIDE + k);
                AVX2_UNROLL
                for (size_t v = 0; v < vectors; v++)
                    sum[r][v] = _mm256_fmadd_ps(weight, lanes[v], sum[r][v]);
            }
        }
    }
    AVX2_UNROLL
    for (size_t r = 0; r < rows; r++)
        AVX2_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        float *to = y + r * SL_LANES + 8 * v;
        __m256 before = panel->is_first ? _mm256_setzero_ps() : _mm256_load_ps(to);
        _mm256_store_ps(to, panel->is_first ? sum[r][v] : _mm256_add_ps(before, sum[r][v]));
    }
}

/* row .. the last of the panel, fewer than a full group. */
#define TAIL(ROWS, VECTORS)                                                                        \
    case ROWS:                                                                                     \
        multiply_rows(panel, row, ROWS, VECTORS);                                                  \
        break

AVX2 static void multiply_whole(const struct cpu_panel *panel) {
    size_t row = 0;
    for (; row + 6 <= panel->rows; row += 6)
        multiply_rows(panel, row, 6, 2);
    switch (panel->rows - row) {
        TAIL(1, 2);
        TAIL(2, 2);
        TAIL(3, 2);
        TAIL(4, 2);
        TAIL(5, 2);
    default:
        break;
    }
}

AVX2 static void multiply_half(const struct cpu_panel *panel) {
    size_t row = 0;
    for (; row + 12 <= panel->rows; row += 12)
        multiply_rows(panel, row, 12, 1);
    if (row + 6 <= panel->rows) {
        multiply_rows(panel, row, 6, 1);
        row += 6;
    }
    switch (panel->rows - row) {
        TAIL(1, 1);
        TAIL(2, 1);
        TAIL(3, 1);
        TAIL(4, 1);
        TAIL(5, 1);
    default:
        break;
    }
}

void avx2_multiply(const struct cpu_panel *panel) {
    if (panel->lanes > 8)
        multiply_whole(panel);
    else
        multiply_half(panel);
}

#endif
