/* Where, in a normalized text, the places of the raw text stand that no special token may cover.
 * Private to the encoder. */
#ifndef SLUICE_TEXT_PLAIN_H
#define SLUICE_TEXT_PLAIN_H

#include "text/tokenizer_parts.h"

struct plain {
    size_t *items; /* offsets in the normalized text, rising */
    size_t count, cap;
    struct buf buffers[2];
    uint64_t work; /* bytes normalized again, of one text */
};
void plain_release(struct plain *plain);

struct plain_source {
    const size_t *points; /* offsets in the whole raw text, rising */
    size_t count;
    struct str raw; /* the stretch */
    size_t offset;  /* where it begins in the whole text */
    struct str normalized;
};
/* Fills items with those places alone that lie under a special token of the normalized text.
 * SL_ERR_ROW when the text has so many of these that finding their places would take long. */
enum status plain_map(struct plain *plain, const struct tokenizer *tokenizer,
                      const struct plain_source *source, struct error *err);

#endif
