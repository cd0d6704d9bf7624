/* Owns the way from a row to token ids: a text through the tokenizer with the special tokens that
 * it adds by itself, messages through the chat template with nothing added, ids as they are.
 * Refuses, as the row's error, what the model cannot take: no tokens, ids outside the vocabulary,
 * messages without a template. A template that the files have but that cannot be used ends the job.
 */
#include "job/prompt.h"

#include "text/content.h"

#include <string.h>

struct prompt_source {
    const struct model *model;
    const struct settings *settings;
    const struct row *row;
};

/* Ids that the model has an embedding for; of a model opened for its text alone, ids with a token.
 */
static size_t vocabulary(const struct model *model) {
    return model->config.vocabulary > 0 ? model->config.vocabulary
                                        : tokenizer_vocab_size(model->tokenizer);
}

enum status prompt_check_ids(const struct model *model, const struct ids *ids, struct error *err) {
    size_t limit = vocabulary(model);
    if (ids->count == 0)
        return error_set(err, SL_ERR_ROW,
                         "the prompt has no tokens: the text is empty and the "
                         "tokenizer adds none");
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->items[i] >= limit)
            return error_set(err, SL_ERR_ROW,
                             "token %zu of the prompt is %u, outside the vocabulary of %zu", i + 1,
                             ids->items[i], limit);
    }
    return SL_OK;
}

/* places: where content stands in the text, with --content-specials text; else none. */
static enum status render(const struct prompt_source *source, bool is_run, struct buf *text,
                          struct content_places *places, struct error *err) {
    const struct model *model = source->model;
    const struct settings *settings = source->settings;
    const struct row *row = source->row;
    const struct template *template = model->template;
    if (row->tools != NULL && row->tools->count > 0 && model->tool_template != NULL)
        template = model->tool_template;
    if (template == NULL) {
        if (model->template_error.status != SL_OK)
            return error_set(err, SL_ERR_ENV, "%s", model->template_error.text);
        return error_set(err, SL_ERR_ROW, "the model has no chat template, which messages need");
    }
    struct chat_request request = {
        .messages = row->messages,
        .tools = row->tools,
        .kwargs = row->kwargs,
        .system = str_from(settings->system),
        .adds_generation_prompt = row->adds_generation_prompt,
        .continues_final_message = row->continues_final_message,
        .now = settings->epoch,
        .is_utc = settings->has_epoch,
    };
    if (strcmp(settings->content_specials, "text") != 0 || model->tokenizer == NULL)
        return chat_render(template, &model->chat_tokens, &request, is_run, text, err);
    const struct content_template whole = {template, &model->chat_tokens, model->tokenizer};
    return content_render(&whole, &request, is_run, text, places, err);
}

static enum status encode(const struct model *model, struct str text,
                          const struct encode_options *options, struct ids *ids,
                          struct error *err) {
    if (model->tokenizer == NULL)
        return error_set(err, SL_ERR_ENV, "%s (rows of prompt_ids need no tokenizer)",
                         model->tokenizer_error.text);
    return tokenizer_encode(model->tokenizer, text, options, ids, err);
}

enum status prompt_encode(const struct model *model, struct str text, struct ids *ids,
                          struct error *err) {
    return encode(model, text, &(struct encode_options){.adds_special = true}, ids, err);
}

static enum status make_chat(const struct prompt_source *source, bool is_run, struct buf *text,
                             struct ids *ids, struct error *err) {
    struct content_places places = {0};
    struct encode_options options = {0};
    enum status status = render(source, is_run, text, &places, err);
    if (status == SL_OK)
        status = buf_status(text, "a rendered prompt", err);
    options.plain = places.items;
    options.plain_count = places.count;
    if (status == SL_OK)
        status = encode(source->model, buf_str(text), &options, ids, err);
    content_places_release(&places);
    return status;
}

enum status prompt_holds_specials(const struct model *model, const struct row *row, bool *out,
                                  struct error *err) {
    if (row->form == ROW_MESSAGES && model->tokenizer != NULL)
        return content_holds_specials(model->tokenizer, row->messages, out, err);
    *out = false;
    return SL_OK;
}

enum status prompt_make(const struct model *model, const struct settings *settings,
                        const struct row *row, bool is_run, struct buf *text, struct ids *ids,
                        struct error *err) {
    ids->count = 0;
    if (text != NULL)
        buf_clear(text);
    switch (row->form) {
    case ROW_PROMPT_IDS:
        for (size_t i = 0; i < row->prompt_id_count; i++) {
            if (!ids_add(ids, row->prompt_ids[i]))
                return error_memory(err, row->prompt_id_count * sizeof(uint32_t), "a prompt");
        }
        break;
    case ROW_PROMPT:
        if (text != NULL)
            buf_add(text, row->prompt);
        TRY(prompt_encode(model, row->prompt, ids, err));
        break;
    case ROW_CONTINUATION: /* parts.c makes these */
    case ROW_CONTINUATION_IDS:
    case ROW_CHOICES:
        must(false);
        break;
    case ROW_MESSAGES: {
        struct buf own;
        buf_init(&own);
        const struct prompt_source source = {model, settings, row};
        enum status status = make_chat(&source, is_run, text != NULL ? text : &own, ids, err);
        buf_release(&own);
        TRY(status);
        break;
    }
    }
    if (text != NULL)
        TRY(buf_status(text, "a prompt", err));
    return prompt_check_ids(model, ids, err);
}
