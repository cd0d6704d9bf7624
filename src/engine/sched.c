/* Owns which rows are in and whose tokens the next pass computes. Refuses arithmetic and memory: it
 * counts.
 *
 * Why it never gets stuck: a row enters only when its pages up to its last possible token are free
 * of promises, so what a pick needs is there; and a pass has room for one token at least, which
 * goes to whoever stands at `turn`. */
#include "engine/sched.h"

#include "base/mem.h"

enum status sched_init(struct sched *sched, const struct sched_limits *limits, struct error *err) {
    must(limits->batch_max >= 1);
    must(limits->pass_tokens >= 1);
    *sched = (struct sched){.limits = *limits};
    sched->live = mem_new(limits->batch_max, sizeof *sched->live);
    sched->picks = mem_new(limits->batch_max, sizeof *sched->picks);
    if (!sched->live || !sched->picks) {
        sched_release(sched);
        return error_memory(err, limits->batch_max * sizeof *sched->picks, "the scheduler");
    }
    return SL_OK;
}

void sched_release(struct sched *sched) {
    if (!sched)
        return;
    mem_free(sched->picks);
    mem_free(sched->live);
    *sched = (struct sched){0};
}

/* Pages for all tokens that the row may have; false when they cannot be counted. */
static bool pages_of(size_t prompt_count, size_t max_tokens, size_t *pages) {
    size_t tokens;
    if (!size_add(prompt_count, max_tokens, &tokens))
        return false;
    *pages = kv_pages_for(tokens);
    return true;
}

bool sched_fits(const struct sched *sched, size_t prompt_count, size_t max_tokens) {
    size_t pages;
    return sched->live_count < sched->limits.batch_max &&
           pages_of(prompt_count, max_tokens, &pages) &&
           pages <= sched->limits.page_count - sched->pages_promised;
}

bool sched_can_ever_fit(const struct sched *sched, size_t prompt_count, size_t max_tokens) {
    size_t pages;
    return pages_of(prompt_count, max_tokens, &pages) && pages <= sched->limits.page_count;
}

void sched_admit(struct sched *sched, struct seq *seq) {
    must(sched_fits(sched, seq->prompt_count, seq->max_tokens));
    must(seq->pages_cap == kv_pages_for(seq->prompt_count + seq->max_tokens));
    sched->live[sched->live_count++] = seq;
    sched->pages_promised += seq->pages_cap;
}

void sched_remove(struct sched *sched, struct seq *seq) {
    size_t at = 0;
    while (at < sched->live_count && sched->live[at] != seq)
        at++;
    must(at < sched->live_count);
    must(sched->pages_promised >= seq->pages_cap);
    sched->pages_promised -= seq->pages_cap;
    sched->live_count--;
    for (size_t i = at; i < sched->live_count; i++)
        sched->live[i] = sched->live[i + 1];
    if (at < sched->turn) /* the rows behind it moved up; none loses its turn */
        sched->turn--;
}

/* Tokens whose keys and values are missing. Of a decoding row one: the token picked last. */
static size_t pending(const struct seq *seq) {
    must(seq->computed < seq->token_count);
    return seq->token_count - seq->computed;
}

static void add_pick(struct sched *sched, struct seq *seq, size_t count) {
    sched->picks[sched->pick_count++] =
        (struct sched_pick){.seq = seq,
                            .first = seq->computed,
                            .count = count,
                            .wants_logits = seq->computed + count == seq->token_count};
    sched->pick_tokens += count;
}

void sched_pick(struct sched *sched) {
    size_t room = sched->limits.pass_tokens, count = sched->live_count;
    size_t begin = sched->turn < count ? sched->turn : 0;
    sched->pick_count = sched->pick_tokens = 0;
    for (size_t i = 0; i < count && sched->pick_tokens < room; i++) {
        size_t at = (begin + i) % count;
        if (pending(sched->live[at]) == 1) {
            add_pick(sched, sched->live[at], 1);
            sched->turn = at + 1;
        }
    }
    for (size_t i = 0; i < count && sched->pick_tokens < room; i++) {
        size_t wanted = pending(sched->live[i]), left = room - sched->pick_tokens;
        if (wanted > 1)
            add_pick(sched, sched->live[i], wanted < left ? wanted : left);
    }
    must(count == 0 || sched->pick_tokens > 0);
    must(sched->pick_tokens <= room);
}
