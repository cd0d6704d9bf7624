/* Owns what the environment says of the hub, and the order in which a MODEL is looked for: a path
 * that is there, then the cache, then the hub. */
#include "cli/model_name.h"

#include "base/log.h"
#include "cli/cmd.h"
#include "io/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_BYTES_MAX ((size_t)4096)

/* The value of a variable that is set and not empty; NULL otherwise. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* HF_HOME, or ~/.cache/huggingface. */
static bool home_path(const char *below, char path[PATH_MAX]) {
    const char *home = variable("HF_HOME"), *user = variable("HOME");
    int length = home != NULL   ? snprintf(path, PATH_MAX, "%s/%s", home, below)
                 : user != NULL ? snprintf(path, PATH_MAX, "%s/.cache/huggingface/%s", user, below)
                                : -1;
    return length > 0 && length < PATH_MAX;
}

bool hub_folder(char path[PATH_MAX]) {
    const char *cache = variable("HF_HUB_CACHE");
    int length = cache != NULL ? snprintf(path, PATH_MAX, "%s", cache) : -1;
    return cache != NULL ? length < PATH_MAX : home_path("hub", path);
}

static enum status set_token(struct hub_place *place, struct str text, const char *source,
                             struct error *err) {
    text = str_trim(text);
    bool is_fine = text.len < sizeof place->token;
    for (size_t i = 0; is_fine && i < text.len; i++)
        is_fine = text.data[i] > ' ' && text.data[i] < 0x7f;
    if (!is_fine)
        return error_set(err, SL_ERR_USAGE, "%s holds no token: one is letters and digits alone",
                         source);
    memcpy(place->token, text.data, text.len);
    place->token[text.len] = '\0';
    return SL_OK;
}

static enum status read_token(struct hub_place *place, struct error *err) {
    char path[PATH_MAX];
    const char *token = variable("HF_TOKEN"), *file = variable("HF_TOKEN_PATH");
    if (token != NULL)
        return set_token(place, str_from(token), "HF_TOKEN", err);
    if (file != NULL ? snprintf(path, sizeof path, "%s", file) >= (int)sizeof path
                     : !home_path("token", path))
        return SL_OK;
    if (!file_exists(path))
        return SL_OK;
    struct buf text;
    buf_init(&text);
    enum status status = file_read_all(path, TOKEN_BYTES_MAX, &text, err);
    if (status == SL_OK)
        status = set_token(place, buf_str(&text), path, err);
    buf_release(&text);
    return status;
}

enum status hub_place_read(struct hub_place *place, struct error *err) {
    char path[PATH_MAX];
    const char *endpoint = variable("HF_ENDPOINT");
    *place = (struct hub_place){0};
    if (!hub_folder(path))
        return error_set(err, SL_ERR_USAGE,
                         "there is no folder for models: neither HF_HOME nor HOME is set, or the "
                         "path is too long");
    if (!store_init(&place->store, path))
        return error_set(err, SL_ERR_USAGE, "the path of the folder for models is too long");
    struct str url = str_from(endpoint != NULL ? endpoint : "https://huggingface.co");
    while (str_ends(url, STR("/")))
        url.len--;
    if (url.len >= sizeof place->endpoint ||
        !(str_starts(url, STR("https://")) || str_starts(url, STR("http://"))))
        return error_set(err, SL_ERR_USAGE, "HF_ENDPOINT is %s: it must be an address of http(s)",
                         endpoint);
    memcpy(place->endpoint, url.data, url.len);
    return read_token(place, err);
}

void hub_place_options(const struct hub_place *place, const struct settings *settings,
                       struct pull_options *out) {
    *out = (struct pull_options){
        .store = &place->store,
        .endpoint = place->endpoint,
        .token = place->token[0] != '\0' ? place->token : NULL,
        .floor_bytes = settings->disk_floor_bytes,
        .progress = settings->progress,
        .at_once = (size_t)settings->downloads,
        .should_stop = signals_should_stop,
    };
}

/* Whether the text is meant as a path: its first folder is there. */
static bool is_path(const char *text) {
    char folder[PATH_MAX];
    const char *slash = strchr(text, '/');
    if (file_exists(text))
        return true;
    int length =
        slash != NULL ? snprintf(folder, sizeof folder, "%.*s", (int)(slash - text), text) : -1;
    return length >= 0 && (length == 0 || file_is_folder(folder));
}

bool model_name_find(struct settings *settings, struct model_place *place) {
    struct hub_place hub;
    struct hub_name name;
    if (is_path(settings->model) || !hub_name_parse(str_from(settings->model), &name))
        return true;
    hub_name_write(&name, place->name);
    settings->hub_name = place->name;
    if (hub_place_read(&hub, NULL) != SL_OK || !store_find(&hub.store, &name, place->path))
        return false;
    settings->model = place->path;
    return true;
}

enum status model_name_resolve(struct settings *settings, bool pulls, char path[PATH_MAX],
                               struct error *err) {
    struct hub_place place;
    struct hub_name name;
    struct pull_options options;
    const char *model = settings->model;
    if (is_path(model))
        return SL_OK;
    if (!hub_name_parse(str_from(model), &name)) {
        const char *nearest = registry_nearest(str_from(model));
        if (nearest == NULL)
            return SL_OK; /* opening it says what is wrong with the path */
        return error_set(err, SL_ERR_ENV,
                         "%s: there is no such file or folder, nor such a name; the nearest name "
                         "is %s (`sluice list` shows all)",
                         model, nearest);
    }
    TRY(hub_place_read(&place, err));
    if (!store_find(&place.store, &name, path)) {
        if (!pulls)
            return error_set(err, SL_ERR_ENV,
                             "%s: there is no such file or folder, and the model %s is not on this "
                             "machine: `sluice pull %s` fetches it",
                             model, name.repo, model);
        log_note("%s is not on this machine: fetching it", model);
        hub_place_options(&place, settings, &options);
        TRY(pull_model(&options, &name, path, err));
    }
    settings->model = path;
    return SL_OK;
}

enum status model_name_open(const struct settings *settings, const char *operand,
                            enum model_parts parts, struct model **out, struct error *err) {
    char path[PATH_MAX];
    struct settings named = *settings;
    named.model = operand;
    TRY(model_name_resolve(&named, false, path, err));
    return model_open(named.model, parts, out, err);
}
