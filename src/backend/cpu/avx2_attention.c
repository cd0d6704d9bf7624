/* Attention on AVX2: up to four query heads that share a key/value head go through its pages
 * together, so that keys and values are loaded and widened once for all of them.
 *
 * Scores of a page are 16 lanes, one for each of its positions, two vectors; slots outside the
 * token's window become minus infinity before the maximum is taken (what lies there is garbage),
 * and their values are never read. Sums of shares and of values run in the order of positions. */
#include "backend/cpu/avx2.h"

#ifdef __x86_64__

#include "base/num.h"

#include <immintrin.h>

/* Pages go through in batches. Each score is a chain of dependent operations, so BATCH_MAX / heads
 * pages are scored side by side: eight vectors of chains keep two FMA units of latency 4 busy. All
 * shares of a batch are computed before its values are added, with the outputs in registers. */
enum { GROUP_MAX = 4, BATCH_MAX = 4, VECTORS_MAX = 8 };

/* The keys and values of one page and key/value head, and the slots that count. Those of a page
 * that comes later are asked for while this one is computed: pages lie scattered in memory. */
struct page {
    const uint8_t *keys, *values, *later_keys, *later_values;
    size_t from, to;
    float (*shares)[SL_PAGE_TOKENS]; /* [heads]: scores, then their exponentials */
    float shrink[GROUP_MAX];         /* what older outputs are multiplied by */
};

/* Some heads of one token. */
struct heads {
    const struct cpu_attention *task;
    size_t token, first, count; /* first query head, how many */
    float *query;               /* [head_dim, GROUP_MAX] */
    float *out;                 /* [GROUP_MAX, value_dim rounded up to 8], aligned to 32 */
    float largest[GROUP_MAX];
    _Alignas(32) float sums[GROUP_MAX][SL_PAGE_TOKENS];              /* of shares, slot by slot */
    _Alignas(32) float shares[BATCH_MAX][GROUP_MAX][SL_PAGE_TOKENS]; /* of the pages of a batch */
};

AVX2_INLINE __m256 load_elements(const uint8_t *base, size_t index, enum kv_dtype dtype) {
    if (dtype == KV_F32)
        return _mm256_loadu_ps((const float *)(const void *)(base + 4 * index));
    __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(base + 2 * index));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

AVX2_INLINE float load_element(const uint8_t *base, size_t index, enum kv_dtype dtype) {
    if (dtype == KV_F32) {
        float value;
        memcpy(&value, base + 4 * index, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, base + 2 * index, sizeof bits);
    return num_from_bf16(bits);
}

/* Adds the chains of query x key over [first, end) of head_dim to the scores of page `page` of a
 * batch and those beside it, or begins them. count and dtype are constants. */
AVX2_INLINE void score_block(struct heads *heads, const struct page *pages, size_t first,
                             size_t end, size_t count, enum kv_dtype dtype) {
    size_t beside = BATCH_MAX / count;
    __m256 chain[BATCH_MAX][GROUP_MAX][2];
    AVX2_UNROLL
    for (size_t p = 0; p < beside; p++)
        AVX2_UNROLL
    for (size_t h = 0; h < count; h++)
        chain[p][h][0] = chain[p][h][1] = _mm256_setzero_ps();
    for (size_t d = first; d < end; d++) {
        const float *query = heads->query + d * GROUP_MAX;
        size_t at = d * SL_PAGE_TOKENS;
        AVX2_UNROLL
        for (size_t p = 0; p < beside; p++) {
            __builtin_prefetch(pages[p].later_keys + at * kv_value_bytes(dtype));
            __m256 low = load_elements(pages[p].keys, at, dtype);
            __m256 high = load_elements(pages[p].keys, at + 8, dtype);
            AVX2_UNROLL
            for (size_t h = 0; h < count; h++) {
                __m256 factor = _mm256_broadcast_ss(query + h);
                chain[p][h][0] = _mm256_fmadd_ps(factor, low, chain[p][h][0]);
                chain[p][h][1] = _mm256_fmadd_ps(factor, high, chain[p][h][1]);
            }
        }
    }
    AVX2_UNROLL
    for (size_t p = 0; p < beside; p++)
        AVX2_UNROLL
    for (size_t h = 0; h < count; h++) {
        float *low = pages[p].shares[h], *high = low + 8;
        if (first > 0) {
            chain[p][h][0] = _mm256_add_ps(_mm256_load_ps(low), chain[p][h][0]);
            chain[p][h][1] = _mm256_add_ps(_mm256_load_ps(high), chain[p][h][1]);
        }
        _mm256_store_ps(low, chain[p][h][0]);
        _mm256_store_ps(high, chain[p][h][1]);
    }
}

AVX2_INLINE void score_pages(struct heads *heads, const struct page *pages, size_t len,
                             size_t count, enum kv_dtype dtype) {
    size_t head_dim = heads->task->args->kv->head_dim;
    for (size_t p = 0; p < len; p += BATCH_MAX / count)
        for (size_t first = 0; first < head_dim; first += SL_CHAIN)
            score_block(heads, pages + p, first,
                        head_dim - first < SL_CHAIN ? head_dim : first + SL_CHAIN, count, dtype);
}

/* All ones in the lanes of slots that count; `at` is the slot of the first lane. */
AVX2_INLINE __m256 seen_lanes(int at, const struct page *page) {
    __m256i slot =
        _mm256_add_epi32(_mm256_set1_epi32(at), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i is_late = _mm256_cmpgt_epi32(slot, _mm256_set1_epi32((int)page->from - 1));
    __m256i is_early = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)page->to), slot);
    return _mm256_castsi256_ps(_mm256_and_si256(is_late, is_early));
}

