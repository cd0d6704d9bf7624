/* Shared prefixes by hand, and a simulation of random jobs in which every slot of every page knows
 * what was written into it, so that a row that saw another's keys would be found out. */
#include "engine/sched.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static bool windows[2];
static struct config tiny = {.layers = 2, .kv_heads = 1, .head_dim = 2, .is_windowed = windows};

/* ---- by hand */

struct rig {
    struct kv kv;
    struct prefix prefix;
    struct sched sched;
};

/* kind 0: no layer has a window; 1: one of two; 2: both. */
static void rig_begin(struct rig *rig, size_t kind, uint32_t window, struct sched_limits limits) {
    struct error err;
    tiny.window = kind == 0 ? 0 : window;
    windows[0] = kind > 0;
    windows[1] = kind > 1;
    limits.window = tiny.window;
    limits.is_all_windowed = kind == 2;
    size_t counts[KV_GROUPS] = {limits.page_count, limits.window_page_count};
    assert_int_equal(kv_init(&rig->kv, &tiny, KV_BF16, counts, &err), SL_OK);
    assert_int_equal(sched_init(&rig->sched, &limits, &err), SL_OK);
    assert_int_equal(prefix_init(&rig->prefix, &rig->kv, &err), SL_OK);
    rig->sched.prefix = &rig->prefix;
}

static void rig_end(struct rig *rig) {
    assert_int_equal(kv_pages_used(&rig->kv), 0);
    prefix_release(&rig->prefix);
    sched_release(&rig->sched);
    kv_release(&rig->kv);
}

static struct seq *new_seq(const uint32_t *prompt, size_t prompt_count, size_t max_tokens) {
    struct seq_request request = {
        .prompt = prompt, .prompt_count = prompt_count, .max_tokens = max_tokens};
    struct seq *seq = NULL;
    struct error err;
    assert_int_equal(seq_new(&request, &seq, &err), SL_OK);
    return seq;
}

/* A row of `alike` tokens that all rows have and others that only it has. */
static struct seq *admit(struct rig *rig, size_t alike, size_t count, uint32_t own) {
    uint32_t prompt[256];
    for (size_t i = 0; i < count; i++)
        prompt[i] = i < alike ? 7 : own;
    struct seq *seq = new_seq(prompt, count, 20);
    sched_admit(&rig->sched, seq);
    return seq;
}

static void end(struct rig *rig, struct seq *seq) {
    sched_remove(&rig->sched, seq);
    seq_free(seq, &rig->kv);
}

/* As engine and pass do. */
static void run_picks(struct rig *rig, uint32_t token) {
    for (size_t i = 0; i < rig->sched.pick_count; i++) {
        struct sched_pick *pick = &rig->sched.picks[i];
        assert_true(seq_take_pages(pick->seq, &rig->kv, pick->first + pick->count));
        pick->seq->computed += pick->count;
        if (pick->wants_logits)
            pick->seq->tokens[pick->seq->token_count++] = token;
        prefix_settle(&rig->prefix, pick->seq);
        seq_trim_pages(pick->seq, &rig->kv);
    }
}

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
        assert_true(rig.sched.picks[i].wants_logits);
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

static void index_without_memory_is_an_error(void **state) {
    struct kv kv;
    struct prefix prefix;
    struct error err;
    size_t counts[KV_GROUPS] = {9, 9};
    (void)state;
    tiny.window = 20;
    windows[0] = true;
    windows[1] = false;
    assert_int_equal(kv_init(&kv, &tiny, KV_BF16, counts, &err), SL_OK);
    for (uint64_t at = 1; at <= 4; at++) {
        fault_arm(SL_FAULT_ALLOC, at, false);
        assert_int_equal(prefix_init(&prefix, &kv, &err), SL_ERR_ENV);
    }
    fault_arm(SL_FAULT_ALLOC, 5, false);
    assert_int_equal(prefix_init(&prefix, &kv, &err), SL_OK);
    fault_arm(SL_FAULT_ALLOC, 0, false);
    prefix_release(&prefix);
    kv_release(&kv);
}

