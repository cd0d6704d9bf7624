/* The families of 2025 and 2026 whose mathematics is new against the formulas of their published
 * code (families_for_test.h): layer norms and parallel halves, queries that grow, chunks, inputs of
 * experts that are scaled, and Gemma 4's layers of different sizes. */
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "model/families_for_test.h"

static void check(const struct family *family) {
    struct tiny tiny;
    double right[FAMILY_TOKENS][TINY_VOCABULARY];
    family_check_folder(&tiny, family, right);
    tiny_end(&tiny);
}

static void glm4_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "glm4";
    family.more = TIED ",\"attention_bias\":true";
    family.biases = "qkv";
    family.has_fused_mlp = family.has_post_norms = family.turns_neighbours = true;
    family.attend_post_norm = "post_self_attn_layernorm";
    family.mlp_post_norm = "post_mlp_layernorm";
    family.rotated = 2; /* half of a head, as in the class */
    check(&family);
    family.more = TIED ",\"attention_bias\":false,\"partial_rotary_factor\":1.0";
    family.biases = NULL;
    family.rotated = TINY_HEAD_DIM;
    check(&family);
}

static void seed_oss_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "seed_oss";
    family.more = TIED; /* the class has biases of q, k and v */
    family.biases = "qkv";
    check(&family);
    family.more = TIED ",\"attention_bias\":false,\"attention_out_bias\":true";
    family.biases = "o";
    check(&family);
}

static void exaone4_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "exaone4";
    family.more = TIED ",\"sliding_window\":3,\"sliding_window_pattern\":2";
    family.has_pre_norms = false;
    family.has_post_norms = family.has_head_norms = true;
    family.windows[0] = 3;
    family.frequencies[1][0] = family.frequencies[1][1] = 0; /* whole layers do not rotate */
    check(&family);
    family.more = TIED ",\"sliding_window\":null,\"layer_types\":[\"full_attention\","
                       "\"full_attention\"]";
    family.windows[0] = 0;
    memcpy(family.frequencies, family_llama.frequencies, sizeof family.frequencies);
    check(&family); /* unless there is no window at all */
}

static void cohere2_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    family.type = "cohere2";
    family.more = TIED ",\"sliding_window\":3,\"logit_scale\":0.3,\"layer_types\":["
                       "\"sliding_attention\",\"full_attention\"]";
    family.has_layer_norms = family.is_parallel = family.turns_neighbours = true;
    family.logit = 0.3;
    family.windows[0] = 3;
    family.frequencies[1][0] = family.frequencies[1][1] = 0;
    check(&family);
    family.more = TIED ",\"sliding_window\":2"; /* the class: each fourth layer is whole */
    family.logit = 0.0625;
    family.windows[0] = family.windows[1] = 2;
    memcpy(family.frequencies, family_llama.frequencies, sizeof family.frequencies);
    check(&family);
}

/* Cosines keep their size: mscale and mscale_all_dim are the same. */
static void ministral3_follows_its_formulas(void **state) {
    (void)state;
    const struct family_yarn yarn = {4, 4, 0.05, 0.001, true};
    struct family family = family_llama;
    family.type = "ministral3";
    family.more = TIED ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":10000.0,"
                       "\"factor\":4.0,\"beta_fast\":0.05,\"beta_slow\":0.001,\"mscale\":1.0,"
                       "\"mscale_all_dim\":1.0,\"original_max_position_embeddings\":4,"
                       "\"llama_4_scaling_beta\":0.7,\"max_position_embeddings\":64}";
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        family_yarn_frequencies(&yarn, 10000, TINY_HEAD_DIM, family.frequencies[layer]);
    family.growth = 0.7;
    family.growth_length = 4;
    check(&family);
}

/* Llama 4: experts in the second layer, as stacks [experts, inputs, outputs]. */

enum { EXPERTS = 4, EXPERT_INNER = 6, LLAMA4_INNER = TINY_INNER };

