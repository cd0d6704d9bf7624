/* Owns which rows are in and whose tokens the next pass computes. Refuses arithmetic: it counts.
 *
 * Rows stand in an order: protected ones, then by admission. What one that decodes lacks is taken
 * from the last, and likewise for the first row in any case.
 *
 * Why it never gets stuck: so the first row can have all pages, which suffice for it alone
 * (sched_can_ever_fit), and a pass has room for one token at least, which goes to whoever stands at
 * `turn`. When it ends another is the first. A suspended row enters when nobody is live, if not
 * before.
 *
 * Why no row is suspended for ever: after SL_SUSPENSIONS_MAX times it enters as a protected one,
 * and only when its pages up to its last possible token are within the pool together with those of
 * all protected rows. Pages are taken from it only for other protected rows, and by that sum they
 * lack none while nobody else holds any. Rows that are not protected have at most so many
 * suspensions, and each of them is followed by progress of rows before it.
 *
 * Why the pages of windowed layers suffice for protected rows, and for the first: with w =
 * kv_window_pages(window), a row of p pages is promised min(p, w). It holds no more between passes,
 * nor in a pass that computes one token of it. Decoding rows take theirs first. What a prompt's
 * chunk of c tokens takes beyond the promise, at most (c + 14) / 16, it takes only of pages that
 * are free, and goes on with fewer tokens if there are fewer. */
#include "engine/sched.h"

#include "base/mem.h"
#include "engine/fork.h"

#include <math.h>

/* Of the pages, one in so many is left out of what rows may be expected to hold: chance, where all
 * rows are certain too. */
#define PAGES_SPARE 128u
/* Room for chance in standard deviations of the expected pages: what is always left, and one more
 * for each such share of tokens that are computed twice. */
#define DEVIATIONS_LEAST 0.3
#define DEVIATIONS_MOST 3.0
#define AGAIN_SHARE 0.02
#define AGAIN_FADE 0.99 /* of older passes in that share, with each new one */
/* Rows that came to the last part of their limits before that tells anything. */
#define LATE_ROWS_LEAST 8.0

enum status sched_init(struct sched *sched, const struct sched_limits *limits, struct error *err) {
    must(limits->batch_max >= 1);
    must(limits->pass_tokens >= 1);
    *sched = (struct sched){.limits = *limits};
    sched->limits.prior = NULL;
    sched->rows = mem_new(limits->batch_max, sizeof *sched->rows);
    sched->picks = mem_new(limits->batch_max, sizeof *sched->picks);
    if (!sched->rows || !sched->picks) {
        sched_release(sched);
        return error_memory(err, limits->batch_max * sizeof *sched->picks, "the scheduler");
    }
    expect_init(&sched->expect, limits->prior);
    outlook_init(&sched->outlook, kv_window_pages(limits->window));
    sched->credit = (double)limits->page_count;
    return SL_OK;
}

void sched_release(struct sched *sched) {
    if (!sched)
        return;
    mem_free(sched->picks);
    mem_free(sched->rows);
    *sched = (struct sched){0};
}

/* Tokens whose keys and values are missing. Of a decoding row one: the token picked last. */
static size_t pending(const struct seq *seq) {
    must(seq->computed < seq->token_count);
    return seq->token_count - seq->computed;
}

/* Tokens of the row that it waits for: they will be there when it goes on. */
static size_t awaited(const struct seq *seq) {
    return seq->awaited > seq->computed ? seq->awaited - seq->computed : 0;
}

static bool has_forks(const struct sched *sched) {
    return sched->prefix != NULL && sched->prefix->has_states;
}

/* ---- what is sure */

/* Pages that rows take at most: of whole layers, of windows, and what they have beyond those. */
struct promise {
    size_t whole, window, excess;
};

static void promise_add(struct promise *promise, const struct sched_limits *limits, size_t pages) {
    size_t window = size_min(pages, kv_window_pages(limits->window));
    promise->whole += pages;
    promise->window += window;
    promise->excess += pages - window;
}

