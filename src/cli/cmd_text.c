/* `render` and `tokenize`: the text layer alone, line by line. Neither opens weights. */
#include "cli/cmd.h"

#include "base/json.h"
#include "cli/model_name.h"
#include "cli/options.h"
#include "job/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 << 10)

static enum status render(int argc, char **argv, struct buf *config_text, size_t *errors,
                          struct error *err) {
    struct settings settings;
    const char *operands[2] = {NULL, NULL};
    size_t count;
    struct model *model;
    options_defaults(&settings);
    TRY(options_parse(argc, argv, FOR_RENDER, &settings, operands, 2, &count, config_text, err));
    if (count < 2)
        return error_set(err, SL_ERR_USAGE, "render needs a MODEL and a file of ROWS");
    settings.rows = operands[1];
    TRY(model_name_open(&settings, operands[0], MODEL_TEXT, &model, err));
    enum status status = job_render(&settings, model, stdout, errors, err);
    model_close(model);
    return status;
}

int cmd_render(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "render"))
        return cmd_end(0);
    struct buf config_text;
    struct error err = {0};
    size_t errors = 0;
    buf_init(&config_text);
    enum status status = render(argc, argv, &config_text, &errors, &err);
    int code = status != SL_OK ? cmd_fail(status, &err) : errors > 0 ? 1 : 0;
    buf_release(&config_text);
    return cmd_end(code);
}

/* ---- tokenize */

struct tokenize {
    struct settings settings;
    struct model *model;
    struct buf input;  /* read and not yet used */
    struct buf output; /* of the lines that are there, written before more is waited for */
    struct buf text;
    struct ids ids;
    uint64_t line; /* number of the line, from 1 */
    size_t errors;
};

static enum status encode_line(struct tokenize *tokenize, struct str text, struct error *err) {
    struct encode_options options = {.adds_special = tokenize->settings.adds_special};
    struct buf *out = &tokenize->output;
    tokenize->ids.count = 0;
    TRY(tokenizer_encode(tokenize->model->tokenizer, text, &options, &tokenize->ids, err));
    buf_add(out, STR("{\"ids\": ["));
    for (size_t i = 0; i < tokenize->ids.count; i++)
        buf_printf(out, i == 0 ? "%u" : ", %u", tokenize->ids.items[i]);
    buf_add(out, STR("]}\n"));
    return SL_OK;
}

static enum status decode_line(struct tokenize *tokenize, const struct json *list,
                               struct error *err) {
    tokenize->ids.count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t id;
        if (!json_u64(&list->items[i], &id) || id > UINT32_MAX)
            return error_set(err, SL_ERR_ROW, "ids: number %u is no token id", i + 1);
        if (!ids_add(&tokenize->ids, (uint32_t)id))
            return error_memory(err, list->count * sizeof(uint32_t), "the ids of a line");
    }
    buf_clear(&tokenize->text);
    TRY(tokenizer_decode(tokenize->model->tokenizer, tokenize->ids.items, tokenize->ids.count,
                         tokenize->settings.skips_special, &tokenize->text, err));
    TRY(buf_status(&tokenize->text, "a text", err));
    buf_add(&tokenize->output, STR("{\"text\": "));
    json_add_string(&tokenize->output, buf_str(&tokenize->text));
    buf_add(&tokenize->output, STR("}\n"));
    return SL_OK;
}

static enum status answer_json(struct tokenize *tokenize, struct arena *arena, struct str line,
                               struct error *err) {
    const struct json *object;
    struct str text;
    enum status status = json_parse(arena, line, NULL, &object, err);
    if (status == SL_ERR_INPUT)
        return error_prefix(err, "the line is not valid JSON"), SL_ERR_ROW;
    TRY(status);
    const struct json *ids = json_get(object, "ids");
    if (json_string(json_get(object, "text"), &text))
        return encode_line(tokenize, text, err);
    if (json_is(ids, JSON_ARRAY))
        return decode_line(tokenize, ids, err);
    return error_set(err, SL_ERR_ROW, "the line has neither a text nor a list of ids");
}

