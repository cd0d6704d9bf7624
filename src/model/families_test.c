/* Every dense family against a plain forward pass in double, written here from the formulas of the
 * published code: small random models, one row, the logits of its last token. The forward pass
 * knows nothing of the program but the names of tensors; what a family is, each row of the table
 * says for itself. */
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "model/tiny_run.h"

enum { TOKENS = 6, HALF = TINY_HEAD_DIM / 2 };

struct family {
    const char *type, *more; /* of config.json */
    const char *gguf_type;   /* NULL: no GGUF file is made, or its rows would be permuted */
    struct tiny_key keys[4]; /* of the GGUF file, besides the sizes */
    bool has_pre_norms, has_post_norms, is_fused, has_head_norms, has_whole_norms;
    const char *mlp_norm; /* name of the norm before the MLP */
    bool is_gelu;
    double norm_offset;
    double embed, residual, score, logit, score_cap, logit_cap;
    /* by layer */
    int windows[TINY_LAYERS];
    double frequencies[TINY_LAYERS][HALF]; /* radians a position; 0: the pair stays */
    double turn_factor;                    /* of cosines and sines */
};

static const struct family llama_like = {
    .has_pre_norms = true,
    .mlp_norm = "post_attention_layernorm",
    .embed = 1,
    .residual = 1,
    .score = 0.5, /* 1 / sqrt(4) */
    .logit = 1,
    .frequencies = {{1, 0.01}, {1, 0.01}}, /* 10000^(-2i/4) */
    .turn_factor = 1,
};

/* Adds the tensors; fused ones are cut by forward(). */
static void add_tensors(struct tiny *tiny, const struct family *family) {
    const size_t query = TINY_HEADS * TINY_HEAD_DIM, key = TINY_KV_HEADS * TINY_HEAD_DIM;
    const struct {
        const char *name;
        size_t rows, columns;
        bool is_there;
    } parts[] = {
        {"input_layernorm", TINY_HIDDEN, 0, family->has_pre_norms},
        {family->mlp_norm, TINY_HIDDEN, 0, family->has_pre_norms},
        {"post_attention_layernorm", TINY_HIDDEN, 0, family->has_post_norms},
        {"post_feedforward_layernorm", TINY_HIDDEN, 0, family->has_post_norms},
        {"self_attn.q_norm", family->has_whole_norms ? query : TINY_HEAD_DIM, 0,
         family->has_head_norms},
        {"self_attn.k_norm", family->has_whole_norms ? key : TINY_HEAD_DIM, 0,
         family->has_head_norms},
        {"self_attn.qkv_proj", query + 2 * key, TINY_HIDDEN, family->is_fused},
        {"self_attn.q_proj", query, TINY_HIDDEN, !family->is_fused},
        {"self_attn.k_proj", key, TINY_HIDDEN, !family->is_fused},
        {"self_attn.v_proj", key, TINY_HIDDEN, !family->is_fused},
        {"self_attn.o_proj", TINY_HIDDEN, query, true},
        {"mlp.gate_up_proj", 2 * TINY_INNER, TINY_HIDDEN, family->is_fused},
        {"mlp.gate_proj", TINY_INNER, TINY_HIDDEN, !family->is_fused},
        {"mlp.up_proj", TINY_INNER, TINY_HIDDEN, !family->is_fused},
        {"mlp.down_proj", TINY_HIDDEN, TINY_INNER, true},
    };
    float center = (float)(1 - family->norm_offset);
    tiny_add(tiny, "model.embed_tokens.weight", TINY_VOCABULARY, TINY_HIDDEN, 1.0f, 0.0f);
    tiny_add(tiny, "model.norm.weight", TINY_HIDDEN, 0, 0.25f, center);
    for (unsigned layer = 0; layer < TINY_LAYERS; layer++)
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            char name[80];
            snprintf(name, sizeof name, "model.layers.%u.%s.weight", layer, parts[i].name);
            if (parts[i].is_there)
                tiny_add(tiny, name, parts[i].rows, parts[i].columns, 0.6f,
                         parts[i].columns == 0 ? center : 0.0f);
        }
}

static const float *find(struct tiny *tiny, unsigned layer, const char *part) {
    char name[80];
    snprintf(name, sizeof name, "model.layers.%u.%s.weight", layer, part);
    return tiny_find(tiny, name)->values;
}

static void multiply(const float *w, size_t rows, size_t columns, const double *x, double *y) {
    for (size_t r = 0; r < rows; r++) {
        y[r] = 0;
        for (size_t c = 0; c < columns; c++)
            y[r] += (double)w[r * columns + c] * x[c];
    }
}

