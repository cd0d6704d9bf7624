/* The pace: how many tokens a pass should have. A pass lasts as long as its reads take or its
 * arithmetic, whichever is more; prompts fill the slack of passes that wait for the disk, and do
 * not make them longer. Learns from measured passes; decides nothing about results. One thread. */
#ifndef SLUICE_ENGINE_PACE_H
#define SLUICE_ENGINE_PACE_H

#include "base/status.h"

/* Prompts have one part in so many of a pass, whatever the pace says. */
#define SL_PROMPT_SHARE_LEAST 8u

struct pace {
    /* Sums over passes, older ones fading: of 1, tokens, tokens^2, compute seconds, both times. */
    double passes, tokens, squares, seconds, products;
    size_t pass_count;   /* all */
    double read_seconds; /* of a pass that waits for the disk; 0: none has */
};

/* A pass is over: its tokens, how long it took, how long the processor waited for blocks. */
void pace_learn(struct pace *pace, size_t tokens, double seconds, double wait_seconds);
/* Tokens that a pass may have without lasting longer than its reads, `decoded` of them those of
 * decoding rows; at most `most`, which is also the answer where passes do not wait, and where the
 * decoding rows alone take longer than the reads: nothing is left to be kept. */
size_t pace_tokens(const struct pace *pace, size_t decoded, size_t most);

#endif
