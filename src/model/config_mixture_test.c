/* Settings of mixtures of experts: what each family reads from config.json and GGUF metadata, what
 * is refused by name, and how experts are found in the files. */
#include "model/arch.h"

#include "base/fault.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/tiny_model.h"

#define SIZES                                                                                      \
    "\"num_hidden_layers\":4,\"hidden_size\":16,\"num_attention_heads\":2,"                        \
    "\"num_key_value_heads\":1,\"intermediate_size\":24,\"vocab_size\":32,"                        \
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,"                 \
    "\"num_experts_per_tok\":2"
#define MLA                                                                                        \
    ",\"kv_lora_rank\":8,\"q_lora_rank\":6,\"qk_nope_head_dim\":4,\"qk_rope_head_dim\":2,"         \
    "\"v_head_dim\":5"
#define ROUTED ",\"n_routed_experts\":8,\"moe_intermediate_size\":12"

#include "model/config_for_test.h"

static void each_family_reads_its_experts(void **state) {
    (void)state;
    struct config config = read_good("mixtral", ",\"num_local_experts\":8");
    assert_int_equal(config.mixture.count, 8);
    assert_int_equal(config.mixture.inner, 24);
    assert_true(config.mixture.sums_to_one && config.mixture.score == MIXTURE_SOFTMAX);
    config_release(&config);
    config = read_good("qwen2_moe", ",\"num_experts\":8,\"moe_intermediate_size\":12,"
                                    "\"shared_expert_intermediate_size\":20");
    assert_int_equal(config.mixture.inner, 12);
    assert_int_equal(config.mixture.shared_inner, 20);
    assert_false(config.mixture.sums_to_one); /* the class default */
    config_release(&config);
    config = read_good("qwen3_moe",
                       ",\"num_experts\":8,\"moe_intermediate_size\":12,\"norm_topk_prob\":true,"
                       "\"decoder_sparse_step\":2,\"mlp_only_layers\":[3]");
    assert_true(config.mixture.sums_to_one && config.has_qk_norm);
    for (uint32_t layer = 0; layer < 4; layer++) /* (layer + 1) % 2 == 0, but not 3 */
        assert_int_equal(config_is_mixture(&config, layer), layer == 1);
    config_release(&config);
    config = read_good("gpt_oss", ",\"num_local_experts\":8,\"sliding_window\":16");
    assert_true(config.mixture.score == MIXTURE_SOFTMAX_CHOSEN && config.declares_attention_bias);
    assert_true(config.mixture.swiglu_limit == 7.0f && config.is_windowed[0]);
    assert_false(config.is_windowed[1]);
    config_release(&config);
    config = read_good("glm4_moe", ROUTED ",\"n_shared_experts\":2,\"first_k_dense_replace\":1,"
                                          "\"routed_scaling_factor\":1.5,\"use_qk_norm\":true");
    assert_int_equal(config.mixture.shared_inner, 24);
    assert_int_equal(config.rope.rotary, 4); /* half of a head unless the config says otherwise */
    assert_true(config.mixture.score == MIXTURE_SIGMOID && config.mixture.scale == 1.5f);
    assert_true(config.has_qk_norm && !config.rope.is_interleaved);
    for (uint32_t layer = 0; layer < 4; layer++)
        assert_int_equal(config_is_mixture(&config, layer), layer > 0);
    config_release(&config);
}

static void deepseek_reads_its_compressed_heads(void **state) {
    (void)state;
    struct config config = read_good("deepseek_v3", ROUTED MLA ",\"n_group\":4,\"topk_group\":2,"
                                                               "\"head_dim\":64");
    assert_int_equal(config.head_dim, 6); /* 4 + 2, whatever head_dim says */
    assert_int_equal(config.rope.rotary, 2);
    assert_true(config.rope.is_interleaved && config.mixture.sums_to_one);
    uint64_t rows, columns;
    arch_shape(&config, 0, ROLE_KV_B, &rows, &columns);
    assert_true(rows == 2 * (4 + 5) && columns == 8);
    arch_shape(&config, 0, ROLE_O, &rows, &columns);
    assert_true(rows == 16 && columns == 2 * 5);
    config_release(&config);
    config = read_good("deepseek_v3", ROUTED MLA
                       ",\"q_lora_rank\":null,\"rope_interleave\":false,\"rope_scaling\":{"
                       "\"type\":\"yarn\",\"factor\":40,\"mscale\":1.0,\"mscale_all_dim\":1.0,"
                       "\"original_max_position_embeddings\":4096}");
    assert_true(config.rope.attention_factor == 1.0 && config.rope.mscale_all_dim == 1.0);
    assert_false(config.rope.is_interleaved);
    config_release(&config);
}

