/* Says what a plan decided: one paragraph for people, with the sum of the batch spelled out, and
 * one JSON object for programs. Decides nothing. */
#include "plan/plan.h"

#include <string.h>

/* A memory model that was wrong by more is said to be. */
#define RATIO_TOLD 1.03

void plan_amount(uint64_t bytes, struct buf *out) {
    static const char units[] = "KMGTPE";
    if (bytes < 1024) {
        buf_printf(out, "%llu", (unsigned long long)bytes);
        return;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 999.95 && unit + 1 < sizeof units - 1) {
        value /= 1024;
        unit++;
    }
    buf_printf(out, value < 9.995 ? "%.2f%c" : "%.1f%c", value, units[unit]);
}

static void add_time(double seconds, struct buf *out) {
    if (seconds < 1)
        buf_add(out, STR("less than a second"));
    else if (seconds < 120)
        buf_printf(out, "about %.0f s", seconds);
    else if (seconds < 7200)
        buf_printf(out, "about %.0f min", seconds / 60);
    else
        buf_printf(out, "about %.1f h", seconds / 3600);
}

static void add_amount(struct buf *out, const char *before, uint64_t bytes, const char *after) {
    buf_printf(out, "%s", before);
    plan_amount(bytes, out);
    buf_printf(out, "%s", after);
}

/* "1 row", "2 rows". */
static void add_many(struct buf *out, const char *before, uint64_t count, const char *what) {
    buf_printf(out, "%s%llu %s%s", before, (unsigned long long)count, what, count == 1 ? "" : "s");
}

/* "batch 100: (36.0G budget - ... ) / 0.17G KV a row (prompt + 128)". */
static void add_batch(const struct plan *plan, struct buf *out) {
    uint64_t count = plan->rows.count;
    uint64_t row_bytes = plan->kv_bytes_per_row;
    buf_printf(out, "batch %zu: ", plan->batch);
    add_amount(out, "(", plan->budget_bytes, " budget");
    add_amount(out, " - ", plan->margin_bytes, " margin");
    add_amount(out, " - ", plan->base_bytes, " process");
    if (plan->slab_count > 0) {
        add_amount(out, " - ", plan->ring_bytes, " ring (");
        buf_printf(out, "%zu x ", plan->slab_count);
        add_amount(out, "", plan->ring_bytes / plan->slab_count, ")");
    } else {
        add_amount(out, " - ", plan->resident_bytes, " weights");
    }
    add_amount(out, " - ", plan->activation_bytes, " activations)");
    add_amount(out, " / ", row_bytes, " KV a row (prompt + ");
    if (plan->rows.answer_tokens == count * plan->rows.longest_answer)
        buf_printf(out, "%zu", plan->rows.longest_answer);
    else
        buf_add(out, STR("answer"));
    add_many(out, ", ", plan->rows.sequence_tokens / count, "token");
    buf_add(out, STR(" on average"));
    if (plan->state_bytes_per_row > 0)
        add_amount(out, ", and ", plan->state_bytes_per_row, " of state however long it is");
    buf_add(out, STR(")"));
    if (plan->batch < plan->rows.count && row_bytes > 0) {
        double rows = (double)plan->kv_bytes / (double)row_bytes;
        buf_printf(out,
                   " = %.1f rows at their longest, %.1f as long as they are on average while they "
                   "are in",
                   rows, rows * (double)plan->rows.pages / (double)plan->life_pages);
    }
    buf_printf(out, ", bounded by: %s.", plan->batch_reason);
    if (plan->memory_ratio > RATIO_TOLD)
        buf_printf(out,
                   " An earlier run took %.1f %% more memory than such a sum, so that much is left "
                   "free.",
                   100 * (plan->memory_ratio - 1));
    if (plan->pinned_blocks == 0)
        return;
    add_amount(out, " What is left keeps ", plan->pinned_bytes, " of weights in memory");
    buf_printf(out, " (%zu of %zu blocks).", plan->pinned_blocks, plan->block_count);
}

/* "235 GFLOP/s". */
static void add_flops(double flops, struct buf *out) {
    static const char units[] = "MGTP";
    double value = flops / 1e6;
    size_t unit = 0;
    while (value >= 999.5 && unit + 2 < sizeof units) {
        value /= 1000;
        unit++;
    }
    buf_printf(out, "%.3g %cFLOP/s", value, units[unit]);
}

void plan_explain_rate(const struct plan *plan, struct buf *out) {
    bool knows_answers = answers_count(&plan->answers) > 0;
    if (knows_answers) {
        add_time(plan->seconds, out);
        buf_printf(out, " with answers of %.0f %% of their limits (%s), ",
                   100 * answers_mean(&plan->answers), plan->answers_source);
    }
    add_time(plan->at_limit.seconds + plan->load_seconds, out);
    add_amount(out, " if every row runs to its limit (read rate ", plan->read_bytes_per_second,
               "/s, ");
    buf_printf(out, "%s; processor ", plan->rate_source);
    add_flops(plan->cost.flops_per_second, out);
    buf_printf(out, ", %s)", plan->compute_source);
}

