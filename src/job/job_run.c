/* Owns the main loop: rows are admitted in order, passes run, finished rows become result lines.
 *
 *   error rows -> [ admit while it fits -> pass -> (token, done) -> commit ] -> ordered file
 *
 * The order is job_order.c's; the engine says who fits. A row whose pages the engine gives up for a
 * while has its tokens in the journal like any other, and is none of our concern. A row's line is
 * committed before the row counts as done. Refuses to go on when a row reads differently from the
 * first look: the plan would no longer hold. */
#include "job/job.h"

#include "engine/engine.h"
#include "job/progress.h"
#include "job/result.h"
#include "plan/pins.h"
#include "plan/rates.h"
#include "text/stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row that is in the engine: of its line only what the result needs. */
struct live {
    struct row row; /* id, flags and stop texts alone; the rest is gone */
    size_t index, place;
    size_t prompt_tokens, max_tokens;
    struct stop stop;
    bool is_recorded; /* tokens of it are in the journal, or will be with the next commit */
    uint64_t record;  /* the first one that they are in; 0: not committed yet */
};

/* What the next commit makes done. */
struct ended {
    size_t rows_done, rows_failed;
    uint64_t prompt_tokens, completion_tokens;
};

struct run {
    struct job *job;
    const struct plan *plan;
    struct output *output;
    struct team *team;
    struct backend *backend;
    struct layout layout;
    struct checks *checks; /* NULL: none asked for */
    struct provider *provider;
    struct engine *engine;
    struct progress *progress;
    struct result_context context;
    struct progress_state state;
    struct ended ended;
    struct error token_error; /* of a token that could not be kept */
    struct job_slot slot;
    struct queue queue; /* rows that wait outside */
    struct live **live; /* [plan.batch]; NULL: a free place */
    struct buf text, line;
};

static bool should_stop(const struct run *run) {
    return run->job->should_stop != NULL && run->job->should_stop();
}

/* ---- what is on the disk counts */

/* Records of tokens that only rows with a line stand in are not needed any more. */
static enum status forget(struct run *run, struct error *err) {
    uint64_t first = UINT64_MAX;
    if (run->queue.next < run->queue.strict_count)
        first = output_first_record(run->output);
    for (size_t i = 0; i < run->plan->batch; i++) {
        const struct live *live = run->live[i];
        if (live != NULL && live->record > 0 && live->record < first)
            first = live->record;
    }
    return first == UINT64_MAX ? SL_OK : output_forget_before(run->output, first, err);
}

static enum status commit(struct run *run, struct error *err) {
    uint64_t record;
    if (run->token_error.status != SL_OK) {
        if (err != NULL)
            *err = run->token_error;
        return run->token_error.status;
    }
    TRY(output_commit(run->output, &record, err));
    run->state.rows_done += run->ended.rows_done;
    run->state.rows_failed += run->ended.rows_failed;
    run->state.prompt_tokens += run->ended.prompt_tokens;
    run->state.completion_tokens += run->ended.completion_tokens;
    run->ended = (struct ended){0};
    if (run->plan == NULL || record == 0)
        return SL_OK;
    for (size_t i = 0; i < run->plan->batch; i++) {
        struct live *live = run->live[i];
        if (live != NULL && live->is_recorded && live->record == 0)
            live->record = record;
    }
    return forget(run, err);
}

/* ---- rows that cannot run */

static enum status write_error(struct run *run, size_t index, const struct row *row,
                               const struct error *error, struct error *err) {
    buf_clear(&run->line);
    result_error_line(&run->context, row, error, row->code, &run->line);
    TRY(buf_status(&run->line, "an error line", err));
    TRY(output_add_line(run->output, index, true, buf_str(&run->line), err));
    run->ended.rows_failed++;
    return output_is_full(run->output) ? commit(run, err) : SL_OK;
}

/* Whether the line just loaded reads differently from the first look: its id, its answer or its
 * error would be another one. */
