/* `report`: one HTML page with pictures of jobs, from their metrics and from records of `bench
 * job`. The page holds everything it shows: no scripts, no fonts, no network. */
#include "cli/cmd.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/chart.h"
#include "cli/metrics_file.h"
#include "cli/options.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FILES_MAX = 16, POINTS_MAX = 64 };
#define RECORD_BYTES_MAX ((size_t)16 << 20)
#define RECORD_VALUES_MAX ((size_t)1 << 20)

static const char *const page_begin =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    "<title>sluice report</title>\n<style>\n"
    ":root{--ink:#1c2430;--soft:#66707f;--paper:#fbfbf9;--card:#fff;--edge:#e3e3dd;"
    "--a:#0b6fb8;--b:#c2571a;--c:#2c8a57;--d:#8a4fb0;--limit:#b3261e}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#9aa3af;--paper:#15181d;"
    "--card:#1d2127;--edge:#323842;--a:#5fb2f0;--b:#f0975c;--c:#69c795;--d:#c196e6;"
    "--limit:#ff8a80}}\n"
    "body{margin:0 auto;max-width:1360px;padding:28px 20px 60px;background:var(--paper);"
    "color:var(--ink);font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:26px;margin:0 0 4px}h2{font-size:19px;margin:36px 0 4px;overflow-wrap:anywhere}\n"
    "p{margin:4px 0 14px;color:var(--soft)}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(165px,1fr));gap:10px;"
    "margin:12px 0}\n"
    ".card,figure,table{background:var(--card);border:1px solid var(--edge);border-radius:8px}\n"
    ".card{padding:9px 13px}.card b{display:block;font-size:20px;font-weight:600}"
    ".card span{color:var(--soft);font-size:13px}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:14px}\n"
    "figure{margin:0;padding:10px 8px 4px}svg{width:100%;height:auto;display:block}\n"
    "table{border-collapse:separate;border-spacing:0;margin:14px 0;font-variant-numeric:"
    "tabular-nums}th,td{padding:6px 14px;text-align:right}th:first-child,td:first-child{"
    "text-align:left}thead th{color:var(--soft);font-weight:500}\n"
    ".head{font-size:14px;font-weight:600;fill:var(--ink)}.tick{font-size:11px;fill:var(--soft)}\n"
    ".grid{stroke:var(--edge)}.line{fill:none;stroke-width:1.6;stroke-linejoin:round}\n"
    ".s0{stroke:var(--a)}.s1{stroke:var(--b)}.s2{stroke:var(--c)}.s3{stroke:var(--d)}\n"
    ".mark{stroke-width:1.5;fill:var(--card)}"
    ".limit{stroke:var(--limit);stroke-dasharray:5 4;stroke-width:1.3}\n"
    "</style></head><body>\n<h1>sluice report</h1>\n";

static void add_card(struct buf *out, const char *name, double value, enum chart_unit unit) {
    buf_add(out, STR("<div class=\"card\"><b>"));
    chart_value(out, value, unit);
    buf_printf(out, "</b><span>%s</span></div>", name);
}

static void add_heading(struct buf *out, const char *path) {
    buf_add(out, STR("<h2>"));
    chart_text(out, str_from(path));
    buf_add(out, STR("</h2>\n"));
}

/* ---- a job */

static void add_cards(struct buf *out, const struct metrics_file *metrics) {
    double share = metrics_read_share(metrics);
    uint64_t total = metrics->passes[metrics->count - 1].rows_total;
    buf_add(out, STR("<p>"));
    chart_text(out, str_from(metrics->engine[0] != '\0' ? metrics->engine : "a job without end"));
    if (metrics->precision[0] != '\0')
        buf_add(out, STR(", "));
    chart_text(out, str_from(metrics->precision));
    if (metrics->kernels[0] != '\0')
        buf_printf(out, ", %s kernels", metrics->kernels);
    if (!metrics->has_summary)
        buf_add(out, STR("; there is no summary: the job was killed, or still runs"));
    buf_add(out, STR("</p>\n<div class=\"cards\">"));
    buf_printf(out, "<div class=\"card\"><b>%llu of %llu</b><span>rows answered</span></div>",
               (unsigned long long)metrics->rows_done, (unsigned long long)total);
    if (metrics->rows_failed > 0)
        add_card(out, "rows that are errors", (double)metrics->rows_failed, CHART_NUMBER);
    add_card(out, "answer tokens", (double)metrics->completion_tokens, CHART_NUMBER);
    add_card(out, "time", metrics->seconds, CHART_SECONDS);
    add_card(out, "tokens a second", metrics->tokens_per_second, CHART_NUMBER);
    add_card(out, "passes", (double)metrics->count, CHART_NUMBER);
    add_card(out, "median pass", metrics->median_pass_seconds, CHART_SECONDS);
    if (share >= 0) {
        add_card(out, "read rate of the median pass", (double)metrics->read_bytes_per_second,
                 CHART_RATE);
        add_card(out, "of a decode pass the drive read", share, CHART_SHARE);
    }
    add_card(out, "peak memory", (double)metrics->peak_rss_bytes, CHART_BYTES);
    add_card(out, "most rows at once", (double)metrics->batch_max, CHART_NUMBER);
    buf_add(out, STR("</div>\n"));
}

