/* Owns the choice of files. Refuses names that could leave a folder, and files without a sum that
 * could be checked. */
#include "hub/listing.h"

#include "base/json.h"
#include "hub/sum.h"

#include <string.h>

#define FILES_MAX ((size_t)20000)
#define VALUES_MAX ((size_t)1 << 20)

/* Parts with slashes between them, none of which begins with a dot; no control characters. */
static bool is_safe(struct str name) {
    bool begins = true;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];
        if (c < ' ' || c == 0x7f || c == '\\' || (begins && (c == '.' || c == '/')))
            return false;
        begins = c == '/';
    }
    return name.len > 0 && !begins && name.len < SL_HUB_NAME_BYTES &&
           utf8_valid_len(name) == name.len;
}

/* One entry of "siblings"; false: nothing that could be fetched. */
static bool read_file(const struct json *entry, struct fetch_file *file) {
    const struct json *large = json_get(entry, "lfs");
    struct str key;
    bool is_large = json_is(large, JSON_OBJECT);
    if (!json_string(json_get(entry, "rfilename"), &file->name) || !is_safe(file->name) ||
        !json_u64(json_get(is_large ? large : entry, "size"), &file->bytes) ||
        !json_string(json_get(is_large ? large : entry, is_large ? "sha256" : "blobId"), &key) ||
        !sum_is_key(key) || file->bytes > INT64_MAX)
        return false;
    memcpy(file->key, key.data, key.len);
    file->key[key.len] = '\0';
    return true;
}

enum status listing_parse(struct listing *listing, const char *repo, struct str answer,
                          struct error *err) {
    *listing = (struct listing){0};
    arena_init(&listing->arena);
    const struct json *tree;
    struct json_options options = {.values_max = VALUES_MAX};
    struct str commit;
    enum status status = json_parse(&listing->arena, answer, &options, &tree, err);
    if (status != SL_OK) {
        listing_release(listing);
        error_prefix(err, "%s: the hub's answer", repo);
        if (err != NULL)
            err->status = SL_ERR_ENV;
        return SL_ERR_ENV;
    }
    const struct json *files = json_get(tree, "siblings");
    if (!json_string(json_get(tree, "sha"), &commit) || commit.len != 40 || !sum_is_key(commit) ||
        !json_is(files, JSON_ARRAY) || files->count > FILES_MAX) {
        listing_release(listing);
        return error_set(err, SL_ERR_ENV, "%s: the hub's answer lists no files of a commit", repo);
    }
    memcpy(listing->commit, commit.data, commit.len);
    listing->files = arena_array(&listing->arena, files->count, sizeof *listing->files);
    if (listing->files == NULL) {
        listing_release(listing);
        return error_memory(err, files->count * sizeof *listing->files, "the list of files");
    }
    for (uint32_t i = 0; i < files->count; i++)
        listing->file_count += read_file(&files->items[i], &listing->files[listing->file_count]);
    return SL_OK;
}

void listing_release(struct listing *listing) {
    arena_release(&listing->arena);
    *listing = (struct listing){0};
}

/* ---- choosing */

static bool is_at_top(struct str name) {
    return str_find(name, STR("/"), 0) == SIZE_MAX;
}

/* What stands beside the weights of a folder. */
static bool is_companion(struct str name) {
    static const char *const names[] = {
        "config.json",
        "generation_config.json",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "tokenizer.model",
        "chat_template.jinja",
        "chat_template.json",
        "LICENSE",
        "LICENSE.txt",
        "LICENSE.md",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (str_is(name, names[i]))
            return true;
    }
    return str_starts(name, STR("additional_chat_templates/"));
}

static bool has_name(const struct listing *listing, const char *name) {
    for (size_t i = 0; i < listing->file_count; i++) {
        if (str_is(listing->files[i].name, name))
            return true;
    }
    return false;
}

