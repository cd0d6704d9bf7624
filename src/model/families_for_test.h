/* For tests alone: a plain forward pass in double, written from the formulas of the published code
 * (transformers' modeling_*.py), and its comparison with the program. It knows nothing of the
 * program but the names of tensors in folders; what a family is, each struct family says for
 * itself. Include it from *_test.c, after <cmocka.h>.
 *
 * Here are the parts that dense families and mixtures share: the residual stream, norms, rotation,
 * attention with whole keys and values, the gated MLP, and the head. */
#ifndef SLUICE_MODEL_FAMILIES_FOR_TEST_H
#define SLUICE_MODEL_FAMILIES_FOR_TEST_H

#include "model/tiny_run.h"

#include <math.h>

enum {
    FAMILY_TOKENS = 10,
    FAMILY_HALF = TINY_HEAD_DIM / 2,
    FAMILY_QUERY = TINY_HEADS * TINY_HEAD_DIM,
    FAMILY_KEY = TINY_KV_HEADS * TINY_HEAD_DIM,
};

struct family;
struct family_mixture; /* families_experts_test.c */

/* The numbers of one row on their way through the model. */
struct family_state {
    struct tiny *tiny;
    const struct family *family;
    double h[FAMILY_TOKENS][TINY_HIDDEN];
    double x[FAMILY_TOKENS][TINY_HIDDEN]; /* what attention read */
    double keys[FAMILY_TOKENS][2 * FAMILY_QUERY], values[FAMILY_TOKENS][2 * FAMILY_QUERY];
};

/* Half a layer: which tensors it has, and what it adds to h of a token. */
struct family_half {
    void (*add)(struct tiny *tiny, const struct family *family, unsigned layer);
    void (*compute)(struct family_state *state, unsigned layer, size_t token);
};

struct family {
    const char *type, *more; /* of config.json */
    const char *gguf_type;   /* NULL: no GGUF file is made here */
    struct tiny_key keys[4]; /* of the GGUF file, besides the sizes */
    const struct family_half *attend, *mlp;
    const struct family_mixture *mixture;
    bool has_pre_norms, has_post_norms, is_fused, has_head_norms, has_whole_norms, has_sinks;
    bool has_fused_mlp, has_layer_norms, turns_neighbours;
    bool is_parallel;     /* the MLP reads what attention read */
    bool has_plain_norms; /* heads of q and k, after they turned, without weights */
    const char *biases;   /* the letters of q, k, v, o that have one */
    const char *mlp_norm; /* name of the norm before the MLP */
    const char *attend_post_norm, *mlp_post_norm; /* NULL: as OLMo 2 and the Gemmas call them */
    bool is_gelu;
    double norm_offset;
    double embed, residual, score, logit, score_cap, logit_cap;
    /* by layer */
    int windows[TINY_LAYERS];
    bool is_chunked; /* these are chunks instead */
    /* Queries are multiplied by 1 + growth ln(1 + floor((position + offset) / length)). */
    double growth, growth_length;
    size_t growth_offset;
    bool grows_unturned;                          /* in layers that do not rotate alone */
    double frequencies[TINY_LAYERS][FAMILY_HALF]; /* radians a position; 0: the pair stays */
    size_t rotated;                               /* features of a head */
    double turn_factor;                           /* of cosines and sines */
};

/* Formulas. */

/* y = W x + bias; bias NULL: none. */
static inline void family_multiply(const float *w, const float *bias, size_t rows, size_t columns,
                                   const double *x, double *y) {
    for (size_t r = 0; r < rows; r++) {
        y[r] = bias == NULL ? 0 : (double)bias[r];
        for (size_t c = 0; c < columns; c++)
            y[r] += (double)w[r * columns + c] * x[c];
    }
}

/* x = w x / sqrt(mean of x^2 + eps), group by group. */
static inline void family_norm_with(const float *w, double offset, double eps, size_t group,
                                    size_t count, double *x) {
    for (size_t first = 0; first < count; first += group) {
        double sum = 0;
        for (size_t i = 0; i < group; i++)
            sum += x[first + i] * x[first + i];
        for (size_t i = 0; i < group; i++)
            x[first + i] *= ((double)w[i] + offset) / sqrt(sum / (double)group + eps);
    }
}

