/* Owns checksums of weights: which unit has which number, and the record. Refuses a record that is
 * damaged or of other files; it is then begun anew, never believed in part.
 *
 * The record, little-endian: "SLUICRC1", identity (8 bytes), count (8), `known` as a bit each
 * (rounded up to bytes), checksums (4 each), CRC-32C of all before. */
#include "weights/checks.h"

#include "base/crc.h"
#include "base/log.h"
#include "io/save.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECKS_MAGIC "SLUICRC1"
#define CHECKS_HEAD_BYTES ((size_t)24)
#define CHECKS_TAIL_BYTES ((size_t)4)

enum checks_found { CHECKS_NONE, CHECKS_CHANGED, CHECKS_DAMAGED, CHECKS_GOOD };

struct checks {
    const struct index *index;
    struct layout_item *items; /* a copy */
    size_t *first;             /* [item_count]: its first checksum */
    size_t item_count;
    uint32_t *sums;
    uint8_t *known; /* a bit for each */
    size_t count, known_count;
    bool has_news; /* that are not in the record */
    uint64_t identity;
    char path[PATH_MAX]; /* empty: there is no home */
    enum checks_found found;
};

/* Checksums of an item: one for each part of each unit. */
static uint64_t sums_of(const struct layout_item *item) {
    uint64_t unit = layout_unit_rows(item);
    return (item->matrix.rows / unit + (item->matrix.rows % unit != 0)) * item->matrix.part_count;
}

static bool is_known(const struct checks *checks, size_t number) {
    return checks->known[number / 8] >> (number % 8) & 1;
}

static size_t known_bytes(size_t count) {
    return count / 8 + (count % 8 != 0);
}

uint64_t checks_bytes(const struct layout_item *items, size_t count) {
    uint64_t sums = 0;
    for (size_t i = 0; i < count; i++)
        sums += sums_of(&items[i]);
    /* Twice: the record is put together in memory. */
    return sizeof(struct checks) + count * (sizeof *items + sizeof(size_t)) +
           2 * (sums * sizeof(uint32_t) + known_bytes((size_t)sums));
}

/* ---- what the files are */

static void add_value(struct buf *out, uint64_t value) {
    buf_add(out, (struct str){(const char *)&value, sizeof value});
}

/* The paths of all files into one text, what else tells them apart into another. */
static enum status add_files(const struct index *index, struct buf *paths, struct buf *facts,
                             struct error *err) {
    for (size_t i = 0; i < index->file_count; i++) {
        const struct file *file = index->files[i];
        struct stat info;
        char whole[PATH_MAX];
        if (fstat(file->fd, &info) != 0)
            return error_set(err, SL_ERR_ENV, "%s: its time of change cannot be told", file->path);
        buf_add(paths, str_from(realpath(file->path, whole) != NULL ? whole : file->path));
        buf_add(paths, STR("\n"));
        add_value(facts, (uint64_t)info.st_size);
        add_value(facts, (uint64_t)info.st_mtim.tv_sec);
        add_value(facts, (uint64_t)info.st_mtim.tv_nsec);
    }
    return SL_OK;
}

/* Which bytes each checksum is of. */
static void add_units(const struct checks *checks, struct buf *facts) {
    for (size_t i = 0; i < checks->item_count; i++) {
        const struct layout_item *item = &checks->items[i];
        struct matrix_range range = matrix_range(&item->matrix, 0, 0, item->matrix.rows);
        add_value(facts, range.file);
        add_value(facts, range.offset);
        add_value(facts, range.bytes);
        add_value(facts, layout_unit_rows(item));
        add_value(facts, item->matrix.part_count);
    }
}

static enum status identify(struct checks *checks, const char *home, struct error *err) {
    struct buf paths, facts;
    buf_init(&paths);
    buf_init(&facts);
    enum status status = add_files(checks->index, &paths, &facts, err);
    add_units(checks, &facts);
    if (status == SL_OK)
        status = buf_status(&facts, "the checksums of the weights", err);
    if (status == SL_OK)
        status = buf_status(&paths, "the checksums of the weights", err);
    if (status == SL_OK && home != NULL) {
        int length = snprintf(checks->path, sizeof checks->path, "%s/checksums/%016llx.crc", home,
                              (unsigned long long)str_hash(buf_str(&paths)));
        if (length < 0 || (size_t)length >= sizeof checks->path)
            status = error_set(err, SL_ERR_ENV, "the path of SLUICE_HOME is too long");
    }
    checks->identity = status == SL_OK ? str_hash(buf_str(&facts)) : 0;
    buf_release(&paths);
    buf_release(&facts);
    return status;
}

