/* The arithmetic of attention over vectors of 16 floats, written once and compiled for each vector
 * set (attend.h has what goes around it).
 *
 * The file that includes this defines
 *   ATTEND_TARGET, ATTEND_INLINE  the attributes of its set, plain and for inlining
 *   ATTEND_UNROLL                 before a loop whose count is a constant
 *   ATTEND_TURN                   the function that turns keys into values (avx2.h)
 *   ATTEND_CHUNK                  queries that are computed at once, 4 to 8
 *   ATTEND_CHAINS                 vectors of 16 that find room in registers as accumulators
 *   struct lanes                  16 floats, and lanes_zero, lanes_load, lanes_store (aligned to
 *                                 64), lanes_load_any, lanes_of (one float in all), lanes_fma,
 *                                 lanes_mul, lanes_add, lanes_widen (16 bf16), lanes_keep (zero
 *                                 outside slots from .. to) and lanes_largest (of those slots)
 *
 * Scores of a page are 16 lanes, one for each of its positions; slots that a query does not see
 * become minus infinity before the maximum is taken (what lies there is garbage), and their values
 * are never used. Sums of shares and of values run in the order of positions. */
#ifndef SLUICE_BACKEND_CPU_ATTEND_LANES_H
#define SLUICE_BACKEND_CPU_ATTEND_LANES_H

#include "backend/cpu/attend.h"
#include "base/num.h"

/* Some queries of all, constants but for first, and pages side by side. */
struct chunk {
    size_t first, count, beside;
};

/* Where sixteen neighbouring outputs of a value come from. */
enum source { SOURCE_BF16, SOURCE_F32, SOURCE_STAGED };

ATTEND_INLINE struct lanes load_keys(const uint8_t *base, size_t index, enum source source) {
    if (source == SOURCE_BF16)
        return lanes_widen(base + 2 * index);
    return lanes_load_any((const float *)(const void *)(base + 4 * index));
}

/* Adds the chains of query x key over [d, end) of head_dim to the scores of some pages, or begins
 * them. */
ATTEND_INLINE void score_block(const struct attend *attend, struct attend_page *pages,
                               struct chunk chunk, size_t d, size_t end, enum source source) {
    struct lanes chain[ATTEND_PAGES][ATTEND_CHUNK];
    const float *query = attend->queries + d * attend->width + chunk.first;
    bool is_first = d == 0;
    ATTEND_UNROLL
    for (size_t p = 0; p < chunk.beside; p++)
        ATTEND_UNROLL
    for (size_t q = 0; q < chunk.count; q++)
        chain[p][q] = lanes_zero();
    for (; d < end; d++, query += attend->width) {
        size_t at = d * SL_PAGE_TOKENS;
        ATTEND_UNROLL
        for (size_t p = 0; p < chunk.beside; p++) {
            if (chunk.first == 0)
                __builtin_prefetch(pages[p].later_keys + at * (source == SOURCE_BF16 ? 2 : 4), 0,
                                   1);
            struct lanes keys = load_keys(pages[p].keys, at, source);
            ATTEND_UNROLL
            for (size_t q = 0; q < chunk.count; q++)
                chain[p][q] = lanes_fma(lanes_of(query[q]), keys, chain[p][q]);
        }
    }
    ATTEND_UNROLL
    for (size_t p = 0; p < chunk.beside; p++)
        ATTEND_UNROLL
    for (size_t q = 0; q < chunk.count; q++) {
        float *scores = pages[p].shares[chunk.first + q];
        struct lanes before = is_first ? lanes_zero() : lanes_load(scores);
        lanes_store(scores, is_first ? chain[p][q] : lanes_add(before, chain[p][q]));
    }
}

ATTEND_INLINE void score_chunk(const struct attend *attend, struct attend_page *pages, size_t len,
                               struct chunk chunk, enum source source) {
    size_t head_dim = attend->task->args->kv->head_dim;
    for (size_t p = 0; p < len; p += chunk.beside)
        for (size_t d = 0; d < head_dim; d += SL_CHAIN)
            score_block(attend, pages + p, chunk, d,
                        head_dim - d < SL_CHAIN ? head_dim : d + SL_CHAIN, source);
}

