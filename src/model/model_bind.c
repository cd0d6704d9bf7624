/* Finds the tensor of every role by its published name and checks its shape against the config:
 * what disagrees is refused with both shapes, what is missing is named, what nothing uses is told
 * in one warning. Reads no weights. */
#include "base/log.h"
#include "model/model_files.h"
#include "weights/provider.h"

#include <string.h>

struct binder {
    struct model *model;
    bool is_folder;
    /* Names of safetensors begin with this in place of role.c's "model.", and the head's with
     * head_prefix before it. */
    const char *prefix, *head_prefix;
    bool *used;             /* [index.count] */
    struct buf plain, name; /* scratch: a name of the table, and as the file has it */
};

/* What is looked for: a role of layer row - 1 (row 0: of the whole model), and of one expert. */
struct binder_what {
    uint32_t row;
    enum role role;
    uint32_t expert;
    uint64_t stack; /* experts in the tensor; 0: it is no stack */
};

static uint32_t binder_layer(const struct binder_what *what) {
    return what->row > 0 ? what->row - 1 : 0;
}

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

/* A published name of a role, the choice-th; false when this container has no more of them. */
static bool binder_name(struct binder *binder, const struct binder_what *what, uint32_t choice,
                        struct str *out) {
    const char *pattern = binder_pattern(binder, what->role);
    uint32_t layer = binder_layer(what);
    buf_clear(&binder->plain);
    buf_clear(&binder->name);
    if (pattern == NULL || !role_add_name(pattern, choice, layer, what->expert, &binder->plain))
        return false;
    struct str plain = buf_str(&binder->plain);
    if (binder->is_folder && str_starts(plain, STR("model."))) {
        buf_add(&binder->name, str_from(binder->prefix));
        plain = str_cut(plain, strlen("model."), plain.len);
    } else if (binder->is_folder) {
        buf_add(&binder->name, str_from(binder->head_prefix));
    }
    buf_add(&binder->name, plain);
    *out = buf_str(&binder->name);
    return true;
}

/* Where the rows of a role lie in its tensor: families may keep several roles in one. */
struct slice {
    uint64_t first, rows, total;
};

/* Gate and up of each expert may lie in one tensor, which its name says. */
static bool binder_is_joint(struct str name) {
    return str_ends(name, STR("experts.gate_up_proj")) ||
           str_ends(name, STR("ffn_gate_up_exps.weight"));
}

static struct slice binder_slice(const struct binder *binder, uint32_t layer, enum role role,
                                 const struct tensor *tensor) {
    const struct arch *arch = binder->model->arch;
    const struct arch_name *own = binder_own_name(binder, role);
    struct slice slice = {0};
    uint64_t rows, columns;
    arch_shape(&binder->model->config, layer, role, &slice.rows, &columns);
    for (size_t i = 0; own != NULL && i < arch->name_count; i++) {
        if (strcmp(arch->names[i].safetensors, own->safetensors) != 0)
            continue;
        arch_shape(&binder->model->config, layer, arch->names[i].role, &rows, &columns);
        if (&arch->names[i] < own)
            slice.first += rows;
        slice.total += rows;
    }
    if (slice.total == 0)
        slice.total = slice.rows;
    if ((role == ROLE_EXPERT_GATE || role == ROLE_EXPERT_UP) && binder_is_joint(tensor->name)) {
        slice.total = 2 * slice.rows;
        slice.first = role == ROLE_EXPERT_UP ? slice.rows : 0;
    }
    return slice;
}

/* The tensor under the first of its names that is in the files; *name is that name, or the first
 * one when there is none. NULL: none, or of a kind that is not read (then *is_there). */
