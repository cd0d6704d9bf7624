/* Rotary settings of config.json. Published in two styles: `rope_theta` beside `rope_scaling` (null
 * or an object), and one object `rope_parameters` with the base inside (transformers 5). A base
 * inside an object wins over one outside (CASES 32). Refuses, by name, every type and member that
 * it does not understand: short prompts would look right and long ones decay. */
#include "base/log.h"
#include "base/num.h"
#include "model/config.h"

#define ROPE_THETA_DEFAULT 10000.0 /* of the Llama, Mistral and Qwen config classes */

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

/* Members that are understood, or change nothing for these types. */
static enum status rope_check_members(const struct json *rope, enum rope_kind kind,
                                      const char *name, struct error *err) {
    static const char *const known[] = {"rope_type",
                                        "type",
                                        "rope_theta",
                                        "original_max_position_embeddings",
                                        "partial_rotary_factor",
                                        NULL};
    static const char *const scaled[] = {"factor", NULL};
    static const char *const smoothed[] = {"factor", "low_freq_factor", "high_freq_factor", NULL};
    static const char *const yarn[] = {"factor", "beta_fast",      "beta_slow",        "truncate",
                                       "mscale", "mscale_all_dim", "attention_factor", NULL};
    static const char *const none[] = {NULL};
    static const char *const *const owns[] = {[ROPE_DEFAULT] = none,
                                              [ROPE_LINEAR] = scaled,
                                              [ROPE_LLAMA3] = smoothed,
                                              [ROPE_YARN] = yarn};
    const char *const *own = owns[kind];
    for (uint32_t i = 0; i < rope->count; i++) {
        const struct json_member *member = &rope->members[i];
        double value = 0;
        bool is_known = !rope_is_set(&member->value);
        for (const char *const *word = known; *word != NULL; word++)
            is_known |= str_is(member->name, *word);
        for (const char *const *word = own; *word != NULL; word++)
            is_known |= str_is(member->name, *word);
        /* A factor of one says nothing, whatever it multiplies. */
        if (str_is(member->name, "factor") || str_is(member->name, "partial_rotary_factor") ||
            str_is(member->name, "attention_factor"))
            is_known |= json_double(&member->value, &value) && value == 1.0;
        if (!is_known)
            return error_set(err, SL_ERR_ENV, "%s: rope member %.*s is not supported", name,
                             STR_ARG(member->name));
    }
    return SL_OK;
}

/* A number that may be left out. */
static enum status rope_optional(const struct json *rope, const char *member, const char *name,
                                 double *out, struct error *err) {
    return rope_is_set(json_get(rope, member)) ? rope_number(rope, member, name, out, err) : SL_OK;
}

/* How yarn's cosines grow: 0.1 m ln(factor) + 1. */
static double rope_mscale(double factor, double m) {
    return factor <= 1.0 ? 1.0 : 0.1 * m * num_log(factor) + 1.0;
}

static enum status rope_yarn(const struct json *rope, const char *name, struct rope_config *out,
                             struct error *err) {
    double mscale = 0, all = 0;
    const struct json *truncate = json_get(rope, "truncate");
    out->beta_fast = 32;
    out->beta_slow = 1;
    out->truncates = true;
    TRY(rope_number(rope, "original_max_position_embeddings", name, &out->original_context, err));
    TRY(rope_optional(rope, "beta_fast", name, &out->beta_fast, err));
    TRY(rope_optional(rope, "beta_slow", name, &out->beta_slow, err));
    const struct json *zero = json_get(rope, "mscale_all_dim");
    if (!(json_double(zero, &all) && all == 0))
        TRY(rope_optional(rope, "mscale_all_dim", name, &all, err));
    TRY(rope_optional(rope, "mscale", name, &mscale, err));
    if (rope_is_set(truncate) && !json_bool(truncate, &out->truncates))
        return error_set(err, SL_ERR_ENV, "%s: rope member truncate is not true or false", name);
    out->mscale_all_dim = all;
    out->magnitude = mscale > 0 && all > 0
                         ? rope_mscale(out->factor, mscale) / rope_mscale(out->factor, all)
                         : rope_mscale(out->factor, 1);
    return rope_optional(rope, "attention_factor", name, &out->magnitude, err);
}