static void llama4_name(char *name, unsigned layer, const char *module, const char *part) {
    assert_true(snprintf(name, FAMILY_NAME, "model.layers.%u.feed_forward.%s%s", layer, module,
                         part) < FAMILY_NAME);
}

static float *llama4_add(struct tiny *tiny, unsigned layer, const char *module, const char *part,
                         const size_t shape[2]) {
    char name[FAMILY_NAME];
    llama4_name(name, layer, module, part);
    return tiny_add(tiny, name, shape[0], shape[1], 0.6f, 0.0f);
}

static const float *llama4_find(struct tiny *tiny, unsigned layer, const char *module,
                                const char *part) {
    char name[FAMILY_NAME];
    llama4_name(name, layer, module, part);
    return tiny_find(tiny, name)->values;
}

static void llama4_add_mlp(struct tiny *tiny, const struct family *family, unsigned layer) {
    (void)family;
    size_t inner = layer == 0 ? LLAMA4_INNER : EXPERT_INNER;
    const char *module = layer == 0 ? "" : "shared_expert.";
    llama4_add(tiny, layer, module, "gate_proj.weight", (size_t[]){inner, TINY_HIDDEN});
    llama4_add(tiny, layer, module, "up_proj.weight", (size_t[]){inner, TINY_HIDDEN});
    llama4_add(tiny, layer, module, "down_proj.weight", (size_t[]){TINY_HIDDEN, inner});
    if (layer == 0)
        return;
    llama4_add(tiny, layer, "", "router.weight", (size_t[]){EXPERTS, TINY_HIDDEN});
    llama4_add(tiny, layer, "", "experts.gate_up_proj",
               (size_t[]){EXPERTS * TINY_HIDDEN, 2 * EXPERT_INNER});
    llama4_add(tiny, layer, "", "experts.down_proj",
               (size_t[]){EXPERTS * EXPERT_INNER, TINY_HIDDEN});
}

/* y += W_down (silu(W_gate x) W_up x), matrices as rows of outputs. */
static void add_gated(const float *gate, const float *up, const float *down, size_t inner,
                      const double *x, double *y) {
    double g[2 * TINY_INNER], u[2 * TINY_INNER], out[TINY_HIDDEN];
    family_multiply(gate, NULL, inner, TINY_HIDDEN, x, g);
    family_multiply(up, NULL, inner, TINY_HIDDEN, x, u);
    for (size_t i = 0; i < inner; i++)
        u[i] *= g[i] * family_sigmoid(g[i]);
    family_multiply(down, NULL, TINY_HIDDEN, inner, u, out);
    for (size_t i = 0; i < TINY_HIDDEN; i++)
        y[i] += out[i];
}

/* The same of one of a stack, [inputs, outputs], gate before up. */
static void add_stacked(const float *gate_up, const float *down, const double *x, double *y) {
    for (size_t o = 0; o < EXPERT_INNER; o++) {
        double gate = 0, up = 0;
        for (size_t i = 0; i < TINY_HIDDEN; i++) {
            gate += x[i] * (double)gate_up[i * 2 * EXPERT_INNER + o];
            up += x[i] * (double)gate_up[i * 2 * EXPERT_INNER + EXPERT_INNER + o];
        }
        for (size_t i = 0; i < TINY_HIDDEN; i++)
            y[i] += gate * family_sigmoid(gate) * up * (double)down[o * TINY_HIDDEN + i];
    }
}

