/* Products of kernel set `amx`: tiles of 16 outputs x 32 columns of weights times tiles of 32
 * features x 16 tokens of packed activations give tiles of 16 outputs x 16 tokens, which lie in
 * memory as a tile of an act does.
 *
 * Four sums are computed at once, two groups of outputs by two tiles of tokens, so that every tile
 * that is loaded serves two products. Weights published as bf16 are used where they lie, and their
 * sums stay in registers from the first column of a slice to its last. Other formats, and what
 * fills no tile, are brought into scratch first, 32 rows x 512 columns, tile by tile, each of them
 * 1 KB in a row. The registers are configured for each item and released after it, so that a thread
 * that sleeps has none to save. */
#include "backend/cpu/bf16.h"

#ifdef __x86_64__

#include "base/cpu.h"

#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX_TARGET BF16_TARGET ",amx-tile,amx-bf16"
#define AMX __attribute__((target(AMX_TARGET)))
#define AMX_INLINE static inline __attribute__((always_inline, target(AMX_TARGET)))

#define GROUP_ROWS ((size_t)16)
#define PANEL_ROWS ((size_t)32)
#define PANEL_COLUMNS ((size_t)512)
#define TILE_BYTES ((size_t)1024)
#define STEPS_MAX (PANEL_COLUMNS / BF16_STEP)       /* of a panel */
#define DECODED_AT (PANEL_ROWS * PANEL_COLUMNS * 2) /* in scratch */

/* The intrinsics of gcc 12 do not say that they read and write memory. */
#define MEMORY_IS_USED __asm__ volatile("" ::: "memory")

/* Intel SDM volume 1, chapter 18.3: palette 1, eight tiles of up to 16 rows of up to 64 bytes. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* One or two groups of rows times one or two tiles of tokens. */
struct amx_block {
    const uint8_t *w[2];  /* of each group the weights of step 0 */
    size_t row_bytes;     /* from a row of these to the next */
    size_t step_bytes;    /* and from a step to the next */
    const uint32_t *x[2]; /* [steps] tiles */
    float *y[2][2];       /* of group and tile [16, 16] */
    size_t steps;
    bool is_first;
    struct cpu_ahead *ahead; /* asks for something with every step */
};

