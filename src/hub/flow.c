/* Owns the pieces, a ring of buffers, and the threads of the stages. Each stage has a count of the
 * pieces that it is done with; a buffer is filled again when all are. */
#include "hub/flow.h"

#include "base/mem.h"
#include "io/slab.h"

#include <pthread.h>
#include <string.h>

struct worker {
    struct flow *flow;
    struct flow_stage stage;
    pthread_t thread;
    uint64_t done; /* pieces */
};

/* What both sides touch is under the lock; a buffer belongs to who adds until it is handed over,
 * and then to the stages until all are done with it. */
struct flow {
    struct slab slab;
    struct worker workers[SL_FLOW_STAGES_MAX];
    size_t worker_count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t handed; /* pieces handed over so far */
    size_t piece_bytes[SL_FLOW_PIECES];
    bool has_failed, has_ended;

    /* Of who adds. */
    size_t filled, room; /* bytes of the piece that is being filled, and most of it */
};

static uint8_t *piece_at(const struct flow *flow, uint64_t number) {
    return flow->slab.data + (number % SL_FLOW_PIECES) * SL_FLOW_PIECE_BYTES;
}

static void *work(void *ctx) {
    struct worker *worker = ctx;
    struct flow *flow = worker->flow;
    pthread_mutex_lock(&flow->lock);
    for (;;) {
        while (worker->done == flow->handed && !flow->has_ended)
            pthread_cond_wait(&flow->changed, &flow->lock);
        if (worker->done == flow->handed)
            break;
        size_t bytes = flow->piece_bytes[worker->done % SL_FLOW_PIECES];
        bool is_wanted = !flow->has_failed, is_good = true;
        pthread_mutex_unlock(&flow->lock);
        if (is_wanted)
            is_good = worker->stage.work(worker->stage.ctx, piece_at(flow, worker->done), bytes);
        pthread_mutex_lock(&flow->lock);
        flow->has_failed = flow->has_failed || !is_good;
        worker->done++;
        pthread_cond_broadcast(&flow->changed);
    }
    pthread_mutex_unlock(&flow->lock);
    return NULL;
}

enum status flow_new(const struct flow_stage *stages, size_t count, struct flow **out,
                     struct error *err) {
    must(count <= SL_FLOW_STAGES_MAX);
    struct flow *flow = mem_new(1, sizeof *flow);
    if (flow == NULL)
        return error_memory(err, sizeof *flow, "a download");
    pthread_mutex_init(&flow->lock, NULL);
    pthread_cond_init(&flow->changed, NULL);
    enum status status = slab_init(&flow->slab, SL_FLOW_PIECES * SL_FLOW_PIECE_BYTES, err);
    for (size_t i = 0; status == SL_OK && i < count; i++) {
        struct worker *worker = &flow->workers[i];
        *worker = (struct worker){.flow = flow, .stage = stages[i]};
        int number = pthread_create(&worker->thread, NULL, work, worker);
        flow->worker_count += number == 0;
        if (number != 0)
            status = error_set(err, SL_ERR_ENV, "no thread can be started: %s", strerror(number));
    }
    if (status != SL_OK) {
        flow_free(flow);
        return status;
    }
    flow_begin(flow, 0);
    *out = flow;
    return SL_OK;
}

void flow_free(struct flow *flow) {
    if (flow == NULL)
        return;
    pthread_mutex_lock(&flow->lock);
    flow->has_ended = true;
    pthread_cond_broadcast(&flow->changed);
    pthread_mutex_unlock(&flow->lock);
    for (size_t i = 0; i < flow->worker_count; i++)
        must(pthread_join(flow->workers[i].thread, NULL) == 0);
    pthread_cond_destroy(&flow->changed);
    pthread_mutex_destroy(&flow->lock);
    slab_release(&flow->slab);
    mem_free(flow);
}

void flow_begin(struct flow *flow, uint64_t offset) {
    flow->filled = 0;
    flow->room = SL_FLOW_PIECE_BYTES - (size_t)(offset % SL_FLOW_PIECE_BYTES);
}

/* Waits until every stage has done all but `left` of the pieces; under the lock. */
static void wait_until(struct flow *flow, uint64_t left) {
    for (size_t i = 0; i < flow->worker_count; i++) {
        while (flow->handed - flow->workers[i].done > left)
            pthread_cond_wait(&flow->changed, &flow->lock);
    }
}

/* Gives the stages the piece that is being filled; the next one's buffer is then free. */
static bool hand_over(struct flow *flow) {
    pthread_mutex_lock(&flow->lock);
    flow->piece_bytes[flow->handed % SL_FLOW_PIECES] = flow->filled;
    flow->handed++;
    pthread_cond_broadcast(&flow->changed);
    wait_until(flow, SL_FLOW_PIECES - 1);
    bool is_good = !flow->has_failed;
    pthread_mutex_unlock(&flow->lock);
    flow_begin(flow, 0);
    return is_good;
}

bool flow_add(struct flow *flow, const void *data, size_t bytes) {
    const uint8_t *from = data;
    while (bytes > 0) {
        size_t part = size_min(bytes, flow->room - flow->filled);
        memcpy(piece_at(flow, flow->handed) + flow->filled, from, part);
        flow->filled += part;
        from += part;
        bytes -= part;
        if (flow->filled == flow->room && !hand_over(flow))
            return false;
    }
    return true;
}

bool flow_drain(struct flow *flow) {
    size_t rest = flow->room - flow->filled;
    if (flow->filled > 0) {
        (void)hand_over(flow);
        flow->room = rest; /* the offset stays what it is */
    }
    pthread_mutex_lock(&flow->lock);
    wait_until(flow, 0);
    bool is_good = !flow->has_failed;
    flow->has_failed = false;
    pthread_mutex_unlock(&flow->lock);
    return is_good;
}
