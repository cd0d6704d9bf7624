/* Cuts the matrices of a pass into blocks and says what to read for each: the only place that knows
 * how tensors become reads. Reads no files. Refuses tensors without values, rows that no block can
 * hold, and sums of bytes that make no sense.
 *
 * A block is a set of ranges (rows of one part of a matrix each), sorted by file and offset. Ranges
 * that are neighbours merge into a read; each read gets its window of whole SL_IO_ALIGN units in
 * the slab, one behind the other, so windows cannot overlap. The memory that a block needs never
 * shrinks when rows are added: a binary search finds how many rows fit. */
#include "weights/layout.h"

#include "base/mem.h"

#include <string.h>

/* Sum over all items; far above any model, far below where sums of a few of them overflow. */
#define LAYOUT_BYTES_MAX ((uint64_t)1 << 56)

#define LAYOUT_UNITS ((uint64_t)1 << 17)
#define LAYOUT_UNIT_BYTES_MIN ((uint64_t)4 << 10)
#define LAYOUT_UNIT_BYTES_MAX ((uint64_t)1 << 20)

struct range {
    uint32_t file;
    uint64_t offset, bytes;
    size_t piece; /* in layout.pieces */
    uint32_t part;
};

struct maker {
    struct layout *layout;
    const struct index *index;
    const struct layout_item *items;
    size_t count;
    size_t bytes_max;
    size_t block_cap, piece_cap, read_cap;

    struct range *ranges; /* of the block being made */
    size_t range_count, range_cap;
    struct range *rest; /* scratch for rest_bytes */
    size_t rest_cap;

    size_t item, row; /* the next row to place */
};

uint64_t layout_unit_rows(const struct layout_item *item) {
    return size_min(size_max(item->unit_rows, 1), item->matrix.rows);
}

/* Units of so many rows; the last one may have fewer. */
static uint64_t units_of(const struct layout_item *item, uint64_t rows) {
    return rows / layout_unit_rows(item) + (rows % layout_unit_rows(item) != 0);
}

static const struct tensor *numbers_of(const struct layout_item *item) {
    return item->matrix.parts[MATRIX_NUMBERS].tensor;
}

/* Reads of sorted ranges. */

/* The ranges from `first` on that one read covers: moves *first past them. */
static void merge_next(const struct range *ranges, size_t count, size_t *first,
                       struct range *merged) {
    *merged = ranges[*first];
    size_t i = *first + 1;
    for (; i < count && ranges[i].file == merged->file; i++) {
        uint64_t end = merged->offset + merged->bytes,
                 next_end = ranges[i].offset + ranges[i].bytes;
        if (ranges[i].offset > end && ranges[i].offset - end >= SL_READ_GAP_BYTES)
            break;
        if (next_end > end)
            merged->bytes = next_end - merged->offset;
    }
    *first = i;
}

static uint64_t window_bytes(const struct range *merged) {
    return size_round_up(merged->offset % SL_IO_ALIGN + merged->bytes, SL_IO_ALIGN);
}

/* Memory that a block of these ranges needs. */
static uint64_t ranges_bytes(const struct range *ranges, size_t count) {
    uint64_t sum = 0;
    struct range merged;
    for (size_t i = 0; i < count;) {
        merge_next(ranges, count, &i, &merged);
        sum += window_bytes(&merged);
    }
    return sum;
}

static bool is_before(const struct range *a, const struct range *b) {
    return a->file != b->file ? a->file < b->file : a->offset < b->offset;
}

/* Puts range into its place in sorted ranges, which have room for it; gives its number. */
static size_t insert(struct range *ranges, size_t *count, const struct range *range) {
    size_t at = *count;
    while (at > 0 && is_before(range, &ranges[at - 1]))
        at--;
    memmove(&ranges[at + 1], &ranges[at], (*count - at) * sizeof *ranges);
    ranges[at] = *range;
    ++*count;
    return at;
}

static bool reserve(struct range **ranges, size_t *cap, size_t need) {
    void *items = *ranges;
    if (!mem_grow(&items, cap, need, sizeof **ranges))
        return false;
    *ranges = items;
    return true;
}

static struct range rows_range(const struct layout_item *item, uint32_t part, uint64_t first,
                               uint64_t rows) {
    struct matrix_range range = matrix_range(&item->matrix, part, first, rows);
    return (struct range){
        .file = range.file, .offset = range.offset, .bytes = range.bytes, .part = part};
}

