/* Conversations to prompt text. Prepares messages as transformers 5.24 does before its Jinja
 * environment sees them (facts from its chat_template_utils: null members left out, reasoning under
 * `reasoning_content`, `thinking` or `reasoning` copied to the first two names, the final message
 * marked by a tag when it is to be continued) and renders the template. Refuses what is no
 * conversation. */
#include "text/chat.h"

#include "base/map.h"

#include <string.h>

/* Put after the final message's text, found again in the rendering: what follows it is cut. */
static const char continue_tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";

#define VARIABLES_MAX 4096u /* special tokens and chat_template_kwargs together */

struct work {
    struct arena arena; /* the prepared messages */
    const struct template *template;
    const struct chat_request *request;
    bool images_are_errors;
    struct error *err;
};

static enum status fail(struct work *work, const char *what) {
    return error_set(work->err, SL_ERR_ROW, "%s", what);
}

static enum status take(struct work *work, size_t count, size_t size, void **out) {
    *out = arena_array(&work->arena, count > 0 ? count : 1, size);
    return *out != NULL ? SL_OK : error_memory(work->err, count * size, "a conversation");
}

/* The members of a message that count: of a name that stands twice the last value, at the place of
 * the first; none that is null. `out` has room for all of them and two more. */
static enum status copy_members(struct work *work, const struct json *message,
                                struct json_member *out, uint32_t *count) {
    struct map places;
    enum status status = SL_OK;
    uint32_t kept = 0;
    map_init(&places);
    for (uint32_t i = 0; i < message->count && status == SL_OK; i++) {
        const struct json_member *member = &message->members[i];
        uint32_t place;
        if (map_get(&places, member->name, &place)) {
            out[place].value = member->value;
            continue;
        }
        bool was_there;
        out[kept] = *member;
        if (!map_put(&places, member->name, kept++, &place, &was_there))
            status = error_memory(work->err, message->count, "a message");
    }
    map_release(&places);
    *count = 0;
    for (uint32_t i = 0; i < kept; i++)
        if (out[i].value.kind != JSON_NULL)
            out[(*count)++] = out[i];
    return status;
}

static uint32_t member_index(const struct json *object, const char *name) {
    uint32_t index = 0;
    while (index < object->count && !str_is(object->members[index].name, name))
        index++;
    return index;
}

static struct json *find_member(const struct json *object, const char *name) {
    uint32_t index = member_index(object, name);
    return index < object->count ? &object->members[index].value : NULL;
}

/* The reasoning of a message under both names that templates read, as Python's {"thinking": r,
 * **message, "reasoning_content": r} has it: `thinking` in front (with its own value if there is
 * one), `reasoning_content` in its place or last. r is the first of the three names that is there.
 */
static void alias_reasoning(struct json *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const struct json *found = NULL;
    for (size_t i = 0; i < 3 && found == NULL; i++)
        found = find_member(message, names[i]);
    if (found == NULL)
        return;
    struct json reasoning = *found;
    struct json_member thinking = {STR("thinking"), reasoning};
    uint32_t place = member_index(message, "thinking");
    if (place < message->count)
        thinking = message->members[place];
    else
        message->count++;
    memmove(message->members + 1, message->members, place * sizeof *message->members);
    message->members[0] = thinking;
    struct json *content = find_member(message, "reasoning_content");
    if (content != NULL)
        *content = reasoning;
    else
        message->members[message->count++] =
            (struct json_member){STR("reasoning_content"), reasoning};
}

static enum status join_text(struct work *work, const struct json *parts, struct str *out) {
    size_t len = 0, at = 0;
    struct str text;
    void *memory;
    for (uint32_t i = 0; i < parts->count; i++)
        if (json_string(json_get(&parts->items[i], "text"), &text))
            len += text.len;
    TRY(take(work, len, 1, &memory));
    char *data = memory;
    for (uint32_t i = 0; i < parts->count; i++) {
        if (!json_string(json_get(&parts->items[i], "text"), &text) || text.len == 0)
            continue;
        memcpy(data + at, text.data, text.len);
        at += text.len;
    }
    *out = (struct str){data, len};
    return SL_OK;
}

