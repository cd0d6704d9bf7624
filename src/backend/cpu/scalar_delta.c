/* The reference of gated delta networks: one number after the other, in the orders that backend.h
 * promises. Shares nothing with delta_lanes.h but where things lie. */
#include "backend/cpu/delta.h"
#include "base/num.h"

#include <math.h>

#define NORM_EPS 1e-6f /* of q and k */

/* One head at one token. */
struct scalar_head {
    const struct delta_args *args;
    const struct kv_run *run;
    size_t at; /* of the token in the run */
};

/* An input of the convolution, `back` positions before the token. */
static float input_of(const struct scalar_head *head, const struct act *act, size_t feature,
                      size_t channel, size_t back) {
    const struct delta_args *args = head->args;
    size_t keep = args->shape.kernel - 1;
    if (back <= head->at)
        return *act_at(act, feature, head->run->first + head->at - back);
    const struct kv_token *first = &args->tokens[head->run->first];
    if (first->position == 0)
        return 0.0f;
    return delta_tail(
        args, first->state)[(keep + head->at - back) * delta_channels(&args->shape) + channel];
}

static void convolve(const struct scalar_head *head, const struct act *act, size_t feature,
                     size_t channel, size_t count, float *out) {
    size_t kernel = head->args->shape.kernel, channels = delta_channels(&head->args->shape);
    for (size_t i = 0; i < count; i++) {
        const float *taps = head->args->taps + channel + i;
        float sum = 0.0f;
        for (size_t tap = 0; tap < kernel; tap++)
            sum = num_fma(taps[tap * channels],
                          input_of(head, act, feature + i, channel + i, kernel - 1 - tap), sum);
        out[i] = num_silu(sum);
    }
}

static float squares_of(const float *x, size_t count) {
    float chains[SL_LANES] = {0}, sum = 0.0f;
    for (size_t i = 0; i < count; i++)
        chains[i % SL_LANES] = num_fma(x[i], x[i], chains[i % SL_LANES]);
    for (size_t i = 0; i < SL_LANES; i++)
        sum += chains[i];
    return sum;
}

static void make_unit(float *x, size_t count) {
    float inverse = 1.0f / __builtin_sqrtf(squares_of(x, count) + NORM_EPS);
    for (size_t i = 0; i < count; i++)
        x[i] *= inverse;
}

/* S of key feature d and value feature v. */
static float *element_of(float *matrix, const struct delta_shape *shape, size_t d, size_t v) {
    size_t block = v / DELTA_BLOCK * DELTA_BLOCK;
    size_t all = act_tiles(shape->value_dim) * SL_LANES;
    size_t width = all - block < DELTA_BLOCK ? all - block : DELTA_BLOCK;
    return matrix + block * shape->key_dim + d * width + (v - block);
}

void scalar_delta(const struct cpu_delta *task, const struct kv_run *run, size_t number,
                  float *scratch) {
    const struct delta_args *args = task->args;
    const struct delta_shape *shape = &args->shape;
    const struct kv_token *first = &args->tokens[run->first];
    struct delta_head head = delta_head_of(args, number);
    float *matrix = delta_matrix(args, first->state, number);
    size_t keys = shape->key_dim, values = shape->value_dim;
    float *q = scratch, *k = q + keys, *v = k + keys, *out = v + values;
    float scale = 1.0f / __builtin_sqrtf((float)keys);
    for (size_t i = 0; first->position == 0 && i < delta_head_floats(shape); i++)
        matrix[i] = 0.0f;
    for (size_t at = 0; at < run->count; at++) {
        struct scalar_head here = {.args = args, .run = run, .at = at};
        size_t token = run->first + at;
        struct delta_gates gates = delta_gates_of(args, &head, token);
        convolve(&here, args->q.act, head.q, head.q_channel, keys, q);
        convolve(&here, args->k.act, head.k, head.k_channel, keys, k);
        convolve(&here, args->v.act, head.v, head.v_channel, values, v);
        make_unit(q, keys);
        make_unit(k, keys);
        for (size_t c = 0; c < values; c++) {
            float read = 0.0f, sum = 0.0f;
            for (size_t d = 0; d < keys; d++)
                read = num_fma(*element_of(matrix, shape, d, c), k[d], read);
            float change = (v[c] - gates.decay * read) * gates.share;
            for (size_t d = 0; d < keys; d++) {
                float *element = element_of(matrix, shape, d, c);
                *element = num_fma(k[d], change, gates.decay * *element);
                sum = num_fma(q[d] * scale, *element, sum);
            }
            out[c] = sum;
        }
        float inverse = 1.0f / __builtin_sqrtf(squares_of(out, values) / (float)values + args->eps);
        for (size_t c = 0; c < values; c++)
            *act_at(task->out, number * values + c, token) =
                args->norm[c] * (out[c] * inverse) *
                num_silu(*act_at(args->z.act, head.z + c, token));
    }
}
