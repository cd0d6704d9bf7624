/* A view: rows of a matrix where they lie in memory. Borrowed from a lease; never owns.
 *
 * Where a format has its scales in tensors of their own, a view has these too, for its rows. A
 * scale stands for a group of group_rows x group_columns values of the matrix:
 *
 *   FP8 with blocks     128 x 128    a row of scales for 128 rows, the last ones cut off
 *   FP8 with one scale  all x all    one row of one scale; a scale a row: 1 x all
 *   MLX, MXFP4          1 x 16 ..    a row of scales (and one of biases) for each row
 *
 * Pieces of a matrix begin at any row, so rows_before says how many rows of the first group lie
 * above the view. */
#ifndef SLUICE_TENSOR_VIEW_H
#define SLUICE_TENSOR_VIEW_H

#include "tensor/dtype.h"

struct view_scales {
    enum dtype dtype;      /* of a scale and of a bias: F32, F16, BF16 or F8_E8M0 */
    size_t group_rows;     /* at least 1 */
    size_t group_columns;  /* at least 1 */
    size_t rows_before;    /* below group_rows */
    size_t row_bytes;      /* from one row of scales (and of biases) to the next */
    const uint8_t *data;   /* of the group of row 0; any alignment */
    const uint8_t *biases; /* of formats that have them (MLX); laid out as the scales */
};

struct view {
    enum dtype dtype;
    size_t rows;               /* outputs */
    size_t columns;            /* inputs; whole blocks of the format */
    size_t row_bytes;          /* from one row to the next */
    const uint8_t *data;       /* any alignment */
    struct view_scales scales; /* all zero where dtype_info.decode is all */
};

/* Values first .. first + count of a row as float32: the truth, whatever the format. first and
 * count are multiples of the format's block, or end the row. */
void view_decode(const struct view *view, size_t row, size_t first, size_t count, float *dst);
/* Rows first .. first + count of a view. */
struct view view_rows(const struct view *view, size_t first, size_t count);
/* The number of scale rows that rows first .. first + count of a matrix touch, and the first. */
size_t view_scale_rows(size_t group_rows, size_t first, size_t count, size_t *first_scale_row);

#endif
