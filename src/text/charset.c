/* Owns sets of code points: building them from ranges and properties, and the algebra of character
 * classes. Refuses property names that its tables do not have. */
#include "text/charset.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void charset_release(struct charset *set) {
    mem_free(set->ranges);
    *set = (struct charset){0};
}

void charset_add(struct charset *set, uint32_t from, uint32_t to) {
    must(from <= to);
    if (set->has_failed)
        return;
    if (set->count && set->ranges[set->count - 1].to + 1 == from) {
        set->ranges[set->count - 1].to = to;
        return;
    }
    if (!mem_grow((void **)&set->ranges, &set->cap, set->count + 1, sizeof *set->ranges)) {
        set->has_failed = true;
        return;
    }
    set->ranges[set->count++] = (struct unicode_range){from, to};
}

void charset_add_set(struct charset *set, const struct charset *other) {
    set->has_failed |= other->has_failed;
    for (size_t i = 0; i < other->count; i++)
        charset_add(set, other->ranges[i].from, other->ranges[i].to);
}

static int by_from(const void *a, const void *b) {
    const struct unicode_range *left = a, *right = b;
    return left->from < right->from ? -1 : left->from > right->from;
}

void charset_settle(struct charset *set) {
    if (set->count == 0)
        return;
    qsort(set->ranges, set->count, sizeof *set->ranges, by_from);
    size_t kept = 0;
    for (size_t i = 1; i < set->count; i++) {
        struct unicode_range *last = &set->ranges[kept], next = set->ranges[i];
        if (next.from <= last->to + 1)
            last->to = next.to > last->to ? next.to : last->to;
        else
            set->ranges[++kept] = next;
    }
    set->count = kept + 1;
}

void charset_negate(struct charset *set) {
    struct charset out = {.has_failed = set->has_failed};
    uint32_t from = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (set->ranges[i].from > from)
            charset_add(&out, from, set->ranges[i].from - 1);
        from = set->ranges[i].to + 1;
    }
    if (from < SL_UNICODE_END)
        charset_add(&out, from, SL_UNICODE_END - 1);
    charset_release(set);
    *set = out;
}

void charset_intersect(struct charset *set, const struct charset *other) {
    struct charset out = {.has_failed = set->has_failed || other->has_failed};
    for (size_t i = 0, j = 0; i < set->count && j < other->count;) {
        struct unicode_range a = set->ranges[i], b = other->ranges[j];
        uint32_t from = a.from > b.from ? a.from : b.from;
        uint32_t to = a.to < b.to ? a.to : b.to;
        if (from <= to)
            charset_add(&out, from, to);
        if (a.to < b.to)
            i++;
        else
            j++;
    }
    charset_release(set);
    *set = out;
}

bool charset_equal(const struct charset *a, const struct charset *b) {
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->ranges, b->ranges, a->count * sizeof *a->ranges) == 0);
}

bool charset_has(const struct charset *set, uint32_t code_point) {
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ranges[middle].to < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->ranges[low].from <= code_point;
}

bool charset_fold(struct charset *set) {
    /* A set that holds all cased letters, or all but ASCII ones, folds to itself beyond ASCII: only
     * small ranges of such letters are a question. */
    for (size_t i = 0; i < set->count; i++) {
        struct unicode_range range = set->ranges[i];
        if (range.to < 0x80 || range.to - range.from > 64)
            continue;
        for (uint32_t c = range.from < 0x80 ? 0x80 : range.from; c <= range.to; c++) {
            enum unicode_category category = unicode_category(c);
            if (category <= UNICODE_LT && c != 0x17F && c != 0x212A)
                return false;
        }
    }
    bool has_s = charset_has(set, 's') || charset_has(set, 'S') || charset_has(set, 0x17F);
    bool has_k = charset_has(set, 'k') || charset_has(set, 'K') || charset_has(set, 0x212A);
    struct charset added = {0};
    for (uint32_t c = 'a'; c <= 'z'; c++) {
        uint32_t upper = c - 32;
        bool has_any = charset_has(set, c) || charset_has(set, upper) || (c == 's' && has_s) ||
                       (c == 'k' && has_k);
        if (!has_any)
            continue;
        charset_add(&added, c, c);
        charset_add(&added, upper, upper);
    }
    if (has_s)
        charset_add(&added, 0x17F, 0x17F);
    if (has_k)
        charset_add(&added, 0x212A, 0x212A);
    charset_add_set(set, &added);
    charset_release(&added);
    charset_settle(set);
    return true;
}

static void add_categories(struct charset *set, uint32_t categories) {
    for (size_t i = 0; i < unicode_category_runs_count; i++) {
        uint32_t run = unicode_category_runs[i];
        if (!(categories >> (run & 31) & 1))
            continue;
        uint32_t end = i + 1 < unicode_category_runs_count ? unicode_category_runs[i + 1] >> 5
                                                           : SL_UNICODE_END;
        charset_add(set, run >> 5, end - 1);
    }
}

