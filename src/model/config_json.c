/* Reads config.json and generation_config.json as Hugging Face publishes them.
 *
 * Members that say nothing about the answer are ignored; members that would change it and that no
 * family here understands refuse the model, by name, unless they hold their neutral value. Members
 * that every family needs are refused when missing: a class default that disagrees with the file
 * would show in the answers alone. */
#include "base/log.h"
#include "model/arch.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Settings of some families that would change the answer; harmless when null, false, an empty
 * list or the neutral number. Families that understand one (arch.settings) find it in the double
 * of the config at `offset`, where there is one, or read it themselves. */
static const struct {
    const char *member;
    double neutral;
    size_t offset; /* 0: none */
} special[] = {
    {"attn_logit_softcapping", NAN, offsetof(struct config, score_cap)},
    {"final_logit_softcapping", NAN, offsetof(struct config, logit_cap)},
    {"attention_multiplier", 1, offsetof(struct config, score_scale)},
    {"embedding_multiplier", 1, offsetof(struct config, embed_scale)},
    {"residual_multiplier", 1, offsetof(struct config, residual_scale)},
    {"logits_scaling", 1, 0},
    {"logit_scale", 1, 0},
    {"scale_emb", 1, 0},
    {"scale_depth", NAN, 0},
    {"query_pre_attn_scalar", NAN, 0},
    {"clip_qkv", NAN, 0},
    {"no_rope_layers", NAN, 0},
    {"attention_chunk_size", NAN, 0},
    {"dual_chunk_attention_config", NAN, 0},
    {"num_experts", 0, 0},
    {"q_lora_rank", NAN, 0},
    {"kv_lora_rank", NAN, 0},
    {"first_k_dense_replace", 0, 0},
    {"n_shared_experts", 0, 0},
    {"shared_expert_intermediate_size", 0, 0},
    {"moe_layer_freq", 1, 0},
    {"router_logit_softcapping", NAN, 0},
    {"swiglu_limit", NAN, 0},
    {"num_local_experts", 0, 0},
    {"n_routed_experts", 0, 0},
    {"rope_local_base_freq", NAN, 0},
    {"use_qk_norm", NAN, 0},
    {"qk_layernorm", NAN, 0},
    {"use_parallel_residual", NAN, 0},
    {"attn_temperature_tuning", NAN, 0},
    {"qk_norm", NAN, 0},
    {"alibi", NAN, 0},
    {"rope_interleave", NAN, 0},
    {"use_bidirectional_attention", NAN, 0},
    {"shared_intermediate_size", 0, 0},
};

static bool config_is_set(const struct json *value) {
    return value != NULL && !json_is(value, JSON_NULL);
}

/* A setting that the family understands: a positive number. */
static enum status config_read_special(const struct json *value, size_t number, const char *name,
                                       struct config *out, struct error *err) {
    double read = 0;
    if (special[number].offset == 0)
        return SL_OK;
    if (!json_double(value, &read) || !(read > 0))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a positive number", name,
                         special[number].member);
    memcpy((uint8_t *)out + special[number].offset, &read, sizeof read);
    return SL_OK;
}

static enum status config_check_members(const struct json *config, const struct arch *arch,
                                        const char *name, struct config *out, struct error *err) {
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        const struct json *value = json_get(config, special[i].member);
        double number = 0;
        if (!config_is_set(value) || json_is(value, JSON_FALSE))
            continue;
        if (json_is(value, JSON_ARRAY) && value->count == 0)
            continue;
        if (arch_has_setting(arch, special[i].member)) {
            TRY(config_read_special(value, i, name, out, err));
            continue;
        }
        if (json_double(value, &number) && number == special[i].neutral)
            continue;
        return error_set(err, SL_ERR_ENV, "%s: setting %s is not supported for this family", name,
                         special[i].member);
    }
    return SL_OK;
}

