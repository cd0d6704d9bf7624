/* The first half of a regex (private to regex*.c): the pattern as PCRE2 syntax with references to
 * sets of characters in place of characters. */
#ifndef SLUICE_TEXT_REGEX_PARSE_H
#define SLUICE_TEXT_REGEX_PARSE_H

#include "text/charset.h"

#define SL_REGEX_SETS_MAX 255u

/* In `syntax` a set is SL_REGEX_SET followed by a byte, the set's index + 1. */
#define SL_REGEX_SET '\x01'

struct regex_parsed {
    struct buf syntax;
    struct charset sets[SL_REGEX_SETS_MAX]; /* settled, all different */
    size_t set_count;
};

enum status regex_parse(struct str pattern, struct regex_parsed *parsed, struct error *err);
void regex_parsed_release(struct regex_parsed *parsed); /* also after a failure */

#endif
