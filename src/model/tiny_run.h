/* For tests alone: one pass over a model of tiny_model.h, with what a pass needs around it. Include
 * it from *_test.c, after <cmocka.h>, in place of tiny_model.h. */
#ifndef SLUICE_MODEL_TINY_RUN_H
#define SLUICE_MODEL_TINY_RUN_H

#include "model/step.h"
#include "model/tiny_model.h"

/* Logits of the last of the ids, all in one pass of one row that gets no more tokens. */
static inline void tiny_logits(const struct model *model, const uint32_t *ids, size_t count,
                               float *logits) {
    struct error err = {0};
    struct layout_item *items;
    struct layout layout;
    struct provider *provider;
    struct provider_options provider_options = {0};
    struct team *team;
    struct backend *backend;
    struct step *step;
    size_t item_count;
    assert_true(count <= SL_PAGE_TOKENS);
    assert_int_equal(model_layout_items(model, &items, &item_count, &err), SL_OK);
    assert_int_equal(
        layout_init(&layout, &model->index, items, item_count, SL_BLOCK_BYTES_MAX, &err), SL_OK);
    assert_int_equal(provider_resident_new(&layout, &provider_options, &provider, &err), SL_OK);
    assert_int_equal(team_new(1, &team, &err), SL_OK);
    struct backend_options backend_options = {.kernels = "portable", .team = team};
    assert_int_equal(backend_cpu_new(&backend_options, &backend, &err), SL_OK);
    struct step_options options = {model, backend, provider, SL_PAGE_TOKENS, 1};
    assert_int_equal(step_new(&options, &step, &err), SL_OK);

    const struct config *config = &model->config;
    size_t layer_bytes =
        kv_layer_bytes(KV_F32, config->kv_heads, config->head_dim, config->head_dim);
    struct slab pool;
    struct kv_layer layers[TINY_LAYERS];
    assert_int_equal(slab_init(&pool, layer_bytes * TINY_LAYERS, &err), SL_OK);
    for (size_t i = 0; i < TINY_LAYERS; i++)
        layers[i] = (struct kv_layer){.base = pool.data + i * layer_bytes,
                                      .page_bytes = layer_bytes * TINY_LAYERS,
                                      .dtype = KV_F32,
                                      .kv_heads = config->kv_heads,
                                      .head_dim = config->head_dim,
                                      .value_dim = config->head_dim};
    struct kv_token tokens[SL_PAGE_TOKENS];
    uint32_t page = 0, column = (uint32_t)count - 1;
    for (size_t i = 0; i < count; i++)
        tokens[i] = (struct kv_token){
            .position = (uint32_t)i, .row_limit = (uint32_t)count, .pages = &page};
    step->kv_layers = layers;
    step->tokens = count;
    step->ids = ids;
    step->kv_tokens = tokens;
    step->logit_columns = &column;
    step->logit_count = 1;
    assert_int_equal(step_begin(step, &err), SL_OK);
    assert_int_equal(model->arch->embed(step, &err), SL_OK);
    for (uint32_t layer = 0; layer < TINY_LAYERS; layer++) {
        assert_int_equal(model->arch->attend(step, layer, &err), SL_OK);
        assert_int_equal(model->arch->mlp(step, layer, &err), SL_OK);
    }
    assert_int_equal(model->arch->head(step, &err), SL_OK);
    step_end(step);
    for (size_t i = 0; i < config->vocabulary; i++)
        logits[i] = *act_at(&step->logits, i, 0);
    slab_release(&pool);
    step_free(step);
    backend_free(backend);
    team_free(team);
    provider_free(provider);
    layout_release(&layout);
    mem_free(items);
}

#endif
