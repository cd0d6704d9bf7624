/* Attention beside its arithmetic: up to four query heads that share a key/value head go through
 * its pages together, so that keys and values are loaded and widened once for all of them.
 *
 * heads.c knows no instruction; it walks the pages in batches, and a set brings one function for
 * each KV format and number of heads, which takes a batch into the running softmax. Orders of
 * summing are those of backend.h: sums of shares and of values run in the order of positions. */
#ifndef SLUICE_BACKEND_CPU_HEADS_H
#define SLUICE_BACKEND_CPU_HEADS_H

#include "backend/cpu/kernels.h"

#define HEADS_MAX ((size_t)4)
#define HEADS_BATCH ((size_t)4) /* pages */

/* The keys and values of one page and key/value head, and the slots that count. Those of a page
 * that comes later are asked for while this one is computed: pages lie scattered in memory. */
struct heads_page {
    const uint8_t *keys, *values, *later_keys, *later_values;
    size_t from, to;
    float (*shares)[SL_PAGE_TOKENS]; /* [heads]: scores, then their exponentials; of `heads` */
    float shrink[HEADS_MAX];         /* what older outputs are multiplied by */
};

/* Some heads of one token. Arrays are aligned to 64. */
struct heads {
    const struct cpu_attention *task;
    size_t token, first, count; /* first query head, how many */
    size_t out_stride;          /* value_dim rounded up to 16 */
    float *query;               /* [head_dim, HEADS_MAX] */
    float *out;                 /* [HEADS_MAX, out_stride] */
    float largest[HEADS_MAX];
    _Alignas(64) float sums[HEADS_MAX][SL_PAGE_TOKENS];                /* of shares, slot by slot */
    _Alignas(64) float shares[HEADS_BATCH][HEADS_MAX][SL_PAGE_TOKENS]; /* of a batch of pages */
};

/* By KV format and number of heads. The function takes the first len of HEADS_BATCH pages into the
 * softmax; the others may be read, so they are pages too. */
struct heads_set {
    void (*attend[2][HEADS_MAX + 1])(struct heads *heads, struct heads_page *pages, size_t len);
};

/* cpu_kernels.attend by such a set. */
void heads_attend(const struct heads_set *set, const struct cpu_attention *task, size_t token,
                  size_t kv_head, float *scratch);

#endif
