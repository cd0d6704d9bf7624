/* Owns the main loop: rows are admitted in order, passes run, finished rows become result lines.
 *
 *   error rows -> [ admit while it fits -> pass -> (token, done) -> commit ] -> ordered file
 *
 * The order is job_order.c's; the engine says who fits. A row whose pages the engine gives up for a
 * while has its tokens in the journal like any other, and is none of our concern. A row's line is
 * committed before the row counts as done. Refuses to go on when a row reads differently from the
 * first look: the plan would no longer hold. */
#include "job/job_run.h"

#include "base/clock.h"

#include <stdio.h>

static bool should_stop(const struct run *run) {
    return run->job->should_stop != NULL && run->job->should_stop();
}

/* ---- what is on the disk counts */

/* Records of tokens that only rows with a line stand in are not needed any more. */
static enum status forget(struct run *run, struct error *err) {
    uint64_t first = UINT64_MAX;
    if (run->queue->next < run->queue->strict_count)
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

enum status run_write_error(struct run *run, size_t index, const struct row *row,
                            const struct error *error, struct error *err) {
    buf_clear(&run->line);
    result_error_line(&run->context, row, error, row->code, &run->line);
    TRY(buf_status(&run->line, "an error line", err));
    TRY(output_add_line(run->output, index, true, buf_str(&run->line), err));
    run->ended.rows_failed++;
    return output_is_full(run->output) ? commit(run, err) : SL_OK;
}

bool run_is_changed(const struct run *run, size_t index) {
    return run->slot.look.mark != run->job->looked[index].mark;
}

enum status run_changed(const struct run *run, size_t index, struct error *err) {
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
        if (status == SL_OK || (status == SL_ERR_ROW && run_is_changed(run, i)))
            return run_changed(run, i, err);
        if (status != SL_ERR_ROW) {
            if (err != NULL)
                *err = why;
            return status;
        }
        TRY(run_write_error(run, i, &run->slot.row, &why, err));
    }
    return commit(run, err);
}

/* ---- answers */

static void on_layer(void *ctx, uint32_t layer, uint32_t layers, size_t tokens) {
    struct run *run = ctx;
    progress_layer(run->progress, &run->state, &(struct progress_layer){layer, layers, tokens});
}

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

/* A choice has its score; after the last one the row has its line. */
static enum status keep_score(struct run *run, const struct seq *seq, struct error *err) {
    struct live_choice *choice = seq->user;
    struct live *live = choice->live;
    const struct score *scores[SL_CHOICES_MAX];
    choice->score.sum = seq->score_sum;
    choice->score.is_greedy = seq->is_greedy;
    if (--live->choices_left > 0)
        return SL_OK;
    for (size_t i = 0; i < live->row.choice_count; i++)
        scores[i] = &live->choices[i].score;
    buf_clear(&run->line);
    result_score_line(&live->row, scores, &run->line);
    TRY(buf_status(&run->line, "a result line", err));
    TRY(output_add_line(run->output, live->index, false, buf_str(&run->line), err));
    run->ended.rows_done++;
    run->ended.prompt_tokens += live->prompt_tokens;
    run_leave(run, live);
    return SL_OK;
}

static enum status on_done(void *ctx, struct seq *seq, struct error *err) {
    struct run *run = ctx;
    if (run->job->settings.scores)
        return keep_score(run, seq, err);
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
    buf_clear(&run->text);
    TRY(live_text(live, run->job->model->tokenizer, &result, &run->text, err));
    buf_clear(&run->line);
    result_line(&run->context, &result, &run->line);
    TRY(buf_status(&run->line, "a result line", err));
    TRY(output_add_line(run->output, live->index, false, buf_str(&run->line), err));
    run->ended.rows_done++;
    run->ended.prompt_tokens += live->prompt_tokens;
    run->ended.completion_tokens += result.count;
    if (!live->row.ignores_eos)
        lessons_row(&run->lessons, result.count, live->max_tokens);
    run_leave(run, live);
    return SL_OK;
}

/* Stopped between passes or within one, whose tokens then do not exist yet: what was made before is
 * kept. */
static enum status keep_and_stop(struct run *run, struct error *err) {
    TRY(commit(run, err));
    return error_set(err, SL_ERR_STOPPED, "stopped");
}

static enum status run_pass(struct run *run, struct error *err) {
    struct pass_report report;
    double start = clock_seconds();
    size_t rows_in = engine_live(run->engine);
    bool has_more = run->open != NULL || run->queue->next < run->queue->count;
    enum status status = engine_pass(run->engine, has_more, &report, err);
    if (status == SL_ERR_STOPPED && should_stop(run))
        return keep_and_stop(run, err);
    TRY(status);
    if (output_is_due(run->output))
        TRY(commit(run, err));
    lessons_pass(&run->lessons, run->plan, &report, rows_in, clock_seconds() - start);
    struct progress_state *state = &run->state;
    state->rows_live = engine_live(run->engine);
    state->kv_bytes_used = report.kv_bytes_used;
    state->kv_bytes = kv_bytes(engine_kv(run->engine));
    const struct row_lengths waiting = job_waiting(run->job, run->parts_in);
    const struct estimate_job left = {engine_sched(run->engine), &waiting};
    state->left = &left;
    enum status told = progress_pass(run->progress, &report, state, err);
    state->left = NULL;
    return told;
}

static enum status run_passes(struct run *run, struct error *err) {
    for (;;) {
        if (should_stop(run))
            return keep_and_stop(run, err);
        TRY(run_admit(run, err));
        if (engine_live(run->engine) == 0)
            return commit(run, err);
        TRY(run_pass(run, err));
    }
}

/* ---- setting up and clearing away */

static enum status make_run(struct run *run, struct error *err) {
    const struct settings *settings = &run->job->settings;
    struct progress_options progress = {.mode = settings->progress,
                                        .metrics = settings->metrics,
                                        .plan = run->plan,
                                        .rows_total = run->job->rows.count};
    run->live = mem_new(run->plan->batch, sizeof(struct live *));
    if (run->live == NULL)
        return error_memory(err, run->plan->batch * sizeof(struct live *), "the rows");
    TRY(progress_open(&progress, &run->progress, err));
    const struct engine_listener listener = {run, on_token, on_done, on_layer};
    return run_make_engine(run, &listener, err);
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
        live_free(run->live[i]);
    mem_free(run->live);
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
    if (status == SL_OK && job->settings.hub_name != NULL) /* output_recall_name */
        status = fingerprint_add(&state, STR("hub name"), str_from(job->settings.hub_name), err);
    if (status == SL_OK && job->settings.model_asked != NULL) { /* output_recall_model */
        struct str asked = str_last_part(str_from(job->settings.model_asked));
        status = fingerprint_add(&state, STR("model"), str_from(job->settings.model), err);
        if (status == SL_OK)
            status = fingerprint_add(&state, STR("instead of"), asked, err);
    }
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
    struct run run = {.job = job, .plan = plan, .output = output, .queue = &job->order};
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
        lessons_keep(&run.lessons, job->model, &job->settings, plan,
                     progress_decode_rate(run.progress), engine_kv(run.engine));
    }
    *outcome = (struct job_outcome){run.state.rows_done, run.state.rows_failed, status == SL_OK};
    clear_run(&run);
    return status;
}
