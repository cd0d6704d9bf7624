/* Owns the first look of a job: every row read, parsed, rendered and counted once, in memory that
 * is constant but for a few bytes a row. Refuses duplicate ids; a row that cannot be used is
 * counted and gets its line when the job runs. */
#include "job/job.h"

#include "base/log.h"
#include "engine/kv.h"
#include "job/prompt.h"

#include <limits.h>
#include <malloc.h>
#include <string.h>

void job_slot_init(struct job_slot *slot) {
    *slot = (struct job_slot){0};
    buf_init(&slot->line);
    arena_init(&slot->row.arena);
}

void job_slot_release(struct job_slot *slot) {
    row_release(&slot->row);
    buf_release(&slot->line);
    ids_release(&slot->ids);
}

/* Cuts max_tokens to what the context leaves. */
static enum status check_context(const struct job *job, struct job_slot *slot, struct error *err) {
    size_t context = job->model->config.context;
    if (slot->ids.count >= context) {
        slot->row.code = "context_length_exceeded";
        return error_set(err, SL_ERR_ROW,
                         "the prompt has %zu tokens, and with an answer that is more than the "
                         "context of %zu",
                         slot->ids.count, context);
    }
    uint64_t left = context - slot->ids.count;
    uint64_t wanted = (uint64_t)slot->row.max_tokens;
    slot->look =
        (struct job_row){(uint32_t)slot->ids.count, (uint32_t)(wanted < left ? wanted : left)};
    return SL_OK;
}

enum status job_load(const struct job *job, size_t index, struct job_slot *slot,
                     struct buf *unknown, struct error *err) {
    uint64_t number = job->rows.lines[index].number;
    row_release(&slot->row);
    slot->look = (struct job_row){0};
    enum status status = rows_file_read(&job->rows, index, &slot->line, err);
    if (status != SL_OK) {
        if (row_init(&slot->row, number, NULL) != SL_OK)
            return error_memory(err, sizeof slot->row, "a row");
        slot->row.code = "line_too_long";
        return status;
    }
    TRY(row_parse(buf_str(&slot->line), number, &job->settings, &slot->row, unknown, err));
    slot->row.code = "invalid_prompt";
    TRY(prompt_make(job->model, &job->settings, &slot->row, true, NULL, &slot->ids, err));
    return check_context(job, slot, err);
}

/* What the first look keeps while it goes on. */
struct look {
    struct job_slot slot;
    struct buf unknown;
    struct arena ids; /* the ids seen, as keys of the map */
    struct map seen;
    bool has_lone_surrogates;
};

static enum status note_id(const struct job *job, size_t index, struct look *look,
                           struct error *err) {
    struct str id = look->slot.row.id_json;
    uint32_t other = 0;
    bool was_there = false;
    char *copy = arena_take(&look->ids, id.len);
    if (copy == NULL)
        return error_memory(err, id.len, "the ids of the rows");
    memcpy(copy, id.data, id.len);
    if (!map_put(&look->seen, (struct str){copy, id.len}, (uint32_t)index, &other, &was_there))
        return error_memory(err, (index + 1) * sizeof(struct str), "the ids of the rows");
    if (was_there)
        return error_set(err, SL_ERR_INPUT, "%s: lines %llu and %llu have the same id %.*s",
                         job->rows.file->path, (unsigned long long)job->rows.lines[other].number,
                         (unsigned long long)job->rows.lines[index].number, STR_ARG(id));
    return SL_OK;
}

/* window_pages: the most pages that windowed layers keep of a row. */
static void count_row(struct plan_rows *totals, const struct job_slot *slot, size_t window_pages) {
    size_t prompt = slot->look.prompt_tokens, answer = slot->look.max_tokens;
    size_t pages = kv_pages_for(prompt + answer);
    totals->count++;
    totals->prompt_tokens += prompt;
    totals->answer_tokens += answer;
    totals->sequence_tokens += prompt + answer;
    totals->pages += pages;
    totals->window_pages += pages < window_pages ? pages : window_pages;
    if (prompt + answer > totals->longest)
        totals->longest = prompt + answer;
    if (prompt > totals->longest_prompt)
        totals->longest_prompt = prompt;
    if (answer > totals->longest_answer)
        totals->longest_answer = answer;
    totals->wants_logprobs = totals->wants_logprobs || slot->row.wants_logprobs;
    if (slot->row.wants_logprobs && slot->row.top_logprobs > totals->top_logprobs)
        totals->top_logprobs = slot->row.top_logprobs;
}

static enum status look_at_row(struct job *job, size_t index, struct look *look,
                               struct error *err) {
    struct error own = {0};
    enum status status = job_load(job, index, &look->slot, &look->unknown, &own);
    if (status != SL_OK && status != SL_ERR_ROW) {
        if (err != NULL)
            *err = own;
        return status;
    }
    look->has_lone_surrogates = look->has_lone_surrogates || look->slot.row.has_lone_surrogates;
    TRY(note_id(job, index, look, err));
    job->fingerprint = (job->fingerprint ^ str_hash(buf_str(&look->slot.line))) * 0x100000001B3u;
    if (status == SL_ERR_ROW)
        return SL_OK;
    job->looked[index] = look->slot.look;
    count_row(&job->totals, &look->slot, kv_window_pages(kv_window(&job->model->config)));
    return SL_OK;
}

