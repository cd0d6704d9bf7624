/* Rows that are scored, in random jobs without a model: tokens whose logits are wanted are computed
 * by their own row, each counted once, and never more of them in a pass than there is room for. */
#include "engine/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/prefix_for_test.h"

#define ROWS 60u

static uint64_t random_state;

static size_t draw(size_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % below;
}

/* A text of up to 90 tokens, the first of them those of many others. */
static struct seq *new_text(size_t *first) {
    uint32_t tokens[100];
    size_t count = 2 + draw(90);
    uint32_t own = (uint32_t)draw(5);
    *first = 1 + draw(count - 1);
    for (size_t i = 0; i < count; i++)
        tokens[i] = i < 40 ? 7 : own;
    struct seq_request request = {.prompt = tokens,
                                  .prompt_count = count,
                                  .max_tokens = 1,
                                  .score_first = *first,
                                  .target = 9,
                                  .ignores_eos = true};
    struct seq *seq = NULL;
    struct error err;
    assert_int_equal(seq_new(&request, &seq, &err), SL_OK);
    return seq;
}

/* As the engine does: each column is the next token of its row; *ended counts those that were the
 * last. */
static void score(struct rig *rig, size_t *ended) {
    struct sched *sched = &rig->sched;
    size_t logits = 0, count = sched->pick_count;
    for (size_t i = 0; i < count; i++) {
        struct sched_pick *pick = &sched->picks[i];
        struct seq *seq = pick->seq;
        size_t end = pick->first + pick->count, begin = end - pick->logits;
        assert_int_equal(pick->first, seq->computed);
        assert_true(pick->logits <= pick->count);
        if (pick->logits > 0)
            assert_int_equal(begin, seq->score_next - 1); /* none is left out, none comes twice */
        else
            assert_true(end < seq->score_next);
        logits += pick->logits;
        assert_true(seq_take_pages(seq, &rig->kv, end));
        seq->computed = end;
        seq->score_next += pick->logits;
        prefix_settle(&rig->prefix, seq);
        seq_trim_pages(seq, &rig->kv);
    }
    assert_true(logits <= sched_logits_max(&sched->limits));
    for (size_t i = 0; i < count; i++) {
        struct seq *seq = sched->picks[i].seq;
        if (seq->score_next <= seq->prompt_count)
            continue;
        assert_int_equal(seq->computed, seq->prompt_count);
        seq->finish = FINISH_LENGTH;
        end(rig, seq);
        ++*ended;
    }
}

static void play(size_t kind, struct sched_limits limits, size_t *suspensions) {
    struct rig rig = {0};
    size_t waiting = ROWS, ended = 0, first;
    rig_begin(&rig, kind, 20, limits);
    struct seq *next = new_text(&first);
    for (size_t passes = 0; ended < ROWS; passes++) {
        assert_true(passes < 10000);
        while (waiting > 0) {
            struct sched_ask ask = {.prompt_count = next->prompt_count,
                                    .max_tokens = 1,
                                    .waiting_count = waiting,
                                    .is_certain = true};
            bool fits = sched_fits(&rig.sched, &ask);
            /* Lengths are certain, so pages would hardly ever run out: some rows push in. */
            if (rig.sched.inside_count < limits.batch_max &&
                rig.sched.live_count == rig.sched.inside_count && draw(3) == 0)
                fits = true;
            if (!fits)
                break;
            sched_admit(&rig.sched, next);
            next = --waiting > 0 ? new_text(&first) : NULL;
        }
        sched_pick(&rig.sched, &rig.kv);
        assert_true(rig.sched.pick_tokens > 0);
        score(&rig, &ended);
        sched_learn(&rig.sched, 1, 0);
    }
    *suspensions += rig.sched.suspensions;
    rig_end(&rig);
}

static void each_wanted_token_is_computed_once_within_the_bound(void **state) {
    (void)state;
    size_t suspensions = 0;
    for (random_state = 1; random_state < 80; random_state++) {
        uint64_t seed = random_state;
        size_t pages = 7 + draw(30), pass_tokens = 1 + draw(60);
        struct sched_limits limits = {.batch_max = 1 + draw(20),
                                      .pass_tokens = pass_tokens,
                                      .page_count = pages,
                                      .window_page_count = pages + 8,
                                      .kept_states = seed % 4,
                                      .scores = true};
        play(seed % (2 * RIG_STATES), limits, &suspensions);
        random_state = seed;
    }
    assert_true(suspensions > 0);
}

static void a_pass_has_logits_for_half_of_its_tokens(void **state) {
    (void)state;
    struct sched_limits limits = {.batch_max = 3, .pass_tokens = 9, .scores = true};
    assert_int_equal(sched_logits_max(&limits), 5);
    limits.pass_tokens = 1;
    assert_int_equal(sched_logits_max(&limits), 1);
    limits.scores = false;
    limits.pass_tokens = 9;
    assert_int_equal(sched_logits_max(&limits), 3);
}

/* Two rows alike to their ends: the second takes what needs no logits of its own, and not more. */
static void tokens_that_are_scored_are_not_taken_from_others(void **state) {
    (void)state;
    static const uint32_t tokens[80];
    struct rig rig = {0};
    struct error err;
    rig_begin(&rig, 0, 0,
              (struct sched_limits){
                  .batch_max = 4, .pass_tokens = 200, .page_count = 40, .scores = true});
    struct seq_request request = {.prompt = tokens,
                                  .prompt_count = 80,
                                  .max_tokens = 1,
                                  .score_first = 50,
                                  .ignores_eos = true};
    for (size_t i = 0; i < 2; i++) {
        struct seq *seq = NULL;
        assert_int_equal(seq_new(&request, &seq, &err), SL_OK);
        sched_admit(&rig.sched, seq);
    }
    sched_pick(&rig.sched, &rig.kv);
    assert_int_equal(rig.sched.pick_count, 2);
    assert_int_equal(rig.sched.picks[0].count, 80);
    assert_int_equal(rig.sched.picks[1].first,
                     48); /* three pages; position 49 is the first wanted */
    size_t ended = 0;
    score(&rig, &ended);
    assert_int_equal(ended, 2);
    rig_end(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wanted_token_is_computed_once_within_the_bound),
        cmocka_unit_test(a_pass_has_logits_for_half_of_its_tokens),
        cmocka_unit_test(tokens_that_are_scored_are_not_taken_from_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
