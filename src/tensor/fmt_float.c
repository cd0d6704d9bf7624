/* Plain floating-point formats: float32, IEEE binary16, bfloat16. Every value of the two short ones
 * is a float32 too, so decoding is exact. Loads go through memcpy: rows begin at any address. */
#include "tensor/fmt.h"

#include "base/num.h"

void fmt_float_f32(const void *src, size_t count, float *dst) {
    if (count > 0)
        memcpy(dst, src, count * sizeof *dst);
}

void fmt_float_f16(const void *src, size_t count, float *dst) {
    const uint8_t *bytes = src;
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof half);
        dst[i] = num_from_f16(half);
    }
}

void fmt_float_bf16(const void *src, size_t count, float *dst) {
    const uint8_t *bytes = src;
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof half);
        dst[i] = num_from_bf16(half);
    }
}
