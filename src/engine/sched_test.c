/* The scheduler by hand, and random jobs that check its promises at each pass. */
#include "engine/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sched_for_test.h"

static bool windows[2];
static struct config tiny = {.layers = 2, .kv_heads = 1, .head_dim = 2, .is_windowed = windows};
static const uint32_t prompt[4096];
static struct kv kv;

static struct seq *new_seq(size_t prompt_count, size_t max_tokens) {
    struct seq_request request = {
        .prompt = prompt, .prompt_count = prompt_count, .max_tokens = max_tokens};
    struct seq *seq = NULL;
    struct error err;
    assert_int_equal(seq_new(&request, &seq, &err), SL_OK);
    return seq;
}

static struct sched new_sched(size_t batch_max, size_t pass_tokens, size_t page_count) {
    struct sched sched;
    struct error err;
    struct sched_limits limits = {
        .batch_max = batch_max, .pass_tokens = pass_tokens, .page_count = page_count};
    size_t counts[KV_GROUPS] = {page_count, 0};
    windows[0] = windows[1] = false;
    assert_int_equal(sched_init(&sched, &limits, &err), SL_OK);
    assert_int_equal(kv_init(&kv, &tiny, KV_BF16, counts, &err), SL_OK);
    return sched;
}

static void release(struct sched *sched) {
    while (sched->inside_count > 0)
        seq_free(sched->rows[--sched->inside_count], &kv);
    sched_release(sched);
    assert_int_equal(kv_pages_used(&kv), 0);
    kv_release(&kv);
}

static void pick(struct sched *sched) {
    sched_pick(sched, &kv);
}

static bool fits(struct sched *sched, size_t prompt_count, size_t max_tokens) {
    struct sched_ask ask = {.prompt_count = prompt_count, .max_tokens = max_tokens};
    return sched_fits(sched, &ask);
}

static struct seq *admit(struct sched *sched, size_t prompt_count, size_t max_tokens) {
    struct seq *seq = new_seq(prompt_count, max_tokens);
    sched_admit(sched, seq);
    return seq;
}

/* As the engine does after a pass: what was picked is computed, and who has logits has a token
 * more. */
static void compute(struct sched *sched) {
    for (size_t i = 0; i < sched->pick_count; i++) {
        struct sched_pick *one = &sched->picks[i];
        one->seq->computed += one->count;
        if (one->logits == 0)
            continue;
        one->seq->tokens[one->seq->token_count++] = 1;
        sched_grow(sched, one->seq);
    }
}

static void end(struct sched *sched, struct seq *seq, enum finish finish) {
    seq->finish = finish;
    sched_remove(sched, seq);
    seq_free(seq, &kv);
}

static void row_enters_when_rows_and_pages_allow(void **state) {
    (void)state;
    struct sched sched = new_sched(2, 256, 5);
    assert_true(fits(&sched, 40, 40)); /* 5 pages */
    assert_false(fits(&sched, 40, 41));
    assert_false(sched_can_ever_fit(&sched, 40, 41));
    assert_false(sched_can_ever_fit(&sched, SIZE_MAX, 2));
    assert_false(fits(&sched, SIZE_MAX, 2));
    struct seq *first = admit(&sched, 16, 17); /* 3 pages at its end */
    assert_true(fits(&sched, 16, 1));
    assert_true(fits(&sched, 64, 1)); /* 4 pages beside the 1 that the first has until then */
    assert_false(fits(&sched, 65, 1));
    admit(&sched, 1, 1);
    assert_false(fits(&sched, 1, 1)); /* two rows at most */
    end(&sched, first, FINISH_LENGTH);
    assert_true(fits(&sched, 32, 16));
    release(&sched);
}

/* Two rows of 4 pages each, in 6 pages: the second enters once it will have 2 when the first ends.
 */
