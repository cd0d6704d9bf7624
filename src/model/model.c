/* Opening and closing a model, and what others ask about an open one. Owns the order in which the
 * parts are read: the config first, for a family that is not supported should be said before a
 * missing shard. */
#include "model/model.h"

#include "model/model_files.h"

#include <string.h>

static enum status model_read_config(struct model *model, const struct model_files *files,
                                     struct error *err) {
    if (!files->is_folder)
        return config_from_meta(&model->meta, model->path, &model->config, &model->arch, err);
    if (files->config == NULL)
        return error_set(err, SL_ERR_ENV, "%s: there is no such file; is %s a model folder?",
                         files->config_path, model->path);
    return config_from_json(files->config, files->generation, files->config_path, &model->config,
                            &model->arch, err);
}

static enum status model_fill(struct model *model, enum model_parts parts, struct error *err) {
    struct model_files files = {.config_path = model->path};
    bool wants_all = parts == MODEL_ALL;
    if (file_is_folder(model->path)) {
        TRY(model_files_read(model, &files, err));
        if (wants_all) {
            TRY(model_read_config(model, &files, err));
            TRY(container_open(model->path, true, &model->container, &model->index, &model->meta,
                               err));
        }
    } else {
        TRY(container_open(model->path, wants_all, &model->container, &model->index, &model->meta,
                           err));
        if (wants_all)
            TRY(model_read_config(model, &files, err));
    }
    if (wants_all)
        TRY(model_bind(model, &files, err));
    TRY(model_text_open(model, &files, err));
    if (!wants_all && model->tokenizer == NULL) {
        if (err != NULL)
            *err = model->tokenizer_error;
        return model->tokenizer_error.status;
    }
    return wants_all ? model_eos_collect(model, &files, err) : SL_OK;
}

enum status model_open(const char *path, enum model_parts parts, struct model **out,
                       struct error *err) {
    struct model *model = mem_new(1, sizeof *model);
    if (model == NULL)
        return error_memory(err, sizeof *model, "a model");
    index_init(&model->index);
    meta_init(&model->meta);
    arena_init(&model->arena);
    size_t len = strlen(path);
    model->path = mem_new(len + 1, 1);
    enum status status = SL_OK;
    if (model->path == NULL)
        status = error_memory(err, len + 1, "a path");
    else
        memcpy(model->path, path, len);
    if (status == SL_OK)
        status = model_fill(model, parts, err);
    if (status != SL_OK) {
        model_close(model);
        return status;
    }
    *out = model;
    return SL_OK;
}

void model_close(struct model *model) {
    if (model == NULL)
        return;
    template_free(model->tool_template);
    template_free(model->template);
    tokenizer_free(model->tokenizer);
    mem_free(model->vectors);
    mem_free(model->matrices);
    mem_free(model->experts);
    config_release(&model->config);
    meta_release(&model->meta);
    index_release(&model->index);
    for (size_t i = 0; i < model->text_count; i++)
        buf_release(&model->texts[i]);
    mem_free(model->texts);
    arena_release(&model->arena);
    mem_free(model->path);
    mem_free(model);
}

const struct matrix *model_matrix(const struct model *model, uint32_t layer, enum role role) {
    must((unsigned)role < ROLE_COUNT);
    must(layer < model->config.layers);
    if (role == ROLE_HEAD && !model->has_own_head)
        role = ROLE_EMBED;
    size_t row = role_get(role)->is_per_layer ? (size_t)layer + 1 : 0;
    return model->matrices[row * ROLE_COUNT + role];
}

bool model_is_eos(const struct model *model, uint32_t id) {
    for (size_t i = 0; i < model->eos_count; i++)
        if (model->eos[i].id == id)
            return true;
    return false;
}

