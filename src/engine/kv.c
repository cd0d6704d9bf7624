/* Owns the pools of KV pages: which are free, how many hold each, and where a layer's part of a
 * page lies. Refuses to know rows and tokens: who holds a page gives it back, and what a kept one
 * has is prefix.c's to know. */
#include "engine/kv.h"

#include "base/mem.h"

#include <string.h>

/* What a layer keeps of a token. */
static struct kv_layer layer_of(const struct config *config, size_t number, enum kv_dtype dtype) {
    struct layer_sizes sizes = config_layer(config, (uint32_t)number);
    struct kv_layer layer = {.dtype = dtype,
                             .kv_heads = sizes.kv_heads,
                             .head_dim = sizes.head_dim,
                             .value_dim = sizes.head_dim};
    if (config->latent.kv_rank != 0) {
        layer.kv_heads = 1;
        layer.head_dim = config->latent.kv_rank + config->latent.rope;
        layer.value_dim = config->latent.kv_rank;
        layer.shares_values = true;
    }
    return layer;
}

/* Whether it reads what another layer keeps. */
static bool is_shared(const struct config *config, size_t number) {
    return config_layer(config, (uint32_t)number).kv_layer != number;
}

static size_t state_bytes(const struct config *config) {
    return delta_state_floats(&config->delta.shape) * sizeof(float);
}

static size_t layer_bytes(const struct kv_layer *layer) {
    return kv_layer_bytes(layer->dtype, layer->kv_heads, layer->head_dim,
                          layer->shares_values ? 0 : layer->value_dim);
}

/* A compressed cache is seen whole, whatever the config says of windows. */
static enum kv_group group_of(const struct config *config, size_t layer) {
    if (config_is_delta(config, (uint32_t)layer))
        return KV_STATE;
    bool is_windowed = config->window != 0 && config->is_windowed != NULL &&
                       config->is_windowed[layer] && config->latent.kv_rank == 0;
    return is_windowed ? KV_WINDOW : KV_WHOLE;
}

size_t kv_page_bytes(const struct config *config, enum kv_dtype dtype, enum kv_group group) {
    size_t bytes = 0;
    for (size_t i = 0; i < config->layers; i++) {
        struct kv_layer layer = layer_of(config, i, dtype);
        size_t each = group == KV_STATE ? state_bytes(config) : layer_bytes(&layer);
        bytes += group_of(config, i) == group && !is_shared(config, i) ? each : 0;
    }
    return bytes;
}

uint32_t kv_window(const struct config *config) {
    for (size_t i = 0; i < config->layers; i++)
        if (group_of(config, i) == KV_WINDOW)
            return config->window;
    return 0;
}

size_t kv_pages_for(size_t positions) {
    return positions / SL_PAGE_TOKENS + (positions % SL_PAGE_TOKENS != 0);
}

/* Most when the first position is the last of its page. */
size_t kv_window_pages(uint32_t window) {
    return window == 0 ? 0 : 1 + kv_pages_for((size_t)window - 1);
}

/* Where each layer of page 0 lies; the layers of a page follow each other. */
static void place_layers(struct kv *kv, const struct config *config, enum kv_dtype dtype) {
    size_t offsets[KV_GROUPS] = {0};
    for (size_t i = 0; i < kv->layer_count; i++) {
        enum kv_group group = group_of(config, i);
        const struct kv_pool *pool = &kv->pools[group];
        if (is_shared(config, i)) {
            kv->layers[i] = kv->layers[config_layer(config, (uint32_t)i).kv_layer];
            continue;
        }
        kv->layers[i] = layer_of(config, i, dtype);
        kv->layers[i].is_windowed = group == KV_WINDOW;
        kv->layers[i].base = pool->slab.data + offsets[group];
        kv->layers[i].page_bytes = pool->page_bytes;
        offsets[group] += group == KV_STATE ? state_bytes(config) : layer_bytes(&kv->layers[i]);
    }
    for (size_t group = 0; group < KV_GROUPS; group++)
        must(offsets[group] == kv->pools[group].page_bytes);
}

