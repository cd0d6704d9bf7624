/* Families with gated delta networks against the formulas of their published code
 * (families_for_test.h): one layer with such a network and one with attention behind gates, one
 * row, all its logits. Experts beside them are as in families_experts_test.c. */
#include "model/model.h"
#include "model/step.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "model/families_for_test.h"

enum {
    KEY_HEADS = 2,
    GROUP = 2, /* value heads of a key head */
    KEY_DIM = 3,
    VALUE_DIM = 5,
    HEADS = KEY_HEADS * GROUP,
    KEYS = KEY_HEADS * KEY_DIM,
    VALUES = HEADS * VALUE_DIM,
    CHANNELS = 2 * KEYS + VALUES,
    KERNEL_MAX = 4,
};

/* What the family says of its networks; the numbers of the layer that is computed. */
struct network {
    bool is_together; /* q, k, v and z of a key head lie together, as b and a do */
    size_t kernel;
    double inputs[FAMILY_TOKENS][CHANNELS]; /* of the convolution */
    double state[HEADS][KEY_DIM][VALUE_DIM];
};
static struct network network;

static void add_network(struct tiny *tiny, unsigned layer) {
    if (network.is_together) {
        family_add(tiny, layer, "linear_attn.in_proj_qkvz.weight", CHANNELS + VALUES, TINY_HIDDEN);
        family_add(tiny, layer, "linear_attn.in_proj_ba.weight", 2 * (size_t)HEADS, TINY_HIDDEN);
    } else {
        family_add(tiny, layer, "linear_attn.in_proj_qkv.weight", CHANNELS, TINY_HIDDEN);
        family_add(tiny, layer, "linear_attn.in_proj_z.weight", VALUES, TINY_HIDDEN);
        family_add(tiny, layer, "linear_attn.in_proj_b.weight", HEADS, TINY_HIDDEN);
        family_add(tiny, layer, "linear_attn.in_proj_a.weight", HEADS, TINY_HIDDEN);
    }
    family_add(tiny, layer, "linear_attn.conv1d.weight", CHANNELS, network.kernel);
    family_add(tiny, layer, "linear_attn.A_log", HEADS, 0);
    family_add(tiny, layer, "linear_attn.dt_bias", HEADS, 0);
    family_add(tiny, layer, "linear_attn.norm.weight", VALUE_DIM, 0);
    family_add(tiny, layer, "linear_attn.out_proj.weight", TINY_HIDDEN, VALUES);
}

/* Inputs of the convolution, z, b and a of a token, each in the order of the heads. */
static void project(struct tiny *tiny, unsigned layer, const double *x, double *inputs, double *z,
                    double *ba) {
    double all[CHANNELS + VALUES], both[2 * HEADS];
    const size_t part = 2 * KEY_DIM + 2 * GROUP * VALUE_DIM, values = GROUP * VALUE_DIM;
    if (!network.is_together) {
        family_multiply(family_find(tiny, layer, "linear_attn.in_proj_qkv.weight"), NULL, CHANNELS,
                        TINY_HIDDEN, x, inputs);
        family_multiply(family_find(tiny, layer, "linear_attn.in_proj_z.weight"), NULL, VALUES,
                        TINY_HIDDEN, x, z);
        family_multiply(family_find(tiny, layer, "linear_attn.in_proj_b.weight"), NULL, HEADS,
                        TINY_HIDDEN, x, ba);
        family_multiply(family_find(tiny, layer, "linear_attn.in_proj_a.weight"), NULL, HEADS,
                        TINY_HIDDEN, x, ba + HEADS);
        return;
    }
    family_multiply(family_find(tiny, layer, "linear_attn.in_proj_qkvz.weight"), NULL,
                    CHANNELS + VALUES, TINY_HIDDEN, x, all);
    family_multiply(family_find(tiny, layer, "linear_attn.in_proj_ba.weight"), NULL,
                    2 * (size_t)HEADS, TINY_HIDDEN, x, both);
    for (size_t head = 0; head < KEY_HEADS; head++) {
        const double *from = all + head * part;
        memcpy(inputs + head * KEY_DIM, from, KEY_DIM * sizeof *from);
        memcpy(inputs + KEYS + head * KEY_DIM, from + KEY_DIM, KEY_DIM * sizeof *from);
        memcpy(inputs + 2 * (size_t)KEYS + head * values, from + 2 * KEY_DIM,
               values * sizeof *from);
        memcpy(z + head * values, from + 2 * KEY_DIM + values, values * sizeof *from);
        memcpy(ba + head * GROUP, both + head * 2 * GROUP, GROUP * sizeof *from);
        memcpy(ba + HEADS + head * GROUP, both + head * 2 * GROUP + GROUP, GROUP * sizeof *from);
    }
}

