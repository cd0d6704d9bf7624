/* Owns the queue of submissions, the slabs and the counters of a ring. One lock guards all of it;
 * reads happen outside the lock, in the method. Decides the order of chunks and nothing else:
 * refuses to know what the bytes mean, and never takes more memory than ring_new did, but for
 * submissions with very many reads.
 *
 * States of a place, with the function behind each arrow:
 *
 *   FREE --ring_submit--> QUEUED --ring_give, last chunk--> READY --ring_wait--> LEASED --> FREE
 *                              \--ring_give, last in flight--> FAILED --ring_wait--> FREE
 *
 * With a check READ stands before READY: from there the checker's thread brings it to READY, once
 * back to QUEUED (behind all others), or to FAILED.
 *
 * 1. Places in `order` are QUEUED with chunks left, in the order of submission; chunks are taken
 *    from the first one whose drive has room for another.
 * 2. A place leaves QUEUED only when none of its chunks is in flight, so memory that was given up
 *    is never written to.
 * 3. A slab belongs to exactly one place that is not FREE. */
#include "io/ring.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/ring_method.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define RING_PLACES (SL_RING_SLABS_MAX + 64)
#define RING_READS_AT_FIRST 64
#define RING_CHUNK_BYTES ((size_t)8 << 20)
#define RING_DEPTH 4
#define RING_ASK_SECONDS 0.05
#define NO_SLAB SIZE_MAX

enum place_state { PLACE_FREE, PLACE_QUEUED, PLACE_READ, PLACE_READY, PLACE_FAILED, PLACE_LEASED };

struct place {
    enum place_state state;
    uint64_t ticket;
    struct ring_read *reads; /* owned, kept for the next submission */
    size_t read_count, read_cap;
    size_t next_read, next_byte; /* cursor: byte in the window around that read */
    size_t in_flight;            /* chunks */
    bool has_failed;             /* no more chunks are taken */
    bool is_again;               /* read once more, since the check has refused it */
    struct error err;
    uint8_t *memory; /* slab_offset counts from here */
    size_t slab;     /* NO_SLAB: memory of the caller's */
};

struct ring {
    const struct ring_method *method;
    void *method_state;
    size_t slab_bytes, slab_count, chunk_bytes, depth;
    struct slab slabs[SL_RING_SLABS_MAX];
    bool has_warned; /* of refused direct I/O; the owner's */
    struct ring_check check;
    pthread_t checker;
    bool has_checker;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t has_work, has_end, has_read;
    bool is_ending;
    bool slab_in_use[SL_RING_SLABS_MAX];
    size_t slab_next; /* they are read into in turn: what they come to hold is foretold so */
    struct place places[RING_PLACES];
    uint32_t order[RING_PLACES]; /* a circle of places */
    size_t order_first, order_count;
    uint64_t drives[SL_RING_DRIVES_MAX]; /* those met so far */
    size_t drive_in_flight[SL_RING_DRIVES_MAX], drive_count;
    size_t in_flight; /* chunks */
    double in_flight_since;
    struct ring_counters counters;
};

static void lock(struct ring *ring) {
    must(pthread_mutex_lock(&ring->lock) == 0);
}

static void unlock(struct ring *ring) {
    must(pthread_mutex_unlock(&ring->lock) == 0);
}

/* Waiting is timed by the monotonic clock, so that a set clock cannot stretch it. */
static void init_locks(struct ring *ring) {
    pthread_condattr_t attr;
    must(pthread_condattr_init(&attr) == 0);
    must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    must(pthread_mutex_init(&ring->lock, NULL) == 0);
    must(pthread_cond_init(&ring->has_work, NULL) == 0);
    must(pthread_cond_init(&ring->has_read, NULL) == 0);
    must(pthread_cond_init(&ring->has_end, &attr) == 0);
    pthread_condattr_destroy(&attr);
}

