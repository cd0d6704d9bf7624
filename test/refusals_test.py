#!/usr/bin/env python3
"""Every kind of bad model: its own sentence that names file, tensor or key and the value seen, exit code 3, and no result."""
import json
import random
import struct
import sys

from formats_test import Fp8, Mlx, Mxfp4, read, write
from harness import Suite, main, refused, true

ROW = [{"id": 1, "prompt_ids": [40, 41]}]
SMALL = ("--hidden", 64, "--inner", 96, "--layers", 2, "--vocab", 300, "--scale", 0.2)
NORM, UP, EMBED = "model.norm.weight", "model.layers.1.mlp.up_proj.weight", "model.embed_tokens.weight"


class Gguf:
    """A GGUF file in parts: keys [(name, type, raw)], tensors [(name, dims, type, offset, raw)], written as they stand."""
    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def __init__(self, path):
        self.path, self.data, self.at, self.version, self.magic = path, path.read_bytes(), 4, 3, b"GGUF"
        _, count, keys = self.take("<IQQ")
        self.keys, self.tensors, self.tail = [], [], b""
        for _ in range(keys):
            name, kind = self.text(), self.take("<I")[0]
            start = self.at
            self.skip(kind)
            self.keys.append([name, kind, self.data[start:self.at]])
        for _ in range(count):
            name, dims = self.text(), self.take("<I")[0]
            shape = list(self.take(f"<{dims}Q"))
            self.tensors.append([name, shape, *self.take("<IQ")])
        self.body = self.data[-(-self.at // 32) * 32:]

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self):
        size = self.take("<Q")[0]
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            item, count = self.take("<IQ")
            for _ in range(count):
                self.skip(item)
        else:
            self.at += self.SIZES[kind]

    def key(self, name, kind, raw):
        """Sets a key; raw None takes it away."""
        self.keys = [key for key in self.keys if key[0] != name] + ([[name, kind, raw]] if raw is not None else [])

    def tensor(self, name):
        return next(tensor for tensor in self.tensors if tensor[0] == name)

    def write(self):
        text = lambda value: struct.pack("<Q", len(value.encode())) + value.encode()
        head = struct.pack("<4sIQQ", self.magic, self.version, len(self.tensors), len(self.keys))
        head += b"".join(text(name) + struct.pack("<I", kind) + raw for name, kind, raw in self.keys)
        head += b"".join(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at) for name, shape, kind, at in self.tensors)
        self.path.write_bytes(head + bytes(-len(head) % 32) + self.body)


u32 = lambda value: struct.pack("<I", value)
f32 = lambda value: struct.pack("<f", value)
gguf_text = lambda value: struct.pack("<Q", len(value)) + value.encode()


