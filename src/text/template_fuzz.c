/* Fuzz target: a template and the variables it is rendered with, hostile both. The input is the
 * source, a NUL byte, and a JSON object; without a NUL, or when what follows is no object, the
 * variables are a small conversation. A rendering must be the same twice, be UTF-8, and leave the
 * output as it was when it fails. */
#include "text/chat.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{"
                                   "\"role\":\"user\",\"content\":\"h\\u00e9 "
                                   "<b>\"},{\"role\":\"assistant\",\"content\":null,\"reasoning\":"
                                   "\"r\",\"tool_calls\":[{\"function\":"
                                   "{\"name\":\"f\",\"arguments\":{\"a\":1.5,\"b\":[true,null]}}}]}"
                                   ",{\"role\":\"tool\",\"content\":"
                                   "[{\"type\":\"text\",\"text\":\"x\"}]}],\"tools\":[{\"type\":"
                                   "\"function\"}],\"n\":3,\"s\":\"a,b c\","
                                   "\"big\":123456789012345678901}";

static enum status render(const struct template *template, const struct json *variables,
                          struct buf *out, struct error *err) {
    struct chat_request request = {.messages = json_get(variables, "messages"),
                                   .tools = json_get(variables, "tools"),
                                   .is_utc = true};
    struct template_variable items[16];
    struct template_input input = {.variables = items, .is_utc = true};
    for (; input.count < variables->count && input.count < 16; input.count++)
        items[input.count] = (struct template_variable){variables->members[input.count].name,
                                                        &variables->members[input.count].value};
    enum status status = template_render(template, &input, out, err);
    if (status == SL_OK && out->len % 2 == 0) /* the other way in, now and then */
        return chat_render(template, NULL, &request, true, out, err);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct str all = {(const char *)data, size}, source = all;
    const struct json *variables = NULL;
    struct template *template = NULL;
    struct arena arena;
    struct error err = {0};
    struct buf once, twice;
    arena_init(&arena);
    buf_init(&once);
    buf_init(&twice);
    const char *nul = size > 0 ? memchr(data, 0, size) : NULL;
    if (nul != NULL) {
        source.len = (size_t)(nul - all.data);
        json_parse(&arena, str_cut(all, source.len + 1, size), NULL, &variables, NULL);
    }
    if (!json_is(variables, JSON_OBJECT))
        must(json_parse(&arena, str_from(conversation), NULL, &variables, NULL) == SL_OK);
    enum status status = template_parse(source, "fuzz", &template, &err);
    must(status == SL_OK || (status == SL_ERR_ENV && strlen(err.text) > 0));
    if (status == SL_OK) {
        buf_add(&once, STR("before"));
        buf_add(&twice, STR("before"));
        status = render(template, variables, &once, &err);
        must(status == SL_OK || status == SL_ERR_ROW);
        must(render(template, variables, &twice, &err) == status);
        if (status == SL_OK)
            must(str_equal(buf_str(&once), buf_str(&twice)));
        else
            must(strlen(err.text) < sizeof err.text);
        must(utf8_valid_len(buf_str(&once)) == once.len);
        must(str_starts(buf_str(&once), STR("before")));
    }
    template_free(template);
    buf_release(&once);
    buf_release(&twice);
    arena_release(&arena);
    return 0;
}
