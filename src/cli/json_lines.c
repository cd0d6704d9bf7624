/* Owns the way from a file of JSON lines to their trees. Holds the whole file: for results and
 * metrics, not for rows, which job/rows_file.h reads. */
#include "cli/json_lines.h"

#include "io/file.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)
#define LINE_VALUES_MAX ((size_t)4 << 20)

enum status json_lines_read(const char *path,
                            enum status (*line)(void *ctx, const struct json *tree,
                                                struct error *err),
                            void *ctx, struct error *err) {
    struct buf text;
    buf_init(&text);
    enum status status = file_read_all(path, FILE_BYTES_MAX, &text, err);
    size_t number = 1;
    for (size_t at = 0; status == SL_OK && at < text.len; number++) {
        size_t end = str_find(buf_str(&text), STR("\n"), at);
        end = end == SIZE_MAX ? text.len : end;
        struct str one = str_cut(buf_str(&text), at, end);
        struct arena arena;
        struct json_options options = {.values_max = LINE_VALUES_MAX};
        const struct json *tree;
        at = end + 1;
        if (str_trim(one).len == 0)
            continue;
        arena_init(&arena);
        status = json_parse(&arena, one, &options, &tree, err);
        if (status == SL_OK)
            status = line(ctx, tree, err);
        arena_release(&arena);
        if (status != SL_OK)
            status = error_prefix(err, "%s, line %zu", path, number);
    }
    buf_release(&text);
    return status;
}
