/* Owns the memory of a row being generated, all of it from the start: a pass never grows a seq.
 * Refuses to decide anything: sched.c picks its tokens, engine.c ends it. */
#include "engine/seq.h"

#include "base/mem.h"

#include <string.h>

static enum status fill(struct seq *seq, const struct seq_request *request, struct error *err) {
    size_t room, tops;
    if (!size_add(request->prompt_count, request->max_tokens, &room) ||
        !size_mul(request->max_tokens, request->logprobs_count, &tops))
        return error_set(err, SL_ERR_ENV, "a row of %zu prompt tokens and %zu new ones is too long",
                         request->prompt_count, request->max_tokens);
    seq->pages_cap = kv_pages_for(room);
    seq->tokens = mem_new(room, sizeof *seq->tokens);
    uint32_t *numbers = mem_new(seq->pages_cap, KV_GROUPS * sizeof *numbers);
    seq->pages[KV_WHOLE].numbers = numbers;
    if (!seq->tokens || !numbers)
        return error_memory(err, room, "the tokens of a row");
    for (size_t group = 0; group < KV_GROUPS; group++)
        seq->pages[group].numbers = numbers + group * seq->pages_cap;
    memcpy(seq->tokens, request->prompt, request->prompt_count * sizeof *seq->tokens);
    for (size_t i = 0; i < request->answer_count; i++)
        seq->tokens[request->prompt_count + i] = request->answer[i];
    if (request->score_first > 0)
        seq->tokens[request->prompt_count] = request->target;
    if (!request->wants_logprobs)
        return SL_OK;
    seq->logprobs = mem_new(request->max_tokens, sizeof *seq->logprobs);
    seq->tops = mem_new(tops, sizeof *seq->tops);
    if (!seq->logprobs || !seq->tops)
        return error_memory(err, tops, "the log probabilities of a row");
    for (size_t i = 0; i < request->max_tokens; i++)
        seq->logprobs[i].top = seq->tops + i * request->logprobs_count;
    for (size_t i = 0; i < request->answer_count; i++) {
        const struct token_logprobs *entry = &request->answer_logprobs[i];
        seq->logprobs[i].id = entry->id;
        seq->logprobs[i].logprob = entry->logprob;
        for (size_t t = 0; t < request->logprobs_count; t++)
            seq->logprobs[i].top[t] = entry->top[t];
    }
    return SL_OK;
}

enum status seq_new(const struct seq_request *request, struct seq **out, struct error *err) {
    must(request->prompt_count >= 1);
    must(request->max_tokens >= 1);
    must(request->answer_count < request->max_tokens);
    must(request->score_first <= request->prompt_count);
    must(request->score_first == 0 || request->max_tokens == 1);
    struct seq *seq = mem_new(1, sizeof *seq);
    if (!seq)
        return error_memory(err, sizeof *seq, "a row");
    seq->user = request->user;
    seq->key = request->key;
    seq->prompt_count = request->prompt_count;
    seq->given_count = seq->token_count = request->prompt_count + request->answer_count;
    seq->max_tokens = request->max_tokens;
    seq->sampling = request->sampling;
    seq->logprobs_count = request->logprobs_count;
    seq->wants_logprobs = request->wants_logprobs;
    seq->ignores_eos = request->ignores_eos;
    seq->prefix = request->prefix;
    seq->alike_count = request->alike_count;
    seq->fork_tokens = request->fork_tokens / SL_PAGE_TOKENS * SL_PAGE_TOKENS;
    seq->score_next = request->score_first;
    seq->is_greedy = true;
    enum status status = fill(seq, request, err);
    if (status != SL_OK)
        seq_free(seq, NULL);
    else
        *out = seq;
    return status;
}

void seq_give_pages(struct seq *seq, struct kv *kv) {
    /* The page taken last goes back first, so that the next row takes them in the same order, and
     * of those that are kept the ones that fewer rows can want are lost first. */
    for (int group = 0; group < KV_GROUPS; group++) {
        struct seq_pages *pages = &seq->pages[group];
        while (pages->count > pages->first)
            kv_give(kv, (enum kv_group)group, pages->numbers[--pages->count]);
        pages->first = pages->count = 0;
    }
    seq->computed = 0;
    seq->chain = (struct seq_chain){.kind = seq->chain.kind};
}

void seq_free(struct seq *seq, struct kv *kv) {
    if (!seq)
        return;
    seq_give_pages(seq, kv);
    mem_free(seq->tops);
    mem_free(seq->logprobs);
    mem_free(seq->pages[KV_WHOLE].numbers);
    mem_free(seq->tokens);
    mem_free(seq);
}

void seq_suspend(struct seq *seq, struct kv *kv) {
    seq_give_pages(seq, kv);
    seq->chosen = seq->fork = seq->awaited = 0;
    seq->given_count = seq->token_count;
    seq->suspensions++;
}

bool seq_take_pages(struct seq *seq, struct kv *kv, size_t end) {
    size_t needed = kv_pages_for(end);
    must(needed <= seq->pages_cap);
    for (int group = 0; group < KV_GROUPS; group++) {
        struct seq_pages *pages = &seq->pages[group];
        size_t count = group == KV_STATE ? 1 : needed;
        if (kv->pools[group].page_bytes == 0)
            continue;
        for (; pages->count < count; pages->count++)
            if (!kv_take(kv, (enum kv_group)group, &pages->numbers[pages->count]))
                return false;
    }
    return true;
}

size_t seq_window_page(const struct kv *kv, size_t position) {
    if (kv->window == 0 || position < kv->window)
        return 0;
    return (position - kv->window + 1) / SL_PAGE_TOKENS;
}

void seq_trim_pages(struct seq *seq, struct kv *kv) {
    struct seq_pages *pages = &seq->pages[KV_WINDOW];
    size_t oldest = seq_window_page(kv, seq->computed);
    while (pages->first < oldest) {
        kv_give(kv, KV_WINDOW, pages->numbers[pages->first]);
        pages->numbers[pages->first++] = SL_PAGE_GONE;
    }
}
