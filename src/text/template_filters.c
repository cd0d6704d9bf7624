/* Filters on text and numbers, and the way to all filters by name. template_sequences.c has those
 * on lists. */
#include "text/template_value.h"

#include "text/template_chars.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What Jinja calls soft_str: text as it is (markup too), else str(value). */
static enum status soft_text(struct render *render, const struct call *call, struct value *out) {
    *out = call->self;
    if (call->self.kind == VALUE_TEXT)
        return SL_OK;
    *out = value_words("");
    return repr_str(render, &call->self, &out->text);
}

static enum status argument_int(struct render *render, const struct call *call, size_t index,
                                const char *what, int64_t initial, int64_t *out) {
    *out = initial;
    if (call->args[index].kind == VALUE_MISSING)
        return SL_OK;
    return number_need_int(render, &call->args[index], what, out);
}

static enum status cased(struct render *render, const struct call *call, enum text_case how,
                         struct value *out) {
    struct value text;
    TRY(soft_text(render, call, &text));
    TRY(text_case(render, text.text, how, out));
    out->is_markup = text.is_markup;
    return SL_OK;
}

static enum status filter_upper(struct render *render, const struct call *call, struct value *out) {
    return cased(render, call, CASE_UPPER, out);
}

static enum status filter_lower(struct render *render, const struct call *call, struct value *out) {
    return cased(render, call, CASE_LOWER, out);
}

static enum status filter_capitalize(struct render *render, const struct call *call,
                                     struct value *out) {
    return cased(render, call, CASE_CAPITAL, out);
}

/* Words begin after white space and any of -({[<; unlike str.title(). */
static enum status filter_title(struct render *render, const struct call *call, struct value *out) {
    struct value text, lower;
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    bool is_start = true;
    TRY(soft_text(render, call, &text));
    for (size_t at = 0; at < text.text.len;) {
        size_t from = at, end = at;
        uint32_t c = utf8_next(text.text, &at), mapped[3];
        bool breaks = chars_is_space(c) || (c < 128 && c != 0 && strchr("-({[<", (int)c) != NULL);
        if (breaks || is_start) {
            size_t len = breaks ? 0 : chars_upper(c, mapped);
            for (size_t i = 0; i < len; i++)
                buf_add_utf8(buf, mapped[i]);
            if (breaks)
                buf_add(buf, str_cut(text.text, from, at));
            is_start = breaks;
            continue;
        }
        for (end = at; end < text.text.len; at = end) { /* the rest of the word */
            c = utf8_next(text.text, &end);
            if (chars_is_space(c) || (c < 128 && c != 0 && strchr("-({[<", (int)c) != NULL))
                break;
        }
        TRY(text_case(render, str_cut(text.text, from, at), CASE_LOWER, &lower));
        buf_add(buf, lower.text);
    }
    return text_from_scratch(render, mark, out);
}

static enum status filter_trim(struct render *render, const struct call *call, struct value *out) {
    struct str chars = {NULL, 0};
    TRY(soft_text(render, call, out));
    if (call->args[0].kind != VALUE_MISSING && call->args[0].kind != VALUE_NONE) {
        TRY(text_need(render, &call->args[0], "trim's argument", &chars));
        if (chars.data == NULL)
            chars = STR("");
    }
    TRY(value_charge(render, (chars.len + 1) * (out->text.len / 16 + 1)));
    out->text = text_strip(out->text, TEXT_BOTH, chars);
    out->room = NULL;
    return SL_OK;
}

static enum status filter_replace(struct render *render, const struct call *call,
                                  struct value *out) {
    struct str text, old, new;
    int64_t count = -1;
    TRY(repr_str(render, &call->self, &text));
    TRY(repr_str(render, &call->args[0], &old));
    TRY(repr_str(render, &call->args[1], &new));
    if (call->args[2].kind != VALUE_NONE)
        TRY(argument_int(render, call, 2, "replace's count", -1, &count));
    return text_replace(render, text, old, new, count, out);
}

static enum status filter_string(struct render *render, const struct call *call,
                                 struct value *out) {
    return soft_text(render, call, out);
}

static enum status filter_safe(struct render *render, const struct call *call, struct value *out) {
    TRY(soft_text(render, call, out));
    out->is_markup = true;
    return SL_OK;
}

static enum status filter_escape(struct render *render, const struct call *call,
                                 struct value *out) {
    TRY(soft_text(render, call, out));
    return out->is_markup ? SL_OK : text_escape(render, out->text, out);
}

