/* Private to the template interpreter (template_*.c): tokens, the tree, the parser's state.
 *
 *   source -> lex_next (tokens) -> parse_* (statements), expr_* (expressions) -> nodes in the
 * template's arena, sealed and constant from then on. */
#ifndef SLUICE_TEXT_TEMPLATE_TREE_H
#define SLUICE_TEXT_TEMPLATE_TREE_H

#include "base/map.h"
#include "text/template_value.h"

#define SL_TEMPLATE_OPEN_MAX 512u /* brackets open at once in one tag */

enum token_kind {
    TOKEN_END,
    TOKEN_DATA,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_NUMBER, /* value is its constant */
    TOKEN_OPERATOR,
};

enum operator{
    OP_NONE,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_TILDE,
    OP_LBRACKET,
    OP_RBRACKET,
    OP_LPAREN,
    OP_RPAREN,
    OP_LBRACE,
    OP_RBRACE,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_ASSIGN,
    OP_DOT,
    OP_COLON,
    OP_PIPE,
    OP_COMMA,
    OP_SEMICOLON,
    OP_IN, /* operators spelled as words, in the tree only */
    OP_NOT_IN,
};

struct token {
    enum token_kind kind;
    enum operator op;
    uint32_t line;
    struct str text; /* data, name, decoded string, or the operator as written */
    struct value number;
};

enum lex_mode { LEX_ROOT, LEX_RAW, LEX_BLOCK, LEX_VARIABLE };

struct lexer {
    struct str source; /* line ends are LF, the last one dropped */
    const char *name;
    size_t at;
    uint32_t line;
    enum lex_mode mode;
    bool is_line_start; /* what was read last ended in a line feed */
    char open[SL_TEMPLATE_OPEN_MAX];
    size_t open_count;
    struct arena *arena;
    struct error *err;
};

/* Copies source into the arena in the lexer's form. */
enum status lex_init(struct lexer *lexer, struct str source, const char *name, struct arena *arena,
                     struct error *err);
enum status lex_next(struct lexer *lexer, struct token *token);

enum node_kind {
    NODE_CONST,
    NODE_NAME,
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT, /* keys and values in turn */
    NODE_CONCAT,
    NODE_NEGATE,
    NODE_PLUS,
    NODE_NOT,
    NODE_BINARY,
    NODE_AND,
    NODE_OR,
    NODE_COMPARE,
    NODE_OPERAND, /* of a comparison: binary.op, binary.right */
    NODE_CHOICE,  /* a if b else c */
    NODE_ATTRIBUTE,
    NODE_ITEM,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_NAMED,      /* name=value in a call */
    NODE_SPACE_NAME, /* ns.name as the target of set */

    NODE_DATA,
    NODE_PRINT,
    NODE_IF,
    NODE_BRANCH, /* of an if: test (NULL for else) and body */
    NODE_FOR,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_MACRO,
    NODE_PARAM,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_WITH,  /* of SETs, then the body */
    NODE_SCOPE, /* generation and block: the body in a scope of its own */
    NODE_BREAK,
    NODE_CONTINUE,
};

struct node_args {
    struct node *items, *named, *star, *star_star;
    uint32_t count, named_count;
};

struct node {
    enum node_kind kind;
    uint32_t line;
    struct node *next; /* in the list it belongs to */
    union {
        struct value constant;
        struct str data;
        struct {
            uint32_t symbol;
            struct str name;
        } name; /* also SPACE_NAME: symbol is the namespace, name the attribute */
        struct {
            struct node *first;
            uint32_t count;
        } list;
        struct node *operand;
        struct {
            enum operator op;
            struct node *left, *right; /* COMPARE: right is the first OPERAND */
        } binary;
        struct {
            struct node *test, *yes, *no;
        } choice;
        struct {
            struct node *object;
            struct str name;
        } attribute;
        struct {
            struct node *object, *index;
        } item;
        struct {
            struct node *object, *bounds[3];
        } slice;
        struct {
            struct node *target;           /* callee or input; NULL: the text of the block */
            const struct builtin *builtin; /* NULL in a filter or test: unknown */
            struct str name;
            struct node_args *args;
            bool is_negated;
        } call;
        struct {
            struct str name;
            struct node *value;
        } named;
        struct {
            struct node *test, *body;
        } branch; /* IF: body is the first BRANCH */
        struct {
            struct node *target, *iterable, *filter, *body, *otherwise;
            bool is_recursive;
        } loop;
        struct {
            struct node *target, *value, *body; /* SET_BLOCK: value is a filter or NULL */
        } set;
        struct {
            uint32_t symbol; /* MACRO's name */
            uint32_t param_count;
            struct str name;
            struct node *params, *body, *call; /* call: of a CALL_BLOCK */
            bool has_caller, has_varargs, has_kwargs;
        } macro;
        struct {
            uint32_t symbol;
            struct str name;
            struct node *initial; /* default, NULL if none */
        } param;
        struct {
            struct node *filter, *sets, *body;
        } block;
    };
};

