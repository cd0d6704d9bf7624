/* Owns the first look of a job: every row read, parsed, rendered and counted once, in memory that
 * is constant but for a few bytes a row. Refuses duplicate ids; a row that cannot be used is
 * counted and gets its line when the job runs. */
#include "job/job.h"

#include "base/log.h"
#include "engine/kv.h"
#include "job/notes.h"
#include "job/prompt.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
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

/* ---- one row */

enum status job_check_means(const struct model *model, const struct row *row, enum lack *lack,
                            struct error *err) {
    bool has_tools = row->tools != NULL && row->tools->count > 0;
    *lack = LACK_NONE;
    if (row->form == ROW_PROMPT_IDS)
        return SL_OK;
    if (model->tokenizer == NULL) {
        *lack = LACK_TOKENIZER;
        return error_set(err, SL_ERR_ROW, "%s (rows of prompt_ids need no tokenizer)",
                         model->tokenizer_error.text);
    }
    if (row->form == ROW_PROMPT || model->template != NULL ||
        (has_tools && model->tool_template != NULL))
        return SL_OK;
    *lack = LACK_TEMPLATE;
    return error_set(err, SL_ERR_ROW, "%s",
                     model->template_error.status != SL_OK
                         ? model->template_error.text
                         : "the model has no chat template, which messages need");
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
    slot->look.prompt_tokens = (uint32_t)slot->ids.count;
    slot->look.max_tokens = (uint32_t)(wanted < left ? wanted : left);
    return SL_OK;
}

static uint32_t mark_of(struct str line) {
    uint64_t hash = str_hash(line);
    return (uint32_t)(hash ^ (hash >> 32));
}

static size_t length_of(const struct job_row *looked) {
    return (size_t)looked->prompt_tokens + looked->max_tokens;
}

/* Whether the row alone fits into the budget, once job_plan has found one that does not. */
static enum status check_fit(const struct job *job, struct job_slot *slot, struct error *err) {
    size_t length = length_of(&slot->look);
    char option[SL_BUDGET_OPTION_BYTES];
    if (job->fit.tokens_max == 0 || length <= job->fit.tokens_max)
        return SL_OK;
    slot->row.code = "too_long";
    plan_budget_option(plan_fit_bytes(&job->fit, length), option);
    return error_set(
        err, SL_ERR_ROW,
        "the row needs memory for %zu tokens (prompt %u, answer at most %u), more than "
        "the budget has: that takes %s",
        length, slot->look.prompt_tokens, slot->look.max_tokens, option);
}

enum status job_load(const struct job *job, size_t index, struct job_slot *slot,
                     struct buf *unknown, struct error *err) {
    uint64_t number = job->rows.lines[index].number;
    row_release(&slot->row);
    slot->look = (struct job_row){0};
    slot->lack = LACK_NONE;
    enum status status = rows_file_read(&job->rows, index, &slot->line, err);
    if (status != SL_OK) {
        if (row_init(&slot->row, number, NULL) != SL_OK)
            return error_memory(err, sizeof slot->row, "a row");
        slot->row.code = "line_too_long";
        return status;
    }
    slot->look.mark = mark_of(buf_str(&slot->line));
    TRY(row_parse(buf_str(&slot->line), number, &job->settings, &slot->row, unknown, err));
    slot->row.code = "invalid_prompt";
    TRY(job_check_means(job->model, &slot->row, &slot->lack, err));
    TRY(prompt_make(job->model, &job->settings, &slot->row, true, NULL, &slot->ids, err));
    TRY(check_context(job, slot, err));
    return check_fit(job, slot, err);
}

/* ---- the first look */

