/* Chat templates: a Jinja interpreter with the environment that Hugging Face gives them.
 *
 *   source -> lexer -> parser -> tree (constant) ; tree + variables -> evaluator -> text
 *
 * trim_blocks, lstrip_blocks, loop controls, raise_exception, strftime_now, tojson as json.dumps
 * with ensure_ascii false. What is not supported is an error that names the construct and its line,
 * never another template. Evaluation is bounded: steps, depth of macros and expressions, bytes of
 * output. Sees bytes only.
 *
 * A template is constant once parsed; any number of threads render at once. */
#ifndef SLUICE_TEXT_TEMPLATE_H
#define SLUICE_TEXT_TEMPLATE_H

#include "base/json.h"

#define SL_TEMPLATE_SOURCE_MAX ((size_t)1 << 20)
#define SL_TEMPLATE_OUTPUT_MAX ((size_t)64 << 20)
#define SL_TEMPLATE_STEPS_MAX ((uint64_t)50000000)
#define SL_TEMPLATE_DEPTH_MAX 128u

struct template;

/* name is for messages. SL_ERR_ENV, naming the line and the construct. source may go away after the
 * call. */
enum status template_parse(struct str source, const char *name, struct template **out,
                           struct error *err);
void template_free(struct template *template); /* accepts NULL */

struct template_variable {
    struct str name;
    const struct json *value; /* borrowed; NULL stands for none */
};

struct template_input {
    const struct template_variable
        *variables; /* messages, tools, documents, add_generation_prompt, bos_token, ...;
                       a later one of the same name wins */
    size_t count;
    int64_t
        now; /* seconds since 1970: the clock of strftime_now; in UTC if is_utc, else local time */
    bool is_utc;
};

/* Appends the rendering. SL_ERR_ROW: raise_exception with its own words, an undefined value used, a
 * limit. */
enum status template_render(const struct template *template, const struct template_input *input,
                            struct buf *out, struct error *err);
/* Whether the source looks at `message.content is string` or iterates over content, so that content
 * given as a list of parts is passed on as it is; else parts of text are joined before rendering
 * (CASES 14). */
bool template_takes_parts(const struct template *template);

#endif
