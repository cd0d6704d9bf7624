/* Configs in both published styles, and what they must refuse. Right values: the cases that users
 * of comparable tools reported (rope bases 32, shapes 34, windows 35), and the formulas of the
 * published code worked out in Python. */
#include "model/arch.h"
#include "model/rope.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Members that every config needs; `more` begins with a comma. A later member of one name wins. */
#define SIZES                                                                                      \
    "\"num_hidden_layers\":2,\"hidden_size\":16,\"num_attention_heads\":2,"                        \
    "\"num_key_value_heads\":1,\"intermediate_size\":24,\"vocab_size\":32,"                        \
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5"
#define THETA ",\"rope_theta\":10000.0"

static enum status read_both(const char *type, const char *more, const char *generation,
                             struct config *out, struct error *err) {
    char text[2048];
    const struct json *tree = NULL, *other = NULL;
    const struct arch *arch = NULL;
    struct arena arena;
    arena_init(&arena);
    snprintf(text, sizeof text, "{\"model_type\":\"%s\"," SIZES "%s}", type, more);
    struct json_options options = {0};
    assert_int_equal(json_parse(&arena, str_from(text), &options, &tree, err), SL_OK);
    if (generation != NULL)
        assert_int_equal(json_parse(&arena, str_from(generation), &options, &other, err), SL_OK);
    enum status status = config_from_json(tree, other, "config.json", out, &arch, err);
    if (status == SL_OK)
        assert_string_equal(out->family, arch->name);
    arena_release(&arena);
    return status;
}

static struct config read_good(const char *type, const char *more) {
    struct config config = {0};
    struct error err = {0};
    if (read_both(type, more, NULL, &config, &err) != SL_OK)
        fail_msg("%s", err.text);
    return config;
}

/* The config is refused, and the message names the file and `word`. */
static void refuses(const char *type, const char *more, const char *word) {
    struct config config = {0};
    struct error err = {0};
    assert_int_equal(read_both(type, more, NULL, &config, &err), SL_ERR_ENV);
    if (strstr(err.text, word) == NULL || strstr(err.text, "config.json") == NULL)
        fail_msg("\"%s\" does not name %s", err.text, word);
}

static void assert_frequencies(const struct config *config, const double *right, size_t count) {
    float found[64] = {0};
    assert_int_equal(config->rope.rotary / 2, count);
    rope_frequencies(&config->rope, NULL, found);
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - right[i]) <= 1e-7 * right[i])) /* half a unit of float32 */
            fail_msg("frequency %zu is %.9g, expected %.9g", i, (double)found[i], right[i]);
}

/* theta^(-2i/8) for 500000 and 10000. */
static const double base_500000[] = {1, 0.0376060309, 0.00141421356, 5.3182959e-05};
static const double base_10000[] = {1, 0.1, 0.01, 0.001};

static void rope_base_is_found_in_both_styles(void **state) {
    (void)state;
    static const char *const good[] = {
        ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500000.0}",
        ",\"rope_theta\":500000,\"rope_scaling\":null",
        ",\"rope_theta\":500000,\"rope_parameters\":{\"rope_type\":\"default\","
        "\"rope_theta\":500000.0}",
        /* both, different: the one inside wins, with a warning */
        ",\"rope_theta\":10000,\"rope_parameters\":{\"rope_type\":\"default\","
        "\"rope_theta\":500000.0}",
        ",\"rope_scaling\":{\"type\":\"default\",\"rope_theta\":500000}",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct config config = read_good("llama", good[i]);
        assert_frequencies(&config, base_500000, 4);
        config_release(&config);
    }
    struct config config = read_good("llama", "");
    assert_frequencies(&config, base_10000, 4);
    config_release(&config);
}

