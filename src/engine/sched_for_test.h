/* Plays a job against the scheduler without a model: rows of given lengths come in order, passes
 * are counted. For sched_test.c and sched_bench.c. */
#ifndef SLUICE_ENGINE_SCHED_FOR_TEST_H
#define SLUICE_ENGINE_SCHED_FOR_TEST_H

#include "base/clock.h"
#include "base/mem.h"
#include "engine/queue.h"
#include "engine/sched.h"

#include <math.h>
#include <string.h>

struct play_row {
    size_t prompt, max_tokens;
    size_t length; /* of the answer, at most max_tokens */
    bool is_certain;
};

struct play {
    const struct play_row *rows;
    size_t row_count;
    struct sched_limits limits;
    struct config config;
    /* Seconds of a pass: the greater of read_seconds and tokens x token_seconds. */
    double read_seconds, token_seconds;
    /* Called after picks are made, before they are computed; NULL: nobody looks. */
    void (*look)(struct play *play);
    void *ctx;
    /* state */
    struct sched sched;
    struct kv kv;
    struct seq **seqs; /* [row_count] */
    size_t *entered;   /* [row_count]: how many before it */
    size_t entered_count;
    struct queue queue; /* in the order of rows */
    size_t ended;
    /* results */
    size_t passes, full_passes;
    double fill;      /* mean over full passes: those after which rows wait outside */
    double full_fill; /* the same from the first pass on that had 0.9 */
    size_t full_from; /* full passes before it */
    size_t tokens, suspensions_most, inside_most;
    double seconds, sched_seconds,
        first_seconds;   /* of passes; of the scheduler; to the first row */
    size_t longest_wait; /* passes that a row waited inside for a token */
};

static inline double play_normal(uint64_t *random) {
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*random >> 11) / 9007199254740992.0;
    }
    return sum - 6;
}

static inline void play_must(enum status status) {
    must(status == SL_OK);
}

static inline bool play_fits(void *ctx, uint32_t at) {
    struct play *play = ctx;
    const struct play_row *row = &play->rows[at];
    struct sched_ask ask = {.prompt_count = row->prompt,
                            .max_tokens = row->max_tokens,
                            .waiting_count = play->queue.count - play->queue.next,
                            .is_certain = row->is_certain};
    must(sched_can_ever_fit(&play->sched, row->prompt, row->max_tokens));
    return sched_fits(&play->sched, &ask);
}

static inline void play_admit(struct play *play) {
    static const uint32_t tokens[65536];
    uint32_t at;
    while (queue_take(&play->queue, play_fits, play, &at)) {
        const struct play_row *row = &play->rows[at];
        struct seq_request request = {.user = (void *)(uintptr_t)at,
                                      .prompt = tokens,
                                      .prompt_count = row->prompt,
                                      .max_tokens = row->max_tokens,
                                      .ignores_eos = row->is_certain};
        must(row->prompt <= 65536);
        play_must(seq_new(&request, &play->seqs[at], NULL));
        sched_admit(&play->sched, play->seqs[at]);
        play->entered[at] = play->entered_count++;
        if (play->sched.inside_count > play->inside_most)
            play->inside_most = play->sched.inside_count;
    }
}

/* As the engine does after a pass. */
static inline void play_compute(struct play *play) {
    struct sched *sched = &play->sched;
    for (size_t i = 0; i < sched->pick_count; i++) {
        struct sched_pick *pick = &sched->picks[i];
        must(seq_take_pages(pick->seq, &play->kv, pick->first + pick->count));
    }
    if (play->look != NULL)
        play->look(play);
    for (size_t i = 0; i < sched->pick_count; i++) {
        sched->picks[i].seq->computed += sched->picks[i].count;
        seq_trim_pages(sched->picks[i].seq, &play->kv);
    }
}

static inline void play_push(struct play *play) {
    struct sched *sched = &play->sched;
    for (size_t i = 0; i < sched->pick_count; i++) {
        struct seq *seq = sched->picks[i].seq;
        size_t at = (size_t)(uintptr_t)seq->user;
        if (!sched->picks[i].wants_logits)
            continue;
        bool is_stop = seq_answer_count(seq) == play->rows[at].length;
        if (!is_stop) {
            seq->tokens[seq->token_count++] = 1;
            sched_grow(sched, seq);
            if (seq_answer_count(seq) < seq->max_tokens)
                continue;
        }
        seq->finish = is_stop ? FINISH_STOP : FINISH_LENGTH;
        sched_remove(sched, seq);
        if (seq->suspensions > play->suspensions_most)
            play->suspensions_most = seq->suspensions;
        seq_free(seq, &play->kv);
        play->seqs[at] = NULL;
        if (play->ended++ == 0)
            play->first_seconds = play->seconds;
    }
}

static inline void play_pass(struct play *play) {
    struct sched *sched = &play->sched;
    double begin = clock_seconds();
    play_admit(play);
    sched_pick(sched, &play->kv);
    play->sched_seconds += clock_seconds() - begin;
    play->passes++;
    play->tokens += sched->pick_tokens;
    play_compute(play);
    if (play->queue.next < play->queue.count) {
        const struct kv_pool *pool = &play->kv.pools[KV_WHOLE];
        if (pool->page_bytes == 0)
            pool = &play->kv.pools[KV_WINDOW];
        play->full_passes++;
        double fill = (double)pool->pages_used / (double)pool->page_count;
        play->fill += fill;
        if (play->full_fill > 0 || fill >= 0.9)
            play->full_fill += fill;
        else
            play->full_from++;
    }
    double compute = (double)sched->pick_tokens * play->token_seconds;
    double seconds = compute > play->read_seconds ? compute : play->read_seconds;
    play->seconds += seconds;
    begin = clock_seconds();
    sched_learn(sched, seconds, seconds - compute);
    play_push(play);
    play->sched_seconds += clock_seconds() - begin;
}

static inline void play_begin(struct play *play) {
    size_t counts[KV_GROUPS] = {play->limits.page_count, play->limits.window_page_count};
    play_must(sched_init(&play->sched, &play->limits, NULL));
    play_must(kv_init(&play->kv, &play->config, KV_BF16, counts, NULL));
    play->seqs = mem_new(play->row_count, sizeof(struct seq *));
    play->queue.rows = mem_new(play->row_count, sizeof(uint32_t));
    play->entered = mem_new(play->row_count, sizeof *play->entered);
    must(play->seqs != NULL && play->queue.rows != NULL && play->entered != NULL);
    play->queue.count = play->row_count;
    for (size_t i = 0; i < play->row_count; i++)
        play->queue.rows[i] = (uint32_t)i;
}

static inline void play_end(struct play *play) {
    must(kv_pages_used(&play->kv) == 0);
    must(play->sched.inside_count == 0);
    kv_release(&play->kv);
    mem_free(play->seqs);
    mem_free(play->queue.rows);
    mem_free(play->entered);
    if (play->full_passes > play->full_from)
        play->full_fill /= (double)(play->full_passes - play->full_from);
    if (play->full_passes > 0)
        play->fill /= (double)play->full_passes;
}

static inline void play_all(struct play *play) {
    play_begin(play);
    while (play->ended < play->row_count)
        play_pass(play);
    play_end(play);
}

#endif
