/* Owns the files of records and the identity of drives. Refuses to trust what it reads: a record
 * with a number that no drive has is no record. */
#include "plan/record.h"

#include "base/clock.h"
#include "base/json.h"
#include "io/save.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define RECORD_BYTES_MAX ((size_t)64 << 10)
#define RATE_MAX ((uint64_t)1 << 50) /* bytes a second */

/* ---- drives */

/* The first line of a small file under /sys, whose size says nothing, without blanks at its end;
 * nothing when there is none. */
static void add_line(const char *folder, const char *name, struct buf *out) {
    char path[PATH_MAX], text[80];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = length > 0 && (size_t)length < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    int64_t got = file_pread(fd, text, sizeof text, 0);
    size_t end = 0;
    close(fd);
    while ((int64_t)end < got && text[end] != '\n')
        end++;
    while (end > 0 && text[end - 1] == ' ')
        end--;
    if (end > 0)
        buf_printf(out, " %.*s", (int)end, text);
}

void record_drive(const struct file *file, char name[SL_DRIVE_NAME_BYTES]) {
    struct stat info;
    struct buf text;
    char folder[64];
    buf_init(&text);
    unsigned first = 0, second = 0;
    if (fstat(file->fd, &info) == 0) {
        first = major(info.st_dev);
        second = minor(info.st_dev);
    }
    buf_printf(&text, "%u:%u", first, second);
    snprintf(folder, sizeof folder, "/sys/dev/block/%u:%u", first, second);
    static const char *const lines[] = {"device/model", "../device/model",  "device/serial",
                                        "serial",       "../device/serial", "dm/name",
                                        "wwid",         "../wwid",          "size"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        add_line(folder, lines[i], &text);
    snprintf(name, SL_DRIVE_NAME_BYTES, "%.*s", (int)text.len, text.data != NULL ? text.data : "");
    str_clean(name);
    buf_release(&text);
}

static size_t share_of(const struct file *file, const struct drive_share *shares, size_t count) {
    size_t i = 0;
    while (i + 1 < count && shares[i].number != file->drive)
        i++;
    return i;
}

size_t record_drives(struct file *const *files, size_t count,
                     struct drive_share shares[SL_RING_DRIVES_MAX]) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = found > 0 ? share_of(files[i], shares, found) : 0;
        bool is_new = found == 0 || shares[at].number != files[i]->drive;
        if (is_new && found < SL_RING_DRIVES_MAX) {
            at = found++;
            shares[at] = (struct drive_share){.number = files[i]->drive};
            record_drive(files[i], shares[at].name);
        }
        shares[at].bytes += files[i]->bytes;
    }
    for (size_t i = 1; i < found; i++) {
        if (shares[i].bytes <= shares[0].bytes)
            continue;
        struct drive_share most = shares[i];
        shares[i] = shares[0];
        shares[0] = most;
    }
    return found;
}

size_t record_files_of(struct file *const *files, size_t count, const struct drive_share *shares,
                       size_t share_count, size_t share, struct file **out) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (share_of(files[i], shares, share_count) == share)
            out[found++] = files[i];
    return found;
}

/* ---- files */

/* HOME/kind/HASH.json; false: too long. */
static bool path_of(const char *home, const char *kind, const char *key, char path[PATH_MAX]) {
    unsigned long long hash = str_hash(str_from(key));
    int length = snprintf(path, PATH_MAX, "%s/%s/%016llx.json", home, kind, hash);
    return home != NULL && length > 0 && length < PATH_MAX;
}

/* The object in the file of that key, if its member `name` is the key; NULL otherwise. The tree
 * lives in arena and text. */
static const struct json *load(const char *home, const char *kind, const char *name,
                               const char *key, struct arena *arena, struct buf *text) {
    char path[PATH_MAX];
    const struct json *tree = NULL;
    struct str found;
    if (!path_of(home, kind, key, path) || !file_exists(path) ||
        file_read_all(path, RECORD_BYTES_MAX, text, NULL) != SL_OK ||
        json_parse(arena, buf_str(text), &(struct json_options){.depth_max = 4}, &tree, NULL) !=
            SL_OK)
        return NULL;
    if (!json_string(json_get(tree, name), &found) || !str_is(found, key))
        return NULL;
    return tree;
}

static bool get_number(const struct json *tree, const char *name, uint64_t most, uint64_t *out) {
    return json_u64(json_get(tree, name), out) && *out <= most;
}

static void begin(struct buf *text, const char *name, const char *key) {
    buf_init(text);
    buf_printf(text, "{\"%s\": ", name);
    json_add_string(text, str_from(key));
}

static void add_number(struct buf *text, const char *name, uint64_t value) {
    buf_printf(text, ",\n \"%s\": %llu", name, (unsigned long long)value);
}

