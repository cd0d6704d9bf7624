/* Rotary frequencies and the tables of a pass. Pure arithmetic; any thread. */
#ifndef SLUICE_MODEL_ROPE_H
#define SLUICE_MODEL_ROPE_H

#include "backend/backend.h"
#include "model/config.h"

/* Radians a position for each rotated pair, rounded to float32 as published code keeps them:
 * theta^(-2i / rotary), scaled as the config says. factors: divisors [rotary / 2] from the file
 * (GGUF's rope_freqs), or NULL. */
void rope_frequencies(const struct rope_config *rope, const float *factors, float *frequencies);

/* Cosines and sines of position x frequency for each token, the angle in double, rounded once.
 * Shapes the table; shared out over the team by tiles. */
void rope_fill(struct rope_table *table, const float *frequencies, size_t pairs,
               const struct kv_token *tokens, size_t count, struct team *team);

#endif
