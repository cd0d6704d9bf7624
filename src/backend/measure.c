/* Owns the measuring of kernels: the weights that are cycled through, the rounds, and which figure
 * is taken when. Decides nothing from what it finds, and prints nothing. Numbers in the weights are
 * ordinary ones in every format, for subnormals and infinities slow some processors down. */
#include "backend/measure.h"

#include "backend/backend.h"
#include "backend/cpu/peak.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "io/slab.h"

#include <string.h>

#define POOL_BYTES_LEAST ((size_t)128 << 20)
#define POOL_BYTES_MOST ((size_t)1 << 30)
#define MATRIX_BYTES_MAX ((size_t)1 << 30)
#define ACT_FLOATS_MAX ((size_t)1 << 26)
#define READ_ITEM ((size_t)1 << 20)

enum { ROUNDS_LEAST = 3, PEAK_ITEMS_A_THREAD = 16, PEAK_BURSTS = 3 };
/* A round, unless one product takes longer, and a burst of the peak loop: long beside the waking of
 * threads, short beside the time for which other work takes a processor. */
#define ROUND_SECONDS 3e-3
/* What decoding is measured with: the outputs of four items of one thread, one chain of inputs, and
 * the two token counts. */
enum { BLOCK_OUTPUTS = 192, BLOCK_INPUTS = 256, BLOCK_TOKENS = 32, MORE_TOKENS = 9 * BLOCK_TOKENS };

struct bench {
    const struct measure_options *options;
    struct measure *out;
    struct team *team, *alone;
    struct backend *backend, *single; /* on the team; on the caller's thread alone */
    const struct peak *peak;
    size_t peak_steps; /* of an item */
    struct slab pool;
    size_t at; /* of the copy that comes next in the pool */
    struct act x, y;
};

/* ---- matrices */

bool measure_has_products(enum dtype dtype) {
    const struct dtype_info *info = dtype_get(dtype);
    return info->decode != NULL || info->decode_row != NULL;
}

bool measure_fits(enum dtype dtype, size_t inputs) {
    return inputs % dtype_get(dtype)->block_values == 0;
}

const char *measure_name(enum dtype dtype) {
    return dtype == DTYPE_MXFP4_SPLIT ? "mxfp4_split" : dtype_get(dtype)->name;
}

/* A matrix and its scales behind it, as models are published: FP8 in blocks of 128 x 128, MLX in
 * groups of 64, MXFP4 of 32. data and scales are places from 0 on, see place_matrix. */
struct matrix {
    struct view view;
    size_t scales_at, biases_at, bytes;
};

static struct matrix make_matrix(enum dtype dtype, size_t outputs, size_t inputs) {
    const struct dtype_info *info = dtype_get(dtype);
    struct matrix matrix = {.view = {.dtype = dtype, .rows = outputs, .columns = inputs}};
    struct view *view = &matrix.view;
    view->row_bytes = inputs / info->block_values * info->block_bytes;
    matrix.scales_at = matrix.biases_at = matrix.bytes = outputs * view->row_bytes;
    if (!info->decode_row)
        return matrix;
    bool is_fp8 = dtype == DTYPE_F8_E4M3, is_mxfp4 = dtype == DTYPE_MXFP4_SPLIT;
    struct view_scales *scales = &view->scales;
    scales->dtype = is_fp8 ? DTYPE_BF16 : is_mxfp4 ? DTYPE_F8_E8M0 : DTYPE_F16;
    scales->group_rows = is_fp8 ? 128 : 1;
    scales->group_columns = is_fp8 ? 128 : is_mxfp4 ? 32 : 64;
    size_t groups = size_divide_up(inputs, scales->group_columns);
    scales->row_bytes = groups * dtype_get(scales->dtype)->block_bytes;
    size_t bytes = size_divide_up(outputs, scales->group_rows) * scales->row_bytes;
    matrix.biases_at = matrix.scales_at + bytes;
    matrix.bytes = matrix.biases_at + (is_fp8 || is_mxfp4 ? 0 : bytes);
    return matrix;
}

static void place_matrix(struct matrix *matrix, const uint8_t *at) {
    matrix->view.data = at;
    matrix->view.scales.data = at + matrix->scales_at;
    matrix->view.scales.biases = at + matrix->biases_at;
}

