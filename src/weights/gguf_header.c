/* Reads GGUF headers, versions 2 and 3, little-endian (ggml's docs/gguf.md):
 *
 *   "GGUF" | version u32 | tensors u64 | keys u64
 *   keys times:    key text | type u32 | value
 *   tensors times: name text | dims u32 | dims x u64 | type u32 | offset u64
 *   padding to the alignment, then tensor data
 *
 * A text is a u64 length and its bytes; an array is an item type u32, a count u64 and the items.
 *
 * It trusts nothing: a count is held against the bytes that are left before anything is allocated
 * for it, so that a file can make us use no more than a few times its own size, and the limits of
 * container.h hold besides. What it refuses: other versions and byte orders, arrays of arrays,
 * integers beyond int64, keys that appear twice. It does not judge types and places of tensors. */
#include "weights/gguf_header.h"

#include "weights/container.h"

#include <stdio.h>
#include <string.h>

enum { WINDOW_BYTES = 256 << 10, POOL_BYTES = 64 << 10 };

/* Value types by their number in the file. */
enum { TYPE_STRING = 8, TYPE_ARRAY = 9, TYPE_COUNT = 13 };
static const struct value_type {
    const char *name;
    enum meta_kind kind;
    uint32_t bytes; /* of an item; of the smallest for texts */
    bool is_signed;
} value_types[TYPE_COUNT] = {
    {"u8", META_INTEGER, 1, false},    {"i8", META_INTEGER, 1, true},
    {"u16", META_INTEGER, 2, false},   {"i16", META_INTEGER, 2, true},
    {"u32", META_INTEGER, 4, false},   {"i32", META_INTEGER, 4, true},
    {"f32", META_REAL, 4, true},       {"bool", META_BOOL, 1, false},
    {"string", META_STRING, 8, false}, {"array", META_ARRAY, 12, false},
    {"u64", META_INTEGER, 8, false},   {"i64", META_INTEGER, 8, true},
    {"f64", META_REAL, 8, true},
};

/* A place in the file with a window of bytes that were read ahead. */
struct reader {
    const struct file *file;
    uint8_t *window;
    size_t at, len;      /* window[at, len) is not yet consumed */
    uint64_t offset;     /* in the file, of what follows the window */
    uint64_t end;        /* nothing is read from here on */
    uint64_t items_left; /* of SL_GGUF_ITEMS_MAX */
    const char *part;    /* for messages: "key" or "tensor"; NULL outside of these */
    struct str name;     /* of the key or tensor; empty while it is read */
    size_t number;       /* of the key or tensor, from 0 */
    struct arena *texts;
    char *pool; /* rest of a piece of texts, so that short texts do not pay for alignment */
    size_t pool_left;
};