static bool is_changed(const struct run *run, size_t index) {
    return run->slot.look.mark != run->job->looked[index].mark;
}

static enum status changed(const struct run *run, size_t index, struct error *err) {
    const struct rows_file *rows = &run->job->rows;
    return error_set(err, SL_ERR_ENV, "%s: line %llu was changed while the job runs",
                     rows->file->path, (unsigned long long)rows->lines[index].number);
}

static enum status write_error_rows(struct run *run, struct error *err) {
    const struct job *job = run->job;
    for (size_t i = 0; i < job->rows.count; i++) {
        struct error why;
        if (job->looked[i].prompt_tokens > 0 || output_has_line(run->output, i))
            continue;
        if (should_stop(run))
            return error_set(err, SL_ERR_STOPPED, "stopped");
        enum status status = job_load(job, i, &run->slot, NULL, &why);
        if (status == SL_OK || (status == SL_ERR_ROW && is_changed(run, i)))
            return changed(run, i, err);
        if (status != SL_ERR_ROW) {
            if (err != NULL)
                *err = why;
            return status;
        }
        TRY(write_error(run, i, &run->slot.row, &why, err));
    }
    return commit(run, err);
}

/* ---- admission */

static uint64_t length_of(const struct job_row *looked) {
    return (uint64_t)looked->prompt_tokens + looked->max_tokens;
}

static void live_free(struct run *run, struct live *live) {
    if (live == NULL)
        return;
    run->live[live->place] = NULL;
    stop_release(&live->stop);
    row_release(&live->row);
    mem_free(live);
}

static bool copy_str(struct arena *arena, struct str from, struct str *to) {
    char *copy = arena_take(arena, from.len);
    if (copy == NULL)
        return false;
    memcpy(copy, from.data, from.len);
    *to = (struct str){copy, from.len};
    return true;
}

/* Keeps of the loaded row what the result needs, in memory of its own; NULL when memory is out. */
static struct live *live_new(struct run *run, size_t index) {
    const struct row *row = &run->slot.row;
    struct live *live = mem_new(1, sizeof *live);
    if (live == NULL)
        return NULL;
    while (run->live[live->place] != NULL)
        live->place++;
    must(live->place < run->plan->batch);
    run->live[live->place] = live;
    live->index = index;
    live->prompt_tokens = run->slot.look.prompt_tokens;
    live->max_tokens = run->slot.look.max_tokens;
    live->row = *row;
    arena_init(&live->row.arena);
    live->row.prompt = (struct str){0};
    live->row.prompt_ids = NULL;
    live->row.messages = live->row.tools = live->row.kwargs = NULL;
    bool has_copied = copy_str(&live->row.arena, row->id_json, &live->row.id_json);
    for (size_t i = 0; i < row->stop_count; i++)
        has_copied = has_copied && copy_str(&live->row.arena, row->stops[i], &live->row.stops[i]);
    size_t stops = run->job->model->tokenizer != NULL ? row->stop_count : 0;
    stop_init(&live->stop, run->job->model->tokenizer, live->row.stops, stops, row->skips_special);
    if (has_copied)
        return live;
    live_free(run, live);
    return NULL;
}

/* Whether a row can go on from what the journal has of it: the same job has written it. */
static enum status check_begun(const struct run *run, const struct live *live,
                               const struct begun *begun, struct error *err) {
    uint32_t vocabulary = run->job->model->config.vocabulary;
    bool is_right = begun->count < live->max_tokens &&
                    (begun->logprobs != NULL) == live->row.wants_logprobs &&
                    (begun->logprobs == NULL || begun->top_count == live->row.top_logprobs);
    for (size_t i = 0; i < begun->count; i++)
        is_right = is_right && begun->ids[i] < vocabulary;
    if (is_right)
        return SL_OK;
    return error_set(err, SL_ERR_ENV,
                     "%s: the journal is damaged (the tokens of line %llu are none of this job's): "
                     "--overwrite starts again",
                     run->job->settings.output, (unsigned long long)live->row.line);
}

