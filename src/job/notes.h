/* What is told of a whole file of rows and not of one: ids that stand twice, unknown members, lone
 * surrogates. For `run`, `plan` and `render` alike. Keeps 16 bytes a row, not its id. One thread.
 */
#ifndef SLUICE_JOB_NOTES_H
#define SLUICE_JOB_NOTES_H

#include "job/row.h"
#include "job/rows_file.h"

struct id_mark {
    uint64_t hash;
    uint32_t index;
};

struct notes {
    struct buf unknown; /* names of members, for row_parse */
    struct id_mark *ids;
    size_t count, cap;
    bool has_lone_surrogates;
};

void notes_init(struct notes *notes);
void notes_release(struct notes *notes);
/* The index-th row has been read, be it an error. */
enum status notes_add(struct notes *notes, size_t index, struct str id, bool has_lone_surrogates,
                      struct error *err);
/* SL_ERR_INPUT when two of the rows have the same id: both lines named, of several pairs the one
 * that a reader of the file would meet first. Reads those rows again. */
enum status notes_check(struct notes *notes, const struct rows_file *rows,
                        const struct settings *settings, struct error *err);
/* One warning for each kind of thing that was noted. */
void notes_warn(const struct notes *notes);

#endif
