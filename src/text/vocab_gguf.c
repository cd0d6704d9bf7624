/* Owns the making of a tokenizer from the vocabulary in a GGUF file. Such a file names its
 * pre-tokenizer and leaves the rest of the pipeline to the kind: gpt2 is byte-level BPE, llama is
 * SentencePiece BPE with scores in place of merges, gemma4 SentencePiece BPE with merges. Refuses
 * other kinds (bert, t5, rwkv, ...) and unknown pre-tokenizers by name. */
#include "text/tokenizer_parts.h"
#include "text/unicode.h"
#include "text/vocab_pre.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 */

enum token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED };

static int64_t type_of(const struct vocab_source *source, size_t id) {
    return source->types ? source->types[id] : TYPE_NORMAL;
}

static enum status put_tokens(struct tokenizer *tokenizer, const struct vocab_source *source,
                              struct error *err) {
    if (!vocab_reserve(&tokenizer->vocab, source->token_count))
        return error_memory(err, source->token_count, "a vocabulary");
    for (size_t id = 0; id < source->token_count; id++) {
        struct str token = source->tokens[id];
        if (utf8_valid_len(token) != token.len)
            return error_set(err, SL_ERR_ENV, "token %zu of tokenizer.ggml.tokens is not UTF-8",
                             id);
        TRY(vocab_add(&tokenizer->vocab, token, id, err));
        int64_t type = type_of(source, id);
        bool is_special = type == TYPE_CONTROL || type == TYPE_UNKNOWN;
        if (!is_special && type != TYPE_USER_DEFINED)
            continue;
        struct added_token added = {.content = token, .id = (uint32_t)id, .is_special = is_special};
        TRY(added_put(&tokenizer->added, &added, err));
    }
    return SL_OK;
}

static enum status put_merges(struct tokenizer *tokenizer, const struct vocab_source *source,
                              struct error *err) {
    for (size_t i = 0; i < source->merge_count; i++) {
        struct str merge = source->merges[i];
        /* The first part is never empty, but may be a space itself. */
        size_t space = str_find(merge, STR(" "), 1);
        if (space == SIZE_MAX)
            return error_set(err, SL_ERR_ENV, "merge %zu, \"%.*s\", is not two parts with a space",
                             i, STR_ARG(merge));
        TRY(bpe_add_merge(&tokenizer->bpe, str_cut(merge, 0, space),
                          str_cut(merge, space + 1, merge.len), (uint32_t)i, err));
    }
    return SL_OK;
}

/* ---- Pieces of pipelines */

static enum status add_pre_step(struct pretokenizer *pretokenizer, const char *text,
                                struct error *err) {
    struct pretokenizer_step test = {
        .kind = PRETOKENIZER_TEST, .behavior = SPLIT_ISOLATED, .test = unicode_is_numeric};
    if (strcmp(text, SL_PRE_DIGITS) == 0)
        return pretokenizer_add(pretokenizer, &test, err);
    test.behavior = SPLIT_CONTIGUOUS;
    if (strcmp(text, SL_PRE_DIGITS "+") == 0)
        return pretokenizer_add(pretokenizer, &test, err);
    test.test = unicode_is_punctuation;
    if (strcmp(text, SL_PRE_PUNCTUATION) == 0)
        return pretokenizer_add(pretokenizer, &test, err);
    if (strcmp(text, SL_PRE_GPT2) == 0)
        text = pretokenizer_gpt2_regex;
    return pretokenizer_add_regex(pretokenizer, str_from(text), SPLIT_ISOLATED, false, err);
}

static enum status build_byte_level(struct tokenizer *tokenizer, const struct vocab_source *source,
                                    struct bpe_options *options, struct error *err) {
    const struct vocab_pre *pre = vocab_pre_find(source->pre);
    if (!pre && source->pre.len == 0)
        return error_set(err, SL_ERR_ENV,
                         "tokenizer.ggml.pre is missing, so its pre-tokenizer is not known");
    if (!pre)
        return error_set(err, SL_ERR_ENV, "the pre-tokenizer \"%.*s\" is not supported",
                         STR_ARG(source->pre));
    for (int i = 0; i < SL_VOCAB_PRE_STEPS_MAX && pre->steps[i]; i++) {
        if (pre->spelled_from && i == pre->spelled_from)
            tokenizer->pretokenizer.is_byte_level = true;
        TRY(add_pre_step(&tokenizer->pretokenizer, pre->steps[i], err));
    }
    tokenizer->pretokenizer.is_byte_level = true;
    if (pre->normalizes_nfc) {
        struct normalizer_step nfc = {.kind = NORMALIZER_FORM, .form = UNICODE_NFC};
        TRY(normalizer_add(&tokenizer->normalizer, &nfc, err));
    }
    options->is_byte_level = true;
    options->ignores_merges = pre->ignores_merges;
    struct decoder_step bytes = {.kind = DECODER_BYTE_LEVEL};
    return decoder_add(&tokenizer->decoder, &bytes, err);
}