/* The copy of the weights that was used longest ago. */
static void next_copy(struct bench *bench, struct matrix *matrix) {
    if (bench->pool.bytes - bench->at < matrix->bytes)
        bench->at = 0;
    place_matrix(matrix, bench->pool.data + bench->at);
    bench->at = size_min(bench->at + size_round_up(matrix->bytes, 64), bench->pool.bytes);
}

/* Every byte is 0x28 to 0x37 with any sign: an ordinary number as either half of a bf16, f16 or
 * f32, as FP8, and as exponent of a scale. */
static void fill_item(void *ctx, size_t item, size_t worker) {
    struct bench *bench = ctx;
    uint64_t state = item + 1;
    (void)worker;
    for (size_t at = item * READ_ITEM; at < (item + 1) * READ_ITEM; at += sizeof state) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t bytes = (state >> 8 & 0x8F8F8F8F8F8F8F8Fu) + 0x2828282828282828u;
        memcpy(bench->pool.data + at, &bytes, sizeof bytes);
    }
}

/* ---- peaks */

static double round_seconds(const struct bench *bench) {
    double tenth = bench->options->seconds / 10;
    return tenth < ROUND_SECONDS ? tenth : ROUND_SECONDS;
}

static void peak_item(void *ctx, size_t item, size_t worker) {
    const struct bench *bench = ctx;
    (void)item;
    (void)worker;
    bench->peak->run(bench->peak_steps);
}

static void read_item(void *ctx, size_t item, size_t worker) {
    const struct bench *bench = ctx;
    (void)worker;
    peak_read(bench->pool.data + item * READ_ITEM, READ_ITEM);
}

static void measure_peak(struct bench *bench) {
    size_t items = bench->options->threads * PEAK_ITEMS_A_THREAD;
    double start = clock_seconds();
    team_run(bench->team, peak_item, bench, items);
    double seconds = clock_seconds() - start;
    double rate = (double)items * (double)bench->peak_steps * bench->peak->step_flops / seconds;
    if (rate > bench->out->peak_flops_per_second)
        bench->out->peak_flops_per_second = rate;
}

static void measure_memory(struct bench *bench) {
    size_t items = bench->pool.bytes / READ_ITEM;
    double start = clock_seconds();
    team_run(bench->team, read_item, bench, items);
    double rate = (double)(items * READ_ITEM) / (clock_seconds() - start);
    if (rate > bench->out->memory_bytes_per_second)
        bench->out->memory_bytes_per_second = rate;
}

/* So many steps that a burst takes its time. */
static void calibrate_peak(struct bench *bench) {
    double seconds = 0;
    bench->peak_steps = 64;
    while (seconds < round_seconds(bench) / PEAK_ITEMS_A_THREAD) {
        bench->peak_steps *= 2;
        double start = clock_seconds();
        bench->peak->run(bench->peak_steps);
        seconds = clock_seconds() - start;
    }
}

/* ---- figures */

static enum status check_stop(const struct bench *bench, struct error *err) {
    if (bench->options->should_stop && bench->options->should_stop())
        return error_set(err, SL_ERR_STOPPED, "stopped");
    return SL_OK;
}

static double time_products(struct bench *bench, struct matrix *matrix, size_t times) {
    double start = clock_seconds();
    for (size_t i = 0; i < times; i++) {
        next_copy(bench, matrix);
        bench->backend->ops->product(bench->backend, &matrix->view, &bench->x, &bench->y, 0);
    }
    return clock_seconds() - start;
}

/* How often something that takes `each` is done in so many seconds. */
static size_t times_of(double seconds, double each) {
    double times = seconds / each;
    return times < 1 ? 1 : times > 1e6 ? (size_t)1e6 : (size_t)times;
}

