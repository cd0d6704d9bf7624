/* Text of the template interpreter: making, cutting, searching and splitting as Python's str does,
 * counted in code points. Work is linear in the bytes looked at and charged by the callers or
 * through value_take. */
#include "text/template_value.h"

#include "text/template_chars.h"

#include <string.h>

#define TEXT_MAX SL_TEMPLATE_OUTPUT_MAX /* bytes of one text */

enum status text_new(struct render *render, size_t len, char **data, struct value *out) {
    void *memory;
    if (len > TEXT_MAX)
        return value_fail(render, "a text of %zu bytes is too long", len);
    TRY(value_take(render, len, &memory));
    *data = memory;
    *out = value_text((struct str){memory, len});
    return SL_OK;
}

enum status text_copy(struct render *render, struct str text, struct value *out) {
    char *data;
    TRY(text_new(render, text.len, &data, out));
    if (text.len > 0)
        memcpy(data, text.data, text.len);
    return SL_OK;
}

enum status text_from_scratch(struct render *render, size_t mark, struct value *out) {
    TRY(buf_status(&render->scratch, "a template's text", render->err));
    struct str text = str_cut(buf_str(&render->scratch), mark, render->scratch.len);
    enum status status = text_copy(render, text, out);
    render->scratch.len = mark;
    return status;
}

enum status text_concat(struct render *render, const struct value *a, struct str b,
                        struct value *out) {
    size_t len = a->text.len + b.len;
    struct text_room *room = a->kind == VALUE_TEXT ? a->room : NULL;
    if (len > TEXT_MAX)
        return value_fail(render, "a text of %zu bytes is too long", len);
    TRY(value_charge(render, b.len / 64));
    bool is_newest = room != NULL && a->text.data + a->text.len == room->data + room->used;
    if (!is_newest || room->cap - room->used < b.len) {
        size_t cap = a->room != NULL || len > 1024 ? len * 2 : len;
        void *memory, *head;
        TRY(value_take(render, cap, &memory));
        TRY(value_take(render, sizeof *room, &head));
        if (a->text.len > 0)
            memcpy(memory, a->text.data, a->text.len);
        room = head;
        *room = (struct text_room){.data = memory, .used = a->text.len, .cap = cap};
    }
    char *start = room->data + room->used - a->text.len;
    if (b.len > 0)
        memcpy(room->data + room->used, b.data, b.len);
    room->used += b.len;
    *out = value_text((struct str){start, len});
    out->room = room;
    return SL_OK;
}

enum status text_repeat(struct render *render, const struct value *text, int64_t count,
                        struct value *out) {
    struct value source = *text; /* *out may be the same */
    size_t len = source.text.len, times = count > 0 && len > 0 ? (size_t)count : 0;
    char *data;
    if (times > 0 && times > TEXT_MAX / len)
        return value_fail(render, "a text of %zu times %zu bytes is too long", times, len);
    TRY(text_new(render, len * times, &data, out));
    if (times > 0)
        memcpy(data, source.text.data, len);
    for (size_t done = len, whole = len * times; done < whole; done *= 2)
        memcpy(data + done, data, done < whole - done ? done : whole - done);
    out->is_markup = source.is_markup;
    return SL_OK;
}

size_t text_length(struct str text) {
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    return count;
}

size_t text_offset(struct str text, size_t index) {
    size_t at = 0;
    for (; at < text.len; at++)
        if (((unsigned char)text.data[at] & 0xC0) != 0x80 && index-- == 0)
            break;
    return at;
}

bool text_is_ascii(struct str text) {
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.data[i] >= 0x80)
            return false;
    return true;
}

/* Searched in windows, each with the needle's length beyond, so that a match near by costs no look
 * at the rest (address sanitizers check all that memmem may read). */
size_t text_find(struct str text, struct str needle, size_t from) {
    size_t window = needle.len * 4 > 4096 ? needle.len * 4 : 4096;
    if (from > text.len || needle.len > text.len - from)
        return SIZE_MAX;
    if (needle.len == 0)
        return from;
    if (needle.len == 1) {
        const char *found = memchr(text.data + from, needle.data[0], text.len - from);
        return found == NULL ? SIZE_MAX : (size_t)(found - text.data);
    }
    for (; text.len - from >= needle.len; from += window) {
        size_t rest = text.len - from,
               len = rest - needle.len < window ? rest : window + needle.len;
        const char *found = memmem(text.data + from, len, needle.data, needle.len);
        if (found != NULL)
            return (size_t)(found - text.data);
        if (len == rest)
            break;
    }
    return SIZE_MAX;
}

/* The last occurrence, by a linear search of both texts reversed. Bytes of UTF-8 reversed match
 * only where the text does. */