static void llama4_mlp(struct family_state *state, unsigned layer, size_t token) {
    struct tiny *tiny = state->tiny;
    const char *module = layer == 0 ? "" : "shared_expert.";
    double x[TINY_HIDDEN], y[TINY_HIDDEN] = {0}, scores[EXPERTS];
    bool is_taken[EXPERTS] = {false};
    family_input(state, layer, "post_attention_layernorm", token, x);
    add_gated(llama4_find(tiny, layer, module, "gate_proj.weight"),
              llama4_find(tiny, layer, module, "up_proj.weight"),
              llama4_find(tiny, layer, module, "down_proj.weight"),
              layer == 0 ? LLAMA4_INNER : EXPERT_INNER, x, y);
    for (size_t i = 0; layer == 1 && i < 2; i++) { /* two of them */
        double scaled[TINY_HIDDEN];
        family_multiply(llama4_find(tiny, layer, "", "router.weight"), NULL, EXPERTS, TINY_HIDDEN,
                        x, scores);
        size_t expert = family_take_largest(scores, is_taken, EXPERTS, i == 1);
        for (size_t k = 0; k < TINY_HIDDEN; k++)
            scaled[k] = x[k] * family_sigmoid(scores[expert]);
        add_stacked(llama4_find(tiny, layer, "", "experts.gate_up_proj") +
                        expert * TINY_HIDDEN * 2 * EXPERT_INNER,
                    llama4_find(tiny, layer, "", "experts.down_proj") +
                        expert * EXPERT_INNER * TINY_HIDDEN,
                    scaled, y);
    }
    family_residual(state, layer, "", token, y);
}

static const struct family_half llama4_half = {llama4_add_mlp, llama4_mlp};

static void llama4_follows_its_formulas(void **state) {
    (void)state;
#define LLAMA4                                                                                     \
    TIED ",\"intermediate_size\":6,\"intermediate_size_mlp\":12,\"num_local_experts\":4,"          \
         "\"num_experts_per_tok\":2,\"attention_chunk_size\":4,\"floor_scale\":4,"                 \
         "\"attn_scale\":0.7,\"no_rope_layers\":[1,0],"
    struct family family = family_llama;
    family.type = "llama4_text";
    family.more = LLAMA4 "\"moe_layers\":[1]";
    family.mlp = &llama4_half;
    family.turns_neighbours = family.has_plain_norms = family.is_chunked = true;
    family.windows[0] = 4;
    family.frequencies[1][0] = family.frequencies[1][1] = 0;
    family.growth = 0.7;
    family.growth_length = 4;
    family.growth_offset = 1;
    family.grows_unturned = true;
    check(&family);
    family.more = LLAMA4 "\"interleave_moe_layer_step\":2,\"use_qk_norm\":false,"
                         "\"attn_temperature_tuning\":false";
    family.has_plain_norms = false;
    family.growth = 0;
    check(&family);
}

/* Gemma 4. */

enum {
    WHOLE_DIM = 2 * TINY_HEAD_DIM, /* of heads in layers that see everything */
    INPUT = 3,
    GEMMA_EXPERT = 5,
    GEMMA_USED = 2,
};

struct gemma4 {
    bool has_inputs, has_experts;
    bool is_whole[TINY_LAYERS];
    bool shares_values; /* in whole layers */
    unsigned shared;    /* the last layers read the keys of the one before them */
};

static struct gemma4 gemma4; /* what the family below is at the moment */

static size_t gemma4_dim(unsigned layer) {
    return gemma4.is_whole[layer] ? WHOLE_DIM : TINY_HEAD_DIM;
}

static size_t gemma4_inner(unsigned layer) {
    return layer >= TINY_LAYERS - gemma4.shared ? 2 * TINY_INNER : TINY_INNER;
}

static void gemma4_add_attend(struct tiny *tiny, const struct family *family, unsigned layer) {
    size_t dim = gemma4_dim(layer);
    family_add(tiny, layer, "self_attn.q_proj.weight", TINY_HEADS * dim, TINY_HIDDEN);
    family_add(tiny, layer, "self_attn.o_proj.weight", TINY_HIDDEN, TINY_HEADS * dim);
    family_add_norm(tiny, family, layer, "self_attn.q_norm", dim);
    if (layer >= TINY_LAYERS - gemma4.shared)
        return;
    family_add(tiny, layer, "self_attn.k_proj.weight", dim, TINY_HIDDEN);
    if (!gemma4.shares_values || !gemma4.is_whole[layer])
        family_add(tiny, layer, "self_attn.v_proj.weight", dim, TINY_HIDDEN);
    family_add_norm(tiny, family, layer, "self_attn.k_norm", dim);
}

