/* The safetensors container: a folder as published. Rules of the format as the safetensors project
 * states them (README "Format") and its reader enforces:
 *
 *   header length u64, little-endian | JSON header, padded with spaces | tensor data
 *   {"NAME": {"dtype": "BF16", "shape": [4, 2], "data_offsets": [0, 16]}, "__metadata__": {..}}
 *
 * Offsets count from the end of the header. Sorted by offset the tensors tile the data exactly: no
 * holes, no overlaps, nothing behind the last; so the header says how long the file is, and a file
 * that was cut anywhere is refused before the first token. Each tensor has the bytes that its type
 * and shape ask for. In a set of shards each tensor is in one file, the one that the set's
 * index names. Shards are files beside the index: a name with a path in it is refused. */
#include "weights/container.h"

#include "base/json.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME "model.safetensors.index.json"
/* A header is read member by member and never as one tree; so many values one may have: a shape and
 * two offsets, or the texts of __metadata__. */
#define MEMBER_VALUES_MAX 65536u

/* A tensor as its header entry has it. */
struct entry {
    struct str name, type;
    uint32_t dims;                  /* may be more than SL_TENSOR_DIMS */
    uint64_t shape[SL_TENSOR_DIMS]; /* its first ones */
    uint64_t begin, end;            /* from the end of the header */
};

/* One file while its header is read. */
struct shard {
    const struct file *file;
    uint64_t data_offset;
    struct arena arena; /* of texts that are not in the header as they are */
    char *header;
    size_t header_len;
    struct entry *entries;
    size_t count, cap;
    bool has_metadata;
};

/* Reads the header's text into shard->header. */
static enum status read_header(struct shard *shard, struct str *text, struct error *err) {
    const struct file *file = shard->file;
    uint64_t len;
    if (file->bytes < sizeof len)
        return error_set(err, SL_ERR_ENV, "%s: is %llu bytes, too short for a safetensors file",
                         file->path, (unsigned long long)file->bytes);
    TRY(file_read_at(file, 0, &len, sizeof len, err));
    if (len > SL_SAFETENSORS_HEADER_MAX)
        return error_set(err, SL_ERR_ENV,
                         "%s: its first 8 bytes give a header of %llu bytes, more than %zu",
                         file->path, (unsigned long long)len, SL_SAFETENSORS_HEADER_MAX);
    if (len > file->bytes - sizeof len)
        return error_set(err, SL_ERR_ENV, "%s: is %llu bytes, its header alone needs %llu",
                         file->path, (unsigned long long)file->bytes,
                         (unsigned long long)(len + sizeof len));
    shard->data_offset = len + sizeof len;
    shard->header = mem_new((size_t)len, 1);
    if (!shard->header)
        return error_memory(err, (size_t)len, "a safetensors header");
    TRY(file_read_at(file, sizeof len, shard->header, (size_t)len, err));
    shard->header_len = (size_t)len;
    *text = (struct str){shard->header, (size_t)len};
    if (len == 0 || text->data[0] != '{')
        return error_set(err, SL_ERR_ENV, "%s: its header does not begin with '{'", file->path);
    return SL_OK;
}

/* Turns an error of the JSON reader into one of the model at path. */
static enum status fail_json(struct error *err, const char *path, const char *what) {
    if (err)
        err->status = SL_ERR_ENV;
    return error_prefix(err, "%s: %s", path, what);
}

static enum status fail_entry(const struct shard *shard, struct str name, const char *what,
                              struct error *err) {
    return error_set(err, SL_ERR_ENV, "%s: tensor \"%.*s\" %s", shard->file->path, STR_ARG(name),
                     what);
}

/* Values of the shape, checked. */
static enum status read_shape(const struct shard *shard, const struct json *shape,
                              struct entry *entry, uint64_t *values, struct error *err) {
    if (!json_is(shape, JSON_ARRAY))
        return fail_entry(shard, entry->name, "has no shape that is a list", err);
    *values = 1;
    entry->dims = shape->count;
    for (uint32_t i = 0; i < shape->count; i++) {
        uint64_t length;
        if (!json_u64(&shape->items[i], &length))
            return fail_entry(shard, entry->name,
                              "has a shape with something else than whole numbers", err);
        if (__builtin_mul_overflow(*values, length, values))
            return fail_entry(shard, entry->name, "has a shape that overflows", err);
        if (i < SL_TENSOR_DIMS)
            entry->shape[i] = length;
    }
    return SL_OK;
}

