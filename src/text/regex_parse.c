/* Owns the syntax of patterns: Oniguruma's Ruby syntax in, PCRE2's out. Every character, class and
 * escape becomes a set of code points; groups, alternatives, lookarounds and quantifiers are passed
 * on. Refuses, by name, what would mean something else there: back references, conditionals, named
 * calls, absent operators and the like. Bounded by the length of the pattern and stacks of fixed
 * depth. */
#include "text/regex_parse.h"

#include "text/regex.h"

#include <string.h>

#define GROUPS_MAX 64
#define CLASSES_MAX 8     /* brackets inside brackets */
#define REPEAT_MAX 65535u /* PCRE2's own limit */

struct group {
    size_t start; /* where it begins in the output */
    bool ignores_case, dot_is_all;
    bool is_lookaround;
};

struct parser {
    struct str pattern;
    size_t at;
    struct regex_parsed *parsed;
    struct group groups[GROUPS_MAX];
    size_t depth;
    bool ignores_case, dot_is_all;
    size_t atom; /* where the last thing that a quantifier can follow begins; SIZE_MAX: nothing */
    struct error *err;
};

static enum status refuse(struct parser *parser, const char *what) {
    return error_set(parser->err, SL_ERR_ENV, "%s is not supported in the regex %.*s (at byte %zu)",
                     what, STR_ARG(parser->pattern), parser->at);
}

static bool looking_at(const struct parser *parser, const char *text) {
    return str_starts(str_cut(parser->pattern, parser->at, parser->pattern.len), str_from(text));
}

static bool take(struct parser *parser, const char *text) {
    if (!looking_at(parser, text))
        return false;
    parser->at += strlen(text);
    return true;
}

/* Writes a reference to the set and takes it over; an equal one is shared. */
static enum status emit_set(struct parser *parser, struct charset *set) {
    struct regex_parsed *parsed = parser->parsed;
    charset_settle(set);
    if (set->has_failed) {
        charset_release(set);
        return error_memory(parser->err, sizeof *set, "a regex");
    }
    size_t index = 0;
    while (index < parsed->set_count && !charset_equal(&parsed->sets[index], set))
        index++;
    if (index == parsed->set_count) {
        if (index == SL_REGEX_SETS_MAX) {
            charset_release(set);
            return refuse(parser, "more than 255 different characters and classes");
        }
        parsed->sets[parsed->set_count++] = *set;
    } else {
        charset_release(set);
    }
    *set = (struct charset){0};
    parser->atom = parsed->syntax.len;
    buf_add_char(&parsed->syntax, SL_REGEX_SET);
    buf_add_char(&parsed->syntax, (char)(index + 1));
    return SL_OK;
}

static void emit(struct parser *parser, const char *text) {
    buf_add(&parser->parsed->syntax, str_from(text));
}

static bool take_hex(struct parser *parser, size_t digits_min, size_t digits_max, uint32_t *out) {
    uint32_t value = 0;
    size_t count = 0;
    while (count < digits_max && parser->at < parser->pattern.len) {
        char c = parser->pattern.data[parser->at];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A' + 10);
        else
            break;
        value = value << 4 | digit;
        count++;
        parser->at++;
    }
    *out = value;
    return count >= digits_min && value < SL_UNICODE_END;
}

/* What an escape stands for: a code point, or (is_class) the members added to set. */
struct escape {
    uint32_t code_point;
    bool is_class;
};

/* \p{..} and \P{..}; at stands behind the p. */
static enum status parse_property(struct parser *parser, bool is_negated, struct charset *set) {
    size_t end = str_find(parser->pattern, STR("}"), parser->at);
    if (!looking_at(parser, "{") || end == SIZE_MAX)
        return refuse(parser, "\\p without a name in braces");
    struct str name = str_cut(parser->pattern, parser->at + 1, end);
    if (name.len && name.data[0] == '^') {
        is_negated = !is_negated;
        name = str_cut(name, 1, name.len);
    }
    if (parser->ignores_case && (str_is(name, "Lu") || str_is(name, "Ll") || str_is(name, "Lt")))
        return refuse(parser, "a class of one case under (?i)");
    struct charset members = {0};
    bool is_known = charset_add_property(&members, name);
    charset_settle(&members);
    if (is_negated)
        charset_negate(&members);
    charset_add_set(set, &members);
    charset_release(&members);
    if (!is_known)
        return error_set(parser->err, SL_ERR_ENV,
                         "the property \\p{%.*s} is not supported in the regex %.*s", STR_ARG(name),
                         STR_ARG(parser->pattern));
    parser->at = end + 1;
    return SL_OK;
}

