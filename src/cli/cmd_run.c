/* `run` and `plan`: options, the first look, the plan, and for `run` the job. The output is opened
 * and locked before anything is read, so that a refusal comes at once and costs nothing. */
#include "cli/cmd.h"

#include "base/log.h"
#include "cli/options.h"
#include "job/job.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* All that `run` and `plan` hold. */
struct order {
    struct settings settings;
    struct buf config_text;
    struct sink *sink;
    struct job job;
    bool has_job;
    struct plan plan;
    struct job_outcome outcome;
};

static enum status read_options(int argc, char **argv, enum command_bit command,
                                struct order *order, struct error *err) {
    const char *operands[2] = {NULL, NULL};
    size_t count;
    options_defaults(&order->settings);
    TRY(options_parse(argc, argv, command, &order->settings, operands, 2, &count,
                      &order->config_text, err));
    if (count < 2)
        return error_set(err, SL_ERR_USAGE, "%s needs a MODEL and a file of ROWS",
                         command == FOR_RUN ? "run" : "plan");
    order->settings.model = operands[0];
    order->settings.rows = operands[1];
    if (command == FOR_RUN && order->settings.output == NULL)
        return error_set(err, SL_ERR_USAGE, "run needs -o RESULTS, the file for the results");
    return SL_OK;
}

/* The metrics file starts anew: it must not be what the job reads. */
static enum status check_metrics(const struct settings *settings, struct error *err) {
    const char *const inputs[] = {settings->rows, settings->model};
    struct stat metrics, input;
    if (settings->metrics == NULL || stat(settings->metrics, &metrics) != 0)
        return SL_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        if (stat(inputs[i], &input) == 0 && input.st_ino == metrics.st_ino &&
            input.st_dev == metrics.st_dev)
            return error_set(err, SL_ERR_USAGE, "--metrics %s is an input of this job",
                             settings->metrics);
    }
    return SL_OK;
}

static enum status open_sink(struct order *order, struct error *err) {
    const struct settings *settings = &order->settings;
    struct sink_options options = {
        .path = settings->output,
        .overwrites = settings->overwrites,
        .keeps_input_order = strcmp(settings->order, "input") == 0,
        .others = {settings->rows, settings->model, settings->metrics},
    };
    return sink_open(&options, &order->sink, err);
}

static enum status open_job(struct order *order, struct error *err) {
    TRY(job_open(&order->settings, signals_should_stop, &order->job, err));
    order->has_job = true;
    return SL_OK;
}

static void clear(struct order *order) {
    if (order->has_job)
        job_close(&order->job);
    sink_close(order->sink);
    buf_release(&order->config_text);
}

static enum status note_plan(struct order *order, struct error *err) {
    struct buf text;
    buf_init(&text);
    plan_explain(&order->plan, order->job.model, &text);
    enum status status = buf_status(&text, "the plan", err);
    if (status == SL_OK)
        log_note("%.*s", (int)(text.len > 0 ? text.len - 1 : 0), text.data);
    buf_release(&text);
    return status;
}

/* How to go on after a stop; an interrupted job has no journal yet. */
static void note_stop(const struct order *order) {
    const struct job_outcome *outcome = &order->outcome;
    size_t lines = outcome->rows_done + outcome->rows_failed;
    const char *s = lines == 1 ? "" : "s";
    if (!sink_is_file(order->sink))
        log_note("stopped with %zu result%s written; what went to a stream cannot be resumed",
                 lines, s);
    else if (lines == 0)
        log_note("stopped before the first result: run the same command again");
    else
        log_note("stopped with %zu result%s in %s; the same command%s starts again from the "
                 "beginning (a job cannot be resumed in this version)",
                 lines, s, order->settings.output,
                 order->settings.overwrites ? "" : " with --overwrite");
}

static enum status run(int argc, char **argv, struct order *order, struct error *err) {
    TRY(read_options(argc, argv, FOR_RUN, order, err));
    signals_install();
    if (order->settings.time_box_seconds > 0)
        signals_time_box(order->settings.time_box_seconds);
    TRY(check_metrics(&order->settings, err));
    TRY(open_sink(order, err));
    TRY(open_job(order, err));
    bool has_work = order->job.totals.count > 0;
    if (has_work) {
        TRY(job_plan(&order->job, &order->plan, err));
        TRY(note_plan(order, err));
    }
    return job_run(&order->job, has_work ? &order->plan : NULL, order->sink, &order->outcome, err);
}

int cmd_run(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "run"))
        return cmd_end(0);
    struct order order = {0};
    struct error err = {0};
    buf_init(&order.config_text);
    enum status status = run(argc, argv, &order, &err);
    bool is_stopped = status == SL_ERR_STOPPED && err.text[0] != '\0';
    if (is_stopped && order.sink != NULL)
        note_stop(&order);
    int code = is_stopped                      ? signals_exit_code()
               : status != SL_OK               ? cmd_fail(status, &err)
               : order.outcome.rows_failed > 0 ? 1
                                               : 0;
    clear(&order);
    return code;
}

static enum status plan(int argc, char **argv, struct order *order, struct error *err) {
    TRY(read_options(argc, argv, FOR_PLAN, order, err));
    TRY(open_job(order, err));
    TRY(job_plan(&order->job, &order->plan, err));
    struct buf text;
    buf_init(&text);
    if (order->settings.is_json)
        plan_json(&order->plan, order->job.model, &text);
    else
        plan_explain(&order->plan, order->job.model, &text);
    enum status status = buf_status(&text, "the plan", err);
    if (status == SL_OK)
        fwrite(text.data, 1, text.len, stdout);
    buf_release(&text);
    return status;
}

int cmd_plan(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "plan"))
        return cmd_end(0);
    struct order order = {0};
    struct error err = {0};
    buf_init(&order.config_text);
    enum status status = plan(argc, argv, &order, &err);
    /* Rows that this budget cannot hold are errors in `run`, which ends with the same code. */
    int code = status != SL_OK ? cmd_fail(status, &err) : order.job.too_long > 0 ? 1 : 0;
    clear(&order);
    return cmd_end(code);
}