static const struct tensor *binder_find(struct binder *binder, const struct binder_what *what,
                                        struct str *name, bool *is_there) {
    const struct index *index = &binder->model->index;
    *is_there = false;
    for (uint32_t choice = 0; binder_name(binder, what, choice, name); choice++) {
        const struct tensor *tensor = index_find(index, *name);
        *is_there = tensor != NULL || index_unsupported_find(index, *name) != NULL;
        if (*is_there)
            return tensor;
    }
    if (!binder_name(binder, what, 0, name))
        *name = STR("");
    return NULL;
}

/* "[64, 32]" */
static void shape_text(const uint64_t *shape, uint32_t dims, struct buf *out) {
    buf_add_char(out, '[');
    for (uint32_t i = 0; i < dims; i++)
        buf_printf(out, "%s%llu", i > 0 ? ", " : "", (unsigned long long)shape[i]);
    buf_add_char(out, ']');
}

static uint64_t tensor_rows(const struct tensor *tensor) {
    uint64_t rows = 1; /* the index has checked the product */
    for (uint32_t i = 0; i + 1 < tensor->dims; i++)
        rows *= tensor->shape[i];
    return rows;
}

static uint64_t tensor_values(const struct tensor *tensor) {
    return tensor->dims == 0 ? 0 : tensor_rows(tensor) * tensor->shape[tensor->dims - 1];
}

/* A stack may come with its experts, or heads, as a dimension of their own; one row as a vector. */
static bool binder_has_shape(const struct tensor *tensor, const struct binder_what *what,
                             uint64_t rows, uint64_t columns) {
    bool is_stack = what->stack != 0 || what->role == ROLE_K_B || what->role == ROLE_V_B;
    if (columns == 0 && role_get(what->role)->is_flat)
        return tensor_values(tensor) == rows;
    if (columns == 0)
        return tensor->dims == 1 && tensor->shape[0] == rows;
    if (tensor->dims == 1)
        return rows == 1 && tensor->shape[0] == columns;
    if (tensor->dims < 2 || tensor->dims > (is_stack ? 3u : 2u) ||
        tensor->shape[tensor->dims - 1] != columns || tensor_rows(tensor) != rows)
        return false;
    return tensor->dims == 2 || what->stack == 0 || tensor->shape[0] == what->stack;
}