static enum status check_options(const struct ring_options *options, struct error *err) {
    if (options->slab_count > SL_RING_SLABS_MAX)
        return error_set(err, SL_ERR_USAGE, "%zu slabs asked for: at most %d", options->slab_count,
                         SL_RING_SLABS_MAX);
    if (options->depth > SL_RING_DEPTH_MAX)
        return error_set(err, SL_ERR_USAGE, "depth %zu asked for: at most %d reads in flight",
                         options->depth, SL_RING_DEPTH_MAX);
    if (options->chunk_bytes > SL_RING_CHUNK_BYTES_MAX)
        return error_set(err, SL_ERR_USAGE, "chunk of %zu bytes asked for: at most %zu",
                         options->chunk_bytes, SL_RING_CHUNK_BYTES_MAX);
    if (options->slab_bytes > SIZE_MAX / 2)
        return error_memory(err, options->slab_bytes, "a slab");
    return SL_OK;
}

static void *check_reader(void *ctx);

static enum status start_checker(struct ring *ring, struct error *err) {
    char reason[128];
    int number = ring_thread_start(&ring->checker, check_reader, ring);
    ring->has_checker = number == 0;
    if (number == 0)
        return SL_OK;
    return error_set(err, SL_ERR_ENV, "cannot start the thread that checks what is read: %s",
                     strerror_r(number, reason, sizeof reason));
}

enum status ring_new(const struct ring_options *options, struct ring **out, struct error *err) {
    TRY(check_options(options, err));
    struct ring *ring = mem_new(1, sizeof *ring);
    if (ring == NULL)
        return error_memory(err, sizeof *ring, "a ring");
    init_locks(ring);
    ring->method = options->method != NULL ? options->method : &ring_method_pool;
    ring->check = options->check;
    ring->slab_bytes = size_round_up(options->slab_bytes, SL_IO_ALIGN);
    ring->chunk_bytes = options->chunk_bytes > 0 ? size_round_up(options->chunk_bytes, SL_IO_ALIGN)
                                                 : RING_CHUNK_BYTES;
    enum status status = SL_OK;
    for (size_t i = 0; i < options->slab_count && status == SL_OK; i++) {
        status = slab_init(&ring->slabs[i], ring->slab_bytes, err);
        ring->slab_count += status == SL_OK;
    }
    size_t places = ring->slab_count > 0 ? ring->slab_count : RING_PLACES - SL_RING_SLABS_MAX;
    for (size_t i = 0; i < places && status == SL_OK; i++) {
        struct place *place = &ring->places[i];
        place->reads = mem_new(RING_READS_AT_FIRST, sizeof *place->reads);
        place->read_cap = place->reads != NULL ? RING_READS_AT_FIRST : 0;
        if (place->reads == NULL)
            status =
                error_memory(err, RING_READS_AT_FIRST * sizeof *place->reads, "a ring's queue");
    }
    if (status == SL_OK) {
        size_t drives = options->drives > 0 ? options->drives : 1;
        drives = drives < SL_RING_DRIVES_MAX ? drives : SL_RING_DRIVES_MAX;
        ring->depth = options->depth > 0 ? options->depth : RING_DEPTH;
        status = ring->method->start(ring, ring->depth * drives, &ring->method_state, err);
    }
    if (status == SL_OK && ring->check.look != NULL)
        status = start_checker(ring, err);
    if (status != SL_OK) {
        ring_free(ring);
        return status;
    }
    *out = ring;
    return SL_OK;
}

void ring_free(struct ring *ring) {
    if (ring == NULL)
        return;
    lock(ring);
    ring->is_ending = true;
    pthread_cond_broadcast(&ring->has_work);
    pthread_cond_broadcast(&ring->has_read);
    unlock(ring);
    if (ring->has_checker)
        must(pthread_join(ring->checker, NULL) == 0);
    if (ring->method_state != NULL)
        ring->method->stop(ring->method_state);
    must(ring->in_flight == 0);
    for (size_t i = 0; i < RING_PLACES; i++)
        mem_free(ring->places[i].reads);
    for (size_t i = 0; i < ring->slab_count; i++)
        slab_release(&ring->slabs[i]);
    pthread_cond_destroy(&ring->has_work);
    pthread_cond_destroy(&ring->has_read);
    pthread_cond_destroy(&ring->has_end);
    pthread_mutex_destroy(&ring->lock);
    mem_free(ring);
}