static enum status measure_product(struct bench *bench, struct matrix *matrix, size_t tokens,
                                   struct measure_product *out, struct error *err) {
    const struct measure_options *options = bench->options;
    double best = 0, spent = 0;
    size_t times = 1;
    act_shape(&bench->x, options->inputs, tokens);
    act_shape(&bench->y, options->outputs, tokens);
    for (int burst = 0; burst < (options->is_brief ? 1 : PEAK_BURSTS); burst++)
        measure_peak(bench);
    for (int round = 0; spent < options->seconds ||
                        (round < ROUNDS_LEAST && spent < ROUNDS_LEAST * options->seconds);
         round++) {
        TRY(check_stop(bench, err));
        double seconds = time_products(bench, matrix, times);
        double each = seconds / (double)times;
        best = round == 0 || each < best ? each : best;
        times = times_of(round_seconds(bench), best);
        spent += seconds;
    }
    double work = 2.0 * (double)options->outputs * (double)options->inputs * (double)tokens;
    *out = (struct measure_product){
        .dtype = matrix->view.dtype,
        .tokens = tokens,
        .flops_per_second = work / best,
        .weights_bytes_per_second = (double)matrix->bytes / best,
    };
    return SL_OK;
}

/* Products of few and of more tokens in turn, on one thread; best seconds of one. */
static enum status time_blocks(struct bench *bench, const struct view *w, double best[2],
                               struct error *err) {
    static const size_t tokens[2] = {BLOCK_TOKENS, MORE_TOKENS};
    size_t times[2] = {1, 1};
    double spent = 0;
    for (int round = 0; spent < bench->options->seconds; round++) {
        TRY(check_stop(bench, err));
        for (int part = 0; part < 2; part++) {
            act_shape(&bench->x, BLOCK_INPUTS, tokens[part]);
            act_shape(&bench->y, BLOCK_OUTPUTS, tokens[part]);
            double start = clock_seconds();
            for (size_t i = 0; i < times[part]; i++)
                bench->single->ops->product(bench->single, w, &bench->x, &bench->y, 0);
            double seconds = clock_seconds() - start, each = seconds / (double)times[part];
            best[part] = round == 0 || each < best[part] ? each : best[part];
            times[part] = times_of(round_seconds(bench) / 8, best[part]);
            spent += seconds;
        }
    }
    return SL_OK;
}

static enum status measure_decode(struct bench *bench, enum dtype dtype, struct measure_decode *out,
                                  struct error *err) {
    struct matrix block = make_matrix(dtype, BLOCK_OUTPUTS, BLOCK_INPUTS);
    double best[2];
    place_matrix(&block, bench->pool.data);
    TRY(time_blocks(bench, &block.view, best, err));
    double products = (best[1] - best[0]) * BLOCK_TOKENS / (MORE_TOKENS - BLOCK_TOKENS);
    double decoding = best[0] - products;
    *out = (struct measure_decode){.dtype = dtype};
    if (decoding > 0 && products > 0) {
        out->values_per_second = (double)BLOCK_OUTPUTS * BLOCK_INPUTS / decoding;
        out->share_of_products_32 = decoding / products;
    }
    return SL_OK;
}

static enum status measure_all(struct bench *bench, struct error *err) {
    const struct measure_options *options = bench->options;
    struct measure *out = bench->out;
    for (size_t d = 0; d < options->dtype_count; d++) {
        enum dtype dtype = options->dtypes[d];
        struct matrix matrix = make_matrix(dtype, options->outputs, options->inputs);
        if (options->progress)
            options->progress(out->kernels, measure_name(dtype), d, options->dtype_count);
        if (!options->is_brief)
            measure_memory(bench);
        bench->at = 0;
        for (size_t t = 0; t < options->token_count; t++) {
            TRY(measure_product(bench, &matrix, options->tokens[t],
                                &out->products[out->product_count], err));
            out->product_count++;
        }
        if (options->is_brief)
            continue;
        TRY(measure_decode(bench, dtype, &out->decodes[d], err));
        out->decode_count++;
    }
    return SL_OK;
}

/* ---- what it needs */

/* Features and tokens of the activations, and bytes of the pool, for all that will be measured. */
struct sizes {
    size_t features, tokens, pool_bytes;
};

