/* Owns the way from text to ids and back, over the parts that tokenizer_load.c and vocab_gguf.c
 * make. Refuses nothing by itself: limits are those of the parts. */
#include "text/tokenizer.h"

#include "text/plain.h"
#include "text/tokenizer_parts.h"

#include <string.h>

struct tokenizer *tokenizer_new(void) {
    struct tokenizer *tokenizer = mem_new(1, sizeof *tokenizer);
    if (!tokenizer)
        return NULL;
    vocab_init(&tokenizer->vocab);
    added_init(&tokenizer->added);
    normalizer_init(&tokenizer->normalizer);
    pretokenizer_init(&tokenizer->pretokenizer);
    decoder_init(&tokenizer->decoder);
    return tokenizer;
}

void tokenizer_free(struct tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    ids_release(&tokenizer->before);
    ids_release(&tokenizer->after);
    decoder_release(&tokenizer->decoder);
    bpe_release(&tokenizer->bpe);
    pretokenizer_release(&tokenizer->pretokenizer);
    normalizer_release(&tokenizer->normalizer);
    added_release(&tokenizer->added);
    vocab_release(&tokenizer->vocab);
    mem_free(tokenizer);
}

void ids_release(struct ids *ids) {
    mem_free(ids->items);
    *ids = (struct ids){0};
}

bool ids_add(struct ids *ids, uint32_t id) {
    if (ids->count == ids->cap &&
        !mem_grow((void **)&ids->items, &ids->cap, ids->count + 1, sizeof *ids->items))
        return false;
    ids->items[ids->count++] = id;
    return true;
}

static enum status out_of_memory(struct error *err) {
    return error_memory(err, sizeof(uint32_t), "the tokens of a text");
}

/* ---- Encoding */

struct encoder {
    const struct tokenizer *tokenizer;
    const struct encode_options *options;
    struct pretokenizer_scratch words;
    struct bpe_scratch merges;
    struct buf normalized[2];
    struct plain plain; /* of the stretch at hand */
    struct ids *ids;
};

static enum status encode_word(void *context, struct str word, struct error *err) {
    struct encoder *encoder = context;
    return bpe_encode(&encoder->tokenizer->bpe, &encoder->merges, word, encoder->ids, err);
}

/* A stretch of raw text without raw added tokens; it begins at offset. */
static enum status encode_stretch(struct encoder *encoder, struct str text, size_t offset,
                                  struct error *err) {
    const struct tokenizer *tokenizer = encoder->tokenizer;
    struct normalized form;
    struct word_sink sink = {encode_word, encoder};
    TRY(normalizer_run(&tokenizer->normalizer, text, encoder->normalized, &form, err));
    struct added_walk walk;
    struct added_piece piece;
    added_walk_begin(&walk, &tokenizer->added, true, form.text, encoder->options->specials_as_text);
    if (encoder->options->plain_count > 0 && tokenizer->added.has_normalized_special) {
        const struct plain_source source = {encoder->options->plain, encoder->options->plain_count,
                                            text, offset, form.text};
        TRY(plain_map(&encoder->plain, tokenizer, &source, err));
        walk.plain = encoder->plain.items;
        walk.plain_count = encoder->plain.count;
    }
    while (added_walk_next(&walk, &piece)) {
        if (!piece.token)
            TRY(pretokenizer_run(&tokenizer->pretokenizer, &encoder->words, piece.text,
                                 offset + piece.offset == 0 && !form.lost_beginning, &sink, err));
        else if (!ids_add(encoder->ids, piece.token->id))
            return out_of_memory(err);
    }
    return SL_OK;
}

static enum status encode_text(struct encoder *encoder, struct str text, struct error *err) {
    struct added_walk walk;
    struct added_piece piece;
    added_walk_begin(&walk, &encoder->tokenizer->added, false, text,
                     encoder->options->specials_as_text);
    walk.plain = encoder->options->plain;
    walk.plain_count = encoder->options->plain_count;
    while (added_walk_next(&walk, &piece)) {
        if (!piece.token)
            TRY(encode_stretch(encoder, piece.text, piece.offset, err));
        else if (!ids_add(encoder->ids, piece.token->id))
            return out_of_memory(err);
    }
    return SL_OK;
}

