/* `man` and `completion`: the manual page and the scripts of the shells, made from the tables of
 * commands and options, so that they cannot differ from what the program takes. */
#include "cli/cmd.h"

#include "cli/options.h"

#include <stdio.h>
#include <string.h>

static const char *const man_begin =
    ".TH SLUICE 1 \"\" \"sluice " SL_VERSION "\" \"User Commands\"\n"
    ".SH NAME\n"
    "sluice \\- answer files of prompts with language models that need not fit in memory\n"
    ".SH SYNOPSIS\n";

static const char *const man_middle =
    ".SH DESCRIPTION\n"
    "sluice answers a whole file of prompts with a large language model, on the processor alone.\n"
    "The weights are read from disk in order, once a pass, and each pass moves every row of a\n"
    "large batch forward; a model that fits into memory stays there.\n"
    "What a row answers does not depend on the batch, the threads, the memory, or an\n"
    "interruption: killed at any instant, the same command goes on where it was.\n"
    ".PP\n"
    "MODEL is a folder with safetensors files, a .gguf file (of a split set the first), or a name\n"
    "such as llama3.3:70b or org/name, as \\fBpull\\fR takes it.\n"
    "ROWS is a file with a JSON object a line: {\"id\", \"prompt\"}, {\"id\", \"messages\"}, or a\n"
    "line of the OpenAI Batch API.\n"
    "A SIZE is bytes, or a number with K, M, G or T, which are powers of 1024; a DURATION a\n"
    "number with s, m, h or d.\n"
    ".SH COMMANDS\n";

static const char *const man_end =
    ".SH EXIT STATUS\n"
    ".TP\n0\nevery row has an answer\n"
    ".TP\n1\nthe job ended, some rows are errors\n"
    ".TP\n2\nwrong usage or input; nothing was started\n"
    ".TP\n3\nthe environment: model unreadable, disk full, no memory\n"
    ".TP\n130, 143\ninterrupted by SIGINT or the time box, by SIGTERM; the same command goes on\n"
    ".TP\n141\nthe reader of standard output has gone\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B SLUICE_HOME\nfolder of models and of the records of drives and runs "
    "(~/.cache/sluice)\n"
    ".TP\n.B HF_HUB_CACHE\nfolder of models that were fetched (HF_HOME/hub)\n"
    ".TP\n.B HF_HOME\nfolder of the Hugging Face tools (~/.cache/huggingface)\n"
    ".TP\n.B HF_TOKEN\nthe token for the hub; else that in the file HF_TOKEN_PATH or "
    "HF_HOME/token\n"
    ".TP\n.B HF_ENDPOINT\nthe hub (https://huggingface.co)\n"
    ".TP\n.B https_proxy, http_proxy, no_proxy\nproxies for downloads\n"
    ".TP\n.B TMPDIR\nfolder for scratch files of \\fBverify\\fR and \\fBbench job\\fR (/tmp)\n"
    ".TP\n.B SOURCE_DATE_EPOCH\nthe clock that chat templates see, in seconds of UTC\n"
    ".SH FILES\n"
    ".TP\n.I RESULTS.sluice\nthe journal of a job, beside its results\n"
    ".SH EXAMPLES\n"
    ".nf\n"
    "sluice run qwen2.5:0.5b rows.jsonl \\-o answers.jsonl\n"
    "sluice plan llama\\-70b/ rows.jsonl \\-\\-memory 48G\n"
    "sluice run llama\\-70b/ rows.jsonl \\-o answers.jsonl \\-\\-max\\-tokens 256\n"
    ".fi\n";

/* Text for roff: hyphens of options stay hyphens, and no line begins a request. */
static void add_roff(const char *text, struct buf *out) {
    for (size_t i = 0; text[i] != '\0'; i++) {
        bool begins_line = i == 0 || text[i - 1] == '\n';
        if (begins_line && (text[i] == '.' || text[i] == '\''))
            buf_add(out, STR("\\&"));
        if (text[i] == '-')
            buf_add(out, STR("\\-"));
        else if (text[i] == '\\')
            buf_add(out, STR("\\e"));
        else
            buf_add_char(out, text[i]);
    }
}

