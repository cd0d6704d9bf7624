/* Private to the kernel sets that multiply in bf16 on x86 (avx512bf16*.c, amx.c, bf16_pack.c):
 * AVX-512 F, BW, DQ, VL and BF16. Functions carry the target attribute one by one, as in avx2.h. */
#ifndef SLUICE_BACKEND_CPU_BF16_H
#define SLUICE_BACKEND_CPU_BF16_H

#include "backend/cpu/kernels.h"

#define BF16_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"
#define BF16 __attribute__((target(BF16_TARGET)))
#define BF16_INLINE static inline __attribute__((always_inline, target(BF16_TARGET)))

/* Before a loop whose count is a constant after inlining and whose arrays belong in registers. */
#ifdef __clang__
#define BF16_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BF16_UNROLL _Pragma("GCC unroll 16")
#endif

/* 32 columns of a row of weights, one step of the packing: a cache line. */
#define BF16_STEP ((size_t)32)

/* A block of columns of one row of weights as bf16, with zeros up to a multiple of 32 columns. Each
 * 32 columns go to a line of their own, `stride` bytes after the one before. */
struct bf16_row {
    const struct view *w;
    size_t row, column, count;
    float *decoded; /* scratch for as many values */
    uint8_t *out;   /* aligned to 64 */
    size_t stride;
};

/* The weights of the panel that comes next, asked for line by line between multiplications: many
 * at once would only wait for each other, and the multiplications for them. */
struct bf16_ahead {
    const uint8_t *at;    /* the next line */
    size_t left, in_row;  /* lines of this row that are left, and lines of a row */
    size_t to_next_row;   /* bytes from the last line of a row to the first of the next */
    size_t total, a_step; /* lines of the panel that are left, and the share of a step */
};

/* The panel after that of a place, which is multiplied in so many steps. */
static inline struct bf16_ahead bf16_ahead_of(const struct cpu_product *task,
                                              const struct cpu_place *place, size_t steps) {
    struct cpu_prefetch next = cpu_prefetch_after(task, place);
    size_t in_row = (next.block_bytes + CACHE_LINE - 1) / CACHE_LINE, total = next.rows * in_row;
    return (struct bf16_ahead){
        .at = next.at,
        .left = in_row,
        .in_row = in_row,
        .to_next_row = next.row_bytes - (in_row - 1) * CACHE_LINE,
        .total = total,
        .a_step = (total + steps - 1) / steps,
    };
}

/* Asks for one line. */
static inline __attribute__((always_inline)) void bf16_ask(struct bf16_ahead *ahead) {
    __builtin_prefetch(ahead->at, 0, 2);
    bool is_last = --ahead->left == 0;
    ahead->at += is_last ? ahead->to_next_row : CACHE_LINE;
    ahead->left = is_last ? ahead->in_row : ahead->left;
}

/* How many lines the next step asks for; they count as asked for. */
static inline size_t bf16_share(struct bf16_ahead *ahead) {
    size_t share = ahead->total < ahead->a_step ? ahead->total : ahead->a_step;
    ahead->total -= share;
    return share;
}

/* bf16_pack.c */
void bf16_load_row(const struct bf16_row *row);
void bf16_pack(const struct act *x, size_t tile, size_t first, size_t count, uint32_t *words);

/* Products for 1 to BF16_FEW_MAX tokens, lanes along outputs; packed begins with words
 * [pairs, tokens]. avx512bf16_few.c */
#define BF16_FEW_MAX ((size_t)8)
void bf16_pack_few(const struct act *x, size_t first, size_t count, uint32_t *words);
void bf16_few(const struct cpu_product *task, size_t first, size_t count, float *scratch);

#endif