static inline void family_norm(const struct family *family, const float *w, size_t group,
                               size_t count, double *x) {
    double mean = 0;
    for (size_t i = 0; family->has_layer_norms && i < count; i++)
        mean += x[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        x[i] -= mean;
    family_norm_with(w, family->norm_offset, 1e-5, group, count, x);
}

static inline double family_capped(double x, double cap) {
    return cap == 0 ? x : cap * tanh(x / cap);
}

static inline double family_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static inline double family_gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

/* Pairs (i, i + half of what is rotated), or of neighbours, turn by position times frequency. */
static inline void family_turn(const struct family *family, unsigned layer, size_t position,
                               double *head) {
    size_t half = family->rotated / 2;
    for (size_t i = 0; i < half; i++) {
        double angle = (double)position * family->frequencies[layer][i];
        double c = cos(angle) * family->turn_factor, s = sin(angle) * family->turn_factor;
        size_t one = family->turns_neighbours ? 2 * i : i;
        size_t other = family->turns_neighbours ? 2 * i + 1 : i + half;
        double a = head[one], b = head[other];
        if (family->frequencies[layer][i] == 0)
            continue;
        head[one] = a * c - b * s;
        head[other] = b * c + a * s;
    }
}

/* yarn (Peng et al. 2023, and modeling_rope_utils.py): a mix of slowed and plain frequencies, along
 * the pairs between those that turn beta_fast and beta_slow times over the original context. */
struct family_yarn {
    double factor, original, beta_fast, beta_slow;
    bool truncates;
};

static inline void family_yarn_frequencies(const struct family_yarn *yarn, double theta,
                                           size_t rotated, double *frequencies) {
    double dim = (double)rotated, pi = 3.14159265358979323846;
    double low = dim * log(yarn->original / (yarn->beta_fast * 2 * pi)) / (2 * log(theta));
    double high = dim * log(yarn->original / (yarn->beta_slow * 2 * pi)) / (2 * log(theta));
    low = fmax(yarn->truncates ? floor(low) : low, 0);
    high = fmin(yarn->truncates ? ceil(high) : high, dim - 1);
    for (size_t i = 0; i < rotated / 2; i++) {
        double plain = pow(theta, -2.0 * (double)i / dim);
        double slowed = fmin(fmax(((double)i - low) / (high - low), 0), 1);
        frequencies[i] = plain / yarn->factor * slowed + plain * (1 - slowed);
    }
}

/* Tensors. */

enum { FAMILY_NAME = 80 };

/* "model.layers.1.mlp.up_proj.weight" of layer 1, "mlp.up_proj" and ".weight". */
static inline void family_name(char *name, unsigned layer, const char *part, const char *ending) {
    int length = snprintf(name, FAMILY_NAME, "model.layers.%u.%s%s", layer, part, ending);
    assert_true(length > 0 && length < FAMILY_NAME);
}

static inline float *family_add(struct tiny *tiny, unsigned layer, const char *part, size_t rows,
                                size_t columns) {
    char name[FAMILY_NAME];
    family_name(name, layer, part, "");
    return tiny_add(tiny, name, rows, columns, 0.6f, 0.0f);
}

static inline void family_add_norm(struct tiny *tiny, const struct family *family, unsigned layer,
                                   const char *part, size_t count) {
    char name[FAMILY_NAME];
    family_name(name, layer, part, ".weight");
    tiny_add(tiny, name, count, 0, 0.6f, (float)(1 - family->norm_offset));
}

static inline const float *family_find(struct tiny *tiny, unsigned layer, const char *part) {
    char name[FAMILY_NAME];
    family_name(name, layer, part, "");
    return tiny_find(tiny, name)->values;
}

/* Of a norm, whose names are without their ending. */
static inline const float *family_find_norm(struct tiny *tiny, unsigned layer, const char *part) {
    char name[FAMILY_NAME];
    family_name(name, layer, part, ".weight");
    return tiny_find(tiny, name)->values;
}

static inline const char *family_attend_post_norm(const struct family *family) {
    return family->attend_post_norm != NULL ? family->attend_post_norm : "post_attention_layernorm";
}

static inline const char *family_mlp_post_norm(const struct family *family) {
    return family->mlp_post_norm != NULL ? family->mlp_post_norm : "post_feedforward_layernorm";
}

/* Adds y of half a layer to the residual stream. */
static inline void family_residual(struct family_state *state, unsigned layer,
                                   const char *post_norm, size_t token, double *y) {
    const struct family *family = state->family;
    if (family->has_post_norms)
        family_norm(family, family_find_norm(state->tiny, layer, post_norm), TINY_HIDDEN,
                    TINY_HIDDEN, y);
    for (size_t i = 0; i < TINY_HIDDEN; i++)
        state->h[token][i] += family->residual * y[i];
}

/* x = h of the token, normalised where the family does so. */
static inline void family_input(struct family_state *state, unsigned layer, const char *norm,
                                size_t token, double *x) {
    memcpy(x, state->h[token], TINY_HIDDEN * sizeof *x);
    if (state->family->has_pre_norms)
        family_norm(state->family, family_find_norm(state->tiny, layer, norm), TINY_HIDDEN,
                    TINY_HIDDEN, x);
}

/* Attention with a head of keys and values for all heads of queries. */

static inline bool family_has_bias(const struct family *family, char projection) {
    return family->biases != NULL && strchr(family->biases, projection) != NULL;
}

static inline void family_add_attend(struct tiny *tiny, const struct family *family,
                                     unsigned layer) {
    static const struct {
        const char *matrix, *bias;
        size_t rows, columns;
    } parts[] = {
        {"self_attn.q_proj.weight", "self_attn.q_proj.bias", FAMILY_QUERY, TINY_HIDDEN},
        {"self_attn.k_proj.weight", "self_attn.k_proj.bias", FAMILY_KEY, TINY_HIDDEN},
        {"self_attn.v_proj.weight", "self_attn.v_proj.bias", FAMILY_KEY, TINY_HIDDEN},
        {"self_attn.o_proj.weight", "self_attn.o_proj.bias", TINY_HIDDEN, FAMILY_QUERY},
    };
    if (family->is_fused)
        family_add(tiny, layer, "self_attn.qkv_proj.weight", FAMILY_QUERY + 2 * FAMILY_KEY,
                   TINY_HIDDEN);
    for (size_t i = family->is_fused ? 3 : 0; i < 4; i++) {
        family_add(tiny, layer, parts[i].matrix, parts[i].rows, parts[i].columns);
        if (family_has_bias(family, "qkvo"[i]))
            family_add(tiny, layer, parts[i].bias, parts[i].rows, 0);
    }
    if (family->has_head_norms) {
        bool is_whole = family->has_whole_norms;
        family_add_norm(tiny, family, layer, "self_attn.q_norm",
                        is_whole ? FAMILY_QUERY : TINY_HEAD_DIM);
        family_add_norm(tiny, family, layer, "self_attn.k_norm",
                        is_whole ? FAMILY_KEY : TINY_HEAD_DIM);
    }
    if (family->has_sinks)
        family_add(tiny, layer, "self_attn.sinks", TINY_HEADS, 0);
}

/* out = sum over the positions that the token sees of softmax(score) x value; the softmax has one
 * more term, exp(sink), that goes with no value. */
struct family_head {
    size_t key_count, key_first, value_count, value_first; /* features, and where they begin */
    double score;
    const float *sink; /* NULL: none */
};

static inline void family_see(const struct family_state *state, unsigned layer, size_t token,
                              const struct family_head *head, const double *q, double *out) {
    size_t window = (size_t)state->family->windows[layer];
    size_t first = window != 0 && token >= window ? token - window + 1 : 0;
    if (window != 0 && state->family->is_chunked)
        first = token / window * window;
    double sum = head->sink == NULL ? 0 : exp((double)*head->sink);
    memset(out, 0, head->value_count * sizeof *out);
    for (size_t p = first; p <= token; p++) {
        double score = 0;
        for (size_t d = 0; d < head->key_count; d++)
            score += q[d] * state->keys[p][head->key_first + d];
        double share = exp(family_capped(score * head->score, state->family->score_cap));
        sum += share;
        for (size_t d = 0; d < head->value_count; d++)
            out[d] += share * state->values[p][head->value_first + d];
    }
    for (size_t d = 0; d < head->value_count; d++)
        out[d] /= sum;
}

/* all = queries, keys and values of a token, one after the other. */
static inline void family_project(struct family_state *state, unsigned layer, const double *x,
                                  double *all) {
    static const struct {
        const char *matrix, *bias;
        size_t first, rows;
    } parts[] = {
        {"self_attn.q_proj.weight", "self_attn.q_proj.bias", 0, FAMILY_QUERY},
        {"self_attn.k_proj.weight", "self_attn.k_proj.bias", FAMILY_QUERY, FAMILY_KEY},
        {"self_attn.v_proj.weight", "self_attn.v_proj.bias", FAMILY_QUERY + FAMILY_KEY, FAMILY_KEY},
    };
    struct tiny *tiny = state->tiny;
    if (state->family->is_fused) {
        family_multiply(family_find(tiny, layer, "self_attn.qkv_proj.weight"), NULL,
                        FAMILY_QUERY + 2 * FAMILY_KEY, TINY_HIDDEN, x, all);
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        bool has_bias = family_has_bias(state->family, "qkv"[i]);
        family_multiply(family_find(tiny, layer, parts[i].matrix),
                        has_bias ? family_find(tiny, layer, parts[i].bias) : NULL, parts[i].rows,
                        TINY_HIDDEN, x, all + parts[i].first);
    }
}

/* What happens to queries and keys that have turned. */
static inline void family_temper(const struct family *family, unsigned layer, size_t token,
                                 double *all) {
    static const float ones[TINY_HEAD_DIM] = {1, 1, 1, 1};
    bool is_turned = family->frequencies[layer][0] != 0;
    if (family->has_plain_norms && is_turned)
        family_norm_with(ones, 0, 1e-5, TINY_HEAD_DIM, FAMILY_QUERY + FAMILY_KEY, all);
    if (family->growth == 0 || (family->grows_unturned && is_turned))
        return;
    double steps = floor((double)(token + family->growth_offset) / family->growth_length);
    for (size_t i = 0; i < FAMILY_QUERY; i++)
        all[i] *= 1 + family->growth * log(1 + steps);
}

static inline void family_attend(struct family_state *state, unsigned layer, size_t token) {
    const struct family *family = state->family;
    struct tiny *tiny = state->tiny;
    double x[TINY_HIDDEN], all[FAMILY_QUERY + 2 * FAMILY_KEY], out[FAMILY_QUERY], y[TINY_HIDDEN];
    double *key = all + FAMILY_QUERY, *value = key + FAMILY_KEY;
    family_input(state, layer, "input_layernorm", token, x);
    memcpy(state->x[token], x, sizeof x);
    family_project(state, layer, x, all);
    if (family->has_head_norms) {
        family_norm(family, family_find_norm(tiny, layer, "self_attn.q_norm"),
                    family->has_whole_norms ? FAMILY_QUERY : TINY_HEAD_DIM, FAMILY_QUERY, all);
        family_norm(family, family_find_norm(tiny, layer, "self_attn.k_norm"), FAMILY_KEY,
                    FAMILY_KEY, key);
    }
    for (size_t head = 0; head <= TINY_HEADS; head++) /* the key's head is the last */
        family_turn(family, layer, token, all + head * TINY_HEAD_DIM);
    family_temper(family, layer, token, all);
    memcpy(state->keys[token], key, FAMILY_KEY * sizeof *key);
    memcpy(state->values[token], value, FAMILY_KEY * sizeof *value);
    for (size_t head = 0; head < TINY_HEADS; head++) {
        struct family_head what = {
            .key_count = TINY_HEAD_DIM, .value_count = TINY_HEAD_DIM, .score = family->score};
        if (family->has_sinks)
            what.sink = family_find(tiny, layer, "self_attn.sinks") + head;
        family_see(state, layer, token, &what, all + head * TINY_HEAD_DIM,
                   out + head * TINY_HEAD_DIM);
    }
    family_multiply(family_find(tiny, layer, "self_attn.o_proj.weight"),
                    family_has_bias(family, 'o') ? family_find(tiny, layer, "self_attn.o_proj.bias")
                                                 : NULL,
                    TINY_HIDDEN, FAMILY_QUERY, out, y);
    family_residual(state, layer, family_attend_post_norm(family), token, y);
}

static const struct family_half family_plain_attend = {family_add_attend, family_attend};

/* The gated MLP. */

static inline void family_add_mlp(struct tiny *tiny, const struct family *family, unsigned layer) {
    if (family->is_fused || family->has_fused_mlp) {
        family_add(tiny, layer, "mlp.gate_up_proj.weight", 2 * TINY_INNER, TINY_HIDDEN);
    } else {
        family_add(tiny, layer, "mlp.gate_proj.weight", TINY_INNER, TINY_HIDDEN);
        family_add(tiny, layer, "mlp.up_proj.weight", TINY_INNER, TINY_HIDDEN);
    }
    family_add(tiny, layer, "mlp.down_proj.weight", TINY_HIDDEN, TINY_INNER);
}

static inline void family_mlp(struct family_state *state, unsigned layer, size_t token) {
    const struct family *family = state->family;
    struct tiny *tiny = state->tiny;
    double x[TINY_HIDDEN], both[2 * TINY_INNER], y[TINY_HIDDEN];
    if (family->is_parallel)
        memcpy(x, state->x[token], sizeof x);
    else
        family_input(state, layer, family->mlp_norm, token, x);
    if (family->is_fused || family->has_fused_mlp) {
        family_multiply(family_find(tiny, layer, "mlp.gate_up_proj.weight"), NULL, 2 * TINY_INNER,
                        TINY_HIDDEN, x, both);
    } else {
        family_multiply(family_find(tiny, layer, "mlp.gate_proj.weight"), NULL, TINY_INNER,
                        TINY_HIDDEN, x, both);
        family_multiply(family_find(tiny, layer, "mlp.up_proj.weight"), NULL, TINY_INNER,
                        TINY_HIDDEN, x, both + TINY_INNER);
    }
    for (size_t i = 0; i < TINY_INNER; i++) {
        double gate = both[i];
        both[i] = (family->is_gelu ? family_gelu_tanh(gate) : gate * family_sigmoid(gate)) *
                  both[TINY_INNER + i];
    }
    family_multiply(family_find(tiny, layer, "mlp.down_proj.weight"), NULL, TINY_HIDDEN, TINY_INNER,
                    both, y);
    family_residual(state, layer, family_mlp_post_norm(family), token, y);
}

static const struct family_half family_plain_mlp = {family_add_mlp, family_mlp};

/* Routers. */

/* The largest one that is not taken. The next one must be so much smaller that float32 chooses the
 * same: else the test would hang on rounding. */
static inline size_t family_take_largest(const double *keys, bool *is_taken, size_t count,
                                         bool is_last) {
    size_t best = count, next = count;
    for (size_t i = 0; i < count; i++) {
        if (is_taken[i])
            continue;
        if (best == count || keys[i] > keys[best]) {
            next = best;
            best = i;
        } else if (next == count || keys[i] > keys[next]) {
            next = i;
        }
    }
    assert_true(best < count);
    assert_true(!is_last || next == count || keys[best] - keys[next] > 1e-4);
    is_taken[best] = true;
    return best;
}

static inline void family_softmax(double *x, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] = exp(x[i]);
    for (size_t i = 0; i < count; i++)
        x[i] /= sum;
}