static enum status binder_check_shape(struct binder *binder, const struct tensor *tensor,
                                      const struct binder_what *what, struct error *err) {
    uint64_t rows, columns;
    enum role role = what->role;
    uint32_t layer = binder_layer(what);
    arch_shape(&binder->model->config, layer, role, &rows, &columns);
    rows = binder_slice(binder, layer, role, tensor).total;
    if (what->stack != 0)
        rows *= what->stack;
    uint64_t expected[2] = {rows, columns};
    uint32_t dims = columns == 0 ? 1 : 2;
    bool is_plain = dtype_get(tensor->dtype)->decode != NULL;
    if (columns == 0 && !is_plain)
        return error_set(err, SL_ERR_ENV, "%s: tensor %.*s has type %s, which no vector has",
                         binder_file(binder, tensor), STR_ARG(tensor->name),
                         dtype_get(tensor->dtype)->name);
    bool is_vocabulary = role == ROLE_EMBED && tensor->dims == 2 && tensor->shape[0] != rows &&
                         (!is_plain || tensor->shape[1] == columns);
    /* Numbers with scales elsewhere have shapes of their own: matrix.c. */
    if (!is_vocabulary && (!is_plain || binder_has_shape(tensor, what, rows, columns)))
        return SL_OK;
    struct buf found, wanted;
    buf_init(&found);
    buf_init(&wanted);
    shape_text(tensor->shape, tensor->dims, &found);
    shape_text(expected, dims, &wanted);
    const char *file = binder_file(binder, tensor);
    if (is_vocabulary)
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

/* The name of a matrix as matrix.h wants it, and of its module. */
static struct str binder_stem(struct str name, const char *ending) {
    size_t len = strlen(ending);
    return str_ends(name, str_from(ending)) ? str_cut(name, 0, name.len - len) : name;
}

/* The matrix that these numbers belong to, all parts of it marked as used. */
static enum status binder_matrix(struct binder *binder, const struct binder_what *what,
                                 const struct tensor *numbers, const struct matrix **out,
                                 struct error *err) {
    struct model *model = binder->model;
    uint32_t layer = binder_layer(what);
    struct slice slice = binder_slice(binder, layer, what->role, numbers);
    struct str name = binder_stem(numbers->name, "_blocks");
    const struct quantisation_entry *entry =
        config_module(&model->config, binder_stem(name, ".weight"));
    struct matrix_wanted wanted = {
        .name = name,
        .slices = what->stack != 0 ? what->stack : 1,
        .hint = entry != NULL ? entry->hint : model->config.quantisation.hint,
    };
    TRY(binder_check_shape(binder, numbers, what, err));
    arch_shape(&model->config, layer, what->role, &wanted.rows, &wanted.columns);
    wanted.rows = slice.total;
    /* MLX has the matrices of MLA for each head, which are read as one. */
    bool is_by_head = numbers->dims == 3 && (what->role == ROLE_K_B || what->role == ROLE_V_B) &&
                      dtype_get(numbers->dtype)->decode == NULL;
    if (is_by_head) {
        wanted.slices = model->config.heads;
        wanted.rows /= wanted.slices;
    }
    struct matrix *matrix = arena_take(&model->arena, sizeof *matrix);
    if (matrix == NULL)
        return error_memory(err, sizeof *matrix, "a matrix");
    TRY(matrix_find(&model->index, &wanted, matrix, err));
    if (is_by_head && !matrix_join(matrix, wanted.slices))
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor %.*s has scales of several rows, which is not supported here",
                         binder_file(binder, numbers), STR_ARG(numbers->name));
    if (entry != NULL && entry->is_plain && matrix->part_count > 1)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor %.*s is quantised, and the config says that it is not",
                         binder_file(binder, numbers), STR_ARG(numbers->name));
    for (uint32_t i = 0; i < matrix->part_count; i++)
        binder->used[matrix->parts[i].tensor - model->index.tensors] = true;
    if (slice.rows != slice.total)
        *matrix = matrix_rows(matrix, slice.first, slice.rows);
    *out = matrix;
    return SL_OK;
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

static bool binder_has(const struct model *model, uint32_t row, enum role role) {
    size_t at = (size_t)row * ROLE_COUNT + role;
    return model->vectors[at] != NULL || model->matrices[at] != NULL;
}

/* Optional: all layers that can have it do, or none. */
static enum status binder_check_same(struct binder *binder, const struct binder_what *what,
                                     struct str name, bool is_there, struct error *err) {
    const struct model *model = binder->model;
    uint32_t row = 1;
    while (row < what->row &&
           arch_layer_need(model->arch, &model->config, row - 1, what->role) == ARCH_ABSENT)
        row++;
    if (row >= what->row || is_there == binder_has(model, row, what->role))
        return SL_OK;
    if (is_there)
        return error_set(err, SL_ERR_ENV,
                         "%s: there is a tensor %.*s, but the layers before have none", model->path,
                         STR_ARG(name));
    return error_set(err, SL_ERR_ENV, "%s: tensor %.*s is missing, but the layers before have it",
                     model->path, STR_ARG(name));
}

