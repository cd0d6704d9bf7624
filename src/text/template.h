/* Chat templates: a Jinja interpreter with the environment that Hugging Face gives them.
 *
 *   source -> lexer -> parser -> tree (constant) ; tree + variables -> evaluator -> text
 *
 * trim_blocks, lstrip_blocks, loop controls, generation blocks, raise_exception, strftime_now,
 * tojson as json.dumps with ensure_ascii false, and a sandbox in which lists and dicts cannot be
 * changed. Values are Python's: their printed form, text counted in code points, errors where
 * Python has them; but integers that a template computes stay within 64 bits, and what would print
 * a memory address (a generator, a method) is an error. What is not supported is an error that
 * names the construct and its line, never another template. Sees bytes only.
 *
 * Evaluation is bounded in time and memory whatever the template and its input: by steps (bulk work
 * counts by its bytes; the worst case takes a second or two), by the depth of macros, expressions
 * and values, by the bytes of values and of output. Running into a limit is SL_ERR_ROW.
 *
 * A template is constant once parsed; any number of threads render at once. */
#ifndef SLUICE_TEXT_TEMPLATE_H
#define SLUICE_TEXT_TEMPLATE_H

#include "base/json.h"

#define SL_TEMPLATE_SOURCE_MAX ((size_t)1 << 20)
#define SL_TEMPLATE_OUTPUT_MAX ((size_t)64 << 20)
#define SL_TEMPLATE_MEMORY_MAX ((size_t)256 << 20) /* values of one rendering */
#define SL_TEMPLATE_STEPS_MAX ((uint64_t)50000000)
#define SL_TEMPLATE_DEPTH_MAX 128u /* of nested source, and of macro calls */

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

/* Appends the rendering; *out is as before when it fails. SL_ERR_ROW: raise_exception with its own
 * words alone (line feeds kept, cut to what err holds), all else with the template's name and line:
 * an undefined value used, an unknown filter, a limit. */
enum status template_render(const struct template *template, const struct template_input *input,
                            struct buf *out, struct error *err);
/* Whether the source looks at `message.content is string` or iterates over content, so that content
 * given as a list of parts is passed on as it is; else parts of text are joined before rendering
 * (CASES 14). */
bool template_takes_parts(const struct template *template);

#endif
