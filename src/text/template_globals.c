/* The functions a template finds without being given them, and what `loop`, cycler and joiner
 * offer. Names that Jinja has and this interpreter has not are simply undefined. */
#include "text/template_tree.h"

#include <string.h>
#include <time.h>

#define RANGE_MAX 100000 /* items, as in Jinja's sandbox */

const struct builtin *builtin_find(const struct builtin *table, struct str name) {
    for (; table->name != NULL; table++)
        if (str_is(name, table->name))
            return table;
    return NULL;
}

static enum status global_range(struct render *render, const struct call *call, struct value *out) {
    const struct arguments *raw = call->raw;
    int64_t bounds[3] = {0, 0, 1}, span;
    void *memory;
    if (raw->count == 0 || raw->count > 3 || raw->named_count > 0)
        return value_fail(render, "range expected 1 to 3 arguments, got %zu", raw->count);
    for (size_t i = 0; i < raw->count; i++)
        TRY(number_need_int(render, &raw->items[i], "an argument of range",
                            &bounds[raw->count == 1 ? 1 : i]));
    if (bounds[2] == 0)
        return value_fail(render, "range() arg 3 must not be zero");
    bool is_up = bounds[2] > 0;
    if (__builtin_sub_overflow(is_up ? bounds[1] : bounds[0], is_up ? bounds[0] : bounds[1],
                               &span) ||
        bounds[2] == INT64_MIN)
        return value_fail(render, "a range of more than %d items", RANGE_MAX);
    int64_t step = is_up ? bounds[2] : -bounds[2];
    int64_t count = span > 0 ? (span - 1) / step + 1 : 0;
    if (count > RANGE_MAX)
        return value_fail(render, "a range of %lld items, more than %d", (long long)count,
                          RANGE_MAX);
    TRY(value_take(render, sizeof(struct range), &memory));
    struct range *range = memory;
    *range = (struct range){bounds[0], bounds[1], bounds[2], (size_t)count};
    *out = (struct value){.kind = VALUE_RANGE, .range = range};
    return SL_OK;
}

static enum status global_dict(struct render *render, const struct call *call, struct value *out) {
    return dict_make(render, call->raw, VALUE_DICT, out);
}

static enum status global_namespace(struct render *render, const struct call *call,
                                    struct value *out) {
    TRY(dict_make(render, call->raw, VALUE_SPACE, out));
    for (size_t i = 0; i < out->dict->count; i++) {
        const struct value *key = &out->dict->entries[i].key;
        if (key->kind == VALUE_TEXT && key->text.len > 0 && key->text.data[0] == '_')
            return value_fail(render, "a namespace cannot hold '%.*s': it begins with '_'",
                              STR_ARG(key->text));
    }
    return SL_OK;
}

/* The template's own words, with line feeds kept; other control characters become '?'. */
static enum status global_raise(struct render *render, const struct call *call, struct value *out) {
    (void)out;
    struct str words;
    TRY(repr_str(render, &call->args[0], &words));
    struct error *err = render->err;
    size_t len = 0;
    while (len < words.len) {
        size_t next = len;
        utf8_next(words, &next);
        if (next >= sizeof err->text)
            break;
        len = next;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)words.data[i];
        err->text[i] = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F ? '?' : (char)c;
    }
    err->text[len] = '\0';
    return err->status = SL_ERR_ROW;
}

/* One directive of strftime, '%' and its letter (and glibc's flags) in text. */
static void add_directive(struct buf *buf, const char *directive, const struct tm *time) {
    char letter = directive[strlen(directive) - 1];
    char text[256];
    if (letter == 'f')
        buf_add(buf, STR("000000"));
    if (letter == 'f' || letter == 'z' || letter == 'Z') /* the clock has no zone, as in Python */
        return;
    size_t len = strftime(text, sizeof text, directive, time);
    buf_add(buf, (struct str){text, len});
}

static enum status global_strftime(struct render *render, const struct call *call,
                                   struct value *out) {
    struct str format;
    struct tm time;
    time_t now = (time_t)render->input->now;
    TRY(text_need(render, &call->args[0], "the format of strftime_now", &format));
    if ((render->input->is_utc ? gmtime_r(&now, &time) : localtime_r(&now, &time)) == NULL)
        return value_fail(render, "the clock stands at a time that has no date");
    struct buf *buf = &render->scratch;
    size_t mark = buf->len;
    TRY(value_charge(render, format.len));
    for (size_t i = 0; i < format.len; i++) {
        char directive[8] = "%";
        size_t len = 1;
        if (format.data[i] != '%') {
            buf_add_char(buf, format.data[i]);
            continue;
        }
        while (++i < format.len && len < 6) {
            directive[len++] = format.data[i];
            if (strchr("-_^#0123456789EO", format.data[i]) == NULL || format.data[i] == '\0')
                break;
        }
        if (len > 1 && strchr("123456789", directive[1]) == NULL)
            add_directive(buf, directive, &time);
        else
            buf_add(buf, (struct str){directive, len});
    }
    return text_from_scratch(render, mark, out);
}

