/* Values as text: Python's str() and repr(), and JSON as json.dumps writes it. A value that Python
 * would print with its address (a generator, a method, a function) is an error: no template means
 * it. Nested values are followed to SL_TEMPLATE_NEST_MAX levels. */
#include "text/template_value.h"

#include "text/template_chars.h"

#include <math.h>
#include <string.h>

static enum status add_repr(struct render *render, struct buf *buf, const struct value *value,
                            unsigned depth);

void repr_add_float(struct buf *buf, double real) {
    if (isnan(real))
        buf_add(buf, STR("nan"));
    else if (isinf(real))
        buf_add(buf, real < 0 ? STR("-inf") : STR("inf"));
    else
        json_add_double(buf, real);
}

/* Python's repr of a text: single quotes unless it holds those and no double ones. Each escape is a
 * step: a text printed inside a text inside a text doubles its backslashes. */
static enum status add_quoted(struct render *render, struct buf *buf, struct str text) {
    bool has_single = text_find(text, STR("'"), 0) != SIZE_MAX;
    bool has_double = text_find(text, STR("\""), 0) != SIZE_MAX;
    char quote = has_single && !has_double ? '"' : '\'';
    size_t plain = 0; /* where what stands as it is, and is not added yet, begins */
    buf_add_char(buf, quote);
    for (size_t at = 0; at < text.len;) {
        char next = text.data[at];
        if (next >= ' ' && next <= '~' && next != quote && next != '\\') {
            at++;
            continue;
        }
        size_t from = at;
        uint32_t c = utf8_next(text, &at);
        char letter = c == '\n'                                          ? 'n'
                      : c == '\r'                                        ? 'r'
                      : c == '\t'                                        ? 't'
                      : c == '\\' || c == (uint32_t)(unsigned char)quote ? (char)c
                                                                         : '\0';
        if (letter == '\0' && chars_is_printable(c))
            continue;
        TRY(value_charge(render, 8));
        buf_add(buf, str_cut(text, plain, from));
        if (letter != '\0')
            buf_add(buf, (struct str){(const char[]){'\\', letter}, 2});
        else
            buf_printf(buf, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        plain = at;
    }
    buf_add(buf, str_cut(text, plain, text.len));
    buf_add_char(buf, quote);
    return value_charge(render, text.len / 8);
}

static enum status add_items(struct render *render, struct buf *buf, const struct list *list,
                             const char *open, const char *close, unsigned depth) {
    buf_add(buf, str_from(open));
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            buf_add(buf, STR(", "));
        TRY(add_repr(render, buf, &list->items[i], depth + 1));
    }
    buf_add(buf, str_from(close));
    return SL_OK;
}

static enum status add_dict(struct render *render, struct buf *buf, struct dict *dict,
                            unsigned depth) {
    TRY(dict_entries(render, dict));
    buf_add_char(buf, '{');
    for (size_t i = 0; i < dict->count; i++) {
        if (i > 0)
            buf_add(buf, STR(", "));
        TRY(add_repr(render, buf, &dict->entries[i].key, depth + 1));
        buf_add(buf, STR(": "));
        TRY(add_repr(render, buf, &dict->entries[i].value, depth + 1));
    }
    buf_add_char(buf, '}');
    return SL_OK;
}

static enum status add_view(struct render *render, struct buf *buf, const struct value *value,
                            unsigned depth) {
    struct list list;
    TRY(value_iterate(render, value, &list));
    buf_printf(buf, "%s(", value_type(value));
    TRY(add_items(render, buf, &list, "[", "])", depth));
    return SL_OK;
}

static void add_range(struct buf *buf, const struct range *range) {
    buf_printf(buf, "range(%lld, %lld", (long long)range->start, (long long)range->stop);
    if (range->step != 1)
        buf_printf(buf, ", %lld", (long long)range->step);
    buf_add_char(buf, ')');
}

static enum status add_container(struct render *render, struct buf *buf, const struct value *value,
                                 unsigned depth) {
    switch (value->kind) {
    case VALUE_LIST:
        TRY(value_items(render, value->list));
        return add_items(render, buf, value->list, "[", "]", depth);
    case VALUE_TUPLE:
        TRY(value_items(render, value->list));
        return add_items(render, buf, value->list, "(", value->list->count == 1 ? ",)" : ")",
                         depth);
    case VALUE_DICT:
        return add_dict(render, buf, value->dict, depth);
    case VALUE_VIEW:
        return add_view(render, buf, value, depth);
    case VALUE_RANGE:
        add_range(buf, value->range);
        return SL_OK;
    case VALUE_SPACE:
        buf_add(buf, STR("<Namespace "));
        TRY(add_dict(render, buf, value->dict, depth));
        buf_add_char(buf, '>');
        return SL_OK;
    default:
        return value_fail(render, "a %s is printed, which has no text of its own",
                          value_type(value));
    }
}

