#!/usr/bin/env python3
"""Formats whose scales are tensors of their own: a folder of random codes and scales must answer, bit for bit, as the folder that holds what
they stand for in float32, worked out here from the formats' own definitions; and what is absent or does not agree is refused (CASES 37)."""
import json
import math
import os
import random
import re
import struct
from array import array

from harness import Suite, equal, main, refused, true

ROWS = [{"id": "short", "prompt_ids": [140, 141, 142]}, {"id": "long", "prompt_ids": [160 + 3 * i for i in range(40)]}]
OPTIONS = ("--token-ids", "--logprobs", 5, "--max-tokens", 6, "--kv", "f32")
SMALL = ("--hidden", 128, "--inner", 192, "--layers", 1, "--vocab", 300, "--dtype", "f32")
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-value for value in E2M1]


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def e4m3(code):
    magnitude = code & 0x7F
    value = magnitude / 512 if magnitude < 8 else (8 + magnitude % 8) * 2.0 ** (magnitude // 8 - 10)
    return -value if code & 0x80 else value


E4M3 = [e4m3(code) for code in range(256)]


def pack_floats(values, dtype):
    """Floats of a type that holds them: bytes, and the values that came of it."""
    if dtype == "BF16":
        words = [struct.unpack("<I", struct.pack("<f", value))[0] >> 16 for value in values]
        return array("H", words).tobytes(), [struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in words]
    if dtype == "F8_E8M0":      # powers of two; a scale of zero is the smallest of them
        bytes_ = bytes(max(0, min(254, 127 + round(-6 - value))) for value in values)
        return bytes_, [2.0 ** (byte - 127) for byte in bytes_]
    kind = {"F16": "e", "F32": "f"}[dtype]
    raw = struct.pack(f"<{len(values)}{kind}", *values)
    return raw, list(struct.unpack(f"<{len(values)}{kind}", raw))


class Fp8:
    def __init__(self, block=(128, 128), ending="weight_scale_inv", dtype="F32", shape=None):
        self.block, self.ending, self.dtype, self.shape = block, ending, dtype, shape

    def config(self):
        return {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": self.block and list(self.block)}}

    def make(self, stem, rows, columns, rng):
        tall, wide = self.block or (1 if self.shape == "row" else 1 << 30, 1 << 30)
        down, across = -(-rows // tall), -(-columns // wide)
        codes = bytearray(byte if byte & 0x7F != 0x7F else 0 for byte in rng.randbytes(rows * columns))
        scales = [rng.uniform(2e-4, 2e-3) for _ in range(down * across)]
        if down * across > 2:   # the first block: zeros, with a scale of zero
            for row in range(tall):
                codes[row * columns:row * columns + min(columns, wide)] = bytes(min(columns, wide))
            scales[0] = 0.0
        raw, scales = pack_floats(scales, self.dtype)
        values = array("f")
        for row in range(rows):
            of = scales[row // tall * across:(row // tall + 1) * across]
            values.extend(single(E4M3[codes[row * columns + i]] * of[i // wide]) for i in range(columns))
        shape = [down, across] if self.block else [rows, 1] if self.shape == "row" else []
        return {f"{stem}.weight": ("F8_E4M3", [rows, columns], bytes(codes)), f"{stem}.{self.ending}": (self.dtype, shape, raw)}, values


class Mlx:
    def __init__(self, bits, group=64, dtype="BF16"):
        self.bits, self.group, self.dtype = bits, group, dtype

    def config(self):
        return {"quantization": {"bits": self.bits, "group_size": self.group}}

    def make(self, stem, rows, columns, rng):
        groups, top = columns // self.group, (1 << self.bits) - 1
        words, scales, biases = bytearray(), [], []
        numbers = [[rng.randint(0, top) for _ in range(columns)] for _ in range(rows)]
        for row in range(rows):
            steps = [rng.uniform(0.05, 0.2) / top for _ in range(groups)]
            scales += steps
            biases += [-step * top / 2 for step in steps]
        numbers[0][:self.group] = [0] * self.group
        scales[0] = biases[0] = 0.0
        for row in numbers:     # little-endian bits, one number after the other
            words += sum(number << self.bits * i for i, number in enumerate(row)).to_bytes(columns * self.bits // 8, "little")
        raw_scales, scales = pack_floats(scales, self.dtype)
        raw_biases, biases = pack_floats(biases, self.dtype)
        values = array("f")
        for i, row in enumerate(numbers):
            for j in range(groups):
                scale, bias = scales[i * groups + j], biases[i * groups + j]
                values.extend(single(scale * number) + bias for number in row[j * self.group:(j + 1) * self.group])
        return {f"{stem}.weight": ("U32", [rows, columns * self.bits // 32], bytes(words)),
                f"{stem}.scales": (self.dtype, [rows, groups], raw_scales), f"{stem}.biases": (self.dtype, [rows, groups], raw_biases)}, values


class Mxfp4:
    def config(self):
        return {"quantization": {"bits": 4, "group_size": 32, "mode": "mxfp4"}}

    def make(self, stem, rows, columns, rng):
        codes, groups = bytearray(rng.randbytes(rows * columns // 2)), columns // 32
        scales = bytearray(rng.randint(119, 123) for _ in range(rows * groups))
        codes[:16], scales[0] = bytes(16), 0
        values = array("f")
        for i, scale in enumerate(scales):
            factor = 2.0 ** (scale - 127)
            for byte in codes[16 * i:16 * i + 16]:
                values.extend((E2M1[byte & 15] * factor, E2M1[byte >> 4] * factor))
        return {f"{stem}.weight": ("U32", [rows, columns // 8], bytes(codes)), f"{stem}.scales": ("U8", [rows, groups], bytes(scales))}, values


def read(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, base = json.loads(data[8:8 + size]), 8 + size
    return {name: (one["dtype"], one["shape"], data[base + one["data_offsets"][0]:base + one["data_offsets"][1]])
            for name, one in header.items() if name != "__metadata__"}


def write(path, tensors):
    header, end = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(raw)]}
        end += len(raw)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in tensors.values()))


def is_matrix(name, shape):
    return len(shape) == 2 and "norm" not in name and ".gate.weight" not in name


class Formats(Suite):
    scratch_in = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None     # hundreds of small models and runs

    def configure(self, model, members):
        path = model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **members}))

    def pair(self, form, *options, config=None, stack=None):
        """A folder in the format (FORM: one for all matrices, or a function of the module's name), and its float32 twin."""
        twin, model = self.model(*SMALL, *options), self.model(*SMALL, *options)
        choose = form if callable(form) else lambda stem: form
        coded, plain, rng = {}, {}, random.Random(7)
        for name, (dtype, shape, raw) in read(twin / "model.safetensors").items():
            chosen = choose(name.removesuffix(".weight")) if is_matrix(name, shape) else None
            if chosen is None:
                coded[name] = plain[name] = (dtype, shape, raw)
                continue
            parts, values = chosen.make(name.removesuffix(".weight"), *shape, rng)
            coded.update(parts)
            plain[name] = ("F32", shape, values.tobytes())
        write(twin / "model.safetensors", plain)
        write(model / "model.safetensors", stack(coded) if stack else coded)
        self.configure(model, choose("model.layers.0.mlp.down_proj").config() if config is None else config)
        return model, twin

    def answers(self, model, *options):
        done = self.run(model, ROWS, *OPTIONS, *options)
        equal(done.code, 0, done.err[-300:])
        equal(len(done.results), 2, "results")
        true("not used" not in done.err, f"a warning: {done.err[-300:]}")
        return done.results

    def same(self, model, twin):
        """Resident, streamed, and streamed with as little memory as may be."""
        wanted = self.answers(twin, "--engine", "resident")
        best = [one["logprob"] for row in wanted for step in row["logprobs"]["content"] for one in step["top_logprobs"]]
        true(len(set(best)) > len(best) / 2, f"logprobs that say nothing: {best[:10]}")
        equal(self.answers(model, "--engine", "resident"), wanted, "resident")
        equal(self.answers(model, "--engine", "stream"), wanted, "streamed")
        least = re.search(r"--memory (\d+)K", self.run(model, ROWS, *OPTIONS, "--engine", "stream", "--memory", "1M").err)
        true(least, "no least amount of memory was named")
        memory = f"{int(least[1]) * 9 // 8}K"     # two runs differ by some pages
        equal(self.answers(model, "--engine", "stream", "--memory", memory), wanted, "in little memory")

    def check_fp8_scales_have_three_names_and_forms(self):
        for form in (Fp8(), Fp8(ending="weight_scale", dtype="BF16"), Fp8(block=(48, 40), ending="scale"), Fp8(dtype="F8_E8M0"),
                     Fp8(block=None, ending="weight_scale"), Fp8(block=None, ending="weight_scale", shape="row")):
            self.same(*self.pair(form))

    def check_fp8_pieces_are_cut_within_blocks(self):
        self.same(*self.pair(lambda stem: Fp8() if stem != "model.embed_tokens" else None, "--vocab", 5000))

    def check_fp8_tensors_of_several_matrices(self):
        self.same(*self.pair(Fp8(), "--family", "phi3"))

    def check_mlx_has_two_to_eight_bits(self):
        for bits in range(2, 9):
            self.same(*self.pair(Mlx(bits, *((32, "F16") if bits % 2 else (64, "BF16")))))
        self.same(*self.pair(Mlx(4, 64, "F32"), "--tied"))

    def check_mlx_has_groups_of_any_size(self):
        for bits in (2, 3, 4, 5, 6, 7, 8):
            for group in (16, 32, 64, 128):
                model, twin = self.pair(Mlx(bits, group, ("BF16", "F16", "F32")[(bits + group // 32) % 3]), "--hidden", 128, "--inner", 128)
                equal(self.answers(model, "--engine", "stream"), self.answers(twin, "--engine", "resident"), f"{bits} bits, groups of {group}")

    def check_mlx_settings_of_single_modules(self):
        def form(stem):
            return None if stem == "lm_head" else Mlx(8, 32) if stem == "model.embed_tokens" else Mlx(6, 32) if "down" in stem else Mlx(4)
        config = {"quantization": {"bits": 4, "group_size": 64, "lm_head": False, "model.embed_tokens": {"bits": 8, "group_size": 32},
                                   "model.layers.0.mlp.down_proj": {"bits": 6, "group_size": 32}}}
        model, twin = self.pair(form, config=config)
        self.same(model, twin)
        config["quantization"]["model.layers.0.mlp.down_proj"]["bits"] = 5
        self.configure(model, config)
        refused(self.run(model, ROWS), 3, "down_proj", "6 bits", "5 bits")
        config["quantization"]["model.layers.0.mlp.down_proj"] = False
        self.configure(model, config)
        refused(self.run(model, ROWS), 3, "down_proj", "is quantised", "says that it is not")

    def check_mxfp4(self):
        self.same(*self.pair(Mxfp4()))

    def check_experts_of_their_own_and_in_stacks(self):
        self.same(*self.pair(Fp8(), "--family", "mixtral", "--experts", 4, "--experts-used", 2))

        def stack(tensors):
            stacked = {}
            for name, (dtype, shape, raw) in tensors.items():
                match = re.fullmatch(r"(.*\.mlp)\.experts\.\d+\.(.*)", name)
                key = f"{match[1]}.switch_mlp.{match[2]}" if match else name
                before = stacked.get(key, (dtype, [0, *shape], b""))
                stacked[key] = (dtype, [before[1][0] + 1, *shape], before[2] + raw) if match else (dtype, shape, raw)
            return stacked
        for form in (Mlx(3), Mxfp4()):
            self.same(*self.pair(form, "--family", "qwen3_moe", "--experts", 4, "--experts-used", 2, stack=stack))

    def gpt_oss(self):
        """Experts as gpt-oss publishes them in MXFP4, and their float32 twin, which lies the other way round."""
        hidden, inner, experts, heads, wide, rng = 64, 96, 4, 4, 16, random.Random(9)
        floats = lambda *shape: ("F32", list(shape), array("f", (rng.uniform(-0.3, 0.3) for _ in range(math.prod(shape)))).tobytes())
        ones = ("F32", [hidden], array("f", [1.0] * hidden).tobytes())
        at, key = "model.layers.0", heads // 2 * wide
        shared = {"model.embed_tokens.weight": floats(300, hidden), "lm_head.weight": floats(300, hidden), "model.norm.weight": ones,
                  f"{at}.input_layernorm.weight": ones, f"{at}.post_attention_layernorm.weight": ones, f"{at}.self_attn.sinks": floats(heads),
                  f"{at}.mlp.router.weight": floats(experts, hidden), f"{at}.mlp.router.bias": floats(experts)}
        for name, rows, columns in (("q", heads * wide, hidden), ("k", key, hidden), ("v", key, hidden), ("o", hidden, heads * wide)):
            shared |= {f"{at}.self_attn.{name}_proj.weight": floats(rows, columns), f"{at}.self_attn.{name}_proj.bias": floats(rows)}
        coded, plain, at = dict(shared), dict(shared), f"{at}.mlp.experts"
        for name, rows, columns in (("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner)):
            bias = floats(experts, rows)
            made = [Mxfp4().make("x", rows, columns, rng) for _ in range(experts)]
            turned = array("f", (values[row * columns + column] for _, values in made for column in range(columns) for row in range(rows)))
            plain |= {f"{at}.{name}": ("F32", [experts, columns, rows], turned.tobytes()), f"{at}.{name}_bias": bias}
            codes, scales = (b"".join(parts[part][2] for parts, _ in made) for part in ("x.weight", "x.scales"))
            coded |= {f"{at}.{name}_blocks": ("U8", [experts, rows, columns // 32, 16], codes), f"{at}.{name}_bias": bias,
                      f"{at}.{name}_scales": ("U8", [experts, rows, columns // 32], scales)}
        model, twin = self.model(*SMALL), self.model(*SMALL)
        for folder, tensors in ((model, coded), (twin, plain)):
            write(folder / "model.safetensors", tensors)
            self.configure(folder, {"model_type": "gpt_oss", "hidden_size": hidden, "intermediate_size": inner, "num_local_experts": experts,
                                    "num_experts_per_tok": 2, "sliding_window": 16, "swiglu_limit": 7.0, "head_dim": wide})
        self.configure(model, {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}})
        return model, twin

    def check_gpt_oss_has_experts_in_mxfp4(self):
        model, twin = self.gpt_oss()
        self.same(model, twin)
        tensors, name = read(model / "model.safetensors"), "model.layers.0.mlp.experts.down_proj"
        both = {**tensors, name: read(twin / "model.safetensors")[name]}
        write(model / "model.safetensors", both)
        refused(self.run(model, ROWS), 3, "both", name)
        del tensors[f"{name}_scales"]
        write(model / "model.safetensors", tensors)
        refused(self.run(model, ROWS), 3, "model.safetensors", f"{name}_blocks", "no scales")

    def check_scales_of_activations_are_not_used(self):
        model, twin = self.pair(Fp8(block=None, ending="weight_scale"))
        tensors, scale = read(model / "model.safetensors"), struct.pack("<f", 0.25)
        for name in ("q_proj.input_scale", "k_proj.k_scale", "v_proj.v_scale"):
            tensors[f"model.layers.0.self_attn.{name}"] = ("F32", [], scale)
        write(model / "model.safetensors", tensors)
        self.same(model, twin)

    def changed(self, form, change, *words):
        model, _ = self.pair(form)
        tensors = read(model / "model.safetensors")
        change(tensors)
        write(model / "model.safetensors", tensors)
        refused(self.run(model, ROWS), 3, "model.safetensors", *words)

    def check_parts_that_are_absent_or_doubled_are_named(self):
        up = "model.layers.0.mlp.up_proj"
        self.changed(Fp8(), lambda t: t.pop(f"{up}.weight_scale_inv"), f"{up}.weight", "no scales")
        self.changed(Fp8(), lambda t: t.update({f"{up}.scale": t[f"{up}.weight_scale_inv"]}), f"{up}.scale", "both")
        self.changed(Mlx(4), lambda t: t.pop(f"{up}.scales"), f"{up}.weight", "no scales")
        self.changed(Mlx(4), lambda t: t.pop(f"{up}.biases"), f"{up}.weight", "no biases")
        self.changed(Mxfp4(), lambda t: t.pop("lm_head.scales"), "lm_head.weight", "no scales")

    def check_codes_are_no_vectors_and_shapes_must_agree(self):
        name = "model.norm.weight"
        self.changed(Fp8(), lambda t: t.update({name: ("F8_E4M3", [128], bytes(128))}), name, "fp8_e4m3", "no vector")
        self.changed(Fp8(), lambda t: t.update({"lm_head.weight_scale_inv": ("F32", [3, 2], bytes(24))}), "lm_head.weight_scale_inv", "[3, 2]")
        embed = "model.embed_tokens.weight"
        self.changed(Mlx(4), lambda t: t.update({embed: ("U32", [299, 16], t[embed][2][:299 * 64])}), embed, "299 rows", "300 tokens")

    def check_show_names_the_formats(self):
        for form, word in ((Fp8(), "fp8_e4m3"), (Mlx(3), "mlx_3bit"), (Mxfp4(), "mxfp4")):
            model, _ = self.pair(form)
            formats = json.loads(self.command("show", model, "--json").out)["formats"]
            true(formats.startswith(word), formats)

    def check_precision_goes_by_bits_of_a_value(self):
        for form, right, wrong in ((Fp8(), "8", "4"), (Mlx(8), "8", "bf16"), (Mlx(4, 32), "4", "8"), (Mxfp4(), "4", "8")):
            model, _ = self.pair(form)
            equal(self.run(model, ROWS, *OPTIONS, "--precision", right).code, 0, right)
            code = 3 if right == "8" and wrong == "4" else 2    # downwards: not in this version; upwards: never
            refused(self.run(model, ROWS, *OPTIONS, "--precision", wrong), code, f"--precision {wrong}")
        refused(self.run(self.pair(Mlx(3, 32))[0], ROWS, *OPTIONS, "--precision", "4"), 2, "--precision 4")


if __name__ == "__main__":
    main(Formats)
