/* `probe`: read rates of the drive under a model, a file or a folder. In a folder without a model
 * it writes a scratch file first, which nobody else sees and which is gone whatever ends the
 * command. Keeps the best cell in SLUICE_HOME for the jobs to come. */
#include "cli/cmd.h"

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/model_name.h"
#include "cli/options.h"
#include "io/probe.h"
#include "io/save.h"
#include "model/model.h"
#include "plan/plan.h"
#include "plan/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRATCH_BYTES ((uint64_t)2 << 30)
#define SCRATCH_WRITE_BYTES ((size_t)4 << 20)

struct probing {
    struct settings settings;
    const char *path;
    struct model *model;  /* NULL: a file or a scratch file */
    struct file *scratch; /* likewise, the other way round */
    struct drive_share shares[SL_RING_DRIVES_MAX];
    struct probe probes[SL_RING_DRIVES_MAX]; /* of each drive, the one with the most bytes first */
    size_t count;
};

/* Bytes that no drive can pack together (Marsaglia's xorshift64). */
static void fill_random(uint64_t *words, size_t count, uint64_t *seed) {
    for (size_t i = 0; i < count; i++) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        words[i] = *seed;
    }
}

/* 0, or errno. */
static int fill_scratch(int fd) {
    uint64_t *words = mem_new(1, SCRATCH_WRITE_BYTES), seed = 88172645463325252u;
    int number = words == NULL ? ENOMEM : 0;
    for (uint64_t done = 0; number == 0 && done < SCRATCH_BYTES;) {
        fill_random(words, SCRATCH_WRITE_BYTES / sizeof *words, &seed);
        number = file_write_all(fd, (struct str){(const char *)words, SCRATCH_WRITE_BYTES});
        done += SCRATCH_WRITE_BYTES;
        if (signals_should_stop())
            number = ECANCELED;
    }
    mem_free(words);
    return number == 0 ? file_sync(fd) : number;
}

static enum status make_scratch(const char *folder, struct file **out, struct error *err) {
    char path[4096], reason[128];
    int length = snprintf(path, sizeof path, "%s/.sluice-probe-XXXXXX", folder);
    int fd = length > 0 && (size_t)length < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
    if (fd < 0)
        return error_set(err, SL_ERR_ENV, "%s: no scratch file can be made there: %s", folder,
                         strerror_r(errno, reason, sizeof reason));
    log_note("no model in %s: writing a scratch file of %llu GiB", folder,
             (unsigned long long)(SCRATCH_BYTES >> 30));
    int number = fill_scratch(fd);
    enum status status = SL_OK;
    if (number == ECANCELED)
        status = error_set(err, SL_ERR_STOPPED, "stopped while writing the scratch file");
    else if (number != 0)
        status = error_set(err, SL_ERR_ENV, "%s: cannot be written: %s", path,
                           strerror_r(number, reason, sizeof reason));
    else
        status = file_open(path, true, out, err);
    close(fd);
    unlink(path);
    return status;
}

/* A folder with a config is a model's; whatever is no folder is a file to read. */
static enum status open_files(struct probing *probing, struct error *err) {
    const char *path = probing->path;
    char config[4096];
    if (!file_is_folder(path)) {
        if (str_ends(str_from(path), STR(".gguf")))
            return model_open(path, MODEL_ALL, &probing->model, err);
        return file_open(path, true, &probing->scratch, err);
    }
    int length = snprintf(config, sizeof config, "%s/config.json", path);
    if (length > 0 && (size_t)length < sizeof config && file_exists(config))
        return model_open(path, MODEL_ALL, &probing->model, err);
    return make_scratch(path, &probing->scratch, err);
}

static void show_progress(void *ctx, size_t done, size_t total) {
    const struct settings *settings = ctx;
    char line[80];
    if (strcmp(settings->progress, "none") == 0 || !isatty(STDERR_FILENO))
        return;
    snprintf(line, sizeof line, "probe %zu of %zu", done, total);
    log_progress(done < total ? line : "");
}

static void cell_json(const struct probe_cell *cell, struct buf *out) {
    buf_printf(out,
               "{\"method\": \"%s\", \"chunk_bytes\": %zu, \"depth\": %zu, \"bytes_per_second\": "
               "%llu}",
               ring_method_name(cell->method), cell->chunk_bytes, cell->depth,
               (unsigned long long)cell->bytes_per_second);
}

/* The members of one drive. */
static void drive_json(const struct probing *probing, size_t drive, struct buf *out) {
    const struct probe *probe = &probing->probes[drive];
    buf_add(out, STR("\"drive\": "));
    json_add_string(out, str_from(probing->shares[drive].name));
    buf_printf(out, ", \"file_bytes\": %llu, \"direct\": %s, \"best\": ",
               (unsigned long long)probe->file_bytes, probe->is_direct ? "true" : "false");
    cell_json(&probe->cells[probe->best], out);
    buf_add(out, STR(", \"grid\": ["));
    for (size_t i = 0; i < probe->cell_count; i++) {
        buf_add(out, i == 0 ? STR("") : STR(", "));
        cell_json(&probe->cells[i], out);
    }
    buf_printf(out, "], \"sustained_bytes_per_second\": %llu",
               (unsigned long long)probe->sustained_bytes_per_second);
}

