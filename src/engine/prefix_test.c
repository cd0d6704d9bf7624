/* Shared prefixes by hand: who joins what, who computes it, what is kept and lost. */
#include "engine/prefix.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/prefix_for_test.h"

static void check_pick(const struct rig *rig, size_t at, const struct seq *seq, size_t first,
                       size_t count) {
    assert_true(at < rig->sched.pick_count);
    assert_ptr_equal(rig->sched.picks[at].seq, seq);
    assert_int_equal(rig->sched.picks[at].first, first);
    assert_int_equal(rig->sched.picks[at].count, count);
}

static const struct sched_limits plenty = {
    .batch_max = 8, .pass_tokens = 200, .page_count = 60, .window_page_count = 60};

static void rows_of_one_pass_compute_what_they_share_once(void **state) {
    struct rig rig;
    (void)state;
    rig_begin(&rig, 0, 0, plenty);
    struct seq *a = admit(&rig, 50, 70, 1), *b = admit(&rig, 50, 60, 2);
    struct seq *other = admit(&rig, 0, 40, 3);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, a, 0, 70);
    check_pick(&rig, 1, b, 48, 12); /* 3 full pages of 50 tokens */
    check_pick(&rig, 2, other, 0, 40);
    assert_int_equal(rig.prefix.joined_tokens, 48);
    run_picks(&rig, 9);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(a->pages[KV_WHOLE].numbers[i], b->pages[KV_WHOLE].numbers[i]);
    assert_int_not_equal(a->pages[KV_WHOLE].numbers[3], b->pages[KV_WHOLE].numbers[3]);
    assert_int_equal(kv_pages_used(&rig.kv), 5 + 1 + 3);
    end(&rig, a);
    assert_int_equal(kv_pages_used(&rig.kv), 4 + 3); /* b holds what it shares */
    end(&rig, b);
    end(&rig, other);
    rig_end(&rig);
}

/* A prompt that is all there has one token at least left to compute: logits come from it. */
static void the_last_token_is_always_computed(void **state) {
    struct rig rig;
    (void)state;
    rig_begin(&rig, 0, 0, plenty);
    struct seq *a = admit(&rig, 33, 33, 1), *b = admit(&rig, 33, 33, 1),
               *c = admit(&rig, 32, 32, 1);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, a, 0, 33);
    check_pick(&rig, 1, b, 32, 1);
    check_pick(&rig, 2, c, 16, 16);
    for (size_t i = 0; i < 3; i++)
        assert_true(rig.sched.picks[i].logits > 0);
    run_picks(&rig, 9);
    end(&rig, a);
    end(&rig, b);
    end(&rig, c);
    rig_end(&rig);
}

/* A pass of 24 tokens. Whoever comes first goes on; the other one's own half page gives way. */
static void who_is_first_computes_and_nobody_waits(void **state) {
    struct rig rig;
    struct sched_limits limits = plenty;
    (void)state;
    limits.pass_tokens = 24;
    rig_begin(&rig, 0, 0, limits);
    struct seq *a = admit(&rig, 80, 90, 1), *b = admit(&rig, 80, 90, 2);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, a, 0, 24);
    assert_int_equal(b->computed, 16);
    run_picks(&rig, 9);
    end(&rig, a);
    struct seq *c = admit(&rig, 80, 90, 3);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, b, 16, 24); /* the one that is left takes over */
    assert_int_equal(c->computed, 32);
    run_picks(&rig, 9);
    assert_int_equal(b->computed, 40);
    rig.sched.rows[0] = c; /* as if it were the older one */
    rig.sched.rows[1] = b;
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, c, 32, 24);
    assert_int_equal(b->computed, 48);
    run_picks(&rig, 9);
    end(&rig, b);
    end(&rig, c);
    rig_end(&rig);
}

static void rows_of_different_kinds_share_nothing(void **state) {
    struct rig rig;
    (void)state;
    rig_begin(&rig, 0, 0, plenty);
    struct seq *a = admit(&rig, 50, 60, 1), *b = admit(&rig, 50, 60, 1);
    b->chain.kind = 1;
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 1, b, 0, 60);
    run_picks(&rig, 9);
    end(&rig, a);
    end(&rig, b);
    rig_end(&rig);
}

