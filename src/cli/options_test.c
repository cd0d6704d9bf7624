/* The one table: what is taken, what is refused and how it is said. */
#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 12 };

struct parsed {
    struct settings settings;
    const char *operands[2];
    size_t count;
    struct buf config_text;
    struct error err;
};

/* Splits the line at spaces and parses it; the words stay valid until the next call. */
static enum status parse(const char *line, enum command_bit command, struct parsed *out) {
    static char text[512];
    char *argv[ARGUMENTS_MAX];
    int argc = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = text; *word != '\0';) {
        char *space = strchr(word, ' ');
        argv[argc++] = word;
        assert_true(argc < ARGUMENTS_MAX);
        if (space == NULL)
            break;
        *space = '\0';
        word = space + 1;
    }
    memset(out, 0, sizeof *out);
    buf_init(&out->config_text);
    options_defaults(&out->settings);
    return options_parse(argc, argv, command, &out->settings, out->operands, 2, &out->count,
                         &out->config_text, &out->err);
}

static void takes(const char *line, struct parsed *out) {
    if (parse(line, FOR_RUN, out) != SL_OK)
        fail_msg("%s: %s", line, out->err.text);
}

static void refuses(const char *line, const char *says) {
    struct parsed out;
    assert_int_equal(parse(line, FOR_RUN, &out), SL_ERR_USAGE);
    if (strstr(out.err.text, says) == NULL)
        fail_msg("%s: \"%s\" does not hold \"%s\"", line, out.err.text, says);
    buf_release(&out.config_text);
}

static void every_spelling_of_an_option_is_taken(void **state) {
    (void)state;
    static const char *const lines[] = {"m r -o out", "m -oout r", "--output out m r",
                                        "--output=out -- m r", "m r -o x -o out"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct parsed out;
        takes(lines[i], &out);
        assert_string_equal(out.settings.output, "out");
        assert_int_equal(out.count, 2);
        assert_string_equal(out.operands[0], "m");
        assert_string_equal(out.operands[1], "r");
    }
    struct parsed out;
    takes("- -o - --overwrite --overwrite=false", &out);
    assert_string_equal(out.operands[0], "-");
    assert_string_equal(out.settings.output, "-");
    assert_false(out.settings.overwrites);
}

static void values_land_in_their_settings(void **state) {
    (void)state;
    struct parsed out;
    takes("--max-tokens 9 --temperature 0.5 --stop=a --stop b", &out);
    assert_int_equal(out.settings.max_tokens, 9);
    assert_true(out.settings.temperature == 0.5);
    assert_int_equal(out.settings.stop_count, 2);
    assert_true(str_is(out.settings.stops[1], "b"));
    takes("--temperature model --engine stream --shard 2/3", &out);
    assert_true(out.settings.temperature_is_models);
    assert_string_equal(out.settings.engine, "stream");
    assert_int_equal(out.settings.shard_index, 2);
    assert_int_equal(out.settings.shard_count, 3);
    takes("--memory 1.5G --time-box 90s --logprobs 0", &out);
    assert_true(out.settings.memory_bytes == (uint64_t)3 << 29);
    assert_true(out.settings.time_box_seconds == 90);
    assert_int_equal(out.settings.logprobs, 0);
    takes("--chunk 64K", &out);
    assert_int_equal(out.settings.chunk_bytes, 65536);
    takes("--chunk 1G", &out);
    assert_int_equal(out.settings.chunk_bytes, 1 << 30);
    takes("", &out);
    assert_int_equal(out.settings.max_tokens, 512);
    assert_int_equal(out.settings.logprobs, -1);
}

