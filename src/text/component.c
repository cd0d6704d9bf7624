/* Owns the reading of single components and their members. Refuses members of another type than the
 * format has; members that it does not know do not concern it, as in the library. */
#include "text/component.h"

#include <string.h>

enum status component_type(const struct json *json, const char *where, struct str *type,
                           struct error *err) {
    if (!json_is(json, JSON_OBJECT) || !json_string(json_get(json, "type"), type))
        return error_set(err, SL_ERR_ENV, "%s is not an object with a type", where);
    return SL_OK;
}

enum status component_bool(const struct json *json, const char *where, const char *name,
                           bool value_if_absent, bool *out, struct error *err) {
    const struct json *member = json_get(json, name);
    if (!member || json_is(member, JSON_NULL)) {
        *out = value_if_absent;
        return SL_OK;
    }
    if (!json_bool(member, out))
        return error_set(err, SL_ERR_ENV, "%s: %s is neither true nor false", where, name);
    return SL_OK;
}

enum status component_string(const struct json *json, const char *where, const char *name,
                             struct str *out, struct error *err) {
    if (!json_string(json_get(json, name), out))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a string", where, name);
    return SL_OK;
}

enum status component_count(const struct json *json, const char *where, const char *name,
                            uint64_t most, uint64_t *out, struct error *err) {
    uint64_t value;
    if (!json_u64(json_get(json, name), &value) || value > most)
        return error_set(err, SL_ERR_ENV, "%s: %s is not an integer from 0 to %llu", where, name,
                         (unsigned long long)most);
    *out = value;
    return SL_OK;
}

enum status component_pattern(const struct json *json, const char *where, struct str *pattern,
                              bool *is_regex, struct error *err) {
    const struct json *member = json_get(json, "pattern");
    *is_regex = json_string(json_get(member, "Regex"), pattern);
    if (!*is_regex && !json_string(json_get(member, "String"), pattern))
        return error_set(err, SL_ERR_ENV, "%s: pattern is neither a String nor a Regex", where);
    /* The empty string matches as the empty regex does: between all characters. */
    *is_regex |= pattern->len == 0;
    return SL_OK;
}

enum status component_list(const struct json *json, const char *where, const char *name,
                           const struct json **list, struct error *err) {
    const struct json *member = json_get(json, name);
    if (!json_is(member, JSON_ARRAY))
        return error_set(err, SL_ERR_ENV, "%s: %s is not an array", where, name);
    *list = member;
    return SL_OK;
}

enum status component_refuse(const char *where, struct str type, struct error *err) {
    return error_set(err, SL_ERR_ENV, "the %s %.*s is not supported", where, STR_ARG(type));
}

enum status component_copy(struct arena *arena, struct str text, struct str *out,
                           struct error *err) {
    char *copy = arena_take(arena, text.len + 1);
    if (!copy)
        return error_memory(err, text.len + 1, "a tokenizer");
    memcpy(copy, text.data ? text.data : "", text.len);
    *out = (struct str){copy, text.len};
    return SL_OK;
}
