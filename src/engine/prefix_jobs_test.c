/* Random jobs in which every slot of every page, and every state, knows what was written into it,
 * so that a row that saw another's keys would be found out; and all pages counted after each pass.
 */
#include "engine/prefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/prefix_for_test.h"

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
    bool is_alike;   /* rows begin alike for 32 tokens and more */
    bool is_hopeful; /* all rows are expected to end early, and go on to their limits */
};

/* Over the jobs: how often the rare happened. */
struct seen {
    size_t joined, lost, window_lost, gave_up, suspended;
    size_t waited, states_kept, joined_by_state;
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
        if (world->is_alike) {
            prompt_count = 40 + below(world, 51);
            alike = 32 + below(world, 50);
            family = 0;
        }
        for (size_t i = 0; i < prompt_count; i++)
            prompt[i] = i < alike ? family : (uint32_t)below(world, 2) * (uint32_t)below(world, 2);
        struct sched_ask ask = {.prompt_count = prompt_count, .max_tokens = max_tokens};
        if (!sched_fits(sched, &ask))
            return;
        struct row *row = &world->rows[world->admitted++];
        row->seq = new_seq(prompt, prompt_count, max_tokens);
        row->seq->chain.kind = below(world, 5) == 0;
        if (below(world, 3) == 0) /* right or wrong */
            row->seq->fork_tokens = below(world, 8) * SL_PAGE_TOKENS;
        row->length = prompt_count + 1 + below(world, max_tokens);
        if (world->is_hopeful)
            row->length = prompt_count + max_tokens;
        sched_admit(sched, row->seq);
    }
}

