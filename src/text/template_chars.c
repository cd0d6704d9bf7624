/* What Python's str methods know of characters: classes and full case mappings, from generated
 * tables for what lies beyond ASCII. Text itself is cased here too, with Greek's final sigma. */
#include "text/template_chars.h"

#include "text/template_chars_tables.h"
#include "text/template_value.h"
#include "text/unicode.h"

static bool is_among(const struct chars_range *ranges, size_t count, uint32_t c) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > ranges[middle].to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && c >= ranges[low].from;
}

static bool is_ascii_upper(uint32_t c) {
    return c >= 'A' && c <= 'Z';
}

static bool is_ascii_lower(uint32_t c) {
    return c >= 'a' && c <= 'z';
}

bool chars_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool chars_is_alpha(uint32_t c) {
    if (c < 128)
        return is_ascii_upper(c) || is_ascii_lower(c);
    return unicode_category(c) <= UNICODE_LO;
}

bool chars_is_decimal(uint32_t c) {
    if (c < 128)
        return c >= '0' && c <= '9';
    return unicode_category(c) == UNICODE_ND;
}

bool chars_is_digit(uint32_t c) {
    return chars_is_decimal(c) || is_among(chars_digit_ranges, chars_digit_ranges_count, c);
}

bool chars_is_numeric(uint32_t c) {
    if (c < 128)
        return c >= '0' && c <= '9';
    enum unicode_category category = unicode_category(c);
    return category == UNICODE_ND || category == UNICODE_NL || category == UNICODE_NO ||
           is_among(chars_numeric_ranges, chars_numeric_ranges_count, c);
}

bool chars_is_upper(uint32_t c) {
    if (c < 128)
        return is_ascii_upper(c);
    return unicode_category(c) == UNICODE_LU ||
           is_among(chars_upper_ranges, chars_upper_ranges_count, c);
}

bool chars_is_lower(uint32_t c) {
    if (c < 128)
        return is_ascii_lower(c);
    return unicode_category(c) == UNICODE_LL ||
           is_among(chars_lower_ranges, chars_lower_ranges_count, c);
}

bool chars_is_title(uint32_t c) {
    return c >= 128 && unicode_category(c) == UNICODE_LT;
}

bool chars_is_cased(uint32_t c) {
    return chars_is_upper(c) || chars_is_lower(c) || chars_is_title(c);
}

bool chars_is_ignorable(uint32_t c) {
    if (c < 128)
        return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`';
    return is_among(chars_ignorable_ranges, chars_ignorable_ranges_count, c);
}

bool chars_is_printable(uint32_t c) {
    if (c < 128)
        return c >= 0x20 && c < 0x7F;
    return unicode_category(c) < UNICODE_ZS;
}

bool chars_is_name(uint32_t c) {
    return c == '_' || chars_is_alpha(c) || chars_is_decimal(c) || chars_is_numeric(c);
}

static size_t map_special(const struct chars_special *specials, size_t count, uint32_t c,
                          uint32_t out[3]) {
    size_t low = 0, high = count, len = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > specials[middle].from)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || specials[low].from != c)
        return 0;
    while (len < 3 && specials[low].to[len] != 0) {
        out[len] = specials[low].to[len];
        len++;
    }
    return len;
}

static bool map_run(const struct chars_run *runs, size_t count, uint32_t c, uint32_t *out) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > runs[middle].to)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || c < runs[low].from || (c - runs[low].from) % runs[low].step != 0)
        return false;
    *out = (uint32_t)((int64_t)c + runs[low].delta);
    return true;
}

size_t chars_upper(uint32_t c, uint32_t out[3]) {
    out[0] = is_ascii_lower(c) ? c - 32 : c;
    if (c < 128)
        return 1;
    size_t len = map_special(chars_upper_specials, chars_upper_specials_count, c, out);
    if (len > 0)
        return len;
    map_run(chars_upper_runs, chars_upper_runs_count, c, &out[0]);
    return 1;
}

size_t chars_lower(uint32_t c, uint32_t out[3]) {
    out[0] = is_ascii_upper(c) ? c + 32 : c;
    return c < 128 ? 1 : unicode_to_lower(c, out);
}

size_t chars_title(uint32_t c, uint32_t out[3]) {
    out[0] = is_ascii_lower(c) ? c - 32 : c;
    if (c < 128)
        return 1;
    size_t len = map_special(chars_title_specials, chars_title_specials_count, c, out);
    if (len > 0)
        return len;
    if (map_run(chars_title_runs, chars_title_runs_count, c, &out[0]))
        return 1;
    return chars_upper(c, out);
}

/* The sigma at byte `from` (its end `to`) is final: after a cased letter and before none, with
 * ignorable characters between not counting. */
static bool is_final_sigma(struct str text, size_t from, size_t to) {
    bool has_before = false;
    for (size_t at = from; at > 0;) {
        size_t start = at - 1;
        while (start > 0 && ((unsigned char)text.data[start] & 0xC0) == 0x80)
            start--;
        at = start;
        uint32_t c = utf8_next(text, &start);
        if (chars_is_ignorable(c))
            continue;
        has_before = chars_is_cased(c);
        break;
    }
    while (has_before && to < text.len) {
        uint32_t c = utf8_next(text, &to);
        if (!chars_is_ignorable(c))
            return !chars_is_cased(c);
    }
    return has_before;
}

/* Lower case of the character at byte `from`. A sigma looks for cased neighbours, through the whole
 * text at worst, and is charged for that. */
static enum status lower_at(struct render *render, struct str text, size_t from, uint32_t c,
                            uint32_t out[3], size_t *len) {
    if (c != 0x3A3) {
        *len = chars_lower(c, out);
        return SL_OK;
    }
    TRY(value_charge(render, text.len / 32 + 1));
    out[0] = is_final_sigma(text, from, from + 2) ? 0x3C2 : 0x3C3;
    *len = 1;
    return SL_OK;
}

enum status text_case(struct render *render, struct str text, enum text_case how,
                      struct value *out) {
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    bool was_cased = false;
    TRY(value_charge(render, text.len / 2 + 1));
    for (size_t at = 0; at < text.len;) {
        size_t from = at, len;
        uint32_t c = utf8_next(text, &at), mapped[3];
        bool is_first = how == CASE_CAPITAL ? from == 0 : how == CASE_TITLE && !was_cased;
        bool is_up = how == CASE_UPPER || (how == CASE_SWAP && chars_is_lower(c));
        bool is_down = how == CASE_LOWER ||
                       ((how == CASE_TITLE || how == CASE_CAPITAL) && !is_first) ||
                       (how == CASE_SWAP && chars_is_upper(c));
        if (is_first)
            len = chars_title(c, mapped);
        else if (is_up)
            len = chars_upper(c, mapped);
        else if (is_down)
            TRY(lower_at(render, text, from, c, mapped, &len));
        else {
            mapped[0] = c;
            len = 1;
        }
        for (size_t i = 0; i < len; i++)
            buf_add_utf8(buf, mapped[i]);
        was_cased = chars_is_cased(c);
    }
    return text_from_scratch(render, mark, out);
}

bool text_has_case(struct str text, bool is_upper) {
    bool has_letter = false;
    for (size_t at = 0; at < text.len;) {
        uint32_t c = utf8_next(text, &at);
        if (chars_is_title(c) || (is_upper ? chars_is_lower(c) : chars_is_upper(c)))
            return false;
        has_letter |= is_upper ? chars_is_upper(c) : chars_is_lower(c);
    }
    return has_letter;
}
