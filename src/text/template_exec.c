/* Runs statements: scopes, loops, macros, output.
 *
 * Scopes are Jinja's: `if` has none of its own; each pass of a loop, a macro's body, `with`, and
 * the bodies of set, filter, call and generation blocks have one, and what they set ends with it. A
 * macro sees the names around its definition, as they are when it runs. Text that a block captures
 * is written after the output so far and taken off again. */
#include "text/template_tree.h"

#include <string.h>

static struct value *find_binding(struct scope *scope, uint32_t symbol) {
    for (uint32_t i = 0; i < scope->count; i++)
        if (scope->items[i].symbol == symbol)
            return &scope->items[i].value;
    return NULL;
}

/* A variable of the input or a global, for the root scope; VALUE_UNDEFINED when there is none. */
static enum status resolve(struct render *render, uint32_t symbol, struct value *out) {
    struct str name = render->template->symbol_names[symbol];
    const struct template_input *input = render->input;
    TRY(value_charge(render, input->count / 16));
    for (size_t i = input->count; i-- > 0;)
        if (str_equal(input->variables[i].name, name))
            return value_from_json(render, input->variables[i].value, out);
    const struct builtin *builtin = global_find(name);
    if (builtin != NULL) {
        *out = (struct value){.kind = VALUE_FUNCTION, .function = builtin};
        return SL_OK;
    }
    struct value text = value_text(name);
    return value_undefined(render, NULL, &text, out);
}

static enum status lookup(struct render *render, uint32_t symbol, struct value *out) {
    for (struct scope *scope = render->scope; scope->parent != NULL; scope = scope->parent) {
        struct value *value = find_binding(scope, symbol);
        TRY(value_charge(render, scope->count / 16));
        if (value != NULL) {
            *out = *value;
            return SL_OK;
        }
    }
    struct value *value = &render->root[symbol];
    if (value->kind == VALUE_MISSING)
        TRY(resolve(render, symbol, value));
    *out = *value;
    return SL_OK;
}

enum status exec_lookup(struct render *render, const struct node *name, struct value *out) {
    return lookup(render, name->name.symbol, out);
}

static enum status bind(struct render *render, uint32_t symbol, const struct value *value) {
    struct scope *scope = render->scope;
    if (scope->parent == NULL) {
        render->root[symbol] = *value;
        return SL_OK;
    }
    struct value *old = find_binding(scope, symbol);
    TRY(value_charge(render, scope->count / 16));
    if (old != NULL) {
        *old = *value;
        return SL_OK;
    }
    if (scope->count == scope->cap) {
        void *memory;
        uint32_t cap = scope->cap == 0 ? 4 : scope->cap * 2;
        TRY(value_take(render, cap * sizeof(struct binding), &memory));
        if (scope->count > 0)
            memcpy(memory, scope->items, scope->count * sizeof(struct binding));
        scope->items = memory;
        scope->cap = cap;
    }
    scope->items[scope->count++] = (struct binding){symbol, *value};
    return SL_OK;
}

static enum status push_scope(struct render *render, struct scope *parent) {
    struct scope *scope = render->spare;
    if (scope != NULL) {
        render->spare = scope->parent;
    } else {
        void *memory;
        TRY(value_take(render, sizeof *scope, &memory));
        scope = memory;
    }
    scope->parent = parent;
    scope->count = 0;
    render->scope = scope;
    return SL_OK;
}

/* Back to `outer`; a scope that no macro holds is kept for the next block. */
static void pop_scope(struct render *render, struct scope *outer) {
    struct scope *scope = render->scope;
    render->scope = outer;
    if (scope->is_captured)
        return;
    scope->parent = render->spare;
    render->spare = scope;
}

static enum status check_output(struct render *render) {
    if (render->out->len - render->out_start > SL_TEMPLATE_OUTPUT_MAX)
        return value_fail(render, "the text has more than %zu bytes", SL_TEMPLATE_OUTPUT_MAX);
    return buf_status(render->out, "a prompt's text", render->err);
}

/* Takes off what was written since `mark`, as a text. */
static enum status take_output(struct render *render, size_t mark, struct value *out) {
    TRY(check_output(render));
    struct str text = str_cut(buf_str(render->out), mark, render->out->len);
    TRY(text_copy(render, text, out));
    render->out->len = mark;
    return SL_OK;
}

static enum status enter_call(struct render *render) {
    if (++render->macros > SL_TEMPLATE_DEPTH_MAX)
        return value_fail(render, "macros call one another more than %u levels deep",
                          SL_TEMPLATE_DEPTH_MAX);
    return SL_OK;
}

