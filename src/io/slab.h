/* Slabs: buffers that blocks land in, allocated once and aligned to 2 MB, in huge pages if to be
 * had. One owner; the memory may be touched by any thread. */
#ifndef SLUICE_IO_SLAB_H
#define SLUICE_IO_SLAB_H

#include "base/status.h"

#define SL_SLAB_ALIGN ((size_t)2 << 20)

struct slab {
    uint8_t *data;
    size_t bytes; /* usable; rounded up to SL_IO_ALIGN */
    size_t mapped_bytes;
    void *mapped;
};

/* Reserves address space; pages count against memory once touched. SL_ERR_ENV when there is none.
 */
enum status slab_init(struct slab *slab, size_t bytes, struct error *err);
void slab_release(struct slab *slab); /* accepts a zeroed slab */
/* What a slab of so many bytes counts for, at most, once its first `used` bytes are written. */
size_t slab_touched_bytes(size_t bytes, size_t used);

#endif
