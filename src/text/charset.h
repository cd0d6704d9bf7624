/* Sets of code points as sorted ranges, for the character classes of regexes. One thread at a time.
 * A failed allocation is sticky (has_failed), so that a chain of operations needs one check. */
#ifndef SLUICE_TEXT_CHARSET_H
#define SLUICE_TEXT_CHARSET_H

#include "text/unicode.h"

struct charset {
    struct unicode_range *ranges; /* sorted, apart and not touching once charset_settle has run */
    size_t count, cap;
    bool has_failed;
};

void charset_release(struct charset *set); /* a zeroed one is the empty set */
/* Adds from..to; settle before the set is read. */
void charset_add(struct charset *set, uint32_t from, uint32_t to);
void charset_add_set(struct charset *set, const struct charset *other);
void charset_settle(struct charset *set);
void charset_negate(struct charset *set);                                 /* settled */
void charset_intersect(struct charset *set, const struct charset *other); /* both settled */
bool charset_equal(const struct charset *a, const struct charset *b);     /* both settled */
bool charset_has(const struct charset *set, uint32_t code_point);         /* settled */
/* Adds what simple case folding joins to the members that are ASCII letters: the other case, and
 * U+017F for s, U+212A for k. False when another member has a case: that folding is not supported.
 */
bool charset_fold(struct charset *set);

/* Adds a property by its name in \p{...}: a general category ("L", "Lu", "Letter"), a script that
 * unicode_scripts has, "Any". False when the name is not known. */
bool charset_add_property(struct charset *set, struct str name);
void charset_add_space(struct charset *set); /* \s */
void charset_add_digit(struct charset *set); /* \d: Nd */
void charset_add_word(struct charset *set);  /* \w as Oniguruma has it */

#endif