size_t ring_slabs(const struct ring *ring, struct iovec slabs[SL_RING_SLABS_MAX]) {
    for (size_t i = 0; i < ring->slab_count; i++)
        slabs[i] = (struct iovec){ring->slabs[i].data, ring->slabs[i].bytes};
    return ring->slab_count;
}

/* Queue; the lock is held. */

/* Whether there is more to take; moves the cursor over reads of no bytes. */
static bool has_chunk(struct place *place) {
    if (place->has_failed)
        return false;
    while (place->next_read < place->read_count && place->reads[place->next_read].bytes == 0)
        place->next_read++;
    return place->next_read < place->read_count;
}

/* Ends a submission that has nothing left to do. */
static void settle(struct ring *ring, struct place *place) {
    if (place->in_flight > 0 || has_chunk(place))
        return;
    place->state = place->has_failed          ? PLACE_FAILED
                   : ring->check.look != NULL ? PLACE_READ
                                              : PLACE_READY;
    pthread_cond_signal(place->state == PLACE_READ ? &ring->has_read : &ring->has_end);
}

/* From the first chunk on, behind all others; what has none ends at once. */
static void add_to_order(struct ring *ring, struct place *place) {
    place->next_read = 0;
    place->next_byte = 0;
    settle(ring, place);
    if (place->state != PLACE_QUEUED)
        return;
    must(ring->order_count < RING_PLACES);
    size_t last = (ring->order_first + ring->order_count) % RING_PLACES;
    ring->order[last] = (uint32_t)(place - ring->places);
    ring->order_count++;
    pthread_cond_broadcast(&ring->has_work);
}

static struct place *place_in_order(struct ring *ring, size_t at) {
    return &ring->places[ring->order[(ring->order_first + at) % RING_PLACES]];
}

/* Takes the place out of the order, if it is there and has no more chunks. */
static void trim_order(struct ring *ring, struct place *place) {
    size_t at = 0;
    while (at < ring->order_count && place_in_order(ring, at) != place)
        at++;
    if (at == ring->order_count || has_chunk(place))
        return;
    for (; at > 0; at--)
        ring->order[(ring->order_first + at) % RING_PLACES] =
            ring->order[(ring->order_first + at - 1) % RING_PLACES];
    ring->order_first = (ring->order_first + 1) % RING_PLACES;
    ring->order_count--;
}

/* The number of the file's drive; the last one stands for all that there is no room for. */
static size_t drive_of(struct ring *ring, const struct file *file) {
    size_t i = 0;
    while (i < ring->drive_count && ring->drives[i] != file->drive)
        i++;
    if (i == ring->drive_count && i < SL_RING_DRIVES_MAX)
        ring->drives[ring->drive_count++] = file->drive;
    return i < SL_RING_DRIVES_MAX ? i : SL_RING_DRIVES_MAX - 1;
}

/* The first place in order whose next chunk may be read now; NULL: none. */
static struct place *next_place(struct ring *ring) {
    for (size_t i = 0; i < ring->order_count; i++) {
        struct place *place = place_in_order(ring, i);
        must(has_chunk(place));
        size_t drive = drive_of(ring, place->reads[place->next_read].file);
        if (ring->drive_in_flight[drive] < ring->depth)
            return place;
    }
    return NULL;
}

/* The next chunk of a place that has one. Cuts of about equal size, all but the last a multiple of
 * SL_IO_ALIGN, and the window around the read for a direct one. */
