/* A chart of lines as SVG inside a page: axes with round numbers, a legend, and for each point what
 * it is when the mouse is over it. Plain values; one thread. */
#ifndef SLUICE_CLI_CHART_H
#define SLUICE_CLI_CHART_H

#include "base/str.h"

enum { CHART_SERIES_MAX = 4 };

enum chart_unit { CHART_NUMBER, CHART_SECONDS, CHART_BYTES, CHART_RATE, CHART_SHARE };

struct chart_series {
    const char *name; /* "": the title says it */
    const double *y;  /* [count]; NaN leaves a gap */
};

struct chart {
    const char *title;
    const char *x_name;
    const double *x; /* [count], rising */
    size_t count;
    enum chart_unit x_unit, y_unit;
    struct chart_series series[CHART_SERIES_MAX];
    size_t series_count;
    double limit; /* a dashed line, such as a budget; 0: none */
    const char *limit_name;
    bool has_points; /* few values: each is marked */
};

/* Long series are drawn by the least and the greatest value of 400 parts. */
void chart_add(struct buf *out, const struct chart *chart);
/* "12.3 GB", "1h 02m", "97 %" */
void chart_value(struct buf *out, double value, enum chart_unit unit);
/* Text as HTML shows it. */
void chart_text(struct buf *out, struct str text);

#endif
