/* The leaves of expressions: names, literals, brackets, subscripts, calls, and what can be assigned
 * to. Refuses a slice among several indexes. */
#include "text/template_tree.h"

/* The items of a list or dict up to its closing bracket. */
static enum status parse_items(struct parser *parser, enum node_kind kind, enum operator close,
                               struct node **out) {
    struct node *node, **last;
    TRY(parse_node(parser, kind, parser->token.line, &node));
    TRY(parse_advance(parser));
    last = &node->list.first;
    while (!parse_at(parser, close)) {
        if (node->list.count > 0)
            TRY(parse_expect(parser, OP_COMMA, "','"));
        if (parse_at(parser, close))
            break;
        TRY(expr_parse(parser, last));
        last = &(*last)->next;
        node->list.count++;
        if (kind == NODE_DICT) {
            TRY(parse_expect(parser, OP_COLON, "':'"));
            TRY(expr_parse(parser, last));
            last = &(*last)->next;
            node->list.count++;
        }
    }
    *out = node;
    return parse_advance(parser);
}

static enum status parse_name(struct parser *parser, struct node **out) {
    static const struct {
        const char *name;
        enum value_kind kind;
        bool boolean;
    } words[] = {
        {"true", VALUE_BOOL, true},   {"True", VALUE_BOOL, true},  {"false", VALUE_BOOL, false},
        {"False", VALUE_BOOL, false}, {"none", VALUE_NONE, false}, {"None", VALUE_NONE, false},
    };
    struct str name = parser->token.text;
    TRY(parse_node(parser, NODE_NAME, parser->token.line, out));
    TRY(parse_advance(parser));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!str_is(name, words[i].name))
            continue;
        (*out)->kind = NODE_CONST;
        (*out)->constant =
            words[i].kind == VALUE_BOOL ? value_bool(words[i].boolean) : value_none();
        return SL_OK;
    }
    (*out)->name.name = name;
    for (struct macro_uses *uses = parser->uses; uses != NULL; uses = uses->outer) {
        uses->has_caller |= str_is(name, "caller");
        uses->has_varargs |= str_is(name, "varargs");
        uses->has_kwargs |= str_is(name, "kwargs");
    }
    return parse_symbol(parser, name, &(*out)->name.symbol);
}

/* Strings beside one another are one. */
static enum status parse_strings(struct parser *parser, struct node **out) {
    TRY(parse_node(parser, NODE_CONST, parser->token.line, out));
    struct str text = parser->token.text;
    TRY(parse_advance(parser));
    while (parser->token.kind == TOKEN_STRING) {
        struct str more = parser->token.text;
        char *both = arena_take(&parser->template->arena, text.len + more.len + 1);
        if (both == NULL)
            return error_memory(parser->err, text.len + more.len, "a template");
        for (size_t i = 0; i < text.len; i++)
            both[i] = text.data[i];
        for (size_t i = 0; i < more.len; i++)
            both[text.len + i] = more.data[i];
        text = (struct str){both, text.len + more.len};
        if (text.len > SL_TEMPLATE_SOURCE_MAX / 16)
            return parse_fail(parser, parser->token.line, "a string in too many pieces");
        TRY(parse_advance(parser));
    }
    (*out)->constant = value_text(text);
    return SL_OK;
}

static enum status parse_parentheses(struct parser *parser, struct node **out) {
    TRY(parse_advance(parser));
    if (parse_at(parser, OP_RPAREN)) {
        TRY(parse_node(parser, NODE_TUPLE, parser->token.line, out));
        return parse_advance(parser);
    }
    TRY(expr_tuple(parser, true, NULL, out));
    return parse_expect(parser, OP_RPAREN, "')'");
}

enum status expr_primary(struct parser *parser, struct node **out) {
    switch (parser->token.kind) {
    case TOKEN_NAME:
        return parse_name(parser, out);
    case TOKEN_STRING:
        return parse_strings(parser, out);
    case TOKEN_NUMBER:
        TRY(parse_node(parser, NODE_CONST, parser->token.line, out));
        (*out)->constant = parser->token.number;
        return parse_advance(parser);
    case TOKEN_OPERATOR:
        if (parser->token.op == OP_LPAREN)
            return parse_parentheses(parser, out);
        if (parser->token.op == OP_LBRACKET)
            return parse_items(parser, NODE_LIST, OP_RBRACKET, out);
        if (parser->token.op == OP_LBRACE)
            return parse_items(parser, NODE_DICT, OP_RBRACE, out);
        break;
    default:
        break;
    }
    return parse_unexpected(parser, "an expression");
}