/* Takes over what an earlier run has made of the row. */
static enum status go_on(struct run *run, struct live *live, const struct begun *begun,
                         struct seq_request *request, struct error *err) {
    TRY(check_begun(run, live, begun, err));
    request->answer = begun->ids;
    request->answer_logprobs = begun->logprobs;
    request->answer_count = begun->count;
    for (size_t i = 0; live->stop.count > 0 && i < begun->count; i++)
        stop_push(&live->stop, begun->ids[i]);
    TRY(buf_status(&live->stop.bytes, "the text of an answer", err));
    live->is_recorded = true;
    live->record = output_first_record(run->output);
    return SL_OK;
}

static enum status admit_row(struct run *run, size_t index, struct error *err) {
    const struct begun *begun = output_find_begun(run->output, index);
    const struct job_row *looked = &run->job->looked[index];
    enum status status = job_load(run->job, index, &run->slot, NULL, err);
    if (status == SL_ERR_ROW)
        return changed(run, index, err);
    TRY(status);
    if (is_changed(run, index) || run->slot.look.prompt_tokens != looked->prompt_tokens ||
        run->slot.look.max_tokens != looked->max_tokens)
        return changed(run, index, err);
    struct live *live = live_new(run, index);
    if (live == NULL)
        return error_memory(err, sizeof *live, "a row");
    struct seq_request request = {
        .user = live,
        .key = str_hash(live->row.id_json),
        .prompt = run->slot.ids.items,
        .prompt_count = run->slot.ids.count,
        .max_tokens = looked->max_tokens,
        .sampling = live->row.sampling,
        .logprobs_count = live->row.wants_logprobs ? live->row.top_logprobs : 0,
        .wants_logprobs = live->row.wants_logprobs,
        .ignores_eos = live->row.ignores_eos,
        .prefix = looked->prefix,
    };
    if (begun != NULL)
        status = go_on(run, live, begun, &request, err);
    if (status == SL_OK)
        status = engine_admit(run->engine, &request, err);
    if (status != SL_OK)
        live_free(run, live);
    return status;
}

/* A row that could not run even alone, which the plan should not let happen: its error, and the job
 * goes on. */
static enum status refuse_row(struct run *run, size_t index, struct error *err) {
    struct error why;
    TRY(job_load(run->job, index, &run->slot, NULL, err));
    if (is_changed(run, index))
        return changed(run, index, err);
    run->slot.row.code = "too_long";
    error_set(&why, SL_ERR_ROW, "the row needs more memory for its %llu tokens than the budget has",
              (unsigned long long)length_of(&run->job->looked[index]));
    return write_error(run, index, &run->slot.row, &why, err);
}

static bool is_never(const struct run *run, size_t index) {
    const struct job_row *looked = &run->job->looked[index];
    return !engine_can_ever_fit(run->engine, looked->prompt_tokens, looked->max_tokens);
}

/* Whether it is the row's turn, be it only to be refused. */
static bool fits(void *ctx, uint32_t index) {
    struct run *run = ctx;
    const struct job_row *looked = &run->job->looked[index];
    const struct begun *begun = output_find_begun(run->output, index);
    struct sched_ask ask = {
        .prompt_count = looked->prompt_tokens,
        .max_tokens = looked->max_tokens,
        .answer_count = begun != NULL ? begun->count : 0,
        .waiting_count = run->queue.count - run->queue.next,
        .prefix = looked->prefix,
        .shared_tokens = looked->shared_tokens,
        .is_certain = looked->ignores_eos,
    };
    return is_never(run, index) || engine_fits(run->engine, &ask);
}

static enum status admit(struct run *run, struct error *err) {
    uint32_t index;
    while (queue_take(&run->queue, fits, run, &index))
        TRY(is_never(run, index) ? refuse_row(run, index, err) : admit_row(run, index, err));
    return SL_OK;
}

