/* Our numbers against long double libm, and bit patterns by hand. */
#include "base/memcheck_for_test.h"
#include "base/num.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

/* The distance of two finite doubles in units of `unit`. */
static double units(double got, long double wanted, double unit) {
    return (double)(fabsl((long double)got - wanted) / (long double)unit);
}

/* A unit in the last place of the float nearest to a positive value, subnormals' as the smallest
 * normal's. */
static double float_unit(long double value) {
    int exponent;
    frexpl(value, &exponent);
    return ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static double double_unit(long double value) {
    int exponent;
    frexpl(value, &exponent);
    return ldexp(1, exponent - 53);
}

static void exp_is_within_one_unit(void **state) {
    (void)state;
    double worst = 0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 30011) {
        float x = num_bits_float((uint32_t)bits);
        if (!(x >= -87.33654f && x <= 88.72283f))
            continue;
        long double wanted = expl((long double)x);
        double error = units((double)num_exp(x), wanted, float_unit(wanted));
        worst = error > worst ? error : worst;
    }
    for (int i = -87000; i <= 88700; i += 3) { /* evenly, where the bits are sparse */
        float x = (float)i * 0.001f;
        long double wanted = expl((long double)x);
        double error = units((double)num_exp(x), wanted, float_unit(wanted));
        worst = error > worst ? error : worst;
    }
    /* Half a unit is the last rounding, the rest what the polynomial and its sums lose. */
    assert_true(worst < 1.0);
}

static void exp_keeps_its_limits(void **state) {
    (void)state;
    assert_true(num_exp(0.0f) == 1.0f);
    assert_true(num_exp(-0.0f) == 1.0f);
    assert_true(num_exp(-INFINITY) == 0.0f);
    assert_true(num_exp(-1e30f) == 0.0f);
    assert_true(num_exp(-87.34f) == 0.0f);
    assert_true(num_exp(-87.33654f) >= 0x1p-126f);
    assert_true(num_exp(88.72283f) > 3.4e38f && num_exp(88.72283f) < INFINITY);
    assert_true(num_exp(88.7229f) == INFINITY);
    assert_true(num_exp(INFINITY) == INFINITY);
    assert_true(isnan(num_exp(NAN)));
    assert_true(isnan(num_exp(-NAN)));
}

/* Vectors and single calls give the same bits. */
static void exp_of_many_has_the_bits_of_one(void **state) {
    (void)state;
    static float x[4099], y[4099];
    for (size_t i = 0; i < 4099; i++)
        y[i] = x[i] = (float)i * 0.05f - 100.0f;
    y[17] = x[17] = NAN;
    y[4098] = x[4098] = -INFINITY;
    num_exp_many(y, 4099);
    for (size_t i = 0; i < 4099; i++) {
        volatile float one = x[i];
        assert_int_equal(num_float_bits(num_exp(one)), num_float_bits(y[i]));
    }
}

static void sigmoid_and_silu_follow_their_formulas(void **state) {
    (void)state;
    for (int i = -300; i <= 300; i++) {
        float x = (float)i * 0.25f;
        long double sigmoid = 1 / (1 + expl(-(long double)x));
        /* One unit of exp, one rounding each of the sum and the quotient. */
        assert_true(units((double)num_sigmoid(x), sigmoid, float_unit(sigmoid)) < 2.5);
        long double silu = fabsl((long double)x * sigmoid);
        assert_true(units(fabs((double)num_silu(x)), silu, float_unit(silu)) < 2.5);
    }
    assert_true(num_sigmoid(-INFINITY) == 0.0f);
    assert_true(num_sigmoid(INFINITY) == 1.0f);
    assert_true(num_silu(-1000.0f) == 0.0f);
    assert_true(num_silu(1000.0f) == 1000.0f);
}

static void tanh_is_within_three_units(void **state) {
    (void)state;
    double worst = 0;
    for (uint64_t bits = 0x20000000u; bits < 0x42000000u; bits += 1009) { /* 1e-19 to 32 */
        float x = num_bits_float((uint32_t)bits);
        long double wanted = tanhl((long double)x);
        double error = units((double)num_tanh(x), wanted, float_unit(wanted));
        worst = error > worst ? error : worst;
        assert_true(num_tanh(-x) == -num_tanh(x));
    }
    assert_true(worst < 3);
    assert_true(num_tanh(0.0f) == 0.0f);
    assert_true(num_tanh(INFINITY) == 1.0f && num_tanh(-INFINITY) == -1.0f);
    assert_true(num_tanh(1e30f) == 1.0f);
    assert_true(isnan(num_tanh(NAN)));
    assert_true(num_cap(1e30f, 50.0f) == 50.0f && num_cap(-1e30f, 50.0f) == -50.0f);
}

/* Values of torch.nn.functional.gelu(x, approximate='tanh') follow the same formula. */
static void gelu_follows_its_formula(void **state) {
    (void)state;
    for (int i = -400; i <= 400; i++) {
        float x = (float)i * 0.02f;
        long double root = 0.797884560802865355879892119868763737L;
        long double cube = (long double)x * (long double)x * (long double)x;
        long double wanted =
            0.5L * (long double)x * (1 + tanhl(root * ((long double)x + 0.044715L * cube)));
        assert_true(fabsl((long double)num_gelu(x) - wanted) <=
                    fabsl(wanted) * 0x1p-18L + fabsl((long double)x) * 0x1p-26L);
    }
    assert_true(num_gelu(0.0f) == 0.0f);
    assert_true(num_gelu(1e20f) == 1e20f);
    assert_true(num_gelu(-1e20f) == 0.0f);
    assert_true(isnan(num_gelu(NAN)));
}

