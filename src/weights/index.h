/* The index of a model's tensors: name, type, shape, file and place. Filled by a container, which
 * checks every field before it enters (bounds, overlaps, overflow); reads no tensor bytes.
 * Constant once filled; any thread.
 *
 * Tensors that we cannot read (an unknown number format, five dimensions) do not spoil a file that
 * may hold them beside what a model needs, such as int64 buffers: they are kept apart, by name, so
 * that whoever needs one can say why it cannot be had. A name stands in one of the two lists. */
#ifndef SLUICE_WEIGHTS_INDEX_H
#define SLUICE_WEIGHTS_INDEX_H

#include "base/map.h"
#include "base/mem.h"
#include "io/file.h"
#include "tensor/dtype.h"

#define SL_TENSOR_DIMS 4

struct tensor {
    struct str name;
    enum dtype dtype;
    uint32_t dims;                  /* 0 (a scalar) to SL_TENSOR_DIMS */
    uint64_t shape[SL_TENSOR_DIMS]; /* outermost first, as published: a matrix is [out, in] */
    uint32_t file;                  /* in index.files */
    uint64_t offset, bytes;         /* in that file */
};

/* A tensor that is there, whole, and of a kind that we do not read. */
struct tensor_unsupported {
    struct str name;
    struct str type; /* for messages: "I64", "q2_k", "BF16 with 5 dimensions" */
    uint32_t file;
    uint64_t bytes;
};

struct index {
    struct arena arena; /* names */
    struct tensor *tensors;
    size_t count, cap;
    struct tensor_unsupported *unsupported;
    size_t unsupported_count, unsupported_cap;
    struct map by_name; /* of both lists */
    struct file **files;
    size_t file_count, file_cap;
};

void index_init(struct index *index);
void index_release(struct index *index); /* closes the files too */
/* Takes ownership of file, also when it fails; *number is its place. */
enum status index_add_file(struct index *index, struct file *file, uint32_t *number,
                           struct error *err);
/* Copies tensor and its name. Refuses a name that is there already, a size that does not follow
 * from type and shape, and bytes outside the file; messages name file and tensor. */
enum status index_add(struct index *index, const struct tensor *tensor, struct error *err);
/* The same for a tensor that cannot be read; the container has checked its place. */
enum status index_add_unsupported(struct index *index, const struct tensor_unsupported *tensor,
                                  struct error *err);
/* NULL when absent. Pointers hold until the next addition. */
const struct tensor *index_find(const struct index *index, struct str name);
/* What a name stands for that index_find does not find, but that the files have; NULL when absent:
 * "tensor X has type I64, which is not supported". */
const struct tensor_unsupported *index_unsupported_find(const struct index *index, struct str name);

#endif
