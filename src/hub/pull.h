/* From a name to a model on this machine: the whole way of `sluice pull`.
 *
 *   hub's list of files -> choice -> room on the disk -> download, each file checked -> links ->
 * ref
 *
 * One thread; the downloads have threads of their own. */
#ifndef SLUICE_HUB_PULL_H
#define SLUICE_HUB_PULL_H

#include "hub/store.h"

struct pull_options {
    const struct store *store;
    const char *endpoint; /* "https://huggingface.co" */
    const char *token;    /* NULL: none */
    uint64_t floor_bytes; /* of the drive, to be left free */
    const char *progress; /* "auto" "line" "log" "none" */
    size_t at_once;       /* downloads */
    bool (*should_stop)(void);
};

/* Fetches what is missing and says where the model lies. Nothing is downloaded unless there is room
 * for all of it. SL_ERR_INPUT: no such model in the repository; SL_ERR_ENV; SL_ERR_STOPPED. */
enum status pull_model(const struct pull_options *options, const struct hub_name *name,
                       char path[PATH_MAX], struct error *err);

#endif