static bool can_keep(const struct sched_limits *limits, const struct promise *promise) {
    size_t set_aside = size_min(promise->excess, sched_pages_set_aside(limits->pass_tokens));
    if (!limits->is_all_windowed && promise->whole > limits->page_count)
        return false;
    return limits->window == 0 || (promise->window <= limits->window_page_count &&
                                   set_aside <= limits->window_page_count - promise->window);
}

size_t sched_logits_max(const struct sched_limits *limits) {
    if (limits->scores)
        return (limits->pass_tokens + 1) / 2;
    return size_min(limits->batch_max, limits->pass_tokens);
}

size_t sched_pages_set_aside(size_t pass_tokens) {
    return kv_pages_for(pass_tokens - 1);
}

bool sched_can_ever_fit(const struct sched *sched, size_t prompt_count, size_t max_tokens) {
    size_t tokens;
    struct promise promise = {0};
    if (!size_add(prompt_count, max_tokens, &tokens))
        return false;
    promise_add(&promise, &sched->limits, kv_pages_for(tokens));
    return can_keep(&sched->limits, &promise);
}

/* Whether the row can be protected beside those that are. */
static bool can_protect(const struct sched *sched, const struct seq *seq) {
    struct promise promise = {0};
    promise_add(&promise, &sched->limits, seq->pages_cap);
    for (size_t i = 0; i < sched->protected_count; i++)
        promise_add(&promise, &sched->limits, sched->rows[i]->pages_cap);
    return can_keep(&sched->limits, &promise);
}

/* ---- what is expected */

/* The first rows are on their way. */
static bool is_opening(const struct sched *sched) {
    return sched->limits.opening_tokens > 0 && sched->ended_rows < sched->limits.opening_rows;
}

static size_t pass_tokens(const struct sched *sched, size_t decoded) {
    size_t most = pace_tokens(&sched->pace, decoded, sched->limits.pass_tokens);
    return is_opening(sched) ? size_min(most, sched->limits.opening_tokens) : most;
}

/* Tokens of prompts that go into a pass beside so many of decoding rows: what the pace allows, and
 * always some, but for the passes of the opening that have enough of others. */
static size_t prefill_tokens(const struct sched *sched, size_t decoded) {
    size_t most = pass_tokens(sched, decoded);
    size_t least = sched->limits.pass_tokens / SL_PROMPT_SHARE_LEAST;
    size_t slack = most > decoded ? most - decoded : 0;
    if (is_opening(sched) && decoded > 0)
        return slack;
    least = least > 0 ? least : 1;
    return slack > least ? slack : least;
}

/* Pages of the row that are others' too, by the part of each that is not counted with it: with rows
 * that are all counted anew one of its holders' parts, else all, since the others have it already.
 */
static double shared_pages(const struct sched *sched, const struct seq *seq, bool is_one_more) {
    if (sched->prefix == NULL)
        return 0;
    const struct kv_pool *pool = &sched->prefix->kv->pools[KV_WHOLE];
    const struct seq_pages *pages = &seq->pages[KV_WHOLE];
    double shared = 0;
    for (size_t i = pages->first; i < pages->count; i++) {
        uint32_t holders = pool->pages[pages->numbers[i]].holders;
        shared += holders > 1 ? (is_one_more ? 1 : 1 - 1.0 / holders) : 0;
    }
    return shared + (double)(awaited(seq) / SL_PAGE_TOKENS);
}

static struct outlook_row outlook_of(const struct sched *sched, const struct seq *seq,
                                     bool is_one_more) {
    return (struct outlook_row){.tokens = seq->token_count,
                                .answer = seq_answer_count(seq),
                                .max_tokens = seq->max_tokens,
                                .delay =
                                    (pending(seq) - awaited(seq) - 1) / sched->limits.pass_tokens,
                                .shared_pages = shared_pages(sched, seq, is_one_more),
                                .is_certain = seq->ignores_eos};
}

static void add_to_outlook(struct sched *sched, const struct seq *seq, bool is_one_more) {
    struct outlook_row row = outlook_of(sched, seq, is_one_more);
    outlook_add(&sched->outlook, &sched->expect, &row);
    size_t done = size_max(seq->computed + awaited(seq), seq->alike_count);
    if (pending(seq) > 1)
        sched->prefill_pending += seq->token_count - (sched->prefix != NULL ? done : seq->computed);
    else
        sched->decoding_count++;
}

