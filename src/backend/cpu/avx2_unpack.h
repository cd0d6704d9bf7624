/* Private to the avx2_decode*.c files: bytes and halves to floats, and the decoders of
 * avx2_decode_k.c for the table in avx2_decode.c. */
#ifndef SLUICE_BACKEND_CPU_AVX2_UNPACK_H
#define SLUICE_BACKEND_CPU_AVX2_UNPACK_H

#include "backend/cpu/avx2.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

AVX2_INLINE __m256 half_to_float(const uint8_t *half) {
    uint16_t bits;
    memcpy(&bits, half, sizeof bits);
    return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

/* Eight signed or unsigned bytes at the low end of `bytes` as floats. */
AVX2_INLINE __m256 signed_to_float(__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

AVX2_INLINE __m256 unsigned_to_float(__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

/* The nibbles of 16 bytes as bytes: low ones, high ones. */
AVX2_INLINE void split_nibbles(const uint8_t *packed, __m128i *low, __m128i *high) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)packed), mask = _mm_set1_epi8(15);
    *low = _mm_and_si128(bytes, mask);
    *high = _mm_and_si128(_mm_srli_epi16(bytes, 4), mask);
}

/* Sixteen signed bytes times factor. */
AVX2_INLINE void store_scaled(__m128i q, __m256 factor, float *to) {
    _mm256_storeu_ps(to, _mm256_mul_ps(factor, signed_to_float(q)));
    _mm256_storeu_ps(to + 8, _mm256_mul_ps(factor, signed_to_float(_mm_srli_si128(q, 8))));
}

/* Sixteen unsigned bytes times factor, plus offset. Only where the product is exact (a scale of 11
 * bits, its factor of at most 6 and a number of at most 5): then the fused form rounds as the
 * separate one does. */
AVX2_INLINE void store_affine(__m128i q, __m256 factor, __m256 offset, float *to) {
    __m128i upper = _mm_srli_si128(q, 8);
    _mm256_storeu_ps(to, _mm256_fmadd_ps(factor, unsigned_to_float(q), offset));
    _mm256_storeu_ps(to + 8, _mm256_fmadd_ps(factor, unsigned_to_float(upper), offset));
}

void avx2_q5_0(const void *src, size_t count, float *dst);
void avx2_q5_1(const void *src, size_t count, float *dst);
void avx2_q2_k(const void *src, size_t count, float *dst);
void avx2_q3_k(const void *src, size_t count, float *dst);
void avx2_q4_k(const void *src, size_t count, float *dst);
void avx2_q5_k(const void *src, size_t count, float *dst);
void avx2_iq4_nl(const void *src, size_t count, float *dst);
void avx2_iq4_xs(const void *src, size_t count, float *dst);
void avx2_tq1_0(const void *src, size_t count, float *dst);
void avx2_tq2_0(const void *src, size_t count, float *dst);
void avx2_mxfp4(const void *src, size_t count, float *dst);

#endif

#endif
