/* The engine: holds the rows that are being generated and turns passes into new tokens. Owns the
 * rules by which a row ends:
 *
 *   token picked -- a stop id, and the row does not ignore EOS --> STOP, the id is not kept
 *                -- kept; listener.token says a stop text is complete --> STOP
 *                -- kept; the answer has max_tokens --> LENGTH
 *
 * A row that is scored picks nothing: each of its columns adds the log probability of the token
 * that follows, and after the last one it ends with LENGTH.
 *
 * So a stop id that comes as the last allowed token is a STOP (CASES 05). Refuses text, files and
 * decisions about admission: sched.c counts, the caller decides who comes next. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "model/rope.h"

/* Rows that sample at the same time: each has scratch of the vocabulary's size. */
#define ENGINE_SAMPLERS_MAX ((size_t)16)
/* Of a pass that the drive makes longer, it reads so much of the time at least. */
#define DRIVE_BUSY_SHARE 0.8

struct engine {
    const struct model *model;
    struct backend *backend;
    struct provider *provider;
    struct engine_listener listener;
    struct kv kv;
    struct prefix prefix; /* zeroed when rows share nothing */
    struct sched sched;
    struct pass pass;
    struct step *step;
    struct sample_scratch *samplers; /* [sampler_count] */
    size_t sampler_count;
    struct ring_counters reads; /* at the end of the last pass */
    uint64_t joined_tokens;     /* likewise; of prefix */
    uint64_t used_bytes;        /* weights that the passes so far have used from disk */
    bool has_failed;            /* a pass has: what it was to compute is not there */
};

static size_t engine_samplers(size_t threads) {
    return threads < ENGINE_SAMPLERS_MAX ? threads : ENGINE_SAMPLERS_MAX;
}

uint64_t engine_page_bytes(size_t page_count) {
    return (uint64_t)page_count * kv_page_notes_bytes() + prefix_bytes(page_count);
}

uint64_t engine_sampling_bytes(const struct model *model, size_t threads) {
    uint64_t scratch = (uint64_t)model->config.vocabulary * (2 * sizeof(float) + sizeof(uint32_t));
    return engine_samplers(threads) * (scratch + sizeof(struct sample_scratch));
}

uint64_t engine_bytes(const struct model *model, const struct sched_limits *limits,
                      size_t threads) {
    uint64_t sum = sizeof(struct engine);
    sum += pass_bytes(limits->pass_tokens, sched_logits_max(limits));
    sum += (uint64_t)limits->batch_max * (sizeof(struct seq *) + sizeof(struct sched_pick));
    sum += engine_page_bytes(limits->page_count) + engine_page_bytes(limits->window_page_count);
    if (kv_has_states(&model->config))
        sum += engine_page_bytes(limits->batch_max + limits->kept_states);
    sum += (uint64_t)model->config.layers * sizeof(struct kv_layer);
    return sum + engine_sampling_bytes(model, threads);
}

static enum status engine_fill_samplers(struct engine *engine, struct error *err) {
    size_t count = engine_samplers(team_threads(engine->backend->team));
    engine->samplers = mem_new(count, sizeof *engine->samplers);
    if (engine->samplers == NULL)
        return error_memory(err, count * sizeof *engine->samplers, "sampling");
    engine->sampler_count = count;
    for (size_t i = 0; i < count; i++)
        TRY(sample_scratch_init(&engine->samplers[i], engine->model->config.vocabulary, err));
    return SL_OK;
}

static enum status engine_fill(struct engine *engine, const struct engine_options *options,
                               struct error *err) {
    const struct model *model = options->model;
    struct sched_limits limits = options->limits;
    limits.window = kv_window(&model->config);
    limits.is_all_windowed = kv_page_bytes(&model->config, options->kv_dtype, KV_WHOLE) == 0;
    size_t page_counts[KV_GROUPS] = {limits.page_count, limits.window_page_count,
                                     limits.batch_max + limits.kept_states};
    struct step_options step_options = {
        .model = model,
        .backend = options->backend,
        .provider = options->provider,
        .tokens_max = limits.pass_tokens,
        .logits_max = sched_logits_max(&limits),
    };
    TRY(kv_init(&engine->kv, &model->config, options->kv_dtype, page_counts, err));
    TRY(sched_init(&engine->sched, &limits, err));
    if (kv_can_share(&model->config) && !options->keeps_rows_apart) {
        TRY(prefix_init(&engine->prefix, &engine->kv, err));
        engine->sched.prefix = &engine->prefix;
    }
    TRY(pass_init(&engine->pass, limits.pass_tokens, step_options.logits_max, err));
    TRY(engine_fill_samplers(engine, err));
    engine->pass.at_layer = options->listener.layer;
    engine->pass.at_layer_ctx = options->listener.ctx;
    return step_new(&step_options, &engine->step, err);
}

enum status engine_new(const struct engine_options *options, struct engine **out,
                       struct error *err) {
    struct engine *engine = mem_new(1, sizeof *engine);
    if (engine == NULL)
        return error_memory(err, sizeof *engine, "the engine");
    engine->model = options->model;
    engine->backend = options->backend;
    engine->provider = options->provider;
    engine->listener = options->listener;
    enum status status = engine_fill(engine, options, err);
    if (status != SL_OK) {
        engine_free(engine);
        return status;
    }
    *out = engine;
    return SL_OK;
}