static enum status global_cycler(struct render *render, const struct call *call,
                                 struct value *out) {
    void *memory;
    if (call->raw->count == 0 || call->raw->named_count > 0)
        return value_fail(render, "at least one item has to be provided to cycler");
    TRY(value_take(render, sizeof(struct cycler), &memory));
    struct cycler *cycler = memory;
    cycler->items = (struct list){.items = call->raw->items, .count = call->raw->count};
    *out = (struct value){.kind = VALUE_CYCLER, .cycler = cycler};
    return SL_OK;
}

static enum status global_joiner(struct render *render, const struct call *call,
                                 struct value *out) {
    void *memory;
    TRY(value_take(render, sizeof(struct joiner), &memory));
    struct joiner *joiner = memory;
    joiner->separator = call->args[0].kind == VALUE_MISSING ? value_words(", ") : call->args[0];
    *out = (struct value){.kind = VALUE_JOINER, .joiner = joiner};
    return SL_OK;
}

static const struct builtin table[] = {
    {"range", global_range, "*", 0},
    {"dict", global_dict, "*", 0},
    {"namespace", global_namespace, "*", 0},
    {"raise_exception", global_raise, "message", 1},
    {"strftime_now", global_strftime, "format", 1},
    {"cycler", global_cycler, "*", 0},
    {"joiner", global_joiner, "sep", 0},
    {"lipsum", NULL, "*", 0},
    {NULL, NULL, NULL, 0},
};

const struct builtin *global_find(struct str name) {
    return builtin_find(table, name);
}

static enum status loop_cycle(struct render *render, const struct call *call, struct value *out) {
    if (call->raw->count == 0)
        return value_fail(render, "no items for cycling given");
    *out = call->raw->items[call->self.loop->at % call->raw->count];
    return SL_OK;
}

static enum status loop_changed(struct render *render, const struct call *call, struct value *out) {
    struct loop *loop = call->self.loop;
    struct value now;
    bool is_equal = false;
    TRY(value_new_list(render, VALUE_TUPLE, call->raw->count, &now));
    for (size_t i = 0; i < call->raw->count; i++)
        now.list->items[i] = call->raw->items[i];
    if (loop->changed.kind != VALUE_MISSING)
        TRY(value_equal(render, &loop->changed, &now, &is_equal));
    loop->changed = now;
    *out = value_bool(!is_equal);
    return SL_OK;
}

static enum status cycler_next(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    struct cycler *cycler = call->self.cycler;
    *out = cycler->items.items[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->items.count;
    return SL_OK;
}

static enum status cycler_reset(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    call->self.cycler->at = 0;
    *out = value_none();
    return SL_OK;
}

const struct builtin global_loop_methods[] = {
    {"cycle", loop_cycle, "*", 0},
    {"changed", loop_changed, "*", 0},
    {NULL, NULL, NULL, 0},
};
const struct builtin global_cycler_methods[] = {
    {"next", cycler_next, "", 0},
    {"reset", cycler_reset, "", 0},
    {NULL, NULL, NULL, 0},
};

enum status global_loop_attribute(struct render *render, const struct value *value, struct str name,
                                  struct value *out) {
    const struct loop *loop = value->loop;
    int64_t index = (int64_t)loop->at, count = (int64_t)loop->items.count;
    const struct {
        const char *name;
        struct value value;
    } fields[] = {
        {"index", value_int(index + 1)},
        {"index0", value_int(index)},
        {"first", value_bool(index == 0)},
        {"last", value_bool(index == count - 1)},
        {"length", value_int(count)},
        {"revindex", value_int(count - index)},
        {"revindex0", value_int(count - index - 1)},
        {"depth", value_int(loop->depth + 1)},
        {"depth0", value_int(loop->depth)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (str_is(name, fields[i].name)) {
            *out = fields[i].value;
            return SL_OK;
        }
    }
    if (str_is(name, "previtem")) {
        if (index == 0)
            return value_hint(render, "there is no previous item", out);
        *out = loop->items.items[index - 1];
        return SL_OK;
    }
    if (str_is(name, "nextitem")) {
        if (index + 1 >= count)
            return value_hint(render, "there is no next item", out);
        *out = loop->items.items[index + 1];
        return SL_OK;
    }
    const struct builtin *builtin = builtin_find(global_loop_methods, name);
    struct value key = value_text(name);
    if (builtin == NULL)
        return value_undefined(render, value_owner(value), &key, out);
    void *memory;
    TRY(value_take(render, sizeof(struct method), &memory));
    struct method *method = memory;
    *method = (struct method){*value, builtin};
    *out = (struct value){.kind = VALUE_METHOD, .method = method};
    return SL_OK;
}
