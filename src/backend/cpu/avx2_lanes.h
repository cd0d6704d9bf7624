/* Sixteen floats and what attention does with them, on AVX2: two registers. For attend_lanes.h. */
#ifndef SLUICE_BACKEND_CPU_AVX2_LANES_H
#define SLUICE_BACKEND_CPU_AVX2_LANES_H

#include "backend/cpu/avx2.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <math.h>

struct lanes {
    __m256 low, high;
};

AVX2_INLINE struct lanes lanes_zero(void) {
    return (struct lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

AVX2_INLINE struct lanes lanes_load(const float *at) {
    return (struct lanes){_mm256_load_ps(at), _mm256_load_ps(at + 8)};
}

AVX2_INLINE struct lanes lanes_load_any(const float *at) {
    return (struct lanes){_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)};
}

AVX2_INLINE void lanes_store(float *at, struct lanes lanes) {
    _mm256_store_ps(at, lanes.low);
    _mm256_store_ps(at + 8, lanes.high);
}

AVX2_INLINE struct lanes lanes_of(float value) {
    __m256 all = _mm256_set1_ps(value);
    return (struct lanes){all, all};
}

AVX2_INLINE struct lanes lanes_fma(struct lanes a, struct lanes b, struct lanes c) {
    return (struct lanes){_mm256_fmadd_ps(a.low, b.low, c.low),
                          _mm256_fmadd_ps(a.high, b.high, c.high)};
}

AVX2_INLINE struct lanes lanes_mul(struct lanes a, struct lanes b) {
    return (struct lanes){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

AVX2_INLINE struct lanes lanes_add(struct lanes a, struct lanes b) {
    return (struct lanes){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

AVX2_INLINE __m256 widen_eight(const uint8_t *halves) {
    __m128i eight = _mm_loadu_si128((const __m128i *)(const void *)halves);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
}

AVX2_INLINE struct lanes lanes_widen(const uint8_t *halves) {
    return (struct lanes){widen_eight(halves), widen_eight(halves + 16)};
}

/* All ones in the lanes of slots from .. to; `at` is the slot of the first lane. */
AVX2_INLINE __m256 seen_lanes(int at, size_t from, size_t to) {
    __m256i slot =
        _mm256_add_epi32(_mm256_set1_epi32(at), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i is_late = _mm256_cmpgt_epi32(slot, _mm256_set1_epi32((int)from - 1));
    __m256i is_early = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)to), slot);
    return _mm256_castsi256_ps(_mm256_and_si256(is_late, is_early));
}

AVX2_INLINE struct lanes lanes_keep(struct lanes lanes, size_t from, size_t to) {
    return (struct lanes){_mm256_and_ps(lanes.low, seen_lanes(0, from, to)),
                          _mm256_and_ps(lanes.high, seen_lanes(8, from, to))};
}

/* The largest of the lanes that count and are numbers, minus infinity if none is. */
AVX2_INLINE float lanes_largest(struct lanes lanes, size_t from, size_t to) {
    __m256 none = _mm256_set1_ps(-INFINITY), low = lanes.low, high = lanes.high;
    __m256 keep_low = _mm256_and_ps(seen_lanes(0, from, to), _mm256_cmp_ps(low, low, _CMP_ORD_Q));
    __m256 keep_high =
        _mm256_and_ps(seen_lanes(8, from, to), _mm256_cmp_ps(high, high, _CMP_ORD_Q));
    __m256 most = _mm256_max_ps(_mm256_blendv_ps(none, low, keep_low),
                                _mm256_blendv_ps(none, high, keep_high));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

#endif

#endif
