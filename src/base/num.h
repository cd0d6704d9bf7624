/* Numbers that come out the same on every machine and every instruction set.
 *
 * libm's expf, tanhf, logf and sinf differ between versions and processors, so what enters a row's
 * bits is computed here with IEEE additions, products and fused multiply-adds in a fixed order. The
 * float functions are static inline without branches: loops over 16 lanes vectorise, and scalar,
 * AVX2, AVX-512 and NEON compilations give one result (build with -ffp-contract=off). */
#ifndef SLUICE_BASE_NUM_H
#define SLUICE_BASE_NUM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float num_fma(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}

static inline uint32_t num_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float num_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* a where the condition holds, else b, by masks: with '?:' on floats gcc keeps a branch in a loop
 * (comparisons may trap) and does not vectorise it. */
static inline float num_select(int condition, float a, float b) {
    uint32_t mask = 0u - (uint32_t)(condition != 0);
    return num_bits_float((num_float_bits(a) & mask) | (num_float_bits(b) & ~mask));
}

/* bf16 is the upper half of a float32. Rounds to nearest even; NaN stays NaN (quiet). */
static inline float num_from_bf16(uint16_t bits) {
    return num_bits_float((uint32_t)bits << 16);
}

static inline uint16_t num_to_bf16(float value) {
    uint32_t bits = num_float_bits(value);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

/* IEEE binary16 to float32, exact, subnormals, infinities and NaN included. */
static inline float num_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7FFFu;
    float normal = num_bits_float((rest << 13) + 0x38000000u); /* exponent bias 15 to 127 */
    float tiny = (float)rest * 0x1p-24f;                       /* zero and subnormals, exact */
    float huge = num_bits_float((rest << 13) | 0x7F800000u);   /* infinity and NaN */
    float value = num_select(rest < 0x400u, tiny, num_select(rest >= 0x7C00u, huge, normal));
    return num_bits_float(num_float_bits(value) | sign);
}

/* e^x within 1 unit in the last place; 0 below -87.33654 (where results would be subnormal),
 * infinity above 88.72283; NaN stays NaN.
 * x = n ln 2 + r with |r| <= ln2 / 2 (Cody and Waite's two-part constant), a polynomial of degree 6
 * for e^r (1, 1, then minimax coefficients: 3.2e-9 relative), then an exact scaling by 2^n in two
 * factors. */
static inline float num_exp(float x) {
    float clipped = num_select(x < -87.33654f, -87.33654f, x);
    clipped = num_select(clipped > 88.72283f, 88.72283f, clipped);
    float shifted = num_fma(clipped, 1.44269504f, 12582912.0f); /* round to integer: 1.5 * 2^23 */
    float n = shifted - 12582912.0f;
    float r = num_fma(n, -0.693145752f, clipped);
    r = num_fma(n, -1.42860677e-6f, r);
    float p = 1.38389023e-3f;
    p = num_fma(p, r, 8.36919248e-3f);
    p = num_fma(p, r, 4.16681021e-2f);
    p = num_fma(p, r, 1.66665167e-1f);
    p = num_fma(p, r, 4.99999940e-1f);
    p = num_fma(p, r, 1.0f);
    p = num_fma(p, r, 1.0f);
    int32_t whole = (int32_t)num_float_bits(shifted) - 0x4B400000; /* n as an integer */
    int32_t half = whole >> 1;
    float first = num_bits_float((uint32_t)(half + 127) << 23);
    float second = num_bits_float((uint32_t)(whole - half + 127) << 23);
    float value = p * first * second;
    value = num_select(x < -87.33654f, 0.0f, value);
    value = num_select(x > 88.72283f, num_bits_float(0x7F800000u), value);
    return num_select(x != x, x, value);
}

/* num_exp of each value, in place; the same bits, faster where the processor has AVX2. num.c. */
void num_exp_many(float *values, size_t count);

/* 1 / (1 + e^-x) and x times that (SiLU). */
static inline float num_sigmoid(float x) {
    return 1.0f / (1.0f + num_exp(-x));
}
static inline float num_silu(float x) {
    return x / (1.0f + num_exp(-x));
}

/* tanh within 3 units in the last place; NaN stays NaN. Below 0.625 Lambert's continued fraction
 * cut after x^2 / 9 (9e-10 relative), written as x plus a correction; above it 1 - 2 / (e^2x + 1).
 */
static inline float num_tanh(float x) {
    float size = num_select(x < 0.0f, -x, x), square = x * x;
    float above = num_fma(square, 14.0f, 315.0f);
    float below = num_fma(square, num_fma(square, 15.0f, 420.0f), 945.0f);
    float near = num_fma(x * square, -(above / below), x);
    float far = 1.0f - 2.0f / (num_exp(2.0f * size) + 1.0f);
    far = num_select(x < 0.0f, -far, far);
    return num_select(size < 0.625f, near, far);
}

/* A value held within (-cap, cap): cap tanh(x / cap). */
static inline float num_cap(float x, float cap) {
    return cap * num_tanh(x / cap);
}

/* GELU in its tanh form (Hendrycks and Gimpel 2016, section 2): x / 2 (1 + tanh u) with
 * u = sqrt(2 / pi) (x + 0.044715 x^3), computed as x / (1 + e^-2u), which is the same. */
static inline float num_gelu(float x) {
    float inner = num_fma(0.044715f * x, x * x, x);
    return x / (1.0f + num_exp(-1.59576912f * inner));
}

/* Natural logarithm of a positive finite double to within a few units in the last place; other
 * values as log() gives. Sine and cosine of an angle in [0, 2^31) radians, within 2^-50 absolute.
 * num.c. */
double num_log(double x);
void num_sincos(double angle, double *sine, double *cosine);

#endif