/* Tensors of their own for each expert, from the first on, which is there. */
static enum status binder_experts(struct binder *binder, struct binder_what *what,
                                  const struct tensor *first, struct error *err) {
    struct model *model = binder->model;
    struct str name;
    size_t experts = model->config.mixture.count;
    size_t all = experts * model->config.layers * ROLE_EXPERT_COUNT;
    if (model->experts == NULL)
        model->experts = mem_new(all, sizeof *model->experts);
    if (model->experts == NULL)
        return error_memory(err, all * sizeof *model->experts, "the experts' tensors");
    uint32_t choice = 0; /* the name that the first one has */
    while (binder_name(binder, what, choice, &name) && index_find(&model->index, name) != first)
        choice++;
    if (!binder_name(binder, what, choice, &name))
        return error_memory(err, SL_EXPERTS_MAX, "the experts' names"); /* it was there before */
    for (what->expert = 0; what->expert < experts; what->expert++) {
        must(binder_name(binder, what, choice, &name));
        TRY(buf_status(&binder->name, "a tensor's name", err));
        const struct tensor *tensor = index_find(&model->index, name);
        if (tensor == NULL)
            return binder_missing(binder, name, err);
        size_t at = (size_t)(what->row - 1) * experts + what->expert;
        at = at * ROLE_EXPERT_COUNT + what->role - ROLE_EXPERT_FIRST;
        TRY(binder_matrix(binder, what, tensor, &model->experts[at], err));
    }
    return SL_OK;
}

static enum status binder_role(struct binder *binder, uint32_t row, enum role role,
                               struct error *err) {
    struct model *model = binder->model;
    const struct role_info *info = role_get(role);
    struct binder_what what = {.row = row, .role = role};
    struct str name;
    bool is_there;
    if (info->is_per_layer != (row > 0))
        return SL_OK;
    enum arch_need need = arch_layer_need(model->arch, &model->config, row > 0 ? row - 1 : 0, role);
    if (need == ARCH_ABSENT)
        return SL_OK;
    if (!binder_name(binder, &what, 0, &name)) {
        must(need == ARCH_OPTIONAL); /* a family needs only what its containers can name */
        return SL_OK;
    }
    const struct tensor *tensor = binder_find(binder, &what, &name, &is_there);
    TRY(buf_status(&binder->name, "a tensor's name", err));
    if (tensor == NULL && (is_there || need == ARCH_REQUIRED))
        return binder_missing(binder, name, err);
    if (tensor != NULL && role_is_expert(role)) {
        struct binder_what last = {.row = row, .role = role, .expert = SL_EXPERTS_MAX};
        what.stack = model->config.mixture.count;
        if (binder_find(binder, &last, &name, &is_there) != tensor) {
            what.stack = 0;
            return binder_experts(binder, &what, tensor, err);
        }
    }
    TRY(binder_check_same(binder, &what, name, tensor != NULL, err));
    if (tensor == NULL)
        return SL_OK;
    size_t at = (size_t)row * ROLE_COUNT + role;
    if (!info->is_vector)
        return binder_matrix(binder, &what, tensor, &model->matrices[at], err);
    TRY(binder_check_shape(binder, tensor, &what, err));
    binder->used[tensor - model->index.tensors] = true;
    model->vectors[at] = tensor;
    return SL_OK;
}

/* One of two must be there; gate and up have a third way. */
static enum status binder_either(struct binder *binder, uint32_t layer, enum role one,
                                 enum role other, struct error *err) {
    const struct model *model = binder->model;
    struct layout_item item;
    struct str name;
    struct binder_what what = {.row = layer + 1, .role = one};
    if (arch_layer_need(model->arch, &model->config, layer, one) == ARCH_ABSENT ||
        model_item(model, layer, 0, one, &item) || model_item(model, layer, 0, other, &item))
        return SL_OK;
    if (one == ROLE_EXPERT_GATE_UP && model_item(model, layer, 0, ROLE_EXPERT_GATE_UP_ROWS, &item))
        return SL_OK;
    if (!binder_name(binder, &what, 0, &name)) {
        what.role = other;
        must(binder_name(binder, &what, 0, &name));
    }
    return binder_missing(binder, name, err);
}

