/* Tokens of a template, by the rules of Jinja2's lexer with trim_blocks and lstrip_blocks: the end
 * of a block takes the line feed after it, white space alone before a block on its line goes, '-'
 * takes all white space beside a tag, '+' keeps it. Line statements do not exist. Refuses text that
 * is not UTF-8. */
#include "text/template_tree.h"

#include "text/template_chars.h"

#include <string.h>

static const struct {
    const char *text;
    enum operator op;
} operators[] = {
    {"**", OP_POW},     {"//", OP_FLOORDIV}, {"==", OP_EQ},    {"!=", OP_NE},
    {">=", OP_GE},      {"<=", OP_LE},       {"+", OP_ADD},    {"-", OP_SUB},
    {"*", OP_MUL},      {"/", OP_DIV},       {"%", OP_MOD},    {"~", OP_TILDE},
    {"[", OP_LBRACKET}, {"]", OP_RBRACKET},  {"(", OP_LPAREN}, {")", OP_RPAREN},
    {"{", OP_LBRACE},   {"}", OP_RBRACE},    {">", OP_GT},     {"<", OP_LT},
    {"=", OP_ASSIGN},   {".", OP_DOT},       {":", OP_COLON},  {"|", OP_PIPE},
    {",", OP_COMMA},    {";", OP_SEMICOLON},
};

static enum status fail(const struct lexer *lexer, const char *what) {
    return error_set(lexer->err, SL_ERR_ENV, "%s line %u: %s", lexer->name, lexer->line, what);
}

enum status lex_init(struct lexer *lexer, struct str source, const char *name, struct arena *arena,
                     struct error *err) {
    *lexer = (struct lexer){.name = name,
                            .line = 1,
                            .mode = LEX_ROOT,
                            .is_line_start = true,
                            .arena = arena,
                            .err = err};
    if (source.len > SL_TEMPLATE_SOURCE_MAX)
        return error_set(err, SL_ERR_ENV, "%s: the template has %zu bytes, more than %zu", name,
                         source.len, SL_TEMPLATE_SOURCE_MAX);
    size_t valid = utf8_valid_len(source);
    if (valid < source.len)
        return error_set(err, SL_ERR_ENV, "%s: the template is not UTF-8 (byte %zu)", name, valid);
    char *text = arena_take(arena, source.len + 1);
    if (text == NULL)
        return error_memory(err, source.len + 1, "a template");
    size_t len = 0;
    for (size_t i = 0; i < source.len; i++) {
        char c = source.data[i];
        if (c == '\r') {
            c = '\n';
            if (i + 1 < source.len && source.data[i + 1] == '\n')
                i++;
        }
        text[len++] = c;
    }
    if (len > 0 && text[len - 1] == '\n')
        len--;
    lexer->source = (struct str){text, len};
    return SL_OK;
}

static char byte_at(const struct lexer *lexer, size_t at) {
    return at < lexer->source.len ? lexer->source.data[at] : '\0';
}

static bool starts(const struct lexer *lexer, size_t at, const char *text) {
    size_t len = strlen(text);
    return at <= lexer->source.len && lexer->source.len - at >= len &&
           memcmp(lexer->source.data + at, text, len) == 0;
}

static size_t skip_space(const struct lexer *lexer, size_t at) {
    while (at < lexer->source.len) {
        size_t next = at;
        if (!chars_is_space(utf8_next(lexer->source, &next)))
            break;
        at = next;
    }
    return at;
}

static void move_to(struct lexer *lexer, size_t at) {
    for (size_t i = lexer->at; i < at; i++)
        lexer->line += lexer->source.data[i] == '\n';
    if (at > lexer->at)
        lexer->is_line_start = lexer->source.data[at - 1] == '\n';
    lexer->at = at;
}

/* Where a block, comment or endraw tag that ends at `at` with close ("%}") leaves off; 0 when it
 * does not end here. */
