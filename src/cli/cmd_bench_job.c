/* `bench job`: the same job with one batch size after the other, each for a while and stopped
 * cleanly, and a record of what came of it. Each run is a process of its own (cli/child.h). */
#include "cli/cmd.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/child.h"
#include "cli/metrics_file.h"
#include "cli/options.h"
#include "plan/machine.h"

#include <stdio.h>
#include <string.h>

enum { BATCHES_MAX = 32 };
#define BOX_DEFAULT_SECONDS 60

struct point {
    uint64_t batch; /* asked for */
    int code;       /* of the run: 0, 1, or 130 when the time box ended it */
    struct metrics_file metrics;
};

struct bench {
    struct child_words words;
    struct settings settings;
    const char *operands[2];
    char folder[PATH_MAX];
    struct point points[BATCHES_MAX];
    size_t count;
};

static enum status read_batches(struct bench *bench, struct error *err) {
    struct str list = str_from(bench->settings.batches);
    for (size_t at = 0; at <= list.len;) {
        size_t comma = str_find(list, STR(","), at);
        size_t end = comma == SIZE_MAX ? list.len : comma;
        uint64_t batch = 0;
        if (bench->count == BATCHES_MAX || !str_to_u64(str_cut(list, at, end), &batch) ||
            batch < 1 || batch > 1000000)
            return error_set(err, SL_ERR_USAGE,
                             "--batches %s: it must be up to %d numbers from 1 to 1000000 with "
                             "commas between them",
                             bench->settings.batches, BATCHES_MAX);
        bench->points[bench->count++].batch = batch;
        at = end + 1;
    }
    return SL_OK;
}

static const char *const own_options[] = {"batches", "output", NULL};

static enum status run_point(struct bench *bench, struct point *point, struct error *err) {
    struct child child;
    char results[PATH_MAX], metrics[PATH_MAX];
    child_path(bench->folder, "results.jsonl", results);
    child_path(bench->folder, "metrics.jsonl", metrics);
    child_init(&child, "run");
    child_add_options(&child, &bench->words);
    child_add_number(&child, "--batch", point->batch);
    if (bench->settings.time_box_seconds == 0)
        child_add_number(&child, "--time-box", BOX_DEFAULT_SECONDS);
    child_add(&child, "--overwrite");
    child_add(&child, "--output");
    child_add(&child, results);
    child_add(&child, "--metrics");
    child_add(&child, metrics);
    child_add_operands(&child, bench->operands, 2);
    log_note("bench job: batch %llu", (unsigned long long)point->batch);
    enum status status = child_run(&child, NULL, false, &point->code, err);
    child_release(&child);
    TRY(status);
    if (point->code != 0 && point->code != 1 && point->code != 130)
        return error_set(err, point->code == 2 ? SL_ERR_USAGE : SL_ERR_ENV,
                         "bench job: the run with batch %llu ended with exit code %d",
                         (unsigned long long)point->batch, point->code);
    status = metrics_read(metrics, &point->metrics, err);
    if (status == SL_ERR_INPUT && point->code == 130)
        return error_set(err, SL_ERR_ENV,
                         "bench job: with batch %llu no pass ended within the time box: give it "
                         "more, such as --time-box 5m",
                         (unsigned long long)point->batch);
    return status;
}

static void add_point(const struct point *point, struct buf *out) {
    const struct metrics_file *metrics = &point->metrics;
    buf_printf(out, "{\"batch\": %llu", (unsigned long long)point->batch);
    buf_printf(out, ", \"is_whole\": %s", point->code == 130 ? "false" : "true");
    json_member_count(out, "batch_max", metrics->batch_max);
    json_member_count(out, "passes", metrics->count);
    json_member_real(out, "seconds", metrics->seconds);
    json_member_real(out, "median_pass_seconds", metrics->median_pass_seconds);
    json_member_real(out, "tokens_per_second", metrics->tokens_per_second);
    json_member_count(out, "read_bytes_per_second", metrics->read_bytes_per_second);
    double share = metrics_read_share(metrics);
    if (share >= 0)
        json_member_real(out, "read_share", share);
    json_member_count(out, "peak_rss_bytes", metrics->peak_rss_bytes);
    json_member_count(out, "rows_done", metrics->rows_done);
    buf_add_char(out, '}');
}

