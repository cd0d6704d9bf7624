/* The bf16 kernel sets: vector code against the references bit for bit, the references against what
 * backend.h promises, written out here and by hand, and that nothing but the weights and a token's
 * own activations matters. */
#include "backend/cpu/parity.h"

#include <string.h>

static const char *const sets[] = {"avx512bf16", "amx"};
enum { SETS = 2 };

/* Ends the test as skipped where the processor cannot run the set. */
static void need(const char *kernels) {
    struct backend_choice choice;
    struct error err;
    if (backend_cpu_choose(kernels, NULL, true, &choice, &err) != SL_OK) {
        print_message("skipped: %s\n", err.text);
        skip();
    }
}

/* x may have more features than the backends were told: then they go slice by slice. */
static void compare_product(enum dtype dtype, bool is_special, struct backend *a, struct backend *b,
                            uint64_t *state) {
    size_t rows = 1 + parity_below(state, parity_below(state, 8) ? 20 : 140);
    size_t tokens = 1 + parity_below(state, 40);
    if (parity_below(state, 3) == 0)
        tokens = 1 + parity_below(state, 5);
    parity_product(dtype, is_special, rows, tokens, (struct backend *[]){a, b}, state);
}

static void compare_with_reference(const char *kernels, bool is_special, uint64_t seed) {
    need(kernels);
    uint64_t state = seed;
    struct backend *scalar = parity_backend_of(kernels, "scalar", 2);
    struct backend *vector = parity_backend_of(kernels, NULL, 2);
    assert_string_equal(vector->kernels, kernels);
    assert_string_equal(vector->isa, kernels);
    assert_string_equal(scalar->isa, "scalar");
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (int i = 0; i < (dtype == DTYPE_BF16 ? 60 : 8) && parity_is_format(dtype); i++)
            compare_product(dtype, is_special, scalar, vector, &state);
    parity_backend_free(scalar);
    parity_backend_free(vector);
}

static void avx512bf16_has_the_bits_of_its_reference(void **test) {
    (void)test;
    compare_with_reference("avx512bf16", false, 1);
}

static void avx512bf16_agrees_on_nan_infinity_and_subnormals(void **test) {
    (void)test;
    compare_with_reference("avx512bf16", true, 2);
}

static void amx_has_the_bits_of_its_reference(void **test) {
    (void)test;
    compare_with_reference("amx", false, 3);
}

static void amx_agrees_on_nan_infinity_and_subnormals(void **test) {
    (void)test;
    compare_with_reference("amx", true, 4);
}

/* The backends of a set that can be had here: the reference, and the processor's own. */
static size_t backends_of(const char *kernels, struct backend *out[2]) {
    struct backend_choice choice;
    struct error err;
    out[0] = parity_backend_of(kernels, "scalar", 1);
    if (backend_cpu_choose(kernels, NULL, true, &choice, &err) != SL_OK)
        return 1;
    out[1] = parity_backend_of(kernels, NULL, 2);
    return 2;
}

/* y of one output over `columns` bf16 weights and float32 activations, as backend.h says, for
 * ordinary numbers, with libm's fmaf. */
static float promised(bool is_amx, const uint16_t *weights, const float *x, size_t columns) {
    float y = 0.0f, w[32 + 600] = {0}, v[32 + 600] = {0};
    for (size_t k = 0; k < columns; k++) {
        w[k] = num_bits_float((uint32_t)weights[k] << 16);
        uint32_t bits = num_float_bits(x[k]), low = bits & 0xFFFFu, up = bits >> 16;
        up += low > 0x8000u || (low == 0x8000u && (up & 1) != 0);
        v[k] = num_bits_float(up << 16);
    }
    if (!is_amx) {
        for (size_t from = 0; from < columns; from += 256) {
            float chain = 0.0f;
            for (size_t k = from; k < from + 256 && k < columns; k += 2) {
                chain = fmaf(w[k + 1], v[k + 1], chain);
                chain = fmaf(w[k], v[k], chain);
            }
            y = from == 0 ? chain : y + chain;
        }
        return y;
    }
    for (size_t from = 0; from < columns; from += 32) {
        float sum[2] = {0.0f, 0.0f};
        for (size_t k = from; k < from + 32; k++)
            sum[k % 2] = fmaf(w[k], v[k], sum[k % 2]);
        sum[0] += sum[1];
        y += sum[0];
    }
    return y;
}

