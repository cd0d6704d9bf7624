/* Methods of text, lists, tuples and dicts under their Python names. Those that would change a list
 * or dict are out of reach, as in Jinja's immutable sandbox. */
#include "text/template_value.h"

#include "text/template_chars.h"

#include <string.h>

/* An optional text argument: data NULL when it is left out or none. */
static enum status optional_text(struct render *render, const struct value *value, const char *what,
                                 struct str *out) {
    *out = (struct str){NULL, 0};
    if (value->kind == VALUE_MISSING || value->kind == VALUE_NONE)
        return SL_OK;
    TRY(text_need(render, value, what, out));
    if (out->data == NULL)
        *out = STR("");
    return SL_OK;
}

static enum status optional_int(struct render *render, const struct value *value, const char *what,
                                int64_t initial, int64_t *out) {
    *out = initial;
    return value->kind == VALUE_MISSING ? SL_OK : number_need_int(render, value, what, out);
}

/* Text out of a markup is markup. */
static enum status as_self(const struct call *call, struct value *out) {
    out->is_markup = call->self.is_markup;
    return SL_OK;
}

static enum status items_as_self(const struct call *call, struct value *list) {
    for (size_t i = 0; i < list->list->count; i++)
        list->list->items[i].is_markup = call->self.is_markup;
    return SL_OK;
}

/* An argument that becomes part of the text: escaped first if the text is markup. */
static enum status part_text(struct render *render, const struct call *call,
                             const struct value *value, const char *what, struct str *out) {
    struct value escaped;
    TRY(text_need(render, value, what, out));
    if (!call->self.is_markup || value->is_markup)
        return SL_OK;
    TRY(text_escape(render, *out, &escaped));
    *out = escaped.text;
    return SL_OK;
}

static enum status strip(struct render *render, const struct call *call, enum text_ends ends,
                         struct value *out) {
    struct str chars;
    TRY(optional_text(render, &call->args[0], "strip's argument", &chars));
    TRY(value_charge(render, (chars.len + 1) * (call->self.text.len / 16 + 1)));
    *out = value_text(text_strip(call->self.text, ends, chars));
    return as_self(call, out);
}

static enum status method_strip(struct render *render, const struct call *call, struct value *out) {
    return strip(render, call, TEXT_BOTH, out);
}

static enum status method_lstrip(struct render *render, const struct call *call,
                                 struct value *out) {
    return strip(render, call, TEXT_LEFT, out);
}

static enum status method_rstrip(struct render *render, const struct call *call,
                                 struct value *out) {
    return strip(render, call, TEXT_RIGHT, out);
}

static enum status split(struct render *render, const struct call *call, bool from_right,
                         struct value *out) {
    struct str separator;
    int64_t max;
    TRY(optional_text(render, &call->args[0], "split's separator", &separator));
    TRY(optional_int(render, &call->args[1], "maxsplit", -1, &max));
    TRY(text_split(render, call->self.text, separator, max, from_right, out));
    return items_as_self(call, out);
}

static enum status method_split(struct render *render, const struct call *call, struct value *out) {
    return split(render, call, false, out);
}

static enum status method_rsplit(struct render *render, const struct call *call,
                                 struct value *out) {
    return split(render, call, true, out);
}

static enum status method_splitlines(struct render *render, const struct call *call,
                                     struct value *out) {
    bool keeps;
    TRY(value_truth(render, &call->args[0], &keeps));
    TRY(text_lines(render, call->self.text, keeps, out));
    return items_as_self(call, out);
}

