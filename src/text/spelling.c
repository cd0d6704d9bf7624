/* Owns the table between bytes and the characters that spell them. */
#include "text/spelling.h"

/* Bytes without a printable character of their own, in order: 0 to 32, 127 to 160, 173. */
static bool is_plain(uint32_t c) {
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

uint32_t spelling_of_byte(unsigned char byte) {
    if (is_plain(byte))
        return byte;
    if (byte <= 32)
        return 256u + byte;
    return byte == 173 ? 256u + 33 + 34 : 256u + 33 + (byte - 127u);
}

bool spelling_to_byte(uint32_t c, unsigned char *byte) {
    uint32_t value = c;
    if (c >= 256) {
        uint32_t rank = c - 256;
        if (rank > 67)
            return false;
        value = rank <= 32 ? rank : rank == 67 ? 173 : rank - 33 + 127;
    } else if (!is_plain(c)) {
        return false;
    }
    *byte = (unsigned char)value;
    return true;
}

bool spelling_to_bytes(struct str token, struct buf *out) {
    size_t before = out->len;
    for (size_t at = 0; at < token.len;) {
        unsigned char byte;
        if (!spelling_to_byte(utf8_next(token, &at), &byte)) {
            if (!out->has_failed)
                out->len = before;
            return false;
        }
        buf_add_char(out, (char)byte);
    }
    return true;
}

void spelling_add(struct str bytes, struct buf *out) {
    for (size_t i = 0; i < bytes.len; i++)
        buf_add_utf8(out, spelling_of_byte((unsigned char)bytes.data[i]));
}
