/* Owns the index of prefixes: which page has the keys and values of which tokens. Refuses to count
 * pages or to throw any away: kv.c decides what is lost, and tells.
 *
 * 1. A block is in the index exactly when its page of `home` is held or kept and wanted.
 * 2. A window_page is held or kept and wanted, and window_blocks leads back to the block.
 *    Likewise a state_page, which is never held but while it is copied.
 * 3. Names grow and are never given twice, so a block whose parent was lost is merely out of reach:
 *    the same tokens computed again get another name.
 * 4. Between passes a row holds the pages of the blocks of its chain, as many as it has computed,
 *    but those that its window has passed. */
#include "engine/prefix.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/fork.h"

#include <string.h>

/* Names below are those of the kinds of rows (struct seq). */
#define FIRST_NAME ((uint64_t)16)

uint64_t prefix_bytes(size_t page_count) {
    return (uint64_t)page_count * (sizeof(struct prefix_block) + 3 * sizeof(uint32_t));
}

static size_t bucket_of(const struct prefix *prefix, const struct prefix_key *key) {
    struct str bytes = {(const char *)key, sizeof *key};
    return (size_t)(str_hash(bytes) % prefix->bucket_count);
}

static bool is_same(const struct prefix_key *a, const struct prefix_key *b) {
    return a->parent == b->parent && memcmp(a->tokens, b->tokens, sizeof a->tokens) == 0;
}

static uint32_t find(const struct prefix *prefix, const struct prefix_key *key) {
    uint32_t at = prefix->buckets[bucket_of(prefix, key)];
    while (at != SL_PAGE_GONE && !is_same(&prefix->blocks[at].key, key))
        at = prefix->blocks[at].next;
    return at;
}

/* The state that is kept with the block, if any. */
static void remove_state(struct prefix *prefix, struct prefix_block *block) {
    if (block->state_page == SL_PAGE_GONE)
        return;
    prefix->state_blocks[block->state_page] = SL_PAGE_GONE;
    kv_want(prefix->kv, KV_STATE, block->state_page, false);
    block->state_page = SL_PAGE_GONE;
}

static void remove_block(struct prefix *prefix, uint32_t page) {
    struct prefix_block *block = &prefix->blocks[page];
    uint32_t *link = &prefix->buckets[bucket_of(prefix, &block->key)];
    must(block->name != 0);
    while (*link != page) {
        must(*link != SL_PAGE_GONE);
        link = &prefix->blocks[*link].next;
    }
    *link = block->next;
    if (block->window_page != SL_PAGE_GONE) {
        prefix->window_blocks[block->window_page] = SL_PAGE_GONE;
        kv_want(prefix->kv, KV_WINDOW, block->window_page, false);
    }
    remove_state(prefix, block);
    block->name = 0;
    prefix->block_count--;
}

/* kv->lost */
static void lose(void *ctx, enum kv_group group, uint32_t page) {
    struct prefix *prefix = ctx;
    if (group == prefix->home) {
        remove_block(prefix, page);
        return;
    }
    uint32_t *owner = &(group == KV_STATE ? prefix->state_blocks : prefix->window_blocks)[page];
    must(*owner != SL_PAGE_GONE);
    struct prefix_block *block = &prefix->blocks[*owner];
    *(group == KV_STATE ? &block->state_page : &block->window_page) = SL_PAGE_GONE;
    *owner = SL_PAGE_GONE;
}

static uint32_t *new_pages(size_t count) {
    uint32_t *pages = mem_new(count, sizeof *pages);
    for (size_t i = 0; pages != NULL && i < count; i++)
        pages[i] = SL_PAGE_GONE;
    return pages;
}

