/* The references of the bf16 kernel sets: their products in plain C, one number after the other, as
 * backend.h writes them down. The vector code must agree with them bit for bit. They share nothing
 * with it: activations are rounded here, one by one, wherever they are needed. */
#include "backend/cpu/kernels.h"

#include "base/mem.h"
#include "base/num.h"

#define LEAST_NORMAL 0x1p-126f

static bool always(void) {
    return true;
}

/* Subnormal numbers become zeros. */
static float flushed(float value) {
    bool is_tiny = fabsf(value) < LEAST_NORMAL;
    return is_tiny ? copysignf(0.0f, value) : value;
}

static float rounded(float value) {
    return num_from_bf16(num_to_bf16(flushed(value)));
}

/* a, b: bf16, not subnormal; c: not subnormal. A result that fmaf rounds up to the least normal
 * number is flushed too if rounding to 24 bits with any exponent would leave it below: if a x b + c
 * is nearer to zero than 2^-126 - 2^-151. Both sides of that comparison are exact in double. */
static float fma_flushed(float a, float b, float c) {
    float result = num_fma(a, b, c);
    if (fabsf(result) == LEAST_NORMAL) {
        double sign = result < 0 ? -1 : 1, limit = 0x1p-126 - 0x1p-151;
        if (sign * (double)a * (double)b < limit - sign * (double)c)
            return copysignf(0.0f, result);
    }
    return flushed(result);
}

static float factor_of(const struct act *x, size_t feature, size_t token) {
    return feature < x->features ? rounded(*act_at(x, feature, token)) : 0.0f;
}

/* Weights column .. column + count of a row, rounded, and a zero more where count is odd. */
static void load_row(const struct view *w, size_t row, size_t column, size_t count,
                     float *weights) {
    view_decode(w, row, column, count, weights);
    for (size_t k = 0; k < count; k++)
        weights[k] = rounded(weights[k]);
    weights[count] = 0.0f;
}

static void avx512bf16_scalar(const struct cpu_product *task, size_t first, size_t count,
                              float *scratch) {
    const struct view *w = task->w;
    for (size_t row = first; row < first + count; row++)
        for (size_t column = 0; column < w->columns; column += SL_CHAIN) {
            size_t len = w->columns - column < SL_CHAIN ? w->columns - column : SL_CHAIN;
            load_row(w, row, column, len, scratch);
            for (size_t token = 0; token < task->x->tokens; token++) {
                float chain = 0.0f;
                for (size_t k = 0; k < len; k += 2) {
                    float even = factor_of(task->x, column + k, token);
                    float odd = factor_of(task->x, column + k + 1, token);
                    chain = fma_flushed(scratch[k + 1], odd, chain);
                    chain = fma_flushed(scratch[k], even, chain);
                }
                float *y = act_at(task->y, task->first_row + row, token);
                *y = column == 0 ? chain : *y + chain;
            }
        }
}

static void amx_scalar(const struct cpu_product *task, size_t first, size_t count, float *scratch) {
    const size_t step = 32;
    const struct view *w = task->w;
    for (size_t row = first; row < first + count; row++)
        for (size_t column = 0; column < w->columns; column += SL_CHAIN) {
            size_t len = w->columns - column < SL_CHAIN ? w->columns - column : SL_CHAIN;
            load_row(w, row, column, len, scratch);
            for (size_t k = len; k < size_round_up(len, step); k++)
                scratch[k] = 0.0f;
            for (size_t token = 0; token < task->x->tokens; token++) {
                float *y = act_at(task->y, task->first_row + row, token);
                float sum = column == 0 ? 0.0f : *y;
                for (size_t at = 0; at < len; at += step) {
                    float even = 0.0f, odd = 0.0f;
                    for (size_t k = at; k < at + step; k += 2) {
                        even = fma_flushed(scratch[k], factor_of(task->x, column + k, token), even);
                        odd = fma_flushed(scratch[k + 1], factor_of(task->x, column + k + 1, token),
                                          odd);
                    }
                    sum = flushed(sum + flushed(even + odd));
                }
                *y = sum;
            }
        }
}

const struct cpu_products cpu_products_avx512bf16_scalar = {
    .kernels = "avx512bf16",
    .isa = "scalar",
    .is_available = always,
    .product = avx512bf16_scalar,
    .item_rows = CPU_ITEM_ROWS,
    .step_rows = 1,
};

const struct cpu_products cpu_products_amx_scalar = {
    .kernels = "amx",
    .isa = "scalar",
    .is_available = always,
    .product = amx_scalar,
    .item_rows = CPU_ITEM_ROWS,
    .step_rows = 1,
};
