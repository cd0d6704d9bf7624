/* Both providers: blocks that are kept and blocks that are read anew for each pass, through one
 * ring. `stream` keeps those it was told to, `resident` keeps all.
 *
 * A block that is kept has its own place in one memory; it is read once, when it is first hinted or
 * acquired, and never given up. The others are read into slabs of the ring, each time under a
 * ticket of its own, so that a block may be on its way twice, for this pass and for the next.
 * Refuses blocks out of the order in which they were hinted. */
#include "base/mem.h"
#include "io/slab.h"
#include "weights/provider.h"

enum kept_state { KEPT_NOT, KEPT_ABSENT, KEPT_READING, KEPT_THERE };

struct kept_block {
    enum kept_state state;
    size_t base;     /* in the memory; a multiple of SL_IO_ALIGN */
    uint64_t ticket; /* while it is read */
};

struct stream_hint {
    uint64_t ticket;
    size_t block;
};

struct stream {
    struct provider provider; /* first, so that the one is the other */
    struct checks *checks;    /* borrowed; NULL: none */
    uint64_t submissions;
    uint64_t released_ticket; /* the last one of a slab; to check the order */
    struct slab memory;       /* of the blocks that are kept */
    struct kept_block *blocks;
    size_t slab_count;
    struct stream_hint hints[SL_RING_SLABS_MAX]; /* a circle: not yet acquired, in order */
    size_t hint_first, hint_count;
};

/* Tickets rise and tell the block, for the ring's thread that looks at what was read. */
static bool stream_submit(struct stream *stream, size_t block, uint8_t *into, uint64_t *ticket) {
    const struct layout *layout = stream->provider.layout;
    const struct block *what = &layout->blocks[block];
    *ticket = (stream->submissions + 1) * layout->block_count + block;
    if (!ring_submit(stream->provider.ring, *ticket, layout->reads + what->first_read,
                     what->read_count, into))
        return false;
    stream->submissions++;
    return true;
}

static enum status stream_look(void *ctx, uint64_t ticket, const uint8_t *memory,
                               struct error *err) {
    const struct stream *stream = ctx;
    const struct layout *layout = stream->provider.layout;
    return checks_block(stream->checks, layout, (size_t)(ticket % layout->block_count), memory,
                        err);
}

static bool stream_hint_kept(struct stream *stream, size_t block) {
    struct kept_block *kept = &stream->blocks[block];
    if (kept->state != KEPT_ABSENT)
        return true;
    must(kept->base + stream->provider.layout->blocks[block].slab_bytes <= stream->memory.bytes);
    if (!stream_submit(stream, block, stream->memory.data + kept->base, &kept->ticket))
        return false;
    kept->state = KEPT_READING;
    return true;
}

static bool stream_hint(struct provider *provider, size_t block) {
    struct stream *stream = (struct stream *)provider;
    must(block < provider->layout->block_count);
    if (stream->blocks[block].state != KEPT_NOT)
        return stream_hint_kept(stream, block);
    uint64_t ticket;
    if (!stream_submit(stream, block, NULL, &ticket))
        return false;
    must(stream->hint_count < stream->slab_count);
    size_t last = (stream->hint_first + stream->hint_count) % stream->slab_count;
    stream->hints[last] = (struct stream_hint){ticket, block};
    stream->hint_count++;
    return true;
}

static enum status stream_acquire_kept(struct stream *stream, size_t block, struct lease *lease,
                                       struct error *err) {
    struct provider *provider = &stream->provider;
    struct kept_block *kept = &stream->blocks[block];
    size_t read_bytes = 0;
    must(stream_hint_kept(stream, block)); /* no place only while earlier hints wait */
    if (kept->state == KEPT_READING) {
        uint8_t *slab = NULL;
        enum status status =
            ring_wait(provider->ring, kept->ticket, provider->should_stop, &slab, err);
        if (status == SL_ERR_STOPPED)
            return status; /* still queued, still hinted */
        if (status != SL_OK) {
            kept->state = KEPT_ABSENT;
            return status;
        }
        must(slab == stream->memory.data + kept->base);
        ring_release(provider->ring, kept->ticket); /* the place in the queue; the bytes stay */
        kept->state = KEPT_THERE;
        read_bytes = provider->layout->blocks[block].read_bytes;
    }
    *lease = (struct lease){
        .block = block, .slab = stream->memory.data + kept->base, .read_bytes = read_bytes};
    return SL_OK;
}

