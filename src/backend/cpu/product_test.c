/* Products: every instruction set against the scalar reference bit for bit, the reference against a
 * chain written out here and against sums in double, and that nothing but the weights and a token's
 * own activations matters. */
#include "backend/cpu/parity.h"

enum { CASES = 20 };

/* Columns of about 32 to 600 that the format allows. */
static void compare_product(enum dtype dtype, bool is_special, struct backend *a, struct backend *b,
                            uint64_t *state) {
    if (!parity_is_format(dtype))
        return;
    size_t rows = 1 + parity_below(state, parity_below(state, 8) ? 13 : 110);
    size_t tokens = 1 + parity_below(state, 40);
    if (parity_below(state, 3) == 0)
        tokens = 1 + parity_below(state, 8);
    parity_product(dtype, is_special, rows, tokens, (struct backend *[]){a, b}, state);
}

static void compare_products(const struct cpu_kernels *set, bool is_special, int cases) {
    uint64_t state = 1;
    struct backend *scalar = parity_backend("scalar", 1), *other = parity_backend(set->isa, 2);
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (int i = 0; i < cases; i++)
            compare_product(dtype, is_special, scalar, other, &state);
    parity_backend_free(scalar);
    parity_backend_free(other);
}

static void compare_ordinary(const struct cpu_kernels *set) {
    compare_products(set, false, CASES);
}

static void product_of_every_set_has_the_bits_of_scalar(void **test) {
    (void)test;
    parity_each_set(compare_ordinary);
}

static void compare_special(const struct cpu_kernels *set) {
    compare_products(set, true, CASES / 4);
}

static void products_agree_on_nan_infinity_and_subnormals(void **test) {
    (void)test;
    parity_each_set(compare_special);
}

/* Every number of rows and tokens that a kernel has a loop for, and the ones beside it: columns
 * that end inside a block of 256 and inside the eight between two requests to memory. */
static void compare_tails(const struct cpu_kernels *set) {
    uint64_t state = 8;
    struct backend *scalar = parity_backend("scalar", 1), *other = parity_backend(set->isa, 1);
    for (size_t rows = 1; rows <= 26; rows++)
        for (size_t tokens = 1; tokens <= 50; tokens += tokens < 18 ? 1 : 15) {
            size_t columns = 1 + parity_below(&state, 24) + (rows % 4 == 0 ? 250 : 0);
            struct view w = parity_weights(DTYPE_F32, rows, columns, true, &state);
            struct act x = parity_act(columns, tokens, &state);
            struct act one = parity_act(rows, tokens, &state);
            struct act two = parity_act(rows, tokens, &state);
            scalar->ops->product(scalar, &w, &x, &one, 0);
            other->ops->product(other, &w, &x, &two, 0);
            parity_assert_acts(&one, &two, "tail");
            act_release(&x);
            act_release(&one);
            act_release(&two);
            parity_weights_free(&w);
        }
    parity_backend_free(scalar);
    parity_backend_free(other);
}

static void products_agree_on_all_small_shapes(void **test) {
    (void)test;
    parity_each_set(compare_tails);
}

static void compare_decoders(const struct cpu_kernels *set) {
    uint64_t state = 3;
    float expected[600], got[601];
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (int i = 0; i < 80 && parity_is_format(dtype); i++) {
            size_t columns = parity_columns(dtype, &state);
            columns = columns > 600 ? 512 : columns;
            struct view w = parity_weights(dtype, 1, columns, true, &state);
            view_decode(&w, 0, 0, columns, expected);
            got[columns] = 77.0f; /* is nobody's */
            cpu_decode(set->decoders, &w, 0, 0, columns, got);
            for (size_t k = 0; k < columns; k++)
                if (!parity_same(expected[k], got[k]))
                    fail_msg("%s of %s: value %zu of %zu: %a, not %a", dtype_get(dtype)->name,
                             set->isa, k, columns, (double)got[k], (double)expected[k]);
            assert_true(got[columns] == 77.0f);
            parity_weights_free(&w);
        }
}

static void decoders_of_every_set_give_the_values_of_the_format(void **test) {
    (void)test;
    parity_each_set(compare_decoders);
}