static enum status add_repr(struct render *render, struct buf *buf, const struct value *value,
                            unsigned depth) {
    if (depth > SL_TEMPLATE_NEST_MAX)
        return value_fail(render, "a value is nested more than %u levels deep",
                          SL_TEMPLATE_NEST_MAX);
    if (buf->len > SL_TEMPLATE_OUTPUT_MAX)
        return value_fail(render, "a text of %zu bytes is too long", buf->len);
    TRY(value_charge(render, 1));
    switch (value->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
        buf_add(buf, STR("Undefined"));
        return SL_OK;
    case VALUE_NONE:
        buf_add(buf, STR("None"));
        return SL_OK;
    case VALUE_BOOL:
        buf_add(buf, value->boolean ? STR("True") : STR("False"));
        return SL_OK;
    case VALUE_INT:
        buf_printf(buf, "%lld", (long long)value->integer);
        return SL_OK;
    case VALUE_BIG:
        buf_add(buf, value->text);
        return SL_OK;
    case VALUE_FLOAT:
        repr_add_float(buf, value->real);
        return SL_OK;
    case VALUE_TEXT:
        if (value->is_markup)
            buf_add(buf, STR("Markup("));
        TRY(add_quoted(render, buf, value->text));
        if (value->is_markup)
            buf_add_char(buf, ')');
        return SL_OK;
    case VALUE_MACRO:
        return value_fail(render, "a macro is printed without being called");
    default:
        return add_container(render, buf, value, depth);
    }
}

enum status repr_add(struct render *render, struct buf *buf, const struct value *value) {
    return add_repr(render, buf, value, 0);
}

enum status repr_add_str(struct render *render, struct buf *buf, const struct value *value) {
    if (value->kind == VALUE_UNDEFINED)
        return SL_OK;
    if (value->kind != VALUE_TEXT)
        return add_repr(render, buf, value, 0);
    buf_add(buf, value->text);
    return value_charge(render, value->text.len / 64);
}

enum status repr_str(struct render *render, const struct value *value, struct str *out) {
    if (value->kind == VALUE_TEXT) {
        *out = value->text;
        return SL_OK;
    }
    size_t mark = render->scratch.len;
    struct value text;
    TRY(repr_add_str(render, &render->scratch, value));
    TRY(text_from_scratch(render, mark, &text));
    *out = text.text;
    return SL_OK;
}

struct json_writer {
    struct render *render;
    struct buf *buf;
    const struct json_style *style;
};

static enum status add_json(const struct json_writer *writer, const struct value *value,
                            unsigned depth);

static void add_json_text(const struct json_writer *writer, struct str text) {
    struct buf *buf = writer->buf;
    size_t from = buf->len;
    json_add_string(buf, text);
    if (!writer->style->is_ascii || text_is_ascii(text) || buf->has_failed)
        return;
    buf->len = from;
    buf_add_char(buf, '"');
    for (size_t at = 0; at < text.len;) {
        size_t start = at;
        uint32_t c = utf8_next(text, &at);
        if (c < 0x80) { /* one character through the same escapes, without its quotes */
            size_t mark = buf->len;
            json_add_string(buf, str_cut(text, start, at));
            if (buf->has_failed)
                return;
            memmove(buf->data + mark, buf->data + mark + 1, buf->len - mark - 2);
            buf->len -= 2;
        } else if (c < 0x10000) {
            buf_printf(buf, "\\u%04x", c);
        } else {
            buf_printf(buf, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                       0xDC00 + ((c - 0x10000) & 0x3FF));
        }
    }
    buf_add_char(buf, '"');
}

static void add_json_float(struct buf *buf, double real) {
    if (isnan(real))
        buf_add(buf, STR("NaN"));
    else if (isinf(real))
        buf_add(buf, real < 0 ? STR("-Infinity") : STR("Infinity"));
    else
        json_add_double(buf, real);
}

/* What goes before an item (or the closing bracket) at this depth. */
static enum status add_break(const struct json_writer *writer, bool is_first, bool is_close,
                             unsigned depth) {
    const struct json_style *style = writer->style;
    if (!is_first && !is_close)
        buf_add(writer->buf, style->item_separator);
    if (style->indent.data != NULL) {
        buf_add_char(writer->buf, '\n');
        for (unsigned i = 0; i < depth; i++)
            buf_add(writer->buf, style->indent);
        TRY(value_charge(writer->render, depth * (style->indent.len / 64 + 1)));
    }
    if (writer->buf->len > SL_TEMPLATE_OUTPUT_MAX)
        return value_fail(writer->render, "a text of %zu bytes is too long", writer->buf->len);
    return SL_OK;
}

