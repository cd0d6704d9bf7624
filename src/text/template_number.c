/* Arithmetic of the template interpreter: Python's on 64-bit integers (an overflow is an error, not
 * another number) and doubles; `+`, `*` and `%` on text, lists and tuples. */
#include "text/template_tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool number_as_int(const struct value *value, int64_t *out) {
    if (value->kind == VALUE_BOOL)
        *out = value->boolean;
    else if (value->kind == VALUE_INT)
        *out = value->integer;
    else
        return false;
    return true;
}

bool number_as_double(const struct value *value, double *out) {
    int64_t integer;
    if (number_as_int(value, &integer))
        *out = (double)integer;
    else if (value->kind == VALUE_FLOAT)
        *out = value->real;
    else if (value->kind == VALUE_BIG)
        return number_read_float(value->text, out);
    else
        return false;
    return true;
}

enum status number_need_int(struct render *render, const struct value *value, const char *what,
                            int64_t *out) {
    if (value->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, value);
    if (!number_as_int(value, out))
        return value_fail(render, "%s must be an integer, not '%s'", what, value_type(value));
    return SL_OK;
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

/* Drops a prefix such as 0x that fits the base; base 0 takes its value from it. */
static struct str drop_prefix(struct str text, int *base) {
    static const struct {
        char letter;
        int base;
    } prefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
    for (size_t i = 0; text.len > 2 && text.data[0] == '0' && i < 3; i++) {
        if ((text.data[1] | 0x20) != prefixes[i].letter)
            continue;
        if (*base != 0 && *base != prefixes[i].base)
            continue;
        *base = prefixes[i].base;
        size_t skip = text.data[2] == '_' ? 3 : 2;
        return str_cut(text, skip, text.len);
    }
    if (*base == 0)
        *base = 10;
    return text;
}

bool number_read_int(struct str text, int base, struct value *out) {
    text = text_strip(text, TEXT_BOTH, (struct str){NULL, 0});
    bool is_minus = text.len > 0 && text.data[0] == '-', fits = true, has_gap = false;
    size_t signs = text.len > 0 && (text.data[0] == '-' || text.data[0] == '+');
    struct str digits = drop_prefix(str_cut(text, signs, text.len), &base);
    uint64_t sum = 0, limit = (uint64_t)INT64_MAX + is_minus;
    if (digits.len == 0 || base < 2 || base > 36)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        int digit = digit_value(digits.data[i]);
        if (digits.data[i] == '_' && i > 0 && i + 1 < digits.len && digits.data[i - 1] != '_') {
            has_gap = true;
            continue;
        }
        if (digit >= base)
            return false;
        fits = fits && sum <= (limit - (uint64_t)digit) / (uint64_t)base;
        sum = fits ? sum * (uint64_t)base + (uint64_t)digit : sum;
    }
    if (fits) {
        *out = value_int(is_minus ? (int64_t)(0 - sum) : (int64_t)sum);
        return true;
    }
    if (base != 10 || has_gap || digits.data[0] == '0')
        return false;
    *out = (struct value){.kind = VALUE_BIG};
    out->text = is_minus ? text : digits;
    return true;
}

bool number_read_float(struct str text, double *out) {
    char copy[400];
    text = text_strip(text, TEXT_BOTH, (struct str){NULL, 0});
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool is_between = i > 0 && i + 1 < text.len && digit_value(text.data[i - 1]) < 10 &&
                          digit_value(text.data[i + 1]) < 10;
        if (c == '_' && is_between)
            continue;
        if (len + 1 == sizeof copy || strchr("xXpP()", c) != NULL)
            return false;
        copy[len++] = c;
    }
    copy[len] = '\0';
    char *end;
    *out = strtod(copy, &end);
    return len > 0 && end == copy + len;
}

static enum status overflow(struct render *render) {
    return value_fail(render, "an integer does not fit in 64 bits");
}

