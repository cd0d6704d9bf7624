/* Owns the sums behind "how long still": chances and ends by length, the line through the passes.
 * Decides nothing; progress.c shows what comes out. */
#include "job/estimate.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LENGTHS_ALONE 16u     /* lengths with a class of their own; then four classes an octave */
#define CHANCES_BELIEVED 32.0 /* of the mean, beside those that a class has seen itself */
#define PASS_FADING 0.97      /* of a pass in the sums when one more comes */
#define DELAY_FADING 0.98     /* of a row's in the sums when one more comes */
#define LIVE_FADING 0.97      /* of the rows that are in, likewise */
#define SPREAD_LEAST 0.02     /* of tokens a pass, in means squared, to tell a slope from */
#define STEPS_OF_LONGEST 64u  /* of the sum over time for the longest row */
#define ROWS_OF_LONGEST 256u  /* that are looked at for it */

/* The hazard of each class, and the logarithm of the share of answers that reach its begin. */
struct lengths {
    double hazard[SL_ESTIMATE_LENGTHS], reached[SL_ESTIMATE_LENGTHS];
};

static unsigned octave(uint64_t value) {
    return 63u - (unsigned)__builtin_clzll(value);
}

static size_t class_of(uint64_t length) {
    if (length < LENGTHS_ALONE)
        return (size_t)length;
    unsigned of = octave(length);
    size_t found = LENGTHS_ALONE + (size_t)(of - 4) * 4 + (size_t)((length >> (of - 2)) & 3);
    return found < SL_ESTIMATE_LENGTHS ? found : SL_ESTIMATE_LENGTHS - 1;
}

static double begin_of(size_t class) {
    if (class < LENGTHS_ALONE)
        return (double)class;
    size_t octaves = (class - LENGTHS_ALONE) / 4, quarter = (class - LENGTHS_ALONE) % 4;
    return ldexp(4 + (double)quarter, (int)octaves + 2);
}

enum status estimate_init(struct estimate *estimate, size_t places, struct error *err) {
    *estimate = (struct estimate){.places = places};
    estimate->rows = mem_new(places, sizeof *estimate->rows);
    estimate->expected = mem_new(places, sizeof *estimate->expected);
    if (estimate->rows == NULL || estimate->expected == NULL) {
        estimate_release(estimate);
        return error_memory(err, places * sizeof *estimate->rows, "the progress");
    }
    return SL_OK;
}

void estimate_release(struct estimate *estimate) {
    mem_free(estimate->rows);
    mem_free(estimate->expected);
    estimate->rows = NULL;
    estimate->expected = NULL;
}

static size_t limit_class(size_t limit) {
    return limit > 0 ? octave(limit) % SL_ESTIMATE_LIMITS : 0;
}

void estimate_wait(struct estimate *estimate, size_t prompt_tokens, size_t limit) {
    size_t class = limit_class(limit);
    estimate->waiting[class].rows++;
    estimate->waiting[class].limits += limit;
    estimate->waiting_rows++;
    estimate->waiting_prompts += prompt_tokens;
}

void estimate_unwait(struct estimate *estimate, size_t prompt_tokens, size_t limit) {
    size_t class = limit_class(limit);
    must(estimate->waiting[class].rows > 0 && estimate->waiting[class].limits >= limit);
    must(estimate->waiting_prompts >= prompt_tokens);
    estimate->waiting[class].rows--;
    estimate->waiting[class].limits -= limit;
    estimate->waiting_rows--;
    estimate->waiting_prompts -= prompt_tokens;
}

void estimate_enter(struct estimate *estimate, size_t place, size_t generated, size_t limit) {
    must(place < estimate->places && estimate->rows[place].limit == 0 && limit > 0);
    estimate->rows[place] = (struct estimate_row){(uint32_t)generated, (uint32_t)limit, 0};
    estimate->live++;
    estimate->most = estimate->live > estimate->most ? estimate->live : estimate->most;
}

void estimate_token(struct estimate *estimate, size_t place) {
    struct estimate_row *row = &estimate->rows[place];
    estimate->chances[class_of(row->generated)]++;
    row->generated++;
    if (row->generated == 1) {
        estimate->delays = estimate->delays * DELAY_FADING + row->passes;
        estimate->delayed = estimate->delayed * DELAY_FADING + 1;
    }
}

