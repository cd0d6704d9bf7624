/* Loops over the 16 lanes of a tile, written once and compiled for several instruction sets.
 *
 * The file that includes this defines LANES_TARGET as the target attribute of its set (empty for
 * the scalar reference). Every operation is an IEEE one in a stated order, so all compilations give
 * the same bits; compilers turn the inner loops into vector code where the set allows. Values pass
 * through local arrays so that a tile that is both input and output is no obstacle to that. */
#ifndef SLUICE_BACKEND_CPU_LANES_H
#define SLUICE_BACKEND_CPU_LANES_H

#include "backend/cpu/kernels.h"
#include "base/num.h"

#ifndef LANES_TARGET
#error "define LANES_TARGET"
#endif

static LANES_TARGET void lanes_rms_norm(const float *x, const float *weight, size_t group,
                                        float eps, float *y) {
    float total[SL_LANES], chain[SL_LANES], inverse[SL_LANES];
    for (size_t first = 0; first < group; first += SL_CHAIN) {
        size_t end = group - first < SL_CHAIN ? group : first + SL_CHAIN;
        for (size_t lane = 0; lane < SL_LANES; lane++)
            chain[lane] = 0.0f;
        for (size_t f = first; f < end; f++)
            for (size_t lane = 0; lane < SL_LANES; lane++) {
                float value = x[f * SL_LANES + lane];
                chain[lane] = num_fma(value, value, chain[lane]);
            }
        for (size_t lane = 0; lane < SL_LANES; lane++)
            total[lane] = first == 0 ? chain[lane] : total[lane] + chain[lane];
    }
    for (size_t lane = 0; lane < SL_LANES; lane++)
        inverse[lane] = 1.0f / __builtin_sqrtf(total[lane] / (float)group + eps);
    for (size_t f = 0; f < group; f++) {
        float scale = weight != NULL ? weight[f] : 1.0f, value[SL_LANES];
        for (size_t lane = 0; lane < SL_LANES; lane++)
            value[lane] = scale * (x[f * SL_LANES + lane] * inverse[lane]);
        for (size_t lane = 0; lane < SL_LANES; lane++)
            y[f * SL_LANES + lane] = value[lane];
    }
}

static LANES_TARGET void lanes_centre(float *y, size_t features) {
    float total[SL_LANES], chain[SL_LANES];
    for (size_t first = 0; first < features; first += SL_CHAIN) {
        size_t end = features - first < SL_CHAIN ? features : first + SL_CHAIN;
        for (size_t lane = 0; lane < SL_LANES; lane++)
            chain[lane] = 0.0f;
        for (size_t f = first; f < end; f++)
            for (size_t lane = 0; lane < SL_LANES; lane++)
                chain[lane] += y[f * SL_LANES + lane];
        for (size_t lane = 0; lane < SL_LANES; lane++)
            total[lane] = first == 0 ? chain[lane] : total[lane] + chain[lane];
    }
    for (size_t lane = 0; lane < SL_LANES; lane++)
        total[lane] /= (float)features;
    for (size_t f = 0; f < features; f++)
        for (size_t lane = 0; lane < SL_LANES; lane++)
            y[f * SL_LANES + lane] -= total[lane];
}

static LANES_TARGET void lanes_add(const float *restrict x, float *restrict y, size_t count) {
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

static LANES_TARGET void lanes_add_bias(const float *restrict bias, float *restrict y,
                                        size_t features) {
    for (size_t f = 0; f < features; f++)
        for (size_t lane = 0; lane < SL_LANES; lane++)
            y[f * SL_LANES + lane] += bias[f];
}

static LANES_TARGET void lanes_silu_mul(const float *restrict gate, float *restrict up,
                                        size_t count) {
    for (size_t i = 0; i < count; i++)
        up[i] *= num_silu(gate[i]);
}

static LANES_TARGET void lanes_gelu_mul(const float *restrict gate, float *restrict up,
                                        size_t count) {
    for (size_t i = 0; i < count; i++)
        up[i] *= num_gelu(gate[i]);
}

static LANES_TARGET void lanes_sigmoid_mul(const float *restrict gate, float *restrict up,
                                           size_t count) {
    for (size_t i = 0; i < count; i++)
        up[i] *= num_sigmoid(gate[i]);
}

static LANES_TARGET void lanes_scale(float scale, float cap, float *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        y[i] *= scale;
    for (size_t i = 0; cap != 0.0f && i < count; i++)
        y[i] = num_cap(y[i], cap);
}

static LANES_TARGET void lanes_swiglu_clipped(const float *restrict gate, float *restrict up,
                                              size_t count, float alpha, float limit) {
    for (size_t i = 0; i < count; i++) {
        float low = num_select(gate[i] > limit, limit, gate[i]);
        float wide = num_select(up[i] < -limit, -limit, up[i]);
        wide = num_select(wide > limit, limit, wide);
        up[i] = (wide + 1.0f) * (low * num_sigmoid(alpha * low));
    }
}

static LANES_TARGET void lanes_rope(const struct cpu_rope *rope, float *x) {
    size_t half = rope->half, step = rope->is_interleaved ? 2 : 1;
    size_t apart = rope->is_interleaved ? 1 : half; /* features from one of a pair to the other */
    for (size_t i = 0; i < half; i++) {
        const float *cosine = rope->cosines + i * SL_LANES, *sine = rope->sines + i * SL_LANES;
        float *one = x + i * step * SL_LANES, *two = one + apart * SL_LANES;
        float turned_one[SL_LANES], turned_two[SL_LANES];
        for (size_t lane = 0; lane < SL_LANES; lane++) {
            float a = one[lane], b = two[lane];
            turned_one[lane] = num_fma(a, cosine[lane], -(b * sine[lane]));
            turned_two[lane] = num_fma(b, cosine[lane], a * sine[lane]);
        }
        for (size_t lane = 0; lane < SL_LANES; lane++)
            one[lane] = turned_one[lane];
        for (size_t lane = 0; lane < SL_LANES; lane++)
            two[lane] = turned_two[lane];
    }
}

static LANES_TARGET void lanes_argmax(const float *x, size_t features, uint32_t best[SL_LANES]) {
    float largest[SL_LANES];
    uint32_t index[SL_LANES];
    for (size_t lane = 0; lane < SL_LANES; lane++) {
        largest[lane] = num_bits_float(0x7FC00000u); /* NaN: nothing yet, any number is better */
        index[lane] = 0;
    }
    for (size_t f = 0; f < features; f++)
        for (size_t lane = 0; lane < SL_LANES; lane++) {
            float value = x[f * SL_LANES + lane], old = largest[lane];
            bool is_better = (value == value) & !(value <= old);
            largest[lane] = is_better ? value : old;
            index[lane] = is_better ? (uint32_t)f : index[lane];
        }
    memcpy(best, index, sizeof index);
}

/* The members of a struct cpu_kernels that are the functions of this file. */
#define LANES_OPERATIONS                                                                           \
    .rms_norm = lanes_rms_norm, .centre = lanes_centre, .add = lanes_add,                          \
    .add_bias = lanes_add_bias, .silu_mul = lanes_silu_mul, .gelu_mul = lanes_gelu_mul,            \
    .sigmoid_mul = lanes_sigmoid_mul, .scale = lanes_scale,                                        \
    .swiglu_clipped = lanes_swiglu_clipped, .rope = lanes_rope, .argmax = lanes_argmax

#endif
