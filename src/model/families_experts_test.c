/* Every mixture of experts against the formulas of its published code (families_for_test.h): small
 * random models with a router and experts, one row, all its logits. Attention over a compressed
 * cache is here in the form of DeepSeek's paper with whole keys and values for each head; the
 * program keeps only what they are made of. */
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "model/families_for_test.h"

enum { EXPERTS = 8, EXPERT_INNER = 6, SHARED_INNER = 12 };

enum rule { SOFTMAX_OF_ALL, SOFTMAX_OF_CHOSEN, SIGMOID };

struct family_mixture {
    const char *module; /* where the experts are */
    const char *gate, *up, *down;
    const char *correction; /* of the scores; NULL: gate.e_score_correction_bias */
    const char *shared;     /* module of the shared expert; NULL: none */
    size_t inner, shared_inner, used;
    enum rule rule;
    bool sums_to_one, has_shared_gate;
    size_t groups, groups_used;
    double scale;
    unsigned dense; /* layers from the first on that have a plain MLP */
    double limit;   /* gpt-oss */
};

static const char *correction_of(const struct family_mixture *mixture) {
    return mixture->correction != NULL ? mixture->correction : "gate.e_score_correction_bias";
}

static float *add_part(struct tiny *tiny, unsigned layer, const char *module, const char *part,
                       size_t rows, size_t columns) {
    char name[FAMILY_NAME];
    assert_true(snprintf(name, sizeof name, "%s.%s", module, part) < FAMILY_NAME);
    return family_add(tiny, layer, name, rows, columns);
}

static const float *find_part(struct tiny *tiny, unsigned layer, const char *module,
                              const char *part) {
    char name[FAMILY_NAME];
    assert_true(snprintf(name, sizeof name, "%s.%s", module, part) < FAMILY_NAME);
    return family_find(tiny, layer, name);
}

static void add_mixture(struct tiny *tiny, const struct family *family, unsigned layer) {
    const struct family_mixture *mixture = family->mixture;
    char module[64];
    if (layer < mixture->dense) {
        family_add_mlp(tiny, family, layer);
        return;
    }
    add_part(tiny, layer, mixture->module, "gate.weight", EXPERTS, TINY_HIDDEN);
    if (mixture->rule == SIGMOID)
        add_part(tiny, layer, mixture->module, correction_of(mixture), EXPERTS, 0);
    for (unsigned expert = 0; expert < EXPERTS; expert++) {
        snprintf(module, sizeof module, "%s.experts.%u", mixture->module, expert);
        add_part(tiny, layer, module, mixture->gate, mixture->inner, TINY_HIDDEN);
        add_part(tiny, layer, module, mixture->up, mixture->inner, TINY_HIDDEN);
        add_part(tiny, layer, module, mixture->down, TINY_HIDDEN, mixture->inner);
    }
    if (mixture->shared == NULL)
        return;
    add_part(tiny, layer, mixture->shared, "gate_proj.weight", mixture->shared_inner, TINY_HIDDEN);
    add_part(tiny, layer, mixture->shared, "up_proj.weight", mixture->shared_inner, TINY_HIDDEN);
    add_part(tiny, layer, mixture->shared, "down_proj.weight", TINY_HIDDEN, mixture->shared_inner);
    if (mixture->has_shared_gate)
        add_part(tiny, layer, mixture->module, "shared_expert_gate.weight", 1, TINY_HIDDEN);
}

/* DeepSeek-V3's groups: the worth of one is the sum of its two best; experts of the others are out
 * of the question. */
static void leave_best_groups(const struct family_mixture *mixture, const double *keys,
                              bool *is_taken) {
    size_t size = EXPERTS / mixture->groups;
    double worth[EXPERTS];
    bool is_chosen[EXPERTS] = {false};
    for (size_t group = 0; group < mixture->groups; group++) {
        bool is_counted[EXPERTS] = {false};
        const double *own = keys + group * size;
        worth[group] = own[family_take_largest(own, is_counted, size, false)];
        worth[group] += own[family_take_largest(own, is_counted, size, false)];
    }
    for (size_t i = 0; i < mixture->groups_used; i++)
        family_take_largest(worth, is_chosen, mixture->groups, i + 1 == mixture->groups_used);
    for (size_t expert = 0; expert < EXPERTS; expert++)
        is_taken[expert] = !is_chosen[expert / size];
}