/* Of whole layers one of the four pairs (i, i + 4) turns, by 1000000^0. */
static void gemma4_turn(unsigned layer, size_t position, double *head) {
    size_t half = gemma4_dim(layer) / 2, turning = gemma4.is_whole[layer] ? 1 : half;
    for (size_t i = 0; i < turning; i++) {
        double angle = (double)position * pow(10000.0, -(double)i / (double)half);
        double a = head[i], b = head[i + half];
        head[i] = a * cos(angle) - b * sin(angle);
        head[i + half] = b * cos(angle) + a * sin(angle);
    }
}

static void gemma4_attend(struct family_state *state, unsigned layer, size_t token) {
    const struct family *family = state->family;
    static const float ones[WHOLE_DIM] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct tiny *tiny = state->tiny;
    size_t dim = gemma4_dim(layer);
    double x[TINY_HIDDEN], q[TINY_HEADS * WHOLE_DIM], out[TINY_HEADS * WHOLE_DIM], y[TINY_HIDDEN];
    double *key = state->keys[token], *value = state->values[token];
    family_input(state, layer, "input_layernorm", token, x);
    family_multiply(family_find(tiny, layer, "self_attn.q_proj.weight"), NULL, TINY_HEADS * dim,
                    TINY_HIDDEN, x, q);
    family_norm(family, family_find_norm(tiny, layer, "self_attn.q_norm"), dim, TINY_HEADS * dim,
                q);
    if (layer < TINY_LAYERS - gemma4.shared) {
        bool has_values = !gemma4.shares_values || !gemma4.is_whole[layer];
        const char *from = has_values ? "self_attn.v_proj.weight" : "self_attn.k_proj.weight";
        family_multiply(family_find(tiny, layer, "self_attn.k_proj.weight"), NULL, dim, TINY_HIDDEN,
                        x, key);
        family_multiply(family_find(tiny, layer, from), NULL, dim, TINY_HIDDEN, x, value);
        family_norm(family, family_find_norm(tiny, layer, "self_attn.k_norm"), dim, dim, key);
        family_norm_with(ones, 0, 1e-5, dim, dim, value);
        gemma4_turn(layer, token, key);
    }
    for (size_t head = 0; head < TINY_HEADS; head++) {
        const struct family_head what = {.key_count = dim, .value_count = dim, .score = 1};
        gemma4_turn(layer, token, q + head * dim);
        family_see(state, layer, token, &what, q + head * dim, out + head * dim);
    }
    family_multiply(family_find(tiny, layer, "self_attn.o_proj.weight"), NULL, TINY_HIDDEN,
                    TINY_HEADS * dim, out, y);
    family_residual(state, layer, "post_attention_layernorm", token, y);
}

static void gemma4_add_experts(struct tiny *tiny, const struct family *family, unsigned layer) {
    family_add(tiny, layer, "router.proj.weight", EXPERTS, TINY_HIDDEN);
    char name[FAMILY_NAME];
    family_name(name, layer, "router.scale", "");
    tiny_add(tiny, name, TINY_HIDDEN, 0, 0.6f, 3.0f);
    family_name(name, layer, "router.per_expert_scale", "");
    tiny_add(tiny, name, EXPERTS, 0, 0.5f, 1.0f);
    family_add(tiny, layer, "experts.gate_up_proj", EXPERTS * 2 * GEMMA_EXPERT, TINY_HIDDEN);
    family_add(tiny, layer, "experts.down_proj", EXPERTS * TINY_HIDDEN, GEMMA_EXPERT);
    family_add_norm(tiny, family, layer, "post_feedforward_layernorm_1", TINY_HIDDEN);
    family_add_norm(tiny, family, layer, "pre_feedforward_layernorm_2", TINY_HIDDEN);
    family_add_norm(tiny, family, layer, "post_feedforward_layernorm_2", TINY_HIDDEN);
}

