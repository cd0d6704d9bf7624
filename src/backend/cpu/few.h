/* Private to backend/cpu: products for few tokens, at the speed at which memory gives weights.
 *
 * The order of sums (backend.h) makes each block of 256 columns of a row a chain of its own. So the
 * lanes of a vector are not tokens here but chains: four `streams` of weights in each 128 bits, one
 * or more 128-bit `lanes` in a vector. 16 bytes of each of four streams are transposed inside a
 * lane, which needs two shuffles for each, whatever the width of vectors. Two ways to choose the
 * streams:
 *
 *   quads  four blocks of one row are the streams, four rows the lanes: activations come as
 *          [256, tokens, 4], one for each stream, the same for all lanes
 *   rows   one block of 16 rows: for columns left over by quads, and for formats that are decoded
 *          into scratch first; activations come as [columns, tokens]
 *
 * few.c walks over a matrix; an instruction set brings `struct few_set`. What memory has to do
 * matters more than what the processor does, see few.c. */
#ifndef SLUICE_BACKEND_CPU_FEW_H
#define SLUICE_BACKEND_CPU_FEW_H

#include "backend/cpu/kernels.h"
#include "base/num.h"

#define FEW_ROWS ((size_t)16)   /* rows computed together: 4 lanes of 4 streams */
#define FEW_STREAMS ((size_t)4) /* of a lane, 4 bytes each */
#define FEW_LANES ((size_t)4)   /* of a tile: 4 x 4 chains */
#define FEW_QUADS_MAX                                                                              \
    ((size_t)2) /* blocks (or groups of four blocks) beside each other in a tile */
#define FEW_TOKENS_MAX ((size_t)8)
enum { FEW_WIDTHS = 4 }; /* numbers of tokens that kernels are made for: 1, 2, 4, 8 */
#define FEW_LINES_SOON ((size_t)2)

/* Where the streams of a tile begin: w + lane x lane_step + stream x stream_step + quad x
 * quad_step. */
struct few_place {
    const uint8_t *w;
    size_t stream_step, lane_step, quad_step; /* bytes */
};

struct few_tile {
    struct few_place here;
    struct few_place next; /* of the tile after it: to be asked for in good time */
    const uint8_t *ahead;  /* as many bytes as the tile has that memory shall bring meanwhile */
    const float *x;        /* quads: [quads, 256, tokens, 4]; rows: [quads, count, tokens] */
    size_t count;          /* columns of each stream, 256 unless rows and the end of the row */
    float *sums;           /* of each chain: [quads, tokens, lanes, streams], aligned to 64 */
};

typedef void few_multiply(const struct few_tile *tile);

/* By width, and by quads - 1. NULL: none, it would need too many registers. A set has by_tall or
 * by_quads[0] for each width, and by_rows[0]. */
struct few_kernels {
    few_multiply *by_quads[FEW_QUADS_MAX][FEW_WIDTHS];
    few_multiply *by_tall[FEW_WIDTHS]; /* the second quad is that of the four rows below */
    few_multiply *by_rows[FEW_QUADS_MAX][FEW_WIDTHS];
};

struct few_set {
    const struct cpu_decoders *decoders;
    struct few_kernels f32, f16, bf16; /* others are decoded to float32 */
};

/* What a kernel asks for beside each step of 16 bytes of every stream (few.c says why). */
struct few_prefetch {
    const uint8_t *ahead;
    size_t step, lines; /* cache lines of a stream in the tile */
};

static inline struct few_prefetch few_prefetch(const struct few_tile *tile, size_t value_bytes) {
    return (struct few_prefetch){tile->ahead, 0, tile->count * value_bytes / CACHE_LINE};
}

/* Each of the four steps of a line takes one lane of the line after next. */
static inline __attribute__((always_inline)) void
few_prefetch_step(const struct few_tile *tile, struct few_prefetch *prefetch, size_t quads) {
    size_t line = prefetch->step / 4 + FEW_LINES_SOON, lane = prefetch->step % 4;
    const struct few_place *place = line < prefetch->lines ? &tile->here : &tile->next;
    line -= line < prefetch->lines ? 0 : prefetch->lines;
    const uint8_t *soon = place->w + line * CACHE_LINE + lane * place->lane_step;
    for (size_t q = 0; q < quads; q++)
        for (size_t s = 0; s < FEW_STREAMS; s++) {
            __builtin_prefetch(prefetch->ahead, 0, 2);
            __builtin_prefetch(soon + q * place->quad_step + s * place->stream_step, 0, 3);
            prefetch->ahead += CACHE_LINE;
        }
    prefetch->step++;
}

/* The value at w of chain `index`, stream by stream, lane by lane. */
static inline float few_value(const struct few_place *place, const uint8_t *w, size_t index,
                              enum dtype dtype) {
    const uint8_t *at =
        w + index / FEW_STREAMS * place->lane_step + index % FEW_STREAMS * place->stream_step;
    uint16_t half;
    float value;
    if (dtype == DTYPE_F32) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&half, at, sizeof half);
    return dtype == DTYPE_BF16 ? num_from_bf16(half) : num_from_f16(half);
}

/* Floats of x packed for a product; tokens is 1 to FEW_TOKENS_MAX. */
size_t few_floats(size_t columns, size_t tokens);
/* x as kernels read it, for weights of that format. packed is aligned to 64. */
void few_pack(enum dtype dtype, const struct act *x, float *packed);
/* Rows first .. first + count of task->w, which has at least FEW_ROWS; task->packed holds x. */
void few_product(const struct few_set *set, const struct cpu_product *task, size_t first,
                 size_t count, float *scratch);

#endif
