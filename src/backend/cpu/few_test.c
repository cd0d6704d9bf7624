/* Products for few tokens: each set's kernels against the scalar reference, bit for bit, for every
 * format and for each way in which columns are cut: quads, blocks, lines, steps, single ones. */
#include "backend/cpu/few.h"

#include "backend/cpu/parity.h"

/* How often the kernels under test were asked, by any thread. */
static _Atomic size_t asked;
static const struct cpu_kernels *tested;

static void count_few(const struct cpu_product *task, size_t first, size_t count, float *scratch) {
    asked++;
    tested->few(task, first, count, scratch);
}

struct few_case {
    enum dtype dtype;
    size_t rows, columns, tokens;
    bool is_special;
};

struct pair {
    struct backend *scalar, *fast;
    struct cpu_kernels kernels;
    uint64_t state;
};

static void pair_init(struct pair *pair, const struct cpu_kernels *set) {
    tested = set;
    pair->state = 1;
    pair->scalar = parity_backend("scalar", 1);
    pair->fast = parity_backend(set->isa, 2);
    pair->kernels = *set;
    pair->kernels.few = count_few;
    pair->kernels.few_decoded_max = set->few_tokens_max; /* all kernels, whatever is fastest */
    cpu_from(pair->fast)->kernels = &pair->kernels;
}

static bool has_few(const struct cpu_kernels *set) {
    return set->few != NULL;
}

static void pair_release(struct pair *pair) {
    parity_backend_free(pair->scalar);
    parity_backend_free(pair->fast);
}

/* Returns how many items the kernels under test were given. */
static size_t compare_view(struct pair *pair, const struct view *w, size_t tokens,
                           bool is_special) {
    size_t rows = w->rows;
    struct act x = parity_act(w->columns, tokens, &pair->state);
    struct act one = parity_act(rows + 3, tokens, &pair->state);
    struct act two = parity_act(rows + 3, tokens, &pair->state);
    if (is_special)
        parity_fill(&x, parity_special, &pair->state);
    memcpy(two.data, one.data, act_floats(rows + 3, tokens) * sizeof(float));
    asked = 0;
    pair->scalar->ops->product(pair->scalar, w, &x, &one, 2);
    pair->fast->ops->product(pair->fast, w, &x, &two, 2); /* features 0, 1, the last: untouched */
    parity_assert_acts(&one, &two, dtype_get(w->dtype)->name);
    act_release(&x);
    act_release(&one);
    act_release(&two);
    return asked;
}

static size_t compare(struct pair *pair, struct few_case c) {
    struct view w = parity_weights(c.dtype, c.rows, c.columns, c.is_special, &pair->state);
    size_t items = compare_view(pair, &w, c.tokens, c.is_special);
    parity_weights_free(&w);
    return items;
}

/* One quad is 1024 columns, a block 256, a cache line 16 to 32, a step 4 or 8. */
static void compare_columns(const struct cpu_kernels *set) {
    static const size_t columns[] = {1,   7,    8,    15,   33,   255,  256,  257, 264,
                                     519, 1024, 1031, 1289, 2048, 2350, 3072, 3329};
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    struct pair pair;
    pair_init(&pair, set);
    for (size_t i = 0; i < 3 * sizeof columns / sizeof *columns; i++)
        for (size_t tokens = 1; tokens <= FEW_TOKENS_MAX; tokens++) {
            size_t rows =
                FEW_ROWS + parity_below(&pair.state, parity_below(&pair.state, 8) ? 5 : 60);
            struct few_case c = {dtypes[i % 3], rows, columns[i / 3], tokens, false};
            assert_true(compare(&pair, c) >= 1);
        }
    pair_release(&pair);
}

static void compare_formats(const struct cpu_kernels *set, bool is_special) {
    struct pair pair;
    pair_init(&pair, set);
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (size_t tokens = 1; tokens <= FEW_TOKENS_MAX && parity_is_format(dtype); tokens++) {
            size_t block = dtype_get(dtype)->block_values;
            size_t columns = block * (1 + parity_below(&pair.state, 1300 / block + 1));
            size_t rows = FEW_ROWS + parity_below(&pair.state, 20);
            assert_true(
                compare(&pair, (struct few_case){dtype, rows, columns, tokens, is_special}) >= 1);
        }
    pair_release(&pair);
}

