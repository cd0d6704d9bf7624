/* Attention on NEON: scores of a page are 16 lanes, one for each of its positions, four vectors;
 * slots outside the token's window become minus infinity before the maximum is taken (what lies
 * there is garbage), and their values are never read.
 *
 * A head alone scores four pages side by side, two heads two pages, so that there are 12 to 16
 * independent chains. Of bf16, the 16 keys of a dimension take 2 loads and 4 operations to widen
 * for 4 multiply-adds a head; eight values likewise 1 load and 2 operations for 2 a head. */
#include "backend/cpu/neon.h"

#ifdef __aarch64__

#include "backend/cpu/heads.h"
#include "base/num.h"

enum { PARTS = 4, VECTOR = 4, VECTORS_MAX = 16 }; /* PARTS: vectors of the slots of a page */

/* Sixteen keys of a dimension, or values, from element `index` on. dtype is a constant. */
NEON_INLINE void load_sixteen(const uint8_t *base, size_t index, enum kv_dtype dtype,
                              float32x4_t to[PARTS]) {
    if (dtype == KV_F32) {
        NEON_UNROLL
        for (size_t i = 0; i < PARTS; i++)
            to[i] = neon_load_words(base + 4 * index + 16 * i);
        return;
    }
    uint16x8_t first = neon_load_halves(base + 2 * index);
    uint16x8_t second = neon_load_halves(base + 2 * index + 16);
    to[0] = neon_bf16_low(first);
    to[1] = neon_bf16_high(first);
    to[2] = neon_bf16_low(second);
    to[3] = neon_bf16_high(second);
}

NEON_INLINE float32x4_t load_four(const uint8_t *base, size_t index, enum kv_dtype dtype) {
    if (dtype == KV_F32)
        return neon_load_words(base + 4 * index);
    uint16x4_t halves = vreinterpret_u16_u8(vld1_u8(base + 2 * index));
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(halves), 16));
}

NEON_INLINE float load_element(const uint8_t *base, size_t index, enum kv_dtype dtype) {
    if (dtype == KV_F32) {
        float value;
        memcpy(&value, base + 4 * index, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, base + 2 * index, sizeof bits);
    return num_from_bf16(bits);
}

/* Adds the chains of query x key over [first, end) of head_dim to the scores of the first page of
 * `pages` and those beside it, or begins them. count and dtype are constants. */
NEON_INLINE void score_block(struct heads *heads, const struct heads_page *pages, size_t first,
                             size_t end, size_t count, enum kv_dtype dtype) {
    size_t beside = HEADS_BATCH / count;
    float32x4_t chain[HEADS_BATCH][HEADS_MAX][PARTS];
    NEON_UNROLL
    for (size_t p = 0; p < beside; p++)
        NEON_UNROLL
    for (size_t h = 0; h < count; h++)
        NEON_UNROLL
    for (size_t i = 0; i < PARTS; i++)
        chain[p][h][i] = vdupq_n_f32(0.0f);
    for (size_t d = first; d < end; d++) {
        float32x4_t query = vld1q_f32(heads->query + d * HEADS_MAX);
        size_t at = d * SL_PAGE_TOKENS;
        NEON_UNROLL
        for (size_t p = 0; p < beside; p++) {
            float32x4_t keys[PARTS];
            __builtin_prefetch(pages[p].later_keys + at * kv_value_bytes(dtype));
            load_sixteen(pages[p].keys, at, dtype, keys);
            NEON_UNROLL
            for (size_t h = 0; h < count; h++)
                NEON_UNROLL
            for (size_t i = 0; i < PARTS; i++)
                chain[p][h][i] = neon_fma_lane(chain[p][h][i], keys[i], query, h);
        }
    }
    NEON_UNROLL
    for (size_t p = 0; p < beside; p++)
        NEON_UNROLL
    for (size_t h = 0; h < count; h++)
        NEON_UNROLL
    for (size_t i = 0; i < PARTS; i++) {
        float *score = pages[p].shares[h] + VECTOR * i;
        vst1q_f32(score, first > 0 ? vaddq_f32(vld1q_f32(score), chain[p][h][i]) : chain[p][h][i]);
    }
}

NEON_INLINE void score_pages(struct heads *heads, const struct heads_page *pages, size_t len,
                             size_t count, enum kv_dtype dtype) {
    size_t head_dim = heads->task->args->kv->head_dim;
    for (size_t p = 0; p < len; p += HEADS_BATCH / count)
        for (size_t first = 0; first < head_dim; first += SL_CHAIN)
            score_block(heads, pages + p, first,
                        head_dim - first < SL_CHAIN ? head_dim : first + SL_CHAIN, count, dtype);
}

/* All ones in the lanes of slots that count; `at` is the slot of the first lane. */
NEON_INLINE uint32x4_t seen_lanes(size_t at, const struct heads_page *page) {
    static const uint32_t lanes[VECTOR] = {0, 1, 2, 3};
    uint32x4_t slot = vaddq_u32(vdupq_n_u32((uint32_t)at), vld1q_u32(lanes));
    return vandq_u32(vcgeq_u32(slot, vdupq_n_u32((uint32_t)page->from)),
                     vcltq_u32(slot, vdupq_n_u32((uint32_t)page->to)));
}

/* Scores times the scale, and capped. */
NEON_INLINE void scale_scores(const struct attention_args *args, float *scores) {
    for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
        scores[slot] *= args->scale;
    if (args->cap != 0.0f)
        for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
            scores[slot] = num_cap(scores[slot], args->cap);
}

/* The largest of the scores that count and are numbers, minus infinity if none is. */
NEON_INLINE float largest_of(const float *scores, const uint32x4_t seen[PARTS]) {
    float32x4_t most = vdupq_n_f32(-INFINITY);
    NEON_UNROLL
    for (size_t i = 0; i < PARTS; i++) {
        float32x4_t score = vld1q_f32(scores + VECTOR * i);
        uint32x4_t keep = vandq_u32(seen[i], vceqq_f32(score, score));
        most = vmaxq_f32(most, vbslq_f32(keep, score, vdupq_n_f32(-INFINITY)));
    }
    return vmaxvq_f32(most);
}

/* Turns the scores of a page into shares and brings maximum and sums of head h up to date. */
NEON_INLINE void soften(struct heads *heads, struct heads_page *page, size_t h) {
    float *shares = page->shares[h], *sums = heads->sums[h], old = heads->largest[h];
    uint32x4_t seen[PARTS];
    NEON_UNROLL
    for (size_t i = 0; i < PARTS; i++)
        seen[i] = seen_lanes(VECTOR * i, page);
    scale_scores(heads->task->args, shares);
    float largest = largest_of(shares, seen);
    largest = largest > old ? largest : old;
    float shrink = largest > old ? num_exp(old - largest) : 1.0f;
    for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
        shares[slot] = num_exp(shares[slot] - largest);
    NEON_UNROLL
    for (size_t i = 0; i < PARTS; i++) {
        uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(shares + VECTOR * i));
        float32x4_t share = vreinterpretq_f32_u32(vandq_u32(bits, seen[i]));
        float *sum = sums + VECTOR * i;
        vst1q_f32(shares + VECTOR * i, share);
        vst1q_f32(sum, vfmaq_n_f32(share, vld1q_f32(sum), shrink));
    }
    heads->largest[h] = largest;
    page->shrink[h] = shrink;
}

