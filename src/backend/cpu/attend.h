/* Attention of the vector sets: up to 16 queries that share a key/value head go through the pages
 * of their row together: the query heads of the group, of a token or of several tokens of one row.
 * Keys and values are loaded and widened once for all of them.
 *
 * attend.c walks the pages in batches; a set brings one function that takes a batch into the
 * running softmax, by compiling attend_lanes.h. Orders of summing are those of backend.h, for each
 * query by itself, so who goes together does not matter. */
#ifndef SLUICE_BACKEND_CPU_ATTEND_H
#define SLUICE_BACKEND_CPU_ATTEND_H

#include "backend/cpu/kernels.h"
#include "base/num.h"

#define ATTEND_QUERIES SL_LANES
#define ATTEND_PAGES ((size_t)4) /* of a batch */

struct attend_query {
    size_t token, head;
    size_t oldest, position; /* the positions that it sees: from one to the other, both included */
};

/* The keys and values of one page and key/value head. Those of a page that comes later are asked
 * for while this one is computed: pages lie scattered in memory. */
struct attend_page {
    const uint8_t *keys, *values, *later_keys, *later_values;
    size_t start;                                              /* position of slot 0 */
    size_t from, to;                                           /* slots that some query sees */
    bool is_same;                                              /* all queries see these */
    _Alignas(64) float shares[ATTEND_QUERIES][SL_PAGE_TOKENS]; /* scores, then exponentials */
    float shrink[ATTEND_QUERIES]; /* what older outputs are multiplied by */
};

/* Queries on their way through the pages. Arrays are aligned to 64. */
struct attend {
    const struct cpu_attention *task;
    size_t count, width;       /* queries; the most that there is room for */
    size_t out_stride;         /* value_dim rounded up to 16 */
    size_t keys_at, values_at; /* of the key/value head: bytes from the start of a page */
    float *queries;            /* [head_dim, width] */
    float *out;                /* [width, out_stride] */
    struct attend_query query[ATTEND_QUERIES];
    _Alignas(64) float largest[ATTEND_QUERIES];
    _Alignas(64) float sums[ATTEND_QUERIES][SL_PAGE_TOKENS]; /* of shares, slot by slot */
    /* Sixteen outputs of the values of a batch, where these do not lie side by side in a page. */
    _Alignas(64) float staged[ATTEND_PAGES][SL_PAGE_TOKENS][SL_LANES];
};

/* Takes the first len of ATTEND_PAGES pages into the softmax; the others may be read, so they are
 * pages too. */
typedef void attend_batch(struct attend *attend, struct attend_page *pages, size_t len);

/* The slots of a page that a query sees, from .. to; none if to <= from. */
static inline size_t attend_from(const struct attend_query *query, const struct attend_page *page) {
    size_t from = query->oldest > page->start ? query->oldest - page->start : 0;
    return from < SL_PAGE_TOKENS ? from : SL_PAGE_TOKENS;
}

static inline size_t attend_to(const struct attend_query *query, const struct attend_page *page) {
    size_t end = query->position + 1;
    size_t seen = end > page->start ? end - page->start : 0;
    return seen < SL_PAGE_TOKENS ? seen : SL_PAGE_TOKENS;
}

/* An element of keys or values. */
static inline float attend_element(const uint8_t *base, size_t index, enum kv_dtype dtype) {
    uint16_t bits;
    float value;
    if (dtype == KV_F32) {
        memcpy(&value, base + 4 * index, sizeof value);
        return value;
    }
    memcpy(&bits, base + 2 * index, sizeof bits);
    return num_from_bf16(bits);
}

/* cpu_kernels.attend by such a function. */
void attend_tokens(attend_batch *batch, const struct cpu_attention *task, struct cpu_heads heads,
                   float *scratch);

#endif
