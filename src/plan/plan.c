/* Owns the decisions before the first pass: engine, block size and slabs, tokens a pass, batch, and
 * what all of it takes in memory and time. Reads no weights, allocates nothing that lasts.
 *
 * First honest version: rates are assumed and said to be; the precision is the published one, and a
 * setting that would need another is refused by name. Admission counts every row's own prompt +
 * max_tokens, so that none ever runs out of pages. */
#include "plan/plan.h"

#include "base/cpu.h"
#include "base/team.h"
#include "engine/kv.h"
#include "plan/memory.h"
#include "plan/pins.h"
#include "plan/rates.h"

#include <stdio.h>
#include <string.h>

/* Of the budget, for what no sum foresees (page tables, the allocator's mood): about 0.8 %. */
#define MARGIN_SHARE 128u
#define BUDGET_SHARE_PERCENT 85u

#define PASS_TOKENS_LEAST 16u
#define PASS_TOKENS_BEST 512u
#define BATCH_USEFUL 8u /* resident with fewer rows than that is no better than streaming */
/* Weights in memory: more rows at once give no more tokens a second, only later first answers. */
#define BATCH_RESIDENT_MAX 256u
#define BATCH_STREAM_MAX 1024u
#define SLABS_LEAST 3u
#define SLABS_MOST 8u
#define SLABS_GOOD 4u /* beyond that only while blocks are small */
#define BLOCK_SMALL ((size_t)16 << 20)
#define RING_SHARE 6u    /* of what is left for ring and rows, at most one part in so many */
#define WORK_SHARE 4u    /* likewise for the activations of a pass */
#define PLACES_SHARE 16u /* and for the logits of places beyond the average batch */

/* What one core of this kind computes, per second. */
#define ASSUMED_FLOPS_VECTOR 20e9
#define ASSUMED_FLOPS_SCALAR 2e9

/* A layout of memory that plan_make has settled on. */
struct choice {
    const struct memory_way *way;
    size_t slab_count; /* 0: resident */
    struct memory_load load;
    const char *batch_reason;
    struct pins pins;
};

