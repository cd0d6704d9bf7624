/* The table of architectures and what follows from a config alone: the shape of every tensor.
 * Knows no mathematics: that is in arch_*.c. A name that no row has gives NULL, and the caller
 * refuses the model with the list of names. */
#include "model/arch.h"

#include <string.h>

static const struct arch *const archs[] = {
    &arch_llama,      &arch_mistral,     &arch_qwen2,     &arch_qwen3,   &arch_gemma2,
    &arch_gemma3,     &arch_phi3,        &arch_olmo2,     &arch_smollm3, &arch_granite,
    &arch_mixtral,    &arch_qwen2_moe,   &arch_qwen3_moe, &arch_gpt_oss, &arch_deepseek,
    &arch_glm4_moe,   &arch_glm4,        &arch_seed_oss,  &arch_exaone4, &arch_cohere2,
    &arch_ministral3, &arch_minimax_m2,  &arch_llama4,    &arch_gemma4,  &arch_qwen3_next,
    &arch_qwen3_5,    &arch_qwen3_5_moe,
};
#define ARCH_TABLE_COUNT (sizeof archs / sizeof archs[0])

static bool arch_has_name(const char *const *names, struct str name) {
    for (; *names != NULL; names++)
        if (str_is(name, *names))
            return true;
    return false;
}

const struct arch *arch_from_hf(struct str model_type) {
    for (size_t i = 0; i < ARCH_TABLE_COUNT; i++)
        if (arch_has_name(archs[i]->hf_types, model_type))
            return archs[i];
    return NULL;
}

const struct arch *arch_from_gguf(struct str name) {
    for (size_t i = 0; i < ARCH_TABLE_COUNT; i++)
        if (arch_has_name(archs[i]->gguf_names, name))
            return archs[i];
    return NULL;
}

bool arch_has_setting(const struct arch *arch, const char *member) {
    for (const char *const *setting = arch->settings; setting != NULL && *setting != NULL;
         setting++)
        if (strcmp(*setting, member) == 0)
            return true;
    return false;
}

void arch_list(struct buf *out) {
    for (size_t i = 0; i < ARCH_TABLE_COUNT; i++) {
        if (i > 0)
            buf_add(out, STR(", "));
        buf_add(out, str_from(archs[i]->name));
    }
}

enum arch_need arch_layer_need(const struct arch *arch, const struct config *config, uint32_t layer,
                               enum role role) {
    bool is_mixture = config_is_mixture(config, layer);
    bool is_plain = role == ROLE_GATE || role == ROLE_UP || role == ROLE_DOWN ||
                    role == ROLE_GATE_BIAS || role == ROLE_UP_BIAS || role == ROLE_DOWN_BIAS;
    if (is_mixture ? is_plain : role_is_mixture(role))
        return ARCH_ABSENT;
    if (config_is_delta(config, layer) ? role_is_attention(role) : role_is_delta(role))
        return ARCH_ABSENT;
    struct layer_sizes sizes = config_layer(config, layer);
    bool is_value = role == ROLE_V || role == ROLE_V_BIAS;
    bool is_key = role == ROLE_K || role == ROLE_K_BIAS || role == ROLE_K_NORM;
    if (is_value ? sizes.kv_layer != layer || sizes.shares_values
                 : is_key && sizes.kv_layer != layer)
        return ARCH_ABSENT;
    return arch->need(config, role);
}

struct arch_sizes {
    uint64_t rows, columns;
};

/* Of what few families have. */
static void arch_shape_more(const struct config *config, enum role role, uint64_t *rows,
                            uint64_t *columns) {
    uint64_t hidden = config->hidden, input = config->layer_input;
    uint64_t inputs = config->layers * input, experts = config->mixture.count;
    const struct arch_sizes shapes[ROLE_COUNT] = {
        [ROLE_SINKS] = {config->heads, 0},
        [ROLE_Q_A_NORM] = {config->latent.q_rank, 0},
        [ROLE_KV_A_NORM] = {config->latent.kv_rank, 0},
        [ROLE_ROUTER_BIAS] = {experts, 0},
        [ROLE_ROUTER_CORRECTION] = {experts, 0},
        [ROLE_INPUTS_EMBED] = {config->vocabulary, inputs},
        [ROLE_INPUTS_PROJECT] = {inputs, hidden},
        [ROLE_INPUTS_NORM] = {input, 0},
        [ROLE_INPUT_GATE] = {input, hidden},
        [ROLE_INPUT_PROJECT] = {hidden, input},
        [ROLE_INPUT_NORM] = {hidden, 0},
        [ROLE_LAYER_SCALE] = {1, 0},
        [ROLE_ROUTER_SCALE] = {hidden, 0},
        [ROLE_EXPERT_SCALES] = {experts, 0},
        [ROLE_SHARED_POST_NORM] = {hidden, 0},
        [ROLE_EXPERTS_NORM] = {hidden, 0},
        [ROLE_EXPERTS_POST_NORM] = {hidden, 0},
    };
    *rows = shapes[role].rows;
    *columns = shapes[role].columns;
}