void job_count(struct job *job) {
    struct plan_rows totals = job->totals; /* with what only the rows themselves tell */
    totals.count = 0;
    totals.prompt_tokens = totals.answer_tokens = totals.sequence_tokens = 0;
    totals.pages = totals.window_pages = 0;
    totals.longest = totals.longest_prompt = totals.longest_answer = 0;
    size_t window_pages = kv_window_pages(kv_window(&job->model->config)); /* the most of a row */
    for (size_t i = 0; i < job->rows.count; i++) {
        size_t prompt = job->looked[i].prompt_tokens, answer = job->looked[i].max_tokens;
        if (prompt == 0)
            continue;
        totals.count++;
        totals.prompt_tokens += prompt;
        totals.answer_tokens += answer;
        totals.sequence_tokens += prompt + answer;
        size_t pages = kv_pages_for(prompt + answer);
        totals.pages += pages;
        totals.window_pages += pages < window_pages ? pages : window_pages;
        if (prompt + answer > totals.longest)
            totals.longest = prompt + answer;
        if (prompt > totals.longest_prompt)
            totals.longest_prompt = prompt;
        if (answer > totals.longest_answer)
            totals.longest_answer = answer;
    }
    job->totals = totals;
}

static enum status look_at_row(struct job *job, size_t index, struct job_slot *slot,
                               struct notes *notes, struct error *err) {
    struct error own = {0};
    struct plan_rows *totals = &job->totals;
    enum status status = job_load(job, index, slot, &notes->unknown, &own);
    if (status != SL_OK && status != SL_ERR_ROW) {
        if (err != NULL)
            *err = own;
        return status;
    }
    TRY(notes_add(notes, &job->rows, index, &slot->row, err));
    job->lacks[slot->lack]++;
    job->looked[index].mark = slot->look.mark;
    if (status == SL_ERR_ROW)
        return SL_OK;
    bool has_specials;
    TRY(prompt_holds_specials(job->model, &slot->row, &has_specials, err));
    totals->special_rows += has_specials;
    job->looked[index] = slot->look;
    totals->wants_logprobs = totals->wants_logprobs || slot->row.wants_logprobs;
    if (slot->row.wants_logprobs && slot->row.top_logprobs > totals->top_logprobs)
        totals->top_logprobs = slot->row.top_logprobs;
    return SL_OK;
}

static enum status look_at_rows(struct job *job, struct job_slot *slot, struct notes *notes,
                                struct error *err) {
    for (size_t i = 0; i < job->rows.count; i++) {
        if (job->should_stop != NULL && job->should_stop())
            return error_set(err, SL_ERR_STOPPED, "stopped while looking at the rows");
        if (job->output != NULL && output_has_line(job->output, i))
            continue;
        TRY(look_at_row(job, i, slot, notes, err));
    }
    notes_warn(notes);
    job_count(job);
    return SL_OK;
}

static enum status first_look(struct job *job, struct error *err) {
    job->looked = mem_new(job->rows.count, sizeof *job->looked);
    if (job->looked == NULL)
        return error_memory(err, job->rows.count * sizeof *job->looked, "the rows");
    struct job_slot slot;
    struct notes notes;
    job_slot_init(&slot);
    notes_init(&notes);
    enum status status = look_at_rows(job, &slot, &notes, err);
    notes_release(&notes);
    job_slot_release(&slot);
    malloc_trim(0); /* what the look took is free again; the plan counts what the process has */
    return status;
}

/* Rows that the model cannot take: told once, and the others run. A job of such rows alone is
 * refused, except where the model was published without a template: then its rows say so. */