static enum status assign(struct render *render, const struct node *target,
                          const struct value *value) {
    if (target->kind == NODE_NAME)
        return bind(render, target->name.symbol, value);
    if (target->kind == NODE_SPACE_NAME) {
        struct value space;
        TRY(lookup(render, target->name.symbol, &space));
        if (space.kind != VALUE_SPACE)
            return value_fail(render, "cannot assign attribute on non-namespace object");
        if (target->name.name.data[0] == '_')
            return value_fail(render, "a namespace cannot hold '%.*s': it begins with '_'",
                              STR_ARG(target->name.name));
        return dict_put_str(render, space.dict, target->name.name, value);
    }
    struct list list;
    if (value->kind != VALUE_UNDEFINED && !value_is_iterable(value))
        return value_fail(render, "cannot unpack non-iterable %s object", value_type(value));
    TRY(value_iterate(render, value, &list));
    if (list.count > target->list.count)
        return value_fail(render, "too many values to unpack (expected %u)", target->list.count);
    if (list.count < target->list.count)
        return value_fail(render, "not enough values to unpack (expected %u, got %zu)",
                          target->list.count, list.count);
    const struct node *item = target->list.first;
    for (size_t i = 0; i < list.count; i++, item = item->next)
        TRY(assign(render, item, &list.items[i]));
    return SL_OK;
}

/* A body in a scope of its own, whose parent is `parent`. */
static enum status run_scoped(struct render *render, const struct node *body,
                              struct scope *parent) {
    struct scope *outer = render->scope;
    TRY(push_scope(render, parent));
    TRY(exec_body(render, body));
    pop_scope(render, outer);
    return SL_OK;
}

static enum status exec_if(struct render *render, const struct node *node) {
    for (const struct node *branch = node->branch.body; branch != NULL; branch = branch->next) {
        bool truth = true;
        if (branch->branch.test != NULL) {
            struct value value;
            TRY(eval(render, branch->branch.test, &value));
            TRY(value_truth(render, &value, &truth));
        }
        if (truth)
            return exec_body(render, branch->branch.body);
    }
    return SL_OK;
}

/* Keeps the items that the loop's condition holds for. */
static enum status filter_items(struct render *render, const struct node *node, struct list *list) {
    struct value kept;
    size_t count = 0;
    TRY(value_new_list(render, VALUE_LIST, list->count, &kept));
    for (size_t i = 0; i < list->count; i++) {
        struct scope *outer = render->scope;
        struct value value;
        bool truth;
        TRY(push_scope(render, outer));
        TRY(assign(render, node->loop.target, &list->items[i]));
        TRY(eval(render, node->loop.filter, &value));
        TRY(value_truth(render, &value, &truth));
        pop_scope(render, outer);
        if (truth)
            kept.list->items[count++] = list->items[i];
    }
    *list = (struct list){.items = kept.list->items, .count = count};
    return SL_OK;
}

/* The passes of a loop. *is_done: one of them ran to its end; as in Jinja, only then is `else` left
 * out, so that a loop whose every pass ends in break or continue has it. */
static enum status run_passes(struct render *render, const struct node *node, struct loop *loop,
                              bool *is_done) {
    struct scope *outer = render->scope;
    struct value handle = {.kind = VALUE_LOOP, .loop = loop};
    *is_done = false;
    for (loop->at = 0; loop->at < loop->items.count; loop->at++) {
        TRY(value_charge(render, 1));
        TRY(push_scope(render, outer));
        TRY(bind(render, render->template->loop_symbol, &handle));
        TRY(assign(render, node->loop.target, &loop->items.items[loop->at]));
        TRY(exec_body(render, node->loop.body));
        pop_scope(render, outer);
        enum flow flow = render->flow;
        render->flow = FLOW_ON;
        *is_done |= flow == FLOW_ON;
        if (flow == FLOW_BREAK)
            break;
    }
    return SL_OK;
}

/* Keeps a scope, and those around it, as they are for who may come back to them. */
static void capture_scope(struct scope *scope) {
    for (; scope != NULL; scope = scope->parent)
        scope->is_captured = true;
}

