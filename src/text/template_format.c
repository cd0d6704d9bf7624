/* Python's two ways of formatting: "%5.1f" % x and "{:>8}".format(x), for text, integers and
 * floats. Refuses conversions that it does not know, by their letter. */
#include "text/template_value.h"

#include <stdio.h>
#include <string.h>

struct spec {
    struct str fill;
    char align; /* '<', '>', '^', '=' or '\0' */
    char sign;  /* '+', ' ' or '-' */
    bool is_alternate, has_comma, has_precision;
    int64_t width, precision;
    char type;
};

/* Digits at *at as a number of at most 9 digits. */
static bool read_number(struct str text, size_t *at, int64_t *out) {
    size_t from = *at;
    *out = 0;
    while (*at < text.len && text.data[*at] >= '0' && text.data[*at] <= '9') {
        if (*at - from >= 9)
            return false;
        *out = *out * 10 + (text.data[(*at)++] - '0');
    }
    return true;
}

/* Puts commas between groups of three in the digits at the front of text. */
static void add_grouped(struct buf *buf, struct str text, bool has_comma) {
    size_t digits = 0;
    while (digits < text.len && text.data[digits] >= '0' && text.data[digits] <= '9')
        digits++;
    for (size_t i = 0; i < text.len; i++) {
        if (has_comma && i > 0 && i < digits && (digits - i) % 3 == 0)
            buf_add_char(buf, ',');
        buf_add_char(buf, text.data[i]);
    }
}

static enum status pad(struct render *render, const struct spec *spec, struct str sign,
                       struct str body, char align, struct value *out) {
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    if (align == '=') {
        struct value digits = value_text(body);
        TRY(text_pad(render, &digits, spec->width - (int64_t)sign.len, '>', spec->fill, &digits));
        buf_add(buf, sign);
        buf_add(buf, digits.text);
        return text_from_scratch(render, mark, out);
    }
    struct value whole;
    buf_add(buf, sign);
    buf_add(buf, body);
    TRY(text_from_scratch(render, mark, &whole));
    return text_pad(render, &whole, spec->width, align, spec->fill, out);
}

static enum status unknown(struct render *render, char type, const struct value *value) {
    return value_fail(render, "the format '%c' of a %s is not supported", type, value_type(value));
}

static struct str sign_text(const struct spec *spec, bool is_minus, const char *prefix,
                            char text[4]) {
    size_t len = 0;
    if (is_minus || spec->sign == '+' || spec->sign == ' ')
        text[len++] = is_minus ? '-' : spec->sign;
    for (; spec->is_alternate && *prefix != '\0'; prefix++)
        text[len++] = *prefix;
    return (struct str){text, len};
}

static enum status format_int(struct render *render, const struct spec *spec,
                              const struct value *value, struct value *out) {
    int64_t integer = 0;
    char digits[72], sign[4];
    uint64_t magnitude;
    struct value body;
    size_t mark = render->scratch.len, len = sizeof digits;
    unsigned base = spec->type == 'x' || spec->type == 'X' ? 16
                    : spec->type == 'o'                    ? 8
                    : spec->type == 'b'                    ? 2
                                                           : 10;
    if (!number_as_int(value, &integer))
        return value->kind == VALUE_BIG ? value_fail(render, "an integer does not fit in 64 bits")
                                        : unknown(render, spec->type, value);
    magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    const char *letters = spec->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    do {
        digits[--len] = letters[magnitude % base];
        magnitude /= base;
    } while (magnitude > 0);
    add_grouped(&render->scratch, (struct str){digits + len, sizeof digits - len},
                spec->has_comma && base == 10);
    TRY(text_from_scratch(render, mark, &body));
    const char *prefix = base == 16  ? (spec->type == 'X' ? "0X" : "0x")
                         : base == 8 ? "0o"
                         : base == 2 ? "0b"
                                     : "";
    return pad(render, spec, sign_text(spec, integer < 0, prefix, sign), body.text,
               spec->align == '\0' ? '>' : spec->align, out);
}

