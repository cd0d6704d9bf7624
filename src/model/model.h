/* A model as it lies on disk: container, index, config, text layer, stop set, and which tensor
 * plays which role. model_open reads headers and the tokenizer, no weights. Constant once open; any
 * thread. */
#ifndef SLUICE_MODEL_MODEL_H
#define SLUICE_MODEL_MODEL_H

#include "model/arch.h"
#include "text/chat.h"
#include "text/tokenizer.h"
#include "weights/container.h"
#include "weights/layout.h"

struct eos {
    uint32_t id;
    char source[96]; /* "generation_config.json", "config.json, tokenizer_config.json eos_token",
                        "tokenizer.ggml.eos_token_id", ... */
};

struct model {
    char *path;
    const struct container
        *container; /* NULL when only the text layer was opened and there are no weights */
    struct index index;
    struct meta meta;
    struct config config;
    const struct arch *arch;
    const struct tensor **vectors;  /* [(layers + 1) x ROLE_COUNT]; row 0: whole model, row l + 1:
                                       layer l; NULL: absent, or a matrix */
    const struct matrix **matrices; /* the same for matrices, in arena; of a stack the first */
    const struct matrix **experts;  /* [layers x experts x ROLE_EXPERT_COUNT]: those that have
                                       tensors of their own; NULL: stacks in tensors, or none */
    size_t other_tensors; /* of the other parts of a multimodal model, which are not used */
    bool has_own_head;

    struct tokenizer *tokenizer;    /* NULL: none that can be used (never after MODEL_TEXT); rows of
                                       text are refused then, ids still run */
    struct error tokenizer_error;   /* why; status SL_OK when there is a tokenizer */
    struct template *template;      /* NULL: none; chat rows are refused then */
    struct template *tool_template; /* for rows with tools, when there is another one; else NULL */
    struct str template_text;       /* of template, borrowed; empty: none */
    char template_source[96];       /* "chat_template.jinja", "tokenizer_config.json",
                                       "tokenizer.chat_template", "none" */
    struct error template_error;    /* why there is no template although the files have one; status
                                       SL_OK otherwise */
    struct chat_tokens chat_tokens;

    struct eos eos[SL_EOS_MAX];
    size_t eos_count;
    struct arena arena; /* strings of the text layer */
    struct buf *texts;  /* file texts that trees borrow from */
    size_t text_count;
};

enum model_parts {
    MODEL_TEXT, /* tokenizer and template alone (render, tokenize): no config, no weights needed */
    MODEL_ALL,
};

/* SL_ERR_ENV when path is missing, not a model, damaged or not supported; the message names the
 * file. Warns (log) about tensors that nothing uses, about a head that differs from a declared tie,
 * about stop ids outside the vocabulary. */
enum status model_open(const char *path, enum model_parts parts, struct model **out,
                       struct error *err);
void model_close(struct model *model); /* accepts NULL */

/* Matrix of a role, of a stack of experts the first one; layer is ignored for roles of the whole
 * model. NULL when absent. ROLE_HEAD of a tied model is the embedding. */
const struct matrix *model_matrix(const struct model *model, uint32_t layer, enum role role);
/* The matrix of a role as an item of the layout (an expert may be a slice of a stack); expert is 0
 * for roles that experts do not have. False when absent. */
bool model_item(const struct model *model, uint32_t layer, uint32_t expert, enum role role,
                struct layout_item *item);
bool model_is_eos(const struct model *model, uint32_t id);
uint64_t model_weights_bytes(const struct model *model);
/* Bytes of all bound weights by format, scales with their numbers. */
void model_format_bytes(const struct model *model, uint64_t bytes[DTYPE_COUNT]);
/* "q4_1" or "q4_1 + q8_0 embeddings": the formats by bytes, largest first, with their shares. */
void model_formats(const struct model *model, struct buf *out);
/* Items of the pass in order of use: what embed uses; of each layer attention and MLP, or
 * attention, router, shared expert, then each expert from a block of its own on, and what finish
 * uses; at last the head. Keys are role_key's. Owned by the caller (mem_free). */
enum status model_layout_items(const struct model *model, struct layout_item **items, size_t *count,
                               struct error *err);

#endif
