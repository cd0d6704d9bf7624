/* The table of ring methods, and the two that need nothing but pread: sync (in the thread that
 * waits: the reference) and pool (threads). uring has a file of its own. */
#include "io/ring_method.h"

#include "base/fault.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

/* A reader needs little stack; the default would ask for 8 MB of address space each. */
#define READER_STACK_BYTES ((size_t)512 << 10)

static const struct ring_method *const ring_methods[] = {
    &ring_method_pool,
    &ring_method_uring,
    &ring_method_sync,
};

const struct ring_method *ring_method_find(const char *name) {
    for (size_t i = 0; i < sizeof ring_methods / sizeof *ring_methods; i++)
        if (strcmp(ring_methods[i]->name, name) == 0)
            return ring_methods[i];
    return NULL;
}

const char *ring_method_name(const struct ring_method *method) {
    return method->name;
}

enum status ring_method_try(const struct ring_method *method, struct error *err) {
    struct ring_options options = {.method = method, .depth = 1};
    struct ring *ring = NULL;
    enum status status = ring_new(&options, &ring, err);
    ring_free(ring);
    return status;
}

int ring_thread_start(pthread_t *thread, void *(*work)(void *), void *ctx) {
    pthread_attr_t attr;
    sigset_t all, before;
    if (fault_hit(SL_FAULT_THREAD))
        return EAGAIN;
    int number = pthread_attr_init(&attr);
    if (number != 0)
        return number;
    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    number = pthread_attr_setstacksize(&attr, READER_STACK_BYTES);
    if (number == 0)
        number = pthread_create(thread, &attr, work, ctx);
    must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    pthread_attr_destroy(&attr);
    return number;
}

static void read_and_give(struct ring *ring, const struct chunk *chunk) {
    struct error err = {0};
    enum status status = chunk_read(chunk, &err);
    ring_give(ring, chunk, status, &err);
}

/* sync */

static enum status sync_start(struct ring *ring, size_t depth, void **state, struct error *err) {
    (void)ring;
    (void)depth;
    (void)err;
    *state = NULL;
    return SL_OK;
}

static void sync_stop(void *state) {
    (void)state;
}

static bool sync_help(struct ring *ring) {
    struct chunk chunk;
    if (!ring_take(ring, false, &chunk))
        return false;
    read_and_give(ring, &chunk);
    return true;
}

const struct ring_method ring_method_sync = {
    .name = "sync", .start = sync_start, .stop = sync_stop, .help = sync_help};

/* pool */

struct pool {
    size_t count; /* threads running */
    pthread_t threads[];
};

static void *pool_reader(void *ctx) {
    struct ring *ring = ctx;
    struct chunk chunk;
    while (ring_take(ring, true, &chunk))
        read_and_give(ring, &chunk);
    return NULL;
}

static void pool_stop(void *state) {
    struct pool *pool = state;
    for (size_t i = 0; i < pool->count; i++)
        must(pthread_join(pool->threads[i], NULL) == 0);
    mem_free(pool);
}

static enum status pool_start(struct ring *ring, size_t depth, void **state, struct error *err) {
    size_t bytes = sizeof(struct pool) + depth * sizeof(pthread_t);
    struct pool *pool = mem_new(1, bytes);
    if (pool == NULL)
        return error_memory(err, bytes, "reader threads");
    *state = pool; /* on failure too: stop joins the readers that did start */
    int number = 0;
    while (number == 0 && pool->count < depth) {
        number = ring_thread_start(&pool->threads[pool->count], pool_reader, ring);
        pool->count += number == 0;
    }
    if (number == 0)
        return SL_OK;
    char reason[128];
    return error_set(err, SL_ERR_ENV, "cannot start reader thread %zu of %zu: %s", pool->count + 1,
                     depth, strerror_r(number, reason, sizeof reason));
}

const struct ring_method ring_method_pool = {
    .name = "pool", .start = pool_start, .stop = pool_stop, .help = NULL};