/* Accumulators of a loop over values; constants. */
struct width {
    size_t heads, vectors; /* one vector, or a multiple of four */
};

/* Values d .. of one slot. width and dtype are constants. */
NEON_INLINE void load_values(const struct heads_page *page, size_t at, struct width width,
                             enum kv_dtype dtype, float32x4_t values[VECTORS_MAX]) {
    if (width.vectors == 1) {
        values[0] = load_four(page->values, at, dtype);
        return;
    }
    NEON_UNROLL
    for (size_t v = 0; v < width.vectors; v += PARTS) {
        if (dtype == KV_F32 || v % (2 * PARTS) == 0)
            __builtin_prefetch(page->later_values + (at + VECTOR * v) * kv_value_bytes(dtype));
        load_sixteen(page->values, at + VECTOR * v, dtype, values + v);
    }
}

/* Adds shares x values of len pages to outputs d .. d + 4 x vectors. width and dtype are
 * constants. */
NEON_INLINE void add_values(struct heads *heads, const struct heads_page *pages, size_t len,
                            size_t d, struct width width, enum kv_dtype dtype) {
    size_t value_dim = heads->task->args->kv->value_dim;
    float32x4_t out[HEADS_MAX][VECTORS_MAX];
    NEON_UNROLL
    for (size_t h = 0; h < width.heads; h++)
        NEON_UNROLL
    for (size_t v = 0; v < width.vectors; v++)
        out[h][v] = vld1q_f32(heads->out + h * heads->out_stride + d + VECTOR * v);
    for (const struct heads_page *page = pages; page < pages + len; page++) {
        NEON_UNROLL
        for (size_t h = 0; h < width.heads; h++)
            NEON_UNROLL
        for (size_t v = 0; v < width.vectors; v++)
            out[h][v] = vmulq_n_f32(out[h][v], page->shrink[h]);
        for (size_t slot = page->from; slot < page->to; slot++) {
            float32x4_t values[VECTORS_MAX];
            load_values(page, slot * value_dim + d, width, dtype, values);
            NEON_UNROLL
            for (size_t h = 0; h < width.heads; h++)
                NEON_UNROLL
            for (size_t v = 0; v < width.vectors; v++)
                out[h][v] = vfmaq_n_f32(out[h][v], values[v], page->shares[h][slot]);
        }
    }
    NEON_UNROLL
    for (size_t h = 0; h < width.heads; h++)
        NEON_UNROLL
    for (size_t v = 0; v < width.vectors; v++)
        vst1q_f32(heads->out + h * heads->out_stride + d + VECTOR * v, out[h][v]);
}

