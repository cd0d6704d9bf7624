/* Owns the one table of settings and the reading of values: from the command line, from --config
 * files, and the help. A value is refused with the option's name and what would be right; a name
 * that is not in the table with the nearest one that is. */
#include "cli/options.h"

#include "base/clock.h"
#include "cli/model_name.h"
#include "io/file.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whatever begins jobs takes what decides how they go; results and metrics are those of one job. */
#define FOR_ONE_ANSWER (FOR_RUN | FOR_PLAN)
#define FOR_ONE_JOB (FOR_ONE_ANSWER | FOR_SCORE)
#define FOR_ANSWERS (FOR_ONE_ANSWER | FOR_VERIFY | FOR_BENCH_JOB) /* not what scores texts */
#define FOR_JOB (FOR_ANSWERS | FOR_SCORE)
#define FOR_ROWS (FOR_JOB | FOR_RENDER)
#define AT(member) offsetof(struct settings, member)
#define INTEGER_MAX 9e18
#define CONFIG_BYTES_MAX ((size_t)1 << 20)

const struct option option_table[] = {
    {"output", 'o', "FILE", NULL, OPTION_TEXT, AT(output), 0, 0, FOR_ONE_JOB, false,
     "where the results go; - is standard output"},
    {"overwrite", 0, NULL, NULL, OPTION_FLAG, AT(overwrites), 0, 0, FOR_ONE_JOB, false,
     "start again over old results; without it an unfinished job goes on"},
    {"max-tokens", 0, "N", NULL, OPTION_INTEGER, AT(max_tokens), 1, INTEGER_MAX,
     FOR_ANSWERS | FOR_RENDER, true,
     "most tokens of an answer; a row's own value wins, as it does for sampling (512)"},
    {"temperature", 0, "T", NULL, OPTION_TEMPERATURE, AT(temperature), 0, 1000, FOR_ANSWERS, true,
     "0 is greedy; `model` takes what the model's files suggest (0)"},
    {"top-p", 0, "P", NULL, OPTION_REAL, AT(top_p), 0, 1, FOR_ANSWERS, true,
     "sample among the most probable tokens that together have P (1: off)"},
    {"top-k", 0, "K", NULL, OPTION_INTEGER, AT(top_k), 0, INTEGER_MAX, FOR_ANSWERS, true,
     "sample among the K most probable tokens (0: off)"},
    {"min-p", 0, "P", NULL, OPTION_REAL, AT(min_p), 0, 1, FOR_ANSWERS, true,
     "sample among tokens at least P times as probable as the best (0: off)"},
    {"seed", 0, "N", NULL, OPTION_INTEGER, AT(seed), 0, INTEGER_MAX, FOR_ANSWERS, true,
     "of the sampling (0)"},
    {"stop", 0, "TEXT", NULL, OPTION_TEXTS, AT(stops), 0, 0, FOR_ANSWERS, true,
     "ends an answer and is cut from it; may be given again, up to 64 times"},
    {"system", 0, "TEXT", NULL, OPTION_TEXT, AT(system), 0, 0, FOR_ANSWERS | FOR_RENDER, true,
     "system message for rows that have none"},
    {"memory", 0, "SIZE", NULL, OPTION_SIZE, AT(memory_bytes), 1, SIZE_VALUE_MAX, FOR_JOB, false,
     "hard limit for the process, as 3G, 512M or bytes (85 % of what is free)"},
    {"engine", 0, "NAME", "auto,resident,stream", OPTION_CHOICE, AT(engine), 0, 0, FOR_JOB, false,
     "weights in memory, or read anew for each pass (auto)"},
    {"precision", 0, "NAME", "auto,bf16,8,4", OPTION_CHOICE, AT(precision), 0, 0, FOR_JOB, true,
     "auto is as published, used unrounded, or fewer bits by the deadline; 8 and 4 take a form of "
     "the model that was fetched, nothing is converted (auto)"},
    {"deadline", 0, "HOURS", NULL, OPTION_REAL, AT(deadline_hours), 0, 1e6, FOR_JOB, false,
     "a job that would take longer takes a form of the model with fewer bits, if one is here (24)"},
    {"rate", 0, "SIZE", NULL, OPTION_SIZE, AT(rate), 1, 0x1p50, FOR_JOB, false,
     "what the drive reads a second, for the plan's sums (from records, or a probe)"},
    {"flops", 0, "N", NULL, OPTION_FLOPS, AT(flops), 0, 0, FOR_JOB, false,
     "what the processor computes a second, as 250G or 2T, for the plan's sums (from records)"},
    {"batch", 0, "N", NULL, OPTION_INTEGER, AT(batch), 1, 1e9, FOR_JOB & ~(uint32_t)FOR_BENCH_JOB,
     false, "most rows at once (what memory allows)"},
    {"pass-tokens", 0, "N", NULL, OPTION_INTEGER, AT(pass_tokens), 1, 1e6, FOR_JOB, false,
     "most tokens that a pass computes (auto)"},
    {"threads", 0, "N", NULL, OPTION_INTEGER, AT(threads), 1, 256, FOR_JOB | FOR_BENCH, false,
     "threads that compute (physical cores that the process may use)"},
    {"kernels", 0, "NAME", "auto,portable,avx512bf16,amx", OPTION_CHOICE, AT(kernels), 0, 0,
     FOR_JOB, true,
     "how products are computed: portable gives the same bits on every processor, avx512bf16 and "
     "amx round activations to bf16, and weights too (auto: bf16 where all weights are)"},
    {"kernels", 0, "NAME", "auto,portable,avx512bf16,amx", OPTION_CHOICE, AT(kernels), 0, 0,
     FOR_BENCH, false, "the kernel set to measure (auto: every one that this processor has)"},
    {"isa", 0, "NAME", NULL, OPTION_TEXT, AT(isa), 0, 0, FOR_JOB | FOR_BENCH, false,
     "the portable kernels on these instructions, such as avx2 or scalar; the bits are the same "
     "(the best)"},
    {"dtype", 0, "LIST", NULL, OPTION_TEXT, AT(dtypes), 0, 0, FOR_BENCH, false,
     "number formats of the weights, separated by commas, or all "
     "(" SL_BENCH_DTYPES ")"},
    {"tokens", 0, "LIST", NULL, OPTION_TEXT, AT(token_counts), 0, 0, FOR_BENCH, false,
     "tokens of a pass, separated by commas (" SL_BENCH_TOKENS ")"},
    {"shape", 0, "OUTxIN", NULL, OPTION_TEXT, AT(shape), 0, 0, FOR_BENCH, false,
     "outputs and inputs of the weights (" SL_BENCH_SHAPE ")"},
    {"seconds", 0, "S", NULL, OPTION_REAL, AT(measure_seconds), 0.001, 60, FOR_BENCH, false,
     "time for each figure (0.1)"},
    {"seconds", 0, "S", NULL, OPTION_REAL, AT(probe_seconds), 1, 86400, FOR_PROBE, false,
     "time for all of it, about; below 15 only the middle of the grid (60)"},
    {"kv", 0, "TYPE", "bf16,f32", OPTION_CHOICE, AT(kv), 0, 0, FOR_JOB, true,
     "number format of keys and values (bf16)"},
    {"reader", 0, "NAME", "auto,pool,uring,sync", OPTION_CHOICE, AT(reader), 0, 0,
     FOR_JOB | FOR_PROBE, false,
     "how weights are read: threads, io_uring or one read at a time (auto)"},
    {"chunk", 0, "SIZE", NULL, OPTION_SIZE, AT(chunk_bytes), 0x1p16, 0x1p30, FOR_JOB | FOR_PROBE,
     false, "bytes of one read, from 64K to 1G (auto)"},
    {"depth", 0, "N", NULL, OPTION_INTEGER, AT(depth), 1, 64, FOR_JOB | FOR_PROBE, false,
     "reads in flight (auto)"},
    {"checksum", 0, NULL, NULL, OPTION_FLAG, AT(has_checksum), 0, 0, FOR_JOB, false,
     "verify weights as they are read, by checksums recorded when they first were"},
    {"ignore-eos", 0, NULL, NULL, OPTION_FLAG, AT(ignores_eos), 0, 0, FOR_ANSWERS, true,
     "an end-of-text token does not end a row; for measuring"},
    {"content-specials", 0, "NAME", "allow,text", OPTION_CHOICE, AT(content_specials), 0, 0,
     FOR_ANSWERS | FOR_RENDER, true,
     "special tokens written inside a message: they count as such, or are plain text (allow)"},
    {"time-box", 0, "DURATION", NULL, OPTION_DURATION, AT(time_box_seconds), 0, 0, FOR_JOB, false,
     "stop cleanly after 90s, 30m or 8h"},
    {"limit", 0, "N", NULL, OPTION_INTEGER, AT(limit), 1, INTEGER_MAX, FOR_ROWS, true,
     "the first N rows alone"},
    {"shard", 0, "I/N", NULL, OPTION_SHARD, AT(shard_index), 0, 0, FOR_ROWS, true,
     "the I-th of N interleaved parts of the rows"},
    {"token-ids", 0, NULL, NULL, OPTION_FLAG, AT(wants_token_ids), 0, 0, FOR_ONE_ANSWER, true,
     "add the token ids to every result"},
    {"logprobs", 0, "N", NULL, OPTION_INTEGER, AT(logprobs), 0, 20, FOR_ANSWERS, true,
     "add log probabilities and the N best tokens to every result, N up to 20 (off)"},
    {"order", 0, "NAME", "input,completion", OPTION_CHOICE, AT(order), 0, 0, FOR_ONE_JOB, true,
     "order of the results at the end (input)"},
    {"progress", 0, "NAME", "auto,line,log,none", OPTION_CHOICE, AT(progress), 0, 0, FOR_JOB, false,
     "a line on a terminal, a log line a minute otherwise (auto)"},
    {"metrics", 0, "FILE", NULL, OPTION_TEXT, AT(metrics), 0, 0, FOR_ONE_JOB, false,
     "one JSON object a pass, and a summary"},
    {"disk-floor", 0, "SIZE", NULL, OPTION_SIZE, AT(disk_floor_bytes), 0, SIZE_VALUE_MAX,
     FOR_PULL | FOR_ONE_JOB, false,
     "room that a download leaves free on the drive of the models, 0 for none (20G)"},
    {"downloads", 0, "N", NULL, OPTION_INTEGER, AT(downloads), 1, 16, FOR_PULL, false,
     "files downloaded at once (4)"},
    {"progress", 0, "NAME", "auto,line,log,none", OPTION_CHOICE, AT(progress), 0, 0, FOR_PULL,
     false, "a line on a terminal, a log line a minute otherwise (auto)"},
    {"score", 0, NULL, NULL, OPTION_FLAG, AT(scores), 0, 0, FOR_PLAN, false,
     "what `score` would decide instead of `run`"},
    {"json", 0, NULL, NULL, OPTION_FLAG, AT(is_json), 0, 0,
     FOR_PLAN | FOR_SHOW | FOR_BENCH | FOR_PROBE | FOR_LIST, false, "JSON instead of text"},
    {"against", 0, "FILE", NULL, OPTION_TEXT, AT(against), 0, 0, FOR_VERIFY, false,
     "answers of another program to compare with, a line with id and text (and token_ids) a row"},
    {"batches", 0, "LIST", NULL, OPTION_TEXT, AT(batches), 0, 0, FOR_BENCH_JOB, false,
     "rows at once, separated by commas, a run for each (" SL_BENCH_BATCHES ")"},
    {"output", 'o', "FILE", NULL, OPTION_TEXT, AT(output), 0, 0, FOR_BENCH_JOB | FOR_REPORT, false,
     "where the record or page goes (standard output)"},
    {"special", 0, NULL, NULL, OPTION_FLAG, AT(adds_special), 0, 0, FOR_TOKENIZE, false,
     "add the special tokens that the tokenizer adds by itself"},
    {"skip-special", 0, NULL, NULL, OPTION_FLAG, AT(skips_special), 0, 0, FOR_TOKENIZE, false,
     "leave special tokens out when decoding"},
};
const size_t option_count = sizeof option_table / sizeof option_table[0];

