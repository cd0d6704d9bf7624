/* Added tokens: whole strings that are cut out of a text before the model sees it, special or not.
 *
 * At each place of the text the longest one wins, the leftmost first (as the library's Aho-Corasick
 * does). Tokens that are not `normalized` are looked for in the raw text, the others in the
 * normalized rest, in their own normalized form. Filled by one thread, then constant. */
#ifndef SLUICE_TEXT_ADDED_H
#define SLUICE_TEXT_ADDED_H

#include "text/normalize.h"
#include "text/vocab.h"

struct added_token {
    struct str content;
    struct str shown; /* what it decodes to: content, or its normalized form; by added_finish */
    uint32_t id;
    bool is_special;
    bool is_single_word;            /* only where no word character stands beside it */
    bool strips_left, strips_right; /* takes the white space there with it */
    bool is_normalized;
};

struct added_node;
struct added_trie {
    struct added_node *nodes;
    size_t count, cap;
    uint32_t roots[256]; /* node + 1 by first byte; 0: none begins so */
};

struct added {
    struct arena arena;
    struct added_token *items;
    size_t count, cap;
    struct map by_content; /* index into items */
    uint32_t *by_id;       /* index + 1 */
    size_t by_id_cap;
    struct added_trie raw, normalized;
    struct added_trie specials; /* all special ones, as they are written */
    bool has_normalized_special;
};

void added_init(struct added *added);
void added_release(struct added *added);
/* Copies the content. A content or an id seen before gets the new token. An empty one is passed
 * over. */
enum status added_put(struct added *added, const struct added_token *token, struct error *err);
/* Builds the tries, once all are there. */
enum status added_finish(struct added *added, const struct normalizer *normalizer,
                         struct error *err);
const struct added_token *added_get(const struct added *added, uint32_t id); /* NULL: none */
const struct added_token *added_find(const struct added *added, struct str content);
/* The longest token of the trie that stands at `at`, in bytes; 0: none does. */
size_t added_match_len(const struct added_trie *trie, struct str text, size_t at);

/* One walk over a text: stretches of text and tokens in order. */
struct added_walk {
    const struct added *added;
    const struct added_trie *trie;
    struct str text;
    bool specials_as_text;
    /* Offsets of bytes that no special token may cover, rising; set after added_walk_begin. */
    const size_t *plain;
    size_t plain_count;
    size_t at, done;                 /* looked through; given out */
    const struct added_token *token; /* found, to be given out after the text before it */
    size_t token_end;
};
struct added_piece {
    struct str text;                 /* not empty, or */
    const struct added_token *token; /* a token */
    size_t offset;                   /* where the piece begins */
};
void added_walk_begin(struct added_walk *walk, const struct added *added, bool is_normalized,
                      struct str text, bool specials_as_text);
bool added_walk_next(struct added_walk *walk, struct added_piece *piece);

#endif