static void add_planned(struct buf *out, const char *name, double planned, double measured,
                        enum chart_unit unit) {
    if (!(planned > 0))
        return;
    buf_printf(out, "<tr><td>%s</td><td>", name);
    chart_value(out, planned, unit);
    buf_add(out, STR("</td><td>"));
    chart_value(out, measured, unit);
    buf_printf(out, "</td><td>%+.1f %%</td></tr>", (measured / planned - 1) * 100);
}

/* What was planned beside what came; nothing for metrics that do not tell. */
static void add_plan(struct buf *out, const struct metrics_file *metrics) {
    if (!(metrics->planned_seconds > 0) && metrics->planned_peak_bytes == 0)
        return;
    buf_add(out, STR("<table><thead><tr><th>plan against reality</th><th>planned</th>"
                     "<th>measured</th><th>difference</th></tr></thead><tbody>"));
    add_planned(out, "time", metrics->planned_seconds, metrics->seconds, CHART_SECONDS);
    add_planned(out, "passes", (double)metrics->planned_passes, (double)metrics->count,
                CHART_NUMBER);
    add_planned(out, "tokens a second", metrics->planned_tokens_per_second,
                metrics->tokens_per_second, CHART_NUMBER);
    add_planned(out, "peak memory", (double)metrics->planned_peak_bytes,
                (double)metrics->peak_rss_bytes, CHART_BYTES);
    buf_add(out, STR("</tbody></table>\n"));
}

/* Arrays of what the charts draw, one value a pass. */
struct drawn {
    double *values; /* DRAWN_COUNT arrays, one behind the other */
    size_t count;
};
enum drawn_array {
    DRAWN_AT,
    DRAWN_SECONDS,
    DRAWN_SHARE,
    DRAWN_WAIT,
    DRAWN_RSS,
    DRAWN_KV,
    DRAWN_KV_USED,
    DRAWN_DONE,
    DRAWN_LIVE,
    DRAWN_DECODE,
    DRAWN_PREFILL,
    DRAWN_COUNT
};

static double *drawn_array(const struct drawn *drawn, enum drawn_array which) {
    return drawn->values + (size_t)which * drawn->count;
}

static enum status draw(const struct metrics_file *metrics, struct drawn *drawn,
                        struct error *err) {
    size_t count = metrics->count;
    *drawn = (struct drawn){.values = mem_new(count, DRAWN_COUNT * sizeof(double)), .count = count};
    if (drawn->values == NULL)
        return error_memory(err, count * DRAWN_COUNT * sizeof(double), "the charts");
    for (size_t i = 0; i < count; i++) {
        const struct metrics_pass *pass = &metrics->passes[i];
        double seconds = pass->seconds;
        const double values[DRAWN_COUNT] = {
            [DRAWN_AT] = pass->at,
            [DRAWN_SECONDS] = seconds,
            [DRAWN_SHARE] = seconds > 0 ? fmin(pass->read_seconds / seconds, 1) : NAN,
            [DRAWN_WAIT] = seconds > 0 ? fmin(pass->wait_seconds / seconds, 1) : NAN,
            [DRAWN_RSS] = (double)pass->rss_bytes,
            [DRAWN_KV] = (double)pass->kv_bytes,
            [DRAWN_KV_USED] = (double)pass->kv_bytes_used,
            [DRAWN_DONE] = (double)pass->rows_done,
            [DRAWN_LIVE] = (double)pass->rows_live,
            [DRAWN_DECODE] = (double)pass->decode_tokens,
            [DRAWN_PREFILL] = (double)pass->prefill_tokens,
        };
        for (size_t k = 0; k < DRAWN_COUNT; k++)
            drawn->values[k * count + i] = values[k];
    }
    return SL_OK;
}

