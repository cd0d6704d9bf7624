/* Decoding of formats whose scales lie in tensors of their own, on AVX2. Layouts and meaning are
 * those of tensor/fmt_scaled.c, whose values these functions give exactly. Eight or
 * sixteen values at a time that share a scale; groups that are no multiple of that, and what is
 * left at the end of a row, go to the reference. Nothing past the values asked for is read. */
#include "backend/cpu/avx2_unpack.h"

#ifdef __x86_64__

#include "base/num.h"

#include <math.h>

/* The values of a row from `at` on that share scale number `index`: part of them. Divides once, for
 * a division takes as long as sixteen values. */
struct group {
    size_t index, part, columns, rest; /* rest: values that are left, part among them */
};

AVX2_INLINE struct group group_at(const struct view_scales *scales, size_t first, size_t count) {
    size_t columns = scales->group_columns, part = columns - first % columns;
    return (struct group){first / columns, part < count ? part : count, columns, count};
}

AVX2_INLINE void next_group(struct group *group) {
    group->rest -= group->part;
    group->part = group->columns < group->rest ? group->columns : group->rest;
    group->index++;
}

/* Sixteen FP8 codes times `scale`, which is 2^8 times theirs: read as halves they are the same
 * numbers 2^8 times smaller, subnormals too; only the code of NaN is an ordinary half. */
AVX2_INLINE void store_fp8(const uint8_t *codes, __m256 scale, float *to) {
    __m256i words = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)codes));
    __m256i magnitude = _mm256_and_si256(words, _mm256_set1_epi16(0x7F));
    __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(words, magnitude), 8);
    __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7F));
    __m256i halves = _mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign);
    halves = _mm256_or_si256(halves, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7E00)));
    __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    _mm256_storeu_ps(to, _mm256_mul_ps(low, scale));
    _mm256_storeu_ps(to + 8, _mm256_mul_ps(high, scale));
}

AVX2 static void decode_fp8(const struct view *view, size_t row, size_t first, size_t count,
                            float *dst) {
    const struct view_scales *scales = &view->scales;
    const uint8_t *codes = view->data + row * view->row_bytes;
    const uint8_t *factors = scales->data + scales_of_row(scales, row);
    for (struct group group = group_at(scales, first, count); group.rest > 0; next_group(&group)) {
        float scale = 256.0f * load_scale(scales->dtype, factors, group.index);
        size_t at = first + count - group.rest, part = group.part, i = 0;
        if (__builtin_fabsf(scale) < INFINITY) /* exact then, and so is the product's rounding */
            for (; i + 16 <= part; i += 16)
                store_fp8(codes + at + i, _mm256_set1_ps(scale), dst + i);
        if (i < part)
            dtype_get(view->dtype)->decode_row(view, row, at + i, part - i, dst + i);
        dst += part;
    }
}

AVX2_INLINE bool is_whole_word(int bits) {
    return bits == 2 || bits == 4 || bits == 8;
}

/* The `bits` bytes that hold eight numbers. Odd lengths are read backward as eight bytes: this is
 * for the end of a row, where 32 numbers, so eight bytes, lie before. */
AVX2_INLINE uint64_t load_last_numbers(const uint8_t *packed, int bits) {
    uint64_t eight = 0;
    if (is_whole_word(bits)) {
        memcpy(&eight, packed, (size_t)bits);
    } else {
        memcpy(&eight, packed + bits - 8, sizeof eight);
        eight >>= 64 - 8 * bits;
    }
    return eight;
}

/* Eight numbers of `bits` bits, a constant: each from the two bytes that it lies in. */
AVX2_INLINE __m256 numbers_to_float(uint64_t eight, int bits) {
#define BYTES(I) (char)((I)*bits / 8), (char)((I)*bits / 8 + 1), -1, -1
    const __m256i bytes = _mm256_setr_epi8(BYTES(0), BYTES(1), BYTES(2), BYTES(3), BYTES(4),
                                           BYTES(5), BYTES(6), BYTES(7));
#undef BYTES
    const __m256i shifts = _mm256_setr_epi32(0, bits % 8, 2 * bits % 8, 3 * bits % 8, 4 * bits % 8,
                                             5 * bits % 8, 6 * bits % 8, 7 * bits % 8);
    __m256i words = _mm256_shuffle_epi8(_mm256_set1_epi64x((int64_t)eight), bytes);
    words = _mm256_and_si256(_mm256_srlv_epi32(words, shifts), _mm256_set1_epi32((1 << bits) - 1));
    return _mm256_cvtepi32_ps(words);
}

