/* Reads one chunk of a submission: direct or buffered, with the one retry. Refuses to call a chunk
 * read before every byte that was asked for is there. Knows no queue and no threads. */
#include "io/ring_method.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* The kernel keeps pages in pieces of several, and drops none that a range only touches: the piece
 * across the border of two chunks goes with the second one. */
#define DROP_BEFORE_BYTES ((uint64_t)256 << 10)

void file_drop_cache(const struct file *file, uint64_t from, uint64_t to) {
    from -= from < DROP_BEFORE_BYTES ? from : DROP_BEFORE_BYTES;
    from -= from % SL_IO_ALIGN;
    to += SL_IO_ALIGN - 1;
    to -= to % SL_IO_ALIGN;
    (void)posix_fadvise(file->fd, (off_t)from, (off_t)(to - from), POSIX_FADV_DONTNEED);
}

void chunk_drop_cache(const struct chunk *chunk) {
    file_drop_cache(chunk->file, chunk->offset, chunk->offset + chunk->bytes);
}

/* Reads through the page cache from `done` bytes on, then drops what it left there. The bytes that
 * are there afterwards, or -errno. */
static int64_t read_buffered(const struct chunk *chunk, size_t done) {
    size_t first = done;
    int64_t result = 0;
    while (done < chunk->bytes_needed) {
        int64_t got = file_pread(chunk->file->fd, chunk->into + done, chunk->bytes_needed - done,
                                 chunk->offset + done);
        if (got < 0)
            result = got;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    file_drop_cache(chunk->file, chunk->offset + first, chunk->offset + chunk->bytes);
    return result < 0 ? result : (int64_t)done;
}

/* One attempt. A direct read stops short at the end of the file and, rarely, elsewhere: what is
 * missing then comes through the page cache, as a direct read could not start at any byte. */
static int64_t read_once(const struct chunk *chunk, bool is_direct) {
    if (!is_direct)
        return read_buffered(chunk, 0);
    int64_t got = file_pread(chunk->file->direct_fd, chunk->into, chunk->bytes, chunk->offset);
    if (got < 0 || (size_t)got >= chunk->bytes_needed)
        return got;
    return read_buffered(chunk, (size_t)got);
}

enum status chunk_read(const struct chunk *chunk, struct error *err) {
    must(chunk->bytes_needed <= chunk->bytes);
    int64_t got = 0;
    bool is_direct = chunk->is_direct;
    for (int attempt = 0; attempt < 2; attempt++) {
        got = read_once(chunk, is_direct);
        if (got >= 0 && (size_t)got >= chunk->bytes_needed)
            return SL_OK;
        /* Direct I/O that worked when the file was opened is refused for this place. */
        if (got == -EINVAL)
            is_direct = false;
    }
    const char *path = chunk->file->path;
    unsigned long long offset = chunk->offset;
    if (got < 0) {
        char reason[128];
        return error_set(err, SL_ERR_ENV, "%s: cannot read %zu bytes at offset %llu: %s", path,
                         chunk->bytes_needed, offset, strerror_r((int)-got, reason, sizeof reason));
    }
    return error_set(err, SL_ERR_ENV,
                     "%s: ends early: wanted %zu bytes at offset %llu, got %lld (it had %llu bytes "
                     "when it was opened)",
                     path, chunk->bytes_needed, offset, (long long)got,
                     (unsigned long long)chunk->file->bytes);
}
