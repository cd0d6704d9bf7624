/* Owns the order of the steps, and the sum of what a download needs. */
#include "hub/pull.h"

#include "base/clock.h"
#include "base/log.h"
#include "hub/http.h"
#include "hub/listing.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#define ANSWER_BYTES_MAX ((size_t)64 << 20)
#define TRIES_MAX 4

struct pull {
    const struct pull_options *options;
    const struct hub_name *name;
    struct listing listing;
    struct buf answer; /* of the hub; the listing borrows from it */
    size_t file_count; /* chosen: the first of the listing */
};

static bool begin_answer(void *ctx, const struct http_answer *answer) {
    (void)answer;
    buf_clear(ctx);
    return true;
}

static bool add_answer(void *ctx, const void *data, size_t bytes) {
    struct buf *out = ctx;
    if (bytes > ANSWER_BYTES_MAX - out->len)
        return false;
    buf_add(out, (struct str){data, bytes});
    return !out->has_failed;
}

/* The hub's answer to one question, with some patience. */
static enum status ask(struct pull *pull, const char *url, struct error *err) {
    const struct pull_options *options = pull->options;
    struct http *http;
    struct http_answer answer;
    struct http_request request = {
        .url = url,
        .token = options->token,
        .if_range = "",
        .sink = {begin_answer, add_answer, &pull->answer},
    };
    TRY(http_new(options->should_stop, &http, err));
    for (int tries = 1;; tries++) {
        http_get(http, &request, &answer);
        bool may_pass = answer.end == HTTP_BROKEN ||
                        (answer.end == HTTP_DONE && fetch_is_passing(answer.status));
        if (!may_pass || tries == TRIES_MAX)
            break;
        double wait = answer.retry_after_seconds;
        for (double end = clock_seconds() + (wait > 0 && wait < 10 ? wait : 0.3 * tries);
             clock_seconds() < end && !options->should_stop();)
            clock_sleep(0.05);
    }
    http_free(http);
    const char *repo = pull->name->repo;
    switch (answer.end) {
    case HTTP_DONE:
        return answer.status < 300 ? SL_OK
                                   : fetch_refused(repo, answer.status, options->token != NULL,
                                                   repo, options->endpoint, err);
    case HTTP_STOPPED:
        return error_set(err, SL_ERR_STOPPED, "stopped; nothing was downloaded");
    case HTTP_REFUSED:
        return error_set(err, SL_ERR_ENV, "%s: the hub's answer is longer than %zu MiB", repo,
                         ANSWER_BYTES_MAX >> 20);
    case HTTP_BROKEN:
    case HTTP_WRONG:
        break;
    }
    return error_set(err, SL_ERR_ENV, "%s: the hub at %s cannot be asked: %s", repo,
                     options->endpoint, answer.problem);
}

static enum status list_files(struct pull *pull, struct error *err) {
    struct buf url;
    buf_init(&url);
    buf_printf(&url, "%s/api/models/%s/revision/", pull->options->endpoint, pull->name->repo);
    for (const char *at = pull->name->revision; *at != '\0'; at++)
        buf_printf(&url, *at == '/' ? "%%2F" : "%c", *at);
    buf_add(&url, STR("?blobs=true"));
    enum status status = buf_status(&url, "an address", err);
    if (status == SL_OK)
        status = ask(pull, url.data, err);
    buf_release(&url);
    TRY(status);
    TRY(listing_parse(&pull->listing, pull->name->repo, buf_str(&pull->answer), err));
    return listing_choose(&pull->listing, pull->name, &pull->file_count, err);
}

/* Whether a file before it has the same content: it is fetched once. */
static bool is_repeated(const struct listing *listing, size_t at) {
    for (size_t i = 0; i < at; i++) {
        if (strcmp(listing->files[i].key, listing->files[at].key) == 0)
            return true;
    }
    return false;
}