static enum status build_sentencepiece(struct tokenizer *tokenizer,
                                       const struct vocab_source *source,
                                       struct bpe_options *options, struct error *err) {
    struct normalizer_step prepend = {.kind = NORMALIZER_PREPEND, .content = STR(SPACE_MARK)};
    struct normalizer_step replace = {
        .kind = NORMALIZER_REPLACE, .pattern = STR(" "), .content = STR(SPACE_MARK)};
    if (source->adds_space_prefix)
        TRY(normalizer_add(&tokenizer->normalizer, &prepend, err));
    TRY(normalizer_add(&tokenizer->normalizer, &replace, err));
    options->falls_back_to_bytes = options->fuses_unknown = options->cuts_words = true;
    if (source->unknown >= 0) {
        options->has_unknown = true;
        options->unknown = (uint32_t)source->unknown;
    }
    const struct decoder_step steps[] = {
        {.kind = DECODER_REPLACE, .pattern = STR(SPACE_MARK), .content = STR(" ")},
        {.kind = DECODER_BYTE_FALLBACK},
        {.kind = DECODER_FUSE},
        {.kind = DECODER_STRIP, .pattern = STR(" "), .start = 1},
    };
    size_t count = source->adds_space_prefix ? 4 : 3;
    for (size_t i = 0; i < count; i++)
        TRY(decoder_add(&tokenizer->decoder, &steps[i], err));
    return SL_OK;
}

/* ---- Scores as merges */

struct scored {
    double score;
    uint32_t id;
};

static int by_score(const void *a, const void *b) {
    const struct scored *left = a, *right = b;
    if (left->score != right->score)
        return left->score > right->score ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static bool can_merge(const struct vocab_source *source, size_t id) {
    int64_t type = type_of(source, id);
    return (type == TYPE_NORMAL || type == TYPE_USER_DEFINED) && source->tokens[id].len > 0;
}

struct score_merges { /* a walk over the ways to put tokens together */
    struct tokenizer *tokenizer;
    const struct vocab_source *source;
    bool adds; /* else it only counts */
    size_t count;
};

/* Each way to put the token together from two others. */
static enum status merges_of(struct score_merges *merges, uint32_t id, uint32_t rank,
                             struct error *err) {
    const struct vocab_source *source = merges->source;
    const struct vocab *vocab = &merges->tokenizer->vocab;
    struct str text = source->tokens[id];
    for (size_t at = 0; at < text.len;) {
        uint32_t left, right;
        utf8_next(text, &at);
        if (at == text.len || !vocab_find(vocab, str_cut(text, 0, at), &left) ||
            !vocab_find(vocab, str_cut(text, at, text.len), &right) || !can_merge(source, left) ||
            !can_merge(source, right))
            continue;
        merges->count++;
        if (merges->adds)
            TRY(bpe_add_merge(&merges->tokenizer->bpe, str_cut(text, 0, at),
                              str_cut(text, at, text.len), rank, err));
    }
    return SL_OK;
}

/* The tokens that merges can make, best score first. */
static enum status sort_scores(const struct vocab_source *source, struct scored *sorted,
                               size_t *count, struct error *err) {
    *count = 0;
    for (size_t id = 0; id < source->token_count; id++) {
        if (!can_merge(source, id))
            continue;
        if (isnan(source->scores[id]))
            return error_set(err, SL_ERR_ENV, "the score of token %zu is not a number", id);
        sorted[(*count)++] = (struct scored){source->scores[id], (uint32_t)id};
    }
    qsort(sorted, *count, sizeof *sorted, by_score);
    return SL_OK;
}

/* SentencePiece joins the pair whose whole has the best score, the leftmost of equals: ranks by
 * score, equal scores one rank. */
static enum status put_scores(struct tokenizer *tokenizer, const struct vocab_source *source,
                              const struct bpe_options *options, struct error *err) {
    if (!source->scores)
        return error_set(err, SL_ERR_ENV, "tokenizer.ggml.scores is missing");
    struct scored *sorted = mem_new(source->token_count, sizeof *sorted);
    if (!sorted)
        return error_memory(err, source->token_count * sizeof *sorted, "a vocabulary");
    struct score_merges merges = {tokenizer, source, false, 0};
    size_t count = 0;
    enum status status = sort_scores(source, sorted, &count, err);
    for (size_t i = 0; i < count && status == SL_OK; i++)
        status = merges_of(&merges, sorted[i].id, 0, err);
    if (status == SL_OK)
        status = bpe_init(&tokenizer->bpe, &tokenizer->vocab, options, merges.count, err);
    merges.adds = true;
    uint32_t rank = 0;
    for (size_t i = 0; i < count && status == SL_OK; i++) {
        if (i && sorted[i].score != sorted[i - 1].score)
            rank++;
        status = merges_of(&merges, sorted[i].id, rank, err);
    }
    mem_free(sorted);
    return status;
}

/* ---- The whole */

static enum status put_special(struct ids *ids, int64_t id, const char *name, struct error *err) {
    if (id < 0)
        return error_set(err, SL_ERR_ENV,
                         "tokenizer.ggml.add_%s_token is set, but there is no such token", name);
    return ids_add(ids, (uint32_t)id) ? SL_OK : error_memory(err, sizeof id, "a tokenizer");
}

static enum status check(const struct vocab_source *source, struct error *err) {
    const int64_t ids[] = {source->bos, source->eos, source->unknown, source->padding};
    if (source->token_count == 0 || source->token_count > SL_VOCAB_IDS_MAX)
        return error_set(err, SL_ERR_ENV, "tokenizer.ggml.tokens has %zu tokens, not 1 to %u",
                         source->token_count, SL_VOCAB_IDS_MAX);
    if (source->merge_count >= UINT32_MAX)
        return error_set(err, SL_ERR_ENV, "tokenizer.ggml.merges has %zu merges",
                         source->merge_count);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (ids[i] < -1 || ids[i] >= (int64_t)source->token_count)
            return error_set(err, SL_ERR_ENV,
                             "the token id %lld is not in the vocabulary of %zu tokens",
                             (long long)ids[i], source->token_count);
    }
    return SL_OK;
}

