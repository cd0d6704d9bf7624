/* Owns how text from messages' content is found again in a rendering. The rendering is made a
 * second time from messages in which characters that could begin a special token are replaced by a
 * character that stands nowhere else (a Unicode noncharacter); where this one comes out, content
 * stands. The second rendering must otherwise equal the first, else the template has looked at
 * those characters, and a second way is tried that replaces only those of special tokens that stand
 * there whole.
 *
 * Content is each text in a message's `content`, at any depth, but a part's `type`; and --system.
 * Tool calls, tools and other members are the work of programs and stay as they are. Refuses rows
 * in which neither way gives the same text. */
#include "text/content.h"

#include <string.h>

/* U+FDD0 to U+FDEF, not for interchange: EF B7 90 to EF B7 AF. */
#define MARK_FIRST 0xFDD0u
#define MARK_COUNT 32u
#define MARK_BYTES 3u

enum way {
    WAY_BEGINNINGS, /* each character with which a special token could begin */
    WAY_WHOLE,      /* the first one of each special token that is written */
};

struct finder {
    struct arena arena;
    const struct tokenizer *tokenizer;
    struct json **texts; /* of one message, in order; in a copy that may be changed */
    size_t count, cap;
    struct json **open; /* still to be looked at, the next one last */
    size_t open_count, open_cap;
    struct buf joined;
    enum way way;
    char mark[4];
    bool has_marked, images_are_errors;
    struct error *err;
};

static void finder_init(struct finder *finder, const struct tokenizer *tokenizer,
                        struct error *err) {
    *finder = (struct finder){.tokenizer = tokenizer, .err = err};
    arena_init(&finder->arena);
    buf_init(&finder->joined);
}

static void finder_release(struct finder *finder) {
    arena_release(&finder->arena);
    buf_release(&finder->joined);
    mem_free(finder->texts);
    mem_free(finder->open);
}

void content_places_release(struct content_places *places) {
    mem_free(places->items);
    *places = (struct content_places){0};
}

static enum status out_of_memory(struct finder *finder, size_t bytes) {
    return error_memory(finder->err, bytes, "a conversation");
}

static enum status copy(struct finder *finder, const void *from, size_t count, size_t size,
                        void **out) {
    *out = arena_array(&finder->arena, count > 0 ? count : 1, size);
    if (*out == NULL)
        return out_of_memory(finder, count * size);
    if (count > 0)
        memcpy(*out, from, count * size);
    return SL_OK;
}

/* ---- The texts of a message's content */

static enum status push(struct finder *finder, struct json ***list, size_t *count, size_t *cap,
                        struct json *json) {
    if (*count == *cap && !mem_grow((void **)list, cap, *count + 1, sizeof **list))
        return out_of_memory(finder, *count * sizeof **list);
    (*list)[(*count)++] = json;
    return SL_OK;
}

static enum status open_members(struct finder *finder, struct json *json) {
    void *memory;
    TRY(copy(finder, json->members, json->count, sizeof *json->members, &memory));
    json->members = memory;
    for (uint32_t i = json->count; i-- > 0;)
        if (!str_is(json->members[i].name, "type"))
            TRY(push(finder, &finder->open, &finder->open_count, &finder->open_cap,
                     &json->members[i].value));
    return SL_OK;
}

static enum status open_items(struct finder *finder, struct json *json) {
    void *memory;
    TRY(copy(finder, json->items, json->count, sizeof *json->items, &memory));
    json->items = memory;
    for (uint32_t i = json->count; i-- > 0;)
        TRY(push(finder, &finder->open, &finder->open_count, &finder->open_cap, &json->items[i]));
    return SL_OK;
}

/* Copies what holds texts on the way down, and lists the texts; joined is all of them in order. */
static enum status find_texts(struct finder *finder, struct json *content) {
    finder->count = finder->open_count = 0;
    buf_clear(&finder->joined);
    TRY(push(finder, &finder->open, &finder->open_count, &finder->open_cap, content));
    while (finder->open_count > 0) {
        struct json *json = finder->open[--finder->open_count];
        if (json->kind == JSON_OBJECT)
            TRY(open_members(finder, json));
        if (json->kind == JSON_ARRAY)
            TRY(open_items(finder, json));
        if (json->kind != JSON_STRING)
            continue;
        TRY(push(finder, &finder->texts, &finder->count, &finder->cap, json));
        buf_add(&finder->joined, json->text);
    }
    return buf_status(&finder->joined, "a conversation", finder->err);
}

