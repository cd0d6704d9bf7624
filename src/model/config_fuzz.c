/* Feeds the two readers of configs: text that begins with '{' as config.json, and after a NUL byte
 * as generation_config.json; anything else as GGUF metadata, lines of `key=value` whose value
 * begins with its kind: i (integer), r (real), b (bool: 1 is true), s (text), or I, R, S for lists
 * of these with commas between. Any answer will do; a crash, a leak or a config outside the limits
 * of config.h will not. */
#include "model/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(enum status status, struct config *config, const struct arch *arch,
                  const struct error *err) {
    if (status != SL_OK) {
        must(strlen(err->text) > 0);
        return;
    }
    must(config->family == arch->name);
    must(config->layers >= 1 && config->layers <= SL_LAYERS_MAX);
    must(config->hidden >= 1 && config->hidden <= SL_FEATURES_MAX);
    must((uint64_t)config->heads * config->head_dim <= SL_FEATURES_MAX);
    must(config->kv_heads >= 1 && config->heads % config->kv_heads == 0);
    must(config->context >= 1 && config->context <= SL_CONTEXT_MAX);
    must(config->mixture.used <= config->mixture.count);
    config_release(config);
}

static void read_json(struct str text) {
    const char *nul = memchr(text.data, '\0', text.len);
    size_t len = nul == NULL ? text.len : (size_t)(nul - text.data);
    const struct json *tree = NULL, *generation = NULL;
    const struct json_options options = {0};
    const struct arch *arch = NULL;
    struct config config = {0};
    struct error err = {0};
    struct arena arena;
    arena_init(&arena);
    if (nul != NULL && json_parse(&arena, (struct str){nul + 1, text.len - len - 1}, &options,
                                  &generation, &err) != SL_OK)
        generation = NULL;
    if (json_parse(&arena, (struct str){text.data, len}, &options, &tree, &err) == SL_OK) {
        err = (struct error){0};
        enum status status =
            config_from_json(tree, generation, "config.json", &config, &arch, &err);
        check(status, &config, arch, &err);
    }
    arena_release(&arena);
}

/* A piece of text as a number; what cannot be read is 0, as is nothing. */
static double real_of(struct str text) {
    char copy[64] = {0};
    memcpy(copy, text.data, text.len < sizeof copy - 1 ? text.len : sizeof copy - 1);
    return strtod(copy, NULL);
}

static int64_t integer_of(struct str text) {
    char copy[32] = {0};
    memcpy(copy, text.data, text.len < sizeof copy - 1 ? text.len : sizeof copy - 1);
    return strtoll(copy, NULL, 10);
}

/* The text before the next mark, and *rest without both. */
static struct str cut(struct str *rest, char mark) {
    const char *end = rest->len == 0 ? NULL : memchr(rest->data, mark, rest->len);
    struct str piece = {rest->data, end == NULL ? rest->len : (size_t)(end - rest->data)};
    size_t gone = piece.len + (end != NULL);
    *rest = (struct str){rest->data + gone, rest->len - gone};
    return piece;
}

static bool read_list(struct meta *meta, char kind, struct str text, struct meta_value *out) {
    size_t count = 0;
    int64_t *integers = arena_take(&meta->arena, LIST_MAX * sizeof *integers);
    double *reals = arena_take(&meta->arena, LIST_MAX * sizeof *reals);
    struct str *texts = arena_take(&meta->arena, LIST_MAX * sizeof *texts);
    if (integers == NULL || reals == NULL || texts == NULL)
        return false;
    for (; text.len > 0 && count < LIST_MAX; count++) {
        texts[count] = cut(&text, ',');
        integers[count] = integer_of(texts[count]);
        reals[count] = real_of(texts[count]);
    }
    *out = (struct meta_value){.kind = META_ARRAY};
    out->array.count = count;
    out->item_kind = kind == 'I' ? META_INTEGER : kind == 'R' ? META_REAL : META_STRING;
    if (kind == 'I')
        out->array.integers = integers;
    else if (kind == 'R')
        out->array.reals = reals;
    else
        out->array.texts = texts;
    return true;
}

static bool read_value(struct meta *meta, struct str text, struct meta_value *out) {
    if (text.len == 0)
        return false;
    char kind = text.data[0];
    text = (struct str){text.data + 1, text.len - 1};
    *out = (struct meta_value){.kind = META_INTEGER};
    if (kind == 'I' || kind == 'R' || kind == 'S')
        return read_list(meta, kind, text, out);
    if (kind == 'i')
        out->integer = integer_of(text);
    else if (kind == 'r')
        *out = (struct meta_value){.kind = META_REAL, .real = real_of(text)};
    else if (kind == 'b')
        *out = (struct meta_value){.kind = META_BOOL, .truth = str_equal(text, STR("1"))};
    else
        *out = (struct meta_value){.kind = META_STRING, .text = text};
    return true;
}

static void read_meta(struct str text) {
    const struct arch *arch = NULL;
    struct config config = {0};
    struct error err = {0};
    struct meta meta;
    meta_init(&meta);
    for (size_t lines = 0; text.len > 0 && lines < 256; lines++) {
        struct meta_value value;
        struct str line = cut(&text, '\n'), key = cut(&line, '=');
        if (read_value(&meta, line, &value))
            (void)!meta_add(&meta, key, &value, &err);
    }
    err = (struct error){0};
    enum status status = config_from_meta(&meta, "m.gguf", &config, &arch, &err);
    check(status, &config, arch, &err);
    meta_release(&meta);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct str text = {size > 0 ? (const char *)data : "", size};
    if (size > 0 && data[0] == '{')
        read_json(text);
    else
        read_meta(text);
    return 0;
}
