/* Owns the sums of the memory model: which way of holding the weights takes how much, what a pass
 * of so many tokens and rows takes besides. Decides nothing; plan.c does.
 *
 * What the layers below allocate comes from their own functions (step_bytes, engine_bytes, ...).
 * What no function tells is an allowance here, each measured as VmRSS before and after on the small
 * models of the tests (x86-64, glibc). */
#include "plan/memory.h"

#include "base/mem.h"
#include "engine/engine.h"
#include "plan/pins.h"
#include "weights/checks.h"

#include <math.h>
#include <string.h>

#define BLOCK_BYTES_LEAST ((size_t)64 << 10)
#define BLOCKS_MAX 8192u /* smaller blocks would make the layout itself large */

/* Code and tables of ours and of the libraries that are touched for the first time in a pass, the
 * heap's slack, buffers of files. */
#define ALLOWANCE_PROCESS ((uint64_t)1280 << 10)
/* The journal: SQLite's cache of pages, its log's index, what it touches of its code. */
#define ALLOWANCE_JOURNAL ((uint64_t)512 << 10)
/* Stack and thread data of a worker, and of each reader thread of the ring. */
#define ALLOWANCE_THREAD ((uint64_t)64 << 10)
#define READERS 8u
/* A live row: its parameters, stop texts and seq, besides tokens and logprobs. */
#define ALLOWANCE_ROW ((uint64_t)4 << 10)
/* A row of the file: place in the input and in the output, counts, order. */
#define ALLOWANCE_LINE 64u
/* Of the first three, what a run seldom touches: they are for the most that was seen. */
#define ALLOWANCE_UNUSED ((uint64_t)640 << 10)
/* Characters of a result line for an answer token, and for each entry of its logprobs. */
#define LINE_TOKEN_BYTES 16u
#define LINE_LOGPROB_BYTES 128u
/* Rows that are in for each state that is kept for others. */
#define FORK_ROWS 8u
/* Of the text of a row that is scored, for each token: its choices are kept for the result. */
#define SCORED_TEXT_BYTES 8u

/* The layouts for block sizes from the least that holds a row to the most, each made and dropped.
 */
static enum status find_ways(struct memory *memory, const struct layout_item *items, size_t count,
                             struct error *err) {
    uint64_t weights = model_weights_bytes(memory->model);
    size_t bytes = BLOCK_BYTES_LEAST;
    while (bytes < SL_BLOCK_BYTES_MAX && weights / bytes > BLOCKS_MAX)
        bytes *= 2;
    for (; bytes <= SL_BLOCK_BYTES_MAX; bytes *= 2) {
        struct layout layout;
        enum status status = layout_init(&layout, &memory->model->index, items, count, bytes, err);
        if (status != SL_OK && bytes < SL_BLOCK_BYTES_MAX)
            continue; /* a row is larger than that */
        TRY(status);
        struct memory_way way = {
            .block_bytes_max = bytes,
            .slab_bytes_max = size_round_up(layout.slab_bytes_max, SL_IO_ALIGN),
            .slab_bytes_sum = layout.slab_bytes_sum,
            .layout_bytes = size_round_up(layout.block_count * sizeof *layout.blocks +
                                              layout.piece_count * sizeof *layout.pieces +
                                              layout.read_count * sizeof *layout.reads,
                                          SL_IO_ALIGN),
            .read_bytes = layout.read_bytes,
            .block_count = layout.block_count,
        };
        bool is_last = layout.slab_bytes_max <= bytes / 2; /* larger ones are the same */
        layout_release(&layout);
        must(memory->way_count < SL_MEMORY_WAYS_MAX);
        memory->ways[memory->way_count++] = way;
        if (is_last)
            break;
    }
    return SL_OK;
}

static enum status find_items(struct memory *memory, const struct settings *settings,
                              struct error *err) {
    struct layout_item *items;
    size_t count;
    bool is_all_bf16 = true;
    TRY(model_layout_items(memory->model, &items, &count, err));
    uint64_t expert_values = 0;
    for (size_t i = 0; i < count; i++) {
        const struct matrix *matrix = &items[i].matrix;
        is_all_bf16 = is_all_bf16 && matrix->dtype == DTYPE_BF16;
        enum role role = role_of_key(items[i].key);
        if (!role_is_expert(role)) {
            uint64_t values = (uint64_t)matrix->rows * matrix->columns;
            *(role == ROLE_HEAD ? &memory->head_values : &memory->values) += values;
            continue;
        }
        expert_values += matrix->rows * matrix->columns;
        memory->expert_bytes += matrix_bytes(matrix);
    }
    const struct mixture *mixture = &memory->model->config.mixture;
    if (mixture->count > 0)
        memory->values += expert_values / mixture->count * mixture->used;
    enum status status =
        backend_cpu_choose(settings->kernels, settings->isa, is_all_bf16, &memory->choice, err);
    if (settings->has_checksum)
        memory->process_bytes += checks_bytes(items, count) + ALLOWANCE_THREAD;
    if (status == SL_OK) {
        memory->rounds_weights = !is_all_bf16 && strcmp(memory->choice.kernels, "portable") != 0;
        status = find_ways(memory, items, count, err);
    }
    mem_free(items);
    return status;
}