static void unknown_rope_settings_are_refused_by_name(void **state) {
    (void)state;
    refuses("llama", THETA ",\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":4.0}",
            "long_factor");
    refuses("llama", THETA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"beta_fast\":4.0}",
            "factor");
    refuses("llama", THETA ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2.0}", "dynamic");
    refuses("llama", ",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2,\"beta\":3}",
            "beta");
    refuses("llama", ",\"rope_parameters\":{\"rope_type\":\"linear\"}", "factor");
    refuses("llama", ",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":0.5}", "factor");
    refuses("llama", ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8}",
            "low_freq_factor");
    refuses("llama",
            ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
            "\"high_freq_factor\":3,\"original_max_position_embeddings\":64}",
            "high_freq_factor");
    refuses("llama",
            ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1000000.0},"
            "\"sliding_attention\":{\"rope_theta\":10000.0}}",
            "full_attention");
    refuses("llama",
            ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2},"
            "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":4}",
            "disagree");
    refuses("llama", ",\"rope_scaling\":[1]", "rope");
    refuses("llama", ",\"rope_theta\":\"big\"", "rope_theta");
    refuses("llama", ",\"rope_theta\":-1", "rope_theta");
    refuses("llama", THETA ",\"partial_rotary_factor\":1.5", "partial_rotary_factor");
}

static void llama3_scaling_blends_the_middle_waves(void **state) {
    (void)state;
    struct config config = read_good(
        "llama", ",\"head_dim\":128,\"rope_theta\":500000.0,\"rope_scaling\":{\"factor\":8.0,"
                 "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                 "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"}");
    float found[64] = {0};
    /* Pairs 0 to 28 as they are, 29 to 34 blended, 35 on divided by 8; from Python. */
    static const struct {
        size_t pair;
        double right;
    } rows[] = {{0, 1},
                {1, 0.814617234},
                {20, 0.0165604401},
                {28, 0.00321144599},
                {29, 0.00216657076},
                {30, 0.00137189357},
                {31, 0.000856751413},
                {32, 0.000524846161},
                {34, 0.000178507813},
                {35, 9.55621235e-05},
                {63, 3.06892599e-07}};
    rope_frequencies(&config.rope, NULL, found);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!(fabs((double)found[rows[i].pair] - rows[i].right) <= 1e-7 * rows[i].right))
            fail_msg("frequency %zu is %.9g", rows[i].pair, (double)found[rows[i].pair]);
    config_release(&config);
}

struct pair_frequency {
    size_t pair;
    double right;
};

static void assert_pairs(const struct config *config, const struct pair_frequency *rows,
                         size_t count) {
    float found[64];
    rope_frequencies(&config->rope, NULL, found);
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[rows[i].pair] - rows[i].right) <= 1e-7 * rows[i].right))
            fail_msg("frequency %zu is %.9g", rows[i].pair, (double)found[rows[i].pair]);
}

/* Qwen2.5 as its readers are told to set it, and gpt-oss, whose ramp keeps its fractions. */
static void yarn_blends_along_the_pairs(void **state) {
    static const struct pair_frequency qwen[] = {{0, 1},
                                                 {1, 0.805842188},
                                                 {20, 0.0133352143},
                                                 {23, 0.00697830585},
                                                 {24, 0.00537532149},
                                                 {30, 0.00106436098},
                                                 {39, 6.49039432e-05},
                                                 {40, 4.44569853e-05},
                                                 {63, 3.1023444e-07}};
    static const struct pair_frequency oss[] = {{0, 1},
                                                {8, 0.0508132748},
                                                {9, 0.0317056962},
                                                {12, 0.00679495949},
                                                {17, 0.000129318701},
                                                {18, 3.83088124e-05},
                                                {31, 3.02351143e-07}};
    (void)state;
    struct config config = read_good(
        "qwen2", ",\"head_dim\":128,\"rope_theta\":1000000.0,\"rope_scaling\":{\"factor\":4.0,"
                 "\"original_max_position_embeddings\":32768,\"type\":\"yarn\"}");
    assert_pairs(&config, qwen, sizeof qwen / sizeof qwen[0]);
    assert_true(fabs(config.rope.attention_factor - 1.138629436111989) < 1e-12);
    config_release(&config);
    config = read_good(
        "llama", ",\"head_dim\":64,\"rope_parameters\":{\"rope_theta\":150000,\"factor\":32.0,"
                 "\"original_max_position_embeddings\":4096,\"rope_type\":\"yarn\","
                 "\"truncate\":false,\"beta_fast\":32.0,\"beta_slow\":1.0}");
    assert_pairs(&config, oss, sizeof oss / sizeof oss[0]);
    assert_true(fabs(config.rope.attention_factor - 1.3465735902799727) < 1e-12);
    config_release(&config);
}

