/* Values of the template interpreter: made, looked at, compared, hashed, by Python's rules. Owns
 * the limits on work and memory of a rendering. Recursion into nested values ends at
 * SL_TEMPLATE_NEST_MAX levels with an error. */
#include "text/template_value.h"

#include "text/template_tree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum status(value_fail)(struct render *render, const char *format, ...) {
    char text[sizeof render->err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(render->err, SL_ERR_ROW, "%s line %u: %s", render->template->name,
                     render->line, text);
}

enum status value_charge(struct render *render, size_t steps) {
    if (render->steps_left <= steps) {
        render->steps_left = 0;
        return value_fail(render, "the template does not end within %llu steps",
                          (unsigned long long)SL_TEMPLATE_STEPS_MAX);
    }
    render->steps_left -= steps;
    return SL_OK;
}

enum status value_take(struct render *render, size_t bytes, void **out) {
    if (bytes > SL_TEMPLATE_MEMORY_MAX || render->arena.used_bytes > SL_TEMPLATE_MEMORY_MAX - bytes)
        return value_fail(render, "the template needs more than %zu bytes of memory",
                          SL_TEMPLATE_MEMORY_MAX);
    TRY(value_charge(render, bytes / 64));
    void *memory = arena_take(&render->arena, bytes > 0 ? bytes : 1);
    if (memory == NULL)
        return error_memory(render->err, bytes, "a template's values");
    *out = memory;
    return SL_OK;
}

struct value value_none(void) {
    return (struct value){.kind = VALUE_NONE};
}

struct value value_bool(bool boolean) {
    return (struct value){.kind = VALUE_BOOL, .boolean = boolean};
}

struct value value_int(int64_t integer) {
    return (struct value){.kind = VALUE_INT, .integer = integer};
}

struct value value_float(double real) {
    return (struct value){.kind = VALUE_FLOAT, .real = real};
}

struct value value_text(struct str text) {
    struct value value = {.kind = VALUE_TEXT};
    value.text = text;
    return value;
}

struct value value_words(const char *constant) {
    return value_text(str_from(constant));
}

static enum status new_undefined(struct render *render, const struct undefined *undefined,
                                 struct value *out) {
    void *memory;
    TRY(value_take(render, sizeof *undefined, &memory));
    memcpy(memory, undefined, sizeof *undefined);
    *out = (struct value){.kind = VALUE_UNDEFINED, .undefined = memory};
    return SL_OK;
}

enum status value_undefined(struct render *render, const char *owner, const struct value *name,
                            struct value *out) {
    return new_undefined(render, &(struct undefined){.owner = owner, .name = *name}, out);
}

enum status value_hint(struct render *render, const char *hint, struct value *out) {
    return new_undefined(render, &(struct undefined){.hint = hint}, out);
}

enum status value_unsafe(struct render *render, const char *owner, const struct value *name,
                         struct value *out) {
    return new_undefined(
        render, &(struct undefined){.owner = owner, .name = *name, .is_unsafe = true}, out);
}

enum status value_use_undefined(struct render *render, const struct value *value) {
    const struct undefined *undefined = value->undefined;
    if (undefined == NULL)
        return value_fail(render, "an undefined value is used");
    if (undefined->hint != NULL)
        return value_fail(render, "%s", undefined->hint);
    size_t mark = render->scratch.len;
    struct value name;
    TRY(repr_add(render, &render->scratch, &undefined->name));
    TRY(text_from_scratch(render, mark, &name));
    if (undefined->owner == NULL)
        return value_fail(render, "%.*s is undefined", STR_ARG(name.text));
    if (undefined->is_unsafe)
        return value_fail(render, "access to attribute %.*s of %s is unsafe", STR_ARG(name.text),
                          undefined->owner);
    if (undefined->name.kind != VALUE_TEXT)
        return value_fail(render, "%s has no element %.*s", undefined->owner, STR_ARG(name.text));
    return value_fail(render, "'%s' has no attribute %.*s", undefined->owner, STR_ARG(name.text));
}

static enum status from_number(const struct json *json, struct value *out) {
    int64_t integer;
    double real;
    if (json_i64(json, &integer)) {
        *out = value_int(integer);
    } else if (json_is_integer(json)) {
        *out = (struct value){.kind = VALUE_BIG};
        out->text = json->text;
    } else {
        *out = value_float(json_double(json, &real) ? real : 0.0);
    }
    return SL_OK;
}