/* Forms of one thing of which a layer may have one alone. */
static enum status binder_check_forms(struct binder *binder, uint32_t layer, struct error *err) {
    static const enum role pairs[][2] = {
        {ROLE_EXPERT_GATE_UP, ROLE_EXPERT_GATE_UP_ROWS},
        {ROLE_EXPERT_GATE_UP, ROLE_EXPERT_GATE},
        {ROLE_EXPERT_GATE_UP, ROLE_EXPERT_UP},
        {ROLE_EXPERT_GATE_UP, ROLE_EXPERT_GATE_BIAS},
        {ROLE_EXPERT_GATE_UP, ROLE_EXPERT_UP_BIAS},
        {ROLE_EXPERT_GATE_UP_ROWS, ROLE_EXPERT_GATE},
        {ROLE_EXPERT_GATE_UP_ROWS, ROLE_EXPERT_UP},
        {ROLE_EXPERT_GATE_UP_ROWS, ROLE_EXPERT_GATE_BIAS},
        {ROLE_EXPERT_GATE_UP_ROWS, ROLE_EXPERT_UP_BIAS},
        {ROLE_EXPERT_GATE, ROLE_EXPERT_GATE_UP_BIAS},
        {ROLE_EXPERT_DOWN_IN, ROLE_EXPERT_DOWN},
        {ROLE_KV_B, ROLE_K_B},
        {ROLE_KV_B, ROLE_V_B},
        {ROLE_DELTA_QKVZ, ROLE_DELTA_QKV},
        {ROLE_DELTA_QKVZ, ROLE_DELTA_Z},
        {ROLE_DELTA_BA, ROLE_DELTA_B},
        {ROLE_DELTA_BA, ROLE_DELTA_A},
    };
    const struct model *model = binder->model;
    struct layout_item one, other;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (arch_layer_need(model->arch, &model->config, layer, pairs[i][0]) == ARCH_ABSENT ||
            !model_item(model, layer, 0, pairs[i][0], &one) ||
            !model_item(model, layer, 0, pairs[i][1], &other))
            continue;
        return error_set(err, SL_ERR_ENV,
                         "%s: there is both tensor %.*s and %.*s, which are two forms of the same",
                         model->path, STR_ARG(one.matrix.parts[MATRIX_NUMBERS].tensor->name),
                         STR_ARG(other.matrix.parts[MATRIX_NUMBERS].tensor->name));
    }
    return SL_OK;
}

static enum status binder_check_choices(struct binder *binder, struct error *err) {
    for (uint32_t layer = 0; layer < binder->model->config.layers; layer++) {
        TRY(binder_check_forms(binder, layer, err));
        TRY(binder_either(binder, layer, ROLE_EXPERT_GATE_UP, ROLE_EXPERT_GATE, err));
        TRY(binder_either(binder, layer, ROLE_EXPERT_GATE_UP, ROLE_EXPERT_UP, err));
        TRY(binder_either(binder, layer, ROLE_EXPERT_DOWN_IN, ROLE_EXPERT_DOWN, err));
        TRY(binder_either(binder, layer, ROLE_KV_B, ROLE_K_B, err));
        TRY(binder_either(binder, layer, ROLE_KV_B, ROLE_V_B, err));
        TRY(binder_either(binder, layer, ROLE_DELTA_QKVZ, ROLE_DELTA_QKV, err));
        TRY(binder_either(binder, layer, ROLE_DELTA_QKVZ, ROLE_DELTA_Z, err));
        TRY(binder_either(binder, layer, ROLE_DELTA_BA, ROLE_DELTA_B, err));
        TRY(binder_either(binder, layer, ROLE_DELTA_BA, ROLE_DELTA_A, err));
    }
    return SL_OK;
}

/* Left-overs of training, tables that follow from the config, and scales of activations and of
 * keys and values, which are not rounded here. */
