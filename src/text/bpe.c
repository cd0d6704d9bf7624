/* Owns the encoding of words: symbols, merges, the short cut for words that are tokens. Refuses
 * words beyond a limit. Short words are merged by looking for the lowest rank again and again, long
 * ones with a heap, which is n log n whatever the text. */
#include "text/bpe.h"

#include "text/spelling.h"

#include <stdatomic.h>
#include <string.h>

#define NO_ID SL_NO_TOKEN
#define NO_RANK UINT32_MAX
#define SHORT_SYMBOLS 48u
#define JOIN_BITS ((uint32_t)1 << 20)

enum reach { REACH_OPEN, REACH_YES, REACH_NO };

struct bpe_pair {
    uint32_t rank, at;    /* sorted by these */
    uint32_t left, right; /* symbols when it was found: stale once one of them is another */
    uint32_t whole;
};

/* ---- Merges */

static size_t merge_slot(uint32_t left, uint32_t right, size_t cap) {
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
    hash *= 0xBF58476D1CE4E5B9u;
    return (size_t)(hash >> 32) & (cap - 1);
}

static const struct bpe_merge *find_merge(const struct bpe *bpe, uint32_t left, uint32_t right) {
    size_t at = merge_slot(left, right, bpe->merge_cap);
    for (;;) {
        const struct bpe_merge *merge = &bpe->merges[at];
        if (merge->rank == NO_RANK || (merge->left == left && merge->right == right))
            return merge;
        at = (at + 1) & (bpe->merge_cap - 1);
    }
}

enum status bpe_init(struct bpe *bpe, const struct vocab *vocab, const struct bpe_options *options,
                     size_t merge_count, struct error *err) {
    /* Whole words are looked up before they are merged: then a part is not as good as the whole. */
    must(!options->cuts_words || !options->ignores_merges);
    *bpe = (struct bpe){.vocab = vocab, .options = *options};
    map_init(&bpe->words);
    arena_init(&bpe->arena);
    bpe->merge_cap = 16;
    while (bpe->merge_cap < SIZE_MAX / 4 && bpe->merge_cap / 2 < merge_count)
        bpe->merge_cap *= 2;
    bpe->merges = mem_new(bpe->merge_cap, sizeof *bpe->merges);
    bpe->pages = mem_new(0x110000 >> 8, sizeof *bpe->pages);
    if (!bpe->merges || !bpe->pages)
        return error_memory(err, bpe->merge_cap * sizeof *bpe->merges, "merges");
    for (size_t i = 0; i < bpe->merge_cap; i++)
        bpe->merges[i].rank = NO_RANK;
    for (size_t byte = 0; byte < 256; byte++)
        bpe->byte_ids[byte] = NO_ID;
    return SL_OK;
}

void bpe_release(struct bpe *bpe) {
    for (size_t page = 0; bpe->pages && page < 0x110000 >> 8; page++)
        mem_free(bpe->pages[page]);
    mem_free(bpe->pages);
    mem_free(bpe->merges);
    mem_free((void *)bpe->reach);
    mem_free(bpe->joins);
    map_release(&bpe->words);
    arena_release(&bpe->arena);
    *bpe = (struct bpe){0};
}

enum status bpe_add_merge(struct bpe *bpe, struct str left, struct str right, uint32_t rank,
                          struct error *err) {
    uint32_t left_id, right_id, whole;
    char joined[512];
    if (!vocab_find(bpe->vocab, left, &left_id))
        return error_set(err, SL_ERR_ENV, "merge %u joins \"%.*s\", which is not in the vocabulary",
                         rank, STR_ARG(left));
    if (!vocab_find(bpe->vocab, right, &right_id))
        return error_set(err, SL_ERR_ENV, "merge %u joins \"%.*s\", which is not in the vocabulary",
                         rank, STR_ARG(right));
    bool is_found = false;
    if (left.len + right.len <= sizeof joined) {
        memcpy(joined, left.data, left.len);
        memcpy(joined + left.len, right.data, right.len);
        is_found = vocab_find(bpe->vocab, (struct str){joined, left.len + right.len}, &whole);
    } else {
        struct buf buf;
        buf_init(&buf);
        buf_add(&buf, left);
        buf_add(&buf, right);
        bool has_failed = buf.has_failed;
        is_found = !has_failed && vocab_find(bpe->vocab, buf_str(&buf), &whole);
        buf_release(&buf);
        if (has_failed)
            return error_memory(err, left.len + right.len, "a merge");
    }
    if (!is_found)
        return error_set(err, SL_ERR_ENV,
                         "merge %u gives \"%.*s%.*s\", which is not in the vocabulary", rank,
                         STR_ARG(left), STR_ARG(right));
    must(rank != NO_RANK);
    struct bpe_merge *merge = (struct bpe_merge *)find_merge(bpe, left_id, right_id);
    if (merge->rank == NO_RANK) {
        must(bpe->merge_count < bpe->merge_cap / 2);
        bpe->merge_count++;
    }
    *merge = (struct bpe_merge){left_id, right_id, rank, whole};
    return SL_OK;
}

