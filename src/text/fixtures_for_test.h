/* Reading the shared fixtures in tests: files of JSON or JSON lines, packed or not, in the folder
 * fixtures/ under the one that SLUICE_SHARED names. Used by *_test.c alone. */
#ifndef SLUICE_TEXT_FIXTURES_FOR_TEST_H
#define SLUICE_TEXT_FIXTURES_FOR_TEST_H

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct buf text;
    struct arena arena;
    const struct json *json;   /* fixture_open: the whole */
    const struct json **lines; /* fixture_open_lines: each line */
    size_t line_count;
};

/* False when SLUICE_SHARED is not set; fails the test when the file cannot be read. */
static inline bool fixture_read(struct fixture *fixture, const char *path) {
    const char *shared = getenv("SLUICE_SHARED");
    char command[1200], block[65536];
    size_t count, len = strlen(path);
    *fixture = (struct fixture){0};
    buf_init(&fixture->text);
    arena_init(&fixture->arena);
    if (!shared)
        return false;
    const char *reader = len > 3 && strcmp(path + len - 3, ".gz") == 0 ? "zcat" : "cat";
    snprintf(command, sizeof command, "%s '%s/fixtures/%s'", reader, shared, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while ((count = fread(block, 1, sizeof block, pipe)) > 0)
        buf_add(&fixture->text, (struct str){block, count});
    assert_int_equal(pclose(pipe), 0);
    assert_false(fixture->text.has_failed);
    return true;
}

static inline bool fixture_open(struct fixture *fixture, const char *path) {
    struct json_options options = {0};
    if (!fixture_read(fixture, path))
        return false;
    assert_int_equal(
        json_parse(&fixture->arena, buf_str(&fixture->text), &options, &fixture->json, NULL),
        SL_OK);
    return true;
}

static inline bool fixture_open_lines(struct fixture *fixture, const char *path) {
    struct json_options options = {0};
    if (!fixture_read(fixture, path))
        return false;
    struct str text = buf_str(&fixture->text);
    size_t cap = 0;
    for (size_t at = 0; at < text.len;) {
        size_t end = str_find(text, STR("\n"), at);
        end = end == SIZE_MAX ? text.len : end;
        assert_true(mem_grow((void **)&fixture->lines, &cap, fixture->line_count + 1,
                             sizeof *fixture->lines));
        assert_int_equal(json_parse(&fixture->arena, str_cut(text, at, end), &options,
                                    &fixture->lines[fixture->line_count++], NULL),
                         SL_OK);
        at = end + 1;
    }
    assert_true(fixture->line_count > 0);
    return true;
}

static inline void fixture_close(struct fixture *fixture) {
    mem_free(fixture->lines);
    arena_release(&fixture->arena);
    buf_release(&fixture->text);
}

#endif
