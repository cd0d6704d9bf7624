/* Equality, order, membership and hashes of values. Nested lists and dicts are followed to
 * SL_TEMPLATE_NEST_MAX levels. */
#include "text/template_value.h"

#include <math.h>
#include <string.h>

static enum status equal(struct render *render, const struct value *a, const struct value *b,
                         unsigned depth, bool *out);

static enum status too_deep(struct render *render) {
    return value_fail(render, "a value is nested more than %u levels deep", SL_TEMPLATE_NEST_MAX);
}

/* Digits of two integers outside 64 bits, with their signs. */
static int order_big(struct str a, struct str b) {
    bool minus_a = a.len > 0 && a.data[0] == '-', minus_b = b.len > 0 && b.data[0] == '-';
    if (minus_a != minus_b)
        return minus_a ? -1 : 1;
    int order = a.len != b.len ? (a.len < b.len ? -1 : 1) : memcmp(a.data, b.data, a.len);
    order = order < 0 ? -1 : order > 0;
    return minus_a ? -order : order;
}

/* An int64 against a double, exactly. */
static int order_mixed(int64_t a, double b) {
    if (b >= 0x1p63)
        return -1;
    if (b < -0x1p63)
        return 1;
    int64_t whole = (int64_t)b;
    if (a != whole)
        return a < whole ? -1 : 1;
    double rest = b - (double)whole;
    return rest > 0 ? -1 : rest < 0;
}

/* Two numbers; 2 when one is NaN. */
static int order_numbers(const struct value *a, const struct value *b) {
    int64_t x, y;
    double p, q;
    bool is_int_a = number_as_int(a, &x), is_int_b = number_as_int(b, &y);
    if (is_int_a && is_int_b)
        return x < y ? -1 : x > y;
    if (a->kind == VALUE_BIG && b->kind == VALUE_BIG)
        return order_big(a->text, b->text);
    if (a->kind == VALUE_BIG && is_int_b)
        return a->text.data[0] == '-' ? -1 : 1;
    if (b->kind == VALUE_BIG && is_int_a)
        return b->text.data[0] == '-' ? 1 : -1;
    if (!number_as_double(a, &p) || !number_as_double(b, &q) || isnan(p) || isnan(q))
        return 2;
    if (is_int_a)
        return order_mixed(x, q);
    if (is_int_b)
        return -order_mixed(y, p);
    return p < q ? -1 : p > q;
}

static enum status equal_lists(struct render *render, struct list *a, struct list *b,
                               unsigned depth, bool *out) {
    *out = a->count == b->count;
    if (!*out || a == b)
        return SL_OK;
    TRY(value_items(render, a));
    TRY(value_items(render, b));
    for (size_t i = 0; *out && i < a->count; i++)
        TRY(equal(render, &a->items[i], &b->items[i], depth + 1, out));
    return SL_OK;
}

static enum status equal_dicts(struct render *render, struct dict *a, struct dict *b,
                               unsigned depth, bool *out) {
    TRY(dict_entries(render, a));
    TRY(dict_entries(render, b));
    *out = a->count == b->count;
    for (size_t i = 0; *out && a != b && i < a->count; i++) {
        struct entry *other;
        TRY(dict_find(render, b, &a->entries[i].key, &other));
        *out = other != NULL;
        if (*out)
            TRY(equal(render, &a->entries[i].value, &other->value, depth + 1, out));
    }
    return SL_OK;
}

/* Keys and items compare as sets. */
static enum status equal_views(struct render *render, const struct view *a, const struct view *b,
                               unsigned depth, bool *out) {
    *out = a == b;
    if (a->kind != b->kind || a->kind == VIEW_VALUES)
        return SL_OK;
    if (a->kind == VIEW_ITEMS)
        return equal_dicts(render, a->dict, b->dict, depth, out);
    TRY(dict_entries(render, a->dict));
    TRY(dict_entries(render, b->dict));
    *out = a->dict->count == b->dict->count;
    for (size_t i = 0; *out && i < a->dict->count; i++) {
        struct entry *other;
        TRY(dict_find(render, b->dict, &a->dict->entries[i].key, &other));
        *out = other != NULL;
    }
    return SL_OK;
}