static enum status filter_forceescape(struct render *render, const struct call *call,
                                      struct value *out) {
    TRY(soft_text(render, call, out));
    return text_escape(render, out->text, out);
}

static enum status filter_center(struct render *render, const struct call *call,
                                 struct value *out) {
    struct value text;
    int64_t width;
    TRY(soft_text(render, call, &text));
    TRY(argument_int(render, call, 0, "the width", 80, &width));
    return text_pad(render, &text, width, '=', STR(" "), out);
}

/* Every line but the first (unless `first`) is indented, blank ones only if `blank`. */
static enum status filter_indent(struct render *render, const struct call *call,
                                 struct value *out) {
    struct str text, indent = {NULL, 0};
    struct value lines, spaces = value_words(" ");
    bool first, blank;
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    TRY(text_need(render, &call->self, "indent's input", &text));
    TRY(value_truth(render, &call->args[1], &first));
    TRY(value_truth(render, &call->args[2], &blank));
    if (call->args[0].kind == VALUE_TEXT) {
        indent = call->args[0].text;
    } else {
        int64_t width;
        TRY(argument_int(render, call, 0, "indent's width", 4, &width));
        TRY(text_repeat(render, &spaces, width, &spaces));
        indent = spaces.text;
    }
    TRY(text_concat(render, &call->self, STR("\n"), &lines));
    TRY(text_lines(render, lines.text, false, &lines));
    for (size_t i = 0; i < lines.list->count; i++) {
        struct str line = lines.list->items[i].text;
        if (i > 0)
            buf_add_char(buf, '\n');
        if (i == 0 ? first : blank || line.len > 0)
            buf_add(buf, indent);
        buf_add(buf, line);
        TRY(value_charge(render, (line.len + indent.len) / 64));
        if (buf->len - mark > SL_TEMPLATE_OUTPUT_MAX)
            return value_fail(render, "a text made by indent is too long");
    }
    TRY(text_from_scratch(render, mark, out));
    out->is_markup = call->self.is_markup;
    return SL_OK;
}

static enum status filter_truncate(struct render *render, const struct call *call,
                                   struct value *out) {
    struct str text, end = STR("...");
    int64_t length, leeway = 5;
    size_t count;
    bool kills;
    TRY(argument_int(render, call, 0, "truncate's length", 255, &length));
    TRY(value_truth(render, &call->args[1], &kills));
    if (call->args[2].kind != VALUE_MISSING)
        TRY(text_need(render, &call->args[2], "truncate's end", &end));
    if (call->args[3].kind != VALUE_NONE)
        TRY(argument_int(render, call, 3, "truncate's leeway", 5, &leeway));
    int64_t end_len = (int64_t)text_length(end);
    if (length < end_len || leeway < 0)
        return value_fail(render, "expected length >= %lld, got %lld", (long long)end_len,
                          (long long)length);
    *out = call->self;
    TRY(value_length_or_fail(render, &call->self, &count));
    if ((int64_t)count - leeway <= length)
        return SL_OK;
    TRY(text_need(render, &call->self, "truncate's input", &text));
    struct value cut = value_text(str_cut(text, 0, text_offset(text, (size_t)(length - end_len))));
    const char *space = cut.text.len > 0 ? memrchr(cut.text.data, ' ', cut.text.len) : NULL;
    if (!kills && space != NULL)
        cut.text.len = (size_t)(space - cut.text.data);
    return text_concat(render, &cut, end, out);
}

static enum status filter_wordcount(struct render *render, const struct call *call,
                                    struct value *out) {
    struct value text;
    bool was_word = false;
    int64_t count = 0;
    TRY(soft_text(render, call, &text));
    for (size_t at = 0; at < text.text.len;) {
        bool is_word = chars_is_name(utf8_next(text.text, &at));
        count += is_word && !was_word;
        was_word = is_word;
    }
    *out = value_int(count);
    return value_charge(render, text.text.len / 4);
}

