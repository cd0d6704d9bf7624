/* MiniMax-M2: attention with norms of q and k over all heads together and a part of each head
 * rotated; experts in every layer, scored by sigmoids of which a correction chooses. Published
 * code: transformers' modeling_minimax_m2.py and configuration_minimax_m2.py; published configs
 * give rotary_dim in place of partial_rotary_factor.
 *
 * Refuses what the older configs could say and the class does not compute: another scoring, linear
 * attention, shared experts, norms of single heads or none. */
#include "model/arch_mixture.h"

static enum status minimax_only(const struct json *config, const char *member, const char *word,
                                const char *name, struct error *err) {
    const struct json *value = json_get(config, member);
    struct str found = STR("?");
    if (value == NULL || json_is(value, JSON_NULL) ||
        (json_string(value, &found) && str_is(found, word)))
        return SL_OK;
    return error_set(err, SL_ERR_ENV, "%s: %s is \"%.*s\"; only %s is supported", name, member,
                     STR_ARG(found), word);
}

/* attn_type_list: a 1 for each layer. */
static enum status minimax_check(const struct json *config, const char *name, struct error *err) {
    const struct json *types = json_get(config, "attn_type_list");
    bool has_norm = true, has_correction = true;
    TRY(minimax_only(config, "scoring_func", "sigmoid", name, err));
    TRY(minimax_only(config, "qk_norm_type", "per_layer", name, err));
    TRY(config_flag(config, "use_qk_norm", name, &has_norm, err));
    TRY(config_flag(config, "use_routing_bias", name, &has_correction, err));
    if (!has_norm || !has_correction)
        return error_set(err, SL_ERR_ENV, "%s: %s false is not supported for this family", name,
                         has_norm ? "use_routing_bias" : "use_qk_norm");
    for (uint32_t i = 0; json_is(types, JSON_ARRAY) && i < types->count; i++) {
        uint64_t type = 0;
        if (!json_u64(&types->items[i], &type) || type != 1)
            return error_set(err, SL_ERR_ENV, "%s: attn_type_list[%u] is not 1, full attention",
                             name, i);
    }
    return SL_OK;
}

static enum status minimax_rotary(const struct json *config, const char *name, struct config *out,
                                  struct error *err) {
    uint32_t rotary = 0;
    const struct json *value = json_get(config, "rotary_dim");
    if (value == NULL || json_is(value, JSON_NULL) || out->rope.share != 0)
        return SL_OK;
    TRY(config_size(config, "rotary_dim", 0, name, &rotary, err));
    out->rope.rotary = rotary; /* config_check compares it with head_dim */
    return SL_OK;
}

static enum status minimax_configure(const struct json *config, const char *name,
                                     struct config *out, struct error *err) {
    static const struct mixture_names names = {"num_local_experts", "intermediate_size", true};
    TRY(minimax_check(config, name, err));
    TRY(arch_mixture_json(config, &names, name, out, err));
    TRY(minimax_rotary(config, name, out, err));
    out->has_whole_qk_norm = true;
    out->mixture.score = MIXTURE_SIGMOID;
    out->mixture.sums_to_one = true;
    return arch_common_no_window(config, name, out, err);
}

static enum status minimax_configure_meta(struct meta_reader *reader, struct config *out,
                                          struct error *err) {
    out->has_whole_qk_norm = true;
    out->mixture.score = MIXTURE_SIGMOID;
    out->mixture.sums_to_one = true;
    return arch_mixture_meta(reader, out, err);
}

/* No biases. */
static enum arch_need minimax_need(const struct config *config, enum role role) {
    if (role >= ROLE_Q_BIAS && role <= ROLE_O_BIAS)
        return ARCH_ABSENT;
    return arch_mixture_need(config, role);
}

const struct arch arch_minimax_m2 = {
    .name = "minimax-m2",
    .hf_types = (const char *const[]){"minimax_m2", NULL},
    .gguf_names = (const char *const[]){"minimax-m2", NULL},
    .has_qk_norm = true,
    .has_partial_rope = true,
    .settings = (const char *const[]){"num_local_experts", "num_experts", "use_qk_norm",
                                      "expert_count", "expert_used_count", NULL},
    .defaults = {.rope_theta = 5e6, .kv_heads = 8, .head_dim = 128},
    .configure_json = minimax_configure,
    .configure_meta = minimax_configure_meta,
    .need = minimax_need,
    .math = &arch_mixture_math,
};