static enum status answer_line(struct tokenize *tokenize, struct str line, struct error *err) {
    struct arena arena;
    struct error why = {0};
    size_t before = tokenize->output.len;
    tokenize->line++;
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    arena_init(&arena);
    enum status status = answer_json(tokenize, &arena, line, &why);
    arena_release(&arena);
    if (status == SL_ERR_ROW) {
        tokenize->errors++;
        tokenize->output.len = before;
        buf_add(&tokenize->output, STR("{\"error\": {\"message\": "));
        json_add_string(&tokenize->output, str_from(why.text));
        buf_printf(&tokenize->output, ", \"line\": %llu, \"code\": \"invalid_line\"}}\n",
                   (unsigned long long)tokenize->line);
        status = SL_OK;
    }
    if (status != SL_OK && err != NULL)
        *err = why;
    TRY(status);
    return buf_status(&tokenize->output, "a line of output", err);
}

static enum status write_output(struct tokenize *tokenize, struct error *err) {
    struct buf *out = &tokenize->output;
    if (fwrite(out->data, 1, out->len, stdout) != out->len || fflush(stdout) != 0)
        return errno == EPIPE ? error_set(err, SL_ERR_STOPPED, "%s", "")
                              : error_set(err, SL_ERR_ENV, "standard output cannot be written: %s",
                                          strerror(errno));
    buf_clear(out);
    return SL_OK;
}

/* Answers the whole lines of the input and keeps the rest. is_end: the rest is a line too. */
static enum status answer_input(struct tokenize *tokenize, bool is_end, struct error *err) {
    struct buf *input = &tokenize->input;
    size_t at = 0;
    for (;;) {
        const char *end = at < input->len ? memchr(input->data + at, '\n', input->len - at) : NULL;
        if (end == NULL && !(is_end && at < input->len))
            break;
        size_t length = end != NULL ? (size_t)(end - input->data) - at : input->len - at;
        TRY(answer_line(tokenize, (struct str){input->data + at, length}, err));
        at += length + (end != NULL);
    }
    if (at > 0) {
        memmove(input->data, input->data + at, input->len - at);
        input->len -= at;
    }
    if (input->len > SL_LINE_MAX)
        return error_set(err, SL_ERR_INPUT, "line %llu has more than 64 MiB",
                         (unsigned long long)tokenize->line + 1);
    return tokenize->output.len > 0 ? write_output(tokenize, err) : SL_OK;
}

static enum status answer_all(struct tokenize *tokenize, struct error *err) {
    struct buf *input = &tokenize->input;
    for (;;) {
        if (!mem_grow((void **)&input->data, &input->cap, input->len + READ_BYTES + 1, 1))
            return error_memory(err, input->len + READ_BYTES, "the input");
        ssize_t got = read(STDIN_FILENO, input->data + input->len, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, SL_ERR_ENV, "standard input cannot be read: %s", strerror(errno));
        input->len += (size_t)got;
        TRY(answer_input(tokenize, got == 0, err));
        if (got == 0)
            return SL_OK;
    }
}

static enum status tokenize(int argc, char **argv, struct tokenize *state, struct error *err) {
    const char *operands[1] = {NULL};
    size_t count;
    struct buf config_text; /* stays empty: the command takes no --config */
    buf_init(&config_text);
    options_defaults(&state->settings);
    TRY(options_parse(argc, argv, FOR_TOKENIZE, &state->settings, operands, 1, &count, &config_text,
                      err));
    if (count < 1)
        return error_set(err, SL_ERR_USAGE, "tokenize needs a MODEL");
    TRY(model_name_open(&state->settings, operands[0], MODEL_TEXT, &state->model, err));
    return answer_all(state, err);
}

int cmd_tokenize(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "tokenize"))
        return cmd_end(0);
    struct tokenize state = {0};
    struct error err = {0};
    buf_init(&state.input);
    buf_init(&state.output);
    buf_init(&state.text);
    enum status status = tokenize(argc, argv, &state, &err);
    int code = status != SL_OK ? cmd_fail(status, &err) : state.errors > 0 ? 1 : 0;
    model_close(state.model);
    buf_release(&state.input);
    buf_release(&state.output);
    buf_release(&state.text);
    ids_release(&state.ids);
    return cmd_end(code);
}