/* Not a setting: it names a file of settings. */
static const struct option config_option = {
    .name = "config",
    .argument = "FILE",
    .kind = OPTION_TEXT,
    .commands = FOR_ROWS,
    .help = "a file of these settings, one `name = value` a line; # begins a comment; the command "
            "line wins over it"};

/* SLUICE_HOME, or the user's ~/.cache/sluice, in path; NULL when neither is told. */
static const char *records_folder(char path[PATH_MAX]) {
    const char *told = getenv("SLUICE_HOME"), *user = getenv("HOME");
    int length = -1;
    if (told != NULL && told[0] != '\0')
        length = snprintf(path, PATH_MAX, "%s", told);
    else if (user != NULL && user[0] == '/')
        length = snprintf(path, PATH_MAX, "%s/.cache/sluice", user);
    return length > 0 && length < PATH_MAX ? path : NULL;
}

void options_defaults(struct settings *settings) {
    *settings = (struct settings){
        .max_tokens = 512,
        .top_p = 1,
        .engine = "auto",
        .precision = "auto",
        .deadline_hours = 24,
        .kernels = "auto",
        .kv = "bf16",
        .dtypes = SL_BENCH_DTYPES,
        .token_counts = SL_BENCH_TOKENS,
        .shape = SL_BENCH_SHAPE,
        .measure_seconds = 0.1,
        .probe_seconds = 60,
        .disk_floor_bytes = (uint64_t)20 << 30,
        .downloads = 4,
        .batches = SL_BENCH_BATCHES,
        .reader = "auto",
        .content_specials = "allow",
        .logprobs = -1,
        .order = "input",
        .progress = "auto",
        .epoch = clock_wall_seconds(),
    };
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    uint64_t seconds;
    if (epoch != NULL && str_to_u64(str_from(epoch), &seconds) && seconds <= (uint64_t)1 << 40) {
        settings->has_epoch = true;
        settings->epoch = (int64_t)seconds;
    }
    static char home[PATH_MAX], hub[PATH_MAX];
    settings->home = records_folder(home);
    settings->hub = hub_folder(hub) ? hub : NULL;
}

