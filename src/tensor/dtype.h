/* Number formats: one row a format. `decode` (or `decode_row`) is the truth that every fast kernel
 * must agree with; view_decode in view.h takes whichever a format has.
 *
 * A format packs block_values consecutive values of a row into block_bytes. Rows are whole blocks.
 * Where scales lie in other tensors, the blocks here are those of the numbers alone.
 * Formats and their layouts: GGUF as documented in the ggml project's gguf.md and read with gguf-py
 * (fixtures/gguf/blocks.json has its values); safetensors names as in its README. */
#ifndef SLUICE_TENSOR_DTYPE_H
#define SLUICE_TENSOR_DTYPE_H

#include "base/str.h"

struct view;

enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_Q8_0,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_IQ4_NL,
    DTYPE_IQ4_XS,
    DTYPE_TQ1_0,
    DTYPE_TQ2_0,
    DTYPE_MXFP4, /* of ggml */
    /* Scales in tensors of their own: view.scales. */
    DTYPE_F8_E4M3,
    DTYPE_MLX_2, /* bits of a number; MLX calls the mode "affine" */
    DTYPE_MLX_3,
    DTYPE_MLX_4,
    DTYPE_MLX_5,
    DTYPE_MLX_6,
    DTYPE_MLX_7,
    DTYPE_MLX_8,
    DTYPE_MXFP4_SPLIT, /* of gpt-oss and MLX */
    /* What parts of such matrices are stored as. No matrix by themselves. */
    DTYPE_F8_E8M0,
    DTYPE_U8,
    DTYPE_U32,
    DTYPE_COUNT,
};
/* Something for each MLX format. */
#define SL_EACH_MLX_BITS(DO) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8)

struct dtype_info {
    const char *name;        /* as show prints it: "bf16", "q4_1" */
    const char *safetensors; /* name in a safetensors header, NULL if it has none */
    int32_t ggml_type;       /* number in a GGUF file, -1 if it has none */
    uint32_t block_values;   /* 1, 32 or 256 */
    uint32_t block_bytes;
    bool is_quantised;
    /* count values (a multiple of block_values) from src (any alignment) as float32, exactly what
     * the format means. NULL when src alone does not say it. */
    void (*decode)(const void *src, size_t count, float *dst);
    /* The same for formats whose scales lie elsewhere: values first .. first + count of a row, both
     * multiples of block_values. A format has one of the two; one that has neither is no format of
     * matrices. */
    void (*decode_row)(const struct view *view, size_t row, size_t first, size_t count, float *dst);
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