/* Of a depthwise causal convolution and SiLU. */
static void convolve(struct tiny *tiny, unsigned layer, size_t token, double *out) {
    const float *taps = family_find(tiny, layer, "linear_attn.conv1d.weight");
    for (size_t channel = 0; channel < CHANNELS; channel++) {
        double sum = 0;
        for (size_t back = 0; back < network.kernel && back <= token; back++)
            sum += network.inputs[token - back][channel] *
                   (double)taps[channel * network.kernel + network.kernel - 1 - back];
        out[channel] = sum * family_sigmoid(sum);
    }
}

static void make_unit(double *x, double scale) {
    double sum = 0;
    for (size_t i = 0; i < KEY_DIM; i++)
        sum += x[i] * x[i];
    for (size_t i = 0; i < KEY_DIM; i++)
        x[i] *= scale / sqrt(sum + 1e-6);
}

/* The delta rule with decay g and share beta: out = S' q. k lies behind the q of all heads. */
static void recur(double (*state)[VALUE_DIM], const double *q, const double *v, double g,
                  double beta, double *out) {
    const double *k = q + KEYS;
    for (size_t c = 0; c < VALUE_DIM; c++) {
        double read = 0;
        for (size_t d = 0; d < KEY_DIM; d++) {
            state[d][c] *= exp(g);
            read += state[d][c] * k[d];
        }
        out[c] = 0;
        for (size_t d = 0; d < KEY_DIM; d++) {
            state[d][c] += k[d] * beta * (v[c] - read);
            out[c] += state[d][c] * q[d];
        }
    }
}

static void compute_network(struct family_state *state, unsigned layer, size_t token) {
    struct tiny *tiny = state->tiny;
    double x[TINY_HIDDEN], z[VALUES], ba[2 * HEADS], mixed[CHANNELS], out[VALUES], y[TINY_HIDDEN];
    const float *logs = family_find(tiny, layer, "linear_attn.A_log");
    const float *biases = family_find(tiny, layer, "linear_attn.dt_bias");
    if (token == 0)
        memset(network.state, 0, sizeof network.state);
    family_input(state, layer, "input_layernorm", token, x);
    project(tiny, layer, x, network.inputs[token], z, ba);
    convolve(tiny, layer, token, mixed);
    for (size_t head = 0; head < KEY_HEADS; head++) {
        make_unit(mixed + head * KEY_DIM, 1 / sqrt((double)KEY_DIM));
        make_unit(mixed + KEYS + head * KEY_DIM, 1);
    }
    for (size_t head = 0; head < HEADS; head++) {
        const double *key = mixed + head / GROUP * KEY_DIM;
        double *heads_out = out + head * VALUE_DIM;
        double a = ba[HEADS + head] + (double)biases[head];
        recur(network.state[head], key, mixed + 2 * KEYS + head * VALUE_DIM,
              -exp((double)logs[head]) * log1p(exp(a)), family_sigmoid(ba[head]), heads_out);
        family_norm_with(family_find(tiny, layer, "linear_attn.norm.weight"), 0, 1e-5, VALUE_DIM,
                         VALUE_DIM, heads_out);
        for (size_t c = 0; c < VALUE_DIM; c++)
            heads_out[c] *= z[head * VALUE_DIM + c] * family_sigmoid(z[head * VALUE_DIM + c]);
    }
    family_multiply(family_find(tiny, layer, "linear_attn.out_proj.weight"), NULL, TINY_HIDDEN,
                    VALUES, out, y);
    family_residual(state, layer, "", token, y);
}

