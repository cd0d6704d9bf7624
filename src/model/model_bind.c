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
    /* Names of safetensors begin with this in place of role.c's "model.", and the head's with
     * head_prefix before it. */
    const char *prefix, *head_prefix;
    bool *used;      /* [index.count] */
    struct buf name; /* scratch */
};

static const char *binder_file(const struct binder *binder, const struct tensor *tensor) {
    return binder->model->index.files[tensor->file]->path;
}

/* The row of the family's own names, NULL when it has none for this role. */
static const struct arch_name *binder_own_name(const struct binder *binder, enum role role) {
    const struct arch *arch = binder->model->arch;
    for (size_t i = 0; i < arch->name_count; i++)
        if (arch->names[i].role == role)
            return &arch->names[i];
    return NULL;
}

static const char *binder_pattern(const struct binder *binder, enum role role) {
    const struct role_info *info = role_get(role);
    const struct arch_name *own = binder_own_name(binder, role);
    const char *name = own == NULL ? NULL : (binder->is_folder ? own->safetensors : own->gguf);
    if (name != NULL)
        return name;
    return binder->is_folder ? info->safetensors : info->gguf;
}

/* The published name of a role; false when this container has none for it. */
static bool binder_name(struct binder *binder, uint32_t layer, enum role role, struct str *out) {
    static const char model[] = "model.";
    const char *pattern = binder_pattern(binder, role);
    if (pattern == NULL)
        return false;
    buf_clear(&binder->name);
    if (binder->is_folder && str_starts(str_from(pattern), STR("model."))) {
        pattern += strlen(model);
        buf_add(&binder->name, str_from(binder->prefix));
    } else if (binder->is_folder) {
        buf_add(&binder->name, str_from(binder->head_prefix));
    }
    role_add_name(pattern, layer, &binder->name);
    *out = buf_str(&binder->name);
    return true;
}

/* Where the rows of a role lie in its tensor: families may keep several roles in one. */
struct slice {
    uint64_t first, rows, total;
};

static struct slice binder_slice(const struct binder *binder, enum role role) {
    const struct arch *arch = binder->model->arch;
    const struct arch_name *own = binder_own_name(binder, role);
    struct slice slice = {0};
    uint64_t rows, columns;
    arch_shape(&binder->model->config, role, &slice.rows, &columns);
    for (size_t i = 0; own != NULL && i < arch->name_count; i++) {
        if (strcmp(arch->names[i].safetensors, own->safetensors) != 0)
            continue;
        arch_shape(&binder->model->config, arch->names[i].role, &rows, &columns);
        if (&arch->names[i] < own)
            slice.first += rows;
        slice.total += rows;
    }
    if (slice.total == 0)
        slice.total = slice.rows;
    return slice;
}

/* The rows of a role as a tensor of their own. */
static enum status binder_cut(struct binder *binder, const struct tensor *whole,
                              const struct slice *slice, const struct tensor **out,
                              struct error *err) {
    struct tensor *part = arena_take(&binder->model->arena, sizeof *part);
    uint64_t row_bytes = whole->bytes / slice->total;
    if (part == NULL)
        return error_memory(err, sizeof *part, "a part of a tensor");
    *part = *whole;
    part->shape[0] = slice->rows;
    part->offset += slice->first * row_bytes;
    part->bytes = slice->rows * row_bytes;
    *out = part;
    return SL_OK;
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
    rows = binder_slice(binder, role).total;
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
    struct slice slice = binder_slice(binder, role);
    if (slice.rows != slice.total)
        TRY(binder_cut(binder, tensor, &slice, &tensor, err));
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

/* Tensors of the other parts of a multimodal model. */
static bool binder_is_elsewhere(const struct binder *binder, struct str name) {
    return binder->is_folder && strlen(binder->prefix) > strlen("model.") &&
           !str_starts(name, str_from(binder->prefix));
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
        if ((is_read && binder->used[i]) || binder_is_harmless(name) ||
            binder_is_elsewhere(binder, name))
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

/* Published prefixes: of text models, of bare ones without a head, and of text models inside
 * multimodal ones, older and newer style. */
static enum status binder_find_prefix(struct binder *binder, struct error *err) {
    static const struct {
        const char *prefix, *head_prefix;
    } styles[] = {{"model.", ""},
                  {"", ""},
                  {"language_model.model.", "language_model."},
                  {"model.language_model.", ""},
                  {"model.text_model.", ""}};
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
        struct str name;
        binder->prefix = styles[i].prefix;
        binder->head_prefix = styles[i].head_prefix;
        must(binder_name(binder, 0, ROLE_EMBED, &name));
        TRY(buf_status(&binder->name, "a tensor's name", err));
        if (index_find(&binder->model->index, name) != NULL)
            return SL_OK;
    }
    binder->prefix = styles[0].prefix; /* where the embedding will be missed */
    binder->head_prefix = styles[0].head_prefix;
    return SL_OK;
}

static enum status binder_run(struct binder *binder, struct error *err) {
    struct model *model = binder->model;
    size_t rows = (size_t)model->config.layers + 1;
    model->tensors = mem_new(rows * ROLE_COUNT, sizeof *model->tensors);
    binder->used = mem_new(model->index.count, sizeof *binder->used);
    if (model->tensors == NULL || binder->used == NULL)
        return error_memory(err, rows * ROLE_COUNT * sizeof *model->tensors, "the tensors' roles");
    if (binder->is_folder)
        TRY(binder_find_prefix(binder, err));
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