static void settings_of_mixtures_that_make_no_sense_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *type, *more, *word;
    } bad[] = {
        {"llama", ",\"num_local_experts\":8", "num_local_experts"},
        {"qwen3", ",\"num_experts\":8", "num_experts"},
        {"llama", MLA, "lora_rank"},
        {"mixtral", "", "num_local_experts"},
        {"mixtral", ",\"num_local_experts\":1", "experts for a token is 2"},
        {"mixtral", ",\"num_local_experts\":5000", "experts is 5000"},
        {"mixtral", ",\"num_local_experts\":\"many\"", "num_local_experts"},
        {"qwen2_moe", ",\"num_experts\":8,\"moe_intermediate_size\":12", "shared_expert"},
        {"qwen3_moe", ",\"num_experts\":8", "moe_intermediate_size"},
        {"qwen3_moe", ",\"num_experts\":8,\"moe_intermediate_size\":4,\"mlp_only_layers\":[\"a\"]",
         "mlp_only_layers"},
        {"qwen3_moe", ",\"num_experts\":8,\"moe_intermediate_size\":4,\"norm_topk_prob\":\"yes\"",
         "norm_topk_prob"},
        {"glm4_moe", ROUTED ",\"scoring_func\":\"softmax\"", "scoring_func"},
        {"glm4_moe", ROUTED ",\"topk_method\":\"greedy\"", "topk_method"},
        {"glm4_moe", ROUTED ",\"n_group\":3", "8 experts in 3 groups"},
        {"glm4_moe", ROUTED ",\"n_group\":4,\"topk_group\":5", "groups for a token is 5"},
        {"glm4_moe", ROUTED ",\"n_group\":8", "8 experts in 8 groups"},
        {"glm4_moe", ROUTED ",\"n_shared_experts\":-1", "n_shared_experts"},
        {"deepseek_v3", ROUTED, "kv_lora_rank"},
        {"deepseek_v3", ROUTED MLA ",\"kv_lora_rank\":2000", "kv_lora_rank"},
        {"deepseek_v3", ROUTED MLA ",\"attention_bias\":true", "attention_bias"},
        {"deepseek_v3", ROUTED MLA ",\"moe_layer_freq\":2", "moe_layer_freq"},
        {"deepseek_v3", ROUTED MLA ",\"qk_rope_head_dim\":3", "rotated"},
        {"gpt_oss", ",\"num_local_experts\":8,\"swiglu_limit\":-1", "swiglu_limit"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuses(bad[i].type, bad[i].more, bad[i].word);
}

/* A Mixtral of two layers and three experts. */
static void begin_mixtral(struct tiny *tiny) {
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    static const char *const names[] = {"w1", "w3", "w2"};
    char name[80];
    tiny_begin(tiny);
    tiny_add_llama(tiny, 1.0f);
    for (unsigned layer = 0; layer < TINY_LAYERS; layer++) {
        for (size_t i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "model.layers.%u.mlp.%s.weight", layer, parts[i]);
            tiny_drop(tiny, name);
            for (unsigned e = 0; e < 3; e++) {
                snprintf(name, sizeof name, "model.layers.%u.block_sparse_moe.experts.%u.%s.weight",
                         layer, e, names[i]);
                tiny_add(tiny, name, i == 2 ? TINY_HIDDEN : TINY_INNER,
                         i == 2 ? TINY_INNER : TINY_HIDDEN, 1.0f, 0.0f);
            }
        }
        snprintf(name, sizeof name, "model.layers.%u.block_sparse_moe.gate.weight", layer);
        tiny_add(tiny, name, 3, TINY_HIDDEN, 1.0f, 0.0f);
    }
    tiny_write_config(tiny, "mixtral",
                      ",\"tie_word_embeddings\":true,\"num_local_experts\":3,"
                      "\"num_experts_per_tok\":2,\"eos_token_id\":1");
}

