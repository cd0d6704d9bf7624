/* Owns the steps of a normalizer. Refuses, by name, those that need data we do not have
 * (Precompiled) or that only other kinds of models use. */
#include "text/normalize.h"

#define WHERE "normalizer"

void normalizer_init(struct normalizer *normalizer) {
    *normalizer = (struct normalizer){0};
    arena_init(&normalizer->arena);
}

void normalizer_release(struct normalizer *normalizer) {
    for (size_t i = 0; i < normalizer->count; i++)
        regex_free(normalizer->steps[i].regex);
    arena_release(&normalizer->arena);
    *normalizer = (struct normalizer){0};
}

enum status normalizer_add(struct normalizer *normalizer, const struct normalizer_step *step,
                           struct error *err) {
    enum status status = SL_OK;
    if (normalizer->count == SL_COMPONENT_STEPS_MAX)
        status = error_set(err, SL_ERR_ENV, "the %s has more than %u steps", WHERE,
                           SL_COMPONENT_STEPS_MAX);
    struct normalizer_step own = *step;
    if (status == SL_OK)
        status = component_copy(&normalizer->arena, step->pattern, &own.pattern, err);
    if (status == SL_OK)
        status = component_copy(&normalizer->arena, step->content, &own.content, err);
    if (status == SL_OK)
        normalizer->steps[normalizer->count++] = own;
    else
        regex_free(step->regex);
    return status;
}

static enum status load_replace(const struct json *json, struct normalizer_step *step,
                                struct error *err) {
    bool is_regex = false;
    step->kind = NORMALIZER_REPLACE;
    TRY(component_pattern(json, WHERE, &step->pattern, &is_regex, err));
    TRY(component_string(json, WHERE, "content", &step->content, err));
    return is_regex ? regex_new(step->pattern, &step->regex, err) : SL_OK;
}

static enum status load_step(struct normalizer *normalizer, const struct json *json,
                             struct str type, struct error *err) {
    static const struct {
        const char *name;
        enum normalizer_kind kind;
        enum unicode_form form;
    } plain[] = {
        {"NFC", NORMALIZER_FORM, UNICODE_NFC},   {"NFD", NORMALIZER_FORM, UNICODE_NFD},
        {"NFKC", NORMALIZER_FORM, UNICODE_NFKC}, {"NFKD", NORMALIZER_FORM, UNICODE_NFKD},
        {"Lowercase", NORMALIZER_LOWERCASE, 0},  {"StripAccents", NORMALIZER_STRIP_ACCENTS, 0},
    };
    struct normalizer_step step = {0};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (str_is(type, plain[i].name)) {
            step.kind = plain[i].kind;
            step.form = plain[i].form;
            return normalizer_add(normalizer, &step, err);
        }
    }
    if (str_is(type, "Strip")) {
        step.kind = NORMALIZER_STRIP;
        TRY(component_bool(json, WHERE, "strip_left", true, &step.strips_left, err));
        TRY(component_bool(json, WHERE, "strip_right", true, &step.strips_right, err));
    } else if (str_is(type, "Prepend")) {
        step.kind = NORMALIZER_PREPEND;
        TRY(component_string(json, WHERE, "prepend", &step.content, err));
    } else if (str_is(type, "Replace")) {
        TRY(load_replace(json, &step, err));
    } else {
        return component_refuse(WHERE, type, err);
    }
    return normalizer_add(normalizer, &step, err);
}

/* Recursion is bounded by SL_COMPONENT_DEPTH_MAX. */
static enum status load_at(struct normalizer *normalizer, const struct json *json, unsigned depth,
                           struct error *err) {
    struct str type;
    TRY(component_type(json, WHERE, &type, err));
    if (!str_is(type, "Sequence"))
        return load_step(normalizer, json, type, err);
    if (depth == SL_COMPONENT_DEPTH_MAX)
        return error_set(err, SL_ERR_ENV, "the %s is nested too deep", WHERE);
    const struct json *list;
    TRY(component_list(json, WHERE, "normalizers", &list, err));
    for (uint32_t i = 0; i < list->count; i++)
        TRY(load_at(normalizer, &list->items[i], depth + 1, err));
    return SL_OK;
}