static size_t tag_end(const struct lexer *lexer, size_t at, const char *close) {
    char sign = byte_at(lexer, at);
    size_t from = at + (sign == '-' || sign == '+');
    if (!starts(lexer, from, close))
        return 0;
    if (sign == '-')
        return skip_space(lexer, from + 2);
    if (sign != '+' && byte_at(lexer, from + 2) == '\n')
        return from + 3;
    return from + 2;
}

/* `{% raw %}` at `at`: where the raw text begins; 0 when there is none. */
static size_t raw_begin(const struct lexer *lexer, size_t at) {
    if (!starts(lexer, at, "{%"))
        return 0;
    char sign = byte_at(lexer, at + 2);
    size_t word = skip_space(lexer, at + 2 + (sign == '-' || sign == '+'));
    if (!starts(lexer, word, "raw"))
        return 0;
    size_t end = skip_space(lexer, word + 3);
    if (starts(lexer, end, "-%}"))
        return skip_space(lexer, end + 3);
    return starts(lexer, end, "%}") ? end + 2 : 0;
}

/* `{% endraw %}` at `at`: where it leaves off; 0 when there is none. */
static size_t raw_end(const struct lexer *lexer, size_t at) {
    if (!starts(lexer, at, "{%"))
        return 0;
    char sign = byte_at(lexer, at + 2);
    size_t word = skip_space(lexer, at + 2 + (sign == '-' || sign == '+'));
    if (!starts(lexer, word, "endraw"))
        return 0;
    return tag_end(lexer, skip_space(lexer, word + 6), "%}");
}

/* Text from the lexer's place up to the tag at `tag`, less what the tag's sign takes away. */
static struct str data_before(const struct lexer *lexer, size_t tag) {
    struct str text = str_cut(lexer->source, lexer->at, tag);
    char sign = byte_at(lexer, tag + 2);
    if (sign == '-')
        return text_strip(text, TEXT_RIGHT, (struct str){NULL, 0});
    if (sign == '+' || byte_at(lexer, tag + 1) == '{')
        return text;
    size_t line = text.len;
    while (line > 0 && text.data[line - 1] != '\n')
        line--;
    if (line == 0 && !lexer->is_line_start)
        return text;
    struct str rest = str_cut(text, line, text.len);
    if (text_strip(rest, TEXT_LEFT, (struct str){NULL, 0}).len == 0)
        text.len = line;
    return text;
}

/* The first tag at or after the lexer's place; the source's length when there is none. */
static size_t find_tag(const struct lexer *lexer) {
    size_t at = lexer->at;
    while (at + 1 < lexer->source.len) {
        const char *brace = memchr(lexer->source.data + at, '{', lexer->source.len - 1 - at);
        if (brace == NULL)
            break;
        at = (size_t)(brace - lexer->source.data);
        char second = lexer->source.data[at + 1];
        if (second == '%' || second == '{' || second == '#')
            return at;
        at++;
    }
    return lexer->source.len;
}

static enum status skip_comment(struct lexer *lexer) {
    size_t at = lexer->at + 2;
    char sign = byte_at(lexer, at);
    at += sign == '-' || sign == '+';
    for (size_t start = at; at <= lexer->source.len; at++) {
        size_t end = tag_end(lexer, at, "#}");
        if (start == lexer->source.len) /* a comment that begins at the very end is closed */
            end = start;
        if (end > 0) {
            move_to(lexer, end);
            return SL_OK;
        }
    }
    return fail(lexer, "missing end of comment tag");
}

