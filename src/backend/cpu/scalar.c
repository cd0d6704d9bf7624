/* The reference: every operation in plain C, one number after the other, in the orders that
 * backend.h promises. It shares no code with the vector kernels where orders of summing are decided
 * (products, attention); all other sets must agree with it bit for bit. It is not meant to be fast:
 * without FMA instructions in the compiled code, fused multiply-adds are calls to libm, which
 * rounds them correctly. Only the chains of products are compiled for FMA too, so that whole models
 * can be run through it. */
#include "backend/cpu/delta.h"

#define LANES_TARGET
#include "backend/cpu/lanes.h"

static bool scalar_is_available(void) {
    return true;
}

/* The chains of the tokens of one tile, each over the columns in order: w[len] times x, in which
 * the tokens of a column lie side by side. */
__attribute__((always_inline)) static inline void sum_chains(const float *w, const float *x,
                                                             size_t len, float *chains) {
    float sums[SL_LANES] = {0};
    for (size_t k = 0; k < len; k++)
        for (size_t token = 0; token < SL_LANES; token++)
            sums[token] = num_fma(w[k], x[k * SL_LANES + token], sums[token]);
    memcpy(chains, sums, sizeof sums);
}

static void chains_plain(const float *w, const float *x, size_t len, float *chains) {
    sum_chains(w, x, len, chains);
}

#if defined __x86_64__
/* The same code, with FMA instructions in the place of calls. */
__attribute__((target("fma"))) static void chains_fma(const float *w, const float *x, size_t len,
                                                      float *chains) {
    sum_chains(w, x, len, chains);
}
#endif

typedef void chains_function(const float *w, const float *x, size_t len, float *chains);

static chains_function *chains_of_processor(void) {
#if defined __x86_64__
    if (__builtin_cpu_supports("fma"))
        return chains_fma;
#endif
    return chains_plain;
}

static void scalar_product(const struct cpu_product *task, size_t first, size_t count,
                           float *scratch) {
    const struct view *w = task->w;
    chains_function *sum = chains_of_processor();
    for (size_t row = first; row < first + count; row++) {
        for (size_t column = 0; column < w->columns; column += SL_CHAIN) {
            size_t len = w->columns - column < SL_CHAIN ? w->columns - column : SL_CHAIN;
            view_decode(w, row, column, len, scratch);
            for (size_t token = 0; token < task->x->tokens; token += SL_LANES) {
                float chains[SL_LANES];
                sum(scratch, act_at(task->x, column, token), len, chains);
                for (size_t i = 0; i < SL_LANES && token + i < task->x->tokens; i++) {
                    float *y = act_at(task->y, task->first_row + row, token + i);
                    *y = column == 0 ? chains[i] : *y + chains[i];
                }
            }
        }
    }
}

