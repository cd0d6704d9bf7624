/* Owns the choice among what is known of a drive, and what a run may teach. Refuses to learn from
 * runs that the page cache served or that were small. */
#include "plan/rates.h"

#include "base/clock.h"
#include "base/log.h"
#include "plan/record.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Until there is a probe: what an ordinary NVMe drive reads, a second. */
#define ASSUMED_READ_RATE 1000000000u
/* A job that reads less than this from the drive does not wait for a probe. */
#define PROBE_PAYS_BYTES ((uint64_t)32 << 30)
#define DAY_SECONDS 86400
#define KEY_BYTES (SL_MODEL_KEY_BYTES + SL_DRIVE_NAME_BYTES + 16)

static const struct file *first_file(const struct model *model) {
    must(model->index.file_count > 0);
    return model->index.files[0];
}

static bool is_direct(const struct model *model) {
    for (size_t i = 0; i < model->index.file_count; i++)
        if (model->index.files[i]->direct_fd < 0)
            return false;
    return true;
}

static bool is_auto(const struct settings *settings) {
    return strcmp(settings->reader, "auto") == 0;
}

/* The model by its name and size, not by its path: the same files elsewhere on the drive are as
 * fast. */
void rates_model_key(const struct model *model, const struct plan *plan,
                     char key[SL_MODEL_KEY_BYTES]) {
    struct str name = str_last_part(str_from(model->path));
    snprintf(key, SL_MODEL_KEY_BYTES, "%.*s, %llu bytes, %s, %s kernels, %zu threads",
             STR_ARG(name), (unsigned long long)plan->weights_bytes, plan->precision, plan->kernels,
             plan->threads);
}

void rates_memory_key(const struct model *model, const struct plan *plan,
                      char key[SL_MEMORY_KEY_BYTES]) {
    char of_model[SL_MODEL_KEY_BYTES];
    rates_model_key(model, plan, of_model);
    snprintf(key, SL_MEMORY_KEY_BYTES, "%s, %s", of_model,
             plan->slab_count > 0 ? "stream" : "resident");
}

static void rate_key(const struct model *model, const struct plan *plan, const char *drive,
                     char key[KEY_BYTES]) {
    char of_model[SL_MODEL_KEY_BYTES];
    rates_model_key(model, plan, of_model);
    snprintf(key, KEY_BYTES, "%s, drive %s", of_model, drive);
}

static void tell_probe(const struct probe_record *record, char *text, size_t size) {
    struct tm day;
    time_t date = (time_t)record->date;
    char when[32] = "another day";
    if (gmtime_r(&date, &day) != NULL)
        (void)strftime(when, sizeof when, "%Y-%m-%d", &day);
    snprintf(text, size, "probe of %s: %s, %.3g MiB x %zu", when, ring_method_name(record->method),
             (double)record->chunk_bytes / 0x1p20, record->depth);
}

void rates_decide(const struct model *model, const struct settings *settings, struct plan *plan) {
    struct probe_record probe;
    struct rate_record rate;
    char key[KEY_BYTES], drive[SL_DRIVE_NAME_BYTES];
    record_drive(first_file(model), drive);
    bool has_probe = record_get_probe(settings->home, drive, &probe) &&
                     ring_method_try(probe.method, NULL) == SL_OK;
    plan->reader = is_auto(settings) ? NULL : ring_method_find(settings->reader);
    plan->chunk_bytes = (size_t)settings->chunk_bytes;
    plan->depth = (size_t)settings->depth;
    plan->read_bytes_per_second = ASSUMED_READ_RATE;
    plan->knows_rate = false;
    snprintf(plan->rate_source, sizeof plan->rate_source, "not measured yet: assumed");
    /* A record may come from a kernel that had io_uring. Chunk and depth belong to the method that
     * they were found for. */
    if (has_probe && (plan->reader == NULL || plan->reader == probe.method)) {
        plan->reader = probe.method;
        if (plan->chunk_bytes == 0 && plan->depth == 0) {
            plan->chunk_bytes = probe.chunk_bytes;
            plan->depth = probe.depth;
        }
    }
    if (has_probe) {
        plan->knows_rate = true;
        plan->read_bytes_per_second = probe.sustained_bytes_per_second;
        tell_probe(&probe, plan->rate_source, sizeof plan->rate_source);
    }
    rate_key(model, plan, drive, key);
    if (settings->rate > 0) {
        plan->knows_rate = true;
        plan->read_bytes_per_second = settings->rate;
        snprintf(plan->rate_source, sizeof plan->rate_source, "--rate");
    } else if (settings->home != NULL && record_get_rate(settings->home, key, &rate)) {
        plan->knows_rate = true;
        plan->read_bytes_per_second = rate.bytes_per_second;
        snprintf(plan->rate_source, sizeof plan->rate_source,
                 "measured in %llu run%s of this model", (unsigned long long)rate.runs,
                 rate.runs == 1 ? "" : "s");
    }
}