enum status prefix_init(struct prefix *prefix, struct kv *kv, struct error *err) {
    const struct kv_pool *pools = kv->pools;
    enum kv_group home = pools[KV_WHOLE].page_count > 0 ? KV_WHOLE : KV_WINDOW;
    size_t count = pools[home].page_count;
    *prefix = (struct prefix){
        .kv = kv,
        .home = home,
        .has_windows = home == KV_WHOLE && pools[KV_WINDOW].page_count > 0,
        .has_states = pools[KV_STATE].page_count > 0,
        .bucket_count = count,
        .name_next = FIRST_NAME,
    };
    prefix->blocks = mem_new(count, sizeof *prefix->blocks);
    prefix->path = new_pages(count);
    prefix->buckets = new_pages(prefix->bucket_count);
    if (prefix->has_windows)
        prefix->window_blocks = new_pages(pools[KV_WINDOW].page_count);
    if (prefix->has_states)
        prefix->state_blocks = new_pages(pools[KV_STATE].page_count);
    if (prefix->blocks == NULL || prefix->path == NULL || prefix->buckets == NULL ||
        (prefix->has_windows && prefix->window_blocks == NULL) ||
        (prefix->has_states && prefix->state_blocks == NULL)) {
        prefix_release(prefix);
        return error_memory(err, (size_t)prefix_bytes(count), "the index of prefixes");
    }
    kv->lost = lose;
    kv->lost_ctx = prefix;
    return SL_OK;
}

void prefix_release(struct prefix *prefix) {
    if (prefix->kv != NULL)
        prefix->kv->lost = NULL;
    mem_free(prefix->state_blocks);
    mem_free(prefix->window_blocks);
    mem_free(prefix->buckets);
    mem_free(prefix->path);
    mem_free(prefix->blocks);
    *prefix = (struct prefix){0};
}

static struct prefix_key key_at(const struct seq *seq, uint64_t parent, size_t block) {
    struct prefix_key key = {.parent = parent};
    memcpy(key.tokens, seq->tokens + block * SL_PAGE_TOKENS, sizeof key.tokens);
    return key;
}

static uint64_t name_of(const struct seq *seq) {
    return seq->chain.count > 0 ? seq->chain.name : seq->chain.kind;
}

/* ---- joining */

/* Follows the row's tokens from its chain on, into path; returns how many blocks there are. */
static size_t follow(struct prefix *prefix, const struct seq *seq) {
    size_t had = seq->chain.count, end = seq_shareable(seq) / SL_PAGE_TOKENS, count = 0;
    uint64_t name = name_of(seq);
    while (had + count < end) {
        struct prefix_key key = key_at(seq, name, had + count);
        uint32_t page = find(prefix, &key);
        if (page == SL_PAGE_GONE)
            break;
        prefix->path[count++] = page;
        name = prefix->blocks[page].name;
    }
    return count;
}

static uint32_t page_on_path(const struct prefix *prefix, size_t at, enum kv_group group) {
    uint32_t page = prefix->path[at];
    return group == prefix->home ? page : prefix->blocks[page].window_page;
}

/* How many of the blocks on the path the row can take, such that the window behind them is there,
 * and the state after them. */
static size_t reach(const struct prefix *prefix, const struct seq *seq, size_t count) {
    size_t had = seq->chain.count, taken = 0;
    size_t from = seq->pages[KV_WINDOW].first; /* from there on no page is missing */
    for (size_t i = 0; i < count; i++) {
        size_t end = had + i + 1;
        if (prefix->has_windows && page_on_path(prefix, i, KV_WINDOW) == SL_PAGE_GONE)
            from = end;
        if (prefix->has_states && prefix->blocks[prefix->path[i]].state_page == SL_PAGE_GONE)
            continue;
        if (!prefix->has_windows || from <= seq_window_page(prefix->kv, end * SL_PAGE_TOKENS))
            taken = end - had;
    }
    return taken;
}