/* 6 pages: what a row has left is found again until its pages are needed, the last blocks first. */
static void pages_of_rows_that_have_gone_are_kept_until_they_are_needed(void **state) {
    struct rig rig;
    struct sched_limits limits = plenty;
    (void)state;
    limits.page_count = 6;
    rig_begin(&rig, 0, 0, limits);
    struct seq *a = admit(&rig, 64, 65, 1);
    sched_pick(&rig.sched, &rig.kv);
    run_picks(&rig, 9);
    end(&rig, a);
    assert_int_equal(kv_pages_used(&rig.kv), 0);
    assert_int_equal(kv_free(&rig.kv, KV_WHOLE), 6);
    struct seq *b = admit(&rig, 64, 70, 2);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, b, 64, 6);
    run_picks(&rig, 9);
    end(&rig, b);
    struct seq *other = admit(&rig, 0, 60, 3); /* 4 pages: 2 free ones and 2 kept ones */
    sched_pick(&rig.sched, &rig.kv);
    run_picks(&rig, 9);
    end(&rig, other);
    struct seq *c = admit(&rig, 64, 70, 4);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, c, 32, 38);
    run_picks(&rig, 9);
    end(&rig, c);
    rig_end(&rig);
}

/* Its own pages too are found again by a row that gave them up, answer and all. */
static void row_that_gave_its_pages_up_joins_itself(void **state) {
    struct rig rig;
    (void)state;
    rig_begin(&rig, 0, 0, plenty);
    struct seq *a = admit(&rig, 28, 28, 1);
    for (size_t pass = 0; pass < 6; pass++) {
        sched_pick(&rig.sched, &rig.kv);
        run_picks(&rig, 9);
    }
    assert_int_equal(a->computed, 33);
    seq_give_pages(a, &rig.kv);
    assert_int_equal(kv_pages_used(&rig.kv), 0);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, a, 32, 2);
    run_picks(&rig, 9);
    end(&rig, a);
    rig_end(&rig);
}

/* 20 pages, passes of 64 tokens. A row of 160 tokens and 20 more takes 12 pages; of these others
 * that begin like it have 9, and 10 tokens of their prompts are left to compute. */
static void rows_enter_by_what_they_do_not_share(void **state) {
    struct rig rig;
    struct sched_limits limits = plenty;
    struct seq *rows[4];
    size_t count = 1;
    (void)state;
    limits.pass_tokens = 64;
    limits.page_count = 20;
    rig_begin(&rig, 0, 0, limits);
    struct sched_ask ask = {.prompt_count = 160, .max_tokens = 20, .is_certain = true};
    rows[0] = admit(&rig, 150, 160, 1);
    rows[0]->prefix = ask.prefix = 77;
    for (size_t pass = 0; pass < 3; pass++) {
        assert_false(sched_fits(&rig.sched, &ask));
        sched_pick(&rig.sched, &rig.kv);
        run_picks(&rig, 9);
    }
    assert_false(sched_fits(&rig.sched, &ask)); /* for all that it knows nothing is shared */
    ask.shared_tokens = 150;
    for (; count < 4 && sched_fits(&rig.sched, &ask); count++) {
        rows[count] = admit(&rig, 150, 160, 1 + (uint32_t)count);
        rows[count]->prefix = 77;
        assert_int_equal(rows[count]->computed, 144);
    }
    assert_int_equal(count, 3); /* 12 + 3 + 3 */
    sched_pick(&rig.sched, &rig.kv);
    assert_int_equal(rig.sched.pick_count, 3);
    assert_int_equal(rig.sched.pick_tokens, 1 + 2 * 16);
    run_picks(&rig, 9);
    while (count > 0)
        end(&rig, rows[--count]);
    rig_end(&rig);
}

/* As if rows came that need all free pages and so many kept ones, and went. */
static void lose_window_pages(struct rig *rig, size_t count) {
    uint32_t pages[64];
    size_t taken = 0, wanted = rig->kv.pools[KV_WINDOW].free_count + count;
    assert_true(wanted <= 64);
    while (taken < wanted)
        assert_true(kv_take(&rig->kv, KV_WINDOW, &pages[taken++]));
    while (taken > 0)
        kv_give(&rig->kv, KV_WINDOW, pages[--taken]);
}

