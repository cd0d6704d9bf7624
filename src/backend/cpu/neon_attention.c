/* Attention on NEON: sixteen lanes are four registers. Four queries make sixteen accumulators; the
 * sixteen keys of a dimension take, of bf16, 2 loads and 4 operations to widen for 4 multiply-adds
 * a query. */
#include "backend/cpu/attend.h"
#include "backend/cpu/neon.h"

#ifdef __aarch64__

#include "backend/cpu/neon_lanes.h"

#define ATTEND_TARGET
#define ATTEND_INLINE NEON_INLINE
#define ATTEND_UNROLL NEON_UNROLL
#define ATTEND_TURN neon_turn
#define ATTEND_CHUNK 4
#define ATTEND_CHAINS 4

/* Features d .. d + 16 of the keys of a page, by position. */
static void neon_turn(const uint8_t *keys, size_t d, enum kv_dtype dtype,
                      float turned[SL_PAGE_TOKENS][SL_LANES]) {
    for (size_t part = 0; part < SL_LANES; part += 4)
        for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot += 4) {
            float32x4_t row[4], column[4];
            NEON_UNROLL
            for (size_t i = 0; i < 4; i++) {
                size_t index = (d + part + i) * SL_PAGE_TOKENS + slot;
                uint16x4_t halves = vreinterpret_u16_u8(vld1_u8(keys + 2 * index));
                row[i] = dtype == KV_BF16
                             ? vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(halves), 16))
                             : neon_load_words(keys + 4 * index);
            }
            neon_transpose(row, column);
            NEON_UNROLL
            for (size_t i = 0; i < 4; i++)
                vst1q_f32(turned[slot + i] + part, column[i]);
        }
}

#include "backend/cpu/attend_lanes.h"

void neon_attend(const struct cpu_attention *task, struct cpu_heads heads, float *scratch) {
    attend_tokens(attend_lanes, task, heads, scratch);
}

#endif
