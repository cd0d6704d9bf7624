/* Gated delta networks over vectors of 16 floats, written once and compiled for each vector set.
 *
 * The file that includes this defines
 *   DELTA_TARGET, DELTA_INLINE  the attributes of its set, plain and for inlining
 *   DELTA_UNROLL                before a loop whose count is a constant
 *   struct lanes                16 floats, and lanes_zero, lanes_load, lanes_store (aligned to 64),
 *                               lanes_of (one float in all), lanes_fma, lanes_mul, lanes_add
 *
 * The lanes run along features: of the channels in the convolution, of the value in the recurrence,
 * so that every sum over features of the key is a chain of its lane. A block of tokens goes through
 * all steps while it lies in scratch; 32 features of S fit into the first-level cache and are read
 * and written once a token: what the next token reads of S is summed while it is written. */
#ifndef SLUICE_BACKEND_CPU_DELTA_LANES_H
#define SLUICE_BACKEND_CPU_DELTA_LANES_H

#include "backend/cpu/delta.h"
#include "base/num.h"

#include <string.h>

#define DELTA_TOKENS SL_LANES /* the most of a block: those of a tile */
#define DELTA_NORM_EPS 1e-6f  /* of q and k */

/* A head in scratch. Rows are tokens, their columns q, k and v of the head, each made whole tiles
 * of 16 by zeros. The first rows hold inputs of earlier tokens; the convolution's outputs replace
 * the inputs from row 0 on, so that the last inputs are left for the next block. */
struct delta_lanes {
    const struct delta_args *args;
    struct delta_head head;
    size_t keys, values, width; /* columns of k, of v, of all */
    size_t earlier;             /* rows of earlier tokens: kernel - 1 */
    size_t tokens_max;          /* of a block */
    float *taps;                /* [kernel, width] */
    float *rows;                /* [earlier + tokens_max, width] */
    float *out;                 /* [tokens_max, values] */
    float decay[DELTA_TOKENS], share[DELTA_TOKENS];
};

/* The head's parts of a row [channels]. */
static DELTA_TARGET void delta_gather(const struct delta_lanes *lanes, const float *from,
                                      float *row) {
    const struct delta_shape *shape = &lanes->args->shape;
    size_t keys = shape->key_dim * sizeof(float), values = shape->value_dim * sizeof(float);
    memcpy(row, from + lanes->head.q_channel, keys);
    memcpy(row + lanes->keys, from + lanes->head.k_channel, keys);
    memcpy(row + 2 * lanes->keys, from + lanes->head.v_channel, values);
}

static DELTA_TARGET void delta_place(struct delta_lanes *lanes, const struct cpu_delta *task,
                                     const struct kv_run *run, size_t number, float *scratch) {
    const struct delta_shape *shape = &task->args->shape;
    lanes->args = task->args;
    lanes->head = delta_head_of(task->args, number);
    lanes->keys = act_tiles(shape->key_dim) * SL_LANES;
    lanes->values = act_tiles(shape->value_dim) * SL_LANES;
    lanes->width = 2 * lanes->keys + lanes->values;
    lanes->earlier = shape->kernel - 1;
    size_t fixed = (shape->kernel + lanes->earlier) * lanes->width;
    size_t room = (CPU_SCRATCH_FLOATS - fixed) / (lanes->width + lanes->values);
    must(room >= 1);
    lanes->tokens_max = room < DELTA_TOKENS ? room : DELTA_TOKENS;
    if (lanes->tokens_max > run->count)
        lanes->tokens_max = run->count;
    lanes->taps = scratch;
    lanes->rows = scratch + shape->kernel * lanes->width;
    lanes->out = lanes->rows + (lanes->earlier + lanes->tokens_max) * lanes->width;
    memset(scratch, 0, (fixed + lanes->tokens_max * lanes->width) * sizeof *scratch);
    for (size_t tap = 0; tap < shape->kernel; tap++)
        delta_gather(lanes, task->args->taps + tap * delta_channels(shape),
                     lanes->taps + tap * lanes->width);
    const struct kv_token *first = &task->args->tokens[run->first];
    const float *tail = delta_tail(task->args, first->state);
    for (size_t i = 0; first->position > 0 && i < lanes->earlier; i++)
        delta_gather(lanes, tail + i * delta_channels(shape), lanes->rows + i * lanes->width);
}

