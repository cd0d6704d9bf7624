/* Private to template_chars.c: the tables that tools/gen_chars.py makes. */
#ifndef SLUICE_TEXT_TEMPLATE_CHARS_TABLES_H
#define SLUICE_TEXT_TEMPLATE_CHARS_TABLES_H

#include <stddef.h>
#include <stdint.h>

struct chars_range {
    uint32_t from, to;
};
struct chars_run { /* from, from + step, ... to: each maps to itself plus delta */
    uint32_t from, to, step;
    int32_t delta;
};
struct chars_special {
    uint32_t from, to[3]; /* 0 past the end */
};

#define CHARS_TABLE(kind, name)                                                                    \
    extern const struct kind name[];                                                               \
    extern const size_t name##_count;

CHARS_TABLE(chars_range, chars_digit_ranges)     /* digits beyond Nd */
CHARS_TABLE(chars_range, chars_numeric_ranges)   /* numbers beyond N */
CHARS_TABLE(chars_range, chars_upper_ranges)     /* upper case beyond Lu */
CHARS_TABLE(chars_range, chars_lower_ranges)     /* lower case beyond Ll */
CHARS_TABLE(chars_range, chars_ignorable_ranges) /* Case_Ignorable */
CHARS_TABLE(chars_run, chars_upper_runs)
CHARS_TABLE(chars_special, chars_upper_specials)
CHARS_TABLE(chars_run, chars_title_runs) /* where title case is not upper case */
CHARS_TABLE(chars_special, chars_title_specials)

#endif
