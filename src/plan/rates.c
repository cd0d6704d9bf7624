/* Owns the choice among what is known of a drive, and what a run may teach. Refuses to learn from
 * runs that the page cache served or that were small. */
#include "plan/rates.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "plan/record.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Until there is a probe: what an ordinary NVMe drive reads, a second. */
#define ASSUMED_READ_RATE 1000000000u
/* A job that reads less than this from the drive does not wait for a probe. */
#define PROBE_PAYS_BYTES ((uint64_t)32 << 30)
#define DAY_SECONDS 86400
#define KEY_BYTES (SL_MODEL_KEY_BYTES + SL_DRIVE_NAME_BYTES + 64)

static size_t drives_of(const struct model *model, struct drive_share shares[SL_RING_DRIVES_MAX]) {
    must(model->index.file_count > 0);
    return record_drives(model->index.files, model->index.file_count, shares);
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
    snprintf(key, SL_MODEL_KEY_BYTES, "%.*s, %llu bytes, %s, %s kernels%s%s, %zu threads",
             STR_ARG(name), (unsigned long long)plan->weights_bytes, plan->precision, plan->kernels,
             plan->isa ? " on " : "", plan->isa ? plan->isa : "", plan->threads);
}

void rates_memory_key(const struct model *model, const struct plan *plan,
                      char key[SL_MEMORY_KEY_BYTES]) {
    char of_model[SL_MODEL_KEY_BYTES];
    rates_model_key(model, plan, of_model);
    snprintf(key, SL_MEMORY_KEY_BYTES, "%s, %s", of_model,
             plan->slab_count > 0 ? "stream" : "resident");
}

static void rate_key(const struct model *model, const struct plan *plan,
                     const struct drive_share *shares, size_t count, char key[KEY_BYTES]) {
    char of_model[SL_MODEL_KEY_BYTES], others[40] = "";
    if (count > 1)
        snprintf(others, sizeof others, " and %zu more", count - 1);
    rates_model_key(model, plan, of_model);
    snprintf(key, KEY_BYTES, "%s, drive %s%s", of_model, shares[0].name, others);
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

/* The rate of files on several drives, which are read one after the other in the order of the pass:
 * each share at its own. *unknown counts the drives whose rate is assumed. */
static uint64_t rate_of_all(const struct settings *settings, const struct drive_share *shares,
                            size_t count, size_t *unknown) {
    double seconds = 0, bytes = 0;
    *unknown = 0;
    for (size_t i = 0; i < count; i++) {
        struct probe_record probe;
        bool is_known = record_get_probe(settings->home, shares[i].name, &probe);
        *unknown += !is_known;
        seconds += (double)shares[i].bytes /
                   (double)(is_known ? probe.sustained_bytes_per_second : ASSUMED_READ_RATE);
        bytes += (double)shares[i].bytes;
    }
    return seconds > 0 ? (uint64_t)(bytes / seconds + 0.5) : ASSUMED_READ_RATE;
}

static void tell_others(size_t count, size_t unknown, char *text, size_t size) {
    size_t length = strlen(text);
    if (count > 1 && unknown == 0)
        snprintf(text + length, size - length, ", and of %zu more drive%s", count - 1,
                 count == 2 ? "" : "s");
    else if (count > 1)
        snprintf(text + length, size - length, "; %zu of %zu drives are assumed", unknown, count);
}

void rates_decide(const struct model *model, const struct settings *settings, struct plan *plan) {
    struct probe_record probe;
    struct rate_record rate;
    struct drive_share shares[SL_RING_DRIVES_MAX];
    char key[KEY_BYTES];
    size_t count = drives_of(model, shares), unknown;
    /* The reader is that of the drive with the most bytes. */
    bool has_probe = record_get_probe(settings->home, shares[0].name, &probe) &&
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
        plan->read_bytes_per_second = rate_of_all(settings, shares, count, &unknown);
        tell_probe(&probe, plan->rate_source, sizeof plan->rate_source);
        tell_others(count, unknown, plan->rate_source, sizeof plan->rate_source);
    }
    rate_key(model, plan, shares, count, key);
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

static bool wants_probe(const struct settings *settings, const struct drive_share *share) {
    struct probe_record probe;
    return !record_get_probe(settings->home, share->name, &probe) ||
           clock_wall_seconds() - probe.date > (int64_t)SL_PROBE_DAYS * DAY_SECONDS;
}

bool rates_want_probe(const struct model *model, const struct settings *settings,
                      const struct plan *plan) {
    struct drive_share shares[SL_RING_DRIVES_MAX];
    if (plan->slab_count == 0 || settings->home == NULL || !is_auto(settings) ||
        settings->chunk_bytes > 0 || settings->depth > 0 || settings->rate > 0)
        return false;
    if ((double)plan->pass_bytes * (double)plan->passes < (double)PROBE_PAYS_BYTES)
        return false;
    if (plan->base_bytes + SL_PROBE_BYTES_MAX > plan->budget_bytes - plan->margin_bytes)
        return false;
    size_t count = drives_of(model, shares), wanting = 0;
    for (size_t i = 0; i < count; i++)
        wanting += wants_probe(settings, &shares[i]);
    return wanting > 0;
}

static enum status probe_drive(const struct probe_options *options, const struct settings *settings,
                               const char *drive, struct error *err) {
    struct probe probe;
    struct probe_record record;
    struct error why = {0};
    TRY(probe_run(options, &probe, err));
    record_of_probe(&probe, drive, &record);
    record.is_quick = true;
    if (record_put_probe(settings->home, &record, &why) != SL_OK)
        log_warning("the probe is not kept: %s", why.text);
    return SL_OK;
}

enum status rates_probe(const struct model *model, const struct settings *settings, double seconds,
                        bool (*should_stop)(void), struct error *err) {
    const struct index *index = &model->index;
    struct drive_share shares[SL_RING_DRIVES_MAX];
    size_t count = drives_of(model, shares);
    struct file **files = mem_new(index->file_count, sizeof *files);
    if (files == NULL)
        return error_memory(err, index->file_count * sizeof *files, "a probe");
    enum status status = SL_OK;
    for (size_t i = 0; i < count && status == SL_OK; i++) {
        struct probe_options options = {
            .files = files,
            .file_count = record_files_of(index->files, index->file_count, shares, count, i, files),
            .seconds = seconds,
            .should_stop = should_stop,
        };
        if (count == 1 || wants_probe(settings, &shares[i]))
            status = probe_drive(&options, settings, shares[i].name, err);
    }
    mem_free(files);
    return status;
}

void rates_learn(const struct model *model, const struct settings *settings,
                 const struct plan *plan, uint64_t bytes_per_second) {
    struct rate_record record = {0};
    struct error why = {0};
    struct drive_share shares[SL_RING_DRIVES_MAX];
    char key[KEY_BYTES];
    if (plan->slab_count == 0 || settings->home == NULL || bytes_per_second == 0 ||
        plan->weights_bytes < SL_RATE_BYTES_LEAST || !is_direct(model))
        return;
    size_t count = drives_of(model, shares);
    rate_key(model, plan, shares, count, key);
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
    if (settings->home == NULL || settings->ignores_eos || settings->scores)
        return;
    answers_key(model, plan, key);
    if (!record_get_answers(settings->home, key, &plan->answers))
        return;
    unsigned long long count = answers_count(&plan->answers);
    snprintf(plan->answers_source, sizeof plan->answers_source, "%llu row%s of earlier jobs", count,
             count == 1 ? "" : "s");
    answers_doubt(&plan->answers);
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
