/* Every dense family against the formulas of its published code (families_for_test.h): small random
 * models, one row, all its logits. Those whose rows of q and k GGUF leaves in place are compared as
 * a GGUF file too; test/families_test.py does that for all. */
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "model/families_for_test.h"

/* Renames a tensor as llama.cpp's converter does; norms of the Gemmas get their 1. */
static void rename_for_gguf(struct tiny_tensor *tensor, const struct family *family) {
    const struct {
        const char *part, *gguf;
    } names[] = {
        {"input_layernorm", "attn_norm"},
        {"pre_feedforward_layernorm", "ffn_norm"},
        {"post_attention_layernorm", family->has_post_norms ? "post_attention_norm" : "ffn_norm"},
        {"post_feedforward_layernorm", "post_ffw_norm"},
        {"self_attn.q_norm", "attn_q_norm"},
        {"self_attn.k_norm", "attn_k_norm"},
        {"self_attn.qkv_proj", "attn_qkv"},
        {"self_attn.q_proj", "attn_q"},
        {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"},
        {"mlp.gate_up_proj", "ffn_up"},
        {"mlp.gate_proj", "ffn_gate"},
        {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"},
    };
    for (size_t i = 0; tensor->columns == 0 && i < tensor->rows; i++)
        tensor->values[i] += (float)family->norm_offset;
    if (strcmp(tensor->name, "model.embed_tokens.weight") == 0)
        snprintf(tensor->name, sizeof tensor->name, "token_embd.weight");
    else if (strcmp(tensor->name, "model.norm.weight") == 0)
        snprintf(tensor->name, sizeof tensor->name, "output_norm.weight");
    char from[80];
    snprintf(from, sizeof from, "%s", tensor->name);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (unsigned layer = 0; layer < TINY_LAYERS; layer++) {
            char name[80];
            snprintf(name, sizeof name, "model.layers.%u.%s.weight", layer, names[i].part);
            if (strcmp(from, name) == 0)
                snprintf(tensor->name, sizeof tensor->name, "blk.%u.%s.weight", layer,
                         names[i].gguf);
        }
}

/* The program against the formulas. */
static void check(const struct family *family) {
    struct tiny tiny;
    double right[FAMILY_TOKENS][TINY_VOCABULARY];
    family_check_folder(&tiny, family, right);
    if (family->gguf_type != NULL) {
        char path[160];
        for (size_t i = 0; i < tiny.count; i++)
            rename_for_gguf(&tiny.tensors[i], family);
        tiny_write_gguf_of(&tiny, family->gguf_type, family->keys,
                           sizeof family->keys / sizeof family->keys[0]);
        tiny_path(&tiny, "tiny.gguf", path, sizeof path);
        family_compare(path, family, right);
    }
    tiny_end(&tiny);
}

static void gemma2_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "gemma2";
    family.more = ",\"query_pre_attn_scalar\":9,\"sliding_window\":3,"
                  "\"attn_logit_softcapping\":1.5,\"final_logit_softcapping\":2.0,"
                  "\"hidden_activation\":\"gelu_pytorch_tanh\"";
    family.has_post_norms = family.is_gelu = true;
    family.mlp_norm = "pre_feedforward_layernorm";
    family.norm_offset = 1;
    family.embed = sqrt(8.0);
    family.score = 1.0 / 3;
    family.score_cap = 1.5;
    family.logit_cap = 2;
    family.windows[0] = 3; /* every other layer, the first one included */
    family.gguf_type = "gemma2";
    family.keys[0] = (struct tiny_key){"attn_logit_softcapping", NULL, 1.5, true};
    family.keys[1] = (struct tiny_key){"final_logit_softcapping", NULL, 2, true};
    family.keys[2] = (struct tiny_key){"attention.sliding_window", NULL, 3, false};
    family.keys[3] = (struct tiny_key){"attention.scale", NULL, 1.0 / 3, true};
    check(&family);
    family.gguf_type = NULL;
    family.more = ",\"query_pre_attn_scalar\":9,\"sliding_window\":null,"
                  "\"attn_logit_softcapping\":null"; /* the class default caps logits at 30 */
    family.score_cap = 0;
    family.logit_cap = 30;
    family.windows[0] = 0;
    check(&family);
}

static void gemma3_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "gemma3_text";
    family.more = ",\"query_pre_attn_scalar\":4,\"sliding_window\":2,"
                  "\"sliding_window_pattern\":2,\"rope_theta\":1000000.0,"
                  "\"rope_local_base_freq\":10000.0,"
                  "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0}";
    family.has_post_norms = family.is_gelu = family.has_head_norms = true;
    family.mlp_norm = "pre_feedforward_layernorm";
    family.norm_offset = 1;
    family.embed = sqrt(8.0);
    family.windows[0] = 2;
    family.frequencies[1][0] = 1.0 / 8; /* 1000000^(-2i/4) / 8 */
    family.frequencies[1][1] = 0.001 / 8;
    family.gguf_type = "gemma3";
    family.keys[0] = (struct tiny_key){"attention.sliding_window_pattern", NULL, 2, false};
    family.keys[1] = (struct tiny_key){"attention.sliding_window", NULL, 2, false};
    family.keys[2] = (struct tiny_key){"rope.freq_base", NULL, 1e6, true};
    family.keys[3] = (struct tiny_key){"rope.scaling.factor", NULL, 8, true};
    check(&family);
    family.gguf_type = NULL;
    family.score = 0.25;
    family.more = ",\"query_pre_attn_scalar\":16,\"sliding_window\":2,\"rope_theta\":null,"
                  "\"layer_types\":[\"sliding_attention\",\"full_attention\"],"
                  "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\","
                  "\"factor\":8.0,\"rope_theta\":1000000.0},\"sliding_attention\":"
                  "{\"rope_type\":\"default\",\"rope_theta\":10000.0}}";
    check(&family);
}

