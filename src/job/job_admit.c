/* Owns who enters the engine, and what is kept of a row while it is in. The order is job_order.c's;
 * the engine says who fits. A row that is scored enters part by part, and nobody enters before its
 * last part has. Refuses a row that reads differently from the first look: the plan would no longer
 * hold. */
#include "job/alike.h"
#include "job/job_run.h"

static uint64_t length_of(const struct job_row *looked) {
    return (uint64_t)looked->prompt_tokens + looked->max_tokens;
}

void run_leave(struct run *run, struct live *live) {
    run->live[live->place] = NULL;
    live_free(live);
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

/* Reads the row again and keeps what its result needs; its first part waits to enter. */
static enum status open_row(struct run *run, size_t index, struct error *err) {
    const struct job_row *looked = &run->job->looked[index];
    enum status status = job_load(run->job, index, &run->slot, NULL, err);
    if (status == SL_ERR_ROW)
        return run_changed(run, index, err);
    TRY(status);
    if (run_is_changed(run, index) || run->slot.look.prompt_tokens != looked->prompt_tokens ||
        run->slot.look.max_tokens != looked->max_tokens || run->slot.look.parts != looked->parts ||
        run->slot.look.row_tokens != looked->row_tokens)
        return run_changed(run, index, err);
    struct live *live = live_new(&run->slot, run->job->model->tokenizer, index);
    if (live == NULL)
        return error_memory(err, sizeof *live, "a row");
    while (run->live[live->place] != NULL)
        live->place++;
    must(live->place < run->plan->batch);
    run->live[live->place] = live;
    run->open = live;
    run->open_next = 0;
    return SL_OK;
}

/* A part of the open row that is a choice. */
static void ask_score(struct live *live, const struct job_row *looked, size_t index,
                      const struct part *part, struct seq_request *request) {
    struct live_choice *choice = &live->choices[index];
    choice->score.tokens = part->count - part->context;
    request->user = choice;
    request->prompt_count = part->count - 1;
    request->target = request->prompt[part->count - 1];
    request->score_first = part->context;
    request->alike_count = index > 0 ? job_shared_tokens(looked) : 0;
}

/* Whether so many tokens are those of the mark. */
static bool begins_with(const struct part *part, const uint32_t *ids, size_t tokens,
                        uint32_t mark) {
    uint32_t hashes[SL_ALIKE_BLOCKS_MAX];
    size_t blocks = tokens / SL_PAGE_TOKENS;
    if (blocks == 0 || blocks > SL_ALIKE_BLOCKS_MAX || tokens > part->count)
        return false;
    alike_hash(ids + part->first, blocks, hashes);
    return hashes[blocks - 1] == mark;
}

/* Tokens that who enters behind this part of the open row begins with too. */
static size_t fork_behind(const struct run *run) {
    const struct job_row *looked = &run->job->looked[run->open->index];
    const struct queue *queue = run->queue;
    if (run->open_next + 1 < run->slot.parts.count)
        return job_shared_tokens(looked);
    if (queue->next == queue->count || looked->prefix == 0)
        return 0;
    const struct job_row *behind = &run->job->looked[queue->rows[queue->next]];
    const struct part *part = &run->slot.parts.items[run->open_next];
    bool is_alike =
        behind->prefix == looked->prefix &&
        begins_with(part, run->slot.ids.items, behind->shared_tokens, behind->shared_mark);
    return is_alike ? behind->shared_tokens : 0;
}

/* The next part of the open row enters; it fits. */
static enum status admit_part(struct run *run, struct error *err) {
    struct live *live = run->open;
    const struct job_row *looked = &run->job->looked[live->index];
    const struct part *part = &run->slot.parts.items[run->open_next];
    const struct begun *begun = output_find_begun(run->output, live->index);
    struct seq_request request = {
        .user = live,
        .key = str_hash(live->row.id_json),
        .prompt = run->slot.ids.items + part->first,
        .prompt_count = part->count,
        .max_tokens = looked->max_tokens,
        .sampling = live->row.sampling,
        .logprobs_count = live->row.wants_logprobs ? live->row.top_logprobs : 0,
        .wants_logprobs = live->row.wants_logprobs,
        .ignores_eos = live->row.ignores_eos,
        .prefix = looked->prefix,
        .fork_tokens = fork_behind(run),
    };
    if (live->choices != NULL)
        ask_score(live, looked, run->open_next, part, &request);
    else if (begun != NULL)
        TRY(go_on(run, live, begun, &request, err));
    TRY(engine_admit(run->engine, &request, err));
    run->parts_in++;
    run->open_next++;
    if (run->open_next == run->slot.parts.count)
        run->open = NULL;
    return SL_OK;
}

/* A row that could not run even alone, which the plan should not let happen: its error, and the job
 * goes on. */
static enum status refuse_row(struct run *run, size_t index, struct error *err) {
    struct error why;
    TRY(job_load(run->job, index, &run->slot, NULL, err));
    if (run_is_changed(run, index))
        return run_changed(run, index, err);
    run->slot.row.code = "too_long";
    error_set(&why, SL_ERR_ROW, "the row needs more memory for its %llu tokens than the budget has",
              (unsigned long long)length_of(&run->job->looked[index]));
    return run_write_error(run, index, &run->slot.row, &why, err);
}

static bool is_never(const struct run *run, size_t index) {
    const struct job_row *looked = &run->job->looked[index];
    return !engine_can_ever_fit(run->engine, looked->prompt_tokens, looked->max_tokens);
}

/* Whether the part of a row could enter now. Behind the first, others have what is common. */
static bool part_fits(struct run *run, uint32_t index, size_t part, size_t prompt_count) {
    const struct job_row *looked = &run->job->looked[index];
    const struct begun *begun = output_find_begun(run->output, index);
    struct sched_ask ask = {
        .prompt_count = prompt_count,
        .max_tokens = looked->max_tokens,
        .answer_count = begun != NULL ? begun->count : 0,
        .waiting_count = run->queue->count - run->queue->next,
        .prefix = looked->prefix,
        .shared_tokens = part == 0 ? looked->shared_tokens : job_shared_tokens(looked),
        .is_certain = looked->ignores_eos,
    };
    return engine_fits(run->engine, &ask);
}

/* Whether it is the row's turn, be it only to be refused. */
static bool fits(void *ctx, uint32_t index) {
    struct run *run = ctx;
    return is_never(run, index) || part_fits(run, index, 0, run->job->looked[index].prompt_tokens);
}

/* Parts of the open row, as far as they fit. The first has been asked for. */
static enum status admit_parts(struct run *run, struct error *err) {
    while (run->open != NULL) {
        size_t next = run->open_next;
        uint32_t index = (uint32_t)run->open->index;
        size_t count = run->slot.parts.items[next].count;
        if (next > 0 && !part_fits(run, index, next, count - 1))
            return SL_OK;
        TRY(admit_part(run, err));
    }
    return SL_OK;
}

enum status run_admit(struct run *run, struct error *err) {
    uint32_t index;
    TRY(admit_parts(run, err));
    while (run->open == NULL && queue_take(run->queue, fits, run, &index)) {
        if (is_never(run, index)) {
            run->parts_in += run->job->looked[index].parts;
            TRY(refuse_row(run, index, err));
            continue;
        }
        TRY(open_row(run, index, err));
        TRY(admit_parts(run, err));
    }
    return SL_OK;
}
