#!/usr/bin/env python3
"""The configs that models of 2025 and 2026 are published with, their sizes made small: what they mean is understood, text parts of multimodal models
run under their prefixes, and `show` says every setting. Each entry of MODELS is a published config.json but for sizes; weights are random."""
import gzip
import json
import os
import struct
from pathlib import Path

from harness import ROOT, PublishedSuite, Skip, equal, main, refused, true

TEMPLATES = Path(os.environ.get("SLUICE_SHARED", ROOT.parent / "shared")) / "fixtures/templates"
# Of families whose published template lies among the fixtures.
TEMPLATE_OF = {"qwen3_5_text": "Qwen3.5-4B", "gemma4_text": "google-gemma-4-31B-it", "minimax_m2": "MiniMax-M2", "seed_oss": "ByteDance-Seed-OSS"}
TEMPLATE_BOS = "<BOS>"   # what they were rendered with

SMALL = ("--hidden", 64, "--inner", 96, "--layers", 4, "--vocab", 300, "--scale", "0.1", "--experts", 4, "--expert-inner", 32)
# What a published config has and the model made here decides.
SIZES = """hidden_size intermediate_size intermediate_size_mlp moe_intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
    vocab_size vocab_size_per_layer_input hidden_size_per_layer_input num_local_experts num_experts num_experts_per_tok top_k_experts layer_types
    global_head_dim num_global_key_value_heads num_kv_shared_layers rotary_dim tie_word_embeddings""".split()
USUAL = dict(attention_dropout=0.0, initializer_range=0.02, use_cache=True, dtype="bfloat16")
LLAMA3 = dict(rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=1.0, original_max_position_embeddings=8192)
GEMMA4 = dict(USUAL, model_type="gemma4_text", attention_bias=False, bos_token_id=2, eos_token_id=1, final_logit_softcapping=30.0,
              hidden_activation="gelu_pytorch_tanh", max_position_embeddings=131072, pad_token_id=0, rms_norm_eps=1e-06, sliding_window=512,
              rope_parameters=dict(full_attention=dict(partial_rotary_factor=0.25, rope_theta=1000000.0, rope_type="proportional"),
                                   sliding_attention=dict(rope_theta=10000.0, rope_type="default")))
GEMMA4_WHOLE = dict(model_type="gemma4", architectures=["Gemma4ForConditionalGeneration"], audio_token_id=258881, boa_token_id=256000,
                    boi_token_id=255999, image_token_id=258880, eos_token_id=[1, 106], vision_soft_tokens_per_image=280,
                    audio_config=dict(model_type="gemma4_audio"), vision_config=dict(model_type="gemma4_vision", hidden_size=768))
