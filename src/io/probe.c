/* Owns the grid of the probe, how long each cell is measured, and the choice of the best. Refuses
 * files that hold nothing. */
#include "io/probe.h"

#include "base/clock.h"
#include "base/mem.h"
#include "io/ring_method.h"

#include <fcntl.h>

#define MIB ((size_t)1 << 20)
#define BLOCK_BYTES_LEAST (8 * MIB)     /* of a submission; it holds a chunk at least */
#define IN_FLIGHT_BYTES_MAX (128 * MIB) /* chunk x depth of a cell */
#define SLABS_MORE 2u                   /* besides those whose chunks are in flight */
#define FINALISTS 4u
#define FINAL_ROUNDS 3u
#define SECONDS_USUAL 60.0
/* With less time than that only the middle of the grid is measured, and fewer of the best again. */
#define SECONDS_WHOLE_GRID 15.0
#define FINALISTS_QUICK 2u
/* Of the time: the grid, the rounds of the best few, the rest for the sustained rate. */
#define GRID_SHARE 0.45
#define FINAL_SHARE 0.25
#define BLOCKS_LEAST 4u /* of a cell, however short its time */

static const size_t grid_chunks[] = {1 * MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB};
static const size_t grid_depths[] = {1, 2, 4, 8, 16};
#define GRID_CHUNKS (sizeof grid_chunks / sizeof *grid_chunks)
#define GRID_DEPTHS (sizeof grid_depths / sizeof *grid_depths)

struct probe_run {
    const struct probe_options *options;
    struct probe *probe;
    size_t file; /* where the next block begins */
    uint64_t offset;
    double seconds; /* for all of it */
    bool is_quick;
    size_t done, total; /* cells, for progress */
};

/* The next block: up to so many bytes of one file, from a place that direct reads like. */
static struct ring_read next_block(struct probe_run *run, size_t block_bytes) {
    struct file *const *files = run->options->files;
    while (run->offset >= files[run->file]->bytes) {
        run->offset = 0;
        run->file = (run->file + 1) % run->options->file_count;
    }
    const struct file *file = files[run->file];
    uint64_t rest = file->bytes - run->offset;
    struct ring_read read = {.file = file, .offset = run->offset};
    read.bytes = rest < block_bytes ? (size_t)rest : block_bytes;
    run->offset += read.bytes;
    return read;
}

/* Blocks through a ring for some seconds: the rate from the block at which all slabs had been used
 * once. */
static enum status read_blocks(struct probe_run *run, struct ring *ring,
                               const struct ring_options *shape, double seconds, double *rate,
                               struct error *err) {
    size_t slabs = shape->slab_count;
    uint64_t submitted = 0, taken = 0, bytes = 0;
    size_t sizes[SL_RING_SLABS_MAX]; /* of the blocks under way, by ticket modulo slabs */
    double began = clock_seconds(), from = began, now = began;
    bool is_over = false;
    do {
        for (; !is_over && submitted - taken < slabs; submitted++) {
            struct ring_read read = next_block(run, shape->slab_bytes);
            sizes[submitted % slabs] = read.bytes;
            must(ring_submit(ring, submitted, &read, 1, NULL));
        }
        if (run->options->should_stop != NULL && run->options->should_stop())
            return error_set(err, SL_ERR_STOPPED, "stopped while probing");
        uint8_t *memory;
        TRY(ring_wait(ring, taken, run->options->should_stop, &memory, err));
        ring_release(ring, taken);
        now = clock_seconds();
        if (taken < slabs)
            from = now; /* not yet steady */
        else
            bytes += sizes[taken % slabs];
        taken++;
        is_over = taken >= slabs + BLOCKS_LEAST && now - began >= seconds;
    } while (taken < submitted);
    *rate = (double)bytes / (now > from ? now - from : 1e-9);
    return SL_OK;
}

static enum status measure(struct probe_run *run, const struct probe_cell *cell, double seconds,
                           double *rate, struct error *err) {
    size_t in_flight = cell->chunk_bytes * cell->depth;
    size_t block = cell->chunk_bytes > BLOCK_BYTES_LEAST ? cell->chunk_bytes : BLOCK_BYTES_LEAST;
    size_t slabs = size_divide_up(in_flight, block) + SLABS_MORE;
    struct ring_options options = {
        .method = cell->method,
        .slab_bytes = block,
        .slab_count = slabs,
        .chunk_bytes = cell->chunk_bytes,
        .depth = cell->depth,
    };
    struct ring *ring;
    TRY(ring_new(&options, &ring, err));
    enum status status = read_blocks(run, ring, &options, seconds, rate, err);
    ring_free(ring);
    return status;
}

/* Whether the grid has the cell: what the caller fixed is, one read at a time suits `sync` alone,
 * and no cell takes more memory than it may. */
static bool is_in_grid(const struct probe_run *run, const struct ring_method *method, size_t chunk,
                       size_t depth) {
    const struct probe_options *options = run->options;
    bool is_sync = method == &ring_method_sync;
    if (run->is_quick && options->chunk_bytes == 0 && (chunk < 4 * MIB || chunk > 8 * MIB))
        return false;
    if (run->is_quick && options->depth == 0 && options->method == NULL && depth < 4)
        return false;
    if (options->method != NULL && method != options->method)
        return false;
    if (options->chunk_bytes == 0 && is_sync && chunk < 8 * MIB)
        return false;
    if (options->depth == 0 && is_sync != (depth == 1))
        return false;
    return chunk * depth <= IN_FLIGHT_BYTES_MAX;
}

