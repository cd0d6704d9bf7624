/* Expressions of a template: precedence and odd corners as in Jinja2 (a filter binds closer than
 * any operator, `**` groups to the left, a test takes one argument without parentheses). Nesting is
 * bounded by parse_enter. */
#include "text/template_tree.h"

static enum status parse_or(struct parser *parser, struct node **out);
static enum status parse_unary(struct parser *parser, bool has_filters, struct node **out);

static enum status binary(struct parser *parser, enum node_kind kind, enum operator op,
                          struct node *left, struct node **out) {
    TRY(parse_node(parser, kind, left->line, out));
    (*out)->binary.op = op;
    (*out)->binary.left = left;
    return SL_OK;
}

enum status expr_parse(struct parser *parser, struct node **out) {
    TRY(parse_enter(parser));
    struct node *value;
    TRY(parse_or(parser, &value));
    while (parse_at_name(parser, "if")) {
        struct node *choice;
        TRY(parse_node(parser, NODE_CHOICE, parser->token.line, &choice));
        TRY(parse_advance(parser));
        choice->choice.yes = value;
        TRY(parse_or(parser, &choice->choice.test));
        bool has_else;
        TRY(parse_skip_name(parser, "else", &has_else));
        if (has_else)
            TRY(expr_parse(parser, &choice->choice.no));
        value = choice;
    }
    parse_leave(parser);
    *out = value;
    return SL_OK;
}

static enum status parse_not(struct parser *parser, struct node **out);

static enum status parse_and(struct parser *parser, struct node **out) {
    struct node *left, *node;
    TRY(parse_not(parser, &left));
    while (parse_at_name(parser, "and")) {
        TRY(parse_advance(parser));
        TRY(binary(parser, NODE_AND, OP_NONE, left, &node));
        TRY(parse_not(parser, &node->binary.right));
        left = node;
    }
    *out = left;
    return SL_OK;
}

static enum status parse_or(struct parser *parser, struct node **out) {
    struct node *left, *node;
    TRY(parse_and(parser, &left));
    while (parse_at_name(parser, "or")) {
        TRY(parse_advance(parser));
        TRY(binary(parser, NODE_OR, OP_NONE, left, &node));
        TRY(parse_and(parser, &node->binary.right));
        left = node;
    }
    *out = left;
    return SL_OK;
}

static enum status parse_math1(struct parser *parser, struct node **out);

/* The comparison operator that is there, passed over; OP_NONE when there is none. */
static enum status take_comparison(struct parser *parser, enum operator* out) {
    *out = OP_NONE;
    if (parser->token.kind == TOKEN_OPERATOR) {
        enum operator op = parser->token.op;
        if (op < OP_EQ || op > OP_GE)
            return SL_OK;
        *out = op;
        return parse_advance(parser);
    }
    if (parse_at_name(parser, "in")) {
        *out = OP_IN;
        return parse_advance(parser);
    }
    if (parse_at_name(parser, "not")) {
        struct token next;
        TRY(parse_look(parser, &next));
        if (next.kind != TOKEN_NAME || !str_is(next.text, "in"))
            return SL_OK;
        *out = OP_NOT_IN;
        TRY(parse_advance(parser));
        return parse_advance(parser);
    }
    return SL_OK;
}

static enum status parse_compare(struct parser *parser, struct node **out) {
    struct node *left, *compare = NULL, **last = NULL;
    TRY(parse_math1(parser, &left));
    for (;;) {
        uint32_t line = parser->token.line;
        enum operator op;
        TRY(take_comparison(parser, &op));
        if (op == OP_NONE)
            break;
        if (compare == NULL) {
            TRY(binary(parser, NODE_COMPARE, OP_NONE, left, &compare));
            last = &compare->binary.right;
        }
        TRY(parse_node(parser, NODE_OPERAND, line, last));
        (*last)->binary.op = op;
        TRY(parse_math1(parser, &(*last)->binary.right));
        last = &(*last)->next;
    }
    *out = compare == NULL ? left : compare;
    return SL_OK;
}

