/* Owns the reading of pre-tokenizers from tokenizer.json. Refuses, by name, the types that it does
 * not know, and a second ByteLevel. */
#include "text/pretokenize.h"

#include "text/unicode.h"

#define WHERE "pre_tokenizer"

const char pretokenizer_gpt2_regex[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Whitespace is written in Rust's \w: Oniguruma's with the joiners, without the Latin-1 numbers. */
#define RUST_WORD "[\\w&&[^\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]]\\x{200c}\\x{200d}"
static const char words_regex[] = "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+";

void pretokenizer_init(struct pretokenizer *pretokenizer) {
    *pretokenizer = (struct pretokenizer){0};
    arena_init(&pretokenizer->arena);
}

void pretokenizer_release(struct pretokenizer *pretokenizer) {
    for (size_t i = 0; i < pretokenizer->count; i++)
        regex_free(pretokenizer->steps[i].regex);
    arena_release(&pretokenizer->arena);
    *pretokenizer = (struct pretokenizer){0};
}

static enum status add_step(struct pretokenizer *pretokenizer, const struct pretokenizer_step *step,
                            struct error *err) {
    enum status status = SL_OK;
    struct pretokenizer_step own = *step;
    if (pretokenizer->count == SL_COMPONENT_STEPS_MAX)
        status = error_set(err, SL_ERR_ENV, "the %s has more than %u steps", WHERE,
                           SL_COMPONENT_STEPS_MAX);
    if (status == SL_OK)
        status = component_copy(&pretokenizer->arena, step->literal, &own.literal, err);
    if (status == SL_OK)
        pretokenizer->steps[pretokenizer->count++] = own;
    else
        regex_free(step->regex);
    return status;
}

enum status pretokenizer_add(struct pretokenizer *pretokenizer,
                             const struct pretokenizer_step *step, struct error *err) {
    /* What comes behind ByteLevel cuts the spelling: Falcon's Digits see the bytes B2, B3, ... as
     * digits. */
    if (pretokenizer->is_byte_level && !pretokenizer->is_spelled) {
        struct pretokenizer_step spell = {.kind = PRETOKENIZER_SPELL};
        enum status status = add_step(pretokenizer, &spell, err);
        if (status != SL_OK) {
            regex_free(step->regex);
            return status;
        }
        pretokenizer->is_spelled = true;
    }
    return add_step(pretokenizer, step, err);
}

enum status pretokenizer_add_regex(struct pretokenizer *pretokenizer, struct str pattern,
                                   enum split_behavior behavior, bool is_inverted,
                                   struct error *err) {
    struct pretokenizer_step step = {
        .kind = PRETOKENIZER_REGEX, .behavior = behavior, .is_inverted = is_inverted};
    TRY(regex_new(pattern, &step.regex, err));
    return pretokenizer_add(pretokenizer, &step, err);
}

static enum status add_test(struct pretokenizer *pretokenizer, bool (*test)(uint32_t),
                            enum split_behavior behavior, struct error *err) {
    struct pretokenizer_step step = {.kind = PRETOKENIZER_TEST, .behavior = behavior, .test = test};
    return pretokenizer_add(pretokenizer, &step, err);
}

static enum status load_behavior(const struct json *json, enum split_behavior if_absent,
                                 enum split_behavior *out, struct error *err) {
    static const struct {
        const char *name;
        enum split_behavior behavior;
    } names[] = {
        {"Removed", SPLIT_REMOVED},
        {"Isolated", SPLIT_ISOLATED},
        {"Contiguous", SPLIT_CONTIGUOUS},
        {"MergedWithPrevious", SPLIT_MERGED_WITH_PREVIOUS},
        {"MergedWithNext", SPLIT_MERGED_WITH_NEXT},
    };
    struct str name;
    *out = if_absent;
    if (!json_get(json, "behavior"))
        return SL_OK;
    TRY(component_string(json, WHERE, "behavior", &name, err));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (str_is(name, names[i].name)) {
            *out = names[i].behavior;
            return SL_OK;
        }
    }
    return error_set(err, SL_ERR_ENV, "the %s behavior %.*s is not supported", WHERE,
                     STR_ARG(name));
}

static enum status load_split(struct pretokenizer *pretokenizer, const struct json *json,
                              struct error *err) {
    struct pretokenizer_step step = {.kind = PRETOKENIZER_LITERAL};
    bool is_regex = false;
    TRY(component_pattern(json, WHERE, &step.literal, &is_regex, err));
    TRY(load_behavior(json, SPLIT_ISOLATED, &step.behavior, err));
    TRY(component_bool(json, WHERE, "invert", false, &step.is_inverted, err));
    if (is_regex)
        return pretokenizer_add_regex(pretokenizer, step.literal, step.behavior, step.is_inverted,
                                      err);
    return pretokenizer_add(pretokenizer, &step, err);
}

static enum status load_byte_level(struct pretokenizer *pretokenizer, const struct json *json,
                                   struct error *err) {
    bool puts_space_first = false, uses_regex = false;
    if (pretokenizer->is_byte_level)
        return error_set(err, SL_ERR_ENV, "a second ByteLevel %s is not supported", WHERE);
    TRY(component_bool(json, WHERE, "add_prefix_space", true, &puts_space_first, err));
    TRY(component_bool(json, WHERE, "use_regex", true, &uses_regex, err));
    if (puts_space_first) {
        struct pretokenizer_step step = {.kind = PRETOKENIZER_SPACE_FIRST};
        TRY(pretokenizer_add(pretokenizer, &step, err));
    }
    if (uses_regex)
        TRY(pretokenizer_add_regex(pretokenizer, str_from(pretokenizer_gpt2_regex), SPLIT_ISOLATED,
                                   false, err));
    pretokenizer->is_byte_level = true;
    return SL_OK;
}

