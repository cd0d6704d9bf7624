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
                       .gguf = "blk.%u.ffn_norm.weight|blk.%u.post_attention_norm.weight",
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
    [ROLE_Q_A] = {.word = "q_a_proj",
                  .safetensors = "model.layers.%u.self_attn.q_a_proj.weight",
                  .gguf = "blk.%u.attn_q_a.weight",
                  .is_per_layer = true},
    [ROLE_Q_B] = {.word = "q_b_proj",
                  .safetensors = "model.layers.%u.self_attn.q_b_proj.weight",
                  .gguf = "blk.%u.attn_q_b.weight",
                  .is_per_layer = true},
    [ROLE_KV_A] = {.word = "kv_a_proj_with_mqa",
                   .safetensors = "model.layers.%u.self_attn.kv_a_proj_with_mqa.weight",
                   .gguf = "blk.%u.attn_kv_a_mqa.weight",
                   .is_per_layer = true},
    [ROLE_KV_B] = {.word = "kv_b_proj",
                   .safetensors = "model.layers.%u.self_attn.kv_b_proj.weight",
                   .gguf = "blk.%u.attn_kv_b.weight",
                   .is_per_layer = true,
                   .is_whole = true},
    [ROLE_K_B] = {.word = "k_b_proj",
                  .safetensors = "model.layers.%u.self_attn.embed_q.weight", /* MLX */
                  .gguf = "blk.%u.attn_k_b.weight",
                  .is_per_layer = true,
                  .is_whole = true},
    [ROLE_V_B] = {.word = "v_b_proj",
                  .safetensors = "model.layers.%u.self_attn.unembed_out.weight", /* MLX */
                  .gguf = "blk.%u.attn_v_b.weight",
                  .is_per_layer = true,
                  .is_whole = true},
    [ROLE_DELTA_QKVZ] = {.word = "in_proj_qkvz",
                         .safetensors = "model.layers.%u.linear_attn.in_proj_qkvz.weight",
                         .gguf = "blk.%u.ssm_in.weight",
                         .is_per_layer = true},
    [ROLE_DELTA_QKV] = {.word = "in_proj_qkv",
                        .safetensors = "model.layers.%u.linear_attn.in_proj_qkv.weight",
                        .gguf = "blk.%u.attn_qkv.weight",
                        .is_per_layer = true},
    [ROLE_DELTA_Z] = {.word = "in_proj_z",
                      .safetensors = "model.layers.%u.linear_attn.in_proj_z.weight",
                      .gguf = "blk.%u.attn_gate.weight",
                      .is_per_layer = true},
    [ROLE_DELTA_BA] = {.word = "in_proj_ba",
                       .safetensors = "model.layers.%u.linear_attn.in_proj_ba.weight",
                       .gguf = "blk.%u.ssm_ba.weight",
                       .is_per_layer = true},
    [ROLE_DELTA_B] = {.word = "in_proj_b",
                      .safetensors = "model.layers.%u.linear_attn.in_proj_b.weight",
                      .gguf = "blk.%u.ssm_beta.weight",
                      .is_per_layer = true},
    [ROLE_DELTA_A] = {.word = "in_proj_a",
                      .safetensors = "model.layers.%u.linear_attn.in_proj_a.weight",
                      .gguf = "blk.%u.ssm_alpha.weight",
                      .is_per_layer = true},
    [ROLE_DELTA_OUT] = {.word = "out_proj",
                        .safetensors = "model.layers.%u.linear_attn.out_proj.weight",
                        .gguf = "blk.%u.ssm_out.weight",
                        .is_per_layer = true},
    [ROLE_DELTA_TAPS] = {.word = "conv1d",
                         .safetensors = "model.layers.%u.linear_attn.conv1d.weight",
                         .gguf = "blk.%u.ssm_conv1d.weight",
                         .is_per_layer = true,
                         .is_vector = true,
                         .is_flat = true},
    [ROLE_DELTA_RATE] = {.word = "A_log",
                         .safetensors = "model.layers.%u.linear_attn.A_log",
                         .gguf = "blk.%u.ssm_a",
                         .is_per_layer = true,
                         .is_vector = true},
    [ROLE_DELTA_BIAS] = {.word = "dt_bias",
                         .safetensors = "model.layers.%u.linear_attn.dt_bias",
                         .gguf = "blk.%u.ssm_dt.bias",
                         .is_per_layer = true,
                         .is_vector = true},
    [ROLE_DELTA_NORM] = {.word = "linear_attn.norm",
                         .safetensors = "model.layers.%u.linear_attn.norm.weight",
                         .gguf = "blk.%u.ssm_norm.weight",
                         .is_per_layer = true,
                         .is_vector = true},
    [ROLE_ROUTER] = {.word = "router",
                     .safetensors = "model.layers.%u.mlp.gate.weight|"
                                    "model.layers.%u.block_sparse_moe.gate.weight|"
                                    "model.layers.%u.mlp.router.weight",
                     .gguf = "blk.%u.ffn_gate_inp.weight",
                     .is_per_layer = true},
    [ROLE_SHARED_ROUTER] = {.word = "shared_expert_gate",
                            .safetensors = "model.layers.%u.mlp.shared_expert_gate.weight",
                            .gguf = "blk.%u.ffn_gate_inp_shexp.weight",
                            .is_per_layer = true},
    [ROLE_SHARED_GATE] = {.word = "shared_experts.gate_proj",
                          .safetensors = "model.layers.%u.mlp.shared_experts.gate_proj.weight|"
                                         "model.layers.%u.mlp.shared_expert.gate_proj.weight",
                          .gguf = "blk.%u.ffn_gate_shexp.weight",
                          .is_per_layer = true},
    [ROLE_SHARED_UP] = {.word = "shared_experts.up_proj",
                        .safetensors = "model.layers.%u.mlp.shared_experts.up_proj.weight|"
                                       "model.layers.%u.mlp.shared_expert.up_proj.weight",
                        .gguf = "blk.%u.ffn_up_shexp.weight",
                        .is_per_layer = true},
    [ROLE_SHARED_DOWN] = {.word = "shared_experts.down_proj",
                          .safetensors = "model.layers.%u.mlp.shared_experts.down_proj.weight|"
                                         "model.layers.%u.mlp.shared_expert.down_proj.weight",
                          .gguf = "blk.%u.ffn_down_shexp.weight",
                          .is_per_layer = true},
    [ROLE_EXPERT_GATE] = {.word = "experts.gate_proj",
                          .safetensors = "model.layers.%u.mlp.experts.%u.gate_proj.weight|"
                                         "model.layers.%u.block_sparse_moe.experts.%u.w1.weight|"
                                         "model.layers.%u.mlp.switch_mlp.gate_proj.weight|"
                                         "model.layers.%u.block_sparse_moe.switch_mlp.gate_proj."
                                         "weight|"
                                         "model.layers.%u.mlp.experts.gate_proj.weight",
                          .gguf = "blk.%u.ffn_gate_exps.weight|"
                                  "blk.%u.ffn_gate.%u.weight",
                          .is_per_layer = true},
    [ROLE_EXPERT_UP] = {.word = "experts.up_proj",
                        .safetensors = "model.layers.%u.mlp.experts.%u.up_proj.weight|"
                                       "model.layers.%u.block_sparse_moe.experts.%u.w3.weight|"
                                       "model.layers.%u.mlp.switch_mlp.up_proj.weight|"
                                       "model.layers.%u.block_sparse_moe.switch_mlp.up_proj."
                                       "weight|"
                                       "model.layers.%u.mlp.experts.up_proj.weight",
                        .gguf = "blk.%u.ffn_up_exps.weight|"
                                "blk.%u.ffn_up.%u.weight",
                        .is_per_layer = true},
    [ROLE_EXPERT_GATE_UP] = {.word = "experts.gate_up_proj",
                             .safetensors = "model.layers.%u.mlp.experts.gate_up_proj",
                             .is_per_layer = true,
                             .is_whole = true},
    [ROLE_EXPERT_GATE_UP_ROWS] = {.word = "experts.gate_up_proj",
                                  .safetensors = "model.layers.%u.mlp.experts.gate_up_proj_blocks",
                                  .is_per_layer = true},
    [ROLE_EXPERT_DOWN] = {.word = "experts.down_proj",
                          .safetensors = "model.layers.%u.mlp.experts.%u.down_proj.weight|"
                                         "model.layers.%u.block_sparse_moe.experts.%u.w2.weight|"
                                         "model.layers.%u.mlp.switch_mlp.down_proj.weight|"
                                         "model.layers.%u.block_sparse_moe.switch_mlp.down_proj."
                                         "weight|"
                                         "model.layers.%u.mlp.experts.down_proj.weight|"
                                         "model.layers.%u.mlp.experts.down_proj_blocks",
                          .gguf = "blk.%u.ffn_down_exps.weight|"
                                  "blk.%u.ffn_down.%u.weight",
                          .is_per_layer = true},
    [ROLE_EXPERT_DOWN_IN] = {.word = "experts.down_proj",
                             .safetensors = "model.layers.%u.mlp.experts.down_proj",
                             .is_per_layer = true,
                             .is_whole = true},
    [ROLE_EXPERT_GATE_BIAS] = {.word = "experts.gate_proj.bias",
                               .safetensors = "model.layers.%u.mlp.experts.gate_proj.bias",
                               .gguf = "blk.%u.ffn_gate_exps.bias",
                               .is_per_layer = true},
    [ROLE_EXPERT_UP_BIAS] = {.word = "experts.up_proj.bias",
                             .safetensors = "model.layers.%u.mlp.experts.up_proj.bias",
                             .gguf = "blk.%u.ffn_up_exps.bias",
                             .is_per_layer = true},
    [ROLE_EXPERT_GATE_UP_BIAS] = {.word = "experts.gate_up_proj_bias",
                                  .safetensors = "model.layers.%u.mlp.experts.gate_up_proj_bias",
                                  .is_per_layer = true},
    [ROLE_EXPERT_DOWN_BIAS] = {.word = "experts.down_proj_bias",
                               .safetensors = "model.layers.%u.mlp.experts.down_proj_bias|"
                                              "model.layers.%u.mlp.experts.down_proj.bias",
                               .gguf = "blk.%u.ffn_down_exps.bias",
                               .is_per_layer = true},
    [ROLE_SINKS] = {.word = "sinks",
                    .safetensors = "model.layers.%u.self_attn.sinks",
                    .gguf = "blk.%u.attn_sinks.weight",
                    .is_per_layer = true,
                    .is_vector = true},
    [ROLE_Q_A_NORM] = {.word = "q_a_layernorm",
                       .safetensors = "model.layers.%u.self_attn.q_a_layernorm.weight",
                       .gguf = "blk.%u.attn_q_a_norm.weight",
                       .is_per_layer = true,
                       .is_vector = true},
    [ROLE_KV_A_NORM] = {.word = "kv_a_layernorm",
                        .safetensors = "model.layers.%u.self_attn.kv_a_layernorm.weight",
                        .gguf = "blk.%u.attn_kv_a_norm.weight",
                        .is_per_layer = true,
                        .is_vector = true},
    [ROLE_ROUTER_BIAS] = {.word = "router.bias",
                          .safetensors = "model.layers.%u.mlp.router.bias",
                          .gguf = "blk.%u.ffn_gate_inp.bias",
                          .is_per_layer = true,
                          .is_vector = true},
    [ROLE_ROUTER_CORRECTION] = {.word = "e_score_correction_bias",
                                .safetensors = "model.layers.%u.mlp.gate.e_score_correction_bias",
                                .gguf = "blk.%u.exp_probs_b.bias|"
                                        "blk.%u.exp_probs_b",
                                .is_per_layer = true,
                                .is_vector = true},
};

const struct role_info *role_get(enum role role) {
    must((unsigned)role < ROLE_COUNT);
    return &roles[role];
}

bool role_add_name(const char *pattern, uint32_t choice, uint32_t layer, uint32_t expert,
                   struct buf *out) {
    for (; choice > 0; choice--) {
        pattern = strchr(pattern, '|');
        if (pattern == NULL)
            return false;
        pattern++;
    }
    const char *end = strchr(pattern, '|');
    struct str rest = {pattern, end != NULL ? (size_t)(end - pattern) : strlen(pattern)};
    for (uint32_t number = 0;; number++) {
        size_t mark = 0;
        while (mark + 1 < rest.len && !(rest.data[mark] == '%' && rest.data[mark + 1] == 'u'))
            mark++;
        if (mark + 1 >= rest.len) {
            buf_add(out, rest);
            return true;
        }
        buf_add(out, str_cut(rest, 0, mark));
        buf_printf(out, "%u", number == 0 ? layer : expert);
        rest = str_cut(rest, mark + 2, rest.len);
    }
}
