/* The GGUF container: one file, or a split set NAME-00001-of-000NN.gguf whose first part has the
 * metadata. Turns the headers' lists of tensors into an index. What it refuses: tensors that are
 * not aligned, overlap or reach past the end of their file, types whose size is not known, a set
 * that is not whole, and any other part than the first as a model. Bytes that belong to no tensor
 * are allowed: writers pad. */
#include "weights/container.h"
#include "weights/gguf_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a tensor lies, from the beginning of the file. */
struct place {
    uint64_t begin, end;
    size_t tensor; /* in header.tensors */
};

static bool gguf_matches(const char *path) {
    if (file_is_folder(path))
        return false;
    if (str_ends(str_from(path), STR(".gguf")))
        return true;
    struct file *file;
    char magic[4];
    if (file_open(path, false, &file, NULL) != SL_OK)
        return false;
    bool is_gguf = file_read_at(file, 0, magic, sizeof magic, NULL) == SL_OK &&
                   memcmp(magic, "GGUF", sizeof magic) == 0;
    file_close(file);
    return is_gguf;
}

/* "q2_k", or "type 77" in text. */
static const char *type_name(uint32_t type, char text[24]) {
    const char *name = dtype_ggml_name(type);
    if (name)
        return name;
    snprintf(text, 24, "type %u", type);
    return text;
}

static enum status tensor_bytes(const struct file *file, const struct gguf_tensor *tensor,
                                uint64_t *out, struct error *err) {
    char text[24];
    const char *type = type_name(tensor->type, text);
    uint32_t block_values, block_bytes;
    if (!dtype_ggml_block(tensor->type, &block_values, &block_bytes))
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has the number format %s, which is "
                         "not known",
                         file->path, STR_ARG(tensor->name), type);
    uint64_t columns = tensor->shape[tensor->dims - 1];
    if (columns % block_values != 0)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has rows of %llu values, not whole blocks of %u as "
                         "%s asks for",
                         file->path, STR_ARG(tensor->name), (unsigned long long)columns,
                         block_values, type);
    uint64_t bytes = columns / block_values;
    bool is_too_large = __builtin_mul_overflow(bytes, (uint64_t)block_bytes, &bytes);
    for (uint32_t i = 0; i + 1 < tensor->dims; i++)
        is_too_large |= __builtin_mul_overflow(bytes, tensor->shape[i], &bytes);
    if (is_too_large)
        return error_set(err, SL_ERR_ENV, "%s: tensor \"%.*s\" has a shape that overflows",
                         file->path, STR_ARG(tensor->name));
    *out = bytes;
    return SL_OK;
}

static enum status find_place(const struct file *file, const struct gguf_header *header,
                              size_t number, struct place *place, struct error *err) {
    const struct gguf_tensor *tensor = &header->tensors[number];
    uint64_t begin, end, bytes = 0;
    TRY(tensor_bytes(file, tensor, &bytes, err));
    if (tensor->offset % header->alignment != 0)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has the offset %llu, not a multiple of the alignment "
                         "%llu",
                         file->path, STR_ARG(tensor->name), (unsigned long long)tensor->offset,
                         (unsigned long long)header->alignment);
    if (__builtin_add_overflow(header->data_offset, tensor->offset, &begin) ||
        __builtin_add_overflow(begin, bytes, &end))
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has the offset %llu, which is out "
                         "of range",
                         file->path, STR_ARG(tensor->name), (unsigned long long)tensor->offset);
    if (end > file->bytes)
        return error_set(err, SL_ERR_ENV,
                         "%s: is %llu bytes, but tensor \"%.*s\" ends at %llu: the file is cut",
                         file->path, (unsigned long long)file->bytes, STR_ARG(tensor->name),
                         (unsigned long long)end);
    *place = (struct place){begin, end, number};
    return SL_OK;
}