static void cut_chunk(struct ring *ring, struct place *place, struct chunk *chunk) {
    const struct ring_read *read = &place->reads[place->next_read];
    size_t lead = (size_t)(read->offset % SL_IO_ALIGN);
    size_t window = size_round_up(lead + read->bytes, SL_IO_ALIGN);
    size_t cuts = size_divide_up(window, ring->chunk_bytes);
    size_t step = size_round_up(size_divide_up(window, cuts), SL_IO_ALIGN);
    size_t from = place->next_byte;
    size_t to = from + size_min(step, window - from);
    size_t wanted_from = size_max(from, lead), wanted_to = size_min(to, lead + read->bytes);
    must(wanted_from < wanted_to);
    place->next_byte = to;
    if (to == window) {
        place->next_read++;
        place->next_byte = 0;
    }
    bool is_direct = read->file->direct_fd >= 0;
    if (!is_direct) {
        from = wanted_from;
        to = wanted_to;
    }
    *chunk = (struct chunk){
        .file = read->file,
        .offset = read->offset - lead + from,
        .bytes = to - from,
        .bytes_needed = wanted_to - from,
        .bytes_wanted = wanted_to - wanted_from,
        .into = place->memory + (read->slab_offset + from - lead),
        .is_direct = is_direct,
        .place = (uint32_t)(place - ring->places),
    };
}

bool ring_take(struct ring *ring, bool wants_wait, struct chunk *chunk) {
    struct place *place = NULL;
    lock(ring);
    while (!ring->is_ending && (place = next_place(ring)) == NULL && wants_wait)
        must(pthread_cond_wait(&ring->has_work, &ring->lock) == 0);
    bool has_one = !ring->is_ending && place != NULL;
    if (has_one) {
        cut_chunk(ring, place, chunk);
        place->in_flight++;
        trim_order(ring, place);
        ring->drive_in_flight[drive_of(ring, chunk->file)]++;
        if (ring->in_flight++ == 0)
            ring->in_flight_since = clock_seconds();
    }
    unlock(ring);
    return has_one;
}

void ring_give(struct ring *ring, const struct chunk *chunk, enum status status,
               const struct error *err) {
    must(chunk->place < RING_PLACES);
    lock(ring);
    struct place *place = &ring->places[chunk->place];
    must(place->state == PLACE_QUEUED);
    must(place->in_flight > 0);
    if (status == SL_OK) {
        ring->counters.read_bytes += chunk->bytes_wanted;
    } else if (!place->has_failed) {
        place->has_failed = true;
        place->err = *err;
        trim_order(ring, place); /* nobody wants the rest */
    }
    place->in_flight--;
    ring->drive_in_flight[drive_of(ring, chunk->file)]--;
    if (ring->drive_count > 1 && ring->order_count > 0)
        pthread_cond_signal(&ring->has_work); /* another reader may have waited for this drive */
    if (--ring->in_flight == 0)
        ring->counters.read_seconds += clock_seconds() - ring->in_flight_since;
    settle(ring, place);
    unlock(ring);
}

/* The checker's side. */

/* The oldest submission that waits to be looked at; NULL: none. */
static struct place *find_read(struct ring *ring) {
    struct place *oldest = NULL;
    for (size_t i = 0; i < RING_PLACES; i++) {
        struct place *place = &ring->places[i];
        if (place->state == PLACE_READ && (oldest == NULL || place->ticket < oldest->ticket))
            oldest = place;
    }
    return oldest;
}

/* Looks at one submission, whose place nobody else touches meanwhile; the lock is held before and
 * after. */
static void look_at(struct ring *ring, struct place *place) {
    struct error err = {0};
    unlock(ring);
    enum status status = ring->check.look(ring->check.ctx, place->ticket, place->memory, &err);
    lock(ring);
    if (status == SL_OK || place->is_again) {
        place->has_failed = status != SL_OK;
        place->err = err;
        place->state = status == SL_OK ? PLACE_READY : PLACE_FAILED;
        pthread_cond_signal(&ring->has_end);
        return;
    }
    place->is_again = true;
    place->state = PLACE_QUEUED;
    add_to_order(ring, place);
    pthread_cond_signal(&ring->has_end); /* where the waiting thread is the reader */
    unlock(ring);
    if (ring->method->wake != NULL)
        ring->method->wake(ring->method_state);
    lock(ring);
}

