/* Fuzz target: a template and a conversation, hostile both, prepared as a row is. The input is a
 * byte of flags, the template's source, a NUL byte, and a JSON object {"messages", "tools",
 * "chat_template_kwargs", "system"}. A rendering must be UTF-8 and leave nothing when it fails;
 * with special tokens in content as plain text it must be the same text, with places inside it. */
#include "text/content.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tokenizer_text[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
    "{\"id\":5,\"content\":\"[e]\",\"special\":true,\"normalized\":true},"
    "{\"id\":6,\"content\":\"<t>\",\"special\":false,\"normalized\":false}],"
    "\"normalizer\":{\"type\":\"Lowercase\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<\":1,\"s\":2,\">\":3},\"merges\":[]}}";

static const struct tokenizer *get_tokenizer(void) {
    static struct tokenizer *tokenizer;
    if (tokenizer == NULL)
        must(tokenizer_from_json(str_from(tokenizer_text), "fuzz", &tokenizer, NULL) == SL_OK);
    return tokenizer;
}

static void check_content(const struct content_template *whole, const struct chat_request *request,
                          bool is_run, struct str text) {
    struct content_places places = {0};
    struct ids ids = {0};
    struct error err = {0};
    struct buf again;
    bool holds;
    buf_init(&again);
    enum status status = content_render(whole, request, is_run, &again, &places, &err);
    must(status == SL_OK || (status == SL_ERR_ROW && err.text[0] != '\0' && places.count == 0));
    if (status == SL_OK) {
        must(str_equal(buf_str(&again), text));
        for (size_t i = 0; i < places.count; i++)
            must(places.items[i] < text.len && (i == 0 || places.items[i - 1] < places.items[i]));
        struct encode_options options = {.plain = places.items, .plain_count = places.count};
        status = tokenizer_encode(whole->tokenizer, text, &options, &ids, &err);
        must(status == SL_OK || status == SL_ERR_ROW);
    }
    must(content_holds_specials(whole->tokenizer, request->messages, &holds, NULL) == SL_OK);
    ids_release(&ids);
    content_places_release(&places);
    buf_release(&again);
}

static void run(unsigned flags, const struct template *template, const struct json *row) {
    const struct json token = {.kind = JSON_STRING, .text = STR("<s>")};
    const struct template_variable variable = {STR("bos_token"), &token};
    const struct chat_tokens tokens = {&variable, 1};
    struct chat_request request = {.messages = json_get(row, "messages"),
                                   .tools = json_get(row, "tools"),
                                   .kwargs = json_get(row, "chat_template_kwargs"),
                                   .adds_generation_prompt = flags & 1,
                                   .continues_final_message = flags & 2,
                                   .now = 1741529107,
                                   .is_utc = true};
    const struct content_template whole = {template, &tokens, get_tokenizer()};
    struct error err = {0};
    struct buf out;
    buf_init(&out);
    json_string(json_get(row, "system"), &request.system);
    enum status status = chat_render(template, &tokens, &request, flags & 4, &out, &err);
    must(status == SL_OK || (status == SL_ERR_ROW && strlen(err.text) < sizeof err.text));
    must(status == SL_OK || out.len == 0);
    must(utf8_valid_len(buf_str(&out)) == out.len);
    if (status == SL_OK)
        check_content(&whole, &request, flags & 4, buf_str(&out));
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct str input = {(const char *)data, size};
    struct template *template = NULL;
    const struct json *row = NULL;
    struct arena arena;
    struct error err = {0};
    if (size == 0)
        return 0;
    size_t end = str_find(input, STR("\0"), 1);
    if (end == SIZE_MAX)
        return 0;
    arena_init(&arena);
    enum status status =
        json_parse(&arena, str_cut(input, end + 1, size), NULL, &row, NULL) == SL_OK
            ? template_parse(str_cut(input, 1, end), "fuzz", &template, &err)
            : SL_ERR_ENV;
    if (status == SL_OK)
        run(data[0], template, row);
    template_free(template);
    arena_release(&arena);
    return 0;
}
