/* Reads config.json and generation_config.json as Hugging Face publishes them.
 *
 * Members that say nothing about the answer are ignored; members that would change it and that no
 * family here understands refuse the model, by name, unless they hold their neutral value. Members
 * that every family needs are refused when missing: a class default that disagrees with the file
 * would show in the answers alone. */
#include "base/log.h"
#include "model/arch.h"

#include <math.h>
#include <string.h>

/* Settings of other families that would change the answer; harmless when null, false, an empty
 * list or the neutral number. */
static const struct {
    const char *member;
    double neutral;
} not_understood[] = {
    {"quantization_config", NAN},
    {"quantization", NAN},
    {"attn_logit_softcapping", NAN},
    {"final_logit_softcapping", NAN},
    {"attention_multiplier", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"logits_scaling", 1},
    {"logit_scale", 1},
    {"scale_emb", 1},
    {"scale_depth", NAN},
    {"query_pre_attn_scalar", NAN},
    {"clip_qkv", NAN},
    {"no_rope_layers", NAN},
    {"attention_chunk_size", NAN},
    {"num_experts", 0},
    {"q_lora_rank", NAN},
    {"kv_lora_rank", NAN},
    {"first_k_dense_replace", 0},
    {"n_shared_experts", 0},
    {"shared_expert_intermediate_size", 0},
    {"moe_layer_freq", 1},
    {"router_logit_softcapping", NAN},
    {"swiglu_limit", NAN},
    {"num_local_experts", 0},
    {"n_routed_experts", 0},
    {"use_qk_norm", NAN},
    {"qk_norm", NAN},
    {"alibi", NAN},
    {"rope_interleave", NAN},
    {"use_bidirectional_attention", NAN},
};

static bool config_is_set(const struct json *value) {
    return value != NULL && !json_is(value, JSON_NULL);
}

/* Whether the family reads a member itself. */
static bool config_is_understood(const struct arch *arch, const char *member) {
    for (const char *const *word = arch->understood; word != NULL && *word != NULL; word++)
        if (strcmp(*word, member) == 0)
            return true;
    return false;
}

static enum status config_check_members(const struct json *config, const struct arch *arch,
                                        const char *name, struct error *err) {
    for (size_t i = 0; i < sizeof not_understood / sizeof not_understood[0]; i++) {
        const struct json *value = json_get(config, not_understood[i].member);
        double number = 0;
        if (!config_is_set(value) || json_is(value, JSON_FALSE) ||
            config_is_understood(arch, not_understood[i].member))
            continue;
        if (json_is(value, JSON_ARRAY) && value->count == 0)
            continue;
        if (json_double(value, &number) && number == not_understood[i].neutral)
            continue;
        return error_set(err, SL_ERR_ENV, "%s: setting %s is not supported for this family", name,
                         not_understood[i].member);
    }
    static const char *const activations[] = {"hidden_act", "hidden_activation", NULL};
    for (const char *const *member = activations; *member != NULL; member++) {
        const struct json *value = json_get(config, *member);
        struct str word = STR("");
        if (!config_is_set(value))
            continue;
        if (!json_string(value, &word) || !(str_is(word, "silu") || str_is(word, "swish")))
            return error_set(err, SL_ERR_ENV, "%s: %s is \"%.*s\"; only silu is supported", name,
                             *member, STR_ARG(word));
    }
    return SL_OK;
}

enum status config_size(const struct json *config, const char *member, uint32_t fallback,
                        const char *name, uint32_t *out, struct error *err) {
    const struct json *value = json_get(config, member);
    uint64_t number = fallback;
    if (config_is_set(value) && (!json_u64(value, &number) || number == 0 || number > UINT32_MAX))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a whole number from 1 to 4294967295", name,
                         member);
    if (number == 0)
        return error_set(err, SL_ERR_ENV, "%s: %s is missing", name, member);
    *out = (uint32_t)number;
    return SL_OK;
}

