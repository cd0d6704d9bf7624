/* The byte-level spelling: each byte as one printable character, as GPT-2's vocabulary has it
 * (printable Latin-1 bytes stand for themselves, the other 68 are U+0100 and on). Pure functions;
 * any thread. */
#ifndef SLUICE_TEXT_SPELLING_H
#define SLUICE_TEXT_SPELLING_H

#include "base/str.h"

uint32_t spelling_of_byte(unsigned char byte);
/* The byte that a character stands for; false when it stands for none. */
bool spelling_to_byte(uint32_t code_point, unsigned char *byte);
/* Appends the bytes that a spelled token stands for; nothing and false when one of its characters
 * stands for none. */
bool spelling_to_bytes(struct str token, struct buf *out);
/* Appends the spelling of bytes. */
void spelling_add(struct str bytes, struct buf *out);

#endif
