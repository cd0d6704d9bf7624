/* The ring method `uring`: one thread gives reads to the kernel through io_uring (liburing) and
 * takes completions as they come, several at a time, without a system call where one is there
 * already.
 *
 *   ring_take --> slot, sqe --> kernel --> cqe --> ring_give
 *        ^                                  |
 *        +------ wake (eventfd, polled) ----+   a submission comes while reads are in flight
 *
 * Slabs of the ring are registered as buffers and files as descriptors, which spares the kernel
 * looking them up and pinning their pages for each read; where a limit forbids that
 * (RLIMIT_MEMLOCK) reads go on without. A read that fails or stays short is done again by
 * chunk_read in this thread, which has the retry, the page cache and the message. Refuses to run
 * where the kernel refuses io_uring, by name. */
#include "io/ring_method.h"

#include "base/fault.h"
#include "base/mem.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define URING_FILES_MAX 64u /* registered; others are read by their plain descriptor */
#define URING_BUFFER_BYTES_MAX                                                                     \
    ((size_t)1 << 30)         /* of one registered buffer: the kernel's limit                      \
                               */
#define URING_BUSY_NS 1000000 /* pause when the kernel has no room for more */

struct uring_slot {
    struct chunk chunk;
    bool is_used;
};

struct uring {
    struct ring *ring;
    struct io_uring io;
    bool has_io, has_thread;
    pthread_t thread;
    int wake_fd;
    bool is_polling; /* wake_fd */
    size_t depth, in_flight;
    struct uring_slot *slots; /* [depth] */
    struct iovec buffers[SL_RING_SLABS_MAX];
    size_t buffer_count; /* 0: not registered */
    int files[URING_FILES_MAX];
    size_t file_count;
    bool has_file_table;
};

/* Of the registered buffers the one that holds the memory; -1: none. */
static int buffer_of(const struct uring *uring, const struct chunk *chunk) {
    for (size_t i = 0; i < uring->buffer_count; i++) {
        uintptr_t start = (uintptr_t)uring->buffers[i].iov_base, at = (uintptr_t)chunk->into;
        if (at >= start && at - start < uring->buffers[i].iov_len)
            return (int)i;
    }
    return -1;
}

/* The number of a descriptor in the kernel's table, put there when it is new; -1: not there. */
static int file_of(struct uring *uring, int fd) {
    if (!uring->has_file_table)
        return -1;
    for (size_t i = 0; i < uring->file_count; i++)
        if (uring->files[i] == fd)
            return (int)i;
    if (uring->file_count == URING_FILES_MAX ||
        io_uring_register_files_update(&uring->io, (unsigned)uring->file_count, &fd, 1) != 1)
        return -1;
    uring->files[uring->file_count] = fd;
    return (int)uring->file_count++;
}

/* There is always a free one: the queue has room for depth reads and the poll. */
static struct io_uring_sqe *next_sqe(struct uring *uring) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->io);
    must(sqe != NULL);
    return sqe;
}

static void start_read(struct uring *uring, const struct chunk *chunk) {
    size_t at = 0;
    while (uring->slots[at].is_used)
        at++;
    must(at < uring->depth);
    uring->slots[at] = (struct uring_slot){.chunk = *chunk, .is_used = true};
    uring->in_flight++;
    int fd = chunk->is_direct ? chunk->file->direct_fd : chunk->file->fd;
    int number = file_of(uring, fd), buffer = buffer_of(uring, chunk);
    unsigned bytes = (unsigned)chunk->bytes;
    struct io_uring_sqe *sqe = next_sqe(uring);
    if (buffer >= 0)
        io_uring_prep_read_fixed(sqe, number >= 0 ? number : fd, chunk->into, bytes, chunk->offset,
                                 buffer);
    else
        io_uring_prep_read(sqe, number >= 0 ? number : fd, chunk->into, bytes, chunk->offset);
    if (number >= 0)
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, at + 1);
}

/* Completions are known by their slot's number + 1; the poll is 0. */
static void start_poll(struct uring *uring) {
    if (uring->is_polling)
        return;
    struct io_uring_sqe *sqe = next_sqe(uring);
    io_uring_prep_poll_add(sqe, uring->wake_fd, POLLIN);
    io_uring_sqe_set_data64(sqe, 0);
    uring->is_polling = true;
}

