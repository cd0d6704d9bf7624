/* Attention on AVX-512: sixteen lanes are one register; six queries by four vectors of values, or
 * by the keys of four pages, make 24 accumulators. */
#include "backend/cpu/avx512.h"

#ifdef __x86_64__

#include "backend/cpu/avx512_lanes.h"

#define ATTEND_TARGET AVX512
#define ATTEND_INLINE AVX512_INLINE
#define ATTEND_UNROLL AVX2_UNROLL
#define ATTEND_TURN avx2_turn
#define ATTEND_CHUNK 8
#define ATTEND_CHAINS 24

#include "backend/cpu/attend_lanes.h"

void avx512_attend(const struct cpu_attention *task, struct cpu_heads heads, float *scratch) {
    attend_tokens(attend_lanes, task, heads, scratch);
}

#endif