/* longrope: a row of 10 positions is long for a model trained on 8, short for one trained on 10.
 * Both contexts are 64: the attention factor is sqrt(1 + ln(64 / n) / ln n). */
static void phi3_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "phi3";
    family.is_fused = true;
    family.more = TIED ",\"sliding_window\":4";
    family.windows[0] = family.windows[1] = 4;
    family.gguf_type = "phi3";
    family.keys[0] = (struct tiny_key){"attention.sliding_window", NULL, 4, false};
    check(&family);
    family.gguf_type = NULL;
    family.windows[0] = family.windows[1] = 0;
    family.more = TIED ",\"partial_rotary_factor\":0.5";
    family.rotated = 2;
    check(&family);
    family.rotated = TINY_HEAD_DIM;
    family.more = TIED ",\"original_max_position_embeddings\":8,\"rope_scaling\":{"
                       "\"type\":\"longrope\",\"long_factor\":[2.0,4.0],"
                       "\"short_factor\":[1.0,1.25]}";
    family.turn_factor = sqrt(1 + log(64.0 / 8) / log(8.0));
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        family.frequencies[layer][0] = 0.5;
        family.frequencies[layer][1] = 0.0025;
    }
    check(&family);
    family.more = TIED ",\"original_max_position_embeddings\":10,\"rope_scaling\":{"
                       "\"type\":\"su\",\"long_factor\":[2.0,4.0],\"short_factor\":[1.0,1.25]}";
    family.turn_factor = sqrt(1 + log(64.0 / 10) / log(10.0));
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        family.frequencies[layer][0] = 1;
        family.frequencies[layer][1] = 0.008;
    }
    check(&family);
}

static void olmo2_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "olmo2";
    family.more = TIED;
    family.has_pre_norms = false;
    family.has_post_norms = family.has_head_norms = family.has_whole_norms = true;
    family.gguf_type = "olmo2";
    check(&family);
}

