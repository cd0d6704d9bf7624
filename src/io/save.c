/* Owns the way a small file comes into being: folder, temporary file, its place. Refuses to leave
 * anything half done. */
#include "io/save.h"

#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status fail(const char *path, int number, struct error *err) {
    char reason[128];
    return error_set(err, SL_ERR_ENV, "%s: cannot be written: %s", path,
                     strerror_r(number, reason, sizeof reason));
}

int file_make_folders(const char *path) {
    char folder[PATH_MAX];
    if (strlen(path) >= sizeof folder)
        return ENAMETOOLONG;
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return errno;
    }
    return 0;
}

int file_write_all(int fd, struct str text) {
    for (size_t done = 0; done < text.len;) {
        ssize_t got = -1;
        if (fault_hit(SL_FAULT_WRITE))
            errno = ENOSPC;
        else
            got = write(fd, text.data + done, text.len - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : ENOSPC;
        done += (size_t)got;
    }
    return 0;
}

int file_sync(int fd) {
    if (fault_hit(SL_FAULT_SYNC))
        return EIO;
    return fsync(fd) == 0 ? 0 : errno;
}

enum status file_save(const char *path, struct str text, struct error *err) {
    char beside[PATH_MAX];
    int length = snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof beside)
        return fail(path, ENAMETOOLONG, err);
    int number = file_make_folders(beside);
    int fd = number == 0 ? mkostemp(beside, O_CLOEXEC) : -1;
    if (fd < 0)
        return fail(path, number != 0 ? number : errno, err);
    number = file_write_all(fd, text);
    if (number == 0)
        number = file_sync(fd);
    if (number == 0 && fchmod(fd, 0644) != 0)
        number = errno;
    if (close(fd) != 0 && number == 0)
        number = errno;
    if (number == 0 && rename(beside, path) != 0)
        number = errno;
    if (number == 0)
        return SL_OK;
    unlink(beside);
    return fail(path, number, err);
}
