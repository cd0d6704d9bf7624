/* The header of one GGUF file: its metadata and its list of tensors, in the words of the file.
 * gguf.c makes an index of it. One thread. */
#ifndef SLUICE_WEIGHTS_GGUF_HEADER_H
#define SLUICE_WEIGHTS_GGUF_HEADER_H

#include "io/file.h"
#include "weights/index.h"
#include "weights/meta.h"

struct gguf_tensor {
    struct str name;
    uint32_t dims;                  /* 1 to SL_TENSOR_DIMS */
    uint64_t shape[SL_TENSOR_DIMS]; /* outermost first; the file has them the other way round */
    uint32_t type;                  /* a ggml type number, unchecked */
    uint64_t offset;                /* from data_offset on, unchecked */
};

struct gguf_header {
    struct arena arena; /* names */
    struct gguf_tensor *tensors;
    size_t tensor_count;
    uint64_t alignment;   /* of tensors: general.alignment, a power of two; 32 unless told */
    uint64_t data_offset; /* where tensors begin */
};

/* Reads through the buffered descriptor in pieces of 256 KiB; values go to meta. wants_tensors
 * false: stops after the metadata, and the list stays empty. SL_ERR_ENV, naming the file and the
 * key or tensor. On failure meta has what came before. */
enum status gguf_header_read(const struct file *file, bool wants_tensors,
                             struct gguf_header *header, struct meta *meta, struct error *err);
void gguf_header_release(struct gguf_header *header);

#endif
