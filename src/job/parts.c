/* Owns how a context and its choices become tokens, as lm-evaluation-harness has it
 * (TemplateLM._encode_pair and loglikelihood in lm_eval/api/model.py, v0.4): white space at the end
 * of the context is the beginning of the choice; context and choice are encoded together, and what
 * comes behind as many tokens as the context alone has is the choice; a context without tokens is
 * the token that begins texts, or else the one that ends them. The special tokens that the
 * tokenizer adds by itself are added, as they are to a prompt. Refuses a choice that has no tokens
 * so: its text went into the context's last one. */
#include "job/parts.h"

#include "text/template_chars.h"

void parts_release(struct parts *parts) {
    mem_free(parts->items);
    *parts = (struct parts){0};
}

static enum status add_part(struct parts *parts, const struct part *part, struct error *err) {
    if (!mem_grow((void **)&parts->items, &parts->cap, parts->count + 1, sizeof *parts->items))
        return error_memory(err, (parts->count + 1) * sizeof *parts->items, "the choices of a row");
    parts->items[parts->count++] = *part;
    return SL_OK;
}

/* The text without white space at its end: what Python's rstrip leaves. */
static struct str without_space(struct str text) {
    size_t end = 0;
    for (size_t at = 0; at < text.len;) {
        if (!chars_is_space(utf8_next(text, &at)))
            end = at;
    }
    return str_cut(text, 0, end);
}

/* The token that stands for a context without tokens. */
static enum status find_first(const struct model *model, uint32_t *id, struct error *err) {
    static const char *const names[] = {"bos_token", "eos_token"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        for (size_t i = 0; i < model->chat_tokens.count; i++) {
            struct str text;
            if (str_is(model->chat_tokens.items[i].name, names[n]) &&
                json_string(model->chat_tokens.items[i].value, &text) &&
                tokenizer_find(model->tokenizer, text, id))
                return SL_OK;
        }
    }
    return error_set(err, SL_ERR_ROW,
                     "the context is empty, and the model has no token that begins or ends texts");
}

static bool add_ids(struct ids *ids, const uint32_t *items, size_t count) {
    bool has_added = true;
    for (size_t i = 0; i < count && has_added; i++)
        has_added = ids_add(ids, items[i]);
    return has_added;
}

static enum status make_ids(const struct model *model, const struct row *row, struct ids *ids,
                            struct parts *parts, struct error *err) {
    size_t count = row->prompt_id_count;
    struct part part = {.count = count, .context = count - row->continuation_id_count};
    if (!add_ids(ids, row->prompt_ids, count))
        return error_memory(err, count * sizeof *ids->items, "a row");
    TRY(prompt_check_ids(model, ids, err));
    return add_part(parts, &part, err);
}

/* What the parts of one row are made of. */
struct maker {
    const struct model *model;
    const struct row *row;
    struct ids context; /* tokens of every part */
    size_t own;         /* of these, those of the context's text: without one that stands for it */
    struct ids whole;
    struct buf text;
};

static enum status make_context(struct maker *maker, struct error *err) {
    uint32_t first;
    TRY(prompt_encode(maker->model, without_space(maker->row->prompt), &maker->context, err));
    maker->own = maker->context.count;
    if (maker->own > 0)
        return SL_OK;
    TRY(find_first(maker->model, &first, err));
    return ids_add(&maker->context, first) ? SL_OK : error_memory(err, sizeof first, "a context");
}

static enum status make_part(struct maker *maker, size_t choice, struct ids *ids,
                             struct parts *parts, struct error *err) {
    maker->whole.count = 0;
    buf_clear(&maker->text);
    buf_add(&maker->text, maker->row->prompt);
    buf_add(&maker->text, maker->row->choices[choice]);
    TRY(buf_status(&maker->text, "a choice", err));
    TRY(prompt_encode(maker->model, buf_str(&maker->text), &maker->whole, err));
    if (maker->whole.count <= maker->own)
        return error_set(err, SL_ERR_ROW,
                         "choice %zu adds no token to its context: there is nothing to score",
                         choice + 1);
    size_t scored = maker->whole.count - maker->own;
    struct part part = {ids->count, maker->context.count + scored, maker->context.count};
    if (!add_ids(ids, maker->context.items, maker->context.count) ||
        !add_ids(ids, maker->whole.items + maker->own, scored))
        return error_memory(err, maker->whole.count * sizeof *ids->items, "a choice");
    return add_part(parts, &part, err);
}

static enum status make_choices(const struct model *model, const struct row *row, struct ids *ids,
                                struct parts *parts, struct error *err) {
    struct maker maker = {.model = model, .row = row};
    buf_init(&maker.text);
    enum status status = make_context(&maker, err);
    for (size_t i = 0; status == SL_OK && i < row->choice_count; i++)
        status = make_part(&maker, i, ids, parts, err);
    ids_release(&maker.context);
    ids_release(&maker.whole);
    buf_release(&maker.text);
    return status == SL_OK ? prompt_check_ids(model, ids, err) : status;
}

enum status parts_make(const struct model *model, const struct settings *settings,
                       const struct row *row, struct ids *ids, struct parts *parts,
                       struct error *err) {
    ids->count = parts->count = 0;
    if (row->form == ROW_CONTINUATION_IDS)
        return make_ids(model, row, ids, parts, err);
    if (row->choice_count > 0)
        return make_choices(model, row, ids, parts, err);
    TRY(prompt_make(model, settings, row, true, NULL, ids, err));
    return add_part(parts, &(struct part){.count = ids->count}, err);
}
