/* Providers: who brings a block into memory. `resident` keeps every block, `stream` reads it for
 * each pass through a ring, but for those that it was told to keep (pins). The pass does not know
 * which one it has.
 *
 * A lease is the right to use a block that is in memory; it is released exactly once, and leases
 * are released in the order in which they were acquired. hint tells what will be acquired next, in
 * order and over the border of two passes; it takes what it has room for.
 *
 * Thread rule: one thread hints, acquires and releases; leased memory may be read by all. */
#ifndef SLUICE_WEIGHTS_PROVIDER_H
#define SLUICE_WEIGHTS_PROVIDER_H

#include "weights/checks.h"

struct provider;

struct lease {
    size_t block;
    uint8_t *slab; /* parts of pieces lie at slab + slab_offset */
    uint64_t ticket;
    size_t read_bytes; /* of weights that were read for it; 0: it was there */
};

struct provider_ops {
    const char *name; /* "resident", "stream" */
    bool keeps_all;   /* a block is read once, and so waited for once */
    /* True if block was taken up (or needs no reading); false: no room yet, hint it again later. */
    bool (*hint)(struct provider *provider, size_t block);
    /* The block must be the earliest one hinted and not yet acquired (acquire hints it if none is).
     * Blocks until it is in memory. SL_ERR_ENV on a failed read, SL_ERR_STOPPED when should_stop
     * says so. */
    enum status (*acquire)(struct provider *provider, size_t block, struct lease *lease,
                           struct error *err);
    void (*release)(struct provider *provider, struct lease *lease);
    void (*free)(struct provider *provider);
};

struct provider {
    const struct provider_ops *ops;
    const struct layout *layout;
    struct ring *ring;         /* owned; all reads go through it */
    bool (*should_stop)(void); /* asked while waiting; may be NULL */
};

struct provider_options {
    /* method, chunk_bytes, depth: as in ring_options. */
    const struct ring_method *method;
    size_t slab_count; /* stream: 2 or more */
    const bool *keeps; /* stream: [block_count], copied: blocks to be kept; NULL: none */
    size_t chunk_bytes, depth;
    struct checks *checks; /* of the layout's items: looks at all that is read; NULL: nobody does */
    bool (*should_stop)(void);
};

/* layout and checks must outlive the provider. resident: memory for all blocks (slab_bytes_sum),
 * each read when it is first acquired or hinted. stream: slab_count slabs of slab_bytes_max, and
 * memory for the blocks that it keeps (their slab_bytes). */
enum status provider_resident_new(const struct layout *layout,
                                  const struct provider_options *options, struct provider **out,
                                  struct error *err);
enum status provider_stream_new(const struct layout *layout, const struct provider_options *options,
                                struct provider **out, struct error *err);
void provider_free(struct provider *provider); /* accepts NULL */
/* A piece of a leased block as a view. */
struct view lease_view(const struct lease *lease, const struct piece *piece);
/* Reads so far. */
void provider_counters(struct provider *provider, struct ring_counters *out);

#endif
