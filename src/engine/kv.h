/* KV memory: a pool of pages, each for 16 positions of one row over all layers (backend/kv_view.h
 * has the layout). The pool is address space reserved once; a page counts against memory once
 * written. One thread. */
#ifndef SLUICE_ENGINE_KV_H
#define SLUICE_ENGINE_KV_H

#include "backend/kv_view.h"
#include "io/slab.h"
#include "model/config.h"

struct kv {
    struct slab pool;
    size_t page_bytes, page_count;
    size_t pages_used, pages_used_max;
    struct kv_layer *layers; /* [layers] */
    size_t layer_count;
    uint32_t *free_pages; /* a stack: the page given back last goes out first */
    size_t free_count;
};

enum status kv_init(struct kv *kv, const struct config *config, enum kv_dtype dtype,
                    size_t page_count, struct error *err);
void kv_release(struct kv *kv);
/* Pages that hold so many positions. */
size_t kv_pages_for(size_t positions);
/* Bytes of a page over all layers. */
size_t kv_page_bytes(const struct config *config, enum kv_dtype dtype);
bool kv_take(struct kv *kv, uint32_t *page); /* false when none is free */
void kv_give(struct kv *kv, uint32_t page);

#endif
