/* `pull`, `list`, `rm`: models on this machine and how they come here. */
#include "cli/cmd.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/model_name.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

/* The options of a command, and its operand if it wants one. */
static enum status read_options(int argc, char **argv, enum command_bit command,
                                struct settings *settings, const char **name, struct error *err) {
    size_t count;
    struct buf config_text; /* stays empty: no --config here */
    buf_init(&config_text);
    options_defaults(settings);
    return options_parse(argc, argv, command, settings, name, name != NULL, &count, &config_text,
                         err);
}

static enum status read_name(const char *text, const char *command, struct hub_name *name,
                             struct error *err) {
    if (text == NULL)
        return error_set(err, SL_ERR_USAGE, "%s needs a NAME, such as qwen2.5:0.5b or org/name",
                         command);
    if (hub_name_parse(str_from(text), name))
        return SL_OK;
    const char *nearest = registry_nearest(str_from(text));
    return error_set(err, SL_ERR_USAGE,
                     "%s: there is no such name%s%s: a repository is org/name, and `sluice list` "
                     "shows the short names",
                     text, nearest != NULL ? "; the nearest is " : "",
                     nearest != NULL ? nearest : "");
}

static enum status pull(int argc, char **argv, struct error *err) {
    struct settings settings;
    struct hub_place place;
    struct hub_name name;
    struct pull_options options;
    const char *text = NULL;
    char path[PATH_MAX];
    TRY(read_options(argc, argv, FOR_PULL, &settings, &text, err));
    TRY(read_name(text, "pull", &name, err));
    TRY(hub_place_read(&place, err));
    signals_install();
    hub_place_options(&place, &settings, &options);
    TRY(pull_model(&options, &name, path, err));
    printf("%s\n", path);
    return SL_OK;
}

int cmd_pull(int argc, char **argv) {
    struct error err = {0};
    if (cmd_help_wanted(argc, argv, "pull"))
        return cmd_end(0);
    return cmd_end(cmd_fail(pull(argc, argv, &err), &err));
}

/* ---- list */

static void list_json(const struct store *store, const struct store_model *models, size_t count,
                      struct buf *out) {
    buf_add(out, STR("{\"cache\": "));
    json_add_string(out, str_from(store->folder));
    buf_add(out, STR(", \"models\": ["));
    for (size_t i = 0; i < count; i++) {
        buf_add(out, i == 0 ? STR("{\"repository\": ") : STR(", {\"repository\": "));
        json_add_string(out, str_from(models[i].repo));
        buf_printf(out, ", \"bytes\": %llu, \"files\": %zu, \"has_parts\": %s}",
                   (unsigned long long)models[i].bytes, models[i].files,
                   models[i].is_part ? "true" : "false");
    }
    buf_add(out, STR("], \"names\": ["));
    for (size_t i = 0; i < registry_line_count; i++) {
        const struct registry_line *line = &registry_lines[i];
        buf_add(out, i == 0 ? STR("{\"name\": ") : STR(", {\"name\": "));
        json_add_string(out, str_from(line->name));
        buf_add(out, STR(", \"repository\": "));
        json_add_string(out, str_from(line->repo));
        buf_printf(out, ", \"gigabytes\": %.1f, \"licence\": ", line->gigabytes);
        json_add_string(out, str_from(line->licence));
        buf_add(out, STR("}"));
    }
    buf_add(out, STR("]}\n"));
}

static void list_text(const struct store *store, const struct store_model *models, size_t count,
                      struct buf *out) {
    buf_printf(out, "on this machine, in %s%s\n", store->folder, count == 0 ? ": none" : "");
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "  %-44s %8.2f GB  %zu files%s\n", models[i].repo,
                   (double)models[i].bytes / 1e9, models[i].files,
                   models[i].is_part ? ", and parts of some" : "");
    buf_add(out, STR("\nnames that pull and run know\n"));
    for (size_t i = 0; i < registry_line_count; i++) {
        const struct registry_line *line = &registry_lines[i];
        buf_printf(out, "  %-18s %-38s %6.1f GB  %s\n", line->name, line->repo, line->gigabytes,
                   line->licence);
    }
}

static enum status list(int argc, char **argv, struct error *err) {
    struct settings settings;
    struct hub_place place;
    struct store_model *models = NULL;
    struct buf out;
    size_t count = 0;
    TRY(read_options(argc, argv, FOR_LIST, &settings, NULL, err));
    TRY(hub_place_read(&place, err));
    TRY(store_list(&place.store, &models, &count, err));
    buf_init(&out);
    (settings.is_json ? list_json : list_text)(&place.store, models, count, &out);
    enum status status = buf_status(&out, "the list", err);
    if (status == SL_OK)
        fwrite(out.data, 1, out.len, stdout);
    buf_release(&out);
    mem_free(models);
    return status;
}

int cmd_list(int argc, char **argv) {
    struct error err = {0};
    if (cmd_help_wanted(argc, argv, "list"))
        return cmd_end(0);
    return cmd_end(cmd_fail(list(argc, argv, &err), &err));
}

/* ---- rm */

static enum status rm(int argc, char **argv, struct error *err) {
    struct settings settings;
    struct hub_place place;
    struct hub_name name;
    const char *text = NULL;
    uint64_t bytes;
    TRY(read_options(argc, argv, FOR_NONE, &settings, &text, err));
    TRY(read_name(text, "rm", &name, err));
    if (name.file[0] != '\0' || strcmp(name.revision, "main") != 0)
        return error_set(err, SL_ERR_USAGE, "rm removes whole repositories: `sluice rm %s` is one",
                         name.repo);
    TRY(hub_place_read(&place, err));
    TRY(store_remove(&place.store, name.repo, &bytes, err));
    printf("%s is removed: %.2f GB\n", name.repo, (double)bytes / 1e9);
    return SL_OK;
}

int cmd_rm(int argc, char **argv) {
    struct error err = {0};
    if (cmd_help_wanted(argc, argv, "rm"))
        return cmd_end(0);
    return cmd_end(cmd_fail(rm(argc, argv, &err), &err));
}
