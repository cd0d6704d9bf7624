/* `run` and `plan`: options, the first look, the plan, and for `run` the job. The output is opened
 * and locked before anything is read, so that a refusal comes at once and costs nothing. */
#include "cli/cmd.h"

#include "base/log.h"
#include "cli/model_name.h"
#include "cli/options.h"
#include "job/job.h"
#include "plan/rates.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* All that `run` and `plan` hold. */
struct order {
    struct settings settings;
    struct buf config_text;
    struct output *output;
    struct job job;
    bool has_job;
    struct plan plan;
    struct job_outcome outcome;
    int code;                  /* of a job that is complete */
    char model_path[PATH_MAX]; /* of a model that was named */
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

static bool is_same(const char *path, const struct stat *file) {
    struct stat info;
    return stat(path, &info) == 0 && info.st_ino == file->st_ino && info.st_dev == file->st_dev;
}

/* Whether a file of this name may be of a model; others may lie beside them. */
static bool is_of_a_model(const char *name) {
    static const char *const ends[] = {".safetensors", ".gguf"};
    struct str text = str_from(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (str_ends(text, str_from(ends[i])))
            return true;
    }
    for (size_t i = 0; fingerprint_model_files[i] != NULL; i++) {
        if (strcmp(name, fingerprint_model_files[i]) == 0)
            return true;
    }
    return false;
}

/* Whether the file is one of the model's: in its folder, or beside the first of a split set. */
static bool is_in_model(const char *model, const struct stat *file) {
    struct stat info;
    char path[PATH_MAX], folder[PATH_MAX];
    bool is_folder = stat(model, &info) == 0 && S_ISDIR(info.st_mode);
    const char *slash = strrchr(model, '/');
    int length = is_folder       ? (int)strnlen(model, PATH_MAX)
                 : slash != NULL ? (int)(slash - model) + 1
                                 : 0;
    if (snprintf(folder, sizeof folder, "%.*s", length, model) >= (int)sizeof folder)
        return false;
    DIR *listing = opendir(length > 0 ? folder : ".");
    bool is_found = false;
    const struct dirent *entry;
    while (listing != NULL && !is_found && (entry = readdir(listing)) != NULL) {
        length = snprintf(path, sizeof path, "%s%s%s", folder, folder[0] != '\0' ? "/" : "",
                          entry->d_name);
        is_found = length > 0 && (size_t)length < sizeof path && is_of_a_model(entry->d_name) &&
                   is_same(path, file);
    }
    if (listing != NULL)
        closedir(listing);
    return is_found;
}

/* A file that is written anew must not be what the job reads. */
static enum status check_is_no_input(const struct settings *settings, const char *option,
                                     const char *path, struct error *err) {
    struct stat file;
    if (path == NULL || stat(path, &file) != 0 || !S_ISREG(file.st_mode))
        return SL_OK;
    if (is_same(settings->rows, &file) || is_same(settings->model, &file) ||
        is_in_model(settings->model, &file))
        return error_set(err, SL_ERR_USAGE, "%s %s is an input of this job", option, path);
    return SL_OK;
}

static enum status open_output(struct order *order, struct error *err) {
    const struct settings *settings = &order->settings;
    struct sink_options options = {
        .path = settings->output,
        .overwrites = settings->overwrites,
        .keeps_input_order = strcmp(settings->order, "input") == 0,
        .others = {settings->rows, settings->model, settings->metrics},
    };
    return output_open(&options, &order->output, err);
}

static enum status open_job(struct order *order, struct error *err) {
    TRY(job_open(&order->settings, signals_should_stop, &order->job, err));
    order->has_job = true;
    return SL_OK;
}

/* The job of an earlier run, if there is one. */
static enum status go_on(struct order *order, struct error *err) {
    struct output *output = order->output;
    TRY(options_fingerprint(&order->settings, &order->job.fingerprint, err));
    TRY(job_go_on(&order->job, output, err));
    struct output_counts counts = output_counts(output);
    if (order->job.output != NULL)
        log_note("going on: %zu of %zu rows are done, %zu have begun with %llu tokens",
                 counts.rows_done + counts.rows_failed, order->job.rows.count, counts.rows_begun,
                 (unsigned long long)counts.tokens);
    return SL_OK;
}

static void clear(struct order *order) {
    if (order->has_job)
        job_close(&order->job);
    output_close(order->output);
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

/* A drive that nobody has probed: some seconds before a job of hours. */
static enum status probe_drive(struct order *order, struct error *err) {
    const struct model *model = order->job.model;
    struct plan *plan = &order->plan;
    if (!rates_want_probe(model, &order->settings, plan))
        return SL_OK;
    log_note(
        "probing the drive for %.0f seconds: there is no recent record of it (`sluice probe %s` "
        "measures longer)",
        SL_RATES_PROBE_SECONDS, order->settings.model);
    TRY(rates_probe(model, &order->settings, SL_RATES_PROBE_SECONDS, signals_should_stop, err));
    rates_decide(model, &order->settings, plan);
    plan_time(plan);
    struct buf text;
    buf_init(&text);
    plan_explain_rate(plan, &text);
    enum status status = buf_status(&text, "the rate", err);
    if (status == SL_OK)
        log_note("%s", text.data);
    buf_release(&text);
    return status;
}

/* How to go on after a stop. */
static void note_stop(const struct order *order) {
    const struct job_outcome *outcome = &order->outcome;
    size_t lines = outcome->rows_done + outcome->rows_failed;
    const char *s = lines == 1 ? "" : "s";
    if (!output_is_file(order->output))
        log_note("stopped with %zu result%s written; what went to a stream cannot be resumed",
                 lines, s);
    else if (!output_has_journal(order->output))
        log_note("stopped before anything was run: the same command begins");
    else
        log_note("stopped with %zu result%s in %s: the same command%s goes on from here", lines, s,
                 order->settings.output, order->settings.overwrites ? " without --overwrite" : "");
}

static enum status run(int argc, char **argv, struct order *order, struct error *err) {
    TRY(read_options(argc, argv, FOR_RUN, order, err));
    signals_install();
    if (order->settings.time_box_seconds > 0)
        signals_time_box(order->settings.time_box_seconds);
    model_name_find(&order->settings, order->model_path);
    TRY(check_is_no_input(&order->settings, "--metrics", order->settings.metrics, err));
    TRY(check_is_no_input(&order->settings, "--output", order->settings.output, err));
    TRY(open_output(order, err));
    TRY(model_name_resolve(&order->settings, true, order->model_path, err));
    TRY(open_job(order, err));
    TRY(go_on(order, err));
    if (output_is_complete(order->output)) {
        TRY(output_read_code(order->output, &order->code, err));
        log_note("%s is complete: there is nothing to do", order->settings.output);
        return SL_OK;
    }
    TRY(job_look(&order->job, err));
    bool has_work = order->job.totals.count > 0;
    if (has_work) {
        TRY(job_plan(&order->job, &order->plan, err));
        if (order->job.settings.kernels != order->settings.kernels)
            order->plan.kernels_reason = "kept from the first run of this job";
        TRY(note_plan(order, err));
        TRY(probe_drive(order, err));
    }
    TRY(job_run(&order->job, has_work ? &order->plan : NULL, order->output, &order->outcome, err));
    order->code = order->outcome.rows_failed > 0 ? 1 : 0;
    return SL_OK;
}

int cmd_run(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "run"))
        return cmd_end(0);
    struct order order = {0};
    struct error err = {0};
    buf_init(&order.config_text);
    enum status status = run(argc, argv, &order, &err);
    bool is_stopped = status == SL_ERR_STOPPED && err.text[0] != '\0';
    if (is_stopped && order.output != NULL)
        note_stop(&order);
    int code = is_stopped        ? signals_exit_code()
               : status != SL_OK ? cmd_fail(status, &err)
                                 : order.code;
    clear(&order);
    return code;
}

static enum status plan(int argc, char **argv, struct order *order, struct error *err) {
    TRY(read_options(argc, argv, FOR_PLAN, order, err));
    TRY(model_name_resolve(&order->settings, false, order->model_path, err));
    TRY(open_job(order, err));
    TRY(job_look(&order->job, err));
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