/* Every slot once in a pass, and none of a block that was full before it. */
static void write_one(struct world *world, const struct seq *seq, size_t position,
                      uint64_t name_before) {
    const struct prefix *prefix = &world->rig.prefix;
    size_t slot = position % SL_PAGE_TOKENS;
    for (int group = 0; group < KV_STATE; group++) {
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
    for (int group = 0; group < KV_STATE; group++) {
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

/* A recurrence goes on from what stands in the row's own page, and leaves what it has come to. */
static void advance_state(const struct world *world, const struct sched_pick *pick) {
    const struct kv_pool *pool = &world->rig.kv.pools[KV_STATE];
    const struct seq *seq = pick->seq;
    if (pool->page_count == 0)
        return;
    assert_int_equal(seq->pages[KV_STATE].count, 1);
    uint32_t page = seq->pages[KV_STATE].numbers[0];
    uint64_t *state = (uint64_t *)(void *)(pool->slab.data + page * pool->page_bytes);
    assert_int_equal(pool->pages[page].holders, 1);
    assert_false(pool->pages[page].is_wanted);
    if (pick->first > 0)
        assert_true(*state == told(seq, pick->first - 1));
    *state = told(seq, pick->first + pick->count - 1);
}

/* Who waits does so for a row before it that has tokens in this pass, and whose state will be kept.
 */
static void check_waiting(const struct world *world, struct seen *seen) {
    const struct sched *sched = &world->rig.sched;
    for (size_t i = 0; i < sched->live_count; i++) {
        const struct seq *seq = sched->rows[i];
        bool has_reason = false;
        for (size_t before = 0; seq->awaited > 0 && before < i; before++)
            has_reason = has_reason || (sched->rows[before]->chosen > 0 &&
                                        sched->rows[before]->fork == seq->awaited);
        assert_true(seq->awaited == 0 || (has_reason && seq->chosen == 0));
        seen->waited += seq->awaited > 0;
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
        advance_state(world, pick);
        world->computed += pick->count;
    }
    for (size_t i = 0; i < sched->pick_count; i++) {
        const struct sched_pick *pick = &sched->picks[i];
        check_seen(world, pick->seq, pick->first);
        check_seen(world, pick->seq, pick->first + pick->count - 1);
    }
    run_picks(&world->rig, (uint32_t)below(world, 2));
}

static bool is_live(const struct sched *sched, const struct seq *seq) {
    for (size_t i = 0; i < sched->live_count; i++)
        if (sched->rows[i] == seq)
            return true;
    return false;
}

/* Rows end; some give their pages up, as a row does that makes room. */
static void end_some(struct world *world, struct seen *seen) {
    for (size_t i = 0; i < world->admitted; i++) {
        struct row *row = &world->rows[i];
        if (row->seq == NULL || !is_live(&world->rig.sched, row->seq))
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
        const uint32_t *owners = group == KV_STATE ? prefix->state_blocks : prefix->window_blocks;
        bool is_known =
            group == prefix->home ? prefix->blocks[i].name != 0 : owners[i] != SL_PAGE_GONE;
        assert_int_equal(pool->pages[i].holders, holders[i]);
        assert_int_equal((holders[i] > 0) + is_free[i] + is_kept[i], 1);
        assert_int_equal(pool->pages[i].is_wanted, is_known);
        assert_false(is_free[i] && is_known);
        assert_false(is_kept[i] && !is_known);
        if (is_known && group == KV_STATE)
            assert_true(holders[i] == 0 && prefix->blocks[owners[i]].state_page == i);
        else if (is_known && group != prefix->home)
            assert_int_equal(prefix->blocks[owners[i]].window_page, i);
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
    seen->states_kept += world->rig.kv.pools[KV_STATE].kept_count > 0;
    if (!now->has_windows)
        return;
    for (size_t i = 0; i < world->rig.kv.pools[KV_WHOLE].page_count; i++)
        seen->window_lost += now->blocks[i].name != 0 && now->blocks[i].window_page == SL_PAGE_GONE;
}

static void make_world(struct world *world) {
    world->is_hopeful = below(world, 2) == 0;
    world->is_alike = below(world, 2) == 0;
    size_t kind = below(world, 3), kept_states = below(world, 4),
           pass_tokens = 1 + below(world, below(world, 4) ? 30 : 120);
    if (world->is_alike && below(world, 2) == 0)
        pass_tokens = 40 + below(world, 150);
    uint32_t window = 1 + (uint32_t)below(world, 50);
    size_t longest = kv_pages_for(90 + 60), most = kind == 0 ? 0 : kv_window_pages(window);
    size_t least = most + sched_pages_set_aside(pass_tokens);
    struct sched_limits limits = {
        .batch_max = 1 + below(world, 12),
        .pass_tokens = pass_tokens,
        .page_count = longest + below(world, world->is_hopeful ? 6 : 60),
        .window_page_count =
            (least < longest ? least : longest) + below(world, 3) * below(world, 12),
    };
    kind += below(world, 2) * RIG_STATES;
    limits.kept_states = kept_states;
    rig_begin(&world->rig, kind, window, limits);
    world->rows_count = 1 + below(world, ROWS_MAX);
}

static void simulate(uint64_t seed, struct seen *seen) {
    static const double short_ones[SL_EXPECT_BINS + 1] = {1000};
    static struct world world;
    world = (struct world){.random = seed * 0x9E3779B97F4A7C15u + 1};
    make_world(&world);
    while (world.ended < world.rows_count) {
        if (world.is_hopeful) {
            expect_init(&world.rig.sched.expect, short_ones);
            world.rig.sched.has_outlook = false;
        }
        admit_some(&world);
        if (world.rig.sched.inside_count == 0)
            continue;
        struct prefix before = world.rig.prefix;
        world.pass++;
        sched_pick(&world.rig.sched, &world.rig.kv);
        check_waiting(&world, seen);
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
    seen->joined_by_state += world.rig.prefix.has_states && world.rig.prefix.joined_tokens > 0;
    seen->suspended += world.rig.sched.suspensions;
    rig_end(&world.rig);
}

static void random_jobs_never_see_what_is_not_theirs(void **state) {
    struct seen seen = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 350; seed++)
        simulate(seed, &seen);
    assert_true(seen.joined > 100);
    assert_true(seen.lost > 100);
    assert_true(seen.window_lost > 100);
    assert_true(seen.gave_up > 100);
    assert_true(seen.suspended > 100);
    assert_true(seen.joined_by_state > 50);
    assert_true(seen.waited > 30);
    assert_true(seen.states_kept > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_jobs_never_see_what_is_not_theirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
