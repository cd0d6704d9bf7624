/* The kernels of few.h on AVX-512: a vector is the four lanes of a tile. Two quads for any number
 * of tokens: sixteen accumulators at most, of 32 registers. */
#include "backend/cpu/avx512.h"
#include "backend/cpu/few.h"

#ifdef __x86_64__

#include <immintrin.h>

/* What a kernel is made for; all are constants. */
struct few_shape {
    enum dtype dtype;
    bool is_rows, is_tall;
    size_t quads, tokens;
};

AVX512_INLINE __m128 load_lane(const uint8_t *w) {
    return _mm_loadu_ps((const float *)(const void *)w);
}

/* 16 bytes of a stream in each lane. */
AVX512_INLINE __m512 load_four(const uint8_t *w, size_t lane_step) {
    __m512 low = _mm512_castps256_ps512(
        _mm256_insertf128_ps(_mm256_castps128_ps256(load_lane(w)), load_lane(w + lane_step), 1));
    low = _mm512_insertf32x4(low, load_lane(w + 2 * lane_step), 2);
    return _mm512_insertf32x4(low, load_lane(w + 3 * lane_step), 3);
}

/* Lower and upper halves of lanes interleaved, by `bits`. */
AVX512_INLINE void interleave(__m512 a, __m512 b, int bits, __m512 *low, __m512 *high) {
    __m512i x = _mm512_castps_si512(a), y = _mm512_castps_si512(b);
    *low = bits == 16   ? _mm512_castsi512_ps(_mm512_unpacklo_epi16(x, y))
           : bits == 32 ? _mm512_castsi512_ps(_mm512_unpacklo_epi32(x, y))
                        : _mm512_castsi512_ps(_mm512_unpacklo_epi64(x, y));
    *high = bits == 16   ? _mm512_castsi512_ps(_mm512_unpackhi_epi16(x, y))
            : bits == 32 ? _mm512_castsi512_ps(_mm512_unpackhi_epi32(x, y))
                         : _mm512_castsi512_ps(_mm512_unpackhi_epi64(x, y));
}

/* 16 bytes of four streams in each lane, transposed: word[i] has 32-bit column i of all. Of f16,
 * 16-bit columns 2 i and 2 i + 1, 64 bits each, as their conversion needs them. */
AVX512_INLINE void load_words(const struct few_place *place, const uint8_t *w, enum dtype dtype,
                              __m512 word[4]) {
    int bits = dtype == DTYPE_F16 ? 16 : 32;
    size_t step = place->stream_step, lane = place->lane_step;
    __m512 a = load_four(w, lane), b = load_four(w + step, lane);
    __m512 c = load_four(w + 2 * step, lane), d = load_four(w + 3 * step, lane);
    __m512 low_ab, high_ab, low_cd, high_cd;
    interleave(a, b, bits, &low_ab, &high_ab);
    interleave(c, d, bits, &low_cd, &high_cd);
    interleave(low_ab, low_cd, 2 * bits, &word[0], &word[1]);
    interleave(high_ab, high_cd, 2 * bits, &word[2], &word[3]);
}