/* What bounds the passes: the drive or the processor. */
static void add_balance(const struct plan *plan, struct buf *out) {
    const struct pass_cost *cost = &plan->cost;
    double rows = plan->likely.rows_in;
    double read = cost_read_seconds(cost, rows), compute = cost_compute_seconds(cost, rows, rows);
    if (plan->slab_count == 0)
        return;
    buf_printf(out,
               " Reading takes %.3g s a pass, computing %.3g s with %.0f row%s in and one token of "
               "each.",
               read, compute, rows, rows < 1.5 ? "" : "s");
}

static void add_hours(const struct plan *plan, struct buf *out) {
    const struct simulated *likely = &plan->likely;
    buf_printf(out, " About %llu pass%s of at most ", (unsigned long long)plan->passes,
               plan->passes == 1 ? "" : "es");
    add_many(out, "", plan->pass_tokens, "token");
    if (plan->slab_count > 0)
        add_amount(out, ", each reading ", plan->pass_bytes, "");
    buf_add(out, STR("; "));
    plan_explain_rate(plan, out);
    buf_add_char(out, '.');
    add_balance(plan, out);
    buf_add(out, STR(" The first answer comes after "));
    add_time(likely->first_row_seconds + plan->load_seconds, out);
    if (plan->rows.count > 1) {
        size_t first = plan->rows.count < SL_FIRST_ROWS ? plan->rows.count : SL_FIRST_ROWS;
        buf_printf(out, ", %zu of them after ", first);
        add_time(likely->first_rows_seconds + plan->load_seconds, out);
        if (plan->opening_tokens > 0)
            buf_printf(out, ", since passes have at most %zu tokens until then",
                       plan->opening_tokens);
    }
    buf_add(out, STR(". "));
}

static void add_cuts(const struct plan_rows *rows, const struct model *model, struct buf *out) {
    if (rows->cut_rows > 0)
        buf_printf(out,
                   "%zu row%s fewer answer tokens than asked for: the context of %u tokens ends. ",
                   rows->cut_rows, rows->cut_rows == 1 ? " gets" : "s get", model->config.context);
}

static void add_specials(const struct plan_rows *rows, struct buf *out) {
    bool is_one = rows->special_rows == 1;
    if (rows->special_rows == 0)
        return;
    buf_printf(out, "%zu row%s special tokens in %s messages, ", rows->special_rows,
               is_one ? " holds" : "s hold", is_one ? "its" : "their");
    if (rows->specials_are_text)
        buf_add(out, STR("encoded as plain text (--content-specials text). "));
    else
        buf_add(out, STR("which count as such (--content-specials text makes them plain text). "));
}

static void add_rows(const struct plan_rows *rows, struct buf *out) {
    bool scores = rows->scored_tokens > 0;
    add_many(out, "", rows->count, scores ? "text" : "row");
    if (scores) {
        add_many(out, " to score with ", rows->scored_tokens, "token");
        add_many(out, ", in all ", rows->prompt_tokens, "token");
        buf_printf(out, " to compute less %llu that others have too",
                   (unsigned long long)rows->shared_tokens);
    } else {
        add_many(out, ", ", rows->prompt_tokens, "prompt token");
        add_many(out, ", at most ", rows->answer_tokens, "answer token");
    }
    buf_add(out, STR(". "));
}

void plan_explain(const struct plan *plan, const struct model *model, struct buf *out) {
    buf_printf(out, "plan: %s, %s (%s), %s kernels (%s)", model->config.family, plan->precision,
               plan->precision_reason, plan->kernels, plan->kernels_reason);
    add_many(out, ", ", plan->threads, "thread");
    buf_add(out, STR(". "));
    if (plan->rows.count == 0) {
        buf_add(out, STR("No row can run: there is nothing to plan.\n"));
        return;
    }
    add_rows(&plan->rows, out);
    add_specials(&plan->rows, out);
    add_cuts(&plan->rows, model, out);
    buf_printf(out, "%s: %s. ", plan->engine, plan->engine_reason);
    add_amount(out, "Budget ", plan->budget_bytes, "");
    buf_printf(out, " (%s); ", plan->budget_source);
    add_batch(plan, out);
    add_hours(plan, out);
    if (plan->advice[0] != '\0')
        buf_printf(out, "%s ", plan->advice);
    add_amount(out, "Peak memory ", plan->predicted_peak_bytes, ".");
    if (model->template != NULL)
        buf_printf(out, " Chat template: %s.", model->template_source);
    if (plan->note[0] != '\0')
        buf_printf(out, " %s", plan->note);
    buf_add_char(out, '\n');
}
