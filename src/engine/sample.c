/* Owns the choice of the next token. Refuses state: the same logits, parameters, key and position
 * give the same token, whatever else is computed.
 *
 * Ranking is lazy: ids stand in a heap (best logit on top, then the lowest id), and only as many
 * are popped as the draw needs, mostly a few of 256k. At first only ids near the best one enter the
 * heap; the rest follow if it runs empty. Popped ids gather at the end of `order`, in the room that
 * the shrinking heap leaves. */
#include "engine/sample.h"

#include "base/num.h"

enum status sample_scratch_init(struct sample_scratch *scratch, size_t vocabulary,
                                struct error *err) {
    *scratch = (struct sample_scratch){.vocabulary = vocabulary};
    scratch->logits = mem_new(vocabulary, sizeof *scratch->logits);
    scratch->order = mem_new(vocabulary, sizeof *scratch->order);
    scratch->weights = mem_new(vocabulary, sizeof *scratch->weights);
    if (!scratch->logits || !scratch->order || !scratch->weights) {
        sample_scratch_release(scratch);
        return error_memory(err, vocabulary * 3 * sizeof(float), "sampling");
    }
    return SL_OK;
}

void sample_scratch_release(struct sample_scratch *scratch) {
    if (!scratch)
        return;
    mem_free(scratch->logits);
    mem_free(scratch->order);
    mem_free(scratch->weights);
    *scratch = (struct sample_scratch){0};
}

uint32_t sample_greedy(const float *logits, size_t vocabulary) {
    uint32_t best = 0;
    float highest = -INFINITY;
    bool has_best = false;
    for (size_t i = 0; i < vocabulary; i++) {
        /* The first that is no NaN, then whatever is higher; NaN fails both comparisons. */
        if (logits[i] > highest || (!has_best && logits[i] == highest)) {
            best = (uint32_t)i;
            highest = logits[i];
            has_best = true;
        }
    }
    return best;
}

uint64_t sample_random(uint64_t seed, uint64_t key, uint64_t counter) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)key,
                     (uint32_t)(key >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        uint32_t next2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1;
        c[3] = (uint32_t)p0;
        c[0] = next0;
        c[2] = next2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (uint64_t)c[1] << 32 | c[0];
}

/* Ids within so many temperatures of the best enter the heap first: e^-8 of its weight. */
#define NEAR_TEMPERATURES 8.0

struct ranking {
    const float *logits, *weights;
    size_t vocabulary;
    uint32_t *order; /* [total]: the heap, and behind it the popped, the first popped last */
    size_t total;    /* ids with a weight above 0 */
    size_t heap_count, popped;
    float floor; /* logits below it are not in the heap yet */
};

static bool is_before(const struct ranking *ranking, uint32_t a, uint32_t b) {
    float x = ranking->logits[a], y = ranking->logits[b];
    return x > y || (x == y && a < b);
}

/* Lets the id at `at` sink to where no child is before it. */
static void sink(struct ranking *ranking, size_t at) {
    uint32_t *heap = ranking->order, id = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= ranking->heap_count)
            break;
        if (child + 1 < ranking->heap_count && is_before(ranking, heap[child + 1], heap[child]))
            child++;
        if (!is_before(ranking, heap[child], id))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = id;
}

/* Makes the heap, empty now, from the ids with logits in [low, high). */
static void gather(struct ranking *ranking, float low, float high) {
    size_t count = 0;
    for (size_t i = 0; i < ranking->vocabulary; i++) {
        float logit = ranking->logits[i];
        if (logit >= low && logit < high && ranking->weights[i] > 0)
            ranking->order[count++] = (uint32_t)i;
    }
    must(count <= ranking->total - ranking->popped);
    ranking->heap_count = count;
    for (size_t at = count / 2; at > 0; at--)
        sink(ranking, at - 1);
}

/* The id of that rank, 0 the best. rank < total. */
static uint32_t ranked(struct ranking *ranking, size_t rank) {
    must(rank < ranking->total);
    while (ranking->popped <= rank) {
        if (ranking->heap_count == 0)
            gather(ranking, -INFINITY, ranking->floor);
        must(ranking->heap_count > 0);
        uint32_t best = ranking->order[0];
        ranking->heap_count--;
        ranking->order[0] = ranking->order[ranking->heap_count];
        sink(ranking, 0);
        ranking->popped++;
        ranking->order[ranking->total - ranking->popped] = best;
    }
    return ranking->order[ranking->total - 1 - rank];
}

/* Weights relative to the highest logit (finite), whose own is 1; begins the ranking and returns
 * the sum of weights. */
