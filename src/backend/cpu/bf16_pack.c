/* What the bf16 kernel sets share: rounding the activations of a product once, and bringing rows of
 * weights into scratch as bf16. The processor's own conversion rounds to nearest even, takes
 * subnormal numbers for zeros and keeps NaN, which is what backend.h promises. */
#include "backend/cpu/bf16_decode.h"

#ifdef __x86_64__

#include "backend/cpu/avx512.h"

#include <immintrin.h>

/* Features 2p and 2p + 1 of 16 tokens as pairs of bf16. */
BF16_INLINE __m512i pack_pair(const float *x, size_t features, size_t p, __m512i order) {
    __m512 even = _mm512_setzero_ps(), odd = even;
    if (2 * p < features)
        even = _mm512_load_ps(x + 2 * p * SL_LANES);
    if (2 * p + 1 < features)
        odd = _mm512_load_ps(x + (2 * p + 1) * SL_LANES);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

BF16 void bf16_pack(const struct act *x, size_t tile, size_t first, size_t count, uint32_t *words) {
    const float *from = act_tile(x, tile);
    __m512i order = pair_order();
    for (size_t p = first; p < first + count; p++)
        _mm512_store_si512(words + p * SL_LANES, pack_pair(from, x->features, p, order));
}

BF16 void bf16_pack_few(const struct act *x, size_t first, size_t count, uint32_t *words) {
    const float *from = act_tile(x, 0);
    __m512i order = pair_order();
    __mmask8 lanes = (__mmask8)((1u << x->tokens) - 1);
    for (size_t p = first; p < first + count; p++) {
        __m512i pairs = pack_pair(from, x->features, p, order);
        _mm256_mask_storeu_epi32(words + p * x->tokens, lanes, _mm512_castsi512_si256(pairs));
    }
}

BF16 void bf16_load_decoded(const struct bf16_row *row, const uint8_t *from) {
    uint8_t *out = row->out;
    (void)from;
    cpu_decode(&avx512_decoders, row->w, row->row, row->column, row->count, row->decoded);
    for (size_t k = 0; k < row->count; k += BF16_STEP, out += row->stride) {
        __mmask32 lanes = lanes_left(row->count, k);
        __m512 low = _mm512_maskz_loadu_ps((__mmask16)lanes, row->decoded + k);
        __m512 high = _mm512_maskz_loadu_ps((__mmask16)(lanes >> 16), row->decoded + k + 16);
        store_line(out, low, high);
    }
}

void bf16_load_row(const struct bf16_row *row) {
    const struct view *w = row->w;
    bf16_decode *decode = bf16_decoders[w->dtype];
    const uint8_t *from = cpu_weights(w, dtype_get(w->dtype), row->row, row->column);
    if (decode)
        decode(row, from);
    else
        bf16_load_decoded(row, from);
}

#endif
