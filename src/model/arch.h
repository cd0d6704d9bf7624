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

enum arch_need { ARCH_ABSENT, ARCH_OPTIONAL, ARCH_REQUIRED };

struct arch {
    const char *name;              /* "llama" */
    const char *const *hf_types;   /* model_type values of config.json, NULL-terminated */
    const char *const *gguf_names; /* general.architecture values, NULL-terminated */
    bool gguf_is_permuted; /* llama.cpp permutes q and k rows: rope pairs are adjacent there */
    bool has_qk_norm;      /* RMS norms of each head of q and k */
    bool ties_by_default;  /* tie_word_embeddings when the config leaves it out */
    /* Fills what is special to the family; common members are filled before, head_dim
     * (0 where the file leaves it out) included. NULL: nothing is. */
    enum status (*configure_json)(const struct json *config, const char *name, struct config *out,
                                  struct error *err);
    /* Which roles a layer has, and the shape of each: [rows] or [rows, columns] from the config. */
    enum arch_need (*need)(const struct config *config, enum role role);
    /* Matrices of a layer in the order of use, ROLE_COUNT-terminated. */
    const enum role *attend_order, *mlp_order;
    enum status (*embed)(struct step *step, struct error *err);
    enum status (*attend)(struct step *step, uint32_t layer, struct error *err);
    enum status (*mlp)(struct step *step, uint32_t layer, struct error *err);
    enum status (*head)(struct step *step, struct error *err);
};

extern const struct arch arch_llama, arch_mistral, arch_qwen2, arch_qwen3;
const struct arch *arch_from_hf(struct str model_type); /* NULL when unknown */
const struct arch *arch_from_gguf(struct str name);     /* NULL when unknown */
/* "llama, mistral, ..." for messages. */
void arch_list(struct buf *out);
/* Expected shape of a role's tensor: rows and columns (columns 0: a vector of rows values). */
void arch_shape(const struct config *config, enum role role, uint64_t *rows, uint64_t *columns);

#endif