/* The experts of a token and their weights, from the router's outputs x. */
static void choose(const struct family_mixture *mixture, double *x, const float *correction,
                   size_t *experts, double *weights) {
    double keys[EXPERTS], sum = 0;
    bool is_taken[EXPERTS] = {false};
    if (mixture->rule == SOFTMAX_OF_ALL)
        family_softmax(x, EXPERTS);
    for (size_t i = 0; i < EXPERTS; i++) {
        if (mixture->rule == SIGMOID)
            x[i] = family_sigmoid(x[i]);
        keys[i] = x[i] + (correction != NULL ? (double)correction[i] : 0);
    }
    if (mixture->groups > 1)
        leave_best_groups(mixture, keys, is_taken);
    for (size_t i = 0; i < mixture->used; i++) {
        experts[i] = family_take_largest(keys, is_taken, EXPERTS, i + 1 == mixture->used);
        weights[i] = x[experts[i]];
    }
    if (mixture->rule == SOFTMAX_OF_CHOSEN)
        family_softmax(weights, mixture->used);
    for (size_t i = 0; i < mixture->used; i++)
        sum += weights[i];
    for (size_t i = 0; i < mixture->used; i++)
        weights[i] *= mixture->scale / (mixture->sums_to_one ? sum : 1);
}

struct expert {
    const float *gate, *up, *down;
    size_t inner;
};

/* y += share x Down (silu(Gate x) x Up x) */
static void add_expert(const struct expert *expert, double share, const double *x, double *y) {
    double g[SHARED_INNER], u[SHARED_INNER], out[TINY_HIDDEN];
    family_multiply(expert->gate, NULL, expert->inner, TINY_HIDDEN, x, g);
    family_multiply(expert->up, NULL, expert->inner, TINY_HIDDEN, x, u);
    for (size_t i = 0; i < expert->inner; i++)
        u[i] *= g[i] * family_sigmoid(g[i]);
    family_multiply(expert->down, NULL, TINY_HIDDEN, expert->inner, u, out);
    for (size_t i = 0; i < TINY_HIDDEN; i++)
        y[i] += share * out[i];
}

static void add_shared(struct family_state *state, unsigned layer, const double *x, double *y) {
    const struct family_mixture *mixture = state->family->mixture;
    struct tiny *tiny = state->tiny;
    double share = 1;
    if (mixture->shared == NULL)
        return;
    if (mixture->has_shared_gate) {
        const float *gate = find_part(tiny, layer, mixture->module, "shared_expert_gate.weight");
        family_multiply(gate, NULL, 1, TINY_HIDDEN, x, &share);
        share = family_sigmoid(share);
    }
    const struct expert expert = {
        .gate = find_part(tiny, layer, mixture->shared, "gate_proj.weight"),
        .up = find_part(tiny, layer, mixture->shared, "up_proj.weight"),
        .down = find_part(tiny, layer, mixture->shared, "down_proj.weight"),
        .inner = mixture->shared_inner,
    };
    add_expert(&expert, share, x, y);
}

