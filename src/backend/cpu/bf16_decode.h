/* Private to bf16_pack.c and the bf16_decode*.c files: weights straight to bf16. */
#ifndef SLUICE_BACKEND_CPU_BF16_DECODE_H
#define SLUICE_BACKEND_CPU_BF16_DECODE_H

#include "backend/cpu/avx2_unpack.h"
#include "backend/cpu/bf16.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

/* What bf16_load_row says, of a row whose weights begin at `from`. */
typedef void bf16_decode(const struct bf16_row *row, const uint8_t *from);

/* By format; NULL: bf16_load_decoded. bf16_decode.c */
extern bf16_decode *const bf16_decoders[DTYPE_COUNT];
/* By way of float32 in scratch, for any format. bf16_pack.c */
bf16_decode bf16_load_decoded;
/* bf16_decode_rows.c */
bf16_decode bf16_fp8, bf16_mxfp4, bf16_mlx_2, bf16_mlx_3, bf16_mlx_4, bf16_mlx_5, bf16_mlx_6,
    bf16_mlx_7, bf16_mlx_8;

/* Bits of a mask for the lanes of those left from `at` on. */
BF16_INLINE __mmask32 lanes_left(size_t count, size_t at) {
    return count - at >= BF16_STEP ? 0xFFFFFFFFu : (1u << (count - at)) - 1;
}

/* The half at `half` in all lanes. */
BF16_INLINE __m512 half_at(const uint8_t *half) {
    uint16_t bits;
    memcpy(&bits, half, sizeof bits);
    return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

/* Two halves one after the other. */
BF16_INLINE void two_halves_at(const uint8_t *halves, __m512 *first, __m512 *second) {
    uint32_t bits;
    memcpy(&bits, halves, sizeof bits);
    __m128 both = _mm_cvtph_ps(_mm_cvtsi32_si128((int)bits));
    *first = _mm512_broadcastss_ps(both);
    *second = _mm512_broadcastss_ps(_mm_movehdup_ps(both));
}

BF16_INLINE __m512 negative_of(__m512 value) {
    return _mm512_xor_ps(value, _mm512_set1_ps(-0.0f));
}

BF16_INLINE __m512 sixteen_signed(const uint8_t *bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)bytes)));
}

BF16_INLINE __m512 sixteen_bytes(__m128i bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}

BF16_INLINE __m512i join(__m256i low, __m256i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Takes 16 even and 16 odd halves to pairs. */
BF16_INLINE __m512i pair_order(void) {
    __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_or_si512(lane,
                           _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16)), 16));
}

/* Tables for store_looked_up: values rounded to bf16. */
BF16_INLINE __m512i table_of_16(__m512 values) {
    __m256i table = (__m256i)_mm512_cvtneps_pbh(values);
    return join(table, table);
}

BF16_INLINE __m512i table_of_32(__m512 low, __m512 high) {
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* A line of weights: floats to round, or words whose lower five bits tell a place in a table. */
BF16_INLINE void store_line(uint8_t *out, __m512 low, __m512 high) {
    _mm512_store_si512(out, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* The weights of even and of odd columns. */
BF16_INLINE void store_pairs(uint8_t *out, __m512 even, __m512 odd) {
    __m512i apart = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    _mm512_store_si512(out, _mm512_permutexvar_epi16(pair_order(), apart));
}

BF16_INLINE void store_looked_up(uint8_t *out, __m512i words, __m512i table) {
    _mm512_store_si512(out, _mm512_permutexvar_epi16(words, table));
}

#endif

#endif
