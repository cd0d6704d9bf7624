/* Containers: file formats that hold tensors. Each is one row of a table and fills an index (and,
 * for GGUF, the metadata) without reading tensor bytes. Every header field is checked before use.
 *
 * safetensors: a folder with model.safetensors, or model.safetensors.index.json and the shards it
 * names (https://github.com/huggingface/safetensors, README "Format"). Rules of CASES 28 and 29:
 * offsets tile the data exactly, the file has the size its header says.
 * gguf: versions 2 and 3, one file or the first of a split set NAME-00001-of-000NN.gguf
 * (ggml's docs/gguf.md). */
#ifndef SLUICE_WEIGHTS_CONTAINER_H
#define SLUICE_WEIGHTS_CONTAINER_H

#include "weights/index.h"
#include "weights/meta.h"

struct container {
    const char *name;
    /* Whether path (a folder or file that exists) looks like one of these. */
    bool (*matches)(const char *path);
    /* Fills index and meta, both initialised and empty; on failure the caller releases them.
     * wants_tensors false: only what precedes the tensors (metadata); safetensors then does
     * nothing. Files are opened with direct I/O where possible. SL_ERR_ENV; messages name the file.
     */
    enum status (*open)(const char *path, bool wants_tensors, struct index *index,
                        struct meta *meta, struct error *err);
};

extern const struct container container_safetensors, container_gguf;

/* Limits, so that a hostile header cannot ask for much: stated in docs/files.md. */
#define SL_SAFETENSORS_HEADER_MAX ((size_t)100 << 20)
#define SL_SAFETENSORS_TENSORS_MAX 1000000u /* of a file; and values of an index file */
#define SL_GGUF_HEADER_MAX ((size_t)1 << 30)
#define SL_GGUF_KEYS_MAX 65536u
#define SL_GGUF_TENSORS_MAX 1000000u
#define SL_GGUF_ITEMS_MAX (1u << 24)   /* of all arrays of a file together */
#define SL_GGUF_STRING_MAX (64u << 20) /* bytes of a value; chat templates are long */
#define SL_GGUF_NAME_MAX 65535u        /* bytes of a key or of a tensor's name */
#define SL_SHARDS_MAX 4096u

/* The container of path, opened; SL_ERR_ENV when none matches or path is not there. */
enum status container_open(const char *path, bool wants_tensors, const struct container **container,
                           struct index *index, struct meta *meta, struct error *err);

#endif
