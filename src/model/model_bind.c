/* Finds the tensor of every role by its published name and checks its shape against the config:
 * what disagrees is refused with both shapes, what is missing is named, what nothing uses is told
 * in one warning. Decides about the output head (CASES 31). Reads no weights but the few rows that
 * tell a head from a copy of the embedding. */
#include "base/log.h"
#include "model/model_files.h"
#include "weights/provider.h"

#include <string.h>

#define COMPARED_ROWS 64u /* of an output head and the embedding it is declared tied to */

struct binder {
    struct model *model;
    bool is_folder;
    bool has_no_prefix; /* names of safetensors begin without "model." */
    bool *used;         /* [index.count] */
    struct buf name;    /* scratch */
};

static const char *binder_file(const struct binder *binder, const struct tensor *tensor) {
    return binder->model->index.files[tensor->file]->path;
}

/* The published name of a role; false when this container has none for it. */
static bool binder_name(struct binder *binder, uint32_t layer, enum role role, struct str *out) {
    const struct role_info *info = role_get(role);
    const char *pattern = binder->is_folder ? info->safetensors : info->gguf;
    if (pattern == NULL)
        return false;
    buf_clear(&binder->name);
    role_add_name(pattern, layer, &binder->name);
    *out = buf_str(&binder->name);
    if (binder->is_folder && binder->has_no_prefix && str_starts(*out, STR("model.")))
        *out = str_cut(*out, strlen("model."), out->len);
    return true;
}

/* "[64, 32]" */
static void shape_text(const uint64_t *shape, uint32_t dims, struct buf *out) {
    buf_add_char(out, '[');
    for (uint32_t i = 0; i < dims; i++)
        buf_printf(out, "%s%llu", i > 0 ? ", " : "", (unsigned long long)shape[i]);
    buf_add_char(out, ']');
}

static enum status binder_check_shape(struct binder *binder, const struct tensor *tensor,
                                      enum role role, struct error *err) {
    uint64_t rows, columns;
    arch_shape(&binder->model->config, role, &rows, &columns);
    uint64_t expected[2] = {rows, columns};
    uint32_t dims = columns == 0 ? 1 : 2;
    if (tensor->dims == dims && tensor->shape[0] == rows &&
        (dims == 1 || tensor->shape[1] == columns))
        return SL_OK;
    struct buf found, wanted;
    buf_init(&found);
    buf_init(&wanted);
    shape_text(tensor->shape, tensor->dims, &found);
    shape_text(expected, dims, &wanted);
    const char *file = binder_file(binder, tensor);
    if (role == ROLE_EMBED && tensor->dims == 2 && tensor->shape[1] == columns)
        error_set(err, SL_ERR_ENV,
                  "%s: tensor %.*s has %llu rows, but the vocabulary is said to have %llu tokens",
                  file, STR_ARG(tensor->name), (unsigned long long)tensor->shape[0],
                  (unsigned long long)rows);
    else
        error_set(err, SL_ERR_ENV, "%s: tensor %.*s has the shape %s, the config asks for %s", file,
                  STR_ARG(tensor->name), found.data != NULL ? found.data : "?",
                  wanted.data != NULL ? wanted.data : "?");
    buf_release(&found);
    buf_release(&wanted);
    return SL_ERR_ENV;
}

static enum status binder_missing(struct binder *binder, struct str name, struct error *err) {
    const struct model *model = binder->model;
    const struct tensor_unsupported *other = index_unsupported_find(&model->index, name);
    if (other != NULL)
        return error_set(err, SL_ERR_ENV, "%s: tensor %.*s has type %.*s, which is not supported",
                         model->index.files[other->file]->path, STR_ARG(name),
                         STR_ARG(other->type));
    return error_set(err, SL_ERR_ENV, "%s: tensor %.*s is missing", model->path, STR_ARG(name));
}

static enum status binder_role(struct binder *binder, uint32_t row, enum role role,
                               struct error *err) {
    struct model *model = binder->model;
    const struct role_info *info = role_get(role);
    uint32_t layer = row == 0 ? 0 : row - 1;
    struct str name;
    enum arch_need need = model->arch->need(&model->config, role);
    if (info->is_per_layer != (row > 0) || need == ARCH_ABSENT)
        return SL_OK;
    if (!binder_name(binder, layer, role, &name)) {
        must(need == ARCH_OPTIONAL); /* a family needs only what its containers can name */
        return SL_OK;
    }
    TRY(buf_status(&binder->name, "a tensor's name", err));
    const struct tensor *tensor = index_find(&model->index, name);
    bool is_there = tensor != NULL || index_unsupported_find(&model->index, name) != NULL;
    if (tensor == NULL && (is_there || need == ARCH_REQUIRED))
        return binder_missing(binder, name, err);
    if (tensor == NULL) {
        /* Optional: all layers have it or none. */
        if (row > 1 && model->tensors[ROLE_COUNT + (size_t)role] != NULL)
            return error_set(err, SL_ERR_ENV,
                             "%s: tensor %.*s is missing, but the layers before have it",
                             model->path, STR_ARG(name));
        return SL_OK;
    }
    if (row > 1 && model->tensors[ROLE_COUNT + (size_t)role] == NULL)
        return error_set(err, SL_ERR_ENV,
                         "%s: there is a tensor %.*s, but the layers before have none", model->path,
                         STR_ARG(name));
    TRY(binder_check_shape(binder, tensor, role, err));
    binder->used[tensor - model->index.tensors] = true;
    model->tensors[(size_t)row * ROLE_COUNT + role] = tensor;
    return SL_OK;
}