static enum status format_float(struct render *render, const struct spec *spec,
                                const struct value *value, struct value *out) {
    double real;
    char text[700], sign[4], pattern[12];
    struct value body;
    size_t mark = render->scratch.len;
    int precision = spec->has_precision ? (int)spec->precision : 6;
    char type = spec->type == '%' ? 'f' : spec->type == '\0' ? 'g' : spec->type;
    if (!number_as_double(value, &real))
        return unknown(render, spec->type, value);
    if (precision > 300)
        return value_fail(render, "a precision of %d digits is too large", precision);
    if (spec->type == '%')
        real *= 100.0;
    if (spec->type == '\0' && !spec->has_precision) {
        repr_add_float(&render->scratch, real < 0 ? -real : real);
    } else {
        snprintf(pattern, sizeof pattern, spec->is_alternate ? "%%#.*%c" : "%%.*%c", type);
        int len = snprintf(text, sizeof text, pattern, precision, real < 0 ? -real : real);
        if (len < 0 || (size_t)len >= sizeof text)
            return value_fail(render, "a formatted number is too long");
        add_grouped(&render->scratch, str_from(text), spec->has_comma);
        if (spec->type == '\0' && strpbrk(text, ".en") == NULL)
            buf_add(&render->scratch, STR(".0"));
    }
    if (spec->type == '%')
        buf_add_char(&render->scratch, '%');
    TRY(text_from_scratch(render, mark, &body));
    bool is_minus = real < 0 || (real == 0.0 && __builtin_signbit(real));
    struct spec plain = *spec;
    plain.is_alternate = false;
    return pad(render, spec, sign_text(&plain, is_minus, "", sign), body.text,
               spec->align == '\0' ? '>' : spec->align, out);
}

static enum status format_text(struct render *render, const struct spec *spec, struct str text,
                               struct value *out) {
    if (spec->has_precision)
        text = str_cut(text, 0, text_offset(text, (size_t)spec->precision));
    return pad(render, spec, STR(""), text, spec->align == '\0' ? '<' : spec->align, out);
}

/* One conversion of "%": flags and width are in spec. */
static enum status convert(struct render *render, struct spec *spec, const struct value *value,
                           struct value *out) {
    struct str text;
    struct value shown;
    size_t mark = render->scratch.len;
    if (value->kind == VALUE_UNDEFINED && spec->type != 's' && spec->type != 'r')
        return value_use_undefined(render, value);
    switch (spec->type) {
    case 's':
        TRY(repr_str(render, value, &text));
        break;
    case 'r':
        TRY(repr_add(render, &render->scratch, value));
        TRY(text_from_scratch(render, mark, &shown));
        text = shown.text;
        break;
    case 'd':
    case 'i':
    case 'u':
        spec->type = 'd';
        shown = *value;
        if (value->kind == VALUE_FLOAT && value->real > -0x1p63 && value->real < 0x1p63)
            shown = value_int((int64_t)value->real);
        if (!value_is_number(value))
            return value_fail(render, "%%d format: a real number is required, not %s",
                              value_type(value));
        return format_int(render, spec, &shown, out);
    case 'x':
    case 'X':
    case 'o':
        return format_int(render, spec, value, out);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        return format_float(render, spec, value, out);
    case 'c':
        if (value->kind == VALUE_TEXT && text_length(value->text) == 1)
            return format_text(render, spec, value->text, out);
        return value_fail(render, "%%c requires a single character");
    default:
        return value_fail(render, "unsupported format character '%c'", spec->type);
    }
    if (spec->align == '=')
        spec->align = '>';
    return format_text(render, spec, text, out);
}

/* What "%" takes its values from: a tuple's items in turn, or one value; a dict by name. */
struct source {
    struct render *render;
    const struct value *args;
    struct list list;
    size_t at;
};

static enum status next_value(struct source *source, struct value *out) {
    if (source->at >= source->list.count)
        return value_fail(source->render, "not enough arguments for format string");
    *out = source->list.items[source->at++];
    return SL_OK;
}

