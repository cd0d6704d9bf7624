/* Sixteen floats and what attention does with them, on AVX-512: one register. For attend_lanes.h.
 */
#ifndef SLUICE_BACKEND_CPU_AVX512_LANES_H
#define SLUICE_BACKEND_CPU_AVX512_LANES_H

#include "backend/cpu/avx512.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <math.h>

struct lanes {
    __m512 all;
};

AVX512_INLINE struct lanes lanes_zero(void) {
    return (struct lanes){_mm512_setzero_ps()};
}

AVX512_INLINE struct lanes lanes_load(const float *at) {
    return (struct lanes){_mm512_load_ps(at)};
}

AVX512_INLINE struct lanes lanes_load_any(const float *at) {
    return (struct lanes){_mm512_loadu_ps(at)};
}

AVX512_INLINE void lanes_store(float *at, struct lanes lanes) {
    _mm512_store_ps(at, lanes.all);
}

AVX512_INLINE struct lanes lanes_of(float value) {
    return (struct lanes){_mm512_set1_ps(value)};
}

AVX512_INLINE struct lanes lanes_fma(struct lanes a, struct lanes b, struct lanes c) {
    return (struct lanes){_mm512_fmadd_ps(a.all, b.all, c.all)};
}

AVX512_INLINE struct lanes lanes_mul(struct lanes a, struct lanes b) {
    return (struct lanes){_mm512_mul_ps(a.all, b.all)};
}

AVX512_INLINE struct lanes lanes_add(struct lanes a, struct lanes b) {
    return (struct lanes){_mm512_add_ps(a.all, b.all)};
}

AVX512_INLINE struct lanes lanes_widen(const uint8_t *halves) {
    __m256i sixteen = _mm256_loadu_si256((const __m256i *)(const void *)halves);
    return (struct lanes){
        _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(sixteen), 16))};
}

AVX512_INLINE __mmask16 seen_lanes(size_t from, size_t to) {
    return (__mmask16)((0xFFFFu << from) & ((1u << to) - 1u));
}

AVX512_INLINE struct lanes lanes_keep(struct lanes lanes, size_t from, size_t to) {
    return (struct lanes){_mm512_maskz_mov_ps(seen_lanes(from, to), lanes.all)};
}

/* The largest of the lanes that count and are numbers, minus infinity if none is. */
AVX512_INLINE float lanes_largest(struct lanes lanes, size_t from, size_t to) {
    __mmask16 keep =
        _mm512_mask_cmp_ps_mask(seen_lanes(from, to), lanes.all, lanes.all, _CMP_ORD_Q);
    __m512 kept = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), keep, lanes.all);
    return _mm512_reduce_max_ps(kept);
}

#endif

#endif