static enum status parse_not(struct parser *parser, struct node **out) {
    if (!parse_at_name(parser, "not"))
        return parse_compare(parser, out);
    TRY(parse_enter(parser));
    struct node *node;
    TRY(parse_node(parser, NODE_NOT, parser->token.line, &node));
    TRY(parse_advance(parser));
    TRY(parse_not(parser, &node->operand));
    parse_leave(parser);
    *out = node;
    return SL_OK;
}

static enum status parse_pow(struct parser *parser, struct node **out) {
    struct node *left, *node;
    TRY(parse_unary(parser, true, &left));
    while (parse_at(parser, OP_POW)) {
        TRY(parse_advance(parser));
        TRY(binary(parser, NODE_BINARY, OP_POW, left, &node));
        TRY(parse_unary(parser, true, &node->binary.right));
        left = node;
    }
    *out = left;
    return SL_OK;
}

static enum status parse_math2(struct parser *parser, struct node **out) {
    struct node *left, *node;
    TRY(parse_pow(parser, &left));
    while (parse_at(parser, OP_MUL) || parse_at(parser, OP_DIV) || parse_at(parser, OP_FLOORDIV) ||
           parse_at(parser, OP_MOD)) {
        TRY(binary(parser, NODE_BINARY, parser->token.op, left, &node));
        TRY(parse_advance(parser));
        TRY(parse_pow(parser, &node->binary.right));
        left = node;
    }
    *out = left;
    return SL_OK;
}

static enum status parse_concat(struct parser *parser, struct node **out) {
    struct node *first;
    TRY(parse_math2(parser, &first));
    *out = first;
    if (!parse_at(parser, OP_TILDE))
        return SL_OK;
    struct node *concat, *last = first;
    TRY(parse_node(parser, NODE_CONCAT, first->line, &concat));
    concat->list.first = first;
    concat->list.count = 1;
    while (parse_at(parser, OP_TILDE)) {
        TRY(parse_advance(parser));
        TRY(parse_math2(parser, &last->next));
        last = last->next;
        concat->list.count++;
    }
    *out = concat;
    return SL_OK;
}

static enum status parse_math1(struct parser *parser, struct node **out) {
    struct node *left, *node;
    TRY(parse_concat(parser, &left));
    while (parse_at(parser, OP_ADD) || parse_at(parser, OP_SUB)) {
        TRY(binary(parser, NODE_BINARY, parser->token.op, left, &node));
        TRY(parse_advance(parser));
        TRY(parse_concat(parser, &node->binary.right));
        left = node;
    }
    *out = left;
    return SL_OK;
}

/* A name with dots, as filters and tests may have. */
static enum status parse_dotted(struct parser *parser, struct str *out) {
    const char *from = parser->token.text.data;
    TRY(parse_expect_name(parser, out));
    while (parse_at(parser, OP_DOT)) {
        struct str part;
        TRY(parse_advance(parser));
        TRY(parse_expect_name(parser, &part));
        *out = (struct str){from, (size_t)(part.data + part.len - from)};
    }
    return SL_OK;
}

enum status expr_filters(struct parser *parser, bool is_first, struct node **node) {
    while (is_first || parse_at(parser, OP_PIPE)) {
        if (!is_first)
            TRY(parse_advance(parser));
        is_first = false;
        struct node *input = *node;
        TRY(parse_node(parser, NODE_FILTER, parser->token.line, node));
        (*node)->call.target = input;
        TRY(parse_dotted(parser, &(*node)->call.name));
        (*node)->call.builtin = filter_find((*node)->call.name);
        if (parse_at(parser, OP_LPAREN))
            TRY(expr_args(parser, &(*node)->call.args));
    }
    return SL_OK;
}

