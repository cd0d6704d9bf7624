/* Weights whose scales lie in tensors of their own straight to bf16, as bf16_decode.c does it.
 * Layouts and meaning are those of tensor/fmt_scaled.c. Groups that are no whole lines of 32
 * weights go by way of float32, and so do FP8 rows with scales of unusual size. Nothing past the
 * weights and scales asked for is read. */
#include "backend/cpu/bf16_decode.h"

#ifdef __x86_64__

#include "base/num.h"

enum { GROUPS_MAX = 16 }; /* of a row, as no more than 512 columns are asked for */

/* The scales of a row's columns: those of line 0 are number 0, which it and `left` lines in all
 * have; each number after it has `lines`. */
struct groups {
    float scales[GROUPS_MAX], biases[GROUPS_MAX];
    size_t count, left, lines;
};

/* Scales first .. first + count of a row of them, count at most 16. */
BF16_INLINE __m512 load_scales(enum dtype dtype, const uint8_t *row, size_t first, size_t count) {
    __mmask16 lanes = (__mmask16)((1u << count) - 1);
    if (dtype == DTYPE_F32)
        return _mm512_maskz_loadu_ps(lanes, row + 4 * first);
    if (dtype == DTYPE_F8_E8M0) { /* 0 is subnormal, 255 is NaN */
        __m512i exponents = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, row + first));
        __mmask16 is_zero = _mm512_testn_epi32_mask(exponents, exponents);
        __mmask16 is_nan = _mm512_cmpeq_epi32_mask(exponents, _mm512_set1_epi32(255));
        __m512i bits = _mm512_slli_epi32(exponents, 23);
        bits = _mm512_mask_mov_epi32(bits, is_zero, _mm512_set1_epi32(0x00400000));
        bits = _mm512_mask_mov_epi32(bits, is_nan, _mm512_set1_epi32(0x7FC00000));
        return _mm512_castsi512_ps(bits);
    }
    __m256i halves = _mm256_maskz_loadu_epi16(lanes, row + 2 * first);
    if (dtype == DTYPE_F16)
        return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* Whether the row is whole lines that share scales; then these. */
BF16_INLINE bool find_groups(const struct bf16_row *row, struct groups *groups) {
    const struct view_scales *scales = &row->w->scales;
    size_t columns = scales->group_columns, first = quotient(row->column, columns);
    if (columns % BF16_STEP != 0 || row->count % BF16_STEP != 0)
        return false;
    size_t offset = scales_of_row(scales, row->row), left = (first + 1) * columns - row->column;
    groups->count = 1;
    groups->left = left / BF16_STEP;
    groups->lines = columns / BF16_STEP;
    if (row->count > left)
        groups->count += quotient(row->count - left + columns - 1, columns);
    must(groups->count <= GROUPS_MAX);
    _mm512_storeu_ps(groups->scales,
                     load_scales(scales->dtype, scales->data + offset, first, groups->count));
    if (scales->biases)
        _mm512_storeu_ps(groups->biases,
                         load_scales(scales->dtype, scales->biases + offset, first, groups->count));
    return true;
}

/* The lines of group g among the `rest` that are left. */
static inline size_t lines_of(const struct groups *groups, size_t g, size_t rest) {
    size_t lines = g == 0 ? groups->left : groups->lines;
    return lines < rest ? lines : rest;
}

/* FP8: S EEEE MMM. A code's product with a scale has the mantissa of (8 + MMM) x scale, whatever
 * EEEE is, but for codes below 8, which are MMM alone; so two tables give all bits but the upper
 * two of the exponent, which are added, and the sign. */
struct fp8_tables {
    __m512i ordinary; /* of the lower five bits */
    __m512i small;    /* of codes below 8 */
};