static int compare_places(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* Fills places, sorted, one for each tensor of header, and refuses overlaps. */
static enum status find_places(const struct file *file, const struct gguf_header *header,
                               struct place *places, struct error *err) {
    for (size_t i = 0; i < header->tensor_count; i++)
        TRY(find_place(file, header, i, &places[i], err));
    qsort(places, header->tensor_count, sizeof *places, compare_places);
    for (size_t i = 1; i < header->tensor_count; i++) {
        if (places[i].begin >= places[i - 1].end)
            continue;
        struct str first = header->tensors[places[i - 1].tensor].name;
        struct str second = header->tensors[places[i].tensor].name;
        return error_set(err, SL_ERR_ENV, "%s: tensors \"%.*s\" and \"%.*s\" overlap", file->path,
                         STR_ARG(first), STR_ARG(second));
    }
    return SL_OK;
}

static enum status add_tensor(struct index *index, uint32_t file, const struct gguf_tensor *tensor,
                              const struct place *place, struct error *err) {
    enum dtype dtype;
    uint64_t bytes = place->end - place->begin;
    if (!dtype_from_ggml(tensor->type, &dtype)) {
        char text[24];
        struct tensor_unsupported entry = {
            .name = tensor->name,
            .type = str_from(type_name(tensor->type, text)),
            .file = file,
            .bytes = bytes,
        };
        return index_add_unsupported(index, &entry, err);
    }
    struct tensor entry = {
        .name = tensor->name,
        .dtype = dtype,
        .dims = tensor->dims,
        .file = file,
        .offset = place->begin,
        .bytes = bytes,
    };
    memcpy(entry.shape, tensor->shape, sizeof entry.shape);
    return index_add(index, &entry, err);
}

/* Enters file, which is the index's from now on, and the tensors of its header. */
static enum status add_part(struct index *index, struct file *file,
                            const struct gguf_header *header, struct error *err) {
    uint32_t number;
    TRY(index_add_file(index, file, &number, err));
    struct place *places = mem_new(header->tensor_count, sizeof *places);
    if (!places)
        return error_memory(err, header->tensor_count * sizeof *places, "a list of tensors");
    enum status status = find_places(file, header, places, err);
    for (size_t i = 0; status == SL_OK && i < header->tensor_count; i++)
        status = add_tensor(index, number, &header->tensors[places[i].tensor], &places[i], err);
    mem_free(places);
    return status;
}

/* Opens the file at path and reads its header. */
static enum status open_part(const char *path, bool wants_tensors, struct file **file,
                             struct gguf_header *header, struct meta *meta, struct error *err) {
    struct file *opened;
    TRY(file_open(path, wants_tensors, &opened, err));
    enum status status = gguf_header_read(opened, wants_tensors, header, meta, err);
    if (status != SL_OK) {
        file_close(opened);
        return status;
    }
    *file = opened;
    return SL_OK;
}

/* What a file says about the set that it is part of; a file without the keys is part 0 of 1. */
struct split {
    int64_t part, parts;
    int64_t tensors; /* of all parts; -1 when not told */
};

static enum status split_read(const char *path, const struct meta *meta, struct split *split,
                              struct error *err) {
    *split = (struct split){0, 1, -1};
    struct {
        const char *key;
        int64_t *value, max;
    } fields[] = {
        {"split.no", &split->part, SL_SHARDS_MAX - 1},
        {"split.count", &split->parts, SL_SHARDS_MAX},
        {"split.tensors.count", &split->tensors, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!meta_find(meta, fields[i].key))
            continue;
        if (!meta_integer(meta, fields[i].key, fields[i].value))
            return error_set(err, SL_ERR_ENV, "%s: %s is no integer", path, fields[i].key);
        if (*fields[i].value < 0 || *fields[i].value > fields[i].max)
            return error_set(err, SL_ERR_ENV, "%s: %s is %lld, which is out of range", path,
                             fields[i].key, (long long)*fields[i].value);
    }
    if (split->parts == 0)
        split->parts = 1;
    return SL_OK;
}

/* "-00001-of-00003.gguf" */
static struct str part_suffix(char text[48], int64_t part, int64_t parts) {
    int len = snprintf(text, 48, "-%05lld-of-%05lld.gguf", (long long)part + 1, (long long)parts);
    return (struct str){text, (size_t)len};
}

/* Part number `part` of the set whose first part is at path[0, stem_len) + suffix. */
static enum status add_later_part(struct index *index, struct str stem, int64_t part,
                                  const struct split *first, struct error *err) {
    struct meta meta;
    struct gguf_header header = {0};
    struct file *file = NULL;
    struct split split;
    struct buf path;
    char suffix[48];
    meta_init(&meta);
    buf_init(&path);
    buf_add(&path, stem);
    buf_add(&path, part_suffix(suffix, part, first->parts));
    enum status status = buf_status(&path, "a path", err);
    if (status == SL_OK && !file_exists(path.data))
        status = error_set(err, SL_ERR_ENV, "%s: not found: part %lld of the %lld of this model",
                           path.data, (long long)part + 1, (long long)first->parts);
    if (status != SL_OK ||
        (status = open_part(path.data, true, &file, &header, &meta, err)) != SL_OK)
        goto out;
    status = split_read(path.data, &meta, &split, err);
    if (status == SL_OK && (split.part != part || split.parts != first->parts))
        status =
            error_set(err, SL_ERR_ENV, "%s: says it is part %lld of %lld, expected %lld of %lld",
                      path.data, (long long)split.part + 1, (long long)split.parts,
                      (long long)part + 1, (long long)first->parts);
    if (status == SL_OK) {
        status = add_part(index, file, &header, err);
        file = NULL;
    }
out:
    file_close(file);
    gguf_header_release(&header);
    buf_release(&path);
    meta_release(&meta);
    return status;
}

/* That path names the first part of a set as its metadata has it; *stem is what its parts' names
 * have in common. */
static enum status check_first(const char *path, const struct split *split, struct str *stem,
                               struct error *err) {
    char suffix[48];
    struct str name = str_from(path);
    part_suffix(suffix, 0, split->parts);
    if (split->part != 0)
        return error_set(err, SL_ERR_ENV,
                         "%s: is part %lld of %lld; the model is its first part, which ends in %s",
                         path, (long long)split->part + 1, (long long)split->parts, suffix);
    if (split->parts > 1 && !str_ends(name, str_from(suffix)))
        return error_set(err, SL_ERR_ENV,
                         "%s: is the first of %lld parts, so its name must end in %s", path,
                         (long long)split->parts, suffix);
    *stem = split->parts > 1 ? str_cut(name, 0, name.len - strlen(suffix)) : name;
    return SL_OK;
}

static enum status gguf_open(const char *path, bool wants_tensors, struct index *index,
                             struct meta *meta, struct error *err) {
    struct file *file;
    struct gguf_header header;
    struct split split;
    struct str stem;
    TRY(open_part(path, wants_tensors, &file, &header, meta, err));
    enum status status = split_read(path, meta, &split, err);
    if (status == SL_OK)
        status = check_first(path, &split, &stem, err);
    if (status == SL_OK && wants_tensors) {
        status = add_part(index, file, &header, err);
        file = NULL;
        for (int64_t part = 1; status == SL_OK && part < split.parts; part++)
            status = add_later_part(index, stem, part, &split, err);
        size_t count = index->count + index->unsupported_count;
        if (status == SL_OK && split.tensors >= 0 && count != (size_t)split.tensors)
            status = error_set(err, SL_ERR_ENV,
                               "%s: says that its parts have %lld tensors, they "
                               "have %zu",
                               path, (long long)split.tensors, count);
    }
    gguf_header_release(&header);
    file_close(file);
    return status;
}

const struct container container_gguf = {
    .name = "gguf",
    .matches = gguf_matches,
    .open = gguf_open,
};
