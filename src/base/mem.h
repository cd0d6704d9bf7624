/* Memory from the heap with checked sizes, and arenas that are filled before a pass and then
 * sealed.
 *
 * mem_*: any thread. An arena belongs to one thread until sealed, then to all readers. */
#ifndef SLUICE_BASE_MEM_H
#define SLUICE_BASE_MEM_H

#include "base/status.h"

/* Zeroed array of count items of size bytes; NULL when it overflows, when memory is out, or when
 * the fault point SL_FAULT_ALLOC fires. count 0 gives a valid pointer. */
void *mem_new(size_t count, size_t size);

/* Grows (or makes, from NULL) an array of items of size bytes so that it holds at least `need`:
 * doubles *cap until it does. False when memory is out; *items and *cap are then as before.
 * New items are not zeroed. */
bool mem_grow(void **items, size_t *cap, size_t need, size_t size);

void mem_free(void *memory); /* accepts NULL */

/* a + b and a * b into *out; false on overflow. For sizes and offsets read from files. */
bool size_add(size_t a, size_t b, size_t *out);
bool size_mul(size_t a, size_t b, size_t *out);

static inline size_t size_min(size_t a, size_t b) {
    return a < b ? a : b;
}
static inline size_t size_max(size_t a, size_t b) {
    return a > b ? a : b;
}
/* value / unit, rounded up. Their sum must fit into a size_t: for numbers that an input may have
 * chosen the caller has seen to that. */
static inline size_t size_divide_up(size_t value, size_t unit) {
    return (value + unit - 1) / unit;
}
/* The next multiple of unit from value on, which must be a size_t. */
static inline size_t size_round_up(size_t value, size_t unit) {
    must(value <= SIZE_MAX - (unit - 1));
    return size_divide_up(value, unit) * unit;
}

struct arena_chunk;
struct arena {
    struct arena_chunk *last; /* chunks in a list, newest first */
    size_t used_bytes;        /* handed out so far */
    bool is_sealed;
};

void arena_init(struct arena *arena);
/* Zeroed memory aligned to 16; NULL when memory is out. must() fails on a sealed arena. */
void *arena_take(struct arena *arena, size_t bytes);
/* count * size bytes; NULL on overflow too. */
void *arena_array(struct arena *arena, size_t count, size_t size);
void arena_seal(struct arena *arena);
void arena_release(struct arena *arena); /* frees all; the arena can be used again */

#endif
