/* Owns which rows are in and whose tokens the next pass computes. Refuses arithmetic and memory: it
 * counts.
 *
 * Why it never gets stuck: a row enters only when its pages up to its last possible token are free
 * of promises, so what a pick needs is there; and a pass has room for one token at least, which
 * goes to whoever stands at `turn`.
 *
 * Why the pages of windowed layers suffice: with w = kv_window_pages(window), a row of p pages is
 * promised min(p, w). It holds no more between passes, nor in a pass that computes one token of it.
 * In a pass with c tokens of it, it holds what window - 1 + c positions touch: at most
 * (c + 14) / 16 more than w; if it begins there, c positions from the first on, at most
 * (c - 1) / 16 more than its promise. Newcomers are served oldest first, so at most one goes on
 * with a prompt cut before; the sum of what all hold beyond their promises is then at most
 * (pass_tokens + 14) / 16, and never more than their excess, the sum of p - min(p, w). */
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

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Whether rows that are promised this have room together: pages of whole layers, pages of windows,
 * and what they have beyond those. */
static bool have_room(const struct sched_limits *limits, size_t whole, size_t window,
                      size_t excess) {
    size_t set_aside = smaller(excess, sched_pages_set_aside(limits->pass_tokens));
    if (!limits->is_all_windowed && whole > limits->page_count)
        return false;
    return limits->window == 0 ||
           (window <= limits->window_page_count && set_aside <= limits->window_page_count - window);
}

/* Whether a row has room beside rows with these promises. */
static bool fits_beside(const struct sched_limits *limits, const struct sched *others,
                        size_t prompt_count, size_t max_tokens) {
    size_t tokens;
    if (!size_add(prompt_count, max_tokens, &tokens))
        return false;
    size_t pages = kv_pages_for(tokens), window = smaller(pages, kv_window_pages(limits->window));
    return have_room(limits, others->pages_promised + pages, others->window_promised + window,
                     others->window_excess + (pages - window));
}

size_t sched_pages_set_aside(size_t pass_tokens) {
    return kv_pages_for(pass_tokens - 1);
}

bool sched_fits(const struct sched *sched, size_t prompt_count, size_t max_tokens) {
    return sched->live_count < sched->limits.batch_max &&
           fits_beside(&sched->limits, sched, prompt_count, max_tokens);
}

bool sched_can_ever_fit(const struct sched *sched, size_t prompt_count, size_t max_tokens) {
    static const struct sched none;
    return fits_beside(&sched->limits, &none, prompt_count, max_tokens);
}

void sched_admit(struct sched *sched, struct seq *seq) {
    must(sched_fits(sched, seq->prompt_count, seq->max_tokens));
    must(seq->pages_cap == kv_pages_for(seq->prompt_count + seq->max_tokens));
    sched->live[sched->live_count++] = seq;
    size_t window = smaller(seq->pages_cap, kv_window_pages(sched->limits.window));
    sched->pages_promised += seq->pages_cap;
    sched->window_promised += window;
    sched->window_excess += seq->pages_cap - window;
}

void sched_remove(struct sched *sched, struct seq *seq) {
    size_t at = 0;
    while (at < sched->live_count && sched->live[at] != seq)
        at++;
    must(at < sched->live_count);
    must(sched->pages_promised >= seq->pages_cap);
    size_t window = smaller(seq->pages_cap, kv_window_pages(sched->limits.window));
    sched->pages_promised -= seq->pages_cap;
    sched->window_promised -= window;
    sched->window_excess -= seq->pages_cap - window;
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
    if (sched->prefix != NULL)
        prefix_publish(sched->prefix, seq, seq->computed + count);
}

/* Who has no room in this pass joins too: the pages are there now. */
static void pick_prompt(struct sched *sched, struct seq *seq) {
    if (sched->prefix != NULL)
        prefix_join(sched->prefix, seq);
    size_t room = sched->limits.pass_tokens - sched->pick_tokens;
    if (room > 0)
        add_pick(sched, seq, smaller(pending(seq), room));
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
    for (size_t i = 0; i < count; i++)
        if (pending(sched->live[i]) > 1)
            pick_prompt(sched, sched->live[i]);
    must(count == 0 || sched->pick_tokens > 0);
    must(sched->pick_tokens <= room);
}
