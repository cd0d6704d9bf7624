/* The layout: the matrices of a pass, in the order of use, cut into blocks that fit a slab.
 *
 *   items (matrices, in pass order)       blocks                       reads (merged ranges of
 * files) layer 0: q k v o | gate up down  ...  [q k v o] [gate up][up down] ...  one to a few a
 * block
 *
 * A block ends where an item has starts_block and where the next rows would pass bytes_max or an
 * equal share; a matrix that does not fit is cut by rows. Every row of every item lies in exactly
 * one piece, pieces keep the order of the items, and adjacent ranges of one file merge into one
 * read. Where scales are tensors of their own, a piece has a range in each part; neighbouring
 * pieces may both have the row of scales that their border cuts. Owns its arrays; constant once
 * made. */
#ifndef SLUICE_WEIGHTS_LAYOUT_H
#define SLUICE_WEIGHTS_LAYOUT_H

#include "io/ring.h"
#include "weights/matrix.h"

#define SL_BLOCK_BYTES_MAX ((size_t)256 << 20)
/* Ranges of one file that lie closer than this are read as one: the gap costs less than a read. */
#define SL_READ_GAP_BYTES ((size_t)64 << 10)

struct layout_item {
    struct matrix matrix; /* an expert's slice of a stack, some rows of a tensor, or all of it */
    uint32_t key;         /* the caller's name for it; comes back in the pieces */
    bool starts_block;
    /* Its rows are cut at multiples of so many alone; 0: 1. At least its rows: it is never cut. */
    uint64_t unit_rows;
};

/* Rows of an item inside a block. */
struct piece {
    uint32_t item; /* in the items given to layout_init */
    uint32_t key;
    size_t first_row;
    uint32_t part_count;
    size_t slab_offset[SL_MATRIX_PARTS]; /* where each part begins in the block's memory */
    struct view view;                    /* pointers NULL: a lease fills them */
};

struct block {
    size_t first_piece, piece_count; /* in layout.pieces */
    size_t first_read, read_count;   /* in layout.reads */
    size_t slab_bytes;               /* memory it needs, alignment windows included */
    size_t read_bytes;               /* bytes of weights in it */
};

struct layout {
    struct block *blocks;
    struct piece *pieces;
    struct ring_read *reads;
    size_t block_count, piece_count, read_count;
    size_t slab_bytes_max;   /* of the largest block */
    uint64_t slab_bytes_sum; /* of all blocks: what resident needs */
    uint64_t read_bytes;     /* of weights in a pass */
};

/* bytes_max: of a block's memory, cut to SL_BLOCK_BYTES_MAX; must hold the largest unit and
 * its alignment (else SL_ERR_ENV, naming the least that would do). What lies between two
 * starts_block is cut into as few blocks as hold it, of about equal size. index must outlive the
 * layout. */
enum status layout_init(struct layout *layout, const struct index *index,
                        const struct layout_item *items, size_t count, size_t bytes_max,
                        struct error *err);
void layout_release(struct layout *layout);
/* Rows of an item that are never apart, at least 1. */
uint64_t layout_unit_rows(const struct layout_item *item);
/* Gives the items that have no unit_rows units of a few KiB to 1 MiB, the larger the more bytes all
 * items have: about 2^17 units of a large model, whatever the blocks. Never more than a sixteenth
 * of any block that a plan considers. */
void layout_set_units(struct layout_item *items, size_t count);

#endif