enum status pretokenizer_metaspace(const struct json *json, const char *where,
                                   struct str *replacement, enum prepend_scheme *scheme,
                                   struct error *err) {
    struct str name;
    bool prepends = true;
    size_t at = 0;
    TRY(component_string(json, where, "replacement", replacement, err));
    if (replacement->len == 0 || (utf8_next(*replacement, &at), at != replacement->len))
        return error_set(err, SL_ERR_ENV, "%s: replacement is not one character", where);
    /* Older files have add_prefix_space in place of the scheme. */
    TRY(component_bool(json, where, "add_prefix_space", true, &prepends, err));
    *scheme = prepends ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (!json_get(json, "prepend_scheme"))
        return SL_OK;
    TRY(component_string(json, where, "prepend_scheme", &name, err));
    if (str_is(name, "always"))
        *scheme = PREPEND_ALWAYS;
    else if (str_is(name, "first"))
        *scheme = PREPEND_FIRST;
    else if (str_is(name, "never"))
        *scheme = PREPEND_NEVER;
    else
        return error_set(err, SL_ERR_ENV, "%s: the prepend_scheme %.*s is not supported", where,
                         STR_ARG(name));
    return SL_OK;
}

static enum status load_metaspace(struct pretokenizer *pretokenizer, const struct json *json,
                                  struct error *err) {
    struct pretokenizer_step step = {.kind = PRETOKENIZER_METASPACE,
                                     .behavior = SPLIT_MERGED_WITH_NEXT};
    TRY(pretokenizer_metaspace(json, WHERE, &step.literal, &step.scheme, err));
    TRY(component_bool(json, WHERE, "split", true, &step.cuts, err));
    return pretokenizer_add(pretokenizer, &step, err);
}

static enum status load_delimiter(struct pretokenizer *pretokenizer, const struct json *json,
                                  struct error *err) {
    struct pretokenizer_step step = {.kind = PRETOKENIZER_LITERAL, .behavior = SPLIT_REMOVED};
    TRY(component_string(json, WHERE, "delimiter", &step.literal, err));
    return pretokenizer_add(pretokenizer, &step, err);
}

static enum status load_step(struct pretokenizer *pretokenizer, const struct json *json,
                             struct str type, struct error *err) {
    if (str_is(type, "Split"))
        return load_split(pretokenizer, json, err);
    if (str_is(type, "ByteLevel"))
        return load_byte_level(pretokenizer, json, err);
    if (str_is(type, "Metaspace"))
        return load_metaspace(pretokenizer, json, err);
    if (str_is(type, "Digits")) {
        bool is_individual = false;
        TRY(component_bool(json, WHERE, "individual_digits", false, &is_individual, err));
        return add_test(pretokenizer, unicode_is_numeric,
                        is_individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, err);
    }
    if (str_is(type, "Punctuation")) {
        enum split_behavior behavior = SPLIT_ISOLATED;
        TRY(load_behavior(json, SPLIT_ISOLATED, &behavior, err));
        return add_test(pretokenizer, unicode_is_punctuation, behavior, err);
    }
    if (str_is(type, "Whitespace"))
        return pretokenizer_add_regex(pretokenizer, str_from(words_regex), SPLIT_REMOVED, true,
                                      err);
    if (str_is(type, "WhitespaceSplit"))
        return add_test(pretokenizer, unicode_is_space, SPLIT_REMOVED, err);
    if (str_is(type, "BertPreTokenizer")) {
        TRY(add_test(pretokenizer, unicode_is_space, SPLIT_REMOVED, err));
        return add_test(pretokenizer, unicode_is_punctuation, SPLIT_ISOLATED, err);
    }
    if (str_is(type, "CharDelimiterSplit"))
        return load_delimiter(pretokenizer, json, err);
    return component_refuse(WHERE, type, err);
}

/* Recursion is bounded by SL_COMPONENT_DEPTH_MAX. */
static enum status load_at(struct pretokenizer *pretokenizer, const struct json *json,
                           unsigned depth, struct error *err) {
    struct str type;
    TRY(component_type(json, WHERE, &type, err));
    if (!str_is(type, "Sequence"))
        return load_step(pretokenizer, json, type, err);
    if (depth == SL_COMPONENT_DEPTH_MAX)
        return error_set(err, SL_ERR_ENV, "the %s is nested too deep", WHERE);
    const struct json *list;
    TRY(component_list(json, WHERE, "pretokenizers", &list, err));
    for (uint32_t i = 0; i < list->count; i++)
        TRY(load_at(pretokenizer, &list->items[i], depth + 1, err));
    return SL_OK;
}

enum status pretokenizer_load(struct pretokenizer *pretokenizer, const struct json *json,
                              struct error *err) {
    if (!json || json_is(json, JSON_NULL))
        return SL_OK;
    return load_at(pretokenizer, json, 0, err);
}
