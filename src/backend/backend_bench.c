/* Rates of attention, and times of the small operations of a pass; products are measured by `sluice
 * bench kernels`.
 *
 * Use: backend_bench [threads] [rounds] [isa]. Each figure is the best of `rounds`. Pages of keys
 * and values lie scattered in 96 MB, as in a pass over many rows. */
#include "backend/backend.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/num.h"
#include "io/slab.h"

#include <stdio.h>
#include <stdlib.h>

enum { POOL_BYTES = 96 << 20, FEATURES_MAX = 8192, TOKENS = 64 };

struct bench {
    struct backend *backend;
    uint8_t *pool;
    struct act x, y;
    size_t rounds;
};

/* 64 tokens of 64 rows, each at `position`: a decode pass; 4 operations a position, head and
 * dimension. */
static void measure_attention(struct bench *bench, uint32_t heads, uint32_t kv_heads,
                              uint32_t head_dim, uint32_t position) {
    enum { ROWS = 64 };
    size_t pages = position / SL_PAGE_TOKENS + 1, row_bytes;
    struct kv_layer kv = {.base = bench->pool,
                          .page_bytes = kv_layer_bytes(KV_BF16, kv_heads, head_dim, head_dim),
                          .dtype = KV_BF16,
                          .kv_heads = kv_heads,
                          .head_dim = head_dim,
                          .value_dim = head_dim};
    struct kv_token tokens[ROWS];
    uint32_t *numbers = calloc(ROWS * pages, sizeof *numbers);
    row_bytes = pages * kv.page_bytes;
    for (size_t i = 0; numbers && i < ROWS * pages; i++)
        numbers[i] = (uint32_t)(i % (POOL_BYTES / kv.page_bytes));
    for (size_t t = 0; t < ROWS; t++)
        tokens[t] = (struct kv_token){.position = position, .pages = numbers + t * pages};
    struct attention_args args = {.kv = &kv, .tokens = tokens, .heads = heads, .scale = 0.1f};
    act_shape(&bench->x, (size_t)heads * head_dim, ROWS);
    act_shape(&bench->y, (size_t)heads * head_dim, ROWS);
    double best = 1e9;
    for (size_t round = 0; numbers && round < bench->rounds; round++) {
        double start = clock_seconds();
        bench->backend->ops->attention(bench->backend, &args, &bench->x, &bench->y);
        double seconds = (clock_seconds() - start);
        best = seconds < best ? seconds : best;
    }
    printf("| %u/%u heads of %u | %u | %.0f us | %.0f GFLOP/s | %.1f GB/s |\n", heads, kv_heads,
           head_dim, position + 1, best * 1e6,
           4.0 * ROWS * heads * head_dim * (position + 1) / best * 1e-9,
           (double)row_bytes * ROWS / best * 1e-9);
    free(numbers);
}

static void measure_small(struct bench *bench) {
    static float weight[4096];
    struct rope_table table = {.cosines = bench->x, .sines = bench->x};
    uint32_t best_of[64];
    double best[5] = {1e9, 1e9, 1e9, 1e9, 1e9};
    for (size_t round = 0; round < bench->rounds * 4; round++) {
        double at[6];
        const struct backend_ops *ops = bench->backend->ops;
        act_shape(&bench->x, 1536, 64);
        act_shape(&bench->y, 1536, 64);
        table.cosines = table.sines = bench->x;
        table.cosines.features = table.sines.features = 32;
        at[0] = clock_seconds();
        ops->rms_norm(bench->backend, &bench->x, weight, 1536, 1e-5f, &bench->y);
        at[1] = clock_seconds();
        ops->add(bench->backend, &bench->x, &bench->y);
        at[2] = clock_seconds();
        ops->silu_mul(bench->backend, &bench->x, &bench->y);
        at[3] = clock_seconds();
        ops->rope(bench->backend, &table, 24, 64, &bench->y);
        at[4] = clock_seconds();
        act_shape(&bench->y, 8192, 64);
        ops->argmax(bench->backend, &bench->y, best_of);
        at[5] = clock_seconds();
        for (size_t i = 0; i < 5; i++) {
            double seconds = at[i + 1] - at[i];
            best[i] = seconds < best[i] ? seconds : best[i];
        }
    }
    printf("64 tokens, 1536 features (argmax: 8192), us: rms_norm %.0f, add %.0f, silu_mul %.0f, "
           "rope %.0f, argmax %.0f\n",
           best[0] * 1e6, best[1] * 1e6, best[2] * 1e6, best[3] * 1e6, best[4] * 1e6);
}

static void fill_act(struct act *act) {
    for (size_t i = 0; i < act->cap; i++)
        act->data[i] = (float)(i % 37) * 0.0625f - 1.0f;
}

