/* Gated delta networks on NEON. */
#include "backend/cpu/delta.h"

#ifdef __aarch64__

#include "backend/cpu/neon_lanes.h"

#define DELTA_TARGET
#define DELTA_INLINE NEON_INLINE
#define DELTA_UNROLL NEON_UNROLL

#include "backend/cpu/delta_lanes.h"

void neon_delta(const struct cpu_delta *task, const struct kv_run *run, size_t head,
                float *scratch) {
    delta_run(task, run, head, scratch);
}

#endif
