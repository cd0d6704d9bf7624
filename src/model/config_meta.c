/* Reads a model's sizes from GGUF metadata (ggml's docs/gguf.md, "LLM", and the keys that
 * llama.cpp's converter writes). Keys that would change the answer and are not understood refuse
 * the model, by name, unless they hold their neutral value. */
#include "model/config_meta.h"

#include "base/log.h"
#include "model/arch.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *meta_reader_key(struct meta_reader *reader, const char *member) {
    snprintf(reader->key, sizeof reader->key, "%s.%s", reader->prefix, member);
    return reader->key;
}

/* Members that some families use, with the value that changes nothing. Families that understand one
 * (arch.settings) find it in the double of the config at `offset`, where there is one, or read it
 * themselves. */
static const struct {
    const char *member;
    double neutral;
    size_t offset; /* 0: none */
} special[] = {
    {"expert_count", 0, 0},
    {"expert_used_count", 0, 0},
    {"attention.sliding_window", 0, 0},
    {"attention.sliding_window_pattern", 0, 0},
    {"attention.scale", 0, offsetof(struct config, score_scale)},
    {"attention.clamp_kqv", 0, 0},
    {"attention.max_alibi_bias", 0, 0},
    {"attention.temperature_scale", 0, 0},
    {"attn_logit_softcapping", 0, offsetof(struct config, score_cap)},
    {"final_logit_softcapping", 0, offsetof(struct config, logit_cap)},
    {"logit_scale", 1, offsetof(struct config, logit_scale)},
    {"embedding_scale", 1, offsetof(struct config, embed_scale)},
    {"residual_scale", 1, offsetof(struct config, residual_scale)},
    {"rope.freq_base_swa", 0, 0},
    {"rope.scaling.yarn_log_multiplier", 0, 0},
};

static enum status reader_check_members(struct meta_reader *reader, const struct arch *arch,
                                        struct config *out, struct error *err) {
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        const char *key = meta_reader_key(reader, special[i].member);
        bool is_understood = arch_has_setting(arch, special[i].member);
        double value = 0;
        if (meta_find(reader->meta, key) == NULL || (is_understood && special[i].offset == 0))
            continue;
        bool is_number = meta_real(reader->meta, key, &value);
        if (is_understood && is_number && value >= 0)
            memcpy((uint8_t *)out + special[i].offset, &value, sizeof value);
        else if (!is_number || is_understood || (value != special[i].neutral && value != 0))
            return error_set(err, SL_ERR_ENV, "%s: setting %s is not supported for this family",
                             reader->name, key);
    }
    bool is_causal = true;
    if (meta_bool(reader->meta, meta_reader_key(reader, "attention.causal"), &is_causal) &&
        !is_causal)
        return error_set(err, SL_ERR_ENV, "%s: %s is false: not a model that generates text",
                         reader->name, reader->key);
    return SL_OK;
}

enum status meta_reader_size(struct meta_reader *reader, const char *member, uint32_t fallback,
                             uint32_t *out, struct error *err) {
    const char *key = meta_reader_key(reader, member);
    const struct meta_value *value = meta_find(reader->meta, key);
    int64_t number = fallback;
    if (value == NULL && fallback == 0)
        return error_set(err, SL_ERR_ENV, "%s: key %s is missing", reader->name, key);
    if (value != NULL && value->kind == META_ARRAY && value->item_kind == META_INTEGER &&
        value->array.count > 0) {
        number = value->array.integers[0];
        for (size_t i = 1; !reader->takes_lists && i < value->array.count; i++)
            if (value->array.integers[i] != number)
                return error_set(err, SL_ERR_ENV,
                                 "%s: %s differs between layers (%lld and %lld), which family %s "
                                 "does not have here",
                                 reader->name, key, (long long)number,
                                 (long long)value->array.integers[i], reader->prefix);
    } else if (value != NULL && !meta_integer(reader->meta, key, &number)) {
        return error_set(err, SL_ERR_ENV, "%s: %s is not a whole number", reader->name, key);
    }
    if (number < 1 || number > UINT32_MAX)
        return error_set(err, SL_ERR_ENV, "%s: %s is %lld, not a whole number from 1 to 4294967295",
                         reader->name, key, (long long)number);
    *out = (uint32_t)number;
    return SL_OK;
}

