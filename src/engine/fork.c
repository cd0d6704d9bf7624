/* Owns the comparing of rows: up to where they are alike, and who computes that. Refuses to choose
 * tokens (sched.c) and to keep states (prefix.c). */
#include "engine/fork.h"

#include "base/mem.h"

#include <string.h>

/* Tokens, in full blocks, that both rows begin with and that others may compute for them. */
static size_t common(const struct seq *a, const struct seq *b) {
    if (a->chain.kind != b->chain.kind)
        return 0;
    size_t most = size_min(seq_shareable(a), seq_shareable(b)), blocks = 0;
    bool is_same_chain = a->chain.count == b->chain.count && a->chain.name == b->chain.name;
    if (is_same_chain)
        blocks = size_min(a->chain.count, most / SL_PAGE_TOKENS);
    while ((blocks + 1) * SL_PAGE_TOKENS <= most &&
           memcmp(a->tokens + blocks * SL_PAGE_TOKENS, b->tokens + blocks * SL_PAGE_TOKENS,
                  SL_PAGE_TOKENS * sizeof *a->tokens) == 0)
        blocks++;
    return blocks * SL_PAGE_TOKENS;
}

static bool is_prefilling(const struct seq *seq) {
    return seq->computed + 1 < seq->token_count;
}

/* The nearer one of two places behind what the row has computed; 0: none. */
static size_t nearer(const struct seq *seq, size_t a, size_t b) {
    if (a <= seq->computed || (b > seq->computed && b < a))
        return b > seq->computed ? b : 0;
    return a;
}

size_t fork_next(struct seq *const *rows, size_t count, size_t index) {
    const struct seq *seq = rows[index];
    size_t next = nearer(seq, seq->fork_tokens, seq->fork_known);
    if (!is_prefilling(seq))
        return 0;
    for (size_t i = index + 1; i < count; i++) {
        const struct seq *other = rows[i];
        if (!is_prefilling(other) || other->chosen > 0)
            continue;
        size_t at = common(seq, other);
        if (at >= other->computed + SL_FORK_TOKENS)
            next = nearer(seq, at, next);
    }
    return next;
}

/* Up to where the one before computes for the row: in a pass that is picked already to its fork,
 * else as far as both are alike. 0: nothing, or not of the row's. */
static size_t computes_for(const struct seq *before, const struct seq *seq, bool is_picked) {
    if (is_picked) {
        bool comes_nearer = before->chosen > 0 && before->fork > 0;
        return comes_nearer && common(before, seq) >= before->fork ? before->fork : 0;
    }
    bool is_waiting = before->awaited > 0; /* then who computes that is before it */
    size_t at = is_prefilling(before) && !is_waiting ? common(before, seq) : 0;
    return at > before->computed ? at : 0;
}

size_t fork_awaited(struct seq *const *rows, size_t index, bool is_picked) {
    const struct seq *seq = rows[index];
    size_t awaited = 0;
    for (size_t i = 0; i < index && is_prefilling(seq); i++) {
        size_t at = computes_for(rows[i], seq, is_picked);
        if (at >= seq->computed + SL_FORK_TOKENS && at > awaited)
            awaited = at;
    }
    return awaited;
}