/* The pages of the first `count` blocks of the path in place of the row's own there. */
static void hold_path(const struct prefix *prefix, struct seq *seq, size_t count,
                      enum kv_group group) {
    struct seq_pages *pages = &seq->pages[group];
    size_t had = seq->chain.count, end = had + count, first = pages->first;
    if (group == KV_WINDOW)
        first = seq_window_page(prefix->kv, end * SL_PAGE_TOKENS);
    must(pages->count >= had);
    while (pages->count > had) /* begun, and not full */
        kv_give(prefix->kv, group, pages->numbers[--pages->count]);
    for (size_t i = had; i < end; i++) {
        pages->numbers[i] = i < first ? SL_PAGE_GONE : page_on_path(prefix, i - had, group);
        if (i >= first)
            kv_share(prefix->kv, group, pages->numbers[i]);
    }
    pages->count = end;
    for (; pages->first < first; pages->first++) {
        if (pages->first >= had)
            continue;
        kv_give(prefix->kv, group, pages->numbers[pages->first]);
        pages->numbers[pages->first] = SL_PAGE_GONE;
    }
}

/* The row's own copy of the state that the block has. Where no page is left for it, the kept one
 * becomes the row's. */
static void copy_state(struct prefix *prefix, struct seq *seq, uint32_t block) {
    struct kv *kv = prefix->kv;
    struct seq_pages *own = &seq->pages[KV_STATE];
    uint32_t kept = prefix->blocks[block].state_page;
    kv_share(kv, KV_STATE, kept); /* it does not go out meanwhile */
    if (own->count == 0 && !kv_take(kv, KV_STATE, &own->numbers[0])) {
        remove_state(prefix, &prefix->blocks[block]);
        own->numbers[0] = kept;
    } else {
        kv_copy(kv, KV_STATE, kept, own->numbers[0]);
        kv_give(kv, KV_STATE, kept);
    }
    own->count = 1;
}

/* Of `known` blocks that the row begins with it can take `count`. What it computes again of them is
 * worth keeping; a row that has computed it before is the only one that had it. */
static void note_fork(const struct prefix *prefix, struct seq *seq, size_t known, size_t count) {
    size_t tokens = known * SL_PAGE_TOKENS;
    bool is_first = prefix->has_states && seq->computed == 0 && seq->suspensions == 0;
    if (is_first && tokens >= count * SL_PAGE_TOKENS + SL_FORK_TOKENS)
        seq->fork_known = tokens;
}

void prefix_join(struct prefix *prefix, struct seq *seq) {
    must(seq->chain.count == seq->computed / SL_PAGE_TOKENS);
    size_t known = follow(prefix, seq), count = reach(prefix, seq, known);
    note_fork(prefix, seq, known, count);
    if (count == 0)
        return;
    if (prefix->has_states)
        copy_state(prefix, seq, prefix->path[count - 1]);
    for (int group = 0; group < KV_STATE; group++)
        if (prefix->kv->pools[group].page_count > 0)
            hold_path(prefix, seq, count, (enum kv_group)group);
    size_t computed = (seq->chain.count + count) * SL_PAGE_TOKENS;
    prefix->joined_tokens += computed - seq->computed;
    seq->computed = computed;
    seq->chain.count += count;
    seq->chain.name = prefix->blocks[prefix->path[count - 1]].name;
}

/* ---- publishing */

static void set_window_page(struct prefix *prefix, uint32_t block, uint32_t page) {
    must(page != SL_PAGE_GONE);
    must(prefix->window_blocks[page] == SL_PAGE_GONE);
    prefix->blocks[block].window_page = page;
    prefix->window_blocks[page] = block;
    kv_want(prefix->kv, KV_WINDOW, page, true);
}

static void add_block(struct prefix *prefix, struct seq *seq, const struct prefix_key *key) {
    size_t at = seq->chain.count;
    uint32_t page = seq->pages[prefix->home].numbers[at];
    uint32_t *bucket = &prefix->buckets[bucket_of(prefix, key)];
    must(page != SL_PAGE_GONE);
    struct prefix_block *block = &prefix->blocks[page];
    must(block->name == 0);
    *block = (struct prefix_block){
        .key = *key,
        .name = prefix->name_next++,
        .window_page = SL_PAGE_GONE,
        .state_page = SL_PAGE_GONE,
        .next = *bucket,
    };
    *bucket = page;
    kv_want(prefix->kv, prefix->home, page, true);
    if (prefix->has_windows)
        set_window_page(prefix, page, seq->pages[KV_WINDOW].numbers[at]);
    prefix->block_count++;
    seq->chain.count++;
    seq->chain.name = block->name;
}

