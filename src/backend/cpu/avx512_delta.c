/* Gated delta networks on AVX-512. */
#include "backend/cpu/delta.h"

#ifdef __x86_64__

#include "backend/cpu/avx512_lanes.h"

#define DELTA_TARGET AVX512
#define DELTA_INLINE AVX512_INLINE
#define DELTA_UNROLL AVX2_UNROLL

#include "backend/cpu/delta_lanes.h"

void avx512_delta(const struct cpu_delta *task, const struct kv_run *run, size_t head,
                  float *scratch) {
    delta_run(task, run, head, scratch);
}

#endif
