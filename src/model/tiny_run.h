/* For tests alone: one row through a model of tiny_model.h in as many passes as the test likes,
 * with what a pass needs around it. Include it from *_test.c, after <cmocka.h>, in place of
 * tiny_model.h. */
#ifndef SLUICE_MODEL_TINY_RUN_H
#define SLUICE_MODEL_TINY_RUN_H

#include "model/step.h"
#include "model/tiny_model.h"

struct tiny_run {
    const struct model *model;
    struct layout_item *items;
    struct layout layout;
    struct provider *provider;
    struct team *team;
    struct backend *backend;
    struct step *step;
    struct slab pool;   /* one page of keys and values */
    struct slab states; /* one of each layer, for those that keep one */
    struct kv_layer layers[TINY_LAYERS];
};

/* What a layer keeps: float32, of a compressed cache the keys alone. */
static inline struct kv_layer tiny_run_layer_keys(const struct config *config, uint32_t layer) {
    const struct latent *latent = &config->latent;
    struct layer_sizes sizes = config_layer(config, layer);
    if (latent->kv_rank != 0)
        return (struct kv_layer){.dtype = KV_F32,
                                 .kv_heads = 1,
                                 .head_dim = latent->kv_rank + latent->rope,
                                 .value_dim = latent->kv_rank,
                                 .shares_values = true};
    return (struct kv_layer){.dtype = KV_F32,
                             .kv_heads = sizes.kv_heads,
                             .head_dim = sizes.head_dim,
                             .value_dim = sizes.head_dim};
}

static inline void tiny_run_keys(struct tiny_run *run) {
    const struct config *config = &run->model->config;
    size_t at[TINY_LAYERS + 1] = {0};
    struct error err = {0};
    for (uint32_t i = 0; i < TINY_LAYERS; i++) {
        struct kv_layer *layer = &run->layers[i];
        *layer = tiny_run_layer_keys(config, i);
        at[i + 1] = at[i] + kv_layer_bytes(KV_F32, layer->kv_heads, layer->head_dim,
                                           layer->shares_values ? 0 : layer->value_dim);
    }
    assert_int_equal(slab_init(&run->pool, at[TINY_LAYERS], &err), SL_OK);
    size_t state_bytes = delta_state_floats(&config->delta.shape) * sizeof(float);
    if (config->delta.shape.key_heads > 0)
        assert_int_equal(slab_init(&run->states, state_bytes * TINY_LAYERS, &err), SL_OK);
    for (uint32_t i = 0; i < TINY_LAYERS; i++) {
        bool is_delta = config_is_delta(config, i);
        run->layers[i].base = is_delta ? run->states.data + i * state_bytes
                                       : run->pool.data + at[config_layer(config, i).kv_layer];
        run->layers[i].page_bytes = is_delta ? state_bytes : at[TINY_LAYERS];
    }
}

/* Blocks of so many bytes; the step uses `watch` if it is not NULL (its ops are set), which may
 * hand on to run->provider. */
static inline void tiny_run_open(struct tiny_run *run, const struct model *model,
                                 size_t block_bytes, struct provider *watch, size_t tokens,
                                 size_t logits) {
    struct error err = {0};
    struct provider_options provider_options = {0};
    size_t item_count;
    *run = (struct tiny_run){.model = model};
    assert_int_equal(model_layout_items(model, &run->items, &item_count, &err), SL_OK);
    assert_int_equal(
        layout_init(&run->layout, &model->index, run->items, item_count, block_bytes, &err), SL_OK);
    assert_int_equal(provider_resident_new(&run->layout, &provider_options, &run->provider, &err),
                     SL_OK);
    if (watch != NULL)
        watch->layout = &run->layout;
    assert_int_equal(team_new(1, &run->team, &err), SL_OK);
    struct backend_options backend_options = {.kernels = "portable", .team = run->team};
    assert_int_equal(backend_cpu_new(&backend_options, &run->backend, &err), SL_OK);
    struct step_options options = {model, run->backend, watch != NULL ? watch : run->provider,
                                   tokens, logits};
    assert_int_equal(step_new(&options, &run->step, &err), SL_OK);
    tiny_run_keys(run);
}

