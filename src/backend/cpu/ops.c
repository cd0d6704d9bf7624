/* The operations between products and attention: norms, biases, activations, rotations, moving
 * tokens in and out of the tiles. Cuts them into items and shares these out; arithmetic with a
 * choice of instruction set is in the kernels, copying and rounding to bf16 is here. */
#include "backend/cpu/kernels.h"
#include "base/num.h"

/* Below so many floats, waking the team costs more than it saves. */
#define ALONE_FLOATS_MAX ((size_t)16 << 10)
/* Features of an item of an operation that treats every feature by itself. */
#define ITEM_FEATURES ((size_t)256)

/* y of x, both [count]. */
typedef void ops_pair(const float *x, float *y, size_t count);

struct ops_run {
    const struct cpu_backend *cpu;
    const struct act *x, *y; /* y: what is written */
    const float *vector;     /* weight or bias */
    size_t parts;            /* items of a tile */
    size_t group;
    ops_pair *pair;
    float number; /* eps, scale or alpha */
    float cap;    /* or limit */
    const struct view *rows;
    size_t first; /* column of them */
    const struct rope_table *table;
    const struct kv_layer *kv;
    const struct kv_token *tokens;
    const struct act *k, *v;
    const uint32_t *columns;
    uint32_t *out;
};

void cpu_share_out(struct backend *backend, team_work *work, void *run, size_t items,
                   size_t floats) {
    if (floats > ALONE_FLOATS_MAX) {
        team_run(backend->team, work, run, items);
        return;
    }
    for (size_t item = 0; item < items; item++)
        work(run, item, 0);
}

/* The part of a tile that an item of an elementwise operation has. */
struct slice {
    size_t tile, feature, features;
    size_t offset; /* floats from the start of the act's data */
};

static struct slice slice_of(const struct ops_run *run, size_t item) {
    size_t all = run->y->features, feature = item % run->parts * ITEM_FEATURES;
    size_t tile = item / run->parts;
    return (struct slice){
        .tile = tile,
        .feature = feature,
        .features = all - feature < ITEM_FEATURES ? all - feature : ITEM_FEATURES,
        .offset = (tile * all + feature) * SL_LANES,
    };
}

static void share_slices(struct backend *backend, team_work *work, struct ops_run *run) {
    size_t tiles = act_tiles(run->y->tokens);
    run->parts = size_divide_up(run->y->features, ITEM_FEATURES);
    cpu_share_out(backend, work, run, tiles * run->parts, tiles * run->y->features * SL_LANES);
}

static void pair_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    struct slice slice = slice_of(run, item);
    run->pair(run->x->data + slice.offset, run->y->data + slice.offset, slice.features * SL_LANES);
}

/* Each element of y by the one of x at its place. */
static void share_pairs(struct backend *backend, ops_pair *pair, const struct act *x,
                        struct act *y) {
    must(x->features == y->features && x->tokens == y->tokens);
    struct ops_run run = {.cpu = cpu_from(backend), .x = x, .y = y, .pair = pair};
    share_slices(backend, pair_item, &run);
}

void cpu_add(struct backend *backend, const struct act *x, struct act *y) {
    share_pairs(backend, cpu_from(backend)->kernels->add, x, y);
}

void cpu_silu_mul(struct backend *backend, const struct act *gate, struct act *up) {
    share_pairs(backend, cpu_from(backend)->kernels->silu_mul, gate, up);
}

void cpu_gelu_mul(struct backend *backend, const struct act *gate, struct act *up) {
    share_pairs(backend, cpu_from(backend)->kernels->gelu_mul, gate, up);
}

void cpu_sigmoid_mul(struct backend *backend, const struct act *gate, struct act *up) {
    share_pairs(backend, cpu_from(backend)->kernels->sigmoid_mul, gate, up);
}

static void add_bias_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    struct slice slice = slice_of(run, item);
    run->cpu->kernels->add_bias(run->vector + slice.feature, run->y->data + slice.offset,
                                slice.features);
}

void cpu_add_bias(struct backend *backend, const float *bias, struct act *y) {
    struct ops_run run = {.cpu = cpu_from(backend), .vector = bias, .y = y};
    share_slices(backend, add_bias_item, &run);
}