static void a_row_enters_when_others_will_have_ended(void **state) {
    (void)state;
    struct sched sched = new_sched(9, 256, 6);
    struct sched_ask ask = {.prompt_count = 16, .max_tokens = 48, .is_certain = true};
    struct seq *first = new_seq(16, 48);
    first->ignores_eos = true;
    sched_admit(&sched, first);
    assert_false(sched_fits(&sched, &ask));
    for (size_t i = 0; i < 26; i++) {
        pick(&sched);
        compute(&sched);
    }
    /* 42 tokens, and 22 to come: at its end it has 4 pages, and the other 16 + 21, which take 3. */
    assert_false(sched_fits(&sched, &ask));
    for (size_t i = 0; i < 9; i++) {
        pick(&sched);
        compute(&sched);
    }
    assert_true(sched_fits(&sched, &ask)); /* 16 + 12: 2 pages */
    release(&sched);
}

static void a_prompt_enters_when_the_next_pass_has_a_place_for_it(void **state) {
    (void)state;
    struct sched sched = new_sched(9, 8, 100);
    assert_true(fits(&sched, 19, 5));
    admit(&sched, 19, 5);
    assert_false(fits(&sched, 1, 5)); /* 19 tokens wait for 8 */
    pick(&sched);
    compute(&sched);
    pick(&sched);
    compute(&sched);
    assert_true(fits(&sched, 100, 5)); /* 3 wait */
    release(&sched);
}

static void windowed_layers_bound_the_rows_too(void **state) {
    (void)state;
    struct sched_limits limits = {
        .batch_max = 9, .pass_tokens = 8, .page_count = 40, .window_page_count = 8, .window = 20};
    struct sched sched;
    struct error err;
    assert_int_equal(sched_init(&sched, &limits, &err), SL_OK);
    assert_true(sched_can_ever_fit(&sched, 600, 40));
    assert_false(sched_can_ever_fit(&sched, 600, 41)); /* for the other layers */
    sched.limits.is_all_windowed = true;
    assert_true(sched_can_ever_fit(&sched, 600, 41));
    sched.limits.window_page_count = 3; /* window 20 touches 3 pages, and 8 tokens take 1 more */
    assert_true(sched_can_ever_fit(&sched, 24, 24));
    assert_false(sched_can_ever_fit(&sched, 24, 25));
    sched_release(&sched);
}

static void prompt_goes_in_by_chunks(void **state) {
    (void)state;
    struct sched sched = new_sched(2, 8, 100);
    admit(&sched, 19, 5);
    static const size_t firsts[] = {0, 8, 16, 19, 20}, counts[] = {8, 8, 3, 1, 1};
    for (size_t pass = 0; pass < 5; pass++) {
        pick(&sched);
        assert_int_equal(sched.pick_count, 1);
        assert_int_equal(sched.picks[0].first, firsts[pass]);
        assert_int_equal(sched.picks[0].count, counts[pass]);
        assert_int_equal(sched.picks[0].logits > 0, pass >= 2);
        compute(&sched);
    }
    release(&sched);
}

static void decoding_rows_come_before_newcomers(void **state) {
    (void)state;
    struct sched sched = new_sched(4, 10, 100);
    struct seq *old = new_seq(4, 9), *a = new_seq(6, 9), *b = new_seq(9, 9);
    sched_admit(&sched, old);
    pick(&sched);
    compute(&sched); /* old decodes now */
    sched_admit(&sched, a);
    sched_admit(&sched, b);
    pick(&sched);
    assert_int_equal(sched.pick_count, 3);
    assert_ptr_equal(sched.picks[0].seq, old);
    assert_ptr_equal(sched.picks[1].seq, a);
    assert_int_equal(sched.picks[1].count, 6);
    assert_true(sched.picks[1].logits > 0);
    assert_ptr_equal(sched.picks[2].seq, b);
    assert_int_equal(sched.picks[2].count, 3); /* what is left of 10 */
    assert_false(sched.picks[2].logits > 0);
    assert_int_equal(sched.pick_tokens, 10);
    release(&sched);
}

