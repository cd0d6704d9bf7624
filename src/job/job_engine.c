/* Owns the making of what a job runs on: threads, backend, weights and the engine, as the plan has
 * decided. Refuses decisions of its own. */
#include "job/job_run.h"

#include "plan/pins.h"

#include <string.h>

static enum status make_layout(struct run *run, struct error *err) {
    struct layout_item *items;
    size_t count;
    TRY(model_layout_items(run->job->model, &items, &count, err));
    enum status status = layout_init(&run->layout, &run->job->model->index, items, count,
                                     (size_t)run->plan->block_bytes_max, err);
    if (status == SL_OK && run->job->settings.has_checksum)
        status = checks_open(&run->job->model->index, items, count, run->job->settings.home,
                             &run->checks, err);
    mem_free(items);
    return status;
}

static enum status make_stream(struct run *run, struct provider_options *options,
                               struct error *err) {
    struct pins pins;
    bool *keeps = mem_new(run->layout.block_count, sizeof *keeps);
    if (keeps == NULL)
        return error_memory(err, run->layout.block_count * sizeof *keeps, "pins");
    pins_choose(&run->layout, run->plan->pins_room_bytes, keeps, &pins);
    must(pins.memory_bytes == run->plan->pinned_bytes);
    options->keeps = keeps;
    enum status status = provider_stream_new(&run->layout, options, &run->provider, err);
    mem_free(keeps);
    return status;
}

static enum status make_provider(struct run *run, struct error *err) {
    struct provider_options options = {
        .method = run->plan->reader,
        .slab_count = run->plan->slab_count,
        .chunk_bytes = run->plan->chunk_bytes,
        .depth = run->plan->depth,
        .checks = run->checks,
        .should_stop = run->job->should_stop,
    };
    if (run->checks != NULL)
        checks_tell(run->checks);
    if (run->plan->slab_count == 0)
        return provider_resident_new(&run->layout, &options, &run->provider, err);
    return make_stream(run, &options, err);
}

enum status run_make_engine(struct run *run, const struct engine_listener *listener,
                            struct error *err) {
    const struct plan *plan = run->plan;
    struct backend_options backend = {.kernels = plan->kernels,
                                      .isa = plan->isa,
                                      .features = plan->product_features,
                                      .tokens = plan->pass_tokens};
    TRY(team_new(plan->threads, &run->team, err));
    backend.team = run->team;
    TRY(backend_cpu_new(&backend, &run->backend, err));
    TRY(make_layout(run, err));
    TRY(make_provider(run, err));
    double prior[SL_ANSWER_BINS + 1];
    _Static_assert(SL_ANSWER_BINS == SL_EXPECT_BINS, "the same shares");
    for (size_t i = 0; i <= SL_ANSWER_BINS; i++)
        prior[i] = (double)plan->answers.rows[i];
    struct engine_options options = {
        .model = run->job->model,
        .backend = run->backend,
        .provider = run->provider,
        .kv_dtype = plan->kv_dtype,
        .limits = {.batch_max = plan->batch,
                   .pass_tokens = plan->pass_tokens,
                   .opening_rows = plan->opening_rows,
                   .opening_tokens = plan->opening_tokens,
                   .page_count = plan->page_count,
                   .window_page_count = plan->window_page_count,
                   .kept_states = plan->kept_states,
                   .scores = run->job->settings.scores,
                   .prior = answers_count(&plan->answers) > 0 ? prior : NULL},
        .listener = *listener,
    };
    return engine_new(&options, &run->engine, err);
}