/* Window 20: position 64 sees from 45 on, page 2; position 48 from 29, page 1. */
static void row_joins_only_as_far_as_its_window_is_there(void **state) {
    struct rig rig;
    (void)state;
    rig_begin(&rig, 1, 20, plenty);
    struct seq *a = admit(&rig, 70, 100, 1);
    sched_pick(&rig.sched, &rig.kv);
    run_picks(&rig, 9);
    struct seq *b = admit(&rig, 70, 80, 2);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 1, b, 64, 16); /* by the pages that a has passed and that are still kept */
    assert_int_equal(b->pages[KV_WINDOW].first, 2);
    assert_int_equal(b->pages[KV_WINDOW].numbers[1], SL_PAGE_GONE);
    run_picks(&rig, 9);
    end(&rig, b);
    lose_window_pages(&rig, 2); /* the first two of a's, which are the oldest */
    struct seq *c = admit(&rig, 70, 80, 3);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 1, c, 64, 16);
    run_picks(&rig, 9);
    end(&rig, c);
    lose_window_pages(&rig, 3);
    struct seq *d = admit(&rig, 70, 80, 4);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 1, d, 0, 80);
    run_picks(&rig, 9);
    for (size_t i = 0; i < 4; i++) /* what both have computed is there once */
        assert_int_equal(a->pages[KV_WHOLE].numbers[i], d->pages[KV_WHOLE].numbers[i]);
    struct seq *e = admit(&rig, 70, 80, 5); /* by what d has brought back */
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 2, e, 64, 16);
    run_picks(&rig, 9);
    end(&rig, a);
    end(&rig, d);
    end(&rig, e);
    rig_end(&rig);
}

/* ---- layers that keep a state: 96 of 100 common tokens are full pages */

static const struct sched_limits with_states = {
    .batch_max = 4, .kept_states = 1, .pass_tokens = 200, .page_count = 60};

static void state_begin(struct rig *rig, size_t batch_max, size_t kept_states, size_t pass_tokens) {
    struct sched_limits limits = with_states;
    limits.batch_max = batch_max;
    limits.kept_states = kept_states;
    limits.pass_tokens = pass_tokens;
    rig_begin(rig, RIG_STATES, 0, limits);
}

static uint8_t *state_of(const struct rig *rig, const struct seq *seq) {
    const struct kv_pool *pool = &rig->kv.pools[KV_STATE];
    assert_int_equal(seq->pages[KV_STATE].count, 1);
    return pool->slab.data + seq->pages[KV_STATE].numbers[0] * pool->page_bytes;
}

static void rows_wait_for_the_state_where_they_part(void **state) {
    struct rig rig;
    (void)state;
    state_begin(&rig, 4, 1, 200);
    struct seq *a = admit(&rig, 100, 120, 1), *b = admit(&rig, 100, 110, 2);
    struct seq *other = admit(&rig, 0, 40, 3);
    sched_pick(&rig.sched, &rig.kv);
    assert_int_equal(rig.sched.pick_count, 2);
    check_pick(&rig, 0, a, 0, 96);
    check_pick(&rig, 1, other, 0, 40);
    assert_int_equal(b->awaited, 96);
    *state_of(&rig, a) = 77; /* as if it were the state after 96 tokens */
    run_picks(&rig, 9);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 1, a, 96, 24);
    check_pick(&rig, 2, b, 96, 14);
    assert_int_equal(rig.prefix.joined_tokens, 96);
    assert_ptr_not_equal(state_of(&rig, a), state_of(&rig, b));
    assert_int_equal(*state_of(&rig, b), 77);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(a->pages[KV_WHOLE].numbers[i], b->pages[KV_WHOLE].numbers[i]);
    run_picks(&rig, 9);
    end(&rig, a);
    end(&rig, b);
    end(&rig, other);
    rig_end(&rig);
}

/* 48 tokens a pass: the first row ends on its way, and who waited for it goes on itself, up to
 * where the first one was, and then as far as it is alike with the next. */
static void row_goes_on_itself_when_the_one_before_it_ends(void **state) {
    struct rig rig;
    (void)state;
    state_begin(&rig, 4, 1, 48);
    struct seq *a = admit(&rig, 100, 120, 1), *b = admit(&rig, 100, 110, 2);
    struct seq *c = admit(&rig, 100, 115, 3);
    sched_pick(&rig.sched, &rig.kv);
    assert_int_equal(rig.sched.pick_count, 1);
    check_pick(&rig, 0, a, 0, 48);
    run_picks(&rig, 9);
    end(&rig, a);
    for (size_t first = 0; first < 96; first += 48) {
        sched_pick(&rig.sched, &rig.kv);
        assert_int_equal(rig.sched.pick_count, 1);
        check_pick(&rig, 0, b, first, 48);
        run_picks(&rig, 9);
    }
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, b, 96, 14);
    check_pick(&rig, 1, c, 96, 19);
    run_picks(&rig, 9);
    end(&rig, b);
    end(&rig, c);
    rig_end(&rig);
}

