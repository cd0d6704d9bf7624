/* Filters on lists, dicts and whatever can be iterated. Those that Jinja writes as generators give
 * streams, which print and serialise as little as generators do. Sorting is stable (merge sort). */
#include "text/template_tree.h"

#include <string.h>

/* make_attrgetter with ignore_case: the value to compare an item by. */
static enum status sort_key(struct render *render, const struct value *item,
                            const struct value *path, bool is_case_sensitive, struct value *out) {
    TRY(get_path(render, item, path, out));
    if (!is_case_sensitive && out->kind == VALUE_TEXT)
        return text_case(render, out->text, CASE_LOWER, out);
    return SL_OK;
}

/* The keys of an item for sort: a list, one for each attribute of "a,b.c". Lists compare by
 * equality first, so that items without the attribute stay in their order. */
static enum status multi_key(struct render *render, const struct value *item,
                             const struct value *path, bool is_case_sensitive, struct value *out) {
    struct value parts;
    if (path->kind == VALUE_TEXT) {
        TRY(text_split(render, path->text, STR(","), -1, false, &parts));
    } else {
        TRY(value_new_list(render, VALUE_LIST, 1, &parts));
        parts.list->items[0] = *path;
    }
    for (size_t i = 0; i < parts.list->count; i++) {
        struct value part = parts.list->items[i];
        TRY(sort_key(render, item, &part, is_case_sensitive, &parts.list->items[i]));
    }
    *out = parts;
    return SL_OK;
}

/* The order of count items by their keys, as indexes. */
static enum status sorted_order(struct render *render, const struct value *keys, size_t count,
                                bool is_reversed, size_t **out) {
    void *memory;
    TRY(value_take(render, count * 2 * sizeof(size_t), &memory));
    size_t *from = memory, *to = from + count;
    for (size_t i = 0; i < count; i++)
        from[i] = i;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = middle + width < count ? middle + width : count;
            for (size_t a = start, b = middle, at = start; at < end; at++) {
                int order = 0;
                if (a < middle && b < end)
                    TRY(value_order(render, &keys[from[b]], &keys[from[a]], "<", &order));
                bool takes_right =
                    a == middle || (b < end && (is_reversed ? order == 1 : order == -1));
                to[at] = takes_right ? from[b++] : from[a++];
            }
        }
        size_t *swap = from;
        from = to;
        to = swap;
    }
    *out = from;
    return SL_OK;
}

static enum status filter_sort(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    bool is_reversed, is_case_sensitive;
    struct value keys, sorted;
    size_t *order;
    TRY(value_truth(render, &call->args[0], &is_reversed));
    TRY(value_truth(render, &call->args[1], &is_case_sensitive));
    TRY(value_iterate(render, &call->self, &list));
    TRY(value_new_list(render, VALUE_LIST, list.count, &keys));
    for (size_t i = 0; i < list.count; i++)
        TRY(multi_key(render, &list.items[i], &call->args[2], is_case_sensitive,
                      &keys.list->items[i]));
    TRY(sorted_order(render, keys.list->items, list.count, is_reversed, &order));
    TRY(value_new_list(render, VALUE_LIST, list.count, &sorted));
    for (size_t i = 0; i < list.count; i++)
        sorted.list->items[i] = list.items[order[i]];
    *out = sorted;
    return SL_OK;
}

static enum status filter_dictsort(struct render *render, const struct call *call,
                                   struct value *out) {
    struct value view = {.kind = VALUE_VIEW}, keys, sorted;
    struct str by = STR("key");
    bool is_case_sensitive, is_reversed;
    struct list list;
    size_t *order;
    TRY(value_truth(render, &call->args[0], &is_case_sensitive));
    if (call->args[1].kind != VALUE_MISSING)
        TRY(text_need(render, &call->args[1], "dictsort's by", &by));
    TRY(value_truth(render, &call->args[2], &is_reversed));
    struct value column = value_int(str_is(by, "key") ? 0 : 1);
    if (column.integer == 1 && !str_is(by, "value"))
        return value_fail(render, "You can only sort by either \"key\" or \"value\"");
    if (call->self.kind == VALUE_UNDEFINED)
        return value_use_undefined(render, &call->self);
    if (call->self.kind != VALUE_DICT)
        return value_fail(render, "'%s' has no attribute 'items'", value_owner(&call->self));
    struct view items = {call->self.dict, VIEW_ITEMS};
    view.view = &items;
    TRY(value_iterate(render, &view, &list));
    TRY(value_new_list(render, VALUE_LIST, list.count, &keys));
    for (size_t i = 0; i < list.count; i++)
        TRY(sort_key(render, &list.items[i], &column, is_case_sensitive, &keys.list->items[i]));
    TRY(sorted_order(render, keys.list->items, list.count, is_reversed, &order));
    TRY(value_new_list(render, VALUE_LIST, list.count, &sorted));
    for (size_t i = 0; i < list.count; i++)
        sorted.list->items[i] = list.items[order[i]];
    *out = sorted;
    return SL_OK;
}

