/* Private to the kernel sets that multiply in bf16 on x86 (avx512bf16*.c, amx.c, bf16_pack.c):
 * AVX-512 F, BW, DQ, VL and BF16. Functions carry the target attribute one by one, as in avx2.h. */
#ifndef SLUICE_BACKEND_CPU_BF16_H
#define SLUICE_BACKEND_CPU_BF16_H

#include "backend/cpu/kernels.h"

#define BF16_TARGET "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"
#define BF16 __attribute__((target(BF16_TARGET)))
#define BF16_INLINE static inline __attribute__((always_inline, target(BF16_TARGET)))

/* Before a loop whose count is a constant after inlining and whose arrays belong in registers. */
#ifdef __clang__
#define BF16_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BF16_UNROLL _Pragma("GCC unroll 16")
#endif

/* 32 columns of a row of weights, one step of the packing: a cache line. */
#define BF16_STEP ((size_t)32)

/* A block of columns of one row of weights as bf16, with zeros up to a multiple of 32 columns. Each
 * 32 columns go to a line of their own, `stride` bytes after the one before. */
struct bf16_row {
    const struct view *w;
    size_t row, column, count;
    float *decoded; /* scratch for as many values */
    uint8_t *out;   /* aligned to 64 */
    size_t stride;
};

/* bf16_pack.c */
void bf16_load_row(const struct bf16_row *row);
void bf16_pack(const struct act *x, size_t tile, size_t first, size_t count, uint32_t *words);

/* Products for 1 to BF16_FEW_MAX tokens, lanes along outputs; task->pairs begins with words
 * [pairs, tokens]. avx512bf16_few.c */
#define BF16_FEW_MAX ((size_t)8)
void bf16_pack_few(const struct act *x, size_t first, size_t count, uint32_t *words);
void bf16_few(const struct cpu_product *task, size_t first, size_t count, float *scratch);

#endif
