/* Owns the questions about single characters and the normal forms. Refuses nothing: every code
 * point has an answer, and text is valid UTF-8 by contract. Normalising is linear (marks are sorted
 * by counting once there are many), so that no text makes it slow. */
#include "text/unicode.h"

#include "base/mem.h"

#include <string.h>

/* Hangul syllables are composed by arithmetic (Unicode standard, section 3.12). */
#define HANGUL_BASE 0xAC00u
#define HANGUL_L 0x1100u
#define HANGUL_V 0x1161u
#define HANGUL_T 0x11A7u
#define HANGUL_V_COUNT 21u
#define HANGUL_T_COUNT 28u
#define HANGUL_COUNT 11172u

/* Index of the last range whose `from` is not above the code point, by halving. */
#define LAST_NOT_ABOVE(index, count, key_at, code_point)                                           \
    do {                                                                                           \
        size_t low_ = 0, high_ = (count);                                                          \
        while (low_ < high_) {                                                                     \
            size_t middle_ = low_ + (high_ - low_) / 2;                                            \
            if (key_at(middle_) <= (code_point))                                                   \
                low_ = middle_ + 1;                                                                \
            else                                                                                   \
                high_ = middle_;                                                                   \
        }                                                                                          \
        (index) = low_ - 1; /* SIZE_MAX when all are above */                                      \
    } while (0)

enum unicode_category unicode_category(uint32_t code_point) {
    size_t index;
#define RUN_AT(i) (unicode_category_runs[i] >> 5)
    LAST_NOT_ABOVE(index, unicode_category_runs_count, RUN_AT, code_point);
    return (enum unicode_category)(unicode_category_runs[index] & 31);
}

static bool is_in(const struct unicode_range *ranges, size_t count, uint32_t code_point) {
    size_t index;
#define RANGE_AT(i) (ranges[i].from)
    LAST_NOT_ABOVE(index, count, RANGE_AT, code_point);
    return index != SIZE_MAX && code_point <= ranges[index].to;
}