/* ---- the record */

static size_t record_bytes(const struct checks *checks) {
    return CHECKS_HEAD_BYTES + known_bytes(checks->count) + checks->count * sizeof(uint32_t) +
           CHECKS_TAIL_BYTES;
}

static uint64_t value_at(const struct buf *text, size_t offset) {
    uint64_t value;
    memcpy(&value, text->data + offset, sizeof value);
    return value;
}

/* Takes up what the text says, if it is a whole record of these files. */
static enum checks_found take_record(struct checks *checks, const struct buf *text) {
    uint32_t sum;
    if (text->len < CHECKS_HEAD_BYTES + CHECKS_TAIL_BYTES ||
        memcmp(text->data, CHECKS_MAGIC, 8) != 0)
        return CHECKS_DAMAGED;
    memcpy(&sum, text->data + text->len - CHECKS_TAIL_BYTES, sizeof sum);
    if (sum != crc32c(0, text->data, text->len - CHECKS_TAIL_BYTES))
        return CHECKS_DAMAGED;
    if (value_at(text, 8) != checks->identity || value_at(text, 16) != checks->count)
        return CHECKS_CHANGED;
    if (text->len != record_bytes(checks))
        return CHECKS_DAMAGED;
    size_t known = known_bytes(checks->count);
    memcpy(checks->known, text->data + CHECKS_HEAD_BYTES, known);
    memcpy(checks->sums, text->data + CHECKS_HEAD_BYTES + known, checks->count * sizeof(uint32_t));
    for (size_t i = 0; i < checks->count; i++)
        checks->known_count += is_known(checks, i);
    return CHECKS_GOOD;
}

static void load(struct checks *checks) {
    struct buf text;
    struct error why = {0};
    if (checks->path[0] == '\0' || !file_exists(checks->path))
        return;
    buf_init(&text);
    /* One of other files may be larger; what it says is of no use. */
    if (file_read_all(checks->path, record_bytes(checks), &text, &why) == SL_OK)
        checks->found = take_record(checks, &text);
    else
        checks->found = CHECKS_CHANGED;
    buf_release(&text);
}

static void save(struct checks *checks) {
    struct buf text;
    struct error why = {0};
    if (!checks->has_news || checks->path[0] == '\0')
        return;
    buf_init(&text);
    buf_add(&text, STR(CHECKS_MAGIC));
    add_value(&text, checks->identity);
    add_value(&text, checks->count);
    buf_add(&text, (struct str){(const char *)checks->known, known_bytes(checks->count)});
    buf_add(&text, (struct str){(const char *)checks->sums, checks->count * sizeof(uint32_t)});
    uint32_t sum = crc32c(0, text.data, text.len);
    buf_add(&text, (struct str){(const char *)&sum, sizeof sum});
    enum status status = buf_status(&text, "the checksums of the weights", &why);
    if (status == SL_OK)
        status = file_save(checks->path, buf_str(&text), &why);
    if (status != SL_OK)
        log_warning("the checksums of the weights are not kept: %s", why.text);
    checks->has_news = false; /* said once */
    buf_release(&text);
}

/* ---- the owner's side */

static enum status fill(struct checks *checks, const struct layout_item *items, const char *home,
                        struct error *err) {
    size_t count = checks->item_count;
    uint64_t sums = 0;
    checks->items = mem_new(count, sizeof *items);
    checks->first = mem_new(count, sizeof *checks->first);
    if (checks->items == NULL || checks->first == NULL)
        return error_memory(err, count * sizeof *items, "the checksums of the weights");
    for (size_t i = 0; i < count; i++) {
        checks->items[i] = items[i];
        checks->first[i] = (size_t)sums;
        sums += sums_of(&items[i]); /* fewer than bytes, which fit (index_add) */
    }
    checks->count = (size_t)sums;
    checks->sums = mem_new(checks->count, sizeof *checks->sums);
    checks->known = mem_new(known_bytes(checks->count), 1);
    if (checks->sums == NULL || checks->known == NULL)
        return error_memory(err, checks->count * sizeof *checks->sums,
                            "the checksums of the weights");
    TRY(identify(checks, home, err));
    load(checks);
    return SL_OK;
}

static void release(struct checks *checks) {
    mem_free(checks->items);
    mem_free(checks->first);
    mem_free(checks->sums);
    mem_free(checks->known);
    mem_free(checks);
}

