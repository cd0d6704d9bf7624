/* What both readers of configs share: limits, and what must divide what, checked once for both so
 * that nothing later multiplies two sizes that overflow. */
#include "model/config.h"

#include "backend/kv_view.h"

#include <math.h>

void config_release(struct config *config) {
    arena_release(&config->arena);
}

static enum status config_limit(const char *name, const char *what, uint64_t value, uint64_t limit,
                                struct error *err) {
    if (value >= 1 && value <= limit)
        return SL_OK;
    return error_set(err, SL_ERR_ENV, "%s: %s is %llu, must be 1 to %llu", name, what,
                     (unsigned long long)value, (unsigned long long)limit);
}

static enum status config_check_rope(const struct config *config, const char *name,
                                     struct error *err) {
    const struct rope_config *rope = &config->rope;
    if (rope->rotary < 2 || rope->rotary % 2 != 0 || rope->rotary > config->head_dim)
        return error_set(err, SL_ERR_ENV,
                         "%s: %u rotated features of a head are not an even number up to head_dim "
                         "%u",
                         name, rope->rotary, config->head_dim);
    if (!(rope->theta >= 1.0 && rope->theta <= 1e15))
        return error_set(err, SL_ERR_ENV, "%s: rope theta is %g, must be 1 to 1e15", name,
                         rope->theta);
    if (rope->kind != ROPE_DEFAULT && !(rope->factor >= 1.0 && rope->factor <= 1e6))
        return error_set(err, SL_ERR_ENV, "%s: rope factor is %g, must be 1 to 1e6", name,
                         rope->factor);
    if (rope->kind == ROPE_YARN &&
        !(rope->beta_slow > 0 && rope->beta_fast >= rope->beta_slow && rope->beta_fast <= 1e6 &&
          rope->original_context >= 1 && rope->original_context <= SL_CONTEXT_MAX &&
          rope->magnitude > 0 && rope->magnitude <= 1e3))
        return error_set(err, SL_ERR_ENV,
                         "%s: rope type yarn needs 0 < beta_slow <= beta_fast, a positive "
                         "original_max_position_embeddings and an attention factor up to 1000, not "
                         "%g, %g, %g and %g",
                         name, rope->beta_slow, rope->beta_fast, rope->original_context,
                         rope->magnitude);
    if (rope->kind == ROPE_LLAMA3 &&
        !(rope->low_freq_factor > 0 && rope->high_freq_factor > rope->low_freq_factor &&
          rope->high_freq_factor <= 1e6 && rope->original_context >= 1 &&
          rope->original_context <= SL_CONTEXT_MAX))
        return error_set(err, SL_ERR_ENV,
                         "%s: rope type llama3 needs 0 < low_freq_factor < high_freq_factor and a "
                         "positive original_max_position_embeddings, not %g, %g and %g",
                         name, rope->low_freq_factor, rope->high_freq_factor,
                         rope->original_context);
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
    if (!(config->norm_eps > 0.0f && config->norm_eps < 1.0f))
        return error_set(err, SL_ERR_ENV, "%s: the epsilon of the norms is %g, must be in (0, 1)",
                         name, (double)config->norm_eps);
    if (config->latent.kv_rank != 0)
        config->rope.rotary = config->latent.rope;
    if (config->rope.rotary == 0 && config->rope.share > 0)
        config->rope.rotary = (uint32_t)(config->head_dim * config->rope.share);
    if (config->rope.rotary == 0)
        config->rope.rotary = config->head_dim;
    TRY(config_check_rope(config, name, err));
    return config_check_mixture(config, name, err);
}
