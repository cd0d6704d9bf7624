/* Reads the small files of a model folder into memory and trees. Owns the limits of their sizes.
 * Says nothing about what is in them: a file that is absent is left NULL, one that is no JSON
 * refuses the model with its name. */
#include "model/model_files.h"

#include <string.h>

#define JSON_FILE_BYTES_MAX ((size_t)64 << 20)
#define JSON_VALUES_MAX 2000000u /* of one file, which its tree in memory follows */
#define TEXTS_MAX 8

const char *model_files_path(struct model *model, const char *name) {
    size_t folder_len = strlen(model->path), name_len = strlen(name), bytes;
    bool has_slash = folder_len > 0 && model->path[folder_len - 1] == '/';
    if (!size_add(folder_len, name_len, &bytes) || !size_add(bytes, 2, &bytes))
        return NULL;
    char *path = arena_take(&model->arena, bytes);
    if (path == NULL)
        return NULL;
    memcpy(path, model->path, folder_len);
    if (!has_slash)
        path[folder_len++] = '/';
    memcpy(path + folder_len, name, name_len);
    return path;
}

/* The text of a file in the folder; data NULL when there is none. */
static enum status files_text(struct model *model, const char *name, size_t limit, struct str *out,
                              struct error *err) {
    const char *path = model_files_path(model, name);
    if (path == NULL)
        return error_memory(err, strlen(name), "a path");
    *out = (struct str){0};
    if (!file_exists(path))
        return SL_OK;
    must(model->text_count < TEXTS_MAX);
    struct buf *text = &model->texts[model->text_count++];
    TRY(file_read_all(path, limit, text, err));
    *out = buf_str(text);
    if (out->data == NULL)
        out->data = "";
    return SL_OK;
}

static enum status files_json(struct model *model, const char *name, const struct json **out,
                              struct error *err) {
    struct str text;
    TRY(files_text(model, name, JSON_FILE_BYTES_MAX, &text, err));
    *out = NULL;
    if (text.data == NULL)
        return SL_OK;
    struct json_options options = {.depth_max = 64, .values_max = JSON_VALUES_MAX};
    if (json_parse(&model->arena, text, &options, out, err) != SL_OK) {
        if (err != NULL)
            err->status = SL_ERR_ENV;
        return error_prefix(err, "%s", model_files_path(model, name));
    }
    return SL_OK;
}

enum status model_files_read(struct model *model, struct model_files *files, struct error *err) {
    *files = (struct model_files){.is_folder = true};
    model->texts = mem_new(TEXTS_MAX, sizeof *model->texts);
    files->config_path = model_files_path(model, "config.json");
    if (model->texts == NULL || files->config_path == NULL)
        return error_memory(err, TEXTS_MAX * sizeof *model->texts, "the model's files");
    TRY(files_json(model, "config.json", &files->config, err));
    TRY(files_json(model, "generation_config.json", &files->generation, err));
    TRY(files_json(model, "tokenizer_config.json", &files->tokenizer_config, err));
    TRY(files_json(model, "chat_template.json", &files->processor_template, err));
    TRY(files_text(model, "chat_template.jinja", SL_TEMPLATE_SOURCE_MAX, &files->template_text,
                   err));
    return files_text(model, "additional_chat_templates/tool_use.jinja", SL_TEMPLATE_SOURCE_MAX,
                      &files->tool_template_text, err);
}
