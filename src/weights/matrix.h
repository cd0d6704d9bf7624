/* Matrices as files hold them: one tensor, or numbers whose scales (and biases) are tensors of
 * their own. This is the one place that knows how parts are named, shaped and laid out; what their
 * bytes mean is in tensor/ (view.h, fmt_scaled.c). docs/formats.md has the table.
 *
 *   published as             parts                                             dtype
 *   NAME.weight              float or GGUF format: one part                    its own
 *   NAME.weight F8_E4M3      NAME.weight_scale_inv | .weight_scale | .scale    F8_E4M3
 *   NAME.weight U32          NAME.scales, NAME.biases                          MLX_2 .. MLX_8
 *   NAME.weight U32          NAME.scales U8                                    MXFP4_SPLIT
 *   NAME_blocks U8           NAME_scales U8 (gpt-oss)                          MXFP4_SPLIT
 *
 * Several matrices of one shape may lie behind one another (slices: experts). Where there are no
 * scales, rows may have one dimension or two, and a single row none. Rows first .. first +
 * count of a matrix are one range of bytes in each part: piece by piece these ranges are what a
 * layout reads, and matrix_view puts a view on top of them wherever they land.
 *
 * Constant once made; borrows the index. */
#ifndef SLUICE_WEIGHTS_MATRIX_H
#define SLUICE_WEIGHTS_MATRIX_H

#include "tensor/view.h"
#include "weights/index.h"

enum { MATRIX_NUMBERS, MATRIX_SCALES, MATRIX_BIASES, SL_MATRIX_PARTS };

struct matrix_part {
    const struct tensor *tensor;
    uint64_t first_row;  /* of this slice, in rows of the part */
    uint64_t rows;       /* of the part, in a slice */
    uint64_t row_bytes;  /* of the part */
    uint64_t group_rows; /* rows of the matrix that share one of the part; 1 for the numbers */
};

struct matrix {
    enum dtype dtype; /* of the view */
    uint64_t rows, columns;
    uint64_t rows_above;    /* rows of the tensor before row 0, where matrix_rows has cut */
    uint64_t group_columns; /* values of a row that share a scale; 0 without scales */
    uint32_t part_count;    /* 1 to 3, in the order of MATRIX_NUMBERS, .. */
    struct matrix_part parts[SL_MATRIX_PARTS];
};

/* What the config says about a matrix; 0: nothing. Shapes decide, and what disagrees is refused. */
struct matrix_hint {
    uint32_t bits, group_columns;       /* MLX: "bits", "group_size" */
    uint32_t block_rows, block_columns; /* FP8: "weight_block_size" */
};

struct matrix_wanted {
    struct str name; /* of the numbers: "model.layers.0.mlp.up_proj.weight", or of gpt-oss's experts
                        what stands before "_blocks" */
    uint64_t slices; /* matrices in it, 1 unless experts are stacked */
    uint64_t rows, columns; /* of each, in values */
    struct matrix_hint hint;
};

/* A range of bytes of a file. */
struct matrix_range {
    uint32_t file;
    uint64_t offset, bytes;
};

/* Whether any tensor makes a matrix of that name, readable or not. */
bool matrix_is_there(const struct index *index, struct str name);
/* Finds the parts and checks their types and shapes. SL_ERR_ENV with the file, the tensor and what
 * is wrong: no scales, two sets of scales, a shape that does not go with the numbers', a mode or
 * type that we do not read. *out is the first slice. */
enum status matrix_find(const struct index *index, const struct matrix_wanted *wanted,
                        struct matrix *out, struct error *err);
/* Slice `number` of what matrix_find gave; it must be one of the wanted ones. */
struct matrix matrix_slice(const struct matrix *first, uint64_t number);

/* Rows first .. first + count alone: of a tensor that holds several matrices. */
struct matrix matrix_rows(const struct matrix *matrix, uint64_t first, uint64_t count);
/* All slices as one matrix, their rows one after the other, from the first slice; false where rows
 * share scales, which then need not fit the border of two slices. */
bool matrix_join(struct matrix *first, uint64_t slices);
uint64_t matrix_bytes(const struct matrix *matrix); /* of all parts, for its rows */
/* What rows first .. first + count need of a part; count > 0. Two neighbouring pieces both have the
 * scales of a group of rows that lies across their border. */
struct matrix_range matrix_range(const struct matrix *matrix, uint32_t part, uint64_t first,
                                 uint64_t count);
/* The view of rows first .. first + count, whose ranges lie at `at[part]`. */
struct view matrix_view(const struct matrix *matrix, uint64_t first, uint64_t count,
                        const uint8_t *const at[SL_MATRIX_PARTS]);

/* Rows by number, for embeddings: each with its scales and biases behind it, one after the other
 * into `into`, which has room for count x matrix_gather_row_bytes. *out is their view. Small
 * buffered reads; any thread. rows[i] must be below matrix->rows (checked by must). */
size_t matrix_gather_row_bytes(const struct matrix *matrix);
enum status matrix_gather(const struct index *index, const struct matrix *matrix,
                          const uint32_t *rows, size_t count, uint8_t *into, struct view *out,
                          struct error *err);

#endif
