/* Owns the descriptors of files that are read: opening with every refusal named, and reads that are
 * whole or an error. Refuses whatever is not a regular file, without waiting for the writer of a
 * FIFO. Writes nothing. */
#include "io/file.h"

#include "base/fault.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode) {
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a folder";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

static int open_for_reading(const char *path, int more_flags) {
    if (fault_hit(SL_FAULT_OPEN)) {
        errno = EMFILE;
        return -1;
    }
    for (;;) {
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | more_flags);
        if (fd >= 0 || errno != EINTR)
            return fd;
    }
}

/* Direct I/O for the file that `info` describes: the descriptor, or -1 when it is refused. Some
 * file systems refuse at the open, others at the first read. */
static int open_direct(const char *path, const struct stat *info) {
    int fd = open_for_reading(path, O_DIRECT);
    if (fd < 0)
        return -1;
    struct stat same;
    void *trial = NULL;
    bool is_good = fstat(fd, &same) == 0 && same.st_dev == info->st_dev &&
                   same.st_ino == info->st_ino &&
                   posix_memalign(&trial, SL_IO_ALIGN, SL_IO_ALIGN) == 0 &&
                   file_pread(fd, trial, SL_IO_ALIGN, 0) >= 0;
    free(trial);
    if (is_good)
        return fd;
    close(fd);
    return -1;
}

static enum status open_at_all(struct file *file, bool wants_direct, struct error *err) {
    char reason[128];
    struct stat info;
    file->fd = open_for_reading(file->path, 0);
    if (file->fd < 0) {
        int number = errno;
        /* A socket cannot be opened at all; say what it is rather than ENXIO. */
        if (number == ENXIO && stat(file->path, &info) == 0 && !S_ISREG(info.st_mode))
            return error_set(err, SL_ERR_ENV, "%s: is %s, not a regular file", file->path,
                             kind_of(info.st_mode));
        return error_set(err, SL_ERR_ENV, "%s: cannot be opened: %s", file->path,
                         strerror_r(number, reason, sizeof reason));
    }
    if (fstat(file->fd, &info) != 0)
        return error_set(err, SL_ERR_ENV, "%s: cannot be examined: %s", file->path,
                         strerror_r(errno, reason, sizeof reason));
    if (!S_ISREG(info.st_mode))
        return error_set(err, SL_ERR_ENV, "%s: is %s, not a regular file", file->path,
                         kind_of(info.st_mode));
    must(info.st_size >= 0);
    file->bytes = (uint64_t)info.st_size;
    file->drive = (uint64_t)info.st_dev;
    if (wants_direct) {
        file->direct_fd = open_direct(file->path, &info);
        file->is_direct_refused = file->direct_fd < 0;
        if (file->is_direct_refused) /* nothing ahead of what is asked for: nobody would drop it */
            (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM);
    }
    return SL_OK;
}

enum status file_open(const char *path, bool wants_direct, struct file **out, struct error *err) {
    size_t path_bytes = strlen(path) + 1;
    struct file *file = mem_new(1, sizeof *file);
    if (file == NULL)
        return error_memory(err, sizeof *file, "a file");
    file->fd = -1;
    file->direct_fd = -1;
    enum status status = SL_OK;
    file->path = mem_new(path_bytes, 1);
    if (file->path == NULL) {
        status = error_memory(err, path_bytes, "the name of a file");
        goto out;
    }
    memcpy(file->path, path, path_bytes);
    status = open_at_all(file, wants_direct, err);
out:
    if (status != SL_OK) {
        file_close(file);
        return status;
    }
    *out = file;
    return SL_OK;
}

void file_close(struct file *file) {
    if (file == NULL)
        return;
    if (file->direct_fd >= 0)
        close(file->direct_fd);
    if (file->fd >= 0 &&
        file->is_direct_refused) /* what the kernel read ahead and nobody dropped */
        (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    if (file->fd >= 0)
        close(file->fd);
    mem_free(file->path);
    mem_free(file);
}

int64_t file_pread(int fd, void *into, size_t bytes, uint64_t offset) {
    if (offset > INT64_MAX - bytes)
        return -EINVAL;
    if (fault_hit(SL_FAULT_READ))
        return -EIO;
    for (;;) {
        ssize_t got = pread(fd, into, bytes, (off_t)offset);
        if (got >= 0)
            return fault_hit(SL_FAULT_SHORT_READ) ? got / 2 : got;
        if (errno != EINTR)
            return -errno;
    }
}

enum status file_read_at(const struct file *file, uint64_t offset, void *into, size_t bytes,
                         struct error *err) {
    size_t done = 0;
    while (done < bytes) {
        int64_t got =
            file_pread(file->fd, (uint8_t *)into + done, bytes - done, offset + (uint64_t)done);
        if (got < 0) {
            char reason[128];
            return error_set(err, SL_ERR_ENV, "%s: cannot read %zu bytes at offset %llu: %s",
                             file->path, bytes, (unsigned long long)offset,
                             strerror_r((int)-got, reason, sizeof reason));
        }
        if (got == 0)
            return error_set(err, SL_ERR_ENV,
                             "%s: ends early: wanted %zu bytes at offset %llu, got %zu", file->path,
                             bytes, (unsigned long long)offset, done);
        done += (size_t)got;
    }
    return SL_OK;
}

enum status file_read_all(const char *path, size_t limit, struct buf *buf, struct error *err) {
    struct file *file = NULL;
    TRY(file_open(path, false, &file, err));
    enum status status = SL_OK;
    buf_release(buf);
    buf_init(buf);
    if (file->bytes > limit) {
        status = error_set(err, SL_ERR_ENV, "%s: has %llu bytes, at most %zu are accepted", path,
                           (unsigned long long)file->bytes, limit);
        goto out;
    }
    /* Taken at its exact size, with room for the NUL: growing by doubling would need twice that. */
    size_t bytes = (size_t)file->bytes;
    char *data = bytes < SIZE_MAX ? mem_new(bytes + 1, 1) : NULL;
    if (data == NULL) {
        status = error_memory(err, bytes, path);
        goto out;
    }
    status = file_read_at(file, 0, data, bytes, err);
    if (status != SL_OK) {
        mem_free(data);
        goto out;
    }
    *buf = (struct buf){.data = data, .len = bytes, .cap = bytes + 1};
out:
    file_close(file);
    return status;
}

bool file_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

bool file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}