/* Room for all that is missing, before the first byte. */
static enum status check_room(const struct pull *pull, uint64_t missing, struct error *err) {
    const struct pull_options *options = pull->options;
    struct statvfs drive;
    char reason[128];
    char below[PATH_MAX];
    if (!store_blob(options->store, pull->name->repo, "", below))
        return store_too_long(pull->name->repo, err);
    TRY(store_make_folders(below, err));
    if (statvfs(options->store->folder, &drive) != 0)
        return error_set(err, SL_ERR_ENV, "%s: its free room cannot be told: %s",
                         options->store->folder, strerror_r(errno, reason, sizeof reason));
    uint64_t free_bytes = (uint64_t)drive.f_bavail * drive.f_frsize;
    if (missing == 0 || (missing <= free_bytes && options->floor_bytes <= free_bytes - missing))
        return SL_OK;
    return error_set(err, SL_ERR_ENV,
                     "%s: no room: %.2f GB are missing and %.2f GB are to be left free "
                     "(--disk-floor), but %s has %.2f GB free: nothing was downloaded",
                     pull->name->repo, (double)missing / 1e9, (double)options->floor_bytes / 1e9,
                     options->store->folder, (double)free_bytes / 1e9);
}

/* Downloads the chosen files that are not here. */
static enum status fetch(struct pull *pull, struct error *err) {
    const struct pull_options *options = pull->options;
    struct listing *listing = &pull->listing;
    uint64_t bytes = 0, here = 0;
    struct fetch_file *files = mem_new(pull->file_count, sizeof *files);
    size_t count = 0;
    if (files == NULL)
        return error_memory(err, pull->file_count * sizeof *files, "the downloads");
    for (size_t i = 0; i < pull->file_count; i++) {
        const struct fetch_file *file = &listing->files[i];
        if (is_repeated(listing, i))
            continue;
        uint64_t have = fetch_bytes_here(options->store, pull->name->repo, file);
        bytes += file->bytes;
        here += have;
        files[count++] = *file;
    }
    enum status status = check_room(pull, bytes - here, err);
    if (status == SL_OK && here < bytes)
        log_note("pull %s: %zu files, %.2f GB, of which %.2f GB are here, into %s",
                 pull->name->repo, count, (double)bytes / 1e9, (double)here / 1e9,
                 options->store->folder);
    struct fetch_options fetching = {
        .store = options->store,
        .endpoint = options->endpoint,
        .token = options->token,
        .repo = pull->name->repo,
        .commit = listing->commit,
        .files = files,
        .file_count = count,
        .at_once = options->at_once,
        .progress = options->progress,
        .should_stop = options->should_stop,
    };
    if (status == SL_OK)
        status = fetch_all(&fetching, err);
    mem_free(files);
    return status;
}

static enum status place(struct pull *pull, char path[PATH_MAX], struct error *err) {
    const struct store *store = pull->options->store;
    const struct hub_name *name = pull->name;
    for (size_t i = 0; i < pull->file_count; i++) {
        const struct fetch_file *file = &pull->listing.files[i];
        char link[SL_HUB_NAME_BYTES];
        memcpy(link, file->name.data, file->name.len);
        link[file->name.len] = '\0';
        TRY(store_link(store, name->repo, pull->listing.commit, link, file->key, err));
    }
    TRY(store_put_ref(store, name, pull->listing.commit, err));
    if (!store_find(store, name, path))
        return error_set(err, SL_ERR_ENV,
                         "%s: its files are downloaded, but they do not make a whole model",
                         name->repo);
    return SL_OK;
}

enum status pull_model(const struct pull_options *options, const struct hub_name *name,
                       char path[PATH_MAX], struct error *err) {
    struct pull pull = {.options = options, .name = name};
    buf_init(&pull.answer);
    arena_init(&pull.listing.arena);
    enum status status = list_files(&pull, err);
    if (status == SL_OK)
        status = fetch(&pull, err);
    if (status == SL_OK)
        status = place(&pull, path, err);
    listing_release(&pull.listing);
    buf_release(&pull.answer);
    return status;
}
