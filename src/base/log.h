/* Messages to people, on stderr: warnings and errors begin with "sluice: ", notes do not.
 * A progress line that stands on the terminal is cleared before a message and drawn again by its
 * owner. Any thread. Writes that fail (a closed stderr) are ignored: messages never end a job. */
#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include "base/status.h"

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Shows text (one line, no newline) in place of the progress line before; "" removes it. Only for a
 * terminal; progress.c decides. */
void log_progress(const char *text);

#endif
