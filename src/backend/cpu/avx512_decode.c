/* Decoding of weights on AVX-512, where sixteen values at once pay; all other formats are AVX2's.
 * Layouts and meaning are those of tensor/fmt_*.c, whose values these functions give exactly. src
 * has any alignment; nothing past the last block is read. */
#include "backend/cpu/avx2_unpack.h"
#include "backend/cpu/avx512.h"

#ifdef __x86_64__

/* The first `count` of sixteen lanes. */
AVX512_INLINE __mmask16 first_lanes(size_t count) {
    return (__mmask16)((1u << count) - 1u);
}

AVX512_INLINE __m512 bf16_to_float(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

AVX512 static void decode_bf16(const void *src, size_t count, float *dst) {
    const uint8_t *at = src;
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(dst + i, bf16_to_float(_mm256_loadu_si256((const void *)(at + 2 * i))));
    if (i < count) {
        __mmask16 lanes = first_lanes(count - i);
        __m256i halves = _mm256_maskz_loadu_epi16(lanes, at + 2 * i);
        _mm512_mask_storeu_ps(dst + i, lanes, bf16_to_float(halves));
    }
}

AVX512 static void decode_f16(const void *src, size_t count, float *dst) {
    const uint8_t *at = src;
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(at + 2 * i))));
    if (i < count) {
        __mmask16 lanes = first_lanes(count - i);
        __m256i halves = _mm256_maskz_loadu_epi16(lanes, at + 2 * i);
        _mm512_mask_storeu_ps(dst + i, lanes, _mm512_cvtph_ps(halves));
    }
}

AVX512_INLINE __m512 scale_at(const uint8_t *half) {
    return _mm512_broadcastss_ps(_mm256_castps256_ps128(half_to_float(half)));
}

/* Sixteen signed or unsigned bytes as floats. */
AVX512_INLINE __m512 sixteen_signed(__m128i bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

AVX512_INLINE __m512 sixteen_unsigned(__m128i bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}

AVX512 static void decode_q8_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 32, block += 34) {
        __m512 scale = scale_at(block);
        for (size_t i = 0; i < 32; i += 16) {
            __m128i bytes = _mm_loadu_si128((const void *)(block + 2 + i));
            _mm512_storeu_ps(dst + at + i, _mm512_mul_ps(sixteen_signed(bytes), scale));
        }
    }
}

AVX512 static void decode_q4_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    __m128i eight = _mm_set1_epi8(8), low, high;
    for (size_t at = 0; at < count; at += 32, block += 18) {
        __m512 scale = scale_at(block);
        split_nibbles(block + 2, &low, &high);
        low = _mm_sub_epi8(low, eight);
        high = _mm_sub_epi8(high, eight);
        _mm512_storeu_ps(dst + at, _mm512_mul_ps(scale, sixteen_signed(low)));
        _mm512_storeu_ps(dst + at + 16, _mm512_mul_ps(scale, sixteen_signed(high)));
    }
}

/* A scale of 11 bits times a nibble is exact, so the fused form rounds as the separate one does. */
AVX512 static void decode_q4_1(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    __m128i low, high;
    for (size_t at = 0; at < count; at += 32, block += 20) {
        __m512 scale = scale_at(block), minimum = scale_at(block + 2);
        split_nibbles(block + 4, &low, &high);
        _mm512_storeu_ps(dst + at, _mm512_fmadd_ps(scale, sixteen_unsigned(low), minimum));
        _mm512_storeu_ps(dst + at + 16, _mm512_fmadd_ps(scale, sixteen_unsigned(high), minimum));
    }
}

static void (*const block_decoders[DTYPE_COUNT])(const void *src, size_t count, float *dst) = {
    [DTYPE_BF16] = decode_bf16, [DTYPE_F16] = decode_f16,   [DTYPE_Q8_0] = decode_q8_0,
    [DTYPE_Q4_0] = decode_q4_0, [DTYPE_Q4_1] = decode_q4_1,
};

const struct cpu_decoders avx512_decoders = {
    .blocks = block_decoders,
    .rows = avx2_row_decoders,
    .others = &avx2_decoders,
};

#endif
