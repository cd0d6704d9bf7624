/* Owns what is kept of a run. Refuses to let a short run teach (rates.h and compute.h say what is
 * short). */
#include "plan/learn.h"

#include "base/clock.h"
#include "base/log.h"
#include "plan/compute.h"
#include "plan/memory.h"
#include "plan/rates.h"
#include "plan/record.h"

/* A peak tells of the memory model when this much of it came after the plan was made. */
#define GROWN_LEAST ((uint64_t)64 << 20)

void lessons_row(struct lessons *lessons, size_t answer_tokens, size_t limit) {
    answers_add(&lessons->answers, answer_tokens, limit);
}

void lessons_pass(struct lessons *lessons, const struct plan *plan,
                  const struct pass_report *report, size_t rows_in, double seconds) {
    size_t tokens = report->decode_tokens + report->prefill_tokens;
    double wait = engine_waited(report);
    if (rows_in > lessons->rows_in_max)
        lessons->rows_in_max = rows_in;
    if (tokens > lessons->pass_tokens_max)
        lessons->pass_tokens_max = tokens;
    if (seconds > wait)
        cost_observe(&lessons->cost, &plan->cost, (double)tokens, (double)report->new_tokens,
                     seconds - wait);
}

/* The sum of the memory model for what the run has really used. The process has grown since the
 * plan, so what no pass changes is the plan's. */
static enum status sum_of_use(const struct model *model, const struct settings *settings,
                              const struct plan *plan, const struct memory_load *used,
                              uint64_t *bytes, struct error *err) {
    struct memory memory;
    const struct memory_load made = {.batch = plan->batch,
                                     .pass_tokens = plan->pass_tokens,
                                     .page_count = plan->page_count,
                                     .window_page_count = plan->window_page_count,
                                     .state_count = plan->batch + plan->kept_states};
    TRY(memory_init(&memory, model, settings, &plan->rows, plan->threads, err));
    *bytes = memory_touched(&memory, plan->still_bytes, &made, used);
    return SL_OK;
}

static void keep_memory(const struct model *model, const struct settings *settings,
                        const struct plan *plan, const struct memory_load *used) {
    struct memory_record record = {0};
    struct error why = {0};
    uint64_t sum, peak = machine_peak_rss_bytes();
    char key[SL_MEMORY_KEY_BYTES];
    if (settings->home == NULL || used->batch == 0 || peak < plan->base_bytes + GROWN_LEAST ||
        sum_of_use(model, settings, plan, used, &sum, &why) != SL_OK)
        return;
    rates_memory_key(model, plan, key);
    (void)record_get_memory(settings->home, key, &record);
    record.ratio = (double)peak / (double)sum;
    record.date = clock_wall_seconds();
    record.runs++;
    if (record_put_memory(settings->home, key, &record, &why) != SL_OK)
        log_warning("the peak of this run is not kept: %s", why.text);
}

void lessons_keep(const struct lessons *lessons, const struct model *model,
                  const struct settings *settings, const struct plan *plan,
                  uint64_t read_bytes_per_second, const struct kv *kv) {
    const struct memory_load used = {
        .batch = lessons->rows_in_max,
        .pass_tokens = lessons->pass_tokens_max,
        .page_count = kv->pools[KV_WHOLE].pages_out_max,
        .window_page_count = kv->pools[KV_WINDOW].pages_out_max,
        .state_count = kv->pools[KV_STATE].pages_out_max,
    };
    rates_learn(model, settings, plan, read_bytes_per_second);
    compute_learn(model, settings, plan, &lessons->cost);
    rates_learn_answers(model, settings, plan, &lessons->answers);
    keep_memory(model, settings, plan, &used);
}
