/* Rotary frequencies and the tables of a pass. Pure arithmetic; any thread. */
#ifndef SLUICE_MODEL_ROPE_H
#define SLUICE_MODEL_ROPE_H

#include "backend/backend.h"
#include "model/config.h"

/* Radians a position for each rotated pair, rounded to float32 as published code keeps them:
 * theta^(-2i / rotary), scaled as the config says but for longrope. factors: divisors [rotary / 2]
 * (GGUF's rope_freqs, longrope's), or NULL. */
void rope_frequencies(const struct rope_config *rope, const float *factors, float *frequencies);

/* Whether rows of so many positions at most turn by the other set of frequencies. */
bool rope_is_long(const struct rope_config *rope, size_t row_limit);

/* Where the cosines and sines of a kind of layer come from. */
struct rope_source {
    const float *frequencies;      /* [pairs] */
    const float *long_frequencies; /* of rows with more than `original` positions; NULL: the same */
    double original;
    double attention_factor; /* of cosines and sines */
    size_t pairs;
};

/* Cosines and sines of position x frequency for each token, the angle in double, rounded once.
 * Shapes the table; shared out over the team by tiles. */
void rope_fill(struct rope_table *table, const struct rope_source *source,
               const struct kv_token *tokens, size_t count, struct team *team);

#endif
