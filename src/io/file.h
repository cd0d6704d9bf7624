/* Files opened for reading, whole or at offsets, with every failure named.
 *
 * A struct file is constant after opening: any thread may read at offsets. Reads retry EINTR and
 * short reads; what stays short is an error with path, offset and bytes wanted. */
#ifndef SLUICE_IO_FILE_H
#define SLUICE_IO_FILE_H

#include "base/str.h"

#define SL_IO_ALIGN 4096u /* offsets, lengths and addresses of direct reads */

struct file {
    char *path; /* owned; for messages */
    uint64_t bytes;
    uint64_t drive; /* the number of the device that it lies on: equal for files of one drive */
    int fd;         /* buffered */
    int direct_fd;  /* O_DIRECT; -1 where the file system refuses it, or not asked for */
    bool is_direct_refused; /* asked for and refused */
};

/* Opens a regular file (links are followed; folders, FIFOs and devices are refused). wants_direct:
 * also opens it with O_DIRECT and tries one aligned read; a refusal leaves direct_fd -1, which is
 * no error. */
enum status file_open(const char *path, bool wants_direct, struct file **out, struct error *err);
/* Accepts NULL. Of a file whose direct reads were refused nothing stays in the page cache. */
void file_close(struct file *file);
/* Exactly bytes at offset, through the page cache. */
enum status file_read_at(const struct file *file, uint64_t offset, void *into, size_t bytes,
                         struct error *err);
/* The whole file at path into buf (emptied first); refuses more than limit bytes. */
enum status file_read_all(const char *path, size_t limit, struct buf *buf, struct error *err);
/* One read at offset: the bytes it gave (0 at the end of the file), or -errno. Retries EINTR alone;
 * passes the fault points SL_FAULT_READ and SL_FAULT_SHORT_READ. For loops such as the above. */
int64_t file_pread(int fd, void *into, size_t bytes, uint64_t offset);
bool file_exists(const char *path); /* anything at all at path */
bool file_is_folder(const char *path);

#endif