/* A copy of the messages in which each `content` may be changed. */
static enum status copy_messages(struct finder *finder, const struct json *messages,
                                 struct json *out) {
    void *memory;
    *out = *messages;
    TRY(copy(finder, messages->items, messages->count, sizeof *messages->items, &memory));
    out->items = memory;
    for (uint32_t i = 0; i < out->count; i++) {
        if (out->items[i].kind != JSON_OBJECT)
            continue;
        TRY(copy(finder, out->items[i].members, out->items[i].count, sizeof(struct json_member),
                 &memory));
        out->items[i].members = memory;
    }
    return SL_OK;
}

/* The next member `content` of the messages; *at begins with {0, 0}. NULL: no more. */
static struct json *next_content(struct json *messages, uint32_t at[2]) {
    for (; at[0] < messages->count; at[0]++, at[1] = 0) {
        struct json *message = &messages->items[at[0]];
        while (message->kind == JSON_OBJECT && at[1] < message->count) {
            struct json_member *member = &message->members[at[1]++];
            if (str_is(member->name, "content"))
                return &member->value;
        }
    }
    return NULL;
}

static bool holds_special(const struct tokenizer *tokenizer, struct str text) {
    for (size_t i = 0; i < text.len; i++)
        if (tokenizer_special_begins(tokenizer, text.data[i]) &&
            tokenizer_special_at(tokenizer, text, i) > 0)
            return true;
    return false;
}

enum status content_holds_specials(const struct tokenizer *tokenizer, const struct json *messages,
                                   bool *out, struct error *err) {
    struct finder finder;
    struct json own, *content;
    uint32_t at[2] = {0, 0};
    bool holds = false;
    finder_init(&finder, tokenizer, err);
    enum status status = SL_OK;
    if (json_is(messages, JSON_ARRAY)) {
        status = copy_messages(&finder, messages, &own);
        while (status == SL_OK && !holds && (content = next_content(&own, at)) != NULL) {
            status = find_texts(&finder, content);
            holds = status == SL_OK && holds_special(tokenizer, buf_str(&finder.joined));
        }
    }
    finder_release(&finder);
    if (status == SL_OK)
        *out = holds;
    return status;
}

/* ---- Marking */

/* Whether the character at `at` is to be replaced. Added tokens that are not special keep their
 * meaning, and templates look for some of them (</think>): they stay as they are. */
static bool is_marked(const struct finder *finder, struct str text, size_t at) {
    if (!tokenizer_special_begins(finder->tokenizer, text.data[at]))
        return false;
    if (finder->way == WAY_WHOLE)
        return tokenizer_special_at(finder->tokenizer, text, at) > 0;
    return tokenizer_added_at(finder->tokenizer, text, at) == 0;
}

/* The text [from, to) of joined with its marks; as it is when it has none. */
static enum status mark_text(struct finder *finder, size_t from, size_t to, struct str *text) {
    struct str joined = buf_str(&finder->joined);
    size_t marks = 0, len = 0;
    for (size_t at = from; at < to;) {
        marks += is_marked(finder, joined, at);
        utf8_next(joined, &at);
    }
    if (marks == 0)
        return SL_OK;
    char *data = arena_array(&finder->arena, to - from + marks * MARK_BYTES, 1);
    if (data == NULL)
        return out_of_memory(finder, to - from);
    for (size_t at = from; at < to;) {
        size_t end = at;
        bool is_mark = is_marked(finder, joined, at);
        utf8_next(joined, &end);
        size_t bytes = is_mark ? MARK_BYTES : end - at;
        memcpy(data + len, is_mark ? finder->mark : joined.data + at, bytes);
        len += bytes;
        at = end;
    }
    *text = (struct str){data, len};
    finder->has_marked = true;
    return SL_OK;
}

static enum status mark_content(struct finder *finder, struct json *content) {
    size_t at = 0;
    TRY(find_texts(finder, content));
    for (size_t i = 0; i < finder->count; i++) {
        size_t len = finder->texts[i]->text.len;
        TRY(mark_text(finder, at, at + len, &finder->texts[i]->text));
        at += len;
    }
    return SL_OK;
}