/* The columns in a word: one of float32, two of 16 bits. */
AVX512_INLINE void word_columns(__m512 word, enum dtype dtype, __m512 column[2]) {
    __m512i bits = _mm512_castps_si512(word);
    if (dtype == DTYPE_BF16) {
        column[0] = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
        column[1] =
            _mm512_castsi512_ps(_mm512_and_epi32(bits, _mm512_set1_epi32((int)0xFFFF0000u)));
    } else if (dtype == DTYPE_F16) {
        const __m512i apart = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        __m512i halves = _mm512_permutexvar_epi64(apart, bits);
        column[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
        column[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
    } else {
        column[0] = word;
    }
}

/* One column, for the last columns of a row. */
AVX512_INLINE __m512 load_column(const struct few_place *place, const uint8_t *w,
                                 enum dtype dtype) {
    float column[FEW_ROWS];
    for (size_t i = 0; i < FEW_ROWS; i++)
        column[i] = few_value(place, w, i, dtype);
    return _mm512_loadu_ps(column);
}

/* The activations of token t that meet column k of a quad. */
AVX512_INLINE __m512 load_x(const struct few_tile *tile, struct few_shape shape, size_t quad,
                            size_t k, size_t t) {
    size_t at = ((shape.is_tall ? 0 : quad * SL_CHAIN) + k) * shape.tokens + t;
    return shape.is_rows ? _mm512_set1_ps(tile->x[at])
                         : _mm512_broadcast_f32x4(_mm_load_ps(tile->x + at * FEW_STREAMS));
}

typedef __m512 few_chains[FEW_QUADS_MAX][FEW_TOKENS_MAX];

/* 16 bytes of each stream from column k on. The quads take turns: so many independent chains are
 * close enough for the processor to see. */
AVX512_INLINE void few_step(const struct few_tile *tile, struct few_shape shape, size_t k,
                            few_chains chain) {
    const struct few_place *here = &tile->here;
    size_t bytes = shape.dtype == DTYPE_F32 ? 4 : 2, columns = shape.dtype == DTYPE_F32 ? 1 : 2;
    __m512 word[FEW_QUADS_MAX][4], column[FEW_QUADS_MAX][2];
    AVX2_UNROLL
    for (size_t q = 0; q < shape.quads; q++)
        load_words(here, here->w + k * bytes + q * here->quad_step, shape.dtype, word[q]);
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        AVX2_UNROLL
        for (size_t q = 0; q < shape.quads; q++)
            word_columns(word[q][i], shape.dtype, column[q]);
        AVX2_UNROLL
        for (size_t c = 0; c < columns; c++)
            AVX2_UNROLL
        for (size_t t = 0; t < shape.tokens; t++)
            AVX2_UNROLL
        for (size_t q = 0; q < shape.quads; q++)
            chain[q][t] = _mm512_fmadd_ps(
                column[q][c], load_x(tile, shape, q, k + i * columns + c, t), chain[q][t]);
    }
}

AVX512_INLINE void multiply(const struct few_tile *tile, struct few_shape shape) {
    few_chains chain;
    AVX2_UNROLL
    for (size_t q = 0; q < shape.quads; q++)
        AVX2_UNROLL
    for (size_t t = 0; t < shape.tokens; t++)
        chain[q][t] = _mm512_setzero_ps();
    size_t bytes = shape.dtype == DTYPE_F32 ? 4 : 2, step = 16 / bytes, k = 0;
    struct few_prefetch prefetch = few_prefetch(tile, bytes);
    for (; k + step <= tile->count; k += step) {
        few_prefetch_step(tile, &prefetch, shape.quads);
        few_step(tile, shape, k, chain);
    }
    for (; k < tile->count; k++)
        AVX2_UNROLL
    for (size_t q = 0; q < shape.quads; q++) {
        const uint8_t *w = tile->here.w + q * tile->here.quad_step + k * bytes;
        __m512 column = load_column(&tile->here, w, shape.dtype);
        AVX2_UNROLL
        for (size_t t = 0; t < shape.tokens; t++)
            chain[q][t] = _mm512_fmadd_ps(column, load_x(tile, shape, q, k, t), chain[q][t]);
    }
    AVX2_UNROLL
    for (size_t q = 0; q < shape.quads; q++)
        AVX2_UNROLL
    for (size_t t = 0; t < shape.tokens; t++)
        _mm512_store_ps(tile->sums + (q * shape.tokens + t) * FEW_ROWS, chain[q][t]);
}

#define MULTIPLY(NAME, ...)                                                                        \
    AVX512 static void NAME(const struct few_tile *tile) {                                         \
        multiply(tile, (struct few_shape){__VA_ARGS__});                                           \
    }
/* dtype, is_rows, is_tall, quads, tokens */
#define MULTIPLY_ALL(NAME, DTYPE)                                                                  \
    MULTIPLY(NAME##_quad_1, DTYPE, false, false, 1, 1)                                             \
    MULTIPLY(NAME##_quads_1, DTYPE, false, false, 2, 1)                                            \
    MULTIPLY(NAME##_tall_1, DTYPE, false, true, 2, 1)                                              \
    MULTIPLY(NAME##_tall_2, DTYPE, false, true, 2, 2)                                              \
    MULTIPLY(NAME##_tall_4, DTYPE, false, true, 2, 4)                                              \
    MULTIPLY(NAME##_tall_8, DTYPE, false, true, 2, 8)                                              \
    MULTIPLY(NAME##_row_1, DTYPE, true, false, 1, 1)                                               \
    MULTIPLY(NAME##_row_2, DTYPE, true, false, 1, 2)                                               \
    MULTIPLY(NAME##_row_4, DTYPE, true, false, 1, 4)                                               \
    MULTIPLY(NAME##_row_8, DTYPE, true, false, 1, 8)                                               \
    MULTIPLY(NAME##_rows_1, DTYPE, true, false, 2, 1)                                              \
    MULTIPLY(NAME##_rows_2, DTYPE, true, false, 2, 2)
MULTIPLY_ALL(f32, DTYPE_F32)
MULTIPLY_ALL(f16, DTYPE_F16)
MULTIPLY_ALL(bf16, DTYPE_BF16)

#define WIDTHS(NAME)                                                                               \
    { NAME##_1, NAME##_2, NAME##_4, NAME##_8 }
#define KERNELS(NAME)                                                                              \
    {                                                                                              \
        .by_quads = {{NAME##_quad_1}, {NAME##_quads_1}}, .by_tall = WIDTHS(NAME##_tall),           \
        .by_rows = {                                                                               \
            WIDTHS(NAME##_row),                                                                    \
            {NAME##_rows_1, NAME##_rows_2}                                                         \
        }                                                                                          \
    }

static const struct few_set few_kernels = {
    .decoders = &avx512_decoders, .f32 = KERNELS(f32), .f16 = KERNELS(f16), .bf16 = KERNELS(bf16)};

void avx512_few(const struct cpu_product *task, size_t first, size_t count, float *scratch) {
    few_product(&few_kernels, task, first, count, scratch);
}

#endif
