/* Private to the template interpreter: characters as Python's str knows them (Unicode). */
#ifndef SLUICE_TEXT_TEMPLATE_CHARS_H
#define SLUICE_TEXT_TEMPLATE_CHARS_H

#include "base/str.h"

bool chars_is_space(uint32_t c);
bool chars_is_alpha(uint32_t c);
bool chars_is_decimal(uint32_t c); /* Nd */
bool chars_is_digit(uint32_t c);   /* decimal, and superscripts and the like */
bool chars_is_numeric(uint32_t c);
bool chars_is_upper(uint32_t c);
bool chars_is_lower(uint32_t c);
bool chars_is_title(uint32_t c);     /* title case letters: U+01C5 */
bool chars_is_cased(uint32_t c);     /* for istitle and title(): has a case */
bool chars_is_ignorable(uint32_t c); /* Case_Ignorable, for the final sigma */
bool chars_is_printable(uint32_t c);
bool chars_is_name(uint32_t c); /* \w */
/* Full case mappings: 1 to 3 characters into out; gives how many. */
size_t chars_upper(uint32_t c, uint32_t out[3]);
size_t chars_lower(uint32_t c, uint32_t out[3]);
size_t chars_title(uint32_t c, uint32_t out[3]);

#endif