static bool is_word(const char *setting, const char *word) {
    return strcmp(setting, word) == 0;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Bits of a value, whole ones where the scales lie elsewhere: "4" and "8" of --precision. */
static double bits_of(enum dtype dtype) {
    const struct dtype_info *info = dtype_get(dtype);
    return 8.0 * info->block_bytes / info->block_values;
}

static bool has_bits(enum dtype dtype, double bits) {
    const struct dtype_info *info = dtype_get(dtype);
    double found = bits_of(dtype);
    return info->is_quantised && found >= bits && found <= bits + (info->decode != NULL ? 1 : 0);
}

/* Whether the published formats are what --precision asks for: the one that most bytes have. */
static enum status decide_precision(const struct model *model, const struct settings *settings,
                                    struct plan *plan, struct error *err) {
    uint64_t bytes[DTYPE_COUNT];
    enum dtype most = DTYPE_F32;
    model_format_bytes(model, bytes);
    for (unsigned i = 0; i < DTYPE_COUNT; i++)
        if (bytes[i] > bytes[most])
            most = (enum dtype)i;
    struct buf formats;
    buf_init(&formats);
    model_formats(model, &formats);
    snprintf(plan->precision, sizeof plan->precision, "%.*s", STR_ARG(buf_str(&formats)));
    buf_release(&formats);
    snprintf(plan->precision_reason, sizeof plan->precision_reason,
             "as published, used without rounding");
    if (is_word(settings->precision, "auto"))
        return SL_OK;
    bool fits = is_word(settings->precision, "bf16") ? most == DTYPE_BF16
                : is_word(settings->precision, "8")  ? has_bits(most, 8)
                                                     : has_bits(most, 4);
    int bits = is_word(settings->precision, "bf16") ? 16 : settings->precision[0] - '0';
    if (!fits && dtype_get(most)->is_quantised && bits_of(most) < bits)
        return error_set(err, SL_ERR_USAGE,
                         "--precision %s: the model is %s, and a quantised model is never "
                         "converted upwards",
                         settings->precision, plan->precision);
    if (!fits)
        return error_set(err, SL_ERR_ENV,
                         "--precision %s: the model is %s, and this version uses models as they "
                         "are published",
                         settings->precision, plan->precision);
    snprintf(plan->precision_reason, sizeof plan->precision_reason,
             "as published, which is what --precision %s asks for", settings->precision);
    return SL_OK;
}

static void decide_budget(const struct settings *settings, struct plan *plan) {
    if (settings->memory_bytes > 0) {
        plan->budget_bytes = settings->memory_bytes;
        snprintf(plan->budget_source, sizeof plan->budget_source, "--memory");
        return;
    }
    struct machine machine;
    machine_get(&machine);
    /* What this process has already is part of the budget, and not of what is free. */
    uint64_t all = machine.free_bytes + machine_rss_bytes();
    plan->budget_bytes = all / 100 * BUDGET_SHARE_PERCENT;
    snprintf(plan->budget_source, sizeof plan->budget_source, "%u %% of what is free by %s",
             BUDGET_SHARE_PERCENT, machine.limit_source);
}

/* Fewest tokens a pass may have: what the user says, or one tile. */
static size_t least_tokens(const struct settings *settings) {
    return settings->pass_tokens > 0 ? (size_t)settings->pass_tokens : PASS_TOKENS_LEAST;
}

/* The least that a way needs: one row at a time, the longest included. */
static uint64_t least_total(const struct memory *memory, const struct settings *settings,
                            const struct memory_way *way, size_t slab_count) {
    struct memory_load load = {.batch = 1, .pass_tokens = least_tokens(settings)};
    memory_set_pages(memory, memory->longest_pages, &load);
    return memory_total(memory, way, slab_count, &load);
}

/* The way that needs least of those that the engine setting allows. */
static uint64_t find_least(const struct memory *memory, const struct settings *settings,
                           bool may_stay, bool may_stream) {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < memory->way_count; i++) {
        for (size_t slabs = 0; slabs <= SLABS_LEAST; slabs += SLABS_LEAST) {
            if (slabs == 0 ? !may_stay : !may_stream)
                continue;
            uint64_t total = least_total(memory, settings, &memory->ways[i], slabs);
            least = total < least ? total : least;
        }
    }
    return least;
}

/* Tokens and pages for a batch; base_tokens is what a pass takes when the batch is smaller. */
static struct memory_load load_for(const struct memory *memory, const struct settings *settings,
                                   size_t batch, size_t base_tokens) {
    size_t tokens = settings->pass_tokens > 0 ? base_tokens : larger(base_tokens, batch);
    struct memory_load load = {.batch = batch, .pass_tokens = tokens};
    memory_set_pages(memory, memory_pages(memory, batch), &load);
    return load;
}

/* Tokens of a pass: as many as are good for the kernels and for prefill, while one row's worth of
 * activations stays a modest share of `room`, and never more than the job has. */
static size_t choose_tokens(const struct memory *memory, const struct settings *settings,
                            uint64_t room) {
    if (settings->pass_tokens > 0)
        return (size_t)settings->pass_tokens;
    uint64_t all = memory->rows->prompt_tokens + PASS_TOKENS_LEAST;
    struct memory_load load = {.batch = 1, .pass_tokens = PASS_TOKENS_LEAST};
    memory_set_pages(memory, memory->longest_pages, &load);
    uint64_t least = memory_work(memory, &load);
    for (load.pass_tokens = PASS_TOKENS_BEST; load.pass_tokens > PASS_TOKENS_LEAST;
         load.pass_tokens /= 2) {
        if (load.pass_tokens / 2 < all && memory_work(memory, &load) - least <= room / WORK_SHARE)
            break;
    }
    return load.pass_tokens;
}

/* Memory that a batch of average rows leaves goes to pages, and a few more places let short rows
 * use them; places cost logits, so only while those are cheap beside the pages. */