/* That begin to end is what type and shape ask for. */
static enum status check_bytes(const struct shard *shard, const struct entry *entry,
                               uint64_t values, struct error *err) {
    uint32_t value_bits;
    uint64_t bits;
    const char *path = shard->file->path;
    if (!dtype_safetensors_bits(entry->type, &value_bits))
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has the type \"%.*s\", which is not known", path,
                         STR_ARG(entry->name), STR_ARG(entry->type));
    if (__builtin_mul_overflow(values, (uint64_t)value_bits, &bits))
        return fail_entry(shard, entry->name, "has a shape that overflows", err);
    if (bits % 8 != 0)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has %llu values of type %.*s, which are no whole "
                         "bytes",
                         path, STR_ARG(entry->name), (unsigned long long)values,
                         STR_ARG(entry->type));
    if (entry->end < entry->begin)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has data_offsets [%llu, %llu], which are reversed",
                         path, STR_ARG(entry->name), (unsigned long long)entry->begin,
                         (unsigned long long)entry->end);
    if (entry->end - entry->begin != bits / 8)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has %llu bytes by its data_offsets, its type and "
                         "shape ask for %llu",
                         path, STR_ARG(entry->name),
                         (unsigned long long)(entry->end - entry->begin),
                         (unsigned long long)(bits / 8));
    return SL_OK;
}

static enum status read_entry(const struct shard *shard, const struct json_member *member,
                              struct entry *entry, struct error *err) {
    *entry = (struct entry){.name = member->name};
    const struct json *offsets = json_get(&member->value, "data_offsets");
    uint64_t values = 0;
    if (!json_is(&member->value, JSON_OBJECT))
        return fail_entry(shard, entry->name, "is no object in the header", err);
    if (!json_string(json_get(&member->value, "dtype"), &entry->type))
        return fail_entry(shard, entry->name, "has no dtype that is a text", err);
    TRY(read_shape(shard, json_get(&member->value, "shape"), entry, &values, err));
    if (!json_is(offsets, JSON_ARRAY) || offsets->count != 2)
        return fail_entry(shard, entry->name, "has no data_offsets that are two numbers", err);
    if (!json_u64(&offsets->items[0], &entry->begin) || !json_u64(&offsets->items[1], &entry->end))
        return fail_entry(shard, entry->name,
                          "has data_offsets with something else than whole numbers", err);
    return check_bytes(shard, entry, values, err);
}

