/* Rotary embedding: frequencies once, cosines and sines for each pass.
 *
 * Everything is computed in double with base/num.h and plain additions and products, never by
 * libm's pow, exp or sin, so that a model's tables are the same on every machine. The scaling
 * `llama3` is the one of Llama 3.1's published code (transformers, modeling_rope_utils.py): long
 * waves are slowed down by the factor, short ones left alone, those between blended. `yarn` (Peng
 * et al. 2023) blends along the pairs' numbers, between those that turn beta_fast and beta_slow
 * times over the positions of training. */
#include "model/rope.h"

#include "base/num.h"

#define PI 3.14159265358979323846

/* e^x for x in [-700, 0]: x = n ln 2 + r, Taylor's series for e^r with |r| <= 0.35 (17 terms leave
 * less than 1e-20), then n halvings. */
static double rope_exp(double x) {
    double n = (double)(int64_t)(x * 1.44269504088896338700 - 0.5);
    double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double sum = 1.0;
    for (int k = 17; k >= 1; k--)
        sum = 1.0 + sum * r / (double)k;
    return ldexp(sum, (int)n); /* exact */
}

static double rope_llama3(const struct rope_config *rope, double frequency) {
    double wave = 2.0 * PI / frequency;
    double long_wave = rope->original_context / rope->low_freq_factor;
    double short_wave = rope->original_context / rope->high_freq_factor;
    if (wave < short_wave)
        return frequency;
    if (wave > long_wave)
        return frequency / rope->factor;
    double blend = (rope->original_context / wave - rope->low_freq_factor) /
                   (rope->high_freq_factor - rope->low_freq_factor);
    return (1.0 - blend) * frequency / rope->factor + blend * frequency;
}

/* The pair, as a fraction, whose wave turns so many times over the original context. */
static double rope_turning_pair(const struct rope_config *rope, double turns) {
    return rope->rotary * num_log(rope->original_context / (turns * 2.0 * PI)) /
           (2.0 * num_log(rope->theta));
}

static double rope_yarn(const struct rope_config *rope, uint32_t pair, double frequency) {
    double low = rope_turning_pair(rope, rope->beta_fast);
    double high = rope_turning_pair(rope, rope->beta_slow);
    if (!rope->keeps_fractions) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0 ? low : 0;
    high = high < rope->rotary - 1 ? high : rope->rotary - 1;
    if (high == low)
        high += 0.001;
    double ramp = ((double)pair - low) / (high - low);
    ramp = ramp < 0 ? 0 : (ramp > 1 ? 1 : ramp);
    return frequency / rope->factor * ramp + frequency * (1.0 - ramp);
}

void rope_frequencies(const struct rope_config *rope, const float *factors, float *frequencies) {
    double log_theta = num_log(rope->theta);
    for (uint32_t i = 0; i < rope->rotary / 2; i++) {
        double frequency = rope_exp(-log_theta * (2.0 * i / rope->rotary));
        if (rope->kind == ROPE_LINEAR)
            frequency /= rope->factor;
        else if (rope->kind == ROPE_LLAMA3)
            frequency = rope_llama3(rope, frequency);
        else if (rope->kind == ROPE_YARN)
            frequency = rope_yarn(rope, i, frequency);
        if (factors != NULL)
            frequency /= (double)factors[i];
        frequencies[i] = (float)frequency;
    }
}

bool rope_is_long(const struct rope_config *rope, size_t row_limit) {
    return rope->kind == ROPE_LONGROPE && (double)row_limit > rope->original_context;
}

struct rope_work {
    struct rope_table *table;
    const struct rope_source *source;
    const struct kv_token *tokens;
    size_t count;
};

static void rope_fill_tile(void *ctx, size_t item, size_t worker) {
    const struct rope_work *work = ctx;
    size_t first = item * SL_LANES;
    size_t end = first + SL_LANES < work->count ? first + SL_LANES : work->count;
    (void)worker;
    for (size_t token = first; token < end; token++) {
        const struct rope_source *source = work->source;
        double position = work->tokens[token].position, factor = source->attention_factor;
        bool is_long =
            source->long_frequencies != NULL && work->tokens[token].row_limit > source->original;
        const float *frequencies = is_long ? source->long_frequencies : source->frequencies;
        for (size_t i = 0; i < source->pairs; i++) {
            double sine, cosine;
            num_sincos(position * (double)frequencies[i], &sine, &cosine);
            *act_at(&work->table->cosines, i, token) = (float)(cosine * factor);
            *act_at(&work->table->sines, i, token) = (float)(sine * factor);
        }
    }
}

void rope_fill(struct rope_table *table, const struct rope_source *source,
               const struct kv_token *tokens, size_t count, struct team *team) {
    act_shape(&table->cosines, source->pairs, count);
    act_shape(&table->sines, source->pairs, count);
    struct rope_work work = {table, source, tokens, count};
    team_run(team, rope_fill_tile, &work, act_tiles(count));
}
