/* The scheduler by hand, and a simulation of random jobs that checks its promises at each pass. */
#include "engine/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static bool windows[2];
static struct config tiny = {.layers = 2, .kv_heads = 1, .head_dim = 2, .is_windowed = windows};
static const uint32_t prompt[256];

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
    assert_int_equal(sched_init(&sched, &limits, &err), SL_OK);
    return sched;
}

/* As the engine does after a pass: what was picked is computed, and who has logits has a token
 * more. */
static void compute(struct sched *sched) {
    for (size_t i = 0; i < sched->pick_count; i++) {
        struct sched_pick *pick = &sched->picks[i];
        pick->seq->computed += pick->count;
        if (pick->wants_logits)
            pick->seq->tokens[pick->seq->token_count++] = 1;
    }
}

static void row_enters_when_rows_and_pages_allow(void **state) {
    (void)state;
    struct sched sched = new_sched(2, 8, 5);
    assert_true(sched_fits(&sched, 40, 40)); /* 5 pages */
    assert_false(sched_fits(&sched, 40, 41));
    assert_false(sched_can_ever_fit(&sched, 40, 41));
    assert_false(sched_can_ever_fit(&sched, SIZE_MAX, 2));
    assert_false(sched_fits(&sched, SIZE_MAX, 2));
    struct seq *first = new_seq(16, 17), *second = new_seq(1, 1); /* 3 pages, 1 page */
    sched_admit(&sched, first);
    assert_int_equal(sched.pages_promised, 3);
    assert_true(sched_fits(&sched, 16, 16));
    assert_false(sched_fits(&sched, 16, 17));
    assert_true(sched_can_ever_fit(&sched, 16, 17));
    sched_admit(&sched, second);
    assert_false(sched_fits(&sched, 1, 1)); /* two rows at most */
    sched_remove(&sched, first);
    assert_int_equal(sched.pages_promised, 1);
    assert_true(sched_fits(&sched, 32, 32));
    sched_remove(&sched, second);
    assert_int_equal(sched.live_count, 0);
    seq_free(first, NULL);
    seq_free(second, NULL);
    sched_release(&sched);
}

/* Window 20 touches 3 pages at most, and 8 tokens of a pass take 1 more. */
static void row_of_windowed_layers_is_promised_its_window(void **state) {
    (void)state;
    struct sched_limits limits = {
        .batch_max = 9, .pass_tokens = 8, .page_count = 40, .window_page_count = 8, .window = 20};
    struct sched sched;
    struct error err;
    assert_int_equal(sched_init(&sched, &limits, &err), SL_OK);
    assert_true(sched_can_ever_fit(&sched, 600, 40));
    assert_false(sched_can_ever_fit(&sched, 600, 41)); /* for the other layers */
    struct seq *first = new_seq(100, 100), *second = new_seq(40, 24);
    sched_admit(&sched, first);
    sched_admit(&sched, second);
    assert_int_equal(sched.pages_promised, 13 + 4);
    assert_int_equal(sched.window_promised, 3 + 3);
    assert_true(sched_fits(&sched, 8, 8));
    assert_false(sched_fits(&sched, 8, 9)); /* 6 + 2 + 1 set aside */
    sched_remove(&sched, first);
    sched_remove(&sched, second);
    assert_int_equal(sched.window_promised, 0);
    assert_int_equal(sched.window_excess, 0);
    sched.limits.is_all_windowed = true;
    assert_true(sched_can_ever_fit(&sched, 600, 41));
    sched.limits.window_page_count = 3;
    assert_true(sched_can_ever_fit(&sched, 24, 24));
    assert_false(sched_can_ever_fit(&sched, 24, 25));
    seq_free(first, NULL);
    seq_free(second, NULL);
    sched_release(&sched);
}

