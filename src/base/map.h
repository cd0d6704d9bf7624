/* A hash map from byte strings to 32-bit numbers: names of tensors, vocabularies, ids of rows.
 * Keys are borrowed and must outlive the map. One writer, or any number of readers. */
#ifndef SLUICE_BASE_MAP_H
#define SLUICE_BASE_MAP_H

#include "base/str.h"

struct map_slot;
struct map {
    struct map_slot *slots;
    size_t count, cap; /* cap is a power of two or 0 */
};

void map_init(struct map *map);
void map_release(struct map *map);
/* Makes room for count keys at once; false when memory is out. */
bool map_reserve(struct map *map, size_t count);
/* Sets key to value. *old (may be NULL) gets the value that was there; *was_there tells. False when
 * memory is out. */
bool map_put(struct map *map, struct str key, uint32_t value, uint32_t *old, bool *was_there);
bool map_get(const struct map *map, struct str key, uint32_t *value);

#endif
