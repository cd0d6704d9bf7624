/* Probe: at what rate a drive gives files, by method, chunk and depth of the ring.
 *
 *   grid (each cell shortly) --> the best few again, in turn, longer --> the best one for long
 *
 * Reads go through a ring as those of a job do, block after block over all files in order and round
 * again, each file from where the last cell left it, so that no cell reads what the one before has
 * just brought into a cache of the drive. Rates count from the moment when the ring is full to the
 * last block: neither first touches of memory nor the end of a cell are in them. Reads are direct
 * where the files have a direct_fd; what the page cache holds is dropped first, so that buffered
 * ones do not measure memory. One thread; memory at most SL_PROBE_BYTES_MAX. */
#ifndef SLUICE_IO_PROBE_H
#define SLUICE_IO_PROBE_H

#include "io/ring.h"

#define SL_PROBE_CELLS_MAX 64u
#define SL_PROBE_BYTES_MAX ((size_t)256 << 20)

struct probe_cell {
    const struct ring_method *method;
    size_t chunk_bytes, depth;
    double bytes_per_second;
};

struct probe {
    struct probe_cell cells[SL_PROBE_CELLS_MAX]; /* in the order measured */
    size_t cell_count, best;
    double sustained_bytes_per_second; /* of the best cell, over the last and longest part */
    uint64_t file_bytes;               /* of all files */
    bool is_direct;                    /* all files */
};

struct probe_options {
    struct file *const *files;
    size_t file_count;
    /* For all of it, about; 0: a minute. Below 15 the grid is cut to its middle. */
    double seconds;
    const struct ring_method *method;                       /* NULL: all */
    size_t chunk_bytes, depth;                              /* 0: all */
    bool (*should_stop)(void);                              /* may be NULL */
    void (*progress)(void *ctx, size_t done, size_t total); /* cells, then once more; may be NULL */
    void *ctx;
};

/* SL_ERR_ENV for files with nothing in them, for a failed read, and for a method that is asked for
 * by name and cannot run (one of all methods is left out then). SL_ERR_STOPPED. */
enum status probe_run(const struct probe_options *options, struct probe *out, struct error *err);

#endif
