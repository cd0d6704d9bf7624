/* Owns added tokens and the search for them. Refuses nothing but what memory does; the search costs
 * at most the length of the longest token for each byte of text. */
#include "text/added.h"

#include <string.h>

struct added_node {
    uint32_t child, sibling; /* node + 1; 0: none */
    uint32_t token;          /* index into items + 1; 0: no token ends here */
    unsigned char byte;
};

void added_init(struct added *added) {
    *added = (struct added){0};
    arena_init(&added->arena);
    map_init(&added->by_content);
}

void added_release(struct added *added) {
    arena_release(&added->arena);
    map_release(&added->by_content);
    mem_free(added->items);
    mem_free(added->by_id);
    mem_free(added->raw.nodes);
    mem_free(added->normalized.nodes);
    mem_free(added->specials.nodes);
    *added = (struct added){0};
}

static bool set_by_id(struct added *added, uint32_t id, size_t index) {
    size_t before = added->by_id_cap;
    if (!mem_grow((void **)&added->by_id, &added->by_id_cap, (size_t)id + 1, sizeof *added->by_id))
        return false;
    if (added->by_id_cap > before)
        memset(added->by_id + before, 0, (added->by_id_cap - before) * sizeof *added->by_id);
    added->by_id[id] = (uint32_t)index + 1;
    return true;
}

enum status added_put(struct added *added, const struct added_token *token, struct error *err) {
    if (token->content.len == 0)
        return SL_OK;
    if (token->id >= SL_VOCAB_IDS_MAX)
        return error_set(err, SL_ERR_ENV, "the id %u of the added token \"%.*s\" is not below %u",
                         token->id, STR_ARG(token->content), SL_VOCAB_IDS_MAX);
    uint32_t index;
    struct added_token own = *token;
    if (map_get(&added->by_content, token->content, &index)) {
        own.content = added->items[index].content;
        added->items[index] = own;
    } else {
        TRY(component_copy(&added->arena, token->content, &own.content, err));
        index = (uint32_t)added->count;
        if (!mem_grow((void **)&added->items, &added->cap, added->count + 1,
                      sizeof *added->items) ||
            !map_put(&added->by_content, own.content, index, NULL, NULL))
            return error_memory(err, sizeof *added->items, "added tokens");
        added->items[added->count++] = own;
    }
    if (!set_by_id(added, own.id, index))
        return error_memory(err, own.id, "added tokens");
    return SL_OK;
}

/* ---- Tries */

static bool trie_add(struct added_trie *trie, struct str content, uint32_t token) {
    uint32_t *link = &trie->roots[(unsigned char)content.data[0]];
    for (size_t i = 0; i < content.len; i++) {
        unsigned char byte = (unsigned char)content.data[i];
        while (*link && trie->nodes[*link - 1].byte != byte)
            link = &trie->nodes[*link - 1].sibling;
        if (!*link) {
            /* Growing moves the nodes, and link may lie in one of them. */
            bool is_root = i == 0;
            size_t offset = is_root ? 0 : (size_t)((char *)link - (char *)trie->nodes);
            if (!mem_grow((void **)&trie->nodes, &trie->cap, trie->count + 1, sizeof *trie->nodes))
                return false;
            if (!is_root)
                link = (uint32_t *)(void *)((char *)trie->nodes + offset);
            trie->nodes[trie->count] = (struct added_node){.byte = byte};
            *link = (uint32_t)++trie->count;
        }
        struct added_node *node = &trie->nodes[*link - 1];
        if (i + 1 == content.len && !node->token)
            node->token = token + 1;
        link = &node->child;
    }
    return true;
}

enum status added_finish(struct added *added, const struct normalizer *normalizer,
                         struct error *err) {
    struct buf buffers[2];
    buf_init(&buffers[0]);
    buf_init(&buffers[1]);
    enum status status = SL_OK;
    for (size_t i = 0; i < added->count && status == SL_OK; i++) {
        struct added_token *token = &added->items[i];
        struct normalized form = {.text = token->content};
        if (token->is_normalized)
            status = normalizer_run(normalizer, token->content, buffers, &form, err);
        struct added_trie *trie = token->is_normalized ? &added->normalized : &added->raw;
        if (status == SL_OK && form.text.len && !trie_add(trie, form.text, (uint32_t)i))
            status = error_memory(err, form.text.len, "added tokens");
        if (status == SL_OK && token->is_special &&
            !trie_add(&added->specials, token->content, (uint32_t)i))
            status = error_memory(err, token->content.len, "added tokens");
        if (token->is_special && token->is_normalized)
            added->has_normalized_special = true;
        token->shown = token->content;
        if (status == SL_OK && token->is_normalized)
            status = component_copy(&added->arena, form.text, &token->shown, err);
    }
    buf_release(&buffers[0]);
    buf_release(&buffers[1]);
    return status == SL_ERR_ROW ? SL_ERR_ENV : status;
}

