/* For tests alone: a scheduler with pages and an index of prefixes, and what engine and pass do
 * besides. Include it from *_test.c, after <cmocka.h>. */
#ifndef SLUICE_ENGINE_PREFIX_FOR_TEST_H
#define SLUICE_ENGINE_PREFIX_FOR_TEST_H

#include "engine/sched.h"

static bool tiny_windows[3], tiny_networks[3] = {false, false, true};
static struct config tiny = {
    .kv_heads = 1,
    .head_dim = 2,
    .is_windowed = tiny_windows,
    .delta = {.is_here = tiny_networks},
};

#define RIG_STATES ((size_t)3) /* added to a kind: one more layer, which keeps a state */

struct rig {
    struct kv kv;
    struct prefix prefix;
    struct sched sched;
};

/* kind 0: no layer has a window; 1: one of two; 2: both. */
static inline void rig_begin(struct rig *rig, size_t kind, uint32_t window,
                             struct sched_limits limits) {
    struct error err;
    bool has_states = kind >= RIG_STATES;
    kind -= has_states ? RIG_STATES : 0;
    tiny.layers = has_states ? 3 : 2;
    tiny.delta.shape = (struct delta_shape){has_states, 1, 1, 1, 1, false};
    tiny.window = kind == 0 ? 0 : window;
    tiny_windows[0] = kind > 0;
    tiny_windows[1] = kind > 1;
    limits.window = tiny.window;
    limits.is_all_windowed = kind == 2;
    size_t counts[KV_GROUPS] = {limits.page_count, limits.window_page_count,
                                limits.batch_max + limits.kept_states};
    assert_int_equal(kv_init(&rig->kv, &tiny, KV_BF16, counts, &err), SL_OK);
    assert_int_equal(sched_init(&rig->sched, &limits, &err), SL_OK);
    assert_int_equal(prefix_init(&rig->prefix, &rig->kv, &err), SL_OK);
    rig->sched.prefix = &rig->prefix;
}

static inline void rig_end(struct rig *rig) {
    assert_int_equal(kv_pages_used(&rig->kv), 0);
    prefix_release(&rig->prefix);
    sched_release(&rig->sched);
    kv_release(&rig->kv);
}

static inline struct seq *new_seq(const uint32_t *prompt, size_t prompt_count, size_t max_tokens) {
    struct seq_request request = {
        .prompt = prompt, .prompt_count = prompt_count, .max_tokens = max_tokens};
    struct seq *seq = NULL;
    struct error err;
    assert_int_equal(seq_new(&request, &seq, &err), SL_OK);
    return seq;
}

/* A row of `alike` tokens that all rows have and others that only it has. */
static inline struct seq *admit(struct rig *rig, size_t alike, size_t count, uint32_t own) {
    uint32_t prompt[256];
    for (size_t i = 0; i < count; i++)
        prompt[i] = i < alike ? 7 : own;
    struct seq *seq = new_seq(prompt, count, 20);
    sched_admit(&rig->sched, seq);
    return seq;
}

static inline void end(struct rig *rig, struct seq *seq) {
    sched_remove(&rig->sched, seq);
    seq_free(seq, &rig->kv);
}

/* As engine and pass do. */
static inline void run_picks(struct rig *rig, uint32_t token) {
    for (size_t i = 0; i < rig->sched.pick_count; i++) {
        struct sched_pick *pick = &rig->sched.picks[i];
        assert_true(seq_take_pages(pick->seq, &rig->kv, pick->first + pick->count));
        pick->seq->computed += pick->count;
        if (pick->logits > 0) {
            pick->seq->tokens[pick->seq->token_count++] = token;
            sched_grow(&rig->sched, pick->seq);
        }
        prefix_settle(&rig->prefix, pick->seq);
        seq_trim_pages(pick->seq, &rig->kv);
    }
}

#endif
