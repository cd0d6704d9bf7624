#!/usr/bin/env python3
"""Configs with the members that published models have, their sizes made small: what they mean is understood, or refused by name.

Each entry of MODELS is the config.json of the models named, as published, with `small` over it; weights are random.
"""
import json
import math
import os
import random
import struct
from array import array
from pathlib import Path

from formats_test import Fp8, Mlx, Mxfp4, read
from harness import ROOT, PublishedSuite, equal, main, refused, true

HIDDEN, INNER, VOCAB = 64, 96, 300
SIZES = dict(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=4, num_attention_heads=4, vocab_size=VOCAB)
USUAL = dict(bos_token_id=0, eos_token_id=2, initializer_range=0.02, use_cache=True, attention_dropout=0.0, torch_dtype="bfloat16",
             hidden_act="silu", transformers_version="4.51.0")
LLAMA3 = dict(factor=32.0, high_freq_factor=4.0, low_freq_factor=1.0, original_max_position_embeddings=8192, rope_type="llama3")
YARN = dict(factor=40, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=4096, type="yarn")
SHORT, LONG = [1.0 + 0.05 * i for i in range(8)], [1.5 + 0.5 * i for i in range(8)]
DEEPSEEK = dict(model_type="deepseek_v3", attention_bias=False, aux_loss_alpha=0.001, ep_size=1, first_k_dense_replace=1, kv_lora_rank=32,
                max_position_embeddings=163840, moe_intermediate_size=32, moe_layer_freq=1, n_group=4, n_routed_experts=8, n_shared_experts=1,
                norm_topk_prob=True, num_experts_per_tok=2, num_key_value_heads=4, num_nextn_predict_layers=1, pretraining_tp=1, q_lora_rank=24,
                qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, rms_norm_eps=1e-06, rope_scaling=YARN, rope_theta=10000,
                routed_scaling_factor=2.5, scoring_func="sigmoid", seq_aux=True, tie_word_embeddings=False, topk_group=2, topk_method="noaux_tc")
GEMMA3_TEXT = dict(attention_bias=False, attn_logit_softcapping=None, cache_implementation="hybrid", final_logit_softcapping=None, head_dim=16,
                   hidden_act=None, hidden_activation="gelu_pytorch_tanh", max_position_embeddings=32768, model_type="gemma3_text",
                   num_key_value_heads=1, num_hidden_layers=7, query_pre_attn_scalar=256, rms_norm_eps=1e-06, rope_local_base_freq=10000,
                   rope_scaling=None, rope_theta=1000000, sliding_window=512, sliding_window_pattern=6)
GPT_OSS = dict(attention_bias=True, experts_per_token=2, head_dim=16, initial_context_length=4096, max_position_embeddings=131072,
               layer_types=["sliding_attention", "full_attention"] * 2, model_type="gpt_oss", num_experts_per_tok=2, num_key_value_heads=2,
               num_local_experts=4, output_router_logits=False, rms_norm_eps=1e-05, router_aux_loss_coef=0.9, sliding_window=128,
               rope_scaling=dict(beta_fast=32.0, beta_slow=1.0, factor=32.0, original_max_position_embeddings=4096, rope_type="yarn",
                                 truncate=False), rope_theta=150000, swiglu_limit=7.0, tie_word_embeddings=False, hidden_size=64,
               intermediate_size=64)
LINEAR = dict(linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_value_head_dim=16)
QWEN_NEXT = dict(attention_bias=False, head_dim=16, full_attention_interval=4, max_position_embeddings=262144, mlp_only_layers=[],
                 moe_intermediate_size=32, num_experts=8, num_experts_per_tok=2, num_key_value_heads=2, rms_norm_eps=1e-06,
                 router_aux_loss_coef=0.001, shared_expert_intermediate_size=32, **LINEAR)
