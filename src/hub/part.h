/* A part of a file that is being downloaded: its bytes, its sum so far, and the etag of the server
 * that gave them (in a small file beside it). One thread; the caller holds the key's lock. */
#ifndef SLUICE_HUB_PART_H
#define SLUICE_HUB_PART_H

#include "hub/http.h"
#include "hub/store.h"

struct sum;
struct part {
    const char *key;
    uint64_t bytes; /* of the whole file */
    uint64_t have;
    char path[PATH_MAX], etag_path[PATH_MAX];
    char etag[256]; /* "" when unknown */
    int fd;
    struct sum *sum; /* of the first `have` bytes */
    char problem[200];
    bool is_out_of_room; /* the problem is the disk: no other try mends it */
};

/* Opens or makes the part beside blob_path and sums what is there; one that is longer than the file
 * begins anew. SL_ERR_ENV. */
enum status part_open(struct part *part, const char *blob_path, const char *key, uint64_t bytes,
                      struct error *err);
void part_close(struct part *part);
/* Where the bytes of an answer go: cuts the part back to where they begin. False, with problem set:
 * they begin behind its end, or are of a file of another size. */
bool part_begin(struct part *part, const struct http_answer *answer);
bool part_add(struct part *part, const void *data, size_t bytes);
/* Throws away what is there. */
bool part_restart(struct part *part);
/* Whether the sum of the whole part is the key; it is then on the disk under its final name. False,
 * with problem set, when it is not (sum_end is done: restart or close). */
bool part_finish(struct part *part, const char *blob_path);

#endif