static void mixture_layer(struct family_state *state, unsigned layer, size_t token) {
    const struct family_mixture *mixture = state->family->mixture;
    struct tiny *tiny = state->tiny;
    double x[TINY_HIDDEN], scores[EXPERTS], weights[EXPERTS], y[TINY_HIDDEN] = {0};
    const float *correction = NULL;
    size_t experts[EXPERTS];
    if (layer < mixture->dense) {
        family_mlp(state, layer, token);
        return;
    }
    family_input(state, layer, "post_attention_layernorm", token, x);
    family_multiply(find_part(tiny, layer, mixture->module, "gate.weight"), NULL, EXPERTS,
                    TINY_HIDDEN, x, scores);
    if (mixture->rule == SIGMOID)
        correction = find_part(tiny, layer, mixture->module, correction_of(mixture));
    choose(mixture, scores, correction, experts, weights);
    for (size_t i = 0; i < mixture->used; i++) {
        char module[64];
        snprintf(module, sizeof module, "%s.experts.%zu", mixture->module, experts[i]);
        const struct expert expert = {
            .gate = find_part(tiny, layer, module, mixture->gate),
            .up = find_part(tiny, layer, module, mixture->up),
            .down = find_part(tiny, layer, module, mixture->down),
            .inner = mixture->inner,
        };
        add_expert(&expert, weights[i], x, y);
    }
    add_shared(state, layer, x, y);
    family_residual(state, layer, "", token, y);
}

static const struct family_half mixture_half = {add_mixture, mixture_layer};

/* gpt-oss: stacks [experts, inputs, outputs], gate and up alternating, everything with a bias. */

static void add_gpt_oss(struct tiny *tiny, const struct family *family, unsigned layer) {
    (void)family;
    family_add(tiny, layer, "mlp.router.weight", EXPERTS, TINY_HIDDEN);
    family_add(tiny, layer, "mlp.router.bias", EXPERTS, 0);
    family_add(tiny, layer, "mlp.experts.gate_up_proj", EXPERTS * TINY_HIDDEN, 2 * TINY_INNER);
    family_add(tiny, layer, "mlp.experts.gate_up_proj_bias", EXPERTS, 2 * TINY_INNER);
    family_add(tiny, layer, "mlp.experts.down_proj", EXPERTS * TINY_INNER, TINY_HIDDEN);
    family_add(tiny, layer, "mlp.experts.down_proj_bias", EXPERTS, TINY_HIDDEN);
}

/* y = x W + bias, W [inputs, outputs] */
static void multiply_turned(const float *w, const float *bias, size_t inputs, size_t outputs,
                            const double *x, double *y) {
    for (size_t o = 0; o < outputs; o++) {
        y[o] = (double)bias[o];
        for (size_t i = 0; i < inputs; i++)
            y[o] += x[i] * (double)w[i * outputs + o];
    }
}

static void gpt_oss_layer(struct family_state *state, unsigned layer, size_t token) {
    const struct family_mixture *mixture = state->family->mixture;
    struct tiny *tiny = state->tiny;
    double x[TINY_HIDDEN], scores[EXPERTS], weights[EXPERTS], y[TINY_HIDDEN] = {0};
    size_t experts[EXPERTS];
    family_input(state, layer, "post_attention_layernorm", token, x);
    family_multiply(family_find(tiny, layer, "mlp.router.weight"),
                    family_find(tiny, layer, "mlp.router.bias"), EXPERTS, TINY_HIDDEN, x, scores);
    choose(mixture, scores, NULL, experts, weights);
    const float *gate_up = family_find(tiny, layer, "mlp.experts.gate_up_proj");
    const float *gate_up_bias = family_find(tiny, layer, "mlp.experts.gate_up_proj_bias");
    const float *down = family_find(tiny, layer, "mlp.experts.down_proj");
    const float *down_bias = family_find(tiny, layer, "mlp.experts.down_proj_bias");
    for (size_t i = 0; i < mixture->used; i++) {
        double both[2 * TINY_INNER], inner[TINY_INNER], out[TINY_HIDDEN];
        size_t expert = experts[i];
        multiply_turned(gate_up + expert * TINY_HIDDEN * 2 * TINY_INNER,
                        gate_up_bias + expert * 2 * TINY_INNER, TINY_HIDDEN, 2 * TINY_INNER, x,
                        both);
        for (size_t k = 0; k < TINY_INNER; k++) {
            double gate = fmin(both[2 * k], mixture->limit);
            double up = fmin(fmax(both[2 * k + 1], -mixture->limit), mixture->limit);
            inner[k] = (up + 1) * gate * family_sigmoid(1.702 * gate);
        }
        multiply_turned(down + expert * TINY_INNER * TINY_HIDDEN, down_bias + expert * TINY_HIDDEN,
                        TINY_INNER, TINY_HIDDEN, inner, out);
        for (size_t k = 0; k < TINY_HIDDEN; k++)
            y[k] += weights[i] * out[k];
    }
    family_residual(state, layer, "", token, y);
}

