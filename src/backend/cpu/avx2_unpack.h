/* Private to the avx2_decode*.c files: bytes, halves and packed scales to
 * floats (bf16_decode*.c use these too), and the decoders of
 * avx2_decode_k.c for the table in avx2_decode.c. */
#ifndef SLUICE_BACKEND_CPU_AVX2_UNPACK_H
#define SLUICE_BACKEND_CPU_AVX2_UNPACK_H

#include "backend/cpu/avx2.h"
#include "base/num.h"

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

AVX2_INLINE __m128i load_bytes(const uint8_t *at) {
    return _mm_loadu_si128((const __m128i *)at);
}

/* Sixteen signed or unsigned bytes times scale into factors. */
AVX2_INLINE void scale_bytes(__m128i bytes, __m256 scale, bool is_signed, float factors[16]) {
    __m128i upper = _mm_srli_si128(bytes, 8);
    __m256 low = is_signed ? signed_to_float(bytes) : unsigned_to_float(bytes);
    __m256 high = is_signed ? signed_to_float(upper) : unsigned_to_float(upper);
    _mm256_storeu_ps(factors, _mm256_mul_ps(scale, low));
    _mm256_storeu_ps(factors + 8, _mm256_mul_ps(scale, high));
}

/* Offsets are subtracted: their negative is added. */
AVX2_INLINE __m256 negative(__m256 value) {
    return _mm256_xor_ps(value, _mm256_set1_ps(-0.0f));
}

/* The sixteen scales of a q3_k block. */
AVX2_INLINE void unpack_q3_k_scales(const uint8_t *packed, const uint8_t *half, float factors[16]) {
    uint32_t word;
    uint64_t pairs;
    memcpy(&pairs, packed, sizeof pairs);
    memcpy(&word, packed + 8, sizeof word);
    __m128i nibbles = _mm_cvtsi64_si128((int64_t)pairs), mask = _mm_set1_epi8(15);
    __m128i low = _mm_unpacklo_epi64(nibbles, _mm_srli_epi64(nibbles, 4));
    __m128i high = _mm_srlv_epi32(_mm_set1_epi32((int)word), _mm_setr_epi32(0, 2, 4, 6));
    high = _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4);
    __m128i scales = _mm_or_si128(_mm_and_si128(low, mask), high);
    scale_bytes(_mm_sub_epi8(scales, _mm_set1_epi8(32)), half_to_float(half), true, factors);
}

/* The eight scales and the eight minima, negated, of a q4_k or q5_k block. */
AVX2_INLINE void unpack_k_scales(const uint8_t *block, float factors[8], float offsets[8]) {
    uint32_t word[3];
    memcpy(word, block + 4, sizeof word);
    uint32_t low_six = 0x3F3F3F3Fu, low_four = 0x0F0F0F0Fu, two = 0x30303030u;
    __m128i scales = _mm_setr_epi32((int)(word[0] & low_six),
                                    (int)((word[2] & low_four) | (word[0] >> 2 & two)), 0, 0);
    __m128i minima = _mm_setr_epi32((int)(word[1] & low_six),
                                    (int)((word[2] >> 4 & low_four) | (word[1] >> 2 & two)), 0, 0);
    __m256 scale = half_to_float(block), minimum = negative(half_to_float(block + 2));
    _mm256_storeu_ps(factors, _mm256_mul_ps(scale, unsigned_to_float(scales)));
    _mm256_storeu_ps(offsets, _mm256_mul_ps(minimum, unsigned_to_float(minima)));
}

/* Number index of a row of scales or biases. */
AVX2_INLINE float load_scale(enum dtype dtype, const uint8_t *row, size_t index) {
    uint16_t half;
    float value;
    switch (dtype) {
    case DTYPE_F32:
        memcpy(&value, row + 4 * index, sizeof value);
        return value;
    case DTYPE_F16:
        return _mm256_cvtss_f32(half_to_float(row + 2 * index));
    case DTYPE_BF16:
        memcpy(&half, row + 2 * index, sizeof half);
        return num_from_bf16(half);
    default: /* E8M0: 0 is subnormal, 255 is NaN */
        return num_bits_float(row[index] == 255 ? 0x7FC00000u
                              : row[index] == 0 ? 0x00400000u
                                                : (uint32_t)row[index] << 23);
    }
}

/* a / b; nearly all groups are powers of two, and a division takes as long as a line of weights. */
static inline size_t quotient(size_t a, size_t b) {
    return (b & (b - 1)) == 0 ? a >> __builtin_ctzll(b) : a / b;
}

/* Where the scales of a row begin. */
AVX2_INLINE size_t scales_of_row(const struct view_scales *scales, size_t row) {
    return quotient(scales->rows_before + row, scales->group_rows) * scales->row_bytes;
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