static void norm(const struct family *family, const float *w, size_t group, size_t count,
                 double *x) {
    for (size_t first = 0; first < count; first += group) {
        double sum = 0;
        for (size_t i = 0; i < group; i++)
            sum += x[first + i] * x[first + i];
        for (size_t i = 0; i < group; i++)
            x[first + i] *= ((double)w[i] + family->norm_offset) / sqrt(sum / (double)group + 1e-5);
    }
}

static double capped(double x, double cap) {
    return cap == 0 ? x : cap * tanh(x / cap);
}

struct state {
    struct tiny *tiny;
    const struct family *family;
    double h[TOKENS][TINY_HIDDEN];
    double keys[TOKENS][TINY_HEAD_DIM], values[TOKENS][TINY_HEAD_DIM]; /* one key/value head */
};

/* Pairs (i, i + 2) turn by position times frequency. */
static void turn(const struct family *family, unsigned layer, size_t position, double *head) {
    for (size_t i = 0; i < HALF; i++) {
        double angle = (double)position * family->frequencies[layer][i];
        double c = cos(angle) * family->turn_factor, s = sin(angle) * family->turn_factor;
        double a = head[i], b = head[i + HALF];
        if (family->frequencies[layer][i] == 0)
            continue;
        head[i] = a * c - b * s;
        head[i + HALF] = b * c + a * s;
    }
}

/* Partly rotated heads of 4 have one pair, (0, 1). */
static void turn_first_pair(double frequency, size_t position, double *head) {
    double a = head[0], b = head[1], angle = (double)position * frequency;
    head[0] = a * cos(angle) - b * sin(angle);
    head[1] = b * cos(angle) + a * sin(angle);
}

static void rotate(const struct family *family, unsigned layer, size_t position, double *head) {
    if (strstr(family->more, "partial_rotary_factor") != NULL)
        turn_first_pair(1.0, position, head);
    else
        turn(family, layer, position, head);
}

static void add(struct state *state, unsigned layer, const char *post_norm, size_t token,
                double *y) {
    const struct family *family = state->family;
    if (family->has_post_norms)
        norm(family, find(state->tiny, layer, post_norm), TINY_HIDDEN, TINY_HIDDEN, y);
    for (size_t i = 0; i < TINY_HIDDEN; i++)
        state->h[token][i] += family->residual * y[i];
}

static void attend(struct state *state, unsigned layer, size_t token) {
    const struct family *family = state->family;
    struct tiny *tiny = state->tiny;
    const size_t query = TINY_HEADS * TINY_HEAD_DIM, key = TINY_HEAD_DIM;
    double x[TINY_HIDDEN], all[TINY_HEADS * TINY_HEAD_DIM + 2 * TINY_HEAD_DIM], out[8], y[8];
    memcpy(x, state->h[token], sizeof x);
    if (family->has_pre_norms)
        norm(family, find(tiny, layer, "input_layernorm"), TINY_HIDDEN, TINY_HIDDEN, x);
    if (family->is_fused) {
        multiply(find(tiny, layer, "self_attn.qkv_proj"), query + 2 * key, TINY_HIDDEN, x, all);
    } else {
        multiply(find(tiny, layer, "self_attn.q_proj"), query, TINY_HIDDEN, x, all);
        multiply(find(tiny, layer, "self_attn.k_proj"), key, TINY_HIDDEN, x, all + query);
        multiply(find(tiny, layer, "self_attn.v_proj"), key, TINY_HIDDEN, x, all + query + key);
    }
    if (family->has_head_norms) {
        norm(family, find(tiny, layer, "self_attn.q_norm"),
             family->has_whole_norms ? query : TINY_HEAD_DIM, query, all);
        norm(family, find(tiny, layer, "self_attn.k_norm"), key, key, all + query);
    }
    for (size_t head = 0; head <= TINY_HEADS; head++) /* the key's head is the last */
        rotate(family, layer, token, all + head * TINY_HEAD_DIM);
    memcpy(state->keys[token], all + query, sizeof state->keys[token]);
    memcpy(state->values[token], all + query + key, sizeof state->values[token]);
    size_t window = (size_t)family->windows[layer];
    size_t first = window != 0 && token >= window ? token - window + 1 : 0;
    for (size_t head = 0; head < TINY_HEADS; head++) {
        double sum = 0, *part = out + head * TINY_HEAD_DIM;
        memset(part, 0, TINY_HEAD_DIM * sizeof *part);
        for (size_t p = first; p <= token; p++) {
            double score = 0;
            for (size_t d = 0; d < TINY_HEAD_DIM; d++)
                score += all[head * TINY_HEAD_DIM + d] * state->keys[p][d];
            double share = exp(capped(score * family->score, family->score_cap));
            sum += share;
            for (size_t d = 0; d < TINY_HEAD_DIM; d++)
                part[d] += share * state->values[p][d];
        }
        for (size_t d = 0; d < TINY_HEAD_DIM; d++)
            part[d] /= sum;
    }
    multiply(find(tiny, layer, "self_attn.o_proj"), TINY_HIDDEN, query, out, y);
    add(state, layer, "post_attention_layernorm", token, y);
}

