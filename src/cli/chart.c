/* Owns the drawing: the way from values to places, round numbers, and text that is safe in a page.
 */
#include "cli/chart.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 640, HEIGHT = 230, LEFT = 62, RIGHT = 12, TOP = 34, BOTTOM = 34 };
enum { PARTS = 400, TICKS = 5 };

struct scale {
    double x_least, x_most, y_most;
};

void chart_text(struct buf *out, struct str text) {
    for (size_t i = 0; i < text.len; i++) {
        switch (text.data[i]) {
        case '&':
            buf_add(out, STR("&amp;"));
            break;
        case '<':
            buf_add(out, STR("&lt;"));
            break;
        case '>':
            buf_add(out, STR("&gt;"));
            break;
        case '"':
            buf_add(out, STR("&quot;"));
            break;
        default:
            buf_add_char(out, text.data[i]);
        }
    }
}

static void add_seconds(struct buf *out, double value) {
    if (value < 0.001)
        buf_printf(out, "%.3g s", value);
    else if (value < 1)
        buf_printf(out, "%.3g ms", value * 1000);
    else if (value < 120)
        buf_printf(out, "%.3g s", value);
    else if (value < 7200)
        buf_printf(out, "%.0fm %02.0fs", floor(value / 60), fmod(floor(value), 60));
    else
        buf_printf(out, "%.0fh %02.0fm", floor(value / 3600), fmod(floor(value / 60), 60));
}

/* With the units of 1024 that sluice prints elsewhere; rates as the drives' makers count. */
static void add_bytes(struct buf *out, double value, double step, const char *end) {
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    size_t unit = 0;
    if (value == 0) {
        buf_add_char(out, '0');
        return;
    }
    while (value >= step && unit + 1 < sizeof units / sizeof units[0]) {
        value /= step;
        unit++;
    }
    buf_printf(out, "%.*f %s%s",
               value < 10 && unit > 0    ? 2
               : value < 100 && unit > 0 ? 1
                                         : 0,
               value, units[unit], end);
}

void chart_value(struct buf *out, double value, enum chart_unit unit) {
    switch (unit) {
    case CHART_NUMBER:
        buf_printf(out, value >= 1000 || value == floor(value) ? "%.0f" : "%.3g", value);
        return;
    case CHART_SECONDS:
        add_seconds(out, value);
        return;
    case CHART_BYTES:
        add_bytes(out, value, 1024, "iB");
        return;
    case CHART_RATE:
        add_bytes(out, value, 1000, "B/s");
        return;
    case CHART_SHARE:
        buf_printf(out, "%.0f %%", value * 100);
        return;
    }
}

static double place_x(const struct scale *scale, double x) {
    double width = scale->x_most - scale->x_least;
    return LEFT + (width > 0 ? (x - scale->x_least) / width : 0.5) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct scale *scale, double y) {
    return HEIGHT - BOTTOM - y / scale->y_most * (HEIGHT - TOP - BOTTOM);
}

/* A round step of which about `count` make up `most`. Bytes go by powers of 2. */
static double round_step(double most, int count, enum chart_unit unit) {
    double raw = most / count;
    if (unit == CHART_BYTES)
        return exp2(ceil(log2(raw)));
    double power = pow(10, floor(log10(raw)));
    double part = raw / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static struct scale find_scale(const struct chart *chart) {
    struct scale scale = {.x_least = chart->x_unit == CHART_SECONDS ? 0 : chart->x[0],
                          .x_most = chart->x[chart->count - 1]};
    double most = chart->limit;
    for (size_t s = 0; s < chart->series_count; s++)
        for (size_t i = 0; i < chart->count; i++)
            most = chart->series[s].y[i] > most ? chart->series[s].y[i] : most;
    if (chart->y_unit == CHART_SHARE && most <= 1)
        most = 1;
    most = most > 0 ? most : 1;
    double step = round_step(most, TICKS - 1, chart->y_unit);
    scale.y_most = step * ceil(most / step * 0.999999);
    return scale;
}

static void add_axes(struct buf *out, const struct chart *chart, const struct scale *scale) {
    double step = round_step(scale->y_most, TICKS - 1, chart->y_unit);
    for (double y = 0; y <= scale->y_most * 1.000001; y += step) {
        double place = place_y(scale, y);
        buf_printf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT,
                   WIDTH - RIGHT, place, place);
        buf_printf(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 6,
                   place + 4);
        chart_value(out, y, chart->y_unit);
        buf_add(out, STR("</text>"));
    }
    for (int i = 0; i <= TICKS - 1; i++) {
        double x = scale->x_least + (scale->x_most - scale->x_least) * i / (TICKS - 1);
        if (chart->count == 1 && i > 0)
            break;
        buf_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">",
                   place_x(scale, x), HEIGHT - BOTTOM + 16, i == TICKS - 1 ? "end" : "middle");
        chart_value(out, chart->x_unit == CHART_NUMBER ? round(x) : x, chart->x_unit);
        buf_add(out, STR("</text>"));
    }
    buf_printf(out, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
               (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 3);
    chart_text(out, str_from(chart->x_name));
    buf_add(out, STR("</text>"));
}

