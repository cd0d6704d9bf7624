/* Owns the making of a tokenizer from tokenizer.json. Refuses, by name, models other than BPE and
 * members that would change the ids in a way that is not built. `truncation` and `padding` are
 * settings of training jobs and are not looked at (transformers resets them, too). */
#include "text/tokenizer_parts.h"

#include "base/log.h"

#include <string.h>

#define JSON_DEPTH_MAX 64u
#define JSON_VALUES_MAX 10000000u /* the largest published vocabularies have 2 million */

/* ---- model */

static enum status load_vocab(struct vocab *vocab, const struct json *json, struct error *err) {
    const struct json *tokens = json_get(json, "vocab");
    if (!json_is(tokens, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "model: vocab is not an object");
    if (!vocab_reserve(vocab, tokens->count))
        return error_memory(err, tokens->count * sizeof *vocab->tokens, "a vocabulary");
    for (uint32_t i = 0; i < tokens->count; i++) {
        const struct json_member *member = &tokens->members[i];
        uint64_t id;
        if (!json_u64(&member->value, &id))
            return error_set(err, SL_ERR_ENV, "model: the id of \"%.*s\" is not an integer",
                             STR_ARG(member->name));
        TRY(vocab_add(vocab, member->name, id, err));
    }
    return SL_OK;
}

/* One of "a b" and ["a", "b"]. */
static enum status split_merge(const struct json *merge, uint32_t index, struct str *left,
                               struct str *right, struct error *err) {
    struct str text;
    if (json_is(merge, JSON_ARRAY) && merge->count == 2 && json_string(&merge->items[0], left) &&
        json_string(&merge->items[1], right))
        return SL_OK;
    if (json_string(merge, &text)) {
        size_t space = str_find(text, STR(" "), 0);
        if (space != SIZE_MAX && str_find(text, STR(" "), space + 1) == SIZE_MAX) {
            *left = str_cut(text, 0, space);
            *right = str_cut(text, space + 1, text.len);
            return SL_OK;
        }
        return error_set(err, SL_ERR_ENV,
                         "model: merge %u, \"%.*s\", is not two parts with a space", index,
                         STR_ARG(text));
    }
    return error_set(err, SL_ERR_ENV, "model: merge %u is neither a string nor two strings", index);
}

static enum status load_merges(struct bpe *bpe, const struct json *merges, struct error *err) {
    uint32_t rank = 0;
    for (uint32_t i = 0; i < merges->count; i++) {
        struct str left, right, text;
        if (json_string(&merges->items[i], &text) && str_starts(text, STR("#version")))
            continue;
        TRY(split_merge(&merges->items[i], i, &left, &right, err));
        TRY(bpe_add_merge(bpe, left, right, rank++, err));
    }
    return SL_OK;
}

/* Members that must be null or empty, because what they ask for is not built. */
static enum status refuse_members(const struct json *json, struct error *err) {
    static const char *const names[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    double dropout = 0;
    const struct json *member = json_get(json, "dropout");
    if (member && !json_is(member, JSON_NULL) && (!json_double(member, &dropout) || dropout != 0))
        return error_set(err, SL_ERR_ENV, "model: dropout is not supported");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct str text;
        member = json_get(json, names[i]);
        if (!member || json_is(member, JSON_NULL) || (json_string(member, &text) && text.len == 0))
            continue;
        return error_set(err, SL_ERR_ENV, "model: %s is not supported", names[i]);
    }
    return SL_OK;
}

static enum status load_model(struct tokenizer *tokenizer, const struct json *json,
                              struct error *err) {
    struct str type = STR("BPE"), unknown;
    struct bpe_options options = {.is_byte_level = tokenizer->pretokenizer.is_byte_level};
    const struct json *merges = json_get(json, "merges"), *member = json_get(json, "unk_token");
    if (!json_is(json, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "there is no model");
    if (json_get(json, "type"))
        TRY(component_type(json, "model", &type, err));
    if (!str_is(type, "BPE") || !json_is(merges, JSON_ARRAY))
        return str_is(type, "BPE") ? error_set(err, SL_ERR_ENV, "model: merges is not an array")
                                   : component_refuse("model", type, err);
    TRY(refuse_members(json, err));
    TRY(component_bool(json, "model", "ignore_merges", false, &options.ignores_merges, err));
    TRY(component_bool(json, "model", "byte_fallback", false, &options.falls_back_to_bytes, err));
    TRY(component_bool(json, "model", "fuse_unk", false, &options.fuses_unknown, err));
    TRY(load_vocab(&tokenizer->vocab, json, err));
    if (member && !json_is(member, JSON_NULL)) {
        TRY(component_string(json, "model", "unk_token", &unknown, err));
        options.has_unknown = true;
        if (!vocab_find(&tokenizer->vocab, unknown, &options.unknown))
            options.unknown = SL_NO_TOKEN; /* a text that needs it is an error */
    }
    options.cuts_words = !options.is_byte_level && !options.ignores_merges;
    TRY(bpe_init(&tokenizer->bpe, &tokenizer->vocab, &options, merges->count, err));
    TRY(load_merges(&tokenizer->bpe, merges, err));
    return bpe_finish(&tokenizer->bpe, err);
}

/* ---- added_tokens */

/* The id that the library gives: the vocabulary's own where the string is in it, else the next free
 * one, whatever id stands in the file. */
static uint32_t given_id(const struct tokenizer *tokenizer, struct str content,
                         int64_t highest_added) {
    uint32_t id;
    if (tokenizer_find(tokenizer, content, &id))
        return id;
    int64_t count = (int64_t)tokenizer->vocab.count;
    return (uint32_t)(highest_added >= count ? highest_added + 1 : count);
}

static enum status load_added_token(struct tokenizer *tokenizer, const struct json *json,
                                    int64_t *highest, struct error *err) {
    struct added_token token = {0};
    uint64_t id;
    TRY(component_string(json, "added_tokens", "content", &token.content, err));
    TRY(component_count(json, "added_tokens", "id", SL_VOCAB_IDS_MAX - 1, &id, err));
    TRY(component_bool(json, "added_tokens", "special", false, &token.is_special, err));
    TRY(component_bool(json, "added_tokens", "single_word", false, &token.is_single_word, err));
    TRY(component_bool(json, "added_tokens", "lstrip", false, &token.strips_left, err));
    TRY(component_bool(json, "added_tokens", "rstrip", false, &token.strips_right, err));
    TRY(component_bool(json, "added_tokens", "normalized", !token.is_special, &token.is_normalized,
                       err));
    if (token.content.len == 0)
        return SL_OK;
    token.id = given_id(tokenizer, token.content, *highest);
    if (token.id != id)
        log_warning("the added token \"%.*s\" has the id %llu in the file and gets %u, as in the "
                    "tokenizers library",
                    STR_ARG(token.content), (unsigned long long)id, token.id);
    if ((int64_t)token.id > *highest)
        *highest = token.id;
    return added_put(&tokenizer->added, &token, err);
}

static enum status load_added(struct tokenizer *tokenizer, const struct json *json,
                              struct error *err) {
    int64_t highest = -1;
    if (json && !json_is(json, JSON_NULL) && !json_is(json, JSON_ARRAY))
        return error_set(err, SL_ERR_ENV, "added_tokens is not an array");
    for (uint32_t i = 0; json_is(json, JSON_ARRAY) && i < json->count; i++)
        TRY(load_added_token(tokenizer, &json->items[i], &highest, err));
    return added_finish(&tokenizer->added, &tokenizer->normalizer, err);
}

/* ---- post_processor */

static enum status put_before(struct ids *ids, const struct ids *more, struct error *err) {
    size_t count = ids->count;
    for (size_t i = 0; i < more->count; i++) {
        if (!ids_add(ids, 0))
            return error_memory(err, more->count, "a post_processor");
    }
    if (more->count) {
        memmove(ids->items + more->count, ids->items, count * sizeof *ids->items);
        memcpy(ids->items, more->items, more->count * sizeof *ids->items);
    }
    return SL_OK;
}

static enum status put_after(struct ids *ids, const struct ids *more, struct error *err) {
    for (size_t i = 0; i < more->count; i++) {
        if (!ids_add(ids, more->items[i]))
            return error_memory(err, more->count, "a post_processor");
    }
    return SL_OK;
}

/* The ids of a SpecialToken of a template. */
static enum status template_ids(const struct json *processor, struct str name, struct ids *out,
                                struct error *err) {
    const struct json *entry = json_get_str(json_get(processor, "special_tokens"), name);
    const struct json *ids = json_get(entry, "ids");
    if (!json_is(ids, JSON_ARRAY))
        return error_set(err, SL_ERR_ENV, "post_processor: the special token %.*s has no ids",
                         STR_ARG(name));
    for (uint32_t i = 0; i < ids->count; i++) {
        uint64_t id;
        if (!json_u64(&ids->items[i], &id) || id >= SL_VOCAB_IDS_MAX)
            return error_set(err, SL_ERR_ENV,
                             "post_processor: the special token %.*s has an id "
                             "that is none",
                             STR_ARG(name));
        if (!ids_add(out, (uint32_t)id))
            return error_memory(err, sizeof id, "a post_processor");
    }
    return SL_OK;
}

static enum status read_template(const struct json *json, struct ids *before, struct ids *after,
                                 struct error *err) {
    const struct json *single = json_get(json, "single");
    size_t sequences = 0;
    if (!json_is(single, JSON_ARRAY))
        return error_set(err, SL_ERR_ENV, "post_processor: single is not an array");
    for (uint32_t i = 0; i < single->count; i++) {
        struct str name;
        const struct json *piece = &single->items[i];
        if (json_string(json_get(json_get(piece, "SpecialToken"), "id"), &name))
            TRY(template_ids(json, name, sequences ? after : before, err));
        else if (json_string(json_get(json_get(piece, "Sequence"), "id"), &name) &&
                 str_is(name, "A"))
            sequences++;
        else
            return error_set(err, SL_ERR_ENV, "post_processor: piece %u of single is not supported",
                             i);
    }
    if (sequences != 1)
        return error_set(err, SL_ERR_ENV,
                         "post_processor: single holds the sequence A %zu times, not once",
                         sequences);
    return SL_OK;
}

/* ["<s>", 0] of a BertProcessing or RobertaProcessing. */
static enum status read_pair_id(const struct json *json, const char *name, struct ids *out,
                                struct error *err) {
    const struct json *pair = json_get(json, name);
    uint64_t id;
    if (!json_is(pair, JSON_ARRAY) || pair->count != 2 || !json_u64(&pair->items[1], &id) ||
        id >= SL_VOCAB_IDS_MAX)
        return error_set(err, SL_ERR_ENV, "post_processor: %s is not a token and its id", name);
    return ids_add(out, (uint32_t)id) ? SL_OK : error_memory(err, sizeof id, "a post_processor");
}

/* Recursion is bounded by SL_COMPONENT_DEPTH_MAX. */
static enum status load_processor(struct tokenizer *tokenizer, const struct json *json,
                                  unsigned depth, struct error *err) {
    struct str type;
    struct ids before = {0}, after = {0};
    enum status status = component_type(json, "post_processor", &type, err);
    if (status != SL_OK || str_is(type, "ByteLevel")) /* it moves offsets alone */
        return status;
    if (str_is(type, "Sequence")) {
        const struct json *list;
        if (depth == SL_COMPONENT_DEPTH_MAX)
            return error_set(err, SL_ERR_ENV, "the post_processor is nested too deep");
        TRY(component_list(json, "post_processor", "processors", &list, err));
        for (uint32_t i = 0; i < list->count; i++)
            TRY(load_processor(tokenizer, &list->items[i], depth + 1, err));
        return SL_OK;
    }
    if (str_is(type, "TemplateProcessing")) {
        status = read_template(json, &before, &after, err);
    } else if (str_is(type, "BertProcessing") || str_is(type, "RobertaProcessing")) {
        status = read_pair_id(json, "cls", &before, err);
        if (status == SL_OK)
            status = read_pair_id(json, "sep", &after, err);
    } else {
        status = component_refuse("post_processor", type, err);
    }
    if (status == SL_OK)
        status = put_before(&tokenizer->before, &before, err);
    if (status == SL_OK)
        status = put_after(&tokenizer->after, &after, err);
    ids_release(&before);
    ids_release(&after);
    return status;
}

/* ---- the whole */

static enum status load(struct tokenizer *tokenizer, const struct json *json, struct error *err) {
    const struct json *processor = json_get(json, "post_processor");
    if (!json_is(json, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "it is not a JSON object");
    TRY(normalizer_load(&tokenizer->normalizer, json_get(json, "normalizer"), err));
    TRY(pretokenizer_load(&tokenizer->pretokenizer, json_get(json, "pre_tokenizer"), err));
    TRY(decoder_load(&tokenizer->decoder, json_get(json, "decoder"), err));
    TRY(load_model(tokenizer, json_get(json, "model"), err));
    TRY(load_added(tokenizer, json_get(json, "added_tokens"), err));
    return !processor || json_is(processor, JSON_NULL)
               ? SL_OK
               : load_processor(tokenizer, processor, 0, err);
}

enum status tokenizer_from_json(struct str json_text, const char *name, struct tokenizer **out,
                                struct error *err) {
    const struct json *json = NULL;
    struct json_options options = {.depth_max = JSON_DEPTH_MAX, .values_max = JSON_VALUES_MAX};
    struct arena arena;
    arena_init(&arena);
    struct tokenizer *tokenizer = tokenizer_new();
    enum status status = SL_OK;
    if (!tokenizer)
        status = error_memory(err, sizeof *tokenizer, "a tokenizer");
    if (status == SL_OK)
        status = json_parse(&arena, json_text, &options, &json, err);
    if (status == SL_OK)
        status = load(tokenizer, json, err);
    arena_release(&arena);
    if (status == SL_OK) {
        *out = tokenizer;
        return SL_OK;
    }
    tokenizer_free(tokenizer);
    if (err)
        err->status = SL_ERR_ENV;
    error_prefix(err, "%s", name);
    return SL_ERR_ENV;
}