static enum status partition(struct render *render, const struct call *call, bool from_right,
                             struct value *out) {
    struct str separator, text = call->self.text;
    TRY(text_need(render, &call->args[0], "partition's separator", &separator));
    if (separator.len == 0)
        return value_fail(render, "empty separator");
    TRY(value_charge(render, text.len / 32));
    size_t at = text_find(text, separator, 0);
    if (from_right)
        TRY(text_rfind(render, text, separator, &at));
    struct value parts;
    TRY(value_new_list(render, VALUE_TUPLE, 3, &parts));
    for (size_t i = 0; i < 3; i++)
        parts.list->items[i] = value_words("");
    if (at == SIZE_MAX) {
        parts.list->items[from_right ? 2 : 0] = call->self;
    } else {
        parts.list->items[0] = value_text(str_cut(text, 0, at));
        parts.list->items[1] = value_text(separator);
        parts.list->items[2] = value_text(str_cut(text, at + separator.len, text.len));
    }
    *out = parts;
    return items_as_self(call, out);
}

static enum status method_partition(struct render *render, const struct call *call,
                                    struct value *out) {
    return partition(render, call, false, out);
}

static enum status method_rpartition(struct render *render, const struct call *call,
                                     struct value *out) {
    return partition(render, call, true, out);
}

/* The part of the text that start and end (args 1 and 2) name, in bytes from *from. */
static enum status window(struct render *render, const struct call *call, struct str *out,
                          size_t *from, bool *is_past) {
    struct str text = call->self.text;
    *out = text;
    *from = 0;
    *is_past = false;
    if (call->args[1].kind == VALUE_MISSING && call->args[2].kind == VALUE_MISSING)
        return value_charge(render, text.len / 32);
    int64_t length = (int64_t)text_length(text), bounds[2] = {0, length};
    for (size_t i = 0; i < 2; i++) {
        const struct value *bound = &call->args[1 + i];
        if (bound->kind == VALUE_MISSING || bound->kind == VALUE_NONE)
            continue;
        TRY(number_need_int(render, bound, "start or end", &bounds[i]));
        if (bounds[i] < 0)
            bounds[i] = bounds[i] < -length ? 0 : bounds[i] + length;
    }
    TRY(value_charge(render, text.len / 8));
    *is_past = bounds[0] > length || bounds[0] > bounds[1];
    *from = *is_past ? text.len : text_offset(text, (size_t)bounds[0]);
    size_t to = bounds[1] >= length ? text.len : text_offset(text, (size_t)bounds[1]);
    *out = str_cut(text, *from, to < *from ? *from : to);
    return SL_OK;
}

/* Where the argument stands, in code points; -1 when nowhere. */
static enum status find(struct render *render, const struct call *call, bool from_right,
                        int64_t *out) {
    struct str needle, part;
    size_t from;
    bool is_past;
    TRY(text_need(render, &call->args[0], "find's argument", &needle));
    TRY(window(render, call, &part, &from, &is_past));
    size_t at = text_find(part, needle, 0);
    if (from_right)
        TRY(text_rfind(render, part, needle, &at));
    *out = at == SIZE_MAX || is_past ? -1
                                     : (int64_t)text_length(str_cut(call->self.text, 0, from + at));
    return SL_OK;
}

static enum status found(struct render *render, const struct call *call, bool from_right,
                         bool must_be, struct value *out) {
    int64_t at;
    TRY(find(render, call, from_right, &at));
    if (must_be && at < 0)
        return value_fail(render, "substring not found");
    *out = value_int(at);
    return SL_OK;
}

static enum status method_find_text(struct render *render, const struct call *call,
                                    struct value *out) {
    return found(render, call, false, false, out);
}

static enum status method_rfind(struct render *render, const struct call *call, struct value *out) {
    return found(render, call, true, false, out);
}

static enum status method_index(struct render *render, const struct call *call, struct value *out) {
    return found(render, call, false, true, out);
}

static enum status method_rindex(struct render *render, const struct call *call,
                                 struct value *out) {
    return found(render, call, true, true, out);
}

static enum status method_count(struct render *render, const struct call *call, struct value *out) {
    struct str needle, part;
    size_t from, at = 0, hit;
    bool is_past;
    int64_t count = 0;
    TRY(text_need(render, &call->args[0], "count's argument", &needle));
    TRY(window(render, call, &part, &from, &is_past));
    if (needle.len == 0 || is_past) {
        *out = value_int(is_past ? 0 : (int64_t)text_length(part) + 1);
        return SL_OK;
    }
    for (; (hit = text_find(part, needle, at)) != SIZE_MAX; at = hit + needle.len)
        count++;
    *out = value_int(count);
    return SL_OK;
}

