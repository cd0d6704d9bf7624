/* Commands. Each gets argv after its name and returns the exit code. Only cli/ exits and reads the
 * environment. */
#ifndef SLUICE_CLI_CMD_H
#define SLUICE_CLI_CMD_H

#include "base/str.h"

#define SL_VERSION "0.1.0"

struct command {
    const char *name;
    const char *usage;   /* "run MODEL ROWS -o RESULTS [options]" */
    const char *purpose; /* one line of `sluice --help` */
    const char *details; /* a paragraph of `sluice COMMAND --help` */
    uint32_t bit;        /* command_bit of its options */
    int (*run)(int argc, char **argv);
};
/* Whether the name is two words, as "bench job" is. */
bool cmd_has_two_words(const struct command *command);
extern const struct command command_table[];
extern const size_t command_count;

int cmd_run(int argc, char **argv);
int cmd_score(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_render(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_bench_job(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_man(int argc, char **argv);
int cmd_completion(int argc, char **argv);

/* Exit code of a status; prints err as "sluice: ..." unless it is SL_OK or an empty SL_ERR_STOPPED.
 */
int cmd_fail(enum status status, const struct error *err);
/* Whether argv asks for help; then prints that of the command. */
bool cmd_help_wanted(int argc, char **argv, const char *name);
void cmd_help(const struct command *command, struct buf *out);
/* Writes a text to standard output (path NULL or "-"), or whole or not at all to a file. */
enum status cmd_write(const char *path, struct str text, struct error *err);
/* The commit that this program was built from; "" when that is not known. */
const char *cmd_commit(void);
/* Flushes stdout: the exit code `code`, or that of a full disk or a closed pipe. */
int cmd_end(int code);
/* Signals: SIGINT and SIGTERM set a flag (the second one ends at once). */
void signals_install(void);
void signals_ignore(void); /* SIGPIPE and SIGXFSZ: writes fail instead */
void signals_time_box(double seconds);
bool signals_should_stop(void);
int signals_exit_code(void); /* 130 or 143 */

#endif