/* The model as a whole, and the comparison. */

static const struct family family_llama = {
    .attend = &family_plain_attend,
    .mlp = &family_plain_mlp,
    .has_pre_norms = true,
    .mlp_norm = "post_attention_layernorm",
    .embed = 1,
    .residual = 1,
    .score = 0.5, /* 1 / sqrt(4) */
    .logit = 1,
    .frequencies = {{1, 0.01}, {1, 0.01}}, /* 10000^(-2i/4) */
    .rotated = TINY_HEAD_DIM,
    .turn_factor = 1,
};

static inline void family_add_tensors(struct tiny *tiny, const struct family *family) {
    tiny_add(tiny, "model.embed_tokens.weight", TINY_VOCABULARY, TINY_HIDDEN, 1.0f, 0.0f);
    tiny_add(tiny, "model.norm.weight", TINY_HIDDEN, 0, 0.25f, (float)(1 - family->norm_offset));
    for (unsigned layer = 0; layer < TINY_LAYERS; layer++) {
        if (family->has_pre_norms) {
            family_add_norm(tiny, family, layer, "input_layernorm", TINY_HIDDEN);
            if (!family->is_parallel)
                family_add_norm(tiny, family, layer, family->mlp_norm, TINY_HIDDEN);
        }
        if (family->has_post_norms) {
            family_add_norm(tiny, family, layer, family_attend_post_norm(family), TINY_HIDDEN);
            family_add_norm(tiny, family, layer, family_mlp_post_norm(family), TINY_HIDDEN);
        }
        family->attend->add(tiny, family, layer);
        family->mlp->add(tiny, family, layer);
    }
}

