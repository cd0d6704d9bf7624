/* Prefixes: rows whose tokens begin alike hold the same KV pages, each computed once.
 *
 * The index knows blocks of 16 tokens by what they are and by all tokens before them, compared and
 * not only hashed. A block has the pages of its 16 positions; it is full, so nobody writes into it
 * again, and what differs goes into pages of the row's own. Per row, between two passes:
 *
 *   prefix_join: holds the pages of the blocks that the row's tokens go on with
 *       -> sched.c picks what is left, at least the last token: someone must give logits
 *       -> prefix_publish: the blocks that the pick fills are known from now on
 *       -> the pass
 *       -> prefix_settle: where the row computed what another has too, it gives its own back
 *
 * So a row may join what another computes in the same pass: in every layer all keys and values of a
 * pass are written before any are read. Nobody leads and nobody waits: whoever comes to a block
 * first computes it. A pass that failed leaves blocks that nobody computed: none may follow it.
 *
 * A block whose row has gone stays until its page is needed (kv.h). A windowed layer's page may be
 * lost before the block's other one; a row joins only as far as its window is there.
 *
 * Layers that keep a state: a block may have the state after its last token, copied from a row that
 * had computed exactly so far (engine/fork.h says which). Nobody holds that page: it is kept like
 * others, and lost when a row needs it. A row joins up to the last block that has one, with a copy
 * in its own page; so it joins what was computed in earlier passes alone.
 *
 * One thread. The kv is borrowed, and told to tell what it loses. */
#ifndef SLUICE_ENGINE_PREFIX_H
#define SLUICE_ENGINE_PREFIX_H

#include "engine/seq.h"

struct prefix_key {
    uint64_t parent; /* the name of what comes before; of a row's first block: which kind of row */
    uint32_t tokens[SL_PAGE_TOKENS];
};

struct prefix_block {
    struct prefix_key key;
    uint64_t name;        /* of the tokens up to the block's last; never used again; 0: no block */
    uint32_t window_page; /* SL_PAGE_GONE: lost, or windowed layers are all that there are */
    uint32_t state_page;  /* SL_PAGE_GONE: none */
    uint32_t next;        /* in the bucket */
};

struct prefix {
    struct kv *kv;
    enum kv_group home;          /* blocks have the numbers of its pages */
    bool has_windows;            /* beside home there are windowed layers */
    bool has_states;             /* and layers that keep a state */
    struct prefix_block *blocks; /* [pages of home] */
    uint32_t *window_blocks;     /* [pages of windowed layers]: whose it is; SL_PAGE_GONE: none's */
    uint32_t *state_blocks;      /* [pages of states]: likewise, of those that are kept */
    uint32_t *buckets;           /* [bucket_count]: as many as blocks */
    uint32_t *path;              /* [pages of home]: the blocks that a row could join */
    size_t bucket_count, block_count;
    uint64_t name_next;
    uint64_t joined_tokens; /* that rows did not have to compute, in all */
};

enum status prefix_init(struct prefix *prefix, struct kv *kv, struct error *err);
void prefix_release(struct prefix *prefix); /* accepts a zeroed one */
/* Memory of an index over so many pages of a group. */
uint64_t prefix_bytes(size_t page_count);
void prefix_join(struct prefix *prefix, struct seq *seq);
/* The tokens below `end` will be computed in the pass that is being picked; takes their pages,
 * which must be there, when they fill a block. */
void prefix_publish(struct prefix *prefix, struct seq *seq, size_t end);
/* The tokens below seq->computed are; its windows have not been trimmed since. Keeps its state when
 * it has come to its fork. */
void prefix_settle(struct prefix *prefix, struct seq *seq);

#endif
