/* Owns the steps from token strings to text. Refuses, by name, decoders of other kinds of models.
 */
#include "text/decode.h"

#include "text/pretokenize.h"
#include "text/spelling.h"

#define WHERE "decoder"
#define STRIP_MAX 1000000u

void decoder_init(struct decoder *decoder) {
    *decoder = (struct decoder){0};
    arena_init(&decoder->arena);
}

void decoder_release(struct decoder *decoder) {
    for (size_t i = 0; i < decoder->count; i++)
        regex_free(decoder->steps[i].regex);
    arena_release(&decoder->arena);
    *decoder = (struct decoder){0};
}

enum status decoder_add(struct decoder *decoder, const struct decoder_step *step,
                        struct error *err) {
    enum status status = SL_OK;
    struct decoder_step own = *step;
    if (decoder->count == SL_COMPONENT_STEPS_MAX)
        status = error_set(err, SL_ERR_ENV, "the %s has more than %u steps", WHERE,
                           SL_COMPONENT_STEPS_MAX);
    if (status == SL_OK)
        status = component_copy(&decoder->arena, step->pattern, &own.pattern, err);
    if (status == SL_OK)
        status = component_copy(&decoder->arena, step->content, &own.content, err);
    if (status == SL_OK)
        decoder->steps[decoder->count++] = own;
    else
        regex_free(step->regex);
    return status;
}

static enum status load_step(struct decoder *decoder, const struct json *json, struct str type,
                             struct error *err) {
    struct decoder_step step = {0};
    if (str_is(type, "ByteLevel")) {
        step.kind = DECODER_BYTE_LEVEL;
    } else if (str_is(type, "ByteFallback")) {
        step.kind = DECODER_BYTE_FALLBACK;
    } else if (str_is(type, "Fuse")) {
        step.kind = DECODER_FUSE;
    } else if (str_is(type, "Replace")) {
        bool is_regex = false;
        step.kind = DECODER_REPLACE;
        TRY(component_pattern(json, WHERE, &step.pattern, &is_regex, err));
        TRY(component_string(json, WHERE, "content", &step.content, err));
        if (is_regex)
            TRY(regex_new(step.pattern, &step.regex, err));
    } else if (str_is(type, "Strip")) {
        step.kind = DECODER_STRIP;
        TRY(component_string(json, WHERE, "content", &step.pattern, err));
        TRY(component_count(json, WHERE, "start", STRIP_MAX, &step.start, err));
        TRY(component_count(json, WHERE, "stop", STRIP_MAX, &step.stop, err));
        if (step.pattern.len == 0)
            return error_set(err, SL_ERR_ENV, "%s: content is empty", WHERE);
    } else if (str_is(type, "Metaspace")) {
        enum prepend_scheme scheme = PREPEND_ALWAYS;
        step.kind = DECODER_METASPACE;
        TRY(pretokenizer_metaspace(json, WHERE, &step.pattern, &scheme, err));
        step.drops_first = scheme != PREPEND_NEVER;
    } else {
        return component_refuse(WHERE, type, err);
    }
    return decoder_add(decoder, &step, err);
}

/* Recursion is bounded by SL_COMPONENT_DEPTH_MAX. */
static enum status load_at(struct decoder *decoder, const struct json *json, unsigned depth,
                           struct error *err) {
    struct str type;
    TRY(component_type(json, WHERE, &type, err));
    if (!str_is(type, "Sequence"))
        return load_step(decoder, json, type, err);
    if (depth == SL_COMPONENT_DEPTH_MAX)
        return error_set(err, SL_ERR_ENV, "the %s is nested too deep", WHERE);
    const struct json *list;
    TRY(component_list(json, WHERE, "decoders", &list, err));
    for (uint32_t i = 0; i < list->count; i++)
        TRY(load_at(decoder, &list->items[i], depth + 1, err));
    return SL_OK;
}

enum status decoder_load(struct decoder *decoder, const struct json *json, struct error *err) {
    if (!json || json_is(json, JSON_NULL)) {
        decoder->joins_by_space = true;
        return SL_OK;
    }
    return load_at(decoder, json, 0, err);
}

/* ---- Lists of strings */

void decoder_strings_release(struct decoder_strings *strings) {
    buf_release(&strings->text);
    mem_free(strings->ends);
    *strings = (struct decoder_strings){0};
}

