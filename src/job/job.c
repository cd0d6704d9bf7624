/* Owns what a job is before it runs: its rows and model, its fingerprint, how one row is read and
 * prepared, and which rows the plan's budget cannot hold. The first look is job_look.c's. */
#include "job/job.h"

#include "base/log.h"
#include "plan/machine.h"

#include <limits.h>
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
    parts_release(&slot->parts);
}

/* ---- one row */

enum status job_check_means(const struct model *model, const struct row *row, enum lack *lack,
                            struct error *err) {
    bool has_tools = row->tools != NULL && row->tools->count > 0;
    *lack = LACK_NONE;
    if (row->form == ROW_PROMPT_IDS || row->form == ROW_CONTINUATION_IDS)
        return SL_OK;
    if (model->tokenizer == NULL) {
        *lack = LACK_TOKENIZER;
        return error_set(err, SL_ERR_ROW, "%s (rows of prompt_ids need no tokenizer)",
                         model->tokenizer_error.text);
    }
    if (row->form != ROW_MESSAGES || model->template != NULL ||
        (has_tools && model->tool_template != NULL))
        return SL_OK;
    *lack = LACK_TEMPLATE;
    return error_set(err, SL_ERR_ROW, "%s",
                     model->template_error.status != SL_OK
                         ? model->template_error.text
                         : "the model has no chat template, which messages need");
}

static uint32_t mark_of(struct str line) {
    uint64_t hash = str_hash(line);
    return (uint32_t)(hash ^ (hash >> 32));
}

/* Four pages of KV: a chat template's own words, which all rows have, are seldom so many. */
#define PREFIX_TOKENS ((size_t)64)

static uint32_t prefix_of(const struct ids *ids, size_t count) {
    if (count <= PREFIX_TOKENS)
        return 0;
    uint32_t prefix =
        mark_of((struct str){(const char *)ids->items, PREFIX_TOKENS * sizeof *ids->items});
    return prefix != 0 ? prefix : 1;
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
    slot->look.parts = 1;
    slot->look.row_tokens = slot->look.common_tokens = slot->look.prompt_tokens;
    slot->is_cut = wanted > left;
    return SL_OK;
}