/* startswith and endswith: a text or a tuple of texts. */
static enum status affix(struct render *render, const struct call *call, bool is_end,
                         struct value *out) {
    struct str part, text;
    struct list list = {.items = NULL};
    size_t from;
    bool is_past;
    struct value one = call->args[0];
    TRY(window(render, call, &part, &from, &is_past));
    if (one.kind == VALUE_TUPLE)
        TRY(value_iterate(render, &one, &list));
    else
        list = (struct list){.items = &one, .count = 1};
    *out = value_bool(false);
    for (size_t i = 0; i < list.count && !out->boolean; i++) {
        TRY(text_need(render, &list.items[i],
                      is_end ? "endswith first arg" : "startswith first arg", &text));
        out->boolean = !is_past && (is_end ? str_ends(part, text) : str_starts(part, text));
    }
    return SL_OK;
}

static enum status method_startswith(struct render *render, const struct call *call,
                                     struct value *out) {
    return affix(render, call, false, out);
}

static enum status method_endswith(struct render *render, const struct call *call,
                                   struct value *out) {
    return affix(render, call, true, out);
}

static enum status method_replace(struct render *render, const struct call *call,
                                  struct value *out) {
    struct str old, new;
    int64_t count;
    TRY(part_text(render, call, &call->args[0], "replace() argument 1", &old));
    TRY(part_text(render, call, &call->args[1], "replace() argument 2", &new));
    TRY(optional_int(render, &call->args[2], "replace's count", -1, &count));
    TRY(text_replace(render, call->self.text, old, new, count, out));
    return as_self(call, out);
}

static enum status remove_affix(struct render *render, const struct call *call, bool is_end,
                                struct value *out) {
    struct str part, text = call->self.text;
    TRY(text_need(render, &call->args[0], "the argument", &part));
    if (is_end && str_ends(text, part))
        text.len -= part.len;
    else if (!is_end && str_starts(text, part))
        text = str_cut(text, part.len, text.len);
    *out = value_text(text);
    return as_self(call, out);
}

static enum status method_removeprefix(struct render *render, const struct call *call,
                                       struct value *out) {
    return remove_affix(render, call, false, out);
}

static enum status method_removesuffix(struct render *render, const struct call *call,
                                       struct value *out) {
    return remove_affix(render, call, true, out);
}

static enum status cased(struct render *render, const struct call *call, enum text_case how,
                         struct value *out) {
    TRY(text_case(render, call->self.text, how, out));
    return as_self(call, out);
}

static enum status method_upper(struct render *render, const struct call *call, struct value *out) {
    return cased(render, call, CASE_UPPER, out);
}

static enum status method_lower(struct render *render, const struct call *call, struct value *out) {
    return cased(render, call, CASE_LOWER, out);
}

static enum status method_title(struct render *render, const struct call *call, struct value *out) {
    return cased(render, call, CASE_TITLE, out);
}

static enum status method_capitalize(struct render *render, const struct call *call,
                                     struct value *out) {
    return cased(render, call, CASE_CAPITAL, out);
}

static enum status method_swapcase(struct render *render, const struct call *call,
                                   struct value *out) {
    return cased(render, call, CASE_SWAP, out);
}

static enum status method_join(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    TRY(value_iterate(render, &call->args[0], &list));
    for (size_t i = 0; i < list.count; i++) {
        struct str text;
        struct value item = list.items[i];
        if (item.kind != VALUE_TEXT && !call->self.is_markup)
            return value_fail(render, "sequence item %zu: expected str instance, %s found", i,
                              value_type(&item));
        if (item.kind != VALUE_TEXT) {
            TRY(repr_str(render, &list.items[i], &text));
            item = value_text(text);
        }
        TRY(part_text(render, call, &item, "an item of join", &text));
        if (i > 0)
            buf_add(buf, call->self.text);
        buf_add(buf, text);
        if (buf->len - mark > SL_TEMPLATE_OUTPUT_MAX)
            return value_fail(render, "a text made by join is too long");
    }
    TRY(text_from_scratch(render, mark, out));
    return as_self(call, out);
}

