/* ggml's block formats. The layouts are those of the ggml project's ggml-common.h and of gguf-py's
 * quants.py, which is the source of the expected values in the tests.
 *
 *   q8_0  scale f16 | 32 x int8                                 value = q * scale
 *   q4_0  scale f16 | 16 bytes                                  value = scale * (q - 8)
 *   q4_1  scale f16 | minimum f16 | 16 bytes                    value = scale * q + minimum
 *   q6_k  low bits 128 | high bits 64 | 16 x int8 | scale f16   value = (scale * int8) * (q - 32)
 *
 * In the 16 bytes of a 4-bit block the low nibbles are values 0 to 15, the high nibbles 16 to 31.
 */
#include "tensor/fmt.h"

#include "base/num.h"

enum { SHORT_VALUES = 32, LONG_VALUES = 256 };

static float load_half(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return num_from_f16(half);
}

void fmt_ggml_q8_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += SHORT_VALUES, block += 34) {
        float scale = load_half(block);
        float *out = dst + at;
        for (size_t i = 0; i < SHORT_VALUES; i++)
            out[i] = (float)(int8_t)block[2 + i] * scale;
    }
}

void fmt_ggml_q4_0(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += SHORT_VALUES, block += 18) {
        float scale = load_half(block);
        float *out = dst + at;
        for (size_t i = 0; i < SHORT_VALUES / 2; i++)
            out[i] = scale * (float)((block[2 + i] & 15) - 8);
        for (size_t i = 0; i < SHORT_VALUES / 2; i++)
            out[SHORT_VALUES / 2 + i] = scale * (float)((block[2 + i] >> 4) - 8);
    }
}

void fmt_ggml_q4_1(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += SHORT_VALUES, block += 20) {
        float scale = load_half(block), minimum = load_half(block + 2);
        float *out = dst + at;
        for (size_t i = 0; i < SHORT_VALUES / 2; i++)
            out[i] = scale * (float)(block[4 + i] & 15) + minimum;
        for (size_t i = 0; i < SHORT_VALUES / 2; i++)
            out[SHORT_VALUES / 2 + i] = scale * (float)(block[4 + i] >> 4) + minimum;
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

void fmt_ggml_q6_k(const void *src, size_t count, float *dst) {
    const uint8_t *block = src;
    for (size_t at = 0; at < count; at += LONG_VALUES, block += 210) {
        const uint8_t *low = block, *high = block + 128, *small = block + 192;
        float scale = load_half(block + 208), scales[16];
        for (size_t i = 0; i < 16; i++)
            scales[i] = scale * (float)(int8_t)small[i];
        decode_q6_k_half(low, high, scales, dst + at);
        decode_q6_k_half(low + 64, high + 32, scales + 8, dst + at + 128);
    }
}
