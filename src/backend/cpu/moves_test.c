/* Tokens added to their columns, features moved, columns of a matrix, and gpt-oss's activation:
 * against values known by hand and formulas in double; every instruction set against scalar. */
#include "backend/cpu/parity.h"

static void scatter_add_puts_weighted_tokens_into_their_columns(void **test) {
    (void)test;
    uint64_t state = 31;
    struct backend *backend = parity_backend(NULL, 2);
    for (size_t tokens = 1; tokens <= 40; tokens += 13) {
        struct act x = parity_act(37, tokens, &state), y = parity_act(37, 80, &state);
        struct act before = parity_act(37, 80, &state);
        memcpy(before.data, y.data, act_floats(37, 80) * sizeof(float));
        uint32_t columns[40];
        float weights[40];
        bool is_hit[80] = {false};
        for (size_t i = 0; i < tokens; i++) {
            columns[i] = (uint32_t)(79 - 2 * i); /* no order is needed */
            weights[i] = parity_number(&state);
            is_hit[columns[i]] = true;
        }
        backend->ops->scatter_add(backend, &x, columns, weights, &y);
        for (size_t f = 0; f < 37; f++) {
            for (size_t i = 0; i < tokens; i++) {
                float product = weights[i] * *act_at(&x, f, i); /* two roundings, no FMA */
                float sum = *act_at(&before, f, columns[i]) + product;
                assert_true(*act_at(&y, f, columns[i]) == sum);
            }
            for (size_t t = 0; t < 80; t++)
                assert_true(is_hit[t] || *act_at(&y, f, t) == *act_at(&before, f, t));
        }
        act_release(&x);
        act_release(&y);
        act_release(&before);
    }
    parity_backend_free(backend);
}

static void scale_tokens_has_a_factor_for_each(void **test) {
    (void)test;
    uint64_t state = 33;
    struct backend *backend = parity_backend(NULL, 2);
    for (size_t tokens = 1; tokens <= 40; tokens += 13) {
        struct act y = parity_act(37, tokens, &state), before = parity_act(37, tokens, &state);
        float factors[40]; /* no more are read than there are tokens: the sanitizer says so */
        memcpy(before.data, y.data, act_floats(37, tokens) * sizeof(float));
        for (size_t t = 0; t < tokens; t++)
            factors[t] = (float)t - 2.5f;
        backend->ops->scale_tokens(backend, factors, &y);
        for (size_t t = 0; t < tokens; t++)
            for (size_t f = 0; f < 37; f++)
                assert_true(*act_at(&y, f, t) == *act_at(&before, f, t) * factors[t]);
        act_release(&y);
        act_release(&before);
    }
    parity_backend_free(backend);
}

static void copy_moves_features_and_leaves_the_others(void **test) {
    (void)test;
    uint64_t state = 32;
    struct backend *backend = parity_backend(NULL, 2);
    struct act x = parity_act(20, 21, &state), y = parity_act(9, 21, &state);
    struct act before = parity_act(9, 21, &state);
    memcpy(before.data, y.data, act_floats(9, 21) * sizeof(float));
    const struct feature_range range = {3, 4, 2, 5}; /* 3 7 11 15 19 go to 2 .. 6 */
    backend->ops->copy(backend, &x, &range, &y);
    for (size_t t = 0; t < 21; t++)
        for (size_t f = 0; f < 9; f++) {
            bool is_moved = f >= 2 && f < 7;
            float expected = is_moved ? *act_at(&x, 3 + 4 * (f - 2), t) : *act_at(&before, f, t);
            assert_true(*act_at(&y, f, t) == expected);
        }
    act_release(&x);
    act_release(&y);
    act_release(&before);
    parity_backend_free(backend);
}

/* Columns as rows, and so the product with the transpose, bit for bit. */
static void columns_are_the_rows_of_the_transpose(void **test) {
    (void)test;
    uint64_t state = 33;
    struct backend *backend = parity_backend(NULL, 2);
    static const size_t shapes[][2] = {{1, 256}, {19, 300}, {300, 17}, {40, 512}};
    for (size_t s = 0; s < 4; s++) {
        size_t rows = shapes[s][0], columns = shapes[s][1];
        uint16_t *weights = test_malloc(rows * columns * 2);
        float *out = test_malloc(rows * columns * sizeof(float));
        for (size_t i = 0; i < rows * columns; i++)
            weights[i] = num_to_bf16(parity_number(&state));
        struct view view = {.dtype = DTYPE_BF16,
                            .rows = rows,
                            .columns = columns,
                            .row_bytes = columns * 2,
                            .data = (const uint8_t *)weights};
        for (size_t first = 0; first < columns; first += 256) {
            size_t count = columns - first < 256 ? columns - first : 256;
            backend->ops->columns(backend, &view, first, count, out + first * rows);
        }
        for (size_t k = 0; k < rows; k++)
            for (size_t c = 0; c < columns; c++)
                assert_true(out[c * rows + k] == num_from_bf16(weights[k * columns + c]));
        test_free(weights);
        test_free(out);
    }
    parity_backend_free(backend);
}

