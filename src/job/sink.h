/* The sink: where result lines go. Each line in one write.
 *
 * While the job runs lines are in order of completion; sink_finish puts the file into input order,
 * atomically (a new file beside it, fsync, rename). stdout ("-"), devices and other special files
 * are written to, never replaced. An existing file with content is refused without overwrite
 * (SL_ERR_INPUT) unless a journal lies beside it; a folder that cannot be written to is refused at
 * once (SL_ERR_ENV); a second run on the same file is refused (a lock, the other's pid named). One
 * thread.
 *
 *   sink_open -> sink_begin                                              \
 *             -> sink_expect -> sink_recall ... -> sink_check -> sink_repair -> sink_restore ..
 *                                                   -> sink_write ... -> sink_finish -> sink_close
 */
#ifndef SLUICE_JOB_SINK_H
#define SLUICE_JOB_SINK_H

#include "base/str.h"

struct sink;

#define SL_SINK_OTHERS 3
#define SL_JOURNAL_END ".sluice" /* of the journal's name, behind that of the output */

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
/* A job that goes on: room for the places of row_count lines, of which `sink_recall` tells those
 * that an earlier run has written, in their order. Each is compared with the file, which is only
 * read. */
enum status sink_expect(struct sink *sink, size_t row_count, struct error *err);
enum status sink_recall(struct sink *sink, size_t index, struct str line, struct error *err);
/* The lines again, when all rows have one and sink_is_as_recalled says no: perhaps the file is in
 * input order already. sink_check then knows. */
enum status sink_recall_ordered(struct sink *sink, size_t index, struct str line,
                                struct error *err);
bool sink_is_as_recalled(const struct sink *sink);
/* SL_ERR_INPUT when the file has something and nothing of this job: not one whole line of it, no
 * torn first line, no NUL bytes alone. */
enum status sink_check(const struct sink *sink, const char *journal, struct error *err);
/* Cuts the file behind the lines that are as recalled. *lines: how many those are; the others are
 * to come again, in their order, by sink_restore. A file in input order stays as it is (*lines:
 * all).
 */
enum status sink_repair(struct sink *sink, uint64_t *lines, struct error *err);
enum status sink_restore(struct sink *sink, struct str line, struct error *err);
size_t sink_row_count(const struct sink *sink); /* that sink_begin or sink_expect was given */
bool sink_has_line(const struct sink *sink, size_t index);
/* Writes the line of the index-th row of the job. SL_ERR_ENV on a full disk and the like. A closed
 * pipe on stdout gives SL_ERR_STOPPED with an empty text: end quietly. */
enum status sink_write(struct sink *sink, size_t index, struct str line, struct error *err);
/* All lines are written: puts them in order and on the disk. */
enum status sink_finish(struct sink *sink, struct error *err);
bool sink_is_file(const struct sink *sink);   /* a regular file: what is in it stays */
uint64_t sink_bytes(const struct sink *sink); /* of the file as it was found, or is when finished */
/* The name of a file beside the output, its links followed: the output's own with `end`. */
#define SL_BESIDE_BYTES (4096 + 32)
void sink_beside(const struct sink *sink, const char *end, char out[SL_BESIDE_BYTES]);
void sink_close(
    struct sink *sink); /* accepts NULL; without sink_finish the lines stay as they are */

#endif