bool rates_want_probe(const struct model *model, const struct settings *settings,
                      const struct plan *plan) {
    struct probe_record probe;
    char drive[SL_DRIVE_NAME_BYTES];
    if (plan->slab_count == 0 || settings->home == NULL || !is_auto(settings) ||
        settings->chunk_bytes > 0 || settings->depth > 0 || settings->rate > 0)
        return false;
    if ((double)plan->pass_bytes * (double)plan->passes < (double)PROBE_PAYS_BYTES)
        return false;
    if (plan->base_bytes + SL_PROBE_BYTES_MAX > plan->budget_bytes - plan->margin_bytes)
        return false;
    record_drive(first_file(model), drive);
    return !record_get_probe(settings->home, drive, &probe) ||
           clock_wall_seconds() - probe.date > (int64_t)SL_PROBE_DAYS * DAY_SECONDS;
}

enum status rates_probe(const struct model *model, const struct settings *settings, double seconds,
                        bool (*should_stop)(void), struct error *err) {
    struct probe probe;
    struct probe_record record;
    struct error why = {0};
    char drive[SL_DRIVE_NAME_BYTES];
    struct probe_options options = {
        .files = model->index.files,
        .file_count = model->index.file_count,
        .seconds = seconds,
        .should_stop = should_stop,
    };
    TRY(probe_run(&options, &probe, err));
    record_drive(first_file(model), drive);
    record_of_probe(&probe, drive, &record);
    record.is_quick = true;
    if (record_put_probe(settings->home, &record, &why) != SL_OK)
        log_warning("the probe is not kept: %s", why.text);
    return SL_OK;
}

void rates_learn(const struct model *model, const struct settings *settings,
                 const struct plan *plan, uint64_t bytes_per_second) {
    struct rate_record record = {0};
    struct error why = {0};
    char key[KEY_BYTES], drive[SL_DRIVE_NAME_BYTES];
    if (plan->slab_count == 0 || settings->home == NULL || bytes_per_second == 0 ||
        plan->weights_bytes < SL_RATE_BYTES_LEAST || !is_direct(model))
        return;
    record_drive(first_file(model), drive);
    rate_key(model, plan, drive, key);
    (void)record_get_rate(settings->home, key, &record);
    record.bytes_per_second = bytes_per_second;
    record.date = clock_wall_seconds();
    record.runs++;
    if (record_put_rate(settings->home, key, &record, &why) != SL_OK)
        log_warning("the rate of this run is not kept: %s", why.text);
}

/* Jobs with about the same limit: within a factor of two. How long answers are hardly depends on
 * the precision or the machine. */
static void answers_key(const struct model *model, const struct plan *plan,
                        char key[SL_MODEL_KEY_BYTES]) {
    struct str name = str_last_part(str_from(model->path));
    uint64_t limit = plan->rows.count > 0 ? plan->rows.answer_tokens / plan->rows.count : 1,
             top = 1;
    while (top < limit)
        top *= 2;
    snprintf(key, SL_MODEL_KEY_BYTES, "%.*s, %llu bytes, answers of at most %llu tokens",
             STR_ARG(name), (unsigned long long)plan->weights_bytes, (unsigned long long)top);
}

void rates_decide_answers(const struct model *model, const struct settings *settings,
                          struct plan *plan) {
    char key[SL_MODEL_KEY_BYTES];
    plan->answers = (struct answers){0};
    snprintf(plan->answers_source, sizeof plan->answers_source,
             settings->ignores_eos ? "--ignore-eos" : "no job has told how long answers are");
    if (settings->home == NULL || settings->ignores_eos)
        return;
    answers_key(model, plan, key);
    if (!record_get_answers(settings->home, key, &plan->answers))
        return;
    unsigned long long count = answers_count(&plan->answers);
    snprintf(plan->answers_source, sizeof plan->answers_source, "%llu row%s of earlier jobs", count,
             count == 1 ? "" : "s");
}

void rates_learn_answers(const struct model *model, const struct settings *settings,
                         const struct plan *plan, const struct answers *seen) {
    struct answers known = {0};
    struct error why = {0};
    char key[SL_MODEL_KEY_BYTES];
    if (settings->home == NULL || settings->ignores_eos || answers_count(seen) == 0)
        return;
    answers_key(model, plan, key);
    (void)record_get_answers(settings->home, key, &known);
    answers_merge(&known, seen);
    if (record_put_answers(settings->home, key, &known, &why) != SL_OK)
        log_warning("the lengths of these answers are not kept: %s", why.text);
}