static void decoding_rows_take_turns(void **state) {
    (void)state;
    struct sched sched = new_sched(5, 2, 100);
    struct seq *seqs[5];
    for (size_t i = 0; i < 5; i++) {
        seqs[i] = new_seq(1, 50);
        sched_admit(&sched, seqs[i]);
    }
    for (size_t pass = 0; pass < 10; pass++) {
        pick(&sched);
        assert_int_equal(sched.pick_count, 2);
        assert_ptr_equal(sched.picks[0].seq, seqs[2 * pass % 5]);
        assert_ptr_equal(sched.picks[1].seq, seqs[(2 * pass + 1) % 5]);
        compute(&sched);
    }
    /* Next would be 0 and 1; without 4, which stands before nobody's turn, still so. */
    sched_remove(&sched, seqs[4]);
    pick(&sched);
    assert_ptr_equal(sched.picks[0].seq, seqs[0]);
    assert_ptr_equal(sched.picks[1].seq, seqs[1]);
    compute(&sched);
    sched_remove(&sched, seqs[0]); /* before the turn: 2 is still next */
    pick(&sched);
    assert_ptr_equal(sched.picks[0].seq, seqs[2]);
    assert_ptr_equal(sched.picks[1].seq, seqs[3]);
    seq_free(seqs[0], &kv);
    seq_free(seqs[4], &kv);
    release(&sched);
}

/* Until one row has ended no pass is longer than 16 tokens, however long the prompt that waits, and
 * whoever has decoded goes on. */
static void first_rows_are_not_held_up_by_the_prompts_of_others(void **state) {
    (void)state;
    struct sched sched = new_sched(8, 64, 100);
    sched.limits.opening_rows = 1;
    sched.limits.opening_tokens = 16;
    struct seq *first = admit(&sched, 10, 4);
    admit(&sched, 100, 4);
    pick(&sched);
    assert_int_equal(sched.pick_tokens, 16);
    compute(&sched);
    pick(&sched);
    assert_int_equal(sched.pick_tokens, 16); /* one of them the first row's */
    assert_false(fits(&sched, 10, 4));
    compute(&sched);
    end(&sched, first, FINISH_STOP);
    pick(&sched);
    assert_int_equal(sched.pick_tokens, 64);
    release(&sched);
}

/* Rows that decode fill the passes of the opening: prompts wait, and go on behind it. */
static void prompts_wait_where_decoding_rows_fill_the_opening(void **state) {
    (void)state;
    struct sched sched = new_sched(32, 64, 100);
    struct seq *first = NULL;
    for (size_t i = 0; i < 20; i++)
        first = admit(&sched, 1, 4);
    pick(&sched);
    compute(&sched);
    sched.limits.opening_rows = 1;
    sched.limits.opening_tokens = 16;
    admit(&sched, 30, 4);
    pick(&sched);
    assert_int_equal(sched.pick_tokens, 20);
    compute(&sched);
    end(&sched, first, FINISH_LENGTH);
    pick(&sched);
    assert_int_equal(sched.pick_tokens, 19 + 30);
    release(&sched);
}

static void nobody_inside_means_nothing_to_pick(void **state) {
    (void)state;
    struct sched sched = new_sched(3, 3, 3);
    pick(&sched);
    assert_int_equal(sched.pick_count, 0);
    assert_int_equal(sched.pick_tokens, 0);
    sched_release(&sched);
    sched_release(&sched);
    kv_release(&kv);
}

/* Three rows that were expected to end early outgrow 6 pages. */
static void the_newest_row_gives_its_pages_up_and_goes_on_later(void **state) {
    (void)state;
    struct sched sched = new_sched(9, 64, 6);
    struct seq *seqs[3];
    for (size_t i = 0; i < 3; i++)
        seqs[i] = admit(&sched, 15, 60);
    for (size_t i = 0; i < 18; i++) { /* 32 tokens each: all six pages */
        pick(&sched);
        assert_int_equal(sched.pick_count, 3);
        compute(&sched);
    }
    seqs[2]->tokens[20] = 77;
    assert_int_equal(kv_free(&kv, KV_WHOLE), 0);
    pick(&sched);
    assert_int_equal(sched.pick_count, 2);
    assert_ptr_equal(sched.picks[0].seq, seqs[0]);
    assert_ptr_equal(sched.picks[1].seq, seqs[1]);
    assert_int_equal(sched.live_count, 2);
    assert_int_equal(sched.inside_count, 3);
    assert_int_equal(sched.tokens_given_up, 32);
    assert_int_equal(seqs[2]->pages[KV_WHOLE].count, 0);
    assert_int_equal(seqs[2]->token_count, 33);
    assert_false(fits(&sched, 1, 1)); /* nobody new passes it */
    compute(&sched);
    end(&sched, seqs[0], FINISH_STOP);
    end(&sched, seqs[1], FINISH_STOP);
    pick(&sched);
    assert_int_equal(sched.pick_count, 1);
    assert_ptr_equal(sched.picks[0].seq, seqs[2]);
    assert_int_equal(sched.picks[0].first, 0);
    assert_int_equal(sched.picks[0].count, 33); /* prompt and answer again */
    assert_true(sched.picks[0].logits > 0);
    assert_int_equal(seqs[2]->tokens[20], 77);
    assert_int_equal(seqs[2]->given_count, 33);
    assert_int_equal(sched.suspensions, 1);
    release(&sched);
}

