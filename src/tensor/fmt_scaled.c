/* Formats whose scales lie in tensors of their own (view.h says how they are laid out).
 *
 *   fp8_e4m3   code: OCP 8-bit floating point specification, E4M3   value = code * scale
 *   mlx_Nbit   q of N bits, little-endian bits one after the other  value = scale * q + bias
 *   mxfp4      code: OCP microscaling specification, E2M1, the      value = code * 2^(scale - 127)
 *              value of even number in the low nibble of a byte
 *
 * mlx_Nbit is the "affine" mode of MLX (mlx.core.quantize) as safetensors hold it, in words of 32
 * bits; 32 values fill N words. mxfp4 is that of gpt-oss (blocks and scales) and the mode "mxfp4"
 * of MLX, whose words hold the same bytes. FP8 scales are factors, though published names say
 * "inverse". Products and sums are rounded one by one. Products of mxfp4 are exact or overflow. */
#include "tensor/fmt.h"

#include "base/num.h"
#include "tensor/view.h"

enum { PART = 64 }; /* numbers unpacked at a time, so that loops over them have no branches */

/* Powers of two; 255 is NaN. */
static float load_e8m0(uint8_t exponent) {
    if (exponent == 255)
        return num_bits_float(0x7FC00000u);
    return num_bits_float(exponent == 0 ? 0x00400000u : (uint32_t)exponent << 23);
}

/* Number index of a row of scales or biases. */
static float load_scale(enum dtype dtype, const uint8_t *row, size_t index) {
    uint16_t half;
    float value;
    switch (dtype) {
    case DTYPE_F32:
        memcpy(&value, row + 4 * index, sizeof value);
        return value;
    case DTYPE_F16:
        memcpy(&half, row + 2 * index, sizeof half);
        return num_from_f16(half);
    case DTYPE_BF16:
        memcpy(&half, row + 2 * index, sizeof half);
        return num_from_bf16(half);
    default:
        must(dtype == DTYPE_F8_E8M0);
        return load_e8m0(row[index]);
    }
}

/* Bytes from the first scale (or bias) of the view to the row of them that `row` has. */
static size_t scale_row_offset(const struct view_scales *scales, size_t row) {
    return (scales->rows_before + row) / scales->group_rows * scales->row_bytes;
}

/* The values from `at` to the end of its group, but at most `rest` and PART. */
static size_t part_of(const struct view_scales *scales, size_t at, size_t rest) {
    size_t count = scales->group_columns - at % scales->group_columns;
    count = count < rest ? count : rest;
    return count < PART ? count : PART;
}

/* S EEEE MMM, exponents biased by 7, subnormals in steps of 2^-9, no infinities: S 1111 111 is NaN.
 */
static float from_e4m3(uint8_t code) {
    uint32_t sign = (code & 0x80u) << 24, magnitude = code & 0x7Fu;
    float small = (float)magnitude * 0x1p-9f; /* right below 8 */
    uint32_t bits = magnitude == 0x7F ? 0x7FC00000u
                    : magnitude < 8   ? num_float_bits(small)
                                      : (magnitude << 20) + (120u << 23);
    return num_bits_float(sign | bits);
}

void fmt_scaled_f8_e4m3(const struct view *view, size_t row, size_t first, size_t count,
                        float *dst) {
    const struct view_scales *scales = &view->scales;
    const uint8_t *codes = view->data + row * view->row_bytes;
    const uint8_t *factors = scales->data + scale_row_offset(scales, row);
    for (size_t at = first, end = first + count, part; at < end; at += part, dst += part) {
        float scale = load_scale(scales->dtype, factors, at / scales->group_columns);
        part = part_of(scales, at, end - at);
        for (size_t i = 0; i < part; i++)
            dst[i] = from_e4m3(codes[at + i]) * scale;
    }
}

/* count numbers (a multiple of 8) of `bits` bits: eight of them are `bits` bytes. bits is a
 * constant where this is used. */
static inline void unpack(const uint8_t *packed, size_t bits, size_t count, uint8_t *numbers) {
    for (size_t i = 0; i < count; i += 8, packed += bits) {
        uint64_t eight = 0;
        memcpy(&eight, packed, bits);
        for (size_t k = 0; k < 8; k++)
            numbers[i + k] = (uint8_t)(eight >> k * bits & ((1u << bits) - 1u));
    }
}

static inline void decode_mlx(const struct view *view, size_t bits, size_t row, size_t first,
                              size_t count, float *dst) {
    const struct view_scales *scales = &view->scales;
    const uint8_t *packed = view->data + row * view->row_bytes + first * bits / 8;
    size_t offset = scale_row_offset(scales, row);
    uint8_t numbers[PART];
    for (size_t done = 0; done < count; done += PART) {
        size_t unpacked = count - done < PART ? count - done : PART;
        unpack(packed + done * bits / 8, bits, unpacked, numbers);
        for (size_t at = 0, part; at < unpacked; at += part) {
            size_t column = first + done + at, group = column / scales->group_columns;
            float scale = load_scale(scales->dtype, scales->data + offset, group);
            float bias = load_scale(scales->dtype, scales->biases + offset, group);
            part = part_of(scales, column, unpacked - at);
            for (size_t i = 0; i < part; i++)
                dst[done + at + i] = scale * (float)numbers[at + i] + bias;
        }
    }
}

#define DECODE_MLX(BITS)                                                                           \
    void fmt_scaled_mlx_##BITS(const struct view *view, size_t row, size_t first, size_t count,    \
                               float *dst) {                                                       \
        decode_mlx(view, BITS, row, first, count, dst);                                            \
    }
SL_EACH_MLX_BITS(DECODE_MLX)

static const float e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                               -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

void fmt_scaled_mxfp4(const struct view *view, size_t row, size_t first, size_t count, float *dst) {
    const struct view_scales *scales = &view->scales;
    const uint8_t *packed = view->data + row * view->row_bytes;
    const uint8_t *factors = scales->data + scale_row_offset(scales, row);
    for (size_t at = first, end = first + count, part; at < end; at += part, dst += part) {
        float scale = load_scale(scales->dtype, factors, at / scales->group_columns);
        part = part_of(scales, at, end - at);
        for (size_t i = 0; i < part; i++)
            dst[i] = e2m1[packed[(at + i) / 2] >> (at + i) % 2 * 4 & 15] * scale;
    }
}