/* Whether rows of head and embedding that lie evenly over both hold the same bytes. */
static enum status binder_same_rows(const struct model *model, const struct tensor *head,
                                    const struct tensor *embed, bool *is_same, struct error *err) {
    *is_same = false;
    if (head->dtype != embed->dtype || head->bytes != embed->bytes)
        return SL_OK;
    uint32_t rows = model->config.vocabulary;
    uint32_t count = rows < COMPARED_ROWS ? rows : COMPARED_ROWS;
    size_t row_bytes = (size_t)(head->bytes / rows), bytes;
    uint8_t *both = size_mul(row_bytes, 2, &bytes) ? mem_new(bytes, 1) : NULL;
    if (both == NULL)
        return error_memory(err, 2 * row_bytes, "two rows of the output head");
    enum status status = SL_OK;
    *is_same = true;
    for (uint32_t i = 0; i < count && status == SL_OK && *is_same; i++) {
        uint32_t row = (uint32_t)((uint64_t)i * rows / count);
        status = rows_read(&model->index, head, &row, 1, both, err);
        if (status == SL_OK)
            status = rows_read(&model->index, embed, &row, 1, both + row_bytes, err);
        *is_same = status == SL_OK && memcmp(both, both + row_bytes, row_bytes) == 0;
    }
    mem_free(both);
    return status;
}

/* A head in the file is used, declared tied or not: if it is a copy of the embedding nothing
 * changes, and if it differs the declaration is wrong. */
static enum status binder_head(struct binder *binder, struct error *err) {
    struct model *model = binder->model;
    const struct tensor *head = model->tensors[ROLE_HEAD];
    model->has_own_head = head != NULL;
    if (!binder->is_folder)
        return SL_OK; /* GGUF declares nothing: no output.weight means tied */
    if (head == NULL && !model->config.ties_embeddings)
        log_warning("%s: there is no lm_head.weight although the config does not tie it to the "
                    "embedding; the embedding is used",
                    model->path);
    if (head != NULL && model->config.ties_embeddings) {
        bool is_same = false;
        TRY(binder_same_rows(model, head, model->tensors[ROLE_EMBED], &is_same, err));
        if (!is_same)
            log_warning("%s: lm_head.weight differs from the embedding although the config ties "
                        "them; lm_head.weight is used",
                        model->path);
    }
    return SL_OK;
}

/* Left-overs of training and tables that follow from the config. */
static bool binder_is_harmless(struct str name) {
    static const char *const endings[] = {"rotary_emb.inv_freq", "attn_rot_embd.weight",
                                          "rope.freqs", NULL};
    for (const char *const *ending = endings; *ending != NULL; ending++)
        if (str_ends(name, str_from(*ending)))
            return true;
    return false;
}

static void binder_warn_unused(const struct binder *binder) {
    const struct index *index = &binder->model->index;
    size_t count = 0;
    struct buf names;
    buf_init(&names);
    for (size_t i = 0; i < index->count + index->unsupported_count; i++) {
        bool is_read = i < index->count;
        struct str name =
            is_read ? index->tensors[i].name : index->unsupported[i - index->count].name;
        if ((is_read && binder->used[i]) || binder_is_harmless(name))
            continue;
        if (count++ < 3)
            buf_printf(&names, "%s%.*s", count > 1 ? ", " : "", STR_ARG(name));
    }
    if (count > 0)
        log_warning("%s: %zu tensor%s in the file %s not used: %s%s", binder->model->path, count,
                    count > 1 ? "s" : "", count > 1 ? "are" : "is",
                    names.data != NULL ? names.data : "", count > 3 ? ", ..." : "");
    buf_release(&names);
}

/* A GGUF file says how large the vocabulary is by its embedding; the list of tokens, where there is
 * one, must agree. */
static enum status binder_vocabulary(struct binder *binder, struct error *err) {
    struct model *model = binder->model;
    struct str name;
    must(binder_name(binder, 0, ROLE_EMBED, &name));
    TRY(buf_status(&binder->name, "a tensor's name", err));
    const struct tensor *embed = index_find(&model->index, name);
    if (model->config.vocabulary != 0 || embed == NULL || embed->dims != 2)
        return SL_OK;
    if (embed->shape[0] == 0 || embed->shape[0] > SL_VOCABULARY_MAX)
        return error_set(err, SL_ERR_ENV, "%s: tensor %.*s has %llu rows, must have 1 to %u",
                         binder_file(binder, embed), STR_ARG(name),
                         (unsigned long long)embed->shape[0], SL_VOCABULARY_MAX);
    model->config.vocabulary = (uint32_t)embed->shape[0];
    return SL_OK;
}

static enum status binder_run(struct binder *binder, struct error *err) {
    struct model *model = binder->model;
    size_t rows = (size_t)model->config.layers + 1;
    model->tensors = mem_new(rows * ROLE_COUNT, sizeof *model->tensors);
    binder->used = mem_new(model->index.count, sizeof *binder->used);
    if (model->tensors == NULL || binder->used == NULL)
        return error_memory(err, rows * ROLE_COUNT * sizeof *model->tensors, "the tensors' roles");
    binder->has_no_prefix = index_find(&model->index, STR("model.embed_tokens.weight")) == NULL &&
                            index_find(&model->index, STR("embed_tokens.weight")) != NULL;
    TRY(binder_vocabulary(binder, err));
    for (uint32_t row = 0; row < rows; row++)
        for (unsigned role = 0; role < ROLE_COUNT; role++)
            TRY(binder_role(binder, row, (enum role)role, err));
    TRY(binder_head(binder, err));
    binder_warn_unused(binder);
    return SL_OK;
}

enum status model_bind(struct model *model, const struct model_files *files, struct error *err) {
    struct binder binder = {.model = model, .is_folder = files->is_folder};
    buf_init(&binder.name);
    enum status status = binder_run(&binder, err);
    mem_free(binder.used);
    buf_release(&binder.name);
    return status;
}
