#!/usr/bin/env python3
"""Makes synthetic models of any size and shape: a safetensors folder or a GGUF file. Standard library only.

    tools/make_model.py OUT [--family llama] [--hidden 64 --layers 2 --heads 4 --kv-heads 2 --inner 96 --vocab 512 ...]
    tools/make_model.py OUT.gguf --dtype q4_1
    tools/make_model.py OUT --preset 3b                 Llama-3.2-3B's shape, 6.4 GB of bf16
    tools/make_model.py OUT --script '7>4 4>9 9>9'      greedy output is that chain, whatever came before

OUT ending in .gguf makes a GGUF file, anything else a folder. Weights are random but the same for the same --seed, drawn from one
tile that is reused at shifting places, so a file is written about as fast as the disk takes it. Norm weights are 1.

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

SPECIAL = ["<|begin|>", "<|pad|>", "<|end|>", "<|im_start|>", "<|im_end|>", "<|stop|>"]
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|end|>\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
PRESETS = {"3b": dict(hidden=3072, layers=28, heads=24, kv_heads=8, head_dim=128, inner=8192, vocab=128256, tied=True),
           "1b": dict(hidden=2048, layers=16, heads=32, kv_heads=8, head_dim=64, inner=8192, vocab=128256, tied=True)}
FAMILIES = {"llama": ("LlamaForCausalLM", "llama"), "mistral": ("MistralForCausalLM", "llama"),
            "qwen2": ("Qwen2ForCausalLM", "qwen2"), "qwen3": ("Qwen3ForCausalLM", "qwen3"),
            "gemma2": ("Gemma2ForCausalLM", "gemma2"), "gemma3_text": ("Gemma3ForCausalLM", "gemma3"),
            "phi3": ("Phi3ForCausalLM", "phi3"), "olmo2": ("Olmo2ForCausalLM", "olmo2"),
            "smollm3": ("SmolLM3ForCausalLM", "smollm3"), "granite": ("GraniteForCausalLM", "granite"),
            "mixtral": ("MixtralForCausalLM", "llama"), "qwen3_moe": ("Qwen3MoeForCausalLM", "qwen3moe")}
# Members of config.json that the family has besides the usual ones, and keys of its GGUF files (text, a whole number or a real one).
GEMMA = dict(hidden_act=None, hidden_activation="gelu_pytorch_tanh", sliding_window=16, query_pre_attn_scalar=20)
MEMBERS = {"gemma2": dict(GEMMA, attn_logit_softcapping=50.0, final_logit_softcapping=30.0),
           "gemma3_text": dict(GEMMA, sliding_window_pattern=2, rope_local_base_freq=10000.0),
           "granite": dict(attention_multiplier=0.1, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0)}
KEYS = {"gemma2": {"attention.sliding_window": 16, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
        "gemma3_text": {"attention.sliding_window": 16, "attention.sliding_window_pattern": 2},
        "phi3": {"attention.sliding_window": 0},
        "granite": {"attention.scale": 0.1, "embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0}}
MIXTURES = ("mixtral", "qwen3_moe")  # --experts and --experts-used say how many; --inner is that of each
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

    def write(self, file, count_bytes, name):
        """count_bytes of the tile, starting at a block that the tensor's name decides."""
        start = random.Random(f"{self.seed} {name}").randrange(len(self.tile) // self.block) * self.block
        while count_bytes:
            piece = self.tile[start:start + count_bytes]
            file.write(piece)
            count_bytes -= len(piece)
            start = 0


def experts_of(o, a, b):
    """A router and experts: a tensor each in a folder, stacks in a GGUF file."""
    mixtral = o.family == "mixtral"
    yield a + ("block_sparse_moe" if mixtral else "mlp") + ".gate.weight", b + "ffn_gate_inp.weight", (o.experts, o.hidden), "matrix"
    for name, old, rows, columns, kind in (("gate", "w1", o.inner, o.hidden, "matrix"), ("up", "w3", o.inner, o.hidden, "matrix"),
                                           ("down", "w2", o.hidden, o.inner, "out")):
        if o.is_gguf:
            yield None, f"{b}ffn_{name}_exps.weight", (o.experts, rows, columns), kind
            continue
        for e in range(o.experts):
            own = f"block_sparse_moe.experts.{e}.{old}.weight" if mixtral else f"mlp.experts.{e}.{name}_proj.weight"
            yield a + own, None, (rows, columns), kind


def tensors_of(o):
    """(safetensors name, GGUF name, shape, kind) in the order of the file."""
    q, kv = o.heads * o.head_dim, o.kv_heads * o.head_dim
    yield "model.embed_tokens.weight", "token_embd.weight", (o.vocab, o.hidden), "matrix"
    for l in range(o.layers):
        a, b = f"model.layers.{l}.", f"blk.{l}."
        gemma, post = o.family.startswith("gemma"), o.family == "olmo2" or o.family.startswith("gemma")
        if o.family != "olmo2":
            yield a + "input_layernorm.weight", b + "attn_norm.weight", (o.hidden,), "norm"
        if o.family == "phi3":
            yield a + "self_attn.qkv_proj.weight", b + "attn_qkv.weight", (q + 2 * kv, o.hidden), "matrix"
            yield a + "mlp.gate_up_proj.weight", b + "ffn_up.weight", (2 * o.inner, o.hidden), "matrix"
        for name, to, rows in (("q_proj", "attn_q", q), ("k_proj", "attn_k", kv), ("v_proj", "attn_v", kv)):
            if o.family == "phi3":
                continue
            yield f"{a}self_attn.{name}.weight", f"{b}{to}.weight", (rows, o.hidden), "matrix"
            if o.family == "qwen2":
                yield f"{a}self_attn.{name}.bias", f"{b}{to}.bias", (rows,), "bias"
        yield a + "self_attn.o_proj.weight", b + "attn_output.weight", (o.hidden, q), "out"
        if o.family in ("qwen3", "qwen3_moe", "gemma3_text", "olmo2"):
            yield a + "self_attn.q_norm.weight", b + "attn_q_norm.weight", (q if o.family == "olmo2" else o.head_dim,), "norm"
            yield a + "self_attn.k_norm.weight", b + "attn_k_norm.weight", (kv if o.family == "olmo2" else o.head_dim,), "norm"
        yield a + "post_attention_layernorm.weight", b + ("post_attention_norm.weight" if post else "ffn_norm.weight"), (o.hidden,), "norm"
        if gemma:
            yield a + "pre_feedforward_layernorm.weight", b + "ffn_norm.weight", (o.hidden,), "norm"
        if post:
            yield a + "post_feedforward_layernorm.weight", b + "post_ffw_norm.weight", (o.hidden,), "norm"
        if o.family in MIXTURES:
            yield from experts_of(o, a, b)
            continue
        if o.family != "phi3":
            yield a + "mlp.gate_proj.weight", b + "ffn_gate.weight", (o.inner, o.hidden), "matrix"
            yield a + "mlp.up_proj.weight", b + "ffn_up.weight", (o.inner, o.hidden), "matrix"
        yield a + "mlp.down_proj.weight", b + "ffn_down.weight", (o.hidden, o.inner), "out"
    yield "model.norm.weight", "output_norm.weight", (o.hidden,), "norm"
    if not o.tied:
        yield "lm_head.weight", "output.weight", (o.vocab, o.hidden), "head"


def scripted(o, name, shape):
    """Rows of the embedding or the head of a scripted model."""
    follow = dict(o.script)
    rows = []
    for row in range(shape[0]):
        values = [0.0] * shape[1]
        if "embed" in name:
            values[row] = 1.0
        else:
            twin = o.tie.get(row, row)
            for token in range(o.vocab):
                if follow.get(token, 2) == twin:
                    values[token] = 1.0
        rows.append(values)
    return rows


def write_tensor(o, file, name, shape, kind, dtype, sources):
    block, values = DTYPES[dtype][:2]
    count = math.prod(shape)
    if kind == "norm":
        holds_one = o.is_gguf or not o.family.startswith("gemma")  # the Gemmas' folders hold w for a factor of 1 + w
        return file.write(encode([1.0 if holds_one else 0.0] * count, dtype))
    if o.script and kind == "out":
        return file.write(bytes(count // values * block))
    if o.script and ("embed" in name or kind == "head"):
        for row in scripted(o, name, shape):
            file.write(encode(row, dtype))
        return None
    return sources[dtype].write(file, count // values * block, name)


def dtype_of(o, shape, kind):
    """Vectors stay in f32 in a GGUF file, as llama.cpp writes them; rows that hold no whole block too."""
    if len(shape) == 1:
        return "f32" if o.is_gguf else o.dtype
    return o.dtype if shape[-1] % DTYPES[o.dtype][1] == 0 else "q8_0" if shape[-1] % 32 == 0 else "f32"


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
    folder.mkdir(parents=True, exist_ok=True)
    rope = dict(rope_theta=o.rope_theta, rope_scaling=None)
    config = dict(architectures=[FAMILIES[o.family][0]], model_type=o.family, hidden_size=o.hidden, num_hidden_layers=o.layers,
                  num_attention_heads=o.heads, num_key_value_heads=o.kv_heads, head_dim=o.head_dim, intermediate_size=o.inner,
                  vocab_size=o.vocab, max_position_embeddings=o.context, rms_norm_eps=1e-5, hidden_act="silu", tie_word_embeddings=o.tied,
                  bos_token_id=0, eos_token_id=2, torch_dtype=dict(bf16="bfloat16", f16="float16", f32="float32")[o.dtype], **rope)
    config.update(MEMBERS.get(o.family, {}))
    if o.family in MIXTURES:
        config.update(num_local_experts=o.experts, num_experts_per_tok=o.experts_used, moe_intermediate_size=o.inner, norm_topk_prob=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps(dict(eos_token_id=o.eos)))
    write_tokenizer(o, folder)
    tensors = [(name, shape, kind) for name, _, shape, kind in tensors_of(o)]
    size = lambda shape: math.prod(shape) * DTYPES[o.dtype][0]
    per_shard = -(-sum(size(t[1]) for t in tensors) // o.shards)
    parts, room = [[]], per_shard
    for tensor in tensors:
        if parts[-1] and room <= 0 and len(parts) < o.shards:
            parts.append([])
            room = per_shard
        parts[-1].append(tensor)
        room -= size(tensor[1])
    names = [f"model-{i + 1:05}-of-{len(parts):05}.safetensors" if len(parts) > 1 else "model.safetensors" for i in range(len(parts))]
    sources = {o.dtype: Source(o.dtype, o.seed, o.scale)}
    for name, part in zip(names, parts):
        header, at = {}, 0
        for tensor, shape, _ in part:
            header[tensor] = dict(dtype=DTYPES[o.dtype][3], shape=list(shape), data_offsets=[at, at + size(shape)])
            at += size(shape)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for tensor, shape, kind in part:
                write_tensor(o, file, tensor, shape, kind, o.dtype, sources)
    if len(parts) > 1:
        places = {tensor: name for name, part in zip(names, parts) for tensor, _, _ in part}
        (folder / "model.safetensors.index.json").write_text(json.dumps(dict(metadata={}, weight_map=places)))


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_metadata(o):
    arch = FAMILIES[o.family][1]
    vocab = vocabulary(o)
    vocab += [f"<|unused{i}|>" for i in range(len(vocab), o.vocab)]
    u32 = lambda n: struct.pack("<II", 4, n)
    real = lambda x: struct.pack("<If", 6, x)
    text = lambda s: struct.pack("<I", 8) + gguf_string(s)
    texts = lambda those: struct.pack("<IIQ", 9, 8, len(those)) + b"".join(map(gguf_string, those))
    ints = lambda those: struct.pack(f"<IIQ{len(those)}i", 9, 5, len(those), *those)
    types = [3] * len(SPECIAL) + [1] * (len(vocabulary(o)) - len(SPECIAL))
    types += [5] * (o.vocab - len(types))
    own = {f"{arch}.{key}": u32(value) if isinstance(value, int) else real(value) for key, value in KEYS.get(o.family, {}).items()}
    counts = {"expert_count": o.experts, "expert_used_count": o.experts_used, "expert_feed_forward_length": o.inner}
    mixture = {f"{arch}.{key}": u32(n) for key, n in counts.items()} if o.family in MIXTURES else {}
    return {**own, **mixture, "general.architecture": text(arch), "general.name": text("synthetic"), f"{arch}.block_count": u32(o.layers),
            f"{arch}.context_length": u32(o.context), f"{arch}.embedding_length": u32(o.hidden), f"{arch}.feed_forward_length": u32(o.inner),
            f"{arch}.attention.head_count": u32(o.heads), f"{arch}.attention.head_count_kv": u32(o.kv_heads),
            f"{arch}.attention.key_length": u32(o.head_dim), f"{arch}.attention.value_length": u32(o.head_dim),
            f"{arch}.rope.dimension_count": u32(o.head_dim), f"{arch}.rope.freq_base": real(o.rope_theta),
            f"{arch}.attention.layer_norm_rms_epsilon": real(1e-5), f"{arch}.vocab_size": u32(o.vocab),
            "tokenizer.ggml.model": text("gpt2"), "tokenizer.ggml.pre": text("gpt-2"), "tokenizer.ggml.tokens": texts(vocab),
            "tokenizer.ggml.token_type": ints(types), "tokenizer.ggml.merges": texts([" ".join(pair) for pair in merges(o)]), "tokenizer.ggml.bos_token_id": u32(0),
            "tokenizer.ggml.eos_token_id": u32(2), "tokenizer.ggml.padding_token_id": u32(1),
            "tokenizer.ggml.add_bos_token": struct.pack("<IB", 7, 0), "tokenizer.chat_template": text(TEMPLATE)}


def write_gguf(o, path):
    tensors = [(name, shape, kind, dtype_of(o, shape, kind)) for _, name, shape, kind in tensors_of(o)]
    size = lambda shape, dtype: math.prod(shape) // DTYPES[dtype][1] * DTYPES[dtype][0]
    sources = {dtype: Source(dtype, o.seed, o.scale) for dtype in {t[3] for t in tensors}}
    meta = gguf_metadata(o)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(meta)) + b"".join(gguf_string(k) + v for k, v in meta.items())
    at = 0
    for name, shape, _, dtype in tensors:
        head += gguf_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), DTYPES[dtype][2], at)
        at += -(-size(shape, dtype) // ALIGN) * ALIGN
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGN))
        for name, shape, kind, dtype in tensors:
            write_tensor(o, file, name, shape, kind, dtype, sources)
            file.write(bytes(-size(shape, dtype) % ALIGN))


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=Path)
    p.add_argument("--preset", choices=PRESETS)
    p.add_argument("--family", choices=FAMILIES, default="llama")
    for name, value in (("hidden", 64), ("layers", 2), ("heads", 4), ("kv-heads", 2), ("head-dim", 0), ("inner", 96), ("vocab", 512),
                        ("context", 2048), ("shards", 1), ("seed", 1), ("experts", 8), ("experts-used", 2)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--dtype", choices=DTYPES, default="bf16")
    p.add_argument("--rope-theta", type=float, default=10000.0)
    p.add_argument("--scale", type=float, default=0.02, help="spread of the weights")
    p.add_argument("--tied", action="store_true", help="no head of its own")
    p.add_argument("--eos", type=int, nargs="+", default=[2], help="ids in generation_config.json")
    p.add_argument("--script", help="'7>4 4>9': after token 7 comes 4, ..")
    p.add_argument("--tie", help="'8,9': token 8 gets the head row of token 9")
    o = p.parse_args()
    for name, value in PRESETS.get(o.preset, {}).items():
        setattr(o, name, value)
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