/* ---- Finishing: tables of bytes, characters, words, joins */

static enum status add_character(struct bpe *bpe, struct str token, uint32_t id,
                                 struct error *err) {
    size_t at = 0;
    uint32_t c = token.len ? utf8_next(token, &at) : SL_UTF8_INVALID;
    if (c == SL_UTF8_INVALID || at != token.len)
        return SL_OK;
    uint32_t **page = &bpe->pages[c >> 8];
    if (!*page) {
        *page = mem_new(256, sizeof **page);
        if (!*page)
            return error_memory(err, 256 * sizeof **page, "a vocabulary");
        for (size_t i = 0; i < 256; i++)
            (*page)[i] = NO_ID;
    }
    (*page)[c & 255] = id;
    return SL_OK;
}

static uint32_t character_id(const struct bpe *bpe, uint32_t c) {
    const uint32_t *page = bpe->pages[c >> 8];
    return page ? page[c & 255] : NO_ID;
}

static uint32_t join_bit(uint32_t before, uint32_t after) {
    return (before * 0x9E3779B1u ^ after * 0x85EBCA77u) * 0xC2B2AE3Du >> 12;
}

/* Marks each two neighbouring characters of a token that merges can make. */
static void mark_joins(struct bpe *bpe, struct str token) {
    uint32_t before = SL_UTF8_INVALID;
    for (size_t at = 0; at < token.len;) {
        uint32_t c = utf8_next(token, &at);
        if (before != SL_UTF8_INVALID) {
            uint32_t bit = join_bit(before, c);
            bpe->joins[bit / 64] |= (uint64_t)1 << (bit % 64);
        }
        before = c;
    }
}

/* The bytes of a spelled token as a key of words. */
static enum status add_word(struct bpe *bpe, struct str token, uint32_t id, struct buf *scratch,
                            struct error *err) {
    buf_clear(scratch);
    if (!spelling_to_bytes(token, scratch) || scratch->len == 0)
        return SL_OK; /* no text gives such a token */
    TRY(buf_status(scratch, "a vocabulary", err));
    char *copy = arena_take(&bpe->arena, scratch->len);
    if (!copy)
        return error_memory(err, scratch->len, "a vocabulary");
    memcpy(copy, scratch->data, scratch->len);
    if (!map_put(&bpe->words, (struct str){copy, scratch->len}, id, NULL, NULL))
        return error_memory(err, scratch->len, "a vocabulary");
    if (scratch->len == 1)
        bpe->byte_ids[(unsigned char)copy[0]] = id;
    if (scratch->len > bpe->word_bytes_max)
        bpe->word_bytes_max = scratch->len;
    return SL_OK;
}

static void find_fallbacks(struct bpe *bpe) {
    for (unsigned byte = 0; byte < 256; byte++) {
        static const char hex[] = "0123456789ABCDEF";
        const char name[] = {'<', '0', 'x', hex[byte >> 4], hex[byte & 15], '>'};
        uint32_t id;
        if (vocab_find(bpe->vocab, (struct str){name, sizeof name}, &id))
            bpe->byte_ids[byte] = id;
    }
}