static void add_mark(struct buf *out, const struct chart *chart, const struct scale *scale,
                     size_t series, size_t at) {
    double x = chart->x[at], y = chart->series[series].y[at];
    buf_printf(out, "<circle class=\"mark s%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>", series,
               place_x(scale, x), place_y(scale, y));
    chart_value(out, x, chart->x_unit);
    buf_add(out, STR(": "));
    chart_value(out, y, chart->y_unit);
    buf_add(out, STR("</title></circle>"));
}

/* The places of the least and the greatest value in [from, to), in their order. */
static void find_ends(const double *y, size_t from, size_t to, size_t ends[2]) {
    size_t least = from, most = from;
    for (size_t i = from; i < to; i++) {
        least = y[i] < y[least] || isnan(y[least]) ? i : least;
        most = y[i] > y[most] || isnan(y[most]) ? i : most;
    }
    ends[0] = least < most ? least : most;
    ends[1] = least < most ? most : least;
}

static void add_line(struct buf *out, const struct chart *chart, const struct scale *scale,
                     size_t series) {
    const double *y = chart->series[series].y;
    size_t parts = chart->count > 2 * PARTS ? PARTS : chart->count;
    bool is_open = false;
    buf_printf(out, "<path class=\"line s%zu\" d=\"", series);
    for (size_t part = 0; part < parts; part++) {
        size_t ends[2], from = chart->count * part / parts, to = chart->count * (part + 1) / parts;
        find_ends(y, from, to, ends);
        for (size_t e = 0; e < 1u + (ends[0] != ends[1]); e++) {
            if (isnan(y[ends[e]])) {
                is_open = false;
                continue;
            }
            buf_printf(out, "%s%.1f %.1f", is_open ? "L" : "M", place_x(scale, chart->x[ends[e]]),
                       place_y(scale, y[ends[e]]));
            is_open = true;
        }
    }
    buf_add(out, STR("\"/>"));
    for (size_t i = 0; chart->has_points && i < chart->count; i++) {
        if (!isnan(y[i]))
            add_mark(out, chart, scale, series, i);
    }
}

static void add_legend(struct buf *out, const struct chart *chart) {
    double x = LEFT;
    if (chart->series_count == 1 && chart->series[0].name[0] == '\0')
        return; /* the title says it */
    for (size_t s = 0; s < chart->series_count + (chart->limit > 0); s++) {
        bool is_limit = s == chart->series_count;
        const char *name = is_limit ? chart->limit_name : chart->series[s].name;
        if (is_limit)
            buf_printf(out, "<line class=\"limit\" x1=\"%.1f\" x2=\"%.1f\" y1=\"25\" y2=\"25\"/>",
                       x, x + 14);
        else
            buf_printf(out,
                       "<line class=\"line s%zu\" x1=\"%.1f\" x2=\"%.1f\" y1=\"25\" y2=\"25\"/>", s,
                       x, x + 14);
        buf_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"29\">", x + 18);
        chart_text(out, str_from(name));
        buf_add(out, STR("</text>"));
        x += 30 + 6.2 * (double)str_from(name).len;
    }
}

void chart_add(struct buf *out, const struct chart *chart) {
    if (chart->count == 0 || chart->series_count == 0)
        return;
    struct scale scale = find_scale(chart);
    buf_printf(out, "<figure><svg viewBox=\"0 0 %d %d\" role=\"img\"><title>", WIDTH, HEIGHT);
    chart_text(out, str_from(chart->title));
    buf_printf(out, "</title><text class=\"head\" x=\"%d\" y=\"14\">", LEFT);
    chart_text(out, str_from(chart->title));
    buf_add(out, STR("</text>"));
    add_axes(out, chart, &scale);
    if (chart->limit > 0)
        buf_printf(out, "<line class=\"limit\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT,
                   WIDTH - RIGHT, place_y(&scale, chart->limit), place_y(&scale, chart->limit));
    for (size_t s = 0; s < chart->series_count; s++)
        add_line(out, chart, &scale, s);
    add_legend(out, chart);
    buf_add(out, STR("</svg></figure>\n"));
}
