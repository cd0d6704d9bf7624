/* ggml's blocks of 256 values, most with scales of scales. The layouts are those of the ggml
 * project's ggml-common.h and of gguf-py's quants.py, which is the source of the expected values in
 * the tests. A run is 32 values, so a block has eight, and a half run has its own scale where there
 * are sixteen.
 *
 *   q2_k    16 scale bytes | q 64 | scale f16 | minimum f16        d * (byte & 15) * q - m * (byte
 * >> 4) q3_k    high bits 32 | q 64 | 16 scales of 6 bits | scale f16  d * (s - 32) * (q - 4 if bit
 * = 0) q4_k    scale f16 | minimum f16 | 8 x 2 of 6 bits | q 128      d * s * q - m * t q5_k scale
 * f16 | minimum f16 | 8 x 2 of 6 bits | high bits 32 | q 128   the same q6_k    q 128 | high bits
 * 64 | 16 x int8 | scale f16           d * s * (q - 32) iq4_xs  scale f16 | 8 scales of 6 bits:
 * high, low | q 128      d * (s - 32) * levels[q] tq1_0   trits 48 + 4 | scale f16 d * (trit - 1)
 *   tq2_0   q 64 | scale f16                                       d * (q - 1)
 *
 * Two-bit numbers: 32 bytes hold four runs, the run's bits at 0, 2, 4, 6 of each byte. Four-bit
 * numbers: 32 bytes hold two runs, low nibbles first (q6_k and iq4_xs differ, see there). A high
 * bit of run r is bit r of its value's byte. */
#include "tensor/fmt.h"

#include "base/num.h"

enum { VALUES = 256, RUNS = 8, RUN = 32, HALF = 16 };

static float load_half(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return num_from_f16(half);
}

void fmt_long_q2_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 84) {
        float scale = load_half(block + 80), minimum = load_half(block + 82);
        for (size_t half = 0; half < 2 * RUNS; half++) {
            const uint8_t *bytes = block + 16 + half / 8 * RUN + half % 2 * HALF;
            size_t shift = half / 2 % 4 * 2;
            float factor = scale * (float)(block[half] & 15);
            float offset = minimum * (float)(block[half] >> 4);
            float *out = dst + at + half * HALF;
            for (size_t i = 0; i < HALF; i++)
                out[i] = factor * (float)(bytes[i] >> shift & 3) - offset;
        }
    }
}

/* Low four bits: nibbles of 8 bytes, low ones first; the upper two: four scales to each of the
 * shifts 0, 2, 4, 6 of 4 bytes. */
static void unpack_q3_k_scales(const uint8_t packed[12], float scale, float scales[16]) {
    for (size_t i = 0; i < 16; i++) {
        int low = packed[i % 8] >> i / 8 * 4 & 15, high = packed[8 + i % 4] >> i / 4 * 2 & 3;
        scales[i] = scale * (float)((low | high << 4) - 32);
    }
}

void fmt_long_q3_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    float scales[16];
    for (size_t at = 0; at < count; at += VALUES, block += 110) {
        unpack_q3_k_scales(block + 96, load_half(block + 108), scales);
        for (size_t half = 0; half < 2 * RUNS; half++) {
            size_t first = half % 2 * HALF, shift = half / 2 % 4 * 2, bit = half / 2;
            const uint8_t *high = block + first, *bytes = block + RUN + half / 8 * RUN + first;
            float *out = dst + at + half * HALF;
            for (size_t i = 0; i < HALF; i++) {
                int q = (bytes[i] >> shift & 3) + (high[i] >> bit & 1) * 4 - 4;
                out[i] = scales[half] * (float)q;
            }
        }
    }
}

/* Eight scales and eight minima of six bits in twelve bytes: 0 to 3 are the low six bits of bytes 0
 * to 3 (minima: 4 to 7); 4 to 7 have their low four bits in the low (high) nibbles of bytes 8 to
 * 11, and their upper two on top of the first ones. */
static void unpack_k_scales(const uint8_t *block, float factors[RUNS], float offsets[RUNS]) {
    const uint8_t *packed = block + 4;
    float scale = load_half(block), minimum = load_half(block + 2);
    for (size_t i = 0; i < 4; i++) {
        factors[i] = scale * (float)(packed[i] & 63);
        offsets[i] = minimum * (float)(packed[4 + i] & 63);
        factors[4 + i] = scale * (float)((packed[8 + i] & 15) | packed[i] >> 6 << 4);
        offsets[4 + i] = minimum * (float)(packed[8 + i] >> 4 | packed[4 + i] >> 6 << 4);
    }
}

