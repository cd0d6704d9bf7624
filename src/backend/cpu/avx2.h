/* Private to the avx2_*.c files: AVX2, FMA and F16C.
 *
 * Functions carry the target attribute one by one, so that nothing but them is compiled for the set
 * and the program starts on any x86-64. AVX2_INLINE is for helpers with arguments that are
 * constants where they are used: row and vector counts, formats. */
#ifndef SLUICE_BACKEND_CPU_AVX2_H
#define SLUICE_BACKEND_CPU_AVX2_H

#include "backend/cpu/kernels.h"

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

/* Before a loop whose count is a constant after inlining and whose arrays belong in registers. */
#ifdef __clang__
#define AVX2_UNROLL _Pragma("clang loop unroll(full)")
#else
#define AVX2_UNROLL _Pragma("GCC unroll 16")
#endif

/* avx2_decode.c */
extern const struct cpu_decoders avx2_decoders;
/* As dtype_info.decode_row, for avx2_decoders. avx2_decode_rows.c */
extern void (*const avx2_row_decoders[DTYPE_COUNT])(const struct view *view, size_t row,
                                                    size_t first, size_t count, float *dst);

/* y rows [rows, 16] (+)= panel [rows, count] times x [count, 16], all lanes or the first eight.
 * avx2_panel.c. */
void avx2_multiply(const struct cpu_panel *panel);
/* cpu_kernels.few for 1 to AVX2_FEW_MAX tokens; panels are faster from there on, and for formats
 * that are decoded beyond AVX2_FEW_DECODED_MAX. avx2_few.c. */
#define AVX2_FEW_MAX ((size_t)8)
#define AVX2_FEW_DECODED_MAX ((size_t)4)
void avx2_few(const struct cpu_product *task, size_t first, size_t count, float *scratch);
/* avx2_attention.c */
void avx2_attend(const struct cpu_attention *task, struct cpu_heads heads, float *scratch);
/* Features d .. d + 16 of the keys of a page, by position: where keys serve as values. */
void avx2_turn(const uint8_t *keys, size_t d, enum kv_dtype dtype,
               float turned[SL_PAGE_TOKENS][SL_LANES]);

#endif
