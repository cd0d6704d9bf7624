/* The engine: tokens in, tokens out. Knows no text, files of rows or sockets.
 *
 *   engine_fits? -> engine_admit ... engine_pass -> listener.token for every new token,
 * listener.done for every row that ended
 *
 * A row that has entered may give up its pages when they run out, and goes on later by itself
 * (sched.h); nobody outside sees that, but for its time.
 *
 * One thread. The engine owns KV, scheduler, step, pass; model, backend, provider are borrowed. */
#ifndef SLUICE_ENGINE_ENGINE_H
#define SLUICE_ENGINE_ENGINE_H

#include "engine/pass.h"

struct engine;

struct engine_listener {
    void *ctx;
    /* A new token that is no stop id (or EOS under ignores_eos). True: a stop text is complete, end
     * the row with FINISH_STOP. */
    bool (*token)(void *ctx, struct seq *seq, uint32_t id);
    /* The row ended: seq->finish says how; seq_answer leaves out a stop id. The seq is freed after
     * the call. */
    enum status (*done)(void *ctx, struct seq *seq, struct error *err);
    /* May be NULL: a pass of so many tokens comes to that layer. For those who watch. */
    void (*layer)(void *ctx, uint32_t layer, uint32_t layers, size_t tokens);
};

struct engine_options {
    const struct model *model;
    struct backend *backend;
    struct provider *provider;
    enum kv_dtype kv_dtype;
    struct sched_limits limits; /* window and is_all_windowed are the model's, not read */
    struct engine_listener listener;
    bool keeps_rows_apart; /* for comparisons: nothing is shared among rows */
};

struct pass_report {
    size_t decode_tokens, prefill_tokens;
    size_t shared_tokens; /* that rows had not to compute, since the last pass */
    size_t new_tokens;    /* picked in this pass, stop ids included */
    size_t rows_done;
    size_t rows_suspended;  /* now: they wait inside for pages */
    uint64_t kv_bytes_used; /* of the pages that the pass was computed with */
    double seconds;
    struct ring_counters reads; /* of this pass */
};

/* Seconds that the pass was longer because of the drive: what it waited for blocks where the drive
 * was at work nearly all the time. Else the drive had slack, and the wait is that for the first
 * blocks, which more reads a second would not shorten much. */
double engine_waited(const struct pass_report *report);

enum status engine_new(const struct engine_options *options, struct engine **out,
                       struct error *err);
void engine_free(struct engine *engine); /* drops live rows; accepts NULL */
/* Whether the row could enter now; whether it could alone. */
bool engine_fits(struct engine *engine, const struct sched_ask *ask);
bool engine_can_ever_fit(const struct engine *engine, size_t prompt_count, size_t max_tokens);
enum status engine_admit(struct engine *engine, const struct seq_request *request,
                         struct error *err);
size_t engine_live(const struct engine *engine); /* rows inside, suspended ones too */
const struct kv *engine_kv(const struct engine *engine);
/* Which rows are in, how far they are, and what is expected of them. */
const struct sched *engine_sched(const struct engine *engine);
/* One pass; must have a live row. has_more: rows wait outside, so the next pass will come (reads go
 * on over the border). None may follow one that failed. */
enum status engine_pass(struct engine *engine, bool has_more, struct pass_report *report,
                        struct error *err);
/* Memory that engine_new takes besides KV pages and step_bytes (bookkeeping, sampler scratch), with
 * a team of so many threads. */
uint64_t engine_bytes(const struct model *model, const struct sched_limits *limits, size_t threads);
/* The part of it that is bookkeeping for so many pages of a group. */
uint64_t engine_page_bytes(size_t page_count);
/* And what is touched only where a row is sampled or wants logprobs. */
uint64_t engine_sampling_bytes(const struct model *model, size_t threads);

#endif
