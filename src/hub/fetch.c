/* Owns the threads that download and the line that says how far they are. What a try may cost: a
 * broken connection or a busy server is tried again, later and later, as long as bytes come; an
 * answer that no other try changes, or a full disk, ends the download at once. */
#include "hub/fetch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "hub/http.h"
#include "hub/part.h"
#include "hub/sum.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES_MAX 6 /* without a byte between them */
#define WAIT_SECONDS 0.5
#define WAIT_SECONDS_MAX 30.0
#define LINE_SECONDS 0.2
#define LOG_SECONDS 60.0

/* Shared by the threads; whatever is no atomic is under the lock. */
struct fetch {
    const struct fetch_options *options;
    atomic_size_t next, files_done;
    _Atomic uint64_t bytes_here; /* of all files */
    atomic_bool has_ended;       /* by a failure or the wish to stop */
    pthread_mutex_t lock;
    struct error err; /* the first failure */
};

/* What one thread is at. */
struct worker {
    struct fetch *fetch;
    const struct fetch_file *file;
    struct http *http;
    struct part part;
};

/* The thread's own place, since libcurl's question has no context: one download a process. */
static _Thread_local const struct fetch *current;

static bool should_stop(void) {
    return atomic_load(&current->has_ended) ||
           (current->options->should_stop != NULL && current->options->should_stop());
}

static bool wait_for(double seconds) {
    double end = clock_seconds() + seconds;
    while (!should_stop() && clock_seconds() < end)
        clock_sleep(0.05);
    return !should_stop();
}

uint64_t fetch_bytes_here(const struct store *store, const char *repo,
                          const struct fetch_file *file) {
    char path[PATH_MAX], part[PATH_MAX];
    struct stat info;
    if (!store_blob(store, repo, file->key, path))
        return 0;
    if (stat(path, &info) == 0 && (uint64_t)info.st_size == file->bytes)
        return file->bytes;
    int length = snprintf(part, sizeof part, "%s.incomplete", path);
    bool is_part = length > 0 && length < PATH_MAX && stat(part, &info) == 0;
    return is_part && (uint64_t)info.st_size <= file->bytes ? (uint64_t)info.st_size : 0;
}

enum status fetch_refused(const char *what, long http_status, bool has_token, const char *repo,
                          const char *endpoint, struct error *err) {
    if (http_status == 401 && !has_token)
        return error_set(err, SL_ERR_ENV,
                         "%s: the hub says 401: there is no such repository, or it wants a token "
                         "and HF_TOKEN is not set",
                         what);
    if (http_status == 401)
        return error_set(err, SL_ERR_ENV,
                         "%s: the hub says 401: the token of HF_TOKEN is not valid (any more)",
                         what);
    if (http_status == 403)
        return error_set(err, SL_ERR_ENV,
                         "%s: the hub says 403: no access: accept the licence at %s/%s with the "
                         "account of the token",
                         what, endpoint, repo);
    if (http_status == 404)
        return error_set(err, SL_ERR_ENV, "%s: the hub says 404: it is not there", what);
    return error_set(err, SL_ERR_ENV, "%s: the hub says %ld", what, http_status);
}

/* ---- one file */

static bool sink_begin(void *ctx, const struct http_answer *answer) {
    struct worker *worker = ctx;
    uint64_t had = worker->part.have;
    bool is_taken = part_begin(&worker->part, answer);
    atomic_fetch_sub(&worker->fetch->bytes_here, had - worker->part.have);
    return is_taken;
}

static bool sink_body(void *ctx, const void *data, size_t bytes) {
    struct worker *worker = ctx;
    if (!part_add(&worker->part, data, bytes))
        return false;
    atomic_fetch_add(&worker->fetch->bytes_here, bytes);
    return true;
}

static enum status restart(struct worker *worker, struct error *err) {
    atomic_fetch_sub(&worker->fetch->bytes_here, worker->part.have);
    if (part_restart(&worker->part))
        return SL_OK;
    return error_set(err, SL_ERR_ENV, "%s: %s", worker->part.path, worker->part.problem);
}

