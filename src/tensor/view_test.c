/* Formats whose scales lie in other tensors: against values recorded from MLX 0.32.4 (mlx.core
 * quantize and dequantize, float32, CPU), against definitions written out here bit by bit, and
 * pieces of a matrix against the whole. */
#include "tensor/view.h"

#include "base/num.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* A row of 32 values ((i * 37 + 11) % 64 - 20) / 4 in one group. */
static const struct mlx_row {
    unsigned bits;
    float scale, bias;
    uint8_t bytes[32];
    float values[8]; /* of numbers 0, 1, 2, 7, 8, 13, 30, 31 */
} mlx_rows[] = {
    {2,
     -0x1.48p+2f,
     0x1.48p+3f,
     {0x26, 0x9D, 0x48, 0x27, 0x9E, 0x89, 0x67, 0xD2},
     {0x0.0p+0f, 0x1.48p+2f, 0x0.0p+0f, 0x0.0p+0f, 0x1.48p+3f, 0x1.48p+2f, 0x1.48p+2f,
      -0x1.48p+2f}},
    {3,
     -0x1.066666p+1f,
     0x1.48p+3f,
     {0x56, 0xC1, 0xCB, 0x29, 0x76, 0x35, 0xFC, 0xAC, 0x82, 0x9F, 0x53, 0xEC},
     {-0x1.06666p+1f, 0x1.89999ap+2f, 0x0.0p+0f, -0x1.06666p+1f, 0x1.066666p+3f, 0x1.89999ap+2f,
      0x1.066668p+2f, -0x1.066664p+2f}},
    {4,
     -0x1.066666p+0f,
     0x1.48p+3f,
     {0x3C, 0x1A, 0xE7, 0xB5, 0x92, 0x70, 0x4D, 0x2B, 0xF8, 0xC6, 0xA3, 0x81, 0x5E, 0x3C, 0x09,
      0xD7},
     {-0x1.06666p+1f, 0x1.cb3334p+2f, 0x0.0p+0f, -0x1.06666p+0f, 0x1.066666p+3f, 0x1.89999ap+2f,
      0x1.89999cp+1f, -0x1.899998p+1f}},
    {5,
     -0x1.f3cf3cp-2f,
     0x1.48p+3f,
     {0xFA, 0x50, 0xF1, 0xBA, 0xC2, 0x65, 0x02, 0xC7, 0xD3, 0x25,
      0xF1, 0x33, 0x7D, 0xAA, 0x80, 0x7E, 0x65, 0x33, 0x83, 0xE3},
     {-0x1.38618p+1f, 0x1.b55556p+2f, 0x1.f3cf4p-2f, -0x1.76db6p+0f, 0x1.f3cf3cp+2f, 0x1.76db6ep+2f,
      0x1.b55558p+1f, -0x1.b5555p+1f}},
    {6,
     -0x1.f3cf3cp-3f,
     0x1.48p+3f,
     {0x73, 0x93, 0x0E, 0x9F, 0x4E, 0xC1, 0x8A, 0x09, 0x70, 0x77, 0xD4, 0x1E,
      0xA3, 0x9F, 0xD1, 0x8E, 0x4A, 0x80, 0xBB, 0x15, 0x2F, 0x67, 0xD0, 0xE1},
     {-0x1.19249p+1f, 0x1.c4f3dp+2f, 0x1.f3cf8p-3f, -0x1.76db6p+0f, 0x1.f3cf3cp+2f, 0x1.8679e8p+2f,
      0x1.961864p+1f, -0x1.b5555p+1f}},
    {8,
     -0x1.eb0a7ap-5f,
     0x1.48p+3f,
     {0xD1, 0x36, 0xA7, 0x0D, 0x7D, 0xEE, 0x53, 0xC4, 0x2A, 0x9A, 0x00,
      0x71, 0xE1, 0x47, 0xB8, 0x1D, 0x8E, 0xFE, 0x64, 0xD5, 0x3A, 0xAB,
      0x11, 0x81, 0xF2, 0x58, 0xC8, 0x2E, 0x9E, 0x04, 0x75, 0xE5},
     {-0x1.238e38p+1f, 0x1.c0d794p+2f, 0x1.eb0a8p-3f, -0x1.7fa03p+0f, 0x1.eee09p+2f, 0x1.7fa03p+2f,
      0x1.9e50d8p+1f, -0x1.bd0180p+1f}},
};

