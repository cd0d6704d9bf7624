/* What both readers of configs share: limits, and what must divide what, checked once for both so
 * that nothing later multiplies two sizes that overflow. */
#include "model/config.h"

#include "backend/kv_view.h"
#include "base/num.h"

#include <math.h>
#include <string.h>

void config_release(struct config *config) {
    map_release(&config->quantisation.modules);
    mem_free(config->quantisation.entries);
    arena_release(&config->arena);
}

static enum status config_limit(const char *name, const char *what, uint64_t value, uint64_t limit,
                                struct error *err) {
    if (value >= 1 && value <= limit)
        return SL_OK;
    return error_set(err, SL_ERR_ENV, "%s: %s is %llu, must be 1 to %llu", name, what,
                     (unsigned long long)value, (unsigned long long)limit);
}

const char *rope_word(enum rope_kind kind) {
    static const char *const words[ROPE_KINDS] = {
        [ROPE_DEFAULT] = "default",   [ROPE_LINEAR] = "linear",
        [ROPE_LLAMA3] = "llama3",     [ROPE_YARN] = "yarn",
        [ROPE_LONGROPE] = "longrope", [ROPE_PROPORTIONAL] = "proportional",
    };
    must((unsigned)kind < ROPE_KINDS);
    return words[kind];
}

double rope_mscale(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * num_log(factor) + 1.0;
}

enum status config_layer_flags(struct config *config, bool **out, struct error *err) {
    bool *flags = arena_array(&config->arena, config->layers, sizeof *flags);
    if (flags == NULL)
        return error_memory(err, config->layers, "settings of the layers");
    memset(flags, 0, config->layers * sizeof *flags);
    *out = flags;
    return SL_OK;
}

/* Of yarn and longrope, where the files do not give it. */
static double rope_default_attention(const struct rope_config *rope) {
    if (rope->kind == ROPE_YARN && rope->mscale != 0 && rope->mscale_all_dim != 0)
        return rope_mscale(rope->factor, rope->mscale) /
               rope_mscale(rope->factor, rope->mscale_all_dim);
    if (rope->kind == ROPE_YARN)
        return rope_mscale(rope->factor, 1.0);
    if (rope->kind == ROPE_LONGROPE && rope->factor > 1.0)
        return sqrt(1.0 + num_log(rope->factor) / num_log(rope->original_context));
    return 1.0;
}

/* Divisors of frequencies: the angles must stay in the range of sines. */
static enum status config_check_factors(const struct rope_config *rope, const char *name,
                                        struct error *err) {
    if (rope->short_factors == NULL)
        return SL_OK;
    if (rope->factor_count != rope->rotary / 2)
        return error_set(err, SL_ERR_ENV,
                         "%s: long_factor and short_factor have %u numbers, %u rotated features "
                         "need %u",
                         name, rope->factor_count, rope->rotary, rope->rotary / 2);
    for (uint32_t i = 0; i < rope->factor_count; i++)
        if (!(rope->short_factors[i] >= 0.5 && rope->short_factors[i] <= 1e6 &&
              rope->long_factors[i] >= 0.5 && rope->long_factors[i] <= 1e6))
            return error_set(err, SL_ERR_ENV,
                             "%s: number %u of long_factor or short_factor is not 0.5 to 1e6", name,
                             i);
    return SL_OK;
}