static struct chart over_time(const struct drawn *drawn, const char *title, enum chart_unit unit) {
    return (struct chart){.title = title,
                          .x_name = "time",
                          .x = drawn_array(drawn, DRAWN_AT),
                          .count = drawn->count,
                          .x_unit = CHART_SECONDS,
                          .y_unit = unit};
}

static void add_series(struct chart *chart, const struct drawn *drawn, const char *name,
                       enum drawn_array which) {
    chart->series[chart->series_count++] = (struct chart_series){name, drawn_array(drawn, which)};
}

static void add_charts(struct buf *out, const struct metrics_file *metrics,
                       const struct drawn *drawn) {
    struct chart passes = over_time(drawn, "Seconds of each pass", CHART_SECONDS);
    add_series(&passes, drawn, "pass", DRAWN_SECONDS);
    struct chart disk = over_time(drawn, "Share of the pass", CHART_SHARE);
    add_series(&disk, drawn, "the drive reads", DRAWN_SHARE);
    add_series(&disk, drawn, "the processor waits", DRAWN_WAIT);
    struct chart memory = over_time(drawn, "Memory", CHART_BYTES);
    add_series(&memory, drawn, "resident", DRAWN_RSS);
    add_series(&memory, drawn, "keys and values: reserved", DRAWN_KV);
    add_series(&memory, drawn, "in use", DRAWN_KV_USED);
    memory.limit = (double)metrics->budget_bytes;
    memory.limit_name = "budget";
    struct chart rows = over_time(drawn, "Rows", CHART_NUMBER);
    add_series(&rows, drawn, "answered", DRAWN_DONE);
    add_series(&rows, drawn, "at work", DRAWN_LIVE);
    struct chart tokens = over_time(drawn, "Tokens of each pass", CHART_NUMBER);
    add_series(&tokens, drawn, "of answers", DRAWN_DECODE);
    add_series(&tokens, drawn, "of prompts", DRAWN_PREFILL);
    buf_add(out, STR("<div class=\"charts\">\n"));
    chart_add(out, &passes);
    if (metrics_read_share(metrics) >= 0)
        chart_add(out, &disk);
    chart_add(out, &memory);
    chart_add(out, &rows);
    chart_add(out, &tokens);
    buf_add(out, STR("</div>\n"));
}

static enum status add_job(const char *path, struct buf *out, struct error *err) {
    struct metrics_file metrics;
    struct drawn drawn;
    TRY(metrics_read(path, &metrics, err));
    enum status status = draw(&metrics, &drawn, err);
    if (status == SL_OK) {
        add_heading(out, path);
        add_cards(out, &metrics);
        add_plan(out, &metrics);
        add_charts(out, &metrics, &drawn);
        mem_free(drawn.values);
    }
    metrics_release(&metrics);
    return status;
}

/* ---- a record of `bench job` */

struct points {
    double batch[POINTS_MAX], tokens[POINTS_MAX], seconds[POINTS_MAX], share[POINTS_MAX],
        peak[POINTS_MAX], rate[POINTS_MAX];
    size_t count;
};

static enum status read_points(const struct json *record, struct points *points,
                               struct error *err) {
    const struct json *list = json_get(record, "points");
    if (!json_is(list, JSON_ARRAY) || list->count == 0 || list->count > POINTS_MAX)
        return error_set(err, SL_ERR_INPUT, "this is no record of bench job with 1 to %d points",
                         POINTS_MAX);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct json *point = &list->items[i];
        const struct {
            const char *name;
            double *place;
        } members[] = {{"batch", points->batch},
                       {"tokens_per_second", points->tokens},
                       {"median_pass_seconds", points->seconds},
                       {"peak_rss_bytes", points->peak},
                       {"read_bytes_per_second", points->rate},
                       {"read_share", points->share}};
        for (size_t k = 0; k < sizeof members / sizeof members[0]; k++) {
            double value = NAN;
            bool is_there = json_double(json_get(point, members[k].name), &value);
            if (!is_there && k < 5)
                return error_set(err, SL_ERR_INPUT, "point %u has no %s", i + 1, members[k].name);
            members[k].place[i] = is_there && value >= 0 && value < 1e15 ? value : NAN;
        }
    }
    points->count = list->count;
    return SL_OK;
}

