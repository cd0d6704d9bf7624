/* Owns the form of result lines: members, their order and their spelling, plain and as OpenAI Batch
 * output objects (https://platform.openai.com/docs/api-reference/batch/request-output). Refuses
 * nothing: a buffer that ran out of memory says so to its owner. */
#include "job/result.h"

#include "base/json.h"

static void add_count(struct buf *out, const char *name, uint64_t value) {
    buf_printf(out, "\"%s\": %llu", name, (unsigned long long)value);
}

static void add_text(struct buf *out, const char *name, struct str value) {
    buf_printf(out, "\"%s\": ", name);
    json_add_string(out, value);
}

static const char *finish_word(enum finish finish) {
    must(finish != FINISH_NONE);
    return finish == FINISH_STOP ? "stop" : "length";
}

static void add_ids(struct buf *out, const uint32_t *ids, size_t count) {
    buf_add_char(out, '[');
    for (size_t i = 0; i < count; i++)
        buf_printf(out, i == 0 ? "%u" : ", %u", ids[i]);
    buf_add_char(out, ']');
}

/* "token", "id", "logprob", "bytes": the token's text as far as it is UTF-8, and its bytes. */
static void add_token(struct buf *out, const struct tokenizer *tokenizer, uint32_t id,
                      float logprob, struct buf *bytes) {
    buf_clear(bytes);
    if (tokenizer != NULL)
        tokenizer_token_bytes(tokenizer, id, bytes);
    add_text(out, "token", buf_str(bytes));
    buf_add(out, STR(", "));
    add_count(out, "id", id);
    buf_add(out, STR(", \"logprob\": "));
    json_add_float(out, logprob);
    buf_add(out, STR(", \"bytes\": ["));
    for (size_t i = 0; i < bytes->len; i++)
        buf_printf(out, i == 0 ? "%u" : ", %u", (unsigned)(unsigned char)bytes->data[i]);
    buf_add_char(out, ']');
}

static void add_logprobs(struct buf *out, const struct tokenizer *tokenizer,
                         const struct result *result) {
    struct buf bytes;
    buf_init(&bytes);
    buf_add(out, STR("{\"content\": ["));
    for (size_t i = 0; i < result->count; i++) {
        const struct token_logprobs *entry = &result->logprobs[i];
        buf_add(out, i == 0 ? STR("{") : STR(", {"));
        add_token(out, tokenizer, entry->id, entry->logprob, &bytes);
        buf_add(out, STR(", \"top_logprobs\": ["));
        for (size_t t = 0; t < result->top_logprobs; t++) {
            buf_add(out, t == 0 ? STR("{") : STR(", {"));
            add_token(out, tokenizer, entry->top[t].id, entry->top[t].logprob, &bytes);
            buf_add_char(out, '}');
        }
        buf_add(out, STR("]}"));
    }
    buf_add(out, STR("]}"));
    out->has_failed = out->has_failed || bytes.has_failed;
    buf_release(&bytes);
}

/* "token_ids" and "logprobs" where they are wanted, each with a comma before it. */
static void add_extras(struct buf *out, const struct result_context *context,
                       const struct result *result) {
    if (result->row->wants_token_ids) {
        buf_add(out, STR(", \"token_ids\": "));
        add_ids(out, result->ids, result->count);
    }
    if (result->row->wants_logprobs) {
        buf_add(out, STR(", \"logprobs\": "));
        add_logprobs(out, context->tokenizer, result);
    } else if (result->row->is_batch) {
        buf_add(out, STR(", \"logprobs\": null"));
    }
}

/* Made-up ids: the same for the same job and row, so that a resumed job writes the same bytes. */
static uint64_t made_up(const struct result_context *context, const struct row *row) {
    return str_hash(row->id_json) ^ (context->fingerprint * 0x9E3779B97F4A7C15u);
}

/* The envelope up to the body: {"id", "custom_id", "response": {"status_code", "request_id",
 * "body": */
static void open_batch(struct buf *out, const struct result_context *context, const struct row *row,
                       int status_code) {
    unsigned long long id = made_up(context, row);
    buf_printf(out, "{\"id\": \"batch_req_%016llx\", \"custom_id\": ", id);
    buf_add(out, row->id_json);
    buf_printf(out,
               ", \"response\": {\"status_code\": %d, \"request_id\": \"req_%016llx\", \"body\": ",
               status_code, id);
}

static void batch_line(const struct result_context *context, const struct result *result,
                       struct buf *out) {
    const struct row *row = result->row;
    open_batch(out, context, row, 200);
    buf_printf(out, "{\"id\": \"%s-%016llx\", \"object\": \"%s\", \"created\": %lld, ",
               row->is_chat ? "chatcmpl" : "cmpl", (unsigned long long)made_up(context, row),
               row->is_chat ? "chat.completion" : "text_completion", (long long)context->created);
    add_text(out, "model", str_from(context->model_name));
    buf_add(out, STR(", \"choices\": [{\"index\": 0, "));
    if (row->is_chat)
        buf_add(out, STR("\"message\": {\"role\": \"assistant\", "));
    add_text(out, row->is_chat ? "content" : "text", result->text);
    if (row->is_chat)
        buf_add_char(out, '}');
    add_extras(out, context, result);
    buf_printf(out, ", \"finish_reason\": \"%s\"}], \"usage\": {", finish_word(result->finish));
    add_count(out, "prompt_tokens", result->prompt_tokens);
    buf_add(out, STR(", "));
    add_count(out, "completion_tokens", result->count);
    buf_add(out, STR(", "));
    add_count(out, "total_tokens", result->prompt_tokens + result->count);
    buf_add(out, STR("}}}, \"error\": null}\n"));
}

void result_line(const struct result_context *context, const struct result *result,
                 struct buf *out) {
    if (result->row->is_batch) {
        batch_line(context, result, out);
        return;
    }
    buf_add(out, STR("{\"id\": "));
    buf_add(out, result->row->id_json);
    buf_add(out, STR(", "));
    add_text(out, "text", result->text);
    buf_printf(out, ", \"finish_reason\": \"%s\", \"usage\": {", finish_word(result->finish));
    add_count(out, "prompt_tokens", result->prompt_tokens);
    buf_add(out, STR(", "));
    add_count(out, "completion_tokens", result->count);
    buf_add_char(out, '}');
    add_extras(out, context, result);
    buf_add(out, STR("}\n"));
}

/* "message", "line", "code". */
static void add_error(struct buf *out, const struct row *row, const struct error *error,
                      const char *code) {
    add_text(out, "message", str_from(error->text));
    buf_add(out, STR(", "));
    add_count(out, "line", row->line);
    buf_add(out, STR(", "));
    add_text(out, "code", str_from(code));
}

void result_error_line(const struct result_context *context, const struct row *row,
                       const struct error *error, const char *code, struct buf *out) {
    if (row->is_batch) {
        open_batch(out, context, row, 400);
        buf_add(out, STR("{\"error\": {"));
        add_error(out, row, error, code);
        buf_add(out, STR(", \"type\": \"invalid_request_error\", \"param\": null}}}, "
                         "\"error\": null}\n"));
        return;
    }
    buf_add(out, STR("{\"id\": "));
    buf_add(out, row->id_json);
    buf_add(out, STR(", \"error\": {"));
    add_error(out, row, error, code);
    buf_add(out, STR("}, \"finish_reason\": \"error\"}\n"));
}