struct template {
    struct arena arena;
    const char *name;
    struct node *body;
    struct map symbols;
    struct str *symbol_names;
    size_t symbol_count, symbol_cap;
    uint32_t loop_symbol, caller_symbol, varargs_symbol, kwargs_symbol;
    bool takes_parts;
    struct str source;
};

/* Which of the special names the body of a macro uses; a stack along nested macros. */
struct macro_uses {
    struct macro_uses *outer;
    bool has_caller, has_varargs, has_kwargs;
};

struct parser {
    struct lexer lexer;
    struct token token, ahead; /* the one to look at, and the one after if has_ahead */
    bool has_ahead;
    struct template *template;
    struct macro_uses *uses;
    uint32_t depth, loops;
    struct error *err;
};

/* "NAME line N: ..." as SL_ERR_ENV. */
enum status parse_fail(struct parser *parser, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The token that is there is not what should be. */
enum status parse_unexpected(struct parser *parser, const char *expected);
enum status parse_advance(struct parser *parser);
enum status parse_look(struct parser *parser, struct token *out); /* the token after this one */
bool parse_at(const struct parser *parser, enum operator op);
bool parse_at_name(const struct parser *parser, const char *name);
/* At what no tuple goes on behind: the end of a tag, a parenthesis, the name `end` (may be NULL).
 */
bool parse_at_tuple_end(const struct parser *parser, const char *end);
enum status parse_skip(struct parser *parser, enum operator op, bool *was_there);
enum status parse_skip_name(struct parser *parser, const char *name, bool *was_there);
enum status parse_expect(struct parser *parser, enum operator op, const char *spelling);
enum status parse_expect_name(struct parser *parser, struct str *out);
enum status parse_node(struct parser *parser, enum node_kind kind, uint32_t line,
                       struct node **out);
/* `first` itself, or a tuple of the count nodes that begin with it; count 0: no comma was there. */
enum status parse_one_or_tuple(struct parser *parser, struct node *first, uint32_t count,
                               uint32_t line, struct node **out);
enum status parse_symbol(struct parser *parser, struct str name, uint32_t *out);
/* Deeper by one level of nesting, and back. */
enum status parse_enter(struct parser *parser);
void parse_leave(struct parser *parser);
/* All of the source. */
enum status parse_template(struct parser *parser);

/* template_expr.c and template_primary.c */
enum status expr_parse(struct parser *parser, struct node **out);
/* A name (a constant if it is true, none, ..), string, number or bracketed expression. */
enum status expr_primary(struct parser *parser, struct node **out);
/* .name, [index], [a:b:c] and (args) after *node. */
enum status expr_postfix(struct parser *parser, struct node **node);
enum status expr_call(struct parser *parser, struct node **node);
/* Expressions separated by commas make a tuple. has_choice false: no inline if. end: a name that
 * ends it, or NULL. */
enum status expr_tuple(struct parser *parser, bool has_choice, const char *end, struct node **out);
/* What set and for assign to. Names, tuples of them; ns.name if allows_space. */
enum status expr_target(struct parser *parser, const char *end, bool allows_space,
                        struct node **out);
enum status expr_args(struct parser *parser, struct node_args **out);
/* |name(args)|... on *node (NULL: the text of the block). is_first: the first has no '|'. */
enum status expr_filters(struct parser *parser, bool is_first, struct node **node);

/* template_eval.c and template_exec.c */
enum status eval(struct render *render, const struct node *node, struct value *out);
enum status eval_args(struct render *render, const struct node_args *node,
                      struct arguments *arguments, size_t spare_named);
enum status eval_enter(struct render *render, uint32_t line);
void eval_leave(struct render *render);
enum status exec_body(struct render *render, const struct node *body);
enum status exec_lookup(struct render *render, const struct node *name, struct value *out);

#endif
