/* Owns the decisions before the first pass: engine, block size and slabs, tokens a pass, batch, and
 * what all of it takes in memory and time. Reads no weights, allocates nothing that lasts.
 *
 * Several ways to share the memory out are tried, and the one that is played through fastest is
 * taken. */
#include "plan/plan.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "base/team.h"
#include "engine/kv.h"
#include "plan/choice.h"
#include "plan/compute.h"
#include "plan/hours.h"
#include "plan/precision.h"
#include "plan/rates.h"
#include "plan/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of the budget, for what no sum foresees (page tables, the allocator's mood): about 0.8 %. */
#define MARGIN_SHARE 128u
/* Tokens of a pass that are worth trying. */
#define TOKENS_LEAST 64u
#define TOKENS_MOST 4096u

static void decide_budget(const struct settings *settings, struct plan *plan) {
    struct machine_budget budget;
    machine_get_budget(settings->memory_bytes, &budget);
    plan->budget_bytes = budget.bytes;
    snprintf(plan->budget_source, sizeof plan->budget_source, "%s", budget.source);
}

static void fill_kv(const struct memory *memory, const struct memory_load *load,
                    struct plan *plan) {
    uint64_t rows = size_max(memory->rows->count, 1);
    plan->kv_bytes_per_token = (memory->page_bytes + memory->window_page_bytes) / SL_PAGE_TOKENS;
    plan->kv_bytes_per_row =
        size_divide_up(memory->rows->pages, rows) * memory->page_bytes +
        size_divide_up(memory->rows->window_pages, rows) * memory->window_page_bytes +
        memory->state_bytes;
    plan->kv_bytes = memory->page_bytes * load->page_count +
                     memory->window_page_bytes * load->window_page_count +
                     memory->state_bytes * load->state_count;
    plan->kept_states = memory_kept_states(load);
    plan->state_bytes_per_row = memory->state_bytes;
    plan->page_count = load->page_count;
    plan->life_pages = size_max(memory->expected_pages, 1);
    plan->window_page_count = load->window_page_count;
}

static void fill_memory(const struct memory *memory, const struct choice *choice,
                        struct plan *plan) {
    const struct memory_load *load = &choice->load;
    bool is_resident = choice->slab_count == 0;
    uint64_t weights = memory_weights(choice->way, choice->slab_count);
    plan->engine = is_resident ? "resident" : "stream";
    plan->base_bytes = memory->base_bytes + choice->way->layout_bytes;
    plan->resident_bytes = is_resident ? weights : 0;
    plan->ring_bytes = is_resident ? 0 : weights;
    plan->activation_bytes = memory_work(memory, load) + memory->scratch_bytes;
    fill_kv(memory, load, plan);
    plan->batch = load->batch;
    plan->pass_tokens = load->pass_tokens;
    plan->slab_count = choice->slab_count;
    plan->block_bytes_max = choice->way->block_bytes_max;
    plan->pinned_bytes = choice->pins.memory_bytes;
    plan->pins_room_bytes = choice->pins.room_bytes;
    plan->pinned_blocks = choice->pins.count;
    plan->block_count = choice->way->block_count;
    uint64_t pass_bytes = memory_pass_bytes(memory, choice->way, load->batch);
    plan->pass_bytes = is_resident ? 0 : pass_bytes - choice->pins.read_bytes;
    plan->row_pages_max = load->page_count == 0 ? kv_window_pages(memory->window) : 0;
    snprintf(plan->batch_reason, sizeof plan->batch_reason, "%s", choice->batch_reason);
    snprintf(plan->engine_reason, sizeof plan->engine_reason, "%s", choice->engine_reason);
}

/* Memory counts once it is touched: of places and tokens as many as the schedule uses, of pages
 * those that rows fill, which stay until they are needed.
 * While rates are assumed, passes may turn out to have as many tokens as if the drive never made
 * them wait, and surely those in which a first generation enters of which nothing is known. */
