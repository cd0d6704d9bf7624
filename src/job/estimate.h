/* How long a job will still take. The schedule is played from where it stands (plan/simulate.h):
 * the rows that are in with what they have and lack, those that wait in their order, answers as
 * long as the scheduler expects them from the rows of this job, and passes that cost what the last
 * ones did. Arithmetic only: no clock, no file; one thread.
 *
 * Cost: the plan knows how a pass's work grows with its tokens, and has rates. What passes take
 * tells first how far these are off, and once passes differ also how much of it does not grow with
 * their work: the plan's line
 *
 *     seconds = f0 + s0 x work        is scaled to        r x (f0 + s0 x work) + d x (work - mean)
 *
 * with r from the means, and d from least squares, drawn towards 0 while all passes are alike. So
 * passes of prompts alone do not say that a pass of few tokens takes as long. Of
 * the last thirty passes or so: a machine that others use too is now faster, now slower. What a
 * pass waits for the drive is no work of it; the drive's rate is told by the time in which it reads
 * while the processor waits, and is no less than in passes whose reads wait for the processor.
 * Where a pass takes longer than its reads and than its work (of one block the reads are longer, of
 * the next the work), the mean of the rest is added to each.
 */
#ifndef SLUICE_JOB_ESTIMATE_H
#define SLUICE_JOB_ESTIMATE_H

#include "engine/sched.h"
#include "plan/simulate.h"

struct estimate {
    struct pass_cost known; /* of the plan */
    size_t passes;
    double weight, work, seconds, work_squared, work_seconds; /* of passes, fading */
    double idle_seconds;                                      /* likewise */
    double read_bytes, read_seconds;                          /* likewise */
    double told_bytes, told_seconds; /* likewise, passes that tell little hardly counted */
};

struct estimate_pass {
    double tokens, logits;
    double seconds, wait_seconds; /* waited: engine_waited */
    double read_seconds;          /* while something was read */
};

/* What is left of a job. */
struct estimate_job {
    const struct sched *sched;         /* rows that are in, and what is expected of answers */
    const struct row_lengths *waiting; /* all others, in the order in which they are offered */
};

void estimate_init(struct estimate *estimate, const struct pass_cost *known);
void estimate_pass(struct estimate *estimate, const struct estimate_pass *pass);
/* What a pass costs, as far as passes have told. */
void estimate_cost(const struct estimate *estimate, struct pass_cost *out);
/* SL_ERR_ENV when memory is out. */
enum status estimate_left(const struct estimate *estimate, const struct estimate_job *job,
                          double *seconds, struct error *err);

#endif
