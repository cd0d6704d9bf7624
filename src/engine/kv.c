/* Owns the pool of KV pages: which are free, and where a layer's part of a page lies. Refuses to
 * know rows: who holds a page gives it back. */
#include "engine/kv.h"

#include "base/mem.h"

/* What every layer keeps of a token. */
static struct kv_layer layer_of(const struct config *config, enum kv_dtype dtype) {
    struct kv_layer layer = {.dtype = dtype,
                             .kv_heads = config->kv_heads,
                             .head_dim = config->head_dim,
                             .value_dim = config->head_dim};
    if (config->latent.kv_rank != 0) {
        layer.kv_heads = 1;
        layer.head_dim = config->latent.kv_rank + config->latent.rope;
        layer.value_dim = config->latent.kv_rank;
        layer.shares_values = true;
    }
    return layer;
}

static size_t layer_bytes(const struct kv_layer *layer) {
    return kv_layer_bytes(layer->dtype, layer->kv_heads, layer->head_dim,
                          layer->shares_values ? 0 : layer->value_dim);
}

size_t kv_page_bytes(const struct config *config, enum kv_dtype dtype) {
    struct kv_layer layer = layer_of(config, dtype);
    return config->layers * layer_bytes(&layer);
}

size_t kv_pages_for(size_t positions) {
    return positions / SL_PAGE_TOKENS + (positions % SL_PAGE_TOKENS != 0);
}

/* Where each layer of page 0 lies; the layers of a page follow each other. */
static void place_layers(struct kv *kv, const struct config *config, enum kv_dtype dtype) {
    size_t offset = 0;
    for (size_t i = 0; i < kv->layer_count; i++) {
        kv->layers[i] = layer_of(config, dtype);
        kv->layers[i].base = kv->pool.data + offset;
        kv->layers[i].page_bytes = kv->page_bytes;
        offset += layer_bytes(&kv->layers[i]);
    }
    must(offset == kv->page_bytes);
}

static enum status fill(struct kv *kv, const struct config *config, enum kv_dtype dtype,
                        struct error *err) {
    size_t bytes;
    if (!size_mul(kv->page_bytes, kv->page_count, &bytes))
        return error_set(err, SL_ERR_ENV, "%zu KV pages of %zu bytes are more than memory can hold",
                         kv->page_count, kv->page_bytes);
    TRY(slab_init(&kv->pool, bytes, err));
    kv->layers = mem_new(kv->layer_count, sizeof *kv->layers);
    kv->free_pages = mem_new(kv->page_count, sizeof *kv->free_pages);
    if (!kv->layers || !kv->free_pages)
        return error_memory(err, kv->page_count * sizeof *kv->free_pages, "the list of KV pages");
    place_layers(kv, config, dtype);
    for (size_t i = 0; i < kv->page_count; i++)
        kv->free_pages[i] = (uint32_t)(kv->page_count - 1 - i); /* page 0 goes out first */
    kv->free_count = kv->page_count;
    return SL_OK;
}

enum status kv_init(struct kv *kv, const struct config *config, enum kv_dtype dtype,
                    size_t page_count, struct error *err) {
    must(page_count >= 1);
    must(page_count <= UINT32_MAX);
    *kv = (struct kv){.page_bytes = kv_page_bytes(config, dtype),
                      .page_count = page_count,
                      .layer_count = config->layers};
    must(kv->page_bytes > 0);
    enum status status = fill(kv, config, dtype, err);
    if (status != SL_OK)
        kv_release(kv);
    return status;
}

void kv_release(struct kv *kv) {
    if (!kv)
        return;
    mem_free(kv->free_pages);
    mem_free(kv->layers);
    slab_release(&kv->pool);
    *kv = (struct kv){0};
}

bool kv_take(struct kv *kv, uint32_t *page) {
    if (kv->free_count == 0)
        return false;
    *page = kv->free_pages[--kv->free_count];
    kv->pages_used++;
    if (kv->pages_used > kv->pages_used_max)
        kv->pages_used_max = kv->pages_used;
    return true;
}

void kv_give(struct kv *kv, uint32_t page) {
    must(page < kv->page_count);
    must(kv->free_count < kv->page_count);
    kv->free_pages[kv->free_count++] = page;
    kv->pages_used--;
}
