/* Owns what finished and running rows tell of the length of answers. Refuses to decide: outlook.c
 * sums it up, sched.c acts. */
#include "engine/expect.h"

/* Rows that the common rate weighs in each part, and a prior in all. */
#define COMMON_ROWS 2.0
#define PRIOR_ROWS 32.0
/* The common rate itself: so many parts passed by nobody who ended. */
#define COMMON_PARTS 8.0

static size_t part_of(size_t tokens, size_t max_tokens) {
    must(tokens <= max_tokens);
    size_t part = (size_t)((double)tokens / (double)max_tokens * SL_EXPECT_BINS);
    return part < SL_EXPECT_BINS ? part : SL_EXPECT_BINS - 1;
}

static void update(struct expect *expect) {
    double ended = 0, reached = COMMON_PARTS;
    for (size_t i = 0; i < SL_EXPECT_BINS; i++) {
        ended += expect->ended[i];
        reached += expect->reached[i];
    }
    double common = ended / (reached > ended ? reached : ended + 1);
    expect->survival[0] = 1;
    for (size_t i = 0; i < SL_EXPECT_BINS; i++) {
        double rate =
            (expect->ended[i] + COMMON_ROWS * common) / (expect->reached[i] + COMMON_ROWS);
        expect->survival[i + 1] = expect->survival[i] * (1 - rate);
    }
}

void expect_init(struct expect *expect, const double prior[SL_EXPECT_BINS + 1]) {
    *expect = (struct expect){0};
    double rows = 0;
    for (size_t i = 0; prior != NULL && i <= SL_EXPECT_BINS; i++)
        rows += prior[i];
    if (rows > 0) {
        double weight = rows > PRIOR_ROWS ? PRIOR_ROWS / rows : 1;
        for (size_t i = 0; i < SL_EXPECT_BINS; i++) {
            expect->reached[i] = rows * weight;
            expect->ended[i] = prior[i] * weight;
            rows = rows > prior[i] ? rows - prior[i] : 0;
        }
    }
    update(expect);
}

void expect_enter(struct expect *expect) {
    expect->reached[0]++;
}

void expect_grow(struct expect *expect, size_t before, size_t now, size_t max_tokens) {
    if (now >= max_tokens)
        return;
    size_t from = part_of(before, max_tokens), to = part_of(now, max_tokens);
    for (size_t i = from + 1; i <= to; i++)
        expect->reached[i]++;
    if (to > from)
        update(expect);
}

void expect_end(struct expect *expect, size_t tokens, size_t max_tokens) {
    expect->ended[part_of(tokens, max_tokens)]++;
    update(expect);
}

double expect_survival(const struct expect *expect, size_t tokens, size_t max_tokens) {
    if (tokens >= max_tokens)
        return 0;
    double place = (double)tokens / (double)max_tokens * SL_EXPECT_BINS;
    size_t part = (size_t)place;
    part = part < SL_EXPECT_BINS ? part : SL_EXPECT_BINS - 1;
    double from = expect->survival[part], to = expect->survival[part + 1];
    double chance = from + (to - from) * (place - (double)part);
    return chance > 1e-9 ? chance : 1e-9;
}

double expect_length(const struct expect *expect, size_t tokens, size_t max_tokens) {
    if (tokens >= max_tokens)
        return (double)max_tokens;
    double now = expect_survival(expect, tokens, max_tokens);
    double part = (double)max_tokens / SL_EXPECT_BINS, place = (double)tokens, sum = place;
    while (place < (double)max_tokens) {
        double end = ((double)(size_t)(place / part) + 1) * part;
        end = end <= place ? place + part : end;
        end = end < (double)max_tokens ? end : (double)max_tokens;
        double middle = (place + end) / 2;
        sum += (end - place) * expect_survival(expect, (size_t)middle, max_tokens) / now;
        place = end;
    }
    return sum < (double)max_tokens ? sum : (double)max_tokens;
}