/* Weights of the model itself: of some repositories the same ones lie there in a second form
 * ("consolidated.safetensors", "original/"). */
static bool is_weight(struct str name) {
    return is_at_top(name) && str_starts(name, STR("model")) && str_ends(name, STR(".safetensors"));
}

static void move_to_front(struct listing *listing, size_t at, size_t *count) {
    struct fetch_file file = listing->files[at];
    listing->files[at] = listing->files[*count];
    listing->files[(*count)++] = file;
}

static size_t choose_folder(struct listing *listing) {
    size_t count = 0;
    for (size_t i = 0; i < listing->file_count; i++) {
        struct str name = listing->files[i].name;
        if (is_weight(name) || is_companion(name))
            move_to_front(listing, i, &count);
    }
    return count;
}

static struct str gguf_stem(struct str name) {
    uint64_t part, parts;
    return hub_gguf_stem(name, &part, &parts);
}

/* The names of what there is to choose from, as far as a message goes. */
static enum status name_choices(const struct listing *listing, const struct hub_name *name,
                                struct error *err) {
    struct buf list;
    struct str last = STR("");
    size_t count = 0;
    buf_init(&list);
    for (size_t i = 0; i < listing->file_count; i++) {
        struct str stem = gguf_stem(listing->files[i].name);
        if (stem.len == 0 || str_equal(stem, last))
            continue;
        last = stem;
        if (count++ < 12)
            buf_printf(&list, "%s%.*s", count > 1 ? ", " : "", STR_ARG(listing->files[i].name));
    }
    if (count > 12)
        buf_printf(&list, " and %zu more", count - 12);
    const char *choices = list.data != NULL ? list.data : "";
    if (count == 0)
        error_set(
            err, SL_ERR_INPUT,
            "%s: there are neither model*.safetensors with a config.json nor GGUF files in it",
            name->repo);
    else if (name->file[0] != '\0')
        error_set(err, SL_ERR_INPUT, "%s: not one GGUF file is meant by %s: there are %s",
                  name->repo, name->file, choices);
    else
        error_set(err, SL_ERR_INPUT, "%s holds several GGUF files: name one, as %s:FILE: %s",
                  name->repo, name->repo, choices);
    buf_release(&list);
    return SL_ERR_INPUT;
}

/* The stem of the one file, or split set, that the name means; empty: none or several. */
static struct str find_stem(const struct listing *listing, const struct hub_name *name) {
    struct str found = STR(""), wanted = str_from(name->file);
    for (size_t i = 0; i < listing->file_count; i++) {
        struct str file = listing->files[i].name, stem = gguf_stem(file);
        if (stem.len == 0 || str_find(file, wanted, 0) == SIZE_MAX)
            continue;
        if (wanted.len > 0 && str_equal(file, wanted))
            return stem;
        if (found.len > 0 && !str_equal(found, stem)) {
            for (; i < listing->file_count; i++) { /* the whole name may still come */
                if (wanted.len > 0 && str_equal(listing->files[i].name, wanted))
                    return gguf_stem(listing->files[i].name);
            }
            return STR("");
        }
        found = stem;
    }
    return found;
}

enum status listing_choose(struct listing *listing, const struct hub_name *name, size_t *count,
                           struct error *err) {
    size_t chosen = 0;
    bool has_weights = false;
    for (size_t i = 0; i < listing->file_count; i++)
        has_weights = has_weights || is_weight(listing->files[i].name);
    if (name->file[0] == '\0' && has_weights && has_name(listing, "config.json")) {
        *count = choose_folder(listing);
        return SL_OK;
    }
    struct str stem = find_stem(listing, name);
    for (size_t i = 0; stem.len > 0 && i < listing->file_count; i++) {
        if (str_equal(gguf_stem(listing->files[i].name), stem))
            move_to_front(listing, i, &chosen);
    }
    if (chosen == 0)
        return name_choices(listing, name, err);
    *count = chosen;
    return SL_OK;
}