static enum status check_lacks(const struct job *job, struct error *err) {
    const struct model *model = job->model;
    const char *const why[LACK_COUNT] = {
        [LACK_TOKENIZER] = model->tokenizer_error.text,
        [LACK_TEMPLATE] = model->template_error.status != SL_OK ? model->template_error.text
                                                                : "the model has no chat template",
    };
    static const char *const what[LACK_COUNT] = {
        [LACK_TOKENIZER] = "text", [LACK_TEMPLATE] = "messages"};
    bool has_answers = job->output != NULL && output_counts(job->output).rows_done > 0;
    for (enum lack lack = LACK_TOKENIZER; lack < LACK_COUNT; lack++) {
        size_t count = job->lacks[lack];
        bool is_plain = lack == LACK_TEMPLATE && model->template_error.status == SL_OK;
        if (count == 0)
            continue;
        if (job->totals.count == 0 && !is_plain && !has_answers)
            return error_set(err, SL_ERR_ENV, "%s: no row can run", why[lack]);
        log_warning("%s: %zu row%s of %s %s", why[lack], count, count == 1 ? "" : "s", what[lack],
                    count == 1 ? "is an error" : "are errors");
    }
    return SL_OK;
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

static enum status add_hashed(struct job *job, const char *name, const char *what, uint64_t hash,
                              struct error *err) {
    char text[160];
    snprintf(text, sizeof text, "%.100s (%016llx)", what, (unsigned long long)hash);
    return fingerprint_add(&job->fingerprint, str_from(name), str_from(text), err);
}

/* What is known of the job without a look at its rows; options are the caller's to add. */
static enum status begin_fingerprint(struct job *job, struct error *err) {
    const struct model *model = job->model;
    const char *slash = strrchr(model->path, '/');
    char count[48];
    snprintf(count, sizeof count, "%zu", job->rows.count);
    TRY(add_hashed(job, "rows", count, job->rows.hash, err));
    TRY(fingerprint_add(&job->fingerprint, STR("model name"),
                        str_from(slash != NULL && slash[1] != '\0' ? slash + 1 : model->path),
                        err));
    TRY(add_hashed(job, "chat template", model->template_source, str_hash(model->template_text),
                   err));
    return fingerprint_add_model(&job->fingerprint, model, err);
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
    fingerprint_init(&job->fingerprint);
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
        job->totals.specials_are_text = strcmp(settings->content_specials, "text") == 0;
        status = begin_fingerprint(job, err);
    }
    if (status != SL_OK)
        job_close(job);
    return status;
}

enum status job_look(struct job *job, struct error *err) {
    must(job->looked == NULL);
    TRY(first_look(job, err));
    return check_lacks(job, err);
}

/* ---- the plan */

/* Rows that are longer than job->fit has it become errors. */
static void drop_long_rows(struct job *job) {
    for (size_t i = 0; i < job->rows.count; i++) {
        if (length_of(&job->looked[i]) <= job->fit.tokens_max)
            continue;
        job->looked[i].prompt_tokens = job->looked[i].max_tokens = 0;
        job->too_long++;
    }
    job_count(job);
}

static bool has_row_that_fits(const struct job *job, size_t tokens_max) {
    for (size_t i = 0; i < job->rows.count; i++) {
        if (job->looked[i].prompt_tokens > 0 && length_of(&job->looked[i]) <= tokens_max)
            return true;
    }
    return false;
}

static void warn_of_long_rows(const struct job *job) {
    char option[SL_BUDGET_OPTION_BYTES];
    struct buf budget;
    buf_init(&budget);
    plan_budget_option(job->fit.needed_bytes, option);
    plan_amount(job->fit.budget_bytes, &budget);
    if (!budget.has_failed)
        log_warning("%zu row%s of up to %zu tokens would not fit into the memory budget of %.*s "
                    "even alone and %s: for all rows the least is %s",
                    job->too_long, job->too_long == 1 ? "" : "s", job->fit.longest,
                    STR_ARG(buf_str(&budget)), job->too_long == 1 ? "is an error" : "are errors",
                    option);
    buf_release(&budget);
}

enum status job_plan(struct job *job, struct plan *plan, struct error *err) {
    for (;;) {
        struct plan_fit fit;
        enum status status = plan_make(job->model, &job->settings, &job->totals, plan, err);
        if (status == SL_OK)
            break;
        if (status != SL_ERR_ENV ||
            plan_fit_rows(job->model, &job->settings, &job->totals, &fit, NULL) != SL_OK ||
            fit.tokens_max >= job->totals.longest || !has_row_that_fits(job, fit.tokens_max))
            return status;
        if (job->fit.tokens_max == 0)
            job->fit = fit;
        job->fit.tokens_max = fit.tokens_max;
        drop_long_rows(job); /* the longest at least: this comes to an end */
    }
    if (job->too_long > 0)
        warn_of_long_rows(job);
    return SL_OK;
}

void job_close(struct job *job) {
    mem_free(job->looked);
    model_close(job->model);
    rows_file_close(&job->rows);
    fingerprint_release(&job->fingerprint);
    *job = (struct job){0};
}
