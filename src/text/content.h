/* Prompts in which special tokens that stand inside messages' content count as plain text
 * (--content-specials text). Any thread. */
#ifndef SLUICE_TEXT_CONTENT_H
#define SLUICE_TEXT_CONTENT_H

#include "text/chat.h"
#include "text/tokenizer.h"

/* Places in a rendered text, for encode_options: each is the offset of a character that comes from
 * content and with which a special token could begin. */
struct content_places {
    size_t *items; /* rising */
    size_t count, cap;
};
void content_places_release(struct content_places *places);

/* Whether some message's content has a special token's text in it; texts of one message, such as
 * its parts, count as one. What is no conversation holds none. */
enum status content_holds_specials(const struct tokenizer *tokenizer, const struct json *messages,
                                   bool *out, struct error *err);

struct content_template {
    const struct template *template;
    const struct chat_tokens *tokens;
    const struct tokenizer *tokenizer;
};
/* As chat_render into an empty buffer, and the very same text; places gets where content stands in
 * it. SL_ERR_ROW too when the template treats special tokens in content in a way of its own, so
 * that where they went cannot be told. */
enum status content_render(const struct content_template *template,
                           const struct chat_request *request, bool images_are_errors,
                           struct buf *out, struct content_places *places, struct error *err);

#endif
