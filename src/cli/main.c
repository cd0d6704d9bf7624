/* The program: finds the command and runs it. */
#include "cli/cmd.h"

#include "base/log.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_USAGE = 2 };

/* Closed standard streams would be taken by the next files opened, and messages written into them.
 */
static void fill_streams(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

static void print_help(void) {
    printf("sluice answers files of prompts with language models that need not fit in memory.\n\n");
    for (size_t i = 0; i < command_count; i++)
        printf("  sluice %-38s %s\n", command_table[i].usage, command_table[i].purpose);
    printf(
        "\nMODEL is a folder with safetensors, a .gguf file, or a name, such as qwen2.5:0.5b; ROWS "
        "is a file\nwith a JSON object a line: {\"id\", \"prompt\"} or {\"id\", \"messages\"}.\n\n"
        "  sluice COMMAND --help    what a command does, and all its options\n"
        "  sluice --version\n");
}

static int refuse(const char *name) {
    static const char *const later[] = {"pack", "serve"};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        if (strcmp(later[i], name) == 0) {
            log_error("%s is not in this version: sluice --help lists what there is", name);
            return EXIT_USAGE;
        }
    }
    log_error("there is no command %s: sluice --help lists what there is", name);
    return EXIT_USAGE;
}

/* "bench job" goes before "bench". */
static const struct command *find_command(int argc, char **argv) {
    const struct command *found = NULL;
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &command_table[i];
        size_t first = strcspn(command->name, " ");
        if (strlen(argv[1]) != first || strncmp(command->name, argv[1], first) != 0)
            continue;
        if (!cmd_has_two_words(command))
            found = found == NULL ? command : found;
        else if (argc > 2 && strcmp(command->name + first + 1, argv[2]) == 0)
            found = command;
    }
    return found;
}

/* argv: "help" and the name of a command. */
static int help_on(int argc, char **argv) {
    const struct command *command = find_command(argc, argv);
    if (command == NULL)
        return refuse(argv[1]);
    char flag[] = "--help", *words[] = {flag};
    cmd_help_wanted(1, words, command->name);
    return cmd_end(0);
}

int main(int argc, char **argv) {
    fill_streams();
    /* Large arrays straight from the kernel: what is freed goes back, what is untouched does not
     * count. The library's own rule would raise this with the first array that is freed. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    signals_ignore();
    if (argc < 2) {
        log_error("no command is given: sluice --help lists what there is");
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) {
        printf("sluice %s%s%s%s\n", SL_VERSION, cmd_commit()[0] != '\0' ? " (" : "", cmd_commit(),
               cmd_commit()[0] != '\0' ? ")" : "");
        return cmd_end(0);
    }
    bool is_help = strcmp(name, "help") == 0;
    if (is_help && argc > 2)
        return help_on(argc - 1, argv + 1);
    if (is_help || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help();
        return cmd_end(0);
    }
    const struct command *command = find_command(argc, argv);
    if (command == NULL)
        return refuse(name);
    int words = 1 + cmd_has_two_words(command);
    return command->run(argc - 1 - words, argv + 1 + words);
}
