/* Helpers of the template interpreter's tests: a source with variables given as JSON, rendered and
 * compared. Expected texts come from jinja2 3.1.6 in the environment that Hugging Face sets up. */
#ifndef SLUICE_TEXT_TEMPLATE_FOR_TEST_H
#define SLUICE_TEXT_TEMPLATE_FOR_TEST_H

#include "text/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What a template gives; text NULL: an error of which `error` is a part. */
struct expectation {
    const char *source, *text, *error;
};

#define GIVES(source, text)                                                                        \
    { source, text, NULL }
#define FAILS(source, error)                                                                       \
    { source, NULL, error }

/* Renders source with the members of an object as variables. */
static inline enum status render_tree(struct str source, const struct json *variables,
                                      struct buf *out, struct error *err) {
    struct template *template = NULL;
    struct template_variable items[32];
    struct template_input input = {.variables = items, .now = 1741529107, .is_utc = true};
    for (; input.count < variables->count && input.count < 32; input.count++)
        items[input.count] = (struct template_variable){variables->members[input.count].name,
                                                        &variables->members[input.count].value};
    enum status status = template_parse(source, "T", &template, err);
    if (status == SL_OK)
        status = template_render(template, &input, out, err);
    template_free(template);
    return status;
}

static inline enum status render_text(struct str source, const char *variables, struct buf *out,
                                      struct error *err) {
    struct arena arena;
    const struct json *json = NULL;
    arena_init(&arena);
    assert_int_equal(json_parse(&arena, str_from(variables), NULL, &json, err), SL_OK);
    enum status status = render_tree(source, json, out, err);
    arena_release(&arena);
    return status;
}

static inline void check_one(const struct expectation *expectation, const char *variables) {
    struct buf out;
    struct error err = {0};
    buf_init(&out);
    enum status status = render_text(str_from(expectation->source), variables, &out, &err);
    bool agrees = expectation->text != NULL
                      ? status == SL_OK && str_is(buf_str(&out), expectation->text)
                      : status != SL_OK && strstr(err.text, expectation->error) != NULL;
    if (!agrees)
        fail_msg("%s\n  gives '%s'\n  wanted '%s'", expectation->source,
                 status == SL_OK ? (out.data ? out.data : "") : err.text,
                 expectation->text != NULL ? expectation->text : expectation->error);
    buf_release(&out);
}

static inline void check_table(const struct expectation *table, size_t count,
                               const char *variables) {
    for (size_t i = 0; i < count; i++)
        check_one(&table[i], variables);
}

#define CHECK_TABLE(table, variables)                                                              \
    check_table(table, sizeof(table) / sizeof((table)[0]), variables)

#endif