static void add_point_table(struct buf *out, const struct points *points) {
    buf_add(out, STR("<table><thead><tr><th>batch</th><th>tokens a second</th><th>median pass</th>"
                     "<th>read rate</th><th>the drive reads</th><th>peak memory</th></tr></thead>"
                     "<tbody>"));
    for (size_t i = 0; i < points->count; i++) {
        const double values[] = {points->batch[i], points->tokens[i], points->seconds[i],
                                 points->rate[i],  points->share[i],  points->peak[i]};
        static const enum chart_unit units[] = {CHART_NUMBER, CHART_NUMBER, CHART_SECONDS,
                                                CHART_RATE,   CHART_SHARE,  CHART_BYTES};
        buf_add(out, STR("<tr>"));
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            buf_add(out, STR("<td>"));
            if (isnan(values[k]))
                buf_add(out, STR("-"));
            else
                chart_value(out, values[k], units[k]);
            buf_add(out, STR("</td>"));
        }
        buf_add(out, STR("</tr>"));
    }
    buf_add(out, STR("</tbody></table>\n"));
}

static void add_words(struct buf *out, const struct json *record) {
    static const char *const names[] = {"engine", "precision", "kernels",
                                        "model",  "rows",      "commit"};
    struct str text;
    buf_add(out, STR("<p>"));
    if (json_string(json_get(json_get(record, "machine"), "processor"), &text))
        chart_text(out, text);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!json_string(json_get(record, names[i]), &text) || text.len == 0)
            continue;
        buf_printf(out, ", %s ", names[i]);
        chart_text(out, text);
    }
    buf_add(out, STR("</p>\n"));
}

static void add_point_chart(struct buf *out, const struct points *points, const char *title,
                            const double *y, enum chart_unit unit) {
    struct chart chart = {.title = title,
                          .x_name = "rows at once",
                          .x = points->batch,
                          .count = points->count,
                          .x_unit = CHART_NUMBER,
                          .y_unit = unit,
                          .series = {{"", y}},
                          .series_count = 1,
                          .has_points = true};
    chart_add(out, &chart);
}

static enum status add_bench(const char *path, const struct json *record, struct buf *out,
                             struct error *err) {
    struct points points = {0};
    enum status status = read_points(record, &points, err);
    if (status != SL_OK)
        return error_prefix(err, "%s", path);
    add_heading(out, path);
    add_words(out, record);
    add_point_table(out, &points);
    buf_add(out, STR("<div class=\"charts\">\n"));
    add_point_chart(out, &points, "Tokens a second", points.tokens, CHART_NUMBER);
    add_point_chart(out, &points, "Median pass", points.seconds, CHART_SECONDS);
    add_point_chart(out, &points, "Peak memory", points.peak, CHART_BYTES);
    buf_add(out, STR("</div>\n"));
    return SL_OK;
}

/* ---- the page */

/* A record is one object that says so; all else should be metrics. */
static enum status add_file(const char *path, struct buf *out, struct error *err) {
    struct buf text;
    struct arena arena;
    const struct json *tree = NULL;
    struct json_options options = {.values_max = RECORD_VALUES_MAX};
    struct str kind;
    buf_init(&text);
    arena_init(&arena);
    bool is_record = file_read_all(path, RECORD_BYTES_MAX, &text, NULL) == SL_OK &&
                     json_parse(&arena, buf_str(&text), &options, &tree, NULL) == SL_OK &&
                     json_string(json_get(tree, "kind"), &kind) && str_is(kind, "bench job");
    enum status status = is_record ? add_bench(path, tree, out, err) : add_job(path, out, err);
    arena_release(&arena);
    buf_release(&text);
    return status;
}

static enum status report(int argc, char **argv, struct buf *page, struct error *err) {
    struct settings settings;
    const char *paths[FILES_MAX];
    size_t count;
    struct buf config_text; /* stays empty: no --config here */
    buf_init(&config_text);
    options_defaults(&settings);
    TRY(options_parse(argc, argv, FOR_REPORT, &settings, paths, FILES_MAX, &count, &config_text,
                      err));
    if (count == 0)
        return error_set(err, SL_ERR_USAGE,
                         "report needs files that `run --metrics` or `bench job` wrote");
    buf_add(page, str_from(page_begin));
    buf_printf(page, "<p>%zu file%s, sluice %s</p>\n", count, count == 1 ? "" : "s", SL_VERSION);
    for (size_t i = 0; i < count; i++)
        TRY(add_file(paths[i], page, err));
    buf_add(page, STR("</body></html>\n"));
    TRY(buf_status(page, "the page", err));
    return cmd_write(settings.output, buf_str(page), err);
}

int cmd_report(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "report"))
        return cmd_end(0);
    struct error err = {0};
    struct buf page;
    buf_init(&page);
    enum status status = report(argc, argv, &page, &err);
    buf_release(&page);
    return cmd_end(cmd_fail(status, &err));
}