static void *check_reader(void *ctx) {
    struct ring *ring = ctx;
    lock(ring);
    while (!ring->is_ending) {
        struct place *place = find_read(ring);
        if (place != NULL)
            look_at(ring, place);
        else
            must(pthread_cond_wait(&ring->has_read, &ring->lock) == 0);
    }
    unlock(ring);
    return NULL;
}

/* The owner's side. */

static void check_reads(const struct ring *ring, const struct ring_read *reads, size_t count,
                        const uint8_t *into) {
    must(into == NULL || (uintptr_t)into % SL_IO_ALIGN == 0);
    for (size_t i = 0; i < count; i++) {
        size_t lead = (size_t)(reads[i].offset % SL_IO_ALIGN), end;
        must(size_add(reads[i].slab_offset, reads[i].bytes, &end));
        must(reads[i].offset <= INT64_MAX - reads[i].bytes);
        if (reads[i].file->direct_fd >= 0) {
            must(reads[i].slab_offset % SL_IO_ALIGN == lead);
            must(size_add(end, SL_IO_ALIGN - 1, &end));
            end -= end % SL_IO_ALIGN;
        }
        must(into != NULL || end <= ring->slab_bytes);
    }
}

static void warn_of_refusal(struct ring *ring, const struct ring_read *reads, size_t count) {
    for (size_t i = 0; i < count && !ring->has_warned; i++) {
        if (!reads[i].file->is_direct_refused)
            continue;
        ring->has_warned = true;
        log_warning("%s: the file system refuses direct I/O; reading through the page cache, which "
                    "may be slower",
                    reads[i].file->path);
    }
}

/* A free place, with its slab set when one is wanted; NULL when there is none. */
static struct place *find_room(struct ring *ring, bool wants_slab) {
    struct place *place = NULL;
    size_t others = 0; /* places that hold memory of the caller's */
    for (size_t i = 0; i < RING_PLACES; i++) {
        if (ring->places[i].state == PLACE_FREE && place == NULL)
            place = &ring->places[i];
        others += ring->places[i].state != PLACE_FREE && ring->places[i].slab == NO_SLAB;
    }
    if (!wants_slab) {
        if (others >= RING_PLACES - SL_RING_SLABS_MAX)
            return NULL;
        must(place != NULL);
        place->slab = NO_SLAB;
        return place;
    }
    for (size_t i = 0; i < ring->slab_count; i++) {
        size_t slab = (ring->slab_next + i) % ring->slab_count;
        if (ring->slab_in_use[slab])
            continue;
        must(place != NULL);
        ring->slab_in_use[slab] = true;
        ring->slab_next = (slab + 1) % ring->slab_count;
        place->slab = slab;
        return place;
    }
    return NULL;
}

static struct place *find_ticket(struct ring *ring, uint64_t ticket) {
    for (size_t i = 0; i < RING_PLACES; i++)
        if (ring->places[i].state != PLACE_FREE && ring->places[i].ticket == ticket)
            return &ring->places[i];
    return NULL;
}

static void free_place(struct ring *ring, struct place *place) {
    if (place->slab != NO_SLAB)
        ring->slab_in_use[place->slab] = false;
    place->state = PLACE_FREE;
}

/* Puts a submission into its place and in order; the lock is held. */
static void enqueue(struct ring *ring, struct place *place, const struct ring_read *reads,
                    size_t count) {
    place->state = PLACE_QUEUED;
    place->read_count = 0;
    place->is_again = false;
    void *items = place->reads;
    place->has_failed = !mem_grow(&items, &place->read_cap, count, sizeof *reads);
    if (place->has_failed) {
        error_memory(&place->err, count * sizeof *reads, "the reads of a block");
    } else {
        place->reads = items;
        place->read_count = count;
        if (count > 0)
            memcpy(place->reads, reads, count * sizeof *reads);
    }
    add_to_order(ring, place);
}