static bool equal_ranges(const struct range *a, const struct range *b) {
    if (a->count != b->count || a->count == 0)
        return a->count == b->count;
    return a->start == b->start && (a->count == 1 || a->step == b->step);
}

static enum status equal(struct render *render, const struct value *a, const struct value *b,
                         unsigned depth, bool *out) {
    if (depth > SL_TEMPLATE_NEST_MAX)
        return too_deep(render);
    TRY(value_charge(render, 1));
    if (value_is_number(a) && value_is_number(b)) {
        *out = order_numbers(a, b) == 0;
        return SL_OK;
    }
    *out = false;
    if (a->kind != b->kind)
        return SL_OK;
    switch (a->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        *out = true;
        return SL_OK;
    case VALUE_TEXT:
        *out = str_equal(a->text, b->text);
        return value_charge(render, *out ? a->text.len / 64 : 0);
    case VALUE_LIST:
    case VALUE_TUPLE:
        return equal_lists(render, a->list, b->list, depth, out);
    case VALUE_DICT:
        return equal_dicts(render, a->dict, b->dict, depth, out);
    case VALUE_RANGE:
        *out = equal_ranges(a->range, b->range);
        return SL_OK;
    case VALUE_VIEW:
        return equal_views(render, a->view, b->view, depth, out);
    case VALUE_METHOD:
        *out = a->method == b->method;
        return SL_OK;
    default:
        *out = value_is_same(a, b);
        return SL_OK;
    }
}

enum status value_equal(struct render *render, const struct value *a, const struct value *b,
                        bool *out) {
    return equal(render, a, b, 0, out);
}

static int order_text(struct str a, struct str b) {
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len == 0 ? 0 : memcmp(a.data, b.data, len);
    if (order != 0)
        return order < 0 ? -1 : 1;
    return a.len < b.len ? -1 : a.len > b.len;
}

static enum status order(struct render *render, const struct value *a, const struct value *b,
                         const char *sign, unsigned depth, int *out);

static enum status order_lists(struct render *render, struct list *a, struct list *b,
                               const char *sign, unsigned depth, int *out) {
    TRY(value_items(render, a));
    TRY(value_items(render, b));
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        bool is_equal;
        TRY(equal(render, &a->items[i], &b->items[i], depth + 1, &is_equal));
        if (!is_equal)
            return order(render, &a->items[i], &b->items[i], sign, depth + 1, out);
    }
    *out = a->count < b->count ? -1 : a->count > b->count;
    return SL_OK;
}

static enum status order(struct render *render, const struct value *a, const struct value *b,
                         const char *sign, unsigned depth, int *out) {
    if (depth > SL_TEMPLATE_NEST_MAX)
        return too_deep(render);
    TRY(value_charge(render, 1));
    if (a->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, a);
    if (b->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, b);
    if (value_is_number(a) && value_is_number(b)) {
        *out = order_numbers(a, b);
        return SL_OK;
    }
    if (a->kind == VALUE_TEXT && b->kind == VALUE_TEXT) {
        *out = order_text(a->text, b->text);
        return value_charge(render, a->text.len / 64);
    }
    if ((a->kind == VALUE_LIST || a->kind == VALUE_TUPLE) && a->kind == b->kind)
        return order_lists(render, a->list, b->list, sign, depth, out);
    return value_fail(render, "'%s' not supported between instances of '%s' and '%s'", sign,
                      value_type(a), value_type(b));
}

enum status value_order(struct render *render, const struct value *a, const struct value *b,
                        const char *sign, int *out) {
    return order(render, a, b, sign, 0, out);
}

static enum status contains_range(const struct range *range, const struct value *value, bool *out) {
    int64_t integer;
    double real;
    *out = false;
    if (!number_as_int(value, &integer)) {
        if (!number_as_double(value, &real) || !(real >= -0x1p62 && real <= 0x1p62) ||
            real != (double)(int64_t)real)
            return SL_OK;
        integer = (int64_t)real;
    }
    for (size_t i = 0; i < range->count && !*out; i++)
        *out = range->start + (int64_t)i * range->step == integer;
    return SL_OK;
}