enum status meta_reader_layer_size(struct meta_reader *reader, const char *member, uint32_t layer,
                                   uint32_t *out, struct error *err) {
    const char *key = meta_reader_key(reader, member);
    const struct meta_value *value = meta_find(reader->meta, key);
    if (value == NULL)
        return SL_OK;
    if (value->kind != META_ARRAY || value->item_kind != META_INTEGER)
        return meta_reader_size(reader, member, 0, out, err);
    if (layer >= value->array.count)
        return error_set(err, SL_ERR_ENV, "%s: %s has %zu values, not one for each layer",
                         reader->name, key, value->array.count);
    int64_t number = value->array.integers[layer];
    if (number < 1 || number > UINT32_MAX)
        return error_set(err, SL_ERR_ENV,
                         "%s: %s of layer %u is %lld, not a whole number from 1 to 4294967295",
                         reader->name, key, layer, (long long)number);
    *out = (uint32_t)number;
    return SL_OK;
}

enum status meta_reader_real(struct meta_reader *reader, const char *member, double *out,
                             struct error *err) {
    const char *key = meta_reader_key(reader, member);
    if (meta_find(reader->meta, key) != NULL && !meta_real(reader->meta, key, out))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a number", reader->name, key);
    return SL_OK;
}

/* As llama.cpp computes it: whole borders of the ramp, cosines grown by 0.1 ln(factor) + 1, unless
 * yarn_log_multiplier says that the scores are scaled instead (0.1 x mscale_all_dim). */
static enum status reader_yarn(struct meta_reader *reader, double factor, struct rope_config *rope,
                               struct error *err) {
    double multiplier = 0;
    rope->kind = ROPE_YARN;
    rope->factor = factor;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    TRY(meta_reader_real(reader, "rope.scaling.yarn_beta_fast", &rope->beta_fast, err));
    TRY(meta_reader_real(reader, "rope.scaling.yarn_beta_slow", &rope->beta_slow, err));
    TRY(meta_reader_real(reader, "rope.scaling.yarn_log_multiplier", &multiplier, err));
    if (!(factor >= 1 && factor <= 1e6))
        return error_set(err, SL_ERR_ENV,
                         "%s: the factor of rope type yarn is %g, must be 1 to 1e6", reader->name,
                         factor);
    rope->mscale_all_dim = 10.0 * multiplier;
    if (multiplier == 0)
        rope->attention_factor *= rope_mscale(factor, 1.0);
    return SL_OK;
}

static enum status reader_rope(struct meta_reader *reader, const struct arch *arch,
                               struct config *out, struct error *err) {
    struct rope_config *rope = &out->rope;
    *rope = (struct rope_config){.kind = ROPE_DEFAULT, .theta = 10000.0};
    rope->is_interleaved = arch->gguf_is_permuted;
    TRY(meta_reader_real(reader, "rope.freq_base", &rope->theta, err));
    TRY(meta_reader_size(reader, "rope.dimension_count", out->head_dim, &rope->rotary, err));
    double factor = 0, share = 1;
    struct str type = STR("linear"); /* a factor without a type, as older files have it */
    TRY(meta_reader_real(reader, "rope.scale_linear", &factor, err));
    TRY(meta_reader_real(reader, "rope.scaling.factor", &factor, err));
    TRY(meta_reader_real(reader, "rope.scaling.attn_factor", &share, err));
    const char *key = meta_reader_key(reader, "rope.scaling.type");
    if (meta_find(reader->meta, key) != NULL && !meta_text(reader->meta, key, &type))
        return error_set(err, SL_ERR_ENV, "%s: %s is not a text", reader->name, key);
    rope->attention_factor = share;
    rope->original_context = out->context;
    TRY(meta_reader_real(reader, "rope.scaling.original_context_length", &rope->original_context,
                         err));
    if (str_is(type, "yarn"))
        return reader_yarn(reader, factor, rope, err);
    if (str_is(type, "longrope")) { /* divisors are tensors; attn_factor alone is the factor */
        rope->kind = ROPE_LONGROPE;
        rope->factor = 1; /* not used */
        return SL_OK;
    }
    if (str_is(type, "none") || str_is(type, ""))
        return SL_OK;
    if (!str_is(type, "linear"))
        return error_set(err, SL_ERR_ENV, "%s: rope type \"%.*s\" is not supported (%s)",
                         reader->name, STR_ARG(type), meta_reader_key(reader, "rope.scaling.type"));
    if (factor != 0 && factor != 1) {
        rope->kind = ROPE_LINEAR;
        rope->factor = factor;
    }
    return SL_OK;
}

