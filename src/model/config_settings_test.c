/* Settings of one family in the config of another, members of the wrong kind, and what published
 * configs of DeepSeek-V2, Kimi K2 and Gemma 2 rely on. Right values: transformers' configuration
 * classes and DeepSeek-V2's own modeling file. */
#include "model/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SIZES                                                                                      \
    "\"num_hidden_layers\":2,\"hidden_size\":16,\"num_attention_heads\":2,"                        \
    "\"num_key_value_heads\":1,\"intermediate_size\":24,\"vocab_size\":32,"                        \
    "\"max_position_embeddings\":64,\"rope_theta\":10000.0"
#define EXPERTS                                                                                    \
    ",\"n_routed_experts\":8,\"num_experts\":8,\"num_local_experts\":8,"                           \
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":12"
#define MLA                                                                                        \
    EXPERTS ",\"kv_lora_rank\":8,\"q_lora_rank\":6,\"qk_nope_head_dim\":4,"                        \
            "\"qk_rope_head_dim\":2,\"v_head_dim\":5"

#include "model/config_for_test.h"

static void accepts(const char *type, const char *more) {
    struct config config = read_good(type, more);
    config_release(&config);
}

static void families_without_windows_refuse_them(void **state) {
    (void)state;
    static const char *const families[][2] = {
        {"llama", ""}, {"olmo2", ""}, {"granite", ""}, {"glm4_moe", EXPERTS}, {"deepseek_v3", MLA},
    };
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        char more[600];
        snprintf(more, sizeof more, "%s,\"sliding_window\":16", families[i][1]);
        refuses(families[i][0], more, "sliding_window");
        snprintf(more, sizeof more, "%s,\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
                 families[i][1]);
        refuses(families[i][0], more, "layer_types[1]");
        snprintf(more, sizeof more,
                 "%s,\"sliding_window\":64,\"layer_types\":[\"full_attention\",\"full_attention\"]",
                 families[i][1]);
        accepts(families[i][0], more); /* a window that no token leaves */
    }
    refuses("mistral", ",\"sliding_window\":0", "sliding_window");
    refuses("mistral", ",\"sliding_window\":4,\"layer_types\":[\"full_attention\"]",
            "layer_types must be a list of 2");
    refuses("qwen3",
            ",\"use_sliding_window\":true,\"sliding_window\":4,\"layer_types\":"
            "[\"full_attention\",\"chunked_attention\"]",
            "chunked_attention");
    refuses("qwen3", ",\"use_sliding_window\":true,\"sliding_window\":4,\"layer_types\":7",
            "layer_types");
}

static void settings_of_another_family_are_refused_by_name(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"llama", ",\"rope_local_base_freq\":10000", "rope_local_base_freq"},
        {"qwen3", ",\"query_pre_attn_scalar\":16", "query_pre_attn_scalar"},
        {"llama", ",\"qk_layernorm\":true", "qk_layernorm"},
        {"llama", ",\"use_qk_norm\":true", "use_qk_norm"},
        {"llama", ",\"use_parallel_residual\":true", "use_parallel_residual"},
        {"llama", ",\"attention_chunk_size\":8192", "attention_chunk_size"},
        {"qwen2", ",\"dual_chunk_attention_config\":{\"chunk_size\":262144}",
         "dual_chunk_attention_config"},
        {"mistral", ",\"final_logit_softcapping\":30", "final_logit_softcapping"},
        {"qwen2", ",\"embedding_multiplier\":12", "embedding_multiplier"},
        {"granite", ",\"shared_expert_intermediate_size\":8", "shared_expert_intermediate_size"},
        {"mixtral", ",\"num_local_experts\":8,\"kv_lora_rank\":8", "kv_lora_rank"},
        {"qwen3", ",\"partial_rotary_factor\":0.5", "partial_rotary_factor"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses(rows[i][0], rows[i][1], rows[i][2]);
    accepts("llama", ",\"qk_layernorm\":false,\"rope_local_base_freq\":null,\"num_experts\":0");
}

