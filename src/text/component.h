/* Reading the components of a tokenizer.json: their types and members, with one wording for what is
 * wrong. `where` names the place for messages ("pre_tokenizer"). All errors are SL_ERR_ENV. */
#ifndef SLUICE_TEXT_COMPONENT_H
#define SLUICE_TEXT_COMPONENT_H

#include "base/json.h"

#define SL_COMPONENT_STEPS_MAX 32u /* in a Sequence, nested ones counted together */
#define SL_COMPONENT_DEPTH_MAX 8u  /* Sequences inside Sequences */

/* The component's "type". */
enum status component_type(const struct json *json, const char *where, struct str *type,
                           struct error *err);
/* A member that is true or false; value_if_absent when it is missing or null. */
enum status component_bool(const struct json *json, const char *where, const char *name,
                           bool value_if_absent, bool *out, struct error *err);
/* A member that must be a string. */
enum status component_string(const struct json *json, const char *where, const char *name,
                             struct str *out, struct error *err);
/* A member that must be an integer from 0 to `most`. */
enum status component_count(const struct json *json, const char *where, const char *name,
                            uint64_t most, uint64_t *out, struct error *err);
/* "pattern": {"String": ".."} or {"Regex": ".."}. */
enum status component_pattern(const struct json *json, const char *where, struct str *pattern,
                              bool *is_regex, struct error *err);
/* The array `name` of a Sequence. */
enum status component_list(const struct json *json, const char *where, const char *name,
                           const struct json **list, struct error *err);
enum status component_refuse(const char *where, struct str type, struct error *err);
/* A copy in the arena. */
enum status component_copy(struct arena *arena, struct str text, struct str *out,
                           struct error *err);

#endif
