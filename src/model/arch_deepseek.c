/* DeepSeek-V3 and its kin (Moonlight, Kimi K2): attention over a compressed cache (MLA), a few
 * dense layers, then experts in groups, routed by sigmoids with a correction; DeepSeek-V2 routes by
 * a softmax over all. Published code: DeepSeek-V2's and V3's own modeling files and transformers'
 * modeling_deepseek_v3.py.
 *
 * What is kept of a token are kv_rank + rope numbers: its compressed vector c, normalised, and one
 * rotated key k for all heads. With W_k and W_v the parts of kv_b that make a head's keys and
 * values of c, the head's score is (W_k' q) c + q_rope k, and its output W_v (sum of p c): the same
 * sums as over expanded keys and values, in another order. */
#include "base/num.h"
#include "model/arch_mixture.h"
#include "model/step.h"

#include <math.h>

#define DEEPSEEK_LOW_EPS 1e-6f /* of the compressed vectors' norms, whatever rms_norm_eps says */

static const enum role deepseek_attend_order[] = {
    ROLE_Q_A, ROLE_Q_B, ROLE_Q, ROLE_KV_A, ROLE_KV_B, ROLE_K_B, ROLE_V_B, ROLE_O, ROLE_COUNT,
};

static enum status deepseek_configure(const struct json *config, const char *name,
                                      struct config *out, struct error *err) {
    static const struct mixture_names names = {"n_routed_experts", "moe_intermediate_size", true};
    static const struct mixture_names older = {"n_routed_experts", "moe_intermediate_size", false};
    const struct json *q_rank = json_get(config, "q_lora_rank");
    struct latent *latent = &out->latent;
    struct str type = STR("");
    bool has_bias = false, is_older;
    json_string(json_get(config, "model_type"), &type);
    is_older = str_is(type, "deepseek_v2");
    TRY(arch_common_no_window(config, name, out, err));
    TRY(config_size(config, "kv_lora_rank", 0, name, &latent->kv_rank, err));
    if (q_rank != NULL && !json_is(q_rank, JSON_NULL))
        TRY(config_size(config, "q_lora_rank", 0, name, &latent->q_rank, err));
    TRY(config_size(config, "qk_nope_head_dim", 0, name, &latent->nope, err));
    TRY(config_size(config, "qk_rope_head_dim", 0, name, &latent->rope, err));
    TRY(config_size(config, "v_head_dim", 0, name, &latent->value, err));
    if (latent->nope > SL_FEATURES_MAX || latent->rope > SL_FEATURES_MAX)
        return error_set(err, SL_ERR_ENV, "%s: heads of %u + %u features are too large", name,
                         latent->nope, latent->rope);
    TRY(config_flag(config, "attention_bias", name, &has_bias, err));
    if (has_bias)
        return error_set(err, SL_ERR_ENV, "%s: attention_bias is not supported for this family",
                         name);
    latent->norm_eps = DEEPSEEK_LOW_EPS;
    out->head_dim = latent->nope + latent->rope;
    out->kv_heads = out->heads;
    out->rope.is_interleaved = true;
    TRY(config_flag(config, "rope_interleave", name, &out->rope.is_interleaved, err));
    TRY(arch_mixture_json(config, is_older ? &older : &names, name, out, err));
    out->mixture.score = is_older ? MIXTURE_SOFTMAX : MIXTURE_SIGMOID;
    return arch_mixture_json_grouped(config, name, out, err);
}

static enum status deepseek_configure_meta(struct meta_reader *reader, struct config *out,
                                           struct error *err) {
    struct latent *latent = &out->latent;
    uint32_t key = 0, value = 0;
    TRY(meta_reader_size(reader, "attention.kv_lora_rank", 0, &latent->kv_rank, err));
    if (meta_find(reader->meta, meta_reader_key(reader, "attention.q_lora_rank")) != NULL)
        TRY(meta_reader_size(reader, "attention.q_lora_rank", 0, &latent->q_rank, err));
    /* Older files have the lengths of the expanded heads, newer ones those of the cache too. */
    TRY(meta_reader_size(reader, "attention.key_length", 0, &key, err));
    TRY(meta_reader_size(reader, "attention.value_length", 0, &value, err));
    TRY(meta_reader_size(reader, "attention.key_length_mla", key, &key, err));
    TRY(meta_reader_size(reader, "attention.value_length_mla", value, &latent->value, err));
    TRY(meta_reader_size(reader, "rope.dimension_count", 0, &latent->rope, err));
    if (latent->rope >= key)
        return error_set(err, SL_ERR_ENV, "%s: %u rotated features of a head of %u", reader->name,
                         latent->rope, key);
    latent->nope = key - latent->rope;
    latent->norm_eps = out->norm_eps; /* llama.cpp has one for all norms */
    out->head_dim = key;
    out->kv_heads = out->heads;
    out->rope.is_interleaved = true;
    return arch_mixture_meta(reader, out, err);
}