static void prompt_goes_in_by_chunks(void **state) {
    (void)state;
    struct sched sched = new_sched(2, 8, 100);
    struct seq *seq = new_seq(19, 5);
    sched_admit(&sched, seq);
    static const size_t firsts[] = {0, 8, 16, 19, 20}, counts[] = {8, 8, 3, 1, 1};
    for (size_t pass = 0; pass < 5; pass++) {
        sched_pick(&sched);
        assert_int_equal(sched.pick_count, 1);
        assert_int_equal(sched.picks[0].first, firsts[pass]);
        assert_int_equal(sched.picks[0].count, counts[pass]);
        assert_int_equal(sched.picks[0].wants_logits, pass >= 2);
        compute(&sched);
    }
    seq_free(seq, NULL);
    sched_release(&sched);
}

static void decoding_rows_come_before_newcomers(void **state) {
    (void)state;
    struct sched sched = new_sched(4, 10, 100);
    struct seq *old = new_seq(4, 9), *a = new_seq(6, 9), *b = new_seq(9, 9);
    sched_admit(&sched, old);
    sched_pick(&sched);
    compute(&sched); /* old decodes now */
    sched_admit(&sched, a);
    sched_admit(&sched, b);
    sched_pick(&sched);
    assert_int_equal(sched.pick_count, 3);
    assert_ptr_equal(sched.picks[0].seq, old);
    assert_ptr_equal(sched.picks[1].seq, a);
    assert_int_equal(sched.picks[1].count, 6);
    assert_true(sched.picks[1].wants_logits);
    assert_ptr_equal(sched.picks[2].seq, b);
    assert_int_equal(sched.picks[2].count, 3); /* what is left of 10 */
    assert_false(sched.picks[2].wants_logits);
    assert_int_equal(sched.pick_tokens, 10);
    seq_free(old, NULL);
    seq_free(a, NULL);
    seq_free(b, NULL);
    sched_release(&sched);
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
        sched_pick(&sched);
        assert_int_equal(sched.pick_count, 2);
        assert_ptr_equal(sched.picks[0].seq, seqs[2 * pass % 5]);
        assert_ptr_equal(sched.picks[1].seq, seqs[(2 * pass + 1) % 5]);
        compute(&sched);
    }
    /* Next would be 0 and 1; without 4, which stands before nobody's turn, still so. */
    sched_remove(&sched, seqs[4]);
    sched_pick(&sched);
    assert_ptr_equal(sched.picks[0].seq, seqs[0]);
    assert_ptr_equal(sched.picks[1].seq, seqs[1]);
    compute(&sched);
    sched_remove(&sched, seqs[0]); /* before the turn: 2 is still next */
    sched_pick(&sched);
    assert_ptr_equal(sched.picks[0].seq, seqs[2]);
    assert_ptr_equal(sched.picks[1].seq, seqs[3]);
    for (size_t i = 0; i < 5; i++)
        seq_free(seqs[i], NULL);
    sched_release(&sched);
}

static void nobody_inside_means_nothing_to_pick(void **state) {
    (void)state;
    struct sched sched = new_sched(3, 3, 3);
    sched_pick(&sched);
    assert_int_equal(sched.pick_count, 0);
    assert_int_equal(sched.pick_tokens, 0);
    sched_release(&sched);
    sched_release(&sched);
}

/* ---- simulation ---- */

#define ROWS_MAX 40

struct row {
    struct seq *seq;
    size_t length;      /* tokens it will have when it ends by itself */
    size_t waiting_for; /* passes since it last got a token while decoding */
};

struct world {
    uint64_t random;
    struct sched sched;
    struct kv kv;
    struct row rows[ROWS_MAX];
    size_t admitted, ended, rows_count;
};

static size_t below(struct world *world, size_t limit) {
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return (size_t)(world->random >> 20) % limit;
}

static struct row *row_of(struct world *world, const struct seq *seq) {
    for (size_t i = 0; i < world->admitted; i++)
        if (world->rows[i].seq == seq)
            return &world->rows[i];
    fail_msg("a seq that was never admitted");
    return NULL;
}

