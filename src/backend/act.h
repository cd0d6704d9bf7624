/* Activations of a pass: a matrix [features, tokens] of float32 in tiles of 16 tokens.
 *
 *   element (feature f, token t) = data[((t / 16) * features + f) * 16 + t % 16]
 *
 * So the lanes of every kernel run along tokens, a tile is contiguous, and what a product writes is
 * what the next product reads. Lanes past the last token hold finite numbers that nobody uses
 * (zeroed when the act is made); they influence nothing. Memory belongs to whoever called act_init;
 * shapes change per pass by act_shape without touching memory. */
#ifndef SLUICE_BACKEND_ACT_H
#define SLUICE_BACKEND_ACT_H

#include "base/mem.h"

#define SL_LANES ((size_t)16)

struct act {
    float *data; /* aligned to 64 */
    size_t features;
    size_t tokens; /* in this pass */
    size_t cap;    /* floats that data holds */
};

static inline size_t act_tiles(size_t tokens) {
    return size_divide_up(tokens, SL_LANES);
}

static inline float *act_tile(const struct act *act, size_t tile) {
    return act->data + tile * act->features * SL_LANES;
}

static inline float *act_at(const struct act *act, size_t feature, size_t token) {
    return act_tile(act, token / SL_LANES) + feature * SL_LANES + token % SL_LANES;
}

/* Floats for that shape. */
static inline size_t act_floats(size_t features, size_t tokens) {
    return act_tiles(tokens) * features * SL_LANES;
}

/* Room for features x tokens_max. The memory is zeroed. */
enum status act_init(struct act *act, size_t features, size_t tokens_max, struct error *err);
void act_release(struct act *act); /* accepts a zeroed act */
/* Sets features and tokens; must fit cap. */
void act_shape(struct act *act, size_t features, size_t tokens);

#endif
