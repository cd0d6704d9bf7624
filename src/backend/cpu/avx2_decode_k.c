/* Decoding of ggml's other blocks on AVX2: five bits, K-quants, IQ4, ternary, MXFP4. Layouts and
 * meaning are those of tensor/fmt_short.c and fmt_long.c, whose values these functions give
 * exactly. src has any alignment; nothing past the last block is read. */
#include "backend/cpu/avx2_unpack.h"

#ifdef __x86_64__

#include "base/num.h"

/* Sixteen bytes shifted right and masked. */
AVX2_INLINE __m128i shifted(__m128i bytes, size_t shift, int mask) {
    return _mm_and_si128(_mm_srl_epi16(bytes, _mm_cvtsi32_si128((int)shift)),
                         _mm_set1_epi8((char)mask));
}

/* Bit i of 32 as byte i of the two halves, 16 or 0. */
AVX2_INLINE void spread_bits(const uint8_t *bits, __m128i *low, __m128i *high) {
    uint32_t word;
    memcpy(&word, bits, sizeof word);
    const __m128i which = _mm_set1_epi64x((int64_t)0x8040201008040201);
    const __m128i first = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m128i all = _mm_cvtsi32_si128((int)word);
    __m128i one = _mm_shuffle_epi8(all, first);
    __m128i two = _mm_shuffle_epi8(all, _mm_add_epi8(first, _mm_set1_epi8(2)));
    __m128i sixteen = _mm_set1_epi8(16);
    *low = _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(one, which), which), sixteen);
    *high = _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(two, which), which), sixteen);
}

AVX2 void avx2_q5_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 32, block += 22) {
        __m256 scale = half_to_float(block);
        __m128i low, high, bits[2], middle = _mm_set1_epi8(16);
        split_nibbles(block + 6, &low, &high);
        spread_bits(block + 2, &bits[0], &bits[1]);
        store_scaled(_mm_sub_epi8(_mm_or_si128(low, bits[0]), middle), scale, dst + at);
        store_scaled(_mm_sub_epi8(_mm_or_si128(high, bits[1]), middle), scale, dst + at + 16);
    }
}

AVX2 void avx2_q5_1(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 32, block += 24) {
        __m256 scale = half_to_float(block), minimum = half_to_float(block + 2);
        __m128i low, high, bits[2];
        split_nibbles(block + 8, &low, &high);
        spread_bits(block + 4, &bits[0], &bits[1]);
        store_affine(_mm_or_si128(low, bits[0]), scale, minimum, dst + at);
        store_affine(_mm_or_si128(high, bits[1]), scale, minimum, dst + at + 16);
    }
}

AVX2 void avx2_q2_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    float factors[16], offsets[16];
    for (size_t at = 0; at < count; at += 256, block += 84) {
        __m128i low, high;
        split_nibbles(block, &low, &high);
        scale_bytes(low, half_to_float(block + 80), false, factors);
        scale_bytes(high, negative(half_to_float(block + 82)), false, offsets);
        for (size_t part = 0; part < 4; part++) { /* 16 bytes: a half of four runs */
            __m128i bytes = load_bytes(block + 16 + 16 * part);
            for (size_t run = 0; run < 4; run++) {
                size_t half = part / 2 * 8 + run * 2 + part % 2;
                store_affine(shifted(bytes, 2 * run, 3), _mm256_set1_ps(factors[half]),
                             _mm256_set1_ps(offsets[half]), dst + at + 16 * half);
            }
        }
    }
}

AVX2 void avx2_q3_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    float factors[16];
    for (size_t at = 0; at < count; at += 256, block += 110) {
        unpack_q3_k_scales(block + 96, block + 108, factors);
        for (size_t part = 0; part < 4; part++) {
            __m128i bytes = load_bytes(block + 32 + 16 * part);
            __m128i bits = load_bytes(block + 16 * (part % 2));
            for (size_t run = 0; run < 4; run++) {
                size_t half = part / 2 * 8 + run * 2 + part % 2;
                __m128i high = _mm_slli_epi16(shifted(bits, half / 2, 1), 2);
                __m128i q = _mm_or_si128(shifted(bytes, 2 * run, 3), high);
                store_scaled(_mm_sub_epi8(q, _mm_set1_epi8(4)), _mm256_set1_ps(factors[half]),
                             dst + at + 16 * half);
            }
        }
    }
}

AVX2 void avx2_q4_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    float factors[8], offsets[8];
    for (size_t at = 0; at < count; at += 256, block += 144) {
        unpack_k_scales(block, factors, offsets);
        for (size_t run = 0; run < 8; run += 2) {
            __m256 scale[2] = {_mm256_set1_ps(factors[run]), _mm256_set1_ps(factors[run + 1])};
            __m256 offset[2] = {_mm256_set1_ps(offsets[run]), _mm256_set1_ps(offsets[run + 1])};
            for (size_t half = 0; half < 2; half++) {
                __m128i low, high;
                split_nibbles(block + 16 + 16 * (run + half), &low, &high);
                float *to = dst + at + 32 * run + 16 * half;
                store_affine(low, scale[0], offset[0], to);
                store_affine(high, scale[1], offset[1], to + 32);
            }
        }
    }
}