BF16_INLINE struct fp8_tables fp8_tables_of(__m512 scale) {
    const __m512 one = _mm512_setr_ps(0x8p-10f, 0x9p-10f, 0xAp-10f, 0xBp-10f, 0xCp-10f, 0xDp-10f,
                                      0xEp-10f, 0xFp-10f, 0x8p-9f, 0x9p-9f, 0xAp-9f, 0xBp-9f,
                                      0xCp-9f, 0xDp-9f, 0xEp-9f, 0xFp-9f);
    const __m512 few = _mm512_setr_ps(0, 0x1p-9f, 0x2p-9f, 0x3p-9f, 0x4p-9f, 0x5p-9f, 0x6p-9f,
                                      0x7p-9f, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512 low = _mm512_mul_ps(scale, one), high = _mm512_mul_ps(low, _mm512_set1_ps(4));
    return (struct fp8_tables){table_of_32(low, high), table_of_16(_mm512_mul_ps(scale, few))};
}

BF16_INLINE void store_fp8(uint8_t *out, const uint8_t *from, const struct fp8_tables *tables) {
    __m256i codes = _mm256_loadu_si256((const void *)from);
    __mmask32 is_small = _mm256_testn_epi8_mask(codes, _mm256_set1_epi8(0x78));
    __mmask32 is_nan = _mm256_cmpeq_epi8_mask(_mm256_or_si256(codes, _mm256_set1_epi8(-128)),
                                              _mm256_set1_epi8(-1));
    __m512i words = _mm512_cvtepu8_epi16(codes);
    __m512i values = _mm512_permutexvar_epi16(words, tables->ordinary);
    values = _mm512_mask_permutexvar_epi16(values, is_small, words, tables->small);
    __m512i upper = _mm512_and_si512(words, _mm512_set1_epi16(0x60));
    values = _mm512_add_epi16(values, _mm512_slli_epi16(upper, 4));
    /* xor with the sign bit alone */
    values = _mm512_ternarylogic_epi32(_mm512_set1_epi16(-0x8000), _mm512_slli_epi16(words, 8),
                                       values, 0x6A);
    if (is_nan)
        values = _mm512_mask_mov_epi16(values, is_nan, _mm512_set1_epi16(0x7FC0));
    _mm512_store_si512(out, values);
}

/* Whether all products are ordinary numbers: neither subnormal nor infinite, nor zero for any other
 * reason than the code. */
static bool are_ordinary(const struct groups *groups) {
    for (size_t g = 0; g < groups->count; g++) {
        float magnitude = __builtin_fabsf(groups->scales[g]);
        if (!(magnitude > 0x1p-100f && magnitude < 0x1p100f))
            return false;
    }
    return true;
}

BF16 void bf16_fp8(const struct bf16_row *row, const uint8_t *from) {
    struct groups groups;
    uint8_t *out = row->out;
    if (!find_groups(row, &groups) || !are_ordinary(&groups)) {
        bf16_load_decoded(row, from);
        return;
    }
    size_t rest = row->count / BF16_STEP;
    for (size_t g = 0, lines; g < groups.count; g++, rest -= lines) {
        struct fp8_tables tables = fp8_tables_of(_mm512_set1_ps(groups.scales[g]));
        lines = lines_of(&groups, g, rest);
        for (size_t i = 0; i < lines; i++, from += BF16_STEP, out += row->stride)
            store_fp8(out, from, &tables);
    }
}

/* Nibbles of sixteen bytes one after the other, low ones first. */
BF16_INLINE __m512i nibbles_in_turn(const uint8_t *packed) {
    __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)packed));
    return _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
}

BF16 void bf16_mxfp4(const struct bf16_row *row, const uint8_t *from) {
    const __m512 levels =
        _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
    struct groups groups;
    uint8_t *out = row->out;
    if (!find_groups(row, &groups) || groups.lines != 1) {
        bf16_load_decoded(row, from);
        return;
    }
    for (size_t g = 0; g < groups.count; g++, from += 16, out += row->stride) {
        __m512 values = _mm512_mul_ps(_mm512_set1_ps(groups.scales[g]), levels);
        store_looked_up(out, nibbles_in_turn(from), table_of_16(values));
    }
}

/* 32 numbers of `bits` bits, which is 3, 5, 6 or 7, one after the other: each lies in two bytes,
 * and those that belong to eight of them begin with word 8 x lane x bits / 16. */