/* Features of some tokens of a tile, into rows from `row` on. */
static DELTA_TARGET void delta_load(const struct delta_lanes *lanes, const struct act *act,
                                    size_t feature, size_t count, const struct kv_run *block,
                                    float *row) {
    const float *from = act_at(act, feature, block->first);
    for (size_t c = 0; c < count; c++, from += SL_LANES)
        for (size_t t = 0; t < block->count; t++)
            row[t * lanes->width + c] = from[t];
}

static DELTA_TARGET void delta_convolve(const struct delta_lanes *lanes, size_t tokens) {
    size_t width = lanes->width;
    for (size_t t = 0; t < tokens; t++) {
        float *row = lanes->rows + t * width;
        for (size_t c = 0; c < width; c += SL_LANES) {
            float sum[SL_LANES] = {0};
            for (size_t tap = 0; tap <= lanes->earlier; tap++) {
                const float *weights = lanes->taps + tap * width + c, *x = row + tap * width + c;
                for (size_t lane = 0; lane < SL_LANES; lane++)
                    sum[lane] = num_fma(weights[lane], x[lane], sum[lane]);
            }
            for (size_t lane = 0; lane < SL_LANES; lane++)
                row[c + lane] = num_silu(sum[lane]);
        }
    }
}

static DELTA_TARGET float delta_squares(const float *x, size_t count) {
    float chains[SL_LANES] = {0}, sum = 0.0f;
    for (size_t i = 0; i < count; i += SL_LANES)
        for (size_t lane = 0; lane < SL_LANES; lane++)
            chains[lane] = num_fma(x[i + lane], x[i + lane], chains[lane]);
    for (size_t lane = 0; lane < SL_LANES; lane++)
        sum += chains[lane];
    return sum;
}

static DELTA_TARGET void delta_make_unit(float *x, size_t count, float scale) {
    float inverse = 1.0f / __builtin_sqrtf(delta_squares(x, count) + DELTA_NORM_EPS);
    for (size_t i = 0; i < count; i++)
        x[i] = x[i] * inverse * scale;
}

/* Sixteen times `vectors` features of the value from `at` on, for all tokens of the block. */
DELTA_INLINE void delta_recur(const struct delta_lanes *lanes, float *matrix, size_t at,
                              size_t vectors, size_t tokens) {
    size_t keys = lanes->args->shape.key_dim, width = vectors * SL_LANES;
    const float *q = lanes->rows, *k = q + lanes->keys, *v = k + lanes->keys + at;
    struct lanes read[2];
    DELTA_UNROLL
    for (size_t i = 0; i < vectors; i++)
        read[i] = lanes_zero();
    for (size_t d = 0; d < keys; d++)
        DELTA_UNROLL
    for (size_t i = 0; i < vectors; i++)
        read[i] = lanes_fma(lanes_load(matrix + d * width + i * SL_LANES), lanes_of(k[d]), read[i]);
    for (size_t t = 0; t < tokens; t++, q += lanes->width, k += lanes->width, v += lanes->width) {
        const float *later = t + 1 < tokens ? k + lanes->width : k;
        struct lanes decay = lanes_of(lanes->decay[t]), back = lanes_of(-lanes->decay[t]);
        struct lanes change[2], sum[2], next[2];
        DELTA_UNROLL
        for (size_t i = 0; i < vectors; i++) {
            struct lanes value = lanes_load(v + i * SL_LANES);
            change[i] =
                lanes_mul(lanes_add(value, lanes_mul(back, read[i])), lanes_of(lanes->share[t]));
            sum[i] = next[i] = lanes_zero();
        }
        for (size_t d = 0; d < keys; d++) {
            float *row = matrix + d * width;
            struct lanes key = lanes_of(k[d]), query = lanes_of(q[d]), then = lanes_of(later[d]);
            DELTA_UNROLL
            for (size_t i = 0; i < vectors; i++) {
                struct lanes s = lanes_mul(decay, lanes_load(row + i * SL_LANES));
                s = lanes_fma(key, change[i], s);
                lanes_store(row + i * SL_LANES, s);
                sum[i] = lanes_fma(query, s, sum[i]);
                next[i] = lanes_fma(then, s, next[i]);
            }
        }
        DELTA_UNROLL
        for (size_t i = 0; i < vectors; i++) {
            lanes_store(lanes->out + t * lanes->values + at + i * SL_LANES, sum[i]);
            read[i] = next[i];
        }
    }
}