/* Nobody knew of the second row when the first one was computed: it keeps the state for a third. */
static void second_row_keeps_the_state_that_the_first_one_did_not(void **state) {
    struct rig rig;
    (void)state;
    state_begin(&rig, 1, 1, 200);
    struct seq *a = admit(&rig, 100, 120, 1);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, a, 0, 120);
    run_picks(&rig, 9);
    end(&rig, a);
    struct seq *b = admit(&rig, 100, 110, 2);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, b, 0, 96);
    run_picks(&rig, 9);
    end(&rig, b);
    struct seq *c = admit(&rig, 100, 110, 3);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, c, 96, 14);
    run_picks(&rig, 9);
    end(&rig, c);
    rig_end(&rig);
}

static void row_keeps_its_state_where_the_next_one_is_said_to_go_on(void **state) {
    struct rig rig;
    (void)state;
    state_begin(&rig, 1, 1, 200);
    struct seq *a = admit(&rig, 100, 120, 1);
    a->fork_tokens = 96;
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, a, 0, 96);
    run_picks(&rig, 9);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, a, 96, 24);
    run_picks(&rig, 9);
    end(&rig, a);
    struct seq *b = admit(&rig, 100, 110, 2);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, b, 96, 14);
    run_picks(&rig, 9);
    end(&rig, b);
    rig_end(&rig);
}

/* As many states as rows: none is kept, and so nobody waits. When one row has gone its page will
 * do; the next but one takes it for itself, with what it holds. */
static void states_are_kept_where_rows_leave_pages_for_them(void **state) {
    struct rig rig;
    (void)state;
    state_begin(&rig, 2, 0, 300);
    struct seq *a = admit(&rig, 100, 120, 1), *b = admit(&rig, 100, 110, 2);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, a, 0, 120);
    check_pick(&rig, 1, b, 0, 110);
    run_picks(&rig, 9);
    for (size_t i = 0; i < 6; i++) /* what both have computed is there once */
        assert_int_equal(a->pages[KV_WHOLE].numbers[i], b->pages[KV_WHOLE].numbers[i]);
    end(&rig, a);
    end(&rig, b);
    struct seq *c = admit(&rig, 100, 110, 3);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, c, 0, 96);
    *state_of(&rig, c) = 77;
    run_picks(&rig, 9);
    assert_int_equal(rig.kv.pools[KV_STATE].kept_count, 1);
    struct seq *d = admit(&rig, 100, 110, 4);
    assert_int_equal(d->computed, 96);
    assert_int_equal(*state_of(&rig, d), 77);
    assert_int_equal(rig.kv.pools[KV_STATE].kept_count, 0);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, c, 96, 14);
    check_pick(&rig, 1, d, 96, 14);
    run_picks(&rig, 9);
    end(&rig, c);
    end(&rig, d);
    rig_end(&rig);
}

/* A head of 96 tokens, behind it one of three others of 64, in turn, and tokens of the row's own.
 * Two states are kept beside those of the rows: the head's is one of them whatever the passes have
 * room for, be it ever the same or, as the pace may have it, another each time. */
#define HEAD 96
#define BEHIND 64
#define TURNS 24

static struct seq *admit_in_turn(struct rig *rig, size_t at) {
    uint32_t prompt[HEAD + BEHIND + 8];
    size_t count = HEAD + BEHIND + 1 + at % 8;
    for (size_t i = 0; i < count; i++)
        prompt[i] = (uint32_t)(i < HEAD ? 7 : (i < HEAD + BEHIND ? 10 + at % 3 : 100 + at));
    struct sched_ask ask = {.prompt_count = count, .max_tokens = 4};
    if (!sched_fits(&rig->sched, &ask))
        return NULL;
    struct seq *seq = new_seq(prompt, count, 4);
    sched_admit(&rig->sched, seq);
    return seq;
}

