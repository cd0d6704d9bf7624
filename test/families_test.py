#!/usr/bin/env python3
"""Every family of tools/make_model.py, as a folder and as a GGUF file of the same numbers: the answers do not depend on the engine, to the last byte,
nor on the container. What the numbers should be, src/model/families_*_test.c checks."""
import json
import os
import re
import subprocess
import sys

from formats_test import read, write
from harness import ROOT, Suite, equal, main, true

# The second prompt is longer than the windows (16) and than the positions that longrope is trained for (32).
ROWS = [{"id": "short", "prompt_ids": [140, 141, 142]}, {"id": "long", "prompt_ids": [140 + 37 * i % 150 for i in range(44)]}]
# Kernels and keys that round no activation: what differs between containers is the order of a few sums.
OPTIONS = ("--token-ids", "--logprobs", 3, "--max-tokens", 6, "--ignore-eos", "--kv", "f32", "--kernels", "portable")
SMALL = ("--hidden", 64, "--inner", 64, "--layers", 4, "--vocab", 300, "--scale", "0.1")
FAMILIES = [line.split()[0] for line in subprocess.run([sys.executable, ROOT / "tools/make_model.py", "--list"], check=True, capture_output=True,
                                                       text=True).stdout.splitlines()]


def values(results):
    """Tokens, and the logprobs beside them."""
    steps = [step for row in results for step in row["logprobs"]["content"]]
    return [row["token_ids"] for row in results], [one["logprob"] for step in steps for one in step["top_logprobs"]]


class Families(Suite):
    scratch_in = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None     # many small models and runs

    def answers(self, model, *options):
        done = self.run(model, ROWS, *OPTIONS, *options)
        equal((done.code, len(done.results)), (0, 2), done.err[-300:])
        true("not used" not in done.err, f"a warning: {done.err[-300:]}")
        return done

    def same_in_both_engines(self, model):
        """The results of the resident engine, which the streaming one gives too, with as little memory as may be."""
        resident = self.answers(model, "--engine", "resident")
        small = self.answers(model, "--engine", "stream", "--batch", 1, "--pass-tokens", 7, "--threads", 1)
        equal(small.bytes, resident.bytes, "streamed, in small passes")
        least = re.search(r"--memory (\d+)K", self.run(model, ROWS, *OPTIONS, "--engine", "stream", "--memory", "1M").err)
        true(least, "no least amount of memory was named")
        streamed = self.answers(model, "--engine", "stream", "--memory", f"{int(least[1]) * 9 // 8}K")     # two runs differ by some pages
        equal(streamed.bytes, resident.bytes, "streamed")
        _, best = values(resident.results)
        true(len(set(best)) > len(best) / 2, f"logprobs that say nothing: {best[:10]}")
        return resident.results

    def same_in_both_containers(self, *options):
        folder, file = (self.model(*SMALL, *options, name=name) for name in ("model", "model.gguf"))
        tokens, best = values(self.same_in_both_engines(folder))
        others, same = values(self.same_in_both_engines(file))
        equal(others, tokens, "tokens of the GGUF file")
        # Permuted rows have their products summed in another order, and GGUF has some factors in float32.
        far = max(abs(a - b) for a, b in zip(best, same))
        true(far < 1e-5, f"logprobs of folder and GGUF file differ by {far}")

    def check_every_family_of_the_program_is_made(self):
        other = self.model()
        (other / "config.json").write_text((other / "config.json").read_text().replace('"llama"', '"nothing"'))
        there = re.search(r"there is: (.*)\)", self.command("show", other).err)[1].split(", ")
        made = {json.loads(self.command("show", self.model("--family", name), "--json").out)["family"] for name in FAMILIES}
        equal(made, set(there))

    def check_deepseek_without_compressed_queries(self):
        self.same_in_both_containers("--family", "deepseek_v3", "--q-rank", 0, "--kv-heads", 4)

    def check_other_types_and_shapes(self):
        self.same_in_both_containers("--family", "qwen2_moe", "--dtype", "f32", "--experts", 5, "--experts-used", 3, "--expert-inner", 32)
        self.same_in_both_containers("--family", "gpt_oss", "--dtype", "f16", "--experts", 4, "--heads", 8, "--head-dim", 16)
        self.same_in_both_containers("--family", "glm4_moe", "--dtype", "f16", "--tied", "--kv-heads", 1, "--experts", 6, "--experts-used", 4)

    def check_published_folder_of_qwen3_5(self):
        """The text model inside a multimodal one, gate and up of all experts in one stack, and tensors that predict further tokens."""
        folder = self.model(*SMALL, "--family", "qwen3_5_moe_text", "--experts", 4)
        wanted = self.same_in_both_engines(folder)
        made, config = read(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
        stacks, others = {}, {}
        for name, (dtype, shape, raw) in made.items():
            at = re.fullmatch(r"(model.layers.\d+.mlp.experts.)(\d+).(gate|up|down)_proj.weight", name)
            if at:
                stacks.setdefault(at[1], {})[at[3], int(at[2])] = (dtype, shape, raw)
            else:
                others[name.replace("model.", "model.language_model.", 1)] = (dtype, shape, raw)
        for at, parts in stacks.items():
            both = b"".join(parts[kind, expert][2] for expert in range(4) for kind in ("gate", "up"))
            (dtype, (inner, hidden), _), at = parts["gate", 0], at.replace("model.", "model.language_model.", 1)
            others[at + "gate_up_proj"] = (dtype, [4, 2 * inner, hidden], both)
            others[at + "down_proj"] = (dtype, [4, hidden, inner], b"".join(parts["down", expert][2] for expert in range(4)))
        for name in ("mtp.fc.weight", "mtp.layers.0.mlp.gate.weight", "model.visual.merger.norm.weight"):
            others[name] = ("BF16", [2, 2], bytes(8))
        write(folder / "model.safetensors", others)
        text = {**config, "mtp_num_hidden_layers": 1, "attn_output_gate": True, "mamba_ssm_dtype": "float32", "rope_parameters":
                dict(rope_type="default", rope_theta=config.pop("rope_theta"), partial_rotary_factor=0.25, mrope_section=[1, 1, 0],
                     mrope_interleaved=True)}
        whole = dict(architectures=["Qwen3_5MoeForConditionalGeneration"], model_type="qwen3_5_moe", text_config=text, image_token_id=7,
                     vision_config=dict(model_type="qwen3_5_moe", depth=2), tie_word_embeddings=False)
        (folder / "config.json").write_text(json.dumps(whole))
        equal(self.same_in_both_engines(folder), wanted)
        shown = json.loads(self.command("show", folder, "--json").out)
        equal((shown["family"], shown["settings"]["other_tensors_unused"], shown["settings"]["predict_layers_unused"]), ("qwen35moe", 1, 1))

    def check_quantised_stacks_of_experts(self):
        for family, dtype in (("gpt_oss", "q8_0"), ("deepseek_v3", "q4_0"), ("qwen2_moe", "q4_1"), ("qwen3_5_moe_text", "q8_0")):
            wide = ("--head-dim", 32, "--kv-rank", 32, "--delta-dim", 32)
            self.same_in_both_engines(self.model(*SMALL, "--family", family, "--dtype", dtype, *wide, name="model.gguf"))


def check_of(family):
    return lambda suite: suite.same_in_both_containers("--family", family)


for name in FAMILIES:
    setattr(Families, f"check_family_{name}", check_of(name))

if __name__ == "__main__":
    main(Families)