static enum status next_root(struct lexer *lexer, struct token *token) {
    while (lexer->at < lexer->source.len) {
        size_t tag = find_tag(lexer);
        struct str text = tag < lexer->source.len ? data_before(lexer, tag)
                                                  : str_cut(lexer->source, lexer->at, tag);
        if (tag > lexer->at) {
            *token = (struct token){.kind = TOKEN_DATA, .line = lexer->line, .text = text};
            move_to(lexer, tag);
            if (text.len > 0)
                return SL_OK;
            continue;
        }
        size_t raw = raw_begin(lexer, tag);
        if (raw > 0) {
            move_to(lexer, raw);
            lexer->mode = LEX_RAW;
            return SL_OK; /* token is filled by next_raw */
        }
        if (byte_at(lexer, tag + 1) == '#') {
            TRY(skip_comment(lexer));
            continue;
        }
        bool is_block = byte_at(lexer, tag + 1) == '%';
        char sign = byte_at(lexer, tag + 2);
        *token = (struct token){.kind = is_block ? TOKEN_BLOCK_BEGIN : TOKEN_VARIABLE_BEGIN,
                                .line = lexer->line};
        move_to(lexer, tag + 2 + (sign == '-' || sign == '+'));
        lexer->mode = is_block ? LEX_BLOCK : LEX_VARIABLE;
        return SL_OK;
    }
    *token = (struct token){.kind = TOKEN_END, .line = lexer->line};
    return SL_OK;
}

static enum status next_raw(struct lexer *lexer, struct token *token) {
    if (lexer->at == lexer->source.len) { /* raw text that begins at the very end is closed */
        *token = (struct token){.kind = TOKEN_END, .line = lexer->line};
        return SL_OK;
    }
    for (size_t at = lexer->at; at + 1 < lexer->source.len; at++) {
        const char *brace = memchr(lexer->source.data + at, '{', lexer->source.len - at);
        if (brace == NULL)
            break;
        at = (size_t)(brace - lexer->source.data);
        size_t end = raw_end(lexer, at);
        if (end == 0)
            continue;
        *token =
            (struct token){.kind = TOKEN_DATA, .line = lexer->line, .text = data_before(lexer, at)};
        move_to(lexer, end);
        lexer->mode = LEX_ROOT;
        return SL_OK;
    }
    return fail(lexer, "missing end of raw directive");
}

static bool is_digit(char c, int base) {
    if (base <= 10)
        return c >= '0' && c < '0' + base;
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Digits with single underscores between them from `at` on: the place after; `at` if none. */
static size_t digits_end(const struct lexer *lexer, size_t at, int base) {
    size_t end = at;
    while (is_digit(byte_at(lexer, end), base) ||
           (end > at && byte_at(lexer, end) == '_' && is_digit(byte_at(lexer, end + 1), base)))
        end++;
    return end;
}

/* The place after a float at `at`; 0 when it is none. */
static size_t float_end(const struct lexer *lexer, size_t at) {
    if (at > 0 && lexer->source.data[at - 1] == '.')
        return 0;
    size_t end = digits_end(lexer, at, 10);
    bool is_float = false;
    if (byte_at(lexer, end) == '.' && is_digit(byte_at(lexer, end + 1), 10)) {
        end = digits_end(lexer, end + 1, 10);
        is_float = true;
    }
    char c = byte_at(lexer, end);
    if (c == 'e' || c == 'E') {
        char sign = byte_at(lexer, end + 1);
        size_t from = end + 1 + (sign == '+' || sign == '-');
        size_t last = digits_end(lexer, from, 10);
        if (last > from)
            return last;
    }
    return is_float ? end : 0;
}

/* The digits of a number without '_', terminated, in the arena. */
static char *plain_digits(struct lexer *lexer, size_t from, size_t to) {
    char *text = arena_take(lexer->arena, to - from + 1);
    size_t len = 0;
    for (size_t i = from; text != NULL && i < to; i++)
        if (lexer->source.data[i] != '_')
            text[len++] = lexer->source.data[i];
    return text;
}

static enum status next_number(struct lexer *lexer, struct token *token) {
    size_t from = lexer->at, end = float_end(lexer, from);
    bool is_float = end > 0;
    int base = 10;
    if (!is_float) {
        char kind = byte_at(lexer, from) == '0' ? (char)(byte_at(lexer, from + 1) | 0x20) : '\0';
        int radix = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
        size_t prefixed = from + 2 + (byte_at(lexer, from + 2) == '_');
        if (radix != 10 && digits_end(lexer, prefixed, radix) > prefixed) {
            base = radix;
            from = prefixed;
        }
        end = digits_end(lexer, from, base);
        if (base == 10 && byte_at(lexer, from) == '0')
            for (end = from + 1; byte_at(lexer, end) == '0';)
                end++;
    }
    char *text = plain_digits(lexer, from, end);
    if (text == NULL)
        return error_memory(lexer->err, end - from, "a template");
    token->kind = TOKEN_NUMBER;
    if (is_float) {
        double real;
        if (!number_read_float(str_from(text), &real))
            return fail(lexer, "a number that cannot be read");
        token->number = value_float(real);
    } else if (!number_read_int(str_from(text), base, &token->number)) {
        return fail(lexer, "an integer outside 64 bits that is not decimal");
    }
    move_to(lexer, end);
    return SL_OK;
}

/* What stands for the character after a backslash, '\0' when it is written in another way. */
static char simple_escape(char c) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *found = c == '\0' ? NULL : strchr(from, c);
    return found == NULL ? '\0' : to[found - from];
}

