/* The table of architectures and what follows from a config alone: the shape of every tensor.
 * Knows no mathematics: that is in arch_*.c. A name that no row has gives NULL, and the caller
 * refuses the model with the list of names. */
#include "model/arch.h"

#include <string.h>

static const struct arch *const archs[] = {
    &arch_llama,  &arch_mistral, &arch_qwen2, &arch_qwen3,   &arch_gemma2,
    &arch_gemma3, &arch_phi3,    &arch_olmo2, &arch_smollm3, &arch_granite,
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

/* A matrix is [outputs, inputs]; a vector has as many values as the outputs it belongs to. */
void arch_shape(const struct config *config, enum role role, uint64_t *rows, uint64_t *columns) {
    uint64_t query = (uint64_t)config->heads * config->head_dim;
    uint64_t key = (uint64_t)config->kv_heads * config->head_dim;
    uint64_t hidden = config->hidden, inner = config->inner;
    const struct {
        uint64_t rows, columns;
    } shapes[ROLE_COUNT] = {
        [ROLE_EMBED] = {config->vocabulary, hidden},
        [ROLE_FINAL_NORM] = {hidden, 0},
        [ROLE_HEAD] = {config->vocabulary, hidden},
        [ROLE_ROPE_FACTORS] = {config->rope.rotary / 2, 0},
        [ROLE_ROPE_LONG] = {config->rope.rotary / 2, 0},
        [ROLE_ROPE_SHORT] = {config->rope.rotary / 2, 0},
        [ROLE_Q] = {query, hidden},
        [ROLE_K] = {key, hidden},
        [ROLE_V] = {key, hidden},
        [ROLE_O] = {hidden, query},
        [ROLE_GATE] = {inner, hidden},
        [ROLE_UP] = {inner, hidden},
        [ROLE_DOWN] = {hidden, inner},
        [ROLE_ATTEND_NORM] = {hidden, 0},
        [ROLE_MLP_NORM] = {hidden, 0},
        [ROLE_ATTEND_POST_NORM] = {hidden, 0},
        [ROLE_MLP_POST_NORM] = {hidden, 0},
        [ROLE_Q_NORM] = {config->has_whole_qk_norm ? query : config->head_dim, 0},
        [ROLE_K_NORM] = {config->has_whole_qk_norm ? key : config->head_dim, 0},
        [ROLE_Q_BIAS] = {query, 0},
        [ROLE_K_BIAS] = {key, 0},
        [ROLE_V_BIAS] = {key, 0},
        [ROLE_O_BIAS] = {hidden, 0},
        [ROLE_GATE_BIAS] = {inner, 0},
        [ROLE_UP_BIAS] = {inner, 0},
        [ROLE_DOWN_BIAS] = {hidden, 0},
    };
    must((unsigned)role < ROLE_COUNT);
    *rows = shapes[role].rows;
    *columns = shapes[role].columns;
}
