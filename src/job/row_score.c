/* Owns the forms of rows that `score` reads: context and continuation, the same as token ids, or
 * prompt and choices. Texts alone: what they are in tokens is parts.c's. Refuses, as the row's
 * error, a text that is missing or of another type, and one to be scored that is empty: nothing
 * would be scored. */
#include "job/row.h"

struct form {
    const char *context, *choices; /* members */
    enum row_form form;
};

static const struct form forms[] = {
    {"context", "continuation", ROW_CONTINUATION},
    {"context_ids", "continuation_ids", ROW_CONTINUATION_IDS},
    {"prompt", "choices", ROW_CHOICES},
};
#define FORM_COUNT (sizeof forms / sizeof forms[0])

/* NULL for an absent member and for null. */
static const struct json *find(const struct json *object, const char *name) {
    const struct json *value = json_get(object, name);
    return json_is(value, JSON_NULL) ? NULL : value;
}

static enum status find_form(const struct json *object, const struct form **out,
                             struct error *err) {
    *out = NULL;
    for (size_t i = 0; i < FORM_COUNT; i++) {
        if (find(object, forms[i].choices) == NULL && find(object, forms[i].context) == NULL)
            continue;
        if (*out != NULL)
            return error_set(err, SL_ERR_ROW,
                             "the row has more than one of context, context_ids and prompt, or of "
                             "what belongs to them");
        *out = &forms[i];
    }
    if (*out == NULL)
        return error_set(err, SL_ERR_ROW,
                         "the row has neither context and continuation nor prompt and choices");
    const char *missing = find(object, (*out)->context) == NULL   ? (*out)->context
                          : find(object, (*out)->choices) == NULL ? (*out)->choices
                                                                  : NULL;
    if (missing != NULL)
        return error_set(err, SL_ERR_ROW, "the row has no %s", missing);
    return SL_OK;
}

static enum status read_choices(const struct json *list, struct str *choices, struct error *err) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (!json_string(&list->items[i], &choices[i]))
            return error_set(err, SL_ERR_ROW, "choices must be texts: number %u is none", i + 1);
        if (choices[i].len == 0)
            return error_set(err, SL_ERR_ROW, "choice %u is empty: there is nothing to score",
                             i + 1);
    }
    return SL_OK;
}

static enum status read_all_ids(struct row *row, const struct json *object, const struct form *form,
                                struct error *err) {
    TRY(row_read_ids(row, find(object, form->context), form->context, err));
    size_t context = row->prompt_id_count;
    TRY(row_read_ids(row, find(object, form->choices), form->choices, err));
    row->continuation_id_count = row->prompt_id_count - context;
    row->choice_count = 1;
    return SL_OK;
}

static enum status read_texts(struct row *row, const struct json *object, const struct form *form,
                              struct error *err) {
    const struct json *value = find(object, form->choices);
    if (!json_string(find(object, form->context), &row->prompt))
        return error_set(err, SL_ERR_ROW, "%s must be a text", form->context);
    bool is_list = form->form == ROW_CHOICES;
    if (is_list && !json_is(value, JSON_ARRAY))
        return error_set(err, SL_ERR_ROW, "choices must be a list of texts");
    if (is_list && (value->count == 0 || value->count > SL_CHOICES_MAX))
        return error_set(err, SL_ERR_ROW, "choices has %u texts: it must have 1 to %u",
                         value->count, SL_CHOICES_MAX);
    size_t count = is_list ? value->count : 1;
    struct str *choices = arena_array(&row->arena, count, sizeof *choices);
    if (choices == NULL)
        return error_memory(err, count * sizeof *choices, "choices");
    if (is_list) {
        TRY(read_choices(value, choices, err));
    } else {
        if (!json_string(value, &choices[0]))
            return error_set(err, SL_ERR_ROW, "continuation must be a text");
        if (choices[0].len == 0)
            return error_set(err, SL_ERR_ROW, "continuation is empty: there is nothing to score");
    }
    row->choices = choices;
    row->choice_count = count;
    return SL_OK;
}

enum status row_read_score(struct row *row, const struct json *object, struct error *err) {
    const struct form *form;
    TRY(find_form(object, &form, err));
    TRY(form->form == ROW_CONTINUATION_IDS ? read_all_ids(row, object, form, err)
                                           : read_texts(row, object, form, err));
    row->form = form->form;
    row->max_tokens = 1;
    row->ignores_eos = true;
    return SL_OK;
}