/* ---- simulation ---- */

#define ROWS_MAX 40
#define PAGES_MAX 128

struct row {
    struct seq *seq;
    size_t length; /* tokens it will have when it ends by itself */
};

struct world {
    uint64_t random;
    struct rig rig;
    struct row rows[ROWS_MAX];
    size_t admitted, ended, rows_count, computed;
    uint64_t written[KV_GROUPS][PAGES_MAX][SL_PAGE_TOKENS]; /* what: see told */
    size_t written_in[KV_GROUPS][PAGES_MAX][SL_PAGE_TOKENS];
    size_t pass;
};

/* Over the jobs: how often the rare happened. */
struct seen {
    size_t joined, lost, window_lost, gave_up;
};

static size_t below(struct world *world, size_t limit) {
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return (size_t)(world->random >> 20) % limit;
}

/* What keys and values at a position depend on: the kind of row, and all tokens up to there. */
static uint64_t told(const struct seq *seq, size_t position) {
    uint64_t sum = seq->chain.kind + 1;
    for (size_t i = 0; i <= position; i++)
        sum = (sum ^ seq->tokens[i]) * 0x9E3779B97F4A7C15u + (sum >> 29);
    return sum;
}

/* Rows of a family begin alike for up to 64 tokens; short alphabets make more of them meet. */
static void admit_some(struct world *world) {
    struct sched *sched = &world->rig.sched;
    while (world->admitted < world->rows_count && below(world, 4) != 0) {
        uint32_t prompt[128], family = (uint32_t)below(world, 3);
        size_t prompt_count = 1 + below(world, 90), max_tokens = 1 + below(world, 60);
        size_t alike = below(world, 65);
        for (size_t i = 0; i < prompt_count; i++)
            prompt[i] = i < alike ? family : (uint32_t)below(world, 2) * (uint32_t)below(world, 2);
        struct sched_ask ask = {.prompt_count = prompt_count, .max_tokens = max_tokens};
        if (!sched_fits(sched, &ask))
            return;
        struct row *row = &world->rows[world->admitted++];
        row->seq = new_seq(prompt, prompt_count, max_tokens);
        row->seq->chain.kind = below(world, 5) == 0;
        row->length = prompt_count + 1 + below(world, max_tokens);
        sched_admit(sched, row->seq);
    }
}

/* Every slot once in a pass, and none of a block that was full before it. */
static void write_one(struct world *world, const struct seq *seq, size_t position,
                      uint64_t name_before) {
    const struct prefix *prefix = &world->rig.prefix;
    size_t slot = position % SL_PAGE_TOKENS;
    for (int group = 0; group < KV_GROUPS; group++) {
        if (world->rig.kv.pools[group].page_count == 0)
            continue;
        uint32_t page = seq->pages[group].numbers[position / SL_PAGE_TOKENS];
        assert_true(page < world->rig.kv.pools[group].page_count);
        if ((enum kv_group)group == prefix->home)
            assert_true(prefix->blocks[page].name == 0 || prefix->blocks[page].name >= name_before);
        assert_int_not_equal(world->written_in[group][page][slot], world->pass);
        world->written_in[group][page][slot] = world->pass;
        world->written[group][page][slot] = told(seq, position);
    }
}

static void check_seen(const struct world *world, const struct seq *seq, size_t position) {
    const struct kv *kv = &world->rig.kv;
    for (int group = 0; group < KV_GROUPS; group++) {
        bool is_cut = group == KV_WINDOW && kv->window > 0 && position >= kv->window;
        if (kv->pools[group].page_count == 0)
            continue;
        for (size_t at = is_cut ? position - kv->window + 1 : 0; at <= position; at++) {
            uint32_t page = seq->pages[group].numbers[at / SL_PAGE_TOKENS];
            assert_true(page < kv->pools[group].page_count);
            assert_true(world->written[group][page][at % SL_PAGE_TOKENS] == told(seq, at));
        }
    }
}