static void end_read(struct uring *uring, struct uring_slot *slot, int result) {
    struct chunk *chunk = &slot->chunk;
    struct error err = {0};
    enum status status = SL_OK;
    must(slot->is_used);
    if (fault_hit(SL_FAULT_READ))
        result = -EIO;
    else if (result > 1 && fault_hit(SL_FAULT_SHORT_READ))
        result /= 2;
    if (result < 0 || (size_t)result < chunk->bytes_needed)
        status = chunk_read(chunk, &err);
    else if (!chunk->is_direct)
        chunk_drop_cache(chunk);
    slot->is_used = false;
    uring->in_flight--;
    ring_give(uring->ring, chunk, status, &err);
}

static void reap(struct uring *uring) {
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&uring->io, &cqe) == 0) {
        uint64_t number = io_uring_cqe_get_data64(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&uring->io, cqe);
        if (number > 0) {
            must(number <= uring->depth);
            end_read(uring, &uring->slots[number - 1], result);
            continue;
        }
        uint64_t count;
        uring->is_polling = false;
        (void)!read(uring->wake_fd, &count, sizeof count); /* it does not block; empties it */
    }
}

static void *uring_reader(void *ctx) {
    struct uring *uring = ctx;
    struct chunk chunk;
    for (;;) {
        while (uring->in_flight < uring->depth &&
               ring_take(uring->ring, uring->in_flight == 0, &chunk))
            start_read(uring, &chunk);
        if (uring->in_flight == 0)
            return NULL;
        start_poll(uring);
        int number = io_uring_submit_and_wait(&uring->io, 1);
        must(number >= 0 || number == -EINTR || number == -EAGAIN || number == -EBUSY);
        if (number == -EAGAIN) {
            struct timespec pause = {.tv_nsec = URING_BUSY_NS};
            (void)nanosleep(&pause, NULL);
        }
        reap(uring);
    }
}

static void uring_wake(void *state) {
    const struct uring *uring = state;
    uint64_t one = 1;
    (void)!write(uring->wake_fd, &one, sizeof one); /* full: it wakes already */
}

static void uring_stop(void *state) {
    struct uring *uring = state;
    if (uring->has_thread)
        must(pthread_join(uring->thread, NULL) == 0);
    if (uring->has_io)
        io_uring_queue_exit(&uring->io);
    if (uring->wake_fd >= 0)
        close(uring->wake_fd);
    mem_free(uring->slots);
    mem_free(uring);
}

/* Registered or not, reads give the same bytes. */
static void register_all(struct uring *uring) {
    size_t count = ring_slabs(uring->ring, uring->buffers);
    bool fits = count > 0;
    for (size_t i = 0; i < count; i++)
        fits = fits && uring->buffers[i].iov_len <= URING_BUFFER_BYTES_MAX;
    if (fits && io_uring_register_buffers(&uring->io, uring->buffers, (unsigned)count) == 0)
        uring->buffer_count = count;
    uring->has_file_table = io_uring_register_files_sparse(&uring->io, URING_FILES_MAX) == 0;
}

static enum status uring_start(struct ring *ring, size_t depth, void **state, struct error *err) {
    char reason[128];
    struct uring *uring = mem_new(1, sizeof *uring);
    if (uring == NULL)
        return error_memory(err, sizeof *uring, "the uring reader");
    uring->ring = ring;
    uring->depth = depth;
    uring->wake_fd = -1;
    *state = uring; /* on failure too: stop cleans up */
    uring->slots = mem_new(depth, sizeof *uring->slots);
    if (uring->slots == NULL)
        return error_memory(err, depth * sizeof *uring->slots, "the uring reader");
    int number = io_uring_queue_init((unsigned)depth + 1, &uring->io, 0);
    if (number != 0)
        return error_set(err, SL_ERR_ENV,
                         "--reader uring: the kernel refuses io_uring: %s: use --reader pool",
                         strerror_r(-number, reason, sizeof reason));
    uring->has_io = true;
    uring->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (uring->wake_fd < 0)
        return error_set(err, SL_ERR_ENV, "--reader uring: no event descriptor: %s",
                         strerror_r(errno, reason, sizeof reason));
    register_all(uring);
    number = ring_thread_start(&uring->thread, uring_reader, uring);
    uring->has_thread = number == 0;
    if (number != 0)
        return error_set(err, SL_ERR_ENV, "cannot start the uring reader's thread: %s",
                         strerror_r(number, reason, sizeof reason));
    return SL_OK;
}

const struct ring_method ring_method_uring = {
    .name = "uring", .start = uring_start, .stop = uring_stop, .wake = uring_wake};
