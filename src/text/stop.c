/* Owns the search for stop texts in what a row has said so far. Looks at new bytes and as many
 * before them as the longest stop text could begin in, so that a row costs what its text is long.
 */
#include "text/stop.h"

#include "text/tokenizer_parts.h"

void stop_init(struct stop *stop, const struct tokenizer *tokenizer, const struct str *texts,
               size_t count, bool skips_special) {
    *stop = (struct stop){.tokenizer = tokenizer,
                          .texts = texts,
                          .count = count,
                          .cut = SIZE_MAX,
                          .skips_special = skips_special};
    buf_init(&stop->bytes);
}

void stop_release(struct stop *stop) {
    buf_release(&stop->bytes);
}

bool stop_push(struct stop *stop, uint32_t id) {
    size_t before = stop->bytes.len;
    if (stop->skips_special && tokenizer_is_special(stop->tokenizer, id))
        return false;
    if (!tokenizer_token(stop->tokenizer, id).data)
        return false;
    tokenizer_running_bytes(stop->tokenizer, id, !stop->has_begun, &stop->bytes);
    stop->has_begun = true;
    struct str text = buf_str(&stop->bytes);
    for (size_t i = 0; i < stop->count; i++) {
        struct str wanted = stop->texts[i];
        if (wanted.len == 0)
            continue;
        size_t from = before >= wanted.len ? before - wanted.len + 1 : 0;
        size_t found = str_find(text, wanted, from);
        if (found < stop->cut)
            stop->cut = found;
    }
    return stop->cut != SIZE_MAX;
}
