/* Owns which blocks are pinned. Refuses to take more than it was given. */
#include "plan/pins.h"

#include "io/slab.h"
#include "model/role.h"

static bool is_expert(const struct layout *layout, size_t block) {
    return role_is_expert(role_of_key(layout->pieces[layout->blocks[block].first_piece].key));
}

/* Pins of one class of blocks, as many as fit: block after block adds its share of `bytes` to what
 * may be taken, and is kept once that is enough for it (as Bresenham's line steps). */
static void spread(const struct layout *layout, bool wants_experts, uint64_t bytes, bool *keeps,
                   struct pins *pins) {
    uint64_t all = 0, taken = 0;
    for (size_t i = 0; i < layout->block_count; i++)
        if (is_expert(layout, i) == wants_experts)
            all += layout->blocks[i].slab_bytes;
    if (all == 0)
        return;
    double share = bytes >= all ? 1 : (double)bytes / (double)all, may_take = 0;
    for (size_t i = 0; i < layout->block_count; i++) {
        const struct block *block = &layout->blocks[i];
        if (is_expert(layout, i) != wants_experts)
            continue;
        may_take += share * (double)block->slab_bytes;
        /* Half a block early or late at most, and never beyond the whole. */
        if ((double)taken + (double)block->slab_bytes / 2 > may_take && share < 1)
            continue;
        if (block->slab_bytes > bytes - taken)
            continue;
        taken += block->slab_bytes;
        keeps[i] = true;
        pins->count++;
        pins->memory_bytes += block->slab_bytes;
        pins->read_bytes += wants_experts ? 0 : block->read_bytes;
    }
}

void pins_choose(const struct layout *layout, uint64_t bytes, bool *keeps, struct pins *out) {
    struct pins pins = {.room_bytes = bytes};
    for (size_t i = 0; i < layout->block_count; i++)
        keeps[i] = false;
    spread(layout, false, bytes, keeps, &pins);
    spread(layout, true, bytes - pins.memory_bytes, keeps, &pins);
    must(pins.memory_bytes <= bytes);
    *out = pins;
}

static size_t common_divisor(size_t a, size_t b) {
    return b == 0 ? a : common_divisor(b, a % b);
}

/* Slabs are read into in turn, pass after pass. So a slab sees every so-many-th loose block, and
 * all of them where the two numbers have no common divisor, or where passes leave blocks out. */
uint64_t pins_ring_bytes(const struct layout *layout, const bool *keeps, size_t slab_count) {
    size_t loose = 0, most[SL_RING_SLABS_MAX] = {0};
    bool has_experts = false;
    must(slab_count > 0 && slab_count <= SL_RING_SLABS_MAX);
    for (size_t i = 0; i < layout->block_count; i++) {
        loose += !keeps[i];
        has_experts = has_experts || is_expert(layout, i);
    }
    size_t kinds = has_experts ? 1 : common_divisor(slab_count, loose), next = 0;
    for (size_t i = 0; i < layout->block_count; i++) {
        size_t *of_kind = &most[next % kinds];
        if (keeps[i])
            continue;
        *of_kind = size_max(*of_kind, layout->blocks[i].slab_bytes);
        next++;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < slab_count; i++)
        sum += slab_touched_bytes(layout->slab_bytes_max, most[i % kinds]);
    return sum;
}

static enum status foresee(const struct layout *layout, size_t slab_count, uint64_t bytes,
                           struct pins *out, struct error *err) {
    bool *keeps = mem_new(layout->block_count, sizeof *keeps);
    if (keeps == NULL)
        return error_memory(err, layout->block_count * sizeof *keeps, "pins");
    pins_choose(layout, bytes, keeps, out);
    out->ring_bytes = pins_ring_bytes(layout, keeps, slab_count);
    mem_free(keeps);
    return SL_OK;
}

enum status pins_foresee(const struct memory *memory, const struct memory_way *way,
                         size_t slab_count, uint64_t bytes, struct pins *out, struct error *err) {
    struct layout_item *items;
    struct layout layout;
    size_t count;
    TRY(model_layout_items(memory->model, &items, &count, err));
    enum status status =
        layout_init(&layout, &memory->model->index, items, count, way->block_bytes_max, err);
    mem_free(items);
    TRY(status);
    status = foresee(&layout, slab_count, bytes, out, err);
    layout_release(&layout);
    return status;
}