static enum status read_star(struct source *source, struct str text, size_t *at, int64_t *out) {
    struct value value;
    if (*at < text.len && text.data[*at] == '*') {
        ++*at;
        TRY(next_value(source, &value));
        TRY(number_need_int(source->render, &value, "a width", out));
        if (*out < 0 || *out > 1000000000)
            return value_fail(source->render, "a width out of range");
        return SL_OK;
    }
    return read_number(text, at, out) ? SL_OK : value_fail(source->render, "a width out of range");
}

/* Flags, width, precision and letter after '%' and its name. */
static enum status read_percent(struct source *source, struct str text, size_t *at,
                                struct spec *spec) {
    *spec = (struct spec){.fill = STR(" "), .align = '>', .sign = '-'};
    for (; *at < text.len && strchr("-+ #0", text.data[*at]) != NULL && text.data[*at]; ++*at) {
        char flag = text.data[*at];
        if (flag == '-')
            spec->align = '<';
        else if (flag == '+' || (flag == ' ' && spec->sign != '+'))
            spec->sign = flag;
        else if (flag == '#')
            spec->is_alternate = true;
        else if (flag == '0' && spec->align != '<') {
            spec->fill = STR("0");
            spec->align = '=';
        }
    }
    if (spec->align == '<')
        spec->fill = STR(" ");
    TRY(read_star(source, text, at, &spec->width));
    if (*at < text.len && text.data[*at] == '.') {
        ++*at;
        spec->has_precision = true;
        TRY(read_star(source, text, at, &spec->precision));
    }
    while (*at < text.len && strchr("hlL", text.data[*at]) != NULL && text.data[*at])
        ++*at;
    if (*at == text.len)
        return value_fail(source->render, "incomplete format");
    spec->type = text.data[(*at)++];
    if (strchr("src", spec->type) != NULL && spec->align == '=') {
        spec->fill = STR(" ");
        spec->align = '>';
    }
    return SL_OK;
}

/* "%(name)": the value of that name. */
static enum status read_name(struct source *source, struct str text, size_t *at, struct value *out,
                             bool *has) {
    *has = *at < text.len && text.data[*at] == '(';
    if (!*has)
        return SL_OK;
    size_t end = text_find(text, STR(")"), *at);
    if (end == SIZE_MAX)
        return value_fail(source->render, "incomplete format key");
    if (source->args->kind != VALUE_DICT)
        return value_fail(source->render, "format requires a mapping");
    struct value key = value_text(str_cut(text, *at + 1, end));
    struct entry *entry;
    TRY(dict_find(source->render, source->args->dict, &key, &entry));
    if (entry == NULL)
        return value_fail(source->render, "there is no key '%.*s' to format", STR_ARG(key.text));
    *out = entry->value;
    *at = end + 1;
    return SL_OK;
}

/* Adds what a conversion gave; into markup it goes escaped, unless the value was markup. */
static enum status add_converted(struct render *render, const struct value *format,
                                 const struct value *value, struct value *text) {
    if (format->is_markup && !(value->kind == VALUE_TEXT && value->is_markup))
        TRY(text_escape(render, text->text, text));
    buf_add(&render->scratch, text->text);
    return SL_OK;
}