static void wrong_values_say_what_would_be_right(void **state) {
    (void)state;
    refuses("--max-tokens 0", "--max-tokens 0: it must be a whole number of at least 1");
    refuses("--max-tokens -1", "--max-tokens -1");
    refuses("--max-tokens 5x", "--max-tokens 5x");
    refuses("--max-tokens 99999999999999999999", "--max-tokens");
    refuses("--top-p 1.5", "--top-p 1.5: it must be a number from 0 to 1");
    refuses("--top-p nan", "--top-p nan");
    refuses("--temperature hot", "--temperature hot");
    refuses("--seed 18446744073709551615",
            "--seed 18446744073709551615: it must be a whole number of at least 0, below 2^63");
    refuses("--logprobs 21", "--logprobs 21: it must be a whole number from 0 to 20");
    refuses("--engine fast", "one of auto,resident,stream");
    refuses("--engine auto,resident", "one of auto,resident,stream");
    refuses("--memory 3X", "--memory 3X: it must be a size");
    refuses("--memory 0", "--memory 0: it must be a size");
    refuses("--batch 0", "--batch 0: it must be a whole number from 1 to 1000000000");
    refuses("--deadline -1", "--deadline -1: it must be a number from 0 to 1000000");
    refuses("--chunk 3", "--chunk 3: it must be a size from 64K to 1G");
    refuses("--chunk 65535", "from 64K to 1G");
    refuses("--chunk 1.1G", "from 64K to 1G");
    refuses("--time-box 8y", "a duration");
    refuses("--shard 4/3", "I/N");
    refuses("--shard 0/3", "I/N");
    refuses("--overwrite=maybe", "true or false");
    refuses("m r --memory", "--memory needs a value");
    refuses("a b c", "c is one argument too many");
}

static void typos_name_the_nearest_option(void **state) {
    (void)state;
    refuses("--max-token 5", "is it --max-tokens?");
    refuses("--temprature 1", "is it --temperature?");
    refuses("--sede 1", "is it --seed?");
    refuses("--wholly-other", "--help lists");
    refuses("--special", "--help lists"); /* of another command */
    refuses("-x", "there is no option -x");
}

static void sizes_and_durations_have_units(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"4096", 4096},
                 {"3G", (uint64_t)3 << 30},
                 {"512M", (uint64_t)512 << 20},
                 {"1k", 1024},
                 {"2T", (uint64_t)2 << 40},
                 {"1.5K", 1536},
                 {"3GiB", 3221225472u},
                 {"7B", 7},
                 {"1MB", 1048576}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t bytes = 0;
        assert_true(option_size(str_from(sizes[i].text), &bytes));
        assert_true(bytes == sizes[i].bytes);
    }
    static const char *const wrong[] = {"",    "G",     "-1",           "1e3", "1GG", ".5G",
                                        "1 G", "1.2.3", "99999999999T", "iB",  "1iB"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t bytes;
        if (option_size(str_from(wrong[i]), &bytes))
            fail_msg("\"%s\" was taken", wrong[i]);
    }
    double flops = 0;
    assert_true(option_flops(STR("2T"), &flops) && flops == 2e12);
    assert_true(option_flops(STR("1.5G"), &flops) && flops == 1.5e9);
    assert_true(option_flops(STR("1000"), &flops) && flops == 1000);
    static const char *const wrong_flops[] = {"",   "T",   "0",    "0.5",  "-1T",
                                              "2Q", "2TB", "1e12", "2000P"};
    for (size_t i = 0; i < sizeof wrong_flops / sizeof wrong_flops[0]; i++)
        assert_false(option_flops(str_from(wrong_flops[i]), &flops));
    double seconds;
    assert_true(option_duration(STR("30m"), &seconds) && seconds == 1800);
    assert_true(option_duration(STR("8h"), &seconds) && seconds == 28800);
    assert_true(option_duration(STR("90"), &seconds) && seconds == 90);
    assert_false(option_duration(STR("0s"), &seconds));
    assert_false(option_duration(STR("5ms"), &seconds));
}

