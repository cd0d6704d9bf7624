/* Owns the output of a job: opens and locks it, writes each line in one call, puts the lines in
 * input order at the end.
 *
 * Invariants of a regular file: (1) it holds whole lines alone, a torn one is cut off again
 * (write_file); (2) a line that sink_write has accepted is never lost: the ordered file replaces
 * the other only when it is complete and on the disk (order_lines); (3) nobody else's content is
 * touched without `overwrites` (sink_open, sink_check). The lock is the kernel's (fcntl), so that a
 * killed run leaves none behind. Streams and devices are written to and nothing else. What an
 * earlier run has written is told by the journal and compared, never trusted. */
#include "job/sink.h"

#include "base/log.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/save.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)64 << 10)
#define OPEN_TRIES 16 /* another run may replace or remove the file while we open it */

struct place {
    uint64_t offset, bytes; /* bytes 0: no line yet */
};

struct sink {
    char path[PATH_MAX];   /* as given, for messages */
    char target[PATH_MAX]; /* links followed */
    int fd;
    bool is_file;     /* a regular file, else a stream or device */
    bool is_made;     /* by us */
    bool is_finished; /* the job has come to its end */
    bool is_shared;   /* the process's own standard output: not ours to close */
    bool overwrites, keeps_input_order;
    uint64_t end;   /* of the last whole line */
    uint64_t found; /* bytes of the file when it was opened */
    struct place *places;
    size_t row_count;
    /* Of a job that goes on. */
    uint64_t matched, matched_lines; /* what is as recalled, from the beginning */
    bool has_differed, has_torn;     /* torn: the rest of the file begins the line that differs */
    uint64_t *ordered;               /* [row_count] where each line stands in input order */
    bool begins_in_order;            /* what is in the file is the beginning of that */
    bool is_in_order;                /* all of it: it stays so */
    char *buffer;                    /* COPY_BYTES */
};

static enum status fail(const struct sink *sink, const char *what, int number, struct error *err) {
    return error_set(err, SL_ERR_ENV, "%s: %s: %s", sink->path, what, strerror(number));
}