static void mlp(struct state *state, unsigned layer, size_t token) {
    const struct family *family = state->family;
    struct tiny *tiny = state->tiny;
    double x[TINY_HIDDEN], both[2 * TINY_INNER], y[TINY_HIDDEN];
    memcpy(x, state->h[token], sizeof x);
    if (family->has_pre_norms)
        norm(family, find(tiny, layer, family->mlp_norm), TINY_HIDDEN, TINY_HIDDEN, x);
    if (family->is_fused) {
        multiply(find(tiny, layer, "mlp.gate_up_proj"), 2 * TINY_INNER, TINY_HIDDEN, x, both);
    } else {
        multiply(find(tiny, layer, "mlp.gate_proj"), TINY_INNER, TINY_HIDDEN, x, both);
        multiply(find(tiny, layer, "mlp.up_proj"), TINY_INNER, TINY_HIDDEN, x, both + TINY_INNER);
    }
    for (size_t i = 0; i < TINY_INNER; i++) {
        double g = both[i], u = 0.79788456080286536 * (g + 0.044715 * g * g * g);
        both[i] =
            (family->is_gelu ? 0.5 * g * (1 + tanh(u)) : g / (1 + exp(-g))) * both[TINY_INNER + i];
    }
    multiply(find(tiny, layer, "mlp.down_proj"), TINY_HIDDEN, TINY_INNER, both, y);
    add(state, layer, "post_feedforward_layernorm", token, y);
}

static void forward(struct tiny *tiny, const struct family *family, const uint32_t *ids,
                    double *logits) {
    struct state state = {.tiny = tiny, .family = family};
    const float *embed = tiny_find(tiny, "model.embed_tokens.weight")->values;
    for (size_t token = 0; token < TOKENS; token++)
        for (size_t i = 0; i < TINY_HIDDEN; i++)
            state.h[token][i] = (double)embed[ids[token] * TINY_HIDDEN + i] * family->embed;
    for (unsigned layer = 0; layer < TINY_LAYERS; layer++)
        for (size_t token = 0; token < TOKENS; token++) {
            attend(&state, layer, token);
            mlp(&state, layer, token);
        }
    double *last = state.h[TOKENS - 1];
    norm(family, tiny_find(tiny, "model.norm.weight")->values, TINY_HIDDEN, TINY_HIDDEN, last);
    multiply(embed, TINY_VOCABULARY, TINY_HIDDEN, last, logits);
    for (size_t i = 0; i < TINY_VOCABULARY; i++)
        logits[i] = capped(logits[i] * family->logit, family->logit_cap);
}

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

/* The GGUF file of the same model; its tensors are renamed. */
static void write_gguf(struct tiny *tiny, const struct family *family) {
    static const struct {
        const char *member;
        double number;
        bool is_real;
    } members[] = {{"block_count", TINY_LAYERS, false},
                   {"embedding_length", TINY_HIDDEN, false},
                   {"attention.head_count", TINY_HEADS, false},
                   {"attention.head_count_kv", TINY_KV_HEADS, false},
                   {"attention.key_length", TINY_HEAD_DIM, false},
                   {"attention.value_length", TINY_HEAD_DIM, false},
                   {"feed_forward_length", TINY_INNER, false},
                   {"context_length", 64, false},
                   {"attention.layer_norm_rms_epsilon", 1e-5, true}};
    enum { MEMBERS = sizeof members / sizeof members[0] };
    struct tiny_key keys[MEMBERS + 5] = {{"general.architecture", family->gguf_type, 0, false}};
    char names[MEMBERS + 4][64];
    size_t count = 1;
    for (size_t i = 0; i < MEMBERS + 4; i++) {
        const struct tiny_key *own = i < MEMBERS ? NULL : &family->keys[i - MEMBERS];
        if (own != NULL && own->name == NULL)
            continue;
        snprintf(names[i], sizeof names[i], "%s.%s", family->gguf_type,
                 own == NULL ? members[i].member : own->name);
        keys[count] = own != NULL
                          ? *own
                          : (struct tiny_key){NULL, NULL, members[i].number, members[i].is_real};
        keys[count++].name = names[i];
    }
    for (size_t i = 0; i < tiny->count; i++)
        rename_for_gguf(&tiny->tensors[i], family);
    tiny_write_gguf(tiny, "tiny.gguf", keys, count);
}

