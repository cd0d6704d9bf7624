/* The layout: hand-made cases with numbers worked out on paper, and its promises on random tensors
 * (which are the test's own arithmetic, not the layout's). */
#include "weights/layout.h"

#include "base/fault.h"
#include "weights/matrix_for_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)
#define TENSORS_MAX 40

/* An index of nothing but places: the layout opens no file. */
struct world {
    struct file files[3];
    struct file *file_list[3];
    struct index index;
    struct tensor tensors[TENSORS_MAX];
    struct tensor scales[TENSORS_MAX][2]; /* of matrices that have some */
    struct layout_item items[TENSORS_MAX];
    size_t count;
};

static void world_init(struct world *world) {
    *world = (struct world){0};
    for (size_t i = 0; i < 3; i++) {
        world->files[i] = (struct file){.fd = -1, .direct_fd = -1};
        world->file_list[i] = &world->files[i];
    }
    world->index.files = world->file_list;
    world->index.file_count = 3;
}

/* Adds a bf16 matrix of so many rows of row_bytes. */
static void add(struct world *world, uint32_t file, uint64_t offset, uint64_t rows,
                uint64_t row_bytes) {
    size_t i = world->count++;
    assert_true(i < TENSORS_MAX);
    world->tensors[i] = (struct tensor){.name = STR("some.weight"),
                                        .dtype = DTYPE_BF16,
                                        .dims = 2,
                                        .shape = {rows, row_bytes / 2},
                                        .file = file,
                                        .offset = offset,
                                        .bytes = rows * row_bytes};
    world->items[i] = (struct layout_item){.matrix = plain_matrix(&world->tensors[i]),
                                           .key = (uint32_t)(100 + i)};
}

/* Gives the last matrix a part of its own: one row of row_bytes for group_rows of its rows. */
static void add_part(struct world *world, uint32_t file, uint64_t offset, uint64_t group_rows,
                     uint64_t row_bytes) {
    size_t i = world->count - 1;
    struct matrix *matrix = &world->items[i].matrix;
    struct tensor *tensor = &world->scales[i][matrix->part_count - 1];
    uint64_t rows = (matrix->rows + group_rows - 1) / group_rows;
    *tensor = (struct tensor){.name = STR("some.scales"),
                              .dtype = DTYPE_F16,
                              .dims = 2,
                              .shape = {rows, row_bytes / 2},
                              .file = file,
                              .offset = offset,
                              .bytes = rows * row_bytes};
    matrix->dtype = group_rows > 1 ? DTYPE_F8_E4M3 : DTYPE_MLX_4;
    matrix->group_columns = 32;
    matrix->parts[matrix->part_count++] = (struct matrix_part){
        .tensor = tensor, .rows = rows, .row_bytes = row_bytes, .group_rows = group_rows};
}

static struct layout make(struct world *world, size_t bytes_max) {
    struct layout layout;
    struct error err = {0};
    enum status status =
        layout_init(&layout, &world->index, world->items, world->count, bytes_max, &err);
    if (status != SL_OK)
        fail_msg("%s", err.text);
    return layout;
}

static const struct tensor *numbers_of(const struct world *world, size_t item) {
    return world->items[item].matrix.parts[0].tensor;
}

static void check_reads(const struct layout *layout, const struct block *block) {
    size_t window_end = 0;
    for (size_t r = 0; r < block->read_count; r++) {
        const struct ring_read *read = &layout->reads[block->first_read + r];
        size_t lead = read->offset % 4096;
        assert_int_equal(read->slab_offset % 4096, lead);
        assert_true(read->slab_offset - lead >= window_end); /* windows do not overlap */
        window_end = (read->slab_offset + read->bytes + 4095) / 4096 * 4096;
    }
    assert_true(window_end <= block->slab_bytes);
}

