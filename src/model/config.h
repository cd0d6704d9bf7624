/* What a model is: sizes and settings read from config.json or from GGUF metadata, in one form for
 * both. A setting that is not understood and would change the answer refuses the model, naming it.
 * Constant once read. */
#ifndef SLUICE_MODEL_CONFIG_H
#define SLUICE_MODEL_CONFIG_H

#include "backend/backend.h"
#include "base/json.h"
#include "model/role.h"
#include "weights/matrix.h"
#include "weights/meta.h"

#define SL_LAYERS_MAX 1024u
#define SL_EOS_MAX 64u
#define SL_FEATURES_MAX (1u << 24) /* hidden, inner, heads x head_dim */
#define SL_VOCABULARY_MAX (1u << 26)
#define SL_CONTEXT_MAX (1u << 30) /* positions; their angles stay within num_sincos's range */

enum rope_kind {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONGROPE,
    ROPE_PROPORTIONAL,
    ROPE_KINDS
};

/* Rotary embedding (Su et al. 2021); llama3: the smoothed scaling of Llama 3.1's published config;
 * yarn: Peng et al. 2023; longrope: Ding et al. 2024, as Phi-3 has it; proportional: pairs as if
 * the whole head were rotated, of which those behind the first `share` stay where they are (Gemma
 * 4). */
struct rope_config {
    enum rope_kind kind;
    double theta;
    double factor;                            /* all but default */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double original_context;                  /* llama3, yarn, longrope: positions of training */
    double beta_fast, beta_slow;              /* yarn: turns over original_context */
    bool keeps_fractions;                     /* yarn: the ramp's ends are not rounded */
    double mscale, mscale_all_dim;            /* yarn, as given; 0: not given */
    double attention_factor;                  /* of cosines and sines; 0 until config_check */
    /* longrope: divisors of the frequencies [factor_count], in the config's arena. A row uses the
     * long ones throughout when its prompt and the most tokens that it may get pass
     * original_context, else the short ones. NULL: tensors of the file hold them. */
    const double *short_factors, *long_factors;
    uint32_t factor_count;
    double share;    /* of a head that is rotated, in (0, 1]; 0: all; gives rotary */
    uint32_t rotary; /* features of a head that are rotated; even */
    bool is_interleaved;
};

const char *rope_word(enum rope_kind kind); /* "yarn" */

enum activation { ACTIVATION_SILU, ACTIVATION_GELU_TANH };

/* How a router's outputs become scores. */
enum mixture_score {
    MIXTURE_SOFTMAX,        /* over all experts, then the largest */
    MIXTURE_SOFTMAX_CHOSEN, /* the largest, then a softmax over them */
    MIXTURE_SIGMOID,        /* each by itself (DeepSeek-V3) */
    MIXTURE_SIGMOID_CHOSEN, /* the largest, then each by itself (Llama 4) */
};

/* A mixture of experts: sizes and how tokens are routed (model/route.h has the rules). */
struct mixture {
    uint32_t count, used;  /* experts, and those of a token; count 0: the model is dense */
    uint32_t inner;        /* of an expert's MLP */
    uint32_t shared_inner; /* of the expert that every token has; 0: none */
    enum mixture_score score;
    bool sums_to_one;                 /* the weights of a token are divided by their sum */
    float scale;                      /* of the weights */
    bool scales_inputs;               /* weights multiply what an expert reads, not what it adds */
    bool fuses_gate_up;               /* an expert may have gate and up in one matrix .. */
    bool alternates_gate_up;          /* .. row by row of them; else all of gate, then all of up */
    uint32_t groups, groups_used;     /* experts are chosen within the best groups; 1, 1: all */
    bool is_normalised;               /* the sum of a token's experts is, before it is added to h */
    float swiglu_alpha, swiglu_limit; /* gpt-oss's activation; limit 0: SiLU */
    bool *is_dense;                   /* [layers], in the config's arena: those with a plain MLP */
};

/* What layers may have of their own. */
struct layer_sizes {
    uint32_t kv_heads, head_dim, inner;
    uint32_t kv_layer;  /* whose keys and values it reads: its own, or those of one before */
    bool shares_values; /* values are made from what keys are made from: there is no v */
};

/* Queries are multiplied by 1 + beta log(1 + floor((position + offset) / length)): sharper where
 * there are more keys (Nakanishi 2025, as Llama 4 and Ministral 3 have it). */
struct query_scaling {
    double beta; /* 0: none */
    double length;
    uint32_t offset;
    bool skips_rotated; /* in layers that do not rotate alone */
};

/* Multi-head latent attention (DeepSeek-V2): keys and values of all heads come from one compressed
 * vector a token, and that is what the KV memory keeps. */
struct latent {
    uint32_t q_rank;            /* 0: queries are not compressed */
    uint32_t kv_rank;           /* 0: plain attention */
    uint32_t nope, rope, value; /* features of a head: keys without and with rotation, values */
    float norm_eps;             /* of the norms of what is compressed */
};

/* Gated delta networks (Yang et al. 2024) in place of attention in some layers: what a row leaves
 * there is a state of one size, however long it is. */
struct delta {
    struct delta_shape shape; /* key_heads 0: the model has none */
    bool *is_here;            /* [layers], in the config's arena */
    bool has_log_rate;        /* the file has the logarithm of minus the rate */
};

/* What the config says about how weights are stored (config_quant.c): hints, for shapes decide. */
struct quantisation_entry {
    struct matrix_hint hint;
    bool is_plain; /* said not to be quantised */
};

struct quantisation {
    struct matrix_hint hint;             /* of all matrices but those with an entry */
    struct map modules;                  /* "model.layers.0.mlp.up_proj" to its number in entries */
    struct quantisation_entry **entries; /* in the config's arena */
    size_t entry_count, entry_cap;
};

