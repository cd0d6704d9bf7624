/* The text layer of a model: tokenizer, special tokens as templates see them, chat templates. From
 * the files of a folder, or from the metadata of a GGUF file.
 *
 * A model without a tokenizer serves rows of ids; why there is none is kept for the others. One
 * that is there and cannot be used refuses the model. A template that cannot be used is kept as an
 * error and not replaced by another: rows that need it are refused with that sentence, others run.
 */
#include "model/model_files.h"

#include <stdio.h>
#include <string.h>

#define TOKENIZER_BYTES_MAX ((size_t)256 << 20)
#define CHAT_TOKENS_MAX 64u

/* Keeps why there is no tokenizer. */
static void text_no_tokenizer(struct model *model, const struct error *why) {
    model->tokenizer = NULL;
    model->tokenizer_error = *why;
    model->tokenizer_error.status = SL_ERR_ENV;
}

static enum status text_folder_tokenizer(struct model *model, struct error *err) {
    const char *path = model_files_path(model, "tokenizer.json");
    const char *sentencepiece = model_files_path(model, "tokenizer.model");
    struct error why = {0};
    if (path == NULL || sentencepiece == NULL)
        return error_memory(err, strlen(model->path), "a path");
    if (!file_exists(path)) {
        error_set(&why, SL_ERR_ENV, "%s: there is no such file%s", path,
                  file_exists(sentencepiece) ? " (a tokenizer.model alone is not supported)" : "");
        text_no_tokenizer(model, &why);
        return SL_OK;
    }
    struct buf text;
    buf_init(&text);
    enum status status = file_read_all(path, TOKENIZER_BYTES_MAX, &text, &why);
    if (status == SL_OK)
        status = tokenizer_from_json(buf_str(&text), path, &model->tokenizer, &why);
    buf_release(&text);
    return status == SL_OK ? SL_OK : error_set(err, SL_ERR_ENV, "%s", why.text);
}

/* An array of the metadata with items of that kind; NULL when absent or another. */
static const struct meta_value *text_list(const struct meta *meta, const char *key,
                                          enum meta_kind kind) {
    const struct meta_value *value = meta_find(meta, key);
    bool is_right = value != NULL && value->kind == META_ARRAY && value->item_kind == kind;
    return is_right ? value : NULL;
}

/* An id below count; -1 when absent. Files give ids outside the vocabulary for "none": nothing can
 * be made of them, and stop ids among them are told by model_eos.c. */
static int64_t text_id(const struct meta *meta, const char *key, size_t count) {
    int64_t id = -1;
    return meta_integer(meta, key, &id) && id >= 0 && (uint64_t)id < count ? id : -1;
}

static enum status text_meta_tokenizer(struct model *model, struct error *err) {
    const struct meta *meta = &model->meta;
    const struct meta_value *tokens = text_list(meta, "tokenizer.ggml.tokens", META_STRING);
    const struct meta_value *types = text_list(meta, "tokenizer.ggml.token_type", META_INTEGER);
    const struct meta_value *merges = text_list(meta, "tokenizer.ggml.merges", META_STRING);
    const struct meta_value *scores = text_list(meta, "tokenizer.ggml.scores", META_REAL);
    struct vocab_source source = {.name = model->path};
    struct error why = {0};
    if (tokens == NULL || !meta_text(meta, "tokenizer.ggml.model", &source.model)) {
        error_set(&why, SL_ERR_ENV, "%s: the file has no tokenizer (tokenizer.ggml.model, .tokens)",
                  model->path);
        text_no_tokenizer(model, &why);
        return SL_OK;
    }
    size_t count = tokens->array.count;
    if ((types != NULL && types->array.count != count) ||
        (scores != NULL && scores->array.count != count))
        return error_set(err, SL_ERR_ENV,
                         "%s: there are %zu tokens, but not as many types or scores", model->path,
                         count);
    meta_text(meta, "tokenizer.ggml.pre", &source.pre);
    source.tokens = tokens->array.texts;
    source.token_count = count;
    source.types = types != NULL ? types->array.integers : NULL;
    source.scores = scores != NULL ? scores->array.reals : NULL;
    source.merges = merges != NULL ? merges->array.texts : NULL;
    source.merge_count = merges != NULL ? merges->array.count : 0;
    source.bos = text_id(meta, "tokenizer.ggml.bos_token_id", count);
    source.eos = text_id(meta, "tokenizer.ggml.eos_token_id", count);
    source.unknown = text_id(meta, "tokenizer.ggml.unknown_token_id", count);
    source.padding = text_id(meta, "tokenizer.ggml.padding_token_id", count);
    source.adds_bos = tokenizer_vocab_adds_bos(source.model, source.pre);
    meta_bool(meta, "tokenizer.ggml.add_bos_token", &source.adds_bos);
    meta_bool(meta, "tokenizer.ggml.add_eos_token", &source.adds_eos);
    source.adds_space_prefix = str_is(source.model, "llama");
    meta_bool(meta, "tokenizer.ggml.add_space_prefix", &source.adds_space_prefix);
    return tokenizer_from_vocab(&source, &model->tokenizer, err);
}

