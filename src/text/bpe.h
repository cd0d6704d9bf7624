/* Byte-pair encoding of one word at a time: the word's smallest symbols (bytes, or characters),
 * then the pair of lowest rank, leftmost first, joined again and again (Sennrich et al. 2016, as
 * the Hugging Face tokenizers library does it).
 *
 * The vocabulary holds spelled bytes (is_byte_level) or plain characters. Built by one thread:
 * bpe_init, bpe_add_merge for each, bpe_finish; then any number of threads encode, each with a
 * scratch of its own. */
#ifndef SLUICE_TEXT_BPE_H
#define SLUICE_TEXT_BPE_H

#include "text/tokenizer.h"
#include "text/vocab.h"

#define SL_NO_TOKEN UINT32_MAX
#define SL_WORD_SYMBOLS_MAX ((size_t)1 << 23) /* in one word */

struct bpe_options {
    bool is_byte_level;       /* words are bytes, the vocabulary spells them */
    bool ignores_merges;      /* a whole word in the vocabulary is its token, reachable or not */
    bool falls_back_to_bytes; /* unknown characters become <0xNN> tokens where all of them exist */
    bool fuses_unknown;       /* one unknown token for a run of unknown characters */
    bool has_unknown;         /* else unknown characters vanish */
    uint32_t unknown;         /* SL_NO_TOKEN: there is none, a word that needs it is an error */
    /* Words may be cut where no merge can join: for vocabularies without a pre-tokenizer, whose
     * words are whole texts. Never changes the ids. */
    bool cuts_words;
};

struct bpe_merge { /* a slot of a hash table; rank UINT32_MAX: free */
    uint32_t left, right, rank, whole;
};

struct bpe {
    const struct vocab *vocab; /* borrowed */
    struct bpe_options options;
    struct bpe_merge *merges;
    size_t merge_count, merge_cap;
    struct map
        words; /* is_byte_level: bytes to id; else unused (the vocabulary's own map is used) */
    struct arena arena;     /* the keys of words */
    size_t word_bytes_max;  /* of the longest token, in the bytes that words have */
    uint32_t byte_ids[256]; /* the token of a byte, spelled or <0xNN>; UINT32_MAX: none */
    uint32_t **pages; /* by code point >> 8: the tokens of single characters; NULL: none there */
    _Atomic(unsigned char) *reach; /* by id: whether a token's own text encodes to it; worked out
                                      when first asked, always the same answer */
    uint64_t *joins; /* cuts_words: a bit set of hashed neighbours that some merge may join */
};

struct bpe_pair;
struct bpe_scratch { /* zeroed to begin with; one thread */
    uint32_t *symbols;
    uint32_t *next, *previous;
    size_t symbols_cap, next_cap, previous_cap;
    struct bpe_pair *heap;
    size_t heap_cap;
};

enum status bpe_init(struct bpe *bpe, const struct vocab *vocab, const struct bpe_options *options,
                     size_t merge_count, struct error *err);
void bpe_release(struct bpe *bpe);
/* left and right as the vocabulary spells them; a lower rank joins first, equal ranks by place. A
 * pair given twice has its last rank. SL_ERR_ENV when a part or the whole is no token. */
enum status bpe_add_merge(struct bpe *bpe, struct str left, struct str right, uint32_t rank,
                          struct error *err);
enum status bpe_finish(struct bpe *bpe, struct error *err);

/* Appends the ids of a word: bytes if is_byte_level, else valid UTF-8. SL_ERR_ROW. */
enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, struct str word,
                       struct ids *ids, struct error *err);
void bpe_scratch_release(struct bpe_scratch *scratch);

#endif