static enum status add_json_list(const struct json_writer *writer, struct list *list,
                                 unsigned depth) {
    TRY(value_items(writer->render, list));
    if (list->count == 0) {
        buf_add(writer->buf, STR("[]"));
        return SL_OK;
    }
    buf_add_char(writer->buf, '[');
    for (size_t i = 0; i < list->count; i++) {
        TRY(add_break(writer, i == 0, false, depth + 1));
        TRY(add_json(writer, &list->items[i], depth + 1));
    }
    TRY(add_break(writer, false, true, depth));
    buf_add_char(writer->buf, ']');
    return SL_OK;
}

/* Keys that are not text are written as JSON writes them, between quotes. */
static enum status add_json_key(const struct json_writer *writer, const struct value *key) {
    if (key->kind == VALUE_TEXT) {
        add_json_text(writer, key->text);
        return SL_OK;
    }
    if (!value_is_number(key) && key->kind != VALUE_NONE)
        return value_fail(writer->render, "keys must be str, int, float, bool or None, not %s",
                          value_type(key));
    buf_add_char(writer->buf, '"');
    TRY(add_json(writer, key, 0));
    buf_add_char(writer->buf, '"');
    return SL_OK;
}

/* The order of a dict's entries in the text: as they are, or by key. */
static enum status entry_order(struct render *render, const struct dict *dict, bool is_sorted,
                               size_t **out) {
    void *memory;
    TRY(value_take(render, dict->count * 2 * sizeof(size_t), &memory));
    size_t *order = memory, *other = order + dict->count, *from = order, *to = other;
    for (size_t i = 0; i < dict->count; i++)
        order[i] = i;
    for (size_t width = 1; is_sorted && width < dict->count; width *= 2) {
        for (size_t start = 0; start < dict->count; start += 2 * width) {
            size_t mid = start + width < dict->count ? start + width : dict->count;
            size_t end = mid + width < dict->count ? mid + width : dict->count;
            for (size_t a = start, b = mid, at = start; at < end; at++) {
                int sign = 0;
                if (a < mid && b < end)
                    TRY(value_order(render, &dict->entries[from[a]].key,
                                    &dict->entries[from[b]].key, "<", &sign));
                bool is_left = b >= end || (a < mid && sign != 1);
                to[at] = is_left ? from[a++] : from[b++];
            }
        }
        size_t *swap = from;
        from = to;
        to = swap;
    }
    *out = from;
    return SL_OK;
}

static enum status add_json_dict(const struct json_writer *writer, struct dict *dict,
                                 unsigned depth) {
    size_t *order;
    TRY(dict_entries(writer->render, dict));
    if (dict->count == 0) {
        buf_add(writer->buf, STR("{}"));
        return SL_OK;
    }
    TRY(entry_order(writer->render, dict, writer->style->sorts_keys, &order));
    buf_add_char(writer->buf, '{');
    for (size_t i = 0; i < dict->count; i++) {
        const struct entry *entry = &dict->entries[order[i]];
        TRY(add_break(writer, i == 0, false, depth + 1));
        TRY(add_json_key(writer, &entry->key));
        buf_add(writer->buf, writer->style->key_separator);
        TRY(add_json(writer, &entry->value, depth + 1));
    }
    TRY(add_break(writer, false, true, depth));
    buf_add_char(writer->buf, '}');
    return SL_OK;
}

static enum status add_json(const struct json_writer *writer, const struct value *value,
                            unsigned depth) {
    struct buf *buf = writer->buf;
    if (depth > SL_TEMPLATE_NEST_MAX)
        return value_fail(writer->render, "a value is nested more than %u levels deep",
                          SL_TEMPLATE_NEST_MAX);
    TRY(value_charge(writer->render, 1));
    switch (value->kind) {
    case VALUE_NONE:
        buf_add(buf, STR("null"));
        return SL_OK;
    case VALUE_BOOL:
        buf_add(buf, value->boolean ? STR("true") : STR("false"));
        return SL_OK;
    case VALUE_INT:
    case VALUE_BIG:
        return repr_add(writer->render, buf, value);
    case VALUE_FLOAT:
        add_json_float(buf, value->real);
        return SL_OK;
    case VALUE_TEXT:
        add_json_text(writer, value->text);
        return value_charge(writer->render,
                            value->text.len / 4 * (writer->style->is_ascii ? 8 : 1));
    case VALUE_LIST:
    case VALUE_TUPLE:
        return add_json_list(writer, value->list, depth);
    case VALUE_DICT:
        return add_json_dict(writer, value->dict, depth);
    default:
        return value_fail(writer->render, "Object of type %s is not JSON serializable",
                          value_type(value));
    }
}

enum status repr_add_json(struct render *render, struct buf *buf, const struct value *value,
                          const struct json_style *style) {
    struct json_writer writer = {.render = render, .buf = buf, .style = style};
    return add_json(&writer, value, 0);
}