# name: (family of make_model, members of the text model, those around it or None, its prefix, what show --json must say)
MODELS = {
    "gemma-4-E2B-it": ("gemma4_text", dict(
        GEMMA4, attention_k_eq_v=False, enable_moe_block=False, expert_intermediate_size=None, num_experts=None, top_k_experts=None,
        num_global_key_value_heads=None, use_bidirectional_attention=None, use_double_wide_mlp=True), GEMMA4_WHOLE, "model.language_model.",
        {"family": "gemma4", "context": 131072, ".rope": "proportional", ".rope_share": 0.25, ".rope_theta": 1000000.0, ".window": 512,
         ".windowed_layers": 2, ".window_rope_theta": 10000.0, ".logit_cap": 30.0, ".layer_input": 32, ".layers_sharing_keys": 2,
         ".wide_layers": 2, ".wide_inner": 192, ".whole_head_dim": 32, "head_dim": 16, ".score_scale": 1.0, ".embed_scale": 8.0}),
    "gemma-4-26B-A4B-it": ("gemma4_experts", dict(
        GEMMA4, attention_k_eq_v=True, enable_moe_block=True, use_bidirectional_attention="vision", use_double_wide_mlp=False, sliding_window=1024,
        max_position_embeddings=262144), GEMMA4_WHOLE, "model.language_model.",
        {"family": "gemma4", ".experts": 4, ".experts_used": 2, ".expert_inner": 32, ".shared_inner": 96, ".experts_normalised": True,
         ".layers_with_values_of_keys": 2, ".whole_kv_heads": 1, "kv_heads": 2, ".window": 1024}),
    "MiniMax-M2": ("minimax_m2", dict(
        USUAL, model_type="minimax_m2", architectures=["MiniMaxM2ForCausalLM"], attn_type_list=[1] * 4, hidden_act="silu",
        max_position_embeddings=196608, mlp_intermediate_size=8192, mtp_transformer_layers=1, num_mtp_modules=3, qk_norm_type="per_layer",
        rms_norm_eps=1e-06, rope_theta=5000000, scoring_func="sigmoid", shared_intermediate_size=0, sliding_window=None, use_mtp=True,
        use_qk_norm=True, use_routing_bias=True), None, "model.",
        {"family": "minimax-m2", ".rotary": 8, ".rope_theta": 5000000.0, ".experts_score": "sigmoid", ".experts_sum_to_one": True,
         ".qk_norm": True, ".window": 0}),
    "Llama-4-Scout-17B-16E": ("llama4_text", dict(
        USUAL, model_type="llama4_text", attention_bias=False, attention_chunk_size=8192, attn_scale=0.1, attn_temperature_tuning=4, bos_token_id=200000,
        eos_token_id=[200001, 200007, 200008], floor_scale=8192, for_llm_compressor=False, hidden_act="silu", interleave_moe_layer_step=2,
        max_position_embeddings=10485760, no_rope_layers=[], output_router_logits=False, pad_token_id=200018, rms_norm_eps=1e-05,
        rope_scaling=LLAMA3, rope_theta=500000.0, router_aux_loss_coef=0.001, router_jitter_noise=0.0, use_qk_norm=True),
        dict(model_type="llama4", architectures=["Llama4ForConditionalGeneration"], boi_token_index=200080, eoi_token_index=200081,
             image_token_index=200092, vision_config=dict(model_type="llama4_vision_model", hidden_size=1408)), "language_model.model.",
        {"family": "llama4", "context": 10485760, ".chunk": 8192, ".chunked_layers": 3, ".layers_without_rope": 1, ".query_growth": 0.1,
         ".query_growth_positions": 8192.0, ".rope": "llama3", ".rope_factor": 16.0, ".dense_layers": 2, ".experts_scale_inputs": True,
         ".qk_norm_without_weights": True, ".experts_score": "sigmoid of the chosen", "inner": None, ".shared_inner": 32}),
    "Ministral-3-8B": ("ministral3", dict(
        USUAL, model_type="ministral3", hidden_act="silu", max_position_embeddings=262144, rms_norm_eps=1e-05, sliding_window=None,
        rope_parameters=dict(beta_fast=32.0, beta_slow=1.0, factor=16.0, llama_4_scaling_beta=0.1, mscale=1.0, mscale_all_dim=1.0,
                             original_max_position_embeddings=16384, rope_theta=1000000.0, rope_type="yarn", type="yarn")),
        dict(model_type="mistral3", architectures=["Mistral3ForConditionalGeneration"], image_token_index=10, multimodal_projector_bias=False,
             projector_hidden_act="gelu", spatial_merge_size=2, vision_feature_layer=-1, vision_config=dict(model_type="pixtral")),
        "language_model.model.",
        {"family": "ministral3", ".rope": "yarn", ".rope_factor": 16.0, ".rope_theta": 1000000.0, ".query_growth": 0.1,
         ".query_growth_positions": 16384.0, ".rope_original_context": 16384.0, ".window": 0}),
    "EXAONE-4.0-32B": ("exaone4", dict(
        USUAL, model_type="exaone4", architectures=["Exaone4ForCausalLM"], bos_token_id=1, eos_token_id=361, hidden_act="silu",
        layer_types=["sliding_attention"] * 3 + ["full_attention"], max_position_embeddings=131072, pad_token_id=0, rms_norm_eps=1e-05,
        rope_scaling=dict(factor=16.0, high_freq_factor=4.0, low_freq_factor=1.0, original_max_position_embeddings=8192, rope_type="llama3"),
        rope_theta=1000000, sliding_window=4096, sliding_window_pattern="LLLG"), None, "model.",
        {"family": "exaone4", ".window": 4096, ".windowed_layers": 3, ".layers_without_rope": 1, ".qk_norm": True, ".rope": "llama3"}),
    "EXAONE-4.0-1.2B": ("exaone4", dict(
        USUAL, model_type="exaone4", hidden_act="silu", layer_types=["full_attention"] * 4, max_position_embeddings=65536, rms_norm_eps=1e-05,
        rope_theta=1000000, rope_scaling=None, sliding_window=None, sliding_window_pattern=None), None, "model.",
        {"family": "exaone4", ".window": 0, ".layers_without_rope": None}),
    "GLM-4-9B-0414": ("glm4", dict(
        USUAL, model_type="glm4", architectures=["Glm4ForCausalLM"], attention_bias=True, eos_token_id=[151329, 151336, 151338], hidden_act="silu",
        max_position_embeddings=32768, pad_token_id=151329, partial_rotary_factor=0.5, rms_norm_eps=1e-05, rope_theta=10000.0), None, "model.",
        {"family": "glm4", ".rotary": 8, ".attention_bias": True}),
    "Seed-OSS-36B": ("seed_oss", dict(
        USUAL, model_type="seed_oss", architectures=["SeedOssForCausalLM"], attention_bias=True, attention_dropout=0.1, attention_out_bias=False,
        hidden_act="silu", max_position_embeddings=524288, mlp_bias=False, pad_token_id=1, residual_dropout=0.1, rms_norm_eps=1e-06,
        rope_scaling=dict(rope_type="default"), rope_theta=10000000.0), None, "model.",
        {"family": "seed_oss", "context": 524288, ".attention_bias": True, ".attention_output_bias": None, ".rope_theta": 10000000.0}),
    "c4ai-command-r7b": ("cohere2", dict(
        USUAL, model_type="cohere2", architectures=["Cohere2ForCausalLM"], attention_bias=False, bos_token_id=5, cache_implementation="hybrid",
        eos_token_id=255001, hidden_act="silu", layer_norm_eps=1e-05, layer_switch=4, logit_scale=0.25, max_position_embeddings=8192,
        order_of_interleaved_layers="local_attn_first", pad_token_id=0, position_embedding_type="rope_gptj", rope_scaling=None, rope_theta=50000,
        rotary_pct=1.0, sliding_window=4096, sliding_window_pattern=4, use_embedding_sharing=True, use_gated_activation=True,
        use_parallel_block=True, use_parallel_embedding=False, use_qk_norm=False), None, "model.",
        {"family": "cohere2", ".window": 4096, ".windowed_layers": 3, ".layers_without_rope": 1, ".parallel": True, ".layer_norm": True,
         ".logit_scale": 0.25}),
}