static enum status pool_init(struct kv_pool *pool, size_t page_count, struct error *err) {
    size_t bytes;
    must(page_count >= 1);
    must(page_count < SL_PAGE_GONE);
    if (!size_mul(pool->page_bytes, page_count, &bytes))
        return error_set(err, SL_ERR_ENV, "%zu KV pages of %zu bytes are more than memory can hold",
                         page_count, pool->page_bytes);
    TRY(slab_init(&pool->slab, bytes, err));
    pool->free_pages = mem_new(page_count, sizeof *pool->free_pages);
    pool->pages = mem_new(page_count, sizeof *pool->pages);
    if (pool->free_pages == NULL || pool->pages == NULL)
        return error_memory(err, page_count * sizeof *pool->free_pages, "the list of KV pages");
    for (size_t i = 0; i < page_count; i++)
        pool->free_pages[i] = (uint32_t)(page_count - 1 - i); /* page 0 goes out first */
    pool->page_count = pool->free_count = page_count;
    pool->oldest = pool->newest = SL_PAGE_GONE;
    return SL_OK;
}

static enum status fill(struct kv *kv, const struct config *config, enum kv_dtype dtype,
                        const size_t page_counts[KV_GROUPS], struct error *err) {
    for (int group = 0; group < KV_GROUPS; group++) {
        struct kv_pool *pool = &kv->pools[group];
        pool->page_bytes = kv_page_bytes(config, dtype, (enum kv_group)group);
        if (pool->page_bytes > 0)
            TRY(pool_init(pool, page_counts[group], err));
    }
    kv->layers = mem_new(kv->layer_count, sizeof *kv->layers);
    if (kv->layers == NULL)
        return error_memory(err, kv->layer_count * sizeof *kv->layers, "the layers of KV pages");
    place_layers(kv, config, dtype);
    return SL_OK;
}

enum status kv_init(struct kv *kv, const struct config *config, enum kv_dtype dtype,
                    const size_t page_counts[KV_GROUPS], struct error *err) {
    must(config->layers > 0);
    *kv = (struct kv){.layer_count = config->layers, .window = kv_window(config)};
    enum status status = fill(kv, config, dtype, page_counts, err);
    if (status != SL_OK)
        kv_release(kv);
    return status;
}

void kv_release(struct kv *kv) {
    if (!kv)
        return;
    for (size_t group = 0; group < KV_GROUPS; group++) {
        mem_free(kv->pools[group].pages);
        mem_free(kv->pools[group].free_pages);
        slab_release(&kv->pools[group].slab);
    }
    mem_free(kv->layers);
    *kv = (struct kv){0};
}

bool kv_has_states(const struct config *config) {
    return config->delta.shape.key_heads > 0;
}

bool kv_can_share(const struct config *config) {
    for (size_t i = 0; i < config->layers; i++)
        if (group_of(config, i) != KV_STATE)
            return true;
    return false; /* states alone: there are no blocks that an index could know */
}

size_t kv_page_notes_bytes(void) {
    return sizeof(struct kv_page) + sizeof(uint32_t);
}

static void add_kept(struct kv_pool *pool, uint32_t page) {
    struct kv_page *kept = &pool->pages[page];
    kept->older = pool->newest;
    kept->newer = SL_PAGE_GONE;
    *(pool->newest == SL_PAGE_GONE ? &pool->oldest : &pool->pages[pool->newest].newer) = page;
    pool->newest = page;
    pool->kept_count++;
}

static void remove_kept(struct kv_pool *pool, uint32_t page) {
    struct kv_page *kept = &pool->pages[page];
    must(pool->kept_count > 0);
    *(kept->older == SL_PAGE_GONE ? &pool->oldest : &pool->pages[kept->older].newer) = kept->newer;
    *(kept->newer == SL_PAGE_GONE ? &pool->newest : &pool->pages[kept->newer].older) = kept->older;
    pool->kept_count--;
}

