/* Evaluates expressions. Recursion follows the tree, whose evaluation may be at most
 * SL_TEMPLATE_FRAMES_MAX calls deep; every node counts as a step. */
#include "text/template_tree.h"

#include <string.h>

enum status eval_enter(struct render *render, uint32_t line) {
    render->line = line;
    if (++render->frames > SL_TEMPLATE_FRAMES_MAX)
        return value_fail(render, "the template is evaluated more than %u levels deep",
                          SL_TEMPLATE_FRAMES_MAX);
    return value_charge(render, 1);
}

void eval_leave(struct render *render) {
    render->frames--;
}

static enum status eval_list(struct render *render, const struct node *node, struct value *out) {
    struct value list;
    TRY(value_new_list(render, node->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE, node->list.count,
                       &list));
    const struct node *item = node->list.first;
    for (size_t i = 0; i < node->list.count; i++, item = item->next)
        TRY(eval(render, item, &list.list->items[i]));
    *out = list;
    return SL_OK;
}

static enum status eval_dict(struct render *render, const struct node *node, struct value *out) {
    struct value dict, key, value;
    TRY(dict_new(render, VALUE_DICT, &dict));
    for (const struct node *item = node->list.first; item != NULL; item = item->next->next) {
        TRY(eval(render, item, &key));
        TRY(eval(render, item->next, &value));
        TRY(dict_put(render, dict.dict, &key, &value));
    }
    *out = dict;
    return SL_OK;
}

static enum status eval_concat(struct render *render, const struct node *node, struct value *out) {
    struct value sum = value_words(""), item;
    for (const struct node *part = node->list.first; part != NULL; part = part->next) {
        struct str text;
        TRY(eval(render, part, &item));
        TRY(repr_str(render, &item, &text));
        if (part == node->list.first) {
            sum = item.kind == VALUE_TEXT ? item : value_text(text);
            sum.is_markup = false;
        } else {
            TRY(text_concat(render, &sum, text, &sum));
        }
    }
    *out = sum;
    return SL_OK;
}

static enum status eval_binary(struct render *render, const struct node *node, struct value *out) {
    struct value left, right;
    TRY(eval(render, node->binary.left, &left));
    TRY(eval(render, node->binary.right, &right));
    render->line = node->line;
    return number_binary(render, (int)node->binary.op, &left, &right, out);
}

/* and, or: the value that decides. */
static enum status eval_logic(struct render *render, const struct node *node, struct value *out) {
    bool truth;
    TRY(eval(render, node->binary.left, out));
    TRY(value_truth(render, out, &truth));
    return truth == (node->kind == NODE_AND) ? eval(render, node->binary.right, out) : SL_OK;
}

