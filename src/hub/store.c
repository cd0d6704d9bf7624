/* Owns the folders and links of the cache. Refuses to call a model found whose files are not all
 * there: a snapshot of other tools may hold its config alone. */
#include "hub/store.h"

#include "base/json.h"
#include "io/file.h"
#include "io/save.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_BYTES_MAX ((size_t)64 << 20)
#define REF_BYTES_MAX ((size_t)4096)
#define MODELS_MAX ((size_t)100000)

static bool join(char path[PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool join(char path[PATH_MAX], const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path, PATH_MAX, format, args);
    va_end(args);
    return length > 0 && length < PATH_MAX;
}

/* "org/name" as "org--name". */
static void folder_name(const char *repo, char out[2 * SL_HUB_NAME_BYTES]) {
    const char *slash = strchr(repo, '/');
    int before = slash != NULL ? (int)(slash - repo) : 0;
    snprintf(out, 2 * SL_HUB_NAME_BYTES, "%.*s%s%s", before, repo, slash != NULL ? "--" : "",
             slash != NULL ? slash + 1 : repo);
}

static bool repo_path(const struct store *store, const char *repo, const char *rest,
                      char path[PATH_MAX]) {
    char name[2 * SL_HUB_NAME_BYTES];
    folder_name(repo, name);
    return join(path, "%s/models--%s%s", store->folder, name, rest);
}

bool store_init(struct store *store, const char *folder) {
    size_t length = strlen(folder);
    if (length >= sizeof store->folder)
        return false;
    memcpy(store->folder, folder, length + 1);
    return true;
}

bool store_blob(const struct store *store, const char *repo, const char *key, char path[PATH_MAX]) {
    char rest[SL_HUB_KEY_BYTES + 8];
    snprintf(rest, sizeof rest, "/blobs/%s", key);
    return repo_path(store, repo, rest, path);
}

bool store_lock(const struct store *store, const char *repo, const char *key, char path[PATH_MAX]) {
    char name[2 * SL_HUB_NAME_BYTES];
    folder_name(repo, name);
    return join(path, "%s/.locks/models--%s/%s.lock", store->folder, name, key);
}

enum status store_too_long(const char *repo, struct error *err) {
    return error_set(err, SL_ERR_ENV, "%s: its path in the cache is too long", repo);
}

/* ---- finding */

/* The commit of a revision: by its ref, or the revision itself. */
static bool find_snapshot(const struct store *store, const struct hub_name *name,
                          char path[PATH_MAX]) {
    char rest[SL_HUB_NAME_BYTES + 16], commit[SL_HUB_NAME_BYTES];
    struct buf text;
    buf_init(&text);
    snprintf(rest, sizeof rest, "/refs/%s", name->revision);
    snprintf(commit, sizeof commit, "%s", name->revision);
    if (repo_path(store, name->repo, rest, path) && file_exists(path) &&
        file_read_all(path, REF_BYTES_MAX, &text, NULL) == SL_OK && text.len > 0) {
        size_t length = strcspn(text.data, " \r\n");
        snprintf(commit, sizeof commit, "%.*s", (int)length, text.data);
    }
    buf_release(&text);
    snprintf(rest, sizeof rest, "/snapshots/%s", commit);
    return commit[0] != '\0' && strchr(commit, '/') == NULL &&
           repo_path(store, name->repo, rest, path) && file_is_folder(path);
}

static bool has_file(const char *folder, struct str name) {
    char path[PATH_MAX];
    struct stat info;
    return join(path, "%s/%.*s", folder, (int)name.len, name.data) && stat(path, &info) == 0 &&
           S_ISREG(info.st_mode);
}

/* All files that the index of a sharded model names. */
static bool has_shards(const char *folder, const char *index_path) {
    struct arena arena;
    struct buf text;
    const struct json *tree = NULL;
    struct json_options options = {0};
    arena_init(&arena);
    buf_init(&text);
    bool is_whole = file_read_all(index_path, INDEX_BYTES_MAX, &text, NULL) == SL_OK &&
                    json_parse(&arena, buf_str(&text), &options, &tree, NULL) == SL_OK;
    const struct json *map = json_get(tree, "weight_map");
    is_whole = is_whole && json_is(map, JSON_OBJECT) && map->count > 0;
    struct str last = STR("");
    for (uint32_t i = 0; is_whole && i < map->count; i++) {
        struct str name = STR("");
        is_whole = json_string(&map->members[i].value, &name);
        if (is_whole && !str_equal(name, last)) /* tensors of a shard mostly stand together */
            is_whole = has_file(folder, name);
        last = name;
    }
    arena_release(&arena);
    buf_release(&text);
    return is_whole;
}

/* A folder of safetensors with all that a model needs. */
static bool is_whole_folder(const char *folder) {
    char index[PATH_MAX];
    if (!has_file(folder, STR("config.json")))
        return false;
    if (join(index, "%s/model.safetensors.index.json", folder) && file_exists(index))
        return has_shards(folder, index);
    return has_file(folder, STR("model.safetensors"));
}

/* Whether the other parts of a split set lie beside its first one. */
static bool has_parts(const char *folder, struct str first) {
    uint64_t part = 0, parts = 0;
    struct str stem = hub_gguf_stem(first, &part, &parts);
    bool is_whole = part == 1;
    for (uint64_t i = 2; is_whole && i <= parts; i++) {
        char name[PATH_MAX];
        snprintf(name, sizeof name, "%.*s-%05llu-of-%05llu.gguf", (int)stem.len, stem.data,
                 (unsigned long long)i, (unsigned long long)parts);
        is_whole = has_file(folder, str_from(name));
    }
    return is_whole;
}

/* The one GGUF file in a folder or the folders in it that the name means, as a path below it. */
struct gguf_search {
    const char *folder, *wanted;
    size_t found;
    char name[PATH_MAX];
};

static void search_gguf(struct gguf_search *search, const char *below, bool goes_down) {
    char path[PATH_MAX], name[PATH_MAX];
    DIR *listing = join(path, "%s/%s", search->folder, below) ? opendir(path) : NULL;
    const struct dirent *entry;
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        uint64_t part, parts;
        if (entry->d_name[0] == '.' ||
            !join(name, "%s%s%s", below, below[0] != '\0' ? "/" : "", entry->d_name))
            continue;
        if (goes_down && join(path, "%s/%s", search->folder, name) && file_is_folder(path))
            search_gguf(search, name, false);
        bool is_first = hub_gguf_stem(str_from(name), &part, &parts).len > 0 && part == 1;
        if (!is_first || str_find(str_from(name), str_from(search->wanted), 0) == SIZE_MAX)
            continue;
        search->found++;
        snprintf(search->name, sizeof search->name, "%s", name);
    }
    if (listing != NULL)
        closedir(listing);
}

