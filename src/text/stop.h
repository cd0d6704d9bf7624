/* Stop texts: ends a row when its text comes to hold one, also over the border of tokens, and cuts
 * it there. The text of a row so far is kept as raw bytes; one thread at a time. */
#ifndef SLUICE_TEXT_STOP_H
#define SLUICE_TEXT_STOP_H

#include "text/tokenizer.h"

#define SL_STOP_TEXTS_MAX 64u
#define SL_STOP_BYTES_MAX 4096u

struct stop {
    const struct tokenizer *tokenizer;
    const struct str *texts; /* borrowed, non-empty ones */
    size_t count;
    struct buf
        bytes;  /* decoded so far, as tokenizer_decode does but with cut characters as they are */
    size_t cut; /* where the first stop text begins; SIZE_MAX until then */
    bool skips_special;
    bool has_begun; /* a token has given text: a leading space no longer falls away */
};

void stop_init(struct stop *stop, const struct tokenizer *tokenizer, const struct str *texts,
               size_t count, bool skips_special);
void stop_release(struct stop *stop);
/* Adds a token. True when a stop text is complete: the earliest beginning wins, and `cut` is set.
 * When memory is out bytes.has_failed is set, and nothing more is found. */
bool stop_push(struct stop *stop, uint32_t id);

#endif
