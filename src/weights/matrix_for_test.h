/* For tests alone: a tensor [rows, columns] without scales as a matrix. */
#ifndef SLUICE_WEIGHTS_MATRIX_FOR_TEST_H
#define SLUICE_WEIGHTS_MATRIX_FOR_TEST_H

#include "weights/matrix.h"

static inline struct matrix plain_matrix(const struct tensor *tensor) {
    uint64_t rows = tensor->dims < 2 ? 1 : tensor->shape[0];
    return (struct matrix){
        .dtype = tensor->dtype,
        .rows = rows,
        .columns = tensor->dims == 0 ? 1 : tensor->shape[tensor->dims - 1],
        .part_count = 1,
        .parts =
            {{.tensor = tensor, .rows = rows, .row_bytes = tensor->bytes / rows, .group_rows = 1}},
    };
}

#endif
