/* Norms, biases, activations, rotations, and what moves tokens: every instruction set against the
 * scalar loops bit for bit, and all of them against formulas in double or values known by hand. */
#include "backend/cpu/parity.h"

/* The same operation on copies of the same act by both sets must give the same bits. */
struct pair {
    struct backend *scalar, *vector;
};

static struct pair pair_new(const struct cpu_kernels *set) {
    return (struct pair){parity_backend("scalar", 1), parity_backend(set->isa, 3)};
}

static void pair_free(struct pair *pair) {
    parity_backend_free(pair->scalar);
    parity_backend_free(pair->vector);
}

static struct act copy_of(const struct act *act) {
    struct act copy;
    struct error err;
    assert_int_equal(act_init(&copy, act->features, act->tokens, &err), SL_OK);
    memcpy(copy.data, act->data, act_floats(act->features, act->tokens) * sizeof(float));
    return copy;
}

enum { RUNS = 10 };

static void run_all(struct backend *backend, const struct act *x, const float *vector,
                    const struct rope_table *table, struct act out[RUNS]) {
    for (size_t i = 0; i < RUNS; i++)
        out[i] = copy_of(x);
    backend->ops->rms_norm(backend, x, vector, x->features, 1e-5f, &out[0]);
    backend->ops->rms_norm(backend, &out[1], vector, x->features / 2, 1e-6f, &out[1]);
    backend->ops->add_bias(backend, vector, &out[2]);
    backend->ops->add(backend, x, &out[2]);
    backend->ops->silu_mul(backend, x, &out[3]);
    backend->ops->rope(backend, table, 2, x->features / 2, &out[4]);
    backend->ops->gelu_mul(backend, x, &out[5]);
    backend->ops->scale(backend, 0.22f, 0.0f, &out[6]);
    backend->ops->scale(backend, 0.125f, 30.0f, &out[7]);
    backend->ops->rms_norm(backend, x, NULL, x->features, 1e-5f, &out[8]);
    backend->ops->centre(backend, &out[9]);
}

static void compare_operations(const struct cpu_kernels *set) {
    struct pair pair = pair_new(set);
    uint64_t state = 21;
    for (int i = 0; i < 60; i++) {
        size_t features = 4 * (1 + parity_below(&state, 180)),
               tokens = 1 + parity_below(&state, 40);
        struct act x = parity_act(features, tokens, &state), one[RUNS], two[RUNS];
        parity_fill(&x, i % 2 ? parity_special : parity_number, &state);
        for (size_t f = 0; f < features * SL_LANES; f++) /* also where exp under- and overflows */
            x.data[f] *= parity_below(&state, 2) ? 1.0f : 200.0f;
        float vector[720];
        for (size_t f = 0; f < features; f++)
            vector[f] = parity_number(&state);
        size_t half = 1 + parity_below(&state, features / 4);
        struct rope_table table = {.cosines = parity_act(half, tokens, &state),
                                   .sines = parity_act(half, tokens, &state),
                                   .is_interleaved = i % 3 == 0};
        run_all(pair.scalar, &x, vector, &table, one);
        run_all(pair.vector, &x, vector, &table, two);
        for (size_t n = 0; n < RUNS; n++) {
            parity_assert_acts(&one[n], &two[n], "operation");
            act_release(&one[n]);
            act_release(&two[n]);
        }
        uint32_t best_one[40], best_two[40];
        pair.scalar->ops->argmax(pair.scalar, &x, best_one);
        pair.vector->ops->argmax(pair.vector, &x, best_two);
        assert_memory_equal(best_one, best_two, tokens * sizeof *best_one);
        act_release(&table.cosines);
        act_release(&table.sines);
        act_release(&x);
    }
    pair_free(&pair);
}

static void operations_of_every_set_have_the_bits_of_scalar(void **test) {
    (void)test;
    parity_each_set(compare_operations);
}

/* Rounding of sums of 300 squares, a root, a division and two products: well below 2^-18. */
static void rms_norm_is_near_the_formula_in_double(void **test) {
    (void)test;
    uint64_t state = 22;
    struct backend *backend = parity_backend(NULL, 2);
    float weight[300];
    for (size_t f = 0; f < 300; f++)
        weight[f] = parity_number(&state);
    struct act x = parity_act(600, 33, &state), y = parity_act(600, 33, &state);
    for (size_t group = 200; group <= 300; group += 100) {
        backend->ops->rms_norm(backend, &x, weight, group, 0.01f, &y);
        for (size_t t = 0; t < 33; t++)
            for (size_t first = 0; first < 600; first += group) {
                double sum = 0;
                for (size_t f = first; f < first + group; f++)
                    sum += (double)*act_at(&x, f, t) * (double)*act_at(&x, f, t);
                double scale = 1 / sqrt(sum / (double)group + (double)0.01f);
                for (size_t f = first; f < first + group; f++) {
                    double expected = (double)*act_at(&x, f, t) * scale * (double)weight[f - first];
                    assert_true(fabs(expected - (double)*act_at(&y, f, t)) <=
                                fabs(expected) * 0x1p-18);
                }
            }
    }
    act_release(&x);
    act_release(&y);
    parity_backend_free(backend);
}