AMX static void configure(void) {
    _Alignas(64) struct tile_config config = {.palette = 1};
    for (size_t i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    MEMORY_IS_USED;
    _tile_loadconfig(&config);
}

/* groups and tiles are constants. Registers 0 to 3: sums of group and tile; 4, 5: weights; 6, 7:
 * activations. */
AMX_INLINE void multiply(const struct amx_block *block, size_t groups, size_t tiles) {
    if (block->is_first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, block->y[0][0], 64);
        if (tiles == 2)
            _tile_loadd(1, block->y[0][1], 64);
        if (groups == 2)
            _tile_loadd(2, block->y[1][0], 64);
        if (groups == 2 && tiles == 2)
            _tile_loadd(3, block->y[1][1], 64);
    }
    for (size_t step = 0; step < block->steps; step++) {
        size_t at = step * TILE_BYTES;
        cpu_ahead_step(block->ahead);
        _tile_loadd(4, block->w[0] + step * block->step_bytes, block->row_bytes);
        _tile_loadd(6, (const uint8_t *)block->x[0] + at, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (tiles == 2) {
            _tile_loadd(7, (const uint8_t *)block->x[1] + at, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (groups == 2) {
            _tile_loadd(5, block->w[1] + step * block->step_bytes, block->row_bytes);
            _tile_dpbf16ps(2, 5, 6);
            if (tiles == 2)
                _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, block->y[0][0], 64);
    if (tiles == 2)
        _tile_stored(1, block->y[0][1], 64);
    if (groups == 2)
        _tile_stored(2, block->y[1][0], 64);
    if (groups == 2 && tiles == 2)
        _tile_stored(3, block->y[1][1], 64);
}

AMX static void multiply_block(const struct amx_block *block, size_t groups, size_t tiles) {
    MEMORY_IS_USED;
    if (groups == 2 && tiles == 2)
        multiply(block, 2, 2);
    else if (groups == 2)
        multiply(block, 2, 1);
    else if (tiles == 2)
        multiply(block, 1, 2);
    else
        multiply(block, 1, 1);
    MEMORY_IS_USED;
}

/* A group of fewer than 16 rows: its sums go through memory of our own, as tiles are whole. */
static void multiply_last(struct amx_block *block, size_t rows, size_t tiles) {
    _Alignas(64) float sums[2][GROUP_ROWS * SL_LANES] = {{0}};
    float *y[2];
    for (size_t t = 0; t < tiles; t++) {
        y[t] = block->y[0][t];
        if (!block->is_first)
            memcpy(sums[t], y[t], rows * SL_LANES * sizeof(float));
        block->y[0][t] = sums[t];
    }
    multiply_block(block, 1, tiles);
    for (size_t t = 0; t < tiles; t++)
        memcpy(y[t], sums[t], rows * SL_LANES * sizeof(float));
}

struct amx_panel {
    const struct cpu_product *task;
    struct cpu_place place, next; /* next: what is to be asked for; without rows: nothing */
    bool is_direct;               /* whole tiles, used where they lie; else in memory */
    uint8_t *memory;              /* tiles [groups, steps], then one row as float32 */
};

/* Brings a panel into memory as tiles. */
static void load_panel(const struct amx_panel *panel) {
    const struct cpu_place *place = &panel->place;
    struct bf16_row load = {
        .w = panel->task->w,
        .column = place->column,
        .count = panel->place.columns,
        .decoded = (float *)(void *)(panel->memory + DECODED_AT),
        .stride = TILE_BYTES,
    };
    for (size_t r = 0; r < place->rows; r++) {
        load.row = place->row + r;
        load.out = panel->memory + r / GROUP_ROWS * STEPS_MAX * TILE_BYTES + r % GROUP_ROWS * 64;
        bf16_load_row(&load);
    }
}

/* Where the weights of a group lie, `at` rows into the panel. */
static const uint8_t *weights_of(const struct amx_panel *panel, size_t at) {
    const struct view *w = panel->task->w;
    if (panel->is_direct)
        return cpu_weights(w, dtype_get(w->dtype), panel->place.row + at, panel->place.column);
    return panel->memory + at / GROUP_ROWS * STEPS_MAX * TILE_BYTES;
}

/* Groups of a panel, two by two, times one or two tiles. */
static void multiply_groups(const struct amx_panel *panel, size_t tile, size_t tiles,
                            struct amx_block *block) {
    const struct cpu_product *task = panel->task;
    size_t rows = panel->place.rows;
    for (size_t at = 0; at < rows;) {
        size_t groups = rows - at >= 2 * GROUP_ROWS ? 2 : 1;
        for (size_t g = 0; g < groups; g++) {
            size_t row = at + g * GROUP_ROWS, feature = task->first_row + panel->place.row + row;
            block->w[g] = weights_of(panel, row);
            for (size_t t = 0; t < tiles; t++)
                block->y[g][t] = act_tile(task->y, tile + t) + feature * SL_LANES;
        }
        if (rows - at < GROUP_ROWS)
            multiply_last(block, rows - at, tiles);
        else
            multiply_block(block, groups, tiles);
        at += groups * GROUP_ROWS;
    }
}

/* Tiles first .. of so many. */
static void multiply_tiles(const struct amx_panel *panel, size_t first, size_t count) {
    const struct cpu_product *task = panel->task;
    size_t column = panel->place.column, end = first + count;
    size_t stride = cpu_pairs(task->x->features) * SL_LANES;
    size_t steps = size_divide_up(panel->place.columns, BF16_STEP);
    size_t groups = size_divide_up(panel->place.rows, 2 * GROUP_ROWS); /* pairs of them */
    struct cpu_ahead ahead = cpu_ahead_of(task->w, &panel->next, (count + 1) / 2 * groups * steps);
    struct amx_block block = {
        .row_bytes = panel->is_direct ? task->w->row_bytes : 64,
        .step_bytes = panel->is_direct ? 64 : TILE_BYTES,
        .steps = steps,
        .is_first = column == 0,
        .ahead = &ahead,
    };
    for (size_t tile = first; tile < end; tile += 2) {
        size_t tiles = end - tile >= 2 ? 2 : 1;
        for (size_t t = 0; t < tiles; t++)
            block.x[t] = task->pairs + (tile + t) * stride + column / 2 * SL_LANES;
        multiply_groups(panel, tile, tiles, &block);
    }
}

/* Blocks that are brought into memory, for one slice of the tiles, then for the next. */
static void multiply_loaded(struct amx_panel *panel, size_t first, size_t count) {
    const struct cpu_product *task = panel->task;
    const struct cpu_walk walk = {task, first, count, PANEL_ROWS, PANEL_COLUMNS};
    size_t tiles = act_tiles(task->x->tokens);
    panel->is_direct = false;
    for (size_t tile = 0; tile < tiles; tile += task->slice_tiles) {
        panel->place = cpu_first_block(&walk);
        for (size_t blocks = cpu_block_count(&walk); blocks > 0; blocks--) {
            panel->next = cpu_block_after(&walk, &panel->place);
            load_panel(panel);
            multiply_tiles(panel, tile, size_min(tiles - tile, task->slice_tiles));
            panel->place = panel->next;
        }
    }
}

/* Weights as they lie: a slice of the columns of all panels for one slice of the tiles, then for
 * the next. The processor fetches such rows best by itself. */
static void multiply_direct(struct amx_panel *panel, size_t first, size_t count) {
    const struct cpu_product *task = panel->task;
    size_t tiles = act_tiles(task->x->tokens), columns = task->w->columns;
    struct cpu_place *place = &panel->place;
    panel->is_direct = true;
    panel->next = (struct cpu_place){0};
    for (place->column = 0; place->column < columns; place->column += task->slice_columns) {
        place->columns = size_min(columns - place->column, task->slice_columns);
        for (size_t tile = 0; tile < tiles; tile += task->slice_tiles)
            for (size_t row = 0; row < count; row += PANEL_ROWS) {
                place->row = first + row;
                place->rows = size_min(count - row, PANEL_ROWS);
                multiply_tiles(panel, tile, size_min(tiles - tile, task->slice_tiles));
            }
    }
}

AMX static void product(const struct cpu_product *task, size_t first, size_t count,
                        float *scratch) {
    const struct view *w = task->w;
    bool has_tiles = w->dtype == DTYPE_BF16 && w->columns % BF16_STEP == 0 && w->columns > 0;
    struct amx_panel panel = {.task = task, .memory = (uint8_t *)scratch};
    configure();
    size_t whole = has_tiles ? count / GROUP_ROWS * GROUP_ROWS : 0;
    if (whole > 0)
        multiply_direct(&panel, first, whole);
    if (whole < count)
        multiply_loaded(&panel, first + whole, count - whole);
    _tile_release();
}

/* Linux gives a process the tile registers when it asks (arch_prctl, ARCH_REQ_XCOMP_PERM for
 * XTILEDATA); asking again is harmless. */
static bool is_available(void) {
    const struct cpu *cpu = cpu_get();
    return cpu->has_amx_bf16 && cpu->has_avx512bf16 && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

const struct cpu_products cpu_products_amx = {
    .kernels = "amx",
    .isa = "amx",
    .is_available = is_available,
    .pack = bf16_pack,
    .product = product,
    .item_rows = PANEL_ROWS,
    .step_rows = GROUP_ROWS,
    .cut_columns = PANEL_COLUMNS,
};

#endif
