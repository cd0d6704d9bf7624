/* Owns how the schedule of a plan is played: with which cost, lengths and expected answers. */
#include "plan/hours.h"

#include "engine/kv.h"

#include <string.h>

void hours_of_tokens(const struct memory *memory, struct pass_cost *cost) {
    cost->token_flops = 2.0 * (double)memory->values;
    cost->logits_flops = 2.0 * (double)memory->head_values;
    const struct plan_rows *rows = memory->rows;
    if (rows->prompt_tokens > rows->shared_tokens) /* tokens that are scored need the head too */
        cost->token_flops += cost->logits_flops * (double)rows->scored_tokens /
                             (double)(rows->prompt_tokens - rows->shared_tokens);
}

void hours_of_reads(const struct memory *memory, const struct choice *choice,
                    struct pass_cost *cost) {
    const struct mixture *mixture = &memory->model->config.mixture;
    cost->read_bytes = cost->expert_bytes = cost->expert_share = 0;
    if (choice->slab_count == 0)
        return;
    must(choice->pins.read_bytes <= choice->way->read_bytes);
    cost->read_bytes = (double)(choice->way->read_bytes - choice->pins.read_bytes);
    if (mixture->count == 0)
        return;
    cost->expert_bytes = (double)memory->expert_bytes;
    cost->expert_share = (double)mixture->used / mixture->count;
}

/* Rows of a job whose lengths nobody has told one by one: all alike. */
static bool get_average(const void *ctx, size_t index, struct row_length *out) {
    const struct plan_rows *rows = ctx;
    (void)index;
    *out = (struct row_length){
        .prompt = (uint32_t)size_divide_up(rows->prompt_tokens, rows->count),
        .answer = (uint32_t)size_divide_up(rows->answer_tokens, rows->count),
    };
    return true;
}

/* Whether rows will enter evenly, as sched.c has them where most go on to their limits. Nobody
 * knows that of answers before the first have ended: those of the first generation enter at once.
 */
static bool are_certain(const struct plan *plan, const struct answers *expected,
                        bool ignores_drive) {
    if (plan->rows.certain_rows == plan->rows.count)
        return true;
    if (expected == NULL)
        return !ignores_drive;
    return 2 * expected->rows[SL_ANSWER_BINS] > answers_count(expected);
}

static enum status play(const struct plan *plan, const struct answers *expected, bool ignores_drive,
                        struct simulated *out, struct error *err) {
    struct row_lengths alike = {.ctx = &plan->rows, .count = plan->rows.count, .get = get_average};
    struct simulate_options options = {
        .rows = plan->rows.lengths.get != NULL ? &plan->rows.lengths : &alike,
        .row_count = plan->rows.count,
        .expected = expected,
        .is_certain = are_certain(plan, expected, ignores_drive),
        .ignores_drive = ignores_drive,
        .batch = plan->batch,
        .pass_tokens = plan->pass_tokens,
        .head_tokens = plan->rows.head_tokens,
        .opening_rows = plan->opening_rows,
        .opening_tokens = plan->opening_tokens,
        .page_count = plan->page_count > 0 ? plan->page_count : plan->window_page_count,
        .row_pages_max = plan->row_pages_max,
        .cost = &plan->cost,
    };
    return simulate(&options, out, err);
}

/* The first answers should be there after so many seconds, .. */
#define FIRST_SECONDS 20.0
/* .. or else in half the time at least, .. */
#define SOONER 0.5
/* .. if the job lasts no longer than that for it. */
#define OPENING_COST 1.02
/* Passes of fewer tokens leave the processor waiting for memory. */
#define OPENING_TOKENS_LEAST ((size_t)32)

/* Decides on opening_tokens: the most that bring the first answers in time. *out: the schedule. */
static enum status choose_opening(struct plan *plan, const struct answers *expected,
                                  struct simulated *out, struct error *err) {
    struct simulated tried;
    size_t best = 0;
    plan->opening_rows = SL_FIRST_ROWS - size_min(plan->rows.answered, SL_FIRST_ROWS);
    plan->opening_tokens = 0;
    TRY(play(plan, expected, false, out, err));
    double wished = FIRST_SECONDS - plan->load_seconds, soon = out->first_rows_seconds;
    double most = OPENING_COST * out->seconds, sooner = SOONER * soon;
    size_t tokens = plan->opening_rows > 0 ? plan->pass_tokens / 2 : 0;
    for (; tokens >= OPENING_TOKENS_LEAST && soon > wished; tokens /= 2) {
        plan->opening_tokens = tokens;
        TRY(play(plan, expected, false, &tried, err));
        if (tried.seconds > most)
            break;
        soon = tried.first_rows_seconds;
        if (soon > wished && soon > sooner)
            continue;
        best = tokens;
        *out = tried;
    }
    plan->opening_tokens = best;
    return SL_OK;
}

static const struct answers *expected_of(const struct plan *plan) {
    return answers_count(&plan->answers) > 0 ? &plan->answers : NULL;
}

enum status hours_expect(struct plan *plan, struct error *err) {
    plan->cost.read_bytes_per_second = (double)plan->read_bytes_per_second;
    if (plan->rows.count == 0)
        return SL_OK;
    double weights = (double)plan->weights_bytes;
    plan->load_seconds = plan->slab_count > 0 ? 0 : weights / (double)plan->read_bytes_per_second;
    TRY(choose_opening(plan, expected_of(plan), &plan->likely, err));
    plan->passes = plan->likely.passes > 0 ? plan->likely.passes : 1;
    plan->pass_seconds = plan->likely.seconds / (double)plan->passes;
    plan->seconds = plan->likely.seconds + plan->load_seconds;
    return SL_OK;
}

enum status hours_of_others(struct plan *plan, struct error *err) {
    const struct answers *expected = expected_of(plan);
    plan->at_limit = plan->crowded = plan->likely;
    if (plan->rows.count == 0)
        return SL_OK;
    if (expected != NULL)
        TRY(play(plan, NULL, false, &plan->at_limit, err));
    if (plan->slab_count > 0)
        TRY(play(plan, expected, true, &plan->crowded, err));
    return SL_OK;
}

enum status plan_time(struct plan *plan, struct error *err) {
    TRY(hours_expect(plan, err));
    return hours_of_others(plan, err);
}
