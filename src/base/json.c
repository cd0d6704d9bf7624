/* Owns reading JSON into a tree. Accepts RFC 8259's grammar and nothing beside it.
 *
 * Values whose array or object is still open wait on one stack of members; the closing bracket
 * moves them, now that their number is known, into the arena in one piece. A second stack has one
 * frame for each open bracket. So depth costs frames, never our own call stack. */
#include "base/json.h"

#include "base/map.h"

#include <string.h>

#define DEPTH_DEFAULT 512
/* Objects of up to so many members are checked for duplicates pair by pair, larger ones by a map.
 */
#define PAIRS_MAX 8

struct frame {
    size_t first; /* of its values on the stack of members */
    bool is_object;
};

struct reader {
    struct arena *arena;
    struct str text;
    size_t at;
    const struct json_options *options;
    struct json_member *waiting;
    size_t waiting_count, waiting_cap;
    struct frame *frames;
    size_t depth, frames_cap, depth_max;
    size_t values, values_max;    /* since the last member that was handed over */
    const struct json_each *each; /* NULL: the tree is kept */
    struct error *err;
};

/* An error at byte offset `at`, with what stands there. */
static enum status fail_at(struct reader *reader, size_t at, const char *problem) {
    if (at >= reader->text.len)
        return error_set(reader->err, SL_ERR_INPUT, "JSON ends too early at byte %zu: %s", at,
                         problem);
    unsigned char byte = (unsigned char)reader->text.data[at];
    if (byte > 0x20 && byte < 0x7F)
        return error_set(reader->err, SL_ERR_INPUT, "JSON is wrong at byte %zu ('%c'): %s", at,
                         byte, problem);
    return error_set(reader->err, SL_ERR_INPUT, "JSON is wrong at byte %zu (0x%02x): %s", at, byte,
                     problem);
}

static enum status fail_memory(struct reader *reader, size_t bytes) {
    return error_memory(reader->err, bytes, "a JSON value");
}

/* The next byte, or -1 at the end. */
static int peek(const struct reader *reader) {
    return reader->at < reader->text.len ? (unsigned char)reader->text.data[reader->at] : -1;
}

static void skip_space(struct reader *reader) {
    while (reader->at < reader->text.len) {
        char c = reader->text.data[reader->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            return;
        reader->at++;
    }
}

static size_t skip_digits(struct reader *reader) {
    size_t start = reader->at;
    while (peek(reader) >= '0' && peek(reader) <= '9')
        reader->at++;
    return reader->at - start;
}

static enum status read_number(struct reader *reader, struct json *value) {
    size_t start = reader->at;
    if (peek(reader) == '-')
        reader->at++;
    if (peek(reader) == '0') {
        reader->at++;
        if (peek(reader) >= '0' && peek(reader) <= '9')
            return fail_at(reader, reader->at, "a number must not begin with 0");
    } else if (skip_digits(reader) == 0) {
        return fail_at(reader, reader->at, "expected a digit");
    }
    if (peek(reader) == '.') {
        reader->at++;
        if (skip_digits(reader) == 0)
            return fail_at(reader, reader->at, "expected a digit after the point");
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        reader->at++;
        if (peek(reader) == '+' || peek(reader) == '-')
            reader->at++;
        if (skip_digits(reader) == 0)
            return fail_at(reader, reader->at, "expected a digit in the exponent");
    }
    value->kind = JSON_NUMBER;
    value->text = str_cut(reader->text, start, reader->at);
    return SL_OK;
}

static bool hex4(struct str text, size_t at, uint32_t *out) {
    uint32_t value = 0;
    if (at > text.len || text.len - at < 4)
        return false;
    for (size_t i = 0; i < 4; i++) {
        char c = text.data[at + i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return false;
        value = value * 16 + digit;
    }
    *out = value;
    return true;
}

/* The escape whose backslash is at *at: its bytes to out (4 at most, never more than the escape is
 * long), *at behind it. False when it is none; *at is then where the fault is. */
static bool read_escape(struct reader *reader, size_t *at, char out[4], size_t *out_len) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    struct str text = reader->text;
    *at += 1;
    if (*at >= text.len)
        return false;
    char c = text.data[*at];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        out[0] = to[simple - from];
        *out_len = 1;
        *at += 1;
        return true;
    }
    uint32_t unit, low;
    if (c != 'u' || !hex4(text, *at + 1, &unit))
        return false;
    *at += 5;
    if (unit >= 0xD800 && unit <= 0xDFFF) {
        bool is_pair = unit <= 0xDBFF && str_starts(str_cut(text, *at, text.len), STR("\\u")) &&
                       hex4(text, *at + 2, &low) && low >= 0xDC00 && low <= 0xDFFF;
        if (is_pair) {
            unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            *at += 6;
        } else {
            unit = 0xFFFD;
            if (reader->options && reader->options->lone_surrogates)
                *reader->options->lone_surrogates += 1;
        }
    }
    *out_len = utf8_put(unit, out);
    return true;
}