void estimate_leave(struct estimate *estimate, size_t place, bool is_stop) {
    struct estimate_row *row = &estimate->rows[place];
    must(row->limit > 0);
    if (is_stop) {
        size_t class = class_of(row->generated);
        estimate->chances[class]++;
        estimate->ends[class]++;
    }
    *row = (struct estimate_row){0};
    estimate->live--;
}

void estimate_pass(struct estimate *estimate, size_t tokens, double seconds) {
    double x = (double)tokens, fading = estimate->passes == 1 ? 0.1 : PASS_FADING;
    /* The first pass is hardly one of many: caches are cold, pages new. */
    estimate->weight = estimate->weight * fading + 1;
    estimate->tokens = estimate->tokens * fading + x;
    estimate->seconds = estimate->seconds * fading + seconds;
    estimate->tokens_squared = estimate->tokens_squared * fading + x * x;
    estimate->tokens_seconds = estimate->tokens_seconds * fading + x * seconds;
    estimate->passes++;
    estimate->taken = estimate->most; /* the next rows have not come into these places yet */
    if (estimate->waiting_rows > 0) {
        estimate->lives = estimate->lives * LIVE_FADING + (double)estimate->taken;
        estimate->lived = estimate->lived * LIVE_FADING + 1;
    }
    estimate->most = estimate->live;
    for (size_t i = 0; i < estimate->places; i++)
        estimate->rows[i].passes++;
}

/* Passes that a row waits for its first token, besides the one that makes it. */
static double delay_of(const struct estimate *estimate) {
    return estimate->delayed > 0 ? estimate->delays / estimate->delayed : 0;
}

/* The same of a row that is in. */
static double delay_left(const struct estimate *estimate, const struct estimate_row *row) {
    return row->generated > 0 ? 0 : fmax(delay_of(estimate) - row->passes, 0);
}

/* Seconds of a pass without tokens, and of each token. */
static void fit_passes(const struct estimate *estimate, double *alone, double *token) {
    double x = estimate->tokens / estimate->weight, y = estimate->seconds / estimate->weight;
    double spread = estimate->tokens_squared / estimate->weight - x * x;
    double both = estimate->tokens_seconds / estimate->weight - x * y;
    *token = spread > SPREAD_LEAST * x * x ? both / spread : 0;
    *token = fmin(fmax(*token, 0), x > 0 ? y / x : 0);
    *alone = y - *token * x;
}

static void find_lengths(const struct estimate *estimate, struct lengths *out) {
    double chances = 0, ends = 0;
    for (size_t i = 0; i < SL_ESTIMATE_LENGTHS; i++) {
        chances += (double)estimate->chances[i];
        ends += (double)estimate->ends[i];
    }
    double mean = chances > 0 ? ends / chances : 0, reached = 0;
    for (size_t i = 0; i < SL_ESTIMATE_LENGTHS; i++) {
        out->hazard[i] = ((double)estimate->ends[i] + CHANCES_BELIEVED * mean) /
                         ((double)estimate->chances[i] + CHANCES_BELIEVED);
        out->hazard[i] = fmin(out->hazard[i], 0.999);
        out->reached[i] = reached;
        reached += log1p(-out->hazard[i]) * (begin_of(i + 1) - begin_of(i));
    }
}

/* The logarithm of the share of answers that come to `length` tokens. */
static double reach(const struct lengths *lengths, double length) {
    size_t class = class_of((uint64_t)length);
    return lengths->reached[class] + log1p(-lengths->hazard[class]) * (length - begin_of(class));
}

/* The tokens that an answer of `from` tokens and at most `to` is expected to have still. */
static double expect(const struct lengths *lengths, double from, double to) {
    double sum = 0, base = reach(lengths, from), at = from;
    while (at < to) {
        size_t class = class_of((uint64_t)at);
        bool is_last = class + 1 == SL_ESTIMATE_LENGTHS;
        double end = is_last ? to : fmin(begin_of(class + 1), to);
        double here = exp(reach(lengths, at) - base), hazard = lengths->hazard[class];
        sum += here * (hazard > 0 ? -expm1((end - at) * log1p(-hazard)) / hazard : end - at);
        at = end;
    }
    return sum;
}

/* The passes until the longest of the live rows is expected to end: the sum over time of the chance
 * that any is left. */
