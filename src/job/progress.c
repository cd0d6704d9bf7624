/* Owns what people and programs see of a running job: the updating line, the log line a minute, the
 * metrics file and the summary. Decides nothing about the job.
 *
 * Times come from the passes themselves; what is left is estimate.c's. */
#include "job/progress.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "job/estimate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_EVERY_SECONDS 0.2
#define LOG_EVERY_SECONDS 60.0
#define PASSES_KEPT 8192u /* the median is of the last so many */
#define DECODE_PASSES_LEAST 5u
#define LONG_PASS_SECONDS 1.0 /* one that is shown layer by layer */
#define ETA_SHARE 400.0       /* of the time, one part in so many is spent on estimates at most */
#define RATE_WEIGHT 0.2       /* of the newest pass in the running rate */

enum show { SHOW_NONE, SHOW_LINE, SHOW_LOG };

struct pass_time {
    float seconds, read_bytes;
    bool is_decode; /* nothing else */
};

struct progress {
    enum show show;
    const struct plan *plan;
    const char *metrics;
    int fd; /* of the metrics; -1: none */
    size_t rows_total;
    double started, shown;
    uint64_t passes;
    double tokens_per_second; /* of the last passes */
    uint64_t new_tokens;
    struct estimate estimate;
    double eta, eta_at, eta_cost; /* seconds left, when that was found, what it took */
    double pass_begun;
    double reading; /* share of the last pass in which the drive read; below 0: nothing was read */
    double read_bytes, pass_seconds; /* of all passes */
    size_t batch_max;
    struct pass_time *times; /* [PASSES_KEPT], a circle */
    struct buf line;
};