static enum status stream_acquire(struct provider *provider, size_t block, struct lease *lease,
                                  struct error *err) {
    struct stream *stream = (struct stream *)provider;
    must(block < provider->layout->block_count);
    if (stream->blocks[block].state != KEPT_NOT)
        return stream_acquire_kept(stream, block, lease, err);
    if (stream->hint_count == 0)
        must(stream_hint(provider, block)); /* fails when the caller holds every slab */
    struct stream_hint hint = stream->hints[stream->hint_first];
    must(hint.block == block);
    uint8_t *slab = NULL;
    enum status status = ring_wait(provider->ring, hint.ticket, provider->should_stop, &slab, err);
    if (status == SL_ERR_STOPPED)
        return status; /* still queued, still hinted */
    stream->hint_first = (stream->hint_first + 1) % stream->slab_count;
    stream->hint_count--;
    if (status == SL_OK)
        *lease = (struct lease){.block = block,
                                .slab = slab,
                                .ticket = hint.ticket,
                                .read_bytes = provider->layout->blocks[block].read_bytes};
    return status;
}

static void stream_release(struct provider *provider, struct lease *lease) {
    struct stream *stream = (struct stream *)provider;
    must(lease->slab != NULL);
    if (stream->blocks[lease->block].state == KEPT_NOT) {
        must(lease->ticket > stream->released_ticket);
        stream->released_ticket = lease->ticket;
        ring_release(provider->ring, lease->ticket);
    }
    *lease = (struct lease){0};
}

static void stream_free(struct provider *provider) {
    struct stream *stream = (struct stream *)provider;
    ring_free(provider->ring); /* first: reads may be landing in the memory */
    slab_release(&stream->memory);
    mem_free(stream->blocks);
    mem_free(stream);
}

static const struct provider_ops stream_ops = {
    .name = "stream",
    .hint = stream_hint,
    .acquire = stream_acquire,
    .release = stream_release,
    .free = stream_free,
};

static const struct provider_ops resident_ops = {
    .name = "resident",
    .keeps_all = true,
    .hint = stream_hint,
    .acquire = stream_acquire,
    .release = stream_release,
    .free = stream_free,
};

/* Drives that the layout's files lie on. */
static size_t count_drives(const struct layout *layout) {
    uint64_t drives[SL_RING_DRIVES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < layout->read_count && count < SL_RING_DRIVES_MAX; i++) {
        size_t at = 0;
        while (at < count && drives[at] != layout->reads[i].file->drive)
            at++;
        if (at == count)
            drives[count++] = layout->reads[i].file->drive;
    }
    return count;
}

/* Places for the blocks that are kept, one behind the other. keeps: NULL: all of them. */
static enum status stream_fill(struct stream *stream, const struct provider_options *options,
                               const bool *keeps, struct error *err) {
    const struct layout *layout = stream->provider.layout;
    size_t base = 0;
    stream->blocks = mem_new(layout->block_count, sizeof *stream->blocks);
    if (stream->blocks == NULL)
        return error_memory(err, layout->block_count * sizeof *stream->blocks, "a provider");
    for (size_t i = 0; i < layout->block_count; i++) {
        must(layout->blocks[i].slab_bytes % SL_IO_ALIGN == 0);
        if (keeps != NULL && !keeps[i])
            continue;
        stream->blocks[i] = (struct kept_block){.state = KEPT_ABSENT, .base = base};
        must(size_add(base, layout->blocks[i].slab_bytes, &base));
    }
    TRY(slab_init(&stream->memory, base, err));
    struct ring_options ring_options = {
        .method = options->method,
        .slab_bytes = layout->slab_bytes_max,
        .slab_count = stream->slab_count,
        .chunk_bytes = options->chunk_bytes,
        .depth = options->depth,
        .drives = count_drives(layout),
    };
    if (options->checks != NULL)
        ring_options.check = (struct ring_check){stream_look, stream};
    return ring_new(&ring_options, &stream->provider.ring, err);
}

static enum status stream_new(const struct provider_ops *ops, const struct layout *layout,
                              const struct provider_options *options, const bool *keeps,
                              struct provider **out, struct error *err) {
    struct stream *stream = mem_new(1, sizeof *stream);
    if (stream == NULL)
        return error_memory(err, sizeof *stream, "a provider");
    stream->provider =
        (struct provider){.ops = ops, .layout = layout, .should_stop = options->should_stop};
    stream->checks = options->checks;
    stream->slab_count = keeps != NULL ? options->slab_count : 0;
    enum status status = stream_fill(stream, options, keeps, err);
    if (status != SL_OK) {
        provider_free(&stream->provider);
        return status;
    }
    *out = &stream->provider;
    return SL_OK;
}

enum status provider_stream_new(const struct layout *layout, const struct provider_options *options,
                                struct provider **out, struct error *err) {
    must(options->slab_count >= 2);
    if (options->keeps != NULL)
        return stream_new(&stream_ops, layout, options, options->keeps, out, err);
    bool *none = mem_new(layout->block_count, sizeof *none);
    if (none == NULL)
        return error_memory(err, layout->block_count * sizeof *none, "a provider");
    enum status status = stream_new(&stream_ops, layout, options, none, out, err);
    mem_free(none);
    return status;
}

enum status provider_resident_new(const struct layout *layout,
                                  const struct provider_options *options, struct provider **out,
                                  struct error *err) {
    return stream_new(&resident_ops, layout, options, NULL, out, err);
}