static enum status stopped(struct error *err) {
    return error_set(err, SL_ERR_STOPPED, "stopped; what is downloaded is kept");
}

bool fetch_is_passing(long status) {
    return status == 408 || status == 429 || status >= 500;
}

/* One request for what the part lacks. SL_OK: the part may have grown; *wait: seconds until the
 * next try. */
static enum status try_once(struct worker *worker, const char *url, double *wait, char problem[200],
                            struct error *err) {
    const struct fetch_options *options = worker->fetch->options;
    struct part *part = &worker->part;
    struct http_request request = {
        .url = url,
        .token = options->token,
        .from = part->have,
        .if_range = part->etag,
        .sink = {sink_begin, sink_body, worker},
    };
    struct http_answer answer;
    http_get(worker->http, &request, &answer);
    if (!part_flush(part) && answer.end != HTTP_STOPPED)
        answer.end = HTTP_REFUSED;
    *wait = answer.retry_after_seconds;
    snprintf(problem, 200, "%s", answer.problem);
    if (answer.end == HTTP_STOPPED || (answer.end == HTTP_REFUSED && should_stop()))
        return stopped(err);
    if (answer.end == HTTP_WRONG)
        return error_set(err, SL_ERR_ENV, "%.*s: %s", STR_ARG(worker->file->name), answer.problem);
    if (answer.end == HTTP_REFUSED && part->is_out_of_room)
        return error_set(err, SL_ERR_ENV, "%s: %s; the part stays, and the same command goes on",
                         part->path, part->problem);
    if (answer.end == HTTP_REFUSED) {
        snprintf(problem, 200, "%s", part->problem);
        return restart(worker, err);
    }
    if (answer.end == HTTP_BROKEN || answer.status < 300)
        return SL_OK;
    if (answer.status == 416) {
        snprintf(problem, 200, "the server has no bytes from %llu on",
                 (unsigned long long)part->have);
        return restart(worker, err);
    }
    snprintf(problem, 200, "the server says %ld", answer.status);
    if (fetch_is_passing(answer.status))
        return SL_OK;
    char what[300];
    snprintf(what, sizeof what, "%.*s", STR_ARG(worker->file->name));
    return fetch_refused(what, answer.status, options->token != NULL, options->repo,
                         options->endpoint, err);
}

/* Until the part is whole. */
static enum status fill_part(struct worker *worker, const char *url, struct error *err) {
    struct part *part = &worker->part;
    double pause = WAIT_SECONDS;
    for (int tries = 0; part->have < part->bytes;) {
        uint64_t had = part->have;
        double wait = 0;
        char problem[200];
        if (should_stop())
            return stopped(err);
        TRY(try_once(worker, url, &wait, problem, err));
        if (part->have == part->bytes)
            break;
        bool has_grown = part->have > had;
        tries = has_grown ? 0 : tries + 1;
        pause = has_grown ? WAIT_SECONDS : pause * 2;
        if (tries == TRIES_MAX)
            return error_set(err, SL_ERR_ENV,
                             "%.*s: %d tries brought nothing more: %s; the part stays, and the "
                             "same command goes on",
                             STR_ARG(worker->file->name), TRIES_MAX,
                             problem[0] != '\0' ? problem : "the connection ended early");
        if (!wait_for(wait > 0 ? wait : pause < WAIT_SECONDS_MAX ? pause : WAIT_SECONDS_MAX))
            return stopped(err);
    }
    return SL_OK;
}

static enum status fetch_part(struct worker *worker, const char *blob, struct error *err) {
    const struct fetch_options *options = worker->fetch->options;
    struct part *part = &worker->part;
    struct buf url;
    buf_init(&url);
    buf_printf(&url, "%s/%s/resolve/%s/", options->endpoint, options->repo, options->commit);
    http_add_path(&url, worker->file->name);
    enum status status = buf_status(&url, "an address", err);
    bool is_right = false;
    for (int round = 0; status == SL_OK && !is_right; round++) {
        status = fill_part(worker, url.data, err);
        is_right = status == SL_OK && part_finish(part, blob);
        if (status != SL_OK || is_right)
            break;
        if (part->is_out_of_room || round == 1)
            status =
                error_set(err, SL_ERR_ENV, "%.*s: downloaded%s, but %s",
                          STR_ARG(worker->file->name), round == 1 ? " twice" : "", part->problem);
        if (round == 1) /* a part that is whole and wrong is worth nothing */
            (void)restart(worker, NULL);
        if (status == SL_OK)
            status = restart(worker, err);
    }
    buf_release(&url);
    return status;
}

