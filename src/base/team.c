/* Owns worker threads that share out whole items. Refuses to say who does which item.
 *
 * How a run goes, and why it is sound:
 *  1. The caller writes work, ctx and count, then sets `unfinished` and (release) `remaining`.
 *  2. A thread claims an item by taking one from `remaining`, if it is not 0. It reads work, ctx
 * and count only after a claim, and the run cannot end while a claimed item is unfinished. So a
 *     worker that wakes late meets either a claim in the present run or nothing.
 *  3. Done with an item it takes one from `unfinished` (release); the caller waits (acquire) for 0.
 * So nobody waits for a worker that sleeps: the caller alone can finish a run.
 *
 * Waiting is a short spin, for runs follow each other closely, then a futex: a worker sleeps on
 * `generation`, the caller on `unfinished`. Who is about to sleep says so first (`sleepers`,
 * `is_caller_asleep`) and the waker changes the word first, both sequentially consistent: either
 * the waker sees the sleeper, or the futex sees the changed word. */
#include "base/team.h"

#include "base/fault.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Turns of the spin: 5 to 20 microseconds, as long as a futex's sleep and wake take. */
#define SPIN_TURNS 200

struct worker {
    struct team *team;
    pthread_t thread;
    size_t index; /* 1 .. threads-1; 0 is the caller */
};

struct team {
    team_work *work;
    void *ctx;
    size_t count;
    _Alignas(64) _Atomic uint32_t remaining; /* items not yet claimed */
    _Alignas(64) _Atomic uint32_t unfinished;
    _Atomic uint32_t is_caller_asleep;
    _Alignas(64) _Atomic uint32_t generation; /* of runs; workers sleep on it */
    _Atomic uint32_t sleepers;
    _Atomic bool is_stopping;
    size_t threads, started; /* started: workers that team_free joins */
    struct worker *workers;  /* [threads - 1] */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Claims items and does them until none is left. */
static void work_off(struct team *team, size_t worker) {
    uint32_t remaining = atomic_load_explicit(&team->remaining, memory_order_acquire);
    while (remaining > 0) {
        if (!atomic_compare_exchange_weak_explicit(&team->remaining, &remaining, remaining - 1,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        team->work(team->ctx, team->count - remaining, worker);
        if (atomic_fetch_sub(&team->unfinished, 1) == 1 && worker != 0 &&
            atomic_load(&team->is_caller_asleep))
            futex_wake(&team->unfinished, 1);
        remaining = atomic_load_explicit(&team->remaining, memory_order_acquire);
    }
}

/* Returns once `generation` is no longer `seen`. */
static void await_generation(struct team *team, uint32_t seen) {
    for (int turn = 0; turn < SPIN_TURNS; turn++) {
        if (atomic_load_explicit(&team->generation, memory_order_acquire) != seen)
            return;
        pause_briefly();
    }
    atomic_fetch_add(&team->sleepers, 1);
    while (atomic_load(&team->generation) == seen)
        futex_wait(&team->generation, seen);
    atomic_fetch_sub(&team->sleepers, 1);
}

static void *worker_main(void *argument) {
    struct worker *worker = argument;
    struct team *team = worker->team;
    for (;;) {
        /* Read before looking for items: a run that begins after the look changes it. */
        uint32_t seen = atomic_load(&team->generation);
        if (atomic_load(&team->is_stopping))
            return NULL;
        work_off(team, worker->index);
        await_generation(team, seen);
    }
}

enum status team_new(size_t threads, struct team **out, struct error *err) {
    must(threads >= 1);
    must(threads <= SL_TEAM_THREADS_MAX);
    /* mem_new aligns to 16 and the struct asks for 64: sharing a cache line costs time alone, but
     * an address that the type forbids is undefined, so the memory is aligned by hand. */
    struct team *team = NULL;
    if (fault_hit(SL_FAULT_ALLOC) ||
        posix_memalign((void **)&team, _Alignof(struct team), sizeof *team) != 0)
        return error_memory(err, sizeof *team, "a team of threads");
    memset(team, 0, sizeof *team);
    team->threads = threads;
    team->workers = mem_new(threads, sizeof *team->workers);
    if (!team->workers) {
        team_free(team);
        return error_memory(err, threads * sizeof *team->workers, "a team of threads");
    }
    for (size_t i = 1; i < threads; i++) {
        struct worker *worker = &team->workers[i - 1];
        worker->team = team;
        worker->index = i;
        int failure = fault_hit(SL_FAULT_THREAD)
                          ? EAGAIN
                          : pthread_create(&worker->thread, NULL, worker_main, worker);
        if (failure != 0) {
            team_free(team);
            return error_set(err, SL_ERR_ENV, "cannot start thread %zu of %zu: %s", i + 1, threads,
                             strerror(failure));
        }
        team->started++;
    }
    *out = team;
    return SL_OK;
}

void team_free(struct team *team) {
    if (!team)
        return;
    atomic_store(&team->is_stopping, true);
    atomic_fetch_add(&team->generation, 1);
    futex_wake(&team->generation, INT_MAX);
    for (size_t i = 0; i < team->started; i++)
        pthread_join(team->workers[i].thread, NULL);
    mem_free(team->workers);
    mem_free(team);
}

size_t team_threads(const struct team *team) {
    return team->threads;
}

/* Returns once all items are done. */
static void await_finish(struct team *team) {
    for (int turn = 0; turn < SPIN_TURNS; turn++) {
        if (atomic_load_explicit(&team->unfinished, memory_order_acquire) == 0)
            return;
        pause_briefly();
    }
    atomic_store(&team->is_caller_asleep, 1);
    uint32_t unfinished;
    while ((unfinished = atomic_load(&team->unfinished)) != 0)
        futex_wait(&team->unfinished, unfinished);
    atomic_store(&team->is_caller_asleep, 0);
}

void team_run(struct team *team, team_work *work, void *ctx, size_t count) {
    if (count <= 1 || team->threads == 1) {
        for (size_t item = 0; item < count; item++)
            work(ctx, item, 0);
        return;
    }
    must(count < UINT32_MAX);
    team->work = work;
    team->ctx = ctx;
    team->count = count;
    atomic_store_explicit(&team->unfinished, (uint32_t)count, memory_order_relaxed);
    atomic_store_explicit(&team->remaining, (uint32_t)count, memory_order_release);
    atomic_fetch_add(&team->generation, 1);
    if (atomic_load(&team->sleepers) > 0)
        futex_wake(&team->generation, count - 1 < team->threads ? (int)(count - 1) : INT_MAX);
    work_off(team, 0);
    await_finish(team);
}