static DELTA_TARGET void delta_recur_all(const struct delta_lanes *lanes, float *matrix,
                                         size_t tokens) {
    for (size_t at = 0; at < lanes->values; at += DELTA_BLOCK) {
        if (lanes->values - at >= DELTA_BLOCK)
            delta_recur(lanes, matrix, at, 2, tokens);
        else
            delta_recur(lanes, matrix, at, 1, tokens);
        matrix += DELTA_BLOCK * lanes->args->shape.key_dim;
    }
}

/* Norm and gate of the outputs, and into the act with them. What v was gives room to z. */
static DELTA_TARGET void delta_finish(const struct delta_lanes *lanes, const struct kv_run *block,
                                      struct act *out) {
    const struct delta_args *args = lanes->args;
    size_t dim = args->shape.value_dim;
    float *gates = lanes->rows + 2 * lanes->keys;
    delta_load(lanes, args->z.act, lanes->head.z, dim, block, gates);
    for (size_t t = 0; t < block->count; t++) {
        float *values = lanes->out + t * lanes->values;
        const float *gate = gates + t * lanes->width;
        memset(values + dim, 0, (lanes->values - dim) * sizeof *values); /* no features */
        float sum = delta_squares(values, lanes->values);
        float inverse = 1.0f / __builtin_sqrtf(sum / (float)dim + args->eps);
        for (size_t c = 0; c < dim; c++)
            values[c] = args->norm[c] * (values[c] * inverse) * num_silu(gate[c]);
    }
    float *to = act_at(out, lanes->head.value * dim, block->first);
    for (size_t c = 0; c < dim; c++, to += SL_LANES)
        for (size_t t = 0; t < block->count; t++)
            to[t] = lanes->out[t * lanes->values + c];
}

static DELTA_TARGET void delta_block(struct delta_lanes *lanes, const struct kv_run *block,
                                     float *matrix, struct act *out) {
    const struct delta_args *args = lanes->args;
    const struct delta_head *head = &lanes->head;
    size_t key_dim = args->shape.key_dim;
    float *inputs = lanes->rows + lanes->earlier * lanes->width;
    float scale = 1.0f / __builtin_sqrtf((float)key_dim);
    delta_load(lanes, args->q.act, head->q, key_dim, block, inputs);
    delta_load(lanes, args->k.act, head->k, key_dim, block, inputs + lanes->keys);
    delta_load(lanes, args->v.act, head->v, args->shape.value_dim, block, inputs + 2 * lanes->keys);
    delta_convolve(lanes, block->count);
    for (size_t t = 0; t < block->count; t++) {
        float *row = lanes->rows + t * lanes->width;
        struct delta_gates gates = delta_gates_of(args, head, block->first + t);
        delta_make_unit(row, lanes->keys, scale);
        delta_make_unit(row + lanes->keys, lanes->keys, 1.0f);
        lanes->decay[t] = gates.decay;
        lanes->share[t] = gates.share;
    }
    delta_recur_all(lanes, matrix, block->count);
    delta_finish(lanes, block, out);
    memmove(lanes->rows, lanes->rows + block->count * lanes->width,
            lanes->earlier * lanes->width * sizeof(float));
}

static DELTA_TARGET void delta_run(const struct cpu_delta *task, const struct kv_run *run,
                                   size_t number, float *scratch) {
    const struct kv_token *first = &task->args->tokens[run->first];
    struct delta_lanes lanes;
    float *matrix = delta_matrix(task->args, first->state, number);
    delta_place(&lanes, task, run, number, scratch);
    if (first->position == 0)
        memset(matrix, 0, delta_head_floats(&task->args->shape) * sizeof *matrix);
    for (size_t done = 0; done < run->count;) {
        size_t at = run->first + done, left = run->count - done;
        size_t most = SL_LANES - at % SL_LANES;
        most = most < lanes.tokens_max ? most : lanes.tokens_max;
        struct kv_run block = {at, left < most ? left : most};
        delta_block(&lanes, &block, matrix, task->out);
        done += block.count;
    }
}

#endif