static enum status filter_unique(struct render *render, const struct call *call,
                                 struct value *out) {
    struct list list;
    bool is_case_sensitive;
    struct value seen, kept, key, none = value_none();
    size_t count = 0;
    TRY(value_truth(render, &call->args[0], &is_case_sensitive));
    TRY(value_iterate(render, &call->self, &list));
    TRY(dict_new(render, VALUE_DICT, &seen));
    TRY(value_new_list(render, VALUE_LIST, list.count, &kept));
    for (size_t i = 0; i < list.count; i++) {
        struct entry *entry;
        TRY(sort_key(render, &list.items[i], &call->args[1], is_case_sensitive, &key));
        TRY(dict_find(render, seen.dict, &key, &entry));
        if (entry != NULL)
            continue;
        TRY(dict_put(render, seen.dict, &key, &none));
        kept.list->items[count++] = list.items[i];
    }
    kept.list->count = count;
    return value_new_stream(render, &kept, "generator", out);
}

static enum status extreme(struct render *render, const struct call *call, int wanted,
                           struct value *out) {
    struct list list;
    bool is_case_sensitive;
    struct value best, key;
    TRY(value_truth(render, &call->args[0], &is_case_sensitive));
    TRY(value_iterate(render, &call->self, &list));
    if (list.count == 0)
        return value_hint(render, "No aggregated item, sequence was empty.", out);
    *out = list.items[0];
    TRY(sort_key(render, out, &call->args[1], is_case_sensitive, &best));
    for (size_t i = 1; i < list.count; i++) {
        int order;
        TRY(sort_key(render, &list.items[i], &call->args[1], is_case_sensitive, &key));
        TRY(value_order(render, &key, &best, wanted < 0 ? "<" : ">", &order));
        if (order == wanted) {
            best = key;
            *out = list.items[i];
        }
    }
    return SL_OK;
}

static enum status filter_min(struct render *render, const struct call *call, struct value *out) {
    return extreme(render, call, -1, out);
}

static enum status filter_max(struct render *render, const struct call *call, struct value *out) {
    return extreme(render, call, 1, out);
}

static enum status filter_sum(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    struct value item, sum = call->args[1].kind == VALUE_MISSING ? value_int(0) : call->args[1];
    TRY(value_iterate(render, &call->self, &list));
    if (sum.kind == VALUE_TEXT)
        return value_fail(render, "sum() can't sum strings");
    for (size_t i = 0; i < list.count; i++) {
        TRY(get_path(render, &list.items[i], &call->args[0], &item));
        TRY(number_binary(render, OP_ADD, &sum, &item, &sum));
    }
    *out = sum;
    return SL_OK;
}

static enum status filter_join(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    struct str separator = STR("");
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    TRY(value_iterate(render, &call->self, &list));
    if (call->args[0].kind != VALUE_MISSING)
        TRY(repr_str(render, &call->args[0], &separator));
    for (size_t i = 0; i < list.count; i++) {
        struct value item;
        TRY(get_path(render, &list.items[i], &call->args[1], &item));
        if (i > 0)
            buf_add(buf, separator);
        TRY(repr_add_str(render, buf, &item));
        TRY(value_charge(render, separator.len / 64 + 1));
        if (buf->len - mark > SL_TEMPLATE_OUTPUT_MAX)
            return value_fail(render, "a text made by join is too long");
    }
    return text_from_scratch(render, mark, out);
}

static enum status filter_length(struct render *render, const struct call *call,
                                 struct value *out) {
    size_t length;
    TRY(value_length_or_fail(render, &call->self, &length));
    *out = value_int((int64_t)length);
    return SL_OK;
}