static void members_of_the_wrong_kind_are_refused_by_name(void **state) {
    (void)state;
    static const char *const flags[][3] = {
        {"llama", "", "attention_bias"},      {"llama", "", "mlp_bias"},
        {"qwen3", "", "attention_bias"},      {"gemma2", "", "attention_bias"},
        {"olmo2", "", "attention_bias"},      {"granite", "", "mlp_bias"},
        {"phi3", "", "attention_bias"},       {"smollm3", "", "use_sliding_window"},
        {"qwen2", "", "use_sliding_window"},  {"deepseek_v3", MLA, "rope_interleave"},
        {"glm4_moe", EXPERTS, "use_qk_norm"}, {"deepseek_v3", MLA, "norm_topk_prob"},
        {"llama", "", "tie_word_embeddings"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        char more[600];
        snprintf(more, sizeof more, "%s,\"%s\":\"yes\"", flags[i][1], flags[i][2]);
        refuses(flags[i][0], more, flags[i][2]);
    }
    refuses("gpt_oss", EXPERTS ",\"swiglu_limit\":\"7\"", "swiglu_limit");
    refuses("gpt_oss", EXPERTS ",\"swiglu_alpha\":[1.7]", "swiglu_alpha");
    refuses("deepseek_v3", MLA ",\"num_nextn_predict_layers\":-1", "num_nextn_predict_layers");
    refuses("deepseek_v3", MLA ",\"routed_scaling_factor\":\"2.5\"", "routed_scaling_factor");
    refuses("deepseek_v3", MLA ",\"routed_scaling_factor\":1e30", "makes no sense");
    refuses("mixtral", ",\"num_local_experts\":8,\"num_experts_per_tok\":9",
            "experts for a token is 9");
    refuses("deepseek_v3", MLA ",\"num_experts_per_tok\":9", "experts for a token is 9");
    refuses("llama", ",\"rope_theta\":0", "rope_theta");
    refuses("llama", ",\"rope_theta\":\"10000\"", "rope_theta");
    refuses("llama", ",\"rope_scaling\":\"linear\"", "rope settings are not an object");
    refuses("llama", ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", "\"dynamic\"");
    refuses("llama", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}", "rope factor");
}

static void deepseek_v2_routes_by_softmax(void **state) {
    (void)state;
    struct config config =
        read_good("deepseek_v2", MLA ",\"scoring_func\":\"softmax\",\"n_group\":4,"
                                     "\"topk_method\":\"group_limited_greedy\","
                                     "\"topk_group\":2,\"routed_scaling_factor\":16");
    assert_string_equal(config.family, "deepseek2");
    assert_true(config.mixture.score == MIXTURE_SOFTMAX && !config.mixture.sums_to_one);
    assert_true(config.mixture.groups == 4 && config.mixture.groups_used == 2);
    assert_true(config.mixture.scale == 16.0f && config.rope.is_interleaved);
    config_release(&config);
    config =
        read_good("deepseek_v2", MLA ",\"topk_method\":\"greedy\",\"n_group\":4,\"topk_group\":2,"
                                     "\"q_lora_rank\":null");
    assert_true(config.mixture.groups == 1 && config.mixture.groups_used == 1);
    config_release(&config);
    refuses("deepseek_v2", MLA ",\"scoring_func\":\"sigmoid\"", "scoring_func");
    refuses("deepseek_v2", MLA ",\"topk_method\":\"noaux_tc\"", "greedy or group_limited_greedy");
    refuses("deepseek_v3", MLA ",\"topk_method\":\"greedy\"", "topk_method");
    config = read_good("kimi_k2", MLA ",\"num_nextn_predict_layers\":0");
    assert_true(config.mixture.score == MIXTURE_SIGMOID && config.mixture.sums_to_one);
    config_release(&config);
    config = read_good("deepseek_v3", MLA ",\"num_nextn_predict_layers\":1");
    assert_int_equal(config.layers, 2);
    assert_int_equal(config.predict_layers, 1);
    config_release(&config);
}

/* As the first yarn models have it; what multiplies by one says nothing. */
static void remarks_in_rope_settings_are_passed_over(void **state) {
    (void)state;
#define YARN ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":16,"
    accepts("llama", YARN "\"original_max_position_embeddings\":32,\"finetuned\":true}");
    accepts("llama", YARN "\"attn_factor\":1.0,\"extrapolation_factor\":1}");
    refuses("llama", YARN "\"attn_factor\":2}", "attn_factor");
    refuses("llama", YARN "\"finetuned\":3}", "finetuned");
    refuses("llama", YARN "\"mrope_section\":[1,2,3]}", "mrope_section");
}

static void the_gemmas_read_their_own_members(void **state) {
    (void)state;
    struct config config = read_good("gemma2", ",\"hidden_act\":\"gelu\",\"hidden_activation\":"
                                               "\"gelu_pytorch_tanh\"");
    assert_int_equal(config.activation, ACTIVATION_GELU_TANH);
    assert_int_equal(config.head_dim, 256); /* the class's, whatever hidden_size is */
    config_release(&config);
    refuses("gemma2", ",\"hidden_activation\":\"gelu\"", "gelu");
    refuses("llama", ",\"hidden_act\":\"gelu\"", "gelu");
}

#define LOCAL_EXPERTS ",\"num_local_experts\":8,\"num_experts_per_tok\":2"
#define GEMMA4                                                                                     \
    ",\"sliding_window\":8,\"hidden_size_per_layer_input\":0,\"hidden_activation\":"               \
    "\"gelu_pytorch_tanh\",\"rope_theta\":null"

static void recent_families_refuse_by_name_what_they_do_not_compute(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"glm4", ",\"sliding_window\":16", "sliding_window"},
        {"glm4", ",\"partial_rotary_factor\":2", "partial_rotary_factor"},
        {"seed_oss", ",\"attention_out_bias\":1", "attention_out_bias"},
        {"seed_oss", ",\"layer_types\":[\"sliding_attention\",\"full_attention\"]",
         "layer_types[0]"},
        {"exaone4", ",\"sliding_window_pattern\":\"LLLG\"", "sliding_window_pattern"},
        {"cohere2", ",\"logit_scale\":\"1\"", "logit_scale"},
        {"cohere2", ",\"layer_norm_eps\":0", "layer_norm_eps"},
        {"cohere2", ",\"use_qk_norm\":true", "use_qk_norm"},
        {"ministral3", "", "rope_parameters is missing"},
        {"ministral3",
         ",\"rope_parameters\":{\"rope_type\":\"default\",\"llama_4_scaling_beta\":0.1}",
         "original_max_position_embeddings"},
        {"mistral", ",\"rope_parameters\":{\"rope_type\":\"default\",\"llama_4_scaling_beta\":0.1}",
         "llama_4_scaling_beta"},
        {"minimax_m2", LOCAL_EXPERTS ",\"scoring_func\":\"softmax\"", "scoring_func"},
        {"minimax_m2", LOCAL_EXPERTS ",\"qk_norm_type\":\"per_head\"", "qk_norm_type"},
        {"minimax_m2", LOCAL_EXPERTS ",\"use_routing_bias\":false", "use_routing_bias"},
        {"minimax_m2", LOCAL_EXPERTS ",\"attn_type_list\":[1,0]", "attn_type_list[1]"},
        {"minimax_m2", LOCAL_EXPERTS ",\"shared_intermediate_size\":64",
         "shared_intermediate_size"},
        {"minimax_m2", LOCAL_EXPERTS ",\"rotary_dim\":99", "99 rotated"},
        {"llama4_text", LOCAL_EXPERTS ",\"layer_types\":[\"sliding_attention\",\"full_attention\"]",
         "layer_types[0]"},
        {"llama4_text", LOCAL_EXPERTS ",\"moe_layers\":[7]", "moe_layers[0]"},
        {"llama4_text", LOCAL_EXPERTS ",\"attention_chunk_size\":0", "attention_chunk_size"},
        {"llama4_text", LOCAL_EXPERTS ",\"attention_chunk_size\":null", "attention_chunk_size"},
        {"llama4_text", LOCAL_EXPERTS ",\"attn_temperature_tuning\":\"yes\"",
         "attn_temperature_tuning"},
        {"gemma4_text", GEMMA4 ",\"use_bidirectional_attention\":\"all\"", "\"all\""},
        {"gemma4_text", GEMMA4 ",\"per_layer_config\":{\"0\":{\"intermediate_size\":8}}",
         "per_layer_config member intermediate_size"},
        {"gemma4_text", GEMMA4 ",\"per_layer_config\":{\"9\":{\"head_dim\":8}}",
         "per_layer_config.9"},
        {"gemma4_text", GEMMA4 ",\"num_kv_shared_layers\":2", "2 layers in all"},
        {"gemma4_text", GEMMA4 ",\"num_kv_shared_layers\":1", "layer 1 has no layer of its type"},
        {"gemma4_text", GEMMA4 ",\"hidden_size_per_layer_input\":4", "vocab_size_per_layer_input"},
        {"gemma4_text",
         GEMMA4 ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":7.0}",
         "layer types"},
        {"gemma4_text", GEMMA4 ",\"attn_logit_softcapping\":30", "attn_logit_softcapping"},
        {"gemma4_text", GEMMA4 ",\"enable_moe_block\":true", "num_experts is missing"},
        {"gemma3_text", ",\"use_bidirectional_attention\":true", "use_bidirectional_attention"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses(rows[i][0], rows[i][1], rows[i][2]);
    accepts("gemma4_text", GEMMA4 ",\"use_bidirectional_attention\":\"vision\"");
    accepts("llama4_text", LOCAL_EXPERTS ",\"attn_temperature_tuning\":4,\"no_rope_layers\":[]");
    accepts("minimax_m2", LOCAL_EXPERTS ",\"shared_intermediate_size\":0,\"attn_type_list\":[1,1]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_without_windows_refuse_them),
        cmocka_unit_test(settings_of_another_family_are_refused_by_name),
        cmocka_unit_test(members_of_the_wrong_kind_are_refused_by_name),
        cmocka_unit_test(deepseek_v2_routes_by_softmax),
        cmocka_unit_test(remarks_in_rope_settings_are_passed_over),
        cmocka_unit_test(the_gemmas_read_their_own_members),
        cmocka_unit_test(recent_families_refuse_by_name_what_they_do_not_compute),
    };
    return cmocka_run_group_tests_name("config_settings", tests, NULL, NULL);
}