/* Gives the bytes that the part has in the piece. */
static uint64_t check_part(const struct world *world, const struct layout *layout,
                           const struct block *block, const struct piece *piece, size_t number) {
    const struct matrix_part *part = &world->items[piece->item].matrix.parts[number];
    uint64_t first = piece->first_row / part->group_rows;
    uint64_t last = (piece->first_row + piece->view.rows - 1) / part->group_rows;
    uint64_t offset = part->tensor->offset + first * part->row_bytes;
    uint64_t bytes = (last - first + 1) * part->row_bytes;
    size_t homes = 0;
    for (size_t r = 0; r < block->read_count; r++) {
        const struct ring_read *read = &layout->reads[block->first_read + r];
        if (read->file != &world->files[part->tensor->file] || read->offset > offset ||
            offset + bytes > read->offset + read->bytes)
            continue;
        homes++;
        assert_int_equal(piece->slab_offset[number], read->slab_offset + (offset - read->offset));
    }
    assert_int_equal(homes, 1);
    return bytes;
}

static uint64_t check_piece(const struct world *world, const struct layout *layout,
                            const struct block *block, const struct piece *piece) {
    const struct matrix *matrix = &world->items[piece->item].matrix;
    uint64_t bytes = 0;
    for (size_t part = 0; part < matrix->part_count; part++)
        bytes += check_part(world, layout, block, piece, part);
    assert_int_equal(piece->part_count, matrix->part_count);
    assert_int_equal(piece->key, world->items[piece->item].key);
    assert_int_equal(piece->view.dtype, matrix->dtype);
    assert_int_equal(piece->view.columns, matrix->columns);
    assert_null(piece->view.data);
    if (matrix->part_count > 1) {
        size_t group = (size_t)matrix->parts[1].group_rows;
        assert_int_equal(piece->view.scales.group_rows, group);
        assert_int_equal(piece->view.scales.rows_before, piece->first_row % group);
        assert_null(piece->view.scales.data);
        assert_null(piece->view.scales.biases);
    }
    return bytes;
}

/* Everything that the header promises. */
static void check_layout(const struct world *world, const struct layout *layout, size_t bytes_max) {
    size_t piece_number = 0, read_number = 0, item = 0, row = 0, slab_max = 0;
    uint64_t slab_sum = 0, all_bytes = 0;
    for (size_t b = 0; b < layout->block_count; b++) {
        const struct block *block = &layout->blocks[b];
        uint64_t block_bytes = 0;
        assert_int_equal(block->first_piece, piece_number);
        assert_int_equal(block->first_read, read_number);
        assert_true(block->piece_count > 0);
        assert_true(block->slab_bytes <= bytes_max);
        assert_int_equal(block->slab_bytes % 4096, 0);
        check_reads(layout, block);
        for (size_t p = 0; p < block->piece_count; p++) {
            const struct piece *piece = &layout->pieces[piece_number + p];
            const struct tensor *tensor = numbers_of(world, item);
            uint64_t rows = tensor->dims < 2 ? 1 : tensor->shape[0];
            assert_int_equal(piece->item, item); /* every row once, in order */
            assert_int_equal(piece->first_row, row);
            assert_true(piece->view.rows > 0);
            if (world->items[item].unit_rows > 0)
                assert_int_equal(row % world->items[item].unit_rows, 0);
            assert_int_equal(piece->view.row_bytes * rows, tensor->bytes);
            assert_true(p == 0 || row > 0 || !world->items[item].starts_block);
            block_bytes += check_piece(world, layout, block, piece);
            row += piece->view.rows;
            assert_true(row <= rows);
            if (row == rows) {
                item++;
                row = 0;
            }
        }
        assert_int_equal(block->read_bytes, block_bytes);
        piece_number += block->piece_count;
        read_number += block->read_count;
        slab_sum += block->slab_bytes;
        all_bytes += block_bytes;
        slab_max = block->slab_bytes > slab_max ? block->slab_bytes : slab_max;
    }
    assert_int_equal(item, world->count);
    assert_int_equal(row, 0);
    assert_int_equal(piece_number, layout->piece_count);
    assert_int_equal(read_number, layout->read_count);
    assert_int_equal(slab_max, layout->slab_bytes_max);
    assert_int_equal(slab_sum, layout->slab_bytes_sum);
    assert_int_equal(all_bytes, layout->read_bytes);
}

