/* Records: what earlier probes and runs have measured, kept in SLUICE_HOME as readable JSON.
 *
 *   HOME/probes/DRIVE.json   the best cell of a drive: method, chunk, depth, rates
 *   HOME/rates/MODEL.json    what real runs of a model and precision reached
 *
 * DRIVE and MODEL are hashes of the identity that stands inside. A file is replaced as a whole, so
 * concurrent runs cannot tear it; one that cannot be read, or says nonsense, counts as absent: a
 * record is advice. Not for several threads. */
#ifndef SLUICE_PLAN_RECORD_H
#define SLUICE_PLAN_RECORD_H

#include "io/probe.h"

#define SL_DRIVE_NAME_BYTES 200

/* What tells a drive from others: the device's numbers, and its model, serial number and size where
 * the system tells them (/sys/dev/block), or the file system's source where it has no device of its
 * own. */
void record_drive(const struct file *file, char name[SL_DRIVE_NAME_BYTES]);

/* What of some files lies on one drive. */
struct drive_share {
    char name[SL_DRIVE_NAME_BYTES];
    uint64_t number, bytes; /* file.drive of these files; their bytes together */
};
/* The drives that files lie on, the one with the most bytes first; how many. Files on more than
 * SL_RING_DRIVES_MAX drives count to the last one. */
size_t record_drives(struct file *const *files, size_t count,
                     struct drive_share shares[SL_RING_DRIVES_MAX]);
/* Of count files those that count to a share, into `out`, which has room for all; how many. */
size_t record_files_of(struct file *const *files, size_t count, const struct drive_share *shares,
                       size_t share_count, size_t share, struct file **out);

struct probe_record {
    char drive[SL_DRIVE_NAME_BYTES];
    const struct ring_method *method;
    size_t chunk_bytes, depth;
    uint64_t bytes_per_second;           /* of the best cell, over seconds */
    uint64_t sustained_bytes_per_second; /* likewise, over the longest part */
    uint64_t file_bytes;                 /* of the files probed */
    int64_t date;                        /* seconds since 1970 */
    bool is_quick;                       /* a few seconds before a job */
};
#define SL_PROBE_DAYS 30 /* a record older than that is stale */

/* False: there is none for that drive, or no sensible one. */
bool record_get_probe(const char *home, const char *drive, struct probe_record *out);
enum status record_put_probe(const char *home, const struct probe_record *record,
                             struct error *err);
/* From the result of a probe of files on that drive. */
void record_of_probe(const struct probe *probe, const char *drive, struct probe_record *out);

/* The engine rate: bytes of weights over the seconds of a pass, of the median decode pass. Only of
 * runs that streamed SL_RATE_BYTES_LEAST or more from the drive itself. */
struct rate_record {
    uint64_t bytes_per_second;
    int64_t date;
    uint64_t runs; /* that have refreshed it */
};
#define SL_RATE_BYTES_LEAST ((uint64_t)10 << 30)
/* key: model, precision, kernels and drive in one text. */
bool record_get_rate(const char *home, const char *key, struct rate_record *out);
enum status record_put_rate(const char *home, const char *key, const struct rate_record *record,
                            struct error *err);

#endif