/* Ends the string that has been written to text since the last end. */
static bool end_string(struct decoder_strings *strings) {
    if (strings->text.has_failed || !mem_grow((void **)&strings->ends, &strings->cap,
                                              strings->count + 1, sizeof *strings->ends)) {
        strings->text.has_failed = true;
        return false;
    }
    strings->ends[strings->count++] = strings->text.len;
    return true;
}

bool decoder_strings_add(struct decoder_strings *strings, struct str text) {
    buf_add(&strings->text, text);
    return end_string(strings);
}

static struct str string_at(const struct decoder_strings *strings, size_t index) {
    size_t from = index ? strings->ends[index - 1] : 0;
    return str_cut(buf_str(&strings->text), from, strings->ends[index]);
}

/* ---- Steps */

/* The byte of a string such as <0x0A>. */
static bool fallback_byte(struct str token, unsigned char *byte) {
    if (token.len != 6 || !str_starts(token, STR("<0x")) || token.data[5] != '>')
        return false;
    unsigned value = 0;
    for (size_t i = 3; i < 5; i++) {
        char c = token.data[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        value = value << 4 | digit;
    }
    *byte = (unsigned char)value;
    return true;
}

static void replace_literal(const struct decoder_step *step, struct str text, struct buf *out) {
    size_t at = 0, found = step->pattern.len ? str_find(text, step->pattern, 0) : SIZE_MAX;
    while (found != SIZE_MAX) {
        buf_add(out, str_cut(text, at, found));
        buf_add(out, step->content);
        at = found + step->pattern.len;
        found = str_find(text, step->pattern, at);
    }
    buf_add(out, str_cut(text, at, text.len));
}

static enum status replace_regex(const struct decoder_step *step, struct regex_scan *scan,
                                 struct str text, struct buf *out, struct error *err) {
    size_t copied = 0;
    TRY(regex_scan_begin(scan, text, err));
    for (;;) {
        bool is_found;
        size_t from, to;
        TRY(regex_scan_next(scan, &is_found, &from, &to, err));
        if (!is_found)
            break;
        buf_add(out, str_cut(text, copied, from));
        buf_add(out, step->content);
        copied = to;
    }
    buf_add(out, str_cut(text, copied, text.len));
    return SL_OK;
}

static struct str strip(const struct decoder_step *step, struct str text) {
    for (uint64_t i = 0; i < step->start && str_starts(text, step->pattern); i++)
        text = str_cut(text, step->pattern.len, text.len);
    for (uint64_t i = 0; i < step->stop && str_ends(text, step->pattern); i++)
        text = str_cut(text, 0, text.len - step->pattern.len);
    return text;
}

static void metaspace(const struct decoder_step *step, struct str text, bool is_first,
                      struct buf *out) {
    struct decoder_step as_replace = *step;
    as_replace.content = is_first && step->drops_first ? STR("") : STR(" ");
    replace_literal(&as_replace, text, out);
}

/* The bytes that a byte-level string stands for: all its characters, or the string as it is. */
static void byte_level(struct str token, struct buf *out) {
    if (!spelling_to_bytes(token, out))
        buf_add(out, token);
}

/* The end of a run of fallen-back bytes. */
static void end_bytes(struct decoder_strings *out, struct buf *bytes) {
    struct str text = buf_str(bytes);
    if (text.len == 0)
        return;
    if (utf8_valid_len(text) == text.len)
        buf_add(&out->text, text);
    else
        for (size_t i = 0; i < text.len; i++)
            buf_add_utf8(&out->text, 0xFFFD);
    end_string(out);
    buf_clear(bytes);
}

static void byte_fallback(const struct decoder_strings *in, struct decoder_strings *out) {
    struct buf bytes;
    buf_init(&bytes);
    for (size_t i = 0; i < in->count; i++) {
        unsigned char byte;
        struct str token = string_at(in, i);
        if (fallback_byte(token, &byte)) {
            buf_add_char(&bytes, (char)byte);
            continue;
        }
        end_bytes(out, &bytes);
        decoder_strings_add(out, token);
    }
    end_bytes(out, &bytes);
    out->text.has_failed |= bytes.has_failed;
    buf_release(&bytes);
}

static enum status run_step(const struct decoder_step *step, const struct decoder_strings *in,
                            struct decoder_strings *out, struct error *err) {
    struct regex_scan scan;
    struct buf bytes;
    enum status status = SL_OK;
    if (step->kind == DECODER_BYTE_FALLBACK) {
        byte_fallback(in, out);
        return SL_OK;
    }
    regex_scan_init(&scan, step->regex);
    buf_init(&bytes);
    for (size_t i = 0; i < in->count && status == SL_OK; i++) {
        struct str token = string_at(in, i);
        if (step->kind == DECODER_BYTE_LEVEL)
            byte_level(token, &bytes);
        else if (step->kind == DECODER_STRIP)
            buf_add(&out->text, strip(step, token));
        else if (step->kind == DECODER_METASPACE)
            metaspace(step, token, i == 0, &out->text);
        else if (step->kind == DECODER_FUSE)
            buf_add(&out->text, token);
        else if (step->regex)
            status = replace_regex(step, &scan, token, &out->text, err);
        else
            replace_literal(step, token, &out->text);
        if (step->kind != DECODER_BYTE_LEVEL && step->kind != DECODER_FUSE)
            end_string(out);
    }
    if (step->kind == DECODER_BYTE_LEVEL)
        utf8_add_lossy(&out->text, buf_str(&bytes));
    if (step->kind == DECODER_BYTE_LEVEL || step->kind == DECODER_FUSE)
        end_string(out);
    out->text.has_failed |= bytes.has_failed;
    buf_release(&bytes);
    regex_scan_release(&scan);
    return status;
}

enum status decoder_run(const struct decoder *decoder, struct decoder_strings *strings,
                        struct buf *out, struct error *err) {
    enum status status = SL_OK;
    for (size_t i = 0; i < decoder->count && status == SL_OK; i++) {
        struct decoder_strings next = {0};
        buf_init(&next.text);
        status = run_step(&decoder->steps[i], strings, &next, err);
        decoder_strings_release(strings);
        *strings = next;
        if (status == SL_OK && next.text.has_failed)
            status = error_memory(err, next.text.len, "decoding");
    }
    TRY(status);
    for (size_t i = 0; i < strings->count; i++) {
        if (i && decoder->joins_by_space)
            buf_add_char(out, ' ');
        /* Tokens of a hostile vocabulary are valid UTF-8 already: JSON and GGUF readers see to it.
         */
        buf_add(out, string_at(strings, i));
    }
    if (strings->text.has_failed || out->has_failed)
        return error_memory(err, out->len, "decoding");
    return SL_OK;
}

void decoder_token_bytes(const struct decoder *decoder, struct str token, bool is_first,
                         struct buf *out) {
    struct buf buffers[2];
    size_t next = 0;
    struct str text = token;
    buf_init(&buffers[0]);
    buf_init(&buffers[1]);
    if (decoder->joins_by_space && !is_first)
        buf_add_char(out, ' ');
    for (size_t i = 0; i < decoder->count; i++) {
        const struct decoder_step *step = &decoder->steps[i];
        struct buf *to = &buffers[next];
        unsigned char byte;
        struct regex_scan scan;
        buf_clear(to);
        switch (step->kind) {
        case DECODER_BYTE_LEVEL:
            byte_level(text, to);
            break;
        case DECODER_BYTE_FALLBACK:
            if (fallback_byte(text, &byte))
                buf_add_char(to, (char)byte);
            else
                buf_add(to, text);
            break;
        case DECODER_REPLACE:
            regex_scan_init(&scan, step->regex);
            if (!step->regex)
                replace_literal(step, text, to);
            else if (utf8_valid_len(text) != text.len || /* part of a character: nothing to match */
                     replace_regex(step, &scan, text, to, NULL) != SL_OK)
                buf_add(to, text);
            regex_scan_release(&scan);
            break;
        case DECODER_METASPACE:
            metaspace(step, text, is_first, to);
            break;
        case DECODER_STRIP:
            buf_add(to, is_first ? strip(&(struct decoder_step){.pattern = step->pattern,
                                                                .start = step->start},
                                         text)
                                 : text);
            break;
        case DECODER_FUSE:
            buf_add(to, text);
            break;
        }
        out->has_failed |= to->has_failed;
        text = buf_str(to);
        next = 1 - next;
    }
    buf_add(out, text);
    buf_release(&buffers[0]);
    buf_release(&buffers[1]);
}
