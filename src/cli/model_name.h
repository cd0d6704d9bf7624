/* What stands for MODEL on a command line: a path, or a name of the hub that is looked up in the
 * cache, and for `run` fetched. Reads the environment for where the cache is and the token. */
#ifndef SLUICE_CLI_MODEL_NAME_H
#define SLUICE_CLI_MODEL_NAME_H

#include "hub/pull.h"
#include "model/model.h"
#include "plan/settings.h"

/* Where models that were fetched lie: HF_HUB_CACHE, or HF_HOME/hub, or ~/.cache/huggingface/hub.
 * False when none is told, or it is too long. */
bool hub_folder(char path[PATH_MAX]);

/* The hub as the environment has it: that folder; HF_ENDPOINT; HF_TOKEN, or the file HF_TOKEN_PATH
 * or HF_HOME/token. The texts stay until the next call. SL_ERR_USAGE for values that cannot be
 * used. */
struct hub_place {
    struct store store;
    char endpoint[512];
    char token[1024]; /* "" for none */
};
enum status hub_place_read(struct hub_place *place, struct error *err);

/* What a MODEL that is a name stands for; settings borrow both. */
struct model_place {
    char path[PATH_MAX];          /* of the model in the cache */
    char name[SL_HUB_TEXT_BYTES]; /* settings->hub_name */
};
/* settings->model, if it names a model in the cache, becomes its path. False: it names one that is
 * not there. */
bool model_name_find(struct settings *settings, struct model_place *place);
/* settings->model, if it is no path, becomes the path of the model that it names (kept in path).
 * pulls: one that is not here is fetched, which is said; else it is refused with what would fetch
 * it (SL_ERR_ENV). */
enum status model_name_resolve(struct settings *settings, bool pulls, char path[PATH_MAX],
                               struct error *err);
/* Opens what `operand` means: a path, or a name of a model that is on this machine. */
enum status model_name_open(const struct settings *settings, const char *operand,
                            enum model_parts parts, struct model **out, struct error *err);
/* As pull options, with the settings' share. */
void hub_place_options(const struct hub_place *place, const struct settings *settings,
                       struct pull_options *out);

#endif