static enum dtype mlx_dtype(size_t bits) {
    return (enum dtype)(DTYPE_MLX_2 + (bits - 2));
}

static void mlx_rows_have_the_values_of_mlx(void **state) {
    (void)state;
    static const size_t numbers[8] = {0, 1, 2, 7, 8, 13, 30, 31};
    for (size_t i = 0; i < sizeof mlx_rows / sizeof *mlx_rows; i++) {
        const struct mlx_row *row = &mlx_rows[i];
        struct view view = {
            .dtype = mlx_dtype(row->bits),
            .rows = 1,
            .columns = 32,
            .row_bytes = 4 * row->bits,
            .data = row->bytes,
            .scales = {.dtype = DTYPE_F32,
                       .group_rows = 1,
                       .group_columns = 32,
                       .row_bytes = 4,
                       .data = (const uint8_t *)&row->scale,
                       .biases = (const uint8_t *)&row->bias},
        };
        float values[32];
        view_decode(&view, 0, 0, 32, values);
        for (size_t k = 0; k < 8; k++)
            if (num_float_bits(values[numbers[k]]) != num_float_bits(row->values[k]))
                fail_msg("%u bits, number %zu: %a, not %a", row->bits, numbers[k],
                         (double)values[numbers[k]], (double)row->values[k]);
    }
}

/* The same row in MLX's mode "mxfp4". */
static void mxfp4_rows_have_the_values_of_mlx(void **state) {
    (void)state;
    static const uint8_t scale = 128, bytes[16] = {0x5A, 0x60, 0xC3, 0x95, 0x16, 0x37, 0x5B, 0x69,
                                                   0xC2, 0xA4, 0x05, 0x26, 0x4C, 0x6A, 0x61, 0xB3};
    static const float expected[32] = {-2, 6,  0, 8,  3, -4, 6, -1, 8,  1, 12, 3, -3, 6, -1, 8,
                                       2,  -4, 4, -2, 6, 0,  8, 2,  -4, 4, -2, 8, 1,  8, 3,  -3};
    float values[32];
    struct view view = {
        .dtype = DTYPE_MXFP4_SPLIT,
        .rows = 1,
        .columns = 32,
        .row_bytes = 16,
        .data = bytes,
        .scales = {.dtype = DTYPE_F8_E8M0,
                   .group_rows = 1,
                   .group_columns = 32,
                   .row_bytes = 1,
                   .data = &scale},
    };
    view_decode(&view, 0, 0, 32, values);
    assert_memory_equal(values, expected, sizeof values);
}

/* A matrix for the tests below, with room around all its parts. */
struct matrix {
    uint8_t data[9000], scales[3000], biases[3000];
    struct view view;
};

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static size_t scale_bytes(enum dtype dtype) {
    return dtype_get(dtype)->block_bytes;
}

/* A number between 2^-3 and 2^2 as a scale of the type, and what that is. */
static float put_scale(enum dtype dtype, uint8_t *at, uint64_t *seed) {
    uint32_t bits = (uint32_t)(next_random(seed) % (5u << 23)) + (124u << 23); /* of float32 */
    uint16_t half = (uint16_t)((bits >> 13 & 0x3FFu) | ((bits >> 23) - 127 + 15) << 10);
    switch (dtype) {
    case DTYPE_F32:
        memcpy(at, &bits, 4);
        return num_bits_float(bits);
    case DTYPE_F16:
        memcpy(at, &half, 2);
        return num_bits_float(bits & 0xFFFFE000u);
    case DTYPE_BF16:
        half = (uint16_t)(bits >> 16);
        memcpy(at, &half, 2);
        return num_bits_float(bits & 0xFFFF0000u);
    default:
        *at = (uint8_t)(bits >> 23);
        return num_bits_float(bits & 0xFF800000u);
    }
}

/* What the scales and biases of fill() are, [rows of scales, groups]. */
static float scale_values[600], bias_values[600];