static void log_is_within_two_units(void **state) {
    (void)state;
    skip_under_memcheck("its long double is a double");
    double worst = 0;
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 200000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint64_t bits = random >> 1; /* positive */
        if (i % 2)                   /* half of them between 1/4 and 4 */
            bits = (bits & 0x000FFFFFFFFFFFFFu) | (uint64_t)(1021 + i / 2 % 4) << 52;
        double x;
        memcpy(&x, &bits, sizeof x);
        if (!(x < INFINITY) || x == 1)
            continue;
        long double wanted = logl((long double)x);
        double error = units(num_log(x), wanted, double_unit(wanted));
        worst = error > worst ? error : worst;
    }
    assert_true(worst < 2.0);
    for (int i = 1; i < 1000; i++) { /* where log crosses zero */
        double x = 1 + ldexp(1, -52) * (i - 500);
        long double wanted = logl((long double)x);
        if (x != 1)
            assert_true(units(num_log(x), wanted, double_unit(wanted)) < 2.0);
    }
}

static void log_keeps_its_limits(void **state) {
    (void)state;
    assert_true(num_log(1) == 0);
    assert_true(num_log(0) == -INFINITY);
    assert_true(num_log(-0.0) == -INFINITY);
    assert_true(isnan(num_log(-1)));
    assert_true(isnan(num_log(-INFINITY)));
    assert_true(isnan(num_log(NAN)));
    assert_true(num_log(INFINITY) == INFINITY);
    assert_true(units(num_log(0x1p-1074), logl(0x1p-1074L), 0x1p-43) < 2);
}

static void check_angle(double angle) {
    double sine, cosine;
    num_sincos(angle, &sine, &cosine);
    if (units(sine, sinl((long double)angle), 0x1p-50) > 1 ||
        units(cosine, cosl((long double)angle), 0x1p-50) > 1)
        fail_msg("angle %a: %a %a", angle, sine, cosine);
}

static void sine_and_cosine_are_within_their_bound(void **state) {
    (void)state;
    uint64_t random = 1181783497276652981u;
    for (int i = 0; i < 200000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        check_angle(ldexp((double)(random >> 11), -53 + i % 62 - 30)); /* up to 2^31 */
    }
    for (int i = 0; i < 20000; i++) /* close to multiples of pi / 2, where a reduction fails */
        check_angle(1.5707963267948966 * (double)i * 60000);
    for (int i = 0; i < 5000; i++) /* whole positions, the fastest pair of rotary embeddings */
        check_angle((double)i * 26214.0);
    double sine, cosine;
    num_sincos(0, &sine, &cosine);
    assert_true(sine == 0 && cosine == 1);
    check_angle(0x1.fffffffffffffp+30);
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    static const struct {
        uint32_t bits;
        uint16_t wanted;
    } vectors[] = {
        {0x3F800000, 0x3F80}, {0x3F808000, 0x3F80}, {0x3F808001, 0x3F81}, {0x3F818000, 0x3F82},
        {0x3F817FFF, 0x3F81}, {0xBF808001, 0xBF81}, {0x00000000, 0x0000}, {0x80000000, 0x8000},
        {0x7F7FFFFF, 0x7F80}, {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80}, {0x7FC00000, 0x7FC0},
        {0x7F800001, 0x7FC0}, {0xFFFFFFFF, 0xFFFF}, {0x00008000, 0x0000}, {0x00018000, 0x0002},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        assert_int_equal(num_to_bf16(num_bits_float(vectors[i].bits)), vectors[i].wanted);
    for (uint32_t bits = 0; bits < 0x10000; bits++)
        if ((bits & 0x7FFF) <= 0x7F80)
            assert_int_equal(num_to_bf16(num_from_bf16((uint16_t)bits)), bits);
}

/* Binary16 by its definition: sign, 5 bits of exponent with bias 15, 10 of fraction. */
static void f16_is_what_its_definition_says(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        int exponent = (int)(half >> 10 & 31), fraction = (int)(half & 1023);
        float got = num_from_f16((uint16_t)half);
        double wanted = exponent == 31  ? (fraction ? NAN : INFINITY)
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(1024 + fraction, exponent - 25);
        if (isnan(wanted))
            assert_true(isnan(got));
        else
            assert_true((double)got == (half >> 15 ? -wanted : wanted));
        assert_int_equal(num_float_bits(got) >> 31, half >> 15);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_one_unit),
        cmocka_unit_test(exp_keeps_its_limits),
        cmocka_unit_test(exp_of_many_has_the_bits_of_one),
        cmocka_unit_test(sigmoid_and_silu_follow_their_formulas),
        cmocka_unit_test(tanh_is_within_three_units),
        cmocka_unit_test(gelu_follows_its_formula),
        cmocka_unit_test(log_is_within_two_units),
        cmocka_unit_test(log_keeps_its_limits),
        cmocka_unit_test(sine_and_cosine_are_within_their_bound),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(f16_is_what_its_definition_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
