/* Owns the sums of expected pages. Refuses to know who the rows are and what is done about them. */
#include "engine/outlook.h"

#include "base/mem.h"
#include "engine/kv.h"

void outlook_init(struct outlook *outlook, size_t row_window_pages) {
    *outlook = (struct outlook){.row_window_pages = row_window_pages};
    size_t step = 1, pass = 0;
    for (size_t i = 0; i < SL_OUTLOOK_POINTS; i++) {
        outlook->passes[i] = pass;
        if (pass >= 16 * step)
            step *= 2;
        pass += step;
    }
}

void outlook_clear(struct outlook *outlook) {
    for (size_t i = 0; i < outlook->points; i++)
        outlook->whole[i] = outlook->window[i] = (struct outlook_sum){0};
    outlook->points = 0;
}

/* What the row is expected to hold at a point; false: it has surely ended. */
static bool look(const struct outlook *outlook, const struct expect *expect,
                 const struct outlook_row *row, size_t point, double *chance, size_t *pages) {
    size_t pass = outlook->passes[point];
    size_t grown = pass > row->delay ? pass - row->delay : 0;
    if (row->answer + grown >= row->max_tokens && grown > 0)
        return false;
    *pages = kv_pages_for(row->tokens + grown);
    *chance = 1;
    if (!row->is_certain && grown > 0)
        *chance = expect_survival(expect, row->answer + grown, row->max_tokens) /
                  expect_survival(expect, row->answer, row->max_tokens);
    return true;
}

static double whole_pages(const struct outlook_row *row, size_t pages) {
    return (double)pages > row->shared_pages ? (double)pages - row->shared_pages : 0;
}

static struct outlook_sum plus(struct outlook_sum sum, double chance, double held) {
    return (struct outlook_sum){sum.mean + chance * held,
                                sum.variance + chance * (1 - chance) * held * held};
}

static bool is_within(struct outlook_sum sum, double pages, double deviations) {
    double left = pages - sum.mean;
    return left >= 0 && left * left >= deviations * deviations * sum.variance;
}

void outlook_add(struct outlook *outlook, const struct expect *expect,
                 const struct outlook_row *row) {
    double chance;
    size_t pages, most = outlook->row_window_pages, i = 0;
    for (; i < SL_OUTLOOK_POINTS && look(outlook, expect, row, i, &chance, &pages); i++) {
        outlook->whole[i] = plus(outlook->whole[i], chance, whole_pages(row, pages));
        outlook->window[i] = plus(outlook->window[i], chance, (double)size_min(pages, most));
    }
    outlook->points = i > outlook->points ? i : outlook->points;
}

bool outlook_has_room(const struct outlook *outlook, const struct expect *expect,
                      const struct outlook_row *row, const struct outlook_room *room) {
    double chance;
    size_t pages, most = outlook->row_window_pages;
    for (size_t i = 0; i < SL_OUTLOOK_POINTS && look(outlook, expect, row, i, &chance, &pages);
         i++) {
        struct outlook_sum whole = plus(outlook->whole[i], chance, whole_pages(row, pages));
        struct outlook_sum window = plus(outlook->window[i], chance, (double)size_min(pages, most));
        if (!is_within(whole, room->whole_pages, room->deviations) ||
            !is_within(window, room->window_pages, room->deviations))
            return false;
    }
    return true;
}
