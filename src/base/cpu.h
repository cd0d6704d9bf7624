/* What the processor under us can do. Read once, then constant; any thread. */
#ifndef SLUICE_BASE_CPU_H
#define SLUICE_BASE_CPU_H

#include "base/status.h"

struct cpu {
    bool has_avx2_fma; /* AVX2, FMA and F16C, with the operating system saving the registers */
    bool has_avx512;   /* F, BW, DQ, VL */
    bool has_avx512bf16;
    bool has_amx_bf16;
    bool has_neon;   /* Advanced SIMD: every aarch64 processor that Linux runs on */
    bool has_crc32c; /* an instruction for it: SSE4.2, or the CRC extension of aarch64 */
    size_t l1d_bytes, l2_bytes, l3_bytes; /* per core (l3: shared); 0 when not told */
    size_t
        threads_max; /* physical cores that this process may use (affinity, cgroup quota), >= 1 */
    char name[64];
};

const struct cpu *cpu_get(void);

#endif