/* Most memory for a unit, wherever in the matrix it lies; of a whole item, where it does. Parts
 * that are read as one take their gap along, and a unit of several rows may lie across the border
 * of two rows of scales. */
static uint64_t row_room(const struct layout_item *item) {
    struct range ranges[SL_MATRIX_PARTS];
    size_t count = 0;
    uint64_t unit = layout_unit_rows(item), sum = 0;
    for (uint32_t part = 0; part < item->matrix.part_count; part++) {
        struct range range = rows_range(item, part, 0, unit);
        bool is_aligned = range.offset % SL_IO_ALIGN == 0 &&
                          item->matrix.parts[part].row_bytes % SL_IO_ALIGN == 0;
        if (unit > 1 && item->matrix.parts[part].group_rows > 1)
            range.bytes += item->matrix.parts[part].row_bytes;
        sum += is_aligned ? range.bytes : size_round_up(SL_IO_ALIGN - 1 + range.bytes, SL_IO_ALIGN);
        sum += part > 0 ? SL_READ_GAP_BYTES : 0;
        insert(ranges, &count, &range);
    }
    return unit == item->matrix.rows ? ranges_bytes(ranges, count) : sum;
}

/* Shares */

/* Memory of one block with all that is left up to the next starts_block: *out. */
static enum status rest_bytes(struct maker *maker, uint64_t *out, struct error *err) {
    size_t count = 0;
    for (size_t i = maker->item; i < maker->count; i++) {
        if (i > maker->item && maker->items[i].starts_block)
            break;
        const struct layout_item *item = &maker->items[i];
        uint64_t first_row = i == maker->item ? maker->row : 0;
        if (!reserve(&maker->rest, &maker->rest_cap, count + SL_MATRIX_PARTS))
            return error_memory(err, (count + SL_MATRIX_PARTS) * sizeof *maker->rest, "the layout");
        for (uint32_t part = 0; part < item->matrix.part_count; part++) {
            struct range range = rows_range(item, part, first_row, item->matrix.rows - first_row);
            insert(maker->rest, &count, &range);
        }
    }
    *out = ranges_bytes(maker->rest, count);
    return SL_OK;
}

/* The ranges of the block, with `rows` rows for the piece being added; gives the bytes of these. */
static uint64_t set_rows(struct maker *maker, uint64_t rows) {
    const struct layout_item *item = &maker->items[maker->item];
    uint64_t sum = 0;
    for (size_t i = 0; i < maker->range_count; i++) {
        struct range *range = &maker->ranges[i];
        if (range->piece != maker->layout->piece_count)
            continue;
        range->bytes = rows_range(item, range->part, maker->row, rows).bytes;
        sum += range->bytes;
    }
    return sum;
}

/* Most rows of `left` that may join the block within `limit` bytes of memory. The bytes of the
 * piece's ranges are left undecided. */
static uint64_t rows_within(struct maker *maker, uint64_t left, uint64_t limit) {
    const struct layout_item *item = &maker->items[maker->item];
    uint64_t unit = layout_unit_rows(item);
    uint64_t low = 0, high = units_of(item, left);
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        set_rows(maker, size_min(middle * unit, left));
        if (ranges_bytes(maker->ranges, maker->range_count) <= limit)
            low = middle;
        else
            high = middle - 1;
    }
    return size_min(low * unit, left);
}

/* How many of the `left` rows join the block, whose fair share of memory is `share`. Scraps, parts
 * of a matrix smaller than an eighth of a share, stay with their neighbours where that fits. */
static uint64_t rows_to_take(struct maker *maker, uint64_t left, uint64_t share) {
    const struct layout_item *item = &maker->items[maker->item];
    uint64_t scrap = share / 8;
    uint64_t unit_bytes = set_rows(maker, left) / units_of(item, left);
    uint64_t limit = size_min(share + unit_bytes, maker->bytes_max);
    uint64_t rows = rows_within(maker, left, limit);
    bool is_first = maker->range_count == item->matrix.part_count;
    if (rows == 0 && is_first)
        rows = size_min(layout_unit_rows(item), left); /* fits: layout_init has seen to it */
    if (rows == left)
        return rows;
    if (units_of(item, left - rows) * unit_bytes < scrap &&
        rows_within(maker, left, maker->bytes_max) == left)
        return left;
    if (!is_first && units_of(item, rows) * unit_bytes < scrap)
        return 0;
    return rows;
}

