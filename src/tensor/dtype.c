/* The table of number formats, and what the two container formats call theirs. Formats that we do
 * not read have their sizes here too, so that a file that holds some can be checked as a whole; it
 * is for the caller to refuse a tensor that it would have to read. */
#include "tensor/dtype.h"

#include "tensor/fmt.h"

static const struct dtype_info table[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", "F32", 0, 1, 4, false, fmt_float_f32, NULL},
    [DTYPE_F16] = {"f16", "F16", 1, 1, 2, false, fmt_float_f16, NULL},
    [DTYPE_BF16] = {"bf16", "BF16", 30, 1, 2, false, fmt_float_bf16, NULL},
    [DTYPE_Q8_0] = {"q8_0", NULL, 8, 32, 34, true, fmt_short_q8_0, NULL},
    [DTYPE_Q4_0] = {"q4_0", NULL, 2, 32, 18, true, fmt_short_q4_0, NULL},
    [DTYPE_Q4_1] = {"q4_1", NULL, 3, 32, 20, true, fmt_short_q4_1, NULL},
    [DTYPE_Q5_0] = {"q5_0", NULL, 6, 32, 22, true, fmt_short_q5_0, NULL},
    [DTYPE_Q5_1] = {"q5_1", NULL, 7, 32, 24, true, fmt_short_q5_1, NULL},
    [DTYPE_Q2_K] = {"q2_k", NULL, 10, 256, 84, true, fmt_long_q2_k, NULL},
    [DTYPE_Q3_K] = {"q3_k", NULL, 11, 256, 110, true, fmt_long_q3_k, NULL},
    [DTYPE_Q4_K] = {"q4_k", NULL, 12, 256, 144, true, fmt_long_q4_k, NULL},
    [DTYPE_Q5_K] = {"q5_k", NULL, 13, 256, 176, true, fmt_long_q5_k, NULL},
    [DTYPE_Q6_K] = {"q6_k", NULL, 14, 256, 210, true, fmt_long_q6_k, NULL},
    [DTYPE_IQ4_NL] = {"iq4_nl", NULL, 20, 32, 18, true, fmt_short_iq4_nl, NULL},
    [DTYPE_IQ4_XS] = {"iq4_xs", NULL, 23, 256, 136, true, fmt_long_iq4_xs, NULL},
    [DTYPE_TQ1_0] = {"tq1_0", NULL, 34, 256, 54, true, fmt_long_tq1_0, NULL},
    [DTYPE_TQ2_0] = {"tq2_0", NULL, 35, 256, 66, true, fmt_long_tq2_0, NULL},
    [DTYPE_MXFP4] = {"mxfp4", NULL, 39, 32, 17, true, fmt_short_mxfp4, NULL},
    [DTYPE_F8_E4M3] = {"fp8_e4m3", "F8_E4M3", -1, 1, 1, true, NULL, fmt_scaled_f8_e4m3},
    [DTYPE_MLX_2] = {"mlx_2bit", NULL, -1, 32, 8, true, NULL, fmt_scaled_mlx_2},
    [DTYPE_MLX_3] = {"mlx_3bit", NULL, -1, 32, 12, true, NULL, fmt_scaled_mlx_3},
    [DTYPE_MLX_4] = {"mlx_4bit", NULL, -1, 32, 16, true, NULL, fmt_scaled_mlx_4},
    [DTYPE_MLX_5] = {"mlx_5bit", NULL, -1, 32, 20, true, NULL, fmt_scaled_mlx_5},
    [DTYPE_MLX_6] = {"mlx_6bit", NULL, -1, 32, 24, true, NULL, fmt_scaled_mlx_6},
    [DTYPE_MLX_7] = {"mlx_7bit", NULL, -1, 32, 28, true, NULL, fmt_scaled_mlx_7},
    [DTYPE_MLX_8] = {"mlx_8bit", NULL, -1, 32, 32, true, NULL, fmt_scaled_mlx_8},
    [DTYPE_MXFP4_SPLIT] = {"mxfp4", NULL, -1, 32, 16, true, NULL, fmt_scaled_mxfp4},
    [DTYPE_F8_E8M0] = {"e8m0", "F8_E8M0", -1, 1, 1, false, NULL, NULL},
    [DTYPE_U8] = {"u8", "U8", -1, 1, 1, false, NULL, NULL},
    [DTYPE_U32] = {"u32", "U32", -1, 1, 4, false, NULL, NULL},
};