enum status normalizer_load(struct normalizer *normalizer, const struct json *json,
                            struct error *err) {
    if (!json || json_is(json, JSON_NULL))
        return SL_OK;
    return load_at(normalizer, json, 0, err);
}

/* ---- Running */

static void lowercase(struct str text, struct buf *out) {
    for (size_t at = 0; at < text.len;) {
        uint32_t lower[2];
        size_t count = unicode_to_lower(utf8_next(text, &at), lower);
        for (size_t i = 0; i < count; i++)
            buf_add_utf8(out, lower[i]);
    }
}

/* lost_beginning: the first character fell away. */
static void strip_accents(struct str text, struct buf *out, bool *lost_beginning) {
    for (size_t at = 0; at < text.len;) {
        size_t from = at;
        if (!unicode_is_mark(utf8_next(text, &at)))
            buf_add(out, str_cut(text, from, at));
        else if (from == 0)
            *lost_beginning = true;
    }
}

static struct str strip(const struct normalizer_step *step, struct str text) {
    size_t from = 0, to = 0;
    bool is_leading = step->strips_left;
    for (size_t at = 0; at < text.len;) {
        bool is_space = unicode_is_space(utf8_next(text, &at));
        if (is_leading && is_space)
            from = at;
        else
            is_leading = false;
        if (!is_space)
            to = at;
    }
    if (!step->strips_right)
        to = text.len;
    return str_cut(text, from, to);
}

static enum status replace(const struct normalizer_step *step, struct normalized *state,
                           struct buf *out, struct error *err) {
    struct str text = state->text;
    size_t copied = 0;
    if (!step->regex) {
        size_t found = step->pattern.len ? str_find(text, step->pattern, 0) : SIZE_MAX;
        state->lost_beginning |= found == 0 && step->content.len == 0;
        while (found != SIZE_MAX) {
            buf_add(out, str_cut(text, copied, found));
            buf_add(out, step->content);
            copied = found + step->pattern.len;
            found = str_find(text, step->pattern, copied);
        }
        buf_add(out, str_cut(text, copied, text.len));
        return SL_OK;
    }
    struct regex_scan scan;
    regex_scan_init(&scan, step->regex);
    bool is_found = true;
    enum status status = regex_scan_begin(&scan, text, err);
    while (status == SL_OK && is_found) {
        size_t from, to;
        status = regex_scan_next(&scan, &is_found, &from, &to, err);
        if (status != SL_OK || !is_found)
            break;
        state->lost_beginning |= from == 0 && to > 0 && step->content.len == 0;
        buf_add(out, str_cut(text, copied, from));
        buf_add(out, step->content);
        copied = to;
    }
    buf_add(out, str_cut(text, copied, text.len));
    regex_scan_release(&scan);
    return status;
}

static enum status run_step(const struct normalizer_step *step, struct normalized *state,
                            struct buf *out, struct error *err) {
    struct str text = state->text;
    buf_clear(out);
    switch (step->kind) {
    case NORMALIZER_FORM:
        if (!unicode_normalize(step->form, text, out))
            out->has_failed = true;
        break;
    case NORMALIZER_LOWERCASE:
        lowercase(text, out);
        break;
    case NORMALIZER_STRIP_ACCENTS:
        strip_accents(text, out, &state->lost_beginning);
        break;
    case NORMALIZER_STRIP:
        state->text = strip(step, text);
        state->lost_beginning |= state->text.len && state->text.data != text.data;
        return SL_OK; /* still in the buffer, or the input, that it was in */
    case NORMALIZER_PREPEND:
        if (text.len)
            buf_add(out, step->content);
        buf_add(out, text);
        break;
    case NORMALIZER_REPLACE:
        TRY(replace(step, state, out, err));
        break;
    }
    if (out->has_failed)
        return error_memory(err, text.len, "a normalized text");
    state->text = buf_str(out);
    return SL_OK;
}

enum status normalizer_run(const struct normalizer *normalizer, struct str text,
                           struct buf buffers[2], struct normalized *out, struct error *err) {
    struct normalized state = {.text = text};
    size_t next = 0;
    for (size_t i = 0; i < normalizer->count; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        TRY(run_step(step, &state, &buffers[next], err));
        if (step->kind != NORMALIZER_STRIP)
            next = 1 - next;
    }
    *out = state;
    return SL_OK;
}