/* Sixteen slots of four dimensions become sixteen vectors of one slot each. */
NEON_INLINE void turn_keys(const struct heads_page *page, size_t d, enum kv_dtype dtype,
                           float turned[SL_PAGE_TOKENS][VECTOR]) {
    float32x4_t keys[VECTOR][PARTS];
    NEON_UNROLL
    for (size_t i = 0; i < VECTOR; i++)
        load_sixteen(page->keys, (d + i) * SL_PAGE_TOKENS, dtype, keys[i]);
    NEON_UNROLL
    for (size_t part = 0; part < PARTS; part++) {
        float32x4_t row[VECTOR] = {keys[0][part], keys[1][part], keys[2][part], keys[3][part]};
        float32x4_t column[VECTOR];
        neon_transpose(row, column);
        NEON_UNROLL
        for (size_t i = 0; i < VECTOR; i++)
            vst1q_f32(turned[VECTOR * part + i], column[i]);
    }
}

/* add_values for four outputs where keys serve as values: positions run fastest there, so the
 * 4 x 16 numbers are turned first. */
NEON_INLINE void add_shared_values(struct heads *heads, const struct heads_page *pages, size_t len,
                                   size_t d, size_t count, enum kv_dtype dtype) {
    float turned[SL_PAGE_TOKENS][VECTOR];
    float32x4_t out[HEADS_MAX];
    NEON_UNROLL
    for (size_t h = 0; h < count; h++)
        out[h] = vld1q_f32(heads->out + h * heads->out_stride + d);
    for (const struct heads_page *page = pages; page < pages + len; page++) {
        turn_keys(page, d, dtype, turned);
        NEON_UNROLL
        for (size_t h = 0; h < count; h++)
            out[h] = vmulq_n_f32(out[h], page->shrink[h]);
        for (size_t slot = page->from; slot < page->to; slot++) {
            float32x4_t value = vld1q_f32(turned[slot]);
            NEON_UNROLL
            for (size_t h = 0; h < count; h++)
                out[h] = vfmaq_n_f32(out[h], value, page->shares[h][slot]);
        }
    }
    NEON_UNROLL
    for (size_t h = 0; h < count; h++)
        vst1q_f32(heads->out + h * heads->out_stride + d, out[h]);
}

/* The outputs past the last multiple of 4, one by one. */
NEON_INLINE void add_last_values(struct heads *heads, const struct heads_page *page, size_t h,
                                 enum kv_dtype dtype) {
    const struct kv_layer *kv = heads->task->args->kv;
    size_t value_dim = kv->value_dim;
    const uint8_t *values = kv->shares_values ? page->keys : page->values;
    for (size_t d = value_dim / VECTOR * VECTOR; d < value_dim; d++) {
        float *out = heads->out + h * heads->out_stride + d;
        *out *= page->shrink[h];
        for (size_t slot = page->from; slot < page->to; slot++) {
            size_t at = kv->shares_values ? d * SL_PAGE_TOKENS + slot : slot * value_dim + d;
            *out = num_fma(page->shares[h][slot], load_element(values, at, dtype), *out);
        }
    }
}

/* A batch of len pages. What follows them in the array is scored and forgotten. */
NEON_INLINE void attend_batch(struct heads *heads, struct heads_page *pages, size_t len,
                              size_t count, enum kv_dtype dtype) {
    size_t value_dim = heads->task->args->kv->value_dim, d = 0;
    size_t vectors = count == 1 ? VECTORS_MAX : count == 2 ? 8 : 4;
    score_pages(heads, pages, len, count, dtype);
    for (size_t p = 0; p < len; p++)
        for (size_t h = 0; h < count; h++)
            soften(heads, &pages[p], h);
    for (; heads->task->args->kv->shares_values && d + VECTOR <= value_dim; d += VECTOR)
        add_shared_values(heads, pages, len, d, count, dtype);
    for (; d + VECTOR * vectors <= value_dim; d += VECTOR * vectors)
        add_values(heads, pages, len, d, (struct width){count, vectors}, dtype);
    for (; d + VECTOR <= value_dim; d += VECTOR)
        add_values(heads, pages, len, d, (struct width){count, 1}, dtype);
    for (size_t p = 0; d < value_dim && p < len; p++)
        for (size_t h = 0; h < count; h++)
            add_last_values(heads, &pages[p], h, dtype);
}

#define ATTEND_BATCH(COUNT)                                                                        \
    static void bf16_##COUNT(struct heads *heads, struct heads_page *pages, size_t len) {          \
        attend_batch(heads, pages, len, COUNT, KV_BF16);                                           \
    }                                                                                              \
    static void f32_##COUNT(struct heads *heads, struct heads_page *pages, size_t len) {           \
        attend_batch(heads, pages, len, COUNT, KV_F32);                                            \
    }
ATTEND_BATCH(1)
ATTEND_BATCH(2)
ATTEND_BATCH(3)
ATTEND_BATCH(4)

static const struct heads_set set = {
    .attend = {[KV_BF16] = {NULL, bf16_1, bf16_2, bf16_3, bf16_4},
               [KV_F32] = {NULL, f32_1, f32_2, f32_3, f32_4}},
};

void neon_attend(const struct cpu_attention *task, size_t token, size_t kv_head, float *scratch) {
    heads_attend(&set, task, token, kv_head, scratch);
}

#endif
