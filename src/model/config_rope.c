/* Rotary settings of config.json. Published in two styles: `rope_theta` beside `rope_scaling` (null
 * or an object), and one object `rope_parameters` with the base inside (transformers 5), which may
 * hold an object for each layer type. A base inside an object wins over one outside (CASES 32).
 * Refuses, by name, every type and member that it does not understand: short prompts would look
 * right and long ones decay. Facts: transformers' modeling_rope_utils.py. */
#include "base/log.h"
#include "model/arch.h"

#define ROPE_THETA_DEFAULT 10000.0 /* of most config classes */

static bool rope_is_set(const struct json *value) {
    return value != NULL && !json_is(value, JSON_NULL);
}

static enum status rope_number(const struct json *rope, const char *member, const char *name,
                               double *out, struct error *err) {
    const struct json *value = json_get(rope, member);
    double number = 0;
    if (!json_double(value, &number) || !(number > 0))
        return error_set(err, SL_ERR_ENV, "%s: rope member %s is %s", name, member,
                         value == NULL ? "missing" : "not a positive number");
    *out = number;
    return SL_OK;
}

/* Left alone when the member is absent or null. */
static enum status rope_optional(const struct json *rope, const char *member, const char *name,
                                 double *out, struct error *err) {
    return rope_is_set(json_get(rope, member)) ? rope_number(rope, member, name, out, err) : SL_OK;
}

/* What reads one object of settings. */
struct rope_reader {
    const struct json *config;
    const struct arch *arch;
    const char *name;
    struct config *out;
};

/* A member of a list that families understand or do not (arch.settings): how three kinds of
 * positions share the pairs, which are all the same in text. */
static bool rope_is_setting(const struct arch *arch, struct str member) {
    static const char *const special[] = {"mrope_section", "mrope_interleaved", NULL};
    for (const char *const *word = special; *word != NULL; word++)
        if (str_is(member, *word) && arch_has_setting(arch, *word))
            return true;
    return false;
}

/* Members that are understood, or change nothing for these types. */
static enum status rope_check_members(const struct rope_reader *reader, const struct json *rope,
                                      enum rope_kind kind, struct error *err) {
    static const char *const known[] = {"rope_type",
                                        "type",
                                        "rope_theta",
                                        "partial_rotary_factor",
                                        "original_max_position_embeddings",
                                        NULL};
    static const char *const own[ROPE_KINDS][9] = {
        [ROPE_DEFAULT] = {NULL},
        [ROPE_LINEAR] = {"factor"},
        [ROPE_LLAMA3] = {"factor", "low_freq_factor", "high_freq_factor"},
        [ROPE_YARN] = {"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
                       "attention_factor", "truncate"},
        [ROPE_LONGROPE] = {"factor", "long_factor", "short_factor", "attention_factor"},
        [ROPE_PROPORTIONAL] = {"factor"},
    };
    for (uint32_t i = 0; i < rope->count; i++) {
        const struct json_member *member = &rope->members[i];
        double value = 0;
        bool is_known = !rope_is_set(&member->value);
        for (const char *const *word = known; *word != NULL; word++)
            is_known |= str_is(member->name, *word);
        for (const char *const *word = own[kind]; *word != NULL; word++)
            is_known |= str_is(member->name, *word);
        /* A factor of one says nothing, whatever it multiplies. */
        if (str_is(member->name, "factor") || str_is(member->name, "attention_factor") ||
            str_is(member->name, "attn_factor") || str_is(member->name, "extrapolation_factor"))
            is_known |= json_double(&member->value, &value) && value == 1.0;
        if (str_is(member->name, "finetuned")) /* of the first yarn models; a remark */
            is_known |= json_is(&member->value, JSON_TRUE) || json_is(&member->value, JSON_FALSE);
        if (str_is(member->name, "llama_4_scaling_beta") || /* the family reads it */
            str_is(member->name, "max_position_embeddings"))
            is_known |= arch_has_setting(reader->arch, "llama_4_scaling_beta");
        is_known = is_known || rope_is_setting(reader->arch, member->name);
        if (!is_known)
            return error_set(err, SL_ERR_ENV, "%s: rope member %.*s is not supported", reader->name,
                             STR_ARG(member->name));
    }
    return SL_OK;
}

static enum status rope_yarn(const struct rope_reader *reader, const struct json *rope,
                             struct rope_config *out, struct error *err) {
    const char *name = reader->name;
    const struct json *truncate = json_get(rope, "truncate");
    bool truncates = true;
    out->beta_fast = 32;
    out->beta_slow = 1;
    out->original_context = reader->out->context;
    TRY(rope_optional(rope, "beta_fast", name, &out->beta_fast, err));
    TRY(rope_optional(rope, "beta_slow", name, &out->beta_slow, err));
    TRY(rope_optional(rope, "mscale", name, &out->mscale, err));
    TRY(rope_optional(rope, "mscale_all_dim", name, &out->mscale_all_dim, err));
    TRY(rope_optional(rope, "attention_factor", name, &out->attention_factor, err));
    if (rope_is_set(truncate) && !json_bool(truncate, &truncates))
        return error_set(err, SL_ERR_ENV, "%s: rope member truncate is not true or false", name);
    out->keeps_fractions = !truncates;
    return rope_optional(rope, "original_max_position_embeddings", name, &out->original_context,
                         err);
}