/* Waits while another process fetches the same file. */
static enum status take_lock(const struct worker *worker, int *fd, struct error *err) {
    const struct fetch_options *options = worker->fetch->options;
    char path[PATH_MAX], reason[128];
    if (!store_lock(options->store, options->repo, worker->file->key, path))
        return store_too_long(options->repo, err);
    TRY(store_make_folders(path, err));
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0)
        return error_set(err, SL_ERR_ENV, "%s: cannot be written: %s", path,
                         strerror_r(errno, reason, sizeof reason));
    for (bool is_told = false; flock(*fd, LOCK_EX | LOCK_NB) != 0; is_told = true) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_set(err, SL_ERR_ENV, "%s: cannot be locked: %s", path,
                             strerror_r(errno, reason, sizeof reason));
        if (!is_told)
            log_note("%.*s: waiting for another process that fetches it",
                     STR_ARG(worker->file->name));
        if (!wait_for(0.5))
            return stopped(err);
    }
    return SL_OK;
}

static bool is_whole(const struct worker *worker, const char *blob) {
    struct stat info;
    return stat(blob, &info) == 0 && S_ISREG(info.st_mode) &&
           (uint64_t)info.st_size == worker->file->bytes;
}

static enum status fetch_file(struct worker *worker, struct error *err) {
    const struct fetch_options *options = worker->fetch->options;
    char blob[PATH_MAX];
    int lock = -1;
    if (!store_blob(options->store, options->repo, worker->file->key, blob))
        return store_too_long(options->repo, err);
    enum status status = take_lock(worker, &lock, err);
    uint64_t here = fetch_bytes_here(options->store, options->repo, worker->file);
    if (status == SL_OK && !is_whole(worker, blob)) {
        status = part_open(&worker->part, blob, worker->file->key, worker->file->bytes, should_stop,
                           err);
        if (status == SL_ERR_STOPPED)
            status = stopped(err);
        if (status == SL_OK) {
            atomic_fetch_sub(&worker->fetch->bytes_here, here - worker->part.have);
            status = fetch_part(worker, blob, err);
            part_close(&worker->part);
        }
    }
    if (lock >= 0)
        close(lock);
    return status;
}

/* ---- all files */

static void *work(void *ctx) {
    struct worker *worker = ctx;
    struct fetch *fetch = worker->fetch;
    struct error err = {0};
    current = fetch;
    enum status status = http_new(should_stop, &worker->http, &err);
    while (status == SL_OK && !should_stop()) {
        size_t at = atomic_fetch_add(&fetch->next, 1);
        if (at >= fetch->options->file_count)
            break;
        worker->file = &fetch->options->files[at];
        status = fetch_file(worker, &err);
        if (status == SL_OK)
            atomic_fetch_add(&fetch->files_done, 1);
    }
    if (status != SL_OK) {
        pthread_mutex_lock(&fetch->lock);
        bool is_first = fetch->err.status == SL_OK || fetch->err.status == SL_ERR_STOPPED;
        if (is_first)
            fetch->err = err;
        pthread_mutex_unlock(&fetch->lock);
        atomic_store(&fetch->has_ended, true);
    }
    http_free(worker->http);
    return NULL;
}

struct meter {
    bool is_line, is_log;
    double start, next;
    uint64_t bytes_all, bytes_at_start;
};