static double weigh(struct sample_scratch *scratch, double temperature, float highest,
                    struct ranking *ranking) {
    float *weights = scratch->weights;
    double total = 0;
    size_t count = 0;
    for (size_t i = 0; i < scratch->vocabulary; i++)
        weights[i] = (float)(((double)scratch->logits[i] - (double)highest) / temperature);
    num_exp_many(weights, scratch->vocabulary);
    for (size_t i = 0; i < scratch->vocabulary; i++) {
        bool is_in = weights[i] > 0; /* no NaN */
        count += is_in;
        total += is_in ? (double)weights[i] : 0;
    }
    *ranking = (struct ranking){.logits = scratch->logits,
                                .weights = weights,
                                .vocabulary = scratch->vocabulary,
                                .order = scratch->order,
                                .total = count};
    ranking->floor = (float)((double)highest - NEAR_TEMPERATURES * temperature);
    gather(ranking, ranking->floor, INFINITY);
    return total;
}

/* How many of the best ranks stay in; *total becomes the sum of their weights. As transformers'
 * warpers have it, each working on what the one before left: top-p keeps a rank while those before
 * it have less than top_p of the sum, min-p keeps what has min_p of the best one's probability;
 * both keep one at least. top-k keeps exactly k, where transformers keeps all that tie with the
 * last. */
static size_t count_kept(const struct sampling *sampling, const float *weights,
                         struct ranking *ranking, double *total) {
    size_t kept = ranking->total;
    if (sampling->top_k > 0 && (uint64_t)sampling->top_k < kept) {
        kept = (size_t)sampling->top_k;
        *total = 0;
        for (size_t i = 0; i < kept; i++)
            *total += (double)weights[ranked(ranking, i)];
    }
    if (sampling->top_p < 1) {
        double limit = sampling->top_p * *total, sum = 0;
        size_t i = 0;
        for (; i < kept && (i == 0 || sum < limit); i++)
            sum += (double)weights[ranked(ranking, i)];
        kept = i;
        *total = sum;
    }
    if (sampling->min_p > 0) {
        double best = (double)weights[ranked(ranking, 0)], sum = best;
        size_t i = 1;
        for (; i < kept; i++) {
            double weight = (double)weights[ranked(ranking, i)];
            if (weight < sampling->min_p * best)
                break;
            sum += weight;
        }
        kept = i;
        *total = sum;
    }
    return kept;
}

uint32_t sample_pick(struct sample_scratch *scratch, const struct sampling *sampling,
                     uint64_t row_key, uint64_t position) {
    uint32_t best = sample_greedy(scratch->logits, scratch->vocabulary);
    float highest = scratch->vocabulary ? scratch->logits[best] : 0;
    if (!(sampling->temperature > 0) || !isfinite(highest))
        return best;
    struct ranking ranking;
    double total = weigh(scratch, sampling->temperature, highest, &ranking);
    size_t kept = count_kept(sampling, scratch->weights, &ranking, &total);
    uint64_t bits = sample_random(sampling->seed, row_key, position);
    double target = (double)(bits >> 11) * 0x1p-53 * total, sum = 0;
    uint32_t id = best;
    for (size_t i = 0; i < kept; i++) {
        id = ranked(&ranking, i);
        sum += (double)scratch->weights[id];
        if (sum > target)
            break;
    }
    return id; /* the last one kept where rounding left the sum below the target */
}

/* Puts id into top [count], sorted, where it belongs; *filled of it are set. */
static void insert_top(const float *logits, uint32_t id, struct logprob *top, size_t count,
                       size_t *filled) {
    size_t at = *filled;
    if (at == count && logits[id] <= logits[top[count - 1].id])
        return; /* of equals the lower id came first */
    if (at < count)
        *filled = at + 1;
    else
        at = count - 1;
    for (; at > 0 && logits[id] > logits[top[at - 1].id]; at--)
        top[at] = top[at - 1];
    top[at].id = id;
}

static float logprob_of(float logit, float highest, double log_sum) {
    double value = (double)logit - (double)highest - log_sum;
    return value == value ? (float)value : -INFINITY;
}

void sample_logprobs(struct sample_scratch *scratch, uint32_t picked, float *picked_logprob,
                     struct logprob *top, size_t count) {
    const float *logits = scratch->logits;
    size_t filled = 0;
    double sum = 0;
    must(picked < scratch->vocabulary);
    float highest = logits[sample_greedy(logits, scratch->vocabulary)];
    for (size_t i = 0; i < scratch->vocabulary; i++)
        scratch->weights[i] = logits[i] - highest;
    num_exp_many(scratch->weights, scratch->vocabulary);
    for (size_t i = 0; i < scratch->vocabulary; i++) {
        if (logits[i] != logits[i])
            continue;
        sum += (double)scratch->weights[i];
        if (count > 0)
            insert_top(logits, (uint32_t)i, top, count, &filled);
    }
    double log_sum = num_log(sum);
    *picked_logprob = logprob_of(logits[picked], highest, log_sum);
    for (size_t i = 0; i < filled; i++)
        top[i].logprob = logprob_of(logits[top[i].id], highest, log_sum);
    for (size_t i = filled; i < count; i++)
        top[i] = (struct logprob){0, -INFINITY};
}