/* The last live row comes in: it is counted without what it need not compute. */
static void enter_outlook(struct sched *sched, struct seq *seq) {
    if (sched->prefix != NULL)
        prefix_join(sched->prefix, seq);
    if (has_forks(sched))
        seq->awaited = fork_awaited(sched->rows, sched->live_count - 1, false);
    if (sched->has_outlook)
        add_to_outlook(sched, seq, true);
}

static void make_outlook(struct sched *sched) {
    if (sched->has_outlook)
        return;
    outlook_clear(&sched->outlook);
    sched->prefill_pending = sched->decoding_count = 0;
    for (size_t i = 0; i < sched->live_count; i++)
        add_to_outlook(sched, sched->rows[i], false);
    sched->has_outlook = true;
}

static double usable(size_t pages) {
    return (double)(pages - pages / PAGES_SPARE);
}

/* Tokens of the row whose pages live rows hold, in full pages: no more than the last of them with
 * that prefix has computed. */
static size_t tokens_alike(const struct sched *sched, const struct sched_ask *ask) {
    for (size_t i = sched->live_count; ask->prefix != 0 && i > 0; i--) {
        const struct seq *seq = sched->rows[i - 1];
        if (seq->prefix == ask->prefix)
            return size_min(size_min(ask->shared_tokens, seq->computed), ask->prompt_count - 1) /
                   SL_PAGE_TOKENS * SL_PAGE_TOKENS;
    }
    return 0;
}

/* Whether one row more is expected to find its pages, and a place for its prompt in the next pass.
 */
static bool has_room(struct sched *sched, const struct outlook_row *row) {
    const struct sched_limits *limits = &sched->limits;
    make_outlook(sched);
    size_t tokens = sched->decoding_count + sched->prefill_pending;
    size_t most = sched->prefill_pending > 0 ? pass_tokens(sched, sched->decoding_count)
                                             : limits->pass_tokens;
    if (tokens >= most)
        return false;
    double again = sched->again_lately / (sched->computed_lately + 1);
    double deviations = DEVIATIONS_LEAST + again / AGAIN_SHARE;
    struct outlook_room room = {
        .whole_pages = limits->is_all_windowed ? INFINITY : usable(limits->page_count),
        .window_pages = INFINITY,
        .deviations = deviations < DEVIATIONS_MOST ? deviations : DEVIATIONS_MOST,
    };
    if (limits->window > 0)
        room.window_pages =
            (double)limits->window_page_count - (double)sched_pages_set_aside(limits->pass_tokens);
    return outlook_has_room(&sched->outlook, &sched->expect, row, &room);
}

/* ---- one after the other
 *
 * Rows that all go on to their limits would enter together and end together, with pages unused in
 * between. So each takes of a credit the pages of its life, summed over its passes, and each pass
 * gives what it has: rows then enter as evenly as they can go on for ever. Rows that end at many
 * different times come apart by themselves, and a job of few rows is over before that pays. */

static double life_of(const struct sched *sched, size_t prompt, size_t max_tokens,
                      bool is_certain) {
    double passes = is_certain ? (double)max_tokens : expect_length(&sched->expect, 0, max_tokens);
    return passes * ((double)prompt + passes / 2 + SL_PAGE_TOKENS / 2.0) / SL_PAGE_TOKENS;
}

bool sched_knows_late(const struct sched *sched) {
    return sched->expect.reached[SL_EXPECT_BINS - 1] >= LATE_ROWS_LEAST;
}

static bool must_wait(const struct sched *sched, const struct sched_ask *ask) {
    const struct expect *expect = &sched->expect;
    bool is_late =
        ask->is_certain || (sched_knows_late(sched) && expect->survival[SL_EXPECT_BINS] > 0.5);
    if (!is_late || sched->credit > 0 || sched->limits.is_all_windowed)
        return false;
    double passes = (double)ask->max_tokens; /* until the rows that have room have ended */
    size_t own = ask->prompt_count - tokens_alike(sched, ask);
    double life = life_of(sched, own, ask->max_tokens, true);
    double rows = passes * (double)sched->limits.page_count / life;
    return (double)ask->waiting_count > 2 * rows;
}

