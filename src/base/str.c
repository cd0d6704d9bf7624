/* Owns borrowed byte strings and UTF-8. Refuses to know any encoding but UTF-8, and any locale. */
#include "base/str.h"

#include <string.h>

struct str str_from(const char *terminated) {
    return terminated ? (struct str){terminated, strlen(terminated)} : (struct str){"", 0};
}

bool str_equal(struct str a, struct str b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool str_is(struct str a, const char *terminated) {
    return str_equal(a, str_from(terminated));
}

bool str_starts(struct str s, struct str prefix) {
    return s.len >= prefix.len && str_equal((struct str){s.data, prefix.len}, prefix);
}

bool str_ends(struct str s, struct str suffix) {
    return s.len >= suffix.len && str_equal(str_cut(s, s.len - suffix.len, s.len), suffix);
}

struct str str_cut(struct str s, size_t from, size_t to) {
    to = to > s.len ? s.len : to;
    from = from > to ? to : from;
    return s.data ? (struct str){s.data + from, to - from} : (struct str){"", 0};
}

size_t str_find(struct str s, struct str needle, size_t from) {
    if (from > s.len || needle.len > s.len - from)
        return SIZE_MAX;
    if (needle.len == 0)
        return from;
    const char *found = memmem(s.data + from, s.len - from, needle.data, needle.len);
    return found ? (size_t)(found - s.data) : SIZE_MAX;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s) {
    size_t from = 0, to = s.len;
    while (from < to && is_blank(s.data[from]))
        from++;
    while (to > from && is_blank(s.data[to - 1]))
        to--;
    return str_cut(s, from, to);
}

/* Eight bytes, the first the lowest, on every machine. */
static uint64_t load_le64(const char *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(value) : value;
}

static uint64_t hash_mix(uint64_t value) {
    value ^= value >> 32;
    value *= 0xD6E8FEB86659FD93u;
    value ^= value >> 32;
    value *= 0xD6E8FEB86659FD93u;
    return value ^ (value >> 32);
}

struct str str_last_part(struct str path) {
    while (path.len > 1 && path.data[path.len - 1] == '/')
        path.len--;
    size_t begin = path.len;
    while (begin > 0 && path.data[begin - 1] != '/')
        begin--;
    return str_cut(path, begin, path.len);
}

uint64_t str_hash(struct str s) {
    uint64_t hash = 0x9E3779B97F4A7C15u ^ s.len;
    size_t at = 0;
    for (; s.len - at >= 8; at += 8)
        hash = hash_mix(hash ^ load_le64(s.data + at)) + 0x9E3779B97F4A7C15u;
    uint64_t rest = 0;
    for (size_t i = 0; at + i < s.len; i++)
        rest |= (uint64_t)(unsigned char)s.data[at + i] << (8 * i);
    return hash_mix(hash ^ rest);
}

bool str_to_u64(struct str s, uint64_t *out) {
    uint64_t value = 0;
    if (s.len == 0)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.data[i] - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

void str_clean(char *terminated) {
    struct str text = str_from(terminated);
    size_t from = 0, to = 0; /* what is written is never longer than what was read */
    while (from < text.len) {
        size_t start = from;
        uint32_t code_point = utf8_next(text, &from);
        bool is_bad = code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0) ||
                      code_point == SL_UTF8_INVALID;
        if (is_bad) {
            terminated[to++] = '?';
        } else {
            memmove(terminated + to, terminated + start, from - start);
            to += from - start;
        }
    }
    terminated[to] = '\0';
}

/* What may follow a first byte: how many bytes, and the range of the first of them (the others are
 * 80..BF). Unicode standard, table 3-7. */
struct utf8_shape {
    uint32_t more; /* 0: not a first byte of several */
    unsigned char low, high;
};

static struct utf8_shape utf8_shape(unsigned char first) {
    if (first >= 0xC2 && first <= 0xDF)
        return (struct utf8_shape){1, 0x80, 0xBF};
    if (first >= 0xE0 && first <= 0xEF)
        return (struct utf8_shape){2, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF};
    if (first >= 0xF0 && first <= 0xF4)
        return (struct utf8_shape){3, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF};
    return (struct utf8_shape){0, 0, 0};
}

/* How many of the bytes after s.data[at] continue the character that begins there, as its shape
 * has it; at most shape.more. */
static uint32_t utf8_following(struct str s, size_t at, struct utf8_shape shape) {
    uint32_t found = 0;
    while (found < shape.more && at + 1 + found < s.len) {
        unsigned char byte = (unsigned char)s.data[at + 1 + found];
        if (byte < (found == 0 ? shape.low : 0x80) || byte > (found == 0 ? shape.high : 0xBF))
            break;
        found++;
    }
    return found;
}

uint32_t utf8_next(struct str s, size_t *at) {
    size_t start = *at;
    unsigned char first = (unsigned char)s.data[start];
    if (first < 0x80) {
        *at = start + 1;
        return first;
    }
    struct utf8_shape shape = utf8_shape(first);
    uint32_t found = utf8_following(s, start, shape);
    *at = start + 1 + found;
    if (shape.more == 0 || found < shape.more)
        return SL_UTF8_INVALID;
    uint32_t code_point = first & (0x3Fu >> shape.more);
    for (uint32_t i = 1; i <= shape.more; i++)
        code_point = (code_point << 6) | ((unsigned char)s.data[start + i] & 0x3Fu);
    return code_point;
}

size_t utf8_valid_len(struct str s) {
    size_t at = 0;
    while (at < s.len) {
        if (s.len - at >= 8 && (load_le64(s.data + at) & 0x8080808080808080u) == 0) {
            at += 8;
            continue;
        }
        size_t start = at;
        if (utf8_next(s, &at) == SL_UTF8_INVALID)
            return start;
    }
    return s.len;
}

size_t utf8_put(uint32_t code_point, char out[4]) {
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    size_t bytes = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = bytes - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3F));
        code_point >>= 6;
    }
    uint32_t mark = (0xF00u >> bytes) & 0xFF; /* C0, E0, F0 */
    out[0] = (char)(mark | code_point);
    return bytes;
}

size_t utf8_open_tail(struct str s) {
    for (size_t tail = 1; tail <= 3 && tail <= s.len; tail++) {
        size_t at = s.len - tail;
        struct utf8_shape shape = utf8_shape((unsigned char)s.data[at]);
        if (shape.more >= tail && utf8_following(s, at, shape) == tail - 1)
            return tail;
    }
    return 0;
}

void utf8_add_lossy(struct buf *buf, struct str s) {
    size_t at = 0;
    while (at < s.len) {
        size_t valid = utf8_valid_len(str_cut(s, at, s.len));
        buf_add(buf, str_cut(s, at, at + valid));
        at += valid;
        if (at < s.len) {
            buf_add(buf, STR("\xEF\xBF\xBD"));
            (void)utf8_next(s, &at);
        }
    }
}
