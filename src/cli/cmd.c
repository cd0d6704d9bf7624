/* Owns what the commands share: their table, help, and the way from a status to an exit code. */
#include "cli/cmd.h"

#include "base/log.h"
#include "cli/options.h"
#include "io/save.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3, EXIT_PIPE = 141 };

const struct command command_table[] = {
    {"run", "run MODEL ROWS -o RESULTS [options]", "answer every row of a file",
     "Reads prompts, a JSON object a line ({\"id\", \"prompt\"}, {\"id\", \"messages\"}, or a "
     "line of\n"
     "the OpenAI Batch API), and writes an answer a line. MODEL is a folder with safetensors, a\n"
     ".gguf file (of a split set the first), or a name as `pull` has it: a model that is not here\n"
     "is fetched. Before the first pass it says what it will do; SIGINT stops it within one block\n"
     "of weights. Stopped, killed or out of room, the same command goes on where it was, by the\n"
     "journal RESULTS.sluice beside the results; of a job that is complete it says so, and ends\n"
     "with the exit code that the job had.\n"
     "Exit codes: 0 every row has an answer, 1 some rows are errors, 2 wrong usage or input,\n"
     "3 the environment (model unreadable, disk full, no memory), 130 or 143 stopped.\n",
     FOR_RUN, cmd_run},
    {"score", "score MODEL ROWS -o RESULTS [options]", "how probable given texts are",
     "Reads {\"context\", \"continuation\"} or {\"prompt\", \"choices\"} a line, and writes the "
     "sum of\n"
     "the log probabilities of each continuation, its tokens, whether it is what the model would\n"
     "have written, and the best choice: as lm-evaluation-harness counts. Nothing is generated, "
     "and\n"
     "what contexts have in common is computed once. A job as `run` has it: the same forms of\n"
     "MODEL, journal, options of memory and engine, and exit codes.\n",
     FOR_SCORE, cmd_score},
    {"plan", "plan MODEL ROWS [options]", "say what run would decide, and run nothing",
     "Reads the rows and the headers of the model, and prints engine, memory, batch and time with\n"
     "the sum behind them. Takes the options of run, and refuses what run refuses. Exit code 1: "
     "the\n"
     "memory budget cannot hold some of the rows, which are errors then.\n",
     FOR_PLAN, cmd_plan},
    {"probe", "probe PATH [options]", "read rates of the drive under a model, a file or a folder",
     "Reads the files of a model (or one file, or in a folder without a model a scratch file of 2 "
     "GiB\n"
     "that it removes) by each method, chunk size and depth, not out of the page cache; prints "
     "the\n"
     "grid, the best cell and the rate that this keeps up, and keeps them in SLUICE_HOME, where "
     "run\n"
     "and plan find them. Takes about a minute and 256 MB at most.\n",
     FOR_PROBE, cmd_probe},
    {"show", "show MODEL [--json]", "what a model is",
     "Family, sizes, number formats, end-of-text tokens with their sources, chat template, "
     "blocks.\n",
     FOR_SHOW, cmd_show},
    {"render", "render MODEL ROWS [options]", "what the model will see of each row",
     "Prints {\"id\", \"text\", \"ids\"} for each row: the text after the chat template and its\n"
     "tokens. Needs the tokenizer's files alone, no weights. Exit code 1 when a row is an error.\n",
     FOR_RENDER, cmd_render},
    {"tokenize", "tokenize MODEL [options] < LINES", "text to token ids and back",
     "Reads {\"text\"} or {\"ids\"} a line from standard input and prints {\"ids\"} or "
     "{\"text\"},\n"
     "a line for each line. Needs the tokenizer's files alone, no weights. Exit code 1 when a\n"
     "line cannot be used.\n",
     FOR_TOKENIZE, cmd_tokenize},
    {"bench", "bench kernels [options]", "how fast the kernels are here",
     "Measures, for each kernel set, number format and token count, the rate of products with\n"
     "weights that come from memory, beside the peak of the instructions and the rate of reading\n"
     "memory, and what decoding costs. Prints a table, or with --json a list with an object for\n"
     "each kernel set, the fastest set last. Takes about 15 s a set and 128 MB to 1 GB; other "
     "work\n"
     "on the machine lowers the figures. Exit code 3: this processor has not that set.\n",
     FOR_BENCH, cmd_bench},
    {"bench job", "bench job MODEL ROWS [options]", "how fast jobs are, by batch size",
     "Runs the job once for each batch size of --batches, each stopped cleanly after --time-box "
     "(60s\n"
     "unless told), in a process and a scratch file of its own, and prints a record: machine, "
     "commit,\n"
     "command, and for each batch size the median pass, tokens a second, read rate, share of the\n"
     "time that the drive was busy, and peak memory. `sluice report` makes a page of it. Takes "
     "the\n"
     "options of run but --batch and those of its output.\n",
     FOR_BENCH_JOB, cmd_bench_job},
    {"verify", "verify MODEL ROWS [options]", "whether answers are the same however they are made",
     "Answers the first rows (--limit, 20 unless told) twice: resident and streamed where the "
     "budget\n"
     "holds the model, else streamed twice with other rows together, one thread and another "
     "reader.\n"
     "With --engine resident or stream, that engine twice, the second time with other rows "
     "together\n"
     "and one thread.\n"
     "Prints each difference and `identical 20/20`. With --against, what of another program's\n"
     "answers is the same: whole answers, first tokens, lengths. Takes the options of run but\n"
     "those of its output. Exit code 1: something differs.\n",
     FOR_VERIFY, cmd_verify},
    {"report", "report FILE... [-o PAGE]", "a page with pictures of jobs",
     "Makes one HTML page, which needs no network, of what `run --metrics` and `bench job` wrote:\n"
     "passes over time, the drive's share, memory against the budget, rows finished, and what was\n"
     "planned beside what was measured. Up to 16 files.\n",
     FOR_REPORT, cmd_report},
    {"pull", "pull NAME [options]", "download a model, or what is missing of it",
     "NAME is a well-known one (llama3.3:70b, qwen2.5:0.5b; `sluice list` shows them all), a\n"
     "repository of the Hugging Face hub (org/name, org/name@revision), or a GGUF file in one\n"
     "(org/name:file.gguf, or a part of the file's name). Downloads go on where they were, each\n"
     "file is checked by the sum that the hub declares, and all lies in the cache that the\n"
     "Hugging Face tools share. Prints where the model lies; run, plan and the others take NAME\n"
     "as MODEL. HF_TOKEN, or the file that `hf auth login` writes, is the token; it goes to\n"
     "HF_ENDPOINT alone.\n",
     FOR_PULL, cmd_pull},
    {"list", "list [--json]", "models that are on this machine, and names that pull knows",
     "Shows the repositories in the Hugging Face cache with their sizes, and then the names of\n"
     "well-known models with repository, size and licence.\n",
     FOR_LIST, cmd_list},
    {"rm", "rm NAME", "remove a model from this machine",
     "Removes a repository from the Hugging Face cache, all its revisions, and says how much room\n"
     "that gave.\n",
     FOR_NONE, cmd_rm},
    {"man", "man", "the manual page, for man -l",
     "Prints the page that `make install` installs: `sluice man | man -l -` shows it.\n", FOR_NONE,
     cmd_man},
    {"completion", "completion SHELL", "completion of commands and options for a shell",
     "Prints a script for bash, zsh or fish; `make install` puts all three where the shells look.\n"
     "By hand, in ~/.bashrc: eval \"$(sluice completion bash)\"\n",
     FOR_NONE, cmd_completion},
};
const size_t command_count = sizeof command_table / sizeof command_table[0];