bool sched_fits(struct sched *sched, const struct sched_ask *ask) {
    size_t tokens;
    if (!sched_can_ever_fit(sched, ask->prompt_count, ask->max_tokens) ||
        sched->inside_count >= sched->limits.batch_max || sched->live_count < sched->inside_count ||
        !size_add(ask->prompt_count, ask->answer_count, &tokens))
        return false;
    size_t alike = tokens_alike(sched, ask);
    struct outlook_row row = {.tokens = tokens,
                              .answer = ask->answer_count,
                              .max_tokens = ask->max_tokens,
                              .delay = (tokens - alike - 1) / sched->limits.pass_tokens,
                              .shared_pages = (double)(alike / SL_PAGE_TOKENS),
                              .is_certain = ask->is_certain};
    return sched->inside_count == 0 || (!must_wait(sched, ask) && has_room(sched, &row));
}

/* ---- who is inside */

void sched_admit(struct sched *sched, struct seq *seq) {
    must(sched->inside_count < sched->limits.batch_max);
    must(sched->live_count == sched->inside_count);
    must(seq->pages_cap == kv_pages_for(seq->prompt_count + seq->max_tokens));
    sched->rows[sched->inside_count++] = seq;
    sched->live_count++;
    enter_outlook(sched, seq);
    size_t own = seq->prompt_count - size_min(seq->computed, seq->prompt_count);
    double pages = (double)sched->limits.page_count; /* what is long ago counts no more */
    sched->credit = sched->credit > -pages ? sched->credit : -pages;
    sched->credit -= life_of(sched, own, seq->max_tokens, seq->ignores_eos);
    if (seq->ignores_eos)
        return;
    expect_enter(&sched->expect);
    expect_grow(&sched->expect, 0, seq_answer_count(seq), seq->max_tokens);
}

void sched_grow(struct sched *sched, const struct seq *seq) {
    size_t count = seq_answer_count(seq);
    must(count >= 1);
    sched->has_outlook = false;
    if (!seq->ignores_eos)
        expect_grow(&sched->expect, count - 1, count, seq->max_tokens);
}

void sched_remove(struct sched *sched, struct seq *seq) {
    size_t at = 0;
    while (at < sched->live_count && sched->rows[at] != seq)
        at++;
    must(at < sched->live_count);
    sched->protected_count -= at < sched->protected_count;
    sched->live_count--;
    sched->inside_count--;
    for (size_t i = at; i < sched->inside_count; i++)
        sched->rows[i] = sched->rows[i + 1];
    if (at < sched->turn) /* the rows behind it moved up; none loses its turn */
        sched->turn--;
    sched->has_outlook = false;
    sched->ended_rows += seq->finish != FINISH_NONE;
    if (seq->finish == FINISH_STOP && !seq->ignores_eos)
        expect_end(&sched->expect, seq_answer_count(seq), seq->max_tokens);
}

/* The last one live goes before all that are not protected. */
static void protect_last(struct sched *sched) {
    struct seq *seq = sched->rows[sched->live_count - 1];
    for (size_t i = sched->live_count - 1; i > sched->protected_count; i--)
        sched->rows[i] = sched->rows[i - 1];
    sched->rows[sched->protected_count] = seq;
    if (sched->turn > sched->protected_count)
        sched->turn++;
    sched->protected_count++;
}

/* The first suspended rows, as far as they fit. Where nobody is live one does. */
static void resume(struct sched *sched) {
    while (sched->live_count < sched->inside_count) {
        struct seq *seq = sched->rows[sched->live_count];
        struct outlook_row row = outlook_of(sched, seq, true);
        bool is_worn = seq->suspensions >= SL_SUSPENSIONS_MAX;
        if (sched->live_count > 0 &&
            (!has_room(sched, &row) || (is_worn && !can_protect(sched, seq))))
            return;
        sched->live_count++;
        enter_outlook(sched, seq);
        if (is_worn)
            protect_last(sched);
    }
}