/* Scales and caps the scores of a page and brings the maxima up to date. */
ATTEND_INLINE void find_largest(struct attend *attend, struct attend_page *page,
                                float change[ATTEND_QUERIES]) {
    const struct attention_args *args = attend->task->args;
    struct lanes scale = lanes_of(args->scale);
    for (size_t q = 0; q < attend->count; q++) {
        const struct attend_query *query = &attend->query[q];
        float *scores = page->shares[q], old = attend->largest[q];
        lanes_store(scores, lanes_mul(lanes_load(scores), scale));
        if (args->cap != 0.0f)
            for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
                scores[slot] = num_cap(scores[slot], args->cap);
        float largest =
            lanes_largest(lanes_load(scores), attend_from(query, page), attend_to(query, page));
        attend->largest[q] = largest > old ? largest : old;
        change[q] = old - attend->largest[q];
    }
}

/* Turns the scores of a page into shares and brings maxima and sums up to date. */
ATTEND_INLINE void soften(struct attend *attend, struct attend_page *page) {
    _Alignas(64) float change[ATTEND_QUERIES] = {0};
    find_largest(attend, page, change);
    for (size_t q = 0; q < ATTEND_QUERIES; q++) /* not below 0: the maximum stayed, or NaN */
        page->shrink[q] = num_select(change[q] < 0.0f, num_exp(change[q]), 1.0f);
    for (size_t q = 0; q < attend->count; q++) {
        const struct attend_query *query = &attend->query[q];
        float *shares = page->shares[q], *sums = attend->sums[q], largest = attend->largest[q];
        for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
            shares[slot] = num_exp(shares[slot] - largest);
        struct lanes seen =
            lanes_keep(lanes_load(shares), attend_from(query, page), attend_to(query, page));
        lanes_store(shares, seen);
        lanes_store(sums, lanes_fma(lanes_load(sums), lanes_of(page->shrink[q]), seen));
    }
}

/* Pages first .. end of a batch, for outputs d .. end_d of `chunk`. */
struct part {
    const struct attend_page *pages;
    size_t first, end; /* of them */
    size_t d, end_d;
};

/* Adds shares x values of the part's pages to outputs d .. d + 16 x vectors, a constant. */
ATTEND_INLINE void add_block(struct attend *attend, struct chunk chunk, const struct part *part,
                             size_t d, size_t vectors, enum source source) {
    size_t stride = attend->task->args->kv->value_dim;
    struct lanes sum[ATTEND_CHUNK][ATTEND_CHAINS];
    float *out = attend->out + chunk.first * attend->out_stride + d;
    ATTEND_UNROLL
    for (size_t q = 0; q < chunk.count; q++)
        ATTEND_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sum[q][v] = lanes_load(out + q * attend->out_stride + v * SL_LANES);
    for (size_t p = part->first; p < part->end; p++) {
        const struct attend_page *page = &part->pages[p];
        const struct attend_query *query = &attend->query[chunk.first];
        size_t from = page->is_same ? page->from : attend_from(query, page);
        size_t to = page->is_same ? page->to : attend_to(query, page);
        ATTEND_UNROLL
        for (size_t q = 0; q < chunk.count; q++)
            ATTEND_UNROLL
        for (size_t v = 0; v < vectors; v++)
            sum[q][v] = lanes_mul(sum[q][v], lanes_of(page->shrink[chunk.first + q]));
        for (size_t slot = from; slot < to; slot++) {
            size_t at = slot * stride + d;
            const float *shares = &page->shares[chunk.first][slot];
            ATTEND_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                struct lanes value;
                if (source == SOURCE_STAGED)
                    value = lanes_load(attend->staged[p][slot]);
                else
                    value = load_keys(page->values, at + v * SL_LANES, source);
                if (source != SOURCE_STAGED && chunk.first == 0)
                    __builtin_prefetch(page->later_values +
                                           (at + v * SL_LANES) * (source == SOURCE_BF16 ? 2 : 4),
                                       0, 1);
                ATTEND_UNROLL
                for (size_t q = 0; q < chunk.count; q++)
                    sum[q][v] = lanes_fma(lanes_of(shares[q * SL_PAGE_TOKENS]), value, sum[q][v]);
            }
        }
    }
    ATTEND_UNROLL
    for (size_t q = 0; q < chunk.count; q++)
        ATTEND_UNROLL
    for (size_t v = 0; v < vectors; v++)
        lanes_store(out + q * attend->out_stride + v * SL_LANES, sum[q][v]);
}