/* The largest of the lanes that count and are numbers, minus infinity if none is. */
AVX2_INLINE float largest_of(__m256 low, __m256 high, __m256 seen_low, __m256 seen_high) {
    __m256 none = _mm256_set1_ps(-INFINITY);
    __m256 keep_low = _mm256_and_ps(seen_low, _mm256_cmp_ps(low, low, _CMP_ORD_Q));
    __m256 keep_high = _mm256_and_ps(seen_high, _mm256_cmp_ps(high, high, _CMP_ORD_Q));
    __m256 most = _mm256_max_ps(_mm256_blendv_ps(none, low, keep_low),
                                _mm256_blendv_ps(none, high, keep_high));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

/* Scores times the scale, and capped. */
AVX2_INLINE void scale_scores(const struct attention_args *args, float *scores) {
    __m256 scale = _mm256_set1_ps(args->scale);
    _mm256_store_ps(scores, _mm256_mul_ps(_mm256_load_ps(scores), scale));
    _mm256_store_ps(scores + 8, _mm256_mul_ps(_mm256_load_ps(scores + 8), scale));
    if (args->cap != 0.0f)
        for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
            scores[slot] = num_cap(scores[slot], args->cap);
}

/* Turns the scores of a page into shares and brings maximum and sums of head h up to date. */
AVX2_INLINE void soften(struct heads *heads, struct page *page, size_t h) {
    float *shares = page->shares[h], *sums = heads->sums[h], old = heads->largest[h];
    __m256 seen_low = seen_lanes(0, page), seen_high = seen_lanes(8, page);
    scale_scores(heads->task->args, shares);
    __m256 low = _mm256_load_ps(shares), high = _mm256_load_ps(shares + 8);
    float largest = largest_of(low, high, seen_low, seen_high);
    largest = largest > old ? largest : old;
    float shrink = largest > old ? num_exp(old - largest) : 1.0f;
    for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
        shares[slot] = num_exp(shares[slot] - largest);
    low = _mm256_and_ps(_mm256_load_ps(shares), seen_low);
    high = _mm256_and_ps(_mm256_load_ps(shares + 8), seen_high);
    __m256 factor = _mm256_set1_ps(shrink);
    _mm256_store_ps(shares, low);
    _mm256_store_ps(shares + 8, high);
    _mm256_store_ps(sums, _mm256_fmadd_ps(_mm256_load_ps(sums), factor, low));
    _mm256_store_ps(sums + 8, _mm256_fmadd_ps(_mm256_load_ps(sums + 8), factor, high));
    heads->largest[h] = largest;
    page->shrink[h] = shrink;
}

/* Accumulators of a loop over values; constants. */
struct width {
    size_t heads, vectors;
};

/* Adds shares x values of len pages to outputs d .. d + 8 x vectors. width and dtype are
 * constants. */
AVX2_INLINE void add_values(struct heads *heads, const struct page *pages, size_t len, size_t d,
                            struct width width, enum kv_dtype dtype) {
    size_t value_dim = heads->task->args->kv->value_dim, stride = (value_dim + 7) / 8 * 8;
    __m256 out[GROUP_MAX][VECTORS_MAX];
    AVX2_UNROLL
    for (size_t h = 0; h < width.heads; h++)
        AVX2_UNROLL
    for (size_t v = 0; v < width.vectors; v++)
        out[h][v] = _mm256_load_ps(heads->out + h * stride + d + 8 * v);
    for (const struct page *page = pages; page < pages + len; page++) {
        AVX2_UNROLL
        for (size_t h = 0; h < width.heads; h++)
            AVX2_UNROLL
        for (size_t v = 0; v < width.vectors; v++)
            out[h][v] = _mm256_mul_ps(out[h][v], _mm256_broadcast_ss(&page->shrink[h]));
        for (size_t slot = page->from; slot < page->to; slot++) {
            size_t at = slot * value_dim + d;
            AVX2_UNROLL
            for (size_t v = 0; v < width.vectors; v++) {
                if (v % 2 == 0)
                    __builtin_prefetch(page->later_values + (at + 8 * v) * kv_value_bytes(dtype));
                __m256 value = load_elements(page->values, at + 8 * v, dtype);
                AVX2_UNROLL
                for (size_t h = 0; h < width.heads; h++)
                    out[h][v] = _mm256_fmadd_ps(_mm256_broadcast_ss(&page->shares[h][slot]), value,
                                                out[h][v]);
            }
        }
    }
    AVX2_UNROLL
    for (size_t h = 0; h < width.heads; h++)
        AVX2_UNROLL
    for (size_t v = 0; v < width.vectors; v++)
        _mm256_store_ps(heads->out + h * stride + d + 8 * v, out[h][v]);
}

/* Eight rows of eight become eight columns. */
AVX2_INLINE void transpose_rows(__m256 row[8]) {
    __m256 pair[8], quad[8];
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i += 4)
        AVX2_UNROLL
    for (size_t j = 0; j < 2; j++) {
        quad[i + 2 * j] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0x44);
        quad[i + 2 * j + 1] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0xEE);
    }
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        row[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
        row[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
    }
}

