/* The strings of a model's vocabulary: id to string and string to id. Added tokens are apart
 * (added.h). Filled by one thread, then constant. */
#ifndef SLUICE_TEXT_VOCAB_H
#define SLUICE_TEXT_VOCAB_H

#include "base/map.h"
#include "base/mem.h"

#define SL_VOCAB_IDS_MAX ((uint32_t)1 << 22) /* ids are below it */

struct vocab {
    struct arena arena; /* the strings */
    struct str *tokens; /* by id; data NULL where there is none */
    size_t size, cap;   /* highest id + 1 */
    size_t count;       /* strings */
    struct map ids;
};

void vocab_init(struct vocab *vocab);
void vocab_release(struct vocab *vocab);
bool vocab_reserve(struct vocab *vocab, size_t count);
/* Copies token. A string seen before gets the new id (its old one has no string then), an id seen
 * before the new string. SL_ERR_ENV. */
enum status vocab_add(struct vocab *vocab, struct str token, uint64_t id, struct error *err);
bool vocab_find(const struct vocab *vocab, struct str token, uint32_t *id);
struct str vocab_token(const struct vocab *vocab, uint32_t id); /* data NULL: none */

#endif