static enum arch_need deepseek_need(const struct config *config, enum role role) {
    bool is_low = config->latent.q_rank != 0;
    switch (role) {
    case ROLE_Q:
        return is_low ? ARCH_ABSENT : ARCH_REQUIRED;
    case ROLE_Q_A:
    case ROLE_Q_B:
    case ROLE_Q_A_NORM:
        return is_low ? ARCH_REQUIRED : ARCH_ABSENT;
    case ROLE_KV_A:
    case ROLE_KV_A_NORM:
        return ARCH_REQUIRED;
    case ROLE_KV_B: /* one of the two forms: model_bind.c */
    case ROLE_K_B:
    case ROLE_V_B:
        return ARCH_OPTIONAL;
    case ROLE_K:
    case ROLE_V:
    case ROLE_Q_BIAS:
    case ROLE_K_BIAS:
    case ROLE_V_BIAS:
    case ROLE_O_BIAS:
        return ARCH_ABSENT;
    default:
        return arch_mixture_need(config, role);
    }
}

/* step->q: the queries of all heads, [heads x (nope + rope)]. */
static enum status deepseek_queries(struct step *step, uint32_t layer, struct error *err) {
    const struct config *config = step->config;
    struct backend *backend = step->backend;
    if (config->latent.q_rank == 0)
        return step_product(step, layer, ROLE_Q, &step->x, &step->q, err);
    TRY(step_product(step, layer, ROLE_Q_A, &step->x, &step->low_q, err));
    backend->ops->rms_norm(backend, &step->low_q, step_vector(step, layer, ROLE_Q_A_NORM),
                           config->latent.q_rank, config->latent.norm_eps, &step->low_q);
    return step_product(step, layer, ROLE_Q_B, &step->low_q, &step->q, err);
}

/* step->k: what is kept of each token, [kv_rank + rope]. */
static enum status deepseek_keys(struct step *step, uint32_t layer, struct error *err) {
    const struct latent *latent = &step->config->latent;
    const struct feature_range low = {0, 1, 0, latent->kv_rank};
    const struct feature_range key = {latent->kv_rank, 1, 0, latent->rope};
    const struct feature_range key_back = {0, 1, latent->kv_rank, latent->rope};
    struct backend *backend = step->backend;
    const struct backend_ops *ops = backend->ops;
    TRY(step_product(step, layer, ROLE_KV_A, &step->x, &step->k, err));
    ops->copy(backend, &step->k, &low, &step->low_kv);
    ops->copy(backend, &step->k, &key, &step->low_key);
    ops->rms_norm(backend, &step->low_kv, step_vector(step, layer, ROLE_KV_A_NORM), latent->kv_rank,
                  latent->norm_eps, &step->low_kv);
    ops->rope(backend, &step->rope, 1, latent->rope, &step->low_key);
    ops->copy(backend, &step->low_kv, &low, &step->k);
    ops->copy(backend, &step->low_key, &key_back, &step->k);
    return SL_OK;
}

/* Rotated parts of the queries, into their places in step->wide_q. */
static void deepseek_rotate(struct step *step) {
    const struct latent *latent = &step->config->latent;
    struct backend *backend = step->backend;
    size_t heads = step->config->heads, rope = latent->rope, wide = latent->kv_rank + rope;
    act_shape(&step->part, heads * rope, step->tokens);
    for (size_t head = 0; head < heads; head++)
        backend->ops->copy(backend, &step->q,
                           &(struct feature_range){head * (latent->nope + rope) + latent->nope, 1,
                                                   head * rope, rope},
                           &step->part);
    backend->ops->rope(backend, &step->rope, heads, rope, &step->part);
    for (size_t head = 0; head < heads; head++)
        backend->ops->copy(
            backend, &step->part,
            &(struct feature_range){head * rope, 1, head * wide + latent->kv_rank, rope},
            &step->wide_q);
}