static inline void family_forward(struct tiny *tiny, const struct family *family,
                                  const uint32_t *ids,
                                  double logits[FAMILY_TOKENS][TINY_VOCABULARY]) {
    struct family_state state = {.tiny = tiny, .family = family};
    const float *embed = tiny_find(tiny, "model.embed_tokens.weight")->values;
    for (size_t token = 0; token < FAMILY_TOKENS; token++)
        for (size_t i = 0; i < TINY_HIDDEN; i++)
            state.h[token][i] = (double)embed[ids[token] * TINY_HIDDEN + i] * family->embed;
    for (unsigned layer = 0; layer < TINY_LAYERS; layer++)
        for (size_t token = 0; token < FAMILY_TOKENS; token++) {
            family->attend->compute(&state, layer, token);
            family->mlp->compute(&state, layer, token);
        }
    for (size_t token = 0; token < FAMILY_TOKENS; token++) {
        family_norm(family, tiny_find(tiny, "model.norm.weight")->values, TINY_HIDDEN, TINY_HIDDEN,
                    state.h[token]);
        family_multiply(embed, NULL, TINY_VOCABULARY, TINY_HIDDEN, state.h[token], logits[token]);
        for (size_t i = 0; i < TINY_VOCABULARY; i++)
            logits[token][i] = family_capped(logits[token][i] * family->logit, family->logit_cap);
    }
}

