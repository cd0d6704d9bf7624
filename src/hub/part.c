/* Owns the file of a part. Refuses to give it its final name before its sum is right and its bytes
 * are on the disk. */
#include "hub/part.h"

#include "base/mem.h"
#include "hub/sum.h"
#include "io/file.h"
#include "io/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUM_BYTES ((size_t)1 << 20)

/* The reason of a failed call, in part->problem. */
static bool fail(struct part *part, const char *what, int number) {
    char reason[100];
    part->is_out_of_room = number == ENOSPC || number == EDQUOT || number == EFBIG;
    snprintf(part->problem, sizeof part->problem, "%s: %s", what,
             strerror_r(number, reason, sizeof reason));
    return false;
}

/* The sum of the first `have` bytes of the file. */
static bool sum_again(struct part *part) {
    struct error err = {0};
    sum_free(part->sum);
    part->sum = NULL;
    if (sum_new(part->key, part->bytes, &part->sum, &err) != SL_OK) {
        snprintf(part->problem, sizeof part->problem, "%.190s", err.text);
        return false;
    }
    void *data = part->have > 0 ? mem_new(1, SUM_BYTES) : NULL;
    bool is_read = part->have == 0 || data != NULL;
    for (uint64_t at = 0; is_read && at < part->have;) {
        uint64_t left = part->have - at;
        int64_t got = file_pread(part->fd, data, left < SUM_BYTES ? (size_t)left : SUM_BYTES, at);
        is_read = got > 0;
        if (is_read) {
            sum_add(part->sum, data, (size_t)got);
            at += (uint64_t)got;
        }
    }
    mem_free(data);
    return is_read || fail(part, "the part of it cannot be read", EIO);
}

/* Cuts the file to `have` bytes. */
static bool cut(struct part *part, uint64_t have) {
    if (ftruncate(part->fd, (off_t)have) != 0)
        return fail(part, "the part of it cannot be cut", errno);
    part->have = have;
    return sum_again(part);
}

bool part_restart(struct part *part) {
    unlink(part->etag_path);
    part->etag[0] = '\0';
    return cut(part, 0);
}

static void read_etag(struct part *part) {
    struct buf text;
    buf_init(&text);
    if (file_exists(part->etag_path) &&
        file_read_all(part->etag_path, sizeof part->etag - 1, &text, NULL) == SL_OK)
        snprintf(part->etag, sizeof part->etag, "%.*s", (int)text.len, text.data);
    str_clean(part->etag);
    buf_release(&text);
}

enum status part_open(struct part *part, const char *blob_path, const char *key, uint64_t bytes,
                      struct error *err) {
    *part = (struct part){.key = key, .bytes = bytes, .fd = -1};
    struct stat info;
    char reason[100];
    int length = snprintf(part->path, PATH_MAX, "%s.incomplete", blob_path);
    int other = snprintf(part->etag_path, PATH_MAX, "%s.incomplete.etag", blob_path);
    if (length < 0 || length >= PATH_MAX || other < 0 || other >= PATH_MAX)
        return error_set(err, SL_ERR_ENV, "%s: the path is too long", blob_path);
    part->fd = open(part->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (part->fd < 0 || fstat(part->fd, &info) != 0) {
        int number = errno;
        part_close(part);
        return error_set(err, SL_ERR_ENV, "%s: cannot be written: %s", part->path,
                         strerror_r(number, reason, sizeof reason));
    }
    bool is_sane = S_ISREG(info.st_mode) && (uint64_t)info.st_size <= bytes;
    part->have = is_sane ? (uint64_t)info.st_size : 0;
    read_etag(part);
    bool is_ready = is_sane ? sum_again(part) : part_restart(part);
    if (is_ready)
        return SL_OK;
    enum status status = error_set(err, SL_ERR_ENV, "%s: %s", part->path, part->problem);
    part_close(part);
    return status;
}

void part_close(struct part *part) {
    if (part->fd >= 0)
        close(part->fd);
    sum_free(part->sum);
    part->fd = -1;
    part->sum = NULL;
}

/* In place: one that is lost or torn costs a download from the start, as the sum at the end is what
 * counts, and a kill leaves no file of another name. */
static void keep_etag(struct part *part, const char *etag) {
    snprintf(part->etag, sizeof part->etag, "%s", etag);
    int fd = open(part->etag_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return;
    if (file_write_all(fd, str_from(part->etag)) != 0)
        unlink(part->etag_path);
    close(fd);
}

bool part_begin(struct part *part, const struct http_answer *answer) {
    uint64_t from = answer->has_range ? answer->range_from : 0;
    bool is_other_size = answer->has_range && answer->range_total != UINT64_MAX &&
                         answer->range_total != part->bytes;
    if (is_other_size || from > part->have) {
        snprintf(part->problem, sizeof part->problem,
                 is_other_size ? "the server has it with %llu bytes, the hub declares %llu"
                               : "the server sends bytes from %llu on, asked for %llu",
                 (unsigned long long)(is_other_size ? answer->range_total : from),
                 (unsigned long long)(is_other_size ? part->bytes : part->have));
        return false;
    }
    if (from < part->have && !cut(part, from))
        return false;
    if (answer->etag[0] != '\0' && strcmp(answer->etag, part->etag) != 0)
        keep_etag(part, answer->etag);
    return true;
}

bool part_add(struct part *part, const void *data, size_t bytes) {
    if (bytes > part->bytes - part->have) {
        snprintf(part->problem, sizeof part->problem,
                 "the server sends more than the %llu bytes that the hub declares",
                 (unsigned long long)part->bytes);
        return false;
    }
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote =
            pwrite(part->fd, (const char *)data + done, bytes - done, (off_t)(part->have + done));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return fail(part, "it cannot be written", wrote < 0 ? errno : ENOSPC);
        done += (size_t)wrote;
    }
    sum_add(part->sum, data, bytes);
    part->have += bytes;
    return true;
}

bool part_finish(struct part *part, const char *blob_path) {
    char text[SL_SUM_TEXT_BYTES];
    must(part->have == part->bytes);
    sum_end(part->sum, text);
    if (strcmp(text, part->key) != 0) {
        snprintf(part->problem, sizeof part->problem, "its sum is %s, the hub declares %s", text,
                 part->key);
        return false;
    }
    int number = file_sync(part->fd);
    if (number != 0)
        return fail(part, "it cannot be written", number);
    if (rename(part->path, blob_path) != 0)
        return fail(part, "it cannot be renamed", errno);
    unlink(part->etag_path);
    return true;
}
