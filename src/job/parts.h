/* Parts: what the engine computes of a row. A question has one, its prompt; a row to be scored has
 * one for each of its choices: the tokens of its context, the same in all of them, and then those
 * of the choice. Any thread. */
#ifndef SLUICE_JOB_PARTS_H
#define SLUICE_JOB_PARTS_H

#include "job/prompt.h"

struct part {
    size_t first, count; /* of the ids */
    size_t context;      /* tokens before those that are scored, at least one; 0: a question */
};

struct parts {
    struct part *items;
    size_t count, cap;
};

void parts_release(struct parts *parts);
/* ids gets the tokens of all parts, one after the other. SL_ERR_ROW as prompt_make, and for a
 * choice that has no tokens. */
enum status parts_make(const struct model *model, const struct settings *settings,
                       const struct row *row, struct ids *ids, struct parts *parts,
                       struct error *err);

#endif
