/* Owns the histogram of answer lengths. Refuses nothing. */
#include "plan/answers.h"

#include "base/mem.h"

#include <math.h>

#define GOLDEN 0.6180339887498949
#define ROWS_KEPT 4096u /* older rows fade beyond that */
#define ROWS_DOUBTED 8u /* at their limits, beside a first row; fewer beside more */

void answers_add(struct answers *answers, size_t tokens, size_t limit) {
    must(limit > 0);
    size_t bin = SL_ANSWER_BINS;
    if (tokens < limit)
        bin = tokens == 0 ? 0 : (size_t)((double)(tokens - 1) / (double)limit * SL_ANSWER_BINS);
    must(bin <= SL_ANSWER_BINS);
    answers->rows[bin]++;
}

uint64_t answers_count(const struct answers *answers) {
    uint64_t count = 0;
    for (size_t i = 0; i <= SL_ANSWER_BINS; i++)
        count += answers->rows[i];
    return count;
}

double answers_mean(const struct answers *answers) {
    uint64_t count = answers_count(answers);
    double sum = (double)answers->rows[SL_ANSWER_BINS];
    for (size_t i = 0; i < SL_ANSWER_BINS; i++)
        sum += (double)answers->rows[i] * ((double)i + 0.5) / SL_ANSWER_BINS;
    return count > 0 ? sum / (double)count : 1;
}

double answers_life(const struct answers *answers) {
    double sum = (double)answers->rows[SL_ANSWER_BINS], squares = sum;
    for (size_t i = 0; i < SL_ANSWER_BINS; i++) {
        double share = ((double)i + 0.5) / SL_ANSWER_BINS;
        sum += (double)answers->rows[i] * share;
        squares += (double)answers->rows[i] * share * share;
    }
    return sum > 0 ? squares / (2 * sum) : 0.5;
}

double answers_quantile(size_t number) {
    double quantile = 0.5 + (double)number * GOLDEN;
    return quantile - floor(quantile);
}

double answers_share(const struct answers *answers, double quantile) {
    double left = quantile * (double)answers_count(answers);
    for (size_t i = 0; i < SL_ANSWER_BINS; i++) {
        double rows = (double)answers->rows[i];
        if (left < rows)
            return ((double)i + left / rows) / SL_ANSWER_BINS;
        left -= rows;
    }
    return 1;
}

void answers_doubt(struct answers *answers) {
    uint64_t count = answers_count(answers);
    if (count == 0 || count >= SL_ANSWERS_ENOUGH)
        return;
    uint64_t more = ROWS_DOUBTED * (SL_ANSWERS_ENOUGH - count);
    answers->rows[SL_ANSWER_BINS] += size_divide_up(more, SL_ANSWERS_ENOUGH);
}

void answers_merge(struct answers *known, const struct answers *seen) {
    uint64_t count = 0;
    for (size_t i = 0; i <= SL_ANSWER_BINS; i++) {
        known->rows[i] += seen->rows[i];
        count += known->rows[i];
    }
    if (count <= ROWS_KEPT)
        return;
    for (size_t i = 0; i <= SL_ANSWER_BINS; i++)
        known->rows[i] = known->rows[i] * ROWS_KEPT / count;
}