static enum status pad(struct render *render, const struct call *call, char align,
                       struct value *out) {
    struct str fill = STR(" ");
    int64_t width;
    TRY(number_need_int(render, &call->args[0], "the width", &width));
    if (call->args[1].kind != VALUE_MISSING)
        TRY(text_need(render, &call->args[1], "the fill character", &fill));
    if (text_length(fill) != 1)
        return value_fail(render, "the fill character must be exactly one character long");
    return text_pad(render, &call->self, width, align, fill, out);
}

static enum status method_ljust(struct render *render, const struct call *call, struct value *out) {
    return pad(render, call, '<', out);
}

static enum status method_rjust(struct render *render, const struct call *call, struct value *out) {
    return pad(render, call, '>', out);
}

static enum status method_center(struct render *render, const struct call *call,
                                 struct value *out) {
    return pad(render, call, '=', out);
}

static enum status method_zfill(struct render *render, const struct call *call, struct value *out) {
    struct value sign = call->self, rest = call->self;
    int64_t width;
    TRY(number_need_int(render, &call->args[0], "the width", &width));
    size_t signs =
        sign.text.len > 0 && (sign.text.data[0] == '+' || sign.text.data[0] == '-') ? 1 : 0;
    sign.text = str_cut(sign.text, 0, signs);
    sign.room = NULL;
    rest.text = str_cut(rest.text, signs, rest.text.len);
    TRY(text_pad(render, &rest, width - (int64_t)signs, '>', STR("0"), &rest));
    TRY(text_concat(render, &sign, rest.text, out));
    return as_self(call, out);
}

static enum status method_expandtabs(struct render *render, const struct call *call,
                                     struct value *out) {
    struct str text = call->self.text;
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    int64_t size, column = 0;
    TRY(optional_int(render, &call->args[0], "the tab size", 8, &size));
    size = size < 0 ? 0 : size > 10000 ? 10000 : size;
    for (size_t at = 0; at < text.len;) {
        size_t from = at;
        uint32_t c = utf8_next(text, &at);
        int64_t spaces = c == '\t' && size > 0 ? size - column % size : 0;
        for (int64_t i = 0; i < spaces; i++)
            buf_add_char(buf, ' ');
        if (c != '\t')
            buf_add(buf, str_cut(text, from, at));
        column = c == '\n' || c == '\r' ? 0 : column + (c == '\t' ? spaces : 1);
        if (buf->len - mark > SL_TEMPLATE_OUTPUT_MAX)
            return value_fail(render, "a text made by expandtabs is too long");
    }
    TRY(text_from_scratch(render, mark, out));
    return as_self(call, out);
}

static enum status method_format(struct render *render, const struct call *call,
                                 struct value *out) {
    TRY(format_braces(render, &call->self, call->raw, out));
    return as_self(call, out);
}

/* Whether every character is one of a kind, and there is at least one. */
static enum status all_are(struct render *render, const struct call *call, bool (*is_one)(uint32_t),
                           struct value *out) {
    struct str text = call->self.text;
    *out = value_bool(text.len > 0);
    for (size_t at = 0; at < text.len && out->boolean;)
        out->boolean = is_one(utf8_next(text, &at));
    return value_charge(render, text.len / 4);
}

static bool is_alnum(uint32_t c) {
    return chars_is_alpha(c) || chars_is_decimal(c) || chars_is_digit(c) || chars_is_numeric(c);
}

static enum status method_isdigit(struct render *render, const struct call *call,
                                  struct value *out) {
    return all_are(render, call, chars_is_digit, out);
}

static enum status method_isdecimal(struct render *render, const struct call *call,
                                    struct value *out) {
    return all_are(render, call, chars_is_decimal, out);
}

