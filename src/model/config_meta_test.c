/* Configs from GGUF metadata. Keys as ggml's docs/gguf.md names them. */
#include "model/arch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void put_integer(struct meta *meta, const char *key, int64_t number) {
    struct meta_value value = {.kind = META_INTEGER, .integer = number};
    assert_int_equal(meta_add(meta, str_from(key), &value, NULL), SL_OK);
}

static void put_real(struct meta *meta, const char *key, double number) {
    struct meta_value value = {.kind = META_REAL, .real = number};
    assert_int_equal(meta_add(meta, str_from(key), &value, NULL), SL_OK);
}

static void put_text(struct meta *meta, const char *key, const char *text) {
    struct meta_value value = {.kind = META_STRING, .text = str_from(text)};
    assert_int_equal(meta_add(meta, str_from(key), &value, NULL), SL_OK);
}

static void put_list(struct meta *meta, const char *key, int64_t *items, size_t count) {
    struct meta_value value = {.kind = META_ARRAY, .item_kind = META_INTEGER};
    value.array.count = count;
    value.array.integers = items;
    assert_int_equal(meta_add(meta, str_from(key), &value, NULL), SL_OK);
}

/* What every file has, but for the key `without`. */
static void begin(struct meta *meta, const char *type, const char *without) {
    static const struct {
        const char *member;
        int64_t number;
    } sizes[] = {{"block_count", 3},
                 {"embedding_length", 24},
                 {"attention.head_count", 4},
                 {"feed_forward_length", 40},
                 {"context_length", 128}};
    char key[96];
    meta_init(meta);
    put_text(meta, "general.architecture", type);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", type, sizes[i].member);
        if (without == NULL || strcmp(key, without) != 0)
            put_integer(meta, key, sizes[i].number);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", type);
    if (without == NULL || strcmp(key, without) != 0)
        put_real(meta, key, 1e-6);
}