/* A sum of 600 numbers below 1 and a division: 2^-16 is plenty. Without weights all are 1. */
static void a_norm_without_mean_and_weights_is_near_the_formula(void **test) {
    (void)test;
    uint64_t state = 27;
    struct backend *backend = parity_backend(NULL, 2);
    struct act x = parity_act(600, 33, &state), y = copy_of(&x), plain = copy_of(&x);
    backend->ops->centre(backend, &y);
    backend->ops->rms_norm(backend, &x, NULL, 300, 0.01f, &plain);
    for (size_t t = 0; t < 33; t++) {
        double mean = 0, squares = 0;
        for (size_t f = 0; f < 600; f++)
            mean += (double)*act_at(&x, f, t) / 600;
        for (size_t f = 300; f < 600; f++)
            squares += (double)*act_at(&x, f, t) * (double)*act_at(&x, f, t) / 300;
        for (size_t f = 0; f < 600; f++)
            assert_true(fabs((double)*act_at(&x, f, t) - mean - (double)*act_at(&y, f, t)) <=
                        0x1p-16);
        double expected = (double)*act_at(&x, 450, t) / sqrt(squares + (double)0.01f);
        assert_true(fabs(expected - (double)*act_at(&plain, 450, t)) <= fabs(expected) * 0x1p-18);
    }
    act_release(&x);
    act_release(&y);
    act_release(&plain);
    parity_backend_free(backend);
}

static void silu_mul_and_add_are_near_their_formulas(void **test) {
    (void)test;
    uint64_t state = 23;
    struct backend *backend = parity_backend(NULL, 2);
    struct act gate = parity_act(700, 50, &state), up = parity_act(700, 50, &state);
    struct act out = copy_of(&up);
    float bias[700];
    for (size_t f = 0; f < 700; f++)
        bias[f] = (float)f;
    for (size_t i = 0; i < act_floats(700, 50); i++)
        gate.data[i] *= 20.0f;
    backend->ops->silu_mul(backend, &gate, &out);
    for (size_t t = 0; t < 50; t++)
        for (size_t f = 0; f < 700; f++) {
            double g = (double)*act_at(&gate, f, t);
            double expected = (double)*act_at(&up, f, t) * g / (1 + exp(-g));
            assert_true(fabs(expected - (double)*act_at(&out, f, t)) <=
                        fabs(expected) * 0x1p-20 + 1e-30); /* exp within 2 units: 2^-22 */
        }
    memcpy(out.data, up.data, act_floats(700, 50) * sizeof(float));
    backend->ops->add(backend, &gate, &out);
    backend->ops->add_bias(backend, bias, &out);
    for (size_t t = 0; t < 50; t++)
        for (size_t f = 0; f < 700; f++) {
            float expected = *act_at(&up, f, t) + *act_at(&gate, f, t);
            assert_true(*act_at(&out, f, t) == expected + (float)f);
        }
    act_release(&gate);
    act_release(&up);
    act_release(&out);
    parity_backend_free(backend);
}

/* Turning by 90 degrees (cosine 0, sine 1) sends (a, b) to (-b, a); by 180, to (-a, -b). Features
 * past `rotary` stay. */