static inline void tiny_run_begin(struct tiny_run *run, const struct model *model) {
    tiny_run_open(run, model, SL_BLOCK_BYTES_MAX, NULL, SL_PAGE_TOKENS, SL_PAGE_TOKENS);
}

static inline void tiny_run_end(struct tiny_run *run) {
    slab_release(&run->pool);
    slab_release(&run->states);
    step_free(run->step);
    backend_free(run->backend);
    team_free(run->team);
    provider_free(run->provider);
    layout_release(&run->layout);
    mem_free(run->items);
}

static inline void tiny_run_layer(struct tiny_run *run, uint32_t layer) {
    const struct arch_math *math = run->model->arch->math;
    const struct config *config = &run->model->config;
    struct step *step = run->step;
    struct error err = {0};
    assert_int_equal(math->attend(step, layer, &err), SL_OK);
    bool is_mixture = config_is_mixture(config, layer);
    assert_int_equal((is_mixture ? math->route : math->mlp)(step, layer, &err), SL_OK);
    for (uint32_t expert = 0; is_mixture && expert < config->mixture.count; expert++)
        if (step->expert_tokens[expert] > 0)
            assert_int_equal(math->expert(step, layer, expert, &err), SL_OK);
    if (math->finish != NULL)
        assert_int_equal(math->finish(step, layer, &err), SL_OK);
}

/* One pass over ids[first .. end); logits of all of them, [token][vocabulary] from ids[0] on. The
 * row gets no more tokens than `limit`. */
static inline void tiny_run_pass(struct tiny_run *run, const uint32_t *ids, size_t first,
                                 size_t end, size_t limit, float *logits) {
    struct error err = {0};
    struct step *step = run->step;
    struct kv_token tokens[SL_PAGE_TOKENS];
    uint32_t page = 0, columns[SL_PAGE_TOKENS], vocabulary = run->model->config.vocabulary;
    assert_true(first < end && end <= limit && limit <= SL_PAGE_TOKENS);
    for (size_t i = 0; i < end - first; i++) {
        tokens[i] = (struct kv_token){
            .position = (uint32_t)(first + i), .row_limit = (uint32_t)limit, .pages = &page};
        columns[i] = (uint32_t)i;
    }
    step->kv_layers = run->layers;
    step->tokens = step->logit_count = end - first;
    struct kv_run whole = {0, end - first};
    step->runs = &whole;
    step->run_count = 1;
    step->ids = ids + first;
    step->kv_tokens = tokens;
    step->logit_columns = columns;
    assert_int_equal(step_begin(step, &err), SL_OK);
    assert_int_equal(run->model->arch->math->embed(step, &err), SL_OK);
    for (uint32_t layer = 0; layer < TINY_LAYERS; layer++)
        tiny_run_layer(run, layer);
    assert_int_equal(run->model->arch->math->head(step, &err), SL_OK);
    step_end(step);
    for (size_t token = first; token < end; token++)
        for (size_t i = 0; i < vocabulary; i++)
            logits[token * vocabulary + i] = *act_at(&step->logits, i, token - first);
}

/* Logits of the last of the ids, all in one pass of one row that gets no more tokens. */
static inline void tiny_logits(const struct model *model, const uint32_t *ids, size_t count,
                               float *logits) {
    struct tiny_run run;
    size_t vocabulary = model->config.vocabulary;
    float *all = mem_new(count * vocabulary, sizeof *all);
    assert_non_null(all);
    tiny_run_begin(&run, model);
    tiny_run_pass(&run, ids, 0, count, count, all);
    tiny_run_end(&run);
    memcpy(logits, all + (count - 1) * vocabulary, vocabulary * sizeof *logits);
    mem_free(all);
}

#endif