/* head_dim: of the layers that rotate in this way. */
static enum status config_check_rope(struct rope_config *rope, uint32_t head_dim, const char *name,
                                     struct error *err) {
    if (rope->rotary == 0)
        rope->rotary = rope->share == 0 || rope->kind == ROPE_PROPORTIONAL
                           ? head_dim
                           : (uint32_t)(rope->share * (double)head_dim);
    if (rope->rotary < 2 || rope->rotary % 2 != 0 || rope->rotary > head_dim)
        return error_set(err, SL_ERR_ENV,
                         "%s: %u rotated features of a head are not an even number up to head_dim "
                         "%u",
                         name, rope->rotary, head_dim);
    if (!(rope->theta >= 1.0 && rope->theta <= 1e15))
        return error_set(err, SL_ERR_ENV, "%s: rope theta is %g, must be 1 to 1e15", name,
                         rope->theta);
    if (rope->kind != ROPE_DEFAULT && !(rope->factor >= 1.0 && rope->factor <= 1e6))
        return error_set(err, SL_ERR_ENV, "%s: rope factor is %g, must be 1 to 1e6", name,
                         rope->factor);
    if (rope->kind == ROPE_LLAMA3 &&
        !(rope->low_freq_factor > 0 && rope->high_freq_factor >= rope->low_freq_factor &&
          rope->high_freq_factor <= 1e6 && rope->original_context >= 1 &&
          rope->original_context <= SL_CONTEXT_MAX))
        return error_set(err, SL_ERR_ENV,
                         "%s: rope type llama3 needs 0 < low_freq_factor <= high_freq_factor and a "
                         "positive original_max_position_embeddings, not %g, %g and %g",
                         name, rope->low_freq_factor, rope->high_freq_factor,
                         rope->original_context);
    if ((rope->kind == ROPE_YARN || rope->kind == ROPE_LONGROPE) &&
        !(rope->original_context >= 2 && rope->original_context <= SL_CONTEXT_MAX))
        return error_set(err, SL_ERR_ENV,
                         "%s: original_max_position_embeddings of rope type %s is %g, must be 2 to "
                         "%u",
                         name, rope_word(rope->kind), rope->original_context, SL_CONTEXT_MAX);
    if (rope->kind == ROPE_YARN && !(rope->beta_slow > 0 && rope->beta_fast >= rope->beta_slow &&
                                     rope->beta_fast <= 1e6 && rope->theta > 1.0))
        return error_set(err, SL_ERR_ENV,
                         "%s: rope type yarn needs 0 < beta_slow <= beta_fast, not %g and %g", name,
                         rope->beta_slow, rope->beta_fast);
    if (rope->attention_factor == 0)
        rope->attention_factor = rope_default_attention(rope);
    if (!(rope->attention_factor > 0 && rope->attention_factor <= 1e6))
        return error_set(err, SL_ERR_ENV, "%s: the attention factor of the rope is %g", name,
                         rope->attention_factor);
    return config_check_factors(rope, name, err);
}

/* Puts the neutral value where a factor is not given. */
static enum status config_check_scale(double *scale, double neutral, const char *what,
                                      const char *name, struct error *err) {
    if (*scale == 0)
        *scale = neutral;
    if (*scale >= 1e-6 && *scale <= 1e6)
        return SL_OK;
    return error_set(err, SL_ERR_ENV, "%s: the factor of %s is %g, must be 1e-6 to 1e6", name, what,
                     *scale);
}

static enum status config_check_scales(struct config *config, const char *name, struct error *err) {
    double root = 1.0 / sqrt((double)config->head_dim);
    TRY(config_check_scale(&config->embed_scale, 1.0, "embeddings", name, err));
    TRY(config_check_scale(&config->residual_scale, 1.0, "the residual stream", name, err));
    TRY(config_check_scale(&config->logit_scale, 1.0, "logits", name, err));
    TRY(config_check_scale(&config->score_scale, root, "attention scores", name, err));
    const struct query_scaling *scaling = &config->query_scaling;
    if (scaling->beta != 0 && !(scaling->beta > 0 && scaling->beta <= 1e3 && scaling->length >= 1 &&
                                scaling->length <= SL_CONTEXT_MAX))
        return error_set(err, SL_ERR_ENV,
                         "%s: queries that grow by %g each %g positions make no sense", name,
                         scaling->beta, scaling->length);
    double caps[2] = {config->score_cap, config->logit_cap};
    for (int i = 0; i < 2; i++)
        if (caps[i] != 0 && !(caps[i] >= 1e-3 && caps[i] <= 1e6))
            return error_set(err, SL_ERR_ENV, "%s: the soft cap of %s is %g, must be 1e-3 to 1e6",
                             name, i == 0 ? "attention scores" : "logits", caps[i]);
    return SL_OK;
}

