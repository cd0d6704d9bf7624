/* Pages go out and come back; layers lie where kernels look; seqs hold what they need. */
#include "engine/seq.h"

#include "base/fault_for_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct config tiny = {.layers = 3, .kv_heads = 2, .head_dim = 8};

/* Two windowed layers of five. */
static bool windows[] = {true, false, false, true, false};
static const struct config mixed = {
    .layers = 5, .kv_heads = 2, .head_dim = 8, .window = 20, .is_windowed = windows};
/* Two layers of three keep a state: tails of 3 inputs of 2 x 1 x 8 + 2 x 16 channels, 144 floats,
 * and two matrices [8, 16]. */
static bool networks[] = {true, false, true};
static const struct config hybrid = {
    .layers = 3,
    .kv_heads = 2,
    .head_dim = 8,
    .delta = {.shape = {1, 2, 8, 16, 4, false}, .is_here = networks},
};
enum { STATE_BYTES = (144 + 2 * 8 * 16) * 4 };
static const size_t four[KV_GROUPS] = {4}, five[KV_GROUPS] = {5}, seven[KV_GROUPS] = {7};
static const size_t most[KV_GROUPS] = {UINT32_MAX - 1};

static void page_has_keys_and_values_of_all_layers(void **state) {
    (void)state;
    /* 3 layers x 16 positions x 2 heads x (8 + 8) values x 2 or 4 bytes. */
    assert_int_equal(kv_page_bytes(&tiny, KV_BF16, KV_WHOLE), 3072);
    assert_int_equal(kv_page_bytes(&tiny, KV_F32, KV_WHOLE), 6144);
    /* Llama 3.1 70B: 80 layers x 16 x 8 x 256 x 2 = 5 MiB. */
    struct config large = {.layers = 80, .kv_heads = 8, .head_dim = 128};
    assert_int_equal(kv_page_bytes(&large, KV_BF16, KV_WHOLE), 5 << 20);
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
    assert_int_equal(kv_init(&kv, &tiny, KV_F32, five, &err), SL_OK);
    assert_int_equal(kv.layer_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(kv.layers[i].base, kv.pools[KV_WHOLE].slab.data + i * 2048);
        assert_int_equal(kv.layers[i].page_bytes, 6144);
        assert_int_equal(kv.layers[i].kv_heads, 2);
        assert_int_equal(kv.layers[i].head_dim, 8);
        assert_int_equal(kv.layers[i].value_dim, 8);
        assert_int_equal(kv.layers[i].dtype, KV_F32);
    }
    assert_true(kv.pools[KV_WHOLE].slab.bytes >= 5 * 6144);
    memset(kv.pools[KV_WHOLE].slab.data, 1, 5 * 6144); /* all of it can be written */
    kv_release(&kv);
    kv_release(&kv);
}

static void rows_keep_one_state_each(void **state) {
    (void)state;
    static const uint32_t prompt[40] = {1};
    static const size_t counts[KV_GROUPS] = {[KV_WHOLE] = 8, [KV_STATE] = 2};
    struct seq_request request = {.prompt = prompt, .prompt_count = 40, .max_tokens = 8};
    struct seq *seqs[3];
    struct kv kv;
    struct error err;
    assert_int_equal(kv_page_bytes(&hybrid, KV_F32, KV_WHOLE), 2048);
    assert_int_equal(kv_page_bytes(&hybrid, KV_F32, KV_STATE), 2 * STATE_BYTES);
    assert_int_equal(kv_page_bytes(&hybrid, KV_BF16, KV_STATE), 2 * STATE_BYTES); /* float32 */
    assert_int_equal(kv_page_bytes(&tiny, KV_F32, KV_STATE), 0);
    assert_int_equal(kv_init(&kv, &hybrid, KV_F32, counts, &err), SL_OK);
    assert_true(kv_can_share(&hybrid));
    assert_true(kv_can_share(&tiny));
    assert_ptr_equal(kv.layers[0].base, kv.pools[KV_STATE].slab.data);
    assert_ptr_equal(kv.layers[1].base, kv.pools[KV_WHOLE].slab.data);
    assert_ptr_equal(kv.layers[2].base, kv.pools[KV_STATE].slab.data + STATE_BYTES);
    assert_int_equal(kv.layers[2].page_bytes, 2 * STATE_BYTES);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(seq_new(&request, &seqs[i], &err), SL_OK);
    assert_true(seq_take_pages(seqs[0], &kv, 16));
    assert_true(seq_take_pages(seqs[0], &kv, 48)); /* a third page, and still one state */
    assert_true(seq_take_pages(seqs[1], &kv, 1));
    assert_int_equal(seqs[0]->pages[KV_STATE].count, 1);
    assert_int_equal(seqs[0]->pages[KV_STATE].numbers[0], 0);
    assert_int_equal(seqs[1]->pages[KV_STATE].numbers[0], 1);
    assert_int_equal(kv_bytes_used(&kv), 4 * 2048 + 2 * 2 * STATE_BYTES);
    assert_int_equal(kv_bytes(&kv), 8 * 2048 + 2 * 2 * STATE_BYTES);
    assert_false(seq_take_pages(seqs[2], &kv, 1));
    seq_free(seqs[0], &kv);
    assert_true(seq_take_pages(seqs[2], &kv, 1));
    assert_int_equal(seqs[2]->pages[KV_STATE].numbers[0], 0);
    seq_free(seqs[1], &kv);
    seq_free(seqs[2], &kv);
    assert_int_equal(kv_bytes_used(&kv), 0);
    kv_release(&kv);
}

