/* The cursor of a step over a provider that the test watches: order of hints and leases, hints over
 * the border of two passes, none after the last one, refused hints, failures. */
#include "model/step.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "model/tiny_run.h"

/* Passes everything on to a resident provider and keeps count. */
struct watch {
    struct provider provider; /* first, so that the one is the other */
    struct provider *inner;
    size_t hints, acquired; /* how far, counted over passes; blocks left out count too */
    size_t leased, released, refusals;
    size_t room;         /* hints not yet acquired that it takes */
    size_t fail_acquire; /* this one fails, counted from 1; 0: none */
};

/* From position `at` on to that block: the head alone may be left out. */
static size_t watch_step(const struct layout *layout, size_t at, size_t block) {
    for (; at % layout->block_count != block; at++) {
        const struct block *left_out = &layout->blocks[at % layout->block_count];
        assert_int_equal(role_of_key(layout->pieces[left_out->first_piece].key), ROLE_HEAD);
    }
    return at;
}

static bool watch_hint(struct provider *provider, size_t block) {
    struct watch *watch = (struct watch *)provider;
    size_t at = watch_step(provider->layout, watch->hints, block);
    if (at - watch->acquired >= watch->room) {
        watch->refusals++;
        return false;
    }
    watch->hints = at + 1;
    return watch->inner->ops->hint(watch->inner, block);
}

static enum status watch_acquire(struct provider *provider, size_t block, struct lease *lease,
                                 struct error *err) {
    struct watch *watch = (struct watch *)provider;
    size_t at = watch_step(provider->layout, watch->acquired, block);
    assert_int_equal(watch->leased, watch->released); /* one lease at a time */
    if (watch->fail_acquire == at + 1)
        return error_set(err, SL_ERR_ENV, "the drive is gone");
    watch->acquired = at + 1;
    watch->leased++;
    if (watch->hints < watch->acquired)
        watch->hints = watch->acquired;
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
    struct kv_token token;
};

static const uint32_t page, id = 3, column;

static void rig_begin(struct rig *rig, size_t room) {
    *rig = (struct rig){.watch.room = room};
    tiny_begin(&rig->tiny);
    tiny_add_llama(&rig->tiny, 1.0f);
    tiny_write_config(&rig->tiny, "llama", ",\"eos_token_id\":1,\"tie_word_embeddings\":true");
    tiny_write_safetensors(&rig->tiny);
    rig->model = tiny_open(rig->tiny.folder);
    rig->watch.provider.ops = &watch_ops;
    /* One page of a file each: matrices are cut, several blocks a layer. */
    tiny_run_open(&rig->run, rig->model, 8192, &rig->watch.provider, 1, 1);
    rig->watch.inner = rig->run.provider;
}

static void rig_end(struct rig *rig) {
    tiny_run_end(&rig->run);
    assert_int_equal(rig->watch.leased, rig->watch.released);
    model_close(rig->model);
    tiny_end(&rig->tiny);
}

static enum status run_pass(struct rig *rig, size_t logits, struct error *err) {
    struct step *step = rig->run.step;
    rig->token = (struct kv_token){.pages = &page};
    step->kv_layers = rig->run.layers;
    step->tokens = 1;
    step->ids = &id;
    step->kv_tokens = &rig->token;
    step->logit_columns = &column;
    step->logit_count = logits;
    TRY(step_begin(step, err));
    TRY(rig->model->arch->math->embed(step, err));
    for (uint32_t layer = 0; layer < TINY_LAYERS; layer++) {
        TRY(rig->model->arch->math->attend(step, layer, err));
        TRY(rig->model->arch->math->mlp(step, layer, err));
    }
    TRY(rig->model->arch->math->head(step, err));
    step_end(step);
    return SL_OK;
}

/* Blocks of the head, which are the last ones. */
static size_t head_blocks(const struct layout *layout) {
    size_t count = 0;
    for (size_t i = 0; i < layout->block_count; i++)
        count += role_of_key(layout->pieces[layout->blocks[i].first_piece].key) == ROLE_HEAD;
    return count;
}

static void hints_go_over_the_border_of_passes_and_end_with_the_last(void **state) {
    struct rig rig;
    struct error err = {0};
    (void)state;
    rig_begin(&rig, SIZE_MAX);
    size_t blocks = rig.run.layout.block_count, head = head_blocks(&rig.run.layout);
    assert_true(blocks >= 2 * TINY_LAYERS + 1 && head > 0);
    assert_int_equal(run_pass(&rig, 1, &err), SL_OK);
    assert_int_equal(rig.watch.acquired, blocks);
    /* The whole next pass but for its head, which it may have no use for. */
    assert_int_equal(rig.watch.hints, 2 * blocks - head);
    rig.run.step->is_last_pass = true;
    assert_int_equal(run_pass(&rig, 1, &err), SL_OK);
    assert_int_equal(rig.watch.acquired, 2 * blocks);
    assert_int_equal(rig.watch.hints, 2 * blocks);
    rig_end(&rig);
}