static void suspend_last(struct sched *sched, struct kv *kv) {
    struct seq *seq = sched->rows[--sched->live_count];
    must(sched->live_count >= sched->protected_count);
    sched->chosen_tokens -= seq->chosen;
    sched->chosen_logits -= seq_logits(seq, seq->computed + seq->chosen);
    sched->suspensions++;
    sched->tokens_given_up += seq->computed;
    sched->again_lately += (double)seq->computed;
    seq_suspend(seq, kv);
    sched->has_outlook = false;
}

/* ---- the next pass */

/* Tokens of the row, at most `count`, for which pages are there. */
static size_t count_with_pages(const struct seq *seq, const struct kv *kv, size_t count) {
    for (int group = 0; group < KV_GROUPS; group++) {
        if (group == KV_STATE || kv->pools[group].page_bytes == 0)
            continue; /* there is a state for every row */
        size_t pages = seq->pages[group].count + kv_free(kv, (enum kv_group)group);
        size_t end = pages * SL_PAGE_TOKENS;
        count = size_min(count, end > seq->computed ? end - seq->computed : 0);
    }
    return count;
}

/* Tokens of the row, at most `count`, whose logits this pass has room for. */
static size_t count_with_logits(const struct sched *sched, const struct seq *seq, size_t count) {
    size_t wanted = seq_logits(seq, seq->computed + count);
    size_t left = sched_logits_max(&sched->limits) - sched->chosen_logits;
    return wanted > left ? count - (wanted - left) : count;
}

/* Where the row's next tokens end for others to go on from there, if a page is sure to be there for
 * its state: each row inside may need one. Kept ones of this pass so outlive the next admissions.
 */
static size_t choose_fork(const struct sched *sched, size_t index) {
    if (!has_forks(sched))
        return 0;
    size_t pages = sched->prefix->kv->pools[KV_STATE].page_count;
    if (pages <= sched->inside_count + sched->chosen_forks)
        return 0;
    return fork_next(sched->rows, sched->live_count, index);
}

/* Chooses tokens of the index-th row, `most` or fewer, and takes their pages. Where there are pages
 * for none and it takes_pages, the last rows make room; none are chosen of the last itself when it
 * lacks them: it waits. */
static void choose(struct sched *sched, struct kv *kv, size_t index, size_t most,
                   bool takes_pages) {
    struct seq *seq = sched->rows[index];
    size_t fork = most > 0 ? choose_fork(sched, index) : 0;
    if (fork > 0)
        most = size_min(most, fork - seq->computed);
    size_t count = count_with_logits(sched, seq, size_min(pending(seq), most));
    size_t chosen = count_with_pages(seq, kv, count);
    while (takes_pages && count > 0 && chosen == 0 && sched->live_count > index + 1) {
        suspend_last(sched, kv);
        chosen = count_with_pages(seq, kv, count);
    }
    if (chosen > 0)
        must(seq_take_pages(seq, kv, seq->computed + chosen));
    sched->chosen_tokens += chosen;
    sched->chosen_logits += seq_logits(seq, seq->computed + chosen);
    seq->chosen = chosen;
    seq->fork = chosen > 0 ? fork : 0;
    sched->chosen_forks += seq->fork > 0;
}

static void publish(struct sched *sched, struct seq *seq) {
    if (sched->prefix != NULL && seq->chosen > 0)
        prefix_publish(sched->prefix, seq, seq->computed + seq->chosen);
}

/* Prompts, oldest first. A row whose prompt has no room in this pass joins others too: their pages
 * are there now. */
static void choose_prompts(struct sched *sched, struct kv *kv) {
    size_t most = sched->chosen_tokens + prefill_tokens(sched, sched->chosen_tokens);
    most = size_min(most, sched->limits.pass_tokens);
    for (size_t i = 0; i < sched->live_count; i++) {
        struct seq *seq = sched->rows[i];
        if (seq->computed + 1 == seq->token_count || seq->chosen > 0)
            continue;
        if (has_forks(sched)) /* it has joined what there is */
            seq->awaited = fork_awaited(sched->rows, i, true);
        else if (sched->prefix != NULL)
            prefix_join(sched->prefix, seq);
        if (seq->awaited == 0)
            choose(sched, kv, i, most - sched->chosen_tokens, false);
        publish(sched, seq);
    }
}

