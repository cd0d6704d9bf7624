/* Attributes, items, slices and calls as Jinja's sandbox gives them: an attribute is first a method
 * or a field of the value, then a key; an item the other way round. What begins with '_' and what
 * would change a list or dict is out of reach. */
#include "text/template_tree.h"

#include <string.h>

static enum status method_or_undefined(struct render *render, const struct value *object,
                                       const struct value *name, struct value *out) {
    const char *owner = value_owner(object);
    if (method_is_unsafe(object, name->text))
        return value_unsafe(render, owner, name, out);
    const struct builtin *builtin = method_find(object, name->text);
    if (builtin == NULL)
        return value_undefined(render, owner, name, out);
    void *memory;
    TRY(value_take(render, sizeof(struct method), &memory));
    struct method *method = memory;
    *method = (struct method){*object, builtin};
    *out = (struct value){.kind = VALUE_METHOD, .method = method};
    return SL_OK;
}

static bool has_method(const struct value *object, struct str name) {
    return method_is_unsafe(object, name) || method_find(object, name) != NULL;
}

static enum status space_attribute(struct render *render, const struct value *object,
                                   const struct value *name, struct value *out) {
    struct entry *entry;
    TRY(dict_find(render, object->dict, name, &entry));
    if (entry == NULL)
        return value_undefined(render, value_owner(object), name, out);
    *out = entry->value;
    return SL_OK;
}

static enum status macro_attribute(struct render *render, const struct value *object,
                                   const struct value *name, struct value *out) {
    if (str_is(name->text, "name")) {
        *out = value_text(object->macro->node->macro.name);
        return SL_OK;
    }
    return value_undefined(render, value_owner(object), name, out);
}

enum status get_attribute(struct render *render, const struct value *object, struct str name,
                          struct value *out) {
    struct value key = value_text(name);
    struct entry *entry;
    switch (object->kind) {
    case VALUE_UNDEFINED:
        return value_use_undefined(render, object);
    case VALUE_SPACE:
        return space_attribute(render, object, &key, out);
    case VALUE_LOOP:
        return global_loop_attribute(render, object, name, out);
    case VALUE_MACRO:
        return macro_attribute(render, object, &key, out);
    case VALUE_CYCLER:
        if (!str_is(name, "current"))
            break;
        *out = object->cycler->items.items[object->cycler->at];
        return SL_OK;
    case VALUE_TUPLE:
        if (!object->list->is_group || !(str_is(name, "grouper") || str_is(name, "list")))
            break;
        *out = object->list->items[str_is(name, "list")];
        return SL_OK;
    case VALUE_DICT:
        if (has_method(object, name))
            break;
        TRY(dict_find(render, object->dict, &key, &entry));
        if (entry != NULL) {
            *out = entry->value;
            return SL_OK;
        }
        break;
    default:
        break;
    }
    return method_or_undefined(render, object, &key, out);
}

static enum status text_at(struct render *render, const struct value *text, int64_t index,
                           struct value *out, bool *is_there) {
    size_t length = text_length(text->text);
    int64_t at = index < 0 ? index + (int64_t)length : index;
    *is_there = at >= 0 && at < (int64_t)length;
    TRY(value_charge(render, text->text.len / 16));
    if (!*is_there)
        return SL_OK;
    size_t from = text_offset(text->text, (size_t)at), next = from;
    utf8_next(text->text, &next);
    *out = value_text(str_cut(text->text, from, next));
    out->is_markup = text->is_markup;
    return SL_OK;
}

/* object[index] for a sequence and an integer. */
static enum status item_at(struct render *render, const struct value *object, int64_t index,
                           struct value *out, bool *is_there) {
    *is_there = false;
    if (object->kind == VALUE_TEXT)
        return text_at(render, object, index, out, is_there);
    if (object->kind == VALUE_RANGE) {
        const struct range *range = object->range;
        int64_t at = index < 0 ? index + (int64_t)range->count : index;
        *is_there = at >= 0 && at < (int64_t)range->count;
        if (*is_there)
            *out = value_int(range->start + at * range->step);
        return SL_OK;
    }
    if (object->kind != VALUE_LIST && object->kind != VALUE_TUPLE)
        return SL_OK;
    TRY(value_items(render, object->list));
    int64_t at = index < 0 ? index + (int64_t)object->list->count : index;
    *is_there = at >= 0 && at < (int64_t)object->list->count;
    if (*is_there)
        *out = object->list->items[at];
    return SL_OK;
}