/* How many tokens of their prompts are computed. */
static size_t play_in_turn(struct rig *rig, size_t pass_tokens, bool is_changing) {
    size_t computed = 0, entered = 0, passes = 0;
    while (entered < TURNS || rig->sched.inside_count > 0) {
        if (is_changing)
            rig->sched.limits.pass_tokens = 4 + (passes * passes * 7 + passes) % pass_tokens;
        while (entered < TURNS && admit_in_turn(rig, entered) != NULL)
            entered++;
        sched_pick(&rig->sched, &rig->kv);
        for (size_t i = 0; i < rig->sched.pick_count; i++)
            computed += rig->sched.picks[i].first < rig->sched.picks[i].seq->prompt_count
                            ? rig->sched.picks[i].count
                            : 0;
        run_picks(rig, 9);
        for (size_t i = rig->sched.live_count; i-- > 0;)
            if (seq_answer_count(rig->sched.rows[i]) == 4)
                end(rig, rig->sched.rows[i]);
        assert_true(++passes < 10000);
    }
    return computed;
}

static void what_comes_behind_a_head_does_not_drive_its_state_out(void **state) {
    size_t total = TURNS * (HEAD + BEHIND) + TURNS / 8 * 36;
    (void)state;
    for (size_t batch = 1; batch <= 8; batch++)
        for (size_t tokens = 4; tokens <= 400; tokens += 12) {
            struct rig rig;
            struct sched_limits limits = with_states;
            limits.batch_max = batch;
            limits.kept_states = 2;
            limits.pass_tokens = tokens;
            limits.page_count = 200;
            rig_begin(&rig, RIG_STATES, 0, limits);
            size_t computed = play_in_turn(&rig, tokens, tokens % 24 == 4);
            assert_in_range(computed, HEAD + 3 * BEHIND, total - (TURNS - 3) * HEAD);
            rig_end(&rig);
        }
}

/* 31 tokens more than another, in full pages 16: not worth a state. */
static void few_tokens_are_computed_again(void **state) {
    struct rig rig;
    (void)state;
    state_begin(&rig, 4, 1, 200);
    struct seq *a = admit(&rig, 31, 60, 1), *b = admit(&rig, 31, 60, 2);
    sched_pick(&rig.sched, &rig.kv);
    check_pick(&rig, 0, a, 0, 60);
    check_pick(&rig, 1, b, 0, 60);
    run_picks(&rig, 9);
    end(&rig, a);
    end(&rig, b);
    rig_end(&rig);
}

static void index_without_memory_is_an_error(void **state) {
    struct kv kv;
    struct prefix prefix;
    struct error err;
    size_t counts[KV_GROUPS] = {9, 9, 9};
    (void)state;
    tiny.window = 20;
    tiny_windows[0] = true;
    tiny_windows[1] = false;
    tiny.layers = 3;
    tiny.delta.shape = (struct delta_shape){1, 1, 1, 1, 1, false};
    assert_int_equal(kv_init(&kv, &tiny, KV_BF16, counts, &err), SL_OK);
    for (uint64_t at = 1; at <= 5; at++) {
        fault_arm(SL_FAULT_ALLOC, at, false);
        assert_int_equal(prefix_init(&prefix, &kv, &err), SL_ERR_ENV);
    }
    fault_arm(SL_FAULT_ALLOC, 6, false);
    assert_int_equal(prefix_init(&prefix, &kv, &err), SL_OK);
    fault_arm(SL_FAULT_ALLOC, 0, false);
    prefix_release(&prefix);
    kv_release(&kv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_one_pass_compute_what_they_share_once),
        cmocka_unit_test(the_last_token_is_always_computed),
        cmocka_unit_test(who_is_first_computes_and_nobody_waits),
        cmocka_unit_test(rows_of_different_kinds_share_nothing),
        cmocka_unit_test(pages_of_rows_that_have_gone_are_kept_until_they_are_needed),
        cmocka_unit_test(row_that_gave_its_pages_up_joins_itself),
        cmocka_unit_test(rows_enter_by_what_they_do_not_share),
        cmocka_unit_test(row_joins_only_as_far_as_its_window_is_there),
        cmocka_unit_test(rows_wait_for_the_state_where_they_part),
        cmocka_unit_test(row_goes_on_itself_when_the_one_before_it_ends),
        cmocka_unit_test(second_row_keeps_the_state_that_the_first_one_did_not),
        cmocka_unit_test(row_keeps_its_state_where_the_next_one_is_said_to_go_on),
        cmocka_unit_test(states_are_kept_where_rows_leave_pages_for_them),
        cmocka_unit_test(what_comes_behind_a_head_does_not_drive_its_state_out),
        cmocka_unit_test(few_tokens_are_computed_again),
        cmocka_unit_test(index_without_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