/* An element of the keys or values of a page. */
static float page_element(const struct kv_layer *kv, const uint8_t *at, size_t index) {
    if (kv->dtype == KV_F32) {
        float value;
        memcpy(&value, at + 4 * index, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, at + 2 * index, sizeof bits);
    return num_from_bf16(bits);
}

/* scale times the chain of query times key over head_dim, capped. */
static float score_of(const struct cpu_attention *task, size_t token, size_t head,
                      const uint8_t *keys, size_t slot) {
    const struct kv_layer *kv = task->args->kv;
    float total = 0.0f;
    for (size_t first = 0; first < kv->head_dim; first += SL_CHAIN) {
        size_t end = kv->head_dim - first < SL_CHAIN ? kv->head_dim : first + SL_CHAIN;
        float chain = 0.0f;
        for (size_t d = first; d < end; d++)
            chain = num_fma(*act_at(task->q, head * kv->head_dim + d, token),
                            page_element(kv, keys, d * SL_PAGE_TOKENS + slot), chain);
        total = first == 0 ? chain : total + chain;
    }
    total *= task->args->scale;
    return task->args->cap != 0.0f ? num_cap(total, task->args->cap) : total;
}

/* The positions of one page that a token sees, and where its keys and values lie. */
struct scalar_page {
    const uint8_t *keys, *values; /* of the key/value head */
    size_t from, to;              /* slots */
};

static struct scalar_page page_of(const struct attention_args *args, size_t token, size_t kv_head,
                                  size_t page) {
    const struct kv_layer *kv = args->kv;
    size_t element = kv_value_bytes(kv->dtype), position = args->tokens[token].position;
    size_t oldest = attention_oldest(args, token);
    size_t start = page * SL_PAGE_TOKENS; /* position of slot 0 */
    const uint8_t *base = kv->base + kv_pages(kv, &args->tokens[token])[page] * kv->page_bytes;
    return (struct scalar_page){
        .keys = base + kv_head * kv->head_dim * SL_PAGE_TOKENS * element,
        .values = base + kv->kv_heads * kv->head_dim * SL_PAGE_TOKENS * element +
                  kv_head * kv->value_dim * SL_PAGE_TOKENS * element,
        .from = oldest > start ? oldest - start : 0,
        .to = position - start < SL_PAGE_TOKENS ? position - start + 1 : SL_PAGE_TOKENS,
    };
}

/* Feature d of the value in a slot. */
static float value_of(const struct kv_layer *kv, const struct scalar_page *page, size_t slot,
                      size_t d) {
    if (kv->shares_values)
        return page_element(kv, page->keys, d * SL_PAGE_TOKENS + slot);
    return page_element(kv, page->values, slot * kv->value_dim + d);
}

static void attend_head(const struct cpu_attention *task, size_t token, size_t head, float *out) {
    const struct attention_args *args = task->args;
    const struct kv_layer *kv = args->kv;
    size_t last = args->tokens[token].position / SL_PAGE_TOKENS, value_dim = kv->value_dim;
    float sink = args->sinks != NULL ? args->sinks[head] : -INFINITY;
    float largest = sink, sums[SL_PAGE_TOKENS] = {0}, sum = 0.0f;
    for (size_t d = 0; d < value_dim; d++)
        out[d] = 0.0f;
    for (size_t number = attention_oldest(args, token) / SL_PAGE_TOKENS; number <= last; number++) {
        struct scalar_page page = page_of(args, token, head / (args->heads / kv->kv_heads), number);
        float scores[SL_PAGE_TOKENS], old = largest;
        for (size_t slot = page.from; slot < page.to; slot++) {
            scores[slot] = score_of(task, token, head, page.keys, slot);
            largest = scores[slot] > largest ? scores[slot] : largest;
        }
        float shrink = largest > old ? num_exp(old - largest) : 1.0f;
        for (size_t d = 0; d < value_dim; d++)
            out[d] *= shrink;
        for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++) {
            bool is_seen = slot >= page.from && slot < page.to;
            float share = is_seen ? num_exp(scores[slot] - largest) : 0.0f;
            sums[slot] = num_fma(sums[slot], shrink, share);
            for (size_t d = 0; is_seen && d < value_dim; d++)
                out[d] = num_fma(share, value_of(kv, &page, slot, d), out[d]);
        }
    }
    for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
        sum += sums[slot];
    if (args->sinks != NULL)
        sum += num_exp(sink - largest);
    for (size_t d = 0; d < value_dim; d++)
        *act_at(task->out, head * value_dim + d, token) = out[d] / sum;
}

static void scalar_attend(const struct cpu_attention *task, struct cpu_heads heads,
                          float *scratch) {
    size_t group = task->args->heads / task->args->kv->kv_heads;
    for (size_t token = heads.token; token < heads.token + heads.tokens; token++)
        for (size_t head = heads.kv_head * group; head < (heads.kv_head + 1) * group; head++)
            attend_head(task, token, head, scratch);
}

const struct cpu_kernels cpu_kernels_scalar = {
    .isa = "scalar",
    .is_available = scalar_is_available,
    .product = scalar_product,
    .attend = scalar_attend,
    .delta = scalar_delta,
    LANES_OPERATIONS,
};