enum status config_check_mixture(const struct config *config, const char *name, struct error *err) {
    const struct mixture *mixture = &config->mixture;
    if (mixture->count == 0)
        return SL_OK;
    TRY(config_limit(name, "the number of experts", mixture->count, SL_EXPERTS_MAX, err));
    TRY(config_limit(name, "the number of experts for a token", mixture->used, mixture->count,
                     err));
    TRY(config_limit(name, "an expert's inner size", mixture->inner, SL_FEATURES_MAX / 2, err));
    if (mixture->shared_inner > SL_FEATURES_MAX)
        return error_set(err, SL_ERR_ENV, "%s: the shared expert's inner size is %u, at most %u",
                         name, mixture->shared_inner, SL_FEATURES_MAX);
    TRY(config_limit(name, "the number of groups of experts", mixture->groups, mixture->count,
                     err));
    TRY(config_limit(name, "the number of groups for a token", mixture->groups_used,
                     mixture->groups, err));
    uint32_t group = mixture->count / mixture->groups;
    if (mixture->count % mixture->groups != 0 || (mixture->groups > 1 && group < 2) ||
        (uint64_t)group * mixture->groups_used < mixture->used)
        return error_set(err, SL_ERR_ENV,
                         "%s: %u experts in %u groups, %u of them for a token, cannot give it %u "
                         "experts",
                         name, mixture->count, mixture->groups, mixture->groups_used,
                         mixture->used);
    if (!(fabsf(mixture->scale) <= 1e6f) || !(mixture->swiglu_limit >= 0.0f))
        return error_set(err, SL_ERR_ENV,
                         "%s: a scale of %g for the experts' weights, or a limit of %g, makes no "
                         "sense",
                         name, (double)mixture->scale, (double)mixture->swiglu_limit);
    return SL_OK;
}

struct layer_sizes config_largest(const struct config *config) {
    struct layer_sizes most = {0};
    uint64_t key = 0;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        struct layer_sizes sizes = config_layer(config, layer);
        if ((uint64_t)sizes.kv_heads * sizes.head_dim > key) {
            key = (uint64_t)sizes.kv_heads * sizes.head_dim;
            most.kv_heads = sizes.kv_heads;
        }
        most.head_dim = sizes.head_dim > most.head_dim ? sizes.head_dim : most.head_dim;
        most.inner = sizes.inner > most.inner ? sizes.inner : most.inner;
    }
    return most;
}

/* Layers with sizes of their own: each within the limits, and heads of one size where layers rotate
 * alike. */
static enum status config_check_layers(const struct config *config, const char *name,
                                       struct error *err) {
    uint32_t head_dims[2] = {0}; /* of whole and of windowed layers */
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        struct layer_sizes sizes = config_layer(config, layer);
        uint32_t *head_dim = &head_dims[config_is_windowed(config, layer)];
        TRY(config_limit(name, "a layer's number of key/value heads", sizes.kv_heads, config->heads,
                         err));
        TRY(config_limit(name, "a layer's head_dim", sizes.head_dim, SL_HEAD_DIM_MAX, err));
        TRY(config_limit(name, "a layer's heads x head_dim",
                         (uint64_t)config->heads * sizes.head_dim, SL_FEATURES_MAX, err));
        TRY(config_limit(name, "a layer's inner size", sizes.inner, SL_FEATURES_MAX, err));
        if (config->heads % sizes.kv_heads != 0)
            return error_set(err, SL_ERR_ENV,
                             "%s: %u heads cannot be shared out over the %u key/value heads of "
                             "layer %u",
                             name, config->heads, sizes.kv_heads, layer);
        if (*head_dim != 0 && *head_dim != sizes.head_dim)
            return error_set(err, SL_ERR_ENV,
                             "%s: layer %u has heads of %u features and another one of its type "
                             "%u, which is not supported",
                             name, layer, sizes.head_dim, *head_dim);
        *head_dim = sizes.head_dim;
        struct layer_sizes from = config_layer(config, sizes.kv_layer);
        must(sizes.kv_layer <= layer);
        must(from.kv_layer == sizes.kv_layer);
        if (from.kv_heads != sizes.kv_heads || from.head_dim != sizes.head_dim)
            return error_set(err, SL_ERR_ENV,
                             "%s: layer %u cannot read the keys of layer %u, which are of other "
                             "sizes",
                             name, layer, sizes.kv_layer);
    }
    if (config->layer_input > SL_FEATURES_MAX / config->layers)
        return error_set(err, SL_ERR_ENV, "%s: inputs of %u features for each layer are too large",
                         name, config->layer_input);
    return SL_OK;
}

/* Of the layers that have a window, or have none; of all if none is of that kind. */
static uint32_t config_head_dim(const struct config *config, bool is_windowed) {
    for (uint32_t layer = 0; layer < config->layers; layer++)
        if (config_is_windowed(config, layer) == is_windowed)
            return config_layer(config, layer).head_dim;
    return config->head_dim;
}

