/* The ring: reads blocks ahead of the pass into a fixed number of slabs.
 *
 *   ring_submit --> [queued] --> readers --> (looked at) --> [ready | failed] --ring_wait-->
 * [leased] ^                                                                                  |
 *        +---------------------- slab free <----------------- ring_release -----------------+
 *
 * The ring knows nothing of layers or passes: whoever submits decides the order, and goes on over
 * the border of a pass. Submissions are served in order, each cut into chunks that several readers
 * take, `depth` chunks of a drive in flight at most. Where files lie on several drives, one that
 * has its `depth` does not keep the others waiting: chunks of later submissions go first. Memory is
 * slab_count x slab_bytes and never more.
 *
 * Reads are direct (O_DIRECT) when the file has a direct_fd: the window around a read is widened to
 * SL_IO_ALIGN on both sides, so slab_offset must be congruent to the file offset modulo SL_IO_ALIGN
 * and the slab must have room for the widened window. Windows of one submission do not overlap.
 * Otherwise buffered, and the cache is dropped behind the read; a file whose direct I/O was refused
 * is named in a warning, one a ring.
 *
 * Thread rule: submit, wait, release from one thread; the readers are the ring's own. */
#ifndef SLUICE_IO_RING_H
#define SLUICE_IO_RING_H

#include "io/file.h"
#include "io/slab.h"

struct ring;

/* One contiguous range of a file; where it lands. */
struct ring_read {
    const struct file *file;
    uint64_t offset;
    size_t bytes;
    size_t slab_offset;
};

/* A way to carry out reads: sync (in ring_wait, the reference), pool (threads with pread), uring
 * (io_uring). Members in io/ring_method.h. */
struct ring_method;
extern const struct ring_method ring_method_sync, ring_method_pool, ring_method_uring;
/* By name; NULL for an unknown one. */
const struct ring_method *ring_method_find(const char *name);
const char *ring_method_name(const struct ring_method *method);
/* Whether it can run here: SL_ERR_ENV says why not (a kernel that refuses io_uring). */
enum status ring_method_try(const struct ring_method *method, struct error *err);

/* Looks at what was read, in a thread of the ring's own, one submission at a time, whose reads are
 * whole in `memory`. What it refuses is read once more, and failed when it refuses it again. */
struct ring_check {
    enum status (*look)(void *ctx, uint64_t ticket, const uint8_t *memory,
                        struct error *err); /* NULL: nobody looks */
    void *ctx;
};

struct ring_options {
    const struct ring_method *method; /* NULL: pool */
    struct ring_check check;
    size_t slab_bytes;  /* of the largest submission; rounded up to SL_IO_ALIGN */
    size_t slab_count;  /* 0 (all land in memory of the caller's) to 64 */
    size_t chunk_bytes; /* of one pread; 0: 8 MiB; rounded to SL_IO_ALIGN */
    size_t depth;       /* chunks in flight, of a drive; 0: 4; at most 64 */
    size_t drives;      /* that files lie on; 0: 1; cut to SL_RING_DRIVES_MAX */
};

#define SL_RING_SLABS_MAX 64
#define SL_RING_DEPTH_MAX 64
#define SL_RING_DRIVES_MAX 8 /* further ones count as the last of these */
#define SL_RING_CHUNK_BYTES_MAX ((size_t)1 << 30)

/* SL_ERR_USAGE for a number above its limit, SL_ERR_ENV without memory or threads. */
enum status ring_new(const struct ring_options *options, struct ring **out, struct error *err);
/* Waits for reads in flight, drops the queued ones and all leases; accepts NULL. */
void ring_free(struct ring *ring);

/* Queues reads (copied) under ticket. They land in a slab of the ring, or in `into` when that is
 * not NULL (memory of the caller's, aligned to SL_IO_ALIGN and as large as a slab would have to be;
 * it takes no slab but one of 64 places in the queue). False when there is no slab or no place: try
 * again after a release. Tickets in use are distinct. */
bool ring_submit(struct ring *ring, uint64_t ticket, const struct ring_read *reads, size_t count,
                 uint8_t *into);
/* Blocks until the submission is whole in memory and leases its slab. A failed read gives
 * SL_ERR_ENV with file, offset and reason (after one retry), or what the check says; the submission
 * is then gone and its slab free, the others go on. Every 50 ms of waiting asks should_stop (may be
 * NULL): true gives SL_ERR_STOPPED, the submission stays queued. */
enum status ring_wait(struct ring *ring, uint64_t ticket, bool (*should_stop)(void), uint8_t **slab,
                      struct error *err);
/* Gives the slab of a leased ticket back. */
void ring_release(struct ring *ring, uint64_t ticket);

struct ring_counters {
    uint64_t read_bytes; /* as asked for, without what alignment adds */
    double read_seconds; /* during which at least one read was in flight */
    double wait_seconds; /* spent in ring_wait */
};
void ring_counters_get(struct ring *ring, struct ring_counters *out); /* since ring_new */

#endif
