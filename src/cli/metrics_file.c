/* Owns the way from lines of metrics to numbers. Members that are missing are 0: a file of an older
 * version is still worth a picture. */
#include "cli/metrics_file.h"

#include "base/mem.h"
#include "cli/json_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASSES_MAX ((size_t)10000000)

/* Nothing that is measured is negative or as large as this; what is would spoil a chart's scale. */
#define REAL_MAX 1e15

static double real(const struct json *tree, const char *name) {
    double value = 0;
    bool is_there = json_double(json_get(tree, name), &value);
    return is_there && value > 0 && value < REAL_MAX ? value : 0;
}

static uint64_t count(const struct json *tree, const char *name) {
    uint64_t value = 0;
    return json_u64(json_get(tree, name), &value) ? value : 0;
}

static void text(const struct json *tree, const char *name, char *out, size_t room) {
    struct str value;
    if (json_string(json_get(tree, name), &value))
        snprintf(out, room, "%.*s", STR_ARG(value));
    str_clean(out);
}

static void read_summary(struct metrics_file *metrics, const struct json *tree) {
    metrics->has_summary = true;
    metrics->rows_done = count(tree, "rows_done");
    metrics->rows_failed = count(tree, "rows_failed");
    metrics->prompt_tokens = count(tree, "prompt_tokens");
    metrics->completion_tokens = count(tree, "completion_tokens");
    metrics->peak_rss_bytes = count(tree, "peak_rss_bytes");
    metrics->batch_max = count(tree, "batch_max");
    metrics->read_bytes_per_second = count(tree, "read_bytes_per_second");
    metrics->seconds = real(tree, "seconds");
    metrics->median_pass_seconds = real(tree, "median_pass_seconds");
    metrics->tokens_per_second = real(tree, "tokens_per_second");
    metrics->planned_seconds = real(tree, "predicted_seconds");
    metrics->planned_passes = count(tree, "predicted_passes");
    metrics->planned_peak_bytes = count(tree, "predicted_peak_bytes");
    metrics->planned_tokens_per_second = real(tree, "predicted_tokens_per_second");
    metrics->budget_bytes = count(tree, "budget_bytes");
    text(tree, "engine", metrics->engine, sizeof metrics->engine);
    text(tree, "precision", metrics->precision, sizeof metrics->precision);
    text(tree, "kernels", metrics->kernels, sizeof metrics->kernels);
}

static enum status read_line(void *ctx, const struct json *tree, struct error *err) {
    struct metrics_file *metrics = ctx;
    bool is_summary = false;
    if (json_bool(json_get(tree, "summary"), &is_summary) && is_summary) {
        read_summary(metrics, tree);
        return SL_OK;
    }
    if (json_get(tree, "pass") == NULL || json_get(tree, "seconds") == NULL)
        return error_set(err, SL_ERR_INPUT, "this is no line of metrics");
    if (metrics->count == PASSES_MAX || !mem_grow((void **)&metrics->passes, &metrics->cap,
                                                  metrics->count + 1, sizeof *metrics->passes))
        return error_memory(err, (metrics->count + 1) * sizeof *metrics->passes, "the passes");
    double before = metrics->count > 0 ? metrics->passes[metrics->count - 1].at : 0;
    metrics->passes[metrics->count++] = (struct metrics_pass){
        .seconds = real(tree, "seconds"),
        .read_seconds = real(tree, "read_seconds"),
        .wait_seconds = real(tree, "wait_seconds"),
        .at = before + real(tree, "seconds"),
        .read_bytes = count(tree, "read_bytes"),
        .decode_tokens = count(tree, "decode_tokens"),
        .prefill_tokens = count(tree, "prefill_tokens"),
        .rows_live = count(tree, "rows_live"),
        .rows_done = count(tree, "rows_done"),
        .rows_total = count(tree, "rows_total"),
        .kv_bytes_used = count(tree, "kv_bytes_used"),
        .kv_bytes = count(tree, "kv_bytes"),
        .rss_bytes = count(tree, "rss_bytes"),
    };
    return SL_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* What a job that was killed did not say. */
static enum status sum_up(struct metrics_file *metrics, struct error *err) {
    double *seconds = mem_new(metrics->count, sizeof *seconds);
    if (seconds == NULL)
        return error_memory(err, metrics->count * sizeof *seconds, "the passes");
    uint64_t tokens = 0;
    for (size_t i = 0; i < metrics->count; i++) {
        const struct metrics_pass *pass = &metrics->passes[i];
        seconds[i] = pass->seconds;
        tokens += pass->decode_tokens;
        if (pass->rss_bytes > metrics->peak_rss_bytes)
            metrics->peak_rss_bytes = pass->rss_bytes;
        if (pass->rows_live > metrics->batch_max)
            metrics->batch_max = pass->rows_live;
    }
    const struct metrics_pass *last = &metrics->passes[metrics->count - 1];
    qsort(seconds, metrics->count, sizeof *seconds, by_value);
    metrics->median_pass_seconds = seconds[metrics->count / 2];
    metrics->rows_done = last->rows_done;
    metrics->seconds = last->at;
    metrics->completion_tokens = tokens;
    metrics->tokens_per_second = last->at > 0 ? (double)tokens / last->at : 0;
    mem_free(seconds);
    return SL_OK;
}

enum status metrics_read(const char *path, struct metrics_file *out, struct error *err) {
    struct metrics_file metrics = {0};
    enum status status = json_lines_read(path, read_line, &metrics, err);
    if (status == SL_OK && metrics.count == 0)
        status = error_set(err, SL_ERR_INPUT, "%s: there is no pass in it", path);
    if (status == SL_OK && !metrics.has_summary)
        status = sum_up(&metrics, err);
    if (status == SL_OK)
        *out = metrics;
    else
        metrics_release(&metrics);
    return status;
}

void metrics_release(struct metrics_file *metrics) {
    mem_free(metrics->passes);
    *metrics = (struct metrics_file){0};
}

double metrics_read_share(const struct metrics_file *metrics) {
    double seconds = 0, reading = 0;
    for (size_t i = 0; i < metrics->count; i++) {
        const struct metrics_pass *pass = &metrics->passes[i];
        if (pass->read_bytes == 0 || pass->prefill_tokens > 0)
            continue;
        seconds += pass->seconds;
        reading += pass->read_seconds;
    }
    /* Reads go on between passes: with passes of microseconds that is more than the passes. */
    double share = seconds > 0 ? reading / seconds : -1;
    return share < 1 ? share : 1;
}
