/* Decoding of weights on NEON: the formats that models are published in most. Layouts and meaning
 * are those of tensor/fmt_*.c, whose values these functions give exactly: products of a scale and a
 * small integer are exact or rounded once in both, and a fused form stands only where the product
 * is exact. src has any alignment; nothing past the last block is read. */
#include "backend/cpu/neon.h"

#ifdef __aarch64__

#include "base/num.h"

/* The half at `half` in all lanes. */
NEON_INLINE float32x4_t half_to_float(const uint8_t *half) {
    uint16_t bits;
    memcpy(&bits, half, sizeof bits);
    return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits)));
}

/* Sixteen bytes as floats: four vectors of four. */
NEON_INLINE void signed_to_float(int8x16_t bytes, float32x4_t to[4]) {
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    to[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    to[1] = vcvtq_f32_s32(vmovl_high_s16(low));
    to[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    to[3] = vcvtq_f32_s32(vmovl_high_s16(high));
}

/* Sixteen signed bytes times factor. */
NEON_INLINE void store_scaled(int8x16_t q, float32x4_t factor, float *to) {
    float32x4_t values[4];
    signed_to_float(q, values);
    NEON_UNROLL
    for (size_t i = 0; i < 4; i++)
        vst1q_f32(to + 4 * i, vmulq_f32(factor, values[i]));
}

/* Sixteen bytes of at most 127 times factor, plus offset. Only where the product is exact (a scale
 * of 11 bits, its factor of at most 6 and a number of at most 4): then the fused form rounds as the
 * separate one does. */
NEON_INLINE void store_affine(uint8x16_t q, float32x4_t factor, float32x4_t offset, float *to) {
    float32x4_t values[4];
    signed_to_float(vreinterpretq_s8_u8(q), values);
    NEON_UNROLL
    for (size_t i = 0; i < 4; i++)
        vst1q_f32(to + 4 * i, vfmaq_f32(offset, factor, values[i]));
}

NEON_INLINE uint8x16_t low_nibbles(uint8x16_t bytes) {
    return vandq_u8(bytes, vdupq_n_u8(15));
}

static void decode_f32(const void *src, size_t count, float *dst) {
    memcpy(dst, src, count * sizeof *dst);
}

static void decode_f16(const void *src, size_t count, float *dst) {
    const uint8_t *bytes = src;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        float16x8_t halves = vreinterpretq_f16_u16(neon_load_halves(bytes + 2 * i));
        vst1q_f32(dst + i, vcvt_f32_f16(vget_low_f16(halves)));
        vst1q_f32(dst + i + 4, vcvt_high_f32_f16(halves));
    }
    for (; i < count; i++)
        dst[i] = vgetq_lane_f32(half_to_float(bytes + 2 * i), 0);
}

static void decode_bf16(const void *src, size_t count, float *dst) {
    const uint8_t *bytes = src;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint16x8_t halves = neon_load_halves(bytes + 2 * i);
        vst1q_f32(dst + i, neon_bf16_low(halves));
        vst1q_f32(dst + i + 4, neon_bf16_high(halves));
    }
    for (; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof half);
        dst[i] = num_from_bf16(half);
    }
}

static void decode_q8_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 32, block += 34) {
        float32x4_t scale = half_to_float(block);
        store_scaled(vreinterpretq_s8_u8(vld1q_u8(block + 2)), scale, dst + at);
        store_scaled(vreinterpretq_s8_u8(vld1q_u8(block + 18)), scale, dst + at + 16);
    }
}

static void decode_q4_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    int8x16_t eight = vdupq_n_s8(8);
    for (size_t at = 0; at < count; at += 32, block += 18) {
        float32x4_t scale = half_to_float(block);
        uint8x16_t bytes = vld1q_u8(block + 2);
        int8x16_t low = vreinterpretq_s8_u8(low_nibbles(bytes));
        int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
        store_scaled(vsubq_s8(low, eight), scale, dst + at);
        store_scaled(vsubq_s8(high, eight), scale, dst + at + 16);
    }
}

static void decode_q4_1(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += 32, block += 20) {
        float32x4_t scale = half_to_float(block), minimum = half_to_float(block + 2);
        uint8x16_t bytes = vld1q_u8(block + 4);
        store_affine(low_nibbles(bytes), scale, minimum, dst + at);
        store_affine(vshrq_n_u8(bytes, 4), scale, minimum, dst + at + 16);
    }
}

/* The eight scales and eight minima of a q4_k block, six bits each in twelve bytes; fmt_long.c says
 * where. Offsets are subtracted: their negative is added. */