/* A loop over a value, in the scope that is current. */
static enum status run_loop(struct render *render, const struct node *node,
                            const struct value *iterable, int64_t depth) {
    struct list list;
    void *memory;
    render->line = node->line;
    TRY(value_iterate(render, iterable, &list));
    if (node->loop.filter != NULL)
        TRY(filter_items(render, node, &list));
    if (node->loop.is_recursive)
        capture_scope(render->scope);
    TRY(value_take(render, sizeof(struct loop), &memory));
    struct loop *loop = memory;
    *loop = (struct loop){.items = list,
                          .changed = {.kind = VALUE_MISSING},
                          .node = node,
                          .scope = render->scope,
                          .depth = depth};
    bool is_done;
    TRY(run_passes(render, node, loop, &is_done));
    return is_done ? SL_OK : run_scoped(render, node->loop.otherwise, render->scope);
}

static enum status exec_for(struct render *render, const struct node *node) {
    struct value iterable;
    TRY(eval(render, node->loop.iterable, &iterable));
    return run_loop(render, node, &iterable, 0);
}

enum status exec_loop_again(struct render *render, const struct loop *loop,
                            const struct arguments *arguments, struct value *out) {
    struct scope *outer = render->scope;
    size_t mark = render->out->len;
    if (!loop->node->loop.is_recursive)
        return value_fail(render, "the loop must have the 'recursive' marker to be called");
    if (arguments->count != 1 || arguments->named_count > 0)
        return value_fail(render, "loop() takes one argument");
    TRY(enter_call(render));
    render->scope = loop->scope;
    TRY(run_loop(render, loop->node, &arguments->items[0], loop->depth + 1));
    TRY(take_output(render, mark, out));
    render->scope = outer;
    render->macros--;
    return SL_OK;
}

static enum status exec_set(struct render *render, const struct node *node) {
    struct value value;
    TRY(eval(render, node->set.value, &value));
    render->line = node->line;
    return assign(render, node->set.target, &value);
}

/* The text of a body, through filters if there are any. */
static enum status capture(struct render *render, const struct node *body,
                           const struct node *filters, struct value *out) {
    size_t mark = render->out->len;
    TRY(run_scoped(render, body, render->scope));
    TRY(take_output(render, mark, out));
    if (filters == NULL)
        return SL_OK;
    render->block = *out;
    return eval(render, filters, out);
}

static enum status exec_set_block(struct render *render, const struct node *node) {
    struct value value;
    TRY(capture(render, node->set.body, node->set.value, &value));
    return assign(render, node->set.target, &value);
}

static enum status exec_filter_block(struct render *render, const struct node *node) {
    struct value value;
    TRY(capture(render, node->block.body, node->block.filter, &value));
    return repr_add_str(render, render->out, &value);
}

static enum status new_macro(struct render *render, const struct node *node, struct value *out) {
    void *memory;
    TRY(value_take(render, sizeof(struct macro), &memory));
    struct macro *macro = memory;
    *macro = (struct macro){node, render->scope};
    capture_scope(render->scope);
    *out = (struct value){.kind = VALUE_MACRO, .macro = macro};
    return SL_OK;
}

static enum status exec_macro_statement(struct render *render, const struct node *node) {
    struct value macro;
    TRY(new_macro(render, node, &macro));
    return bind(render, node->macro.symbol, &macro);
}

static enum status exec_call_block(struct render *render, const struct node *node) {
    struct value callee, result;
    struct arguments arguments;
    const struct node *call = node->macro.call;
    TRY(eval(render, call->call.target, &callee));
    TRY(eval_args(render, call->call.args, &arguments, 1));
    struct named_value *caller = &arguments.named[arguments.named_count++];
    caller->name = STR("caller");
    TRY(new_macro(render, node, &caller->value));
    TRY(get_call(render, &callee, &arguments, &result));
    return repr_add_str(render, render->out, &result);
}

static enum status exec_with(struct render *render, const struct node *node) {
    struct scope *outer = render->scope;
    struct value value;
    TRY(push_scope(render, outer));
    struct scope *inner = render->scope;
    for (const struct node *set = node->block.sets; set != NULL; set = set->next) {
        render->scope = outer;
        TRY(eval(render, set->set.value, &value));
        render->scope = inner;
        TRY(assign(render, set->set.target, &value));
    }
    TRY(exec_body(render, node->block.body));
    pop_scope(render, outer);
    return SL_OK;
}

static enum status exec_print(struct render *render, const struct node *node) {
    struct value value;
    TRY(eval(render, node->operand, &value));
    render->line = node->line;
    TRY(repr_add_str(render, render->out, &value));
    return check_output(render);
}