static void gelu_mul_and_scale_are_near_their_formulas(void **test) {
    (void)test;
    uint64_t state = 29;
    struct backend *backend = parity_backend(NULL, 2);
    struct act gate = parity_act(700, 50, &state), up = parity_act(700, 50, &state);
    struct act out = copy_of(&up), capped = copy_of(&up);
    for (size_t i = 0; i < act_floats(700, 50); i++) {
        gate.data[i] *= 6.0f;
        capped.data[i] *= 100.0f;
    }
    struct act raw = copy_of(&capped);
    backend->ops->gelu_mul(backend, &gate, &out);
    backend->ops->scale(backend, 0.5f, 30.0f, &capped);
    for (size_t t = 0; t < 50; t++)
        for (size_t f = 0; f < 700; f++) {
            double g = (double)*act_at(&gate, f, t), u = (double)*act_at(&up, f, t);
            double cube = 0.79788456080286536 * (g + 0.044715 * g * g * g);
            double expected = u * g * 0.5 * (1 + tanh(cube));
            /* The exponent reaches 40 for g = -6, where its rounding is 2^-19 of the result. */
            assert_true(fabs(expected - (double)*act_at(&out, f, t)) <=
                        fabs(u * g) * 0x1p-24 + fabs(expected) * 0x1p-18);
            expected = 30 * tanh((double)*act_at(&raw, f, t) * 0.5 / 30);
            assert_true(fabs(expected - (double)*act_at(&capped, f, t)) <=
                        fabs(expected) * 0x1p-21);
        }
    backend->ops->scale(backend, 0.5f, 0.0f, &raw);
    assert_true(*act_at(&raw, 699, 49) == *act_at(&up, 699, 49) * 100.0f * 0.5f);
    act_release(&gate);
    act_release(&up);
    act_release(&out);
    act_release(&capped);
    act_release(&raw);
    parity_backend_free(backend);
}

static void rope_turns_pairs_both_ways(void **test) {
    (void)test;
    uint64_t state = 24;
    struct backend *backend = parity_backend(NULL, 1);
    struct act x = parity_act(2 * 6, 2, &state);
    for (int is_interleaved = 0; is_interleaved < 2; is_interleaved++) {
        struct rope_table table = {.cosines = parity_act(2, 2, &state),
                                   .sines = parity_act(2, 2, &state),
                                   .is_interleaved = is_interleaved};
        for (size_t i = 0; i < 2; i++) {
            *act_at(&table.cosines, i, 0) = 0.0f; /* token 0: by 90 degrees */
            *act_at(&table.sines, i, 0) = 1.0f;
            *act_at(&table.cosines, i, 1) = -1.0f; /* token 1: by 180 */
            *act_at(&table.sines, i, 1) = 0.0f;
        }
        for (size_t f = 0; f < 12; f++)
            *act_at(&x, f, 0) = *act_at(&x, f, 1) = (float)f + 1.0f;
        backend->ops->rope(backend, &table, 2, 6, &x);
        static const float halves[] = {-3, -4, 1, 2, 5, 6, -9, -10, 7, 8, 11, 12};
        static const float pairs[] = {-2, 1, -4, 3, 5, 6, -8, 7, -10, 9, 11, 12};
        for (size_t f = 0; f < 12; f++) {
            float expected = (is_interleaved ? pairs : halves)[f], same = (float)f + 1.0f;
            assert_true(*act_at(&x, f, 0) == expected);
            assert_true(*act_at(&x, f, 1) == (f % 6 < 4 ? -same : same));
        }
        act_release(&table.cosines);
        act_release(&table.sines);
    }
    act_release(&x);
    parity_backend_free(backend);
}

static void embed_lays_rows_into_lanes_times_scale(void **test) {
    (void)test;
    uint64_t state = 25;
    struct backend *backend = parity_backend(NULL, 2);
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (size_t tokens = 1; tokens < 70 && parity_is_format(dtype); tokens += 33) {
            struct view rows = parity_weights(dtype, tokens, 768, false, &state);
            struct act y = parity_act(768, tokens, &state);
            float expected[768];
            backend->ops->embed(backend, &rows, 0, 3.0f, &y);
            for (size_t t = 0; t < tokens; t++) {
                view_decode(&rows, t, 0, 768, expected);
                for (size_t f = 0; f < 768; f++)
                    assert_true(*act_at(&y, f, t) == expected[f] * 3.0f);
            }
            act_shape(&y, 256, tokens); /* a part of each row */
            backend->ops->embed(backend, &rows, 512, 3.0f, &y);
            view_decode(&rows, tokens - 1, 0, 768, expected);
            for (size_t f = 0; f < 256; f++)
                assert_true(*act_at(&y, f, tokens - 1) == expected[512 + f] * 3.0f);
            act_release(&y);
            parity_weights_free(&rows);
        }
    parity_backend_free(backend);
}

/* kv_view.h: keys [kv_heads, head_dim, 16], then values [kv_heads, 16, value_dim]. Every byte of
 * the pool that no token owns stays. */
