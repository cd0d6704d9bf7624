/* Owns hash maps with open addressing: linear probing in a power of two of slots, at most three
 * quarters full. Refuses removal: what uses a map here only ever adds. */
#include "base/map.h"

#include "base/mem.h"

struct map_slot {
    struct str key;
    uint32_t tag; /* upper half of the hash, odd; 0: the slot is free */
    uint32_t value;
};

void map_init(struct map *map) {
    *map = (struct map){0};
}

void map_release(struct map *map) {
    if (!map)
        return;
    mem_free(map->slots);
    *map = (struct map){0};
}

/* The slot that holds the key, or the free one where it belongs. */
static struct map_slot *find_slot(struct map_slot *slots, size_t cap, struct str key,
                                  uint64_t hash) {
    uint32_t tag = (uint32_t)(hash >> 32) | 1u;
    size_t at = (size_t)hash & (cap - 1);
    while (slots[at].tag != 0 && !(slots[at].tag == tag && str_equal(slots[at].key, key)))
        at = (at + 1) & (cap - 1);
    return &slots[at];
}

bool map_reserve(struct map *map, size_t count) {
    size_t cap = map->cap ? map->cap : 16;
    while (cap / 4 * 3 < count) {
        if (!size_mul(cap, 2, &cap))
            return false;
    }
    if (cap == map->cap)
        return true;
    struct map_slot *slots = mem_new(cap, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < map->cap; i++) {
        const struct map_slot *from = &map->slots[i];
        if (from->tag != 0)
            *find_slot(slots, cap, from->key, str_hash(from->key)) = *from;
    }
    mem_free(map->slots);
    map->slots = slots;
    map->cap = cap;
    return true;
}

bool map_put(struct map *map, struct str key, uint32_t value, uint32_t *old, bool *was_there) {
    if (!map_reserve(map, map->count + 1))
        return false;
    uint64_t hash = str_hash(key);
    struct map_slot *slot = find_slot(map->slots, map->cap, key, hash);
    bool is_there = slot->tag != 0;
    if (is_there && old)
        *old = slot->value;
    if (was_there)
        *was_there = is_there;
    if (!is_there) {
        slot->key = key;
        slot->tag = (uint32_t)(hash >> 32) | 1u;
        map->count++;
    }
    slot->value = value;
    return true;
}

bool map_get(const struct map *map, struct str key, uint32_t *value) {
    if (map->count == 0)
        return false;
    const struct map_slot *slot = find_slot(map->slots, map->cap, key, str_hash(key));
    if (slot->tag == 0)
        return false;
    if (value)
        *value = slot->value;
    return true;
}