/* As many vectors at once as there are registers for, then one by one. */
ATTEND_INLINE void add_chunk(struct attend *attend, struct chunk chunk, const struct part *part,
                             enum source source) {
    size_t vectors = ATTEND_CHAINS / chunk.count, d = part->d;
    vectors = source == SOURCE_STAGED || vectors == 0 ? 1 : vectors > 4 ? 4 : vectors;
    for (; d + vectors * SL_LANES <= part->end_d; d += vectors * SL_LANES)
        add_block(attend, chunk, part, d, vectors, source);
    for (; vectors > 1 && d < part->end_d; d += SL_LANES)
        add_block(attend, chunk, part, d, 1, source);
}

typedef void score_function(const struct attend *, struct attend_page *, size_t len, size_t first);
typedef void add_function(struct attend *, const struct part *, size_t first);

/* Pages scored side by side: enough chains for two units of latency four. */
#define BESIDE(COUNT) (ATTEND_CHAINS / (COUNT) >= 4 ? 4 : ATTEND_CHAINS / (COUNT) >= 2 ? 2 : 1)
#define CHUNK_OF(COUNT)                                                                            \
    ATTEND_TARGET static void score_bf16_##COUNT(                                                  \
        const struct attend *attend, struct attend_page *pages, size_t len, size_t first) {        \
        score_chunk(attend, pages, len, (struct chunk){first, COUNT, BESIDE(COUNT)}, SOURCE_BF16); \
    }                                                                                              \
    ATTEND_TARGET static void score_f32_##COUNT(                                                   \
        const struct attend *attend, struct attend_page *pages, size_t len, size_t first) {        \
        score_chunk(attend, pages, len, (struct chunk){first, COUNT, BESIDE(COUNT)}, SOURCE_F32);  \
    }                                                                                              \
    ATTEND_TARGET static void add_bf16_##COUNT(struct attend *attend, const struct part *part,     \
                                               size_t first) {                                     \
        add_chunk(attend, (struct chunk){first, COUNT, 1}, part, SOURCE_BF16);                     \
    }                                                                                              \
    ATTEND_TARGET static void add_f32_##COUNT(struct attend *attend, const struct part *part,      \
                                              size_t first) {                                      \
        add_chunk(attend, (struct chunk){first, COUNT, 1}, part, SOURCE_F32);                      \
    }                                                                                              \
    ATTEND_TARGET static void add_staged_##COUNT(struct attend *attend, const struct part *part,   \
                                                 size_t first) {                                   \
        add_chunk(attend, (struct chunk){first, COUNT, 1}, part, SOURCE_STAGED);                   \
    }
CHUNK_OF(1)
CHUNK_OF(2)
CHUNK_OF(3)
CHUNK_OF(4)
#if ATTEND_CHUNK > 4
CHUNK_OF(5)
CHUNK_OF(6)
#endif
#if ATTEND_CHUNK > 6
CHUNK_OF(7)
CHUNK_OF(8)
#endif