static void fill_peak(const struct memory *memory, const struct choice *choice, struct plan *plan) {
    const struct simulated *likely = &plan->likely, *crowded = &plan->crowded;
    const struct plan_rows *rows = memory->rows;
    struct memory_load used = choice->load;
    if (memory->rows->count > 0) {
        double pages = fmax(likely->kv_pages_out, crowded->kv_pages_max);
        used.batch = size_min(used.batch, size_max(crowded->rows_in_max, 1));
        size_t tokens = crowded->pass_tokens_max;
        bool is_even = answers_count(&plan->answers) > 0 || rows->certain_rows == rows->count;
        if (plan->knows_rate && plan->knows_compute)
            tokens = likely->pass_tokens_max;
        else if (is_even)
            tokens = (tokens + likely->pass_tokens_max) / 2;
        used.pass_tokens = size_min(used.pass_tokens, size_max(tokens, 1));
        used.page_count = used.window_page_count = (size_t)ceil(pages);
        used.state_count = size_min(used.state_count, used.batch + rows->forks);
    }
    plan->still_bytes = memory_still(memory, choice->way, choice->slab_count, &choice->pins);
    uint64_t sum = memory_touched(memory, plan->still_bytes, &choice->load, &used);
    uint64_t peak = machine_peak_rss_bytes(); /* what loading has taken for a moment counts too */
    sum = (uint64_t)((double)sum * plan->memory_ratio);
    plan->predicted_peak_bytes = sum > peak ? sum : peak;
}

/* What real runs have told of the sum: where they took more, less of the budget is planned with. */
#define RATIO_LEAST 0.9
#define RATIO_MOST 1.25

static void decide_memory_ratio(const struct model *model, const struct settings *settings,
                                const struct choice *weights, struct plan *plan) {
    struct memory_record record;
    char key[SL_MEMORY_KEY_BYTES];
    plan->memory_ratio = 1;
    plan->memory_runs = 0;
    plan->slab_count = weights->slab_count;
    rates_memory_key(model, plan, key);
    if (settings->home == NULL || !record_get_memory(settings->home, key, &record) ||
        record.ratio < RATIO_LEAST)
        return;
    plan->memory_ratio = record.ratio < RATIO_MOST ? record.ratio : RATIO_MOST;
    plan->memory_runs = record.runs;
}

/* Bytes that the sums may add up to. The ratio is that of what is touched; what is usually left
 * untouched makes up for it first. */
static uint64_t usable_bytes(const struct memory *memory, const struct plan *plan) {
    uint64_t all = plan->budget_bytes - plan->margin_bytes;
    if (plan->memory_ratio <= 1)
        return all;
    uint64_t usable = (uint64_t)((double)all / plan->memory_ratio) + memory->unused_bytes;
    return usable < all ? usable : all;
}

static void fill_note(const struct config *config, const struct settings *settings,
                      struct plan *plan) {
    plan->note[0] = '\0';
    if (!config->samples)
        return;
    char values[128];
    snprintf(values, sizeof values, "temperature %g, top_p %g, top_k %lld", config->temperature,
             config->top_p, (long long)config->top_k);
    if (settings->temperature_is_models)
        snprintf(plan->note, sizeof plan->note, "Sampling as the model's files suggest: %s.",
                 values);
    else if (settings->temperature == 0)
        snprintf(plan->note, sizeof plan->note,
                 "Answers are greedy; the model's files suggest sampling (%s): --temperature model "
                 "takes that.",
                 values);
}

/* How far two processes that do the same lie apart: how many pages of the program and of the
 * libraries a fault maps depends on what the page cache holds (up to 300 KiB seen). */
#define PROCESSES_DIFFER ((uint64_t)512 << 10)

