/* Owns how memory is shared out: slabs, tokens a pass, places for rows, pages, pinned blocks.
 * Decides nothing about time; plan.c compares what it offers.
 *
 * The sums are monotone: a larger budget never gives a smaller batch or fewer slabs. */
#include "plan/choice.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define PASS_TOKENS_LEAST 16u
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

/* Fewest tokens a pass may have: what the user says, or one tile. */
static size_t least_tokens(const struct settings *settings) {
    return settings->pass_tokens > 0 ? (size_t)settings->pass_tokens : PASS_TOKENS_LEAST;
}

/* The least that a way needs: one row at a time, the longest included. */
static uint64_t least_total(const struct memory *memory, const struct settings *settings,
                            const struct memory_way *way, size_t slab_count) {
    struct memory_load load = {.batch = 1, .pass_tokens = least_tokens(settings)};
    memory_set_pages(memory, memory->longest_pages, &load);
    load.state_count = size_min(load.state_count, load.batch); /* none is kept */
    return memory_total(memory, way, slab_count, &load);
}

/* The way that needs least of those that the engine setting allows. */
uint64_t choice_least(const struct memory *memory, const struct settings *settings, bool may_stay,
                      bool may_stream) {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < memory->way_count; i++) {
        for (size_t slabs = 0; slabs <= SLABS_LEAST; slabs += SLABS_LEAST) {
            if (slabs == 0 ? !may_stay : !may_stream)
                continue;
            uint64_t total = least_total(memory, settings, &memory->ways[i], slabs);
            least = size_min(least, total);
        }
    }
    return least;
}

/* Tokens and pages for a batch; base_tokens is what a pass takes when the batch is smaller. */
static struct memory_load load_for(const struct memory *memory, const struct settings *settings,
                                   size_t batch, size_t base_tokens) {
    size_t tokens = settings->pass_tokens > 0 ? base_tokens : size_max(base_tokens, batch);
    struct memory_load load = {.batch = batch, .pass_tokens = tokens};
    memory_set_pages(memory, memory_pages(memory, batch), &load);
    return load;
}

/* Tokens of a pass: as many as are wished for, while one row's worth of activations stays a modest
 * share of `room`, and never more than the job has. */
static size_t choose_tokens(const struct memory *memory, const struct settings *settings,
                            size_t wished, uint64_t room) {
    if (settings->pass_tokens > 0)
        return (size_t)settings->pass_tokens;
    uint64_t all = memory->rows->prompt_tokens + PASS_TOKENS_LEAST;
    struct memory_load load = {.batch = 1, .pass_tokens = PASS_TOKENS_LEAST};
    memory_set_pages(memory, memory->longest_pages, &load);
    uint64_t least = memory_work(memory, &load);
    for (load.pass_tokens = wished; load.pass_tokens > PASS_TOKENS_LEAST; load.pass_tokens /= 2) {
        if (load.pass_tokens / 2 < all && memory_work(memory, &load) - least <= room / WORK_SHARE)
            break;
    }
    return size_max(load.pass_tokens, PASS_TOKENS_LEAST);
}

/* Pages that so many rows will hardly ever need more than: each as long as its limit allows, a
 * quarter longer than the average row of the job, and one of them the longest. */
static uint64_t pages_of_places(const struct memory *memory, size_t batch) {
    uint64_t count = size_max(memory->rows->count, 1);
    uint64_t average = size_divide_up(memory->rows->pages, count);
    uint64_t all_long = batch * memory->longest_pages;
    uint64_t most = batch * (average + average / 4 + 1) + memory->longest_pages;
    return size_min(all_long, most);
}

/* Memory that a batch of average rows leaves goes to pages, and a few more places let short rows
 * use them; places cost logits, so only while those are cheap beside the pages. False when they are
 * not. */
