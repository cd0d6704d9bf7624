/* The provider that keeps every block: one memory for all, each block read once, when it is first
 * hinted or acquired. Never reads a block again and never gives one up. */
#include "base/mem.h"
#include "io/slab.h"
#include "weights/provider.h"

#include <string.h>

enum resident_state { RESIDENT_ABSENT, RESIDENT_READING, RESIDENT_THERE };

struct resident_block {
    enum resident_state state;
    size_t base; /* in the memory; a multiple of SL_IO_ALIGN */
};

struct resident {
    struct provider provider; /* first, so that the one is the other */
    struct slab memory;
    struct resident_block *blocks;
};

/* Tickets are the numbers of blocks: none is on its way twice. */
static bool resident_hint(struct provider *provider, size_t block) {
    struct resident *resident = (struct resident *)provider;
    const struct layout *layout = provider->layout;
    must(block < layout->block_count);
    struct resident_block *kept = &resident->blocks[block];
    if (kept->state != RESIDENT_ABSENT)
        return true;
    const struct block *what = &layout->blocks[block];
    must(kept->base + what->slab_bytes <= resident->memory.bytes);
    if (!ring_submit(provider->ring, block, layout->reads + what->first_read, what->read_count,
                     resident->memory.data + kept->base))
        return false;
    kept->state = RESIDENT_READING;
    return true;
}

static enum status resident_acquire(struct provider *provider, size_t block, struct lease *lease,
                                    struct error *err) {
    struct resident *resident = (struct resident *)provider;
    must(
        resident_hint(provider, block)); /* no place only while earlier hints wait to be acquired */
    struct resident_block *kept = &resident->blocks[block];
    if (kept->state == RESIDENT_READING) {
        uint8_t *slab = NULL;
        enum status status = ring_wait(provider->ring, block, provider->should_stop, &slab, err);
        if (status == SL_ERR_STOPPED)
            return status; /* still queued, still hinted */
        if (status != SL_OK) {
            kept->state = RESIDENT_ABSENT;
            return status;
        }
        must(slab == resident->memory.data + kept->base);
        ring_release(provider->ring, block); /* the place in the queue; the bytes stay */
        kept->state = RESIDENT_THERE;
    }
    *lease = (struct lease){.block = block, .slab = resident->memory.data + kept->base};
    return SL_OK;
}

static void resident_release(struct provider *provider, struct lease *lease) {
    (void)provider;
    must(lease->slab != NULL);
    *lease = (struct lease){0};
}

static void resident_free(struct provider *provider) {
    struct resident *resident = (struct resident *)provider;
    ring_free(provider->ring); /* first: reads may be landing in the memory */
    slab_release(&resident->memory);
    mem_free(resident->blocks);
    mem_free(resident);
}

static const struct provider_ops resident_ops = {
    .name = "resident",
    .hint = resident_hint,
    .acquire = resident_acquire,
    .release = resident_release,
    .free = resident_free,
};

static enum status resident_fill(struct resident *resident, const struct provider_options *options,
                                 struct error *err) {
    const struct layout *layout = resident->provider.layout;
    size_t base = 0;
    resident->blocks = mem_new(layout->block_count, sizeof *resident->blocks);
    if (resident->blocks == NULL)
        return error_memory(err, layout->block_count * sizeof *resident->blocks, "a provider");
    for (size_t i = 0; i < layout->block_count; i++) {
        must(layout->blocks[i].slab_bytes % SL_IO_ALIGN == 0);
        resident->blocks[i].base = base;
        must(size_add(base, layout->blocks[i].slab_bytes, &base));
    }
    must(base == layout->slab_bytes_sum);
    TRY(slab_init(&resident->memory, base, err));
    struct ring_options ring_options = {
        .method = options->method,
        .chunk_bytes = options->chunk_bytes,
        .depth = options->depth,
    };
    return ring_new(&ring_options, &resident->provider.ring, err);
}

enum status provider_resident_new(const struct layout *layout,
                                  const struct provider_options *options, struct provider **out,
                                  struct error *err) {
    struct resident *resident = mem_new(1, sizeof *resident);
    if (resident == NULL)
        return error_memory(err, sizeof *resident, "a provider");
    resident->provider = (struct provider){
        .ops = &resident_ops, .layout = layout, .should_stop = options->should_stop};
    enum status status = resident_fill(resident, options, err);
    if (status != SL_OK) {
        provider_free(&resident->provider);
        return status;
    }
    *out = &resident->provider;
    return SL_OK;
}
