/* Decoding of weights on AVX2. Layouts and meaning are those of tensor/fmt_*.c, whose values these
 * functions give exactly: products of a scale and a small integer are exact or rounded once in
 * both, and sums are written as separate operations. src has any alignment; nothing past the last
 * block is read. */
#include "backend/cpu/avx2_unpack.h"

#ifdef __x86_64__

#include "base/num.h"

AVX2 static void decode_f32(const void *src, size_t count, float *dst) {
    memcpy(dst, src, count * sizeof *dst);
}

AVX2 static void decode_f16(const void *src, size_t count, float *dst) {
    const uint8_t *bytes = src;
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(dst + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(bytes + 2 * i))));
    for (; i < count; i++)
        dst[i] = _mm256_cvtss_f32(half_to_float(bytes + 2 * i));
}

AVX2 static void decode_bf16(const void *src, size_t count, float *dst) {
    const uint8_t *bytes = src;
    const __m256i zero = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i halves = _mm256_loadu_si256((const __m256i *)(bytes + 2 * i));
        halves = _mm256_permute4x64_epi64(halves, 0xD8); /* unpacking takes each half's quarters */
        __m256i low = _mm256_unpacklo_epi16(zero, halves);
        __m256i high = _mm256_unpackhi_epi16(zero, halves);
        _mm256_storeu_ps(dst + i, _mm256_castsi256_ps(low));
        _mm256_storeu_ps(dst + i + 8, _mm256_castsi256_ps(high));
    }
    for (; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof half);
        dst[i] = num_from_bf16(half);
    }
}

AVX2 static void decode_q8_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 32, block += 34) {
        __m256 scale = half_to_float(block);
        for (size_t i = 0; i < 32; i += 8) {
            __m128i bytes = _mm_loadl_epi64((const __m128i *)(block + 2 + i));
            _mm256_storeu_ps(dst + at + i, _mm256_mul_ps(signed_to_float(bytes), scale));
        }
    }
}

AVX2 static void decode_q4_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    __m128i eight = _mm_set1_epi8(8);
    for (size_t at = 0; at < count; at += 32, block += 18) {
        __m256 scale = half_to_float(block);
        __m128i part[2];
        split_nibbles(block + 2, &part[0], &part[1]);
        for (size_t p = 0; p < 2; p++) {
            __m128i q = _mm_sub_epi8(part[p], eight);
            float *to = dst + at + 16 * p;
            _mm256_storeu_ps(to, _mm256_mul_ps(scale, signed_to_float(q)));
            _mm256_storeu_ps(to + 8, _mm256_mul_ps(scale, signed_to_float(_mm_srli_si128(q, 8))));
        }
    }
}

/* A scale of 11 bits times a nibble is exact, so the fused form rounds as the separate one does. */
AVX2 static void decode_q4_1(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 32, block += 20) {
        __m256 scale = half_to_float(block), minimum = half_to_float(block + 2);
        __m128i part[2];
        split_nibbles(block + 4, &part[0], &part[1]);
        for (size_t p = 0; p < 2; p++) {
            float *to = dst + at + 16 * p;
            _mm256_storeu_ps(to, _mm256_fmadd_ps(scale, unsigned_to_float(part[p]), minimum));
            _mm256_storeu_ps(
                to + 8,
                _mm256_fmadd_ps(scale, unsigned_to_float(_mm_srli_si128(part[p], 8)), minimum));
        }
    }
}

/* 16 values of a q6_k block: q is its sixteen numbers 0 to 63, scale that of the run. */
AVX2_INLINE void store_q6_k(__m128i q, float scale, float *to) {
    __m256 factor = _mm256_set1_ps(scale);
    __m128i number = _mm_sub_epi8(q, _mm_set1_epi8(32));
    _mm256_storeu_ps(to, _mm256_mul_ps(factor, signed_to_float(number)));
    _mm256_storeu_ps(to + 8, _mm256_mul_ps(factor, signed_to_float(_mm_srli_si128(number, 8))));
}

/* Half a block, 128 values: see fmt_ggml.c for which bits make which value. */
AVX2_INLINE void decode_q6_k_half(const uint8_t *low, const uint8_t *high, const float *scales,
                                  float *to) {
    __m128i two = _mm_set1_epi8(0x30);
    for (size_t part = 0; part < 2; part++) {
        __m128i first[2], second[2]; /* low and high nibbles of the two runs of 32 bytes */
        split_nibbles(low + 16 * part, &first[0], &first[1]);
        split_nibbles(low + 32 + 16 * part, &second[0], &second[1]);
        __m128i top = _mm_loadu_si128((const __m128i *)(high + 16 * part));
        __m128i bits[4] = {
            _mm_and_si128(_mm_slli_epi16(top, 4), two),
            _mm_and_si128(_mm_slli_epi16(top, 2), two),
            _mm_and_si128(top, two),
            _mm_and_si128(_mm_srli_epi16(top, 2), two),
        };
        store_q6_k(_mm_or_si128(first[0], bits[0]), scales[part], to + 16 * part);
        store_q6_k(_mm_or_si128(second[0], bits[1]), scales[2 + part], to + 32 + 16 * part);
        store_q6_k(_mm_or_si128(first[1], bits[2]), scales[4 + part], to + 64 + 16 * part);
        store_q6_k(_mm_or_si128(second[1], bits[3]), scales[6 + part], to + 96 + 16 * part);
    }
}

AVX2 static void decode_q6_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 256, block += 210) {
        __m256 scale = half_to_float(block + 208);
        __m128i small = _mm_loadu_si128((const __m128i *)(block + 192));
        float scales[16];
        _mm256_storeu_ps(scales, _mm256_mul_ps(scale, signed_to_float(small)));
        _mm256_storeu_ps(scales + 8,
                         _mm256_mul_ps(scale, signed_to_float(_mm_srli_si128(small, 8))));
        decode_q6_k_half(block, block + 128, scales, dst + at);
        decode_q6_k_half(block + 64, block + 160, scales + 8, dst + at + 128);
    }
}

static void (*const block_decoders[DTYPE_COUNT])(const void *src, size_t count, float *dst) = {
    [DTYPE_F32] = decode_f32,
    [DTYPE_F16] = decode_f16,
    [DTYPE_BF16] = decode_bf16,
    [DTYPE_Q8_0] = decode_q8_0,
    [DTYPE_Q4_0] = decode_q4_0,
    [DTYPE_Q4_1] = decode_q4_1,
    [DTYPE_Q6_K] = decode_q6_k,
    /* avx2_decode_k.c */
    [DTYPE_Q5_0] = avx2_q5_0,
    [DTYPE_Q5_1] = avx2_q5_1,
    [DTYPE_Q2_K] = avx2_q2_k,
    [DTYPE_Q3_K] = avx2_q3_k,
    [DTYPE_Q4_K] = avx2_q4_k,
    [DTYPE_Q5_K] = avx2_q5_k,
    [DTYPE_IQ4_NL] = avx2_iq4_nl,
    [DTYPE_IQ4_XS] = avx2_iq4_xs,
    [DTYPE_TQ1_0] = avx2_tq1_0,
    [DTYPE_TQ2_0] = avx2_tq2_0,
    [DTYPE_MXFP4] = avx2_mxfp4,
};

const struct cpu_decoders avx2_decoders = {.blocks = block_decoders, .rows = avx2_row_decoders};

#endif
