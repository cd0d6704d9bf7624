/* Owns the logarithm, sine and cosine of doubles in basic IEEE operations and fused multiply-adds,
 * so that they come out the same whatever libm is at hand, and exp of many floats. */
#include "base/num.h"

#include "base/cpu.h"
#include "base/status.h"

#define LN2_HIGH 0x1.62e42fefa38p-1 /* 42 bits: times an exponent it is exact */
#define LN2_LOW 0x1.ef35793c7673p-45

static uint64_t double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double bits_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* x = 2^k m with m in [sqrt(1/2), sqrt(2)); log x = k ln 2 + 2 artanh(s), s = (m - 1) / (m + 1),
 * and artanh's series: s^2 <= 0.0295, so ten terms leave less than 2^-56. */
double num_log(double x) {
    if (x != x || x == INFINITY)
        return x;
    if (x == 0)
        return -INFINITY;
    if (x < 0)
        return NAN;
    int k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t bits = double_bits(x);
    k += (int)(bits >> 52) - 1023;
    double m = bits_double((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    if (m >= 1.4142135623730951) {
        m *= 0.5;
        k++;
    }
    double s = (m - 1.0) / (m + 1.0);
    double square = s * s;
    double p = 1.0 / 23;
    for (int divisor = 21; divisor >= 3; divisor -= 2)
        p = __builtin_fma(p, square, 1.0 / divisor);
    double twice = 2.0 * s;
    double tail = __builtin_fma(twice * square, p, (double)k * LN2_LOW);
    return __builtin_fma((double)k, LN2_HIGH, twice + tail);
}

/* The angle less a multiple n of pi / 2: pi / 2 in two doubles. n times the first is exact inside
 * the fused operation, and so is what remains, for it is a multiple of 2^-53 below 1. Then Taylor's
 * series for |r| <= pi / 4, where the first term left out is below 2^-58. */
void num_sincos(double angle, double *sine, double *cosine) {
    must(angle >= 0);
    must(angle < 0x1p31);
    int64_t n = (int64_t)(angle * 0x1.45f306dc9c883p-1 + 0.5);
    double r = __builtin_fma(-(double)n, 0x1.921fb54442d18p+0, angle);
    r = __builtin_fma(-(double)n, 0x1.1a62633145c07p-54, r);
    double square = r * r;
    static const double sine_terms[] = {
        -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
        -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
    static const double cosine_terms[] = {
        -1.0 / 2,       1.0 / 24,        -1.0 / 720,         1.0 / 40320,
        -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
    double p = 0, q = 0;
    for (int i = 7; i >= 0; i--) {
        p = __builtin_fma(p, square, sine_terms[i]);
        q = __builtin_fma(q, square, cosine_terms[i]);
    }
    double s = __builtin_fma(r * square, p, r);
    double c = __builtin_fma(square, q, 1.0);
    switch (n & 3) {
    case 0:
        *sine = s, *cosine = c;
        break;
    case 1:
        *sine = c, *cosine = -s;
        break;
    case 2:
        *sine = -s, *cosine = -c;
        break;
    default:
        *sine = -c, *cosine = s;
        break;
    }
}

#if defined(__x86_64__)
/* The same loop with vectors; without FMA instructions each multiply-add is a call. */
__attribute__((target("avx2,fma"))) static void exp_many_avx2(float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] = num_exp(values[i]);
}
#endif

void num_exp_many(float *values, size_t count) {
#if defined(__x86_64__)
    if (cpu_get()->has_avx2_fma) {
        exp_many_avx2(values, count);
        return;
    }
#endif
    for (size_t i = 0; i < count; i++)
        values[i] = num_exp(values[i]);
}
