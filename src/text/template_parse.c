/* Statements of a template, and the state that both halves of the parser share. Follows Jinja2's
 * grammar with Hugging Face's extensions (loop controls, generation). Refuses, by name and line,
 * tags that need other files (include, import, extends), `autoescape` and any tag that it does not
 * know. Nesting is bounded by SL_TEMPLATE_DEPTH_MAX. */
#include "text/template_tree.h"

#include <stdio.h>
#include <string.h>

enum status parse_fail(struct parser *parser, uint32_t line, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(parser->err, SL_ERR_ENV, "%s line %u: %s", parser->template->name, line, text);
}

static const char *describe(const struct token *token) {
    switch (token->kind) {
    case TOKEN_END:
        return "the end of the template";
    case TOKEN_VARIABLE_END:
        return "}}";
    case TOKEN_BLOCK_END:
        return "%}";
    case TOKEN_STRING:
        return "a string";
    case TOKEN_NUMBER:
        return "a number";
    default:
        return NULL;
    }
}

enum status parse_unexpected(struct parser *parser, const char *expected) {
    const struct token *token = &parser->token;
    const char *seen = describe(token);
    if (seen == NULL)
        return parse_fail(parser, token->line, "expected %s, not '%.*s'", expected,
                          STR_ARG(token->text));
    return parse_fail(parser, token->line, "expected %s, not %s", expected, seen);
}

enum status parse_advance(struct parser *parser) {
    if (parser->has_ahead) {
        parser->token = parser->ahead;
        parser->has_ahead = false;
        return SL_OK;
    }
    return lex_next(&parser->lexer, &parser->token);
}

enum status parse_look(struct parser *parser, struct token *out) {
    if (!parser->has_ahead) {
        TRY(lex_next(&parser->lexer, &parser->ahead));
        parser->has_ahead = true;
    }
    *out = parser->ahead;
    return SL_OK;
}

bool parse_at(const struct parser *parser, enum operator op) {
    return parser->token.kind == TOKEN_OPERATOR && parser->token.op == op;
}

bool parse_at_name(const struct parser *parser, const char *name) {
    return parser->token.kind == TOKEN_NAME && str_is(parser->token.text, name);
}

bool parse_at_tuple_end(const struct parser *parser, const char *end) {
    return parser->token.kind == TOKEN_VARIABLE_END || parser->token.kind == TOKEN_BLOCK_END ||
           parse_at(parser, OP_RPAREN) || (end != NULL && parse_at_name(parser, end));
}

enum status parse_skip(struct parser *parser, enum operator op, bool *was_there) {
    *was_there = parse_at(parser, op);
    return *was_there ? parse_advance(parser) : SL_OK;
}

enum status parse_skip_name(struct parser *parser, const char *name, bool *was_there) {
    *was_there = parse_at_name(parser, name);
    return *was_there ? parse_advance(parser) : SL_OK;
}

enum status parse_expect(struct parser *parser, enum operator op, const char *spelling) {
    if (!parse_at(parser, op))
        return parse_unexpected(parser, spelling);
    return parse_advance(parser);
}

enum status parse_expect_name(struct parser *parser, struct str *out) {
    if (parser->token.kind != TOKEN_NAME)
        return parse_unexpected(parser, "a name");
    *out = parser->token.text;
    return parse_advance(parser);
}

enum status parse_node(struct parser *parser, enum node_kind kind, uint32_t line,
                       struct node **out) {
    struct node *node = arena_take(&parser->template->arena, sizeof *node);
    if (node == NULL)
        return error_memory(parser->err, sizeof *node, "a template");
    node->kind = kind;
    node->line = line;
    *out = node;
    return SL_OK;
}

enum status parse_one_or_tuple(struct parser *parser, struct node *first, uint32_t count,
                               uint32_t line, struct node **out) {
    struct node *tuple;
    *out = first;
    if (count == 0)
        return SL_OK;
    TRY(parse_node(parser, NODE_TUPLE, line, &tuple));
    tuple->list.first = first;
    tuple->list.count = count;
    *out = tuple;
    return SL_OK;
}

enum status parse_symbol(struct parser *parser, struct str name, uint32_t *out) {
    struct template *template = parser->template;
    if (map_get(&template->symbols, name, out))
        return SL_OK;
    uint32_t symbol = (uint32_t) template->symbol_count, old;
    bool was_there;
    if (!mem_grow((void **)&template->symbol_names, &template->symbol_cap,
                  template->symbol_count + 1, sizeof *template->symbol_names) ||
        !map_put(&template->symbols, name, symbol, &old, &was_there))
        return error_memory(parser->err, sizeof name, "the names of a template");
    template->symbol_names[template->symbol_count++] = name;
    *out = symbol;
    return SL_OK;
}