BF16_INLINE __m512i odd_numbers_of(const uint8_t *packed, int bits) {
#define WORD(LANE, I) (short)((LANE)*bits / 2 + (I))
#define BYTES(LANE, I) (short)(((LANE)*bits % 2 + (I)*bits / 8) * 0x101 + 0x100)
#define SHIFT(LANE, I) (short)((I)*bits % 8)
#define EIGHT(OF, LANE)                                                                            \
    OF(LANE, 7), OF(LANE, 6), OF(LANE, 5), OF(LANE, 4), OF(LANE, 3), OF(LANE, 2), OF(LANE, 1),     \
        OF(LANE, 0)
#define ALL(OF) _mm512_set_epi16(EIGHT(OF, 3), EIGHT(OF, 2), EIGHT(OF, 1), EIGHT(OF, 0))
    __m512i all = _mm512_castsi256_si512(
        _mm256_maskz_loadu_epi8((__mmask32)((1ull << 4 * bits) - 1), packed));
    all = _mm512_shuffle_epi8(_mm512_permutexvar_epi16(ALL(WORD), all), ALL(BYTES));
    return _mm512_srlv_epi16(all, ALL(SHIFT));
#undef WORD
#undef BYTES
#undef SHIFT
#undef EIGHT
#undef ALL
}

/* 32 numbers of `bits` bits, a constant, and perhaps bits of others above them. */
BF16_INLINE __m512i numbers_of(const uint8_t *packed, int bits) {
    if (bits == 8)
        return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)packed));
    if (bits == 4)
        return nibbles_in_turn(packed);
    if (bits != 2)
        return odd_numbers_of(packed, bits);
    __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)packed));
    bytes = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 14));
    return _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
}

/* scale x q + bias, rounded twice. */
BF16_INLINE __m512 affine(__m512 scale, __m512 q, __m512 bias) {
    return _mm512_add_ps(_mm512_mul_ps(scale, q), bias);
}

/* The values of the numbers from `first` on: as many as a table has, or all of them again. */
BF16_INLINE __m512i mlx_table(int bits, float first, __m512 scale, __m512 bias) {
    const __m512 q = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512 q3 = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m512 q2 = _mm512_setr_ps(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
    if (bits < 5)
        return table_of_16(affine(scale, bits == 2 ? q2 : bits == 3 ? q3 : q, bias));
    return table_of_32(affine(scale, _mm512_add_ps(q, _mm512_set1_ps(first)), bias),
                       affine(scale, _mm512_add_ps(q, _mm512_set1_ps(first + 16)), bias));
}

BF16_INLINE void store_numbers(uint8_t *out, __m512i words, int bits, __m512 scale, __m512 bias) {
    __m512i mask = _mm512_set1_epi32((1 << bits) - 1);
    __m512i even = _mm512_and_si512(words, mask), odd = _mm512_srli_epi32(words, 16);
    if (bits < 8)
        odd = _mm512_and_si512(odd, mask);
    store_pairs(out, affine(scale, _mm512_cvtepi32_ps(even), bias),
                affine(scale, _mm512_cvtepi32_ps(odd), bias));
}

/* bits is a constant. Up to six bits a group has tables. */
BF16_INLINE void decode_mlx(const struct bf16_row *row, const uint8_t *from, int bits) {
    struct groups groups;
    uint8_t *out = row->out;
    if (!find_groups(row, &groups)) {
        bf16_load_decoded(row, from);
        return;
    }
    size_t rest = row->count / BF16_STEP;
    for (size_t g = 0, lines; g < groups.count; g++, rest -= lines) {
        __m512 scale = _mm512_set1_ps(groups.scales[g]), bias = _mm512_set1_ps(groups.biases[g]);
        __m512i table = mlx_table(bits, 0, scale, bias);
        __m512i upper = bits == 6 ? mlx_table(6, 32, scale, bias) : table;
        lines = lines_of(&groups, g, rest);
        for (size_t i = 0; i < lines; i++, from += 4 * bits, out += row->stride) {
            __m512i words = numbers_of(from, bits);
            if (bits > 6)
                store_numbers(out, words, bits, scale, bias);
            else if (bits == 6)
                _mm512_store_si512(out, _mm512_permutex2var_epi16(table, words, upper));
            else
                store_looked_up(out, words, table);
        }
    }
}

#define DECODE_MLX(BITS)                                                                           \
    BF16 void bf16_mlx_##BITS(const struct bf16_row *row, const uint8_t *from) {                   \
        decode_mlx(row, from, BITS);                                                               \
    }
SL_EACH_MLX_BITS(DECODE_MLX)

#endif