/* ---- values */

static bool read_integer(const char *text, int64_t *out) {
    bool is_negative = text[0] == '-';
    uint64_t value;
    if (!str_to_u64(str_from(text + is_negative), &value) || value > INT64_MAX)
        return false;
    *out = is_negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static bool read_real(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out == *out;
}

static bool is_choice(const char *choices, const char *text) {
    struct str list = str_from(choices), word;
    for (size_t at = 0; at < list.len; at += word.len + 1) {
        size_t comma = str_find(list, STR(","), at);
        word = str_cut(list, at, comma == SIZE_MAX ? list.len : comma);
        if (str_is(word, text))
            return true;
    }
    return false;
}

static enum status wrong(const struct option *option, const char *text, const char *right,
                         struct error *err) {
    return error_set(err, SL_ERR_USAGE, "--%s %s: it must be %s", option->name, text, right);
}

/* A bound of a range, digit by digit: 1000000, not 1e+06. */
static void print_bound(double bound, char *out, size_t room) {
    bool is_whole = bound == (double)(int64_t)bound;
    snprintf(out, room, is_whole ? "%.0f" : "%g", bound);
}

/* A size of whole units: "64K". */
static void print_size(double bytes, char *out, size_t room) {
    static const char units[] = " KMGT";
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 2 < sizeof units; unit++)
        bytes /= 1024;
    snprintf(out, room, unit > 0 ? "%.0f%c" : "%.0f", bytes, units[unit]);
}