/* Tags and comments go, white space between words becomes one space, entities are read. */
static enum status filter_striptags(struct render *render, const struct call *call,
                                    struct value *out) {
    static const struct {
        const char *entity, *text;
    } entities[] = {{"&lt;", "<"},  {"&gt;", ">"},        {"&#34;", "\""}, {"&quot;", "\""},
                    {"&#39;", "'"}, {"&nbsp;", "\u00a0"}, {"&amp;", "&"}};
    struct value text, part;
    TRY(soft_text(render, call, &text));
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    for (size_t pass = 0; pass < 2; pass++) { /* comments, then tags */
        struct str open = pass == 0 ? STR("<!--") : STR("<");
        struct str close = pass == 0 ? STR("-->") : STR(">");
        size_t at = 0, from, to;
        while ((from = text_find(text.text, open, at)) != SIZE_MAX &&
               (to = text_find(text.text, close, from)) != SIZE_MAX) {
            buf_add(buf, str_cut(text.text, at, from));
            at = to + close.len;
        }
        buf_add(buf, str_cut(text.text, at, text.text.len));
        TRY(text_from_scratch(render, mark, &text));
    }
    TRY(text_split(render, text.text, (struct str){NULL, 0}, -1, false, &part));
    for (size_t i = 0; i < part.list->count; i++) {
        if (i > 0)
            buf_add_char(buf, ' ');
        buf_add(buf, part.list->items[i].text);
    }
    TRY(text_from_scratch(render, mark, out));
    for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++)
        TRY(text_replace(render, out->text, str_from(entities[i].entity),
                         str_from(entities[i].text), -1, out));
    return SL_OK;
}

/* Percent-encodes all but letters, digits and _.-~; in a query string spaces become '+', elsewhere
 * '/' stays. */
static enum status add_quoted(struct render *render, const struct value *value, bool is_query) {
    struct str text;
    struct buf *buf = &render->scratch;
    TRY(repr_str(render, value, &text));
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        const char *kept = is_query ? ".-~" : ".-~/";
        if (c < 128 && (chars_is_name(c) || (c != 0 && strchr(kept, c) != NULL)))
            buf_add_char(buf, (char)c);
        else if (c == ' ' && is_query)
            buf_add_char(buf, '+');
        else
            buf_printf(buf, "%%%02X", c);
    }
    return value_charge(render, text.len);
}

static enum status filter_urlencode(struct render *render, const struct call *call,
                                    struct value *out) {
    struct value pairs = call->self;
    size_t mark = render->scratch.len;
    struct list list, pair;
    if (call->self.kind == VALUE_TEXT || !value_is_iterable(&call->self)) {
        TRY(add_quoted(render, &call->self, false));
        return text_from_scratch(render, mark, out);
    }
    struct view items = {call->self.dict, VIEW_ITEMS};
    if (call->self.kind == VALUE_DICT) {
        pairs = (struct value){.kind = VALUE_VIEW};
        pairs.view = &items;
    }
    TRY(value_iterate(render, &pairs, &list));
    for (size_t i = 0; i < list.count; i++) {
        TRY(value_iterate(render, &list.items[i], &pair));
        if (pair.count != 2)
            return value_fail(render, "urlencode takes pairs, not %zu values", pair.count);
        if (i > 0)
            buf_add_char(&render->scratch, '&');
        TRY(add_quoted(render, &pair.items[0], true));
        buf_add_char(&render->scratch, '=');
        TRY(add_quoted(render, &pair.items[1], true));
    }
    return text_from_scratch(render, mark, out);
}

static enum status filter_format(struct render *render, const struct call *call,
                                 struct value *out) {
    struct value text, args;
    TRY(soft_text(render, call, &text));
    if (call->raw->named_count > 0 && call->raw->count > 0)
        return value_fail(render, "can't handle positional and keyword arguments at the same time");
    if (call->raw->named_count > 0) {
        TRY(dict_make(render, call->raw, VALUE_DICT, &args));
    } else {
        TRY(value_new_list(render, VALUE_TUPLE, call->raw->count, &args));
        for (size_t i = 0; i < call->raw->count; i++)
            args.list->items[i] = call->raw->items[i];
    }
    TRY(format_percent(render, &text, &args, out));
    out->is_markup = text.is_markup;
    return SL_OK;
}