static uint32_t random_next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* Tensors in an order of the file that is not that of the pass, some close, some far apart. */
static void add_random(struct world *world, uint64_t *seed, bool has_scales) {
    uint64_t ends[3] = {random_next(seed) % 10000, 0, random_next(seed) % 70000};
    size_t count = 1 + random_next(seed) % (TENSORS_MAX - 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t file = random_next(seed) % 3, kind = random_next(seed) % 4;
        uint64_t rows = 1 + random_next(seed) % (kind == 0 ? 3 : 400);
        uint64_t row_bytes = 2 * (1 + random_next(seed) % (kind == 1 ? 9000 : 700));
        uint64_t gaps[] = {0, 0, random_next(seed) % 64, random_next(seed) % 200000};
        ends[file] += gaps[random_next(seed) % 4];
        add(world, file, ends[file], rows, row_bytes);
        ends[file] += rows * row_bytes;
        if (has_scales && rows > 1) {
            uint64_t group_rows = kind < 3 ? 1 : 2 + random_next(seed) % 130;
            for (uint32_t part = kind % 3; part < 2; part++) { /* two, one or none */
                uint64_t bytes = 2 * (1 + random_next(seed) % 90);
                file = random_next(seed) % 3;
                ends[file] += gaps[random_next(seed) % 4];
                add_part(world, file, ends[file], group_rows, bytes);
                ends[file] += (rows + group_rows - 1) / group_rows * bytes;
            }
        } else if (rows == 1 && random_next(seed) % 2)
            world->tensors[i] = (struct tensor){.name = STR("some.vector"),
                                                .dtype = DTYPE_BF16,
                                                .dims = 1,
                                                .shape = {row_bytes / 2},
                                                .file = file,
                                                .offset = world->tensors[i].offset,
                                                .bytes = row_bytes};
    }
    for (size_t i = world->count; i-- > 1;) {
        size_t j = random_next(seed) % (i + 1);
        struct layout_item kept = world->items[i];
        world->items[i] = world->items[j];
        world->items[j] = kept;
    }
    for (size_t i = 0; i < world->count; i++) {
        uint64_t row_bytes = world->items[i].matrix.parts[0].row_bytes;
        world->items[i].starts_block = random_next(seed) % 6 == 0;
        if (random_next(seed) % 2) /* some fit the rows, most do not */
            world->items[i].unit_rows = 1 + random_next(seed) % (1 + 8000 / row_bytes);
    }
}

static void layout_keeps_its_promises_for_random_tensors(void **state) {
    (void)state;
    static struct world world;
    uint64_t seed = 11;
    size_t blocks = 0, cut = 0;
    for (size_t round = 0; round < 400; round++) {
        world_init(&world);
        add_random(&world, &seed, round % 4 >= 2);
        size_t least = round % 4 >= 2 ? 237568 : 24576; /* with the gaps between the parts */
        size_t bytes_max = least + random_next(&seed) % (round % 2 ? 100000 : 4 * MIB);
        struct layout layout = make(&world, bytes_max);
        check_layout(&world, &layout, bytes_max);
        blocks += layout.block_count;
        cut += layout.piece_count - world.count;
        layout_release(&layout);
    }
    assert_true(blocks > 1000); /* the cases were not all trivial */
    assert_true(cut > 1000);
}

/* The picture in the header: gate, up and down of 100 MB each, blocks of at most 160. */
static void layout_cuts_by_rows_into_equal_shares(void **state) {
    (void)state;
    static struct world world;
    world_init(&world);
    for (size_t i = 0; i < 3; i++)
        add(&world, 0, i * 100 * MIB, 12800, 8192);
    world.items[0].starts_block = true;
    struct layout layout = make(&world, 160 * MIB);
    check_layout(&world, &layout, 160 * MIB);
    assert_int_equal(layout.block_count, 2);
    assert_int_equal(layout.piece_count, 4);
    assert_int_equal(layout.pieces[1].item, 1);
    assert_int_equal(layout.pieces[2].item, 1);
    assert_in_range(layout.pieces[1].view.rows, 6399, 6401);
    assert_int_equal(layout.read_count, 2); /* neighbours in the file */
    assert_int_equal(layout.read_bytes, 300 * MIB);
    layout_release(&layout);
}