static enum status fail(const struct reader *reader, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "FILE: [key "NAME" | key 7] ...". */
static enum status fail(const struct reader *reader, struct error *err, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *path = reader->file->path;
    if (!reader->part)
        return error_set(err, SL_ERR_ENV, "%s: %s", path, text);
    if (reader->name.len == 0)
        return error_set(err, SL_ERR_ENV, "%s: %s %zu %s", path, reader->part, reader->number + 1,
                         text);
    return error_set(err, SL_ERR_ENV, "%s: %s \"%.*s\" %s", path, reader->part,
                     STR_ARG(reader->name), text);
}

/* Bytes between the reader's place and the end. */
static uint64_t bytes_left(const struct reader *reader) {
    return reader->end - reader->offset + (reader->len - reader->at);
}

static enum status fail_short(const struct reader *reader, struct error *err) {
    const char *path = reader->file->path;
    if (reader->end < reader->file->bytes)
        return error_set(err, SL_ERR_ENV, "%s: its header is longer than %zu bytes", path,
                         SL_GGUF_HEADER_MAX);
    if (reader->part)
        return error_set(err, SL_ERR_ENV,
                         "%s: the file is cut: it has %llu bytes and ends within %s %zu of its "
                         "header",
                         path, (unsigned long long)reader->file->bytes, reader->part,
                         reader->number + 1);
    return error_set(err, SL_ERR_ENV, "%s: the file is cut: its %llu bytes hold no GGUF header",
                     path, (unsigned long long)reader->file->bytes);
}

/* The slow part of take: the window does not hold all that is wanted. */
static enum status take_beyond(struct reader *reader, uint8_t *into, size_t bytes,
                               struct error *err) {
    if (bytes > bytes_left(reader))
        return fail_short(reader, err);
    size_t held = reader->len - reader->at;
    memcpy(into, reader->window + reader->at, held);
    reader->at = reader->len = 0;
    into += held;
    bytes -= held;
    if (bytes >= WINDOW_BYTES) {
        TRY(file_read_at(reader->file, reader->offset, into, bytes, err));
        reader->offset += bytes;
        return SL_OK;
    }
    uint64_t rest = reader->end - reader->offset;
    size_t len = rest < WINDOW_BYTES ? (size_t)rest : WINDOW_BYTES;
    TRY(file_read_at(reader->file, reader->offset, reader->window, len, err));
    reader->offset += len;
    reader->len = len;
    must(bytes <= len);
    memcpy(into, reader->window, bytes);
    reader->at = bytes;
    return SL_OK;
}

static inline enum status take(struct reader *reader, void *into, size_t bytes, struct error *err) {
    if (bytes > reader->len - reader->at)
        return take_beyond(reader, into, bytes, err);
    memcpy(into, reader->window + reader->at, bytes);
    reader->at += bytes;
    return SL_OK;
}

static enum status take_u32(struct reader *reader, uint32_t *out, struct error *err) {
    return take(reader, out, sizeof *out, err);
}

static enum status take_u64(struct reader *reader, uint64_t *out, struct error *err) {
    return take(reader, out, sizeof *out, err);
}

/* bytes of the texts' arena, not aligned; NULL when memory is out. */
static char *text_memory(struct reader *reader, size_t bytes) {
    if (bytes > POOL_BYTES / 4)
        return arena_take(reader->texts, bytes);
    if (bytes > reader->pool_left) {
        reader->pool_left = 0;
        reader->pool = arena_take(reader->texts, POOL_BYTES);
        if (!reader->pool)
            return NULL;
        reader->pool_left = POOL_BYTES;
    }
    char *memory = reader->pool;
    if (memory) {
        reader->pool += bytes;
        reader->pool_left -= bytes;
    }
    return memory;
}

static enum status take_text(struct reader *reader, size_t limit, struct str *out,
                             struct error *err) {
    uint64_t len;
    TRY(take_u64(reader, &len, err));
    if (len > bytes_left(reader))
        return fail(reader, err, "has a text of %llu bytes, only %llu are left in the file",
                    (unsigned long long)len, (unsigned long long)bytes_left(reader));
    if (len > limit)
        return fail(reader, err, "has a text of %llu bytes, more than %zu", (unsigned long long)len,
                    limit);
    *out = (struct str){"", 0};
    if (len == 0)
        return SL_OK;
    char *memory = text_memory(reader, (size_t)len);
    if (!memory)
        return error_memory(err, (size_t)len, "a text of a GGUF header");
    TRY(take(reader, memory, (size_t)len, err));
    *out = (struct str){memory, (size_t)len};
    return SL_OK;
}

static enum status take_integer(struct reader *reader, const struct value_type *type, int64_t *out,
                                struct error *err) {
    uint64_t bits = 0;
    TRY(take(reader, &bits, type->bytes, err));
    unsigned unused = 64 - 8 * type->bytes;
    if (type->is_signed)
        bits = (uint64_t)((int64_t)(bits << unused) >> unused);
    else if (bits > INT64_MAX)
        return fail(reader, err, "has the value %llu, which is out of range",
                    (unsigned long long)bits);
    *out = (int64_t)bits;
    return SL_OK;
}

static enum status take_real(struct reader *reader, const struct value_type *type, double *out,
                             struct error *err) {
    if (type->bytes == sizeof *out)
        return take(reader, out, sizeof *out, err);
    float single;
    TRY(take(reader, &single, sizeof single, err));
    *out = (double)single;
    return SL_OK;
}

static enum status take_bool(struct reader *reader, bool *out, struct error *err) {
    uint8_t byte;
    TRY(take(reader, &byte, 1, err));
    if (byte > 1)
        return fail(reader, err, "has the bool value %u, which is neither 0 nor 1", byte);
    *out = byte == 1;
    return SL_OK;
}

static enum status take_type(struct reader *reader, uint32_t *out, struct error *err) {
    TRY(take_u32(reader, out, err));
    if (*out >= TYPE_COUNT)
        return fail(reader, err, "has the unknown value type %u", *out);
    return SL_OK;
}

/* The items of an array, whose memory stands in *value already. */
static enum status take_items(struct reader *reader, const struct value_type *type,
                              struct meta_value *value, struct error *err) {
    for (size_t i = 0; i < value->array.count; i++) {
        switch (type->kind) {
        case META_INTEGER:
            TRY(take_integer(reader, type, &value->array.integers[i], err));
            break;
        case META_REAL:
            TRY(take_real(reader, type, &value->array.reals[i], err));
            break;
        case META_BOOL:
            TRY(take_bool(reader, &value->array.truths[i], err));
            break;
        case META_STRING:
            TRY(take_text(reader, SL_GGUF_STRING_MAX, &value->array.texts[i], err));
            break;
        case META_ARRAY:
            must(false);
        }
    }
    return SL_OK;
}

static size_t item_size(enum meta_kind kind) {
    return kind == META_STRING ? sizeof(struct str)
           : kind == META_BOOL ? sizeof(bool)
           : kind == META_REAL ? sizeof(double)
                               : sizeof(int64_t);
}

static enum status take_array(struct reader *reader, struct meta_value *value, struct error *err) {
    uint32_t number;
    uint64_t count;
    TRY(take_type(reader, &number, err));
    TRY(take_u64(reader, &count, err));
    const struct value_type *type = &value_types[number];
    if (number == TYPE_ARRAY)
        return fail(reader, err, "is an array of arrays, which is not supported");
    if (count > bytes_left(reader) / type->bytes)
        return fail(reader, err, "has an array of %llu items, the %llu bytes left hold fewer",
                    (unsigned long long)count, (unsigned long long)bytes_left(reader));
    if (count > reader->items_left)
        return fail(reader, err, "has an array of %llu items; a file may have %u in all",
                    (unsigned long long)count, SL_GGUF_ITEMS_MAX);
    reader->items_left -= count;
    value->item_kind = type->kind;
    value->array.count = (size_t)count;
    void *items = arena_array(reader->texts, (size_t)count, item_size(type->kind));
    if (!items)
        return error_memory(err, (size_t)count * item_size(type->kind), "a GGUF array");
    value->array.integers = items; /* the members of this union are all pointers */
    return take_items(reader, type, value, err);
}

static enum status take_value(struct reader *reader, struct meta_value *value, struct error *err) {
    uint32_t number;
    TRY(take_type(reader, &number, err));
    const struct value_type *type = &value_types[number];
    *value = (struct meta_value){.kind = type->kind, .item_kind = type->kind};
    switch (type->kind) {
    case META_INTEGER:
        return take_integer(reader, type, &value->integer, err);
    case META_REAL:
        return take_real(reader, type, &value->real, err);
    case META_BOOL:
        return take_bool(reader, &value->truth, err);
    case META_STRING:
        return take_text(reader, SL_GGUF_STRING_MAX, &value->text, err);
    case META_ARRAY:
        return take_array(reader, value, err);
    }
    must(false);
    return SL_OK;
}

static enum status take_keys(struct reader *reader, uint64_t count, struct meta *meta,
                             struct error *err) {
    reader->part = "key";
    for (reader->number = 0; reader->number < count; reader->number++) {
        struct meta_value value;
        struct str key;
        reader->name = (struct str){0};
        TRY(take_text(reader, SL_GGUF_NAME_MAX, &key, err));
        reader->name = key;
        TRY(take_value(reader, &value, err));
        if (meta_add(meta, key, &value, err) != SL_OK)
            return error_prefix(err, "%s", reader->file->path);
    }
    reader->part = NULL;
    return SL_OK;
}

static enum status take_tensor(struct reader *reader, struct gguf_tensor *tensor,
                               struct error *err) {
    reader->name = (struct str){0};
    TRY(take_text(reader, SL_GGUF_NAME_MAX, &tensor->name, err));
    reader->name = tensor->name;
    TRY(take_u32(reader, &tensor->dims, err));
    if (tensor->dims < 1 || tensor->dims > SL_TENSOR_DIMS)
        return fail(reader, err, "has %u dimensions, not 1 to %d", tensor->dims, SL_TENSOR_DIMS);
    for (uint32_t i = tensor->dims; i-- > 0;)
        TRY(take_u64(reader, &tensor->shape[i], err));
    TRY(take_u32(reader, &tensor->type, err));
    return take_u64(reader, &tensor->offset, err);
}

/* Least bytes of a key (empty text, type, one byte) and of a tensor of one dimension. */
enum { KEY_BYTES_MIN = 8 + 4 + 1, TENSOR_BYTES_MIN = 8 + 4 + 8 + 4 + 8 };

static enum status take_counts(struct reader *reader, uint64_t *tensors, uint64_t *keys,
                               struct error *err) {
    char magic[4];
    uint32_t version;
    TRY(take(reader, magic, sizeof magic, err));
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        return fail(reader, err, "this is no GGUF file: it begins with \"%.4s\"", magic);
    TRY(take_u32(reader, &version, err));
    if ((version & 0xFFFFu) == 0 && version != 0)
        return fail(reader, err, "this is a big-endian GGUF file, which is not supported");
    if (version != 2 && version != 3)
        return fail(reader, err, "has GGUF version %u; 2 and 3 are supported", version);
    TRY(take_u64(reader, tensors, err));
    TRY(take_u64(reader, keys, err));
    uint64_t left = bytes_left(reader);
    if (*keys > SL_GGUF_KEYS_MAX || *keys > left / KEY_BYTES_MIN)
        return fail(reader, err, "its header says it has %llu keys, more than %s",
                    (unsigned long long)*keys,
                    *keys > SL_GGUF_KEYS_MAX ? "a file may have" : "the file has room for");
    if (*tensors > SL_GGUF_TENSORS_MAX || *tensors > left / TENSOR_BYTES_MIN)
        return fail(reader, err, "its header says it has %llu tensors, more than %s",
                    (unsigned long long)*tensors,
                    *tensors > SL_GGUF_TENSORS_MAX ? "a file may have" : "the file has room for");
    return SL_OK;
}

static enum status take_alignment(const struct reader *reader, const struct meta *meta,
                                  uint64_t *out, struct error *err) {
    int64_t alignment = 32;
    if (meta_find(meta, "general.alignment") &&
        !meta_integer(meta, "general.alignment", &alignment))
        return fail(reader, err, "general.alignment is no integer");
    if (alignment < 1 || alignment > UINT32_MAX || (alignment & (alignment - 1)) != 0)
        return fail(reader, err, "general.alignment is %lld, which is no power of two",
                    (long long)alignment);
    *out = (uint64_t)alignment;
    return SL_OK;
}

static enum status take_header(struct reader *reader, bool wants_tensors,
                               struct gguf_header *header, struct meta *meta, struct error *err) {
    uint64_t tensors, keys;
    TRY(take_counts(reader, &tensors, &keys, err));
    TRY(take_keys(reader, keys, meta, err));
    TRY(take_alignment(reader, meta, &header->alignment, err));
    if (!wants_tensors)
        return SL_OK;
    if (tensors > bytes_left(reader) / TENSOR_BYTES_MIN)
        return fail(reader, err,
                    "its header says it has %llu tensors, the %llu bytes left hold "
                    "fewer",
                    (unsigned long long)tensors, (unsigned long long)bytes_left(reader));
    reader->texts = &header->arena;
    reader->pool_left = 0;
    header->tensors = arena_array(&header->arena, (size_t)tensors, sizeof *header->tensors);
    if (!header->tensors)
        return error_memory(err, (size_t)tensors * sizeof *header->tensors, "a list of tensors");
    reader->part = "tensor";
    for (reader->number = 0; reader->number < tensors; reader->number++) {
        TRY(take_tensor(reader, &header->tensors[reader->number], err));
        header->tensor_count++;
    }
    reader->part = NULL;
    uint64_t at = reader->offset - (reader->len - reader->at);
    header->data_offset = (at + header->alignment - 1) & ~(header->alignment - 1);
    return SL_OK;
}

enum status gguf_header_read(const struct file *file, bool wants_tensors,
                             struct gguf_header *header, struct meta *meta, struct error *err) {
    *header = (struct gguf_header){0};
    arena_init(&header->arena);
    struct reader reader = {
        .file = file,
        .window = mem_new(1, WINDOW_BYTES),
        .end = file->bytes < SL_GGUF_HEADER_MAX ? file->bytes : SL_GGUF_HEADER_MAX,
        .items_left = SL_GGUF_ITEMS_MAX,
        .texts = &meta->arena,
    };
    if (!reader.window)
        return error_memory(err, WINDOW_BYTES, "reading a GGUF header");
    enum status status = take_header(&reader, wants_tensors, header, meta, err);
    mem_free(reader.window);
    if (status != SL_OK)
        gguf_header_release(header);
    return status;
}

void gguf_header_release(struct gguf_header *header) {
    arena_release(&header->arena);
    *header = (struct gguf_header){0};
}
