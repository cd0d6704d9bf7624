/* Methods of lists, tuples, dicts and ranges, and which names are out of a template's reach. */
#include "text/template_value.h"

#include <string.h>

/* Those that Jinja's immutable sandbox hides because they change the value. */
static const char *const list_changers[] = {"append", "clear",  "pop",    "reverse", "insert",
                                            "sort",   "extend", "remove", NULL};
static const char *const dict_changers[] = {"clear",      "pop",    "popitem",
                                            "setdefault", "update", NULL};

static bool is_among(struct str name, const char *const names[]) {
    for (size_t i = 0; names[i] != NULL; i++)
        if (str_is(name, names[i]))
            return true;
    return false;
}

bool method_is_unsafe(const struct value *value, struct str name) {
    if (name.len > 1 && name.data[0] == '_' && name.data[1] == '_')
        return true;
    if (value->kind == VALUE_LIST)
        return is_among(name, list_changers);
    if (value->kind == VALUE_DICT)
        return is_among(name, dict_changers);
    return false;
}

static enum status view(struct render *render, const struct call *call, enum view_kind kind,
                        struct value *out) {
    void *memory;
    TRY(value_take(render, sizeof(struct view), &memory));
    struct view *made = memory;
    *made = (struct view){call->self.dict, kind};
    *out = (struct value){.kind = VALUE_VIEW, .view = made};
    return SL_OK;
}

static enum status dict_keys(struct render *render, const struct call *call, struct value *out) {
    return view(render, call, VIEW_KEYS, out);
}

static enum status dict_values(struct render *render, const struct call *call, struct value *out) {
    return view(render, call, VIEW_VALUES, out);
}

static enum status dict_items(struct render *render, const struct call *call, struct value *out) {
    return view(render, call, VIEW_ITEMS, out);
}

static enum status dict_get(struct render *render, const struct call *call, struct value *out) {
    struct entry *entry;
    TRY(dict_find(render, call->self.dict, &call->args[0], &entry));
    if (entry != NULL)
        *out = entry->value;
    else
        *out = call->args[1].kind == VALUE_MISSING ? value_none() : call->args[1];
    return SL_OK;
}

static enum status dict_copy(struct render *render, const struct call *call, struct value *out) {
    struct value self = call->self;
    struct arguments arguments = {.items = &self, .count = 1};
    return dict_make(render, &arguments, VALUE_DICT, out);
}

static enum status list_index(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    TRY(value_iterate(render, &call->self, &list));
    for (size_t i = 0; i < list.count; i++) {
        bool is_equal;
        TRY(value_equal(render, &list.items[i], &call->args[0], &is_equal));
        if (is_equal) {
            *out = value_int((int64_t)i);
            return SL_OK;
        }
    }
    return value_fail(render, "the value is not in the %s", value_type(&call->self));
}

static enum status list_count(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    int64_t count = 0;
    TRY(value_iterate(render, &call->self, &list));
    for (size_t i = 0; i < list.count; i++) {
        bool is_equal;
        TRY(value_equal(render, &list.items[i], &call->args[0], &is_equal));
        count += is_equal;
    }
    *out = value_int(count);
    return SL_OK;
}

static enum status list_copy(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    *out = call->self; /* nothing can change it */
    return SL_OK;
}

static const struct builtin dict_methods[] = {
    {"keys", dict_keys, "", 0},   {"values", dict_values, "", 0},
    {"items", dict_items, "", 0}, {"get", dict_get, "key default", 1},
    {"copy", dict_copy, "", 0},   {"fromkeys", NULL, "*", 0},
    {NULL, NULL, NULL, 0},
};
static const struct builtin list_methods[] = {
    {"index", list_index, "value", 1},
    {"count", list_count, "value", 1},
    {"copy", list_copy, "", 0},
    {NULL, NULL, NULL, 0},
};

const struct builtin *method_find(const struct value *value, struct str name) {
    switch (value->kind) {
    case VALUE_TEXT:
        return builtin_find(method_text_table, name);
    case VALUE_DICT:
        return builtin_find(dict_methods, name);
    case VALUE_LIST:
        return builtin_find(list_methods, name);
    case VALUE_RANGE:
    case VALUE_TUPLE:
        return str_is(name, "copy") ? NULL : builtin_find(list_methods, name);
    case VALUE_CYCLER:
        return builtin_find(global_cycler_methods, name);
    default:
        return NULL;
    }
}
