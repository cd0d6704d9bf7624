/* Owns the form of result lines: members, their order and their spelling, plain and as OpenAI Batch
 * output objects (https://platform.openai.com/docs/api-reference/batch/request-output). Refuses
 * nothing: a buffer that ran out of memory says so to its owner. */
#include "job/result.h"

#include "base/json.h"
#include "text/template_chars.h"

#include <math.h>

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
    out->has_failed = out->has_failed || bytes->has_failed; /* before they are cleared again */
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
    buf_release(&bytes);
}

/* ---- logprobs of /v1/completions: four lists, one entry a token
 * (https://platform.openai.com/docs/api-reference/completions/object) */

/* A token as these lists spell it: its text, or "bytes:\xe2\x80" where that is no UTF-8. */
static void spell_token(const struct tokenizer *tokenizer, uint32_t id, struct buf *bytes,
                        struct buf *spelled) {
    buf_clear(bytes);
    buf_clear(spelled);
    if (tokenizer != NULL)
        tokenizer_token_bytes(tokenizer, id, bytes);
    if (utf8_valid_len(buf_str(bytes)) == bytes->len) {
        buf_add(spelled, buf_str(bytes));
        return;
    }
    buf_add(spelled, STR("bytes:"));
    for (size_t i = 0; i < bytes->len; i++)
        buf_printf(spelled, "\\x%02x", (unsigned)(unsigned char)bytes->data[i]);
}

/* The same, and what ran out of memory is told to the line before the texts are cleared again. */
static void spell(struct buf *out, const struct tokenizer *tokenizer, uint32_t id,
                  struct buf scratch[2]) {
    spell_token(tokenizer, id, &scratch[0], &scratch[1]);
    out->has_failed = out->has_failed || scratch[0].has_failed || scratch[1].has_failed;
}

/* Whether an object that begins with its brace has the member already; member is `"name": `. A
 * quote inside a name stands behind a backslash, never behind a space. */
static bool has_member(struct str object, struct str member) {
    for (size_t at = 0; (at = str_find(object, member, at)) != SIZE_MAX; at++) {
        if (at == 1 || object.data[at - 1] == ' ')
            return true;
    }
    return false;
}

/* The best tokens of a place as one object, the token of the answer among them. Where two are
 * spelled alike the first one, which is the more probable, stays. */
static void add_best(struct buf *out, const struct tokenizer *tokenizer,
                     const struct token_logprobs *entry, size_t count, struct buf scratch[2]) {
    size_t from = out->len;
    bool has_own = false;
    buf_add_char(out, '{');
    for (size_t i = 0; i <= count; i++) {
        if (i == count && has_own)
            break;
        struct logprob one =
            i < count ? entry->top[i] : (struct logprob){entry->id, entry->logprob};
        has_own = has_own || one.id == entry->id;
        spell(out, tokenizer, one.id, scratch);
        buf_clear(&scratch[0]);
        json_add_string(&scratch[0], buf_str(&scratch[1]));
        buf_add(&scratch[0], STR(": "));
        out->has_failed = out->has_failed || scratch[0].has_failed;
        if (out->has_failed ||
            has_member(str_cut(buf_str(out), from, out->len), buf_str(&scratch[0])))
            continue;
        if (out->len > from + 1)
            buf_add(out, STR(", "));
        buf_add(out, buf_str(&scratch[0]));
        json_add_float(out, one.logprob);
    }
    buf_add_char(out, '}');
}

/* Where each token begins in the text, in characters; one that begins inside a character has that
 * character's place. */
static void add_offsets(struct buf *out, const struct result_context *context,
                        const struct result *result, struct buf *bytes) {
    const struct tokenizer *tokenizer = context->tokenizer;
    size_t begun = 0; /* characters */
    buf_add(out, STR(", \"text_offset\": ["));
    for (size_t i = 0; i < result->count; i++) {
        bool is_silent = tokenizer == NULL || (result->row->skips_special &&
                                               tokenizer_is_special(tokenizer, result->ids[i]));
        buf_clear(bytes);
        if (!is_silent)
            tokenizer_token_bytes(tokenizer, result->ids[i], bytes);
        out->has_failed = out->has_failed || bytes->has_failed;
        bool is_inside = bytes->len > 0 && begun > 0 && (bytes->data[0] & 0xC0) == 0x80;
        buf_printf(out, i == 0 ? "%zu" : ", %zu", is_inside ? begun - 1 : begun);
        for (size_t b = 0; b < bytes->len; b++)
            begun += (bytes->data[b] & 0xC0) != 0x80;
    }
    buf_add_char(out, ']');
}

