/* Owns reading values out of a JSON tree and writing JSON. Numbers of a tree are written as they
 * were read; our own doubles in the shortest form, as Python's repr writes them. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct json *json_get_str(const struct json *json, struct str name) {
    if (!json || json->kind != JSON_OBJECT)
        return NULL;
    for (uint32_t i = json->count; i > 0; i--)
        if (str_equal(json->members[i - 1].name, name))
            return &json->members[i - 1].value;
    return NULL;
}

const struct json *json_get(const struct json *json, const char *name) {
    return json_get_str(json, str_from(name));
}

bool json_is(const struct json *json, enum json_kind kind) {
    return json && json->kind == kind;
}

bool json_bool(const struct json *json, bool *out) {
    if (!json_is(json, JSON_TRUE) && !json_is(json, JSON_FALSE))
        return false;
    *out = json->kind == JSON_TRUE;
    return true;
}

bool json_string(const struct json *json, struct str *out) {
    if (!json_is(json, JSON_STRING))
        return false;
    *out = json->text;
    return true;
}

bool json_is_integer(const struct json *json) {
    if (!json_is(json, JSON_NUMBER))
        return false;
    for (size_t i = 0; i < json->text.len; i++) {
        char c = json->text.data[i];
        if (c == '.' || c == 'e' || c == 'E')
            return false;
    }
    return true;
}

/* Sign and magnitude of an integer; false when it is none or the magnitude does not fit. */
static bool read_integer(const struct json *json, bool *is_negative, uint64_t *magnitude) {
    if (!json_is_integer(json))
        return false;
    *is_negative = str_starts(json->text, STR("-"));
    return str_to_u64(str_cut(json->text, *is_negative ? 1 : 0, json->text.len), magnitude);
}