static enum status filter_first(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    TRY(value_iterate(render, &call->self, &list));
    if (list.count == 0)
        return value_hint(render, "No first item, sequence was empty.", out);
    if (call->self.kind == VALUE_STREAM)
        call->self.stream->at = call->self.stream->list->count - list.count + 1;
    *out = list.items[0];
    return SL_OK;
}

static enum status need_reversible(struct render *render, const struct value *value) {
    if (value->kind == VALUE_STREAM)
        return value_fail(render, "'%s' object is not reversible", value_type(value));
    return SL_OK;
}

static enum status filter_last(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    TRY(need_reversible(render, &call->self));
    TRY(value_iterate(render, &call->self, &list));
    if (list.count == 0)
        return value_hint(render, "No last item, sequence was empty.", out);
    *out = list.items[list.count - 1];
    return SL_OK;
}

static enum status filter_list(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    struct value copy;
    TRY(value_iterate(render, &call->self, &list));
    TRY(value_new_list(render, VALUE_LIST, list.count, &copy));
    for (size_t i = 0; i < list.count; i++)
        copy.list->items[i] = list.items[i];
    *out = copy;
    return SL_OK;
}

static enum status filter_reverse(struct render *render, const struct call *call,
                                  struct value *out) {
    struct list list;
    struct value reversed;
    if (call->self.kind == VALUE_TEXT) {
        TRY(text_reverse(render, call->self.text, out));
        out->is_markup = call->self.is_markup;
        return SL_OK;
    }
    if (!value_is_iterable(&call->self))
        return value_fail(render, "argument must be iterable");
    TRY(value_iterate(render, &call->self, &list));
    TRY(value_new_list(render, VALUE_LIST, list.count, &reversed));
    for (size_t i = 0; i < list.count; i++)
        reversed.list->items[i] = list.items[list.count - 1 - i];
    if (call->self.kind == VALUE_STREAM) {
        *out = reversed;
        return SL_OK;
    }
    return value_new_stream(render, &reversed, "list_reverseiterator", out);
}

static enum status filter_items(struct render *render, const struct call *call, struct value *out) {
    struct value pairs = {.kind = VALUE_LIST};
    TRY(value_new_list(render, VALUE_LIST, 0, &pairs));
    if (call->self.kind == VALUE_DICT) {
        struct view items = {call->self.dict, VIEW_ITEMS};
        struct value view = {.kind = VALUE_VIEW};
        view.view = &items;
        TRY(value_iterate(render, &view, pairs.list));
    } else if (call->self.kind != VALUE_UNDEFINED) {
        return value_fail(render, "Can only get item pairs from a mapping.");
    }
    return value_new_stream(render, &pairs, "generator", out);
}

/* The arguments from `skip` on, for a filter or test called by name. */
static struct arguments rest_of(const struct call *call, size_t skip) {
    struct arguments rest = *call->raw;
    if (skip > 0) {
        rest.items += skip;
        rest.count -= skip;
    }
    return rest;
}

static bool find_named(const struct arguments *arguments, const char *name, struct value *out) {
    for (size_t i = 0; i < arguments->named_count; i++) {
        if (str_is(arguments->named[i].name, name)) {
            *out = arguments->named[i].value;
            return true;
        }
    }
    return false;
}

/* Items' attribute at `path`; what is undefined becomes initial unless that is missing. */
static enum status map_attribute(struct render *render, const struct list *list,
                                 const struct call *call, const struct value *path,
                                 struct value *mapped) {
    struct value initial = {.kind = VALUE_MISSING};
    bool has_default = find_named(call->raw, "default", &initial) && initial.kind != VALUE_NONE;
    for (size_t i = 0; i < call->raw->named_count; i++) {
        struct str name = call->raw->named[i].name;
        if (!str_is(name, "attribute") && !str_is(name, "default"))
            return value_fail(render, "Unexpected keyword argument '%.*s'", STR_ARG(name));
    }
    for (size_t i = 0; i < list->count; i++) {
        struct value *item = &mapped->list->items[i];
        TRY(get_path(render, &list->items[i], path, item));
        if (has_default && item->kind == VALUE_UNDEFINED)
            *item = initial;
    }
    return SL_OK;
}

