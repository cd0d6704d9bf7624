/* A seq: a row being generated: its tokens, its pages, its sampler state. The engine owns it; one
 * thread.
 *
 *   seq_new -> [prefilling] -- last prompt token computed --> [decoding]
 *           -- stop id, stop text, limit --> [done] -> seq_free
 *   [prefilling], [decoding] -- seq_suspend --> [suspended], holds no pages
 *           -- sched.c lets it in again --> [prefilling] its prompt and what it has of its answer
 */
#ifndef SLUICE_ENGINE_SEQ_H
#define SLUICE_ENGINE_SEQ_H

#include "engine/kv.h"
#include "engine/sample.h"

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH };

/* Page numbers of a row in one group (of KV_STATE one); those of [first, count) are held, earlier
 * ones are gone. */
struct seq_pages {
    uint32_t *numbers; /* [pages_cap] */
    size_t first, count;
};

/* The row's first blocks of 16 tokens that the index of prefixes knows (prefix.h). */
struct seq_chain {
    uint64_t kind; /* rows of different kinds share nothing: their positions turn otherwise */
    uint64_t name; /* of the last block */
    size_t count;
};

struct token_logprobs {
    uint32_t id;
    float logprob;
    struct logprob *top; /* logprobs_count of them, in seq.tops */
};

struct seq {
    void *user;       /* the job's row */
    uint64_t key;     /* of the row's id: for the generator */
    uint32_t *tokens; /* prompt, then generated; room for prompt_count + max_tokens */
    size_t prompt_count, token_count;
    /* Prompt, and tokens of an answer that was begun before or whose keys and values are computed
     * again. */
    size_t given_count;
    size_t max_tokens; /* of the answer; >= 1 */
    size_t computed;   /* tokens whose keys and values are in the pages */
    struct seq_pages pages[KV_GROUPS];
    size_t pages_cap; /* pages for prompt_count + max_tokens positions */
    struct seq_chain chain;
    struct sampling sampling;
    size_t logprobs_count; /* best tokens asked for; 0 with wants_logprobs: the picked one alone */
    bool wants_logprobs;
    bool ignores_eos;
    /* [max_tokens], filled as far as tokens are generated; NULL unless wanted. Each has its own
     * part of tops [max_tokens, logprobs_count]. */
    struct token_logprobs *logprobs;
    struct logprob *tops;
    enum finish finish;
    /* A row that is scored instead of answered: its last token stands behind the prompt, as an
     * answer of one token that is known. */
    size_t score_next; /* the first token whose log probability is still wanted; 0: an answer */
    double score_sum;  /* of those before it, in their order */
    bool is_greedy;    /* each of them was the best one */
    /* The scheduler's: */
    size_t chosen;      /* tokens of it in the next pass */
    bool has_turn;      /* to decode in it, if there are pages */
    size_t suspensions; /* how often its pages were given up */
    uint32_t prefix;    /* rows with the same may share first pages; 0: unknown */
    size_t alike_count; /* tokens at its beginning that a row before it computes, it is said */
    /* Where recurrent layers are, see fork.h; in tokens from the first on, full blocks: */
    size_t fork_tokens; /* a row to come goes on from there, it is said; 0: unknown */
    size_t fork_known;  /* the row leaves there what others had; likewise */
    size_t fork;        /* where its state will be kept, when it is computed up to there; 0: not */
    size_t awaited;     /* that another computes, and for which it is not picked; 0: none */
};

struct seq_request {
    void *user;
    uint64_t key;
    const uint32_t *prompt; /* copied; at least one */
    size_t prompt_count, max_tokens;
    struct sampling sampling;
    size_t logprobs_count;
    bool wants_logprobs, ignores_eos;
    uint32_t prefix; /* tells rows that may begin alike; 0: unknown */
    /* Not 0: the tokens of the prompt from here on, and target behind it, are scored; max_tokens is
     * 1, and nothing is picked. */
    size_t score_first;
    uint32_t target;
    size_t alike_count; /* tokens that a row admitted before it computes, as far as it is known */
    size_t fork_tokens; /* that the row admitted next begins with too, as far as it is known */
    /* Of an answer that an earlier run has begun: its tokens so far, fewer than max_tokens, none of
     * which ended it; copied, with their logprobs where those are wanted. They are computed like a
     * prompt, and the row goes on behind them with the same bits. */
    const uint32_t *answer;
    const struct token_logprobs *answer_logprobs; /* [answer_count]; NULL unless wanted */
    size_t answer_count;
};

/* SL_ERR_ENV when memory is out. */
enum status seq_new(const struct seq_request *request, struct seq **out, struct error *err);
void seq_free(struct seq *seq, struct kv *kv); /* gives its pages back; accepts NULL */
/* Takes the pages that positions below `end` lack, in each group; false when there are none. */
bool seq_take_pages(struct seq *seq, struct kv *kv, size_t end);
/* Gives all pages back; tokens, logprobs and sampler state stay. They are computed like a prompt
 * when it goes on, to the same bits. */
void seq_suspend(struct seq *seq, struct kv *kv);
/* Gives all pages back: nothing of the row is computed any more. */
void seq_give_pages(struct seq *seq, struct kv *kv);
/* The first page of windowed layers that a token at that position sees. */
size_t seq_window_page(const struct kv *kv, size_t position);
/* Gives back the pages of windowed layers that no token from `computed` on sees. */
void seq_trim_pages(struct seq *seq, struct kv *kv);
static inline const uint32_t *seq_answer(const struct seq *seq) {
    return seq->tokens + seq->prompt_count;
}
/* How many of the row's tokens [computed, end) need logits: the last ones. */
static inline size_t seq_logits(const struct seq *seq, size_t end) {
    if (seq->score_next == 0)
        return end == seq->token_count;
    size_t first = seq->score_next - 1 > seq->computed ? seq->score_next - 1 : seq->computed;
    return end > first ? end - first : 0;
}
/* Tokens from the first on that other rows may compute for this one: no logits of theirs are
 * wanted. */
static inline size_t seq_shareable(const struct seq *seq) {
    return seq->score_next == 0 ? seq->token_count - 1 : seq->score_next - 1;
}
static inline size_t seq_answer_count(const struct seq *seq) {
    return seq->token_count - seq->prompt_count;
}

#endif