static void swiglu_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    struct slice slice = slice_of(run, item);
    run->cpu->kernels->swiglu_clipped(run->x->data + slice.offset, run->y->data + slice.offset,
                                      slice.features * SL_LANES, run->number, run->cap);
}

void cpu_swiglu_clipped(struct backend *backend, const struct act *gate, float alpha, float limit,
                        struct act *up) {
    must(gate->features == up->features && gate->tokens == up->tokens);
    struct ops_run run = {
        .cpu = cpu_from(backend), .x = gate, .y = up, .number = alpha, .cap = limit};
    share_slices(backend, swiglu_item, &run);
}

static void scale_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    struct slice slice = slice_of(run, item);
    run->cpu->kernels->scale(run->number, run->cap, run->y->data + slice.offset,
                             slice.features * SL_LANES);
}

void cpu_scale(struct backend *backend, float scale, float cap, struct act *y) {
    struct ops_run run = {.cpu = cpu_from(backend), .y = y, .number = scale, .cap = cap};
    share_slices(backend, scale_item, &run);
}

static void rms_norm_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    size_t offset = item * run->group * SL_LANES; /* tiles hold whole groups */
    run->cpu->kernels->rms_norm(run->x->data + offset, run->vector, run->group, run->number,
                                run->y->data + offset);
}

void cpu_rms_norm(struct backend *backend, const struct act *x, const float *weight, size_t group,
                  float eps, struct act *y) {
    must(x->features == y->features && x->tokens == y->tokens);
    must(group > 0 && x->features % group == 0);
    struct ops_run run = {
        .cpu = cpu_from(backend), .x = x, .y = y, .vector = weight, .group = group, .number = eps};
    size_t tiles = act_tiles(x->tokens);
    cpu_share_out(backend, rms_norm_item, &run, tiles * (x->features / group),
                  tiles * x->features * SL_LANES);
}

static void centre_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    run->cpu->kernels->centre(act_tile(run->y, item), run->y->features);
}

void cpu_centre(struct backend *backend, struct act *y) {
    struct ops_run run = {.cpu = cpu_from(backend), .y = y};
    size_t tiles = act_tiles(y->tokens);
    cpu_share_out(backend, centre_item, &run, tiles, tiles * y->features * SL_LANES);
}

static void rope_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    size_t tile = item / run->parts;
    struct cpu_rope rope = {
        .cosines = act_tile(&run->table->cosines, tile),
        .sines = act_tile(&run->table->sines, tile),
        .half = run->table->cosines.features,
        .is_interleaved = run->table->is_interleaved,
    };
    run->cpu->kernels->rope(&rope, run->y->data + item * run->group * SL_LANES);
}

void cpu_rope(struct backend *backend, const struct rope_table *table, size_t heads,
              size_t head_dim, struct act *x) {
    must(x->features == heads * head_dim);
    must(table->cosines.features * 2 <= head_dim);
    must(table->sines.features == table->cosines.features);
    must(table->cosines.tokens == x->tokens && table->sines.tokens == x->tokens);
    struct ops_run run = {
        .cpu = cpu_from(backend), .y = x, .parts = heads, .group = head_dim, .table = table};
    size_t tiles = act_tiles(x->tokens);
    cpu_share_out(backend, rope_item, &run, tiles * heads, tiles * x->features * SL_LANES);
}

/* One tile, up to 256 columns: decodes a piece of each token's row and lays it into its lane. */
static void embed_item(void *ctx, size_t item, size_t worker) {
    const struct ops_run *run = ctx;
    struct slice slice = slice_of(run, item);
    float *values = cpu_scratch(run->cpu, worker), *tile = run->y->data + slice.offset;
    for (size_t lane = 0; lane < SL_LANES; lane++) {
        size_t token = slice.tile * SL_LANES + lane;
        if (token >= run->y->tokens)
            break;
        view_decode(run->rows, token, run->first + slice.feature, slice.features, values);
        for (size_t f = 0; f < slice.features; f++)
            tile[f * SL_LANES + lane] = values[f] * run->number;
    }
}

void cpu_embed(struct backend *backend, const struct view *rows, size_t first, float scale,
               struct act *y) {
    size_t block = dtype_get(rows->dtype)->block_values;
    must(rows->rows == y->tokens);
    must(first <= rows->columns && y->features <= rows->columns - first);
    must(first % block == 0 && rows->columns % block == 0 && y->features % block == 0);
    struct ops_run run = {
        .cpu = cpu_from(backend), .rows = rows, .first = first, .y = y, .number = scale};
    share_slices(backend, embed_item, &run);
}

