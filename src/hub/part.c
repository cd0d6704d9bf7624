/* Owns the file of a part. Refuses to give it its final name before its sum is right and its bytes
 * are on the disk.
 *
 * Most bytes go past the page cache, whose pages cost as much time as the check sum, and would take
 * memory from a job; what does not begin and end at SL_IO_ALIGN goes through it. */
#include "hub/part.h"

#include "base/mem.h"
#include "hub/flow.h"
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
        if (part->should_stop()) {
            mem_free(data);
            return fail(part, "its sum is not made", EINTR);
        }
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
    part->written = have;
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

/* ---- the stages of the flow */

static bool add_to_sum(void *ctx, const void *data, size_t bytes) {
    struct part *part = ctx;
    sum_add(part->sum, data, bytes);
    return true;
}

/* Writes some of it, of whole blocks directly where that can be had: bytes written, or -1. */
static ssize_t write_some(struct part *part, const char *data, size_t bytes) {
    bool is_aligned = part->written % SL_IO_ALIGN == 0 && (uintptr_t)data % SL_IO_ALIGN == 0;
    size_t blocks = bytes - bytes % SL_IO_ALIGN;
    if (part->direct_fd >= 0 && is_aligned && blocks > 0) {
        ssize_t wrote = pwrite(part->direct_fd, data, blocks, (off_t)part->written);
        if (wrote >= 0 || errno != EINVAL)
            return wrote;
        close(part->direct_fd); /* a file system that takes the flag and not the write */
        part->direct_fd = -1;
    }
    return pwrite(part->fd, data, bytes, (off_t)part->written);
}

static bool add_to_file(void *ctx, const void *data, size_t bytes) {
    struct part *part = ctx;
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = write_some(part, (const char *)data + done, bytes - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            part->write_error = wrote < 0 ? errno : ENOSPC;
            return false;
        }
        done += (size_t)wrote;
        part->written += (uint64_t)wrote;
    }
    return true;
}

/* ---- the part */

/* Sums what is there of a file of so many bytes. */
static bool take_up(struct part *part, const struct stat *info) {
    bool is_sane = S_ISREG(info->st_mode) && (uint64_t)info->st_size <= part->bytes;
    part->have = is_sane ? (uint64_t)info->st_size : 0;
    part->written = part->have;
    read_etag(part);
    return is_sane ? sum_again(part) : part_restart(part);
}

enum status part_open(struct part *part, const char *blob_path, const char *key, uint64_t bytes,
                      bool (*should_stop)(void), struct error *err) {
    *part = (struct part){
        .key = key, .bytes = bytes, .should_stop = should_stop, .fd = -1, .direct_fd = -1};
    const struct flow_stage stages[] = {{add_to_file, part}, {add_to_sum, part}};
    const int flags = O_CLOEXEC | O_NOFOLLOW;
    struct stat info;
    char reason[100];
    int length = snprintf(part->path, PATH_MAX, "%s.incomplete", blob_path);
    int other = snprintf(part->etag_path, PATH_MAX, "%s.incomplete.etag", blob_path);
    if (length < 0 || length >= PATH_MAX || other < 0 || other >= PATH_MAX)
        return error_set(err, SL_ERR_ENV, "%s: the path is too long", blob_path);
    enum status status = SL_OK;
    part->fd = open(part->path, O_RDWR | O_CREAT | flags, 0666);
    if (part->fd < 0 || fstat(part->fd, &info) != 0)
        status = error_set(err, SL_ERR_ENV, "%s: cannot be written: %s", part->path,
                           strerror_r(errno, reason, sizeof reason));
    part->direct_fd = open(part->path, O_WRONLY | O_DIRECT | flags);
    if (status == SL_OK)
        status = flow_new(stages, sizeof stages / sizeof stages[0], &part->flow, err);
    if (status == SL_OK && !take_up(part, &info))
        status = error_set(err, should_stop() ? SL_ERR_STOPPED : SL_ERR_ENV, "%s: %s", part->path,
                           part->problem);
    if (status != SL_OK)
        part_close(part);
    return status;
}

void part_close(struct part *part) {
    flow_free(part->flow); /* its threads use the others */
    if (part->direct_fd >= 0)
        close(part->direct_fd);
    if (part->fd >= 0)
        close(part->fd);
    sum_free(part->sum);
    *part = (struct part){.fd = -1, .direct_fd = -1};
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
    flow_begin(part->flow, part->have);
    return true;
}

bool part_add(struct part *part, const void *data, size_t bytes) {
    if (bytes > part->bytes - part->have) {
        snprintf(part->problem, sizeof part->problem,
                 "the server sends more than the %llu bytes that the hub declares",
                 (unsigned long long)part->bytes);
        return false;
    }
    part->have += bytes;
    return flow_add(part->flow, data, bytes) || part_flush(part);
}

bool part_flush(struct part *part) {
    return flow_drain(part->flow) || fail(part, "it cannot be written", part->write_error);
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