bool json_i64(const struct json *json, int64_t *out) {
    bool is_negative;
    uint64_t magnitude;
    if (!read_integer(json, &is_negative, &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + (is_negative ? 1 : 0))
        return false;
    *out = is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool json_u64(const struct json *json, uint64_t *out) {
    bool is_negative;
    uint64_t magnitude;
    if (!read_integer(json, &is_negative, &magnitude) || (is_negative && magnitude != 0))
        return false;
    *out = magnitude;
    return true;
}

bool json_double(const struct json *json, double *out) {
    char few[64];
    if (!json_is(json, JSON_NUMBER))
        return false;
    /* strtod wants a terminator; the text goes on behind the number. */
    char *copy = json->text.len < sizeof few ? few : mem_new(json->text.len + 1, 1);
    if (!copy)
        return false;
    memcpy(copy, json->text.data, json->text.len);
    copy[json->text.len] = '\0';
    *out = strtod(copy, NULL);
    if (copy != few)
        mem_free(copy);
    return true;
}

/* ---- writing ---- */

void json_add_string(struct buf *buf, struct str text) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    buf_add_char(buf, '"');
    size_t start = 0;
    for (size_t at = 0; at <= text.len; at++) {
        unsigned char c = at < text.len ? (unsigned char)text.data[at] : '"';
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        utf8_add_lossy(buf, str_cut(text, start, at));
        start = at + 1;
        if (at == text.len)
            break;
        const char *simple = c ? strchr(from, c) : NULL;
        if (simple) {
            char escape[2] = {'\\', to[simple - from]};
            buf_add(buf, (struct str){escape, 2});
        } else {
            buf_printf(buf, "\\u%04x", c);
        }
    }
    buf_add_char(buf, '"');
}

/* A positive finite number as 0.d1d2d3... times 10^point. */
struct decimal {
    char digits[20];
    int count, point;
};

/* The nearest decimal of so many digits. */
static void decimal_from(struct decimal *decimal, double value, int digits) {
    char text[40]; /* d.ddde+xxx */
    snprintf(text, sizeof text, "%.*e", digits - 1, value);
    decimal->count = 0;
    const char *at = text;
    for (; *at && *at != 'e'; at++)
        if (*at != '.')
            decimal->digits[decimal->count++] = *at;
    decimal->point = (int)strtol(at + 1, NULL, 10) + 1;
}

/* The next decimal above with the same number of digits. */
static void decimal_step(struct decimal *decimal) {
    int i = decimal->count - 1;
    while (i >= 0 && decimal->digits[i] == '9')
        decimal->digits[i--] = '0';
    if (i >= 0) {
        decimal->digits[i]++;
    } else {
        decimal->digits[0] = '1'; /* 999 becomes 1000, whose last zero says nothing */
        decimal->point++;
    }
}

static bool reads_back(const struct decimal *decimal, double value, bool is_float) {
    char text[48];
    snprintf(text, sizeof text, "0.%.*se%d", decimal->count, decimal->digits, decimal->point);
    return is_float ? (double)strtof(text, NULL) == value : strtod(text, NULL) == value;
}

/* The shortest decimal that reads back as value. At each length the nearest decimal is tried, then
 * the one above it: below a power of two the numbers lie closer, so that the nearest decimal may
 * miss where one a little farther above hits. */
static void decimal_shortest(struct decimal *decimal, double value, bool is_float) {
    int digits_max = is_float ? 9 : 17;
    /* Normal numbers: any decimal so short reads back, and its zeros at the end fall away below. */
    int safe = is_float ? (value < 0x1p-126 ? 1 : 6) : (value < 0x1p-1022 ? 1 : 15);
    for (int digits = safe; digits <= digits_max; digits++) {
        decimal_from(decimal, value, digits);
        if (digits == digits_max || reads_back(decimal, value, is_float))
            break;
        struct decimal above = *decimal;
        decimal_step(&above);
        if (reads_back(&above, value, is_float)) {
            *decimal = above;
            break;
        }
    }
    while (decimal->count > 1 && decimal->digits[decimal->count - 1] == '0')
        decimal->count--;
}

/* Python's float_repr_style 'short': exponents below -4 and from 16 on are written as such. */
static void add_decimal(struct buf *buf, const struct decimal *decimal) {
    struct str digits = {decimal->digits, (size_t)decimal->count};
    int point = decimal->point;
    if (point < -3 || point > 16) {
        buf_add(buf, str_cut(digits, 0, 1));
        if (decimal->count > 1)
            buf_add_char(buf, '.');
        buf_add(buf, str_cut(digits, 1, digits.len));
        buf_printf(buf, "e%c%02d", point > 0 ? '+' : '-', point > 0 ? point - 1 : 1 - point);
    } else if (point <= 0) {
        buf_printf(buf, "0.%.*s", -point, "000");
        buf_add(buf, digits);
    } else {
        buf_add(buf, str_cut(digits, 0, (size_t)point));
        for (int i = decimal->count; i < point; i++)
            buf_add_char(buf, '0');
        buf_add_char(buf, '.');
        buf_add(buf,
                decimal->count > point ? str_cut(digits, (size_t)point, digits.len) : STR("0"));
    }
}

static void add_number(struct buf *buf, double value, bool is_float) {
    if (!isfinite(value)) {
        buf_add(buf, STR("null"));
        return;
    }
    if (signbit(value))
        buf_add_char(buf, '-');
    if (value == 0) {
        buf_add(buf, STR("0.0"));
        return;
    }
    struct decimal decimal;
    decimal_shortest(&decimal, fabs(value), is_float);
    add_decimal(buf, &decimal);
}

void json_add_double(struct buf *buf, double value) {
    add_number(buf, value, false);
}

void json_add_float(struct buf *buf, float value) {
    add_number(buf, (double)value, true);
}

/* ---- writing a tree, with a stack of our own ---- */

struct level {
    const struct json *json;
    uint32_t next; /* item or member to write */
};

static void add_scalar(struct buf *buf, const struct json *json) {
    switch (json->kind) {
    case JSON_NULL:
        buf_add(buf, STR("null"));
        break;
    case JSON_FALSE:
        buf_add(buf, STR("false"));
        break;
    case JSON_TRUE:
        buf_add(buf, STR("true"));
        break;
    case JSON_NUMBER:
        buf_add(buf, json->text);
        break;
    case JSON_STRING:
        json_add_string(buf, json->text);
        break;
    default:
        must_fail("a scalar", __FILE__, __LINE__);
    }
}

/* What stands before a child: a comma, and its name. Returns the child. */
static const struct json *begin_child(struct buf *buf, const struct json *json, uint32_t index,
                                      bool has_spaces) {
    if (index > 0)
        buf_add(buf, has_spaces ? STR(", ") : STR(","));
    if (json->kind == JSON_ARRAY)
        return &json->items[index];
    json_add_string(buf, json->members[index].name);
    buf_add(buf, has_spaces ? STR(": ") : STR(":"));
    return &json->members[index].value;
}

void json_add(struct buf *buf, const struct json *json, bool has_spaces) {
    struct level *levels = NULL;
    size_t depth = 0, cap = 0;
    const struct json *now = json; /* to be written next; NULL: go on with the innermost level */
    while (now || depth > 0) {
        if (now && now->kind != JSON_ARRAY && now->kind != JSON_OBJECT) {
            add_scalar(buf, now);
            now = NULL;
        } else if (now) {
            void *grown = levels;
            if (!mem_grow(&grown, &cap, depth + 1, sizeof *levels)) {
                buf->has_failed = true;
                break;
            }
            levels = grown;
            levels[depth++] = (struct level){now, 0};
            buf_add_char(buf, now->kind == JSON_ARRAY ? '[' : '{');
            now = NULL;
        } else {
            struct level *level = &levels[depth - 1];
            if (level->next < level->json->count) {
                now = begin_child(buf, level->json, level->next, has_spaces);
                level->next++;
            } else {
                buf_add_char(buf, level->json->kind == JSON_ARRAY ? ']' : '}');
                depth--;
            }
        }
    }
    mem_free(levels);
}

static void begin_member(struct buf *buf, const char *name) {
    bool is_first = buf->len > 0 && buf->data[buf->len - 1] == '{';
    buf_printf(buf, "%s\"%s\": ", is_first ? "" : ", ", name);
}

void json_member_text(struct buf *buf, const char *name, struct str value) {
    begin_member(buf, name);
    json_add_string(buf, value);
}

void json_member_count(struct buf *buf, const char *name, uint64_t value) {
    begin_member(buf, name);
    buf_printf(buf, "%llu", (unsigned long long)value);
}

void json_member_real(struct buf *buf, const char *name, double value) {
    begin_member(buf, name);
    json_add_double(buf, value);
}