/* ---- answers */

static bool on_token(void *ctx, struct seq *seq, uint32_t id) {
    struct run *run = ctx;
    struct live *live = seq->user;
    if (live->stop.count > 0 && stop_push(&live->stop, id))
        return true;
    if (live->stop.bytes.has_failed && run->token_error.status == SL_OK)
        error_memory(&run->token_error, live->stop.bytes.len, "the text of an answer");
    struct journal_token token = {.row = live->index, .entry = {.id = id}};
    if (seq->wants_logprobs) {
        token.has_logprobs = true;
        token.top_count = seq->logprobs_count;
        token.entry = seq->logprobs[seq_answer_count(seq) - 1];
    }
    if (run->token_error.status == SL_OK)
        output_add_token(run->output, &token, &run->token_error);
    live->is_recorded = true;
    return false;
}

/* How many tokens of an answer begin before the cut of its stop text: into *count. */
static enum status count_before_cut(const struct stop *stop, const uint32_t *ids, size_t *count,
                                    struct error *err) {
    struct buf bytes;
    enum status status = SL_OK;
    buf_init(&bytes);
    size_t begin = 0, kept = 0;
    while (status == SL_OK && kept < *count && begin < stop->cut) {
        bool is_silent = stop->skips_special && tokenizer_is_special(stop->tokenizer, ids[kept]);
        buf_clear(&bytes);
        if (!is_silent)
            tokenizer_token_bytes(stop->tokenizer, ids[kept], &bytes);
        status = buf_status(&bytes, "an answer", err);
        begin += bytes.len;
        kept++;
    }
    buf_release(&bytes);
    *count = kept;
    return status;
}

static enum status make_text(struct run *run, const struct live *live, struct result *result,
                             struct error *err) {
    const struct tokenizer *tokenizer = run->job->model->tokenizer;
    buf_clear(&run->text);
    if (live->stop.cut != SIZE_MAX) {
        TRY(buf_status(&live->stop.bytes, "an answer", err));
        TRY(count_before_cut(&live->stop, result->ids, &result->count, err));
        utf8_add_lossy(&run->text, str_cut(buf_str(&live->stop.bytes), 0, live->stop.cut));
    } else if (tokenizer != NULL) {
        enum status status = tokenizer_decode(tokenizer, result->ids, result->count,
                                              live->row.skips_special, &run->text, err);
        if (status == SL_ERR_ROW) /* a limit, and no fault of the row's */
            return error_set(err, SL_ERR_ENV, "an answer of %zu tokens cannot be decoded",
                             result->count);
        TRY(status);
    }
    TRY(buf_status(&run->text, "an answer", err));
    result->text = buf_str(&run->text);
    return SL_OK;
}

static enum status on_done(void *ctx, struct seq *seq, struct error *err) {
    struct run *run = ctx;
    struct live *live = seq->user;
    size_t generated = seq_answer_count(seq);
    struct result result = {
        .row = &live->row,
        .prompt_tokens = live->prompt_tokens,
        .ids = seq_answer(seq),
        .count = generated,
        .finish = seq->finish,
        .logprobs = seq->logprobs,
        .top_logprobs = live->row.top_logprobs,
    };
    TRY(make_text(run, live, &result, err));
    buf_clear(&run->line);
    result_line(&run->context, &result, &run->line);
    TRY(buf_status(&run->line, "a result line", err));
    TRY(output_add_line(run->output, live->index, false, buf_str(&run->line), err));
    run->ended.rows_done++;
    run->ended.prompt_tokens += live->prompt_tokens;
    run->ended.completion_tokens += result.count;
    uint64_t unused = live->max_tokens > generated ? live->max_tokens - generated : 0;
    run->state.tokens_waiting -=
        unused < run->state.tokens_waiting ? unused : run->state.tokens_waiting;
    live_free(run, live);
    return SL_OK;
}

