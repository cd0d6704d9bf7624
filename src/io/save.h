/* Small files written whole or not at all: records of ours, not results.
 *
 * The text goes into a new file beside the target, which then takes the target's place: a reader
 * sees the old text or the new one, and of several writers one wins. Any thread. */
#ifndef SLUICE_IO_SAVE_H
#define SLUICE_IO_SAVE_H

#include "base/str.h"

/* Makes the folders of path as needed. SL_ERR_ENV names path and reason; the old file is then as it
 * was, and nothing is left beside it. */
enum status file_save(const char *path, struct str text, struct error *err);

#endif