enum status parse_enter(struct parser *parser) {
    if (++parser->depth > SL_TEMPLATE_DEPTH_MAX)
        return parse_fail(parser, parser->token.line, "nested more than %u levels deep",
                          SL_TEMPLATE_DEPTH_MAX);
    return SL_OK;
}

void parse_leave(struct parser *parser) {
    parser->depth--;
}

static enum status parse_statement(struct parser *parser, struct node **out);

static enum status expect_block_end(struct parser *parser) {
    if (parser->token.kind != TOKEN_BLOCK_END)
        return parse_unexpected(parser, "%}");
    return parse_advance(parser);
}

static bool at_any(const struct parser *parser, const char *const ends[]) {
    for (size_t i = 0; ends != NULL && ends[i] != NULL; i++)
        if (parse_at_name(parser, ends[i]))
            return true;
    return false;
}

/* Text, prints and statements up to a tag of one of the names in ends (left as the current token),
 * or up to the end of the source when ends is NULL. */
static enum status parse_until(struct parser *parser, const char *const ends[], struct node **out) {
    struct node **last = out;
    *out = NULL;
    for (;;) {
        uint32_t line = parser->token.line;
        switch (parser->token.kind) {
        case TOKEN_DATA:
            TRY(parse_node(parser, NODE_DATA, line, last));
            (*last)->data = parser->token.text;
            TRY(parse_advance(parser));
            break;
        case TOKEN_VARIABLE_BEGIN:
            TRY(parse_advance(parser));
            TRY(parse_node(parser, NODE_PRINT, line, last));
            TRY(expr_tuple(parser, true, NULL, &(*last)->operand));
            if (parser->token.kind != TOKEN_VARIABLE_END)
                return parse_unexpected(parser, "}}");
            TRY(parse_advance(parser));
            break;
        case TOKEN_BLOCK_BEGIN:
            TRY(parse_advance(parser));
            if (at_any(parser, ends))
                return SL_OK;
            TRY(parse_statement(parser, last));
            TRY(expect_block_end(parser));
            break;
        default:
            if (ends == NULL && parser->token.kind == TOKEN_END)
                return SL_OK;
            return parse_fail(parser, line, "the template ends, expected the tag '%s'",
                              ends == NULL ? "" : ends[0]);
        }
        while (*last != NULL)
            last = &(*last)->next;
    }
}

/* The body of a tag: its closing "%}", then all up to one of ends. */
static enum status parse_body(struct parser *parser, const char *const ends[], struct node **out) {
    bool colon;
    TRY(parse_skip(parser, OP_COLON, &colon));
    TRY(expect_block_end(parser));
    TRY(parse_enter(parser));
    TRY(parse_until(parser, ends, out));
    parse_leave(parser);
    return SL_OK;
}

/* As parse_body with one end, which is passed over. */
static enum status parse_whole_body(struct parser *parser, const char *end, struct node **out) {
    const char *const ends[] = {end, NULL};
    TRY(parse_body(parser, ends, out));
    return parse_advance(parser);
}

static enum status parse_if(struct parser *parser, struct node **out) {
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    TRY(parse_node(parser, NODE_IF, parser->token.line, out));
    struct node **branch = &(*out)->branch.body;
    for (;;) {
        bool is_else = parse_at_name(parser, "else");
        uint32_t line = parser->token.line;
        TRY(parse_advance(parser));
        TRY(parse_node(parser, NODE_BRANCH, line, branch));
        if (is_else)
            return parse_whole_body(parser, "endif", &(*branch)->branch.body);
        TRY(expr_tuple(parser, false, NULL, &(*branch)->branch.test));
        TRY(parse_body(parser, ends, &(*branch)->branch.body));
        if (parse_at_name(parser, "endif"))
            return parse_advance(parser);
        branch = &(*branch)->next;
    }
}

/* Whether an expression is a message's content, by the last name in it. */
static bool is_content(const struct node *node) {
    struct str name = {NULL, 0};
    if (node->kind == NODE_NAME)
        name = node->name.name;
    else if (node->kind == NODE_ATTRIBUTE)
        name = node->attribute.name;
    else if (node->kind == NODE_ITEM && node->item.index->kind == NODE_CONST &&
             node->item.index->constant.kind == VALUE_TEXT)
        name = node->item.index->constant.text;
    return str_ends(name, STR("content"));
}

