/* What a character is, and the other forms it has: general categories of Unicode 16, normal forms
 * of Unicode 9, as the Hugging Face tokenizers library was measured to have them (the versions
 * stand in tools/gen_unicode.py, which makes the tables). Pure functions over const tables; any
 * thread. */
#ifndef SLUICE_TEXT_UNICODE_H
#define SLUICE_TEXT_UNICODE_H

#include "base/str.h"

#define SL_UNICODE_END 0x110000u /* one past the last code point */

enum unicode_category {
    UNICODE_LU,
    UNICODE_LL,
    UNICODE_LT,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_MN,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PS,
    UNICODE_PE,
    UNICODE_PI,
    UNICODE_PF,
    UNICODE_PO,
    UNICODE_SM,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SO,
    UNICODE_ZS,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CS,
    UNICODE_CO,
    UNICODE_CN,
    UNICODE_CATEGORIES,
};

struct unicode_range {
    uint32_t from, to; /* inclusive */
};
struct unicode_script {
    const char *name;
    struct unicode_range range;
};
struct unicode_shift { /* from, from + step, .. to: lower case is that far away */
    uint32_t from, to, step;
    int32_t shift;
};
struct unicode_combining {
    uint32_t from, to;
    uint8_t class;
};
struct unicode_parts { /* a full decomposition: count code points of unicode_parts_pool from at on
                        */
    uint32_t code_point;
    uint16_t at, count;
};
struct unicode_pair { /* first + second compose to whole */
    uint32_t first, second, whole;
};

/* Tables, sorted by code point (pairs by first, then second). A category run is its first code
 * point
 * << 5 | enum unicode_category and lasts to the next. */
extern const uint32_t unicode_category_runs[];
extern const size_t unicode_category_runs_count;
extern const struct unicode_range unicode_numeric_since_16[], unicode_marks_9[],
    unicode_punctuation_8[];
extern const size_t unicode_numeric_since_16_count, unicode_marks_9_count,
    unicode_punctuation_8_count;
extern const struct unicode_script unicode_scripts[];
extern const size_t unicode_scripts_count;
extern const struct unicode_shift unicode_lower[];
extern const size_t unicode_lower_count;
extern const struct unicode_combining unicode_combining[];
extern const size_t unicode_combining_count;
extern const struct unicode_parts unicode_canonical[], unicode_compatible[];
extern const size_t unicode_canonical_count, unicode_compatible_count;
extern const uint32_t unicode_parts_pool[];
extern const size_t unicode_parts_pool_count;
extern const struct unicode_pair unicode_pairs[];
extern const size_t unicode_pairs_count;

enum unicode_category unicode_category(uint32_t code_point);
bool unicode_is_space(uint32_t code_point); /* White_Space */
bool unicode_is_word(uint32_t code_point);  /* \w of Rust's regexes (UTS 18) */
bool unicode_is_numeric(
    uint32_t code_point); /* Nd, Nl, No of Unicode 17: the Digits pre-tokenizer */
bool unicode_is_punctuation(
    uint32_t code_point);                  /* the Punctuation pre-tokenizer: ASCII, and P of 8 */
bool unicode_is_mark(uint32_t code_point); /* M of Unicode 9: StripAccents */
/* Writes 1 or 2 code points, returns how many (U+0130 has two). */
size_t unicode_to_lower(uint32_t code_point, uint32_t out[2]);

enum unicode_form { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD };
/* Appends text (valid UTF-8) in that normal form. False when memory is out (also when the buffer
 * failed before). */
bool unicode_normalize(enum unicode_form form, struct str text, struct buf *out);

#endif
