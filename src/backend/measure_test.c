/* Measured figures: every one asked for is there, none is above what the processor can do, and a
 * wish to stop ends it. How fast anything is, is not tested: machines differ. */
#include "backend/measure.h"

#include "backend/backend.h"
#include "backend/cpu/peak.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static bool always_stops(void) {
    return true;
}

/* All formats that have products, two token counts, a millisecond each. */
static struct measure_options small(enum dtype dtypes[DTYPE_COUNT]) {
    static const size_t tokens[] = {1, 17};
    struct measure_options options = {
        .kernels = "portable",
        .threads = 2,
        .outputs = 60,
        .inputs = 256,
        .dtypes = dtypes,
        .tokens = tokens,
        .token_count = 2,
        .seconds = 0.001,
    };
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (measure_has_products(dtype))
            dtypes[options.dtype_count++] = dtype;
    return options;
}

static void every_format_and_token_count_has_a_figure(void **state) {
    (void)state;
    enum dtype dtypes[DTYPE_COUNT];
    struct measure_options options = small(dtypes);
    struct measure measure;
    struct error err;
    if (measure_init(&measure, &options, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_string_equal(measure.kernels, "portable");
    assert_string_equal(measure.peak_name, "fma");
    assert_true(options.dtype_count >= 27); /* the formats of issue 5 */
    assert_int_equal(measure.product_count, options.dtype_count * 2);
    assert_int_equal(measure.threads, 2);
    for (size_t i = 0; i < measure.product_count; i++) {
        const struct measure_product *product = &measure.products[i];
        assert_int_equal(product->dtype, dtypes[i / 2]);
        assert_int_equal(product->tokens, i % 2 == 0 ? 1 : 17);
        assert_true(product->flops_per_second > 1e4);
        /* Twice the peak: other work may have lowered that, and 60 x 256 weights are cached. */
        assert_true(product->flops_per_second < 2 * measure.peak_flops_per_second);
    }
    assert_true(measure.memory_bytes_per_second > 1e8);
    measure_release(&measure);
    measure_release(&measure);
}

/* A row of 256 f32 and q4_0 values: 1024 and 144 bytes, as dtype.h says of their blocks. */
static void weights_are_counted_in_their_bytes(void **state) {
    (void)state;
    enum dtype dtypes[DTYPE_COUNT];
    struct measure_options options = small(dtypes);
    struct measure measure;
    struct error err;
    dtypes[0] = DTYPE_F32;
    dtypes[1] = DTYPE_Q4_0;
    dtypes[2] = DTYPE_MLX_4; /* 128 bytes of numbers, four scales and biases of two bytes */
    dtypes[3] = DTYPE_MXFP4_SPLIT;
    options.dtype_count = 4;
    assert_int_equal(measure_init(&measure, &options, &err), SL_OK);
    static const double row_bytes[] = {1024, 144, 144, 136};
    for (size_t i = 0; i < measure.product_count; i++) {
        const struct measure_product *product = &measure.products[i];
        double flops_a_row = 2.0 * 256 * (double)product->tokens;
        double ratio = product->weights_bytes_per_second / product->flops_per_second;
        double wanted = row_bytes[i / 2] / flops_a_row;
        assert_true(ratio > 0.999 * wanted && ratio < 1.001 * wanted);
    }
    measure_release(&measure);
}

static void decoding_has_a_share_of_the_products(void **state) {
    (void)state;
    enum dtype dtypes[DTYPE_COUNT];
    struct measure_options options = small(dtypes);
    struct measure measure;
    struct error err;
    options.dtype_count = 4;
    options.isa = "scalar";
    assert_int_equal(measure_init(&measure, &options, &err), SL_OK);
    assert_string_equal(measure.isa, "scalar");
    assert_int_equal(measure.decode_count, 4);
    for (size_t i = 0; i < measure.decode_count; i++) {
        const struct measure_decode *decode = &measure.decodes[i];
        assert_int_equal(decode->dtype, dtypes[i]);
        assert_true(decode->values_per_second >= 0 && decode->share_of_products_32 >= 0);
        assert_true((decode->values_per_second > 0) == (decode->share_of_products_32 > 0));
    }
    measure_release(&measure);
}

static void names_tell_formats_apart(void **state) {
    (void)state;
    for (enum dtype a = 0; a < DTYPE_COUNT; a++)
        for (enum dtype b = 0; b < a; b++)
            assert_string_not_equal(measure_name(a), measure_name(b));
    assert_true(measure_fits(DTYPE_Q4_0, 32) && !measure_fits(DTYPE_Q4_0, 48));
    assert_false(measure_has_products(DTYPE_U8));
}

static void a_wish_to_stop_and_failures_end_it(void **state) {
    (void)state;
    enum dtype dtypes[DTYPE_COUNT];
    struct measure_options options = small(dtypes);
    struct measure measure = {0};
    struct error err;
    options.should_stop = always_stops;
    assert_int_equal(measure_init(&measure, &options, &err), SL_ERR_STOPPED);
    options = small(dtypes);
    options.kernels = "fast";
    assert_int_equal(measure_init(&measure, &options, &err), SL_ERR_USAGE);
    options = small(dtypes);
    options.inputs = options.outputs = MEASURE_SIDE_MAX;
    assert_int_equal(measure_init(&measure, &options, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "1048576"));
    assert_null(measure.products);
}

static void every_kernel_set_here_has_a_peak(void **state) {
    (void)state;
    size_t count;
    const struct backend_set *sets = backend_cpu_sets(&count);
    struct team *team = NULL;
    struct error err;
    assert_int_equal(team_new(1, &team, &err), SL_OK);
    for (size_t i = 0; i < count; i++) {
        struct backend_options options = {.kernels = sets[i].name, .team = team};
        struct backend *backend;
        if (!backend_set_is_usable(&sets[i]))
            continue;
        assert_int_equal(backend_cpu_new(&options, &backend, &err), SL_OK);
        const struct peak *peak = peak_of(backend->kernels, backend->isa);
        assert_string_equal(peak->kernels, backend->kernels);
        assert_true(peak->step_flops > 0);
        assert_true(peak->run(10) > 0);
        backend_free(backend);
    }
    team_free(team);
    assert_string_equal(peak_of("portable", "sse9")->name, "fma");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_and_token_count_has_a_figure),
        cmocka_unit_test(weights_are_counted_in_their_bytes),
        cmocka_unit_test(decoding_has_a_share_of_the_products),
        cmocka_unit_test(names_tell_formats_apart),
        cmocka_unit_test(a_wish_to_stop_and_failures_end_it),
        cmocka_unit_test(every_kernel_set_here_has_a_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