static enum status compare(struct render *render, enum operator op, const struct value *a,
                           const struct value *b, bool *out) {
    static const char *const signs[] = {
        [OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">", [OP_GE] = ">="};
    int order;
    switch (op) {
    case OP_EQ:
    case OP_NE:
        TRY(value_equal(render, a, b, out));
        *out = *out == (op == OP_EQ);
        return SL_OK;
    case OP_IN:
    case OP_NOT_IN:
        TRY(value_contains(render, b, a, out));
        *out = *out == (op == OP_IN);
        return SL_OK;
    default:
        TRY(value_order(render, a, b, signs[op], &order));
        *out = order != 2 && (op == OP_LT   ? order < 0
                              : op == OP_LE ? order <= 0
                              : op == OP_GT ? order > 0
                                            : order >= 0);
        return SL_OK;
    }
}

static enum status eval_compare(struct render *render, const struct node *node, struct value *out) {
    struct value left, right;
    bool holds = true;
    TRY(eval(render, node->binary.left, &left));
    for (const struct node *operand = node->binary.right; operand != NULL && holds;
         operand = operand->next) {
        TRY(eval(render, operand->binary.right, &right));
        render->line = operand->line;
        TRY(compare(render, operand->binary.op, &left, &right, &holds));
        left = right;
    }
    *out = value_bool(holds);
    return SL_OK;
}

static enum status eval_choice(struct render *render, const struct node *node, struct value *out) {
    bool truth;
    TRY(eval(render, node->choice.test, out));
    TRY(value_truth(render, out, &truth));
    if (truth)
        return eval(render, node->choice.yes, out);
    if (node->choice.no != NULL)
        return eval(render, node->choice.no, out);
    return value_hint(
        render, "the inline if-expression evaluated to false and no else section was defined", out);
}

static enum status eval_slice(struct render *render, const struct node *node, struct value *out) {
    struct value object, bounds[3];
    TRY(eval(render, node->slice.object, &object));
    for (size_t i = 0; i < 3; i++) {
        bounds[i] = (struct value){.kind = VALUE_MISSING};
        if (node->slice.bounds[i] != NULL)
            TRY(eval(render, node->slice.bounds[i], &bounds[i]));
    }
    render->line = node->line;
    return get_slice(render, &object, bounds, out);
}

/* *star and **star_star after the plain arguments. */
static enum status spread(struct render *render, const struct node_args *node,
                          struct arguments *arguments) {
    struct value value;
    struct list list;
    void *memory;
    if (node->star != NULL) {
        TRY(eval(render, node->star, &value));
        TRY(value_iterate(render, &value, &list));
        TRY(value_take(render, (arguments->count + list.count) * sizeof(struct value), &memory));
        struct value *items = memory;
        if (arguments->count > 0)
            memcpy(items, arguments->items, arguments->count * sizeof *items);
        if (list.count > 0)
            memcpy(items + arguments->count, list.items, list.count * sizeof *items);
        arguments->items = items;
        arguments->count += list.count;
    }
    if (node->star_star == NULL)
        return SL_OK;
    TRY(eval(render, node->star_star, &value));
    if (value.kind != VALUE_DICT)
        return value_fail(render, "argument after ** must be a mapping, not %s",
                          value_type(&value));
    TRY(dict_entries(render, value.dict));
    size_t count = value.dict->count;
    TRY(value_take(render, (arguments->named_count + count + 1) * sizeof(struct named_value),
                   &memory));
    struct named_value *named = memory;
    if (arguments->named_count > 0)
        memcpy(named, arguments->named, arguments->named_count * sizeof *named);
    for (size_t i = 0; i < count; i++) {
        struct named_value *next = &named[arguments->named_count++];
        next->value = value.dict->entries[i].value;
        TRY(text_need(render, &value.dict->entries[i].key, "a keyword", &next->name));
    }
    arguments->named = named;
    return SL_OK;
}

enum status eval_args(struct render *render, const struct node_args *node,
                      struct arguments *arguments, size_t spare_named) {
    void *memory;
    size_t count = node == NULL ? 0 : node->count;
    size_t named_count = node == NULL ? 0 : node->named_count;
    *arguments = (struct arguments){.count = count, .named_count = named_count};
    if (count > 0) {
        TRY(value_take(render, count * sizeof(struct value), &memory));
        arguments->items = memory;
    }
    if (named_count + spare_named > 0) {
        TRY(value_take(render, (named_count + spare_named) * sizeof(struct named_value), &memory));
        arguments->named = memory;
    }
    if (node == NULL)
        return SL_OK;
    const struct node *item = node->items;
    for (size_t i = 0; i < count; i++, item = item->next)
        TRY(eval(render, item, &arguments->items[i]));
    item = node->named;
    for (size_t i = 0; i < named_count; i++, item = item->next) {
        arguments->named[i].name = item->named.name;
        TRY(eval(render, item->named.value, &arguments->named[i].value));
    }
    return spread(render, node, arguments);
}

static enum status eval_call(struct render *render, const struct node *node, struct value *out) {
    struct value callee;
    struct arguments arguments;
    TRY(eval(render, node->call.target, &callee));
    TRY(eval_args(render, node->call.args, &arguments, 0));
    render->line = node->line;
    return get_call(render, &callee, &arguments, out);
}

static enum status unknown(struct render *render, const char *what, struct str name) {
    return value_fail(render, "there is no %s named '%.*s'", what, STR_ARG(name));
}

static enum status eval_filter(struct render *render, const struct node *node, struct value *out) {
    struct value input = render->block;
    struct arguments arguments;
    if (node->call.builtin == NULL)
        return unknown(render, "filter", node->call.name);
    if (node->call.target != NULL)
        TRY(eval(render, node->call.target, &input));
    TRY(eval_args(render, node->call.args, &arguments, 0));
    render->line = node->line;
    return get_run(render, node->call.builtin, "filter", &input, &arguments, out);
}

static enum status eval_test(struct render *render, const struct node *node, struct value *out) {
    struct value input;
    struct arguments arguments;
    if (node->call.builtin == NULL)
        return unknown(render, "test", node->call.name);
    TRY(eval(render, node->call.target, &input));
    TRY(eval_args(render, node->call.args, &arguments, 0));
    render->line = node->line;
    TRY(get_run(render, node->call.builtin, "test", &input, &arguments, out));
    if (node->call.is_negated)
        *out = value_bool(!out->boolean);
    return SL_OK;
}

enum status eval_filter_named(struct render *render, struct str name, const struct value *input,
                              const struct arguments *arguments, struct value *out) {
    const struct builtin *builtin = filter_find(name);
    if (builtin == NULL)
        return unknown(render, "filter", name);
    return get_run(render, builtin, "filter", input, arguments, out);
}

enum status eval_test_named(struct render *render, struct str name, const struct value *input,
                            const struct arguments *arguments, bool *out) {
    const struct builtin *builtin = check_find(name);
    struct value result;
    if (builtin == NULL)
        return unknown(render, "test", name);
    TRY(get_run(render, builtin, "test", input, arguments, &result));
    *out = result.boolean;
    return SL_OK;
}

static enum status eval_unary(struct render *render, const struct node *node, struct value *out) {
    struct value value;
    bool truth;
    TRY(eval(render, node->operand, &value));
    if (node->kind != NODE_NOT)
        return number_negate(render, &value, node->kind == NODE_NEGATE, out);
    TRY(value_truth(render, &value, &truth));
    *out = value_bool(!truth);
    return SL_OK;
}

static enum status eval_access(struct render *render, const struct node *node, struct value *out) {
    struct value object, index;
    if (node->kind == NODE_ATTRIBUTE) {
        TRY(eval(render, node->attribute.object, &object));
        render->line = node->line;
        return get_attribute(render, &object, node->attribute.name, out);
    }
    TRY(eval(render, node->item.object, &object));
    TRY(eval(render, node->item.index, &index));
    render->line = node->line;
    return get_item(render, &object, &index, out);
}

static enum status eval_node(struct render *render, const struct node *node, struct value *out) {
    switch (node->kind) {
    case NODE_CONST:
        *out = node->constant;
        return SL_OK;
    case NODE_NAME:
        return exec_lookup(render, node, out);
    case NODE_LIST:
    case NODE_TUPLE:
        return eval_list(render, node, out);
    case NODE_DICT:
        return eval_dict(render, node, out);
    case NODE_CONCAT:
        return eval_concat(render, node, out);
    case NODE_NEGATE:
    case NODE_PLUS:
    case NODE_NOT:
        return eval_unary(render, node, out);
    case NODE_BINARY:
        return eval_binary(render, node, out);
    case NODE_AND:
    case NODE_OR:
        return eval_logic(render, node, out);
    case NODE_COMPARE:
        return eval_compare(render, node, out);
    case NODE_CHOICE:
        return eval_choice(render, node, out);
    case NODE_ATTRIBUTE:
    case NODE_ITEM:
        return eval_access(render, node, out);
    case NODE_SLICE:
        return eval_slice(render, node, out);
    case NODE_CALL:
        return eval_call(render, node, out);
    case NODE_FILTER:
        return eval_filter(render, node, out);
    case NODE_TEST:
        return eval_test(render, node, out);
    default:
        must_fail("an expression", __FILE__, __LINE__);
    }
}

enum status eval(struct render *render, const struct node *node, struct value *out) {
    struct value value;
    TRY(eval_enter(render, node->line));
    TRY(eval_node(render, node, &value));
    eval_leave(render);
    *out = value;
    return SL_OK;
}