/* Of every format: each value where view_decode has it. */
static void columns_of_every_format(void **test) {
    (void)test;
    uint64_t state = 35;
    struct backend *backend = parity_backend(NULL, 2);
    enum { ROWS = 19, COLUMNS = 512 };
    float *out = test_malloc(ROWS * COLUMNS * sizeof(float)), values[COLUMNS];
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        if (!parity_is_format((enum dtype)i))
            continue;
        struct view view = parity_weights((enum dtype)i, ROWS, COLUMNS, false, &state);
        for (size_t first = 0; first < COLUMNS; first += 256)
            backend->ops->columns(backend, &view, first, 256, out + first * ROWS);
        for (size_t k = 0; k < ROWS; k++) {
            view_decode(&view, k, 0, COLUMNS, values);
            for (size_t c = 0; c < COLUMNS; c++)
                assert_true(parity_same(out[c * ROWS + k], values[c]));
        }
        parity_weights_free(&view);
    }
    test_free(out);
    parity_backend_free(backend);
}

/* gate' sigmoid(1.702 gate') (up' + 1) in double; exp and three products round: 2^-20. */
static void clipped_swiglu_is_near_the_formula(void **test) {
    (void)test;
    uint64_t state = 34;
    struct backend *backend = parity_backend(NULL, 2);
    struct act gate = parity_act(300, 33, &state), up = parity_act(300, 33, &state);
    struct act out = parity_act(300, 33, &state);
    for (size_t i = 0; i < act_floats(300, 33); i++) {
        gate.data[i] *= 12.0f; /* beyond the limit on both sides */
        up.data[i] *= 12.0f;
        out.data[i] = up.data[i];
    }
    backend->ops->swiglu_clipped(backend, &gate, 1.702f, 7.0f, &out);
    for (size_t t = 0; t < 33; t++)
        for (size_t f = 0; f < 300; f++) {
            double g = fmin((double)*act_at(&gate, f, t), 7.0);
            double u = fmax(fmin((double)*act_at(&up, f, t), 7.0), -7.0);
            double expected = (u + 1.0) * (g / (1.0 + exp(-(double)1.702f * g)));
            assert_true(fabs((double)*act_at(&out, f, t) - expected) <=
                        fabs(expected) * 0x1p-18 + 1e-7);
        }
    act_release(&gate);
    act_release(&up);
    act_release(&out);
    parity_backend_free(backend);
}

static void compare_clipped_swiglu(const struct cpu_kernels *set) {
    uint64_t state = 35;
    struct backend *scalar = parity_backend("scalar", 1), *vector = parity_backend(set->isa, 3);
    struct act gate = parity_act(270, 20, &state), one = parity_act(270, 20, &state);
    struct act two = parity_act(270, 20, &state);
    parity_fill(&gate, parity_special, &state);
    for (size_t i = 0; i < act_floats(270, 20); i++) {
        gate.data[i] *= 20.0f;
        two.data[i] = one.data[i] *= 20.0f;
    }
    scalar->ops->swiglu_clipped(scalar, &gate, 1.702f, 7.0f, &one);
    vector->ops->swiglu_clipped(vector, &gate, 1.702f, 7.0f, &two);
    parity_assert_acts(&one, &two, "clipped swiglu");
    act_release(&gate);
    act_release(&one);
    act_release(&two);
    parity_backend_free(scalar);
    parity_backend_free(vector);
}

static void clipped_swiglu_of_every_set_has_the_bits_of_scalar(void **test) {
    (void)test;
    parity_each_set(compare_clipped_swiglu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scatter_add_puts_weighted_tokens_into_their_columns),
        cmocka_unit_test(scale_tokens_has_a_factor_for_each),
        cmocka_unit_test(copy_moves_features_and_leaves_the_others),
        cmocka_unit_test(columns_are_the_rows_of_the_transpose),
        cmocka_unit_test(columns_of_every_format),
        cmocka_unit_test(clipped_swiglu_is_near_the_formula),
        cmocka_unit_test(clipped_swiglu_of_every_set_has_the_bits_of_scalar),
    };
    return cmocka_run_group_tests_name("moves", tests, NULL, NULL);
}