static enum status filter_tojson(struct render *render, const struct call *call,
                                 struct value *out) {
    struct json_style style = {{NULL, 0}, STR(", "), STR(": "), false, false};
    const struct value *indent = &call->args[1], *separators = &call->args[2];
    struct value spaces = value_words(" ");
    size_t mark = render->scratch.len;
    TRY(value_truth(render, &call->args[0], &style.is_ascii));
    TRY(value_truth(render, &call->args[3], &style.sorts_keys));
    if (indent->kind == VALUE_TEXT) {
        style.indent = indent->text.data == NULL ? STR("") : indent->text;
    } else if (indent->kind != VALUE_MISSING && indent->kind != VALUE_NONE) {
        int64_t width;
        TRY(number_need_int(render, indent, "tojson's indent", &width));
        TRY(text_repeat(render, &spaces, width, &spaces));
        style.indent = spaces.text.data == NULL ? STR("") : spaces.text;
    }
    if (style.indent.data != NULL)
        style.item_separator = STR(",");
    if (separators->kind != VALUE_MISSING && separators->kind != VALUE_NONE) {
        struct list list;
        TRY(value_iterate(render, separators, &list));
        if (list.count != 2)
            return value_fail(render, "tojson's separators must be two texts");
        TRY(text_need(render, &list.items[0], "a separator", &style.item_separator));
        TRY(text_need(render, &list.items[1], "a separator", &style.key_separator));
    }
    TRY(repr_add_json(render, &render->scratch, &call->self, &style));
    return text_from_scratch(render, mark, out);
}

static enum status filter_int(struct render *render, const struct call *call, struct value *out) {
    int64_t base, integer;
    double real;
    struct value initial = call->args[0].kind == VALUE_MISSING ? value_int(0) : call->args[0];
    TRY(argument_int(render, call, 1, "int's base", 10, &base));
    if (call->self.kind == VALUE_UNDEFINED)
        return value_use_undefined(render, &call->self);
    if (number_as_int(&call->self, &integer)) {
        *out = value_int(integer);
        return SL_OK;
    }
    *out = call->self;
    if (call->self.kind == VALUE_BIG)
        return SL_OK;
    if (call->self.kind == VALUE_TEXT)
        TRY(value_charge(render, call->self.text.len / 16));
    if (call->self.kind == VALUE_TEXT && base >= 0 && base <= 36 &&
        number_read_int(call->self.text, (int)base, out))
        return SL_OK;
    bool is_number = call->self.kind == VALUE_FLOAT;
    real = is_number ? call->self.real : 0.0;
    if (call->self.kind == VALUE_TEXT)
        is_number = number_read_float(call->self.text, &real);
    if (!is_number || !isfinite(real)) {
        *out = initial;
        return SL_OK;
    }
    if (!(real > -0x1p63 && real < 0x1p63))
        return value_fail(render, "an integer does not fit in 64 bits");
    *out = value_int((int64_t)real);
    return SL_OK;
}

static enum status filter_float(struct render *render, const struct call *call, struct value *out) {
    double real;
    if (call->self.kind == VALUE_UNDEFINED)
        return value_use_undefined(render, &call->self);
    if (call->self.kind == VALUE_TEXT)
        TRY(value_charge(render, call->self.text.len / 16));
    if (number_as_double(&call->self, &real) ||
        (call->self.kind == VALUE_TEXT && number_read_float(call->self.text, &real)))
        *out = value_float(real);
    else
        *out = call->args[0].kind == VALUE_MISSING ? value_float(0.0) : call->args[0];
    return SL_OK;
}

static enum status filter_abs(struct render *render, const struct call *call, struct value *out) {
    int64_t integer;
    if (number_as_int(&call->self, &integer))
        return number_negate(render, &call->self, integer < 0, out);
    if (call->self.kind == VALUE_BIG) {
        *out = call->self;
        out->text = str_cut(out->text, out->text.data[0] == '-', out->text.len);
        return SL_OK;
    }
    if (call->self.kind == VALUE_FLOAT) {
        *out = value_float(fabs(call->self.real));
        return SL_OK;
    }
    if (call->self.kind == VALUE_UNDEFINED)
        return value_use_undefined(render, &call->self);
    return value_fail(render, "bad operand type for abs(): '%s'", value_type(&call->self));
}

static enum status filter_round(struct render *render, const struct call *call, struct value *out) {
    int64_t digits;
    struct str method = STR("common");
    double real;
    TRY(argument_int(render, call, 0, "round's precision", 0, &digits));
    if (call->args[1].kind != VALUE_MISSING)
        TRY(text_need(render, &call->args[1], "round's method", &method));
    if (str_is(method, "common"))
        return number_round(render, &call->self, digits, out);
    bool is_ceil = str_is(method, "ceil");
    if (!is_ceil && !str_is(method, "floor"))
        return value_fail(render, "method must be common, ceil or floor");
    if (call->self.kind == VALUE_UNDEFINED)
        return value_use_undefined(render, &call->self);
    if (!number_as_double(&call->self, &real))
        return value_fail(render, "must be real number, not %s", value_type(&call->self));
    double unit = pow(10.0, (double)digits);
    *out = value_float((is_ceil ? ceil(real * unit) : floor(real * unit)) / unit);
    return SL_OK;
}

