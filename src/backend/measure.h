/* Measured rates of one kernel set, beside what the processor can do at most.
 *
 * Products: weights of each format times so many tokens, on all threads. The weights cycle through
 * memory that no cache holds (four times the third-level cache, 128 MB to 1 GB, in huge pages if to
 * be had), as in a pass over a model. A figure is the best of short rounds, 3 ms each or one
 * product, for about `seconds`; three at least, one where they are long. The peak of multiply-adds
 * and the rate of reading memory are measured again between the figures, and the best counts, so
 * that on a machine with other work all of them have had the same luck.
 *
 * Decoding: what a product costs besides what grows with its tokens. On one thread, with weights of
 * 192 x 256 that the second-level cache holds, the products of 32 and of 288 tokens in turn; an
 * eighth of the difference is what 32 tokens cost, and the rest of the first is decoding, with
 * whatever else the set does once for all tokens. For AVX2 that is within 3 % of the products of
 * what its decoders take alone.
 *
 * Memory, in measure_init alone: the weights, activations for the largest token count (at most 256
 * MB each way), and two backends' scratch. Time: dtypes x tokens x seconds and a fifth more, unless
 * single products take longer. One thread calls. */
#ifndef SLUICE_BACKEND_MEASURE_H
#define SLUICE_BACKEND_MEASURE_H

#include "base/str.h"
#include "tensor/dtype.h"

#define MEASURE_TOKENS_MAX ((size_t)8192)
#define MEASURE_SIDE_MAX ((size_t)1 << 20) /* of a matrix */

struct measure_options {
    const char *kernels; /* a set's name, as in backend_options */
    const char *isa;     /* NULL: the best; others for tests */
    size_t threads;
    size_t outputs, inputs; /* of the matrix; inputs are whole blocks of each format */
    const enum dtype *dtypes;
    size_t dtype_count;
    const size_t *tokens; /* 1 to MEASURE_TOKENS_MAX */
    size_t token_count;
    double seconds;    /* of a figure */
    size_t pool_bytes; /* of the weights that are cycled through; 0: as above */
    bool is_brief;     /* products alone: no decoding, memory and peak once */
    /* Asked between rounds; NULL: never. */
    bool (*should_stop)(void);
    /* Before each format; NULL: nobody wants to know. */
    void (*progress)(const char *kernels, const char *dtype, size_t done, size_t count);
};

struct measure_product {
    enum dtype dtype;
    size_t tokens;
    double flops_per_second;         /* 2 x outputs x inputs x tokens a product */
    double weights_bytes_per_second; /* of the matrix, scales too */
};

struct measure_decode {
    enum dtype dtype;
    double values_per_second; /* of one thread; 0: too fast to tell, as the share is then */
    double share_of_products_32;
};

struct measure {
    const char *kernels, *isa, *peak_name; /* constant strings */
    size_t threads, outputs, inputs;
    double peak_flops_per_second; /* of peak_name, all threads */
    double memory_bytes_per_second;
    struct measure_product *products; /* [dtypes, tokens] */
    size_t product_count;
    struct measure_decode *decodes; /* [dtypes] */
    size_t decode_count;
};

/* Whether there are products of the format, and whether a row of so many inputs is whole blocks. */
bool measure_has_products(enum dtype dtype);
bool measure_fits(enum dtype dtype, size_t inputs);
/* The name that tells every format from every other: those that share one in dtype.h differ in
 * where their scales lie, and the later is called NAME_split. */
const char *measure_name(enum dtype dtype);

/* SL_ERR_USAGE for a shape that is too large, SL_ERR_ENV for a set that cannot be had or no memory,
 * SL_ERR_STOPPED. */
enum status measure_init(struct measure *measure, const struct measure_options *options,
                         struct error *err);
void measure_release(struct measure *measure); /* accepts a zeroed one */

#endif
