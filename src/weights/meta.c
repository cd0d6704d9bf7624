/* The metadata of a GGUF file as a list of typed values with a map by key. It owns keys, and the
 * arena that values point into; it interprets nothing: what a key means is its reader's business,
 * which gets false for a value of another kind and says so in its own words. */
#include "weights/meta.h"

#include <string.h>

void meta_init(struct meta *meta) {
    *meta = (struct meta){0};
    arena_init(&meta->arena);
    map_init(&meta->keys);
}

void meta_release(struct meta *meta) {
    mem_free(meta->values);
    mem_free(meta->names);
    map_release(&meta->keys);
    arena_release(&meta->arena);
    *meta = (struct meta){0};
}

/* Room for one more in both lists, which grow together. */
static bool grow(struct meta *meta) {
    size_t names_cap = meta->cap, values_cap = meta->cap;
    if (!mem_grow((void **)&meta->names, &names_cap, meta->count + 1, sizeof *meta->names) ||
        !mem_grow((void **)&meta->values, &values_cap, meta->count + 1, sizeof *meta->values))
        return false;
    meta->cap = values_cap < names_cap ? values_cap : names_cap;
    return true;
}

enum status meta_add(struct meta *meta, struct str key, const struct meta_value *value,
                     struct error *err) {
    uint32_t old;
    bool was_there;
    if (map_get(&meta->keys, key, &old))
        return error_set(err, SL_ERR_ENV, "key \"%.*s\" appears twice", STR_ARG(key));
    must(meta->count < UINT32_MAX);
    char *name = arena_take(&meta->arena, key.len);
    if (!name || !grow(meta))
        return error_memory(err, key.len + sizeof *value, "a metadata key");
    if (key.len > 0)
        memcpy(name, key.data, key.len);
    meta->names[meta->count] = (struct str){name, key.len};
    meta->values[meta->count] = *value;
    if (!map_put(&meta->keys, meta->names[meta->count], (uint32_t)meta->count, &old, &was_there))
        return error_memory(err, key.len, "the map of metadata keys");
    meta->count++;
    return SL_OK;
}

const struct meta_value *meta_find(const struct meta *meta, const char *key) {
    uint32_t place;
    return map_get(&meta->keys, str_from(key), &place) ? &meta->values[place] : NULL;
}

bool meta_integer(const struct meta *meta, const char *key, int64_t *out) {
    const struct meta_value *value = meta_find(meta, key);
    if (!value || value->kind != META_INTEGER)
        return false;
    *out = value->integer;
    return true;
}

bool meta_real(const struct meta *meta, const char *key, double *out) {
    const struct meta_value *value = meta_find(meta, key);
    if (!value || (value->kind != META_REAL && value->kind != META_INTEGER))
        return false;
    *out = value->kind == META_REAL ? value->real : (double)value->integer;
    return true;
}

bool meta_bool(const struct meta *meta, const char *key, bool *out) {
    const struct meta_value *value = meta_find(meta, key);
    if (!value || value->kind != META_BOOL)
        return false;
    *out = value->truth;
    return true;
}

bool meta_text(const struct meta *meta, const char *key, struct str *out) {
    const struct meta_value *value = meta_find(meta, key);
    if (!value || value->kind != META_STRING)
        return false;
    *out = value->text;
    return true;
}