static void add_class(struct charset *set, char letter) {
    struct charset members = {0};
    char lower = letter >= 'A' && letter <= 'Z' ? (char)(letter + 32) : letter;
    if (lower == 's')
        charset_add_space(&members);
    else if (lower == 'd')
        charset_add_digit(&members);
    else
        charset_add_word(&members);
    charset_settle(&members);
    if (lower != letter)
        charset_negate(&members);
    charset_add_set(set, &members);
    charset_release(&members);
}

/* The escape behind a backslash; at stands behind the backslash. */
static enum status parse_escape(struct parser *parser, struct charset *set, struct escape *out) {
    static const char plain[] = "tnrfvae", values[] = "\t\n\r\f\v\a\x1b";
    if (parser->at >= parser->pattern.len)
        return refuse(parser, "a backslash at the end");
    uint32_t c = utf8_next(parser->pattern, &parser->at);
    *out = (struct escape){.code_point = c};
    if (c >= 0x80)
        return SL_OK;
    const char *found = c ? strchr(plain, (int)c) : NULL;
    if (found) {
        out->code_point = (unsigned char)values[found - plain];
        return SL_OK;
    }
    if (strchr("sSdDwW", (int)c)) {
        out->is_class = true;
        add_class(set, (char)c);
        return SL_OK;
    }
    if (c == 'p' || c == 'P') {
        out->is_class = true;
        return parse_property(parser, c == 'P', set);
    }
    bool is_good = true;
    if (c == 'x' && take(parser, "{"))
        is_good = take_hex(parser, 1, 8, &out->code_point) && take(parser, "}");
    else if (c == 'x')
        is_good = take_hex(parser, 1, 2, &out->code_point) && out->code_point < 0x80;
    else if (c == 'u')
        is_good = take_hex(parser, 4, 4, &out->code_point);
    else if (c == '0')
        out->code_point = 0;
    else
        is_good = !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9'));
    if (!is_good) {
        char name[] = {'\\', (char)c, '\0'};
        return refuse(parser, name);
    }
    return SL_OK;
}

/* ---- Bracket classes */

struct bracket {
    struct charset members;  /* classes and nested brackets: never folded */
    struct charset literals; /* characters and ranges, folded under (?i) */
    struct charset meet;     /* what stands before a && */
    bool is_negated, has_meet;
};

static void bracket_release(struct bracket *bracket) {
    charset_release(&bracket->members);
    charset_release(&bracket->literals);
    charset_release(&bracket->meet);
}

static const struct {
    const char *name;
    char class; /* the letter of the escape that means the same */
} posix_names[] = {{"[:space:]", 's'}, {"[:digit:]", 'd'}, {"[:word:]", 'w'}};

/* Ends the part of a bracket before && or ]: what it holds becomes bracket->members, settled. */
static enum status bracket_part(struct parser *parser, struct bracket *bracket) {
    charset_settle(&bracket->literals);
    if (parser->ignores_case && !charset_fold(&bracket->literals))
        return refuse(parser, "a letter with a case beyond ASCII under (?i)");
    charset_add_set(&bracket->members, &bracket->literals);
    charset_settle(&bracket->members);
    charset_release(&bracket->literals);
    if (bracket->has_meet)
        charset_intersect(&bracket->members, &bracket->meet);
    charset_release(&bracket->meet);
    return SL_OK;
}

/* One item that is no bracket: a character, a range, an escape. */
static enum status parse_item(struct parser *parser, struct bracket *bracket) {
    struct escape from = {0};
    if (take(parser, "\\"))
        TRY(parse_escape(parser, &bracket->members, &from));
    else
        from.code_point = utf8_next(parser->pattern, &parser->at);
    if (from.is_class)
        return SL_OK;
    bool is_range = looking_at(parser, "-") && parser->at + 1 < parser->pattern.len &&
                    parser->pattern.data[parser->at + 1] != ']';
    if (!is_range) {
        charset_add(&bracket->literals, from.code_point, from.code_point);
        return SL_OK;
    }
    parser->at++;
    struct escape to = {0};
    if (looking_at(parser, "["))
        return refuse(parser, "a range that ends in a bracket");
    if (take(parser, "\\"))
        TRY(parse_escape(parser, &bracket->members, &to));
    else
        to.code_point = utf8_next(parser->pattern, &parser->at);
    if (to.is_class)
        return refuse(parser, "a range that ends in a class");
    if (to.code_point < from.code_point)
        return refuse(parser, "a range that runs backwards");
    charset_add(&bracket->literals, from.code_point, to.code_point);
    return SL_OK;
}