static enum status look_at_rows(struct job *job, struct look *look, struct error *err) {
    for (size_t i = 0; i < job->rows.count; i++) {
        if (job->should_stop != NULL && job->should_stop())
            return error_set(err, SL_ERR_STOPPED, "stopped while looking at the rows");
        TRY(look_at_row(job, i, look, err));
    }
    if (look->unknown.len > 0 && !look->unknown.has_failed)
        log_warning("rows: members that nothing here knows are ignored: %s", look->unknown.data);
    if (look->has_lone_surrogates)
        log_warning("rows: halves of surrogate pairs (such as \\ud800) were read as U+FFFD");
    return SL_OK;
}

static enum status first_look(struct job *job, struct error *err) {
    if (job->rows.count > UINT32_MAX)
        return error_set(err, SL_ERR_INPUT, "%s has %zu rows, more than 2^32", job->rows.file->path,
                         job->rows.count);
    job->looked = mem_new(job->rows.count, sizeof *job->looked);
    if (job->looked == NULL)
        return error_memory(err, job->rows.count * sizeof *job->looked, "the rows");
    struct look look = {0};
    job_slot_init(&look.slot);
    buf_init(&look.unknown);
    arena_init(&look.ids);
    map_init(&look.seen);
    enum status status = look_at_rows(job, &look, err);
    map_release(&look.seen);
    arena_release(&look.ids);
    buf_release(&look.unknown);
    job_slot_release(&look.slot);
    malloc_trim(0); /* what the look took is free again; the plan counts what the process has */
    return status;
}

/* --temperature model: what generation_config.json suggests takes the place of the defaults. */
static void use_models_sampling(struct settings *settings, const struct config *config) {
    if (!settings->temperature_is_models)
        return;
    settings->temperature = config->samples ? config->temperature : 0;
    if (config->samples && config->top_p > 0 && settings->top_p == 1)
        settings->top_p = config->top_p;
    if (config->samples && config->top_k > 0 && settings->top_k == 0)
        settings->top_k = config->top_k;
}

/* OPEN: the whole fingerprint (every option and file that can change a line) comes with the
 * journal; until then it only makes the ids of Batch lines. */
static void begin_fingerprint(struct job *job) {
    const struct settings *settings = &job->settings;
    uint64_t hash = str_hash(str_from(job->model->config.family)) ^ model_weights_bytes(job->model);
    hash = hash * 0x100000001B3u ^ (uint64_t)settings->max_tokens;
    hash = hash * 0x100000001B3u ^ (uint64_t)settings->seed;
    job->fingerprint = hash * 0x100000001B3u ^ str_hash(str_from(settings->system));
}

/* Whether the model's files have a tokenizer, be it one that cannot be used. */
static bool has_tokenizer_data(const struct model *model) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/tokenizer.json", model->path);
    return meta_find(&model->meta, "tokenizer.ggml.model") != NULL ||
           (length > 0 && (size_t)length < sizeof path && file_exists(path));
}

enum status job_check_tokenizer(const struct model *model, bool wants_token_ids,
                                struct error *err) {
    const char *why = model->tokenizer_error.text;
    if (model->tokenizer != NULL)
        return SL_OK;
    if (has_tokenizer_data(model))
        return error_set(err, SL_ERR_ENV, "%s", why);
    if (!wants_token_ids)
        return error_set(err, SL_ERR_ENV,
                         "%s: without it answers have no text (--token-ids gives rows of "
                         "prompt_ids their token ids)",
                         why);
    log_warning("%s: answers have no text", why);
    return SL_OK;
}

enum status job_open(const struct settings *settings, bool (*should_stop)(void), struct job *job,
                     struct error *err) {
    *job = (struct job){.settings = *settings, .should_stop = should_stop};
    enum status status =
        rows_file_open(settings->rows, (uint64_t)settings->limit, (uint64_t)settings->shard_index,
                       (uint64_t)settings->shard_count, &job->rows, err);
    if (status == SL_OK)
        status = model_open(settings->model, MODEL_ALL, &job->model, err);
    if (status == SL_OK && should_stop != NULL && should_stop())
        status = error_set(err, SL_ERR_STOPPED, "stopped while opening the model");
    if (status == SL_OK)
        status = job_check_tokenizer(job->model, job->settings.wants_token_ids, err);
    if (status == SL_OK) {
        use_models_sampling(&job->settings, &job->model->config);
        begin_fingerprint(job);
        status = first_look(job, err);
    }
    if (status != SL_OK)
        job_close(job);
    return status;
}

void job_close(struct job *job) {
    mem_free(job->looked);
    model_close(job->model);
    rows_file_close(&job->rows);
    *job = (struct job){0};
}