/* Attention whose queries have gates behind them, head by head. */

static void add_gated(struct tiny *tiny, const struct family *family, unsigned layer) {
    family_add(tiny, layer, "self_attn.q_proj.weight", 2 * (size_t)FAMILY_QUERY, TINY_HIDDEN);
    family_add(tiny, layer, "self_attn.k_proj.weight", FAMILY_KEY, TINY_HIDDEN);
    family_add(tiny, layer, "self_attn.v_proj.weight", FAMILY_KEY, TINY_HIDDEN);
    family_add(tiny, layer, "self_attn.o_proj.weight", TINY_HIDDEN, FAMILY_QUERY);
    if (family_has_bias(family, 'q')) {
        family_add(tiny, layer, "self_attn.q_proj.bias", 2 * (size_t)FAMILY_QUERY, 0);
        family_add(tiny, layer, "self_attn.k_proj.bias", FAMILY_KEY, 0);
        family_add(tiny, layer, "self_attn.v_proj.bias", FAMILY_KEY, 0);
        family_add(tiny, layer, "self_attn.o_proj.bias", TINY_HIDDEN, 0);
    }
    family_add_norm(tiny, family, layer, "self_attn.q_norm", TINY_HEAD_DIM);
    family_add_norm(tiny, family, layer, "self_attn.k_norm", TINY_HEAD_DIM);
}

static void multiply_with(struct family_state *state, unsigned layer, char part, size_t rows,
                          const double *x, double *y) {
    char matrix[40], bias[40];
    snprintf(matrix, sizeof matrix, "self_attn.%c_proj.weight", part);
    snprintf(bias, sizeof bias, "self_attn.%c_proj.bias", part);
    bool has_bias = family_has_bias(state->family, part);
    size_t columns = part == 'o' ? FAMILY_QUERY : TINY_HIDDEN;
    family_multiply(family_find(state->tiny, layer, matrix),
                    has_bias ? family_find(state->tiny, layer, bias) : NULL, rows, columns, x, y);
}

static void compute_gated(struct family_state *state, unsigned layer, size_t token) {
    const struct family *family = state->family;
    double x[TINY_HIDDEN], both[2 * FAMILY_QUERY], out[FAMILY_QUERY], y[TINY_HIDDEN];
    double *key = state->keys[token];
    family_input(state, layer, "input_layernorm", token, x);
    multiply_with(state, layer, 'q', 2 * (size_t)FAMILY_QUERY, x, both);
    multiply_with(state, layer, 'k', FAMILY_KEY, x, key);
    multiply_with(state, layer, 'v', FAMILY_KEY, x, state->values[token]);
    family_norm(family, family_find_norm(state->tiny, layer, "self_attn.k_norm"), TINY_HEAD_DIM,
                FAMILY_KEY, key);
    family_turn(family, layer, token, key);
    for (size_t head = 0; head < TINY_HEADS; head++) {
        double *q = both + head * 2 * TINY_HEAD_DIM, *part = out + head * TINY_HEAD_DIM;
        struct family_head what = {
            .key_count = TINY_HEAD_DIM, .value_count = TINY_HEAD_DIM, .score = family->score};
        family_norm(family, family_find_norm(state->tiny, layer, "self_attn.q_norm"), TINY_HEAD_DIM,
                    TINY_HEAD_DIM, q);
        family_turn(family, layer, token, q);
        family_see(state, layer, token, &what, q, part);
        for (size_t d = 0; d < TINY_HEAD_DIM; d++)
            part[d] *= family_sigmoid(q[TINY_HEAD_DIM + d]);
    }
    multiply_with(state, layer, 'o', TINY_HIDDEN, out, y);
    family_residual(state, layer, "", token, y);
}