/* Random numbers, known scales; parts at odd addresses, rows apart by more than their bytes. */
static void fill(struct matrix *matrix, enum dtype dtype, size_t rows, size_t columns,
                 const struct view_scales *scales, uint64_t *seed) {
    const struct dtype_info *info = dtype_get(dtype);
    size_t groups = (columns + scales->group_columns - 1) / scales->group_columns;
    size_t scale_rows = (rows + scales->group_rows - 1) / scales->group_rows;
    struct view *view = &matrix->view;
    *view = (struct view){
        .dtype = dtype,
        .rows = rows,
        .columns = columns,
        .row_bytes = columns / info->block_values * info->block_bytes + 5,
        .data = matrix->data + 1,
        .scales = *scales,
    };
    view->scales.data = matrix->scales + 1;
    view->scales.biases = dtype >= DTYPE_MLX_2 && dtype <= DTYPE_MLX_8 ? matrix->biases + 1 : NULL;
    view->scales.row_bytes = groups * scale_bytes(scales->dtype) + 3;
    assert_true(rows * view->row_bytes + 1 <= sizeof matrix->data);
    assert_true(scale_rows * view->scales.row_bytes + 1 <= sizeof matrix->scales);
    assert_true(scale_rows * groups <= 600);
    for (size_t i = 0; i < sizeof matrix->data; i++)
        matrix->data[i] = (uint8_t)next_random(seed);
    for (size_t i = 0; i < scale_rows * groups; i++) {
        size_t at =
            1 + i / groups * view->scales.row_bytes + i % groups * scale_bytes(scales->dtype);
        scale_values[i] = put_scale(scales->dtype, matrix->scales + at, seed);
        bias_values[i] = put_scale(scales->dtype, matrix->biases + at, seed);
    }
}

static size_t group_of(const struct view *view, size_t row, size_t column) {
    size_t groups = (view->columns + view->scales.group_columns - 1) / view->scales.group_columns;
    return row / view->scales.group_rows * groups + column / view->scales.group_columns;
}

/* Bit b of number i of a row is bit i * bits + b, counted from the lowest of the first byte. */
static float mlx_value(const struct view *view, size_t bits, size_t row, size_t column) {
    unsigned number = 0;
    for (size_t b = 0; b < bits; b++) {
        size_t at = column * bits + b;
        number |= (unsigned)(view->data[row * view->row_bytes + at / 8] >> at % 8 & 1) << b;
    }
    float product = scale_values[group_of(view, row, column)] * (float)number;
    return product + bias_values[group_of(view, row, column)];
}

static void mlx_numbers_are_a_stream_of_bits(void **state) {
    (void)state;
    static struct matrix matrix;
    static const size_t group_columns[] = {32, 64, 128, 16, 48, 384};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    uint64_t seed = 1;
    float row[384];
    for (size_t bits = 2; bits <= 8; bits++)
        for (size_t g = 0; g < 6; g++)
            for (size_t t = 0; t < 3; t++) {
                struct view_scales scales = {
                    .dtype = types[t], .group_rows = 1, .group_columns = group_columns[g]};
                fill(&matrix, mlx_dtype(bits), 5, 384, &scales, &seed);
                for (size_t first = 0; first < 384; first += 96) {
                    view_decode(&matrix.view, 4, first, 384 - first, row);
                    for (size_t k = first; k < 384; k++)
                        if (row[k - first] != mlx_value(&matrix.view, bits, 4, k))
                            fail_msg("%zu bits, groups of %zu, number %zu: %a", bits,
                                     group_columns[g], k, (double)row[k - first]);
                }
            }
}

/* By the OCP specification; in double, where everything is exact. */
static double e4m3_value(unsigned code) {
    int exponent = (int)(code >> 3 & 15), mantissa = (int)(code & 7);
    double value = exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);
    if ((code & 127) == 127)
        return (double)NAN;
    return code & 128 ? -value : value;
}

static struct view fp8_view(const uint8_t *data, size_t columns, const float *scale) {
    return (struct view){
        .dtype = DTYPE_F8_E4M3,
        .rows = 1,
        .columns = columns,
        .row_bytes = columns,
        .data = data,
        .scales = {.dtype = DTYPE_F32,
                   .group_rows = 1,
                   .group_columns = columns,
                   .row_bytes = 4,
                   .data = (const uint8_t *)scale},
    };
}

