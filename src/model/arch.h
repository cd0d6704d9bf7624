/* Architectures: the mathematics of a family, between leases. One row of the table and one arch_*.c
 * a family.
 *
 * The functions compute for all tokens of a pass and reach weights only through step.h
 * (step_product walks the pieces of a matrix as their blocks arrive). pass.c owns the loops over
 * layers. */
#ifndef SLUICE_MODEL_ARCH_H
#define SLUICE_MODEL_ARCH_H

#include "model/config.h"
#include "model/role.h"

struct step;
struct meta_reader;

enum arch_need { ARCH_ABSENT, ARCH_OPTIONAL, ARCH_REQUIRED };

/* What a family's config class puts for members that its published files leave out; 0: nothing, a
 * missing member is refused (rope theta 10000, norm epsilon 1e-6). */
struct arch_defaults {
    double rope_theta, norm_eps;
    uint32_t vocabulary, heads, kv_heads, head_dim, context, inner;
    /* Only inside a multimodal config, whose text parts leave out what is as in the class. */
    uint32_t part_layers, part_hidden, part_inner, part_heads, part_kv_heads;
};

/* Names that differ from role.c's table. Roles that share a name lie in one tensor, their rows one
 * after the other in the order of the list. */
struct arch_name {
    enum role role;
    const char *safetensors, *gguf; /* NULL: as in the table */
};

/* The mathematics of a family, from embedding to logits. */
struct arch_math {
    /* Matrices of a layer in the order of use, ROLE_COUNT-terminated. */
    const enum role *attend_order, *mlp_order;
    /* Those of a layer with experts: first what every token uses, then what each expert has. NULL
     * where the family has none, as route and expert. */
    const enum role *route_order, *expert_order;
    /* Matrices that embed uses, and those of what finish does; NULL: none. */
    const enum role *embed_order, *finish_order;
    enum status (*embed)(struct step *step, struct error *err);
    enum status (*attend)(struct step *step, uint32_t layer, struct error *err);
    enum status (*mlp)(struct step *step, uint32_t layer, struct error *err);
    /* Chooses the experts of every token (step_route) and computes what all tokens share. */
    enum status (*route)(struct step *step, uint32_t layer, struct error *err);
    /* One expert, for the tokens routed to it. */
    enum status (*expert)(struct step *step, uint32_t layer, uint32_t expert, struct error *err);
    /* What a layer does after its MLP or experts; NULL: nothing. */
    enum status (*finish)(struct step *step, uint32_t layer, struct error *err);
    enum status (*head)(struct step *step, struct error *err);
};

struct arch {
    const char *name;              /* "llama" */
    const char *const *hf_types;   /* model_type values of config.json, NULL-terminated */
    const char *const *gguf_names; /* general.architecture values, NULL-terminated */
    bool gguf_is_permuted;      /* llama.cpp permutes q and k rows: rope pairs are adjacent there */
    bool has_qk_norm;           /* RMS norms of each head of q and k */
    bool ties_by_default;       /* tie_word_embeddings when the config leaves it out */
    bool has_window_rope;       /* windowed layers may rotate in another way */
    bool has_partial_rope;      /* partial_rotary_factor below 1 is understood */
    bool has_layer_sizes;       /* sizes in GGUF metadata may differ between layers */
    enum activation activation; /* when the config leaves it out */
    const char *const *settings;   /* members of the readers' lists that this family understands,
                                      NULL-terminated; NULL: none of them */
    const struct arch_name *names; /* [name_count] */
    size_t name_count;
    struct arch_defaults defaults;
    /* Fills what is special to the family; common members are filled before, head_dim
     * (0 where the file leaves it out) included. NULL: nothing is. */
    enum status (*configure_json)(const struct json *config, const char *name, struct config *out,
                                  struct error *err);
    /* The same from GGUF metadata: head_dim, rope and the factors are filled before. NULL: nothing.
     */
    enum status (*configure_meta)(struct meta_reader *reader, struct config *out,
                                  struct error *err);
    /* Which roles a layer has, and the shape of each: [rows] or [rows, columns] from the config. */
    enum arch_need (*need)(const struct config *config, enum role role);
    const struct arch_math *math; /* one that families share, or its own */
};

extern const struct arch arch_llama, arch_mistral, arch_qwen2, arch_qwen3;
extern const struct arch arch_gemma2, arch_gemma3, arch_phi3, arch_olmo2, arch_smollm3,
    arch_granite;
extern const struct arch arch_mixtral, arch_qwen2_moe, arch_qwen3_moe, arch_gpt_oss;
extern const struct arch arch_deepseek, arch_glm4_moe;
extern const struct arch arch_minimax_m2, arch_llama4, arch_gemma4;
extern const struct arch arch_glm4, arch_seed_oss, arch_exaone4, arch_cohere2, arch_ministral3;
extern const struct arch arch_qwen3_next, arch_qwen3_5, arch_qwen3_5_moe;
const struct arch *arch_from_hf(struct str model_type); /* NULL when unknown */
const struct arch *arch_from_gguf(struct str name);     /* NULL when unknown */
/* Whether the family understands a member of the readers' lists. */
bool arch_has_setting(const struct arch *arch, const char *member);
/* "llama, mistral, ..." for messages. */
void arch_list(struct buf *out);
/* arch->need, and ARCH_ABSENT for what a layer of this kind (dense, or a mixture) lacks. */
enum arch_need arch_layer_need(const struct arch *arch, const struct config *config, uint32_t layer,
                               enum role role);
/* Expected shape of a role's tensor in a layer (any, for roles of the whole model): rows and
 * columns (columns 0: a vector of rows values). What an expert has: of one of them. */
void arch_shape(const struct config *config, uint32_t layer, enum role role, uint64_t *rows,
                uint64_t *columns);

#endif