/* The file at path, made if it is not there. */
static enum status open_file(struct sink *sink, struct error *err) {
    struct stat info;
    int found = stat(sink->path, &info);
    if (found == 0 && S_ISDIR(info.st_mode))
        return error_set(err, SL_ERR_USAGE, "%s is a folder: the output must be a file",
                         sink->path);
    if (found == 0 && !S_ISREG(info.st_mode)) {
        sink->fd = open(sink->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    } else {
        sink->fd = open(sink->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        sink->is_made = sink->fd >= 0;
        if (sink->fd < 0 && errno == EEXIST) /* without O_EXCL also through a link to nothing */
            sink->fd = open(sink->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    }
    if (sink->fd < 0)
        return fail(sink, "the output cannot be opened", errno, err);
    return SL_OK;
}

/* Locks the file; *is_current tells whether it is still the one at path. */
static enum status lock_file(struct sink *sink, bool *is_current, struct error *err) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat ours, there;
    if (fcntl(sink->fd, F_SETLK, &lock) != 0 && (errno == EACCES || errno == EAGAIN)) {
        pid_t other = fcntl(sink->fd, F_GETLK, &lock) == 0 ? lock.l_pid : 0;
        return error_set(err, SL_ERR_ENV, "%s: another run (process %ld) is writing to it",
                         sink->path, (long)other);
    }
    *is_current = fstat(sink->fd, &ours) == 0 && stat(sink->path, &there) == 0 &&
                  ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
    return SL_OK;
}

void sink_beside(const struct sink *sink, const char *end, char out[SL_BESIDE_BYTES]) {
    int length = snprintf(out, SL_BESIDE_BYTES, "%s%s", sink->target, end);
    must(length > 0 && (size_t)length < SL_BESIDE_BYTES);
}

/* The file beside the output in which lines are put in order: nothing is there, or what a run that
 * was killed has left. Anything else is somebody's. */
static enum status check_beside(const struct sink *sink, const char *beside, struct error *err) {
    struct stat info;
    if (lstat(beside, &info) != 0)
        return errno == ENOENT ? SL_OK : fail(sink, beside, errno, err);
    if (S_ISREG(info.st_mode) && info.st_uid == geteuid())
        return SL_OK;
    return error_set(err, SL_ERR_ENV,
                     "%s: %s is in the way: it is needed to put the lines in order, and it is not "
                     "a file of this user's",
                     sink->path, beside);
}

/* A regular file: not another file of the job, nothing in it or to be overwritten, its folder
 * writable. */
static enum status check_file(struct sink *sink, const struct sink_options *options,
                              const struct stat *info, struct error *err) {
    for (size_t i = 0; i < SL_SINK_OTHERS; i++) {
        struct stat other;
        if (options->others[i] != NULL && stat(options->others[i], &other) == 0 &&
            other.st_ino == info->st_ino && other.st_dev == info->st_dev)
            return error_set(err, SL_ERR_USAGE,
                             "%s is used by this job for something else: it cannot be the output",
                             sink->path);
    }
    if (realpath(sink->path, sink->target) == NULL)
        return fail(sink, "the output cannot be found", errno, err);
    char folder[PATH_MAX], beside[SL_BESIDE_BYTES];
    sink_beside(sink, SL_JOURNAL_END, beside);
    sink->found = (uint64_t)info->st_size;
    if (sink->found > 0 && !options->overwrites && !file_exists(beside))
        return error_set(err, SL_ERR_INPUT,
                         "%s holds something already, and no journal of a job lies beside it: "
                         "--overwrite starts again over it",
                         sink->path);
    snprintf(folder, sizeof folder, "%s", sink->target);
    char *slash = strrchr(folder, '/');
    must(slash != NULL);
    slash[slash == folder ? 1 : 0] = '\0';
    if (access(folder, W_OK | X_OK) != 0)
        return fail(sink, "its folder cannot be written to", errno, err);
    sink_beside(sink, ".sluice.tmp", beside);
    return options->keeps_input_order ? check_beside(sink, beside, err) : SL_OK;
}

/* An empty file that this run has made and has nothing to put into. */
static void remove_ours(const struct sink *sink) {
    if (sink->is_made && sink->end == 0 && !sink->is_finished)
        unlink(sink->path);
}

static enum status open_path(struct sink *sink, const struct sink_options *options,
                             struct error *err) {
    for (int tries = 0; tries < OPEN_TRIES; tries++) {
        struct stat info;
        bool is_current = false;
        TRY(open_file(sink, err));
        if (fstat(sink->fd, &info) != 0)
            return fail(sink, "the output cannot be looked at", errno, err);
        sink->is_file = S_ISREG(info.st_mode);
        if (!sink->is_file)
            return SL_OK;
        TRY(lock_file(sink, &is_current, err));
        if (is_current)
            return check_file(sink, options, &info, err);
        close(sink->fd);
        sink->fd = -1;
        sink->is_made = false;
    }
    return error_set(err, SL_ERR_ENV, "%s is replaced by others all the time", sink->path);
}

enum status sink_open(const struct sink_options *options, struct sink **out, struct error *err) {
    if (strlen(options->path) == 0 || strlen(options->path) >= PATH_MAX)
        return error_set(err, SL_ERR_USAGE, "the output has no name, or a longer one than %d bytes",
                         PATH_MAX);
    struct sink *sink = mem_new(1, sizeof *sink);
    if (sink == NULL)
        return error_memory(err, sizeof *sink, "the output");
    sink->fd = -1;
    sink->overwrites = options->overwrites;
    sink->keeps_input_order = options->keeps_input_order;
    snprintf(sink->path, sizeof sink->path, "%s", options->path);
    enum status status = SL_OK;
    /* Opening /dev/stdout anew would write over what the shell appends to. */
    if (strcmp(sink->path, "-") == 0 || strcmp(sink->path, "/dev/stdout") == 0) {
        sink->fd = STDOUT_FILENO;
        sink->is_shared = true;
        snprintf(sink->path, sizeof sink->path, "standard output");
    } else {
        status = open_path(sink, options, err);
    }
    if (status != SL_OK) {
        sink_close(sink);
        return status;
    }
    *out = sink;
    return SL_OK;
}

static enum status make_places(struct sink *sink, size_t row_count, struct error *err) {
    must(sink->places == NULL);
    sink->places = mem_new(row_count, sizeof *sink->places);
    if (sink->places == NULL)
        return error_memory(err, row_count * sizeof *sink->places, "the places of the results");
    sink->row_count = row_count;
    return SL_OK;
}

enum status sink_begin(struct sink *sink, size_t row_count, struct error *err) {
    TRY(make_places(sink, row_count, err));
    if (sink->is_file && ftruncate(sink->fd, 0) != 0)
        return fail(sink, "the old results cannot be removed", errno, err);
    return SL_OK;
}

static enum status write_file(struct sink *sink, struct str line, struct error *err) {
    int number = lseek(sink->fd, (off_t)sink->end, SEEK_SET) < 0 ? errno : 0;
    if (number == 0)
        number = file_write_all(sink->fd, line);
    if (number == 0)
        return SL_OK;
    if (ftruncate(sink->fd, (off_t)sink->end) !=
        0) /* the torn line; a shorter file needs no room */
        return fail(sink, "half a line was written and cannot be removed", errno, err);
    return fail(sink, "results cannot be written", number, err);
}

enum status sink_write(struct sink *sink, size_t index, struct str line, struct error *err) {
    must(index < sink->row_count);
    must(!sink_has_line(sink, index));
    if (sink->is_file) {
        TRY(write_file(sink, line, err));
    } else {
        int number = file_write_all(sink->fd, line);
        if (number == EPIPE) /* the reader has had enough, as `head` has */
            return error_set(err, SL_ERR_STOPPED, "%s", "");
        if (number != 0)
            return fail(sink, "results cannot be written", number, err);
    }
    sink->places[index] = (struct place){sink->end, line.len};
    sink->end += line.len;
    return SL_OK;
}

size_t sink_row_count(const struct sink *sink) {
    return sink->row_count;
}

bool sink_has_line(const struct sink *sink, size_t index) {
    return sink->places != NULL && sink->places[index].bytes > 0;
}

/* ---- what an earlier run has written */

enum status sink_expect(struct sink *sink, size_t row_count, struct error *err) {
    must(sink->is_file);
    sink->buffer = mem_new(1, COPY_BYTES);
    if (sink->buffer == NULL)
        return error_memory(err, COPY_BYTES, "the results");
    return make_places(sink, row_count, err);
}

/* How many of the first bytes of line stand in the file at offset. */
static enum status compare(const struct sink *sink, uint64_t offset, struct str line,
                           uint64_t *same, struct error *err) {
    *same = 0;
    while (*same < line.len) {
        size_t left = line.len - (size_t)*same, wanted = left < COPY_BYTES ? left : COPY_BYTES;
        int64_t got = file_pread(sink->fd, sink->buffer, wanted, offset + *same);
        if (got < 0)
            return fail(sink, "the results cannot be read", (int)-got, err);
        if (got == 0)
            return SL_OK;
        for (int64_t i = 0; i < got; i++, (*same)++) {
            if (sink->buffer[i] != line.data[*same])
                return SL_OK;
        }
    }
    return SL_OK;
}

enum status sink_recall(struct sink *sink, size_t index, struct str line, struct error *err) {
    must(index < sink->row_count);
    must(!sink_has_line(sink, index));
    must(line.len > 0);
    if (!sink->has_differed) {
        uint64_t same;
        TRY(compare(sink, sink->end, line, &same, err));
        sink->has_differed = same < line.len;
        sink->has_torn = sink->has_differed && sink->end + same == sink->found;
        sink->matched += sink->has_differed ? 0 : line.len;
        sink->matched_lines += !sink->has_differed;
    }
    sink->places[index] = (struct place){sink->end, line.len};
    sink->end += line.len;
    return SL_OK;
}

bool sink_is_as_recalled(const struct sink *sink) {
    return !sink->has_differed && sink->found == sink->end;
}

static enum status make_ordered(struct sink *sink, struct error *err) {
    uint64_t end = 0;
    sink->ordered = mem_new(sink->row_count, sizeof *sink->ordered);
    if (sink->ordered == NULL)
        return error_memory(err, sink->row_count * sizeof *sink->ordered, "the results");
    for (size_t i = 0; i < sink->row_count; end += sink->places[i++].bytes)
        sink->ordered[i] = end;
    sink->begins_in_order = true;
    return SL_OK;
}

enum status sink_recall_ordered(struct sink *sink, size_t index, struct str line,
                                struct error *err) {
    uint64_t same;
    must(sink_has_line(sink, index));
    if (sink->ordered == NULL)
        TRY(make_ordered(sink, err));
    uint64_t offset = sink->ordered[index], left = sink->found > offset ? sink->found - offset : 0;
    if (!sink->begins_in_order || left == 0)
        return SL_OK;
    TRY(compare(sink, offset, line, &same, err));
    sink->begins_in_order = same == (line.len < left ? line.len : left);
    return SL_OK;
}

/* All of it, and nothing else. */
static bool is_whole_in_order(const struct sink *sink) {
    return sink->begins_in_order && sink->found == sink->end;
}

/* What a file system may leave of a file after a power cut: its length, and no bytes. */
static enum status is_nothing(const struct sink *sink, bool *out, struct error *err) {
    *out = true;
    for (uint64_t at = 0; at < sink->found && *out;) {
        int64_t got = file_pread(sink->fd, sink->buffer, COPY_BYTES, at);
        if (got < 0)
            return fail(sink, "the results cannot be read", (int)-got, err);
        for (int64_t i = 0; i < got; i++)
            *out = *out && sink->buffer[i] == '\0';
        at += got > 0 ? (uint64_t)got : sink->found;
    }
    return SL_OK;
}

enum status sink_check(const struct sink *sink, const char *journal, struct error *err) {
    bool has_nothing;
    if (sink->found == 0 || sink->matched > 0 || sink->has_torn || sink->begins_in_order)
        return SL_OK;
    TRY(is_nothing(sink, &has_nothing, err));
    if (has_nothing)
        return SL_OK;
    return error_set(err, SL_ERR_INPUT,
                     "%s holds something else than the results of the job in %s: move it away and "
                     "the job goes on, or --overwrite starts again over both",
                     sink->path, journal);
}

enum status sink_repair(struct sink *sink, uint64_t *lines, struct error *err) {
    *lines = sink->matched_lines;
    if (is_whole_in_order(sink)) {
        sink->is_in_order = true;
        *lines = UINT64_MAX;
        return SL_OK;
    }
    sink->end = sink->matched;
    if (sink->found <= sink->end)
        return SL_OK;
    log_note("%s: %llu bytes at its end are not in the journal, such as half a line, and are cut "
             "off",
             sink->path, (unsigned long long)(sink->found - sink->end));
    if (ftruncate(sink->fd, (off_t)sink->end) != 0)
        return fail(sink, "the end of the results cannot be cut off", errno, err);
    return SL_OK;
}

enum status sink_restore(struct sink *sink, struct str line, struct error *err) {
    TRY(write_file(sink, line, err));
    sink->end += line.len;
    return SL_OK;
}

/* ---- the end */

static bool is_ordered(const struct sink *sink) {
    uint64_t end = 0;
    for (size_t i = 0; i < sink->row_count; i++) {
        if (sink->places[i].bytes > 0 && sink->places[i].offset < end)
            return false;
        end = sink->places[i].bytes > 0 ? sink->places[i].offset : end;
    }
    return true;
}

/* Copies one line to the end of to; 0, or errno. */
static int copy_line(const struct sink *sink, const struct place *place, int to, char *buffer) {
    for (uint64_t done = 0; done < place->bytes;) {
        uint64_t left = place->bytes - done;
        ssize_t got = pread(sink->fd, buffer, left < COPY_BYTES ? (size_t)left : COPY_BYTES,
                            (off_t)(place->offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : EIO;
        int number = file_write_all(to, (struct str){buffer, (size_t)got});
        if (number != 0)
            return number;
        done += (uint64_t)got;
    }
    return 0;
}

/* The rename itself must survive a power cut. Folders that cannot be opened or synced are left. */
static void sync_folder(const char *target) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", target);
    char *slash = strrchr(folder, '/');
    must(slash != NULL);
    slash[slash == folder ? 1 : 0] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* Writes the lines in input order into the new file; 0, or errno. */
static int fill_ordered(const struct sink *sink, int to) {
    struct stat info;
    char *buffer = mem_new(1, COPY_BYTES);
    int number = buffer == NULL ? ENOMEM : 0;
    if (number == 0 && fstat(sink->fd, &info) == 0 && fchmod(to, info.st_mode & 07777) != 0)
        number = errno;
    for (size_t i = 0; number == 0 && i < sink->row_count; i++)
        number = copy_line(sink, &sink->places[i], to, buffer);
    if (number == 0)
        number = file_sync(to);
    mem_free(buffer);
    return number;
}

static enum status order_lines(struct sink *sink, struct error *err) {
    static const char *const what =
        "the lines cannot be put in input order and stay in order of completion";
    char beside[SL_BESIDE_BYTES];
    sink_beside(sink, ".sluice.tmp", beside);
    if (check_beside(sink, beside, err) != SL_OK)
        return error_prefix(err, "%s", what);
    unlink(beside); /* of a run that was killed here */
    int to = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (to < 0)
        return fail(sink, what, errno, err);
    int number = fill_ordered(sink, to);
    if (close(to) != 0 && number == 0)
        number = errno;
    if (number == 0 && rename(beside, sink->target) != 0)
        number = errno;
    if (number != 0) {
        unlink(beside);
        return fail(sink, what, number, err);
    }
    sync_folder(sink->target);
    return SL_OK;
}

enum status sink_finish(struct sink *sink, struct error *err) {
    sink->is_finished = true;
    if (!sink->is_file)
        return SL_OK;
    if (sink->keeps_input_order && !sink->is_in_order && !is_ordered(sink))
        return order_lines(sink, err);
    int number = file_sync(sink->fd);
    return number == 0 ? SL_OK : fail(sink, "results cannot be written", number, err);
}

bool sink_is_file(const struct sink *sink) {
    return sink->is_file;
}

uint64_t sink_bytes(const struct sink *sink) {
    return sink->is_finished ? sink->end : sink->found;
}

void sink_close(struct sink *sink) {
    if (sink == NULL)
        return;
    remove_ours(sink);
    if (sink->fd >= 0 && !sink->is_shared)
        close(sink->fd);
    mem_free(sink->places);
    mem_free(sink->ordered);
    mem_free(sink->buffer);
    mem_free(sink);
}