/* A list of divisors, copied. */
static enum status rope_factors(const struct rope_reader *reader, const struct json *rope,
                                const char *member, const double **out, struct rope_config *config,
                                struct error *err) {
    const struct json *list = json_get(rope, member);
    if (!json_is(list, JSON_ARRAY) || list->count == 0 || list->count > SL_FEATURES_MAX ||
        (config->factor_count != 0 && list->count != config->factor_count))
        return error_set(err, SL_ERR_ENV,
                         "%s: rope member %s is not a list of one number for each rotated pair",
                         reader->name, member);
    double *numbers = arena_array(&reader->out->arena, list->count, sizeof *numbers);
    if (numbers == NULL)
        return error_memory(err, list->count * sizeof *numbers, "the rope's factors");
    for (uint32_t i = 0; i < list->count; i++)
        if (!json_double(&list->items[i], &numbers[i]))
            return error_set(err, SL_ERR_ENV, "%s: %s[%u] is not a number", reader->name, member,
                             i);
    config->factor_count = list->count;
    *out = numbers;
    return SL_OK;
}

/* Phi-3 gives the positions of training beside the rope settings, and then the factor that the
 * attention factor follows from is the ratio of both contexts, whatever `factor` says. */
static enum status rope_longrope(const struct rope_reader *reader, const struct json *rope,
                                 struct rope_config *out, struct error *err) {
    static const char member[] = "original_max_position_embeddings";
    double context = reader->out->context;
    out->original_context = context;
    TRY(rope_optional(rope, member, reader->name, &out->original_context, err));
    TRY(rope_optional(reader->config, member, reader->name, &out->original_context, err));
    TRY(rope_optional(rope, "factor", reader->name, &out->factor, err));
    TRY(rope_optional(rope, "attention_factor", reader->name, &out->attention_factor, err));
    TRY(rope_factors(reader, rope, "long_factor", &out->long_factors, out, err));
    TRY(rope_factors(reader, rope, "short_factor", &out->short_factors, out, err));
    if (rope_is_set(json_get(reader->config, member)) || out->factor == 0)
        out->factor = context / out->original_context;
    if (out->factor < 1.0)
        out->factor = 1.0;
    return SL_OK;
}

static enum status rope_kind_from(const struct json *rope, const char *name, enum rope_kind *out,
                                  struct error *err) {
    const struct json *type = json_get(rope, "rope_type");
    struct str word = STR("default");
    if (!rope_is_set(type))
        type = json_get(rope, "type");
    if (rope_is_set(type) && !json_string(type, &word))
        return error_set(err, SL_ERR_ENV, "%s: rope_type is not a text", name);
    if (str_is(word, "su")) /* the first name of longrope */
        word = STR("longrope");
    for (int kind = 0; kind < ROPE_KINDS; kind++)
        if (str_is(word, rope_word((enum rope_kind)kind))) {
            *out = (enum rope_kind)kind;
            return SL_OK;
        }
    return error_set(err, SL_ERR_ENV,
                     "%s: rope type \"%.*s\" is not supported (there is: default, linear, llama3, "
                     "yarn, longrope, proportional)",
                     name, STR_ARG(word));
}