static enum status open_bracket(struct parser *parser, struct bracket *stack, size_t *depth) {
    if (*depth == CLASSES_MAX)
        return refuse(parser, "a class nested this deep");
    struct bracket *bracket = &stack[(*depth)++];
    *bracket = (struct bracket){.is_negated = take(parser, "^")};
    if (looking_at(parser, "]")) { /* first: a literal */
        parser->at++;
        charset_add(&bracket->literals, ']', ']');
    }
    return SL_OK;
}

/* Closes the innermost bracket into the one around it, or into *out at the outermost. */
static enum status close_bracket(struct parser *parser, struct bracket *stack, size_t *depth,
                                 struct charset *out) {
    struct bracket *bracket = &stack[*depth - 1];
    TRY(bracket_part(parser, bracket));
    if (bracket->is_negated)
        charset_negate(&bracket->members);
    struct charset *into = *depth > 1 ? &stack[*depth - 2].members : out;
    charset_add_set(into, &bracket->members);
    bracket_release(bracket);
    (*depth)--;
    return SL_OK;
}

/* A whole [...]; at stands behind the first bracket. On failure the caller releases the stack. */
static enum status parse_brackets(struct parser *parser, struct bracket *stack, size_t *depth,
                                  struct charset *out) {
    TRY(open_bracket(parser, stack, depth));
    while (*depth) {
        struct bracket *bracket = &stack[*depth - 1];
        if (parser->at >= parser->pattern.len)
            return refuse(parser, "a class without its closing bracket");
        if (looking_at(parser, "[:")) {
            size_t i = 0, count = sizeof posix_names / sizeof posix_names[0];
            while (i < count && !take(parser, posix_names[i].name))
                i++;
            if (i == count)
                return refuse(parser, "a [:class:] in brackets");
            add_class(&bracket->members, posix_names[i].class);
        } else if (take(parser, "[")) {
            TRY(open_bracket(parser, stack, depth));
        } else if (take(parser, "]")) {
            TRY(close_bracket(parser, stack, depth, out));
        } else if (take(parser, "&&")) {
            TRY(bracket_part(parser, bracket));
            bracket->meet = bracket->members;
            bracket->has_meet = true;
            bracket->members = (struct charset){0};
        } else {
            TRY(parse_item(parser, bracket));
        }
    }
    return SL_OK;
}

static enum status parse_class(struct parser *parser) {
    struct bracket stack[CLASSES_MAX];
    size_t depth = 0;
    struct charset set = {0};
    enum status status = parse_brackets(parser, stack, &depth, &set);
    for (size_t i = 0; i < depth; i++)
        bracket_release(&stack[i]);
    if (status == SL_OK)
        return emit_set(parser, &set);
    charset_release(&set);
    return status;
}

/* ---- Groups, quantifiers, the rest */

static enum status push_group(struct parser *parser, const char *opening, bool is_lookaround) {
    if (parser->depth == GROUPS_MAX)
        return refuse(parser, "a group nested this deep");
    parser->groups[parser->depth++] = (struct group){
        parser->parsed->syntax.len, parser->ignores_case, parser->dot_is_all, is_lookaround};
    emit(parser, opening);
    parser->atom = SIZE_MAX;
    return SL_OK;
}

/* (?i: (?m: (?i-m: and (?i) at the beginning of a group or of the pattern. at stands behind (?. */
static enum status parse_options(struct parser *parser) {
    bool turns_on = true, ignores_case = parser->ignores_case, dot_is_all = parser->dot_is_all;
    for (; parser->at < parser->pattern.len; parser->at++) {
        char c = parser->pattern.data[parser->at];
        if (c == '-')
            turns_on = false;
        else if (c == 'i')
            ignores_case = turns_on;
        else if (c == 'm')
            dot_is_all = turns_on;
        else
            break;
    }
    if (take(parser, ":")) {
        TRY(push_group(parser, "(?:", false));
    } else if (take(parser, ")")) {
        size_t len = parser->parsed->syntax.len;
        bool is_first = len == 0 || (parser->depth && parser->atom == SIZE_MAX &&
                                     parser->parsed->syntax.data[len - 1] == ':');
        if (!is_first)
            return refuse(parser, "options in the middle of a group");
    } else {
        return refuse(parser, "this kind of group");
    }
    parser->ignores_case = ignores_case;
    parser->dot_is_all = dot_is_all;
    return SL_OK;
}