enum status format_percent(struct render *render, const struct value *whole,
                           const struct value *args, struct value *out) {
    struct str format = whole->text;
    struct source source = {.render = render, .args = args, .list = {.count = 1}};
    struct value one = *args;
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    bool has_names = false;
    source.list.items = &one;
    if (args->kind == VALUE_TUPLE)
        TRY(value_iterate(render, args, &source.list));
    for (size_t at = 0; at < format.len;) {
        size_t percent = text_find(format, STR("%"), at);
        size_t stop = percent == SIZE_MAX ? format.len : percent;
        buf_add(buf, str_cut(format, at, stop));
        at = stop + 1;
        if (percent == SIZE_MAX)
            break;
        if (at < format.len && format.data[at] == '%') {
            buf_add_char(buf, '%');
            at++;
            continue;
        }
        struct spec spec;
        struct value value, text;
        bool has_name;
        TRY(read_name(&source, format, &at, &value, &has_name));
        TRY(read_percent(&source, format, &at, &spec));
        if (!has_name)
            TRY(next_value(&source, &value));
        has_names |= has_name;
        TRY(convert(render, &spec, &value, &text));
        TRY(add_converted(render, whole, &value, &text));
        if (buf->len - mark > SL_TEMPLATE_OUTPUT_MAX)
            return value_fail(render, "a formatted text is too long");
    }
    bool takes_index = args->kind == VALUE_DICT || args->kind == VALUE_LIST ||
                       args->kind == VALUE_RANGE || args->kind == VALUE_UNDEFINED;
    if (source.at < source.list.count && !has_names && !takes_index) /* as CPython asks */
        return value_fail(render, "not all arguments converted during string formatting");
    return text_from_scratch(render, mark, out);
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static enum status read_spec(struct render *render, struct str text, struct spec *spec) {
    size_t at = 0, next = 0;
    bool has_fill = false;
    *spec = (struct spec){.fill = STR(" "), .sign = '-'};
    if (text.len > 0)
        utf8_next(text, &next);
    if (next < text.len && next > 0 && strchr("<>^=", text.data[next]) != NULL) {
        spec->fill = str_cut(text, 0, next);
        spec->align = text.data[next];
        has_fill = true;
        at = next + 1;
    } else if (text.len > 0 && strchr("<>^=", text.data[0]) != NULL && text.data[0]) {
        spec->align = text.data[0];
        at = 1;
    }
    if (at < text.len && (text.data[at] == '+' || text.data[at] == '-' || text.data[at] == ' '))
        spec->sign = text.data[at++];
    if (at < text.len && text.data[at] == '#') {
        spec->is_alternate = true;
        at++;
    }
    if (at < text.len && text.data[at] == '0') {
        if (!has_fill)
            spec->fill = STR("0");
        if (spec->align == '\0')
            spec->align = '=';
        at++;
    }
    if (!read_number(text, &at, &spec->width))
        return value_fail(render, "Too many decimal digits in format string");
    if (at < text.len && text.data[at] == ',') {
        spec->has_comma = true;
        at++;
    }
    if (at < text.len && text.data[at] == '.') {
        at++;
        spec->has_precision = true;
        if (!read_number(text, &at, &spec->precision))
            return value_fail(render, "Too many decimal digits in format string");
    }
    if (at < text.len)
        spec->type = text.data[at++];
    if (at < text.len)
        return value_fail(render, "Invalid format specifier '%.*s'", STR_ARG(text));
    return SL_OK;
}

static enum status format_value(struct render *render, const struct value *value,
                                struct str spec_text, struct value *out) {
    struct spec spec;
    struct str text;
    TRY(read_spec(render, spec_text, &spec));
    bool is_number = value_is_number(value) && value->kind != VALUE_BOOL;
    if (spec_text.len == 0 || value->kind == VALUE_TEXT || value->kind == VALUE_BIG) {
        TRY(repr_str(render, value, &text));
        if (spec.type != '\0' && spec.type != 's')
            return unknown(render, spec.type, value);
        if (spec.align == '=')
            spec.align = '<';
        if (spec.align == '\0' && is_number)
            spec.align = '>';
        return format_text(render, &spec, text, out);
    }
    if (!value_is_number(value))
        return value_fail(render, "unsupported format string passed to %s.__format__",
                          value_type(value));
    bool is_int = value->kind != VALUE_FLOAT;
    if (is_int && (spec.type == '\0' || strchr("dxXob", spec.type) != NULL))
        return format_int(render, &spec, value, out);
    if (spec.type == '\0' || strchr("eEfFgG%", spec.type) != NULL)
        return format_float(render, &spec, value, out);
    return unknown(render, spec.type, value);
}

/* What a field names: "0", "name", "a.b", "a[0]"; "" counts up. */
static enum status find_field(struct render *render, struct str name, const struct arguments *args,
                              size_t *automatic, struct value *out) {
    size_t end = 0;
    uint64_t index = 0;
    while (end < name.len && name.data[end] != '.' && name.data[end] != '[')
        end++;
    struct str first = str_cut(name, 0, end);
    if (first.len == 0 && end < name.len)
        return value_fail(render, "a field of a format names no argument");
    if (first.len == 0 || str_to_u64(first, &index)) {
        if (first.len == 0)
            index = (*automatic)++;
        if (index >= args->count)
            return value_fail(render, "Replacement index %llu out of range for positional args",
                              (unsigned long long)index);
        *out = args->items[index];
    } else {
        size_t i = 0;
        TRY(value_charge(render, args->named_count / 16));
        while (i < args->named_count && !str_equal(args->named[i].name, first))
            i++;
        if (i == args->named_count)
            return value_fail(render, "there is no argument '%.*s' to format", STR_ARG(first));
        *out = args->named[i].value;
    }
    while (end < name.len) {
        struct value object = *out, key;
        bool is_attribute = name.data[end] == '.';
        size_t from = ++end;
        while (end < name.len && name.data[end] != '.' && name.data[end] != '[' &&
               name.data[end] != ']')
            end++;
        struct str part = str_cut(name, from, end);
        key = !is_attribute && str_to_u64(part, &index) && index <= INT64_MAX
                  ? value_int((int64_t)index)
                  : value_text(part);
        TRY(is_attribute ? get_attribute(render, &object, part, out)
                         : get_item(render, &object, &key, out));
        end += !is_attribute && end < name.len && name.data[end] == ']';
    }
    return SL_OK;
}

/* A field between braces. */
static enum status add_field(struct render *render, const struct value *format, struct str field,
                             const struct arguments *args, size_t *automatic) {
    struct value value, text;
    struct str name = field, spec = STR("");
    size_t colon = text_find(field, STR(":"), 0), mark = render->scratch.len;
    if (colon != SIZE_MAX) {
        name = str_cut(field, 0, colon);
        spec = str_cut(field, colon + 1, field.len);
    }
    char conversion = '\0';
    if (name.len >= 2 && name.data[name.len - 2] == '!') {
        conversion = name.data[name.len - 1];
        name.len -= 2;
    }
    if (text_find(spec, STR("{"), 0) != SIZE_MAX)
        return value_fail(render, "a field within a format specifier is not supported");
    TRY(find_field(render, name, args, automatic, &value));
    if (conversion == 's') {
        TRY(repr_str(render, &value, &name));
        value = value_text(name);
    } else if (conversion == 'r') {
        TRY(repr_add(render, &render->scratch, &value));
        TRY(text_from_scratch(render, mark, &value));
    } else if (conversion != '\0') {
        return value_fail(render, "the conversion '!%c' is not supported", conversion);
    }
    TRY(format_value(render, &value, spec, &text));
    return add_converted(render, format, &value, &text);
}

enum status format_braces(struct render *render, const struct value *whole,
                          const struct arguments *args, struct value *out) {
    struct str format = whole->text;
    struct buf *buf = &render->scratch;
    size_t mark = buf->len, automatic = 0;
    for (size_t at = 0; at < format.len; at++) {
        char c = format.data[at];
        bool is_doubled = at + 1 < format.len && format.data[at + 1] == c;
        if ((c == '{' || c == '}') && is_doubled) {
            buf_add_char(buf, c);
            at++;
        } else if (c == '}') {
            return value_fail(render, "Single '}' encountered in format string");
        } else if (c == '{') {
            size_t end = text_find(format, STR("}"), at);
            if (end == SIZE_MAX)
                return value_fail(render, "expected '}' before end of string");
            TRY(add_field(render, whole, str_cut(format, at + 1, end), args, &automatic));
            at = end;
        } else {
            buf_add_char(buf, c);
        }
        if (buf->len - mark > SL_TEMPLATE_OUTPUT_MAX)
            return value_fail(render, "a formatted text is too long");
    }
    TRY(value_charge(render, format.len / 16));
    return text_from_scratch(render, mark, out);
}