static enum status run_pass(struct run *run, struct error *err) {
    struct pass_report report;
    TRY(engine_pass(run->engine, run->queue.next < run->queue.count, &report, err));
    TRY(commit(run, err));
    struct progress_state *state = &run->state;
    const struct kv *kv = engine_kv(run->engine);
    state->tokens_waiting -=
        report.new_tokens < state->tokens_waiting ? report.new_tokens : state->tokens_waiting;
    state->rows_live = engine_live(run->engine);
    state->kv_bytes_used = kv_bytes_used(kv);
    state->kv_bytes = kv_bytes(kv);
    return progress_pass(run->progress, &report, state, err);
}

static enum status run_passes(struct run *run, struct error *err) {
    for (;;) {
        if (should_stop(run))
            return error_set(err, SL_ERR_STOPPED, "stopped");
        TRY(admit(run, err));
        if (engine_live(run->engine) == 0)
            return commit(run, err);
        TRY(run_pass(run, err));
    }
}

/* ---- setting up and clearing away */

static enum status make_layout(struct run *run, struct error *err) {
    struct layout_item *items;
    size_t count;
    TRY(model_layout_items(run->job->model, &items, &count, err));
    enum status status = layout_init(&run->layout, &run->job->model->index, items, count,
                                     (size_t)run->plan->block_bytes_max, err);
    if (status == SL_OK && run->job->settings.has_checksum)
        status = checks_open(&run->job->model->index, items, count, run->job->settings.home,
                             &run->checks, err);
    mem_free(items);
    return status;
}

static enum status make_stream(struct run *run, struct provider_options *options,
                               struct error *err) {
    struct pins pins;
    bool *keeps = mem_new(run->layout.block_count, sizeof *keeps);
    if (keeps == NULL)
        return error_memory(err, run->layout.block_count * sizeof *keeps, "pins");
    pins_choose(&run->layout, run->plan->pinned_bytes, keeps, &pins);
    options->keeps = keeps;
    enum status status = provider_stream_new(&run->layout, options, &run->provider, err);
    mem_free(keeps);
    return status;
}

static enum status make_provider(struct run *run, struct error *err) {
    struct provider_options options = {
        .method = run->plan->reader,
        .slab_count = run->plan->slab_count,
        .chunk_bytes = run->plan->chunk_bytes,
        .depth = run->plan->depth,
        .checks = run->checks,
        .should_stop = run->job->should_stop,
    };
    if (run->checks != NULL)
        checks_tell(run->checks);
    if (run->plan->slab_count == 0)
        return provider_resident_new(&run->layout, &options, &run->provider, err);
    return make_stream(run, &options, err);
}

static enum status make_engine(struct run *run, struct error *err) {
    const struct plan *plan = run->plan;
    struct backend_options backend = {.kernels = plan->kernels,
                                      .isa = plan->isa,
                                      .features = plan->product_features,
                                      .tokens = plan->pass_tokens};
    TRY(team_new(plan->threads, &run->team, err));
    backend.team = run->team;
    TRY(backend_cpu_new(&backend, &run->backend, err));
    TRY(make_layout(run, err));
    TRY(make_provider(run, err));
    struct engine_options options = {
        .model = run->job->model,
        .backend = run->backend,
        .provider = run->provider,
        .kv_dtype = plan->kv_dtype,
        .limits = {.batch_max = plan->batch,
                   .pass_tokens = plan->pass_tokens,
                   .page_count = plan->page_count,
                   .window_page_count = plan->window_page_count},
        .listener = {run, on_token, on_done},
    };
    return engine_new(&options, &run->engine, err);
}