void prefix_publish(struct prefix *prefix, struct seq *seq, size_t end) {
    size_t full = end / SL_PAGE_TOKENS;
    must(end <= seq->token_count);
    if (seq->chain.count >= full)
        return;
    must(seq_take_pages(seq, prefix->kv, end));
    while (seq->chain.count < full) {
        struct prefix_key key = key_at(seq, name_of(seq), seq->chain.count);
        if (find(prefix, &key) != SL_PAGE_GONE)
            return; /* the row writes into pages of its own first */
        add_block(prefix, seq, &key);
    }
}

/* ---- settling */

static void replace_page(const struct prefix *prefix, struct seq *seq, enum kv_group group,
                         uint32_t page) {
    uint32_t *own = &seq->pages[group].numbers[seq->chain.count];
    must(*own != page);
    kv_share(prefix->kv, group, page);
    kv_give(prefix->kv, group, *own);
    *own = page;
}

/* The row has computed what a block has: one of the two will do. A window's page that the block has
 * lost comes back with it. */
static void merge_block(struct prefix *prefix, struct seq *seq, uint32_t page) {
    struct prefix_block *block = &prefix->blocks[page];
    replace_page(prefix, seq, prefix->home, page);
    if (prefix->has_windows && block->window_page != SL_PAGE_GONE)
        replace_page(prefix, seq, KV_WINDOW, block->window_page);
    else if (prefix->has_windows)
        set_window_page(prefix, page, seq->pages[KV_WINDOW].numbers[seq->chain.count]);
    seq->chain.count++;
    seq->chain.name = block->name;
}

/* A row of that chain has left its state: those before it are as good as used, and will be lost
 * after it. What comes behind a common head, each time something else, so drives out its like and
 * not the head. */
static void touch_states(const struct prefix *prefix, const struct seq *seq) {
    const struct seq_pages *pages = &seq->pages[prefix->home];
    for (size_t i = seq->chain.count; i-- > pages->first;) {
        uint32_t page = prefix->blocks[pages->numbers[i]].state_page;
        if (page == SL_PAGE_GONE)
            continue;
        kv_share(prefix->kv, KV_STATE, page);
        kv_give(prefix->kv, KV_STATE, page);
    }
}

/* Of a row that has computed its last block, and nothing behind it. Nobody has the state yet, or
 * both have the same. */
static void keep_state(struct prefix *prefix, const struct seq *seq) {
    uint32_t at = seq->pages[prefix->home].numbers[seq->chain.count - 1], page;
    struct prefix_block *block = &prefix->blocks[at];
    must(block->name == seq->chain.name);
    must(seq->chain.count * SL_PAGE_TOKENS == seq->computed);
    touch_states(prefix, seq);
    if (block->state_page != SL_PAGE_GONE || !kv_take(prefix->kv, KV_STATE, &page))
        return;
    kv_copy(prefix->kv, KV_STATE, seq->pages[KV_STATE].numbers[0], page);
    must(prefix->state_blocks[page] == SL_PAGE_GONE);
    block->state_page = page;
    prefix->state_blocks[page] = at;
    kv_want(prefix->kv, KV_STATE, page, true);
    kv_give(prefix->kv, KV_STATE, page);
    touch_states(prefix, seq);
}

void prefix_settle(struct prefix *prefix, struct seq *seq) {
    while (seq->chain.count < seq->computed / SL_PAGE_TOKENS) {
        struct prefix_key key = key_at(seq, name_of(seq), seq->chain.count);
        uint32_t page = find(prefix, &key);
        if (page == SL_PAGE_GONE)
            add_block(prefix, seq, &key);
        else
            merge_block(prefix, seq, page);
    }
    if (prefix->has_states && seq->fork > 0 && seq->fork == seq->computed)
        keep_state(prefix, seq);
}