/* Special tokens for templates. */

struct token_list {
    struct template_variable *items;
    size_t count;
};

static enum status text_add_token(struct model *model, struct token_list *list, struct str name,
                                  struct str text, struct error *err) {
    if (list->count == CHAT_TOKENS_MAX)
        return error_set(err, SL_ERR_ENV, "%s: more than %u special tokens have names of their own",
                         model->path, CHAT_TOKENS_MAX);
    struct json *value = arena_take(&model->arena, sizeof *value);
    if (value == NULL)
        return error_memory(err, sizeof *value, "special tokens");
    *value = (struct json){.kind = JSON_STRING, .text = text};
    list->items[list->count++] = (struct template_variable){.name = name, .value = value};
    return SL_OK;
}

/* Members of tokenizer_config.json that end in "_token" and are a text or {"content": text}. */
static enum status text_folder_tokens(struct model *model, const struct json *config,
                                      struct token_list *list, struct error *err) {
    if (!json_is(config, JSON_OBJECT))
        return SL_OK;
    for (uint32_t i = 0; i < config->count; i++) {
        const struct json_member *member = &config->members[i];
        struct str text;
        if (!str_ends(member->name, STR("_token")))
            continue;
        if (json_string(&member->value, &text) ||
            json_string(json_get(&member->value, "content"), &text))
            TRY(text_add_token(model, list, member->name, text, err));
    }
    return SL_OK;
}

static enum status text_meta_tokens(struct model *model, struct token_list *list,
                                    struct error *err) {
    static const struct {
        const char *key, *name;
    } known[] = {
        {"tokenizer.ggml.bos_token_id", "bos_token"},
        {"tokenizer.ggml.eos_token_id", "eos_token"},
        {"tokenizer.ggml.unknown_token_id", "unk_token"},
        {"tokenizer.ggml.padding_token_id", "pad_token"},
        {"tokenizer.ggml.seperator_token_id", "sep_token"}, /* spelled so in the format */
        {"tokenizer.ggml.mask_token_id", "mask_token"},
    };
    const struct meta_value *tokens = text_list(&model->meta, "tokenizer.ggml.tokens", META_STRING);
    for (size_t i = 0; tokens != NULL && i < sizeof known / sizeof known[0]; i++) {
        int64_t id = text_id(&model->meta, known[i].key, tokens->array.count);
        if (id >= 0)
            TRY(text_add_token(model, list, str_from(known[i].name), tokens->array.texts[id], err));
    }
    return SL_OK;
}

/* Templates. */

/* Where templates may stand: a stand-alone file wins over a member (CASES 07). */
struct template_place {
    const struct json *member; /* a text, or a list of named ones */
    struct str file;
    struct str tool_file; /* for rows with tools; data NULL when absent */
    const char *source;
};