enum status bpe_finish(struct bpe *bpe, struct error *err) {
    const struct vocab *vocab = bpe->vocab;
    bpe->reach = mem_new(vocab->size, sizeof *bpe->reach);
    if (!bpe->reach)
        return error_memory(err, vocab->size, "a vocabulary");
    if (bpe->options.is_byte_level && !map_reserve(&bpe->words, vocab->count))
        return error_memory(err, vocab->count, "a vocabulary");
    struct buf scratch;
    buf_init(&scratch);
    enum status status = SL_OK;
    for (uint32_t id = 0; id < vocab->size && status == SL_OK; id++) {
        struct str token = vocab->tokens[id];
        if (!token.data)
            continue;
        if (bpe->options.is_byte_level) {
            status = add_word(bpe, token, id, &scratch, err);
        } else {
            status = add_character(bpe, token, id, err);
            if (token.len > bpe->word_bytes_max)
                bpe->word_bytes_max = token.len;
        }
    }
    buf_release(&scratch);
    TRY(status);
    if (!bpe->options.is_byte_level)
        find_fallbacks(bpe);
    if (!bpe->options.cuts_words)
        return SL_OK;
    bpe->joins = mem_new(JOIN_BITS / 64, sizeof *bpe->joins);
    if (!bpe->joins)
        return error_memory(err, JOIN_BITS / 8, "a vocabulary");
    for (size_t i = 0; i < bpe->merge_cap; i++) {
        if (bpe->merges[i].rank != NO_RANK)
            mark_joins(bpe, vocab->tokens[bpe->merges[i].whole]);
    }
    return SL_OK;
}

/* ---- Symbols */

static bool add_symbol(struct bpe_scratch *scratch, size_t *count, uint32_t id) {
    if (*count == scratch->symbols_cap &&
        !mem_grow((void **)&scratch->symbols, &scratch->symbols_cap, *count + 1,
                  sizeof *scratch->symbols))
        return false;
    scratch->symbols[(*count)++] = id;
    return true;
}

/* The <0xNN> symbols of a character; false in *has_all when one is no token. */
static bool add_fallback(const struct bpe *bpe, struct bpe_scratch *scratch, struct str character,
                         size_t *count, bool *has_all) {
    *has_all = true;
    for (size_t i = 0; i < character.len; i++)
        *has_all &= bpe->byte_ids[(unsigned char)character.data[i]] != NO_ID;
    for (size_t i = 0; *has_all && i < character.len; i++) {
        if (!add_symbol(scratch, count, bpe->byte_ids[(unsigned char)character.data[i]]))
            return false;
    }
    return true;
}

/* The symbols a word of characters begins with. */
static bool split_characters(const struct bpe *bpe, struct bpe_scratch *scratch, struct str word,
                             size_t *count) {
    bool has_pending = false; /* an unknown token that may yet grow */
    for (size_t at = 0; at < word.len;) {
        size_t from = at;
        uint32_t id = character_id(bpe, utf8_next(word, &at));
        if (id != NO_ID) {
            if (has_pending && !add_symbol(scratch, count, bpe->options.unknown))
                return false;
            has_pending = false;
            if (!add_symbol(scratch, count, id))
                return false;
            continue;
        }
        bool has_all = false;
        if (bpe->options.falls_back_to_bytes &&
            !add_fallback(bpe, scratch, str_cut(word, from, at), count, &has_all))
            return false;
        /* A pending unknown stays pending over fallen-back bytes, as in the library. */
        if (has_all || !bpe->options.has_unknown)
            continue;
        if (has_pending && !bpe->options.fuses_unknown &&
            !add_symbol(scratch, count, bpe->options.unknown))
            return false;
        has_pending = true;
    }
    return !has_pending || add_symbol(scratch, count, bpe->options.unknown);
}

static bool split_bytes(const struct bpe *bpe, struct bpe_scratch *scratch, struct str word,
                        size_t *count) {
    if (!mem_grow((void **)&scratch->symbols, &scratch->symbols_cap, word.len,
                  sizeof *scratch->symbols))
        return false;
    bool has_pending = false;
    for (size_t i = 0; i < word.len; i++) {
        uint32_t id = bpe->byte_ids[(unsigned char)word.data[i]];
        if (id == NO_ID && !bpe->options.has_unknown)
            continue;
        if (has_pending && (id != NO_ID || !bpe->options.fuses_unknown))
            scratch->symbols[(*count)++] = bpe->options.unknown;
        has_pending = id == NO_ID;
        if (id != NO_ID)
            scratch->symbols[(*count)++] = id;
    }
    if (has_pending)
        scratch->symbols[(*count)++] = bpe->options.unknown;
    return true;
}