static void fill_pages(const struct memory *memory, const struct settings *settings,
                       uint64_t usable, size_t batch, struct choice *choice) {
    struct memory_load load = load_for(memory, settings, batch, choice->load.pass_tokens);
    memory_set_pages(memory, 0, &load);
    uint64_t extra = memory_work(memory, &load);
    uint64_t fixed = memory_total(memory, choice->way, choice->slab_count, &load);
    uint64_t before = memory_work(memory, &choice->load);
    extra = extra > before ? extra - before : 0;
    extra += memory->state_bytes * (load.batch - choice->load.batch);
    if (fixed >= usable || extra > (usable - fixed) / PLACES_SHARE)
        return;
    uint64_t pages = (usable - fixed) / memory_page_cost(memory);
    pages = pages < memory->rows->pages ? pages : memory->rows->pages;
    if (pages < memory->longest_pages)
        return;
    memory_set_pages(memory, pages, &load);
    if (memory_total(memory, choice->way, choice->slab_count, &load) <= usable)
        choice->load = load;
}

/* The largest batch whose total stays within `usable`; at least 1, which the caller knows to fit.
 */
static void choose_batch(const struct memory *memory, const struct settings *settings,
                         uint64_t usable, struct choice *choice) {
    uint64_t fixed = least_total(memory, settings, choice->way, choice->slab_count);
    size_t tokens = choose_tokens(memory, settings, usable > fixed ? usable - fixed : 0);
    size_t most = choice->slab_count == 0 ? BATCH_RESIDENT_MAX : BATCH_STREAM_MAX;
    choice->batch_reason = "more at once would not be faster";
    if (settings->batch > 0) {
        most = (size_t)settings->batch;
        choice->batch_reason = "--batch";
    }
    if (memory->rows->count <= most) {
        most = larger(memory->rows->count, 1);
        choice->batch_reason = "all rows at once";
    }
    size_t low = 1, high = most; /* low fits */
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        struct memory_load load = load_for(memory, settings, middle, tokens);
        if (memory_total(memory, choice->way, choice->slab_count, &load) <= usable)
            low = middle;
        else
            high = middle - 1;
    }
    choice->load = load_for(memory, settings, low, tokens);
    if (low < most) {
        choice->batch_reason = "what the memory holds";
        fill_pages(memory, settings, usable, smaller(low + low / 4 + 1, most), choice);
    }
}

/* The largest blocks whose slabs keep to their share of `usable`, and then more slabs while they
 * do; the smallest ring where none does. */
static void choose_ring(const struct memory *memory, const struct settings *settings,
                        uint64_t usable, struct choice *choice) {
    choice->way = NULL;
    choice->slab_count = SLABS_LEAST;
    uint64_t room = 0, least = UINT64_MAX;
    const struct memory_way *thinnest = NULL;
    for (size_t i = 0; i < memory->way_count; i++) {
        const struct memory_way *way = &memory->ways[i];
        uint64_t total = least_total(memory, settings, way, SLABS_LEAST);
        if (total < least) {
            least = total;
            thinnest = way;
        }
        uint64_t rest = total - memory_weights(way, SLABS_LEAST);
        room = usable > rest ? usable - rest : 0;
        if (total <= usable && memory_weights(way, SLABS_LEAST) <= room / RING_SHARE)
            choice->way = way;
    }
    if (choice->way == NULL) {
        choice->way = thinnest;
        return;
    }
    const struct memory_way *way = choice->way;
    size_t most = way->slab_bytes_max <= BLOCK_SMALL ? SLABS_MOST : SLABS_GOOD;
    room = usable -
           (least_total(memory, settings, way, SLABS_LEAST) - memory_weights(way, SLABS_LEAST));
    most = smaller(most, larger(way->block_count, SLABS_LEAST));
    while (choice->slab_count < most &&
           memory_weights(way, choice->slab_count + 1) <= room / RING_SHARE)
        choice->slab_count++;
}