/* Whether a token begins the one argument of a test that needs no parentheses. */
static bool begins_test_arg(const struct parser *parser) {
    switch (parser->token.kind) {
    case TOKEN_NAME:
        return !parse_at_name(parser, "else") && !parse_at_name(parser, "or") &&
               !parse_at_name(parser, "and");
    case TOKEN_STRING:
    case TOKEN_NUMBER:
        return true;
    default:
        return parse_at(parser, OP_LBRACKET) || parse_at(parser, OP_LBRACE);
    }
}

static bool is_parts_test(const struct node *test) {
    static const char *const names[] = {"string", "iterable", "sequence", "mapping"};
    struct node *input = test->call.target;
    struct str last = {NULL, 0};
    if (input->kind == NODE_NAME)
        last = input->name.name;
    else if (input->kind == NODE_ATTRIBUTE)
        last = input->attribute.name;
    else if (input->kind == NODE_ITEM && input->item.index->kind == NODE_CONST &&
             input->item.index->constant.kind == VALUE_TEXT)
        last = input->item.index->constant.text;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (str_is(test->call.name, names[i]))
            return str_ends(last, STR("content"));
    return false;
}

static enum status parse_test(struct parser *parser, struct node **node) {
    struct node *input = *node;
    uint32_t line = parser->token.line;
    TRY(parse_advance(parser));
    TRY(parse_node(parser, NODE_TEST, line, node));
    struct node *test = *node;
    test->call.target = input;
    TRY(parse_skip_name(parser, "not", &test->call.is_negated));
    TRY(parse_dotted(parser, &test->call.name));
    test->call.builtin = check_find(test->call.name);
    if (is_parts_test(test))
        parser->template->takes_parts = true;
    if (parse_at(parser, OP_LPAREN))
        return expr_args(parser, &test->call.args);
    if (!begins_test_arg(parser))
        return SL_OK;
    if (parse_at_name(parser, "is"))
        return parse_fail(parser, line, "tests cannot be chained with 'is'");
    struct node_args *args = arena_take(&parser->template->arena, sizeof *args);
    if (args == NULL)
        return error_memory(parser->err, sizeof *args, "a template");
    TRY(expr_primary(parser, &args->items));
    TRY(expr_postfix(parser, &args->items));
    args->count = 1;
    test->call.args = args;
    return SL_OK;
}

static enum status parse_unary(struct parser *parser, bool has_filters, struct node **out) {
    struct node *node;
    if (parse_at(parser, OP_SUB) || parse_at(parser, OP_ADD)) {
        TRY(parse_enter(parser));
        TRY(parse_node(parser, parse_at(parser, OP_SUB) ? NODE_NEGATE : NODE_PLUS,
                       parser->token.line, &node));
        TRY(parse_advance(parser));
        TRY(parse_unary(parser, false, &node->operand));
        parse_leave(parser);
    } else {
        TRY(expr_primary(parser, &node));
    }
    TRY(expr_postfix(parser, &node));
    while (has_filters) {
        if (parse_at(parser, OP_PIPE))
            TRY(expr_filters(parser, false, &node));
        else if (parse_at_name(parser, "is"))
            TRY(parse_test(parser, &node));
        else if (parse_at(parser, OP_LPAREN))
            TRY(expr_call(parser, &node));
        else
            break;
    }
    *out = node;
    return SL_OK;
}

enum status expr_tuple(struct parser *parser, bool has_choice, const char *end, struct node **out) {
    struct node *first = NULL, **last = &first;
    uint32_t line = parser->token.line, count = 0;
    bool is_tuple = false;
    while (!parse_at_tuple_end(parser, end)) {
        TRY(parse_enter(parser));
        TRY(has_choice ? expr_parse(parser, last) : parse_or(parser, last));
        parse_leave(parser);
        last = &(*last)->next;
        count++;
        if (!parse_at(parser, OP_COMMA))
            break;
        is_tuple = true;
        TRY(parse_advance(parser));
    }
    if (count == 0)
        return parse_unexpected(parser, "an expression");
    return parse_one_or_tuple(parser, first, is_tuple ? count : 0, line, out);
}