void fmt_long_q4_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    float factors[RUNS], offsets[RUNS];
    for (size_t at = 0; at < count; at += VALUES, block += 144) {
        unpack_k_scales(block, factors, offsets);
        for (size_t run = 0; run < RUNS; run++) {
            const uint8_t *bytes = block + 16 + run / 2 * RUN;
            size_t shift = run % 2 * 4;
            float *out = dst + at + run * RUN;
            for (size_t i = 0; i < RUN; i++)
                out[i] = factors[run] * (float)(bytes[i] >> shift & 15) - offsets[run];
        }
    }
}

void fmt_long_q5_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    float factors[RUNS], offsets[RUNS];
    for (size_t at = 0; at < count; at += VALUES, block += 176) {
        unpack_k_scales(block, factors, offsets);
        for (size_t run = 0; run < RUNS; run++) {
            const uint8_t *high = block + 16, *bytes = block + 48 + run / 2 * RUN;
            size_t shift = run % 2 * 4;
            float *out = dst + at + run * RUN;
            for (size_t i = 0; i < RUN; i++) {
                int q = (bytes[i] >> shift & 15) | (high[i] >> run & 1) << 4;
                out[i] = factors[run] * (float)q - offsets[run];
            }
        }
    }
}

/* Each half of a block (128 values) is four runs of 32. Run r takes its low four bits from the low
 * (r < 2) or high nibbles of 32 bytes, its upper two from bits 2r and 2r + 1 of the same 32 bytes
 * of high bits, and has two scales, one for 16 values each. */
static void decode_q6_k_half(const uint8_t *low, const uint8_t *high, const float *scales,
                             float *out) {
    for (unsigned run = 0; run < 4; run++) {
        const uint8_t *nibbles = low + 32 * (run & 1u);
        unsigned low_shift = 4 * (run >> 1), high_shift = 2 * run;
        for (unsigned part = 0; part < 2; part++) {
            float scale = scales[2 * run + part];
            float *to = out + 32 * run + 16 * part;
            for (unsigned i = 0; i < 16; i++) {
                unsigned at = 16 * part + i;
                unsigned q = ((unsigned)nibbles[at] >> low_shift & 15u) |
                             ((unsigned)high[at] >> high_shift & 3u) << 4;
                to[i] = scale * (float)((int)q - 32);
            }
        }
    }
}

void fmt_long_q6_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 210) {
        const uint8_t *low = block, *high = block + 128, *small = block + 192;
        float scale = load_half(block + 208), scales[16];
        for (size_t i = 0; i < 16; i++)
            scales[i] = scale * (float)(int8_t)small[i];
        decode_q6_k_half(low, high, scales, dst + at);
        decode_q6_k_half(low + 64, high + 32, scales + 8, dst + at + 128);
    }
}

/* Each run of 32 has 16 bytes, the low nibbles first, as in iq4_nl. */
void fmt_long_iq4_xs(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 136) {
        float scale = load_half(block);
        unsigned high = (unsigned)block[2] | (unsigned)block[3] << 8;
        for (unsigned run = 0; run < RUNS; run++) {
            unsigned low = (unsigned)block[4 + run / 2] >> run % 2 * 4 & 15u;
            float factor = scale * (float)((int)(low | (high >> 2 * run & 3u) << 4) - 32);
            const uint8_t *nibbles = block + 8 + run * HALF;
            float *out = dst + at + run * RUN;
            for (size_t i = 0; i < HALF; i++)
                out[i] = factor * (float)fmt_iq4_levels[nibbles[i] & 15];
            for (size_t i = 0; i < HALF; i++)
                out[HALF + i] = factor * (float)fmt_iq4_levels[nibbles[i] >> 4];
        }
    }
}

/* count bytes, each with `trits` base-3 digits as a fraction of 256, the first one on top: times
 * 3^d modulo 256 moves digit d there. Digit d of all bytes precedes digit d + 1. */
static void decode_trits(const uint8_t *bytes, size_t count, size_t trits, float scale,
                         float *out) {
    unsigned power = 1;
    for (size_t digit = 0; digit < trits; digit++, power *= 3)
        for (size_t i = 0; i < count; i++) {
            int trit = (int)((uint8_t)(bytes[i] * power) * 3u >> 8);
            out[digit * count + i] = scale * (float)(trit - 1);
        }
}

void fmt_long_tq1_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 54) {
        float scale = load_half(block + 52);
        decode_trits(block, 32, 5, scale, dst + at);
        decode_trits(block + 32, 16, 5, scale, dst + at + 160);
        decode_trits(block + 48, 4, 4, scale, dst + at + 240);
    }
}

void fmt_long_tq2_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 66) {
        float scale = load_half(block + 64);
        for (size_t run = 0; run < RUNS; run++) {
            const uint8_t *bytes = block + run / 4 * RUN;
            size_t shift = run % 4 * 2;
            float *out = dst + at + run * RUN;
            for (size_t i = 0; i < RUN; i++)
                out[i] = scale * (float)((bytes[i] >> shift & 3) - 1);
        }
    }
}