static void products_are_the_promised_sums(void **test) {
    (void)test;
    uint64_t state = 5;
    for (size_t s = 0; s < SETS; s++) {
        struct backend *backends[2];
        size_t count = backends_of(sets[s], backends);
        for (size_t i = 0; i < count * 8; i++) {
            size_t columns = 577 + i, tokens = 1 + i / count * 3;
            struct backend *backend = backends[i % count];
            struct view w = parity_weights(DTYPE_BF16, 5, columns, false, &state);
            struct act x = parity_act(columns, tokens, &state), y = parity_act(5, tokens, &state);
            backend->ops->product(backend, &w, &x, &y, 0);
            for (size_t row = 0; row < 5; row++)
                for (size_t t = 0; t < tokens; t++) {
                    uint16_t weights[600];
                    float values[600];
                    memcpy(weights, w.data + row * w.row_bytes, 2 * columns);
                    for (size_t k = 0; k < columns; k++)
                        values[k] = *act_at(&x, k, t);
                    float expected = promised(s == 1, weights, values, columns);
                    assert_int_equal(num_float_bits(expected), num_float_bits(*act_at(&y, row, t)));
                }
            act_release(&x);
            act_release(&y);
            parity_weights_free(&w);
        }
        for (size_t i = 0; i < count; i++)
            parity_backend_free(backends[i]);
    }
}

/* One output of up to four columns, and what comes out, worked out by hand. */
struct by_hand {
    const char *what;
    float w[4], x[4], expected[SETS]; /* avx512bf16, amx */
};

static void roundings_and_flushes_are_those_promised(void **test) {
    (void)test;
    static const struct by_hand cases[] = {
        {"ties to even", {1, 0, 0, 0}, {0x1.01p0f, 0, 0, 0}, {1, 1}},
        {"ties to even, up", {1, 0, 0, 0}, {0x1.03p0f, 0, 0, 0}, {0x1.04p0f, 0x1.04p0f}},
        {"beyond the largest bf16", {1, 0, 0, 0}, {0x1.fffffep127f}, {INFINITY, INFINITY}},
        {"a subnormal activation", {0x1p100f, 0, 0, 0}, {0x1.fffffp-127f}, {0, 0}},
        {"a subnormal weight", {0x1p-127f, 0, 0, 0}, {0x1p100f}, {0, 0}},
        {"a subnormal product", {0, 0, 0x1p-100f, 0}, {0, 0, -0x1p-27f}, {-0.0f, 0}},
        /* in one chain 2^-126 - 2^-127, which is subnormal; in two each is by itself */
        {"a subnormal sum", {0x1p-63f, 0x1p-63f}, {-0x1p-64f, 0x1p-63f}, {0, 0x1p-126f}},
        /* 2^-126 - 0.75 x 2^-150 is nearest to 2^-126 among subnormals, but not among 24 bits */
        {"just below", {-0x1.8p-75f, 1, 0, 0}, {0x1p-76f, 0x1p-126f}, {0, 0x1p-126f}},
        /* (2^-24 + 2^-24) + 1, where (2^-24 + 1) + 2^-24 would be 1; two chains find 1, 2^-24 */
        {"the order of a pair", {0x1p-24f, 0, 1, 0x1p-24f}, {1, 1, 1, 1}, {0x1.000002p0f, 1}},
    };
    for (size_t s = 0; s < SETS; s++) {
        struct backend *backends[2];
        size_t count = backends_of(sets[s], backends);
        for (size_t i = 0; i < sizeof cases / sizeof *cases * count; i++) {
            const struct by_hand *one = &cases[i / count];
            struct view w = {.dtype = DTYPE_F32,
                             .rows = 1,
                             .columns = 4,
                             .row_bytes = sizeof one->w,
                             .data = (const uint8_t *)one->w};
            for (size_t tokens = 1; tokens <= 17; tokens += 8) {
                struct act x, y;
                struct error err;
                assert_int_equal(act_init(&x, 4, tokens, &err), SL_OK);
                assert_int_equal(act_init(&y, 1, tokens, &err), SL_OK);
                for (size_t k = 0; k < 4; k++)
                    *act_at(&x, k, tokens - 1) = one->x[k];
                backends[i % count]->ops->product(backends[i % count], &w, &x, &y, 0);
                float got = *act_at(&y, 0, tokens - 1);
                if (num_float_bits(got) != num_float_bits(one->expected[s]))
                    fail_msg("%s, %s, %s: %a, not %a", sets[s], backends[i % count]->isa, one->what,
                             (double)got, (double)one->expected[s]);
                act_release(&x);
                act_release(&y);
            }
        }
        for (size_t i = 0; i < count; i++)
            parity_backend_free(backends[i]);
    }
}

static void compare_in_pieces(const char *kernels, size_t threads, const struct view *w,
                              const struct act *x, const struct act *all, uint64_t *state) {
    struct backend *team = parity_backend_of(kernels, NULL, threads);
    struct act y = parity_act(w->rows, x->tokens, state);
    for (size_t row = 0; row < w->rows;) {
        struct view piece = view_rows(w, row, 1 + parity_below(state, w->rows - row));
        team->ops->product(team, &piece, x, &y, row);
        row += piece.rows;
    }
    parity_assert_acts(all, &y, kernels);
    act_release(&y);
    parity_backend_free(team);
}