/* step->wide_q[head] = W_k' q[head] for the parts of the queries that are not rotated. */
static void deepseek_absorb(struct step *step, const struct view *matrix, bool is_stack) {
    const struct latent *latent = &step->config->latent;
    struct backend *backend = step->backend;
    size_t nope = latent->nope, kv_rank = latent->kv_rank, wide = kv_rank + latent->rope;
    act_shape(&step->part, nope, step->tokens);
    for (size_t head = 0; head < step->config->heads; head++) {
        const struct feature_range query = {head * (nope + latent->rope), 1, 0, nope};
        backend->ops->copy(backend, &step->q, &query, &step->part);
        if (is_stack) {
            struct view rows = view_rows(matrix, head * kv_rank, kv_rank);
            backend->ops->product(backend, &rows, &step->part, &step->wide_q, head * wide);
        } else {
            struct view rows = view_rows(matrix, head * (nope + latent->value), nope);
            step_product_columns(step, &rows, &step->part, &step->wide_q, head * wide);
        }
    }
}

/* step->a[head] = W_v wide_a[head]. */
static void deepseek_expand(struct step *step, const struct view *matrix, bool is_stack) {
    const struct latent *latent = &step->config->latent;
    struct backend *backend = step->backend;
    size_t value = latent->value, kv_rank = latent->kv_rank;
    act_shape(&step->part, kv_rank, step->tokens);
    for (size_t head = 0; head < step->config->heads; head++) {
        const struct feature_range range = {head * kv_rank, 1, 0, kv_rank};
        size_t first = is_stack ? head * value : head * (latent->nope + value) + latent->nope;
        struct view rows = view_rows(matrix, first, value);
        backend->ops->copy(backend, &step->wide_a, &range, &step->part);
        backend->ops->product(backend, &rows, &step->part, &step->a, head * value);
    }
}

static float deepseek_scale(const struct config *config) {
    double scale = 1.0 / sqrt((double)config->head_dim);
    const struct rope_config *rope = &config->rope;
    if (rope->kind == ROPE_YARN && rope->mscale_all_dim > 0 && rope->factor > 1) {
        double mscale = 0.1 * rope->mscale_all_dim * num_log(rope->factor) + 1.0;
        scale *= mscale * mscale;
    }
    return (float)scale;
}

static enum status deepseek_attend(struct step *step, uint32_t layer, struct error *err) {
    const struct config *config = step->config;
    struct backend *backend = step->backend;
    const struct backend_ops *ops = backend->ops;
    bool is_stack = model_matrix(step->model, layer, ROLE_KV_B) == NULL;
    struct view matrix;
    ops->rms_norm(backend, &step->h, step_vector(step, layer, ROLE_ATTEND_NORM), config->hidden,
                  config->norm_eps, &step->x);
    TRY(deepseek_queries(step, layer, err));
    TRY(deepseek_keys(step, layer, err));
    deepseek_rotate(step);
    TRY(step_whole(step, layer, 0, is_stack ? ROLE_K_B : ROLE_KV_B, &matrix, err));
    deepseek_absorb(step, &matrix, is_stack);
    ops->kv_write(backend, &step->kv_layers[layer], step->kv_tokens, &step->k, NULL);
    struct attention_args args = {
        .kv = &step->kv_layers[layer],
        .tokens = step->kv_tokens,
        .heads = config->heads,
        .scale = deepseek_scale(config),
    };
    ops->attention(backend, &args, &step->wide_q, &step->wide_a);
    if (is_stack)
        TRY(step_whole(step, layer, 0, ROLE_V_B, &matrix, err));
    deepseek_expand(step, &matrix, is_stack);
    TRY(step_product(step, layer, ROLE_O, &step->a, &step->y, err));
    ops->add(backend, &step->y, &step->h);
    return SL_OK;
}

static const struct arch_math deepseek_math = {
    .attend_order = deepseek_attend_order,
    .mlp_order = arch_common_mlp_order,
    .route_order = arch_mixture_route_order,
    .expert_order = arch_mixture_expert_order,
    .embed = arch_common_embed,
    .attend = deepseek_attend,
    .mlp = arch_common_mlp,
    .route = arch_mixture_route,
    .expert = arch_mixture_expert,
    .head = arch_common_head,
};

const struct arch arch_deepseek = {
    .name = "deepseek2",
    .hf_types = (const char *const[]){"deepseek_v3", "deepseek_v2", "kimi_k2", NULL},
    .gguf_names = (const char *const[]){"deepseek2", NULL},
    .configure_json = deepseek_configure,
    .configure_meta = deepseek_configure_meta,
    .settings = arch_mixture_understood,
    .need = deepseek_need,
    .math = &deepseek_math,
};
