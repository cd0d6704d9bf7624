/* Says what a plan decided as one JSON object, for programs: the members of INTERFACE.md and more.
 * Decides nothing. */
#include "base/json.h"
#include "plan/plan.h"

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
    if (plan->advice[0] != '\0')
        add_text(out, "advice", plan->advice);
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
    add_real(out, "compute_flops_per_second", plan->cost.flops_per_second);
    add_text(out, "compute_source", plan->compute_source);
    add_count(out, "limit_passes", plan->at_limit.passes);
    add_real(out, "limit_seconds", plan->at_limit.seconds + plan->load_seconds);
    add_real(out, "expected_answer_share", answers_mean(&plan->answers));
    add_text(out, "answers_source", plan->answers_source);
    add_real(out, "first_row_seconds", plan->likely.first_row_seconds + plan->load_seconds);
    add_real(out, "first_rows_seconds", plan->likely.first_rows_seconds + plan->load_seconds);
    add_real(out, "rows_in", plan->likely.rows_in);
    add_real(out, "kv_fill", plan->likely.kv_fill);
    add_count(out, "slabs", plan->slab_count);
    add_count(out, "cut_rows", plan->rows.cut_rows);
    add_real(out, "memory_ratio", plan->memory_ratio);
    add_count(out, "predicted_peak_bytes", plan->predicted_peak_bytes);
    add_count(out, "needed_bytes", plan->needed_bytes);
    buf_add(out, STR("}\n"));
}