void engine_free(struct engine *engine) {
    if (engine == NULL)
        return;
    for (size_t i = 0; i < engine->sched.inside_count; i++)
        seq_free(engine->sched.rows[i], &engine->kv);
    step_free(engine->step);
    for (size_t i = 0; i < engine->sampler_count; i++)
        sample_scratch_release(&engine->samplers[i]);
    mem_free(engine->samplers);
    pass_release(&engine->pass);
    sched_release(&engine->sched);
    prefix_release(&engine->prefix);
    kv_release(&engine->kv);
    mem_free(engine);
}

bool engine_fits(struct engine *engine, const struct sched_ask *ask) {
    return sched_fits(&engine->sched, ask);
}

bool engine_can_ever_fit(const struct engine *engine, size_t prompt_count, size_t max_tokens) {
    return sched_can_ever_fit(&engine->sched, prompt_count, max_tokens);
}

enum status engine_admit(struct engine *engine, const struct seq_request *request,
                         struct error *err) {
    struct seq *seq;
    for (size_t i = 0; i < request->prompt_count; i++)
        must(request->prompt[i] < engine->model->config.vocabulary); /* the caller refuses rows */
    for (size_t i = 0; i < request->answer_count; i++)
        must(request->answer[i] < engine->model->config.vocabulary);
    must(request->score_first == 0 ||
         (request->target < engine->model->config.vocabulary && engine->sched.limits.scores));
    TRY(seq_new(request, &seq, err));
    seq->chain.kind =
        rope_is_long(&engine->model->config.rope, seq->prompt_count + seq->max_tokens);
    sched_admit(&engine->sched, seq);
    return SL_OK;
}

size_t engine_live(const struct engine *engine) {
    return engine->sched.inside_count;
}

const struct kv *engine_kv(const struct engine *engine) {
    return &engine->kv;
}

const struct sched *engine_sched(const struct engine *engine) {
    return &engine->sched;
}

static bool engine_needs_logits(const struct seq *seq) {
    return seq->sampling.temperature > 0 || seq->wants_logprobs || seq->score_next > 0;
}

/* The token behind that of a column, which is scored. */
static uint32_t engine_target(const struct pass *pass, size_t column) {
    size_t position = pass->kv_tokens[pass->logit_columns[column]].position;
    return pass->logit_seqs[column]->tokens[position + 1];
}

/* The next token of the row whose logits are that column, into pass.best, which holds the best one;
 * and its logprobs. Of a row that is scored the log probability of the token that it has. */
static void engine_choose(struct engine *engine, size_t column, struct sample_scratch *scratch) {
    struct seq *seq = engine->pass.logit_seqs[column];
    const float *values = act_at(&engine->step->logits, 0, column);
    size_t answer_count = seq_answer_count(seq);
    must(answer_count < seq->max_tokens);
    for (size_t i = 0; i < scratch->vocabulary; i++)
        scratch->logits[i] = values[i * SL_LANES];
    if (seq->score_next > 0) {
        sample_logprobs(scratch, engine_target(&engine->pass, column), &engine->pass.scores[column],
                        NULL, 0);
        return;
    }
    uint32_t id = engine->pass.best[column];
    if (seq->sampling.temperature > 0)
        id = sample_pick(scratch, &seq->sampling, seq->key, seq->token_count);
    engine->pass.best[column] = id;
    if (!seq->wants_logprobs)
        return;
    struct token_logprobs *entry = &seq->logprobs[answer_count];
    entry->id = id;
    sample_logprobs(scratch, id, &entry->logprob, entry->top, seq->logprobs_count);
}

/* Whether any row of the pass needs more than the best token: else waking the team is in vain. */
static bool engine_pass_needs_logits(const struct engine *engine) {
    for (size_t i = 0; i < engine->pass.logit_count; i++)
        if (engine_needs_logits(engine->pass.logit_seqs[i]))
            return true;
    return false;
}

/* Every sampler_count-th column, each with logits of its own to look at. */
static void engine_choose_some(void *ctx, size_t item, size_t worker) {
    struct engine *engine = ctx;
    (void)worker;
    for (size_t i = item; i < engine->pass.logit_count; i += engine->sampler_count)
        if (engine_needs_logits(engine->pass.logit_seqs[i]))
            engine_choose(engine, i, &engine->samplers[item]);
}

/* Takes the row out of the engine and tells the listener. */
static enum status engine_finish(struct engine *engine, struct seq *seq, enum finish finish,
                                 struct error *err) {
    seq->finish = finish;
    sched_remove(&engine->sched, seq);
    enum status status = engine->listener.done(engine->listener.ctx, seq, err);
    seq_free(seq, &engine->kv);
    return status;
}