static void attention_factors_follow_from_what_is_given(void **state) {
    static const struct {
        const char *type, *more;
        double right;
    } rows[] = {
        {"llama",
         THETA ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale\":0.7,"
               "\"mscale_all_dim\":1.2}",
         0.8721505655360163},
        {"llama",
         THETA ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale\":0.7,"
               "\"mscale_all_dim\":1.2,\"attention_factor\":0.5}",
         0.5},
        {"llama", THETA, 1},
        {"llama", THETA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":40}", 1},
        /* the ratio of both contexts, 131072 / 4096, wins over factor */
        {"phi3",
         THETA ",\"max_position_embeddings\":131072,\"original_max_position_embeddings\":4096,"
               "\"rope_scaling\":{\"type\":\"longrope\",\"factor\":7,\"long_factor\":[1,2,3,4],"
               "\"short_factor\":[1,1,1,1]}",
         1.1902380714238083},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config config = read_good(rows[i].type, rows[i].more);
        if (!(fabs(config.rope.attention_factor - rows[i].right) < 1e-12))
            fail_msg("%s: %.17g", rows[i].more, config.rope.attention_factor);
        config_release(&config);
    }
}

static void linear_scaling_and_factors_divide_frequencies(void **state) {
    (void)state;
    struct config config =
        read_good("llama", THETA ",\"rope_scaling\":{\"factor\":4.0,\"rope_type\":\"linear\"}");
    static const double right[] = {0.25, 0.025, 0.0025, 0.00025};
    float found[4] = {0}, factors[4] = {1, 2, 4, 8};
    assert_frequencies(&config, right, 4);
    rope_frequencies(&config.rope, factors, found);
    for (size_t i = 0; i < 4; i++)
        assert_true(fabs((double)found[i] - right[i] / (double)factors[i]) <= 1e-7 * right[i]);
    config_release(&config);
}