/* ---- random jobs ---- */

#define ROWS_MAX 60

struct watch {
    size_t wait[ROWS_MAX]; /* passes since the row, live and decoding, last had a token */
    size_t suspensions, protected_passes, full_passes;
    bool window_was_full;
    bool is_deceived; /* before each pass the scheduler is told that answers are short */
};

static uint64_t random_state;
static size_t below(size_t limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 20) % limit;
}

static void check_picks(const struct sched *sched) {
    size_t tokens = 0;
    assert_true(sched->pick_count <= sched->live_count);
    for (size_t i = 0; i < sched->pick_count; i++) {
        const struct sched_pick *one = &sched->picks[i];
        size_t pending = one->seq->token_count - one->seq->computed;
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(sched->picks[j].seq, one->seq);
        assert_int_equal(one->first, one->seq->computed);
        assert_in_range(one->count, 1, pending);
        assert_int_equal(one->logits > 0, one->count == pending);
        tokens += one->count;
    }
    assert_int_equal(tokens, sched->pick_tokens);
    assert_in_range(tokens, 1, sched->limits.pass_tokens);
}

/* What the pick sees is there. */
static void check_pages_of(const struct sched_pick *one, const struct kv *pools) {
    size_t window = pools->window, last = one->first + one->count - 1;
    size_t oldest = one->first >= window ? one->first - window + 1 : 0;
    for (int group = 0; group < KV_GROUPS; group++) {
        const struct kv_pool *pool = &pools->pools[group];
        size_t from = group == KV_WINDOW ? oldest / 16 : 0;
        for (size_t page = from; pool->page_bytes > 0 && page <= last / 16; page++)
            assert_true(one->seq->pages[group].numbers[page] < pool->page_count);
    }
}

/* Each page is with one row or free. */
static void check_group(const struct play *play, enum kv_group group) {
    const struct kv_pool *pool = &play->kv.pools[group];
    size_t used = 0;
    bool seen[1024] = {false};
    for (size_t i = 0; i < play->sched.inside_count; i++) {
        const struct seq_pages *pages = &play->sched.rows[i]->pages[group];
        used += pages->count - pages->first;
        if (i >= play->sched.live_count)
            assert_int_equal(pages->count, 0);
        for (size_t j = pages->first; j < pages->count; j++) {
            assert_false(seen[pages->numbers[j]]);
            seen[pages->numbers[j]] = true;
        }
    }
    for (size_t i = 0; i < pool->free_count; i++) {
        assert_false(seen[pool->free_pages[i]]);
        seen[pool->free_pages[i]] = true;
    }
    assert_int_equal(pool->pages_used, used);
    assert_int_equal(pool->free_count + used, pool->page_count);
}

/* Nobody waits for a token longer than a round of turns; the last one may, for pages. */
static void check_turns(const struct play *play, struct watch *watch) {
    const struct sched *sched = &play->sched;
    size_t bound = sched->limits.batch_max / sched->limits.pass_tokens + 3;
    for (size_t i = 0; i < sched->live_count; i++) {
        size_t at = (size_t)(uintptr_t)sched->rows[i]->user;
        bool is_decoding = sched->rows[i]->computed + 1 == sched->rows[i]->token_count;
        watch->wait[at] = is_decoding && sched->rows[i]->chosen == 0 ? watch->wait[at] + 1 : 0;
        if (i + 1 < sched->live_count)
            assert_true(watch->wait[at] <= bound);
    }
}