static void compare_ordinary(const struct cpu_kernels *set) {
    compare_formats(set, false);
}

static void compare_special(const struct cpu_kernels *set) {
    compare_formats(set, true);
}

/* Rows at multiples of 4096 bytes are taken four at a time, others eight. */
static void compare_distances(const struct cpu_kernels *set) {
    enum { ROWS = 35, COLUMNS = 3 * 1024 + 40 };
    static const size_t row_bytes[] = {8192, 8192 + 64, 8192 + 2};
    struct pair pair;
    pair_init(&pair, set);
    uint8_t *memory = test_malloc(ROWS * row_bytes[1]);
    for (size_t i = 0; i + 2 <= ROWS * row_bytes[1]; i += 2) {
        uint16_t half = num_to_bf16(parity_number(&pair.state));
        memcpy(memory + i, &half, sizeof half);
    }
    for (size_t i = 0; i < 3; i++)
        for (size_t tokens = 1; tokens <= 3; tokens++) {
            struct view w = {.dtype = DTYPE_BF16, .rows = ROWS, .columns = COLUMNS};
            w.row_bytes = row_bytes[i];
            w.data = memory;
            assert_true(compare_view(&pair, &w, tokens, false) >= 1);
        }
    test_free(memory);
    pair_release(&pair);
}

/* Fewer than 16 rows, more tokens, or activations beyond what was allocated for them. */
static void compare_misfits(const struct cpu_kernels *set) {
    struct pair pair;
    pair_init(&pair, set);
    size_t wide = CPU_PACKED_FLOATS / FEW_TOKENS_MAX;
    assert_int_equal(compare(&pair, (struct few_case){DTYPE_BF16, 15, 300, 1, false}), 0);
    assert_int_equal(compare(&pair, (struct few_case){DTYPE_BF16, 40, 300, 9, false}), 0);
    assert_true(compare(&pair, (struct few_case){DTYPE_BF16, 16, wide, 8, false}) > 0);
    assert_int_equal(compare(&pair, (struct few_case){DTYPE_BF16, 16, wide + 1, 8, false}), 0);
    assert_true(compare(&pair, (struct few_case){DTYPE_BF16, 16, wide + 1, 4, false}) > 0);
    pair_release(&pair);
}

/* 512 rows make eight items for each of two threads. */
static void compare_shares(const struct cpu_kernels *set) {
    struct pair pair;
    pair_init(&pair, set);
    assert_int_equal(compare(&pair, (struct few_case){DTYPE_BF16, 512, 8, 1, false}), 16);
    assert_int_equal(compare(&pair, (struct few_case){DTYPE_BF16, 576, 8, 1, false}), 18);
    assert_int_equal(compare(&pair, (struct few_case){DTYPE_BF16, 8192, 8, 1, false}), 64);
    pair_release(&pair);
}

#define EACH_SET(NAME, CHECK)                                                                      \
    static void NAME(void **test) {                                                                \
        (void)test;                                                                                \
        parity_each_set_that(has_few, CHECK);                                                      \
    }
EACH_SET(sets_have_the_bits_of_scalar_however_columns_are_cut, compare_columns)
EACH_SET(sets_have_the_bits_of_scalar_in_every_format, compare_ordinary)
EACH_SET(sets_agree_on_nan_infinity_and_subnormals, compare_special)
EACH_SET(sets_have_the_bits_of_scalar_at_any_distance_of_rows, compare_distances)
EACH_SET(what_does_not_fit_takes_the_other_way, compare_misfits)
EACH_SET(rows_are_shared_out_evenly, compare_shares)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_have_the_bits_of_scalar_however_columns_are_cut),
        cmocka_unit_test(sets_have_the_bits_of_scalar_in_every_format),
        cmocka_unit_test(sets_agree_on_nan_infinity_and_subnormals),
        cmocka_unit_test(sets_have_the_bits_of_scalar_at_any_distance_of_rows),
        cmocka_unit_test(what_does_not_fit_takes_the_other_way),
        cmocka_unit_test(rows_are_shared_out_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