bool cmd_has_two_words(const struct command *command) {
    return strchr(command->name, ' ') != NULL;
}

int cmd_fail(enum status status, const struct error *err) {
    if (status == SL_OK)
        return 0;
    if (status == SL_ERR_STOPPED && err->text[0] == '\0')
        return EXIT_PIPE;
    log_error("%s", err->text);
    switch (status) {
    case SL_OK:
        break;
    case SL_ERR_USAGE:
    case SL_ERR_INPUT:
        return EXIT_USAGE;
    case SL_ERR_ROW: /* a row that nothing could tell apart from the others: does not happen */
    case SL_ERR_ENV:
        return EXIT_ENVIRONMENT;
    case SL_ERR_STOPPED:
        return signals_exit_code();
    }
    return EXIT_ENVIRONMENT;
}

void cmd_help(const struct command *command, struct buf *out) {
    buf_printf(out, "sluice %s\n\n%s", command->usage, command->details);
    if (command->bit == FOR_NONE)
        return;
    buf_add(out, STR("\nOptions (defaults in brackets)\n"));
    options_help((enum command_bit)command->bit, out);
}

bool cmd_help_wanted(int argc, char **argv, const char *name) {
    bool is_wanted = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        is_wanted = is_wanted || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    if (!is_wanted)
        return false;
    struct buf text;
    buf_init(&text);
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(command_table[i].name, name) == 0)
            cmd_help(&command_table[i], &text);
    }
    fwrite(text.data, 1, text.len, stdout);
    buf_release(&text);
    return true;
}

enum status cmd_write(const char *path, struct str text, struct error *err) {
    if (path != NULL && strcmp(path, "-") != 0)
        return file_save(path, text, err);
    fwrite(text.data, 1, text.len, stdout); /* cmd_end says whether that worked */
    return SL_OK;
}

int cmd_end(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno == EPIPE)
        return EXIT_PIPE;
    log_error("standard output cannot be written: %s", strerror(errno));
    return EXIT_ENVIRONMENT;
}