/* A layer's products of Qwen3-Next: seconds for the tokens that x has room for. */
static double measure_projections(struct bench *bench, struct act *in, struct act *out,
                                  size_t tokens) {
    enum { HIDDEN = 2048, INPUTS = 12352, VALUES = 4096 };
    struct view projections = {.dtype = DTYPE_BF16,
                               .rows = INPUTS,
                               .columns = HIDDEN,
                               .row_bytes = 2 * HIDDEN,
                               .data = bench->pool};
    struct view back = {.dtype = DTYPE_BF16,
                        .rows = HIDDEN,
                        .columns = VALUES,
                        .row_bytes = 2 * VALUES,
                        .data = bench->pool};
    double best = 1e9;
    for (size_t round = 0; round < bench->rounds; round++) {
        fill_act(in);
        fill_act(out);
        act_shape(out, HIDDEN, tokens);
        act_shape(in, INPUTS, tokens);
        double start = clock_seconds();
        bench->backend->ops->product(bench->backend, &projections, out, in, 0);
        act_shape(in, VALUES, tokens);
        bench->backend->ops->product(bench->backend, &back, in, out, 0);
        double seconds = clock_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* Qwen3-Next's gated delta networks, 32 value heads of 128: `rows` rows with `count` tokens each,
 * all behind others; beside them the products of such a layer. */
static void measure_delta(struct bench *bench, size_t rows, size_t count) {
    enum { HEADS = 32, KEY_HEADS = 16, DIM = 128, ALL = 12352, MOST = 512 };
    static struct kv_token tokens[MOST];
    static struct kv_run runs[MOST];
    static float ones[4 * 8192];
    struct act in = {0}, out = {0};
    struct slab states = {0};
    struct error err;
    size_t group = 2 * DIM + 4 * DIM, all = rows * count;
    struct delta_args args = {.shape = {KEY_HEADS, HEADS, DIM, DIM, 4, false},
                              .tokens = tokens,
                              .runs = runs,
                              .run_count = rows,
                              .q = {&in, 0, group},
                              .k = {&in, DIM, group},
                              .v = {&in, 2 * DIM, group},
                              .z = {&in, 4 * DIM, group},
                              .b = {&in, KEY_HEADS * group, 4},
                              .a = {&in, KEY_HEADS * group + 2, 4},
                              .taps = ones,
                              .rate = ones + HEADS,
                              .bias = ones,
                              .norm = ones,
                              .eps = 1e-6f};
    args.state_bytes = delta_state_floats(&args.shape) * sizeof(float);
    for (size_t i = 0; i < 4 * 8192; i++)
        ones[i] = i / HEADS == 1 ? -0.5f : 0.5f;
    for (size_t i = 0; i < all; i++) {
        tokens[i] = (struct kv_token){.position = (uint32_t)(8 + i % count),
                                      .state = (uint32_t)(i / count)};
        runs[i / count] = (struct kv_run){i / count * count, count};
    }
    if (slab_init(&states, rows * args.state_bytes, &err) != SL_OK ||
        act_init(&in, ALL, all, &err) != SL_OK || act_init(&out, HEADS * DIM, all, &err) != SL_OK)
        exit(3);
    args.states = states.data;
    double best = 1e9;
    for (size_t round = 0; round < bench->rounds; round++) {
        act_shape(&in, ALL, all);
        act_shape(&out, HEADS * DIM, all);
        fill_act(&in);
        double start = clock_seconds();
        bench->backend->ops->delta(bench->backend, &args, &out);
        double seconds = clock_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    size_t part = all < TOKENS ? all : TOKENS;
    double products = measure_projections(bench, &in, &out, part);
    printf("| delta, 32/16 heads of 128 | %zu x %zu | %.0f us a token | products %.0f us |\n", rows,
           count, best / (double)all * 1e6, products / (double)part * 1e6);
    act_release(&in);
    act_release(&out);
    slab_release(&states);
}

/* Small numbers: no infinity or subnormal slows a round down. */
static void fill(struct bench *bench) {
    uint64_t state = 1;
    for (size_t i = 0; i + 2 <= POOL_BYTES; i += 2) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        uint16_t half = (uint16_t)((state >> 40 & 0x83FFu) | 0x2000u);
        memcpy(bench->pool + i, &half, sizeof half);
    }
    for (size_t i = 0; i < bench->x.cap; i++)
        bench->x.data[i] = (float)(i % 17) * 0.125f - 1.0f;
}

int main(int argc, char **argv) {
    size_t threads = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : cpu_get()->threads_max;
    struct bench bench = {.rounds = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 5};
    struct team *team = NULL;
    struct error err;
    struct backend_options options = {.kernels = "portable", .isa = argc > 3 ? argv[3] : NULL};
    struct slab slab;
    if (slab_init(&slab, POOL_BYTES, &err) != SL_OK || team_new(threads, &team, &err) != SL_OK)
        return 3;
    bench.pool = slab.data;
    options.team = team;
    if (backend_cpu_new(&options, &bench.backend, &err) != SL_OK ||
        act_init(&bench.x, FEATURES_MAX, TOKENS, &err) != SL_OK ||
        act_init(&bench.y, FEATURES_MAX, TOKENS, &err) != SL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 3;
    }
    fill(&bench);
    printf("%s, %zu threads, best of %zu\n", bench.backend->isa, threads, bench.rounds);
    printf("attention, 64 rows, bf16\n");
    measure_attention(&bench, 9, 3, 64, 127);
    measure_attention(&bench, 9, 3, 64, 511);
    measure_attention(&bench, 32, 8, 128, 511);
    measure_attention(&bench, 16, 16, 64, 255);
    measure_delta(&bench, 1, 512);
    measure_delta(&bench, 8, 32);
    measure_delta(&bench, 64, 1);
    measure_small(&bench);
    backend_free(bench.backend);
    team_free(team);
    act_release(&bench.x);
    act_release(&bench.y);
    slab_release(&slab);
    return 0;
}