static bool binder_is_harmless(struct str name) {
    static const char *const endings[] = {"rotary_emb.inv_freq",
                                          "attn_rot_embd.weight",
                                          "rope.freqs",
                                          ".input_scale",
                                          ".activation_scale",
                                          ".k_scale",
                                          ".v_scale",
                                          NULL};
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

/* Tensors of the layers behind the last one that predict further tokens. */
static bool binder_is_prediction(const struct binder *binder, struct str name) {
    const struct config *config = &binder->model->config;
    struct str at = binder->is_folder ? STR("layers.") : STR("blk.");
    uint64_t layer = 0;
    if (binder->is_folder && str_starts(name, STR("mtp."))) /* the Qwens' */
        return true;
    if (binder->is_folder && str_starts(name, str_from(binder->prefix)))
        name = str_cut(name, strlen(binder->prefix), name.len);
    if (config->predict_layers == 0 || !str_starts(name, at))
        return false;
    size_t dot = str_find(name, STR("."), at.len);
    return dot != SIZE_MAX && str_to_u64(str_cut(name, at.len, dot), &layer) &&
           layer >= config->layers && layer - config->layers < config->predict_layers;
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
            binder_is_prediction(binder, name))
            continue;
        if (binder_is_elsewhere(binder, name)) {
            binder->model->other_tensors++;
            continue;
        }
        if (count++ < 3)
            buf_printf(&names, "%s%.*s", count > 1 ? ", " : "", STR_ARG(name));
    }
    if (count > 0)
        log_warning("%s: %zu tensor%s in the file %s not used: %s%s", binder->model->path, count,
                    count > 1 ? "s" : "", count > 1 ? "are" : "is",
                    names.data != NULL ? names.data : "", count > 3 ? ", ..." : "");
    buf_release(&names);
}

/* A GGUF file does not say which layers make their values from their keys: those without attn_v. */
static enum status binder_values(struct binder *binder, struct error *err) {
    struct config *config = &binder->model->config;
    struct str name;
    bool is_there;
    for (uint32_t layer = 0; config->layer_sizes != NULL && layer < config->layers; layer++) {
        binder_find(binder, &(struct binder_what){layer + 1, ROLE_V, 0, 0}, &name, &is_there);
        TRY(buf_status(&binder->name, "a tensor's name", err));
        config->layer_sizes[layer].shares_values = !is_there;
    }
    return SL_OK;
}

/* A GGUF file says how large the vocabulary is by its embedding; the list of tokens, where there is
 * one, must agree. */
static enum status binder_vocabulary(struct binder *binder, struct error *err) {
    struct model *model = binder->model;
    struct str name;
    must(binder_name(binder, &(struct binder_what){.role = ROLE_EMBED}, 0, &name));
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
        must(binder_name(binder, &(struct binder_what){.role = ROLE_EMBED}, 0, &name));
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
    model->vectors = mem_new(rows * ROLE_COUNT, sizeof *model->vectors);
    model->matrices = mem_new(rows * ROLE_COUNT, sizeof *model->matrices);
    binder->used = mem_new(model->index.count, sizeof *binder->used);
    if (model->vectors == NULL || model->matrices == NULL || binder->used == NULL)
        return error_memory(err, 2 * rows * ROLE_COUNT * sizeof *model->vectors,
                            "the tensors' roles");
    if (binder->is_folder)
        TRY(binder_find_prefix(binder, err));
    else
        TRY(binder_values(binder, err));
    TRY(binder_vocabulary(binder, err));
    for (uint32_t row = 0; row < rows; row++)
        for (unsigned role = 0; role < ROLE_COUNT; role++)
            TRY(binder_role(binder, row, (enum role)role, err));
    TRY(binder_check_choices(binder, err));
    TRY(model_bind_head(model, binder->is_folder, err));
    binder_warn_unused(binder);
    return SL_OK;
}

enum status model_bind(struct model *model, const struct model_files *files, struct error *err) {
    struct binder binder = {.model = model, .is_folder = files->is_folder};
    buf_init(&binder.plain);
    buf_init(&binder.name);
    enum status status = binder_run(&binder, err);
    mem_free(binder.used);
    buf_release(&binder.plain);
    buf_release(&binder.name);
    return status;
}
