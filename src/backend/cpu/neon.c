/* The NEON set: its table, and the choice between the two ways of a product (panels with lanes
 * along tokens, or lanes along outputs for few tokens). The loops over lanes are those of the
 * scalar reference: any compiler for aarch64 makes vector code of them. */
#include "backend/cpu/neon.h"
#include "backend/cpu/delta.h"

#ifdef __aarch64__

#define LANES_TARGET
#include "backend/cpu/lanes.h"

static const struct cpu_panel_set panels = {
    .decoders = &neon_decoders,
    .multiply = neon_multiply,
    .rows = 12,
    .tiles = 1,
};

static bool neon_is_available(void) {
    return true;
}

static void neon_product(const struct cpu_product *task, size_t first, size_t count,
                         float *scratch) {
    if (task->x->tokens <= NEON_FEW_MAX)
        neon_few(task, first, count, scratch);
    else
        product_panels(task, first, count, scratch);
}

const struct cpu_kernels cpu_kernels_neon = {
    .isa = "neon",
    .is_available = neon_is_available,
    .decoders = &neon_decoders,
    .product = neon_product,
    .panels = &panels,
    .attend = neon_attend,
    .delta = neon_delta,
    LANES_OPERATIONS,
};

#endif
