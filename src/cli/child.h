/* Runs of sluice itself, for the commands that compare or measure whole jobs: each is a process of
 * its own, so that its peak memory and its start are those of a job. One thread, one child at a
 * time; a wish to stop is passed on, and a child does not outlive its parent. */
#ifndef SLUICE_CLI_CHILD_H
#define SLUICE_CLI_CHILD_H

#include "base/str.h"
#include "cli/options.h"

#include <limits.h>

/* A list of arguments; texts are kept. */
struct child {
    const char *argv[256]; /* "sluice" first */
    size_t count;
    struct arena arena; /* of the texts */
    bool has_failed;    /* out of memory, or too many */
};

void child_init(struct child *child, const char *command);
void child_release(struct child *child);
void child_add(struct child *child, const char *argument);
void child_add_number(struct child *child, const char *option, uint64_t value);

/* What the user gave: the command line of the command, and which of its options a child does not
 * know. */
struct child_words {
    int argc;
    char **argv;
    enum command_bit command;
    const char *const *own; /* names; NULL ends them */
    char config[PATH_MAX];  /* set by child_keep_config */
};
/* Writes what the user's --config file says, but for own options, to FOLDER/config, which children
 * get in its place, so that all runs have the same. config_text: as options_parse left it.
 * SL_ERR_ENV. */
enum status child_keep_config(struct child_words *words, struct str config_text, const char *folder,
                              struct error *err);
/* The user's options, which options_parse has taken, with their values, but for own ones. */
void child_add_options(struct child *child, const struct child_words *words);
/* Behind all options, and behind "--": a name may begin with a -. */
void child_add_operands(struct child *child, const char *const *operands, size_t count);
/* Runs it to its end. Its standard output goes to the file out_path (NULL: nowhere), its messages
 * to ours, or nowhere if is_quiet. *code is its exit code, 128 + the signal that ended it.
 * SL_ERR_ENV when it cannot be started; SL_ERR_STOPPED when this process was to stop. */
enum status child_run(struct child *child, const char *out_path, bool is_quiet, int *code,
                      struct error *err);

/* A folder for the files of such runs, below TMPDIR or /tmp. */
enum status child_make_folder(char folder[PATH_MAX], struct error *err);
/* Removes it with all that lies in it. */
void child_remove_folder(const char *folder);
/* FOLDER/NAME; must fit. */
void child_path(const char *folder, const char *name, char path[PATH_MAX]);

#endif