static void tell_json(const struct probing *probing, struct buf *out) {
    buf_add(out, STR("{\"path\": "));
    json_add_string(out, str_from(probing->path));
    buf_add(out, STR(", "));
    drive_json(probing, 0, out);
    for (size_t i = 1; i < probing->count; i++) {
        buf_add(out, i == 1 ? STR(", \"other_drives\": [{") : STR("}, {"));
        drive_json(probing, i, out);
    }
    buf_add(out, probing->count > 1 ? STR("}]}\n") : STR("}\n"));
}

/* A table for each method: rows of chunk sizes, columns of depths; the best cell has a star. */
static void tell_table(const struct probing *probing, size_t drive, struct buf *out) {
    const struct probe *probe = &probing->probes[drive];
    const struct probe_cell *cells = probe->cells, *best = &cells[probe->best];
    buf_printf(out, "drive %s, %s reads, MB/s by chunk (rows) and depth\n",
               probing->shares[drive].name, probe->is_direct ? "direct" : "buffered");
    for (size_t i = 0; i < probe->cell_count; i++) {
        const struct probe_cell *cell = &cells[i];
        bool is_new = i == 0 || cell->method != cells[i - 1].method;
        if (is_new)
            buf_printf(out, "\n%s", ring_method_name(cell->method));
        if (is_new || cell->chunk_bytes != cells[i - 1].chunk_bytes)
            buf_printf(out, "\n%7.4g MiB ", (double)cell->chunk_bytes / 0x1p20);
        buf_printf(out, "  %zu: %6.0f%s", cell->depth, cell->bytes_per_second / 1e6,
                   cell == best ? "*" : " ");
    }
    buf_printf(out,
               "\n\nbest: %s, chunks of %.4g MiB, %zu at once: %.0f MB/s; sustained %.0f MB/s\n",
               ring_method_name(best->method), (double)best->chunk_bytes / 0x1p20, best->depth,
               best->bytes_per_second / 1e6, probe->sustained_bytes_per_second / 1e6);
}

/* One drive, and its record. */
static enum status probe_drive(struct probing *probing, size_t drive, struct file *const *files,
                               size_t count, struct error *err) {
    const struct settings *settings = &probing->settings;
    struct probe *probe = &probing->probes[drive];
    struct probe_record record;
    struct error why = {0};
    bool is_auto = strcmp(settings->reader, "auto") == 0;
    struct probe_options options = {
        .files = files,
        .file_count = count,
        .seconds = settings->probe_seconds,
        .method = is_auto ? NULL : ring_method_find(settings->reader),
        .chunk_bytes = (size_t)settings->chunk_bytes,
        .depth = (size_t)settings->depth,
        .should_stop = signals_should_stop,
        .progress = show_progress,
        .ctx = &probing->settings,
    };
    TRY(probe_run(&options, probe, err));
    record_of_probe(probe, probing->shares[drive].name, &record);
    if (!probe->is_direct)
        log_warning("%s: the file system refuses direct I/O: these are rates through the page "
                    "cache",
                    files[0]->path);
    /* A probe of one method or chunk alone says nothing about the best. */
    bool is_whole = is_auto && settings->chunk_bytes == 0 && settings->depth == 0;
    if (is_whole && settings->home != NULL &&
        record_put_probe(settings->home, &record, &why) != SL_OK)
        log_warning("the probe is not kept: %s", why.text);
    return SL_OK;
}

static enum status probe_files(struct probing *probing, struct error *err) {
    struct file *const *files = probing->model ? probing->model->index.files : &probing->scratch;
    size_t count = probing->model ? probing->model->index.file_count : 1;
    struct file **some = mem_new(count, sizeof *some);
    if (some == NULL)
        return error_memory(err, count * sizeof *some, "a probe");
    enum status status = SL_OK;
    probing->count = record_drives(files, count, probing->shares);
    for (size_t i = 0; i < probing->count && status == SL_OK; i++) {
        size_t found = record_files_of(files, count, probing->shares, probing->count, i, some);
        status = probe_drive(probing, i, some, found, err);
    }
    mem_free(some);
    return status;
}

static enum status probe(int argc, char **argv, struct probing *probing, struct error *err) {
    const char *operands[1] = {NULL};
    size_t count;
    struct buf text; /* first of the command's options, which stay empty: it takes no --config */
    buf_init(&text);
    options_defaults(&probing->settings);
    TRY(options_parse(argc, argv, FOR_PROBE, &probing->settings, operands, 1, &count, &text, err));
    if (count < 1)
        return error_set(err, SL_ERR_USAGE, "probe needs a PATH: a model, a file or a folder");
    char path[PATH_MAX];
    probing->settings.model = operands[0];
    TRY(model_name_resolve(&probing->settings, false, path, err));
    probing->path = probing->settings.model;
    signals_install();
    TRY(open_files(probing, err));
    TRY(probe_files(probing, err));
    if (probing->settings.is_json)
        tell_json(probing, &text);
    for (size_t i = 0; i < probing->count && !probing->settings.is_json; i++) {
        buf_add(&text, i > 0 ? STR("\n") : STR(""));
        tell_table(probing, i, &text);
    }
    enum status status = buf_status(&text, "the table", err);
    if (status == SL_OK)
        fwrite(text.data, 1, text.len, stdout);
    buf_release(&text);
    return status;
}

int cmd_probe(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "probe"))
        return cmd_end(0);
    struct probing probing = {0};
    struct error err = {0};
    enum status status = probe(argc, argv, &probing, &err);
    model_close(probing.model);
    file_close(probing.scratch);
    return cmd_end(cmd_fail(status, &err));
}
