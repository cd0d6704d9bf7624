/* Progress: one updating line on a terminal, one log line a minute otherwise; and the metrics file.
 * One thread. */
#ifndef SLUICE_JOB_PROGRESS_H
#define SLUICE_JOB_PROGRESS_H

#include "engine/engine.h"
#include "job/estimate.h"
#include "plan/plan.h"

struct progress;

struct progress_options {
    const char *mode;    /* "auto" "line" "log" "none" */
    const char *metrics; /* file; NULL: none */
    const struct plan *plan;
    size_t rows_total;
};

struct progress_state {
    size_t rows_done, rows_failed, rows_live;
    uint64_t kv_bytes_used, kv_bytes;
    uint64_t prompt_tokens, completion_tokens; /* of finished rows */
    const struct estimate_job *left;           /* NULL: nothing new is known of the time left */
};

/* Where a pass is. */
struct progress_layer {
    uint32_t layer, layers;
    size_t tokens; /* of the pass */
};

enum status progress_open(const struct progress_options *options, struct progress **out,
                          struct error *err);
/* After every pass: metrics line (flushed), progress line when due. SL_ERR_ENV when the metrics
 * cannot be written. */
enum status progress_pass(struct progress *progress, const struct pass_report *report,
                          const struct progress_state *state, struct error *err);
/* Within a pass, before each layer: the progress line when the pass is a long one. */
void progress_layer(struct progress *progress, const struct progress_state *state,
                    const struct progress_layer *layer);
/* The summary line of the metrics and one line for people. */
enum status progress_finish(struct progress *progress, const struct progress_state *state,
                            struct error *err);
/* Bytes of weights a second in the median pass that had decode tokens alone; 0: too few of them. To
 * be called at the very end: the passes are forgotten. */
uint64_t progress_decode_rate(struct progress *progress);
void progress_close(struct progress *progress); /* accepts NULL */

#endif
