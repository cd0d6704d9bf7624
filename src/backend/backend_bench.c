/* Rates of products by format and number of tokens, of attention, and of reading memory.
 *
 * Use: backend_bench [threads] [rounds] [formats, comma separated] [isa]. Weights cycle through 96
 * MB of copies, as in a pass over a model that no cache holds. Each figure is the best of `rounds`.
 * 2 x outputs x inputs x tokens operations a product. Judge against peer/peak.c in the same
 * minute. Built by hand beside the archives of its layer; docs/measurements/kernels.md has the
 * command. */
#include "backend/backend.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/num.h"
#include "io/slab.h"

#include <stdio.h>
#include <stdlib.h>

static const size_t token_counts[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
static const struct { size_t rows, columns; } shapes[] = {{1536, 576}, {8192, 3072}};
enum { TOKENS_MAX = 256, POOL_BYTES = 96 << 20 };

struct bench {
    struct backend *backend;
    uint8_t *pool;
    struct act x, y;
    size_t rounds;
    const char *formats;
};

/* Seconds of one product, copies of the weights in turn. */
static double time_product(struct bench *bench, struct view *w, size_t *copy, size_t copies,
                           size_t times) {
    size_t bytes = w->rows * w->row_bytes;
    double start = clock_seconds();
    for (size_t i = 0; i < times; i++) {
        w->data = bench->pool + *copy * bytes;
        *copy = (*copy + 1) % copies;
        bench->backend->ops->product(bench->backend, w, &bench->x, &bench->y, 0);
    }
    return (clock_seconds() - start) / (double)times;
}

/* The sum of 1 MB goes where nobody looks, so that it has to be computed. */
static void read_piece(void *ctx, size_t item, size_t worker) {
    const struct bench *bench = ctx;
    const uint64_t *words = (const uint64_t *)(const void *)(bench->pool + (item << 20));
    uint64_t sums[16] = {0};
    for (size_t i = 0; i < (1 << 20) / sizeof *words; i += 16)
        for (size_t lane = 0; lane < 16; lane++)
            sums[lane] += words[i + lane];
    for (size_t lane = 1; lane < 16; lane++)
        sums[0] += sums[lane];
    bench->y.data[worker * SL_LANES] = (float)sums[0];
}

/* What products for one token are judged against. A third of the pool at a time, so that a short
 * time without other work on the machine is enough. */
static void measure_reading(struct bench *bench) {
    double best = 1e9;
    size_t bytes = POOL_BYTES / 3;
    uint8_t *pool = bench->pool;
    for (size_t round = 0; round < 12 * bench->rounds; round++) {
        bench->pool = pool + round % 3 * bytes;
        double start = clock_seconds();
        team_run(bench->backend->team, read_piece, bench, bytes >> 20);
        double seconds = clock_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    bench->pool = pool;
    printf("reading memory: %.1f GB/s\n", (double)bytes / best * 1e-9);
}

static void measure_product(struct bench *bench, enum dtype dtype, size_t rows, size_t columns) {
    const struct dtype_info *format = dtype_get(dtype);
    if (columns % format->block_values != 0 || (!format->decode && !format->decode_row))
        return;
    size_t row_bytes = columns / format->block_values * format->block_bytes;
    struct view w = {.dtype = dtype, .rows = rows, .columns = columns, .row_bytes = row_bytes};
    if (format->decode_row) /* one row of scales for all: they are few beside the numbers */
        w.scales = (struct view_scales){
            .dtype = dtype == DTYPE_MXFP4_SPLIT ? DTYPE_F8_E8M0 : DTYPE_F16,
            .group_rows = rows,
            .group_columns = dtype == DTYPE_F8_E4M3       ? 128
                             : dtype == DTYPE_MXFP4_SPLIT ? 32
                                                          : 64,
            .data = bench->pool,
            .biases = bench->pool,
        };
    size_t copies = POOL_BYTES / (rows * row_bytes), copy = 0;
    copies += copies == 0;
    printf("| %s | %zu x %zu |", format->name, rows, columns);
    for (size_t n = 0; n < sizeof token_counts / sizeof *token_counts; n++) {
        size_t tokens = token_counts[n];
        double work = 2.0 * (double)rows * (double)columns * (double)tokens, best = 1e9;
        size_t times = (size_t)(0.15e9 / work) + 1;
        times = times * rows * row_bytes > POOL_BYTES ? POOL_BYTES / (rows * row_bytes) : times;
        act_shape(&bench->x, columns, tokens);
        act_shape(&bench->y, rows, tokens);
        for (size_t round = 0; round < bench->rounds; round++) {
            double seconds = time_product(bench, &w, &copy, copies, times + (times == 0));
            best = seconds < best ? seconds : best;
        }
        printf(" %.0f |", work / best * 1e-9);
        fflush(stdout);
    }
    printf("\n");
}

static bool is_wanted(const struct bench *bench, const char *name) {
    size_t len = strlen(name);
    for (const char *at = bench->formats; at; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == 0))
            return true;
    return bench->formats[0] == 0;
}

static void measure_products(struct bench *bench) {
    printf("products, GFLOP/s by tokens\n| format | shape |");
    for (size_t n = 0; n < sizeof token_counts / sizeof *token_counts; n++)
        printf(" %zu |", token_counts[n]);
    printf("\n");
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (is_wanted(bench, dtype_get(dtype)->name))
                measure_product(bench, dtype, shapes[s].rows, shapes[s].columns);
}

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

/* Small numbers: no infinity or subnormal slows a round down. Halves of 2^-7 are scales in every
 * quantised format, and bytes of them ordinary weights in the plain ones. */
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
    struct bench bench = {.rounds = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 5,
                          .formats = argc > 3 ? argv[3] : ""};
    struct team *team = NULL;
    struct error err;
    struct backend_options options = {.kernels = "portable", .isa = argc > 4 ? argv[4] : NULL};
    struct slab slab;
    if (slab_init(&slab, POOL_BYTES, &err) != SL_OK || team_new(threads, &team, &err) != SL_OK)
        return 3;
    bench.pool = slab.data;
    options.team = team;
    if (backend_cpu_new(&options, &bench.backend, &err) != SL_OK ||
        act_init(&bench.x, 8192, TOKENS_MAX, &err) != SL_OK ||
        act_init(&bench.y, 8192, TOKENS_MAX, &err) != SL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 3;
    }
    fill(&bench);
    printf("%s, %zu threads, best of %zu\n", bench.backend->isa, threads, bench.rounds);
    measure_reading(&bench);
    measure_products(&bench);
    measure_reading(&bench);
    printf("attention, 64 rows, bf16\n");
    measure_attention(&bench, 9, 3, 64, 127);
    measure_attention(&bench, 9, 3, 64, 511);
    measure_attention(&bench, 32, 8, 128, 511);
    measure_attention(&bench, 16, 16, 64, 255);
    measure_small(&bench);
    backend_free(bench.backend);
    team_free(team);
    act_release(&bench.x);
    act_release(&bench.y);
    slab_release(&slab);
    return 0;
}