static void admit_some(struct world *world) {
    while (world->admitted < world->rows_count && below(world, 4) != 0) {
        size_t prompt_count = 1 + below(world, 90), max_tokens = 1 + below(world, 60);
        if (!sched_can_ever_fit(&world->sched, prompt_count, max_tokens))
            continue;
        if (!sched_fits(&world->sched, prompt_count, max_tokens))
            return;
        struct row *row = &world->rows[world->admitted++];
        row->seq = new_seq(prompt_count, max_tokens);
        row->length = prompt_count + 1 + below(world, max_tokens);
        row->waiting_for = 0;
        sched_admit(&world->sched, row->seq);
    }
}

static void check_picks(struct world *world) {
    const struct sched *sched = &world->sched;
    size_t tokens = 0;
    bool is_prefill_cut = false;
    assert_true(sched->pick_count <= sched->live_count);
    for (size_t i = 0; i < sched->pick_count; i++) {
        const struct sched_pick *pick = &sched->picks[i];
        size_t pending = pick->seq->token_count - pick->seq->computed;
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(sched->picks[j].seq, pick->seq);
        assert_int_equal(pick->first, pick->seq->computed);
        assert_in_range(pick->count, 1, pending);
        assert_int_equal(pick->wants_logits, pick->count == pending);
        assert_false(is_prefill_cut); /* who comes after a cut prompt got what an older one needs */
        is_prefill_cut = pick->count < pending;
        tokens += pick->count;
    }
    assert_int_equal(tokens, sched->pick_tokens);
    assert_in_range(tokens, 1, sched->limits.pass_tokens);
    /* Nobody is left out while there is room. */
    if (tokens < sched->limits.pass_tokens)
        assert_int_equal(sched->pick_count, sched->live_count);
}

static void check_turns(struct world *world) {
    const struct sched *sched = &world->sched;
    size_t bound = sched->limits.batch_max / sched->limits.pass_tokens + 2;
    for (size_t i = 0; i < sched->live_count; i++) {
        struct row *row = row_of(world, sched->live[i]);
        bool is_decoding = row->seq->computed >= row->seq->prompt_count;
        row->waiting_for = is_decoding ? row->waiting_for + 1 : 0;
    }
    for (size_t i = 0; i < sched->pick_count; i++)
        row_of(world, sched->picks[i].seq)->waiting_for = 0;
    for (size_t i = 0; i < sched->live_count; i++)
        assert_true(row_of(world, sched->live[i])->waiting_for <= bound);
}

/* The pages that a pick needs are there, always: that is what admission promises. */
static void take_pages(struct world *world) {
    for (size_t i = 0; i < world->sched.pick_count; i++) {
        struct sched_pick *pick = &world->sched.picks[i];
        assert_true(seq_take_pages(pick->seq, &world->kv, pick->first + pick->count));
        /* What the pick sees is there. */
        size_t window = world->kv.window, last = pick->first + pick->count - 1;
        size_t oldest = pick->first >= window ? pick->first - window + 1 : 0;
        const struct seq_pages *pages = &pick->seq->pages[KV_WINDOW];
        for (size_t page = oldest / 16; window > 0 && page <= last / 16; page++)
            assert_true(pages->numbers[page] < world->kv.pools[KV_WINDOW].page_count);
    }
}

static void end_some(struct world *world) {
    for (size_t i = 0; i < world->sched.pick_count; i++) {
        struct seq *seq = world->sched.picks[i].seq;
        struct row *row = row_of(world, seq);
        if (seq->token_count < row->length)
            continue;
        assert_true(seq->computed == seq->token_count - 1);
        sched_remove(&world->sched, seq);
        seq_free(seq, &world->kv);
        row->seq = NULL;
        world->ended++;
    }
}

