/* The cursor of a step over a mixture of experts, with a provider that the test watches: experts
 * without tokens are never asked for, hints and leases have one order, whatever room there is for
 * hints; and a token's numbers do not depend on who shares the pass. */
#include "model/step.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "model/tiny_run.h"

#define EXPERTS 6
#define USED 2
#define TOKENS 16
#define HINTS_MAX 64

/* Passes everything on to a resident provider and keeps count. */
struct watch {
    struct provider provider; /* first, so that the one is the other */
    struct provider *inner;
    size_t hints[HINTS_MAX]; /* a circle: hinted and not acquired, in order */
    size_t first, count, room;
    size_t acquired, released;
    uint64_t bytes; /* of weights in the blocks acquired for the first time: those that are read */
    bool *is_used;  /* [block_count]: acquired in this pass */
    bool *is_known; /* [block_count]: acquired before */
};

static bool watch_hint(struct provider *provider, size_t block) {
    struct watch *watch = (struct watch *)provider;
    if (watch->count == watch->room)
        return false;
    watch->hints[(watch->first + watch->count++) % HINTS_MAX] = block;
    return watch->inner->ops->hint(watch->inner, block);
}

static enum status watch_acquire(struct provider *provider, size_t block, struct lease *lease,
                                 struct error *err) {
    struct watch *watch = (struct watch *)provider;
    assert_int_equal(watch->acquired++, watch->released); /* one lease at a time */
    if (watch->count > 0) {
        assert_int_equal(block, watch->hints[watch->first % HINTS_MAX]);
        watch->first++;
        watch->count--;
    }
    assert_false(watch->is_used[block]);
    watch->is_used[block] = true;
    watch->bytes += watch->is_known[block] ? 0 : provider->layout->blocks[block].read_bytes;
    watch->is_known[block] = true;
    return watch->inner->ops->acquire(watch->inner, block, lease, err);
}

static void watch_release(struct provider *provider, struct lease *lease) {
    struct watch *watch = (struct watch *)provider;
    watch->released++;
    watch->inner->ops->release(watch->inner, lease);
}

static const struct provider_ops watch_ops = {
    .name = "watch", .hint = watch_hint, .acquire = watch_acquire, .release = watch_release};

struct rig {
    struct tiny tiny;
    struct model *model;
    struct tiny_run run;
    struct watch watch;
};

/* A Mixtral: a llama whose MLPs give way to a router and experts. */
static void add_experts(struct tiny *tiny) {
    static const char *const plain[] = {"gate_proj", "up_proj", "down_proj"};
    static const char *const parts[] = {"w1", "w3", "w2"};
    char name[80];
    for (unsigned layer = 0; layer < TINY_LAYERS; layer++) {
        for (size_t i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "model.layers.%u.mlp.%s.weight", layer, plain[i]);
            tiny_drop(tiny, name);
        }
        snprintf(name, sizeof name, "model.layers.%u.block_sparse_moe.gate.weight", layer);
        tiny_add(tiny, name, EXPERTS, TINY_HIDDEN, 2.0f, 0.0f);
        for (unsigned e = 0; e < EXPERTS; e++)
            for (size_t i = 0; i < 3; i++) {
                snprintf(name, sizeof name, "model.layers.%u.block_sparse_moe.experts.%u.%s.weight",
                         layer, e, parts[i]);
                tiny_add(tiny, name, i == 2 ? TINY_HIDDEN : TINY_INNER,
                         i == 2 ? TINY_INNER : TINY_HIDDEN, 1.0f, 0.0f);
            }
    }
}

static void rig_begin(struct rig *rig, size_t room) {
    *rig = (struct rig){.watch.room = room};
    tiny_begin(&rig->tiny);
    tiny_add_llama(&rig->tiny, 1.0f);
    add_experts(&rig->tiny);
    tiny_write_config(&rig->tiny, "mixtral",
                      ",\"eos_token_id\":1,\"tie_word_embeddings\":true,\"num_local_experts\":6,"
                      "\"num_experts_per_tok\":2");
    tiny_write_safetensors(&rig->tiny);
    rig->model = tiny_open(rig->tiny.folder);
    rig->watch.provider.ops = &watch_ops;
    /* One page of a file each: matrices are cut, several blocks a layer. */
    tiny_run_open(&rig->run, rig->model, 8192, &rig->watch.provider, TOKENS, 1);
    rig->watch.inner = rig->run.provider;
    rig->watch.is_used = mem_new(rig->run.layout.block_count, sizeof(bool));
    assert_non_null(rig->watch.is_used);
    rig->watch.is_known = mem_new(rig->run.layout.block_count, sizeof(bool));
    assert_non_null(rig->watch.is_known);
}

static void rig_end(struct rig *rig) {
    tiny_run_end(&rig->run);
    assert_int_equal(rig->watch.acquired, rig->watch.released);
    mem_free(rig->watch.is_used);
    mem_free(rig->watch.is_known);
    model_close(rig->model);
    tiny_end(&rig->tiny);
}

