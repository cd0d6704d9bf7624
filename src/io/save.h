/* Writing: text whole into a descriptor, and small files (records of ours, not results) whole or
 * not at all.
 *
 * The text of a small file goes into a new file beside the target, which then takes the target's
 * place: a reader sees the old text or the new one, and of several writers one wins. Any thread. */
#ifndef SLUICE_IO_SAVE_H
#define SLUICE_IO_SAVE_H

#include "base/str.h"

/* All of text at the file's position, in one write unless the system takes less; 0, or errno.
 * Passes SL_FAULT_WRITE. */
int file_write_all(int fd, struct str text);
/* On the disk; 0, or errno. Passes SL_FAULT_SYNC. */
int file_sync(int fd);
/* Every folder above the last slash of path, which is not empty; 0, or errno. */
int file_make_folders(const char *path);
/* Makes the folders of path as needed. SL_ERR_ENV names path and reason; the old file is then as it
 * was, and nothing is left beside it. */
enum status file_save(const char *path, struct str text, struct error *err);

#endif
