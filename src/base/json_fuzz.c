/* Fuzz target: any bytes as JSON, with each option; what is read, written and read again must be
 * the same. */
#include "base/json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads text and writes it; true when it was JSON. */
static bool rewrite(struct str text, const struct json_options *options, bool has_spaces,
                    struct buf *out) {
    struct arena arena;
    struct error err;
    const struct json *json = NULL;
    arena_init(&arena);
    bool is_json = json_parse(&arena, text, options, &json, &err) == SL_OK;
    if (is_json) {
        json_add(out, json, has_spaces);
        for (uint32_t i = 0; json->kind == JSON_OBJECT && i < json->count; i++)
            must(json_get_str(json, json->members[i].name));
        double number;
        int64_t i64;
        uint64_t u64;
        if (json_i64(json, &i64) || json_u64(json, &u64))
            must(json_is_integer(json));
        must(json_double(json, &number) == json_is(json, JSON_NUMBER));
    } else {
        must(strlen(err.text) > 0);
        must(utf8_valid_len(str_from(err.text)) == strlen(err.text));
    }
    arena_release(&arena);
    return is_json;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct str text = {(const char *)data, size};
    uint32_t lone = 0;
    struct json_options strict = {
        .depth_max = 8, .refuses_duplicates = true, .lone_surrogates = &lone};
    struct buf once, twice, other;
    buf_init(&once);
    buf_init(&twice);
    buf_init(&other);
    if (rewrite(text, NULL, false, &once)) {
        must(rewrite(buf_str(&once), NULL, false, &twice));
        must(str_equal(buf_str(&once), buf_str(&twice)));
        buf_clear(&twice);
        must(rewrite(text, NULL, true, &twice));
        must(rewrite(buf_str(&twice), NULL, false, &other));
        must(str_equal(buf_str(&once), buf_str(&other)));
    } else {
        must(!rewrite(text, &strict, false, &other));
    }
    buf_clear(&other);
    rewrite(text, &strict, true, &other);
    buf_release(&once);
    buf_release(&twice);
    buf_release(&other);
    return 0;
}