static enum status reader_fill(struct meta_reader *reader, const struct arch *arch,
                               struct config *out, struct error *err) {
    uint32_t value_dim = 0;
    double eps = 0;
    out->family = arch->name;
    out->has_qk_norm = arch->has_qk_norm;
    out->activation = arch->activation;
    TRY(reader_check_members(reader, arch, out, err));
    TRY(meta_reader_size(reader, "block_count", 0, &out->layers, err));
    if (out->layers > SL_LAYERS_MAX) /* before anything is made for each layer */
        return error_set(err, SL_ERR_ENV, "%s: the number of layers is %u, must be 1 to %u",
                         reader->name, out->layers, SL_LAYERS_MAX);
    TRY(meta_reader_size(reader, "embedding_length", 0, &out->hidden, err));
    TRY(meta_reader_size(reader, "attention.head_count", 0, &out->heads, err));
    TRY(meta_reader_size(reader, "attention.head_count_kv", out->heads, &out->kv_heads, err));
    TRY(meta_reader_size(reader, "feed_forward_length", 0, &out->inner, err));
    TRY(meta_reader_size(reader, "context_length", 0, &out->context, err));
    uint32_t plain = out->hidden % out->heads == 0 ? out->hidden / out->heads : 0;
    TRY(meta_reader_size(reader, "attention.key_length", plain, &out->head_dim, err));
    TRY(meta_reader_size(reader, "attention.value_length", out->head_dim, &value_dim, err));
    if (value_dim != out->head_dim && !arch_has_setting(arch, "attention.value_length"))
        return error_set(err, SL_ERR_ENV,
                         "%s: keys of %u and values of %u features are not supported for this "
                         "family",
                         reader->name, out->head_dim, value_dim);
    TRY(reader_rope(reader, arch, out, err));
    TRY(meta_reader_real(reader, "attention.layer_norm_rms_epsilon", &eps, err));
    out->norm_eps = (float)eps;
    out->ties_embeddings = true; /* whenever there is no output.weight; nothing declares it */
    const struct meta_value *tokens = meta_find(reader->meta, "tokenizer.ggml.tokens");
    if (tokens != NULL && tokens->kind == META_ARRAY && tokens->array.count <= SL_VOCABULARY_MAX)
        out->vocabulary = (uint32_t)tokens->array.count;
    if (arch->configure_meta != NULL)
        TRY(arch->configure_meta(reader, out, err));
    return config_check(out, reader->name, err);
}

enum status config_from_meta(const struct meta *meta, const char *name, struct config *out,
                             const struct arch **arch, struct error *err) {
    struct str type;
    if (!meta_text(meta, "general.architecture", &type))
        return error_set(err, SL_ERR_ENV, "%s: key general.architecture is missing", name);
    const struct arch *found = arch_from_gguf(type);
    if (found == NULL) {
        struct buf list;
        buf_init(&list);
        arch_list(&list);
        error_set(err, SL_ERR_ENV, "%s: architecture \"%.*s\" is not supported (there is: %s)",
                  name, STR_ARG(type), list.data != NULL ? list.data : "");
        buf_release(&list);
        return SL_ERR_ENV;
    }
    struct meta_reader reader = {.meta = meta, .name = name, .takes_lists = found->has_layer_sizes};
    double experts = 0;
    if (found == &arch_llama && meta_real(meta, "llama.expert_count", &experts) && experts > 0)
        found = &arch_mixtral;             /* has no name of its own there */
    must(type.len < sizeof reader.prefix); /* a name of the table */
    memcpy(reader.prefix, type.data, type.len);
    struct config result = {.layers = 0};
    arena_init(&result.arena);
    enum status status = reader_fill(&reader, found, &result, err);
    if (status != SL_OK) {
        config_release(&result);
        return status;
    }
    *out = result;
    *arch = found;
    return SL_OK;
}