/* The end of a run of bytes of a string that stand for themselves. */
static size_t plain_end(struct str text, size_t at) {
    while (at < text.len) {
        unsigned char c = (unsigned char)text.data[at];
        if (c == '"' || c == '\\' || c < 0x20)
            break;
        at++;
    }
    return at;
}

/* Goes on with a string after its first plain run, up to the quote at `end`, decoding into out,
 * where as many bytes as the text has are free. */
static enum status decode_string(struct reader *reader, size_t start, size_t end, struct str *out) {
    char *data = arena_take(reader->arena, end - start);
    if (!data)
        return fail_memory(reader, end - start);
    size_t len = 0, at = start;
    while (at < end) {
        size_t stop = plain_end(reader->text, at);
        memcpy(data + len, reader->text.data + at, stop - at);
        len += stop - at;
        at = stop;
        if (at < end) {
            char bytes[4];
            size_t count;
            if (!read_escape(reader, &at, bytes, &count))
                return fail_at(reader, at, "not an escape");
            memcpy(data + len, bytes, count);
            len += count;
        }
    }
    *out = (struct str){data, len};
    return SL_OK;
}

/* At the opening quote. First looks for the closing one, so that strings without escapes, nearly
 * all, need no copy. */
static enum status read_string(struct reader *reader, struct str *out) {
    size_t start = reader->at + 1, at = plain_end(reader->text, start);
    bool has_escapes = false;
    while (at < reader->text.len && reader->text.data[at] == '\\') {
        has_escapes = true;
        at = at + 2 < reader->text.len ? plain_end(reader->text, at + 2) : reader->text.len;
    }
    if (at >= reader->text.len)
        return fail_at(reader, reader->text.len, "a string does not end");
    if (reader->text.data[at] != '"')
        return fail_at(reader, at, "a control character in a string must be escaped");
    if (has_escapes)
        TRY(decode_string(reader, start, at, out));
    else
        *out = str_cut(reader->text, start, at);
    reader->at = at + 1;
    return SL_OK;
}

static enum status read_word(struct reader *reader, struct str word, enum json_kind kind,
                             struct json *value) {
    if (!str_starts(str_cut(reader->text, reader->at, reader->text.len), word))
        return fail_at(reader, reader->at, "expected a value");
    reader->at += word.len;
    value->kind = kind;
    return SL_OK;
}

/* A value that is no array and no object. */
static enum status read_scalar(struct reader *reader, struct json *value) {
    switch (peek(reader)) {
    case '"':
        value->kind = JSON_STRING;
        return read_string(reader, &value->text);
    case 't':
        return read_word(reader, STR("true"), JSON_TRUE, value);
    case 'f':
        return read_word(reader, STR("false"), JSON_FALSE, value);
    case 'n':
        return read_word(reader, STR("null"), JSON_NULL, value);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return read_number(reader, value);
    default:
        return fail_at(reader, reader->at, "expected a value");
    }
}