def renamed(path, prefix):
    """A safetensors file whose text model lies under a prefix, beside a tensor of another part."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    head = prefix.removesuffix("model.") if prefix.startswith("language_model.") else ""
    named = {prefix + name.removeprefix("model.") if name.startswith("model.") else head + name: entry for name, entry in header.items()}
    named["vision_tower.patch.weight"] = dict(dtype="BF16", shape=[4], data_offsets=[len(body), len(body) + 8])
    text = json.dumps(named).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body + bytes(8))


class Recent(PublishedSuite):
    def published(self, name, **changes):
        family, members, whole, prefix, _ = MODELS[name]
        model = self.model(*SMALL, "--family", family)
        made = json.loads((model / "config.json").read_text())
        text = {**{key: made[key] for key in SIZES if key in made}, **members}
        # Of a published config a size counts where the model made here has none.
        text |= {key: made[key] for key in SIZES if key in made and key != "layer_types"} | changes
        if family == "minimax_m2":
            text["intermediate_size"] = made["intermediate_size"]
        if whole:
            renamed(model / "model.safetensors", prefix)
        (model / "config.json").write_text(json.dumps({**whole, "text_config": text} if whole else text))
        (model / "generation_config.json").unlink()
        return model

    def shows_and_runs(self, name):
        model = self.published(name)
        self.shows(model, MODELS[name][4])
        self.runs(model)

    def check_the_second_embedding_of_gemma4_is_not_held(self):
        """Its 300 rows of 4 layers x 32 values are in no block of a pass, nor is the first one; all other matrices are."""
        model = self.published("gemma-4-E2B-it")
        blocks = json.loads(self.command("show", model, "--json").out)["blocks"]
        data = (model / "model.safetensors").read_bytes()
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        matrices = sum(2 * entry["shape"][0] * entry["shape"][1] for name, entry in header.items()
                       if len(entry["shape"]) == 2 and "embed_tokens" not in name)
        equal(sum(block["bytes"] for block in blocks), matrices, "bytes of a pass")

    def check_what_is_not_computed_is_refused(self):
        for name, change, word in (("gemma-4-E2B-it", dict(use_bidirectional_attention="all"), '"all"'),
                                   ("MiniMax-M2", dict(scoring_func="softmax"), "scoring_func"),
                                   ("Llama-4-Scout-17B-16E", dict(layer_types=["sliding_attention"] * 4), "layer_types"),
                                   ("c4ai-command-r7b", dict(use_qk_norm=True), "use_qk_norm")):
            refused(self.command("show", self.published(name, **change)), 3, word)

    def check_chats_run_through_the_published_templates_and_thinking_can_be_switched(self):
        """The answer to a chat is that to the text which jinja2 made of it, with enable_thinking and without."""
        if not TEMPLATES.is_dir():
            raise Skip("no fixtures")
        for family, template in TEMPLATE_OF.items():
            model = self.model(*SMALL, "--family", family)
            (model / "chat_template.jinja").write_bytes((TEMPLATES / f"{template}.jinja").read_bytes())
            with gzip.open(TEMPLATES / f"{template}.jsonl.gz", "rt", encoding="utf-8") as lines:
                cases = [case for case in map(json.loads, lines) if case["add_generation_prompt"] and "rendered" in case
                         and ("enable_thinking" in case.get("kwargs", {}) or case["id"] in ("sys_user/gen", "multi_turn/gen"))]
            true(len(cases) >= 4, f"{template}: {len(cases)} cases")
            texts = b"".join(json.dumps({"text": case["rendered"].replace(TEMPLATE_BOS, "<|begin|>")}).encode() + b"\n" for case in cases)
            ids = [json.loads(line)["ids"] for line in self.command("tokenize", model, stdin=texts).out.splitlines()]
            chats = [dict(id=case["id"], messages=case["messages"], chat_template_kwargs=case.get("kwargs", {})) for case in cases]
            plain = [dict(id=case["id"], prompt_ids=prompt) for case, prompt in zip(cases, ids)]
            answers = []
            for rows in (chats, plain):
                done = self.run(model, rows, *self.OPTIONS)
                equal(done.code, 0, f"{template}: {done.err[-300:]}")
                answers.append([(row["id"], row["token_ids"], row["usage"]["prompt_tokens"]) for row in done.results])
            equal(answers[0], answers[1], template)


def check_of(name):
    return lambda suite: suite.shows_and_runs(name)


for name in MODELS:
    setattr(Recent, f"check_{name}", check_of(name))

if __name__ == "__main__":
    main(Recent)