static void begin_meter(struct meter *meter, const struct fetch *fetch) {
    const char *mode = fetch->options->progress;
    bool is_auto = strcmp(mode, "auto") == 0;
    *meter = (struct meter){
        .is_line = strcmp(mode, "line") == 0 || (is_auto && isatty(STDERR_FILENO)),
        .is_log = strcmp(mode, "log") == 0 || (is_auto && !isatty(STDERR_FILENO)),
        .start = clock_seconds(),
        .bytes_at_start = atomic_load(&fetch->bytes_here),
    };
    meter->next = meter->start + (meter->is_line ? 0 : LOG_SECONDS);
    for (size_t i = 0; i < fetch->options->file_count; i++)
        meter->bytes_all += fetch->options->files[i].bytes;
}

/* "org/name: 1.25 of 141.10 GB, 112 MB/s, 20 min left" */
static void show_meter(struct meter *meter, const struct fetch *fetch) {
    char text[300], left[40] = "";
    double now = clock_seconds(), seconds = now - meter->start;
    if (now < meter->next || (!meter->is_line && !meter->is_log))
        return;
    meter->next = now + (meter->is_line ? LINE_SECONDS : LOG_SECONDS);
    uint64_t here = atomic_load(&fetch->bytes_here);
    double rate = here > meter->bytes_at_start && seconds > 0
                      ? (double)(here - meter->bytes_at_start) / seconds
                      : 0;
    if (rate > 0 && here <= meter->bytes_all) {
        double rest = (double)(meter->bytes_all - here) / rate;
        snprintf(left, sizeof left, ", %.0f %s left", rest < 120 ? rest : rest / 60,
                 rest < 120 ? "s" : "min");
    }
    enum { CELLS = 20 };
    double share = meter->bytes_all > 0 ? (double)here / (double)meter->bytes_all : 1;
    int full = (int)(share * CELLS);
    full = full > CELLS ? CELLS : full;
    static const char bar[] = "####################....................";
    snprintf(text, sizeof text, "%.100s [%.*s] %.2f of %.2f GB, %zu of %zu files, %.0f MB/s%s",
             fetch->options->repo, CELLS, bar + CELLS - full, (double)here / 1e9,
             (double)meter->bytes_all / 1e9, atomic_load(&fetch->files_done),
             fetch->options->file_count, rate / 1e6, left);
    if (meter->is_line)
        log_progress(text);
    else
        log_note("%s", text);
}

static enum status run_workers(struct fetch *fetch, struct worker *workers, size_t count,
                               struct error *err) {
    pthread_t threads[SL_FETCH_AT_ONCE_MAX];
    struct meter meter;
    size_t started = 0;
    int number = 0;
    current = fetch;
    begin_meter(&meter, fetch);
    for (; started < count && number == 0; started += number == 0) {
        workers[started].fetch = fetch;
        number = pthread_create(&threads[started], NULL, work, &workers[started]);
    }
    bool has_begun = started > 0;
    while (has_begun && !should_stop() &&
           atomic_load(&fetch->files_done) < fetch->options->file_count) {
        show_meter(&meter, fetch);
        clock_sleep(0.02);
    }
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (meter.is_line)
        log_progress("");
    return has_begun ? SL_OK
                     : error_set(err, SL_ERR_ENV, "no thread can be started: %s", strerror(number));
}

enum status fetch_all(const struct fetch_options *options, struct error *err) {
    struct fetch fetch = {.options = options};
    size_t count = size_min(size_min(options->at_once, SL_FETCH_AT_ONCE_MAX), options->file_count);
    uint64_t here = 0;
    for (size_t i = 0; i < options->file_count; i++)
        here += fetch_bytes_here(options->store, options->repo, &options->files[i]);
    atomic_store(&fetch.bytes_here, here);
    struct worker *workers = mem_new(count, sizeof *workers);
    if (workers == NULL)
        return error_memory(err, count * sizeof *workers, "the downloads");
    pthread_mutex_init(&fetch.lock, NULL);
    enum status status = run_workers(&fetch, workers, count, err);
    pthread_mutex_destroy(&fetch.lock);
    mem_free(workers);
    TRY(status);
    if (fetch.err.status != SL_OK) {
        if (err != NULL)
            *err = fetch.err;
        return fetch.err.status;
    }
    return atomic_load(&fetch.files_done) == options->file_count ? SL_OK : stopped(err);
}
