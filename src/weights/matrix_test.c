/* Matrices of several tensors: which parts make one, which are refused, what pieces read, and that
 * views on pieces, slices and gathered rows decode what a view on the whole file decodes. */
#include "weights/matrix.h"

#include "weights/files_for_test.h"

enum { FILE_BYTES = 200000 };

static uint8_t bytes[FILE_BYTES]; /* what the file holds */

struct model {
    struct index index;
    uint64_t end; /* of the tensors so far */
};

static void init(struct model *model) {
    struct file *file;
    struct error err;
    uint32_t number;
    uint64_t seed = 5;
    for (size_t i = 0; i < FILE_BYTES; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(seed >> 40) & 0x3E; /* scales of any type are finite */
    }
    write_file("m", bytes, sizeof bytes);
    index_init(&model->index);
    assert_int_equal(file_open(test_path("m"), false, &file, &err), SL_OK);
    assert_int_equal(index_add_file(&model->index, file, &number, &err), SL_OK);
    model->end = 3;
}

/* A tensor of `dims` lengths behind the last one, one byte apart. */
static void add(struct model *model, const char *name, enum dtype dtype, uint32_t dims,
                const uint64_t *shape) {
    struct error err = {0};
    struct tensor tensor = {.name = str_from(name), .dtype = dtype, .dims = dims};
    uint64_t values = 1;
    for (uint32_t i = 0; i < dims; i++)
        values *= tensor.shape[i] = shape[i];
    assert_true(dtype_row_bytes(dtype, values, &tensor.bytes));
    tensor.offset = model->end;
    model->end += tensor.bytes + 1;
    if (index_add(&model->index, &tensor, &err) != SL_OK)
        fail_msg("%s", err.text);
}

#define SHAPE(...)                                                                                 \
    sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (uint64_t[]) {                           \
        __VA_ARGS__                                                                                \
    }