static void hold(struct kv_pool *pool, uint32_t page) {
    pool->pages[page].holders++;
    pool->pages_used++;
    if (pool->pages_used > pool->pages_used_max)
        pool->pages_used_max = pool->pages_used;
}

static void set_free(struct kv_pool *pool, uint32_t page) {
    must(pool->free_count < pool->page_count);
    pool->free_pages[pool->free_count++] = page;
}

bool kv_take(struct kv *kv, enum kv_group group, uint32_t *page) {
    struct kv_pool *pool = &kv->pools[group];
    if (pool->free_count == 0 && pool->kept_count > 0) {
        uint32_t oldest = pool->oldest;
        if (kv->lost != NULL)
            kv->lost(kv->lost_ctx, group, oldest);
        kv_want(kv, group, oldest, false);
    }
    if (pool->free_count == 0)
        return false;
    *page = pool->free_pages[--pool->free_count];
    must(pool->pages[*page].holders == 0);
    if (pool->page_count - pool->free_count > pool->pages_out_max)
        pool->pages_out_max = pool->page_count - pool->free_count;
    hold(pool, *page);
    return true;
}

void kv_share(struct kv *kv, enum kv_group group, uint32_t page) {
    struct kv_pool *pool = &kv->pools[group];
    must(page < pool->page_count);
    if (pool->pages[page].holders > 0) {
        pool->pages[page].holders++;
        return;
    }
    must(pool->pages[page].is_wanted); /* else it is free */
    remove_kept(pool, page);
    hold(pool, page);
}

void kv_give(struct kv *kv, enum kv_group group, uint32_t page) {
    struct kv_pool *pool = &kv->pools[group];
    must(page < pool->page_count);
    must(pool->pages[page].holders > 0);
    if (--pool->pages[page].holders > 0)
        return;
    pool->pages_used--;
    if (pool->pages[page].is_wanted)
        add_kept(pool, page);
    else
        set_free(pool, page);
}

void kv_copy(struct kv *kv, enum kv_group group, uint32_t from, uint32_t to) {
    struct kv_pool *pool = &kv->pools[group];
    must(from != to);
    must(from < pool->page_count && to < pool->page_count);
    memcpy(pool->slab.data + to * pool->page_bytes, pool->slab.data + from * pool->page_bytes,
           pool->page_bytes);
}

void kv_want(struct kv *kv, enum kv_group group, uint32_t page, bool is_wanted) {
    struct kv_pool *pool = &kv->pools[group];
    must(page < pool->page_count);
    bool is_kept = pool->pages[page].holders == 0 && pool->pages[page].is_wanted;
    must(is_kept || pool->pages[page].holders > 0);
    pool->pages[page].is_wanted = is_wanted;
    if (!is_kept || is_wanted)
        return;
    remove_kept(pool, page);
    set_free(pool, page);
}

size_t kv_free(const struct kv *kv, enum kv_group group) {
    return kv->pools[group].free_count + kv->pools[group].kept_count;
}

size_t kv_pages_used(const struct kv *kv) {
    return kv->pools[KV_WHOLE].pages_used + kv->pools[KV_WINDOW].pages_used;
}

uint64_t kv_bytes_used(const struct kv *kv) {
    uint64_t bytes = 0;
    for (size_t group = 0; group < KV_GROUPS; group++)
        bytes += (uint64_t)kv->pools[group].pages_used * kv->pools[group].page_bytes;
    return bytes;
}

uint64_t kv_bytes(const struct kv *kv) {
    uint64_t bytes = 0;
    for (size_t group = 0; group < KV_GROUPS; group++)
        bytes += (uint64_t)kv->pools[group].page_count * kv->pools[group].page_bytes;
    return bytes;
}