enum status value_contains(struct render *render, const struct value *container,
                           const struct value *value, bool *out) {
    struct entry *entry;
    struct list list;
    *out = false;
    switch (container->kind) {
    case VALUE_TEXT:
        if (value->kind == VALUE_UNDEFINED)
            return value_fail(render,
                              "'in <string>' requires string as left operand, not Undefined");
        if (value->kind != VALUE_TEXT)
            return value_fail(render, "'in <string>' requires string as left operand, not %s",
                              value_type(value));
        *out = text_find(container->text, value->text, 0) != SIZE_MAX;
        return value_charge(render, (container->text.len + value->text.len) / 32);
    case VALUE_DICT:
        TRY(dict_find(render, container->dict, value, &entry));
        *out = entry != NULL;
        return SL_OK;
    case VALUE_RANGE:
        TRY(value_charge(render, container->range->count / 16));
        return contains_range(container->range, value, out);
    case VALUE_VIEW:
        if (container->view->kind == VIEW_KEYS) {
            TRY(dict_find(render, container->view->dict, value, &entry));
            *out = entry != NULL;
            return SL_OK;
        }
        break;
    default:
        break;
    }
    if (!value_is_iterable(container))
        return value_fail(render, "argument of type '%s' is not iterable", value_type(container));
    TRY(value_iterate(render, container, &list));
    for (size_t i = 0; i < list.count && !*out; i++)
        TRY(value_equal(render, &list.items[i], value, out));
    return SL_OK;
}

static uint64_t mix(uint64_t hash, uint64_t more) {
    uint64_t mixed = (hash ^ more) * 0x9E3779B97F4A7C15u;
    return mixed ^ (mixed >> 29);
}

/* Numbers that are equal have one hash, whatever their kind. */
static uint64_t hash_number(const struct value *value) {
    int64_t integer;
    double real = 0.0;
    if (number_as_int(value, &integer))
        return mix(1, (uint64_t)integer);
    if (value->kind == VALUE_FLOAT && value->real >= -0x1p63 && value->real < 0x1p63 &&
        value->real == (double)(int64_t)value->real)
        return mix(1, (uint64_t)(int64_t)value->real);
    uint64_t bits;
    number_as_double(value, &real);
    memcpy(&bits, &real, sizeof bits);
    return mix(2, bits);
}

static enum status hash(struct render *render, const struct value *value, unsigned depth,
                        uint64_t *out) {
    if (depth > SL_TEMPLATE_NEST_MAX)
        return too_deep(render);
    TRY(value_charge(render, 1));
    if (value_is_number(value)) {
        *out = hash_number(value);
        return SL_OK;
    }
    switch (value->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        *out = mix(3, (uint64_t)value->kind);
        return SL_OK;
    case VALUE_TEXT:
        *out = mix(4, str_hash(value->text));
        return value_charge(render, value->text.len / 16);
    case VALUE_TUPLE:
        *out = 5;
        TRY(value_items(render, value->list));
        for (size_t i = 0; i < value->list->count; i++) {
            uint64_t item;
            TRY(hash(render, &value->list->items[i], depth + 1, &item));
            *out = mix(*out, item);
        }
        return SL_OK;
    case VALUE_VIEW:
        if (value->view->kind == VIEW_VALUES) {
            *out = mix(6, (uint64_t)(uintptr_t)value->view);
            return SL_OK;
        }
        return value_fail(render, "unhashable type: '%s'", value_type(value));
    case VALUE_LIST:
    case VALUE_DICT:
        return value_fail(render, "unhashable type: '%s'", value_type(value));
    default:
        *out = mix(6, (uint64_t)(uintptr_t)value->list);
        return SL_OK;
    }
}

enum status value_hash(struct render *render, const struct value *value, uint64_t *out) {
    return hash(render, value, 0, out);
}