enum status memory_init(struct memory *memory, const struct model *model,
                        const struct settings *settings, const struct plan_rows *rows,
                        size_t threads, struct error *err) {
    struct memory made = {
        .model = model,
        .product_features = step_product_features(model),
        .threads = threads,
        .has_logprobs = settings->logprobs >= 0 || rows->wants_logprobs,
        .scores = settings->scores,
        .logprobs = settings->logprobs > 0 ? (size_t)settings->logprobs : 0,
        .kv_dtype = strcmp(settings->kv, "f32") == 0 ? KV_F32 : KV_BF16,
        .scratch_bytes = backend_cpu_scratch_bytes(threads),
    };
    if (rows->top_logprobs > made.logprobs)
        made.logprobs = rows->top_logprobs;
    TRY(find_items(&made, settings, err));
    made.page_bytes = kv_page_bytes(&model->config, made.kv_dtype, KV_WHOLE);
    made.window_page_bytes = kv_page_bytes(&model->config, made.kv_dtype, KV_WINDOW);
    made.state_bytes = kv_page_bytes(&model->config, made.kv_dtype, KV_STATE);
    made.window = kv_window(&model->config);
    made.process_bytes += machine_rss_bytes() + ALLOWANCE_PROCESS + ALLOWANCE_JOURNAL +
                          ALLOWANCE_THREAD * (threads + READERS);
    made.unused_bytes = ALLOWANCE_UNUSED + made.scratch_bytes -
                        backend_cpu_scratch_used_bytes(threads, step_product_features(model));
    if (settings->temperature <= 0 && !made.has_logprobs)
        made.unused_bytes += engine_sampling_bytes(model, threads);
    memory_set_rows(&made, rows);
    *memory = made;
    return SL_OK;
}

void memory_set_rows(struct memory *memory, const struct plan_rows *rows) {
    uint64_t line = LINE_TOKEN_BYTES;
    if (memory->has_logprobs)
        line += LINE_LOGPROB_BYTES * (uint64_t)(memory->logprobs + 1);
    memory->rows = rows;
    memory->longest_pages = kv_pages_for(size_max(rows->longest, 1));
    memory->expected_pages = rows->pages;
    memory->base_bytes = memory->process_bytes +
                         ALLOWANCE_LINE * size_max(rows->lines, rows->count) +
                         line * rows->longest_answer + rows->load_bytes;
}

void memory_expect(struct memory *memory, double share) {
    const struct plan_rows *rows = memory->rows;
    must(share > 0 && share <= 1);
    uint64_t shared = rows->shared_tokens / SL_PAGE_TOKENS; /* full pages, that others have */
    uint64_t fewer = (uint64_t)((1 - share) * (double)rows->answer_tokens / SL_PAGE_TOKENS);
    uint64_t least = (rows->prompt_tokens - rows->shared_tokens) / SL_PAGE_TOKENS + rows->count;
    fewer += shared;
    least = size_min(least, rows->pages);
    memory->expected_pages = rows->pages > least + fewer ? rows->pages - fewer : least;
}

uint64_t memory_weights(const struct memory_way *way, size_t slab_count) {
    return slab_count == 0 ? way->slab_bytes_sum : way->slab_bytes_max * slab_count;
}

uint64_t memory_pass_bytes(const struct memory *memory, const struct memory_way *way,
                           size_t tokens) {
    const struct mixture *mixture = &memory->model->config.mixture;
    if (mixture->count == 0)
        return way->read_bytes;
    double missed = pow(1.0 - (double)mixture->used / mixture->count, (double)tokens);
    return way->read_bytes - (uint64_t)(missed * (double)memory->expert_bytes);
}

size_t memory_kept_states(const struct memory_load *load) {
    return load->state_count > load->batch ? load->state_count - load->batch : 0;
}

