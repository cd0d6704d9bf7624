/* Owns the processes and the scratch folder of commands that run whole jobs. */
#include "cli/child.h"

#include "cli/cmd.h"
#include "io/save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void child_init(struct child *child, const char *command) {
    *child = (struct child){.argv = {"sluice"}, .count = 1};
    arena_init(&child->arena);
    child_add(child, command);
}

void child_release(struct child *child) {
    arena_release(&child->arena);
}

void child_add(struct child *child, const char *argument) {
    size_t bytes = strlen(argument) + 1;
    char *copy = arena_take(&child->arena, bytes);
    bool has_room = child->count + 1 < sizeof child->argv / sizeof child->argv[0];
    if (copy == NULL || !has_room) {
        child->has_failed = true;
        return;
    }
    memcpy(copy, argument, bytes);
    child->argv[child->count++] = copy;
}

void child_add_number(struct child *child, const char *option, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    child_add(child, option);
    child_add(child, text);
}

static bool is_one_of(struct str name, const char *const *names) {
    for (; *names != NULL; names++) {
        if (str_is(name, *names))
            return true;
    }
    return false;
}

enum status child_keep_config(struct child_words *words, struct str config_text, const char *folder,
                              struct error *err) {
    struct buf kept;
    if (config_text.len == 0)
        return SL_OK;
    buf_init(&kept);
    for (size_t at = 0; at < config_text.len;) { /* a NUL ends each value and line */
        size_t end = str_find(config_text, STR("\0"), at);
        struct str line = str_cut(config_text, at, end);
        struct str name = str_trim(str_cut(line, 0, str_find(line, STR("="), 0)));
        if (!is_one_of(name, words->own)) {
            buf_add(&kept, line);
            buf_add_char(&kept, '\n');
        }
        at += line.len + 1;
    }
    child_path(folder, "config", words->config);
    enum status status = buf_status(&kept, "the settings of a run", err);
    if (status == SL_OK)
        status = file_save(words->config, buf_str(&kept), err);
    buf_release(&kept);
    return status;
}

void child_add_options(struct child *child, const struct child_words *words) {
    char **argv = words->argv;
    if (words->config[0] != '\0') {
        child_add(child, "--config");
        child_add(child, words->config);
    }
    for (int i = 0; i < words->argc && strcmp(argv[i], "--") != 0; i++) {
        const char *value;
        if (argv[i][0] != '-' || argv[i][1] == '\0')
            continue;
        const struct option *option = options_match(argv[i], words->command, &value);
        must(option != NULL);
        struct str name = str_from(option->name);
        bool is_passed = !str_is(name, "config") && !is_one_of(name, words->own);
        if (is_passed)
            child_add(child, argv[i]);
        if (option->argument == NULL || value != NULL)
            continue;
        must(i + 1 < words->argc);
        i++;
        if (is_passed)
            child_add(child, argv[i]);
    }
}

void child_add_operands(struct child *child, const char *const *operands, size_t count) {
    child_add(child, "--");
    for (size_t i = 0; i < count; i++)
        child_add(child, operands[i]);
}

/* In the new process: streams, then the program. */
static _Noreturn void become(struct child *child, int out, bool is_quiet, pid_t parent) {
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool is_ready = nothing >= 0 && getppid() == parent && dup2(nothing, STDIN_FILENO) >= 0 &&
                    dup2(out >= 0 ? out : nothing, STDOUT_FILENO) >= 0 &&
                    (!is_quiet || dup2(nothing, STDERR_FILENO) >= 0);
    if (is_ready)
        execv("/proc/self/exe", (char *const *)child->argv);
    _exit(127);
}

enum status child_run(struct child *child, const char *out_path, bool is_quiet, int *code,
                      struct error *err) {
    char reason[128];
    if (child->has_failed)
        return error_set(err, SL_ERR_USAGE, "too many arguments");
    child->argv[child->count] = NULL;
    int out =
        out_path != NULL ? open(out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (out_path != NULL && out < 0)
        return error_set(err, SL_ERR_ENV, "%s: cannot be written: %s", out_path,
                         strerror_r(errno, reason, sizeof reason));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(child, out, is_quiet, parent);
    int number = errno, state = 0;
    if (out >= 0)
        close(out);
    if (pid < 0)
        return error_set(err, SL_ERR_ENV, "no process can be started: %s",
                         strerror_r(number, reason, sizeof reason));
    /* A signal interrupts the waiting; the child has it from the terminal, or gets it from here,
     * once: a second one would end it at once. */
    for (bool is_told = false; waitpid(pid, &state, 0) < 0 && errno == EINTR; is_told = true) {
        if (!is_told && signals_should_stop())
            kill(pid, SIGTERM);
    }
    *code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (signals_should_stop())
        return error_set(err, SL_ERR_STOPPED, "stopped");
    if (*code == 127)
        return error_set(err, SL_ERR_ENV, "/proc/self/exe cannot be started as a process");
    return SL_OK;
}

enum status child_make_folder(char folder[PATH_MAX], struct error *err) {
    char reason[128];
    const char *base = getenv("TMPDIR");
    int length = snprintf(folder, PATH_MAX, "%s/sluice-XXXXXX",
                          base != NULL && base[0] == '/' ? base : "/tmp");
    if (length > 0 && length < PATH_MAX / 2 && mkdtemp(folder) != NULL)
        return SL_OK;
    return error_set(err, SL_ERR_ENV, "%s: no scratch folder can be made: %s", folder,
                     strerror_r(errno, reason, sizeof reason));
}

void child_path(const char *folder, const char *name, char path[PATH_MAX]) {
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    must(length > 0);
    must(length < PATH_MAX);
}

void child_remove_folder(const char *folder) {
    char path[PATH_MAX];
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && length > 0 && (size_t)length < sizeof path)
            unlink(path);
    }
    if (listing != NULL)
        closedir(listing);
    rmdir(folder);
}