enum status text_rfind(struct render *render, struct str text, struct str needle, size_t *out) {
    char *copy;
    struct value holder;
    *out = needle.len == 0 ? text.len : SIZE_MAX;
    if (needle.len == 0 || needle.len > text.len)
        return SL_OK;
    TRY(text_new(render, text.len + needle.len, &copy, &holder));
    for (size_t i = 0; i < text.len; i++)
        copy[i] = text.data[text.len - 1 - i];
    for (size_t i = 0; i < needle.len; i++)
        copy[text.len + i] = needle.data[needle.len - 1 - i];
    size_t at =
        text_find((struct str){copy, text.len}, (struct str){copy + text.len, needle.len}, 0);
    if (at != SIZE_MAX)
        *out = text.len - at - needle.len;
    return SL_OK;
}

static bool is_stripped(uint32_t c, struct str chars) {
    if (chars.data == NULL)
        return chars_is_space(c);
    for (size_t at = 0; at < chars.len;)
        if (utf8_next(chars, &at) == c)
            return true;
    return false;
}

struct str text_strip(struct str text, enum text_ends ends, struct str chars) {
    size_t from = 0, to = text.len;
    while ((ends & TEXT_LEFT) && from < to) {
        size_t next = from;
        if (!is_stripped(utf8_next(text, &next), chars))
            break;
        from = next;
    }
    while ((ends & TEXT_RIGHT) && to > from) {
        size_t start = to - 1;
        while (start > from && ((unsigned char)text.data[start] & 0xC0) == 0x80)
            start--;
        size_t next = start;
        if (!is_stripped(utf8_next(text, &next), chars))
            break;
        to = start;
    }
    return str_cut(text, from, to);
}

/* `new` between all characters and at both ends, count times at most. */
static void replace_empty(struct buf *buf, struct str text, struct str new, int64_t count) {
    size_t at = 0;
    for (int64_t done = 0; count < 0 || done < count; done++) {
        buf_add(buf, new);
        if (at == text.len)
            return;
        size_t from = at;
        utf8_next(text, &at);
        buf_add(buf, str_cut(text, from, at));
    }
    buf_add(buf, str_cut(text, at, text.len));
}

enum status text_replace(struct render *render, struct str text, struct str old, struct str new,
                         int64_t count, struct value *out) {
    struct buf *buf = &render->scratch;
    size_t mark = buf->len, at = 0, found;
    TRY(value_charge(render, text.len / 32 + 1));
    if (old.len == 0) {
        if (new.len > 0 && text.len >= TEXT_MAX / new.len)
            return value_fail(render, "a text made by replace is too long");
        replace_empty(buf, text, new, count);
        return text_from_scratch(render, mark, out);
    }
    for (; count != 0 && (found = text_find(text, old, at)) != SIZE_MAX; count--) {
        buf_add(buf, str_cut(text, at, found));
        buf_add(buf, new);
        at = found + old.len;
        if (buf->len - mark > TEXT_MAX)
            return value_fail(render, "a text made by replace is too long");
        TRY(value_charge(render, 1));
    }
    if (at == 0) {
        *out = value_text(text);
        return SL_OK;
    }
    buf_add(buf, str_cut(text, at, text.len));
    return text_from_scratch(render, mark, out);
}

struct parts { /* of a split, as ranges, growing in the rendering's memory */
    struct render *render;
    struct value *items;
    size_t count, cap;
};

static enum status add_part(struct parts *parts, struct str text) {
    if (parts->count == parts->cap) {
        void *memory;
        size_t cap = parts->cap == 0 ? 4 : parts->cap * 2;
        TRY(value_take(parts->render, cap * sizeof(struct value), &memory));
        if (parts->count > 0)
            memcpy(memory, parts->items, parts->count * sizeof(struct value));
        parts->items = memory;
        parts->cap = cap;
    }
    parts->items[parts->count++] = value_text(text);
    return value_charge(parts->render, 1);
}

static enum status take_parts(struct parts *parts, bool is_reversed, struct value *out) {
    struct value list;
    TRY(value_new_list(parts->render, VALUE_LIST, parts->count, &list));
    for (size_t i = 0; i < parts->count; i++)
        list.list->items[i] = parts->items[is_reversed ? parts->count - 1 - i : i];
    *out = list;
    return SL_OK;
}

static enum status split_spaces(struct parts *parts, struct str text, int64_t max) {
    const struct str spaces = {NULL, 0};
    text = text_strip(text, TEXT_LEFT, spaces);
    while (text.len > 0) {
        if (max-- == 0)
            return add_part(parts, text);
        size_t end = 0;
        while (end < text.len) {
            size_t next = end;
            if (chars_is_space(utf8_next(text, &next)))
                break;
            end = next;
        }
        TRY(add_part(parts, str_cut(text, 0, end)));
        text = text_strip(str_cut(text, end, text.len), TEXT_LEFT, spaces);
    }
    return SL_OK;
}

static enum status rsplit_spaces(struct parts *parts, struct str text, int64_t max) {
    const struct str spaces = {NULL, 0};
    text = text_strip(text, TEXT_RIGHT, spaces);
    while (text.len > 0) {
        if (max-- == 0)
            return add_part(parts, text);
        size_t from = text.len;
        while (from > 0) {
            size_t start = from - 1;
            while (start > 0 && ((unsigned char)text.data[start] & 0xC0) == 0x80)
                start--;
            size_t next = start;
            if (chars_is_space(utf8_next(text, &next)))
                break;
            from = start;
        }
        TRY(add_part(parts, str_cut(text, from, text.len)));
        text = text_strip(str_cut(text, 0, from), TEXT_RIGHT, spaces);
    }
    return SL_OK;
}