/* `enum ggml_type` of ggml.h by number, with the block sizes of gguf-py's GGML_QUANT_SIZES. Without
 * a size: numbers that ggml gave up, and q8_1, which no file holds. */
static const struct ggml_type {
    const char *name;
    uint32_t block_values, block_bytes;
} ggml_types[] = {
    [0] = {"f32", 1, 4},         [1] = {"f16", 1, 2},         [2] = {"q4_0", 32, 18},
    [3] = {"q4_1", 32, 20},      [4] = {"q4_2", 0, 0},        [5] = {"q4_3", 0, 0},
    [6] = {"q5_0", 32, 22},      [7] = {"q5_1", 32, 24},      [8] = {"q8_0", 32, 34},
    [9] = {"q8_1", 0, 0},        [10] = {"q2_k", 256, 84},    [11] = {"q3_k", 256, 110},
    [12] = {"q4_k", 256, 144},   [13] = {"q5_k", 256, 176},   [14] = {"q6_k", 256, 210},
    [15] = {"q8_k", 256, 292},   [16] = {"iq2_xxs", 256, 66}, [17] = {"iq2_xs", 256, 74},
    [18] = {"iq3_xxs", 256, 98}, [19] = {"iq1_s", 256, 50},   [20] = {"iq4_nl", 32, 18},
    [21] = {"iq3_s", 256, 110},  [22] = {"iq2_s", 256, 82},   [23] = {"iq4_xs", 256, 136},
    [24] = {"i8", 1, 1},         [25] = {"i16", 1, 2},        [26] = {"i32", 1, 4},
    [27] = {"i64", 1, 8},        [28] = {"f64", 1, 8},        [29] = {"iq1_m", 256, 56},
    [30] = {"bf16", 1, 2},       [31] = {"q4_0_4_4", 0, 0},   [32] = {"q4_0_4_8", 0, 0},
    [33] = {"q4_0_8_8", 0, 0},   [34] = {"tq1_0", 256, 54},   [35] = {"tq2_0", 256, 66},
    [36] = {"iq4_nl_4_4", 0, 0}, [37] = {"iq4_nl_4_8", 0, 0}, [38] = {"iq4_nl_8_8", 0, 0},
    [39] = {"mxfp4", 32, 17},    [40] = {"nvfp4", 64, 36},    [41] = {"q1_0", 128, 18},
};

/* `Dtype` of the safetensors library. */
static const struct safetensors_type {
    const char *name;
    uint32_t bits;
} safetensors_types[] = {
    {"BOOL", 8}, {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},   {"F8_E5M2", 8},     {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"I16", 16}, {"F8_E5M2FNUZ", 8}, {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32}, {"U32", 32},        {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64}, {"U64", 64},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const struct dtype_info *dtype_get(enum dtype dtype) {
    must((unsigned)dtype < DTYPE_COUNT);
    return &table[dtype];
}

bool dtype_from_safetensors(struct str name, enum dtype *out) {
    for (unsigned i = 0; i < DTYPE_COUNT; i++)
        if (table[i].safetensors && str_is(name, table[i].safetensors)) {
            *out = (enum dtype)i;
            return true;
        }
    return false;
}

bool dtype_from_ggml(uint32_t type, enum dtype *out) {
    for (unsigned i = 0; i < DTYPE_COUNT; i++)
        if (table[i].ggml_type >= 0 && (uint32_t)table[i].ggml_type == type) {
            *out = (enum dtype)i;
            return true;
        }
    return false;
}

const char *dtype_ggml_name(uint32_t type) {
    return type < COUNT(ggml_types) ? ggml_types[type].name : NULL;
}

bool dtype_ggml_block(uint32_t type, uint32_t *values, uint32_t *bytes) {
    if (type >= COUNT(ggml_types) || ggml_types[type].block_values == 0)
        return false;
    *values = ggml_types[type].block_values;
    *bytes = ggml_types[type].block_bytes;
    return true;
}

bool dtype_safetensors_bits(struct str name, uint32_t *bits) {
    for (size_t i = 0; i < COUNT(safetensors_types); i++)
        if (str_is(name, safetensors_types[i].name)) {
            *bits = safetensors_types[i].bits;
            return true;
        }
    return false;
}

bool dtype_row_bytes(enum dtype dtype, uint64_t values, uint64_t *out) {
    const struct dtype_info *info = dtype_get(dtype);
    uint64_t bytes;
    if (values % info->block_values != 0 ||
        __builtin_mul_overflow(values / info->block_values, (uint64_t)info->block_bytes, &bytes))
        return false;
    *out = bytes;
    return true;
}
