/* The decoder of a tokenizer: strings of tokens to text. Constant once loaded; any thread. */
#ifndef SLUICE_TEXT_DECODE_H
#define SLUICE_TEXT_DECODE_H

#include "text/component.h"
#include "text/regex.h"

enum decoder_kind {
    DECODER_BYTE_LEVEL,    /* all strings together; U+FFFD for each maximal invalid part */
    DECODER_BYTE_FALLBACK, /* a run of <0xNN> is text, or U+FFFD for each when it is no valid UTF-8
                            */
    DECODER_REPLACE,
    DECODER_FUSE,
    DECODER_STRIP,     /* up to start and stop times the content at the ends of each string */
    DECODER_METASPACE, /* the pattern becomes a space, in the first string nothing */
};

struct decoder_step {
    enum decoder_kind kind;
    struct str pattern, content;
    struct regex *regex; /* DECODER_REPLACE: in place of the literal pattern */
    uint64_t start, stop;
    bool drops_first; /* DECODER_METASPACE */
};

struct decoder {
    struct arena arena;
    struct decoder_step steps[SL_COMPONENT_STEPS_MAX];
    size_t count;
    bool joins_by_space; /* no decoder at all: strings with spaces between, as the library does */
};

void decoder_init(struct decoder *decoder);
void decoder_release(struct decoder *decoder);
/* json: the member "decoder"; null and NULL join the strings by spaces. */
enum status decoder_load(struct decoder *decoder, const struct json *json, struct error *err);
/* Adds a step by hand (GGUF vocabularies). Texts are copied, a regex is taken. */
enum status decoder_add(struct decoder *decoder, const struct decoder_step *step,
                        struct error *err);

struct decoder_strings { /* strings in one buffer, for passing from step to step */
    struct buf text;
    size_t *ends; /* where each ends in text */
    size_t count, cap;
};
void decoder_strings_release(struct decoder_strings *strings);
bool decoder_strings_add(struct decoder_strings *strings, struct str text);

/* Appends what the strings decode to; they are used up. SL_ERR_ROW. */
enum status decoder_run(const struct decoder *decoder, struct decoder_strings *strings,
                        struct buf *out, struct error *err);
/* Appends the raw bytes of one token in running text: bytes that are part of a character stay as
 * they are. is_first: it begins the text (its leading space may fall away). */
void decoder_token_bytes(const struct decoder *decoder, struct str token, bool is_first,
                         struct buf *out);

#endif
