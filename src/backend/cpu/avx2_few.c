/* The kernels of few.h on AVX2: two 128-bit lanes in a vector, so two vectors to a tile. Up to two
 * tokens, two quads make four or eight independent chains of FMAs; up to four tokens one quad; for
 * eight, the two vectors one after the other: sixteen accumulators would leave no register. */
#include "backend/cpu/avx2.h"
#include "backend/cpu/few.h"

#ifdef __x86_64__

#include <immintrin.h>

enum { VECTORS = 2, VECTOR_LANES = 2 };

/* What a kernel is made for; all are constants. */
struct few_shape {
    enum dtype dtype;
    bool is_rows, is_tall;
    size_t quads, tokens;
    size_t first, end; /* vectors */
};

AVX2_INLINE __m256 load_two(const uint8_t *low, const uint8_t *high) {
    __m128 lane = _mm_loadu_ps((const float *)(const void *)low);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(lane),
                                _mm_loadu_ps((const float *)(const void *)high), 1);
}

/* Lower and upper halves of lanes interleaved, by `bits`. */
AVX2_INLINE void interleave(__m256 a, __m256 b, int bits, __m256 *low, __m256 *high) {
    __m256i x = _mm256_castps_si256(a), y = _mm256_castps_si256(b);
    *low = bits == 16   ? _mm256_castsi256_ps(_mm256_unpacklo_epi16(x, y))
           : bits == 32 ? _mm256_castsi256_ps(_mm256_unpacklo_epi32(x, y))
                        : _mm256_castsi256_ps(_mm256_unpacklo_epi64(x, y));
    *high = bits == 16   ? _mm256_castsi256_ps(_mm256_unpackhi_epi16(x, y))
            : bits == 32 ? _mm256_castsi256_ps(_mm256_unpackhi_epi32(x, y))
                         : _mm256_castsi256_ps(_mm256_unpackhi_epi64(x, y));
}

/* 16 bytes of four streams in each lane, transposed: word[i] has 32-bit column i of all. Of f16,
 * 16-bit columns 2 i and 2 i + 1, 64 bits each, as their conversion needs them. */
AVX2_INLINE void load_words(const struct few_place *place, const uint8_t *w, enum dtype dtype,
                            __m256 word[4]) {
    int bits = dtype == DTYPE_F16 ? 16 : 32;
    const uint8_t *two = w + place->lane_step;
    size_t step = place->stream_step;
    __m256 a = load_two(w, two), b = load_two(w + step, two + step);
    __m256 c = load_two(w + 2 * step, two + 2 * step), d = load_two(w + 3 * step, two + 3 * step);
    __m256 low_ab, high_ab, low_cd, high_cd;
    interleave(a, b, bits, &low_ab, &high_ab);
    interleave(c, d, bits, &low_cd, &high_cd);
    interleave(low_ab, low_cd, 2 * bits, &word[0], &word[1]);
    interleave(high_ab, high_cd, 2 * bits, &word[2], &word[3]);
}

/* The columns in a word: one of float32, two of 16 bits. */
AVX2_INLINE void word_columns(__m256 word, enum dtype dtype, __m256 *first, __m256 *second) {
    __m256i bits = _mm256_castps_si256(word);
    if (dtype == DTYPE_BF16) {
        *first = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
        *second = _mm256_and_ps(word, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xFFFF0000u)));
    } else if (dtype == DTYPE_F16) {
        __m256i halves = _mm256_permute4x64_epi64(bits, 0xD8); /* eight even columns, then odd */
        *first = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
        *second = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    } else {
        *first = word;
    }
}

/* One column of a vector, for the last columns of a row. */
AVX2_INLINE __m256 load_column(const struct few_place *place, const uint8_t *w, enum dtype dtype) {
    float column[VECTOR_LANES * FEW_STREAMS];
    for (size_t i = 0; i < sizeof column / sizeof *column; i++)
        column[i] = few_value(place, w, i, dtype);
    return _mm256_loadu_ps(column);
}

AVX2_INLINE const float *column_x(const struct few_tile *tile, struct few_shape shape, size_t quad,
                                  size_t k) {
    k += shape.is_tall ? 0 : quad * SL_CHAIN;
    return tile->x + k * shape.tokens * (shape.is_rows ? 1 : FEW_STREAMS);
}

typedef __m256 few_chains[FEW_QUADS_MAX][VECTORS][FEW_TOKENS_MAX];

/* A column of each vector times the activations of all tokens, which begin at x. */
AVX2_INLINE void multiply_column(const __m256 column[VECTORS], const float *x,
                                 struct few_shape shape, __m256 chain[VECTORS][FEW_TOKENS_MAX]) {
    AVX2_UNROLL
    for (size_t t = 0; t < shape.tokens; t++) {
        __m256 value = shape.is_rows ? _mm256_broadcast_ss(x + t)
                                     : _mm256_broadcast_ps((const __m128 *)(x + t * FEW_STREAMS));
        AVX2_UNROLL
        for (size_t v = shape.first; v < shape.end; v++)
            chain[v][t] = _mm256_fmadd_ps(column[v], value, chain[v][t]);
    }
}