static void pages_go_out_once_and_come_back(void **state) {
    (void)state;
    struct kv kv;
    struct error err;
    uint32_t pages[7], again;
    assert_int_equal(kv_init(&kv, &tiny, KV_BF16, seven, &err), SL_OK);
    for (uint32_t i = 0; i < 7; i++) {
        assert_true(kv_take(&kv, KV_WHOLE, &pages[i]));
        assert_int_equal(pages[i], i);
    }
    assert_false(kv_take(&kv, KV_WHOLE, &again));
    assert_int_equal(kv_pages_used(&kv), 7);
    kv_give(&kv, KV_WHOLE, pages[2]);
    kv_give(&kv, KV_WHOLE, pages[5]);
    assert_int_equal(kv_pages_used(&kv), 5);
    assert_true(kv_take(&kv, KV_WHOLE, &again));
    assert_int_equal(again, 5); /* given back last, warm in memory: out first */
    assert_true(kv_take(&kv, KV_WHOLE, &again));
    assert_int_equal(again, 2);
    assert_false(kv_take(&kv, KV_WHOLE, &again));
    assert_int_equal(kv.pools[KV_WHOLE].pages_used_max, 7);
    kv_release(&kv);
}

static void pool_that_does_not_fit_is_an_error(void **state) {
    (void)state;
    struct kv kv;
    struct error err;
    struct config large = {.layers = 1024, .kv_heads = 4096, .head_dim = 4096};
    assert_int_equal(kv_init(&kv, &large, KV_F32, most, &err), SL_ERR_ENV);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        fault_arm(SL_FAULT_ALLOC, nth, false);
        assert_int_equal(kv_init(&kv, &tiny, KV_F32, five, &err), SL_ERR_ENV);
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
    assert_int_equal(kv_init(&kv, &tiny, KV_BF16, four, &err), SL_OK);
    assert_int_equal(seq_new(&request, &seq, &err), SL_OK);
    assert_null(seq->logprobs);
    assert_true(seq_take_pages(seq, &kv, 17));
    assert_int_equal(kv_pages_used(&kv), 2);
    assert_true(seq_take_pages(seq, &kv, 41));
    assert_int_equal(kv_pages_used(&kv), 3);
    seq_free(seq, &kv);
    assert_int_equal(kv_pages_used(&kv), 0);
    assert_int_equal(kv.pools[KV_WHOLE].free_count, 4);
    kv_release(&kv);
}

