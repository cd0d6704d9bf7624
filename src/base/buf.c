/* Owns growable byte buffers. A failed allocation sticks, and additions after it do nothing, so
 * that a writer checks once at its end. */
#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

void buf_init(struct buf *buf) {
    *buf = (struct buf){0};
}

void buf_release(struct buf *buf) {
    if (!buf)
        return;
    mem_free(buf->data);
    *buf = (struct buf){0};
}

void buf_clear(struct buf *buf) {
    buf->len = 0;
    buf->has_failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

/* Room for so many more bytes and the terminator. */
static bool make_room(struct buf *buf, size_t more) {
    size_t need;
    void *data = buf->data;
    if (buf->has_failed)
        return false;
    if (!size_add(buf->len, more, &need) || !size_add(need, 1, &need) ||
        !mem_grow(&data, &buf->cap, need, 1)) {
        buf->has_failed = true;
        return false;
    }
    buf->data = data;
    return true;
}

void buf_add(struct buf *buf, struct str s) {
    if (!make_room(buf, s.len))
        return;
    if (s.len)
        memcpy(buf->data + buf->len, s.data, s.len);
    buf->len += s.len;
    buf->data[buf->len] = '\0';
}

void buf_add_char(struct buf *buf, char c) {
    buf_add(buf, (struct str){&c, 1});
}

void buf_add_utf8(struct buf *buf, uint32_t code_point) {
    char bytes[4];
    bool is_bad = code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF);
    size_t count = utf8_put(is_bad ? 0xFFFD : code_point, bytes);
    buf_add(buf, (struct str){bytes, count});
}

void buf_printf(struct buf *buf, const char *format, ...) {
    va_list args;
    va_start(args, format);
    buf_vprintf(buf, format, args);
    va_end(args);
}

void buf_vprintf(struct buf *buf, const char *format, va_list args) {
    char text[256]; /* enough for most; longer ones are formatted again in place */
    va_list again;
    va_copy(again, args);
    int wanted = vsnprintf(text, sizeof text, format, args);
    if (wanted < 0) {
        buf->has_failed = true;
    } else if ((size_t)wanted < sizeof text) {
        buf_add(buf, (struct str){text, (size_t)wanted});
    } else if (make_room(buf, (size_t)wanted)) {
        (void)vsnprintf(buf->data + buf->len, (size_t)wanted + 1, format, again);
        buf->len += (size_t)wanted;
    }
    va_end(again);
}

struct str buf_str(const struct buf *buf) {
    return (struct str){buf->data ? buf->data : "", buf->len};
}

enum status buf_status(const struct buf *buf, const char *what, struct error *err) {
    return buf->has_failed ? error_memory(err, buf->len, what) : SL_OK;
}