/* 16 bytes of each stream from column k on. */
AVX2_INLINE void few_step(const struct few_tile *tile, struct few_shape shape, size_t k,
                          few_chains chain) {
    const struct few_place *here = &tile->here;
    size_t bytes = shape.dtype == DTYPE_F32 ? 4 : 2, columns = shape.dtype == DTYPE_F32 ? 1 : 2;
    AVX2_UNROLL
    for (size_t q = 0; q < shape.quads; q++) {
        const uint8_t *w = here->w + k * bytes + q * here->quad_step;
        __m256 word[VECTORS][4], column[2][VECTORS];
        AVX2_UNROLL
        for (size_t v = shape.first; v < shape.end; v++)
            load_words(here, w + v * VECTOR_LANES * here->lane_step, shape.dtype, word[v]);
        AVX2_UNROLL
        for (size_t i = 0; i < 4; i++) {
            AVX2_UNROLL
            for (size_t v = shape.first; v < shape.end; v++)
                word_columns(word[v][i], shape.dtype, &column[0][v], &column[1][v]);
            AVX2_UNROLL
            for (size_t c = 0; c < columns; c++)
                multiply_column(column[c], column_x(tile, shape, q, k + i * columns + c), shape,
                                chain[q]);
        }
    }
}

AVX2_INLINE void multiply(const struct few_tile *tile, struct few_shape shape) {
    few_chains chain;
    AVX2_UNROLL
    for (size_t q = 0; q < shape.quads; q++)
        AVX2_UNROLL
    for (size_t v = shape.first; v < shape.end; v++)
        AVX2_UNROLL
    for (size_t t = 0; t < shape.tokens; t++)
        chain[q][v][t] = _mm256_setzero_ps();
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
        __m256 column[VECTORS];
        AVX2_UNROLL
        for (size_t v = shape.first; v < shape.end; v++)
            column[v] =
                load_column(&tile->here, w + v * VECTOR_LANES * tile->here.lane_step, shape.dtype);
        multiply_column(column, column_x(tile, shape, q, k), shape, chain[q]);
    }
    AVX2_UNROLL
    for (size_t q = 0; q < shape.quads; q++)
        AVX2_UNROLL
    for (size_t v = shape.first; v < shape.end; v++)
        AVX2_UNROLL
    for (size_t t = 0; t < shape.tokens; t++)
        _mm256_store_ps(tile->sums + (q * shape.tokens + t) * FEW_ROWS + v * 8, chain[q][v][t]);
}

#define MULTIPLY(NAME, ...)                                                                        \
    AVX2 static void NAME(const struct few_tile *tile) {                                           \
        multiply(tile, (struct few_shape){__VA_ARGS__});                                           \
    }
#define MULTIPLY_EIGHT(NAME, DTYPE, ROWS)                                                          \
    AVX2 static void NAME(const struct few_tile *tile) {                                           \
        multiply(tile, (struct few_shape){DTYPE, ROWS, false, 1, 8, 0, 1});                        \
        multiply(tile, (struct few_shape){DTYPE, ROWS, false, 1, 8, 1, 2});                        \
    }
/* dtype, is_rows, is_tall, quads, tokens, vectors */
#define MULTIPLY_ALL(NAME, DTYPE)                                                                  \
    MULTIPLY(NAME##_quad_1, DTYPE, false, false, 1, 1, 0, 2)                                       \
    MULTIPLY(NAME##_quad_2, DTYPE, false, false, 1, 2, 0, 2)                                       \
    MULTIPLY(NAME##_quad_4, DTYPE, false, false, 1, 4, 0, 2)                                       \
    MULTIPLY_EIGHT(NAME##_quad_8, DTYPE, false)                                                    \
    MULTIPLY(NAME##_quads_1, DTYPE, false, false, 2, 1, 0, 2)                                      \
    MULTIPLY(NAME##_quads_2, DTYPE, false, false, 2, 2, 0, 2)                                      \
    MULTIPLY(NAME##_tall_1, DTYPE, false, true, 2, 1, 0, 2)                                        \
    MULTIPLY(NAME##_row_1, DTYPE, true, false, 1, 1, 0, 2)                                         \
    MULTIPLY(NAME##_row_2, DTYPE, true, false, 1, 2, 0, 2)                                         \
    MULTIPLY(NAME##_row_4, DTYPE, true, false, 1, 4, 0, 2)                                         \
    MULTIPLY_EIGHT(NAME##_row_8, DTYPE, true)                                                      \
    MULTIPLY(NAME##_rows_1, DTYPE, true, false, 2, 1, 0, 2)                                        \
    MULTIPLY(NAME##_rows_2, DTYPE, true, false, 2, 2, 0, 2)
MULTIPLY_ALL(f32, DTYPE_F32)
MULTIPLY_ALL(f16, DTYPE_F16)
MULTIPLY_ALL(bf16, DTYPE_BF16)

#define WIDTHS(NAME)                                                                               \
    { NAME##_1, NAME##_2, NAME##_4, NAME##_8 }
#define KERNELS(NAME)                                                                              \
    {                                                                                              \
        .by_quads = {WIDTHS(NAME##_quad), {NAME##_quads_1, NAME##_quads_2}},                       \
        .by_tall = {NAME##_tall_1}, .by_rows = {                                                   \
            WIDTHS(NAME##_row),                                                                    \
            {NAME##_rows_1, NAME##_rows_2}                                                         \
        }                                                                                          \
    }

static const struct few_set few_kernels = {
    .decoders = &avx2_decoders, .f32 = KERNELS(f32), .f16 = KERNELS(f16), .bf16 = KERNELS(bf16)};

void avx2_few(const struct cpu_product *task, size_t first, size_t count, float *scratch) {
    few_product(&few_kernels, task, first, count, scratch);
}

#endif
