/* The index: a list of tensors with a map by name, and the files that they lie in. It owns names
 * and files, and it is the last check before a place in a file is believed: whatever a container
 * says, a tensor in the index has the bytes that its type and shape ask for, inside its file.
 *
 * The map holds numbers of both lists; the top bit marks one of the unsupported. */
#include "weights/index.h"

#include <string.h>

#define UNSUPPORTED_BIT 0x80000000u
#define TENSORS_MAX 0x7FFFFFFFu /* of either list */

void index_init(struct index *index) {
    *index = (struct index){0};
    arena_init(&index->arena);
    map_init(&index->by_name);
}

void index_release(struct index *index) {
    for (size_t i = 0; i < index->file_count; i++)
        file_close(index->files[i]);
    mem_free(index->files);
    mem_free(index->unsupported);
    mem_free(index->tensors);
    map_release(&index->by_name);
    arena_release(&index->arena);
    *index = (struct index){0};
}

enum status index_add_file(struct index *index, struct file *file, uint32_t *number,
                           struct error *err) {
    size_t place = index->file_count;
    must(place < UINT32_MAX);
    if (!mem_grow((void **)&index->files, &index->file_cap, place + 1, sizeof(struct file *))) {
        file_close(file);
        return error_memory(err, (place + 1) * sizeof(struct file *), "the list of files");
    }
    index->files[place] = file;
    index->file_count++;
    *number = (uint32_t)place;
    return SL_OK;
}

/* Bytes that type and shape ask for; false on overflow or rows that are not whole blocks. */
static bool bytes_wanted(const struct tensor *tensor, uint64_t *out) {
    uint64_t rows = 1, row_bytes;
    for (uint32_t i = 0; i + 1 < tensor->dims; i++)
        if (__builtin_mul_overflow(rows, tensor->shape[i], &rows))
            return false;
    uint64_t columns = tensor->dims > 0 ? tensor->shape[tensor->dims - 1] : 1;
    return dtype_row_bytes(tensor->dtype, columns, &row_bytes) &&
           !__builtin_mul_overflow(rows, row_bytes, out);
}

static enum status check_place(const struct file *file, const struct tensor *tensor,
                               struct error *err) {
    uint64_t wanted, end;
    if (!bytes_wanted(tensor, &wanted))
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has a shape that does not go with its type %s",
                         file->path, STR_ARG(tensor->name), dtype_get(tensor->dtype)->name);
    if (wanted != tensor->bytes)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has %llu bytes, its type and shape ask for %llu",
                         file->path, STR_ARG(tensor->name), (unsigned long long)tensor->bytes,
                         (unsigned long long)wanted);
    if (__builtin_add_overflow(tensor->offset, tensor->bytes, &end) || end > file->bytes)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has %llu bytes from byte %llu on, the file has only "
                         "%llu bytes",
                         file->path, STR_ARG(tensor->name), (unsigned long long)tensor->bytes,
                         (unsigned long long)tensor->offset, (unsigned long long)file->bytes);
    return SL_OK;
}

static uint32_t file_of(const struct index *index, uint32_t value) {
    return value & UNSUPPORTED_BIT ? index->unsupported[value & ~UNSUPPORTED_BIT].file
                                   : index->tensors[value].file;
}

/* Enters a copy of *name, which becomes that copy, as the key of value. */
static enum status claim_name(struct index *index, struct str *name, uint32_t file, uint32_t value,
                              struct error *err) {
    const char *path = index->files[file]->path;
    uint32_t old;
    bool was_there;
    if (map_get(&index->by_name, *name, &old)) {
        uint32_t other = file_of(index, old);
        if (other == file)
            return error_set(err, SL_ERR_ENV, "%s: tensor \"%.*s\" appears twice", path,
                             STR_ARG(*name));
        return error_set(err, SL_ERR_ENV, "%s: tensor \"%.*s\" is in %s as well", path,
                         STR_ARG(*name), index->files[other]->path);
    }
    char *copy = arena_take(&index->arena, name->len);
    if (!copy)
        return error_memory(err, name->len, "a tensor's name");
    if (name->len > 0)
        memcpy(copy, name->data, name->len);
    *name = (struct str){copy, name->len};
    if (!map_put(&index->by_name, *name, value, &old, &was_there))
        return error_memory(err, name->len, "the map of tensor names");
    return SL_OK;
}

enum status index_add(struct index *index, const struct tensor *tensor, struct error *err) {
    must(tensor->file < index->file_count);
    must(tensor->dims <= SL_TENSOR_DIMS);
    must(index->count < TENSORS_MAX);
    TRY(check_place(index->files[tensor->file], tensor, err));
    if (!mem_grow((void **)&index->tensors, &index->cap, index->count + 1, sizeof *tensor))
        return error_memory(err, (index->count + 1) * sizeof *tensor, "the list of tensors");
    struct tensor entry = *tensor;
    TRY(claim_name(index, &entry.name, entry.file, (uint32_t)index->count, err));
    index->tensors[index->count++] = entry;
    return SL_OK;
}

enum status index_add_unsupported(struct index *index, const struct tensor_unsupported *tensor,
                                  struct error *err) {
    must(tensor->file < index->file_count);
    must(index->unsupported_count < TENSORS_MAX);
    size_t place = index->unsupported_count;
    if (!mem_grow((void **)&index->unsupported, &index->unsupported_cap, place + 1, sizeof *tensor))
        return error_memory(err, (place + 1) * sizeof *tensor, "the list of tensors");
    struct tensor_unsupported entry = *tensor;
    char *type = arena_take(&index->arena, entry.type.len);
    if (!type)
        return error_memory(err, entry.type.len, "a tensor's type");
    if (entry.type.len > 0)
        memcpy(type, entry.type.data, entry.type.len);
    entry.type.data = type;
    TRY(claim_name(index, &entry.name, entry.file, (uint32_t)place | UNSUPPORTED_BIT, err));
    index->unsupported[index->unsupported_count++] = entry;
    return SL_OK;
}

const struct tensor *index_find(const struct index *index, struct str name) {
    uint32_t value;
    if (!map_get(&index->by_name, name, &value) || value & UNSUPPORTED_BIT)
        return NULL;
    return &index->tensors[value];
}

const struct tensor_unsupported *index_unsupported_find(const struct index *index,
                                                        struct str name) {
    uint32_t value;
    if (!map_get(&index->by_name, name, &value) || !(value & UNSUPPORTED_BIT))
        return NULL;
    return &index->unsupported[value & ~UNSUPPORTED_BIT];
}