static double expect_longest(const struct estimate *estimate, const struct lengths *lengths) {
    double most = 0, sum = 0, before = 0;
    size_t stride = estimate->live / ROWS_OF_LONGEST + 1;
    for (size_t i = 0; i < estimate->places; i++) {
        const struct estimate_row *row = &estimate->rows[i];
        if (row->limit > row->generated)
            most = fmax(most, row->limit - row->generated + delay_left(estimate, row));
    }
    /* Steps in the middle of which it is looked: the first ones are shorter. */
    for (size_t step = 1; step <= STEPS_OF_LONGEST; step++) {
        double share = (double)step / STEPS_OF_LONGEST, end = most * share * share;
        double middle = (before + end) / 2, none = 0;
        for (size_t i = 0, number = 0; i < estimate->places; i++) {
            const struct estimate_row *row = &estimate->rows[i];
            if (row->limit == 0 || number++ % stride != 0)
                continue;
            double length = row->generated + fmax(middle - delay_left(estimate, row), 0);
            if (length >= (double)row->limit)
                continue;
            double left = exp(reach(lengths, length) - reach(lengths, row->generated));
            none += (double)stride * log1p(-fmin(left, 1 - 1e-12));
        }
        sum += -expm1(none) * (end - before);
        before = end;
    }
    return sum;
}

/* Places that rows go through. */
static size_t places_of(const struct estimate *estimate) {
    size_t count = estimate->live > estimate->taken ? estimate->live : estimate->taken;
    return count > 0 ? count : 1;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The passes left when `each` is expected of a waiting row and `expected` has those of the live. */
static double expect_passes(const struct estimate *estimate, double each, double longest) {
    size_t live = places_of(estimate);
    /* Where rows end together and enter evenly, their number swings. */
    double mean_live = estimate->lived > 0 ? estimate->lives / estimate->lived : (double)live;
    size_t rounds = (size_t)estimate->waiting_rows / live, more = estimate->waiting_rows % live;
    double *ends = estimate->expected;
    qsort(ends, live, sizeof *ends, compare);
    double last = ends[live - 1], in_turn = (double)rounds * each + last;
    if (more > 0)
        in_turn = fmax(in_turn, (double)rounds * each + ends[more - 1] + each);
    double one_by_one = (double)estimate->waiting_rows / fmax(mean_live, 1) * each + longest;
    double excess = fmax(longest - last, 0), mean = each > 0 ? each : last;
    double share = mean > 0 ? fmin(4 * excess / mean, 1) : 1;
    return share * one_by_one + (1 - share) * (in_turn + excess);
}

double estimate_share(const struct estimate *estimate, size_t limit) {
    struct lengths lengths;
    find_lengths(estimate, &lengths);
    return limit > 0 ? expect(&lengths, 0, (double)limit) / (double)limit : 1;
}

bool estimate_left(const struct estimate *estimate, size_t pass_tokens, struct estimate_left *out) {
    struct lengths lengths;
    double alone, token, waiting = 0, live = 0;
    size_t count = 0;
    if (estimate->passes == 0 || estimate->places == 0)
        return false;
    find_lengths(estimate, &lengths);
    fit_passes(estimate, &alone, &token);
    for (size_t i = 0; i < SL_ESTIMATE_LIMITS; i++) {
        double of = (double)estimate->waiting[i].rows;
        if (of > 0)
            waiting += of * expect(&lengths, 0, (double)estimate->waiting[i].limits / of);
    }
    for (size_t i = 0; i < estimate->places; i++) {
        const struct estimate_row *row = &estimate->rows[i];
        if (row->limit <= row->generated)
            continue;
        double one = expect(&lengths, row->generated, (double)row->limit);
        estimate->expected[count++] = one + delay_left(estimate, row);
        live += one;
    }
    while (count < places_of(estimate))
        estimate->expected[count++] = 0;
    double tokens = waiting + live + (double)estimate->waiting_prompts;
    double waiting_rows = (double)estimate->waiting_rows;
    double each = waiting_rows > 0 ? waiting / waiting_rows + delay_of(estimate) : 0;
    double passes = expect_passes(estimate, each, expect_longest(estimate, &lengths));
    passes = fmax(passes, pass_tokens > 0 ? tokens / (double)pass_tokens : 0);
    *out = (struct estimate_left){.passes = passes,
                                  .seconds = passes * alone + tokens * token,
                                  .answer_tokens = waiting + live};
    return true;
}
