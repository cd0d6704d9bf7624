/* Owns what makes two jobs the same. Refuses to judge: it lists differences. Reads of a model's
 * weights what is needed to tell it from another one, a few MB at most, so that a job of hours is
 * not begun with an hour of reading. */
#include "job/fingerprint.h"

#include "io/file.h"
#include "model/model.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define WINDOW_BYTES ((size_t)256 << 10)
#define SAMPLE_BYTES ((size_t)4096)
#define SAMPLES 64u /* over all files of weights together; at least SAMPLES_LEAST of each */
#define SAMPLES_LEAST 4u
#define SMALL_BYTES_MAX ((size_t)256 << 20)
#define SHOWN_BYTES 80u /* of a value, in a message */

const char *const fingerprint_model_files[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "chat_template.jinja",
    "chat_template.json",
    "model.safetensors.index.json",
    "additional_chat_templates/tool_use.jinja",
    NULL,
};

void fingerprint_init(struct fingerprint *fingerprint) {
    *fingerprint = (struct fingerprint){0};
    arena_init(&fingerprint->arena);
}

void fingerprint_release(struct fingerprint *fingerprint) {
    mem_free(fingerprint->pairs);
    arena_release(&fingerprint->arena);
    fingerprint_init(fingerprint);
}

static bool keep(struct arena *arena, struct str *text) {
    char *copy = arena_take(arena, text->len + 1);
    if (copy == NULL)
        return false;
    if (text->len > 0)
        memcpy(copy, text->data, text->len);
    text->data = copy;
    return true;
}

enum status fingerprint_add(struct fingerprint *fingerprint, struct str name, struct str value,
                            struct error *err) {
    struct fingerprint_pair pair = {name, value};
    if (!keep(&fingerprint->arena, &pair.name) || !keep(&fingerprint->arena, &pair.value) ||
        !mem_grow((void **)&fingerprint->pairs, &fingerprint->cap, fingerprint->count + 1,
                  sizeof pair))
        return error_memory(err, name.len + value.len, "the fingerprint of the job");
    fingerprint->pairs[fingerprint->count++] = pair;
    return SL_OK;
}

const struct str *fingerprint_get(const struct fingerprint *fingerprint, struct str name) {
    for (size_t i = 0; i < fingerprint->count; i++) {
        if (str_equal(fingerprint->pairs[i].name, name))
            return &fingerprint->pairs[i].value;
    }
    return NULL;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

uint64_t fingerprint_hash(const struct fingerprint *fingerprint) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < fingerprint->count; i++) {
        hash = mix(hash, str_hash(fingerprint->pairs[i].name));
        hash = mix(hash, str_hash(fingerprint->pairs[i].value));
    }
    return hash;
}

static void add_shown(struct buf *out, const struct str *value) {
    if (value == NULL || value->len == 0)
        buf_add(out, STR("not there"));
    else if (value->len <= SHOWN_BYTES)
        buf_add(out, *value);
    else
        buf_printf(out, "%.*s.. (%zu bytes)", (int)SHOWN_BYTES, value->data, value->len);
}

static void add_difference(struct buf *out, struct str name, const struct str *was,
                           const struct str *is) {
    if (out->len > 0)
        buf_add(out, STR("; "));
    buf_add(out, name);
    buf_add(out, STR(" was "));
    add_shown(out, was);
    buf_add(out, STR(", is "));
    add_shown(out, is);
}

size_t fingerprint_compare(const struct fingerprint *was, const struct fingerprint *is,
                           struct buf *out) {
    size_t differences = 0;
    for (size_t i = 0; i < was->count; i++) {
        const struct fingerprint_pair *pair = &was->pairs[i];
        const struct str *now = fingerprint_get(is, pair->name);
        if (now != NULL && str_equal(pair->value, *now))
            continue;
        add_difference(out, pair->name, &pair->value, now);
        differences++;
    }
    for (size_t i = 0; i < is->count; i++) {
        if (fingerprint_get(was, is->pairs[i].name) != NULL)
            continue;
        add_difference(out, is->pairs[i].name, NULL, &is->pairs[i].value);
        differences++;
    }
    return differences;
}

