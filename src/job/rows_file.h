/* The rows file: where each line lies, so that rows are read when they are needed and not all held.
 * One thread. */
#ifndef SLUICE_JOB_ROWS_FILE_H
#define SLUICE_JOB_ROWS_FILE_H

#include "base/str.h"
#include "io/file.h"

struct line {
    uint64_t offset;
    uint64_t bytes;  /* without LF and CR */
    uint64_t number; /* physical, from 1 */
};

struct rows_file {
    struct file *file;
    struct line *lines; /* not blank; after --limit and --shard */
    size_t count, cap;
    uint64_t hash;           /* of those lines, all their bytes and numbers */
    uint64_t line_bytes_max; /* of a line that is read; rows_file_open sets SL_LINE_MAX */
};

/* SL_ERR_INPUT when path is missing or no regular file. A BOM is skipped. limit 0: all; shard_count
 * 0: all. */
enum status rows_file_open(const char *path, uint64_t limit, uint64_t shard_index,
                           uint64_t shard_count, struct rows_file *rows, struct error *err);
void rows_file_close(struct rows_file *rows);
/* The text of a line into buf (emptied first). SL_ERR_ROW for a line above
 * line_bytes_max. */
enum status rows_file_read(const struct rows_file *rows, size_t index, struct buf *buf,
                           struct error *err);

#endif