/* The way that holds all weights with the fewest bytes. */
static const struct memory_way *whole_way(const struct memory *memory) {
    const struct memory_way *best = &memory->ways[0];
    for (size_t i = 1; i < memory->way_count; i++) {
        const struct memory_way *way = &memory->ways[i];
        if (way->slab_bytes_sum + way->layout_bytes < best->slab_bytes_sum + best->layout_bytes)
            best = way;
    }
    return best;
}

/* Resident when the weights and a useful batch fit, unless the user says which. */
static bool should_stay(const struct memory *memory, const struct settings *settings,
                        uint64_t usable, struct plan *plan) {
    if (!is_word(settings->engine, "auto")) {
        snprintf(plan->engine_reason, sizeof plan->engine_reason, "--engine");
        return is_word(settings->engine, "resident");
    }
    size_t batch = smaller(larger(memory->rows->count, 1), BATCH_USEFUL);
    struct memory_load load = {.batch = batch,
                               .pass_tokens = larger(least_tokens(settings), batch)};
    memory_set_pages(memory, memory_pages(memory, batch), &load);
    bool fits = memory_total(memory, whole_way(memory), 0, &load) <= usable;
    if (!fits && find_least(memory, settings, false, true) > usable) {
        snprintf(plan->engine_reason, sizeof plan->engine_reason,
                 "the slabs of a stream would take more than these weights");
        return true;
    }
    snprintf(plan->engine_reason, sizeof plan->engine_reason,
             fits ? "weights and rows fit into the budget"
                  : "weights and %zu row%s do not fit into the budget together",
             batch, batch == 1 ? "" : "s");
    return fits;
}

static void fill_kv(const struct memory *memory, const struct memory_load *load,
                    struct plan *plan) {
    uint64_t rows = larger(memory->rows->count, 1);
    plan->kv_bytes_per_token = (memory->page_bytes + memory->window_page_bytes) / SL_PAGE_TOKENS;
    plan->kv_bytes_per_row =
        (memory->rows->pages + rows - 1) / rows * memory->page_bytes +
        (memory->rows->window_pages + rows - 1) / rows * memory->window_page_bytes +
        memory->state_bytes;
    plan->kv_bytes = memory->page_bytes * load->page_count +
                     memory->window_page_bytes * load->window_page_count +
                     memory->state_bytes * load->batch;
    plan->state_bytes_per_row = memory->state_bytes;
    plan->page_count = load->page_count;
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
    plan->pinned_blocks = choice->pins.count;
    plan->block_count = choice->way->block_count;
    uint64_t pass_bytes = memory_pass_bytes(memory, choice->way, load->batch);
    plan->pass_bytes = is_resident ? 0 : pass_bytes - choice->pins.read_bytes;
    snprintf(plan->batch_reason, sizeof plan->batch_reason, "%s", choice->batch_reason);
    /* Pages count once they are used, and where rows wait for their turn the last one inside leaves
     * half a row free on average. */
    uint64_t unused = load->batch < memory->rows->count ? plan->kv_bytes_per_row / 2 : 0;
    uint64_t kv = plan->kv_bytes > unused ? plan->kv_bytes - unused : plan->kv_bytes;
    uint64_t sum = plan->base_bytes + weights + plan->pinned_bytes + plan->activation_bytes + kv;
    uint64_t peak = machine_peak_rss_bytes(); /* what loading has taken for a moment counts too */
    plan->predicted_peak_bytes = sum > peak ? sum : peak;
}

/* Passes if every row runs to its limit: while rows wait the places are taken, by as many rows as
 * the pages hold on average; then the last to enter may still be the longest. */
static uint64_t count_passes(const struct plan_rows *rows, const struct plan *plan) {
    double at_once = (double)(plan->batch < plan->pass_tokens ? plan->batch : plan->pass_tokens);
    double by_pages = (double)plan->page_count * (double)rows->count / (double)rows->pages;
    at_once = by_pages < at_once ? by_pages : at_once;
    at_once = at_once < 1 ? 1 : at_once;
    uint64_t decode = rows->longest_answer;
    if (at_once < (double)rows->count)
        decode += (uint64_t)((double)(rows->answer_tokens - rows->longest_answer) / at_once) + 1;
    return decode + (rows->prompt_tokens + plan->pass_tokens - 1) / plan->pass_tokens;
}