enum status get_item(struct render *render, const struct value *object, const struct value *index,
                     struct value *out) {
    int64_t at;
    bool is_there = false;
    struct entry *entry = NULL;
    if (object->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, object);
    if (object->kind == VALUE_DICT) {
        if (index->kind != VALUE_LIST && index->kind != VALUE_DICT)
            TRY(dict_find(render, object->dict, index, &entry));
        if (entry != NULL) {
            *out = entry->value;
            return SL_OK;
        }
    } else if (number_as_int(index, &at)) {
        TRY(item_at(render, object, at, out, &is_there));
        if (is_there)
            return SL_OK;
    }
    if (index->kind != VALUE_TEXT)
        return value_undefined(render, value_owner(object), index, out);
    if (object->kind == VALUE_DICT)
        return method_or_undefined(render, object, index, out);
    return get_attribute(render, object, index->text, out);
}

/* A slice's bounds as Python clamps them; step is not 0. */
static size_t clamp_slice(const struct value bounds[3], int64_t length, int64_t step,
                          int64_t ends[2]) {
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
    ends[0] = step > 0 ? low : high;
    ends[1] = step > 0 ? high : low;
    for (size_t i = 0; i < 2; i++) {
        int64_t bound;
        if (!number_as_int(&bounds[i], &bound))
            continue;
        if (bound < 0)
            bound = bound < -length ? -1 - length : bound;
        if (bound < 0)
            bound += length;
        ends[i] = bound < low ? low : bound > high ? high : bound;
    }
    if (step > 0)
        return ends[0] < ends[1] ? (size_t)((ends[1] - ends[0] - 1) / step + 1) : 0;
    int64_t down = step == INT64_MIN ? INT64_MAX : -step;
    return ends[0] > ends[1] ? (size_t)((ends[0] - ends[1] - 1) / down + 1) : 0;
}

static enum status slice_text(struct render *render, const struct value *text, int64_t start,
                              int64_t step, size_t count, struct value *out) {
    TRY(value_charge(render, text->text.len / 16));
    if (step == 1) {
        struct str rest =
            str_cut(text->text, text_offset(text->text, (size_t)start), text->text.len);
        *out = value_text(str_cut(rest, 0, text_offset(rest, count)));
        out->is_markup = text->is_markup;
        return SL_OK;
    }
    struct list list;
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    TRY(value_iterate(render, text, &list));
    for (size_t i = 0; i < count; i++)
        buf_add(buf, list.items[start + (int64_t)i * step].text);
    TRY(text_from_scratch(render, mark, out));
    out->is_markup = text->is_markup;
    return SL_OK;
}

static enum status slice_range(struct render *render, const struct range *range,
                               const int64_t ends[2], int64_t step, struct value *out) {
    void *memory;
    TRY(value_take(render, sizeof *range, &memory));
    struct range *cut = memory;
    *cut = (struct range){.start = range->start + ends[0] * range->step,
                          .stop = range->start + ends[1] * range->step};
    if (__builtin_mul_overflow(range->step, step, &cut->step))
        return value_fail(render, "an integer does not fit in 64 bits");
    int64_t span = step > 0 ? ends[1] - ends[0] : ends[0] - ends[1];
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    cut->count = span > 0 ? (size_t)(((uint64_t)span - 1) / stride + 1) : 0;
    *out = (struct value){.kind = VALUE_RANGE, .range = cut};
    return SL_OK;
}

enum status get_slice(struct render *render, const struct value *object,
                      const struct value bounds[3], struct value *out) {
    int64_t step = 1, ends[2];
    size_t length;
    if (object->kind == VALUE_UNDEFINED)
        return value_use_undefined(render, object);
    if (object->kind != VALUE_TEXT && object->kind != VALUE_LIST && object->kind != VALUE_TUPLE &&
        object->kind != VALUE_RANGE)
        return value_fail(render,
                          object->kind == VALUE_DICT ? "unhashable type: 'slice' in '%s'"
                                                     : "'%s' object is not subscriptable",
                          value_type(object));
    for (size_t i = 0; i < 3; i++) {
        int64_t bound;
        if (bounds[i].kind == VALUE_MISSING || bounds[i].kind == VALUE_NONE)
            continue;
        if (bounds[i].kind == VALUE_UNDEFINED)
            return value_use_undefined(render, &bounds[i]);
        if (!number_as_int(&bounds[i], &bound))
            return value_fail(render, "slice indices must be integers or None");
        if (i == 2 && (step = bound) == 0)
            return value_fail(render, "slice step cannot be zero");
    }
    TRY(value_length_or_fail(render, object, &length));
    size_t count = clamp_slice(bounds, (int64_t)length, step, ends);
    if (object->kind == VALUE_RANGE)
        return slice_range(render, object->range, ends, step, out);
    int64_t start = count == 0 ? 0 : ends[0];
    if (count <= 1) /* so that no step overflows */
        step = 1;
    if (object->kind == VALUE_TEXT)
        return slice_text(render, object, start, step, count, out);
    struct value cut;
    TRY(value_items(render, object->list));
    TRY(value_new_list(render, object->kind, count, &cut));
    for (size_t i = 0; i < count; i++)
        cut.list->items[i] = object->list->items[start + (int64_t)i * step];
    *out = cut;
    return SL_OK;
}

