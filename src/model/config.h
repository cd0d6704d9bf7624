/* What a model is: sizes and settings read from config.json or from GGUF metadata, in one form for
 * both. A setting that is not understood and would change the answer refuses the model, naming it.
 * Constant once read. */
#ifndef SLUICE_MODEL_CONFIG_H
#define SLUICE_MODEL_CONFIG_H

#include "base/json.h"
#include "model/role.h"
#include "weights/meta.h"

#define SL_LAYERS_MAX 1024u
#define SL_EOS_MAX 64u
#define SL_FEATURES_MAX (1u << 24) /* hidden, inner, heads x head_dim */
#define SL_VOCABULARY_MAX (1u << 26)
#define SL_CONTEXT_MAX (1u << 30) /* positions; their angles stay within num_sincos's range */

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

/* Rotary embedding (Su et al. 2021); llama3: the smoothed scaling of Llama 3.1's published config;
 * yarn: Peng et al. 2023 as transformers has it. */
struct rope_config {
    enum rope_kind kind;
    double theta;
    double factor;                            /* linear, llama3, yarn */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double original_context;                  /* llama3, yarn */
    double beta_fast, beta_slow;              /* yarn */
    bool truncates;                           /* yarn: the borders of its ramp are whole numbers */
    double magnitude;                         /* of cosines and sines; 0: 1 */
    double mscale_all_dim; /* yarn: what DeepSeek's scores are scaled by; 0: nothing */
    double share;          /* of a head that is rotated, where rotary is not known; 0: all */
    uint32_t rotary;       /* features of a head that are rotated; even */
    bool is_interleaved;
};

/* How a router's outputs become scores. */
enum mixture_score {
    MIXTURE_SOFTMAX,        /* over all experts, then the largest */
    MIXTURE_SOFTMAX_CHOSEN, /* the largest, then a softmax over them */
    MIXTURE_SIGMOID,        /* each by itself (DeepSeek-V3) */
};

/* A mixture of experts: sizes and how tokens are routed (model/route.h has the rules). */
struct mixture {
    uint32_t count, used;  /* experts, and those of a token; count 0: the model is dense */
    uint32_t inner;        /* of an expert's MLP */
    uint32_t shared_inner; /* of the expert that every token has; 0: none */
    enum mixture_score score;
    bool sums_to_one;                 /* the weights of a token are divided by their sum */
    float scale;                      /* of the weights */
    uint32_t groups, groups_used;     /* experts are chosen within the best groups; 1, 1: all */
    float swiglu_alpha, swiglu_limit; /* gpt-oss's activation; limit 0: SiLU */
    bool *is_dense;                   /* [layers], in the config's arena: those with a plain MLP */
};

/* Multi-head latent attention (DeepSeek-V2): keys and values of all heads come from one compressed
 * vector a token, and that is what the KV memory keeps. */
struct latent {
    uint32_t q_rank;            /* 0: queries are not compressed */
    uint32_t kv_rank;           /* 0: plain attention */
    uint32_t nope, rope, value; /* features of a head: keys without and with rotation, values */
};

struct config {
    const char *family;                                        /* arch.name */
    uint32_t layers, hidden, heads, kv_heads, head_dim, inner; /* inner: of the MLP */
    uint32_t vocabulary;                                       /* rows of the embedding */
    uint32_t context;                                          /* positions */
    float norm_eps;
    struct rope_config rope;
    uint32_t window;      /* sliding window of the layers in window_layers; 0: none */
    bool *is_windowed;    /* [layers], in arena; NULL: none is */
    bool ties_embeddings; /* declared; the file decides (CASES 31) */
    bool has_qk_norm;
    bool declares_attention_bias, declares_mlp_bias; /* then the tensors must be there */
    struct mixture mixture;
    struct latent latent;
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

/* For the two readers: limits of every size and what must divide what; fills head_dim and rotary
 * where they are still 0. */
enum status config_check(struct config *config, const char *name, struct error *err);
enum status config_check_mixture(const struct config *config, const char *name, struct error *err);
/* A whole number of config.json; absent or null gives fallback, or is refused when that is 0. */
enum status config_size(const struct json *config, const char *member, uint32_t fallback,
                        const char *name, uint32_t *out, struct error *err);
/* Rotary settings of config.json, both styles: rope_theta with rope_scaling, and rope_parameters.
 */
enum status config_rope_from_json(const struct json *config, const char *name,
                                  struct rope_config *out, struct error *err);

#endif