static void smollm3_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "smollm3";
    family.more = ",\"no_rope_layers\":[0,1]";
    family.frequencies[0][0] = family.frequencies[0][1] = 0;
    check(&family);
    family.more = ",\"no_rope_layer_interval\":2,\"sliding_window\":3,\"use_sliding_window\":true";
    memcpy(family.frequencies, family_llama.frequencies, sizeof family.frequencies);
    family.frequencies[1][0] = family.frequencies[1][1] = 0;
    family.windows[1] = 3; /* where there is no rope */
    check(&family);
}

static void granite_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "granite";
    family.more = TIED ",\"attention_multiplier\":0.3,\"embedding_multiplier\":3.0,"
                       "\"residual_multiplier\":0.4,\"logits_scaling\":5.0";
    family.score = 0.3;
    family.embed = 3;
    family.residual = 0.4;
    family.logit = 0.2;
    check(&family);
    family.more = TIED; /* the class default of attention_multiplier is 1 */
    family.score = family.embed = family.residual = family.logit = 1;
    check(&family);
}

static void llama_and_mistral_follow_their_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "llama";
    family.more = TIED;
    check(&family);
    family.more = TIED ",\"hidden_act\":\"gelu_pytorch_tanh\"";
    family.is_gelu = true;
    check(&family);
    family.type = "mistral";
    family.more = TIED ",\"sliding_window\":2";
    family.is_gelu = false;
    family.windows[0] = family.windows[1] = 2;
    check(&family);
}

/* Waves of 2 pi and 200 pi positions: the first is between 16 / 4 and 16 / 1, where frequencies are
 * mixed, the second beyond. */
static void llama3_scaling_follows_its_formula(void **state) {
    (void)state;
    struct family family = family_llama;
    double wave = 2 * 3.14159265358979323846, smooth = (16 / wave - 1) / (4 - 1);
    family.type = "llama";
    family.more = TIED ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
                       "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                       "\"original_max_position_embeddings\":16}";
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        family.frequencies[layer][0] = (1 - smooth) / 8 + smooth;
        family.frequencies[layer][1] = 0.01 / 8;
    }
    check(&family);
}

/* Biases of q, k and v that the config does not mention; the window needs its flag and begins at
 * max_window_layers; yarn, whose cosines grow by 0.1 ln(factor) + 1. */
static void qwen2_follows_its_formulas(void **state) {
    (void)state;
    const struct family_yarn yarn = {4, 16, 0.05, 0.001, true};
    struct family family = family_llama;
    family.type = "qwen2";
    family.biases = "qkv";
    family.more = TIED ",\"sliding_window\":2,\"use_sliding_window\":false";
    check(&family);
    family.more = TIED ",\"sliding_window\":2,\"use_sliding_window\":true";
    check(&family); /* from layer 28 on */
    family.more = TIED ",\"sliding_window\":2,\"use_sliding_window\":true,"
                       "\"max_window_layers\":1";
    family.windows[1] = 2;
    check(&family);
    family.windows[1] = 0;
    family.more = TIED ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,"
                       "\"beta_fast\":0.05,\"beta_slow\":0.001,"
                       "\"original_max_position_embeddings\":16}";
    family.turn_factor = 0.1 * log(4.0) + 1;
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        family_yarn_frequencies(&yarn, 10000, TINY_HEAD_DIM, family.frequencies[layer]);
    check(&family);
}

static void qwen3_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "qwen3";
    family.more = TIED;
    family.has_head_norms = true;
    family.gguf_type = "qwen3";
    check(&family);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_and_mistral_follow_their_formulas),
        cmocka_unit_test(llama3_scaling_follows_its_formula),
        cmocka_unit_test(qwen2_follows_its_formulas),
        cmocka_unit_test(qwen3_follows_its_formulas),
        cmocka_unit_test(gemma2_follows_its_formulas),
        cmocka_unit_test(gemma3_follows_its_formulas),
        cmocka_unit_test(phi3_follows_its_formulas),
        cmocka_unit_test(olmo2_follows_its_formulas),
        cmocka_unit_test(smollm3_follows_its_formulas),
        cmocka_unit_test(granite_follows_its_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
