/* How much of each prompt earlier rows have: what sharing prefixes (engine/prefix.h) will save,
 * told at the first look. An estimate: blocks of 16 tokens are known by hashes, in a table of fixed
 * size in which new ones take the places of those that were met longest ago. One thread for each
 * `alike`; hashing may be done by any. */
#ifndef SLUICE_JOB_ALIKE_H
#define SLUICE_JOB_ALIKE_H

#include "base/status.h"

#define SL_ALIKE_BLOCKS_MAX ((size_t)1024) /* what comes behind them is not looked at */

struct alike {
    uint32_t *slots;
    uint8_t *parted; /* a bit for each slot: a row has left there what others have */
    size_t forks;    /* such places */
};

enum status alike_init(struct alike *alike, struct error *err);
void alike_release(struct alike *alike);
/* Full blocks of a prompt that rows can share. */
size_t alike_blocks(size_t token_count);
/* One for each block, of its tokens and all before them; never 0. */
void alike_hash(const uint32_t *ids, size_t blocks, uint32_t *hashes);
/* How many tokens of the row at its beginning earlier rows have. */
uint32_t alike_add(struct alike *alike, const uint32_t *hashes, size_t blocks);
/* Likewise where the last of `blocks`, at least one, is a fork (engine/fork.h): counts it once. */
void alike_fork(struct alike *alike, const uint32_t *hashes, size_t blocks);

#endif