/* Blocks */

static bool add_piece(struct maker *maker, uint64_t rows) {
    struct layout *layout = maker->layout;
    const struct layout_item *item = &maker->items[maker->item];
    const uint8_t *const nowhere[SL_MATRIX_PARTS] = {NULL};
    void *items = layout->pieces;
    if (!mem_grow(&items, &maker->piece_cap, layout->piece_count + 1, sizeof *layout->pieces))
        return false;
    layout->pieces = items;
    layout->pieces[layout->piece_count++] = (struct piece){
        .item = (uint32_t)maker->item,
        .key = item->key,
        .first_row = maker->row,
        .part_count = item->matrix.part_count,
        .view = matrix_view(&item->matrix, maker->row, rows, nowhere),
    };
    return true;
}

/* Puts the ranges of the next piece into the block, which has room for them. */
static void add_ranges(struct maker *maker, uint64_t rows) {
    const struct layout_item *item = &maker->items[maker->item];
    for (uint32_t part = 0; part < item->matrix.part_count; part++) {
        struct range range = rows_range(item, part, maker->row, rows);
        range.piece = maker->layout->piece_count;
        insert(maker->ranges, &maker->range_count, &range);
    }
}

static void drop_ranges(struct maker *maker) {
    size_t kept = 0;
    for (size_t i = 0; i < maker->range_count; i++)
        if (maker->ranges[i].piece != maker->layout->piece_count)
            maker->ranges[kept++] = maker->ranges[i];
    maker->range_count = kept;
}

/* Fills the ranges and pieces of the next block; leaves item and row at what follows. */
static enum status fill_block(struct maker *maker, struct block *block, struct error *err) {
    uint64_t rest = 0, share;
    TRY(rest_bytes(maker, &rest, err));
    uint64_t blocks = size_divide_up(rest, maker->bytes_max);
    share = size_divide_up(rest, blocks);
    maker->range_count = 0;
    while (maker->item < maker->count) {
        const struct layout_item *item = &maker->items[maker->item];
        if (maker->range_count > 0 && maker->row == 0 && item->starts_block)
            break;
        uint64_t left = item->matrix.rows - maker->row;
        size_t need = maker->range_count + SL_MATRIX_PARTS;
        if (!reserve(&maker->ranges, &maker->range_cap, need))
            return error_memory(err, need * sizeof *maker->ranges, "the layout");
        add_ranges(maker, left);
        uint64_t rows = rows_to_take(maker, left, share);
        if (rows == 0) {
            drop_ranges(maker);
            break;
        }
        block->read_bytes += (size_t)set_rows(maker, rows);
        if (!add_piece(maker, rows))
            return error_memory(err, (maker->layout->piece_count + 1) * sizeof(struct piece),
                                "the layout");
        maker->row += (size_t)rows;
        if (rows < left)
            break;
        maker->item++;
        maker->row = 0;
    }
    block->piece_count = maker->layout->piece_count - block->first_piece;
    return SL_OK;
}

/* Makes the reads of a block from its ranges, and tells its pieces where they land. */
static enum status add_reads(struct maker *maker, struct block *block, struct error *err) {
    struct layout *layout = maker->layout;
    for (size_t i = 0; i < maker->range_count;) {
        struct range merged;
        size_t first = i;
        merge_next(maker->ranges, maker->range_count, &i, &merged);
        void *items = layout->reads;
        if (!mem_grow(&items, &maker->read_cap, layout->read_count + 1, sizeof *layout->reads))
            return error_memory(err, (layout->read_count + 1) * sizeof *layout->reads,
                                "the layout");
        layout->reads = items;
        must(merged.file < maker->index->file_count);
        struct ring_read *read = &layout->reads[layout->read_count++];
        *read = (struct ring_read){
            .file = maker->index->files[merged.file],
            .offset = merged.offset,
            .bytes = (size_t)merged.bytes,
            .slab_offset = block->slab_bytes + (size_t)(merged.offset % SL_IO_ALIGN),
        };
        for (size_t j = first; j < i; j++) {
            const struct range *range = &maker->ranges[j];
            layout->pieces[range->piece].slab_offset[range->part] =
                read->slab_offset + (size_t)(range->offset - merged.offset);
        }
        block->slab_bytes += (size_t)window_bytes(&merged);
    }
    must(block->slab_bytes <= maker->bytes_max);
    block->read_count = layout->read_count - block->first_read;
    return SL_OK;
}