static const struct family_half gpt_oss_half = {add_gpt_oss, gpt_oss_layer};

/* DeepSeek-V3's attention. */

enum { Q_RANK = 5, KV_RANK = 6, NOPE = 4, ROPE = 4, VALUE = 3, WHOLE = NOPE + ROPE };

/* Small compressed vectors, so that the epsilon of their norms tells. */
static void shrink(float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] /= 16;
}

static bool has_low_queries(const struct family *family) {
    return strstr(family->more, "q_lora_rank\":5") != NULL;
}

static void add_latent(struct tiny *tiny, const struct family *family, unsigned layer) {
    float *values =
        family_add(tiny, layer, "self_attn.kv_a_proj_with_mqa.weight", KV_RANK + ROPE, TINY_HIDDEN);
    shrink(values, (size_t)KV_RANK * TINY_HIDDEN);
    family_add_norm(tiny, family, layer, "self_attn.kv_a_layernorm", KV_RANK);
    family_add(tiny, layer, "self_attn.kv_b_proj.weight", TINY_HEADS * (NOPE + VALUE), KV_RANK);
    family_add(tiny, layer, "self_attn.o_proj.weight", TINY_HIDDEN, TINY_HEADS * VALUE);
    if (!has_low_queries(family)) {
        family_add(tiny, layer, "self_attn.q_proj.weight", TINY_HEADS * WHOLE, TINY_HIDDEN);
        return;
    }
    values = family_add(tiny, layer, "self_attn.q_a_proj.weight", Q_RANK, TINY_HIDDEN);
    shrink(values, (size_t)Q_RANK * TINY_HIDDEN);
    family_add_norm(tiny, family, layer, "self_attn.q_a_layernorm", Q_RANK);
    family_add(tiny, layer, "self_attn.q_b_proj.weight", TINY_HEADS * WHOLE, Q_RANK);
}

/* Neighbours are pairs: they are brought to lie half of the features apart, and then turned; with
 * rope_interleave false they lie so already. */
static void turn_neighbours(const struct family *family, unsigned layer, size_t position,
                            double *x) {
    double apart[ROPE];
    bool is_apart = strstr(family->more, "rope_interleave\":false") != NULL;
    for (size_t i = 0; i < ROPE; i++)
        apart[i] = is_apart ? x[i] : x[i % (ROPE / 2) * 2 + i / (ROPE / 2)];
    family_turn(family, layer, position, apart);
    memcpy(x, apart, sizeof apart);
}

static void latent_queries(struct family_state *state, unsigned layer, size_t token,
                           const double *x, double *q) {
    struct tiny *tiny = state->tiny;
    double low[Q_RANK];
    if (has_low_queries(state->family)) {
        family_multiply(family_find(tiny, layer, "self_attn.q_a_proj.weight"), NULL, Q_RANK,
                        TINY_HIDDEN, x, low);
        family_norm_with(family_find_norm(tiny, layer, "self_attn.q_a_layernorm"), 0, 1e-6, Q_RANK,
                         Q_RANK, low);
        family_multiply(family_find(tiny, layer, "self_attn.q_b_proj.weight"), NULL,
                        TINY_HEADS * WHOLE, Q_RANK, low, q);
    } else {
        family_multiply(family_find(tiny, layer, "self_attn.q_proj.weight"), NULL,
                        TINY_HEADS * WHOLE, TINY_HIDDEN, x, q);
    }
    for (size_t head = 0; head < TINY_HEADS; head++)
        turn_neighbours(state->family, layer, token, q + head * WHOLE + NOPE);
}

