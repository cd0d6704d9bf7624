#!/usr/bin/env python3
"""Makes synthetic models of any family, size and shape: a safetensors folder or a GGUF file. Standard library only.

    tools/make_model.py OUT [--family llama] [--hidden 64 --layers 2 --heads 4 --kv-heads 2 --inner 96 --vocab 512 ...]
    tools/make_model.py OUT.gguf --dtype q4_1
    tools/make_model.py OUT --family deepseek_v3 --layers 4 --experts 16 --experts-used 4 --kv-rank 32
    tools/make_model.py OUT --preset 3b                 Llama-3.2-3B's shape, 6.4 GB of bf16
    tools/make_model.py OUT --preset 70b --sparse       Llama-3.3-70B's shape; headers are real, weights are holes: for `sluice plan`
    tools/make_model.py OUT --script '7>4 4>9 9>9'      greedy output is that chain, whatever came before
    tools/make_model.py --list                          the families, one a line

OUT ending in .gguf makes a GGUF file as llama.cpp's converter writes it (names, permuted rows, stacked experts, norms with their 1), anything else
a folder as Hugging Face has it. Weights are random but the same for the same --seed, drawn from one tile that is reused at shifting places, so a file
is written about as fast as the disk takes it; a folder and a GGUF file of the same --dtype hold the same model. Norm weights are 1 and a little.

A scripted model has one-hot embeddings and layers that add nothing (their output matrices are zero), and a head in which the row of token n
sums the embeddings of all tokens that n follows: after token t the logits of its successor stand out, so the greedy answer is a chain fixed by
construction. --tie A,B gives two tokens the very same head row (an exact tie). Tokens without a successor go to the end token.

The tokenizer is byte-level BPE: the special tokens (<|begin|> 0, <|pad|> 1, <|end|> 2, <|im_start|> 3, ..), the 256 byte tokens, and
where the vocabulary has room a few merges of English letters.
"""
import argparse
import json
import math
import random
import struct
import sys
from array import array
from pathlib import Path

from model_families import FAMILIES, tensors_of

SPECIAL = ["<|begin|>", "<|pad|>", "<|end|>", "<|im_start|>", "<|im_end|>", "<|stop|>"]
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|end|>\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
PRESETS = {"3b": dict(hidden=3072, layers=28, heads=24, kv_heads=8, head_dim=128, inner=8192, vocab=128256, tied=True),
           "70b": dict(hidden=8192, layers=80, heads=64, kv_heads=8, head_dim=128, inner=28672, vocab=128256, context=131072, shards=30),
           "1b": dict(hidden=2048, layers=16, heads=32, kv_heads=8, head_dim=64, inner=8192, vocab=128256, tied=True)}
# name: bytes a block, values a block, ggml type, safetensors name
DTYPES = {"f32": (4, 1, 0, "F32"), "f16": (2, 1, 1, "F16"), "bf16": (2, 1, 30, "BF16"), "q4_0": (18, 32, 2, None), "q4_1": (20, 32, 3, None),
          "q8_0": (34, 32, 8, None), "q6_k": (210, 256, 14, None)}
MERGES = [("\u0120", "t"), ("h", "e"), ("i", "n"), ("\u0120", "a"), ("\u0120t", "he"), ("o", "n"), ("e", "r"), ("in", "g")]
TILE_BYTES = 4 << 20
ALIGN = 32


def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def encode(values, dtype):
    """Values as bytes in a format that takes single values."""
    if dtype == "f32":
        return array("f", values).tobytes()
    if dtype == "f16":
        return struct.pack(f"<{len(values)}e", *values)
    return array("H", map(bf16, values)).tobytes()


def block_of(dtype, rng, scale):
    """One random block of a quantised format whose values have about that spread."""
    half = lambda value: struct.pack("<e", value)
    noise = lambda count: rng.getrandbits(8 * count).to_bytes(count, "little")
    if dtype == "q8_0":
        return half(scale / 70) + noise(32)
    if dtype == "q4_0":
        return half(scale / 4.6) + noise(16)
    if dtype == "q4_1":
        return half(scale / 4.6) + half(-scale / 4.6 * 7.5) + noise(16)
    return noise(192) + bytes((rng.randrange(-8, 9) & 255) for _ in range(16)) + half(scale / 90)