static enum status filter_map(struct render *render, const struct call *call, struct value *out) {
    struct list list = {.count = 0};
    struct value mapped, path;
    bool truth;
    TRY(value_truth(render, &call->self, &truth));
    if (truth)
        TRY(value_iterate(render, &call->self, &list));
    TRY(value_new_list(render, VALUE_LIST, list.count, &mapped));
    if (call->raw->count == 0 && find_named(call->raw, "attribute", &path)) {
        TRY(map_attribute(render, &list, call, &path, &mapped));
        return value_new_stream(render, &mapped, "generator", out);
    }
    if (call->raw->count == 0)
        return value_fail(render, "map requires a filter argument");
    struct arguments rest = rest_of(call, 1);
    struct str name;
    TRY(text_need(render, &call->raw->items[0], "the filter's name", &name));
    for (size_t i = 0; i < list.count; i++)
        TRY(eval_filter_named(render, name, &list.items[i], &rest, &mapped.list->items[i]));
    return value_new_stream(render, &mapped, "generator", out);
}

/* select, reject and their attr forms. */
static enum status choose(struct render *render, const struct call *call, bool has_attribute,
                          bool wanted, struct value *out) {
    struct list list = {.count = 0};
    struct value kept;
    struct str name = {NULL, 0};
    size_t skip = has_attribute ? 1 : 0, count = 0;
    bool truth;
    if (call->raw->count < skip)
        return value_fail(render, "Missing parameter for attribute name");
    bool has_test = call->raw->count > skip;
    if (has_test)
        TRY(text_need(render, &call->raw->items[skip], "the test's name", &name));
    struct arguments rest = rest_of(call, skip + has_test);
    TRY(value_truth(render, &call->self, &truth));
    if (truth)
        TRY(value_iterate(render, &call->self, &list));
    TRY(value_new_list(render, VALUE_LIST, list.count, &kept));
    for (size_t i = 0; i < list.count; i++) {
        struct value item = list.items[i];
        if (has_attribute)
            TRY(get_path(render, &list.items[i], &call->raw->items[0], &item));
        TRY(has_test ? eval_test_named(render, name, &item, &rest, &truth)
                     : value_truth(render, &item, &truth));
        if (truth == wanted)
            kept.list->items[count++] = list.items[i];
    }
    kept.list->count = count;
    return value_new_stream(render, &kept, "generator", out);
}

static enum status filter_select(struct render *render, const struct call *call,
                                 struct value *out) {
    return choose(render, call, false, true, out);
}

static enum status filter_reject(struct render *render, const struct call *call,
                                 struct value *out) {
    return choose(render, call, false, false, out);
}

static enum status filter_selectattr(struct render *render, const struct call *call,
                                     struct value *out) {
    return choose(render, call, true, true, out);
}

static enum status filter_rejectattr(struct render *render, const struct call *call,
                                     struct value *out) {
    return choose(render, call, true, false, out);
}

static enum status filter_batch(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    struct value rows;
    int64_t size;
    const struct value *fill = &call->args[1];
    TRY(number_need_int(render, &call->args[0], "batch's size", &size));
    TRY(value_iterate(render, &call->self, &list));
    if (size <= 0 && list.count > 0)
        return value_fail(render, "batch's size must be at least 1");
    size_t width = size > 0 ? (size_t)size : 1;
    size_t count = list.count == 0 ? 0 : (list.count - 1) / width + 1;
    TRY(value_new_list(render, VALUE_LIST, count, &rows));
    for (size_t i = 0; i < count; i++) {
        size_t left = list.count - i * width, len = left < width ? left : width;
        bool fills = fill->kind != VALUE_MISSING && fill->kind != VALUE_NONE;
        TRY(value_new_list(render, VALUE_LIST, fills ? width : len, &rows.list->items[i]));
        struct value *row = rows.list->items[i].list->items;
        for (size_t j = 0; j < (fills ? width : len); j++)
            row[j] = j < len ? list.items[i * width + j] : *fill;
    }
    return value_new_stream(render, &rows, "generator", out);
}

