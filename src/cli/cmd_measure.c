/* `bench`: what is measured is in backend/measure.h; here are its options, the table and the JSON.
 */
#include "cli/cmd.h"

#include "backend/backend.h"
#include "backend/measure.h"
#include "base/cpu.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

enum { SETS_MAX = 8, TOKEN_COUNTS_MAX = 32 };

struct figures {
    struct measure_options options;
    enum dtype dtypes[DTYPE_COUNT];
    size_t tokens[TOKEN_COUNTS_MAX];
    struct measure sets[SETS_MAX];
    size_t set_count;
};

/* ---- lists */

/* The part of a list up to the next comma; moves *at behind it. False at the end. */
static bool next_word(struct str list, size_t *at, struct str *word) {
    if (*at > list.len)
        return false;
    size_t comma = str_find(list, STR(","), *at);
    *word = str_cut(list, *at, comma == SIZE_MAX ? list.len : comma);
    *at += word->len + 1;
    return true;
}

static bool find_dtype(struct str name, enum dtype *out) {
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (measure_has_products(dtype) && str_is(name, measure_name(dtype))) {
            *out = dtype;
            return true;
        }
    return false;
}

static enum status unknown_dtype(struct str word, struct error *err) {
    struct buf names;
    buf_init(&names);
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (measure_has_products(dtype))
            buf_printf(&names, ", %s", measure_name(dtype));
    enum status status = error_set(err, SL_ERR_USAGE, "--dtype %.*s: it must be all%.*s",
                                   STR_ARG(word), (int)names.len, names.data ? names.data : "");
    buf_release(&names);
    return status;
}

/* Formats that the inputs are no whole blocks of are passed over, unless they are asked for. */
static enum status read_dtypes(const char *text, struct figures *figures, struct error *err) {
    struct measure_options *options = &figures->options;
    struct str list = str_from(text), word;
    bool is_all = strcmp(text, "all") == 0, is_default = strcmp(text, SL_BENCH_DTYPES) == 0;
    for (enum dtype dtype = 0; is_all && dtype < DTYPE_COUNT; dtype++)
        if (measure_has_products(dtype) && measure_fits(dtype, options->inputs))
            figures->dtypes[options->dtype_count++] = dtype;
    for (size_t at = 0; !is_all && next_word(list, &at, &word);) {
        enum dtype dtype;
        if (!find_dtype(word, &dtype))
            return unknown_dtype(word, err);
        for (size_t i = 0; i < options->dtype_count; i++)
            if (figures->dtypes[i] == dtype)
                return error_set(err, SL_ERR_USAGE, "--dtype: %.*s is given twice", STR_ARG(word));
        if (measure_fits(dtype, options->inputs))
            figures->dtypes[options->dtype_count++] = dtype;
        else if (!is_default)
            return error_set(err, SL_ERR_USAGE,
                             "--dtype %.*s: %zu inputs are no whole blocks of %u values",
                             STR_ARG(word), options->inputs, dtype_get(dtype)->block_values);
    }
    options->dtypes = figures->dtypes;
    return SL_OK;
}

static enum status read_tokens(const char *text, struct figures *figures, struct error *err) {
    struct measure_options *options = &figures->options;
    struct str list = str_from(text), word;
    for (size_t at = 0; next_word(list, &at, &word);) {
        uint64_t count;
        if (!str_to_u64(word, &count) || count < 1 || count > MEASURE_TOKENS_MAX)
            return error_set(err, SL_ERR_USAGE,
                             "--tokens %s: it must be whole numbers from 1 to %zu with commas "
                             "between them",
                             text, MEASURE_TOKENS_MAX);
        if (options->token_count == TOKEN_COUNTS_MAX)
            return error_set(err, SL_ERR_USAGE, "--tokens: there are more than %d of them",
                             TOKEN_COUNTS_MAX);
        figures->tokens[options->token_count++] = (size_t)count;
    }
    options->tokens = figures->tokens;
    return SL_OK;
}

static enum status read_shape(const char *text, struct measure_options *options,
                              struct error *err) {
    struct str shape = str_from(text);
    size_t cross = str_find(shape, STR("x"), 0);
    uint64_t outputs, inputs;
    if (cross == SIZE_MAX || !str_to_u64(str_cut(shape, 0, cross), &outputs) ||
        !str_to_u64(str_cut(shape, cross + 1, shape.len), &inputs) || outputs < 1 || inputs < 1 ||
        outputs > MEASURE_SIDE_MAX || inputs > MEASURE_SIDE_MAX)
        return error_set(err, SL_ERR_USAGE,
                         "--shape %s: it must be OUTxIN, two whole numbers from 1 to %zu", text,
                         MEASURE_SIDE_MAX);
    options->outputs = (size_t)outputs;
    options->inputs = (size_t)inputs;
    return SL_OK;
}