/* Floor division and its remainder as Python rounds them. b is not 0. */
static int64_t floor_div(int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static enum status int_power(struct render *render, int64_t base, int64_t exponent,
                             struct value *out) {
    if (exponent < 0) {
        if (base == 0)
            return value_fail(render, "0.0 cannot be raised to a negative power");
        *out = value_float(pow((double)base, (double)exponent));
        return SL_OK;
    }
    int64_t result = 1;
    if (base == 0 || base == 1 || base == -1) {
        *out = value_int(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
        return SL_OK;
    }
    for (int64_t i = 0; i < exponent; i++)
        if (__builtin_mul_overflow(result, base, &result))
            return overflow(render);
    *out = value_int(result);
    return SL_OK;
}

static enum status int_binary(struct render *render, int op, int64_t a, int64_t b,
                              struct value *out) {
    int64_t result = 0;
    bool is_over = false;
    switch (op) {
    case OP_ADD:
        is_over = __builtin_add_overflow(a, b, &result);
        break;
    case OP_SUB:
        is_over = __builtin_sub_overflow(a, b, &result);
        break;
    case OP_MUL:
        is_over = __builtin_mul_overflow(a, b, &result);
        break;
    case OP_DIV:
        if (b == 0)
            return value_fail(render, "division by zero");
        *out = value_float((double)a / (double)b);
        return SL_OK;
    case OP_FLOORDIV:
    case OP_MOD:
        if (b == 0)
            return value_fail(render, "integer division or modulo by zero");
        is_over = a == INT64_MIN && b == -1;
        if (!is_over)
            result = op == OP_FLOORDIV ? floor_div(a, b) : a - floor_div(a, b) * b;
        else if (op == OP_MOD)
            is_over = false;
        break;
    default:
        return int_power(render, a, b, out);
    }
    if (is_over)
        return overflow(render);
    *out = value_int(result);
    return SL_OK;
}

/* Python's float modulo: the sign of the divisor. */
static double float_mod(double a, double b) {
    double rest = fmod(a, b);
    if (rest != 0.0)
        return (rest < 0.0) != (b < 0.0) ? rest + b : rest;
    return copysign(0.0, b);
}

static double float_floor_div(double a, double b) {
    double quotient = (a - float_mod(a, b)) / b;
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

static enum status float_binary(struct render *render, int op, double a, double b,
                                struct value *out) {
    if (b == 0.0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
        return value_fail(render, op == OP_DIV        ? "float division by zero"
                                  : op == OP_FLOORDIV ? "float floor division by zero"
                                                      : "float modulo");
    double result = op == OP_ADD        ? a + b
                    : op == OP_SUB      ? a - b
                    : op == OP_MUL      ? a * b
                    : op == OP_DIV      ? a / b
                    : op == OP_FLOORDIV ? float_floor_div(a, b)
                    : op == OP_MOD      ? float_mod(a, b)
                                        : pow(a, b);
    if (op == OP_POW && isfinite(a) && isfinite(b) && !isfinite(result))
        return value_fail(render, "the result of '**' is too large or not a real number");
    *out = value_float(result);
    return SL_OK;
}

static const char *sign_of(int op) {
    switch (op) {
    case OP_ADD:
        return "+";
    case OP_SUB:
        return "-";
    case OP_MUL:
        return "*";
    case OP_DIV:
        return "/";
    case OP_FLOORDIV:
        return "//";
    case OP_MOD:
        return "%";
    default:
        return "** or pow()";
    }
}

static enum status unsupported(struct render *render, int op, const struct value *a,
                               const struct value *b) {
    if (op == OP_ADD && a->kind == VALUE_TEXT)
        return value_fail(render, "can only concatenate str (not \"%s\") to str", value_type(b));
    if (op == OP_ADD && (a->kind == VALUE_LIST || a->kind == VALUE_TUPLE))
        return value_fail(render, "can only concatenate %s (not \"%s\") to %s", value_type(a),
                          value_type(b), value_type(a));
    if (a->kind == VALUE_BIG || b->kind == VALUE_BIG)
        return overflow(render);
    return value_fail(render, "unsupported operand type(s) for %s: '%s' and '%s'", sign_of(op),
                      value_type(a), value_type(b));
}

static enum status add_text(struct render *render, const struct value *a, const struct value *b,
                            struct value *out) {
    struct value left = *a, right = *b;
    if (a->is_markup && !b->is_markup)
        TRY(text_escape(render, b->text, &right));
    if (b->is_markup && !a->is_markup)
        TRY(text_escape(render, a->text, &left));
    TRY(text_concat(render, &left, right.text, out));
    out->is_markup = a->is_markup || b->is_markup;
    return SL_OK;
}

static enum status add_lists(struct render *render, const struct value *a, const struct value *b,
                             struct value *out) {
    struct value sum;
    TRY(value_items(render, a->list));
    TRY(value_items(render, b->list));
    size_t first = a->list->count, second = b->list->count;
    TRY(value_new_list(render, a->kind, first + second, &sum));
    if (first > 0)
        memcpy(sum.list->items, a->list->items, first * sizeof(struct value));
    if (second > 0)
        memcpy(sum.list->items + first, b->list->items, second * sizeof(struct value));
    *out = sum;
    return SL_OK;
}

static enum status repeat_list(struct render *render, const struct value *list, int64_t count,
                               struct value *out) {
    struct value result;
    size_t len = list->list->count, times = count > 0 ? (size_t)count : 0;
    TRY(value_items(render, list->list));
    if (len > 0 && times > SL_TEMPLATE_MEMORY_MAX / sizeof(struct value) / len)
        return value_fail(render, "a list of %zu times %zu items is too long", times, len);
    TRY(value_new_list(render, list->kind, len * times, &result));
    for (size_t i = 0; i < times && len > 0; i++)
        memcpy(result.list->items + i * len, list->list->items, len * sizeof(struct value));
    *out = result;
    return SL_OK;
}

static enum status repeat(struct render *render, const struct value *a, const struct value *b,
                          struct value *out) {
    int64_t count;
    const struct value *sequence = a;
    if (!number_as_int(b, &count)) {
        sequence = b;
        if (!number_as_int(a, &count))
            return unsupported(render, OP_MUL, a, b);
    }
    if (sequence->kind == VALUE_TEXT)
        return text_repeat(render, sequence, count, out);
    if (sequence->kind == VALUE_LIST || sequence->kind == VALUE_TUPLE)
        return repeat_list(render, sequence, count, out);
    return unsupported(render, OP_MUL, a, b);
}

enum status number_binary(struct render *render, int op, const struct value *a,
                          const struct value *b, struct value *out) {
    int64_t x, y;
    double p, q;
    if (a->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, a);
    if (a->kind == VALUE_TEXT && op == OP_MOD) {
        bool is_markup = a->is_markup;
        TRY(format_percent(render, a, b, out));
        out->is_markup = is_markup;
        return SL_OK;
    }
    if (b->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, b);
    if (number_as_int(a, &x) && number_as_int(b, &y))
        return int_binary(render, op, x, y, out);
    if ((a->kind == VALUE_FLOAT || b->kind == VALUE_FLOAT) && number_as_double(a, &p) &&
        number_as_double(b, &q))
        return float_binary(render, op, p, q, out);
    if (op == OP_ADD && a->kind == VALUE_TEXT && b->kind == VALUE_TEXT)
        return add_text(render, a, b, out);
    if (op == OP_ADD && (a->kind == VALUE_LIST || a->kind == VALUE_TUPLE) && a->kind == b->kind)
        return add_lists(render, a, b, out);
    if (op == OP_MUL)
        return repeat(render, a, b, out);
    return unsupported(render, op, a, b);
}

enum status number_negate(struct render *render, const struct value *value, bool is_minus,
                          struct value *out) {
    int64_t integer;
    if (value->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, value);
    if (value->kind == VALUE_FLOAT) {
        *out = value_float(is_minus ? -value->real : value->real);
        return SL_OK;
    }
    if (!number_as_int(value, &integer)) {
        if (value->kind == VALUE_BIG)
            return overflow(render);
        return value_fail(render, "bad operand type for unary %c: '%s'", is_minus ? '-' : '+',
                          value_type(value));
    }
    if (is_minus && integer == INT64_MIN)
        return overflow(render);
    *out = value_int(is_minus ? -integer : integer);
    return SL_OK;
}

/* An integer to a multiple of 10^-digits, half to even. */
static enum status round_int(struct render *render, int64_t integer, int64_t digits,
                             struct value *out) {
    if (digits >= 0) {
        *out = value_int(integer);
        return SL_OK;
    }
    if (digits < -18) {
        *out = value_int(0);
        return SL_OK;
    }
    int64_t unit = 1;
    for (int64_t i = 0; i > digits; i--)
        unit *= 10;
    int64_t quotient = floor_div(integer, unit), rest = integer - quotient * unit;
    if (rest > unit - rest || (rest == unit - rest && quotient % 2 != 0))
        quotient++;
    int64_t result;
    if (__builtin_mul_overflow(quotient, unit, &result))
        return overflow(render);
    *out = value_int(result);
    return SL_OK;
}

enum status number_round(struct render *render, const struct value *value, int64_t digits,
                         struct value *out) {
    int64_t integer;
    double real;
    if (number_as_int(value, &integer))
        return round_int(render, integer, digits, out);
    if (value->kind == VALUE_BIG && digits < 0)
        return overflow(render);
    if (value->kind == VALUE_BIG) {
        *out = *value;
        return SL_OK;
    }
    if (value->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, value);
    if (!number_as_double(value, &real))
        return value_fail(render, "type %s doesn't define __round__ method", value_type(value));
    if (!isfinite(real) || digits > 300) {
        *out = value_float(real);
        return SL_OK;
    }
    if (digits < 0) {
        double unit = pow(10.0, (double)-digits);
        *out = value_float(digits < -308 ? copysign(0.0, real) : nearbyint(real / unit) * unit);
        return SL_OK;
    }
    char text[800]; /* the exact decimal rounds half to even, as Python's does */
    snprintf(text, sizeof text, "%.*f", (int)digits, real);
    *out = value_float(strtod(text, NULL));
    return SL_OK;
}
