/* Owns the forms of names and the table of well-known models. Refuses whatever could leave the
 * cache's folders when it becomes a part of a path. */
#include "hub/name.h"

#include <stdio.h>
#include <string.h>

const struct registry_line registry_lines[] = {
#include "hub/registry.inc"
};
const size_t registry_line_count = sizeof registry_lines / sizeof registry_lines[0];

/* Letters, digits and -._ ; no part that begins with a dot, so none is "..". */
static bool is_word(struct str text) {
    if (text.len == 0 || text.len >= SL_HUB_NAME_BYTES || text.data[0] == '.')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool is_fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_';
        if (!is_fine)
            return false;
    }
    return true;
}

/* Words with slashes between them. */
static bool is_words(struct str text) {
    for (size_t at = 0; at <= text.len;) {
        size_t slash = str_find(text, STR("/"), at);
        size_t end = slash == SIZE_MAX ? text.len : slash;
        if (!is_word(str_cut(text, at, end)))
            return false;
        at = end + 1;
    }
    return text.len < SL_HUB_NAME_BYTES;
}

static void copy(struct str text, char out[SL_HUB_NAME_BYTES]) {
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
}

/* Whether the name of a line is text, or text and a size behind a colon. */
static bool is_named(const struct registry_line *line, struct str text) {
    struct str name = str_from(line->name);
    return str_starts(name, text) &&
           (name.len == text.len || (text.len > 0 && name.data[text.len] == ':'));
}

const struct registry_line *registry_find(struct str text) {
    for (size_t i = 0; i < registry_line_count; i++) {
        if (is_named(&registry_lines[i], text))
            return &registry_lines[i];
    }
    return NULL;
}

const char *registry_nearest(struct str text) {
    size_t most = 2; /* equal bytes at the start: fewer are chance */
    const char *nearest = NULL;
    for (size_t i = 0; i < registry_line_count; i++) {
        const char *name = registry_lines[i].name;
        size_t same = 0;
        while (same < text.len && name[same] != '\0' && name[same] == text.data[same])
            same++;
        if (same > most) {
            most = same;
            nearest = name;
        }
    }
    return nearest;
}

struct str hub_gguf_stem(struct str name, uint64_t *part, uint64_t *parts) {
    const size_t tail = sizeof "-00001-of-00002.gguf" - 1;
    *part = *parts = 1;
    if (!str_ends(name, STR(".gguf")))
        return STR("");
    struct str end = name.len > tail ? str_cut(name, name.len - tail, name.len) : STR("");
    uint64_t number, count;
    bool is_part = end.len > 0 && end.data[0] == '-' && str_is(str_cut(end, 6, 10), "-of-") &&
                   str_to_u64(str_cut(end, 1, 6), &number) &&
                   str_to_u64(str_cut(end, 10, 15), &count);
    if (!is_part)
        return str_cut(name, 0, name.len - (sizeof ".gguf" - 1));
    *part = number;
    *parts = count;
    return str_cut(name, 0, name.len - tail);
}

bool hub_name_parse(struct str text, struct hub_name *out) {
    struct hub_name name = {.revision = "main"};
    const struct registry_line *line = registry_find(text);
    if (line != NULL)
        text = str_from(line->repo);
    size_t colon = str_find(text, STR(":"), 0);
    struct str file = colon == SIZE_MAX ? STR("") : str_cut(text, colon + 1, text.len);
    text = str_cut(text, 0, colon);
    size_t at = str_find(text, STR("@"), 0);
    struct str revision = at == SIZE_MAX ? STR("main") : str_cut(text, at + 1, text.len);
    text = str_cut(text, 0, at);
    size_t slash = str_find(text, STR("/"), 0);
    bool is_repo = slash != SIZE_MAX && str_find(text, STR("/"), slash + 1) == SIZE_MAX &&
                   str_find(text, STR("--"), 0) == SIZE_MAX;
    if (!is_repo || !is_words(text) || !is_words(revision) ||
        (colon != SIZE_MAX && !is_words(file)))
        return false;
    copy(text, name.repo);
    copy(revision, name.revision);
    copy(file, name.file);
    *out = name;
    return true;
}

void hub_name_write(const struct hub_name *name, char text[SL_HUB_TEXT_BYTES]) {
    snprintf(text, SL_HUB_TEXT_BYTES, "%s@%s%s%s", name->repo, name->revision,
             name->file[0] != '\0' ? ":" : "", name->file);
}
