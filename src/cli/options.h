/* Options: ONE table of settings, from which come parsing, --config files, --help, the manual's
 * option list and the fingerprint. */
#ifndef SLUICE_CLI_OPTIONS_H
#define SLUICE_CLI_OPTIONS_H

#include "job/fingerprint.h"
#include "plan/settings.h"

/* Defaults of bench: the formats of most published models, one of each way to store scales. */
#define SL_BENCH_DTYPES "f32,f16,bf16,q8_0,q4_0,q4_1,q4_k,q6_k,mxfp4,fp8_e4m3,mlx_4bit"
#define SL_BENCH_TOKENS "1,2,4,8,16,32,64,128,256,512"
#define SL_BENCH_SHAPE "4096x4096"
#define SL_BENCH_BATCHES "1,4,16,64"

/* Units and ranges of the values are in the table's help. */
enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_TEXTS,
    OPTION_CHOICE,
    OPTION_INTEGER,
    OPTION_REAL,
    OPTION_SIZE,
    OPTION_FLOPS,
    OPTION_DURATION,
    OPTION_SHARD,
    OPTION_TEMPERATURE
};

enum command_bit {
    FOR_NONE = 0,
    FOR_RUN = 1,
    FOR_PLAN = 2,
    FOR_SHOW = 4,
    FOR_RENDER = 8,
    FOR_TOKENIZE = 16,
    FOR_BENCH = 32,
    FOR_PROBE = 64,
    FOR_PULL = 128,
    FOR_LIST = 256,
    FOR_VERIFY = 512,
    FOR_BENCH_JOB = 1024,
    FOR_REPORT = 2048,
    FOR_SCORE = 4096
};

struct option {
    const char *name;     /* "max-tokens" */
    char letter;          /* 'o' or 0 */
    const char *argument; /* "N"; NULL: a flag */
    const char *choices;  /* OPTION_CHOICE: "auto,resident,stream"; else NULL */
    enum option_kind kind;
    size_t offset;      /* in struct settings */
    double least, most; /* of numbers */
    uint32_t commands;  /* command_bit */
    bool is_in_fingerprint;
    const char *help; /* one sentence, with the default */
};
extern const struct option option_table[];
extern const size_t option_count;

void options_defaults(struct settings *settings);
/* Parses argv after the command. operands gets what is no option (at most operands_max). Wrong
 * usage: SL_ERR_USAGE, one sentence that names the option, and what would be right (nearest name
 * for a typo). A --config file is read first, wherever it stands, so that the command line wins
 * over it (its errors name file and line); its text is kept in config_text (released by the caller
 * after the run). */
enum status options_parse(int argc, char **argv, enum command_bit command,
                          struct settings *settings, const char **operands, size_t operands_max,
                          size_t *operand_count, struct buf *config_text, struct error *err);
/* The option that a word of the command line with a leading - names, NULL when there is none;
 * *value: what stands in the same word, NULL: an option that has a value takes the next word. */
const struct option *options_match(const char *word, enum command_bit command, const char **value);
/* Adds what the settings say of every option that is in the fingerprint, as a name and a value in
 * words. Not of precision and kernels: what was chosen for them counts, not how. option_words.c. */
enum status options_fingerprint(const struct settings *settings, struct fingerprint *fingerprint,
                                struct error *err);
void options_help(enum command_bit command, struct buf *out); /* the option list of a command */
/* The options of a command one by one, --config among them: begins at *at == 0; NULL at the end. */
const struct option *options_next(enum command_bit command, size_t *at);
/* "3G", "512M", "4096", up to SIZE_VALUE_MAX; "90s", "30m", "8h". option_units.c. */
#define SIZE_VALUE_MAX 0x1p62
bool option_size(struct str text, uint64_t *bytes);
/* Operations a second, as "2T" or "250G": powers of 1000. */
bool option_flops(struct str text, double *flops);
bool option_duration(struct str text, double *seconds);

#endif