static enum status parse_for(struct parser *parser, struct node **out) {
    static const char *const ends[] = {"endfor", "else", NULL};
    uint32_t line = parser->token.line;
    TRY(parse_advance(parser));
    TRY(parse_node(parser, NODE_FOR, line, out));
    struct node *node = *out;
    TRY(expr_target(parser, "in", false, &node->loop.target));
    bool was_there, is_loop = node->loop.target->kind == NODE_NAME &&
                              node->loop.target->name.symbol == parser->template->loop_symbol;
    if (is_loop)
        return parse_fail(parser, line, "a for loop cannot assign to the name 'loop'");
    TRY(parse_skip_name(parser, "in", &was_there));
    if (!was_there)
        return parse_unexpected(parser, "'in'");
    TRY(expr_tuple(parser, false, "recursive", &node->loop.iterable));
    if (is_content(node->loop.iterable))
        parser->template->takes_parts = true;
    TRY(parse_skip_name(parser, "if", &was_there));
    if (was_there)
        TRY(expr_parse(parser, &node->loop.filter));
    TRY(parse_skip_name(parser, "recursive", &node->loop.is_recursive));
    parser->loops++;
    TRY(parse_body(parser, ends, &node->loop.body));
    parser->loops--;
    bool has_else = parse_at_name(parser, "else");
    TRY(parse_advance(parser));
    return has_else ? parse_whole_body(parser, "endfor", &node->loop.otherwise) : SL_OK;
}

static enum status parse_set(struct parser *parser, struct node **out) {
    uint32_t line = parser->token.line;
    TRY(parse_advance(parser));
    TRY(parse_node(parser, NODE_SET, line, out));
    TRY(expr_target(parser, NULL, true, &(*out)->set.target));
    bool has_value;
    TRY(parse_skip(parser, OP_ASSIGN, &has_value));
    if (has_value)
        return expr_tuple(parser, true, NULL, &(*out)->set.value);
    (*out)->kind = NODE_SET_BLOCK;
    TRY(expr_filters(parser, false, &(*out)->set.value));
    return parse_whole_body(parser, "endset", &(*out)->set.body);
}

/* (a, b=1) of a macro or a call block. */
static enum status parse_signature(struct parser *parser, struct node *macro) {
    TRY(parse_expect(parser, OP_LPAREN, "'('"));
    struct node **last = &macro->macro.params;
    bool has_default = false;
    while (!parse_at(parser, OP_RPAREN)) {
        if (macro->macro.params != NULL)
            TRY(parse_expect(parser, OP_COMMA, "','"));
        TRY(parse_node(parser, NODE_PARAM, parser->token.line, last));
        struct node *param = *last;
        TRY(parse_expect_name(parser, &param->param.name));
        TRY(parse_symbol(parser, param->param.name, &param->param.symbol));
        bool was_there;
        TRY(parse_skip(parser, OP_ASSIGN, &was_there));
        if (was_there)
            TRY(expr_parse(parser, &param->param.initial));
        else if (has_default)
            return parse_fail(parser, param->line, "a parameter without default after one with");
        has_default |= was_there;
        macro->macro.param_count++;
        last = &param->next;
    }
    return parse_advance(parser);
}

/* Signature and body of a macro or call block, noting the special names that the body uses. */
static enum status parse_macro_body(struct parser *parser, struct node *macro, const char *end) {
    struct macro_uses uses = {.outer = parser->uses};
    uint32_t loops = parser->loops;
    parser->uses = &uses;
    parser->loops = 0;
    enum status status = parse_whole_body(parser, end, &macro->macro.body);
    parser->uses = uses.outer;
    parser->loops = loops;
    macro->macro.has_caller = uses.has_caller;
    macro->macro.has_varargs = uses.has_varargs;
    macro->macro.has_kwargs = uses.has_kwargs;
    return status;
}

static enum status parse_macro(struct parser *parser, struct node **out) {
    uint32_t line = parser->token.line;
    TRY(parse_advance(parser));
    TRY(parse_node(parser, NODE_MACRO, line, out));
    TRY(parse_expect_name(parser, &(*out)->macro.name));
    TRY(parse_symbol(parser, (*out)->macro.name, &(*out)->macro.symbol));
    TRY(parse_signature(parser, *out));
    return parse_macro_body(parser, *out, "endmacro");
}

static enum status parse_call_block(struct parser *parser, struct node **out) {
    uint32_t line = parser->token.line;
    TRY(parse_advance(parser));
    TRY(parse_node(parser, NODE_CALL_BLOCK, line, out));
    (*out)->macro.name = STR("caller");
    if (parse_at(parser, OP_LPAREN))
        TRY(parse_signature(parser, *out));
    TRY(expr_parse(parser, &(*out)->macro.call));
    if ((*out)->macro.call->kind != NODE_CALL)
        return parse_fail(parser, line, "expected a call after 'call'");
    return parse_macro_body(parser, *out, "endcall");
}

