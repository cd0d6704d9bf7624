/* Owns what is told of a file of rows as a whole: refuses ids that stand twice, collects what is
 * warned of once. */
#include "job/notes.h"

#include "base/log.h"

#include <string.h>

void notes_init(struct notes *notes) {
    *notes = (struct notes){.has_lone_surrogates = false};
    buf_init(&notes->unknown);
    arena_init(&notes->ids);
    map_init(&notes->seen);
}

void notes_release(struct notes *notes) {
    map_release(&notes->seen);
    arena_release(&notes->ids);
    buf_release(&notes->unknown);
}

enum status notes_add(struct notes *notes, const struct rows_file *rows, size_t index,
                      const struct row *row, struct error *err) {
    struct str id = row->id_json;
    uint32_t other = 0;
    bool was_there = false;
    if (index > UINT32_MAX)
        return error_set(err, SL_ERR_INPUT, "%s has more than 2^32 rows", rows->file->path);
    notes->has_lone_surrogates = notes->has_lone_surrogates || row->has_lone_surrogates;
    char *copy = arena_take(&notes->ids, id.len);
    if (copy == NULL)
        return error_memory(err, id.len, "the ids of the rows");
    memcpy(copy, id.data, id.len);
    if (!map_put(&notes->seen, (struct str){copy, id.len}, (uint32_t)index, &other, &was_there))
        return error_memory(err, (index + 1) * sizeof(struct str), "the ids of the rows");
    if (was_there)
        return error_set(err, SL_ERR_INPUT, "%s: lines %llu and %llu have the same id %.*s",
                         rows->file->path, (unsigned long long)rows->lines[other].number,
                         (unsigned long long)rows->lines[index].number, STR_ARG(id));
    return SL_OK;
}

void notes_warn(const struct notes *notes) {
    if (notes->unknown.len > 0 && !notes->unknown.has_failed)
        log_warning("rows: members that nothing here knows are ignored: %s", notes->unknown.data);
    if (notes->has_lone_surrogates)
        log_warning("rows: halves of surrogate pairs (such as \\ud800) were read as U+FFFD");
}
