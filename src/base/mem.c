/* Owns the heap calls of the program (the SL_FAULT_ALLOC point guards each of them) and arenas.
 * Refuses sizes that overflow, and refuses to allocate from a sealed arena. */
#include "base/mem.h"

#include "base/fault.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_ALIGN ((size_t)16)
#define ARENA_CHUNK_BYTES_MIN ((size_t)4 << 10)
#define ARENA_CHUNK_BYTES_MAX ((size_t)4 << 20)

struct arena_chunk {
    alignas(16) struct arena_chunk *older;
    size_t used, bytes; /* of data */
    alignas(16) unsigned char data[];
};

/* count * size bytes, unless no object can be so large. */
static bool size_of_array(size_t count, size_t size, size_t *bytes) {
    return size_mul(count, size, bytes) && *bytes <= PTRDIFF_MAX;
}

void *mem_new(size_t count, size_t size) {
    size_t bytes;
    if (!size_of_array(count, size, &bytes) || fault_hit(SL_FAULT_ALLOC))
        return NULL;
    return calloc(1, bytes ? bytes : 1);
}

bool mem_grow(void **items, size_t *cap, size_t need, size_t size) {
    if (*items && need <= *cap)
        return true;
    size_t grown = *cap ? *cap : 8;
    while (grown < need) {
        if (!size_mul(grown, 2, &grown))
            return false;
    }
    size_t bytes;
    if (!size_of_array(grown, size, &bytes) || fault_hit(SL_FAULT_ALLOC))
        return false;
    void *moved = realloc(*items, bytes ? bytes : 1);
    if (!moved)
        return false;
    *items = moved;
    *cap = grown;
    return true;
}

void mem_free(void *memory) {
    free(memory);
}

bool size_add(size_t a, size_t b, size_t *out) {
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

bool size_mul(size_t a, size_t b, size_t *out) {
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

void arena_init(struct arena *arena) {
    *arena = (struct arena){0};
}

/* Puts a chunk of so many bytes on the list: as the one to fill, or (a big request, while the last
 * chunk has room for small ones) behind it. */
static struct arena_chunk *add_chunk(struct arena *arena, size_t bytes, bool is_behind) {
    size_t whole;
    if (!size_add(sizeof(struct arena_chunk), bytes, &whole))
        return NULL;
    struct arena_chunk *chunk = mem_new(1, whole);
    if (!chunk)
        return NULL;
    chunk->bytes = bytes;
    if (is_behind) {
        chunk->older = arena->last->older;
        arena->last->older = chunk;
    } else {
        chunk->older = arena->last;
        arena->last = chunk;
    }
    return chunk;
}

void *arena_take(struct arena *arena, size_t bytes) {
    must(!arena->is_sealed);
    size_t need;
    if (!size_add(bytes, ARENA_ALIGN - 1, &need))
        return NULL;
    need &= ~(ARENA_ALIGN - 1);
    struct arena_chunk *chunk = arena->last;
    if (!chunk || chunk->bytes - chunk->used < need) {
        /* Chunks double, so that an arena of n bytes has few of them and wastes a part of n. */
        size_t next = chunk ? chunk->bytes * 2 : ARENA_CHUNK_BYTES_MIN;
        next = next > ARENA_CHUNK_BYTES_MAX ? ARENA_CHUNK_BYTES_MAX : next;
        bool is_big = need > next / 2;
        chunk = add_chunk(arena, is_big ? need : next, is_big && chunk);
        if (!chunk)
            return NULL;
    }
    void *taken = chunk->data + chunk->used;
    chunk->used += need;
    arena->used_bytes += need;
    return taken;
}

void *arena_array(struct arena *arena, size_t count, size_t size) {
    size_t bytes;
    return size_mul(count, size, &bytes) ? arena_take(arena, bytes) : NULL;
}

void arena_seal(struct arena *arena) {
    arena->is_sealed = true;
}

void arena_release(struct arena *arena) {
    struct arena_chunk *chunk = arena->last;
    while (chunk) {
        struct arena_chunk *older = chunk->older;
        mem_free(chunk);
        chunk = older;
    }
    *arena = (struct arena){0};
}