static enum status set_number(const struct option *option, const char *text, void *place,
                              struct error *err) {
    char right[96], least[24], most[24];
    int64_t integer = 0;
    double real = 0;
    bool is_integer = option->kind == OPTION_INTEGER;
    bool can_be_read = is_integer ? read_integer(text, &integer) : read_real(text, &real);
    real = is_integer ? (double)integer : real;
    if (!can_be_read || !(real >= option->least && real <= option->most)) {
        print_bound(option->least, least, sizeof least);
        print_bound(option->most, most, sizeof most);
        if (option->most < INTEGER_MAX)
            snprintf(right, sizeof right, "a %snumber from %s to %s", is_integer ? "whole " : "",
                     least, most);
        else
            snprintf(right, sizeof right, "a whole number of at least %s%s", least,
                     !can_be_read && strspn(text, "0123456789") == strlen(text) && *text != 0
                         ? ", below 2^63"
                         : "");
        return wrong(option, text, right, err);
    }
    if (is_integer)
        *(int64_t *)place = integer;
    else
        *(double *)place = real;
    return SL_OK;
}

static enum status set_size(const struct option *option, const char *text, uint64_t *place,
                            struct error *err) {
    uint64_t bytes;
    bool can_be_read = option_size(str_from(text), &bytes);
    if (can_be_read && (double)bytes >= option->least && (double)bytes <= option->most) {
        *place = bytes;
        return SL_OK;
    }
    if (option->most == SIZE_VALUE_MAX)
        return wrong(option, text, "a size, such as 3G, 512M or 4096", err);
    char right[96], least[24], most[24];
    print_size(option->least, least, sizeof least);
    print_size(option->most, most, sizeof most);
    snprintf(right, sizeof right, "a size from %s to %s", least, most);
    return wrong(option, text, right, err);
}

