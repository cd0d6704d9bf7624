/* Downloads the files of a repository into the cache, several at once, each checked by its sum
 * before it gets its final name. Parts of files stay, whatever ends the download, and are gone on
 * with. */
#ifndef SLUICE_HUB_FETCH_H
#define SLUICE_HUB_FETCH_H

#include "hub/store.h"

#define SL_FETCH_AT_ONCE_MAX 16

struct fetch_file {
    struct str name;            /* in the repository; borrowed */
    char key[SL_HUB_KEY_BYTES]; /* its SHA-256 or git's SHA-1, in hex */
    uint64_t bytes;
};

struct fetch_options {
    const struct store *store;
    const char *endpoint, *token; /* token NULL: none */
    const char *repo, *commit;
    const struct fetch_file *files;
    size_t file_count, at_once;
    const char *progress; /* "auto" "line" "log" "none" */
    bool (*should_stop)(void);
};

/* Bytes of a file that are in the cache: all of them, or its part's. */
uint64_t fetch_bytes_here(const struct store *store, const char *repo,
                          const struct fetch_file *file);
/* SL_ERR_ENV: a file cannot be had, or there is no room; names the file. The first failure stops
 * the other downloads. SL_ERR_STOPPED. */
enum status fetch_all(const struct fetch_options *options, struct error *err);
/* Whether an answer of this HTTP status may be another one soon. */
bool fetch_is_passing(long http_status);
/* What an answer of the hub that is no success means, as one sentence. */
enum status fetch_refused(const char *what, long http_status, bool has_token, const char *repo,
                          const char *endpoint, struct error *err);

#endif
