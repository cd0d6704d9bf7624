/* The memory of activations. Owns nothing but the block that act_init takes; what lies in it and
 * who writes it is the business of the backend and the arch. Refuses shapes that do not fit in
 * memory. */
#include "backend/act.h"

#include <string.h>

/* Kernels load whole cache lines. mem_new promises less, so the block is taken larger, and its
 * address is kept in the bytes before data. */
#define ALIGNMENT ((size_t)64)

enum status act_init(struct act *act, size_t features, size_t tokens_max, struct error *err) {
    size_t tiles = tokens_max / SL_LANES + (tokens_max % SL_LANES != 0);
    size_t floats, bytes;
    if (!size_mul(tiles, SL_LANES, &floats) || !size_mul(floats, features, &floats) ||
        !size_mul(floats, sizeof(float), &bytes) || !size_add(bytes, 2 * ALIGNMENT, &bytes))
        return error_set(err, SL_ERR_ENV,
                         "activations of %zu features for %zu tokens are larger than any memory",
                         features, tokens_max);
    uint8_t *block = mem_new(bytes, 1);
    if (!block)
        return error_memory(err, bytes, "activations");
    uintptr_t start = ((uintptr_t)block + 2 * ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    uint8_t *data = block + (start - (uintptr_t)block);
    memcpy(data - sizeof block, &block, sizeof block);
    *act = (struct act){
        .data = (float *)(void *)data, .features = features, .tokens = tokens_max, .cap = floats};
    return SL_OK;
}

void act_release(struct act *act) {
    if (act->data) {
        uint8_t *block;
        memcpy(&block, (const uint8_t *)(const void *)act->data - sizeof block, sizeof block);
        mem_free(block);
    }
    *act = (struct act){0};
}

void act_shape(struct act *act, size_t features, size_t tokens) {
    must(act_floats(features, tokens) <= act->cap);
    act->features = features;
    act->tokens = tokens;
}