static void layout_leaves_no_scrap_of_a_matrix(void **state) {
    (void)state;
    static struct world world;
    for (uint64_t rows = 1000; rows < 1200; rows += 7) { /* around the border of 1 to 2 blocks */
        world_init(&world);
        add(&world, 1, 12345, rows, 1000);
        size_t bytes_max = 1052672; /* 257 * 4096 */
        struct layout layout = make(&world, bytes_max);
        check_layout(&world, &layout, bytes_max);
        size_t least = layout.pieces[layout.piece_count - 1].view.rows;
        assert_int_equal(layout.block_count, 12345 % 4096 + rows * 1000 <= bytes_max ? 1 : 2);
        /* Windows and a row of rounding: 8192 bytes and 1000 of the first block's share. */
        assert_true(least * layout.piece_count + 20 >= rows);
        layout_release(&layout);
    }
    /* A matrix that fits is not begun with a few rows at the end of a block. */
    world_init(&world);
    add(&world, 0, 0, 1000, 4096);
    add(&world, 0, 4096000, 1000, 4096);
    struct layout layout = make(&world, 1010 * 4096);
    assert_int_equal(layout.block_count, 2);
    assert_int_equal(layout.piece_count, 2);
    layout_release(&layout);
}

static void layout_merges_neighbours_in_the_file(void **state) {
    (void)state;
    static struct world world;
    world_init(&world);
    add(&world, 0, 200000, 1, 10000);       /* q, after k and v in the file */
    add(&world, 0, 100000, 1, 10000);       /* k */
    add(&world, 0, 110000, 1, 10000);       /* v, right behind k */
    add(&world, 0, 210000 + 65535, 1, 100); /* behind q with a gap that is too small to skip */
    add(&world, 0, 400000, 1, 100);         /* far away */
    add(&world, 1, 120000, 1, 100);         /* another file */
    struct layout layout = make(&world, MIB);
    check_layout(&world, &layout, MIB);
    assert_int_equal(layout.block_count, 1);
    assert_int_equal(layout.read_count, 4);
    assert_int_equal(layout.reads[0].offset, 100000);
    assert_int_equal(layout.reads[0].bytes, 20000);
    assert_int_equal(layout.reads[0].slab_offset, 100000 % 4096);
    assert_int_equal(layout.reads[1].offset, 200000);
    assert_int_equal(layout.reads[1].bytes, 10000 + 65535 + 100);
    /* 100000 % 4096 + 20000 = 21696, so the next window begins at 24576 */
    assert_int_equal(layout.reads[1].slab_offset, 24576 + 200000 % 4096);
    assert_int_equal(layout.read_bytes, 30300); /* without the gap */
    layout_release(&layout);
}

static void layout_starts_blocks_where_told(void **state) {
    (void)state;
    static struct world world;
    world_init(&world);
    for (size_t i = 0; i < 6; i++) {
        add(&world, 0, i * 1000, 10, 100);
        world.items[i].starts_block = i % 2 == 0;
    }
    struct layout layout = make(&world, MIB);
    check_layout(&world, &layout, MIB);
    assert_int_equal(layout.block_count, 3);
    assert_int_equal(layout.slab_bytes_max, 8192); /* 4000 .. 6000 touches two units */
    assert_int_equal(layout.slab_bytes_sum, 4096 + 4096 + 8192);
    layout_release(&layout);
}

static void layout_serves_one_tensor_twice(void **state) {
    (void)state;
    static struct world world;
    world_init(&world);
    add(&world, 0, 5000, 100, 100);
    add(&world, 0, 5000, 100, 100);
    struct layout layout = make(&world, MIB);
    check_layout(&world, &layout, MIB);
    assert_int_equal(layout.read_count, 1);
    assert_int_equal(layout.read_bytes, 20000);
    layout_release(&layout);
}