/* Content given as parts, for `run`: only text is allowed, and it is joined when the template does
 * not go through parts itself. */
static enum status settle_parts(struct work *work, struct json *content) {
    if (!work->images_are_errors || content == NULL || content->kind != JSON_ARRAY)
        return SL_OK;
    for (uint32_t i = 0; i < content->count; i++) {
        struct str type = STR("text"), text;
        const struct json *part = &content->items[i];
        if (part->kind != JSON_OBJECT)
            return fail(work, "a part of its content is not an object");
        json_string(json_get(part, "type"), &type);
        if (!str_is(type, "text"))
            return error_set(work->err, SL_ERR_ROW,
                             "a part of type '%.*s' in its content; this model reads text only",
                             STR_ARG(type));
        if (!json_string(json_get(part, "text"), &text))
            return fail(work, "a text part of its content has no member \"text\"");
    }
    if (template_takes_parts(work->template))
        return SL_OK;
    struct json joined = {.kind = JSON_STRING};
    TRY(join_text(work, content, &joined.text));
    *content = joined;
    return SL_OK;
}

static enum status prepare_message(struct work *work, const struct json *message,
                                   struct json *out) {
    void *memory;
    if (message->kind != JSON_OBJECT)
        return fail(work, "it is not an object");
    TRY(take(work, (size_t)message->count + 2, sizeof(struct json_member), &memory));
    *out = (struct json){.kind = JSON_OBJECT};
    out->members = memory;
    TRY(copy_members(work, message, out->members, &out->count));
    alias_reasoning(out);
    return settle_parts(work, find_member(out, "content"));
}

static enum status system_message(struct work *work, struct json *out) {
    void *memory;
    TRY(take(work, 2, sizeof(struct json_member), &memory));
    *out = (struct json){.kind = JSON_OBJECT, .count = 2};
    out->members = memory;
    struct json role = {.kind = JSON_STRING}, content = {.kind = JSON_STRING};
    role.text = STR("system");
    content.text = work->request->system;
    out->members[0] = (struct json_member){STR("role"), role};
    out->members[1] = (struct json_member){STR("content"), content};
    return SL_OK;
}

static bool has_system(const struct json *messages) {
    struct str role;
    for (uint32_t i = 0; i < messages->count; i++)
        if (json_string(json_get(&messages->items[i], "role"), &role) && str_is(role, "system"))
            return true;
    return false;
}

static enum status prepare_messages(struct work *work, struct json *out) {
    const struct json *messages = work->request->messages;
    void *memory;
    if (!json_is(messages, JSON_ARRAY))
        return fail(work, "\"messages\" is not a list");
    if (messages->count == 0)
        return fail(work, "the conversation is empty: it needs at least one message");
    bool adds_system = work->request->system.len > 0 && !has_system(messages);
    TRY(take(work, (size_t)messages->count + 1, sizeof(struct json), &memory));
    *out = (struct json){.kind = JSON_ARRAY, .count = messages->count + adds_system};
    out->items = memory;
    if (adds_system)
        TRY(system_message(work, &out->items[0]));
    for (uint32_t i = 0; i < messages->count; i++)
        if (prepare_message(work, &messages->items[i], &out->items[i + adds_system]) != SL_OK)
            return error_prefix(work->err, "message %u", i + 1);
    return SL_OK;
}

/* The text of the final message that is to be continued: its content, or the last text part in it
 * (copied, so that the caller's tree stays as it is). */
