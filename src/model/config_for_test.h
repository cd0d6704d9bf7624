/* For tests of configs: a config.json made of sizes that the test defines as SIZES before it
 * includes this, and of what a case adds to them. */
#ifndef SLUICE_MODEL_CONFIG_FOR_TEST_H
#define SLUICE_MODEL_CONFIG_FOR_TEST_H

#include "model/arch.h"

#include <stdio.h>
#include <string.h>

static inline enum status read_json(const char *type, const char *more, struct config *out,
                                    struct error *err) {
    char text[2048];
    const struct json *tree = NULL;
    const struct arch *arch = NULL;
    struct json_options options = {0};
    struct arena arena;
    arena_init(&arena);
    snprintf(text, sizeof text, "{\"model_type\":\"%s\"," SIZES "%s}", type, more);
    assert_int_equal(json_parse(&arena, str_from(text), &options, &tree, err), SL_OK);
    enum status status = config_from_json(tree, NULL, "config.json", out, &arch, err);
    arena_release(&arena);
    return status;
}

static inline struct config read_good(const char *type, const char *more) {
    struct config config = {0};
    struct error err = {0};
    if (read_json(type, more, &config, &err) != SL_OK)
        fail_msg("%s %s: %s", type, more, err.text);
    return config;
}

static inline void refuses(const char *type, const char *more, const char *word) {
    struct config config = {0};
    struct error err = {0};
    if (read_json(type, more, &config, &err) != SL_ERR_ENV)
        fail_msg("%s with %s is not refused", type, more);
    if (strstr(err.text, word) == NULL || strstr(err.text, "config.json: ") != err.text)
        fail_msg("\"%s\" does not name %s", err.text, word);
}

#endif