static enum status method_isnumeric(struct render *render, const struct call *call,
                                    struct value *out) {
    return all_are(render, call, chars_is_numeric, out);
}

static enum status method_isalpha(struct render *render, const struct call *call,
                                  struct value *out) {
    return all_are(render, call, chars_is_alpha, out);
}

static enum status method_isalnum(struct render *render, const struct call *call,
                                  struct value *out) {
    return all_are(render, call, is_alnum, out);
}

static enum status method_isspace(struct render *render, const struct call *call,
                                  struct value *out) {
    return all_are(render, call, chars_is_space, out);
}

static enum status method_isprintable(struct render *render, const struct call *call,
                                      struct value *out) {
    TRY(all_are(render, call, chars_is_printable, out));
    out->boolean |= call->self.text.len == 0;
    return SL_OK;
}

static enum status method_isascii(struct render *render, const struct call *call,
                                  struct value *out) {
    *out = value_bool(text_is_ascii(call->self.text));
    return value_charge(render, call->self.text.len / 64);
}

static enum status method_isupper(struct render *render, const struct call *call,
                                  struct value *out) {
    *out = value_bool(text_has_case(call->self.text, true));
    return value_charge(render, call->self.text.len / 4);
}

static enum status method_islower(struct render *render, const struct call *call,
                                  struct value *out) {
    *out = value_bool(text_has_case(call->self.text, false));
    return value_charge(render, call->self.text.len / 4);
}

const struct builtin method_text_table[] = {
    {"strip", method_strip, "chars", 0},
    {"lstrip", method_lstrip, "chars", 0},
    {"rstrip", method_rstrip, "chars", 0},
    {"split", method_split, "sep maxsplit", 0},
    {"rsplit", method_rsplit, "sep maxsplit", 0},
    {"splitlines", method_splitlines, "keepends", 0},
    {"partition", method_partition, "sep", 1},
    {"rpartition", method_rpartition, "sep", 1},
    {"find", method_find_text, "sub start end", 1},
    {"rfind", method_rfind, "sub start end", 1},
    {"index", method_index, "sub start end", 1},
    {"rindex", method_rindex, "sub start end", 1},
    {"count", method_count, "sub start end", 1},
    {"startswith", method_startswith, "prefix start end", 1},
    {"endswith", method_endswith, "suffix start end", 1},
    {"replace", method_replace, "old new count", 2},
    {"removeprefix", method_removeprefix, "prefix", 1},
    {"removesuffix", method_removesuffix, "suffix", 1},
    {"upper", method_upper, "", 0},
    {"lower", method_lower, "", 0},
    {"title", method_title, "", 0},
    {"capitalize", method_capitalize, "", 0},
    {"swapcase", method_swapcase, "", 0},
    {"join", method_join, "iterable", 1},
    {"ljust", method_ljust, "width fillchar", 1},
    {"rjust", method_rjust, "width fillchar", 1},
    {"center", method_center, "width fillchar", 1},
    {"zfill", method_zfill, "width", 1},
    {"expandtabs", method_expandtabs, "tabsize", 0},
    {"format", method_format, "*", 0},
    {"isdigit", method_isdigit, "", 0},
    {"isdecimal", method_isdecimal, "", 0},
    {"isnumeric", method_isnumeric, "", 0},
    {"isalpha", method_isalpha, "", 0},
    {"isalnum", method_isalnum, "", 0},
    {"isspace", method_isspace, "", 0},
    {"isprintable", method_isprintable, "", 0},
    {"isascii", method_isascii, "", 0},
    {"isupper", method_isupper, "", 0},
    {"islower", method_islower, "", 0},
    {"casefold", NULL, "*", 0},
    {"encode", NULL, "*", 0},
    {"format_map", NULL, "*", 0},
    {"isidentifier", NULL, "*", 0},
    {"istitle", NULL, "*", 0},
    {"maketrans", NULL, "*", 0},
    {"translate", NULL, "*", 0},
    {NULL, NULL, NULL, 0},
};