static void refuse(struct world *world, size_t bytes_max, const char *reason) {
    struct layout layout;
    struct error err = {0};
    assert_int_equal(
        layout_init(&layout, &world->index, world->items, world->count, bytes_max, &err),
        SL_ERR_ENV);
    if (strstr(err.text, reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, reason);
}

static void layout_refuses_what_no_block_can_hold(void **state) {
    (void)state;
    static struct world world;
    world_init(&world);
    add(&world, 0, 4096, 3, 8192);
    add(&world, 0, 100001, 3, 10000); /* a row may touch four units */
    refuse(&world, 16383, "\"some.weight\" needs a block of 16384 bytes");
    struct layout layout = make(&world, 16384);
    check_layout(&world, &layout, 16384);
    layout_release(&layout);
    add(&world, 2, 0, 1, (uint64_t)300 << 20);
    refuse(&world, SIZE_MAX, "314572800 bytes, and a block may have 268435456");
    world.tensors[1].shape[1] = 0;
    world.tensors[1].bytes = 0;
    refuse(&world, SIZE_MAX, "has no values");
    world_init(&world);
    add(&world, 0, 0, (uint64_t)1 << 50, 4096);
    refuse(&world, MIB, "2^56");
}

static void layout_of_nothing_is_empty(void **state) {
    (void)state;
    static struct world world;
    world_init(&world);
    struct layout layout = make(&world, MIB);
    assert_int_equal(layout.block_count, 0);
    assert_int_equal(layout.slab_bytes_sum, 0);
    layout_release(&layout);
    layout_release(&layout);
}

static void layout_survives_lack_of_memory(void **state) {
    (void)state;
    static struct world world;
    uint64_t seed = 5;
    world_init(&world);
    add_random(&world, &seed, true);
    for (uint64_t nth = 1;; nth++) {
        struct layout layout;
        struct error err = {0};
        fault_arm(SL_FAULT_ALLOC, nth, false);
        enum status status =
            layout_init(&layout, &world.index, world.items, world.count, 262144, &err);
        fault_arm(SL_FAULT_ALLOC, 0, false);
        if (status == SL_OK) {
            assert_true(nth > 5);
            layout_release(&layout);
            break;
        }
        assert_non_null(strstr(err.text, "out of memory"));
    }
}

/* Experts in a stack: [8 x 64 rows, 128 bytes] from byte 4096 on. */
static void slices_of_a_stack_lie_at_their_rows(void **state) {
    (void)state;
    struct world world;
    world_init(&world);
    add(&world, 0, 4096, 8 * 64, 128);
    world.count = 3;
    struct matrix stack = world.items[0].matrix; /* the first of eight slices */
    stack.rows = stack.parts[0].rows = 64;
    for (size_t i = 0; i < 3; i++) {
        const size_t experts[3] = {1, 5, 7};
        world.items[i] = (struct layout_item){.matrix = matrix_slice(&stack, experts[i]),
                                              .key = (uint32_t)experts[i],
                                              .starts_block = true};
    }
    struct layout layout = make(&world, MIB);
    assert_int_equal(layout.block_count, 3);
    assert_int_equal(layout.read_bytes, 3 * 64 * 128);
    for (size_t b = 0; b < 3; b++) {
        const struct piece *piece = &layout.pieces[layout.blocks[b].first_piece];
        assert_int_equal(layout.blocks[b].read_count, 1);
        assert_int_equal(layout.reads[b].offset, 4096 + piece->key * 64 * 128);
        assert_int_equal(layout.reads[b].bytes, 64 * 128);
        assert_int_equal(piece->first_row, 0); /* counted from the slice's own first row */
        assert_int_equal(piece->view.rows, 64);
    }
    layout_release(&layout);
    /* The same slices in blocks of a page: 31 or 32 rows each, in order. */
    layout = make(&world, 8192);
    for (size_t p = 0, row = 0; p < layout.piece_count; p++) {
        const struct piece *piece = &layout.pieces[p];
        assert_int_equal(piece->first_row, row);
        row = (row + piece->view.rows) % 64;
        assert_int_equal(layout.reads[p].offset, 4096 + (piece->key * 64 + piece->first_row) * 128);
    }
    layout_release(&layout);
}

/* 300 rows of FP8 with a row of scales for 128: where a piece ends within a group, it and the next
 * one both read the group's row. */
static void neighbours_share_a_row_of_scales(void **state) {
    (void)state;
    static struct world world;
    world_init(&world);
    add(&world, 0, 4096, 300, 4096);
    add_part(&world, 1, 4096, 128, 64);
    struct layout layout = make(&world, 200 * 4096);
    check_layout(&world, &layout, 200 * 4096);
    assert_int_equal(layout.piece_count, 2);
    size_t border = layout.pieces[1].first_row; /* half of 300, and a row of slack */
    assert_in_range(border, 150, 152);
    assert_int_equal(layout.pieces[1].view.scales.rows_before, border - 128);
    assert_int_equal(layout.read_bytes, 300 * 4096 + (2 + 2) * 64);
    layout_release(&layout);
}

static void whole_items_are_never_cut(void **state) {
    (void)state;
    struct world world;
    struct layout layout;
    struct error err = {0};
    world_init(&world);
    add(&world, 0, 0, 100, 128);
    add(&world, 0, 12800, 100, 128);
    world.items[1].unit_rows = 100; /* 12800 bytes, 4 pages from byte 12800 on */
    layout = make(&world, 16384);
    size_t pieces = 0;
    for (size_t p = 0; p < layout.piece_count; p++) {
        if (layout.pieces[p].item != 1)
            continue;
        pieces++;
        assert_int_equal(layout.pieces[p].view.rows, 100);
        assert_int_equal(layout.pieces[p].view.row_bytes, 128);
        assert_int_equal(layout.pieces[p].first_row, 0);
    }
    assert_int_equal(pieces, 1);
    layout_release(&layout);
    assert_int_equal(layout_init(&layout, &world.index, world.items, 2, 12288, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "a part of tensor"));
}

static void units_grow_with_the_model_and_keep_what_is_set(void **state) {
    (void)state;
    static struct world world;
    static const struct {
        uint64_t rows, row_bytes, unit_rows;
    } cases[] = {
        {10, 3000, 2}, /* 4 KiB in rows of 3000 bytes, rounded up */
        {10, 4096, 1},          {10, 70000, 1},
        {1u << 20, 6144, 11},   /* 6 GiB: 2^17 units are 48 KiB each, so 64 KiB */
        {1u << 24, 100000, 11}, /* 1.6 TB: no more than 1 MiB */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world_init(&world);
        add(&world, 0, 0, cases[i].rows, cases[i].row_bytes);
        add(&world, 0, cases[i].rows * cases[i].row_bytes, 2, 2);
        world.items[1].unit_rows = 7;
        layout_set_units(world.items, 2);
        assert_int_equal(world.items[0].unit_rows, cases[i].unit_rows);
        assert_int_equal(world.items[1].unit_rows, 7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_a_stack_lie_at_their_rows),
        cmocka_unit_test(neighbours_share_a_row_of_scales),
        cmocka_unit_test(whole_items_are_never_cut),
        cmocka_unit_test(units_grow_with_the_model_and_keep_what_is_set),
        cmocka_unit_test(layout_keeps_its_promises_for_random_tensors),
        cmocka_unit_test(layout_cuts_by_rows_into_equal_shares),
        cmocka_unit_test(layout_leaves_no_scrap_of_a_matrix),
        cmocka_unit_test(layout_merges_neighbours_in_the_file),
        cmocka_unit_test(layout_starts_blocks_where_told),
        cmocka_unit_test(layout_serves_one_tensor_twice),
        cmocka_unit_test(layout_refuses_what_no_block_can_hold),
        cmocka_unit_test(layout_of_nothing_is_empty),
        cmocka_unit_test(layout_survives_lack_of_memory),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