static void config_files_hold_the_same_names(void **state) {
    (void)state;
    char path[] = "/tmp/sluice-config-XXXXXX", line[256];
    int fd = mkstemp(path);
    static const char text[] = "# a comment\r\n\r\n max-tokens = 7 \nstop = a b=c\noverwrite\n"
                               "temperature=model\nseed = 3";
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    struct parsed out;
    /* The command line wins, before the file and behind it. */
    static const char *const lines[] = {"--max-tokens 8 --overwrite=false --config %s",
                                        "--config %s --max-tokens 8 --overwrite=false",
                                        "--max-tokens 8 m --config=%s --overwrite=false r"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(line, sizeof line, lines[i], path);
        takes(line, &out);
        assert_int_equal(out.settings.max_tokens, 8);
        assert_int_equal(out.settings.seed, 3);
        assert_false(out.settings.overwrites);
        assert_true(out.settings.temperature_is_models);
        assert_int_equal(out.settings.stop_count, 1);
        assert_true(str_is(out.settings.stops[0], "a b=c"));
        buf_release(&out.config_text);
    }
    snprintf(line, sizeof line, "--stop x --stop y --temperature 1 --config %s", path);
    takes(line, &out);
    assert_int_equal(out.settings.stop_count, 2); /* in place of those of the file */
    assert_true(str_is(out.settings.stops[0], "x"));
    assert_false(out.settings.temperature_is_models);
    assert_true(out.settings.overwrites);
    buf_release(&out.config_text);
    snprintf(line, sizeof line, "--stop --config -- %s", path); /* a value, and an operand */
    takes(line, &out);
    assert_int_equal(out.settings.max_tokens, 512);
    assert_true(str_is(out.settings.stops[0], "--config"));
    snprintf(line, sizeof line, "--config %s --config %s", path, path);
    refuses(line, "--config is given twice");

    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "\nmax-tokns = 7\n", 15, 0), 15);
    snprintf(line, sizeof line, "--config=%s", path);
    refuses(line, "line 2: there is no option --max-tokns: is it --max-tokens?");
    assert_int_equal(pwrite(fd, "\nconfig    = 7\n", 15, 0), 15);
    refuses(line, "cannot name another");
    refuses("--config /no-such-file", "/no-such-file");
    close(fd);
    unlink(path);
}

/* A name may have a row for each of several commands. */
static bool has_option(const char *name, enum command_bit command) {
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(option_table[i].name, name) == 0 && (option_table[i].commands & command))
            return true;
    return false;
}

static void help_has_every_option_of_a_command(void **state) {
    (void)state;
    struct buf help;
    buf_init(&help);
    options_help(FOR_RUN, &help);
    for (size_t i = 0; i < option_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "--%s ", option_table[i].name);
        bool is_there = strstr(help.data, name) != NULL;
        assert_true(is_there == has_option(option_table[i].name, FOR_RUN));
    }
    assert_non_null(strstr(help.data, "--config FILE"));
    buf_release(&help);
}

static void no_command_has_an_option_twice(void **state) {
    (void)state;
    for (size_t i = 0; i < option_count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(option_table[i].name, option_table[j].name) == 0)
                assert_int_equal(option_table[i].commands & option_table[j].commands, 0);
}

static void help_is_in_two_columns(void **state) {
    (void)state;
    struct buf help;
    buf_init(&help);
    options_help(FOR_RUN, &help);
    size_t column = 0;
    for (char *line = help.data, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        const char *gap = strstr(strstr(line, "--"), "  "); /* behind the option's name */
        assert_non_null(gap);
        size_t begins = (size_t)(gap - line) + strspn(gap, " ");
        assert_true(column == 0 || begins == column);
        column = begins;
    }
    buf_release(&help);
}

static void help_tells_hints_and_what_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "takes a form of the model with fewer bits, if one is here (24)",
        "8 and 4 take a form of the model that was fetched",
        "the command line wins over it",
    };
    struct buf help;
    buf_init(&help);
    options_help(FOR_RUN, &help);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strstr(help.data, texts[i]) == NULL)
            fail_msg("not in the help: %s", texts[i]);
    }
    buf_release(&help);
}

static void clock_of_templates_comes_from_the_environment(void **state) {
    (void)state;
    struct settings settings;
    assert_int_equal(setenv("SOURCE_DATE_EPOCH", "1741529107", 1), 0);
    options_defaults(&settings);
    assert_true(settings.has_epoch);
    assert_int_equal(settings.epoch, 1741529107);
    assert_int_equal(setenv("SOURCE_DATE_EPOCH", "tomorrow", 1), 0);
    options_defaults(&settings);
    assert_false(settings.has_epoch);
    unsetenv("SOURCE_DATE_EPOCH");
}

