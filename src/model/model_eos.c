/* The set of ids that end a row: the union of what generation_config.json, config.json and the
 * tokenizer declare and the chat template's end-of-turn token (DESIGN section 6, CASES 01 and 02),
 * each with its sources. An id outside the vocabulary would never come: it is told in a warning and
 * left out. A declaration that is no id refuses the model. */
#include "base/log.h"
#include "model/model_files.h"

#include <stdio.h>
#include <string.h>

/* Tokens that end a turn in published chat templates, where the template writes them. A marker does
 * not count where the template also has the other one, which then is the true end: in the harmony
 * format of gpt-oss <|end|> only ends a message, the turn ends with <|return|>. */
static const struct {
    const char *marker, *unless;
} end_markers[] = {
    {"<|im_end|>", NULL},                               /* ChatML: Qwen, SmolLM2, Yi */
    {"<|eot_id|>", NULL},                               /* Llama 3 */
    {"<|eot|>", NULL},                                  /* Llama 4 */
    {"<end_of_turn>", NULL},                            /* Gemma 2, 3 */
    {"<turn|>", NULL},                                  /* Gemma 4 */
    {"<|end|>", "<|return|>"},                          /* Phi-3 */
    {"<|return|>", NULL},                               /* gpt-oss */
    {"<|endofturn|>", NULL},   {"[|endofturn|]", NULL}, /* EXAONE */
    {"<|end_of_turn|>", NULL},
};

static enum status eos_add(struct model *model, int64_t id, const char *source, struct error *err) {
    if (id < 0 || (uint64_t)id >= model->config.vocabulary) {
        log_warning("%s: the stop id %lld of %s is outside the vocabulary of %u tokens and never "
                    "stops a row",
                    model->path, (long long)id, source, model->config.vocabulary);
        return SL_OK;
    }
    for (size_t i = 0; i < model->eos_count; i++) {
        struct eos *eos = &model->eos[i];
        size_t used = strlen(eos->source);
        if (eos->id != (uint32_t)id)
            continue;
        /* The ids of a source come one after the other: it stands last if it has named this one. */
        if (!str_ends(str_from(eos->source), str_from(source)) ||
            (used > strlen(source) && eos->source[used - strlen(source) - 1] != ' '))
            snprintf(eos->source + used, sizeof eos->source - used, ", %s", source);
        return SL_OK;
    }
    if (model->eos_count == SL_EOS_MAX)
        return error_set(err, SL_ERR_ENV, "%s: more than %u stop ids are declared", model->path,
                         SL_EOS_MAX);
    struct eos *eos = &model->eos[model->eos_count++];
    eos->id = (uint32_t)id;
    snprintf(eos->source, sizeof eos->source, "%s", source);
    return SL_OK;
}

/* eos_token_id of a config: absent, null, an id or a list of ids. */
static enum status eos_from_config(struct model *model, const struct json *config,
                                   const char *source, struct error *err) {
    const struct json *value = json_get(config, "eos_token_id");
    int64_t id;
    if (value == NULL || json_is(value, JSON_NULL))
        return SL_OK;
    bool is_list = json_is(value, JSON_ARRAY);
    for (uint32_t i = 0; i < (is_list ? value->count : 1); i++) {
        if (!json_i64(is_list ? &value->items[i] : value, &id))
            return error_set(err, SL_ERR_ENV,
                             "%s: eos_token_id in %s is neither an id nor a list of ids",
                             model->path, source);
        TRY(eos_add(model, id, source, err));
    }
    return SL_OK;
}

static enum status eos_from_folder(struct model *model, const struct model_files *files,
                                   struct error *err) {
    TRY(eos_from_config(model, files->generation, "generation_config.json", err));
    TRY(eos_from_config(model, files->config, "config.json", err));
    TRY(eos_from_config(model, json_get(files->config, "text_config"), "config.json", err));
    const struct json *token = json_get(files->tokenizer_config, "eos_token");
    struct str text;
    uint32_t id;
    if (model->tokenizer == NULL ||
        (!json_string(token, &text) && !json_string(json_get(token, "content"), &text)))
        return SL_OK;
    if (tokenizer_find(model->tokenizer, text, &id))
        return eos_add(model, id, "tokenizer_config.json", err);
    log_warning("%s: eos_token \"%.*s\" of tokenizer_config.json is not in the vocabulary",
                model->path, STR_ARG(text));
    return SL_OK;
}

static enum status eos_from_meta(struct model *model, struct error *err) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t id;
        if (meta_integer(&model->meta, keys[i], &id))
            TRY(eos_add(model, id, keys[i], err));
    }
    return SL_OK;
}

/* Markers of the table that the template's text has and that are one special token. */
static enum status eos_from_template(struct model *model, struct str template, struct error *err) {
    for (size_t i = 0; i < sizeof end_markers / sizeof end_markers[0]; i++) {
        struct str marker = str_from(end_markers[i].marker);
        const char *unless = end_markers[i].unless;
        uint32_t id;
        if (str_find(template, marker, 0) == SIZE_MAX ||
            (unless != NULL && str_find(template, str_from(unless), 0) != SIZE_MAX))
            continue;
        if (tokenizer_find(model->tokenizer, marker, &id) &&
            tokenizer_is_special(model->tokenizer, id))
            TRY(eos_add(model, id, "chat template", err));
    }
    return SL_OK;
}

enum status model_eos_collect(struct model *model, const struct model_files *files,
                              struct error *err) {
    if (files->is_folder)
        TRY(eos_from_folder(model, files, err));
    else
        TRY(eos_from_meta(model, err));
    if (model->tokenizer != NULL && model->template != NULL)
        TRY(eos_from_template(model, model->template_text, err));
    if (model->eos_count == 0)
        log_warning("%s: no token is declared to end an answer; rows end at their limit",
                    model->path);
    return SL_OK;
}