/* Of a part that is scored the last token is not computed: it stands for the answer. */
static enum status check_choices(const struct job *job, struct job_slot *slot, struct error *err) {
    size_t context = job->model->config.context, longest = 0, all = 0, scored = 0;
    for (size_t i = 0; i < slot->parts.count; i++) {
        const struct part *part = &slot->parts.items[i];
        if (part->count > context) {
            slot->row.code = "context_length_exceeded";
            return error_set(err, SL_ERR_ROW,
                             "choice %zu has %zu tokens with its context, more than the model's "
                             "context of %zu",
                             i + 1, part->count, context);
        }
        longest = part->count - 1 > longest ? part->count - 1 : longest;
        all += part->count - 1;
        scored += part->count - part->context;
    }
    if (all > UINT32_MAX) {
        slot->row.code = "too_long";
        return error_set(err, SL_ERR_ROW, "the choices have %zu tokens with their context", all);
    }
    slot->look.prompt_tokens = (uint32_t)longest;
    slot->look.max_tokens = 1;
    slot->look.parts = (uint32_t)slot->parts.count;
    slot->look.row_tokens = (uint32_t)all;
    slot->look.common_tokens = (uint32_t)slot->parts.items[0].context;
    slot->look.scored_tokens = (uint32_t)scored;
    return SL_OK;
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
    slot->load_bytes = 0;
    slot->lack = LACK_NONE;
    slot->is_cut = false;
    enum status status = rows_file_read(&job->rows, index, &slot->line, err);
    if (status != SL_OK) {
        if (row_init(&slot->row, number, NULL) != SL_OK)
            return error_memory(err, sizeof slot->row, "a row");
        slot->row.code = "line_too_long";
        return status;
    }
    slot->look.mark = mark_of(buf_str(&slot->line));
    status = row_parse(buf_str(&slot->line), number, &job->settings, &slot->row, unknown, err);
    slot->load_bytes = row_load_bytes(&slot->row, slot->line.len);
    TRY(status);
    slot->row.code = "invalid_prompt";
    TRY(job_check_means(job->model, &slot->row, &slot->lack, err));
    TRY(parts_make(job->model, &job->settings, &slot->row, &slot->ids, &slot->parts, err));
    TRY(job->settings.scores ? check_choices(job, slot, err) : check_context(job, slot, err));
    slot->look.prefix = prefix_of(&slot->ids, slot->look.common_tokens);
    slot->look.ignores_eos = slot->row.ignores_eos;
    return check_fit(job, slot, err);
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

static enum status add_hashed(struct fingerprint *fingerprint, const char *name, const char *what,
                              uint64_t hash, struct error *err) {
    char text[160];
    snprintf(text, sizeof text, "%.100s (%016llx)", what, (unsigned long long)hash);
    return fingerprint_add(fingerprint, str_from(name), str_from(text), err);
}

static enum status add_rows(struct fingerprint *fingerprint, const struct rows_file *rows,
                            const struct settings *settings, struct error *err) {
    char count[48];
    snprintf(count, sizeof count, "%zu", rows->count);
    TRY(add_hashed(fingerprint, "rows", count, rows->hash, err));
    if (settings->scores) /* `run` has none, as ever: its old jobs go on */
        TRY(fingerprint_add(fingerprint, STR("command"), STR("score"), err));
    return SL_OK;
}

static void name_model(struct job *job) {
    struct str name = str_last_part(str_from(job->model->path));
    snprintf(job->model_name, sizeof job->model_name, "%.*s", STR_ARG(name));
}

/* What is known of the job without a look at its rows; options are the caller's to add. */
static enum status begin_fingerprint(struct job *job, struct error *err) {
    const struct model *model = job->model;
    TRY(add_rows(&job->fingerprint, &job->rows, &job->settings, err));
    TRY(fingerprint_add(&job->fingerprint, STR("model name"), str_from(job->model_name), err));
    TRY(add_hashed(&job->fingerprint, "chat template", model->template_source,
                   str_hash(model->template_text), err));
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

/* Rows are read while the weights are in memory: one alone may not take much of the budget. */
static void limit_rows(struct job *job) {
    struct machine_budget budget;
    machine_get_budget(job->settings.memory_bytes, &budget);
    job->settings.row_bytes = row_budget_bytes(budget.bytes);
    job->rows.line_bytes_max = row_line_bytes_max(job->settings.row_bytes);
}

enum status job_open_rows(const struct settings *settings, struct rows_file *rows,
                          struct error *err) {
    return rows_file_open(settings->rows, (uint64_t)settings->limit,
                          (uint64_t)settings->shard_index, (uint64_t)settings->shard_count, rows,
                          err);
}

enum status job_open(const struct settings *settings, bool (*should_stop)(void), struct job *job,
                     struct error *err) {
    *job = (struct job){.settings = *settings, .should_stop = should_stop};
    fingerprint_init(&job->fingerprint);
    enum status status = job_open_rows(settings, &job->rows, err);
    if (status == SL_OK)
        status = model_open(settings->model, MODEL_ALL, &job->model, err);
    if (status == SL_OK && should_stop != NULL && should_stop())
        status = error_set(err, SL_ERR_STOPPED, "stopped while opening the model");
    if (status == SL_OK)
        status = job_check_tokenizer(job->model, job->settings.wants_token_ids, err);
    if (status == SL_OK) {
        limit_rows(job);
        use_models_sampling(&job->settings, &job->model->config);
        job->totals.specials_are_text = strcmp(settings->content_specials, "text") == 0;
        name_model(job);
        status = begin_fingerprint(job, err);
    }
    if (status != SL_OK)
        job_close(job);
    return status;
}

/* The pairs of begin_fingerprint that take a model. */
static bool is_of_model(struct str name) {
    return str_is(name, "model name") || str_is(name, "chat template") ||
           str_starts(name, STR(SL_FINGERPRINT_FILE));
}

enum status job_known_fingerprint(const struct settings *settings, const struct output *output,
                                  struct fingerprint *out, struct error *err) {
    const struct fingerprint *was = output_fingerprint(output);
    struct rows_file rows;
    TRY(job_open_rows(settings, &rows, err));
    enum status status = add_rows(out, &rows, settings, err);
    for (size_t i = 0; status == SL_OK && i < was->count; i++) {
        if (is_of_model(was->pairs[i].name))
            status = fingerprint_add(out, was->pairs[i].name, was->pairs[i].value, err);
    }
    rows_file_close(&rows);
    return status;
}

enum status job_go_on(struct job *job, struct output *output, struct error *err) {
    TRY(output_recall(output, &job->settings, err));
    TRY(output_check(output, &job->fingerprint, err));
    if (!output_resumes(output) || output_is_complete(output))
        return SL_OK;
    job->output = output;
    return output_load(output, job->rows.count, err);
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

/* What a row shares with others is computed, and its pages taken, once for all of them. What an
 * earlier run has of an answer is computed like a prompt. */
static bool get_length(const void *ctx, size_t index, struct row_length *out) {
    const struct job *job = ctx;
    size_t row = job->order.rows[job->order.next + index];
    const struct job_row *looked = &job->looked[row];
    const struct begun *begun = job->output != NULL ? output_find_begun(job->output, row) : NULL;
    size_t known = begun != NULL ? size_min(begun->count, looked->max_tokens - 1) : 0;
    *out = (struct row_length){
        .prompt = looked->prompt_tokens - looked->shared_tokens + (uint32_t)known,
        .answer = looked->max_tokens - (uint32_t)known,
        .is_certain = looked->ignores_eos,
    };
    must(out->prompt > 0);
    return true;
}

/* Parts of rows that are scored: all alike, each without its part of what is computed once. */
static bool get_part_length(const void *ctx, size_t index, struct row_length *out) {
    const struct plan_rows *totals = &((const struct job *)ctx)->totals;
    uint64_t own = totals->prompt_tokens - totals->shared_tokens;
    (void)index;
    *out = (struct row_length){(uint32_t)size_divide_up(own, totals->count), 1, true};
    must(out->prompt > 0);
    return true;
}

struct row_lengths job_waiting(const struct job *job, size_t parts_in) {
    size_t parts = job->totals.count;
    if (job->settings.scores)
        return (struct row_lengths){job, parts > parts_in ? parts - parts_in : 0, get_part_length};
    return (struct row_lengths){job, job->order.count - job->order.next, get_length};
}

enum status job_plan(struct job *job, struct plan *plan, struct error *err) {
    size_t known = job->too_long;
    for (;;) {
        struct plan_fit fit;
        struct plan_rows rows = job->totals;
        TRY(job_order_make(job, err));
        rows.lengths = job_waiting(job, 0);
        enum status status = plan_make(job->model, &job->settings, &rows, plan, err);
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
    if (job->too_long > known)
        warn_of_long_rows(job);
    return SL_OK;
}

void job_close(struct job *job) {
    mem_free(job->looked);
    mem_free(job->order.rows);
    model_close(job->model);
    rows_file_close(&job->rows);
    fingerprint_release(&job->fingerprint);
    *job = (struct job){0};
}
