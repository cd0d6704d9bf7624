/* For fuzz targets that read files: a folder of their own, with what each input puts into it. */
#ifndef SLUICE_WEIGHTS_FOLDER_FOR_FUZZ_H
#define SLUICE_WEIGHTS_FOLDER_FOR_FUZZ_H

#include "base/status.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static char fuzz_folder[64];

/* Of a file in the folder; until the next call. */
static inline const char *path_of(const char *name) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder, name);
    return path;
}

static inline void put_file(const char *name, const void *bytes, size_t len) {
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0);
    must(write(fd, bytes, len) == (ssize_t)len);
    close(fd);
}

#endif