enum status value_from_json(struct render *render, const struct json *json, struct value *out) {
    void *memory;
    *out = value_none();
    if (json == NULL)
        return SL_OK;
    switch (json->kind) {
    case JSON_NULL:
        return SL_OK;
    case JSON_FALSE:
    case JSON_TRUE:
        *out = value_bool(json->kind == JSON_TRUE);
        return SL_OK;
    case JSON_NUMBER:
        return from_number(json, out);
    case JSON_STRING:
        *out = value_text(json->text);
        return SL_OK;
    case JSON_ARRAY:
        TRY(value_take(render, sizeof(struct list), &memory));
        *out = (struct value){.kind = VALUE_LIST, .list = memory};
        *out->list = (struct list){.count = json->count, .json = json};
        return SL_OK;
    case JSON_OBJECT:
        TRY(value_take(render, sizeof(struct dict), &memory));
        *out = (struct value){.kind = VALUE_DICT, .dict = memory};
        out->dict->json = json;
        return SL_OK;
    }
    return SL_OK;
}

enum status value_new_list(struct render *render, enum value_kind kind, size_t count,
                           struct value *out) {
    void *list, *items;
    if (count > SL_TEMPLATE_MEMORY_MAX / sizeof(struct value))
        return value_fail(render, "a list of %zu items is too long", count);
    TRY(value_take(render, sizeof(struct list), &list));
    TRY(value_take(render, count * sizeof(struct value), &items));
    *out = (struct value){.kind = kind, .list = list};
    *out->list = (struct list){.items = items, .count = count};
    for (size_t i = 0; i < count; i++)
        out->list->items[i] = value_none();
    return SL_OK;
}

enum status value_new_stream(struct render *render, const struct value *list, const char *type,
                             struct value *out) {
    void *memory;
    TRY(value_take(render, sizeof(struct stream), &memory));
    struct stream *stream = memory;
    *stream = (struct stream){.list = list->list, .type = type};
    *out = (struct value){.kind = VALUE_STREAM, .stream = stream};
    return SL_OK;
}

enum status value_items(struct render *render, struct list *list) {
    if (list->json == NULL)
        return SL_OK;
    void *memory;
    TRY(value_take(render, list->count * sizeof(struct value), &memory));
    struct value *items = memory;
    for (size_t i = 0; i < list->count; i++)
        TRY(value_from_json(render, &list->json->items[i], &items[i]));
    list->items = items;
    list->json = NULL;
    return SL_OK;
}

static enum status iterate_text(struct render *render, struct str text, struct list *out) {
    struct value list;
    TRY(value_new_list(render, VALUE_LIST, text_length(text), &list));
    size_t at = 0;
    for (size_t i = 0; at < text.len; i++) {
        size_t from = at;
        utf8_next(text, &at);
        list.list->items[i] = value_text(str_cut(text, from, at));
    }
    *out = *list.list;
    return SL_OK;
}

static enum status iterate_dict(struct render *render, struct dict *dict, enum view_kind kind,
                                struct list *out) {
    struct value list, pair;
    TRY(dict_entries(render, dict));
    TRY(value_new_list(render, VALUE_LIST, dict->count, &list));
    for (size_t i = 0; i < dict->count; i++) {
        const struct entry *entry = &dict->entries[i];
        if (kind == VIEW_ITEMS) {
            TRY(value_new_list(render, VALUE_TUPLE, 2, &pair));
            pair.list->items[0] = entry->key;
            pair.list->items[1] = entry->value;
            list.list->items[i] = pair;
        } else {
            list.list->items[i] = kind == VIEW_KEYS ? entry->key : entry->value;
        }
    }
    *out = *list.list;
    return SL_OK;
}

static enum status iterate_range(struct render *render, const struct range *range,
                                 struct list *out) {
    struct value list;
    TRY(value_new_list(render, VALUE_LIST, range->count, &list));
    for (size_t i = 0; i < range->count; i++)
        list.list->items[i] = value_int(range->start + (int64_t)i * range->step);
    *out = *list.list;
    return SL_OK;
}

static enum status iterate_stream(struct render *render, struct stream *stream, struct list *out) {
    TRY(value_items(render, stream->list));
    *out = (struct list){.items = stream->list->items + stream->at,
                         .count = stream->list->count - stream->at};
    stream->at = stream->list->count;
    return SL_OK;
}

static enum status iterate(struct render *render, const struct value *value, struct list *out) {
    switch (value->kind) {
    case VALUE_UNDEFINED:
        *out = (struct list){.count = 0};
        return SL_OK;
    case VALUE_TEXT:
        return iterate_text(render, value->text, out);
    case VALUE_LIST:
    case VALUE_TUPLE:
        TRY(value_items(render, value->list));
        *out = *value->list;
        return SL_OK;
    case VALUE_DICT:
        return iterate_dict(render, value->dict, VIEW_KEYS, out);
    case VALUE_VIEW:
        return iterate_dict(render, value->view->dict, value->view->kind, out);
    case VALUE_RANGE:
        return iterate_range(render, value->range, out);
    case VALUE_STREAM:
        return iterate_stream(render, value->stream, out);
    default:
        return value_fail(render, "'%s' object is not iterable", value_type(value));
    }
}

/* Whoever iterates does something with each item: charged here for all of them. */
enum status value_iterate(struct render *render, const struct value *value, struct list *out) {
    TRY(iterate(render, value, out));
    return value_charge(render, out->count);
}

