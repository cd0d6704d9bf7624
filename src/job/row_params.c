/* Owns the parameters of a row: their names, types and ranges, in one table. A member that is null
 * counts as absent; one of the wrong type or out of range is the row's error and names the member.
 */
#include "job/row.h"

#include "text/stop.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum param_kind { PARAM_INTEGER, PARAM_REAL, PARAM_TRUTH, PARAM_ARRAY, PARAM_OBJECT };

struct param {
    const char *name;
    enum param_kind kind;
    size_t offset; /* in struct row */
    double least, most;
};

/* A later row of the table wins where two share a place. */
static const struct param params[] = {
    {"max_tokens", PARAM_INTEGER, offsetof(struct row, max_tokens), 1, INFINITY},
    {"max_completion_tokens", PARAM_INTEGER, offsetof(struct row, max_tokens), 1, INFINITY},
    {"temperature", PARAM_REAL, offsetof(struct row, sampling.temperature), 0, 1000},
    {"top_p", PARAM_REAL, offsetof(struct row, sampling.top_p), 0, 1},
    {"top_k", PARAM_INTEGER, offsetof(struct row, sampling.top_k), -1, INFINITY},
    {"min_p", PARAM_REAL, offsetof(struct row, sampling.min_p), 0, 1},
    {"continue_final_message", PARAM_TRUTH, offsetof(struct row, continues_final_message), 0, 0},
    {"add_generation_prompt", PARAM_TRUTH, offsetof(struct row, adds_generation_prompt), 0, 0},
    {"skip_special_tokens", PARAM_TRUTH, offsetof(struct row, skips_special), 0, 0},
    {"ignore_eos", PARAM_TRUTH, offsetof(struct row, ignores_eos), 0, 0},
    {"return_token_ids", PARAM_TRUTH, offsetof(struct row, wants_token_ids), 0, 0},
    {"tools", PARAM_ARRAY, offsetof(struct row, tools), 0, 0},
    {"chat_template_kwargs", PARAM_OBJECT, offsetof(struct row, kwargs), 0, 0},
};
#define PARAM_COUNT (sizeof params / sizeof params[0])

/* Members that are read elsewhere, or that cannot change an answer. */
static const char *const other_names[] = {
    "id",           "prompt",       "prompt_ids", "messages", "seed",        "stop",
    "logprobs",     "top_logprobs", "body",       "n",        "model",       "stream",
    "user",         "metadata",     "store",      "context",  "context_ids", "continuation_ids",
    "continuation", "choices"};
static const char *const envelope_names[] = {"custom_id", "method", "url", "body"};

static enum status read_integer(const struct param *param, const struct json *value, int64_t *out,
                                struct error *err) {
    if (!json_is_integer(value))
        return error_set(err, SL_ERR_ROW, "%s must be a whole number", param->name);
    bool is_negative = value->text.data[0] == '-';
    int64_t number = is_negative ? INT64_MIN : INT64_MAX; /* what does not fit is as good as that */
    if (!json_i64(value, &number))
        number = is_negative ? INT64_MIN : INT64_MAX;
    if ((double)number < param->least)
        return error_set(err, SL_ERR_ROW, "%s is %.*s: it must be at least %g", param->name,
                         STR_ARG(value->text), param->least);
    *out = number;
    return SL_OK;
}

static enum status read_real(const struct param *param, const struct json *value, double *out,
                             struct error *err) {
    double number;
    if (!json_double(value, &number))
        return error_set(err, SL_ERR_ROW, "%s must be a number", param->name);
    if (!(number >= param->least && number <= param->most))
        return error_set(err, SL_ERR_ROW, "%s is %.*s: it must be between %g and %g", param->name,
                         STR_ARG(value->text), param->least, param->most);
    *out = number;
    return SL_OK;
}

static enum status read_param(struct row *row, const struct param *param, const struct json *value,
                              struct error *err) {
    void *place = (char *)row + param->offset;
    switch (param->kind) {
    case PARAM_INTEGER:
        return read_integer(param, value, place, err);
    case PARAM_REAL:
        return read_real(param, value, place, err);
    case PARAM_TRUTH:
        if (!json_bool(value, place))
            return error_set(err, SL_ERR_ROW, "%s must be true or false", param->name);
        return SL_OK;
    case PARAM_ARRAY:
    case PARAM_OBJECT:
        if (!json_is(value, param->kind == PARAM_ARRAY ? JSON_ARRAY : JSON_OBJECT))
            return error_set(err, SL_ERR_ROW, "%s must be %s", param->name,
                             param->kind == PARAM_ARRAY ? "a list" : "an object");
        *(const struct json **)place = value;
        return SL_OK;
    }
    must(false);
    return SL_OK;
}

/* NULL for an absent member and for null. */
static const struct json *find(const struct json *object, const char *name) {
    const struct json *value = json_get(object, name);
    return json_is(value, JSON_NULL) ? NULL : value;
}

static enum status read_seed(struct row *row, const struct json *object, struct error *err) {
    const struct json *value = find(object, "seed");
    int64_t number;
    if (value == NULL || json_u64(value, &row->sampling.seed))
        return SL_OK;
    if (!json_i64(value, &number))
        return error_set(err, SL_ERR_ROW, "seed must be a whole number of at most 64 bits");
    row->sampling.seed = (uint64_t)number;
    return SL_OK;
}