/* An escape with digits (\x41, \u0041, \U00000041, \101) at `at`, the place after the backslash.
 * Gives the place after it; 0 when it is none, SIZE_MAX when it is a bad one. */
static size_t digit_escape(struct str text, size_t at, uint32_t *code) {
    char c = text.data[at];
    int base = c == 'x' || c == 'u' || c == 'U' ? 16 : 8;
    size_t from = base == 16 ? at + 1 : at;
    size_t max = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 3, end = from;
    *code = 0;
    while (end < text.len && end - from < max && is_digit(text.data[end], base)) {
        char d = text.data[end++];
        uint32_t digit = (uint32_t)(d <= '9' ? d - '0' : (d | 0x20) - 'a' + 10);
        *code = *code * (uint32_t)base + digit;
    }
    if (base == 8)
        return end == from ? 0 : end;
    return end - from == max && *code <= 0x10FFFF ? end : SIZE_MAX;
}

/* Decodes the escapes of a string as Python does after Jinja made it ASCII: an unknown escape stays
 * as written, and so does a character beyond ASCII after a backslash, spelled out. */
static enum status add_unescaped(struct lexer *lexer, struct str text, struct buf *buf) {
    for (size_t at = 0; at < text.len;) {
        char c = text.data[at++];
        if (c != '\\' || at == text.len) {
            buf_add_char(buf, c);
            continue;
        }
        char next = text.data[at];
        uint32_t code;
        size_t end = digit_escape(text, at, &code);
        if (simple_escape(next) != '\0') {
            buf_add_char(buf, simple_escape(next));
            at++;
        } else if (next == '\n') {
            at++;
        } else if (end == SIZE_MAX || next == 'N') {
            return fail(lexer, "a string holds a \\x, \\u, \\U or \\N escape that cannot be read");
        } else if (end > 0) {
            buf_add_utf8(buf, code);
            at = end;
        } else if ((unsigned char)next >= 0x80) {
            uint32_t point = utf8_next(text, &at);
            const char *form = point < 0x100 ? "\\x%02x" : point < 0x10000 ? "\\u%04x" : "\\U%08x";
            buf_printf(buf, form, point);
        } else {
            buf_add_char(buf, '\\');
        }
    }
    return SL_OK;
}

static enum status next_string(struct lexer *lexer, struct token *token) {
    char quote = lexer->source.data[lexer->at];
    size_t from = lexer->at + 1, end = from;
    bool has_escape = false;
    while (end < lexer->source.len && lexer->source.data[end] != quote) {
        has_escape |= lexer->source.data[end] == '\\';
        end += lexer->source.data[end] == '\\' ? 2 : 1;
    }
    if (end >= lexer->source.len)
        return fail(lexer, "a string without its closing quote");
    token->kind = TOKEN_STRING;
    token->text = str_cut(lexer->source, from, end);
    if (has_escape) {
        struct buf buf;
        buf_init(&buf);
        enum status status = add_unescaped(lexer, token->text, &buf);
        if (status == SL_OK)
            status = buf_status(&buf, "a string of a template", lexer->err);
        char *copy = status == SL_OK ? arena_take(lexer->arena, buf.len + 1) : NULL;
        if (status == SL_OK && copy == NULL)
            status = error_memory(lexer->err, buf.len, "a string of a template");
        if (status == SL_OK) {
            if (buf.len > 0)
                memcpy(copy, buf.data, buf.len);
            token->text = (struct str){copy, buf.len};
        }
        buf_release(&buf);
        TRY(status);
    }
    move_to(lexer, end + 1);
    return SL_OK;
}

static bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static enum status next_name(struct lexer *lexer, struct token *token) {
    size_t end = lexer->at;
    while (end < lexer->source.len && is_name_byte(lexer->source.data[end])) {
        size_t next = end;
        if (!chars_is_name(utf8_next(lexer->source, &next)))
            break;
        end = next;
    }
    if (end == lexer->at)
        return fail(lexer, "an unexpected character");
    token->kind = TOKEN_NAME;
    token->text = str_cut(lexer->source, lexer->at, end);
    move_to(lexer, end);
    return SL_OK;
}

/* Keeps account of brackets: the end of a tag counts only where all are closed. */
static enum status balance(struct lexer *lexer, char c) {
    char close = c == '{' ? '}' : c == '(' ? ')' : c == '[' ? ']' : '\0';
    if (close != '\0') {
        if (lexer->open_count == SL_TEMPLATE_OPEN_MAX)
            return fail(lexer, "too many brackets are open");
        lexer->open[lexer->open_count++] = close;
    } else if (c == '}' || c == ')' || c == ']') {
        if (lexer->open_count == 0 || lexer->open[--lexer->open_count] != c)
            return error_set(lexer->err, SL_ERR_ENV, "%s line %u: unexpected '%c'", lexer->name,
                             lexer->line, c);
    }
    return SL_OK;
}

static enum status next_operator(struct lexer *lexer, struct token *token) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!starts(lexer, lexer->at, operators[i].text))
            continue;
        size_t len = strlen(operators[i].text);
        token->kind = TOKEN_OPERATOR;
        token->op = operators[i].op;
        token->text = str_cut(lexer->source, lexer->at, lexer->at + len);
        TRY(balance(lexer, operators[i].text[0]));
        move_to(lexer, lexer->at + len);
        return SL_OK;
    }
    return error_set(lexer->err, SL_ERR_ENV, "%s line %u: unexpected character '%c'", lexer->name,
                     lexer->line, lexer->source.data[lexer->at]);
}

static enum status next_in_tag(struct lexer *lexer, struct token *token) {
    move_to(lexer, skip_space(lexer, lexer->at));
    *token = (struct token){.kind = TOKEN_END, .line = lexer->line};
    if (lexer->at >= lexer->source.len)
        return SL_OK;
    if (lexer->open_count == 0) {
        size_t end = 0;
        if (lexer->mode == LEX_BLOCK)
            end = tag_end(lexer, lexer->at, "%}");
        else if (starts(lexer, lexer->at, "-}}"))
            end = skip_space(lexer, lexer->at + 3);
        else if (starts(lexer, lexer->at, "}}"))
            end = lexer->at + 2;
        if (end > 0) {
            token->kind = lexer->mode == LEX_BLOCK ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END;
            lexer->mode = LEX_ROOT;
            move_to(lexer, end);
            return SL_OK;
        }
    }
    char c = lexer->source.data[lexer->at];
    if (c >= '0' && c <= '9')
        return next_number(lexer, token);
    if (c == '"' || c == '\'')
        return next_string(lexer, token);
    if (is_name_byte(c))
        return next_name(lexer, token);
    return next_operator(lexer, token);
}

enum status lex_next(struct lexer *lexer, struct token *token) {
    if (lexer->mode == LEX_ROOT)
        TRY(next_root(lexer, token));
    else if (lexer->mode != LEX_RAW)
        return next_in_tag(lexer, token);
    if (lexer->mode == LEX_RAW)
        return next_raw(lexer, token);
    return SL_OK;
}