/* add_values for 8 outputs where keys serve as values: positions run fastest there, so the 8 x 16
 * numbers are turned first. */
AVX2_INLINE void add_shared_values(struct heads *heads, const struct page *pages, size_t len,
                                   size_t d, size_t count, enum kv_dtype dtype) {
    size_t value_dim = heads->task->args->kv->value_dim, stride = (value_dim + 7) / 8 * 8;
    _Alignas(32) float turned[SL_PAGE_TOKENS][8];
    __m256 out[GROUP_MAX];
    AVX2_UNROLL
    for (size_t h = 0; h < count; h++)
        out[h] = _mm256_load_ps(heads->out + h * stride + d);
    for (const struct page *page = pages; page < pages + len; page++) {
        for (size_t half = 0; half < SL_PAGE_TOKENS; half += 8) {
            __m256 row[8];
            AVX2_UNROLL
            for (size_t i = 0; i < 8; i++)
                row[i] = load_elements(page->keys, (d + i) * SL_PAGE_TOKENS + half, dtype);
            transpose_rows(row);
            AVX2_UNROLL
            for (size_t i = 0; i < 8; i++)
                _mm256_store_ps(turned[half + i], row[i]);
        }
        AVX2_UNROLL
        for (size_t h = 0; h < count; h++)
            out[h] = _mm256_mul_ps(out[h], _mm256_broadcast_ss(&page->shrink[h]));
        for (size_t slot = page->from; slot < page->to; slot++) {
            __m256 value = _mm256_load_ps(turned[slot]);
            AVX2_UNROLL
            for (size_t h = 0; h < count; h++)
                out[h] =
                    _mm256_fmadd_ps(_mm256_broadcast_ss(&page->shares[h][slot]), value, out[h]);
        }
    }
    AVX2_UNROLL
    for (size_t h = 0; h < count; h++)
        _mm256_store_ps(heads->out + h * stride + d, out[h]);
}

