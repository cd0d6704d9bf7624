/* A part of a file that is being downloaded: its bytes, its sum so far, and the etag of the server
 * that gave them (in a small file beside it). One thread calls; writing and summing have threads of
 * their own (hub/flow.h). The caller holds the key's lock. */
#ifndef SLUICE_HUB_PART_H
#define SLUICE_HUB_PART_H

#include "hub/http.h"
#include "hub/store.h"

struct flow;
struct sum;
struct part {
    const char *key;
    uint64_t bytes; /* of the whole file */
    uint64_t have;  /* taken; part_flush has them written and summed */
    bool (*should_stop)(void);
    char path[PATH_MAX], etag_path[PATH_MAX];
    char etag[256]; /* "" when unknown */
    int fd;
    struct flow *flow;

    /* Of the flow's threads until it is drained. */
    struct sum *sum;  /* of the first `have` bytes */
    uint64_t written; /* bytes in the file */
    int write_error;  /* errno */
    int direct_fd;    /* past the page cache; -1: not to be had */

    char problem[200];
    bool is_out_of_room; /* the problem is the disk: no other try mends it */
};

/* Opens or makes the part beside blob_path and sums what is there, which takes a second for a GB or
 * two; one that is longer than the file begins anew. SL_ERR_ENV; SL_ERR_STOPPED, the part is then
 * as it was. */
enum status part_open(struct part *part, const char *blob_path, const char *key, uint64_t bytes,
                      bool (*should_stop)(void), struct error *err);
void part_close(struct part *part);
/* Where the bytes of an answer go: cuts the part back to where they begin. False, with problem set:
 * they begin behind its end, or are of a file of another size. */
bool part_begin(struct part *part, const struct http_answer *answer);
bool part_add(struct part *part, const void *data, size_t bytes);
/* Waits until all bytes are in the file and in the sum: after each answer. False, with problem set,
 * when they cannot be written. */
bool part_flush(struct part *part);
/* Throws away what is there. */
bool part_restart(struct part *part);
/* After part_flush. Whether the sum of the whole part is the key; it is then on the disk under its
 * final name. False, with problem set, when it is not (sum_end is done: restart or close). */
bool part_finish(struct part *part, const char *blob_path);

#endif
