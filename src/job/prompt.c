/* Owns the way from a row to token ids: a text through the tokenizer with the special tokens that
 * it adds by itself, messages through the chat template with nothing added, ids as they are.
 * Refuses, as the row's error, what the model cannot take: no tokens, ids outside the vocabulary,
 * messages without a template. A template that the files have but that cannot be used ends the job.
 */
#include "job/prompt.h"

#include "base/clock.h"

/* Ids that the model has an embedding for; of a model opened for its text alone, ids with a token.
 */
static size_t vocabulary(const struct model *model) {
    return model->config.vocabulary > 0 ? model->config.vocabulary
                                        : tokenizer_vocab_size(model->tokenizer);
}

static enum status check_ids(const struct model *model, const struct ids *ids, struct error *err) {
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

static enum status render(const struct model *model, const struct settings *settings,
                          const struct row *row, bool is_run, struct buf *text, struct error *err) {
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
        .now = settings->has_epoch ? settings->epoch : clock_wall_seconds(),
        .is_utc = settings->has_epoch,
    };
    return chat_render(template, &model->chat_tokens, &request, is_run, text, err);
}

static enum status encode(const struct model *model, struct str text, bool adds_special,
                          struct ids *ids, struct error *err) {
    if (model->tokenizer == NULL)
        return error_set(err, SL_ERR_ENV, "%s (rows of prompt_ids need no tokenizer)",
                         model->tokenizer_error.text);
    struct encode_options options = {.adds_special = adds_special};
    return tokenizer_encode(model->tokenizer, text, &options, ids, err);
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
        TRY(encode(model, row->prompt, true, ids, err));
        break;
    case ROW_MESSAGES: {
        struct buf own;
        buf_init(&own);
        struct buf *into = text != NULL ? text : &own;
        enum status status = render(model, settings, row, is_run, into, err);
        if (status == SL_OK)
            status = buf_status(into, "a rendered prompt", err);
        if (status == SL_OK)
            status = encode(model, buf_str(into), false, ids, err);
        buf_release(&own);
        TRY(status);
        break;
    }
    }
    if (text != NULL)
        TRY(buf_status(text, "a prompt", err));
    return check_ids(model, ids, err);
}