static void gemma4_add_mlp(struct tiny *tiny, const struct family *family, unsigned layer) {
    size_t inner = gemma4_inner(layer);
    char name[FAMILY_NAME];
    family_add(tiny, layer, "mlp.gate_proj.weight", inner, TINY_HIDDEN);
    family_add(tiny, layer, "mlp.up_proj.weight", inner, TINY_HIDDEN);
    family_add(tiny, layer, "mlp.down_proj.weight", TINY_HIDDEN, inner);
    family_name(name, layer, "layer_scalar", "");
    tiny_add(tiny, name, 1, 0, 0.4f, 1.0f);
    if (gemma4.has_experts)
        gemma4_add_experts(tiny, family, layer);
    if (!gemma4.has_inputs)
        return;
    family_add(tiny, layer, "per_layer_input_gate.weight", INPUT, TINY_HIDDEN);
    family_add(tiny, layer, "per_layer_projection.weight", TINY_HIDDEN, INPUT);
    family_add_norm(tiny, family, layer, "post_per_layer_input_norm", TINY_HIDDEN);
    if (layer > 0)
        return;
    tiny_add(tiny, "model.embed_tokens_per_layer.weight", TINY_VOCABULARY, TINY_LAYERS * INPUT,
             1.0f, 0.0f);
    tiny_add(tiny, "model.per_layer_model_projection.weight", TINY_LAYERS * INPUT, TINY_HIDDEN,
             0.6f, 0.0f);
    tiny_add(tiny, "model.per_layer_projection_norm.weight", INPUT, 0, 0.6f, 1.0f);
}

/* y = W_down (gelu(W_gate x) W_up x) */
static void gelu_gated(const float *gate, const float *up, const float *down, size_t inner,
                       const double *x, double *y) {
    double g[2 * TINY_INNER], u[2 * TINY_INNER];
    family_multiply(gate, NULL, inner, TINY_HIDDEN, x, g);
    family_multiply(up, NULL, inner, TINY_HIDDEN, x, u);
    for (size_t i = 0; i < inner; i++)
        u[i] *= family_gelu_tanh(g[i]);
    family_multiply(down, NULL, TINY_HIDDEN, inner, u, y);
}

/* y = norm(y) + norm(weighted outputs of the experts of h). */
static void gemma4_experts(struct family_state *state, unsigned layer, size_t token, double *y) {
    const struct family *family = state->family;
    struct tiny *tiny = state->tiny;
    double x[TINY_HIDDEN], scores[EXPERTS], sum[TINY_HIDDEN] = {0}, out[TINY_HIDDEN], weights = 0;
    size_t chosen[GEMMA_USED];
    bool is_taken[EXPERTS] = {false};
    const float *gate_up = family_find(tiny, layer, "experts.gate_up_proj");
    const float *down = family_find(tiny, layer, "experts.down_proj");
    const float *scales = family_find(tiny, layer, "router.per_expert_scale");
    family_norm(family, family_find_norm(tiny, layer, "post_feedforward_layernorm_1"), TINY_HIDDEN,
                TINY_HIDDEN, y);
    memcpy(x, state->h[token], sizeof x);
    family_norm_with(family_find(tiny, layer, "router.scale"), 0, 1e-5, TINY_HIDDEN, TINY_HIDDEN,
                     x);
    family_multiply(family_find(tiny, layer, "router.proj.weight"), NULL, EXPERTS, TINY_HIDDEN, x,
                    scores);
    for (size_t i = 0; i < EXPERTS; i++)
        scores[i] /= sqrt((double)TINY_HIDDEN);
    family_softmax(scores, EXPERTS);
    for (size_t i = 0; i < GEMMA_USED; i++) {
        chosen[i] = family_take_largest(scores, is_taken, EXPERTS, i + 1 == GEMMA_USED);
        weights += scores[chosen[i]];
    }
    memcpy(x, state->h[token], sizeof x);
    family_norm(family, family_find_norm(tiny, layer, "pre_feedforward_layernorm_2"), TINY_HIDDEN,
                TINY_HIDDEN, x);
    for (size_t i = 0; i < GEMMA_USED; i++) {
        size_t expert = chosen[i];
        const float *gate = gate_up + expert * 2 * GEMMA_EXPERT * TINY_HIDDEN;
        gelu_gated(gate, gate + GEMMA_EXPERT * TINY_HIDDEN,
                   down + expert * TINY_HIDDEN * GEMMA_EXPERT, GEMMA_EXPERT, x, out);
        for (size_t k = 0; k < TINY_HIDDEN; k++)
            sum[k] += scores[expert] / weights * (double)scales[expert] * out[k];
    }
    family_norm(family, family_find_norm(tiny, layer, "post_feedforward_layernorm_2"), TINY_HIDDEN,
                TINY_HIDDEN, sum);
    for (size_t k = 0; k < TINY_HIDDEN; k++)
        y[k] += sum[k];
}