bool store_find(const struct store *store, const struct hub_name *name, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    if (!find_snapshot(store, name, folder))
        return false;
    struct gguf_search search = {.folder = folder, .wanted = name->file};
    if (name->file[0] == '\0' && is_whole_folder(folder))
        return join(path, "%s", folder);
    search_gguf(&search, "", true);
    bool is_exact = name->file[0] != '\0' && has_file(folder, str_from(name->file));
    if (is_exact)
        snprintf(search.name, sizeof search.name, "%s", name->file);
    else if (search.found != 1)
        return false;
    return has_file(folder, str_from(search.name)) && has_parts(folder, str_from(search.name)) &&
           join(path, "%s/%s", folder, search.name);
}

/* ---- writing */

enum status store_make_folders(const char *path, struct error *err) {
    char reason[128];
    int number = file_make_folders(path);
    if (number == 0)
        return SL_OK;
    return error_set(err, SL_ERR_ENV, "%s: its folder cannot be made: %s", path,
                     strerror_r(number, reason, sizeof reason));
}

/* Another process may have made the same link in between. */
static bool is_link_to(const char *path, const char *target) {
    char found[PATH_MAX];
    ssize_t length = readlink(path, found, sizeof found);
    return length >= 0 && (size_t)length == strlen(target) &&
           memcmp(found, target, (size_t)length) == 0;
}

enum status store_link(const struct store *store, const char *repo, const char *commit,
                       const char *file, const char *key, struct error *err) {
    char path[PATH_MAX], target[PATH_MAX], folder[PATH_MAX], reason[128];
    if (!repo_path(store, repo, "/snapshots", folder) ||
        !join(path, "%s/%s/%s", folder, commit, file))
        return store_too_long(repo, err);
    struct buf up;
    buf_init(&up);
    buf_add(&up, STR("../../"));
    for (const char *at = file; (at = strchr(at, '/')) != NULL; at++)
        buf_add(&up, STR("../"));
    bool is_short = join(target, "%sblobs/%s", up.data != NULL ? up.data : "", key);
    enum status status = buf_status(&up, "a link", err);
    buf_release(&up);
    TRY(status);
    if (!is_short)
        return store_too_long(repo, err);
    TRY(store_make_folders(path, err));
    if (is_link_to(path, target))
        return SL_OK; /* and is never gone for a moment */
    if (unlink(path) != 0 && errno != ENOENT)
        return error_set(err, SL_ERR_ENV, "%s: cannot be replaced: %s", path,
                         strerror_r(errno, reason, sizeof reason));
    if (symlink(target, path) != 0 && !(errno == EEXIST && is_link_to(path, target)))
        return error_set(err, SL_ERR_ENV, "%s: the link cannot be made: %s", path,
                         strerror_r(errno, reason, sizeof reason));
    return SL_OK;
}