/* One part of a path: digits are an index. */
static enum status path_part(struct render *render, const struct value *object, struct str part,
                             struct value *out) {
    uint64_t index;
    struct value key = value_text(part);
    if (str_to_u64(part, &index) && index <= INT64_MAX)
        key = value_int((int64_t)index);
    return get_item(render, object, &key, out);
}

enum status get_path(struct render *render, const struct value *object, const struct value *path,
                     struct value *out) {
    *out = *object;
    if (path->kind == VALUE_MISSING || path->kind == VALUE_NONE)
        return SL_OK;
    if (path->kind != VALUE_TEXT)
        return get_item(render, object, path, out);
    for (size_t from = 0; from <= path->text.len;) {
        size_t dot = text_find(path->text, STR("."), from);
        size_t end = dot == SIZE_MAX ? path->text.len : dot;
        struct value item = *out;
        TRY(path_part(render, &item, str_cut(path->text, from, end), out));
        from = end + 1;
    }
    return SL_OK;
}

/* The n-th name in params; empty when there is none. */
static struct str param_name(const char *params, size_t index) {
    for (;; index--) {
        size_t len = strcspn(params, " ");
        if (index == 0)
            return (struct str){params, len};
        params += len;
        if (*params == '\0')
            return (struct str){params, 0};
        params++;
    }
}

static enum status bind(struct render *render, const struct builtin *builtin, const char *what,
                        const struct arguments *arguments, struct call *call) {
    size_t count = 0;
    while (count < SL_TEMPLATE_ARGS_MAX && param_name(builtin->params, count).len > 0)
        count++;
    if (arguments->count > count)
        return value_fail(render, "%s '%s' takes at most %zu arguments (%zu given)", what,
                          builtin->name, count, arguments->count);
    for (size_t i = 0; i < arguments->count; i++)
        call->args[i] = arguments->items[i];
    for (size_t i = 0; i < arguments->named_count; i++) {
        const struct named_value *named = &arguments->named[i];
        size_t at = 0;
        while (at < count && !str_equal(param_name(builtin->params, at), named->name))
            at++;
        if (at == count)
            return value_fail(render, "%s '%s' has no argument '%.*s'", what, builtin->name,
                              STR_ARG(named->name));
        if (call->args[at].kind != VALUE_MISSING)
            return value_fail(render, "%s '%s' got two values for '%.*s'", what, builtin->name,
                              STR_ARG(named->name));
        call->args[at] = named->value;
    }
    for (size_t i = 0; i < builtin->required; i++)
        if (call->args[i].kind == VALUE_MISSING)
            return value_fail(render, "%s '%s' needs the argument '%.*s'", what, builtin->name,
                              STR_ARG(param_name(builtin->params, i)));
    return SL_OK;
}

enum status get_run(struct render *render, const struct builtin *builtin, const char *what,
                    const struct value *self, const struct arguments *arguments,
                    struct value *out) {
    struct call call = {.self = *self, .raw = arguments};
    if (builtin->run == NULL)
        return value_fail(render, "the %s '%s' is not supported", what, builtin->name);
    if (builtin->params[0] != '*')
        TRY(bind(render, builtin, what, arguments, &call));
    TRY(value_charge(render, 1));
    return builtin->run(render, &call, out);
}

static enum status call_joiner(struct joiner *joiner, struct value *out) {
    *out = joiner->is_used ? joiner->separator : value_words("");
    joiner->is_used = true;
    return SL_OK;
}

enum status get_call(struct render *render, const struct value *callee,
                     const struct arguments *arguments, struct value *out) {
    static const struct value nothing = {.kind = VALUE_MISSING};
    switch (callee->kind) {
    case VALUE_UNDEFINED:
        return value_use_undefined(render, callee);
    case VALUE_MACRO:
        return exec_macro(render, callee->macro, arguments, out);
    case VALUE_METHOD:
        return get_run(render, callee->method->builtin, "method", &callee->method->self, arguments,
                       out);
    case VALUE_FUNCTION:
        return get_run(render, callee->function, "function", &nothing, arguments, out);
    case VALUE_JOINER:
        return call_joiner(callee->joiner, out);
    case VALUE_LOOP:
        return exec_loop_again(render, callee->loop, arguments, out);
    default:
        return value_fail(render, "'%s' object is not callable", value_type(callee));
    }
}