/* Chains of 256 in the order of k, written with libm's fmaf; the blocks added in order. */
static void product_is_the_promised_chain(void **test) {
    (void)test;
    uint64_t state = 4;
    const struct cpu_kernels *set;
    for (size_t s = 0; (set = cpu_kernels_at(s)) != NULL; s++) {
        if (!set->is_available())
            continue;
        struct backend *backend = parity_backend(set->isa, 1);
        for (size_t tokens = 1; tokens <= 18; tokens += 3) {
            struct view w = parity_weights(DTYPE_BF16, 7, 700, false, &state);
            struct act x = parity_act(700, tokens, &state), y = parity_act(7, tokens, &state);
            backend->ops->product(backend, &w, &x, &y, 0);
            for (size_t row = 0; row < 7; row++)
                for (size_t t = 0; t < tokens; t++) {
                    float block[3] = {0, 0, 0};
                    for (size_t k = 0; k < 700; k++) {
                        uint16_t half;
                        memcpy(&half, w.data + row * w.row_bytes + 2 * k, 2);
                        block[k / 256] = fmaf(num_bits_float((uint32_t)half << 16),
                                              *act_at(&x, k, t), block[k / 256]);
                    }
                    float sum = block[0] + block[1];
                    sum += block[2];
                    assert_int_equal(num_float_bits(sum), num_float_bits(*act_at(&y, row, t)));
                }
            act_release(&x);
            act_release(&y);
            parity_weights_free(&w);
        }
        parity_backend_free(backend);
    }
}

/* A chain of n roundings in blocks of 256 errs by less than 258 half units in the last place of the
 * sum of magnitudes; 2^-15 is that. */
static void product_is_near_the_sum_in_double(void **test) {
    (void)test;
    uint64_t state = 5;
    struct backend *backend = parity_backend(NULL, 2);
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (!parity_is_format(dtype))
            continue;
        struct view w = parity_weights(dtype, 20, 512, false, &state);
        struct act x = parity_act(512, 20, &state), y = parity_act(20, 20, &state);
        float weights[512];
        backend->ops->product(backend, &w, &x, &y, 0);
        for (size_t row = 0; row < 20; row++) {
            view_decode(&w, row, 0, 512, weights);
            for (size_t t = 0; t < 20; t++) {
                double sum = 0, magnitude = 0;
                for (size_t k = 0; k < 512; k++) {
                    sum += (double)weights[k] * (double)*act_at(&x, k, t);
                    magnitude += fabs((double)weights[k] * (double)*act_at(&x, k, t));
                }
                assert_true(fabs(sum - (double)*act_at(&y, row, t)) <= magnitude * 0x1p-15);
            }
        }
        act_release(&x);
        act_release(&y);
        parity_weights_free(&w);
    }
    parity_backend_free(backend);
}

static void bits_do_not_depend_on_other_tokens(void **test) {
    (void)test;
    uint64_t state = 6;
    struct backend *backend = parity_backend(NULL, 2);
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (!parity_is_format(dtype))
            continue;
        struct view w = parity_weights(dtype, 29, 512, false, &state);
        struct act x = parity_act(512, 37, &state), all = parity_act(29, 37, &state);
        backend->ops->product(backend, &w, &x, &all, 0);
        parity_in_company(backend, &w, &x, &all, &state);
        act_release(&x);
        act_release(&all);
        parity_weights_free(&w);
    }
    parity_backend_free(backend);
}

/* A matrix by pieces of rows, as weights/layout.h cuts them. */
static void compare_in_pieces(const struct view *w, const struct act *x, const struct act *whole,
                              size_t threads, uint64_t *state) {
    struct backend *team = parity_backend(NULL, threads);
    struct act y = parity_act(w->rows, x->tokens, state);
    for (size_t row = 0; row < w->rows;) {
        struct view piece = view_rows(w, row, 1 + parity_below(state, w->rows - row));
        team->ops->product(team, &piece, x, &y, row);
        row += piece.rows;
    }
    parity_assert_acts(whole, &y, dtype_get(w->dtype)->name);
    act_release(&y);
    parity_backend_free(team);
}

static void bits_do_not_depend_on_threads_and_pieces(void **test) {
    (void)test;
    static const enum dtype dtypes[] = {DTYPE_Q4_1, DTYPE_F8_E4M3, DTYPE_MLX_5};
    uint64_t state = 7;
    for (size_t i = 0; i < 9; i++) {
        size_t tokens = 1 + i / 3 * 13;
        struct view w = parity_weights(dtypes[i % 3], 200, 576, false, &state);
        struct act x = parity_act(576, tokens, &state), whole = parity_act(200, tokens, &state);
        struct backend *one = parity_backend(NULL, 1);
        one->ops->product(one, &w, &x, &whole, 0);
        parity_backend_free(one);
        for (size_t threads = 2; threads <= 5; threads++)
            compare_in_pieces(&w, &x, &whole, threads, &state);
        act_release(&x);
        act_release(&whole);
        parity_weights_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_of_every_set_has_the_bits_of_scalar),
        cmocka_unit_test(products_agree_on_nan_infinity_and_subnormals),
        cmocka_unit_test(products_agree_on_all_small_shapes),
        cmocka_unit_test(decoders_of_every_set_give_the_values_of_the_format),
        cmocka_unit_test(product_is_the_promised_chain),
        cmocka_unit_test(product_is_near_the_sum_in_double),
        cmocka_unit_test(bits_do_not_depend_on_other_tokens),
        cmocka_unit_test(bits_do_not_depend_on_threads_and_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