/* The outputs past the last multiple of 8, one by one. */
AVX2_INLINE void add_last_values(struct heads *heads, const struct page *page, size_t h,
                                 enum kv_dtype dtype) {
    const struct kv_layer *kv = heads->task->args->kv;
    size_t value_dim = kv->value_dim, stride = (value_dim + 7) / 8 * 8;
    const uint8_t *values = kv->shares_values ? page->keys : page->values;
    for (size_t d = value_dim / 8 * 8; d < value_dim; d++) {
        float *out = heads->out + h * stride + d;
        *out *= page->shrink[h];
        for (size_t slot = page->from; slot < page->to; slot++) {
            size_t at = kv->shares_values ? d * SL_PAGE_TOKENS + slot : slot * value_dim + d;
            *out = num_fma(page->shares[h][slot], load_element(values, at, dtype), *out);
        }
    }
}

/* A batch of len pages. What follows them in the array is scored and forgotten. */
AVX2_INLINE void attend_batch(struct heads *heads, struct page *pages, size_t len, size_t count,
                              enum kv_dtype dtype) {
    size_t value_dim = heads->task->args->kv->value_dim, d = 0;
    size_t vectors = count == 1 ? VECTORS_MAX : count == 2 ? 4 : 2;
    score_pages(heads, pages, len, count, dtype);
    for (size_t p = 0; p < len; p++)
        for (size_t h = 0; h < count; h++)
            soften(heads, &pages[p], h);
    for (; heads->task->args->kv->shares_values && d + 8 <= value_dim; d += 8)
        add_shared_values(heads, pages, len, d, count, dtype);
    for (; d + 8 * vectors <= value_dim; d += 8 * vectors)
        add_values(heads, pages, len, d, (struct width){count, vectors}, dtype);
    for (; d + 8 <= value_dim; d += 8)
        add_values(heads, pages, len, d, (struct width){count, 1}, dtype);
    for (size_t p = 0; d < value_dim && p < len; p++)
        for (size_t h = 0; h < count; h++)
            add_last_values(heads, &pages[p], h, dtype);
}

#define ATTEND_BATCH(COUNT)                                                                        \
    AVX2 static void bf16_##COUNT(struct heads *heads, struct page *pages, size_t len) {           \
        attend_batch(heads, pages, len, COUNT, KV_BF16);                                           \
    }                                                                                              \
    AVX2 static void f32_##COUNT(struct heads *heads, struct page *pages, size_t len) {            \
        attend_batch(heads, pages, len, COUNT, KV_F32);                                            \
    }
ATTEND_BATCH(1)
ATTEND_BATCH(2)
ATTEND_BATCH(3)
ATTEND_BATCH(4)

/* By KV format and number of heads. */
static void (*const attend_batch_of[2][GROUP_MAX + 1])(struct heads *, struct page *, size_t) = {
    [KV_BF16] = {NULL, bf16_1, bf16_2, bf16_3, bf16_4},
    [KV_F32] = {NULL, f32_1, f32_2, f32_3, f32_4},
};

/* What a token sees of its row: pages [first, last], from position `oldest` to its own. */
struct span {
    const struct kv_token *token;
    size_t oldest, first, last;
};

static struct span span_of(const struct attention_args *args, size_t token) {
    size_t position = args->tokens[token].position, window = args->window;
    size_t oldest = window != 0 && position >= window ? position - window + 1 : 0;
    return (struct span){
        .token = &args->tokens[token],
        .oldest = oldest,
        .first = oldest / SL_PAGE_TOKENS,
        .last = position / SL_PAGE_TOKENS,
    };
}

/* Where the parts of a key/value head lie in a page. */
struct offsets {
    size_t keys, values; /* bytes */
};

static struct offsets offsets_of(const struct kv_layer *kv, size_t kv_head) {
    size_t element = kv_value_bytes(kv->dtype);
    size_t key_bytes = kv->head_dim * SL_PAGE_TOKENS * element;
    size_t value_bytes = kv->value_dim * SL_PAGE_TOKENS * element;
    if (kv->shares_values)
        return (struct offsets){kv_head * key_bytes, kv_head * key_bytes};
    return (struct offsets){kv_head * key_bytes, kv->kv_heads * key_bytes + kv_head * value_bytes};
}

/* Page `number` of the span. The one to ask for is `ahead` further, in the next token's span if
 * this one ends before; when that has ended too, it is the page itself. */