static void add_man_option(const struct option *option, struct buf *out) {
    buf_add(out, STR(".TP\n.B "));
    if (option->letter != 0)
        buf_printf(out, "\\-%c, ", option->letter);
    buf_add(out, STR("\\-\\-"));
    add_roff(option->name, out);
    if (option->argument != NULL)
        buf_printf(out, " \\fI%s\\fR", option->argument);
    buf_add_char(out, '\n');
    add_roff(option->help, out);
    if (option->choices != NULL) {
        buf_add(out, STR("; one of "));
        add_roff(option->choices, out);
    }
    buf_add_char(out, '\n');
}

static void add_man(struct buf *out) {
    buf_add(out, str_from(man_begin));
    for (size_t i = 0; i < command_count; i++) {
        buf_add(out, i == 0 ? STR(".B sluice ") : STR(".br\n.B sluice "));
        add_roff(command_table[i].usage, out);
        buf_add_char(out, '\n');
    }
    buf_add(out, str_from(man_middle));
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &command_table[i];
        buf_add(out, STR(".SS "));
        add_roff(command->usage, out);
        buf_add_char(out, '\n');
        add_roff(command->details, out);
        const struct option *option;
        for (size_t at = 0; (option = options_next((enum command_bit)command->bit, &at)) != NULL;)
            add_man_option(option, out);
    }
    buf_add(out, str_from(man_end));
}

/* ---- shells */

/* A list with commas as words with spaces. */
static void add_words(const char *list, struct buf *out) {
    for (; *list != '\0'; list++)
        buf_add_char(out, *list == ',' ? ' ' : *list);
}

static void add_option_words(const struct command *command, struct buf *out) {
    const struct option *option;
    for (size_t at = 0; (option = options_next((enum command_bit)command->bit, &at)) != NULL;)
        buf_printf(out, "--%s ", option->name);
    buf_add(out, STR("--help"));
}

/* The two `case`s that bash and zsh share: values behind an option, and options of a command. */
static void add_cases(struct buf *out) {
    buf_add(out, STR("    case \"$command $previous\" in\n"));
    for (size_t i = 0; i < command_count; i++) {
        enum command_bit bit = (enum command_bit)command_table[i].bit;
        const struct option *option;
        for (size_t at = 0; (option = options_next(bit, &at)) != NULL;) {
            if (option->choices == NULL)
                continue;
            buf_printf(out, "    \"%s --%s\") words=\"", command_table[i].name, option->name);
            add_words(option->choices, out);
            buf_add(out, STR("\" ;;\n"));
        }
    }
    buf_add(out, STR("    \"bench bench\") words=\"kernels job\" ;;\n"
                     "    \"completion completion\") words=\"bash zsh fish\" ;;\n"
                     "    esac\n"
                     "    if [[ -z $words && $current == -* ]]; then\n"
                     "        case \"$command\" in\n"));
    for (size_t i = 0; i < command_count; i++) {
        buf_printf(out, "        \"%s\") words=\"", command_table[i].name);
        add_option_words(&command_table[i], out);
        buf_add(out, STR("\" ;;\n"));
    }
    buf_add(out, STR("        esac\n"
                     "    fi\n"));
}

static void add_command_names(struct buf *out) {
    for (size_t i = 0; i < command_count; i++) {
        if (!cmd_has_two_words(&command_table[i]))
            buf_printf(out, "%s ", command_table[i].name);
    }
    buf_add(out, STR("help"));
}

/* bash cuts `--engine=stream` at the sign: the option is then two words back. */
static void add_bash(struct buf *out) {
    buf_add(out, STR("_sluice() {\n"
                     "    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=\n"
                     "    local previous=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "    if [[ $current == = ]]; then\n"
                     "        current=\n"
                     "    elif [[ $previous == = ]]; then\n"
                     "        previous=${COMP_WORDS[COMP_CWORD-2]}\n"
                     "    fi\n"
                     "    if [[ $COMP_CWORD -eq 1 ]]; then\n"
                     "        COMPREPLY=($(compgen -W \""));
    add_command_names(out);
    buf_add(
        out,
        STR("\" -- \"$current\"))\n"
            "        return\n"
            "    fi\n"
            "    [[ \"$command ${COMP_WORDS[2]}\" == \"bench job\" ]] && command=\"bench job\"\n"));
    add_cases(out);
    buf_add(out, STR("    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                     "}\n"
                     "complete -o default -F _sluice sluice\n"));
}