static void kv_write_puts_each_token_into_its_slot(void **test) {
    (void)test;
    uint64_t state = 26;
    struct backend *backend = parity_backend(NULL, 2);
    const uint32_t pages[] = {2, 0, 1};
    uint8_t pool[3 * 1408];
    for (enum kv_dtype dtype = KV_BF16; dtype <= KV_F32; dtype++) {
        struct kv_layer kv = {.base = pool,
                              .page_bytes = 1408,
                              .dtype = dtype,
                              .kv_heads = 2,
                              .head_dim = 4,
                              .value_dim = 6};
        struct kv_token tokens[20];
        struct act k = parity_act(8, 20, &state), v = parity_act(12, 20, &state);
        for (uint32_t t = 0; t < 20; t++)
            tokens[t] = (struct kv_token){.position = 2 * t, .pages = pages};
        memset(pool, 0xAB, sizeof pool);
        backend->ops->kv_write(backend, &kv, tokens, &k, &v);
        size_t bytes = kv_value_bytes(dtype), untouched = 0;
        for (size_t t = 0; t < 20; t++) {
            const uint8_t *page = pool + pages[2 * t / 16] * 1408;
            for (size_t f = 0; f < 20; f++) {
                size_t index = f < 8 ? f * 16 + 2 * t % 16
                                     : 8 * 16 + ((f - 8) / 6 * 16 + 2 * t % 16) * 6 + (f - 8) % 6;
                float value = f < 8 ? *act_at(&k, f, t) : *act_at(&v, f - 8, t);
                uint16_t half = num_to_bf16(value);
                assert_memory_equal(page + index * bytes,
                                    dtype == KV_F32 ? (void *)&value : (void *)&half, bytes);
            }
        }
        for (size_t i = 0; i < sizeof pool; i++)
            untouched += pool[i] == 0xAB;
        assert_true(untouched >= sizeof pool - 20 * 20 * bytes);
        act_release(&k);
        act_release(&v);
    }
    parity_backend_free(backend);
}

static void select_takes_columns_in_order(void **test) {
    (void)test;
    uint64_t state = 27;
    struct backend *backend = parity_backend(NULL, 2);
    struct act x = parity_act(900, 40, &state), y = parity_act(900, 18, &state);
    uint32_t columns[18];
    for (uint32_t i = 0; i < 18; i++)
        columns[i] = 2 * i + 5;
    columns[17] = 0;
    backend->ops->select(backend, &x, columns, 18, &y);
    for (size_t i = 0; i < 18; i++)
        for (size_t f = 0; f < 900; f++)
            assert_true(*act_at(&y, f, i) == *act_at(&x, f, columns[i]));
    act_release(&x);
    act_release(&y);
    parity_backend_free(backend);
}

/* By hand: ties go to the lowest, NaN is never chosen, minus infinity is a number like others. */
static void argmax_takes_the_first_largest_number(void **test) {
    (void)test;
    uint64_t state = 28;
    static const float columns[][4] = {
        {1, 3, 2, 3},         {NAN, 1, NAN, 2},
        {NAN, NAN, NAN, NAN}, {NAN, -INFINITY, NAN, -INFINITY},
        {-0.0f, 0, -1, 0},    {-INFINITY, NAN, INFINITY, INFINITY},
    };
    static const uint32_t expected[] = {1, 3, 0, 1, 0, 2};
    const struct cpu_kernels *set;
    for (size_t s = 0; (set = cpu_kernels_at(s)) != NULL; s++) {
        if (!set->is_available())
            continue;
        struct backend *backend = parity_backend(set->isa, 2);
        struct act x = parity_act(4, 20, &state);
        uint32_t out[21];
        for (size_t t = 0; t < 20; t++)
            for (size_t f = 0; f < 4; f++)
                *act_at(&x, f, t) = columns[t % 6][f];
        out[20] = 77;
        backend->ops->argmax(backend, &x, out);
        for (size_t t = 0; t < 20; t++)
            assert_int_equal(out[t], expected[t % 6]);
        assert_int_equal(out[20], 77);
        act_release(&x);
        parity_backend_free(backend);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_every_set_have_the_bits_of_scalar),
        cmocka_unit_test(rms_norm_is_near_the_formula_in_double),
        cmocka_unit_test(a_norm_without_mean_and_weights_is_near_the_formula),
        cmocka_unit_test(silu_mul_and_add_are_near_their_formulas),
        cmocka_unit_test(gelu_mul_and_scale_are_near_their_formulas),
        cmocka_unit_test(rope_turns_pairs_both_ways),
        cmocka_unit_test(embed_lays_rows_into_lanes_times_scale),
        cmocka_unit_test(kv_write_puts_each_token_into_its_slot),
        cmocka_unit_test(select_takes_columns_in_order),
        cmocka_unit_test(argmax_takes_the_first_largest_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
