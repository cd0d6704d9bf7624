/* Owns how values of options read in words: for the fingerprint of a job, so that a refusal can say
 * `--temperature was 0, is 0.5`. Refuses nothing: the values have been checked. */
#include "cli/options.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest form that reads back as the same number. */
static void add_real(struct buf *out, double value) {
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buf_add(out, str_from(text));
}

static void add_quoted(struct buf *out, const char *text) {
    if (text == NULL)
        buf_add(out, STR("none"));
    else
        json_add_string(out, str_from(text));
}

static void add_stops(struct buf *out, const struct settings *settings) {
    if (settings->stop_count == 0)
        buf_add(out, STR("none"));
    for (size_t i = 0; i < settings->stop_count; i++) {
        if (i > 0)
            buf_add(out, STR(", "));
        json_add_string(out, settings->stops[i]);
    }
}

static void add_value(struct buf *out, const struct option *option,
                      const struct settings *settings) {
    const void *place = (const char *)settings + option->offset;
    switch (option->kind) {
    case OPTION_FLAG:
        buf_add(out, *(const bool *)place ? STR("on") : STR("off"));
        return;
    case OPTION_TEXT:
        add_quoted(out, *(const char *const *)place);
        return;
    case OPTION_TEXTS:
        add_stops(out, settings);
        return;
    case OPTION_CHOICE:
        buf_add(out, str_from(*(const char *const *)place));
        return;
    case OPTION_TEMPERATURE:
        if (settings->temperature_is_models) {
            buf_add(out, STR("model"));
            return;
        }
        add_real(out, *(const double *)place);
        return;
    case OPTION_REAL:
    case OPTION_FLOPS:
    case OPTION_DURATION:
        add_real(out, *(const double *)place);
        return;
    case OPTION_INTEGER:
        buf_printf(out, "%lld", (long long)*(const int64_t *)place);
        return;
    case OPTION_SIZE:
        buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)place);
        return;
    case OPTION_SHARD:
        buf_printf(out, "%lld/%lld", (long long)settings->shard_index,
                   (long long)settings->shard_count);
        return;
    }
    must(false);
}

/* What was chosen is kept instead (output_recall). */
static bool is_chosen_by_the_plan(const struct option *option) {
    return strcmp(option->name, "precision") == 0 || strcmp(option->name, "kernels") == 0;
}

enum status options_fingerprint(const struct settings *settings, struct fingerprint *fingerprint,
                                struct error *err) {
    struct buf text;
    enum status status = SL_OK;
    buf_init(&text);
    for (size_t i = 0; status == SL_OK && i < option_count; i++) {
        const struct option *option = &option_table[i];
        if (!option->is_in_fingerprint || is_chosen_by_the_plan(option))
            continue;
        buf_clear(&text);
        buf_printf(&text, "--%s", option->name);
        size_t name_bytes = text.len;
        add_value(&text, option, settings);
        status = buf_status(&text, "the fingerprint of the job", err);
        if (status == SL_OK)
            status = fingerprint_add(fingerprint, str_cut(buf_str(&text), 0, name_bytes),
                                     str_cut(buf_str(&text), name_bytes, text.len), err);
    }
    buf_release(&text);
    return status;
}
