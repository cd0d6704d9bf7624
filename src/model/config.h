/* What a model is: sizes and settings read from config.json or from GGUF metadata, in one form for
 * both. A setting that is not understood and would change the answer refuses the model, naming it.
 * Constant once read. */
#ifndef SLUICE_MODEL_CONFIG_H
#define SLUICE_MODEL_CONFIG_H

#include "base/json.h"
#include "weights/meta.h"

#define SL_LAYERS_MAX 1024u
#define SL_EOS_MAX 64u
#define SL_FEATURES_MAX (1u << 24) /* hidden, inner, heads x head_dim */
#define SL_VOCABULARY_MAX (1u << 26)
#define SL_CONTEXT_MAX (1u << 30) /* positions; their angles stay within num_sincos's range */

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 };

/* Rotary embedding (Su et al. 2021); llama3: the smoothed scaling of Llama 3.1's published config.
 */
struct rope_config {
    enum rope_kind kind;
    double theta;
    double factor;                            /* linear, llama3 */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double original_context;                  /* llama3 */
    uint32_t rotary;                          /* features of a head that are rotated; even */
    bool is_interleaved;
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

/* For the two readers: limits of every size and what must divide what; fills head_dim and rotary
 * where they are still 0. */
enum status config_check(struct config *config, const char *name, struct error *err);
/* Rotary settings of config.json, both styles: rope_theta with rope_scaling, and rope_parameters.
 */
enum status config_rope_from_json(const struct json *config, const char *name,
                                  struct rope_config *out, struct error *err);

#endif
