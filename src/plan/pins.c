/* Owns which blocks are pinned. Refuses to take more than it was given. */
#include "plan/pins.h"

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
    for (size_t i = 0; i < layout->block_count; i++) {
        uint64_t loose = keeps[i] ? 0 : layout->blocks[i].slab_bytes;
        pins.loose_bytes_sum += loose;
        pins.loose_bytes_max = loose > pins.loose_bytes_max ? loose : pins.loose_bytes_max;
    }
    *out = pins;
}

static enum status foresee(const struct layout *layout, uint64_t bytes, struct pins *out,
                           struct error *err) {
    bool *keeps = mem_new(layout->block_count, sizeof *keeps);
    if (keeps == NULL)
        return error_memory(err, layout->block_count * sizeof *keeps, "pins");
    pins_choose(layout, bytes, keeps, out);
    mem_free(keeps);
    return SL_OK;
}

enum status pins_foresee(const struct memory *memory, const struct memory_way *way, uint64_t bytes,
                         struct pins *out, struct error *err) {
    struct layout_item *items;
    struct layout layout;
    size_t count;
    TRY(model_layout_items(memory->model, &items, &count, err));
    enum status status =
        layout_init(&layout, &memory->model->index, items, count, way->block_bytes_max, err);
    mem_free(items);
    TRY(status);
    status = foresee(&layout, bytes, out, err);
    layout_release(&layout);
    return status;
}