static enum status set_stop(struct settings *settings, const char *text, struct error *err) {
    if (strlen(text) > 4096)
        return error_set(err, SL_ERR_USAGE, "--stop: the text has more than 4096 bytes");
    if (settings->stop_count == SL_STOPS_MAX)
        return error_set(err, SL_ERR_USAGE, "--stop is given more than %u times", SL_STOPS_MAX);
    settings->stops[settings->stop_count++] = str_from(text);
    return SL_OK;
}

static enum status set_shard(const struct option *option, struct settings *settings,
                             const char *text, struct error *err) {
    uint64_t index, count;
    struct str all = str_from(text);
    size_t slash = str_find(all, STR("/"), 0);
    if (slash == SIZE_MAX || !str_to_u64(str_cut(all, 0, slash), &index) ||
        !str_to_u64(str_cut(all, slash + 1, all.len), &count) || index < 1 || index > count ||
        count > INT32_MAX)
        return wrong(option, text, "I/N, with I from 1 to N", err);
    settings->shard_index = (int64_t)index;
    settings->shard_count = (int64_t)count;
    return SL_OK;
}

/* text NULL: a flag that stands alone. */
static enum status set_value(const struct option *option, const char *text,
                             struct settings *settings, struct error *err) {
    void *place = (char *)settings + option->offset;
    switch (option->kind) {
    case OPTION_FLAG:
        if (text != NULL && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return wrong(option, text, "true or false", err);
        *(bool *)place = text == NULL || strcmp(text, "true") == 0;
        return SL_OK;
    case OPTION_TEXT:
        if (text[0] == '\0' && option->letter == 'o')
            return wrong(option, text, "the name of a file", err);
        *(const char **)place = text;
        return SL_OK;
    case OPTION_TEXTS:
        return set_stop(settings, text, err);
    case OPTION_CHOICE:
        if (!is_choice(option->choices, text))
            return error_set(err, SL_ERR_USAGE, "--%s %s: it must be one of %s", option->name, text,
                             option->choices);
        *(const char **)place = text;
        return SL_OK;
    case OPTION_TEMPERATURE:
        settings->temperature_is_models = strcmp(text, "model") == 0;
        if (settings->temperature_is_models)
            return SL_OK;
        return set_number(option, text, place, err);
    case OPTION_INTEGER:
    case OPTION_REAL:
        return set_number(option, text, place, err);
    case OPTION_SIZE:
        return set_size(option, text, place, err);
    case OPTION_FLOPS:
        if (!option_flops(str_from(text), place))
            return wrong(option, text, "operations a second, such as 250G or 2T", err);
        return SL_OK;
    case OPTION_DURATION:
        if (!option_duration(str_from(text), place))
            return wrong(option, text, "a duration, such as 90s, 30m or 8h", err);
        return SL_OK;
    case OPTION_SHARD:
        return set_shard(option, settings, text, err);
    }
    must(false);
    return SL_OK;
}

/* ---- names */

static const struct option *find_option(struct str name, enum command_bit command) {
    if ((config_option.commands & command) && str_is(name, config_option.name))
        return &config_option;
    for (size_t i = 0; i < option_count; i++) {
        if ((option_table[i].commands & command) && str_is(name, option_table[i].name))
            return &option_table[i];
    }
    return NULL;
}

static const struct option *find_letter(char letter, enum command_bit command) {
    for (size_t i = 0; i < option_count; i++) {
        if ((option_table[i].commands & command) && letter != 0 && option_table[i].letter == letter)
            return &option_table[i];
    }
    return NULL;
}

/* Insertions, deletions and replacements from a to b (Levenshtein), b shorter than NAME_MAX_BYTES.
 */
enum { NAME_MAX_BYTES = 32 };
static size_t distance(struct str a, const char *b) {
    size_t row[NAME_MAX_BYTES + 1], length = strlen(b);
    must(length <= NAME_MAX_BYTES);
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t replaced = diagonal + (a.data[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            row[j] = replaced < least ? replaced : least;
        }
    }
    return row[length];
}

static enum status unknown_option(struct str name, enum command_bit command, struct error *err) {
    const char *nearest = NULL;
    size_t least = name.len < 6 ? 3 : 4; /* farther than that is no typo */
    for (size_t i = 0; i < option_count && name.len <= 2 * NAME_MAX_BYTES; i++) {
        if (!(option_table[i].commands & command))
            continue;
        size_t away = distance(name, option_table[i].name);
        if (away < least) {
            least = away;
            nearest = option_table[i].name;
        }
    }
    if (nearest != NULL)
        return error_set(err, SL_ERR_USAGE, "there is no option --%.*s: is it --%s?", STR_ARG(name),
                         nearest);
    return error_set(err, SL_ERR_USAGE, "there is no option --%.*s: --help lists what there is",
                     STR_ARG(name));
}

/* The same of a word of the command line. */
static enum status unknown_word(const char *word, enum command_bit command, struct error *err) {
    struct str name = str_from(word + 2);
    if (word[1] == '-')
        return unknown_option(str_cut(name, 0, str_find(name, STR("="), 0)), command, err);
    return error_set(err, SL_ERR_USAGE, "there is no option %s: --help lists what there is", word);
}

/* ---- --config */

/* One line, which lies in text and is followed by a NUL. */
static enum status config_line(char *line, enum command_bit command, struct settings *settings,
                               struct error *err) {
    struct str whole = str_trim(str_from(line));
    if (whole.len == 0 || whole.data[0] == '#')
        return SL_OK;
    size_t equals = str_find(whole, STR("="), 0);
    struct str name = str_trim(str_cut(whole, 0, equals == SIZE_MAX ? whole.len : equals));
    struct str value =
        str_trim(str_cut(whole, equals == SIZE_MAX ? whole.len : equals + 1, whole.len));
    const struct option *option = find_option(name, command);
    if (option == &config_option)
        return error_set(err, SL_ERR_USAGE, "a config file cannot name another one");
    if (option == NULL)
        return unknown_option(name, command, err);
    if (equals == SIZE_MAX && option->kind != OPTION_FLAG)
        return error_set(err, SL_ERR_USAGE, "%s needs a value: name = value", option->name);
    line[(size_t)(value.data - line) + value.len] = '\0';
    return set_value(option, equals == SIZE_MAX ? NULL : value.data, settings, err);
}

static enum status read_config(const char *path, enum command_bit command,
                               struct settings *settings, struct buf *text, struct error *err) {
    if (text->data != NULL)
        return error_set(err, SL_ERR_USAGE, "--config is given twice");
    if (file_read_all(path, CONFIG_BYTES_MAX, text, err) != SL_OK) {
        if (err != NULL)
            err->status = SL_ERR_USAGE;
        return SL_ERR_USAGE;
    }
    if (text->data == NULL || memchr(text->data, '\0', text->len) != NULL)
        return text->len == 0 ? SL_OK
                              : error_set(err, SL_ERR_USAGE, "%s: there is a NUL in it", path);
    size_t number = 1;
    for (char *line = text->data, *next; line != NULL; line = next, number++) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (config_line(line, command, settings, err) != SL_OK)
            return error_prefix(err, "%s, line %zu", path, number);
    }
    return SL_OK;
}

