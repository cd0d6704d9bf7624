/* The inner kernel of products on AVX-512: some rows of a panel times one or two tiles of tokens.
 *
 * A tile is one register. Twelve rows by two tiles make 24 accumulators: a broadcast weight serves
 * two FMAs, so fourteen loads feed 24 of them. A tile alone takes 24 rows, whose weights the FMAs
 * broadcast from memory themselves. */
#include "backend/cpu/avx512.h"

#ifdef __x86_64__

#include <immintrin.h>

/* rows and tiles are constants: the accumulators stay in registers. */
AVX512_INLINE void multiply_rows(const struct cpu_panel *panel, size_t row, size_t rows,
                                 size_t tiles) {
    const float *w = panel->w + row * CPU_PANEL_STRIDE, *x = panel->x;
    float *y = panel->y + row * SL_LANES;
    __m512 sum[AVX512_ROWS][2];
    AVX2_UNROLL
    for (size_t r = 0; r < rows; r++)
        AVX2_UNROLL
    for (size_t t = 0; t < tiles; t++)
        sum[r][t] = _mm512_setzero_ps();
    for (size_t k = 0, stop; k < panel->count;) {
        stop = k + CPU_AHEAD_COLUMNS < panel->count ? k + CPU_AHEAD_COLUMNS : panel->count;
        cpu_ahead_step(panel->ahead);
        for (; k < stop; k++) {
            __m512 lanes[2];
            AVX2_UNROLL
            for (size_t t = 0; t < tiles; t++)
                __builtin_prefetch(panel->x_next + t * panel->x_next_step + k * SL_LANES, 0, 2);
            AVX2_UNROLL
            for (size_t t = 0; t < tiles; t++)
                lanes[t] = _mm512_load_ps(x + t * panel->x_step + k * SL_LANES);
            AVX2_UNROLL
            for (size_t r = 0; r < rows; r++) {
                __m512 weight = _mm512_set1_ps(w[r * CPU_PANEL_STRIDE + k]);
                AVX2_UNROLL
                for (size_t t = 0; t < tiles; t++)
                    sum[r][t] = _mm512_fmadd_ps(weight, lanes[t], sum[r][t]);
            }
        }
    }
    AVX2_UNROLL
    for (size_t r = 0; r < rows; r++)
        AVX2_UNROLL
    for (size_t t = 0; t < tiles; t++) {
        float *to = y + t * panel->y_step + r * SL_LANES;
        __m512 before = panel->is_first ? _mm512_setzero_ps() : _mm512_load_ps(to);
        _mm512_store_ps(to, panel->is_first ? sum[r][t] : _mm512_add_ps(before, sum[r][t]));
    }
}

/* The rows from `row` on, fewer than six. */
AVX512_INLINE void multiply_last(const struct cpu_panel *panel, size_t row, size_t tiles) {
    switch (panel->rows - row) {
    case 1:
        multiply_rows(panel, row, 1, tiles);
        break;
    case 2:
        multiply_rows(panel, row, 2, tiles);
        break;
    case 3:
        multiply_rows(panel, row, 3, tiles);
        break;
    case 4:
        multiply_rows(panel, row, 4, tiles);
        break;
    case 5:
        multiply_rows(panel, row, 5, tiles);
        break;
    default:
        break;
    }
}

AVX512 static void multiply_one(const struct cpu_panel *panel) {
    size_t row = 0;
    for (; row + 12 <= panel->rows; row += 12)
        multiply_rows(panel, row, 12, 1);
    if (row + 6 <= panel->rows) {
        multiply_rows(panel, row, 6, 1);
        row += 6;
    }
    multiply_last(panel, row, 1);
}

AVX512 static void multiply_two(const struct cpu_panel *panel) {
    size_t row = 0;
    for (; row + 12 <= panel->rows; row += 12)
        multiply_rows(panel, row, 12, 2);
    if (row + 6 <= panel->rows) {
        multiply_rows(panel, row, 6, 2);
        row += 6;
    }
    multiply_last(panel, row, 2);
}

AVX512 static void multiply_tiles(const struct cpu_panel *panel) {
    if (panel->tiles > 1)
        multiply_two(panel);
    else
        multiply_one(panel);
}

/* A last tile of eight tokens or fewer takes half registers, which halves its work where a whole
 * register goes through the units in two halves. */
void avx512_multiply(const struct cpu_panel *panel) {
    if (panel->lanes > 8) {
        multiply_tiles(panel);
        return;
    }
    struct cpu_panel part = *panel;
    part.tiles--;
    if (part.tiles > 0)
        multiply_tiles(&part);
    part.x += part.tiles * panel->x_step;
    part.y += part.tiles * panel->y_step;
    avx2_multiply(&part);
}

#endif