bool unicode_is_space(uint32_t c) {
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool unicode_is_word(uint32_t c) {
    /* Alphabetic, marks, decimal digits, connectors, joiners. Alphabetic is L, Nl, marks, and these
     * circled and squared letters. */
    if (c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
        (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
        (c >= 0x1F170 && c <= 0x1F189))
        return true;
    enum unicode_category category = unicode_category(c);
    return category <= UNICODE_NL || category == UNICODE_PC;
}

bool unicode_is_numeric(uint32_t c) {
    enum unicode_category category = unicode_category(c);
    return (category >= UNICODE_ND && category <= UNICODE_NO) ||
           is_in(unicode_numeric_since_16, unicode_numeric_since_16_count, c);
}

bool unicode_is_punctuation(uint32_t c) {
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    return is_in(unicode_punctuation_8, unicode_punctuation_8_count, c);
}

bool unicode_is_mark(uint32_t c) {
    return is_in(unicode_marks_9, unicode_marks_9_count, c);
}

size_t unicode_to_lower(uint32_t c, uint32_t out[2]) {
    out[0] = c;
    if (c < 0x80) {
        if (c >= 'A' && c <= 'Z')
            out[0] = c + 32;
        return 1;
    }
    if (c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    size_t index;
#define LOWER_AT(i) (unicode_lower[i].from)
    LAST_NOT_ABOVE(index, unicode_lower_count, LOWER_AT, c);
    if (index == SIZE_MAX)
        return 1;
    const struct unicode_shift *shift = &unicode_lower[index];
    if (c <= shift->to && (c - shift->from) % shift->step == 0)
        out[0] = (uint32_t)((int32_t)c + shift->shift);
    return 1;
}

/* ---- Normal forms */

struct mark {
    uint32_t code_point;
    uint32_t class;
};
struct run { /* what is being decomposed, ordered and composed */
    struct mark *items, *spare;
    size_t count, cap, spare_cap;
    bool has_failed;
};

static uint32_t combining_class(uint32_t c) {
    if (c < 0x300)
        return 0;
    size_t index;
#define CLASS_AT(i) (unicode_combining[i].from)
    LAST_NOT_ABOVE(index, unicode_combining_count, CLASS_AT, c);
    return index != SIZE_MAX && c <= unicode_combining[index].to ? unicode_combining[index].class
                                                                 : 0;
}

static void run_add(struct run *run, uint32_t c, uint32_t class) {
    if (!run->has_failed &&
        !mem_grow((void **)&run->items, &run->cap, run->count + 1, sizeof *run->items))
        run->has_failed = true;
    if (!run->has_failed)
        run->items[run->count++] = (struct mark){c, class};
}

static const struct unicode_parts *find_parts(const struct unicode_parts *table, size_t count,
                                              uint32_t c) {
    size_t index;
#define PARTS_AT(i) (table[i].code_point)
    LAST_NOT_ABOVE(index, count, PARTS_AT, c);
    return index != SIZE_MAX && table[index].code_point == c ? &table[index] : NULL;
}

static void run_add_decomposed(struct run *run, uint32_t c, bool is_compatible) {
    if (c - HANGUL_BASE < HANGUL_COUNT) {
        uint32_t index = c - HANGUL_BASE;
        run_add(run, HANGUL_L + index / (HANGUL_V_COUNT * HANGUL_T_COUNT), 0);
        run_add(run, HANGUL_V + index / HANGUL_T_COUNT % HANGUL_V_COUNT, 0);
        if (index % HANGUL_T_COUNT)
            run_add(run, HANGUL_T + index % HANGUL_T_COUNT, 0);
        return;
    }
    const struct unicode_parts *parts = NULL;
    if (is_compatible)
        parts = find_parts(unicode_compatible, unicode_compatible_count, c);
    if (!parts)
        parts = find_parts(unicode_canonical, unicode_canonical_count, c);
    if (!parts) {
        run_add(run, c, combining_class(c));
        return;
    }
    for (size_t i = 0; i < parts->count; i++) {
        uint32_t part = unicode_parts_pool[parts->at + i];
        run_add(run, part, combining_class(part));
    }
}

/* Sorts marks [from, to) by class and keeps the order of equals. */
static void order_marks(struct run *run, size_t from, size_t to) {
    struct mark *items = run->items;
    if (to - from <= 32) {
        for (size_t i = from + 1; i < to; i++) {
            struct mark moved = items[i];
            size_t at = i;
            for (; at > from && items[at - 1].class > moved.class; at--)
                items[at] = items[at - 1];
            items[at] = moved;
        }
        return;
    }
    if (!mem_grow((void **)&run->spare, &run->spare_cap, to - from, sizeof *run->spare)) {
        run->has_failed = true;
        return;
    }
    size_t starts[257] = {0};
    for (size_t i = from; i < to; i++)
        starts[items[i].class + 1]++;
    for (size_t class = 1; class < 257; class ++)
        starts[class] += starts[class - 1];
    for (size_t i = from; i < to; i++)
        run->spare[starts[items[i].class]++] = items[i];
    memcpy(items + from, run->spare, (to - from) * sizeof *items);
}

static void run_order(struct run *run) {
    for (size_t i = 0; i < run->count && !run->has_failed;) {
        if (run->items[i].class == 0) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < run->count && run->items[end].class != 0)
            end++;
        order_marks(run, i, end);
        i = end;
    }
}

/* The character that first and second compose to; 0 when they do not. */
static uint32_t compose(uint32_t first, uint32_t second) {
    if (first - HANGUL_L < 19 && second - HANGUL_V < HANGUL_V_COUNT)
        return HANGUL_BASE +
               ((first - HANGUL_L) * HANGUL_V_COUNT + (second - HANGUL_V)) * HANGUL_T_COUNT;
    if (first - HANGUL_BASE < HANGUL_COUNT && (first - HANGUL_BASE) % HANGUL_T_COUNT == 0 &&
        second > HANGUL_T && second - HANGUL_T < HANGUL_T_COUNT)
        return first + (second - HANGUL_T);
    uint64_t key = (uint64_t)first << 32 | second;
    size_t index;
#define PAIR_AT(i) ((uint64_t)unicode_pairs[i].first << 32 | unicode_pairs[i].second)
    LAST_NOT_ABOVE(index, unicode_pairs_count, PAIR_AT, key);
    return index != SIZE_MAX && PAIR_AT(index) == key ? unicode_pairs[index].whole : 0;
}

static void run_compose(struct run *run) {
    struct mark *items = run->items;
    size_t kept = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < run->count; i++) {
        struct mark mark = items[i];
        if (starter != SIZE_MAX) {
            /* A character between that is a starter or of no lower class blocks. */
            bool is_free = kept == starter + 1 || items[kept - 1].class < mark.class;
            uint32_t whole = is_free ? compose(items[starter].code_point, mark.code_point) : 0;
            if (whole) {
                items[starter].code_point = whole;
                continue;
            }
        }
        if (mark.class == 0)
            starter = kept;
        items[kept++] = mark;
    }
    run->count = kept;
}

/* Whether c keeps its form and never joins what stands before it: a run may end before it. */
static bool is_inert(enum unicode_form form, uint32_t c) {
    if (c < 0x80 || (c >= 0x4E00 && c <= 0x9FFF))
        return true;
    if (form == UNICODE_NFC && c < 0x300)
        return true;
    return (form == UNICODE_NFC || form == UNICODE_NFKC) && c - HANGUL_BASE < HANGUL_COUNT;
}

bool unicode_normalize(enum unicode_form form, struct str text, struct buf *out) {
    bool composes = form == UNICODE_NFC || form == UNICODE_NFKC;
    bool is_compatible = form == UNICODE_NFKC || form == UNICODE_NFKD;
    struct run run = {0};
    size_t at = 0, copied = 0;
    while (at < text.len && !run.has_failed) {
        size_t next = at;
        uint32_t c = utf8_next(text, &next);
        size_t after = next;
        if (is_inert(form, c) && (next == text.len || is_inert(form, utf8_next(text, &after)))) {
            at = next;
            continue;
        }
        buf_add(out, str_cut(text, copied, at));
        run.count = 0;
        run_add_decomposed(&run, c, is_compatible);
        while (next < text.len) {
            after = next;
            c = utf8_next(text, &after);
            if (is_inert(form, c))
                break;
            run_add_decomposed(&run, c, is_compatible);
            next = after;
        }
        if (!run.has_failed)
            run_order(&run);
        if (composes && !run.has_failed)
            run_compose(&run);
        for (size_t i = 0; i < run.count; i++)
            buf_add_utf8(out, run.items[i].code_point);
        at = copied = next;
    }
    buf_add(out, str_cut(text, copied, text.len));
    mem_free(run.spare);
    mem_free(run.items);
    return !run.has_failed && !out->has_failed;
}
