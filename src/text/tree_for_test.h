/* For tests of conversations: an arena, an output and an error of each case, and trees from JSON.
 */
#ifndef SLUICE_TEXT_TREE_FOR_TEST_H
#define SLUICE_TEXT_TREE_FOR_TEST_H

#include "base/json.h"

static struct arena arena;
static struct buf out;
static struct error err;

static inline int begin(void **state) {
    (void)state;
    arena_init(&arena);
    buf_init(&out);
    err = (struct error){0};
    return 0;
}

static inline int end(void **state) {
    (void)state;
    arena_release(&arena);
    buf_release(&out);
    return 0;
}

static inline const struct json *tree(const char *text) {
    const struct json *json = NULL;
    if (json_parse(&arena, str_from(text), NULL, &json, &err) != SL_OK)
        fail_msg("%s", err.text);
    return json;
}

#endif