static void add_machine(struct buf *out) {
    struct machine machine;
    machine_get(&machine);
    buf_add(out, STR(", \"machine\": {\"processor\": "));
    json_add_string(out, str_from(cpu_get()->name));
    json_member_count(out, "cores", cpu_get()->threads_max);
    json_member_count(out, "free_bytes", machine.free_bytes);
    buf_add_char(out, '}');
}

/* The record: one JSON object, for people to keep and for `report`. */
static void add_record(const struct bench *bench, struct buf *out) {
    buf_add(out, STR("{\"kind\": \"bench job\""));
    json_member_count(out, "date", (uint64_t)clock_wall_seconds());
    json_member_text(out, "version", str_from(SL_VERSION));
    json_member_text(out, "commit", str_from(cmd_commit()));
    buf_add(out, STR(", \"command\": [\"sluice\", \"bench\", \"job\""));
    for (int i = 0; i < bench->words.argc; i++) {
        buf_add(out, STR(", "));
        json_add_string(out, str_from(bench->words.argv[i]));
    }
    buf_add_char(out, ']');
    add_machine(out);
    json_member_text(out, "model", str_from(bench->operands[0]));
    json_member_text(out, "rows", str_from(bench->operands[1]));
    const struct metrics_file *first = &bench->points[0].metrics;
    json_member_text(out, "engine", str_from(first->engine));
    json_member_text(out, "precision", str_from(first->precision));
    json_member_text(out, "kernels", str_from(first->kernels));
    buf_add(out, STR(", \"points\": ["));
    for (size_t i = 0; i < bench->count; i++) {
        if (i > 0)
            buf_add(out, STR(", "));
        add_point(&bench->points[i], out);
    }
    buf_add(out, STR("]}\n"));
}

static enum status bench_job(struct bench *bench, struct error *err) {
    size_t count;
    struct buf text; /* of a config file */
    buf_init(&text);
    options_defaults(&bench->settings);
    enum status status = options_parse(bench->words.argc, bench->words.argv, FOR_BENCH_JOB,
                                       &bench->settings, bench->operands, 2, &count, &text, err);
    if (status == SL_OK && count < 2)
        status = error_set(err, SL_ERR_USAGE, "bench job needs a MODEL and a file of ROWS");
    if (status == SL_OK)
        status = read_batches(bench, err);
    if (status == SL_OK)
        status = child_keep_config(&bench->words, buf_str(&text), bench->folder, err);
    for (size_t i = 0; status == SL_OK && i < bench->count; i++)
        status = run_point(bench, &bench->points[i], err);
    const char *path = bench->settings.output;
    struct buf record;
    buf_init(&record);
    if (status == SL_OK) {
        add_record(bench, &record);
        status = buf_status(&record, "the record", err);
    }
    if (status == SL_OK)
        status = cmd_write(path, buf_str(&record), err);
    buf_release(&record);
    buf_release(&text);
    return status;
}

int cmd_bench_job(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "bench job"))
        return cmd_end(0);
    struct bench bench = {.words = {argc, argv, FOR_BENCH_JOB, own_options, ""}};
    struct error err = {0};
    signals_install();
    enum status status = child_make_folder(bench.folder, &err);
    if (status == SL_OK) {
        status = bench_job(&bench, &err);
        child_remove_folder(bench.folder);
    }
    for (size_t i = 0; i < bench.count; i++)
        metrics_release(&bench.points[i].metrics);
    return cmd_end(cmd_fail(status, &err));
}