void plan_budget_option(uint64_t needed_bytes, char out[SL_BUDGET_OPTION_BYTES]) {
    uint64_t enough = needed_bytes + needed_bytes / 64 + PROCESSES_DIFFER;
    uint64_t unit = enough >= (uint64_t)100 << 20 ? 1u << 20 : 1u << 10;
    snprintf(out, SL_BUDGET_OPTION_BYTES, "--memory %llu%c",
             (unsigned long long)size_divide_up(enough, unit), unit == 1u << 20 ? 'M' : 'K');
}

static enum status refuse_budget(const struct plan *plan, struct error *err) {
    char option[SL_BUDGET_OPTION_BYTES];
    struct buf budget;
    buf_init(&budget);
    plan_amount(plan->budget_bytes, &budget);
    plan_budget_option(plan->needed_bytes, option);
    enum status status =
        error_set(err, SL_ERR_ENV, "the memory budget of %.*s (%s) is too small: the least is %s",
                  STR_ARG(buf_str(&budget)), plan->budget_source, option);
    buf_release(&budget);
    return status;
}

static size_t count_threads(const struct settings *settings) {
    size_t threads = settings->threads > 0 ? (size_t)settings->threads : cpu_get()->threads_max;
    return size_min(threads, SL_TEAM_THREADS_MAX);
}

/* The least budget for these rows: one at a time, the margin included. */
static uint64_t needed_budget(const struct memory *memory, const struct settings *settings) {
    uint64_t least = choice_least(memory, settings, strcmp(settings->engine, "stream") != 0,
                                  strcmp(settings->engine, "resident") != 0);
    uint64_t peak = machine_peak_rss_bytes();
    least = least > peak ? least : peak;
    return least + least / (MARGIN_SHARE - 1) + 1;
}

/* As many rows as there are, each of so many pages: no job of rows that are not longer needs more.
 */
static struct plan_rows rows_of_pages(const struct memory *memory, const struct plan_rows *rows,
                                      size_t pages) {
    size_t tokens = pages * SL_PAGE_TOKENS, answer = size_min(tokens, rows->longest_answer);
    struct plan_rows alike = *rows;
    alike.longest = tokens;
    alike.longest_answer = answer;
    alike.pages = rows->count * pages;
    alike.window_pages = rows->count * size_min(pages, kv_window_pages(memory->window));
    alike.sequence_tokens = rows->count * tokens;
    alike.answer_tokens = rows->count * answer;
    return alike;
}

enum status plan_fit_rows(const struct model *model, const struct settings *settings,
                          const struct plan_rows *rows, struct plan_fit *out, struct error *err) {
    struct plan plan;
    struct memory memory;
    must(rows->count > 0);
    TRY(memory_init(&memory, model, settings, rows, count_threads(settings), err));
    decide_budget(settings, &plan);
    struct plan_fit fit = {.longest = rows->longest,
                           .needed_bytes = needed_budget(&memory, settings),
                           .page_bytes = memory.page_bytes,
                           .budget_bytes = plan.budget_bytes};
    size_t low = 0, high = memory.longest_pages; /* low fits, or is 0 */
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        struct plan_rows alike = rows_of_pages(&memory, rows, middle);
        memory_set_rows(&memory, &alike);
        if (needed_budget(&memory, settings) <= plan.budget_bytes)
            low = middle;
        else
            high = middle - 1;
    }
    fit.tokens_max = low * SL_PAGE_TOKENS;
    *out = fit;
    return SL_OK;
}

uint64_t plan_fit_bytes(const struct plan_fit *fit, size_t tokens) {
    uint64_t longest = kv_pages_for(fit->longest) * fit->page_bytes;
    uint64_t pages = kv_pages_for(tokens) * fit->page_bytes;
    if (pages > longest)
        return fit->needed_bytes + (pages - longest);
    return fit->needed_bytes > longest - pages ? fit->needed_bytes - (longest - pages) : 0;
}

/* Another way is taken for a gain of one part in so many. */
#define GAIN_SHARE 100