static bool fill_pages(const struct memory *memory, const struct settings *settings,
                       uint64_t usable, size_t batch, struct choice *choice) {
    struct memory_load load = load_for(memory, settings, batch, choice->load.pass_tokens);
    memory_set_pages(memory, 0, &load);
    uint64_t extra = memory_work(memory, &load);
    uint64_t fixed = memory_total(memory, choice->way, choice->slab_count, &load);
    uint64_t before = memory_work(memory, &choice->load);
    extra = extra > before ? extra - before : 0;
    extra += memory->state_bytes * (load.state_count - choice->load.state_count);
    if (fixed >= usable || extra > (usable - fixed) / PLACES_SHARE)
        return false;
    uint64_t most = size_min(memory->rows->pages, pages_of_places(memory, batch));
    uint64_t pages = size_min((usable - fixed) / memory_page_cost(memory), most);
    if (pages < memory->longest_pages)
        return false;
    memory_set_pages(memory, pages, &load);
    if (memory_total(memory, choice->way, choice->slab_count, &load) > usable)
        return false;
    choice->load = load;
    return true;
}

/* The largest batch whose total stays within `usable`; at least 1, which the caller knows to fit.
 */
void choice_rows(const struct memory *memory, const struct settings *settings, uint64_t usable,
                 const struct choice_wish *wish, struct choice *choice) {
    uint64_t fixed = least_total(memory, settings, choice->way, choice->slab_count);
    size_t tokens =
        choose_tokens(memory, settings, wish->pass_tokens, usable > fixed ? usable - fixed : 0);
    size_t most = choice->slab_count == 0 ? BATCH_RESIDENT_MAX : BATCH_STREAM_MAX;
    choice->batch_reason = "more at once would not be faster";
    if (settings->batch > 0) {
        most = (size_t)settings->batch;
        choice->batch_reason = "--batch";
    }
    if (wish->batch_max > 0 && wish->batch_max < most) {
        most = wish->batch_max;
        choice->batch_reason = "weights that stay in memory are worth more than rows";
    }
    if (memory->rows->count <= most) {
        most = size_max(memory->rows->count, 1);
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
    if (memory_total(memory, choice->way, choice->slab_count, &choice->load) > usable)
        choice->load.state_count = size_min(choice->load.state_count, low); /* one row alone */
    if (low < most)
        choice->batch_reason = "what the memory holds";
    /* Rows may be shorter than expected as well as longer: some more places cost little. */
    size_t more = low / 4 + 1;
    while (!fill_pages(memory, settings, usable, size_min(low + more, most), choice) && more > 0)
        more /= 2;
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
    most = size_min(most, size_max(way->block_count, SLABS_LEAST));
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
                        uint64_t usable, struct choice *choice) {
    char *reason = choice->engine_reason;
    const size_t room = sizeof choice->engine_reason;
    if (strcmp(settings->engine, "auto") != 0) {
        snprintf(reason, room, "--engine");
        return strcmp(settings->engine, "resident") == 0;
    }
    size_t batch = size_min(size_max(memory->rows->count, 1), BATCH_USEFUL);
    struct memory_load load = {.batch = batch,
                               .pass_tokens = size_max(least_tokens(settings), batch)};
    memory_set_pages(memory, memory_pages(memory, batch), &load);
    bool fits = memory_total(memory, whole_way(memory), 0, &load) <= usable;
    if (!fits && choice_least(memory, settings, false, true) > usable) {
        snprintf(reason, room, "the slabs of a stream would take more than these weights");
        return true;
    }
    snprintf(reason, room,
             fits ? "weights and rows fit into the budget"
                  : "weights and %zu row%s do not fit into the budget together",
             batch, batch == 1 ? "" : "s");
    return fits;
}

void choice_weights(const struct memory *memory, const struct settings *settings, uint64_t usable,
                    struct choice *choice) {
    *choice = (struct choice){0};
    if (should_stay(memory, settings, usable, choice))
        choice->way = whole_way(memory);
    else
        choose_ring(memory, settings, usable, choice);
}

/* What the rows leave keeps blocks in memory. Where that would be all of them, `stream` was asked
 * for by name: it gets every block read for every pass. */
enum status choice_pins(const struct memory *memory, uint64_t usable, struct choice *choice,
                        struct error *err) {
    uint64_t taken = memory_total(memory, choice->way, choice->slab_count, &choice->load);
    uint64_t left = taken < usable ? usable - taken : 0;
    choice->pins = (struct pins){0};
    if (choice->slab_count == 0)
        return SL_OK;
    if (memory->rows->count == 0 || left >= choice->way->slab_bytes_sum)
        left = 0;
    return pins_foresee(memory, choice->way, choice->slab_count, left, &choice->pins, err);
}