struct config {
    const char *family;                                        /* arch.name */
    uint32_t layers, hidden, heads, kv_heads, head_dim, inner; /* inner: of the MLP */
    uint32_t vocabulary;                                       /* rows of the embedding */
    uint32_t context;                                          /* positions */
    struct layer_sizes *layer_sizes; /* [layers], in arena; NULL: all as above */
    uint32_t layer_input;    /* features of what a token brings into each layer; 0: nothing */
    uint32_t predict_layers; /* behind the others, for further tokens; not used */
    float norm_eps;
    struct rope_config rope;
    struct rope_config window_rope; /* of the windowed layers, if they have one of their own */
    bool has_window_rope;
    bool *skips_rope;           /* [layers], in arena; NULL: all rotate */
    uint32_t window;            /* sliding window of the layers in is_windowed; 0: none */
    bool is_chunked;            /* a window is instead the chunk of positions that one is in */
    bool *is_windowed;          /* [layers], in arena; NULL: none is */
    enum activation activation; /* of the gate */
    /* Factors; 0 until config_check puts the neutral value. */
    double embed_scale, residual_scale; /* of embeddings, of what a half layer adds */
    double score_scale;                 /* of scores: 1 / sqrt(head_dim) unless it is given */
    double logit_scale;                 /* of logits */
    double score_cap, logit_cap;        /* x becomes cap tanh(x / cap); 0: none */
    struct query_scaling query_scaling;
    float norm_offset;        /* added to the weights of norms when they are read */
    bool has_layer_norm;      /* norms of h take the mean out first */
    bool is_parallel;         /* the MLP reads what attention reads */
    bool has_plain_head_norm; /* q and k normalised after rotation, without weights */
    bool ties_embeddings;     /* declared; the file decides (CASES 31) */
    bool has_qk_norm;
    bool has_whole_qk_norm; /* the norms of q and k are over all heads together */
    bool declares_attention_bias, declares_mlp_bias; /* then the tensors must be there */
    bool declares_output_bias;                       /* of families that say it apart */
    struct mixture mixture;
    struct latent latent;
    struct delta delta;
    bool has_output_gate; /* q_proj has a gate behind each head: attention's output is multiplied
                             with its sigmoid */
    struct quantisation quantisation;
    bool samples; /* generation_config suggests sampling: said in the plan; next three then */
    double temperature, top_p;
    int64_t top_k;
    struct arena arena;
};

struct arch;

/* From config.json (its text parsed) and generation_config.json (NULL when absent). name is the
 * file, for messages. */
enum status config_from_json(const struct json *config, const struct json *generation,
                             const char *name, struct config *out, const struct arch **arch,
                             struct error *err);
/* From GGUF metadata. vocabulary comes from the embedding tensor or the token list. */
enum status config_from_meta(const struct meta *meta, const char *name, struct config *out,
                             const struct arch **arch, struct error *err);
void config_release(struct config *config);
/* Whether a layer has a router and experts instead of one MLP. */
static inline bool config_is_mixture(const struct config *config, uint32_t layer) {
    const struct mixture *mixture = &config->mixture;
    return mixture->count > 0 && (mixture->is_dense == NULL || !mixture->is_dense[layer]);
}

/* What a layer has, its own or what all have. */
static inline struct layer_sizes config_layer(const struct config *config, uint32_t layer) {
    if (config->layer_sizes != NULL)
        return config->layer_sizes[layer];
    return (struct layer_sizes){.kv_heads = config->kv_heads,
                                .head_dim = config->head_dim,
                                .inner = config->inner,
                                .kv_layer = layer};
}
static inline bool config_is_windowed(const struct config *config, uint32_t layer) {
    return config->is_windowed != NULL && config->is_windowed[layer];
}
/* The largest of all layers, for memory; kv_layer means nothing there. */
struct layer_sizes config_largest(const struct config *config);
/* Whether a layer keeps a state instead of keys and values. */
static inline bool config_is_delta(const struct config *config, uint32_t layer) {
    return config->delta.shape.key_heads > 0 && config->delta.is_here[layer];
}

/* For the two readers: limits of every size and what must divide what; fills head_dim and rotary
 * where they are still 0. */
enum status config_check(struct config *config, const char *name, struct error *err);
enum status config_check_mixture(const struct config *config, const char *name, struct error *err);
enum status config_check_delta(const struct config *config, const char *name, struct error *err);
/* A whole number of config.json; absent or null gives fallback, or is refused when that is 0. */
enum status config_size(const struct json *config, const char *member, uint32_t fallback,
                        const char *name, uint32_t *out, struct error *err);
/* true or false; absent or null leaves *out alone. */
enum status config_flag(const struct json *config, const char *member, const char *name, bool *out,
                        struct error *err);
/* Rotary settings of config.json, both styles: rope_theta with rope_scaling, and rope_parameters.
 * Fills rope, and window_rope where the layer types have settings of their own; the sizes are read
 * already. */
enum status config_rope_from_json(const struct json *config, const char *name,
                                  const struct arch *arch, struct config *out, struct error *err);
/* quantization_config and quantization of a folder's config. */
enum status config_quantisation(const struct json *config, const char *name, struct config *out,
                                struct error *err);
/* What is said about a single module, NULL if nothing is. */
const struct quantisation_entry *config_module(const struct config *config, struct str module);
/* is_windowed and skips_rope: all false. */
enum status config_layer_flags(struct config *config, bool **out, struct error *err);
/* yarn's factor of cosines and sines: (0.1 mscale log(factor) + 1), 1 for factors up to 1. */
double rope_mscale(double factor, double mscale);

#endif