/* Tries a wish; the plan becomes what it gives if that is faster. */
static enum status try_wish(const struct memory *memory, const struct settings *settings,
                            const struct choice_wish *wish, const struct choice *weights,
                            struct plan *plan, struct error *err) {
    uint64_t usable = usable_bytes(memory, plan);
    struct choice choice = *weights;
    struct plan made = *plan;
    choice_rows(memory, settings, usable, wish, &choice);
    TRY(choice_pins(memory, usable, &choice, err));
    fill_memory(memory, &choice, &made);
    hours_of_reads(memory, &choice, &made.cost);
    TRY(hours_expect(&made, err));
    if (plan->batch > 0 && made.seconds >= plan->seconds - plan->seconds / GAIN_SHARE)
        return SL_OK;
    TRY(hours_of_others(&made, err));
    fill_peak(memory, &choice, &made);
    *plan = made;
    return SL_OK;
}

/* Tokens that the processor computes while the drive reads a pass. */
static size_t tokens_of_slack(const struct choice *weights, const struct plan *plan) {
    const struct pass_cost *cost = &plan->cost;
    double read = (double)weights->way->read_bytes / (double)plan->read_bytes_per_second;
    double each = cost_compute_seconds(cost, 1, 0) - cost->fixed_seconds;
    double tokens = (read - cost->fixed_seconds) / (each > 0 ? each : 1);
    return tokens < TOKENS_LEAST  ? TOKENS_LEAST
           : tokens > TOKENS_MOST ? TOKENS_MOST
                                  : (size_t)tokens / 16 * 16;
}

/* Tokens of a pass in which as many rows enter as leave while the pages are full: one for each row
 * that is in, and the prompts of the share of them that ends in a pass. */
static size_t tokens_of_turnover(const struct plan *plan) {
    const struct plan_rows *rows = &plan->rows;
    double average = (double)plan->kv_bytes_per_row * (double)plan->life_pages;
    double answers = (double)rows->answer_tokens * answers_mean(&plan->answers);
    if (average <= 0 || answers <= 0)
        return 0;
    double in = fmin((double)plan->kv_bytes * (double)rows->pages / average, (double)plan->batch);
    double tokens = in * (1 + (double)(rows->prompt_tokens - rows->shared_tokens) / answers);
    return tokens < TOKENS_MOST ? size_round_up((size_t)tokens, 16) : TOKENS_MOST;
}

/* Passes longer than those that suit the kernels. */
static enum status try_longer(const struct memory *memory, const struct settings *settings,
                              struct choice_wish wish, const struct choice *weights,
                              struct plan *plan, struct error *err) {
    if (wish.pass_tokens <= SL_PASS_TOKENS_BEST)
        return SL_OK;
    return try_wish(memory, settings, &wish, weights, plan, err);
}

/* With so many rows at most: passes of as many tokens as suit the kernels or fit beside the reads,
 * and longer ones: where prompts are so many that the processor decides, these need fewer reads,
 * and what a pass costs besides its tokens is paid less often. */
static enum status try_tokens(const struct memory *memory, const struct settings *settings,
                              size_t batch_max, const struct choice *weights, struct plan *plan,
                              struct error *err) {
    struct choice_wish wish = {.pass_tokens = SL_PASS_TOKENS_BEST, .batch_max = batch_max};
    TRY(try_wish(memory, settings, &wish, weights, plan, err));
    if (weights->slab_count == 0 || memory->rows->count == 0 || settings->pass_tokens > 0)
        return SL_OK;
    wish.pass_tokens = tokens_of_slack(weights, plan);
    TRY(try_longer(memory, settings, wish, weights, plan, err));
    for (wish.pass_tokens = 2 * SL_PASS_TOKENS_BEST; wish.pass_tokens <= TOKENS_MOST;
         wish.pass_tokens += wish.pass_tokens / 2)
        TRY(try_longer(memory, settings, wish, weights, plan, err));
    wish.pass_tokens = tokens_of_turnover(plan);
    return try_longer(memory, settings, wish, weights, plan, err);
}