static void windowed_layers_have_pages_of_their_own(void **state) {
    (void)state;
    struct kv kv;
    struct error err;
    static const size_t counts[KV_GROUPS] = {3, 2};
    static const bool latent_windows[] = {true};
    struct config latent = {.layers = 1,
                            .window = 20,
                            .is_windowed = (bool *)latent_windows,
                            .latent = {.kv_rank = 8, .rope = 4}};
    /* 2 heads x 16 positions x (8 + 8) values x 4 bytes = 2048 a layer. */
    assert_int_equal(kv_page_bytes(&mixed, KV_F32, KV_WHOLE), 3 * 2048);
    assert_int_equal(kv_page_bytes(&mixed, KV_F32, KV_WINDOW), 2 * 2048);
    assert_int_equal(kv_window(&mixed), 20);
    assert_int_equal(kv_window(&tiny), 0);
    assert_int_equal(kv_window(&latent), 0); /* its cache is seen whole */
    assert_int_equal(SL_OK, kv_init(&kv, &mixed, KV_F32, counts, &err));
    for (size_t i = 0; i < 5; i++) {
        static const size_t places[] = {0, 0, 1, 1, 2};
        const struct kv_pool *pool = &kv.pools[windows[i] ? KV_WINDOW : KV_WHOLE];
        assert_ptr_equal(kv.layers[i].base, pool->slab.data + places[i] * 2048);
        assert_int_equal(kv.layers[i].page_bytes, pool->page_bytes);
        assert_int_equal(kv.layers[i].is_windowed, windows[i]);
    }
    uint32_t page;
    assert_true(kv_take(&kv, KV_WINDOW, &page));
    assert_true(kv_take(&kv, KV_WINDOW, &page));
    assert_false(kv_take(&kv, KV_WINDOW, &page));
    assert_true(kv_take(&kv, KV_WHOLE, &page));
    assert_int_equal(kv_bytes_used(&kv), 2 * 4096 + 6144);
    assert_int_equal(kv_bytes(&kv), 2 * 4096 + 3 * 6144);
    kv_release(&kv);
}

/* Counted over every place where the window may begin. */
static void window_touches_no_more_pages_than_said(void **state) {
    (void)state;
    for (uint32_t window = 1; window < 70; window++) {
        size_t largest = 0;
        for (size_t begin = 0; begin < 16; begin++) {
            size_t pages = (begin + window - 1) / 16 - begin / 16 + 1;
            largest = pages > largest ? pages : largest;
        }
        assert_int_equal(kv_window_pages(window), largest);
    }
    assert_int_equal(kv_window_pages(0), 0);
}

/* A token at position p sees p - 19 to p. */
static void seq_gives_back_what_the_window_has_passed(void **state) {
    (void)state;
    static const uint32_t prompt[1] = {1};
    static const size_t counts[KV_GROUPS] = {8, 4};
    struct seq_request request = {.prompt = prompt, .prompt_count = 1, .max_tokens = 100};
    struct kv kv;
    struct seq *seq;
    struct error err;
    assert_int_equal(SL_OK, kv_init(&kv, &mixed, KV_BF16, counts, &err));
    assert_int_equal(SL_OK, seq_new(&request, &seq, &err));
    assert_true(seq_take_pages(seq, &kv, 34)); /* 3 pages of each */
    seq->computed = 34;                        /* the next one sees 15 to 34 */
    seq_trim_pages(seq, &kv);
    assert_int_equal(kv.pools[KV_WINDOW].pages_used, 3);
    seq->computed = 35; /* 16 to 35 */
    assert_true(seq_take_pages(seq, &kv, 35));
    seq_trim_pages(seq, &kv);
    assert_int_equal(kv.pools[KV_WINDOW].pages_used, 2);
    assert_true(seq->pages[KV_WINDOW].numbers[0] == SL_PAGE_GONE);
    assert_true(seq_take_pages(seq, &kv, 64)); /* its page serves again */
    assert_int_equal(seq->pages[KV_WINDOW].numbers[3], 0);
    assert_false(seq_take_pages(seq, &kv, 90)); /* 5 pages without giving back */
    assert_int_equal(kv.pools[KV_WINDOW].pages_used, 4);
    seq_free(seq, &kv);
    assert_int_equal(kv_pages_used(&kv), 0);
    assert_int_equal(kv.pools[KV_WHOLE].free_count, 8);
    assert_int_equal(kv.pools[KV_WINDOW].free_count, 4);
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
        cmocka_unit_test(rows_keep_one_state_each),
        cmocka_unit_test(pages_go_out_once_and_come_back),
        cmocka_unit_test_teardown(pool_that_does_not_fit_is_an_error, fault_disarm_all),
        cmocka_unit_test(seq_has_room_for_all_its_tokens),
        cmocka_unit_test(seq_gives_its_pages_back),
        cmocka_unit_test(windowed_layers_have_pages_of_their_own),
        cmocka_unit_test(window_touches_no_more_pages_than_said),
        cmocka_unit_test(seq_gives_back_what_the_window_has_passed),
        cmocka_unit_test_teardown(seq_without_memory_is_an_error, fault_disarm_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