/* ---- the command line */

/* The line is walked twice: the config file is looked for first, so that all else wins over it. */
struct cursor {
    int argc, at;
    char **argv;
    enum command_bit command;
    struct settings *settings;
    struct buf *config_text;
    bool seeks_config;
    bool has_stops; /* of the command line: they replace those of the config file */
};

/* value NULL: it is the next argument, where the option takes one. */
static enum status take_option(struct cursor *cursor, const struct option *option,
                               const char *value, struct error *err) {
    if (option->argument != NULL && value == NULL) {
        if (cursor->at + 1 >= cursor->argc)
            return error_set(err, SL_ERR_USAGE, "--%s needs a value: %s", option->name,
                             option->choices != NULL ? option->choices : option->argument);
        value = cursor->argv[++cursor->at];
    }
    if (option == &config_option)
        return !cursor->seeks_config ? SL_OK
                                     : read_config(value, cursor->command, cursor->settings,
                                                   cursor->config_text, err);
    if (cursor->seeks_config)
        return SL_OK;
    if (option->kind == OPTION_TEXTS && !cursor->has_stops) {
        cursor->settings->stop_count = 0;
        cursor->has_stops = true;
    }
    return set_value(option, value, cursor->settings, err);
}

const struct option *options_match(const char *word, enum command_bit command, const char **value) {
    struct str name = str_from(word + 2);
    size_t equals = str_find(name, STR("="), 0);
    if (word[1] != '-') {
        *value = word[2] == '\0' ? NULL : word + 2;
        return find_letter(word[1], command);
    }
    *value = equals == SIZE_MAX ? NULL : word + 2 + equals + 1;
    return find_option(str_cut(name, 0, equals), command);
}

