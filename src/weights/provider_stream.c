/* The provider that keeps nothing: each block is read for each pass, into slabs of a ring. Its
 * tickets are a counter, so that a block may be on its way twice, for this pass and for the next.
 * Refuses blocks out of the order in which they were hinted. */
#include "base/mem.h"
#include "weights/provider.h"

struct stream_hint {
    uint64_t ticket;
    size_t block;
};

struct stream {
    struct provider provider; /* first, so that the one is the other */
    uint64_t next_ticket;
    uint64_t released_ticket; /* the last one; to check the order */
    size_t slab_count;
    struct stream_hint hints[SL_RING_SLABS_MAX]; /* a circle: not yet acquired, in order */
    size_t hint_first, hint_count;
};

static bool stream_hint(struct provider *provider, size_t block) {
    struct stream *stream = (struct stream *)provider;
    const struct layout *layout = provider->layout;
    must(block < layout->block_count);
    const struct block *what = &layout->blocks[block];
    if (!ring_submit(provider->ring, stream->next_ticket, layout->reads + what->first_read,
                     what->read_count, NULL))
        return false;
    must(stream->hint_count < stream->slab_count);
    size_t last = (stream->hint_first + stream->hint_count) % stream->slab_count;
    stream->hints[last] = (struct stream_hint){stream->next_ticket++, block};
    stream->hint_count++;
    return true;
}

static enum status stream_acquire(struct provider *provider, size_t block, struct lease *lease,
                                  struct error *err) {
    struct stream *stream = (struct stream *)provider;
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
        *lease = (struct lease){.block = block, .slab = slab, .ticket = hint.ticket};
    return status;
}

static void stream_release(struct provider *provider, struct lease *lease) {
    struct stream *stream = (struct stream *)provider;
    must(lease->slab != NULL);
    must(lease->ticket > stream->released_ticket);
    stream->released_ticket = lease->ticket;
    ring_release(provider->ring, lease->ticket);
    *lease = (struct lease){0};
}

static void stream_free(struct provider *provider) {
    ring_free(provider->ring);
    mem_free(provider);
}

static const struct provider_ops stream_ops = {
    .name = "stream",
    .hint = stream_hint,
    .acquire = stream_acquire,
    .release = stream_release,
    .free = stream_free,
};

enum status provider_stream_new(const struct layout *layout, const struct provider_options *options,
                                struct provider **out, struct error *err) {
    must(options->slab_count >= 2);
    struct stream *stream = mem_new(1, sizeof *stream);
    if (stream == NULL)
        return error_memory(err, sizeof *stream, "a provider");
    stream->provider = (struct provider){
        .ops = &stream_ops, .layout = layout, .should_stop = options->should_stop};
    stream->next_ticket = 1;
    stream->slab_count = options->slab_count;
    struct ring_options ring_options = {
        .method = options->method,
        .slab_bytes = layout->slab_bytes_max,
        .slab_count = options->slab_count,
        .chunk_bytes = options->chunk_bytes,
        .depth = options->depth,
    };
    enum status status = ring_new(&ring_options, &stream->provider.ring, err);
    if (status != SL_OK) {
        provider_free(&stream->provider);
        return status;
    }
    *out = &stream->provider;
    return SL_OK;
}
