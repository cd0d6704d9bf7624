/* The seam between the ring and the ways to carry out its reads; for src/io/ring*.c alone.
 *
 * The ring keeps the queue and hands out chunks in its order; a method takes chunks, reads them and
 * gives each back exactly once. A method with threads of its own takes with wants_wait (pool) or,
 * with reads in flight, without (one that reaps completions); a method without does it all in help.
 * Thread rule: ring_take and ring_give from any thread; the rest from the ring's owner. */
#ifndef SLUICE_IO_RING_METHOD_H
#define SLUICE_IO_RING_METHOD_H

#include "io/ring.h"

#include <pthread.h>
#include <sys/uio.h>

/* One pread: a part of the window around a read. */
struct chunk {
    const struct file *file;
    uint64_t offset;     /* in the file; a multiple of SL_IO_ALIGN if is_direct */
    size_t bytes;        /* to ask for; a multiple of SL_IO_ALIGN if is_direct */
    size_t bytes_needed; /* so many must come: fewer than bytes at the end of a file */
    size_t bytes_wanted; /* of these, what was asked of the ring: without alignment */
    uint8_t *into;
    bool is_direct;
    uint32_t place; /* in the ring's queue */
};

struct ring_method {
    const char *name;
    /* Starts what the method needs for `depth` chunks in flight. Sets *state on failure too if stop
     * is to clean up (else leaves it NULL, and stop is not called). */
    enum status (*start)(struct ring *ring, size_t depth, void **state, struct error *err);
    /* Called after ring_take began to refuse; ends threads after the chunks that they hold. */
    void (*stop)(void *state);
    /* Reads one chunk in the thread that waits; false when there was none to take. NULL: the method
     * has threads, the waiting thread sleeps. */
    bool (*help)(struct ring *ring);
    /* Called after each submission, by the owner; for a thread that waits for the kernel rather
     * than in ring_take. May be NULL. */
    void (*wake)(void *state);
};

/* The next chunk in order. False when there is none (or, with wants_wait, once the ring ends). */
bool ring_take(struct ring *ring, bool wants_wait, struct chunk *chunk);
/* Gives a chunk back: read, or failed for the reason in err. */
void ring_give(struct ring *ring, const struct chunk *chunk, enum status status,
               const struct error *err);

/* The ring's slabs, for a method that tells the kernel of them: how many there are. */
size_t ring_slabs(const struct ring *ring, struct iovec slabs[SL_RING_SLABS_MAX]);

/* Starts a thread of a method, with little stack and all signals blocked: they go to the threads
 * that handle them. Passes SL_FAULT_THREAD. 0 or an errno value. */
int ring_thread_start(pthread_t *thread, void *(*work)(void *), void *ctx);

/* Reads a chunk with pread, once more if it fails. The message names file, offset, bytes, reason.
 * Behind a buffered read the page cache is dropped. */
enum status chunk_read(const struct chunk *chunk, struct error *err);
/* Advises the kernel to forget the pages that a buffered read of the chunk has left. */
void chunk_drop_cache(const struct chunk *chunk);
/* Those of [from, to) of the file, and what lies across its beginning. */
void file_drop_cache(const struct file *file, uint64_t from, uint64_t to);

#endif