/* The first layer has a network, the second one attention. */

static void add_half(struct tiny *tiny, const struct family *family, unsigned layer) {
    if (layer == 0)
        add_network(tiny, layer);
    else
        add_gated(tiny, family, layer);
}

static void compute_half(struct family_state *state, unsigned layer, size_t token) {
    if (layer == 0)
        compute_network(state, layer, token);
    else
        compute_gated(state, layer, token);
}

static const struct family_half hybrid_half = {add_half, compute_half};

/* Numbers that 16 tokens more take in a step. A network has the inputs of its convolution, z, b, a
 * and its outputs once, however they lie in matrices. */
static void check_step(const char *path, size_t experts) {
    enum { QUERY = TINY_HEADS * TINY_HEAD_DIM, KEY = TINY_KV_HEADS * TINY_HEAD_DIM };
    const size_t embedding = TINY_HIDDEN; /* in the file */
    struct model *model = tiny_open(path);
    size_t stream = 3 * (size_t)TINY_HIDDEN, attention = 2 * QUERY + 2 * KEY, gates = 3 * QUERY;
    size_t mlp = experts > 0 ? experts : 2 * (size_t)TINY_INNER, angles = 2;
    size_t delta = CHANNELS + VALUES + 2 * HEADS + VALUES;
    size_t floats = stream + attention + gates + mlp + angles + delta;
    size_t more = (size_t)(step_bytes(model, 32, 1) - step_bytes(model, 16, 1));
    assert_int_equal(more, 16 * (floats * sizeof(float) + embedding * sizeof(float)));
    model_close(model);
}

/* experts: numbers that these take for a token. */
static void check(const struct family *family, size_t experts) {
    struct tiny tiny;
    double right[FAMILY_TOKENS][TINY_VOCABULARY];
    family_check_folder(&tiny, family, right);
    check_step(tiny.folder, experts);
    tiny_end(&tiny);
}

static struct family hybrid_family(const char *type, const char *more) {
    struct family family = family_llama;
    family.type = type;
    family.more = more;
    family.attend = &hybrid_half;
    family.norm_offset = 1;
    family.rotated = 2;
    return family;
}

#define NETWORK                                                                                    \
    TIED ",\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,\"linear_key_head_dim\":3,"     \
         "\"linear_value_head_dim\":5"
#define ROPE                                                                                       \
    "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000.0,"                       \
    "\"partial_rotary_factor\":0.5"

static void qwen3_next_follows_its_formulas(void **state) {
    (void)state;
    network = (struct network){.is_together = true, .kernel = 4};
    struct family family = hybrid_family(
        "qwen3_next", NETWORK ",\"full_attention_interval\":2,\"num_experts\":4,"
                              "\"num_experts_per_tok\":2,\"moe_intermediate_size\":6,"
                              "\"shared_expert_intermediate_size\":6,\"mlp_only_layers\":[0,1],"
                              "\"partial_rotary_factor\":0.5");
    /* Plain layers; the router's and two chosen, one expert's inputs, outputs, gate and up, and the
     * list of its tokens with their weights. */
    check(&family, 2 * TINY_INNER + 4 + 2 * 2 + 2 * TINY_HIDDEN + 2 * 6 + 2);
}

static void qwen3_5_follows_its_formulas(void **state) {
    (void)state;
    network = (struct network){.kernel = 3};
    struct family family = hybrid_family(
        "qwen3_5_text", NETWORK ",\"linear_conv_kernel_dim\":3,\"attention_bias\":true,"
                                "\"layer_types\":[\"linear_attention\",\"full_attention\"]," ROPE
                                ",\"mrope_section\":[1,0,0],\"mrope_interleaved\":true}");
    family.biases = "qkvo";
    check(&family, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3_next_follows_its_formulas),
        cmocka_unit_test(qwen3_5_follows_its_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