static void add_fingerprint(const char *const *arguments, int count, struct fingerprint *out) {
    struct settings settings;
    struct buf config;
    size_t operands = 0;
    char *argv[8];
    struct error err = {0};
    buf_init(&config);
    for (int i = 0; i < count; i++)
        argv[i] = (char *)(uintptr_t)arguments[i];
    fingerprint_init(out);
    options_defaults(&settings);
    if (options_parse(count, argv, FOR_RUN, &settings, NULL, 0, &operands, &config, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(options_fingerprint(&settings, out, NULL), SL_OK);
    buf_release(&config);
}

/* Another value than the default, as it reads in a refusal. */
struct worded {
    const char *option, *value, *was, *is;
};

static const struct worded worded[] = {
    {"--max-tokens", "24", "512", "24"},
    {"--temperature", "0.7", "0", "0.7"},
    {"--temperature", "model", "0", "model"},
    {"--top-p", "0.123456789", "1", "0.123456789"},
    {"--top-k", "40", "0", "40"},
    {"--min-p", "0.05", "0", "0.05"},
    {"--seed", "7", "0", "7"},
    {"--stop", "a\"\n", "none", "\"a\\\"\\n\""},
    {"--system", "", "none", "\"\""},
    {"--kv", "f32", "bf16", "f32"},
    {"--ignore-eos", NULL, "off", "on"},
    {"--content-specials", "text", "allow", "text"},
    {"--limit", "5", "0", "5"},
    {"--shard", "2/3", "0/0", "2/3"},
    {"--token-ids", NULL, "off", "on"},
    {"--logprobs", "0", "-1", "0"},
    {"--order", "completion", "input", "completion"},
};
#define WORDED_COUNT (sizeof worded / sizeof worded[0])

static void options_that_change_answers_are_in_the_fingerprint(void **state) {
    (void)state;
    for (size_t i = 0; i < WORDED_COUNT; i++) {
        const char *arguments[] = {worded[i].option, worded[i].value};
        struct fingerprint was, is;
        struct buf text;
        char expected[200];
        buf_init(&text);
        add_fingerprint(NULL, 0, &was);
        add_fingerprint(arguments, worded[i].value != NULL ? 2 : 1, &is);
        assert_int_equal(fingerprint_compare(&was, &is, &text), 1);
        snprintf(expected, sizeof expected, "%s was %s, is %s", worded[i].option, worded[i].was,
                 worded[i].is);
        assert_string_equal(text.data, expected);
        buf_release(&text);
        fingerprint_release(&was);
        fingerprint_release(&is);
    }
    /* Every one of the table is in the list above, but for those whose choice is kept instead. */
    for (size_t i = 0; i < option_count; i++) {
        const char *name = option_table[i].name;
        bool is_listed = strcmp(name, "precision") == 0 || strcmp(name, "kernels") == 0;
        for (size_t w = 0; w < WORDED_COUNT; w++)
            is_listed = is_listed || strcmp(worded[w].option + 2, name) == 0;
        if (option_table[i].is_in_fingerprint && !is_listed)
            fail_msg("--%s is not in the list", name);
    }
}

static void options_of_how_a_job_runs_are_not_in_the_fingerprint(void **state) {
    (void)state;
    const char *arguments[] = {"--batch",  "3",      "--memory",  "3G",
                               "--engine", "stream", "--threads", "2"};
    struct fingerprint was, is;
    struct buf text;
    buf_init(&text);
    add_fingerprint(NULL, 0, &was);
    add_fingerprint(arguments, 8, &is);
    assert_int_equal(fingerprint_compare(&was, &is, &text), 0);
    buf_release(&text);
    fingerprint_release(&was);
    fingerprint_release(&is);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_of_an_option_is_taken),
        cmocka_unit_test(values_land_in_their_settings),
        cmocka_unit_test(wrong_values_say_what_would_be_right),
        cmocka_unit_test(typos_name_the_nearest_option),
        cmocka_unit_test(sizes_and_durations_have_units),
        cmocka_unit_test(config_files_hold_the_same_names),
        cmocka_unit_test(help_has_every_option_of_a_command),
        cmocka_unit_test(no_command_has_an_option_twice),
        cmocka_unit_test(help_is_in_two_columns),
        cmocka_unit_test(help_tells_hints_and_what_is_refused),
        cmocka_unit_test(clock_of_templates_comes_from_the_environment),
        cmocka_unit_test(options_that_change_answers_are_in_the_fingerprint),
        cmocka_unit_test(options_of_how_a_job_runs_are_not_in_the_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