static enum status config_sizes(const struct json *config, const char *name, struct config *out,
                                struct error *err) {
    TRY(config_size(config, "num_hidden_layers", 0, name, &out->layers, err));
    TRY(config_size(config, "hidden_size", 0, name, &out->hidden, err));
    TRY(config_size(config, "num_attention_heads", 0, name, &out->heads, err));
    TRY(config_size(config, "num_key_value_heads", out->heads, name, &out->kv_heads, err));
    TRY(config_size(config, "intermediate_size", 0, name, &out->inner, err));
    TRY(config_size(config, "vocab_size", 0, name, &out->vocabulary, err));
    TRY(config_size(config, "max_position_embeddings", 0, name, &out->context, err));
    if (config_is_set(json_get(config, "head_dim")))
        TRY(config_size(config, "head_dim", 0, name, &out->head_dim, err));
    if (out->layers > SL_LAYERS_MAX) /* before anything is made for each layer */
        return error_set(err, SL_ERR_ENV, "%s: num_hidden_layers is %u, at most %u", name,
                         out->layers, SL_LAYERS_MAX);
    if (out->vocabulary > SL_VOCABULARY_MAX)
        return error_set(err, SL_ERR_ENV, "%s: vocab_size is %u, at most %u", name, out->vocabulary,
                         SL_VOCABULARY_MAX);
    double eps = 1e-6; /* the class default of these families */
    const struct json *value = json_get(config, "rms_norm_eps");
    if (config_is_set(value) && !json_double(value, &eps))
        return error_set(err, SL_ERR_ENV, "%s: rms_norm_eps is not a number", name);
    out->norm_eps = (float)eps;
    return SL_OK;
}

/* What the model's makers suggest for sampling; transformers' defaults where they say only that
 * they sample. Values that no sampler could use are left out with a warning: they end no job. */
static void config_sampling(const struct json *generation, struct config *out) {
    bool samples = false;
    if (!json_bool(json_get(generation, "do_sample"), &samples) || !samples)
        return;
    double temperature = 1.0, top_p = 1.0;
    int64_t top_k = 50;
    const struct json *value = json_get(generation, "temperature");
    bool is_good = !config_is_set(value) ||
                   (json_double(value, &temperature) && temperature >= 0 && isfinite(temperature));
    value = json_get(generation, "top_p");
    is_good &= !config_is_set(value) || (json_double(value, &top_p) && top_p > 0 && top_p <= 1);
    value = json_get(generation, "top_k");
    is_good &= !config_is_set(value) || (json_i64(value, &top_k) && top_k >= 0);
    if (!is_good) {
        log_warning("generation_config.json: the sampling settings are out of range and not used");
        return;
    }
    out->samples = true;
    out->temperature = temperature;
    out->top_p = top_p;
    out->top_k = top_k;
}

static enum status config_fill(const struct json *config, const struct arch *arch, const char *name,
                               struct config *out, struct error *err) {
    out->family = arch->name;
    out->has_qk_norm = arch->has_qk_norm;
    TRY(config_check_members(config, arch, name, err));
    TRY(config_sizes(config, name, out, err));
    TRY(config_rope_from_json(config, name, &out->rope, err));
    const struct json *tie = json_get(config, "tie_word_embeddings");
    out->ties_embeddings = arch->ties_by_default;
    if (config_is_set(tie) && !json_bool(tie, &out->ties_embeddings))
        return error_set(err, SL_ERR_ENV, "%s: tie_word_embeddings is not true or false", name);
    if (arch->configure_json != NULL)
        TRY(arch->configure_json(config, name, out, err));
    return config_check(out, name, err);
}

enum status config_from_json(const struct json *config, const struct json *generation,
                             const char *name, struct config *out, const struct arch **arch,
                             struct error *err) {
    struct str type;
    if (!json_is(config, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "%s: not a JSON object", name);
    if (!json_string(json_get(config, "model_type"), &type))
        return error_set(err, SL_ERR_ENV, "%s: model_type is missing", name);
    const struct arch *found = arch_from_hf(type);
    if (found == NULL) {
        struct buf list;
        buf_init(&list);
        arch_list(&list);
        error_set(err, SL_ERR_ENV, "%s: model type \"%.*s\" is not supported (there is: %s)", name,
                  STR_ARG(type), list.data != NULL ? list.data : "");
        buf_release(&list);
        return SL_ERR_ENV;
    }
    struct config result = {.layers = 0};
    arena_init(&result.arena);
    enum status status = config_fill(config, found, name, &result, err);
    if (status != SL_OK) {
        config_release(&result);
        return status;
    }
    config_sampling(generation, &result);
    *out = result;
    *arch = found;
    return SL_OK;
}