static enum status final_text(struct work *work, const struct json *messages, struct json **out) {
    struct json *content = find_member(&messages->items[messages->count - 1], "content");
    void *memory;
    *out = content;
    if (content == NULL || (content->kind != JSON_STRING && content->kind != JSON_ARRAY))
        return fail(work, "continue_final_message: the final message has no text to continue");
    if (content->kind == JSON_STRING)
        return SL_OK;
    TRY(take(work, content->count, sizeof(struct json), &memory));
    if (content->count > 0)
        memcpy(memory, content->items, content->count * sizeof(struct json));
    content->items = memory;
    for (uint32_t i = content->count; i-- > 0;) {
        struct json *part = &content->items[i];
        if (part->kind != JSON_OBJECT || !json_is(json_get(part, "text"), JSON_STRING))
            continue;
        TRY(take(work, part->count, sizeof(struct json_member), &memory));
        memcpy(memory, part->members, part->count * sizeof(struct json_member));
        part->members = memory;
        for (uint32_t j = part->count; j-- > 0;) {
            *out = &part->members[j].value;
            if (str_is(part->members[j].name, "text"))
                return SL_OK;
        }
    }
    return fail(work, "continue_final_message: the final message has no text to continue");
}

static enum status mark_final(struct work *work, const struct json *messages) {
    struct json *content;
    void *memory;
    TRY(final_text(work, messages, &content));
    struct str text = content->text;
    TRY(take(work, text.len + sizeof continue_tag, 1, &memory));
    if (text.len > 0)
        memcpy(memory, text.data, text.len);
    memcpy((char *)memory + text.len, continue_tag, sizeof continue_tag - 1);
    content->text = (struct str){memory, text.len + sizeof continue_tag - 1};
    return SL_OK;
}

static bool is_ascii_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Cuts the rendering at the last tag. A template that trims has taken the tag's own space: then the
 * message's trailing white space goes too. */
static enum status cut_at_tag(struct work *work, struct buf *out, size_t start) {
    struct str text = str_cut(buf_str(out), start, out->len);
    struct str tag = str_from(continue_tag), word = str_cut(tag, 0, tag.len - 1);
    size_t found = SIZE_MAX;
    for (size_t at = 0; (at = str_find(text, word, at)) != SIZE_MAX; at += word.len)
        found = at;
    if (found == SIZE_MAX)
        return fail(work, "continue_final_message: the template does not show the final message");
    bool is_whole = found + tag.len <= text.len && text.data[found + word.len] == ' ';
    size_t len = found;
    while (!is_whole && len > 0 && is_ascii_space(text.data[len - 1]))
        len--;
    out->len = start + len;
    out->data[out->len] = '\0';
    return SL_OK;
}

/* A special token's text: a string, or an added-token object with "content". */
static const struct json *token_text(const struct json *token) {
    return json_is(token, JSON_OBJECT) ? json_get(token, "content") : token;
}

static const struct json *constant_bool(bool value) {
    static const struct json yes = {.kind = JSON_TRUE}, no = {.kind = JSON_FALSE};
    return value ? &yes : &no;
}

/* All that the template finds by name; later ones win. */
static enum status gather(struct work *work, const struct chat_tokens *tokens,
                          const struct json *messages, struct template_variable **out,
                          size_t *count) {
    const struct json *kwargs = work->request->kwargs;
    size_t token_count = tokens == NULL ? 0 : tokens->count, at = 0;
    void *memory;
    if (kwargs != NULL && kwargs->kind != JSON_OBJECT && kwargs->kind != JSON_NULL)
        return fail(work, "\"chat_template_kwargs\" is not an object");
    size_t kwarg_count = json_is(kwargs, JSON_OBJECT) ? kwargs->count : 0;
    if (token_count + kwarg_count > VARIABLES_MAX)
        return fail(work, "\"chat_template_kwargs\" has too many members");
    TRY(take(work, token_count + kwarg_count + 4, sizeof(struct template_variable), &memory));
    struct template_variable *variables = memory;
    for (size_t i = 0; i < token_count; i++)
        if (json_is(token_text(tokens->items[i].value), JSON_STRING))
            variables[at++] = (struct template_variable){tokens->items[i].name,
                                                         token_text(tokens->items[i].value)};
    variables[at++] = (struct template_variable){STR("tools"), work->request->tools};
    variables[at++] = (struct template_variable){STR("documents"), NULL};
    variables[at++] = (struct template_variable){
        STR("add_generation_prompt"), constant_bool(work->request->adds_generation_prompt)};
    for (size_t i = 0; i < kwarg_count; i++) {
        if (str_is(kwargs->members[i].name, "messages"))
            return fail(work, "\"chat_template_kwargs\" cannot replace the messages");
        variables[at++] =
            (struct template_variable){kwargs->members[i].name, &kwargs->members[i].value};
    }
    variables[at++] = (struct template_variable){STR("messages"), messages};
    *out = variables;
    *count = at;
    return SL_OK;
}

