/* Owns what the program says on stderr, and the progress line that may stand there. Refuses to
 * fail: a message that cannot be written is dropped. */
#include "base/log.h"

#include "base/str.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ERASE_LINE "\r\033[K"

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static bool has_progress; /* under log_lock: a progress line stands on the terminal */

/* A closed pipe must not end the job by SIGPIPE, and whether the process ignores that signal is not
 * for us to decide: block it here, and swallow the one that our own write has raised. */
static void write_all(const char *text, size_t len) {
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    sigemptyset(&pending);
    sigpending(&pending);
    while (len > 0) {
        ssize_t wrote = write(STDERR_FILENO, text, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            if (wrote < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
                sigtimedwait(&pipe_only, NULL, &(struct timespec){0});
            break;
        }
        text += wrote;
        len -= (size_t)wrote;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* One message in one write, so that lines of several processes on one terminal stay whole. */
static void say(const char *prefix, const char *format, va_list args) {
    char message[1600];
    char line[sizeof message + 32];
    if (vsnprintf(message, sizeof message, format, args) < 0)
        return;
    str_clean(message);
    pthread_mutex_lock(&log_lock);
    int len =
        snprintf(line, sizeof line, "%s%s%s\n", has_progress ? ERASE_LINE : "", prefix, message);
    has_progress = false;
    if (len > 0)
        write_all(line, (size_t)len);
    pthread_mutex_unlock(&log_lock);
}

void log_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("sluice: ", format, args);
    va_end(args);
}

void log_warning(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("sluice: ", format, args);
    va_end(args);
}

void log_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}

void log_progress(const char *text) {
    char message[512];
    char line[sizeof message + 8];
    snprintf(message, sizeof message, "%s", text);
    str_clean(message);
    pthread_mutex_lock(&log_lock);
    if (message[0] || has_progress) {
        int len = snprintf(line, sizeof line, ERASE_LINE "%s", message);
        if (len > 0)
            write_all(line, (size_t)len);
    }
    has_progress = message[0] != '\0';
    pthread_mutex_unlock(&log_lock);
}