/* The formats stand for weights as published, quantised ones, and ones with scales elsewhere. */
static void nothing_else_matters(const char *kernels) {
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_Q4_1, DTYPE_F8_E4M3};
    need(kernels);
    uint64_t state = 6;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct view w = parity_weights(dtypes[i], 150, 512, false, &state);
        struct act x = parity_act(512, 37, &state), all = parity_act(150, 37, &state);
        struct backend *one = parity_backend_of(kernels, NULL, 1);
        one->ops->product(one, &w, &x, &all, 0);
        parity_in_company(one, &w, &x, &all, &state);
        parity_backend_free(one);
        for (size_t threads = 2; threads <= 5; threads += 3)
            compare_in_pieces(kernels, threads, &w, &x, &all, &state);
        act_release(&x);
        act_release(&all);
        parity_weights_free(&w);
    }
}

static void bits_of_avx512bf16_depend_on_nothing_else(void **test) {
    (void)test;
    nothing_else_matters("avx512bf16");
}

static void bits_of_amx_depend_on_nothing_else(void **test) {
    (void)test;
    nothing_else_matters("amx");
}

static void auto_means_bf16_products_for_bf16_weights_alone(void **test) {
    (void)test;
    struct backend_choice choice;
    struct error err;
    assert_int_equal(backend_cpu_choose("auto", NULL, false, &choice, &err), SL_OK);
    assert_string_equal(choice.kernels, "portable");
    assert_int_equal(backend_cpu_choose("portable", NULL, true, &choice, &err), SL_OK);
    assert_string_equal(choice.kernels, "portable");
    assert_int_equal(backend_cpu_choose("auto", NULL, true, &choice, &err), SL_OK);
    bool has_amx = cpu_get()->has_amx_bf16, has_bf16 = cpu_get()->has_avx512bf16;
    assert_string_equal(choice.kernels, has_amx ? "amx" : has_bf16 ? "avx512bf16" : "portable");
    assert_int_equal(backend_cpu_choose("sse9", NULL, true, &choice, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "'sse9'"));
}

static void cut_items(struct backend *amx, enum dtype dtype, size_t columns) {
    uint64_t state = 7;
    struct view w = parity_weights(dtype, 397, columns, false, &state);
    struct act x = parity_act(columns, 1000, &state), all = parity_act(397, 1000, &state);
    amx->ops->product(amx, &w, &x, &all, 0);
    parity_in_company(amx, &w, &x, &all, &state);
    act_release(&x);
    act_release(&all);
    parity_weights_free(&w);
}

/* 128 KB of activations a tile, and rows of which several panels are an item: they meet the tiles
 * slice by slice, some columns after the others, rows that make no group of 16 at the end; in
 * place, where rows are not whole steps, and in a format that is decoded. */
static void slices_of_activations_change_no_bit(void **test) {
    (void)test;
    need("amx");
    struct backend *amx = parity_backend_for("amx", NULL, 1, 4096, 1000);
    cut_items(amx, DTYPE_BF16, 4096);
    cut_items(amx, DTYPE_BF16, 4090);
    cut_items(amx, DTYPE_Q4_1, 4096);
    parity_backend_free(amx);
}

/* A word for a pair of features of a token; features to the next 32, tokens to the next 16. */
static void packed_activations_are_counted(void **test) {
    (void)test;
    assert_int_equal(backend_cpu_packed_bytes("portable", 576, 64), 0);
    assert_int_equal(backend_cpu_packed_bytes("avx512bf16", 576, 64), 576 * 64 * 2);
    assert_int_equal(backend_cpu_packed_bytes("amx", 577, 65), 608 * 80 * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(avx512bf16_has_the_bits_of_its_reference),
        cmocka_unit_test(avx512bf16_agrees_on_nan_infinity_and_subnormals),
        cmocka_unit_test(amx_has_the_bits_of_its_reference),
        cmocka_unit_test(amx_agrees_on_nan_infinity_and_subnormals),
        cmocka_unit_test(products_are_the_promised_sums),
        cmocka_unit_test(roundings_and_flushes_are_those_promised),
        cmocka_unit_test(bits_of_avx512bf16_depend_on_nothing_else),
        cmocka_unit_test(bits_of_amx_depend_on_nothing_else),
        cmocka_unit_test(auto_means_bf16_products_for_bf16_weights_alone),
        cmocka_unit_test(slices_of_activations_change_no_bit),
        cmocka_unit_test(packed_activations_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
