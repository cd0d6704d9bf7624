/* The small files of a model folder, read and parsed while the model is opened. Inside model/ only.
 */
#ifndef SLUICE_MODEL_MODEL_FILES_H
#define SLUICE_MODEL_MODEL_FILES_H

#include "model/model.h"

/* Trees borrow from model->texts and live in model->arena. All NULL or empty for a GGUF file. */
struct model_files {
    bool is_folder;
    const char *config_path;   /* for messages: config.json, or the GGUF file */
    const struct json *config; /* NULL when absent, as the next ones */
    const struct json *generation;
    const struct json *tokenizer_config;
    const struct json *processor_template; /* chat_template.json */
    struct str template_text;              /* chat_template.jinja; data NULL when absent */
    struct str tool_template_text;         /* additional_chat_templates/tool_use.jinja */
};

/* Reads those of the folder model->path that are there. */
enum status model_files_read(struct model *model, struct model_files *files, struct error *err);
/* "FOLDER/NAME" in the model's arena; NULL when memory is out. */
const char *model_files_path(struct model *model, const char *name);

/* The parts of model_open. Each fills its members of model. */
/* Whether the model has an output head of its own; its tensors are found already. model_head.c */
enum status model_bind_head(struct model *model, bool is_folder, struct error *err);
enum status model_bind(struct model *model, const struct model_files *files, struct error *err);
enum status model_text_open(struct model *model, const struct model_files *files,
                            struct error *err);
enum status model_eos_collect(struct model *model, const struct model_files *files,
                              struct error *err);

#endif
