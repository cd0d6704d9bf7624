/* Borrowed byte strings with a length (they may hold NUL), growable buffers, UTF-8.
 * Plain values, no locks: one thread at a time. */
#ifndef SLUICE_BASE_STR_H
#define SLUICE_BASE_STR_H

#include "base/status.h"

#include <stdarg.h>

struct str {
    const char *data; /* borrowed; not terminated */
    size_t len;       /* bytes */
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
/* For "%.*s". Cuts what a message shows at 200 bytes. */
#define STR_ARG(s) ((int)((s).len > 200 ? 200 : (s).len)), ((s).data ? (s).data : "")

struct str str_from(const char *terminated); /* NULL gives the empty string */
bool str_equal(struct str a, struct str b);
bool str_is(struct str a, const char *terminated);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
struct str str_cut(struct str s, size_t from, size_t to);      /* [from, to), clamped to s */
size_t str_find(struct str s, struct str needle, size_t from); /* SIZE_MAX when absent */
struct str str_trim(struct str s); /* without spaces, tabs, CR and LF at both ends */
struct str
str_last_part(struct str path);  /* behind the last slash; slashes at the end do not count */
uint64_t str_hash(struct str s); /* 64-bit, the same on every machine; for keys, not for secrets */
/* Decimal digits alone (strictly: no sign, space or leading '+'); false on anything else or
 * overflow. */
bool str_to_u64(struct str s, uint64_t *out);
/* Makes a terminated text safe for a terminal, in place: control characters (C0, DEL, C1) and
 * invalid UTF-8 become '?'. */
void str_clean(char *terminated);

/* A growable byte buffer. A failed allocation is sticky: later additions do nothing and buf_status
 * tells, so that writers need one check at the end. data is terminated by a NUL that len leaves
 * out. */
struct buf {
    char *data;
    size_t len, cap; /* bytes */
    bool has_failed;
};

void buf_init(struct buf *buf);
void buf_release(struct buf *buf);
void buf_clear(struct buf *buf); /* len 0, keeps the memory and clears has_failed */
void buf_add(struct buf *buf, struct str s);
void buf_add_char(struct buf *buf, char c);
void buf_add_utf8(struct buf *buf, uint32_t code_point); /* surrogates and > 10FFFF become U+FFFD */
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *format, va_list args);
struct str buf_str(const struct buf *buf); /* borrowed until the next change */
enum status buf_status(const struct buf *buf, const char *what, struct error *err);

/* UTF-8 as the Unicode standard has it (no surrogates, no overlong forms, at most U+10FFFF). */
#define SL_UTF8_INVALID 0xFFFFFFFFu
/* Decodes the character at s.data[*at] and moves *at past it. On an invalid sequence gives
 * SL_UTF8_INVALID and moves past its maximal invalid part (what Rust's from_utf8_lossy turns into
 * one U+FFFD). *at must be < s.len. */
uint32_t utf8_next(struct str s, size_t *at);
/* Offset of the first invalid byte, s.len if all is valid. */
size_t utf8_valid_len(struct str s);
/* Writes 1 to 4 bytes, returns how many. code_point must be valid. */
size_t utf8_put(uint32_t code_point, char out[4]);
/* How many bytes at the end of s begin a character that more bytes could complete (0 to 3). */
size_t utf8_open_tail(struct str s);
/* Appends s with one U+FFFD for each maximal invalid part. */
void utf8_add_lossy(struct buf *buf, struct str s);

#endif
