/* A view: rows of a matrix where they lie in memory. Borrowed from a lease; never owns. */
#ifndef SLUICE_TENSOR_VIEW_H
#define SLUICE_TENSOR_VIEW_H

#include "tensor/dtype.h"

struct view {
    enum dtype dtype;
    size_t rows;         /* outputs */
    size_t columns;      /* inputs; whole blocks of the format */
    size_t row_bytes;    /* from one row to the next */
    const uint8_t *data; /* any alignment */
};

#endif