static enum status add_all(struct ids *ids, const struct ids *more, struct error *err) {
    for (size_t i = 0; i < more->count; i++) {
        if (!ids_add(ids, more->items[i]))
            return out_of_memory(err);
    }
    return SL_OK;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct str text,
                             const struct encode_options *options, struct ids *ids,
                             struct error *err) {
    struct encoder encoder = {.tokenizer = tokenizer, .options = options, .ids = ids};
    struct buf valid;
    size_t count_before = ids->count;
    buf_init(&valid);
    buf_init(&encoder.normalized[0]);
    buf_init(&encoder.normalized[1]);
    pretokenizer_scratch_init(&encoder.words, &tokenizer->pretokenizer);
    enum status status = SL_OK;
    if (utf8_valid_len(text) != text.len) {
        must(options->plain_count == 0); /* offsets would no longer be those of the text */
        utf8_add_lossy(&valid, text);
        text = buf_str(&valid);
        if (valid.has_failed)
            status = out_of_memory(err);
    }
    if (status == SL_OK && options->adds_special)
        status = add_all(ids, &tokenizer->before, err);
    if (status == SL_OK)
        status = encode_text(&encoder, text, err);
    if (status == SL_OK && options->adds_special)
        status = add_all(ids, &tokenizer->after, err);
    if (status != SL_OK)
        ids->count = count_before;
    pretokenizer_scratch_release(&encoder.words);
    bpe_scratch_release(&encoder.merges);
    plain_release(&encoder.plain);
    buf_release(&encoder.normalized[1]);
    buf_release(&encoder.normalized[0]);
    buf_release(&valid);
    return status;
}

/* ---- Decoding */

/* What the decoder gets for an id; data NULL: nothing. */
static struct str shown_token(const struct tokenizer *tokenizer, uint32_t id) {
    const struct added_token *token = added_get(&tokenizer->added, id);
    return token ? token->shown : vocab_token(&tokenizer->vocab, id);
}

enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count,
                             bool skips_special, struct buf *out, struct error *err) {
    struct decoder_strings strings = {0};
    buf_init(&strings.text);
    enum status status = SL_OK;
    for (size_t i = 0; i < count && status == SL_OK; i++) {
        struct str token = shown_token(tokenizer, ids[i]);
        if (!token.data || (skips_special && tokenizer_is_special(tokenizer, ids[i])))
            continue;
        if (!decoder_strings_add(&strings, token))
            status = error_memory(err, strings.text.len + token.len, "the text of tokens");
    }
    if (status == SL_OK)
        status = decoder_run(&tokenizer->decoder, &strings, out, err);
    decoder_strings_release(&strings);
    return status;
}

size_t tokenizer_vocab_size(const struct tokenizer *tokenizer) {
    size_t size = tokenizer->vocab.size;
    for (size_t i = 0; i < tokenizer->added.count; i++) {
        if (tokenizer->added.items[i].id >= size)
            size = (size_t)tokenizer->added.items[i].id + 1;
    }
    return size;
}

bool tokenizer_find(const struct tokenizer *tokenizer, struct str content, uint32_t *id) {
    const struct added_token *token = added_find(&tokenizer->added, content);
    if (!token)
        return vocab_find(&tokenizer->vocab, content, id);
    *id = token->id;
    return true;
}

struct str tokenizer_token(const struct tokenizer *tokenizer, uint32_t id) {
    const struct added_token *token = added_get(&tokenizer->added, id);
    return token ? token->content : vocab_token(&tokenizer->vocab, id);
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id) {
    const struct added_token *token = added_get(&tokenizer->added, id);
    return token && token->is_special;
}

size_t tokenizer_special_at(const struct tokenizer *tokenizer, struct str text, size_t at) {
    return added_match_len(&tokenizer->added.specials, text, at);
}

size_t tokenizer_added_at(const struct tokenizer *tokenizer, struct str text, size_t at) {
    size_t raw = added_match_len(&tokenizer->added.raw, text, at);
    size_t normalized = added_match_len(&tokenizer->added.normalized, text, at);
    size_t len = raw > normalized ? raw : normalized;
    return len > tokenizer_special_at(tokenizer, text, at) ? len : 0;
}

bool tokenizer_special_begins(const struct tokenizer *tokenizer, char byte) {
    return tokenizer->added.specials.roots[(unsigned char)byte] != 0;
}

void tokenizer_running_bytes(const struct tokenizer *tokenizer, uint32_t id, bool is_first,
                             struct buf *out) {
    struct str token = shown_token(tokenizer, id);
    if (token.data)
        decoder_token_bytes(&tokenizer->decoder, token, is_first, out);
}

void tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, struct buf *out) {
    tokenizer_running_bytes(tokenizer, id, false, out);
}
