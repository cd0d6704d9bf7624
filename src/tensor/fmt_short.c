/* ggml's blocks of 32 values with one scale. The layouts are those of the ggml project's
 * ggml-common.h and of gguf-py's quants.py, which is the source of the expected values in the
 * tests.
 *
 *   q8_0    scale f16 | 32 x int8                               value = q * scale
 *   q4_0    scale f16 | 16 bytes                                value = scale * (q - 8)
 *   q4_1    scale f16 | minimum f16 | 16 bytes                  value = scale * q + minimum
 *   q5_0    scale f16 | 32 bits | 16 bytes                      value = scale * (q - 16)
 *   q5_1    scale f16 | minimum f16 | 32 bits | 16 bytes        value = scale * q + minimum
 *   iq4_nl  scale f16 | 16 bytes                                value = scale * levels[q]
 *   mxfp4   exponent e8m0 | 16 bytes                            value = scale * doubles[q]
 *
 * In the 16 bytes the low nibbles are values 0 to 15, the high nibbles 16 to 31; bit i of the 32
 * bits is the fifth bit of value i. */
#include "tensor/fmt.h"

#include "base/num.h"

enum { VALUES = 32, HALF = 16 };

static float load_half(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return num_from_f16(half);
}

void fmt_short_q8_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 34) {
        float scale = load_half(block);
        float *out = dst + at;
        for (size_t i = 0; i < VALUES; i++)
            out[i] = (float)(int8_t)block[2 + i] * scale;
    }
}

void fmt_short_q4_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 18) {
        float scale = load_half(block);
        float *out = dst + at;
        for (size_t i = 0; i < HALF; i++)
            out[i] = scale * (float)((block[2 + i] & 15) - 8);
        for (size_t i = 0; i < HALF; i++)
            out[HALF + i] = scale * (float)((block[2 + i] >> 4) - 8);
    }
}

void fmt_short_q4_1(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 20) {
        float scale = load_half(block), minimum = load_half(block + 2);
        float *out = dst + at;
        for (size_t i = 0; i < HALF; i++)
            out[i] = scale * (float)(block[4 + i] & 15) + minimum;
        for (size_t i = 0; i < HALF; i++)
            out[HALF + i] = scale * (float)(block[4 + i] >> 4) + minimum;
    }
}

/* The 32 five-bit numbers of a block: nibbles with a bit each. */
static void join_fifth_bits(const uint8_t *bits, const uint8_t *nibbles, int q[VALUES]) {
    uint32_t high;
    memcpy(&high, bits, sizeof high);
    for (unsigned i = 0; i < HALF; i++) {
        q[i] = (int)((nibbles[i] & 15u) | (high >> i & 1u) << 4);
        q[HALF + i] = (int)((unsigned)nibbles[i] >> 4 | (high >> (HALF + i) & 1u) << 4);
    }
}

void fmt_short_q5_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    int q[VALUES];
    for (size_t at = 0; at < count; at += VALUES, block += 22) {
        float scale = load_half(block);
        join_fifth_bits(block + 2, block + 6, q);
        for (size_t i = 0; i < VALUES; i++)
            dst[at + i] = scale * (float)(q[i] - 16);
    }
}

void fmt_short_q5_1(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    int q[VALUES];
    for (size_t at = 0; at < count; at += VALUES, block += 24) {
        float scale = load_half(block), minimum = load_half(block + 2);
        join_fifth_bits(block + 4, block + 8, q);
        for (size_t i = 0; i < VALUES; i++)
            dst[at + i] = scale * (float)q[i] + minimum;
    }
}

const int8_t fmt_iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

/* Twice the values of OCP's FP4 E2M1. As gguf-py has it, a negative zero is a zero. */
static const int8_t e2m1_doubles[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* A block of 32 numbers that the nibbles look up. */
static void look_up(float scale, const int8_t table[16], const uint8_t *nibbles, float *out) {
    float values[16];
    for (size_t i = 0; i < 16; i++)
        values[i] = scale * (float)table[i];
    for (size_t i = 0; i < HALF; i++)
        out[i] = values[nibbles[i] & 15];
    for (size_t i = 0; i < HALF; i++)
        out[HALF + i] = values[nibbles[i] >> 4];
}

void fmt_short_iq4_nl(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 18)
        look_up(load_half(block), fmt_iq4_levels, block + 2, dst + at);
}

/* Half of 2^(exponent - 127), because the table holds doubles. 0 and 1 give subnormals; 255, which
 * is NaN in OCP's specification, is one more exponent for ggml. */
static float load_half_e8m0(uint8_t exponent) {
    return num_bits_float(exponent < 2 ? 0x00200000u << exponent : (uint32_t)(exponent - 1) << 23);
}

void fmt_short_mxfp4(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += VALUES, block += 17)
        look_up(load_half_e8m0(block[0]), e2m1_doubles, block + 1, dst + at);
}
