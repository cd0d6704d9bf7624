/* Siblings: other forms of a model that somebody has fetched, in SLUICE_HOME/models or in the
 * Hugging Face cache. The same model is one of the same family with as many layers, features, heads
 * and tokens. Reads headers alone. One thread. */
#ifndef SLUICE_PLAN_SIBLING_H
#define SLUICE_PLAN_SIBLING_H

#include "model/model.h"
#include "plan/settings.h"

#include <limits.h>

struct sibling {
    char path[PATH_MAX]; /* empty: there is none */
    char formats[64];
    uint64_t bytes;
};

/* The smallest form of about so many bits a value (8 or 4) that can be used, of equal ones the
 * first by name. What cannot be read is none. SL_ERR_ENV when memory is out. */
enum status sibling_find(const struct model *model, const struct settings *settings, int bits,
                         struct sibling *out, struct error *err);

#endif