AVX2 void avx2_q5_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    float factors[8], offsets[8];
    for (size_t at = 0; at < count; at += 256, block += 176) {
        unpack_k_scales(block, factors, offsets);
        for (size_t run = 0; run < 8; run += 2) {
            __m256 scale[2] = {_mm256_set1_ps(factors[run]), _mm256_set1_ps(factors[run + 1])};
            __m256 offset[2] = {_mm256_set1_ps(offsets[run]), _mm256_set1_ps(offsets[run + 1])};
            for (size_t half = 0; half < 2; half++) {
                __m128i low, high, bits = load_bytes(block + 16 + 16 * half);
                split_nibbles(block + 48 + 16 * (run + half), &low, &high);
                low = _mm_or_si128(low, _mm_slli_epi16(shifted(bits, run, 1), 4));
                high = _mm_or_si128(high, _mm_slli_epi16(shifted(bits, run + 1, 1), 4));
                float *to = dst + at + 32 * run + 16 * half;
                store_affine(low, scale[0], offset[0], to);
                store_affine(high, scale[1], offset[1], to + 32);
            }
        }
    }
}

/* 32 numbers of a table of 16 signed bytes: low nibbles, then high ones. */
AVX2_INLINE void look_up(const uint8_t *packed, __m128i table, __m256 scale, float *to) {
    __m128i low, high;
    split_nibbles(packed, &low, &high);
    store_scaled(_mm_shuffle_epi8(table, low), scale, to);
    store_scaled(_mm_shuffle_epi8(table, high), scale, to + 16);
}

AVX2_INLINE __m128i iq4_levels(void) {
    return _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
}

AVX2 void avx2_iq4_nl(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 32, block += 18)
        look_up(block + 2, iq4_levels(), half_to_float(block), dst + at);
}

AVX2 void avx2_iq4_xs(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 256, block += 136) {
        uint32_t low, high = (uint32_t)block[2] | (uint32_t)block[3] << 8;
        memcpy(&low, block + 4, sizeof low);
        __m256 scale = half_to_float(block);
        for (unsigned run = 0; run < 8; run++) {
            int number = (int)((low >> 4 * run & 15u) | (high >> 2 * run & 3u) << 4) - 32;
            __m256 factor = _mm256_mul_ps(scale, _mm256_set1_ps((float)number));
            look_up(block + 8 + 16 * run, iq4_levels(), factor, dst + at + 32 * run);
        }
    }
}

AVX2 void avx2_mxfp4(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    const __m128i doubles = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    for (size_t at = 0; at < count; at += 32, block += 17) {
        uint32_t exponent = block[0];
        uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
        look_up(block + 1, doubles, _mm256_set1_ps(num_bits_float(bits)), dst + at);
    }
}

/* Digits of 16 bytes, see fmt_long.c: digit d of all goes to `to` + d * apart. */
AVX2_INLINE void store_trits(const uint8_t *bytes, __m256 scale, size_t apart, float *to) {
    __m256i words = _mm256_cvtepu8_epi16(load_bytes(bytes)), one = _mm256_set1_epi16(1);
    __m256i byte = _mm256_set1_epi16(255), three = _mm256_set1_epi16(3);
    for (size_t digit = 0; digit < 5; digit++, to += apart) {
        __m256i trits = _mm256_srli_epi16(_mm256_mullo_epi16(words, three), 8);
        trits = _mm256_sub_epi16(trits, one);
        __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(trits));
        __m256i high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(trits, 1));
        _mm256_storeu_ps(to, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(low)));
        _mm256_storeu_ps(to + 8, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(high)));
        words = _mm256_and_si256(_mm256_mullo_epi16(words, three), byte);
    }
}

AVX2 void avx2_tq1_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 256, block += 54) {
        __m256 scale = half_to_float(block + 52);
        store_trits(block, scale, 32, dst + at);
        store_trits(block + 16, scale, 32, dst + at + 16);
        store_trits(block + 32, scale, 16, dst + at + 160);
        /* Four bytes with four digits each, the digits of all four behind one another. */
        uint32_t four;
        uint8_t digits[16];
        memcpy(&four, block + 48, sizeof four);
        for (size_t i = 0; i < 16; i++) {
            static const uint8_t powers[4] = {1, 3, 9, 27};
            uint8_t byte = (uint8_t)((four >> i % 4 * 8 & 255u) * powers[i / 4]);
            digits[i] = (uint8_t)(byte * 3u >> 8);
        }
        store_scaled(_mm_sub_epi8(load_bytes(digits), _mm_set1_epi8(1)), scale, dst + at + 240);
    }
}

AVX2 void avx2_tq2_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    __m128i one = _mm_set1_epi8(1);
    for (size_t at = 0; at < count; at += 256, block += 66) {
        __m256 scale = half_to_float(block + 64);
        for (size_t part = 0; part < 4; part++) {
            __m128i bytes = load_bytes(block + 16 * part);
            float *to = dst + at + part / 2 * 128 + part % 2 * 16;
            for (size_t run = 0; run < 4; run++)
                store_scaled(_mm_sub_epi8(shifted(bytes, 2 * run, 3), one), scale, to + 32 * run);
        }
    }
}

#endif
