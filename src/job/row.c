/* Owns the reading of one line: JSON, id, form, and the envelope of OpenAI Batch lines
 * (https://platform.openai.com/docs/api-reference/batch). Refuses, as that row's error, everything
 * that is not a request; knows no model, so ids of tokens are checked for their type alone. */
#include "job/row.h"

#include <stdio.h>
#include <string.h>

#define LINE_FORMS                                                                                 \
    4u /* the line, texts without escapes, the prompt, what the tokenizer makes of it */
#define VALUE_BYTES 150u /* of a value while it is read */

static enum status fail(struct row *row, const char *code, struct error *err, const char *text) {
    row->code = code;
    return error_set(err, SL_ERR_ROW, "%s", text);
}

enum status row_init(struct row *row, uint64_t number, struct error *err) {
    *row = (struct row){.line = number, .code = "invalid_row", .adds_generation_prompt = true};
    arena_init(&row->arena);
    char text[24];
    int length = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    must(length > 0 && (size_t)length < sizeof text);
    char *copy = arena_take(&row->arena, (size_t)length);
    if (copy == NULL)
        return error_memory(err, (size_t)length, "a row");
    memcpy(copy, text, (size_t)length);
    row->id_json = (struct str){copy, (size_t)length};
    return SL_OK;
}

void row_release(struct row *row) {
    arena_release(&row->arena);
}

/* The id as JSON text: texts written anew (one spelling for one text), numbers as they stand. */
static enum status read_id(struct row *row, const struct json *value, const char *name,
                           struct error *err) {
    if (json_is(value, JSON_NUMBER)) {
        row->id_json = value->text;
        row->has_id = true;
        return SL_OK;
    }
    struct str text;
    if (!json_string(value, &text))
        return error_set(err, SL_ERR_ROW, "%s must be a text or a number", name);
    struct buf written;
    buf_init(&written);
    json_add_string(&written, text);
    enum status status = buf_status(&written, "an id", err);
    char *copy = status == SL_OK ? arena_take(&row->arena, written.len) : NULL;
    if (status == SL_OK && copy == NULL)
        status = error_memory(err, written.len, "an id");
    if (status == SL_OK) {
        memcpy(copy, written.data, written.len);
        row->id_json = (struct str){copy, written.len};
        row->has_id = true;
    }
    buf_release(&written);
    return status;
}

static const struct json *find(const struct json *object, const char *name) {
    const struct json *value = json_get(object, name);
    return json_is(value, JSON_NULL) ? NULL : value;
}

enum status row_read_ids(struct row *row, const struct json *list, const char *name,
                         struct error *err) {
    size_t had = row->prompt_id_count;
    if (!json_is(list, JSON_ARRAY))
        return error_set(err, SL_ERR_ROW, "%s must be a list of token ids", name);
    if (list->count == 0)
        return error_set(err, SL_ERR_ROW, "%s is empty: there is nothing to go on from", name);
    uint32_t *ids = arena_array(&row->arena, had + list->count, sizeof *ids);
    if (ids == NULL)
        return error_memory(err, list->count * sizeof *ids, name);
    for (size_t i = 0; i < had; i++)
        ids[i] = row->prompt_ids[i];
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t id;
        if (!json_is_integer(&list->items[i]))
            return error_set(err, SL_ERR_ROW, "%s must be integers: number %u is none", name,
                             i + 1);
        if (!json_u64(&list->items[i], &id) || id > UINT32_MAX)
            return error_set(err, SL_ERR_ROW, "%s: the id %.*s is out of range", name,
                             STR_ARG(list->items[i].text));
        ids[had + i] = (uint32_t)id;
    }
    row->form = ROW_PROMPT_IDS;
    row->prompt_ids = ids;
    row->prompt_id_count = had + list->count;
    return SL_OK;
}

static bool is_list_of_numbers(const struct json *value) {
    if (!json_is(value, JSON_ARRAY))
        return false;
    for (uint32_t i = 0; i < value->count; i++) {
        if (!json_is(&value->items[i], JSON_NUMBER))
            return false;
    }
    return true;
}

static enum status read_form(struct row *row, const struct json *object, struct error *err) {
    const struct json *prompt = find(object, "prompt"), *messages = find(object, "messages");
    const struct json *ids = find(object, "prompt_ids");
    int forms = (prompt != NULL) + (messages != NULL) + (ids != NULL);
    if (forms == 0 && !row->is_batch && find(object, "body") != NULL)
        return error_set(err, SL_ERR_ROW, "a Batch line needs custom_id");
    if (forms == 0)
        return error_set(err, SL_ERR_ROW, "the row has no prompt, prompt_ids or messages");
    if (forms > 1)
        return error_set(err, SL_ERR_ROW,
                         "the row has more than one of prompt, prompt_ids and messages");
    if (ids != NULL)
        return row_read_ids(row, ids, "prompt_ids", err);
    if (messages != NULL) {
        if (!json_is(messages, JSON_ARRAY))
            return error_set(err, SL_ERR_ROW, "messages must be a list");
        if (messages->count == 0)
            return error_set(err, SL_ERR_ROW, "messages is empty");
        row->form = ROW_MESSAGES;
        row->messages = messages;
        return SL_OK;
    }
    if (row->is_batch && is_list_of_numbers(prompt))
        return row_read_ids(row, prompt, "prompt", err); /* OpenAI's way to give ids */
    if (row->is_batch && !json_is(prompt, JSON_STRING))
        return error_set(err, SL_ERR_ROW, "prompt must be a text or one list of token ids");
    if (!json_string(prompt, &row->prompt))
        return error_set(err, SL_ERR_ROW, "prompt must be a text");
    row->form = ROW_PROMPT;
    return SL_OK;
}

