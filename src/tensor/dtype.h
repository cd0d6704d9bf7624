/* Number formats: one row a format. `decode` is the truth that every fast kernel must agree with.
 *
 * A format packs block_values consecutive values of a row into block_bytes. Rows are whole blocks.
 * Formats and their layouts: GGUF as documented in the ggml project's gguf.md and read with gguf-py
 * (fixtures/gguf/blocks.json has its values); safetensors names as in its README. */
#ifndef SLUICE_TENSOR_DTYPE_H
#define SLUICE_TENSOR_DTYPE_H

#include "base/str.h"

enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_Q8_0,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q6_K,
    DTYPE_COUNT,
};

struct dtype_info {
    const char *name;        /* as show prints it: "bf16", "q4_1" */
    const char *safetensors; /* name in a safetensors header, NULL if it has none */
    int32_t ggml_type;       /* number in a GGUF file, -1 if it has none */
    uint32_t block_values;   /* 1, 32 or 256 */
    uint32_t block_bytes;
    bool is_quantised;
    /* count values (a multiple of block_values) from src (any alignment) as float32, exactly what
     * the format means. */
    void (*decode)(const void *src, size_t count, float *dst);
};

const struct dtype_info *dtype_get(enum dtype dtype);
/* False when no row has it; the caller says which file and tensor. */
bool dtype_from_safetensors(struct str name, enum dtype *out);
bool dtype_from_ggml(uint32_t type, enum dtype *out);
/* Name of a ggml type that we do not read, for messages ("iq2_xxs"); "type 77" is left to the
 * caller (NULL). */
const char *dtype_ggml_name(uint32_t type);
/* Block of a ggml type, whether we read it or not, so that its place in a file can be checked.
 * False for a number that ggml has not, or has given up. */
bool dtype_ggml_block(uint32_t type, uint32_t *values, uint32_t *bytes);
/* Bits of a value of a safetensors type, whether we read it or not (F4 has 4); false for a name
 * that the format does not have. */
bool dtype_safetensors_bits(struct str name, uint32_t *bits);
/* Bytes of a row of `values`; false if values is not whole blocks or it overflows. */
bool dtype_row_bytes(enum dtype dtype, uint64_t values, uint64_t *out);

#endif