/* ---- JSON */

static void real_field(struct buf *out, const char *name, double value) {
    buf_printf(out, ", \"%s\": ", name);
    json_add_double(out, value);
}

static void features_json(struct buf *out) {
    const struct cpu *cpu = cpu_get();
    const struct {
        const char *name;
        bool is_there;
    } features[] = {{"avx2", cpu->has_avx2_fma},
                    {"avx512", cpu->has_avx512},
                    {"avx512bf16", cpu->has_avx512bf16},
                    {"amx_bf16", cpu->has_amx_bf16}};
    const char *comma = "";
    buf_add(out, STR(", \"features\": ["));
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (features[i].is_there) {
            buf_printf(out, "%s\"%s\"", comma, features[i].name);
            comma = ", ";
        }
    buf_add_char(out, ']');
}

static void set_json(const struct measure *set, struct buf *out) {
    buf_printf(out, "{\"kernels\": \"%s\", \"isa\": \"%s\", \"threads\": %zu, \"processor\": ",
               set->kernels, set->isa, set->threads);
    json_add_string(out, str_from(cpu_get()->name));
    features_json(out);
    buf_printf(out, ", \"peak\": \"%s\"", set->peak_name);
    real_field(out, "peak_flops_per_second", set->peak_flops_per_second);
    real_field(out, "memory_bytes_per_second", set->memory_bytes_per_second);
    buf_add(out, STR(", \"products\": ["));
    for (size_t i = 0; i < set->product_count; i++) {
        const struct measure_product *product = &set->products[i];
        buf_printf(out, "%s{\"dtype\": \"%s\", \"outputs\": %zu, \"inputs\": %zu, \"tokens\": %zu",
                   i == 0 ? "" : ", ", measure_name(product->dtype), set->outputs, set->inputs,
                   product->tokens);
        real_field(out, "flops_per_second", product->flops_per_second);
        real_field(out, "weights_bytes_per_second", product->weights_bytes_per_second);
        buf_add_char(out, '}');
    }
    buf_add(out, STR("], \"decode\": ["));
    for (size_t i = 0; i < set->decode_count; i++) {
        const struct measure_decode *decode = &set->decodes[i];
        buf_printf(out, "%s{\"dtype\": \"%s\"", i == 0 ? "" : ", ", measure_name(decode->dtype));
        real_field(out, "values_per_second", decode->values_per_second);
        real_field(out, "share_of_products_32", decode->share_of_products_32);
        buf_add_char(out, '}');
    }
    buf_add(out, STR("]}"));
}

static void list_json(const struct figures *figures, struct buf *out) {
    buf_add_char(out, '[');
    for (size_t i = 0; i < figures->set_count; i++) {
        buf_add(out, i == 0 ? STR("") : STR(",\n "));
        set_json(&figures->sets[i], out);
    }
    buf_add(out, STR("]\n"));
}

/* ---- the table */

static void head_row(const struct figures *figures, const char *more, struct buf *out) {
    buf_printf(out, "%-12s", "format");
    for (size_t t = 0; t < figures->options.token_count; t++)
        buf_printf(out, "%6zu", figures->tokens[t]);
    buf_printf(out, "%s\n", more);
}

static void set_table(const struct figures *figures, const struct measure *set, struct buf *out) {
    size_t columns = figures->options.token_count;
    buf_printf(out, "%s kernels on %s, %zu thread%s of %s\n", set->kernels, set->isa, set->threads,
               set->threads == 1 ? "" : "s",
               cpu_get()->name[0] ? cpu_get()->name : "a processor without a name");
    buf_printf(out, "peak (%s) %.1f GFLOP/s, reading memory %.1f GB/s, weights %zu x %zu\n\n",
               set->peak_name, set->peak_flops_per_second * 1e-9,
               set->memory_bytes_per_second * 1e-9, set->outputs, set->inputs);
    buf_add(out, STR("GFLOP/s by tokens, and weights read in GB/s\n"));
    head_row(figures, "    GB/s", out);
    for (size_t i = 0; i < set->product_count; i++) {
        const struct measure_product *product = &set->products[i];
        if (i % columns == 0)
            buf_printf(out, "%-12s", measure_name(product->dtype));
        buf_printf(out, "%6.*f", product->flops_per_second < 1e10 ? 1 : 0,
                   product->flops_per_second * 1e-9);
        if (i % columns == columns - 1)
            buf_printf(out, "%8.1f\n",
                       set->products[i - columns + 1].weights_bytes_per_second * 1e-9);
    }
    buf_add(out, STR("\n% of the peak, of the memory's rate, and decoding in % of the products of "
                     "32 tokens and in values/ns\n"));
    head_row(figures, "  memory  decoding", out);
    for (size_t i = 0; i < set->product_count; i++) {
        const struct measure_product *product = &set->products[i];
        if (i % columns == 0)
            buf_printf(out, "%-12s", measure_name(product->dtype));
        buf_printf(out, "%6.0f", 100 * product->flops_per_second / set->peak_flops_per_second);
        if (i % columns != columns - 1)
            continue;
        buf_printf(out, "%8.0f",
                   100 * set->products[i - columns + 1].weights_bytes_per_second /
                       set->memory_bytes_per_second);
        const struct measure_decode *decode = &set->decodes[i / columns];
        buf_printf(out, "%4.0f%6.1f\n", 100 * decode->share_of_products_32,
                   decode->values_per_second * 1e-9);
    }
}