static void look(struct play *play) {
    struct watch *watch = play->ctx;
    const struct sched *sched = &play->sched;
    check_picks(sched);
    for (size_t i = 0; i < sched->pick_count; i++)
        check_pages_of(&sched->picks[i], &play->kv);
    check_group(play, KV_WHOLE);
    check_group(play, KV_WINDOW);
    check_turns(play, watch);
    size_t round = sched->limits.batch_max / sched->limits.pass_tokens + 2;
    struct seq *first = sched->rows[0];
    assert_true(first->chosen > 0 || watch->wait[(size_t)(uintptr_t)first->user] <= round);
    for (size_t i = 0; i < sched->inside_count; i++) {
        assert_in_range(sched->rows[i]->suspensions, 0, SL_SUSPENSIONS_MAX);
        if (i < sched->protected_count)
            assert_int_equal(sched->rows[i]->suspensions, SL_SUSPENSIONS_MAX);
        else if (i > sched->protected_count) /* by admission */
            assert_true(play->entered[(size_t)(uintptr_t)sched->rows[i - 1]->user] <
                        play->entered[(size_t)(uintptr_t)sched->rows[i]->user]);
    }
    watch->suspensions = sched->suspensions;
    watch->protected_passes += sched->protected_count > 0;
    watch->full_passes += kv_free(&play->kv, KV_WHOLE) == 0;
    const struct kv_pool *window = &play->kv.pools[KV_WINDOW];
    watch->window_was_full =
        watch->window_was_full || (window->page_bytes > 0 && window->free_count == 0);
}

/* Layers of one group or of both; the fewest pages with which the longest row can ever fit are
 * among the counts tried. Answers are short at first, and then as long as they may be, so that what
 * was learned is wrong. */
static void make_job(struct play *play, struct play_row rows[ROWS_MAX], struct watch *watch) {
    size_t kind = below(3), pass_tokens = 1 + below(below(4) ? 30 : 120);
    tiny.window = kind == 0 ? 0 : 1 + (uint32_t)below(50);
    windows[0] = kind > 0;
    windows[1] = kind > 1;
    size_t longest = kv_pages_for(90 + 60), most = kv_window_pages(tiny.window);
    size_t least = most + sched_pages_set_aside(pass_tokens);
    *play = (struct play){
        .rows = rows,
        .row_count = 1 + below(ROWS_MAX),
        .config = tiny,
        .look = look,
        .ctx = watch,
        .limits = {.batch_max = 1 + below(40),
                   .pass_tokens = pass_tokens,
                   .opening_rows = below(9),
                   .opening_tokens = 1 + below(pass_tokens),
                   .page_count = longest + below(24),
                   .window_page_count = (least < longest ? least : longest) + below(3) * below(12),
                   .window = tiny.window,
                   .is_all_windowed = kind == 2},
        .read_seconds = 1,
        .token_seconds = below(2) ? 0.001 : 0.1,
    };
    bool is_long = below(2); /* answers, beside their prompts */
    size_t turning = is_long ? 0 : below(ROWS_MAX);
    watch->is_deceived = below(2);
    for (size_t i = 0; i < play->row_count; i++) {
        rows[i].prompt = 1 + below(is_long ? 12 : 90);
        rows[i].max_tokens = is_long ? 60 + below(78) : 1 + below(60);
        rows[i].is_certain = below(8) == 0;
        rows[i].length = rows[i].max_tokens;
        if (!rows[i].is_certain && i < turning)
            rows[i].length = below(1 + rows[i].max_tokens / 4);
    }
}

static void deceive(struct sched *sched) {
    static const double short_ones[SL_EXPECT_BINS + 1] = {1000};
    expect_init(&sched->expect, short_ones);
    sched->again_lately = 0;
    sched->has_outlook = false;
}