static enum status build(struct tokenizer *tokenizer, const struct vocab_source *source,
                         struct error *err) {
    struct bpe_options options = {0};
    TRY(check(source, err));
    TRY(put_tokens(tokenizer, source, err));
    if (str_is(source->model, "gpt2"))
        TRY(build_byte_level(tokenizer, source, &options, err));
    else if (str_is(source->model, "llama") || str_is(source->model, "gemma4"))
        TRY(build_sentencepiece(tokenizer, source, &options, err));
    else
        return error_set(err, SL_ERR_ENV, "the tokenizer.ggml.model \"%.*s\" is not supported",
                         STR_ARG(source->model));
    if (str_is(source->model, "llama")) {
        TRY(put_scores(tokenizer, source, &options, err));
    } else {
        if (source->merge_count == 0)
            return error_set(err, SL_ERR_ENV, "tokenizer.ggml.merges is missing or empty");
        TRY(bpe_init(&tokenizer->bpe, &tokenizer->vocab, &options, source->merge_count, err));
        TRY(put_merges(tokenizer, source, err));
    }
    TRY(bpe_finish(&tokenizer->bpe, err));
    TRY(added_finish(&tokenizer->added, &tokenizer->normalizer, err));
    if (source->adds_bos)
        TRY(put_special(&tokenizer->before, source->bos, "bos", err));
    if (source->adds_eos)
        TRY(put_special(&tokenizer->after, source->eos, "eos", err));
    return SL_OK;
}

enum status tokenizer_from_vocab(const struct vocab_source *source, struct tokenizer **out,
                                 struct error *err) {
    struct tokenizer *tokenizer = tokenizer_new();
    enum status status = tokenizer ? build(tokenizer, source, err)
                                   : error_memory(err, sizeof *tokenizer, "a tokenizer");
    if (status == SL_OK) {
        *out = tokenizer;
        return SL_OK;
    }
    tokenizer_free(tokenizer);
    return error_prefix(err, "%s", source->name);
}

bool tokenizer_vocab_adds_bos(struct str model, struct str pre) {
    if (str_is(model, "llama") || str_is(model, "gemma4"))
        return true;
    const struct vocab_pre *found = vocab_pre_find(pre);
    return found && found->adds_bos;
}