/* Every block of the layer was used if and only if its expert, or nobody in particular, has tokens;
 * counts come from the routing itself. */
static void check_layer(const struct rig *rig, uint32_t layer) {
    size_t sum = 0;
    for (uint32_t e = 0; e < EXPERTS; e++)
        sum += rig->run.step->expert_tokens[e];
    assert_int_equal(sum, rig->run.step->tokens * USED);
    for (size_t b = 0; b < rig->run.layout.block_count; b++) {
        uint32_t key = rig->run.layout.pieces[rig->run.layout.blocks[b].first_piece].key;
        if (role_layer_of_key(key) != layer || !role_is_expert(role_of_key(key)))
            continue;
        assert_int_equal(rig->watch.is_used[b],
                         rig->run.step->expert_tokens[role_expert_of_key(key)] > 0);
    }
}

/* Positions [first, first + count) of one row, whose ids are fixed; logits of the last one. */
static void run_pass(struct rig *rig, size_t first, size_t count, float *logits) {
    static const uint32_t ids[TOKENS] = {3, 1, 7, 11, 0, 5, 5, 2, 9, 4, 8, 10, 6, 3, 7, 1};
    static const uint32_t page;
    const struct arch_math *math = rig->model->arch->math;
    struct step *step = rig->run.step;
    struct kv_token tokens[TOKENS];
    struct error err = {0};
    uint32_t column = (uint32_t)count - 1;
    for (size_t i = 0; i < count; i++)
        tokens[i] = (struct kv_token){.position = (uint32_t)(first + i), .pages = &page};
    memset(rig->watch.is_used, 0, rig->run.layout.block_count * sizeof(bool));
    step->kv_layers = rig->run.layers;
    step->tokens = count;
    step->ids = ids + first;
    step->kv_tokens = tokens;
    step->logit_columns = &column;
    step->logit_count = 1;
    assert_int_equal(step_begin(step, &err), SL_OK);
    assert_int_equal(math->embed(step, &err), SL_OK);
    for (uint32_t layer = 0; layer < TINY_LAYERS; layer++) {
        assert_int_equal(math->attend(step, layer, &err), SL_OK);
        assert_int_equal(math->route(step, layer, &err), SL_OK);
        for (uint32_t e = 0; e < EXPERTS; e++)
            if (step->expert_tokens[e] > 0)
                assert_int_equal(math->expert(step, layer, e, &err), SL_OK);
        check_layer(rig, layer);
    }
    assert_int_equal(math->head(step, &err), SL_OK);
    step_end(step);
    for (size_t i = 0; i < TINY_VOCABULARY; i++)
        logits[i] = *act_at(&step->logits, i, 0);
}

static void experts_without_tokens_are_never_asked_for(void **state) {
    (void)state;
    for (size_t room = 1; room <= 33; room += room < 4 ? 1 : 29) {
        struct rig rig;
        float logits[TINY_VOCABULARY];
        rig_begin(&rig, room);
        for (size_t pass = 0; pass < TOKENS; pass++) { /* a token each: at most 2 experts a layer */
            size_t before = rig.watch.acquired;
            rig.run.step->is_last_pass = pass + 1 == TOKENS;
            run_pass(&rig, pass, 1, logits);
            assert_true(rig.watch.acquired - before < rig.run.layout.block_count);
            assert_int_equal(rig.run.step->used_bytes, rig.watch.bytes);
        }
        assert_int_equal(rig.watch.count, 0); /* nothing was hinted over the last border */
        rig_end(&rig);
    }
}

static void hints_reach_over_the_border_up_to_the_next_router(void **state) {
    (void)state;
    struct rig rig;
    float logits[TINY_VOCABULARY];
    rig_begin(&rig, HINTS_MAX);
    run_pass(&rig, 0, 5, logits);
    size_t known = 0; /* blocks of the next pass before the first expert */
    while (!role_is_expert(
        role_of_key(rig.run.layout.pieces[rig.run.layout.blocks[known].first_piece].key)))
        known++;
    assert_true(known > 0);
    assert_int_equal(rig.watch.count, known);
    rig_end(&rig);
}

static void numbers_of_a_token_do_not_depend_on_the_pass(void **state) {
    (void)state;
    float alone[TINY_VOCABULARY], together[TINY_VOCABULARY];
    struct rig rig;
    rig_begin(&rig, 3);
    for (size_t pass = 0; pass < TOKENS; pass++)
        run_pass(&rig, pass, 1, alone);
    for (size_t chunk = 2; chunk <= TOKENS; chunk *= 2) {
        for (size_t first = 0; first < TOKENS; first += chunk)
            run_pass(&rig, first, chunk, together);
        assert_memory_equal(alone, together, sizeof alone);
    }
    rig_end(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_without_tokens_are_never_asked_for),
        cmocka_unit_test(hints_reach_over_the_border_up_to_the_next_router),
        cmocka_unit_test(numbers_of_a_token_do_not_depend_on_the_pass),
    };
    return cmocka_run_group_tests_name("step_mixture", tests, NULL, NULL);
}