/* Writes value number index of what begins at `at`. */
static void kv_put(enum kv_dtype dtype, uint8_t *at, size_t index, float value) {
    if (dtype == KV_F32) {
        memcpy(at + 4 * index, &value, sizeof value);
        return;
    }
    uint16_t bits = num_to_bf16(value);
    memcpy(at + 2 * index, &bits, sizeof bits);
}

/* One token, all heads. Neighbouring tokens of a row share cache lines of keys but no bytes. */
static void kv_write_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    const struct kv_layer *kv = run->kv;
    const struct kv_token *token = &run->tokens[item];
    size_t slot = token->position % SL_PAGE_TOKENS;
    uint8_t *keys =
        kv->base + kv_pages(kv, token)[token->position / SL_PAGE_TOKENS] * kv->page_bytes;
    size_t key_features = (size_t)kv->kv_heads * kv->head_dim, value_dim = kv->value_dim;
    uint8_t *values = keys + key_features * SL_PAGE_TOKENS * kv_value_bytes(kv->dtype);
    const float *from = act_at(run->k, 0, item);
    for (size_t f = 0; f < key_features; f++)
        kv_put(kv->dtype, keys, f * SL_PAGE_TOKENS + slot, from[f * SL_LANES]);
    if (kv->shares_values)
        return;
    from = act_at(run->v, 0, item);
    for (size_t head = 0; head < kv->kv_heads; head++)
        for (size_t d = 0; d < value_dim; d++)
            kv_put(kv->dtype, values, (head * SL_PAGE_TOKENS + slot) * value_dim + d,
                   from[(head * value_dim + d) * SL_LANES]);
}

void cpu_kv_write(struct backend *backend, const struct kv_layer *kv, const struct kv_token *tokens,
                  const struct act *k, const struct act *v) {
    must(k->features == (size_t)kv->kv_heads * kv->head_dim);
    if (kv->shares_values)
        v = k;
    must(kv->shares_values || v->features == (size_t)kv->kv_heads * kv->value_dim);
    must(k->tokens == v->tokens);
    struct ops_run run = {.cpu = cpu_from(backend), .kv = kv, .tokens = tokens, .k = k, .v = v};
    cpu_share_out(backend, kv_write_item, &run, k->tokens, k->tokens * (k->features + v->features));
}

/* One tile of y, so that its lanes are written by one thread. */
static void select_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    size_t first = item * SL_LANES, rest = run->y->tokens - first;
    for (size_t lane = 0; lane < (rest < SL_LANES ? rest : SL_LANES); lane++) {
        const float *from = act_at(run->x, 0, run->columns[first + lane]);
        float *to = act_at(run->y, 0, first + lane);
        for (size_t f = 0; f < run->y->features; f++)
            to[f * SL_LANES] = from[f * SL_LANES];
    }
}

void cpu_select(struct backend *backend, const struct act *x, const uint32_t *columns, size_t count,
                struct act *y) {
    must(x->features == y->features && y->tokens == count);
    for (size_t i = 0; i < count; i++)
        must(columns[i] < x->tokens);
    struct ops_run run = {.cpu = cpu_from(backend), .x = x, .y = y, .columns = columns};
    cpu_share_out(backend, select_item, &run, act_tiles(count), count * x->features);
}

static void argmax_item(void *ctx, size_t item, size_t worker) {
    (void)worker;
    const struct ops_run *run = ctx;
    uint32_t best[SL_LANES];
    run->cpu->kernels->argmax(act_tile(run->x, item), run->x->features, best);
    size_t first = item * SL_LANES, rest = run->x->tokens - first;
    memcpy(run->out + first, best, (rest < SL_LANES ? rest : SL_LANES) * sizeof *best);
}

void cpu_argmax(struct backend *backend, const struct act *x, uint32_t *out) {
    must(x->features <= UINT32_MAX);
    struct ops_run run = {.cpu = cpu_from(backend), .x = x, .out = out};
    size_t tiles = act_tiles(x->tokens);
    cpu_share_out(backend, argmax_item, &run, tiles, tiles * x->features * SL_LANES);
}