/* state->keys: for each head NOPE features of its own and the ROPE that all have. */
static void latent_keys(struct family_state *state, unsigned layer, size_t token, const double *x) {
    struct tiny *tiny = state->tiny;
    double low[KV_RANK + ROPE], both[TINY_HEADS * (NOPE + VALUE)];
    family_multiply(family_find(tiny, layer, "self_attn.kv_a_proj_with_mqa.weight"), NULL,
                    KV_RANK + ROPE, TINY_HIDDEN, x, low);
    family_norm_with(family_find_norm(tiny, layer, "self_attn.kv_a_layernorm"), 0, 1e-6, KV_RANK,
                     KV_RANK, low);
    turn_neighbours(state->family, layer, token, low + KV_RANK);
    family_multiply(family_find(tiny, layer, "self_attn.kv_b_proj.weight"), NULL,
                    TINY_HEADS * (NOPE + VALUE), KV_RANK, low, both);
    for (size_t head = 0; head < TINY_HEADS; head++) {
        const double *own = both + head * (NOPE + VALUE);
        memcpy(state->keys[token] + head * WHOLE, own, NOPE * sizeof *own);
        memcpy(state->keys[token] + head * WHOLE + NOPE, low + KV_RANK, ROPE * sizeof *low);
        memcpy(state->values[token] + head * VALUE, own + NOPE, VALUE * sizeof *own);
    }
}

static void latent_attend(struct family_state *state, unsigned layer, size_t token) {
    double x[TINY_HIDDEN], q[TINY_HEADS * WHOLE], out[TINY_HEADS * VALUE], y[TINY_HIDDEN];
    family_input(state, layer, "input_layernorm", token, x);
    latent_queries(state, layer, token, x, q);
    latent_keys(state, layer, token, x);
    for (size_t head = 0; head < TINY_HEADS; head++) {
        const struct family_head what = {.key_count = WHOLE,
                                         .key_first = head * WHOLE,
                                         .value_count = VALUE,
                                         .value_first = head * VALUE,
                                         .score = state->family->score};
        family_see(state, layer, token, &what, q + head * WHOLE, out + head * VALUE);
    }
    family_multiply(family_find(state->tiny, layer, "self_attn.o_proj.weight"), NULL, TINY_HIDDEN,
                    TINY_HEADS * VALUE, out, y);
    family_residual(state, layer, "", token, y);
}

static const struct family_half latent_half = {add_latent, latent_attend};

/* The families. */

static const struct family_mixture plain_mixture = {
    .module = "mlp",
    .gate = "gate_proj.weight",
    .up = "up_proj.weight",
    .down = "down_proj.weight",
    .inner = EXPERT_INNER,
    .used = 3,
    .groups = 1,
    .scale = 1,
};

static void check(const struct family *family) {
    struct tiny tiny;
    double right[FAMILY_TOKENS][TINY_VOCABULARY];
    family_check_folder(&tiny, family, right);
    tiny_end(&tiny);
}

/* The softmax over those chosen is that over all, divided by their sum. The experts' inner size is
 * intermediate_size. */
static void mixtral_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    struct family_mixture mixture = plain_mixture;
    mixture.module = "block_sparse_moe";
    mixture.gate = "w1.weight";
    mixture.up = "w3.weight";
    mixture.down = "w2.weight";
    mixture.inner = TINY_INNER;
    mixture.used = 2;
    mixture.sums_to_one = true;
    family.type = "mixtral";
    family.more = TIED ",\"num_local_experts\":8,\"num_experts_per_tok\":2,\"sliding_window\":4";
    family.windows[0] = family.windows[1] = 4;
    family.mixture = &mixture;
    family.mlp = &mixture_half;
    check(&family);
}

#define QWEN_MOE TIED ",\"num_experts\":8,\"num_experts_per_tok\":3,\"moe_intermediate_size\":6"

