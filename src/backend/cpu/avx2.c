/* The AVX2 set: its table, and the loops over lanes compiled for it. */
#include "backend/cpu/avx2.h"
#include "backend/cpu/delta.h"

#ifdef __x86_64__

#include "base/cpu.h"

#define LANES_TARGET AVX2
#include "backend/cpu/lanes.h"

static const struct cpu_panel_set panels = {
    .decoders = &avx2_decoders,
    .multiply = avx2_multiply,
    .rows = 12,
    .tiles = 1,
};

static bool avx2_is_available(void) {
    return cpu_get()->has_avx2_fma;
}

const struct cpu_kernels cpu_kernels_avx2 = {
    .isa = "avx2",
    .is_available = avx2_is_available,
    .decoders = &avx2_decoders,
    .product = product_panels,
    .panels = &panels,
    .few = avx2_few,
    .few_tokens_max = AVX2_FEW_MAX,
    .few_decoded_max = AVX2_FEW_DECODED_MAX,
    .attend = avx2_attend,
    .delta = avx2_delta,
    LANES_OPERATIONS,
};

#endif