enum status progress_open(const struct progress_options *options, struct progress **out,
                          struct error *err) {
    struct progress *progress = mem_new(1, sizeof *progress);
    if (progress == NULL)
        return error_memory(err, sizeof *progress, "the progress");
    *progress = (struct progress){
        .show = strcmp(options->mode, "line") == 0   ? SHOW_LINE
                : strcmp(options->mode, "log") == 0  ? SHOW_LOG
                : strcmp(options->mode, "none") == 0 ? SHOW_NONE
                : isatty(STDERR_FILENO)              ? SHOW_LINE
                                                     : SHOW_LOG,
        .plan = options->plan,
        .metrics = options->metrics,
        .fd = -1,
        .rows_total = options->rows_total,
        .started = clock_seconds(),
    };
    progress->shown = progress->started;
    buf_init(&progress->line);
    progress->pass_begun = progress->eta_at = progress->started;
    progress->reading = -1;
    progress->eta = options->plan->seconds;
    estimate_init(&progress->estimate, &options->plan->cost);
    progress->times = mem_new(PASSES_KEPT, sizeof *progress->times);
    if (progress->times == NULL) {
        progress_close(progress);
        return error_memory(err, PASSES_KEPT * sizeof(struct pass_time), "the progress");
    }
    if (options->metrics != NULL) {
        progress->fd = open(options->metrics, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (progress->fd < 0) {
            enum status status = error_set(err, SL_ERR_ENV, "%s: the metrics cannot be opened: %s",
                                           options->metrics, strerror(errno));
            progress_close(progress);
            return status;
        }
    }
    *out = progress;
    return SL_OK;
}

void progress_close(struct progress *progress) {
    if (progress == NULL)
        return;
    if (progress->show == SHOW_LINE)
        log_progress("");
    if (progress->fd >= 0)
        close(progress->fd);
    buf_release(&progress->line);
    mem_free(progress->times);
    mem_free(progress);
}

static enum status write_metrics(struct progress *progress, struct error *err) {
    TRY(buf_status(&progress->line, "metrics", err));
    struct str left = buf_str(&progress->line);
    while (left.len > 0) {
        ssize_t got = write(progress->fd, left.data, left.len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, SL_ERR_ENV, "%s: the metrics cannot be written: %s",
                             progress->metrics, strerror(errno));
        left = str_cut(left, (size_t)got, left.len);
    }
    return SL_OK;
}

static void add_real(struct buf *out, const char *name, double value) {
    buf_printf(out, ", \"%s\": %.6f", name, value);
}

/* Looks anew after a pass, unless passes are so short that looking would cost. */
static void renew_eta(struct progress *progress, const struct estimate_job *left) {
    double begin = clock_seconds(), seconds;
    bool is_too_soon = begin - progress->eta_at < ETA_SHARE * progress->eta_cost;
    if (left == NULL || (progress->passes > 1 && is_too_soon) ||
        estimate_left(&progress->estimate, left, &seconds, NULL) != SL_OK)
        return;
    progress->eta = seconds;
    progress->eta_at = clock_seconds();
    progress->eta_cost = progress->eta_at - begin;
}

static double eta_seconds(const struct progress *progress) {
    double left = progress->eta - (clock_seconds() - progress->eta_at);
    return left > 0 ? left : 0;
}

static enum status metrics_pass(struct progress *progress, const struct pass_report *report,
                                const struct progress_state *state, struct error *err) {
    struct buf *out = &progress->line;
    double wait = report->reads.wait_seconds;
    double compute = report->seconds > wait ? report->seconds - wait : 0;
    buf_clear(out);
    buf_printf(out, "{\"pass\": %llu", (unsigned long long)progress->passes);
    add_real(out, "seconds", report->seconds);
    json_member_count(out, "read_bytes", report->reads.read_bytes);
    add_real(out, "read_seconds", report->reads.read_seconds);
    add_real(out, "wait_seconds", wait);
    add_real(out, "compute_seconds", compute);
    json_member_count(out, "decode_tokens", report->decode_tokens);
    json_member_count(out, "prefill_tokens", report->prefill_tokens);
    json_member_count(out, "draft_tokens", 0);
    json_member_count(out, "rows_live", state->rows_live);
    json_member_count(out, "rows_done", state->rows_done);
    json_member_count(out, "rows_total", progress->rows_total);
    json_member_count(out, "kv_bytes_used", state->kv_bytes_used);
    json_member_count(out, "kv_bytes", state->kv_bytes);
    json_member_count(out, "rss_bytes", machine_rss_bytes());
    add_real(out, "eta_seconds", eta_seconds(progress));
    buf_add(out, STR("}\n"));
    return write_metrics(progress, err);
}

static void add_eta(struct buf *out, double seconds) {
    uint64_t whole = seconds < 1e9 ? (uint64_t)(seconds + 0.5) : 0;
    if (whole >= 3600)
        buf_printf(out, "%lluh %llum", (unsigned long long)(whole / 3600),
                   (unsigned long long)(whole / 60 % 60));
    else if (whole >= 60)
        buf_printf(out, "%llum %llus", (unsigned long long)(whole / 60),
                   (unsigned long long)(whole % 60));
    else
        buf_printf(out, "%llus", (unsigned long long)whole);
}

static void add_peak(struct buf *out, uint64_t bytes) {
    if (bytes >= 1000000000)
        buf_printf(out, "%.1f GB", (double)bytes / 1e9);
    else
        buf_printf(out, "%.0f MB", (double)bytes / 1e6);
}

/* rows 12/500 · pass 21 (34.1 s) · 3.6 tok/s · ETA 4h 52m · bf16 · batch 167 · disk 96% · peak 21.3
 * GB and within a long pass: pass 22 (12.4 s, layer 31 of 80, 167 tokens)
 */
static void show(struct progress *progress, const struct progress_state *state, double seconds,
                 const struct progress_layer *layer) {
    struct buf *out = &progress->line;
    buf_clear(out);
    buf_printf(out, "rows %zu/%zu · pass %llu (%.1f s", state->rows_done + state->rows_failed,
               progress->rows_total, (unsigned long long)progress->passes + (layer != NULL),
               seconds);
    if (layer != NULL)
        buf_printf(out, ", layer %u of %u, %zu tokens", layer->layer + 1, layer->layers,
                   layer->tokens);
    buf_printf(out, ") · %.1f tok/s · ETA ", progress->tokens_per_second);
    add_eta(out, eta_seconds(progress));
    buf_printf(out, " · %s · batch %zu", progress->plan->precision, state->rows_live);
    if (progress->reading >= 0)
        buf_printf(out, " · disk %.0f%%", 100 * progress->reading);
    buf_add(out, STR(" · peak "));
    add_peak(out, machine_peak_rss_bytes());
    if (out->has_failed)
        return;
    if (progress->show == SHOW_LINE)
        log_progress(out->data);
    else
        log_note("%s", out->data);
}

static bool is_due(struct progress *progress, double now) {
    double every = progress->show == SHOW_LINE ? LINE_EVERY_SECONDS : LOG_EVERY_SECONDS;
    if (progress->show == SHOW_NONE || now - progress->shown < every)
        return false;
    progress->shown = now;
    return true;
}

void progress_layer(struct progress *progress, const struct progress_state *state,
                    const struct progress_layer *layer) {
    double now = clock_seconds(), seconds = now - progress->pass_begun;
    if (seconds >= LONG_PASS_SECONDS && is_due(progress, now))
        show(progress, state, seconds, layer);
}

enum status progress_pass(struct progress *progress, const struct pass_report *report,
                          const struct progress_state *state, struct error *err) {
    double rate = report->seconds > 0 ? (double)report->new_tokens / report->seconds : 0;
    progress->tokens_per_second =
        progress->passes == 0
            ? rate
            : (1 - RATE_WEIGHT) * progress->tokens_per_second + RATE_WEIGHT * rate;
    progress->times[progress->passes % PASSES_KEPT] = (struct pass_time){
        (float)report->seconds, (float)report->reads.read_bytes, report->prefill_tokens == 0};
    progress->passes++;
    /* With what is done between passes; before the first one that is another matter. */
    double taken = progress->passes > 1 ? clock_seconds() - progress->pass_begun : 0;
    estimate_pass(
        &progress->estimate,
        &(struct estimate_pass){.tokens = (double)(report->decode_tokens + report->prefill_tokens),
                                .logits = (double)report->new_tokens,
                                .seconds = taken > report->seconds ? taken : report->seconds,
                                .wait_seconds = engine_waited(report),
                                .read_seconds = report->reads.read_seconds});
    renew_eta(progress, state->left);
    bool has_read = report->reads.read_bytes > 0 && report->seconds > 0;
    progress->reading = has_read ? report->reads.read_seconds / report->seconds : -1;
    progress->read_bytes += (double)report->reads.read_bytes;
    progress->pass_seconds += report->seconds;
    progress->new_tokens += report->new_tokens;
    size_t batch = state->rows_live + report->rows_done; /* those that were in */
    progress->batch_max = batch > progress->batch_max ? batch : progress->batch_max;
    if (progress->fd >= 0)
        TRY(metrics_pass(progress, report, state, err));
    double now = clock_seconds();
    if (is_due(progress, now))
        show(progress, state, report->seconds, NULL);
    progress->pass_begun = clock_seconds();
    return SL_OK;
}

static int compare_times(const void *a, const void *b) {
    float x = ((const struct pass_time *)a)->seconds, y = ((const struct pass_time *)b)->seconds;
    return (x > y) - (x < y);
}

/* The pass in the middle by its seconds; sorts the times, so only at the end. */
static struct pass_time median_pass(struct progress *progress) {
    size_t count = progress->passes < PASSES_KEPT ? (size_t)progress->passes : PASSES_KEPT;
    if (count == 0)
        return (struct pass_time){0};
    qsort(progress->times, count, sizeof *progress->times, compare_times);
    return progress->times[count / 2];
}

uint64_t progress_decode_rate(struct progress *progress) {
    size_t count = progress->passes < PASSES_KEPT ? (size_t)progress->passes : PASSES_KEPT;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (progress->times[i].is_decode)
            progress->times[kept++] = progress->times[i];
    if (kept < DECODE_PASSES_LEAST)
        return 0;
    qsort(progress->times, kept, sizeof *progress->times, compare_times);
    struct pass_time median = progress->times[kept / 2];
    return median.seconds > 0 ? (uint64_t)((double)median.read_bytes / (double)median.seconds) : 0;
}

/* Tokens a second, if the plan's passes take the plan's time. */
static double predicted_rate(const struct plan *plan) {
    return plan->seconds > 0 ? (double)plan->rows.answer_tokens / plan->seconds : 0;
}

static enum status metrics_summary(struct progress *progress, const struct progress_state *state,
                                   double seconds, double rate, struct error *err) {
    struct buf *out = &progress->line;
    struct pass_time median = median_pass(progress);
    double read_rate = median.seconds > 0 ? (double)median.read_bytes / (double)median.seconds : 0;
    buf_clear(out);
    buf_add(out, STR("{\"summary\": true"));
    json_member_count(out, "rows_done", state->rows_done);
    json_member_count(out, "rows_failed", state->rows_failed);
    add_real(out, "seconds", seconds);
    json_member_count(out, "passes", progress->passes);
    add_real(out, "median_pass_seconds", (double)median.seconds);
    json_member_count(out, "read_bytes_per_second", (uint64_t)read_rate);
    add_real(out, "tokens_per_second", rate);
    json_member_count(out, "peak_rss_bytes", machine_peak_rss_bytes());
    json_member_count(out, "prompt_tokens", state->prompt_tokens);
    json_member_count(out, "completion_tokens", state->completion_tokens);
    const struct plan *plan = progress->plan;
    json_member_count(out, "predicted_passes", plan->passes);
    add_real(out, "predicted_seconds", plan->seconds);
    json_member_count(out, "predicted_peak_bytes", plan->predicted_peak_bytes);
    json_member_count(out, "budget_bytes", plan->budget_bytes);
    json_member_count(out, "predicted_read_bytes_per_second", plan->read_bytes_per_second);
    add_real(out, "predicted_tokens_per_second", predicted_rate(plan));
    buf_printf(out,
               ", \"engine\": \"%s\", \"precision\": \"%s\", \"kernels\": \"%s\", \"batch_max\": "
               "%zu}\n",
               progress->plan->engine, progress->plan->precision, progress->plan->kernels,
               progress->batch_max);
    return write_metrics(progress, err);
}

static void add_seconds(struct buf *out, double seconds) {
    if (seconds < 10) /* "0s" would tell nothing */
        buf_printf(out, "%.1fs", seconds);
    else
        add_eta(out, seconds);
}

/* What came of it, and in brackets what was planned. */
static void show_summary(struct progress *progress, const struct progress_state *state,
                         double seconds, double rate) {
    const struct plan *plan = progress->plan;
    bool scores = plan->rows.scored_tokens > 0;
    struct buf *out = &progress->line;
    buf_clear(out);
    uint64_t tokens = scores ? state->prompt_tokens : state->completion_tokens;
    buf_printf(out, "%zu of %zu row%s %s", state->rows_done, progress->rows_total,
               progress->rows_total == 1 ? "" : "s", scores ? "scored" : "answered");
    if (state->rows_failed > 0)
        buf_printf(out, ", %zu %s", state->rows_failed,
                   state->rows_failed == 1 ? "is an error" : "are errors");
    buf_printf(out, "; %llu token%s in ", (unsigned long long)tokens, tokens == 1 ? "" : "s");
    add_seconds(out, seconds);
    buf_add(out, STR(" (planned "));
    add_seconds(out, plan->seconds);
    buf_add(out, STR("), "));
    if (!scores) /* no answer has a token */
        buf_printf(out, "%.1f tok/s (%.1f), ", rate, predicted_rate(plan));
    buf_printf(out, "%llu pass%s (%llu), ", (unsigned long long)progress->passes,
               progress->passes == 1 ? "" : "es", (unsigned long long)plan->passes);
    if (progress->read_bytes > 0 && progress->pass_seconds > 0) {
        buf_add(out, STR("disk "));
        plan_amount((uint64_t)(progress->read_bytes / progress->pass_seconds), out);
        buf_add(out, STR("/s ("));
        plan_amount(plan->read_bytes_per_second, out);
        buf_add(out, STR("/s), "));
    }
    buf_add(out, STR("peak memory "));
    plan_amount(machine_peak_rss_bytes(), out);
    buf_add(out, STR(" (planned "));
    plan_amount(plan->predicted_peak_bytes, out);
    buf_add_char(out, ')');
    if (!out->has_failed)
        log_note("%s", out->data);
}

enum status progress_finish(struct progress *progress, const struct progress_state *state,
                            struct error *err) {
    double seconds = clock_seconds() - progress->started;
    double rate = seconds > 0 ? (double)progress->new_tokens / seconds : 0;
    if (progress->show == SHOW_LINE)
        log_progress("");
    show_summary(progress, state, seconds, rate); /* like the plan, whatever is shown between */
    return progress->fd >= 0 ? metrics_summary(progress, state, seconds, rate, err) : SL_OK;
}
