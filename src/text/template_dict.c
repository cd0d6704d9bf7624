/* Dicts: entries in order of insertion, found through a hash index once there are more than a few.
 * A dict of the input is converted one level at a time when looked at; of a name that stands twice
 * the last value counts, at the place of the first. */
#include "text/template_value.h"

#include <string.h>

#define SMALL_COUNT 8u /* up to here entries are searched in a row */

enum status dict_new(struct render *render, enum value_kind kind, struct value *out) {
    void *memory;
    TRY(value_take(render, sizeof(struct dict), &memory));
    *out = (struct value){.kind = kind, .dict = memory};
    return SL_OK;
}

static enum status grow(struct render *render, struct dict *dict, size_t need) {
    if (need <= dict->cap)
        return SL_OK;
    size_t cap = dict->cap * 2 > need ? dict->cap * 2 : need;
    void *memory;
    if (cap > SL_TEMPLATE_MEMORY_MAX / sizeof(struct entry))
        return value_fail(render, "a dict of %zu entries is too large", need);
    TRY(value_take(render, cap * sizeof(struct entry), &memory));
    if (dict->count > 0)
        memcpy(memory, dict->entries, dict->count * sizeof(struct entry));
    dict->entries = memory;
    dict->cap = cap;
    return SL_OK;
}

static void index_add(struct dict *dict, size_t entry) {
    size_t mask = dict->index_cap - 1, slot = (size_t)dict->entries[entry].hash & mask;
    while (dict->index[slot] != 0)
        slot = (slot + 1) & mask;
    dict->index[slot] = (uint32_t)entry + 1;
}

/* Builds the index anew when the dict has outgrown it. */
static enum status reindex(struct render *render, struct dict *dict) {
    if (dict->count <= SMALL_COUNT || dict->count * 2 <= dict->index_cap)
        return SL_OK;
    size_t cap = 32;
    while (cap < dict->count * 4)
        cap *= 2;
    void *memory;
    TRY(value_take(render, cap * sizeof(uint32_t), &memory));
    dict->index = memory;
    dict->index_cap = cap;
    for (size_t i = 0; i < dict->count; i++)
        index_add(dict, i);
    return SL_OK;
}

static enum status find_hashed(struct render *render, struct dict *dict, const struct value *key,
                               uint64_t hash, struct entry **out) {
    bool is_equal;
    *out = NULL;
    if (dict->index == NULL) {
        for (size_t i = 0; i < dict->count; i++) {
            if (dict->entries[i].hash != hash)
                continue;
            TRY(value_equal(render, &dict->entries[i].key, key, &is_equal));
            if (is_equal) {
                *out = &dict->entries[i];
                return SL_OK;
            }
        }
        return SL_OK;
    }
    size_t mask = dict->index_cap - 1;
    for (size_t slot = (size_t)hash & mask; dict->index[slot] != 0; slot = (slot + 1) & mask) {
        struct entry *entry = &dict->entries[dict->index[slot] - 1];
        TRY(value_charge(render, 1));
        if (entry->hash != hash)
            continue;
        TRY(value_equal(render, &entry->key, key, &is_equal));
        if (is_equal) {
            *out = entry;
            return SL_OK;
        }
    }
    return SL_OK;
}

static enum status put(struct render *render, struct dict *dict, const struct value *key,
                       const struct value *value) {
    uint64_t hash;
    struct entry *entry;
    TRY(value_hash(render, key, &hash));
    TRY(find_hashed(render, dict, key, hash, &entry));
    if (entry != NULL) {
        entry->value = *value;
        return SL_OK;
    }
    TRY(grow(render, dict, dict->count + 1));
    dict->entries[dict->count++] = (struct entry){*key, *value, hash};
    if (dict->index != NULL && dict->count * 2 <= dict->index_cap)
        index_add(dict, dict->count - 1);
    else
        TRY(reindex(render, dict));
    return SL_OK;
}

enum status dict_entries(struct render *render, struct dict *dict) {
    const struct json *json = dict->json;
    if (json == NULL)
        return SL_OK;
    dict->json = NULL;
    TRY(grow(render, dict, json->count));
    for (uint32_t i = 0; i < json->count; i++) {
        struct value key = value_text(json->members[i].name), value;
        TRY(value_from_json(render, &json->members[i].value, &value));
        TRY(put(render, dict, &key, &value));
    }
    return SL_OK;
}

enum status dict_put(struct render *render, struct dict *dict, const struct value *key,
                     const struct value *value) {
    TRY(dict_entries(render, dict));
    return put(render, dict, key, value);
}

enum status dict_find(struct render *render, struct dict *dict, const struct value *key,
                      struct entry **out) {
    uint64_t hash;
    TRY(dict_entries(render, dict));
    TRY(value_hash(render, key, &hash));
    return find_hashed(render, dict, key, hash, out);
}

enum status dict_find_str(struct render *render, struct dict *dict, struct str key,
                          struct entry **out) {
    struct value text = value_text(key);
    return dict_find(render, dict, &text, out);
}

enum status dict_put_str(struct render *render, struct dict *dict, struct str key,
                         const struct value *value) {
    struct value text = value_text(key);
    return dict_put(render, dict, &text, value);
}

static enum status add_pairs(struct render *render, struct dict *dict, const struct value *source) {
    struct list pairs, pair;
    if (source->kind == VALUE_DICT) {
        TRY(dict_entries(render, source->dict));
        for (size_t i = 0; i < source->dict->count; i++)
            TRY(put(render, dict, &source->dict->entries[i].key, &source->dict->entries[i].value));
        return SL_OK;
    }
    TRY(value_iterate(render, source, &pairs));
    for (size_t i = 0; i < pairs.count; i++) {
        TRY(value_iterate(render, &pairs.items[i], &pair));
        if (pair.count != 2)
            return value_fail(
                render, "dictionary update sequence element #%zu has length %zu; 2 is required", i,
                pair.count);
        TRY(put(render, dict, &pair.items[0], &pair.items[1]));
    }
    return SL_OK;
}

enum status dict_make(struct render *render, const struct arguments *arguments,
                      enum value_kind kind, struct value *out) {
    struct value made;
    TRY(dict_new(render, kind, &made));
    if (arguments->count > 1)
        return value_fail(render, "dict expected at most 1 argument, got %zu", arguments->count);
    if (arguments->count == 1)
        TRY(add_pairs(render, made.dict, &arguments->items[0]));
    for (size_t i = 0; i < arguments->named_count; i++)
        TRY(dict_put_str(render, made.dict, arguments->named[i].name, &arguments->named[i].value));
    *out = made;
    return SL_OK;
}
