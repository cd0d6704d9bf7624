/* What config.json says about quantised weights: what is understood, for which module, and what is
 * refused by name. The forms are those of published files. */
#include "model/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LLAMA                                                                                      \
    "\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":64,"                         \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":96,"                \
    "\"vocab_size\":100,\"max_position_embeddings\":512,\"rope_theta\":10000.0"

static enum status read(const char *text, struct config *out, struct error *err) {
    const struct json *tree = NULL;
    const struct arch *arch = NULL;
    struct arena arena;
    arena_init(&arena);
    struct json_options options = {0};
    assert_int_equal(json_parse(&arena, str_from(text), &options, &tree, err), SL_OK);
    enum status status = config_from_json(tree, NULL, "config.json", out, &arch, err);
    arena_release(&arena); /* what the config keeps is its own */
    return status;
}

static struct config good(const char *more) {
    char text[2048];
    struct config config = {0};
    struct error err = {0};
    snprintf(text, sizeof text, "{" LLAMA "%s}", more);
    if (read(text, &config, &err) != SL_OK)
        fail_msg("%s", err.text);
    return config;
}

static void refuses(const char *more, const char *words) {
    char text[2048];
    struct config config = {0};
    struct error err = {0};
    snprintf(text, sizeof text, "{" LLAMA "%s}", more);
    assert_int_equal(read(text, &config, &err), SL_ERR_ENV);
    if (strstr(err.text, words) == NULL || strstr(err.text, "config.json: ") != err.text)
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void fp8_says_its_blocks_and_what_it_leaves(void **state) {
    (void)state;
    struct config config =
        good(",\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\","
             "\"activation_scheme\":\"dynamic\",\"weight_block_size\":[64,32],"
             "\"modules_to_not_convert\":[\"lm_head\",\"model.layers.*.x\"]}");
    assert_int_equal(config.quantisation.hint.block_rows, 64);
    assert_int_equal(config.quantisation.hint.block_columns, 32);
    assert_int_equal(config.quantisation.hint.bits, 0);
    assert_true(config_module(&config, STR("lm_head"))->is_plain);
    assert_null(config_module(&config, STR("model.layers.0.mlp.up_proj")));
    config_release(&config);
    config = good(",\"quantization_config\":{\"quant_method\":\"fp8\","
                  "\"activation_scheme\":\"static\",\"ignored_layers\":[\"lm_head\"]}");
    assert_true(config_module(&config, STR("lm_head"))->is_plain);
    config_release(&config);
    config = good(",\"quantization_config\":{\"quant_method\":\"fbgemm_fp8\","
                  "\"activation_scale_ub\":1200.0,\"modules_to_not_convert\":[\"lm_head\"]}");
    assert_true(config_module(&config, STR("lm_head"))->is_plain);
    config_release(&config);
    config = good(",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":null}");
    assert_int_equal(config.quantisation.hint.block_rows, 0);
    config_release(&config);
    config = good(",\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
                  "\"format\":\"float-quantized\",\"ignore\":[\"lm_head\"]}");
    assert_true(config_module(&config, STR("lm_head"))->is_plain);
    config_release(&config);
}

static void mlx_says_bits_and_groups_for_all_and_for_single_modules(void **state) {
    (void)state;
    struct config config =
        good(",\"quantization\":{\"group_size\":64,\"bits\":4,\"model.embed_tokens\":"
             "{\"group_size\":32,\"bits\":6},\"lm_head\":false,\"model.norm\":true},"
             "\"quantization_config\":{\"group_size\":64,\"bits\":4}");
    assert_int_equal(config.quantisation.hint.bits, 4);
    assert_int_equal(config.quantisation.hint.group_columns, 64);
    const struct quantisation_entry *entry = config_module(&config, STR("model.embed_tokens"));
    assert_true(entry->hint.bits == 6 && entry->hint.group_columns == 32 && !entry->is_plain);
    assert_true(config_module(&config, STR("lm_head"))->is_plain);
    assert_null(config_module(&config, STR("model.norm")));
    assert_null(config_module(&config, STR("bits")));
    config_release(&config);
    config = good(",\"quantization\":{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\"}");
    assert_int_equal(config.quantisation.hint.group_columns, 32);
    config_release(&config);
}

static void silence_is_no_quantisation(void **state) {
    (void)state;
    static const char *const texts[] = {"", ",\"quantization_config\":null",
                                        ",\"quantization\":false", ",\"quantization_config\":{}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct config config = good(texts[i]);
        assert_int_equal(config.quantisation.hint.bits, 0);
        assert_null(config_module(&config, STR("lm_head")));
        config_release(&config);
    }
}

static void other_ways_are_refused_by_name(void **state) {
    (void)state;
    static const char *const methods[] = {"awq",     "gptq", "bitsandbytes", "quark", "aqlm",
                                          "torchao", "hqq",  "modelopt",     "eetq"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        char more[200];
        snprintf(more, sizeof more, ",\"quantization_config\":{\"quant_method\":\"%s\",\"bits\":4}",
                 methods[i]);
        refuses(more, methods[i]);
        refuses(more, "GGUF files"); /* what to do */
    }
    static const char *const rows[][2] = {
        {",\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}", "\"e5m2\""},
        {",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}",
         "weight_block_size"},
        {",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,0]}",
         "weight_block_size"},
        {",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[1e9,1]}",
         "weight_block_size"},
        {",\"quantization_config\":{\"quant_method\":7}", "quant_method"},
        {",\"quantization_config\":\"fp8\"", "quantization_config is not an object"},
        {",\"quantization_config\":{\"config_groups\":{}}", "neither quant_method nor bits"},
        {",\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
         "\"format\":\"pack-quantized\"}",
         "\"pack-quantized\""},
        {",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
         "\"float-quantized\",\"transform_config\":{\"a\":{}}}",
         "transform_config"},
        {",\"quantization\":{\"bits\":8,\"mode\":\"mxfp8\"}", "\"mxfp8\""},
        {",\"quantization\":{\"bits\":4,\"mode\":\"nvfp4\"}", "\"nvfp4\""},
        {",\"quantization\":{\"bits\":4,\"lm_head\":{\"mode\":\"nvfp4\"}}", "\"nvfp4\""},
        {",\"quantization\":{\"bits\":9}", "bits of quantization"},
        {",\"quantization\":{\"bits\":0}", "bits of quantization"},
        {",\"quantization\":{\"bits\":4,\"group_size\":-1}", "group_size of quantization"},
        {",\"quantization\":{\"bits\":4,\"group_size\":64},\"quantization_config\":{\"bits\":8,"
         "\"group_size\":64}",
         "8 bits in groups of 64, quantization 4"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses(rows[i][0], rows[i][1]);
}

static void the_outer_object_speaks_for_the_text_part(void **state) {
    (void)state;
    struct config config = {0};
    struct error err = {0};
    assert_int_equal(read("{\"model_type\":\"wrapper\",\"quantization\":{\"bits\":4,"
                          "\"group_size\":64},\"text_config\":{" LLAMA "}}",
                          &config, &err),
                     SL_OK);
    assert_int_equal(config.quantisation.hint.bits, 4);
    config_release(&config);
    assert_int_equal(read("{\"model_type\":\"wrapper\",\"quantization_config\":{\"quant_method\":"
                          "\"awq\"},\"text_config\":{" LLAMA "}}",
                          &config, &err),
                     SL_ERR_ENV);
    assert_non_null(strstr(err.text, "\"awq\""));
    assert_int_equal(read("{\"model_type\":\"wrapper\",\"text_config\":{" LLAMA
                          ",\"quantization_config\":{\"quant_method\":\"gptq\"}}}",
                          &config, &err),
                     SL_ERR_ENV);
    assert_non_null(strstr(err.text, "\"gptq\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_says_its_blocks_and_what_it_leaves),
        cmocka_unit_test(mlx_says_bits_and_groups_for_all_and_for_single_modules),
        cmocka_unit_test(silence_is_no_quantisation),
        cmocka_unit_test(other_ways_are_refused_by_name),
        cmocka_unit_test(the_outer_object_speaks_for_the_text_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