static void compare(const char *path, const struct family *family, const uint32_t *ids,
                    const double *right) {
    float found[TINY_VOCABULARY];
    struct model *model = tiny_open(path);
    tiny_logits(model, ids, TOKENS, found);
    for (size_t i = 0; i < TINY_VOCABULARY; i++)
        if (!(fabs((double)found[i] - right[i]) <= 2e-5 * (1 + fabs(right[i]))))
            fail_msg("%s %s: logit %zu is %.7g, expected %.7g", path, family->more, i,
                     (double)found[i], right[i]);
    model_close(model);
}

/* The program against the formulas. Sums have at most 24 terms of size 1: 1e-5 is generous. */
static void check(const struct family *family) {
    static const uint32_t ids[TOKENS] = {3, 5, 0, 11, 7, 2};
    struct tiny tiny;
    double right[TINY_VOCABULARY];
    tiny_begin(&tiny);
    add_tensors(&tiny, family);
    tiny_write_config(&tiny, family->type, family->more);
    tiny_write_safetensors(&tiny);
    forward(&tiny, family, ids, right);
    compare(tiny.folder, family, ids, right);
    if (family->gguf_type != NULL) {
        char path[160];
        write_gguf(&tiny, family);
        tiny_path(&tiny, "tiny.gguf", path, sizeof path);
        compare(path, family, ids, right);
    }
    tiny_end(&tiny);
}

#define TIED ",\"tie_word_embeddings\":true"

static void gemma2_follows_its_formulas(void **state) {
    (void)state;
    struct family family = llama_like;
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
    struct family family = llama_like;
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

/* longrope: a row of 6 positions is long for a model trained on 4, and short for one trained on 6.
 * Both contexts are 64: the attention factor is sqrt(1 + ln(64 / n) / ln n). */
static void phi3_follows_its_formulas(void **state) {
    (void)state;
    struct family family = llama_like;
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
    check(&family);
    family.more = TIED ",\"original_max_position_embeddings\":4,\"rope_scaling\":{"
                       "\"type\":\"longrope\",\"long_factor\":[2.0,4.0],"
                       "\"short_factor\":[1.0,1.25]}";
    family.turn_factor = sqrt(1 + log(16.0) / log(4.0));
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        family.frequencies[layer][0] = 0.5;
        family.frequencies[layer][1] = 0.0025;
    }
    check(&family);
    family.more = TIED ",\"original_max_position_embeddings\":6,\"rope_scaling\":{"
                       "\"type\":\"su\",\"long_factor\":[2.0,4.0],\"short_factor\":[1.0,1.25]}";
    family.turn_factor = sqrt(1 + log(64.0 / 6) / log(6.0));
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        family.frequencies[layer][0] = 1;
        family.frequencies[layer][1] = 0.008;
    }
    check(&family);
}

static void olmo2_follows_its_formulas(void **state) {
    (void)state;
    struct family family = llama_like;
    family.type = "olmo2";
    family.more = TIED;
    family.has_pre_norms = false;
    family.has_post_norms = family.has_head_norms = family.has_whole_norms = true;
    family.gguf_type = "olmo2";
    check(&family);
}

static void smollm3_follows_its_formulas(void **state) {
    (void)state;
    struct family family = llama_like;
    family.type = "smollm3";
    family.more = ",\"no_rope_layers\":[0,1]";
    family.frequencies[0][0] = family.frequencies[0][1] = 0;
    check(&family);
    family.more = ",\"no_rope_layer_interval\":2,\"sliding_window\":3,\"use_sliding_window\":true";
    memcpy(family.frequencies, llama_like.frequencies, sizeof family.frequencies);
    family.frequencies[1][0] = family.frequencies[1][1] = 0;
    family.windows[1] = 3; /* where there is no rope */
    check(&family);
}

static void granite_follows_its_formulas(void **state) {
    (void)state;
    struct family family = llama_like;
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
    struct family family = llama_like;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_and_mistral_follow_their_formulas),
        cmocka_unit_test(gemma2_follows_its_formulas),
        cmocka_unit_test(gemma3_follows_its_formulas),
        cmocka_unit_test(phi3_follows_its_formulas),
        cmocka_unit_test(olmo2_follows_its_formulas),
        cmocka_unit_test(smollm3_follows_its_formulas),
        cmocka_unit_test(granite_follows_its_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
