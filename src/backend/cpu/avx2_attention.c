/* Attention on AVX2: sixteen lanes are two registers. Six queries make twelve accumulators, which
 * with keys or values and a broadcast number fill the registers. */
#include "backend/cpu/avx2.h"

#ifdef __x86_64__

#include "backend/cpu/avx2_lanes.h"

#define ATTEND_TARGET AVX2
#define ATTEND_INLINE AVX2_INLINE
#define ATTEND_UNROLL AVX2_UNROLL
#define ATTEND_TURN avx2_turn
#ifdef __clang__ /* it spills the accumulators of six */
#define ATTEND_CHUNK 4
#else
#define ATTEND_CHUNK 6
#endif
#define ATTEND_CHAINS 4

#include "backend/cpu/attend_lanes.h"

/* Eight rows of eight become eight columns. */
AVX2_INLINE void transpose_rows(__m256 row[8]) {
    __m256 pair[8], quad[8];
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i += 4)
        AVX2_UNROLL
    for (size_t j = 0; j < 2; j++) {
        quad[i + 2 * j] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0x44);
        quad[i + 2 * j + 1] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0xEE);
    }
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        row[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
        row[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
    }
}

AVX2 void avx2_turn(const uint8_t *keys, size_t d, enum kv_dtype dtype,
                    float turned[SL_PAGE_TOKENS][SL_LANES]) {
    for (size_t half = 0; half < SL_PAGE_TOKENS; half += 8)
        for (size_t part = 0; part < SL_LANES; part += 8) {
            __m256 row[8];
            AVX2_UNROLL
            for (size_t i = 0; i < 8; i++) {
                size_t index = (d + part + i) * SL_PAGE_TOKENS + half;
                row[i] = dtype == KV_BF16
                             ? widen_eight(keys + 2 * index)
                             : _mm256_loadu_ps((const float *)(const void *)(keys + 4 * index));
            }
            transpose_rows(row);
            AVX2_UNROLL
            for (size_t i = 0; i < 8; i++)
                _mm256_store_ps(turned[half + i] + part, row[i]);
        }
}

void avx2_attend(const struct cpu_attention *task, struct cpu_heads heads, float *scratch) {
    attend_tokens(attend_lanes, task, heads, scratch);
}

#endif