void model_format_bytes(const struct model *model, uint64_t bytes[DTYPE_COUNT]) {
    size_t roles = ((size_t)model->config.layers + 1) * ROLE_COUNT, parts = 0;
    size_t experts = model->config.mixture.count;
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        bytes[i] = 0;
    /* Each lies in the files, which bounds the sums. */
    for (size_t i = 0; i < roles; i++) {
        const struct tensor *vector = model->vectors[i];
        const struct matrix *matrix = model->matrices[i];
        if (vector != NULL)
            bytes[vector->dtype] += vector->bytes;
        if (matrix != NULL)
            bytes[matrix->dtype] +=
                matrix_bytes(matrix) * (role_is_expert((enum role)(i % ROLE_COUNT)) ? experts : 1);
    }
    if (model->experts != NULL)
        parts = (size_t)model->config.layers * experts * ROLE_EXPERT_COUNT;
    for (size_t i = 0; i < parts; i++)
        if (model->experts[i] != NULL)
            bytes[model->experts[i]->dtype] += matrix_bytes(model->experts[i]);
}

uint64_t model_weights_bytes(const struct model *model) {
    uint64_t bytes[DTYPE_COUNT], sum = 0;
    model_format_bytes(model, bytes);
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        sum += bytes[i];
    return sum;
}

void model_formats(const struct model *model, struct buf *out) {
    uint64_t bytes[DTYPE_COUNT], sum = model_weights_bytes(model);
    model_format_bytes(model, bytes);
    bool is_first = true;
    for (;;) {
        size_t largest = 0;
        for (size_t i = 1; i < DTYPE_COUNT; i++)
            if (bytes[i] > bytes[largest])
                largest = i;
        if (bytes[largest] == 0)
            return;
        double share = 100.0 * (double)bytes[largest] / (double)sum;
        /* Formats of the norms alone are noise. */
        if (is_first || share >= 0.5)
            buf_printf(out, "%s%s", is_first ? "" : " + ", dtype_get((enum dtype)largest)->name);
        if (share < 99.5 && share >= 0.5)
            buf_printf(out, " %.0f %%", share);
        bytes[largest] = 0;
        is_first = false;
    }
}

bool model_item(const struct model *model, uint32_t layer, uint32_t expert, enum role role,
                struct layout_item *item) {
    const struct matrix *matrix = model_matrix(model, layer, role);
    bool is_stack = role_is_expert(role) && matrix != NULL;
    must(!role_is_expert(role) || expert < model->config.mixture.count);
    if (role_is_expert(role) && !is_stack && model->experts != NULL) {
        size_t at = (size_t)layer * model->config.mixture.count + expert;
        matrix = model->experts[at * ROLE_EXPERT_COUNT + role - ROLE_EXPERT_FIRST];
    }
    if (matrix == NULL)
        return false;
    *item = (struct layout_item){
        .matrix = is_stack ? matrix_slice(matrix, expert) : *matrix,
        .key = role_key(layer, expert, role),
        .unit_rows = role_get(role)->is_whole ? matrix->rows : 0,
    };
    return true;
}

/* Adds the matrices of a list that the layer has; the first one starts a block. */
static void model_add_items(const struct model *model, uint32_t layer, uint32_t expert,
                            const enum role *roles, struct layout_item *items, size_t *count) {
    bool is_first = true;
    for (; *roles != ROLE_COUNT; roles++) {
        if (!model_item(model, layer, expert, *roles, &items[*count]))
            continue;
        items[*count].starts_block = is_first;
        is_first = false;
        ++*count;
    }
}

enum status model_layout_items(const struct model *model, struct layout_item **items, size_t *count,
                               struct error *err) {
    static const enum role head[] = {ROLE_HEAD, ROLE_COUNT};
    const struct arch_math *math = model->arch->math;
    const struct config *config = &model->config;
    size_t parts = (size_t)config->mixture.count * ROLE_EXPERT_COUNT;
    size_t cap = config->layers * (ROLE_COUNT + parts) + 1, used = 0;
    struct layout_item *list = mem_new(cap, sizeof *list);
    if (list == NULL)
        return error_memory(err, cap * sizeof *list, "the order of the pass");
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool is_mixture = config_is_mixture(config, layer);
        model_add_items(model, layer, 0, math->attend_order, list, &used);
        model_add_items(model, layer, 0, is_mixture ? math->route_order : math->mlp_order, list,
                        &used);
        for (uint32_t expert = 0; is_mixture && expert < config->mixture.count; expert++)
            model_add_items(model, layer, expert, math->expert_order, list, &used);
    }
    model_add_items(model, 0, 0, head, list, &used);
    layout_set_units(list, used);
    *items = list;
    *count = used;
    return SL_OK;
}
