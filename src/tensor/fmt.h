/* The decoders behind the dtype table, one group a family of formats. Only dtype.c includes this.
 *
 * Each turns count values (whole blocks) at src, which may lie at any address, into float32. Files
 * and machine are little-endian. Products and sums are rounded one by one, as gguf-py's numpy does:
 * no fused multiply-add, so every machine decodes the same bits. (The products of the formats here
 * are exact anyway: 11 bits of a scale, 7 of its factor, 6 of a value fit into 24.) */
#ifndef SLUICE_TENSOR_FMT_H
#define SLUICE_TENSOR_FMT_H

#include <stddef.h>

/* fmt_float.c: one value a block. */
void fmt_float_f32(const void *src, size_t count, float *dst);
void fmt_float_f16(const void *src, size_t count, float *dst);
void fmt_float_bf16(const void *src, size_t count, float *dst);

/* fmt_ggml.c: ggml's blocks of 32 values with a scale, and of 256 with scales of scales. */
void fmt_ggml_q8_0(const void *src, size_t count, float *dst);
void fmt_ggml_q4_0(const void *src, size_t count, float *dst);
void fmt_ggml_q4_1(const void *src, size_t count, float *dst);
void fmt_ggml_q6_k(const void *src, size_t count, float *dst);

#endif
