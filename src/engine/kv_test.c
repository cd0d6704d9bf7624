/* Pages go out and come back; layers lie where kernels look; seqs hold what they need. */
#include "engine/seq.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct config tiny = {.layers = 3, .kv_heads = 2, .head_dim = 8};

static int disarm(void **state) {
    (void)state;
    fault_arm(SL_FAULT_ALLOC, 0, false);
    return 0;
}

static void page_has_keys_and_values_of_all_layers(void **state) {
    (void)state;
    /* 3 layers x 16 positions x 2 heads x (8 + 8) values x 2 or 4 bytes. */
    assert_int_equal(kv_page_bytes(&tiny, KV_BF16), 3072);
    assert_int_equal(kv_page_bytes(&tiny, KV_F32), 6144);
    /* Llama 3.1 70B: 80 layers x 16 x 8 x 256 x 2 = 5 MiB. */
    struct config large = {.layers = 80, .kv_heads = 8, .head_dim = 128};
    assert_int_equal(kv_page_bytes(&large, KV_BF16), 5 << 20);
}

static void pages_hold_sixteen_positions(void **state) {
    (void)state;
    assert_int_equal(kv_pages_for(0), 0);
    assert_int_equal(kv_pages_for(1), 1);
    assert_int_equal(kv_pages_for(16), 1);
    assert_int_equal(kv_pages_for(17), 2);
    assert_true(kv_pages_for(SIZE_MAX) == SIZE_MAX / 16 + 1);
}

static void layers_follow_each_other_in_a_page(void **state) {
    (void)state;
    struct kv kv;
    struct error err;
    assert_int_equal(kv_init(&kv, &tiny, KV_F32, 5, &err), SL_OK);
    assert_int_equal(kv.layer_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(kv.layers[i].base, kv.pool.data + i * 2048);
        assert_int_equal(kv.layers[i].page_bytes, 6144);
        assert_int_equal(kv.layers[i].kv_heads, 2);
        assert_int_equal(kv.layers[i].head_dim, 8);
        assert_int_equal(kv.layers[i].value_dim, 8);
        assert_int_equal(kv.layers[i].dtype, KV_F32);
    }
    assert_true(kv.pool.bytes >= 5 * 6144);
    memset(kv.pool.data, 1, 5 * 6144); /* all of it can be written */
    kv_release(&kv);
    kv_release(&kv);
}

static void pages_go_out_once_and_come_back(void **state) {
    (void)state;
    struct kv kv;
    struct error err;
    uint32_t pages[7], again;
    assert_int_equal(kv_init(&kv, &tiny, KV_BF16, 7, &err), SL_OK);
    for (uint32_t i = 0; i < 7; i++) {
        assert_true(kv_take(&kv, &pages[i]));
        assert_int_equal(pages[i], i);
    }
    assert_false(kv_take(&kv, &again));
    assert_int_equal(kv.pages_used, 7);
    kv_give(&kv, pages[2]);
    kv_give(&kv, pages[5]);
    assert_int_equal(kv.pages_used, 5);
    assert_true(kv_take(&kv, &again));
    assert_int_equal(again, 5); /* given back last, warm in memory: out first */
    assert_true(kv_take(&kv, &again));
    assert_int_equal(again, 2);
    assert_false(kv_take(&kv, &again));
    assert_int_equal(kv.pages_used_max, 7);
    kv_release(&kv);
}

static void pool_that_does_not_fit_is_an_error(void **state) {
    (void)state;
    struct kv kv;
    struct error err;
    struct config large = {.layers = 1024, .kv_heads = 4096, .head_dim = 4096};
    assert_int_equal(kv_init(&kv, &large, KV_F32, UINT32_MAX, &err), SL_ERR_ENV);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        fault_arm(SL_FAULT_ALLOC, nth, false);
        assert_int_equal(kv_init(&kv, &tiny, KV_F32, 5, &err), SL_ERR_ENV);
    }
}

