/* The table of roles: for each what published files call it.
 *
 * Names of safetensors are those of the Hugging Face modules, names of GGUF those of ggml's
 * docs/gguf.md ("Standardized tensor names"). Decides nothing: which roles a family has is its
 * arch's business, and where a tensor lies the index's. */
#include "model/role.h"

#include <string.h>

static const struct role_info roles[ROLE_COUNT] = {
    [ROLE_EMBED] = {.word = "embed_tokens",
                    .safetensors = "model.embed_tokens.weight",
                    .gguf = "token_embd.weight"},
    [ROLE_FINAL_NORM] = {.word = "norm",
                         .safetensors = "model.norm.weight",
                         .gguf = "output_norm.weight",
                         .is_vector = true,
                         .is_norm = true},
    [ROLE_HEAD] = {.word = "lm_head", .safetensors = "lm_head.weight", .gguf = "output.weight"},
    [ROLE_ROPE_FACTORS] = {.word = "rope_freqs", .gguf = "rope_freqs.weight", .is_vector = true},
    [ROLE_ROPE_LONG] = {.word = "rope_factors_long",
                        .gguf = "rope_factors_long.weight",
                        .is_vector = true},
    [ROLE_ROPE_SHORT] = {.word = "rope_factors_short",
                         .gguf = "rope_factors_short.weight",
                         .is_vector = true},
    [ROLE_Q] = {.word = "q_proj",
                .safetensors = "model.layers.%u.self_attn.q_proj.weight",
                .gguf = "blk.%u.attn_q.weight",
                .is_per_layer = true},
    [ROLE_K] = {.word = "k_proj",
                .safetensors = "model.layers.%u.self_attn.k_proj.weight",
                .gguf = "blk.%u.attn_k.weight",
                .is_per_layer = true},
    [ROLE_V] = {.word = "v_proj",
                .safetensors = "model.layers.%u.self_attn.v_proj.weight",
                .gguf = "blk.%u.attn_v.weight",
                .is_per_layer = true},
    [ROLE_O] = {.word = "o_proj",
                .safetensors = "model.layers.%u.self_attn.o_proj.weight",
                .gguf = "blk.%u.attn_output.weight",
                .is_per_layer = true},
    [ROLE_GATE] = {.word = "gate_proj",
                   .safetensors = "model.layers.%u.mlp.gate_proj.weight",
                   .gguf = "blk.%u.ffn_gate.weight",
                   .is_per_layer = true},
    [ROLE_UP] = {.word = "up_proj",
                 .safetensors = "model.layers.%u.mlp.up_proj.weight",
                 .gguf = "blk.%u.ffn_up.weight",
                 .is_per_layer = true},
    [ROLE_DOWN] = {.word = "down_proj",
                   .safetensors = "model.layers.%u.mlp.down_proj.weight",
                   .gguf = "blk.%u.ffn_down.weight",
                   .is_per_layer = true},
    [ROLE_ATTEND_NORM] = {.word = "input_layernorm",
                          .safetensors = "model.layers.%u.input_layernorm.weight",
                          .gguf = "blk.%u.attn_norm.weight",
                          .is_per_layer = true,
                          .is_vector = true,
                          .is_norm = true},
    [ROLE_MLP_NORM] = {.word = "post_attention_layernorm",
                       .safetensors = "model.layers.%u.post_attention_layernorm.weight",
                       .gguf = "blk.%u.ffn_norm.weight",
                       .is_per_layer = true,
                       .is_vector = true,
                       .is_norm = true},
    /* Gemma's and OLMo 2's name for what follows attention is Llama's name for the norm of the MLP.
     */
    [ROLE_ATTEND_POST_NORM] = {.word = "attention_post_norm",
                               .safetensors = "model.layers.%u.post_attention_layernorm.weight",
                               .gguf = "blk.%u.post_attention_norm.weight",
                               .is_per_layer = true,
                               .is_vector = true,
                               .is_norm = true},
    [ROLE_MLP_POST_NORM] = {.word = "post_feedforward_layernorm",
                            .safetensors = "model.layers.%u.post_feedforward_layernorm.weight",
                            .gguf = "blk.%u.post_ffw_norm.weight",
                            .is_per_layer = true,
                            .is_vector = true,
                            .is_norm = true},
    [ROLE_Q_NORM] = {.word = "q_norm",
                     .safetensors = "model.layers.%u.self_attn.q_norm.weight",
                     .gguf = "blk.%u.attn_q_norm.weight",
                     .is_per_layer = true,
                     .is_vector = true,
                     .is_norm = true},
    [ROLE_K_NORM] = {.word = "k_norm",
                     .safetensors = "model.layers.%u.self_attn.k_norm.weight",
                     .gguf = "blk.%u.attn_k_norm.weight",
                     .is_per_layer = true,
                     .is_vector = true,
                     .is_norm = true},
    [ROLE_Q_BIAS] = {.word = "q_proj.bias",
                     .safetensors = "model.layers.%u.self_attn.q_proj.bias",
                     .gguf = "blk.%u.attn_q.bias",
                     .is_per_layer = true,
                     .is_vector = true},
    [ROLE_K_BIAS] = {.word = "k_proj.bias",
                     .safetensors = "model.layers.%u.self_attn.k_proj.bias",
                     .gguf = "blk.%u.attn_k.bias",
                     .is_per_layer = true,
                     .is_vector = true},
    [ROLE_V_BIAS] = {.word = "v_proj.bias",
                     .safetensors = "model.layers.%u.self_attn.v_proj.bias",
                     .gguf = "blk.%u.attn_v.bias",
                     .is_per_layer = true,
                     .is_vector = true},
    [ROLE_O_BIAS] = {.word = "o_proj.bias",
                     .safetensors = "model.layers.%u.self_attn.o_proj.bias",
                     .gguf = "blk.%u.attn_output.bias",
                     .is_per_layer = true,
                     .is_vector = true},
    [ROLE_GATE_BIAS] = {.word = "gate_proj.bias",
                        .safetensors = "model.layers.%u.mlp.gate_proj.bias",
                        .gguf = "blk.%u.ffn_gate.bias",
                        .is_per_layer = true,
                        .is_vector = true},
    [ROLE_UP_BIAS] = {.word = "up_proj.bias",
                      .safetensors = "model.layers.%u.mlp.up_proj.bias",
                      .gguf = "blk.%u.ffn_up.bias",
                      .is_per_layer = true,
                      .is_vector = true},
    [ROLE_DOWN_BIAS] = {.word = "down_proj.bias",
                        .safetensors = "model.layers.%u.mlp.down_proj.bias",
                        .gguf = "blk.%u.ffn_down.bias",
                        .is_per_layer = true,
                        .is_vector = true},
};

const struct role_info *role_get(enum role role) {
    must((unsigned)role < ROLE_COUNT);
    return &roles[role];
}

void role_add_name(const char *pattern, uint32_t layer, struct buf *out) {
    const char *mark = strstr(pattern, "%u");
    if (mark == NULL) {
        buf_add(out, str_from(pattern));
        return;
    }
    buf_add(out, (struct str){pattern, (size_t)(mark - pattern)});
    buf_printf(out, "%u", layer);
    buf_add(out, str_from(mark + 2));
}