# name: (config, what show --json must say)
MODELS = {
    "Llama-2-7b": (dict(model_type="llama", max_position_embeddings=4096, num_key_value_heads=4, pretraining_tp=1, rms_norm_eps=1e-05,
                        rope_scaling=None, tie_word_embeddings=False), {"family": "llama", ".rope": "default"}),
    "Llama-3.2-1B": (dict(model_type="llama", attention_bias=False, head_dim=16, max_position_embeddings=131072, mlp_bias=False,
                          num_key_value_heads=2, pretraining_tp=1, rms_norm_eps=1e-05, rope_scaling=LLAMA3, rope_theta=500000.0,
                          tie_word_embeddings=True), {"family": "llama", ".rope": "llama3", ".rope_factor": 32.0, ".own_head": False}),
    "Llama-3.1-8B-both-types": (dict(model_type="llama", max_position_embeddings=131072, num_key_value_heads=2, rms_norm_eps=1e-05,
                                     rope_scaling={**LLAMA3, "type": "llama3", "factor": 8.0}, rope_theta=500000.0,
                                     tie_word_embeddings=False), {".rope_factor": 8.0}),
    "Mistral-7B-v0.1": (dict(model_type="mistral", max_position_embeddings=32768, num_key_value_heads=2, rms_norm_eps=1e-05,
                             rope_theta=10000.0, sliding_window=4096, tie_word_embeddings=False), {".window": 4096, ".windowed_layers": 4}),
    "Mistral-7B-v0.3": (dict(model_type="mistral", max_position_embeddings=32768, num_key_value_heads=2, rms_norm_eps=1e-05,
                             rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False), {".window": 0}),
    "Mistral-Nemo": (dict(model_type="mistral", head_dim=32, max_position_embeddings=1024000, num_key_value_heads=2, rms_norm_eps=1e-05,
                          rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False), {"head_dim": 32, "context": 1024000}),
    "Qwen2.5-7B": (dict(model_type="qwen2", max_position_embeddings=32768, max_window_layers=28, num_key_value_heads=2, rms_norm_eps=1e-06,
                        rope_theta=1000000.0, sliding_window=131072, tie_word_embeddings=False, use_sliding_window=False),
                   {"family": "qwen2", ".window": 0}),
    "Qwen2.5-7B-yarn": (dict(model_type="qwen2", max_position_embeddings=32768, max_window_layers=28, num_key_value_heads=2,
                             rms_norm_eps=1e-06, rope_theta=1000000.0, sliding_window=131072, tie_word_embeddings=True,
                             use_sliding_window=False, rope_scaling=dict(factor=4.0, original_max_position_embeddings=32768, type="yarn")),
                        {".rope": "yarn", ".rope_factor": 4.0}),
    "Qwen3-8B": (dict(model_type="qwen3", attention_bias=False, head_dim=32, max_position_embeddings=40960, max_window_layers=36,
                      num_key_value_heads=2, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=1000000, sliding_window=None,
                      tie_word_embeddings=False, use_sliding_window=False), {"family": "qwen3", ".qk_norm": True, "head_dim": 32}),
    "gemma-2-27b": (dict(model_type="gemma2", attention_bias=False, attn_logit_softcapping=50.0, cache_implementation="hybrid",
                         final_logit_softcapping=30.0, head_dim=16, hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh",
                         max_position_embeddings=8192, num_key_value_heads=2, query_pre_attn_scalar=144, rms_norm_eps=1e-06,
                         rope_theta=10000.0, sliding_window=4096, sliding_window_size=4096),
                    {".score_cap": 50.0, ".logit_cap": 30.0, ".window": 4096, ".windowed_layers": 2, ".score_scale": 1 / 12}),
    "gemma-3-1b": (GEMMA3_TEXT, {".window": 512, ".windowed_layers": 6, ".window_rope_theta": 10000.0, ".score_scale": 1 / 16}),
    "gemma-3-4b": (dict(model_type="gemma3", architectures=["Gemma3ForConditionalGeneration"], boi_token_index=255999, eoi_token_index=256000,
                        image_token_index=262144, mm_tokens_per_image=256, eos_token_id=[1, 106], initializer_range=0.02,
                        text_config=dict(hidden_size=HIDDEN, intermediate_size=INNER, model_type="gemma3_text", num_hidden_layers=7,
                                         rope_scaling=dict(factor=8.0, rope_type="linear"), sliding_window=1024, vocab_size=VOCAB),
                        vision_config=dict(hidden_size=1152, image_size=896, model_type="siglip_vision_model", patch_size=14)),
                   {"family": "gemma3", "heads": 8, "kv_heads": 4, "head_dim": 256, "context": 131072, ".rope_factor": 8.0, ".window": 1024}),
    "Phi-3-mini-4k": (dict(model_type="phi3", embd_pdrop=0.0, resid_pdrop=0.0, max_position_embeddings=4096, num_key_value_heads=4,
                           original_max_position_embeddings=4096, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=10000.0,
                           sliding_window=2047, tie_word_embeddings=False, attention_bias=False),
                      {"family": "phi3", ".window": 2047, ".windowed_layers": 4}),
    "Phi-3.5-mini": (dict(model_type="phi3", max_position_embeddings=131072, num_key_value_heads=4, original_max_position_embeddings=4096,
                          rms_norm_eps=1e-05, rope_scaling=dict(long_factor=LONG, short_factor=SHORT, type="longrope"), rope_theta=10000.0,
                          sliding_window=262144, tie_word_embeddings=False), {".rope": "longrope", ".rope_factor": 32.0}),
    "Phi-3-mini-128k-su": (dict(model_type="phi3", max_position_embeddings=131072, num_key_value_heads=4,
                                original_max_position_embeddings=4096, rms_norm_eps=1e-05, rope_theta=10000.0, sliding_window=262144,
                                rope_scaling=dict(long_factor=LONG, short_factor=SHORT, type="su"), tie_word_embeddings=False),
                           {".rope": "longrope"}),
    "phi-4": (dict(model_type="phi3", max_position_embeddings=16384, num_key_value_heads=2, original_max_position_embeddings=16384,
                   rms_norm_eps=1e-05, rope_scaling=None, rope_theta=250000, sliding_window=None, tie_word_embeddings=False), {".window": 0}),
    "Phi-4-mini": (dict(model_type="phi3", attention_bias=False, full_attn_mod=1, interpolate_factor=1, lm_head_bias=False, mlp_bias=False,
                        head_dim=32, max_position_embeddings=131072, num_key_value_heads=2, original_max_position_embeddings=4096,
                        partial_rotary_factor=0.5, rms_norm_eps=1e-05, rope_theta=10000.0, sliding_window=262144, tie_word_embeddings=True,
                        rope_scaling=dict(long_factor=LONG, short_factor=SHORT, type="longrope")), {".rotary": 16, "head_dim": 32}),
    "OLMo-2-7B": (dict(model_type="olmo2", attention_bias=False, max_position_embeddings=4096, num_key_value_heads=4, rms_norm_eps=1e-06,
                       rope_scaling=None, rope_theta=500000, tie_word_embeddings=False), {"family": "olmo2", ".qk_norm": True}),
    "SmolLM3-3B": (dict(model_type="smollm3", attention_bias=False, layer_types=["full_attention"] * 4, max_position_embeddings=65536,
                        max_window_layers=28, mlp_bias=False, no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0], num_key_value_heads=2,
                        pretraining_tp=2, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=5000000.0, sliding_window=None,
                        use_sliding_window=False), {"family": "smollm3", ".layers_without_rope": 1}),
    "granite-3.1-8b": (dict(model_type="granite", attention_bias=False, attention_multiplier=0.0078125, embedding_multiplier=12.0,
                            logits_scaling=16.0, max_position_embeddings=131072, mlp_bias=False, num_key_value_heads=2,
                            residual_multiplier=0.22, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=10000000.0,
                            tie_word_embeddings=True),
                       {".score_scale": 0.0078125, ".embed_scale": 12.0, ".logit_scale": 1 / 16, ".residual_scale": 0.22}),
    "Mixtral-8x7B": (dict(model_type="mixtral", max_position_embeddings=32768, num_experts_per_tok=2, num_key_value_heads=2,
                          num_local_experts=4, output_router_logits=False, rms_norm_eps=1e-05, rope_theta=1000000.0,
                          router_aux_loss_coef=0.02, sliding_window=None, tie_word_embeddings=False), {".experts": 4, ".experts_used": 2}),
    "Qwen1.5-MoE-A2.7B": (dict(model_type="qwen2_moe", decoder_sparse_step=1, max_position_embeddings=8192, max_window_layers=21,
                               moe_intermediate_size=32, norm_topk_prob=False, num_experts=6, num_experts_per_tok=4, num_key_value_heads=4,
                               output_router_logits=False, rms_norm_eps=1e-06, rope_theta=1000000.0, router_aux_loss_coef=0.001,
                               shared_expert_intermediate_size=64, sliding_window=32768, tie_word_embeddings=False,
                               use_sliding_window=False), {"family": "qwen2moe", ".shared_inner": 64, ".expert_inner": 32, ".window": 0}),
    "Qwen3-30B-A3B": (dict(model_type="qwen3_moe", attention_bias=False, decoder_sparse_step=1, head_dim=32, max_position_embeddings=40960,
                           max_window_layers=48, mlp_only_layers=[], moe_intermediate_size=32, norm_topk_prob=True, num_experts=8,
                           num_experts_per_tok=2, num_key_value_heads=2, output_router_logits=False, rms_norm_eps=1e-06, rope_scaling=None,
                           rope_theta=1000000.0, router_aux_loss_coef=0.001, sliding_window=None, tie_word_embeddings=False,
                           use_sliding_window=False), {"family": "qwen3moe", ".experts": 8}),
    "gpt-oss-20b-bf16": (GPT_OSS, {"family": "gpt-oss", ".rope": "yarn", ".window": 128, ".windowed_layers": 2}),
    "DeepSeek-V3": (DEEPSEEK, {"family": "deepseek2", ".kv_rank": 32, ".q_rank": 24, ".rope": "yarn"}),
    "Moonlight-16B-A3B": ({**DEEPSEEK, "q_lora_rank": None, "rope_scaling": None, "rope_theta": 50000.0, "n_group": 1, "topk_group": 1,
                           "num_nextn_predict_layers": 0, "routed_scaling_factor": 2.446, "max_position_embeddings": 8192},
                          {".q_rank": 0, ".rope": "default"}),
    "DeepSeek-V2-Lite": ({**DEEPSEEK, "model_type": "deepseek_v2", "q_lora_rank": None, "n_group": 1, "topk_group": 1, "norm_topk_prob": False,
                          "num_nextn_predict_layers": 0, "n_shared_experts": 2, "routed_scaling_factor": 1.0, "scoring_func": "softmax",
                          "topk_method": "greedy", "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}},
                         {"family": "deepseek2", ".q_rank": 0, ".shared_inner": 64}),
    "DeepSeek-V2": ({**DEEPSEEK, "model_type": "deepseek_v2", "norm_topk_prob": False, "num_nextn_predict_layers": 0,
                     "routed_scaling_factor": 16.0, "scoring_func": "softmax", "topk_method": "group_limited_greedy",
                     "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}}, {"family": "deepseek2", ".q_rank": 24}),
    "Kimi-K2": ({**DEEPSEEK, "model_type": "kimi_k2", "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0, "rope_theta": 50000.0,
                 "rope_scaling": {**YARN, "beta_fast": 1.0, "factor": 64.0}, "routed_scaling_factor": 2.827,
                 "max_position_embeddings": 262144}, {"family": "deepseek2", ".rope_factor": 64.0}),
    "GLM-4.5-Air": (dict(model_type="glm4_moe", attention_bias=True, first_k_dense_replace=1, head_dim=32, max_position_embeddings=131072,
                         moe_intermediate_size=32, n_group=1, n_routed_experts=8, n_shared_experts=1, norm_topk_prob=True,
                         num_experts_per_tok=2, num_key_value_heads=2, num_nextn_predict_layers=1, partial_rotary_factor=0.5,
                         rms_norm_eps=1e-05, rope_scaling=None, rope_theta=1000000, routed_scaling_factor=1.0, tie_word_embeddings=False,
                         topk_group=1, use_qk_norm=False), {"family": "glm4moe", ".rotary": 16, ".qk_norm": False}),
    "Qwen3-Next-80B-A3B": (dict(model_type="qwen3_next", decoder_sparse_step=1, norm_topk_prob=True, output_router_logits=False,
                                partial_rotary_factor=0.25, rope_scaling=None, rope_theta=10000000, tie_word_embeddings=False,
                                use_sliding_window=False, **QWEN_NEXT), {"family": "qwen3next", ".rotary": 4, ".delta_layers": 3}),
    "Qwen3.5-35B-A3B": (dict(model_type="qwen3_5_moe", image_token_id=248056, video_token_id=248057, vision_start_token_id=248053,
                             vision_end_token_id=248054, tie_word_embeddings=False, vision_config=dict(model_type="qwen3_5_moe", depth=27),
                             text_config=dict(model_type="qwen3_5_moe_text", attn_output_gate=True, hidden_act="silu", mamba_ssm_dtype="float32",
                                              layer_types=["linear_attention"] * 3 + ["full_attention"], mtp_num_hidden_layers=1,
                                              mtp_use_dedicated_embeddings=False, rope_parameters=dict(
                                                  mrope_interleaved=True, mrope_section=[1, 1, 0], rope_type="default", rope_theta=10000000,
                                                  partial_rotary_factor=0.25),
                                              **QWEN_NEXT, **{k: v for k, v in SIZES.items() if k != "intermediate_size"})),
                        {"family": "qwen35moe", ".attention_gate": True, ".predict_layers_unused": 1, ".other_tensors_unused": 1}),
    "Mistral-Small-3.1": (dict(model_type="mistral3", image_token_index=10, multimodal_projector_bias=False, projector_hidden_act="gelu",
                               spatial_merge_size=2, vision_feature_layer=-1, vision_config=dict(model_type="pixtral", hidden_size=1024),
                               text_config=dict(model_type="mistral", attention_dropout=0.0, head_dim=32, hidden_act="silu", **SIZES,
                                                max_position_embeddings=131072, num_key_value_heads=2, rms_norm_eps=1e-05,
                                                rope_theta=1000000000.0, sliding_window=None, use_cache=True)),
                          {"family": "mistral", "head_dim": 32, ".own_head": True}),
    "llava-1.5-7b": (dict(model_type="llava", ignore_index=-100, image_token_index=32000, pad_token_id=32001, projector_hidden_act="gelu",
                          tie_word_embeddings=False, vision_feature_layer=-2, vision_feature_select_strategy="default",
                          text_config=dict(_name_or_path="lmsys/vicuna-7b-v1.5", architectures=["LlamaForCausalLM"], model_type="llama",
                                           max_position_embeddings=4096, rms_norm_eps=1e-05, torch_dtype="float16", **SIZES),
                          vision_config=dict(model_type="clip_vision_model", hidden_size=1024)), {"family": "llama", "kv_heads": 4}),
}


def gaussian(shape, rng, spread=0.08):
    return ("F32", list(shape), array("f", (rng.uniform(-spread, spread) for _ in range(math.prod(shape)))).tobytes())


def ones(count, value=1.0):
    return ("F32", [count], array("f", [value] * count).tobytes())


HYBRID = ("qwen3_next", "qwen3_5_moe_text")


def network(c, at, rng):
    """A gated delta network."""
    keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    heads, hidden = c["linear_num_value_heads"], c["hidden_size"]
    values = heads * c["linear_value_head_dim"]
    inputs = {"in_proj_qkvz": 2 * keys + 2 * values, "in_proj_ba": 2 * heads}
    if c["model_type"] != "qwen3_next":
        inputs = {"in_proj_qkv": 2 * keys + values, "in_proj_z": values, "in_proj_b": heads, "in_proj_a": heads}
    made = {f"{at}.{name}.weight": gaussian((rows, hidden), rng) for name, rows in inputs.items()}
    made[f"{at}.conv1d.weight"] = gaussian((2 * keys + values, 1, c["linear_conv_kernel_dim"]), rng, 0.5)
    made |= {f"{at}.A_log": gaussian([heads], rng), f"{at}.dt_bias": ones(heads), f"{at}.norm.weight": ones(c["linear_value_head_dim"])}
    return made | {f"{at}.out_proj.weight": gaussian((hidden, values), rng)}


def attention(c, at, rng):
    """Tensors of one layer's attention, by the config alone."""
    kind, hidden, heads = c["model_type"], c["hidden_size"], c["num_attention_heads"]
    keys, wide = c.get("num_key_value_heads") or heads, c.get("head_dim") or hidden // heads
    if kind in ("deepseek_v3", "kimi_k2", "deepseek_v2"):
        rank, rope, nope, value = c["kv_lora_rank"], c["qk_rope_head_dim"], c["qk_nope_head_dim"], c["v_head_dim"]
        low = c["q_lora_rank"]
        q = {"q_a_proj": (low, hidden), "q_b_proj": (heads * (nope + rope), low)} if low else {"q_proj": (heads * (nope + rope), hidden)}
        shapes = {**q, "kv_a_proj_with_mqa": (rank + rope, hidden), "kv_b_proj": (heads * (nope + value), rank), "o_proj": (hidden, heads * value)}
        made = {f"{at}.self_attn.{name}.weight": gaussian(shape, rng) for name, shape in shapes.items()}
        made[f"{at}.self_attn.kv_a_layernorm.weight"] = ones(rank)
        return {**made, **({f"{at}.self_attn.q_a_layernorm.weight": ones(low)} if low else {})}
    if kind in HYBRID and (int(at.rsplit(".", 1)[1]) + 1) % c["full_attention_interval"]:
        return network(c, f"{at}.linear_attn", rng)
    shapes = {"q_proj": (heads * wide * (1 + (kind in HYBRID)), hidden), "k_proj": (keys * wide, hidden), "v_proj": (keys * wide, hidden), "o_proj": (hidden, heads * wide)}
    if kind in HYBRID:
        norms = {f"{at}.self_attn.{name}_norm.weight": ones(wide, 0.0) for name in "qk"}
        return norms | {f"{at}.self_attn.{name}.weight": gaussian(shape, rng) for name, shape in shapes.items()}
    if kind == "phi3":
        shapes = {"qkv_proj": ((heads + 2 * keys) * wide, hidden), "o_proj": shapes["o_proj"]}
    made = {f"{at}.self_attn.{name}.weight": gaussian(shape, rng) for name, shape in shapes.items()}
    biased = ["q_proj", "k_proj", "v_proj"] if kind in ("qwen2", "qwen2_moe") or c.get("attention_bias") else []
    for name in biased + (["o_proj"] if kind == "gpt_oss" else []):
        made[f"{at}.self_attn.{name}.bias"] = gaussian(shapes[name][:1], rng)
    if kind in ("qwen3", "qwen3_moe", "gemma3_text") or c.get("use_qk_norm"):
        made |= {f"{at}.self_attn.{name}_norm.weight": ones(wide, float(kind != "gemma3_text")) for name in "qk"}
    if kind == "olmo2":
        made |= {f"{at}.self_attn.q_norm.weight": ones(heads * wide), f"{at}.self_attn.k_norm.weight": ones(keys * wide)}
    if kind == "gpt_oss":
        made[f"{at}.self_attn.sinks"] = gaussian([heads], rng)
    return made


def gated(at, hidden, inner, rng, names=("gate_proj", "up_proj", "down_proj")):
    shapes = zip(names, ((inner, hidden), (inner, hidden), (hidden, inner)))
    return {f"{at}.{name}.weight": gaussian(shape, rng) for name, shape in shapes}


def mlp(c, layer, at, rng):
    kind, hidden, inner = c["model_type"], c["hidden_size"], c.get("intermediate_size", INNER)
    experts = c.get("n_routed_experts") or c.get("num_experts") or c.get("num_local_experts") or 0
    if not experts or layer < c.get("first_k_dense_replace", 0):
        if kind == "phi3":
            return {f"{at}.mlp.gate_up_proj.weight": gaussian((2 * inner, hidden), rng), f"{at}.mlp.down_proj.weight": gaussian((hidden, inner), rng)}
        return gated(f"{at}.mlp", hidden, inner, rng)
    small = c.get("moe_intermediate_size", inner)
    if kind == "gpt_oss":
        return {f"{at}.mlp.router.weight": gaussian((experts, hidden), rng), f"{at}.mlp.router.bias": gaussian([experts], rng),
                f"{at}.mlp.experts.gate_up_proj": gaussian((experts, hidden, 2 * small), rng),
                f"{at}.mlp.experts.gate_up_proj_bias": gaussian((experts, 2 * small), rng),
                f"{at}.mlp.experts.down_proj": gaussian((experts, small, hidden), rng),
                f"{at}.mlp.experts.down_proj_bias": gaussian((experts, hidden), rng)}
    if kind == "mixtral":
        made = {f"{at}.block_sparse_moe.gate.weight": gaussian((experts, hidden), rng)}
        for e in range(experts):
            made |= gated(f"{at}.block_sparse_moe.experts.{e}", hidden, small, rng, ("w1", "w3", "w2"))
        return made
    made = {f"{at}.mlp.gate.weight": gaussian((experts, hidden), rng)}
    for e in range(experts):
        made |= gated(f"{at}.mlp.experts.{e}", hidden, small, rng)
    if c.get("n_shared_experts"):
        made |= gated(f"{at}.mlp.shared_experts", hidden, small * c["n_shared_experts"], rng)
        if c.get("topk_method", "noaux_tc") == "noaux_tc":
            made[f"{at}.mlp.gate.e_score_correction_bias"] = gaussian([experts], rng)
    if kind == "qwen2_moe" or kind in HYBRID:
        made |= gated(f"{at}.mlp.shared_expert", hidden, c["shared_expert_intermediate_size"], rng)
        made[f"{at}.mlp.shared_expert_gate.weight"] = gaussian((1, hidden), rng)
    return made


def tensors(c, tied, seed=3):
    """All tensors of a text model under their published names."""
    rng, kind, hidden = random.Random(seed), c["model_type"], c["hidden_size"]
    is_offset, made = kind.startswith("gemma") or kind in HYBRID, {"model.embed_tokens.weight": gaussian((c["vocab_size"], hidden), rng, 0.5)}
    norm = ones(hidden, float(not is_offset))
    for layer in range(c["num_hidden_layers"] + c.get("num_nextn_predict_layers", 0)):
        at = f"model.layers.{layer}"
        made |= attention(c, at, rng) | mlp(c, layer, at, rng)
        names = ["post_attention_layernorm"] + (["input_layernorm"] if kind != "olmo2" else [])
        names += ["pre_feedforward_layernorm"] if kind.startswith("gemma") else []
        names += ["post_feedforward_layernorm"] if kind.startswith("gemma") or kind == "olmo2" else []
        made |= {f"{at}.{name}.weight": norm for name in names}
        if layer >= c["num_hidden_layers"]:     # what predicts a further token
            made |= {f"{at}.{name}.weight": norm for name in ("enorm", "hnorm", "shared_head.norm")}
            made[f"{at}.eh_proj.weight"] = gaussian((hidden, 2 * hidden), rng)
    made["model.norm.weight"] = norm
    return made if tied else {**made, "lm_head.weight": gaussian((c["vocab_size"], hidden), rng)}


def write(path, made):
    header, end = {}, 0
    for name, (dtype, shape, raw) in made.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(raw)]}
        end += len(raw)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in made.values()))