static const uint32_t family_ids[FAMILY_TOKENS] = {3, 5, 0, 11, 7, 2, 5, 9, 3, 1};

/* All logits of the row: at once, in chunks, and then token by token. Sums have at most 24 terms of
 * size 1 in float32, through two layers: 2e-5 is generous, and any other formula is far off. */
static inline void family_compare(const char *path, const struct family *family,
                                  double right[FAMILY_TOKENS][TINY_VOCABULARY]) {
    static const size_t ends[][FAMILY_TOKENS] = {{10}, {3, 7, 10}, {4, 5, 6, 7, 8, 9, 10}};
    struct model *model = tiny_open(path);
    for (size_t way = 0; way < sizeof ends / sizeof ends[0]; way++) {
        float found[FAMILY_TOKENS * TINY_VOCABULARY];
        struct tiny_run run;
        size_t first = 0;
        tiny_run_begin(&run, model);
        for (const size_t *end = ends[way]; first < FAMILY_TOKENS; first = *end++)
            tiny_run_pass(&run, family_ids, first, *end, FAMILY_TOKENS, found);
        tiny_run_end(&run);
        for (size_t i = 0; i < FAMILY_TOKENS * TINY_VOCABULARY; i++) {
            double wanted = right[i / TINY_VOCABULARY][i % TINY_VOCABULARY];
            if (!(fabs((double)found[i] - wanted) <= 2e-5 * (1 + fabs(wanted))))
                fail_msg("%s %s%s, way %zu: logit %zu of token %zu is %.7g, expected %.7g", path,
                         family->type, family->more, way, i % TINY_VOCABULARY, i / TINY_VOCABULARY,
                         (double)found[i], wanted);
        }
    }
    model_close(model);
}

/* Makes the model as a folder and compares. The caller ends tiny. */
static inline void family_check_folder(struct tiny *tiny, const struct family *family,
                                       double right[FAMILY_TOKENS][TINY_VOCABULARY]) {
    tiny_begin(tiny);
    family_add_tensors(tiny, family);
    tiny_write_config(tiny, family->type, family->more);
    tiny_write_safetensors(tiny);
    family_forward(tiny, family, family_ids, right);
    family_compare(tiny->folder, family, right);
}

#define TIED ",\"tie_word_embeddings\":true"

#endif
