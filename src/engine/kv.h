/* KV memory: pools of pages, each page for 16 positions over all layers of a group
 * (backend/kv_view.h has the layout). There are three groups: layers that see the whole row, those
 * with a window, which give back what no later token sees, and those that keep a state of one size
 * instead: there a row has one page from its first token to its end (backend.h has its layout);
 * others go on from a copy of it (engine/fork.h). A group without layers has no pool. A pool is
 * address space reserved once; a page counts against memory once written. One thread.
 *
 * Rows whose tokens begin alike hold the same pages (engine/prefix.h):
 *
 *   free -- kv_take --> held by one -- kv_share, kv_give --> held by n
 *        <-- the last holder's kv_give, unless kept --
 *        <-- kv_take with no page free: the longest unheld -- kept <-- the last kv_give --
 *                                                             kept -- kv_share --> held by one
 *
 * A kept page is one that nobody holds and that a row to come may want: it is as good as free. */
#ifndef SLUICE_ENGINE_KV_H
#define SLUICE_ENGINE_KV_H

#include "backend/kv_view.h"
#include "io/slab.h"
#include "model/config.h"

#define SL_PAGE_GONE UINT32_MAX /* the number of a page that was given back */

enum kv_group { KV_WHOLE, KV_WINDOW, KV_STATE, KV_GROUPS };

struct kv_page {
    uint32_t holders;      /* rows */
    bool is_wanted;        /* kept when nobody holds it */
    uint32_t older, newer; /* among the kept ones; SL_PAGE_GONE: none */
};

struct kv_pool {
    struct slab slab;
    size_t page_bytes, page_count;     /* 0: no layer is in the group */
    size_t pages_used, pages_used_max; /* held; a page that many hold counts once */
    size_t pages_out_max;              /* ever held or kept at once: so many are in memory */
    struct kv_page *pages;             /* [page_count] */
    uint32_t *free_pages;              /* a stack: the page given back last goes out first */
    size_t free_count;
    uint32_t oldest, newest; /* kept */
    size_t kept_count;
};

struct kv {
    struct kv_pool pools[KV_GROUPS];
    /* Told when a kept page goes out to hold something else; NULL: nobody listens. */
    void (*lost)(void *ctx, enum kv_group group, uint32_t page);
    void *lost_ctx;
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
/* Whether a layer keeps a state. */
bool kv_has_states(const struct config *config);
/* Whether rows can go on from what others have computed: where a layer has pages. */
bool kv_can_share(const struct config *config);
/* Bytes of bookkeeping for each page. */
size_t kv_page_notes_bytes(void);
bool kv_take(struct kv *kv, enum kv_group group, uint32_t *page); /* false when none is to be had */
void kv_share(struct kv *kv, enum kv_group group, uint32_t page); /* one holder more */
void kv_give(struct kv *kv, enum kv_group group, uint32_t page);  /* one holder less */
void kv_copy(struct kv *kv, enum kv_group group, uint32_t from, uint32_t to); /* what it holds */
/* Whether the page, now held or kept, is kept when nobody holds it. */
void kv_want(struct kv *kv, enum kv_group group, uint32_t page, bool is_wanted);
/* Pages that kv_take could hand out one after the other. */
size_t kv_free(const struct kv *kv, enum kv_group group);
/* Of all groups: pages held (states are none), their bytes, the bytes of all. */
size_t kv_pages_used(const struct kv *kv);
uint64_t kv_bytes_used(const struct kv *kv);
uint64_t kv_bytes(const struct kv *kv);

#endif
