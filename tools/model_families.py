"""The families of tools/make_model.py: what tensors each has, by the names of folders and of GGUF files, how their rows lie there, its members of
config.json and its keys of GGUF. FAMILIES is the table; whoever adds a family adds a row."""
import math
import random
from dataclasses import dataclass
from typing import Callable, NamedTuple


class Part(NamedTuple):
    """Random rows of a matrix, or a vector (columns 1). The name decides the numbers, whatever the tensor that holds them is called."""
    name: str
    rows: int
    columns: int
    order: Callable = None      # (rows as bytes, bytes an item) -> bytes: as they lie in the file; None: one after the other


class Tensor(NamedTuple):
    name: str
    shape: tuple
    kind: str       # embed, head, matrix, out (adds to the residual stream), router, norm, bias, out_bias; or a list: its values
    parts: list


# How rows lie in a file.
def turned(rows, item):
    return b"".join(row[at:at + item] for at in range(0, len(rows[0]), item) for row in rows)


def evens(rows, item):
    return b"".join(rows[0::2])


def odds(rows, item):
    return b"".join(rows[1::2])


def first_half(rows, item):
    return b"".join(rows[:len(rows) // 2])


def second_half(rows, item):
    return b"".join(rows[len(rows) // 2:])


def paired(heads):
    """llama.cpp's order of the rows of q and k for families that rotate neighbours: i and i + half of a head come to lie side by side."""
    def order(rows, item):
        size = len(rows) // heads
        return b"".join(rows[first + i // 2 + i % 2 * (size // 2)] for first in range(0, len(rows), size) for i in range(size))
    return order


def one(o, folder, gguf, shape, kind="matrix", order=None):
    """A tensor that both containers have; ORDER is that of GGUF."""
    rows, columns = (*shape, 1)[:2]
    return Tensor(gguf if o.is_gguf else folder, shape, kind, [Part(folder, rows, columns, order if o.is_gguf else None)])


def stack(o, folder, gguf, shape, kind="matrix"):
    """A matrix of each expert: a tensor each in a folder (FOLDER has {} for the number), one in a GGUF file."""
    parts = [Part(folder.format(e), *shape) for e in range(o.experts)]
    if o.is_gguf:
        yield Tensor(gguf, (o.experts, *shape), kind, parts)
    else:
        yield from (Tensor(part.name, shape, kind, [part]) for part in parts)


def places(layer):
    return f"model.layers.{layer}.", f"blk.{layer}."


def attention(o, f, layer):
    a, b = places(layer)
    q, kv = o.heads * o.head_dim, o.kv_heads * o.head_dim
    projections = [("q", q * (2 if f.has_gate else 1), o.heads if f.is_paired else 0), ("k", kv, o.kv_heads if f.is_paired else 0), ("v", kv, 0)]
    if f.is_fused:
        yield one(o, a + "self_attn.qkv_proj.weight", b + "attn_qkv.weight", (q + 2 * kv, o.hidden))
    for name, rows, heads in [] if f.is_fused else projections:
        order = paired(heads) if heads else None
        yield one(o, f"{a}self_attn.{name}_proj.weight", f"{b}attn_{name}.weight", (rows, o.hidden), "matrix", order)
        if name in f.biases:
            yield one(o, f"{a}self_attn.{name}_proj.bias", f"{b}attn_{name}.bias", (rows,), "bias", order)
    yield one(o, a + "self_attn.o_proj.weight", b + "attn_output.weight", (o.hidden, q), "out")
    if "o" in f.biases:
        yield one(o, a + "self_attn.o_proj.bias", b + "attn_output.bias", (o.hidden,), "out_bias")
    for name, rows in (("q", q), ("k", kv)) if f.head_norms else ():
        yield one(o, f"{a}self_attn.{name}_norm.weight", f"{b}attn_{name}_norm.weight", (rows if f.head_norms == "whole" else o.head_dim,), "norm")
    if f.has_sinks:
        yield one(o, a + "self_attn.sinks", b + "attn_sinks.weight", (o.heads,), "bias")


def delta_network(o, f, layer):
    """A gated delta network. Folders have the value heads of a key head together, GGUF files of Qwen3.5 have the first of each key head, then the
    second of each: rows of v, z, b and a, and columns of the output."""
    a, b = places(layer)
    a += "linear_attn."
    keys, heads, size, taps, group = o.delta_keys, o.delta_values, o.delta_dim, 4, o.delta_values // o.delta_keys
    tiled = [key * group + i for i in range(group) for key in range(keys)] if o.is_gguf and f.is_tiled else range(heads)
    parts = lambda what, numbers, rows, columns=o.hidden: [Part(f"{a}{what}.{i}", rows, columns) for i in numbers]
    q, k, v, z = (parts(what, numbers, size) for what, numbers in (("q", range(keys)), ("k", range(keys)), ("v", tiled), ("z", tiled)))
    wide = (2 * keys + heads) * size
    some = lambda list, key: list[key * group:(key + 1) * group]
    if f.is_tiled or o.is_gguf:
        yield Tensor(b + "attn_qkv.weight" if o.is_gguf else a + "in_proj_qkv.weight", (wide, o.hidden), "matrix", q + k + v)
        yield Tensor(b + "attn_gate.weight" if o.is_gguf else a + "in_proj_z.weight", (heads * size, o.hidden), "matrix", z)
    else:
        both = [part for key in range(keys) for part in (q[key], k[key], *some(v, key), *some(z, key))]
        yield Tensor(a + "in_proj_qkvz.weight", (wide + heads * size, o.hidden), "matrix", both)
    shares, decays = parts("b", tiled, 1), parts("a", tiled, 1)
    if f.is_tiled:
        yield Tensor(b + "ssm_beta.weight" if o.is_gguf else a + "in_proj_b.weight", (heads, o.hidden), "matrix", shares)
        yield Tensor(b + "ssm_alpha.weight" if o.is_gguf else a + "in_proj_a.weight", (heads, o.hidden), "matrix", decays)
    else:
        both = [part for key in range(keys) for part in (*some(shares, key), *some(decays, key))]
        yield Tensor(b + "ssm_ba.weight" if o.is_gguf else a + "in_proj_ba.weight", (2 * heads, o.hidden), "matrix", both)
    channels = parts("conv1d.q", range(keys), size * taps, 1) + parts("conv1d.k", range(keys), size * taps, 1)
    channels += parts("conv1d.v", tiled, size * taps, 1)
    yield Tensor(b + "ssm_conv1d.weight" if o.is_gguf else a + "conv1d.weight", (wide, taps) if o.is_gguf else (wide, 1, taps), "bias", channels)
    logs = [random.Random(f"{o.seed} {a}A_log.{i}").randint(-16, 16) / 8 for i in tiled]
    yield Tensor(b + "ssm_a" if o.is_gguf else a + "A_log", (heads,), [-math.exp(x) for x in logs] if o.is_gguf else logs, [])
    yield Tensor(b + "ssm_dt.bias" if o.is_gguf else a + "dt_bias", (heads,), "bias", parts("dt_bias", tiled, 1, 1))
    yield Tensor(b + "ssm_norm.weight" if o.is_gguf else a + "norm.weight", (size,), "plain_norm", [Part(a + "norm", size, 1)])

    def columns(rows, item):
        head = len(rows[0]) // heads
        return b"".join(row[i * head:(i + 1) * head] for row in rows for i in tiled)
    order = columns if o.is_gguf and f.is_tiled else None
    yield Tensor(b + "ssm_out.weight" if o.is_gguf else a + "out_proj.weight", (o.hidden, heads * size), "out",
                 [Part(a + "out_proj", o.hidden, heads * size, order)])


def hybrid(o, f, layer):
    yield from (delta_network if (layer + 1) % o.interval else attention)(o, f, layer)


def latent_attention(o, f, layer):
    """DeepSeek's: heads of head_dim + rope_dim features, keys and values from one vector of kv_rank. GGUF has kv_b in two stacks."""
    a, b = places(layer)
    a += "self_attn."
    q, nope, rank = o.heads * (o.head_dim + o.rope_dim), o.head_dim, o.kv_rank
    if o.q_rank:
        yield one(o, a + "q_a_proj.weight", b + "attn_q_a.weight", (o.q_rank, o.hidden))
        yield one(o, a + "q_a_layernorm.weight", b + "attn_q_a_norm.weight", (o.q_rank,), "norm")
        yield one(o, a + "q_b_proj.weight", b + "attn_q_b.weight", (q, o.q_rank))
    else:
        yield one(o, a + "q_proj.weight", b + "attn_q.weight", (q, o.hidden))
    yield one(o, a + "kv_a_proj_with_mqa.weight", b + "attn_kv_a_mqa.weight", (rank + o.rope_dim, o.hidden))
    yield one(o, a + "kv_a_layernorm.weight", b + "attn_kv_a_norm.weight", (rank,), "norm")
    keys = [Part(f"{b}k_b.{head}", rank, nope) for head in range(o.heads)]
    values = [Part(f"{b}v_b.{head}", nope, rank) for head in range(o.heads)]
    if o.is_gguf:
        yield Tensor(b + "attn_k_b.weight", (o.heads, rank, nope), "matrix", keys)
        yield Tensor(b + "attn_v_b.weight", (o.heads, nope, rank), "matrix", values)
    else:
        parts = [part for key, value in zip(keys, values) for part in (key._replace(order=turned), value)]
        yield Tensor(a + "kv_b_proj.weight", (o.heads * 2 * nope, rank), "matrix", parts)
    yield one(o, a + "o_proj.weight", b + "attn_output.weight", (o.hidden, o.heads * nope), "out")


def plain_mlp(o, f, layer):
    a, b = places(layer)
    is_fused = f.is_fused or f.has_fused_mlp
    if is_fused:
        yield one(o, a + "mlp.gate_up_proj.weight", b + "ffn_up.weight", (2 * o.inner, o.hidden))
    for name in () if is_fused else ("gate", "up"):
        yield one(o, f"{a}mlp.{name}_proj.weight", f"{b}ffn_{name}.weight", (o.inner, o.hidden))
    yield one(o, a + "mlp.down_proj.weight", b + "ffn_down.weight", (o.hidden, o.inner), "out")


def experts(o, f, layer):
    """A router and experts, and where the family has them a correction of the router's scores and a shared expert."""
    if layer < f.dense_layers:
        return (yield from plain_mlp(o, f, layer))
    a, b = places(layer)
    a += f.module + "."
    up, down = (o.expert_inner, o.hidden), (o.hidden, o.expert_inner)
    yield one(o, a + "gate.weight", b + "ffn_gate_inp.weight", (o.experts, o.hidden), "router")
    if f.has_correction:
        yield one(o, f"{a}{f.correction}", b + "exp_probs_b.bias", (o.experts,), "bias")
    for name, own, shape, kind in (("gate", f.expert[0], up, "matrix"), ("up", f.expert[1], up, "matrix"), ("down", f.expert[2], down, "out")):
        yield from stack(o, f"{a}experts.{{}}.{own}.weight", f"{b}ffn_{name}_exps.weight", shape, kind)
    if f.shared:
        inner = o.inner if f.has_shared_gate else o.expert_inner
        if f.has_shared_gate:
            name = b + "ffn_gate_inp_shexp.weight" if o.is_gguf else a + "shared_expert_gate.weight"
            yield Tensor(name, (o.hidden,) if o.is_gguf else (1, o.hidden), "router", [Part(a + "shared_expert_gate", 1, o.hidden)])
        for name, shape, kind in (("gate", (inner, o.hidden), "matrix"), ("up", (inner, o.hidden), "matrix"), ("down", (o.hidden, inner), "out")):
            yield one(o, f"{a}{f.shared}.{name}_proj.weight", f"{b}ffn_{name}_shexp.weight", shape, kind)


def gpt_oss_experts(o, f, layer):
    """Stacks in both containers: [inputs, outputs] with gate and up alternating in a folder, rows of outputs apart in a GGUF file."""
    a, b = places(layer)
    a, inner = a + "mlp.", o.expert_inner
    both = [Part(f"{b}gate_up.{e}", 2 * inner, o.hidden) for e in range(o.experts)]
    biases = [Part(f"{b}gate_up_bias.{e}", 2 * inner, 1) for e in range(o.experts)]
    down = [Part(f"{b}down.{e}", o.hidden, inner) for e in range(o.experts)]
    down_bias = [Part(f"{b}down_bias.{e}", o.hidden, 1) for e in range(o.experts)]
    lay = lambda parts, order: [part._replace(order=order) for part in parts]
    yield one(o, a + "router.weight", b + "ffn_gate_inp.weight", (o.experts, o.hidden), "router")
    yield one(o, a + "router.bias", b + "ffn_gate_inp.bias", (o.experts,), "bias")
    if not o.is_gguf:
        yield Tensor(a + "experts.gate_up_proj", (o.experts, o.hidden, 2 * inner), "matrix", lay(both, turned))
        yield Tensor(a + "experts.gate_up_proj_bias", (o.experts, 2 * inner), "bias", biases)
        yield Tensor(a + "experts.down_proj", (o.experts, inner, o.hidden), "out", lay(down, turned))
        yield Tensor(a + "experts.down_proj_bias", (o.experts, o.hidden), "out_bias", down_bias)
        return
    for name, order in (("gate", evens), ("up", odds)):
        yield Tensor(f"{b}ffn_{name}_exps.weight", (o.experts, inner, o.hidden), "matrix", lay(both, order))
        yield Tensor(f"{b}ffn_{name}_exps.bias", (o.experts, inner), "bias", lay(biases, order))
    yield Tensor(b + "ffn_down_exps.weight", (o.experts, o.hidden, inner), "out", down)
    yield Tensor(b + "ffn_down_exps.bias", (o.experts, o.hidden), "out_bias", down_bias)


def llama4_mlp(o, f, layer):
    """A plain MLP, and in every other layer experts with a shared one: stacks in both containers, [inputs, outputs] with gate before up in a folder."""
    a, b = places(layer)
    a += "feed_forward."
    is_mixture, inner = layer % 2 == 1, o.expert_inner
    small = inner if is_mixture else o.inner
    module, ending = ("shared_expert.", "_shexp") if is_mixture else ("", "")
    for name, shape, kind in (("gate", (small, o.hidden), "matrix"), ("up", (small, o.hidden), "matrix"), ("down", (o.hidden, small), "out")):
        yield one(o, f"{a}{module}{name}_proj.weight", f"{b}ffn_{name}{ending}.weight", shape, kind)
    if not is_mixture:
        return
    both = [Part(f"{b}gate_up.{e}", 2 * inner, o.hidden) for e in range(o.experts)]
    down = [Part(f"{b}down.{e}", o.hidden, inner) for e in range(o.experts)]
    lay = lambda parts, order: [part._replace(order=order) for part in parts]
    yield one(o, a + "router.weight", b + "ffn_gate_inp.weight", (o.experts, o.hidden), "router")
    if not o.is_gguf:
        yield Tensor(a + "experts.gate_up_proj", (o.experts, o.hidden, 2 * inner), "matrix", lay(both, turned))
        yield Tensor(a + "experts.down_proj", (o.experts, inner, o.hidden), "out", lay(down, turned))
        return
    yield Tensor(b + "ffn_gate_exps.weight", (o.experts, inner, o.hidden), "matrix", lay(both, first_half))
    yield Tensor(b + "ffn_up_exps.weight", (o.experts, inner, o.hidden), "matrix", lay(both, second_half))
    yield Tensor(b + "ffn_down_exps.weight", (o.experts, o.hidden, inner), "out", down)


# Gemma 4: heads twice as large in every other layer, of which the last ones read the keys of earlier ones; or experts in every layer.
GEMMA4_INPUT = 32


def gemma4_is_whole(o, layer):
    return layer % 2 == 1 or layer == o.layers - 1


def gemma4_shared(o):
    return o.layers // 2 if o.layers >= 4 and o.family == "gemma4_text" else 0


def gemma4_attention(o, f, layer):
    a, b = places(layer)
    is_whole, has_experts = gemma4_is_whole(o, layer), o.family == "gemma4_experts"
    size = o.head_dim * (2 if is_whole else 1)
    keys = (1 if is_whole and has_experts else o.kv_heads) * size
    yield one(o, a + "self_attn.q_proj.weight", b + "attn_q.weight", (o.heads * size, o.hidden))
    yield one(o, a + "self_attn.q_norm.weight", b + "attn_q_norm.weight", (size,), "norm")
    yield one(o, a + "self_attn.o_proj.weight", b + "attn_output.weight", (o.hidden, o.heads * size), "out")
    if layer < o.layers - gemma4_shared(o):
        yield one(o, a + "self_attn.k_norm.weight", b + "attn_k_norm.weight", (size,), "norm")
        for name in "k" if is_whole and has_experts else "kv":
            yield one(o, f"{a}self_attn.{name}_proj.weight", f"{b}attn_{name}.weight", (keys, o.hidden))
    yield Tensor((b + "layer_output_scale.weight") if o.is_gguf else a + "layer_scalar", (1,), [0.75 + layer / 16], [])


def gemma4_mlp(o, f, layer):
    a, b = places(layer)
    inner = o.inner * (2 if layer >= o.layers - gemma4_shared(o) else 1)
    for name, shape, kind in (("gate", (inner, o.hidden), "matrix"), ("up", (inner, o.hidden), "matrix"), ("down", (o.hidden, inner), "out")):
        yield one(o, f"{a}mlp.{name}_proj.weight", f"{b}ffn_{name}.weight", shape, kind)
    if o.family == "gemma4_text":
        yield one(o, a + "per_layer_input_gate.weight", b + "inp_gate.weight", (GEMMA4_INPUT, o.hidden))
        yield one(o, a + "per_layer_projection.weight", b + "proj.weight", (o.hidden, GEMMA4_INPUT), "out")
        yield one(o, a + "post_per_layer_input_norm.weight", b + "post_norm.weight", (o.hidden,), "norm")
        return
    both = [Part(f"{b}gate_up.{e}", 2 * o.expert_inner, o.hidden) for e in range(o.experts)]
    down = [Part(f"{b}down.{e}", o.hidden, o.expert_inner) for e in range(o.experts)]
    yield one(o, a + "router.proj.weight", b + "ffn_gate_inp.weight", (o.experts, o.hidden), "router")
    yield one(o, a + "router.scale", b + "ffn_gate_inp.scale", (o.hidden,), "norm")
    yield one(o, a + "router.per_expert_scale", b + "ffn_down_exps.scale", (o.experts,), "norm")
    for folder, gguf, shape, kind, parts in (("gate_up_proj", "gate_up_exps", (2 * o.expert_inner, o.hidden), "matrix", both),
                                             ("down_proj", "down_exps", (o.hidden, o.expert_inner), "out", down)):
        yield Tensor(f"{b}ffn_{gguf}.weight" if o.is_gguf else f"{a}experts.{folder}", (o.experts, *shape), kind, parts)
    for folder, gguf in (("post_feedforward_layernorm_1", "post_ffw_norm_1"), ("pre_feedforward_layernorm_2", "pre_ffw_norm_2"),
                         ("post_feedforward_layernorm_2", "post_ffw_norm_2")):
        yield one(o, f"{a}{folder}.weight", f"{b}{gguf}.weight", (o.hidden,), "norm")


def gemma4_tensors(o):
    if o.is_gguf:
        turning = o.head_dim // 4
        yield Tensor("rope_freqs.weight", (o.head_dim,), [1.0] * turning + [1e30] * (o.head_dim - turning), [])
    if o.family == "gemma4_text":
        inputs = o.layers * GEMMA4_INPUT
        yield one(o, "model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight", (o.vocab, inputs))
        yield one(o, "model.per_layer_model_projection.weight", "per_layer_model_proj.weight", (inputs, o.hidden))
        yield one(o, "model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight", (GEMMA4_INPUT,), "norm")


@dataclass
class Family:
    classname: str
    gguf: str
    model_type: str = None                  # of config.json; None: the family's name here
    attention: Callable = attention
    mlp: Callable = plain_mlp
    norms: dict = None                      # of a layer: folder's name to that of GGUF; None: NORMS
    is_paired: bool = False                 # llama.cpp permutes rows of q and k
    is_fused: bool = False                  # q, k and v in one tensor, gate and up in another
    has_fused_mlp: bool = False             # the latter alone
    norm_eps: float = 1e-5
    norm_offset: int = 0                    # folders hold the weights of norms less this
    biases: str = ""                        # letters of the projections that have one
    head_norms: str = None                  # of q and k: "each" head, or the "whole" of them
    has_sinks: bool = False
    has_gate: bool = False                  # each head's rows of q have a gate's behind them
    is_tiled: bool = False                  # llama.cpp gives the value heads of delta networks another order
    module: str = "mlp"                     # mixtures: where the experts are, and what their matrices are called
    expert: tuple = ("gate_proj", "up_proj", "down_proj")
    shared: str = None
    has_shared_gate: bool = False
    has_correction: bool = False
    correction: str = "gate.e_score_correction_bias"
    dense_layers: int = 0                   # the first ones
    more: Callable = lambda o: ()           # tensors besides the usual ones
    members: Callable = lambda o: {}        # of config.json, besides the usual ones
    keys: Callable = lambda o: {}           # of a GGUF file, without the architecture's name


NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
LATE_NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm"}    # the same under another name
POST_NORMS = {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}
GEMMA_NORMS = {"input_layernorm": "attn_norm", "pre_feedforward_layernorm": "ffn_norm", **POST_NORMS}
GLM4_NORMS = {**NORMS, "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"}
WINDOW = 16
YARN = 4        # times the positions of training, in families that are published with yarn


def gemma(o, **more):
    return dict(hidden_act=None, hidden_activation="gelu_pytorch_tanh", sliding_window=WINDOW, query_pre_attn_scalar=o.head_dim, **more)


def expert_members(o, count="num_experts", **more):
    return {count: o.experts, "num_experts_per_tok": o.experts_used, "moe_intermediate_size": o.expert_inner, "norm_topk_prob": True, **more}


def expert_keys(o, **more):
    return {"expert_count": o.experts, "expert_used_count": o.experts_used, "expert_feed_forward_length": o.expert_inner, **more}


def groups(o):
    """Experts in four groups, of which a token has two, where that can be."""
    return (4, 2) if o.experts % 4 == 0 and 8 <= o.experts and o.experts_used <= o.experts // 2 else (1, 1)


def sigmoid_members(o, f, scale, **more):
    return expert_members(o, "n_routed_experts", n_shared_experts=1, first_k_dense_replace=f.dense_layers, routed_scaling_factor=scale, **more)


def sigmoid_keys(o, f, scale, **more):
    return expert_keys(o, expert_shared_count=1, leading_dense_block_count=f.dense_layers, expert_gating_func=2, expert_weights_norm=True,
                       expert_weights_scale=scale, **more)


def deepseek_members(o):
    yarn = dict(rope_type="yarn", factor=float(YARN), original_max_position_embeddings=o.context // YARN, beta_fast=32.0, beta_slow=1.0,
                mscale=1.0, mscale_all_dim=1.0)
    return sigmoid_members(o, FAMILIES["deepseek_v3"], 2.5, n_group=groups(o)[0], topk_group=groups(o)[1], scoring_func="sigmoid",
                           topk_method="noaux_tc", kv_lora_rank=o.kv_rank, q_lora_rank=o.q_rank or None, qk_nope_head_dim=o.head_dim,
                           qk_rope_head_dim=o.rope_dim, v_head_dim=o.head_dim, head_dim=o.rope_dim, num_key_value_heads=o.heads,
                           attention_bias=False, rope_scaling=yarn)


def deepseek_keys(o):
    more = {"attention.q_lora_rank": o.q_rank} if o.q_rank else {}
    return sigmoid_keys(o, FAMILIES["deepseek_v3"], 2.5, expert_group_count=groups(o)[0], expert_group_used_count=groups(o)[1], **more, **{
        "attention.head_count_kv": 1, "attention.kv_lora_rank": o.kv_rank, "attention.key_length": o.kv_rank + o.rope_dim,
        "attention.value_length": o.kv_rank, "attention.key_length_mla": o.head_dim + o.rope_dim, "attention.value_length_mla": o.head_dim,
        "rope.dimension_count": o.rope_dim, "rope.scaling.type": "yarn", "rope.scaling.factor": float(YARN),
        "rope.scaling.original_context_length": o.context // YARN, "rope.scaling.yarn_log_multiplier": 0.1})


def glm_members(o):
    return sigmoid_members(o, FAMILIES["glm4_moe"], 1.5, n_group=1, topk_group=1, attention_bias=True, use_qk_norm=True,
                           partial_rotary_factor=0.5)


def glm_keys(o):
    return sigmoid_keys(o, FAMILIES["glm4_moe"], 1.5, **{"rope.dimension_count": o.head_dim // 2})


def gpt_oss_members(o):
    yarn = dict(rope_type="yarn", factor=float(YARN), original_max_position_embeddings=o.context // YARN, beta_fast=32.0, beta_slow=1.0,
                truncate=False)
    return dict(num_local_experts=o.experts, num_experts_per_tok=o.experts_used, intermediate_size=o.expert_inner, attention_bias=True,
                swiglu_limit=7.0, sliding_window=WINDOW, rope_scaling=yarn,
                layer_types=["full_attention" if layer % 2 else "sliding_attention" for layer in range(o.layers)])


def gpt_oss_keys(o):
    return expert_keys(o, feed_forward_length=o.expert_inner, **{
        "attention.sliding_window": WINDOW, "rope.scaling.type": "yarn", "rope.scaling.factor": float(YARN),
        "rope.scaling.original_context_length": o.context // YARN})


def hybrid_members(o, **more):
    return dict(full_attention_interval=o.interval, linear_num_key_heads=o.delta_keys, linear_num_value_heads=o.delta_values,
                linear_key_head_dim=o.delta_dim, linear_value_head_dim=o.delta_dim, linear_conv_kernel_dim=4, partial_rotary_factor=0.25,
                attention_bias=False, **more)


def hybrid_keys(o, **more):
    return {"full_attention_interval": o.interval, "ssm.conv_kernel": 4, "ssm.inner_size": o.delta_values * o.delta_dim,
            "ssm.state_size": o.delta_dim, "ssm.time_step_rank": o.delta_values, "ssm.group_count": o.delta_keys,
            "rope.dimension_count": o.head_dim // 4, **more}


def hybrid_family(classname, gguf, is_tiled, is_mixture):
    """Qwen3-Next and what came of it."""
    more = dict(mlp=experts, shared="shared_expert", has_shared_gate=True,
                members=lambda o: expert_members(o, **hybrid_members(o, shared_expert_intermediate_size=o.inner)),
                keys=lambda o: expert_keys(o, expert_shared_feed_forward_length=o.inner, **hybrid_keys(o)))
    return Family(classname, gguf, attention=hybrid, norms=LATE_NORMS, norm_offset=1, head_norms="each", has_gate=True, is_tiled=is_tiled,
                  **(more if is_mixture else dict(members=hybrid_members, keys=hybrid_keys)))


def longrope_factors(o):
    pairs = o.head_dim // 2
    return [1.0 + i / pairs for i in range(pairs)], [2.0 + 8.0 * i / pairs for i in range(pairs)]


def longrope_tensors(o):
    """A GGUF file has the factors in tensors."""
    for name, values in zip(("short", "long"), longrope_factors(o)) if o.is_gguf else ():
        yield Tensor(f"rope_factors_{name}.weight", (len(values),), values, [])


def longrope_members(o):
    """Rows of more than 32 positions have the long factors."""
    short, long = longrope_factors(o)
    return dict(original_max_position_embeddings=32, rope_scaling=dict(type="longrope", short_factor=short, long_factor=long))


def longrope_keys(o):
    return {"attention.sliding_window": 0, "rope.scaling.original_context_length": 32,
            "rope.scaling.attn_factor": math.sqrt(1 + math.log(o.context / 32) / math.log(32))}


def ministral_members(o):
    """Queries grow each 16 positions."""
    return dict(sliding_window=None, rope_parameters=dict(
        rope_type="yarn", rope_theta=o.rope_theta, factor=float(YARN), original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0,
        mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1))


def ministral_keys(o):
    return {"attention.temperature_scale": 0.1, "rope.scaling.type": "yarn", "rope.scaling.factor": float(YARN),
            "rope.scaling.original_context_length": 16, "rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0,
            "rope.scaling.yarn_log_multiplier": 1.0}


def minimax_members(o):
    return dict(num_local_experts=o.experts, num_experts_per_tok=o.experts_used, intermediate_size=o.expert_inner, rotary_dim=o.head_dim // 2,
                scoring_func="sigmoid", use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True)


def minimax_keys(o):
    return expert_keys(o, feed_forward_length=o.expert_inner, expert_gating_func=2, **{"rope.dimension_count": o.head_dim // 2})


def llama4_members(o):
    return dict(intermediate_size=o.expert_inner, intermediate_size_mlp=o.inner, num_local_experts=o.experts, num_experts_per_tok=o.experts_used,
                interleave_moe_layer_step=2, attention_chunk_size=8192, attn_temperature_tuning=True, floor_scale=8192, attn_scale=0.1,
                use_qk_norm=True, no_rope_layers=[], attention_bias=False)


def gemma4_members(o):
    more = dict(hidden_size_per_layer_input=GEMMA4_INPUT, vocab_size_per_layer_input=o.vocab, num_kv_shared_layers=gemma4_shared(o),
                use_double_wide_mlp=True)
    if o.family == "gemma4_experts":
        more = dict(hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=o.experts, top_k_experts=o.experts_used,
                    moe_intermediate_size=o.expert_inner, attention_k_eq_v=True, num_global_key_value_heads=1)
    types = ["full_attention" if gemma4_is_whole(o, layer) else "sliding_attention" for layer in range(o.layers)]
    ropes = dict(full_attention=dict(rope_type="proportional", partial_rotary_factor=0.25, rope_theta=1000000.0),
                 sliding_attention=dict(rope_type="default", rope_theta=10000.0))
    return dict(hidden_act=None, hidden_activation="gelu_pytorch_tanh", rope_theta=None, rope_parameters=ropes, layer_types=types,
                sliding_window=WINDOW, global_head_dim=2 * o.head_dim, final_logit_softcapping=30.0, **more)


def gemma4_keys(o):
    is_whole = [gemma4_is_whole(o, layer) for layer in range(o.layers)]
    has_experts, shared = o.family == "gemma4_experts", gemma4_shared(o)
    more = expert_keys(o) if has_experts else {}
    return {**more, "attention.head_count_kv": [1 if whole and has_experts else o.kv_heads for whole in is_whole],
            "feed_forward_length": [o.inner * (2 if layer >= o.layers - shared else 1) for layer in range(o.layers)],
            "attention.key_length": 2 * o.head_dim, "attention.value_length": 2 * o.head_dim, "attention.key_length_swa": o.head_dim,
            "attention.value_length_swa": o.head_dim, "attention.sliding_window": WINDOW,
            "attention.sliding_window_pattern": [not whole for whole in is_whole], "attention.shared_kv_layers": shared,
            "embedding_length_per_layer_input": 0 if has_experts else GEMMA4_INPUT, "rope.dimension_count": 2 * o.head_dim,
            "rope.dimension_count_swa": o.head_dim, "rope.freq_base": 1000000.0, "rope.freq_base_swa": 10000.0, "final_logit_softcapping": 30.0}


FAMILIES = {
    "llama": Family("LlamaForCausalLM", "llama", is_paired=True),
    "mistral": Family("MistralForCausalLM", "llama", is_paired=True, members=lambda o: dict(sliding_window=4096)),
    "qwen2": Family("Qwen2ForCausalLM", "qwen2", biases="qkv"),
    "qwen3": Family("Qwen3ForCausalLM", "qwen3", head_norms="each"),
    "gemma2": Family("Gemma2ForCausalLM", "gemma2", norms=GEMMA_NORMS, norm_offset=1,
                     members=lambda o: gemma(o, attn_logit_softcapping=50.0, final_logit_softcapping=30.0),
                     keys=lambda o: {"attention.sliding_window": WINDOW, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}),
    "gemma3_text": Family("Gemma3ForCausalLM", "gemma3", norms=GEMMA_NORMS, norm_offset=1, head_norms="each",
                          members=lambda o: gemma(o, sliding_window_pattern=2, rope_local_base_freq=10000.0),
                          keys=lambda o: {"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": 2}),
    "phi3": Family("Phi3ForCausalLM", "phi3", is_fused=True, keys=lambda o: {"attention.sliding_window": 0}),
    "phi3_longrope": Family("Phi3ForCausalLM", "phi3", "phi3", is_fused=True, more=longrope_tensors, members=longrope_members,
                            keys=longrope_keys),
    "olmo2": Family("Olmo2ForCausalLM", "olmo2", norms=POST_NORMS, head_norms="whole"),
    "smollm3": Family("SmolLM3ForCausalLM", "smollm3", is_paired=True),
    "granite": Family("GraniteForCausalLM", "granite", is_paired=True,
                      members=lambda o: dict(attention_multiplier=0.1, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0),
                      keys=lambda o: {"attention.scale": 0.1, "embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0}),
    "mixtral": Family("MixtralForCausalLM", "llama", mlp=experts, is_paired=True, module="block_sparse_moe", expert=("w1", "w3", "w2"),
                      members=lambda o: dict(num_local_experts=o.experts, num_experts_per_tok=o.experts_used, intermediate_size=o.expert_inner),
                      keys=lambda o: dict(expert_count=o.experts, expert_used_count=o.experts_used, feed_forward_length=o.expert_inner)),
    "qwen2_moe": Family("Qwen2MoeForCausalLM", "qwen2moe", mlp=experts, biases="qkv", shared="shared_expert", has_shared_gate=True,
                        members=lambda o: expert_members(o, norm_topk_prob=False, shared_expert_intermediate_size=o.inner),
                        keys=lambda o: expert_keys(o, expert_shared_feed_forward_length=o.inner)),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", "qwen3moe", mlp=experts, head_norms="each", members=expert_members, keys=expert_keys),
    "gpt_oss": Family("GptOssForCausalLM", "gpt-oss", mlp=gpt_oss_experts, norms=LATE_NORMS, biases="qkvo", has_sinks=True,
                      members=gpt_oss_members, keys=gpt_oss_keys),
    "deepseek_v3": Family("DeepseekV3ForCausalLM", "deepseek2", norm_eps=1e-6, attention=latent_attention, mlp=experts, shared="shared_experts",
                          has_correction=True, dense_layers=1, members=deepseek_members, keys=deepseek_keys),
    "glm4_moe": Family("Glm4MoeForCausalLM", "glm4moe", mlp=experts, norms=LATE_NORMS, biases="qkv", head_norms="each",
                       shared="shared_experts", has_correction=True, dense_layers=1, members=glm_members, keys=glm_keys),
    "glm4": Family("Glm4ForCausalLM", "glm4", norms=GLM4_NORMS, biases="qkv", has_fused_mlp=True,
                   members=lambda o: dict(attention_bias=True, partial_rotary_factor=0.5),
                   keys=lambda o: {"rope.dimension_count": o.head_dim // 2}),
    "seed_oss": Family("SeedOssForCausalLM", "seed_oss", norms=LATE_NORMS, biases="qkv",
                       members=lambda o: dict(attention_bias=True, attention_out_bias=False, mlp_bias=False)),
    "exaone4": Family("Exaone4ForCausalLM", "exaone4", norms=POST_NORMS, head_norms="each",
                      members=lambda o: dict(sliding_window=WINDOW, sliding_window_pattern=4),
                      keys=lambda o: {"attention.sliding_window": WINDOW,
                                      "attention.sliding_window_pattern": [layer % 4 != 3 for layer in range(o.layers)]}),
    "cohere2": Family("Cohere2ForCausalLM", "cohere2", norms={"input_layernorm": "attn_norm"},
                      members=lambda o: dict(sliding_window=WINDOW, logit_scale=0.25, layer_norm_eps=1e-5),
                      keys=lambda o: {"attention.sliding_window": WINDOW, "logit_scale": 0.25, "attention.layer_norm_epsilon": 1e-5}),
    "ministral3": Family("Ministral3ForCausalLM", "mistral3", is_paired=True, members=ministral_members, keys=ministral_keys),
    "minimax_m2": Family("MiniMaxM2ForCausalLM", "minimax-m2", mlp=experts, module="block_sparse_moe", expert=("w1", "w3", "w2"),
                         head_norms="whole", has_correction=True, correction="e_score_correction_bias", members=minimax_members,
                         keys=minimax_keys),
    "llama4_text": Family("Llama4ForCausalLM", "llama4", mlp=llama4_mlp, members=llama4_members,
                          keys=lambda o: expert_keys(o, interleave_moe_layer_step=2)),
    "gemma4_text": Family("Gemma4ForCausalLM", "gemma4", attention=gemma4_attention, mlp=gemma4_mlp, norms=GEMMA_NORMS, more=gemma4_tensors,
                          members=gemma4_members, keys=gemma4_keys),
    "gemma4_experts": Family("Gemma4ForCausalLM", "gemma4", "gemma4_text", attention=gemma4_attention, mlp=gemma4_mlp, norms=GEMMA_NORMS,
                             more=gemma4_tensors, members=gemma4_members, keys=gemma4_keys),
    "qwen3_next": hybrid_family("Qwen3NextForCausalLM", "qwen3next", False, True),
    "qwen3_5_text": hybrid_family("Qwen3_5ForCausalLM", "qwen35", True, False),
    "qwen3_5_moe_text": hybrid_family("Qwen3_5MoeForCausalLM", "qwen35moe", True, True),
}


def tensors_of(o):
    """The tensors of the model in the order of the file."""
    f = FAMILIES[o.family]
    yield one(o, "model.embed_tokens.weight", "token_embd.weight", (o.vocab, o.hidden), "embed")
    yield from f.more(o)
    for layer in range(o.layers):
        a, b = places(layer)
        for name, gguf in (f.norms or NORMS).items():
            yield one(o, f"{a}{name}.weight", f"{b}{gguf}.weight", (o.hidden,), "norm")
        yield from f.attention(o, f, layer)
        yield from f.mlp(o, f, layer)
    yield one(o, "model.norm.weight", "output_norm.weight", (o.hidden,), "norm")
    if not o.tied:
        yield one(o, "lm_head.weight", "output.weight", (o.vocab, o.hidden), "head")
