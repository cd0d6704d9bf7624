/* Status and error: how a failure travels from where it happens to the one place that prints it.
 *
 * A function that the outside world can make fail returns `enum status`, takes `struct error *err`
 * last and fills it with what, where and the value seen. TRY passes a failure up unchanged. Only
 * cli/ turns a status into an exit code. `must` is for our own mistakes: always on, prints, aborts.
 * Thread rule: an error belongs to the thread that filled it until it is handed over. */
#ifndef SLUICE_BASE_STATUS_H
#define SLUICE_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum status {
    SL_OK = 0,
    SL_ERR_USAGE,   /* wrong options; exit 2 */
    SL_ERR_INPUT,   /* rows, another fingerprint, a foreign output file; exit 2 */
    SL_ERR_ENV,     /* model unreadable or not supported, disk full, no memory; exit 3 */
    SL_ERR_ROW,     /* this row alone; the job goes on */
    SL_ERR_STOPPED, /* a signal or the time box; exit 130 or 143 */
};

struct error {
    enum status status;
    char text[600]; /* one sentence, UTF-8, no final newline, always terminated */
};

/* Fills err (may be NULL) and returns status, so that `return error_set(...)` works. Control bytes
 * and invalid UTF-8 in the formatted text are replaced by '?': names come from hostile files. */
enum status error_set(struct error *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text that err holds already; keeps and returns its status. */
enum status error_prefix(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "out of memory (needed N bytes for WHAT)", SL_ERR_ENV. */
enum status error_memory(struct error *err, size_t bytes, const char *what);

/* Tells the compiler what the comments above promise: these never return SL_OK, so what a caller
 * leaves unset after them is never read. */
static inline enum status error_is_set(enum status status) {
    if (status == SL_OK)
        __builtin_unreachable();
    return status;
}
#define error_set(...) error_is_set(error_set(__VA_ARGS__))
#define error_memory(...) error_is_set(error_memory(__VA_ARGS__))

_Noreturn void must_fail(const char *condition, const char *file, int line);

#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_status_ = (call);                                                          \
        if (try_status_ != SL_OK)                                                                  \
            return try_status_;                                                                    \
    } while (0)

#define must(condition) ((condition) ? (void)0 : must_fail(#condition, __FILE__, __LINE__))

#endif
