/* What a repository of the hub holds, and which of its files a model needs. The hub's answer
 * (huggingface.co/docs/hub/api: /api/models/REPO/revision/REVISION?blobs=true) is hostile input.
 * Plain values; one thread. */
#ifndef SLUICE_HUB_LISTING_H
#define SLUICE_HUB_LISTING_H

#include "base/mem.h"
#include "hub/fetch.h"

struct listing {
    struct arena arena;
    char commit[SL_HUB_KEY_BYTES]; /* 40 hex digits */
    struct fetch_file *files;      /* with usable names, sums and sizes; names live in the arena */
    size_t file_count;
};

/* Parses the answer. SL_ERR_ENV names the repository and what is wrong. */
enum status listing_parse(struct listing *listing, const char *repo, struct str answer,
                          struct error *err);
void listing_release(struct listing *listing);
/* Moves the files that the model needs to the front, and returns how many: of a folder of
 * safetensors the weights, configs, tokenizer and template; of GGUF the file that the name means,
 * with the other parts of a split set. SL_ERR_INPUT when there is none, or several: they are named
 * then. */
enum status listing_choose(struct listing *listing, const struct hub_name *name, size_t *count,
                           struct error *err);

#endif