static void add_zsh(struct buf *out) {
    buf_add(out,
            STR("#compdef sluice\n"
                "_sluice() {\n"
                "    local current=${words[CURRENT]} command=${words[2]} line=(\"$words[@]\")\n"
                "    local previous=${line[CURRENT-1]} words=\n"
                "    if (( CURRENT == 2 )); then\n"
                "        compadd -- "));
    add_command_names(out);
    buf_add(out,
            STR("\n"
                "        return\n"
                "    fi\n"
                "    [[ \"$command ${line[3]}\" == \"bench job\" ]] && command=\"bench job\"\n"));
    add_cases(out);
    buf_add(out, STR("    if [[ -n $words ]]; then\n"
                     "        compadd -- ${=words}\n"
                     "    else\n"
                     "        _files\n"
                     "    fi\n"
                     "}\n"
                     "if [[ $funcstack[1] == _sluice ]]; then _sluice \"$@\"; "
                     "else compdef _sluice sluice; fi\n"));
}

/* In single quotes of fish, where \ and ' are escaped. */
static void add_fish_text(const char *text, struct buf *out) {
    buf_add_char(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            buf_add_char(out, '\\');
        buf_add_char(out, *text);
    }
    buf_add(out, STR("'\n"));
}

static void add_fish(struct buf *out) {
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &command_table[i];
        const char *second = strchr(command->name, ' ');
        if (second == NULL) {
            buf_printf(out, "complete -c sluice -n __fish_use_subcommand -f -a %s -d ",
                       command->name);
            add_fish_text(command->purpose, out);
        }
        const struct option *option;
        for (size_t at = 0; (option = options_next((enum command_bit)command->bit, &at)) != NULL;) {
            buf_printf(out, "complete -c sluice -n '__fish_seen_subcommand_from %s' -l %s",
                       second != NULL ? second + 1 : command->name, option->name);
            if (option->letter != 0)
                buf_printf(out, " -s %c", option->letter);
            if (option->choices != NULL) {
                buf_add(out, STR(" -x -a '"));
                add_words(option->choices, out);
                buf_add_char(out, '\'');
            } else if (option->argument != NULL) {
                buf_add(out, STR(" -r"));
            }
            buf_add(out, STR(" -d "));
            add_fish_text(option->help, out);
        }
    }
    buf_add(out, STR("complete -c sluice -n '__fish_seen_subcommand_from completion' -f "
                     "-a 'bash zsh fish'\n"));
}

static const struct shell {
    const char *name;
    void (*add)(struct buf *out);
} shells[] = {{"bash", add_bash}, {"zsh", add_zsh}, {"fish", add_fish}};

/* ---- the commands */

/* Fills operands with what is no option; there is none but --help. */
static enum status read_operands(int argc, char **argv, const char **operand, size_t wanted,
                                 struct error *err) {
    struct settings settings;
    struct buf config_text;
    size_t count;
    options_defaults(&settings);
    buf_init(&config_text);
    enum status status =
        options_parse(argc, argv, FOR_NONE, &settings, operand, wanted, &count, &config_text, err);
    buf_release(&config_text);
    TRY(status);
    if (count < wanted)
        return error_set(err, SL_ERR_USAGE, "completion: name a shell: bash, zsh or fish");
    return SL_OK;
}

static int print(void (*add)(struct buf *out)) {
    struct error err = {0};
    struct buf out;
    buf_init(&out);
    add(&out);
    int code = 0;
    if (out.has_failed)
        code = cmd_fail(error_memory(&err, out.len, "the text"), &err);
    else
        fwrite(out.data, 1, out.len, stdout);
    buf_release(&out);
    return cmd_end(code);
}

int cmd_man(int argc, char **argv) {
    struct error err = {0};
    if (cmd_help_wanted(argc, argv, "man"))
        return cmd_end(0);
    enum status status = read_operands(argc, argv, NULL, 0, &err);
    return status == SL_OK ? print(add_man) : cmd_fail(status, &err);
}

int cmd_completion(int argc, char **argv) {
    struct error err = {0};
    const char *name = NULL;
    if (cmd_help_wanted(argc, argv, "completion"))
        return cmd_end(0);
    enum status status = read_operands(argc, argv, &name, 1, &err);
    if (status != SL_OK)
        return cmd_fail(status, &err);
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shells[i].name, name) == 0)
            return print(shells[i].add);
    }
    status = error_set(&err, SL_ERR_USAGE,
                       "completion: there is no script for %s: name bash, zsh or fish", name);
    return cmd_fail(status, &err);
}