static void every_fp8_code_has_its_value(void **state) {
    (void)state;
    uint8_t codes[256];
    float values[256], one = 1.0f;
    for (unsigned i = 0; i < 256; i++)
        codes[i] = (uint8_t)i;
    struct view view = fp8_view(codes, 256, &one);
    view_decode(&view, 0, 0, 256, values);
    for (unsigned i = 0; i < 256; i++)
        if (i % 128 == 127)
            assert_true(values[i] != values[i]);
        else
            assert_true((double)values[i] == e4m3_value(i) &&
                        (signbit(values[i]) != 0) == (i >= 128));
    /* ml_dtypes 0.5, float8_e4m3fn */
    assert_true(values[1] == 0.001953125f && values[7] == 0.013671875f);
    assert_true(values[8] == 0.015625f && values[0x38] == 1.0f && values[0xFE] == -448.0f);
}

static void check_fp8(const struct matrix *matrix) {
    float row[130];
    for (size_t r = 0; r < matrix->view.rows; r++) {
        view_decode(&matrix->view, r, 0, 130, row);
        for (size_t k = 0; k < 130; k++) {
            double code = e4m3_value(matrix->view.data[r * matrix->view.row_bytes + k]);
            float expected = (float)code * scale_values[group_of(&matrix->view, r, k)];
            if (code == code && row[k] != expected)
                fail_msg("row %zu, value %zu: %a, not %a", r, k, (double)row[k], (double)expected);
        }
    }
}

/* 37 rows by 130: blocks of 16 x 128 as of 128 x 128, both with partial ones; one scale for all;
 * one for each row. */
static void fp8_scales_stand_for_blocks_rows_or_all(void **state) {
    (void)state;
    static struct matrix matrix;
    static const struct {
        enum dtype dtype;
        size_t rows, columns;
    } groups[] = {{DTYPE_F32, 16, 128}, {DTYPE_BF16, 16, 128}, {DTYPE_F8_E8M0, 16, 128},
                  {DTYPE_F32, 37, 130}, {DTYPE_BF16, 1, 130},  {DTYPE_F16, 128, 128}};
    uint64_t seed = 2;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct view_scales scales = {.dtype = groups[i].dtype,
                                     .group_rows = groups[i].rows,
                                     .group_columns = groups[i].columns};
        fill(&matrix, DTYPE_F8_E4M3, 37, 130, &scales, &seed);
        check_fp8(&matrix);
    }
}

/* 130 x 130 in blocks of 128 x 128: the last value of the last row has the last of 2 x 2 scales. */
static void partial_fp8_blocks_use_the_last_scales(void **state) {
    (void)state;
    static uint8_t codes[130 * 130];
    const float scales[4] = {1.0f, 2.0f, 4.0f, 8.0f};
    float row[130];
    memset(codes, 0x38, sizeof codes); /* 1 */
    struct view view = fp8_view(codes, 130, scales);
    view.rows = 130;
    view.scales.group_rows = view.scales.group_columns = 128;
    view.scales.row_bytes = 8;
    view_decode(&view, 127, 0, 130, row);
    assert_true(row[0] == 1.0f && row[127] == 1.0f && row[128] == 2.0f && row[129] == 2.0f);
    view_decode(&view, 129, 0, 130, row);
    assert_true(row[0] == 4.0f && row[127] == 4.0f && row[129] == 8.0f);
    view_decode(&view, 128, 129, 1, row);
    assert_true(row[0] == 8.0f);
}