class Refusals(Suite):
    def broken(self, model, *words):
        out = self.folder() / "out.jsonl"
        done = self.run(model, ROW, out=out)
        refused(done, 3, *words)
        true(not out.exists() or out.stat().st_size == 0, "results were written")
        errors = [line for line in done.err.splitlines() if line.startswith("sluice: ") and all(word in line for word in words)]
        true(len(errors) == 1 and len(errors[0]) < 600, f"not one sentence: {done.err!r}")
        refused(self.command("show", model), 3, *words)
        if self.verbose:
            print("   ", errors[0].split("/model", 1)[-1])

    verbose = False

    def folders(self, cases, *options):
        """CASES: (change of the dict of tensors, words)."""
        for change, *words in cases:
            model = self.model(*SMALL, *options)
            tensors = read(model / "model.safetensors")
            change(tensors)
            write(model / "model.safetensors", tensors)
            self.broken(model, "model.safetensors", *words)

    def configs(self, cases, *options):
        for change, *words in cases:
            model = self.model(*SMALL, *options)
            path = model / "config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
            self.broken(model, *words)

    def check_types_that_weights_do_not_have_are_named(self):
        zeros = lambda dtype, shape, size: (dtype, shape, bytes(size))
        self.folders([(lambda t: t.update({UP: zeros("I64", [96, 64], 8 * 96 * 64)}), UP, "I64", "not supported"),
                      (lambda t: t.update({UP: zeros("F8_E5M2", [96, 64], 96 * 64)}), UP, "F8_E5M2", "not supported"),
                      (lambda t: t.update({UP: zeros("BOOL", [96, 64], 96 * 64)}), UP, "BOOL", "not supported"),
                      (lambda t: t.update({UP: zeros("U8", [96, 64], 96 * 64)}), UP, "u8"),
                      (lambda t: t.update({UP: zeros("F64", [96, 64], 8 * 96 * 64)}), UP, "F64", "not supported"),
                      (lambda t: t.update({NORM: zeros("U32", [64], 256)}), NORM, "u32"),
                      (lambda t: t.update({UP: zeros("F99", [96, 64], 96 * 64)}), UP, "F99", "not known")])

    def check_shapes_that_are_not_the_configs_are_named_with_both(self):
        cut = lambda name, shape, size: lambda t: t.update({name: (t[name][0], shape, t[name][2][:size])})
        self.folders([(cut(UP, [95, 64], 2 * 95 * 64), UP, "[95, 64]", "[96, 64]"),
                      (cut(UP, [64, 96], None), UP, "[64, 96]", "[96, 64]"),
                      (cut(UP, [96 * 64], None), UP, "[6144]", "[96, 64]"),
                      (cut(UP, [2, 48, 64], None), UP, "[2, 48, 64]", "[96, 64]"),
                      (cut(NORM, [1, 64], None), NORM, "[1, 64]", "[64]"),
                      (cut(NORM, [], 2), NORM, "[]", "[64]"),
                      (cut("lm_head.weight", [299, 64], 299 * 128), "lm_head.weight", "[299, 64]", "[300, 64]")])

    def check_a_vocabulary_that_is_not_the_embeddings_is_refused(self):
        """Published models pad their embedding and say so in vocab_size; a count that differs is a mistake either way."""
        for size in (299, 301, 512):
            self.configs([({"vocab_size": size}, EMBED, "300 rows", f"{size} tokens")])
            self.configs([({"vocab_size": size}, EMBED, "300 rows", f"{size} tokens")], "--tied")
        model = self.model(*SMALL, name="model.gguf")
        gguf = Gguf(model)
        tokens = next(key for key in gguf.keys if key[0] == "tokenizer.ggml.tokens")
        kind, count = struct.unpack_from("<IQ", tokens[2])
        tokens[2] = struct.pack("<IQ", kind, count + 1) + tokens[2][12:] + gguf_text("more")
        gguf.write()
        self.broken(model, "token_embd.weight", "300 rows", "301 tokens")

    def check_a_token_beyond_the_embedding_is_its_rows_error(self):
        model = self.model(*SMALL, "--vocab", 270)      # as many as the tokenizer has
        path = model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": 270, "content": "<|extra|>"})
        path.write_text(json.dumps(tokenizer))
        done = self.run(model, [{"id": 1, "prompt": "a<|extra|>"}, {"id": 2, "prompt": "a"}], "--max-tokens", 2)
        true(done.code == 1 and "270" in done.row(1)["error"]["message"] and "text" in done.row(2), f"{done.code} {done.results}")

    def check_tensors_that_are_doubled_are_named_with_their_files(self):
        model = self.model(*SMALL)
        path = model / "model.safetensors"
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = data[8:8 + size].rstrip()
        entry = json.dumps({NORM: json.loads(header)[NORM]})[1:-1].encode()
        header = header[:-1] + b", " + entry + b"}"
        path.write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size:])
        self.broken(model, NORM, "twice")
        model = self.model(*SMALL, "--shards", 2)
        shards = sorted(model.glob("model-*.safetensors"))
        first, second = read(shards[0]), read(shards[1])
        write(shards[0], {**first, NORM: second[NORM]})
        self.broken(model, shards[1].name, NORM, "as well", shards[0].name)

    def check_an_index_that_lies_is_refused(self):
        def changed(change):
            model = self.model(*SMALL, "--shards", 2)
            path = model / "model.safetensors.index.json"
            index = json.loads(path.read_text())
            change(index["weight_map"])
            path.write_text(json.dumps(index))
            return model
        first = "model-00001-of-00002.safetensors"
        self.broken(changed(lambda m: m.update({NORM: "model-00003-of-00002.safetensors"})), "model-00003-of-00002.safetensors", "not found")
        self.broken(changed(lambda m: m.update({NORM: first})), "index.json", NORM, first, "does not have it")
        self.broken(changed(lambda m: m.update({"model.layers.9.what": first})), "index.json", "model.layers.9.what", first, "does not have it")
        self.broken(changed(lambda m: m.update({NORM: "../" + first})), "index.json", NORM, "not the name of a file")
        self.broken(changed(lambda m: m.clear()), "index.json", "weight_map is empty")
        self.broken(changed(lambda m: m.update({NORM: 7})), "index.json", NORM, "not the name of a file")
        model = changed(lambda m: None)
        (model / "model.safetensors.index.json").write_text("[]")
        self.broken(model, "index.json", "no weight_map")

    def quantised(self, form, change):
        model, rng = self.model(*SMALL), random.Random(3)
        made = {}
        for name, (dtype, shape, raw) in read(model / "model.safetensors").items():
            made.update(form.make(name.removesuffix(".weight"), *shape, rng)[0] if len(shape) == 2 else {name: (dtype, shape, raw)})
        change(made)
        write(model / "model.safetensors", made)
        path = model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **form.config()}))
        return model

    def check_scales_are_there_and_have_the_shape_of_their_numbers(self):
        up = UP.removesuffix(".weight")
        shaped = lambda name, shape, size: lambda t: t.update({name: (t[name][0], shape, bytes(size))})
        for form, change, *words in (
                (Fp8(), lambda t: t.pop(f"{up}.weight_scale_inv"), UP, "no scales"),
                (Fp8(), shaped(f"{up}.weight_scale_inv", [2, 1], 8), f"{up}.weight_scale_inv", "[2, 1]"),
                (Fp8(), shaped(f"{up}.weight_scale_inv", [96, 64], 4 * 96 * 64), f"{up}.weight_scale_inv", "[96, 64]"),
                (Fp8(), lambda t: t.update({f"{up}.weight_scale_inv": ("I32", [1, 1], bytes(4))}), f"{up}.weight_scale_inv", "I32"),
                (Mlx(4, 32), lambda t: t.pop(f"{up}.scales"), UP, "no scales"),
                (Mlx(4, 32), lambda t: t.pop(f"{up}.biases"), UP, "no biases"),
                (Mlx(4, 32), shaped(f"{up}.scales", [95, 2], 380), f"{up}.scales", "[95, 2]"),
                (Mlx(4, 32), shaped(f"{up}.scales", [96, 3], 576), f"{up}.scales", "[96, 3]"),
                (Mlx(4, 32), shaped(f"{up}.biases", [96, 1], 192), f"{up}.biases", "differs"),
                (Mlx(4, 32), lambda t: t.update({f"{up}.biases": ("F32", [96, 2], bytes(768))}), f"{up}.biases", "differs"),
                (Mlx(4, 32), shaped(UP, [96, 9], 96 * 36), UP, "[96, 9]"),
                (Mxfp4(), lambda t: t.pop(f"{up}.scales"), UP, "no scales"),
                (Mxfp4(), shaped(f"{up}.scales", [96, 1], 96), UP, "groups of 32", "64"),
                (Mxfp4(), lambda t: t.update({f"{up}.biases": ("U8", [96, 2], bytes(192))}), f"{up}.scales")):
            self.broken(self.quantised(form, change), "model.safetensors", *words)

    def gguf(self, cases, *options):
        for change, *words in cases:
            model = self.model(*SMALL, *options, name="model.gguf")
            gguf = Gguf(model)
            change(gguf)
            gguf.write()
            self.broken(model, "model.gguf", *words)

    def check_gguf_headers_that_lie_are_refused(self):
        def of(which, **fields):
            def change(gguf):
                tensor = gguf.tensor(which)
                for at, field in enumerate(("name", "shape", "type", "offset")):
                    tensor[at] = fields.get(field, tensor[at])
            return change
        norm, down = "output_norm.weight", "blk.1.ffn_down.weight"
        self.gguf([(lambda g: setattr(g, "magic", b"GGUX"), "GGUX"), (lambda g: setattr(g, "version", 1), "version 1"),
                   (lambda g: setattr(g, "version", 4), "version 4"), (lambda g: setattr(g, "version", 3 << 24), "big-endian"),
                   (of(norm, offset=1 << 40), norm, "cut"), (of(norm, offset=2 ** 64 - 32), norm, "out of range"),
                   (of(norm, offset=7), norm, "offset 7", "alignment"), (of(norm, offset=0), norm, "overlap"),
                   (of(norm, shape=[2 ** 63, 2 ** 63]), norm, "overflows"), (of(norm, shape=[0]), norm, "[0]", "[64]"),
                   (of(norm, shape=[1] * 5), norm, "5 dimensions"), (of(norm, shape=[64, 1]), norm, "[1, 64]", "[64]"),
                   (of(down, shape=[64, 96]), down, "[96, 64]", "[64, 96]"), (of(norm, name="other.weight"), norm, "missing"),
                   (of(norm, name=down), down, "twice"), (of(norm, type=24), norm, "i8"),
                   (of(down, type=25), down, "i16", "not supported"), (of(down, type=9), down, "q8_1"), (of(norm, type=99), norm, "type 99"),
                   (lambda g: setattr(g, "body", g.body[:-64]), "cut"), (lambda g: setattr(g, "body", b""), "cut")])
        self.gguf([(of("token_embd.weight", type=kind, shape=[256, 4]), "token_embd.weight", word, "not supported")
                   for kind, word in ((16, "iq2_xxs"), (17, "iq2_xs"), (18, "iq3_xxs"), (19, "iq1_s"), (21, "iq3_s"), (22, "iq2_s"), (29, "iq1_m"))])

    def check_gguf_keys_that_lie_are_refused(self):
        key = lambda name, kind, raw: lambda g: g.key(name, kind, raw)
        twice = lambda g: g.keys.append(g.keys[0])
        self.gguf([(key("llama.block_count", 4, None), "llama.block_count", "missing"),
                   (key("llama.block_count", 8, gguf_text("2")), "llama.block_count", "whole number"),
                   (key("llama.block_count", 6, f32(2.0)), "llama.block_count", "whole number"),
                   (key("llama.block_count", 4, u32(0)), "llama.block_count", "0"),
                   (key("llama.block_count", 5, struct.pack("<i", -2)), "llama.block_count", "-2"),
                   (key("llama.block_count", 4, u32(5000)), "layers is 5000"),
                   (key("llama.block_count", 4, u32(3)), "blk.2.", "missing"),
                   (key("llama.embedding_length", 10, struct.pack("<Q", 2 ** 63)), "embedding_length"),
                   (key("llama.embedding_length", 4, u32(65)), "65"),
                   (key("llama.attention.head_count", 4, u32(0)), "head_count", "0"),
                   (key("llama.attention.head_count_kv", 4, u32(3)), "4 heads", "3 key/value"),
                   (key("llama.attention.head_count_kv", 9, struct.pack("<IQII", 4, 2, 1, 2)), "head_count_kv", "differs between layers"),
                   (key("llama.attention.layer_norm_rms_epsilon", 8, gguf_text("x")), "layer_norm_rms_epsilon", "number"),
                   (key("llama.rope.scaling.type", 8, gguf_text("spiral")), "spiral"),
                   (key("llama.rope.scaling.type", 4, u32(1)), "rope.scaling.type", "text"),
                   (key("llama.attention.sliding_window", 4, u32(512)), "attention.sliding_window"),
                   (key("llama.attention.value_length", 4, u32(8)), "16", "8"),
                   (key("llama.logit_scale", 6, f32(0.5)), "logit_scale"),
                   (key("llama.expert_count", 4, u32(8)), "expert"),
                   (key("general.architecture", 8, gguf_text("mamba2")), "mamba2"),
                   (key("general.architecture", 4, u32(3)), "general.architecture"),
                   (key("general.alignment", 4, u32(48)), "general.alignment", "48"),
                   (key("general.alignment", 8, gguf_text("32")), "general.alignment"),
                   (key("general.kind", 13, u32(0)), "general.kind", "13"),
                   (key("split.count", 2, struct.pack("<H", 2)), "2 parts"), (twice, "twice")])

    def check_gguf_sets_that_are_not_whole_are_refused(self):
        whole = self.model(*SMALL, name="model.gguf")
        parts = [whole.parent / f"model-0000{n}-of-00002.gguf" for n in (1, 2)]
        for n, path in enumerate(parts):
            gguf = Gguf(whole)
            gguf.path, half = path, len(gguf.tensors) // 2
            gguf.tensors = gguf.tensors[:half] if n == 0 else gguf.tensors[half:]
            for name, value in (("split.no", n), ("split.count", 2)):
                gguf.key(name, 2, struct.pack("<H", value))
            gguf.write()
        true(self.run(parts[0], ROW, "--max-tokens", 2).code == 0, "the whole set")
        self.broken(parts[1], parts[1].name, "part 2 of 2")
        second = parts[1].read_bytes()
        parts[1].unlink()
        self.broken(parts[0], parts[1].name, "not found", "part 2 of the 2")
        parts[1].write_bytes(parts[0].read_bytes())
        self.broken(parts[0], parts[1].name, "part 1 of 2")
        parts[1].write_bytes(second[:-40])
        self.broken(parts[0], parts[1].name, "cut")
        parts[1].write_bytes(second)
        gguf = Gguf(parts[0])
        gguf.key("split.tensors.count", 5, struct.pack("<i", 3))
        gguf.write()
        self.broken(parts[0], parts[0].name, "3 tensors")

    def check_ways_of_quantising_that_are_not_read_are_named_with_what_to_do(self):
        for method in ("gptq", "awq", "bitsandbytes", "quark", "modelopt", "hqq", "torchao"):
            self.configs([({"quantization_config": {"quant_method": method, "bits": 4}}, "config.json", f'"{method}"', "GGUF files")])
        self.configs([({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}}, "pack-quantized"),
                      ({"quantization": {"bits": 4, "group_size": 64, "mode": "nvfp4"}}, "nvfp4"),
                      ({"quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}}, "e5m2")])


if __name__ == "__main__":
    Refusals.verbose = "--verbose" in sys.argv and not sys.argv.remove("--verbose")
    main(Refusals)
