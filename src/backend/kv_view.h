/* How keys and values lie in memory, as kernels see them. engine/kv.c owns the memory.
 *
 * A page holds 16 consecutive positions of one row, for all layers of its group: those without a
 * window, or those with one, which keep fewer pages of a row. Page p starts at base + p x
 * page_bytes; layer l of it at layer_offset[l] bytes further: first the keys [kv_heads, head_dim,
 * 16] (positions run fastest, so scores of a page are 16 lanes), then the values [kv_heads, 16,
 * value_dim] (so the weighted sum has its lanes along value_dim). Elements are bf16 or float32.
 * A compressed cache (MLA) keeps keys alone: see shares_values.
 * What lies past a token's own position is garbage to it: keys there may be loaded but count for
 * nothing, values are not read. */
#ifndef SLUICE_BACKEND_KV_VIEW_H
#define SLUICE_BACKEND_KV_VIEW_H

#include "base/status.h"

#define SL_PAGE_TOKENS 16u
#define SL_HEAD_DIM_MAX ((size_t)1024) /* head_dim and value_dim; bounds the scratch of kernels */

/* Tokens first .. first + count of a pass that follow each other in one row. */
struct kv_run {
    size_t first, count;
};

enum kv_dtype { KV_BF16, KV_F32 };

struct kv_layer {
    uint8_t *base;     /* of page 0 of this layer: pool + layer offset */
    size_t page_bytes; /* from one page to the next */
    enum kv_dtype dtype;
    uint32_t kv_heads, head_dim, value_dim;
    bool shares_values; /* the first value_dim features of a key are the value; none is kept */
    bool is_windowed;   /* its pages are those of kv_token.window_pages */
};

/* A token of the pass, as attention sees it. */
struct kv_token {
    uint32_t position;     /* of this token in its row */
    uint32_t row_limit;    /* positions that its row may reach: prompt and most new tokens */
    const uint32_t *pages; /* page numbers of its row; pages[position / 16] is there already */
    /* Likewise for windowed layers. Numbers of pages that no token of this pass sees through its
     * window are gone: they must not be followed. */
    const uint32_t *window_pages;
    uint32_t state; /* the slot of its row, for layers that keep a state (delta_args) */
};

static inline const uint32_t *kv_pages(const struct kv_layer *layer, const struct kv_token *token) {
    return layer->is_windowed ? token->window_pages : token->pages;
}

static inline size_t kv_value_bytes(enum kv_dtype dtype) {
    return dtype == KV_BF16 ? 2 : 4;
}

/* Bytes of one layer of a page; value_dim 0 where keys serve as values. */
static inline size_t kv_layer_bytes(enum kv_dtype dtype, uint32_t kv_heads, uint32_t head_dim,
                                    uint32_t value_dim) {
    return (size_t)SL_PAGE_TOKENS * kv_heads * ((size_t)head_dim + value_dim) *
           kv_value_bytes(dtype);
}

#endif