bool ring_submit(struct ring *ring, uint64_t ticket, const struct ring_read *reads, size_t count,
                 uint8_t *into) {
    check_reads(ring, reads, count, into);
    lock(ring);
    must(find_ticket(ring, ticket) == NULL);
    struct place *place = find_room(ring, into == NULL);
    if (place != NULL) {
        place->ticket = ticket;
        place->memory = into != NULL ? into : ring->slabs[place->slab].data;
        enqueue(ring, place, reads, count);
    }
    unlock(ring);
    if (place != NULL && ring->method->wake != NULL)
        ring->method->wake(ring->method_state);
    if (place != NULL)
        warn_of_refusal(ring, reads, count);
    return place != NULL;
}

/* Lets some work happen, or sleeps until some has; the lock is held before and after. */
static void wait_a_little(struct ring *ring, struct place *place) {
    if (ring->method->help != NULL && place->state == PLACE_QUEUED) {
        unlock(ring);
        bool did_some = ring->method->help(ring);
        lock(ring);
        must(did_some || place->state != PLACE_QUEUED);
        return;
    }
    struct timespec until;
    must(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_nsec += (long)(RING_ASK_SECONDS * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int number = pthread_cond_timedwait(&ring->has_end, &ring->lock, &until);
    must(number == 0 || number == ETIMEDOUT);
}

static bool is_coming(const struct place *place) {
    return place->state == PLACE_QUEUED || place->state == PLACE_READ;
}

enum status ring_wait(struct ring *ring, uint64_t ticket, bool (*should_stop)(void), uint8_t **slab,
                      struct error *err) {
    double began = clock_seconds(), asked = began;
    enum status status = SL_OK;
    lock(ring);
    struct place *place = find_ticket(ring, ticket);
    must(place != NULL);
    must(place->state != PLACE_LEASED);
    while (is_coming(place) && status == SL_OK) {
        wait_a_little(ring, place);
        double now = clock_seconds();
        if (!is_coming(place) || should_stop == NULL || now - asked < RING_ASK_SECONDS)
            continue;
        asked = now;
        unlock(ring); /* it is not ours: it may take locks of its own */
        bool is_stopped = should_stop();
        lock(ring);
        if (is_stopped)
            status = error_set(err, SL_ERR_STOPPED, "stopped while waiting for a read");
    }
    if (status == SL_OK && place->state == PLACE_FAILED) {
        status = place->err.status;
        if (err != NULL)
            *err = place->err;
        free_place(ring, place);
    } else if (status == SL_OK) {
        must(place->state == PLACE_READY);
        place->state = PLACE_LEASED;
        *slab = place->memory;
    }
    ring->counters.wait_seconds += clock_seconds() - began;
    unlock(ring);
    return status;
}

/* What is left in the page cache of buffered reads, which have dropped their chunks each: readers
 * side by side, whom the kernel reads ahead for, bring back what another one has dropped. */
static void drop_reads(const struct place *place) {
    for (size_t i = 0; i < place->read_count; i++) {
        const struct ring_read *read = &place->reads[i];
        if (read->file->direct_fd < 0)
            file_drop_cache(read->file, read->offset, read->offset + read->bytes);
    }
}

void ring_release(struct ring *ring, uint64_t ticket) {
    lock(ring);
    struct place *place = find_ticket(ring, ticket);
    must(place != NULL);
    must(place->state == PLACE_LEASED);
    unlock(ring);
    drop_reads(place); /* leased: nobody else touches it */
    lock(ring);
    free_place(ring, place);
    unlock(ring);
}

void ring_counters_get(struct ring *ring, struct ring_counters *out) {
    lock(ring);
    *out = ring->counters;
    if (ring->in_flight > 0)
        out->read_seconds += clock_seconds() - ring->in_flight_since;
    unlock(ring);
}
