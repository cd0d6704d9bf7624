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

size_t fork_awaited(struct seq *const *rows, size_t index) {
    const struct seq *seq = rows[index];
    for (size_t i = 0; i < index && is_prefilling(seq); i++) {
        const struct seq *before = rows[i];
        if (before->chosen > 0 && before->fork >= seq->computed + SL_FORK_TOKENS &&
            common(before, seq) >= before->fork)
            return before->fork;
    }
    return 0;
}

size_t fork_expected(struct seq *const *rows, size_t index) {
    const struct seq *seq = rows[index];
    size_t expected = 0;
    for (size_t i = 0; i < index && is_prefilling(seq); i++) {
        bool is_waiting = rows[i]->awaited > 0; /* then who computes that is before it */
        size_t at = is_prefilling(rows[i]) && !is_waiting ? common(rows[i], seq) : 0;
        if (at > rows[i]->computed && at >= seq->computed + SL_FORK_TOKENS && at > expected)
            expected = at;
    }
    return expected;
}