/* What stands between brackets after an object, up to ',' or ']': an index or a slice. */
static enum status parse_index(struct parser *parser, struct node *object, struct node **out) {
    struct node *bounds[3] = {NULL, NULL, NULL};
    uint32_t line = parser->token.line;
    size_t colons = 0;
    for (;;) {
        if (parse_at(parser, OP_COLON) && colons < 2) {
            colons++;
            TRY(parse_advance(parser));
        } else if (parse_at(parser, OP_RBRACKET) || parse_at(parser, OP_COMMA) ||
                   bounds[colons] != NULL) {
            break;
        } else {
            TRY(expr_parse(parser, &bounds[colons]));
        }
    }
    if (colons == 0) {
        *out = bounds[0];
        return bounds[0] == NULL ? parse_unexpected(parser, "an index") : SL_OK;
    }
    TRY(parse_node(parser, NODE_SLICE, line, out));
    (*out)->slice.object = object;
    for (size_t i = 0; i < 3; i++)
        (*out)->slice.bounds[i] = bounds[i];
    return SL_OK;
}

static enum status parse_subscript(struct parser *parser, struct node **node) {
    struct node *object = *node, *index;
    uint32_t line = parser->token.line;
    TRY(parse_advance(parser));
    TRY(parse_index(parser, object, &index));
    if (index->kind == NODE_SLICE && index->slice.object == object) {
        if (parse_at(parser, OP_COMMA))
            return parse_fail(parser, line, "a slice among several indexes is not supported");
        *node = index;
        return parse_expect(parser, OP_RBRACKET, "']'");
    }
    if (parse_at(parser, OP_COMMA)) {
        struct node *tuple;
        TRY(parse_node(parser, NODE_TUPLE, line, &tuple));
        tuple->list.first = index;
        tuple->list.count = 1;
        while (parse_at(parser, OP_COMMA)) {
            TRY(parse_advance(parser));
            TRY(parse_index(parser, object, &index->next));
            index = index->next;
            if (index->kind == NODE_SLICE && index->slice.object == object)
                return parse_fail(parser, line, "a slice among several indexes is not supported");
            tuple->list.count++;
        }
        index = tuple;
    }
    TRY(parse_node(parser, NODE_ITEM, line, node));
    (*node)->item.object = object;
    (*node)->item.index = index;
    return parse_expect(parser, OP_RBRACKET, "']'");
}

static enum status parse_dot(struct parser *parser, struct node **node) {
    struct node *object = *node;
    uint32_t line = parser->token.line;
    TRY(parse_advance(parser));
    if (parser->token.kind == TOKEN_NUMBER && parser->token.number.kind == VALUE_INT) {
        struct node *index;
        TRY(expr_primary(parser, &index));
        TRY(parse_node(parser, NODE_ITEM, line, node));
        (*node)->item.object = object;
        (*node)->item.index = index;
        return SL_OK;
    }
    TRY(parse_node(parser, NODE_ATTRIBUTE, line, node));
    (*node)->attribute.object = object;
    return parse_expect_name(parser, &(*node)->attribute.name);
}

enum status expr_call(struct parser *parser, struct node **node) {
    struct node *callee = *node;
    TRY(parse_node(parser, NODE_CALL, parser->token.line, node));
    (*node)->call.target = callee;
    return expr_args(parser, &(*node)->call.args);
}

enum status expr_postfix(struct parser *parser, struct node **node) {
    for (;;) {
        if (parse_at(parser, OP_DOT))
            TRY(parse_dot(parser, node));
        else if (parse_at(parser, OP_LBRACKET))
            TRY(parse_subscript(parser, node));
        else if (parse_at(parser, OP_LPAREN))
            TRY(expr_call(parser, node));
        else
            return SL_OK;
    }
}