void plan_time(struct plan *plan) {
    bool is_streamed = plan->slab_count > 0;
    uint64_t bytes = is_streamed ? plan->pass_bytes : plan->weights_bytes;
    double read = (double)bytes / (double)plan->read_bytes_per_second;
    double compute = plan->compute_seconds;
    plan->pass_seconds = is_streamed && read > compute ? read : compute;
    plan->seconds = plan->pass_seconds * (double)plan->passes + (is_streamed ? 0 : read);
}

/* What the rows leave keeps blocks in memory. Where that would be all of them, `stream` was asked
 * for by name: it gets every block read for every pass. */
static enum status choose_pins(const struct memory *memory, uint64_t usable, struct choice *choice,
                               struct error *err) {
    uint64_t taken = memory_total(memory, choice->way, choice->slab_count, &choice->load);
    if (choice->slab_count == 0 || memory->rows->count == 0 || taken >= usable ||
        usable - taken >= choice->way->slab_bytes_sum)
        return SL_OK;
    return pins_foresee(memory, choice->way, usable - taken, &choice->pins, err);
}

/* The passes, and their time at the rate of reads and an assumed one of the processor. */
static void fill_time(const struct memory *memory, struct plan *plan) {
    const struct plan_rows *rows = memory->rows;
    if (rows->count == 0)
        return;
    plan->passes = count_passes(rows, plan);
    double flops = (double)plan->threads * (cpu_get()->has_avx2_fma || cpu_get()->has_neon
                                                ? ASSUMED_FLOPS_VECTOR
                                                : ASSUMED_FLOPS_SCALAR);
    double tokens = (double)(rows->prompt_tokens + rows->answer_tokens);
    plan->compute_seconds = 2.0 * (double)memory->values * tokens / flops / (double)plan->passes;
    plan_time(plan);
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
             (unsigned long long)((enough + unit - 1) / unit), unit == 1u << 20 ? 'M' : 'K');
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
    return smaller(threads, SL_TEAM_THREADS_MAX);
}

/* The least budget for these rows: one at a time, the margin included. */
static uint64_t needed_budget(const struct memory *memory, const struct settings *settings) {
    uint64_t least = find_least(memory, settings, !is_word(settings->engine, "stream"),
                                !is_word(settings->engine, "resident"));
    uint64_t peak = machine_peak_rss_bytes();
    least = least > peak ? least : peak;
    return least + least / (MARGIN_SHARE - 1) + 1;
}

/* As many rows as there are, each of so many pages: no job of rows that are not longer needs more.
 */
static struct plan_rows rows_of_pages(const struct memory *memory, const struct plan_rows *rows,
                                      size_t pages) {
    size_t tokens = pages * SL_PAGE_TOKENS, answer = smaller(tokens, rows->longest_answer);
    struct plan_rows alike = *rows;
    alike.longest = tokens;
    alike.longest_answer = answer;
    alike.pages = rows->count * pages;
    alike.window_pages = rows->count * smaller(pages, kv_window_pages(memory->window));
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

enum status plan_make(const struct model *model, const struct settings *settings,
                      const struct plan_rows *rows, struct plan *out, struct error *err) {
    struct plan plan = {.rows = *rows};
    struct memory memory;
    TRY(decide_precision(model, settings, &plan, err));
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

    uint64_t usable = plan.budget_bytes - plan.margin_bytes;
    struct choice choice = {0};
    if (should_stay(&memory, settings, usable, &plan))
        choice.way = whole_way(&memory);
    else
        choose_ring(&memory, settings, usable, &choice);
    choose_batch(&memory, settings, usable, &choice);
    TRY(choose_pins(&memory, usable, &choice, err));
    fill_memory(&memory, &choice, &plan);
    rates_decide(model, settings, &plan);
    fill_time(&memory, &plan);
    fill_note(&model->config, settings, &plan);
    *out = plan;
    return SL_OK;
}