# Members of configs that say nothing about an answer, or that MODELS and other tests look at.
SILENT = """architectures model_type initializer_range use_cache attention_dropout torch_dtype dtype transformers_version bos_token_id pad_token_id
    pretraining_tp max_window_layers use_sliding_window cache_implementation sliding_window_size embd_pdrop resid_pdrop full_attn_mod lm_head_bias
    interpolate_factor original_max_position_embeddings output_router_logits router_aux_loss_coef router_jitter_noise experts_per_token seq_aux
    initial_context_length aux_loss_alpha ep_size moe_layer_freq no_rope_layer_interval decoder_sparse_step mlp_only_layers topk_method qk_head_dim
    use_bidirectional_attention text_config vision_config boi_token_index eoi_token_index image_token_index mm_tokens_per_image ignore_index
    multimodal_projector_bias projector_hidden_act spatial_merge_size vision_feature_layer vision_feature_select_strategy eos_token_id _sliding_window_pattern qkv_bias hidden_size num_hidden_layers num_attention_heads vocab_size
    max_position_embeddings tie_word_embeddings _name_or_path full_attention_interval mamba_ssm_dtype mtp_use_dedicated_embeddings
    image_token_id video_token_id vision_start_token_id vision_end_token_id""".split()
ROPE = dict(factor="rope_factor", low_freq_factor="rope_low_freq_factor", high_freq_factor="rope_high_freq_factor", beta_fast="rope_beta_fast",
            beta_slow="rope_beta_slow", mscale="rope_mscale", mscale_all_dim="rope_mscale_all_dim", truncate="rope_truncate",
            original_max_position_embeddings="rope_original_context", rope_theta="rope_theta", attention_factor="rope_attention_factor")