bool value_is_iterable(const struct value *value) {
    switch (value->kind) {
    case VALUE_UNDEFINED:
    case VALUE_TEXT:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_VIEW:
    case VALUE_RANGE:
    case VALUE_STREAM:
    case VALUE_LOOP:
        return true;
    default:
        return false;
    }
}

enum status value_length(struct render *render, const struct value *value, bool *has,
                         size_t *length) {
    *has = true;
    *length = 0;
    switch (value->kind) {
    case VALUE_UNDEFINED:
        return SL_OK;
    case VALUE_TEXT:
        *length = text_length(value->text);
        return value_charge(render, value->text.len / 16);
    case VALUE_LIST:
    case VALUE_TUPLE:
        *length = value->list->count;
        return SL_OK;
    case VALUE_DICT:
        TRY(dict_entries(render, value->dict));
        *length = value->dict->count;
        return SL_OK;
    case VALUE_VIEW:
        TRY(dict_entries(render, value->view->dict));
        *length = value->view->dict->count;
        return SL_OK;
    case VALUE_RANGE:
        *length = value->range->count;
        return SL_OK;
    case VALUE_LOOP:
        *length = value->loop->items.count;
        return SL_OK;
    default:
        *has = false;
        return SL_OK;
    }
}

enum status value_length_or_fail(struct render *render, const struct value *value, size_t *length) {
    bool has;
    TRY(value_length(render, value, &has, length));
    return has ? SL_OK : value_fail(render, "object of type '%s' has no len()", value_type(value));
}

enum status value_truth(struct render *render, const struct value *value, bool *out) {
    size_t length;
    bool has;
    switch (value->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        *out = false;
        return SL_OK;
    case VALUE_BOOL:
        *out = value->boolean;
        return SL_OK;
    case VALUE_INT:
        *out = value->integer != 0;
        return SL_OK;
    case VALUE_FLOAT:
        *out = value->real != 0.0;
        return SL_OK;
    case VALUE_TEXT:
        *out = value->text.len > 0;
        return SL_OK;
    default:
        TRY(value_length(render, value, &has, &length));
        *out = !has || length > 0;
        return SL_OK;
    }
}

bool value_is_number(const struct value *value) {
    return value->kind == VALUE_BOOL || value->kind == VALUE_INT || value->kind == VALUE_BIG ||
           value->kind == VALUE_FLOAT;
}

const char *value_type(const struct value *value) {
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    switch (value->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
        return "Undefined";
    case VALUE_NONE:
        return "NoneType";
    case VALUE_BOOL:
        return "bool";
    case VALUE_INT:
    case VALUE_BIG:
        return "int";
    case VALUE_FLOAT:
        return "float";
    case VALUE_TEXT:
        return value->is_markup ? "Markup" : "str";
    case VALUE_LIST:
        return "list";
    case VALUE_TUPLE:
        return "tuple";
    case VALUE_DICT:
        return "dict";
    case VALUE_VIEW:
        return views[value->view->kind];
    case VALUE_RANGE:
        return "range";
    case VALUE_STREAM:
        return value->stream->type;
    case VALUE_SPACE:
        return "Namespace";
    case VALUE_LOOP:
        return "LoopContext";
    case VALUE_MACRO:
        return "Macro";
    case VALUE_METHOD:
        return "method";
    case VALUE_FUNCTION:
        return "function";
    case VALUE_CYCLER:
        return "Cycler";
    case VALUE_JOINER:
        return "Joiner";
    }
    return "object";
}

const char *value_owner(const struct value *value) {
    static const struct {
        const char *type, *owner;
    } owners[] = {
        {"NoneType", "None"},
        {"bool", "bool object"},
        {"int", "int object"},
        {"float", "float object"},
        {"str", "str object"},
        {"list", "list object"},
        {"tuple", "tuple object"},
        {"dict", "dict object"},
        {"range", "range object"},
        {"dict_keys", "dict_keys object"},
        {"dict_items", "dict_items object"},
        {"dict_values", "dict_values object"},
        {"generator", "generator object"},
        {"Namespace", "namespace object"},
        {"Markup", "Markup object"},
        {"LoopContext", "loop object"},
        {"Macro", "macro object"},
    };
    const char *type = value_type(value);
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++)
        if (strcmp(owners[i].type, type) == 0)
            return owners[i].owner;
    return "object";
}

bool value_is_same(const struct value *a, const struct value *b) {
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
        return a->undefined == b->undefined;
    case VALUE_NONE:
        return true;
    case VALUE_BOOL:
        return a->boolean == b->boolean;
    case VALUE_INT:
        return a->integer == b->integer;
    case VALUE_FLOAT:
        return a->real == b->real;
    case VALUE_BIG:
    case VALUE_TEXT:
        return a->is_markup == b->is_markup && str_equal(a->text, b->text);
    default:
        return a->list == b->list;
    }
}
