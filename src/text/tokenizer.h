/* Tokenizers: characters to token ids and back, as the Hugging Face tokenizers library does it.
 *
 *   text -> added tokens cut out -> normalizer -> pre-tokenizer -> model (BPE) -> post-processor ->
 * ids ids  -> token strings -> decoder -> bytes -> UTF-8 (one U+FFFD for a maximal invalid part)
 *
 * Made from tokenizer.json alone (text of the file) or from the vocabulary of a GGUF file; there is
 * no table of model names. A component, or a member of one, that is not supported refuses the
 * tokenizer with its name: never another pipeline in its place. Regexes run by PCRE2 with JIT and
 * limits.
 *
 * Sees bytes only: no files. A tokenizer is constant once made; any number of threads encode at
 * once. */
#ifndef SLUICE_TEXT_TOKENIZER_H
#define SLUICE_TEXT_TOKENIZER_H

#include "base/str.h"

struct tokenizer;

/* name is for messages (a file name). SL_ERR_ENV. json_text may go away after the call. */
enum status tokenizer_from_json(struct str json_text, const char *name, struct tokenizer **out,
                                struct error *err);

/* The vocabulary of a GGUF file: the members tokenizer.ggml.* as they stand there. Borrowed during
 * the call. */
struct vocab_source {
    const char *name; /* of the file, for messages */
    struct str model; /* "gpt2", "llama", "gemma4" */
    struct str
        pre; /* "smollm", "llama-bpe", ...: a row of the table of pre-tokenizers; empty if absent */
    const struct str *tokens;
    size_t token_count;
    const int64_t *types; /* NULL or token_count: 1 normal, 2 unknown, 3 control, 4 user defined, 5
                             unused, 6 byte */
    const struct str *merges; /* "left right" */
    size_t merge_count;
    const double *scores;               /* NULL or token_count */
    int64_t bos, eos, unknown, padding; /* -1 when absent */
    bool adds_bos, adds_eos, adds_space_prefix;
};
enum status tokenizer_from_vocab(const struct vocab_source *source, struct tokenizer **out,
                                 struct error *err);
/* adds_bos where the file does not say (tokenizer.ggml.add_bos_token is absent), as llama.cpp has
 * it; adds_space_prefix is then true for the model "llama" alone, adds_eos false. */
bool tokenizer_vocab_adds_bos(struct str model, struct str pre);
void tokenizer_free(struct tokenizer *tokenizer); /* accepts NULL */

struct ids {
    uint32_t *items;
    size_t count, cap;
};
void ids_release(struct ids *ids);
bool ids_add(struct ids *ids, uint32_t id); /* false when memory is out */

struct encode_options {
    bool adds_special;     /* what the post-processor adds by itself (BOS, ..) */
    bool specials_as_text; /* special tokens written in the text are plain text */
    /* Offsets in the text, rising, of bytes that no special token may cover: places that come from
     * others than the one who wrote the template (text/content.h). */
    const size_t *plain;
    size_t plain_count;
};

/* Appends the ids of text (UTF-8; invalid parts are read as U+FFFD) to ids. SL_ERR_ROW when a limit
 * is hit. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct str text,
                             const struct encode_options *options, struct ids *ids,
                             struct error *err);

/* Appends the text of ids, valid UTF-8. Ids without a token give nothing. */
enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count,
                             bool skips_special, struct buf *out, struct error *err);

size_t
tokenizer_vocab_size(const struct tokenizer *tokenizer); /* highest id + 1, added tokens included */
bool tokenizer_find(const struct tokenizer *tokenizer, struct str content,
                    uint32_t *id); /* a token by its string */
/* The token's string as in the vocabulary (byte-level spelling); empty when there is none. */
struct str tokenizer_token(const struct tokenizer *tokenizer, uint32_t id);
bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id);
/* How many bytes of text a special token takes that is written at `at`: the longest; 0: none. */
size_t tokenizer_special_at(const struct tokenizer *tokenizer, struct str text, size_t at);
/* The same for added tokens that are not special. */
size_t tokenizer_added_at(const struct tokenizer *tokenizer, struct str text, size_t at);
/* Whether some special token's text begins with this byte. */
bool tokenizer_special_begins(const struct tokenizer *tokenizer, char byte);
/* Appends the raw bytes that id stands for in running text (may be part of a character). For stop
 * texts, logprobs. */
void tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, struct buf *out);

#endif