static enum status mark_request(struct finder *finder, const struct chat_request *request,
                                struct json *messages, struct chat_request *out) {
    struct json system = {.kind = JSON_STRING}, *content;
    uint32_t at[2] = {0, 0};
    *out = *request;
    TRY(copy_messages(finder, request->messages, messages));
    while ((content = next_content(messages, at)) != NULL)
        TRY(mark_content(finder, content));
    system.text = request->system;
    TRY(mark_content(finder, &system));
    out->system = system.text;
    out->messages = messages;
    return SL_OK;
}

/* A mark that the text does not hold; false when it holds all of them. */
static bool pick_mark(struct str text, char mark[4]) {
    for (uint32_t i = 0; i < MARK_COUNT; i++) {
        utf8_put(MARK_FIRST + i, mark);
        if (str_find(text, (struct str){mark, MARK_BYTES}, 0) == SIZE_MAX)
            return true;
    }
    return false;
}

/* Goes through both renderings side by side: the same, but for marks in place of characters. */
static enum status compare(const struct finder *finder, struct str text, struct str marked,
                           struct content_places *places, bool *is_same) {
    struct str mark = {finder->mark, MARK_BYTES};
    size_t at = 0, i = 0;
    places->count = 0;
    *is_same = false;
    while (i < marked.len && at < text.len) {
        if (marked.data[i] != mark.data[0] || !str_starts(str_cut(marked, i, marked.len), mark)) {
            if (marked.data[i++] != text.data[at++])
                return SL_OK;
            continue;
        }
        if (!tokenizer_special_begins(finder->tokenizer, text.data[at]))
            return SL_OK;
        if (places->count == places->cap && !mem_grow((void **)&places->items, &places->cap,
                                                      places->count + 1, sizeof *places->items))
            return error_memory(finder->err, places->count * sizeof *places->items, "a prompt");
        places->items[places->count++] = at;
        i += MARK_BYTES;
        utf8_next(text, &at);
    }
    *is_same = i == marked.len && at == text.len;
    return SL_OK;
}

/* One way to find content again; *is_done when it did. */
static enum status try_way(struct finder *finder, const struct content_template *template,
                           const struct chat_request *request, struct str text,
                           struct content_places *places, bool *is_done) {
    struct chat_request marked;
    struct json messages;
    struct buf again;
    struct error own = {0};
    finder->has_marked = false;
    places->count = 0;
    TRY(mark_request(finder, request, &messages, &marked));
    *is_done = !finder->has_marked;
    if (*is_done)
        return SL_OK;
    buf_init(&again);
    /* The first rendering went well: an error of the row is the marks' work. */
    enum status status = chat_render(template->template, template->tokens, &marked,
                                     finder->images_are_errors, &again, &own);
    if (status == SL_OK)
        status = buf_status(&again, "a rendered prompt", &own);
    if (status == SL_OK)
        status = compare(finder, text, buf_str(&again), places, is_done);
    else if (status != SL_ERR_ROW && finder->err != NULL)
        *finder->err = own;
    buf_release(&again);
    return status == SL_ERR_ROW ? SL_OK : status;
}

enum status content_render(const struct content_template *template,
                           const struct chat_request *request, bool images_are_errors,
                           struct buf *out, struct content_places *places, struct error *err) {
    struct finder finder;
    bool is_done = false;
    must(out->len == 0);
    places->count = 0;
    TRY(chat_render(template->template, template->tokens, request, images_are_errors, out, err));
    TRY(buf_status(out, "a rendered prompt", err));
    finder_init(&finder, template->tokenizer, err);
    finder.images_are_errors = images_are_errors;
    enum status status = SL_OK;
    if (pick_mark(buf_str(out), finder.mark)) {
        static const enum way ways[] = {WAY_BEGINNINGS, WAY_WHOLE};
        for (size_t i = 0; i < 2 && status == SL_OK && !is_done; i++) {
            finder.way = ways[i];
            status = try_way(&finder, template, request, buf_str(out), places, &is_done);
        }
    }
    if (status == SL_OK && !is_done)
        status = error_set(err, SL_ERR_ROW,
                           "the chat template looks at special tokens in this row's content, so "
                           "they cannot be taken as plain text (--content-specials allow)");
    finder_release(&finder);
    if (status != SL_OK) {
        places->count = 0;
        buf_clear(out);
    }
    return status;
}