/* Saves the text, which is released. */
static enum status end(struct buf *text, const char *home, const char *kind, const char *key,
                       struct error *err) {
    char path[PATH_MAX];
    buf_printf(text, "}\n");
    enum status status = buf_status(text, "a record", err);
    if (status == SL_OK && !path_of(home, kind, key, path))
        status = error_set(err, SL_ERR_ENV, "no place for records: SLUICE_HOME is too long");
    if (status == SL_OK)
        status = file_save(path, buf_str(text), err);
    buf_release(text);
    return status;
}

/* ---- probes */

static bool read_probe(const struct json *tree, struct probe_record *record) {
    struct str method;
    char name[16];
    uint64_t chunk, depth, date;
    if (!json_string(json_get(tree, "method"), &method) || method.len >= sizeof name ||
        !get_number(tree, "chunk_bytes", SL_RING_CHUNK_BYTES_MAX, &chunk) || chunk == 0 ||
        !get_number(tree, "depth", SL_RING_DEPTH_MAX, &depth) || depth == 0 ||
        !get_number(tree, "bytes_per_second", RATE_MAX, &record->bytes_per_second) ||
        !get_number(tree, "sustained_bytes_per_second", RATE_MAX,
                    &record->sustained_bytes_per_second) ||
        !get_number(tree, "file_bytes", UINT64_MAX, &record->file_bytes) ||
        !get_number(tree, "date", INT64_MAX, &date) || record->bytes_per_second == 0 ||
        record->sustained_bytes_per_second == 0)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)method.len, method.data);
    record->method = ring_method_find(name);
    record->chunk_bytes = (size_t)chunk;
    record->depth = (size_t)depth;
    record->date = (int64_t)date;
    record->is_quick = false;
    json_bool(json_get(tree, "quick"), &record->is_quick);
    return record->method != NULL;
}

bool record_get_probe(const char *home, const char *drive, struct probe_record *out) {
    struct arena arena;
    struct buf text;
    struct probe_record record = {0};
    arena_init(&arena);
    buf_init(&text);
    const struct json *tree = load(home, "probes", "drive", drive, &arena, &text);
    bool is_good = tree != NULL && read_probe(tree, &record);
    buf_release(&text);
    arena_release(&arena);
    if (!is_good)
        return false;
    snprintf(record.drive, sizeof record.drive, "%s", drive);
    *out = record;
    return true;
}

enum status record_put_probe(const char *home, const struct probe_record *record,
                             struct error *err) {
    struct buf text;
    begin(&text, "drive", record->drive);
    buf_printf(&text, ",\n \"method\": \"%s\"", ring_method_name(record->method));
    add_number(&text, "chunk_bytes", record->chunk_bytes);
    add_number(&text, "depth", record->depth);
    add_number(&text, "bytes_per_second", record->bytes_per_second);
    add_number(&text, "sustained_bytes_per_second", record->sustained_bytes_per_second);
    add_number(&text, "file_bytes", record->file_bytes);
    add_number(&text, "date", (uint64_t)record->date);
    buf_printf(&text, ",\n \"quick\": %s", record->is_quick ? "true" : "false");
    return end(&text, home, "probes", record->drive, err);
}

void record_of_probe(const struct probe *probe, const char *drive, struct probe_record *out) {
    const struct probe_cell *best = &probe->cells[probe->best];
    *out = (struct probe_record){
        .method = best->method,
        .chunk_bytes = best->chunk_bytes,
        .depth = best->depth,
        .bytes_per_second = (uint64_t)best->bytes_per_second,
        .sustained_bytes_per_second = (uint64_t)probe->sustained_bytes_per_second,
        .file_bytes = probe->file_bytes,
        .date = clock_wall_seconds(),
    };
    snprintf(out->drive, sizeof out->drive, "%s", drive);
}

/* ---- rates */

bool record_get_rate(const char *home, const char *key, struct rate_record *out) {
    struct arena arena;
    struct buf text;
    struct rate_record record = {0};
    uint64_t date = 0;
    arena_init(&arena);
    buf_init(&text);
    const struct json *tree = load(home, "rates", "of", key, &arena, &text);
    bool is_good = tree != NULL &&
                   get_number(tree, "bytes_per_second", RATE_MAX, &record.bytes_per_second) &&
                   record.bytes_per_second > 0 && get_number(tree, "date", INT64_MAX, &date) &&
                   get_number(tree, "runs", UINT32_MAX, &record.runs);
    buf_release(&text);
    arena_release(&arena);
    record.date = (int64_t)date;
    if (is_good)
        *out = record;
    return is_good;
}

enum status record_put_rate(const char *home, const char *key, const struct rate_record *record,
                            struct error *err) {
    struct buf text;
    begin(&text, "of", key);
    add_number(&text, "bytes_per_second", record->bytes_per_second);
    add_number(&text, "date", (uint64_t)record->date);
    add_number(&text, "runs", record->runs);
    return end(&text, home, "rates", key, err);
}
