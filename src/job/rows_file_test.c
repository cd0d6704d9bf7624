/* Where the lines of a file lie. */
#include "job/rows_file.h"

#include "job/row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/sluice-rows-XXXXXX";

static int make_path(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static void write_bytes(const char *text, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void assert_row(const struct rows_file *rows, size_t index, uint64_t number,
                       const char *text) {
    struct buf line;
    buf_init(&line);
    assert_true(index < rows->count);
    assert_int_equal(rows->lines[index].number, number);
    assert_int_equal(rows_file_read(rows, index, &line, NULL), SL_OK);
    assert_string_equal(line.data, text);
    buf_release(&line);
}

static void lines_are_physical_and_blank_ones_are_skipped(void **state) {
    (void)state;
    struct rows_file rows;
    static const char text[] = "\xEF\xBB\xBF"
                               "a\r\n\n \t\r\n\r\nbb\nc c"; /* no LF at the end */
    write_bytes(text, sizeof text - 1);
    assert_int_equal(rows_file_open(path, 0, 0, 0, &rows, NULL), SL_OK);
    assert_int_equal(rows.count, 3);
    assert_row(&rows, 0, 1, "a");
    assert_row(&rows, 1, 5, "bb");
    assert_row(&rows, 2, 6, "c c");
    rows_file_close(&rows);
}

static void empty_files_have_no_rows(void **state) {
    (void)state;
    static const char *const texts[] = {"", "\n", "\xEF\xBB\xBF", "\xEF\xBB\xBF\r\n\n", "  "};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct rows_file rows;
        write_bytes(texts[i], strlen(texts[i]));
        assert_int_equal(rows_file_open(path, 0, 0, 0, &rows, NULL), SL_OK);
        assert_int_equal(rows.count, 0);
        rows_file_close(&rows);
    }
}

static void limit_and_shard_choose_rows(void **state) {
    (void)state;
    struct rows_file rows;
    write_bytes("1\n\n3\n4\n5\n6\n", 11);
    assert_int_equal(rows_file_open(path, 4, 2, 2, &rows, NULL), SL_OK); /* of 1 3 4 5: 3 5 */
    assert_int_equal(rows.count, 2);
    assert_row(&rows, 0, 3, "3");
    assert_row(&rows, 1, 5, "5");
    rows_file_close(&rows);
    assert_int_equal(rows_file_open(path, 0, 3, 3, &rows, NULL), SL_OK); /* of 1 3 4 5 6: 4 */
    assert_int_equal(rows.count, 1);
    assert_row(&rows, 0, 4, "4");
    rows_file_close(&rows);
}

static void lines_longer_than_a_window_are_whole(void **state) {
    (void)state;
    struct rows_file rows;
    enum { LONG = 700000 };
    char *text = malloc(LONG + 3);
    assert_non_null(text);
    memset(text, 'x', LONG);
    memcpy(text + LONG, "\ny", 3);
    write_bytes(text, LONG + 2);
    text[LONG] = '\0';
    assert_int_equal(rows_file_open(path, 0, 0, 0, &rows, NULL), SL_OK);
    assert_int_equal(rows.count, 2);
    assert_row(&rows, 0, 1, text);
    assert_row(&rows, 1, 2, "y");
    rows_file_close(&rows);
    free(text);
}

static void line_above_the_limit_is_its_own_error(void **state) {
    (void)state;
    struct rows_file rows;
    struct buf line;
    struct error err;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)SL_LINE_MAX, SEEK_SET), 0); /* NULs, sparse */
    assert_int_equal(fwrite("x\nb", 1, 3, file), 3);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rows_file_open(path, 0, 0, 0, &rows, NULL), SL_OK);
    assert_int_equal(rows.count, 2);
    buf_init(&line);
    assert_int_equal(rows_file_read(&rows, 0, &line, &err), SL_ERR_ROW);
    assert_non_null(strstr(err.text, "64 MiB"));
    buf_release(&line);
    assert_row(&rows, 1, 2, "b");
    rows_file_close(&rows);
}

static void what_is_no_file_is_refused(void **state) {
    (void)state;
    struct rows_file rows;
    struct error err;
    assert_int_equal(rows_file_open("/no-such/rows.jsonl", 0, 0, 0, &rows, &err), SL_ERR_INPUT);
    assert_non_null(strstr(err.text, "/no-such/rows.jsonl"));
    assert_int_equal(err.status, SL_ERR_INPUT);
    assert_int_equal(rows_file_open("/tmp", 0, 0, 0, &rows, &err), SL_ERR_INPUT);
    assert_non_null(strstr(err.text, "/tmp"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_physical_and_blank_ones_are_skipped),
        cmocka_unit_test(empty_files_have_no_rows),
        cmocka_unit_test(limit_and_shard_choose_rows),
        cmocka_unit_test(lines_longer_than_a_window_are_whole),
        cmocka_unit_test(line_above_the_limit_is_its_own_error),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
