/* What attention does beside arithmetic in every vector set: which queries go together, which pages
 * they see and in which batches, queries out of their lanes and outputs back into them. */
#include "backend/cpu/attend.h"

#include "base/mem.h"
#include "base/num.h"

/* Where the parts of a key/value head lie in a page. */
static void find_head(struct attend *attend, size_t kv_head) {
    const struct kv_layer *kv = attend->task->args->kv;
    size_t element = kv_value_bytes(kv->dtype);
    size_t key_bytes = kv->head_dim * SL_PAGE_TOKENS * element;
    size_t value_bytes = kv->value_dim * SL_PAGE_TOKENS * element;
    attend->keys_at = attend->values_at = kv_head * key_bytes;
    if (!kv->shares_values)
        attend->values_at = kv->kv_heads * key_bytes + kv_head * value_bytes;
}

/* Pages that some tokens see, by number in their row: all of one row, the first token the oldest.
 */
struct span {
    const uint32_t *pages;
    size_t first, last;
};

static struct span span_of(const struct attention_args *args, size_t token, size_t last) {
    return (struct span){
        .pages = kv_pages(args->kv, &args->tokens[token]),
        .first = attention_oldest(args, token) / SL_PAGE_TOKENS,
        .last = args->tokens[last].position / SL_PAGE_TOKENS,
    };
}

/* The page to ask for while page `number` is computed: a batch further, in the span after this one
 * if it ends before; when that has ended too, the page itself. */
static uint32_t later_page(const struct span *span, const struct span *after, size_t number) {
    size_t later = number + ATTEND_PAGES;
    if (later <= span->last)
        return span->pages[later];
    size_t beyond = after->first + (later - span->last - 1);
    return beyond <= after->last ? after->pages[beyond] : span->pages[number];
}

static void find_page(const struct attend *attend, const struct span *span,
                      const struct span *after, size_t number, struct attend_page *page) {
    const struct kv_layer *kv = attend->task->args->kv;
    const struct attend_query *query = attend->query;
    const uint8_t *base = kv->base + span->pages[number] * kv->page_bytes;
    const uint8_t *later = kv->base + later_page(span, after, number) * kv->page_bytes;
    page->keys = base + attend->keys_at;
    page->values = base + attend->values_at;
    page->later_keys = later + attend->keys_at;
    page->later_values = later + attend->values_at;
    page->start = number * SL_PAGE_TOKENS;
    page->from = attend_from(query, page);
    page->to = attend_to(query, page);
    page->is_same = true;
    for (size_t q = 1; q < attend->count; q++) {
        size_t from = attend_from(&query[q], page), to = attend_to(&query[q], page);
        if (from == page->from && to == page->to)
            continue;
        page->is_same = false;
        page->from = from < page->from ? from : page->from;
        page->to = to > page->to ? to : page->to;
    }
}

static void walk_pages(struct attend *attend, attend_batch *batch, const struct span *span,
                       const struct span *after) {
    struct attend_page pages[ATTEND_PAGES];
    for (size_t first = span->first; first <= span->last; first += ATTEND_PAGES) {
        size_t len = span->last - first + 1 < ATTEND_PAGES ? span->last - first + 1 : ATTEND_PAGES;
        for (size_t p = 0; p < ATTEND_PAGES; p++) /* the last page again where there is none */
            find_page(attend, span, after, p < len ? first + p : span->last, &pages[p]);
        batch(attend, pages, len);
    }
}

/* Takes the queries out of their lanes and begins the softmax. */
static void begin(struct attend *attend) {
    const struct cpu_attention *task = attend->task;
    const float *sinks = task->args->sinks;
    size_t head_dim = task->args->kv->head_dim, width = attend->width;
    for (size_t q = 0; q < ATTEND_QUERIES; q++)
        attend->largest[q] = -INFINITY;
    for (size_t q = 0; q < attend->count; q++) {
        const struct attend_query *query = &attend->query[q];
        const float *from = act_at(task->q, query->head * head_dim, query->token);
        for (size_t d = 0; d < head_dim; d++)
            attend->queries[d * width + q] = from[d * SL_LANES];
        if (sinks != NULL)
            attend->largest[q] = sinks[query->head];
    }
    memset(attend->out, 0, attend->count * attend->out_stride * sizeof(float));
    memset(attend->sums, 0, attend->count * sizeof *attend->sums);
}

