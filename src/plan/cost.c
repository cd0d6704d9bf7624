/* Owns the arithmetic of a pass's time. Refuses to extrapolate from passes that are all alike. */
#include "plan/cost.h"

#include <math.h>

#define PASSES_LEAST 8
/* Variance over mean squared of the work of passes, below which no slope can be told. */
#define SPREAD_LEAST 0.01

static double work_of(const struct pass_cost *cost, double tokens, double logits) {
    return tokens * cost->token_flops + logits * cost->logits_flops;
}

double cost_compute_seconds(const struct pass_cost *cost, double tokens, double logits) {
    return cost->fixed_seconds + work_of(cost, tokens, logits) / cost->flops_per_second;
}

double cost_read_seconds(const struct pass_cost *cost, double tokens) {
    double bytes = cost->read_bytes;
    if (bytes <= 0)
        return 0;
    if (cost->expert_share > 0)
        bytes -= pow(1 - cost->expert_share, tokens) * cost->expert_bytes;
    return bytes > 0 ? bytes / cost->read_bytes_per_second : 0;
}

double cost_seconds(const struct pass_cost *cost, double tokens, double logits) {
    double compute = cost_compute_seconds(cost, tokens, logits);
    double read = cost_read_seconds(cost, tokens);
    return (read > compute ? read : compute) + cost->idle_seconds;
}

void cost_observe(struct cost_observed *observed, const struct pass_cost *cost, double tokens,
                  double logits, double seconds) {
    double work = work_of(cost, tokens, logits);
    observed->passes++;
    observed->work += work;
    observed->work_squared += work * work;
    observed->seconds += seconds;
    observed->work_seconds += work * seconds;
}

bool cost_learn(const struct cost_observed *observed, double *flops_per_second,
                double *fixed_seconds) {
    double count = observed->passes;
    if (count < PASSES_LEAST || observed->work <= 0 || observed->seconds <= 0)
        return false;
    double mean = observed->work / count, mean_seconds = observed->seconds / count;
    double variance = observed->work_squared / count - mean * mean;
    double covariance = observed->work_seconds / count - mean * mean_seconds;
    double slope = variance > SPREAD_LEAST * mean * mean ? covariance / variance : 0;
    double fixed = mean_seconds - slope * mean;
    if (slope <= 0 || fixed < 0) { /* the line through the origin and the mean */
        slope = mean_seconds / mean;
        fixed = 0;
    }
    *flops_per_second = 1 / slope;
    *fixed_seconds = fixed;
    return true;
}