static void add_cells(const struct probe_run *run, const struct ring_method *method) {
    const struct probe_options *options = run->options;
    struct probe *probe = run->probe;
    size_t chunks = options->chunk_bytes > 0 ? 1 : GRID_CHUNKS;
    size_t depths = options->depth > 0 ? 1 : GRID_DEPTHS;
    for (size_t c = 0; c < chunks; c++)
        for (size_t d = 0; d < depths; d++) {
            size_t chunk = options->chunk_bytes > 0 ? options->chunk_bytes : grid_chunks[c];
            size_t depth = options->depth > 0 ? options->depth : grid_depths[d];
            if (is_in_grid(run, method, chunk, depth) && probe->cell_count < SL_PROBE_CELLS_MAX)
                probe->cells[probe->cell_count++] = (struct probe_cell){method, chunk, depth, 0};
        }
}

/* Methods that this kernel refuses are left out, unless they are asked for. */
static enum status make_grid(const struct probe_run *run, struct error *err) {
    const struct probe_options *options = run->options;
    static const struct ring_method *const methods[] = {&ring_method_pool, &ring_method_uring,
                                                        &ring_method_sync};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (options->method != NULL && options->method != methods[i])
            continue;
        enum status status = ring_method_try(methods[i], err);
        if (status == SL_OK)
            add_cells(run, methods[i]);
        else if (options->method != NULL)
            return status;
    }
    if (run->probe->cell_count > 0)
        return SL_OK;
    return error_set(err, SL_ERR_USAGE,
                     "chunks of %zu bytes, %zu at once: a probe has at most %zu in flight",
                     options->chunk_bytes, options->depth, IN_FLIGHT_BYTES_MAX);
}

static size_t best_of(const struct probe_cell *cells, size_t count, const bool *is_out) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        if (!is_out[i] &&
            (best == SIZE_MAX || cells[i].bytes_per_second > cells[best].bytes_per_second))
            best = i;
    return best;
}

static void tell(struct probe_run *run) {
    run->done++;
    if (run->options->progress != NULL)
        run->options->progress(run->options->ctx, run->done, run->total);
}

static double median_of_three(double a, double b, double c) {
    double low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* The best few in turn, so that all see the same minutes; each gets its median. */
static enum status run_finals(struct probe_run *run, double seconds, struct error *err) {
    struct probe *probe = run->probe;
    bool is_out[SL_PROBE_CELLS_MAX] = {false};
    size_t finalists[FINALISTS], count = 0;
    double rates[FINALISTS][FINAL_ROUNDS];
    size_t most = run->is_quick ? FINALISTS_QUICK : FINALISTS;
    while (count < most && count < probe->cell_count) {
        finalists[count] = best_of(probe->cells, probe->cell_count, is_out);
        is_out[finalists[count++]] = true;
    }
    for (size_t round = 0; round < FINAL_ROUNDS; round++)
        for (size_t i = 0; i < count; i++)
            TRY(measure(run, &probe->cells[finalists[i]], seconds / (double)(FINAL_ROUNDS * count),
                        &rates[i][round], err));
    for (size_t i = 0; i < count; i++) {
        struct probe_cell *cell = &probe->cells[finalists[i]];
        cell->bytes_per_second = median_of_three(rates[i][0], rates[i][1], rates[i][2]);
        if (i == 0 || cell->bytes_per_second > probe->cells[probe->best].bytes_per_second)
            probe->best = finalists[i];
    }
    return SL_OK;
}

static enum status run_all(struct probe_run *run, struct error *err) {
    struct probe *probe = run->probe;
    double seconds = run->seconds;
    run->total = probe->cell_count + 2;
    for (size_t i = 0; i < probe->cell_count; i++) {
        struct probe_cell *cell = &probe->cells[i];
        TRY(measure(run, cell, seconds * GRID_SHARE / (double)probe->cell_count,
                    &cell->bytes_per_second, err));
        tell(run);
    }
    TRY(run_finals(run, seconds * FINAL_SHARE, err));
    tell(run);
    TRY(measure(run, &probe->cells[probe->best], seconds * (1 - GRID_SHARE - FINAL_SHARE),
                &probe->sustained_bytes_per_second, err));
    tell(run);
    return SL_OK;
}

enum status probe_run(const struct probe_options *options, struct probe *out, struct error *err) {
    struct probe probe = {.is_direct = true};
    for (size_t i = 0; i < options->file_count; i++) {
        const struct file *file = options->files[i];
        probe.file_bytes += file->bytes;
        probe.is_direct = probe.is_direct && file->direct_fd >= 0;
        (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED); /* advice */
    }
    if (probe.file_bytes == 0)
        return error_set(err, SL_ERR_ENV, "nothing to probe: the files hold no bytes");
    struct probe_run run = {.options = options, .probe = &probe};
    run.seconds = options->seconds > 0 ? options->seconds : SECONDS_USUAL;
    run.is_quick = run.seconds < SECONDS_WHOLE_GRID;
    TRY(make_grid(&run, err));
    TRY(run_all(&run, err));
    *out = probe;
    return SL_OK;
}