/* Of a gated delta network. */
static void arch_delta_shape(const struct config *config, enum role role, uint64_t *rows,
                             uint64_t *columns) {
    const struct delta_shape *shape = &config->delta.shape;
    uint64_t heads = shape->value_heads, values = heads * shape->value_dim;
    uint64_t channels = delta_channels(shape), hidden = config->hidden;
    *columns = hidden;
    switch (role) {
    case ROLE_DELTA_QKVZ:
        *rows = channels + values;
        break;
    case ROLE_DELTA_QKV:
        *rows = channels;
        break;
    case ROLE_DELTA_Z:
        *rows = values;
        break;
    case ROLE_DELTA_BA:
        *rows = 2 * heads;
        break;
    case ROLE_DELTA_OUT:
        *rows = hidden;
        *columns = values;
        break;
    case ROLE_DELTA_TAPS:
        *rows = channels * shape->kernel;
        *columns = 0;
        break;
    case ROLE_DELTA_NORM:
        *rows = shape->value_dim;
        *columns = 0;
        break;
    default: /* a value each head */
        *rows = heads;
        *columns = role == ROLE_DELTA_B || role == ROLE_DELTA_A ? hidden : 0;
    }
}

/* A matrix is [outputs, inputs]; a vector has as many values as the outputs it belongs to. */
static void arch_plain_shape(const struct config *config, uint32_t layer, enum role role,
                             uint64_t *rows, uint64_t *columns) {
    const struct layer_sizes sizes = config_layer(config, layer);
    uint64_t query = (uint64_t)config->heads * sizes.head_dim;
    uint64_t key = (uint64_t)sizes.kv_heads * sizes.head_dim;
    uint64_t hidden = config->hidden, inner = sizes.inner;
    const struct mixture *mixture = &config->mixture;
    const struct latent *latent = &config->latent;
    uint64_t expert = mixture->inner, shared = mixture->shared_inner, value;
    uint64_t kv_rank = latent->kv_rank, heads = config->heads;
    value = kv_rank != 0 ? heads * latent->value : query;
    const struct arch_sizes shapes[ROLE_COUNT] = {
        [ROLE_EMBED] = {config->vocabulary, hidden},
        [ROLE_FINAL_NORM] = {hidden, 0},
        [ROLE_HEAD] = {config->vocabulary, hidden},
        [ROLE_ROPE_FACTORS] = {config->rope.rotary / 2, 0},
        [ROLE_ROPE_LONG] = {config->rope.rotary / 2, 0},
        [ROLE_ROPE_SHORT] = {config->rope.rotary / 2, 0},
        [ROLE_Q] = {config->has_output_gate ? 2 * query : query, hidden},
        [ROLE_K] = {key, hidden},
        [ROLE_V] = {key, hidden},
        [ROLE_O] = {hidden, value},
        [ROLE_GATE] = {inner, hidden},
        [ROLE_UP] = {inner, hidden},
        [ROLE_DOWN] = {hidden, inner},
        [ROLE_Q_A] = {latent->q_rank, hidden},
        [ROLE_Q_B] = {query, latent->q_rank},
        [ROLE_KV_A] = {kv_rank + latent->rope, hidden},
        [ROLE_KV_B] = {heads * ((uint64_t)latent->nope + latent->value), kv_rank},
        [ROLE_K_B] = {heads * kv_rank, latent->nope},
        [ROLE_V_B] = {value, kv_rank},
        [ROLE_ROUTER] = {mixture->count, hidden},
        [ROLE_SHARED_ROUTER] = {1, hidden},
        [ROLE_SHARED_GATE] = {shared, hidden},
        [ROLE_SHARED_UP] = {shared, hidden},
        [ROLE_SHARED_DOWN] = {hidden, shared},
        [ROLE_EXPERT_GATE] = {expert, hidden},
        [ROLE_EXPERT_UP] = {expert, hidden},
        [ROLE_EXPERT_GATE_UP] = {hidden, 2 * expert},
        [ROLE_EXPERT_GATE_UP_ROWS] = {2 * expert, hidden},
        [ROLE_EXPERT_DOWN] = {hidden, expert},
        [ROLE_EXPERT_DOWN_IN] = {expert, hidden},
        [ROLE_EXPERT_GATE_BIAS] = {1, expert},
        [ROLE_EXPERT_UP_BIAS] = {1, expert},
        [ROLE_EXPERT_GATE_UP_BIAS] = {1, 2 * expert},
        [ROLE_EXPERT_DOWN_BIAS] = {1, hidden},
        [ROLE_ATTEND_NORM] = {hidden, 0},
        [ROLE_MLP_NORM] = {hidden, 0},
        [ROLE_ATTEND_POST_NORM] = {hidden, 0},
        [ROLE_MLP_POST_NORM] = {hidden, 0},
        [ROLE_Q_NORM] = {config->has_whole_qk_norm ? query : sizes.head_dim, 0},
        [ROLE_K_NORM] = {config->has_whole_qk_norm ? key : sizes.head_dim, 0},
        [ROLE_Q_BIAS] = {config->has_output_gate ? 2 * query : query, 0},
        [ROLE_K_BIAS] = {key, 0},
        [ROLE_V_BIAS] = {key, 0},
        [ROLE_O_BIAS] = {hidden, 0},
        [ROLE_GATE_BIAS] = {inner, 0},
        [ROLE_UP_BIAS] = {inner, 0},
        [ROLE_DOWN_BIAS] = {hidden, 0},
    };
    must((unsigned)role < ROLE_COUNT);
    if (role >= ROLE_SINKS) {
        arch_shape_more(config, role, rows, columns);
        return;
    }
    *rows = shapes[role].rows;
    *columns = shapes[role].columns;
}

void arch_shape(const struct config *config, uint32_t layer, enum role role, uint64_t *rows,
                uint64_t *columns) {
    if (role_is_delta(role))
        arch_delta_shape(config, role, rows, columns);
    else
        arch_plain_shape(config, layer, role, rows, columns);
}
