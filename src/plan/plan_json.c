/* Says what a plan decided as one JSON object, for programs: the members of INTERFACE.md and more.
 * Decides nothing. */
#include "base/json.h"
#include "plan/plan.h"

void plan_json(const struct plan *plan, const struct model *model, struct buf *out) {
    buf_add_char(out, '{');
    json_member_text(out, "model", str_from(model->path));
    json_member_text(out, "family", str_from(model->config.family));
    json_member_text(out, "engine", str_from(plan->engine));
    json_member_text(out, "engine_reason", str_from(plan->engine_reason));
    json_member_text(out, "precision", str_from(plan->precision));
    json_member_text(out, "precision_reason", str_from(plan->precision_reason));
    if (plan->advice[0] != '\0')
        json_member_text(out, "advice", str_from(plan->advice));
    json_member_text(out, "kernels", str_from(plan->kernels));
    json_member_text(out, "kernels_reason", str_from(plan->kernels_reason));
    json_member_count(out, "rows", plan->rows.count);
    json_member_count(out, "prompt_tokens", plan->rows.prompt_tokens);
    json_member_count(out, "special_rows", plan->rows.special_rows);
    json_member_count(out, "budget_bytes", plan->budget_bytes);
    json_member_count(out, "base_bytes", plan->base_bytes);
    json_member_count(out, "weights_bytes", plan->weights_bytes);
    json_member_count(out, "resident_bytes", plan->resident_bytes);
    json_member_count(out, "ring_bytes", plan->ring_bytes);
    json_member_count(out, "activation_bytes", plan->activation_bytes);
    json_member_count(out, "kv_bytes_per_token", plan->kv_bytes_per_token);
    json_member_count(out, "state_bytes_per_row", plan->state_bytes_per_row);
    json_member_count(out, "kv_bytes", plan->kv_bytes);
    json_member_count(out, "pinned_bytes", plan->pinned_bytes);
    json_member_count(out, "batch", plan->batch);
    json_member_count(out, "pass_tokens", plan->pass_tokens);
    json_member_count(out, "opening_tokens", plan->opening_tokens);
    json_member_count(out, "passes", plan->passes);
    json_member_count(out, "pass_bytes", plan->pass_bytes);
    json_member_real(out, "pass_seconds", plan->pass_seconds);
    json_member_real(out, "seconds", plan->seconds);
    json_member_count(out, "read_bytes_per_second", plan->read_bytes_per_second);
    json_member_text(out, "rate_source", str_from(plan->rate_source));
    json_member_real(out, "compute_flops_per_second", plan->cost.flops_per_second);
    json_member_text(out, "compute_source", str_from(plan->compute_source));
    json_member_count(out, "limit_passes", plan->at_limit.passes);
    json_member_real(out, "limit_seconds", plan->at_limit.seconds + plan->load_seconds);
    json_member_real(out, "expected_answer_share", answers_mean(&plan->answers));
    json_member_text(out, "answers_source", str_from(plan->answers_source));
    json_member_real(out, "first_row_seconds", plan->likely.first_row_seconds + plan->load_seconds);
    json_member_real(out, "first_rows_seconds",
                     plan->likely.first_rows_seconds + plan->load_seconds);
    json_member_real(out, "rows_in", plan->likely.rows_in);
    json_member_real(out, "kv_fill", plan->likely.kv_fill);
    json_member_count(out, "slabs", plan->slab_count);
    json_member_count(out, "cut_rows", plan->rows.cut_rows);
    json_member_real(out, "memory_ratio", plan->memory_ratio);
    json_member_count(out, "predicted_peak_bytes", plan->predicted_peak_bytes);
    json_member_count(out, "needed_bytes", plan->needed_bytes);
    buf_add(out, STR("}\n"));
}