static enum status filter_slice(struct render *render, const struct call *call, struct value *out) {
    struct list list;
    struct value columns;
    int64_t slices;
    const struct value *fill = &call->args[1];
    bool fills = fill->kind != VALUE_MISSING && fill->kind != VALUE_NONE;
    TRY(number_need_int(render, &call->args[0], "slice's count", &slices));
    TRY(value_iterate(render, &call->self, &list));
    if (slices == 0)
        return value_fail(render, "integer division or modulo by zero");
    size_t count = slices > 0 ? (size_t)slices : 0, at = 0;
    TRY(value_charge(render, count));
    TRY(value_new_list(render, VALUE_LIST, count, &columns));
    for (size_t i = 0; i < count; i++) {
        size_t extra = i < list.count % count, len = list.count / count + extra;
        size_t filled = len + (fills && !extra);
        TRY(value_new_list(render, VALUE_LIST, filled, &columns.list->items[i]));
        struct value *column = columns.list->items[i].list->items;
        for (size_t j = 0; j < filled; j++)
            column[j] = j < len ? list.items[at + j] : *fill;
        at += len;
    }
    return value_new_stream(render, &columns, "generator", out);
}

/* The key of an item for groupby: its attribute, or the default. */
static enum status group_key(struct render *render, const struct call *call,
                             const struct value *item, bool is_case_sensitive, struct value *out) {
    TRY(get_path(render, item, &call->args[0], out));
    if (out->kind == VALUE_UNDEFINED && call->args[1].kind != VALUE_MISSING &&
        call->args[1].kind != VALUE_NONE)
        *out = call->args[1];
    if (!is_case_sensitive && out->kind == VALUE_TEXT)
        return text_case(render, out->text, CASE_LOWER, out);
    return SL_OK;
}

static enum status filter_groupby(struct render *render, const struct call *call,
                                  struct value *out) {
    struct list list;
    bool is_case_sensitive, is_same;
    struct value keys, groups;
    size_t *order, count = 0;
    TRY(value_truth(render, &call->args[2], &is_case_sensitive));
    TRY(value_iterate(render, &call->self, &list));
    TRY(value_new_list(render, VALUE_LIST, list.count, &keys));
    TRY(value_new_list(render, VALUE_LIST, list.count, &groups));
    const struct value *items = keys.list->items;
    for (size_t i = 0; i < list.count; i++)
        TRY(group_key(render, call, &list.items[i], is_case_sensitive, &keys.list->items[i]));
    TRY(sorted_order(render, items, list.count, false, &order));
    for (size_t i = 0, end; i < list.count; i = end) {
        for (end = i + 1; end < list.count; end++) {
            TRY(value_equal(render, &items[order[i]], &items[order[end]], &is_same));
            if (!is_same)
                break;
        }
        struct value pair, members;
        TRY(value_new_list(render, VALUE_TUPLE, 2, &pair));
        TRY(value_new_list(render, VALUE_LIST, end - i, &members));
        for (size_t j = i; j < end; j++)
            members.list->items[j - i] = list.items[order[j]];
        TRY(group_key(render, call, &members.list->items[0], true, &pair.list->items[0]));
        pair.list->items[1] = members;
        pair.list->is_group = true;
        groups.list->items[count++] = pair;
    }
    groups.list->count = count;
    *out = groups;
    return SL_OK;
}

const struct builtin filter_list_table[] = {
    {"sort", filter_sort, "reverse case_sensitive attribute", 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0},
    {"unique", filter_unique, "case_sensitive attribute", 0},
    {"min", filter_min, "case_sensitive attribute", 0},
    {"max", filter_max, "case_sensitive attribute", 0},
    {"sum", filter_sum, "attribute start", 0},
    {"join", filter_join, "d attribute", 0},
    {"length", filter_length, "", 0},
    {"count", filter_length, "", 0},
    {"first", filter_first, "", 0},
    {"last", filter_last, "", 0},
    {"list", filter_list, "", 0},
    {"reverse", filter_reverse, "", 0},
    {"items", filter_items, "", 0},
    {"map", filter_map, "*", 0},
    {"select", filter_select, "*", 0},
    {"reject", filter_reject, "*", 0},
    {"selectattr", filter_selectattr, "*", 0},
    {"rejectattr", filter_rejectattr, "*", 0},
    {"batch", filter_batch, "linecount fill_with", 1},
    {"slice", filter_slice, "slices fill_with", 1},
    {"groupby", filter_groupby, "attribute default case_sensitive", 1},
    {NULL, NULL, NULL, 0},
};