static void seq_has_room_for_all_its_tokens(void **state) {
    (void)state;
    static const uint32_t prompt[] = {5, 6, 7};
    struct seq_request request = {.user = (void *)&prompt,
                                  .key = 42,
                                  .prompt = prompt,
                                  .prompt_count = 3,
                                  .max_tokens = 30,
                                  .sampling = {.temperature = 0.5, .seed = 9},
                                  .logprobs_count = 4,
                                  .wants_logprobs = true,
                                  .ignores_eos = true};
    struct seq *seq;
    struct error err;
    assert_int_equal(seq_new(&request, &seq, &err), SL_OK);
    assert_memory_equal(seq->tokens, prompt, sizeof prompt);
    assert_int_equal(seq->token_count, 3);
    assert_int_equal(seq->computed, 0);
    assert_int_equal(seq->pages_cap, 3); /* 33 positions */
    assert_int_equal(seq_answer_count(seq), 0);
    assert_int_equal(seq->finish, FINISH_NONE);
    assert_ptr_equal(seq->user, &prompt);
    assert_true(seq->key == 42 && seq->sampling.seed == 9 && seq->ignores_eos);
    for (uint32_t i = 0; i < 30; i++) {
        seq->tokens[seq->token_count++] = i;
        for (uint32_t j = 0; j < 4; j++)
            seq->logprobs[i].top[j].id = i * 4 + j;
    }
    assert_int_equal(seq_answer_count(seq), 30);
    assert_int_equal(seq_answer(seq)[29], 29);
    for (uint32_t i = 0; i < 30; i++)
        for (uint32_t j = 0; j < 4; j++)
            assert_int_equal(seq->logprobs[i].top[j].id, i * 4 + j);
    seq_free(seq, NULL);
    seq_free(NULL, NULL);
}

static void seq_gives_its_pages_back(void **state) {
    (void)state;
    static const uint32_t prompt[1] = {1};
    struct seq_request request = {.prompt = prompt, .prompt_count = 1, .max_tokens = 40};
    struct kv kv;
    struct seq *seq;
    struct error err;
    assert_int_equal(kv_init(&kv, &tiny, KV_BF16, 4, &err), SL_OK);
    assert_int_equal(seq_new(&request, &seq, &err), SL_OK);
    assert_null(seq->logprobs);
    while (seq->pages_count < seq->pages_cap)
        assert_true(kv_take(&kv, &seq->pages[seq->pages_count++]));
    assert_int_equal(kv.pages_used, 3);
    seq_free(seq, &kv);
    assert_int_equal(kv.pages_used, 0);
    assert_int_equal(kv.free_count, 4);
    kv_release(&kv);
}

static void seq_without_memory_is_an_error(void **state) {
    (void)state;
    static const uint32_t prompt[2] = {1, 2};
    struct seq_request request = {
        .prompt = prompt, .prompt_count = 2, .max_tokens = 5, .wants_logprobs = true};
    struct seq *seq = NULL;
    struct error err;
    for (uint64_t nth = 1; nth <= 5; nth++) {
        fault_arm(SL_FAULT_ALLOC, nth, false);
        assert_int_equal(seq_new(&request, &seq, &err), SL_ERR_ENV);
        assert_null(seq);
    }
    fault_arm(SL_FAULT_ALLOC, 0, false);
    request.max_tokens = SIZE_MAX;
    assert_int_equal(seq_new(&request, &seq, &err), SL_ERR_ENV);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_has_keys_and_values_of_all_layers),
        cmocka_unit_test(pages_hold_sixteen_positions),
        cmocka_unit_test(layers_follow_each_other_in_a_page),
        cmocka_unit_test(pages_go_out_once_and_come_back),
        cmocka_unit_test_teardown(pool_that_does_not_fit_is_an_error, disarm),
        cmocka_unit_test(seq_has_room_for_all_its_tokens),
        cmocka_unit_test(seq_gives_its_pages_back),
        cmocka_unit_test_teardown(seq_without_memory_is_an_error, disarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
