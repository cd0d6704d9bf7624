/* Decoding of weights on AVX-512, where sixteen values at once pay; all other formats are AVX2's.
 * Layouts and meaning are those of tensor/fmt_*.c, whose values these functions give exactly. src
 * has any alignment; nothing past the last block is read. */
#include "backend/cpu/avx512.h"

#ifdef __x86_64__

#include <immintrin.h>

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

static void (*const block_decoders[DTYPE_COUNT])(const void *src, size_t count, float *dst) = {
    [DTYPE_BF16] = decode_bf16,
};

const struct cpu_decoders avx512_decoders = {
    .blocks = block_decoders,
    .rows = avx2_row_decoders,
    .others = &avx2_decoders,
};

#endif
