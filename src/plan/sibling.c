/* Owns where siblings are looked for, and what makes one. Refuses to look far: folders of a few
 * levels, so many files in all, so that a home that is full of other things costs little. */
#include "plan/sibling.h"

#include "plan/precision.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define LEVELS_MAX 4u      /* hub/models--NAME/snapshots/COMMIT/model.gguf */
#define ENTRIES_MAX 16384u /* looked at in all */
#define CONFIG_BYTES_MAX ((size_t)4 << 20)

struct search {
    const struct model *model;
    int bits;
    size_t entries;
    struct sibling best;
};

static bool is_same_model(const struct config *a, const struct config *b) {
    return strcmp(a->family, b->family) == 0 && a->layers == b->layers && a->hidden == b->hidden &&
           a->heads == b->heads && a->kv_heads == b->kv_heads && a->inner == b->inner &&
           a->vocabulary == b->vocabulary && a->mixture.count == b->mixture.count;
}

/* Whether a folder's config.json is that of the same model. */
static bool folder_is_alike(const struct search *search, const char *folder) {
    char path[PATH_MAX];
    struct arena arena;
    struct buf text;
    struct config config;
    const struct arch *arch;
    const struct json *tree;
    struct json_options options = {.depth_max = 64, .values_max = 100000};
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= (int)sizeof path ||
        !file_exists(path))
        return false;
    arena_init(&arena);
    buf_init(&text);
    bool is_alike = false;
    if (file_read_all(path, CONFIG_BYTES_MAX, &text, NULL) == SL_OK &&
        json_parse(&arena, buf_str(&text), &options, &tree, NULL) == SL_OK &&
        config_from_json(tree, NULL, path, &config, &arch, NULL) == SL_OK) {
        is_alike = is_same_model(&config, &search->model->config);
        config_release(&config);
    }
    buf_release(&text);
    arena_release(&arena);
    return is_alike;
}

static bool file_is_alike(const struct search *search, const char *path) {
    const struct container *container;
    const struct arch *arch;
    struct config config;
    struct index index;
    struct meta meta;
    bool is_alike = false;
    index_init(&index);
    meta_init(&meta);
    if (container_open(path, false, &container, &index, &meta, NULL) == SL_OK &&
        config_from_meta(&meta, path, &config, &arch, NULL) == SL_OK) {
        is_alike = is_same_model(&config, &search->model->config);
        config_release(&config);
    }
    index_release(&index);
    meta_release(&meta);
    return is_alike;
}

/* A model of the same config: taken if its formats are what is looked for, and better. */
static void consider(struct search *search, const char *path) {
    struct sibling *best = &search->best;
    struct model *model;
    struct buf formats;
    if (model_open(path, MODEL_ALL, &model, NULL) != SL_OK)
        return;
    uint64_t bytes = model_weights_bytes(model);
    bool is_better = best->path[0] == '\0' || bytes < best->bytes ||
                     (bytes == best->bytes && strcmp(path, best->path) < 0);
    if (is_better && precision_has(model, search->bits) && model->tokenizer != NULL &&
        strlen(path) < sizeof best->path) {
        buf_init(&formats);
        model_formats(model, &formats);
        best->bytes = bytes;
        snprintf(best->path, sizeof best->path, "%s", path);
        snprintf(best->formats, sizeof best->formats, "%.*s", STR_ARG(buf_str(&formats)));
        buf_release(&formats);
    }
    model_close(model);
}

/* A .gguf file, of a split set the first. */
static bool is_first_file(const char *name) {
    struct str text = str_from(name);
    return str_ends(text, STR(".gguf")) && (str_find(text, STR("-of-"), 0) == SIZE_MAX ||
                                            str_find(text, STR("-00001-of-"), 0) != SIZE_MAX);
}

/* Folders below `folder`, so many levels deep. */
static void look_into(struct search *search, const char *folder, unsigned levels) {
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    char path[PATH_MAX];
    if (listing == NULL)
        return;
    if (folder_is_alike(search, folder))
        consider(search, folder);
    while ((entry = readdir(listing)) != NULL && search->entries++ < ENTRIES_MAX) {
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            continue;
        if (file_is_folder(path)) {
            if (levels > 0)
                look_into(search, path, levels - 1);
        } else if (is_first_file(entry->d_name) && file_is_alike(search, path)) {
            consider(search, path);
        }
    }
    closedir(listing);
}

enum status sibling_find(const struct model *model, const struct settings *settings, int bits,
                         struct sibling *out, struct error *err) {
    struct search *search = mem_new(1, sizeof *search);
    char path[PATH_MAX];
    if (search == NULL)
        return error_memory(err, sizeof *search, "the search for other forms of the model");
    search->model = model;
    search->bits = bits;
    if (settings->home != NULL &&
        snprintf(path, sizeof path, "%s/models", settings->home) < (int)sizeof path)
        look_into(search, path, LEVELS_MAX);
    if (settings->hub != NULL)
        look_into(search, settings->hub, LEVELS_MAX);
    *out = search->best;
    mem_free(search);
    return SL_OK;
}
