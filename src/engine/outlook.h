/* The outlook: how many KV pages the rows inside are expected to hold in passes to come, if each
 * computes one more token in every pass and nobody enters. Counts only; one thread.
 *
 *   pages(t) = sum over rows: chance that the row still goes on at pass t  x  pages it holds then
 *
 * A row that ignores EOS goes on to its limit for certain; no row holds fewer pages than it has. */
#ifndef SLUICE_ENGINE_OUTLOOK_H
#define SLUICE_ENGINE_OUTLOOK_H

#include "engine/expect.h"

/* Passes looked at: each of the next 16, then eight in each doubling. */
#define SL_OUTLOOK_POINTS 121

/* Of pages that may be held or not. */
struct outlook_sum {
    double mean, variance;
};

struct outlook {
    size_t row_window_pages; /* the most that a row holds of windowed layers */
    size_t points;           /* as far as any row can go */
    size_t passes[SL_OUTLOOK_POINTS];
    struct outlook_sum whole[SL_OUTLOOK_POINTS], window[SL_OUTLOOK_POINTS];
};

struct outlook_row {
    size_t tokens;       /* prompt, and what it has of its answer */
    size_t answer;       /* of these */
    size_t max_tokens;   /* of the answer */
    size_t delay;        /* passes until its prompt is computed */
    double shared_pages; /* of the whole layers' pages: counted with other rows */
    bool is_certain;     /* ends at its limit and not before */
};

void outlook_init(struct outlook *outlook, size_t row_window_pages);
void outlook_clear(struct outlook *outlook); /* nobody is inside */
void outlook_add(struct outlook *outlook, const struct expect *expect,
                 const struct outlook_row *row);
/* What rows may hold. */
struct outlook_room {
    double whole_pages, window_pages;
    double deviations; /* room for chance, in standard deviations of the sums */
};
/* Whether a further row has room: at every point, the expected pages stay within it. */
bool outlook_has_room(const struct outlook *outlook, const struct expect *expect,
                      const struct outlook_row *row, const struct outlook_room *room);

#endif