/* Each page is with one row or free. */
static void check_group(const struct world *world, enum kv_group group) {
    const struct kv_pool *pool = &world->kv.pools[group];
    size_t used = 0;
    bool seen[512] = {false};
    for (size_t i = 0; i < world->sched.live_count; i++) {
        const struct seq_pages *pages = &world->sched.live[i]->pages[group];
        used += pages->count - pages->first;
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

static void check_pages(const struct world *world) {
    size_t promised = 0, window_promised = 0, most = kv_window_pages(world->kv.window);
    check_group(world, KV_WHOLE);
    check_group(world, KV_WINDOW);
    for (size_t i = 0; i < world->sched.live_count; i++) {
        const struct seq *seq = world->sched.live[i];
        const struct seq_pages *pages = &seq->pages[KV_WINDOW];
        promised += seq->pages_cap;
        window_promised += seq->pages_cap < most ? seq->pages_cap : most;
        assert_true(pages->count - pages->first <= most);
    }
    assert_int_equal(world->sched.pages_promised, promised);
    assert_int_equal(world->sched.window_promised, window_promised);
    if (!world->sched.limits.is_all_windowed)
        assert_true(promised <= world->kv.pools[KV_WHOLE].page_count);
    if (most > 0)
        assert_true(window_promised <= world->kv.pools[KV_WINDOW].page_count);
}

/* Layers of one group or of both; the fewest pages with which the longest row can ever fit are
 * among the counts tried. */
static void make_world(struct world *world) {
    struct error err;
    size_t kind = below(world, 3), pass_tokens = 1 + below(world, below(world, 4) ? 30 : 120);
    tiny.window = kind == 0 ? 0 : 1 + (uint32_t)below(world, 50);
    windows[0] = kind > 0;
    windows[1] = kind > 1;
    size_t longest = kv_pages_for(90 + 60), most = kv_window_pages(tiny.window);
    size_t aside = sched_pages_set_aside(pass_tokens), window_least = most + aside;
    window_least = window_least < longest ? window_least : longest;
    struct sched_limits limits = {
        .batch_max = 1 + below(world, 12),
        .pass_tokens = pass_tokens,
        .page_count = longest + below(world, 60),
        .window_page_count = window_least + below(world, 3) * below(world, 12),
        .window = tiny.window,
        .is_all_windowed = kind == 2,
    };
    size_t counts[KV_GROUPS] = {limits.page_count, limits.window_page_count};
    assert_int_equal(sched_init(&world->sched, &limits, &err), SL_OK);
    assert_int_equal(kv_init(&world->kv, &tiny, KV_BF16, counts, &err), SL_OK);
    world->rows_count = 1 + below(world, ROWS_MAX);
}

/* Whether a pass needed all pages of windowed layers. */
static bool simulate(uint64_t seed) {
    struct world world = {.random = seed * 0x9E3779B97F4A7C15u + 1};
    size_t passes = 0;
    bool was_full = false;
    make_world(&world);
    while (world.ended < world.rows_count) {
        admit_some(&world);
        if (world.sched.live_count == 0)
            continue;
        sched_pick(&world.sched);
        check_picks(&world);
        check_turns(&world);
        take_pages(&world);
        was_full = was_full || (world.kv.window > 0 && world.kv.pools[KV_WINDOW].free_count == 0);
        compute(&world.sched);
        for (size_t i = 0; i < world.sched.pick_count; i++)
            seq_trim_pages(world.sched.picks[i].seq, &world.kv);
        end_some(&world);
        check_pages(&world);
        assert_true(++passes < 40 * 150); /* one token a pass would do */
    }
    assert_int_equal(kv_pages_used(&world.kv), 0);
    assert_int_equal(world.sched.pages_promised, 0);
    assert_int_equal(world.sched.window_promised, 0);
    assert_int_equal(world.sched.window_excess, 0);
    assert_int_equal(world.sched.live_count, 0);
    kv_release(&world.kv);
    sched_release(&world.sched);
    return was_full;
}

static void random_jobs_end_with_every_promise_kept(void **state) {
    (void)state;
    size_t full = 0;
    for (uint64_t seed = 1; seed <= 300; seed++)
        full += simulate(seed);
    assert_true(full >= 20); /* jobs in which a page fewer for windows would not have done */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_enters_when_rows_and_pages_allow),
        cmocka_unit_test(row_of_windowed_layers_is_promised_its_window),
        cmocka_unit_test(prompt_goes_in_by_chunks),
        cmocka_unit_test(decoding_rows_come_before_newcomers),
        cmocka_unit_test(decoding_rows_take_turns),
        cmocka_unit_test(nobody_inside_means_nothing_to_pick),
        cmocka_unit_test(random_jobs_end_with_every_promise_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