static void qwen2_moe_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    struct family_mixture mixture = plain_mixture;
    mixture.shared = "mlp.shared_expert";
    mixture.shared_inner = 5;
    mixture.has_shared_gate = true;
    family.type = "qwen2_moe";
    family.biases = "qkv";
    family.mixture = &mixture;
    family.mlp = &mixture_half;
    family.more = QWEN_MOE ",\"shared_expert_intermediate_size\":5";
    check(&family); /* norm_topk_prob is false in the class */
    family.more = QWEN_MOE ",\"shared_expert_intermediate_size\":5,\"norm_topk_prob\":true,"
                           "\"mlp_only_layers\":[0]";
    mixture.sums_to_one = true;
    mixture.dense = 1;
    check(&family);
}

static void qwen3_moe_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    struct family_mixture mixture = plain_mixture;
    family.type = "qwen3_moe";
    family.has_head_norms = true;
    family.mixture = &mixture;
    family.mlp = &mixture_half;
    family.more = QWEN_MOE ",\"norm_topk_prob\":false,\"decoder_sparse_step\":1";
    check(&family);
    family.more = QWEN_MOE ",\"norm_topk_prob\":true,\"decoder_sparse_step\":2";
    mixture.sums_to_one = true;
    mixture.dense = 1; /* the second layer is a multiple of two */
    check(&family);
}

#define YARN                                                                                       \
    "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,\"beta_fast\":0.05,"                  \
    "\"beta_slow\":0.001,\"original_max_position_embeddings\":16"

/* A small limit, so that both gate and up are clipped. */
static void gpt_oss_follows_its_formulas(void **state) {
    (void)state;
    const struct family_yarn yarn = {4, 16, 0.05, 0.001, false};
    struct family family = family_llama;
    struct family_mixture mixture = plain_mixture;
    mixture.inner = TINY_INNER;
    mixture.rule = SOFTMAX_OF_CHOSEN;
    mixture.limit = 0.75;
    family.type = "gpt_oss";
    family.biases = "qkvo";
    family.has_sinks = true;
    family.mixture = &mixture;
    family.mlp = &gpt_oss_half;
    family.windows[0] = 3; /* every other layer, the first one included */
    family.turn_factor = 0.1 * log(4.0) + 1;
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        family_yarn_frequencies(&yarn, 10000, TINY_HEAD_DIM, family.frequencies[layer]);
    family.more = TIED ",\"num_local_experts\":8,\"num_experts_per_tok\":3,\"sliding_window\":3,"
                       "\"swiglu_limit\":0.75," YARN ",\"truncate\":false}";
    check(&family);
    family.windows[0] = 0;
    family.windows[1] = 2;
    mixture.limit = 7;
    family.more = TIED ",\"num_local_experts\":8,\"num_experts_per_tok\":3,\"sliding_window\":2,"
                       "\"layer_types\":[\"full_attention\",\"sliding_attention\"]," YARN
                       ",\"truncate\":false}";
    check(&family);
}

#define LATENT                                                                                     \
    TIED ",\"kv_lora_rank\":6,\"qk_nope_head_dim\":4,\"qk_rope_head_dim\":4,\"v_head_dim\":3,"     \
         "\"n_routed_experts\":8,\"num_experts_per_tok\":3,\"moe_intermediate_size\":6,"           \
         "\"norm_topk_prob\":true,"

/* Scores are divided by sqrt(8); with mscale_all_dim they grow by m^2, m = 0.1 mscale_all_dim
 * ln(factor) + 1, and cosines by (0.1 mscale ln(factor) + 1) / m. */
