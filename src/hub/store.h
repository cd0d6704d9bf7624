/* The cache of models on this machine, in the layout that the Hugging Face tools share, so that
 * what they fetched is found here and what is fetched here there
 * (https://huggingface.co/docs/hub/local-cache):
 *
 *   CACHE/models--ORG--NAME/blobs/KEY               a file; KEY is its SHA-256 (large files) or the
 *                                                   SHA-1 that git has for it
 *                          /blobs/KEY.incomplete    a part of one
 *                          /snapshots/COMMIT/FILE   link to ../../blobs/KEY
 *                          /refs/REVISION           a COMMIT
 *   CACHE/.locks/models--ORG--NAME/KEY.lock         held while KEY is being fetched
 *
 * Invariants: (1) a blob under its final name is whole; (2) a snapshot that is made here gets its
 * links after all its blobs, and its ref after its links. One thread. */
#ifndef SLUICE_HUB_STORE_H
#define SLUICE_HUB_STORE_H

#include "hub/name.h"

#include <limits.h>

struct store {
    char folder[PATH_MAX / 2]; /* CACHE */
};

#define SL_HUB_KEY_BYTES 65 /* SHA-256 in hex, and its end */

/* folder is CACHE. False: too long. */
bool store_init(struct store *store, const char *folder);
/* Paths of a repository; false: too long, which store_too_long says. */
bool store_blob(const struct store *store, const char *repo, const char *key, char path[PATH_MAX]);
bool store_lock(const struct store *store, const char *repo, const char *key, char path[PATH_MAX]);
enum status store_too_long(const char *repo, struct error *err); /* SL_ERR_ENV */
/* Where the model lies: the folder of a snapshot, or a GGUF file in one. False: it is not there, or
 * not all of it. */
bool store_find(const struct store *store, const struct hub_name *name, char path[PATH_MAX]);
/* Every folder above the last slash of path. SL_ERR_ENV. */
enum status store_make_folders(const char *path, struct error *err);
/* Links COMMIT/file to its blob (replaced if it is there). */
enum status store_link(const struct store *store, const char *repo, const char *commit,
                       const char *file, const char *key, struct error *err);
/* Notes what commit a revision is; to be called after the links. */
enum status store_put_ref(const struct store *store, const struct hub_name *name,
                          const char *commit, struct error *err);

/* One repository in the cache. */
struct store_model {
    char repo[SL_HUB_NAME_BYTES];
    uint64_t bytes; /* of its blobs, parts too */
    size_t files;   /* of the newest snapshot */
    bool is_part;   /* there are parts of files */
};
/* All repositories of models, by name. *out is freed with mem_free. */
enum status store_list(const struct store *store, struct store_model **out, size_t *count,
                       struct error *err);
/* Removes a repository; *bytes are those of its files. SL_ERR_INPUT when it is not there. */
enum status store_remove(const struct store *store, const char *repo, uint64_t *bytes,
                         struct error *err);

#endif