static void random_jobs_end_with_every_promise_kept(void **state) {
    size_t full = 0, suspended = 0, protected_jobs = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 250; seed++) {
        struct play play;
        struct play_row rows[ROWS_MAX];
        struct watch watch = {0};
        random_state = seed * 0x9E3779B97F4A7C15u + 1;
        make_job(&play, rows, &watch);
        size_t tokens = 0;
        for (size_t i = 0; i < play.row_count; i++)
            tokens += rows[i].prompt + rows[i].length;
        play_begin(&play);
        while (play.ended < play.row_count) {
            if (watch.is_deceived)
                deceive(&play.sched);
            play_pass(&play);
            assert_true(play.passes <= (1 + SL_SUSPENSIONS_MAX) * tokens); /* one a pass would do */
        }
        play_end(&play);
        full += watch.window_was_full;
        suspended += watch.suspensions > 0;
        protected_jobs += watch.protected_passes > 0;
        sched_release(&play.sched);
    }
    assert_true(full >= 20); /* jobs in which a page fewer for windows would not have done */
    assert_true(suspended >= 60);
    assert_true(protected_jobs >= 10);
}

/* ---- jobs like real ones ---- */

struct sample {
    double median, spread; /* of answers, lognormal */
    size_t limit, pages;
    double fill_least, full_fill_least, again_most;
};

/* 2,000 prompts like those of a set of school problems, in a machine where passes wait for the
 * disk: pages are full while rows wait, and few tokens are computed twice. */
static void pages_are_full_while_rows_wait(void **state) {
    static const struct sample samples[] = {
        {110, 0.7, 512, 2400, 0.94, 0.97, 0.03}, {250, 0.6, 512, 2400, 0.94, 0.96, 0.03},
        {60, 1.0, 2048, 2400, 0.92, 0.97, 0.03}, {110, 0.7, 512, 800, 0.93, 0.94, 0.035},
        {1e9, 0.0, 128, 2600, 0.90, 0.93, 0.03},
    };
    static struct play_row rows[2000];
    (void)state;
    for (size_t s = 0; s < sizeof samples / sizeof samples[0]; s++) {
        const struct sample *sample = &samples[s];
        uint64_t random = 7;
        size_t needed = 0;
        for (size_t i = 0; i < 2000; i++) {
            double length = sample->median * exp(sample->spread * play_normal(&random));
            double most = (double)sample->limit;
            rows[i] = (struct play_row){
                .prompt = (size_t)(120 * exp(0.4 * play_normal(&random))),
                .max_tokens = sample->limit,
                .length = length < 1 ? 1 : (size_t)(length < most ? length : most)};
            needed += rows[i].prompt + rows[i].length;
        }
        windows[0] = windows[1] = false;
        struct play play = {
            .rows = rows,
            .row_count = 2000,
            .config = tiny,
            .limits = {.batch_max = 512, .pass_tokens = 512, .page_count = sample->pages},
            .read_seconds = 30,
            .token_seconds = 0.06,
        };
        play_all(&play);
        assert_true(play.fill >= sample->fill_least);
        assert_true(play.full_fill >= sample->full_fill_least);
        assert_true((double)play.sched.tokens_given_up <= sample->again_most * (double)needed);
        sched_release(&play.sched);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_enters_when_rows_and_pages_allow),
        cmocka_unit_test(a_row_enters_when_others_will_have_ended),
        cmocka_unit_test(a_prompt_enters_when_the_next_pass_has_a_place_for_it),
        cmocka_unit_test(windowed_layers_bound_the_rows_too),
        cmocka_unit_test(prompt_goes_in_by_chunks),
        cmocka_unit_test(decoding_rows_come_before_newcomers),
        cmocka_unit_test(decoding_rows_take_turns),
        cmocka_unit_test(first_rows_are_not_held_up_by_the_prompts_of_others),
        cmocka_unit_test(prompts_wait_where_decoding_rows_fill_the_opening),
        cmocka_unit_test(nobody_inside_means_nothing_to_pick),
        cmocka_unit_test(the_newest_row_gives_its_pages_up_and_goes_on_later),
        cmocka_unit_test(random_jobs_end_with_every_promise_kept),
        cmocka_unit_test(pages_are_full_while_rows_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
