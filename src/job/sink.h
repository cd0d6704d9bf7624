/* The sink: where result lines go. Each line in one write, on disk (written) before it counts as
 * done.
 *
 * While the job runs lines are in order of completion; sink_finish puts the file into input order,
 * atomically (a new file beside it, fsync, rename). stdout ("-"), devices and other special files
 * are written to, never replaced. An existing file with content is refused without overwrite
 * (SL_ERR_INPUT); a folder that cannot be written to is refused at once (SL_ERR_ENV); a second run
 * on the same file is refused (a lock, the other's pid named). One thread. */
#ifndef SLUICE_JOB_SINK_H
#define SLUICE_JOB_SINK_H

#include "base/str.h"

struct sink;

#define SL_SINK_OTHERS 3

struct sink_options {
    const char *path;
    bool overwrites;
    bool keeps_input_order;
    const char *others[SL_SINK_OTHERS]; /* files that the output must not be; NULL: none */
};
/* Opens and locks, and changes nothing: everything that can be refused is refused here. A file that
 * was not there is removed again by sink_close when no line was written and the job has not come to
 * its end (sink_finish). */
enum status sink_open(const struct sink_options *options, struct sink **out, struct error *err);
/* Before the first line: empties an old file and makes room for the places of row_count lines. */
enum status sink_begin(struct sink *sink, size_t row_count, struct error *err);
/* Writes the line of the index-th row of the job. SL_ERR_ENV on a full disk and the like. A closed
 * pipe on stdout gives SL_ERR_STOPPED with an empty text: end quietly. */
enum status sink_write(struct sink *sink, size_t index, struct str line, struct error *err);
/* All lines are written: puts them in order and on the disk. */
enum status sink_finish(struct sink *sink, struct error *err);
bool sink_is_file(const struct sink *sink); /* a regular file: what is in it stays */
void sink_close(
    struct sink *sink); /* accepts NULL; without sink_finish the lines stay as they are */

#endif
