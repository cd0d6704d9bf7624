/* Sixteen floats and what attention and delta networks do with them, on NEON: four registers. For
 * attend_lanes.h and delta_lanes.h. */
#ifndef SLUICE_BACKEND_CPU_NEON_LANES_H
#define SLUICE_BACKEND_CPU_NEON_LANES_H

#include "backend/cpu/neon.h"

#ifdef __aarch64__

#include <math.h>

struct lanes {
    float32x4_t a, b, c, d;
};

NEON_INLINE struct lanes lanes_of(float value) {
    float32x4_t all = vdupq_n_f32(value);
    return (struct lanes){all, all, all, all};
}

NEON_INLINE struct lanes lanes_zero(void) {
    return lanes_of(0.0f);
}

NEON_INLINE struct lanes lanes_load(const float *at) {
    return (struct lanes){vld1q_f32(at), vld1q_f32(at + 4), vld1q_f32(at + 8), vld1q_f32(at + 12)};
}

/* At any address. */
NEON_INLINE struct lanes lanes_load_any(const float *at) {
    const uint8_t *bytes = (const uint8_t *)at;
    return (struct lanes){neon_load_words(bytes), neon_load_words(bytes + 16),
                          neon_load_words(bytes + 32), neon_load_words(bytes + 48)};
}

NEON_INLINE void lanes_store(float *at, struct lanes lanes) {
    vst1q_f32(at, lanes.a);
    vst1q_f32(at + 4, lanes.b);
    vst1q_f32(at + 8, lanes.c);
    vst1q_f32(at + 12, lanes.d);
}

NEON_INLINE struct lanes lanes_fma(struct lanes x, struct lanes y, struct lanes sum) {
    return (struct lanes){vfmaq_f32(sum.a, x.a, y.a), vfmaq_f32(sum.b, x.b, y.b),
                          vfmaq_f32(sum.c, x.c, y.c), vfmaq_f32(sum.d, x.d, y.d)};
}

NEON_INLINE struct lanes lanes_mul(struct lanes x, struct lanes y) {
    return (struct lanes){vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c),
                          vmulq_f32(x.d, y.d)};
}

NEON_INLINE struct lanes lanes_add(struct lanes x, struct lanes y) {
    return (struct lanes){vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c),
                          vaddq_f32(x.d, y.d)};
}

NEON_INLINE struct lanes lanes_widen(const uint8_t *halves) {
    uint16x8_t low = neon_load_halves(halves), high = neon_load_halves(halves + 16);
    return (struct lanes){neon_bf16_low(low), neon_bf16_high(low), neon_bf16_low(high),
                          neon_bf16_high(high)};
}

/* All ones in the lanes of slots from .. to; `at` is the slot of the first lane. */
NEON_INLINE uint32x4_t seen_lanes(uint32_t at, size_t from, size_t to) {
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    uint32x4_t slot = vaddq_u32(vdupq_n_u32(at), vld1q_u32(lanes));
    return vandq_u32(vcgeq_u32(slot, vdupq_n_u32((uint32_t)from)),
                     vcltq_u32(slot, vdupq_n_u32((uint32_t)to)));
}

NEON_INLINE float32x4_t keep_four(float32x4_t four, uint32x4_t mask) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(four), mask));
}

NEON_INLINE struct lanes lanes_keep(struct lanes lanes, size_t from, size_t to) {
    return (struct lanes){
        keep_four(lanes.a, seen_lanes(0, from, to)), keep_four(lanes.b, seen_lanes(4, from, to)),
        keep_four(lanes.c, seen_lanes(8, from, to)), keep_four(lanes.d, seen_lanes(12, from, to))};
}

/* The scores that count and are numbers; minus infinity for others. */
NEON_INLINE float32x4_t numbers_of(float32x4_t four, uint32x4_t mask) {
    return vbslq_f32(vandq_u32(mask, vceqq_f32(four, four)), four, vdupq_n_f32(-INFINITY));
}

NEON_INLINE float lanes_largest(struct lanes lanes, size_t from, size_t to) {
    float32x4_t a = numbers_of(lanes.a, seen_lanes(0, from, to));
    float32x4_t b = numbers_of(lanes.b, seen_lanes(4, from, to));
    float32x4_t c = numbers_of(lanes.c, seen_lanes(8, from, to));
    float32x4_t d = numbers_of(lanes.d, seen_lanes(12, from, to));
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a, b), vmaxq_f32(c, d)));
}

#endif

#endif
