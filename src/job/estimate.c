/* Owns what "how long still" is played with: what passes cost, who is in, how long answers will be.
 * Decides nothing; progress.c shows what comes out. */
#include "job/estimate.h"

#include "base/mem.h"

#include <math.h>

#define PASS_FADING 0.97 /* of a pass in the sums when one more comes */
/* A pass in which the processor waited for less than this share of it tells little of the drive's
 * rate, but that it is no less: reads may have waited for the processor. */
#define WAIT_SHARE_LEAST 0.1
#define LITTLE 0.02
/* The first pass is hardly one of many: caches are cold, pages new. */
#define FIRST_FADING 0.1
/* The plan's slope weighs like so many passes that lie a mean apart from the others. */
#define PASSES_BELIEVED 1.0
#define SHARES 1e6 /* parts of a chance, as rows of a histogram */

void estimate_init(struct estimate *estimate, const struct pass_cost *known) {
    *estimate = (struct estimate){.known = *known};
}

static double work_of(const struct pass_cost *cost, double tokens, double logits) {
    return tokens * cost->token_flops + logits * cost->logits_flops;
}

/* Bytes that the plan expects such a pass to read: experts as far as its tokens reach them. */
static double bytes_of(const struct pass_cost *cost, double tokens) {
    return cost_read_seconds(cost, tokens) * cost->read_bytes_per_second;
}

void estimate_pass(struct estimate *estimate, const struct estimate_pass *pass) {
    double fading = estimate->passes == 1 ? FIRST_FADING : PASS_FADING;
    double work = work_of(&estimate->known, pass->tokens, pass->logits);
    double compute = fmax(pass->seconds - pass->wait_seconds, 0);
    double bytes = bytes_of(&estimate->known, pass->tokens);
    estimate->passes++;
    estimate->weight = estimate->weight * fading + 1;
    estimate->work = estimate->work * fading + work;
    estimate->seconds = estimate->seconds * fading + compute;
    estimate->work_squared = estimate->work_squared * fading + work * work;
    estimate->work_seconds = estimate->work_seconds * fading + work * compute;
    double longer = fmax(compute, pass->read_seconds);
    estimate->idle_seconds = estimate->idle_seconds * fading + fmax(pass->seconds - longer, 0);
    double told = pass->wait_seconds > WAIT_SHARE_LEAST * pass->seconds ? 1 : LITTLE;
    estimate->told_bytes = estimate->told_bytes * fading + told * bytes;
    estimate->told_seconds = estimate->told_seconds * fading + told * pass->read_seconds;
    estimate->read_bytes = estimate->read_bytes * fading + bytes;
    estimate->read_seconds = estimate->read_seconds * fading + pass->read_seconds;
}

void estimate_cost(const struct estimate *estimate, struct pass_cost *out) {
    struct pass_cost cost = estimate->known;
    double work = estimate->work, seconds = estimate->seconds;
    if (estimate->weight > 0 && work > 0 && seconds > 0) {
        work /= estimate->weight;
        seconds /= estimate->weight;
        double slope = 1 / cost.flops_per_second;
        slope *= seconds / (cost.fixed_seconds + slope * work);
        double spread = estimate->work_squared / estimate->weight - work * work;
        double both = estimate->work_seconds / estimate->weight - work * seconds;
        slope +=
            (both - slope * spread) / (spread + PASSES_BELIEVED / estimate->weight * work * work);
        slope = fmin(fmax(slope, 1e-3 * seconds / work), seconds / work);
        cost.flops_per_second = 1 / slope;
        cost.fixed_seconds = seconds - slope * work;
        cost.idle_seconds = estimate->idle_seconds / estimate->weight;
    }
    if (estimate->told_seconds > 0 && estimate->told_bytes > 0)
        cost.read_bytes_per_second = fmax(estimate->told_bytes / estimate->told_seconds,
                                          estimate->read_bytes / estimate->read_seconds);
    *out = cost;
}

/* What the scheduler expects of answers, as a histogram of so many rows as there are SHARES. */
static void fill_answers(const struct expect *expect, struct answers *out) {
    _Static_assert(SL_ANSWER_BINS == SL_EXPECT_BINS, "the same shares");
    for (size_t i = 0; i < SL_EXPECT_BINS; i++)
        out->rows[i] = (uint64_t)(SHARES * (expect->survival[i] - expect->survival[i + 1]) + 0.5);
    out->rows[SL_EXPECT_BINS] = (uint64_t)(SHARES * expect->survival[SL_EXPECT_BINS] + 0.5);
}