static enum status make_run(struct run *run, struct error *err) {
    const struct settings *settings = &run->job->settings;
    struct progress_options progress = {.mode = settings->progress,
                                        .metrics = settings->metrics,
                                        .plan = run->plan,
                                        .rows_total = run->job->rows.count};
    run->live = mem_new(run->plan->batch, sizeof(struct live *));
    if (run->live == NULL)
        return error_memory(err, run->plan->batch * sizeof(struct live *), "the rows");
    TRY(job_order_make(run->job, run->output, &run->queue, err));
    TRY(progress_open(&progress, &run->progress, err));
    uint64_t waiting = run->job->totals.answer_tokens, begun = output_counts(run->output).tokens;
    run->state.tokens_waiting = waiting > begun ? waiting - begun : 0;
    return make_engine(run, err);
}

static void clear_run(struct run *run) {
    engine_free(run->engine);
    provider_free(run->provider);
    checks_close(run->checks);
    layout_release(&run->layout);
    backend_free(run->backend);
    team_free(run->team);
    progress_close(run->progress);
    for (size_t i = 0; run->live != NULL && i < run->plan->batch; i++)
        live_free(run, run->live[i]);
    mem_free(run->live);
    mem_free(run->queue.rows);
    job_slot_release(&run->slot);
    buf_release(&run->text);
    buf_release(&run->line);
}

/* What a run that goes on takes over: see output_recall. */
static enum status begin_output(struct run *run, struct error *err) {
    const struct job *job = run->job;
    struct fingerprint state;
    char clock[32];
    fingerprint_init(&state);
    snprintf(clock, sizeof clock, "%lld", (long long)job->settings.epoch);
    enum status status = fingerprint_add(&state, STR("clock"), str_from(clock), err);
    if (status == SL_OK)
        status = fingerprint_add(&state, STR("clock is UTC"),
                                 job->settings.has_epoch ? STR("yes") : STR("no"), err);
    if (status == SL_OK && run->plan != NULL)
        status = fingerprint_add(&state, STR("kernels"), str_from(run->plan->kernels), err);
    if (status == SL_OK && run->plan != NULL)
        status = fingerprint_add(&state, STR("precision"), str_from(run->plan->precision), err);
    if (status == SL_OK)
        status = output_begin(run->output, &job->fingerprint, &state, job->rows.count, err);
    fingerprint_release(&state);
    return status;
}

/* All that can fail before the output is touched, then the job. */
static enum status run_all(struct run *run, struct error *err) {
    if (run->plan != NULL)
        TRY(make_run(run, err));
    TRY(begin_output(run, err));
    TRY(write_error_rows(run, err));
    if (run->plan != NULL)
        TRY(run_passes(run, err));
    return output_finish(run->output, run->state.rows_failed > 0 ? 1 : 0, err);
}

enum status job_run(struct job *job, const struct plan *plan, struct output *output,
                    struct job_outcome *outcome, struct error *err) {
    must((plan == NULL) == (job->totals.count == 0));
    struct run run = {.job = job, .plan = plan, .output = output};
    run.state.rows_done = output_counts(output).rows_done;
    run.state.rows_failed = output_counts(output).rows_failed;
    run.context = (struct result_context){
        .tokenizer = job->model->tokenizer,
        .model_name = job->model_name,
        .fingerprint = fingerprint_hash(&job->fingerprint),
        .created = job->settings.epoch,
    };
    job_slot_init(&run.slot);
    buf_init(&run.text);
    buf_init(&run.line);
    enum status status = run_all(&run, err);
    /* The summary is of this run, whether it came to its end or was stopped. */
    if (run.progress != NULL && (status == SL_OK || status == SL_ERR_STOPPED)) {
        enum status told = progress_finish(run.progress, &run.state, status == SL_OK ? err : NULL);
        status = status == SL_OK ? told : status;
        rates_learn(job->model, &job->settings, plan, progress_decode_rate(run.progress));
    }
    *outcome = (struct job_outcome){run.state.rows_done, run.state.rows_failed, status == SL_OK};
    clear_run(&run);
    return status;
}
