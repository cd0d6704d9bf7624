/* The metrics of a job, as `run --metrics` writes them, read again: for the commands that measure
 * and report. Plain values; one thread. */
#ifndef SLUICE_CLI_METRICS_FILE_H
#define SLUICE_CLI_METRICS_FILE_H

#include "base/status.h"

/* One pass; docs/manual.md says what each is. */
struct metrics_pass {
    double seconds, read_seconds, wait_seconds;
    double at; /* end of the pass, seconds since the first one began */
    uint64_t read_bytes, decode_tokens, prefill_tokens;
    uint64_t rows_live, rows_done, rows_total;
    uint64_t kv_bytes_used, kv_bytes, rss_bytes;
};

struct metrics_file {
    struct metrics_pass *passes;
    size_t count, cap;
    bool has_summary; /* the job ended or was stopped; else all below is made from the passes */
    uint64_t rows_done, rows_failed, prompt_tokens, completion_tokens, peak_rss_bytes, batch_max;
    uint64_t read_bytes_per_second; /* of the median pass */
    double seconds, median_pass_seconds, tokens_per_second;
    char engine[32], precision[64], kernels[32]; /* "" when not told */
    /* What the plan foresaw, where the summary tells it; 0 otherwise. */
    double planned_seconds, planned_tokens_per_second;
    uint64_t planned_passes, planned_peak_bytes, budget_bytes;
};

/* SL_ERR_ENV or SL_ERR_INPUT, naming file and line; a file without a pass is refused. */
enum status metrics_read(const char *path, struct metrics_file *out, struct error *err);
void metrics_release(struct metrics_file *metrics);
/* Share of the time of decode passes during which a read was in flight; -1 when nothing was read.
 */
double metrics_read_share(const struct metrics_file *metrics);

#endif
