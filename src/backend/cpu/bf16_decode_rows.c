/* Weights whose scales lie in tensors of their own straight to bf16, as bf16_decode.c does it.
 * Layouts and meaning are those of tensor/fmt_scaled.c. Groups that are no whole lines of 32, and
 * scales that are no numbers, go by way of float32. Nothing past the weights asked for is read. */
#include "backend/cpu/bf16_decode.h"

#ifdef __x86_64__

#include <math.h>

/* Lines of 32 weights, all with scales of their own place: whether a row is that. */
static bool has_whole_lines(const struct bf16_row *row) {
    return row->w->scales.group_columns % BF16_STEP == 0 && row->count % BF16_STEP == 0;
}

/* Where the lines of a row get their scale: the number of that of line 0, how many lines it still
 * has, and how many each of those after it. */
struct groups {
    size_t index, left, lines;
};

static inline struct groups groups_of(const struct bf16_row *row) {
    size_t columns = row->w->scales.group_columns;
    size_t left = columns - row->column % columns;
    return (struct groups){row->column / columns, left / BF16_STEP, columns / BF16_STEP};
}

/* After a line: whether the next one has another scale. */
static inline bool is_next_group(struct groups *groups) {
    if (--groups->left > 0)
        return false;
    groups->left = groups->lines;
    groups->index++;
    return true;
}

/* 32 FP8 codes as halves, which are 2^8 times smaller; see store_fp8 in avx2_decode_rows.c. */
BF16_INLINE __m512i fp8_to_halves(const uint8_t *codes) {
    __m512i words = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)codes));
    __m512i magnitude = _mm512_and_si512(words, _mm512_set1_epi16(0x7F));
    __m512i sign = _mm512_slli_epi16(_mm512_xor_si512(words, magnitude), 8);
    __mmask32 is_nan = _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x7F));
    __m512i halves = _mm512_or_si512(_mm512_slli_epi16(magnitude, 7), sign);
    return _mm512_mask_mov_epi16(halves, is_nan, _mm512_set1_epi16(0x7E00));
}

BF16 void bf16_fp8(const struct bf16_row *row, const uint8_t *from) {
    const struct view_scales *scales = &row->w->scales;
    const uint8_t *factors = scales->data + scales_of_row(scales, row->row);
    struct groups groups = groups_of(row);
    uint8_t *out = row->out;
    float scale = 256.0f * load_scale(scales->dtype, factors, groups.index);
    for (size_t at = 0; has_whole_lines(row) && at < row->count; at += BF16_STEP) {
        if (!(__builtin_fabsf(scale) < INFINITY))
            break;
        __m512i halves = fp8_to_halves(from + at);
        __m512 factor = _mm512_set1_ps(scale);
        __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
        __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
        store_line(out, _mm512_mul_ps(low, factor), _mm512_mul_ps(high, factor));
        out += row->stride;
        if (at + BF16_STEP == row->count)
            return;
        if (is_next_group(&groups))
            scale = 256.0f * load_scale(scales->dtype, factors, groups.index);
    }
    bf16_load_decoded(row, from);
}

/* Nibbles of sixteen bytes one after the other, low ones first. */
BF16_INLINE __m512i nibbles_in_turn(const uint8_t *packed) {
    __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)packed));
    return _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
}

BF16 void bf16_mxfp4(const struct bf16_row *row, const uint8_t *from) {
    const __m512 levels =
        _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
    const struct view_scales *scales = &row->w->scales;
    const uint8_t *factors = scales->data + scales_of_row(scales, row->row);
    uint8_t *out = row->out;
    if (scales->group_columns != BF16_STEP || row->count % BF16_STEP != 0) {
        bf16_load_decoded(row, from);
        return;
    }
    factors += row->column / BF16_STEP * dtype_get(scales->dtype)->block_bytes;
    for (size_t at = 0; at < row->count; at += BF16_STEP, from += 16, out += row->stride) {
        __m512 scale = _mm512_set1_ps(load_scale(scales->dtype, factors, at / BF16_STEP));
        store_looked_up(out, nibbles_in_turn(from), table_of_16(_mm512_mul_ps(scale, levels)));
    }
}

