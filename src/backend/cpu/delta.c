/* Gated delta networks: cuts a pass into items of one row's tokens and one value head, which go
 * through the recurrence in order, and afterwards brings the tails of the convolution up to date,
 * which the items of a row read. A row's numbers depend on nothing else in the pass. */
#include "backend/cpu/delta.h"

#include "base/num.h"

#include <string.h>

struct delta_work {
    struct cpu_delta task;
    const struct cpu_backend *cpu;
};

static size_t place_at(const struct delta_place *place, size_t key, size_t head, size_t size) {
    return place->first + key * place->step + head * size;
}

struct delta_head delta_head_of(const struct delta_args *args, size_t head) {
    const struct delta_shape *shape = &args->shape;
    size_t group = shape->value_heads / shape->key_heads, key_dim = shape->key_dim;
    size_t key = shape->is_tiled ? head % shape->key_heads : head / group;
    size_t keys = shape->key_heads * key_dim, dim = shape->value_dim;
    /* Values lie by groups of a key head, tiled or not. */
    size_t part = head / group, within = head % group;
    return (struct delta_head){
        .key = key,
        .value = head,
        .q = place_at(&args->q, key, 0, key_dim),
        .k = place_at(&args->k, key, 0, key_dim),
        .v = place_at(&args->v, part, within, dim),
        .z = place_at(&args->z, part, within, dim),
        .a = place_at(&args->a, part, within, 1),
        .b = place_at(&args->b, part, within, 1),
        .q_channel = key * key_dim,
        .k_channel = keys + key * key_dim,
        .v_channel = 2 * keys + head * dim,
    };
}

float *delta_tail(const struct delta_args *args, uint32_t slot) {
    return (float *)(void *)(args->states + slot * args->state_bytes);
}

float *delta_matrix(const struct delta_args *args, uint32_t slot, size_t head) {
    return delta_tail(args, slot) + delta_tail_floats(&args->shape) +
           head * delta_head_floats(&args->shape);
}

/* log(1 + e^x); e^x is far below a unit in the last place of 1 where its own error would show. */
static float softplus(float x) {
    return x > 20.0f ? x : (float)num_log(1.0 + (double)num_exp(x));
}

struct delta_gates delta_gates_of(const struct delta_args *args, const struct delta_head *head,
                                  size_t token) {
    float a = *act_at(args->a.act, head->a, token) + args->bias[head->value];
    return (struct delta_gates){
        .decay = num_exp(args->rate[head->value] * softplus(a)),
        .share = num_sigmoid(*act_at(args->b.act, head->b, token)),
    };
}

static void delta_item(void *ctx, size_t item, size_t worker) {
    const struct delta_work *work = ctx;
    const struct delta_args *args = work->task.args;
    size_t heads = args->shape.value_heads;
    work->cpu->kernels->delta(&work->task, &args->runs[item / heads], item % heads,
                              cpu_scratch(work->cpu, worker));
}

/* Channels of a head of one of q, k, v: the last kernel - 1 inputs, of the tail and of the run. */
static void keep_channels(const struct delta_args *args, const struct kv_run *run,
                          const struct act *from, size_t feature, size_t channel, size_t count) {
    size_t keep = args->shape.kernel - 1, channels = delta_channels(&args->shape);
    const struct kv_token *first = &args->tokens[run->first];
    float *tail = delta_tail(args, first->state);
    bool is_new = first->position == 0;
    for (size_t i = 0; i < keep; i++) {
        float *to = tail + i * channels + channel;
        size_t at = i + run->count; /* the old tail's inputs, then the run's */
        if (at < keep && is_new)
            memset(to, 0, count * sizeof *to);
        else if (at < keep)
            memmove(to, tail + at * channels + channel, count * sizeof *to);
        else
            for (size_t c = 0; c < count; c++)
                to[c] = *act_at(from, feature + c, run->first + at - keep);
    }
}

/* One row, one value head; of a key head's value heads the first one keeps its q and k. */
static void keep_item(void *ctx, size_t item, size_t worker) {
    const struct delta_work *work = ctx;
    const struct delta_args *args = work->task.args;
    const struct delta_shape *shape = &args->shape;
    const struct kv_run *run = &args->runs[item / shape->value_heads];
    struct delta_head head = delta_head_of(args, item % shape->value_heads);
    (void)worker;
    keep_channels(args, run, args->v.act, head.v, head.v_channel, shape->value_dim);
    bool is_first = shape->is_tiled ? head.value < shape->key_heads
                                    : head.value % (shape->value_heads / shape->key_heads) == 0;
    if (!is_first)
        return;
    keep_channels(args, run, args->q.act, head.q, head.q_channel, shape->key_dim);
    keep_channels(args, run, args->k.act, head.k, head.k_channel, shape->key_dim);
}

static void check_place(const struct delta_place *place, const struct delta_shape *shape,
                        size_t size, size_t tokens) {
    must(size <= place->step);
    must(place->first + (shape->key_heads - 1) * place->step + size <= place->act->features);
    must(place->act->tokens == tokens);
}

static void check_args(const struct delta_args *args, const struct act *out) {
    const struct delta_shape *shape = &args->shape;
    must(shape->key_heads > 0 && shape->value_heads >= shape->key_heads);
    must(shape->value_heads % shape->key_heads == 0);
    must(shape->key_dim > 0 && shape->key_dim <= SL_DELTA_DIM_MAX);
    must(shape->value_dim > 0 && shape->value_dim <= SL_DELTA_DIM_MAX);
    must(shape->kernel > 0 && shape->kernel <= SL_DELTA_KERNEL_MAX);
    must(args->state_bytes % CACHE_LINE == 0);
    must(args->state_bytes >= delta_state_floats(shape) * sizeof(float));
    must(out->features == (size_t)shape->value_heads * shape->value_dim);
    size_t group = shape->value_heads / shape->key_heads, values = group * shape->value_dim;
    check_place(&args->q, shape, shape->key_dim, out->tokens);
    check_place(&args->k, shape, shape->key_dim, out->tokens);
    check_place(&args->v, shape, values, out->tokens);
    check_place(&args->z, shape, values, out->tokens);
    check_place(&args->a, shape, group, out->tokens);
    check_place(&args->b, shape, group, out->tokens);
}

void cpu_delta(struct backend *backend, const struct delta_args *args, struct act *out) {
    struct delta_work work = {.task = {.args = args, .out = out}, .cpu = cpu_from(backend)};
    check_args(args, out);
    size_t items = args->run_count * args->shape.value_heads;
    team_run(backend->team, delta_item, &work, items);
    if (args->shape.kernel > 1)
        team_run(backend->team, keep_item, &work, items);
}