/* What the token brings into the layer: of its embedding, and a row of its own. */
static void gemma4_input(struct family_state *state, unsigned layer, size_t token, double *input) {
    struct tiny *tiny = state->tiny;
    uint32_t id = family_ids[token];
    double h[TINY_HIDDEN];
    const float *embed = tiny_find(tiny, "model.embed_tokens.weight")->values;
    const float *rows = tiny_find(tiny, "model.embed_tokens_per_layer.weight")->values;
    const float *project = tiny_find(tiny, "model.per_layer_model_projection.weight")->values;
    for (size_t i = 0; i < TINY_HIDDEN; i++)
        h[i] = (double)embed[id * TINY_HIDDEN + i] * state->family->embed;
    family_multiply(project + layer * INPUT * TINY_HIDDEN, NULL, INPUT, TINY_HIDDEN, h, input);
    for (size_t i = 0; i < INPUT; i++)
        input[i] /= sqrt((double)TINY_HIDDEN);
    family_norm(state->family, tiny_find(tiny, "model.per_layer_projection_norm.weight")->values,
                INPUT, INPUT, input);
    for (size_t i = 0; i < INPUT; i++)
        input[i] = (input[i] +
                    sqrt((double)INPUT) * (double)rows[(id * TINY_LAYERS + layer) * INPUT + i]) /
                   sqrt(2.0);
}

static void gemma4_mlp(struct family_state *state, unsigned layer, size_t token) {
    struct tiny *tiny = state->tiny;
    double x[TINY_HIDDEN], y[TINY_HIDDEN], input[INPUT], gate[INPUT];
    family_input(state, layer, "pre_feedforward_layernorm", token, x);
    gelu_gated(family_find(tiny, layer, "mlp.gate_proj.weight"),
               family_find(tiny, layer, "mlp.up_proj.weight"),
               family_find(tiny, layer, "mlp.down_proj.weight"), gemma4_inner(layer), x, y);
    if (gemma4.has_experts)
        gemma4_experts(state, layer, token, y);
    family_residual(state, layer, "post_feedforward_layernorm", token, y);
    if (gemma4.has_inputs) {
        gemma4_input(state, layer, token, input);
        family_multiply(family_find(tiny, layer, "per_layer_input_gate.weight"), NULL, INPUT,
                        TINY_HIDDEN, state->h[token], gate);
        for (size_t i = 0; i < INPUT; i++)
            input[i] *= family_gelu_tanh(gate[i]);
        family_multiply(family_find(tiny, layer, "per_layer_projection.weight"), NULL, TINY_HIDDEN,
                        INPUT, input, y);
        family_residual(state, layer, "post_per_layer_input_norm", token, y);
    }
    for (size_t i = 0; i < TINY_HIDDEN; i++)
        state->h[token][i] *= (double)family_find(tiny, layer, "layer_scalar")[0];
}