/* ---- the model's files */

/* "model file NAME" is BYTES and the hash. */
static enum status add_file(struct fingerprint *fingerprint, const char *path, uint64_t bytes,
                            uint64_t hash, struct error *err) {
    struct buf text;
    const char *slash = strrchr(path, '/');
    buf_init(&text);
    buf_printf(&text, SL_FINGERPRINT_FILE "%s", slash != NULL ? slash + 1 : path);
    size_t name_bytes = text.len;
    buf_printf(&text, "%llu bytes (%016llx)", (unsigned long long)bytes, (unsigned long long)hash);
    enum status status = buf_status(&text, "the fingerprint of the job", err);
    if (status == SL_OK)
        status = fingerprint_add(fingerprint, str_cut(buf_str(&text), 0, name_bytes),
                                 str_cut(buf_str(&text), name_bytes, text.len), err);
    buf_release(&text);
    return status;
}

static enum status add_small_file(struct fingerprint *fingerprint, const char *path,
                                  struct error *err) {
    struct buf text;
    buf_init(&text);
    enum status status = file_read_all(path, SMALL_BYTES_MAX, &text, err);
    if (status == SL_OK)
        status = add_file(fingerprint, path, text.len, str_hash(buf_str(&text)), err);
    buf_release(&text);
    return status;
}

/* Where the first tensor of a file begins: what lies before it is its header, all of which counts.
 */
static uint64_t header_bytes(const struct index *index, uint32_t number) {
    uint64_t least = index->files[number]->bytes;
    for (size_t i = 0; i < index->count; i++) {
        const struct tensor *tensor = &index->tensors[i];
        if (tensor->file == number && tensor->offset < least)
            least = tensor->offset;
    }
    return least;
}

/* The header, and `samples` places from there to the end, the last bytes among them. */
static enum status add_weights(struct fingerprint *fingerprint, const struct index *index,
                               uint32_t number, size_t samples, char *window, struct error *err) {
    const struct file *file = index->files[number];
    uint64_t head = header_bytes(index, number), left = file->bytes - head;
    uint64_t hash = mix(0, file->bytes);
    for (uint64_t at = 0; at < head; at += WINDOW_BYTES) {
        size_t take = head - at < WINDOW_BYTES ? (size_t)(head - at) : WINDOW_BYTES;
        TRY(file_read_at(file, at, window, take, err));
        hash = mix(hash, str_hash((struct str){window, take}));
    }
    for (size_t i = 1; i <= samples && left > 0; i++) {
        size_t take = left < SAMPLE_BYTES ? (size_t)left : SAMPLE_BYTES;
        uint64_t at = head + (uint64_t)((double)(left - take) * (double)i / (double)samples);
        at = at > file->bytes - take ? file->bytes - take : at;
        TRY(file_read_at(file, at, window, take, err));
        hash = mix(hash, str_hash((struct str){window, take}));
    }
    return add_file(fingerprint, file->path, file->bytes, hash, err);
}

static enum status add_weight_files(struct fingerprint *fingerprint, const struct model *model,
                                    struct error *err) {
    size_t count = model->index.file_count;
    size_t samples = count > 0 && SAMPLES / count > SAMPLES_LEAST ? SAMPLES / count : SAMPLES_LEAST;
    char *window = mem_new(1, WINDOW_BYTES);
    if (window == NULL)
        return error_memory(err, WINDOW_BYTES, "the fingerprint of the job");
    enum status status = SL_OK;
    for (uint32_t i = 0; status == SL_OK && i < count; i++)
        status = add_weights(fingerprint, &model->index, i, samples, window, err);
    mem_free(window);
    return status;
}

enum status fingerprint_add_model(struct fingerprint *fingerprint, const struct model *model,
                                  struct error *err) {
    const char *const *name = fingerprint_model_files;
    for (; file_is_folder(model->path) && *name != NULL; name++) {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s", model->path, *name);
        if (length > 0 && (size_t)length < sizeof path && file_exists(path))
            TRY(add_small_file(fingerprint, path, err));
    }
    return add_weight_files(fingerprint, model, err);
}