/* 32 numbers of `bits` bits, a constant, and perhaps bits of others above them: each from the word
 * that it begins in, and the next where it ends there. */
BF16_INLINE __m512i numbers_of(const uint8_t *packed, int bits) {
    if (bits == 8)
        return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)packed));
    if (bits == 4)
        return nibbles_in_turn(packed);
    if (bits == 2) {
        __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)packed));
        bytes = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 14));
        return _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
    }
    __m512i all = _mm512_castsi256_si512(
        _mm256_maskz_loadu_epi8((__mmask32)((1ull << 4 * bits) - 1), packed));
    _Alignas(64) static const uint16_t counting[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                       11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                                       22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    __m512i first = _mm512_mullo_epi16(_mm512_load_si512(counting), _mm512_set1_epi16((short)bits));
    __m512i word = _mm512_srli_epi16(first, 4);
    __m512i shift = _mm512_and_si512(first, _mm512_set1_epi16(15));
    __m512i next = _mm512_add_epi16(word, _mm512_set1_epi16(1));
    __m512i low = _mm512_srlv_epi16(_mm512_permutexvar_epi16(word, all), shift);
    __m512i up = _mm512_sub_epi16(_mm512_set1_epi16(16), shift); /* 16 shifts everything out */
    return _mm512_or_si512(low, _mm512_sllv_epi16(_mm512_permutexvar_epi16(next, all), up));
}

/* scale x q + bias, rounded twice. */
BF16_INLINE __m512 affine(__m512 scale, __m512 q, __m512 bias) {
    return _mm512_add_ps(_mm512_mul_ps(scale, q), bias);
}

BF16_INLINE __m512i mlx_table(int bits, __m512 scale, __m512 bias) {
    const __m512 q = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512 q3 = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m512 q2 = _mm512_setr_ps(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
    if (bits < 5)
        return table_of_16(affine(scale, bits == 2 ? q2 : bits == 3 ? q3 : q, bias));
    __m512 more = _mm512_add_ps(q, _mm512_set1_ps(16));
    return table_of_32(affine(scale, q, bias), affine(scale, more, bias));
}

BF16_INLINE void store_numbers(uint8_t *out, __m512i words, int bits, __m512 scale, __m512 bias) {
    words = _mm512_and_si512(words, _mm512_set1_epi16((short)((1 << bits) - 1)));
    __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(words));
    __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(words, 1));
    store_line(out, affine(scale, _mm512_cvtepi32_ps(low), bias),
               affine(scale, _mm512_cvtepi32_ps(high), bias));
}

/* bits is a constant. Up to five bits a group has a table. */
BF16_INLINE void decode_mlx(const struct bf16_row *row, const uint8_t *from, int bits) {
    const struct view_scales *scales = &row->w->scales;
    size_t offset = scales_of_row(scales, row->row);
    struct groups groups = groups_of(row);
    uint8_t *out = row->out;
    if (!has_whole_lines(row)) {
        bf16_load_decoded(row, from);
        return;
    }
    for (size_t at = 0; at < row->count;) {
        float factor = load_scale(scales->dtype, scales->data + offset, groups.index);
        float summand = load_scale(scales->dtype, scales->biases + offset, groups.index);
        __m512 scale = _mm512_set1_ps(factor), bias = _mm512_set1_ps(summand);
        __m512i table = mlx_table(bits, scale, bias);
        do {
            __m512i words = numbers_of(from, bits);
            if (bits > 5)
                store_numbers(out, words, bits, scale, bias);
            else
                store_looked_up(out, words, table);
            at += BF16_STEP;
            from += 4 * bits;
            out += row->stride;
        } while (!is_next_group(&groups) && at < row->count);
    }
}

#define DECODE_MLX(BITS)                                                                           \
    BF16 void bf16_mlx_##BITS(const struct bf16_row *row, const uint8_t *from) {                   \
        decode_mlx(row, from, BITS);                                                               \
    }
DECODE_MLX(2)
DECODE_MLX(3)
DECODE_MLX(4)
DECODE_MLX(5)
DECODE_MLX(6)
DECODE_MLX(7)
DECODE_MLX(8)

#endif