static enum status add_stop(struct row *row, const struct json *value, struct error *err) {
    struct str text;
    if (!json_string(value, &text))
        return error_set(err, SL_ERR_ROW, "stop must be a text or a list of texts");
    if (text.len == 0)
        return SL_OK; /* an empty text would stop everything at once: ignored */
    if (text.len > SL_STOP_BYTES_MAX)
        return error_set(err, SL_ERR_ROW, "a stop text has %zu bytes, more than %u", text.len,
                         SL_STOP_BYTES_MAX);
    if (row->stop_count == SL_STOPS_MAX)
        return error_set(err, SL_ERR_ROW, "stop has more than %u texts", SL_STOPS_MAX);
    row->stops[row->stop_count++] = text;
    return SL_OK;
}

static enum status read_stops(struct row *row, const struct json *object,
                              const struct settings *settings, struct error *err) {
    const struct json *value = find(object, "stop");
    row->stop_count = 0;
    if (value == NULL) {
        for (size_t i = 0; i < settings->stop_count; i++) {
            if (settings->stops[i].len > 0)
                row->stops[row->stop_count++] = settings->stops[i];
        }
        return SL_OK;
    }
    if (!json_is(value, JSON_ARRAY))
        return add_stop(row, value, err);
    for (uint32_t i = 0; i < value->count; i++)
        TRY(add_stop(row, &value->items[i], err));
    return SL_OK;
}

/* logprobs true, and top_logprobs; bodies of /v1/completions have one number instead. */
static enum status read_logprobs(struct row *row, const struct json *object,
                                 const struct settings *settings, struct error *err) {
    const struct json *wanted = find(object, "logprobs"), *top = find(object, "top_logprobs");
    const char *name = "top_logprobs";
    row->wants_logprobs = settings->logprobs >= 0;
    row->top_logprobs = settings->logprobs > 0 ? (size_t)settings->logprobs : 0;
    if (row->is_batch && !row->is_chat && json_is(wanted, JSON_NUMBER)) {
        top = wanted;
        name = "logprobs";
        row->wants_logprobs = true;
    } else if (wanted != NULL && !json_bool(wanted, &row->wants_logprobs)) {
        return error_set(err, SL_ERR_ROW, "logprobs must be true or false");
    }
    if (top != NULL) {
        int64_t count;
        if (!json_i64(top, &count) || count < 0 || count > SL_TOP_LOGPROBS_MAX)
            return error_set(err, SL_ERR_ROW, "%s must be a whole number from 0 to %d", name,
                             SL_TOP_LOGPROBS_MAX);
        if (!row->wants_logprobs && count > 0)
            return error_set(err, SL_ERR_ROW, "top_logprobs needs logprobs: true");
        row->top_logprobs = (size_t)count;
    }
    return SL_OK;
}

static void set_defaults(struct row *row, const struct settings *settings) {
    row->max_tokens = settings->max_tokens;
    row->sampling = (struct sampling){
        .temperature = settings->temperature,
        .top_p = settings->top_p,
        .min_p = settings->min_p,
        .top_k = settings->top_k,
        .seed = (uint64_t)settings->seed,
    };
    row->skips_special = true;
    row->ignores_eos = settings->ignores_eos;
    row->wants_token_ids = settings->wants_token_ids;
}

enum status row_read_params(struct row *row, const struct json *object,
                            const struct settings *settings, struct error *err) {
    const struct json *count = find(object, "n");
    int64_t choices = 1;
    set_defaults(row, settings);
    if (count != NULL && (!json_i64(count, &choices) || choices != 1))
        return error_set(err, SL_ERR_ROW, "n must be 1: a row has one answer");
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        const struct json *value = find(object, params[i].name);
        if (value != NULL)
            TRY(read_param(row, &params[i], value, err));
    }
    if (find(object, "add_generation_prompt") == NULL)
        row->adds_generation_prompt = !row->continues_final_message;
    if (row->sampling.top_k < 0)
        row->sampling.top_k = 0; /* -1 is how others write "off" */
    TRY(read_seed(row, object, err));
    TRY(read_stops(row, object, settings, err));
    return read_logprobs(row, object, settings, err);
}

static bool is_in(struct str name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (str_is(name, names[i]))
            return true;
    }
    return false;
}

static bool is_known(struct str name, bool is_envelope) {
    if (is_envelope)
        return is_in(name, envelope_names, sizeof envelope_names / sizeof envelope_names[0]);
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        if (str_is(name, params[i].name))
            return true;
    }
    return is_in(name, other_names, sizeof other_names / sizeof other_names[0]);
}

/* Whether name stands in a list with ", " between the names. */
static bool is_listed(struct str list, struct str name) {
    for (size_t at = 0; (at = str_find(list, name, at)) != SIZE_MAX; at++) {
        size_t end = at + name.len;
        if ((at == 0 || list.data[at - 1] == ' ') && (end == list.len || list.data[end] == ','))
            return true;
    }
    return false;
}

void row_note_unknown(const struct json *object, bool is_envelope, struct buf *unknown) {
    enum { NAME_MAX_BYTES = 64, ALL_MAX_BYTES = 300 }; /* a message has to hold them */
    for (uint32_t i = 0; i < object->count && unknown->len < ALL_MAX_BYTES; i++) {
        struct str name = object->members[i].name;
        if (is_known(name, is_envelope) || name.len == 0 || name.len > NAME_MAX_BYTES)
            continue;
        if (is_listed(buf_str(unknown), name))
            continue;
        if (unknown->len > 0)
            buf_add(unknown, STR(", "));
        buf_add(unknown, name);
    }
}
