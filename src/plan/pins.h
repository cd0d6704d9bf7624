/* Pins: blocks of a streamed model that stay in memory, so that every pass reads less.
 *
 * Memory that the rows do not need goes to pins, spread evenly over the pass: the reads that remain
 * then come at an even pace, and no part of a pass waits longer than another. Blocks that every
 * pass uses come before experts, which a pass may not need. Arithmetic only. */
#ifndef SLUICE_PLAN_PINS_H
#define SLUICE_PLAN_PINS_H

#include "plan/memory.h"

struct pins {
    uint64_t room_bytes;   /* what they were chosen for: gives them again */
    uint64_t memory_bytes; /* what the kept blocks take: their slab_bytes */
    uint64_t read_bytes;   /* what a pass need not read, experts not counted */
    size_t count;          /* blocks */
    uint64_t ring_bytes;   /* of the slabs, what the blocks that are not kept come to touch */
};

/* keeps: [layout->block_count], set for each block. At most so many bytes of memory are taken. */
void pins_choose(const struct layout *layout, uint64_t bytes, bool *keeps, struct pins *out);
/* What so many slabs come to hold; all of them are read into. */
uint64_t pins_ring_bytes(const struct layout *layout, const bool *keeps, size_t slab_count);
/* What pins_choose will choose for a way of laying out the weights, with ring_bytes; makes that
 * layout for as long. */
enum status pins_foresee(const struct memory *memory, const struct memory_way *way,
                         size_t slab_count, uint64_t bytes, struct pins *out, struct error *err);

#endif
