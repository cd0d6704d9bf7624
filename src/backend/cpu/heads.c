/* What attention does beside arithmetic in every vector set: which pages a token sees and in which
 * batches, queries out of their lane and outputs back into it. */
#include "backend/cpu/heads.h"

#include "base/num.h"

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

/* Page `number` of the span. The one to ask for is HEADS_BATCH further, in the next token's span if
 * this one ends before; when that has ended too, it is the page itself. */
static struct heads_page page_of(const struct kv_layer *kv, const struct span *span,
                                 const struct span *after, size_t number, struct offsets offsets) {
    const uint32_t *pages = kv_pages(kv, span->token);
    size_t start = number * SL_PAGE_TOKENS, position = span->token->position;
    size_t later = number + HEADS_BATCH, later_page = pages[number];
    if (later <= span->last)
        later_page = pages[later];
    else if (after->first + (later - span->last - 1) <= after->last)
        later_page = kv_pages(kv, after->token)[after->first + (later - span->last - 1)];
    const uint8_t *base = kv->base + pages[number] * kv->page_bytes;
    const uint8_t *later_base = kv->base + later_page * kv->page_bytes;
    return (struct heads_page){
        .keys = base + offsets.keys,
        .values = base + offsets.values,
        .later_keys = later_base + offsets.keys,
        .later_values = later_base + offsets.values,
        .from = span->oldest > start ? span->oldest - start : 0,
        .to = position - start < SL_PAGE_TOKENS ? position - start + 1 : SL_PAGE_TOKENS,
    };
}

static void walk_pages(const struct heads_set *set, struct heads *heads, size_t kv_head) {
    const struct attention_args *args = heads->task->args;
    const struct kv_layer *kv = args->kv;
    struct offsets offsets = offsets_of(kv, kv_head);
    struct span span = span_of(args, heads->token);
    struct span after = span_of(args, heads->token + (heads->token + 1 < heads->task->q->tokens));
    for (size_t first = span.first; first <= span.last; first += HEADS_BATCH) {
        struct heads_page pages[HEADS_BATCH];
        size_t len = span.last - first + 1 < HEADS_BATCH ? span.last - first + 1 : HEADS_BATCH;
        for (size_t p = 0; p < HEADS_BATCH; p++) { /* the last page again where there is none */
            pages[p] = page_of(kv, &span, &after, p < len ? first + p : span.last, offsets);
            pages[p].shares = heads->shares[p];
        }
        set->attend[kv->dtype][heads->count](heads, pages, len);
    }
}

/* Takes the queries of the heads out of their lane and begins the softmax. */
static void begin_heads(struct heads *heads) {
    const struct kv_layer *kv = heads->task->args->kv;
    const float *sinks = heads->task->args->sinks;
    for (size_t h = 0; h < heads->count; h++) {
        const float *query =
            act_at(heads->task->q, (heads->first + h) * kv->head_dim, heads->token);
        for (size_t d = 0; d < kv->head_dim; d++)
            heads->query[d * HEADS_MAX + h] = query[d * SL_LANES];
        heads->largest[h] = sinks != NULL ? sinks[heads->first + h] : -INFINITY;
    }
    memset(heads->out, 0, heads->count * heads->out_stride * sizeof(float));
    memset(heads->sums, 0, sizeof heads->sums);
}

/* Divides by the sum of shares and puts the outputs into their lane. */
static void end_heads(struct heads *heads) {
    size_t value_dim = heads->task->args->kv->value_dim;
    const float *sinks = heads->task->args->sinks;
    for (size_t h = 0; h < heads->count; h++) {
        float *to = act_at(heads->task->out, (heads->first + h) * value_dim, heads->token);
        float sum = 0.0f, *out = heads->out + h * heads->out_stride;
        for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
            sum += heads->sums[h][slot];
        if (sinks != NULL)
            sum += num_exp(sinks[heads->first + h] - heads->largest[h]);
        for (size_t d = 0; d < heads->out_stride; d++)
            out[d] /= sum;
        for (size_t d = 0; d < value_dim; d++)
            to[d * SL_LANES] = out[d];
    }
}

_Static_assert(2 * HEADS_MAX * SL_HEAD_DIM_MAX <= CPU_SCRATCH_FLOATS, "query and out in scratch");
_Static_assert(SL_HEAD_DIM_MAX % SL_LANES == 0, "room for out_stride");

void heads_attend(const struct heads_set *set, const struct cpu_attention *task, size_t token,
                  size_t kv_head, float *scratch) {
    size_t group = task->args->heads / task->args->kv->kv_heads;
    struct heads heads = {
        .task = task,
        .token = token,
        .out_stride = (task->args->kv->value_dim + SL_LANES - 1) / SL_LANES * SL_LANES,
        .query = scratch,
        .out = scratch + HEADS_MAX * SL_HEAD_DIM_MAX,
    };
    for (size_t done = 0; done < group; done += HEADS_MAX) {
        heads.first = kv_head * group + done;
        heads.count = group - done < HEADS_MAX ? group - done : HEADS_MAX;
        begin_heads(&heads);
        walk_pages(set, &heads, kv_head);
        end_heads(&heads);
    }
}
