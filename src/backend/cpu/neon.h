/* Private to the neon_*.c files: Advanced SIMD as every aarch64 processor has it (Armv8.0-A), so
 * that nothing needs a target attribute and the set is always available there.
 *
 * A fused multiply-add takes one lane of a register as a factor (FMLA by element): four weights or
 * four activations come with one load, and no broadcasting load is needed, which cores of the
 * A76/Neoverse N1 kind carry out on the units that multiply. What the comments count is 128-bit
 * loads and operations of these units, of which such a core begins two of each in a cycle.
 *
 * NEON_INLINE is for helpers with arguments that are constants where they are used: row and vector
 * counts, formats, lanes. */
#ifndef SLUICE_BACKEND_CPU_NEON_H
#define SLUICE_BACKEND_CPU_NEON_H

#include "backend/cpu/kernels.h"

#ifdef __aarch64__

#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline))

/* Before a loop whose count is a constant after inlining and whose arrays belong in registers. */
#ifdef __clang__
#define NEON_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NEON_UNROLL _Pragma("GCC unroll 16")
#endif

/* sum + a x b[lane], rounded once; lane is a constant, 0 to 3. */
NEON_INLINE float32x4_t neon_fma_lane(float32x4_t sum, float32x4_t a, float32x4_t b, size_t lane) {
    switch (lane) {
    case 0:
        return vfmaq_laneq_f32(sum, a, b, 0);
    case 1:
        return vfmaq_laneq_f32(sum, a, b, 1);
    case 2:
        return vfmaq_laneq_f32(sum, a, b, 2);
    default:
        return vfmaq_laneq_f32(sum, a, b, 3);
    }
}

/* Eight bf16 numbers, the first or the last four of them as float32: a bf16 is the upper half. */
NEON_INLINE float32x4_t neon_bf16_low(uint16x8_t halves) {
    return vreinterpretq_f32_u16(vzip1q_u16(vdupq_n_u16(0), halves));
}

NEON_INLINE float32x4_t neon_bf16_high(uint16x8_t halves) {
    return vreinterpretq_f32_u16(vzip2q_u16(vdupq_n_u16(0), halves));
}

/* Sixteen bytes at any address. */
NEON_INLINE uint16x8_t neon_load_halves(const uint8_t *at) {
    return vreinterpretq_u16_u8(vld1q_u8(at));
}

NEON_INLINE float32x4_t neon_load_words(const uint8_t *at) {
    return vreinterpretq_f32_u8(vld1q_u8(at));
}

/* Four rows of four become four columns: 8 operations. */
NEON_INLINE void neon_transpose(const float32x4_t row[4], float32x4_t column[4]) {
    float64x2_t even_01 = vreinterpretq_f64_f32(vtrn1q_f32(row[0], row[1]));
    float64x2_t even_23 = vreinterpretq_f64_f32(vtrn1q_f32(row[2], row[3]));
    float64x2_t odd_01 = vreinterpretq_f64_f32(vtrn2q_f32(row[0], row[1]));
    float64x2_t odd_23 = vreinterpretq_f64_f32(vtrn2q_f32(row[2], row[3]));
    column[0] = vreinterpretq_f32_f64(vtrn1q_f64(even_01, even_23));
    column[1] = vreinterpretq_f32_f64(vtrn1q_f64(odd_01, odd_23));
    column[2] = vreinterpretq_f32_f64(vtrn2q_f64(even_01, even_23));
    column[3] = vreinterpretq_f32_f64(vtrn2q_f64(odd_01, odd_23));
}

/* neon_decode.c */
extern const struct cpu_decoders neon_decoders;
/* neon_panel.c */
void neon_multiply(const struct cpu_panel *panel);
/* Products for 1 to NEON_FEW_MAX tokens, lanes along outputs. neon_few.c. */
#define NEON_FEW_MAX ((size_t)4)
void neon_few(const struct cpu_product *task, size_t first, size_t count, float *scratch);
/* neon_attention.c */
void neon_attend(const struct cpu_attention *task, struct cpu_heads heads, float *scratch);

#endif

#endif