static enum status walk(struct cursor *cursor, const char **operands, size_t operands_max,
                        size_t *operand_count, struct error *err) {
    bool has_ended = false; /* by "--" */
    *operand_count = 0;
    for (cursor->at = 0; cursor->at < cursor->argc; cursor->at++) {
        const char *text = cursor->argv[cursor->at];
        if (has_ended || text[0] != '-' || text[1] == '\0') {
            if (*operand_count == operands_max)
                return error_set(err, SL_ERR_USAGE, "%s is one argument too many", text);
            operands[(*operand_count)++] = text;
        } else if (strcmp(text, "--") == 0) {
            has_ended = true;
        } else {
            const char *value;
            const struct option *option = options_match(text, cursor->command, &value);
            TRY(option != NULL ? take_option(cursor, option, value, err)
                               : unknown_word(text, cursor->command, err));
        }
    }
    return SL_OK;
}

enum status options_parse(int argc, char **argv, enum command_bit command,
                          struct settings *settings, const char **operands, size_t operands_max,
                          size_t *operand_count, struct buf *config_text, struct error *err) {
    struct cursor cursor = {.argc = argc,
                            .argv = argv,
                            .command = command,
                            .settings = settings,
                            .config_text = config_text,
                            .seeks_config = true};
    TRY(walk(&cursor, operands, operands_max, operand_count, err));
    cursor.seeks_config = false;
    return walk(&cursor, operands, operands_max, operand_count, err);
}

/* ---- help */

static void add_help(const struct option *option, struct buf *out) {
    char left[96];
    enum { HELP_COLUMN = 31 }; /* two spaces behind the longest */
    int length = snprintf(left, sizeof left, "  %c%c%s--%s%s%s", option->letter ? '-' : ' ',
                          option->letter ? option->letter : ' ', option->letter ? ", " : "  ",
                          option->name, option->argument != NULL ? " " : "",
                          option->argument != NULL ? option->argument : "");
    must(length > 0 && (size_t)length < sizeof left);
    must(length + 2 <= HELP_COLUMN);
    buf_printf(out, "%-*s%s", HELP_COLUMN, left, option->help);
    if (option->choices != NULL)
        buf_printf(out, "; one of %s", option->choices);
    buf_add_char(out, '\n');
}

const struct option *options_next(enum command_bit command, size_t *at) {
    while (*at <= option_count) {
        const struct option *option = *at < option_count ? &option_table[*at] : &config_option;
        ++*at;
        if (option->commands & command)
            return option;
    }
    return NULL;
}

void options_help(enum command_bit command, struct buf *out) {
    const struct option *option;
    for (size_t at = 0; (option = options_next(command, &at)) != NULL;)
        add_help(option, out);
}