static enum status fail_duplicate(struct reader *reader, struct str name) {
    return error_set(reader->err, SL_ERR_INPUT,
                     "JSON has \"%.*s\" twice in the object that ends at byte %zu", STR_ARG(name),
                     reader->at);
}

static enum status check_duplicates(struct reader *reader, const struct json_member *members,
                                    size_t count) {
    if (count <= PAIRS_MAX) {
        for (size_t i = 1; i < count; i++)
            for (size_t j = 0; j < i; j++)
                if (str_equal(members[i].name, members[j].name))
                    return fail_duplicate(reader, members[i].name);
        return SL_OK;
    }
    struct map seen;
    enum status status = SL_OK;
    map_init(&seen);
    if (!map_reserve(&seen, count))
        status = fail_memory(reader, count);
    for (size_t i = 0; i < count && status == SL_OK; i++) {
        bool was_there;
        if (!map_put(&seen, members[i].name, 0, NULL, &was_there))
            status = fail_memory(reader, count);
        else if (was_there)
            status = fail_duplicate(reader, members[i].name);
    }
    map_release(&seen);
    return status;
}

static enum status open_frame(struct reader *reader) {
    if (reader->depth == reader->depth_max)
        return error_set(reader->err, SL_ERR_INPUT,
                         "JSON is nested deeper than %zu levels at byte %zu", reader->depth_max,
                         reader->at);
    void *frames = reader->frames;
    if (!mem_grow(&frames, &reader->frames_cap, reader->depth + 1, sizeof *reader->frames))
        return fail_memory(reader, reader->depth);
    reader->frames = frames;
    reader->frames[reader->depth++] =
        (struct frame){reader->waiting_count, reader->text.data[reader->at] == '{'};
    reader->at++;
    return SL_OK;
}

/* At the closing bracket: moves the values of the innermost frame into the arena and value. */
static enum status close_frame(struct reader *reader, struct json *value) {
    struct frame frame = reader->frames[reader->depth - 1];
    const struct json_member *first = reader->waiting + frame.first;
    size_t count = reader->waiting_count - frame.first;
    size_t size = frame.is_object ? sizeof(struct json_member) : sizeof(struct json);
    if (count > UINT32_MAX)
        return fail_at(reader, reader->at, "more than 4294967295 values in one array or object");
    reader->at++;
    void *values = count ? arena_array(reader->arena, count, size) : NULL;
    if (count && !values)
        return fail_memory(reader, count);
    value->kind = frame.is_object ? JSON_OBJECT : JSON_ARRAY;
    value->count = (uint32_t)count;
    if (frame.is_object) {
        if (reader->options && reader->options->refuses_duplicates)
            TRY(check_duplicates(reader, first, count));
        if (count)
            memcpy(values, first, count * size);
        value->members = values;
    } else {
        struct json *items = values;
        for (size_t i = 0; i < count; i++)
            items[i] = first[i].value;
        value->items = items;
    }
    reader->waiting_count = frame.first;
    reader->depth--;
    return SL_OK;
}

/* Before a value: its name, if the innermost frame is an object. */
static enum status read_name(struct reader *reader, struct str *name) {
    if (reader->depth == 0 || !reader->frames[reader->depth - 1].is_object)
        return SL_OK;
    if (peek(reader) != '"')
        return fail_at(reader, reader->at, "expected a name in quotes");
    TRY(read_string(reader, name));
    skip_space(reader);
    if (peek(reader) != ':')
        return fail_at(reader, reader->at, "expected ':'");
    reader->at++;
    skip_space(reader);
    return SL_OK;
}

static enum status push_waiting(struct reader *reader, const struct json_member *member) {
    void *waiting = reader->waiting;
    if (++reader->values > reader->values_max) {
        if (reader->options->is_too_large != NULL)
            *reader->options->is_too_large = true;
        return error_set(reader->err, SL_ERR_INPUT, "JSON has more than %zu values at byte %zu",
                         reader->values_max, reader->at);
    }
    if (!mem_grow(&waiting, &reader->waiting_cap, reader->waiting_count + 1, sizeof *member))
        return fail_memory(reader, reader->waiting_count * sizeof *member);
    reader->waiting = waiting;
    reader->waiting[reader->waiting_count++] = *member;
    return SL_OK;
}