/* One argument of a call, on to the right list. */
static enum status parse_arg(struct parser *parser, struct node_args *args, struct node ***item,
                             struct node ***named) {
    uint32_t line = parser->token.line;
    struct node **star = parse_at(parser, OP_MUL)   ? &args->star
                         : parse_at(parser, OP_POW) ? &args->star_star
                                                    : NULL;
    if (star != NULL) {
        if (*star != NULL || args->star_star != NULL)
            return parse_fail(parser, line, "invalid syntax for a call");
        TRY(parse_advance(parser));
        return expr_parse(parser, star);
    }
    struct token next = {.kind = TOKEN_END};
    if (parser->token.kind == TOKEN_NAME)
        TRY(parse_look(parser, &next));
    if (next.kind == TOKEN_OPERATOR && next.op == OP_ASSIGN) {
        if (args->star_star != NULL)
            return parse_fail(parser, line, "invalid syntax for a call");
        TRY(parse_node(parser, NODE_NAMED, line, *named));
        (**named)->named.name = parser->token.text;
        TRY(parse_advance(parser));
        TRY(parse_advance(parser));
        TRY(expr_parse(parser, &(**named)->named.value));
        *named = &(**named)->next;
        args->named_count++;
        return SL_OK;
    }
    if (args->star != NULL || args->star_star != NULL || args->named_count > 0)
        return parse_fail(parser, line, "invalid syntax for a call");
    TRY(expr_parse(parser, *item));
    *item = &(**item)->next;
    args->count++;
    return SL_OK;
}

enum status expr_args(struct parser *parser, struct node_args **out) {
    struct node_args *args = arena_take(&parser->template->arena, sizeof *args);
    if (args == NULL)
        return error_memory(parser->err, sizeof *args, "a template");
    struct node **item = &args->items, **named = &args->named;
    bool needs_comma = false;
    TRY(parse_expect(parser, OP_LPAREN, "'('"));
    while (!parse_at(parser, OP_RPAREN)) {
        if (needs_comma) {
            TRY(parse_expect(parser, OP_COMMA, "',' or ')'"));
            if (parse_at(parser, OP_RPAREN))
                break;
        }
        TRY(parse_arg(parser, args, &item, &named));
        needs_comma = true;
    }
    *out = args;
    return parse_advance(parser);
}

static enum status target_item(struct parser *parser, bool allows_space, struct node **out);

/* Targets separated by commas, one or a tuple. */
static enum status target_tuple(struct parser *parser, const char *end, bool allows_space,
                                struct node **out) {
    struct node *first = NULL, **last = &first;
    uint32_t line = parser->token.line, count = 0;
    bool is_tuple = false;
    while (!parse_at_tuple_end(parser, end) && !parse_at(parser, OP_ASSIGN)) {
        TRY(target_item(parser, allows_space, last));
        last = &(*last)->next;
        count++;
        if (!parse_at(parser, OP_COMMA))
            break;
        is_tuple = true;
        TRY(parse_advance(parser));
    }
    if (count == 0)
        return parse_unexpected(parser, "a name to assign to");
    return parse_one_or_tuple(parser, first, is_tuple ? count : 0, line, out);
}

static enum status target_item(struct parser *parser, bool allows_space, struct node **out) {
    if (parse_at(parser, OP_LPAREN)) {
        TRY(parse_enter(parser));
        TRY(parse_advance(parser));
        TRY(target_tuple(parser, NULL, allows_space, out));
        parse_leave(parser);
        return parse_expect(parser, OP_RPAREN, "')'");
    }
    if (parser->token.kind != TOKEN_NAME)
        return parse_unexpected(parser, "a name to assign to");
    TRY(parse_name(parser, out));
    if ((*out)->kind != NODE_NAME)
        return parse_fail(parser, (*out)->line, "cannot assign to a constant");
    if (allows_space && parse_at(parser, OP_DOT)) {
        TRY(parse_advance(parser));
        (*out)->kind = NODE_SPACE_NAME;
        return parse_expect_name(parser, &(*out)->name.name);
    }
    return SL_OK;
}

enum status expr_target(struct parser *parser, const char *end, bool allows_space,
                        struct node **out) {
    return target_tuple(parser, end, allows_space, out);
}