class Source:
    """Endless random weights of a format, from one tile."""
    def __init__(self, dtype, seed, scale):
        rng = random.Random(f"{seed} {dtype} {scale}")
        block, values = DTYPES[dtype][:2]
        if values == 1:
            self.tile = encode([rng.gauss(0, scale) for _ in range(1 << 16)], dtype)
        else:
            self.tile = b"".join(block_of(dtype, rng, scale) for _ in range(2048))
        self.block, self.seed = block, seed
        self.tile *= max(1, TILE_BYTES // len(self.tile))

    def pieces(self, count_bytes, name):
        """count_bytes of the tile, starting at a block that the name decides."""
        start = random.Random(f"{self.seed} {name}").randrange(len(self.tile) // self.block) * self.block
        while count_bytes:
            piece = self.tile[start:start + count_bytes]
            yield piece
            count_bytes -= len(piece)
            start = 0


def scripted(o, kind, shape):
    """Rows of the embedding or the head of a scripted model."""
    follow = dict(o.script)
    for row in range(shape[0]):
        values = [0.0] * shape[1]
        if kind == "embed":
            values[row] = 1.0
        else:
            twin = o.tie.get(row, row)
            for token in range(o.vocab):
                if follow.get(token, 2) == twin:
                    values[token] = 1.0
        yield values


def numbers(o, kind, part):
    """Values of a vector, which every format of single values holds exactly."""
    rng = random.Random(f"{o.seed} {part.name}")
    if kind in ("norm", "plain_norm"):
        offset = 0 if o.is_gguf or kind == "plain_norm" else FAMILIES[o.family].norm_offset
        return [1.0 - offset + (0 if o.script else rng.randint(-32, 32) / 128) for _ in range(part.rows)]
    largest = 2.0 ** math.floor(math.log2(4 * o.scale))
    return [rng.randint(-64, 64) / 64 * largest for _ in range(part.rows)]


def widened(data, dtype):
    """Single values in f32."""
    if dtype == "bf16":
        return b"".join(b"\0\0" + data[at:at + 2] for at in range(0, len(data), 2))
    return data if dtype == "f32" else array("f", struct.unpack(f"<{len(data) // 2}e", data)).tobytes()


def write_part(o, file, tensor, dtype, part, sources):
    block, values = DTYPES[dtype][:2]
    if tensor.kind in ("norm", "plain_norm", "bias", "out_bias"):
        data = encode(numbers(o, tensor.kind, part), dtype)
        row_bytes = block
    elif tensor.kind == "router" and o.is_gguf:     # in f32, with the values that a folder has
        small = o.dtype if DTYPES[o.dtype][3] else "bf16"
        data = widened(b"".join(sources[small].pieces(part.rows * part.columns * DTYPES[small][0], part.name)), small)
        row_bytes = part.columns * 4
    else:
        row_bytes = part.columns // values * block
        pieces = sources[dtype].pieces(part.rows * row_bytes, part.name)
        if not part.order:
            return file.writelines(pieces)
        data = b"".join(pieces)
    rows = [data[at:at + row_bytes] for at in range(0, len(data), row_bytes)] if part.order else None
    file.write(part.order(rows, block) if part.order else data)


def write_tensor(o, file, tensor, dtype, sources):
    if not tensor.parts:
        file.write(encode(tensor.kind, dtype))      # values that the family fixes
    elif o.script and tensor.kind in ("out", "out_bias"):
        file.write(bytes(math.prod(tensor.shape) // DTYPES[dtype][1] * DTYPES[dtype][0]))
    elif o.script and tensor.kind in ("embed", "head"):
        file.writelines(encode(row, dtype) for row in scripted(o, tensor.kind, tensor.shape))
    else:
        for part in tensor.parts:
            write_part(o, file, tensor, dtype, part, sources)


def dtype_of(o, tensor):
    """Vectors and routers stay in f32 in a GGUF file, as llama.cpp writes them; rows that hold no whole block become q8_0, or f32."""
    if not o.is_gguf:
        return o.dtype
    if tensor.kind not in ("embed", "head", "matrix", "out"):
        return "f32"
    columns = tensor.shape[-1]
    return o.dtype if columns % DTYPES[o.dtype][1] == 0 else "q8_0" if columns % 32 == 0 else "f32"


def byte_tokens():
    """The characters of byte-level BPE, in the order of the bytes (GPT-2's table)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(extra)) for b in range(256)]


def merges(o):
    """Pairs whose result is a token of its own, as many as the vocabulary has room for."""
    return MERGES[:max(0, o.vocab - len(SPECIAL) - 256)]


def vocabulary(o):
    return (SPECIAL + byte_tokens() + ["".join(pair) for pair in merges(o)])[:o.vocab]


def write_tokenizer(o, folder):
    vocab = vocabulary(o)
    added = [dict(id=i, content=c, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i, c in enumerate(SPECIAL)]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
                 byte_fallback=False, ignore_merges=False, vocab={t: i for i, t in enumerate(vocab)}, merges=[" ".join(pair) for pair in merges(o)])
    whole = dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None, pre_tokenizer=level, post_processor=None,
                 decoder=level, model=model)
    (folder / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False))
    config = dict(bos_token="<|begin|>", eos_token="<|end|>", pad_token="<|pad|>", chat_template=TEMPLATE)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_folder(o, folder):
    f = FAMILIES[o.family]
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(architectures=[f.classname], model_type=f.model_type or o.family, hidden_size=o.hidden, num_hidden_layers=o.layers,
                  num_attention_heads=o.heads, num_key_value_heads=o.kv_heads, head_dim=o.head_dim, intermediate_size=o.inner,
                  vocab_size=o.vocab, max_position_embeddings=o.context, rms_norm_eps=f.norm_eps, hidden_act="silu", tie_word_embeddings=o.tied,
                  bos_token_id=0, eos_token_id=2, torch_dtype=dict(bf16="bfloat16", f16="float16", f32="float32")[o.dtype],
                  rope_theta=o.rope_theta, rope_scaling=None)
    config.update(f.members(o))
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps(dict(eos_token_id=o.eos)))
    write_tokenizer(o, folder)
    size = lambda tensor: math.prod(tensor.shape) * DTYPES[o.dtype][0]
    tensors = list(tensors_of(o))
    per_shard = -(-sum(map(size, tensors)) // o.shards)
    parts, room = [[]], per_shard
    for tensor in tensors:
        if parts[-1] and room <= 0 and len(parts) < o.shards:
            parts.append([])
            room = per_shard
        parts[-1].append(tensor)
        room -= size(tensor)
    names = [f"model-{i + 1:05}-of-{len(parts):05}.safetensors" if len(parts) > 1 else "model.safetensors" for i in range(len(parts))]
    sources = {o.dtype: Source(o.dtype, o.seed, o.scale)}
    for name, part in zip(names, parts):
        header, at = {}, 0
        for tensor in part:
            header[tensor.name] = dict(dtype=DTYPES[o.dtype][3], shape=list(tensor.shape), data_offsets=[at, at + size(tensor)])
            at += size(tensor)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            if o.sparse:
                file.truncate(8 + len(text) + at)
                continue
            for tensor in part:
                write_tensor(o, file, tensor, o.dtype, sources)
    if len(parts) > 1:
        files = {tensor.name: name for name, part in zip(names, parts) for tensor in part}
        (folder / "model.safetensors.index.json").write_text(json.dumps(dict(metadata={}, weight_map=files)))


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    """A value of the metadata with its type before it."""
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    if value and isinstance(value[0], bool):
        return struct.pack(f"<IIQ{len(value)}?", 9, 7, len(value), *value)
    if value and isinstance(value[0], int):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_string, value))


def gguf_metadata(o):
    f = FAMILIES[o.family]
    vocab = vocabulary(o)
    types = [3] * len(SPECIAL) + [1] * (len(vocab) - len(SPECIAL))
    types += [5] * (o.vocab - len(types))
    vocab += [f"<|unused{i}|>" for i in range(len(vocab), o.vocab)]
    own = {"block_count": o.layers, "context_length": o.context, "embedding_length": o.hidden, "feed_forward_length": o.inner,
           "attention.head_count": o.heads, "attention.head_count_kv": o.kv_heads, "attention.key_length": o.head_dim,
           "attention.value_length": o.head_dim, "rope.dimension_count": o.head_dim, "rope.freq_base": float(o.rope_theta),
           "attention.layer_norm_rms_epsilon": f.norm_eps, "vocab_size": o.vocab, **f.keys(o)}
    tokenizer = {"model": "gpt2", "pre": "gpt-2", "tokens": vocab, "token_type": types, "merges": [" ".join(pair) for pair in merges(o)],
                 "bos_token_id": 0, "eos_token_id": 2, "padding_token_id": 1, "add_bos_token": False}
    return {"general.architecture": f.gguf, "general.name": "synthetic", **{f"{f.gguf}.{key}": value for key, value in own.items()},
            **{f"tokenizer.ggml.{key}": value for key, value in tokenizer.items()}, "tokenizer.chat_template": TEMPLATE}


def write_gguf(o, path):
    tensors = [(tensor, dtype_of(o, tensor)) for tensor in tensors_of(o)]
    size = lambda shape, dtype: math.prod(shape) // DTYPES[dtype][1] * DTYPES[dtype][0]
    sources = {dtype: Source(dtype, o.seed, o.scale) for dtype in {dtype for _, dtype in tensors} | {o.dtype, "bf16"}}
    meta = gguf_metadata(o)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(meta)) + b"".join(gguf_string(k) + gguf_value(v) for k, v in meta.items())
    at = 0
    for tensor, dtype in tensors:
        dims = len(tensor.shape)
        head += gguf_string(tensor.name) + struct.pack(f"<I{dims}QIQ", dims, *reversed(tensor.shape), DTYPES[dtype][2], at)
        at += -(-size(tensor.shape, dtype) // ALIGN) * ALIGN
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGN))
        if o.sparse:
            return file.truncate(file.tell() + at)
        for tensor, dtype in tensors:
            write_tensor(o, file, tensor, dtype, sources)
            file.write(bytes(-size(tensor.shape, dtype) % ALIGN))


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=Path, nargs="?")
    p.add_argument("--list", action="store_true", help="print the families and their GGUF architectures")
    p.add_argument("--preset", choices=PRESETS)
    p.add_argument("--family", choices=FAMILIES, default="llama")
    for name, value in (("hidden", 64), ("layers", 2), ("heads", 4), ("kv-heads", 2), ("head-dim", 0), ("inner", 96), ("vocab", 512),
                        ("context", 2048), ("shards", 1), ("seed", 1), ("experts", 8), ("experts-used", 2), ("expert-inner", 0), ("kv-rank", 16),
                        ("q-rank", 24), ("rope-dim", 8), ("delta-keys", 2), ("delta-values", 4), ("delta-dim", 16), ("interval", 2)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--dtype", choices=DTYPES, default="bf16")
    p.add_argument("--rope-theta", type=float, default=10000.0)
    p.add_argument("--scale", type=float, default=0.02, help="spread of the weights")
    p.add_argument("--sparse", action="store_true", help="weights are holes of the file: they read as zeros and take no room")
    p.add_argument("--tied", action="store_true", help="no head of its own")
    p.add_argument("--eos", type=int, nargs="+", default=[2], help="ids in generation_config.json")
    p.add_argument("--script", help="'7>4 4>9': after token 7 comes 4, ..")
    p.add_argument("--tie", help="'8,9': token 8 gets the head row of token 9")
    o = p.parse_args()
    if o.list:
        print("\n".join(f"{name} {family.gguf}" for name, family in FAMILIES.items()))
        sys.exit(0)
    if o.out is None:
        p.error("where to is missing")
    for name, value in PRESETS.get(o.preset, {}).items():
        setattr(o, name, value)
    o.expert_inner = o.expert_inner or o.inner
    o.is_gguf = o.out.suffix == ".gguf"
    o.script = [tuple(map(int, pair.split(">"))) for pair in o.script.split()] if o.script else []
    o.tie = dict([tuple(map(int, o.tie.split(",")))]) if o.tie else {}
    if o.script:
        o.hidden, o.tied = o.vocab, False
    o.head_dim = o.head_dim or max(2, o.hidden // o.heads // 2 * 2)
    if not o.is_gguf and DTYPES[o.dtype][3] is None:
        p.error(f"{o.dtype} goes into a .gguf file alone")
    if o.script and DTYPES[o.dtype][1] != 1:
        p.error("a scripted model is bf16, f16 or f32")
    return o


def main():
    o = options()
    (write_gguf if o.is_gguf else write_folder)(o, o.out)
    print(o.out)


if __name__ == "__main__":
    sys.exit(main())