static struct matrix find(struct model *model, const struct matrix_wanted *wanted) {
    struct error err = {0};
    struct matrix matrix;
    if (matrix_find(&model->index, wanted, &matrix, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_true(matrix.rows == wanted->rows && matrix.columns == wanted->columns);
    return matrix;
}

static void check_refusal(struct model *model, const struct matrix_wanted *wanted,
                          const char *says) {
    struct error err = {0};
    struct matrix matrix;
    assert_int_equal(matrix_find(&model->index, wanted, &matrix, &err), SL_ERR_ENV);
    if (!strstr(err.text, says))
        fail_msg("refused with: %s\nexpected: %s", err.text, says);
}

static struct matrix_wanted want(const char *name, uint64_t rows, uint64_t columns) {
    return (struct matrix_wanted){
        .name = str_from(name), .slices = 1, .rows = rows, .columns = columns};
}

static const uint8_t *const *place(const struct matrix *matrix, uint64_t first, uint64_t count,
                                   const uint8_t *at[SL_MATRIX_PARTS]) {
    for (uint32_t i = 0; i < matrix->part_count; i++)
        at[i] = bytes + matrix_range(matrix, i, first, count).offset;
    return at;
}

/* Each piece from every first row, against the view on the whole matrix. */
static void check_pieces(const struct matrix *matrix) {
    const uint8_t *at[SL_MATRIX_PARTS] = {NULL};
    struct view whole = matrix_view(matrix, 0, matrix->rows, place(matrix, 0, matrix->rows, at));
    float expected[512], values[512];
    size_t columns = (size_t)matrix->columns;
    assert_true(columns <= 512);
    for (size_t first = 0; first < matrix->rows; first += 7) {
        size_t count = (size_t)matrix->rows - first < 40 ? (size_t)matrix->rows - first : 40;
        struct view piece = matrix_view(matrix, first, count, place(matrix, first, count, at));
        for (size_t row = 0; row<count; row += count> 1 ? count - 1 : 1) {
            view_decode(&whole, first + row, 0, columns, expected);
            view_decode(&piece, row, 0, columns, values);
            assert_memory_equal(values, expected, columns * sizeof *values);
        }
    }
}

static void check_gather(const struct model *model, const struct matrix *matrix) {
    const uint32_t rows[] = {(uint32_t)matrix->rows - 1, 0, (uint32_t)matrix->rows / 2, 0};
    const uint8_t *at[SL_MATRIX_PARTS] = {NULL};
    struct view whole = matrix_view(matrix, 0, matrix->rows, place(matrix, 0, matrix->rows, at));
    struct view view;
    struct error err;
    float expected[512], values[512];
    uint8_t *into = test_malloc(4 * matrix_gather_row_bytes(matrix));
    assert_int_equal(matrix_gather(&model->index, matrix, rows, 4, into, &view, &err), SL_OK);
    assert_int_equal(view.rows, 4);
    for (size_t i = 0; i < 4; i++) {
        view_decode(&whole, rows[i], 0, whole.columns, expected);
        view_decode(&view, i, 0, view.columns, values);
        assert_memory_equal(values, expected, view.columns * sizeof *values);
    }
    test_free(into);
}

static void plain_tensors_are_matrices_of_one_part(void **state) {
    (void)state;
    struct model model;
    init(&model);
    add(&model, "a.weight", DTYPE_Q8_0, SHAPE(6, 64));
    add(&model, "b.weight", DTYPE_BF16, SHAPE(3, 5, 32));
    add(&model, "c.weight", DTYPE_U8, SHAPE(4, 32));
    struct matrix_wanted wanted = want("a.weight", 6, 64);
    struct matrix matrix = find(&model, &wanted);
    assert_true(matrix.dtype == DTYPE_Q8_0 && matrix.part_count == 1);
    assert_int_equal(matrix_bytes(&matrix), 6 * 68);
    check_pieces(&matrix);
    check_gather(&model, &matrix);
    wanted.rows = 5;
    check_refusal(&model, &wanted,
                  "tensor \"a.weight\" has the shape [6, 64], the config asks for");
    wanted = want("b.weight", 5, 32);
    check_refusal(&model, &wanted, "\"b.weight\" has the shape [3, 5, 32]");
    wanted.slices = 3;
    matrix = find(&model, &wanted);
    struct matrix last = matrix_slice(&matrix, 2);
    assert_int_equal(matrix_range(&last, 0, 1, 4).offset,
                     matrix_range(&matrix, 0, 0, 5).offset + (2 * 5 + 1) * 64);
    assert_int_equal(matrix_range(&last, 0, 1, 4).bytes, 4 * 64);
    wanted = want("c.weight", 4, 32);
    check_refusal(&model, &wanted, "has type u8, which no matrix has");
    wanted = want("d.weight", 4, 32);
    check_refusal(&model, &wanted, "tensor \"d.weight\" is missing");
    assert_true(matrix_is_there(&model.index, STR("a.weight")));
    assert_false(matrix_is_there(&model.index, STR("d.weight")));
    index_release(&model.index);
}

static void fp8_scales_have_three_names(void **state) {
    (void)state;
    static const char *const names[] = {"a.weight_scale_inv", "a.weight_scale", "a.scale"};
    for (size_t i = 0; i < 3; i++) {
        struct model model;
        init(&model);
        add(&model, "a.weight", DTYPE_F8_E4M3, SHAPE(130, 130));
        add(&model, names[i], i == 1 ? DTYPE_BF16 : DTYPE_F32, SHAPE(2, 2));
        struct matrix_wanted wanted = want("a.weight", 130, 130);
        wanted.hint.block_rows = i == 2 ? 0 : 128; /* 128 is what nothing said means */
        wanted.hint.block_columns = i == 2 ? 0 : 128;
        struct matrix matrix = find(&model, &wanted);
        assert_true(matrix.dtype == DTYPE_F8_E4M3 && matrix.part_count == 2);
        assert_int_equal(matrix.group_columns, 128);
        assert_int_equal(matrix_bytes(&matrix), 130 * 130 + (i == 1 ? 8 : 16));
        check_pieces(&matrix);
        check_gather(&model, &matrix);
        /* Rows 100 to 129 lie in both rows of blocks, 128 and 129 in the second alone. */
        struct matrix_range all = matrix_range(&matrix, MATRIX_SCALES, 0, 130);
        struct matrix_range both = matrix_range(&matrix, MATRIX_SCALES, 100, 30);
        struct matrix_range second = matrix_range(&matrix, MATRIX_SCALES, 128, 2);
        assert_true(both.offset == all.offset && both.bytes == all.bytes);
        assert_true(second.offset == all.offset + all.bytes / 2 && second.bytes == all.bytes / 2);
        index_release(&model.index);
    }
}

static void fp8_without_its_scales_is_refused(void **state) {
    (void)state;
    struct model model;
    init(&model);
    struct matrix_wanted wanted = want("a.weight", 130, 130);
    add(&model, "a.weight", DTYPE_F8_E4M3, SHAPE(130, 130));
    check_refusal(&model, &wanted, "m: tensor \"a.weight\" is FP8 and has no scales");
    add(&model, "a.weight_scale", DTYPE_F32, SHAPE(2, 3));
    check_refusal(
        &model, &wanted,
        "\"a.weight_scale\" has the shape [2, 3], 130 x 130 values in blocks of 128 x 128 "
        "ask for [2, 2]");
    wanted.hint.block_rows = 65;
    wanted.hint.block_columns = 64;
    assert_int_equal(find(&model, &wanted).group_columns, 64);
    add(&model, "a.weight_scale_inv", DTYPE_F32, SHAPE(2, 2));
    check_refusal(&model, &wanted, "there is both \"a.weight_scale_inv\" and \"a.weight_scale\"");
    add(&model, "b.weight", DTYPE_F8_E4M3, SHAPE(4, 32));
    add(&model, "b.scale", DTYPE_U32, SHAPE(1, 1));
    wanted = want("b.weight", 4, 32);
    check_refusal(&model, &wanted, "\"b.scale\" has type u32, no scales of FP8 have");
    index_release(&model.index);
}

static void fp8_has_one_scale_or_one_a_row_too(void **state) {
    (void)state;
    struct model model;
    init(&model);
    for (size_t i = 0; i < 4; i++) {
        static const char *const names[][2] = {{"a.weight", "a.weight_scale"},
                                               {"b.weight", "b.weight_scale"},
                                               {"c.weight", "c.weight_scale"},
                                               {"d.weight", "d.weight_scale"}};
        static const uint64_t shapes[4][2] = {{0, 0}, {1, 1}, {50, 1}, {50, 0}};
        static const uint32_t dims[4] = {0, 2, 2, 1};
        add(&model, names[i][0], DTYPE_F8_E4M3, SHAPE(50, 300));
        add(&model, names[i][1], DTYPE_F32, dims[i], shapes[i]);
        struct matrix_wanted wanted = want(names[i][0], 50, 300);
        struct matrix matrix = find(&model, &wanted);
        assert_int_equal(matrix_range(&matrix, MATRIX_SCALES, 7, 9).bytes, i < 2 ? 4 : 36);
        check_pieces(&matrix);
        check_gather(&model, &matrix);
    }
    index_release(&model.index);
}

/* Experts behind one another: 3 of 150 x 130, so each has 2 x 2 scales, the last ones cut off. */
static void slices_have_their_own_scales(void **state) {
    (void)state;
    struct model model;
    init(&model);
    add(&model, "a.weight", DTYPE_F8_E4M3, SHAPE(3, 150, 130));
    add(&model, "a.weight_scale_inv", DTYPE_F32, SHAPE(3, 2, 2));
    add(&model, "b.weight", DTYPE_F8_E4M3, SHAPE(3, 20, 32));
    add(&model, "b.weight_scale", DTYPE_F32, SHAPE(3, 1, 1));
    struct matrix_wanted wanted = want("a.weight", 150, 130);
    wanted.slices = 3;
    struct matrix first = find(&model, &wanted);
    uint64_t numbers = matrix_range(&first, MATRIX_NUMBERS, 0, 1).offset;
    uint64_t scales = matrix_range(&first, MATRIX_SCALES, 0, 1).offset;
    for (uint64_t i = 0; i < 3; i++) {
        struct matrix slice = matrix_slice(&first, i);
        assert_int_equal(matrix_range(&slice, MATRIX_NUMBERS, 1, 1).offset,
                         numbers + (150 * i + 1) * 130);
        assert_int_equal(matrix_range(&slice, MATRIX_SCALES, 128, 1).offset, scales + 16 * i + 8);
        check_pieces(&slice);
    }
    wanted = want("b.weight", 20, 32);
    wanted.slices = 3;
    first = find(&model, &wanted);
    struct matrix slice = matrix_slice(&first, 2);
    assert_int_equal(matrix_range(&slice, MATRIX_SCALES, 5, 9).offset,
                     matrix_range(&first, MATRIX_SCALES, 0, 1).offset + 8);
    assert_int_equal(matrix_range(&slice, MATRIX_SCALES, 5, 9).bytes, 4);
    index_release(&model.index);
}

/* MLX's matrices of each head are read as one; where rows share scales that would be wrong. */
static void slices_without_shared_scales_are_joined(void **state) {
    (void)state;
    struct model model;
    init(&model);
    add(&model, "a.weight", DTYPE_U32, SHAPE(3, 5, 8));
    add(&model, "a.scales", DTYPE_F16, SHAPE(3, 5, 2));
    add(&model, "a.biases", DTYPE_F16, SHAPE(3, 5, 2));
    add(&model, "b.weight", DTYPE_F8_E4M3, SHAPE(3, 5, 64));
    add(&model, "b.weight_scale_inv", DTYPE_F32, SHAPE(3, 1, 1));
    struct matrix_wanted wanted = want("a.weight", 5, 64);
    wanted.slices = 3;
    struct matrix first = find(&model, &wanted), joined = first;
    assert_true(matrix_join(&joined, 3));
    assert_int_equal(joined.rows, 15);
    for (uint32_t part = 0; part < 3; part++) {
        struct matrix last = matrix_slice(&first, 2);
        assert_int_equal(matrix_range(&joined, part, 14, 1).offset,
                         matrix_range(&last, part, 4, 1).offset);
        assert_int_equal(matrix_range(&joined, part, 0, 15).bytes, part == 0 ? 15 * 32 : 15 * 4);
    }
    check_pieces(&joined);
    check_gather(&model, &joined);
    wanted = want("b.weight", 5, 64);
    wanted.slices = 3;
    first = find(&model, &wanted);
    assert_false(matrix_join(&first, 3));
    index_release(&model.index);
}

/* Several matrices in one tensor: 3 of 50 rows, whose scales each stand for 128 rows of the tensor.
 */
static void rows_of_a_tensor_keep_their_scales(void **state) {
    (void)state;
    struct model model;
    init(&model);
    add(&model, "a.weight", DTYPE_F8_E4M3, SHAPE(150, 130));
    add(&model, "a.weight_scale_inv", DTYPE_F32, SHAPE(2, 2));
    struct matrix_wanted wanted = want("a.weight", 150, 130);
    struct matrix all = find(&model, &wanted);
    struct matrix last = matrix_rows(&all, 100, 50);
    const uint8_t *at[SL_MATRIX_PARTS];
    float whole[130], part[130];
    assert_int_equal(last.rows, 50);
    assert_int_equal(matrix_bytes(&last), 50 * 130 + 2 * 8);
    check_pieces(&last);
    check_gather(&model, &last);
    struct view view = matrix_view(&all, 0, 150, place(&all, 0, 150, at));
    for (size_t row = 0; row < 50; row++) {
        struct view single = matrix_view(&last, row, 1, place(&last, row, 1, at));
        view_decode(&view, 100 + row, 0, 130, whole);
        view_decode(&single, 0, 0, 130, part);
        assert_memory_equal(whole, part, sizeof whole);
    }
    index_release(&model.index);
}

static void gathering_names_the_row_that_failed(void **state) {
    (void)state;
    struct model model;
    struct error err = {0};
    struct view view;
    uint8_t into[3 * 64];
    const uint32_t rows[] = {5, 0, 3};
    init(&model);
    add(&model, "a.weight", DTYPE_BF16, SHAPE(6, 32));
    struct matrix_wanted wanted = want("a.weight", 6, 32);
    struct matrix matrix = find(&model, &wanted);
    fault_arm(SL_FAULT_READ, 3, false);
    assert_int_equal(matrix_gather(&model.index, &matrix, rows, 3, into, &view, &err), SL_ERR_ENV);
    fault_arm(SL_FAULT_READ, 0, false);
    assert_non_null(strstr(err.text, "row 3 of tensor \"a.weight\": "));
    assert_int_equal(matrix_gather(&model.index, &matrix, rows, 0, into, &view, &err), SL_OK);
    index_release(&model.index);
}

/* 320 values: 2 to 8 bits fill 20, 30 .. 80 words; in groups of 32, 64 or 160. */
static void words_say_how_many_bits_a_value_has(void **state) {
    (void)state;
    static const uint64_t groups[] = {10, 5, 2};
    for (uint32_t bits = 2; bits <= 8; bits++)
        for (size_t g = 0; g < 3; g++) {
            struct model model;
            init(&model);
            enum dtype scale = g == 0 ? DTYPE_F16 : g == 1 ? DTYPE_BF16 : DTYPE_F32;
            add(&model, "a.weight", DTYPE_U32, SHAPE(50, 10 * bits));
            add(&model, "a.scales", scale, SHAPE(50, groups[g]));
            add(&model, "a.biases", scale, SHAPE(50, groups[g]));
            struct matrix_wanted wanted = want("a.weight", 50, 320);
            wanted.hint.bits = bits;
            wanted.hint.group_columns = (uint32_t)(320 / groups[g]);
            struct matrix matrix = find(&model, &wanted);
            assert_int_equal(matrix.dtype, DTYPE_MLX_2 + (bits - 2));
            assert_int_equal(matrix.group_columns, 320 / groups[g]);
            assert_int_equal(matrix.part_count, 3);
            check_pieces(&matrix);
            check_gather(&model, &matrix);
            wanted.hint.bits = bits == 4 ? 8 : 4;
            check_refusal(&model, &wanted, "by its shapes, the config says");
            index_release(&model.index);
        }
}

static void words_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct model model;
    init(&model);
    struct matrix_wanted wanted = want("a.weight", 6, 64);
    add(&model, "a.weight", DTYPE_U32, SHAPE(6, 8));
    check_refusal(&model, &wanted, "\"a.weight\" has packed numbers and no scales beside it");
    add(&model, "a.scales", DTYPE_BF16, SHAPE(6, 2));
    check_refusal(&model, &wanted, "has packed numbers and scales, and no biases beside it");
    add(&model, "a.biases", DTYPE_F16, SHAPE(6, 2));
    check_refusal(&model, &wanted, "\"a.biases\" differs in type or shape from the scales");
    wanted.columns = 96;
    check_refusal(&model, &wanted, "has the shape [6, 8], which no whole bits for 6 x 96 values");
    wanted = want("a.weight", 5, 64);
    check_refusal(&model, &wanted, "has the shape [6, 8], which no whole bits for 5 x 64 values");
    add(&model, "b.weight", DTYPE_U32, SHAPE(6, 8));
    add(&model, "b.scales", DTYPE_BF16, SHAPE(6, 3));
    add(&model, "b.biases", DTYPE_BF16, SHAPE(6, 3));
    wanted = want("b.weight", 6, 64);
    check_refusal(&model, &wanted, "[6, 3], which does not divide 6 x 64 values into groups");
    add(&model, "c.weight", DTYPE_U32, SHAPE(6, 18));
    add(&model, "c.scales", DTYPE_BF16, SHAPE(6, 1));
    add(&model, "c.biases", DTYPE_BF16, SHAPE(6, 1));
    wanted = want("c.weight", 6, 64);
    check_refusal(&model, &wanted, "has 9 bits a value, must be 2 to 8");
    add(&model, "d.weight", DTYPE_U32, SHAPE(6, 16));
    add(&model, "d.scales", DTYPE_U8, SHAPE(6, 2));
    wanted = want("d.weight", 6, 64);
    check_refusal(&model, &wanted, "MLX modes other than affine and mxfp4 are not supported");
    index_release(&model.index);
}

static void mxfp4_comes_in_words_and_in_blocks(void **state) {
    (void)state;
    struct model model;
    init(&model);
    add(&model, "a.weight", DTYPE_U32, SHAPE(50, 40));
    add(&model, "a.scales", DTYPE_U8, SHAPE(50, 10));
    add(&model, "x.up_blocks", DTYPE_U8, SHAPE(3, 20, 2, 16));
    add(&model, "x.up_scales", DTYPE_U8, SHAPE(3, 20, 2));
    add(&model, "x.down_blocks", DTYPE_U8, SHAPE(3, 20, 2, 16));
    struct matrix_wanted wanted = want("a.weight", 50, 320);
    struct matrix matrix = find(&model, &wanted);
    assert_true(matrix.dtype == DTYPE_MXFP4_SPLIT && matrix.part_count == 2);
    check_pieces(&matrix);
    check_gather(&model, &matrix);
    wanted = want("x.up", 20, 64);
    wanted.slices = 3;
    assert_true(matrix_is_there(&model.index, wanted.name));
    struct matrix first = find(&model, &wanted), last = matrix_slice(&first, 2);
    assert_int_equal(matrix_range(&last, MATRIX_NUMBERS, 3, 17).offset,
                     matrix_range(&first, MATRIX_NUMBERS, 0, 1).offset + 43 * 32);
    assert_int_equal(matrix_range(&last, MATRIX_SCALES, 3, 17).offset,
                     matrix_range(&first, MATRIX_SCALES, 0, 1).offset + 43 * 2);
    check_pieces(&last);
    wanted.columns = 96;
    check_refusal(&model, &wanted, "[3, 20, 2, 16], which the config does not ask for");
    wanted = want("x.down", 20, 64);
    wanted.slices = 3;
    check_refusal(&model, &wanted, "\"x.down_blocks\" has no scales beside it");
    index_release(&model.index);
}

static void parts_of_unknown_types_are_named(void **state) {
    (void)state;
    struct model model;
    struct error err;
    init(&model);
    add(&model, "a.weight", DTYPE_F8_E4M3, SHAPE(4, 32));
    struct tensor_unsupported scale = {STR("a.weight_scale"), STR("F64"), 0, 8};
    assert_int_equal(index_add_unsupported(&model.index, &scale, &err), SL_OK);
    struct matrix_wanted wanted = want("a.weight", 4, 32);
    check_refusal(&model, &wanted, "m: tensor \"a.weight_scale\" has type F64, which is not");
    index_release(&model.index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_tensors_are_matrices_of_one_part),
        cmocka_unit_test(fp8_scales_have_three_names),
        cmocka_unit_test(fp8_without_its_scales_is_refused),
        cmocka_unit_test(fp8_has_one_scale_or_one_a_row_too),
        cmocka_unit_test(slices_have_their_own_scales),
        cmocka_unit_test(slices_without_shared_scales_are_joined),
        cmocka_unit_test(rows_of_a_tensor_keep_their_scales),
        cmocka_unit_test(gathering_names_the_row_that_failed),
        cmocka_unit_test(words_say_how_many_bits_a_value_has),
        cmocka_unit_test(words_that_do_not_fit_are_refused),
        cmocka_unit_test(mxfp4_comes_in_words_and_in_blocks),
        cmocka_unit_test(parts_of_unknown_types_are_named),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