/* Tokens of the row that are in pages of its own; of a page that several hold, its part. */
static double own_tokens(const struct sched *sched, const struct seq *seq) {
    enum kv_group group = sched->limits.is_all_windowed ? KV_WINDOW : KV_WHOLE;
    const struct seq_pages *pages = &seq->pages[group];
    if (sched->prefix == NULL)
        return (double)seq->computed;
    const struct kv_pool *pool = &sched->prefix->kv->pools[group];
    double own = 0;
    for (size_t i = pages->first; i < pages->count; i++) {
        uint32_t holders = pool->pages[pages->numbers[i]].holders;
        own += SL_PAGE_TOKENS / (double)(holders > 0 ? holders : 1);
    }
    return fmin(own, (double)seq->computed);
}

/* Tokens that its answer will still have. The rows' chances lie evenly. */
static double answer_left(const struct sched *sched, const struct answers *answers,
                          const struct seq *seq, size_t number) {
    double have = (double)seq_answer_count(seq), limit = (double)seq->max_tokens, end = limit;
    if (!seq->ignores_eos) {
        double ended = 1 - expect_survival(&sched->expect, seq_answer_count(seq), seq->max_tokens);
        double chance = answers_quantile(number);
        end = ceil(answers_share(answers, ended + chance * (1 - ended)) * limit);
    }
    return fmax(end - have, 1);
}

static struct simulate_row row_of(const struct sched *sched, const struct answers *answers,
                                  const struct seq *seq, size_t number) {
    size_t done = size_max(seq->computed, seq->awaited);
    done = sched->prefix != NULL ? size_max(done, seq->alike_count) : done;
    size_t pending = done < seq->token_count ? seq->token_count - done : 1;
    double own = own_tokens(sched, seq), limit = (double)seq->max_tokens;
    double life = answers_life(answers) * limit;
    double prompt = fmax(own + (double)pending - (double)seq_answer_count(seq), 0);
    double pages = ceil((prompt + life) / SL_PAGE_TOKENS);
    if (sched->limits.is_all_windowed)
        pages = fmin(pages, (double)kv_window_pages(sched->limits.window));
    return (struct simulate_row){
        .prompt = (uint32_t)pending,
        .kept = (uint32_t)own,
        .answer = (uint32_t)answer_left(sched, answers, seq, number),
        .pages = (uint32_t)pages,
    };
}

/* Whether rows will enter evenly, and from which step on: rows that may end by themselves do once
 * some have come to the last part of their limits. */
static bool are_even(const struct estimate_job *job, double *from) {
    const struct expect *expect = &job->sched->expect;
    struct row_length first;
    *from = 0;
    if (job->waiting->count == 0 || !job->waiting->get(job->waiting->ctx, 0, &first))
        return false;
    if (first.is_certain || sched_knows_late(job->sched))
        return first.is_certain || expect->survival[SL_EXPECT_BINS] > 0.5;
    double most = 0;
    for (size_t i = 0; i < job->sched->inside_count; i++)
        most = fmax(most, (double)seq_answer_count(job->sched->rows[i]));
    *from = fmax((double)first.answer * (SL_EXPECT_BINS - 1) / SL_EXPECT_BINS - most, 0);
    return expect->survival[SL_EXPECT_BINS] > 0.5;
}

enum status estimate_left(const struct estimate *estimate, const struct estimate_job *job,
                          double *seconds, struct error *err) {
    const struct sched *sched = job->sched;
    const struct sched_limits *limits = &sched->limits;
    struct answers answers = {0};
    struct pass_cost cost;
    struct simulated out = {0};
    size_t inside = sched->inside_count;
    if (inside + job->waiting->count == 0) {
        *seconds = 0;
        return SL_OK;
    }
    struct simulate_row *rows = mem_new(size_max(inside, 1), sizeof *rows);
    if (rows == NULL)
        return error_memory(err, inside * sizeof *rows, "the time left");
    fill_answers(&sched->expect, &answers);
    estimate_cost(estimate, &cost);
    for (size_t i = 0; i < inside; i++)
        rows[i] = row_of(sched, &answers, sched->rows[i], i);
    double even_from;
    bool is_even = are_even(job, &even_from);
    const struct simulate_start start = {.rows = rows,
                                         .count = inside,
                                         .credit = sched->credit,
                                         .even_from = even_from,
                                         .has_waited = sched->pace.read_seconds > 0};
    const struct simulate_options options = {
        .rows = job->waiting,
        .row_count = job->waiting->count,
        .start = &start,
        .expected = &answers,
        .batch = limits->batch_max,
        .pass_tokens = limits->pass_tokens,
        .opening_rows = limits->opening_rows - size_min(limits->opening_rows, sched->ended_rows),
        .opening_tokens = limits->opening_tokens,
        .page_count = limits->is_all_windowed ? limits->window_page_count : limits->page_count,
        .row_pages_max = limits->is_all_windowed ? kv_window_pages(limits->window) : 0,
        .is_certain = is_even,
        .cost = &cost,
    };
    enum status status = simulate(&options, &out, err);
    mem_free(rows);
    if (status == SL_OK)
        *seconds = out.seconds;
    return status;
}