/* Divides by the sums of shares and puts the outputs into their lanes. */
static void end(struct attend *attend) {
    const float *sinks = attend->task->args->sinks;
    size_t value_dim = attend->task->args->kv->value_dim;
    for (size_t q = 0; q < attend->count; q++) {
        const struct attend_query *query = &attend->query[q];
        float *to = act_at(attend->task->out, query->head * value_dim, query->token);
        float sum = 0.0f, *out = attend->out + q * attend->out_stride;
        for (size_t slot = 0; slot < SL_PAGE_TOKENS; slot++)
            sum += attend->sums[q][slot];
        if (sinks != NULL)
            sum += num_exp(sinks[query->head] - attend->largest[q]);
        for (size_t d = 0; d < attend->out_stride; d++)
            out[d] /= sum;
        for (size_t d = 0; d < value_dim; d++)
            to[d * SL_LANES] = out[d];
    }
}

/* How many tokens from `token` on, at most `most`, are of one row and follow each other. */
static size_t tokens_together(const struct attention_args *args, size_t token, size_t most) {
    size_t count = 1;
    const struct kv_token *tokens = args->tokens + token;
    while (count < most && tokens[count].position == tokens[0].position + count &&
           kv_pages(args->kv, &tokens[count]) == kv_pages(args->kv, &tokens[0]))
        count++;
    return count;
}

/* Query heads first .. first + heads of `tokens` tokens. */
static void name_queries(struct attend *attend, size_t token, size_t tokens, size_t first,
                         size_t heads) {
    const struct attention_args *args = attend->task->args;
    attend->count = tokens * heads;
    for (size_t q = 0; q < attend->count; q++)
        attend->query[q] = (struct attend_query){
            .token = token + q / heads,
            .head = first + q % heads,
            .oldest = attention_oldest(args, token + q / heads),
            .position = args->tokens[token + q / heads].position,
        };
}

/* The most queries that find room in scratch: a power of two, so that they stay aligned. */
static size_t width_of(size_t head_dim, size_t out_stride) {
    size_t width = ATTEND_QUERIES;
    while (width * (head_dim + out_stride) > CPU_SCRATCH_FLOATS)
        width /= 2;
    return width;
}

_Static_assert(SL_LANES *(2 * SL_HEAD_DIM_MAX) <= 4 * CPU_SCRATCH_FLOATS,
               "a width of four at least");

void attend_tokens(attend_batch *batch, const struct cpu_attention *task, struct cpu_heads heads,
                   float *scratch) {
    const struct attention_args *args = task->args;
    const struct kv_layer *kv = args->kv;
    size_t group = args->heads / kv->kv_heads, end_token = heads.token + heads.tokens, tokens;
    struct attend attend; /* most of it is room */
    attend.task = task;
    find_head(&attend, heads.kv_head);
    attend.out_stride = size_round_up(kv->value_dim, SL_LANES);
    attend.width = width_of(kv->head_dim, attend.out_stride);
    attend.out = scratch;
    attend.queries = scratch + attend.width * attend.out_stride;
    for (size_t token = heads.token; token < end_token; token += tokens) {
        size_t rest = end_token - token, most = group < attend.width ? attend.width / group : 1;
        size_t parts = size_divide_up(rest, most); /* of about the same size */
        tokens = tokens_together(args, token, size_divide_up(rest, parts));
        struct span span = span_of(args, token, token + tokens - 1), after = span;
        if (token + tokens < task->q->tokens)
            after = span_of(args, token + tokens, token + tokens);
        for (size_t done = 0; done < group; done += attend.width) {
            size_t count = group - done < attend.width ? group - done : attend.width;
            name_queries(&attend, token, tokens, heads.kv_head * group + done, count);
            begin(&attend);
            walk_pages(&attend, batch, &span, &after);
            end(&attend);
        }
    }
}