const struct added_token *added_get(const struct added *added, uint32_t id) {
    if (id >= added->by_id_cap || !added->by_id[id])
        return NULL;
    return &added->items[added->by_id[id] - 1];
}

const struct added_token *added_find(const struct added *added, struct str content) {
    uint32_t index;
    return map_get(&added->by_content, content, &index) ? &added->items[index] : NULL;
}

/* ---- Walking */

void added_walk_begin(struct added_walk *walk, const struct added *added, bool is_normalized,
                      struct str text, bool specials_as_text) {
    *walk = (struct added_walk){.added = added,
                                .trie = is_normalized ? &added->normalized : &added->raw,
                                .text = text,
                                .specials_as_text = specials_as_text};
}

/* The node that the byte leads to from `node`, or from the beginning if that is 0; 0: none. */
static uint32_t step(const struct added_trie *trie, uint32_t node, unsigned char byte) {
    if (!node)
        return trie->roots[byte];
    node = trie->nodes[node - 1].child;
    while (node && trie->nodes[node - 1].byte != byte)
        node = trie->nodes[node - 1].sibling;
    return node;
}

size_t added_match_len(const struct added_trie *trie, struct str text, size_t at) {
    uint32_t node = 0;
    size_t len = 0;
    for (size_t i = at; i < text.len; i++) {
        node = step(trie, node, (unsigned char)text.data[i]);
        if (!node)
            break;
        if (trie->nodes[node - 1].token)
            len = i + 1 - at;
    }
    return len;
}

/* The longest token that stands at `at`; NULL when none does. Special ones must end at special_end
 * at the latest. */
static const struct added_token *match_at(const struct added_walk *walk, size_t at,
                                          size_t special_end, size_t *end) {
    const struct added_token *items = walk->added->items;
    const struct added_token *found = NULL;
    uint32_t node = 0;
    for (size_t i = at; i < walk->text.len; i++) {
        node = step(walk->trie, node, (unsigned char)walk->text.data[i]);
        if (!node)
            break;
        uint32_t token = walk->trie->nodes[node - 1].token;
        if (!token || (i + 1 > special_end && items[token - 1].is_special))
            continue;
        found = &items[token - 1];
        *end = i + 1;
    }
    return found;
}

/* The next byte from `at` on that no special token may cover. */
static size_t next_plain(struct added_walk *walk, size_t at) {
    while (walk->plain_count > 0 && *walk->plain < at) {
        walk->plain++;
        walk->plain_count--;
    }
    return walk->plain_count > 0 ? *walk->plain : SIZE_MAX;
}

/* The character that ends at `at`; at must not be 0. */
static size_t character_before(struct str text, size_t at) {
    at--;
    while (at && ((unsigned char)text.data[at] & 0xC0) == 0x80)
        at--;
    return at;
}

static bool has_word_beside(struct str text, size_t from, size_t to) {
    if (from > 0) {
        size_t at = character_before(text, from);
        if (unicode_is_word(utf8_next(text, &at)))
            return true;
    }
    return to < text.len && unicode_is_word(utf8_next(text, &to));
}

bool added_walk_next(struct added_walk *walk, struct added_piece *piece) {
    struct str text = walk->text;
    if (walk->token) {
        *piece = (struct added_piece){.token = walk->token, .offset = walk->done};
        walk->done = walk->token_end;
        walk->token = NULL;
        return true;
    }
    while (walk->at < text.len) {
        size_t from = walk->at, to = from;
        const struct added_token *token = NULL;
        if (walk->trie->roots[(unsigned char)text.data[from]])
            token = match_at(walk, from, next_plain(walk, from), &to);
        walk->at = token ? to : from + 1;
        /* A match that does not count is passed over as a whole. */
        if (!token || (walk->specials_as_text && token->is_special) ||
            (token->is_single_word && has_word_beside(text, from, to)))
            continue;
        /* White space that the token before took is no longer there; a token that is nothing else
         * is then nothing, unless it keeps its place by not stripping. */
        if (token->strips_left && from < walk->done)
            from = walk->done;
        while (token->strips_left && from > walk->done) {
            size_t before = character_before(text, from), at = before;
            if (before < walk->done || !unicode_is_space(utf8_next(text, &at)))
                break;
            from = before;
        }
        while (token->strips_right && to < text.len) {
            size_t next = to;
            if (!unicode_is_space(utf8_next(text, &next)))
                break;
            to = next;
        }
        if (from >= to)
            continue;
        walk->token = token;
        walk->token_end = to;
        if (walk->done < from) {
            *piece =
                (struct added_piece){.text = str_cut(text, walk->done, from), .offset = walk->done};
            walk->done = from;
            return true;
        }
        return added_walk_next(walk, piece); /* the token itself: one level */
    }
    if (walk->done >= text.len)
        return false;
    *piece =
        (struct added_piece){.text = str_cut(text, walk->done, text.len), .offset = walk->done};
    walk->done = text.len;
    return true;
}
