/* Gated delta networks on AVX2. */
#include "backend/cpu/delta.h"

#ifdef __x86_64__

#include "backend/cpu/avx2_lanes.h"

#define DELTA_TARGET AVX2
#define DELTA_INLINE AVX2_INLINE
#define DELTA_UNROLL AVX2_UNROLL

#include "backend/cpu/delta_lanes.h"

void avx2_delta(const struct cpu_delta *task, const struct kv_run *run, size_t head,
                float *scratch) {
    delta_run(task, run, head, scratch);
}

#endif