/* From the right with a limit: the occurrences are those that a search from the right meets. */
static enum status rsplit_by(struct parts *parts, struct str text, struct str separator,
                             int64_t max) {
    size_t end = text.len, at = text.len;
    while (max != 0 && at >= separator.len) {
        size_t from = at - separator.len;
        if (memcmp(text.data + from, separator.data, separator.len) != 0) {
            at--;
            continue;
        }
        TRY(add_part(parts, str_cut(text, from + separator.len, end)));
        TRY(value_charge(parts->render, separator.len / 64));
        end = at = from;
        max--;
    }
    return add_part(parts, str_cut(text, 0, end));
}

static enum status split_by(struct parts *parts, struct str text, struct str separator,
                            int64_t max) {
    size_t at = 0, found;
    for (; max != 0 && (found = text_find(text, separator, at)) != SIZE_MAX; max--) {
        TRY(add_part(parts, str_cut(text, at, found)));
        at = found + separator.len;
    }
    return add_part(parts, str_cut(text, at, text.len));
}

enum status text_split(struct render *render, struct str text, struct str separator, int64_t max,
                       bool from_right, struct value *out) {
    struct parts parts = {.render = render};
    TRY(value_charge(render, text.len / 32 + 1));
    if (separator.data != NULL && separator.len == 0)
        return value_fail(render, "empty separator");
    if (separator.data == NULL)
        TRY(from_right ? rsplit_spaces(&parts, text, max) : split_spaces(&parts, text, max));
    else if (from_right) {
        TRY(value_charge(render, text.len / 16 * (1 + separator.len / 64)));
        TRY(rsplit_by(&parts, text, separator, max));
    } else
        TRY(split_by(&parts, text, separator, max));
    return take_parts(&parts, from_right, out);
}

static bool is_line_end(uint32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

enum status text_lines(struct render *render, struct str text, bool keeps_ends, struct value *out) {
    struct parts parts = {.render = render};
    size_t from = 0, at = 0;
    TRY(value_charge(render, text.len / 8 + 1));
    while (at < text.len) {
        size_t end = at;
        uint32_t c = utf8_next(text, &at);
        if (!is_line_end(c))
            continue;
        if (c == '\r' && at < text.len && text.data[at] == '\n')
            at++;
        TRY(add_part(&parts, str_cut(text, from, keeps_ends ? at : end)));
        from = at;
    }
    if (from < text.len)
        TRY(add_part(&parts, str_cut(text, from, text.len)));
    return take_parts(&parts, false, out);
}

enum status text_escape(struct render *render, struct str text, struct value *out) {
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    TRY(value_charge(render, text.len / 8));
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        const char *entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '"'  ? "&#34;"
                             : c == '\'' ? "&#39;"
                                         : NULL;
        if (entity != NULL)
            buf_add(buf, str_from(entity));
        else
            buf_add_char(buf, c);
    }
    TRY(text_from_scratch(render, mark, out));
    out->is_markup = true;
    return SL_OK;
}

enum status text_reverse(struct render *render, struct str text, struct value *out) {
    char *data;
    TRY(text_new(render, text.len, &data, out));
    for (size_t at = 0; at < text.len;) {
        size_t from = at;
        utf8_next(text, &at);
        memcpy(data + text.len - at, text.data + from, at - from);
    }
    return SL_OK;
}

enum status text_need(struct render *render, const struct value *value, const char *what,
                      struct str *out) {
    if (value->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, value);
    if (value->kind != VALUE_TEXT)
        return value_fail(render, "%s must be str, not %s", what, value_type(value));
    *out = value->text;
    return SL_OK;
}

enum status text_pad(struct render *render, const struct value *text, int64_t width, char align,
                     struct str fill, struct value *out) {
    size_t len = text_length(text->text);
    *out = *text;
    if (width < 0 || (uint64_t)width <= len)
        return SL_OK;
    size_t missing = (size_t)width - len;
    if (missing > TEXT_MAX / (fill.len > 0 ? fill.len : 1))
        return value_fail(render, "a text of %zu characters is too long", (size_t)width);
    size_t left = align == '>' ? missing : align == '<' ? 0 : missing / 2;
    if (align == '=') /* str.center: the odd one goes left when the width is odd */
        left = missing / 2 + (missing & (size_t)width & 1);
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    TRY(value_charge(render, missing));
    for (size_t i = 0; i < left; i++)
        buf_add(buf, fill);
    buf_add(buf, text->text);
    for (size_t i = left; i < missing; i++)
        buf_add(buf, fill);
    bool is_markup = text->is_markup; /* *out may be the same */
    TRY(text_from_scratch(render, mark, out));
    out->is_markup = is_markup;
    return SL_OK;
}
