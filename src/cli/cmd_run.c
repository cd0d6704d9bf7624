/* `run`, `score` and `plan`: options, the first look, the plan, and for the first two the job. The
 * output is opened and locked before anything is read, so that a refusal comes at once and costs
 * nothing. */
#include "cli/cmd.h"

#include "base/log.h"
#include "cli/model_name.h"
#include "cli/options.h"
#include "job/job.h"
#include "plan/compute.h"
#include "plan/precision.h"
#include "plan/rates.h"
#include "plan/sibling.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* All that they hold. */
struct order {
    struct settings settings;
    struct buf config_text;
    struct output *output;
    struct job job;
    bool has_job;
    struct plan plan;
    struct sibling sibling; /* another form of the model, where one is taken */
    char reason[PATH_MAX + 160];
    struct job_outcome outcome;
    int code;                 /* of a job that is complete */
    struct model_place place; /* of a model that was named */
};

static enum status read_options(int argc, char **argv, enum command_bit command,
                                struct order *order, struct error *err) {
    const char *operands[2] = {NULL, NULL};
    const char *name = command == FOR_RUN ? "run" : command == FOR_SCORE ? "score" : "plan";
    size_t count;
    options_defaults(&order->settings);
    TRY(options_parse(argc, argv, command, &order->settings, operands, 2, &count,
                      &order->config_text, err));
    if (count < 2)
        return error_set(err, SL_ERR_USAGE, "%s needs a MODEL and a file of ROWS", name);
    order->settings.model = operands[0];
    order->settings.rows = operands[1];
    order->settings.scores = order->settings.scores || command == FOR_SCORE;
    if (command != FOR_PLAN && order->settings.output == NULL)
        return error_set(err, SL_ERR_USAGE, "%s needs -o RESULTS, the file for the results", name);
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
    struct settings *settings = &order->settings;
    const char *kept = order->output != NULL && settings->model_asked == NULL
                           ? output_recall_model(order->output, settings->model)
                           : NULL;
    if (kept != NULL) {
        settings->model_asked = settings->model;
        settings->model = kept;
        settings->model_reason = "kept from the first run of this job";
    }
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

/* ---- a model that is named and is not here */

/* What can be refused without the model, before it is fetched: no rows file; a job that has other
 * rows or options. */
static enum status check_before_fetch(struct order *order, struct error *err) {
    struct settings recalled = order->settings;
    struct fingerprint known;
    fingerprint_init(&known);
    enum status status = job_known_fingerprint(&order->settings, order->output, &known, err);
    if (status == SL_OK)
        status = options_fingerprint(&order->settings, &known, err);
    if (status == SL_OK)
        status = output_recall(order->output, &recalled, err);
    if (status == SL_OK)
        status = output_check(order->output, &known, err);
    fingerprint_release(&known);
    return status;
}

/* A complete job has no use for its model but to compare it; the name that it was begun with tells
 * as much. Under another name it may be another one: that is for the user to fetch. */
static enum status end_without_model(struct order *order, struct error *err) {
    const struct settings *settings = &order->settings;
    bool is_name;
    struct str name = output_recall_name(order->output, &is_name);
    TRY(output_read_code(order->output, &order->code, err));
    if (!is_name || !str_is(name, settings->hub_name))
        return error_set(err, SL_ERR_ENV,
                         "%s is complete, with the same rows and options, by a model that was "
                         "called %.*s: whether %s is the same cannot be told while it is not on "
                         "this machine: `sluice pull %s` fetches it, --overwrite starts again",
                         settings->output, STR_ARG(name), settings->hub_name, settings->model);
    log_note("%s is complete: there is nothing to do (the model %s is not on this machine, and not "
             "needed for that)",
             settings->output, settings->model);
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
    TRY(plan_time(plan, err));
    struct buf text;
    buf_init(&text);
    plan_explain_rate(plan, &text);
    enum status status = buf_status(&text, "the rate", err);
    if (status == SL_OK)
        log_note("%s", text.data);
    buf_release(&text);
    return status;
}

/* ---- the plan, and with it the form of the model */

/* The plan; first a moment's measurement of a processor that nothing is known of. */
static enum status make_plan(struct order *order, struct error *err) {
    struct job *job = &order->job;
    TRY(job_plan(job, &order->plan, err));
    if (!compute_wants_measure(&job->settings, &order->plan))
        return SL_OK;
    struct error why = {0};
    enum status status =
        compute_measure(job->model, &job->settings, &order->plan, signals_should_stop, &why);
    if (status == SL_ERR_STOPPED)
        return error_set(err, SL_ERR_STOPPED, "stopped while measuring the processor");
    if (status != SL_OK) {
        log_warning("the processor is not measured: %s", why.text);
        return SL_OK;
    }
    return job_plan(job, &order->plan, err);
}

/* The job anew, with another form of its model. */
static enum status take_sibling(struct order *order, const char *why, struct error *err) {
    struct settings *settings = &order->settings;
    snprintf(order->reason, sizeof order->reason, "%s: %s", why, order->sibling.path);
    job_close(&order->job);
    order->has_job = false;
    if (settings->model_asked == NULL)
        settings->model_asked = settings->model;
    settings->model = order->sibling.path;
    settings->model_reason = order->reason;
    TRY(open_job(order, err));
    if (order->output != NULL)
        TRY(go_on(order, err));
    return job_look(&order->job, err);
}

/* --precision 8 or 4 of a model that is published otherwise. */
static enum status take_asked_form(struct order *order, struct error *err) {
    struct job *job = &order->job;
    int bits = precision_asked(&job->settings);
    if ((bits != 8 && bits != 4) || precision_has(job->model, bits) ||
        dtype_get(precision_main(job->model))->is_quantised)
        return SL_OK;
    TRY(sibling_find(job->model, &job->settings, bits, &order->sibling, err));
    if (order->sibling.path[0] == '\0')
        return SL_OK; /* the plan refuses it */
    return take_sibling(order, "the form that --precision asks for", err);
}

/* A job that would end after its deadline takes fewer bits, if they are here. A job that goes on
 * keeps what it has. */
static enum status meet_deadline(struct order *order, struct error *err) {
    char why[120];
    if (order->job.output != NULL ||
        !precision_is_late(order->job.model, &order->job.settings, &order->plan))
        return SL_OK;
    double hours = order->plan.seconds / 3600;
    for (int bits = 8; bits >= 4; bits -= 4) {
        struct job *job = &order->job;
        struct sibling found;
        bool is_late = order->plan.seconds > job->settings.deadline_hours * 3600;
        if (!is_late)
            break;
        TRY(sibling_find(job->model, &job->settings, bits, &found, err));
        if (found.path[0] == '\0')
            continue;
        order->sibling = found;
        snprintf(why, sizeof why, "the published form would take %.1f h, and the deadline is %g h",
                 hours, order->settings.deadline_hours);
        TRY(take_sibling(order, why, err));
        TRY(make_plan(order, err));
    }
    if (order->settings.model_asked != NULL)
        return SL_OK;
    return precision_advise(order->job.model, &order->job.settings, &order->plan, err);
}

static enum status settle(struct order *order, struct error *err) {
    TRY(take_asked_form(order, err));
    TRY(make_plan(order, err));
    return meet_deadline(order, err);
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

static enum status run(int argc, char **argv, enum command_bit command, struct order *order,
                       struct error *err) {
    TRY(read_options(argc, argv, command, order, err));
    signals_install();
    if (order->settings.time_box_seconds > 0)
        signals_time_box(order->settings.time_box_seconds);
    bool is_here = model_name_find(&order->settings, &order->place);
    TRY(check_is_no_input(&order->settings, "--metrics", order->settings.metrics, err));
    TRY(check_is_no_input(&order->settings, "--output", order->settings.output, err));
    TRY(open_output(order, err));
    if (!is_here) {
        TRY(check_before_fetch(order, err));
        if (output_is_complete(order->output))
            return end_without_model(order, err);
    }
    TRY(model_name_resolve(&order->settings, true, order->place.path, err));
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
        TRY(settle(order, err));
        if (order->job.settings.kernels != order->settings.kernels)
            order->plan.kernels_reason = "kept from the first run of this job";
        TRY(note_plan(order, err));
        TRY(probe_drive(order, err));
    }
    TRY(job_run(&order->job, has_work ? &order->plan : NULL, order->output, &order->outcome, err));
    order->code = order->outcome.rows_failed > 0 ? 1 : 0;
    return SL_OK;
}

/* A job, from its command line to the exit code. */
static int run_job(int argc, char **argv, enum command_bit command) {
    struct order order = {0};
    struct error err = {0};
    buf_init(&order.config_text);
    enum status status = run(argc, argv, command, &order, &err);
    bool is_stopped = status == SL_ERR_STOPPED && err.text[0] != '\0';
    if (is_stopped && order.output != NULL)
        note_stop(&order);
    int code = is_stopped        ? signals_exit_code()
               : status != SL_OK ? cmd_fail(status, &err)
                                 : order.code;
    clear(&order);
    return code;
}

int cmd_run(int argc, char **argv) {
    return cmd_help_wanted(argc, argv, "run") ? cmd_end(0) : run_job(argc, argv, FOR_RUN);
}

int cmd_score(int argc, char **argv) {
    return cmd_help_wanted(argc, argv, "score") ? cmd_end(0) : run_job(argc, argv, FOR_SCORE);
}

static enum status plan(int argc, char **argv, struct order *order, struct error *err) {
    TRY(read_options(argc, argv, FOR_PLAN, order, err));
    TRY(model_name_resolve(&order->settings, false, order->place.path, err));
    TRY(open_job(order, err));
    TRY(job_look(&order->job, err));
    TRY(settle(order, err));
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
