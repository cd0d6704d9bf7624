/* Tests of what configs say about gated delta networks: sizes, which layers have one, and what is
 * refused by name. What they compute is in families_hybrid_test.c. */
#include "model/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SIZES                                                                                      \
    "\"num_hidden_layers\":8,\"hidden_size\":64,\"num_attention_heads\":4,"                        \
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":100,"                       \
    "\"max_position_embeddings\":64"
#include "model/config_for_test.h"

#define EXPERTS                                                                                    \
    ",\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":16,"                   \
    "\"shared_expert_intermediate_size\":24"
#define FULL "\"full_attention\""
#define LINEAR "\"linear_attention\""

static void hybrid_sizes_are_those_of_the_class_where_nothing_is_said(void **state) {
    (void)state;
    struct config config = read_good("qwen3_5_text", "");
    const struct delta_shape *shape = &config.delta.shape;
    assert_int_equal(shape->key_heads, 16);
    assert_int_equal(shape->value_heads, 32);
    assert_int_equal(shape->key_dim, 128);
    assert_int_equal(shape->value_dim, 128);
    assert_int_equal(shape->kernel, 4);
    assert_false(shape->is_tiled);
    assert_int_equal(config.head_dim, 256);
    assert_int_equal(config.rope.rotary, 64); /* a quarter */
    assert_true(config.has_output_gate && config.has_qk_norm && config.delta.has_log_rate);
    assert_true(config.norm_offset == 1.0f);
    for (uint32_t layer = 0; layer < 8; layer++) /* each fourth has attention */
        assert_int_equal(config_is_delta(&config, layer), layer % 4 != 3);
    config_release(&config);
}

static void hybrid_layers_are_those_of_the_list_or_the_interval(void **state) {
    (void)state;
    struct config config = read_good("qwen3_next", EXPERTS ",\"full_attention_interval\":2");
    for (uint32_t layer = 0; layer < 8; layer++)
        assert_int_equal(config_is_delta(&config, layer), layer % 2 == 0);
    assert_int_equal(config.mixture.shared_inner, 24);
    assert_true(config.mixture.sums_to_one);
    config_release(&config);
    config = read_good("qwen3_5_moe_text",
                       EXPERTS ",\"layer_types\":[" LINEAR "," FULL "," LINEAR "," LINEAR "," LINEAR
                               "," LINEAR "," LINEAR "," FULL "],\"full_attention_interval\":2");
    for (uint32_t layer = 0; layer < 8; layer++)
        assert_int_equal(config_is_delta(&config, layer), layer != 1 && layer != 7);
    config_release(&config);
    config = read_good("llama", ",\"head_dim\":16");
    assert_false(config_is_delta(&config, 0));
    config_release(&config);
}

static void hybrid_settings_without_a_formula_are_refused_by_name(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {",\"attn_output_gate\":false", "attn_output_gate"},
        {",\"use_sliding_window\":true,\"sliding_window\":4", "sliding_window"},
        {",\"hidden_act\":\"gelu_pytorch_tanh\"", "hidden_act"},
        {",\"layer_types\":[" FULL "]", "layer_types must be a list of 8"},
        {",\"layer_types\":[" FULL "," FULL "," FULL "," FULL "," FULL "," FULL "," FULL
         ",\"sliding_attention\"]",
         "layer_types[7] is \"sliding_attention\""},
        {",\"full_attention_interval\":9", "no layer has attention"},
        {",\"linear_num_value_heads\":24", "24 value heads"},
        {",\"linear_num_value_heads\":8", "8 value heads"},
        {",\"linear_num_key_heads\":0", "linear_num_key_heads"},
        {",\"linear_key_head_dim\":257", "key heads is 257"},
        {",\"linear_value_head_dim\":1000000000", "value heads is 1000000000"},
        {",\"linear_conv_kernel_dim\":9", "convolution is 9"},
        {",\"linear_num_value_heads\":1073741824", "channels"},
        {",\"rope_parameters\":{\"rope_type\":\"default\",\"mrope_what\":1}", "mrope_what"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses("qwen3_5_text", cases[i][0], cases[i][1]);
    refuses("qwen3_5_moe_text", EXPERTS ",\"norm_topk_prob\":false", "norm_topk_prob");
    refuses("llama", ",\"rope_parameters\":{\"rope_type\":\"default\",\"mrope_section\":[1]}",
            "mrope_section");
}

static void hybrid_rope_may_tell_how_pictures_rotate(void **state) {
    (void)state;
    struct config config = read_good(
        "qwen3_5_text", ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5000,"
                        "\"partial_rotary_factor\":0.5,\"mrope_section\":[11,11,10],"
                        "\"mrope_interleaved\":true},\"mtp_num_hidden_layers\":1");
    assert_int_equal(config.rope.rotary, 128);
    assert_true(config.rope.theta == 5000);
    assert_int_equal(config.predict_layers, 1);
    config_release(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hybrid_sizes_are_those_of_the_class_where_nothing_is_said),
        cmocka_unit_test(hybrid_layers_are_those_of_the_list_or_the_interval),
        cmocka_unit_test(hybrid_settings_without_a_formula_are_refused_by_name),
        cmocka_unit_test(hybrid_rope_may_tell_how_pictures_rotate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