static void deepseek_v3_follows_its_formulas(void **state) {
    (void)state;
    const struct family_yarn yarn = {4, 16, 0.05, 0.001, true};
    struct family family = family_llama;
    struct family_mixture mixture = plain_mixture;
    double grown = 0.1 * 1.3 * log(4.0) + 1;
    mixture.shared = "mlp.shared_experts";
    mixture.shared_inner = 2 * EXPERT_INNER;
    mixture.rule = SIGMOID;
    mixture.sums_to_one = true;
    mixture.groups = 4;
    mixture.groups_used = 2;
    mixture.scale = 2.5;
    mixture.dense = 1;
    family.type = "deepseek_v3";
    family.attend = &latent_half;
    family.mixture = &mixture;
    family.mlp = &mixture_half;
    family.score = 1 / sqrt(8.0);
    family.more = LATENT "\"q_lora_rank\":5,\"n_group\":4,\"topk_group\":2,"
                         "\"routed_scaling_factor\":2.5,\"first_k_dense_replace\":1,"
                         "\"n_shared_experts\":2";
    check(&family);
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        family_yarn_frequencies(&yarn, 10000, ROPE, family.frequencies[layer]);
    family.turn_factor = (0.1 * 0.7 * log(4.0) + 1) / grown;
    family.score = grown * grown / sqrt(8.0);
    mixture.shared_inner = EXPERT_INNER;
    mixture.groups = 1;
    mixture.scale = 0.5;
    mixture.dense = 0;
    family.more = LATENT "\"q_lora_rank\":null,\"n_group\":1,\"topk_group\":1,"
                         "\"routed_scaling_factor\":0.5,\"first_k_dense_replace\":0,"
                         "\"n_shared_experts\":1,\"rope_interleave\":false," YARN
                         ",\"mscale\":0.7,\"mscale_all_dim\":1.3}";
    check(&family);
}

#define GLM                                                                                        \
    TIED ",\"n_routed_experts\":8,\"num_experts_per_tok\":3,\"moe_intermediate_size\":6,"          \
         "\"n_shared_experts\":1,\"n_group\":1,\"topk_group\":1,\"routed_scaling_factor\":1.5,"    \
         "\"first_k_dense_replace\":1"

static void glm4_moe_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    struct family_mixture mixture = plain_mixture;
    mixture.shared = "mlp.shared_experts";
    mixture.shared_inner = EXPERT_INNER;
    mixture.rule = SIGMOID;
    mixture.sums_to_one = true;
    mixture.scale = 1.5;
    mixture.dense = 1;
    family.type = "glm4_moe";
    family.mixture = &mixture;
    family.mlp = &mixture_half;
    family.rotated = 2; /* of heads of 4 */
    family.biases = "qkv";
    family.has_head_norms = true;
    family.more = GLM ",\"attention_bias\":true,\"use_qk_norm\":true";
    check(&family); /* norm_topk_prob is true in the class, and half of a head rotates */
    mixture.sums_to_one = false;
    family.rotated = TINY_HEAD_DIM;
    family.biases = NULL;
    family.has_head_norms = false;
    family.more = GLM ",\"attention_bias\":false,\"use_qk_norm\":false,"
                      "\"partial_rotary_factor\":1.0,\"norm_topk_prob\":false";
    check(&family);
}

/* Norms of q and k over all heads; half of each head rotates. */
static void minimax_m2_follows_its_formulas(void **state) {
    (void)state;
    struct family family = family_llama;
    struct family_mixture mixture = plain_mixture;
    mixture.module = "block_sparse_moe";
    mixture.correction = "e_score_correction_bias";
    mixture.gate = "w1.weight";
    mixture.up = "w3.weight";
    mixture.down = "w2.weight";
    mixture.inner = TINY_INNER;
    mixture.used = 2;
    mixture.rule = SIGMOID;
    mixture.sums_to_one = true;
    family.type = "minimax_m2";
    family.more = TIED ",\"num_local_experts\":8,\"num_experts_per_tok\":2,\"rotary_dim\":2";
    family.has_head_norms = family.has_whole_norms = true;
    family.rotated = 2;
    family.mixture = &mixture;
    family.mlp = &mixture_half;
    check(&family);
    family.more = TIED ",\"num_local_experts\":8,\"num_experts_per_tok\":2,"
                       "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000.0,"
                       "\"partial_rotary_factor\":0.5}";
    check(&family);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixtral_follows_its_formulas),
        cmocka_unit_test(qwen2_moe_follows_its_formulas),
        cmocka_unit_test(qwen3_moe_follows_its_formulas),
        cmocka_unit_test(gpt_oss_follows_its_formulas),
        cmocka_unit_test(deepseek_v3_follows_its_formulas),
        cmocka_unit_test(glm4_moe_follows_its_formulas),
        cmocka_unit_test(minimax_m2_follows_its_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