static enum status add_block(struct maker *maker, struct error *err) {
    struct layout *layout = maker->layout;
    struct block block = {.first_piece = layout->piece_count, .first_read = layout->read_count};
    TRY(fill_block(maker, &block, err));
    must(block.piece_count > 0);
    TRY(add_reads(maker, &block, err));
    void *items = layout->blocks;
    if (!mem_grow(&items, &maker->block_cap, layout->block_count + 1, sizeof block))
        return error_memory(err, (layout->block_count + 1) * sizeof block, "the layout");
    layout->blocks = items;
    layout->blocks[layout->block_count++] = block;
    if (block.slab_bytes > layout->slab_bytes_max)
        layout->slab_bytes_max = block.slab_bytes;
    layout->slab_bytes_sum += block.slab_bytes;
    layout->read_bytes += block.read_bytes;
    return SL_OK;
}

static enum status check_items(const struct layout_item *items, size_t count, size_t bytes_max,
                               struct error *err) {
    if (count > UINT32_MAX)
        return error_set(err, SL_ERR_ENV, "the model has %zu matrices, at most %u are accepted",
                         count, UINT32_MAX);
    uint64_t sum = 0, room_max = 0;
    const struct tensor *widest = NULL;
    uint64_t widest_rows = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tensor *tensor = numbers_of(&items[i]);
        if (tensor->bytes == 0)
            return error_set(err, SL_ERR_ENV, "tensor \"%.*s\" has no values",
                             STR_ARG(tensor->name));
        uint64_t bytes = matrix_bytes(&items[i].matrix);
        if (__builtin_add_overflow(sum, bytes, &sum) || sum > LAYOUT_BYTES_MAX)
            return error_set(err, SL_ERR_ENV,
                             "the matrices up to tensor \"%.*s\" have more than 2^56 "
                             "bytes",
                             STR_ARG(tensor->name));
        if (row_room(&items[i]) > room_max) {
            room_max = row_room(&items[i]);
            widest = tensor;
            widest_rows = layout_unit_rows(&items[i]);
        }
    }
    if (room_max > bytes_max)
        return error_set(err, SL_ERR_ENV,
                         "%s of tensor \"%.*s\" needs a block of %llu bytes, and a block may have "
                         "%zu",
                         widest_rows > 1 ? "a part" : "a row", STR_ARG(widest->name),
                         (unsigned long long)room_max, bytes_max);
    return SL_OK;
}

enum status layout_init(struct layout *layout, const struct index *index,
                        const struct layout_item *items, size_t count, size_t bytes_max,
                        struct error *err) {
    if (bytes_max > SL_BLOCK_BYTES_MAX)
        bytes_max = SL_BLOCK_BYTES_MAX;
    bytes_max -= bytes_max % SL_IO_ALIGN;
    TRY(check_items(items, count, bytes_max, err));
    struct layout made = {0};
    struct maker maker = {
        .layout = &made, .index = index, .items = items, .count = count, .bytes_max = bytes_max};
    enum status status = SL_OK;
    while (maker.item < count && status == SL_OK)
        status = add_block(&maker, err);
    mem_free(maker.ranges);
    mem_free(maker.rest);
    if (status == SL_OK)
        *layout = made;
    else
        layout_release(&made);
    return status;
}

void layout_set_units(struct layout_item *items, size_t count) {
    uint64_t sum = 0, unit = LAYOUT_UNIT_BYTES_MIN;
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(sum, matrix_bytes(&items[i].matrix), &sum))
            sum = UINT64_MAX; /* layout_init refuses it */
    while (unit < LAYOUT_UNIT_BYTES_MAX && sum / unit > LAYOUT_UNITS)
        unit *= 2;
    for (size_t i = 0; i < count; i++) {
        uint64_t row = items[i].matrix.parts[MATRIX_NUMBERS].row_bytes;
        if (items[i].unit_rows == 0 && row > 0)
            items[i].unit_rows = size_divide_up(unit, row);
    }
}

void layout_release(struct layout *layout) {
    mem_free(layout->blocks);
    mem_free(layout->pieces);
    mem_free(layout->reads);
    *layout = (struct layout){0};
}