uint64_t memory_work(const struct memory *memory, const struct memory_load *load) {
    const struct plan_rows *rows = memory->rows;
    struct sched_limits limits = {.batch_max = load->batch,
                                  .pass_tokens = load->pass_tokens,
                                  .page_count = load->page_count,
                                  .window_page_count = load->window_page_count,
                                  .kept_states = memory_kept_states(load),
                                  .scores = memory->scores};
    /* A seq keeps its tokens and page numbers, and logprobs where they are wanted. */
    uint64_t row = ALLOWANCE_ROW;
    if (rows->count > 0) {
        uint64_t answer = rows->answer_tokens / rows->count;
        row += (rows->sequence_tokens / rows->count) * sizeof(uint32_t) +
               (rows->pages / rows->count) * KV_GROUPS * sizeof(uint32_t) +
               answer * 4; /* its text */
        if (memory->scores)
            row += rows->sequence_tokens / rows->count * SCORED_TEXT_BYTES;
        if (memory->has_logprobs)
            row += answer *
                   (sizeof(struct token_logprobs) + 32 + memory->logprobs * sizeof(struct logprob));
    }
    return step_bytes(memory->model, load->pass_tokens, sched_logits_max(&limits)) +
           backend_cpu_packed_bytes(memory->choice.kernels, memory->product_features,
                                    load->pass_tokens) +
           engine_bytes(memory->model, &limits, memory->threads) + row * load->batch;
}

uint64_t memory_total(const struct memory *memory, const struct memory_way *way, size_t slab_count,
                      const struct memory_load *load) {
    return memory->base_bytes + memory_weights(way, slab_count) + way->layout_bytes +
           memory->scratch_bytes + memory_work(memory, load) +
           memory->page_bytes * load->page_count +
           memory->window_page_bytes * load->window_page_count +
           memory->state_bytes * load->state_count;
}

uint64_t memory_still(const struct memory *memory, const struct memory_way *way, size_t slab_count,
                      const struct pins *pins) {
    uint64_t weights =
        slab_count == 0 ? way->slab_bytes_sum : pins->memory_bytes + pins->ring_bytes;
    return memory->base_bytes + weights + way->layout_bytes + memory->scratch_bytes -
           memory->unused_bytes;
}

/* Pages go out from the first on. */
static uint64_t touched_pages(uint64_t page_bytes, size_t made, size_t used) {
    return slab_touched_bytes(page_bytes * made, page_bytes * size_min(used, made));
}

uint64_t memory_touched(const struct memory *memory, uint64_t still_bytes,
                        const struct memory_load *made, const struct memory_load *used) {
    /* The lists of pages are written whole. */
    struct memory_load work = {.batch = used->batch,
                               .pass_tokens = used->pass_tokens,
                               .page_count = made->page_count,
                               .window_page_count = made->window_page_count,
                               .state_count = used->batch + memory_kept_states(made)};
    return still_bytes + memory_work(memory, &work) +
           touched_pages(memory->page_bytes, made->page_count, used->page_count) +
           touched_pages(memory->window_page_bytes, made->window_page_count,
                         used->window_page_count) +
           touched_pages(memory->state_bytes, made->state_count, used->state_count);
}

uint64_t memory_pages(const struct memory *memory, size_t batch) {
    const struct plan_rows *rows = memory->rows;
    uint64_t count = size_max(rows->count, 1);
    double share = batch < count ? (double)batch / (double)count : 1;
    uint64_t pages = (uint64_t)ceil(share * (double)memory->expected_pages);
    return size_max(pages, memory->longest_pages);
}

/* One for each row that is in; and of forks, each with rows that come one after the other, few are
 * in work at once: two where one lies behind the other. */
static size_t count_states(const struct memory *memory, size_t batch) {
    if (memory->state_bytes == 0)
        return 0;
    return batch + size_min(memory->rows->forks, 1 + size_divide_up(batch, FORK_ROWS));
}

void memory_set_pages(const struct memory *memory, uint64_t pages, struct memory_load *load) {
    load->page_count = memory->page_bytes > 0 ? (size_t)pages : 0;
    load->state_count = count_states(memory, load->batch);
    load->window_page_count = 0;
    if (memory->window == 0)
        return;
    const struct plan_rows *rows = memory->rows;
    uint64_t aside = sched_pages_set_aside(load->pass_tokens);
    uint64_t longest = memory->longest_pages;
    uint64_t windows = size_min(longest, kv_window_pages(memory->window));
    uint64_t least = windows + size_min(aside, longest - windows);
    if (pages >= rows->pages)
        windows = rows->window_pages;
    else
        windows = (uint64_t)ceil((double)rows->window_pages / (double)rows->pages * (double)pages);
    uint64_t count = windows + size_min(aside, pages > windows ? pages - windows : 0);
    load->window_page_count = size_max(count, least);
}

uint64_t memory_page_cost(const struct memory *memory) {
    const struct plan_rows *rows = memory->rows;
    uint64_t cost = memory->page_bytes > 0 ? memory->page_bytes + engine_page_bytes(1) : 0;
    double share = rows->pages > 0 ? (double)rows->window_pages / (double)rows->pages : 1;
    if (memory->window > 0)
        cost += (uint64_t)ceil(share * (double)(memory->window_page_bytes + engine_page_bytes(1)));
    return cost;
}
