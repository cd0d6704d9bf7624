/* Conversations to prompt text: messages prepared as transformers 5.24 does (null members left out,
 * reasoning aliases filled under `thinking` and `reasoning_content`, an empty conversation
 * refused), then the template. Sees JSON trees and bytes only. Any thread. */
#ifndef SLUICE_TEXT_CHAT_H
#define SLUICE_TEXT_CHAT_H

#include "text/template.h"

/* Special tokens as tokenizer_config.json names them: "bos_token" and its text, any number of them.
 */
struct chat_tokens {
    const struct template_variable *items;
    size_t count;
};

struct chat_request {
    const struct json *messages; /* an array of objects; anything else is SL_ERR_ROW */
    const struct json *tools;    /* NULL or null: none; [] reaches the template as an empty list */
    const struct json *kwargs;   /* chat_template_kwargs: an object or NULL */
    struct str system; /* --system: put first when no message has the role system; empty: none */
    bool adds_generation_prompt;
    bool continues_final_message; /* ends after the last message's (trimmed) content; both set is
                                     SL_ERR_ROW */
    int64_t now;
    bool is_utc;
};

/* Appends the prompt; *out is as before when it fails.
 *
 * images_are_errors (`run`): content given as parts may hold text alone, an image or other part is
 * SL_ERR_ROW, and the parts are joined when the template does not go through them itself. Else
 * (`render`) the template gets them as they are, as in Hugging Face, and shows what it makes of
 * them.
 */
enum status chat_render(const struct template *template, const struct chat_tokens *tokens,
                        const struct chat_request *request, bool images_are_errors, struct buf *out,
                        struct error *err);

/* Which of several templates (CASES 07). config: tokenizer_config.json's chat_template: a string,
 * or a list of
 * {"name","template"}. file: chat_template.jinja's text (wins), data NULL when absent. has_tools:
 * prefers "tool_use". Gives an empty source when there is none; SL_ERR_ENV when a list has no
 * "default", naming what there is. */
enum status chat_pick_template(const struct json *config, struct str file, bool has_tools,
                               struct str *source, struct error *err);

#endif