static enum status filter_filesizeformat(struct render *render, const struct call *call,
                                         struct value *out) {
    static const char prefixes[] = "kMGTPEZY";
    double bytes;
    bool is_binary;
    char text[64];
    TRY(value_truth(render, &call->args[0], &is_binary));
    if (!number_as_double(&call->self, &bytes) &&
        !(call->self.kind == VALUE_TEXT && number_read_float(call->self.text, &bytes)))
        return value_fail(render, "could not convert a %s to a number of bytes",
                          value_type(&call->self));
    double base = is_binary ? 1024.0 : 1000.0, unit = base;
    if (bytes == 1.0 || bytes < base) {
        snprintf(text, sizeof text, bytes == 1.0 ? "%.0f Byte" : "%.0f Bytes", trunc(bytes) + 0.0);
    } else {
        size_t i = 0;
        while (i < 7 && bytes >= unit * base) {
            unit *= base;
            i++;
        }
        char prefix = is_binary && i == 0 ? 'K' : prefixes[i];
        snprintf(text, sizeof text, "%.1f %c%sB", bytes / unit, prefix, is_binary ? "i" : "");
    }
    return text_copy(render, str_from(text), out);
}

static enum status filter_default(struct render *render, const struct call *call,
                                  struct value *out) {
    bool by_truth, truth = true;
    TRY(value_truth(render, &call->args[1], &by_truth));
    if (by_truth)
        TRY(value_truth(render, &call->self, &truth));
    *out = call->self;
    if (call->self.kind == VALUE_UNDEFINED || !truth)
        *out = call->args[0].kind == VALUE_MISSING ? value_words("") : call->args[0];
    return SL_OK;
}

static enum status filter_attr(struct render *render, const struct call *call, struct value *out) {
    struct str name;
    TRY(text_need(render, &call->args[0], "attr's argument", &name));
    if (call->self.kind == VALUE_DICT && method_find(&call->self, name) == NULL &&
        !method_is_unsafe(&call->self, name))
        return value_undefined(render, value_owner(&call->self), &call->args[0], out);
    return get_attribute(render, &call->self, name, out);
}

const struct builtin filter_text_table[] = {
    {"upper", filter_upper, "", 0},
    {"lower", filter_lower, "", 0},
    {"capitalize", filter_capitalize, "", 0},
    {"title", filter_title, "", 0},
    {"trim", filter_trim, "chars", 0},
    {"replace", filter_replace, "old new count", 2},
    {"string", filter_string, "", 0},
    {"safe", filter_safe, "", 0},
    {"escape", filter_escape, "", 0},
    {"e", filter_escape, "", 0},
    {"forceescape", filter_forceescape, "", 0},
    {"center", filter_center, "width", 0},
    {"indent", filter_indent, "width first blank", 0},
    {"truncate", filter_truncate, "length killwords end leeway", 0},
    {"wordcount", filter_wordcount, "", 0},
    {"striptags", filter_striptags, "", 0},
    {"urlencode", filter_urlencode, "", 0},
    {"format", filter_format, "*", 0},
    {"tojson", filter_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"int", filter_int, "default base", 0},
    {"float", filter_float, "default", 0},
    {"abs", filter_abs, "", 0},
    {"round", filter_round, "precision method", 0},
    {"filesizeformat", filter_filesizeformat, "binary", 0},
    {"default", filter_default, "default_value boolean", 0},
    {"d", filter_default, "default_value boolean", 0},
    {"attr", filter_attr, "name", 1},
    {"pprint", NULL, "*", 0},
    {"random", NULL, "*", 0},
    {"urlize", NULL, "*", 0},
    {"wordwrap", NULL, "*", 0},
    {"xmlattr", NULL, "*", 0},
    {NULL, NULL, NULL, 0},
};

const struct builtin *filter_find(struct str name) {
    const struct builtin *found = builtin_find(filter_text_table, name);
    return found != NULL ? found : builtin_find(filter_list_table, name);
}