/* The envelope of a Batch line; *body is the request in it. */
static enum status read_envelope(struct row *row, const struct json *line, const struct json **body,
                                 struct error *err) {
    const struct json *url = find(line, "url"), *method = find(line, "method");
    struct str text;
    *body = find(line, "body");
    if (*body == NULL)
        return error_set(err, SL_ERR_ROW, "the Batch line has no body");
    if (!json_is(*body, JSON_OBJECT))
        return error_set(err, SL_ERR_ROW, "body must be an object");
    bool has_prompt = find(*body, "prompt") != NULL || find(*body, "prompt_ids") != NULL;
    row->is_chat = !has_prompt;
    if (method != NULL && (!json_string(method, &text) || !str_is(text, "POST")))
        return error_set(err, SL_ERR_ROW, "method must be POST");
    if (url == NULL)
        return SL_OK;
    if (!json_string(url, &text))
        return error_set(err, SL_ERR_ROW, "url must be a text");
    row->is_chat = str_is(text, "/v1/chat/completions");
    if (!row->is_chat && !str_is(text, "/v1/completions"))
        return error_set(err, SL_ERR_ROW,
                         "url is %.*s: only /v1/chat/completions and /v1/completions are served",
                         STR_ARG(text));
    if (row->is_chat ? find(*body, "messages") == NULL : !has_prompt)
        return error_set(err, SL_ERR_ROW, "body has no %s, which %.*s needs",
                         row->is_chat ? "messages" : "prompt", STR_ARG(text));
    return SL_OK;
}

uint64_t row_budget_bytes(uint64_t budget_bytes) {
    uint64_t bytes = budget_bytes / 8;
    bytes = bytes < SL_ROW_BYTES_LEAST ? SL_ROW_BYTES_LEAST : bytes;
    return bytes > SL_ROW_BYTES_MOST ? SL_ROW_BYTES_MOST : bytes;
}

uint64_t row_line_bytes_max(uint64_t row_bytes) {
    uint64_t bytes = row_bytes / (3 * LINE_FORMS);
    return row_bytes == 0 || bytes > SL_LINE_MAX ? SL_LINE_MAX : bytes;
}

size_t row_values_max(uint64_t row_bytes) {
    size_t count = (size_t)(row_bytes / (2 * VALUE_BYTES));
    return row_bytes == 0 || count > SL_ROW_VALUES_MAX ? SL_ROW_VALUES_MAX : count;
}

uint64_t row_load_bytes(const struct row *row, uint64_t line_bytes) {
    return LINE_FORMS * line_bytes + 2 * row->arena.used_bytes;
}

/* JSON of the line, or why it is none. */
static enum status read_json(struct row *row, struct str line, const struct settings *settings,
                             const struct json **out, struct error *err) {
    uint32_t lone_surrogates = 0;
    bool is_too_large = false;
    struct json_options options = {.depth_max = SL_ROW_DEPTH_MAX,
                                   .lone_surrogates = &lone_surrogates,
                                   .values_max = row_values_max(settings->row_bytes),
                                   .is_too_large = &is_too_large};
    size_t valid = utf8_valid_len(line);
    if (valid < line.len) {
        row->code = "invalid_utf8";
        return error_set(err, SL_ERR_ROW, "byte %zu of the line is not valid UTF-8", valid + 1);
    }
    enum status status = json_parse(&row->arena, line, &options, out, err);
    if (is_too_large) {
        row->code = "line_too_long";
        return error_set(
            err, SL_ERR_ROW, "the line has more than %zu JSON values, the most that %s",
            options.values_max,
            options.values_max < SL_ROW_VALUES_MAX ? "the memory budget leaves for a row (--memory)"
                                                   : "a row may have");
    }
    if (status == SL_ERR_INPUT) {
        row->code = "invalid_json";
        error_prefix(err, "the line is not valid JSON");
        if (err != NULL)
            err->status = SL_ERR_ROW;
        return SL_ERR_ROW;
    }
    TRY(status);
    row->has_lone_surrogates = lone_surrogates > 0;
    if (!json_is(*out, JSON_OBJECT))
        return fail(row, "invalid_row", err, "the line is JSON, but not an object");
    return SL_OK;
}

enum status row_parse(struct str line, uint64_t number, const struct settings *settings,
                      struct row *row, struct buf *unknown, struct error *err) {
    const struct json *object, *body;
    TRY(row_init(row, number, err));
    if (line.len > SL_LINE_MAX)
        return fail(row, "line_too_long", err, "the line has more than 64 MiB");
    TRY(read_json(row, line, settings, &object, err));
    body = object;
    row->is_batch = !settings->scores && json_get(object, "custom_id") != NULL;
    const char *id_name = row->is_batch ? "custom_id" : "id";
    const struct json *id = find(object, id_name);
    row->is_chat = row->is_batch;
    if (id != NULL)
        TRY(read_id(row, id, id_name, err));
    if (unknown != NULL)
        row_note_unknown(object, row->is_batch, unknown);
    if (row->is_batch) {
        TRY(read_envelope(row, object, &body, err));
        if (unknown != NULL)
            row_note_unknown(body, false, unknown);
    }
    if (settings->scores)
        return row_read_score(row, object, err);
    TRY(read_form(row, body, err));
    return row_read_params(row, body, settings, err);
}
