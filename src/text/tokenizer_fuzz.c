/* Feeds a tokenizer.json (up to the first NUL) and a text (the rest) to the loader, the encoder and
 * the decoder. Any answer will do; a crash, a leak, an id outside the vocabulary or a decoded text
 * that is not UTF-8 will not. */
#include "text/stop.h"
#include "text/tokenizer.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const struct tokenizer *tokenizer, const struct ids *ids) {
    struct buf text;
    struct stop stop;
    struct error err = {0};
    const struct str wanted[] = {STR("ab"), STR("\xff")};
    buf_init(&text);
    enum status status =
        tokenizer_decode(tokenizer, ids->items, ids->count, ids->count % 2, &text, &err);
    must(status == SL_OK || (status == SL_ERR_ROW && err.text[0] != '\0'));
    must(utf8_valid_len(buf_str(&text)) == text.len);
    stop_init(&stop, tokenizer, wanted, 2, ids->count % 2);
    for (size_t i = 0; i < ids->count && !stop_push(&stop, ids->items[i]); i++)
        must(stop.cut == SIZE_MAX);
    must(stop.cut == SIZE_MAX || stop.cut < stop.bytes.len);
    stop_release(&stop);
    buf_release(&text);
}

static void run(const struct tokenizer *tokenizer, struct str text) {
    size_t size = tokenizer_vocab_size(tokenizer);
    for (unsigned mode = 0; mode < 4; mode++) {
        struct encode_options options = {.adds_special = mode & 1, .specials_as_text = mode & 2};
        struct ids ids = {0};
        struct error err = {0};
        enum status status = tokenizer_encode(tokenizer, text, &options, &ids, &err);
        must(status == SL_OK || (status == SL_ERR_ROW && err.text[0] != '\0'));
        must(status == SL_OK || ids.count == 0);
        for (size_t i = 0; i < ids.count && mode != 1 && mode != 3; i++)
            must(ids.items[i] < size); /* what a post-processor adds is the file's own affair */
        decode(tokenizer, &ids);
        ids_release(&ids);
    }
    struct ids ids = {0};
    for (size_t i = 0; i < text.len && i < 200; i++)
        must(ids_add(&ids, (unsigned char)text.data[i]));
    decode(tokenizer, &ids);
    ids_release(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct str input = {(const char *)data, size};
    size_t end = str_find(input, STR("\0"), 0);
    struct str json = str_cut(input, 0, end);
    struct str text = end == SIZE_MAX ? STR("") : str_cut(input, end + 1, size);
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    enum status status = tokenizer_from_json(json, "fuzz", &tokenizer, &err);
    must(status == SL_OK || (status == SL_ERR_ENV && !tokenizer && err.text[0] != '\0'));
    if (status == SL_OK)
        run(tokenizer, text);
    tokenizer_free(tokenizer);
    return 0;
}
