/* Attention: cuts a pass into items of some consecutive tokens of one tile and one key/value head.
 * Tokens of a prefill follow each other in their row, so an item reads the same pages again and
 * again while they are in the first-level cache. */
#include "backend/cpu/kernels.h"

struct attention_run {
    struct cpu_attention task;
    const struct cpu_backend *cpu;
    size_t item_tokens;  /* divides 16 */
    size_t items_a_head; /* items that cover all tokens for one head */
};

/* Items with many positions last long; four a thread keep the end even. */
static size_t tokens_of_item(size_t tokens, size_t kv_heads, size_t threads) {
    size_t item_tokens = SL_LANES;
    while (item_tokens > 1 && tokens * kv_heads < item_tokens * threads * 4)
        item_tokens /= 2;
    return item_tokens;
}

static void attention_item(void *ctx, size_t item, size_t worker) {
    const struct attention_run *run = ctx;
    size_t kv_head = item / run->items_a_head;
    size_t first = item % run->items_a_head * run->item_tokens;
    size_t tokens = run->task.q->tokens;
    size_t end = tokens - first < run->item_tokens ? tokens : first + run->item_tokens;
    struct cpu_heads heads = {.token = first, .tokens = end - first, .kv_head = kv_head};
    run->cpu->kernels->attend(&run->task, heads, cpu_scratch(run->cpu, worker));
}

void cpu_attention(struct backend *backend, const struct attention_args *args, const struct act *q,
                   struct act *out) {
    struct cpu_backend *cpu = cpu_from(backend);
    const struct kv_layer *kv = args->kv;
    must(kv->kv_heads > 0 && args->heads % kv->kv_heads == 0);
    must(kv->head_dim > 0 && kv->head_dim <= SL_HEAD_DIM_MAX);
    must(kv->value_dim > 0 && kv->value_dim <= SL_HEAD_DIM_MAX);
    must(!kv->shares_values || kv->value_dim <= kv->head_dim);
    must(q->features == (size_t)args->heads * kv->head_dim);
    must(out->features == (size_t)args->heads * kv->value_dim);
    must(q->tokens == out->tokens);
    if (q->tokens == 0)
        return;
    struct attention_run run = {
        .task = {.args = args, .q = q, .out = out},
        .cpu = cpu,
        .item_tokens = tokens_of_item(q->tokens, kv->kv_heads, cpu->threads),
    };
    run.items_a_head = size_divide_up(q->tokens, run.item_tokens);
    team_run(backend->team, attention_item, &run, run.items_a_head * kv->kv_heads);
}
