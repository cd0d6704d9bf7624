/* Feeds a pattern (up to the first NUL) and a text (the rest) to regexes. Any answer will do;
 * matches that overlap, run backwards or cut characters will not. */
#include "text/regex.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct regex *regex, struct str text) {
    struct regex_scan scan;
    struct error err = {0};
    bool is_found = true;
    size_t done = 0;
    regex_scan_init(&scan, regex);
    enum status status = regex_scan_begin(&scan, text, &err);
    for (size_t matches = 0; status == SL_OK && matches <= text.len + 1; matches++) {
        size_t from, to;
        status = regex_scan_next(&scan, &is_found, &from, &to, &err);
        if (status != SL_OK || !is_found)
            break;
        must(done <= from && from <= to && to <= text.len);
        must(utf8_valid_len(str_cut(text, from, to)) == to - from);
        done = to;
    }
    must(!is_found);
    must(status == SL_OK || (status == SL_ERR_ROW && err.text[0] != '\0'));
    regex_scan_release(&scan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct str input = {(const char *)data, size};
    size_t end = str_find(input, STR("\0"), 0);
    struct str text = end == SIZE_MAX ? STR("") : str_cut(input, end + 1, size);
    struct regex *regex = NULL;
    struct error err = {0};
    struct buf valid;
    enum status status = regex_new(str_cut(input, 0, end), &regex, &err);
    must(status == SL_OK || (status == SL_ERR_ENV && !regex && err.text[0] != '\0'));
    buf_init(&valid);
    utf8_add_lossy(&valid, text); /* the caller's duty */
    if (status == SL_OK)
        walk(regex, buf_str(&valid));
    buf_release(&valid);
    regex_free(regex);
    return 0;
}