/* The last set as a table, or all of them as JSON. */
static enum status print(const struct figures *figures, bool is_json, struct error *err) {
    struct buf text;
    buf_init(&text);
    if (is_json) {
        list_json(figures, &text);
    } else {
        buf_add(&text, figures->set_count == 1 ? STR("") : STR("\n"));
        set_table(figures, &figures->sets[figures->set_count - 1], &text);
    }
    enum status status = buf_status(&text, "the figures", err);
    if (status == SL_OK)
        fwrite(text.data, 1, text.len, stdout);
    fflush(stdout); /* whoever waits for the next set reads this one; cmd_end looks at errors */
    buf_release(&text);
    return status;
}

/* ---- the command */

static void note_progress(const char *kernels, const char *dtype, size_t done, size_t count) {
    log_note("%s kernels: %s, %zu of %zu", kernels, dtype, done + 1, count);
}

static enum status measure_set(struct figures *figures, const char *kernels, bool is_json,
                               struct error *err) {
    must(figures->set_count < SETS_MAX);
    figures->options.kernels = kernels;
    TRY(measure_init(&figures->sets[figures->set_count], &figures->options, err));
    figures->set_count++;
    return is_json ? SL_OK : print(figures, false, err);
}

static enum status measure_sets(struct figures *figures, const struct settings *settings,
                                struct error *err) {
    size_t count;
    const struct backend_set *sets = backend_cpu_sets(&count);
    bool is_auto = strcmp(settings->kernels, "auto") == 0 && settings->isa == NULL;
    if (!is_auto) {
        const char *kernels = settings->isa != NULL ? "portable" : settings->kernels;
        TRY(measure_set(figures, kernels, settings->is_json, err));
    }
    for (size_t i = 0; is_auto && i < count; i++)
        if (backend_set_is_usable(&sets[i]))
            TRY(measure_set(figures, sets[i].name, settings->is_json, err));
    return settings->is_json ? print(figures, true, err) : SL_OK;
}

static enum status bench_kernels(const struct settings *settings, struct figures *figures,
                                 struct error *err) {
    figures->options = (struct measure_options){
        .threads = settings->threads > 0 ? (size_t)settings->threads : cpu_get()->threads_max,
        .isa = settings->isa,
        .seconds = settings->measure_seconds,
        .should_stop = signals_should_stop,
        .progress = note_progress,
    };
    TRY(read_shape(settings->shape, &figures->options, err));
    TRY(read_dtypes(settings->dtypes, figures, err));
    TRY(read_tokens(settings->token_counts, figures, err));
    struct backend_choice choice;
    if (settings->isa != NULL)
        TRY(backend_cpu_choose(settings->kernels, settings->isa, false, &choice, err));
    signals_install();
    return measure_sets(figures, settings, err);
}

static enum status bench(int argc, char **argv, struct figures *figures, struct error *err) {
    struct settings settings;
    const char *what[1] = {NULL};
    size_t count;
    struct buf config_text; /* stays empty: the command takes no --config */
    buf_init(&config_text);
    options_defaults(&settings);
    TRY(options_parse(argc, argv, FOR_BENCH, &settings, what, 1, &count, &config_text, err));
    if (count == 0) {
        printf("sluice bench kernels    how fast the kernels are here: --help lists its options\n"
               "sluice bench job        how fast jobs are, by batch size: bench job --help\n");
        return SL_OK;
    }
    if (strcmp(what[0], "kernels") != 0)
        return error_set(err, SL_ERR_USAGE,
                         "there is nothing to measure called %s: sluice bench lists what there is",
                         what[0]);
    return bench_kernels(&settings, figures, err);
}

int cmd_bench(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "bench"))
        return cmd_end(0);
    struct figures figures = {0};
    struct error err = {0};
    enum status status = bench(argc, argv, &figures, &err);
    for (size_t i = 0; i < figures.set_count; i++)
        measure_release(&figures.sets[i]);
    if (status == SL_ERR_STOPPED) {
        log_note("stopped before the last figure");
        return signals_exit_code();
    }
    return cmd_end(cmd_fail(status, &err));
}