/* One object of settings; leaves theta and share alone when the object has none. */
static enum status rope_from_object(const struct rope_reader *reader, const struct json *rope,
                                    struct rope_config *out, struct error *err) {
    const char *name = reader->name;
    if (!json_is(rope, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "%s: the rope settings are not an object", name);
    TRY(rope_kind_from(rope, name, &out->kind, err));
    TRY(rope_check_members(reader, rope, out->kind, err));
    if (out->kind == ROPE_PROPORTIONAL) {
        out->factor = 1;
        TRY(rope_optional(rope, "factor", name, &out->factor, err));
    } else if (out->kind != ROPE_DEFAULT && out->kind != ROPE_LONGROPE) {
        TRY(rope_number(rope, "factor", name, &out->factor, err));
    }
    if (out->kind == ROPE_LLAMA3) {
        TRY(rope_number(rope, "low_freq_factor", name, &out->low_freq_factor, err));
        TRY(rope_number(rope, "high_freq_factor", name, &out->high_freq_factor, err));
        TRY(rope_number(rope, "original_max_position_embeddings", name, &out->original_context,
                        err));
    }
    if (out->kind == ROPE_YARN)
        TRY(rope_yarn(reader, rope, out, err));
    if (out->kind == ROPE_LONGROPE)
        TRY(rope_longrope(reader, rope, out, err));
    TRY(rope_optional(rope, "partial_rotary_factor", name, &out->share, err));
    return rope_optional(rope, "rope_theta", name, &out->theta, err);
}

/* rope_parameters with an object for each layer type. */
static bool rope_is_by_layer(const struct json *rope) {
    return json_is(rope, JSON_OBJECT) && rope->count > 0 && json_get(rope, "rope_type") == NULL &&
           json_is(&rope->members[0].value, JSON_OBJECT);
}

static bool rope_is_same(const struct rope_config *a, const struct rope_config *b) {
    return a->kind == b->kind && a->factor == b->factor &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->original_context == b->original_context && a->beta_fast == b->beta_fast &&
           a->beta_slow == b->beta_slow && a->attention_factor == b->attention_factor &&
           a->mscale == b->mscale && a->mscale_all_dim == b->mscale_all_dim;
}

static enum status rope_by_layer(const struct rope_reader *reader, const struct json *rope,
                                 struct error *err) {
    static const char full[] = "full_attention", sliding[] = "sliding_attention";
    struct config *out = reader->out;
    for (uint32_t i = 0; i < rope->count; i++)
        if (!str_is(rope->members[i].name, full) && !str_is(rope->members[i].name, sliding))
            return error_set(err, SL_ERR_ENV,
                             "%s: rope settings for layers of type %.*s are not supported",
                             reader->name, STR_ARG(rope->members[i].name));
    if (rope_is_set(json_get(rope, full)))
        TRY(rope_from_object(reader, json_get(rope, full), &out->rope, err));
    if (!rope_is_set(json_get(rope, sliding)))
        return SL_OK;
    out->has_window_rope = true;
    return rope_from_object(reader, json_get(rope, sliding), &out->window_rope, err);
}

/* The base and the share that hold where an object has none of its own. */
static void rope_complete(const struct rope_reader *reader, const struct rope_config *outside,
                          double theta_default, struct rope_config *rope) {
    if (rope->share == 0)
        rope->share = outside->share;
    if (rope->theta == 0)
        rope->theta = outside->theta;
    else if (outside->theta != 0 && outside->theta != rope->theta && !reader->out->has_window_rope)
        log_warning("%s: rope_theta is given twice; the %g inside the rope settings is used, not "
                    "the %g outside",
                    reader->name, rope->theta, outside->theta);
    if (rope->theta != 0)
        return;
    if (theta_default == ROPE_THETA_DEFAULT) /* else the family's own, which its files rely on */
        log_warning("%s: no rope_theta, %g is used", reader->name, theta_default);
    rope->theta = theta_default;
}

static enum status rope_check_share(const struct rope_reader *reader, const struct arch *arch,
                                    struct error *err) {
    const struct rope_config *ropes[2] = {&reader->out->rope, &reader->out->window_rope};
    for (int i = 0; i < 2; i++)
        if (ropes[i]->share > 1.0 ||
            (ropes[i]->share > 0 && ropes[i]->share < 1.0 && !arch->has_partial_rope))
            return error_set(err, SL_ERR_ENV,
                             "%s: partial_rotary_factor %g is not supported for family %s",
                             reader->name, ropes[i]->share, arch->name);
    return SL_OK;
}

enum status config_rope_from_json(const struct json *config, const char *name,
                                  const struct arch *arch, struct config *out, struct error *err) {
    const struct json *scaling = json_get(config, "rope_scaling");
    const struct json *parameters = json_get(config, "rope_parameters");
    struct rope_reader reader = {.config = config, .arch = arch, .name = name, .out = out};
    struct rope_config outside = {.theta = 0}, old = {.theta = 0};
    double theta = arch->defaults.rope_theta != 0 ? arch->defaults.rope_theta : ROPE_THETA_DEFAULT;
    TRY(rope_optional(config, "partial_rotary_factor", name, &outside.share, err));
    TRY(rope_optional(config, "rope_theta", name, &outside.theta, err));
    if (rope_is_set(scaling))
        TRY(rope_from_object(&reader, scaling, &old, err));
    if (rope_is_set(parameters) && rope_is_by_layer(parameters))
        TRY(rope_by_layer(&reader, parameters, err));
    else if (rope_is_set(parameters))
        TRY(rope_from_object(&reader, parameters, &out->rope, err));
    else
        out->rope = old;
    if (rope_is_set(scaling) && rope_is_set(parameters) && !rope_is_same(&old, &out->rope))
        return error_set(err, SL_ERR_ENV, "%s: rope_scaling and rope_parameters disagree", name);
    if (out->rope.theta == 0)
        out->rope.theta = old.theta;
    rope_complete(&reader, &outside, theta, &out->rope);
    if (out->has_window_rope)
        rope_complete(&reader, &outside, theta, &out->window_rope);
    if (out->has_window_rope && !arch->has_window_rope)
        return error_set(err, SL_ERR_ENV,
                         "%s: rope settings for each layer type (full_attention, "
                         "sliding_attention) are not supported for family %s",
                         name, arch->name);
    return rope_check_share(&reader, arch, err);
}
