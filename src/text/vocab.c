/* Owns the strings of a vocabulary. Refuses ids beyond a limit, which would make a hostile file's
 * table of a few bytes cost gigabytes. */
#include "text/vocab.h"

#include <string.h>

void vocab_init(struct vocab *vocab) {
    *vocab = (struct vocab){0};
    arena_init(&vocab->arena);
    map_init(&vocab->ids);
}

void vocab_release(struct vocab *vocab) {
    map_release(&vocab->ids);
    mem_free(vocab->tokens);
    arena_release(&vocab->arena);
    *vocab = (struct vocab){0};
}

static bool grow_tokens(struct vocab *vocab, size_t need) {
    size_t before = vocab->cap;
    if (!mem_grow((void **)&vocab->tokens, &vocab->cap, need, sizeof *vocab->tokens))
        return false;
    if (vocab->cap > before)
        memset(vocab->tokens + before, 0, (vocab->cap - before) * sizeof *vocab->tokens);
    return true;
}

bool vocab_reserve(struct vocab *vocab, size_t count) {
    if (count > SL_VOCAB_IDS_MAX)
        count = SL_VOCAB_IDS_MAX;
    return map_reserve(&vocab->ids, count) && grow_tokens(vocab, count);
}

enum status vocab_add(struct vocab *vocab, struct str token, uint64_t id, struct error *err) {
    if (id >= SL_VOCAB_IDS_MAX)
        return error_set(err, SL_ERR_ENV, "the id %llu of the token \"%.*s\" is not below %u",
                         (unsigned long long)id, STR_ARG(token), SL_VOCAB_IDS_MAX);
    char *copy = arena_take(&vocab->arena, token.len + 1);
    if (!copy || !grow_tokens(vocab, (size_t)id + 1))
        return error_memory(err, token.len, "a vocabulary");
    memcpy(copy, token.data ? token.data : "", token.len);
    struct str own = {copy, token.len};
    uint32_t old = 0;
    bool was_there = false;
    if (!map_put(&vocab->ids, own, (uint32_t)id, &old, &was_there))
        return error_memory(err, token.len, "a vocabulary");
    if (was_there && old != id)
        vocab->tokens[old] = (struct str){0};
    if (!was_there)
        vocab->count++;
    vocab->tokens[id] = own;
    if (id >= vocab->size)
        vocab->size = (size_t)id + 1;
    return SL_OK;
}

bool vocab_find(const struct vocab *vocab, struct str token, uint32_t *id) {
    return map_get(&vocab->ids, token, id);
}

struct str vocab_token(const struct vocab *vocab, uint32_t id) {
    return id < vocab->size ? vocab->tokens[id] : (struct str){0};
}
