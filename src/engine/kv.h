/* KV memory: pools of pages, each page for 16 positions of one row over all layers of a group
 * (backend/kv_view.h has the layout). There are three groups: layers that see the whole row, those
 * with a window, which give back what no later token sees, and those that keep a state of one size
 * instead: there a row has one page from its first token to its end (backend.h has its layout),
 * which no other row can go on from. A group without layers has no pool. A pool is address space
 * reserved once; a page counts against memory once written. One thread. */
#ifndef SLUICE_ENGINE_KV_H
#define SLUICE_ENGINE_KV_H

#include "backend/kv_view.h"
#include "io/slab.h"
#include "model/config.h"

#define SL_PAGE_GONE UINT32_MAX /* the number of a page that was given back */

enum kv_group { KV_WHOLE, KV_WINDOW, KV_STATE, KV_GROUPS };

struct kv_pool {
    struct slab slab;
    size_t page_bytes, page_count; /* 0: no layer is in the group */
    size_t pages_used, pages_used_max;
    uint32_t *free_pages; /* a stack: the page given back last goes out first */
    size_t free_count;
};

struct kv {
    struct kv_pool pools[KV_GROUPS];
    struct kv_layer *layers; /* [layers] */
    size_t layer_count;
    uint32_t window; /* of the windowed group */
};

/* page_counts of groups without layers count for nothing. */
enum status kv_init(struct kv *kv, const struct config *config, enum kv_dtype dtype,
                    const size_t page_counts[KV_GROUPS], struct error *err);
void kv_release(struct kv *kv);
/* Pages that hold so many positions. */
size_t kv_pages_for(size_t positions);
/* Pages that `window` consecutive positions touch at most: what a windowed group keeps of a row
 * between passes, and what a token needs there. */
size_t kv_window_pages(uint32_t window);
/* Bytes of a page over all layers of the group; 0 when it has none. */
size_t kv_page_bytes(const struct config *config, enum kv_dtype dtype, enum kv_group group);
/* Window of the windowed group; 0 when no layer has one. */
uint32_t kv_window(const struct config *config);
bool kv_take(struct kv *kv, enum kv_group group, uint32_t *page); /* false when none is free */
void kv_give(struct kv *kv, enum kv_group group, uint32_t page);
/* Whether layers keep a state: then what a row has computed ends at its last token, and its pages
 * are of no use to a row with the same beginning. */
bool kv_has_state(const struct kv *kv);
/* Of all groups: pages taken (states are none), their bytes, the bytes of all. */
size_t kv_pages_used(const struct kv *kv);
uint64_t kv_bytes_used(const struct kv *kv);
uint64_t kv_bytes(const struct kv *kv);

#endif
