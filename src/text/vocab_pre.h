/* The pre-tokenizers that GGUF files name in tokenizer.ggml.pre (private to vocab_*.c). */
#ifndef SLUICE_TEXT_VOCAB_PRE_H
#define SLUICE_TEXT_VOCAB_PRE_H

#include "base/str.h"

#define SL_VOCAB_PRE_STEPS_MAX 6

struct vocab_pre {
    const char *names; /* all that mean it, each between spaces */
    /* Regexes in their order, NULL at the end; each isolates its matches. Two stand for components:
     * SL_PRE_DIGITS for each numeric character alone, SL_PRE_GPT2 for ByteLevel's own. */
    const char *steps[SL_VOCAB_PRE_STEPS_MAX];
    /* Steps from this one on see spelled bytes; 0: none (a first step never does). */
    int spelled_from;
    bool ignores_merges, normalizes_nfc, adds_bos;
};

#define SL_PRE_DIGITS "digits"
#define SL_PRE_GPT2 "gpt2"
#define SL_PRE_PUNCTUATION "punctuation"

const struct vocab_pre *vocab_pre_find(struct str name); /* NULL: not known */

#endif