AVX2_INLINE void store_mlx(uint64_t eight, int bits, __m256 scale, __m256 bias, float *to) {
    __m256 product = _mm256_mul_ps(scale, numbers_to_float(eight, bits));
    _mm256_storeu_ps(to, _mm256_add_ps(product, bias));
}

AVX2_INLINE void decode_mlx(const struct view *view, int bits, size_t row, size_t first,
                            size_t count, float *dst) {
    const struct view_scales *scales = &view->scales;
    if (scales->group_columns % 8 != 0) {
        dtype_get(view->dtype)->decode_row(view, row, first, count, dst);
        return;
    }
    const uint8_t *packed = view->data + row * view->row_bytes + first / 8 * (size_t)bits;
    const uint8_t *last = packed + count / 8 * (size_t)bits;
    size_t offset = scales_of_row(scales, row);
    for (struct group group = group_at(scales, first, count); group.rest > 0; next_group(&group)) {
        float factor = load_scale(scales->dtype, scales->data + offset, group.index);
        float summand = load_scale(scales->dtype, scales->biases + offset, group.index);
        __m256 scale = _mm256_set1_ps(factor), bias = _mm256_set1_ps(summand);
        size_t i = 0;
        for (; !is_whole_word(bits) && i < group.part && last - packed >= 8;
             i += 8, packed += bits) {
            uint64_t eight; /* and perhaps bytes of the next eight above them */
            memcpy(&eight, packed, sizeof eight);
            store_mlx(eight, bits, scale, bias, dst + i);
        }
        for (; i < group.part; i += 8, packed += bits)
            store_mlx(load_last_numbers(packed, bits), bits, scale, bias, dst + i);
        dst += group.part;
    }
}

#define DECODE_MLX(BITS)                                                                           \
    AVX2 static void decode_mlx_##BITS(const struct view *view, size_t row, size_t first,          \
                                       size_t count, float *dst) {                                 \
        decode_mlx(view, BITS, row, first, count, dst);                                            \
    }
SL_EACH_MLX_BITS(DECODE_MLX)

/* Eight codes of E2M1, one in each byte: magnitudes by table, then the sign. */
AVX2_INLINE __m256 e2m1_to_float(__m128i codes) {
    const __m256 magnitudes = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
    __m256i index = _mm256_cvtepu8_epi32(codes); /* the table looks at three bits of it */
    __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(index, 3), 31);
    return _mm256_xor_ps(_mm256_permutevar8x32_ps(magnitudes, index), _mm256_castsi256_ps(sign));
}

AVX2 static void decode_mxfp4(const struct view *view, size_t row, size_t first, size_t count,
                              float *dst) {
    const struct view_scales *scales = &view->scales;
    if (scales->group_columns != 32) {
        dtype_get(view->dtype)->decode_row(view, row, first, count, dst);
        return;
    }
    const uint8_t *packed = view->data + row * view->row_bytes + first / 2;
    const uint8_t *factors = scales->data + scales_of_row(scales, row);
    for (size_t at = 0; at < count; at += 32, packed += 16) {
        __m256 scale = _mm256_set1_ps(load_scale(scales->dtype, factors, (first + at) / 32));
        __m128i low, high;
        split_nibbles(packed, &low, &high);
        __m128i half[2] = {_mm_unpacklo_epi8(low, high), _mm_unpackhi_epi8(low, high)};
        for (size_t i = 0; i < 2; i++) {
            float *to = dst + at + 16 * i;
            __m128i upper = _mm_srli_si128(half[i], 8);
            _mm256_storeu_ps(to, _mm256_mul_ps(e2m1_to_float(half[i]), scale));
            _mm256_storeu_ps(to + 8, _mm256_mul_ps(e2m1_to_float(upper), scale));
        }
    }
}

void (*const avx2_row_decoders[DTYPE_COUNT])(const struct view *view, size_t row, size_t first,
                                             size_t count, float *dst) = {
    [DTYPE_F8_E4M3] = decode_fp8, [DTYPE_MLX_2] = decode_mlx_2, [DTYPE_MLX_3] = decode_mlx_3,
    [DTYPE_MLX_4] = decode_mlx_4, [DTYPE_MLX_5] = decode_mlx_5, [DTYPE_MLX_6] = decode_mlx_6,
    [DTYPE_MLX_7] = decode_mlx_7, [DTYPE_MLX_8] = decode_mlx_8, [DTYPE_MXFP4_SPLIT] = decode_mxfp4,
};

#endif