/* Before turns and forks are chosen: whoever can go on from a state does, and waits no more. It may
 * have one token left. */
static void join_all(struct sched *sched) {
    for (size_t i = 0; has_forks(sched) && i < sched->live_count; i++)
        if (pending(sched->rows[i]) > 1)
            prefix_join(sched->prefix, sched->rows[i]);
}

/* Whose turn it is to decode: as many rows as a pass has tokens, from `begin` on. */
static void mark_turns(struct sched *sched, size_t begin) {
    size_t count = sched->live_count, marked = 0;
    for (size_t i = 0; i < count; i++) {
        struct seq *seq = sched->rows[(begin + i) % count];
        seq->chosen = seq->fork = seq->awaited = 0;
        seq->has_turn = pending(seq) == 1 && marked < sched->limits.pass_tokens;
        marked += seq->has_turn;
    }
}

/* Chooses what the next pass computes. Who takes pages from others comes first: what is published
 * is computed in this pass. */
static void choose_all(struct sched *sched, struct kv *kv) {
    size_t most = sched->limits.pass_tokens;
    sched->chosen_tokens = sched->chosen_logits = sched->chosen_forks = 0;
    for (size_t i = 0; i < sched->live_count; i++) /* the last may go meanwhile */
        if (sched->rows[i]->has_turn)
            choose(sched, kv, i, 1, true);
    if (sched->live_count > 0 && pending(sched->rows[0]) > 1 && sched->chosen_tokens < most) {
        size_t room = prefill_tokens(sched, sched->chosen_tokens);
        if (sched->prefix != NULL)
            prefix_join(sched->prefix, sched->rows[0]);
        choose(sched, kv, 0, size_min(room, most - sched->chosen_tokens), true);
    }
    for (size_t i = 0; i < sched->live_count; i++)
        publish(sched, sched->rows[i]);
    choose_prompts(sched, kv);
}

static void add_pick(struct sched *sched, struct seq *seq) {
    sched->picks[sched->pick_count++] =
        (struct sched_pick){.seq = seq,
                            .first = seq->computed,
                            .count = seq->chosen,
                            .logits = seq_logits(seq, seq->computed + seq->chosen)};
    sched->pick_tokens += seq->chosen;
}

void sched_pick(struct sched *sched, struct kv *kv) {
    resume(sched);
    size_t begin = sched->turn < sched->live_count ? sched->turn : 0, count = sched->live_count;
    join_all(sched);
    mark_turns(sched, begin);
    choose_all(sched, kv);
    sched->pick_count = sched->pick_tokens = 0;
    for (size_t i = 0; i < count; i++) { /* in the order of turns */
        size_t at = (begin + i) % count;
        if (at >= sched->live_count || !sched->rows[at]->has_turn || sched->rows[at]->chosen == 0)
            continue;
        add_pick(sched, sched->rows[at]);
        sched->turn = at + 1;
    }
    for (size_t i = 0; i < sched->live_count; i++)
        if (!sched->rows[i]->has_turn && sched->rows[i]->chosen > 0)
            add_pick(sched, sched->rows[i]);
    must(sched->live_count == 0 || sched->pick_tokens > 0);
    must(sched->pick_tokens == sched->chosen_tokens);
    must(sched->pick_tokens <= sched->limits.pass_tokens);
    sched->has_outlook = false;
}

void sched_learn(struct sched *sched, double seconds, double wait_seconds) {
    double pages = (double)sched->limits.page_count;
    pace_learn(&sched->pace, sched->pick_tokens, seconds, wait_seconds);
    sched->computed_lately = sched->computed_lately * AGAIN_FADE + (double)sched->pick_tokens;
    sched->again_lately *= AGAIN_FADE;
    sched->credit = sched->credit < 0 ? sched->credit + pages : pages;
}