/* Adds the score of that column to its row; *has_ended tells whether it was the last. */
static enum status engine_add_score(struct engine *engine, size_t column, bool *has_ended,
                                    struct error *err) {
    struct seq *seq = engine->pass.logit_seqs[column];
    uint32_t target = engine_target(&engine->pass, column);
    seq->score_sum += (double)engine->pass.scores[column];
    seq->is_greedy = seq->is_greedy && engine->pass.best[column] == target;
    *has_ended = seq->score_next++ == seq->prompt_count;
    return *has_ended ? engine_finish(engine, seq, FINISH_LENGTH, err) : SL_OK;
}

/* Gives the row of that column its next token; *has_ended tells whether it left. */
static enum status engine_push(struct engine *engine, size_t column, bool *has_ended,
                               struct error *err) {
    struct seq *seq = engine->pass.logit_seqs[column];
    size_t answer_count = seq_answer_count(seq);
    must(answer_count < seq->max_tokens);
    uint32_t id = engine->pass.best[column];
    *has_ended = true;
    if (!seq->ignores_eos && model_is_eos(engine->model, id))
        return engine_finish(engine, seq, FINISH_STOP, err);
    seq->tokens[seq->token_count++] = id;
    sched_grow(&engine->sched, seq);
    if (engine->listener.token(engine->listener.ctx, seq, id))
        return engine_finish(engine, seq, FINISH_STOP, err);
    if (answer_count + 1 == seq->max_tokens)
        return engine_finish(engine, seq, FINISH_LENGTH, err);
    *has_ended = false;
    return SL_OK;
}

/* Whether every row surely ends with this pass, so that no further one will read. */
static bool engine_is_last(const struct engine *engine) {
    const struct sched *sched = &engine->sched;
    size_t ending = 0;
    for (size_t i = 0; i < sched->pick_count; i++) {
        const struct sched_pick *pick = &sched->picks[i];
        bool is_all = pick->first + pick->count == pick->seq->token_count;
        ending += is_all && seq_answer_count(pick->seq) + 1 == pick->seq->max_tokens;
    }
    return ending == sched->inside_count;
}

static void engine_count_tokens(const struct engine *engine, struct pass_report *report) {
    const struct sched *sched = &engine->sched;
    for (size_t i = 0; i < sched->pick_count; i++) {
        const struct sched_pick *pick = &sched->picks[i];
        size_t given = pick->seq->given_count, end = pick->first + pick->count;
        size_t decode = end > given ? (pick->first > given ? pick->count : end - given) : 0;
        report->decode_tokens += decode;
        report->prefill_tokens += pick->count - decode;
    }
}

/* Reads since the last pass. The bytes are those of the blocks that this pass used: a provider that
 * reads for every pass has read them for each, and blocks read ahead for the next one do not count
 * yet; one that keeps blocks has read them once. */
static void engine_count_reads(struct engine *engine, struct ring_counters *out) {
    struct ring_counters now;
    provider_counters(engine->provider, &now);
    out->read_bytes = engine->step->used_bytes - engine->used_bytes;
    out->read_seconds = now.read_seconds - engine->reads.read_seconds;
    out->wait_seconds = now.wait_seconds - engine->reads.wait_seconds;
    engine->used_bytes += out->read_bytes;
    engine->reads = now;
}

double engine_waited(const struct pass_report *report) {
    bool is_busy = report->reads.read_seconds >= DRIVE_BUSY_SHARE * report->seconds;
    return is_busy ? report->reads.wait_seconds : 0;
}

enum status engine_pass(struct engine *engine, bool has_more, struct pass_report *report,
                        struct error *err) {
    double begin = clock_seconds();
    must(engine->sched.inside_count > 0);
    must(!engine->has_failed);
    *report = (struct pass_report){0};
    sched_pick(&engine->sched, &engine->kv);
    report->kv_bytes_used = kv_bytes_used(&engine->kv);
    report->shared_tokens = (size_t)(engine->prefix.joined_tokens - engine->joined_tokens);
    engine->joined_tokens = engine->prefix.joined_tokens;
    engine_count_tokens(engine, report);
    engine->step->is_last_pass = !has_more && engine_is_last(engine);
    engine->has_failed = true; /* until it is through */
    TRY(pass_run(&engine->pass, &engine->sched, &engine->kv, engine->step, err));
    engine->has_failed = false;
    engine_count_reads(engine, &report->reads);
    if (engine_pass_needs_logits(engine))
        team_run(engine->backend->team, engine_choose_some, engine, engine->sampler_count);
    for (size_t i = 0; i < engine->pass.logit_count; i++) {
        bool has_ended, is_scored = engine->pass.logit_seqs[i]->score_next > 0;
        TRY(is_scored ? engine_add_score(engine, i, &has_ended, err)
                      : engine_push(engine, i, &has_ended, err));
        report->new_tokens += !is_scored;
        report->rows_done += has_ended;
    }
    report->seconds = clock_seconds() - begin;
    /* What a pass waits for that is read once says nothing about the passes to come. */
    bool will_wait = !engine->provider->ops->keeps_all;
    sched_learn(&engine->sched, report->seconds, will_wait ? engine_waited(report) : 0);
    report->rows_suspended = engine->sched.inside_count - engine->sched.live_count;
    return SL_OK;
}