static void head_dim_is_its_own_setting(void **state) {
    uint64_t rows, columns;
    (void)state;
    struct config config = read_good("llama", ",\"hidden_size\":8,\"head_dim\":6");
    static const struct {
        enum role role;
        uint64_t rows, columns;
    } shapes[] = {{ROLE_Q, 12, 8},         {ROLE_K, 6, 8},
                  {ROLE_V, 6, 8},          {ROLE_O, 8, 12},
                  {ROLE_Q_BIAS, 12, 0},    {ROLE_K_BIAS, 6, 0},
                  {ROLE_O_BIAS, 8, 0},     {ROLE_Q_NORM, 6, 0},
                  {ROLE_GATE, 24, 8},      {ROLE_DOWN, 8, 24},
                  {ROLE_EMBED, 32, 8},     {ROLE_HEAD, 32, 8},
                  {ROLE_FINAL_NORM, 8, 0}, {ROLE_ATTEND_POST_NORM, 8, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        arch_shape(&config, 0, shapes[i].role, &rows, &columns);
        assert_int_equal(rows, shapes[i].rows);
        assert_int_equal(columns, shapes[i].columns);
    }
    config_release(&config);
    config = read_good("mistral", ",\"head_dim\":null");
    assert_int_equal(config.head_dim, 8);
    config_release(&config);
    config = read_good("qwen3", ""); /* the class default, not hidden / heads */
    assert_int_equal(config.head_dim, 128);
    assert_true(config.has_qk_norm);
    config_release(&config);
}

static void absent_key_value_heads_mean_one_for_each_head(void **state) {
    (void)state;
    struct config config = read_good("llama", ",\"num_key_value_heads\":null");
    assert_int_equal(config.kv_heads, 2);
    config_release(&config);
}

static void sizes_that_cannot_be_are_refused(void **state) {
    static const char *const rows[][2] = {
        {",\"num_hidden_layers\":0", "num_hidden_layers"},
        {",\"num_hidden_layers\":1025", "num_hidden_layers"},
        {",\"num_hidden_layers\":4294967295", "num_hidden_layers"},
        {",\"num_hidden_layers\":null", "num_hidden_layers"},
        {",\"num_hidden_layers\":2.5", "num_hidden_layers"},
        {",\"hidden_size\":-16", "hidden_size"},
        {",\"hidden_size\":16777217", "hidden"},
        {",\"hidden_size\":18446744073709551616", "hidden_size"},
        {",\"hidden_size\":\"16\"", "hidden_size"},
        {",\"hidden_size\":17", "head_dim"},
        {",\"num_attention_heads\":3,\"num_key_value_heads\":2,\"head_dim\":8", "heads"},
        {",\"num_key_value_heads\":4", "key/value"},
        {",\"head_dim\":7", "even"},
        {",\"head_dim\":1026", "head_dim"},
        {",\"num_attention_heads\":16777216,\"num_key_value_heads\":1,\"head_dim\":1024",
         "heads x head_dim"},
        {",\"vocab_size\":4000000000", "vocab_size"},
        {",\"max_position_embeddings\":2147483648", "context"},
        {",\"rms_norm_eps\":0", "epsilon"},
        {",\"rms_norm_eps\":\"small\"", "rms_norm_eps"},
        {",\"tie_word_embeddings\":\"yes\"", "tie_word_embeddings"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses("llama", rows[i][0], rows[i][1]);
}

static void settings_that_change_the_answer_are_refused_by_name(void **state) {
    static const char *const rows[][2] = {
        {",\"quantization_config\":{\"quant_method\":\"awq\"}", "quantization_config"},
        {",\"attn_logit_softcapping\":50.0", "attn_logit_softcapping"},
        {",\"hidden_act\":\"gelu\"", "gelu"},
        {",\"embedding_multiplier\":12.0", "embedding_multiplier"},
        {",\"num_local_experts\":8", "num_local_experts"},
        {",\"sliding_window\":16", "sliding_window"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses("llama", rows[i][0], rows[i][1]);
    struct config config =
        read_good("llama", ",\"quantization_config\":null,\"attn_logit_softcapping\":null,"
                           "\"hidden_act\":\"silu\",\"embedding_multiplier\":1.0,"
                           "\"num_local_experts\":0,\"sliding_window\":null,\"use_cache\":true,"
                           "\"pretraining_tp\":2,\"unheard_of\":{\"a\":1}");
    config_release(&config);
}

static void unknown_families_are_refused_with_the_list(void **state) {
    (void)state;
    refuses("mamba", "", "mamba");
    refuses("mamba", "", "llama, mistral, qwen2, qwen3");
}

/* Which layers slide: a letter for each, w or f. */
static void assert_windows(const char *type, const char *more, const char *layers,
                           uint32_t window) {
    struct config config = read_good(type, more);
    for (uint32_t i = 0; i < config.layers; i++) {
        bool is_windowed = config.is_windowed != NULL && config.is_windowed[i];
        if (is_windowed != (layers[i] == 'w') || (is_windowed && config.window != window))
            fail_msg("%s %s: layer %u is not as in %s", type, more, i, layers);
    }
    config_release(&config);
}

static void windows_slide_where_the_config_says_so(void **state) {
    (void)state;
    assert_windows("qwen2", ",\"sliding_window\":4,\"use_sliding_window\":false", "ff", 4);
    assert_windows("qwen2", ",\"sliding_window\":4", "ff", 4); /* off is the class default */
    assert_windows("qwen2",
                   ",\"sliding_window\":4,\"use_sliding_window\":true,\"max_window_layers\":1",
                   "fw", 4);
    assert_windows("qwen2",
                   ",\"sliding_window\":4,\"use_sliding_window\":true,"
                   "\"layer_types\":[\"sliding_attention\",\"full_attention\"]",
                   "wf", 4);
    assert_windows("qwen3",
                   ",\"sliding_window\":4,"
                   "\"layer_types\":[\"sliding_attention\",\"full_attention\"]",
                   "wf", 4);
    assert_windows("mistral", ",\"sliding_window\":4", "ww", 4);
    assert_windows("mistral", ",\"sliding_window\":null", "ff", 0);
    assert_windows("mistral", "", "ff", 0);
    refuses("mistral", ",\"sliding_window\":0", "sliding_window");
    refuses("mistral", ",\"layer_types\":[\"sliding_attention\",\"full_attention\"]",
            "sliding_window");
    refuses("mistral", ",\"sliding_window\":4,\"layer_types\":[\"full_attention\"]", "layer_types");
    refuses("mistral",
            ",\"sliding_window\":4,\"layer_types\":[\"chunked_attention\",\"full_attention\"]",
            "chunked_attention");
}

static void biases_are_needed_where_declared_and_used_where_present(void **state) {
    (void)state;
    struct config config = read_good("llama", "");
    assert_int_equal(arch_llama.need(&config, ROLE_Q_BIAS), ARCH_OPTIONAL);
    assert_int_equal(arch_llama.need(&config, ROLE_Q_NORM), ARCH_ABSENT);
    config_release(&config);
    config = read_good("llama", ",\"attention_bias\":true,\"mlp_bias\":true");
    assert_int_equal(arch_llama.need(&config, ROLE_O_BIAS), ARCH_REQUIRED);
    assert_int_equal(arch_llama.need(&config, ROLE_DOWN_BIAS), ARCH_REQUIRED);
    config_release(&config);
    config = read_good("qwen2", "");
    assert_int_equal(arch_qwen2.need(&config, ROLE_K_BIAS), ARCH_REQUIRED);
    assert_int_equal(arch_qwen2.need(&config, ROLE_O_BIAS), ARCH_OPTIONAL);
    config_release(&config);
    config = read_good("qwen3", "");
    assert_int_equal(arch_qwen3.need(&config, ROLE_K_NORM), ARCH_REQUIRED);
    config_release(&config);
}

static void bad_settings_of_the_families_are_refused_by_name(void **state) {
#define LONGROPE ",\"rope_scaling\":{\"type\":\"longrope\","
    static const char *const rows[][3] = {
        {"gemma2", ",\"query_pre_attn_scalar\":0", "query_pre_attn_scalar"},
        {"gemma2", ",\"attn_logit_softcapping\":-1", "attn_logit_softcapping"},
        {"gemma2", ",\"final_logit_softcapping\":\"high\"", "final_logit_softcapping"},
        {"gemma2", ",\"final_logit_softcapping\":1e9", "soft cap of logits"},
        {"gemma2", ",\"hidden_activation\":\"relu\"", "relu"},
        {"gemma2", ",\"sliding_window\":0", "sliding_window"},
        {"gemma3_text", ",\"use_bidirectional_attention\":true", "use_bidirectional_attention"},
        {"gemma3_text", ",\"attn_logit_softcapping\":50.0", "attn_logit_softcapping"},
        {"gemma3_text", ",\"sliding_window_pattern\":0", "sliding_window_pattern"},
        {"gemma3_text", ",\"rope_local_base_freq\":\"low\"", "rope_local_base_freq"},
        {"gemma3_text", ",\"rope_parameters\":{\"chunked_attention\":{\"rope_theta\":1e4}}",
         "chunked_attention"},
        {"gemma3_text",
         ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e6},\"sliding_attention\":"
         "{\"rope_theta\":1e4,\"rope_type\":\"spiral\"}}",
         "spiral"},
        {"phi3", ",\"attention_bias\":true", "attention_bias"},
        {"phi3", ",\"partial_rotary_factor\":1.5", "partial_rotary_factor"},
        {"phi3", ",\"partial_rotary_factor\":0.4", "even"}, /* 3 of 8 */
        {"phi3", LONGROPE "\"long_factor\":[1,2,3,4]}", "short_factor"},
        {"phi3", LONGROPE "\"long_factor\":[1,2],\"short_factor\":[1,2]}", "need 4"},
        {"phi3", LONGROPE "\"long_factor\":[1,2],\"short_factor\":[1,2,3,4]}", "short_factor"},
        {"phi3", LONGROPE "\"long_factor\":[1,2,3,0],\"short_factor\":[1,1,1,1]}", "number 3"},
        {"phi3", LONGROPE "\"long_factor\":[1,2,3,\"4\"],\"short_factor\":[1,1,1,1]}",
         "long_factor[3]"},
        {"phi3", LONGROPE "\"long_factor\":[1,2,3,4],\"short_factor\":[1,1,1,1],\"beta_fast\":1}",
         "beta_fast"},
        {"llama", ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"truncate\":3}", "truncate"},
        {"llama", ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_slow\":64}", "beta"},
        {"olmo2", ",\"clip_qkv\":8.0", "clip_qkv"},
        {"smollm3", ",\"no_rope_layers\":[1]", "no_rope_layers"},
        {"smollm3", ",\"no_rope_layers\":[1,2]", "no_rope_layers"},
        {"smollm3", ",\"no_rope_layer_interval\":0", "no_rope_layer_interval"},
        {"granite", ",\"logits_scaling\":0", "logits_scaling"},
        {"granite", ",\"residual_multiplier\":-0.5", "residual_multiplier"},
        {"granite", ",\"attention_multiplier\":1e30", "attention scores"},
        {"granite", ",\"query_pre_attn_scalar\":4", "query_pre_attn_scalar"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses(rows[i][0], rows[i][1], rows[i][2]);
}

static void class_defaults_fill_what_published_files_leave_out(void **state) {
    (void)state;
    struct config config = read_good("gemma2", "");
    assert_true(config.score_cap == 50 && config.logit_cap == 30 && config.score_scale == 1.0 / 16);
    assert_true(config.activation == ACTIVATION_GELU_TANH && config.ties_embeddings);
    assert_true(config.norm_offset == 1.0f && config.embed_scale == 4);
    config_release(&config);
    assert_windows("gemma2", "", "wf", 4096);
    assert_windows("gemma3_text", ",\"sliding_window_pattern\":2", "wf", 4096);
    assert_windows("gemma3_text", ",\"sliding_window\":4", "ww", 4); /* of six, the last is full */
    config = read_good("gemma3_text", ",\"head_dim\":null");
    assert_int_equal(config.head_dim, 256);
    assert_true(config.rope.theta == 1e6 && config.has_window_rope);
    assert_true(config.window_rope.theta == 1e4 && config.window_rope.rotary == 256);
    assert_true(config.score_cap == 0 && config.logit_cap == 0);
    config_release(&config);
    config = read_good("smollm3", "");
    assert_true(config.rope.theta == 2e6 && !config.skips_rope[0]);
    config_release(&config);
    config = read_good("granite", "");
    assert_true(config.score_scale == 1 && config.logit_scale == 1 && config.embed_scale == 1);
    config_release(&config);
    config = read_good("llama", "");
    assert_true(config.score_scale == 1 / sqrt(8.0) && config.residual_scale == 1);
    config_release(&config);
}

/* As published: Gemma 3's text part says little, the outer object ties. */
static void the_text_part_of_a_multimodal_config_is_read(void **state) {
    (void)state;
    struct config config =
        read_good("gemma3", ",\"text_config\":{\"model_type\":\"gemma3_text\",\"hidden_size\":32,"
                            "\"intermediate_size\":48,\"num_hidden_layers\":7,\"rope_scaling\":"
                            "{\"factor\":8.0,\"rope_type\":\"linear\"},\"sliding_window\":4}");
    assert_string_equal(config.family, "gemma3");
    assert_int_equal(config.hidden, 32);
    assert_int_equal(config.layers, 7);
    assert_int_equal(config.heads, 8);
    assert_int_equal(config.kv_heads, 4);
    assert_int_equal(config.head_dim, 256);
    assert_int_equal(config.vocabulary, 262208);
    assert_true(config.rope.factor == 8 && config.window == 4 && !config.is_windowed[5]);
    config_release(&config);
    config = read_good("wrapper", ",\"tie_word_embeddings\":true,\"text_config\":{"
                                  "\"model_type\":\"llama\"," SIZES "}");
    assert_string_equal(config.family, "llama");
    assert_true(config.ties_embeddings);
    config_release(&config);
    refuses("wrapper", ",\"text_config\":{\"model_type\":\"mamba\"," SIZES "}", "mamba");
    refuses("wrapper",
            ",\"quantization_config\":{\"quant_method\":\"gptq\"},\"text_config\":{\"model_type\":"
            "\"llama\"," SIZES "}",
            "quantization_config");
    refuses("wrapper", ",\"text_config\":[]", "wrapper");
    /* LLaVA leaves out what is as in the class; a config by itself may not. */
    config = read_good("llava", ",\"text_config\":{\"model_type\":\"llama\",\"rms_norm_eps\":1e-05,"
                                "\"max_position_embeddings\":4096,\"vocab_size\":32064}");
    assert_true(config.layers == 32 && config.hidden == 4096 && config.inner == 11008);
    assert_true(config.heads == 32 && config.kv_heads == 32 && config.head_dim == 128);
    config_release(&config);
    config =
        read_good("llava_next", ",\"text_config\":{\"model_type\":\"mistral\",\"vocab_size\":9,"
                                "\"max_position_embeddings\":9}");
    assert_true(config.inner == 14336 && config.heads == 32 && config.kv_heads == 8);
    config_release(&config);
    refuses("llama", ",\"num_hidden_layers\":null", "num_hidden_layers is missing");
    refuses("paligemma", ",\"text_config\":{\"model_type\":\"gemma2\"," SIZES "}", "paligemma");
}

static void ties_follow_the_flag_or_the_family(void **state) {
    (void)state;
    struct config config = read_good("qwen2", ",\"tie_word_embeddings\":true");
    assert_true(config.ties_embeddings);
    config_release(&config);
    config = read_good("qwen2", "");
    assert_false(config.ties_embeddings);
    config_release(&config);
}

static void suggested_sampling_is_read_with_its_defaults(void **state) {
    struct config config = {0};
    struct error err = {0};
    (void)state;
    assert_int_equal(
        read_both("llama", "", "{\"do_sample\":true,\"temperature\":0.6}", &config, &err), SL_OK);
    assert_true(config.samples);
    assert_true(config.temperature == 0.6);
    assert_true(config.top_p == 1.0);
    assert_int_equal(config.top_k, 50);
    config_release(&config);
    assert_int_equal(read_both("llama", "", "{\"temperature\":0.6}", &config, &err), SL_OK);
    assert_false(config.samples);
    config_release(&config);
    assert_int_equal(read_both("llama", "", "{\"do_sample\":true,\"top_p\":7}", &config, &err),
                     SL_OK);
    assert_false(config.samples);
    config_release(&config);
}

static void angles_are_taken_in_double(void **state) {
    /* cos and sin of position x float32(0.0376060309) in double, from Python. */
    static const struct {
        uint32_t position;
        double cosine, sine;
    } rows[] = {{0, 1, 0}, {7, 0.96555139, 0.260212439}, {123456, 0.834365533, -0.551211536}};
    struct rope_table table = {0};
    struct team *team;
    struct error err = {0};
    float frequency = 0.0376060309f;
    struct kv_token tokens[3];
    (void)state;
    assert_int_equal(team_new(1, &team, &err), SL_OK);
    assert_int_equal(act_init(&table.cosines, 1, 3, &err), SL_OK);
    assert_int_equal(act_init(&table.sines, 1, 3, &err), SL_OK);
    for (size_t i = 0; i < 3; i++)
        tokens[i] = (struct kv_token){.position = rows[i].position};
    struct rope_source source = {.frequencies = &frequency, .attention_factor = 1, .pairs = 1};
    rope_fill(&table, &source, tokens, 3, team);
    for (size_t i = 0; i < 3; i++) {
        assert_true(fabs((double)*act_at(&table.cosines, 0, i) - rows[i].cosine) < 1e-7);
        assert_true(fabs((double)*act_at(&table.sines, 0, i) - rows[i].sine) < 1e-7);
    }
    act_release(&table.cosines);
    act_release(&table.sines);
    team_free(team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_base_is_found_in_both_styles),
        cmocka_unit_test(unknown_rope_settings_are_refused_by_name),
        cmocka_unit_test(llama3_scaling_blends_the_middle_waves),
        cmocka_unit_test(yarn_blends_along_the_pairs),
        cmocka_unit_test(attention_factors_follow_from_what_is_given),
        cmocka_unit_test(linear_scaling_and_factors_divide_frequencies),
        cmocka_unit_test(bad_settings_of_the_families_are_refused_by_name),
        cmocka_unit_test(class_defaults_fill_what_published_files_leave_out),
        cmocka_unit_test(the_text_part_of_a_multimodal_config_is_read),
        cmocka_unit_test(head_dim_is_its_own_setting),
        cmocka_unit_test(absent_key_value_heads_mean_one_for_each_head),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(settings_that_change_the_answer_are_refused_by_name),
        cmocka_unit_test(unknown_families_are_refused_with_the_list),
        cmocka_unit_test(windows_slide_where_the_config_says_so),
        cmocka_unit_test(biases_are_needed_where_declared_and_used_where_present),
        cmocka_unit_test(ties_follow_the_flag_or_the_family),
        cmocka_unit_test(suggested_sampling_is_read_with_its_defaults),
        cmocka_unit_test(angles_are_taken_in_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