static void add_lists(struct buf *out, const struct result_context *context,
                      const struct result *result) {
    struct buf scratch[2];
    buf_init(&scratch[0]);
    buf_init(&scratch[1]);
    buf_add(out, STR("{\"tokens\": ["));
    for (size_t i = 0; i < result->count; i++) {
        spell(out, context->tokenizer, result->ids[i], scratch);
        if (i > 0)
            buf_add(out, STR(", "));
        json_add_string(out, buf_str(&scratch[1]));
    }
    buf_add(out, STR("], \"token_logprobs\": ["));
    for (size_t i = 0; i < result->count; i++) {
        if (i > 0)
            buf_add(out, STR(", "));
        json_add_float(out, result->logprobs[i].logprob);
    }
    buf_add(out, STR("], \"top_logprobs\": "));
    buf_add(out, result->top_logprobs > 0 ? STR("[") : STR("null"));
    for (size_t i = 0; i < result->count && result->top_logprobs > 0; i++) {
        if (i > 0)
            buf_add(out, STR(", "));
        add_best(out, context->tokenizer, &result->logprobs[i], result->top_logprobs, scratch);
    }
    if (result->top_logprobs > 0)
        buf_add_char(out, ']');
    add_offsets(out, context, result, &scratch[0]);
    buf_add_char(out, '}');
    buf_release(&scratch[0]);
    buf_release(&scratch[1]);
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
        if (result->row->is_batch && !result->row->is_chat)
            add_lists(out, context, result);
        else
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

/* ---- rows that were scored */

/* Characters by which a choice's sum is divided for best_norm: white space before it is what joins
 * it to the context, and none of it. */
static double length_of_choice(struct str choice) {
    size_t count = 0, at = 0;
    bool has_begun = false;
    while (at < choice.len) {
        has_begun = !chars_is_space(utf8_next(choice, &at)) || has_begun;
        count += has_begun;
    }
    return count > 0 ? (double)count : 1;
}

/* Of equal ones the first, as numpy's argmax has it. */
static size_t best_choice(const struct row *row, const struct score *const *scores, bool is_norm) {
    size_t best = 0;
    double most = -INFINITY;
    for (size_t i = 0; i < row->choice_count; i++) {
        double value = scores[i]->sum / (is_norm ? length_of_choice(row->choices[i]) : 1);
        if (value <= most)
            continue;
        most = value;
        best = i;
    }
    return best;
}

static void add_score(struct buf *out, const struct score *score) {
    buf_add(out, STR("\"loglikelihood\": "));
    json_add_double(out, score->sum);
    buf_add(out, STR(", "));
    add_count(out, "tokens", score->tokens);
    buf_printf(out, ", \"is_greedy\": %s", score->is_greedy ? "true" : "false");
}

void result_score_line(const struct row *row, const struct score *const *scores, struct buf *out) {
    buf_add(out, STR("{\"id\": "));
    buf_add(out, row->id_json);
    buf_add(out, STR(", "));
    if (row->form != ROW_CHOICES) {
        add_score(out, scores[0]);
        buf_add(out, STR("}\n"));
        return;
    }
    buf_add(out, STR("\"choices\": ["));
    for (size_t i = 0; i < row->choice_count; i++) {
        buf_add(out, i == 0 ? STR("{") : STR(", {"));
        add_text(out, "text", row->choices[i]);
        buf_add(out, STR(", "));
        add_score(out, scores[i]);
        buf_add_char(out, '}');
    }
    buf_add(out, STR("], "));
    add_count(out, "best", best_choice(row, scores, false));
    buf_add(out, STR(", "));
    add_count(out, "best_norm", best_choice(row, scores, true));
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