static enum status render(struct work *work, const struct chat_tokens *tokens, struct buf *out) {
    const struct chat_request *request = work->request;
    struct json messages;
    struct template_input input = {.now = request->now, .is_utc = request->is_utc};
    struct template_variable *variables = NULL;
    size_t start = out->len;
    if (request->continues_final_message && request->adds_generation_prompt)
        return fail(work, "continue_final_message and add_generation_prompt exclude one another");
    TRY(prepare_messages(work, &messages));
    if (request->continues_final_message)
        TRY(mark_final(work, &messages));
    TRY(gather(work, tokens, &messages, &variables, &input.count));
    input.variables = variables;
    TRY(template_render(work->template, &input, out, work->err));
    return request->continues_final_message ? cut_at_tag(work, out, start) : SL_OK;
}

enum status chat_render(const struct template *template, const struct chat_tokens *tokens,
                        const struct chat_request *request, bool images_are_errors, struct buf *out,
                        struct error *err) {
    struct work work = {.template = template,
                        .request = request,
                        .images_are_errors = images_are_errors,
                        .err = err};
    size_t start = out->len;
    arena_init(&work.arena);
    enum status status = render(&work, tokens, out);
    if (status != SL_OK && out->len > start) {
        out->len = start;
        out->data[start] = '\0';
    }
    arena_release(&work.arena);
    return status;
}

/* The template called `name` of a list of {"name", "template"} or an object of templates. */
static bool find_template(const struct json *list, const char *name, struct str *source) {
    struct str found;
    if (list->kind == JSON_OBJECT)
        return json_string(json_get(list, name), source);
    bool is_found = false;
    for (uint32_t i = 0; i < list->count; i++)
        if (json_string(json_get(&list->items[i], "name"), &found) && str_is(found, name))
            is_found = json_string(json_get(&list->items[i], "template"), source) || is_found;
    return is_found;
}

static void add_names(const struct json *list, struct buf *names) {
    for (uint32_t i = 0; i < list->count; i++) {
        struct str name = STR("(none)");
        if (list->kind == JSON_OBJECT)
            name = list->members[i].name;
        else
            json_string(json_get(&list->items[i], "name"), &name);
        buf_printf(names, "%s%.*s", i > 0 ? ", " : "", STR_ARG(name));
    }
}

enum status chat_pick_template(const struct json *config, struct str file, bool has_tools,
                               struct str *source, struct error *err) {
    if (file.data != NULL) {
        *source = file;
        return SL_OK;
    }
    if (config == NULL || config->kind == JSON_NULL) {
        *source = (struct str){NULL, 0};
        return SL_OK;
    }
    if (json_string(config, source))
        return SL_OK;
    if (config->kind != JSON_ARRAY && config->kind != JSON_OBJECT)
        return error_set(err, SL_ERR_ENV,
                         "tokenizer_config.json: chat_template is neither a text nor a list");
    if (has_tools && find_template(config, "tool_use", source))
        return SL_OK;
    if (find_template(config, "default", source))
        return SL_OK;
    struct buf names;
    buf_init(&names);
    add_names(config, &names);
    enum status status = error_set(
        err, SL_ERR_ENV,
        "tokenizer_config.json: chat_template has several templates and no \"default\"; there is: "
        "%.*s",
        STR_ARG(buf_str(&names)));
    buf_release(&names);
    return status;
}
