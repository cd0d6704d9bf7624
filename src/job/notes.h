/* What is told of a whole file of rows and not of one: ids that stand twice, unknown members, lone
 * surrogates. For `run`, `plan` and `render` alike. One thread. */
#ifndef SLUICE_JOB_NOTES_H
#define SLUICE_JOB_NOTES_H

#include "base/map.h"
#include "job/row.h"
#include "job/rows_file.h"

struct notes {
    struct buf unknown; /* names of members, for row_parse */
    struct arena ids;   /* the ids seen, as keys of the map */
    struct map seen;
    bool has_lone_surrogates;
};

void notes_init(struct notes *notes);
void notes_release(struct notes *notes);
/* The index-th row has been read, be it an error: SL_ERR_INPUT when its id is that of an earlier
 * one (both lines named). */
enum status notes_add(struct notes *notes, const struct rows_file *rows, size_t index,
                      const struct row *row, struct error *err);
/* One warning for each kind of thing that was noted. */
void notes_warn(const struct notes *notes);

#endif
