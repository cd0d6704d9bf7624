/* Private to the avx512*.c files: AVX-512 F, BW, DQ and VL, with AVX2, FMA and F16C.
 *
 * Functions carry the target attribute one by one, as those of avx2.h do. AVX512_INLINE is for
 * helpers with arguments that are constants where they are used: row and tile counts, formats. */
#ifndef SLUICE_BACKEND_CPU_AVX512_H
#define SLUICE_BACKEND_CPU_AVX512_H

#include "backend/cpu/avx2.h"

/* gcc halves the vectors of loops that it vectorises itself unless told; clang does not know the
 * word and does not halve them. */
#define AVX512_FEATURES "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"
#ifdef __clang__
#define AVX512 __attribute__((target(AVX512_FEATURES)))
#define AVX512_INLINE static inline __attribute__((always_inline, target(AVX512_FEATURES)))
#else
#define AVX512 __attribute__((target(AVX512_FEATURES ",prefer-vector-width=512")))
#define AVX512_INLINE                                                                              \
    static inline __attribute__((always_inline, target(AVX512_FEATURES ",prefer-vector-width="     \
                                                                       "512")))
#endif

/* avx512_decode.c */
extern const struct cpu_decoders avx512_decoders;
/* avx512_panel.c */
#define AVX512_ROWS ((size_t)12)
void avx512_multiply(const struct cpu_panel *panel);
/* avx512_attention.c */
void avx512_attend(const struct cpu_attention *task, struct cpu_heads heads, float *scratch);

/* As avx2_few. avx512_few.c. */
#define AVX512_FEW_MAX ((size_t)8)
#define AVX512_FEW_DECODED_MAX ((size_t)4)
void avx512_few(const struct cpu_product *task, size_t first, size_t count, float *scratch);

#endif