static enum status exec(struct render *render, const struct node *node) {
    switch (node->kind) {
    case NODE_DATA:
        buf_add(render->out, node->data);
        return check_output(render);
    case NODE_PRINT:
        return exec_print(render, node);
    case NODE_IF:
        return exec_if(render, node);
    case NODE_FOR:
        return exec_for(render, node);
    case NODE_SET:
        return exec_set(render, node);
    case NODE_SET_BLOCK:
        return exec_set_block(render, node);
    case NODE_MACRO:
        return exec_macro_statement(render, node);
    case NODE_CALL_BLOCK:
        return exec_call_block(render, node);
    case NODE_FILTER_BLOCK:
        return exec_filter_block(render, node);
    case NODE_WITH:
        return exec_with(render, node);
    case NODE_SCOPE:
        return run_scoped(render, node->block.body, render->scope);
    case NODE_BREAK:
    case NODE_CONTINUE:
        render->flow = node->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        return SL_OK;
    default:
        must_fail("a statement", __FILE__, __LINE__);
    }
}

enum status exec_body(struct render *render, const struct node *body) {
    for (const struct node *node = body; node != NULL && render->flow == FLOW_ON;
         node = node->next) {
        TRY(eval_enter(render, node->line));
        TRY(exec(render, node));
        eval_leave(render);
    }
    return SL_OK;
}

/* Takes the named argument `name` out; false when it is not there. */
static bool take_named(struct arguments *arguments, struct str name, struct value *out) {
    for (size_t i = 0; i < arguments->named_count; i++) {
        if (!str_equal(arguments->named[i].name, name))
            continue;
        *out = arguments->named[i].value;
        for (size_t j = i + 1; j < arguments->named_count; j++)
            arguments->named[j - 1] = arguments->named[j];
        arguments->named_count--;
        return true;
    }
    return false;
}

/* Positional and named values of the parameters, defaults last: these may look at what is bound
 * already. */
static enum status bind_params(struct render *render, const struct node *node,
                               struct arguments *arguments) {
    size_t index = 0;
    for (const struct node *param = node->macro.params; param != NULL;
         param = param->next, index++) {
        struct value value;
        TRY(value_charge(render, arguments->named_count / 16));
        if (index < arguments->count)
            value = arguments->items[index];
        else if (take_named(arguments, param->param.name, &value))
            ;
        else if (param->param.initial != NULL)
            TRY(eval(render, param->param.initial, &value));
        else
            TRY(value_hint(render, "a parameter of a macro was not provided", &value));
        TRY(bind(render, param->param.symbol, &value));
    }
    return SL_OK;
}

/* caller, varargs and kwargs where the body uses them; what is left over is an error. */
static enum status bind_rest(struct render *render, const struct node *node,
                             struct arguments *arguments) {
    const struct template *template = render->template;
    struct value value;
    size_t rest =
        arguments->count > node->macro.param_count ? arguments->count - node->macro.param_count : 0;
    if (node->macro.has_caller) {
        if (!take_named(arguments, STR("caller"), &value))
            TRY(value_hint(render, "No caller defined", &value));
        if (find_binding(render->scope, template->caller_symbol) == NULL)
            TRY(bind(render, template->caller_symbol, &value));
    }
    if (node->macro.has_kwargs) {
        struct arguments named = {.named = arguments->named, .named_count = arguments->named_count};
        TRY(dict_make(render, &named, VALUE_DICT, &value));
        TRY(bind(render, template->kwargs_symbol, &value));
    } else if (arguments->named_count > 0) {
        return value_fail(render, "macro '%.*s' takes no keyword argument '%.*s'",
                          STR_ARG(node->macro.name), STR_ARG(arguments->named[0].name));
    }
    if (node->macro.has_varargs) {
        TRY(value_new_list(render, VALUE_TUPLE, rest, &value));
        for (size_t i = 0; i < rest; i++)
            value.list->items[i] = arguments->items[node->macro.param_count + i];
        TRY(bind(render, template->varargs_symbol, &value));
    } else if (rest > 0) {
        return value_fail(render, "macro '%.*s' takes not more than %u argument(s)",
                          STR_ARG(node->macro.name), node->macro.param_count);
    }
    return SL_OK;
}

enum status exec_macro(struct render *render, const struct macro *macro,
                       const struct arguments *arguments, struct value *out) {
    struct scope *outer = render->scope;
    struct arguments left = *arguments;
    size_t mark = render->out->len;
    TRY(enter_call(render));
    TRY(push_scope(render, macro->scope));
    TRY(bind_params(render, macro->node, &left));
    TRY(bind_rest(render, macro->node, &left));
    TRY(exec_body(render, macro->node->macro.body));
    TRY(take_output(render, mark, out));
    pop_scope(render, outer);
    render->macros--;
    return SL_OK;
}
