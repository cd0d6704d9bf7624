/* The normalizer of a tokenizer: text to text, step by step. Constant once loaded; any thread, each
 * with buffers of its own. */
#ifndef SLUICE_TEXT_NORMALIZE_H
#define SLUICE_TEXT_NORMALIZE_H

#include "text/component.h"
#include "text/regex.h"
#include "text/unicode.h"

enum normalizer_kind {
    NORMALIZER_FORM, /* NFC, NFD, NFKC, NFKD */
    NORMALIZER_LOWERCASE,
    NORMALIZER_STRIP,         /* white space at the ends */
    NORMALIZER_STRIP_ACCENTS, /* every mark */
    NORMALIZER_PREPEND,       /* to text that is not empty */
    NORMALIZER_REPLACE,
};

struct normalizer_step {
    enum normalizer_kind kind;
    enum unicode_form form;
    bool strips_left, strips_right;
    struct str pattern, content; /* pattern: a literal, unless regex is there */
    struct regex *regex;
};

struct normalizer {
    struct arena arena; /* of the texts */
    struct normalizer_step steps[SL_COMPONENT_STEPS_MAX];
    size_t count;
};

void normalizer_init(struct normalizer *normalizer);
void normalizer_release(struct normalizer *normalizer);
/* json: the member "normalizer"; null and NULL do nothing. */
enum status normalizer_load(struct normalizer *normalizer, const struct json *json,
                            struct error *err);
/* Adds a step by hand (GGUF vocabularies). Texts are copied, a regex is taken. */
enum status normalizer_add(struct normalizer *normalizer, const struct normalizer_step *step,
                           struct error *err);

struct normalized {
    struct str text;     /* the input itself, or in one of the buffers */
    bool lost_beginning; /* what text begins with does not stand at the input's beginning */
};
/* text is valid UTF-8. The buffers are used in turn. SL_ERR_ROW. */
enum status normalizer_run(const struct normalizer *normalizer, struct str text,
                           struct buf buffers[2], struct normalized *out, struct error *err);

#endif