enum status config_check_delta(const struct config *config, const char *name, struct error *err) {
    const struct delta_shape *shape = &config->delta.shape;
    bool has_attention = shape->key_heads == 0;
    if (shape->key_heads == 0)
        return SL_OK;
    TRY(config_limit(name, "the size of a linear layer's key heads", shape->key_dim,
                     SL_DELTA_DIM_MAX, err));
    TRY(config_limit(name, "the size of a linear layer's value heads", shape->value_dim,
                     SL_DELTA_DIM_MAX, err));
    TRY(config_limit(name, "the kernel of a linear layer's convolution", shape->kernel,
                     SL_DELTA_KERNEL_MAX, err));
    TRY(config_limit(name, "the channels of a linear layer",
                     2 * (uint64_t)shape->key_heads * shape->key_dim +
                         2 * (uint64_t)shape->value_heads * shape->value_dim,
                     SL_FEATURES_MAX, err));
    if (shape->value_heads % shape->key_heads != 0 || shape->value_heads < shape->key_heads)
        return error_set(err, SL_ERR_ENV,
                         "%s: %u value heads of a linear layer cannot be shared out over %u key "
                         "heads",
                         name, shape->value_heads, shape->key_heads);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        has_attention = has_attention || !config->delta.is_here[layer];
    if (!has_attention)
        return error_set(err, SL_ERR_ENV, "%s: no layer has attention, which is not supported",
                         name);
    return SL_OK;
}

enum status config_check(struct config *config, const char *name, struct error *err) {
    TRY(config_limit(name, "the number of layers", config->layers, SL_LAYERS_MAX, err));
    TRY(config_limit(name, "the hidden size", config->hidden, SL_FEATURES_MAX, err));
    TRY(config_limit(name, "the MLP's inner size", config->inner, SL_FEATURES_MAX, err));
    TRY(config_limit(name, "the number of heads", config->heads, SL_FEATURES_MAX, err));
    TRY(config_limit(name, "the number of key/value heads", config->kv_heads, config->heads, err));
    TRY(config_limit(name, "the context length", config->context, SL_CONTEXT_MAX, err));
    if (config->heads % config->kv_heads != 0)
        return error_set(err, SL_ERR_ENV,
                         "%s: %u heads cannot be shared out over %u key/value heads", name,
                         config->heads, config->kv_heads);
    if (config->head_dim == 0 && config->hidden % config->heads != 0)
        return error_set(err, SL_ERR_ENV,
                         "%s: hidden size %u is not a multiple of %u heads, and no head_dim is "
                         "given",
                         name, config->hidden, config->heads);
    if (config->head_dim == 0)
        config->head_dim = config->hidden / config->heads;
    TRY(config_limit(name, "head_dim", config->head_dim, SL_HEAD_DIM_MAX, err));
    if (config->latent.kv_rank != 0) {
        const struct latent *latent = &config->latent;
        TRY(config_limit(name, "kv_lora_rank + qk_rope_head_dim",
                         (uint64_t)latent->kv_rank + latent->rope, SL_HEAD_DIM_MAX, err));
        TRY(config_limit(name, "v_head_dim", latent->value, SL_HEAD_DIM_MAX, err));
        TRY(config_limit(name, "qk_nope_head_dim", latent->nope, SL_HEAD_DIM_MAX, err));
        TRY(config_limit(name, "heads x kv_lora_rank",
                         (uint64_t)config->heads * ((uint64_t)latent->kv_rank + latent->rope),
                         SL_FEATURES_MAX, err));
    }
    TRY(config_limit(name, "heads x head_dim", (uint64_t)config->heads * config->head_dim,
                     SL_FEATURES_MAX, err));
    TRY(config_check_delta(config, name, err));
    if (!(config->norm_eps > 0.0f && config->norm_eps < 1.0f))
        return error_set(err, SL_ERR_ENV, "%s: the epsilon of the norms is %g, must be in (0, 1)",
                         name, (double)config->norm_eps);
    if (config->latent.kv_rank != 0)
        config->rope.rotary = config->latent.rope;
    TRY(config_check_layers(config, name, err));
    TRY(config_check_scales(config, name, err));
    bool is_apart = config->has_window_rope; /* else one way to rotate for all */
    TRY(config_check_rope(&config->rope,
                          is_apart ? config_head_dim(config, false) : config->head_dim, name, err));
    if (!is_apart)
        return config_check_mixture(config, name, err);
    TRY(config_check_rope(&config->window_rope, config_head_dim(config, true), name, err));
    if (config->window_rope.kind == ROPE_LONGROPE)
        return error_set(err, SL_ERR_ENV,
                         "%s: the windowed layers rotate by %s, which is not supported", name,
                         rope_word(config->window_rope.kind));
    return config_check_mixture(config, name, err);
}