static struct config read_good(struct meta *meta) {
    struct config config = {0};
    const struct arch *arch = NULL;
    struct error err = {0};
    if (config_from_meta(meta, "m.gguf", &config, &arch, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_string_equal(config.family, arch->name);
    meta_release(meta);
    return config;
}

static void refuses(struct meta *meta, const char *word) {
    struct config config = {0};
    const struct arch *arch = NULL;
    struct error err = {0};
    assert_int_equal(config_from_meta(meta, "m.gguf", &config, &arch, &err), SL_ERR_ENV);
    if (strstr(err.text, word) == NULL || strstr(err.text, "m.gguf") == NULL)
        fail_msg("\"%s\" does not name %s", err.text, word);
    meta_release(meta);
}

static void sizes_and_defaults_are_read(void **state) {
    struct meta meta;
    (void)state;
    begin(&meta, "qwen2", NULL);
    struct config config = read_good(&meta);
    assert_int_equal(config.layers, 3);
    assert_int_equal(config.heads, 4);
    assert_int_equal(config.kv_heads, 4);
    assert_int_equal(config.head_dim, 6);
    assert_int_equal(config.inner, 40);
    assert_int_equal(config.context, 128);
    assert_int_equal(config.rope.rotary, 6);
    assert_true(config.rope.theta == 10000.0);
    assert_false(config.rope.is_interleaved);
    config_release(&config);
    begin(&meta, "llama", NULL);
    put_integer(&meta, "llama.attention.head_count_kv", 2);
    put_integer(&meta, "llama.attention.key_length", 8);
    put_integer(&meta, "llama.attention.value_length", 8);
    put_integer(&meta, "llama.rope.dimension_count", 4);
    put_real(&meta, "llama.rope.freq_base", 500000);
    config = read_good(&meta);
    assert_int_equal(config.kv_heads, 2);
    assert_int_equal(config.head_dim, 8);
    assert_int_equal(config.rope.rotary, 4);
    assert_true(config.rope.theta == 500000.0);
    assert_true(config.rope.is_interleaved);
    config_release(&config);
}

static void lists_are_accepted_when_all_layers_agree(void **state) {
    int64_t same[] = {2, 2, 2}, other[] = {2, 4, 2};
    struct meta meta;
    (void)state;
    begin(&meta, "llama", NULL);
    put_list(&meta, "llama.attention.head_count_kv", same, 3);
    struct config config = read_good(&meta);
    assert_int_equal(config.kv_heads, 2);
    config_release(&config);
    begin(&meta, "llama", NULL);
    put_list(&meta, "llama.attention.head_count_kv", other, 3);
    refuses(&meta, "head_count_kv");
}

static void linear_rope_scaling_is_read_and_others_refused(void **state) {
    struct meta meta;
    (void)state;
    begin(&meta, "llama", NULL);
    put_text(&meta, "llama.rope.scaling.type", "linear");
    put_real(&meta, "llama.rope.scaling.factor", 4);
    struct config config = read_good(&meta);
    assert_int_equal(config.rope.kind, ROPE_LINEAR);
    assert_true(config.rope.factor == 4.0);
    config_release(&config);
    begin(&meta, "llama", NULL);
    put_text(&meta, "llama.rope.scaling.type", "none");
    put_real(&meta, "llama.rope.scaling.factor", 4);
    config = read_good(&meta);
    assert_int_equal(config.rope.kind, ROPE_DEFAULT);
    config_release(&config);
    begin(&meta, "llama", NULL);
    put_text(&meta, "llama.rope.scaling.type", "yarn"); /* without a factor */
    refuses(&meta, "yarn");
    begin(&meta, "llama", NULL);
    put_text(&meta, "llama.rope.scaling.type", "spiral");
    refuses(&meta, "spiral");
}

static void yarn_is_as_llama_cpp_computes_it(void **state) {
    struct meta meta;
    (void)state;
    begin(&meta, "qwen2", NULL);
    put_text(&meta, "qwen2.rope.scaling.type", "yarn");
    put_real(&meta, "qwen2.rope.scaling.factor", 4);
    put_integer(&meta, "qwen2.rope.scaling.original_context_length", 64);
    put_real(&meta, "qwen2.rope.scaling.attn_factor", 0.5);
    struct config config = read_good(&meta);
    assert_int_equal(config.rope.kind, ROPE_YARN);
    assert_true(config.rope.original_context == 64 && config.rope.beta_fast == 32);
    /* 0.5 (1 + 0.1 ln 4) */
    assert_true(fabs(config.rope.attention_factor - 0.5693147180559945) < 1e-12);
    config_release(&config);
}

/* Keys and numbers as llama.cpp's converter writes them; what it leaves out it knows. */
static void the_gemmas_have_what_their_files_leave_out(void **state) {
    struct meta meta;
    (void)state;
    begin(&meta, "gemma2", NULL);
    struct config config = read_good(&meta);
    assert_true(config.score_cap == 50 && config.logit_cap == 30 && config.window == 4096);
    assert_true(config.is_windowed[0] && !config.is_windowed[1] && config.is_windowed[2]);
    assert_true(config.score_scale == 1 / sqrt(6.0) && config.norm_offset == 0.0f);
    assert_true(config.embed_scale == sqrt(24.0));
    assert_true(config.activation == ACTIVATION_GELU_TANH);
    config_release(&config);
    begin(&meta, "gemma2", "gemma2.block_count");
    put_integer(&meta, "gemma2.block_count", 46); /* 27B */
    put_integer(&meta, "gemma2.attention.key_length", 10);
    put_integer(&meta, "gemma2.attention.sliding_window", 16);
    put_real(&meta, "gemma2.attn_logit_softcapping", 20);
    config = read_good(&meta);
    assert_true(config.score_scale == 1 / sqrt(24.0 / 4) && config.window == 16);
    assert_true(config.score_cap == 20);
    config_release(&config);
    begin(&meta, "gemma3", NULL);
    put_integer(&meta, "gemma3.attention.sliding_window", 16);
    put_integer(&meta, "gemma3.attention.sliding_window_pattern", 3);
    put_real(&meta, "gemma3.rope.freq_base", 1e6);
    put_real(&meta, "gemma3.rope.scaling.factor", 8);
    config = read_good(&meta);
    assert_true(config.has_window_rope && config.window_rope.theta == 1e4);
    assert_true(config.window_rope.kind == ROPE_DEFAULT && config.rope.kind == ROPE_LINEAR);
    assert_true(config.is_windowed[1] && !config.is_windowed[2] && config.has_qk_norm);
    assert_true(config.score_cap == 0);
    config_release(&config);
}

static void the_other_families_read_their_keys(void **state) {
    struct meta meta;
    (void)state;
    begin(&meta, "phi3", NULL);
    put_integer(&meta, "phi3.rope.scaling.original_context_length", 32);
    put_real(&meta, "phi3.rope.scaling.attn_factor", 1.25);
    put_integer(&meta, "phi3.rope.dimension_count", 4);
    put_integer(&meta, "phi3.attention.sliding_window", 0);
    struct config config = read_good(&meta);
    assert_int_equal(config.rope.kind, ROPE_LONGROPE);
    assert_true(config.rope.attention_factor == 1.25 && config.rope.original_context == 32);
    assert_true(config.rope.rotary == 4 && config.is_windowed == NULL);
    assert_int_equal(arch_phi3.need(&config, ROLE_ROPE_LONG), ARCH_REQUIRED);
    config_release(&config);
    begin(&meta, "smollm3", "smollm3.block_count");
    put_integer(&meta, "smollm3.block_count", 5);
    config = read_good(&meta);
    assert_true(config.rope.is_interleaved && config.skips_rope[3] && !config.skips_rope[4]);
    config_release(&config);
    begin(&meta, "granite", NULL);
    put_real(&meta, "granite.logit_scale", 8);
    put_real(&meta, "granite.embedding_scale", 12);
    put_real(&meta, "granite.residual_scale", 0.25);
    put_real(&meta, "granite.attention.scale", 0.0625);
    config = read_good(&meta);
    assert_true(config.rope.is_interleaved && config.logit_scale == 0.125);
    assert_true(config.embed_scale == 12 && config.residual_scale == 0.25);
    assert_true(config.score_scale == 0.0625);
    config_release(&config);
    begin(&meta, "olmo2", NULL);
    config = read_good(&meta);
    assert_true(config.has_whole_qk_norm && !config.rope.is_interleaved);
    config_release(&config);
    begin(&meta, "olmo2", NULL); /* OLMo 3 under this name */
    put_integer(&meta, "olmo2.attention.sliding_window", 16);
    refuses(&meta, "sliding_window");
    begin(&meta, "granite", NULL);
    put_text(&meta, "granite.logit_scale", "8");
    refuses(&meta, "logit_scale");
    begin(&meta, "gemma3", NULL);
    put_integer(&meta, "gemma3.attention.sliding_window", -1);
    refuses(&meta, "sliding_window");
}

static void missing_and_impossible_keys_are_named(void **state) {
    static const char *const needed[] = {"llama.block_count", "llama.embedding_length",
                                         "llama.attention.head_count", "llama.feed_forward_length",
                                         "llama.context_length"};
    static const struct {
        const char *key;
        int64_t number;
    } bad[] = {{"llama.expert_count", 8},
               {"llama.attention.sliding_window", 16},
               {"llama.attention.value_length", 3},
               {"llama.attention.head_count_kv", 0},
               {"llama.attention.head_count_kv", -1},
               {"llama.attention.key_length", 1 << 20},
               {"llama.rope.dimension_count", 5}};
    static const char *const words[] = {
        "expert_used_count", "sliding_window", "values of 3", "head_count_kv",
        "head_count_kv",     "head_dim",       "rotated"};
    struct meta meta;
    (void)state;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        begin(&meta, "llama", needed[i]);
        refuses(&meta, needed[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        begin(&meta, "llama", NULL);
        put_integer(&meta, bad[i].key, bad[i].number);
        refuses(&meta, words[i]);
    }
    begin(&meta, "llama", "llama.attention.layer_norm_rms_epsilon");
    refuses(&meta, "epsilon");
    begin(&meta, "llama", "llama.block_count");
    put_text(&meta, "llama.block_count", "3");
    refuses(&meta, "block_count");
    meta_init(&meta);
    refuses(&meta, "general.architecture");
    begin(&meta, "mamba", NULL);
    refuses(&meta, "mamba");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_defaults_are_read),
        cmocka_unit_test(lists_are_accepted_when_all_layers_agree),
        cmocka_unit_test(linear_rope_scaling_is_read_and_others_refused),
        cmocka_unit_test(yarn_is_as_llama_cpp_computes_it),
        cmocka_unit_test(the_gemmas_have_what_their_files_leave_out),
        cmocka_unit_test(the_other_families_read_their_keys),
        cmocka_unit_test(missing_and_impossible_keys_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
