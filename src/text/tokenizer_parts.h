/* What a tokenizer is made of (private to the files that make and run one). */
#ifndef SLUICE_TEXT_TOKENIZER_PARTS_H
#define SLUICE_TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/decode.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"

struct tokenizer {
    struct vocab vocab;
    struct added added;
    struct normalizer normalizer;
    struct pretokenizer pretokenizer;
    struct bpe bpe;
    struct decoder decoder;
    struct ids before, after; /* what the post-processor puts around the ids of a text */
};

struct tokenizer *tokenizer_new(void); /* empty; NULL when memory is out */
/* Appends what the token stands for in running text (decoder_token_bytes). */
void tokenizer_running_bytes(const struct tokenizer *tokenizer, uint32_t id, bool is_first,
                             struct buf *out);

#endif