NEON_INLINE void unpack_k_scales(const uint8_t *block, float factors[8], float offsets[8]) {
    uint32_t first, second, third, numbers[4];
    float32x4_t floats[4], scale = half_to_float(block);
    float32x4_t minimum = vnegq_f32(half_to_float(block + 2));
    memcpy(&first, block + 4, sizeof first);
    memcpy(&second, block + 8, sizeof second);
    memcpy(&third, block + 12, sizeof third);
    numbers[0] = first & 0x3F3F3F3Fu;
    numbers[1] = (third & 0x0F0F0F0Fu) | (first >> 6 & 0x03030303u) << 4;
    numbers[2] = second & 0x3F3F3F3Fu;
    numbers[3] = (third >> 4 & 0x0F0F0F0Fu) | (second >> 6 & 0x03030303u) << 4;
    signed_to_float(vreinterpretq_s8_u32(vld1q_u32(numbers)), floats);
    vst1q_f32(factors, vmulq_f32(scale, floats[0]));
    vst1q_f32(factors + 4, vmulq_f32(scale, floats[1]));
    vst1q_f32(offsets, vmulq_f32(minimum, floats[2]));
    vst1q_f32(offsets + 4, vmulq_f32(minimum, floats[3]));
}

static void decode_q4_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    float factors[8], offsets[8];
    for (size_t at = 0; at < count; at += 256, block += 144) {
        unpack_k_scales(block, factors, offsets);
        for (size_t part = 0; part < 8; part++) { /* 16 bytes: a half of two runs of 32 */
            uint8x16_t bytes = vld1q_u8(block + 16 + 16 * part);
            size_t run = part / 2 * 2;
            float *to = dst + at + 32 * run + part % 2 * 16;
            store_affine(low_nibbles(bytes), vdupq_n_f32(factors[run]), vdupq_n_f32(offsets[run]),
                         to);
            store_affine(vshrq_n_u8(bytes, 4), vdupq_n_f32(factors[run + 1]),
                         vdupq_n_f32(offsets[run + 1]), to + 32);
        }
    }
}

/* 16 values of a q6_k block from their low four bits, and their upper two where they belong. */
NEON_INLINE void store_q6_k(uint8x16_t low, uint8x16_t upper, float scale, float *to) {
    uint8x16_t q = vorrq_u8(low, vandq_u8(upper, vdupq_n_u8(0x30)));
    store_scaled(vsubq_s8(vreinterpretq_s8_u8(q), vdupq_n_s8(32)), vdupq_n_f32(scale), to);
}

/* Half a block, 128 values: fmt_long.c says which bits make which value. */
NEON_INLINE void decode_q6_k_half(const uint8_t *low, const uint8_t *high, const float *scales,
                                  float *to) {
    for (size_t part = 0; part < 2; part++, low += 16, high += 16, to += 16) {
        uint8x16_t first = vld1q_u8(low), second = vld1q_u8(low + 32), top = vld1q_u8(high);
        store_q6_k(low_nibbles(first), vshlq_n_u8(top, 4), scales[part], to);
        store_q6_k(low_nibbles(second), vshlq_n_u8(top, 2), scales[2 + part], to + 32);
        store_q6_k(vshrq_n_u8(first, 4), top, scales[4 + part], to + 64);
        store_q6_k(vshrq_n_u8(second, 4), vshrq_n_u8(top, 2), scales[6 + part], to + 96);
    }
}

static void decode_q6_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    float scales[16];
    for (size_t at = 0; at < count; at += 256, block += 210) {
        store_scaled(vreinterpretq_s8_u8(vld1q_u8(block + 192)), half_to_float(block + 208),
                     scales);
        decode_q6_k_half(block, block + 128, scales, dst + at);
        decode_q6_k_half(block + 64, block + 160, scales + 8, dst + at + 128);
    }
}

static void (*const block_decoders[DTYPE_COUNT])(const void *src, size_t count, float *dst) = {
    [DTYPE_F32] = decode_f32,   [DTYPE_F16] = decode_f16,   [DTYPE_BF16] = decode_bf16,
    [DTYPE_Q8_0] = decode_q8_0, [DTYPE_Q4_0] = decode_q4_0, [DTYPE_Q4_1] = decode_q4_1,
    [DTYPE_Q4_K] = decode_q4_k, [DTYPE_Q6_K] = decode_q6_k,
};

/* None yet of formats whose scales lie in tensors of their own. */
static void (*const row_decoders[DTYPE_COUNT])(const struct view *view, size_t row, size_t first,
                                               size_t count, float *dst);

const struct cpu_decoders neon_decoders = {.blocks = block_decoders, .rows = row_decoders};

#endif
