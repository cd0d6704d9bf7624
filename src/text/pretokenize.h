/* The pre-tokenizer: cuts normalized text into words, each of which the model encodes alone. A list
 * of steps; each cuts, and some rewrite, the pieces that the step before left. Constant once
 * loaded; any thread, each with a scratch of its own. */
#ifndef SLUICE_TEXT_PRETOKENIZE_H
#define SLUICE_TEXT_PRETOKENIZE_H

#include "text/component.h"
#include "text/regex.h"

enum split_behavior { /* what becomes of the matches that cut a text */
                      SPLIT_REMOVED,
                      SPLIT_ISOLATED,
                      SPLIT_CONTIGUOUS, /* neighbouring matches are one piece */
                      SPLIT_MERGED_WITH_PREVIOUS,
                      SPLIT_MERGED_WITH_NEXT,
};

enum pretokenizer_kind {
    PRETOKENIZER_REGEX,
    PRETOKENIZER_LITERAL,
    PRETOKENIZER_TEST,        /* each character that a predicate holds for is a match */
    PRETOKENIZER_METASPACE,   /* spaces become the literal, one may be put first; then maybe cut */
    PRETOKENIZER_SPACE_FIRST, /* a space before pieces that do not begin with one */
    PRETOKENIZER_SPELL,       /* from here on pieces are spelled bytes (spelling.h) */
};

enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

struct pretokenizer_step {
    enum pretokenizer_kind kind;
    enum split_behavior behavior;
    bool is_inverted; /* matches are what the pattern does not match */
    bool cuts;        /* PRETOKENIZER_METASPACE */
    enum prepend_scheme scheme;
    struct str literal;
    struct regex *regex;
    bool (*test)(uint32_t code_point);
};

struct pretokenizer {
    struct arena arena;
    struct pretokenizer_step steps[SL_COMPONENT_STEPS_MAX];
    size_t count;
    bool is_byte_level; /* words are bytes that the vocabulary spells */
    bool is_spelled;    /* the last steps see spelled pieces, which become bytes at the end */
};

/* GPT-2's pattern, which ByteLevel has built in. */
extern const char pretokenizer_gpt2_regex[];

void pretokenizer_init(struct pretokenizer *pretokenizer);
void pretokenizer_release(struct pretokenizer *pretokenizer);
/* json: the member "pre_tokenizer"; null and NULL leave texts whole. */
enum status pretokenizer_load(struct pretokenizer *pretokenizer, const struct json *json,
                              struct error *err);
/* Adds a step by hand (GGUF vocabularies). Its literal is copied, its regex taken. */
enum status pretokenizer_add(struct pretokenizer *pretokenizer,
                             const struct pretokenizer_step *step, struct error *err);
enum status pretokenizer_add_regex(struct pretokenizer *pretokenizer, struct str pattern,
                                   enum split_behavior behavior, bool is_inverted,
                                   struct error *err);
/* How a Metaspace component writes: its replacement and scheme. For the decoder, too. */
enum status pretokenizer_metaspace(const struct json *json, const char *where,
                                   struct str *replacement, enum prepend_scheme *scheme,
                                   struct error *err);

struct pretokenizer_scratch {
    struct regex_scan scans[SL_COMPONENT_STEPS_MAX];
    struct buf bufs[SL_COMPONENT_STEPS_MAX];
    struct buf bytes; /* is_spelled: a word as bytes again */
};
void pretokenizer_scratch_init(struct pretokenizer_scratch *scratch,
                               const struct pretokenizer *pretokenizer);
void pretokenizer_scratch_release(struct pretokenizer_scratch *scratch);

struct word_sink { /* gets the words in order, none empty */
    enum status (*word)(void *context, struct str word, struct error *err);
    void *context;
};
/* is_first: text begins where the whole input begins. */
enum status pretokenizer_run(const struct pretokenizer *pretokenizer,
                             struct pretokenizer_scratch *scratch, struct str text, bool is_first,
                             const struct word_sink *sink, struct error *err);

#endif