static void compute(struct world *world, uint64_t name_before) {
    const struct sched *sched = &world->rig.sched;
    for (size_t i = 0; i < sched->pick_count; i++) {
        const struct sched_pick *pick = &sched->picks[i];
        assert_int_equal(pick->first, pick->seq->computed);
        assert_true(seq_take_pages(pick->seq, &world->rig.kv, pick->first + pick->count));
    }
    for (size_t i = 0; i < sched->pick_count; i++) {
        const struct sched_pick *pick = &sched->picks[i];
        for (size_t t = pick->first; t < pick->first + pick->count; t++)
            write_one(world, pick->seq, t, name_before);
        world->computed += pick->count;
    }
    for (size_t i = 0; i < sched->pick_count; i++) {
        const struct sched_pick *pick = &sched->picks[i];
        check_seen(world, pick->seq, pick->first);
        check_seen(world, pick->seq, pick->first + pick->count - 1);
    }
    run_picks(&world->rig, (uint32_t)below(world, 2));
}

/* Rows end; some give their pages up, as a row does that makes room. */
static void end_some(struct world *world, struct seen *seen) {
    for (size_t i = 0; i < world->admitted; i++) {
        struct row *row = &world->rows[i];
        if (row->seq == NULL)
            continue;
        if (row->seq->token_count >= row->length || below(world, 60) == 0) {
            end(&world->rig, row->seq);
            row->seq = NULL;
            world->ended++;
        } else if (below(world, 40) == 0) {
            seq_give_pages(row->seq, &world->rig.kv);
            seen->gave_up++;
        }
    }
}

/* A page is held by as many rows as say so, or kept, or free, and in the index when it is wanted.
 */
static void check_group(const struct world *world, enum kv_group group) {
    const struct kv_pool *pool = &world->rig.kv.pools[group];
    const struct prefix *prefix = &world->rig.prefix;
    size_t holders[PAGES_MAX] = {0}, used = 0, kept = 0;
    bool is_free[PAGES_MAX] = {false}, is_kept[PAGES_MAX] = {false};
    for (size_t i = 0; i < world->rig.sched.live_count; i++) {
        const struct seq_pages *pages = &world->rig.sched.rows[i]->pages[group];
        for (size_t j = pages->first; j < pages->count; j++)
            used += holders[pages->numbers[j]]++ == 0;
    }
    for (size_t i = 0; i < pool->free_count; i++)
        is_free[pool->free_pages[i]] = true;
    for (uint32_t at = pool->oldest, older = SL_PAGE_GONE; at != SL_PAGE_GONE;
         older = at, at = pool->pages[at].newer, kept++) {
        assert_int_equal(pool->pages[at].older, older);
        is_kept[at] = true;
    }
    for (size_t i = 0; i < pool->page_count; i++) {
        bool is_known = group == prefix->home ? prefix->blocks[i].name != 0
                                              : prefix->window_blocks[i] != SL_PAGE_GONE;
        assert_int_equal(pool->pages[i].holders, holders[i]);
        assert_int_equal((holders[i] > 0) + is_free[i] + is_kept[i], 1);
        assert_int_equal(pool->pages[i].is_wanted, is_known);
        assert_false(is_free[i] && is_known);
        assert_false(is_kept[i] && !is_known);
        if (is_known && group != prefix->home)
            assert_int_equal(prefix->blocks[prefix->window_blocks[i]].window_page, i);
    }
    assert_int_equal(pool->pages_used, used);
    assert_int_equal(pool->kept_count, kept);
    assert_int_equal(pool->free_count + kept + used, pool->page_count);
}