/* ---- Merging */

/* Merges symbols in place; returns how many are left. */
static size_t merge_short(const struct bpe *bpe, uint32_t *symbols, size_t count) {
    uint32_t ranks[SHORT_SYMBOLS], wholes[SHORT_SYMBOLS]; /* of the pair that begins there */
    must(count >= 1 && count <= SHORT_SYMBOLS);
    for (size_t i = 0; i + 1 < count; i++) {
        const struct bpe_merge *merge = find_merge(bpe, symbols[i], symbols[i + 1]);
        ranks[i] = merge->rank;
        wholes[i] = merge->whole;
    }
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            if (ranks[i] < ranks[best])
                best = i;
        }
        if (ranks[best] == NO_RANK)
            break;
        symbols[best] = wholes[best];
        count--;
        for (size_t i = best + 1; i < count; i++)
            symbols[i] = symbols[i + 1];
        for (size_t i = best + 1; i + 1 < count; i++) {
            ranks[i] = ranks[i + 1];
            wholes[i] = wholes[i + 1];
        }
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < count; i++) {
            const struct bpe_merge *merge = find_merge(bpe, symbols[i], symbols[i + 1]);
            ranks[i] = merge->rank;
            wholes[i] = merge->whole;
        }
    }
    return count;
}

static bool pair_before(const struct bpe_pair *a, const struct bpe_pair *b) {
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void heap_sink(struct bpe_pair *heap, size_t count, size_t at) {
    struct bpe_pair moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && pair_before(&heap[child + 1], &heap[child]))
            child++;
        if (!pair_before(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void heap_rise(struct bpe_pair *heap, size_t at) {
    struct bpe_pair moved = heap[at];
    while (at && pair_before(&moved, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = moved;
}

/* Appends the pair that begins at `at`, if it is a merge. Room is there. */
static bool push_pair(const struct bpe *bpe, struct bpe_scratch *scratch, size_t *count,
                      uint32_t at) {
    uint32_t right_at = scratch->next[at];
    if (right_at == NO_ID)
        return false;
    uint32_t left = scratch->symbols[at], right = scratch->symbols[right_at];
    const struct bpe_merge *merge = find_merge(bpe, left, right);
    if (merge->rank == NO_RANK)
        return false;
    scratch->heap[(*count)++] = (struct bpe_pair){merge->rank, at, left, right, merge->whole};
    return true;
}

/* As merge_short for any length. A merged-away symbol is NO_ID; `next` links the others. False when
 * memory is out. */
static bool merge_long(const struct bpe *bpe, struct bpe_scratch *scratch, size_t *count) {
    size_t symbols = *count, pairs = 0;
    /* Each merge takes one pair out and puts at most two in: never more than twice the symbols. */
    if (!mem_grow((void **)&scratch->next, &scratch->next_cap, symbols, sizeof *scratch->next) ||
        !mem_grow((void **)&scratch->previous, &scratch->previous_cap, symbols,
                  sizeof *scratch->previous) ||
        !mem_grow((void **)&scratch->heap, &scratch->heap_cap, 2 * symbols, sizeof *scratch->heap))
        return false;
    uint32_t *next = scratch->next, *previous = scratch->previous;
    for (uint32_t i = 0; i < symbols; i++) {
        next[i] = i + 1 < symbols ? i + 1 : NO_ID;
        previous[i] = i ? i - 1 : NO_ID;
    }
    for (uint32_t i = 0; i < symbols; i++)
        push_pair(bpe, scratch, &pairs, i);
    for (size_t i = pairs / 2; i-- > 0;)
        heap_sink(scratch->heap, pairs, i);
    while (pairs) {
        struct bpe_pair pair = scratch->heap[0];
        scratch->heap[0] = scratch->heap[--pairs];
        heap_sink(scratch->heap, pairs, 0);
        uint32_t right_at = next[pair.at];
        if (scratch->symbols[pair.at] != pair.left || right_at == NO_ID ||
            scratch->symbols[right_at] != pair.right)
            continue;
        scratch->symbols[pair.at] = pair.whole;
        scratch->symbols[right_at] = NO_ID;
        next[pair.at] = next[right_at];
        if (next[right_at] != NO_ID)
            previous[next[right_at]] = pair.at;
        must(pairs + 2 <= scratch->heap_cap);
        if (push_pair(bpe, scratch, &pairs, pair.at))
            heap_rise(scratch->heap, pairs - 1);
        if (previous[pair.at] != NO_ID && push_pair(bpe, scratch, &pairs, previous[pair.at]))
            heap_rise(scratch->heap, pairs - 1);
    }
    size_t kept = 0;
    for (uint32_t at = 0; at != NO_ID; at = next[at])
        scratch->symbols[kept++] = scratch->symbols[at];
    *count = kept;
    return true;
}

/* The ids of a word by merging alone, in scratch->symbols. False when memory is out. */
static bool merge_word(const struct bpe *bpe, struct bpe_scratch *scratch, struct str word,
                       size_t *count) {
    *count = 0;
    bool is_split = bpe->options.is_byte_level ? split_bytes(bpe, scratch, word, count)
                                               : split_characters(bpe, scratch, word, count);
    if (!is_split)
        return false;
    if (*count > SHORT_SYMBOLS)
        return merge_long(bpe, scratch, count);
    if (*count > 1)
        *count = merge_short(bpe, scratch->symbols, *count);
    return true;
}

static enum status out_of_memory(struct str word, struct error *err) {
    return error_memory(err, word.len, "the tokens of a word");
}

static enum status encode_word(const struct bpe *bpe, struct bpe_scratch *scratch, struct str word,
                               struct ids *ids, struct error *err) {
    uint32_t whole = NO_ID;
    if (word.len <= bpe->word_bytes_max) {
        const struct map *words = bpe->options.is_byte_level ? &bpe->words : &bpe->vocab->ids;
        if (map_get(words, word, &whole)) {
            unsigned char reach = atomic_load_explicit(&bpe->reach[whole], memory_order_relaxed);
            if (bpe->options.ignores_merges || reach == REACH_YES)
                return ids_add(ids, whole) ? SL_OK : out_of_memory(word, err);
        } else {
            whole = NO_ID;
        }
    }
    if (word.len > SL_WORD_SYMBOLS_MAX)
        return error_set(err, SL_ERR_ROW, "a word of %zu bytes is longer than %zu", word.len,
                         SL_WORD_SYMBOLS_MAX);
    size_t count;
    if (!merge_word(bpe, scratch, word, &count))
        return out_of_memory(word, err);
    if (whole != NO_ID) {
        bool is_reached = count == 1 && scratch->symbols[0] == whole;
        atomic_store_explicit(&bpe->reach[whole], is_reached ? REACH_YES : REACH_NO,
                              memory_order_relaxed);
    }
    for (size_t i = 0; i < count; i++) {
        if (scratch->symbols[i] == NO_ID)
            return error_set(err, SL_ERR_ROW,
                             "\"%.*s\" holds a character that no token has, and the tokenizer's "
                             "unk_token is not in its vocabulary",
                             STR_ARG(word));
        if (!ids_add(ids, scratch->symbols[i]))
            return out_of_memory(word, err);
    }
    return SL_OK;
}

enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, struct str word,
                       struct ids *ids, struct error *err) {
    if (word.len == 0)
        return SL_OK;
    if (!bpe->joins)
        return encode_word(bpe, scratch, word, ids, err);
    /* Cut between two known characters that stand side by side in no token: no merge gets over it.
     */
    size_t from = 0;
    uint32_t before = SL_UTF8_INVALID;
    for (size_t at = 0; at < word.len;) {
        size_t here = at;
        uint32_t c = utf8_next(word, &at);
        if (character_id(bpe, c) == NO_ID) {
            before = SL_UTF8_INVALID;
            continue;
        }
        uint32_t bit = join_bit(before, c);
        if (before != SL_UTF8_INVALID && !(bpe->joins[bit / 64] >> (bit % 64) & 1)) {
            TRY(encode_word(bpe, scratch, str_cut(word, from, here), ids, err));
            from = here;
        }
        before = c;
    }
    return encode_word(bpe, scratch, str_cut(word, from, word.len), ids, err);
}

void bpe_scratch_release(struct bpe_scratch *scratch) {
    mem_free(scratch->symbols);
    mem_free(scratch->next);
    mem_free(scratch->previous);
    mem_free(scratch->heap);
    *scratch = (struct bpe_scratch){0};
}
