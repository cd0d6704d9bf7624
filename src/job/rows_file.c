/* Owns the places of the lines of a rows file: one look through the file finds them, rows are read
 * when they are needed. Refuses what is no regular file; what is in a line is row.c's matter. */
#include "job/rows_file.h"

#include "base/mem.h"
#include "job/row.h"

#include <sys/stat.h>
#include <unistd.h>

#define WINDOW_BYTES ((size_t)256 << 10)

/* State of the look through the file. */
struct scan {
    struct line line;
    bool has_content;  /* other than white space */
    bool ends_with_cr; /* the last byte so far */
    uint64_t hash;     /* of the line so far */
    uint64_t seen;     /* rows before --limit and --shard */
    uint64_t limit, shard_index, shard_count;
};

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static enum status end_line(struct rows_file *rows, struct scan *scan, struct error *err) {
    if (scan->has_content) {
        uint64_t number = scan->seen++;
        bool is_ours =
            (scan->limit == 0 || number < scan->limit) &&
            (scan->shard_count == 0 || number % scan->shard_count == scan->shard_index - 1);
        if (is_ours) {
            struct line line = scan->line;
            line.bytes -= scan->ends_with_cr ? 1 : 0;
            if (!mem_grow((void **)&rows->lines, &rows->cap, rows->count + 1, sizeof line))
                return error_memory(err, (rows->count + 1) * sizeof line, "the places of the rows");
            rows->lines[rows->count++] = line;
            rows->hash = mix(mix(rows->hash, line.number), scan->hash);
        }
    }
    scan->line.offset += scan->line.bytes + 1;
    scan->line.bytes = 0;
    scan->line.number++;
    scan->hash = 0;
    scan->has_content = scan->ends_with_cr = false;
    return SL_OK;
}

static enum status scan_window(struct rows_file *rows, struct scan *scan, struct str window,
                               struct error *err) {
    size_t begin = 0; /* of the line's part in this window */
    for (size_t i = 0; i < window.len; i++) {
        char c = window.data[i];
        if (c == '\n') {
            scan->hash = mix(scan->hash, str_hash(str_cut(window, begin, i)));
            begin = i + 1;
            TRY(end_line(rows, scan, err));
            continue;
        }
        scan->line.bytes++;
        scan->ends_with_cr = c == '\r';
        scan->has_content = scan->has_content || (c != ' ' && c != '\t' && c != '\r');
    }
    if (begin < window.len)
        scan->hash = mix(scan->hash, str_hash(str_cut(window, begin, window.len)));
    return SL_OK;
}

static enum status scan_file(struct rows_file *rows, struct scan *scan, struct error *err) {
    static const struct str bom = {"\xEF\xBB\xBF", 3};
    enum status status = SL_OK;
    char *window = mem_new(1, WINDOW_BYTES);
    if (window == NULL)
        return error_memory(err, WINDOW_BYTES, "reading the rows");
    for (uint64_t at = 0; status == SL_OK && at < rows->file->bytes;) {
        uint64_t left = rows->file->bytes - at;
        size_t bytes = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        status = file_read_at(rows->file, at, window, bytes, err);
        struct str text = {window, bytes};
        if (at == 0 && str_starts(text, bom)) {
            text = str_cut(text, bom.len, text.len);
            scan->line.offset = bom.len;
        }
        if (status == SL_OK)
            status = scan_window(rows, scan, text, err);
        at += bytes;
    }
    if (status == SL_OK && scan->line.bytes > 0)
        status = end_line(rows, scan, err);
    mem_free(window);
    return status;
}

/* A wrong path is the user's input; what goes wrong with a right one is not. */
static enum status open_file(const char *path, struct file **file, struct error *err) {
    struct stat info;
    enum status status = file_open(path, false, file, err);
    if (status == SL_OK ||
        (stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, R_OK) == 0))
        return status;
    if (err != NULL)
        err->status = SL_ERR_INPUT;
    return SL_ERR_INPUT;
}

enum status rows_file_open(const char *path, uint64_t limit, uint64_t shard_index,
                           uint64_t shard_count, struct rows_file *rows, struct error *err) {
    struct rows_file made = {.line_bytes_max = SL_LINE_MAX};
    struct scan scan = {
        .line.number = 1, .limit = limit, .shard_index = shard_index, .shard_count = shard_count};
    must(shard_count == 0 || (shard_index >= 1 && shard_index <= shard_count));
    enum status status = open_file(path, &made.file, err);
    if (status == SL_OK)
        status = scan_file(&made, &scan, err);
    if (status != SL_OK) {
        rows_file_close(&made);
        return status;
    }
    *rows = made;
    return SL_OK;
}

void rows_file_close(struct rows_file *rows) {
    file_close(rows->file);
    mem_free(rows->lines);
    *rows = (struct rows_file){0};
}

enum status rows_file_read(const struct rows_file *rows, size_t index, struct buf *buf,
                           struct error *err) {
    must(index < rows->count);
    const struct line *line = &rows->lines[index];
    buf_clear(buf);
    if (line->bytes > SL_LINE_MAX)
        return error_set(err, SL_ERR_ROW, "the line has %llu bytes, more than 64 MiB",
                         (unsigned long long)line->bytes);
    if (line->bytes > rows->line_bytes_max)
        return error_set(err, SL_ERR_ROW,
                         "the line has %llu bytes, more than the %llu that the memory budget "
                         "leaves for a row (--memory)",
                         (unsigned long long)line->bytes, (unsigned long long)rows->line_bytes_max);
    size_t bytes = (size_t)line->bytes;
    if (!mem_grow((void **)&buf->data, &buf->cap, bytes + 1, 1))
        return error_memory(err, bytes + 1, "a row");
    TRY(file_read_at(rows->file, line->offset, buf->data, bytes, err));
    buf->data[bytes] = '\0';
    buf->len = bytes;
    return SL_OK;
}