/* hidden_act, or hidden_activation as the Gemmas call it, whose class reads no hidden_act. */
static enum status config_activation(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    static const char *const members[] = {"hidden_act", "hidden_activation", NULL};
    static const struct {
        const char *word;
        enum activation activation;
    } words[] = {{"silu", ACTIVATION_SILU},
                 {"swish", ACTIVATION_SILU},
                 {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                 {"gelu_new", ACTIVATION_GELU_TANH}};
    for (const char *const *member = members; *member != NULL; member++) {
        const struct json *value = json_get(config, *member);
        struct str word = STR("");
        size_t i = 0, count = sizeof words / sizeof words[0];
        bool is_other = member == members && config_is_set(json_get(config, members[1]));
        if (!config_is_set(value) || is_other)
            continue;
        if (json_string(value, &word))
            while (i < count && !str_is(word, words[i].word))
                i++;
        if (word.len == 0 || i == count)
            return error_set(err, SL_ERR_ENV,
                             "%s: %s is \"%.*s\"; only silu and gelu_pytorch_tanh are supported",
                             name, *member, STR_ARG(word));
        out->activation = words[i].activation;
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

enum status config_flag(const struct json *config, const char *member, const char *name, bool *out,
                        struct error *err) {
    const struct json *value = json_get(config, member);
    if (config_is_set(value) && !json_bool(value, out))
        return error_set(err, SL_ERR_ENV, "%s: %s is not true or false", name, member);
    return SL_OK;
}

static enum status config_sizes(const struct json *config, const struct arch_defaults *defaults,
                                const char *name, struct config *out, struct error *err) {
    uint32_t kv_heads = defaults->kv_heads;
    TRY(config_size(config, "num_hidden_layers", defaults->part_layers, name, &out->layers, err));
    TRY(config_size(config, "hidden_size", defaults->part_hidden, name, &out->hidden, err));
    /* The class's own pair of heads goes together: heads that are given say nothing of it. */
    if (defaults->part_kv_heads != 0 && !config_is_set(json_get(config, "num_attention_heads")))
        kv_heads = defaults->part_kv_heads;
    TRY(config_size(config, "num_attention_heads",
                    defaults->heads != 0 ? defaults->heads : defaults->part_heads, name,
                    &out->heads, err));
    TRY(config_size(config, "num_key_value_heads", kv_heads != 0 ? kv_heads : out->heads, name,
                    &out->kv_heads, err));
    TRY(config_size(config, "intermediate_size",
                    defaults->inner != 0 ? defaults->inner : defaults->part_inner, name,
                    &out->inner, err));
    TRY(config_size(config, "vocab_size", defaults->vocabulary, name, &out->vocabulary, err));
    TRY(config_size(config, "max_position_embeddings", defaults->context, name, &out->context,
                    err));
    uint64_t predict = 0;
    const struct json *more = json_get(config, "num_nextn_predict_layers");
    if (config_is_set(more) && (!json_u64(more, &predict) || predict > SL_LAYERS_MAX))
        return error_set(err, SL_ERR_ENV,
                         "%s: num_nextn_predict_layers is not a whole number up to %u", name,
                         SL_LAYERS_MAX);
    out->predict_layers = (uint32_t)predict;
    out->head_dim = defaults->head_dim;
    if (config_is_set(json_get(config, "head_dim")))
        TRY(config_size(config, "head_dim", 0, name, &out->head_dim, err));
    if (out->layers > SL_LAYERS_MAX) /* before anything is made for each layer */
        return error_set(err, SL_ERR_ENV, "%s: num_hidden_layers is %u, at most %u", name,
                         out->layers, SL_LAYERS_MAX);
    if (out->vocabulary > SL_VOCABULARY_MAX)
        return error_set(err, SL_ERR_ENV, "%s: vocab_size is %u, at most %u", name, out->vocabulary,
                         SL_VOCABULARY_MAX);
    double eps = defaults->norm_eps != 0 ? defaults->norm_eps : 1e-6;
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

/* is_part: the object is the text_config of another. */
static enum status config_fill(const struct json *config, const struct arch *arch, bool is_part,
                               const char *name, struct config *out, struct error *err) {
    struct arch_defaults defaults = arch->defaults;
    if (!is_part)
        defaults.part_layers = defaults.part_hidden = defaults.part_inner = defaults.part_heads =
            defaults.part_kv_heads = 0;
    out->family = arch->name;
    out->has_qk_norm = arch->has_qk_norm;
    out->activation = arch->activation;
    TRY(config_check_members(config, arch, name, out, err));
    TRY(config_activation(config, name, out, err));
    TRY(config_sizes(config, &defaults, name, out, err));
    TRY(config_rope_from_json(config, name, arch, out, err));
    TRY(config_quantisation(config, name, out, err));
    out->ties_embeddings = arch->ties_by_default;
    TRY(config_flag(config, "tie_word_embeddings", name, &out->ties_embeddings, err));
    if (arch->configure_json != NULL)
        TRY(arch->configure_json(config, name, out, err));
    return config_check(out, name, err);
}

/* Multimodal models whose text part sees a prompt in another way than the text model does. */
static enum status config_check_whole(struct str type, const char *name, struct error *err) {
    if (!str_is(type, "paligemma"))
        return SL_OK;
    return error_set(err, SL_ERR_ENV,
                     "%s: model type \"paligemma\" is not supported: its prompts are not causal",
                     name);
}

/* Multimodal models keep their text model's members in text_config. What the outer object says
 * about numbers and ties holds for the text model too. */
static const struct json *config_text_part(const struct json *config) {
    const struct json *text = json_get(config, "text_config");
    struct str type;
    bool is_known =
        json_string(json_get(config, "model_type"), &type) && arch_from_hf(type) != NULL;
    return !is_known && json_is(text, JSON_OBJECT) ? text : config;
}

/* Members of the outer object that the text part does not repeat. */
static enum status config_outer(const struct json *outer, const struct json *text, const char *name,
                                struct config *out, struct error *err) {
    TRY(config_quantisation(outer, name, out, err));
    if (!config_is_set(json_get(text, "tie_word_embeddings")))
        return config_flag(outer, "tie_word_embeddings", name, &out->ties_embeddings, err);
    return SL_OK;
}

enum status config_from_json(const struct json *config, const struct json *generation,
                             const char *name, struct config *out, const struct arch **arch,
                             struct error *err) {
    struct str type;
    if (!json_is(config, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "%s: not a JSON object", name);
    const struct json *outer = config;
    config = config_text_part(config);
    if (config != outer && json_string(json_get(outer, "model_type"), &type))
        TRY(config_check_whole(type, name, err));
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
    enum status status = config_fill(config, found, config != outer, name, &result, err);
    if (status == SL_OK && config != outer)
        status = config_outer(outer, config, name, &result, err);
    if (status != SL_OK) {
        config_release(&result);
        return status;
    }
    config_sampling(generation, &result);
    *out = result;
    *arch = found;
    return SL_OK;
}
