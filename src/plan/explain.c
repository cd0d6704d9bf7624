/* Says what a plan decided: one paragraph for people, with the sum of the batch spelled out, and
 * one JSON object for programs. Decides nothing. */
#include "plan/plan.h"

#include "base/json.h"

#include <string.h>

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
    add_amount(out, " / ", row_bytes, " KV a row");
    add_many(out, " (prompt + answer, ", plan->rows.sequence_tokens / count, "token");
    buf_add(out, STR(" on average"));
    if (plan->state_bytes_per_row > 0)
        add_amount(out, ", and ", plan->state_bytes_per_row, " of state however long it is");
    buf_add(out, STR(")"));
    if (plan->slab_count > 0 && plan->batch < plan->rows.count && row_bytes > 0)
        buf_printf(out, " = %.1f average rows", (double)plan->kv_bytes / (double)row_bytes);
    buf_printf(out, ", bounded by: %s.", plan->batch_reason);
    if (plan->pinned_blocks == 0)
        return;
    add_amount(out, " What is left keeps ", plan->pinned_bytes, " of weights in memory");
    buf_printf(out, " (%zu of %zu blocks).", plan->pinned_blocks, plan->block_count);
}

void plan_explain_rate(const struct plan *plan, struct buf *out) {
    add_time(plan->seconds, out);
    add_amount(out, " if every row runs to its limit (read rate ", plan->read_bytes_per_second,
               "/s, ");
    buf_printf(out, "%s)", plan->rate_source);
}

static void add_hours(const struct plan *plan, struct buf *out) {
    buf_printf(out, " About %llu pass%s of ", (unsigned long long)plan->passes,
               plan->passes == 1 ? "" : "es");
    add_many(out, "", plan->pass_tokens, "token");
    if (plan->slab_count > 0)
        add_amount(out, ", each reading ", plan->pass_bytes, "");
    buf_add(out, STR("; "));
    plan_explain_rate(plan, out);
    buf_add(out, STR(". "));
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

void plan_explain(const struct plan *plan, const struct model *model, struct buf *out) {
    buf_printf(out, "plan: %s, %s (%s), %s kernels (%s)", model->config.family, plan->precision,
               plan->precision_reason, plan->kernels, plan->kernels_reason);
    add_many(out, ", ", plan->threads, "thread");
    buf_add(out, STR(". "));
    if (plan->rows.count == 0) {
        buf_add(out, STR("No row can run: there is nothing to plan.\n"));
        return;
    }
    add_many(out, "", plan->rows.count, "row");
    add_many(out, ", ", plan->rows.prompt_tokens, "prompt token");
    add_many(out, ", at most ", plan->rows.answer_tokens, "answer token");
    buf_add(out, STR(". "));
    add_specials(&plan->rows, out);
    buf_printf(out, "%s: %s. ", plan->engine, plan->engine_reason);
    add_amount(out, "Budget ", plan->budget_bytes, "");
    buf_printf(out, " (%s); ", plan->budget_source);
    add_batch(plan, out);
    add_hours(plan, out);
    add_amount(out, "Peak memory ", plan->predicted_peak_bytes, ".");
    if (plan->note[0] != '\0')
        buf_printf(out, " %s", plan->note);
    buf_add_char(out, '\n');
}

static void add_text(struct buf *out, const char *name, const char *value) {
    buf_printf(out, "%s\"%s\": ", out->data[out->len - 1] == '{' ? "" : ", ", name);
    json_add_string(out, str_from(value));
}

static void add_count(struct buf *out, const char *name, uint64_t value) {
    buf_printf(out, ", \"%s\": %llu", name, (unsigned long long)value);
}

static void add_real(struct buf *out, const char *name, double value) {
    buf_printf(out, ", \"%s\": ", name);
    json_add_double(out, value);
}

void plan_json(const struct plan *plan, const struct model *model, struct buf *out) {
    buf_add_char(out, '{');
    if (out->has_failed)
        return;
    add_text(out, "model", model->path);
    add_text(out, "family", model->config.family);
    add_text(out, "engine", plan->engine);
    add_text(out, "engine_reason", plan->engine_reason);
    add_text(out, "precision", plan->precision);
    add_text(out, "precision_reason", plan->precision_reason);
    add_text(out, "kernels", plan->kernels);
    add_text(out, "kernels_reason", plan->kernels_reason);
    add_count(out, "rows", plan->rows.count);
    add_count(out, "prompt_tokens", plan->rows.prompt_tokens);
    add_count(out, "special_rows", plan->rows.special_rows);
    add_count(out, "budget_bytes", plan->budget_bytes);
    add_count(out, "base_bytes", plan->base_bytes);
    add_count(out, "weights_bytes", plan->weights_bytes);
    add_count(out, "resident_bytes", plan->resident_bytes);
    add_count(out, "ring_bytes", plan->ring_bytes);
    add_count(out, "activation_bytes", plan->activation_bytes);
    add_count(out, "kv_bytes_per_token", plan->kv_bytes_per_token);
    add_count(out, "state_bytes_per_row", plan->state_bytes_per_row);
    add_count(out, "kv_bytes", plan->kv_bytes);
    add_count(out, "pinned_bytes", plan->pinned_bytes);
    add_count(out, "batch", plan->batch);
    add_count(out, "pass_tokens", plan->pass_tokens);
    add_count(out, "passes", plan->passes);
    add_count(out, "pass_bytes", plan->pass_bytes);
    add_real(out, "pass_seconds", plan->pass_seconds);
    add_real(out, "seconds", plan->seconds);
    add_count(out, "read_bytes_per_second", plan->read_bytes_per_second);
    add_text(out, "rate_source", plan->rate_source);
    add_count(out, "predicted_peak_bytes", plan->predicted_peak_bytes);
    add_count(out, "needed_bytes", plan->needed_bytes);
    buf_add(out, STR("}\n"));
}