enum status checks_open(const struct index *index, const struct layout_item *items, size_t count,
                        const char *home, struct checks **out, struct error *err) {
    struct checks *checks = mem_new(1, sizeof *checks);
    if (checks == NULL)
        return error_memory(err, sizeof *checks, "the checksums of the weights");
    checks->index = index;
    checks->item_count = count;
    enum status status = fill(checks, items, home, err);
    if (status != SL_OK) {
        release(checks);
        return status;
    }
    *out = checks;
    return SL_OK;
}

void checks_close(struct checks *checks) {
    if (checks == NULL)
        return;
    save(checks);
    release(checks);
}

void checks_counts(const struct checks *checks, size_t *count, size_t *known) {
    *count = checks->count;
    *known = checks->known_count;
}

void checks_tell(const struct checks *checks) {
    static const char *const reasons[] = {
        [CHECKS_NONE] = "this model has none yet",
        [CHECKS_CHANGED] = "the model's files are not those that its record is of",
        [CHECKS_DAMAGED] = "its record is damaged",
    };
    if (checks->path[0] == '\0')
        log_note("checksums: there is no SLUICE_HOME to keep them in; passes are verified by the "
                 "first");
    else if (checks->found != CHECKS_GOOD)
        log_note("checksums: %s; recorded as weights are read: %s", reasons[checks->found],
                 checks->path);
    else if (checks->known_count < checks->count)
        log_note("checksums: %zu of %zu are known and verified, the others recorded: %s",
                 checks->known_count, checks->count, checks->path);
    else
        log_note("checksums: weights are verified by %s", checks->path);
}

/* ---- the reader's side */

/* Of checksum `number`, whose part begins at range and reads as `found`. */
static enum status mismatch(const struct checks *checks, const struct tensor *tensor,
                            const struct matrix_range *range, uint32_t found, size_t number,
                            struct error *err) {
    const char *again = checks->path[0] != '\0' ? "; if it was changed on purpose, remove " : "";
    return error_set(
        err, SL_ERR_ENV,
        "%s: %llu bytes at offset %llu (tensor \"%.*s\") have the checksum %08x, twice, "
        "and %08x is recorded: the file or the drive is damaged%s%s",
        checks->index->files[range->file]->path, (unsigned long long)range->bytes,
        (unsigned long long)range->offset, STR_ARG(tensor->name), found, checks->sums[number],
        again, checks->path);
}

/* The unit that begins at `row` of the piece's item, all of its rows. */
static enum status look_at_unit(struct checks *checks, const struct piece *piece, uint64_t row,
                                uint64_t rows, const uint8_t *memory, struct error *err) {
    const struct layout_item *item = &checks->items[piece->item];
    const struct matrix *matrix = &item->matrix;
    size_t number =
        checks->first[piece->item] + (size_t)(row / layout_unit_rows(item)) * matrix->part_count;
    for (uint32_t part = 0; part < matrix->part_count; part++, number++) {
        struct matrix_range range = matrix_range(matrix, part, row, rows);
        struct matrix_range begin = matrix_range(matrix, part, piece->first_row, 1);
        const uint8_t *at = memory + piece->slab_offset[part] + (range.offset - begin.offset);
        uint32_t sum = crc32c(0, at, (size_t)range.bytes);
        must(number < checks->count);
        if (is_known(checks, number)) {
            if (sum != checks->sums[number])
                return mismatch(checks, matrix->parts[part].tensor, &range, sum, number, err);
            continue;
        }
        checks->sums[number] = sum;
        checks->known[number / 8] |= (uint8_t)(1u << (number % 8));
        checks->known_count++;
        checks->has_news = true;
    }
    return SL_OK;
}

enum status checks_block(struct checks *checks, const struct layout *layout, size_t block,
                         const uint8_t *memory, struct error *err) {
    const struct block *what = &layout->blocks[block];
    for (size_t i = 0; i < what->piece_count; i++) {
        const struct piece *piece = &layout->pieces[what->first_piece + i];
        must(piece->item < checks->item_count);
        uint64_t unit = layout_unit_rows(&checks->items[piece->item]), rows = piece->view.rows;
        must(piece->first_row % unit == 0);
        for (uint64_t done = 0; done < rows; done += unit) {
            uint64_t left = rows - done;
            TRY(look_at_unit(checks, piece, piece->first_row + done, left < unit ? left : unit,
                             memory, err));
        }
    }
    if (checks->known_count == checks->count)
        save(checks);
    return SL_OK;
}