#if ATTEND_CHUNK > 6
#define ALL_CHUNKS(NAME)                                                                           \
    { NAME##_1, NAME##_2, NAME##_3, NAME##_4, NAME##_5, NAME##_6, NAME##_7, NAME##_8 }
#elif ATTEND_CHUNK > 4
#define ALL_CHUNKS(NAME)                                                                           \
    { NAME##_1, NAME##_2, NAME##_3, NAME##_4, NAME##_5, NAME##_6 }
#else
#define ALL_CHUNKS(NAME)                                                                           \
    { NAME##_1, NAME##_2, NAME##_3, NAME##_4 }
#endif

/* By source and number of queries - 1. */
static score_function *const score_of[2][ATTEND_CHUNK] = {ALL_CHUNKS(score_bf16),
                                                          ALL_CHUNKS(score_f32)};
static add_function *const add_of[3][ATTEND_CHUNK] = {ALL_CHUNKS(add_bf16), ALL_CHUNKS(add_f32),
                                                      ALL_CHUNKS(add_staged)};

/* Queries of the next chunk: the rest in even shares. */
static size_t chunk_count(size_t rest) {
    size_t chunks = size_divide_up(rest, ATTEND_CHUNK);
    return size_divide_up(rest, chunks);
}

/* Adds values to all queries: together over pages of which all see the same slots, one by one over
 * the others. Pages stay in order. */
static void add_values(struct attend *attend, struct part part, size_t len, enum source source) {
    for (part.first = 0; part.first < len; part.first = part.end) {
        bool is_same = part.pages[part.first].is_same;
        part.end = part.first + 1;
        while (is_same && part.end < len && part.pages[part.end].is_same)
            part.end++;
        for (size_t q = 0, count; q < attend->count; q += count) {
            count = is_same ? chunk_count(attend->count - q) : 1;
            add_of[source][count - 1](attend, &part, q);
        }
    }
}

/* Brings sixteen outputs of the values of a batch, or the last few, into attend->staged. */
ATTEND_TARGET static void stage_values(struct attend *attend, const struct attend_page *pages,
                                       size_t len, size_t d) {
    const struct kv_layer *kv = attend->task->args->kv;
    size_t value_dim = kv->value_dim, count = value_dim - d < SL_LANES ? value_dim - d : SL_LANES;
    enum source source = kv->dtype == KV_BF16 ? SOURCE_BF16 : SOURCE_F32;
    if (count < SL_LANES)
        memset(attend->staged, 0, sizeof attend->staged);
    for (size_t p = 0; p < len; p++) {
        if (kv->shares_values && count == SL_LANES) {
            ATTEND_TURN(pages[p].keys, d, kv->dtype, attend->staged[p]);
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            _Alignas(64) float feature[SL_PAGE_TOKENS];
            if (kv->shares_values)
                lanes_store(feature, load_keys(pages[p].keys, (d + i) * SL_PAGE_TOKENS, source));
            for (size_t slot = pages[p].from; slot < pages[p].to; slot++)
                attend->staged[p][slot][i] =
                    kv->shares_values
                        ? feature[slot]
                        : attend_element(pages[p].values, slot * value_dim + d + i, kv->dtype);
        }
    }
}

ATTEND_TARGET static void attend_lanes(struct attend *attend, struct attend_page *pages,
                                       size_t len) {
    const struct kv_layer *kv = attend->task->args->kv;
    enum source source = kv->dtype == KV_BF16 ? SOURCE_BF16 : SOURCE_F32;
    size_t whole = kv->shares_values ? 0 : kv->value_dim / SL_LANES * SL_LANES;
    for (size_t q = 0, count; q < attend->count; q += count) {
        count = chunk_count(attend->count - q);
        score_of[source][count - 1](attend, pages, len, q);
    }
    for (size_t p = 0; p < len; p++)
        soften(attend, &pages[p]);
    if (whole > 0)
        add_values(attend, (struct part){.pages = pages, .end_d = whole}, len, source);
    for (size_t d = whole; d < kv->value_dim; d += SL_LANES) {
        stage_values(attend, pages, len, d);
        add_values(attend, (struct part){.pages = pages, .d = d, .end_d = d + SL_LANES}, len,
                   SOURCE_STAGED);
    }
}

#endif
