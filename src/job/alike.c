/* Owns the estimate of what rows share. Refuses to be exact: where the table of hashes is too small
 * for a job, it tells less than there is. */
#include "job/alike.h"

#include "backend/kv_view.h"
#include "base/mem.h"
#include "base/str.h"

#include <limits.h>
#include <string.h>

#define SLOTS ((size_t)1 << 17) /* half a megabyte: the rows of some thousand prompts */
/* A block has its place among so many, and the one that was met longest ago gives way. Were it one,
 * two heads that come in turn would push each other out for ever where any of their blocks met. */
#define WAYS ((size_t)4)

enum status alike_init(struct alike *alike, struct error *err) {
    *alike = (struct alike){.slots = mem_new(SLOTS, sizeof *alike->slots),
                            .parted = mem_new(SLOTS / CHAR_BIT, sizeof *alike->parted)};
    if (alike->slots != NULL && alike->parted != NULL)
        return SL_OK;
    alike_release(alike);
    return error_memory(err, SLOTS * sizeof *alike->slots, "what rows share");
}

void alike_release(struct alike *alike) {
    mem_free(alike->slots);
    mem_free(alike->parted);
    *alike = (struct alike){0};
}

size_t alike_blocks(size_t token_count) {
    size_t blocks = token_count > 0 ? (token_count - 1) / SL_PAGE_TOKENS : 0;
    return blocks < SL_ALIKE_BLOCKS_MAX ? blocks : SL_ALIKE_BLOCKS_MAX;
}

void alike_hash(const uint32_t *ids, size_t blocks, uint32_t *hashes) {
    struct {
        uint64_t before;
        uint32_t ids[SL_PAGE_TOKENS];
    } block = {0};
    for (size_t i = 0; i < blocks; i++) {
        memcpy(block.ids, ids + i * SL_PAGE_TOKENS, sizeof block.ids);
        block.before = str_hash((struct str){(const char *)&block, sizeof block});
        uint32_t hash = (uint32_t)(block.before >> 32);
        hashes[i] = hash != 0 ? hash : 1;
    }
}

/* Puts the block before the others of its places; true: it was among them. */
static bool meet(struct alike *alike, uint32_t hash) {
    uint32_t *places = alike->slots + hash % (SLOTS / WAYS) * WAYS, last = hash;
    for (size_t i = 0; i < WAYS; i++) {
        uint32_t here = places[i];
        places[i] = last;
        if (here == hash)
            return true;
        last = here;
    }
    return false;
}

uint32_t alike_add(struct alike *alike, const uint32_t *hashes, size_t blocks) {
    size_t known = 0;
    while (known < blocks && meet(alike, hashes[known]))
        known++;
    for (size_t i = known + 1; i < blocks; i++) /* the first unknown one is there by now */
        (void)meet(alike, hashes[i]);
    return (uint32_t)(known * SL_PAGE_TOKENS);
}

void alike_fork(struct alike *alike, const uint32_t *hashes, size_t blocks) {
    must(blocks > 0);
    size_t slot = hashes[blocks - 1] % SLOTS;
    uint8_t bit = (uint8_t)(1u << slot % CHAR_BIT), *bits = &alike->parted[slot / CHAR_BIT];
    alike->forks += (*bits & bit) == 0;
    *bits |= bit;
}
