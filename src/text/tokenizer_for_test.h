/* What the tests of tokenizers share: toys made from the parts of a tokenizer.json, and short ways
 * to encode, decode and compare. Used by *_test.c alone. */
#ifndef SLUICE_TEXT_TOKENIZER_FOR_TEST_H
#define SLUICE_TEXT_TOKENIZER_FOR_TEST_H

#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Members of a tokenizer.json; NULL stands for null (added: for none). */
struct toy {
    const char *added, *normalizer, *pre, *post, *decoder;
    const char *vocab, *merges; /* of a BPE model */
    const char *model;          /* further members of the model, with a comma at the end */
};

/* The vocabulary that most toys share, byte-level: ids 0 to 6. */
#define TOY_VOCAB "{\"a\":0,\"b\":1,\"c\":2,\"Ġ\":3,\"Ċ\":4,\"ab\":5,\"Ġa\":6}"
#define TOY_MERGES "[\"a b\",\"Ġ a\"]"
#define TOY_BYTES                                                                                  \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"

static inline const char *or_null(const char *text) {
    return text ? text : "null";
}

static inline enum status toy_load(const struct toy *toy, struct tokenizer **out,
                                   struct error *err) {
    struct buf json;
    buf_init(&json);
    buf_printf(&json,
               "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":%s,"
               "\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":%s,",
               toy->added ? toy->added : "[]", or_null(toy->normalizer), or_null(toy->pre),
               or_null(toy->post), or_null(toy->decoder));
    buf_printf(&json, "\"model\":{\"type\":\"BPE\",%s\"vocab\":%s,\"merges\":%s}}",
               toy->model ? toy->model : "", toy->vocab ? toy->vocab : TOY_VOCAB,
               toy->merges ? toy->merges : TOY_MERGES);
    enum status status = tokenizer_from_json(buf_str(&json), "toy.json", out, err);
    buf_release(&json);
    return status;
}

static inline struct tokenizer *toy_new(const struct toy *toy) {
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    if (toy_load(toy, &tokenizer, &err) != SL_OK)
        fail_msg("%s", err.text);
    return tokenizer;
}

/* The toy must be refused, with both words in the message. */
static inline void check_refused(const struct toy *toy, const char *word, const char *other) {
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    assert_int_equal(toy_load(toy, &tokenizer, &err), SL_ERR_ENV);
    assert_null(tokenizer);
    assert_int_equal(err.status, SL_ERR_ENV);
    if (!strstr(err.text, word) || !strstr(err.text, other) || !strstr(err.text, "toy.json"))
        fail_msg("\"%s\" names neither %s nor %s", err.text, word, other);
}

static inline void check_ids_with(const struct tokenizer *tokenizer, struct str text,
                                  const struct encode_options *options, const uint32_t *wanted,
                                  size_t count) {
    struct ids ids = {0};
    struct error err = {0};
    if (tokenizer_encode(tokenizer, text, options, &ids, &err) != SL_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < count || i < ids.count; i++) {
        if (i >= count || i >= ids.count || ids.items[i] != wanted[i])
            fail_msg("\"%.*s\": %zu ids, not %zu; the first difference is at %zu: %d",
                     STR_ARG(text), ids.count, count, i, i < ids.count ? (int)ids.items[i] : -1);
    }
    ids_release(&ids);
}

/* CHECK_IDS(tokenizer, "text", 1, 2, 3): its ids without special tokens. */
#define CHECK_IDS(tokenizer, text, ...)                                                            \
    do {                                                                                           \
        const uint32_t wanted_[] = {__VA_ARGS__};                                                  \
        const struct encode_options options_ = {0};                                                \
        check_ids_with((tokenizer), STR(text), &options_, wanted_,                                 \
                       sizeof wanted_ / sizeof wanted_[0]);                                        \
    } while (0)

#define CHECK_SPECIAL_IDS(tokenizer, text, ...)                                                    \
    do {                                                                                           \
        const uint32_t wanted_[] = {__VA_ARGS__};                                                  \
        const struct encode_options options_ = {.adds_special = true};                             \
        check_ids_with((tokenizer), STR(text), &options_, wanted_,                                 \
                       sizeof wanted_ / sizeof wanted_[0]);                                        \
    } while (0)

static inline void check_text(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count,
                              bool skips_special, const char *wanted) {
    struct buf text;
    struct error err = {0};
    buf_init(&text);
    if (tokenizer_decode(tokenizer, ids, count, skips_special, &text, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_string_equal(text.data ? text.data : "", wanted);
    buf_release(&text);
}

/* CHECK_TEXT(tokenizer, skips_special, "wanted", 1, 2, 3) */
#define CHECK_TEXT(tokenizer, skips, wanted, ...)                                                  \
    do {                                                                                           \
        const uint32_t ids_[] = {__VA_ARGS__};                                                     \
        check_text((tokenizer), ids_, sizeof ids_ / sizeof ids_[0], (skips), (wanted));            \
    } while (0)

#endif