static const struct family_half gemma4_attend_half = {gemma4_add_attend, gemma4_attend};
static const struct family_half gemma4_mlp_half = {gemma4_add_mlp, gemma4_mlp};

#define GEMMA4                                                                                     \
    ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"proportional\","                    \
    "\"partial_rotary_factor\":0.25,\"rope_theta\":1000000.0},\"sliding_attention\":"              \
    "{\"rope_type\":\"default\",\"rope_theta\":10000.0}},\"sliding_window\":3,"                    \
    "\"hidden_activation\":\"gelu_pytorch_tanh\","

static struct family gemma4_family(void) {
    struct family family = family_llama;
    family.type = "gemma4_text";
    family.has_post_norms = family.is_gelu = true;
    family.mlp_norm = "pre_feedforward_layernorm";
    family.attend = &gemma4_attend_half;
    family.mlp = &gemma4_mlp_half;
    family.embed = sqrt((double)TINY_HIDDEN);
    return family;
}

static void gemma4_follows_its_formulas(void **state) {
    (void)state;
    struct family family = gemma4_family();
    gemma4 = (struct gemma4){.has_inputs = true, .is_whole = {false, true}};
    family.windows[0] = 3;
    family.logit_cap = 2;
    family.more = GEMMA4 "\"global_head_dim\":8,\"hidden_size_per_layer_input\":3,"
                         "\"vocab_size_per_layer_input\":12,\"final_logit_softcapping\":2.0";
    check(&family);
    family.logit_cap = 0;
    family.more = GEMMA4 "\"per_layer_config\":{\"1\":{\"head_dim\":8}},"
                         "\"hidden_size_per_layer_input\":3,\"vocab_size_per_layer_input\":12";
    check(&family);
}

/* The second layer reads the keys of the first, and its MLP is twice as wide. */
static void gemma4_layers_share_keys(void **state) {
    (void)state;
    struct family family = gemma4_family();
    gemma4 = (struct gemma4){.is_whole = {true, true}, .shared = 1};
    family.more = GEMMA4 "\"global_head_dim\":8,\"hidden_size_per_layer_input\":0,"
                         "\"layer_types\":[\"full_attention\",\"full_attention\"],"
                         "\"num_kv_shared_layers\":1,\"use_double_wide_mlp\":true";
    check(&family);
}

static void gemma4_experts_follow_their_formulas(void **state) {
    (void)state;
    struct family family = gemma4_family();
    gemma4 = (struct gemma4){.has_experts = true, .is_whole = {false, true}, .shares_values = true};
    family.windows[0] = 3;
#define GEMMA4_EXPERTS                                                                             \
    GEMMA4 "\"global_head_dim\":8,\"attention_k_eq_v\":true,\"num_global_key_value_heads\":1,"     \
           "\"enable_moe_block\":true,\"num_experts\":4,\"top_k_experts\":2,"                      \
           "\"moe_intermediate_size\":5,"
    family.more = GEMMA4_EXPERTS "\"hidden_size_per_layer_input\":0";
    check(&family);
    gemma4.has_inputs = true; /* the order of both */
    family.more = GEMMA4_EXPERTS "\"hidden_size_per_layer_input\":3,"
                                 "\"vocab_size_per_layer_input\":12";
    check(&family);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glm4_follows_its_formulas),
        cmocka_unit_test(seed_oss_follows_its_formulas),
        cmocka_unit_test(exaone4_follows_its_formulas),
        cmocka_unit_test(cohere2_follows_its_formulas),
        cmocka_unit_test(ministral3_follows_its_formulas),
        cmocka_unit_test(llama4_follows_its_formulas),
        cmocka_unit_test(gemma4_follows_its_formulas),
        cmocka_unit_test(gemma4_layers_share_keys),
        cmocka_unit_test(gemma4_experts_follow_their_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
