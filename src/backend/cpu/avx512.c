/* The AVX-512 set: its table, the panels of its products, and the loops over lanes compiled for it.
 * What gains nothing from wider registers is AVX2's: the decoders of formats that need single bytes
 * moved about. */
#include "backend/cpu/avx512.h"
#include "backend/cpu/delta.h"

#ifdef __x86_64__

#include "base/cpu.h"

#define LANES_TARGET AVX512
#include "backend/cpu/lanes.h"

static const struct cpu_panel_set panels = {
    .decoders = &avx512_decoders,
    .multiply = avx512_multiply,
    .rows = 12,
    .tiles = 2,
};

static bool avx512_is_available(void) {
    return cpu_get()->has_avx512;
}

const struct cpu_kernels cpu_kernels_avx512 = {
    .isa = "avx512",
    .is_available = avx512_is_available,
    .decoders = &avx512_decoders,
    .product = product_panels,
    .panels = &panels,
    .few = avx512_few,
    .few_tokens_max = AVX512_FEW_MAX,
    .few_decoded_max = AVX512_FEW_DECODED_MAX,
    .attend = avx512_attend,
    .delta = avx512_delta,
    LANES_OPERATIONS,
};

#endif