static enum status parse_filter_block(struct parser *parser, struct node **out) {
    uint32_t line = parser->token.line;
    TRY(parse_advance(parser));
    TRY(parse_node(parser, NODE_FILTER_BLOCK, line, out));
    TRY(expr_filters(parser, true, &(*out)->block.filter));
    return parse_whole_body(parser, "endfilter", &(*out)->block.body);
}

static enum status parse_with(struct parser *parser, struct node **out) {
    uint32_t line = parser->token.line;
    TRY(parse_advance(parser));
    TRY(parse_node(parser, NODE_WITH, line, out));
    struct node **last = &(*out)->block.sets;
    while (parser->token.kind != TOKEN_BLOCK_END) {
        if ((*out)->block.sets != NULL)
            TRY(parse_expect(parser, OP_COMMA, "','"));
        TRY(parse_node(parser, NODE_SET, parser->token.line, last));
        TRY(expr_target(parser, NULL, false, &(*last)->set.target));
        TRY(parse_expect(parser, OP_ASSIGN, "'='"));
        TRY(expr_parse(parser, &(*last)->set.value));
        last = &(*last)->next;
    }
    return parse_whole_body(parser, "endwith", &(*out)->block.body);
}

static enum status parse_generation(struct parser *parser, struct node **out) {
    TRY(parse_node(parser, NODE_SCOPE, parser->token.line, out));
    TRY(parse_advance(parser));
    return parse_whole_body(parser, "endgeneration", &(*out)->block.body);
}

static enum status parse_block(struct parser *parser, struct node **out) {
    TRY(parse_node(parser, NODE_SCOPE, parser->token.line, out));
    TRY(parse_advance(parser));
    struct str name;
    bool was_there;
    TRY(parse_expect_name(parser, &name));
    TRY(parse_skip_name(parser, "scoped", &was_there));
    TRY(parse_skip_name(parser, "required", &was_there));
    TRY(parse_whole_body(parser, "endblock", &(*out)->block.body));
    if (parser->token.kind == TOKEN_NAME && str_equal(parser->token.text, name))
        return parse_advance(parser);
    return SL_OK;
}

static enum status parse_print(struct parser *parser, struct node **out) {
    struct node **last = out;
    TRY(parse_advance(parser));
    *out = NULL;
    while (parser->token.kind != TOKEN_BLOCK_END) {
        if (*out != NULL)
            TRY(parse_expect(parser, OP_COMMA, "','"));
        TRY(parse_node(parser, NODE_PRINT, parser->token.line, last));
        TRY(expr_parse(parser, &(*last)->operand));
        last = &(*last)->next;
    }
    return *out == NULL ? parse_unexpected(parser, "an expression") : SL_OK;
}

static enum status parse_jump(struct parser *parser, struct node **out) {
    bool is_break = parse_at_name(parser, "break");
    if (parser->loops == 0)
        return parse_fail(parser, parser->token.line, "'%s' outside a loop",
                          is_break ? "break" : "continue");
    TRY(parse_node(parser, is_break ? NODE_BREAK : NODE_CONTINUE, parser->token.line, out));
    return parse_advance(parser);
}

static enum status parse_statement(struct parser *parser, struct node **out) {
    static const struct {
        const char *tag;
        enum status (*parse)(struct parser *, struct node **);
    } tags[] = {
        {"if", parse_if},           {"for", parse_for},
        {"set", parse_set},         {"macro", parse_macro},
        {"call", parse_call_block}, {"filter", parse_filter_block},
        {"with", parse_with},       {"generation", parse_generation},
        {"block", parse_block},     {"print", parse_print},
        {"break", parse_jump},      {"continue", parse_jump},
    };
    if (parser->token.kind != TOKEN_NAME)
        return parse_unexpected(parser, "the name of a tag");
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (parse_at_name(parser, tags[i].tag))
            return tags[i].parse(parser, out);
    return parse_fail(parser, parser->token.line, "the tag '%.*s' is not supported here",
                      STR_ARG(parser->token.text));
}

enum status parse_template(struct parser *parser) {
    TRY(parse_symbol(parser, STR("loop"), &parser->template->loop_symbol));
    TRY(parse_symbol(parser, STR("caller"), &parser->template->caller_symbol));
    TRY(parse_symbol(parser, STR("varargs"), &parser->template->varargs_symbol));
    TRY(parse_symbol(parser, STR("kwargs"), &parser->template->kwargs_symbol));
    TRY(parse_advance(parser));
    return parse_until(parser, NULL, &parser->template->body);
}
