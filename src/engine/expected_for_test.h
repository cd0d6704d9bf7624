/* The independent answers of the fixtures (expected.json), for tests of the engine alone. */
#ifndef SLUICE_ENGINE_EXPECTED_FOR_TEST_H
#define SLUICE_ENGINE_EXPECTED_FOR_TEST_H

#include "base/json.h"
#include "io/file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define PROMPTS_MAX 16

#define MUST_OK(call)                                                                              \
    do {                                                                                           \
        struct error err = {0};                                                                    \
        if (call != SL_OK)                                                                         \
            fail_msg("%s", err.text);                                                              \
    } while (0)

struct expected {
    struct buf text;
    struct arena arena;
    const struct json *prompts;
};

/* The text is there; the arena of an earlier one is gone. */
static inline void expected_parse(struct expected *expected) {
    const struct json *tree = NULL;
    arena_init(&expected->arena);
    MUST_OK(json_parse(&expected->arena, buf_str(&expected->text), &(struct json_options){0}, &tree,
                       &err));
    expected->prompts = json_get(tree, "prompts");
    assert_non_null(expected->prompts);
    assert_in_range(expected->prompts->count, 1, PROMPTS_MAX);
}

static inline void expected_read(struct expected *expected, const char *path) {
    buf_init(&expected->text);
    MUST_OK(file_read_all(path, (size_t)64 << 20, &expected->text, &err));
    expected_parse(expected);
}

static inline void expected_release(struct expected *expected) {
    arena_release(&expected->arena);
    buf_release(&expected->text);
}

static inline double number(const struct json *list, size_t i) {
    double value = 0;
    assert_true(i < list->count);
    assert_true(json_double(&list->items[i], &value));
    return value;
}

static inline size_t prompt_ids(const struct json *prompt, uint32_t *ids, size_t cap) {
    const struct json *list = json_get(prompt, "ids");
    assert_non_null(list);
    assert_true(list->count <= cap);
    for (size_t i = 0; i < list->count; i++)
        ids[i] = (uint32_t)number(list, i);
    return list->count;
}

static inline double deviation(const struct json *list) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < list->count; i++)
        sum += number(list, i);
    double mean = sum / list->count;
    for (size_t i = 0; i < list->count; i++)
        squares += (number(list, i) - mean) * (number(list, i) - mean);
    return sqrt(squares / list->count);
}

#endif