/* One scalar, or the opening bracket of an array or object. */
static enum status read_value(struct reader *reader) {
    struct json_member member = {0};
    TRY(read_name(reader, &member.name));
    int c = peek(reader);
    if (c != '[' && c != '{') {
        TRY(read_scalar(reader, &member.value));
        return push_waiting(reader, &member);
    }
    /* Its place among its siblings; close_frame fills the value. */
    TRY(push_waiting(reader, &member));
    return open_frame(reader);
}

/* The member of the outermost object that has just ended goes to its reader, and is gone. */
static enum status hand_over(struct reader *reader) {
    const struct frame *frame = &reader->frames[0];
    if (reader->each == NULL || reader->depth != 1 || !frame->is_object ||
        reader->waiting_count == frame->first)
        return SL_OK;
    must(reader->waiting_count == frame->first + 1);
    const struct json_member *member = &reader->waiting[frame->first];
    TRY(reader->each->member(reader->each->ctx, member, reader->err));
    arena_release(reader->arena);
    reader->waiting_count = frame->first;
    reader->values = 0;
    return SL_OK;
}

/* After a value: closes what ends here, then stands before the next value or at the end. */
static enum status after_value(struct reader *reader, bool *is_done) {
    for (;;) {
        skip_space(reader);
        *is_done = reader->depth == 0;
        if (*is_done)
            return SL_OK;
        const struct frame *frame = &reader->frames[reader->depth - 1];
        int c = peek(reader);
        bool is_empty = frame->first == reader->waiting_count;
        TRY(hand_over(reader));
        if (c == (frame->is_object ? '}' : ']')) {
            struct json closed = {0};
            size_t place = frame->first - 1;
            TRY(close_frame(reader, &closed));
            reader->waiting[place].value = closed;
        } else if (is_empty) {
            return SL_OK; /* just opened */
        } else if (c == ',') {
            reader->at++;
            skip_space(reader);
            return SL_OK;
        } else {
            return fail_at(reader, reader->at,
                           frame->is_object ? "expected ',' or '}'" : "expected ',' or ']'");
        }
    }
}

static enum status read_document(struct reader *reader) {
    size_t valid = utf8_valid_len(reader->text);
    if (valid < reader->text.len)
        return fail_at(reader, valid, "not UTF-8");
    bool is_done = false;
    skip_space(reader);
    while (!is_done) {
        TRY(read_value(reader));
        TRY(after_value(reader, &is_done));
    }
    if (reader->at < reader->text.len)
        return fail_at(reader, reader->at, "expected nothing after the value");
    return SL_OK;
}

static enum status parse(struct reader *reader, const struct json_options *options,
                         const struct json **out) {
    reader->options = options;
    reader->depth_max = options && options->depth_max ? options->depth_max : DEPTH_DEFAULT;
    reader->values_max = options && options->values_max ? options->values_max : SIZE_MAX;
    enum status status = read_document(reader);
    if (status == SL_OK) {
        struct json *root = arena_take(reader->arena, sizeof *root);
        if (root) {
            *root = reader->waiting[0].value;
            *out = root;
        } else {
            status = fail_memory(reader, sizeof *root);
        }
    }
    mem_free(reader->frames);
    mem_free(reader->waiting);
    return status;
}

enum status json_parse(struct arena *arena, struct str text, const struct json_options *options,
                       const struct json **out, struct error *err) {
    struct reader reader = {.arena = arena, .text = text, .err = err};
    return parse(&reader, options, out);
}

enum status json_parse_each(struct arena *arena, struct str text,
                            const struct json_options *options, const struct json_each *each,
                            struct error *err) {
    struct reader reader = {.arena = arena, .text = text, .each = each, .err = err};
    const struct json *root;
    return parse(&reader, options, &root);
}