static void refused_hints_are_offered_again(void **state) {
    struct rig rig;
    struct error err = {0};
    float first[TINY_VOCABULARY];
    (void)state;
    rig_begin(&rig, SIZE_MAX);
    assert_int_equal(run_pass(&rig, 1, &err), SL_OK);
    for (size_t i = 0; i < TINY_VOCABULARY; i++)
        first[i] = *act_at(&rig.run.step->logits, i, 0);
    rig_end(&rig);
    for (size_t room = 0; room < 3; room++) {
        rig_begin(&rig, room);
        assert_int_equal(run_pass(&rig, 1, &err), SL_OK);
        size_t blocks = rig.run.layout.block_count;
        assert_int_equal(rig.watch.acquired, blocks);
        assert_int_equal(rig.watch.hints, blocks + room);
        assert_true(rig.watch.refusals > 0);
        for (size_t i = 0; i < TINY_VOCABULARY; i++)
            assert_true(first[i] == *act_at(&rig.run.step->logits, i, 0));
        rig_end(&rig);
    }
}

static void a_pass_without_logits_leaves_the_head_out(void **state) {
    struct rig rig;
    struct error err = {0};
    float expected[TINY_VOCABULARY];
    (void)state;
    rig_begin(&rig, 1);
    assert_int_equal(run_pass(&rig, 1, &err), SL_OK);
    for (size_t i = 0; i < TINY_VOCABULARY; i++)
        expected[i] = *act_at(&rig.run.step->logits, i, 0);
    rig_end(&rig);
    for (size_t room = 0; room < 3; room++) {
        rig_begin(&rig, room == 2 ? SIZE_MAX : room);
        size_t blocks = rig.run.layout.block_count, head = head_blocks(&rig.run.layout);
        assert_int_equal(run_pass(&rig, 0, &err), SL_OK);
        assert_int_equal(rig.watch.acquired, blocks - head);
        assert_int_equal(run_pass(&rig, 1, &err), SL_OK);
        assert_int_equal(rig.watch.acquired, 2 * blocks);
        assert_int_equal(rig.watch.leased, 2 * blocks - head);
        for (size_t i = 0; i < TINY_VOCABULARY; i++)
            assert_true(expected[i] == *act_at(&rig.run.step->logits, i, 0));
        rig.run.step->is_last_pass = true;
        assert_int_equal(run_pass(&rig, 0, &err), SL_OK);
        assert_int_equal(rig.watch.leased, 3 * blocks - 2 * head);
        assert_int_equal(rig.watch.acquired, 3 * blocks - head);
        assert_int_equal(rig.watch.hints, rig.watch.acquired);
        rig_end(&rig);
    }
}

static void a_failed_read_ends_the_pass_and_leaves_no_lease(void **state) {
    (void)state;
    for (size_t at = 1; at <= 4; at++) {
        struct rig rig;
        struct error err = {0};
        rig_begin(&rig, 2);
        rig.watch.fail_acquire = at;
        assert_int_equal(run_pass(&rig, 1, &err), SL_ERR_ENV);
        assert_string_equal(err.text, "the drive is gone");
        step_abandon(rig.run.step);
        assert_int_equal(rig.watch.leased, rig.watch.released);
        rig_end(&rig);
    }
}

static void every_failed_allocation_is_a_clean_error(void **state) {
    struct rig rig;
    (void)state;
    rig_begin(&rig, 1);
    struct step_options options = {rig.model, rig.run.backend, &rig.watch.provider, 3, 2};
    for (uint64_t nth = 1;; nth++) {
        struct step *step = NULL;
        struct error err = {0};
        fault_arm(SL_FAULT_ALLOC, nth, false);
        enum status status = step_new(&options, &step, &err);
        bool has_hit = fault_count(SL_FAULT_ALLOC) >= nth;
        fault_arm(SL_FAULT_ALLOC, 0, false);
        step_free(step);
        if (!has_hit) {
            assert_int_equal(status, SL_OK);
            assert_true(nth > 10);
            break;
        }
        assert_int_equal(status, SL_ERR_ENV);
        assert_non_null(strstr(err.text, "memory"));
    }
    rig_end(&rig);
}

static void every_failure_while_a_model_is_opened_is_a_clean_error(void **state) {
    static const enum fault_point points[] = {SL_FAULT_ALLOC, SL_FAULT_OPEN, SL_FAULT_READ,
                                              SL_FAULT_SHORT_READ};
    struct tiny tiny;
    (void)state;
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 1.0f);
    tiny_write_config(&tiny, "llama", ",\"eos_token_id\":1,\"tie_word_embeddings\":true");
    tiny_write_safetensors(&tiny);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        for (uint64_t nth = 1;; nth++) {
            struct model *model = NULL;
            struct error err = {0};
            fault_arm(points[i], nth, true);
            enum status status = model_open(tiny.folder, MODEL_ALL, &model, &err);
            bool has_hit = fault_count(points[i]) >= nth;
            fault_arm(points[i], 0, false);
            model_close(model);
            if (!has_hit) {
                assert_int_equal(status, SL_OK);
                break;
            }
            /* Direct I/O that is refused, and short reads, are made good. */
            if (status != SL_OK) {
                assert_int_equal(status, SL_ERR_ENV);
                assert_true(err.text[0] != '\0');
            }
        }
    tiny_end(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hints_go_over_the_border_of_passes_and_end_with_the_last),
        cmocka_unit_test(refused_hints_are_offered_again),
        cmocka_unit_test(a_pass_without_logits_leaves_the_head_out),
        cmocka_unit_test(a_failed_read_ends_the_pass_and_leaves_no_lease),
        cmocka_unit_test(every_failed_allocation_is_a_clean_error),
        cmocka_unit_test(every_failure_while_a_model_is_opened_is_a_clean_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
