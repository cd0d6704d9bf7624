/* Regexes as tokenizer.json writes them: Oniguruma's Ruby syntax, with Unicode 16 classes, run by
 * PCRE2.
 *
 * A pattern tells only a few kinds of characters apart (letters, digits, spaces, ...). regex_new
 * finds these kinds from the pattern's own classes; text becomes one byte a character, the number
 * of its kind, and PCRE2 matches these bytes with small bitmaps. So the classes are exactly those
 * of our tables, whatever version PCRE2 has, and text in any script is as fast as ASCII.
 *
 * A construct that is not supported is an error that names it. A regex is constant once made; a
 * scan belongs to one thread. */
#ifndef SLUICE_TEXT_REGEX_H
#define SLUICE_TEXT_REGEX_H

#include "base/str.h"

#define SL_REGEX_PATTERN_MAX ((size_t)16 << 10) /* bytes */

struct regex;

/* SL_ERR_ENV. */
enum status regex_new(struct str pattern, struct regex **out, struct error *err);
void regex_free(struct regex *regex); /* accepts NULL */

/* One walk over a text. Keeps its memory from text to text: init once, begin often, release. */
struct regex_scan {
    const struct regex *regex;
    struct str text;
    unsigned char *kinds; /* one for each character of text */
    size_t kinds_count, kinds_cap;
    size_t at_char, at_byte; /* the same place, counted both ways: where the last match ended */
    size_t search_from;      /* characters; after an empty match one further than at_char */
    bool is_ascii, has_matched;
    void *match_data, *match_context, *jit_stack; /* PCRE2's */
};

void regex_scan_init(struct regex_scan *scan, const struct regex *regex);
void regex_scan_release(struct regex_scan *scan);
/* text must be valid UTF-8 and live until the walk is over. SL_ERR_ENV when memory is out. */
enum status regex_scan_begin(struct regex_scan *scan, struct str text, struct error *err);
/* The next match that does not overlap the last, as byte offsets. Empty matches right behind a
 * match are passed over, as Rust's and Oniguruma's iterators do. *found false: no more. SL_ERR_ROW
 * when a limit of PCRE2 is hit. */
enum status regex_scan_next(struct regex_scan *scan, bool *found, size_t *from, size_t *to,
                            struct error *err);

#endif