static struct page page_of(const struct kv_layer *kv, const struct span *span,
                           const struct span *after, size_t number, struct offsets offsets) {
    const uint32_t *pages = kv_pages(kv, span->token);
    size_t start = number * SL_PAGE_TOKENS, position = span->token->position;
    size_t later = number + BATCH_MAX, later_page = pages[number];
    if (later <= span->last)
        later_page = pages[later];
    else if (after->first + (later - span->last - 1) <= after->last)
        later_page = kv_pages(kv, after->token)[after->first + (later - span->last - 1)];
    const uint8_t *base = kv->base + pages[number] * kv->page_bytes;
    const uint8_t *later_base = kv->base + later_page * kv->page_bytes;
    return (struct page){
        .keys = base + offsets.keys,
        .values = base + offsets.values,
        .later_keys = later_base + offsets.keys,
        .later_values = later_base + offsets.values,
        .from = span->oldest > start ? span->oldest - start : 0,
        .to = position - start < SL_PAGE_TOKENS ? position - start + 1 : SL_PAGE_TOKENS,
    };
}

static void walk_pages(struct heads *heads, size_t kv_head) {
    const struct attention_args *args = heads->task->args;
    const struct kv_layer *kv = args->kv;
    struct offsets offsets = offsets_of(kv, kv_head);
    struct span span = span_of(args, heads->token);
    struct span after = span_of(args, heads->token + (heads->token + 1 < heads->task->q->tokens));
    for (size_t first = span.first; first <= span.last; first += BATCH_MAX) {
        struct page pages[BATCH_MAX];
        size_t len = span.last - first + 1 < BATCH_MAX ? span.last - first + 1 : BATCH_MAX;
        for (size_t p = 0; p < BATCH_MAX; p++) { /* the last page again where there is none */
            pages[p] = page_of(kv, &span, &after, p < len ? first + p : span.last, offsets);
            pages[p].shares = heads->shares[p];
        }
        attend_batch_of[kv->dtype][heads->count](heads, pages, len);
    }
}

/* Takes the queries of the heads out of their lane and begins the softmax. */
AVX2 static void begin_heads(struct heads *heads) {
    const struct kv_layer *kv = heads->task->args->kv;
    const float *sinks = heads->task->args->sinks;
    size_t stride = ((size_t)kv->value_dim + 7) / 8 * 8;
    for (size_t h = 0; h < heads->count; h++) {
        const float *query =
            act_at(heads->task->q, (heads->first + h) * kv->head_dim, heads->token);
        for (size_t d = 0; d < kv->head_dim; d++)
            heads->query[d * GROUP_MAX + h] = query[d * SL_LANES];
        heads->largest[h] = sinks != NULL ? sinks[heads->first + h] : -INFINITY;
    }
    memset(heads->out, 0, heads->count * stride * sizeof(float));
    memset(heads->sums, 0, sizeof heads->sums);
}

/* Divides by the sum of shares and puts the outputs into their lane. */
AVX2 static void end_heads(struct heads *heads) {
    size_t value_dim = heads->task->args->kv->value_dim, stride = (value_dim + 7) / 8 * 8;
    const float *sinks = heads->task->args->sinks;
    for (size_t h = 0; h < heads->count; h++) {
        float *to = act_at(heads->task->out, (heads->first + h) * value_dim, heads->token);
        float sum = 0.0f, *out = heads->out + h * stride;
        for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
            sum += heads->sums[h][slot];
        if (sinks != NULL)
            sum += num_exp(sinks[heads->first + h] - heads->largest[h]);
        for (size_t d = 0; d < stride; d += 8)
            _mm256_store_ps(out + d, _mm256_div_ps(_mm256_load_ps(out + d), _mm256_set1_ps(sum)));
        for (size_t d = 0; d < value_dim; d++)
            to[d * SL_LANES] = out[d];
    }
}

_Static_assert(2 * GROUP_MAX * SL_HEAD_DIM_MAX <= CPU_SCRATCH_FLOATS, "query and out in scratch");

void avx2_attend(const struct cpu_attention *task, size_t token, size_t kv_head, float *scratch) {
    size_t group = task->args->heads / task->args->kv->kv_heads;
    struct heads heads = {
        .task = task,
        .token = token,
        .query = scratch,
        .out = scratch + GROUP_MAX * SL_HEAD_DIM_MAX,
    };
    for (size_t done = 0; done < group; done += GROUP_MAX) {
        heads.first = kv_head * group + done;
        heads.count = group - done < GROUP_MAX ? group - done : GROUP_MAX;
        begin_heads(&heads);
        walk_pages(&heads, kv_head);
        end_heads(&heads);
    }
}

#endif