static enum status find_sizes(const struct measure_options *options, struct sizes *out,
                              struct error *err) {
    struct sizes sizes = {BLOCK_INPUTS, MORE_TOKENS, 4 * cpu_get()->l3_bytes};
    size_t side = size_max(options->outputs, options->inputs);
    must(options->outputs >= 1 && options->inputs >= 1 && side <= MEASURE_SIDE_MAX);
    sizes.features = size_max(sizes.features, side);
    for (size_t i = 0; i < options->token_count; i++) {
        must(options->tokens[i] >= 1 && options->tokens[i] <= MEASURE_TOKENS_MAX);
        sizes.tokens = options->tokens[i] > sizes.tokens ? options->tokens[i] : sizes.tokens;
    }
    if (act_floats(sizes.features, sizes.tokens) > ACT_FLOATS_MAX)
        return error_set(err, SL_ERR_USAGE,
                         "activations of %zu features for %zu tokens are too many to measure with",
                         sizes.features, sizes.tokens);
    if (sizes.pool_bytes < POOL_BYTES_LEAST)
        sizes.pool_bytes = POOL_BYTES_LEAST;
    if (sizes.pool_bytes > POOL_BYTES_MOST)
        sizes.pool_bytes = POOL_BYTES_MOST;
    if (options->pool_bytes > 0)
        sizes.pool_bytes = options->pool_bytes;
    for (size_t d = 0; d < options->dtype_count; d++) {
        enum dtype dtype = options->dtypes[d];
        must(measure_has_products(dtype) && measure_fits(dtype, options->inputs));
        size_t bytes = make_matrix(dtype, options->outputs, options->inputs).bytes;
        if (bytes > MATRIX_BYTES_MAX)
            return error_set(err, SL_ERR_USAGE,
                             "a matrix of %zu x %zu as %s is too large to measure with",
                             options->outputs, options->inputs, measure_name(dtype));
        sizes.pool_bytes = size_max(sizes.pool_bytes, bytes);
    }
    sizes.pool_bytes = size_round_up(sizes.pool_bytes, READ_ITEM);
    *out = sizes;
    return SL_OK;
}

static enum status prepare(struct bench *bench, struct error *err) {
    const struct measure_options *options = bench->options;
    struct measure *out = bench->out;
    struct backend_options how = {.kernels = options->kernels, .isa = options->isa};
    struct sizes sizes;
    TRY(find_sizes(options, &sizes, err));
    TRY(team_new(options->threads, &bench->team, err));
    TRY(team_new(1, &bench->alone, err));
    how.team = bench->team;
    how.features = sizes.features;
    how.tokens = sizes.tokens;
    TRY(backend_cpu_new(&how, &bench->backend, err));
    how.team = bench->alone;
    TRY(backend_cpu_new(&how, &bench->single, err));
    TRY(slab_init(&bench->pool, sizes.pool_bytes, err));
    TRY(act_init(&bench->x, sizes.features, sizes.tokens, err));
    TRY(act_init(&bench->y, sizes.features, sizes.tokens, err));
    out->products = mem_new(options->dtype_count * options->token_count, sizeof *out->products);
    out->decodes = mem_new(options->dtype_count, sizeof *out->decodes);
    if (!out->products || !out->decodes)
        return error_memory(err, options->dtype_count, "measured figures");
    team_run(bench->team, fill_item, bench, sizes.pool_bytes / READ_ITEM);
    for (size_t i = 0; i < bench->x.cap; i++)
        bench->x.data[i] = (float)(i % 17) * 0.125f - 1.0f;
    bench->peak = peak_of(bench->backend->kernels, bench->backend->isa);
    out->kernels = bench->backend->kernels;
    out->isa = bench->backend->isa;
    out->peak_name = bench->peak->name;
    out->threads = options->threads;
    out->outputs = options->outputs;
    out->inputs = options->inputs;
    calibrate_peak(bench);
    measure_memory(bench); /* the first time is that of huge pages and caches */
    return SL_OK;
}

enum status measure_init(struct measure *measure, const struct measure_options *options,
                         struct error *err) {
    struct measure made = {0};
    struct bench bench = {.options = options, .out = &made};
    enum status status = prepare(&bench, err);
    if (status == SL_OK)
        status = measure_all(&bench, err);
    act_release(&bench.y);
    act_release(&bench.x);
    slab_release(&bench.pool);
    backend_free(bench.single);
    backend_free(bench.backend);
    team_free(bench.alone);
    team_free(bench.team);
    if (status != SL_OK) {
        measure_release(&made);
        return status;
    }
    *measure = made;
    return SL_OK;
}

void measure_release(struct measure *measure) {
    mem_free(measure->decodes);
    mem_free(measure->products);
    *measure = (struct measure){0};
}
