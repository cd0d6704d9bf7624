/* The decoders behind the dtype table, one group a family of formats. Only dtype.c includes this,
 * and the fmt_*.c themselves.
 *
 * Each turns count values (whole blocks) at src, which may lie at any address, into float32. Files
 * and machine are little-endian. Products and sums are rounded one by one, as gguf-py's numpy does:
 * no fused multiply-add, so every machine decodes the same bits. (The products of the formats here
 * are exact anyway: 11 bits of a scale, 6 or 7 of its factor, at most 7 of a value fit into 24.
 * Only sums round.) */
#ifndef SLUICE_TENSOR_FMT_H
#define SLUICE_TENSOR_FMT_H

#include <stddef.h>
#include <stdint.h>

struct view;

/* fmt_float.c: one value a block. */
void fmt_float_f32(const void *src, size_t count, float *dst);
void fmt_float_f16(const void *src, size_t count, float *dst);
void fmt_float_bf16(const void *src, size_t count, float *dst);

/* fmt_short.c: ggml's blocks of 32 values with a scale. */
void fmt_short_q8_0(const void *src, size_t count, float *dst);
void fmt_short_q4_0(const void *src, size_t count, float *dst);
void fmt_short_q4_1(const void *src, size_t count, float *dst);
void fmt_short_q5_0(const void *src, size_t count, float *dst);
void fmt_short_q5_1(const void *src, size_t count, float *dst);
void fmt_short_iq4_nl(const void *src, size_t count, float *dst);
void fmt_short_mxfp4(const void *src, size_t count, float *dst);
/* What the 16 numbers of iq4_nl and iq4_xs stand for. */
extern const int8_t fmt_iq4_levels[16];

/* fmt_long.c: ggml's blocks of 256 values. */
void fmt_long_q2_k(const void *src, size_t count, float *dst);
void fmt_long_q3_k(const void *src, size_t count, float *dst);
void fmt_long_q4_k(const void *src, size_t count, float *dst);
void fmt_long_q5_k(const void *src, size_t count, float *dst);
void fmt_long_q6_k(const void *src, size_t count, float *dst);
void fmt_long_iq4_xs(const void *src, size_t count, float *dst);
void fmt_long_tq1_0(const void *src, size_t count, float *dst);
void fmt_long_tq2_0(const void *src, size_t count, float *dst);

/* fmt_scaled.c: scales in tensors of their own. As dtype_info.decode_row. */
void fmt_scaled_f8_e4m3(const struct view *view, size_t row, size_t first, size_t count,
                        float *dst);
void fmt_scaled_mlx_2(const struct view *view, size_t row, size_t first, size_t count, float *dst);
void fmt_scaled_mlx_3(const struct view *view, size_t row, size_t first, size_t count, float *dst);
void fmt_scaled_mlx_4(const struct view *view, size_t row, size_t first, size_t count, float *dst);
void fmt_scaled_mlx_5(const struct view *view, size_t row, size_t first, size_t count, float *dst);
void fmt_scaled_mlx_6(const struct view *view, size_t row, size_t first, size_t count, float *dst);
void fmt_scaled_mlx_7(const struct view *view, size_t row, size_t first, size_t count, float *dst);
void fmt_scaled_mlx_8(const struct view *view, size_t row, size_t first, size_t count, float *dst);
void fmt_scaled_mxfp4(const struct view *view, size_t row, size_t first, size_t count, float *dst);

#endif