/* Nibbles of even values are low; 0 is 2^-127, 254 is 2^127, and 255 is NaN (OCP MX 1.0, 5.4). */
static void mxfp4_scales_are_powers_of_two(void **state) {
    (void)state;
    const uint8_t scales[4] = {0, 127, 254, 255};
    uint8_t packed[64];
    float values[128];
    memset(packed, 0x91, sizeof packed); /* 0.5, -0.5 */
    struct view view = {
        .dtype = DTYPE_MXFP4_SPLIT,
        .rows = 1,
        .columns = 128,
        .row_bytes = 64,
        .data = packed,
        .scales = {.dtype = DTYPE_F8_E8M0,
                   .group_rows = 1,
                   .group_columns = 32,
                   .row_bytes = 4,
                   .data = scales},
    };
    view_decode(&view, 0, 0, 128, values);
    assert_true(values[0] == 0x1p-128f && values[31] == -0x1p-128f);
    assert_true(values[32] == 0.5f && values[33] == -0.5f);
    assert_true(values[64] == 0x1p126f && values[96] != values[96]);
}

/* Every cut of every format: the rows of a piece are those of the whole. */
static void pieces_decode_as_the_whole(void **state) {
    (void)state;
    static struct matrix matrix;
    uint64_t seed = 3;
    float whole[64], piece[64];
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_get((enum dtype)i);
        bool is_fp8 = i == DTYPE_F8_E4M3;
        if (!info->decode_row)
            continue;
        struct view_scales scales = {.dtype = i == DTYPE_MXFP4_SPLIT ? DTYPE_F8_E8M0 : DTYPE_BF16,
                                     .group_rows = is_fp8 ? 4 : 1,
                                     .group_columns = is_fp8 ? 40 : 32};
        fill(&matrix, (enum dtype)i, 19, 64, &scales, &seed);
        for (size_t first = 0; first < 19; first++) {
            struct view rest = view_rows(&matrix.view, first, 19 - first);
            for (size_t second = 0; second < rest.rows; second++) {
                struct view part = view_rows(&rest, second, rest.rows - second);
                view_decode(&matrix.view, first + second, 0, 64, whole);
                view_decode(&part, 0, 0, 64, piece);
                assert_memory_equal(whole, piece, sizeof whole);
                view_decode(&part, part.rows - 1, 0, 64, piece);
                view_decode(&matrix.view, 18, 0, 64, whole);
                assert_memory_equal(whole, piece, sizeof whole);
            }
        }
    }
}

static void plain_formats_are_views_too(void **state) {
    (void)state;
    uint8_t q8_0[2][68] = {{0}};
    float values[32];
    q8_0[1][34] = 0x00;
    q8_0[1][35] = 0x38; /* 1/2 */
    q8_0[1][36 + 31] = 7;
    struct view view = {.dtype = DTYPE_Q8_0,
                        .rows = 2,
                        .columns = 64,
                        .row_bytes = 68,
                        .data = (const uint8_t *)q8_0};
    view_decode(&view, 1, 32, 32, values);
    assert_true(values[31] == 3.5f && values[0] == 0.0f);
    struct view last = view_rows(&view, 1, 1);
    view_decode(&last, 0, 32, 32, values);
    assert_true(values[31] == 3.5f && last.rows == 1);
}

static void scale_rows_of_some_rows_are_counted(void **state) {
    (void)state;
    size_t first = 9;
    assert_int_equal(view_scale_rows(128, 0, 128, &first), 1);
    assert_int_equal(first, 0);
    assert_int_equal(view_scale_rows(128, 127, 2, &first), 2);
    assert_int_equal(first, 0);
    assert_int_equal(view_scale_rows(128, 256, 1, &first), 1);
    assert_int_equal(first, 2);
    assert_int_equal(view_scale_rows(1, 7, 5, &first), 5);
    assert_int_equal(first, 7);
    assert_int_equal(view_scale_rows(3, 7, 0, &first), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlx_rows_have_the_values_of_mlx),
        cmocka_unit_test(mxfp4_rows_have_the_values_of_mlx),
        cmocka_unit_test(mlx_numbers_are_a_stream_of_bits),
        cmocka_unit_test(every_fp8_code_has_its_value),
        cmocka_unit_test(fp8_scales_stand_for_blocks_rows_or_all),
        cmocka_unit_test(partial_fp8_blocks_use_the_last_scales),
        cmocka_unit_test(mxfp4_scales_are_powers_of_two),
        cmocka_unit_test(pieces_decode_as_the_whole),
        cmocka_unit_test(plain_formats_are_views_too),
        cmocka_unit_test(scale_rows_of_some_rows_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