enum status store_put_ref(const struct store *store, const struct hub_name *name,
                          const char *commit, struct error *err) {
    char path[PATH_MAX], rest[SL_HUB_NAME_BYTES + 16];
    if (strcmp(name->revision, commit) == 0)
        return SL_OK;
    snprintf(rest, sizeof rest, "/refs/%s", name->revision);
    if (!repo_path(store, name->repo, rest, path))
        return store_too_long(name->repo, err);
    return file_save(path, str_from(commit), err);
}

/* ---- listing and removing */

/* Adds up the files in a folder; those that end in .incomplete are parts. */
static void add_blobs(const char *folder, struct store_model *model) {
    char path[PATH_MAX];
    struct stat info;
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        if (!join(path, "%s/%s", folder, entry->d_name) || lstat(path, &info) != 0 ||
            !S_ISREG(info.st_mode))
            continue;
        model->bytes += (uint64_t)info.st_size;
        model->is_part = model->is_part || str_ends(str_from(path), STR(".incomplete"));
    }
    if (listing != NULL)
        closedir(listing);
}

/* Files and links in a folder and those in it. */
static size_t count_files(const char *folder, int depth) {
    char path[PATH_MAX];
    size_t count = 0;
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        if (entry->d_name[0] == '.' || !join(path, "%s/%s", folder, entry->d_name))
            continue;
        if (!file_is_folder(path))
            count++;
        else if (depth > 0)
            count += count_files(path, depth - 1);
    }
    if (listing != NULL)
        closedir(listing);
    return count;
}

static void look_at(const struct store *store, struct store_model *model) {
    char path[PATH_MAX];
    struct hub_name name = {.revision = "main"};
    memcpy(name.repo, model->repo, sizeof name.repo);
    if (repo_path(store, model->repo, "/blobs", path))
        add_blobs(path, model);
    if (find_snapshot(store, &name, path))
        model->files = count_files(path, 3);
}

static int by_repo(const void *a, const void *b) {
    return strcmp(((const struct store_model *)a)->repo, ((const struct store_model *)b)->repo);
}

/* "models--org--name" as "org/name"; false: it is no such name. */
static bool repo_of(const char *entry, char repo[SL_HUB_NAME_BYTES]) {
    const char *rest = entry + sizeof "models--" - 1;
    const char *middle = strncmp(entry, "models--", 8) == 0 ? strstr(rest, "--") : NULL;
    if (middle == NULL || strlen(rest) >= SL_HUB_NAME_BYTES)
        return false;
    snprintf(repo, SL_HUB_NAME_BYTES, "%.*s/%s", (int)(middle - rest), rest, middle + 2);
    return true;
}

enum status store_list(const struct store *store, struct store_model **out, size_t *count,
                       struct error *err) {
    struct store_model *models = NULL;
    size_t cap = 0, used = 0;
    DIR *listing = opendir(store->folder);
    const struct dirent *entry;
    enum status status = SL_OK;
    while (listing != NULL && status == SL_OK && (entry = readdir(listing)) != NULL) {
        struct store_model model = {0};
        if (!repo_of(entry->d_name, model.repo))
            continue;
        if (used == MODELS_MAX || !mem_grow((void **)&models, &cap, used + 1, sizeof *models)) {
            status = error_memory(err, (used + 1) * sizeof *models, "the list of models");
            break;
        }
        look_at(store, &model);
        models[used++] = model;
    }
    if (listing != NULL)
        closedir(listing);
    if (status != SL_OK) {
        mem_free(models);
        return status;
    }
    if (used > 0)
        qsort(models, used, sizeof *models, by_repo);
    *out = models;
    *count = used;
    return SL_OK;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

enum status store_remove(const struct store *store, const char *repo, uint64_t *bytes,
                         struct error *err) {
    char path[PATH_MAX], reason[128];
    struct store_model model = {0};
    snprintf(model.repo, sizeof model.repo, "%s", repo);
    if (!repo_path(store, repo, "", path))
        return store_too_long(repo, err);
    if (!file_is_folder(path))
        return error_set(err, SL_ERR_INPUT, "%s is not in %s: `sluice list` shows what is", repo,
                         store->folder);
    look_at(store, &model);
    enum { OPEN_FILES = 16 };
    if (nftw(path, remove_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS) != 0)
        return error_set(err, SL_ERR_ENV, "%s: cannot be removed: %s", path,
                         strerror_r(errno, reason, sizeof reason));
    *bytes = model.bytes;
    return SL_OK;
}