static void experts_that_are_missing_or_misshapen_are_named(void **state) {
    (void)state;
    static const char expert[] = "model.layers.1.block_sparse_moe.experts.2.w3.weight";
    static const char router[] = "model.layers.0.block_sparse_moe.gate.weight";
    struct tiny tiny;
    begin_mixtral(&tiny);
    tiny_write_safetensors(&tiny);
    model_close(tiny_open(tiny.folder));
    tiny_find(&tiny, expert)->rows--;
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, expert, "[11, 8]");
    tiny_drop(&tiny, expert);
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, expert, "missing");
    tiny_find(&tiny, router)->rows--; /* two experts' worth */
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, router, "[2, 8]");
    tiny_drop(&tiny, router);
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, "model.layers.0.mlp.gate.weight", "missing"); /* the usual name */
    tiny_end(&tiny);
}

static void items_of_a_mixture_come_in_the_order_of_use(void **state) {
    (void)state;
    static const enum role fixed[] = {ROLE_Q, ROLE_K, ROLE_V, ROLE_O, ROLE_ROUTER};
    static const enum role parts[] = {ROLE_EXPERT_GATE, ROLE_EXPERT_UP, ROLE_EXPERT_DOWN};
    struct tiny tiny;
    struct layout_item *items;
    struct error err = {0};
    size_t count;
    begin_mixtral(&tiny);
    tiny_write_safetensors(&tiny);
    struct model *model = tiny_open(tiny.folder);
    assert_int_equal(model_layout_items(model, &items, &count, &err), SL_OK);
    assert_int_equal(count, TINY_LAYERS * (5 + 3 * 3) + 1);
    for (uint32_t layer = 0, at = 0; layer < TINY_LAYERS; layer++) {
        for (size_t i = 0; i < 5; i++, at++) {
            assert_int_equal(items[at].key, role_key(layer, 0, fixed[i]));
            assert_int_equal(items[at].starts_block, i == 0 || i == 4);
        }
        for (uint32_t expert = 0; expert < 3; expert++)
            for (size_t i = 0; i < 3; i++, at++) {
                assert_int_equal(items[at].key, role_key(layer, expert, parts[i]));
                assert_int_equal(items[at].starts_block, i == 0);
            }
    }
    mem_free(items);
    model_close(model);
    tiny_end(&tiny);
}

static void lack_of_memory_is_an_error_while_experts_are_bound(void **state) {
    (void)state;
    struct tiny tiny;
    begin_mixtral(&tiny);
    tiny_write_safetensors(&tiny);
    for (uint64_t nth = 1;; nth++) {
        struct model *model = NULL;
        struct layout_item *items = NULL;
        struct error err = {0};
        size_t count;
        fault_arm(SL_FAULT_ALLOC, nth, false);
        enum status status = model_open(tiny.folder, MODEL_ALL, &model, &err);
        if (status == SL_OK)
            status = model_layout_items(model, &items, &count, &err);
        fault_arm(SL_FAULT_ALLOC, 0, false);
        mem_free(items);
        model_close(model);
        if (status == SL_OK) {
            assert_true(nth > 20);
            break;
        }
        assert_int_equal(status, SL_ERR_ENV);
    }
    tiny_end(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_family_reads_its_experts),
        cmocka_unit_test(deepseek_reads_its_compressed_heads),
        cmocka_unit_test(settings_of_mixtures_that_make_no_sense_are_refused),
        cmocka_unit_test(experts_that_are_missing_or_misshapen_are_named),
        cmocka_unit_test(lack_of_memory_is_an_error_while_experts_are_bound),
        cmocka_unit_test(items_of_a_mixture_come_in_the_order_of_use),
    };
    return cmocka_run_group_tests_name("config_mixture", tests, NULL, NULL);
}