/* More rows than these are played too long for every number of them to be tried. */
#define ROWS_FINE 10000u

/* The next number of rows that is tried, down to 0: in large steps, or in small ones. */
static size_t fewer_rows(size_t part, size_t rows, bool is_fine) {
    if (is_fine)
        return part - part / 8 - 1;
    return part > rows / 4 ? part - rows / 8 - 1 : part / 2;
}

/* Fewer rows, which leave more to blocks of weights: in small steps, and each with all lengths of
 * passes, where the memory holds half of the weights or more, so that a block more changes much. */
static enum status try_rows(const struct memory *memory, const struct settings *settings,
                            const struct choice *weights, struct plan *plan, struct error *err) {
    size_t batch = plan->batch, rows = size_min((size_t)plan->likely.rows_in_max, batch);
    bool is_fine = usable_bytes(memory, plan) > weights->way->read_bytes / 2 &&
                   memory->rows->count <= ROWS_FINE;
    rows = size_max(rows, 1);
    for (size_t part = fewer_rows(rows, rows, is_fine); part > 0;
         part = fewer_rows(part, rows, is_fine)) {
        struct choice_wish wish = {.pass_tokens = plan->pass_tokens, .batch_max = part};
        TRY(is_fine ? try_tokens(memory, settings, part, weights, plan, err)
                    : try_wish(memory, settings, &wish, weights, plan, err));
    }
    return plan->batch < batch ? try_tokens(memory, settings, plan->batch, weights, plan, err)
                               : SL_OK;
}

/* As many rows as the memory holds, or fewer. */
static enum status share_out(const struct memory *memory, const struct settings *settings,
                             struct plan *plan, struct error *err) {
    struct choice weights;
    plan->memory_ratio = 1;
    choice_weights(memory, settings, usable_bytes(memory, plan), &weights);
    decide_memory_ratio(memory->model, settings, &weights, plan);
    TRY(try_tokens(memory, settings, 0, &weights, plan, err));
    if (weights.slab_count == 0 || memory->rows->count == 0 || settings->batch > 0)
        return SL_OK;
    return try_rows(memory, settings, &weights, plan, err);
}

enum status plan_make(const struct model *model, const struct settings *settings,
                      const struct plan_rows *rows, struct plan *out, struct error *err) {
    struct plan plan = {.rows = *rows};
    struct memory memory;
    TRY(precision_decide(model, settings, &plan, err));
    plan.threads = count_threads(settings);
    TRY(memory_init(&memory, model, settings, rows, plan.threads, err));
    plan.kernels = memory.choice.kernels;
    plan.kernels_reason = memory.choice.reason;
    plan.isa = settings->isa;
    plan.product_features = memory.product_features;
    if (memory.rounds_weights)
        snprintf(plan.precision_reason, sizeof plan.precision_reason,
                 "as published, rounded to bf16 by the kernels");
    plan.weights_bytes = model_weights_bytes(model);
    plan.kv_dtype = memory.kv_dtype;
    decide_budget(settings, &plan);
    plan.needed_bytes = needed_budget(&memory, settings);
    plan.margin_bytes = plan.budget_bytes / MARGIN_SHARE;
    if (rows->count > 0 && plan.budget_bytes < plan.needed_bytes)
        return refuse_budget(&plan, err);

    rates_decide(model, settings, &plan);
    hours_of_tokens(&memory, &plan.cost);
    compute_decide(model, settings, &plan);
    rates_decide_answers(model, settings, &plan);
    memory_expect(&memory, answers_life(&plan.answers));
    TRY(share_out(&memory, settings, &plan, err));
    fill_note(&model->config, settings, &plan);
    *out = plan;
    return SL_OK;
}
