/* Owns the text of errors: formatting, cutting to size, and making bytes from hostile files safe to
 * show. Refuses to decide what a failure means: that is the caller's status. */
#include "base/status.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the text before a character that the cut at the buffer's end has split, and cleans it. */
static void finish_text(struct error *err, bool is_cut) {
    struct str text = str_from(err->text);
    if (is_cut)
        err->text[text.len - utf8_open_tail(text)] = '\0';
    str_clean(err->text);
}

enum status(error_set)(struct error *err, enum status status, const char *format, ...) {
    if (!err)
        return status;
    char text[sizeof err->text]; /* aside, for the arguments may point into err->text */
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(err->text, text, sizeof text);
    err->status = status;
    if (wanted < 0)
        err->text[0] = '\0';
    finish_text(err, wanted >= (int)sizeof text);
    return status;
}

enum status error_prefix(struct error *err, const char *format, ...) {
    if (!err)
        return SL_ERR_ENV; /* nobody told us the status; the least wrong one */
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    int prefix = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (prefix < 0)
        return err->status;
    size_t used = (size_t)prefix < sizeof text ? (size_t)prefix : sizeof text - 1;
    int rest = snprintf(text + used, sizeof text - used, ": %s", err->text);
    memcpy(err->text, text, sizeof text);
    finish_text(err, rest < 0 || used + (size_t)rest >= sizeof text);
    return err->status;
}

enum status(error_memory)(struct error *err, size_t bytes, const char *what) {
    return error_set(err, SL_ERR_ENV, "out of memory (needed %zu bytes for %s)", bytes, what);
}

void must_fail(const char *condition, const char *file, int line) {
    fprintf(stderr, "sluice: a mistake of ours at %s:%d: must(%s) does not hold\n", file, line,
            condition);
    abort();
}