static enum status open_group(struct parser *parser) {
    static const struct {
        const char *text;
        bool is_lookaround;
    } kinds[] = {{"?:", false}, {"?=", true},  {"?!", true},
                 {"?<=", true}, {"?<!", true}, {"?>", false}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!take(parser, kinds[i].text))
            continue;
        char opening[8] = "(";
        memcpy(opening + 1, kinds[i].text, strlen(kinds[i].text) + 1);
        return push_group(parser, opening, kinds[i].is_lookaround);
    }
    if (take(parser, "?<") || take(parser, "?'"))
        return refuse(parser, "a named group");
    if (take(parser, "?"))
        return parse_options(parser);
    return push_group(parser, "(?:", false);
}

static enum status close_group(struct parser *parser) {
    if (parser->depth == 0)
        return refuse(parser, "a closing parenthesis without an opening one");
    struct group group = parser->groups[--parser->depth];
    emit(parser, ")");
    parser->ignores_case = group.ignores_case;
    parser->dot_is_all = group.dot_is_all;
    parser->atom = group.is_lookaround ? SIZE_MAX : group.start;
    return SL_OK;
}

/* {n}, {n,}, {n,m}, {,m}; at stands behind the brace. False: not an interval, nothing taken. */
static bool take_interval(struct parser *parser, uint64_t *from, uint64_t *to, bool *is_fixed) {
    size_t end = str_find(parser->pattern, STR("}"), parser->at);
    if (end == SIZE_MAX)
        return false;
    struct str inside = str_cut(parser->pattern, parser->at, end);
    size_t comma = str_find(inside, STR(","), 0);
    *is_fixed = comma == SIZE_MAX;
    struct str low = str_cut(inside, 0, *is_fixed ? inside.len : comma);
    struct str high = *is_fixed ? low : str_cut(inside, comma + 1, inside.len);
    *from = 0;
    *to = UINT64_MAX;
    if ((low.len == 0 && (*is_fixed || high.len == 0)) || (low.len && !str_to_u64(low, from)) ||
        (high.len && !str_to_u64(high, to)))
        return false;
    parser->at = end + 1;
    return true;
}

/* Puts a group around the last atom and what follows it in the output. */
static enum status wrap_atom(struct parser *parser) {
    struct buf *syntax = &parser->parsed->syntax;
    buf_add(syntax, STR("    "));
    if (syntax->has_failed)
        return buf_status(syntax, "a regex", parser->err);
    size_t moved = syntax->len - 4 - parser->atom;
    memmove(syntax->data + parser->atom + 3, syntax->data + parser->atom, moved);
    memcpy(syntax->data + parser->atom, "(?:", 3);
    syntax->data[syntax->len - 1] = ')';
    return SL_OK;
}

static enum status parse_quantifier(struct parser *parser, char c) {
    struct buf *syntax = &parser->parsed->syntax;
    uint64_t from = 0, to = 0;
    bool is_fixed = false, is_interval = c == '{';
    if (parser->atom == SIZE_MAX)
        return refuse(parser, "a quantifier with nothing before it");
    if (is_interval) {
        if (!take_interval(parser, &from, &to, &is_fixed)) {
            struct charset brace = {0};
            charset_add(&brace, '{', '{');
            return emit_set(parser, &brace);
        }
        if (from > REPEAT_MAX || (to != UINT64_MAX && (to > REPEAT_MAX || to < from)))
            return refuse(parser, "an interval with such numbers");
        if (to == UINT64_MAX)
            buf_printf(syntax, "{%u,}", (unsigned)from);
        else
            buf_printf(syntax, "{%u,%u}", (unsigned)from, (unsigned)to);
    } else {
        buf_add_char(syntax, c);
    }
    if (looking_at(parser, "?")) {
        if (is_fixed)
            return refuse(parser, "{n}?");
        parser->at++;
        buf_add_char(syntax, '?');
    } else if (!is_interval && take(parser, "+")) {
        buf_add_char(syntax, '+');
    }
    /* Another quantifier repeats the whole: {n,m}+ is no possessive one in this syntax. */
    bool is_followed = parser->at < parser->pattern.len &&
                       strchr("*+?{", parser->pattern.data[parser->at]) != NULL &&
                       parser->pattern.data[parser->at] != '\0';
    return is_followed ? wrap_atom(parser) : SL_OK;
}