static enum status text_pick(const struct template_place *place, bool has_tools, struct str *out,
                             struct error *err) {
    if (has_tools && place->tool_file.data != NULL) {
        *out = place->tool_file;
        return SL_OK;
    }
    return chat_pick_template(place->member, place->file, has_tools, out, err);
}

/* Parses the template, and a second one for rows with tools where that is another text. */
static enum status text_parse_templates(struct model *model, const struct template_place *place,
                                        struct error *err) {
    struct str plain = {0}, tools = {0};
    TRY(text_pick(place, false, &plain, err));
    TRY(text_pick(place, true, &tools, err));
    if (plain.len > 0)
        TRY(template_parse(plain, place->source, &model->template, err));
    model->template_text = plain;
    if (tools.len > 0 && !str_equal(plain, tools))
        TRY(template_parse(tools, place->source, &model->tool_template, err));
    return SL_OK;
}

static void text_templates(struct model *model, const struct template_place *place) {
    snprintf(model->template_source, sizeof model->template_source, "%s", place->source);
    struct error why = {0};
    if (text_parse_templates(model, place, &why) != SL_OK) {
        template_free(model->template);
        template_free(model->tool_template);
        model->template = model->tool_template = NULL;
        model->template_text = (struct str){0};
        error_prefix(&why, "%s", model->path);
        model->template_error = why;
        model->template_error.status = SL_ERR_ENV;
    } else if (model->template == NULL) {
        snprintf(model->template_source, sizeof model->template_source, "none");
    }
}

static void text_folder_templates(struct model *model, const struct model_files *files) {
    struct template_place place = {
        .member = json_get(files->tokenizer_config, "chat_template"),
        .file = files->template_text,
        .tool_file = files->tool_template_text,
        .source = "tokenizer_config.json",
    };
    if (place.file.data != NULL)
        place.source = "chat_template.jinja";
    else if (place.member == NULL || json_is(place.member, JSON_NULL)) {
        place.member = json_get(files->processor_template, "chat_template");
        place.source = "chat_template.json";
    }
    text_templates(model, &place);
}

/* GGUF keeps the default under tokenizer.chat_template, others under tokenizer.chat_template.NAME.
 */
static void text_meta_templates(struct model *model) {
    struct template_place place = {.source = "tokenizer.chat_template"};
    const struct meta_value *names =
        text_list(&model->meta, "tokenizer.chat_templates", META_STRING);
    meta_text(&model->meta, "tokenizer.chat_template", &place.file);
    meta_text(&model->meta, "tokenizer.chat_template.tool_use", &place.tool_file);
    if (place.file.data == NULL && names != NULL && names->array.count > 0) {
        snprintf(model->template_source, sizeof model->template_source, "%s", place.source);
        error_set(&model->template_error, SL_ERR_ENV,
                  "%s: there is no default chat template among the %zu named ones (%.*s, ...)",
                  model->path, names->array.count, STR_ARG(names->array.texts[0]));
        return;
    }
    text_templates(model, &place);
}

enum status model_text_open(struct model *model, const struct model_files *files,
                            struct error *err) {
    struct token_list list = {0};
    list.items = arena_array(&model->arena, CHAT_TOKENS_MAX, sizeof *list.items);
    if (list.items == NULL)
        return error_memory(err, CHAT_TOKENS_MAX * sizeof *list.items, "special tokens");
    if (files->is_folder) {
        TRY(text_folder_tokenizer(model, err));
        TRY(text_folder_tokens(model, files->tokenizer_config, &list, err));
        text_folder_templates(model, files);
    } else {
        TRY(text_meta_tokenizer(model, err));
        TRY(text_meta_tokens(model, &list, err));
        text_meta_templates(model);
    }
    model->chat_tokens = (struct chat_tokens){.items = list.items, .count = list.count};
    return SL_OK;
}
