/* What every kernel set does around the recurrence of a gated delta network: where heads and states
 * lie, and the gates of a token. delta.c cuts the work into items. Any thread. */
#ifndef SLUICE_BACKEND_CPU_DELTA_H
#define SLUICE_BACKEND_CPU_DELTA_H

#include "backend/cpu/kernels.h"

/* Features of a value that are computed together: S of a head lies in blocks [key_dim, 32], the
 * last one [key_dim, 16] where 16 features are left. */
#define DELTA_BLOCK ((size_t)32)

/* One value head and the key head that goes with it: features of the acts, channels of the
 * convolution. */
struct delta_head {
    size_t key, value;       /* numbers of the heads */
    size_t q, k, v, z, a, b; /* features */
    size_t q_channel, k_channel, v_channel;
};

struct delta_head delta_head_of(const struct delta_args *args, size_t head);

/* The tail of the slot's state, and S of a head of it. */
float *delta_tail(const struct delta_args *args, uint32_t slot);
float *delta_matrix(const struct delta_args *args, uint32_t slot, size_t head);

/* What S is multiplied with before a token, and how much of the change a token makes. */
struct delta_gates {
    float decay, share;
};
struct delta_gates delta_gates_of(const struct delta_args *args, const struct delta_head *head,
                                  size_t token);

/* delta_lanes.h compiled for each set, and the reference. */
void scalar_delta(const struct cpu_delta *task, const struct kv_run *run, size_t head,
                  float *scratch);
#ifdef __x86_64__
void avx2_delta(const struct cpu_delta *task, const struct kv_run *run, size_t head,
                float *scratch);
void avx512_delta(const struct cpu_delta *task, const struct kv_run *run, size_t head,
                  float *scratch);
#endif
#ifdef __aarch64__
void neon_delta(const struct cpu_delta *task, const struct kv_run *run, size_t head,
                float *scratch);
#endif

#endif