/* One object of settings; leaves theta alone when the object has none. */
static enum status rope_from_object(const struct json *rope, const char *name,
                                    struct rope_config *out, struct error *err) {
    if (!json_is(rope, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "%s: the rope settings are not an object", name);
    const struct json *type = json_get(rope, "rope_type");
    if (!rope_is_set(type))
        type = json_get(rope, "type");
    struct str word = STR("default");
    if (rope_is_set(type) && !json_string(type, &word))
        return error_set(err, SL_ERR_ENV, "%s: rope_type is not a text", name);
    if (!rope_is_set(type) && rope->count > 0 && json_is(&rope->members[0].value, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV,
                         "%s: rope settings for each layer type (%.*s, ...) are not supported",
                         name, STR_ARG(rope->members[0].name));
    if (str_is(word, "default"))
        out->kind = ROPE_DEFAULT;
    else if (str_is(word, "linear"))
        out->kind = ROPE_LINEAR;
    else if (str_is(word, "llama3"))
        out->kind = ROPE_LLAMA3;
    else if (str_is(word, "yarn"))
        out->kind = ROPE_YARN;
    else
        return error_set(err, SL_ERR_ENV,
                         "%s: rope type \"%.*s\" is not supported (there is: default, linear, "
                         "llama3, yarn)",
                         name, STR_ARG(word));
    TRY(rope_check_members(rope, out->kind, name, err));
    if (out->kind != ROPE_DEFAULT)
        TRY(rope_number(rope, "factor", name, &out->factor, err));
    if (out->kind == ROPE_YARN)
        TRY(rope_yarn(rope, name, out, err));
    TRY(rope_optional(rope, "partial_rotary_factor", name, &out->share, err));
    if (out->kind == ROPE_LLAMA3) {
        TRY(rope_number(rope, "low_freq_factor", name, &out->low_freq_factor, err));
        TRY(rope_number(rope, "high_freq_factor", name, &out->high_freq_factor, err));
        TRY(rope_number(rope, "original_max_position_embeddings", name, &out->original_context,
                        err));
    }
    if (rope_is_set(json_get(rope, "rope_theta")))
        TRY(rope_number(rope, "rope_theta", name, &out->theta, err));
    return SL_OK;
}

static bool rope_is_same(const struct rope_config *a, const struct rope_config *b) {
    return a->kind == b->kind && a->factor == b->factor &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->original_context == b->original_context && a->beta_fast == b->beta_fast &&
           a->beta_slow == b->beta_slow && a->truncates == b->truncates &&
           a->magnitude == b->magnitude;
}

enum status config_rope_from_json(const struct json *config, const char *name,
                                  struct rope_config *out, struct error *err) {
    const struct json *theta = json_get(config, "rope_theta");
    const struct json *scaling = json_get(config, "rope_scaling");
    const struct json *parameters = json_get(config, "rope_parameters");
    const struct json *partial = json_get(config, "partial_rotary_factor");
    struct rope_config outside = {.theta = 0}, old = {.theta = 0}, new = {.theta = 0};
    double share = 1.0;
    if (rope_is_set(partial) && (!json_double(partial, &share) || !(share > 0 && share <= 1)))
        return error_set(err, SL_ERR_ENV, "%s: partial_rotary_factor is not a number in (0, 1]",
                         name);
    if (rope_is_set(theta))
        TRY(rope_number(config, "rope_theta", name, &outside.theta, err));
    if (rope_is_set(scaling))
        TRY(rope_from_object(scaling, name, &old, err));
    if (rope_is_set(parameters))
        TRY(rope_from_object(parameters, name, &new, err));
    if (rope_is_set(scaling) && rope_is_set(parameters) && !rope_is_same(&old, &new))
        return error_set(err, SL_ERR_ENV, "%s: rope_scaling and rope_parameters disagree", name);
    struct rope_config result = rope_is_set(parameters) ? new : old;
    if (result.theta == 0)
        result.theta = old.theta;
    if (result.theta == 0)
        result.theta = outside.theta;
    else if (outside.theta != 0 && outside.theta != result.theta)
        log_warning("%s: rope_theta is given twice; the %g inside the rope settings is used, not "
                    "the %g outside",
                    name, result.theta, outside.theta);
    if (result.theta == 0) {
        log_note("%s: no rope_theta, %g is used", name, ROPE_THETA_DEFAULT);
        result.theta = ROPE_THETA_DEFAULT;
    }
    if (result.share == 0)
        result.share = share;
    if (result.share > 1)
        return error_set(err, SL_ERR_ENV, "%s: partial_rotary_factor is %g, above 1", name,
                         result.share);
    *out = result;
    return SL_OK;
}