#define BIT(category) (1u << (category))
#define BITS(from, to) ((1u << ((to) + 1)) - (1u << (from)))

/* Names of general categories, short and long, without case, spaces and underscores. */
static const struct {
    const char *name, *long_name;
    uint32_t categories;
} property_names[] = {
    {"l", "letter", BITS(UNICODE_LU, UNICODE_LO)},
    {"lu", "uppercaseletter", BIT(UNICODE_LU)},
    {"ll", "lowercaseletter", BIT(UNICODE_LL)},
    {"lt", "titlecaseletter", BIT(UNICODE_LT)},
    {"lm", "modifierletter", BIT(UNICODE_LM)},
    {"lo", "otherletter", BIT(UNICODE_LO)},
    {"m", "mark", BITS(UNICODE_MN, UNICODE_ME)},
    {"mn", "nonspacingmark", BIT(UNICODE_MN)},
    {"mc", "spacingmark", BIT(UNICODE_MC)},
    {"me", "enclosingmark", BIT(UNICODE_ME)},
    {"n", "number", BITS(UNICODE_ND, UNICODE_NO)},
    {"nd", "decimalnumber", BIT(UNICODE_ND)},
    {"nl", "letternumber", BIT(UNICODE_NL)},
    {"no", "othernumber", BIT(UNICODE_NO)},
    {"p", "punctuation", BITS(UNICODE_PC, UNICODE_PO)},
    {"pc", "connectorpunctuation", BIT(UNICODE_PC)},
    {"pd", "dashpunctuation", BIT(UNICODE_PD)},
    {"ps", "openpunctuation", BIT(UNICODE_PS)},
    {"pe", "closepunctuation", BIT(UNICODE_PE)},
    {"pi", "initialpunctuation", BIT(UNICODE_PI)},
    {"pf", "finalpunctuation", BIT(UNICODE_PF)},
    {"po", "otherpunctuation", BIT(UNICODE_PO)},
    {"s", "symbol", BITS(UNICODE_SM, UNICODE_SO)},
    {"sm", "mathsymbol", BIT(UNICODE_SM)},
    {"sc", "currencysymbol", BIT(UNICODE_SC)},
    {"sk", "modifiersymbol", BIT(UNICODE_SK)},
    {"so", "othersymbol", BIT(UNICODE_SO)},
    {"z", "separator", BITS(UNICODE_ZS, UNICODE_ZP)},
    {"zs", "spaceseparator", BIT(UNICODE_ZS)},
    {"zl", "lineseparator", BIT(UNICODE_ZL)},
    {"zp", "paragraphseparator", BIT(UNICODE_ZP)},
    {"c", "other", BITS(UNICODE_CC, UNICODE_CN)},
    {"cc", "control", BIT(UNICODE_CC)},
    {"cf", "format", BIT(UNICODE_CF)},
    {"co", "privateuse", BIT(UNICODE_CO)},
    {"cn", "unassigned", BIT(UNICODE_CN)},
    {"any", "any", BITS(UNICODE_LU, UNICODE_CN)},
};

bool charset_add_property(struct charset *set, struct str name) {
    char plain[40];
    size_t len = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if (c == ' ' || c == '_' || c == '-')
            continue;
        if (len == sizeof plain - 1)
            return false;
        plain[len++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    plain[len] = '\0';
    for (size_t i = 0; i < sizeof property_names / sizeof property_names[0]; i++) {
        if (strcmp(plain, property_names[i].name) == 0 ||
            strcmp(plain, property_names[i].long_name) == 0) {
            add_categories(set, property_names[i].categories);
            return true;
        }
    }
    bool is_script = false;
    for (size_t i = 0; i < unicode_scripts_count; i++) {
        if (strcasecmp(plain, unicode_scripts[i].name) != 0)
            continue;
        charset_add(set, unicode_scripts[i].range.from, unicode_scripts[i].range.to);
        is_script = true;
    }
    return is_script;
}

void charset_add_space(struct charset *set) {
    static const struct unicode_range spaces[] = {
        {9, 13},          {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        charset_add(set, spaces[i].from, spaces[i].to);
}

void charset_add_digit(struct charset *set) {
    add_categories(set, BIT(UNICODE_ND));
}

void charset_add_word(struct charset *set) {
    /* Measured: what unicode_is_word holds, without the joiners, with the Latin-1 numbers. */
    add_categories(set, BITS(UNICODE_LU, UNICODE_NL) | BIT(UNICODE_PC));
    static const struct unicode_range more[] = {
        {0xB2, 0xB3},       {0xB9, 0xB9},       {0xBC, 0xBE},      {0x24B6, 0x24E9},
        {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        charset_add(set, more[i].from, more[i].to);
}