static enum status check_metadata(const struct shard *shard, const struct json *metadata,
                                  struct error *err) {
    if (!json_is(metadata, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "%s: its __metadata__ is no object", shard->file->path);
    for (uint32_t i = 0; i < metadata->count; i++)
        if (!json_is(&metadata->members[i].value, JSON_STRING))
            return error_set(err, SL_ERR_ENV, "%s: its __metadata__ has \"%.*s\" that is no text",
                             shard->file->path, STR_ARG(metadata->members[i].name));
    return SL_OK;
}

static int compare_entries(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* Sorts the entries and checks that they tile the data, and the data the file. */
static enum status check_tiling(struct shard *shard, struct error *err) {
    const struct file *file = shard->file;
    uint64_t at = 0, wanted;
    if (shard->count > 0)
        qsort(shard->entries, shard->count, sizeof *shard->entries, compare_entries);
    for (size_t i = 0; i < shard->count; i++) {
        const struct entry *entry = &shard->entries[i];
        if (i > 0 && str_equal(entry->name, entry[-1].name))
            return fail_entry(shard, entry->name, "appears twice", err);
        if (entry->begin != at)
            return error_set(err, SL_ERR_ENV,
                             "%s: tensor \"%.*s\" begins at %llu of the data, %s at %llu",
                             file->path, STR_ARG(entry->name), (unsigned long long)entry->begin,
                             entry->begin < at ? "inside the one before it, which ends"
                                               : "behind a hole, the one before it ends",
                             (unsigned long long)at);
        at = entry->end;
    }
    if (__builtin_add_overflow(shard->data_offset, at, &wanted))
        wanted = UINT64_MAX;
    if (wanted != file->bytes)
        return error_set(err, SL_ERR_ENV, "%s: is %llu bytes, its header says %llu", file->path,
                         (unsigned long long)file->bytes, (unsigned long long)wanted);
    return SL_OK;
}

/* A text of the member that is being read, to be kept: those with escapes are not in the header. */
static enum status keep_text(struct shard *shard, struct str *text, struct error *err) {
    uintptr_t at = (uintptr_t)text->data, begin = (uintptr_t)shard->header;
    if (text->len == 0 || (at >= begin && at - begin < shard->header_len))
        return SL_OK;
    char *copy = arena_take(&shard->arena, text->len);
    if (!copy)
        return error_memory(err, text->len, "a tensor's name");
    memcpy(copy, text->data, text->len);
    text->data = copy;
    return SL_OK;
}

/* One member of the header. */
static enum status take_member(void *ctx, const struct json_member *member, struct error *err) {
    struct shard *shard = ctx;
    struct entry entry;
    if (str_is(member->name, "__metadata__")) {
        if (shard->has_metadata)
            return error_set(err, SL_ERR_ENV, "%s: has __metadata__ twice", shard->file->path);
        shard->has_metadata = true;
        return check_metadata(shard, &member->value, err);
    }
    if (shard->count >= SL_SAFETENSORS_TENSORS_MAX)
        return error_set(err, SL_ERR_ENV, "%s: has more than %u tensors", shard->file->path,
                         SL_SAFETENSORS_TENSORS_MAX);
    TRY(read_entry(shard, member, &entry, err));
    TRY(keep_text(shard, &entry.name, err));
    TRY(keep_text(shard, &entry.type, err));
    if (!mem_grow((void **)&shard->entries, &shard->cap, shard->count + 1, sizeof entry))
        return error_memory(err, (shard->count + 1) * sizeof entry, "a list of tensors");
    shard->entries[shard->count++] = entry;
    return SL_OK;
}

/* Reads and checks all of the header: shard->entries, in the order of the data. */
static enum status read_entries(struct shard *shard, struct error *err) {
    struct str text;
    struct json_options options = {
        .depth_max = 8, .refuses_duplicates = true, .values_max = MEMBER_VALUES_MAX};
    struct json_each each = {take_member, shard};
    struct arena arena;
    TRY(read_header(shard, &text, err));
    arena_init(&arena);
    enum status status = json_parse_each(&arena, text, &options, &each, err);
    arena_release(&arena);
    if (status != SL_OK) /* the JSON reader's own errors are of another kind, and name no file */
        return status == SL_ERR_INPUT ? fail_json(err, shard->file->path, "its header is damaged")
                                      : status;
    return check_tiling(shard, err);
}

static enum status add_entry(const struct shard *shard, const struct entry *entry, uint32_t file,
                             struct index *index, struct error *err) {
    enum dtype dtype;
    uint64_t bytes = entry->end - entry->begin;
    struct buf type;
    if (entry->dims <= SL_TENSOR_DIMS && dtype_from_safetensors(entry->type, &dtype)) {
        struct tensor tensor = {
            .name = entry->name,
            .dtype = dtype,
            .dims = entry->dims,
            .file = file,
            .offset = shard->data_offset + entry->begin,
            .bytes = bytes,
        };
        memcpy(tensor.shape, entry->shape, sizeof tensor.shape);
        return index_add(index, &tensor, err);
    }
    buf_init(&type);
    buf_add(&type, entry->type);
    if (entry->dims > SL_TENSOR_DIMS)
        buf_printf(&type, " with %u dimensions", entry->dims);
    enum status status = buf_status(&type, "a tensor's type", err);
    struct tensor_unsupported tensor = {entry->name, buf_str(&type), file, bytes};
    if (status == SL_OK)
        status = index_add_unsupported(index, &tensor, err);
    buf_release(&type);
    return status;
}

/* Opens the file at path and enters it and its tensors. */
static enum status add_shard(struct index *index, const char *path, struct error *err) {
    struct file *file;
    struct shard shard = {0};
    uint32_t number;
    TRY(file_open(path, true, &file, err));
    TRY(index_add_file(index, file, &number, err));
    shard.file = file;
    arena_init(&shard.arena);
    enum status status = read_entries(&shard, err);
    for (size_t i = 0; status == SL_OK && i < shard.count; i++)
        status = add_entry(&shard, &shard.entries[i], number, index, err);
    arena_release(&shard.arena);
    mem_free(shard.entries);
    mem_free(shard.header);
    return status;
}

/* "FOLDER/NAME" into path, emptied first. */
static enum status join(struct buf *path, const char *folder, struct str name, struct error *err) {
    buf_clear(path);
    buf_add(path, str_from(folder));
    buf_add_char(path, '/');
    buf_add(path, name);
    return buf_status(path, "a path", err);
}

/* An index file while its set is opened. */
struct set {
    const char *folder;
    struct buf path;  /* of the index file */
    struct buf other; /* of a shard */
    struct buf text;
    struct arena arena;
    const struct json *weight_map;
    uint32_t *shard_of; /* for each member of weight_map, the number of its shard */
    struct map shards;  /* names to numbers, in the order in which they are first named */
    struct str *names;  /* by number */
};

static enum status read_weight_map(struct set *set, struct error *err) {
    const struct json *root;
    struct json_options options = {
        .depth_max = 8, .refuses_duplicates = true, .values_max = SL_SAFETENSORS_TENSORS_MAX};
    TRY(join(&set->path, set->folder, STR(INDEX_NAME), err));
    TRY(file_read_all(set->path.data, SL_SAFETENSORS_HEADER_MAX, &set->text, err));
    if (json_parse(&set->arena, buf_str(&set->text), &options, &root, err) != SL_OK)
        return fail_json(err, set->path.data, "is damaged");
    set->weight_map = json_get(root, "weight_map");
    if (!json_is(set->weight_map, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "%s: has no weight_map that is an object",
                         set->path.data);
    if (set->weight_map->count == 0)
        return error_set(err, SL_ERR_ENV, "%s: its weight_map is empty", set->path.data);
    return SL_OK;
}

/* A plain file name: shards lie beside the index and nowhere else. */
static bool is_plain_name(struct str name) {
    return name.len > 0 && name.len <= NAME_MAX && !memchr(name.data, '/', name.len) &&
           !memchr(name.data, '\0', name.len) && !str_is(name, ".") && !str_is(name, "..");
}

/* Numbers the shards that the weight map names. */
static enum status number_shards(struct set *set, struct error *err) {
    const struct json *map = set->weight_map;
    set->shard_of = arena_array(&set->arena, map->count, sizeof *set->shard_of);
    set->names = arena_array(&set->arena, SL_SHARDS_MAX, sizeof *set->names);
    if (!set->shard_of || !set->names)
        return error_memory(err, map->count * sizeof *set->shard_of, "a list of shards");
    for (uint32_t i = 0; i < map->count; i++) {
        struct str name;
        uint32_t number = (uint32_t)set->shards.count;
        if (!json_string(&map->members[i].value, &name) || !is_plain_name(name))
            return error_set(err, SL_ERR_ENV,
                             "%s: what it names for tensor \"%.*s\" is not the name of a file "
                             "beside it",
                             set->path.data, STR_ARG(map->members[i].name));
        if (!map_get(&set->shards, name, &number)) {
            if (number >= SL_SHARDS_MAX)
                return error_set(err, SL_ERR_ENV, "%s: names more than %u files", set->path.data,
                                 SL_SHARDS_MAX);
            if (!map_put(&set->shards, name, number, NULL, NULL))
                return error_memory(err, name.len, "a list of shards");
            set->names[number] = name;
        }
        set->shard_of[i] = number;
    }
    return SL_OK;
}

/* That each tensor is in the file that the weight map names for it. */
static enum status check_weight_map(const struct set *set, const struct index *index,
                                    struct error *err) {
    for (uint32_t i = 0; i < set->weight_map->count; i++) {
        struct str name = set->weight_map->members[i].name;
        const struct tensor *tensor = index_find(index, name);
        const struct tensor_unsupported *other = index_unsupported_find(index, name);
        if ((tensor && tensor->file == set->shard_of[i]) ||
            (other && other->file == set->shard_of[i]))
            continue;
        return error_set(err, SL_ERR_ENV,
                         "%s: says that tensor \"%.*s\" is in %.*s, which does not "
                         "have it",
                         set->path.data, STR_ARG(name), STR_ARG(set->names[set->shard_of[i]]));
    }
    return SL_OK;
}

static enum status add_set(struct set *set, struct index *index, struct error *err) {
    TRY(read_weight_map(set, err));
    TRY(number_shards(set, err));
    for (uint32_t i = 0; i < set->shards.count; i++) {
        TRY(join(&set->other, set->folder, set->names[i], err));
        if (!file_exists(set->other.data))
            return error_set(err, SL_ERR_ENV, "%s: not found, but %s names it", set->other.data,
                             INDEX_NAME);
        must(index->file_count == i); /* so files have the numbers of their shards */
        TRY(add_shard(index, set->other.data, err));
    }
    return check_weight_map(set, index, err);
}

static enum status open_set(const char *folder, struct index *index, struct error *err) {
    struct set set = {.folder = folder};
    buf_init(&set.path);
    buf_init(&set.other);
    buf_init(&set.text);
    arena_init(&set.arena);
    map_init(&set.shards);
    enum status status = add_set(&set, index, err);
    map_release(&set.shards);
    arena_release(&set.arena);
    buf_release(&set.text);
    buf_release(&set.other);
    buf_release(&set.path);
    return status;
}

/* What a folder without the usual names has. */
struct found {
    size_t count; /* of .safetensors files */
    char safetensors[NAME_MAX + 1], gguf[NAME_MAX + 1];
    bool has_pytorch;
};

static void copy_name(char to[NAME_MAX + 1], const char *name) {
    size_t len = strnlen(name, NAME_MAX);
    memcpy(to, name, len);
    to[len] = '\0';
}

static enum status scan(const char *folder, struct found *found, struct error *err) {
    *found = (struct found){0};
    DIR *dir = opendir(folder);
    if (!dir) {
        char reason[128];
        return error_set(err, SL_ERR_ENV, "%s: cannot be listed: %s", folder,
                         strerror_r(errno, reason, sizeof reason));
    }
    for (struct dirent *item; (item = readdir(dir)) != NULL;) {
        struct str name = str_from(item->d_name);
        if (str_ends(name, STR(".safetensors")) && name.data[0] != '.') {
            copy_name(found->safetensors, item->d_name);
            found->count++;
        } else if (str_ends(name, STR(".gguf"))) {
            copy_name(found->gguf, item->d_name);
        } else if (str_ends(name, STR(".bin")) || str_ends(name, STR(".pth"))) {
            found->has_pytorch = true;
        }
    }
    closedir(dir);
    return SL_OK;
}

/* True for "NAME-00001-of-00003.safetensors": a lone shard is not a model. */
static bool is_shard_of_many(struct str name) {
    size_t at = str_find(name, STR("-of-"), 0);
    uint64_t parts;
    if (at == SIZE_MAX)
        return false;
    size_t end = str_find(name, STR("."), at);
    return str_to_u64(str_cut(name, at + 4, end), &parts) && parts > 1;
}

/* Neither of the usual names is there: a single file with another name serves as well. */
static enum status open_other(const char *folder, struct buf *path, struct index *index,
                              struct error *err) {
    struct found found;
    TRY(scan(folder, &found, err));
    if (found.count == 1 && !is_shard_of_many(str_from(found.safetensors))) {
        TRY(join(path, folder, str_from(found.safetensors), err));
        return add_shard(index, path->data, err);
    }
    if (found.count > 0)
        return error_set(err, SL_ERR_ENV,
                         "%s: has %s%s, but neither " SINGLE_NAME " nor " INDEX_NAME, folder,
                         found.safetensors, found.count > 1 ? " and others" : "");
    if (found.gguf[0])
        return error_set(err, SL_ERR_ENV, "%s: has no safetensors files; to use %s, name that file",
                         folder, found.gguf);
    return error_set(err, SL_ERR_ENV,
                     "%s: has no weights: neither " SINGLE_NAME " nor " INDEX_NAME " is there%s",
                     folder, found.has_pytorch ? ", and PyTorch's own files are not read" : "");
}

static enum status safetensors_open(const char *path, bool wants_tensors, struct index *index,
                                    struct meta *meta, struct error *err) {
    (void)meta; /* a folder has its settings in other files */
    if (!wants_tensors)
        return SL_OK;
    struct buf name;
    buf_init(&name);
    enum status status = join(&name, path, STR(SINGLE_NAME), err);
    bool is_single = status == SL_OK && file_exists(name.data);
    if (is_single)
        status = add_shard(index, name.data, err);
    else if (status == SL_OK && (status = join(&name, path, STR(INDEX_NAME), err)) == SL_OK)
        status = file_exists(name.data) ? open_set(path, index, err)
                                        : open_other(path, &name, index, err);
    buf_release(&name);
    return status;
}

static bool safetensors_matches(const char *path) {
    return file_is_folder(path);
}

const struct container container_safetensors = {
    .name = "safetensors",
    .matches = safetensors_matches,
    .open = safetensors_open,
};