/* \b \B \A \z \Z, ^ and $ (always of lines in this syntax). False: none of these. */
static bool parse_anchor(struct parser *parser, enum status *status) {
    static const struct {
        const char *text, *before, *between, *after;
        bool is_word;
    } anchors[] = {
        {"\\b", "(?:(?<=", ")(?!", "))", true},
        {"\\B", "(?:(?<=", ")(?=", "))", true},
        {"\\A", "\\A", NULL, NULL, false},
        {"\\z", "\\z", NULL, NULL, false},
        {"^", "(?:\\A|(?<=", NULL, ")(?!\\z))", false},
        {"$", "(?:\\z|(?=", NULL, "))", false},
        {"\\Z", "(?:\\z|(?=", NULL, "\\z))", false},
    };
    for (size_t i = 0; i < sizeof anchors / sizeof anchors[0]; i++) {
        if (!take(parser, anchors[i].text))
            continue;
        *status = SL_OK;
        emit(parser, anchors[i].before);
        /* \b is W!W or !WW, \B is WW or !W!W: the second half with the signs turned. */
        static const char *const second_b[] = {"|(?<!", ")(?="}, *const second_not_b[] = {"|(?<!",
                                                                                          ")(?!"};
        const char *const *second = i == 0 ? second_b : second_not_b;
        size_t refs = anchors[i].is_word ? 4 : anchors[i].after ? 1 : 0;
        for (size_t ref = 0; ref < refs && *status == SL_OK; ref++) {
            struct charset set = {0};
            if (anchors[i].is_word)
                charset_add_word(&set);
            else
                charset_add(&set, '\n', '\n');
            *status = emit_set(parser, &set);
            if (anchors[i].is_word && ref == 0)
                emit(parser, anchors[i].between);
            if (anchors[i].is_word && ref == 1) {
                emit(parser, ")");
                emit(parser, second[0]);
            }
            if (anchors[i].is_word && ref == 2)
                emit(parser, second[1]);
        }
        if (anchors[i].after)
            emit(parser, anchors[i].after);
        parser->atom = SIZE_MAX;
        return true;
    }
    return false;
}

static enum status parse_character(struct parser *parser) {
    struct charset set = {0};
    struct escape escape = {0};
    enum status status = SL_OK;
    if (take(parser, ".")) {
        escape.is_class = true;
        if (parser->dot_is_all) {
            charset_add(&set, 0, SL_UNICODE_END - 1);
        } else {
            charset_add(&set, 0, '\n' - 1);
            charset_add(&set, '\n' + 1, SL_UNICODE_END - 1);
        }
    } else if (take(parser, "\\")) {
        status = parse_escape(parser, &set, &escape);
    } else {
        escape.code_point = utf8_next(parser->pattern, &parser->at);
    }
    if (status == SL_OK && !escape.is_class) {
        charset_add(&set, escape.code_point, escape.code_point);
        charset_settle(&set);
        if (parser->ignores_case && !charset_fold(&set))
            status = refuse(parser, "a letter with a case beyond ASCII under (?i)");
    }
    if (status == SL_OK)
        return emit_set(parser, &set);
    charset_release(&set);
    return status;
}

enum status regex_parse(struct str pattern, struct regex_parsed *parsed, struct error *err) {
    *parsed = (struct regex_parsed){0};
    buf_init(&parsed->syntax);
    struct parser parser = {.pattern = pattern, .parsed = parsed, .atom = SIZE_MAX, .err = err};
    if (pattern.len > SL_REGEX_PATTERN_MAX)
        return error_set(err, SL_ERR_ENV, "a regex of %zu bytes is longer than %zu", pattern.len,
                         SL_REGEX_PATTERN_MAX);
    if (utf8_valid_len(pattern) != pattern.len)
        return error_set(err, SL_ERR_ENV, "a regex is not valid UTF-8");
    while (parser.at < pattern.len) {
        char c = pattern.data[parser.at];
        enum status status = SL_OK;
        if (parse_anchor(&parser, &status)) {
            TRY(status);
        } else if (c == '(') {
            parser.at++;
            TRY(open_group(&parser));
        } else if (c == ')') {
            parser.at++;
            TRY(close_group(&parser));
        } else if (c == '|') {
            parser.at++;
            emit(&parser, "|");
            parser.atom = SIZE_MAX;
        } else if (c == '*' || c == '+' || c == '?' || c == '{') {
            parser.at++;
            TRY(parse_quantifier(&parser, c));
        } else if (c == '[') {
            parser.at++;
            TRY(parse_class(&parser));
        } else {
            TRY(parse_character(&parser));
        }
    }
    if (parser.depth)
        return refuse(&parser, "an opening parenthesis without a closing one");
    return buf_status(&parsed->syntax, "a regex", err);
}

void regex_parsed_release(struct regex_parsed *parsed) {
    buf_release(&parsed->syntax);
    for (size_t i = 0; i < parsed->set_count; i++)
        charset_release(&parsed->sets[i]);
    *parsed = (struct regex_parsed){0};
}