static void check_index(const struct world *world) {
    const struct prefix *prefix = &world->rig.prefix;
    size_t count = 0;
    for (size_t bucket = 0; bucket < prefix->bucket_count; bucket++)
        for (uint32_t at = prefix->buckets[bucket]; at != SL_PAGE_GONE;
             at = prefix->blocks[at].next, count++) {
            assert_true(prefix->blocks[at].name != 0);
            assert_true(prefix->blocks[at].key.parent < prefix->blocks[at].name);
        }
    assert_int_equal(count, prefix->block_count);
    for (size_t i = 0; i < world->rig.sched.live_count; i++) {
        const struct seq *seq = world->rig.sched.rows[i];
        assert_true(seq->computed < seq->token_count);
        assert_int_equal(seq->chain.count, seq->computed / SL_PAGE_TOKENS);
    }
}

static void count_lost(const struct world *world, const struct prefix *before, struct seen *seen) {
    const struct prefix *now = &world->rig.prefix;
    uint64_t added = now->name_next - before->name_next;
    seen->lost += before->block_count + added > now->block_count;
    if (!now->has_windows)
        return;
    for (size_t i = 0; i < world->rig.kv.pools[KV_WHOLE].page_count; i++)
        seen->window_lost += now->blocks[i].name != 0 && now->blocks[i].window_page == SL_PAGE_GONE;
}

static void make_world(struct world *world) {
    size_t kind = below(world, 3), pass_tokens = 1 + below(world, below(world, 4) ? 30 : 120);
    uint32_t window = 1 + (uint32_t)below(world, 50);
    size_t longest = kv_pages_for(90 + 60), most = kind == 0 ? 0 : kv_window_pages(window);
    size_t least = most + sched_pages_set_aside(pass_tokens);
    struct sched_limits limits = {
        .batch_max = 1 + below(world, 12),
        .pass_tokens = pass_tokens,
        .page_count = longest + below(world, 60),
        .window_page_count =
            (least < longest ? least : longest) + below(world, 3) * below(world, 12),
    };
    rig_begin(&world->rig, kind, window, limits);
    world->rows_count = 1 + below(world, ROWS_MAX);
}

static void simulate(uint64_t seed, struct seen *seen) {
    static struct world world;
    world = (struct world){.random = seed * 0x9E3779B97F4A7C15u + 1};
    make_world(&world);
    while (world.ended < world.rows_count) {
        admit_some(&world);
        if (world.rig.sched.live_count == 0)
            continue;
        struct prefix before = world.rig.prefix;
        world.pass++;
        sched_pick(&world.rig.sched, &world.rig.kv);
        compute(&world, before.name_next);
        check_index(&world);
        for (int group = 0; group < KV_GROUPS; group++)
            if (world.rig.kv.pools[group].page_count > 0)
                check_group(&world, (enum kv_group)group);
        count_lost(&world, &before, seen);
        end_some(&world, seen);
        assert_true(world.pass < 40 * 150);
    }
    seen->joined += world.rig.prefix.joined_tokens > 0;
    rig_end(&world.rig);
}

static void random_jobs_never_see_what_is_not_theirs(void **state) {
    struct seen seen = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        simulate(seed, &seen);
    assert_true(seen.joined > 100);
    assert_true(seen.lost > 100);
    assert_true(seen.window_lost > 100);
    assert_true(seen.gave_up > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_one_pass_compute_what_they_share_once),
        cmocka_unit_test(the_last_token_is_always_computed),
        cmocka_unit_test(who_is_first_computes_and_nobody_waits),
        cmocka_unit_test(rows_of_different_kinds_share_nothing),
        cmocka_unit_test(pages_of_rows_that_have_gone_are_kept_until_they_are_needed),
        cmocka_unit_test(row_that_gave_its_pages_up_joins_itself),
        cmocka_unit_test(row_joins_only_as_far_as_its_window_is_there),
        cmocka_unit_test(index_without_memory_is_an_error),
        cmocka_unit_test(random_jobs_never_see_what_is_not_theirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