PLAIN = dict(intermediate_size="inner", rms_norm_eps="norm_eps", rope_theta="rope_theta", rope_local_base_freq="window_rope_theta",
             attn_logit_softcapping="score_cap", final_logit_softcapping="logit_cap", attention_multiplier="score_scale",
             embedding_multiplier="embed_scale", residual_multiplier="residual_scale", num_local_experts="experts", num_experts="experts",
             n_routed_experts="experts", num_experts_per_tok="experts_used", moe_intermediate_size="expert_inner",
             shared_expert_intermediate_size="shared_inner", norm_topk_prob="experts_sum_to_one", routed_scaling_factor="experts_scale",
             n_group="expert_groups", topk_group="expert_groups_used", scoring_func="experts_score", first_k_dense_replace="dense_layers",
             kv_lora_rank="kv_rank", q_lora_rank="q_rank", qk_nope_head_dim="qk_nope", qk_rope_head_dim="qk_rope", v_head_dim="value_dim",
             num_nextn_predict_layers="predict_layers_unused", mtp_num_hidden_layers="predict_layers_unused", attn_output_gate="attention_gate",
             linear_conv_kernel_dim="delta_kernel", linear_key_head_dim="delta_key_dim", linear_num_key_heads="delta_key_heads",
             linear_num_value_heads="delta_value_heads", linear_value_head_dim="delta_value_dim", use_qk_norm="qk_norm", swiglu_limit="swiglu_limit", swiglu_alpha="swiglu_alpha",
             attention_bias="attention_bias", mlp_bias="mlp_bias", rope_interleave="rope_interleave")
