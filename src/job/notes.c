/* Owns what is told of a file of rows as a whole: refuses ids that stand twice, collects what is
 * warned of once. Ids are known by a hash; where two hashes are equal the rows are read again. */
#include "job/notes.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

void notes_init(struct notes *notes) {
    *notes = (struct notes){.has_lone_surrogates = false};
    buf_init(&notes->unknown);
}

void notes_release(struct notes *notes) {
    mem_free(notes->ids);
    buf_release(&notes->unknown);
}

enum status notes_add(struct notes *notes, size_t index, struct str id, bool has_lone_surrogates,
                      struct error *err) {
    if (index > UINT32_MAX)
        return error_set(err, SL_ERR_INPUT, "there are more than 2^32 rows");
    if (!mem_grow((void **)&notes->ids, &notes->cap, notes->count + 1, sizeof *notes->ids))
        return error_memory(err, (notes->count + 1) * sizeof *notes->ids, "the ids of the rows");
    notes->ids[notes->count++] = (struct id_mark){str_hash(id), (uint32_t)index};
    notes->has_lone_surrogates = notes->has_lone_surrogates || has_lone_surrogates;
    return SL_OK;
}

static int compare_marks(const void *a, const void *b) {
    const struct id_mark *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* The id of a row, appended to out. */
static enum status read_id(const struct rows_file *rows, const struct settings *settings,
                           size_t index, struct buf *out, struct error *err) {
    struct buf line;
    struct row row = {0};
    struct error why = {0};
    arena_init(&row.arena);
    buf_init(&line);
    uint64_t number = rows->lines[index].number;
    enum status status = rows_file_read(rows, index, &line, &why);
    if (status == SL_OK)
        status = row_parse(buf_str(&line), number, settings, &row, NULL, &why);
    else if (status == SL_ERR_ROW && row_init(&row, number, NULL) != SL_OK)
        status = error_memory(&why, sizeof row, "a row");
    if (status == SL_OK || status == SL_ERR_ROW) {
        buf_clear(out);
        buf_add(out, row.id_json);
        status = buf_status(out, "an id", &why);
    }
    if (status != SL_OK && err != NULL)
        *err = why;
    row_release(&row);
    buf_release(&line);
    return status;
}

/* The first two of the marks [from, to), which have one hash, that have one id too; *second is the
 * later one's place, or `to`. */
static enum status find_pair(const struct notes *notes, const struct rows_file *rows,
                             const struct settings *settings, size_t range[2], struct buf ids[2],
                             struct error *err) {
    size_t from = range[0], to = range[1];
    for (size_t later = from + 1; later < to; later++) {
        TRY(read_id(rows, settings, notes->ids[later].index, &ids[1], err));
        for (size_t earlier = from; earlier < later; earlier++) {
            TRY(read_id(rows, settings, notes->ids[earlier].index, &ids[0], err));
            if (str_equal(buf_str(&ids[0]), buf_str(&ids[1]))) {
                range[0] = earlier;
                range[1] = later;
                return SL_OK;
            }
        }
    }
    range[0] = range[1];
    return SL_OK;
}

static enum status find_first_pair(const struct notes *notes, const struct rows_file *rows,
                                   const struct settings *settings, struct buf ids[2],
                                   size_t pair[2], struct error *err) {
    pair[0] = pair[1] = SIZE_MAX;
    for (size_t from = 0, to; from < notes->count; from = to) {
        for (to = from + 1; to < notes->count && notes->ids[to].hash == notes->ids[from].hash; to++)
            continue;
        size_t range[2] = {from, to};
        if (to == from + 1 || notes->ids[from + 1].index >= pair[1])
            continue;
        TRY(find_pair(notes, rows, settings, range, ids, err));
        if (range[0] < range[1] && notes->ids[range[1]].index < pair[1]) {
            pair[0] = notes->ids[range[0]].index;
            pair[1] = notes->ids[range[1]].index;
        }
    }
    return SL_OK;
}

enum status notes_check(struct notes *notes, const struct rows_file *rows,
                        const struct settings *settings, struct error *err) {
    struct buf ids[2];
    size_t pair[2];
    buf_init(&ids[0]);
    buf_init(&ids[1]);
    if (notes->count > 0)
        qsort(notes->ids, notes->count, sizeof *notes->ids, compare_marks);
    enum status status = find_first_pair(notes, rows, settings, ids, pair, err);
    if (status == SL_OK && pair[1] != SIZE_MAX)
        status = read_id(rows, settings, pair[1], &ids[1], err);
    if (status == SL_OK && pair[1] != SIZE_MAX)
        status =
            error_set(err, SL_ERR_INPUT, "%s: lines %llu and %llu have the same id %.*s",
                      rows->file->path, (unsigned long long)rows->lines[pair[0]].number,
                      (unsigned long long)rows->lines[pair[1]].number, STR_ARG(buf_str(&ids[1])));
    buf_release(&ids[0]);
    buf_release(&ids[1]);
    return status;
}

void notes_warn(const struct notes *notes) {
    if (notes->unknown.len > 0 && !notes->unknown.has_failed)
        log_warning("rows: members that nothing here knows are ignored: %s", notes->unknown.data);
    if (notes->has_lone_surrogates)
        log_warning("rows: halves of surrogate pairs (such as \\ud800) were read as U+FFFD");
}