NEUTRAL = dict(experts_scale=1.0, expert_groups=1, expert_groups_used=1, dense_layers=0, predict_layers_unused=0, q_rank=None, embed_scale=1.0,
               residual_scale=1.0, rope_attention_factor=1.0, attention_bias=False, mlp_bias=False, score_cap=None, logit_cap=None,
               rope_mscale=None, rope_mscale_all_dim=None)


def expected(config, name, value, shown):
    """What `show` must say for a member of a config: [(name of the setting, value)]; None: this test does not know it."""
    text, heads = config.get("text_config", config), config.get("num_attention_heads")
    if name in SILENT or (value is None and name not in ("q_lora_rank",)):
        return []
    if name in PLAIN:
        return [(PLAIN[name], value or (0 if name == "q_lora_rank" else value))]
    if name in ("rope_scaling", "rope_parameters"):
        if "full_attention" in value:
            return [("rope_theta", value["full_attention"]["rope_theta"]), ("window_rope_theta", value["sliding_attention"]["rope_theta"])]
        ratio = text["max_position_embeddings"] / text["original_max_position_embeddings"] if "long_factor" in value else None
        kind = {"su": "longrope"}.get(value.get("rope_type", value.get("type", "default")), value.get("rope_type", value.get("type")))
        return [("rope", kind)] + ([("rope_factor", ratio)] if ratio else []) + [(ROPE[key], number) for key, number in value.items() if key in ROPE]
    if name == "hidden_act" or name == "hidden_activation":
        return [("activation", {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}[value])]
    if name == "sliding_window":
        return [("window", value if config.get("use_sliding_window", True) else 0)]
    if name == "layer_types" and "linear_attention" in value:
        return [("delta_layers", value.count("linear_attention"))]
    if name == "layer_types":
        return [("windowed_layers", sum(kind == "sliding_attention" for kind in value) or None)]
    if name == "sliding_window_pattern":
        return [("windowed_layers", text["num_hidden_layers"] - text["num_hidden_layers"] // value)]
    if name == "no_rope_layers":
        return [("layers_without_rope", value.count(0))]
    if name == "partial_rotary_factor":
        return [("rotary", int(value * config.get("head_dim", config["hidden_size"] // heads)))]
    if name == "query_pre_attn_scalar":
        return [("score_scale", value ** -0.5 if value != config["head_dim"] else None)]
    if name == "logits_scaling":
        return [("logit_scale", 1 / value)]
    if name in ("quantization", "quantization_config"):
        block = dict(zip(("scale_block_rows", "scale_block_columns"), value.get("weight_block_size", [])))
        return [*block.items()] + [("scale_group", value["group_size"]) for _ in "x" if "group_size" in value]
    if name == "n_shared_experts":
        return [("shared_inner", value * config["moe_intermediate_size"])]
    if name in ("num_key_value_heads", "head_dim"):     # of MLA they say nothing
        return [] if "kv_lora_rank" in config else [({"num_key_value_heads": "kv_heads"}.get(name, name), value)]
    return None


class Published(PublishedSuite):
    def published(self, name, **changes):
        """The folder of a model of the table."""
        whole = {**USUAL, **SIZES, **MODELS[name][0], **changes}
        text, prefix, head = whole, "model.", ""
        if "text_config" in whole:
            whole = {k: v for k, v in whole.items() if k not in SIZES and k not in ("hidden_act", "torch_dtype")}
            classes = dict(num_attention_heads=8, num_key_value_heads=4, head_dim=256) if whole["model_type"] == "gemma3" else {}
            text, prefix, head = {**classes, **whole["text_config"]}, "language_model.model.", "language_model."
        tied = whole.get("tie_word_embeddings", whole["model_type"].startswith("gemma") or whole["model_type"] == "smollm3")
        made = tensors(text, tied)
        if "text_config" in whole:
            made = {head + key if key.startswith("lm_head") else prefix + key.removeprefix("model."): value for key, value in made.items()}
            made["vision_tower.vision_model.post_layernorm.weight"] = ones(32)
        model = self.model("--vocab", VOCAB)
        (model / "config.json").write_text(json.dumps(whole))
        (model / "generation_config.json").unlink()
        write(model / "model.safetensors", made)
        return model

    def passes(self, model, row, *options):
        metrics = self.folder() / "metrics"
        done = self.run(model, [row], "--ignore-eos", "--engine", "stream", "--metrics", metrics, *options)
        equal(done.code, 0, done.err[-300:])
        return [line for line in map(json.loads, metrics.read_text().splitlines()) if "pass" in line]

    def check_mla_keeps_the_compressed_values_of_each_token_and_layer(self):
        """kv_lora_rank + qk_rope_head_dim = 32 + 8 values, where the expanded heads would be 4 x (24 + 16)."""
        model = self.published("DeepSeek-V3")
        for kind, bytes_each in (("bf16", 2), ("f32", 4)):
            plan = json.loads(self.command("plan", model, self.rows(self.ROWS), "--json", "--kv", kind).out)
            equal(plan["kv_bytes_per_token"], (32 + 8) * 4 * bytes_each, kind)
            used = [line["kv_bytes_used"] for line in self.passes(model, {"id": 1, "prompt_ids": [40] * 7, "max_tokens": 30}, "--kv", kind)]
            page = 16 * (32 + 8) * 4 * bytes_each
            equal(max(used), 3 * page, f"36 positions in pages of 16: {used}")     # the last token is not kept

    def check_windows_cap_the_pages_kept(self):
        """A window of 40 positions touches 4 pages of 16 at most; a row of 400 tokens has 25 where nothing slides."""
        row, page = {"id": 1, "prompt_ids": [40] * 10, "max_tokens": 391}, 16 * 2 * 2 * 16 * 2     # a layer: 2 kv heads of 16, keys and values
        for name, sliding, changes in (("Mistral-7B-v0.1", 4, {}), ("gemma-2-27b", 2, {}), ("gpt-oss-20b-bf16", 2, {})):
            model = self.published(name, sliding_window=40, max_position_embeddings=1024, **changes)
            used = max(line["kv_bytes_used"] for line in self.passes(model, row))
            equal(used, page * (4 * sliding + 25 * (4 - sliding)), name)
        model = self.published("Mistral-7B-v0.1", sliding_window=None, max_position_embeddings=1024)
        equal(max(line["kv_bytes_used"] for line in self.passes(model, row)), page * 25 * 4, "without a window")

    def check_experts_of_every_form_are_read_only_when_routed_to(self):
        """A pass of one token reads 2 experts of each layer that has them, and not one more: by hand, four bytes a weight."""
        row, hidden, vocab = {"id": 1, "prompt_ids": [9], "max_tokens": 5}, 64, 300
        experts = {"Mixtral-8x7B": (4, 2 * 3 * 64 * 96), "Qwen3-30B-A3B": (4, 2 * 3 * 64 * 32), "DeepSeek-V3": (3, 2 * 3 * 64 * 32),
                   "GLM-4.5-Air": (3, 2 * 3 * 64 * 32), "gpt-oss-20b-bf16": (4, 2 * (3 * 64 * 64 + 3 * 64))}
        for name, (layers, values) in experts.items():
            model = self.published(name)
            whole = json.loads(self.command("show", model, "--json").out)["blocks"]
            shared = sum(block["bytes"] for block in whole if "experts." not in block["name"].replace("shared_experts.", ""))
            read_bytes = {line["read_bytes"] for line in self.passes(model, row)}
            equal(read_bytes, {shared + 4 * layers * values}, name)
            true(shared + 4 * layers * values < sum(block["bytes"] for block in whole), name)

    def says_all(self, name, config, shown):
        """That `show --json` has each member of a config, unless it says nothing or its value is neutral."""
        settings = {**shown, **shown["settings"]}
        text = config.get("text_config", config)
        for member, value in text.items():
            pairs = expected(text, member, value, settings)
            true(pairs is not None, f"{name}: nobody knows {member}")
            for setting, wanted in pairs:
                seen = settings.get(setting, NEUTRAL.get(setting))
                near = isinstance(wanted, float) and seen is not None and abs(seen - wanted) <= 1e-6 * abs(wanted)
                true(near or seen == wanted, f"{name}: {member} is {value!r}, but show has {setting} {seen!r}")
        equal(sum(shown["format_bytes"].values()), shown["weights_bytes"], f"{name}: bytes by format")

    def check_show_says_every_setting_of_published_configs(self):
        for name in MODELS:
            model = self.published(name)
            self.says_all(name, json.loads((model / "config.json").read_text()), json.loads(self.command("show", model, "--json").out))

    def check_show_says_every_setting_of_the_fixtures(self):
        fixtures = Path(os.environ.get("SLUICE_SHARED", ROOT.parent / "shared")) / "fixtures/models"
        for config in sorted(fixtures.glob("*/config.json")):     # none: nothing to see, as everywhere else
            shown = json.loads(self.command("show", config.parent, "--json").out)
            self.says_all(config.parent.name, json.loads(config.read_text()), shown)

    def check_show_says_in_text_what_is_not_usual(self):
        text = self.command("show", self.published("gpt-oss-20b-bf16")).out.decode()
        for words in ("rope yarn", "rope_beta_fast 32", "rope_truncate no", "window 128", "windowed_layers 2", "swiglu_limit 7", "experts_used 2",
                      "attention_bias yes", "sinks yes", "experts_score softmax of the chosen"):
            true(words in text, f"no {words!r} in {text}")

    def check_published_configs_are_understood(self):
        for name, (_, wanted) in MODELS.items():
            try:
                model = self.published(name)
                self.shows(model, wanted)
                equal(self.command("plan", model, self.rows(self.ROWS), "--kv", "f32").code, 0, "plan")
                self.runs(model)
            except AssertionError as problem:
                raise AssertionError(f"{name}: {problem}") from None


    def check_text_parts_have_prefixes_of_several_styles(self):
        first = self.published("Mistral-Small-3.1")
        for prefix, head in (("model.language_model.", ""), ("model.text_model.", "")):
            model, made = self.published("Mistral-Small-3.1"), {}
            for name, value in read(first / "model.safetensors").items():
                plain = name.removeprefix("language_model.")
                made[head + plain if plain.startswith("lm_head") else plain.replace("model.", prefix, 1)] = value
            write(model / "model.safetensors", made)
            self.same(model, first)

    def logprobs(self, model, *options):
        done = self.run(model, self.ROWS, *self.OPTIONS, "--logprobs", 3, *options)
        equal(done.code, 0, done.err[-300:])
        true("not used" not in done.err, f"a warning: {done.err[-300:]}")
        return done.results

    def same(self, model, twin):
        wanted = self.logprobs(twin, "--engine", "resident")
        equal(self.logprobs(model, "--engine", "resident"), wanted, "resident")
        equal(self.logprobs(model, "--engine", "stream"), wanted, "streamed")

    def coded(self, name, form, keeps=(), **changes):
        """A model of the table with its matrices in a format, and its float32 twin."""
        model, twin, rng = self.published(name, **changes), self.published(name, **changes), random.Random(8)
        made, plain = {}, {}
        for key, (dtype, shape, raw) in read(twin / "model.safetensors").items():
            made[key] = plain[key] = (dtype, shape, raw)
            if len(shape) == 2 and not any(word in key for word in ("norm", ".gate.weight", "shared_expert_gate", *keeps)):
                parts, values = form.make(key.removesuffix(".weight"), *shape, rng)
                del made[key]
                made |= parts
                plain[key] = ("F32", shape, values.tobytes())
        write(model / "model.safetensors", made)
        write(twin / "model.safetensors", plain)
        return model, twin

    def check_published_models_in_fp8(self):
        """DeepSeek's heads of 16 + 16 rows lie across blocks of 24; experts have blocks of their own; a scale a row as Llama 3.1 405B has it."""
        kept = ["lm_head", "model.embed_tokens"]
        blocks = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [24, 20]}
        for name in ("DeepSeek-V3", "Qwen3-30B-A3B", "Qwen1.5-MoE-A2.7B", "Phi-3-mini-4k"):
            model, twin = self.coded(name, Fp8(block=(24, 20)), kept)
            self.configure(model, quantization_config=blocks)
            self.same(model, twin)
        model, twin = self.coded("Llama-3.2-1B", Fp8(block=None, ending="weight_scale", shape="row"), kept)
        self.configure(model, quantization_config={"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": kept})
        self.same(model, twin)

    def check_published_models_in_mlx(self):
        for name in ("gemma-3-1b", "Phi-4-mini", "OLMo-2-7B", "GLM-4.5-Air", "Mixtral-8x7B"):
            model, twin = self.coded(name, Mlx(4, 32))
            self.configure(model, quantization={"group_size": 32, "bits": 4, "mode": "affine"})
            self.same(model, twin)

    def check_mlx_keeps_the_matrices_of_mla_by_head(self):
        """mlx_lm splits kv_b_proj [heads x (nope + value), rank] into embed_q [heads, rank, nope] and unembed_out [heads, value, rank]."""
        heads, rank, nope, value = 4, 64, 32, 16
        sizes = dict(kv_lora_rank=rank, qk_nope_head_dim=nope, v_head_dim=value)
        whole = self.published("DeepSeek-V3", **sizes)
        split, plain, coded, rng = {}, {}, {}, random.Random(5)
        for name, (dtype, shape, raw) in read(whole / "model.safetensors").items():
            if "kv_b_proj" not in name:
                split[name] = plain[name] = coded[name] = (dtype, shape, raw)
                continue
            at, rows = name.removesuffix("kv_b_proj.weight"), array("f", raw)
            of = lambda head, row, column: rows[(head * (nope + value) + row) * rank + column]
            q = array("f", (of(h, n, r) for h in range(heads) for r in range(rank) for n in range(nope)))
            out = array("f", (of(h, nope + v, r) for h in range(heads) for v in range(value) for r in range(rank)))
            split |= {f"{at}embed_q.weight": ("F32", [heads, rank, nope], q.tobytes()),
                      f"{at}unembed_out.weight": ("F32", [heads, value, rank], out.tobytes())}
            for part, across, down in (("embed_q", nope, rank), ("unembed_out", rank, value)):
                parts, values = Mlx(4, 32).make(f"{at}{part}", heads * down, across, rng)
                coded |= {key: (kind, [heads, down, shape[1]], data) for key, (kind, shape, data) in parts.items()}
                plain[f"{at}{part}.weight"] = ("F32", [heads, down, across], values.tobytes())
        model, twin, quantised = (self.published("DeepSeek-V3", **sizes) for _ in range(3))
        write(model / "model.safetensors", split)
        self.same(model, whole)
        write(twin / "model.safetensors", plain)
        write(quantised / "model.safetensors", coded)
        self.configure(quantised, quantization={"group_size": 32, "bits": 4})
        self.same(quantised, twin)
        del coded["model.layers.1.self_attn.unembed_out.weight"]
        write(quantised / "model.safetensors", coded)
        refused(self.run(quantised, self.ROWS), 3, "model.layers.1.self_attn", "missing")

    def configure(self, model, **members):
        path = model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **members}))

    def check_mlx_keeps_the_experts_of_gpt_oss_apart(self):
        """mlx_lm: experts.{gate,up,down}_proj.{weight,scales,bias} [experts, outputs, ..], here with router and attention in 8 bits."""
        twin, model = self.published("gpt-oss-20b-bf16"), self.published("gpt-oss-20b-bf16")
        experts, hidden, inner, rng = 4, 64, 64, random.Random(6)
        plain, coded, single = {}, {}, {"group_size": 32, "bits": 4, "mode": "mxfp4"}
        for name, (dtype, shape, raw) in read(twin / "model.safetensors").items():
            stem = name.removesuffix(".weight")
            if name.endswith(("gate_up_proj_bias", "gate_up_proj", "down_proj", "down_proj_bias")):
                continue
            plain[name] = coded[name] = (dtype, shape, raw)
            if len(shape) == 2 and ("self_attn" in name or "router" in name or "embed" in name):
                parts, values = Mlx(8, 64).make(stem, *shape, rng)
                del coded[name]
                coded |= parts
                plain[name] = ("F32", shape, values.tobytes())
                single[stem] = {"group_size": 64, "bits": 8}
        for layer in range(4):
            at, made = f"model.layers.{layer}.mlp.experts", {}
            for part, rows, columns in (("gate_proj", inner, hidden), ("up_proj", inner, hidden), ("down_proj", hidden, inner)):
                parts, values = Mxfp4().make(f"{at}.{part}", experts * rows, columns, rng)
                coded |= {key: (kind, [experts, rows, shape[1]], data) for key, (kind, shape, data) in parts.items()}
                made[part] = values, array("f", (rng.uniform(-0.3, 0.3) for _ in range(experts * rows)))
                coded[f"{at}.{part}.bias"] = ("F32", [experts, rows], made[part][1].tobytes())
            value = lambda part, e, row, column, columns: made[part][0][(e * inner + row) * columns + column]
            both = array("f", (value(("gate_proj", "up_proj")[i % 2], e, i // 2, h, hidden)
                               for e in range(experts) for h in range(hidden) for i in range(2 * inner)))
            bias = array("f", (made[("gate_proj", "up_proj")[i % 2]][1][e * inner + i // 2] for e in range(experts) for i in range(2 * inner)))
            down = array("f", (made["down_proj"][0][(e * hidden + h) * inner + i]
                               for e in range(experts) for i in range(inner) for h in range(hidden)))
            plain |= {f"{at}.gate_up_proj": ("F32", [experts, hidden, 2 * inner], both.tobytes()),
                      f"{at}.gate_up_proj_bias": ("F32", [experts, 2 * inner], bias.tobytes()),
                      f"{at}.down_proj": ("F32", [experts, inner, hidden], down.tobytes()),
                      f"{at}.down_proj_bias": ("F32", [experts, hidden], made["down_proj"][1].tobytes())}
        write(twin / "model.safetensors", plain)
        write(model / "model.safetensors", coded)
        self.configure(model, quantization=single, quantization_config=single)
        self.same(model, twin)


if __name__ == "__main__":
    main(Published)
